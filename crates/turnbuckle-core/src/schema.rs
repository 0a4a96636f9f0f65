//! Names, order, types and nullability of the tables: read from the same CSV as the Python side.

use std::sync::OnceLock;

const TRACE_CSV: &str = include_str!("../../../src/turnbuckle/foundation/schema/trace.csv");

/// Storage type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// 64-bit integer.
    Int64,
    /// 32-bit integer.
    Int32,
    /// 8-bit integer.
    Int8,
    /// UTF-8 text.
    Text,
}

/// One column of the vocabulary.
#[derive(Debug)]
pub struct ColumnSpec {
    /// The name.
    pub name: &'static str,
    /// The storage type.
    pub kind: Type,
    /// Whether a value may be missing.
    pub nullable: bool,
}

/// One table of the vocabulary.
#[derive(Debug)]
pub struct TableSpec {
    /// The name.
    pub name: &'static str,
    /// The columns in order.
    pub columns: Vec<ColumnSpec>,
}

impl TableSpec {
    /// Position of a column.
    pub fn position(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name == column)
    }
}

/// All tables of a trace, in the order of the CSV.
pub fn tables() -> &'static [TableSpec] {
    static TABLES: OnceLock<Vec<TableSpec>> = OnceLock::new();
    TABLES.get_or_init(|| {
        let mut out: Vec<TableSpec> = Vec::new();
        for line in TRACE_CSV.lines().skip(1).filter(|l| !l.trim().is_empty()) {
            let mut fields = line.splitn(6, ',');
            let (table, name) = (fields.next().unwrap_or(""), fields.next().unwrap_or(""));
            let kind = match fields.next() {
                Some("int64") => Type::Int64,
                Some("int32") => Type::Int32,
                Some("int8") => Type::Int8,
                _ => Type::Text,
            };
            let nullable = fields.nth(1) == Some("yes");
            if out.last().is_none_or(|t| t.name != table) {
                out.push(TableSpec { name: table, columns: Vec::new() });
            }
            if let Some(last) = out.last_mut() {
                last.columns.push(ColumnSpec { name, kind, nullable });
            }
        }
        out
    })
}

/// The table of that name.
pub fn table(name: &str) -> Option<&'static TableSpec> {
    tables().iter().find(|t| t.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_csv_is_read_whole() {
        let lines = TRACE_CSV.lines().skip(1).filter(|l| !l.is_empty()).count();
        assert_eq!(tables().iter().map(|t| t.columns.len()).sum::<usize>(), lines);
        let kernels = table("kernels").expect("kernels");
        assert_eq!(kernels.columns[0].name, "start_ns");
        assert!(!kernels.columns[0].nullable);
        assert_eq!(kernels.columns[3].kind, Type::Int32);
        assert!(kernels.columns[3].nullable);
        assert_eq!(table("devices").expect("devices").columns[1].kind, Type::Text);
    }
}
