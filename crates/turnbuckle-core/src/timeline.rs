//! The timeline replay: a run as a graph of instants, replayed as a longest path.
//!
//! An instant happens when the last of what it waits for has happened: `x[v] = residual[v] + max over edges (x[u] + lag)`.
//! Lags are integer nanoseconds as recorded plus a change that is linear in the parameters of a scenario; with no change
//! the arithmetic is exact and every recorded instant comes back.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

mod compile;
mod line;
mod slopes;
pub mod spared;
mod tangents;

use compile::{END, Law, Step, Wait};
pub use line::{Line, Stretch};
pub use slopes::Slopes;
pub use tangents::Tangent;

/// What is wrong with a graph or a question about it.
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
    /// A value that is not finite, or out of its range.
    Value,
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lengths => write!(f, "the arrays of the graph differ in length"),
            Self::Instant(edge) => write!(f, "edge {edge} names an instant that does not exist"),
            Self::Cycle(count) => write!(f, "{count} instants wait for each other"),
            Self::Parameter(edge) => write!(f, "edge {edge} names a parameter that does not exist"),
            Self::Value => write!(f, "a value is not a finite number or out of its range"),
        }
    }
}

impl std::error::Error for GraphError {}

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
    /// First and second term of its change: a parameter or `NONE`, and nanoseconds for each unit of it.
    pub terms: [(&'a [u32], &'a [f64]); 2],
}

/// Waits and scenarios below which a thread takes longer to start than to work.
const SMALL: usize = 1 << 17;

/// A graph compiled into steps that follow each other in topological order.
///
/// A step keeps its instant in a slot of a small rolling memory until the last step that waits for it is done, so that a
/// pass reads the steps once and everything else stays in the cache.
pub struct Timeline {
    steps: Vec<Step>,
    waits: Vec<Wait>,
    laws: Vec<Law>,
    /// Slots needed at once.
    slots: usize,
    /// The instant of each step, the edge of each wait; `NONE` for those that only gather ends.
    instant: Vec<u32>,
    edge: Vec<u32>,
    instants: usize,
    edges: usize,
    parameters: usize,
    /// Passes and places that `line` has looked at.
    looks: [AtomicUsize; 2],
}

/// Scenarios of one pass.
pub const WIDTH: usize = 8;

/// Times that differ by no more than this share of them are equal but for rounding.
const TIE: f64 = 1e-12;

/// Laws whose rates are worked out once a pass; beyond, they would not stay in the cache.
const TABLED: usize = 2048;

/// What a law makes of a lag in each of `W` scenarios: `lag * scale + add`.
#[derive(Clone, Copy)]
struct Rate<const W: usize> {
    scale: [f64; W],
    add: [f64; W],
}

/// The rates of all laws in `W` scenarios.
struct Rates<'a, const W: usize> {
    laws: &'a [Law],
    values: Vec<[f64; W]>,
    unchanged: f64,
    table: Vec<Rate<W>>,
}

impl<const W: usize> Rate<W> {
    const NOTHING: Self = Self { scale: [0.0; W], add: [0.0; W] };
}

impl<'a, const W: usize> Rates<'a, W> {
    /// Rates in the scenarios in `rows`; `unchanged` is the scale of what does not change: 1, or 0 for rates of change.
    fn new(timeline: &'a Timeline, rows: &[f64], unchanged: f64) -> Self {
        Self::by(&timeline.laws, timeline.parameters, rows, unchanged)
    }

    /// Rates by laws that need not be the timeline's own.
    fn by(laws: &'a [Law], parameters: usize, rows: &[f64], unchanged: f64) -> Self {
        // values of one parameter beside each other, so that they are one load
        let mut values = vec![[0.0_f64; W]; parameters];
        for (w, row) in rows.chunks(parameters.max(1)).enumerate() {
            for (p, value) in row.iter().enumerate() {
                values[p][w] = *value;
            }
        }
        let mut rates = Self { laws, values, unchanged, table: Vec::new() };
        rates.table = laws.iter().take(TABLED).map(|law| rates.rate(law)).collect();
        rates
    }

