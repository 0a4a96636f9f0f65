"""A run as an OTF2 archive: what Vampir, Scalasca, Paraver's converter and
`turnbuckle.trace.readers.otf2` read.

    Trace -> calls of each thread and stream, nested -> definitions and events, by the library ``otf2`` of the Score-P project

The archive is that of the run as recorded, as Score-P would have written it: a location for each
host thread and for each stream of a device, a group for each process and for each context, regions
for calls and kernels, records of messages, and accesses to remote memory for copies
(`turnbuckle.questions.before_after.formats.archive_calls`).  Time stamps are the recording's
nanoseconds.  A call and the work that it started have Score-P's parameter ``callsite id`` in
common, with a number of its own for each call.

What a recording holds and an archive has no record for is counted: finding A502, which is also the
archive's description.

Format and library: OTF2 3.x, https://www.vi-hps.org/projects/score-p; remote memory access for
copies: ``scorep_cupti_activity.c`` of Score-P's CUDA adapter.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from turnbuckle.foundation.errors import needs
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.projection.run import Run
from turnbuckle.questions.before_after.formats.archive_calls import (
    Call,
    Lanes,
    Record,
    RegionKey,
    Stream,
    device_work,
    events,
    flushes,
    host_calls,
)
from turnbuckle.questions.before_after.formats.archive_messages import Messages, messages
from turnbuckle.trace.ids import process_number, process_of, thread_number
from turnbuckle.trace.trace import Trace

NAME: Final = "traces"
"""Name of the anchor file, without its ending; Score-P's."""
_TICKS: Final = 10**9
#: Arguments of the library's ``OTF2_ErrorCallback``: user data, file, line, function, code, format,
#: and its values.
_ERROR_CALLBACK: Final = (
    *(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_char_p),
    *(ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p),
)
#: Collectives with a role of their own; the others are collectives of another kind.
_ROLES: Final = {
    "MPI_Barrier": "BARRIER",
    "MPI_Bcast": "COLL_ONE2ALL",
    "MPI_Reduce": "COLL_ALL2ONE",
    "MPI_Allreduce": "COLL_ALL2ALL",
}


def write(run: Run, folder: Path) -> Finding | None:
    """Write an archive into an empty folder, and return what it lacks.  Raises A450 without the
    library; `OSError`, as of a full disk.
    """
    with needs("otf2"):
        import _otf2  # an extra
        import otf2
    trace, lost = run.profile.trace, Counter[str]()
    first = min(
        (
            int(f["start_ns"].min())  # type: ignore[arg-type]
            for n, f in trace.tables.items()
            if f.height and "start_ns" in f.columns
        ),
        default=0,
    )
    # the clock of an archive has no negative times, and a call at time 0 without a length is none
    # that a reader believes
    zero = first - 1 if first < 0 else 0
    lost["time of the run before or after all that is recorded"] += _beyond(run)
    contents = _Contents(trace, lost)
    missing = _in_words(lost)
    with _refusals(_otf2):
        archive = otf2.writer.Writer(str(folder), NAME, timer_resolution=_TICKS)
        try:
            archive.creator = f"turnbuckle {version('turnbuckle')}"
            archive.description = missing.detail if missing else "all that the recording holds"
            _Archive(otf2, _otf2, archive, contents, zero).write()
            # the library would begin the clock with the first event, and take the time of day of
            # the writing for that
            archive._first_timestamp = 0
            archive._realtime_timestamp = Fraction(_session_start(trace, zero), _TICKS)
            archive.close()
        finally:
            # its destructor would close a broken archive once more, where no error can be caught
            archive._handle = None
    return missing


