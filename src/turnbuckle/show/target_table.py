"""Targets beside each other, for terminal and report alike: run time, interval, verdict, and the change in coupling behind them."""

from __future__ import annotations

from typing import Final

from turnbuckle.projection.elsewhere.network import Carried
from turnbuckle.projection.projection import Projection
from turnbuckle.show.table import Cell, Table, cells
from turnbuckle.show.text import DASH, bounds, clean, factor, number, percent, seconds, signed, span, terms
from turnbuckle.show.verdict import LINE, Verdict

COUPLING_WORDS: Final = terms("coupling")
TONE: Final = {"faster": "good", "inside": "good", "undecided": "fair", "over": "poor", "self": "soft"}


def targets_table(targets: list[Verdict], what: str = "projected run time") -> Table:
    """Return a row for each target: projected run time, penalty, interval, verdict, benefit, envelope, break-even use of the GPU."""
    level = next((v.projection.interval.level for v in targets if v.projection.interval), None)
    others = [v for v in targets if v.whole is not v.projection]
    head = [
        "target",
        ">time",
        ">penalty",
        f">{percent(level)} range" if level else ">range",
        "verdict",
        *([">own GPU, host"] if others else []),
        ">window",
        ">benefit",
        ">envelope",
        ">break-even use",
    ]
    rows = []
    for v in targets:
        p = v.projection
        measured = p.measured_seconds or 1.0
        low, high = p.ends
        interval = f"[{low / measured:.3f}, {high / measured:.3f}]" if p.interval else DASH
        even = p.utilisation_factor
        rows.append(
            cells(
                Cell(v.name, clean(p.target), tone="strong", colour=v.colour),
                Cell(number(p.seconds, "s"), seconds(p.seconds)),
                f"{p.penalty:.3f}×",
                Cell(interval, f"{span(low, high)}, {bounds(v.low, v.high)}"),
                Cell(v.words, f"{v.sure} likely to cost less than {percent(LINE)}" if v.sure else "", tone=TONE[v.kind]),
                *([_own_machine(v)] if others else []),
                DASH if p.kernel_window_seconds is None else number(p.kernel_window_seconds, "s"),
                f"{p.benefit:.3f}×",
                Cell(span(*p.envelope), bounds(p.envelope[0] / measured - 1, p.envelope[1] / measured - 1)),
                factor(even, 4) if even > 1.0005 else DASH,
            )
        )
    caption = (
        "Penalty: projected over recorded time, with its range. Benefit: the inverse. Window: from the first kernel's start to the last "
        "kernel's end. Envelope: no reordering of the recorded work can push the run outside this range, at the stated values; the range "
        "beside the penalty draws other values, so it may reach beyond. "
        "Break-even use: how much more a pooled GPU must be used than a local one to pay for the slowdown, before the cost of the fabric."
    )
    window = targets[0].projection.measured_kernel_window_seconds if targets else None
    windows = "" if window is None else f", kernel window {seconds(window)}"
    if others:
        what += ", coupling alone"
        caption += " With its own GPU and host the target's kernels and the work between calls change as well."
    title = f"{what} (measured {seconds(targets[0].projection.measured_seconds)}{windows})" if targets else ""
    notes = ["; ".join(filter(None, [coupling_words(v.whole), _with_own(v), staging_words(v.whole)])) for v in targets]
    wide = ("benefit", "envelope", "break-even use", *(["window"] if others else []))
    return Table(caption, head, rows, notes=notes, title=title, wide=wide)


def _own_machine(v: Verdict) -> Cell:
    """Return what the run takes with the target's own kernels and host; a dash where they are the recording's."""
    if v.whole is v.projection:
        return Cell(DASH)
    if v.whole.unscaled:
        return Cell("cannot say", v.whole.unscaled)
    return Cell(f"{v.whole.penalty:.3f}×", seconds(v.whole.seconds))


def _with_own(v: Verdict) -> str:
    """Say the same with its interval, for the line under a row."""
    if v.whole is v.projection:
        return ""
    if v.whole.unscaled:
        return f"with its own GPU and host: cannot say, {v.whole.unscaled}; --source names the machine it ran on"
    measured = v.whole.measured_seconds or 1.0
    low, high = v.whole.ends
    return f"with its own GPU and host {seconds(v.whole.seconds)}, {v.whole.penalty:.3f}× [{low / measured:.3f}, {high / measured:.3f}]"


