//! Rows into tables: counts them, cuts the tables into parts, fills the parts, puts names in.

use super::names::{IdSet, Names, readable};
use super::part::{self, Part, Validity};
use super::plan::{Plan, Role};
use super::{Progress, Reader};
use crate::ReadError;
use crate::recording::{Column, Finding, Table, Values};
use crate::sqlite::batch::kind;
use crate::sqlite::{TableEntry, quoted, rows};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use std::collections::HashMap;
use std::ops::Range;

/// Rows of every table of the file.
pub fn count(reader: &Reader<'_>, entries: &[TableEntry], _progress: Progress<'_>) -> Result<HashMap<String, u64>, ReadError> {
    let mut out = HashMap::new();
    for entry in entries {
        let rows: i64 = reader.database.connection.query_row(&format!("SELECT count(*) FROM {}", quoted(&entry.name)), [], |r| r.get(0))?;
        out.insert(entry.name.clone(), rows.unsigned_abs());
    }
    Ok(out)
}

/// What a finished part leaves behind.
struct Rest {
    plan: usize,
    rows: Range<usize>,
    validity: Vec<Validity>,
    texts: Vec<String>,
}

#[derive(Default)]
struct Tally {
    ids: [IdSet; 2],
    flaws: HashMap<(&'static str, String), u64>,
}

impl Tally {
    fn add(&mut self, code: &'static str, detail: String, count: u64) {
        if count > 0 {
            *self.flaws.entry((code, detail)).or_default() += count;
        }
    }

