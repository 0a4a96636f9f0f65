//! A small export made here: what is read from it, and that no damage to it does harm.

use rusqlite::Connection;
use std::path::{Path, PathBuf};
use turnbuckle_core::nsys::{Options, read};
use turnbuckle_core::recording::{Fact, Recording, Values};
use turnbuckle_core::{ReadError, schema};

const PID: i64 = 1 << 48 | 4242 << 24;

fn make(folder: &Path, name: &str, extra: &str) -> PathBuf {
    let path = folder.join(name);
    let connection = Connection::open(&path).expect("create");
    connection
        .execute_batch(&format!(
            "PRAGMA page_size=512; PRAGMA journal_mode=OFF; BEGIN;
             CREATE TABLE StringIds(id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
             INSERT INTO StringIds VALUES (0,'cudaLaunchKernel_v7000'),(1,'void k<int>(int*)'),(2,'k'),(3,'never referred to'),(9,'range');
             CREATE TABLE META_DATA_EXPORT(name TEXT, value TEXT);
             INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION','3.7.2'),('EXPORT_PRODUCT_VERSION','2023.4'),('EXPORT_HOST','SECRET');
             CREATE TABLE META_DATA_CAPTURE(name TEXT, value TEXT);
             INSERT INTO META_DATA_CAPTURE VALUES ('COMMAND','SECRET');
             CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER);
             CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER,
                globalPid INTEGER, demangledName INTEGER, shortName INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER);
             CREATE TABLE NVTX_EVENTS(start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER, textId INTEGER, domainId INTEGER);
             WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 299)
                INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT 1000 * i, 1000 * i + 500, 0, {PID} + 7, i, 0, 0 FROM n;
             INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT start + 600, end + 700, 0, 1, 7, correlationId, {PID}, 1, 2, 4, 5, 6 FROM CUPTI_ACTIVITY_KIND_RUNTIME ORDER BY start DESC;
             INSERT INTO NVTX_EVENTS VALUES (5, 9, 59, 'inline', {PID} + 7, NULL, 0), (6, NULL, 34, NULL, {PID} + 7, 9, 0), (7, 8, 59, 'inline', {PID} + 7, 9, 0);
             {extra}; COMMIT;"
        ))
        .expect("fill");
    path
}

/// Every value of a table, row by row.
fn values(recording: &Recording, table: &str) -> Vec<Vec<Option<i64>>> {
    let table = recording.table(table).expect("table");
    (0..table.rows).map(|row| table.columns.iter().map(|c| c.get(row)).collect()).collect()
}

fn open(path: &Path) -> Result<Recording, ReadError> {
    read(path, Options { threads: 2 }, &mut |_| true)
}

#[test]
fn a_small_export_is_read_whole() {
    let folder = tempfile::tempdir().expect("folder");
    let recording = open(&make(folder.path(), "a", "SELECT 1")).expect("read");
    let kernels = recording.table("kernels").expect("kernels");
    assert_eq!(kernels.rows, 300);
    let Values::I64(starts) = &kernels.column("start_ns").expect("start").values else { panic!("type") };
    assert!(starts.is_sorted() && starts[0] == 600);
    assert_eq!(kernels.column("blocks").expect("blocks").get(0), Some(120));
    assert_eq!(kernels.column("threads").expect("threads").get(0), None);
    let text = |table: &str, row: usize| {
        recording.table(table).and_then(|t| t.column("name")).and_then(|c| c.get(row)).map(|i| recording.names[i as usize].as_str())
    };
    assert_eq!(text("api", 3), Some("cudaLaunchKernel"));
    assert_eq!(text("kernels", 3), Some("void k<int>(int*)"));
    assert_eq!([text("ranges", 0), text("ranges", 1), text("ranges", 2)], [Some("inline"), Some("range"), Some("inline")]);
    assert_eq!(recording.names.len(), 5);
    assert_eq!(recording.fact("schema_version"), Some(&Fact::Text("3.7.2".into())));
    assert!(recording.findings.iter().any(|f| f.code == "P114" && f.detail == "kernels"));
    assert!(!format!("{recording:?}").contains("SECRET"));
    for table in &recording.tables {
        assert_eq!(table.columns.len(), schema::table(table.spec.name).expect("table").columns.len());
        assert_eq!(table.clone().into_batch().expect("batch").num_rows(), table.rows);
    }
}

#[test]
fn any_number_of_threads_reads_the_same() {
    let folder = tempfile::tempdir().expect("folder");
    let path = make(folder.path(), "threads", "SELECT 1");
    let with = |threads| read(&path, Options { threads }, &mut |_| true).expect("read");
    let one = with(1);
    for other in [with(2), with(7)] {
        for table in ["api", "kernels", "ranges"] {
            assert!(values(&one, table) == values(&other, table), "{table}");
        }
        assert_eq!((&one.names, &one.findings), (&other.names, &other.findings));
    }
}

