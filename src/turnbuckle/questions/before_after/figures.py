"""Before and after: a part of the run as recorded, and below it the same activities as projected,
with both critical paths.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Bool, Float, Int
from turnbuckle.profile.profile import Profile
from turnbuckle.questions.before_after.question import Moved, Window
from turnbuckle.show.figures import marks
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import CRITICAL, FULL, INK, RULE, SOFT
from turnbuckle.show.figures.marks import Rows, Spec, digits, of, plot, quantity, stated, time_unit
from turnbuckle.show.kernel_names import kernel_labels
from turnbuckle.show.text import MINUS, clean, number, plural, shorten, terms

#: Tracks shown, those with most activities first.
MOST_TRACKS: Final = 8
#: Height of a bar and of its track, few tracks and many; between the two time lines; of a heading
#: [px].
BAR, ROWS, FEW = 16, (30, 24), 4
GAP, HEAD = 24, 18
_LEFT, _RIGHT = 138, 14
PLOT: Final = FULL - _LEFT - _RIGHT
#: Pale, so that the critical path stands out; light enough for dark text.
PALE: Final = {
    "kernel": "#a9c1d8",
    "copy": "#f6cf9f",
    "api": "#d5e3ea",
    "mpi": "#cfc8e2",
    "cpu": "#e6e9ed",
}
WORDS: Final = terms("activity")
#: What changes an activity itself: the delay before it, what it takes, what it waits for.  The
#: others only follow, or absorb.
OWN_CHANGE: Final = ("lag", "own", "waits")
#: Edges of the critical path that are inside one activity.
_INSIDE: Final = frozenset({"run", "call"})
_HATCH: Final = 6
#: A bar thinner than this would not be seen [px].
_HAIR: Final = 0.8
_CHARACTER: Final = 5.9


@dataclass(frozen=True)
class _Panel:
    """One of the two time lines.

    Attributes
    ----------
    word : its heading.
    start, end : when its activities are [s after the window's start].
    path, begins : its critical path, and where the window begins on that [s after the run's start].
    height_of, top : middle of each track below its own top, and that [px].
    until : where it ends [s after the window's start].
    shift : how much later than recorded the window begins [s].
    """

    word: str
    start: Float
    end: Float
    path: pl.DataFrame
    begins: float
    height_of: dict[int, float]
    top: float
    until: float
    shift: float

    @cached_property
    def critical(self) -> frozenset[int]:
        """Return numbers of the activities that the critical path runs inside of."""
        return frozenset(
            self.path.filter(pl.col("kind").cast(pl.String).is_in(list(_INSIDE)))[
                "number"
            ].to_list()
        )


def track_words(profile: Profile) -> dict[int, str]:
    """Return names of tracks without ids of the recorded machine: threads are numbered in the order
    they appear.
    """
    threads: dict[tuple[Any, Any], int] = {}
    out = {}
    for track, kind, process, thread, device, stream in profile.tracks.select(
        "track", "what", "process", "thread", "device", "stream"
    ).iter_rows():
        if kind == "thread":
            out[int(track)] = (
                f"host thread {threads.setdefault((process, thread), len(threads) + 1)}"
            )
        elif kind == "stream":
            out[int(track)] = (
                f"GPU {device}, stream {stream}" if stream is not None else f"GPU {device}"
            )
        else:
            out[int(track)] = clean(kind)
    return out


@dataclass(frozen=True)
class _Frame:
    """Scale of both panels: seconds per unit of the axis, pixels per second, and both axes."""

    divisor: float
    scale: float
    x: Spec
    y: Spec

    def on_axis(self, seconds: float) -> float:
        """Return a time on the axis."""
        return digits(seconds / self.divisor, 6)


def before_after(run: Moved, shown: Window) -> tuple[Figure, str]:
    """Return the figure, and one sentence on how long the stretch takes before and after."""
    table = run.table[shown.rows]
    words = track_words(run.profile)
    tracks = _tracks(run.profile, table)
    table = table.filter(pl.col("track").is_in(tracks))
    first, length = shown.first_ns * 1e-9, (shown.last_ns - shown.first_ns) * 1e-9
    start, end = (table[c].to_numpy() * 1e-9 - first for c in ("start_ns", "end_ns"))
    later, until = (
        table[c].to_numpy() - shown.projected_first for c in ("projected_start", "projected_end")
    )
    ends = np.flatnonzero(end <= length * (1 + 1e-9))
    reaches = float(until[ends].max()) if len(ends) else 0.0
    if shown.chosen == "change" and (critical := table["critical_after"].to_numpy()[ends]).any():
        # the stretch is one of the path: a call beside it may run early or late
        ends = ends[critical]
    final = int(ends[np.argmax(end[ends])]) if len(ends) else int(np.argmax(end))
    took, takes = float(min(end[final], length)), float(until[final])
    row = ROWS[len(tracks) > FEW]
    height_of = {t: k * row + row / 2 for k, t in enumerate(tracks)}
    lower = HEAD + len(tracks) * row + GAP
    name = f"projected on {shorten(clean(run.target.title), 40)}: {_apart(takes - took)}"
    since = shown.projected_first
    last = max(takes + max(length - took, 0.0), reaches)
    panels = (
        _Panel("as recorded", start, end, run.path_before, first, height_of, HEAD, length, 0.0),
        _Panel(
            name, later, until, run.path_after, since, height_of, lower + HEAD, last, since - first
        ),
    )
    height = lower + HEAD + len(tracks) * row + 2
    frame = _frame(max(length, panels[1].until, 1e-9), height)
    labels = _labels(run, table)
    layers: list[Spec] = []
    for panel in panels:
        layers += _backdrop(panel, {t: words[t] for t in tracks}, frame)
        layers += _bars(panel, table, labels, frame)
        layers += _critical(panel, _track_of(run), frame)
        layers += _hatches(panel, table, frame) if panel is panels[1] else []
        layers += _bar_texts(panel, table, labels, frame)
    layers += _ends(took, takes, panels, height, frame)
    spec = plot(layers, int(height), (_LEFT, _RIGHT, 4, 42))
    sentence = _sentence(run, shown, took, takes)
    kinds = [k for k in PALE if k in set(table["category"].cast(str).to_list())]
    legend = (("critical path", CRITICAL), *((WORDS[k], PALE[k]) for k in kinds))
    rows = _as_rows(table, labels, words)
    return Figure(
        "before-after",
        "Before and after",
        f"{sentence} {_CAPTION}",
        spec,
        rows,
        _CAPTION,
        legend=legend,
    ), sentence


def _apart(change: float) -> str:
    """Return a change of the stretch in words."""
    return (
        "as long as recorded"
        if abs(change) < 5e-10
        else f"{'+' if change > 0 else MINUS}{number(abs(change), 's')}"
    )


_CAPTION: Final = (
    "Above as recorded, below as projected, both from the same moment of the run. Strong colour: "
    "the critical path, the longest chain of "
    "waiting that sets the run time. Hatched: activities that the target changes themselves, by "
    "a longer or shorter delay before them, "
    "duration or wait; the others only follow."
)


def _as_rows(table: pl.DataFrame, labels: list[str], words: dict[int, str]) -> Rows:
    """Return when each activity runs, as recorded and as projected."""
    return [
        {
            "track": words[r["track"]],
            "what": name,
            "recorded_start_seconds": r["start_ns"] * 1e-9,
            "recorded_end_seconds": r["end_ns"] * 1e-9,
            "projected_start_seconds": r["projected_start"],
            "projected_end_seconds": r["projected_end"],
            "reason": str(r["reason"]),
            "critical_before": r["critical_before"],
            "critical_after": r["critical_after"],
        }
        for r, name in zip(table.iter_rows(named=True), labels, strict=True)
    ]


def _sentence(run: Moved, shown: Window, took: float, takes: float) -> str:
    subject = {
        "whole": "The whole run is shown",
        "iterations": f"Shown {'is' if shown.iterations == 1 else 'are'} "
        f"{plural(shown.iterations, 'iteration')} of a sequence of "
        f"{plural(shown.period, 'device activity', 'device activities')} that repeats, around the "
        "one that changes as much as the median",
        "change": "Shown is the stretch in which the critical path changes most",
    }[shown.chosen]
    return (
        f"{subject}: {number(took, 's', 4)} as recorded, {number(takes, 's', 4)} on "
        f"{clean(run.target.title)} ({_apart(takes - took)})."
    )


def _tracks(profile: Profile, table: pl.DataFrame) -> list[int]:
    """Return the tracks to show: host threads above device streams, the busiest where there are too
    many.
    """
    counts = table["track"].value_counts(sort=True).head(MOST_TRACKS)["track"].to_list()
    kind_of = dict(profile.tracks.select("track", "what").iter_rows())
    return [int(t) for t in sorted(counts, key=lambda t: (kind_of[t] != "thread", t))]


def _track_of(run: Moved) -> Int:
    """Return the track of every activity of the graph by number; -1 where it is not in the
    table.
    """
    out = np.full(run.activities + 1, -1, dtype=np.int64)
    out[run.table["number"].to_numpy()] = run.table["track"].to_numpy()
    return out


def _labels(run: Moved, table: pl.DataFrame) -> list[str]:
    names = run.profile.trace.text(table).fill_null("").to_list()
    kernels = table["category"].cast(str).to_list()
    kinds = table["kind"].cast(str).to_list()
    distinct = list(dict.fromkeys(n for n, c in zip(names, kernels, strict=True) if c == "kernel"))
    short = dict(zip(distinct, kernel_labels(distinct, 40), strict=True))
    copies = {
        "h2d": "copy to GPU",
        "d2h": "copy to host",
        "d2d": "copy in GPU",
        "p2p": "copy to GPU",
    }
    words = {"migration": "pages"} | {f"copy_{kind}": text for kind, text in copies.items()}
    return [
        short[n] if c == "kernel" else words.get(k, shorten(clean(n), 40) or clean(k))
        for n, c, k in zip(names, kernels, kinds, strict=True)
    ]


def _frame(widest: float, height: float) -> _Frame:
    divisor, unit = time_unit(widest)
    x = quantity(
        "x",
        [0, widest / divisor],
        title=f"time from the start of the stretch [{unit}]",
        tickCount=7,
        grid=True,
        gridColor=RULE,
    )
    return _Frame(divisor, PLOT / widest, x, quantity("y", [height, 0], no_axis=True))


def _backdrop(panel: _Panel, tracks: dict[int, str], frame: _Frame) -> list[Spec]:
    """Draw the name of the panel, a line a track, names of tracks."""
    rows: Rows = [{"y": panel.top + panel.height_of[t], "label": w} for t, w in tracks.items()]
    head: Rows = [{"y": panel.top - 9, "label": panel.word[:1].upper() + panel.word[1:]}]
    return [
        marks.rules(rows, 0, frame.y, x2=PLOT, color=RULE),
        marks.labels(rows, -10, frame.y, align="right", color=INK, limit=_LEFT - 14),
        marks.labels(head, 0, frame.y, align="left", fontWeight="bold", fontSize=12),
    ]


def _clipped(panel: _Panel) -> tuple[Float, Float, Bool]:
    low, high = np.clip(panel.start, 0.0, panel.until), np.clip(panel.end, 0.0, panel.until)
    seen: Bool = (panel.end >= 0.0) & (panel.start <= panel.until)
    return low, high, seen


def _bars(panel: _Panel, table: pl.DataFrame, labels: list[str], frame: _Frame) -> list[Spec]:
    """Draw a pale bar an activity."""
    low, high, seen = _clipped(panel)
    category, track = table["category"].cast(str).to_list(), table["track"].to_list()
    longer, moved = table["longer"].to_numpy(), table["moved"].to_numpy()
    after = panel.word != "as recorded"
    rows: Rows = []
    for i in np.flatnonzero(seen).tolist():
        tip = f"{labels[i]}: {number(float(panel.end[i] - panel.start[i]), 's')}"
        if after:
            begins = _later(float(moved[i]) - panel.shift, "later", "earlier")
            tip += f", begins {begins}, takes {_later(float(longer[i]), 'longer', 'less')}"
        bar = _bar(panel, frame, float(low[i]), float(high[i]), panel.height_of[track[i]])
        rows.append({**bar, "colour": PALE.get(category[i], PALE["cpu"]), "tip": tip})
    return [
        marks.cells(
            rows,
            of(frame.x, "a"),
            frame.y,
            x2="b",
            y2="y2",
            tip=True,
            stroke="white",
            strokeWidth=0.6,
        )
    ]


def _bar(panel: _Panel, frame: _Frame, low: float, high: float, height: float) -> Spec:
    """Return the edges of a bar, wide enough to be seen."""
    middle = panel.top + height
    to = max(high, low + _HAIR / frame.scale)
    return {
        "a": frame.on_axis(low),
        "b": frame.on_axis(to),
        "y": middle - BAR / 2,
        "y2": middle + BAR / 2,
    }


def _later(seconds: float, more: str, less: str) -> str:
    return (
        "as recorded"
        if abs(seconds) < 5e-10
        else f"{number(abs(seconds), 's', 2)} {more if seconds > 0 else less}"
    )


def _hatches(panel: _Panel, table: pl.DataFrame, frame: _Frame) -> list[Spec]:
    """Draw slanting lines over what the target changes itself: dark on pale bars, white on the
    critical path.
    """
    low, high, seen = _clipped(panel)
    track, number_ = table["track"].to_list(), table["number"].to_list()
    changed = table["reason"].cast(pl.String).is_in(list(OWN_CHANGE)).to_numpy() & seen
    out: list[Spec] = []
    for critical, colour, opacity in ((False, INK, 0.5), (True, "#ffffff", 0.65)):
        line: Rows = []
        for i in np.flatnonzero(changed).tolist():
            if (number_[i] in panel.critical) is critical and (high[i] - low[i]) * frame.scale >= 3:
                line += _hatch(
                    float(low[i]) * frame.scale,
                    float(high[i]) * frame.scale,
                    panel.top + panel.height_of[track[i]],
                )
        for k, point in enumerate(line):
            point["i"] = k
            if point["x"] is not None:
                point["x"] = digits(point["x"] / frame.scale / frame.divisor)
        if line:
            out.append(
                marks.path(line, frame.x, frame.y, color=colour, strokeWidth=0.9, opacity=opacity)
            )
    return out


def _hatch(low: float, high: float, middle: float) -> Rows:
    """Return slanting lines over one bar [px], one broken line in all."""
    out: Rows = []
    foot = low - BAR + _HATCH / 2
    while foot < high:
        a, b = max(foot, low), min(foot + BAR, high)
        if b > a:
            out += [
                {"x": a, "y": middle + BAR / 2 - (a - foot)},
                {"x": b, "y": middle + BAR / 2 - (b - foot)},
                {"x": None, "y": None},
            ]
        foot += _HATCH
    return out


def _critical(panel: _Panel, track_of: Int, frame: _Frame) -> list[Spec]:
    """Draw the critical path: bars where it is inside an activity, lines where it waits or crosses
    from track to track.
    """
    path = panel.path
    start, end = path["start"].to_numpy() - panel.begins, path["end"].to_numpy() - panel.begins
    kind, number_ = path["kind"].cast(str).to_numpy(), path["number"].to_numpy()
    track = track_of[number_]
    inside = np.flatnonzero((end >= 0) & (start <= panel.until))
    bars: Rows = []
    line: Rows = []
    for i in inside.tolist():
        to = panel.height_of.get(int(track[i]))
        since = panel.height_of.get(int(track[i - 1])) if i else to
        if to is None or since is None:
            line.append({"x": None, "y": None})
            continue
        a, b = float(start[i]), float(end[i])
        low, high = max(a, 0.0), min(b, panel.until)
        if kind[i] in _INSIDE:
            bars.append(_bar(panel, frame, low, high, to))

        def height_at(
            t: float, a: float = a, b: float = b, since: float = since, to: float = to
        ) -> float:
            return panel.top + (since + (to - since) * (t - a) / (b - a) if b > a else to)

        line += [{"x": frame.on_axis(t), "y": digits(height_at(t))} for t in (low, high)]
    for k, point in enumerate(line):
        point["i"] = k
    return [
        marks.cells(bars, of(frame.x, "a"), frame.y, x2="b", y2="y2", color=CRITICAL),
        marks.path(
            _without_repeats(line),
            frame.x,
            frame.y,
            color=CRITICAL,
            strokeWidth=1.6,
            strokeJoin="round",
        ),
    ]


def _without_repeats(line: Rows) -> Rows:
    """Return a broken line without points that say nothing new."""
    out: Rows = []
    for point in line:
        if not out or (point["x"], point["y"]) != (out[-1]["x"], out[-1]["y"]):
            out.append(point)
    return out


def _bar_texts(panel: _Panel, table: pl.DataFrame, labels: list[str], frame: _Frame) -> list[Spec]:
    """Write names in the bars that have room for one."""
    low, high, seen = _clipped(panel)
    track = table["track"].to_list()
    number_ = table["number"].to_list()
    rows: Rows = []
    for i in np.flatnonzero(seen).tolist():
        room = float(high[i] - low[i]) * frame.scale
        width = int((room - 8) / _CHARACTER)
        if width >= 5 and (len(labels[i]) <= width or width >= 9):
            filled = number_[i] in panel.critical
            pale = PALE.get(str(table["category"][i]), PALE["cpu"])
            look = {"ink": "#ffffff", "halo": CRITICAL} if filled else {"ink": INK, "halo": pale}
            middle = {
                "x": frame.on_axis(float(low[i] + high[i]) / 2),
                "y": panel.top + panel.height_of[track[i]],
            }
            rows.append({**middle, "label": shorten(labels[i], width), **look})
    # behind a name the hatching stops
    name = marks.labels(rows, frame.x, frame.y, hue="ink", fontSize=10)
    behind = marks.labels(
        rows,
        frame.x,
        frame.y,
        hue="halo",
        fontSize=10,
        encode={"stroke": stated("halo")},
        strokeWidth=4,
        strokeJoin="round",
    )
    return [behind, name]


def _ends(
    took: float, takes: float, panels: tuple[_Panel, _Panel], height: float, frame: _Frame
) -> list[Spec]:
    """Draw where the stretch ends before and after, and what that adds."""
    if abs(takes - took) < 5e-10:
        return []
    rows: Rows = [
        {"x": frame.on_axis(end), "y": panel.top - 2, "y2": height}
        for end, panel in zip((took, takes), panels, strict=True)
    ]
    return [marks.rules(rows, frame.x, frame.y, y2="y2", color=SOFT, strokeDash=[3, 3])]
