"""The page of a suite: which machine for the mix, who gains and who loses, what a node may cost
more, what turns the ranking.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from turnbuckle.foundation import registry
from turnbuckle.foundation.files import goal, whole
from turnbuckle.foundation.findings import Finding
from turnbuckle.projection.uncertainty import LEVEL
from turnbuckle.questions.suite.answer import SELF, Flip, Mix, Suite
from turnbuckle.questions.suite.figures import (
    first_place,
    map_figure,
    mix_figure,
    nearest_turn,
    parts_figure,
    premium_figure,
    turn_figure,
)
from turnbuckle.questions.suite.recorded_figures import recorded_figures
from turnbuckle.questions.suite.tables import (
    flips_table,
    mix_table,
    money_table,
    recorded_table,
    runs_table,
    share,
    titles,
    versus_table,
)
from turnbuckle.show.table import Table, cells
from turnbuckle.show.text import clean, listed, percent, plural, probability, signed
from turnbuckle.show.verdict import capital

QUESTION: Final = "Which machine for this mix of programs?"
#: Sections in the order of the page: key, title.
SECTIONS: Final = (
    ("answer", "Answer"),
    ("applications", "Who gains and who loses"),
    ("cost", "What it may cost"),
    ("turns", "What turns the ranking"),
    ("runs", "What was recorded"),
    ("validity", "What to know of it"),
    ("provenance", "Provenance"),
)


#: Machines, today's included, up to which the table of applications has room for ranges; the map
#: above it has them.
_RANGES: Final = 5


def write(suite: Suite, path: str | Path) -> Path:
    """Write the page of a suite, and return its path.  Raises R001 to R004, R006, R007."""
    place = goal(path, "the page", "suite.html")
    text = page(suite)
    with whole(place, "the page") as beside:
        beside.write_text(text, encoding="utf-8", newline="\n")
    return place


def page(suite: Suite) -> str:
    """Return the page as text."""
    named = titles(suite)
    turn = turn_figure(suite)
    premium = premium_figure(suite)
    money = [
        table
        for table in (versus_table(suite, named), money_table(suite, named))
        if table is not None
    ]
    flips = flips_table(suite, named)
    no_turn = (
        ""
        if flips
        else (
            "No share of one application turns the ranking of the first machine and "
            f"another{_in_draws(suite.flips)}."
        )
    )
    sections: dict[str, dict[str, Any]] = {
        "answer": _section([mix_figure(suite)], [mix_table(suite, named)]),
        "applications": _section(
            [map_figure(suite), parts_figure(suite)],
            [runs_table(suite, named, ranges=len(suite.mixes) <= _RANGES)],
        ),
        "cost": _section([premium] if premium else [], money),
        "turns": _section([turn] if turn else [], [flips] if flips else [], no_turn),
        "runs": _section(
            recorded_figures(suite), [*filter(None, [recorded_table(suite)]), _recordings(suite)]
        ),
        "validity": _section([], [_findings(suite)], _doubts(suite)),
        "provenance": _section(
            [],
            [],
            text=json.dumps(
                suite.as_dict()["provenance"], indent=2, ensure_ascii=True, default=str
            ),
        ),
    }
    asked = [named[m.target] for m in suite.mixes if m.target != SELF]
    text: str = registry.load("services", "page of")(
        "workload.html.j2",
        sections,
        question=QUESTION,
        count=plural(len(suite.applications), "program")
        + (f": {clean(suite.name)}" if suite.name else ""),
        answer=[*sentences(suite), *([f"{capital(suite.accuracy)}."] if suite.accuracy else [])],
        names=[*named.values(), *(clean(a.name) for a in suite.applications)],
        synthetic=_synthetic(suite),
        contents=SECTIONS,
        facts=[
            ("machines", listed(asked)),
            (
                "recorded on",
                listed(list(dict.fromkeys(clean(a.machine) for a in suite.applications))),
            ),
            *([("network", clean(suite.network))] if suite.network else []),
            (
                "draws",
                f"{suite.draws:,}, common to all programs and machines; seed {suite.seed}"
                if suite.draws
                else "none",
            ),
        ],
    )
    return text


def _section(
    figures: list[Any], tables: list[Table], words: str = "", text: str = ""
) -> dict[str, Any]:
    return {"figures": figures, "tables": tables, "words": words, "text": text}


def sentences(suite: Suite) -> list[str]:
    """Return the answer: the best machine for the mix, who loses on it, what it may cost, and what
    would turn the ranking.
    """
    named, (best, *rest) = titles(suite), suite.ranked
    return [
        " ".join(filter(None, (_first(suite, named, best, rest), _losers(best)))),
        _worth(suite, named, best),
        _turns(suite, named),
    ]


def _first(suite: Suite, named: dict[str, str], best: Mix, rest: list[Mix]) -> str:
    if best.target == SELF:
        return "No machine asked needs fewer node-hours for this mix than today's."
    h = best.told
    words = (
        f"For this mix {named[best.target]} needs the fewest node-hours: {best.which} "
        f"{signed(h.value - 1)}"
    )
    words += (
        f" against today, 90 % range {signed(h.low - 1)} to {signed(h.high - 1)}"
        if suite.draws
        else " against today"
    )
    beats = suite.pair(best.target, rest[0].target).beats
    return words + (
        f"; {probability(beats)} likely fewer than {named[rest[0].target]}."
        if beats is not None
        else "."
    )


def _losers(best: Mix) -> str:
    if best.target == SELF:
        return ""
    if not best.loses:
        return "At the stated values no program loses on it."
    surely = [clean(n) for n in best.loses if n in best.surely]
    perhaps = [clean(n) for n in best.loses if n not in best.surely]
    parts = [
        f"{listed(some)} {word}"
        for some, word in ((surely, "lose on it"), (perhaps, "may lose on it"))
        if some
    ]
    return f"{'; '.join(parts)}."


def _worth(suite: Suite, named: dict[str, str], best: Mix) -> str:
    others = [m for m in suite.mixes if m.target != SELF]
    m = (
        best
        if best.target != SELF
        else max(others, key=lambda m: suite.pair(m.target, SELF).premium_by_coupling.value)
    )
    if m.unknown:
        return (
            f"What a node of {named[m.target]} may cost cannot be said: {clean(m.unknown)} is not "
            "stated."
        )
    v = suite.pair(m.target, SELF)
    worth = (
        f"A node of {named[m.target]} pays up to a price of {share(v.premium).text} against one "
        "of today"
    )
    if m.node_hours != m.coupling_alone:
        worth += f"; its coupling alone is worth {share(v.premium_by_coupling).text}"
    if suite.mixes[0].price and m.price:
        worth += f". It asks {signed(m.price.value / suite.mixes[0].price.value - 1)}"
        worth += f": {probability(v.cheaper)} likely to pay" if v.cheaper is not None else ""
    return worth + "."


def _turns(suite: Suite, named: dict[str, str]) -> str:
    turn = nearest_turn(suite)
    if turn is None or turn.flips_at is None:
        if len(suite.applications) < 2:
            return ""
        return (
            "At the stated values no change of one program's share turns "
            f"this{_in_draws(first_place(suite))}."
        )
    side = "more than" if turn.flips_at > turn.share else "less than"
    return (
        f"By {turn.by}, {named[turn.better]} is first; {named[turn.worse]} takes its place where "
        f"{clean(turn.application)} has {side} "
        f"{percent(turn.flips_at)} of the node-hours (today {percent(turn.share)}){_spread(turn)}."
    )


def _spread(turn: Flip) -> str:
    """Return the range of the share at which the ranking turns, in words; empty without draws."""
    if turn.turns is None:
        return ""
    if turn.low is None or turn.high is None:
        return "; in no draw of what is unknown does a share turn it"
    ends = f"{percent(turn.low)} to {percent(turn.high)}"
    return (
        f"; 90 % range {ends} over the {probability(turn.turns)} of the draws in which a share "
        "turns it"
    )


def _in_draws(flips: Sequence[Flip]) -> str:
    """Return in how many draws some share turns the ranking, in words; empty without draws."""
    most = max((f.turns for f in flips if f.turns is not None), default=None)
    return "" if most is None else f"; in {probability(most)} of the draws one does"


def _synthetic(suite: Suite) -> str:
    made = [
        clean(a.name)
        for a in suite.applications
        if "synthetic" in str(a.provenance["profile"].get("profiler_version") or "").lower()
    ]
    return listed(made)


def _recordings(suite: Suite) -> Table:
    rows = []
    for a in suite.applications:
        profile = a.provenance["profile"]
        file = clean(profile.get("file") or "")
        rows.append(
            cells(
                clean(a.name),
                clean(a.group) or "",
                percent(a.share),
                file,
                clean(a.machine),
                a.replay,
                str(len(a.findings)),
            )
        )
    head = ["program", "group", ">share", "recording", "recorded on", "replay", ">findings"]
    return Table("Recordings of the workload; share: of the node-hours of today.", head, rows)


def _findings(suite: Suite) -> Table:
    seen: dict[str, tuple[Finding, list[str]]] = {}
    for a in suite.applications:
        for f in a.findings:
            seen.setdefault(f.code, (f, []))[1].append(clean(a.name))
    order = ("error", "warning", "info")
    ranked = sorted(seen.values(), key=lambda pair: (order.index(pair[0].severity), pair[0].code))
    rows = [cells(f.code, f.severity, f.meaning, listed(of), clean(f.advice)) for f, of in ranked]
    return Table(
        "Flaws of the recordings, and what was assumed.",
        ["code", "severity", "meaning", "programs", "what to do"],
        rows,
        shown=8,
    )


def _doubts(suite: Suite) -> str:
    machines = {a.machine for a in suite.applications}
    words = (
        f"Ranges hold {percent(LEVEL)} of the draws of the errors that machine files and "
        "recordings state; errors that nobody stated come "
        "on top. A number with one name is drawn once for all programs, so errors of a machine "
        "do not average out over the mix."
    )
    if len(machines) > 1:
        words += (
            f" The programs were recorded on {len(machines)} machines: today is each one's own."
        )
    return words
