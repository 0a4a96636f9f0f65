//! Reading SQLite files that may be hostile.
//!
//! [`Database`] opens a file read-only and holds one read transaction, so a writer cannot change it half-way.

pub mod batch;
pub mod pages;
pub mod rows;

use crate::ReadError;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Longest text or record that SQLite may build [B].
const LONGEST: i32 = 256 << 20;
const BUSY_WAIT: Duration = Duration::from_millis(1000);

/// What the first 100 bytes of the file say.
#[derive(Debug, Clone, Copy)]
pub struct Header {
    /// Bytes a page.
    pub page_size: u32,
    /// Bytes of a page that hold content.
    pub usable: u32,
    /// Pages in the file.
    pub pages: u32,
    /// Whether the file is in write-ahead-log mode.
    pub wal: bool,
    /// Whether texts are UTF-8.
    pub utf8: bool,
    /// Counter that every write transaction raises.
    pub change: u32,
}

impl Header {
    /// Check the header of a file of `size` bytes.
    ///
    /// # Errors
    /// P003 empty, P004 not SQLite, P005 damaged or cut off.
    pub fn read(file: &File, size: u64) -> Result<Self, ReadError> {
        if size == 0 {
            return Err(ReadError::new(
                "P003",
                "the file is empty",
                "0 bytes",
                "the export failed or is still running",
                "export the report again",
            ));
        }
        let mut head = [0u8; 100];
        let got = size.min(100) as usize;
        file.read_exact_at(&mut head[..got], 0)?;
        if &head[..16] != MAGIC {
            return Err(ReadError::new(
                "P004",
                "the file is not SQLite",
                "its first 16 bytes are not SQLite's",
                "the file has another format than its name says",
                "export the report: nsys export --type sqlite REPORT.nsys-rep",
            ));
        }
        if got < 100 {
            return Err(ReadError::damaged(format!("{size} bytes are less than SQLite's header")));
        }
        let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let page_size = match u16::from_be_bytes([head[16], head[17]]) {
            1 => 65_536,
            n => u32::from(n),
        };
        let usable = page_size.saturating_sub(u32::from(head[20]));
        if !page_size.is_power_of_two() || !(512..=65_536).contains(&page_size) || usable < 480 || head[21..24] != [64, 32, 32] {
            return Err(ReadError::damaged("its header holds impossible values"));
        }
        if !(1..=2).contains(&head[18]) || !(1..=2).contains(&head[19]) {
            return Err(ReadError::damaged("its header asks for an unknown version of SQLite"));
        }
        let in_file = size / u64::from(page_size);
        let in_header = word(28);
        let pages = if in_header > 0 && word(92) == word(24) {
            if u64::from(in_header) > in_file {
                return Err(ReadError::damaged(format!(
                    "{size} bytes, but its header says {}",
                    u64::from(in_header) * u64::from(page_size)
                )));
            }
            in_header
        } else {
            u32::try_from(in_file).map_err(|_| ReadError::damaged("more pages than SQLite can number"))?
        };
        if pages == 0 {
            return Err(ReadError::damaged(format!("{size} bytes are less than one page")));
        }
        Ok(Self { page_size, usable, pages, wal: head[18] == 2 || head[19] == 2, utf8: matches!(word(56), 0 | 1), change: word(24) })
    }
}

/// One table of the file.
#[derive(Debug, Clone)]
pub struct TableEntry {
    /// Its name.
    pub name: String,
    /// The page its tree starts at.
    pub root: u32,
}

/// One stored column of a table.
#[derive(Debug, Clone)]
pub struct ColumnEntry {
    /// Its name.
    pub name: String,
    /// Whether the row id stands for its value (INTEGER PRIMARY KEY).
    pub rowid: bool,
    /// Whether only SQLite itself can say the value (a default of another value than NULL, or REAL affinity).
    pub special: bool,
}

/// A file opened for reading, with a read transaction held.
#[derive(Debug)]
pub struct Database {
    /// SQLite's own connection.
    pub connection: Connection,
    /// The header.
    pub header: Header,
}

