"""Random programs on grids, written rank by rank: the grid is found again, and the larger program
is the one that the larger grid runs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from turnbuckle.foundation.errors import CannotAnswer
from turnbuckle.mpi.replay.extrapolate import Grid, described, grid_of, larger, repeated
from turnbuckle.mpi.replay.messages import Messages, Traffic

Shape = tuple[int, ...]
TURNS = 2


def ran(
    shape: Shape,
    ring: Sequence[bool],
    ways: Sequence[Shape],
    counts: Sequence[int],
    sizes: Sequence[float],
) -> Traffic:
    """Every turn is one call of each rank: so many messages of such a size each way, where there is
    a neighbour.
    """
    place = {p: k for k, p in enumerate(itertools.product(*map(range, shape)))}
    sends: list[tuple[int, int, float]] = []
    for turn in range(TURNS):
        for at, rank in place.items():
            for way, count, size in zip(ways, counts, sizes, strict=True):
                to = tuple(a + w for a, w in zip(at, way, strict=True))
                if all(0 <= t < n or r for t, n, r in zip(to, shape, ring, strict=True)):
                    other = place[tuple(t % n for t, n in zip(to, shape, strict=True))]
                    sends += [(rank * TURNS + turn, other * TURNS + turn, size)] * count
    send, receive = (np.array([s[k] for s in sends], dtype=np.int64) for k in (0, 1))
    messages = Messages(
        send, send, receive, receive, np.full(len(sends), -1), np.array([s[2] for s in sends])
    )
    calls = np.zeros(len(place) * TURNS)
    return Traffic(
        len(place),
        np.repeat(np.arange(len(place)), TURNS),
        calls,
        calls,
        np.zeros(len(place)),
        messages,
        (),
        0.0,
        0,
    )


def exchanged(traffic: Traffic) -> dict[tuple[int, int], list[float]]:
    """Sizes from each rank to each other, in the order of the calls."""
    out: dict[tuple[int, int], list[float]] = {}
    messages = traffic.messages
    for k in np.argsort(messages.send, kind="stable").tolist():
        out.setdefault((int(messages.send[k]), int(messages.receive[k])), []).append(
            float(messages.size_bytes[k])
        )
    return out


@st.composite
def programs(draw: st.DrawFn) -> tuple[Shape, list[bool], list[Shape], list[int], list[float]]:
    shape = tuple(
        draw(
            st.lists(
                st.sampled_from([3, 4, 5, 7]), min_size=1, max_size=2 if draw(st.booleans()) else 3
            )
        )
    )
    assume(math.prod(shape) <= 100)
    every = [w for w in itertools.product((-1, 0, 1), repeat=len(shape)) if any(w)]
    ways = draw(st.lists(st.sampled_from(every), min_size=1, max_size=len(every), unique=True))
    # a dimension along which nothing is sent is none
    assume(all(any(w[i] for w in ways) for i in range(len(shape))))
    counts = draw(st.lists(st.integers(1, 3), min_size=len(ways), max_size=len(ways)))
    sizes = draw(
        st.lists(st.sampled_from([8.0, 100.0, 4096.0]), min_size=len(ways), max_size=len(ways))
    )
    return (
        shape,
        draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape))),
        ways,
        counts,
        sizes,
    )


@settings(max_examples=120)
@given(programs(), st.lists(st.integers(0, 3), min_size=3, max_size=3))
def test_a_program_repeated_is_the_program_of_the_larger_grid(
    asked: tuple[Shape, list[bool], list[Shape], list[int], list[float]], more: list[int]
) -> None:
    shape, ring, ways, counts, sizes = asked
    recorded = ran(*asked)
    grid = grid_of(recorded, shape, ring)
    wide = tuple(n + m for n, m in zip(shape, more, strict=False))
    whole = repeated(recorded, wide, grid)
    assert exchanged(whole) == exchanged(ran(wide, ring, ways, counts, sizes))


@settings(max_examples=120)
@given(programs())
def test_the_grid_is_found_or_one_that_explains_as_much(
    asked: tuple[Shape, list[bool], list[Shape], list[int], list[float]],
) -> None:
    recorded = ran(*asked)
    grid = grid_of(recorded)
    assert math.prod(grid.shape) == recorded.ranks and len(grid.offsets) <= len(asked[2])
    if len(grid.offsets) == len(asked[2]) and len(grid.shape) == len(asked[0]):
        assert sorted(grid.shape) == sorted(asked[0])
    same = repeated(recorded, grid.shape, grid)
    assert exchanged(same) == exchanged(recorded), "at its own size it is the recorded one"


def test_sides_of_one_rank_are_no_dimensions() -> None:
    flat = ran(
        (1, 4, 1, 5),
        (True, True, False, False),
        [(0, 1, 0, 0), (0, 0, 0, 1), (0, 0, 0, -1)],
        (1, 2, 1),
        (8.0, 8.0, 64.0),
    )
    grid = grid_of(flat)
    assert grid.shape == (4, 5) and grid.periodic == (True, False)
    assert exchanged(repeated(flat, (6, 7), grid)) == exchanged(
        ran((6, 7), (True, False), [(1, 0), (0, 1), (0, -1)], (1, 2, 1), (8.0, 8.0, 64.0))
    )


def test_a_primes_worth_of_ranks_is_a_line_or_refused() -> None:
    line = ran((13,), (False,), [(1,), (-1,)], (1, 1), (8.0, 8.0))
    assert grid_of(line).shape == (13,) and larger(grid_of(line), 17) == (17,)
    far = ran((13,), (True,), [(1,)], (1,), (8.0,))
    messages = far.messages
    skipped = np.where(far.rank[messages.send] == 3, messages.receive + 4, messages.receive) % (
        13 * TURNS
    )
    odd = replace(far, messages=replace(messages, receive=skipped, received=skipped))
    with pytest.raises(CannotAnswer, match="A170") as caught:
        grid_of(odd)
    assert "rank 3 sends to rank 6" in caught.value.found


def test_a_grid_in_words() -> None:
    none = np.zeros((0, 2), dtype=np.int64)
    assert described(Grid((3, 3), (True, False), none)) == "exchange on 3 x 3 ranks (ring, open)"
    assert described(Grid((3, 3), (True, True), none), (3, 3)) == "exchange on 3 x 3 ranks (ring)"
    two = described(Grid((2, 2), (True, True), none), (4, 4))
    assert two == (
        "exchange on 2 x 2 ranks (ring), repeated to 4 x 4; sides of 2 are taken for rings, "
        "which no recording can tell"
    )
