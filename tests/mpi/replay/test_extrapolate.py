"""A recorded halo exchange on more ranks: the grid is found, the law of its own size, and what is
refused.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

import turnbuckle as tb
from turnbuckle.foundation.errors import CannotAnswer, UsageError
from turnbuckle.mpi.replay import extrapolate
from turnbuckle.mpi.replay.extrapolate import Grid, grid_of, larger, repeated, templates
from turnbuckle.mpi.replay.messages import Messages, Rounds, Traffic, recorded
from turnbuckle.mpi.replay.program import program
from turnbuckle.replay.contention.contention import replay
from turnbuckle.replay.contention.network import Network

Shape = tuple[int, ...]


def stencil(
    shape: Shape,
    ring: tuple[bool, ...],
    *,
    steps: int = 2,
    corners: bool = False,
    gap: Callable[[int], float] = lambda r: 1e-3,
) -> Traffic:
    """Each step: compute, make room, send to every neighbour, wait for all; then an allreduce of
    all, and a broadcast in each row.

    Written call by call, and not by the arrays of what is tested.
    """
    number = np.arange(math.prod(shape)).reshape(shape)
    ways = [
        w
        for w in itertools.product((-1, 0, 1), repeat=len(shape))
        if any(w) and (corners or sum(map(abs, w)) == 1)
    ]
    rank: list[int] = []
    gaps: list[float] = []
    sent: dict[tuple[int, int, Shape], tuple[int, int]] = {}
    received: dict[tuple[int, int, Shape], tuple[int, int]] = {}
    sums: dict[tuple[int, int], int] = {}
    rows: dict[tuple[int, int], int] = {}

    def call(who: int, before: float = 0.0) -> int:
        rank.append(who)
        gaps.append(before)
        return len(rank) - 1

    partner: dict[tuple[int, Shape], int] = {}
    for place in itertools.product(*map(range, shape)):
        for way in ways:
            to = tuple(p + w for p, w in zip(place, way, strict=True))
            if all(r or 0 <= t < s for t, s, r in zip(to, shape, ring, strict=True)):
                partner[int(number[place]), way] = int(
                    number[tuple(t % s for t, s in zip(to, shape, strict=True))]
                )
    for who in range(number.size):
        mine = [w for w in ways if (who, w) in partner]
        for step in range(steps):
            room = {w: call(who, gap(who)) for w in mine}
            send = {w: call(who) for w in mine}
            wait = call(who)
            for w in mine:
                sent[who, step, w] = (send[w], wait)
                # what comes from a neighbour was sent the other way
                received[who, step, w] = (room[w], wait)
            sums[who, step] = call(who, 2 * gap(who))
            rows[who, step] = call(who)
    ends = []
    for (who, step, way), (send_call, wait_call) in sent.items():
        back = tuple(-w for w in way)
        room_call, got_call = received[partner[who, way], step, back]
        ends.append(
            (
                send_call,
                wait_call,
                room_call,
                got_call,
                100.0 + sum(abs(w) * 10**i for i, w in enumerate(way)),
            )
        )
    columns = [
        np.array(c, dtype=float if k == 4 else np.int64)
        for k, c in enumerate(zip(*sorted(ends), strict=True))
    ]
    messages = Messages(*columns[:4], np.full(len(ends), -1), columns[4])
    lines = number.reshape(-1, shape[-1])
    groups = [
        Rounds(
            "allreduce",
            np.full(steps, 8.0),
            np.array([[sums[who, s] for who in range(number.size)] for s in range(steps)]),
            0,
        ),
        Rounds(
            "bcast",
            np.full(steps * len(lines), 80.0),
            np.array([[rows[int(w), s] for w in line] for s in range(steps) for line in lines]),
            1,
        ),
    ]
    tail = np.array([gap(who) for who in range(number.size)])
    return Traffic(
        number.size,
        np.array(rank),
        np.array(gaps),
        np.zeros(len(rank)),
        tail,
        messages,
        tuple(groups),
        1.0,
        0,
    )


def same(a: object, b: object) -> bool:
    """Equal, to the bit and to the type."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and bool((a == b).all())
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if dataclasses.is_dataclass(a) and dataclasses.is_dataclass(b):
        return all(
            same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a) if f.compare
        )
    return a == b


def content(traffic: Traffic) -> list[object]:
    """What a traffic says, whatever order its messages and collectives are listed in."""
    m = traffic.messages
    lines = sorted(
        zip(
            *(a.tolist() for a in (m.send, m.sent, m.receive, m.received, m.size_bytes)),
            strict=True,
        )
    )
    groups = sorted(
        (r.operation, r.root, b, a)
        for r in traffic.rounds
        for b, a in zip(r.block_bytes.tolist(), r.activity.tolist(), strict=True)
    )
    return [
        traffic.ranks,
        traffic.rank.tolist(),
        traffic.gap_seconds.tolist(),
        traffic.tail_seconds.tolist(),
        lines,
        groups,
    ]


