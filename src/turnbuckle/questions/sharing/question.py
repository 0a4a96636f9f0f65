"""Several runs behind one host link, or on one GPU: how much does each slow the others down, and
how many fit?  And one larger GPU instead?

The same recorded run several times over at once (AgoChart, Austin et al. 2021, 4.7 and 8.5):

loose    k runs, each on GPUs of its own, all copies on one link to the host: a composable chassis, or a node with more GPUs than links
tight    one run on a GPU k times as large, the link its own
pooled   k runs on one GPU k times as large, all copies on its link
shared   k runs on the recorded GPU, all copies on its link

Two recordings can be replayed beside each other too (`questions.sharing.pairs`).  Fair shares, each
direction of the link apart; a GPU that runs have between them is shared fairly too.  Every run has
its own cores, unless it is said how many they have between them, and its own host memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Final, Literal, get_args

import numpy as np
import polars as pl

from turnbuckle.cost.gpu_size import resident_at_most, spread_speedup, unit_share
from turnbuckle.foundation.arrays import Bool, Float, Int
from turnbuckle.foundation.errors import TurnbuckleError, error_of
from turnbuckle.foundation.units import show
from turnbuckle.machine.parameter_names import HOST_WAYS, link_parameter
from turnbuckle.profile.dependencies.graph import Graph
from turnbuckle.projection.admission import require_activity, trusted_timeline
from turnbuckle.projection.answers.shown import Shown
from turnbuckle.projection.model import link_bandwidth
from turnbuckle.projection.run import Run
from turnbuckle.questions.sharing.differences import scattered
from turnbuckle.replay.contention.contention import Program, replay
from turnbuckle.replay.contention.graphs import (
    Copies,
    Kernels,
    Pool,
    behind_one_link,
    copies,
    engines,
    initiated,
    initiation,
    kernels,
    placed,
)
from turnbuckle.replay.contention.network import Network

Form = Literal["loose", "tight", "pooled", "shared"]
Law = Literal["anchored", "agochart"]
Gain = Literal["full", "blocks", "rounds"]

FORMS: Final[tuple[Form, ...]] = get_args(Form)
#: Runs that have a GPU between them.
ON_ONE_GPU: Final = ("pooled", "shared")
#: Runs at once that can be asked for.
MOST: Final = 256
#: A run fits behind a link if it gets no longer than by this share.
FITS: Final = 0.05
#: Host cores that can be asked for.
MOST_CORES: Final = 100_000
#: The longest latency that can be asked for [s].
LONGEST: Final = 1e3
#: Processes of the replay that fit into memory on a small machine.
MOST_PROCESSES: Final = 20_000_000
#: What a pooled replay counts in: thousandths of a picosecond of a full GPU, so that no kernel is
#: rounded to whole bytes.
FULL: Final = 1e15


@dataclass(frozen=True)
class Shared:
    """Replay of several runs at once, or of one run on a larger GPU.

    Attributes
    ----------
    form : what is shared.
    runs : at once, or times as large (tight).
    seconds : run time of each [s]; they are alike and end together but for the order in which ties
        are dealt with.
    penalty : over the recorded run time.
    gain : runs done in a time, over those of one run alone in it.
    busy_to_device, busy_to_host : share of that time in which the link would be busy if it always
        ran at full bandwidth.
    """

    form: Form
    runs: int
    seconds: float
    penalty: float
    gain: float
    busy_to_device: float
    busy_to_host: float


@dataclass(frozen=True)
class Sharer:
    """A recorded run, ready to be replayed with others of its kind.

    Attributes
    ----------
    measured : recorded run time [s]; `beyond` the part outside the graph.
    graph, moved, kernels : instants, copies and kernels.
    devices : GPUs of the run.
    recorded_bandwidth : what a copy reaches on the recorded link [B/s]: of its machine, or the
        fastest copy's rate if that is more.
    link_from : which of the two it is, in words.
    recorded_latency : median time from a call to the work it starts [s].
    units : multiprocessors stated by the user, 0 for those of the recording.
    sharers : most processes that call a GPU by one number, which are taken to share it.
    """

    measured: float
    beyond: float
    graph: Graph
    moved: Copies
    kernels: Kernels
    devices: int
    recorded_bandwidth: float
    link_from: str
    recorded_latency: float
    units: int = 0
    sharers: int = 1

    @cached_property
    def kernel_units(self) -> Int:
        """Return the multiprocessors of each kernel's GPU, 0 where unknown."""
        return np.full_like(self.kernels.units, self.units) if self.units else self.kernels.units

    @cached_property
    def engines(self) -> Int:
        """Return the copy engines of each device, by direction."""
        return engines(self.moved, self.graph)

    def gained(self, times: float, gain: Gain = "blocks") -> Float:
        """Return the speed-up of each kernel on a GPU that is `times` as large.

        ``full``: as many times, whatever its blocks. A multiprocessor gains if it has fewer blocks,
        or if it needs fewer rounds of blocks that are resident together. ``blocks`` is the larger
        of the two gains, ``rounds`` the smaller.
        """
        held = self.kernels
        if gain == "full":
            return np.full(len(held.seconds), float(times))
        alone = spread_speedup(held.blocks, self.kernel_units, times)
        together = spread_speedup(
            held.blocks, self.kernel_units * resident_at_most(held.threads, held.registers), times
        )
        return np.maximum(alone, together) if gain == "blocks" else np.minimum(alone, together)

    @property
    def blocks_known(self) -> float:
        """Return the share of kernel time whose thread blocks and multiprocessors are known."""
        held = (self.kernels.blocks > 0) & (self.kernel_units > 0)
        return _share(self.kernels.seconds, held)

    @property
    def unfilled(self) -> float:
        """Return the share of kernel time in kernels with no more blocks than multiprocessors.

        A larger GPU is no faster for them.
        """
        held = (self.kernels.blocks > 0) & (self.kernels.blocks <= self.kernel_units)
        return _share(self.kernels.seconds, held)

    def processes(self, form: Form, runs: int, cores: int = 0) -> int:
        """Return the number of processes of a replay."""
        # with cores, the time between calls is an activity too, and each activity has one more for
        # its core
        once = len(self.graph.activity) * (3 if cores else 1) + len(self.moved.activity)
        return (
            once
            if form == "tight"
            else runs * (once + (len(self.kernels.activity) if form in ON_ONE_GPU else 0))
        )

    def together(
        self,
        form: Form,
        runs: int,
        *,
        bandwidth: float | None = None,
        latency: float | None = None,
        hop_seconds: float = 0.0,
        law: Law = "anchored",
        speed: float = 1.0,
        gain: Gain = "blocks",
        copy_cost: float = 1.0,
        cores: int = 0,
        seed: int = 0,
    ) -> Shared:
        """Replay.

        Parameters
        ----------
        bandwidth : of the shared link, one way [B/s]; None is the recorded one.
        latency : initiation latency of copies and kernels [s]; None leaves each as recorded.
        hop_seconds : added to each copy [s].
        law : ``anchored``: what copies and deliveries cost beyond link and latency stays.
            ``agochart``: a copy takes its bytes over the bandwidth, and every delivery the latency.
        speed : of one multiprocessor over the recorded one's, in every form.
        gain : what kernels gain on a larger GPU, see `gained`.
        copy_cost : times the time of each copy.
        cores : that the threads of all runs have between them, shared fairly; 0: one for each.  A
            call that waits leaves its core.
        seed : of a run a little different (`turnbuckle.questions.sharing.differences.scattered`).
        """
        rate = self.recorded_bandwidth if bandwidth is None else bandwidth
        program, hosts = self.program(
            form, runs, rate, latency, hop_seconds, law, speed, gain, copy_cost, cores
        )
        program, every = placed(program, hosts)
        full = FULL / rate if form in ON_ONE_GPU or cores else 1.0
        done = replay(scattered(program, seed), Network(every, rate * full, 0.0), "flow")
        seconds = done.seconds + self.beyond
        up, down = done.carried_bytes[0] / full, done.carried_bytes[every] / full
        work = (1 if form == "tight" else runs) * self.measured / seconds
        return Shared(
            form,
            runs,
            seconds,
            seconds / self.measured,
            work,
            float(up / rate / seconds),
            float(down / rate / seconds),
        )

    def program(
        self,
        form: Form,
        runs: int,
        rate: float,
        latency: float | None = None,
        hop_seconds: float = 0.0,
        law: Law = "anchored",
        speed: float = 1.0,
        gain: Gain = "blocks",
        copy_cost: float = 1.0,
        cores: int = 0,
        devices: int = 0,
    ) -> tuple[Program, int]:
        """Return the program of the runs, and its number of hosts in a network without the cores'
        hosts.

        Parameters are as in `together`; `rate` is that of the link [B/s], `devices` the least
        number of GPUs. On one GPU for all (`ON_ONE_GPU`), and with `cores`, the links of the
        network have `FULL` for `rate`.
        """
        moved = self.moved.on_link(rate, self.recorded_bandwidth, law == "anchored")
        if copy_cost != 1.0:
            moved = replace(moved, seconds=moved.seconds * copy_cost)
        graph = self.graph
        if latency is not None:
            graph = initiated(
                graph, latency, recorded=self.recorded_latency if law == "anchored" else None
            )
        size, devices = runs if form in ("tight", "pooled") else 1, max(devices, self.devices)
        most = self.gained(size, gain)
        copied, pool, full, hosts = 1 if form == "tight" else runs, None, 1.0, 1 + devices
        if form == "loose":
            hosts = 1 + runs * self.devices
        elif form in ON_ONE_GPU:
            # a kernel recorded beside others held only its share of the GPU
            used = (
                np.ones(len(most))
                if gain == "full"
                else unit_share(self.kernels.blocks, self.kernel_units)
            )
            share = np.minimum(used, 1.0 / self.kernels.at_once)
            pool, hosts = (
                Pool(self.kernels, share, most * speed, size * speed, devices),
                1 + 3 * devices,
            )
        if pool is not None or cores:
            full = FULL / rate
            # in whole parts, so that each copy takes its time to the picosecond
            moved = replace(moved, size_bytes=np.maximum(np.round(moved.size_bytes * full), 1.0))
        kernel = np.ones(len(most)) if pool is not None else 1.0 / (most * speed)
        held: dict[str, Any] = {
            "kernels": self.kernels.activity,
            "engines": self.engines,
            "pool": pool,
            "cores": cores,
        }
        return behind_one_link(
            graph, moved, copied, kernel=kernel, after=hop_seconds, full=rate * full, **held
        ), hosts


