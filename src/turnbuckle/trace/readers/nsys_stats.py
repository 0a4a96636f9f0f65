"""Reader of the CSV that ``nsys stats`` writes: every kernel, copy and set (``cuda_gpu_trace``),
and every call (``cuda_api_trace``).

A user names one of the two, and the reader also reads the other where it stands beside with the
same prefix.  Without the calls the recording is of the device alone.  Sums (``cuda_gpu_kern_sum``
and others) have no time line and are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import polars as pl

from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.foundation.findings import finding
from turnbuckle.foundation.schema import words
from turnbuckle.trace.ids import MOST_THREADS, id_of
from turnbuckle.trace.readers.parts.csv_lines import csv_rows, heading
from turnbuckle.trace.readers.parts.mpi_tables import Names
from turnbuckle.trace.readers.parts.packed_text import Text, beginning
from turnbuckle.trace.trace import Trace, completed

#: Columns that only the two traces have; older versions spell the number of a call otherwise.
_GPU: Final = {"start", "duration", "grdx", "blkx", "strm", "name"}
_API: Final = {"start", "duration", "name", "result", "tid"}
#: Beginnings of columns of sums, and of columns of times of other traces.
_SUM: Final = ("time (%)", "time(%)", "total time", "total (")
_TIMED: Final = re.compile(r"(?:\w+ )?(?:start|end|dur|duration) ?\((?:n|u|m)?s(?:ec)?\)")
_PAIRS: Final = (("cuda_gpu_trace", "cuda_api_trace"), ("gputrace", "cudaapitrace"))
#: Lines of progress that `nsys stats` prints before the heading where its output was caught.
_MOST_BEFORE: Final = 64
_UNIT: Final = re.compile(r"(.+?) ?\(([\w/]+)\)")
_NS: Final = {
    "ns": 1,
    "nsec": 1,
    "us": 1e3,
    "usec": 1e3,
    "ms": 1e6,
    "msec": 1e6,
    "s": 1e9,
    "sec": 1e9,
}
_BYTES: Final = {
    "b": 1.0,
    "kb": 1e3,
    "mb": 1e6,
    "gb": 1e9,
    "kib": 2.0**10,
    "mib": 2.0**20,
    "gib": 2.0**30,
}
#: Largest believable number.
_MOST: Final = 2.0**53
#: Directions by the words of a copy's name.
_ENDS: Final = re.compile(
    r"\[CUDA memcpy (Unified )?(?:(\w)to(\w)|(\w)\w*-to-(\w)\w*)\]", re.IGNORECASE
)
_DIRECTION: Final = {"hd": "h2d", "ha": "h2d", "dh": "d2h", "ah": "d2h", "hh": "h2h", "pp": "p2p"}
_DIRECTIONS: Final = words("directions")
_MEMORIES: Final = words("memories")
_DEVICE: Final = re.compile(r"(.*) \((\d{1,6})\)", re.DOTALL)
_Row = dict[str, str]


def sniff(head: bytes, path: Path) -> bool:
    """Return whether the text's first lines hold a heading of `nsys stats`."""
    if b"\x00" in head:
        return False
    lines = beginning(head, path).split(b"\n")
    return any(_sort(heading(line)) for line in lines[:_MOST_BEFORE])


def read(
    path: Path, *, threads: int = 0, progress: Callable[[float], object] | None = None
) -> Trace:
    """Read a trace of the device, and the calls beside it.  Raises P085 for other tables, P086
    where no row can be read.
    """
    del threads
    table = _Table(path, progress)
    if table.sort not in ("gpu", "api"):
        sums = table.sort == "summary"
        raise error_of(
            "P085.summary" if sums else "P085.other",
            where=str(path),
            found=clipped(", ".join(table.columns), 120),
        )
    beside = _sibling(path)
    tables = {
        each.sort: each for each in (table, *([] if beside is None else [_Table(beside, None)]))
    }
    if "gpu" not in tables:
        raise error_of("P085.api", where=str(path), found="calls without kernels")
    rows = _Rows()
    calls = list(rows.calls(tables["api"])) if "api" in tables else []
    processes = {row["process"] for row in calls}
    # several processes have one number of a call each
    process = processes.pop() if len(processes) == 1 else None if processes else id_of(1)
    rows.on_device(tables["gpu"], process)
    frames = {
        name: _frame(name, found) for name, found in {**rows.found, "api": calls}.items() if found
    }
    if not {"kernels", "copies", "memsets"} & set(frames):
        raise error_of(
            "P086", where=str(path), found=f"{rows.broken:,} rows, none with a begin and a duration"
        )
    counts = {name: frame.height for name, frame in frames.items()}
    digest, size = tables[table.sort].text.digest, table.text.size_bytes
    facts: dict[str, Any] = {
        "format": "nsys_stats",
        "schema_version": None,
        "product_version": "Nsight Systems",
        "tables": counts,
    }
    facts |= {
        "session_start_utc_ns": None,
        "analysis_duration_ns": None,
        "size_bytes": size,
        "sha256": digest,
    }
    findings = [finding("P162", rows.broken)] if rows.broken else []
    if rows.rounded:
        findings.append(finding("P260", rows.rounded))
    return Trace(frames, rows.names.series(), facts, findings, path.name)


