//! Rows of all threads into tables: one clock, processes and threads, graphs, names in order.

use super::about::About;
use super::event::NO;
use super::gather::{Call, Caller, Collective, Flaws, Half, Memory, OPEN, Part, Sort, Wait, Work};
use crate::making::Making;
use crate::recording::{Finding, Table};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Kinds of ranges that were entered and left: marked by the program, an operator of the framework, a function of Python.
const PUSH_POP: i64 = 59;
const OPERATOR: i64 = 1;
const FUNCTION: i64 = 2;
/// Times farther than this from the middle of the run say nothing about its begin [ns]: 52 days.
const NEAR: i64 = 1 << 52;
/// The first event stands here [ns], because 0 means that a time was lost.
const FIRST: i64 = 1000;
/// Bits of a thread inside its process, and processes that can be told apart.
const THREAD_BITS: u32 = 24;
const LARGEST_PID: i64 = 1 << 30;
const DEVICE: i64 = 3;

/// All rows, in the order of time.
#[derive(Default)]
pub(super) struct Rows {
    pub kernels: Vec<Work>,
    pub copies: Vec<Work>,
    pub sets: Vec<Work>,
    pub calls: Vec<Call>,
    pub ranges: Vec<Call>,
    pub overheads: Vec<Call>,
    pub waits: Vec<Wait>,
    pub collectives: Vec<Collective>,
    pub memory: Vec<Memory>,
    pub flaws: Flaws,
    pub counts: BTreeMap<String, u64>,
    pub events: u64,
    names: Vec<String>,
    /// Time of the trace at which the recording's clock is 0 [ns].
    pub origin: i64,
}

impl Rows {
    /// Put together what the threads read.
    pub fn new(parts: Vec<Part>) -> Self {
        let mut all = Self::default();
        let mut known: HashMap<String, u32> = HashMap::new();
        let mut halves: Vec<Half> = Vec::new();
        for part in parts {
            let Part {
                kernels, copies, sets, calls, ranges, overheads, waits, mut collectives, memory, names, flaws, counts, events, ..
            } = part;
            let number: Vec<u32> = names
                .into_iter()
                .map(|name| {
                    let next = u32::try_from(all.names.len()).unwrap_or(u32::MAX);
                    let number = *known.entry(name.clone()).or_insert(next);
                    if number == next {
                        all.names.push(name);
                    }
                    number
                })
                .collect();
            let rename = |name: &mut u32| *name = number.get(*name as usize).copied().unwrap_or(0);
            let (first_call, first_range) = (all.calls.len(), all.ranges.len());
            for (into, mut from) in [(&mut all.kernels, kernels), (&mut all.copies, copies), (&mut all.sets, sets)] {
                from.iter_mut().for_each(|w| rename(&mut w.name));
                into.append(&mut from);
            }
            for (into, mut from) in [(&mut all.calls, calls), (&mut all.ranges, ranges), (&mut all.overheads, overheads)] {
                from.iter_mut().for_each(|c| rename(&mut c.name));
                into.append(&mut from);
            }
            all.waits.extend(waits);
            collectives.iter_mut().for_each(|c| rename(&mut c.name));
            all.collectives.append(&mut collectives);
            all.memory.extend(memory);
            halves.extend(part.halves.into_iter().map(|mut half| {
                if let Some((is_range, row)) = &mut half.row {
                    *row += u32::try_from(if *is_range { first_range } else { first_call }).unwrap_or(0);
                }
                half
            }));
            add(&mut all.flaws, &flaws);
            for (category, count) in counts {
                *all.counts.entry(category).or_default() += count;
            }
            all.events += events;
        }
        all.pair(halves);
        all.sort();
        all.one_clock();
        all
    }

    /// Begins and ends that are events of their own; the end belongs to the latest open begin of its thread.
    fn pair(&mut self, mut halves: Vec<Half>) {
        halves.sort_by_key(|h| (h.caller, h.time, h.order));
        let mut open: Vec<(bool, u32)> = Vec::new();
        let mut of: Option<Caller> = None;
        for half in halves {
            if of.replace(half.caller) != Some(half.caller) {
                open.clear();
            }
            match half.row {
                Some(row) => open.push(row),
                None => {
                    if let Some((is_range, row)) = open.pop() {
                        let rows = if is_range { &mut self.ranges } else { &mut self.calls };
                        if let Some(call) = rows.get_mut(row as usize) {
                            call.end = half.time;
                        }
                    }
                }
            }
        }
        for rows in [&mut self.calls, &mut self.ranges] {
            let before = rows.len();
            rows.retain(|c| c.end != OPEN);
            self.flaws.endless += (before - rows.len()) as u64;
        }
    }

