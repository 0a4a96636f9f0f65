"""Tables of a suite, for the terminal, the page, Markdown and LaTeX alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from turnbuckle.projection.projection import NOISE
from turnbuckle.projection.uncertainty import LEVEL
from turnbuckle.questions.suite.answer import SELF, Cell, Flip, Mix, Ratio, Suite
from turnbuckle.questions.suite.portfolio import Estimate
from turnbuckle.show.table import Cell as Shown
from turnbuckle.show.table import Table, cells
from turnbuckle.show.text import (
    DASH,
    MINUS,
    NARROW,
    clean,
    count,
    listed,
    number,
    percent,
    probability,
    shorten,
)

_NAME: Final = 28
#: Machines, today's included, up to which a terminal has room for the ranges of applications by
#: targets.
_WIDE: Final = 4
#: Turns of the ranking that a terminal has room for, and a document.
_TURNS: Final = 8
_PRINTED: Final = 10


def of_suite(suite: Suite, *, short: bool = False) -> list[Table]:
    """Return every table of a suite: run times, the mix, comparisons, money, what the ranking hangs
    on, and what was recorded.

    Parameters
    ----------
    short : for a terminal: call machines by their names and not by their titles, and leave out what
        has no room.
    """
    named = titles(suite, short=short)
    runs, versus = (
        runs_table(suite, named, ranges=not short or len(suite.mixes) <= _WIDE, short=short),
        versus_table(suite, named, today=short),
    )
    flips, recorded = (
        flips_table(suite, named, _TURNS if short else _PRINTED, short=short),
        recorded_table(suite, short=short),
    )
    every = (
        runs,
        mix_table(suite, named),
        versus,
        money_table(suite, named, short=short),
        flips,
        recorded,
    )
    return [table for table in every if table is not None]


def titles(suite: Suite, *, short: bool = False) -> dict[str, str]:
    """Return what each machine is called: its title, or the name that it is asked by, if `short` or
    where two titles are alike.
    """
    words = [
        "today"
        if short and m.target == SELF
        else shorten(clean(m.target if short else m.title), _NAME)
        for m in suite.mixes
    ]
    return {
        m.target: word if words.count(word) == 1 else clean(m.target, _NAME)
        for m, word in zip(suite.mixes, words, strict=True)
    }


def _machine(named: Mapping[str, str], target: str) -> Shown:
    """Return a machine's name as a cell; a name for the command line is never broken into lines."""
    return Shown(
        named[target],
        clean(target),
        tone="code" if named[target] in (target, "today") else "strong",
    )


def ratio(value: Ratio, tone: str = "", *, ranges: bool = True) -> Shown:
    """Return a ratio and, with `ranges`, its range; a range that shows no width is left out.

    >>> ratio(Ratio(1.0432, 1.02, 1.07)).text
    '1.043× [1.02, 1.07]'
    """
    if math.isnan(value.value):
        return Shown("cannot say", tone="fair")
    low, high = f"{value.low:.2f}", f"{value.high:.2f}"
    text = f"{value.value:.3f}×"
    return Shown(text if low == high or not ranges else f"{text} [{low}, {high}]", tone=tone)


def _tone(value: Ratio) -> str:
    """Return the tone of a run time: whether its range lies on one side of today's, by more than
    two runs differ.
    """
    return "good" if value.high < 1.0 - NOISE else "poor" if value.low > 1.0 + NOISE else ""


