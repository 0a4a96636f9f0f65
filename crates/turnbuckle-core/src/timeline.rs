//! The timeline replay: a run as a graph of instants, replayed as a longest path.
//!
//! An instant happens when the last of what it waits for has happened: `x[v] = residual[v] + max over edges (x[u] + lag)`.
//! Lags are integer nanoseconds as recorded plus a change that is linear in the parameters of a scenario; with no change
//! the arithmetic is exact and every recorded instant comes back.

use std::fmt;

/// What is wrong with a graph.
#[derive(Debug, PartialEq, Eq)]
pub enum GraphError {
    /// Arrays of different lengths.
    Lengths,
    /// An edge names an instant that does not exist.
    Instant(usize),
    /// Some instants wait for each other: how many are never reached.
    Cycle(usize),
    /// A change names a parameter that the scenario does not give.
    Parameter(usize),
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lengths => write!(f, "the arrays of the graph differ in length"),
            Self::Instant(edge) => write!(f, "edge {edge} names an instant that does not exist"),
            Self::Cycle(count) => write!(f, "{count} instants wait for each other"),
            Self::Parameter(edge) => write!(f, "edge {edge} names a parameter that does not exist"),
        }
    }
}

impl std::error::Error for GraphError {}

/// One term of a lag's change: `amount` nanoseconds for each unit of parameter `parameter`; `NONE` for no term.
#[derive(Clone, Copy, Debug)]
pub struct Term {
    /// Index into a scenario.
    pub parameter: u32,
    /// Nanoseconds a unit.
    pub amount: f64,
}

/// No parameter.
pub const NONE: u32 = u32::MAX;

/// Edges of a graph as parallel arrays.
#[derive(Clone, Copy, Debug)]
pub struct Edges<'a> {
    /// The instant waited for.
    pub from: &'a [u32],
    /// The instant that waits.
    pub to: &'a [u32],
    /// Recorded lag [ns].
    pub lag: &'a [i64],
    /// First and second term of its change.
    pub terms: [(&'a [u32], &'a [f64]); 2],
}

/// A graph in topological order: instants are renumbered so that every edge points forward.
pub struct Timeline {
    place: Vec<u32>,
    start: Vec<u32>,
    from: Vec<u32>,
    lag: Vec<i64>,
    terms: Vec<[Term; 2]>,
    residual: Vec<i64>,
    parameters: usize,
    edge: Vec<u32>,
}

impl Timeline {
    /// Put `instants` in topological order.
    ///
    /// # Errors
    /// Lengths that differ, an edge to nowhere, a parameter beyond `parameters`, a cycle.
    pub fn new(instants: usize, edges: Edges<'_>, residual: &[i64], parameters: usize) -> Result<Self, GraphError> {
        let n = edges.from.len();
        let same = [
            edges.to.len(),
            edges.lag.len(),
            edges.terms[0].0.len(),
            edges.terms[0].1.len(),
            edges.terms[1].0.len(),
            edges.terms[1].1.len(),
        ];
        if same.iter().any(|l| *l != n) || residual.len() != instants || instants > u32::MAX as usize || n > u32::MAX as usize {
            return Err(GraphError::Lengths);
        }
        for i in 0..n {
            if edges.from[i] as usize >= instants || edges.to[i] as usize >= instants {
                return Err(GraphError::Instant(i));
            }
            if edges.terms.iter().any(|(p, _)| p[i] != NONE && p[i] as usize >= parameters) {
                return Err(GraphError::Parameter(i));
            }
        }
        let (out_start, out) = grouped(instants, edges.from);
        let mut waits: Vec<u32> = vec![0; instants];
        for v in edges.to {
            waits[*v as usize] += 1;
        }
        let mut order: Vec<u32> = (0..instants as u32).filter(|v| waits[*v as usize] == 0).collect();
        let mut next = 0;
        while next < order.len() {
            let u = order[next] as usize;
            next += 1;
            for e in &out[out_start[u] as usize..out_start[u + 1] as usize] {
                let v = edges.to[*e as usize];
                waits[v as usize] -= 1;
                if waits[v as usize] == 0 {
                    order.push(v);
                }
            }
        }
        if order.len() != instants {
            return Err(GraphError::Cycle(instants - order.len()));
        }
        let mut place = vec![0_u32; instants];
        for (p, v) in order.iter().enumerate() {
            place[*v as usize] = p as u32;
        }
        let (in_start, incoming) = grouped(instants, edges.to);
        let mut start = Vec::with_capacity(instants + 1);
        let (mut from, mut lag, mut terms, mut edge) =
            (Vec::with_capacity(n), Vec::with_capacity(n), Vec::with_capacity(n), Vec::with_capacity(n));
        for v in &order {
            start.push(from.len() as u32);
            for e in &incoming[in_start[*v as usize] as usize..in_start[*v as usize + 1] as usize] {
                let i = *e as usize;
                from.push(place[edges.from[i] as usize]);
                lag.push(edges.lag[i]);
                terms.push([0, 1].map(|k| Term { parameter: edges.terms[k].0[i], amount: edges.terms[k].1[i] }));
                edge.push(*e);
            }
        }
        start.push(from.len() as u32);
        let residual = order.iter().map(|v| residual[*v as usize]).collect();
        Ok(Self { place, start, from, lag, terms, residual, parameters, edge })
    }

