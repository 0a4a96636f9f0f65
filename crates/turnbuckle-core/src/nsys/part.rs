//! Batches of cells into typed columns: a part is a run of rows of one table that one thread fills.

use super::mapping::{DIRECTIONS, NONE};
use super::names::{IdSet, LocalTexts};
use super::plan::{Plan, Role};
use crate::recording::Values;
use crate::schema::Type;
use crate::sqlite::batch::{Batch, Slot, kind};

/// Which rows of a part hold a value; costs nothing while all rows agree.
#[derive(Debug, Default)]
pub struct Validity {
    /// Rows so far.
    pub rows: usize,
    /// Rows with a value.
    pub valid: usize,
    bits: Vec<u8>,
}

impl Validity {
    /// `count` rows that all hold a value, or none of which does.
    pub fn run(&mut self, valid: bool, count: usize) {
        if count == 0 {
            return;
        }
        if self.bits.is_empty() && self.uniform(valid) {
            self.rows += count;
            self.valid += if valid { count } else { 0 };
            return;
        }
        for _ in 0..count {
            self.push(valid);
        }
    }

    /// One row.
    pub fn push(&mut self, valid: bool) {
        if self.bits.is_empty() {
            if self.uniform(valid) {
                self.rows += 1;
                self.valid += usize::from(valid);
                return;
            }
            self.bits = vec![if self.valid > 0 { 0xFF } else { 0 }; self.rows.div_ceil(8)];
            if self.valid > 0 && !self.rows.is_multiple_of(8) {
                let last = self.bits.len() - 1;
                self.bits[last] = (1u8 << (self.rows % 8)) - 1;
            }
        }
        if self.rows.is_multiple_of(8) {
            self.bits.push(0);
        }
        if valid {
            self.bits[self.rows / 8] |= 1 << (self.rows % 8);
            self.valid += 1;
        }
        self.rows += 1;
    }

    fn uniform(&self, valid: bool) -> bool {
        self.rows == 0 || (valid && self.valid == self.rows) || (!valid && self.valid == 0)
    }

    /// Append to an Arrow bitmap.
    pub fn append_to(&self, out: &mut arrow_buffer::BooleanBufferBuilder) {
        if self.bits.is_empty() {
            out.append_n(self.rows, self.valid > 0);
        } else {
            out.append_packed_range(0..self.rows, &self.bits);
        }
    }
}

/// The place one column's values go to.
#[derive(Debug)]
pub enum Place<'a> {
    /// 64-bit.
    I64(&'a mut [i64]),
    /// 32-bit.
    I32(&'a mut [i32]),
    /// 8-bit.
    I8(&'a mut [i8]),
}

/// One column of a part.
#[derive(Debug)]
pub struct PartColumn<'a> {
    place: Place<'a>,
    nullable: bool,
    /// Which rows hold a value (nullable columns only).
    pub validity: Validity,
    /// Values that did not fit the type.
    pub too_large: u64,
}

/// Flaws of a part, counted.
#[derive(Debug, Default)]
pub struct Flaws {
    /// Values of a wrong type, by slot.
    pub wrong_type: Vec<u64>,
    /// Texts with bytes that are not UTF-8.
    pub bad_text: u64,
}

/// A run of rows of one table.
#[derive(Debug)]
pub struct Part<'a> {
    /// The columns, in the order of the table.
    pub columns: Vec<PartColumn<'a>>,
    /// First row inside the table.
    pub first: usize,
    /// Rows it should get.
    pub rows: usize,
    /// Rows it got.
    pub filled: usize,
    /// Inline texts of its name column.
    pub texts: LocalTexts,
    /// Ids of the string table it refers to: plain names and API names.
    pub ids: [IdSet; 2],
    /// Flaws.
    pub flaws: Flaws,
    scratch: Slot,
}

/// Empty columns of a table: zeros that no page of memory stands behind yet.
pub fn columns(plan: &Plan, rows: usize) -> Vec<Values> {
    plan.spec.columns.iter().map(|c| Values::zeros(c.kind, rows)).collect()
}

