"""Break-even of a matrix product on an accelerator: launch time and bandwidth against size (Groves
et al. 2022, III.A and Fig 3).

    T_c = 2 N^3 / F                                                 on the host at F FLOP/s
    T_a = launch + 2 copies in + 1 copy out + t_k(N)                on the accelerator; a copy is L + e N^2 / BW
    moving pays when T_a < T_c; the offload rule is `turnbuckle.profile.summary.offload.offload_ratio_limit`

The kernel time t_k(N) comes from one of two modes, which the answer names:

    measured   from a recording or a table, between measured sizes along straight lines in log t over log N, never beyond them
    alpha      T_c / alpha, where nothing was measured

The modes disagree for small products: with alpha = 8 a product of 1024 passes twice the host's
speed at 78 GB/s.  The paper, which measured its kernels, states that it never does (decision of
models.md 1.10).  Element size e is 8 for DGEMM.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import numpy as np

from turnbuckle.cost.loggp import loggp_seconds
from turnbuckle.foundation.arrays import Bool, Float, Int
from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.foundation.fields import SCHEMA_VERSION, Declared
from turnbuckle.foundation.table_file import Column, read_table
from turnbuckle.foundation.units import show
from turnbuckle.machine.machine import Machine
from turnbuckle.papers.models.on_machine import large_copy, peak
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary.offload import offload_ratio_limit
from turnbuckle.profile.summary.summary import kernel_names

Mode = Literal["measured", "alpha"]

#: Sizes, launch times [s] and bandwidths [B/s] of Fig 3.
SIZES: Final = (1024, 2048, 4096)
LAUNCHES: Final = (0.0, 100e-6, 200e-6, 300e-6, 400e-6, 500e-6)
BANDWIDTHS: Final = (12.5e9, 25e9, 31.5e9, 50e9, 100e9, 200e9, 400e9)
#: The paper's host: 2.5 TFLOP/s on 64 cores.
HOST_RATE: Final = 2.5e12
DOUBLE: Final = 8
COPIES: Final = 3
#: Number of sizes in the first search for a break-even.
_FINE: Final = 600

COLUMNS: Final = (
    Column("size", "1", least=1, most=1e7, whole=True),
    Column("time", "s", needed=False, least=1e-12, most=1e9),
    Column("rate", "FLOP/s", needed=False, least=1, most=1e24),
)
LARGEST: Final = 10_000_000
#: Least and most of each parameter, and its unit.
_RANGES: Final = {
    **dict.fromkeys(("--sizes", "--size"), (1.0, float(LARGEST), "1")),
    **dict.fromkeys(("--launch", "--latency"), (0.0, 1e6, "s")),
    **{
        "--element": (1.0, 16.0, "1"),
        "--host-rate": (1.0, 1e24, "FLOP/s"),
        "--bandwidth": (1.0, 1e18, "B/s"),
    },
}


def operations(size: Float | float) -> Float:
    """Return the floating-point operations of a product of two N x N matrices: 2 N^3.

    >>> float(operations(1024)) / 1e9
    2.147483648
    """
    return np.asarray(2.0 * np.asarray(size, dtype=np.float64) ** 3)


def host_seconds(size: Float | float, host_rate: Float | float) -> Float:
    """Return T_c [s]: 2 N^3 / F."""
    return np.asarray(operations(size) / host_rate)


def copy_seconds(
    size: Float | float,
    bandwidth: Float | float,
    latency: Float | float = 0.0,
    element_bytes: float = DOUBLE,
) -> Float:
    """Return the time of two matrices in and one out [s]: 3 (L + e N^2 / BW).

    >>> round(float(copy_seconds(1024, 400e9)) * 1e6, 1)
    62.9
    """
    matrix_bytes = element_bytes * np.asarray(size, dtype=np.float64) ** 2
    return np.asarray(COPIES * loggp_seconds(matrix_bytes, latency, bandwidth))


def break_even_bandwidth(
    size: float,
    host_rate: float,
    kernel_seconds: float,
    launch: float = 0.0,
    speedup: float = 1.0,
    latency: float = 0.0,
    element_bytes: float = DOUBLE,
) -> float:
    """Return the bandwidth [B/s] at which the accelerator is `speedup` times as fast as the host;
    infinite where none suffices.

    >>> round(break_even_bandwidth(1024, 2.5e12, 2 * 1024**3 / 2.5e12 / 8, speedup=2) / 1e9)
    78
    """
    left = (
        float(host_seconds(size, host_rate)) / speedup - launch - kernel_seconds - COPIES * latency
    )
    return COPIES * element_bytes * size**2 / left if left > 0 else math.inf


@dataclass(frozen=True)
class KernelTimes:
    """Kernel time over size."""

    mode: Mode  #: mode, ``measured`` or ``alpha``
    source: str
    sizes: Float  #: measured N, ascending, shape (m,); empty in mode alpha
    #: seconds, low, high: median, least and most time of each size [s], shape (m,)
    seconds: Float
    low: Float
    high: Float
    counts: Int  #: number of measurements of each size, shape (m,)
    #: host_rate, alpha: parameters of mode ``alpha`` [FLOP/s, 1]
    host_rate: float = HOST_RATE
    alpha: float = math.nan

    def seconds_of(self, size: Float | float) -> Float:
        """Return the kernel time [s] at some sizes.  Raises A160 a size beyond those measured."""
        return self._along(np.asarray(size, dtype=np.float64), self.seconds)

    def ends(self, size: float) -> tuple[float, float] | None:
        """Return the least and most time at a size; None where no size was measured twice."""
        if self.mode == "alpha" or int(self.counts.max()) < 2:
            return None
        where = np.asarray(size, dtype=np.float64)
        return float(self._along(where, self.low)), float(self._along(where, self.high))

    def _along(self, size: Float, seconds: Float) -> Float:
        if self.mode == "alpha":
            return np.asarray(host_seconds(size, self.host_rate) / self.alpha)
        first, last = self.sizes[0], self.sizes[-1]
        if (size < first).any() or (size > last).any():
            outside = float(size.min() if (size < first).any() else size.max())
            raise error_of("A160.size", found=f"{outside:g}; measured are {first:g} to {last:g}")
        return np.asarray(np.exp(np.interp(np.log(size), np.log(self.sizes), np.log(seconds))))


def by_alpha(alpha: float, host_rate: float = HOST_RATE) -> KernelTimes:
    """Return kernel times as the host's time over alpha, for kernels without measurements.

    Raises A047 where alpha is not above 1, or the rate not above 0.
    """
    if not (1.0 < alpha <= 1e4 and 0 < host_rate < math.inf):
        raise error_of("A047.rates", found=f"{alpha:g}, {host_rate:g} FLOP/s")
    none: Float = np.zeros(0)
    return KernelTimes(
        "alpha",
        f"host time / {alpha:g}",
        none,
        none,
        none,
        none,
        np.zeros(0, np.int64),
        host_rate,
        alpha,
    )


def by_peak(
    machine: Machine, host_rate: float = HOST_RATE, element_bytes: int = DOUBLE
) -> KernelTimes:
    """Return kernel times at the peak of a machine's GPU: alpha is its best rate over the host's.

    Raises A047 where the GPU is not faster than the host; A160 where the machine states no rate for
    such elements.
    """
    rate = peak(machine, element_bytes)
    times = by_alpha(rate / host_rate, host_rate)
    return replace(
        times, source=f"{times.source}, the peak of {machine.name} of {show(rate, 'FLOP/s')}"
    )


def coupling(machine: Machine | None) -> tuple[tuple[float, ...], tuple[float, ...], float]:
    """Return launch times [s], bandwidths [B/s] and latency of a copy [s]: of a machine a launch on
    an idle GPU and a large copy to it.

    Without a machine they are those of Fig 3.  A launch time that it does not state varies as
    there, and a latency counts as 0.

    >>> from turnbuckle.machine import load
    >>> [round(b / 1e9, 1) for b in coupling(load("summit"))[1]]
    [46.4]
    """
    if machine is None:
        return LAUNCHES, BANDWIDTHS, 0.0
    launch = machine.value("launch.latency")
    return (
        LAUNCHES if launch is None else (launch,),
        (large_copy(machine),),
        machine.value("link.h2d.latency") or 0.0,
    )


def measured(
    sizes: Sequence[float] | Float, seconds: Sequence[float] | Float, source: str
) -> KernelTimes:
    """Return kernel times from measurements, each (size, seconds); repeated sizes give a spread.

    >>> times = measured([1024, 1024, 2048], [100e-6, 110e-6, 700e-6], "a benchmark")
    >>> times.counts.tolist(), [round(float(s) * 1e6, 1) for s in times.seconds]
    ([2, 1], [105.0, 700.0])
    """
    n, t = np.asarray(sizes, dtype=np.float64), np.asarray(seconds, dtype=np.float64)
    distinct = np.unique(n)
    groups = [t[n == size] for size in distinct]

    def of_each(what: Any) -> Float:
        return np.array([what(g) for g in groups], dtype=np.float64)

    counts = np.array([len(g) for g in groups], dtype=np.int64)
    return KernelTimes(
        "measured", source, distinct, of_each(np.median), of_each(np.min), of_each(np.max), counts
    )


def read_times(path: str | Path) -> KernelTimes:
    """Read measured products from a table: size, and time [s] or rate [FLOP/s].

    Raises A047 for a line with neither time nor rate, or with both; A061 to A063.
    """
    table = read_table(path, COLUMNS, "the table of products")
    size, time, rates = table.number("size"), table.number("time"), table.number("rate")
    either = np.isnan(time) != np.isnan(rates)
    if not len(table) or not either.all():
        where = table.where(int(np.flatnonzero(~either)[0])) if len(table) else table.name
        raise error_of("A047.product" if len(table) else "A047.empty", where=where)
    seconds = np.where(
        np.isnan(time), operations(size) / np.where(np.isnan(rates), 1.0, rates), time
    )
    return measured(size, seconds, table.name)


def recorded(
    profile: Profile, name: str = "gemm", size: int | None = None, element_bytes: int = DOUBLE
) -> tuple[KernelTimes, int]:
    """Return the kernel times of a recording, and how many of the kernels were left out.

    Raises A160 where no kernel matches, or no copies give a size; A047 for a size or an element out
    of range.

    The size of a product follows from its copies: two copies in before it and one back after it,
    each of e N^2 bytes. Kernels without such copies are left out.

    Parameters
    ----------
    size : N of all these kernels; None takes it from the copies.
    element_bytes : e [B].
    """
    _refuse_outside({"--element": [element_bytes], "--size": [] if size is None else [size]})
    kernels = profile.of("kernel").sort("start_ns")
    names = kernel_names(profile, kernels)
    matches = names.str.contains(name, literal=True).to_numpy().astype(np.bool_)
    rows = kernels.filter(matches)
    if not rows.height:
        raise error_of("A160.name", found=clipped(name))
    seconds = rows["seconds"].to_numpy()
    different = names.filter(matches).n_unique()
    source = profile.trace.name + (f", {different:,} different kernels" if different > 1 else "")
    if size is not None:
        return measured(np.full(len(seconds), float(size)), seconds, source), 0
    start, end = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    copied = {}
    for kind in ("copy_h2d", "copy_d2h"):
        copies = profile.of(kind).sort("start_ns")
        copied[kind] = (
            copies["start_ns"].to_numpy(),
            copies["end_ns"].to_numpy(),
            copies["size_bytes"].fill_null(0).to_numpy(),
        )
    sizes = np.full(len(seconds), np.nan)
    for k in range(len(seconds)):
        before, after = (
            (end[k - 1] if k else profile.first_ns),
            (start[k + 1] if k + 1 < len(start) else profile.last_ns),
        )
        into = _within(copied["copy_h2d"], before, start[k])
        back = _within(copied["copy_d2h"], end[k], after)
        side = math.isqrt(int(into[-1]) // element_bytes) if len(into) else 0
        if (
            side
            and len(into) >= 2
            and len(back)
            and into[-1] == into[-2] == back[0] == side * side * element_bytes
        ):
            sizes[k] = side
    sized = ~np.isnan(sizes)
    if not sized.any():
        raise error_of("A160.matrix", found=f"{len(seconds)} kernels", element_bytes=element_bytes)
    return measured(sizes[sized], seconds[sized], source), int((~sized).sum())


def _within(copies: tuple[Int, Int, Int], first: int, last: int) -> Int:
    """Return the sizes [B] of the copies that lie in a span of time; starts, ends and sizes are in
    order of start.
    """
    began, ended, moved = copies
    some = slice(int(np.searchsorted(began, first)), int(np.searchsorted(began, last)))
    return moved[some][ended[some] <= last]


@dataclass(frozen=True)
class Product:
    """Break-even of one size."""

    size: int
    #: host_seconds, kernel_seconds: T_c and t_k [s]
    host_seconds: float
    kernel_seconds: float
    #: least and most measured t_k [s]; None where no size was measured twice
    kernel_ends: tuple[float, float] | None
    alpha: float  #: T_c / t_k, the speed-up without launch and copies
    ratio_limit: float  #: largest share of T_c that launch and copies may take: (alpha - 1) / alpha
    #: speedup, low, high: T_c / T_a at t_k and at its ends, shape (launches, bandwidths)
    speedup: Float
    low: Float
    high: Float
    #: bandwidth [B/s] from which moving pays, by launch, shape (launches,); infinite where none
    #: suffices
    needed: Float


@dataclass(frozen=True)
class Study(Declared):
    """Numbers of Fig 3: speed-up by size, launch time and bandwidth."""

    schema_version: ClassVar[int] = SCHEMA_VERSION

    times: KernelTimes
    host_rate: float
    element_bytes: int
    latency: float
    launches: Float
    bandwidths: Float
    products: tuple[Product, ...]
    #: smallest size that pays at each launch and bandwidth, shape (launches, bandwidths); nan where
    #: no known size pays
    pays_from: Float
    left_out: int = 0
    machine: str | None = None

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per size, launch and bandwidth."""
        return [
            {
                **{
                    "size": p.size,
                    "launch_seconds": float(launch),
                    "bandwidth": float(b),
                    "speedup": float(p.speedup[i, j]),
                },
                **{
                    "speedup_low": float(p.low[i, j]),
                    "speedup_high": float(p.high[i, j]),
                    "kernel_times": self.times.mode,
                },
            }
            for p in self.products
            for i, launch in enumerate(self.launches)
            for j, b in enumerate(self.bandwidths)
        ]


