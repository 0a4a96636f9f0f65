"""Triangular sparse matrix as the work of a solve: columns of equal structure merged into
supernodes, and their levels.

The matrix is read from a file in Matrix Market form.  A matrix with entries on both sides of its
diagonal is refused, unless one triangle of it is asked for.  Only the structure counts: values are
ignored, and stored zeros are entries.

Errors: A040, A041, A042, A043, A157.

Findings: A345.
"""

from __future__ import annotations

import os
import warnings
from codecs import BOM_UTF8
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.foundation.errors import TurnbuckleError, clipped, did_you_mean, error_of
from turnbuckle.foundation.files import opened
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.foundation.table_file import Column, read_table
from turnbuckle.replay.tasks import Tasks, replay_tasks

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
#: Numbers of a value in the file, and bytes of one in memory.
_FIELDS: Final = {
    "real": (1, 8),
    "double": (1, 8),
    "integer": (1, 8),
    "unsigned-integer": (1, 8),
    "pattern": (0, 8),
    "complex": (2, 16),
}
_SYMMETRIES: Final = ("general", "symmetric", "hermitian", "skew-symmetric")


@dataclass(frozen=True)
class Triangle:
    """Structure of a lower triangular matrix, by columns."""

    name: str
    #: index of each column's first entry in `rows`, then the number of entries, shape (columns +
    #: 1,)
    starts: Int
    rows: Int  #: row of each entry, ascending within a column, the diagonal first
    value_bytes: int = 8  #: size of one value [B]
    #: whether the file holds an upper triangle; it is mirrored, since its solve runs from the last
    #: row to the first
    upper: bool = False
    implied: bool = (
        False  #: whether the diagonal is not stored: a unit diagonal, as factors often have
    )
    findings: tuple[Finding, ...] = ()  #: findings on entries that were left out

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def entries(self) -> int:
        """Return the number of stored entries, without an implied diagonal."""
        return len(self.rows) - self.implied * len(self)

    @property
    def side(self) -> Side:
        """Return which triangle the file holds."""
        return "upper" if self.upper else "lower"

    @property
    def diagonal(self) -> str:
        """Return whether the diagonal is stored or implied."""
        return "implied" if self.implied else "stored"


# --- reading --------------------------------------------------------------------------------------


def read_triangle(path: str | Path, side: Side | None = None) -> Triangle:
    """Read a triangular matrix.  Raises A040, A041, A042; A157.

    Parameters
    ----------
    path : Matrix Market file, coordinate form, not packed.
    side : triangle to take of a matrix that has entries on both sides of its diagonal; None refuses
        such a matrix.
    """
    path = Path(path)
    header = _header(path)
    if header.symmetry == "skew-symmetric":
        raise error_of("A042.skew", where=path.name)
    row, column = _places(path, header)
    return _triangle(row, column, header.rows, _FIELDS[header.kind][1], side, path.name)


@dataclass(frozen=True)
class _Header:
    """What a file announces: field and symmetry, its size, and the number of lines before the first
    entry.
    """

    kind: str
    symmetry: str
    rows: int
    entries: int
    lines: int


def _places(path: Path, header: _Header) -> tuple[Int, Int]:
    """Return row and column of each entry, from 0, those of the other triangle of a symmetric
    matrix included.  Raises A040.
    """
    numbers, _ = _FIELDS[header.kind]
    entry = np.dtype(
        [
            ("row", np.int64),
            ("column", np.int64),
            *((f"value{k}", np.float64) for k in range(numbers)),
        ]
    )
    try:
        with opened(path) as file, warnings.catch_warnings():
            # no entries: the file announces none, or is cut off
            warnings.simplefilter("ignore", UserWarning)
            read = np.loadtxt(
                file, entry, comments="%", skiprows=header.lines, ndmin=1, encoding="latin-1"
            )
    except (ValueError, OverflowError, OSError) as error:
        raise _unreadable(path, _one_line(str(error))) from error
    except MemoryError:
        raise _unreadable(path, "more entries than fit into memory") from None
    if len(read) != header.entries:
        raise _unreadable(
            path,
            f"{len(read):,} entries, and {header.entries:,} are announced",
            "the file is cut off, or its header is wrong",
        )
    row, column = read["row"] - 1, read["column"] - 1
    beyond = np.flatnonzero(
        (np.minimum(row, column) < 0) | (np.maximum(row, column) >= header.rows)
    )
    if len(beyond):
        raise _unreadable(
            path,
            (
                f"entry {beyond[0] + 1:,} at row {row[beyond[0]] + 1:,}, column "
                f"{column[beyond[0]] + 1:,}"
            ),
        )
    if header.symmetry == "general":
        return row, column
    off = row != column
    return np.concatenate([row, column[off]]), np.concatenate([column, row[off]])