/// Cut `columns` into parts of the given numbers of rows.
pub fn cut<'a>(columns: &'a mut [Values], plans: &[(&Plan, usize)]) -> Vec<Part<'a>> {
    let mut out: Vec<Part<'a>> = Vec::with_capacity(plans.len());
    let mut first = 0;
    for (plan, rows) in plans {
        let flaws = Flaws { wrong_type: vec![0; plan.slots.len()], bad_text: 0 };
        out.push(Part {
            columns: Vec::with_capacity(columns.len()),
            first,
            rows: *rows,
            filled: 0,
            texts: LocalTexts::default(),
            ids: [IdSet::default(), IdSet::default()],
            flaws,
            scratch: Slot::default(),
        });
        first += rows;
    }
    for (position, values) in columns.iter_mut().enumerate() {
        let nullable = |plan: &Plan| plan.spec.columns[position].nullable;
        match values {
            Values::I64(v) => spread(v, plans, &mut out, Place::I64, nullable),
            Values::I32(v) => spread(v, plans, &mut out, Place::I32, nullable),
            Values::I8(v) => spread(v, plans, &mut out, Place::I8, nullable),
            Values::Text(_) => debug_assert!(false, "no source feeds a text column"),
        }
    }
    out
}

fn spread<'a, T>(
    mut rest: &'a mut [T],
    plans: &[(&Plan, usize)],
    out: &mut [Part<'a>],
    wrap: impl Fn(&'a mut [T]) -> Place<'a>,
    nullable: impl Fn(&Plan) -> bool,
) {
    for ((plan, rows), part) in plans.iter().zip(out) {
        let (head, tail) = rest.split_at_mut(*rows);
        rest = tail;
        part.columns.push(PartColumn { place: wrap(head), nullable: nullable(plan), validity: Validity::default(), too_large: 0 });
    }
}

impl PartColumn<'_> {
    fn write(&mut self, at: usize, cells: &Slot, count: usize) {
        if cells.only(kind::NULL) {
            self.validity.run(false, count);
            return;
        }
        let whole = cells.only(kind::INT);
        if whole && let Place::I64(place) = &mut self.place {
            place[at..at + count].copy_from_slice(&cells.values[..count]);
            self.validity.run(true, count);
            return;
        }
        if whole && self.narrow(at, &cells.values[..count]) {
            self.validity.run(true, count);
            return;
        }
        for (row, (value, kind)) in cells.cells(count).enumerate() {
            let there = kind == kind::INT && self.store(at + row, value);
            if self.nullable {
                self.validity.push(there);
            }
        }
    }

    /// Store values that all fit; false where one does not.
    fn narrow(&mut self, at: usize, values: &[i64]) -> bool {
        match &mut self.place {
            Place::I64(_) => false,
            Place::I32(place) => {
                let mut fits = true;
                for (to, &from) in place[at..at + values.len()].iter_mut().zip(values) {
                    *to = from as i32;
                    fits &= i64::from(*to) == from;
                }
                fits
            }
            Place::I8(place) => {
                let mut fits = true;
                for (to, &from) in place[at..at + values.len()].iter_mut().zip(values) {
                    *to = from as i8;
                    fits &= i64::from(*to) == from;
                }
                fits
            }
        }
    }

    fn store(&mut self, at: usize, value: i64) -> bool {
        let fits = match &mut self.place {
            Place::I64(place) => {
                place[at] = value;
                true
            }
            Place::I32(place) => {
                let narrow = i32::try_from(value);
                place[at] = narrow.unwrap_or(0);
                narrow.is_ok()
            }
            Place::I8(place) => {
                let narrow = i8::try_from(value);
                place[at] = narrow.unwrap_or(0);
                narrow.is_ok()
            }
        };
        self.too_large += u64::from(!fits);
        fits
    }

    fn zero(&mut self, at: usize) {
        match &mut self.place {
            Place::I64(place) => place[at] = 0,
            Place::I32(place) => place[at] = 0,
            Place::I8(place) => place[at] = 0,
        }
    }
}

