"""Kernels of ranks that share a GPU: each rank that has one there gets an even share of its time
while several have.

This is how a GPU serves processes in turns, in slices much shorter than the kernels.  Kernels of
one rank run beside each other as recorded.  With k ranks on a GPU all its kernels progress at 1/k
of their speed, so one clock, which advances by dt / k, tells when each is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Float, Int
from turnbuckle.profile.dependencies.graph import EDGE, Graph

#: Relative error of a time that sums of instants leave.
_ROUNDING: Final = 1e-6


@dataclass(frozen=True)
class SharedGpus:
    """Kernels of the ranks that share a GPU with another; arrays of shape (kernels,).

    Attributes
    ----------
    activity : index of each kernel among the activities of the graph.
    gpu, rank : GPU on which it runs, and the rank whose it is.
    most : most ranks on one GPU.
    """

    activity: Int
    gpu: Int
    rank: Int
    most: int

    def stretched(self, begins: Float, seconds: Float) -> Float:
        """Return how many times as long each kernel takes beside the others.

        Parameters
        ----------
        begins, seconds : begin of each kernel, and its time alone [s], shape (kernels,).

        >>> import numpy as np
        >>> two = SharedGpus(np.array([0, 1]), np.array([0, 0]), np.array([0, 1]), 2)
        >>> two.stretched(np.array([0.0, 60.0]), np.array([100.0, 40.0])).tolist()
        [1.4, 2.0]
        """
        ends = np.empty(len(begins))
        order = np.lexsort((begins, self.gpu))
        for kernels in np.split(order, np.flatnonzero(np.diff(self.gpu[order])) + 1):
            ends[kernels] = _ends(begins[kernels], seconds[kernels], self.rank[kernels])
        stretched = np.divide(ends - begins, seconds, out=np.ones(len(begins)), where=seconds > 0)
        return np.where(stretched > 1.0 + _ROUNDING, stretched, 1.0)


def _ends(begins: Float, seconds: Float, rank: Int) -> Float:
    """Return when kernels of one GPU end [s], in the order of their begins."""
    ends, running = begins + seconds, dict[int, int]()
    shared_clock, now = 0.0, 0.0
    due: list[tuple[float, int]] = []

    def until(instant: float) -> None:
        """End all kernels that are over by then."""
        nonlocal shared_clock, now
        while due:
            ends_at = now + (due[0][0] - shared_clock) * len(running)
            if ends_at > instant:
                break
            shared_clock, kernel = heappop(due)
            ends[kernel] = now = ends_at
            running[owners[kernel]] -= 1
            if not running[owners[kernel]]:
                del running[owners[kernel]]
        if running:
            shared_clock += (instant - now) / len(running)
        now = instant

    owners = rank.tolist()
    for kernel, (begin, alone) in enumerate(zip(begins.tolist(), seconds.tolist(), strict=True)):
        until(begin)
        running[owners[kernel]] = running.get(owners[kernel], 0) + 1
        heappush(due, (shared_clock + alone, kernel))
    last = begins[-1] + len(rank) * float(seconds.sum()) if len(begins) else 0.0
    until(last)
    return ends


class DeviceEdges:
    """Own edges of kernels of ranks that share a GPU, and of copies that are gone."""

    def __init__(self, graph: Graph, shared: SharedGpus | None, gone: Int) -> None:
        self._shared, self._edges = shared, len(graph.kind)
        self._gone = np.isin(graph.kind, [EDGE["run"], EDGE["deliver"]]) & np.isin(
            graph.owner, gone
        )
        if self._shared is None:
            return
        kernel = np.full(len(graph.activity), -1)
        kernel[self._shared.activity] = np.arange(len(self._shared.activity))
        run = np.flatnonzero((graph.kind == EDGE["run"]) & (kernel[graph.owner] >= 0))
        self._run, self._kernel = run, kernel[graph.owner[run]]
        self._seconds = np.zeros(len(self._shared.activity))
        self._seconds[self._kernel] = graph.lag_ns[run] * 1e-9

    def stretched(self, instants: Float) -> Float:
        """Return how many times as long every edge takes where activities begin at these instants
        [s], shape (edges,).
        """
        out = np.ones(self._edges)
        if self._shared is not None:
            begins = instants[2 * self._shared.activity + 1]
            out[self._run] = self._shared.stretched(begins, self._seconds)[self._kernel]
        out[self._gone] = 0.0
        return out
