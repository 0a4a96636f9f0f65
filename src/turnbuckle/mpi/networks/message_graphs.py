"""Graphs of messages that wait for messages, as programs for the contention replay (LiMPPy's
message DAG, PNNL FENATE).

A message begins when all messages before it are complete, and after its own delay.  It is complete
when it has arrived.  A message that waits for its receiver, or is acknowledged, is complete when
its sender is informed.

Errors: A089.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Float, Int, runs
from turnbuckle.foundation.errors import TurnbuckleError, error_of
from turnbuckle.foundation.table_file import Column, read_table
from turnbuckle.replay.contention.contention import Leaves, Op, Program
from turnbuckle.replay.tasks import circle

#: Largest number of messages and of nodes of a graph.
MOST: Final = 1_000_000
#: Sizes are below this [B], the whole numbers that a float holds.
_LARGEST: Final = float(1 << 53)
#: Messages of a circle that are shown, and letters of each name.
_MEMBERS, _SHOWN = 8, 24
_COLUMNS: Final = (
    Column("message", ""),
    Column("from", "1", whole=True, most=MOST - 1),
    Column("to", "1", whole=True, most=MOST - 1),
    Column("size", "B", whole=True),
    Column("after", "", needed=False),
    Column("delay", "s", needed=False),
)


@dataclass(frozen=True)
class MessageGraph:
    """Messages between nodes, and the order in which they must complete."""

    #: source, target: node of each message, counted from 0, shape (messages,)
    source: Int
    target: Int
    size_bytes: Float  #: size of each message [B]
    #: before, after: pairs of messages, of which the second begins when the first is complete
    before: Int
    after: Int
    #: delay of each message after the last message before it [s]; empty where there is none
    delay_seconds: Float = field(default_factory=lambda: np.zeros(0))

    @property
    def nodes(self) -> int:
        """Return the number of nodes that the messages need."""
        return int(max(self.source.max(initial=-1), self.target.max(initial=-1))) + 1


def as_program(graph: MessageGraph, eager_limit: float, *, acknowledged: bool = False) -> Program:
    """Return a graph of messages as a program, with a process at the sender and one at the receiver
    of every message.  Raises A089.

    Parameters
    ----------
    eager_limit : messages up to this size do not wait for their receiver [B].
    acknowledged : whether a message is complete only when its sender is informed.
    """
    _sound(graph)
    count, edges = len(graph.source), len(graph.before)
    message, edge = np.arange(count), np.arange(edges)
    ready = graph.size_bytes > eager_limit
    sender_informed = ready | acknowledged
    delay = graph.delay_seconds if len(graph.delay_seconds) else np.zeros(count)
    sender, receiver = message, count + message
    completing = np.where(sender_informed, sender, receiver)[graph.before]
    operations = [
        (graph.after, 0, Op.AWAIT, count + edge),
        (sender, 1, Op.WORK, message),
        (sender, 2, Op.SEND, message),
        (sender[sender_informed], 3, Op.SENT, message[sender_informed]),
        (receiver, 0, Op.POST, message),
        (receiver, 1, Op.AWAIT, message),
        (completing, 4, Op.SEND, count + edge),
    ]
    process = np.concatenate([entry[0] for entry in operations])
    phase = np.concatenate([np.full(len(entry[0]), entry[1]) for entry in operations])
    code = np.concatenate([np.full(len(entry[0]), int(entry[2])) for entry in operations]).astype(
        np.uint8
    )
    arg = np.concatenate([entry[3] for entry in operations])
    order = np.lexsort((arg, phase, process))
    leaves = np.append(
        np.where(ready, Leaves.READY, Leaves.EAGER), np.full(edges, Leaves.EDGE)
    ).astype(np.uint8)
    nothing = np.zeros(0, dtype=np.int64)
    first = np.searchsorted(process[order], np.arange(2 * count + 1))
    hosts, sizes = (
        np.append(graph.source, graph.target),
        np.append(graph.size_bytes, np.zeros(edges)),
    )
    ends = (np.append(sender, completing), np.append(receiver, graph.after))
    return Program(
        first,
        code[order],
        arg[order],
        delay,
        nothing,
        np.zeros(0),
        nothing,
        hosts,
        *ends,
        sizes,
        leaves,
    )


def read(path: Path) -> MessageGraph:
    """Read a graph from a table: message, from, to, size [B], after (messages separated by blanks),
    delay [s]; the last two may be missing.  Raises A061 to A063
    (`turnbuckle.foundation.table_file`), A089.
    """
    table = read_table(path, _COLUMNS, "a graph of messages")
    names = table.texts["message"]
    number = {name: k for k, name in enumerate(names)}
    if len(number) != len(names):
        twice = next(k for k, name in enumerate(names) if number[name] != k)
        raise _refused(f"message {names[twice][:40]} twice", table.where(twice, "message"))
    before, after = [], []
    for k, text in enumerate(table.texts.get("after", [""] * len(names))):
        for word in text.split():
            if word not in number:
                raise _refused(
                    f"message {names[k][:40]} after {word[:40]}, which there is not",
                    table.where(k, "after"),
                )
            before.append(number[word])
            after.append(k)
    delay = np.nan_to_num(table.numbers["delay"]) if "delay" in table.numbers else np.zeros(0)
    ends = (table.numbers["from"].astype(np.int64), table.numbers["to"].astype(np.int64))
    graph = MessageGraph(
        *ends,
        table.numbers["size"],
        np.array(before, dtype=np.int64),
        np.array(after, dtype=np.int64),
        delay,
    )
    _sound(graph, names)
    return graph


def ping_pong(size_bytes: float, rounds: int = 10) -> MessageGraph:
    """Return a graph of two nodes that send one message to and fro, the same size both ways.

    >>> ping_pong(8.0, 2).source.tolist()
    [0, 1, 0, 1]
    """
    count = 2 * rounds
    m = np.arange(count)
    return MessageGraph(m % 2, 1 - m % 2, np.full(count, float(size_bytes)), m[:-1], m[1:])


def sweep(rows: int, columns: int, size_bytes: float) -> MessageGraph:
    """Return a wave over a grid from one corner (Sweep3D): each node sends on when it has received
    from both neighbours behind it.

    >>> sweep(2, 2, 8.0).nodes, len(sweep(2, 2, 8.0).source)
    (4, 4)
    """
    node = np.arange(rows * columns).reshape(rows, columns)
    source = np.concatenate([node[:-1].ravel(), node[:, :-1].ravel()])
    target = np.concatenate([node[1:].ravel(), node[:, 1:].ravel()])
    # Every message into a node precedes every message out of it.
    pairs = _joined(target, source)
    return MessageGraph(source, target, np.full(len(source), float(size_bytes)), *pairs)


def shift(nodes: int, by: int, size_bytes: float) -> MessageGraph:
    """Return one message from every node to the node `by` places after it, all at once.

    >>> shift(4, 1, 8.0).target.tolist()
    [1, 2, 3, 0]
    """
    m = np.arange(nodes)
    nothing = np.zeros(0, dtype=np.int64)
    return MessageGraph(m, (m + by) % nodes, np.full(nodes, float(size_bytes)), nothing, nothing)


#: Patterns by name: the number of parameters, and the graph.
PATTERNS: Final[dict[str, tuple[int, Callable[..., MessageGraph]]]] = {
    "ping-pong": (1, lambda size, rounds: ping_pong(size, rounds)),
    "sweep": (2, lambda size, rows, columns: sweep(rows, columns, size)),
    "shift": (2, lambda size, nodes, by: shift(nodes, by, size)),
}


def pattern(text: str, size_bytes: float) -> MessageGraph:
    """Return a pattern by its name and numbers: ``ping-pong:10`` (rounds), ``sweep:4x4`` (rows,
    columns), ``shift:16x4`` (nodes, distance).  Raises A089.
    """
    name, _, rest = text.strip().partition(":")
    entry = PATTERNS.get(name)
    numbers = [
        int(word) if word.isascii() and word.isdigit() and len(word) <= 7 else 0
        for word in rest.split("x")
    ]
    if (
        entry is None
        or len(numbers) != entry[0]
        or min(numbers) < 1
        or _messages(name, numbers) > MOST
    ):
        raise _refused(f'pattern "{text[:40]}"', fix="ping-pong:10, sweep:4x4 or shift:16x4")
    if not (np.isfinite(size_bytes) and 0 <= size_bytes < _LARGEST):
        raise _refused(f"messages of {size_bytes:g} B")
    return entry[1](round(size_bytes), *numbers)


def _messages(name: str, numbers: list[int]) -> int:
    """Return an estimate of the number of messages of a pattern, before they are made."""
    return (
        2 * numbers[0] * numbers[1]
        if name == "sweep"
        else 2 * numbers[0]
        if name == "ping-pong"
        else max(numbers)
    )


def _joined(left: Int, right: Int) -> tuple[Int, Int]:
    """Return all pairs of positions at which a value of `left` equals one of `right`."""
    order = np.argsort(right, kind="stable")
    low, high = (np.searchsorted(right[order], left, side=side) for side in ("left", "right"))
    first, within = runs(high - low)
    return first, order[low[first] + within]


def _sound(graph: MessageGraph, names: Sequence[str] = ()) -> None:
    """Refuse (A089) an impossible graph."""
    count = len(graph.source)
    if not 0 < count <= MOST:
        raise _refused(f"{count:,} messages", fix=f"1 to {MOST:,}")
    if not ((graph.size_bytes >= 0).all() and (graph.size_bytes < _LARGEST).all()):
        raise _refused("a size that is negative or none at all, or beyond what is counted in")
    if not ((graph.delay_seconds >= 0).all() and np.isfinite(graph.delay_seconds).all()):
        raise _refused("a delay that is negative or none at all")
    same = np.flatnonzero(graph.source == graph.target)
    if len(same):
        raise _refused(
            f"message {same[0] + 1} from node {graph.source[same[0]]} to itself",
            fix="what stays on a node crosses no network",
        )
    if ring := circle(graph.before, graph.after)[1:]:
        least = ring.index(min(ring))
        labels = [
            names[k][:_SHOWN] if names else str(k + 1) for k in (*ring[least:], *ring[: least + 1])
        ]
        more = f"{len(ring):,} messages wait for each other: " if len(ring) > 1 else ""
        shown = labels if len(labels) <= _MEMBERS else [*labels[: _MEMBERS - 2], "...", labels[-1]]
        raise _refused(
            f"{more}message {' -> '.join(shown)}",
            fix="a message begins after others, never after itself",
        )


def _refused(evidence: str, where: str = "", fix: str = "") -> TurnbuckleError:
    return error_of("A089.graph", where=where, found=evidence, fix=fix)
