"""From numbers to words: is a target inside the line, over it, or is that not known yet?

The line is a slowdown of 5 %.  A target is decided when its whole 90 % interval lies on one side;
otherwise the verdict says how likely it is inside, and which number to measure.  No target is
called inside where host calls are missing (finding A365), since changes are larger than computed,
or where the run is all start-up (finding P220), since it says nothing of a longer one; a target
that is faster or over the line stays so.  Where the two replays disagree (finding A390), or how
often kernels read host memory decides (A399), and the range lets the target be faster or not, it
cannot be told.

``docs/start.md`` lists every verdict with its thresholds; a test compares that table with this
module.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from turnbuckle.projection.projection import NOISE, PARTS, Projection
from turnbuckle.show.figures.look import colours
from turnbuckle.show.text import (
    NARROW,
    bounds,
    clean,
    listed,
    percent,
    probability,
    seconds,
    shorten,
    signed,
)
from turnbuckle.show.unknowns import advice, unknown_label

LINE: Final = 0.05
#: Slowdowns that a target inside the line is said to stay within, smallest first.
STEPS: Final = (0.01, 0.02, LINE)
#: A target whose whole interval lies beyond this is said to be over it.
FAR: Final = 0.10

#: Findings that withhold a verdict, and why.
_WITHHELD: Final = {"A365": "host calls are missing", "P220": "the run is all start-up"}

Kind = Literal["self", "faster", "inside", "undecided", "over", "unknown"]

#: Findings that an answer hangs on what the recording does not tell, and the verdict where the
#: range decides nothing.
_APART: Final = {
    "A390": "cannot say, the two replays disagree",
    "A399": "cannot say, how often kernels read host memory decides",
}
#: Which of the two answers of a target is told, in words: of one target, and of several.
OWN: Final = ("with its own GPU and host", "with their own GPUs and hosts")
ALONE: Final = "by the coupling alone"


@dataclass(frozen=True)
class Verdict:
    """What one target does to the run, in words.

    A target with a GPU or a host of its own has two answers, `machine` and `coupling`.  A verdict
    is about the one whose range holds the other, so that no headline contradicts the other answer;
    where neither does, about the machine as it is.

    Attributes
    ----------
    projection, name, colour : the answer told; the name is the machine's title, or what it is asked
        by where two titles are alike, fit to print.
    whole : the target as it is; `projection` itself where that is the answer told.
    change : slowdown at the stated values (0.05 is 5 % slower).
    low, high : the interval of the change; equal to `change` where nothing was drawn.
    half_low, half_high : the middle half of the draws.
    inside : probability that the change is at most `LINE`; None where nothing was drawn.
    kind, words : the verdict.
    unknown : name of the number that moves the answer most; empty where nothing does.
    withheld : why a target inside the line is undecided all the same; empty for every other.
    machine, coupling : both answers, with the target's own GPU and host and by its coupling alone;
        None where only the coupling changes.
    """

    projection: Projection
    whole: Projection
    name: str
    colour: str
    change: float
    low: float
    high: float
    half_low: float
    half_high: float
    inside: float | None
    kind: Kind
    words: str
    unknown: str = ""
    withheld: str = ""
    machine: Verdict | None = None
    coupling: Verdict | None = None

    @property
    def interval(self) -> str:
        """Return the interval for print; empty where nothing was drawn."""
        return "" if self.inside is None or self.kind == "self" else bounds(self.low, self.high)

    @property
    def sure(self) -> str:
        """Return how likely the target is inside the line."""
        return "" if self.inside is None else probability(self.inside)

    @property
    def owns(self) -> bool:
        """Return whether the answer told is the one with the target's own GPU and host."""
        return self.machine is not None and self.projection is self.whole

    @property
    def label(self) -> str:
        """Return the name and, of a target with two answers, which of them is told."""
        if self.coupling is None:
            return self.name
        return f"{self.name}, {OWN[0] if self.owns else ALONE},"


def verdicts(projections: list[Projection]) -> list[Verdict]:
    """Return one verdict for each projection, in the same order."""
    colour = colours([p.target for p in projections])
    return [_told(p, n, c) for p, n, c in zip(projections, names(projections), colour, strict=True)]


