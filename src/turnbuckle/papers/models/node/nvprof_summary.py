"""Reader of the summaries that nvprof prints: sums by kernel, copy and host call, without order or
times.

    ==2406== Profiling result:
                Type  Time(%)      Time     Calls       Avg       Min       Max  Name
     GPU activities:   61.43%  14.023ms         1  14.023ms  14.023ms  14.023ms  [CUDA memcpy DtoH]
          API calls:   86.41%  178.59ms         2  89.297ms  74.831us  178.52ms  cudaMalloc

The reader takes this form, that before CUDA 9 (no column Type, a heading for each table), ``--csv``
of both, ``--print-gpu-summary`` and ``--print-api-summary``, the tables of unified memory, and
``--print-gpu-trace --csv`` and ``--print-api-trace --csv``, whose rows are added up.  Other lines
are the application's output.  Sizes count in 1024s, as nvprof does.  The command line is dropped.

Each time keeps the interval of its printed digits: 14.023 ms is anything from 14.0225 to 14.0235
ms.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple

from turnbuckle.foundation.errors import TurnbuckleError, clipped, error_of
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.foundation.table_file import read_text

Section = Literal["gpu", "api", "unified"]

_SECONDS: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
}
_BYTES: Final = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_NUMBER: Final = r"\d+(?:\.\d*)?(?:[eE][-+]?\d+)?"
_TIME: Final = rf"({_NUMBER})(ns|us|ms|s|min|m|h)"
_LINE: Final = re.compile(
    rf"(?:\s*(GPU activities|API calls|OpenACC[^:]*|OpenMP[^:]*):)?\s*({_NUMBER})%\s+{_TIME}\s+(\d+)\s+{_TIME}\s+{_TIME}\s+{_TIME}\s+(\S.*)"
)
_MOVED: Final = re.compile(
    rf"\s*(\d+)\s+(?:(?:{_NUMBER}[KMGT]?B|-)\s+){{3}}(?:({_NUMBER})([KMGT]?B)|-)\s+(?:{_TIME}|-)\s+([A-Z].*)"
)
_BANNER: Final = re.compile(r"==(?:(\d+)|====)== ?(.*)")
_DEVICE: Final = re.compile(r'Device "(.{0,200}?)"')
_HEADING: Final = re.compile(r"\s*(?:(?:Type\s+)?Time\(%\)\s+Time\s+Calls\s|Count\s+Avg Size\s)")
_FAULTS: Final = re.compile(r"Total CPU Page faults:\s*(\d{1,18})")
_TRACE: Final = re.compile(r"\s*Start\s+Duration\s")
_SECTIONS: Final[dict[str, Section]] = {"GPU activities": "gpu", "API calls": "api"}
_MOST_ROWS: Final = 1 << 20
#: Shares are printed with two decimals, so that they add up to 100 only this nearly for each row
#: [percentage points].
_HALF_SHARE: Final = 0.005


@dataclass(frozen=True)
class Row:
    """One line of a table that nvprof printed."""

    section: Section  #: section of the row: device activities, host calls, or unified memory
    name: str  #: name of a kernel or host call, ``[CUDA memcpy HtoD]``, or ``Host To Device``
    calls: int
    #: seconds, half: total time, and half a unit of its last digit [s]
    seconds: float
    half: float
    share: float | None = None  #: share of its section's time, 0 to 1; None where it is not printed
    size_bytes: float | None = None  #: bytes moved; None for all but unified memory
    line: int = 0


@dataclass
class Process:
    """Tables of one process: its rows, CPU page faults (None where they are not printed), and the
    sections that were printed.
    """

    pid: int | None
    rows: list[Row] = field(default_factory=list)
    cpu_faults: int | None = None
    sections: set[Section] = field(default_factory=set)

    def total(self, *sections: Section) -> float:
        """Return the time of the given sections [s]."""
        return sum(r.seconds for r in self.rows if r.section in sections)


class Summary(NamedTuple):
    """Processes of a file of summaries, in file order, and findings."""

    processes: list[Process]
    findings: list[Finding]


def read_summary(path: Path) -> Summary:
    """Read a file of nvprof's output.

    Raises P041 where it holds no table, or only tables that cannot be read; P042 for a trace in
    columns of spaces, whose fields are ambiguous; A061 where the file cannot be read as text.
    """
    text = read_text(path, "the summary", fix="nvprof --log-file SUMMARY.txt ./application")
    reading = _Reading(path.name)
    lines = text.splitlines()
    index = 0
    while index < len(lines):
        index = reading.line(lines, index)
    return reading.summary()


class _Reading:
    def __init__(self, name: str) -> None:
        self.name = name
        self.processes: dict[int | None, Process] = {}
        self.process = Process(None)
        self.section: Section | None = None
        self.kept = 0
        self.bad: list[int] = []
        self.columns: _Csv | None = None
        self.inside = False

    def line(self, lines: Sequence[str], index: int) -> int:
        """Read one line, or a heading of CSV and the units below it, and return the index of the
        next line.
        """
        line = lines[index]
        banner = _BANNER.match(line)
        if banner:
            self.columns, self.inside = None, False
            if banner[1]:
                self._of(int(banner[1][:18]))
            line = banner[2]
        stripped = line.strip()
        if stripped.startswith(("API calls:", "Unified Memory")) and not _LINE.fullmatch(line):
            self.section = "api" if stripped.startswith("API") else "unified"
        elif stripped.startswith("Profiling result"):
            self.section = "gpu"
        elif faults := _FAULTS.match(stripped):
            self.process.cpu_faults = (self.process.cpu_faults or 0) + int(faults[1])
        elif banner:
            pass
        elif _TRACE.match(line) and '"' not in line and self.section is not None:
            raise error_of("P042", where=f"{self.name}:{index + 1}", found=clipped(stripped, 60))
        elif (
            self.section is not None
            and stripped.startswith('"')
            and (columns := _heading(line, lines[index + 1 : index + 2]))
        ):
            self.columns = columns
            return index + 2
        elif self.columns is not None and stripped:
            self._cells(line, index)
        else:
            self._printed(line, index)
        return index + 1

    def _of(self, pid: int) -> None:
        self.process = self.processes.setdefault(pid, Process(pid))

    def _keep(self, row: Row) -> None:
        self.kept += 1
        if self.kept > _MOST_ROWS:
            raise self._nothing(f"more than {_MOST_ROWS:,} lines of tables")
        if self.process.pid is None:
            self.processes.setdefault(None, self.process)
        self.process.sections.add(row.section)
        self.process.rows.append(row)

    def _printed(self, line: str, index: int) -> None:
        """Read a line of a table in columns of spaces, or pass over a line that is not nvprof's."""
        heading = self.section is not None and _HEADING.match(line) is not None
        if heading or not line.strip():
            self.inside = heading
        if self.section is None or heading or not line.strip() or _DEVICE.match(line.strip()):
            return
        match = _LINE.fullmatch(line)
        if match and (match[1] or self.section != "unified"):
            section = _SECTIONS.get(match[1] or "", self.section)
            if match[1] and match[1] not in _SECTIONS:
                self.bad.append(index)
                return
            self.section = section
            try:
                seconds, half = _quantity(match[3], _SECONDS[match[4]])
            except ValueError:
                self.bad.append(index)
                return
            self._keep(
                Row(
                    section,
                    _printable(match[12]),
                    int(match[5][:18]),
                    seconds,
                    half,
                    _share(match[2]),
                    None,
                    index + 1,
                )
            )
        elif (
            self.section == "unified"
            and (moved := _MOVED.fullmatch(line))
            and len(moved[2] or "") < 30 > len(moved[4] or "")
        ):
            size = None if moved[2] is None else _quantity(moved[2], _BYTES[moved[3]])[0]
            seconds, half = (
                (0.0, 0.0) if moved[4] is None else _quantity(moved[4], _SECONDS[moved[5]])
            )
            self._keep(
                Row(
                    "unified",
                    _printable(moved[6]),
                    int(moved[1][:18]),
                    seconds,
                    half,
                    None,
                    size,
                    index + 1,
                )
            )
        elif self.inside or re.match(r"\s*(GPU activities|API calls):", line):
            self.bad.append(index)

    def _cells(self, line: str, index: int) -> None:
        assert self.columns is not None
        row = self.columns.row(line, self.section or "gpu", index + 1)
        if row is None:
            self.bad.append(index)
        else:
            self._keep(row)

    def _nothing(self, content: str) -> TurnbuckleError:
        return error_of("P041", where=self.name, found=content)

    def summary(self) -> Summary:
        """Return what was read, with findings on unreadable lines and on shares that contradict
        their times.
        """
        findings = []
        if not self.kept:
            raise self._nothing(
                f"{len(self.bad)} lines of tables that cannot be read" if self.bad else "no table"
            )
        if self.bad:
            findings.append(finding("P153", len(self.bad), f"first: line {self.bad[0] + 1}"))
        wrong = [line for p in self.processes.values() for line in _disagreeing(p)]
        processes = [_added_up(p) for p in self.processes.values() if p.rows]
        if wrong:
            findings.append(finding("P175", len(wrong), f"first: line {min(wrong)}"))
        return Summary(processes, findings)


