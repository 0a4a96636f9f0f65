"""Terminal output of `turnbuckle slack`: the curve, the tolerances, and the calls that carry the
latency.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from rich.console import Console
from rich.text import Text

from turnbuckle.foundation.units import show as quantity
from turnbuckle.machine.hops import Hop, fibre_metres, hops
from turnbuckle.profile.summary.summary import link_rates
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.questions.distance.distance import FARTHEST, NEAREST
from turnbuckle.questions.distance.question import THRESHOLDS, Slack
from turnbuckle.questions.distance.slack_tables import carrier_table, tolerance_table
from turnbuckle.questions.distance.speeds import SHOWN, Surface, Sweep
from turnbuckle.show.target_table import network_words
from turnbuckle.show.terminal.cells import clean, plain, seconds
from turnbuckle.show.terminal.drawing import drawn
from turnbuckle.show.terminal.projections import print_findings
from turnbuckle.show.terminal.tables import titled
from turnbuckle.show.text import fitted, terms
from turnbuckle.show.unknowns import LABELS

if TYPE_CHECKING:
    from turnbuckle.papers.row_slack.binned_slack import Beside

_BARS, _PLAIN_BARS = "▁▂▃▄▅▆▇█", ".:-=+*%#"
_MODES = terms("distance")
#: Columns of a terminal, and calls that a screen names at most.
WIDTH, _PAYERS = 80, 3
#: Share of the latency from which a call is named.
_LEAST: Final = 0.005
_WORK: Final = terms("tenth less")
_BRIEF: Final = {"link": "longer link", "remoting": "remoted calls", "api": "blocking calls"}


#: What varies, in words.
AXES = terms("axis of a distance")


def show_slack(console: Console, answer: Slack, published: Sequence[Beside] = ()) -> None:
    """Print a curve, what a run tolerates, the calls that carry the latency, and the binned answers
    beside it.
    """
    _print_curve(console, answer)
    if answer.network is not None:
        console.print(Text(network_words(answer.network, None), "dim"))
        console.print()
    _print_tolerances(console, answer)
    _print_carriers(console, answer)
    if published:
        _print_published(console, published)
    print_findings(console, Answer(answer.run), brief=True)


def show_brief(
    console: Console, answers: Sequence[Slack | str], costs: Sequence[tuple[str, float, float]]
) -> None:
    """Print what a run tolerates on one screen.

    Parameters
    ----------
    answers : one for each way to be far away, or why it cannot be told.
    costs : kinds of work, and what a tenth less and a tenth more of each does to the run time, as
        shares of it.
    """
    for line in _brief(answers, costs):
        fits = fitted(line, WIDTH) if console.width >= WIDTH else line
        console.print(Text(fits), soft_wrap=console.width >= WIDTH)


def _brief(
    answers: Sequence[Slack | str], costs: Sequence[tuple[str, float, float]]
) -> Iterator[str]:
    told = [answer for answer in answers if not isinstance(answer, str)]
    first = told[0]
    whole = first.run.whole
    about = "" if whole is None else f", of {seconds(whole.seconds)} the part without start-up"
    yield f"{plain(first.run.trace.name, 40)}   {seconds(first.measured)}{about}"
    yield f"one way:  {', '.join(f'{hop.name} {seconds(hop.one_way)}' for hop in _scale())}"
    yield ""
    yield f"{'slower by':16}" + "".join(f"{f'{100 * share:.0f} %':>15}" for share in THRESHOLDS)
    for answer in told:
        yield from _tolerance_lines(answer)
    yield from (f"cannot say: {answer}" for answer in answers if isinstance(answer, str))
    yield ""
    for answer in told:
        yield from _payers(answer)
    if (rates := link_rates(first.run.profile)) is not None:
        mean, burst = (quantity(rate, "B/s") for rate in rates)
        yield f"the link carries {mean} in the mean, {burst} while it copies"
    if costs:
        yield ""
        yield f"{'run time with':32}{'a tenth less':>16}{'a tenth more':>16}"
        for kind, less, more in costs:
            changes = (f"{100 * share:+.1f} %" for share in (less, more))
            yield f"  {_WORK[kind]:30}" + "".join(f"{change:>16}" for change in changes)
    yield ""
    yield f"trust: {100 * first.trust.explained:.0f} % of the critical path follows from recorded causes"
    if first.assumed and first.band is not None:
        yield f"range: what is assumed of a fabric: {LABELS[next(iter(first.assumed))]}, ..."
    yield "more:  turnbuckle slack FILE -v | --mode api | --over both"


def _scale() -> list[Hop]:
    """Return the distances among machines."""
    return [hop for hop in hops() if hop.name in ("rack", "row", "data centre")]


def _tolerance_lines(answer: Slack) -> Iterator[str]:
    """Return the latencies of each threshold, their lower ends and their upper ends."""
    found = [_latency(t.slack) for t in answer.tolerances]
    yield f"{_BRIEF[answer.mode]:16}" + "".join(f"{words:>15}" for words in found)
    if answer.band is None:
        return
    lower = [_latency(t.low) for t in answer.tolerances]
    upper = [_latency(t.high) for t in answer.tolerances]
    for words, ends in (("from", lower), ("to", upper)):
        yield f"{words:>16}" + "".join(f"{end:>15}" for end in ends)


def _latency(value: float | None) -> str:
    """Return a tolerated latency in a few letters."""
    if value is None:
        return f"> {seconds(FARTHEST)}"
    return quantity(value, "s", 2) if value else "none"


def _payers(answer: Slack) -> Iterator[str]:
    """Return the calls that carry most of the latency."""
    if not answer.carriers:
        yield f"{_BRIEF[answer.mode]}: no call carries latency into the run time"
        return
    yield f"who pays, {_BRIEF[answer.mode]} at {quantity(answer.carried_at, 's', 2)}"
    for carrier in answer.carriers[:_PAYERS]:
        if carrier.share >= _LEAST:
            what = plain(carrier.what, 120).removesuffix(f" of {plain(carrier.call)}")
            yield f"{100 * carrier.share:>6.0f} %  {what}: {plain(carrier.call)}"


def show_sweep(console: Console, answer: Sweep) -> None:
    """Print run time against one kind of speed."""
    table = titled(
        console,
        f"run time against the {answer.cost_of} (measured {seconds(answer.measured)})",
        "cost",
        "time",
        "vs now",
    )
    for cost in SHOWN:
        time = float(answer.curve(cost))
        table.add_row(f"{cost:g}x", seconds(time), f"{answer.penalty(cost):.3f}x")
    console.print(table)
    console.print()
    table = titled(console, "how much dearer it may become", "run longer by", "cost")
    for share, reached in zip(THRESHOLDS, answer.tolerances, strict=True):
        table.add_row(f"{share:.0%}", "beyond 10x" if reached is None else f"{reached:.3f}x")
    console.print(table)
    console.print()
    up, down = answer.elasticity
    console.print(
        f"one per cent dearer lengthens the run by {up / 100:.3%}, one per cent cheaper "
        f"shortens it by {down / 100:.3%}"
    )
    console.print(_exactness(len(answer.curve.breakpoints), answer.curve.gap), style="dim")
    print_findings(console, Answer(answer.run), brief=True)


def show_surface(console: Console, answer: Surface) -> None:
    """Print run time over added latency and bandwidth."""
    columns = [j for j, b in enumerate(answer.bandwidth) if j % 3 == 0]
    heads = [f"{answer.bandwidth[j]:.3g}x" for j in columns]
    table = titled(
        console,
        f"run time against now, over added one-way latency and link bandwidth ({answer.mode})",
        "latency",
        *heads,
    )
    for i, slack in enumerate(answer.slack):
        if i % 2 == 0:
            cells = [f"{answer.penalties[i, j]:.3f}x" for j in columns]
            table.add_row(seconds(float(slack)), *cells)
    console.print(table)
    console.print()
    console.print(
        (
            f"off by at most {answer.bound:.2%} of the run time; {answer.evaluations} longest "
            "paths replayed"
        ),
        style="dim",
    )
    print_findings(console, Answer(answer.run), brief=True)


def _print_curve(console: Console, answer: Slack) -> None:
    console.print()
    console.print(
        Text(
            f"run time {seconds(answer.measured)}; distance "
            f"{_MODES[answer.mode].format(layer=answer.layer)}"
        )
    )
    latencies = np.geomspace(NEAREST, FARTHEST, 49)
    longer = np.array([answer.penalty(float(s)) - 1.0 for s in latencies])
    ramp = _BARS if _encodes(console, _BARS) else _PLAIN_BARS
    level = np.clip(
        (np.log10(np.maximum(longer, 1e-4)) + 4) / 5 * (len(ramp) - 1), 0, len(ramp) - 1
    )
    bars = "".join(ramp[round(float(v))] for v in level)
    console.print(Text.assemble(("100 ns ", "dim"), (bars, "cyan"), (" 100 ms", "dim")))
    console.print(Text("lowest bar: 0.01 % longer or less; highest: ten times or more", "dim"))
    console.print()
    starved = [] if answer.starved is None else ["with idle gaps"]
    drawn_too = answer.band is not None and bool((answer.band.lower != answer.band.upper).any())
    spread = [*(["90% range"] if drawn_too else []), *(["one more run"] if answer.repeats else [])]
    table = titled(
        console, AXES[answer.mode], "as much as", "latency", "time", *spread, "vs now", *starved
    )

    def row(words: str, slack: float) -> None:
        above = (
            []
            if answer.starved is None or not answer.measured
            else [f"{float(answer.starved(slack)) / answer.measured:.3f}x"]
        )
        ends = (answer.range(slack) if drawn_too else None, answer.interval(slack))
        interval = [f"[{seconds(low)}, {seconds(high)}]" for low, high in filter(None, ends)]
        table.add_row(
            words,
            seconds(slack),
            seconds(float(answer.curve(slack))),
            *interval,
            f"{answer.penalty(slack):.3f}x",
            *above,
        )

    for hop in hops():
        row(
            f"one more {hop.name} trip"
            if hop.name in ("package", "C2C", "PCIe", "switch")
            else f"a {hop.name} away",
            hop.one_way * answer.trips,
        )
    for slack in (1e-5, 1e-4, 1e-3):
        row(f"{quantity(fibre_metres(slack / answer.trips) / 1e3, '1')} km of fibre", slack)
    console.print(table)
    if answer.repeats:
        console.print(
            Text(
                (
                    f"one more run: 90% range, from the spread of {len(answer.repeats)} runs "
                    "without added latency"
                ),
                "dim",
            )
        )
    parts = [
        f"{s.what} {s.seconds / answer.measured:.1%}"
        for s in answer.shares
        if answer.measured and s.seconds >= 0.005 * answer.measured
    ]
    console.print(Text(f"the run's critical path: {', '.join(parts)}", "dim"))
    console.print(Text(f"dependency rules explain {answer.trust.words()}", "dim"))
    console.print()


def _encodes(console: Console, text: str) -> bool:
    try:
        text.encode(console.encoding)
    except (UnicodeError, LookupError):
        return False
    return True


def _print_tolerances(console: Console, answer: Slack) -> None:
    console.print(drawn(tolerance_table(answer)))
    console.print(_exactness(len(answer.curve.breakpoints), answer.curve.gap), style="dim")
    if any(t.slack == 0 for t in answer.tolerances):
        console.print(
            "0 s: the software and network of the layer alone take more than this share",
            style="dim",
        )
    if answer.layer and any(t.low != t.high for t in answer.tolerances):
        console.print(
            (
                f"the range comes from what is unknown about the layer of {answer.layer}: its "
                "software and its bandwidths"
            ),
            style="dim",
        )
    elif answer.assumed and any(t.low != t.high for t in answer.tolerances):
        console.print(
            "the range comes from what is assumed of the fabric ("
            + ", ".join(f"{LABELS[name]} {p}" for name, p in answer.assumed.items())
            + "), and from what no rule explains",
            style="dim",
        )
    console.print()


def _print_carriers(console: Console, answer: Slack) -> None:
    if answer.messages_on_path is not None:
        crossed = (
            f"at {seconds(answer.carried_at)} the critical path crosses the network "
            f"{answer.messages_on_path:,.0f} times in a row"
        )
        console.print(
            crossed
            if answer.messages_on_path
            else "no message carries added latency into the run time"
        )
        return
    table = carrier_table(answer)
    if table is None:
        console.print("no call carries added latency into the run time")
        return
    console.print(drawn(table))
    console.print(
        Text(
            (
                f"the run takes {seconds(float(answer.curve(answer.carried_at)))} there; what if: "
                "the same run with these calls changed"
            ),
            "dim",
        )
    )
    console.print()


def beside_row(b: Beside) -> dict[str, object]:
    """Return the run of a binned study beside the timeline, as a row."""
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
    """Print the binned answer beside the replay.

    The binned answer is the penalty of an application with the copies and kernels of the proxy.
    """
    title = "slack on every call: this replay, and the binned answer of Shorts and Grant"
    table = titled(console, title, "latency", "timeline", "felt by", "threads", "binned")
    for b in published:
        felt, binned = (
            f"{b.felt:,.0f} of {b.calls:,} calls",
            f"{b.binned.lower:.3f} to {b.binned.upper:.3f}x",
        )
        table.add_row(
            seconds(b.slack_seconds), f"{b.causal:.3f}x", felt, str(b.binned.threads), binned
        )
    console.print(table)
    console.print(Text(f"surface: {clean(published[0].binned.label, 200)}", "dim"))
    console.print()


def _exactness(breakpoints: int, gap: float) -> str:
    breaks = f"{breakpoints:,} breakpoint{'' if breakpoints == 1 else 's'}"
    return (
        f"exact in the recorded order, with {breaks}"
        if not gap
        else f"exact up to the first {breaks}; elsewhere off by at most {seconds(gap)}"
    )
