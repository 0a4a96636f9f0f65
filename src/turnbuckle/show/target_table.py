"""Targets beside each other, for terminal and report alike: run time, interval, verdict, and the
change in coupling behind them.
"""

from __future__ import annotations

from typing import Final

from turnbuckle.foundation import registry
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.projection.elsewhere.network import Carried
from turnbuckle.projection.projection import Projection
from turnbuckle.show.table import Cell, Table, cells
from turnbuckle.show.text import (
    DASH,
    bounds,
    clean,
    factor,
    number,
    percent,
    seconds,
    signed,
    span,
    terms,
)
from turnbuckle.show.verdict import LINE, Verdict

COUPLING_WORDS: Final = terms("coupling")
TONE: Final = {
    "faster": "good",
    "inside": "good",
    "undecided": "fair",
    "over": "poor",
    "self": "soft",
    "unknown": "fair",
}


def targets_table(targets: list[Verdict], what: str = "projected run time") -> Table:
    """Return a row for each target as it is: run time, penalty, range, verdict, and the penalty by
    its coupling alone.

    Wide tables have benefit, envelope and break-even use of the GPU as well.  The note of a row has
    all of the coupling's answer.
    """
    level = next((v.projection.interval.level for v in targets if v.projection.interval), None)
    others = any(v.coupling is not None for v in targets)
    head = [
        "target",
        ">time",
        ">penalty",
        f">{percent(level)} range" if level else ">range",
        "verdict",
        *([">coupling penalty"] if others else []),
        ">window",
        ">benefit",
        ">envelope",
        ">break-even use",
    ]
    rows = []
    for v in (v.machine or v for v in targets):
        alone = [_alone(v.whole.by_coupling)] if others else []
        name = Cell(v.name, clean(v.whole.target), tone="strong", colour=v.colour)
        rows.append([name, *_numbers(v, alone)])
    caption = (
        "Penalty: projected over recorded time, with its range. Benefit: the inverse. Window: "
        "from the first kernel's start to the last "
        "kernel's end. Envelope: no reordering of the recorded work can push the run outside "
        "this range, at the stated values; the range "
        "beside the penalty draws other values, so it may reach beyond. "
        "Break-even use: how much more a pooled GPU must be used than a local one to pay for the "
        "slowdown, before the cost of the fabric."
    )
    window = targets[0].projection.measured_kernel_window_seconds if targets else None
    windows = "" if window is None else f", kernel window {seconds(window)}"
    if others:
        what += ", machines as they are"
        caption += (
            " Machines as they are have their own GPU and host. Coupling penalty: with the "
            "kernels and the host of the recording."
        )
    else:
        what += ", coupling alone"
        caption += " Only the coupling changes: GPU and host are those of the recording."
    title = (
        f"{what} (measured {seconds(targets[0].projection.measured_seconds)}{windows})"
        if targets
        else ""
    )
    notes = [
        "; ".join(filter(None, [coupling_words(v.whole), _by_coupling(v), staging_words(v.whole)]))
        for v in targets
    ]
    wide = ("benefit", "envelope", "break-even use", *(["window"] if others else []))
    return Table(caption, head, rows, notes=notes, title=title, wide=wide)


def _numbers(v: Verdict, alone: list[Cell]) -> list[Cell]:
    """Return the cells of one answer, `alone` behind its verdict; dashes for the numbers of an
    answer that cannot be given.
    """
    p = v.projection
    words = Cell(
        v.words,
        f"{v.sure} likely to cost less than {percent(LINE)}" if v.sure else "",
        tone=TONE[v.kind],
    )
    if p.unknown:
        return [*cells(DASH, DASH, DASH), words, *alone, *cells(DASH, DASH, DASH, DASH)]
    measured = p.measured_seconds or 1.0
    even = p.utilisation_factor
    return [
        Cell(number(p.seconds, "s"), seconds(p.seconds)),
        Cell(f"{p.penalty:.3f}×"),
        Cell(_range(p), f"{span(*p.ends)}, {bounds(v.low, v.high)}") if p.interval else Cell(DASH),
        words,
        *alone,
        Cell(DASH if p.kernel_window_seconds is None else number(p.kernel_window_seconds, "s")),
        Cell(f"{p.benefit:.3f}×"),
        Cell(span(*p.envelope), bounds(p.envelope[0] / measured - 1, p.envelope[1] / measured - 1)),
        Cell(factor(even, 4) if even > 1.0005 else DASH),
    ]


