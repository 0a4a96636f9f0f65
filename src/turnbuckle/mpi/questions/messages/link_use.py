"""How busy each link of a replay was: shares of the run time, and for network cards of the time in which their node communicates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from turnbuckle.mpi.questions.messages.question import Replayed
from turnbuckle.mpi.replay.operation_graph import computing
from turnbuckle.replay.contention.contention import Contended, Leaves, Op, Program
from turnbuckle.replay.contention.network import Network, Node

Float = NDArray[np.float64]
Int = NDArray[np.int64]

_WAYS: Final = {"out": "card out", "up": "card out", "in": "card in", "down": "card in"}


@dataclass(frozen=True)
class LinkUse:
    """Links of one replay in `flow`.

    Attributes
    ----------
    classes : kinds of link that a node has.
    busy : share of the run time in which the busiest link of each kind would be busy at full bandwidth, shape (classes, nodes).
    between : the same of the busiest link between switches or routers, with its name; 0 where there is none.
    in_communication : the same of the busiest way of each node's cards, as a share of the time in which the node communicates: a rank of it
        does not compute, or a message from or to it is on its way to another node; shape (nodes,).
    """

    classes: tuple[str, ...]
    busy: Float = field(repr=False)
    between: tuple[str, float]
    in_communication: Float = field(repr=False)

    @property
    def busiest_card(self) -> int:
        """The node whose card is busiest while the node communicates."""
        return int(self.in_communication.argmax())

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "classes": list(self.classes), "busy": self.busy.tolist(), "between": {"link": self.between[0], "busy": self.between[1]},
            "in_communication": self.in_communication.tolist(),
        }  # fmt: skip


def link_use(found: Replayed, threads: int) -> LinkUse | None:
    """How busy the links of a traced replay were; None where links are not shared (`logp`), or nothing took any time.

    Parameters
    ----------
    threads : ranks (threads) of the run; processes after them go on beside it.
    """
    done, network = found.done, found.network
    if done is None or not len(done.carried_bytes) or done.seconds == 0:
        return None
    full = done.carried_bytes / np.array(network.capacities())
    kinds, names = _by_node(network)
    seconds = np.zeros((len(kinds), network.hosts))
    other = ("", 0.0)
    for k, (name, where) in enumerate(names):
        if where is not None:
            kind, node = where
            seconds[kind, node] = max(seconds[kind, node], full[k])
        elif full[k] > other[1] * done.seconds:
            other = (name, float(full[k]) / done.seconds)
    made = network.made_of
    count = len(names)
    busy = np.stack([full[count + w :: len(made.wires)] for w in range(len(made.wires))]) if made.wires else np.zeros((0, network.hosts))
    wires = [_wire(made, w) for w in range(len(made.wires))]
    inside = [kind for kind in dict.fromkeys(wires) if kind]
    rows = [busy[[i for i, w in enumerate(wires) if w == kind]].max(axis=0) for kind in inside]
    shares = np.concatenate([seconds, *([np.stack(rows)] if rows else [])]) / done.seconds
    members = np.bincount(np.asarray(found.program.host)[:threads].astype(np.int64) // len(made.parts), minlength=network.hosts)
    talking = communicating(found.program, done, threads, members, len(made.parts))
    cards = seconds[: len(kinds)].max(axis=0, initial=0.0)
    in_communication = np.divide(cards, talking, out=np.zeros(network.hosts), where=talking > 0)
    return LinkUse((*kinds, *inside), shares, other, in_communication)


def _by_node(network: Network) -> tuple[tuple[str, ...], list[tuple[str, tuple[int, int] | None]]]:
    """Kinds of links of cards; and of each link that is not inside a node its name, with kind and node where it is a card's."""
    kinds = ("card out", "card in")
    each = len(network.made_of.cards)
    outside = len(network.links()) - network.hosts * len(network.made_of.wires)
    names: list[tuple[str, tuple[int, int] | None]] = []
    for name in network.links()[:outside]:
        words = name.split()
        node = int(words[1]) // each if words[0] == "card" else network.hosts
        # a network may have room for more cards than there are
        names.append((name, (kinds.index(_WAYS[words[2]]), node) if words[0] == "card" and node < network.hosts else None))
    return kinds, names


