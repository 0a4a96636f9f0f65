"""Counters of kernels, as profilers write them: how near each kernel came to its GPU's memory
bandwidth and arithmetic rate.

    Nsight Compute   ``ncu --csv``, page ``raw`` (a column for each metric, units in a row of their own) or ``details`` (a line for each)
    rocprof          ``results.csv`` of versions 1 and 2: a column for each counter, a line for each dispatch
    rocprofv3        ``counter_collection.csv``: a line for each counter of each dispatch

The heading says which.  It may stand behind what the program printed, and again where the files of
several passes were joined. Which metrics count, and where their meaning is documented, is a table
(``schema/counters.csv``).
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.foundation.schema import table_rows
from turnbuckle.machine.parameter_names import ParameterName, parameter_name
from turnbuckle.trace.spelling import spelled

_KERNEL: Final = ("Kernel Name", "KernelName", "Kernel_Name")
_LONG: Final = {
    "Metric Name": ("Metric Value", "Metric Unit"),
    "Counter_Name": ("Counter_Value", ""),
}
#: What numbers one launch: all its lines have the same of these.
_LAUNCH: Final = ("Process ID", "ID", "Process_Id", "Dispatch_Id")
#: Beginning and end of a launch [ns].
_TIMES: Final = (("BeginNs", "EndNs"), ("Start_Timestamp", "End_Timestamp"))
_QUOTES: Final = str.maketrans(dict.fromkeys("“”„«»", '"'))
_SPACES: Final = str.maketrans("", "", " \u00a0\u202f\u2009'’")
_MISSING: Final = frozenset({"", "n/a", "na", "nan", "-nan", "(!)n/a", "inf", "-"})
_PREFIX: Final = {
    "": 1.0,
    "n": 1e-9,
    "u": 1e-6,
    "m": 1e-3,
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
}
_UNIT: Final = re.compile(
    r"([numkKMGT]?)(byte|B|sector|second|sec|s|inst|op|)(/(?:second|s|block))?"
)
#: What the unit of a quantity is, and whether it is a rate.
_MEANT: Final = {
    "bytes": ("byte", "B"),
    "rate": ("byte", "B"),
    "seconds": ("second", "sec", "s"),
    "operations": ("inst", "op", ""),
    "host": ("sector",),
}


@dataclass(frozen=True)
class _Metric:
    quantity: str
    factor: float
    peak: ParameterName | None


@cache
def _metrics() -> Mapping[str, _Metric]:
    return {
        row["metric"]: _Metric(
            row["quantity"],
            float(row["factor"]),
            parameter_name(row["peak"]) if row["peak"] else None,
        )
        for row in table_rows("foundation/schema/counters.csv")
    }


@dataclass(frozen=True)
class Counted:
    """What counters say of the kernels of one name, as the mean of their launches; nan where they
    do not say it.

    Attributes
    ----------
    memory, arithmetic : share of the peak bandwidth of device memory, and of what the
        multiprocessors can compute, that was reached.
    size_bytes : read from and written to device memory by a launch [B].
    rate : the same [B/s].
    operations : of a launch, by the peak that they count against.
    seconds : of a launch while it was counted [s].
    host_bytes : read from the host's memory by a launch [B].
    whole : whether bytes and operations are those of all launches of a run, and seconds too.
    """

    memory: float = math.nan
    arithmetic: float = math.nan
    size_bytes: float = math.nan
    rate: float = math.nan
    operations: Mapping[ParameterName, float] = field(default_factory=dict)
    seconds: float = math.nan
    host_bytes: float = math.nan
    whole: bool = False

    @property
    def sides(self) -> tuple[bool, bool]:
        """Return whether there is a figure of memory, and one of arithmetic."""
        memory = (self.memory, self.size_bytes, self.rate)
        return not all(map(math.isnan, memory)), not math.isnan(self.arithmetic) or bool(
            self.operations
        )


@dataclass(frozen=True)
class Counters:
    """The kernels of a file of counters by name, and what of the file was left out."""

    kernels: Mapping[str, Counted]
    findings: tuple[Finding, ...] = ()


def is_counters(text: str) -> bool:
    """Return whether a text has the heading of a profiler's counters."""
    return _heading(text) is not None


