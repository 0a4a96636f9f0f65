"""Copy times that somebody measured on a machine: the outputs of the usual bandwidth tests, and tables.

    bandwidthTest        NVIDIA's sample, quick, range or shmoo mode
    hipBusBandwidth      AMD's, with its time rows
    osu_bw, osu_latency  blocks of the OSU micro-benchmarks
    gpu_copy             SuperBench's copy test; it does not print the size it copied
    CSV                  direction, memory, size and time or bandwidth, with units (`turnbuckle.table_file`)

Errors:

    A020  none of these formats
    A021  the file has no such part
    A023  a line that cannot be
    A145  rates without the size they were measured at
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from turnbuckle.errors import CannotAnswer, UsageError
from turnbuckle.findings import Finding, finding
from turnbuckle.schema import words
from turnbuckle.table_file import Column, read_table, read_text

Float = NDArray[np.float64]

#: Directions a measurement may have: those of a recording, and messages that leave the node.
DIRECTIONS: Final = ("h2d", "d2h", "d2d", "p2p", "h2h", "network")
#: A value printed to no better than this share of itself says nothing.
COARSEST: Final = 0.25
LARGEST_BYTES: Final = 16 << 20
#: Sizes up to which a float counts single bytes, and times that a copy may have [B], [s].
LARGEST_COPY: Final = 2.0**53
SHORTEST, LONGEST = 1e-12, 1e9

_LONGEST_LINE = 4096


@dataclass(frozen=True)
class Curve:
    """Measured time of one copy over its size.

    Attributes
    ----------
    direction, memory : the class, in the words of a recording; ``network`` for messages that leave the node.
    size_bytes : sizes [B], ascending, shape (n,).
    seconds : time of one copy of each size [s], shape (n,).
    name : which measurement of its file.
    resolution : what printing rounded off, as a share of the value, shape (n,).
    streamed : set where many messages were in flight at once, so that a time is the time per message and holds no latency.
    """

    direction: str
    memory: str
    size_bytes: Float
    seconds: Float
    name: str
    resolution: Float = field(default_factory=lambda: np.zeros(0), repr=False)
    streamed: bool = False

    def at(self, size_bytes: Float) -> Float:
        """Time of copies of other sizes [s]: straight lines between the measured points in log-log; nan outside them.

        >>> curve = Curve("h2d", "pinned", np.array([1e3, 1e5]), np.array([2e-6, 8e-6]), "")
        >>> [float(round(t * 1e6, 3)) for t in curve.at(np.array([1e3, 1e4, 1e6]))]
        [2.0, 4.0, nan]
        """
        size = np.asarray(size_bytes, dtype=np.float64)
        inside = (size >= self.size_bytes[0]) & (size <= self.size_bytes[-1])
        safe = np.where(inside, np.maximum(size, 1e-9), self.size_bytes[0])
        line = np.exp(np.interp(np.log(safe), np.log(self.size_bytes), np.log(self.seconds)))
        return np.where(inside, line, np.nan)


@dataclass(frozen=True)
class Measured:
    """One file of measurements.

    Attributes
    ----------
    name, format : of the file.
    device : the device it names, or empty.
    curves : one a measurement, in the order of the file.
    findings : values that were left out.
    """

    name: str
    format: str
    curves: tuple[Curve, ...]
    device: str = ""
    findings: tuple[Finding, ...] = ()


@dataclass
class _Points:
    """One measurement being read."""

    direction: str
    memory: str
    name: str
    streamed: bool = False
    size: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    resolution: list[float] = field(default_factory=list)

    def add(self, size: float, seconds: float, resolution: float) -> None:
        self.size.append(size)
        self.seconds.append(seconds)
        self.resolution.append(resolution)

    def check(self, file: str) -> None:
        """Raises A023 for a size or a time that no copy has."""
        for size, seconds in zip(self.size, self.seconds, strict=True):
            if not (1.0 <= size <= LARGEST_COPY and SHORTEST <= seconds <= LONGEST):
                raise UsageError(
                    "A023", "a size or a time that no copy has", where=file, found=f"{self.name}: {size:g} B in {seconds:g} s",
                    fix="give copies of 1 B or more, and the time of one",
                )  # fmt: skip

    def curve(self) -> Curve:
        """Ascending; repeated sizes become their median."""
        size, seconds, coarse = (np.array(x, dtype=np.float64) for x in (self.size, self.seconds, self.resolution))
        at = np.unique(size)
        middle = np.array([np.median(seconds[size == n]) for n in at])
        worst = np.array([coarse[size == n].max() for n in at])
        return Curve(self.direction, self.memory, at, middle, self.name, worst, self.streamed)


class _Left:
    """What is left out, counted by reason."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def out(self, why: str, count: int = 1) -> None:
        self.counts[why] = self.counts.get(why, 0) + count

    def findings(self) -> tuple[Finding, ...]:
        return tuple(finding("A333", count, f"{count} {why}") for why, count in self.counts.items())


