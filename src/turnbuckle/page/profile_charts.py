"""Figures of the recording: time line shares, copy sizes and times, overlap, fitted links, memory, offload map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.profile.transfers import LinkFit
from turnbuckle.show.figures.charts import Rows, Spec, layer, log_ticks, own_colour, quantitative, time_unit
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import CATEGORIES, HALF, INK, PARTS, SOFT
from turnbuckle.show.text import NARROW, clean, count, number, percent, plural
from turnbuckle.show.unknowns import DIRECTION

CATEGORY_WORDS = {
    "kernel": "kernels",
    "copy": "copies, no kernel running",
    "mpi": "MPI, device idle",
    "api": "GPU calls, device idle",
    "cpu": "host work, nothing else",
}
#: 90 % of a normal error lies inside this many standard deviations.
NINETY = 1.645
#: Points of a memory time line.
MOST_POINTS = 600

#: Vega labels with a unit: ``2 MB``, ``10 µs``.
BYTES, SECONDS = (f"replace(format(datum.value, '.3~s'), regexp('([a-zA-Zµ]?)$'), ' $1') + '{unit}'" for unit in ("B", "s"))


def categories(shares_ns: dict[str, int], words: Mapping[str, str] = CATEGORY_WORDS) -> Figure:
    """The exclusive time line as one bar; `words` names the categories that were recorded."""
    shares_ns = {name: value for name, value in shares_ns.items() if name in words}
    total = max(sum(shares_ns.values()), 1)
    parts = [
        (name, words[name], value / total, f"{words[name]}: {number(value * 1e-9, 's')}, {percent(value / total)}")
        for name, value in shares_ns.items()
    ]
    bars = [
        (called, share, CATEGORIES[name], "#ffffff" if name in ("kernel", "mpi") else INK, percent(share, 2) if share > 0.045 else "", tip)
        for name, called, share, tip in parts
    ]
    told = [{"category": k, "time_ns": v, "share": v / total} for k, v in shares_ns.items()]
    alt = "Share of run time by category. " + "; ".join(tip for *_, tip in parts)
    caption = "Every instant is counted once, in the order kernel, copy, MPI, GPU call, host work."
    return Figure("categories", "Where the run time goes", alt, _one_bar(bars, 44), told, caption, legend=tuple((b[0], b[2]) for b in bars))


def overlap(found: dict[str, Any]) -> Figure:
    """Copy time that kernels hide, and what they do not."""
    total, hidden = found["copy_union_ns"] * 1e-9, found["copy_hidden_ns"] * 1e-9
    parts = [
        ("hidden behind kernels of the same device", hidden, PARTS["kernel"], "#ffffff"),
        ("not hidden", total - hidden, PARTS["copy"], INK),
    ]
    bars = [
        (
            what,
            s / total,
            c,
            ink,
            f"{number(s, 's')}, {percent(s / total, 2)}" if s / total > 0.16 else "",
            f"{what}: {number(s, 's')}, {percent(s / total)} of copy time",
        )
        for what, s, c, ink in parts
    ]
    alt = f"Of {number(total, 's')} in which copies run, {percent(hidden / total)} is hidden behind kernels of the same device."
    return Figure(
        "overlap",
        "Overlap of copies with kernels",
        alt,
        _one_bar(bars, 30),
        [{"hidden_seconds": hidden, "not_hidden_seconds": total - hidden}],
        legend=tuple((p[0], p[2]) for p in parts),
    )


def _one_bar(bars: list[tuple[str, float, str, str, str, str]], thick: int) -> Spec:
    """Shares of one whole: (words, share, colour, ink, label, tip)."""
    rows: Rows = []
    at = 0.0
    for _, share, colour, ink, label, tip in bars:
        rows.append({"from": at, "to": at + share, "middle": at + share / 2, "label": label, "ink": ink, "colour": colour, "tip": tip})
        at += share
    scale = {"domain": [0, max(at, 1e-9)], "nice": False}
    return layer(
        {
            "mark": {"type": "rect", "aria": True, "stroke": "white", "strokeWidth": 1},
            "encoding": {
                "x": quantitative("from", scale=scale, axis=None),
                "x2": {"field": "to"},
                "description": {"field": "tip"},
                "color": own_colour(),
            },
        },
        {
            "mark": {"type": "text", "fontWeight": "bold", "fontSize": 12},
            "encoding": {"x": quantitative("middle", scale=scale, axis=None), "text": {"field": "label"}, "color": own_colour("ink")},
        },
        data=rows,
        height=thick,
        left=0,
        right=0,
        top=0,
        bottom=2,
    )


def distributions(found: dict[str, dict[str, pl.DataFrame]]) -> list[Figure]:
    """Sizes and times of copies by direction: share of the copies, and share of bytes or time, by factor of two."""
    return [
        _histogram("copy-sizes", "Copy sizes", "size of a copy", BYTES, found, "by_size", "bytes"),
        _histogram("copy-times", "Copy times", "time of a copy", SECONDS, found, "times", "time"),
    ]


def _histogram(
    name: str, title: str, axis_title: str, label: str, found: dict[str, dict[str, pl.DataFrame]], table: str, weight: str
) -> Figure:
    rows: Rows = []
    unit = "B" if weight == "bytes" else "s"
    for direction, tables in found.items():
        frame = tables[table].filter(pl.col("count") > 0)
        counts, weights = max(float(frame["count"].sum()), 1.0), max(float(frame["weight"].sum()), 1e-300)
        words = DIRECTION.get(direction, "unified memory, moved by the driver")
        for r in frame.to_dicts():
            middle = (r["low"] * r["high"]) ** 0.5
            rows += [
                {
                    "direction": words,
                    "low": r["low"],
                    "high": r["high"],
                    "middle": middle,
                    "share": share,
                    "what": what,
                    "tip": f"{words}, {number(r['low'], unit)} to {number(r['high'], unit)}: {percent(share)} of the {what}",
                }
                for what, share in ((weight, r["weight"] / weights), ("copies", r["count"] / counts))
            ]
    order = list(dict.fromkeys(r["direction"] for r in rows))
    low, high = min((r["low"] for r in rows), default=1.0), max((r["high"] for r in rows), default=2.0)
    scale = {"type": "log", "base": 10, "nice": False, "domain": [low / 1.2, high * 1.2]}
    axis = {"title": axis_title, "labelExpr": label, "values": log_ticks(low, high, 5), "grid": False}
    y: Spec = quantitative(
        "share", scale={"domain": [0, 1]}, axis={"labelExpr": "datum.value * 100 + ' %'", "title": None, "values": [0, 0.5, 1]}
    )
    inner: Spec = {
        "width": HALF - 62,
        "height": 74,
        "layer": [
            {
                "transform": [{"filter": f"datum.what == '{weight}'"}],
                "mark": {"type": "rect", "aria": True, "color": PARTS["copy"], "stroke": "white", "strokeWidth": 0.6},
                "encoding": {
                    "x": quantitative("low", scale=scale, axis=axis),
                    "x2": {"field": "high"},
                    "y": y,
                    "y2": {"datum": 0},
                    "description": {"field": "tip"},
                },
            },
            {
                "transform": [{"filter": "datum.what == 'copies'"}],
                "mark": {"type": "point", "aria": True, "filled": True, "color": INK, "size": 26, "opacity": 1},
                "encoding": {"x": quantitative("middle", scale=scale, axis=axis), "y": y, "description": {"field": "tip"}},
            },
        ],
    }
    header = {"labelOrient": "top", "labelAnchor": "start", "labelFontWeight": "bold", "labelPadding": 4}
    spec = {
        "data": {"values": rows},
        "facet": {"row": {"field": "direction", "type": "nominal", "sort": order, "title": None, "header": header}},
        "spec": inner,
        "spacing": 10,
        "padding": 4,
    }
    told = [{k: r[k] for k in ("direction", "low", "high", "what", "share")} for r in rows]
    peaks = [max((r for r in rows if r["direction"] == d and r["what"] == weight), key=lambda r: r["share"]) for d in order]
    alt = f"{title} by direction. " + " ".join(p["tip"] + "." for p in peaks)
    return Figure(
        name, title, alt, spec, told, f"By factor of two. Bars: share of the {weight}; dots: share of the number of copies.", half=True
    )


def drawable(fit: LinkFit) -> pl.DataFrame:
    """The size bins of a fit that a logarithmic plot can show."""
    return fit.bins.filter((pl.col("seconds") > 0) & (pl.col("size_bytes") > 0))


def class_label(fit: LinkFit) -> str:
    """Direction and host memory of a class of copies."""
    kind = "" if fit.direction.startswith("migration") else f", {clean(fit.memory).replace('_', ' ')}"
    return DIRECTION.get(fit.direction, clean(fit.direction)) + kind


def link_fit(fit: LinkFit, nominal_rate: float | None, assumed: bool = False) -> Figure:
    """Time of a copy against its size: bins, fitted line with its error, and what the link's nominal rate alone would take."""
    title = class_label(fit)
    points: Rows = [
        {
            "size": r["size_bytes"],
            "seconds": r["seconds"],
            "count": r["count"],
            "tip": (
                f"{count(r['count'])} copies of about {number(r['size_bytes'], 'B')}: median {number(r['seconds'], 's')}, "
                f"{number(r['bandwidth'], 'B/s')}"
            ),
        }
        for r in drawable(fit).to_dicts()
    ]
    low, high = min(p["size"] for p in points) / 1.6, max(p["size"] for p in points) * 1.6
    bottom, top = min(p["seconds"] for p in points) / 2.2, max(p["seconds"] for p in points) * 2.2
    line, nominal_line = _fit_lines(fit, np.geomspace(low, high, 33), nominal_rate)
    y_scale, x_scale = ({"type": "log", "domain": d, "nice": False} for d in ([bottom, top], [low, high]))
    y = quantitative("seconds", scale=y_scale, axis={"title": "time of a copy", "labelExpr": SECONDS, "values": log_ticks(bottom, top)})
    x = quantitative("size", scale=x_scale, axis={"title": "size of a copy", "labelExpr": BYTES, "values": log_ticks(low, high, 5)})
    spec = layer(
        {
            "data": {"values": line},
            "mark": {"type": "area", "opacity": 0.22, "color": PARTS["copy"], "clip": True},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
        },
        {
            "data": {"values": nominal_line},
            "mark": {"type": "line", "strokeDash": [5, 4], "color": SOFT, "strokeWidth": 1.3, "clip": True},
            "encoding": {"x": x, "y": y},
        },
        {
            "data": {"values": line},
            "mark": {"type": "line", "color": PARTS["copy"], "strokeWidth": 2, "clip": True},
            "encoding": {"x": x, "y": y},
        },
        {
            "data": {"values": points},
            "mark": {
                "type": "point",
                "filled": True,
                "color": PARTS["kernel"],
                "opacity": 0.9,
                "stroke": "white",
                "strokeWidth": 0.7,
                "aria": True,
            },
            "encoding": {
                "x": x,
                "y": y,
                "description": {"field": "tip"},
                "size": quantitative(
                    "count", scale={"type": "log", "domain": [1, max(2, *(p["count"] for p in points))], "range": [28, 140]}, legend=None
                ),
            },
        },
        width=HALF,
        height=196,
        left=62,
        right=10,
        top=4,
        bottom=42,
    )
    told = [
        {
            "direction": fit.direction,
            "memory": clean(fit.memory),
            "size_bytes": p["size"],
            "median_seconds": p["seconds"],
            "count": p["count"],
        }
        for p in points
    ]
    said = fit_words(fit, nominal_rate, assumed)
    return Figure("fit", title, f"{title}: {said}", spec, told, said, half=True)


