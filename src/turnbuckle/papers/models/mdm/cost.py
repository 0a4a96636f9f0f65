"""Instructions per cycle of a kernel whose warps miss caches together: the memory divergence model
(Wang et al., MICRO 2020).

    IPC = W sum I / sum (C + S_MSHR + S_NoC + S_DRAM)                               Austin et al. 2021, eq 7

over the intervals of one representative warp: I instructions end in a stall after C cycles, with
N_r read misses of the L1 cache and N_w writes.  W warps share an SM that has M miss registers; S
SMs at f Hz share network and memory:

    s       = 128 f / BW_noc + m 128 f / BW_dram              cycles for a request of 128 B; m misses the L2 cache
    R       = (min(N_r W, M) + N_w W) S                       requests in the queue
    S_NoC + S_DRAM = kappa s R                                kappa = 1/2: the middle of the queue
    S_MSHR  = (L + S_NoC + S_DRAM) (ceil(N_r W / M) - 1)      where N_r W > M: such an interval is divergent
    L       = L2 (1 - m) + DRAM m                             cycles of one request alone

The equations follow the authors' script; the text of the paper was not at hand (models.md 3.5).  A
duration from it is a guess with a wide prior: Table 1 of the ECP report has errors from -63 % to
+52 %.  It is shown beside a measured duration and never replaces one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Bool, Float
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.table_file import Column, read_table
from turnbuckle.papers.numbers import Interval

#: Relative error of a modelled duration (log-sd).
PRIOR_LOG_SD: Final = 0.5
#: Standard deviations to the ends of a 90 % interval.
NINETY: Final = 1.6448536269514722
REQUEST_BYTES: Final = 128.0
#: Mean position in a queue, as a share of its length.
KAPPA: Final = 0.5

#: Most instructions per cycle of any SM: two from each of four schedulers.
MOST_ISSUED: Final = 8.0
#: Largest plausible count.
_MOST: Final = 1e15

COLUMNS: Final = (
    Column("instructions", "1", above=True, most=_MOST),
    Column("cycles", "1", least=1, most=_MOST),
    Column("read misses", "1", most=_MOST),
    Column("writes", "1", needed=False, most=_MOST),
    Column("times", "1", needed=False, most=_MOST),
)
#: Range of each parameter of a device.
_BANDWIDTHS: Final = dict.fromkeys(("noc_bandwidth", "dram_bandwidth"), (1e3, 1e30))
_COUNTS: Final = {
    "sms": (1.0, 1e6),
    "miss_registers": (1.0, 1e9),
    "l2_cycles": (1.0, 1e6),
    "dram_cycles": (1.0, 1e6),
}
_DEVICE: Final = {**_COUNTS, "clock": (1e3, 1e12), **_BANDWIDTHS}


@dataclass(frozen=True)
class MdmDevice:
    """Parameters of a GPU; the default values are those of the authors' script.

    Attributes
    ----------
    sms : number of streaming multiprocessors.
    miss_registers : number of MSHRs of one SM.
    clock : clock rate of the SMs [Hz].
    l2_cycles, dram_cycles : latency of a request that hits, and that misses, the L2 cache.
    noc_bandwidth, dram_bandwidth : bandwidth of the network on the chip and of the memory [B/s].
    """

    sms: float = 28.0
    miss_registers: float = 128.0
    clock: float = 1.4e9
    l2_cycles: float = 120.0
    dram_cycles: float = 220.0
    noc_bandwidth: float = 1050e9
    dram_bandwidth: float = 480e9

    def __post_init__(self) -> None:
        for f in fields(self):
            within(f.name, getattr(self, f.name), *_DEVICE[f.name])


@dataclass(frozen=True)
class Intervals:
    """Intervals of the representative warp, each of shape (n,).

    Attributes
    ----------
    instructions, cycles : I and C.
    read_misses, writes : N_r and N_w, requests of one warp.
    times : number of occurrences of the interval.
    """

    instructions: Float
    cycles: Float
    read_misses: Float
    writes: Float
    times: Float


def within(name: str, value: float, least: float, most: float, above: bool = False) -> float:
    """Return a parameter that is in its range.

    Raises A046 where it is out of range or not a number.
    """
    if not (
        (value > least if above else value >= least) and value <= most and math.isfinite(value)
    ):
        bound = f"above {least:g}" if above else f"{least:g} or more"
        fix = bound + (f", {most:g} or less" if math.isfinite(most) else "")
        raise error_of(
            "A046.quantity", found=f"{value:g}", fix=fix, quantity=name.replace("_", " ")
        )
    return value


def read_intervals(path: str | Path) -> Intervals:
    """Read the intervals of a warp from a table: instructions, cycles, read misses, writes, times.

    Raises A046 for a table without lines, or whose intervals all occur 0 times; A061 to A063.
    """
    table = read_table(path, COLUMNS, "the table of intervals")
    times = np.where(np.isnan(table.number("times", 1.0)), 1.0, table.number("times", 1.0))
    if not times.sum() > 0:
        raise error_of("A046.empty", where=table.name)
    writes = np.nan_to_num(table.number("writes", 0.0))
    return Intervals(
        table.number("instructions"),
        table.number("cycles"),
        table.number("read misses"),
        writes,
        times,
    )


@dataclass(frozen=True)
class Stalls:
    """Stall cycles of a warp in each interval, each of shape (n,), and which intervals are
    divergent.
    """

    miss_registers: Float
    network: Float
    memory: Float
    divergent: Bool

    @property
    def total(self) -> Float:
        """Return the sum of the three kinds of stall cycles."""
        return self.miss_registers + self.network + self.memory


def stalls(
    read_misses: Float | float,
    writes: Float | float,
    warps: float,
    miss_rate: float,
    device: MdmDevice,
    kappa: float = KAPPA,
    kappa_divergent: float | None = None,
) -> Stalls:
    """Return the stall cycles of intervals.

    Parameters
    ----------
    read_misses, writes : N_r, N_w of one warp, shape (n,).
    warps : W on an SM.
    miss_rate : m, share of requests that miss the L2 cache.
    kappa : share of the queue that a request waits for.
    kappa_divergent : the same in divergent intervals (the script holds 1 in a line that is
        commented out); None is `kappa`.

    >>> s = stalls(np.array([1.0, 8.0]), 0.0, 32, 0.5, MdmDevice())
    >>> s.divergent.tolist(), [round(float(x)) for x in s.total]
    ([False, True], [160, 1451])
    """
    reads = np.asarray(read_misses, dtype=np.float64) * warps
    divergent = reads > device.miss_registers
    queued = (
        np.minimum(reads, device.miss_registers) + np.asarray(writes, dtype=np.float64) * warps
    ) * device.sms
    share = np.where(divergent, kappa if kappa_divergent is None else kappa_divergent, kappa)
    network = share * (REQUEST_BYTES * device.clock / device.noc_bandwidth) * queued
    memory = share * (miss_rate * REQUEST_BYTES * device.clock / device.dram_bandwidth) * queued
    alone = device.l2_cycles * (1.0 - miss_rate) + device.dram_cycles * miss_rate
    rounds = np.where(divergent, np.ceil(reads / device.miss_registers) - 1.0, 0.0)
    return Stalls((alone + network + memory) * rounds, network, memory, divergent)


def instructions_per_cycle(run: Intervals, stalled: Stalls, warps: float) -> float:
    """Return the instructions per cycle of one SM (eq 7).

    >>> unit = np.ones(1); run = Intervals(100 * unit, 400 * unit, 0 * unit, 0 * unit, unit)
    >>> instructions_per_cycle(run, stalls(run.read_misses, run.writes, 8, 0.0, MdmDevice()), 8)
    2.0
    """
    cycles = float((run.times * (run.cycles + stalled.total)).sum())
    return warps * float((run.times * run.instructions).sum()) / cycles if cycles else math.inf


def modelled_duration(
    instructions: float, ipc: float, sms: float, clock: float, log_sd: float = PRIOR_LOG_SD
) -> Interval:
    """Return the duration of a kernel from its instructions [s], with the 90 % interval of its
    prior.

    Parameters
    ----------
    instructions : warp instructions that the whole device executes.
    ipc : instructions per cycle of one SM.
    clock : clock rate [Hz].
    log_sd : standard deviation of the log-normal prior around the value.

    >>> modelled = modelled_duration(28e9, 1.0, 28, 1e9)
    >>> modelled.value, round(modelled.low, 2), round(modelled.high, 2)
    (1.0, 0.44, 2.28)
    """
    seconds = instructions / (ipc * sms * clock)
    wide = math.exp(NINETY * log_sd)
    return Interval(seconds, seconds / wide, seconds * wide)