    /// Number of instants.
    pub fn len(&self) -> usize {
        self.residual.len()
    }

    /// Whether there is no instant at all.
    pub fn is_empty(&self) -> bool {
        self.residual.is_empty()
    }

    /// Every instant [ns] after the run's start, nothing changed: exact.
    pub fn recorded(&self) -> Vec<i64> {
        let mut x = vec![0_i64; self.len()];
        for v in 0..self.len() {
            let edges = self.start[v] as usize..self.start[v + 1] as usize;
            let latest = edges.map(|e| x[self.from[e] as usize].saturating_add(self.lag[e])).max().unwrap_or(0);
            x[v] = latest.saturating_add(self.residual[v]);
        }
        self.unplaced(&x)
    }

    /// Every instant [ns] under one scenario, and its critical path: the edges that decided the last instant, last first.
    ///
    /// # Errors
    /// A scenario that does not give every parameter.
    pub fn replayed(&self, scenario: &[f64]) -> Result<(Vec<f64>, Vec<u32>), GraphError> {
        if scenario.len() != self.parameters {
            return Err(GraphError::Lengths);
        }
        let mut x = vec![0.0_f64; self.len()];
        let mut by = vec![NONE; self.len()];
        for v in 0..self.len() {
            let mut latest = f64::NEG_INFINITY;
            for e in self.start[v]..self.start[v + 1] {
                let i = e as usize;
                let reached = x[self.from[i] as usize] + (self.lag[i] as f64 + self.change(i, scenario)).max(0.0);
                if reached > latest {
                    latest = reached;
                    by[v] = e;
                }
            }
            x[v] = if latest.is_finite() { latest } else { 0.0 } + self.residual[v] as f64;
        }
        let mut path = Vec::new();
        let mut v = (0..self.len()).rev().max_by(|a, b| x[*a].total_cmp(&x[*b])).unwrap_or(0);
        while self.len() > v && by[v] != NONE {
            path.push(self.edge[by[v] as usize]);
            v = self.from[by[v] as usize] as usize;
        }
        Ok((self.unplaced(&x), path))
    }

    /// The last instant [ns] under each of many scenarios, one row of `parameters` values each; `stop` is asked now and then.
    ///
    /// # Errors
    /// Rows that do not give every parameter.
    pub fn last(&self, scenarios: &[f64], threads: usize, stop: &(dyn Fn() -> bool + Sync)) -> Result<Vec<f64>, GraphError> {
        if self.parameters == 0 || !scenarios.len().is_multiple_of(self.parameters) {
            return Err(GraphError::Lengths);
        }
        let count = scenarios.len() / self.parameters;
        let mut out = vec![0.0; count];
        let share = count.div_ceil(threads.max(1)).div_ceil(WIDTH) * WIDTH;
        let work = |rows: &[f64], place: &mut [f64]| {
            for (block, part) in rows.chunks(WIDTH * self.parameters).zip(place.chunks_mut(WIDTH)) {
                if stop() {
                    return;
                }
                self.block(block, part);
            }
        };
        std::thread::scope(|scope| {
            let mut shares = scenarios.chunks(share.max(1) * self.parameters).zip(out.chunks_mut(share.max(1)));
            // the caller's own thread takes the first share: only there can it see an interrupt
            let first = shares.next();
            for (rows, place) in shares {
                scope.spawn(move || work(rows, place));
            }
            if let Some((rows, place)) = first {
                work(rows, place);
            }
        });
        Ok(out)
    }

