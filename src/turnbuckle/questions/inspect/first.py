"""The first answer about a run: what holds it up, what distance does to it, and what to change
first.

Every number is one of another question, asked as that verb asks it: `project`, `slack` over the
latency and over the cost of a kind of work, `whatif`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final

import polars as pl

from turnbuckle.foundation import registry
from turnbuckle.foundation.errors import CannotAnswer
from turnbuckle.profile.summary import summary
from turnbuckle.projection.admission import one_memory
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.projection.answers.shown import Shown
from turnbuckle.projection.run import Run
from turnbuckle.trace.window import step_times

if TYPE_CHECKING:
    from turnbuckle.questions.distance.distance import Mode
    from turnbuckle.questions.whatif.question import Gain

#: A latency, and the ends of its range [s]; None beyond the farthest that is asked.
Tolerated = tuple[float | None, ...]
#: What a tenth less of each kind of work saves is asked of.
WORK: Final = ("cpu", "kernel", "copies", "communication")
#: Cost of a unit of work that takes a tenth less.
CHEAPER: Final = 0.9
#: The kind that decides saves as many times as much as the next, and no less than this share of
#: the run time.
AHEAD, LEAST = 1.5, 0.025
#: Slowdown whose latency is given.
SLOWER: Final = 0.05
LAYER: Final = "cdi-row-api"
CLOSER, FARTHER = "nvlink-c2c", ("cdi-rack-link", "cdi-row-link", LAYER)
#: Closer targets that stand in where the source is as close already.
OF_COHERENT, OF_ONE_MEMORY = "pcie5-x16", "mapped-memory"


@dataclass(frozen=True, repr=False)
class First(Shown):
    """What `turnbuckle FILE` says first.

    Attributes
    ----------
    run : the run, or the part of it that questions are about.
    answer : its projections on four couplings.
    saved : share of the run time that a tenth less of each kind of work saves, by `WORK`; empty
        where the order does not tell.
    tolerated : of a longer link the one-way latency, of remoted calls the round trip, that makes
        the run 5 % slower, or why that cannot be told; empty where nothing can be projected.
    fix : what `turnbuckle whatif` finds to pay most in any case; None where nothing surely does.
    untold : why there is no `saved`; empty where there is.
    """

    run: Run
    answer: Answer
    saved: Mapping[str, float]
    tolerated: Mapping[str, Tolerated | str]
    fix: Gain | None
    best: Gain | None
    untold: str = ""

    question: ClassVar[str] = "first"

    @cached_property
    def steps(self) -> tuple[int, float, float] | None:
        """Return how many steps the recording marks, the median and half the middle half of their
        times [s]; None where it marks fewer than three.
        """
        return step_times(self.run.trace)

    @property
    def bound(self) -> str:
        """Return the kind of work that holds the run up; ``balanced`` where none leads; empty
        where it cannot be told.
        """
        return bound(self.run, self.saved)

    def headline(self) -> str:
        """Return what holds the run up, in one line."""
        return f"{self.run.trace.name}: {self.bound or 'cannot say what holds it up'}"

    def table(self) -> pl.DataFrame:
        """Return the projections, as `Answer.table`."""
        return self.answer.table()


def bound(run: Run, saved: Mapping[str, float]) -> str:
    """Return the kind of work that holds a run up, from what a tenth less of each saves; as
    `First.bound`.
    """
    if not saved:
        return ""
    own = dict(saved)
    if summary.kernels(run.profile)["collective"]:
        own["kernel"] = max(own["kernel"] - own["communication"], 0.0)
    first, second = sorted(own, key=lambda kind: -own[kind])[:2]
    if own[first] < LEAST:
        return ""
    return first if own[first] >= AHEAD * own[second] else "balanced"


def targets(run: Run) -> tuple[str, ...]:
    """Return the couplings that differ from that of the run."""
    if one_memory(run.source):
        return (OF_ONE_MEMORY, *FARTHER)
    closer = OF_COHERENT if run.source.coupling == "c2c" else CLOSER
    return (closer, *FARTHER)


def of_run(run: Run) -> First:
    """Answer first: what can be told, and why not the rest.  Raises `CannotAnswer` as
    `Run.project` does.
    """
    run = run.judged
    if not run.projectable:
        lacking = "host calls" if run.on_device else "GPU activity"
        return First(run, Answer(run), {}, {}, None, None, f"no {lacking} recorded")
    answer = run.project(targets(run))
    saved, untold = saved_by(run)
    tolerated = {"link": _tolerated(run, "link"), "remoting": _tolerated(run, "remoting", LAYER)}
    offered = run.whatif(draws=0)
    best = max(offered.gains, key=lambda gain: gain.on_source[1], default=None)
    return First(run, answer, saved, tolerated, offered.sure, best, untold)


def saved_by(run: Run) -> tuple[dict[str, float], str]:
    """Return what a tenth less of each kind of work saves, and why there is none."""
    at_cost = registry.load("services", "run time at cost")
    if "kernel" in run.untold:
        return {}, "no kernels recorded"
    try:
        return {kind: 1.0 - at_cost(run, kind, CHEAPER) / run.seconds for kind in WORK}, ""
    except CannotAnswer as error:
        return {}, error.what


def _tolerated(run: Run, mode: Mode, machine: str | None = None) -> Tolerated | str:
    """Return the latency of a tolerance with the ends of its range [s], as `turnbuckle slack` has
    them; why not where it cannot be told.
    """
    try:
        slack = run.distance(mode, machine=machine)
    except CannotAnswer as error:
        return error.what
    found = next(t for t in slack.tolerances if t.share == SLOWER)
    return found.slack, found.low, found.high
