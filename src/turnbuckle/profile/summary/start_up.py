"""Start-up of a run: the work that happens once, before the work that repeats.

Start-up lasts from the first instant of the run to the first *steady* kernel: the first kernel
whose function the same process has run before.  A first run of a function cannot be distinguished
from start-up: it may load its code, fill its caches and create its libraries' handles.  The second
run does none of these.  Where no function of a process runs twice, nothing repeats that could be
told from work that happens once: its first kernel, copy or memset counts as steady.

Several processes start up together: start-up lasts until each process that began before the first
steady kernel of any process has a steady kernel.  A process that begins later joins a steady run.
Start-up never ends before the last ``MPI_Init`` has returned, because no rank can work before; in a
recording without GPU work it ends there.

The rule has no threshold.  Where the recording began in the middle of a run, its early work counts
as start-up too; then the parts of the start-up include neither a context nor modules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Int
from turnbuckle.profile.classify import CALL_CLASS, by_name, call_classes
from turnbuckle.profile.profile import Profile, device_busy
from turnbuckle.trace.bounds import DEVICE_TABLES
from turnbuckle.trace.intervals import merge, union_ns
from turnbuckle.trace.trace import Trace
from turnbuckle.trace.window import run_ns

#: Share of the run above which the first screen answers for the steady part as well.
WORTH_TELLING: Final = 0.1
#: Share of the run time, or of its calls, from which a run is all start-up.
NEARLY_ALL: Final = 0.9

#: Calls that name what they make.
_CONTEXT: Final = re.compile(
    r"^(cu|hip)(Init|Ctx\w*Create|DevicePrimaryCtxRetain)|^cudaInitDevice|^clCreateContext"
)
LIBRARY: Final = re.compile(
    r"(?i)^_?(cublas|cudnn|cusparse|cufft|cusolver|curand|nccl|rccl|hip\w{0,16}blas|rocblas|miopen|rocfft)\w{0,40}(create|init)"
)
_MPI_INIT: Final = re.compile(r"(?i)^P?MPI_Init(_thread)?$")
_LOADS_NOTHING: Final = re.compile(r"Unload")
#: Stands for a process that is not recorded.
_ANY: Final = -1

Intervals = tuple[Int, Int]


@dataclass(frozen=True)
class StartUp:
    """Start-up of a run.

    Attributes
    ----------
    end_ns : end of the start-up, on the recording's clock [ns].
    until : event that ends it: ``repeated kernel``, ``first work`` or ``MPI_Init``.
    seconds, share : length [s], and its share of the run time.
    made_of : parts of `seconds`, each instant counted once [s]: ``mpi_init``, ``context`` (creating
        the GPU's context), ``modules`` (loading code), ``libraries`` (creating their handles),
        ``calls`` (other calls of the GPU runtime), ``device`` (work on a device and no call),
        ``host`` (none of these).
    call_share : share of the run's calls of the GPU runtime and MPI that begin in the start-up; 0
        where no calls are recorded.
    """

    end_ns: int
    until: str
    seconds: float
    share: float
    made_of: dict[str, float]
    call_share: float

    @property
    def tells(self) -> bool:
        """Return whether the start-up is so long that it affects an answer about the run."""
        return self.share > WORTH_TELLING

    @property
    def is_all(self) -> bool:
        """Return whether the run is all start-up: nine tenths of its time, or of its calls where
        `tells`, lie in it.

        Another coupling changes what calls cost and what waits for them.  Where the work after the
        start-up has no calls, an answer about the run is an answer about its start-up, however long
        that work lasts.
        """
        return self.tells and max(self.share, self.call_share) >= NEARLY_ALL

    def as_dict(self) -> dict[str, Any]:
        """Return ``profile.start_up`` of ``inspect``."""
        ratios = {"share": self.share, "call_share": self.call_share, "all": self.is_all}
        return {"seconds": self.seconds, **ratios, "until": self.until, "made_of_s": self.made_of}


def steady_ns(trace: Trace) -> int | None:
    """Return the end of start-up [ns on the recording's clock]; None where neither a kernel nor
    ``MPI_Init`` shows it.
    """
    end = _end(trace)
    return None if end is None else end[0]


def start_up(profile: Profile) -> StartUp | None:
    """Recognise the start-up of a run; None where the recording does not show its end, and for a
    part of a recording.
    """
    trace = profile.trace
    if "bounds_ns" in trace.facts.get("part", {}) or (end := _end(trace)) is None:
        return None
    first, last = run_ns(trace)
    spent = end[0] - first
    made_of = {name: value * 1e-9 for name, value in _made_of(trace, first, end[0]).items()}
    calls = np.concatenate([trace.api["start_ns"].to_numpy(), trace.mpi["start_ns"].to_numpy()])
    return StartUp(
        *end,
        spent * 1e-9,
        spent / max(last - first, 1),
        made_of,
        float(np.mean(calls < end[0])) if len(calls) else 0.0,
    )


def _end(trace: Trace) -> tuple[int, str] | None:
    """Return the end of start-up, and the event that ends it."""
    ends = [(int(end[-1]), "MPI_Init") for _, end in [_mpi_init(trace)] if len(end)]
    process = pl.col("process").fill_null(_ANY)
    kernels = trace.kernels.select(
        "start_ns", process=process, function=pl.col("name").cast(pl.Int64)
    )
    # graphs recorded as one have no names: an executable graph that is launched again repeats
    graphs = trace.graphs.select("start_ns", process=process, function=-1 - pl.col("graph_exec"))
    works = pl.concat([kernels, graphs]).sort("start_ns", maintain_order=True)
    if works.height:
        repeats = pl.col("function").cum_count().over("process", "function") > 1
        marked = works.with_columns(repeats=repeats & pl.col("function").is_not_null())
        firsts = marked.group_by("process", maintain_order=True).agg(
            first=pl.col("start_ns").first(),
            repeated=pl.col("start_ns").filter(pl.col("repeats")).first(),
        )
        firsts = firsts.join(_begins(trace), on="process", how="left").join(
            _first_works(trace), on="process", how="left"
        )
        firsts = firsts.with_columns(steady=pl.coalesce("repeated", "worked", "first"))
        together = firsts.filter(
            pl.min_horizontal("began", "worked", "first") <= pl.col("steady").min()
        )
        last = together.sort("steady", maintain_order=True).row(-1, named=True)
        ends.append(
            (last["steady"], "first work" if last["repeated"] is None else "repeated kernel")
        )
    return max(ends, default=None)


def _first_works(trace: Trace) -> pl.DataFrame:
    """Return the time of each process's first work on a device: process, worked."""
    works = pl.concat([trace.table(name).select("start_ns", "process") for name in DEVICE_TABLES])
    return works.group_by("process").agg(worked=pl.col("start_ns").min())


def _begins(trace: Trace) -> pl.DataFrame:
    """Return the time of each process's first call of the GPU runtime: process, began."""
    return trace.api.group_by("process").agg(began=pl.col("start_ns").min())


def _mpi_init(trace: Trace) -> Intervals:
    """Return the time in which ranks were in ``MPI_Init``, as disjoint intervals."""
    calls = trace.mpi.filter(
        pl.Series(
            by_name(trace.mpi["name"], trace.names, lambda text: bool(_MPI_INIT.match(text)), False)
        )
    )
    return merge(calls["start_ns"].to_numpy(), calls["end_ns"].to_numpy())


def _made_of(trace: Trace, first: int, last: int) -> dict[str, int]:
    """Return the parts of the time from `first` to `last` [ns]; each instant counts for the first
    part that applies.
    """
    api = trace.api.filter(pl.col("start_ns") < last)
    modules = (call_classes(api["name"], trace.names) == CALL_CLASS["module"]) & ~_named(
        trace, api, _LOADS_NOTHING
    )
    named = [
        frame.filter(pl.Series(_named(trace, frame, LIBRARY)))
        for frame in (api, trace.ranges.drop_nulls("end_ns"), trace.os_calls)
    ]
    libraries = pl.concat([frame.select("start_ns", "end_ns") for frame in named])
    layers = {
        "mpi_init": _mpi_init(trace),
        "context": _spans(_context_calls(trace, api)),
        "modules": _spans(api.filter(pl.Series(modules))),
        "libraries": _spans(libraries),
        "calls": _spans(api),
        "device": device_busy(trace),
        "host": (np.array([first]), np.array([last])),
    }
    out: dict[str, int] = {}
    covered: Intervals = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    for name, spans in layers.items():
        before = union_ns(*covered)
        start, end = (
            np.concatenate(pair) for pair in zip(covered, _until(spans, last), strict=True)
        )
        covered = merge(start, end)
        out[name] = union_ns(*covered) - before
    return out


def _context_calls(trace: Trace, api: pl.DataFrame) -> pl.DataFrame:
    """Return the calls that create a GPU's context.

    Few recordings name such a call: CUDA and HIP create the context inside the first call that
    needs one, before the first work on a device. So the longest call that a process begins before
    that work is taken, if it takes longer than all other calls of its name in that process
    together: creation happens once, and the same call without it is short.
    """
    firsts = _first_works(trace)
    rows = trace.api.with_columns(took=pl.col("end_ns") - pl.col("start_ns"))
    early = rows.join(firsts, on="process", how="left").filter(
        pl.col("start_ns") < pl.col("worked")
    )
    longest = early.sort("took", descending=True, maintain_order=True).unique(
        "process", keep="first", maintain_order=True
    )
    alike = rows.join(
        longest.select("process", "name", limit=2 * pl.col("took")),
        on=["process", "name"],
        how="inner",
        nulls_equal=True,
    )
    # threads that need the context at once wait for the one that creates it
    once = [
        p
        for (p,), calls in alike.group_by("process", maintain_order=True)
        if union_ns(*_spans(calls)) < calls["limit"][0]
    ]
    alone = longest.filter(pl.col("process").is_in(once))
    return pl.concat(
        [
            frame.select("start_ns", "end_ns")
            for frame in (api.filter(pl.Series(_named(trace, api, _CONTEXT))), alone)
        ]
    )


def _named(trace: Trace, frame: pl.DataFrame, pattern: re.Pattern[str]) -> Any:
    return by_name(frame["name"], trace.names, lambda text: bool(pattern.search(text)), False)


def _spans(frame: pl.DataFrame) -> Intervals:
    return merge(frame["start_ns"].to_numpy(), frame["end_ns"].to_numpy())


def _until(spans: Intervals, last: int) -> Intervals:
    """Return disjoint intervals cut at an instant."""
    inside = spans[0] < last
    return spans[0][inside], np.minimum(spans[1][inside], last)
