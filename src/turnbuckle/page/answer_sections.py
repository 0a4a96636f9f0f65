"""Sections made from the projections: answer, comparison, projections, uncertainty, validity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from turnbuckle.foundation.findings import Finding
from turnbuckle.machine import Machine, Pair
from turnbuckle.page.charts import answer_charts
from turnbuckle.projection.admission import ports
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.projection.model import Port, ported
from turnbuckle.projection.projection import PARTS
from turnbuckle.projection.run import Run
from turnbuckle.questions.inspect.first import bound, saved_by
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.findings_table import severity_cell, what_to_do
from turnbuckle.show.table import Cell, Table, cells
from turnbuckle.show.target_table import ranged, targets_table
from turnbuckle.show.text import (
    DASH,
    clean,
    count,
    factor,
    listed,
    number,
    percent,
    probability,
    seconds,
    signed,
    terms,
)
from turnbuckle.show.unknowns import advice, unknown_label
from turnbuckle.show.verdict import (
    Verdict,
    cannot_say,
    capital,
    on_timeline,
    three_sentences,
    what_would_change,
    which,
)

_HELD: Final = terms("held up")
_WORK: Final = terms("tenth less")


def _held_up(run: Run) -> list[str]:
    """Say what holds a run up, from what a tenth less of each kind of work saves; nothing where
    that cannot be told.
    """
    saved, _ = saved_by(run)
    if not saved:
        return []
    worth = sorted(saved, key=lambda kind: -saved[kind])
    changes = [f"{_WORK[kind]} {signed(-saved[kind])}" for kind in worth[:3]]
    return [f"{_HELD[bound(run, saved)]}. With a tenth less of each: {', '.join(changes)}."]


def answer_section(
    answer: Answer, targets: list[Verdict], distance: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the first two pages: verdict strip; sentences, what would change the answer, and the
    table of all targets.
    """
    if not targets:
        return {"figures": [], "sentences": [*distance], "turns": [], "table": None}
    return {
        "figures": [answer_charts.verdict_strip(targets)],
        "sentences": [*_held_up(answer.run), *three_sentences(targets), *distance],
        "turns": what_would_change(targets),
        "table": targets_table(targets),
    }


def _ports_table(answer: Answer, targets: list[Verdict]) -> Table | None:
    """Return each target that a program can be ported to in several ways, by port; None where there
    is none.
    """
    if answer.model is None or answer.model.machine_free:
        return None
    model, rows = answer.model, []
    for v, declared in zip(targets, answer.targets, strict=True):
        target = Pair(answer.run.source, declared).target
        allowed = ports(target)
        if v.kind == "self" or len(allowed) < 2:
            continue
        # where there are two memories, a program that says nothing is ported as it is
        by_port = {model.port or ("" if target.copies_vanish else "as-is"): v.whole}
        for port in set(allowed) - set(by_port):
            ask = answer.run.project(
                [declared],
                model=ported(model, port),
                draws=answer.draws,
                seed=answer.seed,
                network=answer.network,
            )
            by_port[port] = ask.projections[0]
        for words, p in ((_PORTS[port], by_port[port]) for port in allowed):
            copies = DASH if p.copies is None else number(p.copies.seconds, "s")
            times = (DASH, cannot_say(p)) if p.unknown else (seconds(p.seconds), ranged(p))
            rows.append(
                cells(
                    Cell(v.name, tone="strong", colour=v.colour),
                    words,
                    copies,
                    *times,
                    ranged(p.by_coupling),
                )
            )
    caption = (
        "What becomes of copies where the machine allows several ways. As it is: they stay, at "
        "the rate of the link or of a copy "
        "inside the package. Zero copy: they are dropped, and kernels work on memory that the "
        "host allocated; over a link each "
        "read crosses it. Managed: pages move, at the rate that the machine file states. "
        "Without a choice, copies are dropped where there is one memory, and the range holds "
        "that they stay. Time and penalty: the machine as it is; coupling penalty: with the "
        "kernels and the host of the recording."
    )
    head = ["target", "port", ">all copies", ">time", ">penalty", ">coupling penalty"]
    return Table(caption, head, rows, title="ways to port the program") if rows else None


#: Ways to port a program to one memory, in words.
_PORTS: Final[dict[Port, str]] = {
    "as-is": "as it is",
    "zero-copy": "zero copy",
    "managed": "managed memory",
}


