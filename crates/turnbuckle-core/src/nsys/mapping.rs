//! Which SQLite table and column feeds which of ours: the whole difference between the schema versions, as data.

use Origin::{ApiName, Constant, Direction, Int, Level, Memory, Name, NoneIs, Process, Product, Sum, Text};

/// Where a value comes from.  A list of columns means the first one that the file has.
#[derive(Debug, Clone, Copy)]
pub enum Origin {
    /// The integer as it stands.
    Int(&'static [&'static str]),
    /// The integer; [`NONE`] stands for a missing one.
    NoneIs(&'static [&'static str]),
    /// A global process or thread id, of which the process part is kept.
    Process(&'static [&'static str]),
    /// An id of the string table.
    Name(&'static [&'static str]),
    /// An id of the string table whose text loses its `_vNNNN` suffix.
    ApiName(&'static [&'static str]),
    /// Inline text, or else an id of the string table.
    Text(&'static str, &'static str),
    /// Product of three columns.
    Product([&'static str; 3]),
    /// Sum of two columns.
    Sum([&'static str; 2]),
    /// Event class to call level.
    Level(&'static str),
    /// Copy kind to direction.
    Direction(&'static str),
    /// Memory kind, renumbered once the file's numbering is known.
    Memory(&'static [&'static str]),
    /// The same value in every row.
    Constant(i64),
}

/// What the profiler writes for "no such stream, event or device".
pub const NONE: i64 = 0xFFFF_FFFF;

/// One SQLite table and the table of ours it feeds.
#[derive(Debug)]
pub struct Source {
    /// The SQLite table.
    pub table: &'static str,
    /// Our table.
    pub into: &'static str,
    /// Columns without which the rows mean nothing.
    pub required: &'static [&'static str],
    /// Whether the file is refused without them; else the table is left out with a finding.
    pub vital: bool,
    /// Our column and where it comes from; a column not named here is missing.
    pub columns: &'static [(&'static str, Origin)],
}

/// Every table that is read, in the order of our tables.
pub const SOURCES: &[Source] = &[
    Source {
        table: "CUPTI_ACTIVITY_KIND_RUNTIME",
        into: "api",
        required: &["start", "end"],
        vital: true,
        columns: &[
            ("start_ns", Int(&["start"])),
            ("end_ns", Int(&["end"])),
            ("process", Process(&["globalTid"])),
            ("thread", Int(&["globalTid"])),
            ("correlation", Int(&["correlationId"])),
            ("name", ApiName(&["nameId"])),
            ("result", Int(&["returnValue"])),
            ("level", Level("eventClass")),
        ],
    },
    Source {
        table: "CUPTI_ACTIVITY_KIND_KERNEL",
        into: "kernels",
        required: &["start", "end"],
        vital: true,
        columns: &[
            ("start_ns", Int(&["start"])),
            ("end_ns", Int(&["end"])),
            ("process", Process(&["globalPid"])),
            ("device", NoneIs(&["deviceId"])),
            ("context", NoneIs(&["contextId"])),
            ("stream", NoneIs(&["streamId"])),
            ("correlation", Int(&["correlationId"])),
            ("name", Name(&["demangledName"])),
            ("short_name", Name(&["shortName"])),
            ("blocks", Product(["gridX", "gridY", "gridZ"])),
            ("threads", Product(["blockX", "blockY", "blockZ"])),
            ("registers", Int(&["registersPerThread"])),
            ("shared_bytes", Sum(["staticSharedMemory", "dynamicSharedMemory"])),
            ("graph_node", Int(&["graphNodeId"])),
            ("graph", Int(&["graphId"])),
        ],
    },
    Source {
        table: "CUPTI_ACTIVITY_KIND_MEMCPY",
        into: "copies",
        required: &["start", "end", "bytes", "copyKind"],
        vital: true,
        columns: &[
            ("start_ns", Int(&["start"])),
            ("end_ns", Int(&["end"])),
            ("process", Process(&["globalPid"])),
            ("device", NoneIs(&["deviceId"])),
            ("context", NoneIs(&["contextId"])),
            ("stream", NoneIs(&["streamId"])),
            ("correlation", Int(&["correlationId"])),
            ("size_bytes", Int(&["bytes"])),
            ("direction", Direction("copyKind")),
            ("source_memory", Memory(&["srcKind"])),
            ("target_memory", Memory(&["dstKind"])),
            ("source_device", NoneIs(&["srcDeviceId"])),
            ("target_device", NoneIs(&["dstDeviceId"])),
            ("cause", Int(&["migrationCause"])),
            ("batch", Int(&["copyCount"])),
            ("graph_node", Int(&["graphNodeId"])),
        ],
    },
    Source {
        table: "CUPTI_ACTIVITY_KIND_MEMSET",
        into: "memsets",
        required: &["start", "end"],
        vital: true,
        columns: &[
            ("start_ns", Int(&["start"])),
            ("end_ns", Int(&["end"])),
            ("process", Process(&["globalPid"])),
            ("device", NoneIs(&["deviceId"])),
            ("context", NoneIs(&["contextId"])),
            ("stream", NoneIs(&["streamId"])),
            ("correlation", Int(&["correlationId"])),
            ("size_bytes", Int(&["bytes"])),
            ("memory", Memory(&["memKind"])),
            ("graph_node", Int(&["graphNodeId"])),
        ],
    },
    Source {
        table: "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        into: "syncs",
        required: &["start", "end"],
        vital: true,
        columns: &[
            ("start_ns", Int(&["start"])),
            ("end_ns", Int(&["end"])),
            ("process", Process(&["globalPid"])),
            ("device", NoneIs(&["deviceId"])),
            ("context", NoneIs(&["contextId"])),
            ("stream", NoneIs(&["streamId"])),
            ("correlation", Int(&["correlationId"])),
            ("sync_type", Int(&["syncType"])),
            ("event", NoneIs(&["eventId"])),
            ("event_record", NoneIs(&["eventSyncId"])),
        ],
    },
    Source {
        table: "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
        into: "events",
        required: &["eventId"],
        vital: false,
        columns: &[
            ("time_ns", Int(&["timestamp"])),
            ("process", Process(&["globalPid"])),
            ("device", NoneIs(&["deviceId"])),
            ("context", NoneIs(&["contextId"])),
            ("stream", NoneIs(&["streamId"])),
            ("correlation", Int(&["correlationId"])),
            ("event", NoneIs(&["eventId"])),
            ("event_record", NoneIs(&["eventSyncId"])),
        ],
    },
    Source {
        table: "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        into: "graphs",
        required: &["start", "end"],
        vital: true,
        columns: &[
            ("start_ns", Int(&["start"])),
            ("end_ns", Int(&["end"])),
            ("process", Process(&["globalPid"])),
            ("device", NoneIs(&["deviceId"])),
            ("context", NoneIs(&["contextId"])),
            ("stream", NoneIs(&["streamId"])),
            ("correlation", Int(&["correlationId"])),
            ("graph", Int(&["graphId"])),
            ("graph_exec", Int(&["graphExecId"])),
        ],
    },
    Source { table: "CUDA_GRAPH_NODE_EVENTS", into: "graph_nodes", required: &["graphNodeId"], vital: false, columns: GRAPH_NODES },
    Source { table: "CUDA_GRAPH_EVENTS", into: "graph_nodes", required: &["graphNodeId"], vital: false, columns: GRAPH_NODES },
    Source {
        table: "NVTX_EVENTS",
        into: "ranges",
        required: &["start"],
        vital: false,
        columns: &[
            ("start_ns", Int(&["start"])),
            ("end_ns", Int(&["end"])),
            ("thread", Int(&["globalTid"])),
            ("kind", Int(&["eventType"])),
            ("name", Text("text", "textId")),
            ("domain", Int(&["domainId"])),
            ("category", Int(&["category"])),
            ("range", Int(&["rangeId"])),
        ],
    },
    Source {
        table: "MPI_P2P_EVENTS",
        into: "mpi",
        required: &["start", "end"],
        vital: false,
        columns: &[
            ("start_ns", Int(&["start"])),
            ("end_ns", Int(&["end"])),
            ("thread", Int(&["globalTid"])),
            ("kind", Constant(0)),
            ("name", Name(&["textId"])),
            ("size_bytes", Int(&["size"])),
            ("partner", Int(&["remoteRank"])),
            ("tag", Int(&["tag"])),
            ("communicator", Int(&["commHandle"])),
            ("request", Int(&["requestHandle"])),
        ],
    },
    Source {
        table: "MPI_COLLECTIVES_EVENTS",
        into: "mpi",
        required: &["start", "end"],
        vital: false,
        columns: &[
            ("start_ns", Int(&["start"])),
            ("end_ns", Int(&["end"])),
            ("thread", Int(&["globalTid"])),
            ("kind", Constant(1)),
            ("name", Name(&["textId"])),
            ("size_bytes", Int(&["size"])),
            ("receive_bytes", Int(&["recvSize"])),
            ("root", Int(&["rootRank"])),
            ("communicator", Int(&["commHandle"])),
            ("request", Int(&["requestHandle"])),
        ],
    },
    Source {
        table: "MPI_START_WAIT_EVENTS",
        into: "mpi",
        required: &["start", "end"],
        vital: false,
        columns: &[
            ("start_ns", Int(&["start"])),
            ("end_ns", Int(&["end"])),
            ("thread", Int(&["globalTid"])),
            ("kind", Constant(2)),
            ("name", Name(&["textId"])),
            ("request", Int(&["requestHandle"])),
        ],
    },
    Source {
        table: "MPI_OTHER_EVENTS",
        into: "mpi",
        required: &["start", "end"],
        vital: false,
        columns: &[
            ("start_ns", Int(&["start"])),
            ("end_ns", Int(&["end"])),
            ("thread", Int(&["globalTid"])),
            ("kind", Constant(3)),
            ("name", Name(&["textId"])),
        ],
    },
    Source {
        table: "MPI_RANKS",
        into: "mpi_ranks",
        required: &["globalTid", "rank"],
        vital: false,
        columns: &[("thread", Int(&["globalTid"])), ("rank", Int(&["rank"]))],
    },
    Source {
        table: "MPI_COMMUNICATORS",
        into: "mpi_communicators",
        required: &["commHandle"],
        vital: false,
        columns: &[
            ("rank", Int(&["rank"])),
            ("time_ns", Int(&["timestamp"])),
            ("communicator", Int(&["commHandle"])),
            ("parent", Int(&["parentHandle"])),
            ("local_rank", Int(&["localRank"])),
            ("size", Int(&["size"])),
            ("group_root", Int(&["groupRoot"])),
            ("group_number", Int(&["groupRootUid"])),
        ],
    },
    Source {
        table: "CUDA_GPU_MEMORY_USAGE_EVENTS",
        into: "allocations",
        required: &["start"],
        vital: false,
        columns: &[
            ("time_ns", Int(&["start"])),
            ("process", Process(&["globalPid"])),
            ("device", NoneIs(&["deviceId"])),
            ("context", NoneIs(&["contextId"])),
            ("correlation", Int(&["correlationId"])),
            ("size_bytes", Int(&["bytes"])),
            ("operation", Int(&["memoryOperationType"])),
            ("memory", Memory(&["memKind"])),
            ("address", Int(&["address"])),
        ],
    },
    Source {
        table: "CUDA_UM_GPU_PAGE_FAULT_EVENTS",
        into: "page_faults",
        required: &["start"],
        vital: false,
        columns: &[
            ("start_ns", Int(&["start"])),
            ("end_ns", Int(&["end"])),
            ("process", Process(&["globalPid"])),
            ("device", NoneIs(&["deviceId"])),
            ("count", Int(&["numberOfPageFaults"])),
        ],
    },
    Source {
        table: "CUDA_UM_CPU_PAGE_FAULT_EVENTS",
        into: "page_faults",
        required: &["start"],
        vital: false,
        columns: &[("start_ns", Int(&["start"])), ("process", Process(&["globalPid"])), ("count", Constant(1))],
    },
    Source {
        table: "OSRT_API",
        into: "os_calls",
        required: &["start", "end"],
        vital: false,
        columns: &[
            ("start_ns", Int(&["start"])),
            ("end_ns", Int(&["end"])),
            ("thread", Int(&["globalTid"])),
            ("name", Name(&["nameId"])),
            ("nesting", Int(&["nestingLevel"])),
        ],
    },
    Source {
        table: "SCHED_EVENTS",
        into: "scheduling",
        required: &["start"],
        vital: false,
        columns: &[("time_ns", Int(&["start"])), ("cpu", Int(&["cpu"])), ("running", Int(&["isSchedIn"])), ("thread", Int(&["globalTid"]))],
    },
    Source { table: "PROFILER_OVERHEAD", into: "overheads", required: &["start", "end"], vital: false, columns: OVERHEADS },
    Source { table: "CUPTI_ACTIVITY_KIND_OVERHEAD", into: "overheads", required: &["start", "end"], vital: false, columns: OVERHEADS },
    Source {
        table: "DIAGNOSTIC_EVENT",
        into: "diagnostics",
        required: &["severity"],
        vital: false,
        columns: &[("time_ns", Int(&["timestamp"])), ("severity", Int(&["severity"]))],
    },
];

const GRAPH_NODES: &[(&str, Origin)] = &[
    ("time_ns", Int(&["start"])),
    ("process", Process(&["globalTid", "globalPid"])),
    ("graph_node", Int(&["graphNodeId"])),
    ("original_node", Int(&["originalGraphNodeId"])),
];

const OVERHEADS: &[(&str, Origin)] = &[
    ("start_ns", Int(&["start"])),
    ("end_ns", Int(&["end"])),
    ("thread", Int(&["globalTid"])),
    ("kind", Int(&["overheadType"])),
    ("name", Name(&["nameId"])),
];

/// Tables that hold the process environment, command line, host or user names: their values are never read.
pub const SECRET: &[&str] = &["META_DATA_CAPTURE", "TARGET_INFO_SYSTEM_ENV"];

/// Tables that describe the file or that are read apart; rows in them are not "unread events".
pub const DESCRIBING: &[&str] = &[
    "META_DATA_EXPORT",
    "EXPORT_META_DATA",
    "META_DATA_CAPTURE",
    "TARGET_INFO_SYSTEM_ENV",
    "StringIds",
    "PROCESSES",
    "ThreadNames",
    "ProcessStreams",
    "ANALYSIS_DETAILS",
    "ANALYSIS_FILE",
    "TARGET_INFO_SESSION_START_TIME",
    "TARGET_INFO_GPU",
    "TARGET_INFO_CUDA_GPU",
    "TARGET_INFO_CUDA_DEVICE",
    "TARGET_INFO_CUDA_STREAM",
    "TARGET_INFO_CUDA_CONTEXT_INFO",
    "TARGET_INFO_CUDA_NULL_STREAM",
    "TARGET_INFO_NIC_INFO",
    "UnwindMethodType",
];

/// Our tables that make a recording worth reading.
pub const EVENT_TABLES: &[&str] = &["api", "kernels", "copies", "memsets", "syncs", "graphs", "ranges", "mpi", "os_calls"];

/// Our tables that mean the device did something.
pub const DEVICE_TABLES: &[&str] = &["kernels", "copies", "memsets", "graphs"];

/// Direction by copy kind (0 to 13), as indices of `directions` in `codes.csv`:
/// unknown, h2d, d2h, host to array, array to host, four inside a device, h2h, p2p, three migrations.
pub const DIRECTIONS: [i64; 14] = [0, 1, 2, 1, 2, 3, 3, 3, 3, 5, 4, 6, 7, 8];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_in_the_vocabulary() {
        for source in SOURCES {
            let spec = crate::schema::table(source.into).expect(source.into);
            for (column, _) in source.columns {
                assert!(spec.position(column).is_some(), "{}.{column}", source.into);
            }
        }
        for table in EVENT_TABLES.iter().chain(DEVICE_TABLES) {
            assert!(crate::schema::table(table).is_some(), "{table}");
        }
    }
}
