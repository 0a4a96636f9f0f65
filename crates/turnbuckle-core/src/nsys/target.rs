//! What the file says of the machine and of itself: devices, streams, versions, times.  Nothing that names a user or a host.

use crate::ReadError;
use crate::recording::{Column, Fact, Table, Values};
use crate::schema::{self, Type};
use crate::sqlite::{Database, quoted};
use arrow_buffer::NullBuffer;
use rusqlite::types::ValueRef;
use std::collections::{BTreeMap, BTreeSet};

const ROWS_AT_MOST: usize = 1 << 20;
const BYTES_AT_MOST: usize = 1 << 24;

/// A cell of a small table.
#[derive(Debug, Clone, PartialEq)]
enum Cell {
    Int(i64),
    Text(String),
    None,
}

/// Rows of a small table by column name; columns that the file lacks are `None`.
fn small(database: &Database, table: &str, wanted: &[&str]) -> Result<Vec<Vec<Cell>>, ReadError> {
    let columns = database.columns(table)?.0;
    if columns.is_empty() {
        return Ok(Vec::new());
    }
    let list: Vec<String> =
        wanted.iter().map(|w| if columns.iter().any(|c| c.name == *w) { quoted(w) } else { "NULL".to_owned() }).collect();
    let mut statement = database.connection.prepare(&format!("SELECT {} FROM {}", list.join(","), quoted(table)))?;
    let mut rows = statement.query([])?;
    let (mut out, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        if out.len() >= ROWS_AT_MOST || bytes > BYTES_AT_MOST {
            break;
        }
        let cell = |i: usize| match row.get_ref(i) {
            Ok(ValueRef::Integer(v)) => Cell::Int(v),
            Ok(ValueRef::Text(t)) => Cell::Text(String::from_utf8_lossy(t).into_owned()),
            _ => Cell::None,
        };
        let cells: Vec<Cell> = (0..wanted.len()).map(cell).collect();
        bytes += cells.iter().map(|c| if let Cell::Text(t) = c { t.len() } else { 0 }).sum::<usize>();
        out.push(cells);
    }
    Ok(out)
}

impl Cell {
    fn int(&self) -> Option<i64> {
        match self {
            Self::Int(v) => Some(*v),
            _ => None,
        }
    }

    fn times(&self, factor: i64) -> Self {
        self.int().and_then(|v| v.checked_mul(factor)).map_or(Self::None, Self::Int)
    }

    fn positive(&self) -> bool {
        self.int().is_some_and(|v| v > 0)
    }
}

/// A table of ours from rows of cells in the order of its columns.
fn table(name: &str, rows: Vec<Vec<Cell>>) -> Option<Table> {
    let spec = schema::table(name)?;
    if rows.is_empty() {
        return None;
    }
    let mut columns = Vec::new();
    for (position, column) in spec.columns.iter().enumerate() {
        let cells = rows.iter().map(|r| r.get(position).unwrap_or(&Cell::None));
        if column.kind == Type::Text {
            let texts = cells.map(|c| if let Cell::Text(t) = c { Some(t.clone()) } else { None }).collect();
            columns.push(Column { values: Values::Text(texts), valid: None });
            continue;
        }
        let fits = |v: i64| match column.kind {
            Type::Int32 => i32::try_from(v).is_ok(),
            Type::Int8 => i8::try_from(v).is_ok(),
            _ => true,
        };
        let numbers: Vec<Option<i64>> = cells.map(|c| c.int().filter(|v| fits(*v))).collect();
        let valid = numbers.iter().any(Option::is_none).then(|| NullBuffer::from_iter(numbers.iter().map(Option::is_some)));
        let numbers = numbers.into_iter().map(Option::unwrap_or_default);
        let values = match column.kind {
            Type::Int64 => Values::I64(numbers.collect()),
            Type::Int32 => Values::I32(numbers.map(|v| v as i32).collect()),
            _ => Values::I8(numbers.map(|v| v as i8).collect()),
        };
        columns.push(Column { values, valid });
    }
    Some(Table { spec, rows: rows.len(), columns })
}

