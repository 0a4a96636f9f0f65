"""Gain of a recorded MPI run from GPUs closer to each other: the shares of Austin et al. 2021,
section 8, from its calls.

The share of time in MPI and its split into messages and collectives come from the calls, by name;
who talks to whom from the messages' partners, and which of them leave a node from the placement of
ranks that the user gives.  Nothing is assumed: where a recording does not name the partners, the
user says how much leaves the node.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Mapping as Mapping_
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from turnbuckle.cost.loggp import loggp_seconds
from turnbuckle.cost.ratio import fraction_benefit
from turnbuckle.foundation.arrays import Bool, Float
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.fields import Declared
from turnbuckle.foundation.findings import Finding, advised, finding
from turnbuckle.papers.models.node.cost import (
    Staged,
    all_on_node,
    fraction_speedup,
    gain,
    path_ratio,
    staged_share,
    tree_stages,
)
from turnbuckle.profile.messages.mpi_calls import (
    communicators,
    described,
    matched,
    operation,
    placed,
    posted,
    same_call,
)
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary.summary import UNNAMED
from turnbuckle.trace.ids import process_of
from turnbuckle.trace.intervals import union_ns
from turnbuckle.trace.recorders import recorder_of, what_to_record
from turnbuckle.trace.trace import Trace

Mapping = Literal["linear", "round robin"]
#: A path of messages: latency [s] and bandwidth [B/s].
Link = tuple[float, float]

_SENDS: Final = r"^i?[bsr]?send(_init)?$"
_BOTH: Final = r"^i?sendrecv(_replace)?$"
#: Collectives that move nothing: no bandwidth makes them faster.
_EMPTY: Final = r"^i?barrier"
#: Ranks on a node beyond which nothing is meant.
MOST_RANKS: Final = 10_000_000
_SET_UP: Final = r"^(init|init_thread|finalize)$"


@dataclass(frozen=True)
class Communication(Declared):
    """Time that a run spends in MPI, by kind of call, and the messages it sends."""

    ranks: int
    world: int
    seconds: float
    share: float
    p2p: float
    collectives: float
    synchronising: float
    p2p_volume: float
    #: one row per sent message: source and target (ranks of the world, null where unknown),
    #: size_bytes
    messages: pl.DataFrame
    #: one row per collective call of each rank: function, members, size_bytes, seconds
    collective_calls: pl.DataFrame
    #: one row per function: function, what (p2p, collective, synchronising), seconds over all
    #: ranks, calls
    functions: pl.DataFrame

    @property
    def message_bytes(self) -> int:
        """Return the bytes of all messages [B]."""
        return int(self.messages["size_bytes"].sum())


def recorded_placement(facts: Mapping_[str, Any]) -> tuple[int, Mapping] | None:
    """Return ranks per node and the mapping of ranks to nodes, or None where the recorded nodes
    follow neither mapping.

    >>> recorded_placement({"node_of_rank": {"0": 5, "1": 5, "2": 7, "3": 7}})
    (2, 'linear')
    """
    node_of = {int(rank): node for rank, node in (facts.get("node_of_rank") or {}).items()}
    if sorted(node_of) != list(range(len(node_of))) or not node_of:
        return None
    nodes = [node_of[rank] for rank in range(len(node_of))]
    number = {node: i for i, node in enumerate(dict.fromkeys(nodes))}
    order, count = [number[node] for node in nodes], len(number)
    ranks_per_node = -(-len(order) // count)
    if order == [rank // ranks_per_node for rank in range(len(order))]:
        return ranks_per_node, "linear"
    return (
        (ranks_per_node, "round robin")
        if order == [rank % count for rank in range(len(order))]
        else None
    )


@dataclass(frozen=True)
class Closer(Declared):
    """Gain of a run from GPUs closer to each other."""

    of: Communication
    ranks_per_node: int
    gpus_per_node: int
    mapping: Mapping
    off_node: float | None
    moved: float | None
    least_bytes: float = 0.0
    bandwidth_ratio: float | None = None
    speedup: float | None = None
    speedup_bound: float | None = None
    speedup_all: float | None = None
    #: source of the time that messages themselves take: ``paths``, ``recording``, ``paths and
    #: recording`` (the shorter time counts), or None.  The rest of MPI time is waiting for late
    #: ranks, which no path shortens.
    bytes_from: str | None = None
    speedup_bytes: float | None = None
    on_node_factor: float | None = None
    #: shares of run time that bandwidth limits, with their stages (section 8.2)
    parts: tuple[Staged, ...] = ()
    #: share_then, share_all: projected run time as a share of today's, and the same with every
    #: stage on the node
    share_then: float | None = None
    share_all: float | None = None
    #: share_bytes, share_all_bytes: the same two from the time that messages and stages themselves
    #: take; None where it is unknown
    share_bytes: float | None = None
    share_all_bytes: float | None = None
    findings: list[Finding] = field(default_factory=list)

    @property
    def by_fractions(self) -> Closer | None:
        """Return this answer where it has a gain by fractions of run time (section 8.1), else
        None.
        """
        return None if self.bandwidth_ratio is None else self

    def by_stages(self) -> dict[str, Any] | None:
        """Return this answer with its gains by stages (section 8.2), or None where it has none."""
        if self.share_then is None or self.share_all is None:
            return None
        gains = {
            "gain": float(gain(1.0, self.share_then)),
            "gain_all": float(gain(self.share_then, self.share_all)),
        }
        of_bytes = None if self.share_bytes is None else float(gain(1.0, self.share_bytes))
        of_all = (
            None
            if of_bytes is None
            else float(gain(self.share_bytes or 1.0, self.share_all_bytes or 1.0))
        )
        return {"answer": self, **gains, "gain_bytes": of_bytes, "gain_all_bytes": of_all}


def communication(profile: Profile) -> Communication:
    """Return the shares of run time and of bytes by kind of MPI call.  Raises A153 where the
    recording holds no MPI calls.

    A wait or test counts as the message or collective that it completes. The time of a call
    includes its wait for a late rank.
    """
    trace = profile.trace
    if not trace.mpi.height or not (trace.mpi["kind"] <= 2).any():
        raise error_of("A153", where=trace.name, advice=what_to_record("ranks", trace.facts))
    worlds = _worlds(trace)
    calls = _calls(trace, worlds)
    # as begun, each with the call that completes it; a persistent request has one row per start
    posts = posted(calls.drop("stands", "function", "members", "size"))
    # a wait that completes both a message and a collective counts as the message
    done = (
        posts.filter(pl.col("done") >= 0)
        .sort("kind")
        .unique("done", keep="first")
        .select(at="done", completes="kind")
    )
    calls = calls.join(done, on="at", how="left", maintain_order="left").with_columns(_what())
    threads = calls["process"].n_unique()
    window, seconds = _window(calls, profile)
    inside = window.filter("stands", pl.col("what").is_not_null())
    busy = (
        sum(
            int(union_ns(p["start_ns"].to_numpy(), p["end_ns"].to_numpy()))
            for _, p in inside.group_by("process")
        )
        * 1e-9
    )
    took = inside.with_columns(seconds=(pl.col("end_ns") - pl.col("start_ns")) * 1e-9)
    by_what = dict(took.group_by("what").agg(pl.col("seconds").sum()).iter_rows())
    every = sum(by_what.values())
    parts = [
        by_what.get(what, 0.0) / every if every > 0 else 0.0
        for what in ("p2p", "collective", "synchronising")
    ]
    messages = _messages(posts, trace, worlds)
    collectives = took.filter(pl.col("kind") == 1, ~pl.col("does").str.contains(_EMPTY)).select(
        "function",
        "members",
        pl.max_horizontal("size_bytes", "receive_bytes").fill_null(0).alias("size_bytes"),
        "seconds",
    )
    sent, collected = (int(f["size_bytes"].sum()) for f in (messages, collectives))
    functions = took.group_by("function", "what").agg(
        pl.col("seconds").sum(), pl.len().alias("calls")
    )
    world = max(threads, int(worlds["size"].max() or 0))  # type: ignore[arg-type]
    mean, share = seconds / max(threads, 1), min(busy / seconds, 1.0) if seconds > 0 else 0.0
    volume = sent / (sent + collected) if sent + collected else 0.0
    functions = functions.sort("seconds", "function", descending=[True, False])
    return Communication(
        threads,
        world,
        mean,
        share,
        parts[0],
        parts[1],
        parts[2],
        volume,
        messages,
        collectives,
        functions,
    )


def _calls(trace: Trace, worlds: pl.DataFrame) -> pl.DataFrame:
    """Return the MPI rows with their operation, the call each row represents, its communicator and
    the number of ranks in it.
    """
    stands = same_call(trace)
    row_number = np.arange(trace.mpi.height, dtype=np.int64)
    made = communicators(trace)
    recorded_sizes = trace.mpi_communicators.select(
        "rank", "communicator", "time_ns", "size"
    ).unique(["rank", "communicator", "time_ns"])
    sizes = (
        made.drop_nulls("comm")
        .join(recorded_sizes, on=["rank", "communicator", "time_ns"], how="left")
        .group_by("comm")
    )
    members = sizes.agg(
        members=pl.max_horizontal(pl.col("me").n_unique().cast(pl.Int64), pl.col("size").max())
    )
    called = {
        "does": operation(trace).fill_null(""),
        "function": trace.text(trace.mpi).fill_null(UNNAMED),
    }
    rows = {
        "activity": pl.Series(stands),
        "until": trace.mpi["end_ns"].gather(stands),
        "stands": pl.Series(stands == row_number),
    }
    calls = trace.mpi.with_columns(
        at=pl.Series(row_number), process=process_of(pl.col("thread")), **called, **rows
    )
    return (
        placed(calls, made)
        .join(members, on="comm", how="left", maintain_order="left")
        .join(worlds, on=["process", "communicator"], how="left", maintain_order="left")
        .with_columns(members=pl.max_horizontal("members", "size"))
        .sort("start_ns", "at")
    )


def _worlds(trace: Trace) -> pl.DataFrame:
    """Return the handles of the world's communicator and of its duplicates, with its size: a rank
    there is a rank of the world.

    The meaning of these handles needs no recording of other ranks.  A handle that was made twice is
    left out: it is ambiguous.
    """
    ranks = trace.mpi_ranks.select("rank", process=process_of(pl.col("thread"))).unique()
    made = trace.mpi_communicators.drop_nulls(["rank", "communicator"]).join(
        ranks.unique("rank", keep="none"), on="rank"
    )
    made = made.unique(["process", "communicator"], keep="none")
    worlds = made.filter(
        pl.col("parent").fill_null(0) == 0, pl.col("local_rank") == pl.col("rank")
    ).select("process", "communicator", "size")
    copies = made.filter(pl.col("local_rank").is_null(), pl.col("size").is_null()).select(
        "process", "communicator", "parent"
    )
    copies = copies.join(worlds.rename({"communicator": "parent"}), on=["process", "parent"])
    return pl.concat([worlds, copies.select(worlds.columns)])


def _what() -> pl.Expr:
    """Return the kind of a call: p2p, collective, synchronising, or null for a call that does not
    communicate (MPI_Init).
    """
    kind = pl.coalesce(pl.when(pl.col("kind") == 2).then(pl.col("completes")), pl.col("kind"))
    return (
        pl.when(pl.col("does").str.contains(_SET_UP))
        .then(None)
        .when(pl.col("does").str.contains(_EMPTY))
        .then(pl.lit("synchronising"))
        .when(kind == 1)
        .then(pl.lit("collective"))
        .when((kind == 0) | (kind == 2))
        .then(pl.lit("p2p"))
        .otherwise(pl.lit("synchronising"))
        .alias("what")
    )


def _window(calls: pl.DataFrame, profile: Profile) -> tuple[pl.DataFrame, float]:
    """Return the calls between MPI_Init and MPI_Finalize of each process, and the seconds between
    them, summed over the processes.
    """
    begins = (
        pl.col("end_ns")
        .filter(pl.col("does").str.starts_with("init") & (pl.col("kind") == 3))
        .max()
    )
    ends = pl.col("start_ns").filter(pl.col("does") == "finalize").min()
    bounds = calls.group_by("process").agg(
        begins=begins.fill_null(profile.first_ns), ends=ends.fill_null(profile.last_ns)
    )
    seconds = float((bounds["ends"] - bounds["begins"]).clip(0).sum()) * 1e-9
    inside = calls.join(bounds, on="process").filter(
        pl.col("start_ns") >= pl.col("begins"), pl.col("end_ns") <= pl.col("ends")
    )
    return inside, seconds


def _messages(posts: pl.DataFrame, trace: Trace, worlds: pl.DataFrame) -> pl.DataFrame:
    """Return the sent messages with both ends as ranks of the world."""
    made = communicators(trace)
    members = (
        made.drop_nulls("comm")
        .select("comm", partner="me", target="rank")
        .unique(["comm", "partner"])
    )
    ranks = trace.mpi_ranks.select("rank", process=process_of(pl.col("thread"))).unique(
        "process", keep="none"
    )
    does = pl.col("does")
    exchanges = does.str.contains(_BOTH)
    call = ["thread", "start_ns", "name"]
    messages = posts.filter(pl.col("kind") == 0)
    halves = messages.filter(exchanges).select(
        "at", half=pl.col("end_ns").rank("ordinal").over(call)
    )
    sent = messages.join(halves, on="at", how="left", maintain_order="left").filter(
        does.str.contains(_SENDS) | (exchanges & (pl.col("half") == 1))
    )
    # a null partner with a communicator is MPI_PROC_NULL: no message
    sent = sent.filter(
        pl.col("size_bytes").is_not_null(),
        pl.col("partner").is_not_null() | pl.col("communicator").is_null(),
    )
    return (
        sent.join(members, on=["comm", "partner"], how="left", maintain_order="left")
        .join(ranks.rename({"rank": "source"}), on="process", how="left", maintain_order="left")
        .join(worlds, on=["process", "communicator"], how="left", maintain_order="left")
        .with_columns(
            target=pl.coalesce(
                "target", pl.when(pl.col("partner") < pl.col("size")).then("partner")
            )
        )
        .select("source", "target", "size_bytes")
    )


def off_node_share(
    messages: pl.DataFrame,
    ranks_per_node: int,
    *,
    then: int | None = None,
    mapping: Mapping = "linear",
    ranks: int = 0,
) -> float:
    """Return the share of message bytes that leaves a node.

    Parameters
    ----------
    messages : as `Communication.messages`; a message without both ends is left out.
    ranks_per_node : ranks on every node; rank r is on node r // ranks_per_node (linear) or r mod
        nodes (round robin).
    then : ranks on the new node. If given, only bytes that leave a node now and would stay on the
        new one count.
    ranks : ranks of the run, from which the number of nodes follows; at least as many as the
        messages name.

    >>> messages = pl.DataFrame({"source": [0, 0], "target": [1, 2], "size_bytes": [10, 30]})
    >>> off_node_share(messages, 2), off_node_share(messages, 1), off_node_share(messages, 1, then=2)
    (0.75, 1.0, 0.25)
    """
    placed = messages.drop_nulls(["source", "target"])
    if not placed.height or not (total := int(placed["size_bytes"].sum())):
        return 0.0
    crossing = _crosses(placed, ranks_per_node, mapping, ranks)
    if then is not None:
        crossing &= ~_crosses(placed, then, mapping, ranks)
    return float(placed["size_bytes"].to_numpy()[crossing].sum()) / total


def _crosses(placed: pl.DataFrame, ranks_per_node: int, mapping: Mapping, ranks: int) -> Bool:
    source, target = placed["source"].to_numpy(), placed["target"].to_numpy()
    if mapping == "round robin":
        nodes = -(-max(int(max(source.max(), target.max())) + 1, ranks) // ranks_per_node)
        return np.asarray(source % nodes != target % nodes)
    return np.asarray(source // ranks_per_node != target // ranks_per_node)


def closer(
    profile: Profile,
    *,
    ranks_per_node: int,
    gpus_per_node: int | None = None,
    mapping: Mapping = "linear",
    bandwidth_ratio: float | None = None,
    paths: tuple[Link, Link] | None = None,
    on_node_factor: float | None = None,
    off_node: float | None = None,
    least_bytes: float = 0.0,
) -> Closer:
    """Return the gain of the run from a larger node, from a faster one, or from each of them
    separately.

    Raises A035 where neither section is asked for or an off-node share would be split, A036 and
    A037 for numbers out of range; A153 without MPI; A154 where the recording has no message
    partners and no off-node share is given.

    Parameters
    ----------
    gpus_per_node : ranks on the new node; if left out, all ranks of the run.
    bandwidth_ratio : new over old bandwidth of the path of messages that move onto the node
        (section 8.1).
    paths : instead of a ratio, (latency [s], bandwidth [B/s]) of the path of these messages now and
        of their new path.
    off_node : share of the message bytes that leaves a node, for a recording that does not name
        partners; the new node then holds every rank.
    least_bytes : messages and collectives from this size on are limited by bandwidth; smaller ones
        keep their time.
    """
    if bandwidth_ratio is None and paths is None and on_node_factor is None:
        raise error_of("A035.nothing")
    _checked(
        ranks_per_node, gpus_per_node, bandwidth_ratio, paths, on_node_factor, off_node, least_bytes
    )
    shares = communication(profile)
    then = max(shares.world, ranks_per_node) if gpus_per_node is None else gpus_per_node
    if then < ranks_per_node:
        raise error_of("A037.node", found=f"{then} against {ranks_per_node}")
    if off_node is not None and then < shares.world:
        raise error_of("A035.rest", found=f"{then} of {shares.world} ranks")
    findings: list[Finding] = []
    large = shares.messages.filter(pl.col("size_bytes") >= least_bytes)
    kept = (
        float(large["size_bytes"].sum()) / every
        if (every := float(shares.messages["size_bytes"].sum()))
        else 1.0
    )
    off_node_now, moved = _leaving(shares, large, ranks_per_node, then, mapping, off_node, findings)
    answer: dict[str, Any] = {}
    ratio = bandwidth_ratio
    quickest = quickest_messages(profile.trace)
    sources = [
        name for name, there in (("paths", paths), ("recording", quickest)) if there is not None
    ]
    answer["bytes_from"] = " and ".join(sources) or None
    rank_seconds = shares.ranks * shares.seconds or math.inf

    def taken(sizes: Float) -> Float:
        """Return the most that messages can take by themselves, each as a share of the run time of
        all ranks.
        """
        stated = np.full(len(sizes), np.inf) if paths is None else loggp_seconds(sizes, *paths[0])
        return np.minimum(stated, math.inf if quickest is None else quickest(sizes)) / rank_seconds

    sizes = _moved_sizes(large, ranks_per_node, then, mapping, shares.world)
    if paths is not None:
        ratio = path_ratio(sizes, *paths[0], *paths[1])
    if ratio is not None:
        if sources:
            sent = min(float(taken(sizes).sum()), shares.share * shares.p2p * kept * moved)
            answer["speedup_bytes"] = float(fraction_benefit(sent, ratio))
        speedups = [
            float(fraction_speedup(shares.share, shares.p2p * kept, *how))
            for how in ((moved, ratio), (moved, math.inf), (off_node_now, ratio))
        ]
        answer |= dict(
            zip(
                ("bandwidth_ratio", "speedup", "speedup_bound", "speedup_all"),
                (ratio, *speedups),
                strict=True,
            )
        )
    if on_node_factor is not None:
        parts, of_bytes = _parts(
            shares, large, ranks_per_node, off_node_now, kept, least_bytes, taken
        )
        answer |= {
            "on_node_factor": on_node_factor,
            "parts": parts,
            "share_then": staged_share(parts, on_node_factor),
        }
        answer["share_all"] = staged_share(all_on_node(parts), on_node_factor)
        if sources:
            answer["share_bytes"] = staged_share(of_bytes, on_node_factor)
            answer["share_all_bytes"] = staged_share(all_on_node(of_bytes), on_node_factor)
    return Closer(
        shares,
        ranks_per_node,
        then,
        mapping,
        off_node_now,
        moved,
        least_bytes=least_bytes,
        findings=advised(findings, recorder_of(profile.trace.facts)),
        **answer,
    )


def _checked(
    ranks_per_node: int,
    gpus_per_node: int | None,
    ratio: float | None,
    paths: tuple[Link, Link] | None,
    factor: float | None,
    off_node: float | None,
    least_bytes: float,
) -> None:
    for what, value in (("ranks per node", ranks_per_node), ("GPUs per node", gpus_per_node)):
        if value is not None and not 1 <= value <= MOST_RANKS:
            raise error_of("A037.ranks", found=f"{value:g}", subject=what, most_ranks=MOST_RANKS)
    for what, number in (("the bandwidth ratio", ratio), ("the factor on the node", factor)):
        if number is not None and not number > 0:
            raise error_of("A037.positive", found=f"{number:g}", subject=what)
    for latency, bandwidth in paths or ():
        if not (0 <= latency < math.inf and bandwidth > 0):
            raise error_of("A037.path", found=f"{latency:g} s, {bandwidth:g} B/s")
    if not 0 <= least_bytes < math.inf:
        raise error_of("A037.least", found=f"{least_bytes:g} B")
    if off_node is not None and not 0 <= off_node <= 1:
        raise error_of("A036.share", found=f"{off_node:g}")


def _leaving(
    shares: Communication,
    large: pl.DataFrame,
    ranks_per_node: int,
    then: int,
    mapping: Mapping,
    given: float | None,
    findings: list[Finding],
) -> tuple[float, float]:
    """Return the shares of the bytes of large messages that leave a node now, and that would stay
    on the new node.
    """
    if given is not None:
        return given, given
    unplaced = large["source"].is_null() | large["target"].is_null()
    if unplaced.all() and (large.height or (shares.p2p and not shares.messages.height)):
        raise error_of("A154")
    if unplaced.any():
        findings.append(
            finding(
                "A342",
                int(unplaced.sum()),
                f"{float(large.filter(unplaced)['size_bytes'].sum()) / 1e6:.3g} MB",
            )
        )
    off_node_now = off_node_share(large, ranks_per_node, mapping=mapping, ranks=shares.world)
    return off_node_now, off_node_share(
        large, ranks_per_node, then=then, mapping=mapping, ranks=shares.world
    )


def _moved_sizes(
    large: pl.DataFrame, ranks_per_node: int, then: int, mapping: Mapping, ranks: int
) -> Float:
    placed = large.drop_nulls(["source", "target"])
    if not placed.height:
        return large["size_bytes"].to_numpy().astype(np.float64)
    moved = _crosses(placed, ranks_per_node, mapping, ranks) & ~_crosses(
        placed, then, mapping, ranks
    )
    return placed["size_bytes"].to_numpy()[moved].astype(np.float64)


def quickest_messages(trace: Trace) -> Callable[[Float], Float] | None:
    """Return a function from sizes [B] to upper bounds of message times [s], by the quickest
    recorded messages; None without any.

    A message was moved between the begin of its send and the end of its receive.  So, apart from
    waits, no message of n bytes takes longer than the quickest recorded one of n bytes or more; the
    bound is infinite where none was as large.  Messages whose receive ends before their send, by
    their clocks, are ignored.
    """
    calls, members = described(trace, np.arange(trace.mpi.height, dtype=np.int64))
    pairs = (
        matched(calls, members)[2]
        .drop_nulls(["size_bytes", "done_until_r"])
        .filter(pl.col("done_r") >= 0)
    )
    by_size = (
        pairs.group_by("size_bytes")
        .agg(ns=(pl.col("done_until_r") - pl.col("start_ns")).min())
        .sort("size_bytes")
    )
    if not by_size.height or int(by_size["ns"].min()) <= 0:  # type: ignore[arg-type]
        return None
    sizes = by_size["size_bytes"].to_numpy()
    seconds = np.append(np.minimum.accumulate(by_size["ns"].to_numpy()[::-1])[::-1] * 1e-9, np.inf)
    return lambda asked: seconds[np.searchsorted(sizes, asked)]


def _parts(
    shares: Communication,
    messages: pl.DataFrame,
    ranks_per_node: int,
    off_node_now: float,
    kept: float,
    least_bytes: float,
    taken: Callable[[Float], Float],
) -> tuple[tuple[Staged, ...], tuple[Staged, ...]]:
    """Return the shares of run time that on-node bandwidth limits, by MPI time and by the time that
    the bytes themselves take.

    They are the messages that stay on the node, and collectives by communicator size; each stage of
    a collective is a message.
    """
    parts = (
        [(Staged(shares.share * shares.p2p * kept, 1.0 - off_node_now, 1), messages)]
        if shares.p2p
        else []
    )
    every = float(shares.collective_calls["seconds"].sum())
    large = shares.collective_calls.filter(pl.col("size_bytes") >= max(least_bytes, 1.0))
    for (members,), calls in sorted(
        large.with_columns(pl.col("members").fill_null(shares.world)).group_by("members")
    ):
        on_node, stages = tree_stages(int(members), ranks_per_node)
        if stages and every > 0:
            parts.append(
                (
                    Staged(
                        shares.share * shares.collectives * float(calls["seconds"].sum()) / every,
                        on_node,
                        stages,
                    ),
                    calls,
                )
            )
    by_bytes = (
        part.stages * float(taken(sent["size_bytes"].to_numpy().astype(np.float64)).sum())
        for part, sent in parts
    )
    bounded = tuple(
        part._replace(share=min(part.share, most))
        for (part, _), most in zip(parts, by_bytes, strict=True)
    )
    return tuple(part for part, _ in parts), bounded
