"""Effect of GPUDirect on a recorded MPI run: its messages replayed by several data paths, for
several node shapes.

Buffers of messages are where the recording or `Setup.buffers` says, else in device memory.  A
message from there goes through host memory with copies (``hostcopy``), straight from GPU to GPU
inside a node (``p2p``) or between nodes too (``gpudirect``), or at no cost besides the network
(``host``).  Compute stays as recorded (Khetawat et al., GPUDirect in TraceR-CODES).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Float, Int
from turnbuckle.foundation.errors import CannotAnswer, UsageError, error_of
from turnbuckle.foundation.fields import Declared
from turnbuckle.foundation.findings import Finding, advised, finding
from turnbuckle.foundation.units import show
from turnbuckle.mpi.questions.messages.prices import NO_PRICES, UNLIMITED
from turnbuckle.mpi.questions.messages.setup import (
    MOST_RANKS,
    Path,
    Setup,
    charges_of,
    checked,
    driving,
    fitted,
    network_of,
    program_of,
    shares_gpus,
    words_of,
)
from turnbuckle.mpi.questions.messages.verdict import Point, Verdict, decided, points
from turnbuckle.mpi.replay.buffers import assumed, stated
from turnbuckle.mpi.replay.extrapolate import described, grid_of, larger
from turnbuckle.mpi.replay.messages import Traffic, recorded
from turnbuckle.mpi.replay.operation_graph import OperationGraph
from turnbuckle.mpi.replay.stuck import waits_in
from turnbuckle.profile.dependencies.graph import EDGE
from turnbuckle.profile.messages.mpi_time import MpiTime
from turnbuckle.projection.answers.shown import Shown
from turnbuckle.projection.elsewhere.network import OBSERVED, OnNetwork, Other, other_network
from turnbuckle.projection.model import nething
from turnbuckle.projection.order import Prepared, timeline_of
from turnbuckle.projection.run import Run
from turnbuckle.questions.sweep.summary import NO_DIFFERENCE
from turnbuckle.replay.contention.contention import Contended, Program, replay
from turnbuckle.replay.contention.critical import chain, in_resources
from turnbuckle.replay.contention.network import Dragonfly, FatTree, Network, Torus
from turnbuckle.replay.timeline import TimelineReplay, no_change

PATHS: Final[tuple[Path, ...]] = ("host", "hostcopy", "gpudirect")
#: Largest program whose chain behind the run time is followed, which goes one operation at a time.
LONGEST_CHAIN: Final = 5_000_000


#: Refusals of the timeline that leave a recording its messages alone, and findings about what its
#: run times rest on.
_NO_TIMES: Final = ("A122", "A193")
_OF_THE_NETWORK: Final = ("A351", "A380", "A381", "A389")
#: Settings that a timeline does not have, as they are left out.
_EXTRA: Final[dict[str, Any]] = {"compute_of": "", "gpu_shared": "no"}


@dataclass(frozen=True)
class Row(Declared):
    """Result of one replay."""

    ranks: int
    ranks_per_node: int
    nodes: int
    path: Path
    seconds: float
    compute_seconds: float
    kept_seconds: float
    communication_seconds: float
    gpu_wait_seconds: float
    between_bytes: float
    inside_bytes: float
    card_bytes: float
    busiest: str
    busiest_share: float
    chain_compute_seconds: float = math.nan
    chain_copies_seconds: float = math.nan
    chain_network_seconds: float = math.nan
    chain_gpu_seconds: float = math.nan
    chain_others_seconds: float = math.nan
    stuck: str = ""


@dataclass(frozen=True)
class Replayed:
    """Replay with its input and its result."""

    row: Row
    program: Program
    network: Network
    node: Int
    done: Contended | None


@dataclass(frozen=True)
class Recorded:
    """Recording whose run times are those of its timeline, as in ``turnbuckle project --network``.

    Attributes
    ----------
    run : the part that is asked about.
    source : network of the recording, by name or file; empty fits it to its messages.
    own : whether the question is about the recording's own network.
    """

    run: Run
    source: str = ""
    own: bool = False

    @cached_property
    def ready(self) -> Prepared:
        """Return the run with its order."""
        return self.run.prepared(replace(nething(), replay="auto"))

    def other(self, setup: Setup) -> Other:
        """Return the run on the network of a setup; raises as
        `turnbuckle.projection.elsewhere.network.other_network`.
        """
        asked = OnNetwork(setup.network, words_of(setup, (*NO_PRICES, "network")), self.source)  # type: ignore[arg-type]
        return other_network(self.run.between, self.ready.timeline, asked, self.ready.trust)

    @cached_property
    def silent(self) -> Finding | None:
        """Return why the recording tells no run time on another network; None where it does."""
        try:
            self.other(Setup(path="host"))
        except CannotAnswer as refused:
            if refused.code not in _NO_TIMES:
                raise
            return finding("A770", 1, f"{refused.code}: {refused.fix}")
        return None

    @cached_property
    def mpi(self) -> MpiTime | None:
        """Return what the recorded time in calls of MPI is made of; None where the recording does
        not show its network.
        """
        return None if self.silent is not None else self.other(Setup(path="host")).carried.mpi

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return on what its times on another network rest."""
        if self.silent is not None:
            return (self.silent,)
        return tuple(
            f for f in self.other(Setup(path="host")).carried.findings if f.code in _OF_THE_NETWORK
        )

    def on(self, setup: Setup) -> tuple[Recorded, Setup]:
        """Return the recording and a setup that has the numbers of the recording's own network,
        where that one is meant.
        """
        if setup.network != OBSERVED:
            return self, setup
        target = self.other(Setup(path="host", network=OBSERVED)).carried.target
        bandwidth = setup.card_bandwidth or target.bandwidth or UNLIMITED
        hop = target.hop_s if setup.hop_seconds is None else setup.hop_seconds
        numbers: dict[str, Any] = {
            "hop_seconds": hop,
            "overhead_seconds": target.overhead_s,
            "card_bandwidth": bandwidth,
        }
        return replace(self, own=True), replace(setup, network="", **numbers)

    def timed(
        self, row: Row, traffic: Traffic, setup: Setup, *, followed: bool, extra: float = 0.0
    ) -> Row:
        """Return the row of a replay of messages alone with the times of the whole run.

        Parameters
        ----------
        extra : what is added to the run time by settings that only the replay of messages alone has
            [s] (`_EXTRA`).
        """
        # on its own network a run is as recorded, whichever network that is
        as_recorded = self.silent is not None and self.own and setup.path == "host"
        if self.silent is not None and not (as_recorded and self.ready.timeline):
            return replace(
                row,
                seconds=self.ready.measured if as_recorded else math.nan,
                busiest_share=math.nan,
            )
        other = None if as_recorded else self.other(setup)
        timeline = timeline_of(self.ready) if other is None else other.settled()[0]
        run = timeline.run
        computes = np.where(run.category == "mpi", 1.0, setup.compute)
        change = replace(
            no_change(len(run)), ratio=computes, host=np.full(1, setup.compute), network=np.ones(1)
        )
        instants, path = timeline.path(change)
        seconds = self.ready.measured + (float(instants.max()) - timeline.unchanged_seconds) + extra
        took, explained = traffic.in_calls(instants), traffic.explained
        talk, kept = (float(took[which].sum()) / traffic.ranks for which in (explained, ~explained))
        waits = (
            row.gpu_wait_seconds if setup.gpu_shared != "no" and row.gpu_wait_seconds > 0 else 0.0
        )
        parts: dict[str, Any] = (
            self._chain(other, timeline, instants, path, traffic, setup) if followed else {}
        )
        parts |= {"chain_compute_seconds": parts["chain_compute_seconds"] + extra} if parts else {}
        busy = row.busiest_share * row.seconds / seconds if seconds else 0.0
        return replace(
            row,
            seconds=seconds,
            compute_seconds=seconds - talk - kept - waits,
            kept_seconds=kept,
            communication_seconds=talk,
            gpu_wait_seconds=row.gpu_wait_seconds if waits else 0.0,
            busiest_share=busy,
            **parts,
        )

    def _chain(
        self,
        other: Other | None,
        timeline: TimelineReplay,
        instants: Float,
        path: Int,
        traffic: Traffic,
        setup: Setup,
    ) -> dict[str, float]:
        """Return what the critical path is made of [s]: compute, copies of messages, messages under
        way, and what is left.
        """
        graph = timeline.graph
        spent = instants[graph.target[path]] - instants[graph.source[path]]
        calls = np.zeros(len(graph.activity), dtype=np.int8)
        calls[traffic.row] = np.where(traffic.explained, 2, 1)
        kind = calls[graph.owner[path]] * np.isin(
            graph.kind[path], [EDGE["meet"], EDGE["call"], EDGE["run"]]
        )
        copies = np.zeros(len(path))
        if other is not None and setup.path in ("hostcopy", "p2p"):
            plain = self.other(replace(setup, path="host")).added_ns()
            there = path < len(plain)
            copied = (other.added_ns()[: len(plain)][path[there]] - plain[path[there]]) * 1e-9
            copies[there] = np.clip(copied, 0.0, spent[there])
        of = {
            name: float(spent[kind == k].sum())
            for k, name in enumerate(("compute", "others", "network"))
        }
        whole = self.ready.measured - timeline.unchanged_seconds
        copied_in = [float(copies[kind == k].sum()) for k in (0, 1, 2)]
        return {
            "chain_compute_seconds": of["compute"] - copied_in[0] + whole,
            "chain_copies_seconds": sum(copied_in),
            "chain_network_seconds": of["network"] - copied_in[2],
            "chain_gpu_seconds": 0.0,
            "chain_others_seconds": of["others"] - copied_in[1],
        }


