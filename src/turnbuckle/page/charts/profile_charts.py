"""Figures of the recording: time line shares, copy sizes and times, overlap, fitted links, memory,
offload map.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Float
from turnbuckle.profile.transfers import LinkFit
from turnbuckle.show.figures import marks
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import CATEGORIES, HALF, INK, PARTS, SOFT
from turnbuckle.show.figures.marks import (
    BYTES,
    SECONDS,
    Rows,
    Spec,
    log_ticks,
    of,
    plot,
    quantity,
    stack,
    time_unit,
)
from turnbuckle.show.run_tables import CATEGORY_WORDS
from turnbuckle.show.text import NARROW, clean, count, number, percent, plural
from turnbuckle.show.unknowns import DIRECTION

#: 90 % of a normal error lies inside this many standard deviations.
NINETY = 1.645
#: Points of a memory time line.
MOST_POINTS = 600


def categories(shares_ns: Mapping[str, float], words: Mapping[str, str] = CATEGORY_WORDS) -> Figure:
    """Draw the exclusive time line as one bar of shares of the run time, with a table of the same
    numbers.

    Parameters
    ----------
    shares_ns : time of each category [ns], each instant counted once.
    words : what the page calls a category.  One without a word is left out, and the shares are of
        the others' time.
    """
    shares_ns = {name: value for name, value in shares_ns.items() if name in words}
    total = max(sum(shares_ns.values()), 1)
    parts = []
    for name, value in shares_ns.items():
        share, tip = (
            value / total,
            f"{words[name]}: {number(value * 1e-9, 's')}, {percent(value / total)}",
        )
        ink = "#ffffff" if name in ("kernel", "mpi") else INK
        parts.append(
            (
                share,
                {
                    "colour": CATEGORIES[name],
                    "ink": ink,
                    "label": percent(share, 2) if share > 0.045 else "",
                    "tip": tip,
                },
            )
        )
    table = [{"category": k, "time_ns": v, "share": v / total} for k, v in shares_ns.items()]
    alt = "Share of run time by category. " + "; ".join(part["tip"] for _, part in parts)
    caption = "Every instant is counted once, in the order kernel, copy, MPI, GPU call, host work."
    legend = tuple((words[name], CATEGORIES[name]) for name in shares_ns)
    return Figure(
        "categories",
        "Where the run time goes",
        alt,
        _one_bar(parts, 44),
        table,
        caption,
        legend=legend,
    )


def overlap(copies: dict[str, Any]) -> Figure:
    """Draw copy time that kernels hide, and what they do not."""
    total, hidden = copies["copy_union_ns"] * 1e-9, copies["copy_hidden_ns"] * 1e-9
    kinds = [
        ("hidden behind kernels of the same device", hidden, PARTS["kernel"], "#ffffff"),
        ("not hidden", total - hidden, PARTS["copy"], INK),
    ]
    parts = []
    for state, s, colour, ink in kinds:
        label = f"{number(s, 's')}, {percent(s / total, 2)}" if s / total > 0.16 else ""
        tip = f"{state}: {number(s, 's')}, {percent(s / total)} of copy time"
        parts.append((s / total, {"colour": colour, "ink": ink, "label": label, "tip": tip}))
    alt = (
        f"Of {number(total, 's')} in which copies run, {percent(hidden / total)} is hidden behind "
        "kernels of the same device."
    )
    table = [{"hidden_seconds": hidden, "not_hidden_seconds": total - hidden}]
    legend = tuple((state, colour) for state, _, colour, _ in kinds)
    return Figure(
        "overlap", "Overlap of copies with kernels", alt, _one_bar(parts, 30), table, legend=legend
    )


def _one_bar(parts: list[tuple[float, Spec]], height: int) -> Spec:
    """Return a bar of shares of one whole, each with its row."""
    rows = stack(parts)
    x = quantity("from", [0, max(rows[-1]["to"] if rows else 0.0, 1e-9)], no_axis=True)
    layers = [
        marks.cells(None, x, None, x2="to", tip=True, stroke="white", strokeWidth=1),
        marks.labels(None, of(x, "middle"), hue="ink", fontWeight="bold", fontSize=12),
    ]
    return plot(layers, height, (0, 0, 0, 2), rows)


def distributions(tables: dict[str, dict[str, pl.DataFrame]]) -> list[Figure]:
    """Draw sizes and times of copies by direction: share of the copies, and share of bytes or time,
    by factor of two.
    """
    return [
        _histogram("copy-sizes", "Copy sizes", "size of a copy", BYTES, tables, "by_size", "bytes"),
        _histogram("copy-times", "Copy times", "time of a copy", SECONDS, tables, "times", "time"),
    ]


def _histogram(
    name: str,
    title: str,
    axis_title: str,
    label: str,
    directions: dict[str, dict[str, pl.DataFrame]],
    table: str,
    weight: str,
) -> Figure:
    """Draw one distribution, a panel a direction: bars for the `weight`, dots for the number of
    copies.
    """
    rows: Rows = []
    unit = "B" if weight == "bytes" else "s"
    for direction, tables in directions.items():
        frame = tables[table].filter(pl.col("count") > 0)
        counts, weights = (
            max(float(frame["count"].sum()), 1.0),
            max(float(frame["weight"].sum()), 1e-300),
        )
        words = DIRECTION.get(direction, "unified memory, moved by the driver")
        for r in frame.to_dicts():
            ends = {"low": r["low"], "high": r["high"], "middle": (r["low"] * r["high"]) ** 0.5}
            for measure, share in (
                (weight, r["weight"] / weights),
                ("copies", r["count"] / counts),
            ):
                tip = (
                    f"{words}, {number(r['low'], unit)} to {number(r['high'], unit)}: "
                    f"{percent(share)} of the {measure}"
                )
                rows.append(
                    {"direction": words, **ends, "share": share, "what": measure, "tip": tip}
                )
    order = list(dict.fromkeys(r["direction"] for r in rows))
    low, high = (
        min((r["low"] for r in rows), default=1.0),
        max((r["high"] for r in rows), default=2.0),
    )
    x = quantity(
        "low",
        [low / 1.2, high * 1.2],
        log=10,
        title=axis_title,
        labelExpr=label,
        values=log_ticks(low, high, 5),
        grid=False,
    )
    y = quantity(
        "share",
        scale={"domain": [0, 1]},
        labelExpr="datum.value * 100 + ' %'",
        title=None,
        values=[0, 0.5, 1],
    )
    look: Spec = {"color": PARTS["copy"], "stroke": "white", "strokeWidth": 0.6}
    columns = marks.cells(
        None, x, y, x2="high", y2={"datum": 0}, tip=True, where=f"datum.what == '{weight}'", **look
    )
    look = {"filled": True, "color": INK, "size": 26, "opacity": 1}
    dots = marks.mark(
        "point", None, of(x, "middle"), y, tip=True, where="datum.what == 'copies'", **look
    )
    header = {
        "labelOrient": "top",
        "labelAnchor": "start",
        "labelFontWeight": "bold",
        "labelPadding": 4,
    }
    spec = {
        "data": {"values": rows},
        "facet": {
            "row": {
                "field": "direction",
                "type": "nominal",
                "sort": order,
                "title": None,
                "header": header,
            }
        },
        "spec": {"width": HALF - 62, "height": 74, "layer": [columns, dots]},
        "spacing": 10,
        "padding": 4,
    }
    shown = [{k: r[k] for k in ("direction", "low", "high", "what", "share")} for r in rows]
    peaks = [
        max(
            (r for r in rows if r["direction"] == d and r["what"] == weight),
            key=lambda r: r["share"],
        )
        for d in order
    ]
    alt = f"{title} by direction. " + " ".join(p["tip"] + "." for p in peaks)
    caption = f"By factor of two. Bars: share of the {weight}; dots: share of the number of copies."
    return Figure(name, title, alt, spec, shown, caption, half=True)


def drawable(fit: LinkFit) -> pl.DataFrame:
    """Return the size bins of a fit that a logarithmic plot can show."""
    return fit.bins.filter((pl.col("seconds") > 0) & (pl.col("size_bytes") > 0))


def class_label(fit: LinkFit) -> str:
    """Return direction and host memory of a class of copies."""
    kind = (
        "" if fit.direction.startswith("migration") else f", {clean(fit.memory).replace('_', ' ')}"
    )
    return DIRECTION.get(fit.direction, clean(fit.direction)) + kind


def link_fit(fit: LinkFit, nominal_rate: float | None, assumed: bool = False) -> Figure:
    """Draw the time of a copy against its size: bins, fitted line with its error, and what the
    link's nominal rate alone would take.
    """
    title = class_label(fit)
    bins: Rows = []
    for r in drawable(fit).to_dicts():
        took = f"median {number(r['seconds'], 's')}, {number(r['bandwidth'], 'B/s')}"
        tip = f"{count(r['count'])} copies of about {number(r['size_bytes'], 'B')}: {took}"
        bins.append(
            {"size": r["size_bytes"], "seconds": r["seconds"], "count": r["count"], "tip": tip}
        )
    low, high = min(p["size"] for p in bins) / 1.6, max(p["size"] for p in bins) * 1.6
    bottom, top = min(p["seconds"] for p in bins) / 2.2, max(p["seconds"] for p in bins) * 2.2
    fitted, nominal_line = _fit_lines(fit, np.geomspace(low, high, 33), nominal_rate)
    y = quantity(
        "seconds",
        [bottom, top],
        log=10,
        title="time of a copy",
        labelExpr=SECONDS,
        values=log_ticks(bottom, top),
    )
    x = quantity(
        "size",
        [low, high],
        log=10,
        title="size of a copy",
        labelExpr=BYTES,
        values=log_ticks(low, high, 5),
    )
    counts: Spec = {
        "type": "log",
        "domain": [1, max(2, *(p["count"] for p in bins))],
        "range": [28, 140],
    }
    area = {**quantity("count", scale=counts), "legend": None}
    layers = [
        marks.band(fitted, x, y, "low", "high", opacity=0.22, color=PARTS["copy"], clip=True),
        marks.line(nominal_line, x, y, 1.3, strokeDash=[5, 4], color=SOFT, clip=True),
        marks.line(fitted, x, y, color=PARTS["copy"], clip=True),
        marks.points(
            bins,
            x,
            y,
            edge=0.7,
            tip=True,
            color=PARTS["kernel"],
            opacity=0.9,
            encode={"size": area},
        ),
    ]
    spec = plot(layers, 196, (62, 10, 4, 42), width=HALF)
    common = {"direction": fit.direction, "memory": clean(fit.memory)}
    table = [
        {**common, "size_bytes": p["size"], "median_seconds": p["seconds"], "count": p["count"]}
        for p in bins
    ]
    sentence = fit_words(fit, nominal_rate, assumed)
    return Figure("fit", title, f"{title}: {sentence}", spec, table, sentence, half=True)


def _fit_lines(fit: LinkFit, sizes: Float, nominal_rate: float | None) -> tuple[Rows, Rows]:
    """Return the fitted line with its error, and what the nominal rate alone would take."""
    times = fit.seconds(sizes)
    slope = fit.bandwidth_error / fit.bandwidth**2 if fit.bandwidth and fit.bandwidth_error else 0.0
    error = NINETY * np.sqrt(fit.latency_error**2 + (sizes * slope) ** 2)
    fitted = [
        {"size": n, "seconds": t, "low": max(t - e, t * 0.02), "high": t + e}
        for n, t, e in zip(sizes.tolist(), times.tolist(), error.tolist(), strict=True)
        if t > 0
    ]
    return fitted, [
        {"size": n, "seconds": n / nominal_rate} for n in sizes.tolist()
    ] if nominal_rate else []


def fit_words(fit: LinkFit, nominal_rate: float | None, assumed: bool = False) -> str:
    """Return a fit in one line."""
    rate = "rate not observable" if fit.bandwidth is None else number(fit.bandwidth, "B/s")
    if fit.bandwidth and nominal_rate:
        rate += (
            f" of {'an assumed ' if assumed else ''}{number(nominal_rate, 'B/s')} "
            f"({percent(fit.bandwidth / nominal_rate, 2)})"
        )
    fixed = (
        f"fixed copy cost (o+L) {number(fit.latency_s, 's')}"
        + (f" ± {number(fit.latency_error, 's', 2)}" if fit.fitted else "")
        if fit.latency_s > 0
        else "fixed copy cost (o+L) not observable"
    )
    how = (
        f"R²{NARROW}{r_squared(fit)}"
        if fit.r2 is not None
        else "estimated from two sizes, not fitted"
    )
    return f"{fixed}; {rate}; {plural(fit.count, 'copy', 'copies')}, {how}."


def r_squared(fit: LinkFit) -> str:
    """Return R² of a fit, never rounded up to certainty."""
    if fit.r2 is None:
        return "read off"
    return f"{fit.r2:.4f}" if fit.r2 < 0.99995 else f">{NARROW}0.9999"


def memory(timeline: pl.DataFrame, run_seconds: float) -> Figure:
    """Draw live device memory over the run."""
    drawn = timeline
    if drawn.height > MOST_POINTS:
        edges = np.linspace(
            float(drawn["seconds"].min()),  # type: ignore[arg-type]
            float(drawn["seconds"].max()),  # type: ignore[arg-type]
            MOST_POINTS // 2,
        )
        bins = np.searchsorted(edges, drawn["seconds"].to_numpy())
        grouped = drawn.with_columns(bin=pl.Series(bins)).group_by("bin", maintain_order=True)
        # highest and last of every bin, so that no peak is lost
        drawn = grouped.agg(
            pl.col("seconds").first(),
            peak=pl.col("size_bytes").max(),
            last=pl.col("size_bytes").last(),
        )
        drawn = pl.concat(
            [drawn.select("seconds", size_bytes="peak"), drawn.select("seconds", size_bytes="last")]
        ).sort("seconds", maintain_order=True)
    divisor, unit = time_unit(max(run_seconds, 1e-9))
    samples = [(0.0, 0), *drawn.select("seconds", "size_bytes").iter_rows()]
    samples.append((max(run_seconds, samples[-1][0]), samples[-1][1]))
    rows: Rows = [{"at": s / divisor, "size": b} for s, b in samples]
    peak = int(timeline["size_bytes"].max())  # type: ignore[arg-type]
    title = f"time since the start of the run [{unit}]"
    x = quantity("at", [0, run_seconds / divisor], title=title, tickCount=8, grid=False)
    y = quantity(
        "size",
        [0, max(peak, 1) * 1.06],
        title="allocated device memory",
        labelExpr=BYTES,
        tickCount=5,
    )
    step: Spec = {"interpolate": "step-after", "color": PARTS["kernel"]}
    spec = plot(
        [marks.mark("area", None, x, y, opacity=0.16, **step), marks.line(None, x, y, 1.8, **step)],
        150,
        (66, 12, 4, 42),
        rows,
    )
    alt = f"Allocated device memory over the run, at most {number(peak, 'B')}."
    caption = (
        f"From {count(timeline.height)} recorded allocations and releases; peak "
        f"{number(peak, 'B')}. Memory allocated before the "
        "recording began is not in it."
    )
    return Figure(
        "memory",
        "Device memory over the run",
        alt,
        spec,
        [{"seconds": s, "size_bytes": b} for s, b in samples],
        caption,
    )
