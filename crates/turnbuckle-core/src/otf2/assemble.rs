//! What all locations say together: processes and their places, requests across threads, clocks, findings, facts.

use super::ACCELERATOR;
use super::anchor::Anchor;
use super::calls::{Call, Kind, Late, NO, NONE, NOWHERE, Seen, Span, Transfer};
use super::chunks;
use super::clocks::{Aligned, Apart, Bounds};
use super::definitions::{Clock, Definitions};
use super::local::nanoseconds;
use super::messages::{self, Process};
use super::regions::{Class, Does, Regions};
use super::tables::{self, Moves, Names, Place};
use crate::ReadError;
use crate::recording::{Fact, Finding, Recording, Table};
use std::collections::{BTreeMap, HashMap, HashSet};

const METRICS: u8 = 3;
const PROGRAM_BEGIN: usize = 83;
/// Members of all communicators together: more would not fit into memory.
const MOST_MEMBERS: usize = 1 << 27;
/// Threads of a process that the vocabulary's thread ids can tell apart, and processes.
const MOST_THREADS: usize = (1 << 24) - 2;
const MOST_PROCESSES: usize = 1 << 30;
/// Names of the events, from number 10 on.
#[rustfmt::skip]
const EVENTS: [&str; 83] = [
    "BUFFER_FLUSH", "MEASUREMENT_ON_OFF", "ENTER", "LEAVE", "MPI_SEND", "MPI_ISEND", "MPI_ISEND_COMPLETE", "MPI_IRECV_REQUEST", "MPI_RECV",
    "MPI_IRECV", "MPI_REQUEST_TEST", "MPI_REQUEST_CANCELLED", "MPI_COLLECTIVE_BEGIN", "MPI_COLLECTIVE_END", "OMP_FORK", "OMP_JOIN",
    "OMP_ACQUIRE_LOCK", "OMP_RELEASE_LOCK", "OMP_TASK_CREATE", "OMP_TASK_SWITCH", "OMP_TASK_COMPLETE", "METRIC", "PARAMETER_STRING",
    "PARAMETER_INT", "PARAMETER_UNSIGNED_INT", "RMA_WIN_CREATE", "RMA_WIN_DESTROY", "RMA_COLLECTIVE_BEGIN", "RMA_COLLECTIVE_END",
    "RMA_GROUP_SYNC", "RMA_REQUEST_LOCK", "RMA_ACQUIRE_LOCK", "RMA_TRY_LOCK", "RMA_RELEASE_LOCK", "RMA_SYNC", "RMA_WAIT_CHANGE", "RMA_PUT",
    "RMA_GET", "RMA_ATOMIC", "RMA_OP_COMPLETE_BLOCKING", "RMA_OP_COMPLETE_NON_BLOCKING", "RMA_OP_TEST", "RMA_OP_COMPLETE_REMOTE",
    "THREAD_FORK", "THREAD_JOIN", "THREAD_TEAM_BEGIN", "THREAD_TEAM_END", "THREAD_ACQUIRE_LOCK", "THREAD_RELEASE_LOCK",
    "THREAD_TASK_CREATE", "THREAD_TASK_SWITCH", "THREAD_TASK_COMPLETE", "THREAD_CREATE", "THREAD_BEGIN", "THREAD_WAIT", "THREAD_END",
    "CALLING_CONTEXT_ENTER", "CALLING_CONTEXT_LEAVE", "CALLING_CONTEXT_SAMPLE", "IO_CREATE_HANDLE", "IO_DESTROY_HANDLE",
    "IO_DUPLICATE_HANDLE", "IO_SEEK", "IO_CHANGE_STATUS_FLAGS", "IO_DELETE_FILE", "IO_OPERATION_BEGIN", "IO_OPERATION_TEST",
    "IO_OPERATION_ISSUED", "IO_OPERATION_COMPLETE", "IO_OPERATION_CANCELLED", "IO_ACQUIRE_LOCK", "IO_RELEASE_LOCK", "IO_TRY_LOCK",
    "PROGRAM_BEGIN", "PROGRAM_END", "NON_BLOCKING_COLLECTIVE_REQUEST", "NON_BLOCKING_COLLECTIVE_COMPLETE", "COMM_CREATE", "COMM_DESTROY",
    "MPI_PROBE", "MPI_MRECV", "MPI_IMRECV_REQUEST", "MPI_IMRECV",
];
/// Event numbers that are read, or of which only the count matters.
const READ: [u8; 30] =
    [10, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 63, 65, 66, 67, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92, 62, 64, 34];

