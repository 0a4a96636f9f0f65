//! The run time where some waits are left out or keep part of their lag, on the compiled graph as it is.
//!
//! Compiling a second graph for one question takes ten times as long as the answer, and as much memory again.

use super::compile::{Law, NOTHING};
use super::{GraphError, Rate, Rates, Timeline};

/// The edge is left out: nothing waits there.
pub const LEFT_OUT: u8 = 1;
/// The first term of its change does not count.
pub const FIRST: u8 = 2;
/// The second term of its change does not count.
pub const SECOND: u8 = 4;

impl Timeline {
    /// The last instant [ns] under one scenario, where each edge is spared what its entry says: a sum of [`LEFT_OUT`], [`FIRST`] and [`SECOND`].
    ///
    /// # Errors
    /// A scenario that does not give every parameter; not one entry for each edge.
    pub fn last_sparing(&self, scenario: &[f64], spared: &[u8]) -> Result<f64, GraphError> {
        if scenario.len() != self.parameters || spared.len() != self.edges {
            return Err(GraphError::Lengths);
        }
        let laws = [0, FIRST, SECOND, FIRST | SECOND].map(|which| without(&self.laws, which));
        let rates = laws.each_ref().map(|laws| Rates::<1>::by(laws, self.parameters, scenario, 1.0));
        let mut spare = Rate::NOTHING;
        let mut x = vec![0.0_f64; self.slots];
        let (mut waits, mut edges) = (&self.waits[..], &self.edge[..]);
        // an instant whose last wait is left out is an end, which nothing gathers: look at all of them
        let mut last = 0.0_f64;
        for step in &self.steps {
            let (mine, rest) = waits.split_at(step.waits as usize);
            let (names, others) = edges.split_at(step.waits as usize);
            (waits, edges) = (rest, others);
            let mut latest = f64::NEG_INFINITY;
            for (wait, edge) in mine.iter().zip(names) {
                let which = spared.get(*edge as usize).copied().unwrap_or(0);
                if which & LEFT_OUT == 0 {
                    let rate = rates[usize::from(which >> 1) & 3].of(wait, &mut spare);
                    latest = latest.max(x[wait.slot as usize] + (wait.lag as f64 * rate.scale[0] + rate.add[0]).max(0.0));
                }
            }
            // what waits for nothing happens when no rule says otherwise: after the run's start
            let at = if latest == f64::NEG_INFINITY { 0.0 } else { latest } + step.residual as f64;
            x[step.slot as usize] = at;
            last = last.max(at);
        }
        Ok(last)
    }
}

/// Laws without some of their terms.
fn without(laws: &[Law], which: u8) -> Vec<Law> {
    let kept = |law: &Law| Law {
        terms: [if which & FIRST == 0 { law.terms[0] } else { NOTHING }, if which & SECOND == 0 { law.terms[1] } else { NOTHING }],
    };
    laws.iter().map(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Edges, NONE};
    use super::*;

    /// 0 -> 1 (5, twice parameter 0 and parameter 1 on top), 1 -> 2 (3), 0 -> 2 (6).
    fn made(kept: &[usize], terms: [u32; 2]) -> Timeline {
        let pick = |all: [u32; 3]| kept.iter().map(|e| all[*e]).collect::<Vec<_>>();
        let (first, second) = (pick([terms[0], NONE, NONE]), pick([terms[1], NONE, NONE]));
        let amount = vec![2.0; kept.len()];
        let lag: Vec<i64> = kept.iter().map(|e| [5, 3, 6][*e]).collect();
        let edges = Edges { from: &pick([0, 1, 0]), to: &pick([1, 2, 2]), lag: &lag, terms: [(&first, &amount), (&second, &amount)] };
        Timeline::new(3, edges, &[0; 3], 2).unwrap()
    }

    #[test]
    fn as_a_graph_compiled_without_them() {
        let whole = made(&[0, 1, 2], [0, 1]);
        let scenario = [1.0, 10.0];
        for left_out in 0..3 {
            let kept: Vec<usize> = (0..3).filter(|e| *e != left_out).collect();
            let mut spared = [0; 3];
            spared[left_out] = LEFT_OUT;
            let compiled = made(&kept, [0, 1]).last(&scenario, 1, &|| false).unwrap();
            assert_eq!(vec![whole.last_sparing(&scenario, &spared).unwrap()], compiled);
        }
        for (which, terms) in [(FIRST, [NONE, 1]), (SECOND, [0, NONE]), (FIRST | SECOND, [NONE; 2])] {
            let compiled = made(&[0, 1, 2], terms).last(&scenario, 1, &|| false).unwrap();
            assert_eq!(vec![whole.last_sparing(&scenario, &[which, 0, 0]).unwrap()], compiled);
        }
        assert_eq!(whole.last_sparing(&scenario, &[0; 3]).unwrap(), 30.0);
    }

    #[test]
    fn what_does_not_fit_the_graph_is_refused() {
        let whole = made(&[0, 1, 2], [0, 1]);
        assert_eq!(whole.last_sparing(&[0.0], &[0; 3]), Err(GraphError::Lengths));
        assert_eq!(whole.last_sparing(&[0.0; 2], &[0; 2]), Err(GraphError::Lengths));
    }
}
