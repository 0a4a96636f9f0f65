//! One-sided derivatives of the run time along directions of the parameters.
//!
//! The run time is a maximum of linear functions, one a path.  Where several paths are longest, the derivative to the
//! right is that of the steepest one and the derivative to the left that of the flattest.

use super::compile::{END, Wait};
use super::{Blocks, GraphError, Rate, Rates, TIE, Timeline, WIDTH, shared_out};

/// The run time at a point and its derivatives along one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slopes {
    /// Run time [ns].
    pub value: f64,
    /// Derivative towards smaller parameters [ns a unit].
    pub left: f64,
    /// Derivative towards larger parameters [ns a unit].
    pub right: f64,
}

type Lanes = [f64; WIDTH];

impl Timeline {
    /// Run time and one-sided derivatives at `at` along each of `directions`, one row of `parameters` values each.
    ///
    /// Paths tie where they differ by less than [`TIE`] of the instant, and only if equal where all values are whole.
    ///
    /// # Errors
    /// Rows that do not give every parameter, values that are not finite.
    pub fn slopes(
        &self,
        at: &[f64],
        directions: &[f64],
        threads: usize,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Slopes>, GraphError> {
        if self.parameters == 0 || at.len() != self.parameters || !directions.len().is_multiple_of(self.parameters) {
            return Err(GraphError::Lengths);
        }
        if at.iter().chain(directions).any(|v| !v.is_finite()) {
            return Err(GraphError::Value);
        }
        let mut out = vec![Slopes::default(); directions.len() / self.parameters];
        let blocks = Blocks { length: self.parameters, width: WIDTH, threads: self.worth(threads, out.len()) };
        shared_out(blocks, directions, &mut out, stop, |rows, part| self.slopes_of_block(at, rows, part));
        Ok(out)
    }

    fn slopes_of_block(&self, at: &[f64], rows: &[f64], out: &mut [Slopes]) {
        let (here, along) = (Rates::<1>::new(self, at, 1.0), Rates::<WIDTH>::new(self, rows, 0.0));
        let (mut spare, mut spare_along) = (Rate::NOTHING, Rate::NOTHING);
        let tie = if here.are_whole() { 0.0 } else { TIE };
        let mut x = vec![Fan::START; self.slots];
        let mut waits = &self.waits[..];
        for step in &self.steps {
            let (mine, rest) = waits.split_at(step.waits as usize);
            waits = rest;
            let mut lag = |wait: &Wait| {
                let rate = here.of(wait, &mut spare);
                wait.lag as f64 * rate.scale[0] + rate.add[0]
            };
            let latest = mine.iter().map(|w| x[w.slot as usize].value + lag(w).max(0.0)).fold(f64::NEG_INFINITY, f64::max);
            let least = latest - tie * latest.abs();
            let mut fan = Fan { value: latest + step.residual as f64, left: [f64::INFINITY; WIDTH], right: [f64::NEG_INFINITY; WIDTH] };
            for wait in mine {
                let (before, lag) = (&x[wait.slot as usize], lag(wait));
                if before.value + lag.max(0.0) >= least {
                    fan.join(before, wait.lag as f64, lag, along.of(wait, &mut spare_along));
                }
            }
            x[step.slot as usize] = fan;
        }
        let end = &x[END];
        for (w, one) in out.iter_mut().enumerate() {
            *one = Slopes { value: end.value, left: end.left[w], right: end.right[w] };
        }
    }
}

/// An instant and the range of slopes of all paths that decide it, for each direction.
#[derive(Clone, Copy)]
struct Fan {
    value: f64,
    left: Lanes,
    right: Lanes,
}

impl Fan {
    const START: Self = Self { value: 0.0, left: [0.0; WIDTH], right: [0.0; WIDTH] };

    /// Paths by one more wait: they go on with the slope of its lag, nothing where it is clamped, one side at the kink.
    fn join(&mut self, before: &Self, recorded: f64, lag: f64, along: &Rate<WIDTH>) {
        let kink = TIE * recorded.abs();
        let (clamped, open) = (lag <= kink, lag >= -kink);
        for w in 0..WIDTH {
            let slope = recorded * along.scale[w] + along.add[w];
            let low = if open && !(clamped && slope > 0.0) { slope } else { 0.0 };
            let high = if open && !(clamped && slope < 0.0) { slope } else { 0.0 };
            self.left[w] = self.left[w].min(before.left[w] + low);
            self.right[w] = self.right[w].max(before.right[w] + high);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::two_branches;
    use super::*;

    #[test]
    fn both_sides_of_a_tie_and_of_a_clamp() {
        let t = two_branches();
        let slopes = |at: f64| t.slopes(&[at], &[1.0, -2.0], 2, &|| false).unwrap();
        // 5 + 1 against 3 + 4 + p: the tie is at -1, the lag is clamped below -4, hidden there
        assert_eq!(slopes(0.0)[0], Slopes { value: 9.0, left: 1.0, right: 1.0 });
        assert_eq!(slopes(-1.0)[0], Slopes { value: 8.0, left: 0.0, right: 1.0 });
        assert_eq!(slopes(-1.0)[1], Slopes { value: 8.0, left: -2.0, right: 0.0 });
        assert_eq!(slopes(-2.0)[0], Slopes { value: 8.0, left: 0.0, right: 0.0 });
        assert_eq!(t.slopes(&[f64::NAN], &[1.0], 1, &|| false), Err(GraphError::Value));
        assert_eq!(t.slopes(&[], &[1.0], 1, &|| false), Err(GraphError::Lengths));
    }
}
