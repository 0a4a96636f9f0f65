"""Prices of messages and collectives on a network: what a timeline of kernels, copies and messages takes from this room.

Every price is a replay of the one message, or of the one collective whose members begin together, by the contention engine: the parameters
and the costs are those of `turnbuckle model messages`.  By `flow` and `packet` messages can also be priced together (`Prices.shared`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Bool, Float, Int
from turnbuckle.foundation.errors import error_of
from turnbuckle.mpi.questions.messages.setup import Setup, checked, mapped, network_of, with_settings
from turnbuckle.mpi.replay.messages import Messages, Rounds, Traffic, recorded, rounds_of, threads
from turnbuckle.mpi.replay.node_layout import laid_out
from turnbuckle.mpi.replay.program import program
from turnbuckle.profile.dependencies.ranks import rendezvous
from turnbuckle.profile.messages.mpi_calls import Exchanges
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.transfers import LinkFit
from turnbuckle.projection.elsewhere.network import Prices
from turnbuckle.replay.contention.contention import replay
from turnbuckle.replay.contention.network_file import read_network

#: Settings of `Setup` that change the price of a message alone, and so of a timeline.
SETTINGS: Final = (
    "ranks_per_node", "mapping", "seed", "card_bandwidth", "hop_seconds", "inside_bandwidth", "overhead_seconds", "overhead_bandwidth",
    "gap_seconds", "handshake", "collectives", "fidelity",
)  # fmt: skip
#: Bandwidth where the messages of a recording show none [B/s].
_UNLIMITED: Final = 1e15
#: Messages that are priced in one replay, each between two ranks of its own.
_AT_ONCE: Final = 4096


def prices(
    profile: Profile, rows: pl.DataFrame, matched: Exchanges, name: str, words: Sequence[str] = (), observed: LinkFit | None = None
) -> Prices:
    """Price the messages and collectives of a recording.

    Parameters
    ----------
    rows, matched : activities of the profile, and their exchanges.
    name : network, by name or file; empty for the network that the recording itself shows.
    words : settings that replace what the network says, as ``name=value``.
    observed : what the recording's own messages show.

    Raises
    ------
    UsageError : A050, an unknown network; A074, A091, A092, an impossible setup; A081, a setting that does not exist; A099, a setting that
        has no part in it.  CannotAnswer : A193, the recording shows no network, and none is named.
    """
    setup = _setup(name, words, observed)
    mpi = rows.with_row_index("i").filter(pl.col("category").cast(pl.String) == "mpi")
    number, rank_of = threads(profile.trace, mpi)
    rank = np.full(rows.height, -1, dtype=np.int64)
    rank[mpi["i"].to_numpy()] = rank_of[[number[t] for t in mpi["thread"].to_list()]]
    ranks = int(rank_of.max(initial=0)) + 1
    node = mapped(recorded(profile) if setup.mapping == "greedy" else _nothing(ranks), setup)
    pairs = matched.messages
    size = pairs.select(pl.min_horizontal("size_bytes", "size_bytes_r").fill_null(0).clip(0)).to_series().to_numpy().astype(np.float64)
    near = node[rank[pairs["activity"].to_numpy()]] == node[rank[pairs["activity_r"].to_numpy()]]
    rounds, _ = rounds_of(matched, np.arange(rows.height), profile.trace)
    priced = [_collectives(group, node[rank[group.activity]], setup) for group in rounds]
    call = np.concatenate([np.zeros(0, dtype=np.int64), *(group.activity.reshape(-1) for group in rounds)])
    network = network_of(setup, 1)
    ready = rendezvous(pairs).to_numpy()
    ends = (rank[pairs["activity"].to_numpy()], rank[pairs["activity_r"].to_numpy()])
    return Prices(
        name=read_network(setup.network).name if setup.network else "observed",
        latency_s=network.latency, bandwidth=network.bandwidth if network.bandwidth < _UNLIMITED else None,
        overhead_s=setup.overhead_seconds, nodes=int(node.max(initial=0)) + 1,
        message_seconds=_messages(size, near, ready, setup),
        call=call, call_seconds=np.concatenate([np.zeros(0), *(p.reshape(-1) for p in priced)]),
        shared=None if setup.fidelity == "logp" else partial(_together, ends, size, ready, node, setup),
    )  # fmt: skip


def _setup(name: str, words: Sequence[str], observed: LinkFit | None) -> Setup:
    """Return the setup by which messages are priced."""
    for word in words:
        setting = word.partition("=")[0].strip()
        if setting in Setup.__dataclass_fields__ and setting not in SETTINGS:
            raise error_of("A099.timeline", found=setting, known=", ".join(SETTINGS))
    plain = Setup(path="host", fidelity="logp", network=name)
    if not name:
        if observed is None:
            raise error_of("A193")
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
    # every message has nodes of its own, so that none waits for another; a machine may have no more than so many
    most = (read_network(setup.network).nodes // 2 if setup.network else 0) or _AT_ONCE
    for first in range(0, len(kinds), max(min(most, _AT_ONCE), 1)):
        some = slice(first, first + max(min(most, _AT_ONCE), 1))
        sizes, inside, waits = kinds[some].T
        send = 2 * np.arange(len(sizes))
        none = np.full(len(sizes), -1)
        messages = Messages(send, none, send + 1, send + 1, none, sizes, waits.astype(np.bool_))
        node = np.stack([send, send + (inside == 0)], axis=1).reshape(-1)
        seconds[some] = _ends(replace(_alone(2 * len(sizes)), messages=messages), node, setup)[1::2]
    return seconds[kind.reshape(-1)]


def _together(ends: tuple[Int, Int], size: Float, ready: Bool, node: Int, setup: Setup, begins: Float) -> Float:
    """Return the time of each message where all begin at given instants [s] and share the network, shape (messages,) [s].

    Every end is a thread of its rank, so that only links hold messages up; `ends` are the ranks of senders and receivers.
    """
    count = len(size)
    send, receive, none = np.arange(count), count + np.arange(count), np.full(count, -1)
    alone = _alone(2 * count)
    traffic = replace(
        alone, ranks=len(node), rank_of=np.concatenate(ends), gap_seconds=np.append(begins, np.zeros(count)),
        messages=Messages(send, none, receive, receive, none, size, ready),
    )  # fmt: skip
    return _ends(traffic, node, setup)[count:] - begins


def _collectives(group: Rounds, node: Int, setup: Setup) -> Float:
    """Return when each member is done with each collective after all have begun together [s], shape (instances, members)."""
    # which members share a node, by the number of the first that stands there
    places, place = np.unique(node, axis=0, return_inverse=True)
    shares = (places[:, :, None] == places[:, None, :]).argmax(axis=2)[place.reshape(-1)]
    kinds, kind = np.unique(np.column_stack([group.block_bytes, shares]), axis=0, return_inverse=True)
    members = group.activity.shape[1]
    alone = _alone(members)
    seconds = np.zeros((len(kinds), members))
    for row, (block, *places) in zip(seconds, kinds.tolist(), strict=True):
        once = Rounds(group.operation, np.array([block]), np.arange(members)[None, :], group.root)
        where = np.unique(np.array(places, dtype=np.int64), return_inverse=True)[1].reshape(-1)
        row[:] = _ends(replace(alone, rounds=(once,)), where, setup)
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
