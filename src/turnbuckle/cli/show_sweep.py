"""What ``turnbuckle sweep`` shows: how far it is, and the table as wide as the terminal."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from turnbuckle.cli.show import clean
from turnbuckle.cli.terminal import Terminal
from turnbuckle.errors import UsageError, did_you_mean
from turnbuckle.study.points import Kind
from turnbuckle.study.settings import unit_of
from turnbuckle.study.sweeping import Swept
from turnbuckle.units import show

_GAP = 2


def print_swept(found: Swept, output: Path | None, *, by: str | None, most: int) -> None:
    """How many points have an answer, and the table: what is the same in all rows is said once, what is too wide is named."""
    console = Terminal(soft_wrap=False, highlight=False)
    study = found.study
    console.print(Text(_headline(found), "bold"))
    for code, count in found.failed.items():
        why = next(o.error for o in found.outcomes if o is not None and o.code == code)
        console.print(Text(f"  {code}  {count:,} {'point' if count == 1 else 'points'}: {why}", "yellow"))
    if found.missing:
        console.print("the table follows when all shards are done")
        return
    frame = found.table()
    asked = ["recording", *study.columns]
    names = [*asked, *(["code"] if found.failed else []), *(n for n in frame.columns if n not in (*asked, "code", "error"))]
    if by in names:
        frame = frame.sort(by, nulls_last=True, maintain_order=True)
    rows = frame.head(max(most, 0)).to_dicts()
    same = {n: frame[n][0] for n in names if frame.height > 1 and frame[n].n_unique() == 1}
    units = {n: unit_of(n, study.kind.legal) for n in names}
    cells = {n: [_cell(row[n], units[n]) for row in rows] for n in names if n not in same}
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, _GAP, 0, 0))
    left, used = dict(cells), 0
    for name, column in cells.items():
        heading = _folded(name)
        width = max(map(len, [*heading.split("\n"), *column]))
        if used + width > console.width and used:
            break
        text = frame[name].dtype.is_numeric()
        table.add_column(heading, justify="right" if text else "left", no_wrap=True)
        used += width + _GAP
        del left[name]
    shown = [n for n in cells if n not in left]
    for k in range(len(rows)):
        table.add_row(*(clean(cells[n][k]) for n in shown))
    if shown and rows:
        console.print(table)
    said = []
    if same:
        said.append("everywhere: " + ", ".join(f"{n} {_cell(v, units[n])}" for n, v in same.items() if v is not None))
    if frame.height > len(rows):
        said.append(f"{frame.height - len(rows):,} more rows")
    if left:
        said.append("more columns: " + ", ".join(left))
    if output is not None and not found.missing:
        said.append(f"all in {output.name}")
    for line in said:
        console.print(Text(clean(line, 2000), "dim"))
    if by is not None and by not in names:
        # said last: what was computed is shown all the same
        fix = did_you_mean(by, names) or f"columns: {', '.join(names)}"[:160]
        raise UsageError("A081", "--by names no column", found=by[:40], fix=fix)


def _headline(found: Swept) -> str:
    total, failed = len(found.study), sum(found.failed.values())
    done = total - found.missing
    points = "1 point" if total == 1 else f"{total:,} points"
    parts = [f"{done:,} of {points}" if found.missing else points]
    parts.append(f"{found.computed:,} computed now in {show(found.seconds, 's')}")
    if found.from_journal:
        parts.append(f"{found.from_journal:,} from the journal")
    parts.append(f"{failed:,} failed" if failed else "none failed")
    return ", ".join(parts)


def _folded(name: str) -> str:
    """A long name of several words on two lines."""
    words = name.split("_")
    if len(name) <= 12 or len(words) < 2:
        return name
    cut = min(range(1, len(words)), key=lambda k: max(len("_".join(words[:k])), len("_".join(words[k:]))))
    return "_".join(words[:cut]) + "_\n" + "_".join(words[cut:])


def _cell(value: Any, unit: str) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if unit == "1":
        return f"{value:,}" if isinstance(value, int) else show(value, "1", 4)
    return show(float(value), unit) if math.isfinite(value) else str(value)


def print_settings(kind: Kind) -> None:
    """What a model can be asked: names, values, what holds where nothing is said."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, _GAP, 0, 0))
    for name in ("setting", "values", "left out", "what it is"):
        table.add_column(name, overflow="fold")
    for setting in kind.legal.values():
        default = "needed" if setting.needed else "-" if setting.default in (None, "") else _cell(setting.default, setting.unit)
        table.add_row(*(clean(text, 400) for text in (setting.name, setting.wanted, default, setting.meaning)))
    Terminal(soft_wrap=False, highlight=False).print(table)
