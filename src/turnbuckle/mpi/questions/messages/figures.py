"""Figures of the GPUDirect study: gain by message size, parts of run times, busy links, bytes from
rank to rank, saturated NICs.

After Figs 5 to 7 of Khetawat et al. (GPUDirect in TraceR-CODES) and Fig 49 of the ECP report.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from turnbuckle.mpi.questions.gpudirect.cost import break_even_bytes
from turnbuckle.mpi.questions.gpudirect.question import BOTH, GpuDirectStudy, Per
from turnbuckle.mpi.questions.gpudirect.question import FULL as FULL_CARD
from turnbuckle.mpi.questions.gpudirect.question import study as studied
from turnbuckle.mpi.questions.messages.maps import PATH_WORDS, links, share_words, traffic
from turnbuckle.mpi.questions.messages.question import Answered
from turnbuckle.mpi.questions.messages.times import FAR, SizeClass, crossover
from turnbuckle.show.figures import marks
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import CATEGORIES, FAINT, FULL, INK, PARTS, SOFT, shade
from turnbuckle.show.figures.marks import (
    BYTES,
    CHANGE,
    Bar,
    Rows,
    Spec,
    below,
    beside,
    quantity,
    stacked_bars,
)
from turnbuckle.show.text import number, percent, seconds, signed

#: Data paths; host copies as copies everywhere.
COLOURS: Final = {"hostcopy": PARTS["copy"], "gpudirect": "#1f4e79"}
#: Parts of a run time along its chain, in the order drawn: words and colour.
CHAIN: Final = {
    "compute": ("compute", PARTS["other"]),
    "copies": ("copies", PARTS["copy"]),
    "network": ("messages under way", CATEGORIES["mpi"]),
    "gpu": ("GPUs that ranks share", PARTS["kernel"]),
    "others": ("pinning, handshakes, overheads", "#35978f"),
}
#: Area of the point of the fewest and of the most messages [px2].
_LEAST, _MOST = 24.0, 320.0
#: Node shapes, few ranks a node to many: light to dark.
_SHADES: Final = ("#7fcdbb", "#41b6c4", "#1d91c0", "#225ea8", "#253494", "#081d58")


def figures(study: GpuDirectStudy) -> list[Figure]:
    """Return all figures that the study has."""
    out = [by_size(study)] if study.sizes else []
    out.append(node_shapes(study))
    if any(study.case(study.best_shape, path).links for path in BOTH):
        out.append(links(study))
    if study.matrix is not None and study.matrix.any():
        out.append(traffic(study))
    if study.saturations():
        out.append(cards(study))
    return out


def of_answer(answer: Answered) -> list[Figure]:
    """Return all figures of an answer, for which its study replays the run again with the times of
    messages.
    """
    return figures(studied(answer.traffic, answer.setup, ranks_per_node=answer.shapes))


# --- by message size ------------------------------------------------------------------------------


def _drawn(study: GpuDirectStudy) -> tuple[bool, dict[int, list[SizeClass]]]:
    """Return the size classes between nodes by node shape, or those inside nodes if there are none
    between nodes.
    """
    for between in (True, False):
        some = {n: c for n in study.answered.shapes if (c := study.classes(n, between=between))}
        if some:
            return between, some
    return True, {}


def by_size(study: GpuDirectStudy) -> Figure:
    """Draw the gain of GPUDirect by message size and node shape, its closed form, and the shares of
    messages and bytes by size.
    """
    between, classes = _drawn(study)
    shade_of = {
        n: _SHADES[-1] if len(classes) == 1 else shade(_SHADES, k, len(classes))
        for k, n in enumerate(classes)
    }
    most = max(c.count for some in classes.values() for c in some)
    rows: Rows = [
        {
            **{"size": c.size_bytes, "gain": c.speedup, "shape": str(n), "colour": shade_of[n]},
            "area": _LEAST + (_MOST - _LEAST) * c.count / most,
            "tip": (
                f"{number(c.size_bytes, 'B')}, {n} per node: {signed(c.speedup)}, alone "
                f"{signed(c.alone_speedup)}, {c.count:,} messages"
            ),
        }
        for n, some in classes.items()
        for c in some
    ]
    first = next(iter(classes.values()))
    closed = _line(first, "_alone")
    low, high = _domain([c for some in classes.values() for c in some])
    powers = _powers(low, high)
    x = quantity(
        "size", [low, high], log=10, labels=False, ticks=False, title=None, values=powers, grid=True
    )
    bottom = quantity(
        "a", [low, high], log=10, title="message size", values=powers, labelExpr=BYTES, grid=True
    )
    y = quantity("gain", title="gain by GPUDirect", labelExpr=CHANGE, minExtent=48, tickCount=6)
    area: Spec = {"size": {"field": "area", "type": "quantitative", "scale": None, "legend": None}}
    edges = _edges(study, low, high)
    aside: Spec = (
        {"align": "left", "dx": 4}
        if edges and edges[0]["size"] < math.sqrt(low * high)
        else {"align": "right", "dx": -4}
    )
    layers = [
        marks.rules([{"gain": 0}], None, y, color=INK),
        marks.rules(edges, x, color=SOFT, strokeDash=[2, 3]),
        marks.labels(edges, x, 7, fontSize=10.5, color=SOFT, **aside),
        marks.line(closed, x, y, color=FAINT, strokeDash=[6, 4]),
        marks.mark(
            "point",
            closed[:1] if len(first) == 1 else [],
            x,
            y,
            shape="diamond",
            filled=True,
            size=90,
            opacity=1,
            color=FAINT,
        ),
        marks.points(rows, x, y, tip=True, opacity=0.85, encode=area),
    ]
    main: Spec = {"width": FULL - 90, "height": 250, "layer": layers}
    spec = below([main, _where(first, bottom)], 10, padding=6)
    table = [c.as_dict() for some in classes.values() for c in some]
    legend = (
        *((f"{n} rank{'s' * (n > 1)} per node", shade_of[n]) for n in classes),
        ("closed form, a message alone", FAINT),
    )
    alt = "Gain of GPUDirect by message size. " + " ".join(f"{r['tip']}." for r in rows[:60])
    title, caption = _size_title(study, between), _size_caption(study, between)
    return Figure("messages-by-size", title, alt, spec, table, caption, legend=legend)


def _domain(classes: list[SizeClass]) -> tuple[float, float]:
    """Return the ends of the axis of sizes, at least two decades apart."""
    low, high = min(c.low_bytes for c in classes) / 1.3, max(c.low_bytes for c in classes) * 2.6
    more = math.sqrt(max(100.0 * low / high, 1.0))
    return low / more, high * more


def _line(classes: list[SizeClass], which: str) -> Rows:
    """Return gains of a kind of times along straight lines of time over size between the classes,
    as `crossover` interpolates.
    """
    size = np.array([c.size_bytes for c in classes])
    fine = np.unique(np.concatenate([size, np.geomspace(size[0], size[-1], 12 * len(size))]))
    host, direct = (
        np.interp(fine, size, [getattr(c, f"{p}{which}_seconds") for c in classes]) for p in BOTH
    )
    return [
        {"size": float(n), "gain": float(g)} for n, g in zip(fine, host / direct - 1.0, strict=True)
    ]


def _where(first: list[SizeClass], bottom: Spec) -> Spec:
    """Draw shares of the messages and of the bytes by size, on the first shape."""
    count, size = sum(c.count for c in first), sum(c.count * c.size_bytes for c in first)
    rows: Rows = []
    for c in first:
        for shift, share, colour in (
            (0.84, c.count / count, FAINT),
            (1.01, c.count * c.size_bytes / size, "#35978f"),
        ):
            left = c.size_bytes * shift
            rows.append({"a": left, "b": left * 1.18, "share": share, "none": 0, "colour": colour})
    y = quantity("none", scale={"nice": True}, title="share", format="%", minExtent=48, tickCount=3)
    return {"width": FULL - 90, "height": 70, **marks.cells(rows, bottom, y, x2="b", y2="share")}


def _powers(low: float, high: float) -> list[float]:
    exponents = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    return [10.0**k for k in exponents] or [low, high]


def _edges(study: GpuDirectStudy, low: float, high: float) -> Rows:
    closed = break_even_bytes(study.answered.setup.paid)
    return (
        [{"size": closed, "label": f"closed form {number(closed, 'B')}"}]
        if low < closed < high
        else []
    )


def _size_title(study: GpuDirectStudy, between: bool) -> str:
    findings = {
        n: _finding(study.classes(n, between=between), between)
        for n in study.answered.shapes
        if study.classes(n, between=between)
    }
    first = next(iter(findings))
    return (
        findings[first]
        if len(set(findings.values())) == 1
        else f"{findings[first]} ({first} rank{'s' * (first > 1)} per node)"
    )


def _finding(classes: list[SizeClass], between: bool) -> str:
    edge = crossover(classes)
    where = "between nodes" if between else "inside nodes"
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
            edges.append(f"{number(edge.size_bytes, 'B')} at {n} per node")
    crossed = (
        f"Crossover in the replay, times between two sizes on a straight line: {', '.join(edges)}. "
        if edges
        else ""
    )
    return (
        "Gain: mean time of a message by host copies over that by GPUDirect, less 1. A point is "
        "a class of sizes of a factor of two; "
        "its area is its number of messages. The time of a message is its copies, its pinning "
        "and its share of the links, not what its "
        f"sender copies before it, nor waiting for its partner. {crossed}Below: shares of the "
        "messages (grey) and of the bytes (green)."
    )


# --- node shapes ----------------------------------------------------------------------------------


def node_shapes(study: GpuDirectStudy) -> Figure:
    """Draw run time by path and node shape, split along its critical chain, and beside it the same
    without compute.
    """
    traffic = study.answered.traffic
    kept = {name: time / traffic.ranks for name, (_, time) in traffic.kept().items()}
    groups = _bars(study, sum(kept.values()))
    rest = [
        (heading, [replace(bar, parts=bar.parts[1:]) for bar in bars]) for heading, bars in groups
    ]
    spec = beside(
        [
            stacked_bars(groups, 330, "run time"),
            stacked_bars(rest, 230, "without compute", named=False),
        ],
        26,
        padding=6,
    )
    table = [
        {"per": c.per, "card_bandwidth": c.card_bandwidth, **c.row.__dict__} for c in study.cases
    ]
    alt = "Run times by node shape and data path. " + " ".join(
        f"{bar.tip}." for _, bars in groups for bar in bars
    )
    caption = (
        "What each run time is made of, followed back from its end: the parts add up to it. "
        "Compute is what ranks do between their calls."
    ) + (
        (
            f" Left out, as no message explains them: {seconds(sum(kept.values()))} per rank "
            f"in {_calls(list(kept))}."
        )
        if kept
        else ""
    )
    return Figure(
        "messages-node-shapes",
        _shape_title(study),
        alt,
        spec,
        table,
        caption,
        legend=tuple(CHAIN.values()),
    )


def _calls(names: list[str]) -> str:
    """Return the names of MPI calls, the first few."""
    words = [f"MPI_{name.capitalize()}" for name in names[:3]]
    return ", ".join(words) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _per(study: GpuDirectStudy, per: Per) -> str:
    """Return the bandwidth of the network in words."""
    return (
        f"{number(study.case(study.best_shape, BOTH[0]).card_bandwidth, 'B/s')} per "
        f"{'GPU' if per == 'gpu' else 'node'}"
    )


def _bars(study: GpuDirectStudy, kept_seconds: float) -> list[tuple[str, list[Bar]]]:
    """Return a group of bars for each node shape, with a bar for each path, compute first.

    Compute is drawn without the time that each rank spends on average in calls that are not
    simulated, as MPI_Init [s].
    """
    groups = []
    for n in study.answered.shapes:
        bars = []
        kinds = [
            k
            for k in study.pers
            if any((c.row.ranks_per_node, c.per) == (n, k) for c in study.cases)
        ]
        for kind in kinds:
            for path in BOTH:
                row = study.case(n, path, kind).row
                per = f", {_per(study, kind)}" if len(kinds) > 1 else ""
                tip = (
                    f"{n} per node{per}, {PATH_WORDS[path]}: "
                    f"{seconds(row.seconds) if not row.stuck else 'deadlock'}"
                )
                chain = [
                    (getattr(row, f"chain_{part}_seconds"), colour)
                    for part, (_, colour) in CHAIN.items()
                ]
                times = [(0.0 if math.isnan(t) else t, colour) for t, colour in chain]
                times[0] = max(times[0][0] - kept_seconds, 0.0), times[0][1]
                bars.append(Bar(PATH_WORDS[path] + per, tip, times))
        groups.append((f"{n} rank{'s' * (n > 1)} per node", bars))
    return groups


def _shape_title(study: GpuDirectStudy) -> str:
    rows = [study.case(study.best_shape, path).row for path in BOTH]
    if any(r.stuck for r in rows):
        return "By one of the two paths this run deadlocks"
    share = (
        ""
        if math.isnan(study.copies_share)
        else f"Copies are {share_words(study.copies_share)} of the run time; "
    )
    change = rows[1].seconds / rows[0].seconds - 1.0
    change_words = (
        "leaves it as it is"
        if abs(change) < 5e-4
        else f"makes it {percent(abs(change))} {'shorter' if change < 0 else 'longer'}"
    )
    each = f"{study.best_shape} rank{'s' * (study.best_shape > 1)} per node"
    return (
        f"{share}GPUDirect {change_words}" if share else f"GPUDirect {change_words}"
    ) + f" ({each})"


# --- cards ----------------------------------------------------------------------------------------


def cards(study: GpuDirectStudy) -> Figure:
    """Draw the busy time of each node's busiest NIC as a share of the node's communication time,
    over ranks per node.
    """
    rows: Rows = []
    for kind in study.pers:
        for path in BOTH:
            for n in study.answered.shapes:
                case = study.case(n, path, kind)
                if case.links is None or case.row.nodes < 2:
                    continue
                share = float(case.links.in_communication.max())
                tip = f"{n} per node, {_per(study, kind)}, {PATH_WORDS[path]}: {percent(share)}"
                rows.append(
                    {
                        "n": str(n),
                        "share": share,
                        "colour": COLOURS[path],
                        "kind": kind,
                        "path": path,
                        "tip": tip,
                    }
                )
    spec = beside(
        [_busy(study, kind, rows, first=k == 0) for k, kind in enumerate(study.pers)], 22, padding=6
    )
    table = [
        {
            "ranks_per_node": int(r["n"]),
            "per": r["kind"],
            "path": r["path"],
            "busy_share": r["share"],
        }
        for r in rows
    ]
    caption = (
        "The busiest NIC of the run: bytes in one direction over its bandwidth, over the time in "
        "which a rank of its node does not compute "
        "or a message from or to the node is under way. A NIC counts as saturated above "
        f"{percent(FULL_CARD)}."
    )
    alt = "Busy NICs. " + " ".join(f"{r['tip']}." for r in rows)
    legend = tuple((PATH_WORDS[p], COLOURS[p]) for p in BOTH)
    return Figure("messages-cards", _cards_title(study), alt, spec, table, caption, legend=legend)


def _busy(study: GpuDirectStudy, kind: Per, every: Rows, *, first: bool) -> Spec:
    """Return the panel of NICs of one bandwidth."""
    order = [str(n) for n in study.answered.shapes if any(r["n"] == str(n) for r in every)]
    rows = [r for r in every if r["kind"] == kind]
    title = {"title": "ranks (GPUs) per node", "labelAngle": 0}
    x: Spec = {
        "field": "n",
        "type": "ordinal",
        "scale": {"domain": order, "padding": 0.4},
        "axis": title,
    }
    top = max(1.0, *(r["share"] for r in every))
    axis: Spec = {
        "title": "busy, share of communication" if first else None,
        "format": "%",
        "tickCount": 6,
        "grid": True,
        "labels": first,
    }
    y = quantity("share", [0, top * 1.02], **axis)
    layers = [
        marks.rules(
            [{"share": FULL_CARD, "label": "saturated"}], None, y, color=INK, strokeDash=[2, 3]
        )
    ]
    layers.append(
        marks.labels(
            [{"share": FULL_CARD, "label": "saturated"}],
            4,
            y,
            align="left",
            dy=-7,
            fontSize=10.5,
            color=SOFT,
        )
    )
    layers += [
        marks.line([r for r in rows if r["path"] == path], x, y, 2.2, color=COLOURS[path])
        for path in BOTH
    ]
    layers.append(marks.points(rows, x, y, 48, tip=True))
    return {
        "width": (FULL - 120) // 2,
        "height": 230,
        "title": f"NICs of {_per(study, kind)}",
        "layer": layers,
    }


def _cards_title(study: GpuDirectStudy) -> str:
    seen = [s for s in study.saturations() if s.per == "node"]
    full = [s for s in seen if s.ranks_per_node is not None]
    if not full:
        top = max(seen, key=lambda s: s.largest)
        return (
            f"No NIC is saturated: busy for at most {percent(top.largest)} of its node's "
            "communication time"
        )
    crossings = " and ".join(
        f"from {n} rank{'s' * (n > 1)} per node by {PATH_WORDS[s.path]}"
        for s in full
        if (n := s.ranks_per_node)
    )
    return f"NICs are saturated {crossings}"