def replayed(
    traffic: Traffic,
    setup: Setup,
    *,
    traced: bool = False,
    followed: bool = True,
    recording: Recorded | None = None,
) -> Replayed:
    """Replay a run under one setup.

    Messages alone are replayed by contention, which tells of links, of each message, and of
    deadlocks; the times of a recorded run are those of its timeline.

    Raises A072, A074, A091 to A094, A099: an impossible setup; A170, no grid to repeat.

    Parameters
    ----------
    traced : keep the times of every message and operation, however large the program is.
    recording : what the traffic was recorded from; None for schedules, patterns, and messages
        alone.
    followed : follow the chain behind the run time, unless the program is too large; without it the
        row has no times of a chain.
    """
    asked = checked(driving(setup, traffic))
    whole, timed = traffic, recording if asked.ranks in (0, traffic.ranks) else None
    traffic, setup = fitted(traffic, asked)
    program, network, node = program_of(traffic, setup)
    compute, kept = traffic.work_seconds(setup.compute), _kept(traffic)
    graph = traffic if isinstance(traffic, OperationGraph) else None
    within, between = graph.bytes_by_distance(node) if graph else _by_distance(program, network)
    shape = (traffic.ranks, setup.ranks_per_node, int(node.max(initial=0)) + 1, setup.path)
    # the resources of a graph are its processors as well
    shared, small = shares_gpus(setup, network), len(program.code) <= LONGEST_CHAIN
    queues = shared and graph is None and (traced or small)
    followed = followed and small
    try:
        done = replay(program, network, setup.fidelity, traced=traced or followed or queues)
    except UsageError as error:
        if error.code != "A071":
            raise
        waits_described = (
            []
            if setup.chunk_bytes or graph
            else waits_in(traffic, program, error, setup.collectives)
        )
        detail = f": {'; '.join(waits_described)}" if waits_described else ""
        stuck = graph.waits_in(error.waiting) if graph else error.found + detail
        row = Row(
            *shape,
            math.nan,
            float(compute.mean()) - kept,
            kept,
            math.nan,
            math.nan,
            between,
            within,
            math.nan,
            "",
            math.nan,
            stuck=stuck,
        )
        return Replayed(row, program, network, node, None)
    nic_bytes, busiest, share = _busiest(done, network)
    queued = (
        np.maximum(in_resources(program, done, len(compute)) - compute, 0.0)
        if queues
        else np.zeros(1)
    )
    communication = float(np.mean(done.ends[: len(compute)] - compute - queued))
    parts, times = chain(program, done) if followed else None, (math.nan,) * 5
    if parts is not None:
        on_gpu = parts.resources if graph is None else 0.0
        times = (
            parts.compute,
            parts.copies,
            parts.network,
            on_gpu,
            parts.delays + parts.overheads + parts.resources - on_gpu,
        )
    talk = (communication, math.nan if shared and not queues else float(queued.mean()))
    row = Row(
        *shape,
        done.seconds,
        float(compute.mean()) - kept,
        kept,
        *talk,
        between,
        within,
        nic_bytes,
        busiest,
        share,
        *times,
    )
    if timed is not None:
        extra, without = 0.0, replace(asked, **_EXTRA)
        if without != asked:
            extra = done.seconds - replayed(whole, without, followed=False).row.seconds
        row = timed.timed(row, traffic, asked, followed=followed, extra=extra)
    return Replayed(row, program, network, node, done)


