"""Additive model on applications of a table, on terms given by name, and on one recording."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

from turnbuckle.cost.ratio import AdditiveTotals, cpu_by_difference
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.foundation.table_file import Column, Table, read_table
from turnbuckle.machine import load
from turnbuckle.machine.machine import Change, Machine
from turnbuckle.papers.models.node.application_table import (
    MOST_RATIO,
    MOST_SECONDS,
    application_name,
    cell_reader,
    refuse_empty,
)
from turnbuckle.papers.models.node.functions import functions
from turnbuckle.papers.numbers import Interval, swept
from turnbuckle.projection.model import Model
from turnbuckle.projection.run import Run

#: Terms of equation 3 as a table has them, and parts of control that may have a lambda of their
#: own.
TERMS: Final = ("gpu", "control", "data", "cpu", "mpi")
PARTS: Final = ("launch", "copy", "memset", "alloc", "event", "query", "stream", "module", "other")
#: Shares of run time that a table may have instead, and the class of each.
SHARES: Final = {
    "launch share": "launch",
    "alloc share": "alloc",
    "control share": "control",
    "data share": "data",
    "uvm share": "data",
    "memcpy share": "data",
}


def additive_rows(
    path: Path, lambdas: Mapping[str, float]
) -> tuple[list[dict[str, Any]], list[Finding]]:
    """Apply the additive model to each application of a table of five terms [s], with optional
    columns, or of shares of run time.

    Raises A039 where the numbers of a line contradict each other, where the table has neither terms
    nor shares, or both, or where a lambda is given for a class without a column.

    Returns rows with sum, closure defect, projection and ratios over the sum and over the stated
    total, each with the least and most within the digits of the table. Finding A341 counts the rows
    whose terms exceed the stated total by more than their digits.
    """
    columns = [Column("name", "", needed=False)]
    columns += [
        Column(n, "s", needed=False, most=MOST_SECONDS) for n in (*TERMS, "total", "waits", *PARTS)
    ]
    columns += [Column(n, "1", needed=False, most=1.0) for n in SHARES]
    table = read_table(path, columns, "the table of applications")
    shares = any(name in table.columns for name in SHARES)
    if shares == any(c.name in table.columns for c in columns if c.unit == "s"):
        raise error_of(
            "A039.columns",
            where=table.name,
            which="both" if shares else "neither of",
            terms=", ".join(TERMS),
            shares=", ".join(SHARES),
        )
    _scales(table, lambdas, shares)
    refuse_empty(table)
    cell = cell_reader(path, table, columns)
    rows = []
    over = 0
    for i in range(len(table)):
        numbers = {
            n: cell(i, n) for n, column in table.numbers.items() if not math.isnan(column[i])
        }
        _consistent(table, i, {n: v.value for n, v in numbers.items()}, shares)
        rows.append(
            {
                "name": application_name(table, i),
                **(_from_shares if shares else from_terms)(numbers, lambdas),
            }
        )
        over += not shares and exceeds(numbers)
    return rows, [finding("A341", over, "terms of a table against its total")] if over else []


def _scales(table: Table, lambdas: Mapping[str, float], shares: bool) -> None:
    """Refuse a lambda of a class without a column in the table, and a lambda out of range
    (A039).
    """
    within_range(lambdas)
    if shares:
        columns = {SHARES[name] for name in table.columns if name in SHARES}
        classes = columns | ({"control"} if columns - {"data"} else set())
    else:
        classes = {"data", "control", "kernel", *(name for name in PARTS if name in table.columns)}
    if unknown := [name for name in lambdas if name not in classes]:
        raise error_of(
            "A039.class", where=table.name, name=unknown[0], classes=", ".join(sorted(classes))
        )


def within_range(lambdas: Mapping[str, float]) -> None:
    """Refuse a lambda out of range (A039)."""
    if wild := [
        name for name, value in lambdas.items() if not 1 / MOST_RATIO <= value <= MOST_RATIO
    ]:
        raise error_of(
            "A039.lambda",
            found=f"{lambdas[wild[0]]:g}",
            name=wild[0],
            least=1 / MOST_RATIO,
            most_ratio=MOST_RATIO,
        )


def exceeds(numbers: Mapping[str, Interval]) -> bool:
    """Return whether the terms, waits counted once, exceed the stated total for every value within
    their digits.
    """
    if "total" not in numbers:
        return False
    least = sum(numbers[n].low for n in TERMS if n in numbers) - (
        numbers["waits"].high if "waits" in numbers else 0.0
    )
    return least > numbers["total"].high


def _consistent(table: Table, row: int, values: Mapping[str, float], shares: bool) -> None:
    """Refuse numbers of one row that contradict each other (A039)."""
    where = table.where(row)
    if shares:
        if sum(values.values()) > 1:
            raise error_of("A039.shares", where=where, found=f"{sum(values.values()):.1%}")
        return
    if missing := [n for n in TERMS if n not in values and not (n == "cpu" and "total" in values)]:
        raise error_of("A039.missing", where=where, missing=", ".join(missing))
    parts = sum(values.get(n, 0.0) for n in ("waits", *PARTS))
    if parts > values["control"] * (1 + 1e-9):
        raise error_of("A039.parts", where=where, found=f"{parts:g} s of {values['control']:g} s")


def from_terms(numbers: Mapping[str, Interval], lambdas: Mapping[str, float]) -> dict[str, Any]:
    """Return the row of one application from its terms and optional columns [s], by column name."""

    def totals(*values: float) -> AdditiveTotals:
        given = dict(zip(numbers, values, strict=True))
        gpu, control, data, mpi = (given[n] for n in ("gpu", "control", "data", "mpi"))
        waits = given.get("waits", 0.0)
        # terms that exceed the total leave no CPU time: the excess is the closure defect
        cpu = (
            given["cpu"]
            if "cpu" in given
            else max(cpu_by_difference(given["total"], gpu, control - waits, data, mpi), 0.0)
        )
        calls: dict[str, float] = {name: given[name] for name in PARTS if name in given}
        return AdditiveTotals(gpu, control, data, cpu, mpi, given.get("total"), waits, calls)

    values = list(numbers.values())
    nominal = totals(*(v.value for v in values))
    row = {
        "summed_seconds": nominal.summed,
        "stated_seconds": nominal.total,
        "closure_defect_seconds": nominal.closure_defect,
    }
    row |= {
        "cpu_seconds": nominal.cpu,
        "waits_seconds": nominal.waits,
        "projected_seconds": nominal.projected_by(lambdas),
    }
    row |= _ratios(totals, values, lambdas, "")
    return row | (
        _ratios(totals, values, lambdas, "_over_stated") if nominal.total is not None else {}
    )


def _from_shares(numbers: Mapping[str, Interval], lambdas: Mapping[str, float]) -> dict[str, Any]:
    """Return the row of one application from its shares: seconds of a run of one second whose rest
    has no lambda.
    """

    def totals(*values: float) -> AdditiveTotals:
        classes = [SHARES[name] for name in numbers]
        data = sum(v for c, v in zip(classes, values, strict=True) if c == "data")
        calls = {c: v for c, v in zip(classes, values, strict=True) if c in PARTS}
        return AdditiveTotals(0.0, sum(values) - data, data, 1.0 - sum(values), 0.0, calls=calls)

    values = list(numbers.values())
    return {"scaled_share": sum(v.value for v in values), **_ratios(totals, values, lambdas, "")}


def _ratios(
    totals: Callable[..., AdditiveTotals],
    values: Sequence[Interval],
    lambdas: Mapping[str, float],
    suffix: str,
) -> dict[str, float]:
    """Return benefit and penalty, each with the least and most that the digits allow."""
    over: Literal["sum", "stated"] = "stated" if suffix else "sum"
    benefit = swept(lambda *v: totals(*v).benefit(lambdas, over), *values)
    penalty = swept(lambda *v: totals(*v).penalty(lambdas, over), *values)
    ratios = {f"benefit{suffix}": benefit, f"penalty{suffix}": penalty}
    ends = (("", "value"), ("_low", "low"), ("_high", "high"))
    return {
        f"{key}{end}": getattr(ratio, field) for key, ratio in ratios.items() for end, field in ends
    }


def additive_readings(
    run: Run, lambdas: Mapping[str, float], model: Model
) -> tuple[list[dict[str, Any]], list[Finding]]:
    """Read one recording in the report's recipe, the same with waits counted once, the exclusive
    time line, and a replay.

    The five terms are means over the processes. t_CPU is the run time less the other terms.  The
    replay has no terms, and is left out where `tightened` has no machine for the lambdas.
    """
    (projection,) = run.project(model=model, draws=0).projections
    table = functions(run.profile)
    terms = table.terms()
    rows: list[dict[str, Any]] = []
    findings: list[Finding] = []
    for name, once in (("as the report", False), ("waits once", True)):
        totals = AdditiveTotals.by_difference(**terms, without_waits=once)
        defect = totals.closure_defect or 0.0
        if defect < -1e-9 and not findings:
            findings.append(
                finding("A341", 1, f"{-defect:.3g} s beyond a run time of {terms['total']:.3g} s")
            )
        row: dict[str, Any] = {"name": name, **{f"{n}_seconds": getattr(totals, n) for n in TERMS}}
        row |= {
            "summed_seconds": totals.summed,
            "stated_seconds": totals.total,
            "closure_defect_seconds": defect,
        }
        row |= {
            "projected_seconds": totals.projected_by(lambdas),
            "benefit": totals.benefit(lambdas),
            "penalty": totals.penalty(lambdas),
        }
        rows.append(row)
    exclusive = {
        c: ns * 1e-9
        for c, part, ns in table.classes().select("class", "call_class", "exposed_ns").iter_rows()
        if part is None
    }
    row = {"name": "time line", **{f"{n}_seconds": exclusive[n] for n in TERMS}}
    row |= {
        "summed_seconds": projection.measured_seconds,
        "stated_seconds": projection.measured_seconds,
    }
    row |= {
        "closure_defect_seconds": table.exposed_defect_ns * 1e-9,
        "projected_seconds": projection.seconds,
    }
    rows.append(row | {"benefit": projection.benefit, "penalty": projection.penalty})
    if (machine := tightened(lambdas)) is not None:
        (replayed,) = run.project(machine, draws=0).projections
        findings.append(finding("A304"))
        row = dict.fromkeys(
            (*(f"{n}_seconds" for n in TERMS), "summed_seconds", "closure_defect_seconds")
        )
        row |= {
            "name": "replay",
            "stated_seconds": replayed.measured_seconds,
            "projected_seconds": replayed.seconds,
        }
        rows.append(row | {"benefit": replayed.benefit, "penalty": replayed.penalty})
    return rows, findings


def tightened(lambdas: Mapping[str, float]) -> Machine | None:
    """Return the source machine with data and control so much better, as ``ecp-integrated-10x`` is;
    None for other classes.

    >>> tightened({"data": 10.0, "control": 10.0}).changes == load("ecp-integrated-10x").changes, tightened({"kernel": 2.0})
    (True, None)
    """
    if not set(lambdas) <= {"data", "control"}:
        return None
    preset = load("ecp-integrated-10x")

    def scaled(change: Change) -> Change:
        better = lambdas.get("data" if change.parameter.startswith("link.") else "control", 1.0)
        assert change.scale is not None
        factor = better if change.parameter.endswith(".bandwidth") else 1.0 / better
        return replace(change, scale=replace(change.scale, value=factor))

    return replace(preset, changes=tuple(map(scaled, preset.changes)))


def longest_allocation(run: Run) -> float:
    """Return the longest call that allocates or frees [s]: the first one, where it sets up the
    context; 0 without any.
    """
    return float(run.profile.of("alloc")["seconds"].max() or 0.0)  # type: ignore[arg-type]
