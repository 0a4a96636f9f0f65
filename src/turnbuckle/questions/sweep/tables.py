"""Terminal output of ``turnbuckle sweep``: its progress, and the table as wide as the terminal."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from turnbuckle.foundation.errors import did_you_mean, error_of
from turnbuckle.foundation.settings import unit_of
from turnbuckle.foundation.units import show
from turnbuckle.questions.sweep.points import Kind
from turnbuckle.questions.sweep.question import Swept
from turnbuckle.show.terminal.cells import clean
from turnbuckle.show.terminal.console import Terminal

_GAP = 2
#: Recordings that are summed up, of more the first; JSON has all.
_MOST_SENTENCES = 12
_FIRST = ("communication_seconds", "seconds")


def print_swept(
    console: Console,
    swept: Swept,
    output: Path | None = None,
    *,
    by: str | None = None,
    most: int = 20,
) -> None:
    """Print how many points have an answer, and the table.

    A value that is the same in all rows is printed once. Columns that do not fit are named.
    """
    study = swept.study
    console.print(Text(swept.headline(), "bold"))
    for code, count in swept.failed.items():
        why = swept.why(code)
        console.print(
            f"  {code}  {count:,} {'point' if count == 1 else 'points'}: {clean(why, 300)}",
            style="yellow",
        )
    if swept.missing:
        console.print("the table follows when all shards are done")
        return
    frame = swept.table()
    asked = ["recording", *study.columns]
    results = [n for n in frame.columns if n not in (*asked, "code", "error")]
    # the results of interest in a sweep of messages stand next to its settings
    results.sort(key=lambda n: _FIRST.index(n) if n in _FIRST else len(_FIRST))
    names = [*asked, *(["code"] if swept.failed else []), *results]
    if by in names:
        frame = frame.sort(by, nulls_last=True, maintain_order=True)
    rows = frame.head(max(most, 0)).to_dicts()
    same = {n: frame[n][0] for n in names if frame.height > 1 and frame[n].n_unique() == 1}
    units = {n: unit_of(n, study.kind.legal) for n in names}
    cells = {n: [_cell(row[n], units[n]) for row in rows] for n in names if n not in same}
    # a result that prints alike in every row is moved out of the table
    alike = {
        n
        for n in results
        if n in cells and rows and frame.height == len(rows) > 1 and len(set(cells[n])) == 1
    }
    left = _print_rows(console, {n: c for n, c in cells.items() if n not in alike}, frame, results)
    notes = [f"penalty: {study.kind.penalty}"] if study.kind.penalty and "penalty" in names else []
    if alike:
        notes.append(
            "nearly everywhere: " + ", ".join(f"{n} {cells[n][0]}" for n in cells if n in alike)
        )
    if any(v is not None for v in same.values()):
        notes.append(
            "everywhere: "
            + ", ".join(f"{n} {_cell(v, units[n])}" for n, v in same.items() if v is not None)
        )
    if frame.height > len(rows):
        hidden = frame.height - len(rows)
        notes.append(f"{hidden:,} more row{'s' * (hidden > 1)}")
    if left and rows:
        notes.append("more columns: " + ", ".join(left))
    if output is not None:
        notes.append(f"all in {output.name}")
    for line in notes:
        console.print(clean(line, 2000), style="dim")
    _print_summaries(console, swept)
    _print_crossovers(console, swept)
    if by is not None and by not in names:
        # refused last, so that the computed answers are shown first
        fix = did_you_mean(by, names) or f"columns: {', '.join(names)}"[:160]
        raise error_of("A081.column", found=by[:40], fix=fix)


def _print_rows(
    console: Console, cells: dict[str, list[str]], frame: pl.DataFrame, results: list[str]
) -> list[str]:
    """Print the columns that fit side by side, and return the names of the others.

    Columns stand closer together if no result would fit otherwise.
    """
    widths = {n: max(map(len, [*_folded(n).split("\n"), *column])) for n, column in cells.items()}
    first = next((k for k, n in enumerate(cells, 1) if n in results), len(cells))
    gap = _GAP if sum(list(widths.values())[:first]) + _GAP * (first - 1) <= console.width else 1
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, gap, 0, 0))
    shown: list[str] = []
    used = 0
    for name, width in widths.items():
        if used + width > console.width and shown:
            break
        table.add_column(
            _folded(name),
            justify="right" if frame[name].dtype.is_numeric() else "left",
            no_wrap=True,
        )
        shown.append(name)
        used += width + gap
    count = len(next(iter(cells.values()), []))
    for k in range(count):
        table.add_row(*(clean(cells[n][k]) for n in shown))
    if shown and count:
        console.print(table)
    return [n for n in cells if n not in shown]


def _print_summaries(console: Console, swept: Swept) -> None:
    every = [s for s in swept.summaries() if s.best is not None and s.varied]
    for summary in every[:_MOST_SENTENCES]:
        console.print(f"[bold]{summary.recording}:[/bold] {clean(summary.sentence, 2000)}")
    if len(every) > _MOST_SENTENCES:
        console.print(
            f"{len(every) - _MOST_SENTENCES:,} more recordings: summary in --format json",
            style="dim",
        )


def _print_crossovers(console: Console, swept: Swept) -> None:
    """Print where the answer changes, and how narrow that is known."""
    refine = swept.study.refine
    if refine is None:
        return
    changes = swept.crossovers()
    for change in changes[:_MOST_SENTENCES]:
        console.print(
            f"[bold]{change.recording}:[/bold] "
            f"{clean(change.sentence(swept.study.kind.legal), 2000)}"
        )
    if len(changes) > _MOST_SENTENCES:
        console.print(
            f"{len(changes) - _MOST_SENTENCES:,} more changes: crossovers in --format json",
            style="dim",
        )
    added = swept.added
    wide = sum(not refine.closed(c.low, c.high) for c in changes)
    end = f"; {wide:,} of the changes could be narrowed by more points" if wide else ""
    unchanged = "" if changes else f"the answer is the same at all points along {refine.axis}; "
    console.print(
        f"{unchanged}{added:,} points added of at most {refine.budget:,}{end}", style="dim"
    )


def _folded(name: str) -> str:
    """Fold a long name of several words onto two lines."""
    words = name.split("_")
    if len(name) <= 8 or len(words) < 2:
        return name
    cut = min(
        range(1, len(words)), key=lambda k: max(len("_".join(words[:k])), len("_".join(words[k:])))
    )
    return "_".join(words[:cut]) + "_\n" + "_".join(words[cut:])


def _cell(value: Any, unit: str) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, int | float):
        return str(value)
    if unit == "1":
        return f"{value:,}" if isinstance(value, int) else show(value, "1", 4)
    return show(float(value), unit) if math.isfinite(value) else str(value)


def print_settings(kind: Kind) -> None:
    """Print the settings of a model: name, default, legal values, meaning."""
    console = Terminal(soft_wrap=False, highlight=False)
    for setting in kind.legal.values():
        default = (
            "needed"
            if setting.needed
            else ""
            if setting.default in (None, "")
            else f"= {_cell(setting.default, setting.unit)}"
        )
        head = Text.assemble(
            (setting.name, "bold"),
            f" {default}" if default else "",
            (f"  ({setting.wanted})", "dim"),
        )
        console.print(head)
        if setting.meaning:
            console.print(
                Padding(Text.from_markup(clean(setting.meaning, 400)), (0, 0, 0, 4), expand=False)
            )
