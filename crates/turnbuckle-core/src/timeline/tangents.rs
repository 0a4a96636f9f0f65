//! The run time and one of its longest paths under each of many scenarios: planes that touch the run time from below.

use super::{Blocks, GraphError, NONE, Rate, Rates, Timeline, WIDTH, after, shared_out};

/// The run time at a point, and how one longest path there changes with each parameter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tangent {
    /// Run time [ns].
    pub value: f64,
    /// Change for each unit of each parameter [ns]; a lag that has shrunk to nothing does not shrink further.
    pub slopes: Vec<f64>,
}

/// Which of its waits decided each step in each of `W` scenarios: a byte a step, as there are seldom many.
struct Decided<const W: usize> {
    few: Vec<[u8; W]>,
    many: Vec<(usize, [u32; W])>,
}

impl<const W: usize> Decided<W> {
    #[inline(always)]
    fn note(&mut self, step: usize, waits: u32, decided: [u32; W]) {
        // the first one need not be noted, so that most of the memory is never touched
        if waits > 1 && decided.iter().fold(0, |all, one| all | one) > 0 {
            self.few[step] = decided.map(|wait| wait.min(u32::from(u8::MAX)) as u8);
            if waits > u32::from(u8::MAX) {
                self.many.push((step, decided));
            }
        }
    }

    fn of(&self, step: usize, lane: usize) -> usize {
        match (self.few[step][lane], self.many.binary_search_by_key(&step, |(step, _)| *step)) {
            (u8::MAX, Ok(found)) => self.many[found].1[lane] as usize,
            (few, _) => usize::from(few),
        }
    }
}

impl Timeline {
    /// Run time and slopes under each of many scenarios, one row of `parameters` values each; `stop` is asked now and then.
    ///
    /// # Errors
    /// Rows that do not give every parameter.
    pub fn tangents(&self, scenarios: &[f64], threads: usize, stop: &(dyn Fn() -> bool + Sync)) -> Result<Vec<Tangent>, GraphError> {
        if self.parameters == 0 || !scenarios.len().is_multiple_of(self.parameters) {
            return Err(GraphError::Lengths);
        }
        let mut out = vec![Tangent::default(); scenarios.len() / self.parameters];
        let threads = self.worth(threads, out.len());
        let width = out.len().div_ceil(threads).min(WIDTH);
        let vectors = pulp::Arch::new();
        shared_out(Blocks { length: self.parameters, width, threads }, scenarios, &mut out, stop, |rows, part| match part.len() {
            0..=1 => self.tangents_of::<1>(rows, part),
            2 => self.tangents_of::<2>(rows, part),
            3..=4 => vectors.dispatch(Pass::<4> { timeline: self, rows, out: part }),
            _ => vectors.dispatch(Pass::<WIDTH> { timeline: self, rows, out: part }),
        });
        Ok(out)
    }

    /// Up to `W` scenarios in one pass forward, which notes what decided, and one back along their paths.
    #[inline(always)]
    fn tangents_of<const W: usize>(&self, rows: &[f64], out: &mut [Tangent]) {
        let (rates, mut spare) = (Rates::<W>::new(self, rows, 1.0), Rate::NOTHING);
        let mut by = Decided { few: vec![[0; W]; self.steps.len()], many: Vec::new() };
        let mut x = vec![[0.0_f64; W]; self.slots];
        let mut waits = &self.waits[..];
        let (mut ends, mut last) = ([NONE; W], [0.0; W]);
        for (v, (step, instant)) in self.steps.iter().zip(&self.instant).enumerate() {
            let (mine, rest) = waits.split_at(step.waits as usize);
            waits = rest;
            let Some((one, more)) = mine.split_first() else { continue };
            let (mut latest, mut decided) = (after(&x, one, rates.of(one, &mut spare)), [0_u32; W]);
            for (i, wait) in more.iter().enumerate() {
                let other = after(&x, wait, rates.of(wait, &mut spare));
                for w in 0..W {
                    decided[w] = if other[w] > latest[w] { i as u32 + 1 } else { decided[w] };
                    latest[w] = if other[w] > latest[w] { other[w] } else { latest[w] };
                }
            }
            by.note(v, step.waits, decided);
            let residual = step.residual as f64;
            let at = latest.map(|at| at + residual);
            x[step.slot as usize] = at;
            if *instant != NONE {
                for w in 0..W {
                    ends[w] = if at[w] > last[w] { v as u32 } else { ends[w] };
                    last[w] = if at[w] > last[w] { at[w] } else { last[w] };
                }
            }
        }
        for (one, last) in out.iter_mut().zip(last) {
            one.value = last;
        }
        self.sloped(&rates, &ends, &by, out);
    }

