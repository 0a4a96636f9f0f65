//! The contention replay: processes that do things in order, on resources and links they share.
//!
//! A process is a list of [`Op`]s: work of its own, work on an exclusive resource, messages sent and awaited.  Whatever two
//! processes have to do with each other is a message; one without bytes and with a fixed delay is the edge of a graph.  A message
//! of a process to itself moves bytes between two places, as a copy between host and device does.
//! Time is whole picoseconds; events of one picosecond are dealt with in the order in which they arose, so that the same input
//! gives the same answer, to the bit.
//!
//! What a message costs on its way is the choice of the [`Network`]: `logp` (no congestion), `flow` (max-min fair shares of links), or
//! `packet` (queues of finite room before each link).

use std::fmt;

mod datelines;
mod engine;
mod fluid;
mod network;
mod packet;
mod queue;

pub use engine::{Outcome, run};
pub use network::{Fidelity, LogP, Network, Node, Shape, Wire};
pub use packet::Packing;

/// Picoseconds.
pub type Time = u64;

/// What is wrong with a program, or what stopped its replay.
#[derive(Debug, PartialEq, Eq)]
pub enum RunError {
    /// Arrays of different lengths.
    Lengths,
    /// An operation names something that does not exist: process, place in its list.
    Unknown(u32, u32),
    /// A message is sent, posted or awaited by a process that is not its own, or more than once.
    Message(u32),
    /// Nothing can go on: processes that wait, for whom each waits, and at which operation; the members of a circle come first, in order.
    Deadlock(Vec<(u32, u32, u32)>),
    /// Times beyond what is counted in (106 days), or a bandwidth that is none.
    Value,
    /// A message between places that nothing joins.
    Unreached,
    /// A process takes a resource that it holds, gives back one that it does not, or ends with it.
    Held(u32),
    /// Asked to stop.
    Stopped,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lengths => write!(f, "the arrays of the program differ in length"),
            Self::Unknown(process, at) => write!(f, "operation {at} of process {process} names something that does not exist"),
            Self::Message(message) => write!(f, "message {message} is not sent once and received once by its own processes"),
            Self::Deadlock(waiting) => write!(f, "{} processes wait for each other", waiting.len()),
            Self::Unreached => write!(f, "a message between places that no wires join"),
            Self::Held(process) => write!(f, "process {process} does not give back what it took, or takes it twice"),
            Self::Value => write!(f, "a value is not a finite number or out of its range"),
            Self::Stopped => write!(f, "stopped"),
        }
    }
}

impl std::error::Error for RunError {}

/// What a process does next; the argument of each is an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    /// Work of its own: `durations[arg]`.
    Work = 0,
    /// Work on an exclusive resource: `uses[arg]`.
    Use = 1,
    /// Hand a message to the network; the process goes on after the overhead of sending.
    Send = 2,
    /// Make room for a message; a rendezvous begins when both ends are ready.
    Post = 3,
    /// Wait for a message to arrive; then the overhead of receiving.
    Await = 4,
    /// Wait until a message no longer needs the sender's buffer.
    Sent = 5,
    /// Take an exclusive resource, that of `uses[arg]`, and keep it.
    Take = 6,
    /// Give it back.
    Give = 7,
}

impl Op {
    /// By its number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::Work, Self::Use, Self::Send, Self::Post, Self::Await, Self::Sent, Self::Take, Self::Give].get(usize::from(code)).copied()
    }
}

/// How a message leaves: a fixed delay and nothing else, at once, or when both ends are ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Leaves {
    /// Arrives `bytes` picoseconds after it was sent, over no link: an edge of a graph.
    Edge = 0,
    /// As soon as it is sent (eager).
    Eager = 1,
    /// When it is sent and its receive is posted (rendezvous); what a [`Network`] with a handshake adds, comes on top.
    Ready = 2,
}

/// Messages as parallel arrays.
#[derive(Clone, Copy, Debug)]
pub struct Messages<'a> {
    /// Sending and receiving process.
    pub from: &'a [u32],
    /// Receiving process.
    pub to: &'a [u32],
    /// Bytes; picoseconds of an edge.
    pub bytes: &'a [u64],
    /// How each leaves: a code of [`Leaves`].
    pub leaves: &'a [u8],
    /// Most that each can go at [B/ps], whatever its links leave; infinite, or none at all, where nothing limits it.
    pub limit: &'a [f64],
    /// What passes between the time a message may leave and the time it does [ps], as memory is pinned; empty where nothing does.
    pub delay: &'a [Time],
    /// Place from which each goes; empty where all go from the places of their processes.
    pub start: &'a [u32],
    /// Place to which each goes.
    pub end: &'a [u32],
}

/// What processes do, as parallel arrays.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// First operation of each process, and the end of the last.
    pub first: &'a [u32],
    /// Operations: codes of [`Op`].
    pub code: &'a [u8],
    /// Their arguments.
    pub arg: &'a [u32],
    /// Durations of `Work` [ps].
    pub durations: &'a [Time],
    /// Resource of each `Use`, `Take` and `Give`.
    pub resource: &'a [u32],
    /// Duration of each `Use` [ps].
    pub takes: &'a [Time],
    /// Which of those who wait for a resource is served first: the lowest, then whoever came first; empty where all are alike.
    pub rank: &'a [u32],
    /// How many a resource serves at once.
    pub capacity: &'a [u32],
    /// Place of each process on the network.
    pub place: &'a [u32],
}
