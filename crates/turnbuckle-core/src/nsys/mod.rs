//! Nsight Systems SQLite exports, every schema from the nameless ones of 2019 to 3.25.

mod count;
mod fill;
mod finish;
mod mapping;
mod memory;
mod names;
mod order;
mod part;
mod plan;
mod target;

use crate::ReadError;
use crate::digest;
use crate::progress::Watch;
use crate::recording::{Fact, Finding, Recording, Table};
use crate::sqlite::pages::{Claimed, Pages};
use crate::sqlite::{Database, Header, TableEntry};
use count::Counts;
use mapping::{DESCRIBING, DEVICE_TABLES, EVENT_TABLES, SECRET, SOURCES};
use plan::Plan;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// How to read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Threads that read; 0 takes as many as there are cores.
    pub threads: usize,
}

/// Called with the share of the work done: 0 at the start, 1 at the end, often in between; returning false stops the read.
pub type Progress<'a> = &'a mut dyn FnMut(f64) -> bool;

const TICK: Duration = Duration::from_millis(50);

/// Read a recording.
///
/// # Errors
/// Coded errors P001 to P010; see the manual's list.  Never panics on any content of the file.
pub fn read(path: &Path, options: Options, progress: Progress<'_>) -> Result<Recording, ReadError> {
    let file = File::open(path)?;
    let meta = file.metadata()?;
    if meta.is_dir() {
        return Err(ReadError::new("P002", "the path is a directory", "", "", "name the .sqlite file inside it"));
    }
    let size = meta.len();
    let header = Header::read(&file, size)?;
    let database = Database::open(path, header)?;
    let pages = Pages::new(&file, &header);
    let watch = Watch::default();
    let outcome = std::thread::scope(|scope| {
        let hashing = scope.spawn(|| digest::sha256(&file, size, &watch));
        let reading =
            Reader { path, file: &file, database: &database, pages: &pages, watch: &watch, threads: options.threads }.read(progress);
        if reading.is_err() {
            watch.stop();
        }
        while !hashing.is_finished() {
            if !progress(watch.fraction()) {
                watch.stop();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let digest = hashing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        reading.and_then(|r| digest.map(|d| (r, d)))
    });
    let (mut recording, digest) = outcome?;
    let now = file.metadata()?;
    if (now.len(), now.mtime(), now.mtime_nsec()) != (size, meta.mtime(), meta.mtime_nsec()) {
        return Err(ReadError::locked("the file changed while it was read"));
    }
    if !progress(1.0) {
        return Err(ReadError::Cancelled);
    }
    recording.facts.push(("size_bytes", Fact::Int(i64::try_from(size).unwrap_or(i64::MAX))));
    recording.facts.push(("sha256", Fact::Text(digest)));
    Ok(recording)
}

struct Reader<'a> {
    path: &'a Path,
    file: &'a File,
    database: &'a Database,
    pages: &'a Pages<'a>,
    watch: &'a Watch,
    threads: usize,
}

impl Reader<'_> {
    fn read(&self, progress: Progress<'_>) -> Result<Recording, ReadError> {
        if !progress(0.0) {
            return Err(ReadError::Cancelled);
        }
        let mut claimed = Claimed::new(self.database.header.pages);
        count::check_master(self, &mut claimed)?;
        let entries = self.database.tables()?;
        let has = |name: &str| entries.iter().any(|t| t.name == name);
        known_format(&entries)?;
        let counts = count::count(self, &entries, &mut claimed, progress)?;
        let mut findings = Vec::new();
        let mut plans: Vec<Plan> = Vec::new();
        for source in SOURCES.iter().filter(|s| counts.of(s.table) > 0) {
            let (columns, generated) = self.database.columns(source.table)?;
            match plan::plan(source, &columns, generated)? {
                Some(plan) => plans.push(plan),
                None => findings.push(Finding {
                    code: "P108",
                    count: 1,
                    detail: format!("{} left out: it lacks {}", source.table, source.required.join(" or ")),
                }),
            }
        }
        if !plans.iter().any(|p| EVENT_TABLES.contains(&p.spec.name)) {
            return Err(ReadError::new(
                "P007",
                "the recording holds no events",
                "no CUDA, NVTX, MPI or OS runtime table has a row",
                "the recording was made without tracing, or it failed",
                "record with nsys profile --trace=cuda,nvtx,mpi,osrt",
            ));
        }
        let (filled, tally) = fill::fill(self, &plans, &counts, progress)?;
        let (mut tables, names) = finish::finish(self, &plans, &counts, filled, tally, &mut findings)?;
        memory::renumber(&mut tables, memory::from_enum(self.database)?, &mut findings);
        let devices = target::devices(self.database)?;
        if devices.is_none() {
            findings.push(Finding { code: "P123", count: 1, detail: String::new() });
        }
        tables.extend(devices);
        tables.extend(target::streams(self.database)?);
        let mut facts = vec![("format", Fact::Text("nsys".to_owned()))];
        facts.extend(target::facts(self.database, has)?);
        facts.push(("own_device_numbers", target::own_numbers(self.database)?));
        whole_file(&entries, &counts, &plans, &mut findings);
        contents(&tables, &names, &mut findings);
        let listed = entries.iter().map(|t| (t.name.clone(), i64::try_from(counts.of(&t.name)).unwrap_or(i64::MAX))).collect();
        facts.push(("tables", Fact::Counts(listed)));
        Ok(Recording { tables, names, facts, findings })
    }
}

