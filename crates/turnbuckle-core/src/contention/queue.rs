//! Events in time order; those of one picosecond in the order in which they were added.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Time;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A process goes on.
    Go(u32),
    /// The overhead of sending a message has passed, and its receiver knows of it.
    Offer(u32),
    /// A message leaves its place.
    Leave(u32),
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
    /// Events that were left when it was last thinned.
    left: usize,
}

/// Shorter queues are not worth thinning.
const SHORT: usize = 4096;

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

    /// Drop what no longer holds, once more has been added since the last time than was left then; the order stays.
    pub(super) fn thin(&mut self, holds: impl Fn(&Event) -> bool) {
        if self.heap.len() > 2 * self.left + SHORT {
            self.heap.retain(|Reverse((_, _, event))| holds(event));
            self.left = self.heap.len();
        }
    }

    /// Events so far.
    pub(super) fn added(&self) -> u64 {
        self.added
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_queue_loses_what_no_longer_holds_and_keeps_its_order() {
        let mut queue = Queue::default();
        for n in 0..5_000_u32 {
            queue.add(u64::from(n % 7), Event::Drain(n, 0));
        }
        queue.thin(|event| matches!(event, Event::Drain(n, 0) if n % 100 == 0));
        let left: Vec<(Time, Event)> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(left.len(), 50);
        assert!(left.windows(2).all(|w| (w[0].0, w[0].1) < (w[1].0, w[1].1)));
        queue.add(1, Event::Free(0));
        queue.thin(|_| false);
        assert!(queue.next().is_some(), "a short one is left alone");
    }
}