def _kept(traffic: Traffic | OperationGraph) -> float:
    """Return the time of calls that no replay computes, mean over the threads [s]."""
    return 0.0 if isinstance(traffic, OperationGraph) else float(traffic.work_seconds(0.0).mean())


def _by_distance(program: Program, network: Network) -> tuple[float, float]:
    """Return the bytes of messages between ranks inside nodes, and between nodes."""
    parts = len(network.made_of.parts)
    between_ranks = program.source != program.target
    same_node = (
        np.asarray(program.start)[between_ranks] // parts
        == np.asarray(program.end)[between_ranks] // parts
    )
    size = np.asarray(program.size_bytes)[between_ranks]
    return float(size[same_node].sum()), float(size[~same_node].sum())


def _busiest(done: Contended, network: Network) -> tuple[float, str, float]:
    """Return the bytes through the busiest link of a NIC, the link that was busy longest, and the
    share of the run in which it was.
    """
    if not len(done.carried_bytes) or done.seconds == 0:
        return 0.0, "", 0.0
    capacity = np.array(network.capacities())
    nic_links = 2 * network.cards if network.shape is None else network.links_between
    busy = done.carried_bytes / capacity / done.seconds
    # The shared time of a GPU is a wire in the replay, but no link.
    clocks = np.array(["share" in wire for wire in network.wires], dtype=np.bool_)
    busy[network.links_between :].reshape(network.hosts, len(clocks))[:, clocks] = 0.0
    top = int(busy.argmax())
    return (
        float(done.carried_bytes[:nic_links].max(initial=0.0)),
        network.link(top) if busy[top] > 0 else "",
        float(busy[top]),
    )


