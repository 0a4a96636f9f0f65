//! The replay itself: processes go on until they must wait; what they wait for is an event.

use std::collections::BTreeMap;

use super::fluid::Fluid;
use super::network::{Fidelity, Network};
use super::packet::Packets;
use super::queue::{Event, Queue};
use super::{Leaves, Messages, Op, Program, RunError, Time};

/// What came out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// End of each process [ps].
    pub ends: Vec<Time>,
    /// When each message began to leave, and arrived [ps]; empty unless asked for.
    pub began: Vec<Time>,
    /// Arrival of each message [ps].
    pub arrived: Vec<Time>,
    /// When each operation was done [ps]; empty unless asked for.
    pub done: Vec<Time>,
    /// Bytes each link carried (flow, packet).
    pub carried: Vec<f64>,
    /// Time each process waited for messages or resources [ps].
    pub waited: Vec<Time>,
    /// Events dealt with.
    pub events: u64,
}

/// Events and rates between two questions whether to stop.
const BETWEEN_QUESTIONS: usize = 1 << 20;
/// No message, no process.
const NONE: u32 = u32::MAX;

/// A message on its way: bits of what has happened to it.
mod state {
    pub const SENT: u8 = 1;
    pub const POSTED: u8 = 2;
    pub const ARRIVED: u8 = 4;
    pub const FREE: u8 = 8;
}

struct Process {
    next: u32,
    now: Time,
    waited: Time,
    /// Since when, and for which message, it waits.
    held: u32,
}

struct Resource {
    room: u32,
    /// Who waits: rank, order of coming; process, and for how long it wants it, or until it gives it back.
    queue: BTreeMap<(u32, u64), (u32, Option<Time>)>,
}

struct Engine<'a> {
    program: Program<'a>,
    messages: Messages<'a>,
    network: &'a Network,
    queue: Queue,
    processes: Vec<Process>,
    resources: Vec<Resource>,
    state: Vec<u8>,
    fluid: Fluid,
    /// Messages that a drain ends; empty between events.
    ended: Vec<u32>,
    packets: Packets,
    /// When each card is free to send, and to receive.
    out: Vec<Time>,
    into: Vec<Time>,
    /// Whether one process only sends through a card.
    alone: Vec<bool>,
    /// How many messages of a card may come to it at a time that is not known yet: sent and not posted, or delayed.
    open: Vec<u32>,
    route: Vec<u32>,
    /// Whoever came to a resource so far.
    came: u64,
    outcome: Outcome,
    traced: bool,
}

/// Replay a program.
///
/// Parameters: `traced` keeps the time of every message and operation; `stop` is told the share of operations done, and asked, now and then.
///
/// # Errors
/// See [`RunError`].
pub fn run(
    program: Program<'_>,
    messages: Messages<'_>,
    network: &Network,
    traced: bool,
    stop: &dyn Fn(f64) -> bool,
) -> Result<Outcome, RunError> {
    check(&program, &messages, network)?;
    let count = program.place.len();
    let ports = network.ports() as usize;
    let mut engine = Engine {
        queue: Queue::default(),
        processes: (0..count).map(|p| Process { next: program.first[p], now: 0, waited: 0, held: NONE }).collect(),
        resources: program.capacity.iter().map(|room| Resource { room: *room, queue: BTreeMap::new() }).collect(),
        state: vec![0; messages.from.len()],
        fluid: Fluid::new((0..network.links()).map(|l| network.capacity(l))),
        ended: Vec::new(),
        packets: Packets::new(network.packing, std::iter::empty()),
        out: vec![0; ports],
        into: vec![0; ports],
        open: vec![0; ports],
        alone: Vec::new(),
        route: Vec::new(),
        came: 0,
        outcome: Outcome {
            began: vec![0; if traced { messages.from.len() } else { 0 }],
            arrived: vec![0; if traced { messages.from.len() } else { 0 }],
            done: vec![0; if traced { program.code.len() } else { 0 }],
            ..Outcome::default()
        },
        program,
        messages,
        network,
        traced,
    };
    engine.alone = engine.alone();
    if network.fidelity == Fidelity::Packet {
        engine.packets = engine.packets();
    }
    for process in 0..count {
        engine.queue.add(0, Event::Go(process as u32));
    }
    engine.all(stop)?;
    engine.finish()
}

