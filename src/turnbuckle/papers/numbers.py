"""Printed number of a paper, recomputed: the interval of its digits, and the verdict.

A printed number x whose last digit has the unit `u` is the interval [x - u/2, x + u/2].  Inputs are
swept over their intervals:

=================  ===================================================================================
verdict            meaning
=================  ===================================================================================
``reproduced``     the recomputed interval overlaps the printed one
``reproduced*``    it overlaps under an assumption that the paper does not print (a formula, a reading of a range), or is compared
                   with itself, as the paper prints no number of its own
``trunc``          the paper cut its digits off where it should have rounded
``off``            it does not overlap
``contradiction``  the paper disagrees with itself, or a printed formula cannot be meant
``n/r``            cannot be recomputed: the inputs are only drawn in a figure, or not printed at all
=================  ===================================================================================
"""

from __future__ import annotations

import csv
import itertools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Literal, NamedTuple

from turnbuckle.foundation.schema import table_rows

Verdict = Literal["reproduced", "reproduced*", "trunc", "off", "contradiction", "n/r"]

_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?")
_ALL_CORNERS = 10  # up to so many inputs all combinations of their ends are tried


@dataclass(frozen=True)
class Interval:
    """Number and the interval of its digits, in one unit.

    >>> printed("1.3")
    Interval(value=1.3, low=1.25, high=1.35)
    """

    value: float
    low: float
    high: float

    def __float__(self) -> float:
        return self.value

    def times(self, factor: float) -> Interval:
        """Return the interval in another unit: value and both ends times `factor` (positive)."""
        return Interval(self.value * factor, self.low * factor, self.high * factor)


def exact(value: float) -> Interval:
    """Return a number without rounding, such as a count or a constant.

    >>> exact(8).low
    8.0
    """
    return Interval(float(value), float(value), float(value))


def unit_of_last_digit(text: str) -> float:
    """Return the unit of the last printed digit.

    >>> unit_of_last_digit("5.05"), unit_of_last_digit("12"), unit_of_last_digit("4.5e-3")
    (0.01, 1.0, 0.0001)
    """
    mantissa, _, exponent = text.lower().partition("e")
    return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def printed(text: str) -> Interval:
    """Return the interval of a printed number.  Raise `ValueError` for text that is not one plain
    number.
    """
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"not a plain number: {text!r}")
    value, half = float(text), unit_of_last_digit(text) / 2
    return Interval(value, round(value - half, 12), round(value + half, 12))


def swept(function: Callable[..., float], *inputs: Interval) -> Interval:
    """Return the value of a function at the inputs, and its least and most within their intervals.

    Parameters
    ----------
    function : takes as many numbers; it is monotone in each of them, as the papers' equations are,
        so that its extremes lie where each input is at one of its ends.

    >>> swept(lambda a, b: a / b, printed("3.0"), printed("2.0")).value
    1.5
    """
    nominal = float(function(*(i.value for i in inputs)))
    if len(inputs) <= _ALL_CORNERS:
        values = [
            float(function(*ends))
            for ends in itertools.product(*(sorted({i.low, i.high}) for i in inputs))
        ]
        return Interval(nominal, min(values), max(values))
    # all combinations are too many, so each input alone decides which of its ends gives the low
    # value
    low, high = [], []
    for index, varied in enumerate(inputs):
        ends = [
            function(*(i.value if n != index else end for n, i in enumerate(inputs)))
            for end in (varied.low, varied.high)
        ]
        low.append(varied.low if ends[0] <= ends[1] else varied.high)
        high.append(varied.high if ends[0] <= ends[1] else varied.low)
    return Interval(nominal, float(function(*low)), float(function(*high)))


class PrintedNumber(NamedTuple):
    """Number that a paper prints: subject, quantity, a place (a size, a bin, a row), text, unit and
    source in the paper.
    """

    subject: str
    quantity: str
    place: str
    text: str
    unit: str
    source: str


@dataclass(frozen=True)
class Paper:
    """Numbers that a paper prints, as they ship with Turnbuckle: ``papers/<file>.csv``, texts as
    printed.

    >>> Paper("row_slack/numbers").text("proxy", "matrix size", "2^11")
    '16'
    """

    file: str

    @cached_property
    def all(self) -> tuple[PrintedNumber, ...]:
        """Return every number of the file."""
        text = (files("turnbuckle.papers") / f"{self.file}.csv").read_text(encoding="utf-8")
        return tuple(PrintedNumber(*row) for row in list(csv.reader(text.splitlines()))[1:])

    def texts(self, subject: str, quantity: str) -> dict[str, str]:
        """Return the numbers of one kind, as printed, by their place.  Raise `KeyError` for a kind
        that the file does not hold.
        """
        texts = {
            p.place: p.text for p in self.all if (p.subject, p.quantity) == (subject, quantity)
        }
        if not texts:
            raise KeyError((self.file, subject, quantity))
        return texts

    def text(self, subject: str, quantity: str, place: str | None = None) -> str:
        """Return one number as printed; `place` may be left out where there is only one.  Raise
        `KeyError` otherwise.
        """
        texts = self.texts(subject, quantity)
        if place is None and len(texts) == 1:
            return next(iter(texts.values()))
        return texts[place or ""]

    def number(self, subject: str, quantity: str, place: str | None = None) -> Interval:
        """Return one number with the interval of its digits."""
        return printed(self.text(subject, quantity, place))