/// Process id (0 where the file names none), device number in that process, number of the GPU on its machine.
fn seen_as(database: &Database) -> Result<Vec<(i64, i64, i64)>, ReadError> {
    let rows = small(database, "TARGET_INFO_CUDA_DEVICE", &["pid", "cudaId", "gpuId"])?;
    Ok(rows.iter().filter_map(|r| Some((r[0].int().unwrap_or(0), r[1].int()?, r[2].int()?))).collect())
}

/// Whether one device number means several GPUs, as where every rank is shown a GPU of its own.
fn differ(seen: &[(i64, i64, i64)]) -> bool {
    let mut known = BTreeMap::new();
    seen.iter().any(|(_, number, gpu)| *known.entry(number).or_insert(gpu) != gpu)
}

/// Where processes number their devices each for itself: the machine's number of each, under ``process id/device number``.
///
/// # Errors
/// P005 where SQLite finds the table damaged.
pub fn own_numbers(database: &Database) -> Result<Fact, ReadError> {
    let seen = seen_as(database)?;
    if !differ(&seen) {
        return Ok(Fact::Missing);
    }
    Ok(Fact::Counts(seen.into_iter().map(|(process, number, gpu)| (format!("{process}/{number}"), gpu)).collect()))
}

/// The `devices` table: from `TARGET_INFO_GPU`, or `TARGET_INFO_CUDA_GPU` before 2021.  Display adapters without CUDA are left out.
///
/// # Errors
/// P005 where SQLite finds a table damaged.
pub fn devices(database: &Database) -> Result<Option<Table>, ReadError> {
    let cuda = small(
        database,
        "TARGET_INFO_CUDA_GPU",
        &[
            "deviceId",
            "name",
            "globalMemorySize",
            "globalMemoryBandwidth",
            "coreClockRate",
            "numMultiprocessors",
            "numMemcpyEngines",
            "computeCapabilityMajor",
            "computeCapabilityMinor",
        ],
    )?;
    if !cuda.is_empty() {
        let discrete: BTreeMap<i64, Cell> = small(database, "TARGET_INFO_GPU", &["deviceId", "isDiscrete"])?
            .into_iter()
            .filter_map(|r| r[0].int().map(|id| (id, r[1].clone())))
            .collect();
        let mut rows = BTreeMap::new();
        for r in cuda {
            let Some(id) = r[0].int() else { continue };
            let is_discrete = discrete.get(&id).cloned().unwrap_or(Cell::None);
            let row = vec![
                r[0].clone(),
                r[1].clone(),
                Cell::None,
                is_discrete,
                r[2].clone(),
                r[3].times(1000), // kB/s
                r[4].times(1000), // kHz
                r[5].clone(),
                r[6].clone(),
                r[7].clone(),
                r[8].clone(),
            ];
            rows.entry(id).or_insert(row);
        }
        return Ok(table("devices", rows.into_values().collect()));
    }
    let wanted = [
        "cuDevice",
        "name",
        "chipName",
        "isDiscrete",
        "totalMemory",
        "memoryBandwidth",
        "clockRate",
        "smCount",
        "asyncEngines",
        "computeMajor",
        "computeMinor",
        "id",
    ];
    let gpus = small(database, "TARGET_INFO_GPU", &wanted)?;
    let seen = seen_as(database)?;
    let apart = differ(&seen);
    let mut numbers: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
    for (_, number, gpu) in &seen {
        numbers.entry(*gpu).or_default().insert(*number);
    }
    let mut rows = Vec::new();
    for mut r in gpus {
        if !r[4].positive() && !r[7].positive() {
            continue;
        }
        // One number for all processes, or else the profiler's own; the machine's where processes number their devices each for itself.
        if apart {
            r[0] = r[11].clone();
        } else if let Some(known) = r[11].int().and_then(|id| numbers.get(&id))
            && known.len() == 1
        {
            r[0] = known.first().map_or(Cell::None, |n| Cell::Int(*n));
        }
        for place in [4, 5, 6, 7, 8] {
            if !r[place].positive() && place != 8 {
                r[place] = Cell::None;
            }
        }
        r.truncate(11);
        rows.push(r);
    }
    rows.sort_by_key(|r| r[0].int());
    Ok(table("devices", rows))
}

