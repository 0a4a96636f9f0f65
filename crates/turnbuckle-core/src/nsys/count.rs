//! How many rows each table of the file holds, and which pages hold them.

use super::mapping::SOURCES;
use super::{Progress, Reader};
use crate::ReadError;
use crate::sqlite::pages::{Claimed, Tree};
use crate::sqlite::{TableEntry, beside, rows};
use std::collections::HashMap;

/// Master table's first page.
const MASTER: u32 = 1;

/// What is known of every table before a row is read.
#[derive(Debug, Default)]
pub struct Counts {
    /// Rows by table.
    pub rows: HashMap<String, u64>,
    /// Trees whose leaves the page decoder may read.
    pub trees: HashMap<String, Tree>,
}

impl Counts {
    /// Rows of a table; 0 where there is none of that name.
    pub fn of(&self, table: &str) -> u64 {
        self.rows.get(table).copied().unwrap_or(0)
    }
}

/// Whether the main file alone holds the truth: no write-ahead log and no rollback journal with content beside it.
pub fn plain(reader: &Reader<'_>) -> bool {
    !beside(reader.path, "-wal") && !beside(reader.path, "-journal")
}

/// Check the tree of the master table, before SQLite walks it.
///
/// # Errors
/// P005 where it is damaged.
pub fn check_master(reader: &Reader<'_>, claimed: &mut Claimed) -> Result<(), ReadError> {
    if plain(reader) {
        reader.pages.walk(MASTER, false, claimed, &mut || reader.watch.stopped())?;
    }
    Ok(())
}

/// Count every table.
///
/// # Errors
/// P005 where a tree is damaged, [`ReadError::Cancelled`].
pub fn count(reader: &Reader<'_>, entries: &[TableEntry], claimed: &mut Claimed, progress: Progress<'_>) -> Result<Counts, ReadError> {
    let header = &reader.database.header;
    let mut out = Counts::default();
    let walkable = plain(reader);
    let decodable = walkable && header.utf8 && !header.wal;
    let mut stop = || !progress(0.0) || reader.watch.stopped();
    for entry in entries {
        let wanted = SOURCES.iter().any(|s| s.table == entry.name) || entry.name == "StringIds";
        let rows = if walkable {
            let tree = reader.pages.walk(entry.root, wanted && decodable, claimed, &mut stop)?;
            let rows = tree.rows;
            if wanted && decodable && !tree.index {
                out.trees.insert(entry.name.clone(), tree);
            }
            rows
        } else {
            stepped(reader, entry, &mut stop)?
        };
        out.rows.insert(entry.name.clone(), rows);
    }
    Ok(out)
}

/// Count through SQLite; a table can hold no more rows than fit the file and its log, however its pages are linked.
fn stepped(reader: &Reader<'_>, entry: &TableEntry, stop: &mut dyn FnMut() -> bool) -> Result<u64, ReadError> {
    let mut rows = 0u64;
    let mut files = reader.file.metadata()?.len();
    for suffix in ["-wal", "-journal"] {
        let mut name = reader.path.as_os_str().to_owned();
        name.push(suffix);
        files = files.saturating_add(std::fs::metadata(name).map_or(0, |m| m.len()));
    }
    rows::scan(&reader.database.connection, &entry.name, &[], |batch| {
        let before = rows;
        rows += batch.rows as u64;
        if rows > files / 4 + 1024 {
            return Err(ReadError::damaged("a table holds more rows than fit the file"));
        }
        if before >> 16 != rows >> 16 && stop() { Err(ReadError::Cancelled) } else { Ok(()) }
    })?;
    Ok(rows)
}
