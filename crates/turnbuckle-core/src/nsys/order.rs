//! Time order: rows cannot be assumed to be sorted since 2025.6.

use crate::recording::{Column, Table, Values};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};

/// Sort a table by its first time column, equal times in file order, missing ones first.  Says whether it was out of order.
pub fn sort(table: &mut Table) -> bool {
    let Some(position) = table.spec.columns.iter().position(|c| c.name.ends_with("_ns")) else {
        return false;
    };
    let Values::I64(times) = &table.columns[position].values else {
        return false;
    };
    if times.is_sorted() || u32::try_from(times.len()).is_err() {
        return false;
    }
    let mut keys: Vec<(i64, u32)> = times.iter().copied().zip(0..).collect();
    keys.sort_unstable();
    let order: Vec<u32> = keys.into_iter().map(|(_, row)| row).collect();
    for column in &mut table.columns {
        arrange(column, &order);
    }
    true
}

fn arrange(column: &mut Column, order: &[u32]) {
    fn gather<T: Copy>(values: &mut Vec<T>, order: &[u32]) {
        *values = order.iter().map(|row| values[*row as usize]).collect();
    }
    // A column without a single value stays as it is, so that its memory is never touched.
    if column.valid.as_ref().is_some_and(|v| v.null_count() == v.len()) {
        return;
    }
    match &mut column.values {
        Values::I64(v) => gather(v, order),
        Values::I32(v) => gather(v, order),
        Values::I8(v) => gather(v, order),
        Values::Text(v) => *v = order.iter().map(|row| v[*row as usize].take()).collect(),
    }
    if let Some(valid) = &column.valid {
        let mut bits = BooleanBufferBuilder::new(order.len());
        for row in order {
            bits.append(valid.is_valid(*row as usize));
        }
        column.valid = Some(NullBuffer::new(bits.finish()));
    }
}
