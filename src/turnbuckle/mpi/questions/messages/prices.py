"""Prices of messages and collectives on a network: what a timeline of kernels, copies and messages takes from this room.

Every price is a replay of the one message, or of the one collective whose members begin together, by the contention engine: the parameters
and the costs are those of `turnbuckle model messages`.  By `flow` and `packet` messages can also be priced together (`Prices.shared`).
Collectives that ran as kernels of NCCL or RCCL have a closed form (`turnbuckle.cost.collectives`), with the bandwidths of the same network
and its nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import polars as pl

from turnbuckle.cost.collectives import Fabric, collective_seconds
from turnbuckle.foundation.arrays import Bool, Float, Int
from turnbuckle.foundation.errors import error_of
from turnbuckle.mpi.questions.messages.setup import Setup, checked, kind_of, mapped, network_of, with_settings
from turnbuckle.mpi.replay.messages import Messages, Rounds, Traffic, recorded, rounds_of, threads
from turnbuckle.mpi.replay.node_layout import gpus_of, laid_out
from turnbuckle.mpi.replay.program import program
from turnbuckle.profile.dependencies.ranks import rendezvous
from turnbuckle.profile.messages.mpi_calls import Exchanges
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.transfers import LinkFit
from turnbuckle.projection.elsewhere.network import Prices
from turnbuckle.projection.elsewhere.shared_gpus import SharedGpus
from turnbuckle.replay.contention.contention import replay
from turnbuckle.replay.contention.network import Network, Node, Wire
from turnbuckle.replay.contention.network_file import read_network
from turnbuckle.trace.ids import process_of

#: Settings of `Setup` that change the price of a message alone, and so of a timeline.
_HARDWARE: Final = ("ranks_per_node", "gpus_per_node", "mapping", "seed", "card_bandwidth", "hop_seconds", "inside_bandwidth")
SETTINGS: Final = (*_HARDWARE, "overhead_seconds", "overhead_bandwidth", "gap_seconds", "handshake", "collectives", "fidelity")
#: Those that change the price of a collective between GPUs besides.
GPU_SETTINGS: Final = ("cards", "peer_bandwidth", "link_bandwidth")
#: Bandwidth where the messages of a recording show none [B/s].
_UNLIMITED: Final = 1e15
#: Ranks of messages and collectives that are priced in one replay.
_AT_ONCE: Final = 8192


@dataclass(frozen=True)
class _Exchanged:
    """Messages and collectives of MPI as every network prices them; activities by their number among those of the profile.

    Attributes
    ----------
    profile : the recording.
    rank, ranks : rank of each activity, -1 for none, and how many there are.
    sender, receiver, sent : ranks of each message, and the instant of its begin in the graph, shape (messages,).
    size, ready : bytes of each message, and whether it waits for its receive.
    rounds : collectives.
    kernels : kernels of ranks: their activity `i`, `rank`, and the rank's `own` number of their device.
    """

    profile: Profile
    rank: Int
    ranks: int
    sender: Int
    receiver: Int
    sent: Int
    size: Float
    ready: Bool
    rounds: Sequence[Rounds]
    kernels: pl.DataFrame

    @classmethod
    def of(cls, profile: Profile, rows: pl.DataFrame, matched: Exchanges) -> _Exchanged:
        """Number the ranks of a recording, and find what each message and collective asks of a network."""
        mpi = rows.with_row_index("i").filter(pl.col("category").cast(pl.String) == "mpi")
        number, rank_of = threads(profile.trace, mpi)
        rank = np.full(rows.height, -1, dtype=np.int64)
        rank[mpi["i"].to_numpy()] = rank_of[[number[t] for t in mpi["thread"].to_list()]]
        pairs = matched.messages
        size = pairs.select(pl.min_horizontal("size_bytes", "size_bytes_r").fill_null(0).clip(0)).to_series().to_numpy().astype(np.float64)
        send, receive = (pairs[c].to_numpy() for c in ("activity", "activity_r"))
        rounds, _ = rounds_of(matched, np.arange(rows.height), profile.trace)
        kernels = _kernels_of(rows, {process_of(t): int(rank_of[n]) for t, n in number.items()})
        sent = 2 * send.astype(np.int64).clip(0) + 1
        ends: tuple[Int, Int, Int] = (rank[send], rank[receive], sent)
        return cls(profile, rank, int(rank_of.max(initial=0)) + 1, *ends, size, rendezvous(pairs).to_numpy(), rounds, kernels)


def _kernels_of(rows: pl.DataFrame, rank_of_process: Mapping[int, int]) -> pl.DataFrame:
    kernels = rows.select("process", "device", kind=pl.col("kind").cast(pl.String)).with_row_index("i").filter(pl.col("kind") == "kernel")
    kernels = kernels.filter(pl.col("process").is_in(list(rank_of_process)))
    rank = kernels["process"].replace_strict(rank_of_process, return_dtype=pl.Int64)
    own = pl.col("device").fill_null(0).rank("dense").over("process").cast(pl.Int64) - 1
    return kernels.with_columns(rank=rank, own=own).select("i", "rank", "own")


def prices(
    profile: Profile, rows: pl.DataFrame, matched: Exchanges | None, sized: pl.DataFrame
) -> Callable[[str, Sequence[str], LinkFit | None, float | None], Prices]:
    """Return the function that prices the messages and collectives of a recording on a network.

    Parameters
    ----------
    rows, matched : activities of the profile, and their exchanges; None where no rank made MPI calls.
    sized : collectives that ran as kernels, as `turnbuckle.profile.messages.collective_kernels` has them.

    Returns
    -------
    Function of a network, by name or file, empty for the one that the recording itself shows; of settings that replace what the network
    says, as ``name=value``; of what the recording's own messages show; and of the bandwidth that its collective kernels reach [B/s].
    It raises UsageError : A050, an unknown network; A074, A091, A092, an impossible setup; A081, a setting that does not exist; A099, a
    setting that has no part in it.  CannotAnswer : A193, the recording shows no network, and none is named.
    """
    exchanged = None if matched is None else _Exchanged.of(profile, rows, matched)
    return partial(_priced, profile, exchanged, sized)


def _priced(
    profile: Profile,
    exchanged: _Exchanged | None,
    sized: pl.DataFrame,
    name: str,
    words: Sequence[str],
    observed: LinkFit | None,
    bandwidth: float | None,
) -> Prices:
    kernels = sized.height > 0
    setup = _setup(name, words, observed, bandwidth if kernels else None, kernels)
    network = network_of(setup, 1)
    label = read_network(setup.network).name if setup.network else "observed"
    reached = network.bandwidth if network.bandwidth < _UNLIMITED else None
    costs: dict[str, Any] = {"latency_s": network.latency, "hop_s": network.hop_seconds, "overhead_s": setup.overhead_seconds}
    made = Prices(name=label, bandwidth=reached, nodes=1, **costs)
    if kernels:
        stated = any(word.partition("=")[0].strip() == "ranks_per_node" for word in words)
        fabric = _fabric(setup, network, profile, setup.ranks_per_node if stated else 0, None if name else bandwidth)
        nodes = max(-(-int(sized["ranks"].max()) // fabric.ranks_per_node), 1)  # type: ignore[arg-type]
        made = replace(made, fabric=fabric, nodes=nodes, kernel_seconds=_kernels(sized, fabric))
    return made if exchanged is None else _with_exchanges(made, exchanged, setup)


def _with_exchanges(made: Prices, of: _Exchanged, setup: Setup) -> Prices:
    """Add the prices of messages and collectives of MPI."""
    node = mapped(recorded(of.profile) if setup.mapping == "greedy" else _nothing(of.ranks), setup)
    near = node[of.sender] == node[of.receiver]
    priced = [_collectives(group, node[of.rank[group.activity]], setup) for group in of.rounds]
    call = np.concatenate([np.zeros(0, dtype=np.int64), *(group.activity.reshape(-1) for group in of.rounds)])
    alone = np.concatenate([np.zeros(0), *(p.reshape(-1) for p in priced)])

    def together(instants: Float) -> tuple[Float, Float]:
        return _together(of, node, setup, instants, alone)

    return replace(
        made,
        nodes=max(int(node.max(initial=0)) + 1, made.nodes),
        message_seconds=_messages(of.size, near, of.ready, setup),
        call=call,
        call_seconds=alone,
        gpus=_shared_gpus(of.kernels, node, setup),
        shared=None if setup.fidelity == "logp" else together,
    )


def _shared_gpus(kernels: pl.DataFrame, node: Int, setup: Setup) -> SharedGpus | None:
    """Return the kernels of ranks that share a GPU; None where none does."""
    if kernels.is_empty():
        return None
    placed = gpus_of(node, network_of(setup, 1).made_of, int(kernels["own"].max()) + 1)  # type: ignore[arg-type]
    gpu, ranks = placed[kernels["rank"].to_numpy(), kernels["own"].to_numpy()], kernels["rank"].to_numpy()
    users = np.unique(np.stack([gpu, ranks], axis=1)[gpu >= 0], axis=0)[:, 0]
    busy, count = np.unique(users, return_counts=True)
    shared = np.isin(gpu, busy[count > 1])
    if not shared.any():
        return None
    return SharedGpus(kernels["i"].to_numpy()[shared].astype(np.int64), gpu[shared], ranks[shared], int(count.max()))


def _fabric(setup: Setup, network: Network, profile: Profile, stated: int, observed: float | None) -> Fabric:
    """Return what carries the collectives of GPUs: a named network and its nodes, or the bandwidth that the recording shows.

    A node holds as many ranks as is stated; else as the recording's node has GPUs, and the network's, whichever are fewer.
    """
    made = network.made_of
    recorded_gpus = profile.trace.devices["device"].n_unique()
    network_gpus = len(made.parts_of("gpu")) if setup.network else 0
    each = stated or min((count for count in (recorded_gpus if recorded_gpus > 1 else 0, network_gpus) if count), default=1)
    latency = network.latency + network.send_overhead + network.receive_overhead
    if observed is not None:
        return Fabric(latency, network.bandwidth, 1, (observed,), True, each)
    from_gpu = [w for w in made.wires if made.parts[w.source] == "gpu 0" and w.source != w.target]
    peers, links = ([w for w in from_gpu if kind_of(made, w) == kind] for kind in ("peer", "link"))
    direct = sorted((w.bandwidth for w in peers if w.target in made.parts_of("gpu")), reverse=True)
    switched = sum(w.bandwidth for w in peers if w.target not in made.parts_of("gpu"))
    wires = (switched,) if switched else tuple(direct) or (sum(w.bandwidth for w in links) or max(w.bandwidth for w in made.wires),)
    through_host = reached_through_host(made, peers, links)
    return Fabric(latency, network.bandwidth, max(len(made.cards), 1), wires, bool(peers), each, through_host)


def reached_through_host(made: Node, peers: Sequence[Wire], links: Sequence[Wire]) -> bool:
    """Return whether a GPU reaches those of its node through the memory of their host alone.

    So it does without wires to its peers, where no switch joins its links with theirs (NVIDIA/nccl-tests issue 250).

    Parameters
    ----------
    peers, links : wires of that GPU to other GPUs, and to the host.
    """
    if peers or not links:
        return False
    switches = {w.target for w in links if made.parts[w.target].startswith("switch")}
    others = {w.source for w in made.wires if w.target in switches and made.parts[w.source].startswith("gpu")}
    return not others - {w.source for w in links}


def _kernels(sized: pl.DataFrame, fabric: Fabric) -> Float:
    """Return the time of each collective kernel alone [s]."""
    columns = ("operation", "size_bytes", "ranks", "stride", "first", "algorithm", "protocol")
    kinds = sized.select(columns).unique(maintain_order=True)
    seconds = [
        collective_seconds(does, float(size), ranks, fabric, stride=stride, first=first, algorithm=algorithm, protocol=protocol)
        for does, size, ranks, stride, first, algorithm, protocol in kinds.iter_rows()
    ]
    priced = kinds.with_columns(seconds=pl.Series(seconds, dtype=pl.Float64))
    return sized.join(priced, on=columns, how="left", maintain_order="left")["seconds"].to_numpy()


def _setup(name: str, words: Sequence[str], observed: LinkFit | None, bandwidth: float | None, kernels: bool) -> Setup:
    """Return the setup by which messages are priced; `kernels` says whether collectives of GPUs are among them."""
    names = (*SETTINGS, *GPU_SETTINGS) if kernels else SETTINGS
    for word in words:
        setting = word.partition("=")[0].strip()
        if setting in Setup.__dataclass_fields__ and setting not in names:
            raise error_of("A099.timeline", found=setting, known=", ".join(names))
    plain = Setup(path="host", fidelity="logp", network=name)
    if not name and observed is None and bandwidth is None:
        raise error_of("A193.messages")
    if not name and observed is None:
        plain = replace(plain, overhead_seconds=0.0, hop_seconds=0.0, card_bandwidth=bandwidth)
    elif not name:
        assert observed is not None
        # the fitted constant holds both overheads
        overhead = min(plain.overhead_seconds, observed.latency_s / 2)
        plain = replace(
            plain, overhead_seconds=overhead, hop_seconds=observed.latency_s / 2 - overhead, card_bandwidth=observed.bandwidth or _UNLIMITED
        )
    return checked(with_settings(plain, words))


def _nothing(ranks: int) -> Traffic:
    """Return the traffic of ranks that do nothing."""
    none = np.zeros(0, dtype=np.int64)
    return Traffic(ranks, none, np.zeros(0), np.zeros(0), np.zeros(ranks), Messages(none, none, none, none, none, np.zeros(0)), (), 0.0, 0)


def _messages(size: Float, near: Bool, ready: Bool, setup: Setup) -> Float:
    """Return the time of each message from the begin of its send to the end of its receive, which waits for it [s]."""
    kinds, kind = np.unique(np.column_stack([size, near, ready]), axis=0, return_inverse=True)
    seconds = np.zeros(len(kinds))
    at_once = _at_once(setup, 2)
    for first in range(0, len(kinds), at_once):
        some = slice(first, first + at_once)
        sizes, inside, waits = kinds[some].T
        send = 2 * np.arange(len(sizes))
        none = np.full(len(sizes), -1)
        messages = Messages(send, none, send + 1, send + 1, none, sizes, waits.astype(np.bool_))
        node = np.stack([send, send + (inside == 0)], axis=1).reshape(-1)
        seconds[some] = _ends(replace(_alone(2 * len(sizes)), messages=messages), node, setup)[1::2]
    return seconds[kind.reshape(-1)]


def _at_once(setup: Setup, ranks: int) -> int:
    """Return how many exchanges of so many ranks are priced in one replay: each has nodes of its own, as far as the machine has nodes."""
    nodes = read_network(setup.network).nodes if setup.network else 0
    return max(min(nodes or _AT_ONCE, _AT_ONCE) // ranks, 1)


def _together(of: _Exchanged, node: Int, setup: Setup, instants: Float, alone: Float) -> tuple[Float, Float]:
    """Return the time of each message, and of each member's collective, where all begin at given instants and share the network [s].

    Parameters
    ----------
    instants : all instants of the graph [s].
    alone : time of each member's collective alone [s].

    Every end of a message, and every member of a collective, is a thread of its rank, so that only links hold them up.
    """
    count, begins = len(of.size), instants[of.sent]
    send, receive, none = np.arange(count), count + np.arange(count), np.full(count, -1)
    members, member_begins, groups = [of.rank[:0]], [begins[:0]], []
    for group in of.rounds:
        first = 2 * count + sum(map(len, members))
        calls = first + np.arange(group.activity.size).reshape(group.activity.shape)
        groups.append(Rounds(group.operation, group.block_bytes, calls, group.root))
        members.append(of.rank[group.activity.reshape(-1)])
        member_begins.append(instants[2 * _begun(group).reshape(-1) + 1])
    gaps = np.concatenate([begins, np.zeros(count), *member_begins])
    messages = Messages(send, none, receive, receive, none, of.size, of.ready)
    rank_of = np.concatenate([of.sender, of.receiver, *members])
    world: dict[str, Any] = {"ranks": len(node), "rank_of": rank_of, "rounds": tuple(groups)}
    traffic = replace(_alone(2 * count + sum(map(len, members))), gap_seconds=gaps, messages=messages, **world)
    done = _ends(traffic, node, setup)
    apart = [_apart(group, node[of.rank[group.activity]], instants, setup).reshape(-1) for group in of.rounds]
    return done[count : 2 * count] - begins, alone + np.maximum(done[2 * count :] - np.concatenate([begins[:0], *apart]), 0.0)


def _begun(group: Rounds) -> Int:
    """Return the call that starts each member's collective, shape (instances, members)."""
    return np.where(group.begin >= 0, group.begin, group.activity) if group.begin.size else group.activity