def _told(whole: Projection, name: str, colour: str) -> Verdict:
    """Return the verdict of the answer that is told, with both."""
    machine = _verdict(whole, name, colour)
    if whole.alone is None:
        return machine
    coupling = _verdict(whole.alone, name, colour)
    wider = (
        coupling.low <= machine.low
        and machine.high <= coupling.high
        and coupling.low < coupling.high
    )
    told = coupling if wider or whole.unknown else machine
    return replace(told, whole=whole, machine=machine, coupling=coupling)


def in_words(projection: Projection) -> str:
    """Return the verdict of one projection, in characters that a program reads: no space that holds
    words together.
    """
    return _verdict(projection, "", "").words.replace(NARROW, " ")


def cannot_say(projection: Projection) -> str:
    """Return the verdict of a projection without numbers: what would have to be known."""
    return f"cannot say: {clean(projection.unknown)}"


def which(targets: list[Verdict]) -> str:
    """Say which of the two answers of a target is told: with its own GPU and host, or by its
    coupling alone.
    """
    asked = [v for v in targets if v.kind != "self"]
    own, alone = [v.name for v in asked if v.owns], [v.name for v in asked if not v.owns]
    if not own:
        return ALONE
    with_own = OWN[len(own) > 1]
    rest = listed(alone) if len(alone) == 1 else "the others"
    return f"{listed(own)}: {with_own}; {rest}: {ALONE}" if alone else with_own


def names(projections: list[Projection]) -> list[str]:
    """Return what each target is called: its title, or the name that it is asked by where that is
    all or another has the same title.
    """
    titles = [
        shorten(clean("The same machine" if p.target == "self" else p.title or p.target), 40)
        for p in projections
    ]
    networks = [
        "" if p.network is None else f" on {shorten(clean(p.network.target.name), 24)}"
        for p in projections
    ]
    titles = [title + network for title, network in zip(titles, networks, strict=True)]
    return [
        shorten(clean(p.target), 40) if titles.count(t) > 1 else t
        for p, t in zip(projections, titles, strict=True)
    ]


def _verdict(p: Projection, name: str, colour: str) -> Verdict:
    """Return the verdict of one answer."""
    if p.unknown:
        nan = math.nan
        return Verdict(p, p, name, colour, nan, nan, nan, nan, nan, None, "unknown", cannot_say(p))
    measured = p.measured_seconds or 1.0
    change = p.penalty - 1.0
    low = high = half_low = half_high = change
    inside: float | None = None
    if p.interval is not None:
        low, high = p.interval.low / measured - 1.0, p.interval.high / measured - 1.0
        half_low, half_high = low, high
    if p.sample is not None and p.interval is not None:
        quarters = np.quantile(p.sample, [0.25, 0.75]) / measured - 1.0
        half_low, half_high = min(float(quarters[0]), change), max(float(quarters[1]), change)
        inside = float(np.mean(p.sample <= measured * (1.0 + LINE)))
    unknown = next(iter(p.drivers), "")
    kind = _kind(p, low, high)
    words = _words(kind, low, high, inside)
    withheld = next(
        (
            why
            for code, why in _WITHHELD.items()
            if kind == "inside" and any(f.code == code for f in p.findings)
        ),
        "",
    )
    if withheld:
        kind, words = "undecided", f"undecided, {withheld}"
    if any(f.code == "M112" for f in p.findings):
        kind, words, withheld = "undecided", "cannot say", "the source has one memory and no link"
    cannot = next(
        (words for code, words in _APART.items() if any(f.code == code for f in p.findings)), ""
    )
    if cannot and not decided(kind, low):
        kind, words, withheld = "undecided", cannot, cannot.partition(", ")[2]
    return Verdict(
        p,
        p,
        name,
        colour,
        change,
        low,
        high,
        half_low,
        half_high,
        inside,
        kind,
        words,
        unknown,
        withheld,
    )


def _kind(p: Projection, low: float, high: float) -> Kind:
    if p.as_recorded:
        return "self"
    if high < -NOISE:
        return "faster"
    if high <= LINE:
        return "inside"
    return "over" if low > LINE else "undecided"


