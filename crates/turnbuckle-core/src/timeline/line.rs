//! The run time along a line of the parameter space, with every breakpoint.
//!
//! The run time is the upper envelope of one straight line a path.  Two lines that are known at both ends of an interval
//! meet inside it: if no path is longer there, the envelope between is known; if one is, its line splits the interval.
//! Each pass over the graph evaluates many intervals side by side, those with the largest possible error first.

use super::compile::{END, Wait};
use super::{Blocks, GraphError, Rate, Rates, TIE, Timeline, WIDTH, shared_out};
use std::sync::atomic::Ordering;

/// A convex, piecewise linear function: `slopes[i]` between `knots[i]` and `knots[i + 1]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// The interval's ends and the breakpoints between, ascending.
    pub knots: Vec<f64>,
    /// Run time [ns] at each knot.
    pub values: Vec<f64>,
    /// Run time per unit [ns], one for each segment.
    pub slopes: Vec<f64>,
    /// Largest error left [ns]: the run time is at most this much above; 0 where every breakpoint was found.
    pub gap: f64,
}

/// A stretch of a line through the parameter space.
#[derive(Clone, Copy, Debug)]
pub struct Stretch<'a> {
    /// Parameters at 0.
    pub at: &'a [f64],
    /// Change of the parameters a unit.
    pub direction: &'a [f64],
    /// First and last place on the line.
    pub ends: (f64, f64),
}

/// A longest path at `s`: its length is `constant + slope * s` everywhere, and nowhere more than the run time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Support {
    s: f64,
    constant: f64,
    slope: f64,
}

impl Support {
    fn at(&self, s: f64) -> f64 {
        self.constant + self.slope * s
    }

    fn value(&self) -> f64 {
        self.at(self.s)
    }

    fn meets(&self, other: &Self) -> f64 {
        (self.constant - other.constant) / (other.slope - self.slope)
    }
}

/// An interval whose inside is not known yet.
#[derive(Clone, Copy)]
struct Open {
    left: Support,
    right: Support,
    /// Where the two lines meet, and how much longer a path could be there.
    s: f64,
    gain: f64,
}

impl Open {
    /// The interval between two places, unless nothing worth `least` can be inside.
    fn between(left: Support, right: Support, least: f64) -> Option<Self> {
        let s = left.meets(&right);
        if !(s > left.s && s < right.s && right.slope > left.slope) {
            return None;
        }
        let chord = left.value() + (right.value() - left.value()) * ((s - left.s) / (right.s - left.s));
        let gain = chord - left.at(s);
        (gain > least).then_some(Self { left, right, s, gain })
    }
}

type Lanes = [f64; WIDTH];

impl Timeline {
    /// The run time between the ends of a stretch, with all of its breakpoints, or the first `limit` of them found.
    ///
    /// # Errors
    /// Parameters that are missing, values that are not finite, ends in the wrong order, a limit of 0.
    pub fn line(&self, on: Stretch<'_>, limit: usize, threads: usize, stop: &(dyn Fn() -> bool + Sync)) -> Result<Line, GraphError> {
        let (first, last) = on.ends;
        if on.at.len() != self.parameters || on.direction.len() != self.parameters {
            return Err(GraphError::Lengths);
        }
        if on.at.iter().chain(on.direction).chain([&first, &last]).any(|v| !v.is_finite()) || first > last || limit == 0 {
            return Err(GraphError::Value);
        }
        let threads = self.worth(threads, threads.saturating_mul(WIDTH));
        let look = |places: &[f64]| self.supports(on, places, threads, stop);
        let spare = (WIDTH - 2).min(limit - 1) as i32;
        let mut places = vec![first];
        if last > first {
            places.extend((1..=spare).rev().map(|i| first + (last - first) * 0.25_f64.powi(i)).filter(|s| *s > first && *s < last));
            places.push(last);
        }
        let mut known = look(&places);
        let least = known.iter().map(|k| k.value().abs()).fold(0.0, f64::max) * TIE;
        let mut room = limit.saturating_sub(known.windows(2).filter(|pair| pair[0].slope < pair[1].slope).count());
        let mut open: Vec<Open> = known.windows(2).filter_map(|pair| Open::between(pair[0], pair[1], least)).collect();
        while !open.is_empty() && room > 0 && !stop() {
            open.sort_unstable_by(|a, b| a.gain.total_cmp(&b.gain));
            let taken = open.split_off(open.len() - open.len().min(room).min(WIDTH * threads));
            let found = look(&taken.iter().map(|o| o.s).collect::<Vec<_>>());
            for (gap, support) in taken.iter().zip(found) {
                if support.value() - gap.left.at(gap.s) > least {
                    room -= 1;
                    known.push(support);
                    open.extend(Open::between(gap.left, support, least));
                    open.extend(Open::between(support, gap.right, least));
                }
            }
        }
        let gap = Self::error_left(open, &look, threads, least);
        Ok(envelope(known, on.ends, least, gap))
    }

