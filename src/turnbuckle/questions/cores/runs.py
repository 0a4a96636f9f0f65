"""Runs of one program with more and fewer cores per GPU: from a CSV table, or from recordings.

    program, ranks, threads, gpus, run time [s], mpi time [s], repeat
    gtcp,    8,     2,       8,    154.2,        9.1,          1

=================  ==================================================================================================
column             meaning
=================  ==================================================================================================
``program``        which program or routine, answered one by one; may be left out
``cores``          CPU cores the job used; or
``ranks``          MPI ranks of the job (or ``ranks per gpu``), and
``threads``        OpenMP threads of a rank; each 1 (one rank a GPU) where left out
``gpus``           GPUs of the job; 1 where left out, so that all counts are per GPU
``run time``       of the job; or
``throughput``     work per second in a unit of your own, the same in all lines
``mpi time``       of it, the mean over the ranks; may be left out
``repeat``         number of the repetition; may be left out: lines alike in all counts are repeats
=================  ==================================================================================================

Errors besides those of `turnbuckle.foundation.table_file`: A030 columns that contradict each other
or leave something open, A034 one run twice, A032 as many core counts as recordings, A033 recordings
of different programs, A150 no runs, A152 a recording that does not show its cores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Float, Int
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.table_file import Column, Table, read_table
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary.summary import kernel_table
from turnbuckle.trace.bounds import DEVICE_TABLES
from turnbuckle.trace.intervals import union_ns

COLUMNS = (
    Column("program", "", needed=False),
    *(
        Column(name, "1", needed=False, least=1, whole=True, most=1e7)
        for name in ("cores", "ranks", "threads", "gpus")
    ),
    Column("ranks per gpu", "1", needed=False, above=True, most=1e6),
    Column("run time", "s", needed=False, least=1e-12, most=1e12),
    Column("throughput", "1", needed=False, least=1e-30, most=1e30),
    Column("mpi time", "s", needed=False),
    Column("repeat", "1", needed=False, whole=True),
)
MOST_RUNS = 10_000
MOST_CORES = 999_999
_TABLE = "the table of runs"
_MAY_BE_EMPTY = frozenset({"repeat"})


@dataclass(frozen=True)
class Runs:
    """Runs of one program; all arrays have shape (runs,).

    Attributes
    ----------
    program : its name, empty where none was given.
    ranks, threads : MPI ranks per GPU and threads per rank; where only cores are known, one rank
        with as many threads.
    seconds : run time [s], or of a unit of work where throughput was given.
    mpi_seconds : of it in MPI [s]; zeros where it was not given.
    split : whether ranks and threads are known, not only their product.
    throughput : whether seconds are those of a unit of work.
    labels : where each run stands: line of the table, or name of the recording.
    """

    program: str
    ranks: Float
    threads: Float
    seconds: Float
    mpi_seconds: Float
    split: bool
    throughput: bool
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.seconds)

    @cached_property
    def cores(self) -> Float:
        """Return the CPU cores per GPU."""
        return self.ranks * self.threads

    @property
    def core_counts(self) -> int:
        """Return how many different numbers of cores were run."""
        return int(np.unique(self.cores).size)

    @cached_property
    def shape_of(self) -> Int:
        """Return the number of each run's configuration (ranks, threads); runs of one configuration
        are repeats.
        """
        return (
            np.unique(np.column_stack([self.ranks, self.threads]), axis=0, return_inverse=True)[1]
            .ravel()
            .astype(np.int64)
        )

    @cached_property
    def shapes(self) -> int:
        """Return how many configurations were run."""
        return int(self.shape_of.max()) + 1

    def mean_of_repeats(self, values: Float) -> Float:
        """Return for each run the mean over the repeats of its configuration."""
        total = np.bincount(self.shape_of, weights=values)
        return np.asarray((total / np.bincount(self.shape_of))[self.shape_of])


def read_runs(path: str | Path) -> list[Runs]:
    """Read a table of runs, one `Runs` a program in the order of the table.

    Raises
    ------
    UsageError, CannotAnswer : see the module.
    """
    table = read_table(path, COLUMNS, _TABLE)
    if not len(table):
        raise error_of("A150.empty", where=table.name, table=_TABLE)
    if len(table) > MOST_RUNS:
        raise error_of(
            "A030.long",
            where=table.name,
            found=f"{len(table):,} lines",
            table=_TABLE,
            most_runs=MOST_RUNS,
        )
    _complete(table)
    ranks, threads, split = _counts(table)
    seconds, mpi = _times(table)
    names = [readable(name) for name in table.texts.get("program", [""] * len(table))]
    _once(table, names, ranks, threads)
    out = []
    for name in dict.fromkeys(names):
        rows = [i for i, n in enumerate(names) if n == name]
        labels = tuple(f"line {table.lines[i]}" for i in rows)
        out.append(
            Runs(
                name,
                ranks[rows],
                threads[rows],
                seconds[rows],
                mpi[rows],
                split,
                "throughput" in table.columns,
                labels,
            )
        )
    return out


def readable(name: str) -> str:
    """Return a name without control characters, and shortened."""
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)
    return plain if len(plain) <= 60 else plain[:57] + "..."


def _complete(table: Table) -> None:
    """Refuse a column that appears twice, is filled in part, or repeats what others say."""
    has = set(table.columns)

    if not has & {"cores", "ranks", "ranks per gpu", "threads"}:
        raise error_of("A030.uncounted", where=table.name, found=", ".join(table.columns))
    if len(has & {"run time", "throughput"}) != 1:
        given = "both" if "run time" in has else "neither"
        raise error_of("A030.time", where=table.name, found=given)
    if {"ranks", "ranks per gpu"} <= has:
        raise error_of("A030.same", where=table.name, found="both")
    if {"throughput", "mpi time"} <= has:
        raise error_of("A030.part", where=table.name, found="throughput and mpi time")
    for name in has - _MAY_BE_EMPTY - {"program"}:
        if (empty := np.flatnonzero(np.isnan(table.number(name)))).size:
            raise error_of("A030.empty", where=table.where(int(empty[0]), name), column=name)


def _counts(table: Table) -> tuple[Float, Float, bool]:
    """Return ranks per GPU, threads per rank, and whether the two are known separately."""
    has, gpus = set(table.columns), table.number("gpus", 1.0)
    split = (
        bool(has & {"ranks", "ranks per gpu"}) or {"cores", "threads"} <= has or "cores" not in has
    )
    ranks = table.number("ranks") / gpus if "ranks" in has else table.number("ranks per gpu", 1.0)
    threads = table.number("threads", 1.0)
    if "cores" in has:
        cores = table.number("cores") / gpus
        if "threads" not in has:
            threads = cores / ranks
        elif not has & {"ranks", "ranks per gpu"}:
            ranks = cores / threads
        wrong = np.flatnonzero(~np.isclose(cores, ranks * threads, rtol=1e-9))
        if wrong.size:
            i = int(wrong[0])
            raise error_of(
                "A030.cores",
                where=table.where(i, "cores"),
                found=(
                    f"{cores[i]:g} cores per GPU, {ranks[i]:g} ranks per GPU of {threads[i]:g} "
                    "threads"
                ),
            )
    if (many := np.flatnonzero(ranks * threads > MOST_CORES)).size:
        i = int(many[0])
        product = f"{ranks[i] * threads[i]:,.0f}"
        raise error_of("A030.many", where=table.where(i), found=product, most_cores=MOST_CORES)
    return ranks, threads, split


def _times(table: Table) -> tuple[Float, Float]:
    seconds = (
        table.number("run time")
        if "run time" in table.columns
        else 1.0 / table.number("throughput")
    )
    mpi = table.number("mpi time", 0.0)
    if (wrong := np.flatnonzero(mpi >= seconds)).size:
        i = int(wrong[0])
        raise error_of(
            "A030.mpi", where=table.where(i, "mpi time"), found=f"{mpi[i]:g} s of {seconds[i]:g} s"
        )
    return seconds, mpi


def _once(table: Table, names: Sequence[str], ranks: Float, threads: Float) -> None:
    repeat = table.number("repeat")
    met: dict[tuple[str, float, float, float], int] = {}
    for i, key in enumerate(
        zip(names, ranks.tolist(), threads.tolist(), repeat.tolist(), strict=True)
    ):
        if not np.isnan(repeat[i]) and key in met:
            raise error_of(
                "A034", where=table.where(i, "repeat"), found=f"as in line {table.lines[met[key]]}"
            )
        met[key] = i


def from_profiles(profiles: Sequence[Profile], core_counts: Sequence[int] | None = None) -> Runs:
    """Return recordings of one program as runs.

    Parameters
    ----------
    profiles : one a run.
    core_counts : CPU cores per GPU of each; None takes the MPI ranks per GPU that each recording
        shows, one thread each.

    Raises
    ------
    UsageError : A032 unless there are as many of `core_counts` as profiles, A033 if the profiles
        share no kernel.
    CannotAnswer : A152 if a profile shows no ranks or no GPU and `core_counts` is None.
    """
    if core_counts is not None and (
        len(core_counts) != len(profiles) or any(not 1 <= n <= MOST_CORES for n in core_counts)
    ):
        counts = f"{','.join(str(n) for n in core_counts)[:60]} for {len(profiles)} recordings"
        raise error_of("A032.count", where="--at", found=counts, most_cores=MOST_CORES)
    _one_program(profiles)
    cores = np.array(
        core_counts if core_counts is not None else [_ranks_per_gpu(p) for p in profiles],
        dtype=np.float64,
    )
    mpi = [mpi_seconds(p) for p in profiles]
    ones = np.ones(len(profiles))
    return Runs(
        "",
        ones if core_counts is not None else cores,
        cores if core_counts is not None else ones,
        np.array([p.seconds for p in profiles]),
        np.array(mpi) if all(mpi) else np.zeros(len(profiles)),
        core_counts is None,
        False,
        tuple(p.trace.name for p in profiles),
    )


def mpi_seconds(profile: Profile) -> float:
    """Return the time in MPI, mean over the ranks [s]; calls inside other calls count once."""
    calls = profile.trace.mpi
    by_thread = (
        [
            union_ns(f["start_ns"].to_numpy(), f["end_ns"].to_numpy())
            for f in calls.partition_by("thread")
        ]
        if calls.height
        else []
    )
    return sum(by_thread) * 1e-9 / max(profile.trace.mpi_ranks["rank"].n_unique(), 1)


def _ranks_per_gpu(profile: Profile) -> float:
    trace = profile.trace
    ranks = trace.mpi_ranks["rank"].n_unique()
    devices = pl.concat([trace.table(t)["device"].fill_null(-1) for t in DEVICE_TABLES]).n_unique()
    if not ranks or not devices:
        missing = "MPI ranks" if not ranks else "GPU activity"
        raise error_of("A152", where=trace.name, missing=missing)
    return ranks / devices


def _one_program(profiles: Sequence[Profile]) -> None:
    kernels = [
        (p.trace.name, set(kernel_table(p)["kernel"].to_list()))
        for p in profiles
        if p.trace.kernels.height
    ]
    counted = Counter(name for _, names in kernels for name in names)
    for file, names in kernels:
        if len(kernels) > 1 and all(counted[n] == 1 for n in names):
            raise error_of("A033", where=file, found="no kernel of it occurs in another recording")