def comparison_section(answer: Answer, targets: list[Verdict]) -> dict[str, Any]:
    """Return the probabilities that the target of a row is faster than the target of a column."""
    chance = answer.faster()
    drawn = [v for v in targets if v.projection.target in chance]
    if len(drawn) < 2:
        return {"table": None}
    rows = []
    for a in drawn:
        row: list[Cell] = [Cell(a.name, tone="strong", colour=a.colour)]
        for b in drawn:
            p = chance[a.projection.target].get(b.projection.target)
            row.append(
                Cell("", tone="blank")
                if p is None
                else Cell(
                    probability(p),
                    f"{a.name} is faster than {b.name} in {percent(p)} of the draws",
                    bar=p,
                    tone="heat",
                )
            )
        rows.append(row)
    caption = (
        "Probability that the target of the row is faster than the target of the column. All "
        "targets use the same draws, "
        "so shared errors cancel. Draws that differ by less than two runs of one program do (0.5 "
        "%) are ties, which count half. "
        "Machines as they are, with their own GPU and host where they have one."
    )
    return {"table": Table(caption, ["", *(f"^{v.name}" for v in drawn)], rows, kind="matrix")}


def projection_section(answer: Answer, targets: list[Verdict]) -> dict[str, Any]:
    """Return the breakdown of every target, the steps from the recorded run to it, the run without
    start-up, and ways to port it.
    """
    if not targets:
        return {"figures": [], "steps": [], "table": None, "others": []}
    rows = []
    said = [v for v in targets if v.kind != "unknown"]
    for v in said:
        p = v.projection
        deltas = [p.change[part] for part in PARTS]
        rows.append(
            cells(
                Cell(v.name, tone="strong", colour=v.colour),
                *(_delta(d, p.measured_seconds) for d in deltas),
                _delta(p.seconds - p.measured_seconds, p.measured_seconds),
                seconds(p.seconds),
            )
        )
    head = [
        "target",
        *(f">{answer_charts.part_words(targets[0].projection.replay)[part]}" for part in PARTS),
        ">in all",
        ">projected",
    ]
    shown = [v for v in said if v.kind != "self"]
    return {
        "figures": [answer_charts.breakdown(targets)],
        "steps": named([answer_charts.steps(v) for v in shown]),
        "table": Table(
            (
                "Which parts the change of the run time comes from, against the recorded run, "
                f"{which(targets)}."
            )
            + (
                (
                    " On the way the critical path may go over to other work: this is not the "
                    "difference of two paths."
                )
                * on_timeline(targets)
            ),
            head,
            rows,
        ),
        "others": [t for t in (_sums_table(said), _ports_table(answer, targets)) if t],
    }


def _sums_table(targets: list[Verdict]) -> Table | None:
    """Return launches, kernels and copies added up, recorded and on each target (Groves et al.
    2022, Fig 10).
    """
    shown = [v for v in targets if v.kind != "self"]
    if not shown:
        return None
    recorded = cells(
        Cell("recorded", tone="strong"),
        *(_added(shown[0].projection.measured_plain_sums, part) for part in SUMS),
    )
    rows = [recorded]
    for v in shown:
        name = Cell(v.name, tone="strong", colour=v.colour)
        rows.append(cells(name, *(_added(v.projection.plain_sums, part) for part in SUMS)))
    caption = (
        "Durations added up, as Groves et al. 2022 have them (Fig 10), whether other work hides "
        "them or not: they add up to no run time. "
        f"{capital(which(targets))}."
    )
    return Table(
        caption,
        ["run", *(f">{SUMS[part]}" for part in SUMS)],
        rows,
        title="launches, kernels and copies added up",
    )


#: Parts that are added up, in words.
SUMS: Final = {"launch": "launches", "kernel": "kernels", "copy": "copies"}


def _added(sums: Mapping[str, float], part: str) -> str:
    return number(sums[part], "s") if part in sums else DASH


def _delta(change: float, measured: float) -> Cell:
    if abs(change) < 5e-13:
        return Cell("0", tone="soft")
    text = ("+" if change > 0 else "−") + number(abs(change), "s", 3)
    return Cell(text, f"{signed(change / measured)} of the recorded time" if measured else "")


def named(figures: list[Figure]) -> list[Figure]:
    """Return the figures with numbered names, so that names are unique."""
    return [replace(f, name=f"{f.name}-{i}") for i, f in enumerate(figures, 1)]


#: Widths of intervals below this share of the run time are not told apart.
_NARROWEST = 1e-4


def uncertainty_section(answer: Answer, targets: list[Verdict]) -> dict[str, Any]:
    """Return the sources of each interval, and what to measure to shrink it."""
    moving = [v for v in targets if v.projection.drivers and v.projection.interval]
    rows = []
    for v in moving:
        interval = v.projection.interval
        share = v.projection.drivers[v.unknown]
        if interval is None:
            continue
        width, m = interval.high - interval.low, v.projection.measured_seconds or 1.0
        left = width * max(1.0 - share, 0.0) ** 0.5
        rest = (
            "almost nothing"
            if share >= 0.995 or left < _NARROWEST * m
            else f"about {percent(left / m, 2)}"
        )
        rows.append(
            cells(
                Cell(v.name, tone="strong", colour=v.colour),
                unknown_label(v.unknown),
                percent(share, 2),
                f"{percent(width / m, 2)} to {rest}"
                if width >= _NARROWEST * m
                else f"{percent(width / m, 2)} as it is",
                advice(v.unknown),
            )
        )
    table = None
    if rows:
        caption = (
            "Width of the 90\N{NARROW NO-BREAK SPACE}% range as a share of the recorded time, "
            "now and with the largest unknown known "
            "exactly (width times the square root of the remaining variance). "
            f"{capital(which(moving))}."
        )
        table = Table(
            caption,
            ["target", "largest unknown", ">share", ">range shrinks", "what to measure"],
            rows,
        )
    return {
        "figures": named([answer_charts.drivers(v) for v in moving]),
        "table": table,
        "draws": count(answer.draws) if moving else "",
        "seed": str(answer.seed),
        "level": next(
            (percent(v.projection.interval.level) for v in moving if v.projection.interval), ""
        ),
    }