impl Engine<'_> {
    fn all(&mut self, stop: &dyn Fn(f64) -> bool) -> Result<(), RunError> {
        let mut done = 0_usize;
        while let Some((now, event)) = self.queue.next() {
            done += 1;
            if done >= BETWEEN_QUESTIONS {
                done = 0;
                if stop(self.share()) {
                    return Err(RunError::Stopped);
                }
            }
            match event {
                Event::Go(process) => self.go(process, now)?,
                Event::Offer(message) => {
                    let m = message as usize;
                    self.state[m] |= state::SENT;
                    let eager = self.messages.leaves[m] == Leaves::Eager as u8;
                    // a rendezvous that is announced or pinned first has been counted since it was sent
                    let counted = self.network.handshake && !eager || self.pinned(message) > 0;
                    if eager || self.state[m] & state::POSTED != 0 {
                        if counted {
                            self.held_back(message, -1);
                        }
                        self.ready(message, now)?;
                    } else if !counted {
                        self.held_back(message, 1);
                    }
                }
                Event::Leave(message) => {
                    self.held_back(message, -1);
                    self.leave(message, now)?;
                }
                Event::Reach(message) => self.reach(message, now)?,
                Event::Arrive(message) => self.arrive(message, now)?,
                Event::Enter(message) => {
                    let m = message as usize;
                    let (start, end) = self.ends_of(message);
                    self.network.route(start, end, &mut self.route);
                    let limit = self.limit(message);
                    if self.network.fidelity == Fidelity::Packet {
                        self.packets.begin(message, self.messages.bytes[m], &self.route, limit, now, &mut self.queue)?;
                    } else {
                        self.fluid.begin(message, self.messages.bytes[m] as f64, &self.route, limit, now);
                    }
                }
                Event::Hop(packet) => self.packets.hop(packet, now, &mut self.queue)?,
                Event::Left(link) => self.packets.left(link, now, &mut self.queue)?,
                Event::Paced(slot) => self.packets.offer(slot, now, &mut self.queue)?,
                Event::Drain(slot, version) => {
                    let mut ended = std::mem::take(&mut self.ended);
                    self.fluid.end(slot, version, now, |message| ended.push(message));
                    for message in ended.drain(..) {
                        self.arrive(message, now)?;
                    }
                    self.ended = ended;
                }
                Event::Free(resource) => self.free(resource, now)?,
            }
            // flows that begin and end at one instant are settled together
            if self.fluid.stale() && !self.queue.more() {
                let queue = &mut self.queue;
                let mut sound = true;
                self.fluid.settle(now, |slot, version, at| {
                    sound &= at < 1 << 63;
                    queue.add(at, Event::Drain(slot, version));
                });
                if !sound {
                    return Err(RunError::Value);
                }
                done += self.fluid.solved();
                // every new rate leaves an end behind that no longer holds
                let fluid = &self.fluid;
                self.queue.thin(|event| !matches!(event, Event::Drain(slot, version) if !fluid.holds(*slot, *version)));
            }
        }
        Ok(())
    }

    /// Share of the operations done.
    fn share(&self) -> f64 {
        let done: u64 = self.processes.iter().zip(self.program.first).map(|(p, first)| u64::from(p.next - first)).sum();
        done as f64 / self.program.code.len().max(1) as f64
    }

    /// Places between which a message goes.
    fn ends_of(&self, message: u32) -> (u32, u32) {
        let m = message as usize;
        let at = |given: &[u32], process: u32| given.get(m).copied().unwrap_or_else(|| self.program.place[process as usize]);
        (at(self.messages.start, self.messages.from[m]), at(self.messages.end, self.messages.to[m]))
    }

    /// What the processor pays for a message at one end [ps]; nothing for a copy between two places that its process has made.
    fn overhead(&self, message: u32, each: Time) -> Time {
        let m = message as usize;
        let (process, other) = (self.messages.from[m], self.messages.to[m]);
        let place = self.program.place[process as usize];
        if process == other && self.ends_of(message) != (place, place) {
            return 0;
        }
        each.saturating_add(scaled(self.network.logp.overhead_per_byte, self.messages.bytes[m]))
    }

    /// What a message never goes faster than [B/ps].
    fn limit(&self, message: u32) -> Option<f64> {
        self.messages.limit.get(message as usize).copied().filter(|l| l.is_finite())
    }

    /// The card that a message leaves by, or none where it stays on its node.
    fn port(&self, message: u32) -> Option<usize> {
        let (start, end) = self.ends_of(message);
        self.network.port(start, end).map(|p| p as usize)
    }

    /// One more, or one less, message that is sent and not posted.
    fn held_back(&mut self, message: u32, by: i32) {
        if let Some(port) = self.port(message) {
            self.open[port] = self.open[port].wrapping_add_signed(by);
        }
    }

    /// Whether one process only sends through each card.
    fn alone(&self) -> Vec<bool> {
        let mut by = vec![NONE; self.out.len()];
        let mut alone = vec![true; self.out.len()];
        for message in 0..self.messages.from.len() as u32 {
            let m = message as usize;
            if self.messages.leaves[m] == Leaves::Edge as u8 {
                continue;
            }
            if let Some(port) = self.port(message) {
                let process = self.messages.from[m];
                alone[port] &= by[port] == NONE || by[port] == process;
                by[port] = process;
            }
        }
        alone
    }

    /// The network for packets, which knows all routes that they will take.
    fn packets(&self) -> Packets {
        let network = self.network;
        let mut made = Packets::new(network.packing, (0..network.links()).map(|l| (network.capacity(l), network.latency(l))));
        let (mut known, mut route) = (std::collections::HashSet::new(), Vec::new());
        for message in 0..self.messages.from.len() as u32 {
            let (start, end) = self.ends_of(message);
            if self.messages.leaves[message as usize] != Leaves::Edge as u8 && known.insert((start, end)) {
                network.route(start, end, &mut route);
                made.learn(&route);
            }
        }
        made.ready(|link| network.rises(link));
        made
    }

    /// Run a process until it must wait.
    fn go(&mut self, process: u32, now: Time) -> Result<(), RunError> {
        let p = process as usize;
        let mut time = now;
        let last = self.program.first[p + 1];
        let logp = &self.network.logp;
        while self.processes[p].next < last {
            let at = self.processes[p].next as usize;
            let arg = self.program.arg[at];
            // what others see of it must not run ahead of them
            let op = Op::from_code(self.program.code[at]).ok_or(RunError::Unknown(process, at as u32))?;
            let outward = !matches!(op, Op::Work);
            if outward && time > now {
                self.queue.add(time, Event::Go(process));
                return Ok(());
            }
            match op {
                Op::Work => time = later(time, self.program.durations[arg as usize])?,
                Op::Use => {
                    self.processes[p].next += 1;
                    self.request(process, arg, Some(self.program.takes[arg as usize]), time)?;
                    return Ok(());
                }
                Op::Take => {
                    self.processes[p].next += 1;
                    self.request(process, arg, None, time)?;
                    return Ok(());
                }
                Op::Give => self.free(self.program.resource[arg as usize], time)?,
                Op::Send => {
                    let m = arg as usize;
                    if self.messages.leaves[m] == Leaves::Edge as u8 {
                        self.queue.add(later(time, self.messages.bytes[m])?, Event::Arrive(arg));
                    } else {
                        time = later(time, self.overhead(arg, logp.send_overhead))?;
                        let eager = self.messages.leaves[m] == Leaves::Eager as u8;
                        if eager {
                            self.state[m] |= state::FREE;
                        }
                        let ready = eager || self.state[m] & state::POSTED != 0;
                        let port = self.port(arg);
                        let handshake = self.network.handshake && !eager;
                        let pinned = self.pinned(arg);
                        // until the overhead is paid no receive sees it as sent, and other messages of the card may use it
                        if handshake || pinned > 0 {
                            let told = if handshake { self.told(arg, false) } else { 0 };
                            self.held_back(arg, 1);
                            self.queue.add(later(time, pinned.saturating_add(told))?, Event::Offer(arg));
                        } else if time > now && !(ready && port.is_some_and(|c| self.alone[c] && self.open[c] == 0)) {
                            self.queue.add(time, Event::Offer(arg));
                        } else {
                            self.state[m] |= state::SENT;
                            if ready {
                                self.ready(arg, time)?;
                            } else {
                                self.held_back(arg, 1);
                            }
                        }
                    }
                }
                Op::Post => {
                    let m = arg as usize;
                    self.state[m] |= state::POSTED;
                    if self.messages.leaves[m] == Leaves::Ready as u8 && self.state[m] & state::SENT != 0 {
                        self.held_back(arg, -1);
                        self.ready(arg, time)?;
                    }
                }
                Op::Await | Op::Sent => {
                    let wanted = if op == Op::Await { state::ARRIVED } else { state::FREE };
                    if self.state[arg as usize] & wanted == 0 {
                        self.processes[p].held = arg;
                        self.processes[p].now = time;
                        return Ok(());
                    }
                    if op == Op::Await && self.messages.leaves[arg as usize] != Leaves::Edge as u8 {
                        time = later(time, self.overhead(arg, logp.receive_overhead))?;
                    }
                }
            }
            if self.traced {
                self.outcome.done[at] = time;
            }
            self.processes[p].next += 1;
        }
        self.processes[p].now = time;
        Ok(())
    }

    /// What the sender, or the receiver, is told of a message arrives after so long [ps].
    fn told(&mut self, message: u32, back: bool) -> Time {
        let (start, end) = self.ends_of(message);
        let (from, to) = if back { (end, start) } else { (start, end) };
        self.network.told(from, to, &mut self.route)
    }

    /// How long the sender of a rendezvous pins its buffer before it offers the message, also while the receiver is late [ps].
    fn pinned(&self, message: u32) -> Time {
        let m = message as usize;
        if self.messages.leaves[m] == Leaves::Ready as u8 { self.messages.delay.get(m).copied().unwrap_or(0) } else { 0 }
    }

    /// A message may leave: an eager one once its buffer is pinned, a rendezvous once the receiver's answer is told.
    fn ready(&mut self, message: u32, now: Time) -> Result<(), RunError> {
        let m = message as usize;
        let rendezvous = self.messages.leaves[m] == Leaves::Ready as u8;
        let mut delay = if rendezvous { 0 } else { self.messages.delay.get(m).copied().unwrap_or(0) };
        if self.network.handshake && rendezvous {
            delay = self.told(message, true);
        }
        if delay == 0 {
            return self.leave(message, now);
        }
        self.held_back(message, 1);
        self.queue.add(later(now, delay)?, Event::Leave(message));
        Ok(())
    }

    /// A message begins to leave its place.
    fn leave(&mut self, message: u32, now: Time) -> Result<(), RunError> {
        let m = message as usize;
        let (start, end) = self.ends_of(message);
        if self.traced {
            self.outcome.began[m] = now;
        }
        match self.network.fidelity {
            Fidelity::Flow => {
                let latency = self.network.route(start, end, &mut self.route);
                if self.messages.bytes[m] == 0 || self.route.is_empty() && self.limit(message).is_none() {
                    self.queue.add(later(now, latency)?, Event::Arrive(message));
                } else {
                    self.queue.add(later(now, latency)?, Event::Enter(message));
                }
            }
            Fidelity::Packet => {
                let latency = self.network.route(start, end, &mut self.route);
                if self.route.is_empty() {
                    // from one place to the same, no link on the way
                    let limit = self.limit(message).unwrap_or(f64::INFINITY);
                    let takes = scaled(1.0 / limit, self.messages.bytes[m]);
                    self.queue.add(later(now, latency.saturating_add(takes))?, Event::Arrive(message));
                } else {
                    // its links are shared from the moment on at which it begins, which may be ahead of what others do
                    self.queue.add(now, Event::Enter(message));
                }
            }
            Fidelity::LogP => {
                let Some(port) = self.network.port(start, end) else {
                    let latency = self.network.route(start, end, &mut self.route);
                    let limit = self.limit(message).unwrap_or(f64::INFINITY);
                    let takes = scaled(1.0 / self.network.narrowest(&self.route).min(limit), self.messages.bytes[m]);
                    self.queue.add(later(now, latency.saturating_add(takes))?, Event::Arrive(message));
                    return Ok(());
                };
                let logp = &self.network.logp;
                let takes = scaled(logp.per_byte, self.messages.bytes[m]);
                let begin = now.max(self.out[port as usize]);
                self.out[port as usize] = later(begin, logp.gap.saturating_add(takes))?;
                self.queue.add(later(begin, logp.latency)?, Event::Reach(message));
            }
        }
        Ok(())
    }

    /// The first byte reaches the receiver's card, which takes one message at a time.
    fn reach(&mut self, message: u32, now: Time) -> Result<(), RunError> {
        let m = message as usize;
        let (start, end) = self.ends_of(message);
        let Some(to) = self.network.port(end, start).map(|p| p as usize) else { return Ok(()) };
        let logp = &self.network.logp;
        let takes = scaled(logp.per_byte, self.messages.bytes[m]);
        let begin = now.max(self.into[to]);
        self.into[to] = later(begin, logp.gap.saturating_add(takes))?;
        self.queue.add(later(begin, takes)?, Event::Arrive(message));
        Ok(())
    }

    /// A message has arrived: whoever waits for it goes on.
    fn arrive(&mut self, message: u32, now: Time) -> Result<(), RunError> {
        let m = message as usize;
        self.state[m] |= state::ARRIVED | state::FREE;
        if self.traced {
            self.outcome.arrived[m] = now;
        }
        for process in [self.messages.to[m], self.messages.from[m]] {
            let p = &mut self.processes[process as usize];
            if p.held == message {
                p.held = NONE;
                p.waited += now - p.now.min(now);
                if p.now > now {
                    let at = p.now;
                    self.queue.add(at, Event::Go(process));
                } else {
                    self.go(process, now)?;
                }
            }
        }
        Ok(())
    }

    /// A process wants the resource of a use, for a time or until it gives it back.
    fn request(&mut self, process: u32, using: u32, takes: Option<Time>, now: Time) -> Result<(), RunError> {
        let resource = self.program.resource[using as usize];
        let served = &mut self.resources[resource as usize];
        if served.room > 0 {
            served.room -= 1;
            self.serve(process, resource, takes, now)
        } else {
            self.processes[process as usize].now = now;
            let rank = self.program.rank.get(using as usize).copied().unwrap_or(0);
            served.queue.insert((rank, self.came), (process, takes));
            self.came += 1;
            Ok(())
        }
    }

    fn serve(&mut self, process: u32, resource: u32, takes: Option<Time>, now: Time) -> Result<(), RunError> {
        let end = later(now, takes.unwrap_or(0))?;
        if self.traced {
            self.outcome.done[self.processes[process as usize].next as usize - 1] = end;
        }
        if takes.is_some() {
            self.queue.add(end, Event::Free(resource));
        }
        self.queue.add(end, Event::Go(process));
        Ok(())
    }

    fn free(&mut self, resource: u32, now: Time) -> Result<(), RunError> {
        let served = &mut self.resources[resource as usize];
        if let Some((_, (process, takes))) = served.queue.pop_first() {
            let p = &mut self.processes[process as usize];
            p.waited += now - p.now;
            self.serve(process, resource, takes, now)
        } else {
            served.room += 1;
            Ok(())
        }
    }

    /// Processes that cannot go on, for whom each waits, and at which operation: for who has not sent, or not made room, or keeps what is wanted.
    ///
    /// The members of a circle come first, in order.
    fn stuck(&self) -> Vec<(u32, u32, u32)> {
        let count = self.processes.len();
        // whoever wants a resource stands behind the operation that asks for it
        let mut wants = vec![NONE; count];
        for (resource, one) in self.resources.iter().enumerate() {
            one.queue.values().for_each(|(process, _)| wants[*process as usize] = resource as u32);
        }
        let mut keeper = vec![NONE; self.resources.len()];
        for (p, process) in self.processes.iter().enumerate() {
            let mut kept = std::collections::BTreeSet::new();
            for at in self.program.first[p]..process.next - u32::from(wants[p] != NONE) {
                let of = || self.program.resource[self.program.arg[at as usize] as usize];
                match Op::from_code(self.program.code[at as usize]) {
                    Some(Op::Take) => _ = kept.insert(of()),
                    Some(Op::Give) => _ = kept.remove(&of()),
                    _ => {}
                }
            }
            kept.into_iter().for_each(|resource| keeper[resource as usize] = p as u32);
        }
        let waits_for = |p: usize| {
            let process = &self.processes[p];
            if wants[p] != NONE {
                return keeper[wants[p] as usize];
            }
            let m = process.held as usize;
            match (process.next < self.program.first[p + 1], self.state.get(m)) {
                (true, Some(state)) if state & state::SENT == 0 => self.messages.from[m],
                (true, Some(_)) => self.messages.to[m],
                _ => NONE,
            }
        };
        let next: Vec<u32> = (0..count).map(waits_for).collect();
        let mut seen = vec![NONE; count];
        let mut circle = Vec::new();
        for start in 0..count {
            let mut at = start;
            while next[at] != NONE && seen[at] == NONE {
                seen[at] = start as u32;
                at = next[at] as usize;
            }
            if next[at] != NONE && seen[at] == start as u32 {
                let first = at;
                loop {
                    circle.push((at as u32, next[at]));
                    at = next[at] as usize;
                    if at == first {
                        break;
                    }
                }
                break;
            }
        }
        let inside: std::collections::BTreeSet<u32> = circle.iter().map(|(p, _)| *p).collect();
        circle.extend((0..count as u32).map(|p| (p, next[p as usize])).filter(|(p, q)| *q != NONE && !inside.contains(p)));
        let at = |p: u32| self.processes[p as usize].next - u32::from(wants[p as usize] != NONE);
        circle.into_iter().map(|(p, q)| (p, q, at(p))).collect()
    }

    fn finish(mut self) -> Result<Outcome, RunError> {
        let stuck = self.stuck();
        if !stuck.is_empty() {
            return Err(RunError::Deadlock(stuck));
        }
        self.outcome.ends = self.processes.iter().map(|p| p.now).collect();
        self.outcome.waited = self.processes.iter().map(|p| p.waited).collect();
        debug_assert!(self.packets.empty(), "packets wait for each other");
        self.outcome.carried = match self.network.fidelity {
            Fidelity::LogP => Vec::new(),
            Fidelity::Flow => self.fluid.carried(),
            Fidelity::Packet => self.packets.carried(),
        };
        self.outcome.events = self.queue.added();
        Ok(self.outcome)
    }
}

