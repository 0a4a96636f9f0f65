"""One look for all figures: colours that colour-blind readers tell apart, one type size, thin lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

INK, SOFT, FAINT, RULE = "#1d2733", "#5b6774", "#8a94a0", "#dfe4ea"
FONT: Final = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"
#: Width of a full and of a half figure [CSS px].
FULL, HALF = 760, 372

#: Targets, in the order asked: Paul Tol's "muted" scheme, reordered so that neighbours differ most.
TARGET_COLOURS: Final = ("#332288", "#cc6677", "#117733", "#88ccee", "#aa4499", "#999933", "#44aa99", "#882255", "#ddcc77")
RECORDED: Final = "#4a5560"

PARTS: Final = {"kernel": "#1f4e79", "copy": "#e08214", "launch": "#35978f", "other": "#c3cad3"}
"""Parts of a breakdown."""
CATEGORIES: Final = {"kernel": "#1f4e79", "copy": "#e08214", "mpi": "#8073ac", "api": "#7fb3c8", "cpu": "#c3cad3"}
"""Categories of the exclusive time line; kernels and copies as in the breakdown."""
SAVED, ADDED = "#2c7fb8", "#d95f0e"
MODES: Final = {"link": "#1f4e79", "api": "#b3450b"}
"""Two ways to be far away: a longer link, and calls over a network."""
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


def colours(targets: Sequence[str]) -> list[str]:
    """One colour a projection: the same target always the same, the source itself grey."""
    seen: dict[str, str] = {}
    for name in targets:
        if name not in seen:
            seen[name] = RECORDED if name == "self" else TARGET_COLOURS[sum(n != "self" for n in seen) % len(TARGET_COLOURS)]
    return [seen[name] for name in targets]


def config() -> dict[str, Any]:
    """Vega-Lite configuration of every figure."""
    axis = {
        "labelFontSize": 11,
        "titleFontSize": 11,
        "labelColor": SOFT,
        "titleColor": SOFT,
        "titleFontWeight": "normal",
        "gridColor": RULE,
        "domainColor": "#b9c1ca",
        "tickColor": "#b9c1ca",
        "labelLimit": 260,
        "titlePadding": 9,
        "labelOverlap": True,
    }
    return {
        "font": FONT,
        "background": "transparent",
        "view": {"stroke": None},
        "aria": True,
        "mark": {"aria": False},
        "axis": {**axis, "aria": False},
        "text": {"color": INK, "fontSize": 11},
        "header": {"labelFontSize": 11, "labelColor": INK, "titleColor": SOFT},
        "title": {
            "fontSize": 12,
            "color": INK,
            "subtitleColor": SOFT,
            "subtitleFontSize": 11,
            "anchor": "start",
            "frame": "group",
            "offset": 8,
        },
    }
