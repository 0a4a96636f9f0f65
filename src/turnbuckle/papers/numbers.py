"""A number a paper prints, computed again: the interval its digits stand for, and the verdict.

A printed number whose last digit stands for `u` is the interval [x - u/2, x + u/2].  Inputs are swept over their intervals:

=================  ===================================================================================
verdict            meaning
=================  ===================================================================================
``reproduced``     what comes out overlaps what is printed
``reproduced*``    it does, under an assumption that the paper does not print
``trunc``          the paper cut its digits off where it should have rounded
``off``            it does not
``contradiction``  the paper disagrees with itself, or a formula cannot mean what it says
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
from functools import cached_property
from importlib.resources import files
from typing import Literal, NamedTuple

Verdict = Literal["reproduced", "reproduced*", "trunc", "off", "contradiction", "n/r"]

_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?")
_ALL_CORNERS = 10  # as many inputs as all combinations of their ends are tried for


@dataclass(frozen=True)
class Interval:
    """A number and the interval it stands for, in one unit.

    >>> printed("1.3")
    Interval(value=1.3, low=1.25, high=1.35)
    """

    value: float
    low: float
    high: float

    def __float__(self) -> float:
        return self.value

    def times(self, factor: float) -> Interval:
        """The same in another unit: every end times `factor` (positive)."""
        return Interval(self.value * factor, self.low * factor, self.high * factor)


def exact(value: float) -> Interval:
    """A number without rounding: a count, a constant.

    >>> exact(8).low
    8.0
    """
    return Interval(float(value), float(value), float(value))


def unit_of_last_digit(text: str) -> float:
    """What a unit of the last printed digit is worth.

    >>> unit_of_last_digit("5.05"), unit_of_last_digit("12"), unit_of_last_digit("4.5e-3")
    (0.01, 1.0, 0.0001)
    """
    mantissa, _, exponent = text.lower().partition("e")
    return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def printed(text: str) -> Interval:
    """The interval a printed number stands for.  Raises `ValueError` for what is not one plain number."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"not a plain number: {text!r}")
    value, half = float(text), unit_of_last_digit(text) / 2
    return Interval(value, round(value - half, 12), round(value + half, 12))


def swept(function: Callable[..., float], *inputs: Interval) -> Interval:
    """What a function gives at the inputs, and the least and most it gives within their intervals.

    Parameters
    ----------
    function : of as many numbers; monotone in each of them, as the equations here are, so that its extremes lie where every
        input stands at one of its ends.

    >>> swept(lambda a, b: a / b, printed("3.0"), printed("2.0")).value
    1.5
    """
    nominal = float(function(*(i.value for i in inputs)))
    if len(inputs) <= _ALL_CORNERS:
        found = [float(function(*ends)) for ends in itertools.product(*(sorted({i.low, i.high}) for i in inputs))]
        return Interval(nominal, min(found), max(found))
    # too many for all combinations: each input on its own says which of its ends is the low one
    low, high = [], []
    for at, one in enumerate(inputs):
        ends = [function(*(i.value if n != at else end for n, i in enumerate(inputs))) for end in (one.low, one.high)]
        low.append(one.low if ends[0] <= ends[1] else one.high)
        high.append(one.high if ends[0] <= ends[1] else one.low)
    return Interval(nominal, float(function(*low)), float(function(*high)))


class Said(NamedTuple):
    """One number a paper prints: of what, which, at what (a size, a bin, a row), the text, its unit, where it stands."""

    subject: str
    quantity: str
    at: str
    text: str
    unit: str
    source: str


