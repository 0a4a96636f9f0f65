//! Columns by name into a table of the vocabulary.

use crate::recording::{Column, Table, Values};
use crate::schema::{self, Type};
use arrow_buffer::NullBuffer;
use std::collections::HashMap;

/// A table that is being made: columns by name, absent ones are all missing.
pub(crate) struct Making {
    name: &'static str,
    rows: usize,
    columns: HashMap<&'static str, Column>,
}

impl Making {
    pub fn new(name: &'static str, rows: usize) -> Self {
        Self { name, rows, columns: HashMap::new() }
    }

    pub fn with(mut self, name: &'static str, values: impl Iterator<Item = Option<i64>>) -> Self {
        let mut missing = false;
        let mut valid = Vec::with_capacity(self.rows);
        let numbers: Vec<i64> = values
            .map(|v| {
                missing |= v.is_none();
                valid.push(v.is_some());
                v.unwrap_or(0)
            })
            .collect();
        self.columns.insert(name, Column { values: Values::I64(numbers), valid: missing.then(|| NullBuffer::from(valid)) });
        self
    }

    /// A column without missing values.
    pub fn full(mut self, name: &'static str, values: impl Iterator<Item = i64>) -> Self {
        self.columns.insert(name, Column { values: Values::I64(values.collect()), valid: None });
        self
    }

    /// A column of texts.
    pub fn texts(mut self, name: &'static str, values: Vec<Option<String>>) -> Self {
        self.columns.insert(name, Column { values: Values::Text(values), valid: None });
        self
    }

    pub fn done(mut self) -> Option<Table> {
        let spec = schema::table(self.name)?;
        let column = |c: &schema::ColumnSpec| {
            let mut made = self
                .columns
                .remove(c.name)
                .unwrap_or_else(|| Column { values: Values::zeros(c.kind, self.rows), valid: Some(NullBuffer::new_null(self.rows)) });
            if let Values::I64(numbers) = &made.values {
                match c.kind {
                    Type::Int32 => made.values = Values::I32(numbers.iter().map(|n| *n as i32).collect()),
                    Type::Int8 => made.values = Values::I8(numbers.iter().map(|n| *n as i8).collect()),
                    _ => {}
                }
            }
            made
        };
        Some(Table { spec, rows: self.rows, columns: spec.columns.iter().map(column).collect() }).filter(|t| t.rows > 0)
    }
}
