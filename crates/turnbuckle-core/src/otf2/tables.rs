//! Calls into the tables of the vocabulary.

use super::calls::{Call, NO, NONE, Span, Transfer};
use super::definitions::Definitions;
use super::messages::Process;
use super::regions::{Class, Does, Regions};
use crate::making::Making;
use crate::recording::Table;
use std::collections::HashMap;

/// Kind of a range that was entered and left.
const PUSH_POP: i64 = 59;
/// Kind of overhead: the tracer wrote its buffer.
const BUFFER_FLUSH: i64 = 3;

/// Where each location stands: its process and its number inside.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    /// Process id in the bits that the vocabulary keeps for it, if it belongs to a process.
    pub process: Option<i64>,
    pub thread: i64,
    pub device: i64,
    pub context: i64,
    pub stream: i64,
}

/// Texts that the tables refer to, each once.
pub(super) struct Names<'a> {
    regions: &'a Regions,
    of_region: Vec<Option<i64>>,
    of_text: HashMap<&'a str, i64>,
    pub texts: Vec<String>,
}

impl<'a> Names<'a> {
    pub fn new(regions: &'a Regions) -> Self {
        Self { regions, of_region: vec![None; regions.names.len()], of_text: HashMap::new(), texts: Vec::new() }
    }

    fn of(&mut self, region: u32) -> Option<i64> {
        let region = region as usize;
        if self.of_region[region].is_none() {
            let text = self.regions.names[region].as_str();
            let next = self.texts.len() as i64;
            let number = *self.of_text.entry(text).or_insert(next);
            if number == next {
                self.texts.push(text.to_owned());
            }
            self.of_region[region] = Some(number);
        }
        self.of_region[region]
    }
}

fn known(number: u32) -> Option<i64> {
    (number != NONE).then(|| i64::from(number))
}

fn told(number: i64) -> Option<i64> {
    (number != NO).then_some(number)
}

/// Handle of a communicator: its id, shifted so that 0 stays free for "none".
fn handle(comm: u32) -> Option<i64> {
    known(comm).map(|c| c + 1)
}

/// The table of MPI calls; of calls that begin together the outer one comes first.
pub(super) fn mpi(processes: Vec<Process>, places: &[Place], names: &mut Names<'_>) -> Option<Table> {
    let mut all: Vec<Call> = Vec::with_capacity(processes.iter().map(|p| p.calls.len()).sum());
    processes.into_iter().for_each(|p| all.extend(p.calls));
    // of a Sendrecv the half that sends comes first
    all.sort_unstable_by_key(|c| (c.start, c.location, c.end, c.does == Does::Recv));
    let name: Vec<_> = all.iter().map(|c| names.of(c.region)).collect();
    Making::new("mpi", all.len())
        .full("start_ns", all.iter().map(|c| c.start))
        .full("end_ns", all.iter().map(|c| c.end))
        .full("thread", all.iter().map(|c| places[c.location as usize].thread))
        .full("kind", all.iter().map(|c| c.kind as i64))
        .with("name", name.into_iter())
        .with("size_bytes", all.iter().map(|c| told(c.size)))
        .with("receive_bytes", all.iter().map(|c| told(c.received)))
        .with("partner", all.iter().map(|c| known(c.partner)))
        .with("root", all.iter().map(|c| known(c.root)))
        .with("tag", all.iter().map(|c| known(c.tag)))
        .with("communicator", all.iter().map(|c| handle(c.comm)))
        .with("request", all.iter().map(|c| told(c.request)))
        .done()
}