def network(ranks: int) -> Network:
    return Network(ranks, 12.5e9, 0.5e-6, send_overhead=5e-7, receive_overhead=5e-7)


GRIDS = st.lists(st.tuples(st.integers(3, 5), st.booleans()), min_size=1, max_size=3).filter(
    lambda g: math.prod(s for s, _ in g) <= 60
)


@settings(max_examples=40)
@given(GRIDS, st.booleans())
def test_the_grid_is_found(dimensions: list[tuple[int, bool]], corners: bool) -> None:
    shape, ring = (tuple(c) for c in zip(*dimensions, strict=True))
    found = grid_of(stencil(shape, ring, steps=1, corners=corners))
    assert (found.shape, found.periodic, found.assumed) == (shape, ring, ())
    assert len(found.offsets) == (3 ** len(shape) - 1 if corners else 2 * len(shape))


@settings(max_examples=25)
@given(GRIDS, st.booleans(), st.integers(0, 99))
def test_at_its_own_size_it_is_the_recording(
    dimensions: list[tuple[int, bool]], corners: bool, seed: int
) -> None:
    shape, ring = (tuple(c) for c in zip(*dimensions, strict=True))
    work = np.random.default_rng(seed).random(math.prod(shape))
    one = stencil(shape, ring, corners=corners, gap=lambda r: float(work[r]))
    again = repeated(one, one.ranks)
    assert same(one, again)
    assert (
        replay(program(one), network(one.ranks)).ends.tolist()
        == replay(program(again), network(one.ranks)).ends.tolist()
    )


@settings(max_examples=25)
@given(GRIDS, st.booleans(), st.lists(st.integers(0, 3), min_size=3, max_size=3))
def test_larger_it_is_the_program_run_larger(
    dimensions: list[tuple[int, bool]], corners: bool, more: list[int]
) -> None:
    """Where all ranks compute alike, repeating a small run gives what the same program does on the
    larger grid, call by call.
    """
    shape, ring = (tuple(c) for c in zip(*dimensions, strict=True))
    small = stencil(shape, ring, corners=corners)
    size = tuple(g + n for g, n in zip(shape, more, strict=False))
    assert content(repeated(small, size)) == content(stencil(size, ring, corners=corners))


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize(
    ("shape", "size"), [((2, 2), (3, 5)), ((2, 2, 2), (4, 2, 3)), ((2,), (7,)), ((3, 2), (3, 4))]
)
def test_rings_of_two_are_dealt_to_both_directions(
    shape: Shape, size: Shape, corners: bool
) -> None:
    """Both directions lead to one rank; the calls of a larger run are the same, whichever of the
    two is called up.
    """
    ring = (True,) * len(shape)
    small = stencil(shape, ring, corners=corners)
    found = grid_of(small)
    assert found.assumed == tuple(i for i, g in enumerate(shape) if g == 2)
    made, wanted = repeated(small, size), stencil(size, ring, corners=corners)
    assert same(repeated(small, shape), small)
    assert content(made)[:4] == content(wanted)[:4] and len(made.messages.send) == len(
        wanted.messages.send
    )
    pairs = [
        np.unique(
            t.rank[t.messages.send] * t.ranks + t.rank[t.messages.receive], return_counts=True
        )
        for t in (made, wanted)
    ]
    assert all((a == b).all() for a, b in zip(*pairs, strict=True))
    # in which order the messages of one wait are listed is all that is left
    seconds = [replay(program(t), network(t.ranks)).seconds for t in (made, wanted)]
    assert seconds[0] == pytest.approx(seconds[1], rel=1e-3)


def test_each_rank_does_as_one_at_a_place_like_its_own() -> None:
    grid = Grid((4, 3), (False, True), np.zeros((0, 2), dtype=np.int64))
    assert templates(grid, (4, 3)).tolist() == list(range(12))
    # open: ends from ends, 1 and 2 in turn between them; ring: round and round
    assert templates(grid, (7, 3))[::3].tolist() == [0, 3, 6, 3, 6, 3, 9]
    assert templates(grid, (4, 5))[:5].tolist() == [0, 1, 2, 0, 1]
    slow = stencil((4, 3), (False, True), gap=lambda r: 1.0 + r)
    assert repeated(slow, (7, 5)).tail_seconds.tolist() == (1.0 + templates(grid, (7, 5))).tolist()


