"""Triangular matrices as read, their supernodes and levels, against plain Python on small ones."""

from __future__ import annotations

import sys
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from scipy.sparse.linalg import splu

from turnbuckle.foundation.errors import CannotAnswer, UsageError
from turnbuckle.papers.models.dag.supernodes import (
    Triangle,
    read_map,
    read_triangle,
    supernodes,
    triangle_of,
)

drawn = settings(max_examples=90)
Structure = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


@st.composite
def lower(draw: st.DrawFn) -> Structure:
    """Structures of lower triangular matrices with their diagonal; columns often equal their
    neighbours.
    """
    count = draw(st.integers(1, 14))
    matrix = np.eye(count, dtype=bool)
    for j in range(count - 2, -1, -1):
        if draw(st.booleans()):
            matrix[j + 1 :, j] = matrix[j + 1 :, j + 1]
        else:
            matrix[j + 1 :, j] = draw(
                st.lists(st.booleans(), min_size=count - 1 - j, max_size=count - 1 - j)
            )
    return matrix


def levels_of(matrix: Structure, first: list[int]) -> list[int]:
    """Longest chain before each supernode."""
    of = np.repeat(np.arange(len(first) - 1), np.diff(first))
    needs: dict[int, set[int]] = {int(k): set() for k in of}
    for i, j in zip(*np.nonzero(matrix), strict=True):
        if of[i] != of[j]:
            needs[int(of[i])].add(int(of[j]))
    level: dict[int, int] = {}
    for node in TopologicalSorter(needs).static_order():
        level[node] = max((level[n] + 1 for n in needs[node]), default=0)
    return [level[k] for k in range(len(first) - 1)]


def merged(matrix: Structure, widest: int) -> list[int]:
    """First columns of supernodes, column by column."""
    first = [0]
    for j in range(1, len(matrix)):
        equal = (matrix[j:, j - 1] == matrix[j:, j]).all()
        run = j
        while run > 0 and (matrix[run:, run - 1] == matrix[run:, run]).all():
            run -= 1
        if not equal or (j - run) % widest == 0:
            first.append(j)
    return [*first, len(matrix)]


def of(matrix: Structure) -> Triangle:
    return triangle_of(sp.csc_array(matrix.astype(float)))


@drawn
@given(lower(), st.integers(1, 6))
def test_supernodes_and_levels(matrix: Structure, widest: int) -> None:
    found = supernodes(of(matrix), widest)
    assert found.first.tolist() == merged(matrix, widest)
    assert found.level.tolist() == levels_of(matrix, found.first.tolist())
    assert found.values.sum() == matrix.sum() == found.triangle.entries
    assert found.padding == 0
    column, row, height = found.blocks
    dense = {(k, i): 0 for k, i in zip(column.tolist(), row.tolist(), strict=True)}
    for i, j in zip(*np.nonzero(matrix[:, found.first[:-1]]), strict=True):
        if found.of_column[i] > j:
            dense[int(j), int(found.of_column[i])] += 1
    assert list(dense.values()) == height.tolist()


@drawn
@given(lower(), st.integers(2, 9), st.floats(0.01, 0.9))
def test_relaxed_supernodes_hold_the_exact_ones(
    matrix: Structure, widest: int, most: float
) -> None:
    exact, found = supernodes(of(matrix), widest), supernodes(of(matrix), widest, most)
    assert set(found.first.tolist()) <= set(exact.first.tolist())
    assert found.width.max() <= widest
    assert found.padding == found.values.sum() - matrix.sum() >= 0
    for k in range(len(found)):
        columns = slice(int(found.first[k]), int(found.first[k + 1]))
        rows = found.rows[found.starts[k] : found.starts[k + 1]]
        wanted = np.flatnonzero(matrix[:, columns].any(axis=1))
        assert rows.tolist() == wanted.tolist()
        values, stored = int(found.values[k]), int(matrix[:, columns].sum())
        assert found.width[k] == 1 or values - stored <= most * values + 1e-9
    assert found.level.tolist() == levels_of(matrix, found.first.tolist())


@drawn
@given(lower(), st.lists(st.integers(0, 2), min_size=14, max_size=14), st.sampled_from([0.0, 0.5]))
def test_columns_of_different_gpus_stay_apart(
    matrix: Structure, owner: list[int], most: float
) -> None:
    mine = np.array(owner[: len(matrix)])
    found = supernodes(of(matrix), 8, most, mine)
    for k in range(len(found)):
        assert len(set(mine[found.first[k] : found.first[k + 1]].tolist())) == 1


@drawn
@given(lower())
def test_an_upper_triangle_is_mirrored(matrix: Structure) -> None:
    one, other = of(matrix), triangle_of(sp.csc_array(matrix[::-1, ::-1].astype(float)))
    assert one.starts.tolist() == other.starts.tolist()
    assert one.rows.tolist() == other.rows.tolist()
    assert other.upper == bool(matrix.sum() > len(matrix))


