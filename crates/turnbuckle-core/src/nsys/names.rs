//! Texts: only those that a column refers to are loaded, each once, numbered without gaps.

use crate::recording::Table;
use crate::sqlite::batch::{Batch, Slot, kind};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

const DENSE: i64 = 1 << 24;

/// A set of ids of the string table.
#[derive(Debug, Default, Clone)]
pub struct IdSet {
    dense: Vec<u64>,
    sparse: HashSet<i64>,
}

impl IdSet {
    /// Add one id; negative ones are not ids.
    pub fn insert(&mut self, id: i64) {
        if (0..DENSE).contains(&id) {
            let word = (id / 64) as usize;
            if word >= self.dense.len() {
                self.dense.resize(word + 1, 0);
            }
            self.dense[word] |= 1 << (id % 64);
        } else if id >= 0 {
            self.sparse.insert(id);
        }
    }

    /// Add the integers among the first `rows` cells of a slot.
    pub fn extend(&mut self, cells: &Slot, rows: usize) {
        let mut last = -1;
        for (value, kind) in cells.cells(rows) {
            if kind == kind::INT && value != last {
                self.insert(value);
                last = value;
            }
        }
    }

    /// Add another set.
    pub fn union(&mut self, other: &Self) {
        if other.dense.len() > self.dense.len() {
            self.dense.resize(other.dense.len(), 0);
        }
        for (to, from) in self.dense.iter_mut().zip(&other.dense) {
            *to |= from;
        }
        self.sparse.extend(&other.sparse);
    }

    /// Whether it holds an id.
    pub fn contains(&self, id: i64) -> bool {
        if (0..DENSE).contains(&id) {
            self.dense.get((id / 64) as usize).is_some_and(|w| w >> (id % 64) & 1 == 1)
        } else {
            self.sparse.contains(&id)
        }
    }

    /// How many ids it holds.
    pub fn count(&self) -> usize {
        self.dense.iter().map(|w| w.count_ones() as usize).sum::<usize>() + self.sparse.len()
    }
}

/// Texts found inside the rows of one part, each once.
#[derive(Debug, Default)]
pub struct LocalTexts {
    places: HashMap<String, i64>,
    /// In order of first use.
    pub list: Vec<String>,
}

/// What was wrong with texts.
#[derive(Debug, Default)]
pub struct BadTexts {
    /// Bytes that are not UTF-8 were replaced.
    pub not_utf8: u64,
    /// Not a text at all.
    pub not_text: u64,
}

impl LocalTexts {
    /// Cells of a name column from inline texts and ids: an inline text becomes -1 - (its place in `list`).
    pub fn cells(&mut self, batch: &Batch, text: Option<usize>, id: Option<usize>, out: &mut Slot) -> BadTexts {
        let mut bad = BadTexts::default();
        out.seen = 0;
        for row in 0..batch.rows {
            if let Some(slot) = text {
                let slot = &batch.slots[slot];
                match slot.kinds[row] {
                    kind::TEXT => {
                        let (text, lossy) = readable(batch.text(slot.values[row]));
                        bad.not_utf8 += u64::from(lossy);
                        out.set(row, kind::INT, -1 - self.place(&text));
                        continue;
                    }
                    kind::NULL => {}
                    _ => bad.not_text += 1,
                }
            }
            match id.map(|slot| (batch.slots[slot].kinds[row], batch.slots[slot].values[row])) {
                Some((kind::INT, value)) if value >= 0 => out.set(row, kind::INT, value),
                _ => out.set(row, kind::NULL, 0),
            }
        }
        bad
    }

    fn place(&mut self, text: &str) -> i64 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = self.list.len() as i64;
        self.list.push(text.to_owned());
        self.places.insert(text.to_owned(), place);
        place
    }

    /// Drop the index, keep the list.
    pub fn finish(self) -> Vec<String> {
        self.list
    }
}

/// A text, and whether bad bytes were replaced.
pub fn readable(bytes: &[u8]) -> (std::borrow::Cow<'_, str>, bool) {
    let text = String::from_utf8_lossy(bytes);
    let lossy = matches!(text, std::borrow::Cow::Owned(_));
    (text, lossy)
}

/// The name of an API call without the version that the tracing library appends (`cudaMalloc_v3020`).
pub fn without_version(name: &str) -> &str {
    match name.rfind("_v") {
        Some(at) if at > 0 && name.len() - at >= 6 && name[at + 2..].bytes().all(|b| b.is_ascii_digit()) => &name[..at],
        _ => name,
    }
}

/// All names of a recording while they are collected.
#[derive(Debug, Default)]
pub struct Names {
    list: Vec<String>,
    places: HashMap<String, i32>,
    by_id: [Lookup; 2],
}

