"""Figures of the recording: time line shares, copy sizes and times, overlap, fitted links, memory, offload map."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from turnbuckle.profile.offload import map_lines
from turnbuckle.profile.transfers import LinkFit
from turnbuckle.report.charts import Spec, layer, nominal, quantitative, time_unit
from turnbuckle.report.figure import Figure
from turnbuckle.report.look import CATEGORIES, FAINT, FULL, HALF, INK, PARTS, SOFT, TARGET_COLOURS
from turnbuckle.report.text import clean, count, kernel_label, number, percent, shorten
from turnbuckle.report.unknowns import DIRECTION

CATEGORY_WORDS = {
    "kernel": "kernels", "copy": "copies, no kernel running", "mpi": "MPI, device idle", "api": "GPU calls, device idle", "cpu": "host work, nothing else",
}  # fmt: skip
#: 95 % of a normal error lies inside this many standard deviations; 90 % two-sided.
NINETY = 1.645
#: Kernels drawn on the offload map, and points of a memory time line.
MOST_KERNELS, MOST_POINTS = 300, 600

BYTES = "format(datum.value, '.3~s') + 'B'"
SECONDS = "format(datum.value, '.3~s') + 's'"


def categories(shares_ns: dict[str, int]) -> Figure:
    """The exclusive time line as one bar."""
    total = max(sum(shares_ns.values()), 1)
    rows: list[dict[str, Any]] = []
    at = 0.0
    for name, value in shares_ns.items():
        share = value / total
        ink = "#ffffff" if name in ("kernel", "mpi") else INK
        label = percent(share, 2) if share > 0.045 else ""
        tip = f"{CATEGORY_WORDS[name]}: {number(value * 1e-9, 's')}, {percent(share)}"
        rows.append({"category": CATEGORY_WORDS[name], "from": at, "to": at + share, "middle": at + share / 2, "label": label, "ink": ink, "tip": tip})
        at += share
    order = [r["category"] for r in rows]
    scale = {"domain": [0, max(at, 1e-9)], "nice": False}
    spec = layer(
        {
            "mark": {"type": "bar", "height": 42, "aria": True, "stroke": "white", "strokeWidth": 1},
            "encoding": {
                "x": quantitative("from", scale=scale, axis=None), "x2": {"field": "to"}, "description": {"field": "tip"},
                "color": nominal("category", sort=order, scale={"domain": order, "range": list(CATEGORIES.values())}, legend={"title": None, "symbolSize": 130, "labelLimit": 240}),
            },
        },
        {"mark": {"type": "text", "fontWeight": "bold", "fontSize": 12}, "encoding": {"x": quantitative("middle", scale=scale), "text": {"field": "label"}, "color": nominal("ink", scale=None)}},
        data=rows, width=FULL - 10, height=46, padding=4,
    )  # fmt: skip
    told = [{"category": k, "time_ns": v, "share": v / total} for k, v in shares_ns.items()]
    alt = "Share of run time by category. " + ", ".join(f"{CATEGORY_WORDS[k]} {percent(v / total)}" for k, v in shares_ns.items())
    return Figure("categories", "Where the run time goes", alt, spec, told, "Every instant is counted once, in the order kernel, copy, MPI, GPU call, host work.")


def distributions(found: dict[str, dict[str, pl.DataFrame]]) -> list[Figure]:
    """Sizes and times of copies by direction: share of the copies, and share of bytes or time, by factor of two."""
    return [
        _histogram("copy-sizes", "Copy sizes", "size of a copy", BYTES, found, "by_size", "bytes"),
        _histogram("copy-times", "Copy times", "time of a copy", SECONDS, found, "times", "time"),
    ]


def _histogram(name: str, title: str, axis_title: str, label: str, found: dict[str, dict[str, pl.DataFrame]], table: str, weight: str) -> Figure:
    rows: list[dict[str, Any]] = []
    for direction, tables in found.items():
        frame = tables[table].filter(pl.col("count") > 0)
        counts, weights = max(float(frame["count"].sum()), 1.0), max(float(frame["weight"].sum()), 1e-300)
        for r in frame.to_dicts():
            unit = "B" if weight == "bytes" else "s"
            middle = (r["low"] * r["high"]) ** 0.5
            rows += [
                {"direction": DIRECTION.get(direction, direction.replace("_", " ")), "low": r["low"], "high": r["high"], "middle": middle, "share": share, "what": what,
                 "tip": f"{DIRECTION.get(direction, direction)}, {number(r['low'], unit)} to {number(r['high'], unit)}: {percent(share)} of the {what}"}
                for what, share in ((weight, r["weight"] / weights), ("copies", r["count"] / counts))
            ]  # fmt: skip
    order = list(dict.fromkeys(r["direction"] for r in rows))
    x = {"scale": {"type": "log", "base": 10, "nice": False}, "axis": {"title": axis_title, "labelExpr": label, "tickCount": 5, "grid": False, "labelOverlap": True}}
    y: Spec = quantitative("share", scale={"domain": [0, 1]}, axis={"format": "%", "title": None, "values": [0, 0.5, 1]})
    inner = layer(
        {
            "transform": [{"filter": f"datum.what == '{weight}'"}], "mark": {"type": "bar", "aria": True, "color": PARTS["copy"], "opacity": 0.85, "binSpacing": 1},
            "encoding": {"x": quantitative("low", **x), "x2": {"field": "high"}, "y": y, "description": {"field": "tip"}},
        },
        {
            "transform": [{"filter": "datum.what == 'copies'"}], "mark": {"type": "point", "aria": True, "filled": True, "color": INK, "size": 26, "opacity": 1},
            "encoding": {"x": quantitative("middle", **x), "y": y, "description": {"field": "tip"}},
        },
        width=HALF - 52, height=74,
    )  # fmt: skip
    spec = {
        "data": {"values": rows}, "facet": {"row": {"field": "direction", "type": "nominal", "sort": order, "title": None, "header": {"labelOrient": "top", "labelAnchor": "start", "labelFontWeight": "bold"}}},
        "spec": inner, "spacing": 10, "padding": 4,
    }  # fmt: skip
    told = [{k: r[k] for k in ("direction", "low", "high", "what", "share")} for r in rows]
    peaks = [max((r for r in rows if r["direction"] == d and r["what"] == weight), key=lambda r: r["share"]) for d in order]
    alt = f"{title} by direction. " + " ".join(p["tip"] + "." for p in peaks)
    return Figure(name, title, alt, spec, told, f"Bars: share of the {weight}; dots: share of the number of copies; by factor of two.", half=True)


def overlap(found: dict[str, Any]) -> Figure:
    """Copy time that kernels hide, and what they do not."""
    total, hidden = found["copy_union_ns"] * 1e-9, found["copy_hidden_ns"] * 1e-9
    scale, unit = time_unit(total)
    parts = [("hidden behind kernels", 0.0, hidden, PARTS["kernel"], "#ffffff"), ("not hidden", hidden, total, PARTS["copy"], INK)]
    rows = [
        {"what": what, "from": a / scale, "to": b / scale, "middle": (a + b) / 2 / scale, "colour": c, "ink": ink,
         "label": f"{what} {percent((b - a) / total, 2)}" if (b - a) / total > 0.22 else "", "tip": f"{what}: {number(b - a, 's')}, {percent((b - a) / total)} of copy time"}
        for what, a, b, c, ink in parts
    ]  # fmt: skip
    axis = {"title": f"time in which a copy runs [{unit}]", "grid": False, "tickCount": 6}
    x = quantitative("from", scale={"nice": False, "domain": [0, total / scale]}, axis=axis)
    order = [r["what"] for r in rows]
    spec = layer(
        {"mark": {"type": "bar", "height": 28, "aria": True}, "encoding": {"x": x, "x2": {"field": "to"}, "description": {"field": "tip"},
         "color": nominal("what", sort=order, scale={"domain": order, "range": [p[3] for p in parts]}, legend={"title": None, "symbolSize": 130})}},
        {"mark": {"type": "text", "fontWeight": "bold"}, "encoding": {"x": quantitative("middle"), "text": {"field": "label"}, "color": nominal("ink", scale=None)}},
        data=rows, width=FULL - 10, height=34, padding=4,
    )  # fmt: skip
    alt = f"Of {number(total, 's')} in which copies run, {percent(hidden / total)} is hidden behind kernels of the same device."
    return Figure("overlap", "Overlap of copies with kernels", alt, spec, [{"hidden_seconds": hidden, "not_hidden_seconds": total - hidden}])


def link_fit(fit: LinkFit, nominal_rate: float | None) -> Figure:
    """Time of a copy against its size: bins, fitted line with its error, and what the link's nominal rate alone would take."""
    title = f"{DIRECTION.get(fit.direction, fit.direction)}, {clean(fit.memory).replace('_', ' ')}"
    bins = fit.bins.filter((pl.col("seconds") > 0) & (pl.col("size_bytes") > 0))
    points = [
        {"size": r["size_bytes"], "seconds": r["seconds"], "count": r["count"],
         "tip": f"{count(r['count'])} copies of about {number(r['size_bytes'], 'B')}: median {number(r['seconds'], 's')}, {number(r['bandwidth'], 'B/s')}"}
        for r in bins.to_dicts()
    ]  # fmt: skip
    low, high = min(p["size"] for p in points) / 1.6, max(p["size"] for p in points) * 1.6
    sizes = np.geomspace(low, high, 33)
    lines = _lines(fit, sizes, nominal_rate)
    top, bottom = max(p["seconds"] for p in points) * 2.2, min(p["seconds"] for p in points) / 2.2
    y = quantitative("seconds", scale={"type": "log", "domain": [bottom, top], "nice": False, "clamp": True}, axis={"title": "time of a copy", "labelExpr": SECONDS, "tickCount": 5, "labelOverlap": True})
    x = quantitative("size", scale={"type": "log", "domain": [low, high], "nice": False}, axis={"title": "size of a copy", "labelExpr": BYTES, "tickCount": 5, "labelOverlap": True})
    layers: list[Spec] = [
        {"data": {"values": [r for r in lines if r["line"] == "fit"]}, "mark": {"type": "area", "opacity": 0.22, "color": PARTS["copy"], "clip": True},
         "encoding": {"x": x, "y": quantitative("low", scale=y["scale"], axis=y["axis"]), "y2": {"field": "high"}}},
        {"data": {"values": [r for r in lines if r["line"] == "nominal"]}, "mark": {"type": "line", "strokeDash": [5, 4], "color": SOFT, "strokeWidth": 1.3, "clip": True}, "encoding": {"x": x, "y": y}},
        {"data": {"values": [r for r in lines if r["line"] == "fit"]}, "mark": {"type": "line", "color": PARTS["copy"], "strokeWidth": 2, "clip": True}, "encoding": {"x": x, "y": y}},
        {"data": {"values": points}, "mark": {"type": "point", "filled": True, "color": PARTS["kernel"], "opacity": 0.9, "aria": True},
         "encoding": {"x": x, "y": y, "description": {"field": "tip"}, "size": quantitative("count", scale={"type": "log", "domain": [1, max(2, *(p["count"] for p in points))], "range": [22, 130]}, legend=None)}},
    ]  # fmt: skip
    said = f"o+L {number(fit.latency_s, 's')}" + (f", {number(fit.bandwidth, 'B/s')}" if fit.bandwidth else "")
    spec = layer(*layers, width=HALF - 70, height=190, padding=4, title={"text": title, "subtitle": _fit_words(fit, nominal_rate)})
    told = [{"direction": fit.direction, "memory": fit.memory, "size_bytes": p["size"], "median_seconds": p["seconds"], "count": p["count"]} for p in points]
    return Figure("fit", title, f"{title}: {said}. {_fit_words(fit, nominal_rate)}", spec, told, half=True)


