//! Packets: queues of finite room before every link, first come, first served.
//!
//! Before each link stands a lane: packets that came over other links, in order of arrival, in a buffer of finite room.  A link
//! sends the packet at the head of a lane once the lane of the packet's next link has room for all of it, and takes that room at
//! once; the room is free again when the packet has left that next link.  Whoever waits for room gets it in the order in which
//! they began to wait.  A switch sends a packet on when it is wholly there (store and forward).  Messages that begin at a link
//! take turns in a lane of their own, packet by packet; they wait in their host's memory, which has room for all.  One that must
//! wait for room holds up only those that want into the same lane: one of them at a time waits, so that many messages of a host
//! are not heard more often than what passes by.  A link with several lanes serves them in turn.
//!
//! An event is made when a packet is wholly at the end of a link, but not at the last one before its message has all come; and
//! when a packet has left, but only if somebody waits for the link or for the room.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::datelines::Turns;
use super::queue::{Event, Queue};
use super::{RunError, Time};

/// How messages are cut, and what a lane holds [B].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Bytes of a message in a packet, at most.
    pub payload: u32,
    /// Bytes of a packet beside those.
    pub header: u32,
    /// Room before each link; one packet at least.
    pub buffer: u32,
}

impl Default for Packing {
    fn default() -> Self {
        Self { payload: 8192, header: 0, buffer: 65_536 }
    }
}

impl Packing {
    /// Whether a packet has bytes of a message, and fits where it waits.
    #[must_use]
    pub fn sound(&self) -> bool {
        self.payload > 0 && self.payload.checked_add(self.header).is_some_and(|full| full <= self.buffer)
    }
}

const NONE: u32 = u32::MAX;
/// Who waits for room is a lane, or with this bit a message.
const MESSAGE: u32 = 1 << 31;

/// Names in order: first and last.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

const EMPTY: List = List { first: NONE, last: NONE };

impl List {
    /// Put a name at the end; `next` is the successor of the last one so far.
    fn add(&mut self, name: u32, next: impl FnOnce(u32, u32)) {
        if self.first == NONE {
            self.first = name;
        } else {
            next(self.last, name);
        }
        self.last = name;
    }
}

/// Links of one bandwidth and latency.
struct Kind {
    capacity: f64,
    latency: Time,
    /// Time of a full packet.
    full: Time,
}

struct Link {
    /// End of the packet it sends, or sent last.
    free: Time,
    carried: u64,
    /// Lane whose room that packet still takes, and how much.
    serving: u32,
    served: u32,
    /// Lane served last.
    turn: u32,
    kind: u32,
    /// Whether `Left` will come at `free`.
    told: bool,
}

/// What waits before a link: packets, or messages that begin there.
struct Lane {
    link: u32,
    /// The next lane of the link, in a circle.
    beside: u32,
    /// Packets, or messages.
    waiting: List,
    room: u32,
    /// Who waits for room here, and who waits behind this lane where it does.
    asking: List,
    behind: u32,
    /// Whether messages begin here.
    source: bool,
    /// Waits for room.
    held: bool,
    /// Has got room for its head.
    granted: bool,
}

#[derive(Clone, Copy)]
struct Packet {
    next: u32,
    /// Place in `ways`: the lane it is in or on its way to.
    at: u32,
    bytes: u32,
    /// Its message, if it is the last one.
    ends: u32,
}

struct Message {
    name: u32,
    /// The next one in its lane or in its crowd, or who waits behind it for room.
    next: u32,
    left: u64,
    /// The lane where it begins.
    lane: u32,
    /// Most that it goes at [B/ps], since when, and bytes that were there since.
    limit: f64,
    since: Time,
    given: u64,
    /// Has got room for its next packet.
    granted: bool,
}