    fn sort(&mut self) {
        for rows in [&mut self.kernels, &mut self.copies, &mut self.sets] {
            rows.sort_unstable_by_key(|w| (w.start, w.order));
        }
        for rows in [&mut self.calls, &mut self.overheads] {
            rows.sort_unstable_by_key(|c| (c.start, c.order));
        }
        // what is inside another stands behind it, also where both begin in one microsecond
        self.ranges.sort_unstable_by_key(|c| (c.start, Reverse(c.end), c.order));
        self.waits.sort_unstable_by_key(|w| (w.start, w.order));
        self.collectives.sort_unstable_by_key(|c| (c.start, c.order));
        self.memory.sort_unstable_by_key(|m| (m.time, m.order));
    }

    /// Shift all times so that the run begins near 0: times of the epoch in ns are beyond what a float holds exactly.
    fn one_clock(&mut self) {
        let works = self.kernels.iter().chain(&self.copies).chain(&self.sets).map(|w| w.start);
        let mut starts: Vec<i64> = works.chain(self.calls.iter().map(|c| c.start)).collect();
        if starts.is_empty() {
            starts.extend(self.ranges.iter().map(|c| c.start));
        }
        if starts.is_empty() {
            return;
        }
        let middle = starts.len() / 2;
        let middle = *starts.select_nth_unstable(middle).1;
        let near = |t: &i64| t.saturating_sub(middle).unsigned_abs() < NEAR.unsigned_abs();
        let others =
            self.ranges.iter().map(|c| c.start).chain(self.waits.iter().map(|w| w.start)).chain(self.memory.iter().map(|m| m.time));
        self.origin = starts.into_iter().chain(others).filter(near).min().unwrap_or(middle).saturating_sub(FIRST);
        let origin = self.origin;
        let shift = |t: &mut i64| *t = t.saturating_sub(origin);
        for w in self.kernels.iter_mut().chain(&mut self.copies).chain(&mut self.sets) {
            shift(&mut w.start);
            shift(&mut w.end);
        }
        for c in self.calls.iter_mut().chain(&mut self.ranges).chain(&mut self.overheads) {
            shift(&mut c.start);
            shift(&mut c.end);
        }
        for w in &mut self.waits {
            shift(&mut w.start);
            shift(&mut w.end);
        }
        for c in &mut self.collectives {
            shift(&mut c.start);
            shift(&mut c.end);
        }
        self.memory.iter_mut().for_each(|m| shift(&mut m.time));
    }

