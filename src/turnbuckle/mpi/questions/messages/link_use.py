"""Utilisation of the links in a replay: as a share of the run time, and for NICs of the time in
which their node communicates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Bool, Float, Int
from turnbuckle.foundation.fields import Declared
from turnbuckle.mpi.questions.messages.question import Replayed
from turnbuckle.mpi.replay.operation_graph import computing
from turnbuckle.replay.contention.contention import Contended, Leaves, Op, Program
from turnbuckle.replay.contention.network import Network, Node
from turnbuckle.show.text import clean

_WAYS: Final = {"out": "card out", "up": "card out", "in": "card in", "down": "card in"}


@dataclass(frozen=True)
class LinkUse(Declared):
    """Utilisation of the links in one replay in `flow`."""

    classes: tuple[str, ...]
    #: share of the run time in which the busiest link of each kind would be busy at full bandwidth,
    #: shape (classes, nodes)
    busy: Float = field(repr=False)
    between: tuple[str, float]
    #: share of the time in which each node communicates that the busiest direction of its NICs is
    #: busy, shape (nodes,).  A node communicates when one of its ranks does not compute, or a
    #: message between it and another node is under way.
    in_communication: Float = field(repr=False)

    @property
    def busiest_card(self) -> int:
        """Return the node whose NIC is busiest while the node communicates."""
        return int(self.in_communication.argmax())


def link_use(replayed: Replayed, threads: int) -> LinkUse | None:
    """Return the utilisation of the links of a traced replay; None where links are not shared
    (`logp`), or nothing took any time.

    Parameters
    ----------
    threads : number of ranks (threads) of the run; later processes run beside them.
    """
    done, network = replayed.done, replayed.network
    if done is None or not len(done.carried_bytes) or done.seconds == 0:
        return None
    busy_seconds = done.carried_bytes / np.array(network.capacities())
    kinds, names = _by_node(network)
    seconds = np.zeros((len(kinds), network.hosts))
    other = ("", 0.0)
    for k, (name, kind_and_node) in enumerate(names):
        if kind_and_node is not None:
            kind, node = kind_and_node
            seconds[kind, node] = max(seconds[kind, node], busy_seconds[k])
        elif busy_seconds[k] > other[1] * done.seconds:
            other = (name, float(busy_seconds[k]) / done.seconds)
    made = network.made_of
    count = len(names)
    wire_seconds = (
        np.stack([busy_seconds[count + w :: len(made.wires)] for w in range(len(made.wires))])
        if made.wires
        else np.zeros((0, network.hosts))
    )
    wires = [_wire(made, w) for w in range(len(made.wires))]
    inside = [kind for kind in dict.fromkeys(wires) if kind]
    rows = [
        wire_seconds[[i for i, w in enumerate(wires) if w == kind]].max(axis=0) for kind in inside
    ]
    shares = np.concatenate([seconds, *([np.stack(rows)] if rows else [])]) / done.seconds
    members = np.bincount(
        np.asarray(replayed.program.host)[:threads].astype(np.int64) // len(made.parts),
        minlength=network.hosts,
    )
    communicating_seconds = communicating(replayed.program, done, threads, members, len(made.parts))
    nic_seconds = seconds[: len(kinds)].max(axis=0, initial=0.0)
    in_communication = np.divide(
        nic_seconds,
        communicating_seconds,
        out=np.zeros(network.hosts),
        where=communicating_seconds > 0,
    )
    return LinkUse((*kinds, *inside), shares, other, in_communication)


def _by_node(network: Network) -> tuple[tuple[str, ...], list[tuple[str, tuple[int, int] | None]]]:
    """Return the kinds of NIC links, and for each link outside nodes its name, with kind and node
    if it is a NIC's.
    """
    kinds = ("card out", "card in")
    each = len(network.made_of.cards)
    names: list[tuple[str, tuple[int, int] | None]] = []
    for name in network.links()[: network.links_between]:
        words = name.split()
        node = int(words[1]) // each if words[0] == "card" else network.hosts
        # A network may have room for more NICs than the nodes have.
        names.append(
            (
                name,
                (kinds.index(_WAYS[words[2]]), node)
                if words[0] == "card" and node < network.hosts
                else None,
            )
        )
    return kinds, names


def link_words(name: str) -> str:
    """Return the name of a link in words.

    >>> link_words("card 3 out"), link_words("card in"), link_words("host to GPU")
    ('NIC 3, sending', 'NIC, receiving', 'host to GPU')
    """
    words = clean(name, 60).split()
    if words[:1] != ["card"]:
        return " ".join(words)
    return " ".join(["NIC", *words[1:-1]]) + (
        ", sending" if words[-1] in ("out", "up") else ", receiving"
    )


def _wire(made: Node, wire: int) -> str:
    """Return the kind of a wire; an empty text for the shared time of a GPU, which is no link."""
    link = made.wires[wire]
    source, target = (made.parts[p].split()[0] for p in (link.source, link.target))
    if "share" in (source, target):
        return ""
    words = {"gpu": "GPU", "fabric": "GPU switch"}
    if link.source == link.target:
        return f"{words.get(source, source)} memory"
    return f"{words.get(source, source)} to {words.get(target, target)}"


def communicating(
    program: Program, done: Contended, threads: int, members: Int, parts: int
) -> Float:
    """Return the time in which a rank of each node does not compute, or a message between the node
    and another is under way [s], shape (nodes,).

    Parameters
    ----------
    members : number of ranks of each node, shape (nodes,).
    """
    run = done.seconds
    begun, ended, rank_of = (
        computing(program, done) if len(program.works_for) else _computing(program, done, threads)
    )
    place = np.asarray(program.host).astype(np.int64) // parts
    start, end = (np.asarray(v).astype(np.int64) // parts for v in (program.start, program.end))
    between_nodes = np.flatnonzero((start != end) & (np.asarray(program.leaves) != Leaves.EDGE))
    # A rank that has ended does not communicate, so it counts as computing until the end of the
    # run.
    begins = np.concatenate(
        [begun, done.ends[:threads], done.began[between_nodes], done.began[between_nodes]]
    )
    finishes = np.concatenate(
        [ended, np.full(threads, run), done.arrived[between_nodes], done.arrived[between_nodes]]
    )
    node = np.concatenate(
        [place[rank_of], place[:threads], start[between_nodes], end[between_nodes]]
    )
    moving = np.arange(len(begins)) >= len(rank_of) + threads
    return _talking(begins, finishes, node, moving, members)


def _computing(program: Program, done: Contended, threads: int) -> tuple[Float, Float, Int]:
    """Return when ranks (threads) compute: begins and ends [s], and the rank of each."""
    code, arg = np.asarray(program.code), np.asarray(program.arg).astype(np.int64)
    first = np.asarray(program.first).astype(np.int64)
    process = np.repeat(np.arange(len(first) - 1), np.diff(first))
    copying = program.copying
    # Compute on a GPU with shared time is a message of a process to itself over a wire that carries
    # time.
    clock = np.flatnonzero((code == Op.AWAIT) & ~copying)
    clock = clock[(np.asarray(program.source) == np.asarray(program.target))[arg[clock]]]
    work = np.flatnonzero(((code == Op.WORK) | (code == Op.USE)) & ~copying)
    before = np.append(0.0, done.done)[:-1]
    before[first[:-1][first[:-1] < len(code)]] = 0.0
    ops = np.concatenate([work, clock])
    ops = ops[process[ops] < threads]
    return before[ops], done.done[ops], process[ops]


def _talking(begins: Float, finishes: Float, node: Int, moving: Bool, members: Int) -> Float:
    """Return the time of each node in which not all its members are in intervals of compute, or an
    interval that is `moving` is open [s].
    """
    run = float(finishes.max(initial=0.0))
    times, node_at = np.concatenate([begins, finishes]), np.concatenate([node, node])
    steps, flows = np.repeat([1, -1], len(begins)), np.concatenate([moving, moving])
    order = np.lexsort((times, node_at))
    times, node_at, steps, flows = times[order], node_at[order], steps[order], flows[order]
    computing, under_way = (
        np.cumsum(np.where(flows, 0, steps)),
        np.cumsum(np.where(flows, steps, 0)),
    )
    lasts = np.diff(times, append=run)
    lasts[np.append(node_at[1:] != node_at[:-1], True)] = 0.0
    quiet = (computing == members[node_at]) & (under_way == 0)
    return np.asarray(
        np.maximum(
            run - np.bincount(node_at, np.where(quiet, lasts, 0.0), minlength=len(members)), 0.0
        )
    )
