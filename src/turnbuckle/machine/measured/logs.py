"""Reader of copy times and single numbers measured on a machine: the outputs of the usual tests,
and tables.

    bandwidthTest        NVIDIA's sample, quick, range or shmoo mode
    hipBusBandwidth      AMD's, with its time rows; and the HIP test that prints sizes with units
    nvbandwidth          text and JSON; rates of copies, latency of loads; it does not print the size it copied
    gdrcopy              copybw, copylat, pplat
    OSU                  blocks of the OSU micro-benchmarks
    nccl-tests           collectives and sendrecv
    vidur                times of NCCL operations by size, from a simulator's repository of profiles
    gpu_copy             SuperBench's copy test; it does not print the size it copied
    small kernels        gpu-benches: rate of kernels that follow each other, by elements
    rocm_bandwidth_test  AMD's rates between all devices, or times by size
    perftest             ib_write_bw, ib_write_lat and their like
    gpu_stream           SuperBench's STREAM on devices
    STREAM               rates of the host's memory; BabelStream also of the device's
    benchmark page       a page of tables (Markdown): host and device rates, STREAM on the device
    microbench           our own measuring program, and the kit of the same sections
    CSV                  direction, memory, size and time or bandwidth, with units (`turnbuckle.foundation.table_file`)

Errors:

    A020  none of these formats
    A021  the file has no such part
    A023  an impossible line
    A412  JSON that its tool does not write
    A145  rates without the size they were measured at
"""

from __future__ import annotations

import gzip
import re
import zlib
from pathlib import Path
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.errors import TurnbuckleError, error_of
from turnbuckle.foundation.files import opened
from turnbuckle.foundation.schema import words
from turnbuckle.foundation.table_file import Column, read_table, read_text

from .copies import bandwidth_test, gpu_copy, hip_bus_bandwidth
from .kit import microbench
from .mapped import gdrcopy, nvbandwidth
from .messages import nccl_tests, osu, vidur
from .others import babelstream, gpu_stream, perftest, rocm_bandwidth_test
from .pages import benchmark_page, small_kernels
from .parts import COARSEST as COARSEST
from .parts import (
    LARGEST_COPY,
    Curve,
    Found,
    Left,
    Measured,
    Points,
    Quantity,
    Reader,
    Text,
    clean,
    points_of,
    way_words,
)

__all__ = [
    "COARSEST",
    "Curve",
    "Float",
    "Measured",
    "Quantity",
    "format_of",
    "listed",
    "read_measured",
    "split_part",
    "unknown_format",
]

#: Directions a measurement may have: those of a recording, and messages that leave the node.
DIRECTIONS: Final = ("h2d", "d2h", "d2d", "p2p", "h2h", "network")
LARGEST_BYTES: Final = 16 << 20


def format_of(text: str) -> str | None:
    """Return the format of a text, or None.

    >>> format_of("direction, size [B], time [us]")
    'CSV'
    """
    for name, (sign, _) in _FORMATS.items():
        if sign.search(text):
            return name
    return None


def read_measured(
    path: str | Path,
    *,
    size_bytes: float | None = None,
    with_rates: bool = False,
    between_nodes: bool = False,
) -> Measured:
    """Read a file of measured copies.

    Parameters
    ----------
    path : path of the file, packed by gzip or not; ``FILE#2`` is its second measurement alone.
    size_bytes : size of the copies, for a file that does not state it [B].
    with_rates : whether rates without a size are taken too, as quantities; otherwise a file with
        nothing else is refused.
    between_nodes : whether the ranks of a test of messages were on several nodes, where the file
        does not state it.

    Raises
    ------
    UsageError : A020, A021, A023; A061 to A063 for a table.
    CannotAnswer : A145.
    """
    place, part = split_part(path)
    text = _text(place)
    name = format_of(text)
    if name is None:
        raise unknown_format(place.name)
    left = Left()
    contents = _FORMATS[name][1](Text(place, text, size_bytes, between_nodes), left)
    if size_bytes is not None:
        _sized(contents, size_bytes, place.name)
    for p in contents.points:
        p.check(place.name)
    curves = tuple(p.curve() for p in contents.points if p.size)
    if not with_rates:
        curves = _one_a_class(curves, left)
    quantities = tuple(contents.quantities) if with_rates else ()
    if not with_rates and (single := sum(q.count for q in contents.quantities)):
        left.out("single numbers that are no time of a copy of a known size", single)
    if not curves and not quantities and not (with_rates and contents.surface):
        raise _nothing(place.name, name, contents)
    if part is not None:
        if not 1 <= part <= len(curves):
            raise (
                error_of(
                    "A021.part",
                    where=place.name,
                    found=listed(curves),
                    part=part,
                    count=len(curves),
                )
                if curves
                else error_of("A021.only", where=place.name, found=listed(curves), part=part)
            )
        curves, quantities = curves[part - 1 : part], ()
    return Measured(
        place.name,
        name,
        curves,
        contents.device,
        left.findings(),
        quantities,
        contents.driver,
        tuple(contents.surface),
    )


