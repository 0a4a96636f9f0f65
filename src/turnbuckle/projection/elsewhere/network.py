"""A run on another network: what its messages and collectives change in the graph of kernels,
copies and calls.

A message ties the begin of its send to the return of the call that completes its receive; a
collective ties the begins of its members to their returns.  The lags of these edges change by the
difference of two prices of the message, or of the collective, alone: on the other network, and on
that of the recording.  So a run on its own network keeps every instant.  Prices come from the room
of messages, by the registry; the network of the recording is named, or fitted to its messages
(`turnbuckle.profile.messages.observed_network`).

A collective that ran as a kernel of NCCL or RCCL changes that kernel, in the same way: by the
difference of two prices, and no more than in proportion where the recording is faster than its
price.

A recording shows when a receive returned, not when its message arrived.  The arrival is taken to be
the message's price after the send began; what is left of the receive after that is the receiver's
own.

By `logp` messages share nothing.  By `flow`, the default, those that are under way at once share
NICs and links, and so do collectives: each message takes what the contention engine says, on the
recording's network where all begin when they began, on the other where all begin when they would.
A collective takes its price alone, and as much more as it ends later beside the others than without
them.  When they begin follows from what they take, so both are computed in turn until nothing
changes.  Ranks that share a GPU share its time in the same passes
(`turnbuckle.projection.elsewhere.shared_gpus`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import polars as pl

from turnbuckle.cost.collectives import THROUGH_HOST_ERROR, Fabric, ways
from turnbuckle.foundation import registry
from turnbuckle.foundation.arrays import Bool, Float, Int
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.fields import Declared
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.foundation.units import show
from turnbuckle.profile.dependencies.graph import EDGE, Graph, Index
from turnbuckle.profile.dependencies.sides import activities
from turnbuckle.profile.messages.collective_kernels import sized_collectives
from turnbuckle.profile.messages.mpi_calls import Exchanges, exchanges, in_words
from turnbuckle.profile.messages.mpi_time import MpiTime, mpi_time
from turnbuckle.profile.messages.observed_network import observed_bandwidth, observed_network
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.transfers import LinkFit
from turnbuckle.projection.elsewhere.shared_gpus import DeviceEdges, SharedGpus
from turnbuckle.replay.timeline import TimelineReplay, no_change
from turnbuckle.replay.trust import Trust
from turnbuckle.trace.recorders import what_to_record

#: Name of the network that the recording itself shows.
OBSERVED = "self"
#: How often what messages take and when they begin are computed in turn; changes of a lag [ns] and
#: of the run time that count as none.
_PASSES: Final = 12
_SETTLED_NS: Final = 1e3
_SETTLED: Final = 1e-3
#: Log-sd of the price of a collective between GPUs: root mean square over measured curves of 1 MiB
#: and more inside nodes, of nccl-tests (8 x A100: allreduce 0.34, allgather 0.60, broadcast 0.49,
#: reducescatter 0.61) and of allreduce on DGX A100 and H100 (0.06 to 0.56).
KERNEL_ERROR: Final = 0.41
#: Name of that unknown among the drivers.
KERNEL_PRICE: Final = "price of collectives between GPUs"


@dataclass(frozen=True)
class OnNetwork:
    """Which network a run is asked about.

    Attributes
    ----------
    name : network, by name or file; ``self`` for the one that the recording shows, empty for one
        switch.
    settings : what replaces its values, as ``name=value``
        (`turnbuckle.mpi.questions.messages.setup.Setup`).
    source : network of the recording, by name or file; empty fits it to the recording's messages.
    """

    name: str
    settings: tuple[str, ...] = ()
    source: str = ""

    def of(self, *names: str) -> tuple[str, ...]:
        """Return the settings of these names.

        >>> OnNetwork("lassen", ("cards=gpu", "fidelity=flow")).of("fidelity")
        ('fidelity=flow',)
        """
        return tuple(word for word in self.settings if word.partition("=")[0].strip() in names)


@dataclass(frozen=True)
class Prices:
    """Prices of the messages and collectives of a run, each alone on one network.

    Attributes
    ----------
    name : network; ``observed`` for that of the recording.
    hop_s : latency of a link [s].
    latency_s, bandwidth, overhead_s : L [s], of a link [B/s] (None where messages show none), and o
        [s], for messages between nodes.
    nodes : number of nodes that the ranks fill.
    message_seconds : from the begin of the send to the end of the receive [s], in the order of
        `Exchanges.messages`.
    call, call_seconds : call of each member of a collective, and when it is done after all have
        begun together [s].
    shared : function of all instants of the graph [s] that returns `message_seconds` and
        `call_seconds` where those under way at once share NICs and links; None where they share
        nothing.
    waits : whether a message waits for its receive, in the order of `message_seconds`.
    sender_seconds : what the rank that sends a message does for it besides, before its call
        returns: its copy to the host [s].
    gone : activities of copies that no message needs there.
    gpus : kernels of ranks that share a GPU of their node; None where each has one for itself.
    fabric : what carries collectives that ran as kernels; None where there are none.
    kernel_seconds : time of each of these kernels, alone [s].
    """

    name: str
    latency_s: float
    bandwidth: float | None
    overhead_s: float
    nodes: int
    hop_s: float = 0.0
    message_seconds: Float = field(default_factory=lambda: np.zeros(0), repr=False)
    waits: Bool = field(default_factory=lambda: np.zeros(0, dtype=np.bool_), repr=False)
    sender_seconds: Float = field(default_factory=lambda: np.zeros(0), repr=False)
    gone: Int = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    call: Int = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    call_seconds: Float = field(default_factory=lambda: np.zeros(0), repr=False)
    fabric: Fabric | None = None
    kernel_seconds: Float = field(default_factory=lambda: np.zeros(0), repr=False)
    shared: Callable[[Float], tuple[Float, Float]] | None = field(default=None, repr=False)
    gpus: SharedGpus | None = field(default=None, repr=False)

    @property
    def alone(self) -> bool:
        """Return whether nothing is shared, neither links nor GPUs."""
        return self.shared is None and self.gpus is None

    def begun(self, instants: Float) -> Prices:
        """Return the prices where activities begin and end at these instants of the graph [s];
        themselves where nothing is shared.
        """
        if self.shared is None:
            return self
        messages, calls = self.shared(instants)
        return replace(self, message_seconds=messages, call_seconds=calls)

    @property
    def gpu_bandwidth(self) -> float | None:
        """Return the bandwidth of a GPU to the others of its node [B/s]; None where no kernels are
        priced.
        """
        return None if self.fabric is None else self.fabric.gpu_bandwidth

    @property
    def ranks_per_node(self) -> int | None:
        """Return the GPUs of a node that take part in collectives; None where no kernels are
        priced.
        """
        return None if self.fabric is None else self.fabric.ranks_per_node


@dataclass(frozen=True)
class Carried(Declared):
    """What of a run goes over the network, and what was compared.

    Attributes
    ----------
    target, source : the two networks.
    fitted : how many messages the recording's own network was fitted to; None where it was named.
    messages, size_bytes : messages priced, and their bytes [B].
    collectives : collective calls priced.
    unsized : messages whose size is not recorded, priced as if they carried none.
    kept, kept_words : calls that keep their time because their other side is not in the recording;
        the first of them in words.
    moved : share of the run time by which messages that share links still changed it in the last
        pass.
    kernels, kernels_bytes : collectives that ran as kernels, and the bytes of their buffers [B].
    kernels_kept : collective kernels that keep their time because what they moved is not recorded,
        or has no price.
    kernels_fitted : how many of them the recording's bandwidth was fitted to; None where its
        network was named.
    mpi : what the recorded time in calls of MPI is made of.
    shared_kernels, ranks_per_gpu : kernels of ranks that share a GPU on the target, and most ranks
        on one.
    """

    target: Prices
    source: Prices
    fitted: int | None
    messages: int
    size_bytes: int
    collectives: int
    unsized: int
    kept: int
    kept_words: str = ""
    moved: float = 0.0
    kernels: int = 0
    kernels_bytes: int = 0
    kernels_kept: int = 0
    kernels_fitted: int | None = None
    shared_kernels: int = 0
    ranks_per_gpu: int = 1
    mpi: MpiTime = field(default_factory=MpiTime)

    @property
    def error(self) -> float:
        """Return the relative error (log-sd) of the network's change; 0 where no kernels are priced
        (files of networks state none).
        """
        if not self.kernels:
            return 0.0
        return THROUGH_HOST_ERROR if self.through_host else KERNEL_ERROR

    @property
    def through_host(self) -> tuple[str, ...]:
        """Return the networks whose GPUs reach those of their node through the memory of their host
        alone.
        """
        return tuple(
            p.name
            for p in (self.source, self.target)
            if p.fabric is not None and p.fabric.through_host
        )

    @property
    def findings(self) -> list[Finding]:
        """Return what keeps its time, and on what the source's network rests."""
        alone = [finding("A311", self.kept, self.kept_words)] if self.kept else []
        alone += [finding("A351", self.unsized)] if self.unsized else []
        if self.fitted is not None:
            rate = (
                "" if self.source.bandwidth is None else f", {show(self.source.bandwidth, 'B/s')}"
            )
            alone.append(finding("A380", self.fitted, f"{show(self.source.latency_s, 's')}{rate}"))
        if self.kernels_fitted is not None:
            alone.append(
                finding("A383", self.kernels_fitted, show(self.source.gpu_bandwidth or 0.0, "B/s"))
            )
        alone += [finding("A387", self.kernels_kept)] if self.kernels_kept else []
        alone += (
            [finding("A388", self.kernels, _placed(self.source, self.target))]
            if self.kernels
            else []
        )
        alone += (
            [finding("A740", self.kernels, ", ".join(dict.fromkeys(self.through_host)))]
            if self.through_host
            else []
        )
        alone += (
            [finding("A385", 1, f"{self.moved:.1%} of the run time")]
            if self.moved >= _SETTLED
            else []
        )
        alone += (
            [finding("A389", self.shared_kernels, f"{self.ranks_per_gpu} ranks on a GPU")]
            if self.shared_kernels
            else []
        )
        carries = self.messages or self.collectives
        return (
            [*alone, finding("A381" if self.target.shared is None else "A384")]
            if carries
            else alone
        )