def _alone(p: Projection) -> Cell:
    """Return the penalty by the coupling alone."""
    return Cell(DASH) if p.unknown else Cell(f"{p.penalty:.3f}×", seconds(p.seconds))


def ranged(p: Projection) -> str:
    """Return the penalty with its range."""
    return DASH if p.unknown else f"{p.penalty:.3f}× {_range(p)}"


def _range(p: Projection) -> str:
    """Return the range of the penalty."""
    low, high = (end / (p.measured_seconds or 1.0) for end in p.ends)
    return f"[{low:.3f}, {high:.3f}]"


def _by_coupling(v: Verdict) -> str:
    """Say what the coupling alone makes of the run, for the line under a row; empty where nothing
    else changes.
    """
    if v.coupling is None or v.coupling.projection.unknown:
        return ""
    p = v.coupling.projection
    return f"by the coupling alone {seconds(p.seconds)}, {ranged(p)}, {v.coupling.words}"


def coupling_words(p: Projection) -> str:
    """Return the change behind a ratio: link, latency and bandwidth each way, delay added to
    calls.
    """
    c = p.coupling
    link = (
        f"{COUPLING_WORDS.get(c['source'], clean(c['source']))} → "
        f"{COUPLING_WORDS.get(c['target'], clean(c['target']))}"
    )
    if p.target == "self":
        link = f"{COUPLING_WORDS.get(c['source'], clean(c['source']))}, unchanged"
    parts = [link]
    if c["copies_vanish"]:
        parts.append("copies vanish")
    else:
        for direction, name in (("h2d", "to device"), ("d2h", "to host")):
            d = c[direction]
            changes = [
                arrow(d["source_latency_s"], d["target_latency_s"], "s"),
                arrow(d["source_bandwidth"], d["target_bandwidth"], "B/s"),
            ]
            if clauses := [change for change in changes if change]:
                parts.append(f"{name} {', '.join(clauses)}")
        if len(parts) == 1:
            parts.append("link not observed")
    for kind, what in (("call", "call"), ("link", "one-way trip")):
        if added := c[f"added_{kind}_slack_s"]:
            parts.append(f"+{number(added, 's')} per {what}")
    if (trip := c.get("round_trip_s")) is not None:
        rates = [
            DASH if rate is None else number(rate, "B/s")
            for rate in dict.fromkeys(c["network_bandwidth"])
        ]
        parts.append(
            f"calls through a layer: round trip {number(trip, 's')}, {' and '.join(rates)}"
        )
    if p.alpha is not None and abs(p.alpha - 1.0) > 1e-9:
        parts.append(f"kernels {factor(p.alpha)} as fast{_of_kernels(p)}")
    if p.host is not None and abs(p.host - 1.0) > 1e-9:
        parts.append(f"host work {factor(p.host)} as long")
    if p.network is not None:
        parts.append(network_words(p.network, p.kept_network_seconds))
    return "; ".join(parts)