def _header(path: Path) -> _Header:
    """Return what the file announces.  Compare its size with the size of the file before anything
    is allocated.
    """
    try:
        if path.exists() and not path.is_file():
            raise _unreadable(path, "not an ordinary file")
        with opened(path) as file:
            text = file.read(_HEADER_BYTES)
            held = os.fstat(file.fileno()).st_size
    except (OSError, ValueError) as error:
        reason = (error.strerror or "") if isinstance(error, OSError) else "not a file name"
        raise _unreadable(
            path, reason, fix="name a file that is there and that you may read"
        ) from error
    lines = text.split(b"\n")
    words = lines[0].decode("ascii", "replace").lower().split()
    if text[:2] in (b"\x1f\x8b", b"BZ") or path.suffix in (".gz", ".bz2"):
        raise _unreadable(path, "packed", fix="unpack it")
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        first = _one_line(lines[0].decode("utf-8-sig", "replace"))
        what = (
            "an empty file"
            if not text
            else "a binary file"
            if b"\0" in text
            else f"first line {first!r}"
        )
        raise _unreadable(
            path, what, "a byte order mark stands before it" if text.startswith(BOM_UTF8) else ""
        )
    form, kind, symmetry = words[2:]
    if form != "coordinate":
        raise _unreadable(
            path,
            f"form {_one_line(form)}",
            "a dense matrix has one supernode and nothing to order",
            "coordinate form",
        )
    if kind not in _FIELDS or symmetry not in _SYMMETRIES:
        raise _unreadable(
            path,
            _one_line(f"{kind} {symmetry}"),
            fix=did_you_mean(kind, list(_FIELDS)) if kind not in _FIELDS else "",
        )
    size_line = next(
        (
            i
            for i, line in enumerate(lines)
            if i and line.strip() and not line.lstrip().startswith(b"%")
        ),
        None,
    )
    size = (
        lines[size_line].split()
        if size_line is not None and size_line + 1 < len(lines) + (len(text) == held)
        else []
    )
    if len(size) != 3 or not all(word.isdigit() and len(word) < 19 for word in size):
        raise _unreadable(path, "no line with rows, columns and entries")
    rows, columns, entries = (int(word) for word in size)
    if rows != columns:
        raise error_of(
            "A041.rectangular",
            where=f"{path.name}:{(size_line or 0) + 1}",
            found=f"{rows:,} x {columns:,}",
        )
    if rows > LARGEST_ROWS:
        raise _unreadable(
            path,
            f"{rows:,} rows",
            f"more than {LARGEST_ROWS:,} are not taken",
            "give a smaller matrix",
        )
    for what, least in (
        ("entries", entries * _ENTRY_BYTES - _ENTRY_BYTES),
        ("rows", rows if rows > _SPARSE_ROWS else 0),
    ):
        if least > held:
            announced = (
                f"{entries if what == 'entries' else rows:,} {what} announced in {held:,} bytes"
            )
            raise _unreadable(path, announced, "the file is cut off, or its header is wrong")
    return _Header(kind, symmetry, rows, entries, (size_line or 0) + 1)


def _unreadable(path: Path, content: str, cause: str = "", fix: str = "") -> TurnbuckleError:
    fix = fix or "give a sparse matrix in Matrix Market form, coordinate"
    return error_of("A040", where=path.name, found=content, cause=cause, fix=fix)


def _one_line(text: str) -> str:
    return clipped(text.strip().partition("\n")[0], 80)


def triangle_of(matrix: Any, side: Side | None = None, name: str = "matrix") -> Triangle:
    """Return the triangle of a SciPy sparse matrix; see `read_triangle`.

    >>> import scipy.sparse
    >>> triangle = triangle_of(scipy.sparse.csc_array([[2.0, 0.0], [1.0, 2.0]]))
    >>> triangle.starts.tolist(), triangle.rows.tolist()
    ([0, 2, 3], [0, 1, 1])
    """
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        shape = " x ".join(f"{n:,}" for n in matrix.shape)
        raise error_of("A041.rectangular", where=name, found=shape)
    count = int(matrix.shape[0])
    coordinates = matrix.tocoo()
    places = [np.asarray(side_of, dtype=np.int64) for side_of in (coordinates.row, coordinates.col)]
    value = coordinates.data.dtype
    return _triangle(
        places[0], places[1], count, int(value.itemsize) if value.kind in "fc" else 8, side, name
    )


