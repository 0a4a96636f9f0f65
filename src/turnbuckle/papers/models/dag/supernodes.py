"""A triangular sparse matrix as the work of a solve: columns of equal structure merged into supernodes, and their levels.

A file in Matrix Market form is read; what is not lower triangular after at most a mirroring is refused, unless one triangle of it
is asked for.  Only the structure counts: values are not looked at, stored zeros are entries.

Errors:

    A040  no Matrix Market file of a sparse matrix
    A041  not square, or not triangular
    A042  some diagonal entries are missing
    A043  columns that cannot be merged so, a map that does not hold
    A157  a matrix without rows, or too large a graph

Findings:

    A345  entries outside the triangle that was asked for, left out
"""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from turnbuckle.foundation.errors import CannotAnswer, UsageError, clipped, did_you_mean
from turnbuckle.foundation.files import opened
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.foundation.table_file import Column, read_table
from turnbuckle.replay.tasks import Tasks, replay_tasks

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Side = Literal["lower", "upper"]

#: Columns a supernode has at most, as in SuperLU_DIST.
WIDEST: Final = 128
INDEX_BYTES: Final = 4
LARGEST_ROWS: Final = 1 << 27
MOST_GPUS: Final = 1 << 16
#: Tasks and edges that one replay takes.
LARGEST_GRAPH: Final = 1 << 31
_HEADER_BYTES: Final = 1 << 20
#: Entries compared at a time.
_ENTRIES: Final = 1 << 22
_ENTRY_BYTES: Final = 4  # the shortest entry a file can have: "1 1" and the end of its line
#: Up to so many rows a file may have more rows than bytes.
_SPARSE_ROWS: Final = 1 << 20
_FIELDS: Final = {"real": 8, "double": 8, "integer": 8, "unsigned-integer": 8, "pattern": 8, "complex": 16}
_SYMMETRIES: Final = ("general", "symmetric", "hermitian", "skew-symmetric")


@dataclass(frozen=True)
class Triangle:
    """Structure of a lower triangular matrix, by columns.

    Attributes
    ----------
    name : of the file.
    starts : where each column begins in `rows`, shape (columns + 1,).
    rows : of all entries, ascending within a column, the diagonal first.
    value_bytes : size of one value [B].
    upper : whether the file holds an upper triangle; it is mirrored, since its solve runs from the last row to the first.
    implied : whether the diagonal is not stored: a unit diagonal, as factors often have.
    findings : entries left out.
    """

    name: str
    starts: Int
    rows: Int
    value_bytes: int = 8
    upper: bool = False
    implied: bool = False
    findings: tuple[Finding, ...] = ()

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def entries(self) -> int:
        """Stored entries, the implied diagonal not among them."""
        return len(self.rows) - self.implied * len(self)


# --- reading ----------------------------------------------------------------------------------------------------------


def read_triangle(path: str | Path, side: Side | None = None) -> Triangle:
    """Read a triangular matrix.

    Parameters
    ----------
    path : Matrix Market file, coordinate form, not packed.
    side : which triangle to take of a matrix that has entries on both sides of its diagonal; None refuses such a matrix.

    Raises
    ------
    UsageError : A040, A041, A042.
    CannotAnswer : A157.
    """
    path = Path(path)
    kind, symmetry = _header(path)
    if symmetry == "skew-symmetric":
        raise UsageError("A042", "a skew-symmetric matrix has a diagonal of zeros", where=path.name, fix="give a triangular factor")
    from scipy.io import mmread

    try:
        matrix = mmread(str(path), spmatrix=False)
    except (ValueError, OverflowError, OSError, TypeError) as error:
        raise _unreadable(path, _one_line(str(error))) from None
    except MemoryError:
        raise _unreadable(path, "more entries than fit into memory") from None
    return replace(triangle_of(matrix, side, path.name), value_bytes=_FIELDS[kind])