/// Every other table of calls.
pub(super) fn spans(mut all: Vec<Span>, places: &[Place], devices: &[bool], regions: &Regions, names: &mut Names<'_>) -> Vec<Table> {
    all.sort_by_key(|s| (s.start, s.location, std::cmp::Reverse(s.end)));
    let place = |s: &Span| places[s.location as usize];
    let on_device = |s: &Span| devices[s.location as usize];
    let of = |class: Class| -> Vec<Span> { all.iter().filter(|s| s.class == class && !on_device(s)).copied().collect() };
    let times = |name, some: &[Span], names: &mut Names<'_>| {
        let text: Vec<_> = some.iter().map(|s| names.of(s.region)).collect();
        Making::new(name, some.len())
            .full("start_ns", some.iter().map(|s| s.start))
            .full("end_ns", some.iter().map(|s| s.end))
            .with("name", text.into_iter())
    };
    let number = |s: &Span| (s.correlation != 0).then_some(s.correlation);
    let (api, os, ranges) = (of(Class::Api), of(Class::Os), of(Class::Range));
    let kernels: Vec<Span> = all.iter().filter(|s| on_device(s) && !regions.not_a_kernel[s.region as usize]).copied().collect();
    let threads = |some: &[Span]| some.iter().map(|s| Some(place(s).thread)).collect::<Vec<_>>();
    [
        times("api", &api, names)
            .full("process", api.iter().map(|s| place(s).process.unwrap_or(0)))
            .with("thread", threads(&api).into_iter())
            .with("correlation", api.iter().map(number))
            .full("level", api.iter().map(|_| 0))
            .done(),
        times("kernels", &kernels, names)
            .with("process", kernels.iter().map(|s| place(s).process))
            .with("correlation", kernels.iter().map(number))
            .full("device", kernels.iter().map(|s| place(s).device))
            .full("context", kernels.iter().map(|s| place(s).context))
            .full("stream", kernels.iter().map(|s| place(s).stream))
            .done(),
        times("ranges", &ranges, names).with("thread", threads(&ranges).into_iter()).full("kind", ranges.iter().map(|_| PUSH_POP)).done(),
        times("os_calls", &os, names)
            .with("thread", threads(&os).into_iter())
            .full("nesting", os.iter().map(|s| i64::from(s.nesting)))
            .done(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What a transfer of a device stream does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moves {
    FromHost,
    ToHost,
    Inside,
    /// To or from a device of that number.
    Peer(i64),
    /// It writes the device's own memory and reads none.
    Fill,
}

/// Code of device memory; 0 is a memory that is not recorded.
const ON_DEVICE: i64 = 3;

/// The tables of copies and of memory sets.
pub(super) fn transfers(mut all: Vec<Transfer>, places: &[Place], moves: &impl Fn(&Transfer) -> Moves) -> Vec<Table> {
    all.sort_by_key(|t| (t.start, t.location, t.end));
    let (sets, copies): (Vec<_>, Vec<_>) = all.into_iter().map(|t| (moves(&t), t)).partition(|(m, _)| *m == Moves::Fill);
    let common = |name, some: &[(Moves, Transfer)]| {
        let place = |t: &Transfer| places[t.location as usize];
        Making::new(name, some.len())
            .full("start_ns", some.iter().map(|(_, t)| t.start))
            .full("end_ns", some.iter().map(|(_, t)| t.end))
            .with("process", some.iter().map(|(_, t)| place(t).process))
            .full("device", some.iter().map(|(_, t)| place(t).device))
            .full("context", some.iter().map(|(_, t)| place(t).context))
            .full("stream", some.iter().map(|(_, t)| place(t).stream))
            .with("correlation", some.iter().map(|(_, t)| (t.correlation != 0).then_some(t.correlation)))
            .with("size_bytes", some.iter().map(|(_, t)| i64::try_from(t.bytes).ok()))
    };
    // source, target: whether each is the device's memory
    let ends = |m: Moves| match m {
        Moves::FromHost => (false, true),
        Moves::ToHost => (true, false),
        _ => (true, true),
    };
    let memory = |on_device: bool| if on_device { ON_DEVICE } else { 0 };
    let peers = |m: Moves, t: &Transfer, source: bool| match m {
        Moves::Peer(_) if t.put == source => Some(places[t.location as usize].device),
        Moves::Peer(other) => Some(other),
        _ => None,
    };
    let direction = |m: Moves| match m {
        Moves::FromHost => 1,
        Moves::ToHost => 2,
        Moves::Peer(_) => 4,
        Moves::Inside | Moves::Fill => 3,
    };
    let made = common("copies", &copies)
        .full("direction", copies.iter().map(|(m, _)| direction(*m)))
        .full("source_memory", copies.iter().map(|(m, _)| memory(ends(*m).0)))
        .full("target_memory", copies.iter().map(|(m, _)| memory(ends(*m).1)))
        .with("source_device", copies.iter().map(|(m, t)| peers(*m, t, true)))
        .with("target_device", copies.iter().map(|(m, t)| peers(*m, t, false)));
    let set = common("memsets", &sets).full("memory", sets.iter().map(|_| ON_DEVICE));
    [made.done(), set.done()].into_iter().flatten().collect()
}

/// When the tracer wrote its buffers: begin, end and thread.
pub(super) fn overheads(mut all: Vec<(i64, i64, i64)>) -> Option<Table> {
    all.sort_unstable();
    Making::new("overheads", all.len())
        .full("start_ns", all.iter().map(|o| o.0))
        .full("end_ns", all.iter().map(|o| o.1))
        .full("thread", all.iter().map(|o| o.2))
        .full("kind", all.iter().map(|_| BUFFER_FLUSH))
        .done()
}

/// Which rank each thread belongs to.
pub(super) fn ranks(all: &[(i64, u32)]) -> Option<Table> {
    Making::new("mpi_ranks", all.len())
        .with("thread", all.iter().map(|(thread, _)| Some(*thread)))
        .with("rank", all.iter().map(|(_, rank)| Some(i64::from(*rank))))
        .done()
}

/// Communicators, one row a member.
///
/// Ids are global in an archive, so that a communicator is told by the world's rank of its first member and its id; `made` holds
/// when (rank, id) was made, communicators of which that is not recorded exist from `first` on.
pub(super) fn communicators(
    definitions: &Definitions,
    used: &[u32],
    ranks: &[u32],
    made: &HashMap<(u32, u32), i64>,
    first: i64,
) -> Option<Table> {
    let mut rows = Vec::new();
    for id in used {
        let Some(comm) = definitions.comms.get(id).filter(|c| !c.inter) else { continue };
        let mut add = |rank: u32, inside: usize, root: u32| {
            let time = made.get(&(rank, *id)).copied().unwrap_or(first);
            rows.push((time, rank, i64::from(*id) + 1, inside as i64, comm.size() as i64, root));
        };
        if comm.alone {
            ranks.iter().for_each(|r| add(*r, 0, *r));
        } else if let Some(root) = comm.members.first() {
            comm.members.iter().enumerate().for_each(|(inside, rank)| add(*rank, inside, *root));
        }
    }
    // the world is each process's first
    rows.sort_unstable_by_key(|r| (r.0, r.1, std::cmp::Reverse(r.4), r.2));
    Making::new("mpi_communicators", rows.len())
        .full("time_ns", rows.iter().map(|r| r.0))
        .full("rank", rows.iter().map(|r| i64::from(r.1)))
        .full("communicator", rows.iter().map(|r| r.2))
        .full("local_rank", rows.iter().map(|r| r.3))
        .full("size", rows.iter().map(|r| r.4))
        .full("group_root", rows.iter().map(|r| i64::from(r.5)))
        .full("group_number", rows.iter().map(|r| r.2))
        .done()
}
