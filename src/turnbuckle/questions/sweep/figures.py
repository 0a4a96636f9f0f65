"""Figures of a sweep: time over each axis, what GPUDirect gains over each, and what runs are made
of by node shape.

A figure shows one axis, or two; everything else that varies keeps its first value there, and the
caption says which.  After Figs 5 to 7 of Khetawat et al. (GPUDirect in TraceR-CODES).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from turnbuckle.foundation.settings import Scalar, unit_of
from turnbuckle.questions.sweep.question import Swept
from turnbuckle.questions.sweep.ranges import logarithmic, numeric
from turnbuckle.questions.sweep.summary import DIRECT, HOST, TALK, Gained, gained, valued, varying
from turnbuckle.show.figures import marks
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import CATEGORIES, FULL, INK, PARTS, TARGET_COLOURS, shade
from turnbuckle.show.figures.marks import (
    CHANGE,
    Bar,
    Rows,
    Spec,
    beside,
    few,
    of,
    plot,
    quantity,
    stacked_bars,
    time_unit,
)
from turnbuckle.show.text import clean, percent, shorten

#: Figures of one sweep at most: what follows is left out, and said.
MOST: Final = 24
#: Lines of one path, and values along an axis that are written below it.
_LINES, _TICKS = 5, 8
#: Light to dark, for the values of one axis.
_SHADES: Final = ("#7fcdbb", "#41b6c4", "#1d91c0", "#225ea8", "#081d58")
#: Settings as a stranger calls them.
_OF_LINK: Final = {
    "link.h2d.bandwidth": "host-to-device bandwidth",
    "link.d2h.bandwidth": "device-to-host bandwidth",
}
_OF_NETWORK: Final = {
    "card_bandwidth": "NIC bandwidth",
    "cards": "NICs per node",
    "hop_seconds": "latency per hop",
}
_ADDED: Final = dict.fromkeys(("slack_seconds", "slack.link"), "added one-way latency")
_NAMES: Final[Mapping[str, str]] = {
    **_OF_NETWORK,
    "taper": "oversubscription",
    "on": "machine",
    "runs": "runs at once",
    **_ADDED,
    **_OF_LINK,
}
#: Places of a sample that a figure draws.
_PLACES: Final = 1000
_PATH_WORDS: Final = {
    HOST: "host copies",
    DIRECT: "GPUDirect",
    "p2p": "GPU to GPU inside a node",
    "host": "buffers on the host",
}
_LEFT, _RIGHT, _TOP, _BOTTOM, _HIGH = 74, 18, 12, 52, 280
#: Axes that node shapes are named by, the first that varies.
_SHAPES: Final = ("ranks_per_node", "gpus_per_node", "network")


@dataclass(frozen=True)
class _Asked:
    """A sweep's table and the settings that vary in it.

    Attributes
    ----------
    rows : those with an answer.
    axes : varying settings with their values, in order, without the path.
    paths : values of the path that vary; one empty text where it does not.
    metric : the column that is drawn.
    """

    swept: Swept
    rows: list[dict[str, Any]]
    axes: dict[str, list[Scalar]]
    paths: list[str]
    metric: str

    @property
    def quantity(self) -> str:
        """Return what is drawn, in words."""
        return (
            "communication, mean over the ranks"
            if self.metric == TALK
            else self.swept.study.kind.best.quantity
        )

    @property
    def meaning(self) -> str:
        """Return what the quantity is, in a sentence."""
        if self.metric == TALK:
            return "Communication: all time of a rank that is not compute."
        return (
            self.swept.study.kind.best.meaning
            or f"As predicted by model {self.swept.study.kind.name}."
        )

    def shown(self, value: float) -> str:
        """Return a value of the quantity with its unit; of one without a unit in per cent."""
        return valued(value, "s") if self.unit == "s" else f"{100 * value:.3g}\N{NO-BREAK SPACE}%"

    @property
    def unit(self) -> str:
        """Return the unit of the quantity."""
        return unit_of(self.metric, {})

    def value(self, name: str, value: Any) -> str:
        """Return a value with its unit."""
        return clean(valued(value, unit_of(name, self.swept.study.kind.legal)), 40)

    def label(self, name: str, value: Scalar | None) -> str:
        """Return a value of an axis as a legend has it; a target says what it is."""
        words = self.value(name, value)
        return words if name == "on" else f"{self.title(name)} {words}"

    def colour(self, name: str | None, k: int, count: int) -> str:
        """Return the colour of a value of an axis: from light to dark where values are numbers,
        else of its own.
        """
        if name is None or not numeric(self.axes[name]):
            return TARGET_COLOURS[k % len(TARGET_COLOURS)]
        return _SHADES[3] if count == 1 else shade(_SHADES, k, count)

    def title(self, name: str) -> str:
        """Return an axis in words."""
        return _NAMES.get(name) or re.sub(r" (seconds|bytes)$", "", name.replace("_", " "))

    def fixed(self, shown: Sequence[str]) -> dict[str, Scalar]:
        """Return the first value of every axis that a figure does not show."""
        return {n: v[0] for n, v in self.axes.items() if n not in shown}

    def kept(self, fixed: Mapping[str, Scalar]) -> str:
        """Return the values of axes that a figure does not show, in words, for its caption."""
        values = ", ".join(f"{self.title(n)} {self.value(n, v)}" for n, v in fixed.items())
        return f" All other settings at their first value: {values}." if values else ""

    def pick(self, recording: str, values: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the row of a recording at these values."""
        return self.index.get(
            (
                recording,
                *(
                    values.get(n, self.paths[0] if n == "path" else None)
                    for n in ("path", *self.axes)
                ),
            )
        )

    @cached_property
    def index(self) -> dict[tuple[Any, ...], dict[str, Any]]:
        """Return rows by recording, path and axes."""
        return {
            (r["recording"], r["path"] if self.paths != [""] else "", *(r[n] for n in self.axes)): r
            for r in self.rows
        }


