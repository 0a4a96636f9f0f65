//! The page decoder against SQLite itself: the same cells from random tables, and no wrong step on damaged ones.

use rusqlite::{Connection, ToSql, types::Value};
use std::fs::File;
use std::path::{Path, PathBuf};
use turnbuckle_core::ReadError;
use turnbuckle_core::sqlite::batch::{Batch, kind};
use turnbuckle_core::sqlite::pages::{Claimed, Decoder, Layout, Pages, Tree};
use turnbuckle_core::sqlite::{Database, Header, rows};

/// A small generator of numbers that are the same on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn value(&mut self) -> Value {
        match self.roll(12) {
            0 => Value::Null,
            1 => Value::Integer(self.roll(2) as i64),
            2 => Value::Integer(i64::MAX),
            3 => Value::Integer(i64::MIN),
            4..=6 => {
                let bits = self.roll(63);
                let value = (self.roll(u64::MAX) >> bits) as i64;
                Value::Integer(if self.roll(2) == 0 { value } else { value.wrapping_neg() })
            }
            7 => Value::Real(self.roll(1000) as f64 / 7.0),
            8 => Value::Text("é".repeat(self.roll(20) as usize)),
            9 => Value::Text("x".repeat(self.roll(9000) as usize)),
            10 => Value::Blob(vec![7; self.roll(3000) as usize]),
            _ => Value::Text(String::new()),
        }
    }
}

/// One cell, told apart by kind and content; blobs by kind only, as the readers take them.
#[derive(Debug, PartialEq)]
enum Cell {
    Null,
    Int(i64),
    Real(u64),
    Text(Vec<u8>),
    Blob,
}

fn cells(batch: &Batch, out: &mut Vec<Vec<Cell>>) {
    for row in 0..batch.rows {
        let cell = |slot: &turnbuckle_core::sqlite::batch::Slot| match slot.kinds[row] {
            kind::INT => Cell::Int(slot.values[row]),
            kind::REAL => Cell::Real(slot.values[row] as u64),
            kind::TEXT => Cell::Text(batch.text(slot.values[row]).to_vec()),
            kind::BLOB => Cell::Blob,
            _ => Cell::Null,
        };
        out.push(batch.slots.iter().map(cell).collect());
    }
}

struct Opened {
    file: File,
    header: Header,
    database: Database,
}

fn open(path: &Path) -> Result<Opened, ReadError> {
    let file = File::open(path)?;
    let header = Header::read(&file, file.metadata()?.len())?;
    let database = Database::open(path, header)?;
    Ok(Opened { file, header, database })
}

fn tree(opened: &Opened, table: &str) -> Tree {
    let entry = opened.database.tables().expect("tables").into_iter().find(|t| t.name == table).expect("table");
    let pages = Pages::new(&opened.file, &opened.header);
    pages.walk(entry.root, true, &mut Claimed::new(opened.header.pages), &mut || false).expect("walk")
}

/// Both ways to the same columns.
fn both(path: &Path, table: &str, wanted: &[&str]) -> (Vec<Vec<Cell>>, Vec<Vec<Cell>>) {
    let opened = open(path).expect("open");
    let (columns, _) = opened.database.columns(table).expect("columns");
    let place = |name: &&str| columns.iter().position(|c| c.name == **name).expect("column");
    let layout = Layout::new(&wanted.iter().map(|w| (place(w), columns[place(w)].rowid)).collect::<Vec<_>>());
    let (mut direct, mut through) = (Vec::new(), Vec::new());
    let tree = tree(&opened, table);
    Decoder::new(&Pages::new(&opened.file, &opened.header), &layout)
        .leaves(&tree.leaves, |b| {
            cells(b, &mut direct);
            b.clear();
            Ok(())
        })
        .expect("decode");
    let names: Vec<String> = wanted.iter().map(|w| (*w).to_owned()).collect();
    rows::scan(&opened.database.connection, table, &names, |b| {
        cells(b, &mut through);
        Ok(())
    })
    .expect("scan");
    assert_eq!(tree.rows as usize, through.len());
    (direct, through)
}

fn make(folder: &Path, name: &str, page_size: u32) -> (PathBuf, Connection) {
    let path = folder.join(name);
    let connection = Connection::open(&path).expect("create");
    connection.execute_batch(&format!("PRAGMA page_size={page_size}; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;")).expect("pragma");
    (path, connection)
}

