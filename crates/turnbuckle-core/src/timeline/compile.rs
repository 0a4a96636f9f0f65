//! From edges in any order to steps in topological order.

use super::{Edges, GraphError, NONE, Timeline};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// One instant: where it is kept, how many of the waits that follow are its own, and what no wait explains.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) slot: u32,
    pub(super) waits: u32,
    pub(super) residual: i64,
}

/// One edge: where the instant waited for is kept, its recorded lag and how that changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub(super) slot: u32,
    pub(super) law: u32,
    pub(super) lag: i64,
}

/// How a lag changes: by up to two parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Law {
    pub(super) terms: [Term; 2],
}

/// Nanoseconds for each unit of a parameter: an amount, or as many as the lag itself has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Term {
    pub(super) parameter: u32,
    pub(super) amount: Option<f64>,
}

pub(super) const NOTHING: Term = Term { parameter: NONE, amount: None };

/// Laws that are searched for one alike; beyond, alike ones may be kept twice.
const SEARCHED: usize = 1 << 16;

/// Ends that are kept until they are gathered.
const GATHERED: usize = 64;

/// Slots that are never given away: the run's start, and the latest of all ends gathered so far; both begin at 0.
const ORIGIN: u32 = 0;
pub(super) const END: usize = 1;

impl Timeline {
    /// Put `instants` in topological order, with the lags of their edges and how those change.
    ///
    /// # Errors
    /// Lengths that differ, an edge to nowhere, a parameter beyond `parameters`, a cycle.
    pub fn new(instants: usize, edges: Edges<'_>, residual: &[i64], parameters: usize) -> Result<Self, GraphError> {
        let mut made = Self::ordered(instants, edges.from, edges.to, residual, parameters)?.with_lags(edges.lag)?;
        for (which, (parameter, amount)) in edges.terms.into_iter().enumerate() {
            made = made.with_terms(which, parameter, amount)?;
        }
        Ok(made)
    }

    /// Put `instants` in topological order; `with_lags` and `with_terms` complete them, each from arrays that may go afterwards.
    ///
    /// # Errors
    /// Lengths that differ, an edge to nowhere, a cycle.
    pub fn ordered(instants: usize, from: &[u32], to: &[u32], residual: &[i64], parameters: usize) -> Result<Self, GraphError> {
        // steps that gather ends, and their waits, are numbered too
        let most = (u32::MAX / 4) as usize;
        if from.len() != to.len() || residual.len() != instants || instants.max(from.len()).max(parameters) > most {
            return Err(GraphError::Lengths);
        }
        if let Some(edge) = from.iter().zip(to).position(|(u, v)| *u.max(v) as usize >= instants) {
            return Err(GraphError::Instant(edge));
        }
        let order = topological(instants, from, to)?;
        let (start, incoming) = grouped(instants, to);
        let mut placing = Placing::new(instants, from, to, residual, parameters);
        for v in order {
            placing.step(v, &incoming[start[v as usize] as usize..start[v as usize + 1] as usize]);
        }
        placing.gather();
        Ok(placing.out)
    }

    /// Recorded lags [ns], one for each edge.
    ///
    /// # Errors
    /// As many as there are edges are needed.
    pub fn with_lags(mut self, lag: &[i64]) -> Result<Self, GraphError> {
        if lag.len() != self.edges {
            return Err(GraphError::Lengths);
        }
        for (wait, edge) in self.waits.iter_mut().zip(&self.edge) {
            wait.lag = lag.get(*edge as usize).copied().unwrap_or(0);
        }
        Ok(self)
    }

    /// The first or second term of the change of every lag, which must be known: a parameter or `NONE`, and nanoseconds a unit.
    ///
    /// # Errors
    /// As many as there are edges are needed, of parameters that exist.
    pub fn with_terms(mut self, which: usize, parameter: &[u32], amount: &[f64]) -> Result<Self, GraphError> {
        if parameter.len() != self.edges || amount.len() != self.edges || which > 1 {
            return Err(GraphError::Lengths);
        }
        if let Some(edge) = parameter.iter().position(|p| *p != NONE && *p as usize >= self.parameters) {
            return Err(GraphError::Parameter(edge));
        }
        let mut laws = Laws { before: std::mem::take(&mut self.laws), ..Laws::default() };
        for (wait, edge) in self.waits.iter_mut().zip(&self.edge) {
            let term = match (parameter.get(*edge as usize), amount.get(*edge as usize)) {
                (Some(parameter), Some(amount)) if *parameter != NONE => {
                    Term { parameter: *parameter, amount: (*amount != wait.lag as f64).then_some(*amount) }
                }
                _ => NOTHING,
            };
            wait.law = laws.with(wait.law, which, term);
        }
        self.laws = laws.after;
        Ok(self)
    }
}

/// All instants so that every edge leads forward: those that wait for nothing, then what only waited for those, and so on.
fn topological(instants: usize, from: &[u32], to: &[u32]) -> Result<Vec<u32>, GraphError> {
    let (start, outgoing) = grouped(instants, from);
    let mut waits: Vec<u32> = vec![0; instants];
    for v in to {
        waits[*v as usize] += 1;
    }
    let mut order = Vec::with_capacity(instants);
    order.extend((0..instants as u32).filter(|v| waits[*v as usize] == 0));
    let mut next = 0;
    while next < order.len() {
        let u: u32 = order[next];
        next += 1;
        for e in &outgoing[start[u as usize] as usize..start[u as usize + 1] as usize] {
            let v = to[*e as usize];
            waits[v as usize] -= 1;
            if waits[v as usize] == 0 {
                order.push(v);
            }
        }
    }
    if order.len() == instants { Ok(order) } else { Err(GraphError::Cycle(instants - order.len())) }
}

