"""What each recording of a suite is made of, side by side: how long its kernels run, and what its copies reach by size.

After the figures of Shorts and Grant (kernel durations of several applications) and of AHEAD (bandwidth over the size of a copy).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from turnbuckle.projection.run import Run
from turnbuckle.show.figures import marks
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import FULL, INK, SOFT, TARGET_COLOURS
from turnbuckle.show.figures.marks import BYTES, SECONDS, Rows, Spec, log_ticks, of, plot, quantity, row_axis
from turnbuckle.show.text import clean, folded, number, shorten

#: Shares of the kernel launches whose duration is shown.
QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)
_NAMES: Final = 190
_NUMBERS: Final = 170


@dataclass(frozen=True)
class Recorded:
    """Kernels and copies of a recording.

    Attributes
    ----------
    launches : kernels that ran.
    durations : of kernels [s], at `QUANTILES`.
    typical : duration below which half of the kernel time is spent [s].
    copies : direction, memory, size [B], median bandwidth [B/s] and number of copies, a row for each factor of two in size.
    """

    launches: int
    durations: tuple[float, ...]
    typical: float
    copies: tuple[tuple[str, str, float, float, int], ...]


def recorded(run: Run) -> Recorded:
    """Return what the kernels and copies of a recording are like."""
    kernels = run.trace.kernels
    seconds = np.sort((kernels["end_ns"] - kernels["start_ns"]).to_numpy().astype(np.float64)) * 1e-9
    durations: tuple[float, ...] = ()
    typical = 0.0
    if seconds.size:
        durations = tuple(np.quantile(seconds, QUANTILES).tolist())
        typical = float(seconds[np.searchsorted(np.cumsum(seconds), seconds.sum() / 2)])
    copies = [
        (direction, memory, row["size_bytes"], row["size_bytes"] / row["seconds"], row["count"])
        for (direction, memory), fit in run.fits.items()
        for row in fit.bins.to_dicts()
        if row["seconds"] > 0 and row["size_bytes"] > 0
    ]
    return Recorded(int(seconds.size), durations, typical, tuple(copies))


def kernels_figure(names: Sequence[str], each: Sequence[Recorded]) -> Figure | None:
    """Draw how long the kernels of each recording run: box of the middle half, line of 90 %, dot of half of the kernel time."""
    rows: Rows = []
    for name, one in zip(names, each, strict=True):
        if not one.durations or min(one.durations) <= 0:
            continue
        p5, p25, p50, p75, p95 = one.durations
        rows.append(
            {
                "row": len(rows), "name": folded(shorten(clean(name), 40), 24), "p5": p5, "p25": p25, "p50": p50, "p75": p75, "p95": p95,
                "typical": one.typical, "colour": TARGET_COLOURS[len(rows) % len(TARGET_COLOURS)],
                "figures": f"median {number(p50, 's')}", "words": f"{one.launches:,} launches",
                "tip": f"{clean(name)}: {one.launches:,} launches, median {number(p50, 's')}, 90 % {number(p5, 's')} to {number(p95, 's')}",
            }
        )  # fmt: skip
    if not rows:
        return None
    low, high = min(r["p5"] for r in rows) / 1.5, max(max(r["p95"], r["typical"]) for r in rows) * 1.5
    x = quantity("p50", [low, high], log=10, title="duration of a kernel", labelExpr=SECONDS, values=log_ticks(low, high), grid=True)
    y = row_axis(len(rows), inner=0.4, outer=0.2)
    at = FULL - _NAMES - _NUMBERS + 14
    layers = [
        marks.rules(None, of(x, "p5"), y, 2, x2="p95"),
        marks.bars(None, of(x, "p25"), y, x2="p75", tip=True, size=18),
        marks.mark("tick", None, x, y, color="white", thickness=2.5, size=18),
        marks.points(None, of(x, "typical"), y, 70, 1.2, shape="diamond", color=INK),
        marks.row_names(None, y, _NAMES, fontSize=12, lineBreak="\n"),
        marks.labels(None, at, y, "figures", align="left", dy=-7, fontSize=12, fontWeight="bold"),
        marks.labels(None, at, y, "words", align="left", dy=8, color=SOFT),
    ]
    return Figure(
        "suite-kernels",
        "How long kernels run",
        " ".join(f"{r['tip']}." for r in rows),
        plot(layers, 44 * len(rows), (_NAMES, _NUMBERS, 6, 44), rows),
        [{"application": r["name"], **{k: r[k] for k in ("p5", "p25", "p50", "p75", "p95", "typical")}} for r in rows],
        "Box: the middle half of the launches, split at the median; line: 90 %. Diamond: half of the kernel time is in shorter kernels. "
        "Short kernels feel a longer launch.",
    )


def copies_figure(names: Sequence[str], each: Sequence[Recorded]) -> Figure | None:
    """Draw what copies between host and device reach over their size, of all recordings in one plot a direction."""
    panels: list[Spec] = []
    shown: Rows = []
    colour = {name: TARGET_COLOURS[k % len(TARGET_COLOURS)] for k, name in enumerate(names)}
    rows: Rows = [
        {"application": name, "direction": direction, "memory": clean(memory).replace("_", " "), "size": size, "rate": rate, "count": count,
         "colour": colour[name], "series": f"{name} {memory}",
         "tip": f"{clean(name)}, {clean(memory).replace('_', ' ')}: {count:,} copies of {number(size, 'B')} reach {number(rate, 'B/s')}"}
        for name, one in zip(names, each, strict=True)
        for direction, memory, size, rate, count in sorted(one.copies)
        if direction in _DIRECTIONS
    ]  # fmt: skip
    if not rows:
        return None
    ends = {k: (min(r[k] for r in rows) / 1.6, max(r[k] for r in rows) * 1.6) for k in ("size", "rate")}
    for direction, words in _DIRECTIONS.items():
        some = [r for r in rows if r["direction"] == direction]
        x = quantity("size", ends["size"], log=10, title=f"size of a copy, {words}", labelExpr=BYTES, values=log_ticks(*ends["size"], 5))
        y = quantity("rate", ends["rate"], log=10, title="reached", labelExpr=_RATES, values=log_ticks(*ends["rate"]), grid=True)
        layers = [
            marks.line(some, x, y, 1.5, series="series", opacity=0.7),
            marks.points([r for r in some if r["memory"] != "pageable"], x, y, 45, tip=True),
            marks.rings([r for r in some if r["memory"] == "pageable"], x, y, 40, 1.6, tip=True),
        ]
        panels.append({"width": 290, "height": 220, "layer": layers})
        shown += some
    return Figure(
        "suite-copies",
        "What copies reach",
        f"Bandwidth of copies over their size, of {len({r['application'] for r in rows})} recordings.",
        {**marks.beside(panels, 24), "padding": {"left": 8, "right": 10, "top": 6, "bottom": 4}},
        [{k: r[k] for k in ("application", "direction", "memory", "size", "rate", "count")} for r in shown],
        "Median of the copies of a factor of two in size. Dots: pinned memory, rings: pageable. On the slope the fixed cost of a copy "
        "counts, on the flat part the bandwidth.",
        legend=tuple((shorten(clean(name), 30), colour[name]) for name in colour if any(r["application"] == name for r in rows)),
    )


_DIRECTIONS: Final = {"h2d": "host to device", "d2h": "device to host"}
_RATES: Final = "replace(format(datum.value, '.3~s'), regexp('([a-zA-Zµ]?)$'), ' $1') + 'B/s'"