#: Times of one copy by our own program, the one that a recording would show first; further ones are
#: other definitions of it.
_DEFINITIONS: Final = ("event", "queued", "host", "period", "call")


def _one_a_class(curves: tuple[Curve, ...], left: Left) -> tuple[Curve, ...]:
    """Keep, of several definitions of one copy's time, the device's own; everything else stays."""
    best: dict[tuple[str, str], int] = {}
    for c in curves:
        if c.means in _DEFINITIONS:
            rank = _DEFINITIONS.index(c.means)
            best[c.direction, c.memory] = min(best.get((c.direction, c.memory), rank), rank)
    kept = [
        c
        for c in curves
        if c.means not in _DEFINITIONS or _DEFINITIONS.index(c.means) == best[c.direction, c.memory]
    ]
    if gone := len(curves) - len(kept):
        left.out("curves of other definitions of a copy's time", gone)
    return tuple(kept)


def _text(place: Path) -> str:
    """Return the text of a file; unpacked where it is packed, up to the same limit."""
    fix = f"give the output of {', '.join(_FORMATS)}"
    try:
        with opened(place) as file:
            packed = file.read(2) == b"\x1f\x8b"
        if packed:
            with opened(place) as file, gzip.GzipFile(fileobj=file) as stream:
                raw = stream.read(LARGEST_BYTES + 1)
            if len(raw) > LARGEST_BYTES:
                raise error_of(
                    "A061.measurement",
                    where=place.name,
                    found=f"more than {LARGEST_BYTES >> 20} MiB unpacked",
                )
            return raw.decode("utf-8-sig")
    except (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError):
        raise error_of(
            "A061.measurement", where=place.name, found="a damaged packed file", fix=fix
        ) from None
    except (OSError, ValueError):
        pass  # what is wrong with the file itself is said by the reader of texts
    return read_text(place, "the measurement", largest_bytes=LARGEST_BYTES, fix=fix)


def _sized(contents: Found, size_bytes: float, name: str) -> None:
    """Turn rates whose copies have a size after all into points of one copy."""
    if not 0 < size_bytes < float("inf"):
        raise error_of("A023.size", where=name, found=f"{size_bytes:g} B")
    for q in [q for q in contents.quantities if q.unsized and q.what in _RATES]:
        direction, memory = _RATES[q.what]
        points = Points(direction, memory, f"{way_words(direction, memory)}, {q.where}")
        points.add(size_bytes, size_bytes / q.value, q.error)
        contents.points.append(points)
        contents.quantities.remove(q)


_RATES: Final = {
    f"rate.{direction}.pinned": (direction, "pinned") for direction in ("h2d", "d2h")
} | {f"rate.{direction}": (direction, "device") for direction in ("p2p", "d2d")}


def _nothing(name: str, kind: str, contents: Found) -> Exception:
    if contents.quantities:
        shown = ", ".join(
            f"{q.what} {q.value / 1e9:.4g} GB/s" for q in contents.quantities[:6] if q.unit == "B/s"
        )
        return error_of(
            "A145",
            where=name,
            found=shown or f"{len(contents.quantities)} single numbers",
            kind=kind,
        )
    return error_of(
        "A023.empty", where=name, found=f"{kind} without a line that holds size and time"
    )


def split_part(path: str | Path) -> tuple[Path, int | None]:
    """Split ``FILE#2`` into FILE and 2; a file of that very name comes first.

    >>> split_part("osu.txt#2")[1]
    2
    """
    match = re.fullmatch(r"(.+)#([0-9]{1,4})", str(path), re.DOTALL)
    if match is None or Path(path).exists():
        return Path(path), None
    return Path(match[1]), int(match[2])


def unknown_format(name: str) -> TurnbuckleError:
    """Build the error for a text in none of the formats."""
    return error_of(
        "A020",
        where=name,
        found="text of another kind",
        formats=", ".join(n for n in _FORMATS if n != "CSV"),
    )


def listed(curves: tuple[Curve, ...]) -> str:
    """Describe the measurements of a file by number, for messages."""
    return "; ".join(f"{k} {c.name}" for k, c in enumerate(curves[:8], 1)) + (
        f"; {len(curves)} in all" if len(curves) > 8 else ""
    )


COLUMNS: Final = (
    Column("direction", ""),
    Column("memory", "", needed=False),
    Column("size", "B", least=1.0, most=LARGEST_COPY),
    Column("time", "s", needed=False, above=True),
    Column("bandwidth", "B/s", needed=False, above=True),
    Column("name", "", needed=False),
)