def _plain(column: str) -> tuple[str, str]:
    """Return a column's name in lower case, and its unit.

    >>> _plain("Start (ns)"), _plain("Bytes(MB)"), _plain("Strm")
    (('start', 'ns'), ('bytes', 'mb'), ('strm', ''))
    """
    match = _UNIT.fullmatch(column)
    return (match[1].lower(), match[2].lower()) if match else (column.lower(), "")


def _sort(columns: list[str]) -> str:
    """Return which table of `nsys stats` has these columns: ``gpu``, ``api``, ``summary``,
    ``other``; empty for no table of its.
    """
    names = {_plain(column)[0] for column in columns}
    if names >= _GPU:
        return "gpu"
    if names >= _API:
        return "api"
    lower = [column.lower() for column in columns]
    if len(columns) > 3 and any(column.startswith(_SUM) for column in lower):
        return "summary"
    return "other" if sum(_TIMED.fullmatch(column) is not None for column in lower) > 1 else ""


def _sibling(path: Path) -> Path | None:
    """Return the other trace of the same report, where it stands beside."""
    for one, other in (*_PAIRS, *(pair[::-1] for pair in _PAIRS)):
        head, found, tail = path.name.rpartition(one)
        if found and (beside := path.with_name(head + other + tail)).is_file():
            return beside
    return None


class _Table:
    """One CSV: its columns without units, the factors to nanoseconds and bytes, and its rows."""

    def __init__(self, path: Path, progress: Callable[[float], object] | None) -> None:
        self.text = Text(path, progress)
        self._lines = iter(self.text)
        first = (
            (columns, _sort(columns)) for columns in map(heading, islice(self._lines, _MOST_BEFORE))
        )
        self.columns, self.sort = next((each for each in first if each[1]), ([], ""))
        plain = [_plain(column) for column in self.columns]
        self._names = [name for name, _ in plain]
        self.units = dict(plain)

    def rows(self) -> Iterator[_Row | None]:
        """Yield the rows by the names of their columns; None for a line that is no row."""
        for cells, _ in csv_rows(self._lines):
            if cells is None or len(cells) != len(self._names):
                yield None
            else:
                yield dict(zip(self._names, cells, strict=True))


class _Rows:
    """Rows of the trace's tables.

    Attributes
    ----------
    found : rows by table.
    broken : lines that are no row, or without a believable time.
    rounded : copies whose size the text rounds by more than one part in a hundred.
    """

    def __init__(self) -> None:
        self.names = Names()
        self.found: dict[str, list[dict[str, Any]]] = {
            "kernels": [],
            "copies": [],
            "memsets": [],
            "devices": [],
        }
        self.broken = self.rounded = 0

    def calls(self, table: _Table) -> Iterator[dict[str, Any]]:
        """Yield the calls of the host."""
        for row, times in self._timed(table):
            thread = id_of(
                (_whole(row, "pid") or 1) % MOST_THREADS, (_whole(row, "tid") or 0) % MOST_THREADS
            )
            name = row["name"]
            yield times | {
                "process": id_of((_whole(row, "pid") or 1) % MOST_THREADS),
                "thread": thread,
                "correlation": _whole(row, "corrid"),
                "name": self.names(name),
                "result": _whole(row, "result"),
                "level": int(name.startswith("cu") and not name.startswith("cuda")),
            }

    def on_device(self, table: _Table, process: int | None) -> None:
        """Add kernels, copies, sets and the devices that they name."""
        devices: dict[int, str] = {}
        for row, times in self._timed(table):
            match = _DEVICE.fullmatch(row.get("device", ""))
            device = int(match[2]) if match else 0
            devices.setdefault(device, match[1] if match else "")
            whole = {"context": "ctx", "stream": "strm", "correlation": "corrid"}
            place = {ours: _whole(row, theirs) for ours, theirs in whole.items()}
            at = times | {"process": process, "device": device} | place
            name = row["name"]
            if name.startswith("[CUDA memcpy"):
                ends = {
                    "source_memory": _memory(row.get("srcmemkd")),
                    "target_memory": _memory(row.get("dstmemkd")),
                }
                size = self._size(row, table, times["end_ns"] - times["start_ns"])
                self.found["copies"].append(
                    at | ends | {"size_bytes": size, "direction": _direction(name)}
                )
            elif name.startswith("[CUDA mem"):
                size = self._size(row, table, times["end_ns"] - times["start_ns"])
                self.found["memsets"].append(
                    at
                    | {
                        "size_bytes": size,
                        "memory": _memory(row.get("srcmemkd") or row.get("dstmemkd")),
                    }
                )
            else:
                self.found["kernels"].append(at | {"name": self.names(name)} | _shape(row, table))
        self.found["devices"] = [
            {"device": number, "name": name or None} for number, name in sorted(devices.items())
        ]

    def _timed(self, table: _Table) -> Iterator[tuple[_Row, dict[str, int]]]:
        """Yield the rows with begin and end [ns], and count the others."""
        start_unit, lasts_unit = (
            _NS.get(table.units[column], 1) for column in ("start", "duration")
        )
        for row in table.rows():
            start, lasts = (
                (None, None) if row is None else (_decimal(row, "start"), _decimal(row, "duration"))
            )
            if (
                row is None
                or start is None
                or lasts is None
                or max(start * start_unit, lasts * lasts_unit) > _MOST
            ):
                self.broken += 1
                continue
            begin = round(start * start_unit)
            yield row, {"start_ns": begin, "end_ns": begin + round(lasts * lasts_unit)}

    def _size(self, row: _Row, table: _Table, lasts_ns: int) -> int | None:
        """Return the bytes of a copy or set, from its size or from rate and time, whichever the
        text rounds less; None for none.
        """
        sizes = []
        stated = _rounded(row, "bytes", _BYTES.get(table.units.get("bytes", ""), 1.0))
        if stated is not None:
            sizes.append(stated)
        column = "throughput" if "throughput" in table.units else "thru"
        unit = table.units.get(column, "").removesuffix("ps").removesuffix("/s")
        rate = _rounded(row, column, _BYTES.get(unit, 1.0))
        if rate is not None and rate[0] > 0 and lasts_ns > 0:
            sizes.append((rate[0] * lasts_ns * 1e-9, (rate[1] * lasts_ns + rate[0] * 0.5) * 1e-9))
        if not sizes:
            return None
        size, error = min(sizes, key=lambda each: each[1])
        self.rounded += error > 0.01 * size
        return round(size) if size < _MOST else None