def _placed(source: Prices, target: Prices) -> str:
    """Say on how many nodes the largest collective of GPUs lies, on either network."""
    words = [
        f"{p.ranks_per_node} GPUs a node in {p.nodes} node{'s' * (p.nodes != 1)}"
        for p in (source, target)
    ]
    return words[0] if words[0] == words[1] else f"{words[0]}, then {words[1]}"


@dataclass(frozen=True)
class Other:
    """A run whose messages are known, and the networks that price them.

    Attributes
    ----------
    timeline, graph : the run as recorded, and its graph with the lags that are the network's.
    carried : the two networks.
    """

    timeline: TimelineReplay
    graph: Graph
    carried: Carried
    _priced: Callable[[float], Prices] = field(repr=False)
    _slower: Callable[[float], Prices] = field(repr=False)
    _added: Callable[[Prices], tuple[Graph, Float]] = field(repr=False)

    def added_ns(self, latency: float = 0.0) -> Float:
        """Return what the network adds to each lag where its latency between nodes is so much
        longer [s], shape (edges,) [ns].
        """
        return self._added(self._priced(latency) if latency else self.carried.target)[1]

    def slowed_ns(self, cost: float) -> Float:
        """Return what the network adds to each lag where its NICs take so many times as long for a
        byte, shape (edges,) [ns].
        """
        return self._added(self.carried.target if cost == 1.0 else self._slower(cost))[1]

    def later(self, latency: float) -> float:
        """Return the run time of the graph where the network's latency between nodes is so much
        longer [s].
        """
        return self._seconds(self._priced(latency) if latency else self.carried.target)

    def slower(self, cost: float) -> float:
        """Return the run time of the graph where the network's NICs take so many times as long for
        a byte [s].
        """
        return self._seconds(self.carried.target if cost == 1.0 else self._slower(cost))

    def _seconds(self, target: Prices) -> float:
        timeline, _ = self.settled(target)
        return float(timeline.seconds(replace(no_change(len(timeline.run)), network=np.ones(1))))

    def settled(self, target: Prices | None = None) -> tuple[TimelineReplay, float]:
        """Return the run on the other network, and the share of its run time by which the last pass
        of sharing still changed it.

        Parameters
        ----------
        target : prices on another network than the one that was asked for.
        """
        target = target or self.carried.target
        kernels = DeviceEdges(self.graph, target.gpus, target.gone)
        # from when messages and kernels began, so that a run on its own network keeps every instant
        began = np.asarray(self.timeline.graph.time_ns * 1e-9, dtype=np.float64)
        added, slower = self._added(target.begun(began))[1], kernels.stretched(began)
        timeline = self.timeline.on_network(self.graph, added, slower)
        moved = 0.0
        change = replace(no_change(len(timeline.run)), network=np.ones(1))
        seconds = float(timeline.seconds(change))
        for k in range(0 if target.alone else _PASSES):
            instants = timeline.path(change)[0]
            more, stretch = self._added(target.begun(instants))[1], kernels.stretched(instants)
            apart = np.abs(more - added) + np.abs(stretch - slower) * self.graph.lag_ns
            if (apart <= _SETTLED_NS).all():
                return timeline, 0.0
            # half of the way, so that two that share do not dodge each other for ever
            added, slower = (
                (more, stretch) if k == 0 else ((added + more) / 2, (slower + stretch) / 2)
            )
            timeline, before = self.timeline.on_network(self.graph, added, slower), seconds
            seconds = float(timeline.seconds(change))
            moved = abs(seconds / before - 1.0)
            if k and moved < _SETTLED:
                break
        return timeline, moved