/// Links, and the packets on and before them.
pub(super) struct Packets {
    packing: Packing,
    kinds: Vec<Kind>,
    links: Vec<Link>,
    /// One for each link; then those of higher number and those where messages begin.
    lanes: Vec<Lane>,
    /// Lane where messages begin, of each link.
    sources: Vec<u32>,
    /// Lanes of higher number, by link and number.
    higher: HashMap<(u32, u32), u32>,
    /// For each lane where messages begin, and lane where one of them waits for room: the others that want into it.
    crowds: HashMap<(u32, u32), List>,
    turns: Turns,
    datelines: Vec<(u32, u32)>,
    packets: Vec<Packet>,
    /// Packets that are not in use, each with the next.
    spare: u32,
    messages: Vec<Message>,
    idle: Vec<u32>,
    /// Lanes of each message, one after the other, and one place for the end.
    ways: Vec<u32>,
    stride: usize,
}

impl Packets {
    /// Links by bandwidth [B/ps] and latency [ps].
    pub(super) fn new(packing: Packing, links: impl Iterator<Item = (f64, Time)>) -> Self {
        let full = packing.payload.saturating_add(packing.header);
        let (mut kinds, mut known) = (Vec::new(), HashMap::new());
        let links: Vec<Link> = links
            .zip(0_u32..)
            .map(|((capacity, latency), link)| {
                let kind = *known.entry((capacity.to_bits(), latency)).or_insert_with(|| {
                    kinds.push(Kind { capacity, latency, full: took(full, capacity) });
                    kinds.len() as u32 - 1
                });
                Link { free: 0, carried: 0, serving: NONE, served: 0, turn: link, kind, told: false }
            })
            .collect();
        let lanes = (0..links.len() as u32).map(|link| Lane::new(link, link, packing.buffer)).collect();
        Self {
            packing,
            kinds,
            sources: vec![NONE; links.len()],
            links,
            lanes,
            higher: HashMap::new(),
            crowds: HashMap::new(),
            turns: Turns::default(),
            datelines: Vec::new(),
            packets: Vec::new(),
            spare: NONE,
            messages: Vec::new(),
            idle: Vec::new(),
            ways: Vec::new(),
            stride: 1,
        }
    }

    /// A route that messages will take; all are told before the first begins.
    pub(super) fn learn(&mut self, route: &[u32]) {
        self.stride = self.stride.max(route.len() + 1);
        self.turns.add(route);
    }

    /// All routes are known, and which links a packet leaves in a lane one higher anyway.
    pub(super) fn ready(&mut self, rises: impl Fn(u32) -> bool) {
        self.datelines = std::mem::take(&mut self.turns).datelines(self.links.len(), rises);
    }

    /// A message begins; `Arrive` will come when its last packet is wholly at the end of the route, which has a link at least.
    pub(super) fn begin(
        &mut self,
        name: u32,
        bytes: u64,
        route: &[u32],
        limit: Option<f64>,
        now: Time,
        queue: &mut Queue,
    ) -> Result<(), RunError> {
        let slot = self.idle.pop().unwrap_or(self.messages.len() as u32);
        let lane = self.source(route[0]);
        let limit = limit.filter(|_| bytes > 0).unwrap_or(f64::INFINITY);
        let message = Message { name, next: NONE, left: bytes, lane, limit, since: now, given: 0, granted: false };
        if let Some(place) = self.messages.get_mut(slot as usize) {
            *place = message;
        } else {
            if (self.messages.len() + 1) * self.stride >= MESSAGE as usize {
                return Err(RunError::Value);
            }
            self.messages.push(message);
            self.ways.resize(self.messages.len() * self.stride, NONE);
        }
        let base = slot as usize * self.stride;
        let mut number = 0;
        for (hop, link) in route.iter().enumerate() {
            if hop > 0 && !self.datelines.is_empty() && self.datelines.binary_search(&(route[hop - 1], *link)).is_ok() {
                number += 1;
            }
            self.ways[base + hop] = self.lane(*link, number);
        }
        self.ways[base + route.len()] = NONE;
        if limit.is_finite() { self.pace(slot, now, queue) } else { self.offer(slot, now, queue) }
    }

    /// The lane of a link where messages begin.
    fn source(&mut self, link: u32) -> u32 {
        if self.sources[link as usize] == NONE {
            self.sources[link as usize] = self.beside(link);
            self.lanes.last_mut().expect("just made").source = true;
        }
        self.sources[link as usize]
    }