/// Everything that was read, before it becomes tables.
pub(super) struct Assembled<'a> {
    anchor: &'a Anchor,
    definitions: &'a Definitions,
    regions: &'a Regions,
    seen: Vec<Seen>,
    places: Vec<Place>,
    /// Which of `processes` each location belongs to.
    owner: Vec<Option<usize>>,
    processes: Vec<Process>,
    /// Location groups of the processes.
    groups: Vec<u32>,
    findings: Vec<Finding>,
}

impl<'a> Assembled<'a> {
    pub fn new(anchor: &'a Anchor, definitions: &'a Definitions, regions: &'a Regions, mut seen: Vec<Seen>) -> Result<Self, ReadError> {
        let mut groups: Vec<u32> = Vec::new();
        let mut number: HashMap<u32, usize> = HashMap::new();
        // processes in the order of their first thread, device contexts and their streams in theirs
        for location in definitions.locations.iter().filter(|l| l.kind != ACCELERATOR) {
            number.entry(location.group).or_insert_with(|| {
                groups.push(location.group);
                groups.len() - 1
            });
        }
        let (mut threads, mut streams) = (HashMap::<u32, i64>::new(), HashMap::<u32, i64>::new());
        let (mut devices, mut contexts) = (HashMap::<u64, i64>::new(), HashMap::<u32, i64>::new());
        let mut places = Vec::with_capacity(definitions.locations.len());
        let mut owner = Vec::with_capacity(definitions.locations.len());
        for location in &definitions.locations {
            let group = definitions.location_groups.get(&location.group);
            let mut place = Place::default();
            let owned_by = if location.kind == ACCELERATOR {
                let creator = group.filter(|g| g.kind == 2 && g.creator != NONE).map_or(location.group, |g| g.creator);
                let device = group.filter(|g| definitions.devices.contains(&g.place)).map(|g| u64::from(g.place));
                let fresh = devices.len() as i64;
                place.device = *devices.entry(device.unwrap_or(1 << 32 | u64::from(location.group))).or_insert(fresh);
                let fresh = contexts.len() as i64;
                place.context = *contexts.entry(location.group).or_insert(fresh);
                let stream = streams.entry(location.group).or_insert(0);
                place.stream = *stream;
                *stream += 1;
                number.get(&creator).copied()
            } else {
                number.get(&location.group).copied()
            };
            place.process = owned_by.map(|p| (p as i64 + 1) << 24);
            if location.kind != ACCELERATOR && location.kind != METRICS {
                let thread = threads.entry(location.group).or_insert(0);
                *thread += 1;
                place.thread = place.process.unwrap_or(0) | *thread;
            }
            owner.push(owned_by);
            places.push(place);
        }
        if groups.len() > MOST_PROCESSES || threads.values().any(|t| *t > MOST_THREADS as i64) {
            return Err(chunks::foreign("more threads than can be told apart", "record fewer threads"));
        }
        let mut processes: Vec<Process> = groups.iter().map(|_| Process::default()).collect();
        let at: HashMap<u64, usize> = definitions.locations.iter().zip(0..).map(|(l, at)| (l.id, at)).collect();
        for (rank, id) in (0..).zip(&definitions.ranks) {
            if let Some(process) = at.get(id).and_then(|at| owner[*at]) {
                processes[process].rank.get_or_insert(rank);
            }
        }
        gather(&mut processes, &mut seen, &owner, regions);
        Ok(Self { anchor, definitions, regions, seen, places, owner, processes, groups, findings: Vec::new() })
    }

    fn found(&mut self, code: &'static str, count: u64, detail: impl Into<String>) {
        if count > 0 {
            self.findings.push(Finding { code, count, detail: detail.into() });
        }
    }

