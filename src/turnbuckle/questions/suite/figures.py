"""Figures of a suite: the mix by machine, applications by targets and by part, break-even premiums,
what turns the ranking.
"""

from __future__ import annotations

import math
from typing import Final

from turnbuckle.projection.projection import PARTS
from turnbuckle.questions.suite.answer import SELF, Flip, Mix, Suite
from turnbuckle.questions.suite.recorded_figures import recorded_figures
from turnbuckle.questions.suite.tables import ratio, share, titles, turning
from turnbuckle.show.figures import marks
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import (
    FAINT,
    FULL,
    INK,
    RECORDED,
    SOFT,
    change_colour,
    change_legend,
    colours,
)
from turnbuckle.show.figures.look import PARTS as PART_COLOURS
from turnbuckle.show.figures.marks import (
    CHANGE,
    TIMES,
    Rows,
    Spec,
    log_ticks,
    of,
    plot,
    quantity,
    row_axis,
    stack,
)
from turnbuckle.show.text import (
    clean,
    factor,
    folded,
    number,
    percent,
    probability,
    shorten,
    signed,
    terms,
)

#: Room for names left of a figure, and for numbers right of it [px].
_NAMES: Final = 190
_NUMBERS: Final = 170


def figures(suite: Suite) -> list[Figure]:
    """Return the figures of a suite."""
    every = (
        mix_figure(suite),
        map_figure(suite),
        parts_figure(suite),
        premium_figure(suite),
        turn_figure(suite),
        *recorded_figures(suite),
    )
    return [figure for figure in every if figure is not None]


def _colours(suite: Suite) -> dict[str, str]:
    names = [m.target for m in suite.mixes]
    return dict(zip(names, colours(names), strict=True))