def runs_table(
    suite: Suite, named: Mapping[str, str], *, ranges: bool = True, short: bool = False
) -> Table:
    """Return applications by targets: run time over recorded, by the coupling alone, and with the
    target's own kernels and host.
    """
    changed = _changes_gpu_or_host(suite)
    targets = [m for m in suite.mixes if m.target != SELF]
    head = [
        "application",
        ">share",
        ">recorded",
        *(["with"] if changed else []),
        *(f">{named[m.target]}" for m in targets),
    ]
    rows: list[list[Shown]] = []
    for a in suite.applications:
        name = Shown(
            shorten(clean(a.name), _NAME), clean(a.name), tone="code" if short else "strong"
        )
        front = [name, Shown(percent(a.share)), Shown(number(a.measured_seconds, "s"))]
        rows += _both(front, a.cells, changed, ranges)
    for group in suite.groups:
        front = [
            Shown(f"group {shorten(clean(group.name), _NAME)}", tone="soft"),
            Shown(percent(group.share)),
            Shown(""),
        ]
        rows += _both(front, [m for m in group.mixes if m.target != SELF], changed, ranges)
    rows += _both(
        [Shown("the mix", tone="strong"), Shown(percent(1.0)), Shown("")], targets, changed, ranges
    )
    caption = (
        "Projected over recorded run time, with its 90 % range; below 1 is faster. The mix: "
        "node-hours on the machine for each "
        "node-hour of today, by the shares. Unknown numbers of a machine are drawn once for all "
        "applications and targets."
    )
    if changed:
        caption += (
            " Coupling: kernels and host stay those of the recording. Own: with the target's own "
            "GPU and host."
        )
    else:
        caption += " Only the coupling changes: kernels and host stay those of the recording."
    if suite.network:
        caption += (
            " On every target, messages between ranks go over the network "
            f"{clean(suite.network, _NAME)}."
        )
    title = f"run time against the recorded, {len(suite.applications)} applications" + (
        "" if ranges or not changed else "; own: with own GPU, host"
    )
    return Table(
        caption, head, rows, title=title, wide=("recorded",) if ranges else ("recorded", "share")
    )


def _changes_gpu_or_host(suite: Suite) -> bool:
    """Return whether any target changes kernels or host as well."""
    return any(c.penalty != c.coupling_alone for a in suite.applications for c in a.cells)


def _both(
    front: list[Shown], each: Sequence[Cell | Mix], changed: bool, ranges: bool
) -> list[list[Shown]]:
    """Return a row by the coupling alone and, where targets have kernels and hosts of their own, a
    second with them.
    """
    alone = [ratio(c.coupling_alone, _tone(c.coupling_alone), ranges=ranges) for c in each]
    if not changed:
        return [[*front, *alone]]
    whole = [c.penalty if isinstance(c, Cell) else c.node_hours for c in each]
    second = [
        ratio(r, _tone(r), ranges=ranges) if r != c.coupling_alone else Shown(DASH)
        for r, c in zip(whole, each, strict=True)
    ]
    blank = [Shown("") for _ in front]
    return [
        [*front, Shown("coupling"), *alone],
        [*blank, Shown("own"), *second],
    ]


def mix_table(suite: Suite, named: Mapping[str, str]) -> Table:
    """Return what each machine does for the mix: node-hours, throughput, SSI, and who loses."""
    best = suite.ranked[0]
    head = [
        "machine",
        ">node-hours",
        ">by coupling",
        ">throughput",
        ">SSI raw",
        ">SSI by rule",
        "loses",
        *([">behind"] if suite.draws else []),
    ]
    rows = []
    for m in suite.ranked:
        raw = (
            Shown(DASH)
            if m.ssi is None or m.unknown
            else Shown(f"{m.ssi.raw.value:.3f}×", ratio(m.ssi.raw).text)
        )
        conformant = (
            DASH
            if m.ssi is None or m.unknown or m.ssi.conformant is None
            else f"{m.ssi.conformant:.3f}×"
        )
        why = (
            ""
            if m.ssi is None or not m.ssi.below
            else f"slower than today: {', '.join(clean(n) for n in m.ssi.below)}"
        )
        loses = (
            listed([shorten(clean(n), _NAME) + ("" if n in m.surely else "?") for n in m.loses])
            or DASH
        )
        ratios = (
            ratio(m.node_hours, _tone(m.node_hours)),
            ratio(m.coupling_alone),
            ratio(m.throughput),
        )
        lost = Shown(clean(m.unknown) or loses, tone="poor" if m.surely else "")
        row = cells(_machine(named, m.target), *ratios, raw, Shown(conformant, why), lost)
        if suite.draws:
            beats = None if m is best else suite.pair(best.target, m.target).beats
            row.append(Shown(DASH if beats is None else probability(beats)))
        rows.append(row)
    caption = (
        "Node-hours: for each node-hour of today. Throughput: its inverse, the weighted harmonic "
        "mean of the speedups. SSI: "
        "weighted geometric mean of capability × utilisation × speedup (NERSC); by rule only "
        "where no application is slower "
        "than today. Loses: applications that take longer than today; with ? where the 90 % "
        "range leaves that open. Behind: how"
        " likely the first machine needs fewer node-hours than this one."
    )
    return Table(
        caption,
        head,
        rows,
        title="the mix, fewest node-hours first",
        wide=("by coupling", "throughput"),
    )


