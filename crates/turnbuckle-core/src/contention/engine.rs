//! The replay itself: processes go on until they must wait; what they wait for is an event.

use super::fluid::Fluid;
use super::network::{Fidelity, Network};
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
    /// Bytes each link carried (flow).
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
    queue: std::collections::VecDeque<(u32, Time)>,
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
    /// When each host's card is free to send, and to receive.
    out: Vec<Time>,
    into: Vec<Time>,
    /// Whether a host has one process only.
    alone: Vec<bool>,
    /// How many messages of a host are sent and not posted: their receivers decide when they go to its card.
    open: Vec<u32>,
    route: Vec<u32>,
    outcome: Outcome,
    traced: bool,
}

/// Replay a program.
///
/// Parameters: `traced` keeps the time of every message and operation; `stop` is asked now and then.
///
/// # Errors
/// See [`RunError`].
pub fn run(
    program: Program<'_>,
    messages: Messages<'_>,
    network: &Network,
    traced: bool,
    stop: &dyn Fn() -> bool,
) -> Result<Outcome, RunError> {
    check(&program, &messages, network)?;
    let count = program.host.len();
    let mut on_host = vec![0_u32; network.hosts as usize];
    for host in program.host {
        on_host[*host as usize] += 1;
    }
    let mut engine = Engine {
        queue: Queue::default(),
        processes: (0..count).map(|p| Process { next: program.first[p], now: 0, waited: 0, held: NONE }).collect(),
        resources: program.capacity.iter().map(|room| Resource { room: *room, queue: std::collections::VecDeque::new() }).collect(),
        state: vec![0; messages.from.len()],
        fluid: Fluid::new((0..network.links()).map(|l| network.capacity(l))),
        out: vec![0; network.hosts as usize],
        into: vec![0; network.hosts as usize],
        open: vec![0; network.hosts as usize],
        alone: on_host.iter().map(|n| *n <= 1).collect(),
        route: Vec::new(),
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
    for process in 0..count {
        engine.queue.add(0, Event::Go(process as u32));
    }
    engine.all(stop)?;
    engine.finish()
}

impl Engine<'_> {
    fn all(&mut self, stop: &dyn Fn() -> bool) -> Result<(), RunError> {
        let mut done = 0_usize;
        while let Some((now, event)) = self.queue.next() {
            done += 1;
            if done >= BETWEEN_QUESTIONS {
                done = 0;
                if stop() {
                    return Err(RunError::Stopped);
                }
            }
            match event {
                Event::Go(process) => self.go(process, now)?,
                Event::Offer(message) => {
                    let m = message as usize;
                    self.state[m] |= state::SENT;
                    if self.messages.leaves[m] == Leaves::Eager as u8 || self.state[m] & state::POSTED != 0 {
                        self.leave(message, now)?;
                    } else {
                        let host = self.host(self.messages.from[m]) as usize;
                        self.open[host] += 1;
                    }
                }
                Event::Reach(message) => self.reach(message, now)?,
                Event::Arrive(message) => self.arrive(message, now)?,
                Event::Enter(message) => {
                    let m = message as usize;
                    self.network.route(self.host(self.messages.from[m]), self.host(self.messages.to[m]), &mut self.route);
                    let limit = self.messages.limit.get(m).copied();
                    self.fluid.begin(message, self.messages.bytes[m] as f64, &self.route, limit, now);
                }
                Event::Drain(slot, version) => {
                    if let Some(message) = self.fluid.end(slot, version) {
                        self.arrive(message, now)?;
                    }
                }
                Event::Free(resource) => self.free(resource, now)?,
            }
            // flows that begin and end at one instant are settled together
            if self.fluid.stale() && self.queue.due() != Some(now) {
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

    fn host(&self, process: u32) -> u32 {
        self.program.host[process as usize]
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
                    let (resource, takes) = self.program.uses[arg as usize];
                    self.processes[p].next += 1;
                    self.request(process, resource, takes, time)?;
                    return Ok(());
                }
                Op::Send => {
                    let m = arg as usize;
                    if self.messages.leaves[m] == Leaves::Edge as u8 {
                        self.queue.add(later(time, self.messages.bytes[m])?, Event::Arrive(arg));
                    } else {
                        time = later(time, logp.send_overhead.saturating_add(scaled(logp.overhead_per_byte, self.messages.bytes[m])))?;
                        let eager = self.messages.leaves[m] == Leaves::Eager as u8;
                        if eager {
                            self.state[m] |= state::FREE;
                        }
                        let ready = eager || self.state[m] & state::POSTED != 0;
                        let host = self.program.host[p] as usize;
                        // until the overhead is paid no receive sees it as sent, and other messages of the host may use the card
                        if time > now && !(ready && self.alone[host] && self.open[host] == 0) {
                            self.queue.add(time, Event::Offer(arg));
                        } else {
                            self.state[m] |= state::SENT;
                            if ready {
                                self.leave(arg, time)?;
                            } else {
                                self.open[host] += 1;
                            }
                        }
                    }
                }
                Op::Post => {
                    let m = arg as usize;
                    self.state[m] |= state::POSTED;
                    if self.messages.leaves[m] == Leaves::Ready as u8 && self.state[m] & state::SENT != 0 {
                        let host = self.host(self.messages.from[m]) as usize;
                        self.open[host] -= 1;
                        self.leave(arg, time)?;
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
                        let each = scaled(logp.overhead_per_byte, self.messages.bytes[arg as usize]);
                        time = later(time, logp.receive_overhead.saturating_add(each))?;
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

    /// A message begins to leave its host.
    fn leave(&mut self, message: u32, now: Time) -> Result<(), RunError> {
        let m = message as usize;
        let (from, to) = (self.host(self.messages.from[m]), self.host(self.messages.to[m]));
        if self.traced {
            self.outcome.began[m] = now;
        }
        match self.network.fidelity {
            Fidelity::Flow => {
                let latency = self.network.route(from, to, &mut self.route);
                if self.messages.bytes[m] == 0 {
                    self.queue.add(later(now, latency)?, Event::Arrive(message));
                } else {
                    self.queue.add(later(now, latency)?, Event::Enter(message));
                }
            }
            Fidelity::LogP => {
                let logp = &self.network.logp;
                let takes = scaled(logp.per_byte, self.messages.bytes[m]);
                let begin = now.max(self.out[from as usize]);
                self.out[from as usize] = later(begin, logp.gap.saturating_add(takes))?;
                self.queue.add(later(begin, logp.latency)?, Event::Reach(message));
            }
        }
        Ok(())
    }

    /// The first byte reaches the receiver's card, which takes one message at a time.
    fn reach(&mut self, message: u32, now: Time) -> Result<(), RunError> {
        let m = message as usize;
        let to = self.host(self.messages.to[m]) as usize;
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

    fn request(&mut self, process: u32, resource: u32, takes: Time, now: Time) -> Result<(), RunError> {
        let served = &mut self.resources[resource as usize];
        if served.room > 0 {
            served.room -= 1;
            self.serve(process, resource, takes, now)
        } else {
            self.processes[process as usize].now = now;
            served.queue.push_back((process, takes));
            Ok(())
        }
    }

    fn serve(&mut self, process: u32, resource: u32, takes: Time, now: Time) -> Result<(), RunError> {
        let end = later(now, takes)?;
        if self.traced {
            self.outcome.done[self.processes[process as usize].next as usize - 1] = end;
        }
        self.queue.add(end, Event::Free(resource));
        self.queue.add(end, Event::Go(process));
        Ok(())
    }

    fn free(&mut self, resource: u32, now: Time) -> Result<(), RunError> {
        let served = &mut self.resources[resource as usize];
        if let Some((process, takes)) = served.queue.pop_front() {
            let p = &mut self.processes[process as usize];
            p.waited += now - p.now;
            self.serve(process, resource, takes, now)
        } else {
            served.room += 1;
            Ok(())
        }
    }

    fn finish(mut self) -> Result<Outcome, RunError> {
        let stuck: Vec<(u32, u32)> = self
            .processes
            .iter()
            .enumerate()
            .filter(|(p, process)| process.next < self.program.first[p + 1])
            .map(|(p, process)| (p as u32, process.held))
            .collect();
        if !stuck.is_empty() {
            return Err(RunError::Deadlock(stuck));
        }
        self.outcome.ends = self.processes.iter().map(|p| p.now).collect();
        self.outcome.waited = self.processes.iter().map(|p| p.waited).collect();
        self.outcome.carried = if self.network.fidelity == Fidelity::Flow { self.fluid.carried() } else { Vec::new() };
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
    let (processes, count) = (program.host.len(), messages.from.len());
    if program.first.len() != processes + 1
        || program.code.len() != program.arg.len()
        || *program.first.last().unwrap_or(&1) as usize != program.code.len()
        || program.first.windows(2).any(|w| w[0] > w[1])
        || [messages.to.len(), messages.bytes.len(), messages.leaves.len()].iter().any(|n| *n != count)
    {
        return Err(RunError::Lengths);
    }
    if !messages.limit.is_empty() && messages.limit.len() != count {
        return Err(RunError::Lengths);
    }
    if messages.limit.iter().any(|l| !(l.is_finite() && *l > 0.0)) {
        return Err(RunError::Value);
    }
    if program.capacity.contains(&0) || program.host.iter().any(|h| *h >= network.hosts) {
        return Err(RunError::Value);
    }
    let known = |process: u32| (process as usize) < processes;
    if let Some(bad) = (0..count).find(|m| !known(messages.from[*m]) || !known(messages.to[*m]) || messages.leaves[*m] > 2) {
        return Err(RunError::Message(bad as u32));
    }
    // a message is sent, posted and awaited once
    let mut seen = vec![0_u8; count];
    for process in 0..processes {
        for at in program.first[process]..program.first[process + 1] {
            let (arg, unknown) = (program.arg[at as usize] as usize, RunError::Unknown(process as u32, at));
            let fits = match Op::from_code(program.code[at as usize]) {
                None => false,
                Some(Op::Work) => arg < program.durations.len(),
                Some(Op::Use) => program.uses.get(arg).is_some_and(|u| (u.0 as usize) < program.capacity.len()),
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
                _ => continue,
            };
            if seen[arg] & once != 0 {
                return Err(RunError::Message(arg as u32));
            }
            seen[arg] |= once;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