    /// The largest error inside intervals that stay open: each is looked at where its error is largest.
    fn error_left(mut open: Vec<Open>, look: &dyn Fn(&[f64]) -> Vec<Support>, threads: usize, least: f64) -> f64 {
        open.sort_unstable_by(|a, b| a.gain.total_cmp(&b.gain));
        let mut error = 0.0_f64;
        while open.last().is_some_and(|o| o.gain > error) {
            let taken = open.split_off(open.len().saturating_sub(WIDTH * threads));
            let found = look(&taken.iter().map(|o| o.s).collect::<Vec<_>>());
            let errors = taken.iter().zip(found).map(|(o, support)| support.value() - o.left.at(o.s));
            error = errors.filter(|e| *e > least).fold(error, f64::max);
        }
        error
    }

    /// A longest path at each of `places`.
    fn supports(&self, on: Stretch<'_>, places: &[f64], threads: usize, stop: &(dyn Fn() -> bool + Sync)) -> Vec<Support> {
        let mut out = vec![Support::default(); places.len()];
        let blocks = Blocks { length: 1, width: WIDTH, threads };
        shared_out(blocks, places, &mut out, stop, |part, place| self.supports_of_block(on, part, place));
        out
    }

    fn supports_of_block(&self, on: Stretch<'_>, places: &[f64], out: &mut [Support]) {
        let mut s: Lanes = [places[0]; WIDTH];
        s[..places.len()].copy_from_slice(places);
        let (here, along) = (Rates::<1>::new(self, on.at, 1.0), Rates::<1>::new(self, on.direction, 0.0));
        let (mut spare, mut spare_along) = (Rate::NOTHING, Rate::NOTHING);
        // constants and slopes apart, so that whole numbers stay exact however odd the place
        let mut x = vec![[[0.0_f64; WIDTH]; 2]; self.slots];
        let mut waits = &self.waits[..];
        for step in &self.steps {
            let (mine, rest) = waits.split_at(step.waits as usize);
            waits = rest;
            let mut through = |wait: &Wait| {
                let (here, along, lag) = (here.of(wait, &mut spare), along.of(wait, &mut spare_along), wait.lag as f64);
                let (lag, slope) = (lag * here.scale[0] + here.add[0], lag * along.scale[0] + along.add[0]);
                (&x[wait.slot as usize], lag, slope)
            };
            let Some((one, more)) = mine.split_first() else { continue };
            let (before, lag, slope) = through(one);
            let mut by = further(before, lag, slope, &s);
            for wait in more {
                let (before, lag, slope) = through(wait);
                let other = further(before, lag, slope, &s);
                for w in 0..WIDTH {
                    let later = other[0][w] + other[1][w] * s[w] > by[0][w] + by[1][w] * s[w];
                    by[0][w] = if later { other[0][w] } else { by[0][w] };
                    by[1][w] = if later { other[1][w] } else { by[1][w] };
                }
            }
            by[0] = by[0].map(|at| at + step.residual as f64);
            x[step.slot as usize] = by;
        }
        self.looks[0].fetch_add(1, Ordering::Relaxed);
        self.looks[1].fetch_add(places.len(), Ordering::Relaxed);
        let [constant, slope] = x[END];
        for (w, support) in out.iter_mut().enumerate() {
            *support = Support { s: s[w], constant: constant[w], slope: slope[w] };
        }
    }
}

/// Constants and slopes after one more lag, which is never less than 0.
#[inline(always)]
fn further([constants, slopes]: &[Lanes; 2], lag: f64, slope: f64, s: &Lanes) -> [Lanes; 2] {
    let (mut by, mut rise) = (*constants, *slopes);
    for w in 0..WIDTH {
        let held = lag + slope * s[w] > 0.0;
        by[w] += if held { lag } else { 0.0 };
        rise[w] += if held { slope } else { 0.0 };
    }
    [by, rise]
}

