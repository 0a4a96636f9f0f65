//! What one location's events become: rows of MPI calls, spans of other calls, and what was odd about them.

use super::regions::{Class, Does};
use std::collections::HashMap;

/// A missing number.
pub(super) const NONE: u32 = u32::MAX;
/// A missing time, size or request.
pub(super) const NO: i64 = i64::MIN;
/// A missing place in the program.
pub(super) const NOWHERE: u64 = u64::MAX;

/// One row of the table of MPI calls.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub start: i64,
    pub end: i64,
    /// When the call that completes it returns [ns].
    pub done: i64,
    pub size: i64,
    pub received: i64,
    pub request: i64,
    pub comm: u32,
    pub partner: u32,
    pub tag: u32,
    pub root: u32,
    pub region: u32,
    pub location: u32,
    pub kind: Kind,
    pub does: Does,
}

/// Kinds of MPI calls, as the vocabulary counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub(super) enum Kind {
    Message = 0,
    Collective = 1,
    Request = 2,
    Other = 3,
}

/// A call that is no MPI call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub start: i64,
    pub end: i64,
    pub region: u32,
    pub location: u32,
    /// Calls of the operating system around it.
    pub nesting: i32,
    /// Place in the program that launched it, [`NOWHERE`] where that is not recorded.
    pub site: u64,
    /// Number that a launch and its kernel have in common, 0 for none.
    pub correlation: i64,
    pub class: Class,
}

/// A transfer that a device stream recorded as an access to remote memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transfer {
    pub start: i64,
    pub end: i64,
    pub location: u32,
    pub bytes: u64,
    /// The location whose memory it reads or writes, [`NOWHERE`] where the definitions do not tell.
    pub remote: u64,
    /// It writes the remote memory; else it reads it.
    pub put: bool,
    /// The region around it fills memory.
    pub fill: bool,
    /// Place in the program that asked for it, [`NOWHERE`] where that is not recorded.
    pub site: u64,
    /// Number that the call that asked for it and the transfer have in common, 0 for none.
    pub correlation: i64,
}

/// A completion whose begin is on another location of the process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Late {
    pub request: u64,
    pub call: Call,
}

/// All that one location says.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub calls: Vec<Call>,
    pub spans: Vec<Span>,
    /// Transfers of a device stream, in the order of their ends.
    pub transfers: Vec<Transfer>,
    /// Events by kind that became transfers.
    pub accesses: HashMap<u8, u64>,
    /// When the tracer wrote its buffer [ns].
    pub flushes: Vec<(i64, i64)>,
    /// Communicators and when they were made [ns].
    pub made: Vec<(u32, i64)>,
    /// Events by kind.
    pub counts: Vec<u64>,
    /// First and last time stamp [ns].
    pub span: Option<(i64, i64)>,
    /// Calls that were not left, leaves of calls that were not entered.
    pub unbalanced: u64,
    /// Message records that name a partner, communicator or region that the definitions do not have.
    pub doubtful: u64,
    /// Requests that are still open, with their rows.
    pub pending: HashMap<u64, usize>,
    pub late: Vec<Late>,
    /// Its clock was corrected by offsets that the tracer measured.
    pub corrected: bool,
    pub digest: String,
}

impl Call {
    /// Take over what the completion says.
    pub fn complete(&mut self, by: &Call) {
        self.done = by.done;
        if by.kind == Kind::Message && self.does != Does::Isend || by.kind == Kind::Collective {
            (self.comm, self.partner, self.tag, self.size) = (by.comm, by.partner, by.tag, by.size);
            (self.received, self.root) = (by.received, by.root);
        } else if by.kind == Kind::Other && self.kind == Kind::Other && by.comm != NONE {
            (self.comm, self.root) = (by.comm, by.root);
        }
        if by.kind == Kind::Collective {
            self.kind = Kind::Collective;
        }
    }
}
