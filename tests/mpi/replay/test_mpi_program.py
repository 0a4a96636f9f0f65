"""What the ranks of a recorded MPI run do in a replay: in which order, with which copies, and from
where to where.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.mpi.replay import messages as mpi
from turnbuckle.mpi.replay.messages import Messages, Rounds, Traffic
from turnbuckle.mpi.replay.node_layout import Layout, laid_out, seated
from turnbuckle.mpi.replay.program import Charges, all_messages, program
from turnbuckle.replay.contention import operations
from turnbuckle.replay.contention.contention import Leaves, Op, Program, replay
from turnbuckle.replay.contention.network import Network, Node, Wire
from turnbuckle.replay.contention.nodes import gpu_node, graph

NODE = gpu_node(2, link=10e9, memory=10e9, peer=50e9, joined="switch")
COPIED = Charges((2e-6, 1e-10), (3e-6, 2e-10))
DIRECT = Charges(direct=True, eager_limit=0.0, pin_seconds=1e-5, pin_once=True)


def made(
    messages: list[tuple[int, int, int, int, float]],
    rank: list[int],
    gap: float = 0.0,
    rounds: tuple[Rounds, ...] = (),
) -> Traffic:
    """Traffic from lists: activities of a message (send, its wait, receive, its wait) and bytes;
    rank of each activity.
    """
    ends = np.array([m[:4] for m in messages], dtype=np.int64).reshape(-1, 4)
    size, ranks = np.array([m[4] for m in messages], dtype=np.float64), max(rank) + 1
    return Traffic(
        ranks,
        np.array(rank),
        np.full(len(rank), gap),
        np.zeros(len(rank)),
        np.zeros(ranks),
        Messages(ends[:, 0], ends[:, 1], ends[:, 2], ends[:, 3], np.full(len(size), -1), size),
        rounds,
        1.0,
        0,
    )


def drawn(seed: int, ranks: int = 4) -> Traffic:
    """Phases of non-blocking receives and sends around a ring, waits for all, collectives of both
    kinds; messages in any order.
    """
    dice = np.random.default_rng(seed)
    rank: list[int] = []
    messages: list[tuple[int, int, int, int, float]] = []
    rounds: list[Rounds] = []

    def calls() -> list[int]:
        rank.extend(range(ranks))
        return list(range(len(rank) - ranks, len(rank)))

    for _ in range(int(dice.integers(1, 4))):
        receives, sends, begin, wait, end = calls(), calls(), calls(), calls(), calls()
        for shift in dice.integers(0, ranks, 2).tolist():
            for me in range(ranks):
                to = (me + shift) % ranks
                messages.append(
                    (
                        sends[me],
                        wait[me],
                        receives[to],
                        wait[to],
                        float(dice.choice([0, 8, 5000, 1e5])),
                    )
                )
        beside = dice.random() < 0.5
        rounds.append(
            Rounds(
                "allreduce",
                np.array([100.0]),
                np.array([end]),
                0,
                np.array([begin]) if beside else np.zeros((0, 0), int),
            )
        )
    order = np.argsort(rank, kind="stable")
    place = np.empty(len(rank), dtype=np.int64)
    place[order] = np.arange(len(rank))
    shuffled = [messages[k] for k in dice.permutation(len(messages)).tolist()]
    moved = [(*(int(place[end]) for end in m[:4]), m[4]) for m in shuffled]
    at = [
        replace(r, activity=place[r.activity], begin=place[r.begin] if r.begin.size else r.begin)
        for r in rounds
    ]
    return made(moved, np.array(rank)[order].tolist(), float(dice.choice([0.0, 1e-5])), tuple(at))


def does(one: Program, process: int) -> list[tuple[Op, int]]:
    """What a process does."""
    here = slice(int(one.first[process]), int(one.first[process + 1]))
    return [(Op(int(c)), int(a)) for c, a in zip(one.code[here], one.arg[here], strict=True)]


# --- order ----------------------------------------------------------------------------------------


def test_a_call_makes_room_sends_waits_and_then_waits_for_its_buffers() -> None:
    """A Sendrecv on both ranks, then a wait for two receives in the order in which room was made,
    whatever their numbers.
    """
    both = made([(0, 0, 3, 3, 10.0), (3, 3, 0, 0, 10.0)], [0, 0, 0, 1])
    assert does(program(both), 0) == [(Op.POST, 1), (Op.SEND, 0), (Op.AWAIT, 1), (Op.SENT, 0)]
    #  receives 0 and 1 of rank 0, waited for together in call 2; rank 1 sends to the second first
    waits = made([(3, -1, 1, 2, 10.0), (4, -1, 0, 2, 20.0)], [0, 0, 0, 1, 1])
    assert does(program(waits), 0) == [(Op.POST, 1), (Op.POST, 0), (Op.AWAIT, 1), (Op.AWAIT, 0)]


def test_a_copy_is_a_flow_through_an_engine_before_a_send_and_after_a_receive() -> None:
    one = program(
        made([(0, 0, 1, 1, 1e6)], [0, 1]), layout=laid_out(np.array([0, 1]), NODE), charged=COPIED
    )
    assert [op for op, _ in does(one, 0)] == [
        Op.TAKE,
        Op.WORK,
        Op.SEND,
        Op.AWAIT,
        Op.GIVE,
        Op.SEND,
        Op.SENT,
    ]
    assert [op for op, _ in does(one, 1)] == [
        Op.POST,
        Op.AWAIT,
        Op.TAKE,
        Op.WORK,
        Op.SEND,
        Op.AWAIT,
        Op.GIVE,
    ]
    assert one.source.tolist() == [0, 0, 1] and one.target.tolist() == [1, 0, 1]
    parts, gpu = len(NODE.parts), NODE.parts_of("gpu")[0]
    assert one.start.tolist() == [0, gpu, parts] and one.end.tolist() == [parts, 0, parts + gpu]
    assert one.rate_limit.tolist() == pytest.approx([np.inf, 1e10, 5e9])
    taken = [
        one.resource[arg]
        for process in (0, 1)
        for op, arg in does(one, process)
        if op in (Op.TAKE, Op.GIVE)
    ]
    assert taken[0] == taken[1] != taken[2] == taken[3]


@given(st.integers(0, 10_000), st.sampled_from([np.inf, 3000.0]))
@settings(max_examples=40)
def test_nobody_keeps_an_engine_while_it_waits_for_another_rank(seed: int, chunk: float) -> None:
    """Between taking and giving back is work, and a copy of the rank itself that leaves at once: so
    engines make no circle.
    """
    traffic = drawn(seed)
    one = program(
        traffic,
        layout=laid_out(np.arange(4) // 4, NODE),
        charged=replace(COPIED, chunk_bytes=chunk),
    )
    posted = set(one.arg[one.code == Op.POST].tolist())
    for process in range(one.processes):
        held = None
        for op, arg in does(one, process):
            if op == Op.TAKE:
                assert held is None
                held = arg
            elif op == Op.GIVE:
                assert arg == held
                held = None
            elif held is not None and op != Op.WORK:
                assert op in (Op.SEND, Op.AWAIT) and one.source[arg] == one.target[arg] == process
                assert one.leaves[arg] == Leaves.EAGER and arg not in posted
        assert held is None
    assert replay(one, Network(1, 1e9, 0.0, node=NODE), "flow").seconds > 0


@given(
    st.integers(0, 10_000),
    st.sampled_from([Charges(), COPIED, replace(COPIED, chunk_bytes=3000.0), DIRECT]),
)
@settings(max_examples=40)
def test_operations_stand_in_the_order_of_calls(seed: int, charged: Charges) -> None:
    """Sorted by thread, call, slot and message, as tuples: slow, and nothing to misread."""
    traffic = drawn(seed)
    one = program(traffic, layout=laid_out(np.arange(4) // 2, NODE), charged=charged)
    messages, _ = all_messages(traffic)
    pieces = np.maximum(np.ceil(messages.size_bytes / charged.chunk_bytes), 1).astype(int)
    which = np.repeat(np.arange(len(pieces)), pieces)
    told = len(one.first) - 1 - 4
    keys = []
    for number, m in enumerate(which.tolist()):
        step = int(messages.step[m])
        for kind, where in enumerate(
            (messages.receive, messages.send, messages.received, messages.sent)
        ):
            if where[m] >= 0:
                turn = (int(messages.receive[m]), number) if kind == 2 and step < 0 else (number,)
                op = (Op.POST, Op.SEND, Op.AWAIT, Op.SENT)[kind]
                keys.append(
                    (
                        int(where[m]),
                        (0, 1 + kind) if step < 0 else (1, 4 * step + kind),
                        turn,
                        op,
                        number,
                    )
                )
    thread = np.append(traffic.rank, 4 + np.arange(told))
    expected: list[list[tuple[Op, int]]] = [[] for _ in range(4 + told)]
    for call, _, _, op, number in sorted(keys, key=lambda k: k[:3]):
        expected[thread[call]].append((op, number))
    for process in range(one.processes):
        wanted = [
            (op, arg)
            for op, arg in does(one, process)
            if op in (Op.POST, Op.SEND, Op.AWAIT, Op.SENT) and arg < len(which)
        ]
        assert wanted == expected[process]


def test_sorting_with_narrow_keys_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where call, slot and number do not fit one integer they are sorted another way."""
    traffic = drawn(7)
    wide = program(traffic, layout=laid_out(np.arange(4), NODE), charged=COPIED)
    monkeypatch.setattr(operations, "_KEY_BITS", 1)
    narrow = program(traffic, layout=laid_out(np.arange(4), NODE), charged=COPIED)
    for name in ("first", "code", "arg", "work_seconds", "source", "size_bytes"):
        assert np.array_equal(getattr(wide, name), getattr(narrow, name)), name


