"""Figures of a pool: the fewest GPUs by reach, and what becomes of all GPUs."""

from __future__ import annotations

from typing import Final

from turnbuckle.questions.pool.question import Cluster, Pool
from turnbuckle.show.figures import marks
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import ADDED, FULL, INK, RECORDED, RULE, SOFT, colours
from turnbuckle.show.figures.marks import Rows, of, plot, quantity, row_axis, stack
from turnbuckle.show.text import clean, folded, percent, signed

#: Room for names left of a figure, and for numbers right of it [px].
_NAMES: Final = 190
_NUMBERS: Final = 190
_LEGEND: Final = (("in use", "#1f4e79"), ("stranded", ADDED), ("free, and no job waits", RULE))


def figures(answer: Pool) -> list[Figure]:
    """Return the figures of a pool: the fewest GPUs, where they were looked for, and the use of
    all.
    """
    return [figure for figure in (fewest_figure(answer), use_figure(answer)) if figure is not None]


def _name(cluster: Cluster) -> str:
    return "fixed nodes" if cluster.machine == "fixed" else clean(cluster.title)


def _pools(cluster: Cluster) -> str:
    many = "s" * (cluster.pools != 1)
    return (
        f"{cluster.hosts:,} nodes"
        if cluster.machine == "fixed"
        else f"{cluster.pools:,} pool{many} of {cluster.reach:,} hosts"
    )


def fewest_figure(answer: Pool) -> Figure | None:
    """Draw the fewest GPUs on fixed nodes and in pools of each reach: dot and 90 % range, with the
    premium beside it.
    """
    searched = [c for c in answer.clusters if c.fewest is not None]
    if len(searched) < 2:
        return None
    hues = dict(
        zip(
            (c.machine for c in answer.clusters[1:]),
            colours([c.machine for c in answer.clusters[1:]]),
            strict=True,
        )
    )
    rows: Rows = []
    for k, c in enumerate(searched):
        assert c.fewest is not None
        gpus, premium = c.fewest.gpus, c.fewest.premium
        span = f" [{gpus.low:,.0f}, {gpus.high:,.0f}]" if gpus.low < gpus.high else ""
        words = f"{c.fewest.hosts.value:,.0f} hosts" + (
            "" if premium is None else f"; a GPU may cost {signed(premium.value)}"
        )
        place = {"row": k, "name": folded(_name(c), 24), "colour": hues.get(c.machine, RECORDED)}
        ends = {
            "value": gpus.value,
            "low": gpus.low,
            "high": gpus.high,
            "figures": f"{gpus.value:,.0f} GPUs{span}",
        }
        tip = f"{_name(c)}, {_pools(c)}: {gpus.value:,.0f} GPUs{span}, {words}"
        rows.append({**place, **ends, "words": words, "tip": tip})
    high = max(r["high"] for r in rows) * 1.05
    x, y = quantity("value", [0, high], title="GPUs", format=",", grid=True), row_axis(len(rows))
    load = (
        []
        if answer.resident
        else [{"value": answer.load, "label": f"in use on average: {answer.load:,.0f}"}]
    )
    layers = [
        marks.rules(load, x, color=INK, strokeDash=[4, 3]),
        marks.labels(load, x, -8, color=SOFT, fontSize=10.5),
        marks.rules(None, of(x, "low"), y, 3, x2="high", strokeCap="round"),
        marks.points(None, x, y, 110, 1.5, tip=True),
        marks.row_names(None, y, _NAMES, fontSize=12, lineBreak="\n"),
        marks.labels(
            None,
            FULL - _NAMES - _NUMBERS + 14,
            y,
            "figures",
            align="left",
            dy=-7,
            fontSize=12,
            fontWeight="bold",
        ),
        marks.labels(
            None,
            FULL - _NAMES - _NUMBERS + 14,
            y,
            "words",
            align="left",
            dy=8,
            color=SOFT,
            limit=_NUMBERS - 16,
        ),
    ]
    kept = "the GPUs in use" if answer.resident else f"the {answer.keep} of all fixed nodes"
    return Figure(
        "pool-fewest",
        "The fewest GPUs that are enough",
        " ".join(f"{r['tip']}." for r in rows),
        plot(layers, 44 * len(rows), (_NAMES, _NUMBERS, 24, 44), rows),
        [
            {"machine": c.machine, "reach": c.reach, **c.fewest.gpus.as_dict()}
            for c in searched
            if c.fewest is not None
        ],
        f"Dot: the jobs as they are; line: 90 % of the draws. Each keeps {kept} within 1 %. What "
        "a pooled GPU may cost is against "
        "one in the fewest fixed nodes.",
    )


def use_figure(answer: Pool) -> Figure:
    """Draw what becomes of all GPUs of each cluster: in use, stranded while a job waits, free while
    none does.
    """
    rows: Rows = []
    for k, c in enumerate(answer.clusters):
        used, stranded = c.utilisation.value, c.stranded.value
        shares = (used, stranded, max(1.0 - used - stranded, 0.0))
        waits = "" if answer.resident else f"jobs wait {c.waiting.value:,.0f} s on average"
        for part in stack(
            (share, {"part": part, "colour": hue})
            for share, (part, hue) in zip(shares, _LEGEND, strict=True)
        ):
            share = part["to"] - part["from"]
            place = {
                "row": k,
                "name": folded(f"{_name(c)}", 24),
                "pools": _pools(c),
                "share": share,
                "waits": waits,
            }
            label = {
                "label": percent(share, 3) if share > 0.1 else "",
                "ink": INK if part["colour"] == RULE else "#ffffff",
            }
            rows.append(
                {**part, **place, **label, "tip": f"{_name(c)}: {percent(share)} {part['part']}"}
            )
    firsts = [r for r in rows if r["part"] == "in use"]
    x = quantity("from", [0, 1], title=f"share of {answer.fixed.gpus:,} GPUs", format="%")
    y = row_axis(len(answer.clusters), inner=0.3, outer=0.15)
    beside = FULL - _NAMES - _NUMBERS + 14
    layers = [
        marks.bars(None, x, y, x2="to", tip=True),
        marks.labels(None, of(x, "middle"), y, "label", hue="ink", fontSize=11),
        marks.row_names(firsts, y, _NAMES, fontSize=12, lineBreak="\n"),
        marks.labels(
            firsts, beside, y, "pools", align="left", dy=-7, fontSize=12, fontWeight="bold"
        ),
        marks.labels(
            firsts, beside, y, "waits", align="left", dy=8, color=SOFT, limit=_NUMBERS - 16
        ),
    ]
    return Figure(
        "pool-use",
        "What becomes of all GPUs",
        " ".join(f"{r['tip']}." for r in rows),
        plot(layers, 44 * len(answer.clusters), (_NAMES, _NUMBERS, 8, 44), rows),
        [
            {"machine": answer.clusters[r["row"]].machine, "part": r["part"], "share": r["share"]}
            for r in rows
        ],
        (
            "The same jobs on the fixed nodes and on the same hosts with their GPUs in pools. "
            "Stranded: free while a job for GPUs waits."
        ),
        legend=_LEGEND,
    )