def format_of(text: str) -> str | None:
    """Which format a text is in, or None.

    >>> format_of("direction, size [B], time [us]")
    'CSV'
    """
    for name, (sign, _) in _FORMATS.items():
        if sign.search(text):
            return name
    return None


def read_measured(path: str | Path, *, size_bytes: float | None = None) -> Measured:
    """Read a file of measured copies.

    Parameters
    ----------
    path : the file; ``FILE#2`` is its second measurement alone.
    size_bytes : size the copies had, for a file that does not say it [B].

    Raises
    ------
    UsageError : A020, A021, A023; A061 to A063 for a table.
    CannotAnswer : A145.
    """
    place, part = split_part(path)
    text = read_text(place, "the measurement", largest_bytes=LARGEST_BYTES, fix=f"give the output of {', '.join(_FORMATS)}")
    name = format_of(text)
    if name is None:
        raise unknown_format(place.name)
    left = _Left()
    points, device = _FORMATS[name][1](_Text(place, text, size_bytes), left)
    for p in points:
        p.check(place.name)
    curves = tuple(p.curve() for p in points if p.size)
    if not curves:
        raise UsageError(
            "A023", "no measurement in the file can be used", where=place.name, found=f"{name} without a line that holds size and time",
            fix="give the complete output of the test",
        )  # fmt: skip
    if part is not None:
        if not 1 <= part <= len(curves):
            raise UsageError(
                "A021",
                f"the file has no measurement {part}",
                where=place.name,
                found=listed(curves),
                fix=f"a number from 1 to {len(curves)}",
            )
        curves = curves[part - 1 : part]
    return Measured(place.name, name, curves, device, left.findings())


def split_part(path: str | Path) -> tuple[Path, int | None]:
    """``FILE#2`` -> FILE and 2; a file of that very name comes first.

    >>> split_part("osu.txt#2")[1]
    2
    """
    found = re.fullmatch(r"(.+)#([0-9]{1,4})", str(path), re.DOTALL)
    if found is None or Path(path).exists():
        return Path(path), None
    return Path(found[1]), int(found[2])


def unknown_format(name: str) -> UsageError:
    """What to say of a text that is none of the formats."""
    return UsageError(
        "A020", "neither a recording nor a measurement of copies", where=name, found="text of another kind",
        cause=f"known are recordings, the output of {', '.join(n for n in _FORMATS if n != 'CSV')}, and CSV tables",
        fix="a table: direction, memory, size [B], time [us]",
    )  # fmt: skip


def listed(curves: tuple[Curve, ...]) -> str:
    """The measurements of a file by number, for messages."""
    return "; ".join(f"{k} {c.name}" for k, c in enumerate(curves[:8], 1)) + (f"; {len(curves)} in all" if len(curves) > 8 else "")


@dataclass(frozen=True)
class _Text:
    """A file, its text, and the size its copies had where it does not say that."""

    path: Path
    text: str
    size_bytes: float | None

    @property
    def name(self) -> str:
        return self.path.name

    def lines(self) -> list[str]:
        """Lines; one that is longer than any of these tests writes counts as empty, since patterns would take long on it."""
        return [line if len(line) <= _LONGEST_LINE else "" for line in self.text.splitlines()]


_Found = tuple[list[_Points], str]
_Reader = Callable[[_Text, _Left], _Found]


def _rounding(text: str) -> float:
    """Half a unit of the last digit printed, as a share of the value; infinite for a zero.

    >>> round(_rounding("12.5"), 6), _rounding("0.00")
    (0.004, inf)
    """
    value = float(text)
    half = 0.5 * 10.0 ** -len(text.partition(".")[2])
    return half / value if value > 0 else math.inf


def _clean(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text).strip()[:80]


