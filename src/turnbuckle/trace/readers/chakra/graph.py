"""Execution graph: operations of one process and the operations that each waits for, with times
only where the file has them.

Chakra and PyTorch write such graphs.  One node is an operator on the host or a piece of work on the
device.  Both formats become one table of nodes.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.foundation.findings import Finding, finding

#: Kinds of nodes.  A communication is work of the device where the file has device nodes, else the
#: host's call for it.
KINDS: Final = (
    "operator",
    "kernel",
    "copy",
    "memset",
    "collective",
    "send",
    "receive",
    "memory",
    "metadata",
    "other",
)
OPERATOR, KERNEL, COPY, MEMSET, COLLECTIVE, SEND, RECEIVE, MEMORY, METADATA, OTHER = range(
    len(KINDS)
)
#: Kinds of work that a device does, where the file has device nodes.
DEVICE: Final = (KERNEL, COPY, MEMSET, COLLECTIVE, SEND, RECEIVE)
MISSING: Final = -(1 << 63)
LARGEST: Final = 1 << 62
#: Largest believable time [us].
LARGEST_US: Final = (1 << 53) // 1000
#: Least share of nodes with times in a recording; below 1, because protobuf does not distinguish a
#: start of 0 from none.
_TIMED: Final = 0.9
_PLACE: Final = ("kind", "name", "does", "process", "thread", "stream", "device")
_ACTIVITY: Final = ("activity_start_ns", "activity_ns", "correlation", "call")
_COLUMNS: Final = (*_PLACE, "start_ns", "duration_ns", "size_bytes", "rf", "group", *_ACTIVITY)
_COPY: Final = re.compile(r"Memcpy ([HDPA])to([HDPA])(?: \((\w+) -> (\w+)\))?")
_NCCL: Final = re.compile(r"^(?:void )?[nr]ccl\w*kernel", re.IGNORECASE)
_OPERATION: Final = re.compile(
    r"allreduce|allgather|reducescatter|alltoall|sendrecv|broadcast|reduce|scatter|gather|barrier"
)
_TENSOR: Final = re.compile(
    r"\[\s*\d{1,20},\s*\d{1,20},\s*\d{1,20},\s*(\d{1,19}),\s*(\d{1,4}),\s*['\"](?:cuda|cpu|hip|xpu|mps|meta)(?::(\d{1,4}))?['\"]\s*\]"
)
#: Operators whose copies move the tensor that the operator names; the size of other copies is
#: unknown.
_MOVERS: Final = ("aten::copy_", "aten::_local_scalar_dense")


@dataclass(frozen=True)
class ExecutionGraph:
    """Contents of an execution trace."""

    #: one row per node, in the order of the file: kind (index into `KINDS`), name and does (indices
    #: into `names`; does: the operation of a communication, as ALLREDUCE), process, thread, stream,
    #: device, start_ns and duration_ns (null where the file has none), size_bytes (of a
    #: communication, or of a copy), rf (PyTorch's record function id), group (index into `names`);
    #: where Turnbuckle wrote the file activity_start_ns and activity_ns (begin and length of an
    #: activity, null of a wait), correlation, call (index into ``CALLS``)
    nodes: pl.DataFrame
    #: source, target: rows of the nodes at both ends of every data dependency, shape (edges,):
    #: target waits for source
    source: Int
    target: Int
    #: number of control dependencies; in these traces they name the operator that called a node
    control: int
    names: pl.Series
    format: str  #: ``chakra`` (protobuf) or ``pytorch-et`` (JSON)
    on_device: bool  #: whether the file distinguishes host and device nodes, and holds device nodes
    facts: dict[str, Any]  #: ``schema``, ``sha256``, ``size_bytes``
    findings: list[Finding] = field(default_factory=list)

    def of(self, *kinds: int) -> pl.DataFrame:
        """Return the nodes of some kinds."""
        return self.nodes.filter(pl.col("kind").is_in(list(kinds)))

    @cached_property
    def timed(self) -> bool:
        """Return whether nearly all device nodes have a start and a duration; without device nodes,
        whether nearly all others have.
        """
        rows = (
            self.of(*DEVICE)
            if self.on_device
            else self.of(OPERATOR, COLLECTIVE, SEND, RECEIVE, MEMORY)
        )
        complete = rows["start_ns"].is_not_null() & rows["duration_ns"].is_not_null()
        return rows.height > 0 and int(complete.sum()) >= _TIMED * rows.height

    @property
    def exact(self) -> bool:
        """Return whether nodes state activities to the nanosecond, as Turnbuckle writes them."""
        return bool(self.nodes["activity_ns"].is_not_null().any())

    @property
    def measured(self) -> bool:
        """Return whether any node has a duration."""
        return bool(self.nodes["duration_ns"].is_not_null().any())

    def operators(self) -> Counter[str]:
        """Return the number of host nodes by name; a node that Chakra split (``name(1)``) counts
        under its name.
        """
        rows = self.of(OPERATOR).group_by("name").len()
        out: Counter[str] = Counter()
        for name, count in rows.iter_rows():
            out[re.sub(r"\(\d+\)$", "", self.names[name])] += count
        return out

    def collectives(self) -> dict[str, tuple[int, int | None]]:
        """Return, for each operation of communications, their number and their bytes in all (None
        where one of them has no size).
        """
        rows = (
            self.of(COLLECTIVE, SEND, RECEIVE).group_by("does").agg(pl.len(), pl.col("size_bytes"))
        )
        totals = {
            self.names[d] or "(no name)": (n, None if None in sizes else sum(sizes))
            for d, n, sizes in rows.iter_rows()
        }
        return dict(sorted(totals.items()))

    def groups(self) -> int | None:
        """Return the number of communicators that communications name; None where none is named."""
        named = self.nodes["group"].drop_nulls().n_unique()
        return named or None


class Builder:
    """Growing columns of an execution graph's nodes."""

    def __init__(self, format: str) -> None:
        self.format = format
        self.columns = {name: array("q") for name in _COLUMNS}
        self.id = array("Q")
        self.parent, self.caller = array("Q"), array("Q")
        self.waits, self.waiting = array("Q"), array("q")
        self._texts: dict[str, int] = {}
        self.names: list[str] = []
        self.flaws: Counter[str] = Counter()
        self.controls = 0

    def __len__(self) -> int:
        return len(self.id)

    def text(self, text: str | None) -> int:
        """Return the index of a text; `MISSING` without one."""
        if text is None:
            return MISSING
        index = self._texts.get(text)
        if index is None:
            index = self._texts[text] = len(self.names)
            # a JSON escape may be half of a surrogate pair
            whole = text.encode("utf-8", "replace").decode("utf-8")
            self.flaws["letters"] += whole != text
            self.names.append(whole)
        return index

    def add(self, id: int, parent: int | None, waits: list[int], **values: int) -> None:
        """Add one node.  `parent` is the node that called it; `waits` are the ids of nodes whose
        data it needs.
        """
        row = len(self.id)
        self.id.append(id)
        # a node without a parent refers to itself, as the root of a trace does
        self.parent.append(id if parent is None else parent)
        # Chakra's converter numbers nodes anew and leaves the parents of device nodes behind; the
        # first data dependency is the operator
        self.caller.append(waits[0] if waits else self.parent[row])
        self.controls += parent is not None and parent != id
        if waits:
            self.waits.extend(waits)
            self.waiting.extend([row] * len(waits))
        for name, column in self.columns.items():
            column.append(values.get(name, MISSING))

    def graph(
        self, on_device: bool, facts: dict[str, Any], findings: list[Finding]
    ) -> ExecutionGraph:
        """Return the graph: dependencies become rows; those on nodes that are not there become a
        finding (P184).
        """
        ids = np.frombuffer(self.id, np.uint64) if self.id else np.zeros(0, np.uint64)
        order = np.argsort(ids, kind="stable")
        ordered = ids[order]
        doubled = int((ordered[1:] == ordered[:-1]).sum()) if len(ids) > 1 else 0
        _, parent_exists = _rows_of(
            np.frombuffer(self.parent, np.uint64) if self.parent else ids, order, ordered
        )
        caller, called = _rows_of(
            np.frombuffer(self.caller, np.uint64) if self.caller else ids, order, ordered
        )
        source, exists = _rows_of(
            np.frombuffer(self.waits, np.uint64) if self.waits else np.zeros(0, np.uint64),
            order,
            ordered,
        )
        target = (np.frombuffer(self.waiting, np.int64) if self.waiting else np.zeros(0, np.int64))[
            exists
        ]
        source = source[exists]
        itself = source == target
        lost = int((~parent_exists).sum()) + int((~exists).sum())
        for count, what in (
            (lost, "on nodes that are not in the file"),
            (doubled, "ids that occur twice"),
            (int(itself.sum()), "of a node on itself"),
        ):
            if count:
                findings.append(finding("P184", count, what))
        nodes = pl.DataFrame(
            {
                name: np.frombuffer(c, np.int64) if c else np.zeros(0, np.int64)
                for name, c in self.columns.items()
            }
        )
        nodes = nodes.with_columns(pl.all().replace(MISSING, None))
        nodes = self._sized(nodes, caller, called)
        names = pl.Series("name", self.names, dtype=pl.String)
        return ExecutionGraph(
            nodes,
            source[~itself],
            target[~itself],
            self.controls - int((~parent_exists).sum()),
            names,
            self.format,
            on_device,
            facts,
            findings,
        )

    def _sized(self, nodes: pl.DataFrame, caller: Int, has_caller: Bool) -> pl.DataFrame:
        """Keep sizes of copies only where the operator that made the copy moves the tensor that it
        names.
        """
        movers = [
            i for i, name in enumerate(self.names) if re.sub(r"\(\d+\)$", "", name) in _MOVERS
        ]
        name = np.full(nodes.height, -1, dtype=np.int64)
        name[has_caller] = (
            np.frombuffer(self.columns["name"], np.int64)[caller[has_caller]] if nodes.height else 0
        )
        moves = pl.Series(np.isin(name, movers))
        stated = (pl.col("kind") != COPY) | moves | pl.col("activity_ns").is_not_null()
        return nodes.with_columns(size_bytes=pl.when(stated).then("size_bytes"))


