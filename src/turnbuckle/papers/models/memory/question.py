"""Data in the host's memory, in the device's, or moved between them on demand: what each does to kernels (Austin et al. 2021, 4.6 and 9.1).

    hbm        kernels read device memory; the data is there already
    ddr        kernels read host memory over the link; nothing moves
    migrated   kernels read device memory; pages move there and back

Each is the extended roofline (`turnbuckle.cost.roofline`, eq 8) at the costs of that memory.  The answer is T(ddr)/T(hbm) with
its interval; the paper prints the inverse as performance.

From numbers, everything is modelled.  From a recording, kernel durations are measured and only what changes is modelled.  What
kernels read and write is not in a recording: without counted bytes the answer is a bracket, from kernels that are not bound by
memory at all to kernels that are bound by nothing else.  Nor is how long kernels wait for pages: far longer than the pages move,
since a fault is handled by the driver first, and a page may stay in host memory and be read from there.  So in device memory a
kernel takes what was recorded at most, and what its counted work needs at least.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from turnbuckle.cost.loggp import rate
from turnbuckle.cost.roofline import Costs, Overlap, Work, roofline_parts, roofline_seconds
from turnbuckle.foundation.errors import CannotAnswer, UsageError, clipped
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.foundation.table_file import Column, Table, read_table
from turnbuckle.foundation.units import show
from turnbuckle.machine import Machine
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary.summary import categories_ns, kernel_names
from turnbuckle.projection.uncertainty import SEED, drawn_source, normals

Float = NDArray[np.float64]
Placement = Literal["hbm", "ddr", "migrated"]
Memory = Literal["hbm", "ddr"]

PLACEMENTS: Final[tuple[Placement, ...]] = ("hbm", "ddr", "migrated")
DRAWS: Final = 2000
#: Ends of the 90 % interval.
QUANTILES: Final = (0.05, 0.95)
#: Relative error (log-sd) of a bandwidth in a table that does not state one.
ERROR: Final = 0.1

WORK_COLUMNS: Final = (
    Column("name", ""),
    Column("flops", "1", most=1e30),
    *(Column(name, "B", needed=name == "regular", most=1e30) for name in ("regular", "irregular", "h2d", "d2h")),
)
MEMORY_COLUMNS: Final = (
    Column("memory", ""),
    Column("regular", "B/s", least=1, most=1e18),
    Column("irregular", "B/s", needed=False, least=1, most=1e18),
    Column("error", "1", needed=False, most=2.0),
)


@dataclass(frozen=True)
class Memories:
    """What GPU kernels reach, drawn: the first row is the value itself, the rest are draws, each array of shape (1 + draws, 1).

    Attributes
    ----------
    flops : floating-point rate [FLOP/s]; nan where unknown.
    regular, irregular : bandwidth by memory [B/s]; nan where unknown.
    h2d, d2h : what moves pages [B/s].
    said : every number in words, with where it comes from.
    """

    flops: Float
    regular: dict[Memory, Float]
    irregular: dict[Memory, Float]
    h2d: Float
    d2h: Float
    said: dict[str, str]

    def costs(self, memory: Memory) -> Costs:
        """Seconds a unit of work in one memory."""
        h2d, d2h = rate_cost(self.h2d), rate_cost(self.d2h)
        return Costs(rate_cost(self.flops), rate_cost(self.regular[memory]), rate_cost(self.irregular[memory]), h2d, d2h)


def rate_cost(of: Float) -> Float:
    """Seconds a unit, from units a second.

    >>> float(rate_cost(np.array(4.0)))
    0.25
    """
    return rate(of)  # one over it, whichever way round


def memories(machine: Machine, measured: Table | None = None, draws: int = DRAWS, seed: int = SEED) -> Memories:
    """Bandwidths of both memories as one GPU of a machine sees them.

    Device memory gives its stream bandwidth; host memory the lesser of the link to the device and, where the machine states it,
    the host's own memory bandwidth.

    Parameters
    ----------
    machine : stands alone.
    measured : of `read_memories`: what a stream and a pointer-chase benchmark on the device reached in each; replaces the above.

    Raises
    ------
    CannotAnswer : A160 the machine lacks a number that is needed.
    """
    if machine.relative:
        raise CannotAnswer(
            "A160",
            "a memory needs a machine that stands alone",
            found=machine.name,
            fix="turnbuckle machines list says which machines do",
        )
    plain, drawn = drawn_source(machine, 1, seed, only=""), drawn_source(machine, draws, seed)

    def both(name: str, default: float | None = None) -> Float | None:
        value, many = plain.value(name), drawn.value(name)
        if value is None or many is None:
            return None if default is None else np.full((1 + draws, 1), default)
        return np.concatenate([value, np.broadcast_to(many, (draws, 1))])

    def needed(name: str) -> Float:
        found = both(name)
        if found is None:
            raise CannotAnswer(
                "A160", f"machine {machine.name} does not state {name}", fix="name another machine, or add it to a machine file of your own"
            )
        return found

    def share(name: str) -> Float:
        found = both(name, 1.0)
        assert found is not None
        return found

    unknown = np.full((1 + draws, 1), math.nan)
    links = {way: needed(f"link.{way}.bandwidth") * share(f"link.{way}.efficiency") for way in ("h2d", "d2h")}
    said = {
        "flops": _words(machine, "gpu.fp64") or "not known",
        "h2d": _words(machine, "link.h2d.bandwidth"),
        "d2h": _words(machine, "link.d2h.bandwidth"),
    }
    if measured is not None:
        regular, irregular = _measured(measured, draws, seed)
        for row, name in enumerate(measured.texts["memory"]):
            said[name.lower()] = f"{show(float(measured.numbers['regular'][row]), 'B/s')} ({measured.where(row)})"
    else:
        host = both("host.memory_bandwidth")
        over_link = links["h2d"] if host is None else np.minimum(links["h2d"], host)
        regular = {"hbm": needed("gpu.memory_bandwidth") * share("gpu.memory_efficiency"), "ddr": over_link}
        irregular = {"hbm": unknown, "ddr": unknown}
        said["hbm"] = _words(machine, "gpu.memory_bandwidth")
        by = "link.h2d.bandwidth" if host is None or links["h2d"][0, 0] <= host[0, 0] else "host.memory_bandwidth"
        said["ddr"] = f"{show(float(over_link[0, 0]), 'B/s')}, what {by} allows ({machine.name}: {machine.parameters[by].nature})"
    flops = both("gpu.fp64")
    return Memories(unknown if flops is None else flops, regular, irregular, links["h2d"], links["d2h"], said)


def _words(machine: Machine, name: str) -> str:
    parameter = machine.get(name)
    share = machine.value(name.replace("bandwidth", "efficiency")) if "bandwidth" in name else None
    if parameter is None:
        return ""
    reached = f", of which {share:.0%} reached" if share else ""
    return f"{show(parameter.value, parameter.unit)}{reached} ({machine.name}: {parameter.nature})"


def read_memories(path: str | Path) -> Table:
    """Measured bandwidths: memory (hbm or ddr), regular [B/s], irregular [B/s], error.

    Raises
    ------
    UsageError : A045 a memory that is neither hbm nor ddr, or not both once; A061 to A063.
    """
    table = read_table(path, MEMORY_COLUMNS, "the table of memories")
    names = [n.lower() for n in table.texts["memory"]]
    if sorted(names) != ["ddr", "hbm"]:
        raise UsageError("A045", "a table of memories has one line for hbm and one for ddr", where=table.name, found=", ".join(names)[:80])
    return table


def _measured(table: Table, draws: int, seed: int) -> tuple[dict[Memory, Float], dict[Memory, Float]]:
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
    """What kernels do: name, flops, regular [B], irregular [B], h2d [B], d2h [B]; one line a kernel or a program."""
    return read_table(path, WORK_COLUMNS, "the table of work")


@dataclass(frozen=True)
class Ratio:
    """A ratio with its 90 % interval, or a bracket."""

    value: float | None
    low: float
    high: float


@dataclass(frozen=True)
class Compared:
    """One line of the answer.

    Attributes
    ----------
    name : of the kernel or program; "all" is their sum.
    seconds : least, value and most by placement [s]; value None in a bracket.
    ratio : T(ddr)/T(hbm).
    bound_by : what bounds it in hbm and in ddr: arithmetic, memory; nothing where that is not known.
    """

    name: str
    seconds: Mapping[Placement, Ratio]
    ratio: Ratio
    bound_by: tuple[str, str] = ("", "")

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "seconds": {p: [r.low, r.value, r.high] for p, r in self.seconds.items()},
            "ddr_over_hbm": [self.ratio.low, self.ratio.value, self.ratio.high],
            "bound_by": {"hbm": self.bound_by[0] or None, "ddr": self.bound_by[1] or None},
        }


@dataclass(frozen=True)
class UnifiedMemory:
    """The answer: one line a kernel or program, the sum last; and what it rests on.

    `overlap` is of numbers alone.  `shortest_seconds` is what all kernels of a recording would take if every launch took as long as
    the shortest of its kernel: no bound, but a hint of what they take where no page is missing.  `memory_bound` is the share that was
    given for its kernels, None where it was not.
    """

    basis: str
    overlap: Overlap | None
    rows: tuple[Compared, ...]
    said: Mapping[str, str]
    measured_seconds: float | None = None
    migrated_bytes: Mapping[str, int] | None = None
    shortest_seconds: float | None = None
    memory_bound: tuple[float, float] | None = None
    findings: tuple[Finding, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The JSON contract of ``model memory``."""
        return {
            "schema_version": 1,
            "basis": self.basis,
            "overlap": self.overlap,
            "measured_seconds": self.measured_seconds,
            "migrated_bytes": dict(self.migrated_bytes or {}),
            "kernels_at_their_shortest_seconds": self.shortest_seconds,
            "memory_bound": None if self.memory_bound is None else list(self.memory_bound),
            "rows": [r.as_dict() for r in self.rows],
            "costs": dict(self.said),
            "findings": [f.as_dict() for f in self.findings],
        }