def decided(kind: Kind, low: float) -> bool:
    """Return whether the whole interval of a change, from `low`, lies on one side of no change at
    all, or of the line.
    """
    return kind in ("self", "faster", "over") or (kind == "inside" and low >= -NOISE)


def _words(kind: Kind, low: float, high: float, inside: float | None) -> str:
    if kind == "self":
        return "as recorded"
    if kind == "faster":
        return "faster"
    if kind == "over":
        return f"over {percent(FAR if low > FAR else LINE)}"
    if kind == "undecided":
        return (
            f"undecided at {percent(LINE)}"
            if inside is None
            else f"undecided, {probability(inside)} within {percent(LINE)}"
        )
    step = next(s for s in STEPS if high <= s)
    return f"within {percent(step)}" + (", perhaps faster" if low < -NOISE else "")


def headline(targets: list[Verdict]) -> str:
    """Return the verdicts in one short sentence, for who reads nothing else, and which answers it
    is about; empty without targets.
    """
    asked = [v for v in targets if v.kind != "self"]
    if not asked:
        return ""
    of_kind = {
        kind: [v for v in asked if v.kind == kind]
        for kind in ("faster", "inside", "undecided", "over", "unknown")
    }
    counted = _counted(list(of_kind.values()), len(asked))
    faster, inside, undecided, over, unknown = of_kind.values()
    parts = [] if faster or len(asked) == 1 else ["no machine asked is surely faster"]
    if faster:
        best = min(faster, key=lambda v: v.change)
        gain = f"{signed(-best.change).lstrip('+')} faster{_range(best)}"
        parts.append(
            f"{best.name} is {gain}"
            if len(faster) == 1
            else f"{counted[0]} are faster, {best.name} most: {gain}"
        )
    if inside:
        parts.append(
            f"{counted[1]} {_verb(inside, 'stays', 'stay')} within {percent(LINE)} of the "
            "recorded time"
        )
    if undecided:
        likely = listed(
            [probability(v.inside) for v in undecided if v.inside is not None and not v.withheld]
        )
        alone = _undecided(undecided[0]) if len(undecided) == 1 else ""
        parts.append(
            alone
            or f"{counted[2]} are undecided at {percent(LINE)}"
            + (f" ({likely} likely within it)" if likely and len(undecided) <= 3 else "")
        )
    if over:
        worst = max(over, key=lambda v: v.change)
        loss = f"{signed(worst.change)}{' ' + worst.interval if worst.interval else ''}"
        most = f"{worst.name} most: {loss}" if len(over) > 1 else loss
        parts.append(
            f"{counted[3]} {_verb(over, 'costs', 'cost')} more than {percent(LINE)}, {most}"
        )
    parts += [_times(v) for v in unknown]
    unsaid = [
        f" {capital(OWN[0])} {_times(v.machine)}."
        for v in asked
        if v.machine is not None and v.machine.kind == "unknown"
    ]
    return _saying_which("; ".join(parts), asked) + "".join(unsaid)


def _saying_which(text: str, asked: list[Verdict]) -> str:
    """Return a sentence that says which of the two answers of each target it is about."""
    told = which(asked)
    if len({v.owns for v in asked}) == 1:
        return f"{capital(told)}, {text}."
    return f"{capital(text)}. {capital(told)}."


def capital(text: str) -> str:
    """Return a text with its first letter as a capital, and the others as they are."""
    return text[:1].upper() + text[1:]


def _counted(groups: list[list[Verdict]], asked: int) -> list[str]:
    """Return the name of a group's only target, and otherwise their number; the first number says
    of how many.
    """
    words, first = [], True
    for group in groups:
        number = (
            ("both" if asked == 2 else f"all {asked}") if len(group) == asked else str(len(group))
        )
        words.append(
            group[0].name
            if len(group) == 1
            else f"{number} {f'of {asked} ' * (len(group) < asked)}machines"
            if first
            else number
        )
        first = first and len(group) < 2
    return words