impl Database {
    /// Open the file and start the read transaction.
    ///
    /// # Errors
    /// P005 damaged, P009 locked, P010 no permission.
    pub fn open(path: &Path, header: Header) -> Result<Self, ReadError> {
        let connection = Self::begin(path, false).or_else(|error| match error.sqlite_error().map(|e| e.extended_code) {
            // The file system knows no locks: read without them.
            Some(rusqlite::ffi::SQLITE_IOERR_LOCK | rusqlite::ffi::SQLITE_IOERR_RDLOCK | rusqlite::ffi::SQLITE_IOERR_CHECKRESERVEDLOCK) => {
                Self::begin(path, true)
            }
            // A write-ahead log file needs a file beside it, which a read-only folder does not allow; without a log there is nothing in it.
            _ if header.wal && !beside(path, "-wal") => Self::begin(path, true),
            _ => Err(error),
        })?;
        Ok(Self { connection, header })
    }

    fn begin(path: &Path, immutable: bool) -> Result<Connection, rusqlite::Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = if immutable {
            Connection::open_with_flags(uri(path), flags | OpenFlags::SQLITE_OPEN_URI)?
        } else {
            Connection::open_with_flags(path, flags)?
        };
        connection.busy_timeout(BUSY_WAIT)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        // `user_version` takes the read lock without parsing the schema.
        connection.execute_batch("BEGIN")?;
        connection.query_row("PRAGMA user_version", [], |_| Ok(()))?;
        Ok(connection)
    }

    /// The ordinary tables: no views, no virtual tables, none of SQLite's own.
    ///
    /// # Errors
    /// P005 where the schema does not parse.
    pub fn tables(&self) -> Result<Vec<TableEntry>, ReadError> {
        let mut statement = self.connection.prepare(
            "SELECT name, rootpage FROM sqlite_master WHERE type = 'table' AND rootpage > 0 AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
        )?;
        let mut rows = statement.query([])?;
        let mut out = Vec::new();
        while let Some(row) = rows.next()? {
            if let (Ok(name), Ok(root)) = (row.get::<_, String>(0), row.get::<_, u32>(1)) {
                out.push(TableEntry { name, root });
            }
        }
        Ok(out)
    }

    /// The stored columns of a table in the order of the record, and whether it holds generated ones beside them.  What is no
    /// ordinary table has none: a view of that name may have rows without end.
    ///
    /// # Errors
    /// P005 where the schema does not parse.
    pub fn columns(&self, table: &str) -> Result<(Vec<ColumnEntry>, bool), ReadError> {
        let mut statement = self.connection.prepare(
            "SELECT name, type, dflt_value IS NOT NULL AND upper(dflt_value) <> 'NULL', pk, hidden FROM pragma_table_xinfo(?1) \
                 WHERE EXISTS (SELECT 1 FROM sqlite_master AS m WHERE m.type = 'table' AND m.rootpage > 0 AND m.name = ?1)",
        )?;
        let mut rows = statement.query([table])?;
        let (mut out, mut generated, mut keys) = (Vec::new(), false, 0);
        let mut key = None;
        while let Some(row) = rows.next()? {
            if row.get::<_, i64>(4)? != 0 {
                generated = true;
                continue;
            }
            let declared = row.get::<_, Option<String>>(1)?.unwrap_or_default().to_ascii_uppercase();
            if row.get::<_, i64>(3)? > 0 {
                keys += 1;
                key = (declared == "INTEGER").then_some(out.len());
            }
            let real = !declared.contains("INT") && ["REAL", "FLOA", "DOUB"].iter().any(|w| declared.contains(w));
            let name: String = row.get(0)?;
            out.push(ColumnEntry { name, rowid: false, special: real || row.get::<_, bool>(2)? });
        }
        // A key with an index of its own (INTEGER PRIMARY KEY DESC) is an ordinary column.
        if let (1, Some(key)) = (keys, key) {
            let indexed: bool =
                self.connection
                    .query_row("SELECT EXISTS (SELECT 1 FROM pragma_index_list(?1) WHERE origin = 'pk')", [table], |r| r.get(0))?;
            out[key].rowid = !indexed;
        }
        Ok((out, generated))
    }
}

/// Whether a file with content stands beside the database under its name plus `suffix`.
pub fn beside(path: &Path, suffix: &str) -> bool {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    std::fs::metadata(name).is_ok_and(|m| m.len() > 0)
}

fn uri(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let mut out = String::from("file://");
    for byte in absolute.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => out.push(char::from(*byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out + "?immutable=1"
}

/// A name as an SQL identifier.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