    /// The lane of a link with a number.
    fn lane(&mut self, link: u32, number: u32) -> u32 {
        if number == 0 {
            return link;
        }
        if let Some(known) = self.higher.get(&(link, number)) {
            return *known;
        }
        let made = self.beside(link);
        self.higher.insert((link, number), made);
        made
    }

    /// One more lane of a link.
    fn beside(&mut self, link: u32) -> u32 {
        let made = self.lanes.len() as u32;
        let beside = std::mem::replace(&mut self.lanes[link as usize].beside, made);
        self.lanes.push(Lane::new(link, beside, self.packing.buffer));
        made
    }

    /// The next packet of a message with a limit is there once its bytes have come at that rate.
    fn pace(&mut self, slot: u32, now: Time, queue: &mut Queue) -> Result<(), RunError> {
        let message = &mut self.messages[slot as usize];
        message.given += message.left.min(u64::from(self.packing.payload));
        let at = later(message.since, (message.given as f64 / message.limit).round() as Time)?;
        queue.add(at.max(now), Event::Paced(slot));
        Ok(())
    }

    /// A message has a packet to send.
    pub(super) fn offer(&mut self, slot: u32, now: Time, queue: &mut Queue) -> Result<(), RunError> {
        let lane = self.messages[slot as usize].lane;
        let messages = &mut self.messages;
        let alone = self.lanes[lane as usize].waiting.first == NONE;
        self.lanes[lane as usize].waiting.add(slot, |last, name| messages[last as usize].next = name);
        if alone { self.come(lane, now, queue) } else { Ok(()) }
    }

    /// A packet is wholly at the end of a link.
    pub(super) fn hop(&mut self, packet: u32, now: Time, queue: &mut Queue) -> Result<(), RunError> {
        let lane = self.ways[self.packets[packet as usize].at as usize];
        let packets = &mut self.packets;
        packets[packet as usize].next = NONE;
        let alone = self.lanes[lane as usize].waiting.first == NONE;
        self.lanes[lane as usize].waiting.add(packet, |last, name| packets[last as usize].next = name);
        if alone { self.come(lane, now, queue) } else { Ok(()) }
    }

    /// A lane that was empty is so no more.
    fn come(&mut self, lane: u32, now: Time, queue: &mut Queue) -> Result<(), RunError> {
        let link = &mut self.links[self.lanes[lane as usize].link as usize];
        if link.told {
            return Ok(());
        }
        if link.free > now {
            link.told = true;
            queue.add(link.free, Event::Left(self.lanes[lane as usize].link));
            return Ok(());
        }
        self.attempt(lane, now, queue).map(|_| ())
    }

    /// A packet has left a link.
    pub(super) fn left(&mut self, link: u32, now: Time, queue: &mut Queue) -> Result<(), RunError> {
        self.links[link as usize].told = false;
        self.settle(link);
        // who waits for room gets it first
        let lane = self.links[link as usize].turn;
        while self.lanes[lane as usize].asking.first != NONE {
            let asks = self.lanes[lane as usize].asking.first;
            let (wire, _) = self.head(asks);
            let target = &mut self.lanes[lane as usize];
            if target.room < wire {
                break;
            }
            target.room -= wire;
            if asks & MESSAGE == 0 {
                let asking = &mut self.lanes[asks as usize];
                (asking.held, asking.granted) = (false, true);
                self.lanes[lane as usize].asking.first = self.lanes[asks as usize].behind;
                self.come(asks, now, queue)?;
                continue;
            }
            let slot = asks & !MESSAGE;
            let message = &mut self.messages[slot as usize];
            target.asking.first = message.next;
            (message.granted, message.next) = (true, NONE);
            let crowd = (message.lane, lane);
            if let Some(others) = self.crowds.get_mut(&crowd) {
                let next = others.first;
                if next == NONE {
                    self.crowds.remove(&crowd);
                } else {
                    others.first = self.messages[next as usize].next;
                    self.ask(lane, next | MESSAGE);
                }
            }
            self.offer(slot, now, queue)?;
        }
        // then the link's own lanes, in turn
        let from = self.lanes[self.links[link as usize].turn as usize].beside;
        let mut at = from;
        loop {
            let (one, busy) = (&self.lanes[at as usize], &self.links[link as usize]);
            if busy.told || busy.free > now {
                return Ok(());
            }
            if one.waiting.first != NONE && !one.held && self.attempt(at, now, queue)? {
                return Ok(());
            }
            at = self.lanes[at as usize].beside;
            if at == from {
                return Ok(());
            }
        }
    }