#[test]
fn a_log_beside_the_file_is_read_through_sqlite() {
    let folder = tempfile::tempdir().expect("folder");
    let path = make(folder.path(), "wal", "SELECT 1");
    let plain = open(&path).expect("read");
    let writer = Connection::open(&path).expect("open");
    writer.execute_batch("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL LIMIT 1").expect("write");
    let logged = open(&path).expect("read");
    assert_eq!(plain.table("kernels").map(|t| t.rows + 1), logged.table("kernels").map(|t| t.rows));
    assert!(values(&plain, "api") == values(&logged, "api"));
    drop(writer);
    assert_eq!(open(&path).expect("read").table("kernels").map(|t| t.rows), Some(301));
}

#[test]
fn utf16_reads_like_utf8() {
    let folder = tempfile::tempdir().expect("folder");
    let plain = open(&make(folder.path(), "u8", "SELECT 1")).expect("read");
    let path = folder.path().join("u16");
    let copy = Connection::open(&path).expect("open");
    copy.execute_batch("PRAGMA encoding='UTF-16le'; CREATE TABLE keep(a)").expect("make");
    let source = Connection::open(folder.path().join("u8")).expect("open");
    let mut list = source.prepare("SELECT name, sql FROM sqlite_master").expect("list");
    let tables: Vec<(String, String)> =
        list.query_map([], |r| Ok((r.get(0)?, r.get(1)?))).expect("list").map(|r| r.expect("row")).collect();
    for (name, sql) in tables {
        copy.execute_batch(&sql).expect("create");
        let mut rows = source.prepare(&format!("SELECT * FROM {name}")).expect("select");
        let width = rows.column_count();
        let mut rows = rows.query([]).expect("query");
        while let Some(row) = rows.next().expect("row") {
            let values: Vec<rusqlite::types::Value> = (0..width).map(|i| row.get(i).expect("value")).collect();
            copy.execute(&format!("INSERT INTO {name} VALUES ({})", vec!["?"; width].join(",")), rusqlite::params_from_iter(values))
                .expect("insert");
        }
    }
    drop(copy);
    let other = open(&path).expect("read");
    for table in ["api", "kernels", "ranges"] {
        assert!(values(&plain, table) == values(&other, table), "{table}");
    }
    assert_eq!(plain.names, other.names);
}

#[test]
fn a_stop_is_obeyed() {
    let folder = tempfile::tempdir().expect("folder");
    let path = make(folder.path(), "stop", "SELECT 1");
    assert_eq!(read(&path, Options::default(), &mut |_| false).expect_err("stopped"), ReadError::Cancelled);
    let mut left = 3;
    let outcome = read(&path, Options::default(), &mut |share| {
        left -= 1;
        share < 1.0 && left >= 0
    });
    assert_eq!(outcome.expect_err("stopped"), ReadError::Cancelled);
}

/// Change single bytes and whole page numbers: every outcome is a recording or a coded error.
#[test]
fn damage_gives_a_coded_error_or_a_recording() {
    let folder = tempfile::tempdir().expect("folder");
    let good = std::fs::read(make(folder.path(), "good", "SELECT 1")).expect("bytes");
    let path = folder.path().join("bad");
    let mut state = 0x2545_F491_4F6C_DD1Du64;
    let mut roll = |sides: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % sides as u64) as usize
    };
    let rounds = std::env::var("TURNBUCKLE_DAMAGE_ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(200);
    let (mut read_well, mut refused) = (0, 0);
    for _ in 0..rounds {
        let mut bad = good.clone();
        for _ in 0..1 + roll(3) {
            match roll(4) {
                0 => {
                    let at = roll(bad.len());
                    bad[at] = roll(256) as u8;
                }
                1 => {
                    // The first bytes of a page: kind, count, pointers, children.
                    let at = roll(bad.len() / 512) * 512 + roll(24);
                    bad[at] = roll(256) as u8;
                }
                2 => {
                    let at = roll(bad.len() - 4);
                    let page = roll(good.len() / 512 + 2) as u32;
                    bad[at..at + 4].copy_from_slice(&page.to_be_bytes());
                }
                _ => {
                    let (from, to) = (roll(bad.len() / 512) * 512, roll(bad.len() / 512) * 512);
                    bad.copy_within(from..from + 512, to);
                }
            }
        }
        std::fs::write(&path, &bad).expect("write");
        match open(&path) {
            Ok(_) => read_well += 1,
            Err(error) => {
                assert!(error.code().starts_with("P0"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(read_well > 0 && refused > 0, "{read_well} read, {refused} refused");
}
