"""Figures of the GPUDirect study: gain by message size, parts of run times, busy links, bytes from rank to rank, saturated NICs.

After Figs 5 to 7 of Khetawat et al. (GPUDirect in TraceR-CODES) and Fig 49 of the ECP report.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from turnbuckle.mpi.questions.gpudirect.cost import break_even_bytes
from turnbuckle.mpi.questions.gpudirect.question import BOTH, GpuDirectStudy, Per
from turnbuckle.mpi.questions.gpudirect.question import FULL as FULL_CARD
from turnbuckle.mpi.questions.messages.maps import PATH_WORDS, links, share_words, traffic
from turnbuckle.mpi.questions.messages.times import FAR, SizeClass, crossover
from turnbuckle.show.figures.charts import CHANGE, Rows, Spec, layer, own_colour, quantitative, stacked_bars
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import CATEGORIES, FAINT, FULL, INK, PARTS, SOFT
from turnbuckle.show.text import number, percent, seconds, signed

Float = NDArray[np.float64]

#: Colours of the data paths; host copies have the colour of copies in all figures.
COLOURS: Final = {"hostcopy": PARTS["copy"], "gpudirect": "#1f4e79"}
#: Words and colours of the parts of a run time along its chain, in the order drawn.
CHAIN: Final = {
    "compute": ("compute", PARTS["other"]),
    "copies": ("copies", PARTS["copy"]),
    "network": ("messages under way", CATEGORIES["mpi"]),
    "others": ("pinning, handshakes, overheads", "#35978f"),
}
#: Shades of the node shapes, from few ranks per node (light) to many (dark).
_SHADES: Final = ("#7fcdbb", "#41b6c4", "#1d91c0", "#225ea8", "#253494", "#081d58")
_BYTES: Final = (
    "datum.value >= 1e9 ? format(datum.value / 1e9, '~r') + '\\u00a0GB' : datum.value >= 1e6 ? format(datum.value / 1e6, '~r') + "
    "'\\u00a0MB' : datum.value >= 1e3 ? format(datum.value / 1e3, '~r') + '\\u00a0kB' : format(datum.value, '~r') + '\\u00a0B'"
)


def figures(study: GpuDirectStudy) -> list[Figure]:
    """Return all figures for which the study has data."""
    out = [by_size(study)] if study.sizes else []
    out.append(node_shapes(study))
    if any(study.case(study.at, path).links for path in BOTH):
        out.append(links(study))
    if study.matrix is not None and study.matrix.any():
        out.append(traffic(study))
    if study.saturations():
        out.append(cards(study))
    return out


# --- by message size --------------------------------------------------------------------------------------------------


def _drawn(study: GpuDirectStudy) -> tuple[bool, dict[int, list[SizeClass]]]:
    """Return the classes of messages between nodes by shape; those inside nodes where there are no others."""
    for between in (True, False):
        classes = {n: c for n in study.answered.shapes if (c := study.classes(n, between=between))}
        if classes:
            return between, classes
    return True, {}


def _shade(k: int, count: int) -> str:
    return _SHADES[-1] if count == 1 else _SHADES[round(k * (len(_SHADES) - 1) / (count - 1))]


def by_size(study: GpuDirectStudy) -> Figure:
    """Draw the gain of GPUDirect by message size and node shape, beside the closed form, above the shares of messages and bytes."""
    between, classes = _drawn(study)
    shade = {n: _shade(k, len(classes)) for k, n in enumerate(classes)}
    rows: Rows = [
        {
            "size": c.size_bytes, "gain": c.speedup, "shape": str(n), "colour": shade[n],
            "tip": f"{number(c.size_bytes, 'B')}, {n} a node: {signed(c.speedup)}, alone {signed(c.alone_speedup)}, {c.count:,} messages",
        }
        for n, some in classes.items() for c in some
    ]  # fmt: skip
    first = next(iter(classes.values()))
    line = [{**p, "shape": str(n), "colour": shade[n]} for n, some in classes.items() for p in _line(some, "")]
    closed = _line(first, "_alone")
    low, high = _domain([c for some in classes.values() for c in some])
    x: Spec = {"scale": {"type": "log", "domain": [low, high], "nice": False}}
    quiet: Spec = {**x, "axis": {"labels": False, "ticks": False, "title": None, "values": _powers(low, high), "grid": True}}
    bottom: Spec = {**x, "axis": {"title": "message size", "values": _powers(low, high), "labelExpr": _BYTES, "grid": True}}
    gain: Spec = {"axis": {"title": "gain: host copies over GPUDirect, less 1", "labelExpr": CHANGE, "minExtent": 48, "tickCount": 6}}
    edges = _edges(study, low, high)
    aside: Spec = {"align": "left", "dx": 4} if edges and edges[0]["size"] < math.sqrt(low * high) else {"align": "right", "dx": -4}
    main: Spec = {
        "width": FULL - 90,
        "height": 250,
        "layer": [
            {"data": {"values": [{"gain": 0}]}, "mark": {"type": "rule", "color": INK}, "encoding": {"y": quantitative("gain", **gain)}},
            {
                "data": {"values": edges},
                "mark": {"type": "rule", "strokeDash": [2, 3], "color": SOFT},
                "encoding": {"x": quantitative("size", **quiet)},
            },
            {
                "data": {"values": edges},
                "mark": {"type": "text", **aside, "y": 7, "fontSize": 10.5, "color": SOFT},
                "encoding": {"x": quantitative("size", **quiet), "text": {"field": "label"}},
            },
            {
                "data": {"values": closed},
                "mark": {"type": "line", "strokeDash": [6, 4], "color": FAINT, "strokeWidth": 2},
                "encoding": {"x": quantitative("size", **quiet), "y": quantitative("gain", **gain)},
            },
            {
                "data": {"values": closed[:1] if len(first) == 1 else []},
                "mark": {"type": "point", "shape": "diamond", "filled": True, "size": 90, "opacity": 1, "color": FAINT},
                "encoding": {"x": quantitative("size", **quiet), "y": quantitative("gain", **gain)},
            },
            {
                "data": {"values": line},
                "mark": {"type": "line", "strokeWidth": 2},
                "encoding": {
                    "x": quantitative("size", **quiet), "y": quantitative("gain", **gain), "color": own_colour(),
                    "detail": {"field": "shape", "type": "nominal"},
                },
            },
            {
                "data": {"values": rows},
                "mark": {"type": "point", "filled": True, "size": 42, "opacity": 1, "stroke": "white", "strokeWidth": 0.8, "aria": True},
                "encoding": {
                    "x": quantitative("size", **quiet), "y": quantitative("gain", **gain), "fill": own_colour(),
                    "description": {"field": "tip"},
                },
            },
        ],
    }  # fmt: skip
    spec: Spec = {"vconcat": [main, _where(first, bottom)], "spacing": 10, "padding": 6}
    data = [c.as_dict() for some in classes.values() for c in some]
    legend = (*((f"{n} rank{'s' * (n > 1)} a node", shade[n]) for n in classes), ("closed form, a message alone", FAINT))
    alt = "Gain of GPUDirect by message size. " + " ".join(f"{r['tip']}." for r in rows[:60])
    return Figure("messages-by-size", _size_title(study, between), alt, spec, data, _size_caption(study, between), legend=legend)


def _domain(classes: list[SizeClass]) -> tuple[float, float]:
    """Return the ends of the axis of sizes, at least two decades apart."""
    low, high = min(c.low_bytes for c in classes) / 1.3, max(c.low_bytes for c in classes) * 2.6
    more = math.sqrt(max(100.0 * low / high, 1.0))
    return low / more, high * more


def _line(classes: list[SizeClass], which: str) -> Rows:
    """Return gains over the size, with times between two sizes interpolated linearly as for the crossover."""
    size = np.array([c.size_bytes for c in classes])
    fine = np.unique(np.concatenate([size, np.geomspace(size[0], size[-1], 12 * len(size))]))
    host, direct = (np.interp(fine, size, [getattr(c, f"{p}{which}_seconds") for c in classes]) for p in BOTH)
    return [{"size": float(n), "gain": float(g)} for n, g in zip(fine, host / direct - 1.0, strict=True)]


def _where(first: list[SizeClass], bottom: Spec) -> Spec:
    """Draw the shares of the messages and of the bytes by size, on the first shape."""
    count, size = sum(c.count for c in first), sum(c.count * c.size_bytes for c in first)
    rows: Rows = []
    for c in first:
        for shift, share, colour in ((0.84, c.count / count, FAINT), (1.01, c.count * c.size_bytes / size, "#35978f")):
            left = c.size_bytes * shift
            rows.append({"a": left, "b": left * 1.18, "share": share, "none": 0, "colour": colour})
    y: Spec = {"axis": {"title": "share", "format": "%", "minExtent": 48, "tickCount": 3}, "scale": {"nice": True}}
    return {
        "width": FULL - 90,
        "height": 70,
        "data": {"values": rows},
        "mark": {"type": "rect"},
        "encoding": {
            "x": quantitative("a", **bottom),
            "x2": {"field": "b"},
            "y": quantitative("none", **y),
            "y2": {"field": "share"},
            "color": own_colour(),
        },
    }


def _powers(low: float, high: float) -> list[float]:
    exponents = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    return [10.0**k for k in exponents] or [low, high]


def _edges(study: GpuDirectStudy, low: float, high: float) -> Rows:
    closed = break_even_bytes(study.answered.setup.paid)
    return [{"size": closed, "label": f"closed form {number(closed, 'B')}"}] if low < closed < high else []


def _size_title(study: GpuDirectStudy, between: bool) -> str:
    titles = {n: _finding(study.classes(n, between=between), between) for n in study.answered.shapes if study.classes(n, between=between)}
    first = next(iter(titles))
    return titles[first] if len(set(titles.values())) == 1 else f"{titles[first]} ({first} rank{'s' * (first > 1)} a node)"


def _finding(classes: list[SizeClass], between: bool) -> str:
    edge = crossover(classes)
    where = "between nodes" if between else "inside a node"
    if edge.size_bytes == 0:
        return f"Messages {where} are faster by GPUDirect at every size of this run"
    if math.isinf(edge.size_bytes):
        which = "the longest" if any(c.speedup > 0 for c in classes) else "every size"
        return f"Messages {where} are slower by GPUDirect at {which} of this run"
    if edge.above_bytes > FAR * edge.below_bytes:
        longer, shorter = number(edge.above_bytes, "B"), number(edge.below_bytes, "B")
        return f"GPUDirect carries messages of {longer} {where} faster, those of {shorter} slower"
    return f"GPUDirect carries messages {where} faster from {number(edge.size_bytes, 'B')} on"


def _size_caption(study: GpuDirectStudy, between: bool) -> str:
    edges = []
    for n in study.answered.shapes:
        edge = study.crossover(n, between=between)
        if edge is not None and 0 < edge.size_bytes < math.inf:
            edges.append(f"{number(edge.size_bytes, 'B')} at {n} a node")
    crossed = f"Crossover in the replay, times between two sizes on a straight line: {', '.join(edges)}. " if edges else ""
    return (
        "Mean time of a message of each size by itself: its copies, its pinning and its share of the links, not what its sender copies "
        f"before it, nor waiting for its partner; sizes in classes of a factor of two. {crossed}"
        "Below: shares of the messages (grey) and of the bytes (green)."
    )


# --- node shapes ------------------------------------------------------------------------------------------------------


def node_shapes(study: GpuDirectStudy) -> Figure:
    """Draw the run time by path and node shape, split along its chain, and beside it the same without compute."""
    bars, heads = _bars(study)
    longest = max((b["b"] for b in bars), default=1.0)
    rest = max((b["b_rest"] for b in bars), default=1.0) or 1.0
    spec: Spec = {
        "hconcat": [_split(bars, heads, "", longest, 330, "run time"), _split(bars, [], "_rest", rest, 230, "without compute")],
        "spacing": 26,
        "padding": 6,
    }
    data = [{"per": c.per, "card_bandwidth": c.card_bandwidth, **c.row.__dict__} for c in study.cases]
    alt = "Run times by node shape and data path. " + " ".join(f"{h['tip']}." for h in heads)
    caption = (
        "What each run time is made of, followed back from its end: the parts add up to it. Compute holds what ranks do between their "
        "calls and calls that no message explains, such as MPI_Init."
    )
    return Figure(
        "messages-node-shapes", _shape_title(study), alt, spec, data, caption, legend=tuple((w, c) for w, c in CHAIN.values())
    )  # fmt: skip


def _per(study: GpuDirectStudy, per: Per) -> str:
    """Return the bandwidth of the network in words."""
    return f"{number(study.case(study.at, BOTH[0]).card_bandwidth, 'B/s')} a {'GPU' if per == 'gpu' else 'node'}"


def _bars(study: GpuDirectStudy) -> tuple[Rows, Rows]:
    """Return a bar per part of the run time, and the labels of the rows."""
    bars: Rows = []
    heads: Rows = []
    y = 0.0
    for n in study.answered.shapes:
        top = y
        kinds = [k for k in study.pers if any((c.row.ranks_per_node, c.per) == (n, k) for c in study.cases)]
        for kind in kinds:
            for path in BOTH:
                row = study.case(n, path, kind).row
                bandwidth_words = f", {_per(study, kind)}" if len(kinds) > 1 else ""
                tip = f"{n} a node{bandwidth_words}, {PATH_WORDS[path]}: {seconds(row.seconds) if not row.stuck else 'gets stuck'}"
                first = kind == kinds[0] and path == BOTH[0]
                shape = f"{n} rank{'s' * (n > 1)} a node" if first else ""
                heads.append({"y": y + 8, "name": PATH_WORDS[path] + bandwidth_words, "shape": shape, "top": top - 4, "tip": tip})
                left = left_rest = 0.0
                for part, (_, colour) in CHAIN.items():
                    value = getattr(row, f"chain_{part}_seconds")
                    value = 0.0 if math.isnan(value) else value
                    more = 0.0 if part == "compute" else value
                    bars.append({"y": y, "y2": y + 15, "a": left, "b": left + value, "a_rest": left_rest, "b_rest": left_rest + more,
                                 "colour": colour, "tip": tip})  # fmt: skip
                    left, left_rest = left + value, left_rest + more
                y += 18
        y += 10
    return bars, heads


def _split(bars: Rows, heads: Rows, which: str, longest: float, width: int, title: str) -> Spec:
    height = max((b["y2"] for b in bars), default=20.0) + 4
    return stacked_bars([{**b, "a": b[f"a{which}"], "b": b[f"b{which}"]} for b in bars], heads, longest, width, height, title)


def _shape_title(study: GpuDirectStudy) -> str:
    rows = [study.case(study.at, path).row for path in BOTH]
    if any(r.stuck for r in rows):
        return "By one of the two paths this run gets stuck"
    share = "" if math.isnan(study.copies_share) else f"Copies are {share_words(study.copies_share)} of the run time; "
    change = rows[1].seconds / rows[0].seconds - 1.0
    effect = "leaves it as it is" if abs(change) < 5e-4 else f"makes it {percent(abs(change))} {'shorter' if change < 0 else 'longer'}"
    each = f"{study.at} rank{'s' * (study.at > 1)} a node"
    return (f"{share}GPUDirect {effect}" if share else f"GPUDirect {effect}") + f" ({each})"


# --- cards ------------------------------------------------------------------------------------------------------------


def cards(study: GpuDirectStudy) -> Figure:
    """Draw the share of the time in which a node communicates that its busiest NIC is busy, by ranks per node."""
    rows: Rows = []
    for kind in study.pers:
        for path in BOTH:
            for n in study.answered.shapes:
                case = study.case(n, path, kind)
                if case.links is None or case.row.nodes < 2:
                    continue
                share = float(case.links.in_communication.max())
                tip = f"{n} a node, {_per(study, kind)}, {PATH_WORDS[path]}: {percent(share)}"
                rows.append({"n": str(n), "share": share, "colour": COLOURS[path], "kind": kind, "path": path, "tip": tip})
    order = [str(n) for n in study.answered.shapes if any(r["n"] == str(n) for r in rows)]
    x: Spec = {
        "field": "n",
        "type": "ordinal",
        "scale": {"domain": order, "padding": 0.4},
        "axis": {"title": "ranks (GPUs) a node", "labelAngle": 0},
    }
    top = max(1.0, *(r["share"] for r in rows))
    scale: Spec = {"domain": [0, top * 1.02], "nice": False}
    y: Spec = {"axis": {"title": "share of the time in which the node communicates", "format": "%", "tickCount": 6}, "scale": scale}
    full = [{"share": FULL_CARD, "label": f"full: {percent(FULL_CARD)}"}]
    kinds = {k: [6, 4] if k == "gpu" else [1, 0] for k in study.pers}
    lines: list[Spec] = [
        {
            "data": {"values": [r for r in rows if (r["kind"], r["path"]) == (kind, path)]},
            "mark": {"type": "line", "strokeWidth": 2.2, "strokeDash": dash, "color": COLOURS[path]},
            "encoding": {"x": x, "y": quantitative("share", **y)},
        }
        for kind, dash in kinds.items() for path in BOTH
    ]  # fmt: skip
    spec = layer(
        {
            "data": {"values": full},
            "mark": {"type": "rule", "color": INK, "strokeDash": [2, 3]},
            "encoding": {"y": quantitative("share", **y)},
        },
        {
            "data": {"values": full},
            "mark": {"type": "text", "align": "left", "x": 4, "dy": -7, "fontSize": 10.5, "color": SOFT},
            "encoding": {"y": quantitative("share", **y), "text": {"field": "label"}},
        },
        *lines,
        {
            "data": {"values": rows},
            "mark": {"type": "point", "filled": True, "size": 48, "opacity": 1, "stroke": "white", "strokeWidth": 0.8, "aria": True},
            "encoding": {"x": x, "y": quantitative("share", **y), "fill": own_colour(), "description": {"field": "tip"}},
        },
        width=520, height=250, left=64, right=12, top=10, bottom=46,
    )  # fmt: skip
    data = [{"ranks_per_node": int(r["n"]), "per": r["kind"], "path": r["path"], "busy_share": r["share"]} for r in rows]
    dashed = f" Solid: {_per(study, 'node')}; dashed: {_per(study, 'gpu')}." if len(study.pers) > 1 else ""
    caption = (
        "Of the busiest card of the run: bytes one way over its bandwidth, over the time in which a rank of its node does not compute or "
        "a message from or to the node is on its way." + dashed
    )
    alt = "Busy cards. " + " ".join(f"{r['tip']}." for r in rows)
    legend = tuple((PATH_WORDS[p], COLOURS[p]) for p in BOTH)
    return Figure("messages-cards", _cards_title(study), alt, spec, data, caption, legend=legend)


def _cards_title(study: GpuDirectStudy) -> str:
    seen = [s for s in study.saturations() if s.per == "node"]
    full = [s for s in seen if s.ranks_per_node is not None]
    if not full:
        top = max(seen, key=lambda s: s.largest)
        return f"No network card is full: at most {percent(top.largest)} of the time in which its node communicates"
    conditions = " and ".join(f"from {s.ranks_per_node} a node by {PATH_WORDS[s.path]}" for s in full)
    return f"Network cards are full {conditions}"
