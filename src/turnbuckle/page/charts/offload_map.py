"""The offload map: is a kernel worth its copies, and how much slower would added latency make it (Groves et al. 2022, Fig 9)."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from turnbuckle.profile.summary.offload import map_lines
from turnbuckle.show.figures import marks
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import FAINT, FULL, INK, SOFT, TARGET_COLOURS
from turnbuckle.show.figures.marks import SECONDS, Rows, log_share, log_ticks, of, plot, quantity
from turnbuckle.show.kernel_names import kernel_labels
from turnbuckle.show.text import NARROW, clean, number, plural, shorten

_NAMESPACES = re.compile(r"^(?:\w+::)+")
#: Kernels drawn, and labelled.
MOST_KERNELS, MOST_LABELS = 300, 6
PAYS = (("yes", TARGET_COLOURS[2]), ("with overlap only", TARGET_COLOURS[8]), ("no", TARGET_COLOURS[1]))
#: Zones of the offload map: upper edge, lower edge, colour.
MAP_ZONES = (("p1", "p5", "#fcf6d9"), ("p5", "p20", "#fde8cf"), ("p20", "floor", "#fadfd6"))


def offload_figure(table: pl.DataFrame, launch_s: float, alpha: float, added_latency_s: float, unified: bool = False) -> Figure:
    """Draw kernel time against transfer time, with the line above which offloading pays and the zones that added latency would open."""
    shown = table.filter(pl.col("kernel_s") > 0).head(MOST_KERNELS)
    floor = min([t for t in shown["transfer_s"].to_list() if t > 0] + [launch_s or 1e-6]) / 4
    rows = _dots(shown, floor)
    left, right = floor / 2.5, max([r["x"] for r in rows] + [launch_s * 20]) * 4
    copies = np.geomspace(left, right, 49)
    lines = map_lines(launch_s, alpha, added_latency_s, copies)
    bottom = min([*(r["y"] for r in rows), float(lines["break_even"].min())]) / 2.5
    top = max([*(r["y"] for r in rows), 3 * added_latency_s / 0.01]) * 2.5
    edges = {"p1": lines["penalty_1"], "p5": lines["penalty_5"], "p20": lines["penalty_20"]}
    grid: Rows = [
        {"x": float(x), "break_even": float(b), **{k: max(float(v[i]), bottom) for k, v in edges.items()}, "floor": bottom}
        for i, (x, b) in enumerate(zip(copies, lines["break_even"], strict=True))
    ]
    width, height = FULL - 72, 340
    _thin_labels(rows, (left, right), (bottom, top), width, height)
    title = "mean copy time charged to one launch"
    x = quantity("x", [left, right], log=10, title=title, labelExpr=SECONDS, values=log_ticks(left, right, 8), grid=False)
    y = quantity("y", [bottom, top], log=10, title="mean kernel time", labelExpr=SECONDS, values=log_ticks(bottom, top, 7), grid=False)
    words: Rows = [
        {"y": float(lines[f"penalty_{p}"][0]), "label": f"+{p}{NARROW}%"} for p in (1, 5, 20) if float(lines[f"penalty_{p}"][0]) > bottom
    ]
    crossing: Rows = [{"x": float(copies[43]), "y": float(lines["break_even"][43]), "label": "offloading pays above"}]
    area = {**quantity("total", scale={"type": "sqrt", "range": [30, 420]}), "legend": None}
    layers = [
        *(marks.band(grid, x, y, upper, lower, color=colour, clip=True) for upper, lower, colour in MAP_ZONES),
        marks.labels(words, 6, y, align="left", dy=10, color=SOFT, fontSize=10),
        marks.line(grid, x, of(y, "break_even"), 1.5, color=INK, clip=True),
        marks.labels(crossing, x, y, align="right", baseline="bottom", dx=-8, dy=-5, color=INK, fontSize=10.5, clip=True),
        marks.rules(None, of(x, "exposed"), y, 1.4, x2="x", color=FAINT),
        marks.points(None, x, y, edge=0.9, tip=True, opacity=0.95, encode={"size": area}),
        marks.labels(None, x, y, align="left", dx=12, dy=-8, fontSize=10.5),
    ]
    spec = plot(layers, height, (62, 10, 4, 42), rows)
    columns = ("kernel", "count", "kernel_s", "transfer_s", "exposed_transfer_s", "ratio", "limit", "pays", "total_s")
    kernels = [{k: (clean(v) if k == "kernel" else v) for k, v in r.items()} for r in shown.select(columns).to_dicts()]
    pays = shown["pays"].to_list()
    alt = (
        f"{len(pays)} kernels: offloading pays for {pays.count('yes')}, with overlap only for "
        f"{pays.count('with overlap only')}, not for {pays.count('no')}."
    )
    caption = _caption(launch_s, alpha, added_latency_s if words else None, table.height, unified)
    return Figure("offload", "Offload map", alt, spec, kernels, caption, legend=PAYS)


def _dots(shown: pl.DataFrame, floor: float) -> Rows:
    """Return a dot a kernel; copies shorter than `floor` stand there [s]."""
    rows: Rows = []
    for r, kernel in zip(shown.to_dicts(), kernel_labels(shown["kernel"].to_list(), 60), strict=True):
        copies, exposed = r["transfer_s"], r["exposed_transfer_s"]
        tip = (
            f"{kernel}: {plural(r['count'], 'launch', 'launches')}, mean {number(r['kernel_s'], 's')}, "
            f"copies {number(copies, 's')} per launch, {number(exposed, 's')} exposed; pays: {r['pays']}"
        )
        name, colour = shorten(_NAMESPACES.sub("", kernel), 34), dict(PAYS)[r["pays"]]
        place = {"x": max(copies, floor), "exposed": max(exposed, floor), "y": r["kernel_s"]}
        rows.append({**place, "total": r["total_s"], "colour": colour, "label": name, "tip": tip})
    return rows


def _caption(launch_s: float, alpha: float, shaded_s: float | None, kernels: int, unified: bool) -> str:
    """Return the caption; `shaded_s`: the added latency that the zones are of; None where there are none."""
    caption = (
        "One dot a kernel, its area the total time. Above the black line a kernel is faster on the device, copies and "
        f"launch ({number(launch_s, 's')}) included, than on a host CPU assumed to be {alpha:g} times slower. "
        "The bar at a dot reaches from the copy time that no kernel hides to all of it; kernels without copies stand at the left edge."
    )
    if shaded_s is not None:
        caption += (
            f" Shaded: kernels that {number(shaded_s, 's', 2)} more on the launch and on two copies would slow down "
            f"by 1, 5 and 20{NARROW}% or more."
        )
    if unified:
        caption += " Migrations of unified memory are not charged to any kernel."
    return caption + (f" The {MOST_KERNELS} with the longest total of {kernels} are drawn." if kernels > MOST_KERNELS else "")


def _thin_labels(rows: Rows, x: tuple[float, float], y: tuple[float, float], width: int, height: int) -> None:
    """Keep the labels of the first kernels that run into no other label, no dot and not out of the plot; the others become empty."""
    dots = [(width * log_share(r["x"], *x), height * log_share(r["y"], *y)) for r in rows]
    kept: list[tuple[float, float, float]] = []
    for row, (across, up) in zip(rows, dots, strict=True):
        start, end, line = across + 12, across + 14 + 6 * len(row["label"]), up + 8
        beside = all(abs(line - v) > 14 or end < a or start > b for a, b, v in kept)
        clear = all(abs(line - v) > 15 or u < start - 8 or u > end + 8 for u, v in dots)
        if len(kept) < MOST_LABELS and beside and clear and end < width:
            kept.append((start, end, line))
        else:
            row["label"] = ""
