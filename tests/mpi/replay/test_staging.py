"""What a library copies that stages a collective in host memory once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnbuckle.mpi.collectives.collectives import ALGORITHMS, buffers, pattern
from turnbuckle.mpi.replay.messages import Rounds
from turnbuckle.mpi.replay.staging import staged


@given(st.sampled_from(list(ALGORITHMS)), st.integers(1, 33), st.integers(0, 32))
def test_by_definition_of_mpi(operation: str, ranks: int, root: int) -> None:
    root %= ranks
    put, got = buffers(operation, ranks, root)
    one, all_of = (
        float(operation != "barrier"),
        float(ranks) if operation in ("scatter", "alltoall", "reduce_scatter") else 1.0,
    )
    first = 1 if operation in ("bcast", "scatter") else ranks
    assert np.count_nonzero(put) == one * first and put[root] == one * all_of
    into = float(ranks) if operation in ("gather", "allgather", "alltoall") else 1.0
    last = 1 if operation in ("reduce", "gather") else ranks - (operation == "bcast")
    assert np.count_nonzero(got) == one * last
    assert got.max(initial=0.0) == (one * into if last else 0.0)


@given(st.integers(2, 33))
def test_against_a_copy_at_both_ends_of_each_message(ranks: int) -> None:
    """In vectors, of all ranks: a broadcast by a tree copies 2 (P - 1) by messages and P once; a
    ring's allreduce 4 (P - 1) and 2 P.
    """
    for operation, algorithm, once in (
        ("bcast", "binomial", ranks),
        ("allreduce", "ring", 2 * ranks),
    ):
        copies = 2 * pattern(operation, algorithm, ranks).share.sum()
        assert copies == pytest.approx((2 if operation == "bcast" else 4) * (ranks - 1))
        assert sum(side.sum() for side in buffers(operation, ranks)) == once <= copies


def test_calls_of_several_groups() -> None:
    two = [
        Rounds("gather", np.array([10.0, 20.0]), np.array([[0, 1, 2], [3, 4, 5]]), 2),
        Rounds("exscan", np.array([8.0]), np.array([[6, 7]]), 0),
    ]
    found = staged(two)
    assert found.call.tolist() == list(range(8))
    assert found.put_bytes.tolist() == [10, 10, 10, 20, 20, 20, 8, 8]
    assert found.got_bytes.tolist() == [0, 0, 30, 0, 0, 60, 8, 8]
    assert [c.tolist() for c in found.among(np.array([2, 7]))] == [[2, 7], [10, 8], [30, 8]]
    assert [len(c) for c in staged([])] == [0, 0, 0]


@pytest.mark.parametrize("name", ["allgatherv", "reduce_scatter_block"])
def test_names_with_the_traffic_of_another(name: str) -> None:
    same = {"allgatherv": "allgather", "reduce_scatter_block": "reduce_scatter"}[name]
    assert [s.tolist() for s in buffers(name, 4)] == [s.tolist() for s in buffers(same, 4)]
