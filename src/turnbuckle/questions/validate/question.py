"""Predictions against measurements: every validation case run, and the card that says how good the
predictions are.

    off        WMAPE as a sum where there are many activities (D7), else |predicted / measured - 1|
    coverage   share of the stated 90 % intervals that hold the measured value, with its own 90 % interval (Clopper and Pearson 1934,
               of as many draws as there are cases: the quantities of one case err together)
    order      Kendall's tau-b, with the p value of no relation

The card that ships with Turnbuckle (``accuracy.json``) is what `validate` came to when it was
released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date
from functools import cache
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import polars as pl

from turnbuckle._native import beta_quantile
from turnbuckle.foundation import registry
from turnbuckle.foundation.errors import TurnbuckleError
from turnbuckle.foundation.fields import Declared
from turnbuckle.foundation.findings import Finding, finding, merge
from turnbuckle.projection.answers.shown import Shown
from turnbuckle.projection.uncertainty import LEVEL
from turnbuckle.questions.validate.card import (
    MODEL_TITLES,
    TITLES,
    Group,
    KernelsOf,
    document_shipped,
    shipped_kernels,
)
from turnbuckle.questions.validate.cases import Case, clusters, find
from turnbuckle.questions.validate.rows import KINDS, Data, Row

#: Copies of so many bytes on average show a bandwidth rather than a latency.
LARGE_BYTES: Final = 1e6
#: Questions that no case covers.
NOT_VALIDATED: Final = (
    (
        "added distance on a GPU: what was measured is an OpenCL device on a processor, its "
        "calls delayed or sent over TCP"
    ),
    (
        "run time across a change of coupling alone: the run times of the card are across two "
        "vendors' GPUs, of two programs"
    ),
    (
        "whole runs on another GPU of the same vendor, from a recording (benchmarks and public "
        "tables are held against the ratio alone)"
    ),
    (
        "collectives of more than two ranks (of GPUs their time is kept), and copies between "
        "devices that share a host's link"
    ),
    "host work on another CPU: it is taken over as recorded",
    (
        "cores per GPU, sharing and contention on GPUs (held against their papers and other "
        "simulators; sharing on one OpenCL device)"
    ),
)


@dataclass(frozen=True)
class NotRun(Declared):
    """A case, or one of its questions, that gave no number: name, code of the finding, reason."""

    case: str
    code: str
    why: str


@dataclass(frozen=True)
class About(Declared):
    """Description of a case."""

    name: str
    title: str
    known: str
    why: str
    a: str
    b: str
    cluster: str = ""
    blind: str = ""
    weak: str = ""


@dataclass(frozen=True, repr=False)
class Validation(Shown):
    """Predictions and measurements of all cases that were asked.

    Attributes
    ----------
    rows : predicted and measured, in the order of the cases.
    abouts : the cases behind them.
    not_run : what gave no number.
    day, release : when and by which version, as text.
    cases : how many were asked.
    not_validated : questions that no case covers.
    """

    question: ClassVar[str] = "validate"
    level: ClassVar[float] = LEVEL

    rows: tuple[Row, ...]
    abouts: tuple[About, ...] = ()
    not_run: tuple[NotRun, ...] = ()
    day: str = ""
    release: str = ""
    cases: int = 0
    not_validated: tuple[str, ...] = NOT_VALIDATED

    def table(self) -> pl.DataFrame:
        """Return a row for each quantity: what was predicted, what was measured, how far off that
        is.
        """
        return pl.DataFrame([row_dict(row) for row in self.rows], infer_schema_length=None)

    def headline(self) -> str:
        """Return how much was held against measurement, in one line."""
        return (
            f"Validation: {len(self.rows):,} quantities of {self.cases} cases, {self.day}, "
            f"version {self.release}"
        )

    @property
    def kernels_of_others(self) -> tuple[KernelsOf, ...]:
        """Return the kernels of others on another GPU, as they ship: no case runs them."""
        return shipped_kernels()

    @property
    def card(self) -> list[Group]:
        """Return one group per kind and model, in the order of the kinds."""
        keys = dict.fromkeys((r.kind, r.model) for r in self.rows)
        return [
            self._group([r for r in self.rows if (r.kind, r.model) == key])
            for key in sorted(keys, key=lambda k: KINDS.index(k[0]))
        ]

    @property
    def coverage(self) -> Group | None:
        """Return all intervals as one group; None without any."""
        stated = [r for r in self.rows if r.covered is not None]
        return self._group(stated) if stated else None

    @property
    def by_width(self) -> list[tuple[str, Group]]:
        """Return all intervals in groups of like width, the upper over the lower end: words for the
        width, and the group.
        """
        stated = [
            (r, r.high / r.low if r.low else np.inf)
            for r in self.rows
            if r.covered is not None and r.low is not None and r.high
        ]
        edges = [1.0, *_WIDTHS, np.inf]
        words = [
            f"to {_WIDTHS[0]:g} times",
            *(f"{a:g} to {b:g} times" for a, b in pairwise(_WIDTHS)),
            f"{_WIDTHS[-1]:g} times and more",
        ]
        bins = [[r for r, width in stated if low <= width < high] for low, high in pairwise(edges)]
        return [(word, self._group(rows)) for word, rows in zip(words, bins, strict=True) if rows]

    def _group(self, rows: Sequence[Row]) -> Group:
        abouts = {about.name: about for about in self.abouts}
        cluster = {name: about.cluster or name for name, about in abouts.items()}
        off = [(r.off, r.case) for r in rows if r.off is not None]
        worst, where = max(off, default=(None, ""))
        stated = [r for r in rows if r.covered is not None]
        covered = sum(bool(r.covered) for r in stated)
        # quantities of one case err together: each case counts as one draw
        draws = len({r.case for r in stated})
        low, high = (
            coverage_interval(covered * draws / len(stated), draws) if stated else (None, None)
        )
        orders = tuple(
            (r.tau, r.p_value, r.count) for r in rows if r.tau is not None and r.p_value is not None
        )
        median = float(np.median([o for o, _ in off])) if off else None
        cases = {r.case for r in rows}
        scores = [r.score for r in rows if r.score is not None]
        named = [about for name, about in abouts.items() if name in cases]
        score, clusters = (
            float(np.mean(scores)) if scores else None,
            len({cluster.get(name, name) for name in cases}),
        )
        doubts = (
            sum(bool(about.blind) for about in named),
            sum(bool(about.weak) for about in named),
        )
        directions = (
            sum(r.direction is True for r in rows),
            sum(r.direction is not None for r in rows),
        )
        counts, errors = (
            (len(cases), len(rows)),
            (median, worst, where, covered, len(stated), low, high, orders),
        )
        return Group(
            *(rows[0].kind, rows[0].model, *counts, *errors, score, clusters, *doubts, *directions)
        )

    @property
    def findings(self) -> list[Finding]:
        """Return what was not run, and the models whose intervals are too narrow beyond chance.

        If no single model is, all intervals together are tested.
        """
        out = [finding(n.code, 1, n.case) for n in self.not_run]
        narrow = [g for g in self.card if g.high is not None and g.high < LEVEL]
        out += [
            finding(
                "A363",
                g.stated - g.covered,
                f"{TITLES[g.kind]} ({MODEL_TITLES[g.model]}): {_held(g)}",
            )
            for g in narrow
        ]
        every = self.coverage
        if not narrow and every is not None and every.high is not None and every.high < LEVEL:
            out.append(
                finding(
                    "A363", every.stated - every.covered, f"all intervals together: {_held(every)}"
                )
            )
        return merge(out)

    def about(self, name: str) -> About | None:
        """Return the description of a case."""
        return next((a for a in self.abouts if a.name == name), None)

    def row_dicts(self) -> list[dict[str, Any]]:
        """Return every row with how far off it is."""
        return [row_dict(row) for row in self.rows]


#: Edges between widths of intervals, upper over lower end.
_WIDTHS: Final = (1.2, 1.5, 2.0, 4.0)
_COVERAGE: Final = ("cases", "covered", "stated", "coverage", "low", "high")


def row_dict(row: Row) -> dict[str, Any]:
    """Return a row for JSON and CSV; values are in the row's own unit."""
    return {**asdict(row), "error": row.error, "off": row.off, "covered": row.covered}


