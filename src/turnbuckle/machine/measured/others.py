"""Further tests that sites run: AMD's rocm_bandwidth_test, perftest's ib_*_bw and ib_*_lat,
BabelStream, SuperBench's gpu_stream.
"""

from __future__ import annotations

import re
from typing import Final

from .parts import (
    COARSEST,
    Found,
    Left,
    Points,
    Text,
    clean,
    lines_words,
    number,
    points_of,
    rounding,
    sampled,
)

_NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"

_ROCM_DEVICE = re.compile(r"\s*Device:\s*([0-9]{1,4}),([^,]+)")
_ROCM_TABLE = re.compile(
    r"\s*(Unidirectional|Bidirectional) copy (?:peak|average) bandwidth GB/s\s*", re.IGNORECASE
)
_ROCM_ROW = re.compile(rf"\s*([0-9]{{1,4}})((?:\s+(?:{_NUMBER}|N/A))+)\s*")
_ROCM_END = re.compile(
    r"=*\s*(Src|Dst) Device Id:\s*([0-9]{1,4})\s+(?:Src|Dst) Device Type:\s*(Cpu|Gpu)\s*(?:=+\s*)?",
    re.IGNORECASE,
)
_ROCM_SIZED = re.compile(
    rf"\s*([0-9]{{1,9}}(?:\.[0-9]+)?)\s*(B|KB|MB|GB)\s+({_NUMBER})((?:\s+{_NUMBER})*)\s*"
)
_BINARY: Final = {"B": 0, "KB": 10, "MB": 20, "GB": 30}
_ROCM_NOTE = "the file does not give the size of the copies"


def rocm_bandwidth_test(file: Text, left: Left) -> Found:
    """Read matrices of rates, rows from and columns to (a bidirectional one adds both directions),
    or times by size of one pair.
    """
    out = Found()
    processors: set[str] = set()
    rates: dict[str, tuple[list[float], list[int]]] = {}
    group: dict[tuple[str, ...], Points] = {}
    ends: dict[str, str] = {}
    table, columns, bidirectional = "", [""], False
    for line_number, line in enumerate(file.lines(), 1):
        if device := _ROCM_DEVICE.match(line):
            if re.search(r",\s*GPU-|Instinct|Radeon|gfx[0-9]", line):
                out.device = out.device or clean(device[2])
            else:
                processors.add(device[1])
        elif heading := _ROCM_TABLE.fullmatch(line):
            table, columns = heading[1].lower(), []
        elif end := _ROCM_END.fullmatch(line):
            ends[end[1].lower()] = end[3].lower()
        elif "Bidirectional Benchmark" in line or "Unidirectional Benchmark" in line:
            bidirectional, table = "Bidirectional" in line, ""
        elif table and line.split()[:1] == ["D/D"]:
            columns = line.split()[1:]
        elif table and columns and (row := _ROCM_ROW.fullmatch(line)):
            for to, cell in zip(columns, row[2].split(), strict=False):
                _cell(row[1], to, cell, table, processors, line_number, rates, left)
        elif not table and len(ends) == 2 and (row := _ROCM_SIZED.fullmatch(line)):
            route = {"cpugpu": "h2d", "gpucpu": "d2h", "gpugpu": "p2p"}.get(
                ends["src"] + ends["dst"]
            )
            coarse = rounding(number(row[3], file.name))
            if route is None or bidirectional or coarse > COARSEST:
                left.out(
                    "lines of both directions at once or of the host alone, or printed too coarsely"
                )
                continue
            memory = "device" if route == "p2p" else "pinned"
            points_of(group, route, memory, route).add(
                float(row[1]) * (1 << _BINARY[row[2].upper()]),
                float(row[3]) * 1e-6,
                coarse,
                line_number,
            )
    out.points = list(group.values())
    for what, (values, lines) in rates.items():
        where = f"median of {len(values)}, {lines_words(lines)}"
        out.quantities.append(sampled(what, values, "B/s", where, _ROCM_NOTE, unsized=True))
    return out


def _cell(
    source: str,
    to: str,
    cell: str,
    table: str,
    processors: set[str],
    row: int,
    rates: dict[str, tuple[list[float], list[int]]],
    left: Left,
) -> None:
    host = (source in processors, to in processors)
    if cell == "N/A" or not float(cell) > 0 or all(host):
        return
    if table == "bidirectional":
        if not any(host):
            left.out("rates of both directions between devices")
            return
        what, value = "rate.both", float(cell) / 2
    else:
        what = (
            "rate.h2d.pinned"
            if host[0]
            else "rate.d2h.pinned"
            if host[1]
            else "rate.d2d"
            if source == to
            else "rate.p2p"
        )
        value = float(cell)
    held = rates.setdefault(what, ([], []))
    held[0].append(value * 1e9)
    held[1].append(row)


_RDMA_TEST = re.compile(
    r"(?<=\s)(Bidirectional\s+)?(BW|Latency)\s+(?:Post List\s+)?Test\b", re.IGNORECASE
)
_RDMA_TITLE = re.compile(r"\w+(?: \w+)*")
_RDMA_ROW = re.compile(rf"\s*([0-9]{{1,15}})\s+[0-9]{{1,15}}((?:\s+{_NUMBER})+)\s*")
#: The tool's MB are of 2^20 bytes, its Gb of 10^9 bits.
_RDMA_UNIT: Final = {"mb": float(1 << 20), "gb": 1e9 / 8}


