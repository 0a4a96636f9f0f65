"""The offload map: is a kernel worth its copies, and how much slower would added latency make it
(Groves et al. 2022, Fig 9).
"""

from __future__ import annotations

import re

import polars as pl

from turnbuckle.show.figures import marks
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import FAINT, FULL, TARGET_COLOURS
from turnbuckle.show.figures.marks import Rows, of, plot, quantity
from turnbuckle.show.figures.offload_zones import Ground, zones_in_words
from turnbuckle.show.kernel_names import kernel_labels
from turnbuckle.show.text import clean, number, plural, shorten

_NAMESPACES = re.compile(r"^(?:\w+::)+")
#: Kernels drawn, and labelled.
MOST_KERNELS, MOST_LABELS = 300, 6
PAYS = (
    ("yes", TARGET_COLOURS[2]),
    ("with overlap only", TARGET_COLOURS[8]),
    ("no", TARGET_COLOURS[1]),
)


def offload_figure(
    table: pl.DataFrame,
    launch_s: float,
    alpha: float,
    added_latency_s: float,
    unified: bool = False,
) -> Figure:
    """Draw kernel time against transfer time, with the line above which offloading pays and the
    zones that added latency would open.
    """
    shown = table.filter(pl.col("kernel_s") > 0).head(MOST_KERNELS)
    floor = min([t for t in shown["transfer_s"].to_list() if t > 0] + [launch_s or 1e-6]) / 4
    rows = _dots(shown, floor)
    across = floor / 2.5, max([r["x"] for r in rows] + [launch_s * 20]) * 4
    title, height = "mean copy time charged to one launch", 340
    dots = [(r["x"], r["y"]) for r in rows]
    ground = Ground((launch_s, alpha, added_latency_s), across, dots, title, (FULL - 72, height))
    x, y = ground.x, ground.y
    ground.thin_labels(rows, MOST_LABELS)
    area = {**quantity("total", scale={"type": "sqrt", "range": [30, 420]}), "legend": None}
    layers = [
        *ground.layers,
        marks.rules(None, of(x, "exposed"), y, 1.4, x2="x", color=FAINT),
        marks.points(None, x, y, edge=0.9, tip=True, opacity=0.95, encode={"size": area}),
        marks.labels(None, x, y, align="left", dx=12, dy=-8, fontSize=10.5),
    ]
    spec = plot(layers, height, (62, 10, 4, 42), rows)
    columns = (
        "kernel",
        "count",
        "kernel_s",
        "transfer_s",
        "exposed_transfer_s",
        "ratio",
        "limit",
        "pays",
        "total_s",
    )
    kernels = [
        {k: (clean(v) if k == "kernel" else v) for k, v in r.items()}
        for r in shown.select(columns).to_dicts()
    ]
    pays = shown["pays"].to_list()
    alt = (
        f"{len(pays)} kernels: offloading pays for {pays.count('yes')}, with overlap only for "
        f"{pays.count('with overlap only')}, not for {pays.count('no')}."
    )
    caption = _caption(
        launch_s, alpha, added_latency_s if ground.shaded else None, table.height, unified
    )
    return Figure("offload", "Offload map", alt, spec, kernels, caption, legend=PAYS)


def _dots(shown: pl.DataFrame, floor: float) -> Rows:
    """Return a dot a kernel; copies shorter than `floor` stand there [s]."""
    rows: Rows = []
    for r, kernel in zip(
        shown.to_dicts(), kernel_labels(shown["kernel"].to_list(), 60), strict=True
    ):
        copies, exposed = r["transfer_s"], r["exposed_transfer_s"]
        tip = (
            f"{kernel}: {plural(r['count'], 'launch', 'launches')}, mean "
            f"{number(r['kernel_s'], 's')}, "
            f"copies {number(copies, 's')} per launch, {number(exposed, 's')} exposed; pays: "
            f"{r['pays']}"
        )
        name, colour = shorten(_NAMESPACES.sub("", kernel), 34), dict(PAYS)[r["pays"]]
        place = {"x": max(copies, floor), "exposed": max(exposed, floor), "y": r["kernel_s"]}
        rows.append({**place, "total": r["total_s"], "colour": colour, "label": name, "tip": tip})
    return rows


def _caption(
    launch_s: float, alpha: float, shaded_s: float | None, kernels: int, unified: bool
) -> str:
    """Return the caption; `shaded_s`: the added latency that the zones are of; None where there are
    none.
    """
    caption = (
        "One dot a kernel, its area the total time. Above the black line a kernel is faster on "
        "the device, copies and "
        f"launch ({number(launch_s, 's')}) included, than on a host CPU assumed to be {alpha:g} "
        "times slower. "
        "The bar at a dot reaches from the copy time that no kernel hides to all of it; kernels "
        "without copies stand at the left edge."
    )
    if shaded_s is not None:
        caption += zones_in_words(number(shaded_s, "s", 2))
    if unified:
        caption += " Migrations of unified memory are not charged to any kernel."
    return caption + (
        f" The {MOST_KERNELS} with the longest total of {kernels} are drawn."
        if kernels > MOST_KERNELS
        else ""
    )
