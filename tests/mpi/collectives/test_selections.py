"""Which algorithm a library takes: the tables are whole, and say what their sources say."""

from __future__ import annotations

from collections import defaultdict
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.mpi.collectives.collectives import ALGORITHMS, operation_of, pattern
from turnbuckle.mpi.collectives.selections import Selection, _read, chosen

CALLS = [
    *ALGORITHMS,
    "allgatherv",
    "alltoallv",
    "alltoallw",
    "gatherv",
    "scatterv",
    "exscan",
    "reduce_scatter_block",
]


def test_every_row_has_its_algorithm_and_source() -> None:
    rules, named = _read("selections.csv"), _read("selections_named.csv")
    keys = [(r["selection"], r["operation"], r["named"]) for r in named]
    assert len(keys) == len(set(keys)) and set(keys) == {
        (r["selection"], r["operation"], r["named"]) for r in rules
    }
    assert {r["selection"] for r in rules} == set(get_args(Selection))
    for r in named:
        assert r["source"] and r["mapping"].startswith(("exact", "nearest", "as short and long")), r
        parts = [p for p in r["algorithm"].split(" + ") if not p.startswith("<")]
        assert all(any(p in known for known in ALGORITHMS.values()) for p in parts)
    first: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for r in rules:
        assert (
            r["of"] in ("block", "total")
            and r["only"] in ("", "power of two")
            and int(r["ranks"]) >= 2
        )
        first[r["selection"], r["operation"], r["only"], r["ranks"]].append(float(r["size_bytes"]))
    # from 0 B on, every size once
    assert all(sizes[0] == 0 and sizes == sorted(set(sizes)) for sizes in first.values())


@pytest.mark.parametrize("selection", get_args(Selection))
@given(st.sampled_from(CALLS), st.integers(1, 40), st.floats(0, 1e8))
def test_what_is_chosen_can_be_made(
    selection: Selection, call: str, ranks: int, block: float
) -> None:
    made = pattern(operation_of(call) or "", chosen(call, block, ranks, selection), ranks)
    assert (made.source != made.target).all()


def test_what_a_library_picks() -> None:
    assert chosen("allreduce", 10_000, 64, "short and long") == "recursive_doubling"
    assert chosen("allreduce", 1e6, 64, "short and long") == "rabenseifner"
    assert chosen("allreduce", 1e6, 64, "tracer") == "binary"
    assert [chosen("allgather", size, 200, "tracer") for size in (819.2, 1000)] == ["bruck", "ring"]
    assert [chosen("alltoall", size, 8, "tracer") for size in (512, 513)] == ["bruck", "pairwise"]


@pytest.mark.parametrize(
    ("call", "ranks", "size", "algorithm"),
    [
        ("allreduce", 3, 7, "ring"),
        ("allreduce", 3, 8, "recursive_doubling"),
        ("allreduce", 64, 262_143, "recursive_doubling"),
        ("allreduce", 64, 262_144, "rabenseifner"),
        ("allreduce", 256, 4095, "binomial + knomial"),
        ("barrier", 5, 0, "linear"),
        ("barrier", 300, 0, "binomial"),
        ("bcast", 8, 7, "knomial"),
        ("bcast", 8, 8, "binary_levels"),
        ("bcast", 15, 1e6, "linear"),
        ("bcast", 20, 1_048_576, "scatter_allgather"),
        ("bcast", 600, 20_000, "split_binary"),
        ("reduce", 300, 8192, "in_order_binary"),
        ("reduce", 2, 7, "rabenseifner"),
        ("gather", 2, 1, "linear_sync"),
        ("gather", 100, 1e6, "binomial"),
        ("scatter", 64, 511, "binomial"),
        ("scatter", 64, 512, "linear"),
        ("alltoall", 16, 100, "bruck"),
        ("alltoall", 16, 1e6, "linear"),
        ("alltoallv", 3, 1e6, "shifted"),
        ("alltoallw", 3, 1e6, "linear"),
        ("allgather", 2, 1e6, "ring"),
        ("allgather", 16, 1e6, "recursive_doubling"),
        ("scan", 9, 8, "chain_scan"),
        ("exscan", 9, 8, "chain_scan"),
    ],
)
def test_what_open_mpi_picks(call: str, ranks: int, size: float, algorithm: str) -> None:
    assert chosen(call, size, ranks, "open mpi") == algorithm


@pytest.mark.parametrize(
    ("call", "ranks", "size", "algorithm"),
    [
        ("bcast", 7, 1e6, "binomial"),
        ("bcast", 8, 12_288, "binomial"),
        ("bcast", 8, 12_289, "scatter_allgather"),
        ("bcast", 9, 12_289, "scatter_ring"),
        ("bcast", 16, 524_289, "scatter_ring"),
        ("allreduce", 64, 8, "recursive_doubling"),
        ("allreduce", 64, 504, "recursive_doubling"),
        ("allreduce", 64, 512, "rabenseifner"),
        ("reduce", 64, 2048, "binomial"),
        ("reduce", 64, 2049, "rabenseifner"),
        ("allgather", 8, 65_535, "recursive_doubling"),
        ("allgather", 8, 65_536, "ring"),
        ("allgather", 10, 8191, "bruck"),
        ("allgather", 10, 8192, "ring"),
        ("alltoall", 8, 256, "bruck"),
        ("alltoall", 8, 257, "linear"),
        ("alltoall", 8, 32_769, "pairwise"),
        ("alltoall", 4, 100, "linear"),
        ("reduce_scatter", 8, 65_535, "recursive_halving"),
        ("reduce_scatter_block", 8, 65_536, "shifted"),
        ("gatherv", 8, 1, "linear"),
        ("gather", 8, 1, "binomial"),
    ],
)
def test_what_mpich_picks(call: str, ranks: int, size: float, algorithm: str) -> None:
    assert chosen(call, size, ranks, "mpich") == algorithm


def test_a_reduce_and_a_broadcast_are_chosen_for_their_own_sizes() -> None:
    # 200 B from each of 16: 3200 B are broadcast
    assert chosen("allgatherv", 200, 3, "open mpi").partition(" + ")[0] in ("ring", "linear")
    for ranks in (8, 20, 200):
        for size in (64.0, 4096.0, 1e5, 1e7):
            algorithm = chosen("allgatherv", size, ranks, "open mpi")
            if algorithm.startswith("linear + "):
                assert algorithm == f"linear + {chosen('bcast', size * ranks, ranks, 'open mpi')}"
            algorithm = chosen("reduce_scatter_block", size, ranks, "open mpi")
            if " + " in algorithm:
                parts = (
                    chosen("reduce", size * ranks, ranks, "open mpi"),
                    chosen("scatter", size, ranks, "open mpi"),
                )
                assert algorithm == " + ".join(parts)


@pytest.mark.parametrize("asked", [("dance", 1.0, 4, "open mpi"), ("bcast", 1.0, 4, "openmpi")])
def test_no_such_choice(asked: tuple[str, float, int, str]) -> None:
    assert "open mpi" in refused("A073", chosen, *asked).fix
