//! Activities of a run as columns: rows alike numbered, and the time line on which each instant belongs to one of them.

use std::collections::HashMap;

/// Columns of different lengths, or a level below zero.
#[derive(Debug, PartialEq, Eq)]
pub struct Lengths;

impl std::fmt::Display for Lengths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the columns of the activities differ in length, or a level is below zero")
    }
}

impl std::error::Error for Lengths {}

/// Rows numbered by the combination of their values.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Numbered {
    /// Number of each row; combinations are numbered in the order in which they first occur.
    pub number: Vec<u32>,
    /// Row at which each combination first occurs.
    pub first: Vec<u32>,
}

/// Combinations kept at hand while rows are numbered.
const RECENT: usize = 1024;

/// Number the combinations of values of some columns.
///
/// # Errors
/// Columns that differ in length.
pub fn numbered(columns: &[&[i64]]) -> Result<Numbered, Lengths> {
    let rows = columns.first().map_or(0, |column| column.len());
    if columns.iter().any(|column| column.len() != rows) || u32::try_from(rows).is_err() {
        return Err(Lengths);
    }
    let mut out = Numbered { number: vec![0; rows], first: Vec::new() };
    for column in columns {
        // one column more: pairs of the number so far and its value
        let mut seen: HashMap<(u32, i64), u32> = HashMap::new();
        out.first.clear();
        // few among many rows: the hash that withstands hostile values is seldom asked
        let mut recent: [Option<((u32, i64), u32)>; RECENT] = [None; RECENT];
        for (row, (number, value)) in out.number.iter_mut().zip(*column).enumerate() {
            let pair = (*number, *value);
            let place = &mut recent[(value.cast_unsigned() as usize ^ (*number as usize).wrapping_mul(7)) % RECENT];
            let found = match place {
                Some((before, found)) if *before == pair => *found,
                _ => *seen.entry(pair).or_insert_with(|| {
                    out.first.push(row as u32);
                    out.first.len() as u32 - 1
                }),
            };
            *place = Some((pair, found));
            *number = found;
        }
    }
    Ok(out)
}

/// Activities as parallel columns, in any order; no end is before its start.
#[derive(Clone, Copy, Debug)]
pub struct Spans<'a> {
    /// Begin of each [ns].
    pub start: &'a [i64],
    /// End of each [ns].
    pub end: &'a [i64],
    /// Priority of each, 0 first.
    pub level: &'a [i8],
    /// Instant at which a delay of it takes effect [ns].
    pub felt: &'a [i64],
    /// Order of those with one level, start and end; empty where nothing tells them apart.
    pub tie: &'a [i64],
}

/// What of the time line belongs to each activity.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Exposed {
    /// Time of each that none of higher priority covers, nor an earlier one of the same priority [ns].
    pub own: Vec<i64>,
    /// Whether the nanosecond before it is felt belongs to it.
    pub tail: Vec<bool>,
    /// Exposed time of each level [ns].
    pub by_level: Vec<i64>,
    /// Whether two of one level begin and end together, and no tie was given to tell them apart.
    pub tied: bool,
}

/// Give each instant to the activity of the highest priority that covers it, of those to the one that began first, of those to the longest.
///
/// # Errors
/// Columns that differ in length, a level below zero.
pub fn exposed(on: Spans<'_>) -> Result<Exposed, Lengths> {
    let rows = on.start.len();
    let fits = [on.end.len(), on.level.len(), on.felt.len()].iter().all(|n| *n == rows) && (on.tie.is_empty() || on.tie.len() == rows);
    if !fits || u32::try_from(rows).is_err() || on.level.iter().any(|level| *level < 0) {
        return Err(Lengths);
    }
    let levels = on.level.iter().max().map_or(0, |level| *level as usize + 1);
    let mut out = Exposed { own: vec![0; rows], tail: vec![false; rows], by_level: vec![0; levels], tied: false };
    let mut of_level: Vec<Vec<u32>> = vec![Vec::new(); levels];
    for (row, level) in on.level.iter().enumerate() {
        of_level[*level as usize].push(row as u32);
    }
    let mut higher = Vec::new();
    for (level, mut order) in of_level.into_iter().enumerate() {
        let key = |row: u32| (on.start[row as usize], std::cmp::Reverse(on.end[row as usize]), on.tie.get(row as usize));
        // most tables are in order: a stable sort sees it
        order.sort_by_key(|row| key(*row));
        out.tied |= on.tie.is_empty() && order.windows(2).any(|pair| key(pair[0]) == key(pair[1]));
        out.by_level[level] = line(on, &order, &higher, &mut out);
        higher = union(&higher, on, &order);
    }
    Ok(out)
}

