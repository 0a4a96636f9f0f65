"""Run time by function: the profile tables of Austin et al. 2021 (Tables 3 to 5) from any
recording.

Every function has two times.  The plain one is what nvprof sums: each call's own length, so that
the host's wait for a kernel counts beside the kernel.  The exposed one is its share of the
exclusive time line (decision D1), which adds up to the run time. Where they differ, something
overlaps; the closure defect of the plain times is what is counted twice.  A call that finds its
device idle is exposed until what it started begins, which may be longer than the call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from turnbuckle.foundation.fields import Declared
from turnbuckle.profile.exposure import between
from turnbuckle.profile.messages.mpi_calls import same_call
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary.summary import UNNAMED, kernel_names

#: Terms of equation 3: other work of the device, host calls, transfers between host and device,
#: messages, the host's own work.
CLASSES: Final = ("gpu", "control", "data", "mpi", "cpu")
#: What a copy is called, and which term it belongs to: only what crosses between host and device is
#: data.
_COPIES: Final = {
    "h2d": ("[CUDA memcpy HtoD]", "data"),
    "d2h": ("[CUDA memcpy DtoH]", "data"),
    "d2d": ("[CUDA memcpy DtoD]", "gpu"),
    "p2p": ("[CUDA memcpy PtoP]", "gpu"),
    "h2h": ("[CUDA memcpy HtoH]", "gpu"),
    "unknown": ("[CUDA memcpy]", "gpu"),
    "migration_h2d": ("[Unified Memory HtoD]", "data"),
    "migration_d2h": ("[Unified Memory DtoH]", "data"),
    "migration_d2d": ("[Unified Memory DtoD]", "gpu"),
}
_TERM: Final = {"kernel": "gpu", "api": "control", "mpi": "mpi", "cpu": "cpu"}
#: A host call inside another: it stands in the table, and its time in the other's.
NESTED: Final = "nested"
HOST_CODE: Final = "(host code between calls)"
_MEMSET: Final = "[CUDA memset]"
_SUMS: Final = ["time_ns", "waited_ns", "calls", "exposed_ns"]


@dataclass(frozen=True)
class Functions(Declared):
    """Plain and exposed time of each function of one run."""

    #: one row per function, in the order of `CLASSES`, longest first: class, call_class (of host
    #: calls; ``nested`` inside another call, else null), function, time_ns (plain sum), waited_ns
    #: (the part of it in calls that wait for the device), calls, exposed_ns
    rows: pl.DataFrame
    run_time_ns: int
    processes: int

    @property
    def once(self) -> pl.DataFrame:
        """Return the rows that count towards a sum: all but calls inside other calls."""
        return self.rows.filter(pl.col("call_class").ne_missing(NESTED))

    def time_ns(self, *classes: str) -> int:
        """Return the plain time of the given classes, over all processes [ns]."""
        return int(self.once.filter(pl.col("class").is_in(list(classes)))["time_ns"].sum())

    @property
    def waits_ns(self) -> int:
        """Return the plain time of host calls that wait for the device, over all processes [ns]."""
        return int(self.once["waited_ns"].sum())

    @property
    def call_classes_ns(self) -> dict[str, int]:
        """Return the plain time of host calls that do not wait, by class, over all processes
        [ns].
        """
        calls = self.once.filter(pl.col("class") == "control").group_by(
            "call_class", maintain_order=True
        )
        sums = calls.agg((pl.col("time_ns") - pl.col("waited_ns")).sum())
        return {str(k): int(v) for k, v in sums.iter_rows() if v}

    @property
    def closure_defect_ns(self) -> int:
        """Return the run time of all processes minus all plain times [ns]. It is negative where
        time is counted twice.
        """
        return self.run_time_ns * self.processes - self.time_ns(*CLASSES)

    @property
    def exposed_defect_ns(self) -> int:
        """Return the run time minus all exposed times [ns]. It is zero unless the accounting is
        broken.
        """
        return self.run_time_ns - int(self.rows["exposed_ns"].sum())

    def terms(self) -> dict[str, Any]:
        """Return the terms of equation 3 for a mean process [s], as `AdditiveTotals.by_difference`
        takes them.

        gpu, control, data, mpi, total (the run time), waits (in control), calls (the rest of
        control by class).  Host calls that copy are control, as in the report's Table 5.
        """
        seconds = 1e-9 / self.processes
        sums: dict[str, Any] = {
            name: self.time_ns(name) * seconds for name in CLASSES if name != "cpu"
        }
        calls = {name: ns * seconds for name, ns in self.call_classes_ns.items()}
        return sums | {
            "total": self.run_time_ns * 1e-9,
            "waits": self.waits_ns * seconds,
            "calls": calls,
        }

    def classes(self) -> pl.DataFrame:
        """Return the sums of each class (call_class null) and of each class of host calls: time_ns,
        waited_ns, calls, exposed_ns.

        The time of a whole class leaves out calls inside other calls. Its exposed time and its
        classes of host calls include them.
        """
        sums = pl.col(_SUMS).sum()
        parts = []
        for name in CLASSES:
            rows, once = (frame.filter(pl.col("class") == name) for frame in (self.rows, self.once))
            total = once.select(
                pl.lit(name).alias("class"), pl.lit(None, pl.String).alias("call_class"), sums
            )
            parts.append(
                total.with_columns(exposed_ns=pl.lit(int(rows["exposed_ns"].sum()), pl.Int64))
            )
            if name == "control":
                parts.append(
                    rows.group_by("class", "call_class")
                    .agg(sums)
                    .sort("time_ns", "call_class", descending=[True, False])
                )
        return pl.concat(parts)

    def share(self, time_ns: int) -> float:
        """Return a plain time as a share of the run time of all processes."""
        return time_ns / whole if (whole := self.run_time_ns * self.processes) else 0.0

    def exposed_share(self, time_ns: int) -> float:
        """Return an exposed time as a share of the run time."""
        return time_ns / self.run_time_ns if self.run_time_ns else 0.0

    def table(self) -> pl.DataFrame:
        """Return the rows with mean_seconds (per call), share (of the run time of a mean process)
        and exposed_share.
        """
        whole = max(self.run_time_ns * self.processes, 1)
        return self.rows.with_columns(
            mean_seconds=pl.col("time_ns") * 1e-9 / pl.col("calls"),
            share=pl.col("time_ns") / whole,
            exposed_share=pl.col("exposed_ns") / max(self.run_time_ns, 1),
        )


def functions(profile: Profile) -> Functions:
    """Return the time of each function of a run: kernels by name, copies by direction, host calls
    and MPI calls by name.

    A Waitall, recorded as one row per request, is one call.  The host's own time is what each
    process spends outside recorded calls on all of its threads together.
    """
    rows = profile.activities.select(
        "kind",
        "category",
        "call_class",
        "direction",
        "name",
        "start_ns",
        "end_ns",
        "exposed_ns",
        "row",
    )
    rows = rows.filter(pl.col("category") != "cpu")
    rows = rows.with_columns(stands=_stands(profile, rows))
    keys = ["kind", "category", "call_class", "direction", "name"]
    plain = pl.when("stands").then(pl.col("end_ns") - pl.col("start_ns")).otherwise(0)
    # names are looked up once per group, because a run has few names and many calls
    groups = rows.group_by(keys).agg(
        time_ns=plain.sum(),
        calls=pl.col("stands").sum().cast(pl.Int64),
        exposed_ns=pl.col("exposed_ns").sum(),
    )
    groups = groups.with_columns(
        pl.col("kind", "category", "call_class", "direction").cast(pl.String)
    )
    api = pl.col("category") == "api"
    groups = groups.with_columns(
        _term().alias("class"),
        _function(profile, groups),
        call_class=pl.when(api).then(pl.col("call_class").fill_null(NESTED)),
        waited_ns=pl.when(pl.col("kind") == "sync").then("time_ns").otherwise(0),
    )
    by = ["class", "call_class", "function"]
    host, processes = _host_code(profile)
    groups = pl.concat([groups.select(*by, *_SUMS), host]).group_by(by).agg(pl.col(_SUMS).sum())
    rank = pl.col("class").replace_strict(list(CLASSES), range(len(CLASSES)), return_dtype=pl.Int8)
    groups = groups.sort(
        rank, "time_ns", "function", "call_class", descending=[False, True, False, False]
    )
    return Functions(groups, profile.run_time_ns, processes)


def _stands(profile: Profile, rows: pl.DataFrame) -> pl.Series:
    """Return whether a row represents its call: of an MPI call written as several rows only the
    first row does.
    """
    stands = np.ones(rows.height, dtype=np.bool_)
    mpi = np.flatnonzero((rows["category"] == "mpi").to_numpy())
    if len(mpi):
        of_call = same_call(profile.trace)
        row = rows["row"].to_numpy()[mpi]
        stands[mpi] = of_call[row] == row
    return pl.Series(stands)


def _term() -> pl.Expr:
    copies = pl.col("direction").replace_strict(
        {k: v for k, (_, v) in _COPIES.items()}, default="gpu"
    )
    return (
        pl.when(pl.col("category") == "copy")
        .then(copies)
        .otherwise(pl.col("category").replace_strict(_TERM, default="gpu"))
    )


def _function(profile: Profile, groups: pl.DataFrame) -> pl.Series:
    kernels = groups.with_columns(function=kernel_names(profile, groups))["function"]
    calls = profile.trace.text(groups).fill_null(UNNAMED)
    copies = groups["direction"].replace_strict(
        {k: v for k, (v, _) in _COPIES.items()}, default="[CUDA memcpy]"
    )
    chosen = (
        pl.when(pl.col("category") == "copy")
        .then(pl.lit(copies))
        .when(pl.col("kind") == "memset")
        .then(pl.lit(_MEMSET))
        .when(pl.col("category") == "kernel")
        .then(pl.lit(kernels))
        .otherwise(pl.lit(calls))
    )
    return groups.select(function=chosen)["function"]


def _host_code(profile: Profile) -> tuple[pl.DataFrame, int]:
    """Return the row of the host's own time, and the number of processes.

    A process whose calls were not recorded has no such time.
    """
    tracks = profile.tracks.select("track", "process", "thread")
    processes = max(tracks["process"].drop_nulls().n_unique(), 1)
    calls = profile.activities.filter(pl.col("category").is_in(["api", "mpi"])).select(
        "track", "start_ns", "end_ns"
    )
    calls = calls.join(tracks.filter(pl.col("thread").is_not_null()), on="track")
    total = stretches = 0
    for _, process_calls in calls.group_by("process"):
        start, end = between(
            process_calls["start_ns"].to_numpy(),
            process_calls["end_ns"].to_numpy(),
            profile.first_ns,
            profile.last_ns,
        )
        total, stretches = total + int((end - start).sum()), stretches + len(start)
    gaps = profile.activities.filter(pl.col("category") == "cpu")["exposed_ns"]
    columns = {
        **dict.fromkeys(("class", "call_class", "function"), pl.String),
        **dict.fromkeys(_SUMS, pl.Int64),
    }
    row = ("cpu", None, HOST_CODE, total, 0, stretches, int(gaps.sum()))
    return pl.DataFrame(
        [row] if total or gaps.sum() else [], schema=columns, orient="row"
    ), processes
