"""A chain of accelerators, replayed: through the host, directly, through a shared cache, and each of them pipelined.

A chain is a small declared task graph (Austin et al. 2021, ECP-HIHE01-35, section 10): stages on devices, the bytes a stage
receives from earlier ones, and a link between each pair of devices that talk.  `turnbuckle.papers.models.cxl.chain_file` reads one.

Serial flows do one step of one item after the other, as host code does that waits for everything.  Pipelined flows overlap:
a device, and each direction of a link, does one step at a time; where one serves several stages, items pass it in waves.
In a cached flow, messages over CXL links are not copied: the kernel that receives one reads it from the shared cache while it
runs.  Over ``cxl2`` lines come ahead of their use, so that it costs the access to one line, and the kernel ends no earlier
than its data could have arrived; over ``cxl1`` the kernel waits for every line.

Errors:

    A029  the question does not fit the chain: no link between two devices that talk, no stage to take from a recording
    A147  the recording holds no kernels
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np

from turnbuckle.cost import packet
from turnbuckle.cost.loggp import loggp_seconds
from turnbuckle.foundation.errors import CannotAnswer, UsageError, did_you_mean
from turnbuckle.foundation.findings import Finding, finding, merge
from turnbuckle.foundation.units import show
from turnbuckle.papers.models.cxl.cost import (
    LEAST_SHARE,
    LINE_SECONDS,
    START_UP,
    cxl_line_seconds,
    cxl_stream_seconds,
    disaggregation_penalty,
    pcie_seconds,
)
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary import summary
from turnbuckle.replay.tasks import Tasks, replay_tasks
from turnbuckle.trace.intervals import union_ns
from turnbuckle.trace.recorders import what_to_record

HOST: Final = "host"
Kind = Literal["pcie", "cxl1", "cxl2", "time", "loggp"]
Through = Literal["host", "direct", "cached"]
#: Steps of all items that are replayed at most.
MOST_TASKS: Final = 4_000_000

#: What a link may state, with its unit (none: text), and what each kind of link uses.
LINK_KEYS: Final[dict[str, str]] = {
    "pcie": "", "start_up": "s", "share": "1", "line_time": "s", "lines_in_flight": "1", "time": "s", "latency": "s", "bandwidth": "B/s",
}  # fmt: skip
KINDS: Final[dict[Kind, tuple[str, ...]]] = {
    "pcie": ("pcie", "start_up"),
    "cxl1": ("line_time", "lines_in_flight"),
    "cxl2": ("pcie", "share", "line_time"),
    "time": ("time",),
    "loggp": ("latency", "bandwidth"),
}


@dataclass(frozen=True)
class Link:
    """How long a message takes between two devices.

    Attributes
    ----------
    kind : ``pcie`` (eq 9), ``cxl1`` (eq 10), ``cxl2`` (eq 11), ``time`` (always `time`), ``loggp`` (latency + n / bandwidth).
    pcie : the wire below ``pcie`` and ``cxl2``; both directions busy.
    start_up, share, line_time, lines_in_flight : of the equations, see `turnbuckle.papers.models.cxl.cost`.
    time, latency, bandwidth : measured [s], [s], [B/s].
    """

    kind: Kind
    pcie: str = "pcie3-x16"
    start_up: float = START_UP
    share: float = LEAST_SHARE
    line_time: float = LINE_SECONDS
    lines_in_flight: float = 1.0
    time: float = 0.0
    latency: float = 0.0
    bandwidth: float = math.inf

    def seconds(self, size_bytes: float) -> float:
        """Time of one message [s]."""
        if self.kind == "time":
            return self.time
        if self.kind == "loggp":
            return float(loggp_seconds(np.asarray(size_bytes, dtype=np.float64), self.latency, self.bandwidth))
        if self.kind == "cxl1":
            return float(cxl_line_seconds(size_bytes, self.line_time, lines_in_flight=self.lines_in_flight))
        bandwidth = packet.link(self.pcie).bandwidth(size_bytes, "both")
        if self.kind == "pcie":
            return float(pcie_seconds(size_bytes, bandwidth, self.start_up))
        return float(cxl_stream_seconds(size_bytes, bandwidth, self.share, self.line_time))

    def lengthened(self, own: float, size_bytes: float) -> float:
        """Time of a kernel of `own` seconds that reads a message from the shared cache while it runs [s]."""
        if self.kind == "cxl1":
            return own + self.seconds(size_bytes)
        return max(own, self.seconds(size_bytes) - self.line_time) + self.line_time

    @property
    def caches(self) -> bool:
        """Whether it is a CXL link."""
        return self.kind in ("cxl1", "cxl2")

    def as_dict(self) -> dict[str, Any]:
        """For JSON: what its kind uses."""
        unit = {"s": "_seconds", "B/s": "", "1": "", "": ""}
        return {"kind": self.kind, **{f"{k.removesuffix('_time')}{unit[LINK_KEYS[k]]}": getattr(self, k) for k in KINDS[self.kind]}}


@dataclass(frozen=True)
class Stage:
    """One stage: its device, its time for one item [s] (None: to come from a recording), and the bytes it receives, by stage."""

    name: str
    device: str
    seconds: float | None
    receives: Mapping[str, float] | None = None


@dataclass(frozen=True)
class Chain:
    """A declared chain.

    Attributes
    ----------
    stages : in the order in which one item passes them.
    links : by (from, to); one that stands there only one way serves both.
    items : how often the chain runs; None: to come from a recording.
    in_flight : items under way at once when pipelined; None: as many as there are steps.
    start_up : s of eq 12, once [s].
    findings : flaws of a recording that stands for a stage, and what it leaves out.
    """

    stages: tuple[Stage, ...]
    links: Mapping[tuple[str, str], Link]
    items: int | None = None
    in_flight: int | None = None
    start_up: float = 0.0
    name: str = ""
    findings: tuple[Finding, ...] = ()

    def link(self, one: str, other: str) -> Link | None:
        """The link between two devices, or None."""
        return self.links.get((one, other)) or self.links.get((other, one))


@dataclass(frozen=True)
class Flow:
    """One way to run a chain.

    Attributes
    ----------
    through : how messages between accelerators move: ``host``, ``direct`` or ``cached``.
    pipelined : whether items overlap.
    seconds : run time [s].
    first_seconds : of one item alone [s].
    busiest : the device, or the direction of a link, that is busy longest; busy_seconds : for how long [s].
    path_seconds : what the critical path is made of, by device and direction of link [s].
    moved_seconds : all copies of one item added up [s].
    """

    through: Through
    pipelined: bool
    seconds: float
    first_seconds: float
    busiest: str
    busy_seconds: float
    path_seconds: Mapping[str, float]
    moved_seconds: float

    @property
    def name(self) -> str:
        """In words."""
        words = {"host": "through the host", "direct": "direct", "cached": "cached"}[self.through]
        return f"{words}, pipelined" if self.pipelined else words

    def as_dict(self, today: float) -> dict[str, Any]:
        """For JSON."""
        return {
            "flow": self.through,
            "pipelined": self.pipelined,
            "seconds": self.seconds,
            "speedup": today / self.seconds if self.seconds else None,
            "first_item_seconds": self.first_seconds,
            "copies_of_an_item_seconds": self.moved_seconds,
            "busiest": self.busiest,
            "busy_fraction": self.busy_seconds / self.seconds if self.seconds else None,
            "path_seconds": dict(self.path_seconds),
        }


@dataclass(frozen=True)
class Played:
    """All flows of a chain, serial and through the host first; `left_out` says which need a link that is not declared."""

    chain: Chain
    flows: tuple[Flow, ...]
    left_out: tuple[str, ...]

    @property
    def today(self) -> Flow:
        """The serial flow through the host."""
        return self.flows[0]

    @property
    def penalty(self) -> float | None:
        """Disaggregation penalty (eq 13): today's run time over the time of all stages; None where they take none."""
        each = [s.seconds or 0.0 for s in self.chain.stages]
        return float(disaggregation_penalty(self.today.seconds, (self.chain.items or 0) * sum(each))) if any(each) else None

    def as_dict(self) -> dict[str, Any]:
        """For JSON; units in the names, SI."""
        return {
            "schema_version": 1,
            "chain": self.chain.name,
            "items": self.chain.items,
            "in_flight": self.chain.in_flight,
            "stages": [
                {"stage": s.name, "device": s.device, "seconds": s.seconds, "receives_bytes": dict(s.receives or {})}
                for s in self.chain.stages
            ],
            "links": {f"{a}-{b}": link.as_dict() for (a, b), link in self.chain.links.items()},
            "flows": [f.as_dict(self.today.seconds) for f in self.flows],
            "left_out": list(self.left_out),
            "disaggregation_penalty": self.penalty,
            "findings": [f.as_dict() for f in self.chain.findings],
        }


