"""Several MPI ranks on one GPU: where one more stops paying.

From one count of ranks to the next, at the same threads a rank, performance (one over the run time,
or throughput) gains some share.  Sharing pays up to the count before the first step that gains less
than a threshold.  The noise of a step is that of the repeats, pooled over the curve (Student's t on
logarithms, since timings scatter in proportion); single runs have none that is known, and get no
interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np

from turnbuckle._native import student_cdf, student_quantile
from turnbuckle.foundation.fields import Declared
from turnbuckle.questions.cores.runs import Runs

#: Gain in performance from which a step pays.
WORTH: Final = 0.05
#: Both sides of an interval: 90 % lie between.
TAIL: Final = 0.05
Pays = Literal["yes", "no", "undecided", "yes, of single runs", "no, of single runs"]


@dataclass(frozen=True)
class Step(Declared):
    """One count of ranks on a GPU.

    Attributes
    ----------
    low, high : 90 % interval of the gain; None without repeats.
    """

    ranks: float
    runs: int
    seconds: float
    performance: float
    gain: float | None = None
    low: float | None = None
    high: float | None = None
    pays: Pays | Literal[""] = ""

    @property
    def interval(self) -> tuple[float, float | None] | None:
        """Return the two ends of the interval; None without repeats."""
        return None if self.low is None else (self.low, self.high)


@dataclass(frozen=True)
class Curve(Declared):
    """Performance against ranks on one GPU, at one number of threads a rank.

    Attributes
    ----------
    low, high : counts up to which it surely does and might (90 %); None without repeats.
    """

    threads: float
    worth: float
    steps: tuple[Step, ...]
    ranks: float
    low: float | None
    high: float | None

    @property
    def gain(self) -> float:
        """Return the gain in performance at the count up to which sharing pays, over the first
        count.
        """
        return next(s.performance for s in self.steps if s.ranks == self.ranks) - 1.0

    @property
    def interval(self) -> tuple[float, float | None] | None:
        """Return the two ends of the interval; None without repeats."""
        return None if self.low is None else (self.low, self.high)


def curves(runs: Runs, worth: float = WORTH) -> list[Curve]:
    """Return one curve for each number of threads at which more than one count of ranks was run.

    There is none where ranks are not known.
    """
    if not runs.split:
        return []
    out = []
    for threads in np.unique(runs.threads):
        some = runs.threads == threads
        if np.unique(runs.ranks[some]).size > 1:
            out.append(_curve(runs, float(threads), some, worth))
    return out


def _curve(
    runs: Runs, threads: float, some: np.ndarray[Any, np.dtype[np.bool_]], worth: float
) -> Curve:
    logs = [
        (float(r), np.log(runs.seconds[some & (runs.ranks == r)]))
        for r in np.unique(runs.ranks[some])
    ]
    spare = sum(v.size - 1 for _, v in logs)
    scatter = (
        math.sqrt(sum(float(((v - v.mean()) ** 2).sum()) for _, v in logs) / spare)
        if spare
        else None
    )
    start = float(logs[0][1].mean())
    steps = [Step(logs[0][0], logs[0][1].size, math.exp(start), 1.0)]
    chances: list[float] = []
    for (_, before), (ranks, now) in pairwise(logs):
        better = float(before.mean() - now.mean())
        gain, needed = math.expm1(better), math.log1p(worth)
        low = high = None
        if scatter is None:
            pays: Pays = "yes, of single runs" if gain >= worth else "no, of single runs"
            chances.append(math.nan)
        else:
            low, high, chance = _doubt(
                better, scatter * math.sqrt(1 / before.size + 1 / now.size), spare, needed
            )
            pays = "yes" if chance >= 1 - TAIL else "no" if chance <= TAIL else "undecided"
            chances.append(chance)
        performance = math.exp(start - float(now.mean()))
        steps.append(
            Step(ranks, now.size, math.exp(float(now.mean())), performance, gain, low, high, pays)
        )

    def up_to(enough: list[bool]) -> float:
        """Return the count before the first step that does not pay."""
        first = enough.index(False) if False in enough else len(enough)
        return steps[first].ranks

    stop = up_to([s.gain is not None and s.gain >= worth for s in steps[1:]])
    if scatter is None:
        return Curve(threads, worth, tuple(steps), stop, None, None)
    sure, maybe = up_to([c >= 1 - TAIL for c in chances]), up_to([c > TAIL for c in chances])
    return Curve(threads, worth, tuple(steps), stop, min(sure, stop), max(maybe, stop))


def _doubt(better: float, error: float, spare: int, needed: float) -> tuple[float, float, float]:
    """Return the 90 % interval of a gain, and the probability that it reaches the gain needed."""
    if error == 0.0:
        return math.expm1(better), math.expm1(better), float(better >= needed)
    reach = student_quantile(spare, 1 - TAIL) * error
    return (
        math.expm1(better - reach),
        math.expm1(better + reach),
        student_cdf(spare, (better - needed) / error),
    )