    /// The tables, the names they use and the flaws.
    pub fn tables(mut self, about: &About, findings: &mut Vec<Finding>) -> (Vec<Table>, Vec<String>) {
        let mut found = |code: &'static str, count: u64, detail: &str| {
            if count > 0 {
                findings.push(Finding { code, count, detail: detail.to_owned() });
            }
        };
        let places = Places::new(&self);
        let owner = Owners::new(&self.calls, &places);
        let unsized_before = count(&self.copies, |w| w.size == NO);
        self.sizes_of_calls();
        let unsized_after = count(&self.copies, |w| w.size == NO);
        let numbered = self.graphs();
        if about.amd {
            self.blocks_of_amd();
        }
        found("P105", self.flaws.other, "");
        found("P106", self.flaws.large, "");
        found("P113", count(&self.copies, |w| (w.direction == 1 && w.source == 0) || (w.direction == 2 && w.target == 0)), "");
        found("P127", self.flaws.directionless, "");
        found("P164", self.flaws.endless, "");
        let from_calls = unsized_before - unsized_after;
        let told = if from_calls > 0 { format!("of {from_calls} more the call tells it") } else { String::new() };
        found("P166", unsized_after, &told);
        found("P167", numbered, "");
        let activities = self.kernels.len() + self.copies.len() + self.sets.len() + self.calls.len();
        if self.flaws.fine == 0 {
            found("P168", activities as u64, "");
        }
        if self.flaws.agents > 0 {
            let mut used: Vec<i64> = self.kernels.iter().map(|w| w.device).collect();
            used.sort_unstable();
            used.dedup();
            found("P169", used.len() as u64, "");
        }
        let mut names = Names { texts: &self.names, of: vec![None; self.names.len()], out: Vec::new() };
        let tables = [
            api(&self.calls, &places, &mut names),
            kernels(&self.kernels, &owner, &mut names),
            copies(&self.copies, &owner),
            sets(&self.sets, &owner),
            syncs(&self.waits, &owner),
            events(&self.waits, &owner),
            ranges(&self.ranges, &places, &mut names),
            collectives(&self.collectives, &places, &owner, &mut names),
            allocations(&self.memory, &places),
            overheads(&self.overheads, &places, &mut names),
            about.devices(),
        ];
        let out = names.out;
        (tables.into_iter().flatten().collect(), out)
    }

    /// Sizes of copies that only their calls tell (AMD).
    fn sizes_of_calls(&mut self) {
        if self.copies.iter().all(|w| w.size != NO) {
            return;
        }
        let mut told: HashMap<i64, Option<i64>> = HashMap::new();
        for call in self.calls.iter().filter(|c| c.correlation != NO && c.size != NO && c.size >= 0) {
            told.entry(call.correlation).and_modify(|s| *s = s.filter(|s| *s == call.size)).or_insert(Some(call.size));
        }
        let mut started: HashMap<i64, u32> = HashMap::new();
        for work in &self.copies {
            *started.entry(work.correlation).or_default() += 1;
        }
        for work in self.copies.iter_mut().filter(|w| w.size == NO && started.get(&w.correlation) == Some(&1)) {
            work.size = told.get(&work.correlation).copied().flatten().unwrap_or(NO);
        }
    }

    /// Number the nodes of graph launches that the trace does not number: by the order they began in, alike in launches of the same
    /// kernels.  Gives how many.
    fn graphs(&mut self) -> u64 {
        let launches: HashSet<i64> = {
            let is_launch: Vec<bool> = self.names.iter().map(|n| n.contains("GraphLaunch")).collect();
            self.calls
                .iter()
                .filter(|c| is_launch.get(c.name as usize) == Some(&true) && c.correlation != NO)
                .map(|c| c.correlation)
                .collect()
        };
        if launches.is_empty() {
            return 0;
        }
        let mut nodes: Vec<&mut Work> = self.kernels.iter_mut().chain(&mut self.copies).chain(&mut self.sets).collect();
        nodes.retain(|w| w.node == NO && launches.contains(&w.correlation));
        nodes.sort_by_key(|w| (w.correlation, w.start, w.order));
        let mut shapes: HashMap<u64, i64> = HashMap::new();
        for launch in nodes.chunk_by_mut(|a, b| a.correlation == b.correlation) {
            let mut kernels: Vec<u32> = launch.iter().map(|w| w.name).collect();
            kernels.sort_unstable();
            let mut hash = DefaultHasher::new();
            kernels.hash(&mut hash);
            let fresh = shapes.len() as i64;
            let shape = *shapes.entry(hash.finish()).or_insert(fresh);
            for (index, work) in (1i64..).zip(launch) {
                work.node = (shape << 32) + index;
                work.graph = if work.graph == NO { shape + 1 } else { work.graph };
            }
        }
        nodes.len() as u64
    }

    /// HIP's extended launches give their grid in threads, not in blocks.
    fn blocks_of_amd(&mut self) {
        let in_threads: Vec<bool> = self.names.iter().map(|n| n.starts_with("hipExt") || n.starts_with("hipHcc")).collect();
        let calls: HashMap<i64, u32> = self.calls.iter().filter(|c| c.correlation != NO).map(|c| (c.correlation, c.name)).collect();
        for work in self.kernels.iter_mut().filter(|w| w.blocks != NO) {
            match calls.get(&work.correlation) {
                Some(name) if in_threads.get(*name as usize) == Some(&true) => {
                    work.blocks = if work.threads > 0 { work.blocks.div_euclid(work.threads).max(1) } else { NO };
                }
                Some(_) => {}
                None => work.blocks = NO,
            }
        }
    }
}