@dataclass(frozen=True)
class Paper:
    """What a paper prints, as it ships with Turnbuckle: ``papers/<file>.csv``, texts as printed.

    >>> Paper("row_slack/numbers").text("proxy", "matrix size", "2^11")
    '16'
    """

    file: str

    @cached_property
    def all(self) -> tuple[Said, ...]:
        """Every number of the file."""
        text = (files("turnbuckle.papers") / f"{self.file}.csv").read_text(encoding="utf-8")
        return tuple(Said(*row) for row in list(csv.reader(text.splitlines()))[1:])

    def texts(self, subject: str, quantity: str) -> dict[str, str]:
        """Numbers of one kind, as printed, by what they are at.  Raises `KeyError` for what the file does not hold."""
        found = {p.at: p.text for p in self.all if (p.subject, p.quantity) == (subject, quantity)}
        if not found:
            raise KeyError((self.file, subject, quantity))
        return found

    def text(self, subject: str, quantity: str, at: str | None = None) -> str:
        """One number as printed; `at` may be left out where there is only one.  Raises `KeyError` otherwise."""
        found = self.texts(subject, quantity)
        if at is None and len(found) == 1:
            return next(iter(found.values()))
        return found[at or ""]

    def number(self, subject: str, quantity: str, at: str | None = None) -> Interval:
        """One number with the interval its digits stand for."""
        return printed(self.text(subject, quantity, at))


@dataclass(frozen=True)
class Recomputed:
    """One printed number, or one printed statement, recomputed.

    Attributes
    ----------
    id : paper, place and name, as ``R.T5.add``; papers are R (ECP report), N (Groves et al.), A (AHEAD), G (GPUDirect), S (slack).
    what : the quantity and its unit.
    printed : as the paper has it.
    recomputed : number in the unit of the printed one, or text where it is a statement; None where it cannot be recomputed.
    verdict : see the module.
    note : what explains a verdict: the assumption behind a star, what is missing, why a number is off.
    low, high : least and most within the rounding of the inputs; None for statements.
    resolution : of a contradiction: what Turnbuckle does, and why.
    """

    id: str
    what: str
    printed: str
    recomputed: float | str | None
    verdict: Verdict
    note: str = ""
    low: float | None = None
    high: float | None = None
    resolution: str = ""

    @property
    def paper(self) -> str:
        """First letter of the id."""
        return self.id.partition(".")[0]

    @property
    def deviation(self) -> float | None:
        """Recomputed over printed less one; None where either is not a plain number, or nothing is printed but 0."""
        if not isinstance(self.recomputed, float) or not _NUMBER.fullmatch(self.printed) or not float(self.printed):
            return None
        return self.recomputed / float(self.printed) - 1.0


def judged(
    id: str,
    what: str,
    text: str,
    found: Interval | float,
    *,
    assumed: bool = False,
    within: tuple[float, float] | None = None,
    rounded_down_to: float | None = None,
    note: str = "",
) -> Recomputed:
    """A number against the printed one.

    Parameters
    ----------
    text : a plain number, as printed.
    found : recomputed, in the same unit.
    assumed : whether it rests on something the paper does not print (say what in `note`).
    within : what the text stands for where the paper says "about", "roughly" or "up to"; its last digit otherwise.
    rounded_down_to : the step to which the paper cuts off; a unit of the last digit otherwise.
    """
    got = found if isinstance(found, Interval) else exact(found)
    low, high = within or (printed(text).low, printed(text).high)
    slack = 1e-9 * max(abs(low), abs(high))
    verdict: Verdict
    if got.low <= high + slack and got.high >= low - slack:
        verdict = "reproduced*" if assumed else "reproduced"
    else:
        step = rounded_down_to or unit_of_last_digit(text)
        cut = {math.trunc(end / step + math.copysign(1e-9, end)) for end in (got.low, got.high) if math.isfinite(end)}
        verdict = "trunc" if round(float(text) / step) in cut else "off"
    return Recomputed(id, what, text, got.value, verdict, note, got.low, got.high)


def stated(
    id: str,
    what: str,
    text: str,
    found: str,
    holds: bool,
    *,
    otherwise: Literal["off", "contradiction"] = "off",
    assumed: bool = False,
    note: str = "",
    resolution: str = "",
) -> Recomputed:
    """A statement, or a number with words, that holds or does not; `otherwise` is the verdict where it does not."""
    verdict: Verdict = otherwise if not holds else "reproduced*" if assumed else "reproduced"
    return Recomputed(id, what, text, found, verdict, note, resolution=resolution if verdict == "contradiction" else "")


def not_printed(id: str, what: str, text: str, missing: str, found: str | None = None) -> Recomputed:
    """What cannot be recomputed, and what is missing for it."""
    return Recomputed(id, what, text, found, "n/r", missing)
