"""Figures of what was recorded, programs side by side: kernels, copies by size, what they reach,
the kernel window, the offload map.

After the figures of Shorts and Grant (kernel durations, Table III), of AHEAD (bandwidth over size,
Fig 1) and of Groves et al. 2022 (the radar plots of Figs 6 and 7, the map of Fig 9).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from turnbuckle.profile.summary.offload import DEFAULT_ALPHA
from turnbuckle.questions.suite.answer import Application, Suite
from turnbuckle.show.figures import marks
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import FULL, INK, RULE, SOFT, TARGET_COLOURS
from turnbuckle.show.figures.marks import (
    BYTES,
    SECONDS,
    Rows,
    Spec,
    log_ticks,
    of,
    plot,
    quantity,
    row_axis,
    stack,
)
from turnbuckle.show.figures.offload_zones import Ground, added_latency, zones_in_words
from turnbuckle.show.text import clean, count, folded, listed, number, percent, plural, shorten

_NAMES: Final = 190
_NUMBERS: Final = 170


def recorded_figures(suite: Suite) -> list[Figure]:
    """Return the figures of what was recorded."""
    draw = (kernels_figure, sizes_figure, copies_figure, window_figure, offload_figure)
    return [figure for figure in (make(suite) for make in draw) if figure is not None]


def _coloured(suite: Suite) -> list[tuple[Application, str, str]]:
    """Return each application, its name on paper and its colour: the same in all figures."""
    return [
        (a, clean(a.name), TARGET_COLOURS[k % len(TARGET_COLOURS)])
        for k, a in enumerate(suite.applications)
    ]


# --- kernels --------------------------------------------------------------------------------------


def kernels_figure(suite: Suite) -> Figure | None:
    """Draw how long the kernels of each recording run: box of the middle half, line of 90 %, dot of
    half of the kernel time.
    """
    rows: Rows = []
    for a, name, colour in _coloured(suite):
        recorded = a.recorded
        if not recorded.durations or min(recorded.durations) <= 0:
            continue
        p5, p25, p50, p75, p95 = recorded.durations
        launches = plural(recorded.launches, "launch", "launches")
        quantiles = {
            "p5": p5,
            "p25": p25,
            "p50": p50,
            "p75": p75,
            "p95": p95,
            "typical": recorded.typical,
        }
        place = {"row": len(rows), "name": folded(shorten(name, 40), 24), "colour": colour}
        median = f"median {number(p50, 's')}"
        tip = f"{name}: {launches}, {median}, 90 % {number(p5, 's')} to {number(p95, 's')}"
        rows.append({**place, **quantiles, "figures": median, "words": launches, "tip": tip})
    if not rows:
        return None
    low, high = (
        min(r["p5"] for r in rows) / 1.5,
        max(max(r["p95"], r["typical"]) for r in rows) * 1.5,
    )
    x = quantity(
        "p50",
        [low, high],
        log=10,
        title="duration of a kernel",
        labelExpr=SECONDS,
        values=log_ticks(low, high),
        grid=True,
    )
    y = row_axis(len(rows), inner=0.4, outer=0.2)
    beside = FULL - _NAMES - _NUMBERS + 14
    layers = [
        marks.rules(None, of(x, "p5"), y, 2, x2="p95"),
        marks.bars(None, of(x, "p25"), y, x2="p75", tip=True, size=18),
        # where all launches take the same time there is no box to split
        marks.mark("tick", None, x, y, thickness=5, size=18, opacity=1),
        marks.mark(
            "tick",
            None,
            x,
            y,
            color="white",
            thickness=2.5,
            size=18,
            opacity=1,
            where="datum.p75 > datum.p25 * 1.1",
        ),
        marks.points(None, of(x, "typical"), y, 70, 1.2, shape="diamond", color=INK),
        marks.row_names(None, y, _NAMES, fontSize=12, lineBreak="\n"),
        marks.labels(
            None, beside, y, "figures", align="left", dy=-7, fontSize=12, fontWeight="bold"
        ),
        marks.labels(None, beside, y, "words", align="left", dy=8, color=SOFT),
    ]
    return Figure(
        "suite-kernels",
        "How long kernels run",
        " ".join(f"{r['tip']}." for r in rows),
        plot(layers, 44 * len(rows), (_NAMES, _NUMBERS, 6, 44), rows),
        [
            {
                "application": r["name"],
                **{k: r[k] for k in ("p5", "p25", "p50", "p75", "p95", "typical")},
            }
            for r in rows
        ],
        "Box: the middle half of the launches, split at the median; line: 90 %. Diamond: half of "
        "the kernel time is in shorter kernels. "
        "Short kernels feel a longer launch.",
    )


# --- copies ---------------------------------------------------------------------------------------


def copies_figure(suite: Suite) -> Figure | None:
    """Draw what copies between host and device reach over their size, of all recordings in one plot
    a direction.
    """
    panels: list[Spec] = []
    shown: Rows = []
    rows: Rows = []
    for a, name, colour in _coloured(suite):
        for direction, memory, size, rate, n in (
            copy for copy in sorted(a.recorded.reached) if copy[0] in _DIRECTIONS
        ):
            words = clean(memory).replace("_", " ")
            row = {
                "application": a.name,
                "direction": direction,
                "memory": words,
                "size": size,
                "rate": rate,
                "count": n,
            }
            tip = (
                f"{name}, {words}: {n:,} copies of {number(size, 'B')} reach {number(rate, 'B/s')}"
            )
            rows.append({**row, "colour": colour, "series": f"{a.name} {memory}", "tip": tip})
    if not rows:
        return None
    ends = {
        k: (min(r[k] for r in rows) / 1.6, max(r[k] for r in rows) * 1.6) for k in ("size", "rate")
    }
    for direction, words in _DIRECTIONS.items():
        some = [r for r in rows if r["direction"] == direction]
        x = quantity(
            "size",
            ends["size"],
            log=10,
            title=f"size of a copy, {words}",
            labelExpr=BYTES,
            values=log_ticks(*ends["size"], 5),
        )
        y = quantity(
            "rate",
            ends["rate"],
            log=10,
            title="reached",
            labelExpr=_RATES,
            values=log_ticks(*ends["rate"]),
            grid=True,
        )
        layers = [
            marks.line(some, x, y, 1.5, series="series", opacity=0.7),
            marks.points([r for r in some if r["memory"] != "pageable"], x, y, 45, tip=True),
            marks.rings([r for r in some if r["memory"] == "pageable"], x, y, 40, 1.6, tip=True),
        ]
        panels.append({"width": 290, "height": 220, "layer": layers})
        shown += some
    return Figure(
        "suite-copies",
        "What copies reach",
        (
            f"Bandwidth of copies over their size, of {len({r['application'] for r in rows})} "
            "recordings."
        ),
        {**marks.beside(panels, 24), "padding": {"left": 8, "right": 10, "top": 6, "bottom": 4}},
        [
            {k: r[k] for k in ("application", "direction", "memory", "size", "rate", "count")}
            for r in shown
        ],
        "Median of the copies of a factor of two in size. Dots: pinned memory, rings: pageable. "
        "On the slope the fixed cost of a copy "
        "counts, on the flat part the bandwidth.",
        legend=_legend(suite, {r["application"] for r in rows}),
    )


_DIRECTIONS: Final = {"h2d": "host to device", "d2h": "device to host"}
_RATES: Final = "replace(format(datum.value, '.3~s'), regexp('([a-zA-Zµ]?)$'), ' $1') + 'B/s'"


def _legend(suite: Suite, drawn: set[str]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (shorten(name, 30), colour) for a, name, colour in _coloured(suite) if a.name in drawn
    )


#: Colours of copies by size, the smallest first: below 1 MiB in blue, above in orange.
_SIZES: Final = (
    "#deebf7",
    "#b3d0e8",
    "#7fb0d6",
    "#4b8ec2",
    "#fdd0a2",
    "#fd9f4f",
    "#e6680f",
    "#a63603",
)
_BELOW: Final = ("256 B", "4 KiB", "64 KiB", "1 MiB", "16 MiB", "256 MiB", "4 GiB")


def sizes_figure(suite: Suite) -> Figure | None:
    """Draw the copies of each recording by size: bars of their number and of their time."""
    rows: Rows = []
    heads: Rows = []
    words = [f"below {text}" for text in _BELOW] + [f"{_BELOW[-1]} or more"]
    for a, name, _ in _coloured(suite):
        bins, row = a.recorded.bins, 2 * len(heads)
        number_of, time = sum(b.count for b in bins), math.fsum(b.seconds for b in bins)
        if not number_of or not time:
            continue
        heads.append({"row": row, "name": folded(shorten(name, 40), 24)})
        for k, values in enumerate(
            ([b.count / number_of for b in bins], [b.seconds / time for b in bins])
        ):
            what = "copy time" if k else "copies"
            total = number(time, "s") if k else count(number_of)
            for part in stack((value, {"size": n}) for n, value in enumerate(values)):
                n, length = part["size"], part["to"] - part["from"]
                place = {
                    "row": row + k,
                    "application": a.name,
                    "what": what,
                    "colour": _SIZES[n],
                    "share": length,
                }
                label = {
                    "ink": "#ffffff" if n in (3, 6, 7) else INK,
                    "label": percent(length, 2) if length > 0.09 else "",
                }
                whole = (
                    f"of {total} {what}" if n == 0 and not k else f"of {total}" if n == 0 else ""
                )
                tip = f"{name}: {percent(length)} of the {what} {words[n]}"
                rows.append({**part, **place, **label, "total": whole, "tip": tip})
    if not heads:
        return None
    step = 21
    y = quantity("y", [0, step * 2 * len(heads)], scale={"reverse": True}, no_axis=True)
    for r in (*rows, *heads):
        r["y"] = step * r["row"] + (3 if r["row"] % 2 == 0 else 1)
        r["y2"], r["centre"] = r["y"] + step - 4, r["y"] + (step - 4) / 2
    ticks: Spec = {"values": [0, 0.25, 0.5, 0.75, 1], "labelExpr": "datum.value * 100 + ' %'"}
    x = quantity("from", [0, 1], title="share of the copies between host and device", **ticks)
    beside = FULL - _NAMES - _NUMBERS + 12
    layers = [
        marks.cells(
            [r for r in rows if r["share"] > 0],
            x,
            y,
            x2="to",
            y2="y2",
            tip=True,
            stroke="white",
            strokeWidth=0.7,
        ),
        marks.labels(
            [r for r in rows if r["label"]],
            of(x, "middle"),
            of(y, "centre"),
            hue="ink",
            fontSize=10.5,
            baseline="middle",
        ),
        marks.labels(
            [r for r in rows if r["total"]],
            beside,
            of(y, "centre"),
            "total",
            align="left",
            baseline="middle",
            color=SOFT,
        ),
        marks.row_names(heads, of(y, "y2"), _NAMES, fontSize=12, lineBreak="\n", baseline="middle"),
    ]
    used = {r["size"] for r in rows if r["share"] > 0}
    main = [
        max((r for r in rows if r["row"] == k), key=lambda r: r["share"])["tip"]
        for k in range(2 * len(heads))
    ]
    return Figure(
        "suite-sizes",
        "How large copies are",
        " ".join(f"{tip}." for tip in main),
        plot(layers, step * 2 * len(heads), (_NAMES, _NUMBERS, 4, 44)),
        [
            {
                "application": a.name,
                "from_bytes": b.from_bytes,
                "below_bytes": b.below_bytes,
                "count": b.count,
                "seconds": b.seconds,
            }
            for a in suite.applications
            for b in a.recorded.bins
        ],
        "Above: share of the number of copies; below: share of their time. Where the time is in "
        "large copies a program feels the "
        "bandwidth, where it is in small ones the fixed cost of a copy.",
        legend=tuple((word, _SIZES[n]) for n, word in enumerate(words) if n in used),
    )


# --- the kernel window ----------------------------------------------------------------------------

#: Spokes of the profile, clockwise from the top, and their words.
_SPOKES: Final = {
    "kernels": "kernels",
    "one_core": "one core",
    "several_cores": "several cores",
    "link": "copies over\nthe link",
    "peer": "copies between\ndevices",
    "launches": "launches",
}
#: Recordings that a panel overlays: as many as the paper has sizes of one program.
_MOST: Final = 4
#: Outer ring of a panel, room above it for title and words, and below it [px].
_RADIUS: Final = 92
_ABOVE: Final = 52
_BELOW_IT: Final = 40


def panels(suite: Suite) -> list[tuple[str, list[Application]]]:
    """Return what is overlaid: the recordings of each group, then those without one, at most four a
    panel.
    """
    out = []
    spokes = _spokes(suite.applications)
    for group in [*dict.fromkeys(a.group for a in suite.applications if a.group), ""]:
        some = [
            a
            for a in suite.applications
            if a.group == group and len([s for s in spokes if _share(a, s) is not None]) > 2
        ]
        few = math.ceil(len(some) / max(math.ceil(len(some) / _MOST), 1))
        out += [(clean(group), some[k : k + few]) for k in range(0, len(some), max(few, 1))]
    return out


def _share(a: Application, spoke: str) -> float | None:
    share: float | None = getattr(a.recorded.window, spoke, None)
    return share


def _spokes(some: Sequence[Application]) -> list[str]:
    """Return the spokes that any of the recordings has; copies between devices only where one makes
    any.
    """
    return [
        s
        for s in _SPOKES
        if any(_share(a, s) if s == "peer" else _share(a, s) is not None for a in some)
    ]


def window_figure(suite: Suite) -> Figure | None:
    """Draw the shares of the kernel window as a radar plot, recordings of one group over each other
    (Groves et al. 2022, Figs 6 and 7).
    """
    drawn = panels(suite)
    shown = [a for _, some in drawn for a in some]
    if not shown:
        return None
    spokes = _spokes(shown)
    most = max(_share(a, s) or 0.0 for a in shown for s in spokes)
    outer = next((ring for ring in (0.1, 0.2, 0.5) if most <= ring), 1.0)
    names = {a.name: (name, colour) for a, name, colour in _coloured(suite)}
    each = [[s for s in spokes if s == "peer" or s in _spokes(some)] for _, some in drawn]
    # three spokes reach less far down than four or more
    deep = max(-math.cos(2 * math.pi * k / len(few)) for few in each for k in range(len(few)))
    columns, tall = min(len(drawn), 2), round(_ABOVE + _RADIUS * (1 + deep) + _BELOW_IT)
    layers: list[Spec] = []
    for k, ((group, some), few) in enumerate(zip(drawn, each, strict=True)):
        centre = (FULL / columns * (k % columns + 0.5), tall * (k // columns) + _RADIUS + _ABOVE)
        layers += _radar(group, some, few, names, outer, centre)
    words = {s: text.replace("\n", " ") for s, text in _SPOKES.items()}
    shares = [
        ", ".join(f"{words[s]} {percent(_share(a, s))}" for s in spokes if _share(a, s) is not None)
        for a in shown
    ]
    unseen = [names[a.name][0] for a in shown if _share(a, "one_core") is None]
    caption = (
        "Shares of the kernel window, from the first kernel's start to the last kernel's end, in "
        "which each part works. Parts that work at "
        "the same time count each, so that shares may add up to more than 100 %. The link: "
        "between host and device."
    )
    if unseen:
        caption += (
            " No recording has a record of cores."
            if len(unseen) == len(shown)
            else f" No record of cores: {listed(unseen)}."
        )
    if any(
        _share(a, s) is None
        for (_, some), few in zip(drawn, each, strict=True)
        for a in some
        for s in few
    ):
        caption += " Lines go to the centre where a share is not recorded."
    if "peer" not in spokes:
        caption += " No recording shows copies between devices."
    return Figure(
        "suite-window",
        "What works during the kernel window",
        " ".join(f"{names[a.name][0]}: {text}." for a, text in zip(shown, shares, strict=True)),
        plot(layers, tall * math.ceil(len(drawn) / columns), (0, 0, 0, 0)),
        [
            {"application": a.name, "group": a.group, **{s: _share(a, s) for s in _SPOKES}}
            for a in shown
        ],
        caption,
        legend=_legend(suite, {a.name for a in shown}),
    )


def _radar(
    group: str,
    some: Sequence[Application],
    spokes: list[str],
    names: dict[str, tuple[str, str]],
    outer: float,
    centre: tuple[float, float],
) -> list[Spec]:
    """Return the layers of one panel around a place in pixels; the outer ring is the share
    `outer`.
    """
    turns = [2 * math.pi * k / len(spokes) for k in range(len(spokes))]

    def place(k: int, share: float, beyond: float = 0.0) -> dict[str, float]:
        reach, turn = _RADIUS * share / outer + beyond, turns[k % len(spokes)]
        return {"x": centre[0] + reach * math.sin(turn), "y": centre[1] - reach * math.cos(turn)}

    around = range(len(spokes) + 1)
    levels = [outer * k / 4 for k in range(1, 5)]
    rings: Rows = [{**place(k, level), "i": k, "ring": level} for level in levels for k in around]
    arms: Rows = [
        {**place(k, 0.0), "x2": end["x"], "y2": end["y"]}
        for k in around[:-1]
        for end in (place(k, outer),)
    ]
    values: Rows = [{**place(0, level), "label": percent(level, 2)} for level in levels[1::2]]
    outline: Rows = []
    dots: Rows = []
    for a in some:
        name, colour = names[a.name]
        for k in around:
            spoke = spokes[k % len(spokes)]
            share = _share(a, spoke)
            row = {**place(k, share or 0.0), "i": k, "series": name, "colour": colour}
            outline.append(row)
            if share is not None and k < len(spokes):
                dots.append(
                    {**row, "tip": f"{name}: {_SPOKES[spoke]} {percent(share)}".replace("\n", " ")}
                )
    x, y = (
        {"field": field, "type": "quantitative", "scale": None, "axis": None}
        for field in ("x", "y")
    )
    filled: Spec = {"filled": True, "fillOpacity": 0.08, "strokeWidth": 0}
    together = listed([names[a.name][0] for a in some])
    title = (
        shorten(group, 50)
        if group
        else together
        if len(together) <= 50
        else plural(len(some), "recording")
    )
    return [
        marks.words(title, centre[0], centre[1] - _RADIUS - 34, fontWeight="bold", fontSize=12),
        marks.path(rings, x, y, color=RULE, strokeWidth=1, series="ring"),
        marks.rules(arms, x, y, 1, x2="x2", y2="y2", color=RULE),
        marks.path(
            outline, x, y, series="series", hue="", encode={"fill": marks.stated()}, **filled
        ),
        marks.path(outline, x, y, strokeWidth=1.8, series="series"),
        marks.points(dots, x, y, 36, 0.8, tip=True),
        *marks.haloed(
            marks.labels(values, x, y, align="left", dx=4, dy=9, color=SOFT, fontSize=9.5)
        ),
        *(_spoke_words(_SPOKES[s], place(k, outer, 9.0), turns[k]) for k, s in enumerate(spokes)),
    ]


def _spoke_words(text: str, place: dict[str, float], turn: float) -> Spec:
    """Write a spoke's words outside its end."""
    across, up = math.sin(turn), math.cos(turn)
    align = "center" if abs(across) < 0.1 else "left" if across > 0 else "right"
    look = {"align": align, "baseline": "bottom" if up > 0.9 else "top" if up < -0.9 else "middle"}
    return marks.words(text, place["x"], place["y"], fontSize=11, lineBreak="\n", **look)