def _share(seconds: Float, held: Bool) -> float:
    return float(seconds[held].sum() / seconds.sum()) if len(seconds) else 0.0


def ready(run: Run, *, units: int = 0, apart: bool = False) -> Sharer:
    """Make a run ready to be replayed with others.

    Parameters
    ----------
    units : multiprocessors of its GPUs, where the recording does not say or says it wrong.
    apart : GPUs of two processes are two even if both call theirs by one number.

    Raises
    ------
    CannotAnswer : A121, no GPU activity; A122, the recorded order cannot be trusted; A165, neither
        kernels nor copies between host and device.
    UsageError : A097, multiprocessors that cannot be.
    """
    if units < 0 or units > 1_000_000:
        raise error_of("A097.units", found=str(units))
    run = run.judged
    profile = run.profile
    require_activity(profile)
    made = run.ordered
    graph = trusted_timeline(made).graph
    moved = copies(profile, graph, apart=apart)
    held = kernels(profile, graph, apart=apart)
    if not len(moved.activity) and not len(held.activity):
        raise _nothing_copied("turnbuckle model memory knows moved pages")
    devices = 1 + max(int(moved.device.max(initial=-1)), int(held.device.max(initial=-1)))
    owners = (
        profile.tracks.filter(profile.tracks["device"].is_not_null())
        .select("process", "device")
        .unique()
    )
    sharers = 1 if apart else max(owners["device"].value_counts()["count"].to_list(), default=1)
    beyond = profile.seconds - float(graph.time_ns.max()) * 1e-9
    rate, link_from = _link(run, moved)
    return Sharer(
        profile.seconds,
        beyond,
        graph,
        moved,
        held,
        devices,
        rate,
        link_from,
        initiation(graph),
        units,
        sharers,
    )


