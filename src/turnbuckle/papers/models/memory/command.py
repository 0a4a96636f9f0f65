"""Command ``turnbuckle model memory``: kernels with their data in host memory, in device memory, or
moved on demand.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from rich.text import Text

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.units import parse, show
from turnbuckle.machine import load
from turnbuckle.show.terminal.cells import clean, plain
from turnbuckle.show.terminal.model_answer import ModelAnswer
from turnbuckle.show.terminal.options import (
    NO_PART,
    MachineName,
    NoCache,
    PartOptions,
    Recorded,
    Source,
)
from turnbuckle.show.terminal.recording import inspected, refuse_asked
from turnbuckle.show.terminal.tables import is_table, print_findings, span, titled

if TYPE_CHECKING:
    from rich.console import Console

    from turnbuckle.papers.models.memory.question import Ratio, UnifiedMemory

#: Width of a terminal on which values and intervals fit in one line.
_WIDE = 116


def memory(
    work: Annotated[
        Recorded,
        Parameter(
            help=(
                "a table (name, flops, regular, irregular, h2d, d2h), or a recording with "
                "unified memory"
            )
        ),
    ],
    /,
    *,
    on: Annotated[
        MachineName | None,
        Parameter(
            name="--on", help="machine whose memories are meant; that of the recording if left out"
        ),
    ] = None,
    memories: Annotated[
        Path | None,
        Parameter(
            help=(
                "CSV of measured bandwidths: memory (hbm, ddr), regular, irregular [B/s], error; "
                "replaces the machine's"
            )
        ),
    ] = None,
    memory_bound: Annotated[
        str | None,
        Parameter(
            help=(
                "recording: share of kernel time that memory bounds, as 0.6:0.9, or unknown for "
                "everything that can be"
            )
        ),
    ] = None,
    counters: Annotated[
        Path | None,
        Parameter(
            help="recording: table of what its kernels do; a name stands for all that contain it"
        ),
    ] = None,
    overlap: Annotated[
        Literal["full", "none"] | None,
        Parameter(
            help="table: copies behind arithmetic as in equation 8 (if left out), or beside it"
        ),
    ] = None,
    source: Source = None,
    no_cache: NoCache = False,
    part: PartOptions = NO_PART,
) -> ModelAnswer:
    """Compare data in host memory, in device memory and moved on demand: equation 8 of the ECP
    report.
    """
    from turnbuckle.papers.models.memory import question as study

    measured = study.read_memories(memories) if memories is not None else None
    if is_table(work):
        if on is None:
            raise error_of("A045.machine")
        if memory_bound is not None or counters is not None:
            raise error_of("A045.option", found=work.name)
        if source is not None:
            raise error_of("A045.source", found=work.name)
        refuse_asked(work, part.given(), "a table of work")
        answer = study.from_numbers(
            study.read_work(work), study.memories(load(on), measured), overlap or "full"
        )
    else:
        if overlap is not None:
            raise error_of("A045.overlap", found=work.name)
        share = _share(memory_bound) if memory_bound is not None else None
        counted = study.read_work(counters) if counters is not None else None
        run = inspected(work, source, no_cache, part)
        machine = load(on).resolved(run.source) if on is not None else run.source
        answer = study.from_profile(
            run.profile, study.memories(machine, measured), memory_bound=share, counted=counted
        )
    document = answer.as_dict()
    return ModelAnswer(
        document, [_memory_row(r) for r in document["rows"]], partial(_print_memory, answer=answer)
    )


def _share(text: str) -> tuple[float, float]:
    if text.strip().lower() == "unknown":
        return 0.0, 1.0
    low, colon, high = text.partition(":")
    return parse(low, "1"), parse(high if colon else low, "1")


def _memory_row(row: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {"name": row["name"]}
    ends = ("low", "value", "high")
    for placement, three in row["seconds"].items():
        flat |= {f"{placement}_{end}_seconds": v for end, v in zip(ends, three, strict=True)}
    return flat | {
        f"ddr_over_hbm_{end}": v for end, v in zip(ends, row["ddr_over_hbm"], strict=True)
    }


def _print_memory(console: Console, answer: UnifiedMemory) -> None:

    recorded = answer.basis == "recording"
    head = "bracket from what is not recorded" if recorded else "modelled by equation 8"
    title = f"time of kernels by where their data lies, {head}"
    bounds = () if recorded else ("bound by",)
    table = titled(console, title, "", "hbm", "ddr", "migrated", "ddr / hbm", *bounds, words=bounds)
    for row in answer.rows:
        bound = (
            row.bound_by[0]
            if row.bound_by[0] == row.bound_by[1]
            else f"{row.bound_by[0]}, in ddr {row.bound_by[1]}"
        )
        name = {"all": "the run"}.get(row.name, row.name) if recorded else row.name
        cells = [
            *(_of(row.seconds[p], "s") for p in ("hbm", "ddr", "migrated")),
            _of(row.ratio, "1"),
        ]
        if console.width < _WIDE:
            # on a narrow terminal an interval below its value stays whole
            cells = [cell.replace(" [", "\n[", 1) for cell in cells]
        table.add_row(clean(name), *cells, *([] if recorded else [bound]))
    console.print(table)
    for words in _assumed(answer):
        console.print(Text(words, "dim"))
    if answer.migrated_bytes:
        volumes = ", ".join(
            f"{show(b, 'B')} {direction.rpartition('_')[2]}"
            for direction, b in answer.migrated_bytes.items()
        )
        console.print(
            Text(
                (
                    f"migrated: {volumes}; that column is as recorded, the other two are without "
                    "migrations"
                ),
                "dim",
            )
        )
    if (
        answer.shortest_seconds is not None
        and answer.shortest_seconds < 0.999 * answer.rows[0].seconds["hbm"].high
    ):
        shortest = show(answer.shortest_seconds, "s")
        hint = (
            f"if every launch took as long as the shortest of its kernel: {shortest} of kernels "
            "(a hint, no bound)"
        )
        console.print(Text(hint, "dim"))
    for name, words in answer.sources.items():
        if words:
            console.print(Text(f"{name}: {plain(words, 160)}", "dim"))
    print_findings(console, answer.findings)


def _assumed(answer: UnifiedMemory) -> list[str]:
    assumptions = ["[ ]: 90 %, from the errors of the bandwidths"]
    if answer.overlap is not None:
        copies = {"full": "behind arithmetic", "none": "before and after kernels"}[answer.overlap]
        return [
            *assumptions,
            (
                f"migrated: copies {copies} (--overlap {answer.overlap}); ddr: kernels read over "
                "the link, nothing moves"
            ),
        ]
    assumptions = [
        (
            "[ ]: least and most of what the recording leaves open, with 90 % of the errors of "
            "the bandwidths"
        )
    ]
    if answer.memory_bound not in (None, (0.0, 1.0)):
        low, high = answer.memory_bound or (0.0, 1.0)
        share = f"{low:.0%}" if low == high else f"{low:.0%} to {high:.0%}"
        assumptions.append(
            f"{share} of kernel time is bound by memory, as you say; the rest keeps its time in ddr"
        )
        assumptions.append("that holds only where the rest moves far less than hbm could")
    return assumptions


def _of(ratio: Ratio, unit: str) -> str:
    """Return a value with its interval as text; a bracket has no value."""
    if ratio.value is None:
        return span(ratio.low, ratio.high, unit)
    return (
        show(ratio.value, unit)
        if ratio.low == ratio.high
        else f"{show(ratio.value, unit)} {span(ratio.low, ratio.high, unit, ratio.value)}"
    )
