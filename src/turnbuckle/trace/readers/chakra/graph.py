"""An execution graph: operations of one process and what each waits for, with times only where the file has them.

Chakra and PyTorch write such graphs.  One node is an operator on the host or a piece of work on the device.  What the two
formats say in different words stands here in one table.
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

from turnbuckle.foundation.findings import Finding, finding

Int = NDArray[np.int64]

#: Kinds of nodes.  A communication is one on the device where the file has device nodes, and the host's call for one where it has none.
KINDS: Final = ("operator", "kernel", "copy", "memset", "collective", "send", "receive", "memory", "metadata", "other")
OPERATOR, KERNEL, COPY, MEMSET, COLLECTIVE, SEND, RECEIVE, MEMORY, METADATA, OTHER = range(len(KINDS))
#: Kinds that a device does, as far as they are recorded there.
DEVICE: Final = (KERNEL, COPY, MEMSET, COLLECTIVE, SEND, RECEIVE)
MISSING: Final = -(1 << 63)
LARGEST: Final = 1 << 62
#: Beyond this no time is believed [us].
LARGEST_US: Final = (1 << 53) // 1000
#: Share of nodes with times that makes a recording of a graph; protobuf does not tell a start of 0 from none.
_TIMED: Final = 0.9
_COLUMNS: Final = ("kind", "name", "does", "process", "thread", "stream", "device", "start_ns", "duration_ns", "size_bytes", "rf", "group")
_COPY: Final = re.compile(r"Memcpy ([HDPA])to([HDPA])(?: \((\w+) -> (\w+)\))?")
_NCCL: Final = re.compile(r"^(?:void )?[nr]ccl\w*kernel", re.IGNORECASE)
_OPERATION: Final = re.compile(r"allreduce|allgather|reducescatter|alltoall|sendrecv|broadcast|reduce|scatter|gather|barrier")
_TENSOR: Final = re.compile(
    r"\[\s*\d{1,20},\s*\d{1,20},\s*\d{1,20},\s*(\d{1,19}),\s*(\d{1,4}),\s*['\"](?:cuda|cpu|hip|xpu|mps|meta)(?::(\d{1,4}))?['\"]\s*\]"
)
#: Copies inside these operators move the tensor that the operator names; others move what no node tells.
_MOVERS: Final = ("aten::copy_", "aten::_local_scalar_dense")


@dataclass(frozen=True)
class ExecutionGraph:
    """What an execution trace holds.

    Attributes
    ----------
    nodes : one row a node, in the order of the file: kind (index into `KINDS`), name and does (indices into `names`; does: what a
        communication does, as ALLREDUCE), process, thread, stream, device, start_ns and duration_ns (null where the file has none),
        size_bytes (of a communication, or of a copy), rf (PyTorch's record function id), group (index into `names`).
    source, target : rows of the nodes at both ends of every data dependency, shape (edges,): target waits for source.
    control : number of control dependencies; in these traces the operator that a node was called from.
    names : texts.
    format : ``chakra`` (protobuf) or ``pytorch-et`` (JSON).
    on_device : whether the file tells host and device nodes apart, and holds device nodes.
    facts : ``schema``, ``sha256``, ``size_bytes``.
    findings : counted flaws.
    """

    nodes: pl.DataFrame
    source: Int
    target: Int
    control: int
    names: pl.Series
    format: str
    on_device: bool
    facts: dict[str, Any]
    findings: list[Finding] = field(default_factory=list)

    def of(self, *kinds: int) -> pl.DataFrame:
        """Nodes of some kinds."""
        return self.nodes.filter(pl.col("kind").is_in(list(kinds)))

    @cached_property
    def timed(self) -> bool:
        """Whether the device's nodes have a start and a duration, all but a few of them; or, without a device, the others."""
        rows = self.of(*DEVICE) if self.on_device else self.of(OPERATOR, COLLECTIVE, SEND, RECEIVE, MEMORY)
        both = rows["start_ns"].is_not_null() & rows["duration_ns"].is_not_null()
        return rows.height > 0 and int(both.sum()) >= _TIMED * rows.height

    @property
    def measured(self) -> bool:
        """Whether nodes have durations."""
        return bool(self.nodes["duration_ns"].is_not_null().any())

    def operators(self) -> Counter[str]:
        """Host nodes by name; the part of a node that Chakra split off (``name(1)``) counts with it."""
        rows = self.of(OPERATOR).group_by("name").len()
        out: Counter[str] = Counter()
        for name, count in rows.iter_rows():
            out[re.sub(r"\(\d+\)$", "", self.names[name])] += count
        return out

    def collectives(self) -> dict[str, tuple[int, int | None]]:
        """Communications by what they do: how many, and bytes in all (None where one of them has no size)."""
        rows = self.of(COLLECTIVE, SEND, RECEIVE).group_by("does").agg(pl.len(), pl.col("size_bytes"))
        found = {self.names[d] or "(no name)": (n, None if None in sizes else sum(sizes)) for d, n, sizes in rows.iter_rows()}
        return dict(sorted(found.items()))

    def groups(self) -> int | None:
        """Communicators that communications name; None where none is named."""
        named = self.nodes["group"].drop_nulls().n_unique()
        return named or None


class Builder:
    """Nodes as they come, in columns."""

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
        """Index of a text; `MISSING` without one."""
        if text is None:
            return MISSING
        found = self._texts.get(text)
        if found is None:
            found = self._texts[text] = len(self.names)
            # JSON may spell half of a letter
            whole = text.encode("utf-8", "replace").decode("utf-8")
            self.flaws["letters"] += whole != text
            self.names.append(whole)
        return found

    def add(self, id: int, parent: int | None, waits: list[int], **values: int) -> None:
        """One node.  `parent`: the node it was called from; `waits`: ids of nodes whose data it needs."""
        row = len(self.id)
        self.id.append(id)
        # the root of a trace is its own parent
        self.parent.append(id if parent is None else parent)
        # Chakra's converter numbers nodes anew and leaves the parents of device nodes behind; the first data dependency is the operator
        self.caller.append(waits[0] if waits else self.parent[row])
        self.controls += parent is not None and parent != id
        if waits:
            self.waits.extend(waits)
            self.waiting.extend([row] * len(waits))
        for name, column in self.columns.items():
            column.append(values.get(name, MISSING))

    def graph(self, on_device: bool, facts: dict[str, Any], findings: list[Finding]) -> ExecutionGraph:
        """Everything joined: dependencies become rows, those on nodes that are not there a finding (P184)."""
        ids = np.frombuffer(self.id, np.uint64) if self.id else np.zeros(0, np.uint64)
        order = np.argsort(ids, kind="stable")
        ordered = ids[order]
        doubled = int((ordered[1:] == ordered[:-1]).sum()) if len(ids) > 1 else 0
        _, parent_there = _rows_of(np.frombuffer(self.parent, np.uint64) if self.parent else ids, order, ordered)
        caller, called = _rows_of(np.frombuffer(self.caller, np.uint64) if self.caller else ids, order, ordered)
        source, there = _rows_of(np.frombuffer(self.waits, np.uint64) if self.waits else np.zeros(0, np.uint64), order, ordered)
        target = (np.frombuffer(self.waiting, np.int64) if self.waiting else np.zeros(0, np.int64))[there]
        source = source[there]
        itself = source == target
        lost = int((~parent_there).sum()) + int((~there).sum())
        for count, what in (
            (lost, "on nodes that are not in the file"),
            (doubled, "ids that occur twice"),
            (int(itself.sum()), "of a node on itself"),
        ):
            if count:
                findings.append(finding("P184", count, what))
        nodes = pl.DataFrame({name: np.frombuffer(c, np.int64) if c else np.zeros(0, np.int64) for name, c in self.columns.items()})
        nodes = nodes.with_columns(pl.all().replace(MISSING, None))
        nodes = self._sized(nodes, caller, called)
        names = pl.Series("name", self.names, dtype=pl.String)
        return ExecutionGraph(
            nodes,
            source[~itself],
            target[~itself],
            self.controls - int((~parent_there).sum()),
            names,
            self.format,
            on_device,
            facts,
            findings,
        )

    def _sized(self, nodes: pl.DataFrame, caller: Int, there: NDArray[np.bool_]) -> pl.DataFrame:
        """Sizes of copies only where the operator that made the copy moves the tensor it names."""
        movers = [i for i, name in enumerate(self.names) if re.sub(r"\(\d+\)$", "", name) in _MOVERS]
        name = np.full(nodes.height, -1, dtype=np.int64)
        name[there] = np.frombuffer(self.columns["name"], np.int64)[caller[there]] if nodes.height else 0
        moves = pl.Series(np.isin(name, movers))
        return nodes.with_columns(size_bytes=pl.when((pl.col("kind") != COPY) | moves).then("size_bytes"))


def _rows_of(wanted: NDArray[np.uint64], order: Int, ordered: NDArray[np.uint64]) -> tuple[Int, NDArray[np.bool_]]:
    """Row of each id, and whether there is one."""
    if not len(ordered):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_)
    at = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return order[at], ordered[at] == wanted


