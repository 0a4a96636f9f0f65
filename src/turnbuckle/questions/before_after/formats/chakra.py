"""A run as an execution trace of MLCommons Chakra: a node for each activity and for each wait that
lasts, and what each waits for.

    Steps -> nodes with ``data_deps`` -> protobuf, each node behind its length

A Chakra node begins when all nodes that it depends on have ended, and takes its duration.  The
nodes here keep that rule for the whole run, GPU included: a kernel depends on the delivery of its
launch and on the work before it on its stream; a call that waits ends with a node that depends on
the work it waits for.  So the longest path through ``data_deps`` is the run time.  Work of the host
between calls, deliveries, returns from waits and what no rule explains are nodes of their own.

``start_time_micros`` and ``duration_micros`` are whole microseconds.  Attributes keep the
nanoseconds: ``duration_ns`` of each node, and ``activity_start_ns`` and ``activity_ns`` of the
whole activity, of which a call that waits shows only its own part as duration.

Errors:

    A483  a run of several ranks; the format has one file a rank

Format: ``et_def.proto`` of MLCommons Chakra, schema 0.0.4.  What its own converter leaves out:
mlcommons/chakra issue 215.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any, BinaryIO, Final

import numpy as np

from turnbuckle.foundation.errors import error_of
from turnbuckle.profile.dependencies.graph import EDGES
from turnbuckle.questions.before_after.formats.steps import Steps
from turnbuckle.questions.before_after.formats.wire import chunk, number, packed, text, varint
from turnbuckle.show.text import clean, terms
from turnbuckle.trace.ids import thread_number
from turnbuckle.trace.readers.chakra.graph import operation
from turnbuckle.trace.readers.chakra.reader import COLLECTIVES, PROJECTED_ON, WRITER
from turnbuckle.trace.window import numbered_ranks

#: Fields of ``AttributeProto`` by the type of the value.
_INT64, _BOOL, _STRING = 9, 27, 29
#: ``NodeType``.
_COMP_NODE, _COMM_COLL_NODE = 4, 7
_WAITS: Final = terms("step of the critical path")
_UNEXPLAINED: Final = "unexplained"
#: Letters of a copy's ends, and its memories where the recording names none.
_COPIES: Final = {
    "copy_h2d": ("HtoD", "pageable", "device"),
    "copy_d2h": ("DtoH", "device", "pageable"),
    "copy_d2d": ("DtoD", "device", "device"),
    "copy_p2p": ("PtoP", "device", "device"),
    "copy_h2h": ("HtoH", "pageable", "pageable"),
    "migration": ("HtoD", "managed", "device"),
}
_LONGEST_NAME: Final = 4096


def stream(steps: Steps, sink: BinaryIO) -> None:
    """Write the trace.  Raises A483."""
    for message in messages(steps):
        sink.write(varint(len(message)) + message)


def messages(steps: Steps) -> Iterator[bytes]:
    """Yield the metadata, then the nodes, each after those that it depends on.  Raises A483."""
    trace = steps.profile.trace
    if steps.ranks > 1 and "rank" not in trace.facts.get("part", {}):
        ranks = numbered_ranks(trace)
        each = ", ".join(f"--rank {rank} -o run.{rank}.et" for rank in list(ranks)[:2])
        raise error_of("A483", found=f"{steps.ranks} ranks", each=each)
    about = [
        _attribute("writer", f"{WRITER}{version('turnbuckle')}"),
        _attribute("run_time_ns", steps.run_time_ns),
    ]
    if steps.projected_on:
        about.append(_attribute(PROJECTED_ON, clean(steps.projected_on, 120)))
    yield text(1, "0.0.4") + b"".join(chunk(2, attribute) for attribute in about)
    yield from _Nodes(steps).all()


def _attribute(name: str, value: int | str | bool) -> bytes:
    if isinstance(value, bool):
        return text(1, name) + number(_BOOL, value)
    return text(1, name) + (
        number(_INT64, value) if isinstance(value, int) else text(_STRING, value)
    )


class _Nodes:
    """Nodes of a run as they are made: the nodes at whose end each instant happens."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.time_ns: list[int] = steps.time_ns.tolist()
        self.count = 0
        #: nodes of which the last to end is the instant; none at the run's start
        self.happens: dict[int, tuple[int, ...]] = {0: ()}
        self.activities = list(steps.rows.iter_rows(named=True))
        self.correlation = _correlations(steps)

    def all(self) -> Iterator[bytes]:
        """Yield every node."""
        graph = self.steps.graph
        by_target = np.argsort(graph.target, kind="stable")
        first = np.searchsorted(graph.target[by_target], np.arange(len(self.time_ns) + 1)).tolist()
        edges, source, lag = by_target.tolist(), graph.source.tolist(), graph.lag_ns.tolist()
        lasting = np.isin(graph.kind, [EDGES.index("run"), EDGES.index("call")]).tolist()
        residual, kinds = (
            graph.residual_ns.tolist(),
            [(*EDGES, "order")[code] for code in graph.kind.tolist()],
        )
        for instant in self._order():
            if not instant:
                continue
            happens: set[int] = set()
            worked = instant % 2 == 1
            for edge in edges[first[instant] : first[instant + 1]]:
                before = self.happens[source[edge]]
                if lasting[edge] and not worked and source[edge] == instant - 1:
                    yield self._activity((instant - 1) // 2, before, lag[edge])
                    happens.add(self.count)
                    worked = True
                elif lag[edge]:
                    begin = self.time_ns[source[edge]]
                    yield self._wait((instant - 1) // 2, kinds[edge], before, begin, lag[edge])
                    happens.add(self.count)
                else:
                    happens.update(before)
            if not worked:
                yield self._activity((instant - 1) // 2, self.happens[instant - 1], 0)
                happens.add(self.count)
            if residual[instant]:
                begin = self.time_ns[instant] - residual[instant]
                yield self._wait(
                    (instant - 1) // 2, "", tuple(sorted(happens)), begin, residual[instant]
                )
                happens = {self.count}
            self.happens[instant] = tuple(sorted(happens))
        if self.steps.beyond_ns:
            last = int(np.argmax(self.steps.time_ns))
            yield self._wait(
                max((last - 1) // 2, 0),
                "",
                self.happens[last],
                self.time_ns[last],
                self.steps.beyond_ns,
            )

    def _order(self) -> list[int]:
        """Return the instants such that each comes after all that it waits for."""
        graph = self.steps.graph
        waiting = np.bincount(graph.target, minlength=len(self.time_ns)).tolist()
        by_source = np.argsort(graph.source, kind="stable")
        first = np.searchsorted(graph.source[by_source], np.arange(len(self.time_ns) + 1)).tolist()
        after = graph.target[by_source].tolist()
        order = [v for v in range(len(self.time_ns)) if not waiting[v]]
        for v in order:  # grows while it is walked
            for target in after[first[v] : first[v + 1]]:
                waiting[target] -= 1
                if not waiting[target]:
                    order.append(target)
        return order

    def _node(
        self,
        name: str,
        kind: int,
        before: tuple[int, ...],
        begin_ns: int,
        lasts_ns: int,
        **attributes: Any,
    ) -> bytes:
        self.count += 1
        begin_us = begin_ns // 1000
        # protobuf does not tell a start of 0 from none, and ends that are cut to whole microseconds
        # do not drift
        times = number(6, begin_us + 1) + number(7, (begin_ns + lasts_ns) // 1000 - begin_us)
        listed = [
            chunk(10, _attribute(k, v))
            for k, v in {**attributes, "duration_ns": lasts_ns}.items()
            if v is not None
        ]
        return (
            number(1, self.count)
            + text(2, name)
            + number(3, kind)
            + packed(5, before)
            + times
            + b"".join(listed)
        )

    def _wait(
        self, activity: int, kind: str, before: tuple[int, ...], begin_ns: int, lasts_ns: int
    ) -> bytes:
        """Return a node for a wait that lasts: on the host's thread where it leads to a call, else
        nowhere.
        """
        name = _WAITS.get(kind, _UNEXPLAINED) if kind else _UNEXPLAINED
        thread = self.activities[activity]["thread"]
        place = {"tid": None if thread is None else thread_number(thread)}
        return self._node(
            name, _COMP_NODE, before, begin_ns, lasts_ns, is_cpu_op=True, cat="wait", **place
        )

    def _activity(self, activity: int, before: tuple[int, ...], lasts_ns: int) -> bytes:
        """Return the node of an activity, of which `lasts_ns` is its own."""
        row = self.activities[activity]
        begin, end = self.time_ns[2 * activity + 1], self.time_ns[2 * activity + 2]
        whole = {
            "activity_start_ns": begin,
            "activity_ns": end - begin,
            "correlation": self.correlation[activity],
        }
        name = clean(row["label"] or row["kind"], _LONGEST_NAME)
        if row["stream"] is None and row["thread"] is not None:
            call = {
                "tid": thread_number(row["thread"]),
                "cat": "mpi" if row["category"] == "mpi" else "cuda_runtime",
            }
            return self._node(
                name, _COMP_NODE, before, begin, lasts_ns, is_cpu_op=True, **call, **whole
            )
        kind, more = _COMP_NODE, {"bytes": row["size_bytes"]}
        if row["kind"] in _COPIES:
            name = _copy_name(row)
        elif row["kind"] == "memset":
            name = "Memset (Device)"
        elif (does := operation(name)) in COLLECTIVES and "nccl" in name.lower():
            kind, more = (
                _COMM_COLL_NODE,
                {"comm_type": COLLECTIVES.index(does), "comm_size": row["size_bytes"]},
            )
        place = {"stream": row["stream"], "device": row["device"]}
        return self._node(
            name, kind, before, begin, lasts_ns, is_cpu_op=False, **place, **more, **whole
        )


def _copy_name(row: dict[str, Any]) -> str:
    """Return the name by which PyTorch's profiler calls a copy: its direction and both memories."""
    letters, source, target = _COPIES[row["kind"]]
    host = str(row["memory"]) if row["memory"] in ("pageable", "pinned", "managed") else None
    if row["direction"] == "migration_d2h":
        letters, source, target = "DtoH", "device", "managed"
    elif row["kind"] == "copy_h2d":
        source = host or source
    elif row["kind"] == "copy_d2h":
        target = host or target
    return f"Memcpy {letters} ({source.capitalize()} -> {target.capitalize()})"


def _correlations(steps: Steps) -> list[int | None]:
    """Return a number for each call and for what it started on a device: that of the call among the
    activities.
    """
    graph = steps.graph
    out: list[int | None] = [None] * len(graph.activity)
    delivers = np.flatnonzero((graph.kind == EDGES.index("deliver")) & (graph.source > 0))
    for work, call in zip(
        graph.owner[delivers].tolist(), ((graph.source[delivers] - 1) // 2).tolist(), strict=True
    ):
        out[work] = out[call] = call + 1
    return out
