//! One location's events into calls: enter and leave become one row, the records between them say what the call did.

use super::bytes::{Cursor, UNDEFINED};
use super::calls::{Call, Kind, Late, NO, NONE, NOWHERE, Seen, Span, Transfer};
use super::definitions::{Comm, Definitions};
use super::local::{Local, Ticks};
use super::records::{Message, Record, Records, Whole};
use super::regions::{CANCEL, Class, Does, IRECV, ISEND, MOVING, RECV, Regions, SEND, TEST, WAIT};
use std::collections::HashMap;

/// Calls inside calls; deeper than this is no program.
const DEEPEST: usize = 1 << 16;
/// Calls that may overlap instead of lying inside each other.
const OVERLAPPING: usize = 8;
/// Regions that are remembered.
const LATELY: usize = 128;
/// Accesses to remote memory: events of a put, a get, and the completion of either.
const PUT: u8 = 46;
const GET: u8 = 47;
const COMPLETE: u8 = 49;
/// Records of one call; a Waitall over more requests is no program.
const MOST_RECORDS: usize = 1 << 24;

/// What stands around a location while it is read.
pub(super) struct Around<'a> {
    pub definitions: &'a Definitions,
    pub regions: &'a Regions,
    pub local: &'a Local,
    pub location: u32,
    pub accelerator: bool,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    region: u32,
    site: u64,
    start: i64,
    first_record: usize,
}

/// Reads one location, event by event.
pub(super) struct Reader<'a> {
    around: Around<'a>,
    ticks: Ticks<'a>,
    tick: u64,
    time: i64,
    reads: Records<'a>,
    open: Vec<Frame>,
    /// How often each region is open.
    entered: Vec<u32>,
    /// Regions met lately, by the low bits of their id.
    lately: [(u32, u32); LATELY],
    records: Vec<Record>,
    /// Transfers that are not complete, by window and matching number.
    moving: HashMap<(u32, u64), Transfer>,
    /// Open frames that are MPI calls, and calls of the operating system.
    mpi: usize,
    os: i32,
    seen: Seen,
}

impl<'a> Reader<'a> {
    pub fn new(around: Around<'a>, ticks: Ticks<'a>) -> Self {
        let reads = Records::new(&around.local.comms);
        let (regions, first) = (around.regions.names.len(), around.regions.number(0));
        Self {
            around,
            ticks,
            tick: u64::MAX,
            time: 0,
            reads,
            open: Vec::new(),
            entered: vec![0; regions],
            lately: [(0, first); LATELY],
            records: Vec::new(),
            moving: HashMap::new(),
            mpi: 0,
            os: 0,
            seen: Seen { counts: vec![0; 256], ..Seen::default() },
        }
    }

