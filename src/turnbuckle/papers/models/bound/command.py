"""Command ``turnbuckle model bound``: what a gain between two latencies, or two bandwidths, implies
for a third one.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from turnbuckle.foundation.errors import UnitError, error_of
from turnbuckle.foundation.fields import SCHEMA_VERSION
from turnbuckle.foundation.units import parse, show
from turnbuckle.papers.numbers import printed
from turnbuckle.show.terminal.console import Terminal
from turnbuckle.show.terminal.model_answer import ModelAnswer

if TYPE_CHECKING:
    from turnbuckle.papers.numbers import Interval

_RATIO = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(?:x\s*)?", re.ASCII)
#: Delays shown by default: none, and multiples of --from.
_FACTORS = (0, 2, 10, 100)
_SLOWEST, _FASTEST, _LONGEST = 1e-9, 1e18, 1e9  # [B/s], [B/s], [s]


def bound(
    *,
    gain: Annotated[
        str,
        Parameter(
            help=(
                "run time at --from over run time at --to, as printed: 1.21 stands for 1.205 to "
                "1.215"
            )
        ),
    ],
    from_: Annotated[
        str, Parameter(help="latency of the baseline, as 100us; or its bandwidth, as 16GB/s")
    ],
    to: Annotated[
        str, Parameter(help="the better latency, or bandwidth, that the gain belongs to")
    ],
    at: Annotated[
        list[str] | None,
        Parameter(
            help="latencies or bandwidths asked for: several times or with commas", negative=()
        ),
    ] = None,
    claimed: Annotated[
        str | None,
        Parameter(
            help=(
                "a printed ratio of run time at --at over run time at --from, to be held against "
                "the gain"
            )
        ),
    ] = None,
) -> ModelAnswer:
    """Bound the run time at one latency by a gain known between two others: it is convex in
    latency, whatever the application.
    """
    known_gain = _ratio("--gain", gain)
    if known_gain.value < 1:
        raise (
            error_of("A044.gain", found=f"--gain {gain}", gain=1 / known_gain.value)
            if known_gain.value
            else error_of("A044.loss", found=f"--gain {gain}")
        )
    unit = _unit(from_)
    now, near = _delay("--from", from_, unit), _delay("--to", to, unit)
    if not near < now:
        raise error_of("A044.ends", found=f"--from {from_} --to {to}")
    words = [part.strip() for word in at or [] for part in word.split(",") if part.strip()]
    if at is not None and not words:
        raise error_of("A044.point")
    far = [_delay("--at", word, unit) for word in words] or [factor * now for factor in _FACTORS]
    if claimed is not None and len(words) != 1:
        raise error_of("A044.claim", found=f"{len(words)} of them")
    claim = None if claimed is None else _ratio("--claimed", claimed)
    document = answer(
        known_gain, now, near, far, over="latency" if unit == "s" else "bandwidth", claimed=claim
    )
    return ModelAnswer(document, document["bounds"], partial(_print, document=document))


def _ratio(option: str, text: str) -> Interval:
    """Return a printed ratio and the interval of its digits."""
    match = _RATIO.fullmatch(text)
    if match is None or not float(match[1]):
        raise error_of("A044.ratio", found=f"{option} {text[:40]}", option=option)
    return printed(match[1])


def _unit(text: str) -> Literal["s", "B/s"]:
    try:
        parse(text, "B/s")
    except UnitError:
        return "s"
    return "B/s"


def _delay(option: str, text: str, unit: Literal["s", "B/s"]) -> float:
    """Return a latency [s], or the seconds per byte at a bandwidth [s/B]: run time is convex in
    either.
    """
    value = parse(text, unit)
    if value < 0 or (unit == "B/s" and value < _SLOWEST):
        raise error_of(
            "A044.latency" if unit == "s" else "A044.bandwidth", found=f"{option} {text}"
        )
    if value > (_LONGEST if unit == "s" else _FASTEST):
        raise error_of("A044.large", found=text[:40], option=option)
    return value if unit == "s" else 1.0 / value


def answer(
    gain: Interval,
    now: float,
    near: float,
    far: list[float],
    *,
    over: Literal["latency", "bandwidth"] = "latency",
    claimed: Interval | None = None,
) -> dict[str, Any]:
    """Return the document of the command.

    Parameters
    ----------
    now, near, far : delays [s], or seconds per byte [s/B].
    """
    from turnbuckle.papers.models.bound.affine import bound_on, possible_on

    key = "seconds" if over == "latency" else "bandwidth"

    def named(delay: float) -> float:
        return delay if over == "latency" else 1.0 / delay if delay else float("inf")

    rows: list[dict[str, Any]] = []
    for x in far:
        inside = near < x < now
        ends = [float(bound_on(x, near, now, max(b, 1.0))) for b in (gain.low, gain.high)]
        least, most = zip(
            *(possible_on(x, near, now, max(b, 1.0)) for b in (gain.low, gain.high)), strict=True
        )
        rows.append(
            {
                f"at_{key}": named(x),
                "holds": "exactly" if x in (near, now) else "at most" if inside else "at least",
                "ratio": float(bound_on(x, near, now, gain.value)),
                "rounded_ratio": max(ends) if inside else min(ends),
                "low": float(min(least)),
                "high": None if x > now else float(max(most)),
            }
        )
    return {
        "schema_version": SCHEMA_VERSION,
        "over": over,
        f"from_{key}": named(now),
        f"to_{key}": named(near),
        "gain": {"ratio": gain.value, "low": gain.low, "high": gain.high},
        "bounds": rows,
        "claimed": None
        if claimed is None
        else _judged(claimed, gain, rows[0], (near, now), named, key),
    }


def _judged(
    claimed: Interval,
    gain: Interval,
    row: dict[str, Any],
    delays: tuple[float, float],
    named: Any,
    key: str,
) -> dict[str, Any]:
    """Compare a claim with the possible range. Beyond --from also return the delay at which the
    claim would hold.
    """
    from turnbuckle.papers.models.bound.affine import farthest

    holds = claimed.high >= row["low"] and (row["high"] is None or claimed.low <= row["high"])
    out: dict[str, Any] = {
        "ratio": claimed.value,
        "low": claimed.low,
        "high": claimed.high,
        "verdict": "possible" if holds else "contradicts",
    }
    if claimed.value >= 1 and row["high"] is None:
        out[f"reached_{key}"] = named(float(farthest(gain.value, claimed.value, *delays)))
        out[f"rounded_reached_{key}"] = named(float(farthest(gain.low, claimed.high, *delays)))
    return out


def _print(console: Terminal, document: dict[str, Any]) -> None:

    over, gain, claim = document["over"], document["gain"], document["claimed"]
    key, unit = ("seconds", "s") if over == "latency" else ("bandwidth", "B/s")

    def words(value: float) -> str:
        return "any" if value == float("inf") else show(value, unit)

    now, near = (words(document[f"{end}_{key}"]) for end in ("from", "to"))
    console.print(
        Text(
            f"{gain['ratio']:g}x faster at {near} than at {now}; the digits stand for "
            f"{gain['low']:g} to {gain['high']:g}"
        )
    )
    console.print()
    console.note(f"run time against that at {now}", "italic")
    table = Table(box=None, pad_edge=False, header_style="dim")
    for k, head in enumerate((over, "bound", "with rounding")):
        table.add_column(head, justify="right" if k else "left", no_wrap=True, min_width=10)
    for row in document["bounds"]:
        place = row[f"at_{key}"]
        word = "no limit" if place == float("inf") else words(place)
        table.add_row(word, f"{row['holds']} {row['ratio']:.3f}x", f"{row['rounded_ratio']:.3f}x")
    console.print(table)
    console.print()
    if claim is not None:
        asked = words(document["bounds"][0][f"at_{key}"])
        verdict = (
            f"{claim['ratio']:g}x at {asked} "
            f"{'contradicts the gain' if claim['verdict'] == 'contradicts' else 'is possible with the gain'}"
        )
        if claim["verdict"] == "contradicts" and f"reached_{key}" in claim:
            most, rounded = (
                words(claim[f"{name}_{key}"]) for name in ("reached", "rounded_reached")
            )
            verdict += f": it is reached by {most} ({rounded} with rounding)"
        elif claim["verdict"] == "contradicts":
            low, high = document["bounds"][0]["low"], document["bounds"][0]["high"]
            verdict += (
                f": {low:.3f}x {'or more' if high is None else f'to {high:.3f}x'} can be, with "
                "rounding"
            )
        console.note(verdict, "bold red" if claim["verdict"] == "contradicts" else "bold")
    if gain["low"] <= 1:
        console.note("the gain may be rounded up from none, so nothing follows from it", "yellow")
    met = "every trip counts" if over == "latency" else "every byte counts"
    console.note(
        f"met where {met}, with nothing beside it; queues and shared links are not covered"
    )
