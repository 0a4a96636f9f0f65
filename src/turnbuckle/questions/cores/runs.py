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

Errors besides those of `turnbuckle.foundation.table_file`: A030 columns that contradict each other or leave something open, A034 one
run twice, A032 as many core counts as recordings, A033 recordings of different programs, A150 no runs, A152 a recording that
does not show its cores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.foundation.errors import CannotAnswer, UsageError
from turnbuckle.foundation.table_file import Column, Table, read_table
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary.summary import kernel_table
from turnbuckle.trace.check import DEVICE_TABLES
from turnbuckle.trace.intervals import union_ns

Float = NDArray[np.float64]

COLUMNS = (
    Column("program", "", needed=False),
    *(Column(name, "1", needed=False, least=1, whole=True, most=1e7) for name in ("cores", "ranks", "threads", "gpus")),
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
_NEEDED = "a column cores, or ranks and threads"


@dataclass(frozen=True)
class Runs:
    """Runs of one program; all arrays have shape (runs,).

    Attributes
    ----------
    program : its name, empty where none was given.
    ranks, threads : MPI ranks per GPU and threads per rank; where only cores are known, one rank with as many threads.
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
        """CPU cores per GPU."""
        return self.ranks * self.threads

    @property
    def core_counts(self) -> int:
        """How many different numbers of cores were run."""
        return int(np.unique(self.cores).size)

    @cached_property
    def shape_of(self) -> NDArray[np.int64]:
        """Number of the configuration (ranks, threads) of each run; runs of one number are repeats."""
        return np.unique(np.column_stack([self.ranks, self.threads]), axis=0, return_inverse=True)[1].ravel().astype(np.int64)

    @cached_property
    def shapes(self) -> int:
        """How many configurations were run."""
        return int(self.shape_of.max()) + 1

    def mean_of_repeats(self, values: Float) -> Float:
        """For each run, the mean over the repeats of its configuration."""
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
        raise CannotAnswer("A150", f"{_TABLE} holds no runs", where=table.name, fix="a line for each run under the heading")
    if len(table) > MOST_RUNS:
        raise UsageError("A030", f"{_TABLE} is too long", where=table.name, found=f"{len(table):,} lines", fix=f"at most {MOST_RUNS:,}")
    _complete(table)
    ranks, threads, split = _counts(table)
    seconds, mpi = _times(table)
    names = [readable(name) for name in table.texts.get("program", [""] * len(table))]
    _once(table, names, ranks, threads)
    out = []
    for name in dict.fromkeys(names):
        rows = [i for i, n in enumerate(names) if n == name]
        labels = tuple(f"line {table.lines[i]}" for i in rows)
        out.append(Runs(name, ranks[rows], threads[rows], seconds[rows], mpi[rows], split, "throughput" in table.columns, labels))
    return out


def readable(name: str) -> str:
    """A name without what steers a terminal, and not too long."""
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)
    return plain if len(plain) <= 60 else plain[:57] + "..."


def _complete(table: Table) -> None:
    """Each column once, none of them in part, and none that says what others say."""
    has = set(table.columns)

    def refuse(what: str, found: str, fix: str, where: str = table.name) -> UsageError:
        return UsageError("A030", what, where=where, found=found, fix=fix)

    if not has & {"cores", "ranks", "ranks per gpu", "threads"}:
        raise refuse("the table does not say how many cores a run used", ", ".join(table.columns), _NEEDED)
    if len(has & {"run time", "throughput"}) != 1:
        given = "both" if "run time" in has else "neither"
        raise refuse("a run has either a run time or a throughput", given, "keep one column, run time [s] or throughput")
    if {"ranks", "ranks per gpu"} <= has:
        raise refuse("ranks and ranks per gpu say the same", "both", "keep one of the two columns")
    if {"throughput", "mpi time"} <= has:
        raise refuse("MPI time is a part of a run time", "throughput and mpi time", "give run time instead of throughput")
    for name in has - _MAY_BE_EMPTY - {"program"}:
        if (empty := np.flatnonzero(np.isnan(table.number(name)))).size:
            raise refuse(f"{name} is empty", "", "fill the cell, or leave the line out", table.where(int(empty[0]), name))


def _counts(table: Table) -> tuple[Float, Float, bool]:
    """Ranks per GPU, threads per rank, and whether the two are known apart."""
    has, gpus = set(table.columns), table.number("gpus", 1.0)
    split = bool(has & {"ranks", "ranks per gpu"}) or {"cores", "threads"} <= has or "cores" not in has
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
            raise UsageError(
                "A030", "cores are not ranks times threads", where=table.where(i, "cores"),
                found=f"{cores[i]:g} cores per GPU, {ranks[i]:g} ranks per GPU of {threads[i]:g} threads",
                fix="leave out cores, or correct the line",
            )  # fmt: skip
    if (many := np.flatnonzero(ranks * threads > MOST_CORES)).size:
        i = int(many[0])
        found = f"{ranks[i] * threads[i]:,.0f}"
        raise UsageError("A030", "more cores than a GPU has", where=table.where(i), found=found, fix=f"at most {MOST_CORES:,}, of one GPU")
    return ranks, threads, split


def _times(table: Table) -> tuple[Float, Float]:
    seconds = table.number("run time") if "run time" in table.columns else 1.0 / table.number("throughput")
    mpi = table.number("mpi time", 0.0)
    if (wrong := np.flatnonzero(mpi >= seconds)).size:
        i = int(wrong[0])
        raise UsageError(
            "A030", "MPI time is not less than the run time", where=table.where(i, "mpi time"),
            found=f"{mpi[i]:g} s of {seconds[i]:g} s", cause="added up over the ranks", fix="give the mean over the ranks",
        )  # fmt: skip
    return seconds, mpi


def _once(table: Table, names: Sequence[str], ranks: Float, threads: Float) -> None:
    repeat = table.number("repeat")
    met: dict[tuple[str, float, float, float], int] = {}
    for i, key in enumerate(zip(names, ranks.tolist(), threads.tolist(), repeat.tolist(), strict=True)):
        if not np.isnan(repeat[i]) and key in met:
            raise UsageError(
                "A034", "one run stands twice: all counts and the repeat are the same", where=table.where(i, "repeat"),
                found=f"as in line {table.lines[met[key]]}", fix="number the repeats, or leave one line out",
            )  # fmt: skip
        met[key] = i


def from_profiles(profiles: Sequence[Profile], at: Sequence[int] | None = None) -> Runs:
    """Recordings of one program as runs.

    Parameters
    ----------
    profiles : one a run.
    at : CPU cores per GPU of each; None takes the MPI ranks per GPU that each recording shows, one thread each.

    Raises
    ------
    UsageError : A032 unless there are as many of `at` as profiles, A033 if the profiles share no kernel.
    CannotAnswer : A152 if a profile shows no ranks or no GPU and `at` is None.
    """
    if at is not None and (len(at) != len(profiles) or any(not 1 <= n <= MOST_CORES for n in at)):
        found = f"{','.join(str(n) for n in at)[:60]} for {len(profiles)} recordings"
        raise UsageError(
            "A032", "one core count for each recording", where="--at", found=found,
            fix=f"cores per GPU of each recording in the order given, {MOST_CORES:,} at most, as --at 4,8,16",
        )  # fmt: skip
    _one_program(profiles)
    cores = np.array(at if at is not None else [_ranks_per_gpu(p) for p in profiles], dtype=np.float64)
    mpi = [mpi_seconds(p) for p in profiles]
    ones = np.ones(len(profiles))
    return Runs(
        "",
        ones if at is not None else cores,
        cores if at is not None else ones,
        np.array([p.seconds for p in profiles]),
        np.array(mpi) if all(mpi) else np.zeros(len(profiles)),
        at is None,
        False,
        tuple(p.trace.name for p in profiles),
    )


def mpi_seconds(profile: Profile) -> float:
    """Time in MPI, mean over the ranks [s]; calls inside other calls count once."""
    calls = profile.trace.mpi
    by_thread = [union_ns(f["start_ns"].to_numpy(), f["end_ns"].to_numpy()) for f in calls.partition_by("thread")] if calls.height else []
    return sum(by_thread) * 1e-9 / max(profile.trace.mpi_ranks["rank"].n_unique(), 1)


def _ranks_per_gpu(profile: Profile) -> float:
    trace = profile.trace
    ranks = trace.mpi_ranks["rank"].n_unique()
    devices = pl.concat([trace.table(t)["device"].fill_null(-1) for t in DEVICE_TABLES]).n_unique()
    if not ranks or not devices:
        missing = "MPI ranks" if not ranks else "GPU activity"
        raise CannotAnswer(
            "A152", f"the recording shows no {missing}, so not how many cores a GPU had", where=trace.name,
            fix="name the cores per GPU of each recording, as --at 4,8,16, or give a CSV table of runs",
        )  # fmt: skip
    return ranks / devices


def _one_program(profiles: Sequence[Profile]) -> None:
    kernels = [(p.trace.name, set(kernel_table(p)["kernel"].to_list())) for p in profiles if p.trace.kernels.height]
    counted = Counter(name for _, names in kernels for name in names)
    for file, names in kernels:
        if len(kernels) > 1 and all(counted[n] == 1 for n in names):
            raise UsageError(
                "A033", "the recordings are not of one program", where=file, found="no kernel of it occurs in another recording",
                fix="give recordings of one program that differ in their cores",
            )  # fmt: skip