def mix_figure(suite: Suite) -> Figure:
    """Draw node-hours of the mix on each machine: dot and 90 % range, and a ring for the coupling
    alone.
    """
    named, colour = titles(suite), _colours(suite)
    asked = [m for m in suite.answered if m.target != SELF]
    rows: Rows = [
        {
            "row": k,
            "name": folded(named[m.target], 24),
            "colour": colour[m.target],
            "value": m.node_hours.value,
            "low": m.node_hours.low,
            "high": m.node_hours.high,
            "alone": m.coupling_alone.value,
            "figures": ratio(m.node_hours).text,
            "words": _words(m),
            "tip": (
                f"{named[m.target]}: {ratio(m.node_hours).text}; by the coupling alone "
                f"{ratio(m.coupling_alone).text}"
            ),
        }
        for k, m in enumerate(asked)
    ]
    low, high = (
        min([0.95, *(r["low"] for r in rows)]) * 0.96,
        max([1.05, *(r["high"] for r in rows)]) * 1.04,
    )
    x = quantity(
        "value",
        [low, high],
        log=10,
        title="node-hours for each node-hour of today",
        values=log_ticks(low, high),
        labelExpr=TIMES,
    )
    y = row_axis(len(rows))
    other = [r for r in rows if r["alone"] != r["value"]]
    layers = [
        marks.cells([{"value": low, "to": 1.0}], x, None, x2="to", color="#f1f6fb"),
        marks.rules([{"value": 1.0}], x, color=INK),
        marks.words("fewer than today", 4, -6, align="left", color=SOFT, fontSize=10),
        marks.rules(None, of(x, "low"), y, 3, x2="high", strokeCap="round"),
        marks.points(None, x, y, 110, 1.5, tip=True),
        marks.rings(other, of(x, "alone"), y, 80, 2),
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
    spec = plot(layers, 44 * len(rows), (_NAMES, _NUMBERS, 20, 44), rows)
    ring = " Ring: by the coupling alone, with GPU and host of the recordings." if other else ""
    return Figure(
        "suite-mix",
        "What the mix takes on each machine",
        "Node-hours of the mix. " + " ".join(f"{r['tip']}." for r in rows),
        spec,
        [
            {"target": m.target, **m.node_hours.as_dict(), "alone": m.coupling_alone.value}
            for m in asked
        ],
        (
            f"Machines as they are. Dot: at the stated values; line: 90 % of the draws.{ring} The "
            "axis is logarithmic."
        ),
    )


def _words(m: Mix) -> str:
    if not m.loses:
        return "no application loses"
    return (
        f"{len(m.surely)} surely lose{'s' * (len(m.surely) == 1)}"
        if m.surely
        else f"{len(m.loses)} may lose"
    )


def map_figure(suite: Suite) -> Figure:
    """Draw applications by targets, each cell in the colour of its change."""
    named = titles(suite)
    targets = [m for m in suite.mixes if m.target != SELF]
    lines = [
        (
            shorten(clean(a.name), 24),
            percent(a.share),
            [(c.penalty, c.coupling_alone) for c in a.cells],
        )
        for a in suite.applications
    ]
    lines.append(("the mix", "", [(m.node_hours, m.coupling_alone) for m in targets]))
    rows: Rows = []
    for k, (name, _, pairs) in enumerate(lines):
        below = 0.25 if name == "the mix" else 0.0
        for n, (whole, alone) in enumerate(pairs):
            change = 0.0 if math.isnan(whole.value) else whole.value - 1.0
            cell = {"row": k + below, "end": k + below + 1.0, "column": n, "right": n + 1}
            colours = {
                "colour": change_colour(change),
                "ink": "#ffffff" if change > 0.6 or change < -0.24 else INK,
            }
            label = {"label": factor(whole.value), "range": f"[{whole.low:.2f}, {whole.high:.2f}]"}
            if math.isnan(whole.value):
                label = {"label": "cannot say", "range": ""}
            tip = (
                f"{name} on {named[targets[n].target]}: {ratio(whole).text}, by the coupling "
                f"alone {ratio(alone).text}"
            )
            rows.append({**cell, **colours, **label, "tip": tip})
    width = FULL - _NAMES - 10
    x = quantity("column", [0, len(targets)], no_axis=True)
    y = quantity("row", [0, len(lines) + 0.25], scale={"reverse": True}, no_axis=True)
    step = width / len(targets)
    folds = [folded(named[m.target], max(int(step / 6.6), 6)).split("\n") for m in targets]
    heads: Rows = [
        {"place": (n + 0.5) * step, "y": -8 - 14 * (len(fold) - 1 - k), "label": text}
        for n, fold in enumerate(folds)
        for k, text in enumerate(fold)
    ]
    tall = 42
    names: Rows = [
        {"y": (k + 0.5 + (0.25 if name == "the mix" else 0)) * tall, "name": name, "part": part}
        for k, (name, part, _) in enumerate(lines)
    ]
    centres: Rows = [
        {**r, "px": (r["column"] + 0.5) * step, "py": (r["row"] + 0.5) * tall} for r in rows
    ]
    px, py = (
        quantity("px", [0, width], no_axis=True),
        quantity("py", [0, tall * (len(lines) + 0.25)], scale={"reverse": True}, no_axis=True),
    )
    heights = quantity("y", [0, tall * (len(lines) + 0.25)], scale={"reverse": True}, no_axis=True)
    layers = [
        marks.cells(rows, x, y, x2="right", y2="end", stroke="white", strokeWidth=2, tip=True),
        marks.labels(centres, px, py, "label", hue="ink", fontSize=12.5, fontWeight="bold", dy=-6),
        marks.labels(centres, px, py, "range", hue="ink", fontSize=10, dy=9),
        marks.labels(
            heads,
            quantity("place", [0, width], no_axis=True),
            heights,
            "label",
            baseline="bottom",
            fontSize=11.5,
        ),
        marks.row_names(names, heights, _NAMES, fontSize=12, dy=-6),
        marks.labels(names, -12, heights, "part", align="right", dy=9, color=SOFT, fontSize=10.5),
    ]
    resolve = {"resolve": {"scale": {"x": "independent", "y": "independent"}}}
    spec = {**plot(layers, tall * (len(lines) + 0.25), (_NAMES, 10, 40, 6)), **resolve}
    return Figure(
        "suite-map",
        "Who gains and who loses",
        "Run time against today. " + " ".join(f"{r['tip']}." for r in rows),
        spec,
        [
            {"application": a.name, "share": a.share, "target": c.target, **c.penalty.as_dict()}
            for a in suite.applications
            for c in a.cells
        ],
        (
            "Projected over recorded run time, with its 90 % range; targets with their own GPU "
            "and host. Below each name its share."
        ),
        legend=change_legend((-0.3, -0.1, 0.0, 0.05, 0.5)),
    )


def premium_figure(suite: Suite) -> Figure | None:
    """Draw what a node of each machine may cost more than one of today, and what it does cost more,
    where prices are known.
    """
    named, colour = titles(suite), _colours(suite)
    today = suite.mixes[0].price
    rows: Rows = []
    for m in suite.answered:
        if m.target == SELF:
            continue
        v = suite.pair(m.target, SELF)
        asks = None if today is None or m.price is None else m.price.value / today.value - 1.0
        words = (
            ""
            if asks is None
            else f"asks {signed(asks)}"
            + ("" if v.cheaper is None else f", pays: {probability(v.cheaper)}")
        )
        place = {"row": len(rows), "name": folded(named[m.target], 24), "colour": colour[m.target]}
        ends = {
            "value": v.premium.value,
            "low": v.premium.low,
            "high": v.premium.high,
            "alone": v.premium_by_coupling.value,
        }
        tip = f"{named[m.target]}: {share(v.premium).text} {words}"
        rows.append(
            {
                **place,
                **ends,
                "asks": asks,
                "figures": share(v.premium).text,
                "words": words,
                "tip": tip,
            }
        )
    low = min([-0.05, *(r[k] for r in rows for k in ("low", "alone", "asks") if r[k] is not None)])
    high = max([0.05, *(r[k] for r in rows for k in ("high", "alone", "asks") if r[k] is not None)])
    pad = 0.04 * (high - low)
    x = quantity(
        "value",
        [low - pad, high + pad],
        title="price of a node against one of today",
        labelExpr=CHANGE,
        tickCount=7,
    )
    y = row_axis(len(rows))
    other, asked = (
        [r for r in rows if r["alone"] != r["value"]],
        [r for r in rows if r["asks"] is not None],
    )
    beside = FULL - _NAMES - _NUMBERS + 14
    layers = [
        marks.rules([{"value": 0.0}], x, color=INK),
        marks.rules(None, of(x, "low"), y, 3, x2="high", strokeCap="round"),
        marks.points(None, x, y, 110, 1.5, tip=True),
        marks.rings(other, of(x, "alone"), y, 80, 2),
        marks.points(asked, of(x, "asks"), y, 110, 1.0, shape="diamond", color=INK),
        marks.row_names(None, y, _NAMES, fontSize=12, lineBreak="\n"),
        marks.labels(
            None, beside, y, "figures", align="left", dy=-7, fontSize=12, fontWeight="bold"
        ),
        marks.labels(None, beside, y, "words", align="left", dy=8, color=SOFT, limit=_NUMBERS - 16),
    ]
    spec = plot(layers, 44 * len(rows), (_NAMES, _NUMBERS, 12, 44), rows)
    diamond = " Diamond: what it does cost more; left of the dot it pays." if asked else ""
    return Figure(
        "suite-premium",
        "What a node may cost more than one of today",
        "Break-even premium. " + " ".join(f"{r['tip']}." for r in rows),
        spec,
        [{k: r[k] for k in ("name", "value", "low", "high", "alone", "asks")} for r in rows],
        (
            "Dot: where the work costs the same; line: 90 % of the draws; ring: by the coupling "
            f"alone.{diamond}"
        ),
    )


def nearest_turn(suite: Suite) -> Flip | None:
    """Return the change of the mix that turns the first place soonest; None where none does."""
    turns = [f for f in first_place(suite) if f.flips_at is not None]
    return min(turns, key=lambda f: abs((f.flips_at or 0.0) - f.share), default=None)


def first_place(suite: Suite) -> list[Flip]:
    """Return what the first place hangs on: by cost where every price is known, else by
    node-hours.
    """
    by = "cost" if all(m.cost for m in suite.mixes) else "node-hours"
    return [f for f in suite.flips if f.by == by]


def turn_figure(suite: Suite) -> Figure | None:
    """Draw each machine over the share of the application whose share turns the ranking soonest;
    None where none does.
    """
    turn = nearest_turn(suite)
    if turn is None or turn.flips_at is None:
        return None
    named, colour = titles(suite), _colours(suite)
    k = next(i for i, a in enumerate(suite.applications) if a.name == turn.application)
    today = suite.applications[k].share
    rows: Rows = []
    ends: Rows = []
    for m in suite.mixes:
        if m.unknown:
            continue
        price = 1.0 if turn.by == "node-hours" else m.price.value if m.price else None
        if price is None:
            continue
        whole = (
            1.0
            if m.target == SELF
            else suite.applications[k]
            .cells[[o.target for o in suite.mixes].index(m.target) - 1]
            .penalty.value
        )
        others = (m.node_hours.value - today * whole) / (1.0 - today)
        ends_of = ((0.0, others), (1.0, whole))
        rows += [
            {"share": end, "value": price * hours, "colour": colour[m.target], "series": m.target}
            for end, hours in ends_of
        ]
        ends.append(
            {
                "share": 1.0,
                "value": price * whole,
                "colour": colour[m.target],
                "name": folded(named[m.target], 24),
            }
        )
    low, high = min(r["value"] for r in rows), max(r["value"] for r in rows)
    pad = 0.06 * (high - low)
    what = (
        "node-hours for each of today"
        if turn.by == "node-hours"
        else f"{clean(suite.portfolio.currency, 12)} for the work of a node-hour of today"
    )
    name = shorten(clean(turn.application), 40)
    x, y = (
        quantity("share", [0, 1], title=f"share of {name}", format="%"),
        quantity("value", [low - pad, high + pad], title=what, grid=True),
    )
    band = [] if turn.low is None or turn.high is None else [{"share": turn.low, "to": turn.high}]
    layers = [
        *([marks.cells(band, x, None, x2="to", color="#f1f6fb")] if band else []),
        marks.rules([{"share": today}], x, color=RECORDED, strokeDash=[4, 3]),
        marks.labels([{"share": today, "label": "today"}], x, -19, color=SOFT, fontSize=10.5),
        marks.rules([{"share": turn.flips_at}], x, color=FAINT),
        marks.labels(
            [{"share": turn.flips_at, "label": f"turns at {turning(turn)}"}],
            x,
            -6,
            color=SOFT,
            fontSize=10.5,
        ),
        marks.line(rows, x, y, 2.5, series="series"),
        marks.labels(
            ends, x, y, "name", hue="colour", align="left", dx=8, lineBreak="\n", fontSize=11.5
        ),
    ]
    return Figure(
        "suite-turn",
        f"The ranking hangs on {name}",
        (
            f"{named[turn.better]} is first while {name} has {percent(today)}, as today; "
            f"{named[turn.worse]} ties at {turning(turn)}."
        ),
        plot(layers, 220, (64, 190, 37, 46)),
        rows,
        "The other applications keep their proportions. Lines: at the stated values."
        + (
            (
                " Band: the 90 % range over the draws in which a share turns it, "
                f"{probability(turn.turns)} of all."
            )
            if turn.turns
            else ""
        ),
    )


#: Multiple of the recorded run time at which bars are cut.
_CUT: Final = 3.0
#: Room for run times right of them [px].
_LENGTHS: Final = 80


def parts_figure(suite: Suite) -> Figure:
    """Draw each run by part, recorded and on every target, over its recorded run time (Groves et
    al. 2022, Fig 10).
    """
    named, words = titles(suite), terms("part of a run")
    rows: Rows = []
    heads: Rows = []
    ends: Rows = []
    shown: Rows = []
    top = 0.0
    for a in suite.applications:
        first = a.projections[0]
        runs = [("recorded", SELF, first.measured_breakdown)] + [
            (named[p.target], p.target, p.breakdown) for p in a.projections if not p.unknown
        ]
        heads.append({"y": top + 9, "name": shorten(clean(a.name), 60)})
        top += 20
        for name, target, parts in runs:
            for part in stack(
                (parts[kind] / first.measured_seconds, {"part": kind}) for kind in PARTS
            ):
                length, cut = part["to"] - part["from"], min(part["to"], _CUT)
                shown.append(
                    {"application": a.name, "target": target, "part": part["part"], "ratio": length}
                )
                if part["from"] >= _CUT or not length:
                    continue
                look = {
                    "colour": PART_COLOURS[part["part"]],
                    "ink": "#ffffff" if part["part"] in ("kernel", "launch") else INK,
                }
                tip = (
                    f"{clean(a.name)}, {name}: {words[part['part']]} {percent(length)} of the "
                    "recorded run"
                )
                middle, label = (part["from"] + cut) / 2, percent(length, 2)
                rows.append(
                    {
                        **part,
                        "to": cut,
                        "middle": middle,
                        "y": top,
                        "y2": top + 14,
                        "label": label,
                        "tip": tip,
                        **look,
                    }
                )
            total = sum(parts.values()) / first.measured_seconds
            label = number(first.measured_seconds, "s") if target == SELF else factor(total)
            ends.append(
                {"y": top + 7, "name": shorten(name, 28), "label": "→ " * (total > _CUT) + label}
            )
            top += 17
        top += 9
    longest = max(r["to"] for r in rows) if rows else 1.0
    pixel = (FULL - _NAMES - _LENGTHS) / longest
    for r in rows:
        r["label"] = r["label"] if (r["to"] - r["from"]) * pixel > 34 else ""
    x = quantity(
        "from",
        [0, longest],
        title="run time over the recorded one",
        labelExpr=TIMES,
        tickCount=6,
        grid=True,
    )
    y = quantity("y", [0, top], scale={"reverse": True}, no_axis=True)
    beside: Spec = {"align": "right", "baseline": "middle"}
    layers = [
        marks.cells(rows, x, y, x2="to", y2="y2", tip=True),
        marks.rules([{"from": 1.0}], x, color=INK, strokeDash=[3, 3], opacity=0.6),
        marks.labels(
            [{**r, "y": r["y"] + 7} for r in rows if r["label"]],
            of(x, "middle"),
            y,
            hue="ink",
            fontSize=10,
            baseline="middle",
        ),
        marks.labels(
            ends,
            FULL - _NAMES - _LENGTHS + 10,
            y,
            align="left",
            fontWeight="bold",
            baseline="middle",
        ),
        marks.labels(ends, -10, y, "name", color=SOFT, fontSize=11, limit=_NAMES - 12, **beside),
        marks.labels(
            heads, -10, y, "name", fontWeight="bold", fontSize=12, limit=_NAMES - 12, **beside
        ),
    ]
    tips = [f"{r['tip']}." for r in rows if r["label"]]
    return Figure(
        "suite-parts",
        "What each run is made of, recorded and projected",
        " ".join(tips),
        plot(layers, top, (_NAMES, _LENGTHS, 2, 44)),
        shown,
        "Time that the run waits for, by part; the parts of a bar add up to its run time. A "
        "projected bar is the recorded one plus what "
        "changes. "
        "Targets have their own GPU and host. Everything else: MPI, other calls of the GPU "
        "runtime, and work on the host."
        + (
            f" Bars are cut at {factor(_CUT, 1)}; the number says how long they are."
            if any("→" in r["label"] for r in ends)
            else ""
        ),
        legend=tuple((words[p], PART_COLOURS[p]) for p in PARTS),
    )