def _held(group: Group) -> str:
    return f"{group.covered} of {group.stated}"


def coverage_interval(covered: float, stated: int, level: float = LEVEL) -> tuple[float, float]:
    """Return the interval of the coverage behind `covered` of `stated` independent intervals
    (Clopper and Pearson 1934).

    Parts of an interval may count.

    >>> [round(x, 3) for x in coverage_interval(9, 10)]
    [0.606, 0.995]
    """
    tail = (1.0 - level) / 2
    low = 0.0 if covered == 0 else beta_quantile(covered, stated - covered + 1, tail)
    high = 1.0 if covered == stated else beta_quantile(covered + 1, stated - covered, 1.0 - tail)
    return low, high


def validate(
    cases: Iterable[Case], data: Path | None, progress: Callable[[str], object] | None = None
) -> Validation:
    """Run cases.

    Parameters
    ----------
    cases : from `turnbuckle.questions.validate.cases.find`.
    data : the folder their recordings lie under, or None.
    progress : called with the name of each case before it runs.

    Returns
    -------
    Rows of all questions that could be answered; the others are in `not_run`: A360 its files are
    not there, A361 it waits for a measurement, A362 Turnbuckle refused it.
    """
    shelf, abouts = Data(data), []
    rows: list[Row] = []
    left: list[NotRun] = []
    listed = list(cases)
    together = clusters(listed)
    for case in listed:
        what = (case.a.what, case.b.what or case.a.what)
        abouts.append(
            About(
                case.name,
                case.title,
                case.known,
                case.why,
                *what,
                together[case.name],
                case.blind,
                case.weak,
            )
        )
        if progress is not None:
            progress(case.name)
        if case.waits:
            left.append(NotRun(case.name, "A361", f"waits for {case.waits}"))
        elif gone := case.missing(data):
            more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
            left.append(
                NotRun(
                    case.name,
                    "A360",
                    f"{gone[0]}{more} not there" + ("" if data else "; no data folder was given"),
                )
            )
        else:
            for question in case.asks:
                try:
                    for row in registry.load("predictions", question.model)(case, question, shelf):
                        if row.measured is not None and not 0.0 < row.measured < float("inf"):
                            why = (
                                f"{question.model}: {row.quantity}: the measured value is none: "
                                f"{row.measured:g}"
                            )
                            left.append(NotRun(case.name, "A362", why))
                        else:
                            rows.append(row)
                except TurnbuckleError as error:
                    evidence = f": {error.found}" if error.found else ""
                    left.append(
                        NotRun(
                            case.name,
                            "A362",
                            f"{question.model}: {error.code} {error.what}{evidence}",
                        )
                    )
    rows += _machines_in_order(rows)
    return Validation(
        tuple(rows),
        tuple(abouts),
        tuple(left),
        date.today().isoformat(),
        version("turnbuckle"),
        len(listed),
    )