def from_numbers(work: Table, at: Memories, overlap: Overlap = "full") -> UnifiedMemory:
    """Every placement from counted work.

    Raises
    ------
    UsageError : A045 irregular bytes, but no bandwidth for them; or nothing to do.
    """
    done = _work(work, at)
    seconds = {
        "hbm": roofline_seconds(Work(done.flops, done.regular_bytes, done.irregular_bytes), at.costs("hbm")),
        "ddr": roofline_seconds(Work(done.flops, done.regular_bytes, done.irregular_bytes), at.costs("ddr")),
        "migrated": roofline_seconds(done, at.costs("hbm"), overlap),
    }
    if not len(work) or not (seconds["hbm"][0] > 0).all():
        raise UsageError("A045", "a line without work" if len(work) else "the table of work has no lines", where=work.name,
                         fix="give flops or bytes in every line")  # fmt: skip
    names = [*work.texts["name"], *(["all"] if len(work) > 1 else [])]
    if len(work) > 1:
        seconds = {p: np.concatenate([t, t.sum(axis=1, keepdims=True)], axis=1) for p, t in seconds.items()}
    bound = [_bound(done, at.costs(memory), len(work)) for memory in ("hbm", "ddr")]
    rows = tuple(
        Compared(
            name,
            {p: _spread(t[:, i]) for p, t in zip(PLACEMENTS, (seconds[p] for p in PLACEMENTS), strict=True)},
            _spread(seconds["ddr"][:, i] / seconds["hbm"][:, i]),
            (bound[0][i], bound[1][i]) if i < len(work) else ("", ""),
        )
        for i, name in enumerate(names)
    )
    return UnifiedMemory("numbers", overlap, rows, at.said)