def _triangle(
    row: Int, column: Int, count: int, value_bytes: int, side: Side | None, name: str
) -> Triangle:
    """Return the triangle of a matrix with entries at these places."""
    if not count:
        raise error_of("A157.empty", where=name)
    row, column, upper, findings = _one_side(row, column, count, side, name)
    on = row == column
    stored = np.zeros(count, dtype=np.bool_)
    stored[row[on]] = True
    implied = not stored.any()
    if not implied and not stored.all():
        missing = np.flatnonzero(~stored)
        first = count - int(missing[-1]) if upper else int(missing[0]) + 1
        raise error_of(
            "A042.diagonal",
            where=name,
            found=f"none in row {first}",
            missing=len(missing),
            count=count,
        )
    starts, rows = _by_column(row, column, count, implied)
    return Triangle(name, starts, rows, value_bytes, upper, implied, findings)


def _one_side(
    row: Any, column: Any, count: int, side: Side | None, name: str
) -> tuple[Any, Any, bool, tuple[Finding, ...]]:
    """Return the entries of the triangle, mirrored to the lower side, whether they were mirrored,
    and findings on entries left out.
    """
    below, above = int(np.count_nonzero(row > column)), int(np.count_nonzero(row < column))
    findings: tuple[Finding, ...] = ()
    if below and above and side is None:
        raise error_of(
            "A041.triangle",
            where=name,
            found=f"{below:,} entries below its diagonal, {above:,} above",
        )
    upper = side == "upper" if side else bool(above)
    if dropped := below if upper else above:
        kept = row <= column if upper else row >= column
        row, column = row[kept], column[kept]
        findings = (finding("A345", dropped, f"{'below' if upper else 'above'} the diagonal"),)
    if upper:
        row, column = count - 1 - row, count - 1 - column
    return row, column, upper, findings


def _by_column(row: Any, column: Any, count: int, implied: bool) -> tuple[Int, Int]:
    """Return the entries by column and row, each once, with a diagonal where none is stored."""
    if implied:
        diagonal = np.arange(count, dtype=row.dtype)
        row, column = np.concatenate([row, diagonal]), np.concatenate([column, diagonal])
    # `LARGEST_ROWS` squared is far below the largest whole number
    columns, rows = np.divmod(np.unique(column * count + row), count)
    return np.searchsorted(columns, np.arange(count + 1)), rows


# --- supernodes -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Supernodes:
    """Merged columns of a matrix, and their dependencies."""

    triangle: Triangle
    first: (
        Int  #: first column of each supernode, then the number of columns, shape (supernodes + 1,)
    )
    #: starts, rows: rows of all supernodes, own columns first, and the index of each supernode's
    #: first row, shape (supernodes + 1,)
    starts: Int
    rows: Int

    def __len__(self) -> int:
        return len(self.first) - 1

    @property
    def width(self) -> Int:
        """Return the number of columns of each supernode."""
        return np.diff(self.first)

    @property
    def below(self) -> Int:
        """Return the number of rows of each supernode below its own columns."""
        return np.diff(self.starts) - self.width

    @property
    def values(self) -> Int:
        """Return the number of values in each supernode: a dense triangle and a dense rectangle,
        with the zeros of relaxed merging.
        """
        return self._triangles + self.width * self.below

    @property
    def _triangles(self) -> Int:
        return self.width * (self.width - 1 if self.triangle.implied else self.width + 1) // 2

    @property
    def padding(self) -> int:
        """Return the number of zeros that relaxed merging adds."""
        return int(self.values.sum()) - self.triangle.entries

    @property
    def diagonal_bytes(self) -> Int:
        """Return the bytes of each diagonal block: values, and one index per row [B]."""
        return self._triangles * self.triangle.value_bytes + self.width * INDEX_BYTES

    @cached_property
    def of_column(self) -> Int:
        """Return the supernode of each column."""
        return np.repeat(np.arange(len(self)), self.width)

    @cached_property
    def blocks(self) -> tuple[Int, Int, Int]:
        """Return the blocks below the diagonal: supernode of the column, supernode of the rows,
        number of rows; by column, then by row.
        """
        column = np.repeat(np.arange(len(self)), np.diff(self.starts))
        row = self.of_column[self.rows]
        off = np.flatnonzero(row > column)
        column, row = column[off], row[off]
        new = (
            np.flatnonzero(np.r_[True, (np.diff(column) != 0) | (np.diff(row) != 0)])
            if len(off)
            else off
        )
        return column[new], row[new], np.diff(np.append(new, len(off)))

    @cached_property
    def level(self) -> Int:
        """Return the length of the longest chain of supernodes that each one waits for: 0 for those
        that wait for none.
        """
        column, row, _ = self.blocks
        if len(column) + len(self) >= LARGEST_GRAPH:
            raise error_of(
                "A157.large",
                where=self.triangle.name,
                found=f"{len(self):,} supernodes, {len(column):,} blocks",
            )
        # each supernode takes one unit of time, so that its start counts the chain before it
        replayed = replay_tasks(Tasks(np.ones(len(self)), None, column, row, np.zeros(len(column))))
        return np.rint(replayed.start_seconds).astype(np.int64)

    @property
    def levels(self) -> int:
        """Return the number of levels: the length of the longest chain."""
        return int(self.level.max(initial=-1)) + 1

    @property
    def concurrency(self) -> Int:
        """Return the number of supernodes of each level, shape (levels,)."""
        return np.bincount(self.level)

    @property
    def median_concurrency(self) -> float:
        """Return the median number of supernodes of a level."""
        return float(np.median(self.concurrency))

    @property
    def levels_of_one(self) -> int:
        """Return the number of levels of one supernode."""
        return int(np.count_nonzero(self.concurrency == 1))