def total(values: pl.Series) -> int:
    """The sum of whole numbers, however large; what is missing counts nothing."""
    known = values.drop_nulls()
    most = max(abs(int(known.max() or 0)), abs(int(known.min() or 0)))  # type: ignore[arg-type]
    return int(known.sum()) if most * len(known) < 1 << 63 else sum(known.to_list())


# --- words ------------------------------------------------------------------------------------------------------------


def device_kind(name: str) -> int:
    """Kind of a device node by its name, as PyTorch's profiler names them."""
    if name.startswith("Memcpy"):
        return COPY
    if name.startswith("Memset"):
        return MEMSET
    return COLLECTIVE if _NCCL.match(name) else KERNEL


def operation(name: str) -> str:
    """What a communication does, by the name of its kernel or call.

    >>> operation("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)"), operation("all_to_allv"), operation("wait")
    ('ALLREDUCE', 'ALLTOALL', '')
    """
    found = _OPERATION.search(re.sub(r"[_\W]", "", name.lower()))
    return found[0].upper() if found else ""


def copied(name: str) -> tuple[int, int, int]:
    """Direction and both memories of a copy by its name, as codes of ``codes.csv``; 0 for what the name does not tell.

    >>> copied("Memcpy HtoD (Pageable -> Device)"), copied("Memcpy PtoP")
    ((1, 1, 3), (4, 3, 3))
    """
    found = _COPY.match(name)
    if not found:
        return 0, 0, 0
    ends = {"H": 0, "D": 3, "P": 3, "A": 4}
    memory = {"pageable": 1, "pinned": 2, "device": 3, "array": 4, "managed": 5, "unified": 5}
    one, other = found[1], found[2]
    direction = {"HD": 1, "DH": 2, "DD": 3, "PP": 4, "HH": 5}.get(one + other, 0)
    source, target = (memory.get((word or "").lower(), ends[end]) for word, end in ((found[3], one), (found[4], other)))
    return direction, source, target


def tensor_bytes(*values: str) -> int:
    """Bytes of the first tensor that one of the texts names: [id, storage, offset, elements, bytes of one, device]; else `MISSING`.

    >>> tensor_bytes("[[4, 5, 0, 64, 4, 'cuda:0']]"), tensor_bytes("[True]") == MISSING
    (256, True)
    """
    for value in values:
        if found := _TENSOR.search(value):
            size = int(found[1]) * int(found[2])
            return size if size < LARGEST else MISSING
    return MISSING


def tensor_device(*values: str) -> int:
    """Number of the device of the first tensor on one; `MISSING` without any."""
    for value in values:
        for found in _TENSOR.finditer(value):
            if found[3] is not None:
                return int(found[3])
    return MISSING


def microseconds(value: object) -> int:
    """A time [us] as ns; `MISSING` for what is no time."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST_US:
        return MISSING
    return value * 1000 if isinstance(value, int) else round(value * 1000)
