//! The contention replay: processes that do things in order, on resources and links they share.
//!
//! A process is a list of [`Op`]s: work of its own, work on an exclusive resource, copies, messages sent and awaited.  Whatever
//! two processes have to do with each other is a [`Message`]; one without bytes and with a fixed delay is the edge of a graph.
//! Time is whole picoseconds; events of one picosecond are dealt with in the order in which they arose, so that the same input
//! gives the same answer, to the bit.
//!
//! What a message costs on its way is the choice of the [`Network`]: `logp` (no congestion), or `flow` (max-min fair shares of links).

use std::fmt;

mod engine;
mod fluid;
mod network;
mod queue;

pub use engine::{Outcome, run};
pub use network::{Fidelity, LogP, Network, Shape};

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
    /// Nothing can go on: some processes that wait for each other, with the message each waits for.
    Deadlock(Vec<(u32, u32)>),
    /// Times beyond what is counted in (106 days), or a bandwidth that is none.
    Value,
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
    /// Work on an exclusive resource, first come first served: `uses[arg]`.
    Use = 1,
    /// Hand a message to the network; the process goes on after the overhead of sending.
    Send = 2,
    /// Make room for a message; a rendezvous begins when both ends are ready.
    Post = 3,
    /// Wait for a message to arrive; then the overhead of receiving.
    Await = 4,
    /// Wait until a message no longer needs the sender's buffer.
    Sent = 5,
}

impl Op {
    /// By its number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::Work, Self::Use, Self::Send, Self::Post, Self::Await, Self::Sent].get(usize::from(code)).copied()
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
    /// When it is sent and its receive is posted (rendezvous).
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
    /// Most that each can go at [B/ps], whatever its links leave; empty where nothing limits any.
    pub limit: &'a [f64],
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
    /// Resource and duration [ps] of `Use`.
    pub uses: &'a [(u32, Time)],
    /// How many `Use`s a resource serves at once.
    pub capacity: &'a [u32],
    /// Host of each process on the network.
    pub host: &'a [u32],
}