def sentence(targets: list[Verdict], measured_seconds: float) -> str:
    """Return the whole answer in one sentence, from the numbers."""
    asked = [v for v in targets if v.kind != "self"]
    if not asked:
        return (
            f"The run took {seconds(measured_seconds)}; nothing was projected, so this report "
            "only says what was recorded."
        )
    parts: list[str] = []
    if faster := [v for v in asked if v.kind == "faster"]:
        clause = listed(
            [f"{v.name} is {signed(-v.change).lstrip('+')} faster{_range(v)}" for v in faster]
        )
        parts.append(clause)
    if inside := [v for v in asked if v.kind == "inside"]:
        least = min((v.inside for v in inside if v.inside is not None), default=None)
        sure = (
            ""
            if least is None
            else f" ({'each ' if len(inside) > 1 else ''}with probability {probability(least)})"
        )
        parts.append(
            f"{listed([v.name for v in inside])} {_verb(inside, 'stays', 'stay')} within "
            f"{percent(LINE)} of the recorded time{sure}"
        )
    if undecided := [v for v in asked if v.kind == "undecided"]:
        measure = list(
            dict.fromkeys(
                f"the {unknown_label(v.unknown)}" for v in undecided if v.unknown and not v.withheld
            )
        )
        parts.append(
            listed([_undecided(v) for v in undecided])
            + (f"; to be sure, measure {listed(measure)}" if measure else "")
        )
    if over := [v for v in asked if v.kind == "over"]:
        clause = listed(
            [
                f"{v.name} ({signed(v.change)}{', ' + v.interval if v.interval else ''})"
                for v in over
            ]
        )
        parts.append(f"{clause} {_verb(over, 'lies', 'lie')} beyond {percent(LINE)}")
    parts += [_times(v) for v in asked if v.kind == "unknown"]
    uniform = len({v.owns for v in asked}) == 1
    by = f", {which(asked)}," if uniform else ""
    rest = "" if uniform else f" {capital(which(asked))}."
    for v in asked:
        if other := v.coupling if v.owns else v.machine:
            rest += f" {capital(ALONE if v.owns else OWN[0])} {_times(other)}."
    return (
        f"Against the recorded {seconds(measured_seconds)}{by or ','} "
        + "; ".join(parts)
        + "."
        + rest
    )


def _times(v: Verdict) -> str:
    """Say how much longer or shorter a run takes on a target, with its interval; or what would have
    to be known.
    """
    p = v.projection
    if p.unknown:
        return f"{v.name} cannot be told ({clean(p.unknown)} is not stated)"
    measured = p.measured_seconds or 1.0
    interval = f", {bounds(*(end / measured - 1.0 for end in p.ends))}" if p.interval else ""
    return f"{v.name} takes {seconds(p.seconds)} ({signed(v.change)}{interval})"


def _undecided(v: Verdict) -> str:
    if v.withheld or v.inside is None:
        return f"{v.name} is undecided at {percent(LINE)}" + (
            f" ({v.withheld})" if v.withheld else ""
        )
    return f"{v.name} is {v.sure} likely to cost less than {percent(LINE)}"


def _range(v: Verdict) -> str:
    return (
        ""
        if v.inside is None
        else f" ({signed(-v.high).lstrip('+')} to {signed(-v.low).lstrip('+')})"
    )


def _verb(of: list[Verdict], singular: str, plural: str) -> str:
    return singular if len(of) == 1 else plural


def on_timeline(targets: list[Verdict]) -> bool:
    """Return whether the answers are the timeline's: their parts then add up along the critical
    path, not over exposed time.
    """
    return any(v.projection.replay == "timeline" for v in targets if v.kind != "self")