def versus_table(suite: Suite, named: Mapping[str, str], *, today: bool = False) -> Table:
    """Return the break-even premium of each machine over each other one that needs more node-hours;
    with `today` only over today's.
    """
    ranked = suite.answered
    pairs = [
        (better.target, other.target)
        for k, better in enumerate(ranked)
        for other in ranked[k + 1 :]
    ]
    if today:
        pairs = [(m.target, SELF) for m in ranked if m.target != SELF]
    rows = []
    for better, other in pairs:
        v = suite.pair(better, other)
        machines = (_machine(named, better), _machine(named, other))
        odds = (
            Shown(DASH if chance is None else probability(chance))
            for chance in (v.beats, v.cheaper)
        )
        rows.append(cells(*machines, share(v.premium), share(v.premium_by_coupling), *odds))
    caption = (
        "May cost more: the break-even premium, how much more a node of the first machine may "
        "cost than one of the second "
        "before the same work costs more; by coupling: what the closer coupling alone is worth. "
        "Faster: how likely the mix "
        "needs fewer node-hours there; cheaper: how likely it costs less; from common draws, "
        "ties count half."
    )
    head = ["machine", "against", ">may cost more by", ">by coupling", ">faster", ">cheaper"]
    if all(v.cheaper is None for v in suite.versus):
        head, rows = head[:-1], [row[:-1] for row in rows]
    return Table(
        caption,
        head,
        rows,
        title="what a node may cost more" + (" than one of today" if today else ""),
        shown=12,
        wide=("against",) * today,
    )


def share(value: Ratio) -> Shown:
    """Return a relative change and its range.

    >>> share(Ratio(0.25, 0.2, 0.31)).text, share(Ratio(0.0, -0.034, 1.2)).text
    ('+25\\xa0% [+20, +31]', '0.0\\xa0% [−3.4, +120]')
    """
    if math.isnan(value.value):
        return Shown("cannot say", tone="fair")
    middle, low, high = (_percent(v) for v in (value.value, value.low, value.high))
    return Shown(f"{middle}{NARROW}%" + ("" if low == high else f" [{low}, {high}]"))


def _percent(value: float) -> str:
    """Return a change in per cent with its sign."""
    text = f"{value * 100:+.0f}" if abs(value) >= 0.0995 else f"{value * 100:+.1f}"
    return "0.0" if float(text) == 0 else text.replace("-", MINUS)


def money_table(suite: Suite, named: Mapping[str, str], *, short: bool = False) -> Table | None:
    """Return cost and energy of the work of one node-hour of today; None where no price and no
    power is known.

    With `short`, prices and powers are without their ranges: the reader gave them.
    """
    priced = [m for m in suite.mixes if m.cost or m.energy]
    if not priced:
        return None
    currency = clean(suite.portfolio.currency, 12)
    rows = [
        cells(
            _machine(named, m.target),
            _money(m.price, 1.0, ranges=not short),
            _money(m.cost, 1.0),
            _money(m.power, 1.0, ranges=not short),
            _money(m.energy, 3.6e6),
        )
        for m in sorted(priced, key=lambda m: m.cost.value if m.cost else float("inf"))
    ]
    caption = (
        "What the work of one node-hour of today costs there: node-hours times the price of a "
        "node-hour, and times the power of"
        " a node. Prices and powers are the user's."
    )
    head = ["machine", ">price", ">cost", ">power", ">energy"]
    return Table(
        caption,
        head,
        rows,
        title=f"work of one node-hour of today: price, cost [{currency}], power [W], energy [kWh]",
    )


def _money(value: Ratio | Estimate | None, divisor: float, *, ranges: bool = True) -> Shown:
    if value is None or math.isnan(value.value):
        return Shown(DASH)
    middle, low, high = (
        number(v / divisor, "1", all_digits=True) for v in (value.value, value.low, value.high)
    )
    return Shown(middle if low == high or not ranges else f"{middle} [{low}, {high}]")