def _work(table: Table, at: Memories) -> Work:
    irregular = np.nan_to_num(table.number("irregular", 0.0))
    if irregular.any() and math.isnan(at.irregular["hbm"][0, 0] + at.irregular["ddr"][0, 0]):
        raise UsageError(
            "A045", "irregular bytes have no bandwidth", where=table.where(int(np.flatnonzero(irregular)[0])),
            cause="what pointer chasing reaches is in no machine file", fix="give --memories FILE with a column irregular",
        )  # fmt: skip
    if table.number("flops").any() and math.isnan(at.flops[0, 0]):
        raise CannotAnswer("A160", "the machine does not state gpu.fp64", fix="name another machine, or give flops as 0")
    copies = (np.nan_to_num(table.number(way, 0.0)) for way in ("h2d", "d2h"))
    return Work(table.number("flops"), table.number("regular"), irregular, *copies)


def _bound(work: Work, costs: Costs, count: int) -> list[str]:
    arithmetic, memory, _ = roofline_parts(Work(work.flops, work.regular_bytes, work.irregular_bytes), costs)
    return ["memory" if m >= a else "arithmetic" for a, m in zip(arithmetic[0, :count], memory[0, :count], strict=True)]


def _spread(values: Float) -> Ratio:
    """The value (first) and the 90 % interval of the draws."""
    low, high = np.quantile(values[1:], QUANTILES)
    return Ratio(float(values[0]), float(min(low, values[0])), float(max(high, values[0])))


