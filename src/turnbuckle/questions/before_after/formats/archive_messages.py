"""MPI calls of a recording as an OTF2 archive takes them: regions, with records of the messages,
requests and collectives they concern.

Communicators are named across ranks, as the profile tells them apart
(`turnbuckle.profile.messages.mpi_calls`).  A record needs all ranks of the world in the recording,
since an archive names a rank by its location.  Calls without a record keep their times.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from turnbuckle.profile.messages.mpi_calls import communicators, operation, placed, same_call
from turnbuckle.questions.before_after.formats.archive_calls import Call, Record, RegionKey
from turnbuckle.trace.ids import process_of
from turnbuckle.trace.trace import Trace

_POINT_TO_POINT, _COLLECTIVE, _REQUEST = 0, 1, 2
_SENDS: Final = ("send", "bsend", "ssend", "rsend")
_ROOTED: Final = ("bcast", "gather", "gatherv", "scatter", "scatterv")
_AMONG_ALL: Final = ("allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw", "allreduce")
_COLLECTIVES: Final = (
    "barrier",
    *_ROOTED,
    *_AMONG_ALL,
    "reduce",
    "reduce_scatter",
    "scan",
    "exscan",
    "reduce_scatter_block",
)
_UNTOLD: Final = (
    "messages and collectives without a record: the recording lacks a rank, a partner or a "
    "communicator"
)


@dataclass
class Messages:
    """MPI calls by thread, and what they name.

    Attributes
    ----------
    calls : calls of each thread.
    world : process of each rank; empty where a rank is missing, and then no call has a record.
    comms : ranks of each communicator in the order of their ranks inside; the world is the first
        where calls name it.
    """

    calls: dict[int, list[Call]] = field(default_factory=dict)
    world: list[int] = field(default_factory=list)
    comms: list[list[int]] = field(default_factory=list)


def messages(trace: Trace, lost: Counter[str]) -> Messages:
    """Return the MPI calls of a recording with their records."""
    out = Messages(world=_world(trace, lost))
    if not trace.mpi.height:
        return out
    made = communicators(trace)
    number = _numbered(trace, made, out) if out.world else {}
    mpi = trace.mpi.with_row_index("at").with_columns(
        pl.col("at").cast(pl.Int64), does=operation(trace)
    )
    mpi = mpi.with_columns(process=process_of(pl.col("thread")))
    rows = (
        placed(mpi, made)
        .sort("at")
        .with_columns(stands=pl.Series(same_call(trace)), label=trace.text(trace.mpi))
    )
    halves: dict[int, list[dict[str, Any]]] = {}
    records = _Records(number, out.comms, lost)
    calls: dict[int, Call] = {}
    for row in sorted(rows.iter_rows(named=True), key=lambda r: (r["start_ns"], r["at"])):
        halves.setdefault(row["stands"], []).append(row)
    for stands, parts in halves.items():
        whole = next((part for part in parts if part["at"] == stands), parts[0])
        name = str(whole["label"] or "MPI_(unnamed)").replace("\0", "\N{REPLACEMENT CHARACTER}")
        end = max(part["end_ns"] for part in parts)
        calls[stands] = call = Call(whole["start_ns"], end, RegionKey(name, "MPI"))
        records.of(call, parts)
        out.calls.setdefault(whole["thread"], []).append(call)
    lost["receives that no call of the recording completes: what they received"] += (
        records.uncompleted
    )
    lost["memory of the buffers of messages"] += trace.mpi["memory"].count()
    return out


def _world(trace: Trace, lost: Counter[str]) -> list[int]:
    """Return the process of each rank, empty where the recording lacks one."""
    of = {
        rank: process_of(thread)
        for thread, rank in trace.mpi_ranks.select("thread", "rank").iter_rows()
    }
    world = [of[rank] for rank in sorted(of)]
    if sorted(of) != list(range(len(of))) or len(set(world)) < len(world):
        lost["ranks of the processes: the recording lacks some"] += len(of)
        return []
    return world


def _numbered(trace: Trace, made: pl.DataFrame, out: Messages) -> dict[int, int]:
    """Number the communicators of which all members are recorded, the largest first; by the
    profile's number.
    """
    sizes = trace.mpi_communicators.select("rank", "communicator", "size").unique()
    members = (
        made.drop_nulls("comm")
        .join(sizes, on=["rank", "communicator"], how="left")
        .sort("comm", "me")
    )
    whole: list[tuple[int, list[int]]] = []
    for (comm,), group in members.group_by("comm", maintain_order=True):
        rows = group.unique("me", keep="first", maintain_order=True)
        size = rows["size"].max()
        if (
            rows["me"].to_list() == list(range(rows.height))
            and size in (None, rows.height)
            and rows["rank"].max() < len(out.world)  # type: ignore[operator]
        ):
            whole.append((int(comm), rows["rank"].to_list()))
    whole.sort(key=lambda entry: (-len(entry[1]), entry[0]))
    out.comms.extend(ranks for _, ranks in whole)
    return {comm: number for number, (comm, _) in enumerate(whole)}


class _Records:
    """Records of the calls so far: requests that are open, and persistent ones that are
    described.
    """

    def __init__(self, number: dict[int, int], comms: list[list[int]], lost: Counter[str]) -> None:
        self.number, self.comms, self.lost = number, comms, lost
        self.requests = 0
        #: what completes each request, by process and handle
        self.open: dict[tuple[int, int], tuple[str, tuple[Any, ...]]] = {}
        self.described: dict[tuple[int, int], dict[str, Any]] = {}

    @property
    def uncompleted(self) -> int:
        """Return the number of receives that are still open."""
        return sum(method == "mpi_irecv" for method, _ in self.open.values())

    def of(self, call: Call, parts: list[dict[str, Any]]) -> None:
        """Add the records of one call, which the recording has as one row for each message or
        request.
        """
        exchange = [
            part
            for part in parts
            if part["kind"] == _POINT_TO_POINT and "sendrecv" in (part["does"] or "")
        ]
        for row in parts:
            does = row["does"] or ""
            if row["kind"] == _REQUEST:
                self._request(call, row, does)
            elif row["kind"] == _COLLECTIVE:
                self._collective(call, row, does)
            elif row["kind"] == _POINT_TO_POINT and row not in exchange:
                self._message(call, row, does)
        if exchange:
            # the half that sends is the one that is written as shorter
            exchange.sort(key=lambda row: (row["end_ns"], row["at"]))
            self._message(call, exchange[0], "send")
            self._message(call, exchange[-1], "recv")

    def _comm(self, row: dict[str, Any]) -> int | None:
        return None if row["comm"] is None else self.number.get(row["comm"])

    def _envelope(self, row: dict[str, Any]) -> tuple[int, int, int, int] | None:
        """Return partner, communicator, tag and size of a message; None, counted, where one is not
        recorded.
        """
        comm = self._comm(row)
        partner, tag, size = row["partner"], row["tag"], row["size_bytes"]
        if partner is None:
            return None  # no message: MPI_PROC_NULL
        if (
            comm is None
            or tag is None
            or size is None
            or tag < 0
            or not 0 <= partner < len(self.comms[comm])
        ):
            self.lost[_UNTOLD] += 1
            return None
        return partner, comm, tag, size

    def _new(self, row: dict[str, Any], method: str, more: tuple[Any, ...]) -> int:
        self.requests += 1
        if row["request"] is not None:
            self.open[row["process"], row["request"]] = method, (*more, self.requests)
        return self.requests

    def _message(self, call: Call, row: dict[str, Any], does: str) -> None:
        if does.endswith("_init"):
            if row["request"] is not None:
                self.described[row["process"], row["request"]] = row
            return
        envelope = self._envelope(row)
        if envelope is None:
            return
        if does in _SENDS:
            call.first.append(("mpi_send", *envelope))
        elif does.removeprefix("i") in _SENDS:
            call.first.append(("mpi_isend", *envelope, self._new(row, "mpi_isend_complete", ())))
        elif does in ("recv", "mrecv"):
            call.last.append(("mpi_recv", *envelope))
        elif does in ("irecv", "imrecv"):
            call.first.append(("mpi_irecv_request", self._new(row, "mpi_irecv", envelope)))
        else:
            self.lost[_UNTOLD] += 1

    def _collective(self, call: Call, row: dict[str, Any], does: str) -> None:
        comm, started = self._comm(row), does.startswith("i") and does[1:] in _COLLECTIVES
        if comm is None or does.removeprefix("i") not in _COLLECTIVES or (row["root"] or 0) < 0:
            self.lost[_UNTOLD] += 1
            return
        about = (
            does.removeprefix("i") if started else does,
            comm,
            row["root"],
            row["size_bytes"],
            row["receive_bytes"],
        )
        if started:
            call.first.append(
                (
                    "non_blocking_collective_request",
                    self._new(row, "non_blocking_collective_complete", about),
                )
            )
        else:
            call.first.append(("mpi_collective_begin",))
            call.last.append(("mpi_collective_end", *about))

    def _request(self, call: Call, row: dict[str, Any], does: str) -> None:
        key = row["process"], row["request"]
        if does in ("start", "startall"):
            if (begun := self.described.get(key)) is not None:
                about = {c: begun[c] for c in ("partner", "tag", "size_bytes", "comm")}
                self._message(call, {**row, **about}, "i" + begun["does"].removesuffix("_init"))
        elif (completes := self.open.pop(key, None)) is not None:
            method, more = completes
            record: Record = (method, *more)
            call.last.append(record)
