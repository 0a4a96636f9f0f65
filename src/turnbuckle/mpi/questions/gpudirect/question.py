"""GPUDirect study of one run: by message size, by node shape, by link, from rank to rank, and by a
step of each parameter.

After Khetawat et al. (GPUDirect in TraceR-CODES, Figs 5 to 7).  Every figure comes from replays of
the whole run (`replayed`); the closed forms (`turnbuckle.mpi.questions.gpudirect.cost`) are shown
beside them.

    A051  node shapes or data paths set besides those that the study varies itself
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, Final, Literal

import numpy as np

from turnbuckle.foundation.arrays import Float, Int
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.fields import Declared
from turnbuckle.foundation.units import show
from turnbuckle.mpi.questions.messages.link_use import LinkUse, link_use
from turnbuckle.mpi.questions.messages.question import (
    PATHS,
    Answered,
    Recorded,
    Row,
    ranged,
    replayed,
    shapes,
)
from turnbuckle.mpi.questions.messages.setup import (
    Setup,
    driving,
    fitted,
    mapped,
    network_of,
    program_of,
)
from turnbuckle.mpi.questions.messages.times import (
    Crossover,
    MessageTimes,
    SizeClass,
    crossover,
    message_times,
    size_classes,
)
from turnbuckle.mpi.replay.messages import Traffic
from turnbuckle.mpi.replay.placement import MOST_RANKS, traffic_matrix
from turnbuckle.questions.sharing.differences import Difference, differences, scattered
from turnbuckle.questions.sweep.summary import NO_DIFFERENCE
from turnbuckle.replay.contention.contention import Program, replay
from turnbuckle.replay.contention.network import Network

Per = Literal["node", "gpu"]

#: Paths that the study compares.
BOTH: Final[tuple[Literal["hostcopy"], Literal["gpudirect"]]] = ("hostcopy", "gpudirect")
#: Settings that the study varies itself.
VARIED: Final = ("path", "ranks_per_node")
#: A NIC is saturated when its busiest direction is busy for more than this share of the time in
#: which its node communicates.
FULL: Final = 0.8
#: Relative steps to either side, and seeds of the runs (the recorded one and scattered ones) behind
#: each difference.
STEPS: Final = (0.03, 0.1)
SEEDS: Final = (0, 1, 2)
#: Differences are left out where all their replays together have more operations than this.
MOST_OPERATIONS: Final = 150_000_000
#: Largest number of ranks, or of groups of ranks, in the traffic matrix of the answer.
MOST_CELLS: Final = 256


@dataclass(frozen=True)
class Case(Declared):
    """Result of one replay of the study."""

    per: Per
    card_bandwidth: float
    #: row, links: result of the replay, and utilisation of its links (None in `logp`, or for a
    #: deadlock)
    row: Row
    links: LinkUse | None = field(repr=False)


@dataclass(frozen=True)
class Saturation:
    """Saturation of NICs as ranks are added to a node."""

    path: str
    per: Per
    #: smallest shape asked with a saturated NIC: one that is busy for more than `FULL` of its
    #: node's communication time; None where no shape has one
    ranks_per_node: int | None
    node: int
    largest: float  #: largest such share over all shapes


@dataclass(frozen=True)
class GpuDirectStudy(Declared):
    """Result of the GPUDirect study."""

    rule_share: ClassVar[float] = FULL
    steps: ClassVar[tuple[float, ...]] = STEPS
    runs: ClassVar[int] = len(SEEDS)

    answered: Answered  #: replays by `host`, `hostcopy` and `gpudirect` on every shape
    cases: tuple[Case, ...]
    sizes: tuple[SizeClass, ...]
    #: bytes from rank to rank, shape (ranks, ranks); None for more than `MOST_RANKS` [B]
    matrix: Float | None = field(repr=False)
    #: node, together: node of each rank, shape (ranks,), on the largest shape asked that takes
    #: several nodes; its ranks per node
    node: Int = field(repr=False)
    together: int
    #: change of the run time with each parameter, by path and parameter, at `best_shape` ranks per
    #: node; empty for too many replays
    slopes: dict[tuple[str, str], Difference]

    @property
    def best_shape(self) -> int:
        """Return the ranks per node of the shape of several nodes on which GPUDirect gains most, or
        of the first shape where the gain is unknown.
        """
        return self.answered.best

    def case(self, ranks_per_node: int, path: str, per: Per = "node") -> Case:
        """Return the result of one replay; for a single GPU per node there is only one."""
        of = [c for c in self.cases if (c.row.ranks_per_node, c.row.path) == (ranks_per_node, path)]
        return next((c for c in of if c.per == per), of[0])

    @property
    def pers(self) -> list[Per]:
        """Return the bandwidths of the cases."""
        return list(dict.fromkeys(c.per for c in self.cases))

    def classes(self, ranks_per_node: int, *, between: bool = True) -> list[SizeClass]:
        """Return the size classes of one shape."""
        return [c for c in self.sizes if (c.ranks_per_node, c.between) == (ranks_per_node, between)]

    def crossover(self, ranks_per_node: int, *, between: bool = True) -> Crossover | None:
        """Return the crossover of the two paths in the replay; None without such messages."""
        of_shape = self.classes(ranks_per_node, between=between)
        return crossover(of_shape) if of_shape else None

    @property
    def copies_share(self) -> float:
        """Return the share of copies in the run time by host copies: a bound of GPUDirect's effect
        (nan without a chain).
        """
        row = self.answered.row(self.best_shape, "hostcopy")
        return row.chain_copies_seconds / row.seconds if row.seconds else 0.0

    @property
    def without_copies(self) -> float:
        """Return the share of the run time by host copies that vanishes in another replay with free
        copies.
        """
        host, free = (
            self.answered.row(self.best_shape, path).seconds for path in ("hostcopy", "host")
        )
        return 1.0 - free / host if host else 0.0

    def saturations(self) -> list[Saturation]:
        """Return the saturation of NICs, by path and bandwidth."""
        out = []
        for per in self.pers:
            for path in BOTH:
                used = [self.case(n, path, per) for n in self.answered.shapes]
                shares = [
                    (c.row.ranks_per_node, float(u.in_communication.max()), u.busiest_card)
                    for c in used
                    if c.row.nodes > 1 and (u := c.links)
                ]
                if shares:
                    saturated = [s for s in sorted(shares) if s[1] > FULL]
                    top = max(shares, key=lambda s: s[1])
                    out.append(
                        Saturation(
                            path,
                            per,
                            saturated[0][0] if saturated else None,
                            (saturated[0] if saturated else top)[2],
                            top[1],
                        )
                    )
        return out

    @property
    def word(self) -> str:
        """Return the answer to whether GPUDirect helps the communication of this run: that of the
        plain answer.
        """
        return self.answered.verdict.word

    @property
    def verdict(self) -> str:
        """Return the answer in three sentences: the run, its messages by size, and the largest
        possible gain.
        """
        answered = self.answered
        if (
            self.word == "cannot be told"
            or not answered.setup.paid.copies
            or answered.recorded_on_host
        ):
            return self.answered.verdict.sentence
        shapes = self.answered.shapes
        gains, runs = (
            [gain(n) for n in shapes] for gain in (self.answered.gain, self.answered.run_gain)
        )
        begins = f"GPUDirect {self.word}" + (
            f" of {NO_DIFFERENCE:.0%}" if self.word == "makes no difference" else ""
        )
        sentence = (
            f"{begins}: by host copies communication is {_span(gains)} than by GPUDirect, and the "
            f"run is {_span(runs)}"
        )
        sentence += f"{self.answered.verdict.reach}{self.answered.recorded_buffers}."
        if self.word == "undecided":
            sentence = f"{self.answered.verdict.sentence}."
        share = (
            ""
            if math.isnan(self.copies_share)
            else f" Copies are {_percent(self.copies_share)} of the run time by host copies."
        )
        return sentence + self._sizes() + self._in_a_row() + share

    def _in_a_row(self) -> str:
        """Explain why a run gains although its messages, one by one, do not."""
        if (
            self.word != "helps"
            or any(c.faster == "GPUDirect" for c in self.sizes)
            or not self.sizes
        ):
            return ""
        return (
            " The run gains nevertheless: a rank makes its copies one after the other, but its "
            "GPUDirect messages leave at once."
        )

    def _sizes(self) -> str:
        """Describe the crossover of the messages of the run."""
        for between in (True, False):
            for n in self.answered.shapes:
                edge = self.crossover(n, between=between)
                if edge is None:
                    continue
                where = (
                    f"{'between nodes' if between else 'inside nodes'} ({n} rank{'s' * (n > 1)} "
                    "per node)"
                )
                closed = _closed(self.answered.setup.break_even_bytes)
                if edge.size_bytes == 0:
                    return (
                        f" Single messages {where} are faster by GPUDirect at all sizes of this "
                        f"run (closed form: {closed})."
                    )
                if math.isinf(edge.size_bytes):
                    sizes = (
                        "the largest size"
                        if any(c.speedup > 0 for c in self.classes(n, between=between))
                        else "all sizes of this run"
                    )
                    return (
                        f" Single messages {where} are slower by GPUDirect at {sizes} (closed "
                        f"form: {closed})."
                    )
                return (
                    f" Single messages {where} cross over {edge.in_words} (closed form: {closed})."
                )
        return ""

    def crossovers(self) -> list[dict[str, Any]]:
        """Return the crossovers between nodes and inside them, in the replay and by the closed
        forms, for each node shape.
        """
        closed = self.answered.setup.break_even_bytes
        return [
            {"ranks_per_node": n, "between": between, "edge": edge, "closed_form_bytes": closed}
            for n in self.answered.shapes
            for between in (True, False)
            if (edge := self.crossover(n, between=between)) is not None
        ]

    def parameters(self) -> list[dict[str, Any]]:
        """Return the difference that each parameter makes, by path."""
        return [
            {"path": path, "parameter": name, **slope.as_dict()}
            for (path, name), slope in self.slopes.items()
        ]

    def cells(self) -> tuple[Float, int] | None:
        """Return the bytes between groups of ranks, and the ranks per group; None without a
        matrix.
        """
        return None if self.matrix is None else downsampled(self.matrix)


def _span(changes: list[float]) -> str:
    """Describe the smallest and the largest of some changes.

    >>> _span([0.1, -0.05]), _span([-0.2, -0.1]), _span([0.1])
    ('5.0% shorter to 10.0% longer', '10.0% to 20.0% shorter', '10.0% longer')
    """
    low, high = min(changes), max(changes)
    if low < 0 < high:
        return f"{_percent(-low)} shorter to {_percent(high)} longer"
    ends = list(dict.fromkeys(_percent(abs(v)) for v in sorted((low, high), key=abs)))
    return f"{' to '.join(ends)} {'shorter' if low < 0 else 'longer'}"


def _percent(share: float) -> str:
    """Return a share as a percentage that is 0.0% only for 0."""
    if 0 < share < 1e-5:
        return "less than 0.001%"
    return f"{share:.1%}" if share >= 0.001 or share == 0 else f"{100 * share:.2g}%"


def _closed(size: float) -> str:
    """Describe a break-even size of the closed forms."""
    return (
        "GPUDirect at every size"
        if size == 0
        else "host copies at every size"
        if math.isinf(size)
        else show(size, "B")
    )


def downsampled(matrix: Float, most: int = MOST_CELLS) -> tuple[Float, int]:
    """Return the bytes from group to group of consecutive ranks, and the number of ranks per group;
    at most `most` groups.

    >>> downsampled(np.ones((5, 5)), 3)[0].tolist()
    [[4.0, 4.0, 2.0], [4.0, 4.0, 2.0], [2.0, 2.0, 1.0]]
    """
    each = -(-len(matrix) // most) if len(matrix) else 1
    edges = np.arange(0, len(matrix), each)
    return np.asarray(np.add.reduceat(np.add.reduceat(matrix, edges, axis=0), edges, axis=1)), each


def refuse_varied(words: Sequence[str]) -> None:
    """Refuse (A051) settings that the study, and `model messages`, vary themselves."""
    for word in words:
        name = word.partition("=")[0].strip()
        if name in VARIED:
            fix = (
                "--ranks-per-node 1,2,4"
                if name == "ranks_per_node"
                else "leave it out: all are asked"
            )
            raise error_of("A051.axis", found=word[:60], way=fix, name=name)


def study(
    traffic: Traffic,
    setup: Setup | None = None,
    *,
    ranks_per_node: Sequence[int] = (1, 2, 4),
    progress: Callable[[float], object] | None = None,
    recording: Recorded | None = None,
) -> GpuDirectStudy:
    """Return the GPUDirect study of a recorded run.  Raises A074, and what `replayed` refuses;
    A170, no grid to repeat.
    """
    each, asked = shapes(ranks_per_node), driving(setup or Setup(), traffic)
    if recording is not None:
        recording, asked = recording.on(asked)
    # of a run repeated to more ranks there is no timeline
    held = recording if asked.ranks in (0, traffic.ranks) else None
    traffic, setup = fitted(traffic, asked) if held is None else (traffic, asked)
    rows: list[Row] = []
    cases: list[Case] = []
    sizes: list[SizeClass] = []
    for k, n in enumerate(each):
        of_shape = replace(setup, ranks_per_node=n)
        times: dict[str, MessageTimes] = {}
        for path in PATHS:
            path_setup = replace(of_shape, path=path)
            outcome = replayed(traffic, path_setup, traced=True, recording=held)
            rows.append(outcome.row)
            if path in BOTH:
                cases.append(
                    Case(
                        "node",
                        outcome.network.bandwidth,
                        outcome.row,
                        link_use(outcome, len(traffic.tail_seconds)),
                    )
                )
                if outcome.done is not None:
                    times[path] = message_times(traffic, path_setup, outcome)
        if len(times) == len(BOTH):
            sizes += size_classes(times["hostcopy"], times["gpudirect"], of_shape)
        cases += _faster_nics(traffic, of_shape, held)
        if progress is not None:
            progress((k + 1) / (len(each) + 1))
    rests_on = () if held is None else held.findings
    answered = replace(
        ranged(Answered(traffic, setup, tuple(rows), recording=held, on_network=rests_on)),
        setup=asked,
    )
    best_setup = replace(setup, ranks_per_node=answered.best)
    matrix = traffic_matrix(traffic, setup.collectives) if traffic.ranks <= MOST_RANKS else None
    together = max((r.ranks_per_node for r in rows if r.nodes > 1), default=each[0])
    node = mapped(traffic, replace(setup, ranks_per_node=together))
    stuck = {r.path for r in rows if r.stuck}
    slopes: dict[tuple[str, str], Difference] = {}
    for path in BOTH:
        if path not in stuck:
            slopes |= {
                (path, name): slope
                for name, slope in run_time_slopes(traffic, replace(best_setup, path=path)).items()
            }
    return GpuDirectStudy(answered, tuple(cases), tuple(sizes), matrix, node, together, slopes)


def _faster_nics(traffic: Traffic, setup: Setup, recording: Recorded | None) -> list[Case]:
    """Return both paths with links multiplied by the GPUs of a node, as in Fig 7 of the paper;
    empty where a node has one GPU.
    """
    network = network_of(setup, 1)
    gpus = len(network.made_of.parts_of("gpu"))
    if gpus < 2:
        return []
    out = []
    for path in BOTH:
        outcome = replayed(
            traffic,
            replace(setup, path=path, card_bandwidth=gpus * network.bandwidth),
            traced=True,
            recording=recording,
        )
        out.append(
            Case(
                "gpu",
                outcome.network.bandwidth,
                outcome.row,
                link_use(outcome, len(traffic.tail_seconds)),
            )
        )
    return out


def run_time_slopes(traffic: Traffic, setup: Setup) -> dict[str, Difference]:
    """Return the change of the run time with each parameter: NIC bandwidth [B/s], hop latency [s],
    copy bandwidth [B/s] and compute (factor).

    Each is computed for the recorded run and for scattered ones, with the same scatter on both
    sides (decision D18).  A path without copies has no copy bandwidth.  Empty where the replays
    together would have more than `MOST_OPERATIONS` operations.
    """
    network = network_of(setup, 1)
    values: dict[str, float] = {
        "card_bandwidth": network.bandwidth,
        "hop_seconds": network.hop_seconds,
    }
    if setup.path == "hostcopy" and setup.paid.copy_per_byte:
        values["copy_bandwidth"] = 1.0 / setup.paid.copy_per_byte
    values["compute"] = setup.compute
    made, joined, _ = program_of(traffic, setup)
    if len(made.code) * len(SEEDS) * (2 * len(STEPS) * len(values) + 1) > MOST_OPERATIONS:
        return {}

    def of_seeds(program: Program, network: Network) -> list[float]:
        return [replay(scattered(program, seed), network, setup.fidelity).seconds for seed in SEEDS]

    unchanged = of_seeds(made, joined)

    @cache
    def seconds(name: str, value: float) -> list[float]:
        if value == values[name]:
            return unchanged
        program, network, _ = program_of(traffic, replace(setup, **{name: value}))  # type: ignore[arg-type]
        return of_seeds(program, network)

    def runs(name: str) -> list[Callable[[float], float]]:
        return [lambda value, run=run: seconds(name, value)[run] for run in range(len(SEEDS))]  # type: ignore[misc]

    return {
        name: differences(runs(name), value_at, STEPS, unit=value_at or 1e-6)
        for name, value_at in values.items()
    }