def _nothing_copied(fix: str) -> TurnbuckleError:
    return error_of("A165", fix=fix)


def _link(run: Run, moved: Copies) -> tuple[float, str]:
    """Return the bandwidth that a copy reaches on the recorded link [B/s], and its source in words.

    A run that copies from pageable memory, or in small pieces, does not show its link; the
    machine's bandwidth is used then.
    """
    fastest, source = float(moved.rate.max(initial=1.0)), run.source
    bandwidths = [
        float(v) for d in HOST_WAYS if (v := link_bandwidth(source, d, source)) is not None
    ]
    if not bandwidths or max(bandwidths) <= fastest:
        return fastest, "the fastest recorded copy's rate"
    assumed = any(
        (p := source.get(link_parameter(d, "bandwidth"))) is not None and p.nature == "assumption"
        for d in HOST_WAYS
    )
    return max(
        bandwidths
    ), "assumed for the recorded machine" if assumed else "of the recorded machine"


@dataclass(frozen=True, repr=False)
class Sharing(Shown):
    """How runs share a link.

    Attributes
    ----------
    run : the recorded run.
    bandwidth : of the shared link, one way [B/s]; `stated` whether it was given or is the recorded
        link's.
    speed, gain : of the larger GPU, see `Sharer.together`; a speed holds for every form.
    cores : host cores that all runs have between them; 0: as many as they ask for.
    rows : of each form, by number of runs.
    least : the rows of larger GPUs again where kernels gain the least that is known, see
        `Sharer.gained`; none unless they gain the most.
    """

    question: ClassVar[str] = "sharing"

    run: Sharer
    bandwidth: float
    stated: bool
    hop_seconds: float
    speed: float
    gain: Gain
    rows: tuple[Shared, ...]
    least: tuple[Shared, ...] = ()
    cores: int = 0

    @property
    def forms(self) -> tuple[Form, ...]:
        """Return the forms that were asked."""
        return tuple(f for f in FORMS if any(r.form == f for r in self.rows))

    @property
    def fit(self) -> int | None:
        """Return the most runs that each stay within `FITS` of the recorded run time.

        None if not even one does, or if loose was not asked.
        """
        fitting = [r.runs for r in self.rows if r.form == "loose" and r.penalty <= 1.0 + FITS]
        return max(fitting) if fitting else None

    def benefit(self, runs: int, form: Form) -> float | None:
        """Return the work rate of one larger GPU over that of as many small ones behind one link;
        None where one was not asked.
        """
        gains = {r.form: r.gain for r in self.rows if r.runs == runs}
        return gains[form] / gains["loose"] if form in gains and "loose" in gains else None

    def slowest(self, form: Form, runs: int) -> float | None:
        """Return the run time over the recorded one if kernels gain the least that is known; None
        where that was not replayed.
        """
        return next((r.penalty for r in self.least if (r.form, r.runs) == (form, runs)), None)

    @property
    def to_device_bytes(self) -> float:
        """Return the bytes that one run copies to its devices [B]."""
        return float(self.run.moved.size_bytes[self.run.moved.to_device].sum())

    @property
    def to_host_bytes(self) -> float:
        """Return the bytes that one run copies to its host [B]."""
        return float(self.run.moved.size_bytes.sum()) - self.to_device_bytes

    def table(self) -> pl.DataFrame:
        """Return a row for each form and number of runs.

        Columns: ``form``, ``runs``, ``seconds``, ``penalty``, ``gain`` and how busy the link is.
        """
        return pl.DataFrame([r.__dict__ for r in self.rows])

    def headline(self) -> str:
        """Return the answer in one line."""
        return f"Sharing: runs of {show(self.run.measured, 's')}, {', '.join(self.forms)}"

    def listed(self) -> list[dict[str, Any]]:
        """Return the rows with what a larger GPU is worth beside small ones, and the penalty where
        kernels gain the least.
        """
        return [
            {
                **row.__dict__,
                "benefit": None if row.form == "loose" else self.benefit(row.runs, row.form),
                "penalty_least_gain": self.slowest(row.form, row.runs),
            }
            for row in self.rows
        ]