def network_words(carried: Carried, kept_seconds: float | None) -> str:
    """Say what the messages go over in place of what, how many they are, and what the run takes
    without that change.
    """
    before, after = carried.source, carried.target
    shown = ((carried.fitted, "messages"), (carried.kernels_fitted, "collective kernels"))
    fitted = "".join(f", fitted to {count:,} {word}" for count, word in shown if count is not None)
    counts = (
        (carried.messages, "messages"),
        (carried.collectives, "collective calls"),
        (carried.kernels, "collective kernels"),
    )
    what = [f"{count:,} {word if count != 1 else word[:-1]}" for count, word in counts if count]
    rates = arrow(before.bandwidth, after.bandwidth, "B/s")
    if carried.kernels:
        rates += f", inside a node {arrow(before.gpu_bandwidth, after.gpu_bandwidth, 'B/s')}"
    kept = "" if kept_seconds is None else f"; {seconds(kept_seconds)} on the recording's network"
    return (
        f"{' and '.join(what)} on network {clean(after.name)}: latency "
        f"{arrow(before.latency_s, after.latency_s, 's')}, {rates} "
        f"({clean(before.name)}{fitted}){kept}"
    )


def staging_words(p: Projection) -> str:
    """Say which copies stage messages, and what GPUDirect makes of the run; empty where no copy
    does.
    """
    s = p.staging
    if s is None:
        return ""
    of = [
        f"{count:,} {word}{'s' * (count != 1)}"
        for count, word in ((s.sends, "send"), (s.receives, "receive"))
        if count
    ]
    copies = f"{s.copies:,} copies stage" if s.copies != 1 else "1 copy stages"
    took = "" if s.seconds == s.measured_seconds else f", {seconds(s.seconds)} here"
    varied = f", {bounds(*s.ends)} over costs that nothing states" if s.low != s.high else ""
    return (
        f"GPUDirect {s.verdict}: {copies} {' and '.join(of)}: {number(s.size_bytes, 'B')}, "
        f"{seconds(s.measured_seconds)} recorded ({percent(s.share, 2)} of the run){took}; "
        "without them the run takes "
        f"{seconds(s.gpudirect_seconds)} in place of {seconds(p.seconds)} (gain "
        f"{signed(s.gain)}{varied})"
    )


def _of_kernels(p: Projection) -> str:
    """Say the range of the kernels' ratio, and what it rests on for what share of their time;
    nothing where nothing was drawn.
    """
    if p.kernels is None or not p.kernels.measured_seconds:
        return ""
    shares: dict[str, float] = {}
    for part in p.kernels.classes:
        shares[part.basis] = (
            shares.get(part.basis, 0.0) + part.measured_seconds / p.kernels.measured_seconds
        )
    ratios = [
        p.kernels.measured_seconds / end if end else float("inf")
        for end in reversed(p.kernels.ends)
    ]
    named = [
        f"{basis} {share:.0%}"
        for basis, share in sorted(shares.items(), key=lambda item: -item[1])
        if share >= 0.005
    ]
    by = named[0].rpartition(" ")[0] if len(named) == 1 else ", ".join(named)
    return f" [{ratios[0]:.3g}, {ratios[1]:.3g}] by {by}"


def arrow(before: float | None, after: float | None, unit: str) -> str:
    """Return ``2 µs → 4.2 µs``; one number where nothing changes, nothing where nothing is
    known.
    """
    if before is None and after is None:
        return ""
    a, b = ("not stated" if v is None else number(v, unit) for v in (before, after))
    return a if a == b else f"{a} → {b}"


def card_line(answer: Answer) -> str:
    """Return how good such predictions were, from the card that ships; empty for a question that is
    none of its kinds.
    """
    if answer.model is None or answer.network is not None:
        return ""
    if answer.model.name == "additive" and answer.model.replay == "sum":
        return str(registry.load("services", "away in words")("additive"))
    if not answer.model.carded:
        return ""
    if all(m.relative for m in answer.targets):
        layers = bool(answer.targets) and all(m.coupling == "remoting" for m in answer.targets)
        return str(
            registry.load("services", "away in words")(
                "timeline", "remoting" if layers else "distance"
            )
        )
    model = "projection, kernels by memory" if answer.model.alpha == "memory" else "projection"
    accuracy = registry.load("services", "card in words")("run time", model)
    return (
        f"checked against measurement: {accuracy}; turnbuckle validate --card" if accuracy else ""
    )
