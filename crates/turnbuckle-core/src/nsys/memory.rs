//! Memory kinds: two numberings are in use, and the number alone does not say which.

use super::mapping::DEVICE_TABLES;
use crate::ReadError;
use crate::recording::{Finding, Table, Values};
use crate::sqlite::Database;

/// Kinds of ours, as indices of `memories` in `codes.csv`.
const UNKNOWN: i8 = 0;
const DEVICE: i8 = 3;
/// From the profiler's own numbering: pageable, pinned, device, array, managed, device static, managed static, unknown.
const NSYS: [i8; 8] = [1, 2, DEVICE, 4, 5, 6, 7, UNKNOWN];
/// From CUPTI's numbering, which is ours: unknown, pageable, pinned, device, array, managed, device static, managed static.
const CUPTI: [i8; 8] = [UNKNOWN, 1, 2, DEVICE, 4, 5, 6, 7];

const WORDS: [(&str, i8); 8] = [
    ("UNKNOWN", UNKNOWN),
    ("PAGEABLE", 1),
    ("PINNED", 2),
    ("DEVICE", DEVICE),
    ("ARRAY", 4),
    ("MANAGED", 5),
    ("DEVICE_STATIC", 6),
    ("MANAGED_STATIC", 7),
];

/// Our kind for each raw kind of this file, from the file's own list by name, or `None` where it has no such list.
///
/// # Errors
/// P005 where SQLite finds the list damaged.
pub fn from_enum(database: &Database) -> Result<Option<[i8; 8]>, ReadError> {
    let columns = database.columns("ENUM_CUDA_MEM_KIND")?.0;
    let has = |name: &str| columns.iter().any(|c| c.name == name);
    if !has("id") || !has("name") {
        return Ok(None);
    }
    let label = if has("label") { "label" } else { "name" };
    let mut out = [UNKNOWN; 8];
    let mut known = 0;
    let mut statement = database.connection.prepare(&format!("SELECT id, name, {label} FROM ENUM_CUDA_MEM_KIND"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let Ok(id) = row.get::<_, i64>(0) else { continue };
        let word = |i: usize| row.get::<_, String>(i).unwrap_or_default().to_ascii_uppercase().replace([' ', '-'], "_");
        let name = word(1);
        let name = name.rsplit_once("KIND_").map_or(name.as_str(), |(_, tail)| tail);
        let found = WORDS.iter().find(|(w, _)| *w == name || *w == word(2));
        if let (Some((_, kind)), Some(place)) = (found, usize::try_from(id).ok().and_then(|i| out.get_mut(i))) {
            *place = *kind;
            known += 1;
        }
    }
    Ok((known >= 3).then_some(out))
}

/// Which numbering the copies speak for: the device side of a copy between host and device must be "device".
fn from_copies(tables: &[Table]) -> Option<[i8; 8]> {
    let mut votes = [0u64; 2];
    fn vote(votes: &mut [u64; 2], raw: Option<i64>) {
        match raw {
            Some(2) => votes[0] += 1,
            Some(3) => votes[1] += 1,
            _ => {}
        }
    }
    if let Some(copies) = tables.iter().find(|t| t.spec.name == "copies")
        && let (Some(direction), Some(source), Some(target)) =
            (copies.column("direction"), copies.column("source_memory"), copies.column("target_memory"))
    {
        for row in 0..copies.rows {
            match direction.get(row) {
                Some(1) => vote(&mut votes, target.get(row)),
                Some(2) => vote(&mut votes, source.get(row)),
                _ => {}
            }
        }
    }
    if votes == [0, 0]
        && let Some(memory) = tables.iter().find(|t| t.spec.name == "memsets").and_then(|t| t.column("memory").map(|c| (t.rows, c)))
    {
        (0..memory.0).for_each(|row| vote(&mut votes, memory.1.get(row)));
    }
    match votes[0].cmp(&votes[1]) {
        std::cmp::Ordering::Greater => Some(NSYS),
        std::cmp::Ordering::Less => Some(CUPTI),
        std::cmp::Ordering::Equal => None,
    }
}

/// Renumber every memory column.  Counts P112 (CUPTI's numbering), P113 (host side unknown) and P127 (unknown kind of copy).
pub fn renumber(tables: &mut [Table], from_file: Option<[i8; 8]>, findings: &mut Vec<Finding>) {
    let map = from_file.or_else(|| from_copies(tables));
    let mut renumbered = 0u64;
    for table in tables.iter_mut() {
        for (spec, column) in table.spec.columns.iter().zip(&mut table.columns) {
            if !matches!(spec.name, "memory" | "source_memory" | "target_memory") {
                continue;
            }
            if let Values::I8(values) = &mut column.values {
                for value in values.iter_mut() {
                    *value = usize::try_from(*value).ok().and_then(|raw| map.and_then(|m| m.get(raw).copied())).unwrap_or(UNKNOWN);
                }
            }
        }
        if map == Some(CUPTI)
            && DEVICE_TABLES.contains(&table.spec.name)
            && table.spec.position("memory").or(table.spec.position("source_memory")).is_some()
        {
            renumbered += table.rows as u64;
        }
    }
    if renumbered > 0 {
        findings.push(Finding { code: "P112", count: renumbered, detail: "copies and sets".to_owned() });
    }
    let Some(copies) = tables.iter().find(|t| t.spec.name == "copies") else { return };
    let (Some(direction), Some(source), Some(target)) =
        (copies.column("direction"), copies.column("source_memory"), copies.column("target_memory"))
    else {
        return;
    };
    let (mut host, mut kind) = (0, 0);
    for row in 0..copies.rows {
        match direction.get(row) {
            Some(0) => kind += 1,
            Some(1) => host += u64::from(source.get(row) == Some(0)),
            Some(2) => host += u64::from(target.get(row) == Some(0)),
            _ => {}
        }
    }
    for (code, count) in [("P113", host), ("P127", kind)] {
        if count > 0 {
            findings.push(Finding { code, count, detail: "CUPTI_ACTIVITY_KIND_MEMCPY".to_owned() });
        }
    }
}
