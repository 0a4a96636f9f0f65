//! Who met whom: sends and receives by stream, and what the order of sends tells of receives that the tracer did not describe.

use super::calls::{Call, Kind, NO, NONE};
use super::definitions::Definitions;
use super::regions::Does;
use std::collections::{HashMap, HashSet};

/// One process: a rank of the world, and its calls.
#[derive(Debug, Default)]
pub(super) struct Process {
    /// Rank in the world.
    pub rank: Option<u32>,
    pub calls: Vec<Call>,
    /// More than one of its threads calls MPI: the order of calls is not the order of messages.
    pub threaded: bool,
    /// It called MPI_Cancel: how that ended is not recorded.
    pub cancels: bool,
}

/// One side of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Side {
    /// Communicator, sender and receiver (ranks of the world), tag.
    pub stream: (u32, u32, u32, u32),
    pub start: i64,
    /// Position in the list of its process's calls.
    pub call: usize,
    /// When the call that begins it returns, and when the one that completes it does [ns]; the latter may be missing.
    pub end: i64,
    pub done: i64,
    pub size: i64,
    pub synchronous: bool,
}

/// All described sends and receives, each sorted by stream and by begin.
pub(super) fn sides(processes: &[Process], definitions: &Definitions) -> (Vec<Side>, Vec<Side>) {
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    for process in processes {
        let Some(own) = process.rank else { continue };
        for (at, call) in process.calls.iter().enumerate().filter(|(_, c)| c.kind == Kind::Message && c.partner != NONE) {
            let Some(other) = definitions.comms.get(&call.comm).and_then(|c| c.world(call.partner, own)) else { continue };
            let sends_it = matches!(call.does, Does::Send | Does::Ssend | Does::Isend);
            let (source, target) = if sends_it { (own, other) } else { (other, own) };
            let side = Side {
                stream: (call.comm, source, target, call.tag),
                start: call.start,
                call: at,
                end: call.end,
                done: call.done,
                size: call.size,
                synchronous: call.does == Does::Ssend,
            };
            if sends_it { sends.push(side) } else { receives.push(side) }
        }
    }
    sends.sort_unstable();
    receives.sort_unstable();
    (sends, receives)
}

/// Runs of sides of one stream.
fn streams(sides: &[Side]) -> impl Iterator<Item = &[Side]> {
    sides.chunk_by(|a, b| a.stream == b.stream)
}

/// Messages whose two sides are certain: the k-th send with the k-th receive, in streams with as many receives as sends and
/// the same sizes all along.
pub(super) fn pairs<'a>(sends: &'a [Side], receives: &'a [Side]) -> impl Iterator<Item = (&'a Side, &'a Side)> {
    let mut waiting = streams(receives).peekable();
    streams(sends)
        .filter_map(move |sent| {
            while waiting.peek().is_some_and(|r| r[0].stream < sent[0].stream) {
                waiting.next();
            }
            let received = *waiting.peek().filter(|r| r[0].stream == sent[0].stream)?;
            let same = sent.len() == received.len() && sent.iter().zip(received).all(|(s, r)| s.size == r.size);
            same.then(|| sent.iter().zip(received))
        })
        .flatten()
}

/// Fill in receives that the tracer began and did not describe, where only one message can be each of them.
///
/// That is so where every call that sends is described, nothing was cancelled, the receiver's calls are in one order, and
/// everything sent to it came from one rank in one communicator, as many messages as it has receives.  With one tag the k-th
/// receive is the k-th message; with several only sender and communicator are told.  Returns the number of receives told.
pub(super) fn derive(processes: &mut [Process], definitions: &Definitions) -> u64 {
    let silent = |call: &Call| call.kind == Kind::Message && call.partner == NONE;
    let sends_silently = |c: &Call| silent(c) && matches!(c.does, Does::Send | Does::Ssend | Does::Isend | Does::Both | Does::Describe);
    if processes.iter().any(|p| p.cancels || p.calls.iter().any(sends_silently)) {
        return 0;
    }
    let (mut sends, receives) = sides(processes, definitions);
    sends.sort_unstable_by_key(|s| (s.stream.2, s.start, s.call));
    let told_receives: HashSet<u32> = receives.iter().map(|r| r.stream.2).collect();
    let to: HashMap<u32, &[Side]> = sends.chunk_by(|a, b| a.stream.2 == b.stream.2).map(|some| (some[0].stream.2, some)).collect();
    let mut told = 0;
    for process in processes.iter_mut().filter(|p| !p.threaded) {
        let Some(own) = process.rank else { continue };
        let mut open: Vec<usize> = (0..process.calls.len()).filter(|i| silent(&process.calls[*i])).collect();
        let Some(mine) = to.get(&own) else { continue };
        let first = mine[0].stream;
        let one_source = mine.iter().all(|s| (s.stream.0, s.stream.1) == (first.0, first.1));
        if open.is_empty() || open.iter().any(|i| process.calls[*i].does != Does::Irecv) || !one_source {
            continue;
        }
        let Some(comm) = definitions.comms.get(&first.0) else { continue };
        let Some(partner) = (0..comm.size() as u32).find(|p| comm.world(*p, own) == Some(first.1)) else { continue };
        if told_receives.contains(&own) || open.len() != mine.len() {
            continue;
        }
        open.sort_unstable_by_key(|i| (process.calls[*i].start, *i));
        let one_tag = mine.iter().all(|s| s.stream.3 == first.3);
        for (at, sent) in open.iter().zip(*mine) {
            let call = &mut process.calls[*at];
            (call.comm, call.partner) = (first.0, partner);
            if one_tag {
                (call.tag, call.size) = (first.3, sent.size);
            }
            told += 1;
        }
    }
    told
}

/// Messages that were received before they were sent, and by how much at most [ns].
pub(super) fn backwards(sends: &[Side], receives: &[Side]) -> (u64, i64) {
    let early = pairs(sends, receives).filter(|(_, r)| r.done != NO).map(|(s, r)| s.start - r.done).filter(|by| *by > 0);
    early.fold((0, 0), |(count, most), by| (count + 1, most.max(by)))
}