    /// Add up the slopes along each scenario's path, from its end back: what a wait read is what was last put into its slot.
    fn sloped<const W: usize>(&self, rates: &Rates<'_, W>, ends: &[u32; W], by: &Decided<W>, out: &mut [Tangent]) {
        let mut sums = vec![[vec![0.0; self.parameters], vec![0.0; self.parameters]]; out.len()];
        let (mut wanted, mut next, mut spare) = ([NONE; W], self.waits.len(), Rate::NOTHING);
        for (v, step) in self.steps.iter().enumerate().rev() {
            next -= step.waits as usize;
            if step.waits == 0 || !(wanted.contains(&step.slot) || ends.contains(&(v as u32))) {
                continue;
            }
            for (w, sums) in sums.iter_mut().enumerate() {
                if wanted[w] != step.slot && ends[w] != v as u32 {
                    continue;
                }
                let wait = &self.waits[next + by.of(v, w)];
                wanted[w] = wait.slot;
                let (lag, rate) = (wait.lag as f64, rates.of(wait, &mut spare));
                if lag * rate.scale[w] + rate.add[w] > 0.0 {
                    for (term, sums) in self.laws[wait.law as usize].terms.iter().zip(sums) {
                        if let Some(sum) = sums.get_mut(term.parameter as usize) {
                            *sum += term.amount.unwrap_or(lag);
                        }
                    }
                }
            }
        }
        for (one, [first, second]) in out.iter_mut().zip(sums) {
            one.slopes = first.iter().zip(&second).map(|(first, second)| first + second).collect();
        }
    }
}

/// A pass of `tangents`, compiled for each width of vectors that a machine may have.
struct Pass<'a, const W: usize> {
    timeline: &'a Timeline,
    rows: &'a [f64],
    out: &'a mut [Tangent],
}

impl<const W: usize> pulp::NullaryFnOnce for Pass<'_, W> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.timeline.tangents_of::<W>(self.rows, self.out);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{many_branches, two_branches};
    use super::*;

    /// Between ties and clamps a tangent's slope is the derivative on both sides, and it is never above the run time.
    #[test]
    fn touch_from_below_with_the_slope_of_the_run_time() {
        for (t, scale) in [(two_branches(), 0.77), (many_branches(300), 20.3)] {
            let at: Vec<f64> = (0..21).map(|i| (f64::from(i) - 10.0) * scale).collect();
            let (last, tangents) = (t.last(&at, 2, &|| false).unwrap(), t.tangents(&at, 2, &|| false).unwrap());
            for ((here, value), tangent) in at.iter().zip(&last).zip(&tangents) {
                assert_eq!(tangent.value, *value);
                let slope = t.slopes(&[*here], &[1.0], 1, &|| false).unwrap()[0];
                assert!(slope.left <= tangent.slopes[0] && tangent.slopes[0] <= slope.right);
                assert!(
                    at.iter().zip(&last).all(|(there, value)| tangent.value + (there - here) * tangent.slopes[0] <= value * (1.0 + 1e-12))
                );
            }
            // as one by one
            assert!(at.iter().zip(&tangents).all(|(at, one)| t.tangents(&[*at], 1, &|| false).unwrap()[0] == *one));
        }
        assert_eq!(two_branches().tangents(&[0.0], 1, &|| false).unwrap()[0], Tangent { value: 9.0, slopes: vec![1.0] });
    }

    #[test]
    fn refuse_rows_that_lack_parameters() {
        let t = Timeline::new(0, super::super::Edges { from: &[], to: &[], lag: &[], terms: [(&[], &[]); 2] }, &[], 2).unwrap();
        assert_eq!(t.tangents(&[0.0], 1, &|| false), Err(GraphError::Lengths));
        assert_eq!(t.tangents(&[0.0, 1.0], 1, &|| false).unwrap()[0].slopes, [0.0, 0.0]);
    }
}