    /// The recording.
    pub fn recording(mut self) -> Result<Recording, ReadError> {
        let definitions = self.definitions;
        self.found("P140", definitions.twice, "");
        self.found("P107", definitions.repaired, "");
        let events = self.events();
        self.left_out();
        let derived = messages::derive(&mut self.processes, definitions);
        self.found("P142", derived, "");
        self.clocks()?;
        let mut names = Names::new(self.regions);
        let devices: Vec<bool> = definitions.locations.iter().map(|l| l.kind == ACCELERATOR).collect();
        let ranks = self.ranks();
        let communicators = self.communicators(&ranks)?;
        let mut spans: Vec<Span> = self.seen.iter_mut().flat_map(|s| std::mem::take(&mut s.spans)).collect();
        let mut transfers: Vec<Transfer> = self.seen.iter_mut().flat_map(|s| std::mem::take(&mut s.transfers)).collect();
        self.launches(&mut spans, &mut transfers);
        let mut tables = tables::spans(spans, &self.places, &devices, self.regions, &mut names);
        tables.extend(tables::transfers(transfers, &self.places, &self.moves()));
        let nodes = self.nodes();
        tables.extend(tables::overheads(self.flushes()));
        tables.extend(tables::ranks(&ranks));
        tables.extend(communicators);
        let last = self.seen.iter().filter_map(|s| s.span).map(|s| s.1).max().unwrap_or(0);
        tables.extend(tables::mpi(std::mem::take(&mut self.processes), &self.places, &mut names));
        if !tables.iter().any(|t| !matches!(t.spec.name, "mpi_ranks" | "mpi_communicators" | "overheads")) {
            return Err(ReadError::new(
                "P007",
                "the recording holds no events",
                "no region was entered and no message was sent",
                "the recording was made without tracing, or it failed",
                "record with tracing on (Score-P: SCOREP_ENABLE_TRACING=true)",
            ));
        }
        if !tables.iter().any(|t| matches!(t.spec.name, "kernels" | "copies" | "memsets")) {
            self.found("P130", 1, "");
        }
        self.found("P123", 1, "");
        let program = self.seen.iter().any(|s| s.counts[PROGRAM_BEGIN] > 0);
        // Turnbuckle's own archives number the nodes
        let named = definitions.hosts && !self.anchor.creator.starts_with("turnbuckle ");
        let private = [(named, "system tree"), (program, "PROGRAM_BEGIN")];
        let private: Vec<_> = private.into_iter().filter(|(there, _)| *there).map(|(_, what)| what).collect();
        self.found("P119", u64::from(!private.is_empty()), private.join(", "));
        let clock = definitions.clock.unwrap_or(Clock { resolution: 1, zero: 0, length: 0, utc_ns: u64::MAX });
        let length = nanoseconds(u128::from(clock.length), clock.resolution.max(1));
        let creator = if self.regions.eztrace && self.anchor.creator.is_empty() { "EZTrace" } else { &self.anchor.creator };
        let version = if creator.is_empty() { Fact::Missing } else { Fact::Text(creator.to_owned()) };
        let facts = vec![
            ("format", Fact::Text("otf2".to_owned())),
            ("product_version", version),
            ("schema_version", Fact::Text(self.anchor.version.clone())),
            ("analysis_duration_ns", Fact::Int(length.max(last))),
            ("session_start_utc_ns", i64::try_from(clock.utc_ns).map_or(Fact::Missing, Fact::Int)),
            ("node_of_rank", Fact::Counts(nodes)),
            ("tables", Fact::Counts(events)),
        ];
        self.findings.sort_by_key(|f| f.code);
        Ok(Recording { tables, names: names.texts, facts, findings: self.findings })
    }

    /// Events by kind, and a finding on those that are not read.
    fn events(&mut self) -> Vec<(String, i64)> {
        let mut counts = BTreeMap::<usize, u64>::new();
        for seen in &self.seen {
            for (kind, count) in seen.counts.iter().enumerate().filter(|(_, c)| **c > 0) {
                *counts.entry(kind).or_default() += count;
            }
        }
        let name =
            |kind: usize| kind.checked_sub(10).and_then(|k| EVENTS.get(k)).map_or_else(|| format!("event {kind}"), |n| (*n).to_owned());
        let accesses = |kind: u8| self.seen.iter().filter_map(|s| s.accesses.get(&kind)).sum::<u64>();
        let unread: Vec<_> = counts
            .iter()
            .filter_map(|(k, c)| u8::try_from(*k).ok().filter(|k| !READ.contains(k)).map(|kind| (*k, c - accesses(kind))))
            .filter(|(_, c)| *c > 0)
            .collect();
        let total = unread.iter().map(|(_, c)| *c).sum();
        let detail = unread.iter().map(|(k, c)| format!("{} {c}", name(*k))).collect::<Vec<_>>().join(", ");
        self.found("P143", total, detail);
        counts.into_iter().map(|(k, c)| (name(k), i64::try_from(c).unwrap_or(i64::MAX))).collect()
    }

