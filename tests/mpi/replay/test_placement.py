"""Which node each rank stands on: every rule, its laws, and files that do not fit."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.foundation.arrays import Float
from turnbuckle.mpi.replay.messages import Messages, Rounds, Traffic
from turnbuckle.mpi.replay.placement import (
    MOST_RANKS,
    Kind,
    inside_bytes,
    placed,
    read_placement,
    traffic_matrix,
)

KINDS: tuple[Kind, ...] = ("linear", "round robin", "random", "greedy")


def halo(shape: tuple[int, ...], *, periodic: bool) -> Float:
    """A byte to every neighbour of a grid."""
    number = np.arange(int(np.prod(shape))).reshape(shape)
    out = np.zeros((number.size, number.size))
    for at in itertools.product(*map(range, shape)):
        for axis, way in itertools.product(range(len(shape)), (1, -1)):
            to = list(at)
            to[axis] += way
            if periodic or 0 <= to[axis] < shape[axis]:
                out[number[at], number[tuple(n % s for n, s in zip(to, shape, strict=True))]] += 1
    return out


def exchange(rounds: tuple[Rounds, ...] = (), rank_of: list[int] | None = None) -> Traffic:
    """Rank 0 sends 5 B to 1, and 1 sends 7 B back."""
    none = np.full(2, -1)
    messages = Messages(np.array([0, 1]), none, np.array([1, 0]), none, none, np.array([5.0, 7.0]))
    threads = np.array(rank_of or [], dtype=np.int64)
    return Traffic(
        2,
        np.array([0, 1, 0, 1]),
        np.zeros(4),
        np.zeros(4),
        np.zeros(2),
        messages,
        rounds,
        1.0,
        0,
        threads,
    )


@settings(max_examples=60)
@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 99), st.sampled_from(KINDS))
def test_every_rank_stands_once_and_no_node_is_over_full(
    ranks: int, each: int, seed: int, kind: Kind
) -> None:
    matrix = np.random.default_rng(seed).random((ranks, ranks))
    node = placed(kind, ranks, each, matrix, seed)
    nodes = -(-ranks // each)
    held = np.bincount(node, minlength=nodes)
    assert len(node) == ranks and len(held) == nodes and held.max() <= each
    assert (placed(kind, ranks, each, matrix, seed) == node).all(), (
        "the same question has the same answer"
    )
    if kind in ("linear", "greedy", "random"):
        assert sorted(held.tolist(), reverse=True)[: nodes - 1] == [each] * (nodes - 1), (
            "all nodes but one are full"
        )


def test_rules_by_hand() -> None:
    assert placed("linear", 7, 3).tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert placed("round robin", 7, 3).tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert placed("random", 64, 4, seed=1).tolist() != placed("random", 64, 4, seed=2).tolist()
    assert placed("file", 3, 2, order=np.array([4, 0, 4])).tolist() == [4, 0, 4]


def test_greedy_brings_partners_together() -> None:
    """Ranks 0 and 3, and 1 and 2, talk to each other; 0 and 3 the most."""
    matrix = np.zeros((4, 4))
    matrix[0, 3], matrix[2, 1] = 9.0, 4.0
    matrix[1, 1] = 100.0  # to itself: no reason to be anywhere
    assert placed("greedy", 4, 2, matrix).tolist() == [0, 1, 1, 0]
    assert placed("greedy", 4, 2, np.zeros((4, 4))).tolist() == [0, 0, 1, 1], (
        "without traffic it is linear"
    )


@pytest.mark.parametrize("shape", [(8, 8), (5, 7), (4, 4, 4), (6, 6, 6)])
@pytest.mark.parametrize("each", [2, 4, 6])
@pytest.mark.parametrize("periodic", [False, True])
def test_greedy_keeps_more_of_a_halo_inside_than_chance(
    shape: tuple[int, ...], each: int, periodic: bool
) -> None:
    matrix = halo(shape, periodic=periodic)
    greedy = inside_bytes(matrix, placed("greedy", len(matrix), each, matrix))
    assert greedy > 1.5 * max(
        inside_bytes(matrix, placed("random", len(matrix), each, seed=s)) for s in range(5)
    )
    assert greedy >= inside_bytes(matrix, placed("linear", len(matrix), each)), (
        "so it is on these; it is no law"
    )


def test_greedy_may_keep_less_than_linear() -> None:
    matrix = halo((8, 8, 4), periodic=True)
    linear, greedy = (inside_bytes(matrix, placed(k, 256, 6, matrix)) for k in ("linear", "greedy"))
    assert greedy < linear


def test_bytes_from_rank_to_rank() -> None:
    assert traffic_matrix(exchange()).tolist() == [[0, 5], [7, 0]]
    assert traffic_matrix(exchange(rank_of=[1, 0])).tolist() == [[0, 7], [5, 0]]
    # three broadcasts from rank 1, two of them alike
    calls = np.array([[2, 3], [2, 3], [2, 3]])
    sent = exchange((Rounds("bcast", np.array([10.0, 10.0, 1.0]), calls, 1),))
    assert traffic_matrix(sent).tolist() == [[0, 5], [28, 0]]
    matrix = traffic_matrix(sent)
    assert (
        inside_bytes(matrix, np.array([0, 0])) == matrix.sum()
        and inside_bytes(matrix, np.array([0, 1])) == 0
    )


def test_collectives_count_as_the_messages_they_are() -> None:
    group = Rounds("allreduce", np.array([100.0]), np.array([[2, 3]]), 0)
    assert traffic_matrix(exchange((group,))).tolist() == [[0, 105], [107, 0]]
    assert traffic_matrix(exchange((group,)), "tracer").tolist() == [[0, 105], [107, 0]]


def test_too_many_ranks_for_a_table() -> None:
    refused("A171", traffic_matrix, replace(exchange(), ranks=MOST_RANKS + 1))


@pytest.mark.parametrize(
    ("kind", "ranks", "each", "more"),
    [
        ("nearest", 4, 2, {}),
        ("linear", 0, 2, {}),
        ("linear", 4, 0, {}),
        ("random", 4, 2, {"seed": -1}),
        ("greedy", 4, 2, {}),
        ("greedy", 4, 2, {"traffic_matrix": np.zeros((3, 3))}),
        ("greedy", 2, 2, {"traffic_matrix": np.full((2, 2), np.nan)}),
        ("file", 4, 2, {}),
    ],
)
def test_placements_that_cannot_be(
    kind: Kind, ranks: int, each: int, more: dict[str, object]
) -> None:
    assert refused("A091", placed, kind, ranks, each, **more).fix


@pytest.mark.parametrize(
    "text",
    [
        "1\n0\n1\n",
        "# node of each rank\n1\n\n0\n1",
        "rank, node\n2, 1\n0, 1\n1, 0\n",
        "node\n1\n0\n1\n",
        "node, rank\n0, 1\n1, 0\n1, 2\n",
    ],
)
def test_a_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "places").write_text(text, encoding="utf-8")
    assert read_placement(tmp_path / "places", 3, 2).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("text", "code", "found"),
    [
        ("0\n0\n", "A092", "2 ranks, not 3"),
        ("0\n0\n0\n", "A092", "3 ranks on node 0, which holds 2"),
        ("0\n0\n999999999\n", "A092", "a node number"),
        ("rank, node\n0, 0\n0, 1\n2, 1\n", "A092", "rank 0 twice"),
        ("rank, node\n0, 0\n1, 1\n3, 1\n", "A092", "rank 3 of 3"),
        ("rank, node\n0, 0\n1, 1\n", "A092", "rank 2 stands nowhere"),
        ("rank, node\n, 0\n1, 1\n2, 1\n", "A092", "a line without a rank"),
        ("node\n", "A092", "0 ranks, not 3"),
        ("rank, node\n0, -1\n", "A063", "-1"),
        ("rank, node\n0, 0.5\n", "A063", "0.5"),
        ("rank, node\n0, 1e25\n", "A063", "1e25"),
        ("rank, node\n0, 1e300\n", "U005", "1e300"),
        ("rank, node\n1e25, 1\n", "A063", "1e25"),
        ("rank, node\n1e300, 1\n", "U005", "1e300"),
        ("host\nn1\n", "A062", "host"),
        ("", "A062", ""),
        ("٣\n٤\n٥\n", "A062", ""),
    ],
)
def test_files_that_do_not_fit(tmp_path: Path, text: str, code: str, found: str) -> None:
    (tmp_path / "places.csv").write_text(text, encoding="utf-8")
    assert found in refused(code, read_placement, tmp_path / "places.csv", 3, 2).found


def test_no_text_at_all(tmp_path: Path) -> None:
    (tmp_path / "places.csv").write_bytes(b"\x00\xff\xfe")
    refused("A061", read_placement, tmp_path / "places.csv", 3, 2)
