//! Records of MPI calls: which messages, requests and collectives a call concerned.

use super::bytes::Cursor;
use super::calls::NO;
use super::local::Map;
use std::collections::HashMap;

/// What a record between enter and leave says.
#[derive(Debug, Clone, Copy)]
pub(super) enum Record {
    Send(Message),
    Isend(Message, u64),
    Sent(u64),
    Receiving(u64),
    Received(Message, Option<u64>),
    Tested,
    Cancelled(u64),
    /// A communicator was made.
    Made(u32),
    Collective(u8, Whole),
    Begun(u64),
    Ended(u8, Whole, u64),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Message {
    pub comm: u32,
    pub partner: u32,
    pub tag: u32,
    pub size: i64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Whole {
    pub comm: u32,
    pub root: u32,
    pub sent: i64,
    pub received: i64,
}

/// Reads the records of one location.
pub(super) struct Records<'a> {
    comms: &'a Map,
    /// Messages that a probe found, by the number that the receive will name.
    probed: HashMap<u64, Message>,
    /// Those of them that are being received, by request.
    matched: HashMap<u64, Message>,
}

impl<'a> Records<'a> {
    /// With the location's names of communicators.
    pub fn new(comms: &'a Map) -> Self {
        Self { comms, probed: HashMap::new(), matched: HashMap::new() }
    }

    /// One record of an MPI call; `None` inside where it says nothing by itself.
    pub fn read(&mut self, kind: u8, mut r: Cursor<'_>) -> Option<Option<Record>> {
        Some(match kind {
            14 => Some(Record::Send(self.message(&mut r)?)),
            15 => Some(Record::Isend(self.message(&mut r)?, r.u64()?)),
            16 => Some(Record::Sent(r.u64()?)),
            17 => Some(Record::Receiving(r.u64()?)),
            18 => Some(Record::Received(self.message(&mut r)?, None)),
            19 => Some(Record::Received(self.message(&mut r)?, Some(r.u64()?))),
            20 => Some(Record::Tested),
            21 => Some(Record::Cancelled(r.u64()?)),
            23 => Some(Record::Collective(r.u8()?, self.whole(&mut r)?)),
            85 => Some(Record::Begun(r.u64()?)),
            86 => {
                let operation = r.u8()?;
                Some(Record::Ended(operation, self.whole(&mut r)?, r.u64()?))
            }
            87 => Some(Record::Made(self.comms.global(r.u32()?))),
            89 => {
                let (partner, comm, tag, message) = (r.u32()?, r.u32()?, r.u32()?, r.u64()?);
                let comm = self.comms.global(comm);
                if message != u64::MAX {
                    self.probed.insert(message, Message { comm, partner, tag, size: NO });
                }
                None
            }
            90 => {
                let (message, size) = (r.u64()?, r.u64()?);
                self.probed.remove(&message).map(|m| Record::Received(Message { size: positive(size), ..m }, None))
            }
            91 => {
                let (message, request) = (r.u64()?, r.u64()?);
                if let Some(message) = self.probed.remove(&message) {
                    self.matched.insert(request, message);
                }
                Some(Record::Receiving(request))
            }
            92 => {
                let (request, size) = (r.u64()?, r.u64()?);
                self.matched.remove(&request).map(|m| Record::Received(Message { size: positive(size), ..m }, Some(request)))
            }
            _ => None,
        })
    }

    fn message(&self, r: &mut Cursor<'_>) -> Option<Message> {
        let (partner, comm, tag, size) = (r.u32()?, r.u32()?, r.u32()?, r.u64()?);
        Some(Message { comm: self.comms.global(comm), partner, tag, size: positive(size) })
    }

    fn whole(&self, r: &mut Cursor<'_>) -> Option<Whole> {
        let (comm, root, sent, received) = (r.u32()?, r.u32()?, r.u64()?, r.u64()?);
        Some(Whole { comm: self.comms.global(comm), root, sent: positive(sent), received: positive(received) })
    }
}

fn positive(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(NO)
}