def _fit_lines(fit: LinkFit, sizes: NDArray[np.float64], nominal_rate: float | None) -> tuple[Rows, Rows]:
    line = fit.seconds(sizes)
    slope = fit.bandwidth_error / fit.bandwidth**2 if fit.bandwidth and fit.bandwidth_error else 0.0
    error = NINETY * np.sqrt(fit.latency_error**2 + (sizes * slope) ** 2)
    fitted = [
        {"size": n, "seconds": t, "low": max(t - e, t * 0.02), "high": t + e}
        for n, t, e in zip(sizes.tolist(), line.tolist(), error.tolist(), strict=True)
        if t > 0
    ]
    return fitted, [{"size": n, "seconds": n / nominal_rate} for n in sizes.tolist()] if nominal_rate else []


def fit_words(fit: LinkFit, nominal_rate: float | None, assumed: bool = False) -> str:
    """A fit in one line."""
    rate = "rate not observable" if fit.bandwidth is None else number(fit.bandwidth, "B/s")
    if fit.bandwidth and nominal_rate:
        rate += f" of {'an assumed ' if assumed else ''}{number(nominal_rate, 'B/s')} ({percent(fit.bandwidth / nominal_rate, 2)})"
    fixed = (
        f"o+L {number(fit.latency_s, 's')}" + (f" ± {number(fit.latency_error, 's', 2)}" if fit.fitted else "")
        if fit.latency_s > 0
        else "o+L not observable"
    )
    how = f"R²{NARROW}{r_squared(fit)}" if fit.r2 is not None else "read off, not fitted"
    return f"{fixed}; {rate}; {plural(fit.count, 'copy', 'copies')}, {how}."