def test_a_program_is_in_the_types_of_the_native_core() -> None:
    one = program(drawn(3), charged=Charges())
    kinds = {"code": np.uint8, "leaves": np.uint8, "size_bytes": np.uint64}
    for name in (
        "first",
        "code",
        "arg",
        "source",
        "target",
        "start",
        "end",
        "size_bytes",
        "leaves",
    ):
        assert getattr(one, name).dtype == np.dtype(kinds.get(name, np.uint32)), name
    assert len(one.rate_limit) == len(one.delay_seconds) == 0


# --- messages -------------------------------------------------------------------------------------


@given(st.integers(0, 10_000))
@settings(max_examples=30)
def test_all_messages_are_those_of_the_program(seed: int) -> None:
    traffic = drawn(seed)
    messages, call = all_messages(traffic)
    one = program(traffic)
    count = len(messages.send)
    assert (one.leaves[:count] != Leaves.EDGE).all() and (one.leaves[count:] == Leaves.EDGE).all()
    assert one.size_bytes[:count].tolist() == np.round(messages.size_bytes).tolist()
    begun = {int(b) for r in traffic.rounds if r.begin.size for b in r.begin.reshape(-1)}
    assert (call < len(traffic.rank)).all() and begun <= set(call.tolist())
    # whoever sends beside a rank is that rank's
    owner = np.append(
        traffic.rank,
        [traffic.rank[b] for r in traffic.rounds if r.begin.size for b in r.begin.reshape(-1)],
    )
    assert owner[messages.send].tolist() == traffic.rank[call].tolist()