/// One level, its activities in order, under what all higher ones cover: disjoint, in order.  Returns its exposed time [ns].
fn line(on: Spans<'_>, order: &[u32], higher: &[(i64, i64)], out: &mut Exposed) -> i64 {
    let (mut reach, mut total, mut next) = (i64::MIN, 0, 0);
    for row in order {
        let row = *row as usize;
        let (start, end, felt) = (on.start[row], on.end[row], on.felt[row]);
        // what no earlier one of the level covers; these stretches do not overlap
        let fresh = start.max(reach);
        reach = reach.max(end);
        if fresh >= end {
            continue;
        }
        while next < higher.len() && higher[next].1 <= fresh {
            next += 1;
        }
        let mut covered = 0;
        let mut hidden = false;
        for (begin, until) in higher[next..].iter().take_while(|(begin, _)| *begin < end) {
            covered += (*until).min(end) - (*begin).max(fresh);
            hidden |= *begin < felt && felt <= *until;
        }
        out.own[row] = end - fresh - covered;
        out.tail[row] = fresh < felt && felt <= end && !hidden;
        total += out.own[row];
    }
    total
}

/// Disjoint stretches and activities in order of their begin, as disjoint stretches that do not touch.
fn union(higher: &[(i64, i64)], on: Spans<'_>, order: &[u32]) -> Vec<(i64, i64)> {
    let mut out: Vec<(i64, i64)> = Vec::new();
    let mut spans = order.iter().map(|row| (on.start[*row as usize], on.end[*row as usize])).peekable();
    let mut stretches = higher.iter().copied().peekable();
    loop {
        let (begin, until) = match (spans.peek(), stretches.peek()) {
            (Some(span), Some(stretch)) if span.0 <= stretch.0 => *span,
            (_, Some(stretch)) => *stretch,
            (Some(span), None) => *span,
            (None, None) => return out,
        };
        if spans.peek() == Some(&(begin, until)) {
            spans.next();
        } else {
            stretches.next();
        }
        match out.last_mut() {
            _ if until <= begin => {}
            Some(last) if begin <= last.1 => last.1 = last.1.max(until),
            _ => out.push((begin, until)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_are_numbered_as_they_first_occur() {
        let found = numbered(&[&[7, 3, 7, 7, 3], &[1, 2, 1, 2, 2]]).unwrap();
        assert_eq!(found, Numbered { number: vec![0, 1, 0, 2, 1], first: vec![0, 1, 3] });
        assert_eq!(numbered(&[&[1], &[]]), Err(Lengths));
        assert_eq!(numbered(&[]), Ok(Numbered::default()));
    }

    fn of(spans: &[(i64, i64, i8)], tie: &[i64]) -> Exposed {
        let (start, end): (Vec<_>, Vec<_>) = spans.iter().map(|s| (s.0, s.1)).unzip();
        let level: Vec<_> = spans.iter().map(|s| s.2).collect();
        exposed(Spans { start: &start, end: &end, level: &level, felt: &end, tie }).unwrap()
    }

    #[test]
    fn an_instant_belongs_to_the_highest_then_the_first_then_the_longest() {
        let found = of(&[(0, 10, 1), (2, 4, 0), (3, 6, 0), (9, 12, 1), (0, 12, 1)], &[]);
        assert_eq!(found.own, vec![0, 2, 2, 0, 8]);
        assert_eq!(found.tail, vec![false, true, true, false, true]);
        assert_eq!((found.by_level, found.tied), (vec![4, 8], false));
    }

    #[test]
    fn of_two_that_are_one_stretch_the_tie_decides() {
        let twice = [(0, 5, 0), (0, 5, 0)];
        assert!(of(&twice, &[]).tied);
        assert_eq!(of(&twice, &[2, 1]), Exposed { own: vec![0, 5], tail: vec![false, true], by_level: vec![5], tied: false });
    }

    /// Every nanosecond given away one by one.
    #[test]
    fn as_nanosecond_by_nanosecond() {
        let mut state = 7_u64;
        let mut drawn = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % most
        };
        for _ in 0..200 {
            let spans: Vec<(i64, i64, i8)> = (0..12)
                .map(|_| {
                    let start = drawn(30) as i64;
                    (start, start + drawn(12) as i64, drawn(3) as i8)
                })
                .collect();
            let tie: Vec<i64> = (0..12).collect();
            let mut order: Vec<usize> = (0..12).collect();
            order.sort_by_key(|i| (spans[*i].2, spans[*i].0, -spans[*i].1, *i));
            let mut own = vec![0; 12];
            let mut tail = vec![false; 12];
            for t in 0..50 {
                if let Some(i) = order.iter().find(|i| spans[**i].0 <= t && t < spans[**i].1) {
                    own[*i] += 1;
                    tail[*i] |= t + 1 == spans[*i].1;
                }
            }
            let found = of(&spans, &tie);
            assert_eq!((found.own, found.tail), (own, tail));
        }
    }

    #[test]
    fn columns_that_do_not_fit_are_refused() {
        let on = Spans { start: &[0], end: &[1], level: &[-1], felt: &[1], tie: &[] };
        assert_eq!(exposed(on), Err(Lengths));
        assert_eq!(exposed(Spans { level: &[], ..on }), Err(Lengths));
    }
}