impl Part<'_> {
    /// Convert a batch and append it.  Returns false where it holds more rows than the part has room for.
    pub fn take(&mut self, plan: &Plan, batch: &mut Batch) -> bool {
        if self.filled + batch.rows > self.rows {
            return false;
        }
        for (position, wanted) in plan.slots.iter().enumerate() {
            if !wanted.text {
                self.flaws.wrong_type[position] += integers(batch, position);
            }
        }
        let at = self.filled;
        let mut scratch = std::mem::take(&mut self.scratch);
        for (position, role) in plan.roles.iter().enumerate() {
            let column = &mut self.columns[position];
            match *role {
                Role::Int(slot) => column.write(at, &batch.slots[slot], batch.rows),
                Role::Name(slot, api) => {
                    let cells = &batch.slots[slot];
                    self.ids[usize::from(api)].extend(cells, batch.rows);
                    column.write(at, cells, batch.rows);
                }
                Role::Text(text, id) => {
                    let bad = self.texts.cells(batch, text, id, &mut scratch);
                    self.flaws.bad_text += bad.not_utf8;
                    if let Some(slot) = text {
                        self.flaws.wrong_type[slot] += bad.not_text;
                    }
                    self.ids[0].extend(&scratch, batch.rows);
                    column.write(at, &scratch, batch.rows);
                }
                other => {
                    evaluate(other, batch, &mut scratch, &mut column.too_large);
                    column.write(at, &scratch, batch.rows);
                }
            }
        }
        self.scratch = scratch;
        self.without_time(plan, batch, at);
        self.filled += batch.rows;
        true
    }

    /// A row whose start or end is missing gets 0 for both, so that the check can set it aside and count it.
    fn without_time(&mut self, plan: &Plan, batch: &Batch, at: usize) {
        let mut times = Vec::new();
        for (position, (spec, role)) in plan.spec.columns.iter().zip(&plan.roles).enumerate() {
            if let (Type::Int64, false, Role::Int(slot), true) = (spec.kind, spec.nullable, role, spec.name.ends_with("_ns")) {
                times.push((position, *slot));
            }
        }
        if times.iter().all(|(_, slot)| batch.slots[*slot].only(kind::INT)) {
            return;
        }
        for row in 0..batch.rows {
            if times.iter().any(|(_, slot)| batch.slots[*slot].kinds[row] != kind::INT) {
                for (position, _) in &times {
                    self.columns[*position].zero(at + row);
                }
            }
        }
    }
}

/// Leave only integers and NULLs in a slot: a text that is a clean integer is read, all else counts as of a wrong type.
fn integers(batch: &mut Batch, position: usize) -> u64 {
    let slot = &batch.slots[position];
    if slot.seen & !(1 << kind::INT | 1 << kind::NULL) == 0 {
        return 0;
    }
    let mut slot = std::mem::take(&mut batch.slots[position]);
    let mut wrong = 0;
    slot.seen = 0;
    for (kind, value) in slot.kinds.iter_mut().zip(slot.values.iter_mut()).take(batch.rows) {
        if *kind == kind::TEXT
            && let Some(number) = std::str::from_utf8(batch.text(*value)).ok().and_then(|t| t.trim().parse::<i64>().ok())
        {
            (*kind, *value) = (kind::INT, number);
        } else if *kind != kind::INT && *kind != kind::NULL {
            (*kind, *value) = (kind::NULL, 0);
            wrong += 1;
        }
        slot.seen |= 1 << *kind;
    }
    batch.slots[position] = slot;
    wrong
}