def _of(group: dict[tuple[str, ...], _Points], direction: str, memory: str, name: str, streamed: bool = False) -> _Points:
    return group.setdefault((direction, memory, name), _Points(direction, memory, name, streamed))


_CSV_LINE = re.compile(
    r"bandwidthTest-(\S+),\s*Bandwidth = ([0-9.]+) ([GM])B/s,\s*Time = ([0-9.]+) s,\s*Size = ([0-9]{1,15}) bytes", re.IGNORECASE
)
_SECTION = re.compile(r"\s*(Host|Device) to (Host|Device) Bandwidth\b")
_HEADING = re.compile(r"\s*Transfer Size \(Bytes\)\s+Bandwidth\(([GM])B/s\)")
_ROW = re.compile(r"\s*([0-9]{1,15})\s+([0-9.]{1,15})\s*")
_TWICE = {"h2d": 1.0, "d2h": 1.0, "d2d": 2.0}
_UNIT = {"G": 1e9, "M": float(1 << 20)}


def _bandwidth_test(file: _Text, left: _Left) -> _Found:
    """Rates of copies inside a device count what is read and what is written; the time printed with them does not."""
    group: dict[tuple[str, ...], _Points] = {}
    device, direction, memory, unit = "", "", "", "G"
    for line in file.lines():
        if named := re.fullmatch(r"\s*Device \d+: (.+?)\s*", line):
            device = _clean(named[1])
        elif section := _SECTION.match(line):
            direction = f"{section[1][0]}2{section[2][0]}".lower()
        elif kind := re.match(r"\s*(PINNED|PAGEABLE) Memory Transfers", line):
            memory = kind[1].lower()
        elif heading := _HEADING.match(line):
            unit = heading[1]
        elif (found := _CSV_LINE.search(line)) or (direction and (found := _ROW.fullmatch(line))):
            if found.re is _CSV_LINE:
                kind_of, rate, prefix, time, size = found.groups()
                way, _, host = kind_of.lower().partition("-")
                host = "pageable" if host.startswith("page") else "pinned"
            else:
                (size, rate), way, host, prefix, time = found.groups(), direction, memory or "unknown", unit, "0"
            if way not in _TWICE:
                left.out("lines of a direction that is no copy of a device")
                continue
            n = float(size)
            by_rate, by_time = _rounding(_number(rate, file.name)), _rounding(_number(time, file.name))
            best = min(by_rate, by_time)
            if best > COARSEST or n <= 0:
                left.out("rates printed too coarsely to tell a time")
                continue
            seconds = float(time) if by_time < by_rate else n / (float(rate) * _UNIT[prefix])
            host = "device" if way == "d2d" else host
            _of(group, way, host, _way_words(way, host)).add(n, _TWICE[way] * seconds, best)
    return list(group.values()), device


def _number(text: str, name: str) -> str:
    """The text itself if it is a number."""
    try:
        if math.isfinite(float(text)):
            return text
    except ValueError:
        pass
    raise UsageError("A023", "a value that is no number", where=name, found=_clean(text), fix="give the output as the test wrote it")


def _way_words(direction: str, memory: str) -> str:
    return direction if memory in ("device", "unknown") else f"{direction} {memory}"


_HIP = re.compile(
    r"\s*(H2D|D2H|D2D|Bidir|P2P\w*)_(Time|Bandwidth)_?(pinned|unpinned|registered)?\s+\+?0*([0-9]{1,15})(By|kB|MB)(?:x([0-9]{1,9}))?\s+(ms|GB/sec)\s+([0-9.]+)\b"
)
_HIP_UNIT = {"By": 1, "kB": 1024, "MB": 1 << 20}


def _hip_bus_bandwidth(file: _Text, left: _Left) -> _Found:
    """The median time of each size.  The rates beside it are left: some versions drop the part of the size below 1000 B."""
    group: dict[tuple[str, ...], _Points] = {}
    rates: dict[tuple[str, ...], _Points] = {}
    device = ""
    for line in file.lines():
        if line.startswith("Device:"):
            device = device or _clean(line.removeprefix("Device:").partition(" Mem=")[0])
        found = _HIP.match(line)
        if found is None:
            continue
        way, what, kind, count, unit, times, _, value = found.groups()
        if way not in ("H2D", "D2H"):
            left.out("lines with both directions at once or between devices")
            continue
        memory = "pageable" if kind == "unpinned" else "pinned" if kind else "unknown"
        n, repeats, coarse = float(int(count) * _HIP_UNIT[unit]), float(times or 1), _rounding(_number(value, file.name))
        if coarse > COARSEST or n <= 0 or repeats <= 0:
            if what == "Time":
                left.out("times printed too coarsely")
            continue
        held = group if what == "Time" else rates
        seconds = float(value) * 1e-3 / repeats if what == "Time" else n / (float(value) * 1e9)
        _of(held, way.lower(), memory, _way_words(way.lower(), memory)).add(n, seconds, coarse)
    return list((group or rates).values()), device