    /// What the tracer left out, and what it wrote that cannot be.
    fn left_out(&mut self) {
        let mut silent = BTreeMap::<&str, u64>::new();
        let mut apart = BTreeMap::<&str, u64>::new();
        for call in self.processes.iter().flat_map(|p| &p.calls).filter(|c| c.done == NO && c.comm == NONE) {
            let name = self.regions.names[call.region as usize].as_str();
            match (call.kind, call.does) {
                // a described message is none until it is started
                (Kind::Message, does) if does != Does::Describe => *silent.entry(name).or_default() += 1,
                (Kind::Collective, _) => *apart.entry(name).or_default() += 1,
                _ => {}
            }
        }
        let listed = |all: &BTreeMap<&str, u64>| all.iter().map(|(n, c)| format!("{n} {c}")).collect::<Vec<_>>().join(", ");
        let (silent, apart) = ((silent.values().sum(), listed(&silent)), (apart.values().sum(), listed(&apart)));
        self.found("P141", silent.0, silent.1);
        self.found("P148", apart.0, apart.1);
        let (doubtful, unbalanced) = self.seen.iter().fold((0, 0), |(d, u), s| (d + s.doubtful, u + s.unbalanced));
        self.found("P144", doubtful, "");
        self.found("P147", unbalanced, "");
    }

    /// Align the clocks where the tracer did not.
    fn clocks(&mut self) -> Result<(), ReadError> {
        let ranked = self.processes.iter().filter(|p| p.rank.is_some() && !p.calls.is_empty()).count();
        if ranked < 2 {
            return Ok(());
        }
        let (sends, receives) = messages::sides(&self.processes, self.definitions);
        let corrected = self.seen.iter().any(|s| s.corrected);
        if !corrected {
            let bounds = Bounds::new(&self.processes, self.definitions, &sends, &receives);
            if self.regions.eztrace || !bounds.hold() {
                let aligned = bounds.align(self.processes.len()).map_err(apart)?;
                self.shift(&aligned);
                return Ok(());
            }
        }
        let (count, most) = messages::backwards(&sends, &receives);
        self.found("P149", count, format!("by up to {most} ns"));
        Ok(())
    }

    fn shift(&mut self, aligned: &Aligned) {
        let shifts = &aligned.shifts;
        for (process, shift) in self.processes.iter_mut().zip(shifts) {
            for call in &mut process.calls {
                call.start = call.start.saturating_add(*shift);
                call.end = call.end.saturating_add(*shift);
            }
        }
        for (seen, owner) in self.seen.iter_mut().zip(&self.owner) {
            let shift = owner.map_or(0, |o| shifts[o]);
            let moved = |t: &mut i64| *t = t.saturating_add(shift);
            seen.spans.iter_mut().for_each(|s| [&mut s.start, &mut s.end].into_iter().for_each(moved));
            seen.transfers.iter_mut().for_each(|t| [&mut t.start, &mut t.end].into_iter().for_each(moved));
            seen.flushes.iter_mut().for_each(|f| [&mut f.0, &mut f.1].into_iter().for_each(moved));
            seen.made.iter_mut().for_each(|m| moved(&mut m.1));
            if let Some((first, last)) = &mut seen.span {
                [first, last].into_iter().for_each(moved);
            }
        }
        let (low, high) = shifts.iter().fold((0, 0), |(l, h), s| (*s.min(&l), *s.max(&h)));
        let moved = shifts.iter().filter(|s| **s != 0).count() as u64;
        let ranks = self.processes.iter().filter(|p| p.rank.is_some()).count() as u64;
        let pinned = ranks.saturating_sub(1 + aligned.loose);
        let sure =
            if pinned == 0 { String::new() } else { format!("; {pinned} of them known to within {:.1} us", aligned.within as f64 * 1e-3) };
        let (low, high) = (low as f64 * 1e-6, high as f64 * 1e-6);
        let (messages, collectives) = (aligned.messages, aligned.collectives);
        let detail = format!("by {low:.3} to {high:.3} ms against rank 0{sure}; from {messages} messages and {collectives} collectives");
        self.found("P145", moved.max(1), detail);
        self.found("P146", aligned.loose, "");
    }