#[test]
fn random_tables_give_the_same_cells() {
    let folder = tempfile::tempdir().expect("folder");
    for (round, page_size) in [512u32, 1024, 4096, 65_536, 512, 8192].into_iter().enumerate() {
        let mut dice = Dice(0x9E37_79B9 + round as u64);
        let (path, connection) = make(folder.path(), &format!("r{round}"), page_size);
        if round == 4 {
            connection.execute_batch("PRAGMA auto_vacuum=FULL").expect("pragma");
        }
        let columns = 3 + dice.roll(40) as usize;
        let list = (0..columns).map(|c| format!("c{c}")).collect::<Vec<_>>().join(",");
        connection.execute_batch(&format!("CREATE TABLE other(a); CREATE TABLE t({list}); BEGIN")).expect("create");
        let insert = format!("INSERT INTO t VALUES ({})", vec!["?"; columns].join(","));
        for row in 0..400 {
            let values: Vec<Value> = (0..columns).map(|_| if row % 50 == 0 { Value::Null } else { dice.value() }).collect();
            let refs: Vec<&dyn ToSql> = values.iter().map(|v| v as &dyn ToSql).collect();
            connection.execute(&insert, refs.as_slice()).expect("insert");
            connection.execute("INSERT INTO other VALUES (?)", [row]).expect("insert");
        }
        connection
            .execute_batch("DELETE FROM t WHERE rowid % 7 = 3; UPDATE t SET rowid = -rowid WHERE rowid % 11 = 5; COMMIT")
            .expect("change");
        drop(connection);
        let every: Vec<String> = (0..columns).map(|c| format!("c{c}")).collect();
        let every: Vec<&str> = every.iter().map(String::as_str).collect();
        let some: Vec<&str> = every.iter().rev().copied().filter(|_| dice.roll(3) == 0).collect();
        for wanted in [&every[..], &some[..], &every[..1]] {
            let (direct, through) = both(&path, "t", wanted);
            assert_eq!(direct, through, "page size {page_size}, columns {wanted:?}");
        }
    }
}