def _header(path: Path) -> tuple[str, str]:
    """Field and symmetry; what the size line promises is held against the size of the file before anything is allocated."""
    try:
        if path.exists() and not path.is_file():
            raise _unreadable(path, "not an ordinary file")
        with opened(path) as file:
            text = file.read(_HEADER_BYTES)
            held = os.fstat(file.fileno()).st_size
    except (OSError, ValueError) as error:
        found = (error.strerror or "") if isinstance(error, OSError) else "not a file name"
        raise _unreadable(path, found, fix="name a file that is there and that you may read") from None
    lines = text.split(b"\n")
    words = lines[0].decode("ascii", "replace").lower().split()
    if text[:2] in (b"\x1f\x8b", b"BZ") or path.suffix in (".gz", ".bz2"):
        raise _unreadable(path, "packed", fix="unpack it")
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        first = _one_line(lines[0].decode("utf-8-sig", "replace"))
        what = "an empty file" if not text else "a binary file" if b"\0" in text else f"first line {first!r}"
        raise _unreadable(path, what, "a byte order mark stands before it" if text.startswith(BOM_UTF8) else "")
    form, kind, symmetry = words[2:]
    if form != "coordinate":
        raise _unreadable(path, f"form {_one_line(form)}", "a dense matrix has one supernode and nothing to order", "coordinate form")
    if kind not in _FIELDS or symmetry not in _SYMMETRIES:
        raise _unreadable(path, _one_line(f"{kind} {symmetry}"), fix=did_you_mean(kind, list(_FIELDS)) if kind not in _FIELDS else "")
    at = next((i for i, line in enumerate(lines) if i and line.strip() and not line.lstrip().startswith(b"%")), None)
    size = lines[at].split() if at is not None and at + 1 < len(lines) + (len(text) == held) else []
    if len(size) != 3 or not all(word.isdigit() and len(word) < 19 for word in size):
        raise _unreadable(path, "no line with rows, columns and entries")
    rows, columns, entries = (int(word) for word in size)
    if rows != columns:
        raise UsageError(
            "A041",
            "the matrix is not square",
            where=f"{path.name}:{(at or 0) + 1}",
            found=f"{rows:,} x {columns:,}",
            fix="give a triangular factor",
        )
    if rows > LARGEST_ROWS:
        raise _unreadable(path, f"{rows:,} rows", f"more than {LARGEST_ROWS:,} are not taken", "give a smaller matrix")
    for what, least in (("entries", entries * _ENTRY_BYTES - _ENTRY_BYTES), ("rows", rows if rows > _SPARSE_ROWS else 0)):
        if least > held:
            found = f"{entries if what == 'entries' else rows:,} {what} announced in {held:,} bytes"
            raise _unreadable(path, found, "the file is cut off, or its header is wrong")
    return kind, symmetry


def _unreadable(path: Path, found: str, cause: str = "", fix: str = "") -> UsageError:
    fix = fix or "give a sparse matrix as scipy.io.mmwrite writes it"
    return UsageError("A040", "the matrix cannot be read", where=path.name, found=found, cause=cause, fix=fix)


def _one_line(text: str) -> str:
    return clipped(text.strip().partition("\n")[0], 80)


def triangle_of(matrix: Any, side: Side | None = None, name: str = "matrix") -> Triangle:
    """The triangle of a SciPy sparse matrix; see `read_triangle`.

    >>> import scipy.sparse
    >>> found = triangle_of(scipy.sparse.csc_array([[2.0, 0.0], [1.0, 2.0]]))
    >>> found.starts.tolist(), found.rows.tolist()
    ([0, 2, 3], [0, 1, 1])
    """
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        found = " x ".join(f"{n:,}" for n in matrix.shape)
        raise UsageError("A041", "the matrix is not square", where=name, found=found, fix="give a triangular factor")
    count = int(matrix.shape[0])
    if not count:
        raise CannotAnswer("A157", "the matrix has no rows: there is nothing to solve", where=name)
    coordinates = matrix.tocoo()
    row, column = np.asarray(coordinates.row), np.asarray(coordinates.col)
    row, column, upper, findings = _one_side(row, column, count, side, name)
    on = row == column
    stored = np.zeros(count, dtype=np.bool_)
    stored[row[on]] = True
    implied = not stored.any()
    if not implied and not stored.all():
        missing = np.flatnonzero(~stored)
        first = count - int(missing[-1]) if upper else int(missing[0]) + 1
        raise UsageError(
            "A042", f"{len(missing):,} of {count:,} diagonal entries are missing", where=name, found=f"none in row {first}",
            cause="the matrix is singular, or zeros on its diagonal were not written",
            fix="store the diagonal, or none of it where all of it is 1",
        )  # fmt: skip
    starts, rows = _by_column(row, column, count, implied)
    return Triangle(name, starts, rows, int(coordinates.data.dtype.itemsize) if coordinates.data.dtype.kind in "fc" else 8, upper, implied,
                    findings)  # fmt: skip