def r_squared(fit: LinkFit) -> str:
    """R² of a fit, never rounded up to certainty."""
    if fit.r2 is None:
        return "read off"
    return f"{fit.r2:.4f}" if fit.r2 < 0.99995 else f">{NARROW}0.9999"


def memory(line: pl.DataFrame, run_seconds: float) -> Figure:
    """Live device memory over the run."""
    told = line
    if line.height > MOST_POINTS:
        edges = np.linspace(float(line["seconds"].min()), float(line["seconds"].max()), MOST_POINTS // 2)  # type: ignore[arg-type]
        bins = np.searchsorted(edges, line["seconds"].to_numpy())
        grouped = line.with_columns(bin=pl.Series(bins)).group_by("bin", maintain_order=True)
        # highest and last of every bin, so that no peak is lost
        line = grouped.agg(pl.col("seconds").first(), peak=pl.col("size_bytes").max(), last=pl.col("size_bytes").last())
        line = pl.concat([line.select("seconds", size_bytes="peak"), line.select("seconds", size_bytes="last")]).sort(
            "seconds", maintain_order=True
        )
    divisor, unit = time_unit(max(run_seconds, 1e-9))
    points = [(0.0, 0), *line.select("seconds", "size_bytes").iter_rows()]
    points.append((max(run_seconds, points[-1][0]), points[-1][1]))
    rows: Rows = [{"at": s / divisor, "size": b} for s, b in points]
    peak = int(told["size_bytes"].max())  # type: ignore[arg-type]
    encoding = {
        "x": quantitative(
            "at",
            axis={"title": f"time since the start of the run [{unit}]", "tickCount": 8, "grid": False},
            scale={"nice": False, "domain": [0, run_seconds / divisor]},
        ),
        "y": quantitative(
            "size",
            axis={"title": "allocated device memory", "labelExpr": BYTES, "tickCount": 5},
            scale={"domain": [0, max(peak, 1) * 1.06], "nice": False},
        ),
    }
    spec = layer(
        {"mark": {"type": "area", "interpolate": "step-after", "color": PARTS["kernel"], "opacity": 0.16}, "encoding": encoding},
        {"mark": {"type": "line", "interpolate": "step-after", "color": PARTS["kernel"], "strokeWidth": 1.8}, "encoding": encoding},
        data=rows,
        height=150,
        left=66,
        right=12,
        top=4,
        bottom=42,
    )
    alt = f"Allocated device memory over the run, at most {number(peak, 'B')}."
    caption = (
        f"From {count(told.height)} recorded allocations and releases; peak {number(peak, 'B')}. Memory allocated before the "
        "recording began is not in it."
    )
    return Figure("memory", "Device memory over the run", alt, spec, [{"seconds": s, "size_bytes": b} for s, b in points], caption)