def _frame(table: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    frame = completed(table, pl.DataFrame(rows, infer_schema_length=None), strict=False)
    return frame if table == "devices" else frame.sort("start_ns", maintain_order=True)


def _decimal(row: _Row, column: str) -> float | None:
    """Return a number that is not negative; None for an empty cell and for any other text."""
    text = row.get(column, "").strip().replace(",", "")
    if not re.fullmatch(r"\d{1,30}(?:\.\d{0,30})?(?:e[+-]?\d{1,2})?", text):
        return None
    return float(text)


def _whole(row: _Row, column: str) -> int | None:
    value = _decimal(row, column)
    return int(value) if value is not None and value < _MOST else None


def _rounded(row: _Row, column: str, factor: float) -> tuple[float, float] | None:
    """Return a number times `factor`, and half a unit of its last digit."""
    value = _decimal(row, column)
    if value is None:
        return None
    digits = len(row[column].strip().partition(".")[2])
    whole = not digits and factor == 1.0
    return value * factor, 0.0 if whole else 0.5 * 10.0**-digits * factor


def _memory(word: str | None) -> int:
    plain = (word or "").strip().lower().replace(" ", "_")
    return _MEMORIES.index(plain) if plain in _MEMORIES else 0


def _direction(name: str) -> int:
    """Return the direction of a copy by its name.

    >>> [_DIRECTIONS[_direction(f"[CUDA memcpy {way}]")] for way in ("HtoD", "Device-to-Host", "Unified Host-to-Device", "DtoD", "PtoP")]
    ['h2d', 'd2h', 'migration_h2d', 'd2d', 'p2p']
    """
    match = _ENDS.fullmatch(name.strip())
    if match is None:
        return 0
    ends = (match[2] or match[4]).lower() + (match[3] or match[5]).lower()
    word = _DIRECTION.get(ends, "d2d" if set(ends) <= set("da") else "unknown")
    return _DIRECTIONS.index(
        f"migration_{word}" if match[1] and f"migration_{word}" in _DIRECTIONS else word
    )


def _shape(row: _Row, table: _Table) -> dict[str, int | None]:
    """Return blocks, threads a block, registers a thread and shared memory a block [B]."""
    blocks, threads = (
        _product(_whole(row, f"{side}{axis}") for axis in "xyz") for side in ("grd", "blk")
    )
    shared = [
        _rounded(row, column, _BYTES.get(table.units.get(column, ""), 1.0))
        for column in ("stcsmem", "dymsmem")
    ]
    known = [size[0] for size in shared if size is not None]
    return {
        "blocks": blocks,
        "threads": threads,
        "registers": _whole(row, "reg/trd"),
        "shared_bytes": round(sum(known)) % (1 << 31) if known else None,
    }


def _product(sides: Iterable[int | None]) -> int | None:
    """Return how many a grid holds; None where a side is missing."""
    product = 1
    for side in sides:
        if not side or product * side >= 1 << 62:
            return None
        product *= side
    return product