@dataclass(frozen=True)
class Between:
    """What of a run goes between its ranks, on whatever network.

    Attributes
    ----------
    profile : the run.
    matched : messages and collectives of MPI; None where there are none.
    sized, unsized : collectives that ran as kernels
        (`turnbuckle.profile.messages.collective_kernels`), and how many are not sized.
    prices : function of a network, its settings, and what the recording shows, that prices them
        (`Prices`).
    observed : prices on the network that the recording shows, by settings, as far as they were
        asked for.
    """

    profile: Profile
    matched: Exchanges | None
    sized: pl.DataFrame
    unsized: int
    prices: Callable[[str, Sequence[str], LinkFit | None, float | None], Prices] = field(repr=False)
    observed: dict[tuple[str, ...], Prices] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, profile: Profile) -> Between:
        """Find the messages and collectives of a run."""
        rows = activities(profile)
        matched = exchanges(rows, profile.trace)
        matched = (
            None
            if matched is None or not (matched.messages.height or matched.rounds.height)
            else matched
        )
        sized, unsized = sized_collectives(rows, profile.trace)
        return cls(
            profile,
            matched,
            sized,
            unsized,
            registry.load("services", "message prices")(profile, rows, matched, sized),
        )


def other_network(
    between: Between, timeline: TimelineReplay | None, asked: OnNetwork, trust: Trust | None = None
) -> Other:
    """Price the messages and collectives of a run on its own network and on another.

    Parameters
    ----------
    between : messages and collectives of the run.
    timeline : timeline replay of the run as recorded; None where only the sum of its times can be
        replayed, which raises A122.
    asked : the other network, its settings, and the network of the recording.
    trust : how far the recorded order can be trusted; None where the user asked for the sum.

    Returns
    -------
    Other : the timeline, its graph with the network's lags, and the prices [s] on both networks.
    Nothing is replayed yet: `Other.settled`
        does.

    Raises
    ------
    CannotAnswer : A122, there is no timeline; A164, the recording shows no messages or collectives
        between ranks; A193, the network of the recording is not named, and its messages or
        collectives do not show it.
    UsageError : the network (A050) or a setting (A074, A081, A091, A092, A570) is not valid.
    """
    if timeline is None and trust is not None and trust.refused:
        raise error_of("A122", found=trust.refused, fix=trust.record)
    if timeline is None:
        raise error_of(
            "A122",
            found="the sum was asked for",
            fix="--network needs the order: leave --replay sum out",
        )
    profile, matched, sized, unsized = (
        between.profile,
        between.matched,
        between.sized,
        between.unsized,
    )
    if matched is None and not sized.height:
        if unsized:
            raise error_of(
                "A164.kernels",
                found=f"{unsized:,} kernels of NCCL or RCCL, none with bytes and members",
            )
        raise error_of("A164.recording", fix=what_to_record("ranks", profile.trace.facts))
    graph = timeline.graph
    starts, ends = graph.time_ns[1::2], graph.time_ns[2::2]
    observed = (
        None
        if asked.source or matched is None
        else observed_network(matched.messages, starts, ends)
    )
    reached = None if asked.source or not sized.height else _reached(sized, graph, profile)
    unneeded = (
        asked.name == OBSERVED
        and not asked.settings
        and not asked.source
        and observed is None
        and reached is None
    )
    if sized.height and not asked.source and reached is None and not unneeded:
        raise error_of("A193.kernels")

    def of(name: str, words: Sequence[str] = ()) -> Prices:
        return between.prices(name, words, observed, reached[0] if reached else None)

    # a run on its own network keeps every instant, whichever network that is
    own = "" if unneeded else asked.source or OBSERVED
    name = own if asked.name == OBSERVED else asked.name
    fidelity = asked.of("fidelity")
    source = (
        of(own, fidelity)
        if own != OBSERVED or fidelity not in between.observed
        else between.observed[fidelity]
    )
    if own == OBSERVED:
        between.observed[fidelity] = source
    target = of(name, asked.settings)
    source = source.begun(np.asarray(graph.time_ns * 1e-9, dtype=np.float64))

    def added(priced: Prices) -> tuple[Graph, Float]:
        return _with_messages(graph, matched, starts, ends, source, priced, sized)

    def later(latency: float) -> Prices:
        return of(name, (*asked.settings, f"hop_seconds={target.hop_s + latency / 2!r} s"))

    def slower(cost: float) -> Prices:
        if target.bandwidth is None:
            raise error_of("A195")
        return of(name, (*asked.settings, f"card_bandwidth={target.bandwidth / cost!r} B/s"))

    kernels = (
        sized.height,
        int(sized["size_bytes"].sum()),
        unsized,
        reached[1] if reached else None,
    )
    shared = (0, 1) if target.gpus is None else (len(target.gpus.activity), target.gpus.most)
    if matched is None:
        carried = Carried(target, source, None, 0, 0, 0, 0, 0, "", 0.0, *kernels, *shared)
    else:
        pairs = matched.messages.with_columns(size=pl.min_horizontal("size_bytes", "size_bytes_r"))
        count = None if asked.source or observed is None else observed.count
        sizes, alone = pairs["size"], in_words(matched.alone, profile.trace, profile.first_ns)
        messages = (
            pairs.height,
            int(sizes.fill_null(0).clip(0).sum()),
            len(source.call),
            sizes.null_count(),
            matched.unmatched,
        )
        carried = Carried(
            *(
                target,
                source,
                count,
                *messages,
                alone,
                0.0,
                *kernels,
                *shared,
                _mpi_time(between, graph, source),
            )
        )
    return Other(timeline, added(target)[0], carried, later, slower, added)