def _rows_of(
    wanted: NDArray[np.uint64], order: Int, ordered: NDArray[np.uint64]
) -> tuple[Int, Bool]:
    """Return the row of each id, and whether there is one."""
    if not len(ordered):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_)
    place = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return order[place], ordered[place] == wanted


def total(values: pl.Series) -> int:
    """Return the sum of integers, however large; nulls count nothing."""
    present = values.drop_nulls()
    most = max(abs(int(present.max() or 0)), abs(int(present.min() or 0)))  # type: ignore[arg-type]
    return int(present.sum()) if most * len(present) < 1 << 63 else sum(present.to_list())


# --- words ----------------------------------------------------------------------------------------


def device_kind(name: str) -> int:
    """Return the kind of a device node by its name, as PyTorch's profiler names them."""
    if name.startswith("Memcpy"):
        return COPY
    if name.startswith("Memset"):
        return MEMSET
    return COLLECTIVE if _NCCL.match(name) else KERNEL


def operation(name: str) -> str:
    """Return the operation of a communication, by the name of its kernel or call.

    >>> operation("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)"), operation("all_to_allv"), operation("wait")
    ('ALLREDUCE', 'ALLTOALL', '')
    """
    match = _OPERATION.search(re.sub(r"[_\W]", "", name.lower()))
    return match[0].upper() if match else ""


