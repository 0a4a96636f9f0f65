"""What GPUs closer to each other would give a recorded MPI run: the shares of Austin et al. 2021, section 8, from its calls.

The share of time in MPI and its split into messages and collectives come from the calls, by name; who talks to whom from the
messages' partners, and which of them leave a node from the placement of ranks that the user gives.  Nothing is assumed: where a
recording does not name the partners, the user says how much leaves the node.

    communication(profile)                            -> Communication, the shares and the messages
    off_node_share(messages, ranks_per_node, ...)     -> share of the bytes that leaves a node
    closer(profile, ...)                              -> Closer, the gain in both of the report's ways
"""

from __future__ import annotations

import math
from collections.abc import Mapping as Mapping_
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.cost.loggp import loggp_seconds
from turnbuckle.cost.ratio import fraction_benefit
from turnbuckle.foundation.errors import CannotAnswer, UsageError
from turnbuckle.foundation.findings import Finding, advised, finding
from turnbuckle.papers.models.node.cost import Staged, all_on_node, fraction_speedup, gain, path_ratio, staged_share, tree_stages
from turnbuckle.profile.messages.mpi_calls import communicators, operation, placed, posted, same_call
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary.summary import UNNAMED
from turnbuckle.trace.ids import process_of
from turnbuckle.trace.intervals import union_ns
from turnbuckle.trace.recorders import recorder_of, what_to_record
from turnbuckle.trace.trace import Trace

Int = NDArray[np.int64]
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
class Communication:
    """What a run spends in MPI, and on what.

    Attributes
    ----------
    ranks : in the recording.
    world : ranks of the whole run, where the recording has its communicators; else those recorded.
    seconds : between MPI_Init and MPI_Finalize, mean over ranks; the run time where they were not recorded.
    share : of that time in MPI calls (c).
    p2p, collectives, synchronising : shares of the MPI time in messages, in collectives with data, and in the rest (barriers,
        communicators); they add up to 1.
    p2p_volume : share of the bytes sent in messages.
    messages : one row a sent message: source and target (ranks of the world, null where they cannot be told), size_bytes.
    collective_calls : one row a collective call of a rank: function, members, size_bytes, seconds.
    functions : one row a function: function, what (p2p, collective, synchronising), seconds over all ranks, calls.
    """

    ranks: int
    world: int
    seconds: float
    share: float
    p2p: float
    collectives: float
    synchronising: float
    p2p_volume: float
    messages: pl.DataFrame
    collective_calls: pl.DataFrame
    functions: pl.DataFrame

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "ranks": self.ranks,
            "world_ranks": self.world,
            "seconds": self.seconds,
            "communication_share": self.share,
            "p2p_share": self.p2p,
            "collective_share": self.collectives,
            "synchronising_share": self.synchronising,
            "p2p_volume_share": self.p2p_volume,
            "messages": self.messages.height,
            "message_bytes": int(self.messages["size_bytes"].sum()),
            "functions": self.functions.to_dicts(),
        }