def _reached(sized: pl.DataFrame, graph: Graph, profile: Profile) -> tuple[float, int] | None:
    """Return the bandwidth that the recording's collective kernels reach [B/s], and how many show
    it.
    """
    run_ns = np.zeros(len(graph.activity), dtype=np.int64)
    runs = graph.kind == EDGE["run"]
    run_ns[graph.owner[runs]] = graph.lag_ns[runs]
    devices = profile.trace.devices["device"].n_unique()
    unit = Fabric(0.0, 1.0, 1, (1.0,), True, max(devices, 1))
    rows = sized.select(
        "operation", "ranks", "stride", "first", "algorithm", "protocol"
    ).iter_rows()
    shown = [ways(does, ranks, unit, *how)[0] for does, ranks, *how in rows]
    fixed, weight = (np.array(values) for values in zip(*shown, strict=True))
    return observed_bandwidth(sized, run_ns[sized["activity"].to_numpy()] * 1e-9, fixed, weight)


def _mpi_time(between: Between, graph: Graph, source: Prices) -> MpiTime:
    """Return what the recorded time in calls of MPI is made of."""
    matched, rows = between.matched, activities(between.profile)
    assert matched is not None
    mpi = (rows["category"].cast(pl.String) == "mpi").to_numpy()
    calls, of = np.flatnonzero(mpi), rows.filter(pl.Series(mpi)).select("thread", "process")
    times = (
        graph.time_ns[1::2],
        graph.time_ns[2::2],
        matched,
        source.message_seconds,
        source.waits,
    )
    return mpi_time(
        calls,
        of["thread"].to_numpy(),
        of["process"].n_unique(),
        *times,
        (source.call, source.call_seconds),
        source.overhead_s,
    )