fn add(all: &mut Flaws, more: &Flaws) {
    all.unread += more.unread;
    all.mended += more.mended;
    all.endless += more.endless;
    all.other += more.other;
    all.large += more.large;
    all.directionless += more.directionless;
    all.fine += more.fine;
    all.agents += more.agents;
}

fn count(works: &[Work], is: impl Fn(&Work) -> bool) -> u64 {
    works.iter().filter(|w| is(w)).count() as u64
}

/// Ids of processes and threads in the bits that the vocabulary keeps for them.
struct Places {
    of: HashMap<Caller, (i64, i64)>,
    processes: usize,
    only: Option<i64>,
}

impl Places {
    fn new(rows: &Rows) -> Self {
        let mut callers: Vec<Caller> = rows.calls.iter().map(|c| c.caller).collect::<HashSet<_>>().into_iter().collect();
        let calling: HashSet<i64> = callers.iter().map(|c| c.0).collect();
        let more = rows.ranges.iter().map(|c| c.caller).chain(rows.memory.iter().map(|m| m.caller));
        callers.extend(more.chain(rows.overheads.iter().map(|c| c.caller)).collect::<HashSet<_>>());
        callers.sort_unstable();
        callers.dedup();
        let used: HashSet<i64> = callers.iter().map(|c| c.0).filter(|p| (1..LARGEST_PID).contains(p)).collect();
        let mut process: HashMap<i64, i64> = used.iter().map(|p| (*p, *p)).collect();
        let mut numbers = Free { used, next: LARGEST_PID - 1 };
        for (pid, _) in &callers {
            process.entry(*pid).or_insert_with(|| numbers.take());
        }
        let mut threads: HashMap<i64, Free> = HashMap::new();
        for (pid, tid) in &callers {
            let free = threads.entry(*pid).or_insert_with(|| Free { used: HashSet::new(), next: (1 << THREAD_BITS) - 1 });
            free.used.extend((1..1 << THREAD_BITS).contains(tid).then_some(*tid));
        }
        let mut of = HashMap::new();
        for caller in &callers {
            let own = (1..1 << THREAD_BITS).contains(&caller.1).then_some(caller.1);
            let thread = own.or_else(|| threads.get_mut(&caller.0).map(Free::take)).unwrap_or(1);
            let id = process.get(&caller.0).copied().unwrap_or(0) << THREAD_BITS;
            of.insert(*caller, (id, id | thread));
        }
        let only = (calling.len() == 1).then(|| calling.iter().next().and_then(|p| process.get(p)).map(|p| p << THREAD_BITS)).flatten();
        Self { of, processes: calling.len(), only }
    }

    fn process(&self, caller: Caller) -> i64 {
        self.of.get(&caller).map_or(0, |p| p.0)
    }

    fn thread(&self, caller: Caller) -> i64 {
        self.of.get(&caller).map_or(0, |p| p.1)
    }
}

/// Numbers that stand for what has none of its own, from the largest down; past the last one they share it.
struct Free {
    used: HashSet<i64>,
    next: i64,
}

impl Free {
    fn take(&mut self) -> i64 {
        while self.next > 1 && self.used.contains(&self.next) {
            self.next -= 1;
        }
        let number = self.next;
        self.next = (self.next - 1).max(1);
        number
    }
}

/// Which process device activities belong to: that of their call.
struct Owners {
    only: Option<i64>,
    of: HashMap<i64, Option<i64>>,
}

impl Owners {
    fn new(calls: &[Call], places: &Places) -> Self {
        let mut of: HashMap<i64, Option<i64>> = HashMap::new();
        if places.processes > 1 {
            for call in calls.iter().filter(|c| c.correlation != NO) {
                let process = places.process(call.caller);
                of.entry(call.correlation).and_modify(|p| *p = p.filter(|p| *p == process)).or_insert(Some(process));
            }
        }
        Self { only: places.only, of }
    }

    fn process(&self, correlation: i64) -> Option<i64> {
        self.only.or_else(|| self.of.get(&correlation).copied().flatten())
    }
}

/// Texts that the tables refer to, in the order they first do.
struct Names<'a> {
    texts: &'a [String],
    of: Vec<Option<i64>>,
    out: Vec<String>,
}