@contextmanager
def _refusals(core: Any) -> Iterator[None]:
    """Raise `OSError` where the library met an error of the system: it prints it, and may go on as
    if the file were whole.
    """
    met: list[Any] = []

    def note(_: Any, file: Any, line: int, function: Any, code: int, text: Any, values: Any) -> int:
        met.append(core.ErrorCode(code))
        return code

    register = core.Config.conf.lib.OTF2_Error_RegisterCallback
    register.argtypes, register.restype = [ctypes.c_void_p, ctypes.c_void_p], ctypes.c_void_p
    callback = ctypes.CFUNCTYPE(ctypes.c_int, *_ERROR_CALLBACK)(note)
    before = register(ctypes.cast(callback, ctypes.c_void_p), None)
    try:
        yield
    except core.Error as error:
        if number := _of_system(core, met):
            raise OSError(number, os.strerror(number)) from error
        raise
    finally:
        register(before, None)
    if met:
        number = _of_system(core, met) or errno.EIO
        raise OSError(number, os.strerror(number))


def _of_system(core: Any, met: list[Any]) -> int:
    """Return the number of the first error of the system among those of the library; 0 where there
    is none.
    """
    names = [core.Error_GetName(code) for code in met]
    return next((int(getattr(errno, name)) for name in names if hasattr(errno, name)), 0)


def _beyond(run: Run) -> int:
    """Return 1 where the run time holds more than the recorded activities, as of a part with
    bounds.
    """
    rows = run.profile.activities.filter(run.profile.activities["row"].is_not_null())
    if not rows.height:
        return 0
    return int(
        rows["start_ns"].min() > run.profile.first_ns or rows["end_ns"].max() < run.profile.last_ns  # type: ignore[operator]
    )


def _in_words(lost: Counter[str]) -> Finding | None:
    """Return finding A502 on all that was left out; None where that is nothing."""
    counts = [(what, count) for what, count in lost.items() if count]
    return (
        finding(
            "A502",
            sum(count for _, count in counts),
            "; ".join(f"{what} {count}" for what, count in counts),
        )
        if counts
        else None
    )


def _session_start(trace: Trace, zero: int) -> int:
    """Return the time of day of the recording's time `zero` [ns since 1970]; the library's missing
    value where it is not recorded.
    """
    start = trace.facts.get("session_start_utc_ns")
    return (1 << 64) - 1 if start is None else int(start) + zero


class _Contents:
    """Contents of the archive: calls of each thread and stream, MPI, and processes."""

    def __init__(self, trace: Trace, lost: Counter[str]) -> None:
        self.trace = trace
        self.mpi: Messages = messages(trace, lost)
        tables = ("api", "kernels", "copies", "memsets", "graphs")
        processes = {
            int(process)
            for name in tables
            for process in trace.table(name)["process"].drop_nulls().unique().to_list()
        }
        processes |= {process_of(int(thread)) for thread in trace.mpi_ranks["thread"].to_list()}
        first = min(processes, default=1 << 24)
        self.streams, sites = device_work(trace, first, lost)
        calls = host_calls(trace, sites, lost)
        for thread, of_mpi in self.mpi.calls.items():
            calls.setdefault(thread, []).extend(of_mpi)
        self.flushes = flushes(trace, lost)
        numbers = sorted({*calls, *self.flushes})
        self.processes = sorted(
            processes
            | {process_of(t) for t in numbers}
            | {stream.process for stream in self.streams}
        )
        self.threads: dict[int, list[int]] = {process: [] for process in self.processes}
        for thread in numbers:
            self.threads[process_of(thread)].append(thread)
        for process, threads in self.threads.items():
            if not threads:
                threads.append(process + 1)
        self.lanes = {thread: Lanes.of(of, lost) for thread, of in calls.items()}
        self.device_lanes = {
            stream: Lanes.of(of, lost) for stream, of in sorted(self.streams.items())
        }