def _lines(fit: LinkFit, sizes: np.ndarray[Any, np.dtype[np.float64]], nominal_rate: float | None) -> list[dict[str, Any]]:
    rows = []
    line = fit.seconds(sizes)
    slope = fit.bandwidth_error / fit.bandwidth**2 if fit.bandwidth and fit.bandwidth_error else 0.0
    error = NINETY * np.sqrt(fit.latency_error**2 + (sizes * slope) ** 2)
    for n, t, e in zip(sizes.tolist(), line.tolist(), error.tolist(), strict=True):
        if t > 0:
            rows.append({"line": "fit", "size": n, "seconds": t, "low": max(t - e, t * 0.02), "high": t + e})
        if nominal_rate:
            rows.append({"line": "nominal", "size": n, "seconds": n / nominal_rate, "low": None, "high": None})
    return rows


def _fit_words(fit: LinkFit, nominal_rate: float | None) -> list[str]:
    rate = "rate not observable" if fit.bandwidth is None else number(fit.bandwidth, "B/s")
    if fit.bandwidth and nominal_rate:
        rate += f" of {number(nominal_rate, 'B/s')} ({percent(fit.bandwidth / nominal_rate, 2)})"
    how = f"R² {fit.r2:.4f}" if fit.r2 is not None else "read off, not fitted"
    return [f"o+L {number(fit.latency_s, 's')} ± {number(fit.latency_error, 's', 2)}, {rate}", f"{count(fit.count)} copies, {how}"]