@dataclass(frozen=True)
class _Csv:
    """Columns of a table in CSV, and the unit of each."""

    names: dict[str, int]
    units: list[str]

    def row(self, line: str, section: Section, line_number: int) -> Row | None:
        """Return a line as a row; None where it is not one."""
        cells = _split(line)
        if cells is None or len(cells) != len(self.units):
            return None
        kind = cells[self.names["type"]] if "type" in self.names else ""
        if kind and kind not in _SECTIONS:
            return None
        section = _SECTIONS.get(kind, section)
        try:
            if section == "unified":
                size = self._value(cells, "total size", _BYTES)
                seconds = self._value(cells, "total time", _SECONDS) or (0.0, 0.0)
                name, calls = cells[self.names["name"]], int(cells[self.names["count"]])
                return Row(
                    "unified",
                    _printable(name),
                    calls,
                    *seconds,
                    None,
                    None if size is None else size[0],
                    line_number,
                )
            time = self._value(cells, "time" if "time" in self.names else "duration", _SECONDS)
            if time is None:
                return None
            share = _share(cells[self.names["time(%)"]]) if "time(%)" in self.names else None
            calls = int(cells[self.names["calls"]]) if "calls" in self.names else 1
            return Row(
                section,
                _printable(re.sub(r" \[\d+\]$", "", cells[self.names["name"]])),
                calls,
                *time,
                share,
                None,
                line_number,
            )
        except (ValueError, KeyError):
            return None

    def _value(
        self, cells: Sequence[str], name: str, units: dict[str, float] | dict[str, int]
    ) -> tuple[float, float] | None:
        column = self.names[name]
        if cells[column] in ("", "-"):
            return None
        if not re.fullmatch(_NUMBER, cells[column]):
            raise ValueError(cells[column])
        return _quantity(cells[column], units[self.units[column]])