def figures(swept: Swept) -> list[Figure]:
    """Return all figures of a sweep, at most `MOST`; none where nothing varies or no point has an
    answer.
    """
    asked = _asked(swept)
    if not asked.rows:
        return []
    out: list[Figure] = []
    compared = {HOST, DIRECT} <= set(asked.paths)
    for name in asked.axes:
        if compared and (gain := gain_over(asked, name)):
            out.append(gain)
    recordings = [n for n in swept.study.recordings if any(r["recording"] == n for r in asked.rows)]
    shape = next((n for n in _SHAPES if n in asked.axes), None)
    for recording in recordings:
        # of a sample no two points differ in one setting alone
        names, draw = (swept.study.ranges, scattered) if swept.study.ranges else (asked.axes, over)
        out += [made for name in names if (made := draw(asked, recording, name))]
        if (
            "compute_seconds" in asked.rows[0]
            and (shape or asked.paths != [""])
            and (made := split(asked, recording, shape))
        ):
            out.append(made)
    return out[:MOST]


def _asked(swept: Swept) -> _Asked:
    rows = swept.rows()
    varied = varying(swept.study)
    axes: dict[str, list[Scalar]] = {
        n: list(dict.fromkeys(r[n] for r in rows)) for n in varied if n != "path"
    }
    metric = TALK if rows and TALK in rows[0] else swept.study.kind.best.result
    answered = [r for r in rows if not r["code"] and isinstance(r.get(metric), int | float)]
    paths = list(dict.fromkeys(str(r["path"]) for r in rows)) if "path" in varied else [""]
    return _Asked(swept, answered, axes, paths, metric)


def _named(*words: str) -> str:
    return "-".join(["sweep", *(re.sub(r"[^A-Za-z0-9]+", "-", w).strip("-") for w in words)])[:100]