def _one_side(row: Any, column: Any, count: int, side: Side | None, name: str) -> tuple[Any, Any, bool, tuple[Finding, ...]]:
    """Entries of the triangle, mirrored to the lower side; whether they were; what was left out."""
    below, above = int(np.count_nonzero(row > column)), int(np.count_nonzero(row < column))
    findings: tuple[Finding, ...] = ()
    if below and above and side is None:
        raise UsageError(
            "A041", "the matrix is not triangular", where=name, found=f"{below:,} entries below its diagonal, {above:,} above",
            cause="a matrix before its factorisation, or one in symmetric storage",
            fix="give a factor, or choose --triangle lower or upper: one sweep of Gauss-Seidel, or a factor without fill",
        )  # fmt: skip
    upper = side == "upper" if side else bool(above)
    if dropped := below if upper else above:
        kept = row <= column if upper else row >= column
        row, column = row[kept], column[kept]
        findings = (finding("A345", dropped, f"{'below' if upper else 'above'} the diagonal"),)
    if upper:
        row, column = count - 1 - row, count - 1 - column
    return row, column, upper, findings


def _by_column(row: Any, column: Any, count: int, implied: bool) -> tuple[Int, Int]:
    """Entries by column and row, each once; with a diagonal where none is stored."""
    from scipy.sparse import coo_array

    if implied:
        own = np.arange(count, dtype=row.dtype)
        row, column = np.concatenate([row, own]), np.concatenate([column, own])
    columns = coo_array((np.ones(len(row), dtype=np.bool_), (row, column)), shape=(count, count)).tocsc()
    columns.sum_duplicates()
    return columns.indptr.astype(np.int64), columns.indices.astype(np.int64)


# --- supernodes -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Supernodes:
    """Columns merged, and who needs whom.

    Attributes
    ----------
    triangle : the matrix.
    first : first column of each supernode, and the number of columns, shape (supernodes + 1,).
    starts, rows : rows of each supernode, its own columns first, shape (supernodes + 1,) and (rows,).
    """

    triangle: Triangle
    first: Int
    starts: Int
    rows: Int

    def __len__(self) -> int:
        return len(self.first) - 1

    @property
    def width(self) -> Int:
        """Columns of each."""
        return np.diff(self.first)

    @property
    def below(self) -> Int:
        """Rows of each below its own columns."""
        return np.diff(self.starts) - self.width

    @property
    def values(self) -> Int:
        """Values held by each: a dense triangle and a dense rectangle; zeros that relaxed merging brought in are among them."""
        return self._triangles + self.width * self.below

    @property
    def _triangles(self) -> Int:
        return self.width * (self.width - 1 if self.triangle.implied else self.width + 1) // 2

    @property
    def padding(self) -> int:
        """Zeros that relaxed merging brought in."""
        return int(self.values.sum()) - self.triangle.entries

    @property
    def diagonal_bytes(self) -> Int:
        """Bytes of each diagonal block: values, and an index a row [B]."""
        return self._triangles * self.triangle.value_bytes + self.width * INDEX_BYTES

    @cached_property
    def of_column(self) -> Int:
        """Supernode of every column."""
        return np.repeat(np.arange(len(self)), self.width)

    @cached_property
    def blocks(self) -> tuple[Int, Int, Int]:
        """Blocks below the diagonal: supernode whose column it is, supernode whose rows it is, rows in it; by column, then by row."""
        column = np.repeat(np.arange(len(self)), np.diff(self.starts))
        row = self.of_column[self.rows]
        off = np.flatnonzero(row > column)
        column, row = column[off], row[off]
        new = np.flatnonzero(np.r_[True, (np.diff(column) != 0) | (np.diff(row) != 0)]) if len(off) else off
        return column[new], row[new], np.diff(np.append(new, len(off)))

    @cached_property
    def level(self) -> Int:
        """How many supernodes at least come before each in its solve, by the longest chain of them: 0 for those that wait for none."""
        column, row, _ = self.blocks
        if len(column) + len(self) >= LARGEST_GRAPH:
            raise CannotAnswer(
                "A157", "the graph is too large", where=self.triangle.name, found=f"{len(self):,} supernodes, {len(column):,} blocks"
            )
        # a unit of time each: the longest path counts them, a chain of a million as fast as anything else
        replayed = replay_tasks(Tasks(np.ones(len(self)), None, column, row, np.zeros(len(column))))
        return np.rint(replayed.start_seconds).astype(np.int64)

    @property
    def levels(self) -> int:
        """How many levels there are: the longest chain."""
        return int(self.level.max(initial=-1)) + 1

    @property
    def concurrency(self) -> Int:
        """Supernodes of each level, shape (levels,)."""
        return np.bincount(self.level)