def sharing(
    run: Sharer,
    runs: Sequence[int] = (1, 2, 4, 8),
    forms: Sequence[Form] = ("loose",),
    *,
    bandwidth: float | None = None,
    hop_seconds: float = 0.0,
    speed: float = 1.0,
    gain: Gain = "blocks",
    cores: int = 0,
) -> Sharing:
    """Replay a run several times over at once behind one host link.

    Parameters
    ----------
    run : what `ready` gave.
    runs : how many at once; each is replayed, and (loose) what it takes to find out how many fit.
    bandwidth : of the link, one way [B/s]; None takes the recorded link's.
    hop_seconds : added to each copy [s].
    speed, gain, cores : see `Sharer.together`.

    Raises
    ------
    CannotAnswer : A166, too large; A172, a larger GPU for a run without kernels.
    UsageError : A075, a number of runs that is none; A096, a bandwidth or latency that cannot be;
        A097, a speed that cannot be.
    """
    counted(runs)
    require_work(run, forms, speed)
    size = max(run.processes(form, max(runs), cores) for form in forms)
    if size > MOST_PROCESSES:
        raise error_of(
            "A166.most", found=f"{size:,}", most=max(MOST_PROCESSES // (size // max(runs)), 1)
        )
    rate = run.recorded_bandwidth if bandwidth is None else link_rate(bandwidth)
    hop_seconds = delay(hop_seconds)
    core_count(cores)

    def together(form: Form, count: int, gained: Gain = gain) -> Shared:
        return run.together(
            form,
            count,
            bandwidth=rate,
            hop_seconds=hop_seconds,
            speed=speed,
            gain=gained,
            cores=cores,
        )

    rows: list[Shared] = []
    for form in (f for f in FORMS if f in forms):
        by_count = {count: together(form, count) for count in sorted(set(runs))}
        if form == "loose":
            # bisect between the most runs that fit and the fewest that do not
            few = max((r.runs for r in by_count.values() if r.penalty <= 1.0 + FITS), default=0)
            many = min((r.runs for r in by_count.values() if r.runs > few), default=few + 1)
            while many - few > 1:
                middle = (few + many) // 2
                by_count[middle] = together(form, middle)
                few, many = (
                    (middle, many) if by_count[middle].penalty <= 1.0 + FITS else (few, middle)
                )
        rows += [by_count[count] for count in sorted(by_count)]
    least = (
        [together(r.form, r.runs, "rounds") for r in rows if r.form in ("tight", "pooled")]
        if gain == "blocks" and run.blocks_known
        else []
    )
    return Sharing(
        run, rate, bandwidth is not None, hop_seconds, speed, gain, tuple(rows), tuple(least), cores
    )


def core_count(cores: int) -> int:
    """Return a valid number of cores, 0 for as many as are asked for; refuse others (A075)."""
    if not 0 <= cores <= MOST_CORES:
        raise error_of("A075.cores", found=str(cores)[:60], most_cores=MOST_CORES)
    return cores


def counted(runs: Sequence[int]) -> None:
    """Refuse numbers of runs below one (A075)."""
    if not runs or min(runs) < 1 or max(runs) > MOST:
        raise error_of("A075.runs", found=str(list(runs))[:60], most=MOST)


def require_work(run: Sharer, forms: Sequence[Form], speed: float = 1.0) -> None:
    """Refuse another GPU for a run without kernels (A172), an impossible speed (A097), and a link
    without copies (A165).
    """
    if not (math.isfinite(speed) and 1e-6 <= speed <= 1e6):
        raise error_of("A097.speed", found=f"{speed:g}")
    if set(forms) - {"loose"} and not len(run.kernels.activity):
        raise error_of("A172")
    if "loose" in forms and not len(run.moved.activity):
        raise _nothing_copied(
            "--form shared asks about the GPU; turnbuckle model memory knows moved pages"
        )


def link_rate(bandwidth: float) -> float:
    """Return a valid bandwidth of a link [B/s]; refuse others (A096)."""
    if not (math.isfinite(bandwidth) and 1.0 <= bandwidth <= 1e15):
        raise error_of("A096.bandwidth", found=f"{bandwidth:g} B/s")
    return bandwidth


def delay(seconds: float) -> float:
    """Return a valid latency [s]; refuse others (A096)."""
    if not (math.isfinite(seconds) and 0.0 <= seconds <= LONGEST):
        raise error_of("A096.latency", found=f"{seconds:g} s")
    return seconds


def of_run(run: Run, runs: Sequence[int], forms: Sequence[Form], **settings: Any) -> Sharing:
    """Replay a run several times over at once."""
    return sharing(ready(run), runs, forms, **settings)