# --- an axis --------------------------------------------------------------------------------------


def _across(asked: _Asked, name: str) -> tuple[Spec, bool]:
    """Return the channel of an axis with its values written below it, and whether the axis is
    numeric.
    """
    values = asked.axes[name]
    title = asked.title(name)
    if not numeric(values):
        axis: Spec = {
            "title": title,
            "labelAngle": 0 if len(values) <= 6 else -35,
            "labelLimit": 130,
        }
        scale: Spec = {"domain": [asked.value(name, v) for v in values], "padding": 0.5}
        return {"field": "x", "type": "ordinal", "axis": axis, "scale": scale}, False
    some = sorted(float(v) for v in values)
    refine = asked.swept.study.refine
    # places that a sample or an interval chose are no figures that one reads
    chosen = name in asked.swept.study.ranges or (refine is not None and refine.axis == name)
    ticks = _round(some) if chosen else few(some, _TICKS)
    whole = all(isinstance(v, int) for v in values)
    labels = {t: asked.value(name, int(t) if whole and t == int(t) else t) for t in ticks}
    words = " : ".join(
        f"datum.value == {json.dumps(t)} ? {json.dumps(_unbroken(label))}"
        for t, label in labels.items()
    )
    axis = {
        "title": title,
        "values": ticks,
        "labelExpr": f"{words} : ''",
        "labelOverlap": "greedy",
        "grid": True,
    }
    if logarithmic(some):
        side = (some[-1] / some[0]) ** 0.05
        return quantity("x", [some[0] / side, some[-1] * side], log=10, **axis), True
    side = 0.05 * (some[-1] - some[0])
    return quantity("x", [some[0] - side, some[-1] + side], scale={"zero": False}, **axis), True


def _round(values: Sequence[float]) -> list[float]:
    """Return round numbers between the least and the largest of some values.

    >>> _round([2e-6, 3e-6, 5e-4]), _round([1.0, 7.5, 11.0])
    ([1e-05, 0.0001], [2.0, 4.0, 6.0, 8.0, 10.0])
    """
    low, high = min(values), max(values)
    if logarithmic(values) and high / low >= 10:
        return [
            float(f"1e{k}")
            for k in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
        ]
    step = next(
        s * 10.0**e
        for e in range(-18, 19)
        for s in (1, 2, 5)
        if (high - low) / (s * 10.0**e) <= _TICKS - 2
    )
    return [
        float(f"{k * step:.12g}") for k in range(math.ceil(low / step), math.floor(high / step) + 1)
    ]


def _unbroken(text: str) -> str:
    return (
        text.replace(" ", "\N{NO-BREAK SPACE}").replace("us", "µs") if text[:1].isdigit() else text
    )


def _upright(values: Sequence[float], asked: _Asked) -> tuple[Spec, float]:
    """Return the channel of times, or of shares, and the unit by which they are divided.

    The axis is logarithmic if times span more than a decade and a half.
    """
    title = asked.quantity
    if asked.unit != "s":
        low, high = min(0.0, *values), max(0.0, *values)
        side = 0.06 * (high - low or 0.01)
        return quantity(
            "y",
            [low - side * (low < 0), high + side],
            title=title,
            labelExpr=CHANGE,
            tickCount=6,
            grid=True,
        ), 1.0
    divisor, unit = time_unit(max(values) or 1e-9)
    low, high = min(values) / divisor, max(values) / divisor
    axis: Spec = {"title": f"{title} [{unit}]", "tickCount": 6, "grid": True}
    if low > 0 and high / low > 30:
        return quantity("y", [low / 1.15, high * 1.15], log=10, format="~g", **axis), divisor
    return quantity("y", [0, high * 1.06], **axis), divisor


def _shift(connected: bool) -> Spec:
    """Return the channel that sets series at names apart."""
    return {} if connected else {"xOffset": {"field": "series", "type": "nominal", "sort": None}}