    fn rate(&self, law: &Law) -> Rate<W> {
        let mut rate = Rate { scale: [self.unchanged; W], add: [0.0; W] };
        for term in law.terms {
            let Some(values) = self.values.get(term.parameter as usize) else { continue };
            for (w, value) in values.iter().enumerate() {
                match term.amount {
                    Some(amount) => rate.add[w] += amount * value,
                    None => rate.scale[w] += value,
                }
            }
        }
        rate
    }

    /// The rate of one wait; `spare` is where one beyond the table is worked out.
    #[inline(always)]
    fn of<'r>(&'r self, wait: &Wait, spare: &'r mut Rate<W>) -> &'r Rate<W> {
        match self.table.get(wait.law as usize) {
            Some(rate) => rate,
            None => {
                *spare = self.rate(&self.laws[wait.law as usize]);
                spare
            }
        }
    }

    /// Whether all lags are whole numbers of nanoseconds: then sums are exact.
    fn are_whole(&self) -> bool {
        let whole = |rate: Rate<W>| rate.scale.iter().chain(&rate.add).all(|v| v.fract() == 0.0);
        self.laws.iter().all(|law| whole(self.rate(law)))
    }
}

/// Which of its waits decided each step: a byte a step, as there are seldom many.
struct Decided {
    few: Vec<u8>,
    many: Vec<(usize, usize)>,
}

impl Decided {
    fn note(&mut self, step: usize, wait: usize) {
        // the first one need not be noted, so that most of the memory is never touched
        if wait > 0 {
            self.few[step] = wait.min(usize::from(u8::MAX)) as u8;
            if wait >= usize::from(u8::MAX) {
                self.many.push((step, wait));
            }
        }
    }

    fn of(&self, step: usize) -> usize {
        match (self.few[step], self.many.binary_search_by_key(&step, |(step, _)| *step)) {
            (u8::MAX, Ok(found)) => self.many[found].1,
            (few, _) => usize::from(few),
        }
    }
}

impl Timeline {
    /// Number of instants.
    pub fn len(&self) -> usize {
        self.instants
    }

    /// Whether there is no instant at all.
    pub fn is_empty(&self) -> bool {
        self.instants == 0
    }

    /// Memory of the compiled graph [bytes], and how much of it a pass reads.
    pub fn size_bytes(&self) -> (usize, usize) {
        let swept = size_of_val(&*self.steps) + size_of_val(&*self.waits) + size_of_val(&*self.laws);
        (swept + size_of_val(&*self.instant) + size_of_val(&*self.edge), swept)
    }

    /// Threads that many scenarios of this graph are worth.
    fn worth(&self, threads: usize, scenarios: usize) -> usize {
        if self.waits.len().saturating_mul(scenarios) < SMALL { 1 } else { threads.max(1) }
    }