_OSU_HEAD = re.compile(r"#\s*OSU\s+MPI(\S*)\s+(.*?)(?:\s+Test)?(?:\s+v[0-9.]+)?\s*", re.IGNORECASE)
_OSU_COLUMNS = re.compile(r"#\s*Size\s+(?:Avg\s+)?(Bandwidth|Latency)\s*\((MB/s|us)\).*")
_OSU_BUFFERS = re.compile(r"#\s*Send Buffer on (HOST|DEVICE).*Receive Buffer on (HOST|DEVICE).*", re.IGNORECASE)
_OSU_COMMAND = re.compile(r"\bosu_(?:bw|latency)\b(?:.*\s)?([HDM])\s+([HDM])\s*$")
_ENDS = {"HH": ("h2h", "unknown"), "DD": ("p2p", "device"), "HD": ("h2d", "unknown"), "DH": ("d2h", "unknown")}


def _osu(file: _Text, left: _Left) -> _Found:
    """One measurement a block.  osu_bw keeps 64 messages in flight: its rate holds no latency."""
    out: list[_Points] = []
    title, ends, test, now = "", "", "", None
    for number, line in enumerate(file.lines(), 1):
        if head := _OSU_HEAD.fullmatch(line):
            test, now = head[2].lower(), None
            if not ends and not head[1].strip("-"):
                ends = "HH"
        elif buffers := _OSU_BUFFERS.fullmatch(line):
            ends = (buffers[1][0] + buffers[2][0]).upper()
        elif columns := _OSU_COLUMNS.fullmatch(line):
            if "bi-directional" in test or "multi" in test:
                left.out("blocks with both directions or several pairs at once")
            elif ends not in _ENDS:
                raise UsageError(
                    "A023", "a block that does not say where its buffers are", where=f"{file.name}:{number}",
                    fix="keep the command (osu_bw D D) or the line '# Send Buffer on ...' above the block",
                )  # fmt: skip
            else:
                direction, memory = _ENDS[ends]
                away = re.search(r"inter-?\s?node", title, re.IGNORECASE) is not None
                name = title or f"osu {'latency' if columns[1] == 'Latency' else 'bw'} {ends[0]} {ends[1]}"
                now = _Points("network" if away else direction, memory, name, streamed=columns[1] == "Bandwidth")
                out.append(now)
            title, ends = "", ""
        elif row := _ROW.fullmatch(line):
            _osu_row(row, now, left, file.name)
        elif command := _OSU_COMMAND.search(line):
            ends = (command[1] + command[2]).replace("M", "D")
        elif line.startswith("## ") or re.match(r"#\s+[A-Z]{3}-to-", line):
            title, now = _clean(line.lstrip("# ")), None
        elif line.strip() and not line.startswith("#"):
            now = None
    return out, ""


def _osu_row(row: re.Match[str], now: _Points | None, left: _Left, name: str) -> None:
    n, coarse = float(row[1]), _rounding(_number(row[2], name))
    if now is None or n <= 0:
        return
    if coarse > COARSEST:
        left.out("values printed too coarsely to tell a time")
        return
    now.add(n, n / (float(row[2]) * 1e6) if now.streamed else float(row[2]) * 1e-6, coarse)


_COPY = re.compile(r"(cpu|gpu\d+|gpu_all)_(to|and)_(cpu|gpu\d+|gpu_all)(?:_(read|write))?_by_(sm|dma)(?:_under_numa\d+)?\s+([0-9.]+)")


