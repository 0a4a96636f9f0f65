//! Global definitions: texts, regions, locations, groups and communicators.
//!
//! Ids come in any order and with gaps, and some tracers define one twice: the first stands, the others are counted.

use super::bytes::{Cursor, UNDEFINED};
use super::chunks::Part;
use crate::ReadError;
use crate::progress::Watch;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Paradigm of MPI.
pub(super) const MPI: u8 = 4;
const COMM_LOCATIONS: u8 = 4;
const COMM_GROUP: u8 = 5;
const COMM_SELF: u8 = 6;
/// Score-P's name of the parameter that tells where a kernel was launched.
const SITE: &str = "callsite id";
const GLOBAL_MEMBERS: u32 = 1;
const NODE_OF_A_DEVICE: u8 = 7;

/// How the trace's ticks are counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    /// Ticks a second.
    pub resolution: u64,
    /// The tick that is time 0.
    pub zero: u64,
    /// Ticks from the first event to the last, as the tracer says.
    pub length: u64,
    /// Time of day of `zero` [ns since 1970], if known.
    pub utc_ns: u64,
}

/// A region of code.
#[derive(Debug, Clone, Copy)]
pub(super) struct Region {
    pub name: u32,
    pub role: u8,
    pub paradigm: u8,
}

/// A process, or what a process uses of a device.
#[derive(Debug, Clone, Copy)]
pub(super) struct LocationGroup {
    pub kind: u8,
    pub place: u32,
    pub creator: u32,
}

/// A thread, a device stream or a recorder of metrics.
#[derive(Debug, Clone, Copy)]
pub(super) struct Location {
    pub id: u64,
    pub kind: u8,
    pub events: u64,
    pub group: u32,
}

#[derive(Debug)]
struct Group {
    kind: u8,
    paradigm: u8,
    flags: u32,
    members: Vec<u64>,
}

/// A communicator: its members' ranks in the world, in the order of their ranks inside.
#[derive(Debug, Clone)]
pub(super) struct Comm {
    /// Ranks in the world; empty where every rank has one of its own.
    pub members: Arc<[u32]>,
    /// Every rank is alone in it.
    pub alone: bool,
    /// It joins two groups: a partner is a rank of the other one.
    pub inter: bool,
}

/// All that is kept of the global definitions.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    pub clock: Option<Clock>,
    pub texts: HashMap<u32, String>,
    pub regions: HashMap<u32, Region>,
    /// Region of each calling context.
    pub contexts: HashMap<u32, u32>,
    pub location_groups: HashMap<u32, LocationGroup>,
    /// In the order of their definition.
    pub locations: Vec<Location>,
    /// Nodes of the system tree that are a device.
    pub devices: HashSet<u32>,
    /// Locations of the world's ranks.
    pub ranks: Vec<u64>,
    /// Communicators of MPI.
    pub comms: HashMap<u32, Comm>,
    /// Locations whose memory a window of remote memory access spans, by their rank in it.
    pub windows: HashMap<u32, Arc<[u64]>>,
    comm_windows: Vec<(u32, u32)>,
    groups: HashMap<u32, Group>,
    comm_groups: Vec<(u32, u32)>,
    inter_comms: Vec<u32>,
    /// Definitions whose id was taken.
    pub twice: u64,
    /// Texts with bytes that are not UTF-8.
    pub repaired: u64,
    /// The parameter that tells a call's place in the program.
    pub sites: Option<u32>,
    parameters: Vec<(u32, u32)>,
    /// Names of hosts are in the file.
    pub hosts: bool,
}

impl Definitions {
    /// Read the file of global definitions.
    pub fn read(part: &Part, chunk: u64, watch: &Watch) -> Result<(Self, String), ReadError> {
        let mut all = Self::default();
        let mut seen = HashSet::new();
        let digest = part.records::<false>(chunk, watch, |kind, body, _| all.record(kind, body, &mut seen).ok_or("a definition is cut"))?;
        all.resolve();
        Ok((all, digest))
    }

