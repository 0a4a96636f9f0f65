//! Events in time order; those of one picosecond in the order in which they were added.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Time;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A process goes on.
    Go(u32),
    /// The overhead of sending a message has passed.
    Offer(u32),
    /// The first byte of a message reaches the receiver's host.
    Reach(u32),
    /// A message has arrived.
    Arrive(u32),
    /// A message enters its links (latency has passed).
    Enter(u32),
    /// A flow ends, if nothing changed since it was said so: flow, version.
    Drain(u32, u32),
    /// A resource is free again.
    Free(u32),
}

#[derive(Default)]
pub(super) struct Queue {
    heap: BinaryHeap<Reverse<(Time, u64, Event)>>,
    added: u64,
}

impl Queue {
    pub(super) fn add(&mut self, at: Time, event: Event) {
        self.heap.push(Reverse((at, self.added, event)));
        self.added += 1;
    }

    pub(super) fn next(&mut self) -> Option<(Time, Event)> {
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }

    /// When the next event is due.
    pub(super) fn due(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Events so far.
    pub(super) fn added(&self) -> u64 {
        self.added
    }
}
