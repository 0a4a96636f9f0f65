"""The offload map: is a kernel worth its copies, and how much slower would added latency make it (Groves et al. 2022, Fig 9)."""

from __future__ import annotations

import math
import re

import numpy as np
import polars as pl

from turnbuckle.page.profile_charts import SECONDS
from turnbuckle.profile.summary.offload import map_lines
from turnbuckle.show.figures.charts import Rows, Spec, layer, log_ticks, own_colour, quantitative
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import FAINT, FULL, INK, SOFT, TARGET_COLOURS
from turnbuckle.show.kernel_names import kernel_labels
from turnbuckle.show.text import NARROW, clean, number, plural, shorten

_NAMESPACES = re.compile(r"^(?:\w+::)+")
#: Kernels drawn, and labelled.
MOST_KERNELS, MOST_LABELS = 300, 6
PAYS = (("yes", TARGET_COLOURS[2]), ("with overlap only", TARGET_COLOURS[8]), ("no", TARGET_COLOURS[1]))
#: Zones of the offload map: upper edge, lower edge, colour.
MAP_ZONES = (("p1", "p5", "#fcf6d9"), ("p5", "p20", "#fde8cf"), ("p20", "floor", "#fadfd6"))


def offload_figure(table: pl.DataFrame, launch_s: float, alpha: float, added_latency_s: float, unified: bool = False) -> Figure:
    """Kernel time against transfer time, with the line above which offloading pays and the zones that added latency would open."""
    shown = table.filter(pl.col("kernel_s") > 0).head(MOST_KERNELS)
    floor = min([t for t in shown["transfer_s"].to_list() if t > 0] + [launch_s or 1e-6]) / 4
    rows = _dots(shown, floor)
    left, right = floor / 2.5, max([r["x"] for r in rows] + [launch_s * 20]) * 4
    copies = np.geomspace(left, right, 49)
    lines = map_lines(launch_s, alpha, added_latency_s, copies)
    bottom = min([*(r["y"] for r in rows), float(lines["break_even"].min())]) / 2.5
    top = max([*(r["y"] for r in rows), 3 * added_latency_s / 0.01]) * 2.5
    grid: Rows = [
        {
            "x": float(x),
            "break_even": float(b),
            "p1": max(float(p1), bottom),
            "p5": max(float(p5), bottom),
            "p20": max(float(p20), bottom),
            "floor": bottom,
        }
        for x, b, p1, p5, p20 in zip(copies, lines["break_even"], lines["penalty_1"], lines["penalty_5"], lines["penalty_20"], strict=True)
    ]
    width, height = FULL - 72, 340
    _thin_labels(rows, (left, right), (bottom, top), width, height)
    x = quantitative(
        "x",
        scale={"type": "log", "domain": [left, right], "nice": False},
        axis={"title": "mean copy time charged to one launch", "labelExpr": SECONDS, "values": log_ticks(left, right, 8), "grid": False},
    )
    y = quantitative(
        "y",
        scale={"type": "log", "domain": [bottom, top], "nice": False},
        axis={"title": "mean kernel time", "labelExpr": SECONDS, "values": log_ticks(bottom, top, 7), "grid": False},
    )
    words: Rows = [
        {"y": float(lines[f"penalty_{p}"][0]), "label": f"+{p}{NARROW}%"} for p in (1, 5, 20) if float(lines[f"penalty_{p}"][0]) > bottom
    ]
    crossing: Rows = [{"x": float(copies[43]), "y": float(lines["break_even"][43]), "label": "offloading pays above"}]
    spec = layer(
        *_backdrop(grid, words, crossing, x, y),
        {
            "mark": {"type": "rule", "color": FAINT, "strokeWidth": 1.4},
            "encoding": {"x": {**x, "field": "exposed"}, "x2": {"field": "x"}, "y": y},
        },
        {
            "mark": {"type": "point", "filled": True, "stroke": "white", "strokeWidth": 0.9, "opacity": 0.95, "aria": True},
            "encoding": {
                "x": x,
                "y": y,
                "description": {"field": "tip"},
                "fill": own_colour(),
                "size": quantitative("total", scale={"type": "sqrt", "range": [30, 420]}, legend=None),
            },
        },
        {
            "mark": {"type": "text", "align": "left", "dx": 12, "dy": -8, "fontSize": 10.5},
            "encoding": {"x": x, "y": y, "text": {"field": "label"}},
        },
        data=rows,
        height=height,
        left=62,
        right=10,
        top=4,
        bottom=42,
    )
    columns = ("kernel", "count", "kernel_s", "transfer_s", "exposed_transfer_s", "ratio", "limit", "pays", "total_s")
    told = [{k: (clean(v) if k == "kernel" else v) for k, v in r.items()} for r in shown.select(columns).to_dicts()]
    pays = shown["pays"].to_list()
    alt = (
        f"{len(pays)} kernels: offloading pays for {pays.count('yes')}, with overlap only for "
        f"{pays.count('with overlap only')}, not for {pays.count('no')}."
    )
    caption = _caption(launch_s, alpha, added_latency_s if words else None, table.height, unified)
    return Figure("offload", "Offload map", alt, spec, told, caption, legend=PAYS)