    /// Number calls and the device work they started alike, where that is certain: all work of one place in the program ran on one
    /// stream, which keeps its order, and as many as were started there.
    fn launches(&self, spans: &mut [Span], transfers: &mut [Transfer]) {
        #[derive(Clone, Copy)]
        struct Work {
            start: i64,
            location: u32,
            transfer: bool,
            at: usize,
        }
        let mut sites: BTreeMap<(usize, u64), (Vec<usize>, Vec<Work>)> = BTreeMap::new();
        for (at, span) in spans.iter().enumerate().filter(|(_, s)| s.site != NOWHERE) {
            let location = span.location as usize;
            let Some(owner) = self.owner[location] else { continue };
            let (launches, work) = sites.entry((owner, span.site)).or_default();
            if self.definitions.locations[location].kind != ACCELERATOR {
                if span.class == Class::Api {
                    launches.push(at);
                }
            } else if !self.regions.not_a_kernel[span.region as usize] {
                work.push(Work { start: span.start, location: span.location, transfer: false, at });
            }
        }
        for (at, one) in transfers.iter().enumerate().filter(|(_, t)| t.site != NOWHERE) {
            let Some(owner) = self.owner[one.location as usize] else { continue };
            let (_, work) = sites.entry((owner, one.site)).or_default();
            work.push(Work { start: one.start, location: one.location, transfer: true, at });
        }
        let mut number = 0;
        for (mut launches, mut work) in sites.into_values() {
            let one_stream = work.iter().all(|w| w.location == work[0].location);
            launches.sort_by_key(|at| spans[*at].start);
            work.sort_by_key(|w| w.start);
            let in_order = launches.iter().zip(&work).all(|(l, w)| spans[*l].start <= w.start);
            if !one_stream || !in_order || launches.len() != work.len() {
                continue;
            }
            for (launch, work) in launches.into_iter().zip(work) {
                number += 1;
                spans[launch].correlation = number;
                if work.transfer {
                    transfers[work.at].correlation = number;
                } else {
                    spans[work.at].correlation = number;
                }
            }
        }
    }

