//! A source table of one file, made ready: which columns are there and what becomes of them.

use super::mapping::{Origin, Source};
use crate::ReadError;
use crate::schema::{self, TableSpec};
use crate::sqlite::ColumnEntry;

/// What a column of ours is made from; numbers are slots of the batch.
#[derive(Debug, Clone, Copy)]
pub enum Role {
    /// Not in the file.
    Missing,
    /// The same everywhere.
    Constant(i64),
    /// As it stands.
    Int(usize),
    /// As it stands; `NONE` is missing.
    NoneIs(usize),
    /// Process part of a global id.
    Process(usize),
    /// Event class to call level.
    Level(usize),
    /// Copy kind to direction.
    Direction(usize),
    /// Raw memory kind.
    Memory(usize),
    /// Id of the string table; `true` for API names.
    Name(usize, bool),
    /// Inline text and id of the string table.
    Text(Option<usize>, Option<usize>),
    /// Product of three.
    Product([usize; 3]),
    /// Sum of two.
    Sum([usize; 2]),
}

/// One wanted column of the SQLite table.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Its name.
    pub name: String,
    /// Its place in the record.
    pub position: usize,
    /// Whether texts are expected in it.
    pub text: bool,
    /// Whether the row id stands for its value.
    pub rowid: bool,
}

/// A source table made ready.
#[derive(Debug)]
pub struct Plan {
    /// The source.
    pub source: &'static Source,
    /// The table it feeds.
    pub spec: &'static TableSpec,
    /// The wanted columns, one slot each.
    pub slots: Vec<Wanted>,
    /// What each column of ours is made from.
    pub roles: Vec<Role>,
    /// Optional columns that this file does not have.
    pub absent: Vec<String>,
    /// Whether the page decoder may read the wanted columns.
    pub direct: bool,
}

struct Builder<'a> {
    file: &'a [ColumnEntry],
    slots: Vec<Wanted>,
}

impl Builder<'_> {
    fn slot(&mut self, name: &str, text: bool) -> Option<usize> {
        let position = self.file.iter().position(|c| c.name.eq_ignore_ascii_case(name))?;
        if let Some(known) = self.slots.iter().position(|s| s.position == position) {
            return Some(known);
        }
        self.slots.push(Wanted { name: self.file[position].name.clone(), position, text, rowid: self.file[position].rowid });
        Some(self.slots.len() - 1)
    }

    fn first(&mut self, names: &[&str]) -> Option<usize> {
        names.iter().find_map(|n| self.slot(n, false))
    }

    fn all<const N: usize>(&mut self, names: [&str; N]) -> Option<[usize; N]> {
        let mut out = [0; N];
        for (place, name) in out.iter_mut().zip(names) {
            *place = self.slot(name, false)?;
        }
        Some(out)
    }

    fn role(&mut self, from: Origin) -> Option<Role> {
        match from {
            Origin::Int(names) => self.first(names).map(Role::Int),
            Origin::NoneIs(names) => self.first(names).map(Role::NoneIs),
            Origin::Process(names) => self.first(names).map(Role::Process),
            Origin::Name(names) => self.first(names).map(|s| Role::Name(s, false)),
            Origin::ApiName(names) => self.first(names).map(|s| Role::Name(s, true)),
            Origin::Memory(names) => self.first(names).map(Role::Memory),
            Origin::Level(name) => self.slot(name, false).map(Role::Level),
            Origin::Direction(name) => self.slot(name, false).map(Role::Direction),
            Origin::Constant(value) => Some(Role::Constant(value)),
            Origin::Product(names) => self.all(names).map(Role::Product),
            Origin::Sum(names) => self.all(names).map(Role::Sum),
            Origin::Text(text, id) => match (self.slot(text, true), self.slot(id, false)) {
                (None, None) => None,
                (text, id) => Some(Role::Text(text, id)),
            },
        }
    }
}

/// What a column's source is called in a finding.
fn label(from: Origin) -> &'static str {
    match from {
        Origin::Int(n) | Origin::NoneIs(n) | Origin::Process(n) | Origin::Name(n) | Origin::ApiName(n) | Origin::Memory(n) => n[0],
        Origin::Level(n) | Origin::Direction(n) | Origin::Text(n, _) => n,
        Origin::Product(n) => n[0],
        Origin::Sum(n) => n[0],
        Origin::Constant(_) => "",
    }
}

/// Make a source ready for a file whose table has `columns` (and `generated` ones beside them).  `None`: the table lacks what it needs but may be left out.
///
/// # Errors
/// P008 where a vital table lacks a required column.
pub fn plan(source: &'static Source, columns: &[ColumnEntry], generated: bool) -> Result<Option<Plan>, ReadError> {
    let lacking: Vec<&str> = source.required.iter().filter(|r| !columns.iter().any(|c| c.name.eq_ignore_ascii_case(r))).copied().collect();
    if !lacking.is_empty() {
        if source.vital {
            return Err(ReadError::new(
                "P008",
                format!("the table {} lacks a column that is needed", source.table),
                format!("no column {}", lacking.join(", ")),
                "the export was edited, or its schema is newer than this version knows",
                "export the report again; if that does not help, report the schema version",
            ));
        }
        return Ok(None);
    }
    let Some(spec) = schema::table(source.into) else {
        return Ok(None);
    };
    let mut builder = Builder { file: columns, slots: Vec::new() };
    let mut absent = Vec::new();
    let mut roles = vec![Role::Missing; spec.columns.len()];
    for (column, from) in source.columns {
        match (spec.position(column), builder.role(*from)) {
            (Some(place), Some(role)) => roles[place] = role,
            _ => absent.push(format!("{}.{}", source.table, label(*from))),
        }
    }
    let direct = !generated && builder.slots.iter().all(|s| !columns[s.position].special);
    Ok(Some(Plan { source, spec, slots: builder.slots, roles, absent, direct }))
}