def memory(line: pl.DataFrame) -> Figure:
    """Live device memory over the run."""
    told = line
    if line.height > MOST_POINTS:
        edges = np.linspace(float(line["seconds"].min()), float(line["seconds"].max()), MOST_POINTS // 2)  # type: ignore[arg-type]
        bins = np.searchsorted(edges, line["seconds"].to_numpy())
        grouped = line.with_columns(bin=pl.Series(bins)).group_by("bin", maintain_order=True)
        # highest and last of every bin, so that no peak is lost
        line = grouped.agg(pl.col("seconds").first(), peak=pl.col("size_bytes").max(), last=pl.col("size_bytes").last())
        line = pl.concat([line.select("seconds", size_bytes="peak"), line.select("seconds", size_bytes="last")]).sort("seconds", maintain_order=True)
    scale, unit = time_unit(max(float(line["seconds"].max()), 1e-9))  # type: ignore[arg-type]
    rows = [{"at": s / scale, "size": b} for s, b in line.select("seconds", "size_bytes").iter_rows()]
    peak = int(told["size_bytes"].max())  # type: ignore[arg-type]
    axis = {"title": "allocated device memory", "labelExpr": BYTES, "tickCount": 5}
    encoding = {"x": quantitative("at", axis={"title": f"time since the start of the run [{unit}]", "tickCount": 8, "grid": False}, scale={"nice": False}), "y": quantitative("size", axis=axis)}
    spec = layer(
        {"mark": {"type": "area", "interpolate": "step-after", "color": PARTS["kernel"], "opacity": 0.18}, "encoding": encoding},
        {"mark": {"type": "line", "interpolate": "step-after", "color": PARTS["kernel"], "strokeWidth": 1.8}, "encoding": encoding},
        data=rows, width=FULL - 90, height=150, padding={"left": 4, "right": 16, "top": 4, "bottom": 4},
    )  # fmt: skip
    alt = f"Allocated device memory over the run, at most {number(peak, 'B')}."
    return Figure("memory", "Device memory over the run", alt, spec, [{"seconds": r["at"] * scale, "size_bytes": r["size"]} for r in rows], f"From {count(told.height)} recorded allocations and releases; peak {number(peak, 'B')}.")


def offload(table: pl.DataFrame, launch_s: float, alpha: float, added_latency_s: float) -> Figure:
    """Kernel time against transfer time, with the line above which offloading pays and the zones that added latency would open."""
    shown = table.filter(pl.col("kernel_s") > 0).head(MOST_KERNELS)
    moved = [t for t in shown["transfer_s"].to_list() if t > 0]
    floor = min([*moved, launch_s or 1e-6]) / 4
    rows = [
        {
            "kernel": shorten(clean(r["kernel"]), 200), "x": max(r["transfer_s"], floor), "exposed": max(r["exposed_transfer_s"], floor), "y": r["kernel_s"], "count": r["count"], "total": r["total_s"],
            "pays": r["pays"], "label": kernel_label(r["kernel"], 34) if i < 4 else "",
            "tip": f"{kernel_label(r['kernel'], 80)}: {count(r['count'])} launches, mean {number(r['kernel_s'], 's')}, copies {number(r['transfer_s'], 's')} a launch, "
                   f"{number(r['exposed_transfer_s'], 's')} exposed; pays: {r['pays']}",
        }
        for i, r in enumerate(shown.to_dicts())
    ]  # fmt: skip
    left, right = floor / 1.5, max(r["x"] for r in rows) * 8
    lines = map_lines(launch_s, alpha, added_latency_s, np.geomspace(left, right, 49))
    bottom = min([*(r["y"] for r in rows), float(lines["break_even"].min())]) / 2.5
    top = max([*(r["y"] for r in rows), 3 * added_latency_s / 0.01]) * 2.5
    grid = [
        {"x": float(x), "break_even": float(b), "p20": max(float(a), bottom), "p5": max(float(c), bottom), "p1": max(float(d), bottom), "floor": bottom}
        for x, b, a, c, d in zip(np.geomspace(left, right, 49), lines["break_even"], lines["penalty_20"], lines["penalty_5"], lines["penalty_1"], strict=True)
    ]  # fmt: skip
    x = quantitative("x", scale={"type": "log", "domain": [left, right], "nice": False}, axis={"title": "mean copy time charged to one launch", "labelExpr": SECONDS, "tickCount": 7, "labelOverlap": True})
    log_y = {"type": "log", "domain": [bottom, top], "nice": False, "clamp": True}
    axis_y = {"title": "mean kernel time", "labelExpr": SECONDS, "tickCount": 6, "labelOverlap": True}
    zone = [("p1", "p5", "#fbf4cf"), ("p5", "p20", "#fde3c2"), ("p20", "floor", "#f9d5c9")]
    words = [{"y": max(float(lines[k][0]), bottom), "label": f"{p} % slower below, with +{number(added_latency_s, 's', 2)} one way"} for k, p in (("penalty_1", 1), ("penalty_5", 5), ("penalty_20", 20)) if float(lines[k][0]) > bottom]
    spec = layer(
        *({"data": {"values": grid}, "mark": {"type": "area", "color": c, "clip": True}, "encoding": {"x": x, "y": quantitative(a, scale=log_y, axis=axis_y), "y2": {"field": b}}} for a, b, c in zone),
        {"data": {"values": words}, "mark": {"type": "text", "align": "left", "x": 6, "dy": 9, "color": SOFT, "fontSize": 10}, "encoding": {"y": quantitative("y", scale=log_y), "text": {"field": "label"}}},
        {"data": {"values": grid}, "mark": {"type": "line", "color": INK, "strokeWidth": 1.5, "clip": True}, "encoding": {"x": x, "y": quantitative("break_even", scale=log_y)}},
        {"mark": {"type": "rule", "color": FAINT, "strokeWidth": 1.2}, "encoding": {"x": quantitative("exposed", scale=x["scale"]), "x2": {"field": "x"}, "y": quantitative("y", scale=log_y)}},
        {
            "mark": {"type": "point", "filled": True, "stroke": "white", "strokeWidth": 0.8, "opacity": 0.95, "aria": True},
            "encoding": {
                "x": x, "y": quantitative("y", scale=log_y), "description": {"field": "tip"},
                "size": quantitative("total", scale={"type": "sqrt", "range": [30, 420]}, legend=None),
                "fill": nominal("pays", scale={"domain": ["yes", "with overlap only", "no"], "range": [TARGET_COLOURS[2], TARGET_COLOURS[8], TARGET_COLOURS[1]]}, legend={"title": "pays", "symbolType": "circle"}),
            },
        },
        {"mark": {"type": "text", "align": "left", "dx": 12, "dy": -7, "fontSize": 10}, "encoding": {"x": x, "y": quantitative("y", scale=log_y), "text": {"field": "label"}}},
        data=rows, width=FULL - 90, height=330, padding={"left": 4, "right": 10, "top": 4, "bottom": 4}, resolve={"scale": {"size": "independent"}},
    )  # fmt: skip
    told = [{k: (clean(v) if k == "kernel" else v) for k, v in r.items()} for r in shown.select("kernel", "count", "kernel_s", "transfer_s", "exposed_transfer_s", "ratio", "limit", "pays", "total_s").to_dicts()]
    pays = shown["pays"].to_list()
    alt = f"{len(pays)} kernels: offloading pays for {pays.count('yes')}, with overlap only for {pays.count('with overlap only')}, not for {pays.count('no')}."
    left_out = f" The {MOST_KERNELS} with the longest total of {table.height} are drawn." if table.height > MOST_KERNELS else ""
    caption = (
        f"One dot a kernel, its area the total time. Above the black line the kernel is faster on the device than on a host CPU {alpha:g} times slower, copies and launch ({number(launch_s, 's')}) included. "
        f"The bar at a dot reaches from the copy time no kernel hides to all of it. Kernels without copies stand at the left edge. Shaded: kernels that would be slower by 1, 5 and 20 % if launch and two copies each took "
        f"{number(added_latency_s, 's', 2)} longer.{left_out}"
    )
    return Figure("offload", "Offload map", alt, spec, told, caption)