    /// Up to `WIDTH` scenarios in one pass over the graph.
    fn block(&self, rows: &[f64], out: &mut [f64]) {
        let width = out.len();
        // scenario values beside each other, so that one parameter's values for all scenarios are one load
        let mut values = vec![[0.0_f64; WIDTH]; self.parameters];
        for (w, row) in rows.chunks(self.parameters).enumerate() {
            for (p, value) in row.iter().enumerate() {
                values[p][w] = *value;
            }
        }
        let mut x = vec![[0.0_f64; WIDTH]; self.len()];
        let mut last = [0.0_f64; WIDTH];
        for v in 0..self.len() {
            let mut latest = [f64::NEG_INFINITY; WIDTH];
            for e in self.start[v] as usize..self.start[v + 1] as usize {
                let mut lag = [self.lag[e] as f64; WIDTH];
                for term in self.terms[e] {
                    if term.parameter != NONE {
                        let value = &values[term.parameter as usize];
                        for w in 0..WIDTH {
                            lag[w] += term.amount * value[w];
                        }
                    }
                }
                let before = &x[self.from[e] as usize];
                for w in 0..WIDTH {
                    latest[w] = latest[w].max(before[w] + lag[w].max(0.0));
                }
            }
            for w in 0..WIDTH {
                let at = if latest[w].is_finite() { latest[w] } else { 0.0 } + self.residual[v] as f64;
                x[v][w] = at;
                last[w] = last[w].max(at);
            }
        }
        out.copy_from_slice(&last[..width]);
    }

    fn change(&self, edge: usize, scenario: &[f64]) -> f64 {
        self.terms[edge].iter().filter(|t| t.parameter != NONE).map(|t| t.amount * scenario[t.parameter as usize]).sum()
    }

    /// Values in the caller's numbering.
    fn unplaced<T: Copy>(&self, placed: &[T]) -> Vec<T> {
        self.place.iter().map(|p| placed[*p as usize]).collect()
    }
}

/// Scenarios of one pass.
pub const WIDTH: usize = 8;

/// Edges grouped by one of their ends: where each instant's edges begin, and the edges.
fn grouped(instants: usize, ends: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let mut start = vec![0_u32; instants + 1];
    for v in ends {
        start[*v as usize + 1] += 1;
    }
    for i in 0..instants {
        start[i + 1] += start[i];
    }
    let mut next = start.clone();
    let mut edges = vec![0_u32; ends.len()];
    for (e, v) in ends.iter().enumerate() {
        edges[next[*v as usize] as usize] = e as u32;
        next[*v as usize] += 1;
    }
    (start, edges)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_branches() -> Timeline {
        // 0 -> 1 (5), 0 -> 2 (3), 1 -> 3 (1), 2 -> 3 (4 + parameter 0)
        let none = [NONE; 4];
        let zero = [0.0; 4];
        let edges = Edges {
            from: &[0, 0, 1, 2],
            to: &[1, 2, 3, 3],
            lag: &[5, 3, 1, 4],
            terms: [(&[NONE, NONE, NONE, 0], &[0.0, 0.0, 0.0, 1.0]), (&none, &zero)],
        };
        Timeline::new(4, edges, &[0, 0, 0, 2], 1).unwrap()
    }

    #[test]
    fn the_latest_branch_decides() {
        assert_eq!(two_branches().recorded(), vec![0, 5, 3, 9]);
        let (x, path) = two_branches().replayed(&[0.0]).unwrap();
        assert_eq!(x, vec![0.0, 5.0, 3.0, 9.0]);
        assert_eq!(path, vec![3, 1]);
    }

    #[test]
    fn a_change_moves_only_what_waits_for_it() {
        let (x, path) = two_branches().replayed(&[-3.0]).unwrap();
        assert_eq!((x[3], path), (8.0, vec![2, 0]));
    }

    #[test]
    fn many_scenarios_are_as_one_by_one() {
        let t = two_branches();
        let scenarios: Vec<f64> = (0..21).map(|i| f64::from(i) - 10.0).collect();
        let many = t.last(&scenarios, 2, &|| false).unwrap();
        for (s, got) in scenarios.iter().zip(many) {
            let one = t.replayed(&[*s]).unwrap().0.into_iter().fold(0.0, f64::max);
            assert_eq!(got, one);
        }
    }

    #[test]
    fn what_waits_for_itself_is_refused() {
        let none = [NONE; 2];
        let zero = [0.0; 2];
        let edges = Edges { from: &[0, 1], to: &[1, 0], lag: &[1, 1], terms: [(&none, &zero), (&none, &zero)] };
        assert_eq!(Timeline::new(2, edges, &[0, 0], 0).err(), Some(GraphError::Cycle(2)));
        let bad = Edges { from: &[0], to: &[9], lag: &[1], terms: [(&none[..1], &zero[..1]), (&none[..1], &zero[..1])] };
        assert_eq!(Timeline::new(2, bad, &[0, 0], 0).err(), Some(GraphError::Instant(0)));
    }
}