@drawn
@given(lower())
def test_a_unit_diagonal_need_not_be_stored(matrix: Structure) -> None:
    off = matrix & ~np.eye(len(matrix), dtype=bool)
    stored, bare = supernodes(of(matrix)), supernodes(of(off))
    assert bare.triangle.implied
    assert bare.triangle.entries == off.sum() == bare.values.sum()
    assert bare.first.tolist() == stored.first.tolist()
    assert bare.level.tolist() == stored.level.tolist()


def test_long_chains_and_wide_ones() -> None:
    count = 200_000
    chain = sp.diags_array([np.ones(count), np.ones(count - 1)], offsets=[0, -1])
    found = supernodes(triangle_of(chain))
    assert found.levels == len(found) == count - 1
    alone = supernodes(triangle_of(sp.eye_array(count)))
    assert (alone.levels, alone.concurrency.tolist()) == (1, [count])


def laplace(side: int) -> sp.csc_array:
    line = sp.diags_array(
        [-np.ones(side - 1), 2 * np.ones(side), -np.ones(side - 1)], offsets=[-1, 0, 1]
    )
    one = sp.eye_array(side)
    return sp.csc_array(sp.kron(line, one) + sp.kron(one, line))


def test_a_real_factor() -> None:
    factor = splu(
        laplace(20),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0,
        options={"SymmetricMode": True},
    ).L
    found = supernodes(triangle_of(factor))
    assert found.values.sum() == factor.nnz
    # the last supernode of a factor is dense
    assert found.below[-1] == 0
    assert found.width[-1] > 5
    assert found.levels < len(found) < 400


# --- files ----------------------------------------------------------------------------------------

HEAD = "%%MatrixMarket matrix coordinate real general\n"


def written(tmp_path: Path, text: str | bytes, name: str = "m.mtx") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_a_file_is_the_matrix(tmp_path: Path) -> None:
    matrix = sp.tril(laplace(6))
    scipy.io.mmwrite(tmp_path / "m.mtx", matrix, symmetry="general")
    one, other = read_triangle(tmp_path / "m.mtx"), triangle_of(matrix)
    assert one.rows.tolist() == other.rows.tolist()
    assert (one.name, one.value_bytes, one.implied, one.upper) == ("m.mtx", 8, False, False)


@pytest.mark.parametrize(
    ("text", "value_bytes", "entries"),
    [
        ("%%MatrixMarket matrix coordinate pattern general\n3 3 2\n2 1\n3 2\n", 8, 2),
        (
            (
                "%%MatrixMarket matrix coordinate complex general\n% a remark\n\n2 2 3\n1 1 1 2\n"
                "2 1 nan 3\n2 2 0 0\n"
            ),
            16,
            3,
        ),
        ("%%MatrixMarket MATRIX Coordinate Integer General\n1 1 1\n1 1 7\n", 8, 1),
        # an entry twice is one entry
        (HEAD + "2 2 4\n1 1 1\n2 1 1\n2 1 1\n2 2 1\n", 8, 3),
        (HEAD + "3 3 0\n", 8, 0),
        (HEAD.replace("real", "unsigned-integer") + "1 1 1\n1 1 7\n", 8, 1),
    ],
)
def test_what_else_a_file_may_hold(
    tmp_path: Path, text: str, value_bytes: int, entries: int
) -> None:
    found = read_triangle(written(tmp_path, text))
    assert (found.value_bytes, found.entries) == (value_bytes, entries)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "A040"),
        ("hello\n", "A040"),
        (bytes(range(256)) * 9, "A040"),
        ("%%MatrixMarket matrix array real general\n1 1\n1\n", "A040"),
        ("%%MatrixMarket matrix coordinate quaternion general\n1 1 1\n1 1 1\n", "A040"),
        (HEAD, "A040"),
        (HEAD + "3 3\n", "A040"),
        (HEAD + "-3 3 1\n1 1 1\n", "A040"),
        (HEAD + "3 3 900000000000\n1 1 1\n", "A040"),
        (HEAD + "4000000000 4000000000 1\n1 1 1\n", "A040"),
        (HEAD + "100000000 100000000 1\n2 1 1\n", "A040"),
        (HEAD + "3 3 2\n1 1 1\n", "A040"),
        (HEAD + "2 2 1\n3 1 1\n", "A040"),
        (HEAD + "2 2 1\n0 1 1\n", "A040"),
        (HEAD + "2 2 1\n1 1 abc\n", "A040"),
        (HEAD + "2 3 1\n1 1 1\n", "A041"),
        (HEAD + "2 2 4\n1 1 1\n2 1 1\n1 2 1\n2 2 1\n", "A041"),
        ("%%MatrixMarket matrix coordinate real symmetric\n2 2 3\n1 1 1\n2 1 1\n2 2 1\n", "A041"),
        (HEAD + "2 2 2\n1 1 1\n2 1 1\n", "A042"),
        ("%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n2 1 1\n", "A042"),
        (HEAD + "0 0 0\n", "A157"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, text: str | bytes, code: str) -> None:
    with pytest.raises((UsageError, CannotAnswer)) as error:
        read_triangle(written(tmp_path, text))
    assert error.value.code == code
    assert "\x1b" not in "".join(error.value.lines())