@pytest.mark.parametrize(
    ("shape", "ranks", "wanted"),
    [
        ((3, 3), 16, (4, 4)),
        ((3, 3), 36, (6, 6)),
        ((4, 2), 32, (8, 4)),
        ((2, 2, 2), 64, (4, 4, 4)),
        ((5,), 7, (7,)),
        ((3, 3), 9, (3, 3)),
    ],
)
def test_a_number_of_ranks_keeps_the_proportions(shape: Shape, ranks: int, wanted: Shape) -> None:
    assert (
        larger(Grid(shape, (True,) * len(shape), np.zeros((0, len(shape)), dtype=np.int64)), ranks)
        == wanted
    )


@pytest.mark.parametrize(
    "size", [10, 8, 0, -9, 11, 2_000_000, (3, 2), (9,), (3, 3, 3), (2_000, 2_000)]
)
def test_sizes_that_cannot_be(size: int | Shape) -> None:
    error = refused("A094", repeated, stencil((3, 3), (True, True)), size)
    assert error.found and error.fix


def test_no_more_than_can_be_held(monkeypatch: pytest.MonkeyPatch) -> None:
    small = stencil((3, 3), (True, True))
    for most in (100, len(small.rank) + 1):
        monkeypatch.setattr(extrapolate, "MOST_CALLS", most)
        refused("A094", repeated, small, (3, 4))
    monkeypatch.setattr(extrapolate, "MOST_CALLS", len(small.rank) * 2)
    many = replace(
        small,
        messages=Messages(
            *(
                np.tile(a, 20)
                for a in (getattr(small.messages, f.name) for f in dataclasses.fields(Messages))
            )
        ),
    )
    with pytest.raises(UsageError) as caught:
        repeated(many, (3, 4))
    assert "messages" in caught.value.found


def ring_with(**changes: object) -> Traffic:
    return replace(stencil((4, 4), (True, False), steps=1), **changes)  # type: ignore[arg-type]


def without(traffic: Traffic, drop: int) -> Traffic:
    kept = np.arange(len(traffic.messages.send)) != drop
    m = traffic.messages
    return replace(
        traffic,
        messages=Messages(
            m.send[kept],
            m.sent[kept],
            m.receive[kept],
            m.received[kept],
            m.step[kept],
            m.size_bytes[kept],
        ),
    )


def all_to_all(ranks: int) -> Traffic:
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    send, receive = (np.array(c) for c in zip(*pairs, strict=True))
    none = np.full(len(pairs), -1)
    return Traffic(
        ranks,
        np.arange(ranks),
        np.zeros(ranks),
        np.zeros(ranks),
        np.zeros(ranks),
        Messages(send, send, receive, receive, none, none * 0.0),
        (),
        1.0,
        0,
    )


@pytest.mark.parametrize(
    ("traffic", "found"),
    [
        (
            ring_with(messages=Messages(*[np.zeros(0, np.int64)] * 5, np.zeros(0))),
            "no messages between ranks",
        ),
        (
            ring_with(messages=Messages(*[np.zeros(0, np.int64)] * 5, np.zeros(0)), unmatched=5),
            "5 calls have no other side",
        ),
        (ring_with(unmatched=10_000), "10,000 calls have no other side"),
        (ring_with(ranks=8), "16 threads make calls for 8 ranks"),
        (all_to_all(7), "which is no neighbour"),
        (without(stencil((5,), (True,), steps=1), 3), "send to it"),
        (without(stencil((5,), (True,), steps=3), 3), "2 messages, others 3"),
    ],
)
def test_runs_that_are_no_halo_exchange(traffic: Traffic, found: str) -> None:
    error = refused("A170", repeated, traffic, traffic.ranks)
    assert found in error.found and error.fix


def test_collectives_of_odd_groups_are_not_repeated() -> None:
    one = stencil((3, 3), (True, True), steps=1)
    sums = one.rounds[0]
    for members in ([0, 4], [1, 0, 2], [0, 1, 3, 5]):
        group = replace(sums, activity=sums.activity[:, members])
        assert (
            "a collective among ranks"
            in refused("A170", repeated, replace(one, rounds=(group,)), (3, 4)).found
        )


def test_roots_keep_their_place_from_the_nearer_end() -> None:
    for ring, wanted in ((True, 2), (False, 4)):
        one = stencil((3,), (ring,), steps=1)
        last = replace(one, rounds=(replace(one.rounds[0], operation="bcast", root=2),))
        made = repeated(last, 5)
        assert made.rounds[0].root == wanted
        assert templates(grid_of(one), (5,))[wanted] == 2, "the root does what the root did"


