"""`logp` against LogGOPS: a reference of LogGOPSim's rules, closed forms by hand, and each
difference with its size.

Two references, in whole picoseconds, written without the engine.  `loggopsim` keeps the three
clocks that LogGOPSim keeps for a host (processor, card out, card in; models.md 3.2).  `documented`
does what docs/models/contention.md says of `logp`.  The engine must be the second on every program,
and the first where the two agree; where they do not, the difference is a test of its own.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import program

from turnbuckle.mpi.collectives.collectives import pattern
from turnbuckle.replay.contention.contention import PICOSECONDS, Leaves, Op, Program
from turnbuckle.replay.contention.contention import replay as engine
from turnbuckle.replay.contention.network import Network

Lists = list[list[tuple[Op, int]]]
READY, EAGER = Leaves.READY, Leaves.EAGER
#: Between processes of one host [ps/B], [ps].
INSIDE, INSIDE_LATENCY = 10, 123_456


@dataclass(frozen=True)
class Costs:
    """Of LogGOPS [ps], [ps/B]; `receive_more`: what the overhead of receiving is beyond that of
    sending.

    `handshake`: whether a rendezvous tells the receiver, and is told by it, a latency each.
    """

    latency: int = 2_500_000
    overhead: int = 1_500_000
    gap: int = 1_000_000
    per_byte: int = 80
    overhead_per_byte: int = 0
    receive_more: int = 0
    handshake: bool = False


@dataclass(frozen=True)
class Case:
    """Operations of each process, argument of ``WORK`` in picoseconds; messages as source, target,
    bytes, way to leave.

    `host` of each process; one each where it is empty. `delay` of each message between its send and
    the time it may leave.
    """

    lists: Lists
    messages: list[tuple[int, int, int, Leaves]]
    host: tuple[int, ...] = ()
    delay: tuple[int, ...] = ()

    def place(self, process: int) -> int:
        """Where a process is."""
        return self.host[process] if self.host else process

    def shorter(self, by: int) -> Case:
        """The same with that many bytes less in each message."""
        return replace(self, messages=[(s, t, n - by, way) for s, t, n, way in self.messages])

    def program(self) -> Program:
        work = [a for one in self.lists for op, a in one if op == Op.WORK]
        which = iter(range(len(work)))
        lists = [[(op, next(which) if op == Op.WORK else a) for op, a in one] for one in self.lists]
        delay, places = (
            np.array(self.delay, dtype=float) / PICOSECONDS,
            [self.place(p) for p in range(len(lists))],
        )
        return program(
            lists, self.messages, np.array(work) / PICOSECONDS, places, delay_seconds=delay
        )


def replayed(case: Case, costs: Costs) -> list[int]:
    """Ends of the hosts by the engine [ps]."""
    overheads = (costs.overhead, costs.overhead + costs.receive_more)
    send, receive, gap, per_byte, overhead = (
        c / PICOSECONDS for c in (*overheads, costs.gap, costs.per_byte, costs.overhead_per_byte)
    )
    inside = {
        "inside_bandwidth": PICOSECONDS / INSIDE,
        "inside_seconds": INSIDE_LATENCY / PICOSECONDS,
    }
    overheads = {"send_overhead": send, "receive_overhead": receive, "overhead_per_byte": overhead}
    network = Network(
        len(case.lists),
        1e9,
        0.0,
        latency=costs.latency / PICOSECONDS,
        gap=gap,
        seconds_per_byte=per_byte,
        **inside,
        **overheads,
    )
    network = replace(network, handshake=costs.handshake)
    ends = engine(case.program(), network, "logp").ends * PICOSECONDS
    return [int(e) for e in np.round(ends)]


class _Loop:
    """Events in time order, then as they arose; each host goes through its list."""

    def __init__(self, case: Case) -> None:
        self.case, self.now, self.count = case, 0, 0
        self.heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self.next = [0] * len(case.lists)
        self.awake = [False] * len(case.lists)
        self.cpu, self.out, self.into = ([0] * len(case.lists) for _ in range(3))
        self.posted, self.there, self.received, self.released = (set[int]() for _ in range(4))

    def at(self, time: int, do: Callable[..., None], *what: int) -> None:
        heapq.heappush(self.heap, (time, self.count, do, what))
        self.count += 1

    def wake(self, host: int) -> None:
        """The host looks at its next operation as soon as its processor is free."""
        if not self.awake[host]:
            self.awake[host] = True
            self.at(max(self.now, self.cpu[host]), self.look, host)

    def look(self, host: int) -> None:
        self.awake[host] = False
        if self.cpu[host] > self.now:
            self.wake(host)
        elif self.next[host] < len(self.case.lists[host]):
            op, arg = self.case.lists[host][self.next[host]]
            if self.done(host, op, arg):
                self.cpu[host] = max(self.cpu[host], self.now)
                self.next[host] += 1
                self.wake(host)

    def done(self, host: int, op: Op, arg: int) -> bool:
        """Do it now, unless it must wait."""
        raise AssertionError

    def ends(self) -> list[int]:
        for host in range(len(self.case.lists)):
            self.wake(host)
        while self.heap:
            self.now, _, do, what = heapq.heappop(self.heap)
            do(*what)
        assert self.next == [len(one) for one in self.case.lists], "nobody is left waiting"
        return self.cpu


class _LogGOPSim(_Loop):
    """Spec: CPU busy o + (n-1) O, card g + (n-1) G; at the receiver o + max((n-1) O, (n-1) G), as
    soon as it is there, posted or not.
    """

    def __init__(self, case: Case, costs: Costs) -> None:
        super().__init__(case)
        self.costs = costs

    def done(self, host: int, op: Op, arg: int) -> bool:
        if op == Op.WORK:
            self.cpu[host] = self.now + arg
        elif op == Op.SEND:
            if self.out[host] > self.now:  # the processor waits for the card
                self.awake[host] = True
                self.at(self.out[host], self.look, host)
                return False
            _, target, size, way = self.case.messages[arg]
            c = self.costs
            self.cpu[host] = self.now + c.overhead + (size - 1) * c.overhead_per_byte
            self.out[host] = self.now + c.gap + (size - 1) * c.per_byte
            self.at(self.now + c.overhead + c.latency, self.come, arg, target)
            if way == EAGER:
                self.released.add(arg)
        elif op == Op.POST:
            self.posted.add(arg)
            self.matched(arg)
        else:
            return arg in (self.received if op == Op.AWAIT else self.released)
        return True

    def come(self, message: int, host: int) -> None:
        free = max(self.cpu[host], self.into[host])
        if free > self.now:
            self.at(free, self.come, message, host)
            return
        size, c = self.case.messages[message][2], self.costs
        self.cpu[host] = (
            self.now + c.overhead + max((size - 1) * c.overhead_per_byte, (size - 1) * c.per_byte)
        )
        self.into[host] = self.now + c.gap + (size - 1) * c.per_byte
        self.there.add(message)
        self.matched(message)

    def matched(self, message: int) -> None:
        if message in self.posted and message in self.there:
            source, target, _, way = self.case.messages[message]
            self.received.add(message)
            if way == READY:
                self.released.add(message)
                self.cpu[source] = max(self.cpu[source], self.now)
                self.out[source] = max(self.out[source], self.now)
                self.wake(source)
            self.wake(target)


class _Documented(_Loop):
    """Page: o + n O, then the host's card for n G + g; the receiver's card for n G + g, and o + n O
    when it is awaited.

    Between processes of one host: the latency and the bytes of its own wire, no card. A rendezvous
    with handshake is offered a latency later, and leaves a latency after it was accepted; what
    delays a message begins when it is sent.
    """

    def __init__(self, case: Case, costs: Costs) -> None:
        super().__init__(case)
        self.costs, self.offered = costs, set[int]()

    def overhead(self, message: int) -> int:
        return self.costs.overhead + self.case.messages[message][2] * self.costs.overhead_per_byte

    def done(self, host: int, op: Op, arg: int) -> bool:
        if op == Op.WORK:
            self.cpu[host] = self.now + arg
        elif op == Op.SEND:
            self.cpu[host] = self.now + self.overhead(arg)
            self.at(self.cpu[host] + self.delayed(arg) + self.told(arg), self.offer, arg)
            if self.case.messages[arg][3] == EAGER:
                self.released.add(arg)
        elif op == Op.POST:
            self.posted.add(arg)
            if self.case.messages[arg][3] == READY and arg in self.offered:
                self.ready(arg)
        elif op == Op.AWAIT:
            if arg not in self.received:
                return False
            self.cpu[host] = self.now + self.overhead(arg) + self.costs.receive_more
        else:
            return arg in self.released
        return True

    def offer(self, message: int) -> None:
        self.offered.add(message)
        if self.case.messages[message][3] == EAGER or message in self.posted:
            self.ready(message)

    def told(self, message: int) -> int:
        source, target, _, way = self.case.messages[message]
        if way == EAGER or not self.costs.handshake:
            return 0
        return (
            INSIDE_LATENCY
            if self.case.place(source) == self.case.place(target)
            else self.costs.latency
        )

    def delayed(self, message: int) -> int:
        return self.case.delay[message] if self.case.delay else 0

    def ready(self, message: int) -> None:
        self.at(self.now + self.told(message), self.leave, message)

    def leave(self, message: int) -> None:
        source, target, size, _ = self.case.messages[message]
        card = self.case.place(source)
        if card == self.case.place(target):
            self.at(self.now + INSIDE_LATENCY + size * INSIDE, self.arrive, message)
            return
        begins = max(self.now, self.out[card])
        self.out[card] = begins + self.costs.gap + size * self.costs.per_byte
        self.at(begins + self.costs.latency, self.reach, message)

    def reach(self, message: int) -> None:
        _, target, size, _ = self.case.messages[message]
        card = self.case.place(target)
        begins = max(self.now, self.into[card])
        self.into[card] = begins + self.costs.gap + size * self.costs.per_byte
        self.at(begins + size * self.costs.per_byte, self.arrive, message)

    def arrive(self, message: int) -> None:
        self.received.add(message)
        self.released.add(message)
        for host in self.case.messages[message][:2]:
            self.wake(host)


def loggopsim(case: Case, costs: Costs) -> list[int]:
    """Ends of the hosts by models.md 3.2 [ps]."""
    return _LogGOPSim(case, costs).ends()


def documented(case: Case, costs: Costs) -> list[int]:
    """Ends of the hosts by docs/models/contention.md [ps]."""
    return _Documented(case, costs).ends()


# --- patterns -------------------------------------------------------------------------------------


def collective(operation: str, algorithm: str, ranks: int, size: int, way: Leaves = EAGER) -> Case:
    """A collective: in each step room is made, then sent, then awaited."""
    made = pattern(operation, algorithm, ranks)
    messages = [(int(s), int(t), size, way) for s, t in zip(made.source, made.target, strict=True)]
    lists: Lists = [[] for _ in range(ranks)]
    for step in range(int(made.step.max()) + 1):
        mine = np.flatnonzero(made.step == step).tolist()
        for op in (Op.POST, Op.SEND, Op.AWAIT, Op.SENT):
            for m in mine:
                lists[messages[m][0] if op in (Op.SEND, Op.SENT) else messages[m][1]].append(
                    (op, m)
                )
    return Case(lists, messages)


def ring(ranks: int, size: int, way: Leaves = EAGER) -> Case:
    return collective("allgather", "ring", ranks, size, way)


def scatter(ranks: int, size: int, way: Leaves = EAGER) -> Case:
    """The root sends to one rank after the other."""
    lists: Lists = [
        [(Op.SEND, m) for m in range(ranks - 1)],
        *([(Op.POST, m), (Op.AWAIT, m)] for m in range(ranks - 1)),
    ]
    return Case(lists, [(0, m + 1, size, way) for m in range(ranks - 1)])


def one_message(size: int, way: Leaves = EAGER, *, late: int = 0) -> Case:
    """The receiver makes room after so much work; the sender needs its buffer back."""
    work: list[tuple[Op, int]] = [(Op.WORK, late)] if late else []
    return Case(
        [[(Op.SEND, 0), (Op.SENT, 0)], [*work, (Op.POST, 0), (Op.AWAIT, 0)]], [(0, 1, size, way)]
    )


#: LogGOPSim's defaults with G of a 12.5 GB/s link; no gap; a gap that is more than the overhead;
#: nothing but latency and overhead.
EAGER_COSTS: Final = [
    Costs(),
    Costs(gap=0),
    Costs(gap=9_000_000, overhead=700_000),
    Costs(latency=1_234_567, overhead=890_123, gap=0, per_byte=0),
    Costs(overhead=0),
]
SIZES: Final = [1, 2, 4096, 100_000]


def forms(ranks: int, size: int, c: Costs) -> Iterator[tuple[str, Case, int]]:
    """Patterns and when the last rank ends, worked out by hand for n - 1 bytes a message and O = 0;
    `ranks` is a power of two.

    Between sends of one rank lies max(o, g + (n-1) G).  A hop takes o + L + (n-1) G + o.
    """
    byte_time = (size - 1) * c.per_byte
    hop, apart = c.overhead + c.latency + byte_time + c.overhead, max(c.overhead, c.gap + byte_time)
    log = ranks.bit_length() - 1
    depth = log - 1  # of a binary tree that lacks one rank to be full: with ranks - 1 it is full
    # whoever is reached after h hops waited for the sends before at each of them; all hops first,
    # or all sends of the root first
    yield (
        "binomial broadcast",
        collective("bcast", "binomial", ranks, size),
        max(log * hop, (log - 1) * apart + hop),
    )
    yield "full binary tree", collective("bcast", "binary", ranks - 1, size), depth * (apart + hop)
    # everybody sends when it has received: the card has long been free if g < 2 o + L
    yield "ring", ring(ranks, size), (ranks - 2) * max(hop, apart) + hop
    # all are ready at once, so a rendezvous waits for nobody; the buffer is free before the next
    # message has been received
    yield "ring, rendezvous", ring(ranks, size, READY), (ranks - 2) * max(hop, apart) + hop
    yield "linear scatter", scatter(ranks, size), (ranks - 2) * apart + hop
    if size == 1:
        yield (
            "dissemination",
            collective("barrier", "dissemination", ranks, 1),
            (log - 1) * max(hop, apart) + hop,
        )


@pytest.mark.parametrize("costs", EAGER_COSTS)
@pytest.mark.parametrize(("ranks", "size"), [*product([4, 16], SIZES), (64, 1)])
def test_patterns_by_hand(ranks: int, size: int, costs: Costs) -> None:
    """LogGOPSim's rules, the engine with a byte less, and pencil and paper: one time."""
    for name, case, seconds in forms(ranks, size, costs):
        assert max(loggopsim(case, costs)) == seconds, f"LogGOPSim's rules, {name}"
        assert max(replayed(case.shorter(1), costs)) == seconds, f"the engine, {name}"