def three_sentences(targets: list[Verdict]) -> list[str]:
    """Return what the run is made of, what the best target gains and where, what the worst loses
    and where.
    """
    asked = [v for v in targets if v.kind != "self"]
    if not asked:
        return []
    p = asked[0].projection
    where = "time on the critical path" if on_timeline(targets) else "recorded time"
    hidden = "" if on_timeline(targets) else " that no kernel hides"
    late = (
        "launches and other deliveries to an idle device"
        if on_timeline(targets)
        else "launches of an idle device"
    )
    shares = {
        k: v / p.measured_seconds if p.measured_seconds else 0.0
        for k, v in p.measured_breakdown.items()
    }
    out = [
        f"Of the {where}, {percent(shares['copy'])} is copies{hidden}, "
        f"{percent(shares['launch'])} is {late}, "
        f"{percent(shares['kernel'])} is kernels and {percent(shares['other'])} is everything "
        "else; a coupling acts on "
        "the first two and on waiting calls."
    ]
    asked = [v for v in asked if v.kind != "unknown"] or asked
    best, worst = min(asked, key=lambda v: v.change), max(asked, key=lambda v: v.change)
    if best.change < -NOISE:
        out.append(
            f"The largest gain is {best.label.rstrip(',')}: {signed(best.change)} "
            f"{best.interval or '(no interval drawn)'}, "
            f"{_where(best.projection, -1)}."
        )
    else:
        out.append(
            "No target asked is faster than the recorded machine by more than two runs of "
            f"one program differ ({percent(NOISE)})."
        )
    if worst is not best and worst.change > NOISE:
        out.append(
            f"The largest loss is {worst.label.rstrip(',')}: {signed(worst.change)} "
            f"{worst.interval or '(no interval drawn)'}, "
            f"{_where(worst.projection, 1)}."
        )
    else:
        out.append(
            "No target asked is slower than the recorded machine by more than two runs of "
            f"one program differ ({percent(NOISE)})."
        )
    return out


def _where(p: Projection, sign: int) -> str:
    """Return which parts the change comes from, the largest first."""
    change = {part: sign * p.change[part] for part in PARTS}
    total = sum(c for c in change.values() if c > 0)
    named = {
        "copy": "copies",
        "launch": "launches",
        "kernel": "kernels",
        "other": "waiting and other host calls",
    }
    against = -sum(c for c in change.values() if c < 0)
    if against > 0.1 * (total - against) > 0:
        # the critical path took another way: what one part loses another gains
        parts = sorted(change.items(), key=lambda kv: -abs(kv[1]))
        return (
            listed(
                [
                    f"{named[k]} {signed(sign * c / (p.measured_seconds or 1.0))}"
                    for k, c in parts
                    if abs(c) > 0.05 * total
                ]
            )
            + " of the run"
        )
    top = [
        (part, c / total)
        for part, c in sorted(change.items(), key=lambda kv: -kv[1])
        if total > 0 and c / total >= 0.05
    ]
    if len(top) == 1:
        return (
            f"nearly all of it in {named[top[0][0]]}"
            if top[0][1] < 0.9995
            else f"all of it in {named[top[0][0]]}"
        )
    return (
        listed([f"{percent(share, 2)} of it in {named[part]}" for part, share in top])
        if top
        else "spread over all parts"
    )


def what_would_change(targets: list[Verdict]) -> list[str]:
    """Return what could turn a verdict round: the unknown behind it, the order of activities, a
    finding.
    """
    out = []
    warned: dict[str, tuple[str, list[str]]] = {}
    for v in targets:
        if v.kind in ("self", "unknown"):
            continue
        p, m = v.projection, v.projection.measured_seconds or 1.0
        best, worst = p.envelope[0] / m - 1.0, p.envelope[1] / m - 1.0
        if v.kind == "undecided" and v.unknown and not v.withheld:
            out.append(f"{v.name}: {unknown_label(v.unknown)} decides; {advice(v.unknown)}.")
        elif v.kind in ("inside", "faster") and worst > LINE:
            out.append(
                f"{v.name}: if the run lost the overlap it has (every delay exposed, no saving), "
                "it could reach "
                f"{signed(worst)}{'; the timeline replay would tell' if p.replay == 'sum' else ''}."
            )
        elif v.kind == "over" and best <= LINE:
            hiding = (
                "delays hidden behind other work"
                if p.replay == "sum"
                else "an order of the same calls that hides more of the delays"
            )
            out.append(f"{v.name}: {hiding} could bring it down to {signed(best)} at best.")
        for f in v.whole.findings:
            if f.severity == "warning":
                warned.setdefault(f.code, (f.meaning, []))[1].append(
                    f"{v.name}{' (' + clean(f.detail) + ')' if f.detail else ''}"
                )
    return out + [
        f"{code}, {meaning}: {'; '.join(where)}."
        for code, (meaning, where) in sorted(warned.items())
    ]