def copied(name: str) -> tuple[int, int, int]:
    """Return direction and both memories of a copy by its name, as codes of ``codes.csv``; 0 for
    what the name does not state.

    >>> copied("Memcpy HtoD (Pageable -> Device)"), copied("Memcpy PtoP")
    ((1, 1, 3), (4, 3, 3))
    """
    match = _COPY.match(name)
    if not match:
        return 0, 0, 0
    ends = {"H": 0, "D": 3, "P": 3, "A": 4}
    memory = {"pageable": 1, "pinned": 2, "device": 3, "array": 4, "managed": 5, "unified": 5}
    source_letter, target_letter = match[1], match[2]
    direction = {"HD": 1, "DH": 2, "DD": 3, "PP": 4, "HH": 5}.get(source_letter + target_letter, 0)
    source, target = (
        memory.get((word or "").lower(), ends[end])
        for word, end in ((match[3], source_letter), (match[4], target_letter))
    )
    return direction, source, target


def tensor_bytes(*values: str) -> int:
    """Return the bytes of the first tensor in the texts, [id, storage, offset, elements, bytes of
    an element, device]; else `MISSING`.

    >>> tensor_bytes("[[4, 5, 0, 64, 4, 'cuda:0']]"), tensor_bytes("[True]") == MISSING
    (256, True)
    """
    for value in values:
        if match := _TENSOR.search(value):
            size = int(match[1]) * int(match[2])
            return size if size < LARGEST else MISSING
    return MISSING


def tensor_device(*values: str) -> int:
    """Return the number of the device of the first tensor on one; `MISSING` without any."""
    for value in values:
        for match in _TENSOR.finditer(value):
            if match[3] is not None:
                return int(match[3])
    return MISSING


def microseconds(value: object) -> int:
    """Return a time [us] as ns; `MISSING` for anything but a believable time."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value <= LARGEST_US
    ):
        return MISSING
    return value * 1000 if isinstance(value, int) else round(value * 1000)