def test_a_rank_may_send_to_itself() -> None:
    own = made([(1, 1, 0, 2, 1e6)], [0, 0, 0], gap=1e-3)
    host, gpu = Network(1, 1e9, 0.0, node=NODE), laid_out(np.array([0]), NODE)
    assert replay(program(own, layout=gpu), host, "flow").seconds == pytest.approx(3e-3 + 1e-4)
    copied = replay(program(own, layout=gpu, charged=COPIED), host, "flow").seconds
    assert copied == pytest.approx(3e-3 + 2e-6 + 1e-4 + 3e-6 + 2e-4 + 1e-4, rel=1e-6), (
        "the copy out, over memory, the copy in"
    )
    direct = program(own, layout=gpu, charged=replace(DIRECT, eager_limit=None))
    assert direct.start.tolist() == direct.end.tolist() == [NODE.parts_of("gpu")[0]]


def test_chunks_lose_no_byte_and_wait_as_the_whole_would() -> None:
    long = made([(0, 0, 1, 1, 1000.0)], [0, 1])
    cut = program(long, charged=Charges((1e-6, 0.0), chunk_bytes=100.5))
    assert (
        cut.size_bytes.sum() == 1000
        and len(cut.source) == 10
        and set(cut.size_bytes.tolist()) <= {95, 96, 100, 101}
    )
    whole = program(long, charged=Charges((1e-6, 0.0), chunk_bytes=300.0))
    assert (
        whole.size_bytes.tolist() == [300, 300, 300, 100] and (whole.leaves == Leaves.EAGER).all()
    )
    late = program(long, charged=Charges((1e-6, 0.0), chunk_bytes=300.0), eager_limit=999)
    assert (late.leaves == Leaves.READY).all(), "each chunk is short, the message is not"
    own = program(
        long, charged=Charges((1e-6, 0.0), chunk_bytes=300.0, eager_limit=500.0), eager_limit=1e9
    )
    assert (own.leaves == Leaves.READY).all()
    assert (
        len(program(long, charged=Charges(chunk_bytes=300.0), on_device=np.array([False])).source)
        == 1
    )
    assert len(program(long, charged=Charges(chunk_bytes=1000.0)).source) == 1
    waits = [arg for op, arg in does(whole, 1) if op == Op.AWAIT]
    assert waits == [0, 1, 2, 3]


