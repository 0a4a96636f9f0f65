"""Messages as packets that hold links, one after the other: LiMPPy's network (PNNL FENATE) as programs of the contention replay.

``spoken``   every message as what is said for it: eager data; or request, reply, data and fin, which wait for each other
``packed``   every message so said as packets, every packet as the links it takes: each directed link serves one packet at a time, first
             come first served, for the time the packet takes (and that of the switch behind it); the head moves on at once
             (cut-through), and the packet has arrived when its tail has

The first alone runs under any fidelity, `flow` among them; the second is a program of resources and fixed delays only.

Where it differs from the original: a message that waits for its receiver does so (the original answers at once: here only where no
receiver says that it is ready), and compute between messages may be kept.  ``legacy_headers`` adds the header twice, as the original does.

Errors:

    A090  parameters that cannot be, or more packets than can be replayed
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from turnbuckle.foundation.errors import UsageError
from turnbuckle.mpi.networks.routes import MOST_HOPS, Graph, routes
from turnbuckle.replay.contention.contention import Leaves, Op, Program
from turnbuckle.replay.contention.network import Network

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class Protocol:
    """LiMPPy's parameters; its defaults are those of the original, estimated there for InfiniBand EDR.

    Attributes
    ----------
    packet_bytes, header_bytes : payload of a full packet, and what every packet carries besides [B].
    eager_bytes : messages up to this size are sent at once [B].
    eager_bandwidth, remote_bandwidth : of packets sent by a processor, and of remote memory access [B/s].
    eager_node_seconds, remote_node_seconds : latency of a node: leaving it, and for eager packets entering it too [s].
    eager_switch_seconds, remote_switch_seconds : latency of a switch [s].
    legacy_headers : add the header to the time of a packet once more.
    acknowledged : a packet back when a message is complete.
    """

    packet_bytes: int = 4096
    header_bytes: int = 98
    eager_bytes: int = 16384
    eager_bandwidth: float = 3.5e9
    remote_bandwidth: float = 12.5e9
    eager_node_seconds: float = 650e-9
    remote_node_seconds: float = 750e-9
    eager_switch_seconds: float = 100e-9
    remote_switch_seconds: float = 90e-9
    legacy_headers: bool = False
    acknowledged: bool = False

    def packet_seconds(self, payload_bytes: Float, remote: Bool) -> Float:
        """How long a packet takes a link: payload and header over the bandwidth, whole nanoseconds [s].

        >>> Protocol().packet_seconds(np.array([4096.0, 0.0]), np.array([True, False])).round(12).tolist()
        [3.36e-07, 2.8e-08]
        """
        size = payload_bytes + self.header_bytes * (2 if self.legacy_headers else 1)
        return np.asarray(np.ceil(size / np.where(remote, self.remote_bandwidth, self.eager_bandwidth) * 1e9) * 1e-9)


@dataclass(frozen=True)
class Spoken:
    """A program whose messages are what is said for those of another.

    Attributes
    ----------
    program : its messages between nodes all leave as soon as they are sent; the rest are edges.
    begin : number of the first of those messages; all behind it are.
    remote : which of them are remote memory access, shape (said,).
    """

    program: Program
    begin: int
    remote: Bool


def sound(protocol: Protocol) -> None:
    """Refuse parameters that cannot be, by name.

    Raises
    ------
    UsageError : A090.
    """
    for field in fields(protocol):
        value = getattr(protocol, field.name)
        least = 1 if field.name == "packet_bytes" else 0
        if not (math.isfinite(value) and value >= least) or (field.name.endswith("bandwidth") and value == 0) or value > 1e18:
            raise _refused(f"{field.name} of {value:g}")


class _Messages:
    """Messages being numbered."""

    def __init__(self, first: int) -> None:
        self.count = first
        self.parts: list[tuple[Int, Int, Float, NDArray[np.uint8]]] = []

    def add(self, there: Bool, source: Int, target: Int, size: Float, leaves: Leaves) -> Int:
        """Numbers of messages that are `there`, -1 of the others."""
        number = np.where(there, self.count + np.cumsum(there) - 1, -1)
        many = int(there.sum())
        self.count += many
        self.parts.append((source[there], target[there], size[there], np.full(many, leaves, dtype=np.uint8)))
        return number


def spoken(program: Program, protocol: Protocol) -> Spoken:
    """Every message of a program as what is said for it; those that leave when both ends are ready by rendezvous.

    A process at each end of every message speaks for it, so that the program's own go on as they did.  What a message may go at
    most and when it may begin besides does not hold: here bandwidths and latencies are those of the protocol.
    """
    sound(protocol)
    code, arg = np.asarray(program.code), np.array(program.arg, dtype=np.int64)
    leaves, size = np.asarray(program.leaves), np.asarray(program.size_bytes, dtype=np.float64)
    source, target, host = (np.asarray(a, dtype=np.int64) for a in (program.source, program.target, program.host))
    real = np.flatnonzero(leaves != Leaves.EDGE)
    count, processes = len(real), len(host)
    slot = np.full(len(leaves), -1, dtype=np.int64)
    slot[real] = np.arange(count)
    every, ready = np.ones(count, dtype=np.bool_), leaves[real] == Leaves.READY
    acknowledged = every & protocol.acknowledged
    hands = np.isin(code, [Op.SEND, Op.POST, Op.AWAIT, Op.SENT])
    own = np.where(hands, slot[np.where(hands, arg, 0)], -1) if len(slot) else np.full(len(arg), -1)
    message = own >= 0
    posts = np.zeros(count, dtype=np.bool_)
    posts[own[message & (code == Op.POST)]] = True
    here, there = processes + np.arange(count), processes + count + np.arange(count)
    # a message may go between other places than those of its processes
    starts, stops = (np.asarray(a, dtype=np.int64) for a in (program.start, program.end))
    leaves_from, goes_to = starts[real] if len(starts) else host[source[real]], stops[real] if len(stops) else host[target[real]]
    zero, header = np.zeros(count), np.full(count, float(protocol.header_bytes))
    full = size[real] + np.maximum(np.ceil(size[real] / protocol.packet_bytes), 1) * protocol.header_bytes
    made = _Messages(len(leaves))
    posted = made.add(ready & posts, target[real], there, zero, Leaves.EDGE)
    arrived = made.add(every, there, target[real], zero, Leaves.EDGE)
    sent = made.add(ready | acknowledged, here, source[real], zero, Leaves.EDGE)
    known = made.add(ready & acknowledged, here, there, zero, Leaves.EDGE)
    begin = made.count
    request = made.add(ready, here, there, header, Leaves.EAGER)
    reply = made.add(ready, there, here, header, Leaves.EAGER)
    data = made.add(every, here, there, full, Leaves.EAGER)
    fin = made.add(ready, there, here, header, Leaves.EAGER)
    done = made.add(acknowledged, there, here, header, Leaves.EAGER)
    # of the program's own operations: a message is handed to who speaks for it
    for op, number in ((Op.POST, posted), (Op.AWAIT, arrived), (Op.SENT, sent)):
        mine = message & (code == op)
        arg[mine] = number[own[mine]]
    code = np.where(message & (code == Op.POST), Op.SEND, np.where(message & (code == Op.SENT), Op.AWAIT, code)).astype(np.uint8)
    kept = ~message | (arg >= 0)
    first = np.append(0, np.cumsum(kept))[np.asarray(program.first, dtype=np.int64)]
    node = np.full(count, len(program.work_seconds))
    steps: list[tuple[Int, Bool, Op, Int]] = [
        (here, every, Op.AWAIT, real), (here, every, Op.WORK, node), (here, ready, Op.SEND, request), (here, ready, Op.AWAIT, reply),
        (here, ready, Op.WORK, node), (here, ready, Op.WORK, node + 1), (here, every, Op.SEND, data), (here, ready, Op.AWAIT, fin),
        (here, ready, Op.WORK, node), (here, ready & acknowledged, Op.SEND, known), (here, acknowledged, Op.AWAIT, done),
        (here, acknowledged, Op.WORK, node), (here, ready | acknowledged, Op.SEND, sent),
        (there, ready, Op.AWAIT, request), (there, ready, Op.WORK, node), (there, ready & posts, Op.AWAIT, posted),
        (there, ready, Op.WORK, node), (there, ready, Op.SEND, reply), (there, every, Op.AWAIT, data), (there, ~ready, Op.WORK, node),
        (there, every, Op.SEND, arrived), (there, ready, Op.WORK, node), (there, ready, Op.SEND, fin),
        (there, ready & acknowledged, Op.AWAIT, known), (there, acknowledged, Op.WORK, node), (there, acknowledged, Op.SEND, done),
    ]  # fmt: skip
    process = np.concatenate([one[mask] for one, mask, _, _ in steps])
    order = np.argsort(process, kind="stable")
    codes = np.concatenate([np.full(int(mask.sum()), int(op), dtype=np.uint8) for _, mask, op, _ in steps])[order]
    args = np.concatenate([values[mask] for _, mask, _, values in steps])[order]
    until = np.searchsorted(process[order], processes + np.arange(1, 2 * count + 1))
    # a message itself becomes the word to who speaks for it
    towards = target.copy()
    towards[real] = here
    ends = [np.concatenate([a, *(part[k] for part in made.parts)]) for k, a in enumerate((source, towards))]
    sizes = np.concatenate([np.where(leaves == Leaves.EDGE, size, 0.0), *(part[2] for part in made.parts)])
    ways = np.concatenate([np.full(len(leaves), Leaves.EDGE, dtype=np.uint8), *(part[3] for part in made.parts)])
    works = np.append(program.work_seconds, [protocol.eager_node_seconds, protocol.remote_node_seconds])
    return Spoken(
        Program(
            np.append(first, first[-1] + until), np.append(code[kept], codes), np.append(arg[kept], args), works, program.resource,
            program.use_seconds, program.capacity, np.concatenate([host, leaves_from, goes_to]),
            ends[0], ends[1], sizes, ways, priority=program.priority,
        ),
        begin, np.isin(np.arange(begin, made.count), data[ready]),
    )  # fmt: skip


@dataclass(frozen=True)
class Packed:
    """A program of packets.

    Attributes
    ----------
    program : of resources and edges alone.
    link : which link of the network each resource is.
    busy_seconds : how long each is taken in all [s].
    packets : how many there are.
    """

    program: Program
    link: Int
    busy_seconds: Float
    packets: int


def packed(said: Spoken, network: Network | Graph, protocol: Protocol, *, alone: bool = False) -> Packed:
    """What is said as packets over the links of a network, from card to card.

    Parameters
    ----------
    alone : as if every message had the network to itself: nothing waits but a message's packets for each other, as one long packet.

    Raises
    ------
    UsageError : A090, too many packets; nodes with more than one part.
    """
    if isinstance(network, Network) and len(network.made_of.parts) != 1:
        raise _refused("nodes of several parts", "packets go from node to node")
    one, remote = said.program, said.remote
    count = len(remote)
    source, target, leaves = (np.asarray(a, dtype=np.int64) for a in (one.source, one.target, one.leaves))
    host = np.asarray(one.host, dtype=np.int64)
    ways, which = routes(network, host[source[said.begin :]], host[target[said.begin :]])
    hops = np.array([len(r) for r in ways], dtype=np.int64)[which]
    size = np.asarray(one.size_bytes[said.begin :], dtype=np.float64)
    packets_of = np.maximum(np.ceil(size / (protocol.packet_bytes + protocol.header_bytes)), 1)
    # the way from who speaks to the first link counts as one
    taken = float((packets_of * (hops + 1.0)).sum())
    if taken > MOST_HOPS:
        fix = f"at most {MOST_HOPS:,}: larger packets, or the fidelity flow"
        raise _refused(f"{packets_of.sum():,.0f} packets that ask {taken:,.0f} times for nodes and links", fix)
    many = packets_of.astype(np.int64)
    of = np.repeat(np.arange(count), many)
    payload = _payload(size, many, of, protocol)
    takes, packets = protocol.packet_seconds(payload, remote[of]), len(of)
    if alone:
        between = np.where(remote, protocol.remote_switch_seconds, protocol.eager_switch_seconds)
        # a first link serves the next packet when the switch behind it is free
        takes = np.bincount(of, weights=takes, minlength=count).astype(np.float64) + np.where(hops > 1, (many - 1) * between, 0.0)
        of, many = np.arange(count), np.ones(count, dtype=np.int64)
    steps = hops[of]
    # a process for every link of every packet: packet by packet, link by link
    packet = np.repeat(np.arange(len(of)), steps)
    nth = np.arange(len(packet)) - np.repeat(np.cumsum(steps) - steps, steps)
    last = nth == steps[packet] - 1
    flat, start = (
        np.concatenate([np.zeros(0, dtype=np.int64), *(np.array(r, dtype=np.int64) for r in ways)]),
        np.cumsum([0, *map(len, ways)]),
    )
    link = flat[start[which[of[packet]]] + nth]
    used, resource = np.unique(link, return_inverse=True)
    switch = np.where(remote[of[packet]], protocol.remote_switch_seconds, protocol.eager_switch_seconds)
    held = takes[packet] + np.where(last, 0.0, switch)
    works, work = np.unique(held, return_inverse=True)
    # words to the first link, from link to link, and from the last link, in this order for each packet
    process = len(host) + np.arange(len(packet))
    word = said.begin + np.cumsum(steps + 1) - (steps + 1)
    hear, tell = word[packet] + nth, word[packet] + nth + 1
    words = int((steps + 1).sum())
    ends = [np.empty(words, dtype=np.int64), np.empty(words, dtype=np.int64)]
    ends[0][word - said.begin], ends[1][word + steps - said.begin] = source[said.begin :][of], target[said.begin :][of]
    ends[0][tell - said.begin], ends[1][hear - said.begin] = process, process
    delay = np.zeros(words)
    delay[tell - said.begin] = switch
    delay[word + steps - said.begin] = takes
    code, arg, first = _each_packet(one, said.begin, many, word, steps)
    own = np.stack([hear, resource, tell, len(one.work_seconds) + work, resource], axis=1).reshape(-1)
    does = np.tile(np.array([Op.AWAIT, Op.TAKE, Op.SEND, Op.WORK, Op.GIVE], dtype=np.uint8), len(packet))
    shift, room = len(one.capacity), max(len(of), 1) if alone else 1
    is_use = np.isin(does, [Op.TAKE, Op.GIVE])
    busy = np.bincount(resource, weights=held, minlength=len(used)).astype(np.float64)
    program = Program(
        np.append(first, first[-1] + 5 * np.arange(1, len(packet) + 1)), np.append(code, does),
        np.append(arg, np.where(is_use, own + len(one.resource), own)), np.append(one.work_seconds, works),
        np.append(one.resource, shift + np.arange(len(used))), np.append(one.use_seconds, np.zeros(len(used))),
        np.append(one.capacity, np.full(len(used), room)), np.append(host, np.zeros(len(packet), dtype=np.int64)),
        np.append(source[: said.begin], ends[0]), np.append(target[: said.begin], ends[1]),
        np.append(one.size_bytes[: said.begin], delay), np.append(leaves[: said.begin], np.full(words, Leaves.EDGE)).astype(np.uint8),
        priority=np.append(one.priority, np.zeros(len(used) if len(one.priority) else 0, dtype=np.int64)),
    )  # fmt: skip
    return Packed(program, used, busy, packets)


def _payload(size: Float, many: Int, of: Int, protocol: Protocol) -> Float:
    """Payload of every packet, headers left out [B]; `size` is payload and a header for each of the `many` packets of a message."""
    nth = np.arange(len(of)) - np.repeat(np.cumsum(many) - many, many)
    rest = size[of] - protocol.header_bytes * many[of] - nth * protocol.packet_bytes
    return np.asarray(np.clip(rest, 0.0, protocol.packet_bytes))


def _each_packet(one: Program, begin: int, many: Int, word: Int, steps: Int) -> tuple[NDArray[np.uint8], Int, Int]:
    """The operations of those who speak, with a word to and from every packet in place of the message."""
    code, arg = np.asarray(one.code), np.asarray(one.arg, dtype=np.int64)
    message = np.isin(code, [Op.SEND, Op.AWAIT]) & (arg >= begin)
    which = np.where(message, arg - begin, 0)
    times = np.where(message, many[which] if len(many) else 1, 1)
    at = np.repeat(np.arange(len(code)), times)
    nth = np.arange(len(at)) - np.repeat(np.cumsum(times) - times, times)
    first_packet = np.cumsum(many) - many
    packet = np.where(message[at], (first_packet[which] if len(many) else which)[at] + nth, 0)
    new = np.where(code[at] == Op.SEND, word[packet], word[packet] + steps[packet]) if len(word) else arg[at]
    first = np.append(0, np.cumsum(times))[np.asarray(one.first, dtype=np.int64)]
    return code[at], np.where(message[at], new, arg[at]), first


def _refused(found: str, fix: str = "") -> UsageError:
    return UsageError("A090", "the messages cannot be replayed as packets", found=found, fix=fix)