@dataclass
class _Steps:
    """The steps of one item, in an order in which they can run."""

    track: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    after: list[list[int]] = field(default_factory=list)

    def add(self, track: str, seconds: float, after: list[int]) -> int:
        self.track.append(track)
        self.seconds.append(seconds)
        self.after.append(after)
        return len(self.track) - 1


def play(chain: Chain) -> Played:
    """Replay every flow of a chain.

    Raises
    ------
    UsageError : A029 where two devices talk without a link, or something is left to a recording.

    >>> stages = (Stage("unpack", "fpga", 2.0), Stage("sum", "gpu", 1.0, {"unpack": 1e6}))
    >>> slow = Link("time", time=0.5)
    >>> found = play(Chain(stages, {("fpga", "host"): slow, ("gpu", "host"): slow, ("fpga", "gpu"): slow}, items=10))
    >>> [(f.name, round(f.seconds, 3)) for f in found.flows[:3]]
    [('through the host', 40.0), ('through the host, pipelined', 22.0), ('direct', 35.0)]
    """
    if chain.items is None or any(s.seconds is None for s in chain.stages):
        missing = next((f"stage {s.name} has no time" for s in chain.stages if s.seconds is None), "the chain has no items")
        raise UsageError("A029", missing, fix="give it in the file, or take it from a recording with --profile")
    flows: list[Flow] = []
    left_out: list[str] = []
    ways: tuple[Through, ...] = ("host", "direct", "cached")
    for through in ways:
        lacking = _lacking(chain, through)
        if lacking and through == "host":
            pair = lacking.removeprefix("no link between ").replace(" and ", "-")
            raise UsageError("A029", lacking, where=chain.name, cause="a message goes over it today", fix=f"add [link.{pair}]")
        if lacking:
            left_out.append(f"{through}: {lacking}")
            continue
        flows += [_flow(chain, through, pipelined) for pipelined in (False, True)]
    return Played(chain, tuple(flows), tuple(left_out))