def _lines(rows: Rows, x: Spec, y: Spec, *, connected: bool) -> list[Spec]:
    """Draw points, one colour per series, joined if they stand along numbers."""
    joined = [marks.line(rows, x, y, 2.2, series="series")] if connected else []
    return [
        *joined,
        marks.points(rows, x, y, 46 if connected else 70, tip=True, encode=_shift(connected)),
    ]


def _plot(layers: list[Spec]) -> Spec:
    return plot(layers, _HIGH, (_LEFT, _RIGHT, _TOP, _BOTTOM))


# --- time over an axis ----------------------------------------------------------------------------


def _second(asked: _Asked, name: str) -> str | None:
    """Return the other axis that a figure shows as lines: node shapes, else the one with the fewest
    values.
    """
    candidates = [n for n in asked.axes if n != name]
    if not candidates:
        return None
    return next((n for n in _SHAPES if n in candidates), None) or min(
        candidates, key=lambda n: len(asked.axes[n])
    )


def over(asked: _Asked, recording: str, name: str) -> Figure | None:
    """Draw communication, or run time, of a recording over one axis: a panel for each path, a line
    for each value of one more axis.
    """
    second = _second(asked, name)
    some = few(asked.axes[second], _LINES) if second else [None]
    fixed = asked.fixed([name, *([second] if second else [])])
    panels: list[tuple[str, list[tuple[str, str, Rows]]]] = []
    for path in asked.paths:
        series = []
        for k, value in enumerate(some):
            values = {**fixed, "path": path, **({second: value} if second else {})}
            answered = [
                (v, row)
                for v in asked.axes[name]
                if (row := asked.pick(recording, {**values, name: v}))
            ]
            label = asked.label(second, value) if second else asked.quantity
            series.append(
                (
                    label,
                    asked.colour(second, k, len(some)),
                    [{"value": v, "seconds": row[asked.metric]} for v, row in answered],
                )
            )
        panels.append((_PATH_WORDS.get(path, path), series))
    every = [p["seconds"] for _, series in panels for _, _, points in series for p in points]
    if not every:
        return None
    x, connected = _across(asked, name)
    y, divisor = _upright(every, asked)
    table: Rows = []
    tips: list[str] = []
    drawn: list[tuple[str, Rows]] = []
    for path, series in panels:
        points: Rows = []
        for label, colour, some_points in series:
            line = ", ".join(w for w in (path, label if second else "") if w) or clean(
                recording, 40
            )
            for p in some_points:
                at_x = float(p["value"]) if connected else asked.value(name, p["value"])
                tip = (
                    f"{line}, {asked.title(name)} {asked.value(name, p['value'])}: "
                    f"{asked.shown(p['seconds'])}"
                )
                points.append(
                    {
                        "x": at_x,
                        "y": p["seconds"] / divisor,
                        "series": label,
                        "colour": colour,
                        "tip": tip,
                    }
                )
                table.append({"line": line, name: p["value"], asked.metric: p["seconds"]})
                tips.append(tip)
        drawn.append((path, points))
    legend = (
        tuple(
            dict.fromkeys(
                (label, colour) for _, series in panels for label, colour, p in series if p
            )
        )
        if second
        else ()
    )
    left_out = ""
    if second and len(some) < len(asked.axes[second]):
        left_out = (
            f" {len(some)} of {len(asked.axes[second])} values of {asked.title(second)} are drawn."
        )
    gone = len(panels) * len(some) * len(asked.axes[name]) - len(tips)
    left_out += f" {gone} point{'s' * (gone > 1)} without an answer." if gone else ""
    title = _title(asked, recording, every, [name, *([second] if second else [])])
    alt = f"{title}. " + " ".join(f"{tip}." for tip in tips[:60])
    spec = _panels(
        [
            (heading, _lines(points, x, _inner(y, k), connected=connected))
            for k, (heading, points) in enumerate(drawn)
        ]
    )
    return Figure(
        _named(recording, "over", name),
        title,
        alt,
        spec,
        table,
        asked.meaning + asked.kept(fixed) + left_out,
        legend=legend,
    )


