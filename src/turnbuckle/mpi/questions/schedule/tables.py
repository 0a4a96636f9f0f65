"""Output of ``turnbuckle inspect`` for a schedule, an MPI program without times: unknown values are
null, never 0.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from turnbuckle.foundation.files import opened
from turnbuckle.foundation.units import show
from turnbuckle.mpi.schedules import figures, files, sniff
from turnbuckle.mpi.schedules.figures import Figures
from turnbuckle.show.terminal.cells import clean, seconds
from turnbuckle.show.terminal.console import console_for
from turnbuckle.show.terminal.output import flattened, untimed, write_answer
from turnbuckle.show.terminal.recording import refuse_asked

__all__ = ["HOLDS", "inspect", "sniff"]

#: Description of such a file.
HOLDS: Final = "a schedule, which holds no times"
_WORDS: Final = {"simgrid-ti": "SimGrid time-independent trace", "goal": "GOAL schedule"}
_NEXT: Final = {
    "simgrid-ti": "turnbuckle model messages {file} --flops-per-second '10 GFLOP/s', the speed of a rank",
    "goal": "turnbuckle model messages {file} gives it times",
}


def inspect(path: Path, format: str, output: Path | None, asked: dict[str, object]) -> None:
    """Write the counts of a schedule.

    Parameters
    ----------
    asked : options that need a recording, by name; refused (A077) where one is given.
    """
    refuse_asked(path, asked, HOLDS)
    counts = figures(path)
    if format == "table":
        _print(path, counts, output)
        return
    document = _document(path, counts)
    write_answer(document, [flattened(document["profile"])], format, output)


def _document(path: Path, counts: Figures) -> dict[str, Any]:
    digests, size = [], 0
    for place in files(path):
        with opened(place) as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
        size += place.stat().st_size
    # A schedule of several files has the digest of their digests, the anchor's first.
    digest = (
        digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    )
    work, scope = (
        {"flops": counts.compute_flops, "seconds": counts.compute_seconds},
        "a schedule: what each rank does; it holds no times",
    )
    profile = {"mpi": counts.mpi(), "work": work, "devices": [], "scope": scope}
    return untimed(
        path,
        {"sha256": digest, "size_bytes": size, "format": counts.format},
        profile,
        counts.findings,
    )


def _print(path: Path, counts: Figures, output: Path | None) -> None:
    console = console_for(output)
    head = Table.grid(padding=(0, 2))
    head.add_column(style="bold cyan")
    head.add_column(overflow="fold")
    head.add_row("schedule", f"{clean(path.name)}  {_WORDS[counts.format]}; it holds no times")
    head.add_row(
        "",
        (
            f"{counts.ranks:,} ranks, {counts.operations:,} "
            f"{'operations' if counts.format == 'goal' else 'calls'}"
        ),
    )
    head.add_row("sends", f"{counts.sends:,} of {show(counts.sent_bytes, 'B')} in all")
    head.add_row("receives", f"{counts.receives:,}")
    head.add_row(
        "messages",
        f"{counts.matched:,} with both sides"
        + (f", {counts.unmatched:,} calls without the other" if counts.unmatched else ""),
    )
    wide = ", ".join(f"{count:,} {name}" for name, count in counts.collectives.items())
    if counts.format != "goal":
        head.add_row("collectives", f"{wide or 'none'}" + (" calls" if wide else ""))
    work = [] if counts.compute_flops is None else [f"{counts.compute_flops / 1e6:,.4g} Mflop"]
    if counts.compute_seconds or not work:
        work.append(seconds(counts.compute_seconds))
    head.add_row("compute", f"{' and '.join(work)}, all ranks together")
    console.print(head)
    if counts.findings:
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(justify="right")
        table.add_column(overflow="fold")
        for f in counts.findings:
            words = Text(f.meaning)
            if f.detail:
                words.append(f" ({f.detail})", "dim")
            table.add_row(
                Text(f.code, "yellow" if f.severity == "warning" else "dim"), f"{f.count:,}", words
            )
        console.print()
        console.print(table)
    console.print()
    console.print(
        Text.assemble(
            ("next  ", "bold cyan"), _NEXT[counts.format].format(file=clean(path.name, 200))
        )
    )
