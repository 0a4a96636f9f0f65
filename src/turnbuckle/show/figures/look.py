"""One look for all figures: colours that colour-blind readers tell apart, one type size, thin
lines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from turnbuckle.show.text import factor, signed

INK, SOFT, FAINT, RULE = "#1d2733", "#5b6774", "#8a94a0", "#dfe4ea"
FONT: Final = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"
#: Width of a full and of a half figure [CSS px].
FULL, HALF = 760, 372

#: Targets, in the order asked: Paul Tol's "muted" scheme, reordered so that neighbours differ most.
TARGET_COLOURS: Final = (
    "#332288",
    "#cc6677",
    "#117733",
    "#88ccee",
    "#aa4499",
    "#999933",
    "#44aa99",
    "#882255",
    "#ddcc77",
)
RECORDED: Final = "#4a5560"

PARTS: Final = {"kernel": "#1f4e79", "copy": "#e08214", "launch": "#35978f", "other": "#c3cad3"}
"""Parts of a breakdown."""
CATEGORIES: Final = {
    "kernel": "#1f4e79",
    "copy": "#e08214",
    "mpi": "#8073ac",
    "api": "#7fb3c8",
    "cpu": "#c3cad3",
}
"""Categories of the exclusive time line; kernels and copies as in the breakdown."""
SAVED, ADDED = "#2c7fb8", "#d95f0e"
MODES: Final = {"link": "#1f4e79", "api": "#b3450b", "remoting": "#5b4a8a", "network": "#2b6e4f"}
"""Ways to be far away: a longer link, every call blocking, calls through a remoting layer, and messages between nodes."""
CRITICAL: Final = "#b5123f"
"""The critical path, and nothing else."""

#: Zones of slowdown: lower edge, upper edge, colour, label.
ZONES: Final[tuple[tuple[float, float, str, str], ...]] = (
    (float("-inf"), 0.0, "#f1f6fb", "faster"),
    (0.0, 0.01, "#dff1e4", "1\N{NO-BREAK SPACE}%"),
    (0.01, 0.02, "#eaf5df", "2\N{NO-BREAK SPACE}%"),
    (0.02, 0.05, "#fcf6d9", "5\N{NO-BREAK SPACE}%"),
    (0.05, 0.10, "#fde8cf", "10\N{NO-BREAK SPACE}%"),
    (0.10, float("inf"), "#fadfd6", "over 10\N{NO-BREAK SPACE}%"),
)

#: Partners of the colours above, and of the pale ones of single figures, on dark paper; white
#: letters stay readable on the strong ones.
_PARTNERS: Final = (
    "#1d2733:#e3e8ee #5b6774:#a9b4c0 #8a94a0:#7d8894 #dfe4ea:#313a45 #b9c1ca:#4a5562 "
    "#b5bcc4:#56616d #4a5560:#9aa6b3 "
    "#332288:#8c7df0 #cc6677:#dd7788 #117733:#3da362 #88ccee:#88ccee #aa4499:#c566b5 "
    "#999933:#b3b34a #44aa99:#44aa99 #882255:#c2568f "
    "#ddcc77:#ddcc77 #1f4e79:#3b7db8 #e08214:#d97f16 #35978f:#2f8a83 #c3cad3:#4d5864 "
    "#8073ac:#8073ac #7fb3c8:#47788c #2c7fb8:#3a8cc6 "
    "#d95f0e:#d95f0e #b3450b:#d7682c #5b4a8a:#8f7cc4 #2b6e4f:#46a178 #b5123f:#e0355f "
    "#f1f6fb:#1a2531 #dff1e4:#18321f #eaf5df:#24331a "
    "#fcf6d9:#3a3416 #fde8cf:#422c14 #fadfd6:#45221a #a9c1d8:#2c4d6c #f6cf9f:#6b4517 "
    "#d5e3ea:#2d3f4a #cfc8e2:#453d63 #e6e9ed:#343c46 "
    "#f0f3f6:#1f2730 #dbe3ea:#2a343e #c7a76c:#c7a76c #6699cc:#6699cc #1b9e77:#1b9e77 "
    "#deebf7:#23364a #b3d0e8:#2f5373 #7fb0d6:#3b73a3 #4b8ec2:#5b9bd0 #fdd0a2:#5e3d17 "
    "#fd9f4f:#8a4f17 #e6680f:#c25c10 #a63603:#d9541e"
)
DARK: Final = dict(pair.split(":") for pair in _PARTNERS.split())

#: Change of run time and its colour: blue is faster, towards brown is slower; lightness alone tells
#: them apart on each side.
_SHADES: Final = (
    "#0b3c68 #2f79b5 #82b8dc #d3e5f2 #f6f6f1 #fdf2d2 #fddda0 #fbbf74 #e88642 #bf4f22 #75260f"
)
_CHANGES: Final = tuple(
    zip(
        (-0.8, -0.3, -0.1, -0.02, 0.0, 0.01, 0.05, 0.1, 0.5, 2.0, 10.0),
        _SHADES.split(),
        strict=True,
    )
)


def change_colour(change: float, steps: float = 0.0) -> str:
    """Return the colour of a change of run time; with `steps`, one of so many shades for a factor
    of e.

    >>> change_colour(0.0), change_colour(99.0)
    ('#f6f6f1', '#75260f')
    """
    spread = _spread(change)
    return blended(
        round(spread * steps) / steps if steps else spread,
        [(_spread(value), colour) for value, colour in _CHANGES],
    )


def change_legend(changes: Sequence[float]) -> tuple[tuple[str, str], ...]:
    """Return changes of run time in words, each with its colour."""
    words = {
        0.0: "as recorded",
        2.0: f"{factor(3.0, 1)} the time",
        10.0: f"{factor(11.0, 2)} the time",
    }
    return tuple((words.get(change, signed(change)), change_colour(change)) for change in changes)


def _spread(change: float) -> float:
    return math.copysign(math.log1p(abs(change) / 0.02), change)


def blended(value: float, stops: Sequence[tuple[float, str]]) -> str:
    """Return the colour of a value between stops, each a value and its colour, in rising order.

    >>> blended(0.5, [(0.0, "#000000"), (1.0, "#0000ff")])
    '#000080'
    """
    value = min(max(value, stops[0][0]), stops[-1][0])
    (low, first), (high, last) = next(pair for pair in pairwise(stops) if value <= pair[1][0])
    rgb = ((int(first[i : i + 2], 16), int(last[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round((b - a) / (high - low) * (value - low) + a):02x}" for a, b in rgb)


def shade(shades: Sequence[str], k: int, count: int) -> str:
    """Return the `k`-th of `count` shades, spread over those there are.

    >>> shade(("light", "middle", "dark"), 1, 2)
    'dark'
    """
    return shades[round(k * (len(shades) - 1) / max(count - 1, 1))]


def colours(targets: Sequence[str]) -> list[str]:
    """Return one colour a projection: the same target always the same, the source itself grey."""
    seen: dict[str, str] = {}
    for name in targets:
        if name not in seen:
            seen[name] = (
                RECORDED
                if name == "self"
                else TARGET_COLOURS[sum(n != "self" for n in seen) % len(TARGET_COLOURS)]
            )
    return [seen[name] for name in targets]


def config() -> dict[str, Any]:
    """Return the Vega-Lite configuration of every figure."""
    words = {
        "labelFontSize": 11,
        "titleFontSize": 11,
        "labelColor": SOFT,
        "titleColor": SOFT,
        "titleFontWeight": "normal",
    }
    lines = {"gridColor": RULE, "domainColor": "#b9c1ca", "tickColor": "#b9c1ca"}
    axis = {
        **words,
        **lines,
        "labelLimit": 260,
        "titlePadding": 9,
        "labelOverlap": True,
        "aria": False,
    }
    subtitle = {"subtitleColor": SOFT, "subtitleFontSize": 11}
    return {
        "font": FONT,
        "background": "transparent",
        "view": {"stroke": None},
        "aria": True,
        "mark": {"aria": False},
        "axis": axis,
        "text": {"color": INK, "fontSize": 11},
        "header": {"labelFontSize": 11, "labelColor": INK, "titleColor": SOFT},
        "title": {
            "fontSize": 12,
            "color": INK,
            **subtitle,
            "anchor": "start",
            "frame": "group",
            "offset": 8,
        },
    }