def test_more_messages_than_a_machine_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi, "MOST_MESSAGES", 100)
    group = Rounds("allreduce", np.full(10, 8.0), np.arange(40).reshape(4, 10).T, 0)
    many = made(
        [],
        np.repeat(np.arange(4), 10).tolist(),
        rounds=(replace(group, activity=group.activity[:8], block_bytes=np.full(8, 8.0)),),
    )
    assert len(program(many).source) == 64
    for several in (
        replace(many, rounds=(group, group)),
        replace(many, rounds=(replace(group, operation="alltoall", block_bytes=np.full(10, 1e6)),)),
    ):
        assert "100" in str(refused("A060", program, several).what)
    refused(
        "A060",
        program,
        made([(0, 0, 1, 1, 1e9)], [0, 1]),
        charged=Charges((1e-6, 0.0), chunk_bytes=64),
    )


def test_each_kind_of_memory_has_its_own_eager_limit() -> None:
    """UCX takes 8192 B straight from device memory, whatever it takes from host memory."""
    two = made([(0, 0, 2, 2, 5000.0), (1, 1, 3, 3, 5000.0)], [0, 0, 1, 1])
    for host, device, expected in (
        (4096, 8192.0, [1, 2]),
        (8192, 4096.0, [2, 1]),
        (8192, None, [1, 1]),
        (4096, None, [2, 2]),
    ):
        charged = Charges(direct=True, eager_limit=device)
        found = program(two, charged=charged, on_device=np.array([True, False]), eager_limit=host)
        assert found.leaves.tolist() == expected, (host, device)


# --- memory that is pinned once -------------------------------------------------------------------


def test_the_first_in_time_pins_whatever_its_number() -> None:
    """Rank 0 sends the same buffer in calls 0, 1 and 2; the recording names them in another
    order.
    """
    three = made([(2, 2, 5, 5, 1e6), (0, 0, 3, 3, 1e6), (1, 1, 4, 4, 1e6)], [0, 0, 0, 1, 1, 1])
    assert program(three, charged=DIRECT).delay_seconds.tolist() == [0.0, 1e-5, 0.0]
    other = replace(three, messages=replace(three.messages, size_bytes=np.array([1e6, 1e6, 2e6])))
    assert program(other, charged=DIRECT).delay_seconds.tolist() == [0.0, 1e-5, 1e-5]
    each = program(three, charged=replace(DIRECT, pin_once=False))
    assert each.delay_seconds.tolist() == [1e-5] * 3


def test_what_is_in_host_memory_pins_nothing_for_others() -> None:
    two = made([(0, 0, 2, 2, 1e6), (1, 1, 3, 3, 1e6)], [0, 0, 1, 1])
    for device in ([True, False], [False, True]):
        found = program(two, charged=DIRECT, on_device=np.array(device))
        assert found.delay_seconds.tolist() == [1e-5 * d for d in device]


def test_a_collective_before_a_message_pins_for_it() -> None:
    """An allreduce of 1 MB among two is one message each way of 1 MB; then the same size is sent
    once more.
    """
    group = Rounds("allreduce", np.array([8000.0]), np.array([[0, 2]]), 0)
    later = made([(1, 1, 3, 3, 8000.0)], [0, 0, 1, 1], rounds=(group,))
    delays = program(later, charged=DIRECT).delay_seconds
    assert delays[0] == 0.0 and sorted(delays[1:]) == [1e-5, 1e-5]
    beside = replace(
        later,
        rounds=(
            Rounds("allreduce", np.array([8000.0]), np.array([[1, 3]]), 0, np.array([[0, 2]])),
        ),
    )
    assert program(beside, charged=DIRECT).delay_seconds[0] == 0.0, "begun before it"


# --- where ranks stand ----------------------------------------------------------------------------


def test_more_gpus_than_ranks_leaves_some_idle_and_more_ranks_share() -> None:
    four = gpu_node(4, link=1e10)
    assert len(set(laid_out(np.array([0, 0]), four).device.tolist())) == 2
    shared = laid_out(np.array([0] * 6 + [3]), four)
    assert shared.sharing().tolist() == [True, True, False, False, True, True, False]
    assert shared.device[0] == shared.device[4] and shared.device[6] == 3 * len(four.parts) + 1, (
        "numbers of nodes may have gaps"
    )
    # dealt in the order of the ranks of a node, wherever these stand
    dealt = laid_out(np.array([1, 0, 1, 0]), NODE)
    assert (dealt.device % len(NODE.parts)).tolist() == [1, 1, 2, 2]


