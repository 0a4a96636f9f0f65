"""What holds of every answer, whatever the recording: checked on the JSON that a verb prints.

No number is NaN or infinite.  A range holds its value, parts add up to their whole, a ratio is that
of its two times, and a run on its own machine takes the time that was measured.  A run time that is
null has a finding that says why.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

#: Keys of numbers that are the answer itself.
ANSWERS = ("seconds", "penalty", "measured_seconds")
#: Parts and their whole, beside each other in one projection.
PARTS = {"breakdown": "seconds", "measured_breakdown": "measured_seconds"}
NEAR = 1e-9


def broken(text: str | bytes) -> list[str]:
    """Return what an answer breaks, a sentence each; none of what is no object of JSON."""
    constants: list[str] = []
    try:
        document = json.loads(text, parse_constant=constants.append)
    except (ValueError, RecursionError) as error:
        return [f"no JSON: {type(error).__name__}"]
    if not isinstance(document, dict):
        return []
    out = [f"{name} is a number" for name in constants]
    silent = not any("findings" in held and held["findings"] for _, held in objects(document))
    for place, held in objects(document):
        out += [f"{place}.{rule}" for rule in _of_object(held, silent)]
    for row in document.get("projections") or ():
        out += [f"projections: {rule}" for rule in _of_projection(row)]
    out += _of_curve(document.get("curve") or [])
    return out


def objects(value: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every object of a document with the keys that lead to it."""
    if isinstance(value, dict):
        yield place, value
        for key, inside in value.items():
            yield from objects(inside, f"{place}.{key}")
    elif isinstance(value, list):
        for inside in value:
            yield from objects(inside, place)


def _of_object(held: dict[str, Any], silent: bool) -> Iterator[str]:
    for key, value in held.items():
        if isinstance(value, float) and not math.isfinite(value):
            yield f"{key} is {value}"
        if key in ANSWERS and value is None and silent:
            yield f"{key} is null, and no finding says why"
    seconds, ends = held.get("seconds"), held.get("interval") or []
    if number(seconds) and len(ends) == 2 and all(map(number, ends)):
        low, high = ends
        slack = NEAR * max(abs(seconds), 1e-9)
        if not low - slack <= seconds <= high + slack:
            yield f"seconds: {seconds} is not in [{low}, {high}]"


def _of_projection(row: dict[str, Any]) -> Iterator[str]:
    seconds, measured = row.get("seconds"), row.get("measured_seconds")
    if row.get("target") == "self" and seconds != measured:
        yield f"self takes {seconds} s, and {measured} s were measured"
    ratio = row.get("penalty")
    if (
        all(map(number, (seconds, measured, ratio)))
        and measured
        and not near(ratio, seconds / measured)
    ):
        yield f"penalty {ratio} is not {seconds} over {measured}"
    for parts, whole in PARTS.items():
        values = list((row.get(parts) or {}).values())
        total = row.get(whole)
        if values and all(map(number, values)) and number(total) and not near(sum(values), total):
            yield f"{parts} adds up to {sum(values)}, and {whole} is {total}"


def _of_curve(curve: list[dict[str, Any]]) -> Iterator[str]:
    for point in curve:
        if all(number(point.get(key)) for key in ("seconds", "lower", "upper")):
            yield from (
                f"curve: {rule}"
                for rule in _of_object(
                    {**point, "interval": [point["lower"], point["upper"]]}, False
                )
            )
    points = sorted(
        (p["slack_s"], p["seconds"])
        for p in curve
        if number(p.get("slack_s")) and number(p.get("seconds"))
    )
    for (_, before), (at, after) in pairwise(points):
        if after < before * (1 - NEAR):
            yield f"the run is shorter at {at} s of distance than below it"


def number(value: Any) -> bool:
    """Return whether a value of JSON is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def near(one: float, other: float) -> bool:
    """Return whether two numbers differ by no more than sums in another order may."""
    return math.isclose(one, other, rel_tol=NEAR, abs_tol=1e-12)