def test_non_blocking_collectives_keep_both_calls() -> None:
    one = stencil((3,), (True,), steps=1)
    begun = replace(one.rounds[0], begin=one.rounds[0].activity - 1)
    made = repeated(replace(one, rounds=(begun,)), 5)
    assert (made.rounds[0].begin == made.rounds[0].activity - 1).all() and made.rounds[
        0
    ].activity.shape == (1, 5)


def test_open_ends_without_a_rank_between() -> None:
    open_ends = stencil((2, 3), (False, True), steps=1)
    assert grid_of(open_ends).periodic == (False, True), (
        "one message a step cannot be two directions"
    )
    assert same(repeated(open_ends, 6), open_ends)
    assert repeated(open_ends, (2, 5)).ranks == 10
    assert "2 ranks along a dimension" in refused("A170", repeated, open_ends, (3, 3)).found


def test_a_grid_that_is_known() -> None:
    one = stencil((2, 2), (True, True))
    known = grid_of(one, (2, 2), (False, False))
    assert known.assumed == () and grid_of(one).assumed == (0, 1)
    flat = stencil((6,), (True,), steps=1)
    assert grid_of(flat, (1, 6)).shape == (1, 6)
    with pytest.raises(CannotAnswer):
        repeated(flat, (2, 6), grid_of(flat, (1, 6)))
    for shape, periodic in (
        ((5,), None),
        ((0, 6), None),
        ((), None),
        (None, (True,)),
        ((2, 3), (True,)),
    ):
        refused("A094", grid_of, flat, shape, periodic)


REAL = {
    "otf2-local/scorep-halo-9r": ("3 x 3 ranks (ring)", 4, ()),
    "otf2-local/scorep-halo-16r": ("4 x 4 ranks (ring)", 4, ()),
    "otf2-local/scorep-py-halo-4r": ("2 x 2 ranks (ring)", 2, (0, 1)),
    "otf2-local/scorep-py-ring-8r": ("8 ranks (ring)", 1, ()),
    "otf2/stencil4d_32rank": ("4 x 2 x 2 x 2 ranks (ring)", 5, (1, 2, 3)),
}


def seen(shared: Path, name: str) -> Traffic:
    (anchor,) = (f for f in (shared / "traces" / name).rglob("*.otf2") if f.name == "traces.otf2")
    return recorded(tb.read(anchor).profile)


@pytest.mark.parametrize("name", REAL)
def test_real_runs_are_repeated(shared: Path, name: str) -> None:
    traffic = seen(shared, name)
    grid = grid_of(traffic)
    assert (str(grid), len(grid.offsets), grid.assumed) == REAL[name]
    again = repeated(traffic, traffic.ranks, grid)
    assert same(traffic, again)
    one, two = (replay(program(t), network(t.ranks)) for t in (traffic, again))
    assert one.ends.tolist() == two.ends.tolist()
    doubled = repeated(traffic, [2 * g for g in grid.shape], grid)
    factor = 2 ** len(grid.shape)
    assert doubled.ranks == factor * traffic.ranks and len(doubled.messages.send) == factor * len(
        traffic.messages.send
    )
    assert doubled.messages.size_bytes.sum() == factor * traffic.messages.size_bytes.sum()
    assert (
        replay(program(doubled), network(doubled.ranks)).seconds
        >= traffic.compute_seconds.max() - 1e-9
    )


def test_nine_ranks_repeated_are_the_sixteen_recorded(shared: Path) -> None:
    """The same program on 3 x 3 and on 4 x 4 ranks: who sends how much to whom, call counts and
    collectives agree.
    """
    made, real = (
        repeated(seen(shared, "otf2-local/scorep-halo-9r"), 16),
        seen(shared, "otf2-local/scorep-halo-16r"),
    )
    assert (made.rank == real.rank).all()
    for weight in (None, "size_bytes"):
        count = [
            np.bincount(
                t.rank[t.messages.send] * 16 + t.rank[t.messages.receive],
                weight and getattr(t.messages, weight),
                minlength=256,
            )
            for t in (made, real)
        ]
        assert (count[0] == count[1]).all()
    assert [(r.operation, r.block_bytes.tolist()) for r in made.rounds] == [
        (r.operation, r.block_bytes.tolist()) for r in real.rounds
    ]
    assert all(
        (a.activity == b.activity).all() for a, b in zip(made.rounds, real.rounds, strict=True)
    )


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("otf2/sstmacro_halo_10rank", "is no neighbour"),
        ("otf2-local/scorep-py-cannon-sendrecv-9r", "sends 4 messages, others 3"),
    ],
)
def test_real_runs_that_are_no_halo(shared: Path, name: str, found: str) -> None:
    assert found in refused("A170", grid_of, seen(shared, name)).found