    fn record(&mut self, kind: u8, mut r: Cursor<'_>, locations: &mut HashSet<u64>) -> Option<()> {
        match kind {
            5 => {
                let (resolution, zero, length) = (r.u64()?, r.u64()?, r.u64()?);
                let utc_ns = r.u64().unwrap_or(u64::MAX);
                if self.clock.is_none() {
                    self.clock = Some(Clock { resolution, zero, length, utc_ns });
                } else {
                    self.twice += 1;
                }
            }
            10 => {
                let (id, text) = (r.u32()?, r.text()?);
                let text = String::from_utf8_lossy(text);
                self.repaired += u64::from(matches!(text, std::borrow::Cow::Owned(_)));
                keep(&mut self.texts, id, text.into_owned(), &mut self.twice);
            }
            12 => {
                let (_id, _name, _class, parent) = (r.u32()?, r.u32()?, r.u32()?, r.u32()?);
                self.hosts |= parent != UNDEFINED;
            }
            13 => {
                let (id, _name, kind, place) = (r.u32()?, r.u32()?, r.u8()?, r.u32()?);
                let creator = r.u32().unwrap_or(UNDEFINED);
                keep(&mut self.location_groups, id, LocationGroup { kind, place, creator }, &mut self.twice);
            }
            14 => {
                let (id, _name, kind, events, group) = (r.u64()?, r.u32()?, r.u8()?, r.u64()?, r.u32()?);
                if locations.insert(id) {
                    self.locations.push(Location { id, kind, events, group });
                } else {
                    self.twice += 1;
                }
            }
            15 => {
                let (id, name) = (r.u32()?, r.u32()?);
                let _ = (r.u32()?, r.u8()?, r.u32()?, r.u32()?, r.u32()?);
                let (_, role, paradigm) = (r.u32(), r.u8().unwrap_or(0), r.u8().unwrap_or(0));
                keep(&mut self.regions, id, Region { name, role, paradigm }, &mut self.twice);
            }
            18 => {
                let (id, _name, _old) = (r.u32()?, r.u32()?, r.u8()?);
                let count = usize::try_from(r.u32()?).ok()?;
                if count > r.left() {
                    return None; // a member takes a byte at least
                }
                let members = (0..count).map(|_| r.u64()).collect::<Option<Vec<_>>>()?;
                let (kind, paradigm, flags) = (r.u8().unwrap_or(0), r.u8().unwrap_or(0), r.u32().unwrap_or(0));
                if kind == COMM_LOCATIONS && paradigm == MPI && self.ranks.is_empty() {
                    self.ranks.clone_from(&members);
                }
                keep(&mut self.groups, id, Group { kind, paradigm, flags, members }, &mut self.twice);
            }
            22 => {
                let (id, _name, group) = (r.u32()?, r.u32()?, r.u32()?);
                self.comm_groups.push((id, group));
            }
            23 => self.parameters.push((r.u32()?, r.u32()?)),
            24 => {
                let (id, _name, comm) = (r.u32()?, r.u32()?, r.u32()?);
                self.comm_windows.push((id, comm));
            }
            27 => {
                let (node, domain) = (r.u32()?, r.u8()?);
                if domain == NODE_OF_A_DEVICE {
                    self.devices.insert(node);
                }
            }
            34 => {
                let (id, region) = (r.u32()?, r.u32()?);
                keep(&mut self.contexts, id, region, &mut self.twice);
            }
            43 => self.inter_comms.push(r.u32()?),
            _ => {}
        }
        Some(())
    }