    fn part(&mut self, plan: &Plan, part: &Part<'_>) {
        for (mine, theirs) in self.ids.iter_mut().zip(&part.ids) {
            mine.union(theirs);
        }
        for (wanted, count) in plan.slots.iter().zip(&part.flaws.wrong_type) {
            self.add("P105", format!("{}.{}", plan.source.table, wanted.name), *count);
        }
        for (spec, column) in plan.spec.columns.iter().zip(&part.columns) {
            self.add("P106", format!("{}.{}", plan.spec.name, spec.name), column.too_large);
        }
        self.add("P107", plan.source.table.to_owned(), part.flaws.bad_text);
    }
}

/// Fill the tables and resolve their names.
pub fn fill(reader: &Reader<'_>, plans: &[(Plan, u64)], progress: Progress<'_>, findings: &mut Vec<Finding>) -> Result<(Vec<Table>, Vec<String>), ReadError> {
    let mut tally = Tally::default();
    reader.watch.expect(plans.iter().map(|(_, rows)| *rows).sum());
    let mut filled = Vec::new();
    let mut next = 0;
    while next < plans.len() {
        let into = plans[next].0.spec.name;
        let group: Vec<usize> = (next..plans.len()).take_while(|i| plans[*i].0.spec.name == into).collect();
        next += group.len();
        let cuts: Vec<(&Plan, usize)> = group.iter().map(|i| (&plans[*i].0, plans[*i].1 as usize)).collect();
        let total = cuts.iter().map(|(_, rows)| rows).sum();
        let mut columns = part::columns(cuts[0].0, total);
        let mut rests = Vec::new();
        for (mut part, index) in part::cut(&mut columns, &cuts).into_iter().zip(group) {
            let plan = &plans[index].0;
            through_sqlite(reader, plan, &mut part, progress)?;
            tally.part(plan, &part);
            rests.push(rest(index, part));
        }
        filled.push((plans[rests[0].plan].0.spec, total, columns, rests));
    }
    let (names, locals) = texts(reader, &filled, &mut tally)?;
    let mut tables = Vec::new();
    for ((spec, rows, columns, rests), local) in filled.into_iter().zip(locals) {
        let mut out = Vec::new();
        for (position, values) in columns.into_iter().enumerate() {
            let valid = spec.columns[position].nullable.then(|| bitmap(&rests, position, rows)).flatten();
            out.push(Column { values, valid });
        }
        for (position, column) in out.iter_mut().enumerate() {
            if let (Some(api), Values::I32(values)) = (name_kind(plans, &rests, position), &mut column.values) {
                names.resolve(values, &mut column.valid, api, &local);
            }
        }
        tables.push(Table { spec, rows, columns: out });
    }
    let mut flaws: Vec<_> = tally.flaws.into_iter().collect();
    flaws.sort();
    findings.extend(flaws.into_iter().map(|((code, detail), count)| Finding { code, count, detail }));
    Ok((tables, names.finish()))
}

fn rest(plan: usize, part: Part<'_>) -> Rest {
    let validity = part.columns.into_iter().map(|c| c.validity).collect();
    Rest { plan, rows: part.first..part.first + part.rows, validity, texts: part.texts.finish() }
}

/// Whether a column holds ids of names: `Some(true)` for API names.
fn name_kind(plans: &[(Plan, u64)], rests: &[Rest], position: usize) -> Option<bool> {
    rests.iter().find_map(|rest| match plans[rest.plan].0.roles[position] {
        Role::Name(_, api) => Some(api),
        Role::Text(..) => Some(false),
        _ => None,
    })
}

fn bitmap(rests: &[Rest], position: usize, rows: usize) -> Option<NullBuffer> {
    if rests.iter().all(|r| r.validity[position].valid == r.validity[position].rows) {
        return None;
    }
    let mut bits = BooleanBufferBuilder::new(rows);
    for rest in rests {
        rest.validity[position].append_to(&mut bits);
    }
    Some(NullBuffer::new(bits.finish()))
}

fn through_sqlite(reader: &Reader<'_>, plan: &Plan, part: &mut Part<'_>, progress: Progress<'_>) -> Result<(), ReadError> {
    let columns: Vec<String> = plan.slots.iter().map(|s| s.name.clone()).collect();
    let mut since = 0;
    rows::scan(&reader.database.connection, plan.source.table, &columns, |batch| {
        let count = batch.rows;
        if !part.take(plan, batch) {
            return Err(ReadError::damaged(format!("{} holds more rows than were counted", plan.source.table)));
        }
        reader.watch.advance(count as u64);
        since += count;
        if since >= 1 << 16 {
            since = 0;
            if !progress(reader.watch.fraction()) || reader.watch.stopped() {
                return Err(ReadError::Cancelled);
            }
        }
        Ok(())
    })?;
    if part.filled != part.rows {
        return Err(ReadError::damaged(format!("{} holds fewer rows than were counted", plan.source.table)));
    }
    Ok(())
}

type Filled = (&'static crate::schema::TableSpec, usize, Vec<Values>, Vec<Rest>);
type Locals = Vec<Vec<(Range<usize>, Vec<i32>)>>;

/// Collect the names: inline texts first, then those of the string table.
fn texts(reader: &Reader<'_>, filled: &[Filled], tally: &mut Tally) -> Result<(Names, Locals), ReadError> {
    let mut names = Names::default();
    let locals = filled.iter().map(|(_, _, _, rests)| rests.iter().map(|r| (r.rows.clone(), names.local(&r.texts))).collect()).collect();
    let wanted = std::mem::take(&mut tally.ids);
    let mut found = IdSet::default();
    let columns = reader.database.columns("StringIds")?.0;
    if ["id", "value"].iter().all(|w| columns.iter().any(|c| c.name == *w)) {
        let mut bad = 0;
        rows::scan(&reader.database.connection, "StringIds", &["id".to_owned(), "value".to_owned()], |batch| {
            for row in 0..batch.rows {
                let (id, value) = (&batch.slots[0], &batch.slots[1]);
                if id.kinds[row] != kind::INT || value.kinds[row] != kind::TEXT {
                    continue;
                }
                let id = id.values[row];
                if wanted[0].contains(id) || wanted[1].contains(id) {
                    let (text, lossy) = readable(batch.text(value.values[row]));
                    bad += u64::from(lossy);
                    names.define(id, &text, &wanted);
                    found.insert(id);
                }
            }
            if reader.watch.stopped() { Err(ReadError::Cancelled) } else { Ok(()) }
        })?;
        tally.add("P107", "StringIds".to_owned(), bad);
    }
    let mut all = wanted[0].clone();
    all.union(&wanted[1]);
    tally.add("P128", "StringIds".to_owned(), (all.len() - found.len()) as u64);
    Ok((names, locals))
}