def _wire(made: Node, wire: int) -> str:
    """The kind of a wire; nothing for the time of a GPU, which is no link."""
    one = made.wires[wire]
    source, target = (made.parts[p].split()[0] for p in (one.source, one.target))
    if "share" in (source, target):
        return ""
    words = {"gpu": "GPU", "fabric": "GPU switch"}
    if one.source == one.target:
        return f"{words.get(source, source)} memory"
    return f"{words.get(source, source)} to {words.get(target, target)}"


def communicating(program: Program, done: Contended, threads: int, members: Int, parts: int) -> Float:
    """Time in which a rank of each node does not compute, or a message from or to it is on its way to another [s], shape (nodes,).

    Parameters
    ----------
    done : of the replay, traced.
    threads : processes that are ranks.
    members : of each node, shape (nodes,).
    parts : of a node.
    """
    run = done.seconds
    begun, ended, who = computing(program, done) if len(program.works_for) else _computing(program, done, threads)
    place = np.asarray(program.host).astype(np.int64) // parts
    start, end = (np.asarray(v).astype(np.int64) // parts for v in (program.start, program.end))
    far = np.flatnonzero((start != end) & (np.asarray(program.leaves) != Leaves.EDGE))
    # one that has ended computes no more, and does not communicate either
    begins = np.concatenate([begun, done.ends[:threads], done.began[far], done.began[far]])
    finishes = np.concatenate([ended, np.full(threads, run), done.arrived[far], done.arrived[far]])
    node = np.concatenate([place[who], place[:threads], start[far], end[far]])
    moving = np.arange(len(begins)) >= len(who) + threads
    return _talking(begins, finishes, node, moving, members)


def _computing(program: Program, done: Contended, threads: int) -> tuple[Float, Float, Int]:
    """When ranks (threads) compute: begins and ends [s], and which it is."""
    code, arg = np.asarray(program.code), np.asarray(program.arg).astype(np.int64)
    first = np.asarray(program.first).astype(np.int64)
    process = np.repeat(np.arange(len(first) - 1), np.diff(first))
    copying = program.copying
    # compute on a GPU whose time is shared is a message of a process to itself over a wire that carries time
    clock = np.flatnonzero((code == Op.AWAIT) & ~copying)
    clock = clock[(np.asarray(program.source) == np.asarray(program.target))[arg[clock]]]
    work = np.flatnonzero(((code == Op.WORK) | (code == Op.USE)) & ~copying)
    before = np.append(0.0, done.done)[:-1]
    before[first[:-1][first[:-1] < len(code)]] = 0.0
    ops = np.concatenate([work, clock])
    ops = ops[process[ops] < threads]
    return before[ops], done.done[ops], process[ops]


def _talking(begins: Float, finishes: Float, node: Int, moving: NDArray[np.bool_], members: Int) -> Float:
    """Time in which not all members of a node are in an interval that is not `moving`, or one that is goes on."""
    run = float(finishes.max(initial=0.0))
    times, at = np.concatenate([begins, finishes]), np.concatenate([node, node])
    steps, flows = np.repeat([1, -1], len(begins)), np.concatenate([moving, moving])
    order = np.lexsort((times, at))
    times, at, steps, flows = times[order], at[order], steps[order], flows[order]
    computing, under_way = np.cumsum(np.where(flows, 0, steps)), np.cumsum(np.where(flows, steps, 0))
    lasts = np.diff(times, append=run)
    lasts[np.append(at[1:] != at[:-1], True)] = 0.0
    quiet = (computing == members[at]) & (under_way == 0)
    return np.asarray(np.maximum(run - np.bincount(at, np.where(quiet, lasts, 0.0), minlength=len(members)), 0.0))
