"""Packet-level replay of messages after LiMPPy (PNNL FENATE): every packet occupies links one after
the other.

``spoken``   every message as the messages of its protocol: eager data; or request, reply, data and fin, which wait for each other
``packed``   every such message as packets, and every packet as the links it takes: each directed link serves one packet at a time, first
             come first served, for the packet's transmission time (and the latency of the switch behind it); the head moves on at once
             (cut-through), and the packet has arrived when its tail has

`spoken` alone runs under any fidelity, `flow` among them; `packed` is a program of resources and
fixed delays only.

Two differences from the original: a message that waits for its receiver does so (the original
answers at once, which here happens only where no receive is posted), and compute between messages
may be kept.  ``legacy_headers`` adds the header twice, as the original does.

Errors: A090.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from turnbuckle.foundation.arrays import Bool, Float, Int, runs
from turnbuckle.foundation.errors import TurnbuckleError, error_of
from turnbuckle.mpi.networks.routes import MOST_HOPS, Graph, routes
from turnbuckle.replay.contention.contention import Leaves, Op, Program
from turnbuckle.replay.contention.network import Network


@dataclass(frozen=True)
class Protocol:
    """Parameters of LiMPPy's protocol; the defaults are those of the original, estimated there for
    InfiniBand EDR.
    """

    #: packet_bytes, header_bytes: payload of a full packet, and header of every packet [B]
    packet_bytes: int = 4096
    header_bytes: int = 98
    eager_bytes: int = 16384  #: messages up to this size are sent at once [B]
    #: eager_bandwidth, remote_bandwidth: of packets sent by a processor, and of remote memory
    #: access [B/s]
    eager_bandwidth: float = 3.5e9
    remote_bandwidth: float = 12.5e9
    #: eager_node_seconds, remote_node_seconds: latency of a node: leaving it, and for eager packets
    #: entering it too [s]
    eager_node_seconds: float = 650e-9
    remote_node_seconds: float = 750e-9
    #: eager_switch_seconds, remote_switch_seconds: latency of a switch [s]
    eager_switch_seconds: float = 100e-9
    remote_switch_seconds: float = 90e-9
    legacy_headers: bool = False  #: add the header to the time of a packet once more
    acknowledged: bool = False  #: a packet back when a message is complete

    def packet_seconds(self, payload_bytes: Float, remote: Bool) -> Float:
        """Return how long a packet occupies a link: payload and header over the bandwidth, in whole
        nanoseconds [s].

        >>> Protocol().packet_seconds(np.array([4096.0, 0.0]), np.array([True, False])).round(12).tolist()
        [3.36e-07, 2.8e-08]
        """
        size = payload_bytes + self.header_bytes * (2 if self.legacy_headers else 1)
        return np.asarray(
            np.ceil(size / np.where(remote, self.remote_bandwidth, self.eager_bandwidth) * 1e9)
            * 1e-9
        )


@dataclass(frozen=True)
class Spoken:
    """Program in which the messages of another are replaced by those of the protocol."""

    #: program whose messages between nodes all leave as soon as they are sent; the others are edges
    program: Program
    begin: int  #: number of the first message between nodes; all later ones are between nodes too
    #: mask of the messages between nodes that are remote memory access, shape (protocol messages,)
    remote: Bool


def sound(protocol: Protocol) -> None:
    """Refuse impossible parameters; A090 names the offending field.  Raises A090."""
    for field in fields(protocol):
        value = getattr(protocol, field.name)
        least = 1 if field.name == "packet_bytes" else 0
        if (
            not (math.isfinite(value) and value >= least)
            or (field.name.endswith("bandwidth") and value == 0)
            or value > 1e18
        ):
            raise _refused(f"{field.name} of {value:g}")


class _Messages:
    """Numbered messages of a program under construction."""

    def __init__(self, first: int) -> None:
        self.count = first
        self.parts: list[tuple[Int, Int, Float, NDArray[np.uint8]]] = []

    def add(self, there: Bool, source: Int, target: Int, size: Float, leaves: Leaves) -> Int:
        """Add the messages that `there` selects, and return their numbers; -1 for the others."""
        number = np.where(there, self.count + np.cumsum(there) - 1, -1)
        many = int(there.sum())
        self.count += many
        self.parts.append(
            (source[there], target[there], size[there], np.full(many, leaves, dtype=np.uint8))
        )
        return number


def spoken(program: Program, protocol: Protocol) -> Spoken:
    """Return a program with every message replaced by the messages of the protocol; those that
    leave when both ends are ready use rendezvous.

    A process at each end of every message runs the protocol, so that the program's own processes go
    on as they did.  Rate limits and delays of the messages do not apply: bandwidths and latencies
    are those of the protocol.
    """
    sound(protocol)
    code, arg = np.asarray(program.code), np.array(program.arg, dtype=np.int64)
    leaves, size = np.asarray(program.leaves), np.asarray(program.size_bytes, dtype=np.float64)
    source, target, host = (
        np.asarray(a, dtype=np.int64) for a in (program.source, program.target, program.host)
    )
    real = np.flatnonzero(leaves != Leaves.EDGE)
    count, processes = len(real), len(host)
    slot = np.full(len(leaves), -1, dtype=np.int64)
    slot[real] = np.arange(count)
    always, ready = np.ones(count, dtype=np.bool_), leaves[real] == Leaves.READY
    acknowledged = always & protocol.acknowledged
    handles = np.isin(code, [Op.SEND, Op.POST, Op.AWAIT, Op.SENT])
    message_of = (
        np.where(handles, slot[np.where(handles, arg, 0)], -1)
        if len(slot)
        else np.full(len(arg), -1)
    )
    message = message_of >= 0
    posts = np.zeros(count, dtype=np.bool_)
    posts[message_of[message & (code == Op.POST)]] = True
    sender, receiver = processes + np.arange(count), processes + count + np.arange(count)
    # A message may go between other places than those of its processes.
    starts, stops = (np.asarray(a, dtype=np.int64) for a in (program.start, program.end))
    leaves_from, goes_to = (
        starts[real] if len(starts) else host[source[real]],
        stops[real] if len(stops) else host[target[real]],
    )
    zero, header = np.zeros(count), np.full(count, float(protocol.header_bytes))
    full = (
        size[real]
        + np.maximum(np.ceil(size[real] / protocol.packet_bytes), 1) * protocol.header_bytes
    )
    builder = _Messages(len(leaves))
    posted = builder.add(ready & posts, target[real], receiver, zero, Leaves.EDGE)
    arrived = builder.add(always, receiver, target[real], zero, Leaves.EDGE)
    sent = builder.add(ready | acknowledged, sender, source[real], zero, Leaves.EDGE)
    done_known = builder.add(ready & acknowledged, sender, receiver, zero, Leaves.EDGE)
    begin = builder.count
    request = builder.add(ready, sender, receiver, header, Leaves.EAGER)
    reply = builder.add(ready, receiver, sender, header, Leaves.EAGER)
    data = builder.add(always, sender, receiver, full, Leaves.EAGER)
    fin = builder.add(ready, receiver, sender, header, Leaves.EAGER)
    done = builder.add(acknowledged, receiver, sender, header, Leaves.EAGER)
    # The program's own operations hand a message to the process that runs its protocol.
    for op, number in ((Op.POST, posted), (Op.AWAIT, arrived), (Op.SENT, sent)):
        selected = message & (code == op)
        arg[selected] = number[message_of[selected]]
    code = np.where(
        message & (code == Op.POST), Op.SEND, np.where(message & (code == Op.SENT), Op.AWAIT, code)
    ).astype(np.uint8)
    kept = ~message | (arg >= 0)
    first = np.append(0, np.cumsum(kept))[np.asarray(program.first, dtype=np.int64)]
    node = np.full(count, len(program.work_seconds))
    informed, either = ready & acknowledged, ready | acknowledged
    requesting = [
        (always, Op.AWAIT, real),
        (always, Op.WORK, node),
        (ready, Op.SEND, request),
        (ready, Op.AWAIT, reply),
    ]
    sending = [
        (ready, Op.WORK, node),
        (ready, Op.WORK, node + 1),
        (always, Op.SEND, data),
        (ready, Op.AWAIT, fin),
        (ready, Op.WORK, node),
    ]
    closing = [
        (informed, Op.SEND, done_known),
        (acknowledged, Op.AWAIT, done),
        (acknowledged, Op.WORK, node),
        (either, Op.SEND, sent),
    ]
    replying = [
        (ready, Op.AWAIT, request),
        (ready, Op.WORK, node),
        (ready & posts, Op.AWAIT, posted),
        (ready, Op.WORK, node),
    ]
    taking = [
        (ready, Op.SEND, reply),
        (always, Op.AWAIT, data),
        (~ready, Op.WORK, node),
        (always, Op.SEND, arrived),
    ]
    ending = [(ready, Op.WORK, node), (ready, Op.SEND, fin), (informed, Op.AWAIT, done_known)]
    done_last = [(acknowledged, Op.WORK, node), (acknowledged, Op.SEND, done)]
    at_sender: list[tuple[Bool, Op, Int]] = [*requesting, *sending, *closing]
    at_receiver: list[tuple[Bool, Op, Int]] = [*replying, *taking, *ending, *done_last]
    steps = [(sender, *step) for step in at_sender] + [(receiver, *step) for step in at_receiver]
    process = np.concatenate([process_of[mask] for process_of, mask, _, _ in steps])
    order = np.argsort(process, kind="stable")
    codes = np.concatenate(
        [np.full(int(mask.sum()), int(op), dtype=np.uint8) for _, mask, op, _ in steps]
    )[order]
    args = np.concatenate([values[mask] for _, mask, _, values in steps])[order]
    until = np.searchsorted(process[order], processes + np.arange(1, 2 * count + 1))
    # The message itself becomes the edge to the process that runs its protocol.
    towards = target.copy()
    towards[real] = sender
    ends = [
        np.concatenate([a, *(part[k] for part in builder.parts)])
        for k, a in enumerate((source, towards))
    ]
    sizes = np.concatenate(
        [np.where(leaves == Leaves.EDGE, size, 0.0), *(part[2] for part in builder.parts)]
    )
    leaves_of = np.concatenate(
        [np.full(len(leaves), Leaves.EDGE, dtype=np.uint8), *(part[3] for part in builder.parts)]
    )
    works = np.append(
        program.work_seconds, [protocol.eager_node_seconds, protocol.remote_node_seconds]
    )
    all_first, all_codes, all_args = (
        np.append(first, first[-1] + until),
        np.append(code[kept], codes),
        np.append(arg[kept], args),
    )
    resource, uses, capacity = program.resource, program.use_seconds, program.capacity
    hosts, from_, to = np.concatenate([host, leaves_from, goes_to]), ends[0], ends[1]
    spoken_program = Program(
        all_first,
        all_codes,
        all_args,
        works,
        resource,
        uses,
        capacity,
        hosts,
        from_,
        to,
        sizes,
        leaves_of,
        priority=program.priority,
    )
    return Spoken(spoken_program, begin, np.isin(np.arange(begin, builder.count), data[ready]))


@dataclass(frozen=True)
class Packed:
    """Program of packets."""

    program: Program  #: program of resources and edges alone
    link: Int  #: link of the network that each resource stands for
    busy_seconds: Float  #: total time for which each resource is occupied [s]
    packets: int


def packed(
    protocol_program: Spoken, network: Network | Graph, protocol: Protocol, *, alone: bool = False
) -> Packed:
    """Return the protocol's messages as packets over the links of a network, from NIC to NIC.

    Raises A090, too many packets; nodes with more than one part.

    Parameters
    ----------
    alone : replay every message as if it had the network to itself: its packets wait only for each
        other, as one long packet.
    """
    if isinstance(network, Network) and len(network.made_of.parts) != 1:
        raise _refused("nodes of several parts", "packets go from node to node")
    program_in, remote = protocol_program.program, protocol_program.remote
    count = len(remote)
    source, target, leaves = (
        np.asarray(a, dtype=np.int64)
        for a in (program_in.source, program_in.target, program_in.leaves)
    )
    host = np.asarray(program_in.host, dtype=np.int64)
    paths, path_of = routes(
        network, host[source[protocol_program.begin :]], host[target[protocol_program.begin :]]
    )
    hops = np.array([len(r) for r in paths], dtype=np.int64)[path_of]
    size = np.asarray(program_in.size_bytes[protocol_program.begin :], dtype=np.float64)
    packets_of = np.maximum(np.ceil(size / (protocol.packet_bytes + protocol.header_bytes)), 1)
    # The hop from the sending process to the first link counts as one.
    visits = float((packets_of * (hops + 1.0)).sum())
    if visits > MOST_HOPS:
        fix = f"at most {MOST_HOPS:,}: larger packets, or the fidelity flow"
        raise _refused(
            f"{packets_of.sum():,.0f} packets that ask {visits:,.0f} times for nodes and links", fix
        )
    packets_per_message = packets_of.astype(np.int64)
    message_of, turn = runs(packets_per_message)
    # the size holds a header for each packet
    rest = (size - protocol.header_bytes * packets_per_message)[
        message_of
    ] - turn * protocol.packet_bytes
    payload = np.clip(rest, 0.0, protocol.packet_bytes)
    packet_seconds, packets = protocol.packet_seconds(payload, remote[message_of]), len(message_of)
    if alone:
        between = np.where(remote, protocol.remote_switch_seconds, protocol.eager_switch_seconds)
        # The first link serves the next packet only when the switch behind it is free.
        packet_seconds = np.bincount(message_of, weights=packet_seconds, minlength=count).astype(
            np.float64
        ) + np.where(hops > 1, (packets_per_message - 1) * between, 0.0)
        message_of, packets_per_message = np.arange(count), np.ones(count, dtype=np.int64)
    steps = hops[message_of]
    # Every link of every packet is a process, ordered by packet and then by link.
    packet, hop = runs(steps)
    last = hop == steps[packet] - 1
    flat, start = (
        np.concatenate(
            [np.zeros(0, dtype=np.int64), *(np.array(r, dtype=np.int64) for r in paths)]
        ),
        np.cumsum([0, *map(len, paths)]),
    )
    link = flat[start[path_of[message_of[packet]]] + hop]
    used, resource = np.unique(link, return_inverse=True)
    switch = np.where(
        remote[message_of[packet]], protocol.remote_switch_seconds, protocol.eager_switch_seconds
    )
    occupied = packet_seconds[packet] + np.where(last, 0.0, switch)
    works, work = np.unique(occupied, return_inverse=True)
    # The edges of each packet lead to its first link, from link to link, and from its last link, in
    # this order.
    process = len(host) + np.arange(len(packet))
    word = protocol_program.begin + np.cumsum(steps + 1) - (steps + 1)
    incoming, outgoing = word[packet] + hop, word[packet] + hop + 1
    words = int((steps + 1).sum())
    ends = [np.empty(words, dtype=np.int64), np.empty(words, dtype=np.int64)]
    ends[0][word - protocol_program.begin], ends[1][word + steps - protocol_program.begin] = (
        source[protocol_program.begin :][message_of],
        target[protocol_program.begin :][message_of],
    )
    ends[0][outgoing - protocol_program.begin], ends[1][incoming - protocol_program.begin] = (
        process,
        process,
    )
    delay = np.zeros(words)
    delay[outgoing - protocol_program.begin] = switch
    delay[word + steps - protocol_program.begin] = packet_seconds
    code, arg, first = _each_packet(
        program_in, protocol_program.begin, packets_per_message, word, steps
    )
    arguments = np.stack(
        [incoming, resource, outgoing, len(program_in.work_seconds) + work, resource], axis=1
    ).reshape(-1)
    operations = np.tile(
        np.array([Op.AWAIT, Op.TAKE, Op.SEND, Op.WORK, Op.GIVE], dtype=np.uint8), len(packet)
    )
    shift, capacity = len(program_in.capacity), max(len(message_of), 1) if alone else 1
    is_use = np.isin(operations, [Op.TAKE, Op.GIVE])
    busy = np.bincount(resource, weights=occupied, minlength=len(used)).astype(np.float64)
    begin, none = protocol_program.begin, np.zeros(len(used))
    args = np.append(arg, np.where(is_use, arguments + len(program_in.resource), arguments))
    program = Program(
        np.append(first, first[-1] + 5 * np.arange(1, len(packet) + 1)),
        np.append(code, operations),
        args,
        np.append(program_in.work_seconds, works),
        np.append(program_in.resource, shift + np.arange(len(used))),
        np.append(program_in.use_seconds, none),
        np.append(program_in.capacity, np.full(len(used), capacity)),
        np.append(host, np.zeros(len(packet), dtype=np.int64)),
        np.append(source[:begin], ends[0]),
        np.append(target[:begin], ends[1]),
        np.append(program_in.size_bytes[:begin], delay),
        np.append(leaves[:begin], np.full(words, Leaves.EDGE)).astype(np.uint8),
        priority=np.append(
            program_in.priority,
            np.zeros(len(used) if len(program_in.priority) else 0, dtype=np.int64),
        ),
    )
    return Packed(program, used, busy, packets)


def _each_packet(
    program: Program, begin: int, packets_per_message: Int, word: Int, steps: Int
) -> tuple[NDArray[np.uint8], Int, Int]:
    """Return the operations of the protocol's processes, with an edge to and from every packet in
    place of the message.
    """
    code, arg = np.asarray(program.code), np.asarray(program.arg, dtype=np.int64)
    message = np.isin(code, [Op.SEND, Op.AWAIT]) & (arg >= begin)
    message_index = np.where(message, arg - begin, 0)
    times = np.where(
        message, packets_per_message[message_index] if len(packets_per_message) else 1, 1
    )
    operation, index = runs(times)
    first_packet = np.cumsum(packets_per_message) - packets_per_message
    packet = np.where(
        message[operation],
        (first_packet[message_index] if len(packets_per_message) else message_index)[operation]
        + index,
        0,
    )
    replaced = (
        np.where(code[operation] == Op.SEND, word[packet], word[packet] + steps[packet])
        if len(word)
        else arg[operation]
    )
    first = np.append(0, np.cumsum(times))[np.asarray(program.first, dtype=np.int64)]
    return code[operation], np.where(message[operation], replaced, arg[operation]), first


def _refused(evidence: str, fix: str = "") -> TurnbuckleError:
    return error_of("A090.packets", found=evidence, fix=fix)