@dataclass(frozen=True)
class _Recorded:
    """What a recording shows: kernels by name, what they would take if every launch were as short as the shortest, all else [s]."""

    names: list[str]
    seconds: Float
    shortest: float
    rest: float


def from_profile(
    profile: Profile,
    at: Memories,
    *,
    memory_bound: tuple[float, float] | None = None,
    counted: Table | None = None,
) -> UnifiedMemory:
    """Every placement of a recorded run that migrates its data.

    Parameters
    ----------
    memory_bound : least and most share of kernel time that device memory bounds; (0, 1) is all that can be.  The rest is taken to keep
        its time in host memory too, which holds only where it moves far less than device memory could.
    counted : of `read_work`: bytes and operations by kernel; a name stands for every kernel that contains it.  Their durations
        change as the roofline says, and are no shorter than it says; h2d and d2h columns are not used, since the recording has them.

    Raises
    ------
    CannotAnswer : A159 neither is given; A160 the recording has no migrations, or a name in `counted` no kernel or a taken one.
    UsageError : A045 a kernel with more work than its time allows; A049 a share that is none.
    """
    moved = profile.of("migration")
    if not moved.height:
        raise CannotAnswer(
            "A160",
            "the recording holds no migrations of unified memory",
            cause="explicit copies, or a recording without --cuda-um-cpu-page-faults=true and --cuda-um-gpu-page-faults=true",
            fix="give a table of work; turnbuckle project answers for explicit copies",
        )
    if memory_bound is None and counted is None:
        raise CannotAnswer(
            "A159", "the recording does not say how many bytes its kernels read and write",
            fix="--memory-bound unknown for the bracket, --memory-bound 0.6:0.9 if you know the share, or --counters FILE",
        )  # fmt: skip
    if memory_bound is not None and not 0.0 <= memory_bound[0] <= memory_bound[1] <= 1.0:
        raise UsageError("A049", "a share lies between 0 and 1", where="--memory-bound", found=f"{memory_bound[0]:g}:{memory_bound[1]:g}")
    run = _recorded(profile)
    slower = at.regular["hbm"] / at.regular["ddr"]  # (1 + draws, 1)
    low_share, high_share = memory_bound or (0.0, 1.0)
    # kernels that are not bound by memory keep their time; a lesser bandwidth never shortens one that is
    fastest = 1.0 + low_share * (np.maximum(np.quantile(slower[1:], QUANTILES[0]), 1.0) - 1.0)
    slowest = 1.0 + high_share * (np.maximum(np.quantile(slower[1:], QUANTILES[1]), 1.0) - 1.0)
    factors = np.tile(np.array([[fastest], [slowest]]), (1, len(run.names)))
    least = np.zeros(len(run.names))
    known = np.zeros(len(run.names), dtype=np.bool_)
    if counted is not None:
        known = _count(run, counted, at, factors, least)
    rows = tuple(_bracket(name, least, run.seconds, rest, measured, factors) for name, rest, measured in (
        ("kernels", 0.0, float(run.seconds.sum())), ("all", run.rest, profile.seconds)
    ))  # fmt: skip
    flaws = (finding("A343", int((~known).sum()), "kernels by name"),) if not known.all() and memory_bound in (None, (0.0, 1.0)) else ()
    volumes = {str(d): int(b) for d, b in moved.group_by("direction").agg(_bytes()).sort("direction").iter_rows()}
    said = {k: v for k, v in at.said.items() if k in ("hbm", "ddr") or (counted is not None and k == "flops")}
    return UnifiedMemory("recording", None, rows, said, profile.seconds, volumes, run.shortest, memory_bound, flaws)


