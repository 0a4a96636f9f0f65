//! What a region of code is: an MPI call and of which kind, a call of a device's runtime, of the operating system, or a function.

use super::definitions::{Definitions, MPI};
use std::collections::HashMap;

const CUDA: u8 = 5;
const PTHREAD: u8 = 7;
const OPENCL: u8 = 19;
const HIP: u8 = 23;
const FILE_IO: u8 = 27;
const DATA_TRANSFER: u8 = 30;
const ARTIFICIAL: u8 = 31;
const FILE_METADATA: u8 = 38;

/// What an MPI call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    /// Sends one message and returns when the buffer is free; `Ssend` not before the receive has begun.
    Send,
    Ssend,
    /// Receives one message.
    Recv,
    /// Sends one message and receives one.
    Both,
    /// Begins to send, or to receive.
    Isend,
    Irecv,
    /// Describes a message that a later call starts.
    Describe,
    /// Starts described messages.
    Start,
    /// Waits for, or asks about, requests; `Any` of several.
    Wait,
    WaitAny,
    /// Involves a whole communicator.
    Collective(Needs),
    /// Begins a collective.
    Icollective,
    /// Anything else.
    Other,
}

/// Which members a collective cannot end without, once it moves a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// Every member needs every other one, with or without bytes.
    Barrier,
    /// Every member needs every other one.
    All,
    /// Every member needs the root.
    Root,
    /// The root needs every other member.
    Members,
    /// That depends on the sizes of every single block.
    Unknown,
}

/// Where the calls of a region go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Mpi(Does),
    Api,
    Os,
    Range,
}

/// Regions by number, with the ids that mean them.
#[derive(Debug)]
pub(super) struct Regions {
    number: HashMap<u32, u32>,
    /// Name of each region: MPI calls as C spells them.
    pub names: Vec<String>,
    pub classes: Vec<Class>,
    /// On a device stream: not a kernel.
    pub not_a_kernel: Vec<bool>,
    /// Fills memory of a device.
    pub fills: Vec<bool>,
    /// The archive is one of EZTrace's.
    pub eztrace: bool,
}

/// Names of calls that no region names: a record outside every call, or the message that a Start starts.
pub(super) const SPARE: [&str; 9] =
    ["MPI_Send", "MPI_Isend", "MPI_Recv", "MPI_Irecv", "MPI_Wait", "MPI_Test", "MPI_Cancel", "(unknown region)", "(unknown collective)"];
/// Positions in [`SPARE`].
pub(super) const SEND: u32 = 0;
pub(super) const ISEND: u32 = 1;
pub(super) const RECV: u32 = 2;
pub(super) const IRECV: u32 = 3;
pub(super) const WAIT: u32 = 4;
pub(super) const TEST: u32 = 5;
pub(super) const CANCEL: u32 = 6;
pub(super) const UNKNOWN: u32 = 7;

/// Names of the archive's collective operations.
pub(super) const OPERATIONS: [&str; 23] = [
    "Barrier",
    "Bcast",
    "Gather",
    "Gatherv",
    "Scatter",
    "Scatterv",
    "Allgather",
    "Allgatherv",
    "Alltoall",
    "Alltoallv",
    "Alltoallw",
    "Allreduce",
    "Reduce",
    "Reduce_scatter",
    "Scan",
    "Exscan",
    "Reduce_scatter_block",
    "CREATE_HANDLE",
    "DESTROY_HANDLE",
    "ALLOCATE",
    "DEALLOCATE",
    "CREATE_HANDLE_AND_ALLOCATE",
    "DESTROY_HANDLE_AND_DEALLOCATE",
];
/// Operations below this one move data between the members.
pub(super) const MOVING: u8 = 17;

impl Regions {
    /// All regions of the definitions, then the spare names, then the collective operations.
    pub fn new(definitions: &Definitions) -> Self {
        let mut ids: Vec<_> = definitions.regions.iter().map(|(id, region)| (*id, *region)).collect();
        ids.sort_unstable_by_key(|(id, _)| *id);
        let mut all = Self {
            number: HashMap::with_capacity(ids.len()),
            names: vec![],
            classes: vec![],
            not_a_kernel: vec![],
            fills: vec![],
            eztrace: false,
        };
        for ((id, region), number) in ids.into_iter().zip(0..) {
            let name = definitions.texts.get(&region.name).map_or("", String::as_str);
            all.eztrace |= name == "EZTrace finalize";
            let (name, class) = classify(name, region.paradigm, region.role);
            all.number.insert(id, number);
            all.fills.push(region.role == DATA_TRANSFER && name.to_ascii_lowercase().contains("memset"));
            all.names.push(name);
            all.classes.push(class);
            all.not_a_kernel.push(matches!(region.role, DATA_TRANSFER | ARTIFICIAL));
        }
        for name in SPARE.iter().map(|n| (*n).to_owned()).chain(OPERATIONS.iter().map(|n| format!("MPI_{n}"))) {
            let (name, class) = classify(&name, MPI, 0);
            all.classes.push(if name.starts_with('(') { Class::Range } else { class });
            all.names.push(name);
            all.fills.push(false);
            all.not_a_kernel.push(true);
        }
        all
    }

