"""Collectives as messages: the data gets where it must, in as many steps and bytes as the algorithm is known for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnbuckle.errors import UsageError
from turnbuckle.replay.collectives import ALGORITHMS, Pattern, chosen, operation_of, pattern

RANKS = st.integers(1, 40)


def spread(p: Pattern, ranks: int) -> list[set[int]]:
    """Whose contributions each rank has in the end, if every message carries all that its sender has."""
    held = [{r} for r in range(ranks)]
    for step in range(int(p.step.max(initial=-1)) + 1):
        before = [set(h) for h in held]
        for k in np.flatnonzero(p.step == step):
            held[p.target[k]] |= before[p.source[k]]
    return held


EVERYONE = [(o, a) for o in ("allreduce", "allgather", "alltoall", "reduce_scatter", "barrier") for a in ALGORITHMS[o]]


@pytest.mark.parametrize(("operation", "algorithm"), EVERYONE)
@given(RANKS)
def test_everyone_hears_of_everyone(operation: str, algorithm: str, ranks: int) -> None:
    assert spread(pattern(operation, algorithm, ranks), ranks) == [set(range(ranks))] * ranks


@pytest.mark.parametrize("algorithm", ALGORITHMS["bcast"])
@given(RANKS, st.integers(0, 100))
def test_a_broadcast_reaches_all_and_a_reduce_comes_from_all(algorithm: str, ranks: int, root: int) -> None:
    root %= ranks
    assert all(root in h for h in spread(pattern("bcast", algorithm, ranks, root), ranks))
    assert spread(pattern("reduce", algorithm, ranks, root), ranks)[root] == set(range(ranks))
    assert len(pattern("bcast", algorithm, ranks, root).source) == ranks - 1


@given(RANKS, st.integers(0, 100))
def test_a_scatter_hands_everyone_a_block(ranks: int, root: int) -> None:
    root %= ranks
    for operation, into in (("scatter", True), ("gather", False)):
        p = pattern(operation, "binomial", ranks, root)
        kept = np.zeros(ranks)
        np.add.at(kept, p.target if into else p.source, p.share)
        np.subtract.at(kept, p.source if into else p.target, p.share)
        kept[root] += ranks
        assert kept.tolist() == [1.0] * ranks


@given(RANKS)
def test_a_scan_hears_of_those_before(ranks: int) -> None:
    assert spread(pattern("scan", "doubling_scan", ranks), ranks) == [set(range(r + 1)) for r in range(ranks)]


@given(st.integers(2, 40))
def test_bytes_are_those_the_algorithms_are_known_for(ranks: int) -> None:
    """Per rank, in blocks (Thakur, Rabenseifner and Gropp 2005)."""

    def sent(operation: str, algorithm: str) -> float:
        return float(pattern(operation, algorithm, ranks).share.sum()) / ranks

    assert sent("allgather", "ring") == sent("allgather", "bruck") == ranks - 1
    assert sent("alltoall", "pairwise") == sent("reduce_scatter", "ring") == ranks - 1
    assert sent("allreduce", "ring") == pytest.approx(2 * (ranks - 1) / ranks)
    if ranks & (ranks - 1) == 0:
        assert sent("allreduce", "rabenseifner") == pytest.approx(2 * (ranks - 1) / ranks)
        assert sent("allreduce", "recursive_doubling") == math.log2(ranks)
        assert sent("alltoall", "bruck") == ranks / 2 * math.log2(ranks)
        assert sent("allgather", "recursive_doubling") == ranks - 1


@pytest.mark.parametrize(("operation", "algorithm"), [(o, a) for o, all_of in ALGORITHMS.items() for a in all_of])
@given(RANKS)
def test_nobody_talks_to_himself_or_twice_to_one_in_a_step(operation: str, algorithm: str, ranks: int) -> None:
    p = pattern(operation, algorithm, ranks)
    assert (p.source != p.target).all() and (np.diff(p.step) >= 0).all() and (p.share >= 0).all()
    each = list(zip(p.step.tolist(), p.source.tolist(), p.target.tolist(), strict=True))
    assert len(each) == len(set(each))


def test_what_a_library_picks() -> None:
    assert chosen("allreduce", 8, 64, "short and long") == "recursive_doubling"
    assert chosen("allreduce", 1e6, 64, "short and long") == "rabenseifner"
    assert chosen("allreduce", 1e6, 64, "tracer") == "binary"
    assert chosen("allgather", 1000, 200, "tracer") == "ring"
    assert chosen("alltoall", 512, 8, "tracer") == "bruck"
    assert operation_of("alltoallv") == "alltoall" and operation_of("comm_split") is None


@pytest.mark.parametrize(
    "asked", [("allreduce", "telepathy", 4, 0), ("dance", "ring", 4, 0), ("bcast", "binomial", 0, 0), ("bcast", "binomial", 4, 4)]
)
def test_no_such_collective(asked: tuple[str, str, int, int]) -> None:
    with pytest.raises(UsageError) as refused:
        pattern(*asked)
    assert refused.value.code == "A073"
