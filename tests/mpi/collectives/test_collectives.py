"""Collectives as messages: the data gets where MPI says it must, in as many steps and bytes as the
algorithm is known for.

Messages are given contents: a vector or its blocks as units, and of each unit whose contributions
are in it.  A reduction counts every contribution once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.mpi.collectives.collectives import (
    ALGORITHMS,
    Pattern,
    buffers,
    operation_of,
    pattern,
)

#: Both sides of each power of two, and what is far from any.
RANKS = (*range(1, 14), 15, 16, 17, 23, 31, 32, 33)
Message = tuple[int, int, float]


def steps_of(p: Pattern) -> list[list[Message]]:
    out: list[list[Message]] = [[] for _ in range(int(p.step.max(initial=-1)) + 1)]
    for k, s, t, share in zip(
        p.step.tolist(), p.source.tolist(), p.target.tolist(), p.share.tolist(), strict=True
    ):
        out[k].append((s, t, share))
    return out


def backwards(steps: list[list[Message]]) -> list[list[Message]]:
    return [[(t, s, share) for s, t, share in step] for step in reversed(steps)]


def roots(ranks: int) -> list[int]:
    return list(range(ranks)) if ranks <= 6 else sorted({0, 1, ranks // 2, ranks - 1})


def spread(
    steps: list[list[Message]],
    held: list[list[int]],
    units: float,
    first: str = "latest",
    root: int = 0,
) -> list[list[list[int]]]:
    """The units that every message carries, where all that matters is who has copies of which.

    A sender hands on what its receiver has not got: of several the one that came `latest`, or of a
    scatter what is for the receiver and those after it.  `held`: units of each rank in the order in
    which they came; the end state is left there.
    """
    carried = []
    for step in steps:
        inside, before = [], [list(h) for h in held]
        for s, t, share in step:
            have = set(before[t])
            came = {unit: k for k, unit in enumerate(before[s])}
            if first == "latest":
                order = sorted(came, key=lambda u: (u in have, -came[u]))
            elif first == "ascending":
                order = sorted(came, key=lambda u: (u in have, u))
            else:
                order = sorted(
                    came,
                    key=lambda u: (
                        u in have,
                        (u - t) % len(held) if first == "own" else (u - t + root) % len(held),
                    ),
                )
            count = round(share * units)
            assert math.isclose(count, share * units, rel_tol=1e-6) and count <= len(order), (
                s,
                t,
                share,
            )
            inside.append(order[:count])
            # what is carried comes in its own order
            held[t] += [
                u for u in order[:count][:: -1 if first == "latest" else 1] if u not in held[t]
            ]
        carried.append(inside)
    return carried


def reduced(
    steps: list[list[Message]], carried: list[list[list[int]]], ranks: int, units: int
) -> list[list[set[int]]]:
    """Contributions in each unit at each rank after partial sums went along; asserts that none is
    counted twice or sent on twice.
    """
    held = [[{r} for _ in range(units)] for r in range(ranks)]
    for step, inside in zip(steps, carried, strict=True):
        moves = [
            (s, t, u, held[s][u])
            for (s, t, _), these in zip(step, inside, strict=True)
            for u in these
        ]
        for s, _, u, _ in moves:
            held[s][u] = set()
        for _, t, u, partial in moves:
            assert partial and not held[t][u] & partial
            held[t][u] = held[t][u] | partial
    return held


# --- from a root, or to it ------------------------------------------------------------------------

LONG = ("scatter_allgather", "scatter_ring")
BCASTS = [a for a in ALGORITHMS["bcast"] if a not in LONG]


def cuts(algorithm: str) -> Iterator[tuple[int, int, int]]:
    """Ranks, root, segments."""
    for ranks in RANKS:
        for root in roots(ranks):
            yield ranks, root, 1
        yield ranks, ranks // 3, 5


@pytest.mark.parametrize("algorithm", BCASTS)
def test_a_broadcast_reaches_all_with_every_segment_once(algorithm: str) -> None:
    for ranks, root, segments in cuts(algorithm):
        steps = steps_of(pattern("bcast", algorithm, ranks, root, segments))
        halves = 2 if algorithm == "split_binary" else 1
        units = halves * segments
        held = [list(range(units)) if r == root else [] for r in range(ranks)]
        if halves == 1:
            spread(steps, held, units, "ascending")
        else:
            # odd ranks from the root are in the left half
            for step in steps:
                before = [list(h) for h in held]
                for s, t, share in step:
                    mine = range(segments) if (t - root) % ranks % 2 else range(segments, units)
                    new = [u for u in before[s] if u not in held[t]]
                    new.sort(key=lambda u, mine=mine: (u not in mine, u))  # type: ignore[misc]
                    held[t] += new[: round(share * units)]
        assert all(sorted(h) == list(range(units)) for h in held), (ranks, root, segments)
        sent = sum(share for step in steps for *_, share in step)
        assert sent == pytest.approx(ranks - 1)


@pytest.mark.parametrize("algorithm", [a for a in BCASTS if a not in ("linear", "split_binary")])
def test_down_a_tree_a_rank_sends_and_receives_one_segment_at_a_time(algorithm: str) -> None:
    for ranks, root, segments in cuts(algorithm):
        for step in steps_of(pattern("bcast", algorithm, ranks, root, segments)):
            assert len({s for s, *_ in step}) == len({t for _, t, _ in step}) == len(step)


@pytest.mark.parametrize(
    ("operation", "algorithm", "children"),
    [
        ("bcast", "binomial", {0: [8, 4, 2, 1], 2: [3], 4: [6, 5], 6: [7], 8: [10, 9]}),
        ("bcast", "binomial_doubling", {0: [1, 2, 4, 8], 1: [3, 5, 9], 2: [6, 10], 3: [7]}),
        ("bcast", "knomial", {0: [4, 8, 1, 2, 3], 4: [5, 6, 7], 8: [9, 10]}),
        ("bcast", "binary", {0: [1, 2], 1: [3, 4], 2: [5, 6], 3: [7, 8], 4: [9, 10]}),
        (
            "bcast",
            "binary_levels",
            {0: [1, 2], 1: [3, 5], 2: [4, 6], 3: [7], 4: [8], 5: [9], 6: [10]},
        ),
        ("bcast", "chains", {0: [1, 4, 7, 9], 1: [2], 2: [3], 4: [5], 5: [6], 7: [8], 9: [10]}),
        (
            "reduce",
            "in_order_binary",
            {10: [4, 9], 4: [1, 3], 1: [0], 3: [2], 9: [6, 8], 6: [5], 8: [7]},
        ),
    ],
)
def test_trees_of_eleven_are_those_of_the_libraries(
    operation: str, algorithm: str, children: dict[int, list[int]]
) -> None:
    found: dict[int, list[int]] = {}
    for step in steps_of(pattern(operation, algorithm, 11, 10 if operation == "reduce" else 0)):
        for s, t, _ in step:
            parent, child = (t, s) if operation == "reduce" else (s, t)
            found.setdefault(parent, []).append(child)
    assert {p: sorted(c) if operation == "reduce" else c for p, c in found.items()} == children


@pytest.mark.parametrize("algorithm", LONG)
def test_a_long_broadcast_is_a_scatter_and_an_allgather(algorithm: str) -> None:
    for ranks in RANKS:
        for root in roots(ranks):
            steps = steps_of(pattern("bcast", algorithm, ranks, root))
            held = [list(range(ranks)) if r == root else [] for r in range(ranks)]
            down = math.ceil(math.log2(ranks)) if ranks > 1 else 0
            spread(steps[:down], held, ranks, "from root", root)
            assert all((r - root) % ranks in h for r, h in enumerate(held))
            # from here on each is counted for its own piece
            own = [[(r - root) % ranks] for r in range(ranks)]
            spread(steps[down:], own, ranks)
            assert all(sorted(h) == list(range(ranks)) for h in own)


@pytest.mark.parametrize(
    "algorithm", [a for a in ALGORITHMS["reduce"] if a not in ("rabenseifner", "in_order_binary")]
)
def test_a_reduce_counts_every_rank_once(algorithm: str) -> None:
    for ranks, root, segments in cuts(algorithm):
        steps = steps_of(pattern("reduce", algorithm, ranks, root, segments))
        away = [list(range(segments)) if r == root else [] for r in range(ranks)]
        carried = spread(backwards(steps), away, segments, "ascending")
        assert (
            reduced(steps, carried[::-1], ranks, segments)[root] == [set(range(ranks))] * segments
        )


def test_a_reduce_in_order_joins_neighbours_only() -> None:
    for ranks in RANKS:
        for root in roots(ranks):
            steps = steps_of(pattern("reduce", "in_order_binary", ranks, root))
            held: list[list[int]] = [[r] for r in range(ranks)]
            for step in steps:
                for s, t, _ in step:
                    # what is handed on is of ranks in a row
                    assert held[s] == list(range(held[s][0], held[s][-1] + 1))
                    held[t] = held[s] if s == ranks - 1 else sorted(held[t] + held[s])
            assert held[root] == list(range(ranks))


@pytest.mark.parametrize("operation", ["scatter", "gather"])
def test_a_scatter_hands_everyone_a_block(operation: str) -> None:
    for algorithm in ALGORITHMS[operation]:
        for ranks in RANKS:
            for root in roots(ranks):
                steps = [
                    [m for m in step if m[2]]
                    for step in steps_of(pattern(operation, algorithm, ranks, root))
                ]
                held = [list(range(ranks)) if r == root else [] for r in range(ranks)]
                spread(
                    steps if operation == "scatter" else backwards(steps),
                    held,
                    ranks / ranks,
                    "own",
                )
                assert all(r in h for r, h in enumerate(held))
                if algorithm != "binomial":
                    assert all(h == [r] for r, h in enumerate(held) if r != root)


# --- all with all ---------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [a for a in ALGORITHMS["allgather"] if a != "linear"])
def test_an_allgather_hands_everyone_every_block_once(algorithm: str) -> None:
    for ranks in RANKS:
        held = [[r] for r in range(ranks)]
        carried = spread(steps_of(pattern("allgather", algorithm, ranks)), held, 1)
        assert all(sorted(h) == list(range(ranks)) for h in held)
        if algorithm == "neighbor_exchange" and ranks == 6:
            # Chen et al., and the comment in Open MPI: after two steps
            assert [sorted(carried[1][k]) for k in range(6)] == [
                [0, 1],
                [0, 1],
                [2, 3],
                [2, 3],
                [4, 5],
                [4, 5],
            ]
            first = pattern("allgather", algorithm, ranks)
            assert first.target[:6].tolist() == [1, 0, 3, 2, 5, 4] and first.target[
                6:12
            ].tolist() == [5, 2, 1, 4, 3, 0]
        # no block comes to a rank twice
        assert sum(len(these) for inside in carried for these in inside) == ranks * (ranks - 1)


@pytest.mark.parametrize(
    "algorithm", ["ring", "recursive_halving", "butterfly", "recursive_doubling"]
)
def test_a_reduce_scatter_backwards_is_an_allgather(algorithm: str) -> None:
    for ranks in RANKS:
        steps = steps_of(pattern("reduce_scatter", algorithm, ranks))
        if algorithm == "recursive_doubling" and not ranks & (ranks - 1):
            # every message holds the partial sums of all that the sender's group does not keep
            held = [[{r} for _ in range(ranks)] for r in range(ranks)]
            for k, step in enumerate(steps):
                before = [list(h) for h in held]
                for s, t, share in step:
                    these = [u for u in range(ranks) if u >> k != s >> k]
                    assert share == len(these)
                    for u in these:
                        assert not before[t][u] & before[s][u]
                        held[t][u] = before[t][u] | before[s][u]
            assert all(held[r][r] == set(range(ranks)) for r in range(ranks))
            continue
        carried = spread(backwards(steps), [[r] for r in range(ranks)], 1)
        held = reduced(steps, carried[::-1], ranks, ranks)
        assert all(held[r][r] == set(range(ranks)) for r in range(ranks)), ranks


@pytest.mark.parametrize(
    ("operation", "algorithm"),
    [
        ("allgather", "linear"),
        *(
            (o, a)
            for o in ("alltoall", "reduce_scatter")
            for a in ("pairwise", "shifted", "linear")
        ),
    ],
)
def test_everyone_sends_everyone_else_a_block(operation: str, algorithm: str) -> None:
    for ranks in RANKS:
        p = pattern(operation, algorithm, ranks)
        pairs = sorted(zip(p.source.tolist(), p.target.tolist(), strict=True))
        assert (
            pairs == [(s, t) for s in range(ranks) for t in range(ranks) if s != t]
            and (p.share == 1).all()
        )
        if algorithm != "linear":
            for step in steps_of(p):
                assert (
                    sorted(s for s, *_ in step)
                    == sorted(t for _, t, _ in step)
                    == list(range(ranks))
                )


def test_a_bruck_alltoall_brings_every_block_to_its_rank() -> None:
    for ranks in RANKS:
        held = [[(r, d) for d in range(ranks)] for r in range(ranks)]
        for k, step in enumerate(steps_of(pattern("alltoall", "bruck", ranks))):
            moves = [
                (s, t, [b for b in held[s] if (b[1] - b[0]) % ranks & 1 << k], share)
                for s, t, share in step
            ]
            for s, _, these, share in moves:
                assert len(these) == share
                held[s] = [b for b in held[s] if b not in these]
            for _, t, these, _ in moves:
                held[t] += these
        assert all(sorted(h) == [(s, r) for s in range(ranks)] for r, h in enumerate(held))


def halves(ranks: int, first: int = 1) -> tuple[int, dict[int, int]]:
    """Largest power of two, and the number of each rank that stays: of pairs at the front the
    `first` or second.
    """
    power = 1 << (ranks.bit_length() - 1)
    extra = ranks - power
    return power, {
        r: n for n, r in enumerate([*range(first, 2 * extra, 2), *range(2 * extra, ranks)])
    }


def halved(
    steps: list[list[Message]], ranks: int, first: int = 1
) -> tuple[list[list[set[int]]], list[set[int]], list[list[Message]]]:
    """After folding and halving: contributions, units that each still works on, and the steps that
    are left.
    """
    power, number = halves(ranks, first)
    held = [[{r} for _ in range(power)] for r in range(ranks)]
    if power != ranks:
        for s, t, share in steps[0]:
            assert share == 1 and s not in number
            held[t] = [a | b for a, b in zip(held[t], held[s], strict=True)]
        steps = steps[1:]
    active = [set(range(power)) for _ in range(ranks)]
    bits = power.bit_length() - 1
    for bit in range(bits):
        before = [list(h) for h in held]
        for s, t, share in steps[bit]:
            these = {u for u in active[s] if (u >> bit & 1) == (number[t] >> bit & 1)}
            assert len(these) == share * power
            for u in these:
                assert not before[t][u] & before[s][u]
                held[t][u] = before[t][u] | before[s][u]
        for r, n in number.items():
            active[r] = {u for u in active[r] if (u >> bit & 1) == (n >> bit & 1)}
    return held, active, steps[bits:]


def test_rabenseifner_halves_and_gathers() -> None:
    for ranks in RANKS:
        power, number = halves(ranks)
        held, active, rest = halved(steps_of(pattern("allreduce", "rabenseifner", ranks)), ranks)
        whole = [sorted(active[r]) if r in number else [] for r in range(ranks)]
        assert all(held[r][u] == set(range(ranks)) for r in range(ranks) for u in whole[r])
        spread(rest, whole, power)
        assert all(sorted(h) == list(range(power)) for h in whole)


def test_a_reduce_by_rabenseifner_gathers_at_its_root() -> None:
    for ranks in RANKS:
        power, number = halves(ranks, 0)
        for root in roots(ranks):
            held, active, rest = halved(
                steps_of(pattern("reduce", "rabenseifner", ranks, root)), ranks, 0
            )
            whole = [set(active[r]) if r in number else set() for r in range(ranks)]
            assert all(held[r][u] == set(range(ranks)) for r in range(ranks) for u in whole[r])
            for step in rest:
                for s, t, share in step:
                    assert len(whole[s]) == share * power
                    whole[t], whole[s] = whole[t] | whole[s], set()
            assert whole[root] == set(range(power))
            assert len(rest) == power.bit_length() - 1 + (root not in number)


def test_recursive_doubling_counts_every_rank_once() -> None:
    for ranks in RANKS:
        held = [{r} for r in range(ranks)]
        steps = steps_of(pattern("allreduce", "recursive_doubling", ranks))
        for k, step in enumerate(steps):
            before = [set(h) for h in held]
            back = ranks & (ranks - 1) and k == len(steps) - 1
            for s, t, _ in step:
                assert back or not before[t] & before[s]
                held[t] = before[s] if back else before[t] | before[s]
        assert held == [set(range(ranks))] * ranks


@pytest.mark.parametrize(
    ("operation", "first", "second"),
    [
        ("allreduce", "binomial", "knomial"),
        ("allreduce", "linear", "binomial"),
        ("reduce_scatter", "binary_levels", "linear_in_turn"),
        ("allgather", "linear", "scatter_ring"),
    ],
)
def test_one_after_the_other(operation: str, first: str, second: str) -> None:
    one, two = {
        "allreduce": ("reduce", "bcast"),
        "reduce_scatter": ("reduce", "scatter"),
        "allgather": ("gather", "bcast"),
    }[operation]
    for ranks in RANKS:
        both, a, b = (
            pattern(operation, f"{first} + {second}", ranks),
            pattern(one, first, ranks),
            pattern(two, second, ranks),
        )
        assert both.source.tolist() == [*a.source, *b.source] and both.target.tolist() == [
            *a.target,
            *b.target,
        ]
        times = (
            ranks if operation == "reduce_scatter" else 1,
            ranks if operation == "allgather" else 1,
        )
        assert both.share.tolist() == pytest.approx([*(a.share * times[0]), *(b.share * times[1])])
        assert (np.diff(both.step) >= 0).all()
    for ranks in RANKS:
        ring = pattern("allreduce", "ring", ranks)
        parts = [pattern(o, "ring", ranks) for o in ("reduce_scatter", "allgather")]
        assert ring.target.tolist() == [t for p in parts for t in p.target.tolist()]
        assert (ring.share * ranks).tolist() == pytest.approx(
            [x for p in parts for x in p.share.tolist()]
        )


# --- without data, or with some -------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ALGORITHMS["barrier"])
def test_after_a_barrier_all_have_heard_of_all(algorithm: str) -> None:
    for ranks in RANKS:
        held = [{r} for r in range(ranks)]
        for step in steps_of(pattern("barrier", algorithm, ranks)):
            before = [set(h) for h in held]
            for s, t, share in step:
                assert share == 0
                held[t] |= before[s]
        assert held == [set(range(ranks))] * ranks


@pytest.mark.parametrize("operation", ["scan", "exscan"])
@pytest.mark.parametrize("algorithm", ALGORITHMS["scan"])
def test_a_scan_sums_those_before(operation: str, algorithm: str) -> None:
    """Two sums: of all that was heard of, which is handed on, and of those before."""
    for ranks in RANKS:
        handed, before_me = [{r} for r in range(ranks)], [set[int]() for _ in range(ranks)]
        for step in steps_of(pattern(operation, algorithm, ranks)):
            old = [set(h) for h in handed]
            for s, t, _ in step:
                assert not old[t] & old[s]
                handed[t] |= old[s]
                if s < t:
                    assert not before_me[t] & old[s]
                    before_me[t] |= old[s]
        assert before_me == [set(range(r)) for r in range(ranks)]


# --- steps and bytes ------------------------------------------------------------------------------


def cost(operation: str, algorithm: str, ranks: int) -> tuple[int, float]:
    """Steps, and the vectors (blocks) that one after the other go over a link: the largest message
    of each step.
    """
    steps = steps_of(pattern(operation, algorithm, ranks))
    return len(steps), round(sum(max(share for *_, share in step) for step in steps), 12)


@given(st.integers(1, 6))
def test_costs_are_those_of_thakur_rabenseifner_and_gropp(exponent: int) -> None:
    p, log = 2**exponent, exponent
    assert cost("bcast", "binomial", p) == cost("reduce", "binomial", p) == (log, log)
    assert cost("bcast", "scatter_allgather", p) == (2 * log, round(2 * (p - 1) / p, 12))
    assert cost("bcast", "scatter_ring", p) == (log + p - 1, round(2 * (p - 1) / p, 12))
    assert cost("scatter", "binomial", p) == cost("gather", "binomial", p) == (log, p - 1)
    assert (
        cost("allgather", "recursive_doubling", p) == cost("allgather", "bruck", p) == (log, p - 1)
    )
    assert cost("allgather", "ring", p) == (p - 1, p - 1)
    assert cost("allgather", "neighbor_exchange", p) == (p // 2, p - 1)
    assert cost("alltoall", "bruck", p) == (log, p / 2 * log)
    assert (
        cost("alltoall", "pairwise", p) == cost("reduce_scatter", "pairwise", p) == (p - 1, p - 1)
    )
    assert cost("reduce_scatter", "recursive_halving", p) == (log, p - 1)
    assert cost("reduce_scatter", "recursive_doubling", p) == (log, p * log - (p - 1))
    assert cost("allreduce", "recursive_doubling", p) == (log, log)
    assert (
        cost("allreduce", "rabenseifner", p)
        == cost("reduce", "rabenseifner", p)
        == (2 * log, round(2 * (p - 1) / p, 12))
    )
    assert cost("allreduce", "ring", p) == (2 * (p - 1), round(2 * (p - 1) / p, 12))
    assert cost("scan", "recursive_doubling", p) == cost("scan", "doubling_scan", p) == (log, log)


@given(st.integers(2, 33), st.integers(1, 9))
def test_costs_at_any_number_of_ranks(p: int, segments: int) -> None:
    log = math.ceil(math.log2(p))
    for operation, algorithm in (
        ("bcast", "binomial"),
        ("bcast", "binomial_doubling"),
        ("barrier", "dissemination"),
        ("alltoall", "bruck"),
    ):
        assert cost(operation, algorithm, p)[0] == log
    assert cost("allgather", "bruck", p) == (log, p - 1)
    extra = 0 if p & (p - 1) == 0 else 2
    assert cost("allreduce", "recursive_doubling", p)[0] == int(math.log2(p)) + extra
    assert cost("allreduce", "rabenseifner", p)[0] == 2 * int(math.log2(p)) + extra
    # a pipeline of s segments (Pjesivac-Grbovic et al.): P - 2 + s steps of a segment
    steps = steps_of(pattern("bcast", "pipeline", p, 0, segments))
    assert len(steps) == p - 2 + segments and {share for step in steps for *_, share in step} == {
        1 / segments
    }
    assert (
        len(steps_of(pattern("bcast", "chains", p))) == math.ceil((p - 1) / 4) + min(4, p - 1) - 1
        or p > 5
    )
    assert pattern("bcast", "knomial", p).share.sum() == p - 1


EVERY = [(o, a) for o, all_of in ALGORITHMS.items() for a in all_of]


@pytest.mark.parametrize(("operation", "algorithm"), EVERY)
def test_nobody_talks_to_himself_or_twice_to_one_in_a_step(operation: str, algorithm: str) -> None:
    for ranks in RANKS:
        p = pattern(operation, algorithm, ranks)
        assert (p.source != p.target).all() and (np.diff(p.step) >= 0).all()
        assert (p.share > 0).all() or operation == "barrier" or algorithm == "linear_sync"
        each = list(zip(p.step.tolist(), p.source.tolist(), p.target.tolist(), strict=True))
        assert len(each) == len(set(each)) and set(p.step.tolist()) == set(
            range(int(p.step.max(initial=-1)) + 1)
        )


@pytest.mark.parametrize(("operation", "algorithm"), EVERY)
def test_what_is_put_in_and_got_bounds_what_is_sent(operation: str, algorithm: str) -> None:
    """Nobody gets more than came to it, nor is anything lost that it alone had: what staging in
    host memory copies.
    """
    for ranks in (2, 5, 8, 13):
        p = pattern(operation, algorithm, ranks, 0)
        put, got = buffers(operation, ranks)
        come, gone = (np.bincount(side, p.share, ranks) for side in (p.target, p.source))
        own = {"allgather": 1.0, "alltoall": 1.0, "gather": 1.0, "scatter": 1.0}.get(operation, 0.0)
        at_root = np.arange(ranks) == 0
        assert (come >= got - own - 1e-12)[~at_root].all()
        assert (gone >= np.minimum(put, 1.0) - 1e-12)[~at_root].all() or operation in (
            "bcast",
            "scatter",
            "scan",
        )


def test_names_of_calls() -> None:
    assert operation_of("alltoallv") == "alltoall" and operation_of("comm_split") is None
    assert (
        operation_of("alltoallv", plain=False) == "alltoallv"
        and operation_of("comm_split", plain=False) is None
    )
    assert (
        pattern("exscan", "doubling_scan", 5).target.tolist()
        == pattern("scan", "doubling_scan", 5).target.tolist()
    )


@pytest.mark.parametrize(
    "asked",
    [
        ("allreduce", "telepathy", 4, 0),
        ("dance", "ring", 4, 0),
        ("bcast", "binomial", 0, 0),
        ("bcast", "binomial", 4, 4),
        ("allreduce", "binomial + telepathy", 4, 0),
        ("bcast", "binomial + binomial", 4, 0),
        ("bcast", "scatter_ring", 4, 0, 2),
        ("allreduce", "ring", 4, 0, 2),
        ("bcast", "pipeline", 4, 0, 0),
    ],
)
def test_no_such_collective(asked: tuple[str, str, int, int]) -> None:
    assert refused("A073", pattern, *asked).fix