impl Names<'_> {
    fn number(&mut self, name: u32) -> Option<i64> {
        let place = self.of.get_mut(name as usize)?;
        if place.is_none() {
            *place = Some(self.out.len() as i64);
            self.out.push(self.texts.get(name as usize).cloned().unwrap_or_default());
        }
        *place
    }
}

fn known(number: i64) -> Option<i64> {
    (number != NO).then_some(number)
}

fn api(rows: &[Call], places: &Places, names: &mut Names<'_>) -> Option<Table> {
    let name: Vec<_> = rows.iter().map(|c| names.number(c.name)).collect();
    Making::new("api", rows.len())
        .full("start_ns", rows.iter().map(|c| c.start))
        .full("end_ns", rows.iter().map(|c| c.end))
        .full("process", rows.iter().map(|c| places.process(c.caller)))
        .full("thread", rows.iter().map(|c| places.thread(c.caller)))
        .with("correlation", rows.iter().map(|c| known(c.correlation)))
        .with("name", name.into_iter())
        .with("level", rows.iter().map(|c| Some(i64::from(c.sort == Sort::Driver))))
        .done()
}

/// Columns that all device activities share.
fn works(name: &'static str, rows: &[Work], owner: &Owners) -> Making {
    Making::new(name, rows.len())
        .full("start_ns", rows.iter().map(|w| w.start))
        .full("end_ns", rows.iter().map(|w| w.end))
        .with("process", rows.iter().map(|w| owner.process(w.correlation)))
        .with("device", rows.iter().map(|w| known(w.device)))
        .with("context", rows.iter().map(|w| known(w.context)))
        .with("stream", rows.iter().map(|w| known(w.stream)))
        .with("correlation", rows.iter().map(|w| known(w.correlation)))
        .with("graph_node", rows.iter().map(|w| known(w.node)))
}

fn kernels(rows: &[Work], owner: &Owners, names: &mut Names<'_>) -> Option<Table> {
    let name: Vec<_> = rows.iter().map(|w| names.number(w.name)).collect();
    works("kernels", rows, owner)
        .with("name", name.into_iter())
        .with("blocks", rows.iter().map(|w| known(w.blocks)))
        .with("threads", rows.iter().map(|w| known(w.threads)))
        .with("registers", rows.iter().map(|w| known(w.registers)))
        .with("shared_bytes", rows.iter().map(|w| known(w.shared)))
        .with("graph", rows.iter().map(|w| known(w.graph)))
        .done()
}

fn copies(rows: &[Work], owner: &Owners) -> Option<Table> {
    works("copies", rows, owner)
        .with("size_bytes", rows.iter().map(|w| known(w.size)))
        .full("direction", rows.iter().map(|w| i64::from(w.direction)))
        .full("source_memory", rows.iter().map(|w| i64::from(w.source)))
        .full("target_memory", rows.iter().map(|w| i64::from(w.target)))
        .with("source_device", rows.iter().map(|w| known(w.from)))
        .with("target_device", rows.iter().map(|w| known(w.to)))
        .done()
}

fn sets(rows: &[Work], owner: &Owners) -> Option<Table> {
    works("memsets", rows, owner)
        .with("size_bytes", rows.iter().map(|w| known(w.size)))
        .full("memory", rows.iter().map(|w| i64::from(w.target)))
        .done()
}

fn syncs(rows: &[Wait], owner: &Owners) -> Option<Table> {
    Making::new("syncs", rows.len())
        .full("start_ns", rows.iter().map(|w| w.start))
        .full("end_ns", rows.iter().map(|w| w.end))
        .with("process", rows.iter().map(|w| owner.process(w.correlation)))
        .with("device", rows.iter().map(|w| known(w.device)))
        .with("context", rows.iter().map(|w| known(w.context)))
        .with("stream", rows.iter().map(|w| known(w.stream)))
        .with("correlation", rows.iter().map(|w| known(w.correlation)))
        .with("sync_type", rows.iter().map(|w| known(w.kind)))
        .with("event", rows.iter().map(|w| known(w.event)))
        .with("event_record", rows.iter().map(|w| known(w.record)))
        .done()
}