def study(
    times: KernelTimes,
    *,
    sizes: Sequence[int] | None = None,
    host_rate: float = HOST_RATE,
    launches: Sequence[float] | Float = LAUNCHES,
    bandwidths: Sequence[float] | Float = BANDWIDTHS,
    latency: float = 0.0,
    element_bytes: int = DOUBLE,
    left_out: int = 0,
    machine: str | None = None,
) -> Study:
    """Return the speed-up over the host by size, launch time and bandwidth.

    Raises A047 for a number out of range; A160 a size beyond those measured.

    Parameters
    ----------
    sizes : N of the products; None takes the measured sizes, or those of Fig 3 with alpha.
    latency : latency of one copy [s]; the paper has none.
    """
    chosen = list(
        dict.fromkeys(
            sizes or ([int(n) for n in times.sizes] if times.mode == "measured" else SIZES)
        )
    )
    launch, bandwidth = (
        np.unique(np.asarray(launches, dtype=np.float64)),
        np.unique(np.asarray(bandwidths, dtype=np.float64)),
    )
    asked: dict[str, Sequence[float] | Float] = {
        "--sizes": chosen,
        "--host-rate": [host_rate],
        "--launch": launch,
        "--latency": [latency],
    }
    _refuse_outside(asked | {"--bandwidth": bandwidth, "--element": [element_bytes]})

    def over(size: float, kernel: float) -> Float:
        copies = copy_seconds(size, bandwidth, latency, element_bytes)[None, :]
        return np.asarray(host_seconds(size, host_rate) / (launch[:, None] + copies + kernel))

    products = []
    for n in chosen:
        host, kernel, ends = (
            float(host_seconds(n, host_rate)),
            float(times.seconds_of(n)),
            times.ends(n),
        )
        least, most = ends or (kernel, kernel)
        needed = np.array(
            [
                break_even_bandwidth(n, host_rate, kernel, float(s), 1.0, latency, element_bytes)
                for s in launch
            ]
        )
        # a kernel slower than the host never pays, so its limit is 0
        limit = max(float(offload_ratio_limit(host / kernel)), 0.0)
        products.append(
            Product(
                n,
                host,
                kernel,
                ends,
                host / kernel,
                limit,
                over(n, kernel),
                over(n, most),
                over(n, least),
                needed,
            )
        )
    pays = _pays_from(times, host_rate, launch, bandwidth, latency, element_bytes)
    return Study(
        times,
        host_rate,
        element_bytes,
        latency,
        launch,
        bandwidth,
        tuple(products),
        pays,
        left_out,
        machine,
    )