def _heading(text: str) -> tuple[int, str] | None:
    """Return where the first heading begins, and what separates its cells; None where there is
    none.
    """
    offset = 0
    for line in text.splitlines(keepends=True):
        if any(word in line for word in _KERNEL):
            for separator in ",;\t":
                cells = [cell.strip(' "\r\n') for cell in line.translate(_QUOTES).split(separator)]
                if len(cells) > 2 and any(cell in _KERNEL for cell in cells):
                    return offset, separator
        offset += len(line)
    return None


def read_counters(files: Mapping[str, str]) -> Counters:
    """Read the counters in texts that have their heading.

    Parameters
    ----------
    files : text by the name of its file.

    Raises
    ------
    UsageError : A433 for a file without a launch or without a metric that counts, and for a number
        or a unit that cannot be.
    """
    reading = _Reading()
    for name, text in files.items():
        reading.read(name, text)
    return reading.kernels()


@dataclass
class _Launch:
    kernel: str
    seconds: float = math.nan
    values: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Cell:
    launch: _Launch
    metric: str
    text: str
    unit: str
    where: str


class _Reading:
    """Files being read."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.used: dict[str, None] = {}
        self.launches: dict[tuple[str, ...], _Launch] = {}
        self.cells: list[_Cell] = []
        self.unused: set[str] = set()
        self.cut = self.absent = self.above = 0

    def read(self, name: str, text: str) -> None:
        """Read one file."""
        self.names.append(name)
        self.cells = []
        begin = _heading(text)
        assert begin is not None  # the caller has looked
        offset, separator = begin
        line = text.count("\n", 0, offset)
        rows = csv.reader(
            io.StringIO(text[offset:].translate(_QUOTES), newline=""), delimiter=separator
        )
        columns: dict[str, int] = {}
        units: list[str] = []
        heading = ""
        try:
            for row in rows:
                cells = [cell.strip() for cell in row]
                if not any(cells) or cells[0].startswith("=="):
                    continue
                if column := next((cell for cell in cells if cell in _KERNEL), ""):
                    columns, units, heading = (
                        {cell: k for k, cell in reversed(list(enumerate(cells)))},
                        [],
                        column,
                    )
                elif (
                    len(cells) > columns[heading]
                    and not cells[columns[heading]]
                    and not units
                    and not cells[0]
                ):
                    units = cells
                else:
                    self._line(columns, heading, cells, units, f"{name}:{line + rows.line_num}")
        except csv.Error:
            raise error_of("A433.line", where=f"{name}:{line + rows.line_num}") from None
        mark = self._decimal_mark()
        for c in self.cells:
            self._take(c, mark)

    def _line(
        self,
        columns: Mapping[str, int],
        heading: str,
        cells: list[str],
        units: list[str],
        where: str,
    ) -> None:
        def cell(column: str) -> str:
            index = columns.get(column, len(cells))
            return cells[index] if index < len(cells) else ""

        long = next((word for word in _LONG if word in columns), "")
        kernel = cell(heading)
        if not kernel or (not long and len(cells) <= max(columns.values())):
            self.cut += 1
            return
        numbered = tuple(cell(word) for word in _LAUNCH) if long else (where,)
        launch = self.launches.setdefault((*numbered, kernel), _Launch(kernel))
        if not launch.seconds > 0:
            self._times(launch, cell, where)
        if not long:
            for column, index in columns.items():
                if column in _metrics():
                    self.cells.append(
                        _Cell(
                            launch,
                            column,
                            cells[index],
                            units[index] if index < len(units) else "",
                            where,
                        )
                    )
                elif column != heading:
                    self.unused.add(column)
            return
        value, unit = _LONG[long]
        metric = cell(long)
        if metric in _metrics():
            self.cells.append(_Cell(launch, metric, cell(value), cell(unit), where))
        elif metric:
            self.unused.add(metric)

    def _times(self, launch: _Launch, cell: Callable[[str], str], where: str) -> None:
        if duration := cell("DurationNs"):
            launch.seconds = 1e-9 * self._number(duration, ".", where)
        for first, last in _TIMES:
            if cell(first) and cell(last):
                launch.seconds = 1e-9 * (
                    self._number(cell(last), ".", where) - self._number(cell(first), ".", where)
                )
                self.absent += launch.seconds <= 0

    def _number(self, text: str, mark: str, where: str) -> float:
        plain = text.translate(_SPACES).strip('"')
        plain = plain.replace("," if mark == "." else ".", "").replace(mark, ".")
        try:
            value = float(plain)
        except ValueError:
            raise error_of("A433.value", where=where, found=clipped(text, 40)) from None
        if not 0 <= value < math.inf:
            raise error_of("A433.value", where=where, found=clipped(text, 40))
        return value

    def _decimal_mark(self) -> str:
        """Return what stands before decimals; a point where no number tells."""
        by = {mark: next((c for c in self.cells if _mark(c.text) == mark), None) for mark in ".,"}
        comma = by[","]
        if by["."] is not None and comma is not None:
            raise error_of("A433.decimal", where=comma.where, found=clipped(comma.text, 40))
        return "," if comma is not None else "."

    def kernels(self) -> Counters:
        """Return what was read, kernels by name."""
        if not self.launches:
            raise error_of("A433.empty", where=", ".join(self.names))
        texts = {
            text: spelled(text)
            for text in dict.fromkeys(launch.kernel for launch in self.launches.values())
        }
        by_name: dict[str, list[_Launch]] = {}
        for launch in self.launches.values():
            by_name.setdefault(texts[launch.kernel], []).append(launch)
        counted = {launches[0].kernel: _mean(launches) for launches in by_name.values()}
        useful = {
            name: kernel
            for name, kernel in counted.items()
            if any(kernel.sides) or not math.isnan(kernel.host_bytes)
        }
        if not useful:
            raise error_of("A433.nothing", where=", ".join(self.names))
        return Counters(useful, tuple(self._findings(list(counted.values()))))

    def _take(self, c: _Cell, mark: str) -> None:
        metric = _metrics()[c.metric]
        if c.text.translate(_SPACES).lower() in _MISSING:
            self.absent += 1
            return
        factor = _factor(metric.quantity, c.unit)
        if factor is None and metric.quantity == "rate":
            # a details page calls the busier of all memories and caches [%] by the same name
            self.unused.add(c.metric)
            return
        if factor is None:
            raise error_of("A433.unit", where=c.where, found=clipped(c.unit, 40), metric=c.metric)
        value = self._number(c.text, mark, c.where) * factor
        self.used[c.metric] = None
        if metric.quantity == "seconds":
            c.launch.seconds = value
            return
        if metric.quantity.endswith("share") and value > 1.0:
            self.above, value = self.above + 1, 1.0
        c.launch.values.setdefault(c.metric, value)

    def _findings(self, counted: list[Counted]) -> Iterator[Finding]:
        names, sides = ", ".join(self.names), [kernel.sides for kernel in counted]
        without = {
            "memory": sum(not m and a for m, a in sides),
            "arithmetic": sum(m and not a for m, a in sides),
            "both": sum(not m and not a for m, a in sides),
        }
        if lacking := [f"{count:,} without {side}" for side, count in without.items() if count]:
            yield finding("A374", sum(without.values()), f"{names}: {', '.join(lacking)}")
        left = (
            ("lines cut off", self.cut),
            ("values not there", self.absent),
            ("shares above 100 %, taken as 100 %", self.above),
        )
        if words := [f"{count:,} {what}" for what, count in left if count]:
            yield finding(
                "A375", self.cut + self.absent + self.above, f"{names}: {', '.join(words)}"
            )
        if self.unused:
            yield finding("A376", len(self.unused), f"{names}: used are {', '.join(self.used)}")


def _mark(text: str) -> str:
    """Return what stands before the decimals of a number; nothing where it may as well stand
    between thousands.

    >>> [_mark(text) for text in ("80.1", "80,1", "2,816", "2,816.5", "800.000.000", "0,744", "n/a")]
    ['.', ',', '', '.', ',', ',', '']
    """
    marks = [letter for letter in text if letter in ".,"]
    if len(set(marks)) == 2:
        return marks[-1]
    if len(marks) > 1:
        return "," if marks[0] == "." else "."
    if not marks:
        return ""
    whole, _, decimals = text.translate(_SPACES).partition(marks[0])
    return marks[0] if len(decimals) != 3 or whole in ("", "0") or len(whole) > 3 else ""


def _factor(quantity: str, unit: str) -> float | None:
    """Return what a value in a unit is multiplied by for SI units; None where the unit is not one
    of the quantity.

    >>> [_factor(*of) for of in (("rate read", "Gbyte/second"), ("seconds", "usecond"), ("memory share", "%"), ("bytes", "%"))]
    [1000000000.0, 1e-06, 0.01, None]
    """
    kind = quantity.split()[0]
    if quantity.endswith("share"):
        return 0.01 if unit in ("%", "") else None
    if not unit:
        return None if kind == "seconds" else 1.0
    match = _UNIT.fullmatch(unit)
    if match is None or match[2] not in _MEANT[kind]:
        return None
    return _PREFIX[match[1]] if (kind == "rate") == (match[3] in ("/second", "/s")) else None


def _mean(launches: Iterable[_Launch]) -> Counted:
    """Return the mean of launches of one kernel; shares and rates count by how long each launch
    took, where that is known.
    """
    launches = list(launches)
    timed = [launch.seconds for launch in launches if launch.seconds > 0]
    values: dict[str, list[tuple[float, float]]] = {}
    for launch in launches:
        for name, value in launch.values.items():
            values.setdefault(name, []).append((value, launch.seconds))
    means: dict[str, float] = {}
    for name, metric in _metrics().items():
        if having := values.get(name):
            alike = metric.quantity.startswith(("bytes", "operations", "host")) or not all(
                seconds > 0 for _, seconds in having
            )
            weights = [1.0 if alike else seconds for _, seconds in having]
            means[name] = (
                metric.factor
                * sum(w * value for w, (value, _) in zip(weights, having, strict=True))
                / sum(weights)
            )

    def of(quantity: str) -> list[float]:
        return [value for name, value in means.items() if _metrics()[name].quantity == quantity]

    def both(quantity: str) -> float:
        """Return the total, else reads and writes added up."""
        ways = [of(f"{quantity} {side}")[:1] for side in ("read", "written")]
        return (
            of(quantity)[0]
            if of(quantity)
            else sum(v for side in ways for v in side)
            if all(ways)
            else math.nan
        )

    operations: dict[ParameterName, float] = {}
    for name in _once(means):
        if (peak := _metrics()[name].peak) is not None:
            operations[peak] = operations.get(peak, 0.0) + means[name]
    memory, arithmetic = (
        next(iter(of("memory share")), math.nan),
        max(of("pipe share"), default=math.nan),
    )
    mean = sum(timed) / len(timed) if timed else math.nan
    size, rate, host = both("bytes"), both("rate"), next(iter(of("host bytes")), math.nan)
    return Counted(memory, arithmetic, size, rate, operations, mean, host)


def _once(names: Iterable[str]) -> list[str]:
    """Return metrics without those that count again what others of them count: of each part of a
    multiprocessor, and all of a source type.

    >>> _once(["smsp__op_fadd.sum", "sm__op_fadd.sum", "sm__src_fp8.sum", "sm__src_fp8_dst_fp16.sum", "sm__src_fp8_dst_fp32.sum"])
    ['smsp__op_fadd.sum', 'sm__src_fp8.sum']
    """
    kept: dict[str, str] = {}
    for name in names:
        kept.setdefault(name.split("__", 1)[-1], name)
    return [
        name
        for what, name in kept.items()
        if "_dst_" not in what or f"{what.split('_dst_')[0]}.sum" not in kept
    ]


def timed(counted: Counted, seconds: float, count: float) -> Counted:
    """Return the counters with the time of the recording where their file has none: the mean of a
    launch [s], and how many there are.
    """
    return (
        replace(counted, seconds=seconds * count if counted.whole else seconds)
        if math.isnan(counted.seconds)
        else counted
    )