def _machines_in_order(rows: Sequence[Row]) -> list[Row]:
    """Return the order of machines by bandwidth of their large copies to the device, predicted and
    measured.
    """
    copies = (
        r
        for r in rows
        if r.kind in ("transfers", "pageable")
        and r.model in ("datasheet", "machine")
        and r.quantity.startswith("h2d")
    )
    large = [
        r for r in copies if r.size_bytes >= LARGE_BYTES * r.count and r.predicted and r.measured
    ]
    if len(large) < 3:
        return []
    predicted, actual = (
        [r.size_bytes / (value or 1.0) for r, value in zip(large, values, strict=True)]
        for values in _predicted_and_measured(large)
    )
    if len({*predicted}) < 2 or len({*actual}) < 2:
        return []  # equal values have no order to test
    # imported here: it takes longer than what every answer quotes from the card
    from scipy.stats import kendalltau

    tau = kendalltau(predicted, actual)
    name = "order of nodes by the bandwidth of large copies to the device"
    return [
        Row(
            "(all)",
            "ranking",
            "datasheet",
            name,
            "",
            None,
            None,
            count=len(large),
            tau=float(tau.statistic),
            p_value=float(tau.pvalue),
        )
    ]


def _predicted_and_measured(rows: Sequence[Row]) -> tuple[list[float | None], list[float | None]]:
    return [r.predicted for r in rows], [r.measured for r in rows]


def from_dict(document: Mapping[str, Any]) -> Validation:
    """Return the validation that `Validation.as_dict` wrote."""
    names = [f.name for f in fields(Row)]
    rows = tuple(Row(**{n: row[n] for n in names}) for row in document["rows"])
    abouts = tuple(About(**a) for a in document["cases"])
    return Validation(
        rows,
        abouts,
        tuple(NotRun(**n) for n in document["not_run"]),
        document["date"],
        document["version"],
        len(abouts),
        tuple(document["not_validated"]),
    )


@cache
def shipped() -> Validation:
    """Return the card that ships with this version."""
    return from_dict(document_shipped())


def of_cases(
    names: Sequence[str] = (),
    cases: str | Path = "validation/cases",
    data: str | Path | None = None,
) -> Validation:
    """Return predictions beside measurements, case by case: ``turnbuckle validate``.

    Parameters
    ----------
    names : cases of the folder, or folders of cases; all of the folder if left out.
    cases : the folder of cases.
    data : the folder under which the cases' recordings lie.
    """
    return validate(find(names, Path(cases)), Path(data) if data is not None else None)