def _bracket(name: str, least: Float, most: Float, rest: float, measured: float, factors: Float) -> Compared:
    """Least and most of every placement: `factors` (2, kernels) says how much longer a kernel takes in host memory.

    Without waiting for pages kernels take `least` to `most` [s], shape (kernels,), each on its own.
    """
    ends = {
        "hbm": Ratio(None, rest + float(least.sum()), rest + float(most.sum())),
        "ddr": Ratio(None, rest + float((least * factors[0]).sum()), rest + float((most * factors[1]).sum())),
        "migrated": Ratio(measured, measured, measured),
    }
    ratio = Ratio(None, _extreme(least, most, rest, factors[0], -1.0), _extreme(least, most, rest, factors[1], 1.0))
    return Compared(name, {p: ends[p] for p in PLACEMENTS}, ratio)


def _extreme(least: Float, most: Float, rest: float, factor: Float, sign: float) -> float:
    """Largest (sign 1) or least (sign -1) of (rest + sum k factor) / (rest + sum k) over k between `least` and `most`.

    At the extreme every kernel whose factor lies beyond the ratio takes as long as it can, and every other as short: a few rounds
    of that find it (Dinkelbach's method for a ratio of sums).
    """
    best, time = -sign * math.inf, most
    for _ in range(len(most) + 2):
        total = rest + float(time.sum())
        found = (rest + float((time * factor).sum())) / total if total > 0 else best
        if sign * found <= sign * best:
            break
        best = found
        time = np.where(sign * factor > sign * best, most, least)
    return best if math.isfinite(best) else 1.0


def _bytes() -> Any:
    import polars as pl

    return pl.col("size_bytes").sum()


def _recorded(profile: Profile) -> _Recorded:
    """Kernels by name, and what is neither kernel nor exposed migration."""
    import polars as pl

    moved, kernels = profile.of("migration"), profile.of("kernel")
    # of kernels that overlap, only the time that counts once
    table = (
        kernels.select("seconds", "exposed_ns", name=kernel_names(profile, kernels))
        .group_by("name", maintain_order=True)
        .agg(pl.col("exposed_ns").sum(), shortest=pl.col("seconds").min() * pl.len())
    )
    shares = categories_ns(profile)
    other = profile.run_time_ns - shares["kernel"] - int(moved["exposed_ns"].sum())
    # memory sets are kernel time on the time line, but no kernels
    sets = shares["kernel"] - int(table["exposed_ns"].sum())
    return _Recorded(table["name"].to_list(), table["exposed_ns"].to_numpy() * 1e-9, float(table["shortest"].sum()), (other + sets) * 1e-9)


def _count(run: _Recorded, counted: Table, at: Memories, factors: Float, least: Float) -> NDArray[np.bool_]:
    """Replace factors and least times of counted kernels by the roofline's intervals; which are counted."""
    done, names = _work(counted, at), run.names
    alone = Work(done.flops, done.regular_bytes, done.irregular_bytes)
    hbm, ddr = (roofline_seconds(alone, at.costs(memory)) for memory in ("hbm", "ddr"))
    known = np.zeros(len(names), dtype=np.bool_)
    for row, text in enumerate(counted.texts["name"]):
        mine = np.array([text in name for name in names], dtype=np.bool_)
        if not mine.any() or (mine & known).any():
            why = "no kernel of the recording has this in its name" if not mine.any() else "a kernel is counted twice"
            raise CannotAnswer(
                "A160", why, where=counted.where(row, "name"), found=clipped(text), fix="turnbuckle inspect lists the kernels"
            )
        if not hbm[0, row] > 0:
            raise UsageError("A045", "a line without work", where=counted.where(row), fix="give flops or bytes in every line")
        recorded, fewest = float(run.seconds[mine].sum()), _spread(hbm[:, row]).low
        if fewest > recorded:
            raise UsageError(
                "A045", "more work than the kernel's time allows", where=counted.where(row),
                found=f"{show(fewest, 's')} at least, {show(recorded, 's')} recorded", fix="count all launches of the kernel once",
            )  # fmt: skip
        spread = _spread(ddr[:, row] / hbm[:, row])
        factors[:, mine] = [[spread.low], [spread.high]]
        # work is shared out by recorded time where a name stands for several kernels
        least[mine] = fewest * run.seconds[mine] / recorded
        known |= mine
    return known