/// Edges grouped by one of their ends: where each instant's edges begin, and the edges.
fn grouped(instants: usize, ends: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let mut start = vec![0_u32; instants + 1];
    for v in ends {
        start[*v as usize + 1] += 1;
    }
    for i in 0..instants {
        start[i + 1] += start[i];
    }
    let mut edges = vec![0_u32; ends.len()];
    for (e, v) in ends.iter().enumerate() {
        edges[start[*v as usize] as usize] = e as u32;
        start[*v as usize] += 1;
    }
    // every start has moved to its end, which is the next one's start
    start.rotate_right(1);
    start[0] = 0;
    (start, edges)
}

/// Instants one after the other, each with the slot it is kept in.
struct Placing<'a> {
    from: &'a [u32],
    residual: &'a [i64],
    out: Timeline,
    /// For each instant, how many steps have to read it still, and where it is kept.
    uses: Vec<u32>,
    slot: Vec<u32>,
    free: Vec<u32>,
    /// Instants that may be the last one though something waits for them: none, unless there are negative residuals.
    hidden: Vec<bool>,
    /// Ends that are not gathered yet.
    ends: Vec<u32>,
}

impl<'a> Placing<'a> {
    fn new(instants: usize, from: &'a [u32], to: &[u32], residual: &'a [i64], parameters: usize) -> Self {
        let mut uses = vec![0_u32; instants];
        for u in from {
            uses[*u as usize] += 1;
        }
        let mut hidden = Vec::new();
        if residual.iter().any(|r| *r < 0) {
            hidden.resize(instants, false);
            for (u, v) in from.iter().zip(to) {
                hidden[*u as usize] |= residual[*v as usize] < 0;
            }
        }
        let out = Timeline {
            steps: Vec::with_capacity(instants + 1),
            waits: Vec::with_capacity(from.len() + GATHERED),
            laws: vec![Law { terms: [NOTHING; 2] }],
            slots: END + 1,
            instant: Vec::with_capacity(instants + 1),
            edge: Vec::with_capacity(from.len() + GATHERED),
            instants,
            edges: from.len(),
            parameters,
            looks: Default::default(),
        };
        Self { from, residual, out, uses, slot: vec![0; instants], free: Vec::new(), hidden, ends: Vec::new() }
    }

    fn step(&mut self, v: u32, incoming: &[u32]) {
        for e in incoming {
            let u = self.from[*e as usize];
            self.wait(self.slot[u as usize], *e);
            self.read(u);
        }
        if incoming.is_empty() {
            self.wait(ORIGIN, NONE);
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.out.slots += 1;
            (self.out.slots - 1) as u32
        });
        self.slot[v as usize] = slot;
        self.out.steps.push(Step { slot, waits: incoming.len().max(1) as u32, residual: self.residual[v as usize] });
        self.out.instant.push(v);
        // what something waits for is not later than that, unless a negative residual pulls that forward
        if self.uses[v as usize] == 0 || self.hidden.get(v as usize).is_some_and(|hidden| *hidden) {
            self.uses[v as usize] += 1;
            self.ends.push(v);
        }
        if self.ends.len() >= GATHERED {
            self.gather();
        }
    }

    fn wait(&mut self, slot: u32, edge: u32) {
        self.out.waits.push(Wait { slot, law: 0, lag: 0 });
        self.out.edge.push(edge);
    }

    /// A reader of an instant is done; after the last one its slot is free.
    fn read(&mut self, u: u32) {
        self.uses[u as usize] -= 1;
        if self.uses[u as usize] == 0 {
            self.free.push(self.slot[u as usize]);
        }
    }

    /// A step that keeps the latest of the ends so far.
    fn gather(&mut self) {
        self.out.steps.push(Step { slot: END as u32, waits: self.ends.len() as u32 + 1, residual: 0 });
        self.out.instant.push(NONE);
        self.wait(END as u32, NONE);
        for v in std::mem::take(&mut self.ends) {
            self.wait(self.slot[v as usize], NONE);
            self.read(v);
        }
    }
}

/// Laws to which terms are added; those alike become one.
#[derive(Default)]
struct Laws {
    before: Vec<Law>,
    after: Vec<Law>,
    alike: HashMap<(u64, u64), u32, BuildHasherDefault<Mixer>>,
}

impl Laws {
    fn with(&mut self, law: u32, which: usize, term: Term) -> u32 {
        let key = (u64::from(law) << 32 | u64::from(term.parameter), term.amount.map_or(u64::MAX, f64::to_bits));
        let next = self.after.len() as u32;
        let found = if self.after.len() < SEARCHED {
            *self.alike.entry(key).or_insert(next)
        } else {
            self.alike.get(&key).copied().unwrap_or(next)
        };
        if found == next {
            let mut made = self.before[law as usize];
            made.terms[which] = term;
            self.after.push(made);
        }
        found
    }
}

/// A quick hash of a few whole words: terms come from ourselves, not from a file's names.
#[derive(Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for word in bytes.chunks(8) {
            let mut padded = [0_u8; 8];
            padded[..word.len()].copy_from_slice(word);
            self.write_u64(u64::from_le_bytes(padded));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 29);
    }
}