class _Archive:
    """Definitions and events of one archive, by the library's writer."""

    def __init__(
        self, library: Any, core: Any, archive: Any, contents: _Contents, zero: int
    ) -> None:
        self.archive, self.contents, self.zero, self.otf2, self.core = (
            archive,
            contents,
            zero,
            library,
            core,
        )
        self.definitions = archive.definitions
        self.regions: dict[RegionKey, Any] = {}
        self.groups: dict[int, Any] = {}
        self.hosts: dict[int, Any] = {}
        self.streams: dict[Stream, list[Any]] = {}
        self.window: Any = None
        self.rank_of: dict[Any, int] = {}
        self.comms: list[Any] = []

    def write(self) -> None:
        """Define all locations, then write the events of each."""
        enums, contents = self.otf2.enums, self.contents
        machine = self.definitions.system_tree_node("machine")
        nodes = contents.trace.facts.get("node_of_rank") or {}
        rank_of = {process: rank for rank, process in enumerate(contents.mpi.world)}
        threads: list[tuple[Any, list[Call], int | None]] = []
        for number, process in enumerate(contents.processes):
            node = self.definitions.system_tree_node(
                f"node {nodes.get(str(rank_of.get(process, number)), 0)}", "node", machine
            )
            name = (
                f"MPI Rank {rank_of[process]}"
                if process in rank_of
                else f"process {process_number(process)}"
            )
            group = self.groups[process] = self.definitions.location_group(
                name, enums.LocationGroupType.PROCESS, node
            )
            for thread in contents.threads[process]:
                for lane, calls in enumerate(
                    contents.lanes[thread].lanes if thread in contents.lanes else [[]]
                ):
                    label = f"thread {thread_number(thread)}" + (
                        f", calls that overlap {lane}" if lane else ""
                    )
                    location = self._location(label, enums.LocationType.CPU_THREAD, group)
                    self.hosts.setdefault(process, location)
                    threads.append((location, calls, None if lane else thread))
        self._communicators()
        self._devices()
        for location, calls, host in threads:
            self._events(
                location,
                events(calls, contents.flushes.get(host, ()) if host is not None else ()),
                None,
            )
        for stream, locations in self.streams.items():
            for location, calls in zip(locations, contents.device_lanes[stream].lanes, strict=True):
                self._events(location, events(calls), stream)

    def _location(self, name: str, kind: Any, group: Any) -> Any:
        # the library gives equal definitions one id, and two lanes may have one name
        return self.definitions.locations.create(name, kind, group=group)

    def _devices(self) -> None:
        """Define a group for each context and a location for each stream, and the window that spans
        their memory and the hosts'.
        """
        enums = self.otf2.enums
        nodes: dict[Any, Any] = {}
        groups: dict[Any, Any] = {}
        merged = self.contents.trace.table("processes").height > 0
        for stream, lanes in self.contents.device_lanes.items():
            # in merged recordings a device's number means something inside one process only
            device = (stream.process if merged else 0, stream.device)
            if device not in nodes:
                parent = self.groups[stream.process].system_tree_parent
                nodes[device] = self.definitions.system_tree_nodes.create(
                    f"device {stream.device}", "device", parent
                )
                self.definitions.system_tree_node_domain(
                    nodes[device], enums.SystemTreeDomain.ACCELERATOR_DEVICE
                )
            context = stream[:3]
            if context not in groups:
                creator = self.groups[stream.process]
                groups[context] = self.definitions.location_groups.create(
                    f"CUDA Context {stream.context}",
                    enums.LocationGroupType.ACCELERATOR,
                    nodes[device],
                    creator,
                )
            name, kind = (
                f"CUDA[{stream.device}:{stream.stream}]",
                enums.LocationType.ACCELERATOR_STREAM,
            )
            self.streams[stream] = [
                self._location(name, kind, groups[context]) for _ in lanes.lanes
            ]
        if not self.streams:
            return
        members = [
            *self.hosts.values(),
            *(location for locations in self.streams.values() for location in locations),
        ]
        self.rank_of = {location: rank for rank, location in enumerate(members)}
        kinds, cuda = enums.GroupType, enums.Paradigm.CUDA
        self.definitions.group("CUDA locations", kinds.COMM_LOCATIONS, cuda, members=members)
        group = self.definitions.group("CUDA memory", kinds.COMM_GROUP, cuda, members=members)
        self.window = self.definitions.rma_win("CUDA window", self.definitions.comm("CUDA", group))

    def _communicators(self) -> None:
        """Define the world's locations and the communicators of MPI."""
        kinds, mpi, traffic = (
            self.otf2.enums.GroupType,
            self.otf2.enums.Paradigm.MPI,
            self.contents.mpi,
        )
        if not traffic.world:
            return
        ranks = [self.hosts[process] for process in traffic.world]
        self.definitions.group("MPI locations", kinds.COMM_LOCATIONS, mpi, members=ranks)
        for number, members in enumerate(traffic.comms):
            name, inside = (
                f"communicator {number}" if number else "MPI_COMM_WORLD",
                [ranks[rank] for rank in members],
            )
            self.comms.append(
                self.definitions.comm(
                    name,
                    self.definitions.groups.create(name, kinds.COMM_GROUP, mpi, members=inside),
                )
            )

    def _region(self, key: RegionKey) -> Any:
        if key not in self.regions:
            enums = self.otf2.enums
            role = _ROLES.get(key.name, key.role)
            self.regions[key] = self.definitions.regions.create(
                key.name,
                region_role=getattr(enums.RegionRole, role),
                paradigm=getattr(enums.Paradigm, key.paradigm),
            )
        return self.regions[key]

    def _events(
        self, location: Any, all_of_it: Iterable[tuple[int, Record]], stream: Stream | None
    ) -> None:
        """Write the events of one location."""
        writer = self.archive.event_writer_from_location(location)
        # the recording's clocks are aligned: a reader must not align them by the messages
        self.core.DefWriter_WriteClockOffset(writer._def_handle, 0, 0, 0.0)
        for time, (method, *arguments) in all_of_it:
            kind, arguments = self._resolved(location, stream, method, arguments)
            getattr(writer, kind)(time - self.zero, *arguments)

    def _resolved(
        self, location: Any, stream: Stream | None, method: str, arguments: list[Any]
    ) -> tuple[str, list[Any]]:
        """Return an event with the library's definitions in place of names and numbers."""
        if method in ("enter", "leave"):
            return method, [self._region(arguments[0])]
        if method == "site":
            kind = self.otf2.enums.ParameterType.UINT64
            return "parameter_unsigned_int", [
                self.definitions.parameter("callsite id", kind),
                arguments[0],
            ]
        if method == "buffer_flush":
            return method, [arguments[0] - self.zero]
        if method.startswith("rma"):
            if method == "rma_op_complete_blocking":
                return method, [self.window, *arguments]
            assert stream is not None
            remote, *more = arguments
            return method, [
                self.window,
                self.rank_of[self._remote(location, stream, remote)],
                *more,
            ]
        if method in ("mpi_collective_end", "non_blocking_collective_complete"):
            operation, comm, root, sent, received, *request = arguments
            undefined = self.otf2.enums.Undefined
            whole = [undefined.UINT64.value if size is None else size for size in (sent, received)]
            code = getattr(self.otf2.enums.CollectiveOp, operation.upper())
            return method, [
                code,
                self.comms[comm],
                undefined.UINT32.value if root is None else root,
                *whole,
                *request,
            ]
        if method in ("mpi_send", "mpi_isend", "mpi_recv", "mpi_irecv"):
            partner, comm, *more = arguments
            return method, [partner, self.comms[comm], *more]
        return method, arguments

    def _remote(self, location: Any, stream: Stream, remote: str | int | None) -> Any:
        """Return the location whose memory a transfer reads or writes: the host's, its own, or a
        stream of another device.
        """
        if remote == "host":
            return self.hosts[stream.process]
        others = (s for s in self.streams if s.device == remote and s.process == stream.process)
        return location if remote == "own" else self.streams[next(others, stream)][0]