def _messages(chain: Chain) -> list[tuple[int, int, float]]:
    """(from stage, to stage, bytes) of every message between different devices that carries anything."""
    at = {s.name: i for i, s in enumerate(chain.stages)}
    return [
        (at[source], i, size)
        for i, stage in enumerate(chain.stages)
        for source, size in (stage.receives or {}).items()
        if size > 0 and chain.stages[at[source]].device != stage.device
    ]


def _hops(one: str, other: str, through: Through) -> list[tuple[str, str]]:
    if through == "host" and HOST not in (one, other):
        return [(one, HOST), (HOST, other)]
    return [(one, other)]


def _lacking(chain: Chain, through: Through) -> str:
    """What a flow needs and the chain does not have, in words; an empty string where nothing lacks."""
    messages = [(chain.stages[a].device, chain.stages[b].device) for a, b, _ in _messages(chain)]
    for one, other in messages:
        for hop in _hops(one, other, through):
            if chain.link(*hop) is None:
                return f"no link between {hop[0]} and {hop[1]}"
    if through == "cached" and not any(link is not None and link.caches for link in (chain.link(*m) for m in messages)):
        return "no message goes over a CXL link"
    return ""


def _steps(chain: Chain, through: Through, *, serial: bool) -> _Steps:
    """The steps of one item: every copy is a step on its direction of a link, every stage one on its device."""
    steps = _Steps()
    done: dict[str, int] = {}
    device = {s.name: s.device for s in chain.stages}

    def add(track: str, seconds: float, after: list[int]) -> int:
        return steps.add(track, seconds, [len(steps.track) - 1] if serial and steps.track else after)

    for i, stage in enumerate(chain.stages):
        own = stage.seconds or 0.0
        after = [done[chain.stages[i - 1].name]] if i and not stage.receives else []
        for source, size in (stage.receives or {}).items():
            last = done[source]
            if size > 0 and device[source] != stage.device:
                direct = chain.link(device[source], stage.device)
                if through == "cached" and direct is not None and direct.caches:
                    own = direct.lengthened(own, size)
                else:
                    for one, other in _hops(device[source], stage.device, through):
                        link = chain.link(one, other)
                        assert link is not None  # `play` has looked
                        last = add(f"{one} to {other}", link.seconds(size), [last])
            after.append(last)
        done[stage.name] = add(stage.device, own, after)
    return steps


def _flow(chain: Chain, through: Through, pipelined: bool) -> Flow:
    items = chain.items or 0
    steps = _steps(chain, through, serial=not pipelined)
    count = len(steps.track)
    in_flight = min(chain.in_flight or count, count) if pipelined else 1
    if items * count > MOST_TASKS:
        raise UsageError(
            "A029",
            "more steps than are replayed at once",
            found=f"{items:,} items of {count} steps",
            fix=f"{MOST_TASKS // count:,} items or fewer",
        )
    names = list(dict.fromkeys(steps.track))
    tasks, kind = _tasks(steps, items, in_flight, names)
    replayed = replay_tasks(tasks)
    busy = np.bincount(kind, weights=tasks.seconds, minlength=len(names)) if items else np.zeros(len(names))
    on_path = np.bincount(kind[replayed.path], weights=tasks.seconds[replayed.path], minlength=len(names))
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
        float(sum(s for s, t in zip(steps.seconds, steps.track, strict=True) if t not in devices)),
    )


