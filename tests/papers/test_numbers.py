"""The rule of verdicts."""

from __future__ import annotations

import math

import pytest

from turnbuckle.papers.numbers import Interval, exact, judged


@pytest.mark.parametrize(
    ("text", "found", "verdict"),
    [
        ("1.3", 1.349, "reproduced"),
        ("1.3", 1.36, "trunc"),
        ("1.3", 1.41, "off"),
        ("1.3", 1.24, "off"),
        ("-63", -63.4, "reproduced"),
        ("-63", -63.9, "trunc"),
        ("-63", -62.1, "off"),
        ("0", 0.9, "trunc"),
        ("2", math.inf, "off"),
    ],
)
def test_digits_that_are_rounded_cut_off_or_neither(text: str, found: float, verdict: str) -> None:
    assert judged("", text, exact(found)).verdict == verdict


def test_an_interval_without_an_end_is_judged_by_the_other() -> None:
    assert judged("", "2", Interval(3.0, 1.9, math.inf)).verdict == "reproduced"
    assert judged("", "2", Interval(3.0, 2.9, math.inf)).verdict == "trunc"
