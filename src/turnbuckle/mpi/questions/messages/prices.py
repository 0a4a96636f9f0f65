"""Prices of messages and collectives on a network: what a timeline of kernels, copies and messages
takes from this room.

Every price is a replay of the one message, or of the one collective whose members begin together,
by the contention engine: the parameters and the costs are those of `turnbuckle model messages`.  By
`flow` and `packet` messages can also be priced together (`Prices.shared`). Collectives that ran as
kernels of NCCL or RCCL have a closed form (`turnbuckle.cost.collectives`), with the bandwidths of
the same network and its nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import polars as pl

from turnbuckle.cost.collectives import Fabric, collective_seconds
from turnbuckle.foundation.arrays import Bool, Float, Int
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.schema import words as vocabulary
from turnbuckle.mpi.questions.messages.setup import (
    Setup,
    charges_of,
    checked,
    driving,
    kind_of,
    mapped,
    network_of,
    with_settings,
)
from turnbuckle.mpi.replay.buffers import RECORDED, assumed, on_device
from turnbuckle.mpi.replay.messages import (
    Memory,
    Messages,
    Rounds,
    Traffic,
    recorded,
    rounds_of,
    threads,
)
from turnbuckle.mpi.replay.node_layout import gpus_of, laid_out
from turnbuckle.mpi.replay.program import EAGER_LIMIT, Charges, all_messages, program
from turnbuckle.profile.dependencies.ranks import rendezvous
from turnbuckle.profile.messages.mpi_calls import ON_DEVICE, Exchanges
from turnbuckle.profile.messages.staging_pairs import StagingPairs, staging_pairs
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.transfers import LinkFit
from turnbuckle.projection.elsewhere.network import OBSERVED, Prices
from turnbuckle.projection.elsewhere.shared_gpus import SharedGpus
from turnbuckle.replay.contention.contention import replay
from turnbuckle.replay.contention.network import Network, Node, Wire
from turnbuckle.replay.contention.network_file import read_network
from turnbuckle.trace.ids import process_of

#: Settings of `Setup` that are no price of a message or collective: other ranks than were recorded,
#: and what computes between calls.
NO_PRICES: Final = ("ranks", "gpu_shared", "compute", "compute_of")
#: Place of a buffer in host memory.
ON_HOST: Final = vocabulary("memories").index("pinned")
_NO_MEMORY: Final[Memory] = np.zeros((0, 2), dtype=np.int8)
#: Bandwidth where the messages of a recording show none [B/s].
UNLIMITED: Final = 1e15
#: Ranks of messages and collectives that are priced in one replay.
_AT_ONCE: Final = 8192


@dataclass(frozen=True)
class _Exchanged:
    """Messages and collectives of MPI as every network prices them; activities by their number
    among those of the profile.

    Attributes
    ----------
    profile : the recording.
    rank, ranks : rank of each activity, -1 for none, and how many there are.
    sender, receiver, sent : ranks of each message, and the instant of its begin in the graph, shape
        (messages,).
    size, ready : bytes of each message, and whether it waits for its receive.
    rounds : collectives.
    kernels : kernels of ranks: their activity `i`, `rank`, and the rank's `own` number of their
        device.
    send, received : activities that send each message, and that complete its receive; -1 for none.
    staged : recorded copies between GPU and host that stage messages.
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
    send: Int
    received: Int
    staged: StagingPairs

    @cached_property
    def traffic(self) -> Traffic:
        """Return the same messages as calls of ranks in their order, which rules about buffers
        speak of.
        """
        return recorded(self.profile)

    @classmethod
    def of(cls, profile: Profile, rows: pl.DataFrame, matched: Exchanges) -> _Exchanged:
        """Number the ranks of a recording, and find what each message and collective asks of a
        network.
        """
        mpi = rows.with_row_index("i").filter(pl.col("category").cast(pl.String) == "mpi")
        number, rank_of = threads(profile.trace, mpi)
        rank = np.full(rows.height, -1, dtype=np.int64)
        rank[mpi["i"].to_numpy()] = rank_of[[number[t] for t in mpi["thread"].to_list()]]
        pairs = matched.messages
        size = (
            pairs.select(pl.min_horizontal("size_bytes", "size_bytes_r").fill_null(0).clip(0))
            .to_series()
            .to_numpy()
            .astype(np.float64)
        )
        send, receive = (pairs[c].to_numpy() for c in ("activity", "activity_r"))
        rounds, _ = rounds_of(matched, np.arange(rows.height), profile.trace)
        kernels = _kernels_of(rows, {process_of(t): int(rank_of[n]) for t, n in number.items()})
        sent = 2 * send.astype(np.int64).clip(0) + 1
        ends: tuple[Int, Int, Int] = (rank[send], rank[receive], sent)
        calls = (send.astype(np.int64), pairs["done_r"].to_numpy().astype(np.int64))
        staged = staging_pairs(rows, profile.trace)
        ranks, waits = int(rank_of.max(initial=0)) + 1, rendezvous(pairs).to_numpy()
        return cls(profile, rank, ranks, *ends, size, waits, rounds, kernels, *calls, staged)

    def copied_ends(self) -> Bool:
        """Return which ends of messages have a recorded copy that stages them, shape
        (messages, 2).
        """
        pairs = self.staged
        of_sends, of_receives = pairs.call[pairs.sends], pairs.call[~pairs.sends]
        return np.stack([np.isin(self.send, of_sends), np.isin(self.received, of_receives)], axis=1)

    def gone(self, near: Bool, setup: Setup) -> Int:
        """Return the recorded copies that no message needs whose data path leads straight from
        device memory.
        """
        direct, pairs = _straight(near, setup), self.staged
        if not direct.any() or not len(pairs):
            return np.zeros(0, dtype=np.int64)
        by_host = np.concatenate([self.send[~direct], self.received[~direct]])
        needed = np.unique(pairs.copy[np.isin(pairs.call, by_host)])
        return np.setdiff1d(pairs.copy, needed)

    def on_device(self, near: Bool, setup: Setup) -> tuple[Bool, list[Bool]]:
        """Return which ends of messages have buffers in device memory, and which members of
        collectives; by the setup's rules.

        An end that a recorded copy stages has its buffer in host memory already, as long as the
        copy is made.
        """
        traffic, rules = self.traffic, setup.buffers
        ends = on_device(rules, traffic, traffic.messages, np.maximum(traffic.messages.send, 0))
        ends &= ~(self.copied_ends() & ~_straight(near, setup)[:, None])
        place = np.zeros(len(self.rank), dtype=np.int64)
        place[traffic.row] = np.arange(len(traffic.row))
        groups = []
        for group in self.rounds:
            call, none = place[group.activity.reshape(-1)], np.full(group.activity.size, -1)
            size = np.repeat(group.block_bytes, group.activity.shape[1])
            memory = (
                np.repeat(group.memory.reshape(-1, 1), 2, axis=1)
                if len(group.memory)
                else group.memory
            )
            members = Messages(call, none, call, call, none, size, memory=memory)
            groups.append(
                on_device(rules, traffic, members, call)[:, 0].reshape(group.activity.shape)
            )
        return ends, groups


