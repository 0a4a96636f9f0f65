"""The first answer on a terminal of 24 lines and 80 columns: verdict, reason, choices, first fix,
how far to trust it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import Console
from rich.text import Text

from turnbuckle.foundation import registry
from turnbuckle.foundation.units import show as quantity
from turnbuckle.profile.summary import each
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.questions.distance.slack_tables import latency_words
from turnbuckle.questions.inspect.first import First, Tolerated
from turnbuckle.show.run_tables import CATEGORY_WORDS, message_words
from turnbuckle.show.table import Table, cells
from turnbuckle.show.terminal.cells import plain
from turnbuckle.show.terminal.drawing import plain_text
from turnbuckle.show.text import NARROW, fitted, shorten, terms
from turnbuckle.show.unknowns import unknown_label
from turnbuckle.show.verdict import Verdict, capital, verdicts
from turnbuckle.trace.recorders import recorder

#: Ends of a saving that are shown apart [share of the run time].
WORTH: Final = 0.001
#: Columns of the screen.
WIDTH: Final = 80
_BOUND: Final = terms("bound")
_WORK: Final = terms("tenth less")
_DOUBTS: Final = terms("doubt")
#: Lines on trust, and the share of the path without a cause that is worth one.
_LINES, _UNEXPLAINED = 3, 0.25
#: Share of the run time from which a kind of activity is named.
_SHOWN: Final = 0.005
#: Changes below this are none [share of the run time].
_NONE: Final = 0.0005


def show(console: Console, first: First) -> None:
    """Print the screen."""
    for line in lines(first):
        console.print(Text(line), soft_wrap=console.width >= WIDTH)


def lines(first: First) -> list[str]:
    """Return the screen, a line each, none of more than `WIDTH` columns."""
    parts = (_head, _reason, _choices, _fix, _trust, _more)
    return [fitted(line, WIDTH) for part in parts for line in part(first)]


def ticket(first: First) -> Table:
    """Return the answer as a table under a sentence, for a ticket: ten lines as Markdown."""
    run = first.run
    worth = sorted(first.saved, key=lambda kind: -first.saved[kind])
    saved = ", ".join(f"{_WORK[kind]} {_change(-first.saved[kind])}" for kind in worth[:3])
    why = f"with a tenth less: {saved}" if saved else first.untold
    ran = f"{plain(run.trace.name)}, {quantity(run.seconds, 's')} on {plain(run.source.title)}"
    rows = []
    for v in verdicts(first.answer.projections):
        told = v.kind != "unknown"
        change = _change(v.change) if told else ""
        ends = f"{_change(v.low)} to {_change(v.high)}" if told else ""
        rows.append(cells(plain(v.name), change, ends, plain(_verdict(v))))
    surely = "none surely pays"
    if first.fix is not None:
        surely = f"{first.fix.title}: {_change(-first.fix.on_source[0])} at least"
    caption = f"First fix: {plain(surely, 120)}. {capital(_judged(first.answer))}." if rows else ""
    head = ["GPU closer or farther", ">change", ">90 % range", "verdict"]
    return Table(caption, head, rows, title=f"{ran}: {_BOUND[first.bound]} ({why})")


def _head(first: First) -> Iterator[str]:
    """Say what was recorded."""
    run = first.run
    whole = run.whole or run
    about = f"{quantity(whole.seconds, 's')}   {plain(run.source.title)}"
    yield f"{shorten(plain(run.trace.name), 30)}   {about}"
    if "synthetic" in (run.trace.facts.get("product_version") or ""):
        yield "  SYNTHETIC: written by a script, nobody ran this"
    if not run.projectable:
        yield f"  {plain(recorder(run.trace.facts))}"
    if exchanged := message_words(run.profile):
        yield f"  {plain_text(exchanged)}"
    begun = whole.start_up
    if run.whole is not None and begun is not None:
        yield (
            f"  {100 * begun.share:.0f} % of it is start-up; all below is about the other "
            f"{quantity(run.seconds, 's')}"
        )
    yield ""


def _reason(first: First) -> Iterator[str]:
    """Say what holds the run up, from what less work saves, and where its time goes."""
    worth = sorted(first.saved, key=lambda kind: -first.saved[kind])
    saved = [f"{_WORK[kind]} {_change(-first.saved[kind])}" for kind in worth[:3]]
    if saved:
        yield _BOUND[first.bound]
        yield f"  with a tenth less:  {',  '.join(saved)}"
    else:
        yield _BOUND[""]
        yield f"  {first.untold}"
    spent = first.run.summary().table().sort("share", descending=True, nulls_last=True)
    words = [
        f"{_category(first, name)} {_spent(share)}"
        for name, share in spent.select("category", "share").iter_rows()
        if share is None or share >= _SHOWN
    ]
    yield f"  time:  {', '.join(words)}"
    yield from _several(first)
    if first.steps is not None:
        count, middle, spread = first.steps
        yield (
            f"  {count:,} steps:  {quantity(middle, 's')} in the median, "
            f"half of them within {quantity(spread, 's', 2)}"
        )
    yield ""


def _category(first: First, name: str) -> str:
    """Return a kind of activity in a word; time beside calls that nobody recorded has none."""
    if name == "cpu" and "api" in first.run.untold:
        return "nothing recorded"
    return CATEGORY_WORDS[name].partition(",")[0]


def _spent(share: float | None) -> str:
    """Return a share of the run time; null where it was not recorded."""
    return "not recorded" if share is None else f"{100 * share:.0f} %"


def _several(first: First) -> Iterator[str]:
    """Say how much each of several GPUs works."""
    gpus = each.gpus(first.run.profile)
    if len(gpus) < 2:
        return
    total = max(first.run.profile.run_time_ns, 1)
    busy = [f"{1.0 - gpu['idle_ns'] / total:.0%}" for gpu in gpus]
    many = f", and {len(busy) - 8} more" if len(busy) > 8 else ""
    yield f"  {len(gpus)} GPUs, busy:  {', '.join(busy[:8])}{many}".replace("%", " %")


def _choices(first: First) -> Iterator[str]:
    """Say what the run takes with the GPU closer or farther away."""
    if not first.answer.projections:
        return
    yield f"{'GPU closer or farther, the same GPU and program':52}change   90 % range"
    for verdict in verdicts(first.answer.projections):
        yield _row(verdict)
    fabric, layer = (_tolerated(first.tolerated[mode]) for mode in ("link", "remoting"))
    yield f"  5 % slower at  {fabric} one way over a fabric"
    yield f"                 {layer} round trip of remoted calls"
    yield ""


def _row(verdict: Verdict) -> str:
    """Return a line of the table of choices."""
    name = f"  {shorten(plain(verdict.name), 32)}"
    if verdict.kind == "unknown":
        return f"{name:36}{verdict.words}"
    ends = f"{_change(verdict.low)} to {_change(verdict.high)}"
    words = _verdict(verdict)
    return f"{name:36}{words:16}{_change(verdict.change):>8}   {ends}"


def _verdict(verdict: Verdict) -> str:
    """Return a verdict in at most sixteen characters."""
    if verdict.kind == "faster":
        return "faster"
    if verdict.kind == "over":
        return "over 5 % slower"
    if verdict.kind == "undecided" and verdict.inside is not None and not verdict.withheld:
        return f"{100 * verdict.inside:.0f} % within 5 %"
    if verdict.kind == "undecided":
        return "cannot say"
    return verdict.words.replace(NARROW, " ").partition(",")[0]


def _tolerated(found: Tolerated | str) -> str:
    """Return a latency with its range; `found` in words says why there is none."""
    return "cannot say" if isinstance(found, str) else latency_words(*found)


def _change(share: float) -> str:
    """Return a change with its sign, to a tenth of a per cent."""
    if abs(share) < _NONE:
        return "0 %"
    return f"{100 * share:+.0f} %" if abs(share) >= 0.0995 else f"{100 * share:+.1f} %"


def _fix(first: First) -> Iterator[str]:
    """Say which change to the program pays in any case."""
    gain = first.fix or first.best
    if gain is None:
        return
    least, most = gain.on_source
    surely = _change(-least)
    if most - least >= WORTH:
        surely += f", at best {_change(-most)}"
    title = gain.title if first.fix else "none that surely pays; what could most:"
    yield f"FIRST FIX   {title}{f': {surely}' if first.fix else ''}"
    if first.fix is None:
        yield f"            {gain.title}: {_change(-most)} at best"
    if gain.remedy:
        yield f"            {gain.remedy}"


def _trust(first: First) -> Iterator[str]:
    """Say what would change the answer most."""
    head = "TRUST       "
    for line in _doubts(first)[:_LINES]:
        yield f"{head}{line}"
        head = " " * len(head)


def _doubts(first: First) -> list[str]:
    """Return doubts, the one that changes the answer most first."""
    answer = first.answer
    found = {f.code for f in answer.findings}
    found |= {f.code for p in answer.projections for f in p.findings}
    out = [words for code, words in _DOUBTS.items() if code in found]
    trust = first.run.ordered.trust
    if trust is not None and not trust.refused and 1.0 - trust.explained >= _UNEXPLAINED:
        out.append(
            f"{100 * (1.0 - trust.explained):.0f} % of the critical path is time without a recorded cause"
        )
    told = [v for v in verdicts(answer.projections) if v.unknown and v.high - v.low > _NONE]
    if told:
        widest = max(told, key=lambda v: v.high - v.low)
        out.append(f"not known: {unknown_label(widest.unknown)}")
    return [*out[: _LINES - 1], *filter(None, [_judged(answer)])]


def _judged(answer: Answer) -> str:
    """Say what such answers were held against; empty where there is no answer."""
    if not answer.projections:
        return ""
    off = registry.load("services", "median off")("distance", "timeline")
    return f"tested on an OpenCL device, not yet on a GPU: {100 * off:.1f} % off (median)"


def _more(first: First) -> Iterator[str]:
    """Say what to ask next."""
    if first.answer.projections:
        yield "more        turnbuckle slack | whatif | project --on gh200 | report FILE, or -v"
        return
    verb = "model messages" if first.run.trace.mpi.height else "report"
    yield f"more        turnbuckle {verb} {plain(first.run.trace.name)}, or -v"