def test_the_row_without_a_diagonal_is_named(tmp_path: Path) -> None:
    for text in ("3 3 3\n1 1 1\n2 1 1\n3 3 1\n", "3 3 3\n1 1 1\n1 2 1\n3 3 1\n"):
        with pytest.raises(UsageError) as error:
            read_triangle(written(tmp_path, HEAD + text))
        assert error.value.found == "none in row 2"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "an empty file"),
        (bytes(range(256)), "a binary file"),
        ("\ufeff" + HEAD, "a byte order mark"),
        ("Bonjour é\n", "Bonjour é"),
    ],
)
def test_what_is_no_matrix_is_named(tmp_path: Path, text: str | bytes, says: str) -> None:
    with pytest.raises(UsageError) as error:
        read_triangle(written(tmp_path, text))
    assert says in error.value.found + error.value.cause


def test_packed_missing_and_odd_files(tmp_path: Path) -> None:
    packed = written(tmp_path, b"\x1f\x8b\x08", "m.mtx.gz")
    for path in (packed, tmp_path, tmp_path / "none.mtx", Path("\0")):
        refused("A040", read_triangle, path)


def test_one_triangle_of_a_matrix() -> None:
    matrix = laplace(5)
    below, above = triangle_of(matrix, "lower"), triangle_of(matrix, "upper")
    assert below.entries == above.entries == sp.tril(matrix).nnz
    assert above.upper
    assert [(f.code, f.count) for f in below.findings] == [("A345", sp.triu(matrix, 1).nnz)]
    assert not triangle_of(sp.tril(matrix), "lower").findings


def test_too_large_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnbuckle.papers.models.dag.supernodes.LARGEST_GRAPH", 3)
    found = supernodes(triangle_of(sp.eye_array(3)))
    with pytest.raises(CannotAnswer, match="A157"):
        _ = found.level


@pytest.mark.parametrize(("widest", "relaxed"), [(0, 0.0), (1, 1.0), (1, -0.1), (1, float("nan"))])
def test_supernodes_that_cannot_be(widest: int, relaxed: float) -> None:
    refused("A043", supernodes, triangle_of(sp.eye_array(3)), widest, relaxed)


def test_a_map_of_columns(tmp_path: Path) -> None:
    path = written(tmp_path, "column, gpu\n1, 2\n3, 0\n4, 2\n", "map.csv")
    assert read_map(path, 6).tolist() == [2, 2, 0, 2, 2, 2]


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ("", "A043"),
        ("2, 0\n", "A043"),
        ("1, 0\n1, 1\n", "A043"),
        ("1, 0\n3, 1\n2, 1\n", "A043"),
        ("1, -1\n", "A063"),
        ("1, 0\n7, 1\n", "A063"),
        ("1, 0.5\n", "A063"),
        ("1, 65536\n", "A063"),
    ],
)
def test_maps_that_are_none(tmp_path: Path, lines: str, code: str) -> None:
    refused(code, read_map, written(tmp_path, f"column, gpu\n{lines}", "map.csv"), 6)


@pytest.mark.parametrize("field", ["real", "integer", "complex", "pattern"])
@pytest.mark.parametrize("symmetry", ["general", "symmetric", "hermitian"])
def test_a_file_is_read_as_scipy_reads_it_and_without_scipy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str, symmetry: str
) -> None:
    from scipy.io import mmread, mmwrite

    places = sp.random_array((40, 40), density=0.1, rng=np.random.default_rng(3)) + sp.eye_array(40)
    matrix = sp.tril(places).tocoo()
    matrix.data = (np.ones(matrix.nnz) * (3 if field == "integer" else 2.5)).astype(
        {"integer": int, "complex": complex}.get(field, float)
    )
    mmwrite(tmp_path / "x.mtx", matrix, field=field, symmetry="general")
    text = (tmp_path / "x.mtx").read_text().replace("general", symmetry, 1)
    (tmp_path / "x.mtx").write_text(
        text.replace(" ", "   ").replace(
            "%%MatrixMarket   matrix   coordinate   ", "%%MatrixMarket matrix coordinate "
        )
    )
    side = None if symmetry == "general" else "lower"
    expected = triangle_of(mmread(tmp_path / "x.mtx", spmatrix=False), side)
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    triangle = read_triangle(tmp_path / "x.mtx", side)
    assert (
        triangle.starts.tolist() == expected.starts.tolist()
        and triangle.rows.tolist() == expected.rows.tolist()
    )
    assert triangle.value_bytes == (16 if field == "complex" else 8)