fn evaluate(role: Role, batch: &Batch, out: &mut Slot, too_large: &mut u64) {
    out.seen = 0;
    let slot = |n: usize| &batch.slots[n];
    match role {
        Role::Constant(value) => fill(out, batch.rows, kind::INT, value),
        Role::NoneIs(n) => map(out, slot(n), batch.rows, |v| (v != NONE).then_some(v)),
        Role::Process(n) => map(out, slot(n), batch.rows, |v| Some(v & !0xFF_FFFF)),
        Role::Level(n) => map(out, slot(n), batch.rows, |v| (v == 0 || v == 1).then_some(v)),
        Role::Direction(n) => {
            map(out, slot(n), batch.rows, |v| Some(usize::try_from(v).ok().and_then(|k| DIRECTIONS.get(k)).copied().unwrap_or(0)))
        }
        // Raw kinds stay until the numbering is known; -1 is "not recorded".
        Role::Memory(n) => {
            map(out, slot(n), batch.rows, |v| Some(if (0..=7).contains(&v) { v } else { -1 }));
            for (kind, value) in out.kinds.iter_mut().zip(out.values.iter_mut()) {
                if *kind == kind::NULL {
                    (*kind, *value) = (kind::INT, -1);
                }
            }
            out.seen = 1 << kind::INT;
        }
        Role::Product(n) => combine(out, batch.rows, n.map(slot), too_large, i64::checked_mul),
        Role::Sum(n) => combine(out, batch.rows, n.map(slot), too_large, i64::checked_add),
        Role::Missing | Role::Int(_) | Role::Name(..) | Role::Text(..) => fill(out, batch.rows, kind::NULL, 0),
    }
}

fn fill(out: &mut Slot, rows: usize, kind: u8, value: i64) {
    out.kinds[..rows].fill(kind);
    out.values[..rows].fill(value);
    out.seen = 1 << kind;
}

fn map(out: &mut Slot, from: &Slot, rows: usize, f: impl Fn(i64) -> Option<i64>) {
    for (row, (value, kind)) in from.cells(rows).enumerate() {
        match f(value) {
            Some(new) if kind == kind::INT => out.set(row, kind::INT, new),
            _ => out.set(row, kind::NULL, 0),
        }
    }
}

fn combine<const N: usize>(out: &mut Slot, rows: usize, from: [&Slot; N], too_large: &mut u64, f: impl Fn(i64, i64) -> Option<i64>) {
    for row in 0..rows {
        if from.iter().any(|s| s.kinds[row] != kind::INT) {
            out.set(row, kind::NULL, 0);
            continue;
        }
        let mut value = Some(from[0].values[row]);
        for slot in &from[1..] {
            value = value.and_then(|v| f(v, slot.values[row]));
        }
        match value {
            Some(v) => out.set(row, kind::INT, v),
            None => {
                *too_large += 1;
                out.set(row, kind::NULL, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_buffer::BooleanBufferBuilder;

    #[test]
    fn runs_and_single_rows_give_the_same_bits() {
        let patterns: [&[(bool, usize)]; 6] = [
            &[(true, 9), (false, 3), (true, 20), (false, 1)],
            &[(false, 8), (true, 8), (false, 8)],
            &[(true, 7), (false, 1), (true, 1)],
            &[(false, 1), (true, 64)],
            &[(true, 16)],
            &[(false, 5), (false, 0), (false, 6)],
        ];
        for pattern in patterns {
            let (mut runs, mut single, mut expected) = (Validity::default(), Validity::default(), Vec::new());
            for (valid, count) in pattern {
                runs.run(*valid, *count);
                (0..*count).for_each(|_| single.push(*valid));
                expected.extend(std::iter::repeat_n(*valid, *count));
            }
            for validity in [runs, single] {
                let mut bits = BooleanBufferBuilder::new(0);
                bits.append(true);
                validity.append_to(&mut bits);
                let got: Vec<bool> = bits.finish().iter().skip(1).collect();
                assert_eq!(got, expected);
                assert_eq!((validity.rows, validity.valid), (expected.len(), expected.iter().filter(|v| **v).count()));
            }
        }
    }
}