def _with_messages(
    graph: Graph,
    matched: Exchanges | None,
    starts: Int,
    ends: Int,
    source: Prices,
    target: Prices,
    sized: pl.DataFrame,
) -> tuple[Graph, Float]:
    """Return the graph with the lags that are the network's, and the change of every lag by the
    other network [ns].
    """
    lags = _Lags(graph)
    lags.kernels(sized["activity"].to_numpy(), source, target)
    if matched is None:
        return lags.graph()
    pairs = matched.messages.select("activity", "done", "activity_r", "done_r")
    there = ((pairs["activity"] >= 0) & (pairs["done_r"] >= 0)).fill_null(False).to_numpy()
    send, sent, post, received = (
        pairs[c].to_numpy().astype(np.int64)[there] for c in pairs.columns
    )
    more = (target.message_seconds - source.message_seconds)[there] * 1e9
    takes, waits = (
        np.round(source.message_seconds[there] * 1e9).astype(np.int64),
        source.waits[there],
    )
    # when the last message of each receive is taken to have arrived, and what the receive does
    # after that
    arrival = np.full(len(starts), np.iinfo(np.int64).min)
    np.maximum.at(arrival, received, starts[send] + takes)
    after = np.maximum(ends - np.maximum(arrival, starts), 0)
    ahead = (send != received) & (starts[send] < ends[received])
    lag = np.minimum(takes + after[received], ends[received] - starts[send])
    lags.carry(2 * send[ahead] + 1, 2 * received[ahead] + 2, lag[ahead], more[ahead])
    # a receive that found its message under way did not work for so long
    late = np.unique(received[ahead & ~waits])
    lags.shorten(late, np.maximum(after[late], round(source.overhead_s * 1e9)))
    # both sides of a message that cannot leave early wait for each other
    back = ahead & waits & (sent >= 0) & (sent != post) & (starts[post] < ends[np.maximum(sent, 0)])
    lags.carry(2 * post[back] + 1, 2 * sent[back] + 2, None, more[back])
    forth = ahead & waits & (post >= 0) & (starts[post] < ends[received])
    lags.carry(
        2 * post[forth] + 1,
        2 * received[forth] + 2,
        np.minimum(lag, ends[received] - starts[post])[forth],
        more[forth],
    )
    itself = waits & (sent == send)
    lags.carry(2 * send[itself] + 1, 2 * send[itself] + 2, None, more[itself])
    # one that cannot leave early there only has the whole of its way before it once its receive is
    # posted
    only = ahead & ~waits & target.waits[there] & (post >= 0) & (starts[post] < ends[received])
    since = np.minimum(takes, ends[received] - starts[post])
    lags.carry(
        2 * post[only] + 1, 2 * received[only] + 2, since[only], (more + takes - since)[only]
    )
    # a rank makes its copies itself
    busy = (target.sender_seconds - source.sender_seconds)[there] * 1e9
    lags.lengthen(send[~itself], busy[~itself])
    lags.drop(target.gone)
    lags.collectives(source, target)
    return lags.graph()