    /// One event.
    #[inline]
    pub fn event(&mut self, kind: u8, r: Cursor<'_>, tick: u64) -> Result<(), &'static str> {
        if tick != self.tick {
            self.tick = tick;
            self.time = self.ticks.ns(tick);
            let (first, last) = self.seen.span.unwrap_or((self.time, self.time));
            self.seen.span = Some((first.min(self.time), last.max(self.time)));
        }
        self.seen.counts[usize::from(kind)] += 1;
        match kind {
            12 => self.enter(r),
            13 => self.leave(r),
            66 => self.enter_context(r),
            67 => self.leave_context(r),
            10 => {
                let mut r = r;
                let until = r.u64_full().ok_or("an event is cut")?;
                let until = self.ticks.ns(until);
                self.seen.flushes.push((self.time, until.max(self.time)));
                Ok(())
            }
            34 => {
                self.parameter(r).ok_or("an event is cut")?;
                Ok(())
            }
            35 | 36 | PUT | GET | COMPLETE if self.around.accelerator => {
                *self.seen.accesses.entry(kind).or_default() += 1;
                if kind >= PUT { self.access(kind, r).ok_or("an event is cut") } else { Ok(()) }
            }
            14..=23 | 85..=92 => {
                let record = self.reads.read(kind, r).ok_or("an event is cut")?;
                match record {
                    Some(Record::Made(comm)) => {
                        self.seen.made.push((comm, self.time));
                        Ok(())
                    }
                    Some(record) => self.note(record),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    fn enter(&mut self, mut r: Cursor<'_>) -> Result<(), &'static str> {
        let id = r.u32().ok_or("an event is cut")?;
        self.push(self.around.local.regions.global(id))
    }

    fn leave(&mut self, mut r: Cursor<'_>) -> Result<(), &'static str> {
        let id = r.u32().ok_or("an event is cut")?;
        self.pop(self.around.local.regions.global(id));
        Ok(())
    }

    fn enter_context(&mut self, r: Cursor<'_>) -> Result<(), &'static str> {
        let region = self.context(r).ok_or("an event is cut")?;
        self.push(region)
    }

    fn leave_context(&mut self, r: Cursor<'_>) -> Result<(), &'static str> {
        let region = self.context(r).ok_or("an event is cut")?;
        self.pop(region);
        Ok(())
    }

    fn context(&self, mut r: Cursor<'_>) -> Option<u32> {
        let context = self.around.local.contexts.global(r.u32()?);
        Some(self.around.definitions.contexts.get(&context).copied().unwrap_or(UNDEFINED))
    }

    /// A parameter of the call that is open: its place in the program tells which launch started a kernel.
    fn parameter(&mut self, mut r: Cursor<'_>) -> Option<()> {
        let (parameter, value) = (self.around.local.parameters.global(r.u32()?), r.u64()?);
        if self.around.definitions.sites == Some(parameter)
            && let Some(frame) = self.open.last_mut()
        {
            frame.site = value;
        }
        Some(())
    }

    /// An access of a device stream to remote memory, which lasts until its completion.
    fn access(&mut self, kind: u8, mut r: Cursor<'_>) -> Option<()> {
        let window = self.around.local.windows.global(r.u32()?);
        if kind == COMPLETE {
            match self.moving.remove(&(window, r.u64()?)) {
                Some(begun) => self.seen.transfers.push(Transfer { end: self.time, ..begun }),
                None => self.seen.unbalanced += 1,
            }
            return Some(());
        }
        let (rank, bytes, matching) = (r.u32()?, r.u64()?, r.u64()?);
        let members = self.around.definitions.windows.get(&window);
        let frame = self.open.last();
        let begun = Transfer {
            start: self.time,
            end: self.time,
            location: self.around.location,
            bytes,
            remote: members.and_then(|m| m.get(rank as usize)).copied().unwrap_or(NOWHERE),
            put: kind == PUT,
            fill: frame.is_some_and(|f| self.around.regions.fills[f.region as usize]),
            site: frame.map_or(NOWHERE, |f| f.site),
            correlation: 0,
        };
        if self.moving.len() >= DEEPEST || self.moving.insert((window, matching), begun).is_some() {
            self.seen.unbalanced += 1;
        }
        Some(())
    }

    fn push(&mut self, id: u32) -> Result<(), &'static str> {
        if self.open.len() >= DEEPEST {
            return Err("more calls inside calls than any program has");
        }
        let region = self.number(id);
        self.seen.doubtful += u64::from(self.around.regions.made_up(region));
        self.count(region, 1);
        self.open.push(Frame { region, site: NOWHERE, start: self.time, first_record: self.records.len() });
        Ok(())
    }

    /// Number of a region; most calls are of a few regions.
    #[inline]
    fn number(&mut self, id: u32) -> u32 {
        let place = &mut self.lately[id as usize % LATELY];
        if place.0 != id {
            *place = (id, self.around.regions.number(id));
        }
        place.1
    }

    fn count(&mut self, region: u32, by: i32) {
        let entered = &mut self.entered[region as usize];
        *entered = entered.wrapping_add_signed(by);
        match self.around.regions.classes[region as usize] {
            Class::Mpi(_) => self.mpi = self.mpi.saturating_add_signed(by as isize),
            Class::Os => self.os += by,
            _ => {}
        }
    }

    fn pop(&mut self, id: u32) {
        let region = self.number(id);
        let found = if self.entered[region as usize] > 0 { self.open.iter().rposition(|f| f.region == region) } else { None };
        let Some(at) = found else {
            self.seen.unbalanced += 1;
            return;
        };
        if self.around.regions.eztrace
            && self.open.len() - at <= OVERLAPPING
            && !matches!(self.around.regions.classes[region as usize], Class::Mpi(_))
        {
            // EZTrace's own two regions overlap at the end of every thread
            let frame = self.open.remove(at);
            self.count(frame.region, -1);
            self.closed(frame);
            return;
        }
        self.seen.unbalanced += (self.open.len() - 1 - at) as u64;
        self.close_down_to(at);
    }

    fn close_down_to(&mut self, at: usize) {
        while self.open.len() > at {
            let Some(frame) = self.open.pop() else { break };
            self.count(frame.region, -1);
            self.closed(frame);
        }
    }

    /// A call has returned.
    fn closed(&mut self, frame: Frame) {
        let location = self.around.location;
        match self.around.regions.classes[frame.region as usize] {
            Class::Mpi(does) if !self.around.accelerator => self.mpi_call(frame, does),
            class => self.seen.spans.push(Span {
                start: frame.start,
                end: self.time,
                region: frame.region,
                location,
                nesting: self.os,
                class,
                site: frame.site,
                correlation: 0,
            }),
        }
    }

    fn note(&mut self, record: Record) -> Result<(), &'static str> {
        if self.mpi > 0 && self.records.len() < MOST_RECORDS {
            self.records.push(record);
            return Ok(());
        }
        if self.mpi > 0 {
            return Err("more records of one call than any program has");
        }
        // a record outside every call: the tracer kept no regions, or not this one
        let regions = self.around.regions;
        let region = match record {
            Record::Send(_) => regions.spare(SEND),
            Record::Isend(..) => regions.spare(ISEND),
            Record::Received(_, None) => regions.spare(RECV),
            Record::Receiving(_) => regions.spare(IRECV),
            Record::Sent(_) | Record::Received(_, Some(_)) | Record::Begun(_) | Record::Ended(..) => regions.spare(WAIT),
            Record::Tested => regions.spare(TEST),
            Record::Cancelled(_) | Record::Made(_) => regions.spare(CANCEL),
            Record::Collective(operation, _) => regions.operation(operation),
        };
        let first_record = self.records.len();
        self.records.push(record);
        let does = match regions.classes[region as usize] {
            Class::Mpi(does) => does,
            _ => Does::Other,
        };
        self.mpi_call(Frame { region, site: NOWHERE, start: self.time, first_record }, does);
        Ok(())
    }

    /// An MPI call into rows: one for each message, request or collective it concerns, one at least.
    fn mpi_call(&mut self, frame: Frame, does: Does) {
        let rows = self.seen.calls.len();
        for at in frame.first_record..self.records.len() {
            let record = self.records[at];
            self.row(frame, does, record);
        }
        self.records.truncate(frame.first_record);
        if self.seen.calls.len() == rows {
            let kind = match does {
                Does::Collective(_) | Does::Icollective => Kind::Collective,
                Does::Start | Does::Wait | Does::WaitAny => Kind::Request,
                Does::Other => Kind::Other,
                _ => Kind::Message,
            };
            let blank = self.blank(frame, does, kind);
            self.seen.calls.push(blank);
        }
    }

    fn blank(&self, frame: Frame, does: Does, kind: Kind) -> Call {
        Call {
            start: frame.start,
            end: self.time,
            done: NO,
            size: NO,
            received: NO,
            request: NO,
            comm: NONE,
            partner: NONE,
            tag: NONE,
            root: NONE,
            region: frame.region,
            location: self.around.location,
            kind,
            does,
        }
    }

    fn row(&mut self, frame: Frame, does: Does, record: Record) {
        let blank = self.blank(frame, does, Kind::Other);
        let regions = self.around.regions;
        match record {
            Record::Send(message) => {
                let mut call = self.filled(Call { kind: Kind::Message, done: self.time, ..blank }, message);
                match does {
                    // the half that sends is the shorter one
                    Does::Both => (call.end, call.does) = (frame.start, Does::Send),
                    Does::Send | Does::Ssend => {}
                    _ => (call.region, call.does) = (regions.spare(SEND), Does::Send),
                }
                self.seen.calls.push(call);
            }
            Record::Isend(message, request) => {
                let mut call = self.filled(Call { kind: Kind::Message, request: request as i64, ..blank }, message);
                match does {
                    Does::Both => (call.end, call.does) = (frame.start, Does::Isend),
                    Does::Isend => {}
                    _ => (call.region, call.does) = (regions.spare(ISEND), Does::Isend),
                }
                self.seen.pending.insert(request, self.seen.calls.len());
                self.seen.calls.push(call);
            }
            Record::Receiving(request) => {
                let mut call = Call { kind: Kind::Message, request: request as i64, ..blank };
                call.does = Does::Irecv;
                if !matches!(does, Does::Irecv | Does::Both) {
                    call.region = regions.spare(IRECV);
                }
                self.seen.pending.insert(request, self.seen.calls.len());
                self.seen.calls.push(call);
            }
            Record::Received(message, None) => {
                let mut call = self.filled(Call { kind: Kind::Message, done: self.time, ..blank }, message);
                call.does = Does::Recv;
                if !matches!(does, Does::Recv | Does::Both) {
                    call.region = regions.spare(RECV);
                }
                self.seen.calls.push(call);
            }
            Record::Received(message, Some(request)) => {
                // EZTrace writes what it finds in an array of statuses that nobody filled
                let believed = !(regions.eztrace && does == Does::WaitAny);
                let begun = Call { kind: Kind::Message, request: request as i64, region: regions.spare(IRECV), does: Does::Irecv, ..blank };
                let mut call = begun;
                if believed {
                    call = self.filled(begun, message);
                } else {
                    self.seen.doubtful += 1;
                }
                call.done = self.time;
                self.completed(request, call);
                self.seen.calls.push(Call { kind: Kind::Request, request: request as i64, ..blank });
            }
            Record::Sent(request) => {
                self.completed(request, Call { done: self.time, ..blank });
                self.seen.calls.push(Call { kind: Kind::Request, request: request as i64, ..blank });
            }
            Record::Made(_) => {}
            Record::Tested => self.seen.calls.push(Call { kind: Kind::Request, ..blank }),
            Record::Cancelled(request) => {
                if let Some(call) = self.seen.pending.remove(&request).and_then(|row| self.seen.calls.get_mut(row)) {
                    call.done = self.time;
                }
                self.seen.calls.push(Call { kind: Kind::Request, request: request as i64, ..blank });
            }
            Record::Collective(operation, whole) => {
                let kind = if operation < MOVING { Kind::Collective } else { Kind::Other };
                let mut call = self.spread(Call { kind, done: self.time, ..blank }, whole);
                // a call that makes or frees something is named by itself
                if kind == Kind::Collective && !matches!(does, Does::Collective(_) | Does::Icollective) {
                    call.region = regions.operation(operation);
                    if let Class::Mpi(does) = regions.classes[call.region as usize] {
                        call.does = does;
                    }
                }
                self.seen.calls.push(call);
            }
            Record::Begun(request) => {
                let kind = if does == Does::Icollective { Kind::Collective } else { Kind::Other };
                self.seen.pending.insert(request, self.seen.calls.len());
                self.seen.calls.push(Call { kind, request: request as i64, ..blank });
            }
            Record::Ended(operation, whole, request) => {
                let kind = if operation < MOVING { Kind::Collective } else { Kind::Other };
                let ended = Call { kind, request: request as i64, done: self.time, region: regions.operation(operation), ..blank };
                let ended = self.spread(ended, whole);
                self.completed(request, ended);
                self.seen.calls.push(Call { kind: Kind::Request, request: request as i64, ..blank });
            }
        }
    }

    /// What a completion says, into the row that began it; else it waits for the process's other locations.
    fn completed(&mut self, request: u64, call: Call) {
        match self.seen.pending.remove(&request).and_then(|row| self.seen.calls.get_mut(row)) {
            Some(begun) => begun.complete(&call),
            None => self.seen.late.push(Late { request, call }),
        }
    }

    /// A message's fields, as far as the definitions agree.
    fn filled(&mut self, mut call: Call, message: Message) -> Call {
        let known: Option<&Comm> = self.around.definitions.comms.get(&message.comm);
        let tag = if message.tag <= i32::MAX as u32 { message.tag } else { NONE };
        if known.is_some_and(|c| c.holds(message.partner)) && message.size != NO && tag != NONE {
            (call.comm, call.partner, call.tag, call.size) = (message.comm, message.partner, tag, message.size);
        } else {
            self.seen.doubtful += 1;
        }
        call
    }

    fn spread(&mut self, mut call: Call, whole: Whole) -> Call {
        match self.around.definitions.comms.get(&whole.comm) {
            Some(comm) => {
                (call.comm, call.size, call.received) = (whole.comm, whole.sent, whole.received);
                if comm.holds(whole.root) {
                    call.root = whole.root;
                }
            }
            None => self.seen.doubtful += 1,
        }
        call
    }

    /// All events are read: what is still open ends with the last one.
    pub fn finish(mut self, digest: String) -> Seen {
        if let Some((_, last)) = self.seen.span {
            self.time = last;
        }
        self.seen.unbalanced += (self.open.len() + self.moving.len()) as u64;
        self.close_down_to(0);
        self.seen.digest = digest;
        self.seen
    }
}
