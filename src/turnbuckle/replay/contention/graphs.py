"""Program for the contention replay from one or several copies of a recorded run, with the links
and GPUs that they share.

Every activity is a process.  It awaits the predecessors of its begin, works for the recorded
duration, awaits the predecessors of its end, and sends messages to its successors.  All edges of
the recorded graph are messages with a fixed delay, and time that no rule explains stays as a delay,
so that a run alone on its link takes exactly as long as in the timeline replay (a law).

A copy between host and device becomes a flow over the host's link and the device's link, at most at
its recorded rate.  Concurrent copies on the same link share its bandwidth.  Where several runs
share one GPU, a kernel is a flow too: over a link that stands for the GPU's multiprocessors, at
most at the share of them that the kernel can use.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Bool, Float, Int
from turnbuckle.profile.dependencies.graph import EDGE, Graph
from turnbuckle.profile.profile import Profile
from turnbuckle.replay.contention.contention import Leaves, Op, Program

#: Within an activity: what its begin waits for, what is told then, its work, what its end waits
#: for, what is told then.
_BEGIN, _TOLD, _WORK, _END, _LAST = range(5)
_MOVES: Final = {"copy_h2d": True, "copy_d2h": False}
_UNKNOWN: Final = -1


@dataclass(frozen=True)
class Copies:
    """Copies between host and device of a graph.

    Attributes
    ----------
    activity : index of each copy in `Graph.activity`.
    to_device : mask of the copies to the device.
    size_bytes : size of each copy [B].
    seconds : recorded duration of each copy [s].
    device : device of each copy, counted from 0.
    """

    activity: Int
    to_device: Bool
    size_bytes: Float
    seconds: Float
    device: Int

    @property
    def rate(self) -> Float:
        """Return the recorded rate of each copy [B/s]."""
        return self.size_bytes / self.seconds

    def on_link(self, bandwidth: float, recorded: float, with_own_cost: bool = True) -> Copies:
        """Return the same copies on a link of another bandwidth; each copy's cost beyond its link
        stays.

        Parameters
        ----------
        bandwidth : bandwidth of the link [B/s].
        recorded : bandwidth of the link of the recording [B/s].
        with_own_cost : False drops the cost beyond the link: a copy then takes its bytes over the
            bandwidth.

        >>> import numpy as np
        >>> one = Copies(np.array([0]), np.array([True]), np.array([1e6]), np.array([1e-4]), np.array([0]))
        >>> [round(float(one.on_link(at, 25e9, own).seconds[0]) * 1e6, 6) for at, own in ((25e9, True), (12.5e9, True), (12.5e9, False))]
        [100.0, 140.0, 80.0]
        """
        if bandwidth == recorded and with_own_cost:
            return self
        beyond = (
            np.maximum(self.seconds - self.size_bytes / recorded, 0.0) if with_own_cost else 0.0
        )
        return replace(self, seconds=beyond + self.size_bytes / bandwidth)


@dataclass(frozen=True)
class Kernels:
    """Kernels of a graph that take time.

    Attributes
    ----------
    activity : index of each kernel in `Graph.activity`.
    device : device of each kernel, counted from 0.
    seconds : recorded duration of each kernel [s].
    blocks, threads, registers : thread blocks, threads per block, registers per thread; 0 where
        they are not recorded.
    units : multiprocessors of the kernel's device; 0 where they are not recorded.
    at_once : largest number of kernels on the device at any time while the kernel ran, itself
        included.
    """

    activity: Int
    device: Int
    seconds: Float
    blocks: Int
    threads: Int
    registers: Int
    units: Int
    at_once: Int


#: Places of host work before it is known how many other hosts there are.
CORES: Final = (-1, -2)


@dataclass(frozen=True)
class Pool:
    """GPUs that all runs share: one of each number, in place of one for each run.

    Attributes
    ----------
    kernels : kernels of one run.
    share : share of the recorded GPU that each kernel held, shape (kernels,).
    most : largest speed-up of each kernel, shape (kernels,).
    size : speed of the GPU over that of the recorded one.
    devices : least number of GPUs.
    """

    kernels: Kernels
    share: Float
    most: Float
    size: float
    devices: int = 0


@dataclass(frozen=True)
class _Flows:
    """Flows over the network: activity, whether it receives, hosts of both sides, size [B], highest
    rate [B/s], the copy engine that it keeps meanwhile (-1: none), and a delay before the first
    byte [s].
    """

    activity: Int
    comes: Bool
    near: Int
    far: Int
    size: Float
    limit: Float
    engine: Int
    after: float = 0.0


def numbered(profile: Profile, graph: Graph, *, apart: bool = False) -> tuple[Int, list[int]]:
    """Return the device of each activity of a graph, counted from 0 (-1 for none), and the devices'
    recorded numbers.

    Parameters
    ----------
    apart : whether equal numbers in two processes mean two devices, because each process numbered
        the devices that it saw from 0.
    """
    rows = profile.activities.select("track", "kind")[graph.activity]
    places = profile.tracks.select("track", "process", "device")
    placed = rows.join(places, on="track", how="left", maintain_order="left")
    device = placed["device"].cast(pl.Int64).fill_null(_UNKNOWN).to_numpy()
    # a copy whose device was not recorded was still made by one
    works = (device != _UNKNOWN) | placed["kind"].cast(pl.String).is_in(
        [*_MOVES, "kernel"]
    ).to_numpy()
    process = (
        placed["process"].cast(pl.Int64).fill_null(_UNKNOWN).to_numpy()
        if apart
        else np.zeros_like(device)
    )
    keys, number = np.unique(
        np.stack([process[works], device[works]], axis=1), axis=0, return_inverse=True
    )
    device_index = np.full(len(device), -1, dtype=np.int64)
    device_index[works] = number.reshape(-1)
    return device_index, [int(k[1]) for k in keys]


def copies(profile: Profile, graph: Graph, *, apart: bool = False) -> Copies:
    """Return the copies between host and device that take time and carry bytes, in the order of
    `graph.activity`.

    Copies from device to device are left out.

    Parameters
    ----------
    graph : graph of the profile.
    apart : whether equal device numbers in two processes mean two devices, as in `numbered`.
    """
    rows = profile.activities.select("kind", "size_bytes", "start_ns", "end_ns")[
        graph.activity
    ].with_row_index("i")
    kind = pl.col("kind").cast(pl.String)
    moves = rows.filter(
        kind.is_in(list(_MOVES)), pl.col("size_bytes") > 0, pl.col("end_ns") > pl.col("start_ns")
    )
    activity = moves["i"].to_numpy().astype(np.int64)
    return Copies(
        activity,
        (moves["kind"].cast(pl.String) == "copy_h2d").to_numpy(),
        moves["size_bytes"].to_numpy().astype(np.float64),
        (moves["end_ns"] - moves["start_ns"]).to_numpy() * 1e-9,
        numbered(profile, graph, apart=apart)[0][activity],
    )


def kernels(profile: Profile, graph: Graph, *, apart: bool = False) -> Kernels:
    """Return the kernels of a profile that take time; `apart` as in `numbered`."""
    rows = profile.activities.select("kind", "row", "start_ns", "end_ns")[
        graph.activity
    ].with_row_index("i")
    kernel_rows = rows.filter(
        pl.col("kind").cast(pl.String) == "kernel", pl.col("end_ns") > pl.col("start_ns")
    )
    activity = kernel_rows["i"].to_numpy().astype(np.int64)
    place, numbers = numbered(profile, graph, apart=apart)
    start, end = kernel_rows["start_ns"].to_numpy(), kernel_rows["end_ns"].to_numpy()
    trace = profile.trace
    shape = {
        name: np.zeros(len(activity), dtype=np.int64) for name in ("blocks", "threads", "registers")
    }
    table = trace.kernels
    if table.height:
        # a CUDA graph that was recorded whole is a kernel too, with a row in a table of its own
        row = np.clip(kernel_rows["row"].fill_null(-1).to_numpy(), 0, table.height - 1)
        same = (table["start_ns"].to_numpy()[row] == start) & (
            table["end_ns"].to_numpy()[row] == end
        )
        shape = {
            name: np.where(same, table[name].fill_null(0).to_numpy()[row], 0).astype(np.int64)
            for name in shape
        }
    stated = (
        dict(trace.devices.select("device", "multiprocessors").drop_nulls().iter_rows())
        if trace.devices.height
        else {}
    )
    units = np.array([int(stated.get(n, 0)) for n in numbers], dtype=np.int64)
    device = place[activity]
    at_once = np.ones(len(activity), dtype=np.int64)
    for number in np.unique(device):
        on_device = device == number
        at_once[on_device] = _most_at_once(start[on_device], end[on_device])
    seconds = (end - start) * 1e-9
    return Kernels(
        activity,
        device,
        seconds,
        **shape,
        units=units[device] if len(units) else np.zeros(0, np.int64),
        at_once=at_once,
    )


def engines(moved: Copies, graph: Graph) -> Int:
    """Return the number of copy engines, shape (devices, 2), those to the device first: one, or as
    many as copies ran at once.
    """
    devices = int(moved.device.max(initial=-1)) + 1
    counts = np.ones((devices, 2), dtype=np.int64)
    start, end = graph.time_ns[2 * moved.activity + 1], graph.time_ns[2 * moved.activity + 2]
    for device in range(devices):
        for inward in (True, False):
            mask = (moved.device == device) & (moved.to_device == inward)
            if mask.any():
                counts[device, int(not inward)] = _most_at_once(start[mask], end[mask]).max()
    return counts


def _most_at_once(start: Int, end: Int) -> Int:
    """Return for each non-empty interval the most intervals that overlap at any time within it,
    itself included.
    """
    times = np.concatenate([start, end])
    change = np.concatenate([np.ones(len(start), np.int64), -np.ones(len(end), np.int64)])
    order = np.lexsort((change, times))
    level, sorted_times = np.cumsum(change[order]), times[order]
    # after the last change at a time the level holds until the next
    kept = np.append(sorted_times[1:] != sorted_times[:-1], True)
    instants, level = sorted_times[kept], np.append(level[kept], 0)
    pairs = np.stack(
        [np.searchsorted(instants, start), np.searchsorted(instants, end)], axis=1
    ).reshape(-1)
    most: Int = np.maximum.reduceat(level, pairs)[::2]
    return most


def initiation(graph: Graph) -> float:
    """Return the median time from a call to the device work it starts, where the work waits for
    nothing else [s]; 0 where none is known.
    """
    lags = graph.lag_ns[graph.kind == EDGE["deliver"]]
    return float(np.median(lags)) * 1e-9 if len(lags) else 0.0


def initiated(graph: Graph, seconds: float, *, recorded: float | None = None) -> Graph:
    """Return the same run with another delay from each call to its device work.

    Parameters
    ----------
    seconds : initiation latency [s].
    recorded : initiation latency of the recording [s]: each delivery changes by the difference, but
        not below 0.  None gives all deliveries the same length.
    """
    mask = graph.kind == EDGE["deliver"]
    delay = round(seconds * 1e9)
    lag = (
        np.full(int(mask.sum()), delay)
        if recorded is None
        else np.maximum(graph.lag_ns[mask] + delay - round(recorded * 1e9), 0)
    )
    lags = graph.lag_ns.copy()
    lags[mask] = lag
    return replace(graph, lag_ns=lags)


def behind_one_link(
    graph: Graph,
    moved: Copies,
    times: int = 1,
    *,
    kernel: Float | float = 1.0,
    kernels: Bool | Int | None = None,
    engines: Int | None = None,
    pool: Pool | None = None,
    after: float = 0.0,
    full: float = 1.0,
    cores: int = 0,
) -> Program:
    """Build the program of `times` copies of a recorded run that share one host's link.

    Host 0 of the network is the shared host, and every device of every run is one further host.
    With a `pool` all runs share the host of a device, and the work of its kernels flows between two
    more: device d of D has the hosts 1 + d, 1 + D + d and 1 + 2 D + d.

    Parameters
    ----------
    graph, moved : of one profile.
    times : number of runs.
    kernel : factor on the recorded duration of the activities that are `kernels`: one number, or
        one for each.
    kernels : those activities: a mask of shape (activities,), or their indices.
    engines : number of copies that each device makes at once, by direction, shape (devices, 2);
        others wait, first come, first served. None lets all copies begin at once.
    pool : GPUs that all runs share.
    after : delay before a copy's first byte [s].
    full : bandwidth of every link of the network on which a pool or cores are replayed [B/s]; it
        stands for the whole GPU of the pool, and for all cores.
    cores : number of cores that all runs share for their calls and their own work, at most one for
        each thread; 0 for no limit.  Two more hosts stand for the cores, `CORES`; see `placed`.
    """
    graph = with_gaps(graph) if cores else graph
    count = len(graph.activity)
    devices = int(moved.device.max(initial=-1)) + 1
    zero = np.zeros(len(moved.activity), dtype=np.int64)
    engine = (
        np.full(len(zero), -1)
        if engines is None
        else 2 * moved.device + np.where(moved.to_device, 0, 1)
    )
    flows = [
        _Flows(
            moved.activity,
            moved.to_device,
            1 + moved.device,
            zero,
            moved.size_bytes,
            moved.rate,
            engine,
            after,
        )
    ]
    if pool is not None:
        held = pool.kernels
        devices = max(devices, int(held.device.max(initial=-1)) + 1, pool.devices)
        # work is counted in whole parts, and a kernel of few of them still takes its time
        size = np.maximum(np.round(held.seconds * pool.share / pool.size * full), 1.0)
        near, far = 1 + 2 * devices + held.device, 1 + devices + held.device
        none = np.full(len(near), -1)
        flows.append(
            _Flows(
                held.activity,
                np.ones(len(near), np.bool_),
                near,
                far,
                size,
                size / held.seconds * pool.most,
                none,
            )
        )
    if cores:
        flows.append(_on_cores(graph, cores, full))
    single = _once(
        graph, flows, kernel, np.zeros(count, dtype=np.bool_) if kernels is None else kernels
    )
    processes, messages, works = len(single.host), len(single.source), len(single.work_seconds)
    run = np.arange(times)
    is_message = np.isin(single.code, [Op.SEND, Op.POST, Op.AWAIT, Op.SENT])
    capacity = np.ones(0, dtype=np.int64) if engines is None else engines.reshape(-1)
    sets = times if pool is None else 1
    resources = len(capacity) if sets > 1 else 0
    step = np.select(
        [is_message, single.code == Op.WORK, single.code >= Op.TAKE], [messages, works, resources]
    )
    arg = single.arg[None, :] + step[None, :] * run[:, None]
    first = (single.first[None, :-1] + len(single.code) * run[:, None]).reshape(-1)
    stride = devices if pool is None else 0
    host = np.where(
        single.host[None, :] > 0, single.host[None, :] + stride * run[:, None], single.host[None, :]
    )
    ends = [
        (side[None, :] + processes * run[:, None]).reshape(-1)
        for side in (single.source, single.target)
    ]
    capacities = np.tile(capacity, sets)
    first, code = np.append(first, len(single.code) * times), np.tile(single.code, times)
    work, size = np.tile(single.work_seconds, times), np.tile(single.size_bytes, times)
    leaves, limits = np.tile(single.leaves, times), np.tile(single.rate_limit, times)
    uses, none, args = (
        np.arange(len(capacities)),
        np.zeros(len(capacities)),
        arg.reshape(-1).astype(np.int64),
    )
    return Program(
        first,
        code,
        args,
        work,
        uses,
        none,
        capacities,
        host.reshape(-1),
        ends[0],
        ends[1],
        size,
        leaves,
        limits,
    )


def with_gaps(graph: Graph) -> Graph:
    """Return the same graph with each thread's time between calls as activities, appended behind
    the others.
    """
    gap = np.flatnonzero((graph.kind == EDGE["host"]) & (graph.lag_ns > 0))
    number, none = len(graph.activity) + np.arange(len(gap)), np.zeros(len(gap), dtype=np.int64)
    first, last = 2 * number + 1, 2 * number + 2
    start, long = graph.time_ns[graph.source[gap]], graph.lag_ns[gap]
    source, lag = graph.source.copy(), graph.lag_ns.copy()
    source[gap], lag[gap] = last, 0
    times = np.stack([start, start + long], axis=1).reshape(-1)
    kinds = np.concatenate(
        [graph.kind, np.full(len(gap), EDGE["host"]), np.full(len(gap), EDGE["call"])]
    ).astype(np.int8)
    longer = {
        "time_ns": times,
        "activity": none - 1,
        **dict.fromkeys(("residual_ns", "clipped_ns"), np.zeros(len(times), dtype=np.int64)),
    }
    appended: dict[str, Any] = {
        name: np.append(getattr(graph, name), values) for name, values in longer.items()
    }
    sources = np.concatenate([source, graph.source[gap], first]).astype(graph.source.dtype)
    targets = np.concatenate([graph.target, first, last]).astype(graph.target.dtype)
    lags = np.concatenate([lag, none, long])
    return replace(
        graph, source=sources, target=targets, lag_ns=lags, kind=kinds, paid=None, **appended
    )


def _on_cores(graph: Graph, cores: int, full: float) -> _Flows:
    """Return the calls and the threads' own work as flows between the two hosts that stand for the
    cores.
    """
    within = (graph.source > 0) & ((graph.source - 1) // 2 == (graph.target - 1) // 2)
    work = within & (graph.kind == EDGE["call"]) & (graph.lag_ns > 0)
    activity, seconds = ((graph.target[work] - 1) // 2).astype(np.int64), graph.lag_ns[work] * 1e-9
    size, ones = (
        np.maximum(np.round(seconds / cores * full), 1.0),
        np.ones(len(activity), dtype=np.int64),
    )
    return _Flows(
        activity,
        ones.astype(np.bool_),
        CORES[0] * ones,
        CORES[1] * ones,
        size,
        size / seconds,
        -ones,
    )


def placed(program: Program, hosts: int) -> tuple[Program, int]:
    """Place a program's cores on the two hosts behind `hosts` others; return the program and the
    number of hosts.
    """
    host = np.asarray(program.host)
    if not len(host) or host.min() >= 0:
        return program, hosts
    return replace(program, host=np.where(host < 0, hosts - 1 - host, host)), hosts + 2


def beside(
    first: Program, second: Program, *, hosts: int = 0, engines_apart: bool = False
) -> Program:
    """Join two programs of `behind_one_link` that begin together on one network.

    Parameters
    ----------
    hosts : number of hosts of the first program besides host 0, after which the second program's
        hosts come; 0 puts both on the same hosts.
    engines_apart : whether each program has its own copy engines; otherwise device d of both is one
        device.
    """
    messages, works, uses, resources = (
        len(first.source),
        len(first.work_seconds),
        len(first.resource),
        len(first.capacity),
    )
    is_message = np.isin(second.code, [Op.SEND, Op.POST, Op.AWAIT, Op.SENT])
    step = np.select(
        [is_message, second.code == Op.WORK, second.code >= Op.TAKE], [messages, works, uses]
    )
    capacity = np.append(first.capacity, second.capacity)
    if not engines_apart:
        most = max(resources, len(second.capacity))
        capacity = np.maximum(
            *(np.pad(np.asarray(p.capacity), (0, most - len(p.capacity))) for p in (first, second))
        )
    pairs = {name: np.append(getattr(first, name), getattr(second, name)) for name in _SIDE_BY_SIDE}
    return Program(
        first=np.append(first.first[:-1], np.asarray(second.first) + len(first.code)),
        arg=np.append(first.arg, np.asarray(second.arg) + step),
        resource=np.append(
            first.resource, np.asarray(second.resource) + (resources if engines_apart else 0)
        ),
        capacity=capacity,
        host=np.append(
            first.host,
            np.where(np.asarray(second.host) > 0, np.asarray(second.host) + hosts, second.host),
        ),
        source=np.append(first.source, np.asarray(second.source) + first.processes),
        target=np.append(first.target, np.asarray(second.target) + first.processes),
        **pairs,
    )


#: What two programs beside each other have one after the other, as it is.
_SIDE_BY_SIDE = ("code", "work_seconds", "use_seconds", "size_bytes", "leaves", "rate_limit")


def _once(graph: Graph, flows: list[_Flows], kernel: Float | float, kernels: Bool | Int) -> Program:
    """Build the program of one run: process i is activity i, then comes the run's start, then the
    processes of flows.
    """
    count = len(graph.activity)
    start, hosts = count, count + 1
    within = (graph.source > 0) & ((graph.source - 1) // 2 == (graph.target - 1) // 2)
    activity, comes, near, far, size, limit, engine = (
        np.concatenate([getattr(f, n) for f in flows])
        for n in ("activity", "comes", "near", "far", "size", "limit", "engine")
    )
    after = np.concatenate([np.full(len(f.activity), f.after) for f in flows])
    # the edge that is a copy's own work becomes the flow
    work = within & np.isin(graph.kind, [EDGE["run"], EDGE["call"]])
    length = np.zeros(count)
    owner = (graph.target[work] - 1) // 2
    length[owner] = graph.lag_ns[work] * 1e-9
    length[kernels] *= kernel
    length[activity] = 0.0
    others = ~work
    source, target, lag = graph.source[others], graph.target[others], graph.lag_ns[others] * 1e-9
    edges = len(source)
    lists: list[tuple[Int, Int | int, Int | int, Op, Int]] = []
    work_seconds: list[Float] = []

    def wait(process: Int, phase: Int | int, order: int, seconds: Float) -> None:
        some = seconds > 0
        first = sum(len(w) for w in work_seconds)
        work_seconds.append(seconds[some])
        held = np.broadcast_to(np.asarray(phase), process.shape)[some]
        lists.append((process[some], held, order, Op.WORK, first + np.arange(int(some.sum()))))

    def process_of(instant: Int) -> Int:
        return np.where(instant == 0, start, (instant - 1) // 2)

    number, every = np.arange(edges), np.arange(count)
    begins, from_begin = target % 2 == 1, (source == 0) | (source % 2 == 1)
    lists.append((process_of(target), np.where(begins, _BEGIN, _END), 0, Op.AWAIT, number))
    lists.append((process_of(source), np.where(from_begin, _TOLD, _LAST), 0, Op.SEND, number))
    unexplained = np.asarray(graph.residual_ns * 1e-9, dtype=np.float64)
    wait(every, _BEGIN, 1, unexplained[1::2])
    wait(every, _WORK, 0, length)
    wait(every, _END, 1, unexplained[2::2])
    # a copy takes its engine and asks the other side, and what is moved comes back as a flow
    k = len(activity)
    asks, moves, other = edges + np.arange(k), edges + k + np.arange(k), hosts + np.arange(k)
    lists += [
        (activity, _WORK, 0, Op.SEND, asks),
        (other, _BEGIN, 0, Op.AWAIT, asks),
        (np.where(comes, other, activity), np.where(comes, _TOLD, _WORK), 1, Op.SEND, moves),
        (np.where(comes, activity, other), np.where(comes, _WORK, _TOLD), 2, Op.AWAIT, moves),
    ]
    back = ~comes
    lists += [
        (other[back], _TOLD, 0, Op.POST, moves[back]),
        (activity[back], _WORK, 2, Op.SENT, moves[back]),
    ]
    turn = engine >= 0
    lists += [
        (activity[turn], _WORK, -1, Op.TAKE, engine[turn]),
        (activity[turn], _WORK, 3, Op.GIVE, engine[turn]),
    ]
    keys = [
        np.concatenate([np.broadcast_to(np.asarray(part[c]), part[0].shape) for part in lists])
        for c in range(3)
    ]
    code = np.concatenate([np.full(len(part[0]), int(part[3]), dtype=np.uint8) for part in lists])
    arg = np.concatenate([part[4] for part in lists])
    order = np.lexsort((keys[2], keys[1], keys[0]))
    processes = hosts + k
    host = np.zeros(processes, dtype=np.int64)
    host[activity], host[other] = near, far
    edge_ends = np.stack([activity, other])
    sends = np.where(comes, edge_ends[1], edge_ends[0]), np.where(comes, edge_ends[0], edge_ends[1])
    first, nothing, none = (
        np.searchsorted(keys[0][order], np.arange(processes + 1)),
        np.zeros(0, np.int64),
        np.zeros(0),
    )
    work, sizes = np.concatenate(work_seconds), np.concatenate([lag, after, size])
    source_of, target_of = (
        np.concatenate([process_of(end), of_edge, send])
        for end, of_edge, send in ((source, activity, sends[0]), (target, other, sends[1]))
    )
    kinds = np.concatenate(
        [np.full(edges + k, Leaves.EDGE), np.where(comes, Leaves.EAGER, Leaves.READY)]
    ).astype(np.uint8)
    limits = np.concatenate([np.full(edges + k, np.finfo(np.float64).max / 1e13), limit])
    code, arg = code[order], arg[order]
    return Program(
        first,
        code,
        arg,
        work,
        nothing,
        none,
        nothing,
        host,
        source_of,
        target_of,
        sizes,
        kinds,
        limits,
    )
