//! Filled parts into finished tables: missing values, names, time order.

use super::count::Counts;
use super::fill::{Filled, Rest, Tally};
use super::names::{IdSet, Names, readable};
use super::order;
use super::plan::{Plan, Role};
use super::{Reader, fill};
use crate::ReadError;
use crate::recording::{Column, Finding, Table, Values};
use crate::sqlite::batch::{Batch, kind};
use crate::sqlite::pages::{Decoder, Layout};
use crate::sqlite::rows;
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use std::ops::Range;

/// Rows below which a second thread costs more than it saves.
const SMALL: usize = 1 << 16;

type Local = Vec<(Range<usize>, Vec<i32>)>;

/// Names and order for every table; counts the flaws of all parts.
///
/// # Errors
/// P005 where the string table is damaged, [`ReadError::Cancelled`].
pub fn finish(
    reader: &Reader<'_>,
    plans: &[Plan],
    counts: &Counts,
    filled: Vec<Filled>,
    mut tally: Tally,
    findings: &mut Vec<Finding>,
) -> Result<(Vec<Table>, Vec<String>), ReadError> {
    let mut names = Names::default();
    let locals: Vec<Local> = filled.iter().map(|f| f.rests.iter().map(|r| (r.rows.clone(), names.local(&r.texts))).collect()).collect();
    strings(reader, counts, &mut names, &mut tally)?;
    let mut tables = Vec::new();
    for (table, local) in filled.into_iter().zip(locals) {
        let (table, disordered) = one(plans, table, &local, &names);
        if disordered && matches!(table.spec.name, "api" | "kernels" | "copies") {
            findings.push(Finding { code: "P114", count: 1, detail: table.spec.name.to_owned() });
        }
        tables.push(table);
    }
    let mut flaws: Vec<_> = tally.flaws.into_iter().collect();
    flaws.sort();
    findings.extend(flaws.into_iter().map(|((code, detail), count)| Finding { code, count, detail }));
    Ok((tables, names.finish()))
}

/// One table; its columns are worked on side by side.
fn one(plans: &[Plan], filled: Filled, local: &Local, names: &Names) -> (Table, bool) {
    let (spec, rows, rests) = (filled.spec, filled.rows, &filled.rests);
    let order =
        spec.columns.iter().zip(&filled.columns).find(|(c, _)| c.name.ends_with("_ns")).and_then(|(_, values)| order::needed(values));
    let work = |(position, values): (usize, Values)| {
        let mut column = Column { values, valid: spec.columns[position].nullable.then(|| bitmap(rests, position, rows)).flatten() };
        if let (Some(api), Values::I32(values)) = (name_kind(plans, rests, position), &mut column.values) {
            names.resolve(values, &mut column.valid, api, local);
        }
        if let Some(order) = &order {
            order::arrange(&mut column, order);
        }
        column
    };
    let mut first: Vec<(usize, Values)> = filled.columns.into_iter().enumerate().collect();
    let second = if rows < SMALL { Vec::new() } else { first.split_off(first.len() / 2) };
    let columns = std::thread::scope(|scope| {
        let second = (!second.is_empty()).then(|| scope.spawn(|| second.into_iter().map(work).collect::<Vec<_>>()));
        let mut out: Vec<Column> = first.into_iter().map(work).collect();
        if let Some(second) = second {
            out.extend(second.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        out
    });
    (Table { spec, rows, columns }, order.is_some())
}

/// Whether a column holds ids of names: `Some(true)` for API names.
fn name_kind(plans: &[Plan], rests: &[Rest], position: usize) -> Option<bool> {
    rests.iter().find_map(|rest| match plans[rest.plan].roles[position] {
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

/// Read the string table and keep what is referred to.
fn strings(reader: &Reader<'_>, counts: &Counts, names: &mut Names, tally: &mut fill::Tally) -> Result<(), ReadError> {
    let wanted = std::mem::take(&mut tally.ids);
    let mut found = IdSet::default();
    let mut bad = 0;
    let mut give = |batch: &mut Batch| {
        let (id, value) = (&batch.slots[0], &batch.slots[1]);
        for row in 0..batch.rows {
            let number = id.values[row];
            if id.kinds[row] == kind::INT && value.kinds[row] == kind::TEXT && (wanted[0].contains(number) || wanted[1].contains(number)) {
                let (text, lossy) = readable(batch.text(value.values[row]));
                bad += u64::from(lossy);
                names.define(number, &text, &wanted);
                found.insert(number);
            }
        }
        if reader.watch.stopped() { Err(ReadError::Cancelled) } else { Ok(()) }
    };
    let (columns, generated) = reader.database.columns("StringIds")?;
    let place = |name: &str| columns.iter().position(|c| c.name == name);
    if let (Some(id), Some(value)) = (place("id"), place("value")) {
        let direct = !generated && !columns[id].special && !columns[value].special;
        match counts.trees.get("StringIds").filter(|_| direct) {
            Some(tree) => {
                let layout = Layout::new(&[(id, columns[id].rowid), (value, false)]);
                Decoder::new(reader.pages, &layout).leaves(&tree.leaves, &mut give)?;
            }
            None => rows::scan(&reader.database.connection, "StringIds", &["id".to_owned(), "value".to_owned()], &mut give)?,
        }
    }
    let mut all = wanted[0].clone();
    all.union(&wanted[1]);
    tally.add("P107", "StringIds".to_owned(), bad);
    tally.add("P128", "StringIds".to_owned(), (all.count() - found.count()) as u64);
    Ok(())
}