def _tasks(steps: _Steps, items: int, in_flight: int, names: list[str]) -> tuple[Tasks, np.ndarray[Any, np.dtype[np.int64]]]:
    """All steps of all items as tasks, and the track of each.

    A track takes steps in waves: item i does step p in wave i w + p, with w = ceil(steps / in flight).  Every edge leads to a
    later wave, also the one from the end of an item to the start of the one that takes its place.
    """
    count = len(steps.track)
    item, step = (a.ravel() for a in np.meshgrid(np.arange(items), np.arange(count), indexing="ij"))
    wave = item * math.ceil(count / in_flight) + step
    order = np.argsort(wave, kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    each = np.arange(items) * count
    ends = [(p, q, 0) for q, before in enumerate(steps.after) for p in before]
    followed = {p for before in steps.after for p in before}
    lasts, firsts = [p for p in range(count) if p not in followed], [q for q in range(count) if not steps.after[q]]
    ends += [(p, q, in_flight) for p in lasts for q in firsts]
    source = [each[: max(items - later, 0)] + p for p, _, later in ends]
    target = [each[later:] + q for _, q, later in ends]
    track = np.array([names.index(t) for t in steps.track], dtype=np.int64)[step][order]
    seconds = np.array(steps.seconds)[step][order]
    sources, targets = (place[np.concatenate(x)] if x else np.zeros(0, dtype=np.int64) for x in (source, target))
    return Tasks(seconds, track, sources, targets, np.zeros(len(sources))), track


def with_recording(chain: Chain, profile: Profile, *, per: Literal["run", "kernel"] = "run", stage: str | None = None) -> Chain:
    """Fill in what the chain leaves open of its GPU stage from a recording.

    The stage's time becomes the time in which the GPU computes (union of kernels); bytes that it and the stage after it receive
    become the bytes copied to the device and back; a link between host and GPU that is not declared takes as long as these
    copies took.  Nothing that the file states is replaced.

    Parameters
    ----------
    per : what one item is: the whole ``run``, or one ``kernel``: then everything is divided by the number of kernels, which is
        the number of items unless the chain has one.
    stage : the stage; the only one without a time if left out.

    Raises
    ------
    CannotAnswer : A139, A147.  UsageError : A029.
    """
    at = _open_stage(chain, stage)
    trace = profile.trace
    starts = np.concatenate([f["start_ns"].to_numpy() for f in (trace.kernels, trace.graphs)])
    ends = np.concatenate([f["end_ns"].to_numpy() for f in (trace.kernels, trace.graphs)])
    if not len(starts):
        raise CannotAnswer("A147", "the recording holds no kernels", where=trace.name, fix=what_to_record("gpu", trace.facts))
    count = len(starts) if per == "kernel" else 1
    copies = summary.copies(profile)
    classes = {way: (way, f"migration_{way}") for way in ("h2d", "d2h")}
    size = {way: sum(summary.moved_bytes(profile, c) for c in both) / count for way, both in classes.items()}
    seconds = {way: sum(copies[c]["busy_ns"] for c in both) * 1e-9 / count for way, both in classes.items()}
    stages = list(chain.stages)
    own = stages[at]
    fed = own.receives if own.receives is not None or not at else {stages[at - 1].name: size["h2d"]}
    stages[at] = replace(own, seconds=float(union_ns(starts, ends)) * 1e-9 / count, receives=fed)
    if at + 1 < len(stages) and stages[at + 1].receives is None:
        stages[at + 1] = replace(stages[at + 1], receives={own.name: size["d2h"]})
    links = dict(chain.links)
    if chain.link(HOST, own.device) is None:
        links |= {(HOST, own.device): Link("time", time=seconds["h2d"]), (own.device, HOST): Link("time", time=seconds["d2h"])}
    flaws = [*chain.findings, *profile.findings]
    if count > 1:
        lasting = (ends - starts).astype(np.float64)
        flaws.append(finding("A335", count, f"{show(lasting.min() * 1e-9, 's')} to {show(lasting.max() * 1e-9, 's')} each"))
    items = chain.items if chain.items is not None else count
    return replace(chain, stages=tuple(stages), links=links, items=items, findings=tuple(merge(flaws)))


def _open_stage(chain: Chain, stage: str | None) -> int:
    """The stage to take from a recording."""
    names = [s.name for s in chain.stages]
    if stage is not None and stage not in names:
        fix = did_you_mean(stage, names) or f"one of {', '.join(names)}"
        raise UsageError("A029", "the chain has no such stage", where=chain.name, found=f'"{stage[:40]}"', fix=fix)
    without = [i for i, s in enumerate(chain.stages) if s.seconds is None and stage in (None, s.name)]
    if len(without) != 1:
        found = f"{stage} has a time" if stage is not None else f"{len(without)} stages without a time"
        raise UsageError("A029", "one stage is to come from the recording", where=chain.name, found=found, fix="leave out its time")
    return without[0]
