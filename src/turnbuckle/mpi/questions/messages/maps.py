"""Maps of the GPUDirect study: how busy links are, kind by node, and bytes from rank to rank (Fig
49 of the ECP report).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Int
from turnbuckle.mpi.questions.gpudirect.question import BOTH, Case, GpuDirectStudy, downsampled
from turnbuckle.mpi.questions.messages.link_use import LinkUse, link_words
from turnbuckle.show.figures import marks
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import FULL, INK, blended
from turnbuckle.show.figures.marks import Rows, Spec, beside, of, plot, quantity
from turnbuckle.show.text import NARROW, number, percent

#: Data paths in words.
PATH_WORDS: Final = {"hostcopy": "host copies", "gpudirect": "GPUDirect"}
#: From nothing to the most there is.
_HEAT: Final = (
    "#f4f7fb",
    "#deebf7",
    "#c6dbef",
    "#9ecae1",
    "#6baed6",
    "#4292c6",
    "#2171b5",
    "#08519c",
    "#08306b",
)
#: Nodes drawn beside each other; more are put together.
_MOST_NODES: Final = 48
#: Ranks, or groups of them, along each side of the traffic matrix as it is drawn.
_MOST_RANKS: Final = 256


def links(study: GpuDirectStudy) -> Figure:
    """Draw the share of the run time in which links were busy: kinds of links by nodes, one panel
    for each path.
    """
    cases = [c for path in BOTH if (c := study.case(study.best_shape, path)).links is not None]
    used = [c.links for c in cases if c.links is not None]
    kinds = list(
        dict.fromkeys(
            k
            for u in used
            for k, row in zip(u.classes, u.busy, strict=True)
            if row.any() or k.startswith("card")
        )
    )
    top = max(float(u.busy.max(initial=0.0)) for u in used) or 1.0
    width = (FULL - 170) / len(cases)
    panels = [
        _heat(c, u, kinds, top, width, first=k == 0)
        for k, (c, u) in enumerate(zip(cases, used, strict=True))
    ]
    spec = beside(panels, 18, padding=6)
    rows_of = [
        (c.row.path, kind, row)
        for c, u in zip(cases, used, strict=True)
        for kind, row in zip(u.classes, u.busy, strict=True)
    ]
    table = [
        {"path": path, "link": kind, "node": n, "busy_share": float(v)}
        for path, kind, row in rows_of
        for n, v in enumerate(row)
    ]
    case = max(cases, key=lambda c: c.row.busiest_share)
    busy = f"busy for {share_words(case.row.busiest_share)} of the run time"
    title = (
        f"The busiest link is {link_words(case.row.busiest)}: {busy} by {PATH_WORDS[case.row.path]}"
    )
    each = f"{study.best_shape} rank{'s' * (study.best_shape > 1)} per node"
    alt = "Busy links. " + " ".join(
        (
            f"{PATH_WORDS[c.row.path]}: {link_words(c.row.busiest) or 'none'}, "
            f"{share_words(c.row.busiest_share)} of the run time."
        )
        for c in cases
    )
    caption = (
        "Time in which a link is busy, its bytes over its bandwidth, as a share of the run time; "
        "of links of one kind the busiest of each "
        f"node; {each}"
        + (
            f"; columns are {_together(cases[0].row.nodes)} nodes each"
            if cases[0].row.nodes > _MOST_NODES
            else ""
        )
        + ". "
        + " ".join(
            f"Between switches by {PATH_WORDS[c.row.path]}: at most {share_words(u.between[1])}."
            for c, u in zip(cases, used, strict=True)
            if u.between[0]
        )
    )
    shades = tuple(
        (share_words(top * k / 4) if k else "idle", _heat_colour(k / 4)) for k in range(5)
    )
    return Figure("messages-links", title, alt, spec, table, caption, legend=shades)


def share_words(share: float) -> str:
    """Return a share with two digits, however small.

    >>> share_words(0.000156), share_words(0.42), share_words(0.0)
    ('0.016\\xa0%', '42\\xa0%', '0')
    """
    return (
        "0" if share == 0 else percent(share, 2) if share >= 0.01 else f"{100 * share:.2g}{NARROW}%"
    )


def _together(nodes: int) -> int:
    return -(-nodes // _MOST_NODES)


def _heat(
    case: Case, used: LinkUse, kinds: list[str], top: float, width: float, *, first: bool
) -> Spec:
    nodes = used.busy.shape[1]
    each = _together(nodes)
    rows: Rows = []
    for kind, row in zip(used.classes, used.busy, strict=True):
        if kind not in kinds:
            continue
        for k in range(0, nodes, each):
            share = float(row[k : k + each].max())
            name = f"{k}" if each == 1 else f"{k} to {min(k + each, nodes) - 1}"
            place = {"a": k, "b": min(k + each, nodes), "middle": k + min(each, nodes - k) / 2}
            colours = {
                "colour": _heat_colour(share / top),
                "ink": "white" if share > 0.55 * top else INK,
                "label": share_words(share),
            }
            tip = (
                f"node {name}, {link_words(kind)}: {share_words(share)} by "
                f"{PATH_WORDS[case.row.path]}"
            )
            rows.append({"kind": link_words(kind), **place, **colours, "tip": tip})
    ticks = sorted({int(t) for t in np.linspace(0, nodes - 1, min(nodes, 9)).round().tolist()})
    values = [t + 0.5 for t in ticks]
    x = quantity(
        "a",
        [0, nodes],
        title="node",
        values=values,
        labelExpr="format(datum.value - 0.5, 'd')",
        grid=False,
    )
    shown: Spec = {
        "title": None,
        "domain": False,
        "ticks": False,
        "labels": first,
        "labelColor": INK,
    }
    y: Spec = {
        "field": "kind",
        "type": "ordinal",
        "scale": {"domain": [link_words(k) for k in kinds]},
        "axis": shown,
    }
    layers = [marks.cells(None, x, y, x2="b", tip=True, stroke="white", strokeWidth=0.7)]
    if width / -(-nodes // each) >= 40:
        layers.append(marks.labels(None, of(x, "middle"), y, hue="ink", fontSize=10))
    return {
        "width": width,
        "height": 24 * len(kinds),
        "title": PATH_WORDS[case.row.path],
        "data": {"values": rows},
        "layer": layers,
    }


def _heat_colour(share: float) -> str:
    """Return the colour of a share from 0 to 1.

    >>> _heat_colour(0.0), _heat_colour(1.0)
    ('#f4f7fb', '#08306b')
    """
    return blended(share, [(k / (len(_HEAT) - 1), colour) for k, colour in enumerate(_HEAT)])


# --- from rank to rank ----------------------------------------------------------------------------


def traffic(study: GpuDirectStudy) -> Figure:
    """Draw bytes from rank to rank, one cell for each pair, and the borders of nodes."""
    assert study.matrix is not None
    matrix, each = downsampled(study.matrix, _MOST_RANKS)
    ranks = len(study.matrix)
    positive = matrix[matrix > 0]
    low, high = (
        math.floor(math.log10(max(positive.min(), 1.0))),
        math.ceil(math.log10(max(positive.max(), 10.0))),
    )
    levels = (
        np.clip(
            np.floor((np.log10(np.maximum(matrix, 1.0)) - low) / max(high - low, 1) * 8), 0, 7
        ).astype(int)
        + 1
    )
    levels[matrix <= 0] = 0
    rows: Rows = []
    for r, row in enumerate(levels.tolist()):
        # cells of one shade beside each other are one rectangle
        k = 0
        while k < len(row):
            last = k
            while last + 1 < len(row) and row[last + 1] == row[k]:
                last += 1
            if row[k]:
                ends = {
                    "a": k * each,
                    "b": min((last + 1) * each, ranks),
                    "c": r * each,
                    "d": min((r + 1) * each, ranks),
                }
                rows.append({**ends, "colour": _HEAT[row[k]]})
            k = last + 1
    side = 420
    x, y = _rank_axis("a", ranks, "to rank"), _rank_axis("c", ranks, "from rank")
    borders = _borders(study, x, y)
    spec = plot(
        [marks.cells(None, x, y, x2="b", y2="d"), *borders], side, (60, 10, 8, 48), rows, side + 70
    )
    inside = float(study.matrix[study.node[:, None] == study.node].sum()) / float(
        study.matrix.sum()
    )
    nodes = int(study.node.max()) + 1
    title = f"{percent(inside)} of the bytes stay inside nodes of {study.together} ranks"
    if nodes == 1 or study.together == 1:
        title = (
            f"{number(float(study.matrix.sum()), 'B')} between {ranks} ranks"
            + ", all inside one node" * (nodes == 1)
        )
    pairs = np.count_nonzero(study.matrix)
    partners = np.count_nonzero(study.matrix + study.matrix.T, axis=1)
    caption = (
        "Messages and collectives, these by the algorithms of the replay: "
        f"{number(float(study.matrix.sum()), 'B')} between {pairs:,} "
        f"pairs of ranks, {_count(partners)} a rank."
        + (" Lines: borders of nodes." if borders else "")
        + (f" A cell is {each} by {each} ranks." if each > 1 else "")
    )
    table = [
        {"from_rank": int(r), "to_rank": int(c), "size_bytes": float(study.matrix[r, c])}
        for r, c in np.argwhere(study.matrix > 0)[:200_000].tolist()
    ]
    levels_of = [
        (f"{number(10 ** (low + (high - low) * k / 8), 'B', 2)}", _HEAT[k + 1])
        for k in range(0, 8, 2)
    ]
    alt = f"Bytes from rank to rank. {title}. {caption}"
    legend = (("nothing", "#ffffff"), *((f"from {w}", c) for w, c in levels_of))
    return Figure("messages-traffic", title, alt, spec, table, caption, legend=legend)


def _count(partners: Int) -> str:
    low, high = int(partners.min()), int(partners.max())
    return f"{low} to {high} partners" if low < high else f"{low} partner{'s' * (low != 1)}"


def _rank_axis(field: str, ranks: int, title: str) -> Spec:
    """Return a channel of ranks, each one wide."""
    step = max(1, 2 ** math.ceil(math.log2(max(ranks / 16, 1))))
    values = [v + 0.5 for v in range(0, ranks, step)]
    return quantity(
        field,
        [0, ranks],
        title=title,
        values=values,
        labelExpr="format(datum.value - 0.5, 'd')",
        grid=False,
    )


def _borders(study: GpuDirectStudy, x: Spec, y: Spec) -> list[Spec]:
    """Draw the borders of nodes, if the ranks of a node are consecutive and the borders few
    enough.
    """
    ends = (np.flatnonzero(np.diff(study.node)) + 1).tolist()
    if len(ends) > 64 or study.together == 1:
        return []
    rows: Rows = [{"at": e} for e in ends]
    look: Spec = {"width": 0.6, "color": INK, "opacity": 0.55}
    return [marks.rules(rows, of(x, "at"), **look), marks.rules(rows, None, of(y, "at"), **look)]
