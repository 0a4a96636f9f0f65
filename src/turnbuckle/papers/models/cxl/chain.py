"""Chain of accelerators, replayed: through the host, directly, through a shared cache, and each of
them pipelined.

A chain is a small declared task graph (Austin et al. 2021, ECP-HIHE01-35, section 10): stages on
devices, the bytes each stage receives from earlier ones, and a link between each pair of devices
that talk.  `turnbuckle.papers.models.cxl.chain_file` reads one.

Serial flows do one step of one item after the other, as host code that waits for everything.
Pipelined flows overlap items: each device, and each direction of a link, does one step at a time.
Where a device or link serves several stages, items pass it in waves.  In a cached flow, messages
over CXL links are not copied: the receiving kernel reads each one from the shared cache while it
runs.  Over ``cxl2`` lines are fetched ahead of their use: the message costs the access to one line,
and the kernel ends no earlier than its data could have arrived.  Over ``cxl1`` the kernel waits for
every line.

Errors: A029, A147.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, NamedTuple

import numpy as np

from turnbuckle.cost import packet
from turnbuckle.cost.loggp import loggp_seconds
from turnbuckle.foundation.errors import did_you_mean, error_of
from turnbuckle.foundation.fields import SCHEMA_VERSION, Declared
from turnbuckle.foundation.findings import Finding, finding, merge
from turnbuckle.foundation.units import show
from turnbuckle.papers.models.cxl.cost import LEAST_SHARE, LINE_SECONDS, START_UP, cxl_line_seconds
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary import summary
from turnbuckle.replay.tasks import Tasks, replay_tasks
from turnbuckle.trace.intervals import union_ns
from turnbuckle.trace.recorders import what_to_record

HOST: Final = "host"
Kind = Literal["pcie", "cxl1", "cxl2", "time", "loggp"]
Through = Literal["host", "direct", "cached"]
#: Largest number of steps of all items in one replay.
MOST_TASKS: Final = 4_000_000

#: Keys of a link with their units (none: text), and the keys that each kind of link uses.
_COUNTS: Final = dict.fromkeys(("share", "lines_in_flight"), "1")
_TIMES: Final = dict.fromkeys(("start_up", "line_time", "time", "latency"), "s")
LINK_KEYS: Final[dict[str, str]] = {"pcie": "", **_COUNTS, **_TIMES, "bandwidth": "B/s"}
KINDS: Final[dict[Kind, tuple[str, ...]]] = {
    "pcie": ("pcie", "start_up"),
    "cxl1": ("pcie", "line_time", "lines_in_flight"),
    "cxl2": ("pcie", "share", "line_time"),
    "time": ("time",),
    "loggp": ("latency", "bandwidth"),
}


@dataclass(frozen=True)
class Link(Declared):
    """Link between two devices, and the time of a message over it."""

    kind: Kind
    pcie: str = (
        "pcie3-x16"  #: wire below ``pcie``, ``cxl1`` and ``cxl2``, with both directions busy
    )
    #: start_up, share, line_time, lines_in_flight: parameters of the equations, see
    #: `turnbuckle.papers.models.cxl.cost`
    start_up: float = START_UP
    share: float = LEAST_SHARE
    line_time: float = LINE_SECONDS
    lines_in_flight: float = 1.0
    #: time, latency, bandwidth: measured values [s], [s], [B/s]
    time: float = 0.0
    latency: float = 0.0
    bandwidth: float = math.inf

    def seconds(self, size_bytes: float) -> float:
        """Return the time of one message [s]."""
        if self.kind == "time":
            return self.time
        size = np.asarray(size_bytes, dtype=np.float64)
        if self.kind == "loggp":
            return float(loggp_seconds(size, self.latency, self.bandwidth))
        bandwidth = packet.link(self.pcie).bandwidth(size_bytes, "both")
        if self.kind == "cxl1":
            return float(
                cxl_line_seconds(
                    size, self.line_time, lines_in_flight=self.lines_in_flight, bandwidth=bandwidth
                )
            )
        latency, share = (
            (self.start_up, 1.0) if self.kind == "pcie" else (self.line_time, self.share)
        )
        return float(loggp_seconds(size, latency, share * bandwidth))

    def lengthened(self, kernel_seconds: float, size_bytes: float) -> float:
        """Return the time of a kernel of `kernel_seconds` that reads a message from the shared
        cache while it runs [s].
        """
        if self.kind == "cxl1":
            return kernel_seconds + self.seconds(size_bytes)
        return max(kernel_seconds, self.seconds(size_bytes) - self.line_time) + self.line_time

    @property
    def caches(self) -> bool:
        """Return whether this is a CXL link."""
        return self.kind in ("cxl1", "cxl2")

    def parameters(self) -> dict[str, Any]:
        """Return the parameters by name; parameters that its kind does not use are None."""
        return {
            name: getattr(self, name) if name in KINDS[self.kind] else None for name in LINK_KEYS
        }


@dataclass(frozen=True)
class Stage:
    """Stage of a chain: its device, its time for one item [s] (None: from a recording), and the
    bytes it receives, by stage.
    """

    name: str
    device: str
    seconds: float | None
    receives: Mapping[str, float] | None = None

    @property
    def receives_bytes(self) -> Mapping[str, float]:
        """Return the bytes that the stage receives, by sending stage [B]; empty where they are
        unknown.
        """
        return self.receives or {}


@dataclass(frozen=True)
class Chain:
    """Declared chain of accelerators."""

    stages: tuple[Stage, ...]
    #: links by (from, to); a link declared in one direction serves both
    links: Mapping[tuple[str, str], Link]
    items: int | None = None  #: number of items that pass the chain; None: from a recording
    in_flight: int | None = (
        None  #: number of items under way at once when pipelined; None: as many as there are steps
    )
    start_up: float = 0.0  #: s of eq 12, spent once [s]
    name: str = ""
    findings: tuple[Finding, ...] = ()

    def link(self, sender: str, receiver: str) -> Link | None:
        """Return the link between two devices, or None."""
        return self.links.get((sender, receiver)) or self.links.get((receiver, sender))


@dataclass(frozen=True)
class Flow:
    """Flow of items through a chain, and its run time."""

    through: Through  #: path of messages between accelerators: ``host``, ``direct`` or ``cached``
    pipelined: bool
    seconds: float  #: run time [s]
    first_seconds: float  #: run time of one item alone [s]
    #: busiest, busy_seconds: device, or direction of a link, that is busy longest, and its busy
    #: time [s]
    busiest: str
    busy_seconds: float
    #: time on the critical path, by device and direction of link [s]
    path_seconds: Mapping[str, float]
    moved_seconds: float  #: sum of all copies of one item [s]

    @property
    def name(self) -> str:
        """Return the flow in words."""
        words = {"host": "through the host", "direct": "direct", "cached": "cached"}[self.through]
        return f"{words}, pipelined" if self.pipelined else words


@dataclass(frozen=True)
class Played(Declared):
    """Flows of a chain, serial and through the host first; `left_out` names flows whose link is not
    declared.
    """

    schema_version: ClassVar[int] = SCHEMA_VERSION

    chain: Chain
    flows: tuple[Flow, ...]
    left_out: tuple[str, ...]

    @property
    def today(self) -> Flow:
        """Return the serial flow through the host."""
        return self.flows[0]

    @property
    def penalty(self) -> float | None:
        """Return the disaggregation penalty (eq 13): today's run time over the time of all stages;
        None where all stages take 0 s.
        """
        stages = sum(s.seconds or 0.0 for s in self.chain.stages)
        return self.today.seconds / ((self.chain.items or 0) * stages) if stages else None

    def links(self) -> dict[str, Link]:
        """Return the links by the names of their devices."""
        return {f"{a}-{b}": link for (a, b), link in self.chain.links.items()}

    def compared(self) -> list[dict[str, Any]]:
        """Return the flows, each with its speed-up over today's and the share of its run time in
        which its busiest part is busy.
        """
        today = self.today.seconds
        timed = [(flow, flow.seconds or None) for flow in self.flows]
        return [
            {
                "flow": flow,
                "speedup": time and today / time,
                "busy": time and flow.busy_seconds / time,
            }
            for flow, time in timed
        ]


class _Step(NamedTuple):
    """Step of an item, and the indices of the steps that it waits for."""

    track: str
    seconds: float
    after: list[int]


def play(chain: Chain) -> Played:
    """Replay every flow of a chain.

    Raises A029 where two devices talk without a link, or a stage or the number of items is left to
    a recording.

    >>> stages = (Stage("unpack", "fpga", 2.0), Stage("sum", "gpu", 1.0, {"unpack": 1e6}))
    >>> slow = Link("time", time=0.5)
    >>> played = play(Chain(stages, {("fpga", "host"): slow, ("gpu", "host"): slow, ("fpga", "gpu"): slow}, items=10))
    >>> [(f.name, round(f.seconds, 3)) for f in played.flows[:3]]
    [('through the host', 40.0), ('through the host, pipelined', 22.0), ('direct', 35.0)]
    """
    if chain.items is None or any(s.seconds is None for s in chain.stages):
        stage = next((s.name for s in chain.stages if s.seconds is None), None)
        raise error_of("A029.items") if stage is None else error_of("A029.untimed", stage=stage)
    flows: list[Flow] = []
    left_out: list[str] = []
    ways: tuple[Through, ...] = ("host", "direct", "cached")
    for through in ways:
        lacking = _lacking(chain, through)
        if lacking and through == "host":
            ends = lacking.removeprefix("no link between ")
            raise error_of(
                "A029.link", where=chain.name, ends=ends, pair=ends.replace(" and ", "-")
            )
        if lacking:
            left_out.append(f"{through}: {lacking}")
            continue
        flows += [_flow(chain, through, pipelined) for pipelined in (False, True)]
    return Played(chain, tuple(flows), tuple(left_out))


def _messages(chain: Chain) -> list[tuple[int, int, float]]:
    """Return (from stage, to stage, bytes) of each non-empty message between different devices."""
    index = {s.name: i for i, s in enumerate(chain.stages)}
    return [
        (index[source], i, size)
        for i, stage in enumerate(chain.stages)
        for source, size in (stage.receives or {}).items()
        if size > 0 and chain.stages[index[source]].device != stage.device
    ]


def _hops(sender: str, receiver: str, through: Through) -> list[tuple[str, str]]:
    if through == "host" and HOST not in (sender, receiver):
        return [(sender, HOST), (HOST, receiver)]
    return [(sender, receiver)]


def _lacking(chain: Chain, through: Through) -> str:
    """Describe the links that a flow needs and the chain lacks; an empty string where none is
    missing.
    """
    messages = [(chain.stages[a].device, chain.stages[b].device) for a, b, _ in _messages(chain)]
    for sender, receiver in messages:
        for hop in _hops(sender, receiver, through):
            if chain.link(*hop) is None:
                return f"no link between {hop[0]} and {hop[1]}"
    if through == "cached" and not any(
        link is not None and link.caches for link in (chain.link(*m) for m in messages)
    ):
        return "no message goes over a CXL link"
    return ""


def _steps(chain: Chain, through: Through, *, serial: bool) -> list[_Step]:
    """Return the steps of one item, in order: each copy is a step on its direction of a link, each
    stage a step on its device.
    """
    steps: list[_Step] = []
    done: dict[str, int] = {}
    device = {s.name: s.device for s in chain.stages}

    def add(track: str, seconds: float, after: list[int]) -> int:
        steps.append(_Step(track, seconds, [len(steps) - 1] if serial and steps else after))
        return len(steps) - 1

    for i, stage in enumerate(chain.stages):
        stage_seconds = stage.seconds or 0.0
        after = [done[chain.stages[i - 1].name]] if i and not stage.receives else []
        for source, size in (stage.receives or {}).items():
            last = done[source]
            if size > 0 and device[source] != stage.device:
                direct = chain.link(device[source], stage.device)
                if through == "cached" and direct is not None and direct.caches:
                    stage_seconds = direct.lengthened(stage_seconds, size)
                else:
                    for sender, receiver in _hops(device[source], stage.device, through):
                        link = chain.link(sender, receiver)
                        assert link is not None  # `play` refuses chains without it
                        last = add(f"{sender} to {receiver}", link.seconds(size), [last])
            after.append(last)
        done[stage.name] = add(stage.device, stage_seconds, after)
    return steps


def _flow(chain: Chain, through: Through, pipelined: bool) -> Flow:
    items = chain.items or 0
    steps = _steps(chain, through, serial=not pipelined)
    count = len(steps)
    in_flight = min(chain.in_flight or count, count) if pipelined else 1
    if items * count > MOST_TASKS:
        raise error_of(
            "A029.steps", found=f"{items:,} items of {count} steps", most=MOST_TASKS // count
        )
    names = list(dict.fromkeys(step.track for step in steps))
    tasks, kind = _tasks(steps, items, in_flight, names)
    replayed = replay_tasks(tasks)
    busy = (
        np.bincount(kind, weights=tasks.seconds, minlength=len(names))
        if items
        else np.zeros(len(names))
    )
    on_path = np.bincount(
        kind[replayed.path], weights=tasks.seconds[replayed.path], minlength=len(names)
    )
    alone = replay_tasks(_tasks(steps, 1, 1, names)[0]).seconds
    devices = {s.device for s in chain.stages}
    top = int(busy.argmax())
    return Flow(
        through,
        pipelined,
        replayed.seconds + chain.start_up,
        alone,
        names[top],
        float(busy[top]),
        {n: float(s) for n, s in zip(names, on_path, strict=True) if s > 0},
        float(sum(step.seconds for step in steps if step.track not in devices)),
    )


def _tasks(
    steps: list[_Step], items: int, in_flight: int, names: list[str]
) -> tuple[Tasks, np.ndarray[Any, np.dtype[np.int64]]]:
    """Return all steps of all items as tasks, and the track of each task.

    Each track takes steps in waves: item i does step p in wave i w + p, with w = ceil(steps / in
    flight).  Each edge leads to a later wave, also the edge from the end of an item to the start of
    the item that takes its place.
    """
    count = len(steps)
    item, step = (a.ravel() for a in np.meshgrid(np.arange(items), np.arange(count), indexing="ij"))
    wave = item * math.ceil(count / in_flight) + step
    order = np.argsort(wave, kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    item_start = np.arange(items) * count
    ends = [(p, q, 0) for q, before in enumerate(s.after for s in steps) for p in before]
    followed = {p for s in steps for p in s.after}
    lasts, firsts = (
        [p for p in range(count) if p not in followed],
        [q for q in range(count) if not steps[q].after],
    )
    ends += [(p, q, in_flight) for p in lasts for q in firsts]
    source = [item_start[: max(items - later, 0)] + p for p, _, later in ends]
    target = [item_start[later:] + q for _, q, later in ends]
    track = np.array([names.index(s.track) for s in steps], dtype=np.int64)[step][order]
    seconds = np.array([s.seconds for s in steps])[step][order]
    sources, targets = (
        place[np.concatenate(x)] if x else np.zeros(0, dtype=np.int64) for x in (source, target)
    )
    return Tasks(seconds, track, sources, targets, np.zeros(len(sources))), track


def with_recording(
    chain: Chain,
    profile: Profile,
    *,
    per: Literal["run", "kernel"] = "run",
    stage: str | None = None,
) -> Chain:
    """Complete the GPU stage of a chain from a recording.  Raises A139, A147; A029.

    The time of the stage is the time in which the GPU computes (union of kernels).  The bytes that
    this stage and the next one receive are the bytes copied to the device and back.  An undeclared
    link between host and GPU takes as long as these copies took.  Values that the file states are
    kept.

    Parameters
    ----------
    per : one item is the whole ``run``, or one ``kernel``: then all values are divided by the
        number of kernels, which is the number of items unless the chain has one.
    stage : name of the stage; if left out, the only stage without a time.
    """
    index = _open_stage(chain, stage)
    trace = profile.trace
    starts = np.concatenate([f["start_ns"].to_numpy() for f in (trace.kernels, trace.graphs)])
    ends = np.concatenate([f["end_ns"].to_numpy() for f in (trace.kernels, trace.graphs)])
    if not len(starts):
        raise error_of("A147", where=trace.name, fix=what_to_record("gpu", trace.facts))
    count = len(starts) if per == "kernel" else 1
    copies = summary.copies(profile)
    classes = {direction: (direction, f"migration_{direction}") for direction in ("h2d", "d2h")}
    size = {
        direction: sum(summary.moved_bytes(profile, c) for c in both) / count
        for direction, both in classes.items()
    }
    seconds = {
        direction: sum(copies[c]["busy_ns"] for c in both) * 1e-9 / count
        for direction, both in classes.items()
    }
    stages = list(chain.stages)
    gpu_stage = stages[index]
    receives = (
        gpu_stage.receives
        if gpu_stage.receives is not None or not index
        else {stages[index - 1].name: size["h2d"]}
    )
    stages[index] = replace(
        gpu_stage, seconds=float(union_ns(starts, ends)) * 1e-9 / count, receives=receives
    )
    if index + 1 < len(stages) and stages[index + 1].receives is None:
        stages[index + 1] = replace(stages[index + 1], receives={gpu_stage.name: size["d2h"]})
    links = dict(chain.links)
    if chain.link(HOST, gpu_stage.device) is None:
        links |= {
            (HOST, gpu_stage.device): Link("time", time=seconds["h2d"]),
            (gpu_stage.device, HOST): Link("time", time=seconds["d2h"]),
        }
    flaws = [*chain.findings, *profile.findings]
    if count > 1:
        lasting = (ends - starts).astype(np.float64)
        flaws.append(
            finding(
                "A335",
                count,
                f"{show(lasting.min() * 1e-9, 's')} to {show(lasting.max() * 1e-9, 's')} each",
            )
        )
    items = chain.items if chain.items is not None else count
    return replace(
        chain, stages=tuple(stages), links=links, items=items, findings=tuple(merge(flaws))
    )


def _open_stage(chain: Chain, stage: str | None) -> int:
    """Return the index of the stage to take from a recording."""
    names = [s.name for s in chain.stages]
    if stage is not None and stage not in names:
        raise error_of(
            "A029.name",
            where=chain.name,
            found=f'"{stage[:40]}"',
            fix=did_you_mean(stage, names) or None,
            names=", ".join(names),
        )
    without = [
        i for i, s in enumerate(chain.stages) if s.seconds is None and stage in (None, s.name)
    ]
    if len(without) != 1:
        mismatch = (
            f"{stage} has a time" if stage is not None else f"{len(without)} stages without a time"
        )
        raise error_of("A029.stage", where=chain.name, found=mismatch)
    return without[0]