    /// What a link sent last takes no room any more.
    fn settle(&mut self, link: u32) {
        let link = &mut self.links[link as usize];
        if link.serving != NONE {
            self.lanes[link.serving as usize].room += link.served;
            link.serving = NONE;
        }
    }

    /// Bytes on the wire of the next packet of a message, or of the first of a lane, and the lane it goes to.
    fn head(&self, who: u32) -> (u32, u32) {
        if who & MESSAGE == 0 {
            let packet = self.packets[self.lanes[who as usize].waiting.first as usize];
            return (packet.bytes + self.packing.header, self.ways[packet.at as usize + 1]);
        }
        let slot = (who & !MESSAGE) as usize;
        let bytes = self.messages[slot].left.min(u64::from(self.packing.payload)) as u32;
        (bytes + self.packing.header, self.ways[slot * self.stride + 1])
    }

    /// Send a packet of a lane, whose link is free, if there is room for it; whether there is.
    fn attempt(&mut self, lane: u32, now: Time, queue: &mut Queue) -> Result<bool, RunError> {
        if !self.lanes[lane as usize].source {
            let (wire, to) = self.head(lane);
            if to != NONE && !self.lanes[lane as usize].granted && !self.room(to, wire, lane, now, queue) {
                return Ok(false);
            }
            let packet = self.take(lane);
            self.send(lane, packet, wire, to, now, queue)?;
            return Ok(true);
        }
        while self.lanes[lane as usize].waiting.first != NONE {
            let slot = self.lanes[lane as usize].waiting.first;
            let (wire, to) = self.head(slot | MESSAGE);
            let message = &mut self.messages[slot as usize];
            self.lanes[lane as usize].waiting.first = message.next;
            if std::mem::replace(&mut message.granted, false) || to == NONE || self.room(to, wire, slot | MESSAGE, now, queue) {
                let packet = self.cut(slot, now, queue)?;
                self.send(lane, packet, wire, to, now, queue)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Take room in a lane, or wait for it.
    fn room(&mut self, lane: u32, wire: u32, asks: u32, now: Time, queue: &mut Queue) -> bool {
        let target = &mut self.lanes[lane as usize];
        let link = &mut self.links[target.link as usize];
        if target.asking.first == NONE {
            if link.serving == lane && link.free <= now {
                target.room += link.served;
                link.serving = NONE;
            }
            if target.room >= wire {
                target.room -= wire;
                return true;
            }
        }
        if link.serving == lane && !link.told {
            link.told = true;
            queue.add(link.free, Event::Left(target.link));
        }
        if asks & MESSAGE != 0 {
            let slot = asks & !MESSAGE;
            let messages = &mut self.messages;
            match self.crowds.entry((messages[slot as usize].lane, lane)) {
                Entry::Vacant(none) => none.insert(EMPTY),
                Entry::Occupied(others) => {
                    messages[slot as usize].next = NONE;
                    others.into_mut().add(slot, |last, name| messages[last as usize].next = name);
                    return false;
                }
            };
        }
        self.ask(lane, asks);
        false
    }

    /// Wait for room in a lane.
    fn ask(&mut self, lane: u32, asks: u32) {
        let mut asking = self.lanes[lane as usize].asking;
        asking.add(asks, |last, name| *self.behind(last) = name);
        self.lanes[lane as usize].asking = asking;
        *self.behind(asks) = NONE;
        if asks & MESSAGE == 0 {
            self.lanes[asks as usize].held = true;
        }
    }

    /// Who waits for room behind a lane or a message.
    fn behind(&mut self, who: u32) -> &mut u32 {
        if who & MESSAGE == 0 { &mut self.lanes[who as usize].behind } else { &mut self.messages[(who & !MESSAGE) as usize].next }
    }

    /// Send a packet of a lane.
    fn send(&mut self, lane: u32, packet: u32, wire: u32, to: u32, now: Time, queue: &mut Queue) -> Result<(), RunError> {
        let name = self.lanes[lane as usize].link;
        self.settle(name);
        let link = &mut self.links[name as usize];
        let kind = &self.kinds[link.kind as usize];
        let takes = if wire == self.packing.payload + self.packing.header { kind.full } else { took(wire, kind.capacity) };
        let free = later(now, takes)?;
        let there = later(free, kind.latency)?;
        (link.free, link.turn) = (free, lane);
        link.carried += u64::from(wire);
        let one = &self.lanes[lane as usize];
        if !one.source {
            (link.serving, link.served) = (lane, wire);
        }
        let mut more = one.waiting.first != NONE || one.asking.first != NONE;
        let mut other = one.beside;
        while !more && other != lane {
            let one = &self.lanes[other as usize];
            more = one.waiting.first != NONE && !one.held;
            other = one.beside;
        }
        link.told = more;
        if more {
            queue.add(free, Event::Left(name));
        }
        let here = &mut self.packets[packet as usize];
        if to != NONE {
            here.at += 1;
            queue.add(there, Event::Hop(packet));
            return Ok(());
        }
        if here.ends != NONE {
            queue.add(there, Event::Arrive(self.messages[here.ends as usize].name));
            self.idle.push(here.ends);
        }
        here.next = std::mem::replace(&mut self.spare, packet);
        Ok(())
    }

    /// Take the first packet out of a lane.
    fn take(&mut self, lane: u32) -> u32 {
        let one = &mut self.lanes[lane as usize];
        one.granted = false;
        let packet = one.waiting.first;
        one.waiting.first = self.packets[packet as usize].next;
        packet
    }

    /// Cut a packet from a message, which then goes to the end of its lane.
    fn cut(&mut self, slot: u32, now: Time, queue: &mut Queue) -> Result<u32, RunError> {
        let message = &mut self.messages[slot as usize];
        let bytes = message.left.min(u64::from(self.packing.payload)) as u32;
        message.left -= u64::from(bytes);
        let (left, limited, lane) = (message.left, message.limit.is_finite(), message.lane);
        message.next = NONE;
        if left > 0 && limited {
            self.pace(slot, now, queue)?;
        } else if left > 0 {
            let messages = &mut self.messages;
            self.lanes[lane as usize].waiting.add(slot, |last, name| messages[last as usize].next = name);
        }
        let packet = Packet { next: NONE, at: (slot as usize * self.stride) as u32, bytes, ends: if left == 0 { slot } else { NONE } };
        let place = self.spare;
        if let Some(free) = self.packets.get_mut(place as usize) {
            self.spare = free.next;
            *free = packet;
            return Ok(place);
        }
        self.packets.push(packet);
        Ok(self.packets.len() as u32 - 1)
    }

    /// Bytes that each link has carried, headers among them.
    pub(super) fn carried(&self) -> Vec<f64> {
        self.links.iter().map(|l| l.carried as f64).collect()
    }

    /// Whether every message that began has been sent whole.
    pub(super) fn empty(&self) -> bool {
        self.idle.len() == self.messages.len()
    }
}

impl Lane {
    fn new(link: u32, beside: u32, room: u32) -> Self {
        Self { link, beside, waiting: EMPTY, room, asking: EMPTY, behind: NONE, source: false, held: false, granted: false }
    }
}

/// Time of bytes at a bandwidth, whole picoseconds.
fn took(bytes: u32, capacity: f64) -> Time {
    (f64::from(bytes) / capacity).round() as Time
}

fn later(time: Time, by: Time) -> Result<Time, RunError> {
    time.checked_add(by).filter(|t| *t < 1 << 63).ok_or(RunError::Value)
}

#[cfg(test)]
mod tests;