def validity_section(answer: Answer, targets: list[Verdict]) -> dict[str, Any]:
    """Return the assumptions by code, what the model leaves out, and the distance of each target
    from the measured coupling.
    """
    by_code: dict[str, tuple[Finding, list[str], list[str]]] = {}
    sources = [("the source machine", f) for f in answer.run.source_findings if f.code[0] in "AM"]
    for holders, f in [*sources, *((v.name, f) for v in targets for f in v.whole.findings)]:
        _, names, details = by_code.setdefault(f.code, (f, [], []))
        names.append(holders)
        if f.detail and f.detail not in details:
            details.append(f.detail)
    everyone = {v.name for v in targets if v.kind != "self"}
    rows = []
    for code in sorted(by_code, key=lambda c: (by_code[c][0].severity == "info", c)):
        f, names, details = by_code[code]
        holders = (
            "all targets"
            if len(everyone) > 1 and everyone <= set(names)
            else listed(list(dict.fromkeys(names)))
        )
        rows.append(
            cells(
                severity_cell(f),
                f.meaning,
                holders,
                clean("; ".join(details)) or DASH,
                what_to_do(f.advice),
            )
        )
    assumptions = (
        Table(
            "What the projections assume, and where.",
            ["code", "assumption", "holds for", "here", "what to do"],
            rows,
            kind="findings",
        )
        if rows
        else None
    )
    return {
        "assumptions": assumptions,
        "left_out": left_out(answer),
        "distance": _distance_table(answer, targets),
    }


def left_out(answer: Answer) -> list[str]:
    """Return what this version does not model, whatever the target."""
    order = "timeline" if any(p.replay == "timeline" for p in answer.projections) else "sum"
    out = [
        text
        for word, text in terms("left out").items()
        if word not in ("timeline", "sum") or word == order
    ]
    if not answer.projections:
        return []
    if all(p.alpha is None or p.alpha == 1.0 for p in answer.projections):
        out.append("The GPU: kernels keep their recorded time on every target.")
    else:
        out.append("All kernels change by one ratio, whether memory or arithmetic bounds them.")
    return out


def _distance_table(answer: Answer, targets: list[Verdict]) -> Table | None:
    """Return each target's distance from the measured coupling, and how many of its numbers are
    assumed.
    """
    rows = []
    for v, declared in zip(targets, answer.targets, strict=False):
        if v.kind == "self":
            continue
        c = v.projection.coupling
        ratios = []
        for direction in ("h2d", "d2h"):
            d = c[direction]
            ratios.append(_ratio(d["source_latency_s"], d["target_latency_s"]))
            ratios.append(_ratio(d["source_bandwidth"], d["target_bandwidth"]))
        natures = nature_counts(declared)
        declared_numbers = ", ".join(f"{n} {nature}" for nature, n in natures.items()) or DASH
        if c["copies_vanish"]:
            ratios = ["no copies"] * 4
        rows.append(
            cells(
                Cell(v.name, tone="strong", colour=v.colour),
                *ratios,
                factor(v.whole.alpha) if v.whole.alpha else DASH,
                declared_numbers,
            )
        )
    head = [
        "target",
        ">latency, to device",
        ">bandwidth, to device",
        ">latency, to host",
        ">bandwidth, to host",
        ">kernel rate",
        "numbers declared, by nature",
    ]
    caption = (
        "Target over source. Far from 1×, a projection leaves the range in which this run was "
        "measured."
    )
    return Table(caption, head, rows) if rows else None


def _ratio(before: float | None, after: float | None) -> str:
    return factor(after / before) if before and after is not None else DASH


def nature_counts(machine: Machine) -> dict[str, int]:
    """Count a machine's own numbers by nature: stated by a vendor, measured, or assumed."""
    parts = (
        [part for c in machine.changes for part in c.parts().values()]
        if machine.relative
        else list(machine.parameters.values())
    )
    words = {"spec": "stated", "measured": "measured", "assumption": "assumed"}
    natures = [words[p.nature] for p in parts]
    return {w: natures.count(w) for w in words.values() if w in natures}
