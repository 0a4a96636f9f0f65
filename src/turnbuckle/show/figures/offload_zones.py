"""Ground of an offload map: where kernels pay on the device, and where added latency slows them
down (Groves et al. 2022, Fig 9).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from turnbuckle.profile.summary.offload import map_lines
from turnbuckle.projection.projection import Projection
from turnbuckle.show.figures import marks
from turnbuckle.show.figures.look import INK, SOFT
from turnbuckle.show.figures.marks import SECONDS, Rows, Spec, log_share, log_ticks, of, quantity
from turnbuckle.show.text import NARROW

#: Zones of the map: upper edge, lower edge, colour.
ZONES: Final = (("p1", "p5", "#fcf6d9"), ("p5", "p20", "#fde8cf"), ("p20", "floor", "#fadfd6"))
#: Added one-way latency where no target adds one [s], as in the paper.
ADDED_LATENCY_S: Final = 2e-6


class Ground:
    """Axes, zones and lines of a map.

    Attributes
    ----------
    x, y : channels of transfer time and kernel time [s].
    left, right, bottom, top : ends of the axes [s].
    shaded : whether any zone is in the plot.
    layers : what is drawn below the dots.
    """

    def __init__(
        self,
        costs: tuple[float, float, float],
        across: tuple[float, float],
        dots: Sequence[tuple[float, float]],
        title: str,
        size: tuple[float, float],
    ) -> None:
        """Lay out a map.

        Parameters
        ----------
        costs : launch [s], acceleration over the host, latency that is added [s].
        across : ends of the transfer times [s].
        dots : transfer time and kernel time of each [s].
        title : of the axis of transfer times.
        size : width and height of the plot [px].
        """
        self.left, self.right = across
        self.width, self.height = size
        copies = np.geomspace(*across, 49)
        lines = map_lines(*costs, copies)
        even, kernels = lines["break_even"], [kernel for _, kernel in dots]
        self.bottom = min([*kernels, float(even.min())]) / 2.5
        self.top = max([*kernels, 3 * costs[2] / 0.01]) * 2.5
        edges = {f"p{p}": lines[f"penalty_{p}"] for p in (1, 5, 20)}
        grid: Rows = [
            {
                "x": float(x),
                "break_even": float(b),
                **{k: max(float(v[i]), self.bottom) for k, v in edges.items()},
                "floor": self.bottom,
            }
            for i, (x, b) in enumerate(zip(copies, even, strict=True))
        ]
        ends = (self.bottom, self.top)
        self.x = quantity(
            "x",
            across,
            log=10,
            title=title,
            labelExpr=SECONDS,
            values=log_ticks(*across, 8),
            grid=False,
        )
        self.y = quantity(
            "y",
            ends,
            log=10,
            title="mean kernel time",
            labelExpr=SECONDS,
            values=log_ticks(*ends, 7),
            grid=False,
        )
        starts = {p: float(lines[f"penalty_{p}"][0]) for p in (1, 5, 20)}
        words: Rows = [
            {"y": start, "label": f"+{p}{NARROW}%"}
            for p, start in starts.items()
            if start > self.bottom
        ]
        self.shaded = bool(words)
        # the line of the host runs into no label
        clear = self.place(self.left, float(even[0]))[1]
        words = [row for row in words if not -14 < self.place(self.left, row["y"])[1] - clear < 26]
        taken = [self.place(*dot) for dot in dots]
        places = [self.place(float(x), float(y)) for x, y in zip(copies, even, strict=True)]
        free = (
            k
            for k in (43, 37, 31, 25, 19)
            if not any(
                -140 < u - places[k][0] < 6 and -12 < v - places[k][1] < 28 for u, v in taken
            )
        )
        place = next(free, 43)
        crossing: Rows = [
            {"x": float(copies[place]), "y": float(even[place]), "label": "offloading pays above"}
        ]
        look: Spec = {
            "align": "right",
            "baseline": "bottom",
            "dx": -8,
            "dy": -5,
            "color": INK,
            "fontSize": 10.5,
            "clip": True,
        }
        self.layers = [
            *(
                marks.band(grid, self.x, self.y, upper, lower, color=colour, clip=True)
                for upper, lower, colour in ZONES
            ),
            marks.labels(words, 6, self.y, align="left", dy=10, color=SOFT, fontSize=10),
            marks.line(grid, self.x, of(self.y, "break_even"), 1.5, color=INK, clip=True),
            marks.labels(crossing, self.x, self.y, **look),
        ]

    def place(self, transfer: float, kernel: float) -> tuple[float, float]:
        """Return where a transfer time and a kernel time stand, from the lower left corner [px]."""
        return self.width * log_share(transfer, self.left, self.right), self.height * log_share(
            kernel, self.bottom, self.top
        )

    def thin_labels(self, rows: Rows, most: int, rings: Sequence[tuple[float, float]] = ()) -> None:
        """Keep the labels of the first dots that run into no other label, dot or ring and not out
        of the plot; the others become empty.
        """
        dots = [self.place(r["x"], r["y"]) for r in rows]
        all_round = [*dots, *(self.place(*ring) for ring in rings)]
        kept: list[tuple[float, float, float]] = []
        for row, (across, up) in zip(rows, dots, strict=True):
            start, end, line = across + 12, across + 14 + 6 * len(row["label"]), up + 8
            beside = all(abs(line - v) > 14 or end < a or start > b for a, b, v in kept)
            clear = all(abs(line - v) > 15 or u < start - 8 or u > end + 8 for u, v in all_round)
            if len(kept) < most and beside and clear and end < self.width:
                kept.append((start, end, line))
            else:
                row["label"] = ""


def added_latency(projections: Iterable[Projection]) -> float:
    """Return the longest one-way delay that a target adds [s], or `ADDED_LATENCY_S`."""
    added = [0.0]
    for p in projections:
        d = p.coupling["h2d"]
        if d["source_latency_s"] is not None and d["target_latency_s"] is not None:
            added.append(d["target_latency_s"] - d["source_latency_s"])
        added += [
            p.coupling["added_call_slack_s"],
            p.coupling["added_link_slack_s"],
            p.coupling.get("round_trip_s", 0.0) / 2,
        ]
    return max(added) or ADDED_LATENCY_S


def zones_in_words(added: str) -> str:
    """Return the caption's sentence on the zones, for an added latency in words."""
    return (
        f" Shaded: kernels that {added} more on the launch and on two copies would slow down by "
        f"1, 5 and 20{NARROW}% or more."
    )