@dataclass(frozen=True)
class Recomputed:
    """Printed number or statement, recomputed."""

    #: paper, place and name, as ``R.T5.add``; papers are R (ECP report), N (Groves et al.), A
    #: (AHEAD), G (GPUDirect), S (slack)
    id: str
    #: what, resolution: as ``recorded.csv`` has them (`Recorded`)
    what: str
    printed: str
    #: number in the unit of the printed one, or text for a statement; None where it cannot be
    #: recomputed
    recomputed: float | str | None
    verdict: Verdict
    #: reason of the verdict: the assumption behind a star, the missing input, or the cause of a
    #: deviation
    note: str = ""
    #: low, high: least and most within the rounding of the inputs; None for statements
    low: float | None = None
    high: float | None = None
    resolution: str = ""

    @property
    def paper(self) -> str:
        """Return the first letter of the id."""
        return self.id.partition(".")[0]

    @property
    def deviation(self) -> float | None:
        """Return recomputed over printed, less one; None where either is not a plain number, or 0
        is printed.
        """
        if (
            not isinstance(self.recomputed, float)
            or not _NUMBER.fullmatch(self.printed)
            or not float(self.printed)
        ):
            return None
        return self.recomputed / float(self.printed) - 1.0


class Recorded(NamedTuple):
    """One row of ``recorded.csv``: what it is about, and how it came out first."""

    id: str
    #: verdict, recomputed: first verdict and number; None where the row has no number
    verdict: str = ""
    recomputed: float | None = None
    what: str = ""
    #: whether it rests on an assumption that the paper does not print, or is compared with itself;
    #: the note says which
    assumed: bool = False
    #: where a number that does not hold is a contradiction of the paper: what Turnbuckle does, and
    #: why
    resolution: str = ""
    note: str = ""  #: reason of the verdict, where it names no number that is recomputed


@cache
def recorded() -> dict[str, Recorded]:
    """Return the rows of all papers by their ids, in the order of the papers."""
    return {
        r["id"]: Recorded(
            **r
            | {
                "recomputed": float(r["recomputed"]) if r["recomputed"] else None,
                "assumed": bool(r["assumed"]),
            }  # type: ignore[arg-type]
        )
        for r in table_rows("papers/recorded.csv")
    }


def _row(id: str) -> Recorded:
    return recorded().get(id, Recorded(id))


def overlap(first: Interval, second: Interval) -> bool:
    """Return whether two intervals have a number in common, up to rounding of floats.

    >>> overlap(printed("1.3"), printed("1.35")), overlap(exact(1.36), printed("1.3"))
    (True, False)
    """
    slack = 1e-9 * max(abs(second.low), abs(second.high))
    return first.low <= second.high + slack and first.high >= second.low - slack


def judged(
    id: str,
    text: str,
    recomputed: Interval | float,
    *,
    within: tuple[float, float] | None = None,
    rounded_down_to: float | None = None,
    note: str = "",
) -> Recomputed:
    """Compare a recomputed number, in the unit of the printed one, with the text of the paper, a
    plain number.

    Parameters
    ----------
    within : interval of the text where the paper says "about", "roughly" or "up to"; if left out,
        that of its last digit.
    rounded_down_to : step to which the paper cuts off; if left out, the unit of the last digit.
    note : that of the row, where it needs numbers.
    """
    row, interval = _row(id), recomputed if isinstance(recomputed, Interval) else exact(recomputed)
    verdict: Verdict = "reproduced*" if row.assumed else "reproduced"
    if not overlap(interval, printed(text) if within is None else Interval(float(text), *within)):
        step = rounded_down_to or unit_of_last_digit(text)
        cut = {
            math.trunc(end / step + math.copysign(1e-9, end))
            for end in (interval.low, interval.high)
            if math.isfinite(end)
        }
        verdict = "trunc" if round(float(text) / step) in cut else "off"
    return Recomputed(
        id, row.what, text, interval.value, verdict, note or row.note, interval.low, interval.high
    )


def stated(
    id: str, text: str, recomputed: str, holds: bool, *, note: str = "", resolution: str = ""
) -> Recomputed:
    """Return the verdict on a statement, or a number with words, that holds or does not.

    One that does not hold is a contradiction where the row has a resolution; `resolution` replaces
    one that needs numbers.
    """
    row = _row(id)
    resolution, note = resolution or row.resolution, note or row.note
    if holds:
        return Recomputed(
            id, row.what, text, recomputed, "reproduced*" if row.assumed else "reproduced", note
        )
    return Recomputed(
        id,
        row.what,
        text,
        recomputed,
        "contradiction" if resolution else "off",
        note,
        resolution=resolution,
    )


def not_printed(id: str, text: str, missing: str, recomputed: str | None = None) -> Recomputed:
    """Return a number that cannot be recomputed, with the missing inputs."""
    return Recomputed(id, _row(id).what, text, recomputed, "n/r", missing)