#[derive(Debug, Default)]
struct Lookup {
    dense: Vec<i32>,
    sparse: HashMap<i64, i32>,
}

impl Lookup {
    fn set(&mut self, id: i64, place: i32) {
        if (0..DENSE).contains(&id) {
            let at = id as usize;
            if at >= self.dense.len() {
                self.dense.resize(at + 1, -1);
            }
            self.dense[at] = place;
        } else {
            self.sparse.insert(id, place);
        }
    }

    fn get(&self, id: i32) -> i32 {
        match self.dense.get(id as usize) {
            Some(place) => *place,
            None => self.sparse.get(&i64::from(id)).copied().unwrap_or(-1),
        }
    }
}

impl Names {
    fn place(&mut self, text: &str) -> i32 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = i32::try_from(self.list.len()).unwrap_or(i32::MAX);
        self.list.push(text.to_owned());
        self.places.insert(text.to_owned(), place);
        place
    }

    /// Give the text of an id of the string table to the columns that refer to it.
    pub fn define(&mut self, id: i64, text: &str, wanted: &[IdSet; 2]) {
        if wanted[0].contains(id) {
            let place = self.place(text);
            self.by_id[0].set(id, place);
        }
        if wanted[1].contains(id) {
            let place = self.place(without_version(text));
            self.by_id[1].set(id, place);
        }
    }

    /// Places of the inline texts of one part.
    pub fn local(&mut self, texts: &[String]) -> Vec<i32> {
        texts.iter().map(|t| self.place(t)).collect()
    }

    /// The finished list.
    pub fn finish(self) -> Vec<String> {
        self.list
    }

    /// Put final places into a name column.  `local` maps inline texts by range of rows.  Rows without a text become missing.
    pub fn resolve(&self, values: &mut [i32], valid: &mut Option<arrow_buffer::NullBuffer>, api: bool, local: &[(Range<usize>, Vec<i32>)]) {
        let lookup = &self.by_id[usize::from(api)];
        let mut gone = Vec::new();
        let mut part = local.iter().peekable();
        for (row, value) in values.iter_mut().enumerate() {
            if valid.as_ref().is_some_and(|v| v.is_null(row)) {
                continue;
            }
            let place = if *value >= 0 {
                lookup.get(*value)
            } else {
                while part.peek().is_some_and(|(range, _)| range.end <= row) {
                    part.next();
                }
                part.peek().and_then(|(_, places)| places.get((-1 - i64::from(*value)) as usize)).copied().unwrap_or(-1)
            };
            if place < 0 {
                gone.push(row);
            }
            *value = place.max(0);
        }
        if !gone.is_empty() {
            let mut bits = arrow_buffer::BooleanBufferBuilder::new(values.len());
            match valid.as_ref() {
                Some(old) => bits.append_buffer(old.inner()),
                None => bits.append_n(values.len(), true),
            }
            for row in gone {
                bits.set_bit(row, false);
            }
            *valid = Some(arrow_buffer::NullBuffer::new(bits.finish()));
        }
    }
}

/// Rows of a name column whose text is `text`.
pub fn rows_named(table: &Table, column: &str, names: &[String], text: &str) -> Vec<usize> {
    let Some(place) = names.iter().position(|n| n == text) else {
        return Vec::new();
    };
    let Some(column) = table.column(column) else {
        return Vec::new();
    };
    (0..table.rows).filter(|r| column.get(*r) == Some(place as i64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_cut_and_nothing_else() {
        assert_eq!(without_version("cudaMalloc_v3020"), "cudaMalloc");
        assert_eq!(without_version("cudaGetDeviceProperties_v2_v12000"), "cudaGetDeviceProperties_v2");
        assert_eq!(without_version("cuMemcpyHtoDAsync_v2"), "cuMemcpyHtoDAsync_v2");
        assert_eq!(without_version("_v3020"), "_v3020");
        assert_eq!(without_version("cuLaunchKernel"), "cuLaunchKernel");
        assert_eq!(without_version("é_v3020é"), "é_v3020é");
    }

    #[test]
    fn sets_hold_small_and_large_ids() {
        let mut a = IdSet::default();
        for id in [0, 63, 64, DENSE - 1, DENSE, i64::from(i32::MAX), -5] {
            a.insert(id);
        }
        assert_eq!(a.count(), 6);
        assert!(a.contains(DENSE) && a.contains(64) && !a.contains(1) && !a.contains(-5));
        let mut b = IdSet::default();
        b.insert(7);
        b.union(&a);
        assert_eq!(b.count(), 7);
    }
}