def supernodes(
    triangle: Triangle, widest: int = WIDEST, relaxed: float = 0.0, owner: Int | None = None
) -> Supernodes:
    """Merge consecutive columns of equal or nearly equal structure.

    Parameters
    ----------
    relaxed : 0 merges columns whose structure is equal (below their own triangle).  Above 0,
        neighbours of which the first needs the second are merged as well, as long as zeros stay
        within this share of the values held; below 1.
    owner : GPU of every column, shape (columns,); columns of different GPUs are not merged.

    >>> import scipy.sparse
    >>> arrow = scipy.sparse.csc_array([[1.0, 0, 0, 0], [0, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]])
    >>> merged = supernodes(triangle_of(arrow))
    >>> merged.first.tolist(), merged.level.tolist()
    ([0, 1, 4], [0, 1])
    """
    if widest < 1 or not 0.0 <= relaxed < 1.0:
        limits = f"{widest} columns at most, {relaxed:g} of zeros"
        raise error_of("A043.supernodes", found=limits)
    widest = min(widest, len(triangle))
    joined = _equal_to_next(triangle)
    if owner is not None:
        joined &= owner[1:] == owner[:-1]
    starts = np.flatnonzero(np.r_[True, ~joined])
    if len(starts) < len(triangle):
        # longer runs would exceed the widest supernode, so they are cut
        offset = np.arange(len(triangle))
        offset -= np.repeat(starts, np.diff(np.append(starts, len(triangle))))
        starts = np.flatnonzero(offset % widest == 0)
    exact = _with_rows_of_first(triangle, np.append(starts, len(triangle)))
    return _relaxed(exact, widest, relaxed, owner) if relaxed else exact


def _equal_to_next(triangle: Triangle) -> Bool:
    """Return whether each column but the last has the rows of the next one below its diagonal,
    shape (columns - 1,).
    """
    starts, rows = triangle.starts, triangle.rows
    length = np.diff(starts)
    same: Bool = length[:-1] == length[1:] + 1
    candidates = np.flatnonzero(same)
    size = length[candidates + 1]
    total = np.cumsum(size)
    cuts = (
        np.unique(np.append(np.searchsorted(total, np.arange(0, total[-1], _ENTRIES)), len(size)))
        if len(size)
        else size
    )
    for begin, end in pairwise(cuts.tolist()):
        some, many = candidates[begin:end], size[begin:end]
        ends = np.cumsum(many)
        # entry k of the next column stands beside entry k + 1 of this one
        place = np.arange(ends[-1]) + np.repeat(starts[some + 1] - (ends - many), many)
        differs = rows[place] != rows[place - np.repeat(many, many)]
        same[some] = ~np.logical_or.reduceat(differs, ends - many)
    return same


def _with_rows_of_first(triangle: Triangle, first: Int) -> Supernodes:
    length = np.diff(triangle.starts)[first[:-1]]
    starts = np.append(0, np.cumsum(length))
    place = np.arange(starts[-1]) + np.repeat(triangle.starts[first[:-1]] - starts[:-1], length)
    return Supernodes(triangle, first, starts, triangle.rows[place])