@dataclass(frozen=True, repr=False)
class Answered(Shown):
    """All replays of one run, and their basis."""

    question: ClassVar[str] = "messages"

    traffic: Traffic
    setup: Setup
    rows: tuple[Row, ...]
    #: gain on the best shape with each unknown cost changed (`verdict`)
    points: tuple[Point, ...] = ()
    recording: Recorded | None = field(default=None, repr=False)
    on_network: tuple[Finding, ...] = ()  #: on what its times on another network rest

    @property
    def recorded_seconds(self) -> float:
        """Return the recorded run time of the part that is asked about [s]; nan for a schedule."""
        return self.traffic.seconds if self.recording is None else self.recording.ready.measured

    @property
    def shapes(self) -> list[int]:
        """Return the ranks per node of the node shapes asked for."""
        return list(dict.fromkeys(r.ranks_per_node for r in self.rows))

    def table(self) -> pl.DataFrame:
        """Return a row for each data path and each node shape."""
        return pl.DataFrame([row.as_dict() for row in self.rows], infer_schema_length=None)

    def headline(self) -> str:
        """Return whether GPUDirect helps, in one line."""
        return f"Messages: {self.verdict.sentence}"

    def row(self, ranks_per_node: int, path: Path) -> Row:
        """Return the result of one replay."""
        return next(r for r in self.rows if (r.ranks_per_node, r.path) == (ranks_per_node, path))

    def gain(self, ranks_per_node: int) -> float:
        """Return the communication time by host copies over that by GPUDirect, less 1."""
        host, direct = (
            self.row(ranks_per_node, p).communication_seconds for p in ("hostcopy", "gpudirect")
        )
        return host / direct - 1.0 if direct != 0 else 0.0

    def run_gain(self, ranks_per_node: int) -> float:
        """Return the run time by host copies over that by GPUDirect, less 1."""
        host, direct = (self.row(ranks_per_node, p).seconds for p in ("hostcopy", "gpudirect"))
        return host / direct - 1.0 if direct != 0 else 0.0

    @property
    def grid(self) -> str:
        """Return the grid by which the run was repeated to more ranks, with its assumptions; empty
        where it was not repeated.
        """
        if self.setup.ranks in (0, self.traffic.ranks):
            return ""
        recorded_grid = grid_of(self.traffic)
        return described(recorded_grid, larger(recorded_grid, self.setup.ranks))

    @property
    def described(self) -> str:
        """Return the description of the network in words."""
        network = network_of(self.setup, 1)
        shape = {FatTree: "a fat tree", Torus: "a torus", Dragonfly: "a dragonfly"}.get(
            type(network.shape), "one switch"
        )
        shape += (
            f" with a backbone of {show(network.backbone.bandwidth, 'B/s')}"
            if network.backbone
            else ""
        )
        made = network.made_of
        inside = max(
            (
                w.bandwidth
                for w in made.wires
                if made.parts[w.source] == made.parts[w.target] == "host 0"
            ),
            default=0.0,
        )
        parts = [
            f"{shape}{' of ' + self.setup.network_name if self.setup.network else ''}",
            f"{show(network.bandwidth, 'B/s')} per NIC",
        ]
        parts += [f"{show(network.hop_seconds, 's')} per link"] + [
            f"{show(inside, 'B/s')} inside nodes"
        ] * (inside > 0)
        return ", ".join(parts)

    @property
    def best(self) -> int:
        """Return the ranks per node of the shape with the largest gain, of several nodes if there
        is one.
        """
        unstuck = [n for n in self.shapes if not math.isnan(self.gain(n))]
        several = [n for n in unstuck if self.row(n, "host").nodes > 1]
        return max(several or unstuck or self.shapes[:1], key=self.gain)

    @cached_property
    def buffers(self) -> str:
        """Return where the buffers of messages are, and whether that is recorded, stated or
        assumed.
        """
        if recorded_places := stated(self.setup.buffers, self.traffic):
            return recorded_places.sentence
        if assumed(self.setup.buffers, self.traffic):
            return "buffers: all assumed in device memory"
        return f"buffers by rules, not recorded: {self.setup.buffers}"

    @property
    def recorded_on_host(self) -> bool:
        """Return whether no buffer is in device memory, as recorded."""
        places = stated(self.setup.buffers, self.traffic)
        return places is not None and not places.device + places.unknown

    @property
    def recorded_buffers(self) -> str:
        """Return where the buffers are if that is recorded, to end a sentence with; else empty."""
        return f"; {self.buffers}" if stated(self.setup.buffers, self.traffic) else ""

    @cached_property
    def verdict(self) -> Verdict:
        """Return the answer to whether GPUDirect helps."""
        best = self.best
        gain = self.gain(best)
        word, low, high, decides = decided(gain, self.points)
        if cannot := self._cannot_be_told():
            return Verdict("cannot be told", best, gain, low, high, self.points, decides, cannot)
        made = Verdict(word, best, gain, low, high, self.points, decides)
        return replace(made, sentence=self._sentence(made) + self.recorded_buffers)

    def _cannot_be_told(self) -> str:
        """Say why the recording has no answer; empty where it has one."""
        stuck = {r.path: r.stuck for r in self.rows if r.stuck}
        if stuck:
            return (
                f"by {' and '.join(stuck)} this run deadlocks: its sends rely on being buffered "
                f"({next(iter(stuck.values()))})"
            )
        matched_calls = 2 * len(self.traffic.messages.send) + sum(
            r.activity.size for r in self.traffic.rounds
        )
        unmatched = self.traffic.unmatched
        if unmatched > matched_calls:
            return (
                f"no verdict: {unmatched:,} of {unmatched + matched_calls:,} calls have no "
                "counterpart in this recording"
            )
        kept = _kept_between_two(self.traffic)
        replayed_seconds = self.row(self.best, "hostcopy").communication_seconds
        if kept > replayed_seconds:
            return (
                f"no verdict: sends and receives without a counterpart keep {show(kept, 's')} a "
                "rank, more than the "
                f"{show(replayed_seconds, 's')} that could be replayed"
            )
        return ""

    def _sentence(self, made: Verdict) -> str:
        """Return the answer in one sentence."""
        best, word, reach = self.best, made.word, made.reach
        where = f"{best} rank{'s' * (best > 1)} per node"
        host, direct = (self.row(best, path) for path in ("hostcopy", "gpudirect"))
        if not self.setup.paid.copies:
            return (
                "GPUDirect makes no difference: CPU and GPU have one memory, and there is "
                "nothing to copy"
            )
        if self.recorded_on_host:
            return (
                "GPUDirect makes no difference: no message of this run begins or ends in device "
                "memory"
            )
        if word == "makes no difference":
            return (
                f"GPUDirect makes no difference of {NO_DIFFERENCE:.0%} to the communication of "
                f"this run{reach}"
            )
        if word == "undecided":
            return (
                f"it is undecided whether GPUDirect helps{reach}, and what decides is: "
                f"{made.decides} ({where})"
            )
        if word == "does not help":
            return (
                "GPUDirect does not help: by host copies communication takes at least "
                f"{-made.high:.1%} less time{reach} ({where})"
            )
        cut = (
            f"communication from {show(host.communication_seconds, 's')} to "
            f"{show(direct.communication_seconds, 's')} per rank"
        )
        run = (
            ""
            if math.isnan(host.seconds)
            else f", and the run time from {show(host.seconds, 's')} to {show(direct.seconds, 's')}"
        )
        return f"GPUDirect helps: it cuts {cut}{run} ({where}){reach}"

    @property
    def findings(self) -> list[Finding]:
        """Return the findings about calls without a counterpart, the first by rank, call and time;
        or about flaws of a graph.
        """
        if isinstance(self.traffic, OperationGraph):
            return list(self.traffic.findings)
        alone = (
            ("A311", self.traffic.unmatched, self.traffic.unmatched_calls),
            ("A353", *self.traffic.unknown),
            ("A382", self.traffic.staged, ""),
            (
                "A386",
                int((self.traffic.gpus_of_rank > 1).sum()),
                f"{self.setup.driven} GPUs for each rank",
            ),
        )
        found = [finding(code, count, detail) for code, count, detail in alone if count]
        return advised([*found, *self.on_network], self.traffic.recorder)

    @property
    def collectives(self) -> int | None:
        """Return the number of collectives; None for a graph: its operations have no names, and its
        collectives appear as messages only.
        """
        return (
            None
            if isinstance(self.traffic, OperationGraph)
            else sum(len(r.block_bytes) for r in self.traffic.rounds)
        )

    def kept_calls(self) -> dict[str, tuple[int, float]] | None:
        """Return number and seconds of the calls that keep their length, by name; None for a graph,
        as for `collectives`.
        """
        return None if isinstance(self.traffic, OperationGraph) else self.traffic.kept()

    def gains(self) -> list[dict[str, float]]:
        """Return the gain of communication and of the run time on each node shape."""
        return [
            {"ranks_per_node": n, "communication": self.gain(n), "run_time": self.run_gain(n)}
            for n in self.shapes
        ]