def perftest(file: Text, left: Left) -> Found:
    """Read ib_write_bw and its like (average rate of many messages in flight) and ib_write_lat and
    its like (typical time of one).
    """
    out = Found()
    memory = "device" if re.search(r"\b(?:CUDA|ROCm)\b", file.text) else "unknown"
    title, bidirectional, now, column, unit = "", False, None, 0, 1.0
    for line_number, line in enumerate(file.lines(), 1):
        if (match := _RDMA_TEST.search(line)) and (
            test := _RDMA_TITLE.fullmatch(line[: match.start()].strip())
        ):
            title, bidirectional = (
                clean(f"{test[0]} {match[2]}").lower().replace("_", " "),
                bool(match[1]),
            )
        elif line.lstrip().startswith("#bytes"):
            words = re.findall(
                r"(BW average|BW peak|t_typical|t_avg|t_min|t_max|MsgRate)\s*\[(\w+)", line
            )
            names = [w[0] for w in words]
            timed = "BW average" not in names
            wanted = next((n for n in ("BW average", "t_typical", "t_avg") if n in names), "")
            now = None
            if bidirectional or not wanted:
                left.out("blocks with both directions at once, or without an average")
                continue
            # the columns after bytes and iterations follow the words of the heading
            column = names.index(wanted)
            unit = 1e-6 if timed else _RDMA_UNIT.get(words[column][1].lower(), float(1 << 20))
            now = Points(
                "network",
                memory,
                f"RDMA {title.removeprefix('rdma ') or 'test'}",
                streamed=not timed,
                means="rdma",
            )
            out.points.append(now)
        elif now is not None and (row := _RDMA_ROW.fullmatch(line)):
            cells = row[2].split()
            if (
                column >= len(cells)
                or float(row[1]) <= 0
                or rounding(number(cells[column], file.name)) > COARSEST
            ):
                left.out("lines of another form, or printed too coarsely")
                continue
            value, size = float(cells[column]) * unit, float(row[1])
            now.add(
                size, size / value if now.streamed else value, rounding(cells[column]), line_number
            )
    return out


_STREAM = re.compile(
    rf"\s*(Copy|Mul|Scale|Add|Triad|Dot|Nstream):?\s+({_NUMBER})(?:\s+{_NUMBER})+\s*"
)
_STREAM_DEVICE = re.compile(
    r"\s*Using (?:CUDA|HIP|OpenCL|SYCL|Kokkos|RAJA) ?device:? (.+)", re.IGNORECASE
)
_ON_DEVICES: Final = ("cuda", "hip", "opencl", "sycl")


def babelstream(file: Text, left: Left) -> Found:
    """Read best rates of copy, mul, add and triad: of the device, or of the host for host
    implementations such as STREAM.
    """
    out = Found()
    rates: list[float] = []
    lines: list[int] = []
    on_device, unit, recognised = False, 1e6, False
    for line_number, line in enumerate(file.lines(), 1):
        if device := _STREAM_DEVICE.match(line):
            out.device, on_device = out.device or clean(device[1]), True
        elif line.startswith("Implementation:"):
            word, recognised = line.partition(":")[2].strip().lower(), True
            on_device = on_device or word.startswith(_ON_DEVICES)
        elif line.startswith("STREAM version"):
            recognised = True
        elif line.startswith("Function"):
            unit = float(1 << 20) if "MiB" in line else 1e6
        elif row := _STREAM.fullmatch(line):
            if row[1] in ("Dot", "Nstream") or not float(number(row[2], file.name)) > 0:
                left.out("rates of another kernel than copy, mul, add and triad")
                continue
            rates.append(float(row[2]) * unit)
            lines.append(line_number)
    if rates and recognised:
        where = f"STREAM, {lines_words(lines)}"
        out.quantities.append(
            sampled("device.stream" if on_device else "host.stream", rates, "B/s", where)
        )
    return out


_GPU_STREAM = re.compile(
    rf"\s*STREAM_(COPY|SCALE|ADD|TRIAD)_(\w+?)_gpu_([0-9]{{1,4}})_buffer_([0-9]{{1,15}})_block_[0-9]{{1,6}}\s+({_NUMBER})(?:\s.*)?"
)
_GPU_STREAM_DEVICE = re.compile(r"\s*Device\s+[0-9]{1,4}:\s*\"([^\"]*)\"")


def gpu_stream(file: Text, left: Left) -> Found:
    """Read SuperBench's STREAM on devices: the best number of threads for each kernel, buffer and
    device.
    """
    out = Found()
    best: dict[tuple[str, ...], float] = {}
    lines: list[int] = []
    for line_number, line in enumerate(file.lines(), 1):
        if device := _GPU_STREAM_DEVICE.match(line):
            out.device = out.device or clean(device[1])
        elif row := _GPU_STREAM.fullmatch(line):
            value = float(number(row[5], file.name)) * 1e9
            if value <= 0:
                left.out("rates of nothing")
                continue
            best[row[1], row[2], row[3], row[4]] = max(
                best.get((row[1], row[2], row[3], row[4]), 0.0), value
            )
            lines.append(line_number)
    if best:
        where = (
            f"STREAM, best of {len(lines)} for each of {len(best)} kernels and devices, "
            f"{lines_words(lines)}"
        )
        out.quantities.append(sampled("device.stream", list(best.values()), "B/s", where))
    return out