    /// Passes over the graph that `line` has made so far, and places it has looked at in them.
    pub fn looks(&self) -> [usize; 2] {
        self.looks.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Give every instant and its time [ns] after the run's start, nothing changed: exact.
    pub fn recorded(&self, mut put: impl FnMut(usize, i64)) {
        let mut x = vec![0_i64; self.slots];
        let mut waits = &self.waits[..];
        for (step, instant) in self.steps.iter().zip(&self.instant) {
            let (mine, rest) = waits.split_at(step.waits as usize);
            waits = rest;
            let latest = mine.iter().map(|w| x[w.slot as usize].saturating_add(w.lag.max(0))).max().unwrap_or(0);
            let at = latest.saturating_add(step.residual);
            x[step.slot as usize] = at;
            if *instant != NONE {
                put(*instant as usize, at);
            }
        }
    }

    /// Give every instant and its time [ns] under one scenario; returns its critical path: the edges that decided the last instant, last first.
    ///
    /// # Errors
    /// A scenario that does not give every parameter.
    pub fn replayed(&self, scenario: &[f64], mut put: impl FnMut(usize, f64)) -> Result<Vec<u32>, GraphError> {
        if scenario.len() != self.parameters {
            return Err(GraphError::Lengths);
        }
        let (rates, mut spare) = (Rates::<1>::new(self, scenario, 1.0), Rate::NOTHING);
        let mut by = Decided { few: vec![0; self.steps.len()], many: Vec::new() };
        let mut x = vec![0.0_f64; self.slots];
        let mut waits = &self.waits[..];
        let (mut end, mut last) = (0, f64::NEG_INFINITY);
        for (v, (step, instant)) in self.steps.iter().zip(&self.instant).enumerate() {
            let (mine, rest) = waits.split_at(step.waits as usize);
            waits = rest;
            let (mut latest, mut decided) = (f64::NEG_INFINITY, 0);
            for (i, wait) in mine.iter().enumerate() {
                let rate = rates.of(wait, &mut spare);
                let reached = x[wait.slot as usize] + (wait.lag as f64 * rate.scale[0] + rate.add[0]).max(0.0);
                if reached > latest {
                    (latest, decided) = (reached, i);
                }
            }
            by.note(v, decided);
            let at = latest + step.residual as f64;
            x[step.slot as usize] = at;
            if *instant != NONE {
                put(*instant as usize, at);
                if at > last {
                    (end, last) = (v, at);
                }
            }
        }
        Ok(self.path(end, &by))
    }

    /// The edges that decided a step, last first: what a wait read is what was last put into its slot.
    fn path(&self, end: usize, by: &Decided) -> Vec<u32> {
        let mut path = Vec::new();
        let (mut wanted, mut next) = (None, self.waits.len());
        for (v, step) in self.steps.iter().enumerate().rev() {
            next -= step.waits as usize;
            if wanted.map_or(v == end, |slot| slot == step.slot) {
                let wait = next + by.of(v);
                path.extend(self.edge.get(wait).filter(|edge| **edge != NONE));
                wanted = self.waits.get(wait).map(|w| w.slot);
            }
        }
        path
    }

    /// The last instant [ns] under each of many scenarios, one row of `parameters` values each; `stop` is asked now and then.
    ///
    /// # Errors
    /// Rows that do not give every parameter.
    pub fn last(&self, scenarios: &[f64], threads: usize, stop: &(dyn Fn() -> bool + Sync)) -> Result<Vec<f64>, GraphError> {
        if self.parameters == 0 || !scenarios.len().is_multiple_of(self.parameters) {
            return Err(GraphError::Lengths);
        }
        let mut out = vec![0.0; scenarios.len() / self.parameters];
        let threads = self.worth(threads, out.len());
        // rather narrow passes side by side than a wide one alone
        let width = out.len().div_ceil(threads).min(WIDTH);
        let blocks = Blocks { length: self.parameters, width, threads };
        let vectors = pulp::Arch::new();
        shared_out(blocks, scenarios, &mut out, stop, |rows, part| match part.len() {
            0..=1 => self.last_of::<1>(rows, part),
            2 => self.last_of::<2>(rows, part),
            3..=4 => vectors.dispatch(Pass::<4> { timeline: self, rows, out: part }),
            _ => vectors.dispatch(Pass::<WIDTH> { timeline: self, rows, out: part }),
        });
        Ok(out)
    }

    /// Up to `W` scenarios in one pass over the graph.
    #[inline(always)]
    fn last_of<const W: usize>(&self, rows: &[f64], out: &mut [f64]) {
        let rates = Rates::<W>::new(self, rows, 1.0);
        let mut x = vec![[0.0_f64; W]; self.slots];
        let mut spare = Rate::NOTHING;
        let mut waits = &self.waits[..];
        for step in &self.steps {
            let (mine, rest) = waits.split_at(step.waits as usize);
            waits = rest;
            let Some((one, more)) = mine.split_first() else { continue };
            let mut latest = after(&x, one, rates.of(one, &mut spare));
            for wait in more {
                let other = after(&x, wait, rates.of(wait, &mut spare));
                for w in 0..W {
                    latest[w] = if other[w] > latest[w] { other[w] } else { latest[w] };
                }
            }
            let residual = step.residual as f64;
            x[step.slot as usize] = latest.map(|at| at + residual);
        }
        out.copy_from_slice(&x[END][..out.len()]);
    }
}

/// When a step that waits for one other may happen; inlined, so that it has the vectors of the pass.
#[inline(always)]
fn after<const W: usize>(x: &[[f64; W]], wait: &Wait, rate: &Rate<W>) -> [f64; W] {
    let (mut at, lag) = (x[wait.slot as usize], wait.lag as f64);
    for (w, at) in at.iter_mut().enumerate() {
        let changed = lag * rate.scale[w] + rate.add[w];
        *at += if changed > 0.0 { changed } else { 0.0 };
    }
    at
}

/// A pass of `last`, compiled for each width of vectors that a machine may have: the same sums in the same order, to the last bit.
struct Pass<'a, const W: usize> {
    timeline: &'a Timeline,
    rows: &'a [f64],
    out: &'a mut [f64],
}

