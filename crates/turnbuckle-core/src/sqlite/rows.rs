//! Rows through SQLite itself: slower than the page decoder, right for every file that SQLite can read.

use super::batch::{Batch, kind};
use super::quoted;
use crate::ReadError;
use rusqlite::Connection;
use rusqlite::types::ValueRef;

/// Step through `columns` of `table` and hand over full batches.  `give` returns false to stop.
///
/// # Errors
/// P005 where SQLite finds the file damaged, [`ReadError::Cancelled`] where `give` said stop, or what `give` returned.
pub fn scan(
    connection: &Connection,
    table: &str,
    columns: &[String],
    mut give: impl FnMut(&mut Batch) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let list = if columns.is_empty() { "1".to_owned() } else { columns.iter().map(|c| quoted(c)).collect::<Vec<_>>().join(",") };
    let mut statement = connection.prepare(&format!("SELECT {list} FROM {}", quoted(table)))?;
    let mut rows = statement.query([])?;
    let mut batch = Batch::new(columns.len());
    // Texts that no file of this size can hold apart are one text that many rows claim.
    let size: i64 = connection.query_row("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()", [], |r| r.get(0))?;
    let mut left = (size as usize).saturating_mul(2).saturating_add(1 << 20);
    while let Some(row) = rows.next()? {
        let at = batch.rows;
        for slot in 0..columns.len() {
            match row.get_ref(slot)? {
                ValueRef::Null => batch.slots[slot].set(at, kind::NULL, 0),
                ValueRef::Integer(value) => batch.slots[slot].set(at, kind::INT, value),
                ValueRef::Real(value) => batch.slots[slot].set(at, kind::REAL, value.to_bits() as i64),
                ValueRef::Text(text) => {
                    left = left.checked_sub(text.len()).ok_or_else(|| ReadError::damaged("rows that share their texts"))?;
                    batch.set_text(slot, text);
                }
                ValueRef::Blob(_) => batch.slots[slot].set(at, kind::BLOB, 0),
            }
        }
        batch.rows += 1;
        if batch.full() {
            give(&mut batch)?;
            batch.clear();
        }
    }
    if batch.rows > 0 {
        give(&mut batch)?;
    }
    Ok(())
}