def coupling_words(p: Projection) -> str:
    """Return the change behind a ratio: link, latency and bandwidth each way, delay added to calls."""
    c = p.coupling
    link = f"{COUPLING_WORDS.get(c['source'], clean(c['source']))} → {COUPLING_WORDS.get(c['target'], clean(c['target']))}"
    if p.target == "self":
        link = f"{COUPLING_WORDS.get(c['source'], clean(c['source']))}, unchanged"
    parts = [link]
    if c["copies_vanish"]:
        parts.append("copies vanish")
    else:
        for direction, name in (("h2d", "to device"), ("d2h", "to host")):
            d = c[direction]
            changes = [arrow(d["source_latency_s"], d["target_latency_s"], "s"), arrow(d["source_bandwidth"], d["target_bandwidth"], "B/s")]
            if clauses := [change for change in changes if change]:
                parts.append(f"{name} {', '.join(clauses)}")
        if len(parts) == 1:
            parts.append("link not observed")
    for kind, what in (("call", "call"), ("link", "one-way trip")):
        if added := c[f"added_{kind}_slack_s"]:
            parts.append(f"+{number(added, 's')} per {what}")
    if (trip := c.get("round_trip_s")) is not None:
        rates = [DASH if rate is None else number(rate, "B/s") for rate in dict.fromkeys(c["network_bandwidth"])]
        parts.append(f"calls through a layer: round trip {number(trip, 's')}, {' and '.join(rates)}")
    if p.alpha is not None and abs(p.alpha - 1.0) > 1e-9:
        parts.append(f"kernels {factor(p.alpha)} as fast{_of_kernels(p)}")
    if p.host is not None and abs(p.host - 1.0) > 1e-9:
        parts.append(f"host work {factor(p.host)} as long")
    if p.network is not None:
        parts.append(network_words(p.network, p.kept_network_seconds))
    return "; ".join(parts)


def network_words(carried: Carried, kept_seconds: float | None) -> str:
    """Say what the messages go over in place of what, how many they are, and what the run takes without that change."""
    before, after = carried.source, carried.target
    shown = ((carried.fitted, "messages"), (carried.kernels_fitted, "collective kernels"))
    fitted = "".join(f", fitted to {count:,} {word}" for count, word in shown if count is not None)
    counts = ((carried.messages, "messages"), (carried.collectives, "collective calls"), (carried.kernels, "collective kernels"))
    what = [f"{count:,} {word if count != 1 else word[:-1]}" for count, word in counts if count]
    rates = arrow(before.bandwidth, after.bandwidth, "B/s")
    if carried.kernels:
        rates += f", inside a node {arrow(before.gpu_bandwidth, after.gpu_bandwidth, 'B/s')}"
    kept = "" if kept_seconds is None else f"; {seconds(kept_seconds)} on the recording's network"
    return (
        f"{' and '.join(what)} on network {clean(after.name)}: latency {arrow(before.latency_s, after.latency_s, 's')}, {rates} "
        f"({clean(before.name)}{fitted}){kept}"
    )


def staging_words(p: Projection) -> str:
    """Say which copies stage messages, and what GPUDirect makes of the run; empty where no copy does."""
    s = p.staging
    if s is None:
        return ""
    of = [f"{count:,} {word}{'s' * (count != 1)}" for count, word in ((s.sends, "send"), (s.receives, "receive")) if count]
    copies = f"{s.copies:,} copies stage" if s.copies != 1 else "1 copy stages"
    took = "" if s.seconds == s.measured_seconds else f", {seconds(s.seconds)} here"
    varied = f", {bounds(*s.ends)} over costs that nothing states" if s.low != s.high else ""
    return (
        f"GPUDirect {s.verdict}: {copies} {' and '.join(of)}: {number(s.size_bytes, 'B')}, "
        f"{seconds(s.measured_seconds)} recorded ({percent(s.share, 2)} of the run){took}; without them the run takes "
        f"{seconds(s.gpudirect_seconds)} in place of {seconds(p.seconds)} (gain {signed(s.gain)}{varied})"
    )


def _of_kernels(p: Projection) -> str:
    """Say the range of the kernels' ratio, and what it rests on for what share of their time; nothing where nothing was drawn."""
    if p.kernels is None or not p.kernels.measured_seconds:
        return ""
    shares: dict[str, float] = {}
    for part in p.kernels.classes:
        shares[part.basis] = shares.get(part.basis, 0.0) + part.measured_seconds / p.kernels.measured_seconds
    ratios = [p.kernels.measured_seconds / end if end else float("inf") for end in reversed(p.kernels.ends)]
    named = [f"{basis} {share:.0%}" for basis, share in sorted(shares.items(), key=lambda item: -item[1]) if share >= 0.005]
    by = named[0].rpartition(" ")[0] if len(named) == 1 else ", ".join(named)
    return f" [{ratios[0]:.3g}, {ratios[1]:.3g}] by {by}"


def arrow(before: float | None, after: float | None, unit: str) -> str:
    """Return ``2 µs → 4.2 µs``; one number where nothing changes, nothing where nothing is known."""
    if before is None and after is None:
        return ""
    a, b = ("not stated" if v is None else number(v, unit) for v in (before, after))
    return a if a == b else f"{a} → {b}"
