"""Kernels with their data in host memory, in device memory, or moved between them on demand (Austin
et al. 2021, 4.6 and 9.1).

    hbm        kernels read device memory; the data is there already
    ddr        kernels read host memory over the link; nothing moves
    migrated   kernels read device memory; pages move there and back

Each is the extended roofline (`turnbuckle.cost.roofline`, eq 8) at the costs of that memory.  The
answer is T(ddr)/T(hbm) with its interval; the paper prints the inverse as performance.

From a table, everything is modelled.  From a recording, kernel durations are measured and only the
change is modelled.  A recording does not hold the bytes that kernels read and write: without
counted bytes the answer is a bracket, from kernels that memory never bounds to kernels that only
memory bounds.  A recording does not hold the time that kernels wait for pages either.  That wait
exceeds the time of the moves, because the driver handles each fault first, and a page may stay in
host memory and be read there. So in device memory each kernel takes at most its recorded time, and
at least what its counted work needs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final, Literal

import numpy as np
import polars as pl

from turnbuckle.cost.loggp import rate
from turnbuckle.cost.roofline import Costs, Overlap, Work, roofline_parts, roofline_seconds
from turnbuckle.foundation.arrays import Bool, Float
from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.foundation.fields import SCHEMA_VERSION, Declared
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.foundation.table_file import Column, Table, read_table
from turnbuckle.foundation.units import show
from turnbuckle.machine import Machine
from turnbuckle.machine.parameter_names import HOST_WAYS, ParameterName, link_parameter
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary.summary import categories_ns, kernel_names
from turnbuckle.projection.elsewhere.drawn import drawn_source
from turnbuckle.projection.elsewhere.given import WORK_COLUMNS
from turnbuckle.projection.elsewhere.priors import Draws, normals
from turnbuckle.projection.uncertainty import SEED

Placement = Literal["hbm", "ddr", "migrated"]
Memory = Literal["hbm", "ddr"]

PLACEMENTS: Final[tuple[Placement, ...]] = ("hbm", "ddr", "migrated")
DRAWS: Final = 2000
#: Ends of the 90 % interval.
QUANTILES: Final = (0.05, 0.95)
#: Relative error (log-sd) of a bandwidth in a table that does not state one.
ERROR: Final = 0.1

MEMORY_COLUMNS: Final = (
    Column("memory", ""),
    Column("regular", "B/s", least=1, most=1e18),
    Column("irregular", "B/s", needed=False, least=1, most=1e18),
    Column("error", "1", needed=False, most=2.0),
)


@dataclass(frozen=True)
class Memories:
    """Rates that GPU kernels reach, with draws: row 0 is the value, the others are draws, each
    array of shape (1 + draws, 1).

    Attributes
    ----------
    flops : floating-point rate [FLOP/s]; nan where unknown.
    regular, irregular : bandwidth by memory [B/s]; nan where unknown.
    h2d, d2h : bandwidths at which pages move [B/s].
    sources : description of each number with its source.
    """

    flops: Float
    regular: dict[Memory, Float]
    irregular: dict[Memory, Float]
    h2d: Float
    d2h: Float
    sources: dict[str, str]

    def costs(self, memory: Memory) -> Costs:
        """Return the seconds per unit of work in one memory."""
        # one over each rate: `rate` turns a cost into a rate, and back
        return Costs(
            *(
                rate(r)
                for r in (
                    self.flops,
                    self.regular[memory],
                    self.irregular[memory],
                    self.h2d,
                    self.d2h,
                )
            )
        )


def memories(
    machine: Machine, measured: Table | None = None, draws: int = DRAWS, seed: int = SEED
) -> Memories:
    """Return the bandwidths of both memories as one GPU of a machine sees them.

    Device memory gives its stream bandwidth; host memory the lesser of the link to the device and,
    where the machine states it, the host's own memory bandwidth.

    Parameters
    ----------
    machine : a complete machine, not relative to another.
    measured : bandwidths of a stream and a pointer-chase benchmark on the device, from
        `read_memories`; they replace the machine's.

    Raises A160 where the machine lacks a number.
    """
    if machine.relative:
        raise error_of("A160.memory", found=machine.name)
    plain, drawn = (
        drawn_source(machine, Draws(1, seed, ("",))),
        drawn_source(machine, Draws(draws, seed)),
    )

    def both(name: ParameterName, default: float = math.nan) -> Float:
        value, many = plain.value(name), drawn.value(name)
        if value is None or many is None:
            return np.full((1 + draws, 1), default)
        return np.concatenate([value, np.broadcast_to(many, (draws, 1))])

    def reached(bandwidth: ParameterName, efficiency: ParameterName) -> Float:
        if machine.value(bandwidth) is None:
            raise error_of("A160.missing", machine=machine.name, name=bandwidth)
        return both(bandwidth) * both(efficiency, 1.0)

    unknown = np.full((1 + draws, 1), math.nan)
    links = {
        d: reached(link_parameter(d, "bandwidth"), link_parameter(d, "efficiency"))
        for d in HOST_WAYS
    }
    sources = {
        "flops": _words(machine, "gpu.fp64") or "not known",
        "h2d": _words(machine, "link.h2d.bandwidth", "link.h2d.efficiency"),
        "d2h": _words(machine, "link.d2h.bandwidth", "link.d2h.efficiency"),
    }
    if measured is not None:
        regular, irregular = _measured(measured, draws, seed)
        for row, name in enumerate(measured.texts["memory"]):
            sources[name.lower()] = (
                f"{show(float(measured.numbers['regular'][row]), 'B/s')} ({measured.where(row)})"
            )
    else:
        host = both("host.memory_bandwidth")
        over_link = np.fmin(links["h2d"], host)  # a host that states none does not limit the link
        regular = {
            "hbm": reached("gpu.memory_bandwidth", "gpu.memory_efficiency"),
            "ddr": over_link,
        }
        irregular = {"hbm": unknown, "ddr": unknown}
        sources["hbm"] = _words(machine, "gpu.memory_bandwidth", "gpu.memory_efficiency")
        by: ParameterName = (
            "host.memory_bandwidth" if host[0, 0] < links["h2d"][0, 0] else "link.h2d.bandwidth"
        )
        sources["ddr"] = (
            f"{show(float(over_link[0, 0]), 'B/s')}, what {by} allows ({machine.name}: "
            f"{machine.parameters[by].nature})"
        )
    return Memories(both("gpu.fp64"), regular, irregular, links["h2d"], links["d2h"], sources)


def _words(machine: Machine, name: ParameterName, share_name: ParameterName | None = None) -> str:
    parameter = machine.get(name)
    share = None if share_name is None else machine.value(share_name)
    if parameter is None:
        return ""
    reached = f", of which {share:.0%} reached" if share else ""
    return f"{show(parameter.value, parameter.unit)}{reached} ({machine.name}: {parameter.nature})"


def read_memories(path: str | Path) -> Table:
    """Read measured bandwidths: memory (hbm or ddr), regular [B/s], irregular [B/s], error.

    Raises A045 unless hbm and ddr have one line each; A061 to A063.
    """
    table = read_table(path, MEMORY_COLUMNS, "the table of memories")
    names = [n.lower() for n in table.texts["memory"]]
    if sorted(names) != ["ddr", "hbm"]:
        raise error_of("A045.memories", where=table.name, found=", ".join(names)[:80])
    return table


def _measured(
    table: Table, draws: int, seed: int
) -> tuple[dict[Memory, Float], dict[Memory, Float]]:
    out: tuple[dict[Memory, Float], dict[Memory, Float]] = ({}, {})
    error = np.nan_to_num(table.number("error", ERROR), nan=ERROR)
    for row, name in enumerate(table.texts["memory"]):
        memory: Memory = "hbm" if name.lower() == "hbm" else "ddr"
        for kind, into in zip(("regular", "irregular"), out, strict=True):
            value = float(table.number(kind)[row])
            away = np.concatenate([[0.0], normals(f"memory/{memory}/{kind}", draws, seed)])
            into[memory] = (value * np.exp(error[row] * away))[:, None]
    return out


def read_work(path: str | Path) -> Table:
    """Read the work of kernels: name, flops, regular [B], irregular [B], h2d [B], d2h [B]; one line
    per kernel or program.
    """
    return read_table(path, WORK_COLUMNS, "the table of work")


@dataclass(frozen=True)
class Ratio:
    """Ratio with its 90 % interval, or a bracket without a value."""

    value: float | None
    low: float
    high: float

    @property
    def ends(self) -> tuple[float, float | None, float]:
        """Return least, value and most."""
        return self.low, self.value, self.high


@dataclass(frozen=True)
class Compared(Declared):
    """Comparison of the placements for one kernel or program.

    Attributes
    ----------
    name : name of the kernel or program; "all" is their sum.
    seconds : least, value and most by placement [s]; value None in a bracket.
    ratio : T(ddr)/T(hbm).
    bound_by : bound in hbm and in ddr: arithmetic or memory; empty where it is unknown.
    """

    name: str
    seconds: Mapping[Placement, Ratio]
    ratio: Ratio
    bound_by: tuple[str, str] = ("", "")

    def ends(self) -> dict[Placement, tuple[float, float | None, float]]:
        """Return least, value and most by placement [s]."""
        return {placement: seconds.ends for placement, seconds in self.seconds.items()}


@dataclass(frozen=True)
class UnifiedMemory(Declared):
    """Answer: one comparison per kernel or program, the sum last, and the basis of the numbers.

    `overlap` is None for a recording.  `shortest_seconds` is the time of all kernels of a recording
    if each launch took as long as the shortest launch of its kernel: no bound, but a hint at their
    time without missing pages.  `memory_bound` is the given share of kernel time that memory
    bounds, or None.
    """

    schema_version: ClassVar[int] = SCHEMA_VERSION

    basis: str
    overlap: Overlap | None
    rows: tuple[Compared, ...]
    sources: Mapping[str, str]
    measured_seconds: float | None = None
    migrated_bytes: Mapping[str, int] = field(default_factory=dict)
    shortest_seconds: float | None = None
    memory_bound: tuple[float, float] | None = None
    findings: tuple[Finding, ...] = ()


def from_numbers(work: Table, costs: Memories, overlap: Overlap = "full") -> UnifiedMemory:
    """Compare the placements from counted work.

    Raises A045 for irregular bytes without a bandwidth, or a line without work.
    """
    done = _work(work, costs)
    seconds = {
        "hbm": roofline_seconds(
            Work(done.flops, done.regular_bytes, done.irregular_bytes), costs.costs("hbm")
        ),
        "ddr": roofline_seconds(
            Work(done.flops, done.regular_bytes, done.irregular_bytes), costs.costs("ddr")
        ),
        "migrated": roofline_seconds(done, costs.costs("hbm"), overlap),
    }
    if not len(work) or not (seconds["hbm"][0] > 0).all():
        raise error_of("A045.line" if len(work) else "A045.empty", where=work.name)
    names = [*work.texts["name"], *(["all"] if len(work) > 1 else [])]
    if len(work) > 1:
        seconds = {
            p: np.concatenate([t, t.sum(axis=1, keepdims=True)], axis=1) for p, t in seconds.items()
        }
    bound = [_bound(done, costs.costs(memory), len(work)) for memory in ("hbm", "ddr")]
    rows = tuple(
        Compared(
            name,
            {
                p: _spread(t[:, i])
                for p, t in zip(PLACEMENTS, (seconds[p] for p in PLACEMENTS), strict=True)
            },
            _spread(seconds["ddr"][:, i] / seconds["hbm"][:, i]),
            (bound[0][i], bound[1][i]) if i < len(work) else ("", ""),
        )
        for i, name in enumerate(names)
    )
    return UnifiedMemory("numbers", overlap, rows, costs.sources)


def _work(table: Table, costs: Memories) -> Work:
    irregular = np.nan_to_num(table.number("irregular", 0.0))
    if irregular.any() and math.isnan(costs.irregular["hbm"][0, 0] + costs.irregular["ddr"][0, 0]):
        raise error_of("A045.irregular", where=table.where(int(np.flatnonzero(irregular)[0])))
    if table.number("flops").any() and math.isnan(costs.flops[0, 0]):
        raise error_of("A160.flops")
    copies = (np.nan_to_num(table.number(direction, 0.0)) for direction in HOST_WAYS)
    return Work(table.number("flops"), table.number("regular"), irregular, *copies)


def _bound(work: Work, costs: Costs, count: int) -> list[str]:
    arithmetic, memory, _ = roofline_parts(
        Work(work.flops, work.regular_bytes, work.irregular_bytes), costs
    )
    return [
        "memory" if m >= a else "arithmetic"
        for a, m in zip(arithmetic[0, :count], memory[0, :count], strict=True)
    ]


def _spread(values: Float) -> Ratio:
    """Return the value (first) and the 90 % interval of the draws."""
    low, high = np.quantile(values[1:], QUANTILES)
    return Ratio(float(values[0]), float(min(low, values[0])), float(max(high, values[0])))


def from_profile(
    profile: Profile,
    costs: Memories,
    *,
    memory_bound: tuple[float, float] | None = None,
    counted: Table | None = None,
) -> UnifiedMemory:
    """Compare the placements for a recorded run that migrates its data.

    Parameters
    ----------
    memory_bound : least and most share of kernel time that device memory bounds; (0, 1) is the full
        range.  The rest keeps its time in host memory, which holds only where it moves far less
        than device memory could.
    counted : from `read_work`: bytes and operations by kernel; a name stands for all kernels that
        contain it.  The roofline gives the change of their durations and their least durations;
        columns h2d and d2h are unused, because the recording has the copies.

    Raises A159 where neither is given; A160 for a recording without migrations, or a name in
    `counted` of no kernel or a taken one. A045 for a kernel with more work than its time allows;
    A049 for a share outside 0 to 1.
    """
    moved = profile.of("migration")
    if not moved.height:
        raise error_of("A160.migrations")
    if memory_bound is None and counted is None:
        raise error_of("A159")
    if memory_bound is not None and not 0.0 <= memory_bound[0] <= memory_bound[1] <= 1.0:
        raise error_of(
            "A049", where="--memory-bound", found=f"{memory_bound[0]:g}:{memory_bound[1]:g}"
        )
    names, most, shortest, rest_of_run = _recorded(profile)
    slower = costs.regular["hbm"] / costs.regular["ddr"]  # (1 + draws, 1)
    low_share, high_share = memory_bound or (0.0, 1.0)
    # a kernel that memory bounds never gets faster at a lower bandwidth, and the others keep their
    # time
    fastest = 1.0 + low_share * (np.maximum(np.quantile(slower[1:], QUANTILES[0]), 1.0) - 1.0)
    slowest = 1.0 + high_share * (np.maximum(np.quantile(slower[1:], QUANTILES[1]), 1.0) - 1.0)
    factors = np.tile(np.array([[fastest], [slowest]]), (1, len(names)))
    least, with_counts = np.zeros(len(names)), np.zeros(len(names), dtype=np.bool_)
    if counted is not None:
        with_counts = _count(names, most, counted, costs, factors, least)
    rows = tuple(
        _bracket(name, least, most, rest, measured, factors)
        for name, rest, measured in (
            ("kernels", 0.0, float(most.sum())),
            ("all", rest_of_run, profile.seconds),
        )
    )
    flaws = (
        (finding("A343", int((~with_counts).sum()), "kernels by name"),)
        if not with_counts.all() and memory_bound in (None, (0.0, 1.0))
        else ()
    )
    volumes = {
        str(d): int(b)
        for d, b in moved.group_by("direction")
        .agg(pl.col("size_bytes").sum())
        .sort("direction")
        .iter_rows()
    }
    sources = {
        k: v
        for k, v in costs.sources.items()
        if k in ("hbm", "ddr") or (counted is not None and k == "flops")
    }
    return UnifiedMemory(
        "recording", None, rows, sources, profile.seconds, volumes, shortest, memory_bound, flaws
    )


def _bracket(
    name: str, least: Float, most: Float, rest: float, measured: float, factors: Float
) -> Compared:
    """Return the least and most time of each placement; `factors` (2, kernels) is how much longer
    each kernel takes in host memory.

    Without waits for pages each kernel takes `least` to `most` [s], shape (kernels,), independent
    of the others.
    """
    ends = {
        "hbm": Ratio(None, rest + float(least.sum()), rest + float(most.sum())),
        "ddr": Ratio(
            None, rest + float((least * factors[0]).sum()), rest + float((most * factors[1]).sum())
        ),
        "migrated": Ratio(measured, measured, measured),
    }
    ratio = Ratio(
        None,
        _extreme(least, most, rest, factors[0], -1.0),
        _extreme(least, most, rest, factors[1], 1.0),
    )
    return Compared(name, {p: ends[p] for p in PLACEMENTS}, ratio)


def _extreme(least: Float, most: Float, rest: float, factor: Float, sign: float) -> float:
    """Return the largest (sign 1) or least (sign -1) of (rest + sum k factor) / (rest + sum k) over
    k between `least` and `most`.

    At the extreme each kernel whose factor lies beyond the ratio takes its longest time, and each
    other kernel its shortest.  A few rounds of this choice find the extreme (Dinkelbach's method
    for a ratio of sums).
    """
    best, time = -sign * math.inf, most
    for _ in range(len(most) + 2):
        total = rest + float(time.sum())
        ratio = (rest + float((time * factor).sum())) / total if total > 0 else best
        if sign * ratio <= sign * best:
            break
        best = ratio
        time = np.where(sign * factor > sign * best, most, least)
    return best if math.isfinite(best) else 1.0


def _recorded(profile: Profile) -> tuple[list[str], Float, float, float]:
    """Return names and exposed times of kernels, their time if each launch were as short as the
    shortest, and the rest of the run [s].

    The rest is neither kernel nor exposed migration.
    """
    moved, kernels = profile.of("migration"), profile.of("kernel")
    # exposed time counts overlapping kernels once
    table = (
        kernels.select("seconds", "exposed_ns", name=kernel_names(profile, kernels))
        .group_by("name", maintain_order=True)
        .agg(pl.col("exposed_ns").sum(), shortest=pl.col("seconds").min() * pl.len())
    )
    shares = categories_ns(profile)
    other = profile.run_time_ns - shares["kernel"] - int(moved["exposed_ns"].sum())
    # the time line counts memory sets as kernel time, though they are no kernels
    sets = shares["kernel"] - int(table["exposed_ns"].sum())
    return (
        table["name"].to_list(),
        table["exposed_ns"].to_numpy() * 1e-9,
        float(table["shortest"].sum()),
        (other + sets) * 1e-9,
    )


def _count(
    names: list[str], most: Float, counted: Table, costs: Memories, factors: Float, least: Float
) -> Bool:
    """Replace factors and least times of counted kernels by the roofline's intervals, and return
    the mask of counted kernels.
    """
    done = _work(counted, costs)
    alone = Work(done.flops, done.regular_bytes, done.irregular_bytes)
    hbm, ddr = (roofline_seconds(alone, costs.costs(memory)) for memory in ("hbm", "ddr"))
    with_counts = np.zeros(len(names), dtype=np.bool_)
    for row, text in enumerate(counted.texts["name"]):
        matches = np.array([text in name for name in names], dtype=np.bool_)
        if not matches.any() or (matches & with_counts).any():
            raise error_of(
                "A160.names" if not matches.any() else "A160.twice",
                where=counted.where(row, "name"),
                found=clipped(text),
            )
        if not hbm[0, row] > 0:
            raise error_of("A045.line", where=counted.where(row))
        recorded, fewest = float(most[matches].sum()), _spread(hbm[:, row]).low
        if fewest > recorded:
            raise error_of(
                "A045.excess",
                where=counted.where(row),
                found=f"{show(fewest, 's')} at least, {show(recorded, 's')} recorded",
            )
        spread = _spread(ddr[:, row] / hbm[:, row])
        factors[:, matches] = [[spread.low], [spread.high]]
        # a name may stand for several kernels, which share its work by recorded time
        least[matches] = fewest * most[matches] / recorded
        with_counts |= matches
    return with_counts
