"""Additive model on nvprof summaries: the report's terms, and the bound that is left without a run
time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.foundation.units import parse
from turnbuckle.papers.models.node.additive import PARTS, exceeds, from_terms, within_range
from turnbuckle.papers.models.node.application_table import within
from turnbuckle.papers.models.node.nvprof_summary import Process, Row, read_summary
from turnbuckle.papers.models.node.tables import ratio_words, spoken_lambdas
from turnbuckle.papers.numbers import Interval, exact
from turnbuckle.profile.classify import call_class, waits
from turnbuckle.show.terminal.cells import clean, seconds
from turnbuckle.show.terminal.console import Terminal
from turnbuckle.show.terminal.tables import print_findings, titled

#: Rows of the device's table, and of unified memory's, that are data: what crosses the coupling.
_COPIES: Final = tuple(
    f"[CUDA memcpy {direction}]" for direction in ("HtoD", "DtoH", "HtoA", "AtoH")
)
_DATA: Final = (*_COPIES, "Host To Device", "Device To Host")
_NOTHING: Final = exact(0.0)


def summary_rows(
    path: Path, lambdas: Mapping[str, float], total: str | None
) -> tuple[list[dict[str, Any]], list[Finding]]:
    """Apply the additive model to each process of a summary.

    Raises P041, P042 where the file cannot be read; A400 where `total` is out of range, A401 for a
    lambda of a term that the summary lacks, A039 for a lambda out of range.

    Copies between host and device and migrations are data, host calls are control, all other device
    activity is GPU.  Calls that wait for the device are counted once, as what they wait for.  A
    summary does not hold CPU and MPI time: with `total` CPU is the difference, without it every
    ratio lies between that of the sums and 1, and only this range is given.

    Returns one row per process, as `from_terms` makes them, with the terms [s]; terms that the
    summary does not hold are None.
    """
    within_range(lambdas)
    stated = None if total is None else _total(total)
    processes, findings = read_summary(path)
    rows, over, twice = [], 0, 0
    for index, process in enumerate(processes):
        numbers = _terms(process)
        _held(lambdas, numbers, process, path)
        name = (
            f"process {process.pid}"
            if process.pid is not None
            else f"process {index + 1} of the file"
        )
        terms = numbers | ({"cpu": _NOTHING} if stated is None else {"total": stated})
        row = {
            "name": name,
            **{
                f"{n}_seconds": numbers[n].value if n in numbers else None
                for n in ("gpu", "control", "data")
            },
        }
        row |= from_terms(
            {"control": _NOTHING, "gpu": _NOTHING, "data": _NOTHING, **terms, "mpi": _NOTHING},
            lambdas,
        )
        rows.append(_bounded(row) if stated is None else row)
        over += stated is not None and exceeds({**terms, "mpi": _NOTHING})
        twice += any(r.section == "unified" and r.name in _DATA for r in process.rows)
    if over:
        findings.append(finding("A341", over, "sums of nvprof against --total"))
    return rows, findings


def _total(text: str) -> Interval:
    value = parse(text, "s")
    if not 0 < value <= 1e12:
        raise error_of("A400.time", found=text[:40])
    return within(value, text)


def _terms(process: Process) -> dict[str, Interval]:
    """Return the terms that the tables of a process hold, including waits and classes of calls
    [s].
    """
    numbers: dict[str, Interval] = {}
    if process.sections & {"gpu", "unified"}:
        device = [
            r
            for r in process.rows
            if r.section in ("gpu", "unified") and (r.section == "gpu" or r.name in _DATA)
        ]
        numbers["data"] = _sum([r for r in device if r.name in _DATA])
        numbers["gpu"] = _sum([r for r in device if r.name not in _DATA])
    calls = [r for r in process.rows if r.section == "api"]
    if calls:
        numbers["control"] = _sum(calls)
        numbers["waits"] = _sum([r for r in calls if waits(r.name)])
        for part in PARTS:
            class_calls = [r for r in calls if not waits(r.name) and call_class(r.name) == part]
            if class_calls:
                numbers[part] = _sum(class_calls)
    return numbers


def _sum(rows: Sequence[Row]) -> Interval:
    value, half = sum(r.seconds for r in rows), sum(r.half for r in rows)
    return Interval(value, max(value - half, 0.0), value + half)


def _held(
    lambdas: Mapping[str, float], numbers: Mapping[str, Interval], process: Process, path: Path
) -> None:
    """Refuse a lambda of a term that the summary lacks (A401)."""
    classes = {
        *(("data", "kernel") if "gpu" in numbers else ()),
        *(("control",) if "control" in numbers else ()),
    }
    classes |= {p for p in PARTS if p in numbers}
    if missing := [name for name in lambdas if name not in classes]:
        unprinted = missing[0] not in ("data", "kernel") and "api" not in process.sections
        lacks = "its host calls were not printed" if unprinted else "it holds none"
        raise error_of(
            "A401",
            where=path.name,
            found=lacks,
            missing=missing[0],
            classes=", ".join(sorted(classes)),
        )


def _bounded(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row without a run time: the unscaled part may be anything from 0 up, so each ratio
    lies between that of the sums and 1.
    """
    out = row | {
        "cpu_seconds": None,
        "stated_seconds": None,
        "closure_defect_seconds": None,
        "projected_seconds": None,
    }
    for ratio in ("benefit", "penalty"):
        low, high = row[f"{ratio}_low"], row[f"{ratio}_high"]
        out |= {ratio: None, f"{ratio}_low": min(low, 1.0), f"{ratio}_high": max(high, 1.0)}
    return out | {
        "saved_seconds": row["summed_seconds"] - row["waits_seconds"] - row["projected_seconds"]
    }


def print_summaries(
    console: Terminal,
    rows: Sequence[Mapping[str, Any]],
    lambdas: Mapping[str, float],
    findings: Sequence[Finding],
) -> None:
    """Print the terms of each process, the projected run time and ratios; without a run time, the
    bound that is left.
    """
    timed = any(row["stated_seconds"] is not None for row in rows)
    columns = [
        "",
        "GPU",
        "data",
        "control",
        "waits",
        *(("CPU, MPI", "then", "run gets", "interval") if timed else ("run gets at most",)),
    ]
    table = titled(console, f"additive model: {spoken_lambdas(lambdas)}", *columns)
    for row in rows:
        terms = [_seconds(row[f"{n}_seconds"]) for n in ("gpu", "data", "control", "waits")]
        then = [_seconds(row[f"{n}_seconds"]) for n in ("cpu", "projected")] if timed else []
        table.add_row(
            clean(row["name"], 40), *terms, *then, *(ratio_words(row) if timed else (_bound(row),))
        )
    console.print(table)
    console.print()
    notes = [
        "waits: of control, calls that wait for the device; counted once, as what they wait for"
    ]
    if timed:
        notes.append(
            "CPU, MPI: what the others leave of --total; intervals: the least and most that "
            "the digits allow"
        )
    else:
        notes.append(
            "a summary does not say how long the run was, and what is saved is a smaller "
            "part of a longer run: give --total"
        )
    for words in notes:
        console.note(words)
    print_findings(console, findings)


def _seconds(value: float | None) -> str:
    return "-" if value is None else seconds(value)


def _bound(row: Mapping[str, Any]) -> str:
    faster, slower = row["benefit_high"], row["penalty_high"]
    return f"{faster:.3f}x faster" if faster >= slower else f"{slower:.3f}x slower"