def test_threads_of_a_rank_share_its_gpu_and_nobody_elses() -> None:
    """Rank 0 calls from two threads: the copies of both go through one engine, and its compute is
    not contended.
    """
    both = replace(
        made([(0, 0, 2, 2, 1e6), (1, 1, 3, 3, 1e6)], [0, 1, 2, 3], gap=1e-3),
        ranks=3,
        rank_of=np.array([0, 0, 1, 2]),
    )
    one = program(both, layout=laid_out(np.arange(3), NODE), charged=COPIED, shared_gpu="exclusive")
    engines = [
        one.resource[arg] for process in (0, 1) for op, arg in does(one, process) if op == Op.TAKE
    ]
    assert engines[0] == engines[1] and not (one.code == Op.USE).any()
    together = program(
        both, layout=laid_out(np.zeros(3, int), gpu_node(1, link=1e10)), shared_gpu="exclusive"
    )
    assert (together.code == Op.USE).sum() == 4


def test_shared_compute_takes_as_long_in_turn_as_at_once() -> None:
    two = made([(0, 0, 1, 1, 8.0)], [0, 1], gap=1e-3)
    where, network = (
        laid_out(np.array([0, 0]), gpu_node(1, link=1e10)),
        Network(1, 1e9, 0.0, node=gpu_node(1, link=1e10)),
    )
    turn = replay(program(two, layout=where, shared_gpu="exclusive"), network, "flow")
    even = replay(program(two, layout=where, shared_gpu="time"), network, "flow")
    assert turn.ends[0] == pytest.approx(1e-3) and even.ends.tolist() == pytest.approx(
        [2e-3, 2e-3], rel=1e-6
    )
    assert turn.seconds == pytest.approx(2e-3, rel=1e-6)


def test_what_ranks_of_a_host_send_from_its_memory_takes_all_its_cards() -> None:
    """Two ranks of a node with a card beside each GPU: alone or together, their messages take as
    long.
    """
    node = seated(gpu_node(2, link=100e9, cards="gpu"))
    traffic = made([(0, 0, 2, 2, 1e6), (1, 1, 3, 3, 1e6)], [0, 1, 2, 3])
    where = laid_out(np.array([0, 0, 1, 1]), node)
    found = replay(program(traffic, layout=where), Network(2, 1e9, 0.0, node=node), "flow")
    assert found.seconds == pytest.approx(1e-3, rel=1e-6)
    names = Network(2, 1e9, 0.0, node=node).links()
    carried = {n for n, b in zip(names, found.carried_bytes, strict=True) if b}
    assert {"card 0 out", "card 1 out", "card 2 in", "card 3 in"} <= carried
    # a rank's own card is that of its GPU, and messages inside a node do not come near it
    assert {"node 0: host 0 -> switch 0", "node 0: host 0 -> switch 1"} <= carried
    near = program(traffic, layout=laid_out(np.zeros(4, int), node))
    assert (near.start == 0).all() and (near.end == 0).all()


def test_seats_stand_only_where_cards_are_as_near() -> None:
    for alone in (
        gpu_node(4, link=1e9),
        gpu_node(4, hosts=2, link=1e9, cards="host"),
        graph(2, [(0, 1, 1e9)], cards=2),
    ):
        assert (
            seated(alone) == alone
            and (
                laid_out(np.zeros(3, int), alone).seat == laid_out(np.zeros(3, int), alone).host
            ).all()
        )
    ways = [
        Wire(a, b, bandwidth)
        for a, b, bandwidth in ((0, 1, 2e9), (1, 0, 2e9), (0, 2, 1e9), (2, 0, 1e9))
    ]
    uneven = Node(("host 0", "switch 0", "switch 1"), tuple(ways), (1, 2), (0, 1, 2))
    assert seated(uneven) == uneven, "of two as near the wider one"
    sockets = Node(("host 0", "host 1"), (Wire(0, 1, 1e9), Wire(1, 0, 1e9)), (0, 0, 1), (0, 1))
    assert len(seated(sockets).parts_of("seat")) == 3, "host 1 has one card"


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        {"charged": Charges((-1.0, 0.0))},
        {"charged": Charges(pin_seconds=np.nan)},
        {"inside": Charges(eager_limit=-1.0)},
        {"inside": Charges(eager_limit=np.nan)},
        {"eager_limit": np.nan},
        {"compute": np.inf},
        {"compute": -1.0},
        {"ranks_per_node": 0},
        {"charged": Charges(chunk_bytes=0.5)},
        {"charged": Charges(chunk_bytes=np.nan)},
        {"layout": laid_out(np.array([0]))},
    ],
)
def test_charges_that_cannot_be(words: dict[str, Charges | Layout | float]) -> None:
    refused("A098", program, made([(0, 0, 1, 1, 8.0)], [0, 1]), **words)