# --- the offload map ------------------------------------------------------------------------------


def offload_figure(suite: Suite) -> Figure | None:
    """Draw kernel time against transfer and launch time, a dot a program: does moving its kernels
    pay, does added latency matter.
    """
    rows: Rows = []
    for a, name, colour in _coloured(suite):
        o = a.recorded.offload
        if o is None or o["kernel_s"] <= 0 or o["launch_s"] + o["transfer_s"] <= 0:
            continue
        hidden = o["transfer_s"] - o["exposed_transfer_s"]
        tip = (
            f"{name}: {plural(o['count'], 'launch', 'launches')}, mean "
            f"{number(o['kernel_s'], 's')}, copies {number(o['transfer_s'], 's')} "
            f"a launch, of which {number(hidden, 's')} hidden; a mean copy each way "
            f"{number(o['each_way_s'], 's')}; pays: {o['pays']}"
        )
        times = {
            "x": o["launch_s"] + o["transfer_s"],
            "exposed": o["launch_s"] + o["exposed_transfer_s"],
            "y": o["kernel_s"],
        }
        times |= {"each_way": o["launch_s"] + o["each_way_s"], "launch_seconds": o["launch_s"]}
        rows.append(
            {
                "application": a.name,
                **times,
                "pays": o["pays"],
                "colour": colour,
                "label": shorten(name, 34),
                "tip": tip,
            }
        )
    rows = [r for r in rows if r["exposed"] > 0]
    if not rows:
        return None
    added = added_latency(p for a in suite.applications for p in a.projections)
    places = [r[k] for r in rows for k in ("x", "exposed", "each_way")]
    # the launch is on the axis: programs that were recorded on different machines have launches of
    # different length
    across = min(places) / 3, max(places) * 12
    dots = [(r[k], r["y"]) for r in rows for k in ("x", "each_way")]
    ground = Ground(
        (0.0, DEFAULT_ALPHA, added),
        across,
        dots,
        "mean time of the copies and the launch of a kernel",
        (FULL - 72, 320),
    )
    ground.thin_labels(rows, len(rows), [(r["each_way"], r["y"]) for r in rows])
    x, y = ground.x, ground.y
    layers = [
        *ground.layers,
        marks.rules(None, of(x, "exposed"), y, 1.6, x2="x"),
        marks.rings(rows, of(x, "each_way"), y, 90, 1.8),
        marks.points(None, x, y, 110, 1.2, tip=True),
        *marks.haloed(marks.labels(None, x, y, align="left", dx=11, dy=-9, fontSize=11)),
    ]
    caption = (
        "One dot a program: the mean of its kernels, over their copies and their launch. Above "
        "the black line it is faster on the device "
        f"than on a host CPU assumed to be {DEFAULT_ALPHA:g} times slower. A line to the left: "
        "the part of the copies that kernels hide. "
        "Ring: one mean copy to the device and one back instead of the copies that a launch has."
    )
    if ground.shaded:
        caption += zones_in_words(number(added, "s", 2)).replace("kernels", "programs")
    times = {
        "kernel_seconds": "y",
        "transfer_and_launch_seconds": "x",
        "exposed_seconds": "exposed",
        "each_way_seconds": "each_way",
    }
    columns = {
        "application": "application",
        **times,
        "launch_seconds": "launch_seconds",
        "pays": "pays",
    }
    return Figure(
        "suite-offload",
        "Where the programs stand on the offload map",
        " ".join(f"{r['tip']}." for r in rows),
        plot(layers, 320, (62, 10, 4, 42), rows),
        [{column: r[key] for column, key in columns.items()} for r in rows],
        caption,
        legend=_legend(suite, {r["application"] for r in rows}),
    )