def _refuse_outside(asked: Mapping[str, Sequence[float] | Float]) -> None:
    for option, values in asked.items():
        least, most, unit = _RANGES[option]
        for value in values:
            if not least <= value <= most:
                raise error_of(
                    "A047.range",
                    found=show(float(value), unit),
                    option=option,
                    least=show(least, unit),
                    most=show(most, unit),
                )


def _pays_from(
    times: KernelTimes,
    host_rate: float,
    launch: Float,
    bandwidth: Float,
    latency: float,
    element_bytes: int,
) -> Float:
    """Return the smallest N from which all larger known sizes pay, shape (launches, bandwidths);
    nan where the largest does not.
    """
    first, last = (
        (float(times.sizes[0]), float(times.sizes[-1]))
        if times.mode == "measured"
        else (1.0, float(LARGEST))
    )
    grid: Float = np.unique(np.round(np.geomspace(first, last, _FINE))).astype(np.float64)
    out: Float = np.full((len(launch), len(bandwidth)), np.nan)
    for i, started in enumerate(launch):
        for j, carried in enumerate(bandwidth):

            def pays(
                n: Float, started: float = float(started), carried: float = float(carried)
            ) -> Bool:
                spent = (
                    started + copy_seconds(n, carried, latency, element_bytes) + times.seconds_of(n)
                )
                return np.asarray(spent < host_seconds(n, host_rate))

            lost = np.flatnonzero(~pays(grid))
            if not len(lost):
                out[i, j] = grid[0]
            elif lost[-1] < len(grid) - 1:
                # the grid is coarse, so each whole size after its last loss is tried
                between: Float = np.arange(grid[lost[-1]] + 1, grid[lost[-1] + 1] + 1)
                late = np.flatnonzero(~pays(between))
                out[i, j] = between[late[-1] + 1] if len(late) else between[0]
    return out