def test_small_messages_take_log_p_hops() -> None:
    """The textbook: ceil(log2 P) (L + 2 o) of empty messages; a barrier at any number of ranks, a
    broadcast at powers of two.
    """
    costs = Costs(gap=0)
    for ranks in range(2, 40):
        log = (ranks - 1).bit_length()
        form = log * (costs.latency + 2 * costs.overhead)
        assert max(replayed(collective("barrier", "dissemination", ranks, 0), costs)) == form, ranks
        broadcast = max(replayed(collective("bcast", "binomial", ranks, 0), costs))
        assert broadcast == form if ranks == 1 << log else broadcast <= form, ranks


@pytest.mark.parametrize("overhead_per_byte", [0, 30, 80, 200])
@pytest.mark.parametrize("way", [EAGER, READY])
def test_patterns_with_processor_time_a_byte(overhead_per_byte: int, way: Leaves) -> None:
    """The engine's own closed forms with O: a hop is o + n O + L + n G + n O + o; between sends
    lies max(o + n O, g + n G).
    """
    size, ranks = 5000, 8
    c = Costs(overhead_per_byte=overhead_per_byte)
    pays = c.overhead + size * c.overhead_per_byte
    hop, apart = pays + c.latency + size * c.per_byte + pays, max(pays, c.gap + size * c.per_byte)
    assert max(replayed(ring(ranks, size, way), c)) == (ranks - 1) * hop
    assert max(replayed(scatter(ranks, size, way), c)) == (ranks - 2) * apart + hop
    held = hop - pays  # who sends by rendezvous has its buffer back when the message has arrived
    tree = {EAGER: max(3 * hop, 2 * apart + hop), READY: max(3 * hop, 2 * held + hop)}
    assert max(replayed(collective("bcast", "binomial", ranks, size, way), c)) == tree[way]