def _heading(line: str, following: Sequence[str]) -> _Csv | None:
    """Return the columns where two lines are a heading of CSV and its units."""
    names = _split(line)
    units = _split(following[0]) if following else None
    if names is None or units is None or len(names) != len(units) or "Name" not in names:
        return None
    if not {"Time", "Duration", "Total Time"} & set(names):
        return None
    return _Csv({n.lower(): i for i, n in enumerate(names)}, units)


def _split(line: str) -> list[str] | None:
    try:
        return [cell.strip() for cell in next(csv.reader([line]), [])]
    except csv.Error:
        return None


def _quantity(digits: str, unit: float) -> tuple[float, float]:
    """Return a printed number and half a unit of its last digit [SI]."""
    number, _, power = digits.lower().partition("e")
    half = 0.5 * 10.0 ** (min(max(int(power or 0), -30), 30) - len(number.partition(".")[2]))
    value = float(number) * 10.0 ** min(max(int(power or 0), -30), 30)
    if not math.isfinite(value) or (value * unit > 1e12 and unit < 2):
        raise ValueError(digits)
    return value * unit, half * unit


def _share(digits: str) -> float:
    return float(digits) / 100


def _printable(text: str) -> str:
    """Return a name without characters that steer a terminal, cut to 4096 characters."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:4096])


def _added_up(process: Process) -> Process:
    """Merge the rows of one name and section, because traces list every activity."""
    merged: dict[tuple[Section, str], Row] = {}
    for row in process.rows:
        key = (row.section, row.name)
        before = merged.get(key)
        if before is None:
            merged[key] = row
            continue
        sizes = [s for s in (before.size_bytes, row.size_bytes) if s is not None]
        share = None if before.share is None or row.share is None else before.share + row.share
        calls, seconds, half = (
            before.calls + row.calls,
            before.seconds + row.seconds,
            before.half + row.half,
        )
        merged[key] = Row(
            *key, calls, seconds, half, share, sum(sizes) if sizes else None, before.line
        )
    return Process(process.pid, list(merged.values()), process.cpu_faults, process.sections)


def _disagreeing(process: Process) -> Iterator[int]:
    """Yield the lines whose share of their section contradicts their time for every value within
    the digits of both.
    """
    for section in ("gpu", "api"):
        rows = [r for r in process.rows if r.section == section and r.share is not None]
        low, high = (sum(r.seconds + sign * r.half for r in rows) for sign in (-1, 1))
        for row in rows:
            assert row.share is not None
            if high <= 0 or low <= 0:
                continue
            least, most = (row.seconds - row.half) / high, (row.seconds + row.half) / low
            slack = _HALF_SHARE / 100 + 1e-9
            if not least - slack <= row.share <= most + slack:
                yield row.line
