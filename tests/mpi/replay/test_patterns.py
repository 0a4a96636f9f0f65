"""Declared patterns: who sends to whom, in which order, and that every one of them can be
replayed.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.mpi.replay.extrapolate import grid_of, repeated
from turnbuckle.mpi.replay.messages import Traffic
from turnbuckle.mpi.replay.patterns import Pattern, balanced, neighbours, spread_sizes, traffic_of
from turnbuckle.mpi.replay.program import Charges, program
from turnbuckle.replay.contention.contention import replay
from turnbuckle.replay.contention.network import Network

HALO = Pattern("halo", 2, (1e5,), 2, compute_seconds=1e-3)


def partners(traffic: Traffic) -> list[int]:
    """How many ranks each sends to."""
    pairs = {
        (a, b)
        for a, b in zip(
            traffic.rank[traffic.messages.send], traffic.rank[traffic.messages.receive], strict=True
        )
    }
    return np.bincount([a for a, _ in pairs], minlength=traffic.ranks).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("dimensions", "ranks", "wanted"),
    [
        (1, 7, (7,)),
        (2, 32, (8, 4)),
        (2, 27, (9, 3)),
        (3, 32, (4, 4, 2)),
        (3, 125, (5, 5, 5)),
        (3, 7, (7, 1, 1)),
    ],
)
def test_grids_are_as_cubic_as_they_can_be(
    dimensions: int, ranks: int, wanted: tuple[int, ...]
) -> None:
    assert balanced(ranks, dimensions) == wanted


@pytest.mark.parametrize(
    ("pattern", "ranks", "fewest", "most"),
    [
        (HALO, 25, 2, 4),
        (replace(HALO, periodic=True), 25, 4, 4),
        (replace(HALO, corners=True), 25, 3, 8),
        (replace(HALO, dimensions=3), 27, 3, 6),
        (replace(HALO, dimensions=3, corners=True), 27, 7, 26),
        (replace(HALO, form="sweep"), 25, 2, 4),
    ],
)
def test_partners(pattern: Pattern, ranks: int, fewest: int, most: int) -> None:
    found = partners(traffic_of(pattern, ranks))
    assert (min(found), max(found)) == (fewest, most)


def test_a_ring_of_one_or_two() -> None:
    assert (neighbours((1,), periodic=True) == -1).all(), "nobody is its own neighbour"
    assert neighbours((2,), periodic=True).tolist() == [[1, 0], [1, 0]], (
        "both directions lead to the other"
    )


SIZES = st.lists(st.floats(0, 1e6), min_size=1, max_size=3).map(tuple)
COSTS = {
    "sum_bytes": st.none() | st.floats(0, 1e5),
    "compute_seconds": st.floats(0, 1e-3),
    "imbalance": st.floats(0, 1),
}
ORDERS = {
    "periodic": st.booleans(),
    "corners": st.booleans(),
    "order": st.sampled_from(["at once", "one by one"]),
}
FORMS = st.builds(
    Pattern,
    st.sampled_from(["halo", "sweep"]),
    st.integers(1, 3),
    SIZES,
    st.integers(1, 4),
    **ORDERS,
    **COSTS,
)


@settings(max_examples=80)
@given(FORMS, st.integers(1, 24), st.booleans())
def test_every_pattern_is_replayed_to_its_end(pattern: Pattern, ranks: int, ready: bool) -> None:
    """Nobody waits in a circle, whatever the path; calls stand rank by rank; each call is of the
    rank that makes it.
    """
    traffic = traffic_of(pattern, ranks)
    m = traffic.messages
    assert (
        (np.diff(traffic.rank) >= 0).all() and np.bincount(traffic.rank, minlength=ranks).ptp() == 0
        if hasattr(np.ndarray, "ptp")
        else True
    )
    assert (traffic.rank[m.send] != traffic.rank[m.receive]).all()
    for one in traffic.rounds:
        assert (traffic.rank[one.activity] == np.arange(ranks)).all()
    done = replay(
        program(traffic, charged=Charges(eager_limit=0.0 if ready else np.inf)),
        Network(ranks, 1e9, 1e-6),
    )
    assert done.seconds >= traffic.compute_seconds.max() - 1e-9


@settings(max_examples=40)
@given(
    st.lists(st.integers(3, 4), min_size=1, max_size=3),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["at once", "one by one"]),
    st.integers(1, 2),
)
def test_a_halo_repeated_is_the_halo_declared_larger(
    shape: list[int], periodic: bool, corners: bool, order: str, more: int
) -> None:
    """What `extrapolate` makes of a declared halo is the same pattern on more ranks."""
    pattern = Pattern(
        "halo",
        len(shape),
        (10.0, 200.0),
        2,
        periodic=periodic,
        corners=corners,
        order=order,
        sum_bytes=8.0,
    )  # type: ignore[arg-type]
    small = traffic_of(pattern, math.prod(shape), shape)
    grid = grid_of(small)
    assert grid.shape == tuple(shape) and set(grid.periodic) == {periodic}
    size = [n + more for n in shape]
    made, wanted = repeated(small, size, grid), traffic_of(pattern, math.prod(size), size)
    ends = [
        sorted(
            zip(
                *(
                    a.tolist()
                    for a in (
                        t.messages.send,
                        t.messages.sent,
                        t.messages.receive,
                        t.messages.received,
                        t.messages.size_bytes,
                    )
                ),
                strict=True,
            )
        )
        for t in (made, wanted)
    ]
    assert ends[0] == ends[1] and (made.rank == wanted.rank).all()
    assert (made.rounds[0].activity == wanted.rounds[0].activity).all()


def test_at_once_or_one_direction_after_the_other() -> None:
    """A ring of three, both ways: at once both messages share the card; one after the other each
    has it alone, and both take as long.
    """
    ring = Pattern("halo", 1, (1e6,), 1, periodic=True)
    network = Network(3, 1e9, 0.0)
    at_once, one_by_one = (
        replay(program(traffic_of(replace(ring, order=o), 3)), network)
        for o in ("at once", "one by one")
    )
    assert at_once.seconds == pytest.approx(2e-3) and one_by_one.seconds == pytest.approx(2e-3)
    # a copy before each message is hidden by the message before it, or not
    copies = Charges((1e-3, 0.0))
    at_once, one_by_one = (
        replay(program(traffic_of(replace(ring, order=o), 3), charged=copies), network)
        for o in ("at once", "one by one")
    )
    assert at_once.seconds == pytest.approx(3e-3) and one_by_one.seconds == pytest.approx(4e-3)


def test_a_sweep_waits_for_the_wave() -> None:
    """Four ranks in a row, two blocks, from both ends: the last rank begins three computes and
    three messages late.
    """
    sweep = Pattern("sweep", 1, (1e6,), 2, compute_seconds=1.0)
    done = replay(program(traffic_of(sweep, 4)), Network(4, 1e9, 0.0))
    # a wave: three ranks and their messages before the last, then its own two blocks; back again
    # from where it ended
    assert done.seconds == pytest.approx(2 * (3 * (1.0 + 1e-3) + 2 * 1.0), abs=1e-2)
    assert traffic_of(sweep, 4).compute_seconds.tolist() == [4.0] * 4


def test_a_plane_is_swept_from_all_four_corners() -> None:
    traffic = traffic_of(Pattern("sweep", 2, (1.0,), 3), 6, (3, 2))
    source, target = (traffic.rank[e] for e in (traffic.messages.send, traffic.messages.receive))
    per_pair = np.unique(source * 6 + target, return_counts=True)[1]
    assert (per_pair == 2 * 3).all() and len(per_pair) == 2 * (2 * 2 + 3 * 1), (
        "two waves go each way, three blocks each"
    )


def test_there_and_back() -> None:
    done = replay(
        program(traffic_of(Pattern("pingpong", 1, (1e6, 2e6), 2), 2)), Network(2, 1e9, 0.0)
    )
    assert done.seconds == pytest.approx(2 * 1e-3 + 2 * 2e-3)
    for pattern, ranks in (
        (Pattern("pingpong", 1, (1.0,), 1), 3),
        (Pattern("pingpong", 1, (1.0,), 1, sum_bytes=1.0), 2),
    ):
        assert "ping-pong" in refused("A093", traffic_of, pattern, ranks).found


def test_ranks_differ_by_their_imbalance() -> None:
    compute = traffic_of(replace(HALO, imbalance=0.5), 400).compute_seconds
    assert compute.mean() == pytest.approx(2e-3, rel=0.01) and compute.max() == pytest.approx(
        3e-3, rel=0.02
    )
    assert compute.min() == pytest.approx(1e-3, rel=0.02) and len(np.unique(compute)) == 400


def test_sizes_have_their_shares() -> None:
    sizes = spread_sizes([(71, 1.0, 1.0), (17, 2.0, 2.0), (12, 3.0, 3.0)], 100)
    assert [sizes.count(n) for n in (1.0, 2.0, 3.0)] == [71, 17, 12]
    assert (
        max(len(run) for run in "".join(str(int(n)) for n in sizes).replace("2", "3").split("3"))
        <= 4
    ), "the bands alternate"
    assert spread_sizes([(1.0, 4.0, 16.0)], 1, 0.0) == (4.0,) and spread_sizes(
        [(1.0, 4.0, 16.0)], 1, 1.0
    ) == (16.0,)


@pytest.mark.parametrize(
    ("pattern", "ranks", "shape"),
    [
        (HALO, 0, None),
        (HALO, 2_000_000, None),
        (HALO, 6, (2, 2)),
        (HALO, 6, (6,)),
        (replace(HALO, dimensions=5), 6, None),
        (replace(HALO, sizes=()), 6, None),
        (replace(HALO, sizes=(-1.0,)), 6, None),
        (replace(HALO, sizes=(math.nan,)), 6, None),
        (replace(HALO, sum_bytes=math.inf), 6, None),
        (replace(HALO, compute_seconds=-1.0), 6, None),
        (replace(HALO, imbalance=1.5), 6, None),
        (replace(HALO, exchanges=0), 6, None),
        (replace(HALO, exchanges=10_000_000), 1000, None),
    ],
)
def test_patterns_that_cannot_be(
    pattern: Pattern, ranks: int, shape: tuple[int, ...] | None
) -> None:
    error = refused("A093", traffic_of, pattern, ranks, shape)
    assert error.found and error.fix
