"""Sparse triangular solve over GPU counts: run time as is and changed, where more GPUs stop paying,
and the gain of each change.

The model is that of Austin et al. 2021 (ECP report), sections 4.1, 5.4, 7.4 and 8.4
(`turnbuckle.papers.models.dag.tasks`). docs/models/dag.md states each choice that the paper leaves
open.

Errors: A043, A156, A157.

Findings: A346.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np

from turnbuckle.foundation.arrays import Int
from turnbuckle.foundation.errors import did_you_mean, error_of
from turnbuckle.foundation.fields import SCHEMA_VERSION, Declared
from turnbuckle.foundation.findings import Finding, finding, merge
from turnbuckle.foundation.units import show
from turnbuckle.papers.models.dag.graph import TaskGraph, graph_work
from turnbuckle.papers.models.dag.supernodes import MOST_GPUS, Supernodes
from turnbuckle.papers.models.dag.tasks import (
    LAYOUTS,
    Dealt,
    Layout,
    Queue,
    Run,
    Variant,
    What,
    Work,
    solve,
    variants,
    work,
)
from turnbuckle.papers.models.dag.tiers import NETWORK, Fabric

#: Largest GPU count that is tried unless the user asks for others.
FARTHEST: Final = 64
#: Longest wait inside a GPU [s].
_LONGEST_WAIT: Final = 3600.0
#: A smaller count is good enough if its run time is within this share of the best one.
NEARLY: Final = 0.05


def gpu_counts(gpus_per_node: int, most: int = FARTHEST) -> list[int]:
    """Return every count up to a node, then 2, 3, 4, 6, 8, 12 ... whole nodes.

    >>> gpu_counts(6)
    [1, 2, 3, 4, 5, 6, 12, 18, 24, 36, 48]
    """
    nodes = sorted({n for k in range(17) for n in (1 << k, 3 << k)} - {1})
    return [
        *range(1, min(gpus_per_node, most) + 1),
        *(n * gpus_per_node for n in nodes if n * gpus_per_node <= most),
    ]


@dataclass(frozen=True)
class Gain(Declared):
    """Ratio of two run times, with both sides named (decisions D16 and D17)."""

    what: What
    ratio: float
    of: Run
    to: Run
    changes: str


@dataclass(frozen=True)
class Solves(Declared):
    """Solves of one matrix on several numbers of GPUs, as is and changed."""

    schema_version: ClassVar[int] = SCHEMA_VERSION

    supernodes: Supernodes | None
    fabric: Fabric
    layout: str
    variants: tuple[Variant, ...]
    runs: tuple[Run, ...]
    dependency: float = 0.0
    one_at_a_time: bool = False
    findings: tuple[Finding, ...] = ()
    graph: TaskGraph | None = None
    ranks_per_gpu: int | None = None

    @property
    def name(self) -> str:
        """Return the name of the matrix, or of the table of tasks."""
        return (
            self.supernodes.triangle.name
            if self.supernodes is not None
            else self.graph.name
            if self.graph is not None
            else ""
        )

    def of(self, what: What) -> list[Run]:
        """Return the runs of one variant, by GPU count."""
        return [run for run in self.runs if run.what == what]

    def best(self, what: What = "as is") -> Run:
        """Return the sweet spot: the fastest run of a variant, and of equally fast ones the one
        with the fewest GPUs.
        """
        return min(self.of(what), key=lambda run: (run.seconds, run.gpus))

    def enough(self, what: What = "as is") -> Run:
        """Return the run with the fewest GPUs that is within `NEARLY` of the sweet spot."""
        most = self.best(what).seconds * (1.0 + NEARLY)
        return min((run for run in self.of(what) if run.seconds <= most), key=lambda run: run.gpus)

    def gains(self) -> list[Gain]:
        """Return two gains of each change: best against best, and the largest effect at one GPU
        count.
        """
        out: list[Gain] = []
        now = {run.gpus: run for run in self.of("as is")}
        for variant in self.variants[1:]:
            changed_runs = self.of(variant.what)
            best, changed = self.best(), self.best(variant.what)
            out.append(
                Gain(
                    variant.what,
                    _ratio(best.seconds, changed.seconds),
                    best,
                    changed,
                    variant.words,
                )
            )
            most = max(
                changed_runs,
                key=lambda run: (
                    abs(math.log(_ratio(now[run.gpus].seconds, run.seconds))),
                    -run.gpus,
                ),
            )
            out.append(
                Gain(
                    variant.what,
                    _ratio(now[most.gpus].seconds, most.seconds),
                    now[most.gpus],
                    most,
                    variant.words,
                )
            )
        return out

    def sentence(self) -> str:
        """Return the answer in one sentence."""
        best, enough, counts = self.best(), self.enough(), [run.gpus for run in self.of("as is")]
        name, time = self.name, show(best.seconds, "s")
        if len(counts) == 1:
            return f"{name}: {time} on {_gpus(best.gpus)}"
        if best.gpus == counts[0]:
            return f"{name}: fastest on {_gpus(best.gpus)}, {time}; more do not pay"
        first = self.of("as is")[0]
        most = ", the most that were tried" if best.gpus == counts[-1] else ""
        fewer = (
            f"; {_gpus(enough.gpus)} {'comes' if enough.gpus == 1 else 'come'} within {NEARLY:.0%}"
            if enough.gpus < best.gpus
            else ""
        )
        gain = f"{_ratio(first.seconds, best.seconds):.3g} times as fast as on {first.gpus}"
        return f"{name}: fastest on {_gpus(best.gpus)}{most}, {time}: {gain}{fewer}"

    def sweet_spots(self) -> list[dict[str, Any]]:
        """Return the sweet spot of each variant, and its run with the fewest GPUs that is nearly as
        fast.
        """
        return [
            {"variant": v.what, "best": self.best(v.what), "enough": self.enough(v.what)}
            for v in self.variants
        ]


def _gpus(count: int) -> str:
    return f"{count:,} GPU{'' if count == 1 else 's'}"


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else 1.0


def sweep(
    matrix: Supernodes | TaskGraph,
    fabric: Fabric,
    gpus: Iterable[int] | None = None,
    layout: Layout = "2d",
    *,
    owner: Int | None = None,
    changes: Sequence[Variant] | None = None,
    dependency: float = 0.0,
    merged: int | None = None,
    one_at_a_time: bool = False,
    ranks_per_gpu: int | None = None,
) -> Solves:
    """Replay the solve of a matrix, or a task graph, on several numbers of GPUs, each as is and
    changed.  Raises A043; A156, A157.

    Parameters
    ----------
    matrix : supernodes of a matrix, or a task graph; the ranks of a graph decide the number of
        GPUs.
    ranks_per_gpu : ranks on each GPU, whose messages leave it one after the other; None is one
        rank, without shared links.
    gpus : GPU counts; None takes those of `gpu_counts`.
    layout : ``2d`` distributes blocks over a grid of GPUs, ``columns`` and ``rows`` over one row or
        column of them.
    owner : GPU (or rank) of each supernode, counted from 0, shape (supernodes,); it replaces `gpus`
        and `layout`.
    changes, dependency, merged, one_at_a_time : see `variants` and `solve`.

    >>> import scipy.sparse
    >>> from turnbuckle.papers.models.dag.tiers import fabric
    >>> from turnbuckle.papers.models.dag.supernodes import supernodes, triangle_of
    >>> chain = scipy.sparse.diags_array([[2.0] * 9, [1.0] * 8], offsets=[0, -1])
    >>> sweep(supernodes(triangle_of(chain)), fabric(), [1, 2, 4]).best().gpus
    1
    """
    changes = tuple(changes or variants())
    if not 0.0 <= dependency <= _LONGEST_WAIT:
        raise error_of("A043.wait", found=f"{dependency:g} s", longest_wait=_LONGEST_WAIT)
    ranks = ranks_per_gpu or 1
    if ranks_per_gpu is not None and not 1 <= ranks_per_gpu <= MOST_GPUS:
        raise error_of("A043.ranks", found=str(ranks_per_gpu), most=MOST_GPUS)
    if ranks_per_gpu is not None and one_at_a_time:
        raise error_of("A043.shared")
    counts = sorted(set(gpu_counts(fabric.gpus_per_node) if gpus is None else gpus))
    graph = matrix if isinstance(matrix, TaskGraph) else None
    if graph is not None:
        words = "tasks, one by one" if graph.ranks is None else "tasks, by their ranks"
        counts = counts if graph.ranks is None else [-(-graph.ranks // ranks)]
    elif owner is not None:
        if owner.shape != (len(matrix),) or owner.min() < 0:
            raise error_of("A043.fit", found=f"{owner.shape} for {len(matrix):,}")
        counts, words = [-(-(int(owner.max()) + 1) // ranks)], "columns, by the map given"
    elif layout not in LAYOUTS:
        raise error_of(
            "A043.layout",
            found=repr(layout)[:60],
            fix=did_you_mean(layout, LAYOUTS) or None,
            layouts=", ".join(LAYOUTS),
        )
    else:
        words = {
            "2d": "blocks on a grid of GPUs, cyclic",
            "columns": "columns of blocks, cyclic",
            "rows": "rows of blocks, cyclic",
        }[layout]
    if not counts or counts[0] < 1 or counts[-1] > MOST_GPUS:
        asked = f"{counts[0]} to {counts[-1]} GPUs" if counts else "none"
        raise error_of("A043.gpus", found=asked, most_gpus=MOST_GPUS)
    if merged is not None and not 1 <= merged <= MOST_GPUS:
        raise error_of("A043.merged", found=str(merged)[:60], most_gpus=MOST_GPUS)
    runs: list[Run] = []
    queue: Queue | None = "receiver" if one_at_a_time else None if ranks_per_gpu is None else "link"
    for count in counts:
        dealt = (
            Dealt(count, owner=owner, ranks=ranks)
            if owner is not None
            else Dealt.on_grid(count, layout, ranks)
        )
        done = (
            graph_work(matrix, dealt, fabric)
            if isinstance(matrix, TaskGraph)
            else work(matrix, dealt, fabric)
        )
        runs += _varied(
            done, fabric, changes, {"dependency": dependency, "merged": merged, "queue": queue}
        )
    raised = sorted({run.gpus for run in runs if run.memory_seconds > run.path_seconds})
    solved = None if isinstance(matrix, TaskGraph) else matrix
    findings = [] if solved is None else list(solved.triangle.findings)
    if raised:
        findings.append(
            finding("A346", len(raised), f"at {_listed(raised)} GPU{'s' * (raised != [1])}")
        )
    merged_findings = tuple(merge(findings))
    return Solves(
        solved,
        fabric,
        words,
        changes,
        tuple(runs),
        dependency,
        one_at_a_time,
        merged_findings,
        graph,
        ranks_per_gpu,
    )


def _varied(
    done: Work, fabric: Fabric, changes: Sequence[Variant], options: dict[str, Any]
) -> list[Run]:
    """Return one run for each variant. A variant that changes nothing here reuses the earlier
    run.
    """
    present = set(np.flatnonzero(np.bincount(done.tier)).tolist())
    nodes = -(-done.dealt.gpus // fabric.gpus_per_node)
    out: list[Run] = []
    replayed: dict[tuple[object, ...], Run] = {}
    for variant in changes:
        moved = variant.one_node and (NETWORK in present or (options["merged"] or nodes) > 1)
        key = (
            moved,
            *((t, f) for t, f in sorted(variant.slower.items()) if t in present and f != 1.0),
        )
        if key not in replayed:
            replayed[key] = solve(done, fabric, variant, **options)
        out.append(
            replace(replayed[key], what=variant.what, nodes=1 if variant.one_node else nodes)
        )
    return out


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) if len(numbers) <= 6 else f"{numbers[0]} to {numbers[-1]}"