def shapes(ranks_per_node: Sequence[int]) -> list[int]:
    """Return the numbers of ranks per node, each once.  Raises A074 for an impossible number."""
    if not ranks_per_node or min(ranks_per_node) < 1 or max(ranks_per_node) > MOST_RANKS:
        raise error_of("A074.node", found=str(list(ranks_per_node))[:60], most_ranks=MOST_RANKS)
    return list(dict.fromkeys(ranks_per_node))


def paths(
    traffic: Traffic,
    setup: Setup | None = None,
    *,
    ranks_per_node: Sequence[int] = (1, 2, 4),
    recording: Recorded | None = None,
) -> Answered:
    """Replay a recorded MPI run by three data paths, for several node shapes.

    Raises A074, an impossible number of ranks per node, or what `replayed` refuses.
    """
    each, setup = shapes(ranks_per_node), driving(setup or Setup(), traffic)
    if recording is not None:
        recording, setup = recording.on(setup)
    asked = [replace(setup, ranks_per_node=n, path=p) for n in each for p in PATHS]
    rows = tuple(replayed(traffic, s, recording=recording).row for s in asked)
    rests_on = (
        () if recording is None or setup.ranks not in (0, traffic.ranks) else recording.findings
    )
    return ranged(Answered(traffic, setup, rows, recording=recording, on_network=rests_on))