/// The `streams` table; `process` is the global process id, as in every other table.
///
/// # Errors
/// P005 where SQLite finds the table damaged.
pub fn streams(database: &Database) -> Result<Option<Table>, ReadError> {
    let mut rows = Vec::new();
    for r in small(database, "TARGET_INFO_CUDA_STREAM", &["processId", "contextId", "streamId", "priority", "flag", "hwId", "vmId"])? {
        let process = match (r[0].int(), r[5].int(), r[6].int()) {
            (Some(pid @ 0..0x100_0000), Some(hw @ 0..0x100), Some(vm @ 0..0x100)) => {
                Cell::Int(((hw << 56) as u64 | (vm << 48) as u64 | (pid << 24) as u64) as i64)
            }
            (Some(pid), _, _) => Cell::Int(pid),
            _ => Cell::None,
        };
        // Priorities are negative numbers written as unsigned 32-bit ones.
        let priority =
            r[3].int().map_or(Cell::None, |p| Cell::Int(if p > i64::from(i32::MAX) && p <= 0xFFFF_FFFF { p - (1 << 32) } else { p }));
        rows.push(vec![process, r[1].clone(), r[2].clone(), priority, r[4].clone()]);
    }
    Ok(table("streams", rows))
}

/// Versions and times of the recording.  Of the export's own table only the version rows are read: others name host, user and paths.
///
/// # Errors
/// P005 where SQLite finds a table damaged.
pub fn facts(database: &Database, exists: impl Fn(&str) -> bool) -> Result<Vec<(&'static str, Fact)>, ReadError> {
    let mut version = (None, None);
    for table in ["META_DATA_EXPORT", "EXPORT_META_DATA"] {
        let columns = if exists(table) { database.columns(table)?.0 } else { Vec::new() };
        if !["name", "value"].iter().all(|w| columns.iter().any(|c| c.name == *w)) {
            continue;
        }
        let read = |key: &str| -> Result<Option<String>, ReadError> {
            let mut statement = database.connection.prepare(&format!("SELECT value FROM {table} WHERE name = ?1"))?;
            let mut rows = statement.query([key])?;
            Ok(match rows.next()?.map(|r| r.get_ref(0)) {
                Some(Ok(ValueRef::Text(t))) => Some(version_text(t)),
                Some(Ok(ValueRef::Integer(v))) => Some(v.to_string()),
                _ => None,
            })
        };
        let whole = read("EXPORT_SCHEMA_VERSION")?;
        let parts = [read("EXPORT_SCHEMA_VERSION_MAJOR")?, read("EXPORT_SCHEMA_VERSION_MINOR")?, read("EXPORT_SCHEMA_VERSION_MICRO")?];
        let joined = parts.iter().cloned().collect::<Option<Vec<_>>>().map(|p| p.join("."));
        version = (version.0.or(whole).or(joined), version.1.or(read("EXPORT_PRODUCT_VERSION")?));
    }
    let first = |table: &str, column: &str| -> Result<Fact, ReadError> {
        if !exists(table) {
            return Ok(Fact::Missing);
        }
        Ok(small(database, table, &[column])?.first().and_then(|r| r[0].int()).map_or(Fact::Missing, Fact::Int))
    };
    let text = |t: Option<String>| t.map_or(Fact::Missing, Fact::Text);
    Ok(vec![
        ("schema_version", text(version.0)),
        ("product_version", text(version.1)),
        ("session_start_utc_ns", first("TARGET_INFO_SESSION_START_TIME", "utcEpochNs")?),
        ("analysis_duration_ns", first("ANALYSIS_DETAILS", "duration")?),
    ])
}

/// A version as text: what is not a version's character is dropped, so that no other text can ride in it.
fn version_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().filter(|c| c.is_ascii_alphanumeric() || ".-+ ".contains(*c)).take(40).collect()
}
