"""What `turnbuckle slack` shows: a curve, what a run tolerates, and which calls carry the latency."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from turnbuckle.foundation.units import show as quantity
from turnbuckle.machine.hops import fibre_metres, hops
from turnbuckle.projection.run import Answer
from turnbuckle.questions.distance.question import FARTHEST, NEAREST, THRESHOLDS, Slack
from turnbuckle.questions.distance.slack_tables import carrier_table, tolerance_table
from turnbuckle.questions.distance.speeds import SHOWN, WORDS, Surface, Sweep
from turnbuckle.show.terminal.cells import clean, seconds
from turnbuckle.show.terminal.console import console_for
from turnbuckle.show.terminal.drawing import drawn
from turnbuckle.show.terminal.output import write_answer
from turnbuckle.show.terminal.projections import print_findings

if TYPE_CHECKING:
    from turnbuckle.papers.row_slack.binned_slack import Beside

_BARS, _PLAIN_BARS = "▁▂▃▄▅▆▇█", ".:-=+*%#"
READS = {"link.tags": "requests in flight", "link.read_request": "bytes a request", "link.round_trip": "round trip"}
_MODES = {
    "link": "on the link: the fabric is longer, asynchronous calls stay asynchronous",
    "api": "in the calls (api): every crossing call blocks its thread for the delay",
    "remoting": "a network: calls go through the layer of {layer}",
}


#: What varies, in words.
AXES = {"link": "one-way latency added", "api": "one-way latency added", "remoting": "round trip"}


def emit_slack(found: Slack, published: Sequence[Beside], format: str, output: Path | None) -> None:
    """Write the answer of ``slack``, and the binned answers beside it; CSV and Parquet hold the curve."""
    if format != "table":
        document = {**found.as_dict(), **({"published": [_beside(b) for b in published]} if published else {})}
        write_answer(document, document["curve"], format, output)
    else:
        show_slack(console_for(output), found, published)


def show_slack(console: Console, found: Slack, published: Sequence[Beside] = ()) -> None:
    """Print a curve, what a run tolerates, the calls that carry the latency, and the binned answers beside it."""
    _print_curve(console, found)
    _print_tolerances(console, found)
    _print_carriers(console, found)
    if published:
        _print_published(console, published)
    print_findings(console, Answer(found.run), brief=True)


def emit_sweep(found: Sweep, format: str, output: Path | None) -> None:
    """Write the answer of ``slack --over``; CSV and Parquet hold the curve."""
    if format != "table":
        document = found.as_dict()
        write_answer(document, document["curve"], format, output)
    else:
        show_sweep(console_for(output), found)


def show_sweep(console: Console, found: Sweep) -> None:
    """Print run time against one kind of speed."""
    table = _table(console, f"run time against the {WORDS[found.over]} (measured {seconds(found.measured)})", "cost", "time", "vs now")
    for cost in SHOWN:
        time = float(found.curve(cost))
        table.add_row(f"{cost:g}x", seconds(time), f"{found.penalty(cost):.3f}x")
    console.print(table)
    console.print()
    table = _table(console, "how much dearer it may become", "run longer by", "cost")
    for share, reached in zip(THRESHOLDS, found.tolerances, strict=True):
        table.add_row(f"{share:.0%}", "beyond 10x" if reached is None else f"{reached:.3f}x")
    console.print(table)
    console.print()
    up, down = found.elasticity
    console.print(f"one per cent dearer lengthens the run by {up / 100:.3%}, one per cent cheaper shortens it by {down / 100:.3%}")
    console.print(_exactness(len(found.curve.breakpoints), found.curve.gap), style="dim")


def emit_surface(found: Surface, format: str, output: Path | None) -> None:
    """Write the answer of ``slack --over both``: run time over added latency and bandwidth."""
    if format != "table":
        write_answer(found.as_dict(), found.rows(), format, output)
    else:
        show_surface(console_for(output), found)


def show_surface(console: Console, found: Surface) -> None:
    """Print run time over added latency and bandwidth."""
    columns = [j for j, b in enumerate(found.bandwidth) if j % 3 == 0]
    heads = [f"{found.bandwidth[j]:.3g}x" for j in columns]
    table = _table(console, f"run time against now, over added one-way latency and link bandwidth ({found.mode})", "latency", *heads)
    for i, slack in enumerate(found.slack):
        if i % 2 == 0:
            cells = [f"{found.penalties[i, j]:.3f}x" for j in columns]
            table.add_row(seconds(float(slack)), *cells)
    console.print(table)
    console.print()
    console.print(f"off by {found.bound:.2%} of the run time at most; {found.evaluations} longest paths", style="dim")


def _table(console: Console, title: str, *columns: str) -> Table:
    """A table under its title; numbers are never cut, whatever the width."""
    console.print(Text(title, "italic"))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for k, column in enumerate(columns):
        table.add_column(column, justify="left" if k == 0 else "right", no_wrap=k > 0, overflow="fold", min_width=9 if k else 6)
    return table


def _print_curve(console: Console, found: Slack) -> None:
    console.print()
    console.print(Text(f"run time {seconds(found.measured)}; distance {_MODES[found.mode].format(layer=found.layer)}"))
    at = np.geomspace(NEAREST, FARTHEST, 49)
    longer = np.array([found.penalty(float(s)) - 1.0 for s in at])
    ramp = _BARS if _encodes(console, _BARS) else _PLAIN_BARS
    level = np.clip((np.log10(np.maximum(longer, 1e-4)) + 4) / 5 * (len(ramp) - 1), 0, len(ramp) - 1)
    bars = "".join(ramp[round(float(v))] for v in level)
    console.print(Text.assemble(("100 ns ", "dim"), (bars, "cyan"), (" 100 ms", "dim")))
    console.print(Text("lowest bar: 0.01 % longer or less; highest: ten times or more", "dim"))
    console.print()
    starved = [] if found.starved is None else ["with idle gaps"]
    spread = ["90% interval"] if found.repeats else []
    table = _table(console, AXES[found.mode], "as much as", "latency", "time", *spread, "vs now", *starved)

    def row(words: str, slack: float) -> None:
        above = [] if found.starved is None or not found.measured else [f"{float(found.starved(slack)) / found.measured:.3f}x"]
        ends = found.interval(slack)
        interval = [] if ends is None else [f"[{seconds(ends[0])}, {seconds(ends[1])}]"]
        table.add_row(words, seconds(slack), seconds(float(found.curve(slack))), *interval, f"{found.penalty(slack):.3f}x", *above)

    for hop in hops():
        row(
            f"one more {hop.name} trip" if hop.name in ("package", "C2C", "PCIe", "switch") else f"a {hop.name} away",
            hop.one_way * found.trips,
        )
    for slack in (1e-5, 1e-4, 1e-3):
        row(f"{quantity(fibre_metres(slack / found.trips) / 1e3, '1')} km of fibre", slack)
    console.print(table)
    if found.repeats:
        console.print(Text(f"the interval is that of one more run, from how {len(found.repeats)} runs without added latency differ", "dim"))
    parts = [f"{s.what} {s.seconds / found.measured:.1%}" for s in found.shares if found.measured and s.seconds >= 0.005 * found.measured]
    console.print(Text(f"the run's critical path: {', '.join(parts)}", "dim"))
    console.print(Text(f"dependency rules explain {found.trust.words()}", "dim"))
    console.print()


def _encodes(console: Console, text: str) -> bool:
    try:
        text.encode(console.encoding)
    except (UnicodeError, LookupError):
        return False
    return True


def _print_tolerances(console: Console, found: Slack) -> None:
    console.print(drawn(tolerance_table(found)))
    console.print(_exactness(len(found.curve.breakpoints), found.curve.gap), style="dim")
    if found.layer and any(t.low != t.high for t in found.tolerances):
        console.print(f"the interval is what is not known of the layer of {found.layer}: its software, its bandwidths", style="dim")
    elif found.assumed and any(t.low != t.high for t in found.tolerances):
        console.print(
            "the interval is what is not known of reads in flight: " + ", ".join(f"{READS[name]} {p}" for name, p in found.assumed.items()),
            style="dim",
        )
    console.print()


def _print_carriers(console: Console, found: Slack) -> None:
    table = carrier_table(found)
    if table is None:
        console.print("no call carries added latency into the run time")
        return
    console.print(drawn(table))
    console.print(
        Text(f"the run takes {seconds(float(found.curve(found.carried_at)))} there; what if: the same run with these calls changed", "dim")
    )
    console.print()


def _beside(b: Beside) -> dict[str, object]:
    return {
        "slack_s": b.slack_seconds,
        "threads": b.binned.threads,
        "timeline_penalty": b.causal,
        "calls": b.calls,
        "felt_calls": b.felt,
        "binned_penalty": [b.binned.lower, b.binned.upper],
        "surface": b.binned.label,
        "findings": [f.as_dict() for f in b.binned.findings],
    }


def _print_published(console: Console, published: Sequence[Beside]) -> None:
    """The binned answer is a penalty for an application whose copies and kernels are those of the proxy."""
    table = _table(
        console,
        "slack on every call: this replay, and the binned answer of Shorts and Grant",
        "latency",
        "timeline",
        "felt by",
        "threads",
        "binned",
    )
    for b in published:
        table.add_row(seconds(b.slack_seconds), f"{b.causal:.3f}x", f"{b.felt:,.0f} of {b.calls:,} calls", str(b.binned.threads),
                      f"{b.binned.lower:.3f} to {b.binned.upper:.3f}x")  # fmt: skip
    console.print(table)
    console.print(Text(f"surface: {clean(published[0].binned.label, 200)}", "dim"))
    console.print()


def _exactness(breakpoints: int, gap: float) -> str:
    found = f"{breakpoints:,} breakpoint{'' if breakpoints == 1 else 's'}"
    return f"exact, with {found}" if not gap else f"the first {found}; elsewhere off by {seconds(gap)} at most"
