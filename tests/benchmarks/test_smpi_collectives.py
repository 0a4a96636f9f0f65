"""One collective at a time by `flow`, against the times that SimGrid 3.32 told for the same
algorithm on the same platform.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import smpi  # type: ignore[import-not-found]

#: Operation, algorithm, and when SMPI's last rank left it among 8 and 12 ranks, for a block of
#: 32,768 B, factors off [us]; None where SMPI does it another way or refuses to.
TOLD = (
    ("bcast", "binomial", 166.363, 192.59),
    ("bcast", "linear", 186.59, 291.499),
    ("bcast", "scatter_allgather", 80.664, None),
    ("bcast", "scatter_ring", 92.715, None),
    ("bcast", "pipeline", None, 321.499),
    ("reduce", "binomial", 87.682, 116.909),
    ("reduce", "linear", 186.59, 291.499),
    ("reduce", "linear_in_turn", 204.59, 321.499),
    ("reduce", "rabenseifner", 63.952, 93.179),
    ("reduce", "pipeline", 204.59, None),
    ("reduce", "binary_levels", 110.909, 140.136),
    ("reduce", "in_order_binary", 140.136, 169.363),
    ("allreduce", "recursive_doubling", 87.682, 146.136),
    ("allreduce", "ring", 88.054, None),
    ("allreduce", "rabenseifner", 63.952, 122.406),
    ("allreduce", "linear + binomial", 352.954, 484.09),
    ("allgather", "bruck", 192.539, 444.614),
    ("allgather", "recursive_doubling", 192.539, None),
    ("allgather", "ring", 204.59, 465.749),
    ("allgather", "neighbor_exchange", 195.552, 450.653),
    ("allgather", "linear", 186.59, 435.749),
    ("alltoall", "bruck", 323.611, 798.509),
    ("alltoall", "pairwise", 204.59, None),
    ("alltoall", "shifted", 204.59, 465.749),
    ("alltoall", "linear", 186.59, 435.749),
    ("reduce_scatter", "ring", 204.59, 465.749),
    ("reduce_scatter", "recursive_halving", 192.539, 722.853),
    ("reduce_scatter", "butterfly", 221.766, 749.08),
    ("reduce_scatter", "shifted", 204.59, 465.749),
    ("reduce_scatter", "recursive_doubling", 454.683, None),
    ("gather", "binomial", 192.539, 300.41),
    ("gather", "linear", 186.59, 291.499),
    ("gather", "linear_in_turn", 204.59, 321.499),
    ("scatter", "linear", 186.59, 291.499),
    ("scatter", "linear_in_turn", 186.59, 291.499),
    ("barrier", "dissemination", 9.038, 12.077),
    ("barrier", "recursive_doubling", 9.038, 15.064),
    ("barrier", "linear", 6.179, 6.282),
    ("barrier", "double_ring", 48.205, 72.307),
    ("barrier", "binomial", 18.115, 21.141),
)


@pytest.mark.parametrize(("operation", "algorithm", "among_8", "among_12"), TOLD)
def test_times_are_simgrids(
    operation: str, algorithm: str, among_8: float | None, among_12: float | None
) -> None:
    for ranks, told in ((8, among_8), (12, among_12)):
        if told is not None:
            assert smpi.collective(operation, algorithm, ranks, 32768) * 1e6 == pytest.approx(
                told, abs=0.002
            )


def test_every_pair_of_names_is_compared_once() -> None:
    assert len(set(smpi.NAMED)) == len(smpi.NAMED)
    assert {(o, a) for o, a, *_ in TOLD} <= {(o, a) for o, a, _ in smpi.NAMED}
    assert (
        smpi.segments_of("bcast", "ompi_pipeline", 8, 32768) == 2
        and smpi.segments_of("reduce", "ompi_pipeline", 16, 32768) == 32
    )
    assert (
        smpi.segments_of("bcast", "ompi_split_bintree", 8, 32768) == 16
        and smpi.segments_of("alltoall", "bruck", 8, 32768) == 1
    )