/// The upper envelope of all known lines; lines that add less than `least` are noise.
fn envelope(mut known: Vec<Support>, (first, last): (f64, f64), least: f64, gap: f64) -> Line {
    known.sort_unstable_by(|a, b| a.s.total_cmp(&b.s));
    let mut kept: Vec<(f64, Support)> = Vec::new();
    for line in &known {
        while let Some((begin, top)) = kept.last().copied() {
            // the same line but for noise, or one that noise made bend the wrong way
            if (line.slope - top.slope) * (last - first) <= least {
                break;
            }
            let s = line.meets(&top);
            let below = s <= begin || kept.len() > 1 && adds_nothing(&known, &kept[kept.len() - 2].1, line, least);
            if !below {
                if s < last {
                    kept.push((s, *line));
                }
                break;
            }
            kept.pop();
        }
        if kept.is_empty() {
            kept.push((first, *line));
        }
    }
    let mut knots: Vec<f64> = kept.iter().map(|(s, _)| *s).collect();
    let mut values: Vec<f64> = kept.iter().map(|(s, line)| line.at(*s)).collect();
    let slopes = kept.iter().map(|(_, line)| line.slope).collect();
    knots.push(last);
    values.push(kept.last().map_or(0.0, |(_, line)| line.at(last)));
    Line { knots, values, slopes, gap }
}

/// Whether no known line is above two others where they meet.
fn adds_nothing(known: &[Support], left: &Support, right: &Support, least: f64) -> bool {
    let s = left.meets(right);
    known.iter().all(|line| line.at(s) - left.at(s) <= least)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{many_branches, two_branches};
    use super::*;

    fn line(t: &Timeline, ends: (f64, f64), limit: usize) -> Line {
        t.line(Stretch { at: &[0.0], direction: &[1.0], ends }, limit, 2, &|| false).unwrap()
    }

    #[test]
    fn a_breakpoint_is_found_where_it_is() {
        let found = line(&two_branches(), (-10.0, 10.0), 9);
        assert_eq!(found, Line { knots: vec![-10.0, -1.0, 10.0], values: vec![8.0, 8.0, 19.0], slopes: vec![0.0, 1.0], gap: 0.0 });
        let flat = line(&two_branches(), (2.0, 2.0), 9);
        assert_eq!((flat.knots, flat.values, flat.slopes), (vec![2.0, 2.0], vec![11.0, 11.0], vec![1.0]));
    }

    #[test]
    fn every_one_of_many_breakpoints_is_found() {
        let found = line(&many_branches(100), (-0.5, 99.5), 1000);
        let expected: Vec<f64> = [-0.5].into_iter().chain((0..99).map(|i| f64::from(i) + 0.5)).chain([99.5]).collect();
        assert_eq!(found.knots, expected);
        assert_eq!(found.slopes, (0..100).map(|i| 2.0 * f64::from(i)).collect::<Vec<_>>());
        assert_eq!(found.gap, 0.0);
    }

    #[test]
    fn what_the_limit_leaves_out_is_no_more_than_the_gap() {
        let all = line(&many_branches(100), (0.0, 99.0), 1000);
        for limit in 1..20 {
            let some = line(&many_branches(100), (0.0, 99.0), limit);
            assert!(some.slopes.len() <= limit + 1);
            let error = |s: f64| value(&all, s) - value(&some, s);
            let errors: Vec<f64> = (0..=990).map(|i| error(f64::from(i) * 0.1)).collect();
            assert!(errors.iter().all(|e| (-1e-6..=some.gap + 1e-6).contains(e)));
            assert!(some.knots.iter().any(|s| (error(*s) - some.gap).abs() < 1e-6), "the gap is reached");
        }
    }

    fn value(line: &Line, s: f64) -> f64 {
        let i = line.knots[1..line.knots.len() - 1].partition_point(|k| *k <= s);
        line.values[i] + line.slopes[i] * (s - line.knots[i])
    }

    #[test]
    fn what_is_no_stretch_is_refused() {
        let t = two_branches();
        let refused = |at: f64, ends, limit| t.line(Stretch { at: &[at], direction: &[1.0], ends }, limit, 1, &|| false).unwrap_err();
        assert_eq!(refused(f64::INFINITY, (0.0, 1.0), 1), GraphError::Value);
        assert_eq!(refused(0.0, (1.0, 0.0), 1), GraphError::Value);
        assert_eq!(refused(0.0, (0.0, f64::NAN), 1), GraphError::Value);
        assert_eq!(refused(0.0, (0.0, 1.0), 0), GraphError::Value);
        assert!(t.line(Stretch { at: &[], direction: &[1.0], ends: (0.0, 1.0) }, 1, 1, &|| false).is_err());
    }

    #[test]
    fn a_stop_is_heeded() {
        let t = many_branches(100);
        let stopped = t.line(Stretch { at: &[0.0], direction: &[1.0], ends: (0.0, 99.0) }, 1000, 2, &|| true);
        assert!(stopped.is_ok_and(|line| line.slopes.len() < 3));
    }
}
