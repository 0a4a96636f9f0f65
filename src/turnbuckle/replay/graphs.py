"""A recorded run as a program for the contention replay, once or several times over, with its copies on a link that they share.

Every activity is a process: it awaits what its begin waits for, works as long as it did, awaits what its end waits for, and
tells those who wait for it.  All edges of the recorded graph are messages with a fixed delay, and what no rule explains stays a
delay of its own, so that alone on its link a run takes exactly what the timeline replay says (a law).

A copy between host and device becomes a flow over the host's link and the device's own, at the rate it was recorded at and no faster.
What else copies at the same time on the same link takes its share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.profile.dependencies import EDGE, Graph
from turnbuckle.profile.profile import Profile
from turnbuckle.replay.contention import Leaves, Op, Program

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

#: Within an activity: what its begin waits for, what is told then, its work, what its end waits for, what is told then.
_BEGIN, _TOLD, _WORK, _END, _LAST = range(5)
_MOVES: Final = {"copy_h2d": True, "copy_d2h": False}


@dataclass(frozen=True)
class Copies:
    """Copies between host and device of a graph.

    Attributes
    ----------
    activity : index into `Graph.activity`.
    to_device : direction.
    size_bytes : of each [B].
    seconds : as recorded [s].
    device : which device of the run, counted from 0.
    """

    activity: Int
    to_device: Bool
    size_bytes: Float
    seconds: Float
    device: Int

    @property
    def rate(self) -> Float:
        """Bytes over time [B/s]."""
        return self.size_bytes / self.seconds


def copies(profile: Profile, graph: Graph) -> Copies:
    """Copies of a profile that take time and carry something."""
    rows = profile.activities.select("kind", "track", "size_bytes", "start_ns", "end_ns")[graph.activity]
    places = profile.tracks.select("track", "process", "device")
    rows = rows.with_row_index("i").join(places, on="track", how="left", maintain_order="left")
    kind = pl.col("kind").cast(pl.String)
    mine = rows.filter(kind.is_in(list(_MOVES)), pl.col("size_bytes") > 0, pl.col("end_ns") > pl.col("start_ns"))
    order = {place: n for n, place in enumerate(mine.select("process", "device").unique(maintain_order=True).rows())}
    device = np.array([order[place] for place in mine.select("process", "device").rows()], dtype=np.int64)
    return Copies(
        mine["i"].to_numpy().astype(np.int64),
        (mine["kind"].cast(pl.String) == "copy_h2d").to_numpy(),
        mine["size_bytes"].to_numpy().astype(np.float64),
        (mine["end_ns"] - mine["start_ns"]).to_numpy() * 1e-9,
        device,
    )


def behind_one_link(graph: Graph, moved: Copies, times: int = 1, *, kernel: float = 1.0, kernels: Bool | None = None) -> Program:
    """A recorded run, `times` over at once, all copies on one host's link.

    Host 0 of the network is the host; every device of every run has a host of its own on it.

    Parameters
    ----------
    graph, moved : of one profile.
    times : how many runs.
    kernel : times the recorded length of the activities that are `kernels`.
    kernels : shape (activities,).
    """
    count = len(graph.activity)
    one = _once(graph, moved, kernel, np.zeros(count, dtype=np.bool_) if kernels is None else kernels)
    devices = int(moved.device.max(initial=-1)) + 1
    processes, messages, works = len(one.host), len(one.source), len(one.work_seconds)
    run = np.arange(times)
    is_message = np.isin(one.code, [Op.SEND, Op.POST, Op.AWAIT, Op.SENT])
    arg = one.arg[None, :] + np.where(is_message, messages, np.where(one.code == Op.WORK, works, 0))[None, :] * run[:, None]
    first = (one.first[None, :-1] + len(one.code) * run[:, None]).reshape(-1)
    host = np.where(one.host[None, :] > 0, one.host[None, :] + devices * run[:, None], 0)
    ends = [(side[None, :] + processes * run[:, None]).reshape(-1) for side in (one.source, one.target)]
    nothing = np.zeros(0, dtype=np.int64)
    return Program(
        np.append(first, len(one.code) * times), np.tile(one.code, times), arg.reshape(-1).astype(np.int64),
        np.tile(one.work_seconds, times), nothing,
        nothing.astype(np.float64), nothing, host.reshape(-1), ends[0], ends[1], np.tile(one.size_bytes, times), np.tile(one.leaves, times),
        np.tile(one.rate_limit, times),
    )  # fmt: skip


def _once(graph: Graph, moved: Copies, kernel: float, kernels: Bool) -> Program:
    """One run; process i is activity i, the last but the copies' own is the run's start."""
    count = len(graph.activity)
    start, hosts = count, count + 1
    within = (graph.source > 0) & ((graph.source - 1) // 2 == (graph.target - 1) // 2)
    flown = np.zeros(count, dtype=np.bool_)
    flown[moved.activity] = True
    # the edge that is a copy's own work becomes the flow
    work = within & np.isin(graph.kind, [EDGE["run"], EDGE["call"]])
    length = np.zeros(count)
    owner = (graph.target[work] - 1) // 2
    length[owner] = graph.lag_ns[work] * 1e-9
    length[kernels] *= kernel
    length[flown] = 0.0
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
    begins, told = target % 2 == 1, (source == 0) | (source % 2 == 1)
    lists.append((process_of(target), np.where(begins, _BEGIN, _END), 0, Op.AWAIT, number))
    lists.append((process_of(source), np.where(told, _TOLD, _LAST), 0, Op.SEND, number))
    unexplained = np.asarray(graph.residual_ns * 1e-9, dtype=np.float64)
    wait(every, _BEGIN, 1, unexplained[1::2])
    wait(every, _WORK, 0, length)
    wait(every, _END, 1, unexplained[2::2])
    # a copy asks the other side, and what is moved comes back as a flow
    k = len(moved.activity)
    asks, flows, other = edges + np.arange(k), edges + k + np.arange(k), hosts + np.arange(k)
    mine = moved.activity
    lists += [
        (mine, _WORK, 0, Op.SEND, asks),
        (other, _BEGIN, 0, Op.AWAIT, asks),
        (np.where(moved.to_device, other, mine), np.where(moved.to_device, _TOLD, _WORK), 1, Op.SEND, flows),
        (np.where(moved.to_device, mine, other), np.where(moved.to_device, _WORK, _TOLD), 2, Op.AWAIT, flows),
    ]
    back = ~moved.to_device
    lists += [(other[back], _TOLD, 0, Op.POST, flows[back]), (mine[back], _WORK, 2, Op.SENT, flows[back])]
    keys = [np.concatenate([np.broadcast_to(np.asarray(one[c]), one[0].shape) for one in lists]) for c in range(3)]
    code = np.concatenate([np.full(len(one[0]), int(one[3]), dtype=np.uint8) for one in lists])
    arg = np.concatenate([one[4] for one in lists])
    order = np.lexsort((keys[2], keys[1], keys[0]))
    processes = hosts + k
    host = np.zeros(processes, dtype=np.int64)
    host[mine] = 1 + moved.device
    both = np.stack([mine, other])
    sends = np.where(moved.to_device, both[1], both[0]), np.where(moved.to_device, both[0], both[1])
    return Program(
        np.searchsorted(keys[0][order], np.arange(processes + 1)), code[order], arg[order], np.concatenate(work_seconds),
        np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64), host, np.concatenate([process_of(source), mine, sends[0]]),
        np.concatenate([process_of(target), other, sends[1]]), np.concatenate([lag, np.zeros(k), moved.size_bytes]),
        np.concatenate([np.full(edges + k, Leaves.EDGE), np.where(moved.to_device, Leaves.EAGER, Leaves.READY)]).astype(np.uint8),
        np.concatenate([np.full(edges + k, np.finfo(np.float64).max / 1e13), moved.rate]),
    )  # fmt: skip
