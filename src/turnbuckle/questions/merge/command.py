"""``turnbuckle merge``: recordings of one run, a file a process or a machine, made one on one
clock.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from rich.text import Text

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.fields import SCHEMA_VERSION
from turnbuckle.foundation.files import free_folder, whole_folder
from turnbuckle.foundation.units import parse
from turnbuckle.show.terminal.cells import ns, plain
from turnbuckle.show.terminal.console import console_for
from turnbuckle.show.terminal.idle_options import refuse_idle
from turnbuckle.show.terminal.options import FormatOption, NoCache
from turnbuckle.show.terminal.output import provenance, write_json, write_rows
from turnbuckle.show.terminal.progress import reading
from turnbuckle.show.terminal.tables import print_findings, titled

if TYPE_CHECKING:
    from turnbuckle.trace.merge.merge import Merged
    from turnbuckle.trace.trace import Trace

Recordings = Annotated[
    list[Path],
    Parameter(
        help="two or more recordings of one run, each of other processes; in the order of the ranks"
    ),
]
Folder = Annotated[
    Path,
    Parameter(
        name=["--output", "-o"], help="folder to write the merged recording to; every verb reads it"
    ),
]
Clock = Annotated[
    Literal["collectives", "recorded"],
    Parameter(
        name="--clock",
        help="collectives: align the clocks on NCCL kernels and MPI collectives that the files "
        "share; recorded: trust the clocks of "
        "the files",
    ),
]
Skew = Annotated[
    str | None,
    Parameter(
        name="--max-skew",
        help="largest clock error allowed, else the merge is refused; 100 us if left out",
    ),
]

#: Findings of the merge itself; those of the recordings stand with every answer.
_OF_MERGING = ("P187", "P188", "P189", "P190")


def merge(
    recordings: Recordings,
    /,
    *,
    output: Folder,
    clock: Clock = "collectives",
    max_skew: Skew = None,
    format: FormatOption = "table",
    no_cache: NoCache = False,
) -> int:
    """Merge recordings of the ranks of one run into one: processes kept apart, clocks put right on
    the collectives that they share.
    """
    from turnbuckle.trace.merge import merge as merging
    from turnbuckle.trace.readers.parquet import digest

    refuse_idle(
        {"--max-skew": max_skew is not None and clock == "recorded"},
        "recorded clocks are taken as they are, however far they are off",
        "leave --max-skew out, or --clock",
    )
    allowed = merging.MAX_SKEW_NS if max_skew is None else _nanoseconds(max_skew)
    place = free_folder(output, "the merged recording")
    merged = merging.merge(
        [_read(path, no_cache) for path in _distinct(recordings)],
        clock=clock,
        max_skew_ns=allowed,
        name=output.name,
    )
    with whole_folder(place, "the merged recording") as draft:
        merged.trace.to_parquet(draft)
    if format == "json":
        about = {
            "schema_version": SCHEMA_VERSION,
            "folder": output.name,
            "clock": clock,
            "max_skew_ns": allowed if clock == "collectives" else None,
            "contradiction_ns": merged.clocks.contradiction_ns,
            "recordings": merged.rows,
            "findings": [f.as_dict() for f in merged.trace.findings],
            "provenance": {**provenance(), "folder_sha256": digest(place)},
        }
        write_json(about, None)
    elif format == "table":
        _print(merged, output)
    else:
        write_rows(
            [{**row, "ranks": " ".join(map(str, row["ranks"]))} for row in merged.rows],
            format,
            None,
        )
    return 0


def _nanoseconds(text: str) -> int:
    seconds = parse(text, "s")
    if not 1e-9 <= seconds <= 3600:
        raise error_of("A407.range", where="--max-skew", found=text[:40])
    return round(seconds * 1e9)


def _distinct(paths: list[Path]) -> list[Path]:
    """Return the files.

    Raise A405 if there are fewer than two, or one is given twice.
    """
    seen: set[Path] = set()
    for path in paths:
        real = path.absolute() if "::" in str(path) else path.resolve()
        if real in seen:
            raise error_of("A405.twice", found=path.name)
        seen.add(real)
    if len(paths) < 2:
        raise error_of("A405.alone", found="1 recording")
    return paths


def _read(path: Path, no_cache: bool) -> Trace:
    from turnbuckle.trace.read import read

    with reading(path) as progress:
        return read(path, use_cache=not no_cache, progress=progress)


def _print(merged: Merged, output: Path) -> None:

    console = console_for(None)
    ranks = sorted(rank for row in merged.rows for rank in row["ranks"])
    world = merged.trace.facts["world_size"]
    title = (
        f"{len(merged.rows)} recordings, {len(ranks)} ranks{f' of {world:,}' if world else ''}: "
        f"{plain(output.name)}"
    )
    drifts = any(row["drift_ns_per_s"] for row in merged.rows)
    columns = ("shift", "allowed", *(("drift",) if drifts else ()), "skew", "worst", "shared")
    table = titled(console, title, "rank", "recording", *columns, words=("recording",))
    for row in merged.rows:
        drift = (
            (f"{row['drift_ns_per_s'] / 1000:.3g} ppm" if row["drift_ns_per_s"] else "-",)
            if drifts
            else ()
        )
        figures = (
            ns(row["shift_ns"]),
            _allowed(row),
            *drift,
            ns(row["skew_p90_ns"]),
            ns(row["skew_p100_ns"]),
            f"{row['collectives']:,}",
        )
        table.add_row(
            _some(row["ranks"]),
            Text(_end(plain(row["name"], 4096), 12 if drifts else 21)),
            *figures,
        )
    console.print(table)
    legend = (
        "shift: added to the clock of the file; allowed: range of the shift in which no rank "
        "leaves a collective before all have entered; "
        "skew: distance between the ends of shared collectives, 90th percentile and worst"
    )
    console.print(Text(legend, "dim"))
    print_findings(console, [f for f in merged.trace.findings if f.code in _OF_MERGING])
    console.print()
    console.print(
        Text.assemble(("next  ", "bold cyan"), f"turnbuckle inspect {plain(output.name, 200)}")
    )


def _end(name: str, most: int) -> str:
    """Return the end of a name, because files of ranks differ there."""
    return name if len(name) <= most else f"…{name[1 - most :]}"


def _some(ranks: list[int], most: int = 4) -> str:
    return (
        ", ".join(map(str, ranks[:most]))
        + (f", and {len(ranks) - most} more" if len(ranks) > most else "")
    ) or "-"


def _allowed(row: dict[str, Any]) -> str:
    if row["file"] == 0:
        return "-"
    if not row["collectives"]:
        return "any"
    low, high = (
        ns(row[key]) if row[key] is not None else "any" for key in ("shift_low_ns", "shift_high_ns")
    )
    return f"{low} to {high}"