def supernodes(triangle: Triangle, widest: int = WIDEST, relaxed: float = 0.0, owner: Int | None = None) -> Supernodes:
    """Merge columns that follow each other.

    Parameters
    ----------
    widest : columns a supernode has at most.
    relaxed : 0 merges columns whose structure is equal (below their own triangle).  Above 0, neighbours of which the first
        needs the second are merged as well, as long as zeros stay within this share of the values held; below 1.
    owner : GPU of every column, shape (columns,); columns of different GPUs are not merged.

    >>> import scipy.sparse
    >>> arrow = scipy.sparse.csc_array([[1.0, 0, 0, 0], [0, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]])
    >>> found = supernodes(triangle_of(arrow))
    >>> found.first.tolist(), found.level.tolist()
    ([0, 1, 4], [0, 1])
    """
    if widest < 1 or not 0.0 <= relaxed < 1.0:
        found = f"{widest} columns at most, {relaxed:g} of zeros"
        raise UsageError(
            "A043", "supernodes cannot be merged so", found=found, fix="1 column or more, and a share of zeros from 0 to below 1"
        )
    widest = min(widest, len(triangle))
    joined = _equal_to_next(triangle)
    if owner is not None:
        joined &= owner[1:] == owner[:-1]
    starts = np.flatnonzero(np.r_[True, ~joined])
    if len(starts) < len(triangle):
        # runs longer than the widest supernode are cut into pieces of it
        at = np.arange(len(triangle))
        at -= np.repeat(starts, np.diff(np.append(starts, len(triangle))))
        starts = np.flatnonzero(at % widest == 0)
    exact = _with_rows_of_first(triangle, np.append(starts, len(triangle)))
    return _relaxed(exact, widest, relaxed, owner) if relaxed else exact


def _equal_to_next(triangle: Triangle) -> Bool:
    """Whether each column but the last has the rows of the next one, and itself on top, shape (columns - 1,)."""
    starts, rows = triangle.starts, triangle.rows
    length = np.diff(starts)
    same: Bool = length[:-1] == length[1:] + 1
    candidates = np.flatnonzero(same)
    size = length[candidates + 1]
    total = np.cumsum(size)
    cuts = np.unique(np.append(np.searchsorted(total, np.arange(0, total[-1], _ENTRIES)), len(size))) if len(size) else size
    for begin, end in pairwise(cuts.tolist()):
        some, many = candidates[begin:end], size[begin:end]
        ends = np.cumsum(many)
        # entry k of the next column stands beside entry k + 1 of this one
        place = np.arange(ends[-1]) + np.repeat(starts[some + 1] - (ends - many), many)
        differs = rows[place] != rows[place - np.repeat(many, many)]
        same[some] = ~np.logical_or.reduceat(differs, ends - many)
    return same


def _with_rows_of_first(triangle: Triangle, first: Int) -> Supernodes:
    """Supernodes whose rows are those of their first column."""
    length = np.diff(triangle.starts)[first[:-1]]
    starts = np.append(0, np.cumsum(length))
    place = np.arange(starts[-1]) + np.repeat(triangle.starts[first[:-1]] - starts[:-1], length)
    return Supernodes(triangle, first, starts, triangle.rows[place])