/// P006 unless the tables are those of an Nsight Systems export.
fn known_format(entries: &[TableEntry]) -> Result<(), ReadError> {
    let has = |name: &str| entries.iter().any(|t| t.name == name);
    let starts = |head: &str| entries.iter().any(|t| t.name.starts_with(head));
    let nvprof = has("StringTable") || has("CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL");
    let known = has("META_DATA_EXPORT")
        || has("EXPORT_META_DATA")
        || (has("StringIds") && !nvprof)
        || SOURCES.iter().any(|s| has(s.table) && !nvprof);
    if known {
        return Ok(());
    }
    let (found, fix) = if nvprof {
        ("its tables are those of nvprof or the Visual Profiler", "record the application again with nsys profile --trace=cuda")
    } else if starts("rocpd_") {
        ("its tables are those of rocprofv3 (rocpd)", "this version reads Nsight Systems exports")
    } else {
        ("none of its tables is one that Nsight Systems writes", "nsys export --type sqlite REPORT.nsys-rep writes the file to read")
    };
    Err(ReadError::new("P006", "the SQLite file is not an Nsight Systems export", found, "another program wrote it", fix))
}

/// Findings about the file as a whole: absent columns, secrets, unread tables.
fn whole_file(entries: &[TableEntry], counts: &Counts, plans: &[Plan], findings: &mut Vec<Finding>) {
    let filled = |name: &str| counts.of(name) > 0;
    let absent: Vec<&str> = plans.iter().flat_map(|p| p.absent.iter().map(String::as_str)).collect();
    if !absent.is_empty() {
        findings.push(Finding { code: "P108", count: absent.len() as u64, detail: some(&absent) });
    }
    let secret: Vec<&str> = SECRET.iter().copied().filter(|t| filled(t)).collect();
    if !secret.is_empty() {
        findings.push(Finding { code: "P119", count: 1, detail: secret.join(", ") });
    }
    let read = |name: &str| plans.iter().any(|p| p.source.table == name);
    let unread: Vec<&str> = entries
        .iter()
        .map(|t| t.name.as_str())
        .filter(|t| filled(t) && !read(t) && !t.starts_with("ENUM_") && !DESCRIBING.contains(t))
        .filter(|t| t.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && t.len() <= 64)
        .collect();
    if !unread.is_empty() {
        findings.push(Finding { code: "P120", count: unread.len() as u64, detail: some(&unread) });
    }
}

/// Findings about what was recorded: no GPU activity, MPI as NVTX ranges only.
fn contents(tables: &[Table], names: &[String], findings: &mut Vec<Finding>) {
    let table = |name: &str| tables.iter().find(|t| t.spec.name == name);
    if !DEVICE_TABLES.iter().any(|t| table(t).is_some()) {
        findings.push(Finding { code: "P130", count: 1, detail: String::new() });
    }
    if let (Some(ranges), None) = (table("ranges"), table("mpi")) {
        let (Some(kind), Some(domain), Some(thread)) = (ranges.column("kind"), ranges.column("domain"), ranges.column("thread")) else {
            return;
        };
        let key = |row: usize| (thread.get(row).map(|t| t & !0xFF_FFFF), domain.get(row));
        let domains: Vec<_> =
            names::rows_named(ranges, "name", names, "MPI").into_iter().filter(|r| kind.get(*r) == Some(75)).map(key).collect();
        let count = (0..ranges.rows).filter(|r| matches!(kind.get(*r), Some(59 | 60)) && domains.contains(&key(*r))).count();
        if count > 0 {
            findings.push(Finding { code: "P131", count: count as u64, detail: "NVTX_EVENTS".to_owned() });
        }
    }
}

fn some(list: &[&str]) -> String {
    let more = list.len().saturating_sub(6);
    let shown = list.iter().take(6).copied().collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}