class _Lags:
    """Lags of a graph's edges by their ends, while messages change them."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.lag = graph.lag_ns.copy()
        self.added = np.zeros(len(self.lag))
        meets = np.flatnonzero(np.isin(graph.kind, [EDGE["meet"], EDGE["call"]]))
        key = self._key(graph.source[meets], graph.target[meets])
        order = np.argsort(key, kind="stable")
        self._keys, self._edges = key[order], meets[order]
        self._new: list[tuple[Int, Int, Int, Float]] = []

    def _key(self, source: Int | Index, target: Int | Index) -> Int:
        return source.astype(np.int64) * len(self._graph.time_ns) + target

    def _of(self, source: Int, target: Int) -> Int:
        """Return the edge between two instants each; -1 for none."""
        key = self._key(source, target)
        place = np.minimum(np.searchsorted(self._keys, key), max(len(self._keys) - 1, 0))
        return (
            np.where(self._keys[place] == key, self._edges[place], -1)
            if len(self._keys)
            else np.full(len(key), -1)
        )

    def carry(self, source: Int, target: Int, lag: Int | None, added: Float) -> None:
        """Let edges carry a message: their lag, unless it is the recorded one (None), and what the
        network adds [ns].
        """
        edge = self._of(source, target)
        recorded = edge >= 0
        if lag is not None:
            np.maximum.at(self.lag, edge[recorded], lag[recorded])
            self._new.append(
                (source[~recorded], target[~recorded], lag[~recorded], added[~recorded])
            )
        # of several messages over one edge the one that changes most
        order = np.argsort(np.abs(added[recorded]), kind="stable")
        self.added[edge[recorded][order]] = added[recorded][order]

    def shorten(self, calls: Int, lag: Int) -> None:
        """Let calls take no longer than so by themselves [ns]."""
        edge = self._of(2 * calls + 1, 2 * calls + 2)
        recorded = edge >= 0
        self.lag[edge[recorded]] = np.minimum(self.lag[edge[recorded]], lag[recorded])

    def lengthen(self, calls: Int, added: Float) -> None:
        """Let calls take longer by themselves [ns]."""
        edge = self._of(2 * calls + 1, 2 * calls + 2)
        np.add.at(self.added, edge[edge >= 0], added[edge >= 0])

    def drop(self, activity: Int) -> None:
        """Let device activities take no time and begin at once."""
        kinds = np.isin(self._graph.kind, [EDGE["run"], EDGE["deliver"]])
        gone = kinds & np.isin(self._graph.owner, activity)
        self.added[gone] = -self.lag[gone].astype(np.float64)

    def collectives(self, source: Prices, target: Prices) -> None:
        """Let the calls of collectives take as much more as their price is higher."""
        more = np.zeros(len(self._graph.activity))
        more[source.call] = (target.call_seconds - source.call_seconds) * 1e9
        owner = self._graph.owner
        edges = np.flatnonzero(
            np.isin(self._graph.kind, [EDGE["meet"], EDGE["call"]]) & np.isin(owner, source.call)
        )
        self.added[edges] = more[owner[edges]]

    def kernels(self, activity: Int, source: Prices, target: Prices) -> None:
        """Let collective kernels take as much more as their price is higher, in proportion where
        they took less than the price.
        """
        more, price = (
            np.zeros(len(self._graph.activity)),
            np.full(len(self._graph.activity), np.inf),
        )
        more[activity] = (target.kernel_seconds - source.kernel_seconds) * 1e9
        price[activity] = source.kernel_seconds * 1e9
        owner = self._graph.owner
        edges = np.flatnonzero(
            np.isin(self._graph.kind, [EDGE["meet"], EDGE["run"]]) & np.isin(owner, activity)
        )
        self.added[edges] = more[owner[edges]] * np.minimum(
            self.lag[edges] / price[owner[edges]], 1.0
        )

    def graph(self) -> tuple[Graph, Float]:
        """Return the graph with these lags, at which every recorded instant comes back, and what
        the network adds to each [ns].
        """
        graph = self._graph
        none = np.zeros(0, dtype=np.int64)
        source, target, lag, added = (
            np.concatenate(c) for c in zip((none, none, none, np.zeros(0)), *self._new, strict=True)
        )
        count = len(source)
        all_source, all_target = (
            np.append(graph.source, source.astype(np.int32)),
            np.append(graph.target, target.astype(np.int32)),
        )
        all_lag = np.minimum(
            np.append(self.lag, lag).astype(np.int64),
            graph.time_ns[all_target] - graph.time_ns[all_source],
        )
        latest = np.zeros(len(graph.time_ns), dtype=np.int64)
        np.maximum.at(latest, all_target, graph.time_ns[all_source] + all_lag)
        kinds = np.append(graph.kind, np.full(count, EDGE["meet"], dtype=np.int8))
        paid = (
            None
            if graph.paid is None
            else np.append(graph.paid, np.full(count, -1, dtype=np.int32))
        )
        made = replace(
            graph, source=all_source, target=all_target, lag_ns=all_lag, kind=kinds, paid=paid
        )
        made = replace(made, residual_ns=graph.time_ns - latest)
        return made, np.append(self.added, added)


def on_other(network: OnNetwork | str | None) -> OnNetwork | None:
    """Return the network given, by its name or as it is."""
    return OnNetwork(network) if isinstance(network, str) else network
