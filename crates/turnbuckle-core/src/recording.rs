//! What a reader hands over: typed tables, names, facts and counted flaws.

use crate::schema::{TableSpec, Type};
use arrow_array::{ArrayRef, Int8Array, Int32Array, Int64Array, LargeStringArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use std::sync::Arc;

/// The values of one column; a missing value holds 0 (or an empty text) and a cleared bit in `valid`.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// 64-bit integers.
    I64(Vec<i64>),
    /// 32-bit integers.
    I32(Vec<i32>),
    /// 8-bit integers.
    I8(Vec<i8>),
    /// Texts.
    Text(Vec<Option<String>>),
}

impl Values {
    /// `rows` zeros of a type; the memory of integers is not touched before it is written.
    pub fn zeros(kind: Type, rows: usize) -> Self {
        match kind {
            Type::Int64 => Self::I64(vec![0; rows]),
            Type::Int32 => Self::I32(vec![0; rows]),
            Type::Int8 => Self::I8(vec![0; rows]),
            Type::Text => Self::Text(vec![None; rows]),
        }
    }
}

/// One column.
#[derive(Debug, Clone)]
pub struct Column {
    /// The values.
    pub values: Values,
    /// Which rows hold a value; `None` means all do.
    pub valid: Option<NullBuffer>,
}

impl Column {
    /// Value of a row as `i64`, or `None` where missing or text.
    pub fn get(&self, row: usize) -> Option<i64> {
        if self.valid.as_ref().is_some_and(|v| v.is_null(row)) {
            return None;
        }
        match &self.values {
            Values::I64(v) => v.get(row).copied(),
            Values::I32(v) => v.get(row).map(|x| i64::from(*x)),
            Values::I8(v) => v.get(row).map(|x| i64::from(*x)),
            Values::Text(_) => None,
        }
    }
}

/// One table: the columns follow `spec`.
#[derive(Debug, Clone)]
pub struct Table {
    /// Names and types.
    pub spec: &'static TableSpec,
    /// Number of rows.
    pub rows: usize,
    /// The columns, in the order of `spec`.
    pub columns: Vec<Column>,
}

impl Table {
    /// The column of that name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.spec.position(name).and_then(|i| self.columns.get(i))
    }

    /// The table as one Arrow batch; integer buffers move, nothing is copied.
    ///
    /// # Errors
    /// Where a column's length or nullability contradicts the schema.
    pub fn into_batch(self) -> Result<RecordBatch, ArrowError> {
        let mut fields = Vec::with_capacity(self.columns.len());
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.columns.len());
        for (spec, column) in self.spec.columns.iter().zip(self.columns) {
            let (kind, array): (DataType, ArrayRef) = match column.values {
                Values::I64(v) => (DataType::Int64, Arc::new(Int64Array::try_new(v.into(), column.valid)?)),
                Values::I32(v) => (DataType::Int32, Arc::new(Int32Array::try_new(v.into(), column.valid)?)),
                Values::I8(v) => (DataType::Int8, Arc::new(Int8Array::try_new(v.into(), column.valid)?)),
                Values::Text(v) => (DataType::LargeUtf8, Arc::new(LargeStringArray::from(v))),
            };
            fields.push(Field::new(spec.name, kind, spec.nullable));
            arrays.push(array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
    }
}

/// A plain fact about the file.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// A number.
    Int(i64),
    /// A text.
    Text(String),
    /// Rows by table name.
    Counts(Vec<(String, i64)>),
    /// Not in the file.
    Missing,
}

/// One counted flaw: code, count, what it concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Key into `findings.csv`.
    pub code: &'static str,
    /// How many rows, values or activities it concerns.
    pub count: u64,
    /// The table or column it concerns; never text from the recorded process.
    pub detail: String,
}

/// One recorded run, as the file tells it.
#[derive(Debug, Default)]
pub struct Recording {
    /// Tables that hold rows.
    pub tables: Vec<Table>,
    /// Texts that the tables' name columns index.
    pub names: Vec<String>,
    /// Plain facts about the file.
    pub facts: Vec<(&'static str, Fact)>,
    /// Counted flaws.
    pub findings: Vec<Finding>,
}

impl Recording {
    /// The table of that name, if it has rows.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|t| t.spec.name == name)
    }

    /// The fact of that name.
    pub fn fact(&self, name: &str) -> Option<&Fact> {
        self.facts.iter().find(|(n, _)| *n == name).map(|(_, f)| f)
    }
}