def _table(file: Text, left: Left) -> Found:
    table = read_table(
        file.path, COLUMNS, "the table of measured copies", largest_bytes=LARGEST_BYTES
    )
    group: dict[tuple[str, ...], Points] = {}
    time, rate, size = table.number("time"), table.number("bandwidth"), table.number("size")
    memories = ("unknown", *(w for w in words("memories") if w != "unknown"))
    for row in range(len(table)):
        direction = table.texts["direction"][row].lower()
        memory = (table.texts["memory"][row] if "memory" in table.texts else "").lower()
        memory = memory or ("device" if direction in ("d2d", "p2p") else "unknown")
        for word, choices, column in (
            (direction, DIRECTIONS, "direction"),
            (memory, memories, "memory"),
        ):
            if word not in choices:
                raise error_of(
                    "A023.word",
                    where=table.where(row, column),
                    found=clean(word),
                    column=column,
                    choices=", ".join(choices),
                )
        if np.isnan(time[row]) == np.isnan(rate[row]):
            raise error_of("A023.both", where=table.where(row))
        seconds = time[row] if not np.isnan(time[row]) else size[row] / rate[row]
        name = clean(table.texts["name"][row]) if "name" in table.texts else ""
        points = points_of(group, direction, memory, name or way_words(direction, memory))
        points.add(float(size[row]), float(seconds), 0.0, table.lines[row])
    return Found(list(group.values()))


_FORMATS: Final[dict[str, tuple[re.Pattern[str], Reader]]] = {
    "microbench": (re.compile(r'\A\s*\{\s*"(?:section|program|machine)"\s*:'), microbench),
    "nvbandwidth": (
        re.compile(
            r'^nvbandwidth Version|"nvbandwidth"\s*:|^Running (?:host|device|all|one)_to_\w+\.',
            re.MULTILINE,
        ),
        nvbandwidth,
    ),
    "bandwidthTest": (
        re.compile(
            r"\[CUDA Bandwidth Test\]|^bandwidthTest-\w+|^[^\S\n]*(?:Host|Device) to (?:Host|Device) Bandwidth, \d+ Device",
            re.MULTILINE,
        ),
        bandwidth_test,
    ),
    "hipBusBandwidth": (
        re.compile(
            r"^[^\S\n]*(?:H2D|D2H|Bidir)_(?:Time|Bandwidth)|HIP Bandwidth Test Type", re.MULTILINE
        ),
        hip_bus_bandwidth,
    ),
    "OSU": (re.compile(r"^# OSU (?:MPI|[NRx]CCL)", re.MULTILINE), osu),
    "gpu_copy": (
        re.compile(r"^(?:cpu|gpu\d+)_to_(?:cpu|gpu\d)\w*_by_(?:sm|dma)", re.MULTILINE),
        gpu_copy,
    ),
    "gdrcopy": (
        re.compile(
            r"^gdr_copy_(?:to|from)_mapping\b|^write BW:|^Round-trip latency per iteration",
            re.MULTILINE,
        ),
        gdrcopy,
    ),
    "nccl-tests": (re.compile(r"^#\s+size\s+count\b.*\bbusbw\b", re.MULTILINE), nccl_tests),
    "vidur": (re.compile(r"\A(?=[^\n]*\n)[^\n]*\btime_stats\.\w+\.(?:median|mean|min)\b"), vidur),
    "rocm_bandwidth_test": (
        re.compile(
            r"^[^\S\n]*RocmBandwidthTest Version|^[^\S\n]*(?:Uni|Bi)directional copy (?:peak|average) bandwidth GB/s"
            r"|^=+ (?:Uni|Bi)directional Benchmark Result",
            re.MULTILINE,
        ),
        rocm_bandwidth_test,
    ),
    "perftest": (
        re.compile(
            r"^[^\S\n]*#bytes[^\S\n]+#iterations[^\S\n]+(?:BW peak|BW average|t_min|t_avg)",
            re.MULTILINE,
        ),
        perftest,
    ),
    "STREAM": (
        re.compile(
            r"^BabelStream\b|^STREAM version\b|^Function[^\S\n]+Mi?Bytes/sec\s+Min \(sec\)",
            re.MULTILINE,
        ),
        babelstream,
    ),
    "gpu_stream": (
        re.compile(r"^[^\S\n]*STREAM_(?:COPY|SCALE|ADD|TRIAD)_\w+_gpu_\d", re.MULTILINE),
        gpu_stream,
    ),
    "small kernels": (
        re.compile(
            r"\A(?:[^\S\n]*(?:#.*)?\n)*[^\S\n]*\d+[^\S\n]+\d+[kM]B(?:[^\S\n]+\d+(?:\.\d+)?)+[^\S\n]*$",
            re.MULTILINE,
        ),
        small_kernels,
    ),
    "benchmark page": (
        re.compile(
            r"^\|\s*(?:Host to Device|Device to Host)\b[^|\n]*\||^#[^\n]*\b(?:HBM|NV|NCCL) Bandwidth",
            re.MULTILINE | re.IGNORECASE,
        ),
        benchmark_page,
    ),
    "CSV": (
        re.compile(
            r"\A(?:[^\S\n]*(?:#.*)?\n)*(?=[^\n]*\bsize\b)(?=[^\n]*\b(?:direction|time|bandwidth)\b)[^\n]*,",
            re.IGNORECASE,
        ),
        _table,
    ),
}
"""Every format: how its text is told from others, and what reads it."""
