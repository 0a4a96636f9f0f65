"""Strong scaling: what a run does on more ranks than were recorded, by a law through recordings of
one program on three or more numbers of ranks.

Each quantity of a rank (compute, communication, messages, bytes, run time) is fitted with one of
few forms in the number of ranks n,

    a n^b        a + b log2 n        a + b / n        a + b / sqrt(n)        a + b n

the one that predicts best what it was not fitted to: each recording is left out in turn.  Errors
are relative, ln(predicted / recorded). The same procedure, the choice of a form included, predicts
the largest recording from the smaller ones: that hold-out error is shown with the answer, beside
those of two baselines.  Where it is larger than `BOUND` the law does not decide.  Fits are least
squares (NumPy); two recordings that are left have the power law alone, which holds perfect scaling,
none, and growth in proportion.

Recordings differ in their number of ranks alone: the same program, input and machine.  The time
between calls is the recording's.

    A194  fewer than three numbers of ranks
    A435  several recordings, but no number of ranks that is asked about
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np

from turnbuckle._native import student_quantile
from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.errors import TurnbuckleError, error_of
from turnbuckle.foundation.fields import SCHEMA_VERSION, Declared
from turnbuckle.foundation.units import show
from turnbuckle.mpi.questions.messages.question import PATHS, replayed, shapes
from turnbuckle.mpi.questions.messages.setup import Setup
from turnbuckle.mpi.replay.extrapolate import repeated
from turnbuckle.mpi.replay.messages import Traffic, expanded
from turnbuckle.mpi.replay.operation_graph import OperationGraph

#: Largest hold-out error, as a share, at which a law decides.
BOUND: Final = 0.25
#: Level of the range, and numbers of ranks from which there is a law.
LEVEL, FEWEST = 0.90, 3
#: Forms besides the power law: what stands beside b.
FORMS: Final[dict[str, Callable[[Float], Float]]] = {
    "a + b log2 n": np.log2,
    "a + b / n": lambda n: 1.0 / n,
    "a + b / sqrt(n)": lambda n: 1.0 / np.sqrt(n),
    "a + b n": lambda n: n,
}
POWER: Final = "a n^b"


@dataclass(frozen=True)
class Fit:
    """One form, fitted.

    Attributes
    ----------
    form : its name.
    values : a and b.
    spread : standard deviation of the relative residuals; NaN where as many numbers were fitted as
        there are recordings.
    inverse : inverse of the normal equations, for the error of a prediction.
    count : recordings.
    """

    form: str
    values: tuple[float, float]
    spread: float
    inverse: Float
    count: int

    def value(self, ranks: float) -> float:
        """Return the value at a number of ranks; NaN where the form has none above zero there."""
        a, b = self.values
        value = (
            a * ranks**b if self.form == POWER else a + b * float(FORMS[self.form](np.array(ranks)))
        )
        return value if value > 0 else math.nan

    def error(self, ranks: float) -> float:
        """Return the relative half width (logarithm) of the range of a prediction by the fit alone
        (Student's t).
        """
        if self.count <= 2:
            return math.inf
        row = (
            np.array([1.0, math.log(ranks)])
            if self.form == POWER
            else np.array([1.0, float(FORMS[self.form](np.array(ranks)))]) / self.value(ranks)
        )
        share = self.spread * math.sqrt(1.0 + float(row @ self.inverse @ row))
        return student_quantile(self.count - 2, (1 + LEVEL) / 2) * share


def fitted(ranks: Float, values: Float, form: str) -> Fit:
    """Fit one form by least squares of relative residuals; `values` are positive."""
    if form == POWER:
        design, aim = np.stack([np.ones_like(ranks), np.log(ranks)], axis=1), np.log(values)
    else:
        design, aim = (
            np.stack([np.ones_like(ranks), FORMS[form](ranks)], axis=1) / values[:, None],
            np.ones_like(ranks),
        )
    solution, *_ = np.linalg.lstsq(design, aim, rcond=None)
    residual = aim - design @ solution
    free = len(ranks) - 2
    a, b = (math.exp(solution[0]) if form == POWER else float(solution[0])), float(solution[1])
    spread = math.sqrt(float(residual @ residual) / free) if free > 0 else math.nan
    return Fit(form, (a, b), spread, np.linalg.pinv(design.T @ design), len(ranks))


def best(ranks: Float, values: Float) -> Fit:
    """Return the form that predicts best each recording left out; of two recordings the power law.

    >>> n = np.array([2.0, 4.0, 8.0, 16.0])
    >>> [best(n, y).form for y in (8.0 / n, 1.0 + 0.5 * np.log2(n), 0.2 + 8.0 / n)]
    ['a n^b', 'a + b log2 n', 'a + b / n']
    """
    if len(ranks) < FEWEST:
        return fitted(ranks, values, POWER)

    def missed(form: str) -> float:
        total = 0.0
        for k in range(len(ranks)):
            others = np.arange(len(ranks)) != k
            predicted = fitted(ranks[others], values[others], form).value(ranks[k])
            total += math.inf if math.isnan(predicted) else abs(math.log(predicted / values[k]))
        return total

    # rounding alone never chooses
    return fitted(ranks, values, min((POWER, *FORMS), key=lambda form: round(missed(form), 9)))


@dataclass(frozen=True)
class Law(Declared):
    """A quantity of a rank against the number of ranks.

    Attributes
    ----------
    recorded : value by number of ranks, ascending.
    low, high : ends of its range.
    """

    quantity: str
    unit: str
    path: str
    ranks_per_node: int
    recorded: dict[int, float]
    form: str
    a: float
    b: float
    value: float
    low: float
    high: float
    held_out: float
    left_out: float
    word: str
    repeated: float | None
    unchanged: float
    held_out_repeated: float | None
    held_out_unchanged: float

    @property
    def recorded_values(self) -> dict[str, float]:
        """Return the recorded value by number of ranks, as a text."""
        return {str(n): value for n, value in self.recorded.items()}

    @property
    def ends(self) -> tuple[float, float]:
        """Return the ends of the range."""
        return self.low, self.high


def law_of(
    quantity: str,
    unit: str,
    recorded: dict[int, float],
    ranks: int,
    *,
    path: str = "",
    ranks_per_node: int = 0,
    repeated_to: dict[int, float | None] | None = None,
) -> Law:
    """Fit a quantity that was recorded at three or more numbers of ranks, and predict it at
    `ranks`.

    Parameters
    ----------
    recorded : value by number of ranks, ascending.
    repeated_to : what repeating gives, by number of ranks: the one before the largest repeated to
        it, and the largest repeated to `ranks`.

    The range is that of the fit by Student's t, no narrower than the hold-out error either way,
    which grows with the logarithm of the step beyond the largest recording.
    """
    n, y = np.array(list(recorded), dtype=np.float64), np.array(list(recorded.values()))
    again = repeated_to or {}
    largest, before = int(n[-1]), float(y[-2])
    was = again.get(largest)
    none = math.nan
    unknown = (none, none, none, none, none, none, none)
    errors_of = (
        None if was is None or not y[-1] else was / y[-1] - 1.0,
        before / y[-1] - 1.0 if y[-1] else none,
    )
    fitted = (recorded, "", *unknown, "undetermined")
    law = Law(
        quantity, unit, path, ranks_per_node, *fitted, again.get(ranks), float(y[-1]), *errors_of
    )
    if not y.any():
        return replace(
            law,
            form="0",
            a=0.0,
            b=0.0,
            value=0.0,
            low=0.0,
            high=0.0,
            held_out=0.0,
            left_out=0.0,
            word="decided",
        )
    if not (y > 0).all():
        return law
    fit = best(n, y)
    errors = []
    for k in range(len(n)):
        others = np.arange(len(n)) != k
        predicted = best(n[others], y[others]).value(n[k])
        errors.append(math.inf if math.isnan(predicted) else math.log(predicted / y[k]))
    value, held = fit.value(ranks), math.expm1(errors[-1])
    step = max(math.log(ranks / largest) / math.log(n[-1] / n[-2]), 1.0)
    wide = none if math.isnan(value) else max(fit.error(ranks), abs(errors[-1]) * step)
    decided = abs(held) <= BOUND and not math.isnan(value)
    left_out = math.expm1(math.sqrt(float(np.mean(np.square(errors)))))
    law = replace(
        law,
        form=fit.form,
        a=fit.values[0],
        b=fit.values[1],
        word="decided" if decided else "undetermined",
    )
    return replace(
        law,
        value=value,
        low=value * math.exp(-wide),
        high=value * math.exp(wide),
        held_out=held,
        left_out=left_out,
    )


@dataclass(frozen=True)
class Scaled(Declared):
    """What a run does on another number of ranks, by its laws."""

    schema_version: ClassVar[int] = SCHEMA_VERSION
    bound: ClassVar[float] = BOUND
    level: ClassVar[float] = LEVEL

    ranks: int
    setup: Setup
    laws: tuple[Law, ...]

    @property
    def counts(self) -> list[int]:
        """Return the numbers of ranks that were recorded."""
        return list(self.laws[0].recorded)

    def rows(self) -> list[dict[str, object]]:
        """Return a flat row for each law."""
        plain = (
            {k: v for k, v in law.as_dict().items() if k not in ("recorded", "interval")}
            for law in self.laws
        )
        return [
            {**row, "low": law.low, "high": law.high}
            for row, law in zip(plain, self.laws, strict=True)
        ]

    @property
    def sentence(self) -> str:
        """Say what communication and run time are, or that the law does not decide."""
        out = []
        for law in (
            next(law for law in self.laws if (law.quantity, law.path) == (name, "hostcopy"))
            for name in ("run time", "communication")
        ):
            off = (
                f"missing {law.held_out:+.0%} where the largest recording was held out"
                if math.isfinite(law.held_out)
                else "with no law"
            )
            if law.word == "undetermined":
                out.append(f"{law.quantity} undetermined, {off}")
            else:
                out.append(
                    f"{law.quantity} {show(law.value, 's')} [{show(law.low, 's')}, "
                    f"{show(law.high, 's')}], {off}"
                )
        where = f"{self.laws[-1].ranks_per_node} a node"
        return f"On {self.ranks:,} ranks ({where}, host copies): {'; '.join(out)}"


def scaled(
    traffics: Sequence[Traffic], setup: Setup, *, ranks_per_node: Sequence[int] = (1, 2, 4)
) -> Scaled:
    """Predict a run on ``setup.ranks`` ranks from recordings of it on three or more numbers of
    ranks.

    Each recording is replayed by every data path on every node shape, as
    `turnbuckle.mpi.questions.messages.question.paths` does.

    Raises A194, fewer than three numbers of ranks; A435, no number that is asked about; A170 a
    schedule of operations.
    """
    if not setup.ranks:
        raise error_of("A435.ranks", found=f"{len(traffics)} recordings")
    if any(isinstance(t, OperationGraph) for t in traffics):
        raise error_of("A170.operations", found="a GOAL schedule")
    runs = {t.ranks: t for t in sorted(traffics, key=lambda t: t.ranks)}
    if len(runs) < FEWEST:
        raise error_of(
            "A194",
            found=f"{len(traffics)} recordings, of {', '.join(f'{n:,}' for n in runs)} ranks",
        )
    as_recorded = replace(setup, ranks=0)
    largest, before = list(runs)[-1], list(runs)[-2]
    again = {
        n: grown
        for n, grown in (
            (largest, _repeated(runs[before], largest)),
            (setup.ranks, _repeated(runs[largest], setup.ranks)),
        )
    }
    sizes = {n: _sent(t, as_recorded) for n, t in runs.items()}
    more = {n: None if t is None else _sent(t, as_recorded) for n, t in again.items()}
    laws = [
        law_of(
            name,
            unit,
            {n: s[k] for n, s in sizes.items()},
            setup.ranks,
            repeated_to={n: None if s is None else s[k] for n, s in more.items()},
        )
        for k, (name, unit) in enumerate((("messages", ""), ("bytes", "B")))
    ]
    for each in shapes(ranks_per_node):
        for path in PATHS:
            asked = replace(as_recorded, ranks_per_node=each, path=path)
            rows = {n: _times(t, asked) for n, t in runs.items()}
            grown = {n: None if t is None else _times(t, asked) for n, t in again.items()}
            for k, name in enumerate(("compute", "communication", "run time")):
                if name == "compute" and (path != PATHS[0] or each != ranks_per_node[0]):
                    continue  # compute is as recorded by every path
                of_path, of_shape = ("", 0) if name == "compute" else (path, each)
                first, repeated = (
                    {n: r[k] for n, r in rows.items()},
                    {n: r and r[k] for n, r in grown.items()},
                )
                laws.append(
                    law_of(
                        name,
                        "s",
                        first,
                        setup.ranks,
                        path=of_path,
                        ranks_per_node=of_shape,
                        repeated_to=repeated,
                    )
                )
    return Scaled(setup.ranks, as_recorded, tuple(laws))


def _repeated(traffic: Traffic, ranks: int) -> Traffic | None:
    """Return a run repeated to more ranks; None where it cannot be."""
    try:
        return repeated(traffic, ranks) if ranks > traffic.ranks else None
    except TurnbuckleError:
        return None


def _sent(traffic: Traffic, setup: Setup) -> tuple[float, float]:
    """Return messages and bytes that a rank sends, collectives by their algorithm, in the mean."""
    parts = [traffic.messages, *(expanded(rounds, setup.collectives) for rounds in traffic.rounds)]
    return sum(len(p.send) for p in parts) / traffic.ranks, float(
        sum(p.size_bytes.sum() for p in parts)
    ) / traffic.ranks


def _times(traffic: Traffic, setup: Setup) -> tuple[float, float, float]:
    """Return compute, communication and run time of a replay [s]; nan for a deadlock."""
    row = replayed(traffic, setup, followed=False).row
    return row.compute_seconds + row.kept_seconds, row.communication_seconds, row.seconds