def _title(asked: _Asked, recording: str, seconds: Sequence[float], names: Sequence[str]) -> str:
    """Return how long it takes, or what else is drawn, and what that depends on, in a sentence."""
    low, high = (asked.shown(end(seconds)) for end in (min, max))
    verb = (
        f"{asked.quantity} of"
        if asked.unit != "s"
        else "communication takes"
        if asked.metric == TALK
        else "the run takes"
    )
    subject = f"{shorten(clean(recording, 80), 40)}: {verb}"
    if low == high:
        return f"{subject} {low}, whatever the {' and the '.join(asked.title(n) for n in names)}"
    return f"{subject} {low} to {high}, depending on {' and '.join(asked.title(n) for n in names)}"


def _inner(y: Spec, k: int) -> Spec:
    """Return the channel of times of a panel; only the first panel has its numbers."""
    return y if k == 0 else {**y, "axis": {**y["axis"], "title": None, "labels": False}}


def _panels(views: Sequence[tuple[str, list[Spec]]]) -> Spec:
    """Return views beside each other, each with a heading; one view alone fills the width."""
    if len(views) == 1:
        return _plot(views[0][1])
    width = (FULL - _LEFT - 20 * len(views)) // len(views)
    return beside(
        [
            {"width": width, "height": _HIGH, "title": heading, "layer": layers}
            for heading, layers in views
        ],
        20,
        padding=6,
    )