    /// What a transfer does: from or to the host, inside a device, or between two, with the other device.
    fn moves(&self) -> impl Fn(&Transfer) -> Moves + '_ {
        let at: HashMap<u64, usize> = self.definitions.locations.iter().zip(0..).map(|(l, at)| (l.id, at)).collect();
        move |transfer| {
            let remote = at.get(&transfer.remote).filter(|at| self.definitions.locations[**at].kind == ACCELERATOR);
            let own = self.places[transfer.location as usize].device;
            match remote.map(|at| self.places[*at].device) {
                None if transfer.put => Moves::ToHost,
                None => Moves::FromHost,
                Some(other) if other != own => Moves::Peer(other),
                Some(_) if transfer.put && transfer.fill => Moves::Fill,
                Some(_) => Moves::Inside,
            }
        }
    }

    /// Thread and rank of every thread of a ranked process.
    fn ranks(&self) -> Vec<(i64, u32)> {
        let threads = self.definitions.locations.iter().zip(&self.owner).zip(&self.places);
        threads
            .filter(|((location, _), _)| !matches!(location.kind, ACCELERATOR | METRICS))
            .filter_map(|((_, owner), place)| Some((place.thread, self.processes[(*owner)?].rank?)))
            .collect()
    }

    fn communicators(&self, ranks: &[(i64, u32)]) -> Result<Option<Table>, ReadError> {
        let mut used: Vec<u32> = self.processes.iter().flat_map(|p| &p.calls).map(|c| c.comm).filter(|c| *c != NONE).collect();
        let mut made = HashMap::new();
        for (seen, owner) in self.seen.iter().zip(&self.owner) {
            let Some(rank) = owner.and_then(|o| self.processes[o].rank) else { continue };
            for (comm, time) in &seen.made {
                made.entry((rank, *comm)).or_insert(*time);
                used.push(*comm);
            }
        }
        used.sort_unstable();
        used.dedup();
        let there: HashSet<u32> = ranks.iter().map(|(_, rank)| *rank).collect();
        let mut there: Vec<u32> = there.into_iter().collect();
        there.sort_unstable();
        let first = self.seen.iter().filter_map(|s| s.span).map(|s| s.0).min().unwrap_or(0);
        let rows: usize =
            used.iter().filter_map(|c| self.definitions.comms.get(c)).map(|c| if c.alone { there.len() } else { c.size() }).sum();
        if rows > MOST_MEMBERS {
            return Err(chunks::foreign(format!("{rows} members of communicators in all"), "record fewer ranks"));
        }
        Ok(tables::communicators(self.definitions, &used, &there, &made, first))
    }

    fn flushes(&self) -> Vec<(i64, i64, i64)> {
        let placed = self.seen.iter().zip(&self.places);
        placed.flat_map(|(seen, place)| seen.flushes.iter().map(|f| (f.0, f.1, place.thread))).collect()
    }

    /// Number of the node that each rank ran on.
    fn nodes(&self) -> Vec<(String, i64)> {
        let mut number = HashMap::<u32, i64>::new();
        let mut all = Vec::new();
        for (process, group) in self.processes.iter().zip(&self.groups) {
            if let (Some(rank), Some(group)) = (process.rank, self.definitions.location_groups.get(group)) {
                let fresh = number.len() as i64;
                all.push((rank, *number.entry(group.place).or_insert(fresh)));
            }
        }
        all.sort_unstable();
        all.into_iter().map(|(rank, node)| (rank.to_string(), node)).collect()
    }
}

/// P018: the ranks' clocks cannot be brought together.
fn apart(why: Apart) -> ReadError {
    let found = match why {
        Apart::Untied(a, b) => format!("no message and no collective ties rank {b} to rank {a}"),
        Apart::Contradicted(0) => "no shifts of the ranks' clocks agree with all messages and collectives".to_owned(),
        Apart::Contradicted(by) => format!(
            "no constant shifts of the ranks' clocks agree with all messages and collectives; some would if each took {:.3} us longer",
            by as f64 * 1e-3
        ),
    };
    ReadError::new(
        "P018",
        "the clocks of the ranks cannot be aligned",
        found,
        "the tracer recorded each rank on a clock of its own and no offsets between them",
        "record with Score-P, which measures them; or record a barrier at the program's begin and end",
    )
}

/// Calls of all locations to their processes; completions that name a request of another thread find it here.
fn gather(processes: &mut [Process], seen: &mut [Seen], owner: &[Option<usize>], regions: &Regions) {
    let mut late: Vec<(usize, Late)> = Vec::new();
    let mut pending: HashMap<(usize, u64), usize> = HashMap::new();
    for (seen, owner) in seen.iter_mut().zip(owner) {
        let Some(process) = *owner else { continue };
        let calls = std::mem::take(&mut seen.calls);
        let before = processes[process].calls.len();
        processes[process].threaded |= before > 0 && !calls.is_empty();
        processes[process].cancels |= calls.iter().any(|c| regions.names[c.region as usize].to_ascii_lowercase().ends_with("mpi_cancel"));
        if before == 0 {
            processes[process].calls = calls;
        } else {
            processes[process].calls.extend(calls);
        }
        for (request, row) in std::mem::take(&mut seen.pending) {
            pending.insert((process, request), before + row);
        }
        late.extend(std::mem::take(&mut seen.late).into_iter().map(|l| (process, l)));
    }
    for (process, Late { request, call }) in late {
        match pending.remove(&(process, request)).and_then(|row| processes[process].calls.get_mut(row)) {
            Some(begun) => begun.complete(&call),
            // nobody saw it begin: it is kept as one that began with the call that completed it
            None if matches!(call.kind, Kind::Message | Kind::Collective) => {
                processes[process].calls.push(Call { end: call.start, ..call });
            }
            None => {}
        }
    }
}