def _straight(near: Bool, setup: Setup) -> Bool:
    """Return which messages go straight from device memory, where their buffers are there."""
    if setup.path == "p2p":
        return near
    return np.full(len(near), setup.path == "gpudirect")


def _kernels_of(rows: pl.DataFrame, rank_of_process: Mapping[int, int]) -> pl.DataFrame:
    kernels = (
        rows.select("process", "device", kind=pl.col("kind").cast(pl.String))
        .with_row_index("i")
        .filter(pl.col("kind") == "kernel")
    )
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
    rows, matched : activities of the profile, and their exchanges; None where no rank made MPI
        calls.
    sized : collectives that ran as kernels, as `turnbuckle.profile.messages.collective_kernels` has
        them.

    Returns
    -------
    Function of a network, by name or file, ``self`` for the one that the recording itself shows and
    empty for one switch; of settings that replace what the network says, as ``name=value``; of what
    the recording's own messages show; and of the bandwidth that its collective kernels reach [B/s].
    It raises UsageError : A050, an unknown network; A074, A091, A092, an impossible setup; A081, a
    setting that does not exist; A570, a setting that is no price.  CannotAnswer : A193, the
    recording shows no network.
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
    setup = _setup(name, words, observed, bandwidth if kernels else None)
    if exchanged is not None:
        setup = driving(setup, exchanged.traffic)
    network = network_of(setup, 1)
    label = read_network(setup.network).name if setup.network else _unnamed(name)
    reached = network.bandwidth if network.bandwidth < UNLIMITED else None
    costs: dict[str, Any] = {
        "latency_s": network.latency,
        "hop_s": network.hop_seconds,
        "overhead_s": setup.overhead_seconds,
    }
    made = Prices(name=label, bandwidth=reached, nodes=1, **costs)
    if kernels:
        stated = any(word.partition("=")[0].strip() == "ranks_per_node" for word in words)
        fabric = _fabric(
            setup,
            network,
            profile,
            setup.ranks_per_node if stated else 0,
            bandwidth if name == OBSERVED else None,
        )
        nodes = max(-(-int(sized["ranks"].max()) // fabric.ranks_per_node), 1)  # type: ignore[arg-type]
        made = replace(made, fabric=fabric, nodes=nodes, kernel_seconds=_kernels(sized, fabric))
    return made if exchanged is None else _with_exchanges(made, exchanged, setup)


def _unnamed(name: str) -> str:
    """Return what a network without a name is called."""
    return "observed" if name == OBSERVED else "one switch"


def _with_exchanges(made: Prices, of: _Exchanged, setup: Setup) -> Prices:
    """Add the prices of messages and collectives of MPI."""
    node = mapped(of.traffic if setup.mapping == "greedy" else _nothing(of.ranks), setup)
    near = node[of.sender] == node[of.receiver]
    placed = _Placed.of(of, node, near, setup)
    priced = [_collectives(group, node[of.rank[group.activity]], setup) for group in placed.rounds]
    call = np.concatenate(
        [np.zeros(0, dtype=np.int64), *(group.activity.reshape(-1) for group in of.rounds)]
    )
    alone = np.concatenate([np.zeros(0), *(p.reshape(-1) for p in priced)])

    def together(instants: Float) -> tuple[Float, Float]:
        return _together(of, placed, node, setup, instants, alone)

    return replace(
        made,
        nodes=max(int(node.max(initial=0)) + 1, made.nodes),
        message_seconds=_messages(of, placed, near, setup),
        waits=placed.waits,
        sender_seconds=placed.sender_seconds,
        call=call,
        call_seconds=alone,
        gone=of.gone(near, setup),
        gpus=_shared_gpus(of.kernels, node, setup),
        shared=None if setup.fidelity == "logp" else together,
    )


@dataclass(frozen=True)
class _Placed:
    """Messages and collectives with the places of their buffers, and what follows from these on one
    network.

    Attributes
    ----------
    memory : place of the sender's buffer and of the receiver's, as `Messages` has it; empty where
        the path asks for none.
    rounds : collectives with the places of their members' buffers.
    waits : whether a message waits for its receive.
    sender_seconds : time of the sender's own copy, which its rank makes itself [s].
    again : whether memory was pinned before, for a message of this size between the same ranks.
    """

    memory: Memory
    rounds: Sequence[Rounds]
    waits: Bool
    sender_seconds: Float
    again: Bool

    @classmethod
    def of(cls, exchanged: _Exchanged, node: Int, near: Bool, setup: Setup) -> _Placed:
        """Place the buffers of a run by a setup's rules."""
        size, nothing = exchanged.size, np.zeros(len(exchanged.size), dtype=np.bool_)
        waits = (
            exchanged.ready
            if setup.eager_limit_bytes == EAGER_LIMIT
            else size > setup.eager_limit_bytes
        )
        far, inside = charges_of(setup)
        if far == inside == Charges():
            return cls(_NO_MEMORY, exchanged.rounds, waits, np.zeros(len(size)), nothing)
        ends, groups = exchanged.on_device(near, setup)
        direct = np.where(near, inside.direct, far.direct)
        waits = np.where(direct & ends.any(axis=1), size > setup.device_eager_limit_bytes, waits)
        fixed, per_byte = (np.where(near, inside.sender[k], far.sender[k]) for k in (0, 1))
        pair = np.stack([exchanged.sender, exchanged.receiver, size.astype(np.int64)], axis=1)
        again = np.ones(len(size), dtype=np.bool_)
        order = np.argsort(exchanged.sent, kind="stable")
        again[order[np.unique(pair[order], axis=0, return_index=True)[1]]] = False
        rounds = [
            replace(group, memory=_codes(there))
            for group, there in zip(exchanged.rounds, groups, strict=True)
        ]
        return cls(
            _codes(ends), rounds, waits, np.where(ends[:, 0], fixed + per_byte * size, 0.0), again
        )


def _codes(there: Bool) -> Memory:
    """Return the places of buffers of which is known whether they are in device memory."""
    return np.where(there, ON_DEVICE[0], ON_HOST).astype(np.int8)


def _shared_gpus(kernels: pl.DataFrame, node: Int, setup: Setup) -> SharedGpus | None:
    """Return the kernels of ranks that share a GPU; None where none does."""
    if kernels.is_empty():
        return None
    placed = gpus_of(node, network_of(setup, 1).made_of, int(kernels["own"].max()) + 1)  # type: ignore[arg-type]
    gpu, ranks = (
        placed[kernels["rank"].to_numpy(), kernels["own"].to_numpy()],
        kernels["rank"].to_numpy(),
    )
    users = np.unique(np.stack([gpu, ranks], axis=1)[gpu >= 0], axis=0)[:, 0]
    busy, count = np.unique(users, return_counts=True)
    shared = np.isin(gpu, busy[count > 1])
    if not shared.any():
        return None
    return SharedGpus(
        kernels["i"].to_numpy()[shared].astype(np.int64),
        gpu[shared],
        ranks[shared],
        int(count.max()),
    )


def _fabric(
    setup: Setup, network: Network, profile: Profile, stated: int, observed: float | None
) -> Fabric:
    """Return what carries the collectives of GPUs: a named network and its nodes, or the bandwidth
    that the recording shows.

    A node holds as many ranks as is stated; else as the recording's node has GPUs, and the
    network's, whichever are fewer.
    """
    made = network.made_of
    recorded_gpus = profile.trace.devices["device"].n_unique()
    network_gpus = len(made.parts_of("gpu")) if setup.network else 0
    each = stated or min(
        (count for count in (recorded_gpus if recorded_gpus > 1 else 0, network_gpus) if count),
        default=1,
    )
    latency = network.latency + network.send_overhead + network.receive_overhead
    if observed is not None:
        return Fabric(latency, network.bandwidth, 1, (observed,), True, each)
    from_gpu = [w for w in made.wires if made.parts[w.source] == "gpu 0" and w.source != w.target]
    peers, links = ([w for w in from_gpu if kind_of(made, w) == kind] for kind in ("peer", "link"))
    direct = sorted((w.bandwidth for w in peers if w.target in made.parts_of("gpu")), reverse=True)
    switched = sum(w.bandwidth for w in peers if w.target not in made.parts_of("gpu"))
    wires = (
        (switched,)
        if switched
        else tuple(direct)
        or (sum(w.bandwidth for w in links) or max(w.bandwidth for w in made.wires),)
    )
    through_host = reached_through_host(made, peers, links)
    return Fabric(
        latency, network.bandwidth, max(len(made.cards), 1), wires, bool(peers), each, through_host
    )


def reached_through_host(made: Node, peers: Sequence[Wire], links: Sequence[Wire]) -> bool:
    """Return whether a GPU reaches those of its node through the memory of their host alone.

    So it does without wires to its peers, where no switch joins its links with theirs
    (NVIDIA/nccl-tests issue 250).

    Parameters
    ----------
    peers, links : wires of that GPU to other GPUs, and to the host.
    """
    if peers or not links:
        return False
    switches = {w.target for w in links if made.parts[w.target].startswith("switch")}
    others = {
        w.source
        for w in made.wires
        if w.target in switches and made.parts[w.source].startswith("gpu")
    }
    return not others - {w.source for w in links}


def _kernels(sized: pl.DataFrame, fabric: Fabric) -> Float:
    """Return the time of each collective kernel alone [s]."""
    columns = ("operation", "size_bytes", "ranks", "stride", "first", "algorithm", "protocol")
    kinds = sized.select(columns).unique(maintain_order=True)
    seconds = [
        collective_seconds(
            does,
            float(size),
            ranks,
            fabric,
            stride=stride,
            first=first,
            algorithm=algorithm,
            protocol=protocol,
        )
        for does, size, ranks, stride, first, algorithm, protocol in kinds.iter_rows()
    ]
    priced = kinds.with_columns(seconds=pl.Series(seconds, dtype=pl.Float64))
    return sized.join(priced, on=columns, how="left", maintain_order="left")["seconds"].to_numpy()


def _setup(
    name: str, words: Sequence[str], observed: LinkFit | None, bandwidth: float | None
) -> Setup:
    """Return the setup by which messages are priced."""
    for word in words:
        setting = word.partition("=")[0].strip()
        if setting in NO_PRICES:
            raise error_of("A570.ranks" if setting == "ranks" else "A570.compute", found=setting)
    if name != OBSERVED:
        return checked(with_settings(Setup(path="host", network=name), words))
    return checked(with_settings(observed_setup(Setup(path="host"), observed, bandwidth), words))


def observed_setup(plain: Setup, observed: LinkFit | None, bandwidth: float | None = None) -> Setup:
    """Return a setup with the network that a recording shows.

    Parameters
    ----------
    observed : fit of its messages; None where they show none.
    bandwidth : that its collective kernels reach [B/s]; None where they show none.

    Raises A193, neither shows a network.
    """
    if observed is None and bandwidth is None:
        raise error_of("A193.messages")
    if observed is None:
        return replace(
            plain, network="", overhead_seconds=0.0, hop_seconds=0.0, card_bandwidth=bandwidth
        )
    # the fitted constant holds both overheads
    overhead = min(plain.overhead_seconds, observed.latency_s / 2)
    costs: dict[str, Any] = {
        "overhead_seconds": overhead,
        "hop_seconds": observed.latency_s / 2 - overhead,
    }
    return replace(plain, network="", card_bandwidth=observed.bandwidth or UNLIMITED, **costs)


def _nothing(ranks: int) -> Traffic:
    """Return the traffic of ranks that do nothing."""
    none = np.zeros(0, dtype=np.int64)
    return Traffic(
        ranks,
        none,
        np.zeros(0),
        np.zeros(0),
        np.zeros(ranks),
        Messages(none, none, none, none, none, np.zeros(0)),
        (),
        0.0,
        0,
    )


def _messages(of: _Exchanged, placed: _Placed, near: Bool, setup: Setup) -> Float:
    """Return the time of each message from the begin of its send to the end of its receive, which
    waits for it [s].
    """
    places = placed.memory if len(placed.memory) else np.zeros((len(of.size), 0))
    # memory that stays pinned is pinned for the first of messages alike
    paid_once = any(charged.pin_once and charged.pin_seconds > 0 for charged in charges_of(setup))
    again = placed.again & paid_once
    asked = np.column_stack([again, of.size, near, placed.waits, places]).astype(np.float64)
    kinds, kind = np.unique(asked, axis=0, return_inverse=True)
    seconds = np.zeros(len(kinds))
    for pinned in np.unique(kinds[:, 0]):
        which = np.flatnonzero(kinds[:, 0] == pinned)
        seconds[which] = _priced_messages(
            kinds[which, 1:], replace(setup, pinned="never") if pinned else setup
        )
    return seconds[kind.reshape(-1)]


def _priced_messages(kinds: Float, setup: Setup) -> Float:
    """Return the time of messages alone [s], by size, whether inside a node, whether they wait, and
    the places of their buffers.
    """
    seconds = np.zeros(len(kinds))
    at_once = _at_once(setup, 2)
    for first in range(0, len(kinds), at_once):
        some = slice(first, first + at_once)
        sizes, inside, waits = kinds[some, :3].T
        send = 2 * np.arange(len(sizes))
        none = np.full(len(sizes), -1)
        memory = kinds[some, 3:].astype(np.int8) if kinds.shape[1] > 3 else _NO_MEMORY
        messages = Messages(
            send, none, send + 1, send + 1, none, sizes, waits.astype(np.bool_), memory
        )
        node = np.stack([send, send + (inside == 0)], axis=1).reshape(-1)
        seconds[some] = _ends(replace(_alone(2 * len(sizes)), messages=messages), node, setup)[1::2]
    return seconds


def _at_once(setup: Setup, ranks: int) -> int:
    """Return how many exchanges of so many ranks are priced in one replay: each has nodes of its
    own, as far as the machine has nodes.
    """
    nodes = read_network(setup.network).nodes if setup.network else 0
    return max(min(nodes or _AT_ONCE, _AT_ONCE) // ranks, 1)


def _together(
    of: _Exchanged, placed: _Placed, node: Int, setup: Setup, instants: Float, alone: Float
) -> tuple[Float, Float]:
    """Return the time of each message, and of each member's collective, where all begin at given
    instants and share the network [s].

    Parameters
    ----------
    instants : all instants of the graph [s].
    alone : time of each member's collective alone [s].

    Every end of a message, and every member of a collective, is a thread of its rank, so that only
    links hold them up.
    """
    count, begins = len(of.size), instants[of.sent]
    send, receive, none = np.arange(count), count + np.arange(count), np.full(count, -1)
    members, member_begins, groups = [of.rank[:0]], [begins[:0]], []
    for group in placed.rounds:
        first = 2 * count + sum(map(len, members))
        calls = first + np.arange(group.activity.size).reshape(group.activity.shape)
        groups.append(
            Rounds(group.operation, group.block_bytes, calls, group.root, memory=group.memory)
        )
        members.append(of.rank[group.activity.reshape(-1)])
        member_begins.append(instants[2 * _begun(group).reshape(-1) + 1])
    gaps = np.concatenate([begins, np.zeros(count), *member_begins])
    messages = Messages(send, none, receive, receive, none, of.size, placed.waits, placed.memory)
    rank_of = np.concatenate([of.sender, of.receiver, *members])
    world: dict[str, Any] = {"ranks": len(node), "rank_of": rank_of, "rounds": tuple(groups)}
    traffic = replace(
        _alone(2 * count + sum(map(len, members))), gap_seconds=gaps, messages=messages, **world
    )
    done = _ends(traffic, node, setup)
    apart = [
        _apart(group, node[of.rank[group.activity]], instants, setup).reshape(-1)
        for group in placed.rounds
    ]
    return done[count : 2 * count] - begins, alone + np.maximum(
        done[2 * count :] - np.concatenate([begins[:0], *apart]), 0.0
    )


def _begun(group: Rounds) -> Int:
    """Return the call that starts each member's collective, shape (instances, members)."""
    return (
        np.where(group.begin >= 0, group.begin, group.activity)
        if group.begin.size
        else group.activity
    )


def _apart(group: Rounds, node: Int, instants: Float, setup: Setup) -> Float:
    """Return when each member is done with each collective alone, where its members begin at these
    instants [s], shape as `node`.
    """
    done = np.empty(node.shape)
    # every collective has nodes of its own, so that none waits for another; a machine may have no
    # more than so many
    most = (read_network(setup.network).nodes if setup.network else 0) or _AT_ONCE
    places = np.array([np.unique(row, return_inverse=True)[1].reshape(-1) for row in node]).reshape(
        node.shape
    )
    used, first = places.max(axis=1) + 1, 0
    while first < len(node):
        last = first + max(int(np.searchsorted(np.cumsum(used[first:]), most, side="right")), 1)
        some = slice(first, last)
        before = np.cumsum(used[some]) - used[some]
        calls = np.arange(done[some].size).reshape(done[some].shape)
        begins = instants[2 * _begun(group)[some].reshape(-1) + 1]
        once = Rounds(
            group.operation, group.block_bytes[some], calls, group.root, memory=group.memory[some]
        )
        traffic = replace(_alone(calls.size), gap_seconds=begins, rounds=(once,))
        done[some] = _ends(traffic, (places[some] + before[:, None]).reshape(-1), setup).reshape(
            calls.shape
        )
        first = last
    return done


def _collectives(group: Rounds, node: Int, setup: Setup) -> Float:
    """Return when each member is done with each collective after all have begun together [s], shape
    (instances, members).
    """
    # which members share a node, by the number of the first that stands there
    places, place = np.unique(node, axis=0, return_inverse=True)
    shares = (places[:, :, None] == places[:, None, :]).argmax(axis=2)[place.reshape(-1)]
    members = shares.shape[1]
    memory = group.memory if len(group.memory) else np.zeros((len(shares), 0))
    kinds, kind = np.unique(
        np.column_stack([group.block_bytes, shares, memory]), axis=0, return_inverse=True
    )
    blocks, shares, memory = (
        kinds[:, 0],
        kinds[:, 1 : 1 + members].astype(np.int64),
        kinds[:, 1 + members :].astype(np.int8),
    )
    # by `flow` and `packet` they would meet between their nodes
    at_once = _at_once(setup, shares.shape[1]) if setup.fidelity == "logp" else 1
    seconds = np.zeros(shares.shape)
    for first in range(0, len(kinds), at_once):
        some = slice(first, first + at_once)
        calls = np.arange(shares[some].size).reshape(shares[some].shape)
        once = Rounds(
            group.operation,
            blocks[some],
            calls,
            group.root,
            memory=memory[some] if memory.size else _NO_MEMORY,
        )
        # the number of the first member of each node
        where = np.unique(shares[some] + calls[:, :1], return_inverse=True)[1].reshape(-1)
        seconds[some] = _ends(replace(_alone(calls.size), rounds=(once,)), where, setup).reshape(
            calls.shape
        )
    return seconds[kind.reshape(-1)]


def _alone(ranks: int) -> Traffic:
    """Return the traffic of ranks that make one call each, at once."""
    return replace(
        _nothing(ranks),
        rank=np.arange(ranks),
        gap_seconds=np.zeros(ranks),
        kept_seconds=np.zeros(ranks),
    )


def _ends(traffic: Traffic, node: Int, setup: Setup) -> Float:
    """Return when each rank is done [s]."""
    network = network_of(setup, int(node.max(initial=0)) + 1)
    far, inside = charges_of(setup)
    device = (
        None
        if assumed(RECORDED, traffic)
        else on_device(RECORDED, traffic, *all_messages(traffic, setup.collectives))
    )
    # whether a message waits for its receive is recorded, or follows from the setup
    made = program(
        traffic,
        layout=laid_out(node, network.made_of, setup.driven),
        charged=replace(far, eager_limit=np.inf),
        inside=replace(inside, eager_limit=np.inf),
        on_device=device,
        eager_limit=np.inf,
        selection=setup.collectives,
        staging=setup.staging,
    )
    return replay(made, network, setup.fidelity).ends[: len(traffic.tail_seconds)]