# --- differences ----------------------------------------------------------------------------------

C: Final = Costs(overhead_per_byte=20)


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_difference_a_byte_more(size: int) -> None:
    """n G instead of (n-1) G: one G a message (models.md 3.2, decided)."""
    case, c = one_message(size), Costs()
    assert replayed(case, c)[1] - loggopsim(case, c)[1] == c.per_byte


@pytest.mark.parametrize("overhead_per_byte", [20, 80, 300])
def test_difference_processor_time_a_byte_is_on_the_way(overhead_per_byte: int) -> None:
    """LogGOPSim's first byte leaves after o, and O runs beside G at the receiver; here n O comes
    before and after: n O + n min(O, G).
    """
    c = Costs(overhead_per_byte=overhead_per_byte)
    case, less = one_message(4097), 4096
    more = replayed(case.shorter(1), c)[1] - loggopsim(case, c)[1]
    assert more == less * overhead_per_byte + less * min(overhead_per_byte, c.per_byte)


def test_difference_a_sender_does_not_wait_for_its_card() -> None:
    """LogGOPSim's processor waits for the card before each send but the first; here the card has a
    queue: up to g + (n-1) G - o each.
    """
    ranks, size, c = 6, 10_000, Costs()
    case = scatter(ranks, size)
    earlier = loggopsim(case, c)[0] - replayed(case.shorter(1), c)[0]
    assert earlier == (ranks - 2) * (c.gap + (size - 1) * c.per_byte - c.overhead)
    assert loggopsim(case, c)[1:] == replayed(case.shorter(1), c)[1:], (
        "the receivers see no difference"
    )


