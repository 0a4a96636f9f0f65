//! Local definitions of one location: which of its ids mean which global ones, and how far its clock is off.

use super::bytes::Cursor;
use super::chunks::Part;
use super::definitions::Clock;
use crate::ReadError;
use crate::progress::Watch;
use std::collections::HashMap;

const REGION: u8 = 3;
const COMM: u8 = 6;
const PARAMETER: u8 = 7;
const WINDOW: u8 = 8;
const CONTEXT: u8 = 10;
const SPARSE: u8 = 1;
const SECOND_NS: u64 = 1_000_000_000;

/// Local ids to global ones; an id that is not named keeps its number.
#[derive(Debug, Default)]
pub(super) struct Map {
    dense: Vec<u64>,
    sparse: HashMap<u64, u64>,
}

impl Map {
    fn read(r: &mut Cursor<'_>) -> Option<Self> {
        let (count, mode) = (usize::try_from(r.u64()?).ok()?, r.u8()?);
        if count > r.left() {
            return None; // a pair takes a byte at least
        }
        let mut map = Self::default();
        if mode == SPARSE {
            for _ in 0..count {
                map.sparse.insert(r.u64()?, r.u64()?);
            }
        } else {
            map.dense = (0..count).map(|_| r.u64()).collect::<Option<_>>()?;
        }
        Some(map)
    }

    /// The global id of a local one.
    #[inline]
    pub fn global(&self, id: u32) -> u32 {
        let known = match usize::try_from(id).ok().and_then(|i| self.dense.get(i)) {
            Some(known) => Some(*known),
            None if self.sparse.is_empty() => None,
            None => self.sparse.get(&u64::from(id)).copied(),
        };
        known.map_or(id, |k| u32::try_from(k).unwrap_or(u32::MAX))
    }
}

/// What is known of one location.
#[derive(Debug, Default)]
pub(super) struct Local {
    pub regions: Map,
    pub comms: Map,
    pub contexts: Map,
    pub parameters: Map,
    pub windows: Map,
    /// Tick and what to add to the clock there, in time order.
    pub offsets: Vec<(u64, i64)>,
}

impl Local {
    /// Read the file of one location's definitions.
    pub fn read(part: &Part, chunk: u64, watch: &Watch) -> Result<(Self, String), ReadError> {
        let mut all = Self::default();
        let digest = part.records::<false>(chunk, watch, |kind, body, _| all.record(kind, body).ok_or("a local definition is cut"))?;
        all.offsets.sort_by_key(|(tick, _)| *tick);
        all.offsets.dedup_by_key(|(tick, _)| *tick);
        Ok((all, digest))
    }

    fn record(&mut self, kind: u8, mut r: Cursor<'_>) -> Option<()> {
        match kind {
            5 => {
                let what = r.u8()?;
                let map = Map::read(&mut r)?;
                match what {
                    REGION => self.regions = map,
                    COMM => self.comms = map,
                    PARAMETER => self.parameters = map,
                    WINDOW => self.windows = map,
                    CONTEXT => self.contexts = map,
                    _ => {}
                }
            }
            6 => {
                let (tick, offset, _deviation) = (r.u64_full()?, r.i64()?, r.f64_full()?);
                self.offsets.push((tick, offset));
            }
            _ => {}
        }
        Some(())
    }
}

/// Ticks of one location to nanoseconds of the trace.
#[derive(Debug)]
pub(super) struct Ticks<'a> {
    clock: Clock,
    offsets: &'a [(u64, i64)],
    at: usize,
}

impl<'a> Ticks<'a> {
    pub fn new(clock: Clock, offsets: &'a [(u64, i64)]) -> Self {
        Self { clock, offsets, at: 0 }
    }

    /// Time [ns] of a tick: corrected along the line between the two clock offsets around it (beyond them, along the nearest
    /// line), then counted from the trace's zero, rounded to the nearest.
    #[inline]
    pub fn ns(&mut self, tick: u64) -> i64 {
        let offset = match self.offsets {
            [] => 0,
            [(_, only)] => *only,
            all => {
                while self.at + 2 < all.len() && tick > all[self.at + 1].0 {
                    self.at += 1;
                }
                while self.at > 0 && tick < all[self.at].0 {
                    self.at -= 1;
                }
                let ((from, low), (to, high)) = (all[self.at], all[self.at + 1]);
                let slope = high.wrapping_sub(low) as f64 / (to - from) as f64;
                let beyond = if tick >= from { (tick - from) as f64 } else { -((from - tick) as f64) };
                low.saturating_add((slope * beyond).round_ties_even() as i64)
            }
        };
        let ticks = i128::from(tick) + i128::from(offset) - i128::from(self.clock.zero);
        let ns = nanoseconds(ticks.unsigned_abs(), self.clock.resolution);
        if ticks < 0 { -ns } else { ns }
    }
}

/// A number of ticks [ns], at most two years: what is larger is no time.
pub(super) fn nanoseconds(ticks: u128, resolution: u64) -> i64 {
    const MOST: u64 = 1 << 56;
    let most = |ns: u128| u64::try_from(ns).unwrap_or(MOST).min(MOST) as i64;
    match u64::try_from(ticks) {
        Ok(ticks) if resolution == SECOND_NS => most(u128::from(ticks)),
        Ok(ticks) if resolution < 1 << 33 => {
            let (seconds, rest) = (ticks / resolution, ticks % resolution);
            most(u128::from(seconds) * u128::from(SECOND_NS) + u128::from((rest * SECOND_NS + resolution / 2) / resolution))
        }
        _ => most((ticks * u128::from(SECOND_NS) + u128::from(resolution / 2)) / u128::from(resolution)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_nanoseconds() {
        let clock = Clock { resolution: 2_000_000_000, zero: 1000, length: 0, utc_ns: u64::MAX };
        let mut plain = Ticks::new(clock, &[]);
        assert_eq!((plain.ns(1000), plain.ns(1003), plain.ns(0)), (0, 2, -500));
        let offsets = [(1000, 0), (2000, 100), (3000, 100)];
        let mut bent = Ticks::new(clock, &offsets);
        assert_eq!([1000, 1500, 2000, 3000, 4000, 1500, 0].map(|t| bent.ns(t)), [0, 275, 550, 1050, 1550, 275, -550]);
        assert_eq!(Ticks::new(clock, &[(5, 10)]).ns(1000), 5);
        assert_eq!(nanoseconds(u128::from(u64::MAX), 1), 1 << 56);
        assert_eq!(nanoseconds(u128::from(u64::MAX) * 3, u64::MAX), 3 * SECOND_NS as i64);
        assert_eq!(nanoseconds(7, 3_000_000_000), 2);
    }
}