/// Records of events, as the waits for them name them.
fn events(waits: &[Wait], owner: &Owners) -> Option<Table> {
    let mut seen = HashSet::new();
    let mut rows: Vec<&Wait> = waits.iter().filter(|w| w.event != NO && w.record != NO && seen.insert((w.event, w.record))).collect();
    rows.sort_by_key(|w| (w.record, w.event));
    Making::new("events", rows.len())
        .with("process", rows.iter().map(|w| owner.process(w.correlation)))
        .with("device", rows.iter().map(|w| known(w.device)))
        .with("context", rows.iter().map(|w| known(w.context)))
        .with("stream", rows.iter().map(|w| known(w.waits_on)))
        .with("correlation", rows.iter().map(|w| known(w.record)))
        .with("event", rows.iter().map(|w| known(w.event)))
        .with("event_record", rows.iter().map(|w| known(w.record)))
        .done()
}

fn ranges(rows: &[Call], places: &Places, names: &mut Names<'_>) -> Option<Table> {
    let kind = |c: &Call| match c.sort {
        Sort::Operator => OPERATOR,
        Sort::Function => FUNCTION,
        _ => PUSH_POP,
    };
    let name: Vec<_> = rows.iter().map(|c| names.number(c.name)).collect();
    Making::new("ranges", rows.len())
        .full("start_ns", rows.iter().map(|c| c.start))
        .full("end_ns", rows.iter().map(|c| c.end))
        .full("thread", rows.iter().map(|c| places.thread(c.caller)))
        .full("kind", rows.iter().map(kind))
        .with("name", name.into_iter())
        .done()
}

fn collectives(rows: &[Collective], places: &Places, owner: &Owners, names: &mut Names<'_>) -> Option<Table> {
    let name: Vec<_> = rows.iter().map(|c| names.number(c.name)).collect();
    let process = |c: &Collective| c.caller.map_or_else(|| owner.process(c.correlation), |caller| Some(places.process(caller)));
    Making::new("collectives", rows.len())
        .full("start_ns", rows.iter().map(|c| c.start))
        .full("end_ns", rows.iter().map(|c| c.end))
        .with("process", rows.iter().map(process))
        .with("thread", rows.iter().map(|c| c.caller.map(|caller| places.thread(caller))))
        .with("correlation", rows.iter().map(|c| known(c.correlation)))
        .with("name", name.into_iter())
        .with("size_bytes", rows.iter().map(|c| known(c.size)))
        .with("receive_bytes", rows.iter().map(|c| known(c.received)))
        .with("ranks", rows.iter().map(|c| known(c.ranks)))
        .with("first_rank", rows.iter().map(|c| known(c.first_rank)))
        .with("rank_stride", rows.iter().map(|c| known(c.rank_stride)))
        .done()
}

fn allocations(rows: &[Memory], places: &Places) -> Option<Table> {
    Making::new("allocations", rows.len())
        .full("time_ns", rows.iter().map(|m| m.time))
        .full("process", rows.iter().map(|m| places.process(m.caller)))
        .full("device", rows.iter().map(|m| m.device))
        .full("size_bytes", rows.iter().map(|m| m.bytes.abs()))
        .full("operation", rows.iter().map(|m| i64::from(m.bytes < 0)))
        .full("memory", rows.iter().map(|_| DEVICE))
        .full("address", rows.iter().map(|m| m.address))
        .done()
}

fn overheads(rows: &[Call], places: &Places, names: &mut Names<'_>) -> Option<Table> {
    let kind = |c: &Call, names: &Names<'_>| {
        let name = names.texts.get(c.name as usize).map_or("", String::as_str);
        match name {
            "Driver Compiler" => Some(2),
            "Buffer Flush" => Some(3),
            "Instrumentation" => Some(4),
            "Resource" => Some(5),
            "Runtime Triggered Module Loading" => Some(6),
            "Lazy Function Loading" => Some(7),
            "Command Buffer Full" => Some(8),
            _ => None,
        }
    };
    let kinds: Vec<_> = rows.iter().map(|c| kind(c, names)).collect();
    let name: Vec<_> = rows.iter().map(|c| names.number(c.name)).collect();
    Making::new("overheads", rows.len())
        .full("start_ns", rows.iter().map(|c| c.start))
        .full("end_ns", rows.iter().map(|c| c.end))
        .with("thread", rows.iter().map(|c| (c.caller.0 > 0 && c.caller.1 > 0).then(|| places.thread(c.caller))))
        .with("kind", kinds.into_iter())
        .with("name", name.into_iter())
        .done()
}