def test_difference_bytes_come_in_beside_the_processor() -> None:
    """LogGOPSim's receiving processor is busy for o + (n-1) G, whatever it is doing; here its card
    takes the bytes while it works.
    """
    size, work, c = 100_000, 50_000_000, Costs()
    lists: Lists = [[(Op.SEND, 0)], [(Op.POST, 0), (Op.WORK, 1), (Op.WORK, work), (Op.AWAIT, 0)]]
    # the message comes during the first work, and is dealt with between the two
    lists[1][1] = (Op.WORK, c.overhead + c.latency + 1)
    case = Case(lists, [(0, 1, size, EAGER)])
    both = c.overhead + c.latency + 1 + work
    assert loggopsim(case, c)[1] == both + c.overhead + (size - 1) * c.per_byte
    assert replayed(case.shorter(1), c)[1] == both + c.overhead


def test_difference_the_overhead_of_receiving_overlaps_the_next_message() -> None:
    """Two messages come at once: LogGOPSim begins with the second after max(o, g), here the card
    takes it while the processor pays o.
    """
    size, c = 10_000, Costs()
    lists: Lists = [
        [(Op.SEND, 0)],
        [(Op.WORK, 1), (Op.SEND, 1)],
        [(op, m) for op in (Op.POST, Op.AWAIT) for m in (0, 1)],
    ]
    case = Case(lists, [(0, 2, size, EAGER), (1, 2, size, EAGER)])
    assert loggopsim(case, c)[2] - replayed(case.shorter(1), c)[2] == c.overhead - c.gap