def _relaxed(found: Supernodes, widest: int, most: float, owner: Int | None) -> Supernodes:
    """Merge neighbours in rounds, every other one of those that may be, until none may."""
    entries = np.add.reduceat(np.diff(found.triangle.starts), found.first[:-1]) - found.triangle.implied * found.width
    while len(found) > 1:
        width, length = found.width, np.diff(found.starts)
        may = width[:-1] + width[1:] <= widest
        if owner is not None:
            may &= owner[found.first[1:-1]] == owner[found.first[:-2]]
        here = np.flatnonzero(may)
        # the first row below a supernode says who needs it first
        heir = found.starts[:-1][here] + width[here]
        needed = heir < found.starts[1:][here]
        here, heir = here[needed], heir[needed]
        here = here[found.rows[heir] < found.first[here + 2]]
        if not len(here):
            break
        union = length[here] + length[here + 1] - _shared(found, here)
        wide = width[here] + width[here + 1]
        held = wide * (wide - 1 if found.triangle.implied else wide + 1) // 2 + wide * (union - wide)
        zeros = held - entries[here] - entries[here + 1]
        here = here[zeros <= most * held]
        if not len(here):
            break
        # of a row of neighbours the first, third, fifth ... are merged with their next
        begins = np.r_[True, np.diff(here) != 1]
        at = np.arange(len(here))
        here = here[(at - np.maximum.accumulate(np.where(begins, at, 0))) % 2 == 0]
        gone = np.zeros(len(found), dtype=np.bool_)
        gone[here + 1] = True
        entries = np.add.reduceat(entries, np.flatnonzero(~gone))
        found = _merged(found, gone)
    return found


def _shared(found: Supernodes, here: Int) -> Int:
    """How many rows each of some supernodes has in common with the next one."""
    count = len(found.triangle)
    length = np.diff(found.starts)
    owner = np.repeat(np.arange(len(found)), length)
    key = owner * count + found.rows
    asked = np.zeros(len(found), dtype=np.bool_)
    asked[here] = True
    mine = np.flatnonzero(asked[owner])
    wanted = key[mine] + count
    place = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
    return np.bincount(owner[mine][key[place] == wanted], minlength=len(found))[here]


def _merged(found: Supernodes, gone: Bool) -> Supernodes:
    """Each supernode that is `gone` becomes a part of the one before it."""
    count = len(found.triangle)
    into = np.cumsum(~gone) - 1
    key = np.repeat(into, np.diff(found.starts)) * count + found.rows
    # rows of a pair are two ascending runs: a stable sort merges them
    key = np.sort(key, kind="stable")
    key = key[np.r_[True, np.diff(key) != 0]]
    owner, rows = np.divmod(key, count)
    first = np.append(found.first[:-1][~gone], count)
    return Supernodes(found.triangle, first, np.append(0, np.cumsum(np.bincount(owner, minlength=len(first) - 1))), rows)


# --- a map of one's own -----------------------------------------------------------------------------------------------


def read_map(path: str | Path, columns: int) -> Int:
    """GPU of every column, from a table ``column, gpu``: from that column on (counted from 1), up to the next line.

    Raises
    ------
    UsageError : A043, or what `turnbuckle.foundation.table_file.read_table` raises.
    """
    whole = {"unit": "1", "whole": True}
    fields = (Column("column", least=1, most=columns, **whole), Column("gpu", least=0, most=MOST_GPUS - 1, **whole))  # type: ignore[arg-type]
    table = read_table(path, fields, "the map")
    first, gpu = table.number("column").astype(np.int64), table.number("gpu").astype(np.int64)
    if not len(table) or first[0] != 1:
        raise UsageError("A043", "the map does not begin with column 1", where=table.name, fix="a first line for column 1")
    for row, (one, other) in enumerate(pairwise(first.tolist())):
        if other <= one:
            raise UsageError("A043", "columns of the map must ascend", where=table.where(row + 1, "column"), found=f"{other} after {one}")
    return np.repeat(gpu, np.diff(np.append(first, columns + 1)))
