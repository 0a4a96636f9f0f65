"""Tables of rates: gpu-benches' kernels by their number of elements, and pages of results in
Markdown.
"""

from __future__ import annotations

import re
from typing import Final

from turnbuckle.foundation.errors import error_of

from .parts import COARSEST, Found, Left, Points, Text, clean, number, rounding, sampled

_BYTES_AN_ELEMENT: Final = 16.0
_SMALL = re.compile(r"\s*([0-9]{1,15})\s+([0-9]{1,15})\s*([kM])B((?:\s+[0-9]+(?:\.[0-9]+)?)+)\s*")
#: How the kernels follow each other is told by the name of the file alone.
_VARIANTS: Final = {
    "graph": "in a CUDA graph",
    "gsync": "as grid-wide steps of one kernel",
    "pt": "as steps of a persistent kernel",
}


def small_kernels(file: Text, left: Left) -> Found:
    """Read gpu-small-kernels: elements, volume, then GB/s by block size.  The best block size
    counts: time = 16 B x elements / rate.

    The volume beside the elements is left: some versions divide it once too often.
    """
    ending = file.path.name.partition(".")[0].rpartition("_")[2].lower()
    how = _VARIANTS.get(ending, "one launch each" if ending not in _VARIANTS else "")
    points = Points("kernel", "device", f"kernels {how} (by the file's name)", means="kernel")
    columns = 0
    for line_number, line in enumerate(file.lines(), 1):
        row = _SMALL.fullmatch(line)
        # a row with fewer block sizes than those before it was cut off: its best is not known
        columns = max(columns, len(row[4].split())) if row is not None else columns
        if row is not None and len(row[4].split()) < columns:
            left.out("lines that were cut off")
            continue
        if row is None:
            if line.strip() and not line.lstrip().startswith("#"):
                left.out("lines of another form")
            continue
        rates = [number(r, file.name) for r in row[4].split()]
        best = max(rates, key=float)
        coarse = rounding(best)
        if coarse > COARSEST or float(row[1]) <= 0:
            left.out("rates printed too coarsely")
            continue
        volume = float(row[1]) * _BYTES_AN_ELEMENT
        points.add(volume, volume / (float(best) * 1e9), coarse, line_number)
    return Found([points])


#: First cell of a row in a page's table -> quantity.
_HOST: Final = {
    "host to device": "rate.h2d.pinned",
    "h2d": "rate.h2d.pinned",
    "device to host": "rate.d2h.pinned",
    "d2h": "rate.d2h.pinned",
}
_ROWS: Final = _HOST | dict.fromkeys(
    ("device to device", "device to device read", "device to device write"), "rate.p2p"
)
_STREAM: Final = ("copy", "mul", "add", "triad", "scale")
_SCALE: Final = {"TB/s": 1e12, "GB/s": 1e9, "MB/s": 1e6}
_PAGE_NOTE = "the page does not give the size of the copies"


def benchmark_page(file: Text, left: Left) -> Found:
    """Read rates of a page's tables; the unit stands in the heading of a table or behind the
    number.
    """
    out = Found()
    section, unit = "", ""
    stream: tuple[list[float], list[int]] = ([], [])
    for line_number, line in enumerate(file.lines(), 1):
        if line.lstrip().startswith("#"):
            section, unit = line.strip("# \t").lower(), ""
            continue
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if len(cells) < 2 or "|" not in line:
            continue
        first = re.sub(r"[*`\\]", "", cells[0]).strip().lower()
        if first in ("gpu", "device"):
            out.device = out.device or clean(cells[1])
        elif re.fullmatch(
            r"(?:nvidia )?(?:gpu )?driver(?: version)?",
            first.replace("nvidia driver", "nvidia driver"),
        ):
            out.driver = clean(cells[1])
        if named := re.search(r"\b([TGM]B/s)", line):
            unit = named[1]
        value = re.match(r"([0-9]+(?:\.[0-9]+)?)(?:\s*([TGM]B/s))?\s*$", cells[-1])
        if value is None or set(first) <= set("-: "):
            continue
        scale = _SCALE.get(value[2] or unit)
        if first in _ROWS and scale:
            rate = float(value[1]) * scale
            _positive(rate, file.name, line_number)
            error = rounding(value[1])
            quantity = sampled(
                _ROWS[first],
                [rate],
                "B/s",
                f"line {line_number}, {clean(first)}",
                _PAGE_NOTE,
                unsized=True,
            )
            out.quantities.append(type(quantity)(**{**quantity.__dict__, "error": error}))
        elif first in _STREAM and scale and re.search(r"hbm|stream|memory", section):
            stream[0].append(float(value[1]) * scale)
            stream[1].append(line_number)
        elif "nccl" in section and scale:
            left.out(
                "bus bandwidths of a collective whose number of ranks the page does not give "
                "with them"
            )
        else:
            left.out("lines of a page that are no rate of copies or of device memory")
    if stream[0] and min(stream[0]) > 0:
        where = f"STREAM, lines {min(stream[1])} to {max(stream[1])}"
        out.quantities.append(sampled("device.stream", stream[0], "B/s", where))
    return out


def _positive(value: float, name: str, line_number: int) -> None:
    if value <= 0:
        raise error_of("A023.nothing", where=f"{name}:{line_number}")