def _apart(group: Rounds, node: Int, instants: Float, setup: Setup) -> Float:
    """Return when each member is done with each collective alone, where its members begin at these instants [s], shape as `node`."""
    done = np.empty(node.shape)
    # every collective has nodes of its own, so that none waits for another; a machine may have no more than so many
    most = (read_network(setup.network).nodes if setup.network else 0) or _AT_ONCE
    places = np.array([np.unique(row, return_inverse=True)[1].reshape(-1) for row in node]).reshape(node.shape)
    used, first = places.max(axis=1) + 1, 0
    while first < len(node):
        last = first + max(int(np.searchsorted(np.cumsum(used[first:]), most, side="right")), 1)
        some = slice(first, last)
        before = np.cumsum(used[some]) - used[some]
        calls = np.arange(done[some].size).reshape(done[some].shape)
        begins = instants[2 * _begun(group)[some].reshape(-1) + 1]
        once = Rounds(group.operation, group.block_bytes[some], calls, group.root)
        traffic = replace(_alone(calls.size), gap_seconds=begins, rounds=(once,))
        done[some] = _ends(traffic, (places[some] + before[:, None]).reshape(-1), setup).reshape(calls.shape)
        first = last
    return done


def _collectives(group: Rounds, node: Int, setup: Setup) -> Float:
    """Return when each member is done with each collective after all have begun together [s], shape (instances, members)."""
    # which members share a node, by the number of the first that stands there
    places, place = np.unique(node, axis=0, return_inverse=True)
    shares = (places[:, :, None] == places[:, None, :]).argmax(axis=2)[place.reshape(-1)]
    kinds, kind = np.unique(np.column_stack([group.block_bytes, shares]), axis=0, return_inverse=True)
    blocks, shares = kinds[:, 0], kinds[:, 1:].astype(np.int64)
    # by `flow` and `packet` they would meet between their nodes
    at_once = _at_once(setup, shares.shape[1]) if setup.fidelity == "logp" else 1
    seconds = np.zeros(shares.shape)
    for first in range(0, len(kinds), at_once):
        some = slice(first, first + at_once)
        calls = np.arange(shares[some].size).reshape(shares[some].shape)
        once = Rounds(group.operation, blocks[some], calls, group.root)
        # the number of the first member of each node
        where = np.unique(shares[some] + calls[:, :1], return_inverse=True)[1].reshape(-1)
        seconds[some] = _ends(replace(_alone(calls.size), rounds=(once,)), where, setup).reshape(calls.shape)
    return seconds[kind.reshape(-1)]


def _alone(ranks: int) -> Traffic:
    """Return the traffic of ranks that make one call each, at once."""
    return replace(_nothing(ranks), rank=np.arange(ranks), gap_seconds=np.zeros(ranks), kept_seconds=np.zeros(ranks))


def _ends(traffic: Traffic, node: Int, setup: Setup) -> Float:
    """Return when each rank is done [s]."""
    network = network_of(setup, int(node.max(initial=0)) + 1)
    # whether a message waits for its receive is recorded
    made = program(traffic, layout=laid_out(node, network.made_of), eager_limit=np.inf, selection=setup.collectives)
    return replay(made, network, setup.fidelity).ends[: len(traffic.tail_seconds)]