def ranged(answer: Answered) -> Answered:
    """Return the same answer with the gain at the ends of every cost that nothing states."""
    if any(row.stuck for row in answer.rows):
        return answer
    best = answer.best
    # Many a cost is one of the other path: setups with the same charges are replayed once.
    communication = {
        charges_of(replace(answer.setup, path=row.path)): row.communication_seconds
        for row in answer.rows
        if row.ranks_per_node == best
    }

    def seconds(setup: Setup) -> float:
        charged = charges_of(setup)
        if charged not in communication:
            outcome = replayed(answer.traffic, setup, followed=False, recording=answer.recording)
            communication[charged] = outcome.row.communication_seconds
        return communication[charged]

    def gain(setup: Setup) -> float:
        host, direct = (
            seconds(replace(setup, ranks_per_node=best, path=path))
            for path in ("hostcopy", "gpudirect")
        )
        return host / direct - 1.0 if direct else 0.0

    return replace(answer, points=points(answer.setup, len(answer.traffic.messages.send), gain))


def _kept_between_two(traffic: Traffic | OperationGraph) -> float:
    """Return the mean time of a rank in sends, receives and their waits that keep their recorded
    length [s].
    """
    if isinstance(traffic, OperationGraph):
        return 0.0
    of_two = ("send", "recv", "wait")
    return (
        sum(
            seconds
            for name, (_, seconds) in traffic.kept().items()
            if any(word in name for word in of_two)
        )
        / traffic.ranks
    )


def of_run(
    run: Run,
    ranks_per_node: Sequence[int] = (1, 2, 4),
    setup: Setup | None = None,
    source_network: str = "",
) -> Answered:
    """Replay the messages of a recorded MPI run through host memory and by GPUDirect: ``turnbuckle
    model messages``.
    """
    asked = run.judged
    return paths(
        recorded(asked.profile),
        setup,
        ranks_per_node=ranks_per_node,
        recording=Recorded(asked, source_network),
    )