def scattered(asked: _Asked, recording: str, name: str) -> Figure | None:
    """Draw communication, or run time, at the places of a sample over one of its axes: a panel for
    each path, colours for one list more.
    """
    rows = [r for r in asked.rows if r["recording"] == recording]
    if not rows:
        return None
    lists = [n for n in asked.axes if n not in asked.swept.study.ranges]
    hue = min(lists, key=lambda n: len(asked.axes[n])) if lists else None
    values = few(asked.axes[hue], _LINES) if hue else [None]
    step = -(-len(asked.axes[name]) // _PLACES)
    places = set(asked.axes[name][::step])
    shown = [r for r in rows if r[name] in places and (hue is None or r[hue] in values)]
    x, _ = _across(asked, name)
    every = [float(r[asked.metric]) for r in shown]
    y, divisor = _upright(every, asked)
    colours = {v: asked.colour(hue, k, len(values)) for k, v in enumerate(values)}
    drawn: dict[str, Rows] = {path: [] for path in asked.paths}
    for r in shown:
        words = ", ".join(f"{asked.title(n)} {asked.value(n, r[n])}" for n in asked.axes)
        point = {
            "x": float(r[name]),
            "y": r[asked.metric] / divisor,
            "colour": colours[r[hue] if hue else None],
        }
        drawn[str(r["path"]) if asked.paths != [""] else ""].append(
            {**point, "tip": f"{words}: {asked.shown(r[asked.metric])}"}
        )
    views = [
        (
            _PATH_WORDS.get(path, path),
            [marks.points(points, x, _inner(y, k), 34, tip=True, opacity=0.85)],
        )
        for k, (path, points) in enumerate(drawn.items())
    ]
    title = _title(asked, recording, every, [name, *(n for n in asked.axes if n != name)])
    left_out = (
        f" {len(places):,} of {len(asked.axes[name]):,} places are drawn." if step > 1 else ""
    )
    sample = asked.swept.study.sample
    assert sample is not None
    caption = (
        f"{asked.meaning} A point is a place of the sample ({sample.count:,} places); the other "
        "settings differ from point to point."
    )
    legend = tuple((asked.label(hue, v), colours[v]) for v in values) if hue else ()
    table = [
        {"path": r.get("path"), **{n: r[n] for n in asked.axes}, asked.metric: r[asked.metric]}
        for r in shown
    ]
    alt = f"{title}. " + " ".join(f"{p['tip']}." for points in drawn.values() for p in points[:30])
    return Figure(
        _named(recording, "over", name),
        title,
        alt,
        _panels(views),
        table,
        caption + left_out,
        legend=legend,
    )


# --- what GPUDirect gains -------------------------------------------------------------------------


def gain_over(asked: _Asked, name: str) -> Figure | None:
    """Draw the gain of communication by GPUDirect over one axis.

    Each recording has a line, and a range over the settings that vary besides.
    """
    fixed = asked.fixed([name])
    x, connected = _across(asked, name)
    # places of a sample of several ranges differ in all of them: points, and no line through them
    several = name in asked.swept.study.ranges and len(asked.swept.study.ranges) > 1
    points: Rows = []
    spans: Rows = []
    table: Rows = []
    legend: list[tuple[str, str]] = []
    for k, recording in enumerate(asked.swept.study.recordings):
        colour = TARGET_COLOURS[k % len(TARGET_COLOURS)]
        gains, _ = gained(
            [r for r in asked.rows if r["recording"] == recording], ("path", *asked.axes)
        )
        label = shorten(clean(recording, 80), 40)
        by_value: dict[Any, list[Gained]] = {}
        for g in gains:
            by_value.setdefault(g.values[name], []).append(g)
        for value in asked.axes[name]:
            at_value = by_value.get(value, [])
            first = next(
                (
                    g.gain
                    for g in at_value
                    if several or all(g.values[n] == v for n, v in fixed.items())
                ),
                None,
            )
            if not at_value:
                continue
            low, high = min(g.gain for g in at_value), max(g.gain for g in at_value)
            place = (
                float(value)
                if connected and isinstance(value, int | float)
                else asked.value(name, value)
            )
            tip = f"{label}, {asked.title(name)} {asked.value(name, value)}: " + (
                f"{first:+.1%}" if first is not None else "no answer"
            )
            tip += f", {low:+.1%} to {high:+.1%} over all other settings" if high > low else ""
            common = {"x": place, "series": label, "colour": colour, "tip": tip}
            spans.append({**common, "low": low, "high": high})
            if first is not None:
                points.append({**common, "y": first})
            table.append(
                {
                    "recording": recording,
                    name: value,
                    "gain": first,
                    "least_gain": low,
                    "most_gain": high,
                }
            )
        if any(s["series"] == label for s in spans):
            legend.append((label, colour))
    if not spans:
        return None
    low, high = min(0.0, *(s["low"] for s in spans)), max(0.0, *(s["high"] for s in spans))
    side = 0.06 * (high - low or 0.01)
    axis: Spec = {"title": "gain by GPUDirect", "labelExpr": CHANGE, "tickCount": 6, "grid": True}
    y = quantity("y", [low - side, high + side], **axis)
    layers = [marks.rules([{"y": 0.0}], None, y, color=INK)]
    if wide := [s for s in spans if s["high"] > s["low"] and not several]:
        if connected:
            layers.append(marks.band(wide, x, y, "low", "high", series="series", opacity=0.12))
        else:
            layers.append(
                marks.rules(
                    wide, x, of(y, "low"), 5, y2="high", opacity=0.3, encode=_shift(connected)
                )
            )
    layers += _lines(points, x, y, connected=connected and not several) if points else []
    title = (
        f"By host copies communication takes {_span(table)} than by GPUDirect, depending on "
        f"{asked.title(name)}"
    )
    pale = " Pale: range of the gain over all other settings." if wide else ""
    caption = (
        "Gain: communication time by host copies over that by GPUDirect, minus 1."
        + pale
        + asked.kept({} if several else fixed)
    )
    alt = f"{title}. " + " ".join(f"{s['tip']}." for s in spans[:60])
    return Figure(
        _named("gain", "over", name),
        title,
        alt,
        _plot(layers),
        table,
        caption,
        legend=tuple(legend),
    )


def _span(table: Rows) -> str:
    """Return how much longer or shorter communication takes, in words.

    >>> _span([{"least_gain": 0.1, "most_gain": 0.4}]), _span([{"least_gain": -0.1, "most_gain": 0.4}])
    ('10\\xa0% to 40\\xa0% longer', '10\\xa0% shorter to 40\\xa0% longer')
    """
    low, high = min(r["least_gain"] for r in table), max(r["most_gain"] for r in table)
    if low < 0 < high:
        return f"{percent(-low)} shorter to {percent(high)} longer"
    ends = list(dict.fromkeys(percent(abs(v)) for v in sorted((low, high), key=abs)))
    return f"{' to '.join(ends)} {'shorter' if low < 0 else 'longer'}"


# --- what runs are made of ------------------------------------------------------------------------


def split(asked: _Asked, recording: str, shape: str | None) -> Figure | None:
    """Draw compute and communication of a recording by node shape and path, and communication
    alone.
    """
    fixed = asked.fixed([shape] if shape else [])
    colours = {"compute": PARTS["other"], "talk": CATEGORIES["mpi"]}
    groups: list[tuple[str, list[Bar]]] = []
    table: Rows = []
    for value in few(asked.axes[shape], _TICKS) if shape else [None]:
        heading = f"{asked.title(shape)} {asked.value(shape, value)}" if shape else ""
        bars: list[Bar] = []
        for path in asked.paths:
            row = asked.pick(
                recording, {**fixed, "path": path, **({shape: value} if shape else {})}
            )
            if row is None:
                continue
            compute, talk = float(row["compute_seconds"]), float(row[TALK])
            name = _PATH_WORDS.get(path, path)
            tip = (
                f"{', '.join(t for t in (heading, name) if t)}: compute {valued(compute, 's')}, "
                f"communication {valued(talk, 's')}"
            )
            bars.append(Bar(name, tip, [(compute, colours["compute"]), (talk, colours["talk"])]))
            table.append(
                {
                    **({shape: value} if shape else {}),
                    "path": path,
                    "compute_seconds": compute,
                    TALK: talk,
                }
            )
        groups += [(heading, bars)] if bars else []
    if not groups:
        return None
    left = (
        16.0
        + max(len(b.name) for _, bars in groups for b in bars) * 6.0
        + max(len(heading) for heading, _ in groups) * 6.4
    )
    width = (FULL - int(left) - 56) // 2
    talk_alone = [
        (heading, [replace(b, parts=b.parts[1:]) for b in bars]) for heading, bars in groups
    ]
    views = [
        stacked_bars(groups, width, "mean over the ranks", foot=13),
        stacked_bars(talk_alone, width, "communication alone", foot=13, named=False),
    ]
    spec = beside(views, 30, padding=6)
    shares = [r[TALK] / total for r in table if (total := r["compute_seconds"] + r[TALK]) > 0]
    share = _share(min(shares, default=0.0), max(shares, default=0.0))
    title = f"{shorten(clean(recording, 80), 40)}: communication is {share} of a rank's time"
    caption = (
        "Compute: time of a rank between its MPI calls. Communication: the rest of its time."
        + asked.kept(fixed)
    )
    alt = f"{title}. " + " ".join(f"{b.tip}." for _, bars in groups for b in bars)
    legend = (("compute", colours["compute"]), ("communication", colours["talk"]))
    return Figure(_named(recording, "node-shapes"), title, alt, spec, table, caption, legend=legend)


def _share(low: float, high: float) -> str:
    ends = list(
        dict.fromkeys(f"{100 * s:.2g}" if s < 0.1 else f"{100 * s:.0f}" for s in (low, high))
    )
    return " to ".join(ends) + "\N{NO-BREAK SPACE}%"