def _dots(shown: pl.DataFrame, floor: float) -> Rows:
    """A dot a kernel; copies shorter than `floor` stand there [s]."""
    labels = kernel_labels(shown["kernel"].to_list(), 60)
    return [
        {
            "x": max(r["transfer_s"], floor),
            "exposed": max(r["exposed_transfer_s"], floor),
            "y": r["kernel_s"],
            "total": r["total_s"],
            "colour": dict(PAYS)[r["pays"]],
            "label": shorten(_NAMESPACES.sub("", label), 34),
            "tip": (
                f"{label}: {plural(r['count'], 'launch', 'launches')}, mean {number(r['kernel_s'], 's')}, "
                f"copies {number(r['transfer_s'], 's')} a launch, {number(r['exposed_transfer_s'], 's')} exposed; pays: {r['pays']}"
            ),
        }
        for r, label in zip(shown.to_dicts(), labels, strict=True)
    ]


def _backdrop(grid: Rows, words: Rows, crossing: Rows, x: Spec, y: Spec) -> list[Spec]:
    """The zones with their words, the line above which offloading pays, and what it says."""
    return [
        *(
            {
                "data": {"values": grid},
                "mark": {"type": "area", "color": c, "clip": True},
                "encoding": {"x": x, "y": {**y, "field": a}, "y2": {"field": b}},
            }
            for a, b, c in MAP_ZONES
        ),
        {
            "data": {"values": words},
            "mark": {"type": "text", "align": "left", "x": 6, "dy": 10, "color": SOFT, "fontSize": 10},
            "encoding": {"y": y, "text": {"field": "label"}},
        },
        {
            "data": {"values": grid},
            "mark": {"type": "line", "color": INK, "strokeWidth": 1.5, "clip": True},
            "encoding": {"x": x, "y": {**y, "field": "break_even"}},
        },
        {
            "data": {"values": crossing},
            "mark": {
                "type": "text",
                "align": "right",
                "baseline": "bottom",
                "dx": -8,
                "dy": -5,
                "color": INK,
                "fontSize": 10.5,
                "clip": True,
            },
            "encoding": {"x": x, "y": y, "text": {"field": "label"}},
        },
    ]


def _caption(launch_s: float, alpha: float, shaded_s: float | None, kernels: int, unified: bool) -> str:
    """`shaded_s`: the added latency that the zones are of; None where there are none."""
    caption = (
        "One dot a kernel, its area the total time. Above the black line a kernel is faster on the device, copies and "
        f"launch ({number(launch_s, 's')}) included, than on a host CPU taken {alpha:g} times slower. "
        "The bar at a dot reaches from the copy time that no kernel hides to all of it; kernels without copies stand at the left edge."
    )
    if shaded_s is not None:
        caption += (
            f" Shaded: kernels that {number(shaded_s, 's', 2)} more on the launch and on two copies would slow down "
            f"by 1, 5 and 20{NARROW}% or more."
        )
    if unified:
        caption += " Migrations of unified memory are charged to no kernel."
    return caption + (f" The {MOST_KERNELS} with the longest total of {kernels} are drawn." if kernels > MOST_KERNELS else "")


def _thin_labels(rows: Rows, x: tuple[float, float], y: tuple[float, float], width: int, height: int) -> None:
    """Keep the labels of the first kernels that run into no other label, no dot and not out of the plot; the others become empty."""
    dots = [
        (width * math.log(r["x"] / x[0]) / math.log(x[1] / x[0]), height * math.log(r["y"] / y[0]) / math.log(y[1] / y[0])) for r in rows
    ]
    kept: list[tuple[float, float, float]] = []
    for row, (across, up) in zip(rows, dots, strict=True):
        start, end, line = across + 12, across + 14 + 6 * len(row["label"]), up + 8
        beside = all(abs(line - v) > 14 or end < a or start > b for a, b, v in kept)
        clear = all(abs(line - v) > 15 or u < start - 8 or u > end + 8 for u, v in dots)
        if len(kept) < MOST_LABELS and beside and clear and end < width:
            kept.append((start, end, line))
        else:
            row["label"] = ""
