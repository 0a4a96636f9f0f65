//! Events in time order; those of one picosecond in the order in which they were added.
//!
//! Nothing is ever added before the last event taken, so that a radix heap does: an event stands in the slot of the highest
//! digit in which its time differs from that of the last event taken.  When a slot is opened its events move to slots of lower
//! digits, in their order; equal times always share a slot, so that they stay in the order in which they were added.

use super::Time;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// A packet is wholly at the end of a link.
    Hop(u32),
    /// A packet has left a link, and somebody waits for the link or for its room.
    Left(u32),
    /// The next packet of a message with a rate of its own is there.
    Paced(u32),
}

/// Bits of a digit.
const DIGIT: u32 = 6;
const SLOTS: usize = 1 << DIGIT;
const DIGITS: usize = Time::BITS.div_ceil(DIGIT) as usize;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    at: Time,
    event: Event,
    next: u32,
}

/// Nodes in order: first and last.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

const EMPTY: List = List { first: NONE, last: NONE };

pub(super) struct Queue {
    nodes: Vec<Node>,
    /// Nodes that are not in use, each with the next.
    spare: u32,
    /// Events at the time of the last one taken.
    now: List,
    last: Time,
    slots: Box<[[List; SLOTS]; DIGITS]>,
    /// Slots of each digit that have events.
    used: [u64; DIGITS],
    /// Digits of which any slot has.
    digits: u64,
    added: u64,
    held: usize,
    /// Events that were left when it was last thinned.
    left: usize,
}

/// Shorter queues are not worth thinning.
const SHORT: usize = 4096;

impl Default for Queue {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            spare: NONE,
            now: EMPTY,
            last: 0,
            slots: Box::new([[EMPTY; SLOTS]; DIGITS]),
            used: [0; DIGITS],
            digits: 0,
            added: 0,
            held: 0,
            left: 0,
        }
    }
}

impl Queue {
    /// Add an event at the time of the last one taken, or later.
    pub(super) fn add(&mut self, at: Time, event: Event) {
        debug_assert!(at >= self.last, "an event before the one dealt with");
        let node = Node { at, event, next: NONE };
        let place = self.spare;
        if let Some(free) = self.nodes.get_mut(place as usize) {
            self.spare = free.next;
            *free = node;
            self.put(place, at);
        } else {
            self.nodes.push(node);
            self.put(self.nodes.len() as u32 - 1, at);
        }
        self.added += 1;
        self.held += 1;
    }

    /// Put a node at the end of the list it belongs to.
    fn put(&mut self, place: u32, at: Time) {
        let differs = at ^ self.last;
        let list = if differs == 0 {
            &mut self.now
        } else {
            let digit = ((Time::BITS - 1 - differs.leading_zeros()) / DIGIT) as usize;
            let slot = (at >> (digit as u32 * DIGIT)) as usize % SLOTS;
            self.used[digit] |= 1 << slot;
            self.digits |= 1 << digit;
            &mut self.slots[digit][slot]
        };
        if list.first == NONE {
            list.first = place;
        } else {
            self.nodes[list.last as usize].next = place;
        }
        list.last = place;
    }

    /// Take the next event.
    pub(super) fn next(&mut self) -> Option<(Time, Event)> {
        if self.now.first == NONE {
            self.open()?;
        }
        let place = self.now.first;
        let node = &mut self.nodes[place as usize];
        let (at, event) = (node.at, node.event);
        self.now.first = std::mem::replace(&mut node.next, self.spare);
        self.spare = place;
        self.held -= 1;
        Some((at, event))
    }

    /// Open the slot with the next events.
    fn open(&mut self) -> Option<()> {
        if self.digits == 0 {
            return None;
        }
        let digit = self.digits.trailing_zeros() as usize;
        let slot = self.used[digit].trailing_zeros() as usize;
        self.used[digit] &= self.used[digit] - 1;
        if self.used[digit] == 0 {
            self.digits &= self.digits - 1;
        }
        let list = std::mem::replace(&mut self.slots[digit][slot], EMPTY);
        if digit == 0 {
            // nothing is left to differ in
            self.last = self.nodes[list.first as usize].at;
            self.now = list;
            return Some(());
        }
        let (mut earliest, mut place) = (Time::MAX, list.first);
        while place != NONE {
            let node = &self.nodes[place as usize];
            earliest = earliest.min(node.at);
            place = node.next;
        }
        self.last = earliest;
        let mut place = list.first;
        while place != NONE {
            let node = &mut self.nodes[place as usize];
            let (at, next) = (node.at, std::mem::replace(&mut node.next, NONE));
            self.put(place, at);
            place = next;
        }
        Some(())
    }

    /// Whether another event is due at the time of the last one taken.
    pub(super) fn more(&self) -> bool {
        self.now.first != NONE
    }

    /// Drop what no longer holds, once more has been added since the last time than was left then; the order stays.
    pub(super) fn thin(&mut self, holds: impl Fn(&Event) -> bool) {
        if self.held <= 2 * self.left + SHORT {
            return;
        }
        let mut lists = vec![std::mem::replace(&mut self.now, EMPTY)];
        for (digit, used) in self.used.iter_mut().enumerate() {
            while *used != 0 {
                lists.push(std::mem::replace(&mut self.slots[digit][used.trailing_zeros() as usize], EMPTY));
                *used &= *used - 1;
            }
        }
        self.digits = 0;
        for list in lists {
            let mut place = list.first;
            while place != NONE {
                let node = &mut self.nodes[place as usize];
                let (at, next) = (node.at, std::mem::replace(&mut node.next, NONE));
                if holds(&node.event) {
                    self.put(place, at);
                } else {
                    node.next = std::mem::replace(&mut self.spare, place);
                    self.held -= 1;
                }
                place = next;
            }
        }
        self.left = self.held;
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
        let named: Vec<(Time, u32)> = left.iter().map(|(at, e)| (*at, if let Event::Drain(n, _) = e { *n } else { 0 })).collect();
        assert!(named.windows(2).all(|w| w[0] < w[1]), "{named:?}");
        queue.add(6, Event::Free(0));
        queue.thin(|_| false);
        assert!(queue.next().is_some(), "a short one is left alone");
    }

    #[test]
    fn it_gives_what_a_sorted_list_gives() {
        let mut seed = 99_u64;
        let mut random = move |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        for spread in [1, 3, 100, 1 << 20, 1 << 30] {
            let (mut queue, mut list, mut now, mut named) = (Queue::default(), std::collections::BTreeMap::new(), 0, 0_u32);
            for _ in 0..3_000 {
                for _ in 0..random(4) {
                    // far away now and then, and often at the very time
                    let far = random(spread) << if random(50) == 0 { 33 } else { 0 };
                    let at = now + if random(3) == 0 { 0 } else { far };
                    queue.add(at, Event::Go(named));
                    list.insert((at, named), ());
                    named += 1;
                }
                if random(9) < 7 {
                    let known = list.pop_first().map(|((at, n), ())| (at, Event::Go(n)));
                    let found = queue.next();
                    assert_eq!(found, known);
                    now = found.map_or(now, |f| f.0);
                    assert_eq!(queue.more(), list.keys().next().is_some_and(|(at, _)| found.is_some() && *at == now));
                }
            }
            while let Some(((at, n), ())) = list.pop_first() {
                assert_eq!(queue.next(), Some((at, Event::Go(n))));
            }
            assert_eq!(queue.next(), None);
        }
    }
}