impl<const W: usize> pulp::NullaryFnOnce for Pass<'_, W> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.timeline.last_of::<W>(self.rows, self.out);
    }
}

/// How rows are shared out: values of a row, rows of a block, threads.
#[derive(Clone, Copy)]
struct Blocks {
    length: usize,
    width: usize,
    threads: usize,
}

/// Rows and their results in blocks, shared out to threads; `stop` is asked before each block.
fn shared_out<T: Send>(
    Blocks { length, width, threads }: Blocks,
    rows: &[f64],
    out: &mut [T],
    stop: &(dyn Fn() -> bool + Sync),
    block: impl Fn(&[f64], &mut [T]) + Sync,
) {
    let width = width.max(1);
    let share = out.len().div_ceil(threads.max(1)).div_ceil(width).max(1) * width;
    let work = |rows: &[f64], place: &mut [T]| {
        for (rows, part) in rows.chunks(width * length).zip(place.chunks_mut(width)) {
            if stop() {
                return;
            }
            block(rows, part);
        }
    };
    std::thread::scope(|scope| {
        let mut shares = rows.chunks(share * length).zip(out.chunks_mut(share));
        // the caller's own thread takes the first share: only there can it see an interrupt
        let first = shares.next();
        for (rows, place) in shares {
            scope.spawn(|| work(rows, place));
        }
        if let Some((rows, place)) = first {
            work(rows, place);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn two_branches() -> Timeline {
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

    /// Branch i takes 20,000 - i * i + 2 * i * parameter 0: the steeper ones decide one after the other.
    pub(super) fn many_branches(count: u32) -> Timeline {
        let n = count as usize;
        let (from, to) = (vec![0; n], vec![1; n]);
        let lag: Vec<i64> = (0..i64::from(count)).map(|i| 20_000 - i * i).collect();
        let amount: Vec<f64> = (0..count).map(|i| 2.0 * f64::from(i)).collect();
        let (zero, first) = (vec![0.0; n], vec![0; n]);
        let edges = Edges { from: &from, to: &to, lag: &lag, terms: [(&first, &amount), (&vec![NONE; n], &zero)] };
        Timeline::new(2, edges, &[0, 0], 1).unwrap()
    }

    fn replayed(t: &Timeline, scenario: &[f64]) -> (Vec<f64>, Vec<u32>) {
        let mut x = vec![f64::NAN; t.len()];
        let path = t.replayed(scenario, |instant, at| x[instant] = at).unwrap();
        (x, path)
    }

    #[test]
    fn the_latest_branch_decides() {
        let mut recorded = vec![-1; 4];
        two_branches().recorded(|instant, at| recorded[instant] = at);
        assert_eq!(recorded, vec![0, 5, 3, 9]);
        let (x, path) = replayed(&two_branches(), &[0.0]);
        assert_eq!(x, vec![0.0, 5.0, 3.0, 9.0]);
        assert_eq!(path, vec![3, 1]);
    }

    #[test]
    fn a_change_moves_only_what_waits_for_it() {
        let (x, path) = replayed(&two_branches(), &[-3.0]);
        assert_eq!((x[3], path), (8.0, vec![2, 0]));
    }

    #[test]
    fn many_scenarios_are_as_one_by_one() {
        let t = two_branches();
        let scenarios: Vec<f64> = (0..21).map(|i| f64::from(i) - 10.0).collect();
        let many = t.last(&scenarios, 2, &|| false).unwrap();
        for (s, got) in scenarios.iter().zip(many) {
            let one = replayed(&t, &[*s]).0.into_iter().fold(0.0, f64::max);
            assert_eq!(got, one);
        }
    }

    #[test]
    fn what_waits_for_itself_is_refused() {
        fn made(from: &[u32], to: &[u32]) -> Option<GraphError> {
            let (none, zero) = ([NONE; 2], [0.0; 2]);
            let edges = Edges { from, to, lag: &[1, 1], terms: [(&none, &zero), (&none, &zero)] };
            Timeline::new(2, edges, &[0, 0], 0).err()
        }
        assert_eq!(made(&[0, 1], &[1, 0]), Some(GraphError::Cycle(2)));
        assert_eq!(made(&[0, 0], &[1, 9]), Some(GraphError::Instant(1)));
        assert_eq!(made(&[0], &[1]), Some(GraphError::Lengths));
    }

    #[test]
    fn an_end_that_a_negative_residual_hides_still_counts() {
        let edges = Edges { from: &[0], to: &[1], lag: &[5], terms: [(&[NONE], &[0.0]), (&[NONE], &[0.0])] };
        let t = Timeline::new(2, edges, &[10, -9], 1).unwrap();
        assert_eq!(t.last(&[0.0], 1, &|| false).unwrap(), vec![10.0]);
    }

    #[test]
    fn the_path_takes_the_right_one_of_many() {
        // two fans in a row, the second through an instant whose slot was another's before
        let n = 400_u32;
        let (mut from, mut to) = (vec![0; n as usize], vec![1; n as usize]);
        from.extend(vec![1; n as usize]);
        to.extend(vec![2; n as usize]);
        let lag: Vec<i64> = (0..2 * i64::from(n)).map(|i| if i == 300 || i == 777 { 9 } else { 1 }).collect();
        let (none, zero) = (vec![NONE; lag.len()], vec![0.0; lag.len()]);
        let edges = Edges { from: &from, to: &to, lag: &lag, terms: [(&none, &zero), (&none, &zero)] };
        let t = Timeline::new(3, edges, &[0; 3], 0).unwrap();
        assert_eq!(replayed(&t, &[]), (vec![0.0, 9.0, 18.0], vec![777, 300]));
    }

    #[test]
    fn slots_are_used_again() {
        let n = 10_000_u32;
        let (from, to): (Vec<u32>, Vec<u32>) = ((0..n).collect(), (1..=n).collect());
        let (none, zero) = (vec![NONE; n as usize], vec![0.0; n as usize]);
        let edges = Edges { from: &from, to: &to, lag: &vec![1; n as usize], terms: [(&none, &zero), (&none, &zero)] };
        let t = Timeline::new(n as usize + 1, edges, &vec![0; n as usize + 1], 1).unwrap();
        assert!(t.slots < 5 && t.laws.len() == 1);
        assert_eq!(t.last(&[0.0], 1, &|| false).unwrap(), vec![f64::from(n)]);
    }
}