    /// Number of the region of an id; an id without a definition has the number of "(unknown region)".
    #[inline]
    pub fn number(&self, id: u32) -> u32 {
        self.number.get(&id).copied().unwrap_or_else(|| self.spare(UNKNOWN))
    }

    /// Number of a spare name.
    pub fn spare(&self, position: u32) -> u32 {
        (self.names.len() - SPARE.len() - OPERATIONS.len()) as u32 + position
    }

    /// Number of the call that stands for a collective operation outside every call.
    pub fn operation(&self, operation: u8) -> u32 {
        let known = OPERATIONS.len() as u32;
        if u32::from(operation) < known { self.names.len() as u32 - known + u32::from(operation) } else { self.spare(UNKNOWN + 1) }
    }

    /// Whether no region of the definitions has this number.
    pub fn made_up(&self, number: u32) -> bool {
        number == self.spare(UNKNOWN)
    }
}

/// The name to keep and the class of a region.
fn classify(name: &str, paradigm: u8, role: u8) -> (String, Class) {
    let lower = name.to_ascii_lowercase();
    let short = lower.strip_prefix('p').filter(|s| s.starts_with("mpi_")).unwrap_or(&lower);
    // Fortran's names are lower case and end in an underscore; a function of the user's may begin with mpi_ as well
    let fortran = name.starts_with("mpi_") && name.ends_with('_');
    if let Some(call) = short.strip_prefix("mpi_").filter(|_| paradigm == MPI || fortran || name.contains("MPI_")) {
        let call = call.trim_end_matches('_');
        let mut kept = name.to_owned();
        if name.starts_with("mpi_") {
            let mut letters = call.chars();
            kept = format!("MPI_{}{}", letters.next().map_or(String::new(), |c| c.to_ascii_uppercase().to_string()), letters.as_str());
        }
        return (kept, Class::Mpi(does(call)));
    }
    let class = match (paradigm, role) {
        (MPI, _) => Class::Mpi(Does::Other),
        (CUDA | HIP | OPENCL, _) => Class::Api,
        (PTHREAD, _) | (_, FILE_IO | FILE_METADATA) => Class::Os,
        _ => Class::Range,
    };
    (name.to_owned(), class)
}

/// What the MPI call of that name does; the name is in lower case and without its prefix.
fn does(call: &str) -> Does {
    match call {
        "send" | "bsend" | "rsend" => Does::Send,
        "ssend" => Does::Ssend,
        "recv" | "mrecv" => Does::Recv,
        "sendrecv" | "sendrecv_replace" | "isendrecv" | "isendrecv_replace" => Does::Both,
        "isend" | "ibsend" | "irsend" | "issend" => Does::Isend,
        "irecv" | "imrecv" => Does::Irecv,
        "start" | "startall" => Does::Start,
        "wait" | "waitall" | "test" | "testall" => Does::Wait,
        "waitany" | "waitsome" | "testany" | "testsome" => Does::WaitAny,
        _ if call.ends_with("_init") => Does::Describe,
        _ => collective(call).map_or_else(
            || match call.strip_prefix('i').and_then(collective) {
                Some(_) => Does::Icollective,
                None => Does::Other,
            },
            Does::Collective,
        ),
    }
}

fn collective(call: &str) -> Option<Needs> {
    Some(match call {
        "barrier" => Needs::Barrier,
        "allreduce" | "allgather" | "alltoall" | "reduce_scatter_block" => Needs::All,
        "bcast" | "scatter" => Needs::Root,
        "reduce" | "gather" => Needs::Members,
        "allgatherv" | "alltoallv" | "alltoallw" | "scatterv" | "gatherv" | "reduce_scatter" | "scan" | "exscan" => Needs::Unknown,
        // a neighbour's block may be empty
        "neighbor_allgather" | "neighbor_allgatherv" | "neighbor_alltoall" | "neighbor_alltoallv" | "neighbor_alltoallw" => Needs::Unknown,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_calls() {
        let of = |name: &str, paradigm| classify(name, paradigm, 0);
        assert_eq!(of("mpi_bcast_", 1), ("MPI_Bcast".to_owned(), Class::Mpi(Does::Collective(Needs::Root))));
        assert_eq!(of("mpi_comm_split_", 1), ("MPI_Comm_split".to_owned(), Class::Mpi(Does::Other)));
        assert_eq!(of("MPI_Irecv", 1), ("MPI_Irecv".to_owned(), Class::Mpi(Does::Irecv)));
        assert_eq!(of("PMPI_Iallreduce", 4), ("PMPI_Iallreduce".to_owned(), Class::Mpi(Does::Icollective)));
        assert_eq!(of("mpi_setup", 1), ("mpi_setup".to_owned(), Class::Range));
        assert_eq!(of("MPI_Recv_init", 4).1, Class::Mpi(Does::Describe));
        assert_eq!(of("cudaMalloc", 5).1, Class::Api);
        assert_eq!(of("", 1).1, Class::Range);
    }
}
