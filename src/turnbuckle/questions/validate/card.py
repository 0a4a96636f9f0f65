"""The card: how good predictions of each kind of question were, by model, and the card that ships
with Turnbuckle (``accuracy.json``).

Every answer quotes it, so it is read without what computes it
(`turnbuckle.questions.validate.question`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any, Final

from turnbuckle.foundation.fields import Declared
from turnbuckle.foundation.schema import table_rows
from turnbuckle.show.text import terms

#: Kinds of question in words.
TITLES: Final = terms("kind of question")
#: Models in words.
MODEL_TITLES: Final = terms("model of a question")
#: Kinds whose error is not one of a model: what no model can beat.
FLOOR: Final = "noise"
CARD_FILE: Final = "accuracy.json"
_NUMBERS: Final = ("median", "mean", "nothing", "bandwidth", "held", "width")
_CARD: Final = '"card": '


@dataclass(frozen=True)
class Group(Declared):
    """One line of the card: a kind of question, answered by one model.

    Attributes
    ----------
    kind, model : which.
    cases, count : cases and quantities.
    median, worst : of how far off they are, as shares; None for an order.
    worst_case : where the worst is.
    covered, stated : intervals that hold the measured value, and intervals in all.
    low, high : 90 % interval of the coverage; None without intervals.
    orders : (tau, p value, how many were put in order) of each order.
    score : mean interval score, over the measured value; smaller is better.
    clusters : groups of cases that share a recording or a machine of their own, and may err
        together; few of them in many cases make the interval of the coverage too narrow.
    right, directions : ratios on the right side of 1, and ratios that were predicted and measured
        on a side of it.
    blind, weak : cases predicted before the answer was opened, and cases that prove less than they
        seem to.
    """

    kind: str
    model: str
    cases: int
    count: int
    median: float | None
    worst: float | None
    worst_case: str
    covered: int
    stated: int
    low: float | None
    high: float | None
    orders: tuple[tuple[float, float, int], ...] = ()
    score: float | None = None
    clusters: int = 0
    blind: int = 0
    weak: int = 0
    right: int = 0
    directions: int = 0

    @property
    def coverage(self) -> float | None:
        """Return the share of the intervals that hold the measured value."""
        return self.covered / self.stated if self.stated else None

    @property
    def title(self) -> str:
        """Return the kind in words."""
        return TITLES[self.kind]


@dataclass(frozen=True)
class KernelsOf(Declared):
    """Kernels of others of one class, predicted on a GPU on which no constant was fitted and whose
    memory nobody measured.

    Attributes
    ----------
    kind, gpu : class of the kernels with its layout, and the machine asked about.
    pairs : of an operation and another GPU that its time is known on.
    median, mean : relative error of the predicted ratio.
    nothing, bandwidth : the median of no change, and of the ratio of memory bandwidths.
    held, width : share of the pairs in a range as wide as errors of the other GPUs ask for, each
        left out in turn; and its upper end over its lower one.
    """

    kind: str
    gpu: str
    pairs: int
    median: float
    mean: float
    nothing: float
    bandwidth: float
    held: float
    width: float


@cache
def shipped_kernels() -> tuple[KernelsOf, ...]:
    """Return the kernels of others that ship with this version."""
    out = []
    for row in table_rows("questions/validate/measured/kernels.csv"):
        kind = f"{row['class']} {row['layout']}".strip()
        numbers = (float(row[name]) for name in _NUMBERS)
        out.append(KernelsOf(kind, row["gpu"], int(row["pairs"]), *numbers))
    return tuple(out)


def in_words(groups: Sequence[Group], kind: str, model: str) -> str:
    """Return the errors of a kind of question in one line; empty if the card has none."""
    group = next(
        (g for g in groups if (g.kind, g.model) == (kind, model) and g.median is not None), None
    )
    if group is None or group.median is None or group.worst is None:
        return ""
    held = f", {group.covered} of {group.stated} in the 90 % range" if group.stated else ""
    baseline = next(
        (g for g in groups if (g.kind, g.model) == (kind, "nothing") and g.median is not None), None
    )
    cases = f"{group.cases} case{'' if group.cases == 1 else 's'}"
    if baseline is not None and baseline.cases > group.cases:
        cases = f"{group.cases} of {baseline.cases} cases answered"
    beside = "" if baseline is None else _beside(group.median, baseline.median or 0.0)
    return (
        f"{TITLES[kind]} off by {group.median:.1%} in the median, {group.worst:.0%} at worst, "
        f"{cases}{held}{beside}"
    )


def _beside(median: float, unchanged: float) -> str:
    """Return how far off it is to say that nothing changes, and whether that is no worse."""
    if median < unchanged:
        return f"; that nothing changes is off by {unchanged:.1%}"
    return f"; no better than to say that nothing changes, off by {unchanged:.1%}"


def _text() -> str:
    return (files("turnbuckle.questions.validate") / CARD_FILE).read_text(encoding="utf-8")


@cache
def document_shipped() -> Mapping[str, Any]:
    """Return what `Validation.as_dict` wrote of the card that ships with this version."""
    document: dict[str, Any] = json.loads(_text())
    return document


@cache
def shipped_groups() -> tuple[Group, ...]:
    """Return the lines of the card that ships with this version, as they were written;
    `Validation.card` counts them again.

    Thousands of rows stand before them, which no answer quotes: they are not decoded.
    """
    names = [f.name for f in fields(Group)]
    groups, text = [], _text()
    for group in json.JSONDecoder().raw_decode(text, text.rindex(_CARD) + len(_CARD))[0]:
        orders = tuple(
            (order["tau"], order["p_value"], order["count"]) for order in group["orders"]
        )
        groups.append(Group(**{**{n: group[n] for n in names}, "orders": orders}))
    return tuple(groups)


def shipped_in_words(kind: str, model: str) -> str:
    """Return `in_words` of the card that ships with this version."""
    return in_words(shipped_groups(), kind, model)


def median_off(kind: str, model: str) -> float | None:
    """Return how far off a model was in the median, by the card that ships; None where it has none."""
    found = (g.median for g in shipped_groups() if (g.kind, g.model) == (kind, model))
    return next(found, None)


def away_in_words(model: str, kind: str = "distance") -> str:
    """Return how good a model was where distance alone changed, as answers say it; empty for one
    that was not asked.
    """
    accuracy = shipped_in_words(kind, model)
    return (
        (
            f"checked against an OpenCL device on a CPU, not yet on a GPU: {accuracy}; turnbuckle "
            "validate --card"
        )
        if accuracy
        else ""
    )