fn later(time: Time, by: Time) -> Result<Time, RunError> {
    time.checked_add(by).filter(|t| *t < 1 << 63).ok_or(RunError::Value)
}

fn scaled(per_byte: f64, bytes: u64) -> Time {
    (per_byte * bytes as f64).round() as Time
}

fn check(program: &Program<'_>, messages: &Messages<'_>, network: &Network) -> Result<(), RunError> {
    let (processes, count) = (program.place.len(), messages.from.len());
    if program.first.len() != processes + 1
        || program.code.len() != program.arg.len()
        || *program.first.last().unwrap_or(&1) as usize != program.code.len()
        || program.first.first() != Some(&0)
        || program.first.windows(2).any(|w| w[0] > w[1])
        || [messages.to.len(), messages.bytes.len(), messages.leaves.len()].iter().any(|n| *n != count)
    {
        return Err(RunError::Lengths);
    }
    if !(messages.limit.is_empty() || messages.limit.len() == count) || !(messages.delay.is_empty() || messages.delay.len() == count) {
        return Err(RunError::Lengths);
    }
    if messages.limit.iter().any(|l| l.is_nan() || *l <= 0.0) {
        return Err(RunError::Value);
    }
    let places = network.places();
    let placed = |given: &[u32]| given.is_empty() || given.len() == count;
    if !placed(messages.start) || !placed(messages.end) || program.takes.len() != program.resource.len() {
        return Err(RunError::Lengths);
    }
    if !program.rank.is_empty() && program.rank.len() != program.resource.len() {
        return Err(RunError::Lengths);
    }
    if network.fidelity == Fidelity::Packet && !network.packing.sound() {
        return Err(RunError::Value);
    }
    if program.capacity.contains(&0) || [program.place, messages.start, messages.end].iter().any(|p| p.iter().any(|p| *p >= places)) {
        return Err(RunError::Value);
    }
    let known = |process: u32| (process as usize) < processes;
    if let Some(bad) = (0..count).find(|m| !known(messages.from[*m]) || !known(messages.to[*m]) || messages.leaves[*m] > 2) {
        return Err(RunError::Message(bad as u32));
    }
    for m in (0..count).filter(|m| messages.leaves[*m] != Leaves::Edge as u8) {
        let at = |given: &[u32], process: u32| given.get(m).copied().unwrap_or_else(|| program.place[process as usize]);
        if !network.joined(at(messages.start, messages.from[m]), at(messages.end, messages.to[m])) {
            return Err(RunError::Unreached);
        }
    }
    // a message is sent, posted and awaited once
    let mut seen = vec![0_u8; count];
    let mut held = std::collections::BTreeSet::new();
    for process in 0..processes {
        held.clear();
        for at in program.first[process]..program.first[process + 1] {
            let (arg, unknown) = (program.arg[at as usize] as usize, RunError::Unknown(process as u32, at));
            let fits = match Op::from_code(program.code[at as usize]) {
                None => false,
                Some(Op::Work) => arg < program.durations.len(),
                Some(Op::Use | Op::Take | Op::Give) => program.resource.get(arg).is_some_and(|r| (*r as usize) < program.capacity.len()),
                Some(Op::Send | Op::Sent) => arg < count && messages.from[arg] as usize == process,
                Some(Op::Post | Op::Await) => arg < count && messages.to[arg] as usize == process,
            };
            if !fits {
                return Err(unknown);
            }
            let once = match Op::from_code(program.code[at as usize]) {
                Some(Op::Send) => state::SENT,
                Some(Op::Post) => state::POSTED,
                Some(Op::Await) => state::ARRIVED,
                Some(Op::Take | Op::Use) if held.contains(&program.resource[arg]) => return Err(RunError::Held(process as u32)),
                Some(Op::Take) => {
                    held.insert(program.resource[arg]);
                    continue;
                }
                Some(Op::Give) if !held.remove(&program.resource[arg]) => return Err(RunError::Held(process as u32)),
                _ => continue,
            };
            if seen[arg] & once != 0 {
                return Err(RunError::Message(arg as u32));
            }
            seen[arg] |= once;
        }
        if !held.is_empty() {
            return Err(RunError::Held(process as u32));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