    /// Communicators, once all groups are known; parameters, once all texts are.
    fn resolve(&mut self) {
        let named = |(id, name): &(u32, u32)| self.texts.get(name).is_some_and(|n| n == SITE).then_some(*id);
        self.sites = self.parameters.iter().find_map(named);
        self.resolve_windows();
        let rank_of: HashMap<u64, u32> = self.ranks.iter().zip(0..).map(|(location, rank)| (*location, rank)).collect();
        let world = self.ranks.len() as u64;
        let none: Arc<[u32]> = Arc::from([]);
        // one list a group: a file can name a large group very often
        let mut known: HashMap<u32, Option<Arc<[u32]>>> = HashMap::new();
        for (id, number) in std::mem::take(&mut self.comm_groups) {
            let Some(group) = self.groups.get(&number).filter(|g| g.paradigm == MPI) else { continue };
            let list = || -> Option<Arc<[u32]>> {
                match group.kind {
                    COMM_LOCATIONS => group.members.iter().map(|m| rank_of.get(m).copied()).collect(),
                    COMM_GROUP if group.flags & GLOBAL_MEMBERS != 0 => group.members.iter().map(|m| rank_of.get(m).copied()).collect(),
                    COMM_GROUP => group.members.iter().map(|m| u32::try_from(*m).ok().filter(|_| *m < world)).collect(),
                    COMM_SELF => Some(none.clone()),
                    _ => None,
                }
            };
            // a communicator with a member that is no rank is none that can be believed
            let Some(members) = known.entry(number).or_insert_with(list).clone() else { continue };
            keep(&mut self.comms, id, Comm { members, alone: group.kind == COMM_SELF, inter: false }, &mut self.twice);
        }
        for id in std::mem::take(&mut self.inter_comms) {
            keep(&mut self.comms, id, Comm { members: none.clone(), alone: false, inter: true }, &mut self.twice);
        }
        self.groups.clear();
    }
}

impl Definitions {
    /// Locations of each window, once all groups are known.
    fn resolve_windows(&mut self) {
        let mut listed: HashMap<u8, (u32, &Vec<u64>)> = HashMap::new();
        for (id, group) in self.groups.iter().filter(|(_, g)| g.kind == COMM_LOCATIONS) {
            let first = listed.entry(group.paradigm).or_insert((*id, &group.members));
            if *id < first.0 {
                *first = (*id, &group.members);
            }
        }
        let group_of: HashMap<u32, u32> = self.comm_groups.iter().rev().copied().collect();
        // one list a group: a file can name a large group very often
        let mut known: HashMap<u32, Option<Arc<[u64]>>> = HashMap::new();
        for (window, comm) in std::mem::take(&mut self.comm_windows) {
            let Some((number, group)) = group_of.get(&comm).and_then(|n| self.groups.get_key_value(n)) else { continue };
            let list = || -> Option<Arc<[u64]>> {
                match group.kind {
                    COMM_LOCATIONS => Some(Arc::from(group.members.as_slice())),
                    COMM_GROUP if group.flags & GLOBAL_MEMBERS != 0 => Some(Arc::from(group.members.as_slice())),
                    COMM_GROUP => {
                        let all = listed.get(&group.paradigm)?.1;
                        group.members.iter().map(|m| all.get(usize::try_from(*m).ok()?).copied()).collect()
                    }
                    _ => None,
                }
            };
            if let Some(members) = known.entry(*number).or_insert_with(list).clone() {
                keep(&mut self.windows, window, members, &mut self.twice);
            }
        }
    }
}

impl Comm {
    /// Whether a rank of that number can be inside.
    pub fn holds(&self, rank: u32) -> bool {
        if self.inter { rank < u32::MAX - 8 } else { (rank as usize) < self.size() }
    }

    /// Number of members.
    pub fn size(&self) -> usize {
        if self.alone { 1 } else { self.members.len() }
    }

    /// Rank in the world of a rank inside, seen by a process of rank `own`.
    pub fn world(&self, rank: u32, own: u32) -> Option<u32> {
        if self.alone { (rank == 0).then_some(own) } else { self.members.get(rank as usize).copied() }
    }
}

fn keep<V>(all: &mut HashMap<u32, V>, id: u32, value: V, twice: &mut u64) {
    match all.entry(id) {
        Entry::Vacant(free) => drop(free.insert(value)),
        Entry::Occupied(_) => *twice += 1,
    }
}