def test_difference_a_message_that_came_early_costs_when_it_is_awaited() -> None:
    """LogGOPSim pays o when a message comes, here when it is awaited: up to o later for each that
    came while another was awaited.
    """
    c = Costs(per_byte=0)
    lists: Lists = [
        [(Op.WORK, 90_000_000), (Op.SEND, 0)],
        [(Op.SEND, 1)],
        [(Op.POST, 0), (Op.POST, 1), (Op.AWAIT, 0), (Op.AWAIT, 1)],
    ]
    case = Case(lists, [(0, 2, 1, EAGER), (1, 2, 1, EAGER)])
    assert replayed(case.shorter(1), c)[2] - loggopsim(case, c)[2] == c.overhead


@pytest.mark.parametrize("late", [0, 50_000_000])
def test_difference_a_rendezvous_begins_when_both_are_ready(late: int) -> None:
    """LogGOPSim sends at once and holds the sender until the match; here the bytes wait for the
    receive, the sender for the bytes.
    """
    size, c = 100_000, Costs()
    case = one_message(size, READY, late=late)
    theirs, ours = loggopsim(case, c), replayed(case.shorter(1), c)
    byte_time = (size - 1) * c.per_byte
    # there it has come, and the sender's buffer is free when its bytes begin to be taken in
    if late:
        assert theirs == [late, late + c.overhead + byte_time]
        assert ours == [late + c.latency + byte_time, late + c.latency + byte_time + c.overhead]
    else:
        assert theirs == [c.overhead + c.latency, c.overhead + c.latency + byte_time + c.overhead]
        assert ours == [theirs[0] + byte_time, theirs[1]]


# --- random programs ------------------------------------------------------------------------------