def recorded_placement(facts: Mapping_[str, Any]) -> tuple[int, Mapping] | None:
    """Ranks on a node, and how ranks are dealt to nodes, where the recording tells the node of each rank and they are dealt so.

    >>> recorded_placement({"node_of_rank": {"0": 5, "1": 5, "2": 7, "3": 7}})
    (2, 'linear')
    """
    node_of = {int(rank): node for rank, node in (facts.get("node_of_rank") or {}).items()}
    if sorted(node_of) != list(range(len(node_of))) or not node_of:
        return None
    nodes = [node_of[rank] for rank in range(len(node_of))]
    number = {node: i for i, node in enumerate(dict.fromkeys(nodes))}
    order, count = [number[node] for node in nodes], len(number)
    each = -(-len(order) // count)
    if order == [rank // each for rank in range(len(order))]:
        return each, "linear"
    return (each, "round robin") if order == [rank % count for rank in range(len(order))] else None


@dataclass(frozen=True)
class Closer:
    """What a run would gain from GPUs closer to each other.

    Attributes
    ----------
    of : the shares it rests on.
    ranks_per_node, gpus_per_node : ranks on a node now, and on the new node.
    off_node : share of the message bytes that leaves a node now; None where nobody knows.
    moved : share that leaves a node now and would not then.
    least_bytes : size from which bandwidth limits messages and collectives [B]; shares of bytes are of these.
    bandwidth_ratio : of the path that the moved messages take, new over old; with latencies where both paths are given.
    speedup, speedup_bound : run time now over then (section 8.1), and with a path that costs nothing.
    speedup_all : the same with every rank on one node.
    speedup_bytes : with the time that the moved messages themselves take on both paths, where the paths are given: what is left
        of MPI time is waiting for ranks that come late, and no path shortens it.
    on_node_factor : bandwidth on the node, new over old.
    parts : shares of run time that bandwidth limits, with their stages (section 8.2).
    share_then, share_all : run time then as a share of now, and with every stage on the node.
    """

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
    speedup_bytes: float | None = None
    on_node_factor: float | None = None
    parts: tuple[Staged, ...] = ()
    share_then: float | None = None
    share_all: float | None = None
    findings: list[Finding] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """For JSON, without schema version."""
        fractions = None if self.bandwidth_ratio is None else {
            "bandwidth_ratio": self.bandwidth_ratio, "off_node_share": self.off_node, "moved_share": self.moved,
            "speedup": self.speedup, "speedup_bound": self.speedup_bound, "speedup_all_on_node": self.speedup_all,
            "speedup_of_bytes": self.speedup_bytes,
        }  # fmt: skip
        stages = None if self.share_then is None or self.share_all is None else {
            "on_node_factor": self.on_node_factor, "parts": [p._asdict() for p in self.parts],
            "run_time_share": self.share_then, "gain": float(gain(1.0, self.share_then)),
            "run_time_share_all_on_node": self.share_all, "gain_all_on_node": float(gain(self.share_then, self.share_all)),
        }  # fmt: skip
        return {
            "communication": self.of.as_dict(),
            "placement": {
                "ranks_per_node": self.ranks_per_node,
                "gpus_per_node": self.gpus_per_node,
                "mapping": self.mapping,
                "least_size_bytes": self.least_bytes,
            },
            "fractions": fractions,
            "stages": stages,
            "findings": [f.as_dict() for f in self.findings],
        }


def communication(profile: Profile) -> Communication:
    """Shares of run time and of bytes by kind of MPI call.

    A wait or test counts as the message or collective that it completes; the time of a call is all of it, the wait for a rank
    that comes late included.

    Raises
    ------
    CannotAnswer : A153 where the recording holds no MPI calls.
    """
    trace = profile.trace
    if not trace.mpi.height or not (trace.mpi["kind"] <= 2).any():
        raise CannotAnswer(
            "A153", "the recording holds no MPI communication", where=trace.name,
            fix=f"{what_to_record('ranks', trace.facts)}; or give the shares: --communication, --p2p, --off-node",
        )  # fmt: skip
    worlds = _worlds(trace)
    calls = _calls(trace, worlds)
    posts = _posts(calls)
    # what a wait completes, a message before a collective
    done = posts.filter(pl.col("done") >= 0).sort("kind").unique("done", keep="first").select(at="done", completes="kind")
    calls = calls.join(done, on="at", how="left", maintain_order="left").with_columns(_what())
    threads = calls["process"].n_unique()
    window, seconds = _window(calls, profile)
    inside = window.filter("stands", pl.col("what").is_not_null())
    busy = sum(int(union_ns(p["start_ns"].to_numpy(), p["end_ns"].to_numpy())) for _, p in inside.group_by("process")) * 1e-9
    took = inside.with_columns(seconds=(pl.col("end_ns") - pl.col("start_ns")) * 1e-9)
    by_what = dict(took.group_by("what").agg(pl.col("seconds").sum()).iter_rows())
    every = sum(by_what.values())
    parts = [by_what.get(what, 0.0) / every if every > 0 else 0.0 for what in ("p2p", "collective", "synchronising")]
    messages = _messages(posts, trace, worlds)
    collectives = took.filter(pl.col("kind") == 1, ~pl.col("does").str.contains(_EMPTY)).select(
        "function", "members", pl.max_horizontal("size_bytes", "receive_bytes").fill_null(0).alias("size_bytes"), "seconds"
    )
    sent, collected = (int(f["size_bytes"].sum()) for f in (messages, collectives))
    functions = took.group_by("function", "what").agg(pl.col("seconds").sum(), pl.len().alias("calls"))
    world = max(threads, int(worlds["size"].max() or 0))  # type: ignore[arg-type]
    return Communication(
        threads, world, seconds / max(threads, 1), min(busy / seconds, 1.0) if seconds > 0 else 0.0, parts[0], parts[1], parts[2],
        sent / (sent + collected) if sent + collected else 0.0, messages, collectives,
        functions.sort("seconds", "function", descending=[True, False]),
    )  # fmt: skip


def _calls(trace: Trace, worlds: pl.DataFrame) -> pl.DataFrame:
    """MPI rows with what they do, whose call they stand for, the communicator they run on and how many ranks it has."""
    stands = same_call(trace)
    at = np.arange(trace.mpi.height, dtype=np.int64)
    made = communicators(trace)
    told = trace.mpi_communicators.select("rank", "communicator", "time_ns", "size").unique(["rank", "communicator", "time_ns"])
    sizes = made.drop_nulls("comm").join(told, on=["rank", "communicator", "time_ns"], how="left").group_by("comm")
    members = sizes.agg(members=pl.max_horizontal(pl.col("me").n_unique().cast(pl.Int64), pl.col("size").max()))
    calls = trace.mpi.with_columns(
        at=pl.Series(at), process=process_of(pl.col("thread")), does=operation(trace).fill_null(""),
        activity=pl.Series(stands), until=trace.mpi["end_ns"].gather(stands), stands=pl.Series(stands == at),
        function=trace.text(trace.mpi).fill_null(UNNAMED),
    )  # fmt: skip
    return (
        placed(calls, made)
        .join(members, on="comm", how="left", maintain_order="left")
        .join(worlds, on=["process", "communicator"], how="left", maintain_order="left")
        .with_columns(members=pl.max_horizontal("members", "size"))
        .sort("start_ns", "at")
    )


def _worlds(trace: Trace) -> pl.DataFrame:
    """Handles of the world's communicator and of duplicates of it, with its size: a rank there is a rank of the world.

    What a handle means is known here without the other ranks' recordings.  One that was made twice may mean something else.
    """
    ranks = trace.mpi_ranks.select("rank", process=process_of(pl.col("thread"))).unique()
    made = trace.mpi_communicators.drop_nulls(["rank", "communicator"]).join(ranks.unique("rank", keep="none"), on="rank")
    made = made.unique(["process", "communicator"], keep="none")
    own = made.filter(pl.col("parent").fill_null(0) == 0, pl.col("local_rank") == pl.col("rank")).select("process", "communicator", "size")
    copies = made.filter(pl.col("local_rank").is_null(), pl.col("size").is_null()).select("process", "communicator", "parent")
    copies = copies.join(own.rename({"communicator": "parent"}), on=["process", "parent"])
    return pl.concat([own, copies.select(own.columns)])


def _posts(calls: pl.DataFrame) -> pl.DataFrame:
    """Messages and collectives as begun, each with the call that completes it; persistent ones once a start."""
    return posted(calls.drop("stands", "function", "members", "size"))


def _what() -> pl.Expr:
    """Kind of a call: p2p, collective, synchronising, or null for what is no communication (MPI_Init)."""
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
    """Calls between each process's MPI_Init and MPI_Finalize, and the seconds between them, over all processes."""
    begins = pl.col("end_ns").filter(pl.col("does").str.starts_with("init") & (pl.col("kind") == 3)).max()
    ends = pl.col("start_ns").filter(pl.col("does") == "finalize").min()
    bounds = calls.group_by("process").agg(begins=begins.fill_null(profile.first_ns), ends=ends.fill_null(profile.last_ns))
    seconds = float((bounds["ends"] - bounds["begins"]).clip(0).sum()) * 1e-9
    inside = calls.join(bounds, on="process").filter(pl.col("start_ns") >= pl.col("begins"), pl.col("end_ns") <= pl.col("ends"))
    return inside, seconds


def _messages(posts: pl.DataFrame, trace: Trace, worlds: pl.DataFrame) -> pl.DataFrame:
    """Sent messages with both ends as ranks of the world."""
    made = communicators(trace)
    members = made.drop_nulls("comm").select("comm", partner="me", target="rank").unique(["comm", "partner"])
    ranks = trace.mpi_ranks.select("rank", process=process_of(pl.col("thread"))).unique("process", keep="none")
    does = pl.col("does")
    both = does.str.contains(_BOTH)
    call = ["thread", "start_ns", "name"]
    mine = posts.filter(pl.col("kind") == 0)
    halves = mine.filter(both).select("at", half=pl.col("end_ns").rank("ordinal").over(call))
    sent = mine.join(halves, on="at", how="left", maintain_order="left").filter(does.str.contains(_SENDS) | (both & (pl.col("half") == 1)))
    # a null partner with a communicator is MPI_PROC_NULL: no message
    sent = sent.filter(pl.col("size_bytes").is_not_null(), pl.col("partner").is_not_null() | pl.col("communicator").is_null())
    return (
        sent.join(members, on=["comm", "partner"], how="left", maintain_order="left")
        .join(ranks.rename({"rank": "source"}), on="process", how="left", maintain_order="left")
        .join(worlds, on=["process", "communicator"], how="left", maintain_order="left")
        .with_columns(target=pl.coalesce("target", pl.when(pl.col("partner") < pl.col("size")).then("partner")))
        .select("source", "target", "size_bytes")
    )


def off_node_share(
    messages: pl.DataFrame, ranks_per_node: int, *, then: int | None = None, mapping: Mapping = "linear", ranks: int = 0
) -> float:
    """Share of the bytes of messages that leaves a node.

    Parameters
    ----------
    messages : as `Communication.messages`; those without both ends are left out.
    ranks_per_node : on every node; rank r is on node r // ranks_per_node (linear) or r mod nodes (round robin).
    then : ranks on the new node: only what leaves a node now and would not then counts.
    ranks : of the run, for their number of nodes; as many as the messages name, at least.

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


def _crosses(placed: pl.DataFrame, ranks_per_node: int, mapping: Mapping, ranks: int) -> NDArray[np.bool_]:
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
    """What the run gains from a larger node, from a faster one, or from both asked apart.

    Parameters
    ----------
    ranks_per_node : ranks on a node now.
    gpus_per_node : ranks on the new node; all of them where left out.
    bandwidth_ratio : off-node messages that come to lie inside a node get a path so many times faster (section 8.1).
    paths : instead of it, (latency [s], bandwidth [B/s]) of the path they take now and of the one they would take.
    on_node_factor : bandwidth on the node, new over old (section 8.2).
    off_node : share of the message bytes that leaves a node, for a recording that does not name partners; the new node then holds
        every rank.
    least_bytes : messages and collectives from this size on are limited by bandwidth; smaller ones keep their time.

    Raises
    ------
    UsageError : A035 where neither way is asked for or an off-node share is split again, A036 and A037 for numbers that cannot be.
    CannotAnswer : A153 without MPI; A154 where the placement is not known and nobody says what leaves a node.
    """
    if bandwidth_ratio is None and paths is None and on_node_factor is None:
        raise UsageError(
            "A035", "nothing is asked to become faster",
            fix="--bandwidth-ratio for messages that move onto a larger node, --on-node-factor for a faster node",
        )  # fmt: skip
    _checked(ranks_per_node, gpus_per_node, bandwidth_ratio, paths, on_node_factor, off_node, least_bytes)
    of = communication(profile)
    then = max(of.world, ranks_per_node) if gpus_per_node is None else gpus_per_node
    if then < ranks_per_node:
        raise UsageError(
            "A037", "the new node holds fewer ranks than today's", found=f"{then} against {ranks_per_node}",
            fix="this asks for closer GPUs: give as many GPUs per node as ranks per node, or more",
        )  # fmt: skip
    if off_node is not None and then < of.world:
        raise UsageError(
            "A035", "which part of --off-node stays on a node of so few ranks nobody knows", found=f"{then} of {of.world} ranks",
            fix="leave out --gpus-per-node: --off-node is what leaves the node now and stays on the new one",
        )  # fmt: skip
    found: list[Finding] = []
    large = of.messages.filter(pl.col("size_bytes") >= least_bytes)
    kept = float(large["size_bytes"].sum()) / every if (every := float(of.messages["size_bytes"].sum())) else 1.0
    leaves, moved = _leaving(of, large, ranks_per_node, then, mapping, off_node, found)
    answer: dict[str, Any] = {}
    ratio = bandwidth_ratio
    if paths is not None:
        sizes = _moved_sizes(large, ranks_per_node, then, mapping, of.world)
        ratio = path_ratio(sizes, *paths[0], *paths[1])
        rank_seconds = of.ranks * of.seconds
        sent = float(loggp_seconds(sizes, *paths[0]).sum()) / rank_seconds if rank_seconds else 0.0
        answer["speedup_bytes"] = float(fraction_benefit(min(sent, of.share * of.p2p * moved), ratio))
    if ratio is not None:
        speedups = [float(fraction_speedup(of.share, of.p2p * kept, *how)) for how in ((moved, ratio), (moved, math.inf), (leaves, ratio))]
        answer |= dict(zip(("bandwidth_ratio", "speedup", "speedup_bound", "speedup_all"), (ratio, *speedups), strict=True))
    if on_node_factor is not None:
        parts = _parts(of, ranks_per_node, leaves, kept, least_bytes)
        answer |= {"on_node_factor": on_node_factor, "parts": parts, "share_then": staged_share(parts, on_node_factor)}
        answer["share_all"] = staged_share(all_on_node(parts), on_node_factor)
    return Closer(
        of,
        ranks_per_node,
        then,
        mapping,
        leaves,
        moved,
        least_bytes=least_bytes,
        findings=advised(found, recorder_of(profile.trace.facts)),
        **answer,
    )


def _checked(
    ranks_per_node: int, gpus_per_node: int | None, ratio: float | None, paths: tuple[Link, Link] | None, factor: float | None,
    off_node: float | None, least_bytes: float,
) -> None:  # fmt: skip
    for what, value in (("ranks per node", ranks_per_node), ("GPUs per node", gpus_per_node)):
        if value is not None and not 1 <= value <= MOST_RANKS:
            raise UsageError("A037", f"{what} must be 1 or more, and no more than {MOST_RANKS:,}", found=f"{value:g}")
    for what, number in (("the bandwidth ratio", ratio), ("the factor on the node", factor)):
        if number is not None and not number > 0:
            raise UsageError("A037", f"{what} must be above 0", found=f"{number:g}", fix="above 1 is faster")
    for latency, bandwidth in paths or ():
        if not (0 <= latency < math.inf and bandwidth > 0):
            raise UsageError("A037", "a path has a latency of 0 or more and a bandwidth above 0", found=f"{latency:g} s, {bandwidth:g} B/s")
    if not 0 <= least_bytes < math.inf:
        raise UsageError("A037", "the least size must be 0 or more", found=f"{least_bytes:g} B")
    if off_node is not None and not 0 <= off_node <= 1:
        raise UsageError("A036", "a share must lie between 0 and 100 %", found=f"{off_node:g}")


def _leaving(
    of: Communication, large: pl.DataFrame, ranks_per_node: int, then: int, mapping: Mapping, given: float | None, found: list[Finding]
) -> tuple[float, float]:
    """Shares of the bytes of large messages that leave a node now, and that would not then."""
    if given is not None:
        return given, given
    lost = large["source"].is_null() | large["target"].is_null()
    if lost.all() and (large.height or (of.p2p and not of.messages.height)):
        raise CannotAnswer(
            "A154", "the recording does not say between which ranks its messages went",
            cause="their partners, ranks or communicators were not recorded",
            fix="say how much of the message volume leaves a node: --off-node 25%",
        )  # fmt: skip
    if lost.any():
        found.append(finding("A342", int(lost.sum()), f"{float(large.filter(lost)['size_bytes'].sum()) / 1e6:.3g} MB"))
    leaves = off_node_share(large, ranks_per_node, mapping=mapping, ranks=of.world)
    return leaves, off_node_share(large, ranks_per_node, then=then, mapping=mapping, ranks=of.world)


def _moved_sizes(large: pl.DataFrame, ranks_per_node: int, then: int, mapping: Mapping, ranks: int) -> NDArray[np.float64]:
    placed = large.drop_nulls(["source", "target"])
    if not placed.height:
        return large["size_bytes"].to_numpy().astype(np.float64)
    moved = _crosses(placed, ranks_per_node, mapping, ranks) & ~_crosses(placed, then, mapping, ranks)
    return placed["size_bytes"].to_numpy()[moved].astype(np.float64)


def _parts(of: Communication, ranks_per_node: int, leaves: float, kept: float, least_bytes: float) -> tuple[Staged, ...]:
    """Shares of run time that bandwidth on the node limits: the messages that stay on it, and every size of communicator."""
    parts = [Staged(of.share * of.p2p * kept, 1.0 - leaves, 1)] if of.p2p else []
    every = float(of.collective_calls["seconds"].sum())
    large = of.collective_calls.filter(pl.col("size_bytes") >= max(least_bytes, 1.0))
    by_size = large.with_columns(members=pl.col("members").fill_null(of.world)).group_by("members").agg(pl.col("seconds").sum())
    for members, seconds in by_size.sort("members").iter_rows():
        on_node, stages = tree_stages(int(members), ranks_per_node)
        if stages and every > 0:
            parts.append(Staged(of.share * of.collectives * float(seconds) / every, on_node, stages))
    return tuple(parts)