#[test]
fn added_columns_row_ids_and_keys_are_told_apart() {
    let folder = tempfile::tempdir().expect("folder");
    let (path, connection) = make(folder.path(), "keys", 1024);
    connection
        .execute_batch(
            "CREATE TABLE a(id INTEGER NOT NULL PRIMARY KEY, v TEXT);
             CREATE TABLE b(id INTEGER PRIMARY KEY DESC, v);
             CREATE TABLE c(id INT PRIMARY KEY, v);
             CREATE TABLE d(x, y REAL, z INTEGER NOT NULL DEFAULT 5, w DEFAULT NULL, \"odd \"\"name\" INTEGER);
             CREATE TABLE e(k TEXT PRIMARY KEY, v) WITHOUT ROWID;
             CREATE TABLE f(x, y AS (x + 1), z);
             INSERT INTO a VALUES (-5,'m'),(7,'p'),(9000000000,'q');
             INSERT INTO b VALUES (3,'x'),(1,'y');
             INSERT INTO c VALUES (3,'x'),(1,'y');
             INSERT INTO d VALUES (1, 2, 3, 4, 5);
             ALTER TABLE d ADD COLUMN late;
             ALTER TABLE d ADD COLUMN later INTEGER DEFAULT 8;
             INSERT INTO d(x, late) VALUES (2, 11);
             INSERT INTO e VALUES ('a', 1), ('b', 2);
             INSERT INTO f VALUES (1, 2);",
        )
        .expect("create");
    drop(connection);
    for (table, wanted) in
        [("a", vec!["v", "id"]), ("b", vec!["id", "v"]), ("c", vec!["id", "v"]), ("d", vec!["x", "late", "w", "odd \"name"])]
    {
        let (direct, through) = both(&path, table, &wanted);
        assert_eq!(direct, through, "{table}");
    }
    let opened = open(&path).expect("open");
    let columns = |t: &str| opened.database.columns(t).expect("columns");
    assert_eq!(columns("a").0.iter().map(|c| c.rowid).collect::<Vec<_>>(), [true, false]);
    assert!(columns("b").0.iter().all(|c| !c.rowid) && columns("c").0.iter().all(|c| !c.rowid));
    assert_eq!(columns("d").0.iter().map(|c| c.special).collect::<Vec<_>>(), [false, true, true, false, false, false, true]);
    assert!(columns("f").1 && !columns("d").1);
    assert!(tree(&opened, "e").index && tree(&opened, "e").rows == 2);
    assert!(!tree(&opened, "a").index);
}

#[test]
fn deep_trees_are_walked_in_key_order() {
    let folder = tempfile::tempdir().expect("folder");
    let (path, connection) = make(folder.path(), "deep", 512);
    connection
        .execute_batch("CREATE TABLE t(a, b); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000) INSERT INTO t SELECT i * 3, 'row ' || i FROM n;")
        .expect("fill");
    drop(connection);
    let (direct, through) = both(&path, "t", &["b", "a"]);
    assert_eq!(direct.len(), 40_000);
    assert_eq!(direct, through);
}

/// A file of one table with a two-level tree, and the page of its root.
fn victim(folder: &Path, name: &str) -> (PathBuf, usize) {
    let (path, connection) = make(folder, name, 512);
    connection
        .execute_batch("CREATE TABLE t(a, b); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) INSERT INTO t SELECT i, 'text ' || i FROM n;")
        .expect("fill");
    let root: u32 = connection.query_row("SELECT rootpage FROM sqlite_master", [], |r| r.get(0)).expect("root");
    (path, root as usize)
}

fn walk(path: &Path, root: usize) -> Result<Tree, ReadError> {
    let file = File::open(path)?;
    let header = Header::read(&file, file.metadata()?.len())?;
    Pages::new(&file, &header).walk(root as u32, true, &mut Claimed::new(header.pages), &mut || false)
}

#[test]
fn a_cycle_or_a_page_with_two_parents_is_damage() {
    let folder = tempfile::tempdir().expect("folder");
    let (path, root) = victim(folder.path(), "cycle");
    let good = std::fs::read(&path).expect("read");
    let at = (root - 1) * 512;
    assert_eq!(good[at], 5, "the root has children");
    assert_eq!(walk(&path, root).expect("walk").rows, 3000);
    let first_cell = at + usize::from(u16::from_be_bytes([good[at + 12], good[at + 13]]));
    let right = good[at + 8..at + 12].to_vec();
    for (place, page) in [
        (first_cell, (root as u32).to_be_bytes().to_vec()),
        (first_cell, right),
        (at + 8, 0u32.to_be_bytes().to_vec()),
        (at + 8, u32::MAX.to_be_bytes().to_vec()),
    ] {
        let mut bad = good.clone();
        bad[place..place + 4].copy_from_slice(&page);
        std::fs::write(&path, &bad).expect("write");
        assert_eq!(walk(&path, root).expect_err("damage").code(), "P005");
    }
}

#[test]
fn cells_that_overlap_are_damage() {
    let folder = tempfile::tempdir().expect("folder");
    let (path, root) = victim(folder.path(), "overlap");
    let mut bytes = std::fs::read(&path).expect("read");
    let leaf = walk(&path, root).expect("walk").leaves[0];
    let at = (leaf.page as usize - 1) * 512;
    let pointer = [bytes[at + 8], bytes[at + 9]];
    for cell in 0..leaf.rows as usize {
        bytes[at + 8 + 2 * cell..at + 10 + 2 * cell].copy_from_slice(&pointer);
    }
    // All cells are one cell now; longer cells make the sum exceed the page.
    let cell = at + usize::from(u16::from_be_bytes(pointer));
    bytes[cell] = 60;
    std::fs::write(&path, &bytes).expect("write");
    let opened = open(&path).expect("open");
    let layout = Layout::new(&[(0, false)]);
    let outcome = Decoder::new(&Pages::new(&opened.file, &opened.header), &layout).leaves(&[leaf], |_| Ok(()));
    assert_eq!(outcome.expect_err("damage").code(), "P005");
}

#[test]
fn headers_are_checked_before_anything_is_read() {
    let folder = tempfile::tempdir().expect("folder");
    let (path, _) = victim(folder.path(), "head");
    let good = std::fs::read(&path).expect("read");
    let code = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("write");
        let file = File::open(&path).expect("open");
        Header::read(&file, bytes.len() as u64).map(|_| ()).expect_err("refused").code()
    };
    assert_eq!(code(b""), "P003");
    assert_eq!(code(b"not a database, but long enough to be one"), "P004");
    assert_eq!(code(&good[..50]), "P005");
    assert_eq!(code(&good[..good.len() / 2]), "P005");
    for (place, value) in [(16, 3u8), (20, 255), (21, 1), (18, 9)] {
        let mut bad = good.clone();
        bad[place] = value;
        assert_eq!(code(&bad), "P005", "byte {place}");
    }
}
