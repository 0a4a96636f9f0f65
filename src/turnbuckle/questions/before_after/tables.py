"""Terminal output of `turnbuckle diff`: what changed, the largest change of each kind first."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.text import Text

from turnbuckle.foundation.units import show as quantity
from turnbuckle.questions.before_after.diff import OF, Diff
from turnbuckle.show.kernel_names import kernel_labels
from turnbuckle.show.run_tables import CATEGORY_WORDS
from turnbuckle.show.terminal.cells import plain, seconds
from turnbuckle.show.terminal.tables import unframed
from turnbuckle.show.text import shorten
from turnbuckle.show.unknowns import DIRECTION

#: Rows of each kind, letters of a name, and the share of the run time from which a change is shown.
_ROWS, _NAME, _LEAST = 5, 38, 0.001
_TITLES: Final = {
    "part": "where the run time goes",
    "copy": "copies, sum of their times",
    "kernel": "kernels, sum of their times",
    "call": "host calls, sum of their times",
}


def show(console: Console, answer: Diff) -> None:
    """Print both run times, what the steps say, and the largest changes."""
    names = (plain(run.trace.name, 36) for run in (answer.before, answer.after))
    part = ", both without start-up" if answer.without_start_up else ""
    console.print(Text(f"{' -> '.join(names)}{part}"))
    was, now = (seconds(run.seconds) for run in (answer.before, answer.after))
    console.print(Text(f"{was} -> {now}, {_percent(answer.change)}", "bold"))
    console.print(Text(_steps(answer)))
    for of in OF:
        _print_rows(console, answer, of)
    if answer.untold:
        absent = ", ".join(CATEGORY_WORDS[name].partition(",")[0] for name in answer.untold)
        console.print()
        console.print(Text(f"not recorded in both: {absent}"))


def _steps(answer: Diff) -> str:
    """Say whether the steps of both runs differ by more than they scatter."""
    steps = answer.steps
    if steps is None:
        return "no steps are marked in both: what runs scatter by is not known"
    word = "more than" if steps.apart else "within"
    medians = f"{quantity(steps.before, 's')} -> {quantity(steps.after, 's')} a step"
    return f"{medians}, {word} the spread of steps ({quantity(steps.spread, 's', 2)})"


def _print_rows(console: Console, answer: Diff, of: str) -> None:
    """Print the largest changes of one kind."""
    least = _LEAST * answer.before.seconds
    rows = [row for row in answer.changes() if row["of"] == of]
    told = [row for row in rows if abs(float(str(row["change"]))) >= least][:_ROWS]
    if not rows:
        return
    console.print()
    if not told:
        console.print(Text(f"{_TITLES[of]}: no change of {100 * _LEAST:g} % of the run time"))
        return
    table = unframed(_TITLES[of], "before", "after", "change")
    for row in told:
        name = _named(of, plain(row["name"], 200))
        was, now, change = (float(str(row[key])) for key in ("seconds", "seconds_after", "change"))
        counts = row["count"], row["count_after"]
        times = "" if counts[0] == counts[1] else f" ({counts[0]:,} -> {counts[1]:,})"
        words = shorten(name, _NAME - len(times))
        share = _percent(change / answer.before.seconds)
        table.add_row(words + times, seconds(was), seconds(now), share)
    console.print(table)


def _named(of: str, name: str) -> str:
    """Return what a row is about, in words."""
    if of == "part":
        return CATEGORY_WORDS[name].partition(",")[0]
    if of == "copy":
        return DIRECTION[name]
    return plain(kernel_labels([name])[0]) if of == "kernel" else name


def _percent(share: float) -> str:
    """Return a change in per cent of the run time before."""
    return f"{100 * share:+.1f} %"