def _gpu_copy(file: _Text, left: _Left) -> _Found:
    """Rates of the copy engines (dma), the median of all devices and NUMA nodes; it prints no size."""
    rates: dict[str, list[str]] = {}
    for line in file.lines():
        found = _COPY.fullmatch(line.strip())
        if found is None:
            continue
        a, joined, b, _, by, rate = found.groups()
        if by != "dma" or joined != "to" or "gpu_all" in (a, b):
            left.out("rates of kernels that copy, of both directions at once or of all devices at once")
            continue
        way = "h2d" if a == "cpu" else "d2h" if b == "cpu" else "d2d" if a == b else "p2p"
        rates.setdefault(way, []).append(_number(rate, file.name))
    if file.size_bytes is None:
        shown = ", ".join(f"{way} {np.median([float(r) for r in values]):.4g} GB/s" for way, values in rates.items())
        raise CannotAnswer(
            "A145", "rates without the size they were measured at", where=file.name, found=shown,
            cause="gpu_copy does not print the size it copied; a rate without a size is not a time",
            fix='say the size with --copied-size, for example --copied-size "256 MiB"',
        )  # fmt: skip
    if not 0 < file.size_bytes < math.inf:
        raise UsageError("A023", "the size of the copies must be above zero", where=file.name, found=f"{file.size_bytes:g} B")
    out = []
    for way, values in rates.items():
        memory = "pinned" if way in ("h2d", "d2h") else "device"
        points = _Points(way, memory, f"{way} by DMA, median of {len(values)}")
        usable = [v for v in values if _rounding(v) <= COARSEST]
        if len(usable) < len(values):
            left.out("rates printed too coarsely", len(values) - len(usable))
        for value in usable:
            points.add(file.size_bytes, file.size_bytes / (float(value) * 1e9), _rounding(value))
        out.append(points)
    return out, ""


COLUMNS: Final = (
    Column("direction", ""),
    Column("memory", "", needed=False),
    Column("size", "B", least=1.0, most=LARGEST_COPY),
    Column("time", "s", needed=False, above=True),
    Column("bandwidth", "B/s", needed=False, above=True),
    Column("name", "", needed=False),
)


def _table(file: _Text, left: _Left) -> _Found:
    table = read_table(file.path, COLUMNS, "the table of measured copies", largest_bytes=LARGEST_BYTES)
    group: dict[tuple[str, ...], _Points] = {}
    time, rate, size = table.number("time"), table.number("bandwidth"), table.number("size")
    memories = ("unknown", *(w for w in words("memories") if w != "unknown"))
    for row in range(len(table)):
        direction = table.texts["direction"][row].lower()
        memory = (table.texts["memory"][row] if "memory" in table.texts else "").lower()
        memory = memory or ("device" if direction in ("d2d", "p2p") else "unknown")
        for word, known, column in ((direction, DIRECTIONS, "direction"), (memory, memories, "memory")):
            if word not in known:
                raise UsageError(
                    "A023", f"an unknown {column}", where=table.where(row, column), found=_clean(word), fix=f"one of {', '.join(known)}"
                )
        if np.isnan(time[row]) == np.isnan(rate[row]):
            raise UsageError(
                "A023", "a line needs a time or a bandwidth, and not both", where=table.where(row), fix="leave one of the two cells empty"
            )
        seconds = time[row] if not np.isnan(time[row]) else size[row] / rate[row]
        name = _clean(table.texts["name"][row]) if "name" in table.texts else ""
        _of(group, direction, memory, name or _way_words(direction, memory)).add(float(size[row]), float(seconds), 0.0)
    return list(group.values()), ""


_FORMATS: Final[dict[str, tuple[re.Pattern[str], _Reader]]] = {
    "bandwidthTest": (re.compile(r"\[CUDA Bandwidth Test\]|^bandwidthTest-\w+", re.MULTILINE), _bandwidth_test),
    "hipBusBandwidth": (re.compile(r"^[^\S\n]*(?:H2D|D2H|Bidir)_(?:Time|Bandwidth)", re.MULTILINE), _hip_bus_bandwidth),
    "OSU": (re.compile(r"^# OSU MPI", re.MULTILINE), _osu),
    "gpu_copy": (re.compile(r"^(?:cpu|gpu\d+)_to_(?:cpu|gpu\d+)\w*_by_(?:sm|dma)", re.MULTILINE), _gpu_copy),
    "CSV": (
        re.compile(r"\A(?:[^\S\n]*(?:#.*)?\n)*(?=[^\n]*\bsize\b)(?=[^\n]*\b(?:direction|time|bandwidth)\b)[^\n]*,", re.IGNORECASE),
        _table,
    ),
}
"""Every format: how its text is told from others, and what reads it."""