def drawn(
    seed: int,
    *,
    ways: tuple[Leaves, ...],
    hosts: int = 6,
    messages: int = 40,
    sharing: bool = False,
    delayed: bool = False,
) -> Case:
    """A program that cannot get stuck: messages in one order that all hosts keep; room is made
    early, buffers are asked for late.

    Durations are so long that hardly two events fall on one picosecond.
    """
    rng = np.random.default_rng(seed)
    lists: Lists = [[(Op.WORK, int(rng.integers(1, 40_000_000)))] for _ in range(hosts)]
    made: list[tuple[int, int, int, Leaves]] = []
    open_sends: list[list[int]] = [[] for _ in range(hosts)]
    for m in range(int(rng.integers(1, messages))):
        source, target = (int(h) for h in rng.choice(hosts, 2, replace=False))
        made.append(
            (
                source,
                target,
                int(rng.choice([1, 8, 1000, 20_000, 300_000])),
                ways[int(rng.integers(len(ways)))],
            )
        )
        for host in (source, target):
            if rng.random() < 0.7:
                lists[host].append((Op.WORK, int(rng.integers(1, 40_000_000))))
        lists[source].append((Op.SEND, m))
        if rng.random() < 0.5:
            lists[source].append((Op.SENT, m))
        else:
            open_sends[source].append(m)
        # a receive may be made room for before what else the host does
        lists[target].insert(int(rng.integers(1, len(lists[target]) + 1)), (Op.POST, m))
        lists[target].append((Op.AWAIT, m))
    for host, left in enumerate(open_sends):
        lists[host] += [(Op.SENT, m) for m in left]
    together = int(rng.integers(1, 4))
    delay = (
        tuple(int(d) for d in rng.integers(0, 5_000_000, len(made)) * (rng.random(len(made)) < 0.5))
        if delayed
        else ()
    )
    return Case(lists, made, tuple(p // together for p in range(hosts)) if sharing else (), delay)


def random_costs(seed: int) -> Costs:
    rng = np.random.default_rng(seed + 1)
    latency, overhead, gap, per_byte, each, more = (
        int(rng.integers(0, most)) for most in (5_000_000, 3_000_000, 3_000_000, 200, 60, 50_000)
    )
    return Costs(latency, overhead, gap, per_byte, each, more)


@settings(max_examples=150)
@given(st.integers(0, 2**32 - 1))
def test_random_programs_are_as_documented(seed: int) -> None:
    case, costs = drawn(seed, ways=(EAGER, READY)), random_costs(seed)
    assert replayed(case, costs) == documented(case, costs)


@settings(max_examples=150)
@given(st.integers(0, 2**32 - 1))
def test_processes_of_a_host_share_its_card_as_documented(seed: int) -> None:
    case, costs = drawn(seed, ways=(EAGER, READY), sharing=True), random_costs(seed)
    assert replayed(case, costs) == documented(case, costs)


@settings(max_examples=150)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
def test_handshakes_and_delays_are_as_documented(seed: int, handshake: bool, sharing: bool) -> None:
    case = drawn(seed, ways=(EAGER, READY), sharing=sharing, delayed=True)
    costs = replace(random_costs(seed), handshake=handshake)
    assert replayed(case, costs) == documented(case, costs)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_random_programs_of_latency_alone_are_as_loggopsim_has_them(seed: int) -> None:
    """Without o, g, G and O nothing of what differs is left for eager messages: the longest path
    over works and latencies.
    """
    case, costs = drawn(seed, ways=(EAGER,)), Costs(overhead=0, gap=0, per_byte=0)
    assert replayed(case, costs) == loggopsim(case, costs)


@settings(max_examples=80)
@given(st.integers(0, 2**32 - 1))
def test_random_chains_are_as_loggopsim_has_them(seed: int) -> None:
    """One message at a time, by any way round the hosts, awaited when it comes: nothing overlaps,
    so nothing differs but the byte.
    """
    rng = np.random.default_rng(seed)
    hosts, hops = 5, int(rng.integers(1, 20))
    route = [0]
    while len(route) <= hops:
        route.append(int(rng.choice([h for h in range(hosts) if h != route[-1]])))
    lists: Lists = [[] for _ in range(hosts)]
    messages = []
    for m, (a, b) in enumerate(pairwise(route)):
        messages.append(
            (a, b, int(rng.integers(1, 100_000)), EAGER if rng.random() < 0.5 else READY)
        )
        lists[a] += [(Op.WORK, int(rng.integers(0, 10_000_000))), (Op.SEND, m)]
        lists[b] += [(Op.POST, m), (Op.AWAIT, m)]
    costs = replace(random_costs(seed), overhead_per_byte=0, receive_more=0)
    # a card is free again before its host sends the next: a message has come back since, which took
    # longer
    costs = replace(costs, gap=min(costs.gap, costs.latency))
    case = Case(lists, messages)
    # whose last act was a rendezvous is held until the match there; the last receiver is last in
    # both
    assert max(replayed(case.shorter(1), costs)) == max(loggopsim(case, costs))