def _relaxed(matrix: Supernodes, widest: int, most: float, owner: Int | None) -> Supernodes:
    """Merge neighbours in rounds, every other candidate in each round, until no candidate is
    left.
    """
    entries = (
        np.add.reduceat(np.diff(matrix.triangle.starts), matrix.first[:-1])
        - matrix.triangle.implied * matrix.width
    )
    while len(matrix) > 1:
        width, length = matrix.width, np.diff(matrix.starts)
        narrow = width[:-1] + width[1:] <= widest
        if owner is not None:
            narrow &= owner[matrix.first[1:-1]] == owner[matrix.first[:-2]]
        candidates = np.flatnonzero(narrow)
        # the first row below a supernode is the first that needs it
        heir = matrix.starts[:-1][candidates] + width[candidates]
        needed = heir < matrix.starts[1:][candidates]
        candidates, heir = candidates[needed], heir[needed]
        candidates = candidates[matrix.rows[heir] < matrix.first[candidates + 2]]
        if not len(candidates):
            break
        union = length[candidates] + length[candidates + 1] - _shared(matrix, candidates)
        wide = width[candidates] + width[candidates + 1]
        held = wide * (wide - 1 if matrix.triangle.implied else wide + 1) // 2 + wide * (
            union - wide
        )
        zeros = held - entries[candidates] - entries[candidates + 1]
        candidates = candidates[zeros <= most * held]
        if not len(candidates):
            break
        # a supernode joins one merge per round, so of adjacent candidates only the first, third,
        # fifth ... are taken
        begins = np.r_[True, np.diff(candidates) != 1]
        index = np.arange(len(candidates))
        candidates = candidates[
            (index - np.maximum.accumulate(np.where(begins, index, 0))) % 2 == 0
        ]
        gone = np.zeros(len(matrix), dtype=np.bool_)
        gone[candidates + 1] = True
        entries = np.add.reduceat(entries, np.flatnonzero(~gone))
        matrix = _merged(matrix, gone)
    return matrix


def _shared(matrix: Supernodes, candidates: Int) -> Int:
    """Return how many rows each of the candidates shares with the next supernode."""
    count = len(matrix.triangle)
    length = np.diff(matrix.starts)
    owner = np.repeat(np.arange(len(matrix)), length)
    key = owner * count + matrix.rows
    asked = np.zeros(len(matrix), dtype=np.bool_)
    asked[candidates] = True
    entries = np.flatnonzero(asked[owner])
    wanted = key[entries] + count
    place = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
    return np.bincount(owner[entries][key[place] == wanted], minlength=len(matrix))[candidates]


def _merged(matrix: Supernodes, gone: Bool) -> Supernodes:
    count = len(matrix.triangle)
    into = np.cumsum(~gone) - 1
    key = np.repeat(into, np.diff(matrix.starts)) * count + matrix.rows
    # rows of a pair are two ascending runs: a stable sort merges them
    key = np.sort(key, kind="stable")
    key = key[np.r_[True, np.diff(key) != 0]]
    owner, rows = np.divmod(key, count)
    first = np.append(matrix.first[:-1][~gone], count)
    return Supernodes(
        matrix.triangle,
        first,
        np.append(0, np.cumsum(np.bincount(owner, minlength=len(first) - 1))),
        rows,
    )


# --- map of columns to GPUs -----------------------------------------------------------------------


def read_map(path: str | Path, columns: int) -> Int:
    """Return the GPU of each column, from a table ``column, gpu``: each line holds from its column
    (counted from 1) up to the next line.

    Raises A043, or what `turnbuckle.foundation.table_file.read_table` raises.
    """
    whole = {"unit": "1", "whole": True}
    fields = (
        Column("column", least=1, most=columns, **whole),  # type: ignore[arg-type]
        Column("gpu", least=0, most=MOST_GPUS - 1, **whole),  # type: ignore[arg-type]
    )
    table = read_table(path, fields, "the map")
    first, gpu = table.number("column").astype(np.int64), table.number("gpu").astype(np.int64)
    if not len(table) or first[0] != 1:
        raise error_of("A043.first", where=table.name)
    for row, (column, following) in enumerate(pairwise(first.tolist())):
        if following <= column:
            raise error_of(
                "A043.order",
                where=table.where(row + 1, "column"),
                found=f"{following} after {column}",
            )
    return np.repeat(gpu, np.diff(np.append(first, columns + 1)))