def flips_table(
    suite: Suite, named: Mapping[str, str], most: int | None = None, *, short: bool = False
) -> Table | None:
    """Return at which share of each application the ranking turns; None where no share of one turns
    it.

    Parameters
    ----------
    most : turns in the table at most, the nearest to today's shares; all of them if left out.
    """
    turns = [f for f in suite.flips if f.flips_at is not None or (f.turns or 0.0) > 1.0 - LEVEL]
    turns.sort(key=lambda f: abs((9.0 if f.flips_at is None else f.flips_at) - f.share))
    if not turns:
        return None
    rows = []
    for f in turns[:most]:
        machines, application = (
            (_machine(named, f.better), _machine(named, f.worse)),
            shorten(clean(f.application), _NAME),
        )
        likely = [] if f.turns is None else [Shown(probability(f.turns))]
        by = f.by.removeprefix("node-") if short else f.by
        rows.append(
            cells(by, *machines, application, Shown(percent(f.share)), Shown(turning(f)), *likely)
        )
    caption = (
        "The share of all node-hours at which both machines come to the same, if this "
        "application grows or shrinks and the "
        "others keep their proportions; nearest to today's first. "
    )
    head = [
        "by" if short else "ranked by",
        "first",
        "against",
        "application",
        ">today" if short else ">share today",
        ">turns at",
    ]
    if suite.draws:
        head.append(">likely")
        caption += (
            "In brackets the 90 % range over the common draws in which some share turns the "
            "ranking; likely: how many of all draws those "
            f"are. {DASH}: no share does at the stated values. Pairs that no share turns there, "
            f"and in at most {percent(1.0 - LEVEL)} of "
            "the draws, are left out."
        )
    else:
        caption += "At the stated values. Pairs that no share turns are left out."
    title = "what turns the ranking"
    if left_out := len(turns) - len(rows):
        title += f", the {len(rows)} nearest of {len(turns)}"
        caption += (
            f" {left_out:,} more, farther from today's share, are in the JSON document and the "
            "workbook."
        )
    return Table(caption, head, rows, title=title, shown=10)


def turning(flip: Flip) -> str:
    """Return the share at which the ranking turns and, where draws have one, its range.

    >>> turning(Flip("cost", "a", "b", "milc", 0.75, 0.42, 0.381, 0.47, 0.99))
    '42\\xa0% [38, 47]'
    """
    text = percent(flip.flips_at)
    if flip.low is None or flip.high is None or percent(flip.low) == text == percent(flip.high):
        return text
    low, high = (percent(v, 2).removesuffix(f"{NARROW}%") for v in (flip.low, flip.high))
    return f"{text} [{low}, {high}]"


def recorded_table(suite: Suite, *, short: bool = False) -> Table | None:
    """Return kernels and copies of each recording (AHEAD, Table I; Shorts and Grant, Table III);
    None where there are none.
    """
    rows = []
    for a in suite.applications:
        r = a.recorded
        if not r.launches and not r.copies:
            continue
        name = Shown(
            shorten(clean(a.name), _NAME), clean(a.name), tone="code" if short else "strong"
        )
        sized = [Shown(count(n) if n else DASH) for n in r.sizes.table_iii]
        spent = (
            number(r.kernel_seconds, "s"),
            number(r.copy_seconds, "s"),
            percent(r.copy_share),
            count(r.copies),
        )
        rows.append(cells(name, *spent, *sized, _mebibytes(r.sizes.mean_bytes)))
    if not rows:
        return None
    head = [
        "application",
        ">kernels",
        ">copies",
        ">share",
        ">count",
        ">< 1 MiB",
        ">< 16",
        ">< 256",
        ">< 4096",
        ">more",
        ">mean MiB",
    ]
    caption = (
        "Sums of the durations of kernels and of copies between host and device, as recorded; "
        "share: of the copies in both. Then how many "
        "copies are below 1, 16, 256 and 4096 MiB and above, each without those of the columns "
        "before it, and the mean size [MiB]."
    )
    unsized = sum(a.recorded.sizes.unsized for a in suite.applications)
    if unsized:
        caption += f" The size of {count(unsized)} copies is not recorded."
    return Table(
        caption,
        head,
        rows,
        title="copies between host and device, as recorded",
        wide=("kernels", "copies", "count"),
    )


def _mebibytes(size: float | None) -> str:
    """Return a size in MiB, without unit.

    >>> _mebibytes(16.85 * 2**20), _mebibytes(8.0)
    ('16.85', '<\\xa00.01')
    """
    if size is None:
        return DASH
    return (
        number(size / 2**20, "1", 4, all_digits=True) if size >= 0.01 * 2**20 else f"<{NARROW}0.01"
    )
