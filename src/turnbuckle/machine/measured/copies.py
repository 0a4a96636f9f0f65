"""Copies through the vendors' own calls: NVIDIA's bandwidthTest, AMD's hipBusBandwidth,
SuperBench's gpu_copy.
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
    way_words,
)

_CSV_LINE = re.compile(
    r"bandwidthTest-(\S{1,64}),\s*Bandwidth = ([0-9.]+) ([GM])B/s,\s*Time = ([0-9.]+) s,\s*"
    r"Size = ([0-9]{1,15}) bytes(?:,\s*NumDevsUsed = ([0-9]{1,4}))?",
    re.IGNORECASE,
)
_SECTION = re.compile(
    r"\s*(Host|Device) to (Host|Device) Bandwidth\b(?:,\s*([0-9]{1,4}) Device(?:\(s\))?(?:,\s*(Paged|Pinned) memory)?)?",
    re.IGNORECASE,
)
_OLD = re.compile(
    r"\[bandwidthTest(?:\.exe)?\] starting|^\S*bandwidthTest Starting", re.IGNORECASE | re.MULTILINE
)
_HEADING = re.compile(r"\s*Transfer Size \(Bytes\)\s+Bandwidth\(([GM])B/s\)")
_ROW = re.compile(r"\s*([0-9]{1,15})\s+([0-9.]{1,15})\s*")
_TWICE = {"h2d": 1.0, "d2h": 1.0, "d2d": 2.0}
#: What its MB/s are: it divides 2^10 x bytes by 2^20 x ms.  Those of the toolkits before CUDA 5 are
#: of 2^20 bytes.
_UNIT = {"G": 1e9, "M": 1000.0 * (1 << 10)}


def bandwidth_test(file: Text, left: Left) -> Found:
    """Read CUDA's bandwidthTest.  Rates inside a device count bytes read and written; printed times
    are size over rate.

    With several devices it prints the sum of their rates, measured one after the other: a copy has
    the mean rate.
    """
    group: dict[tuple[str, ...], Points] = {}
    device, direction, memory, unit, devices = "", "", "", "G", 1
    mega = float(1 << 20) if _OLD.search(file.text) else _UNIT["M"]
    for line_number, line in enumerate(file.lines(), 1):
        if named := re.match(r"\s*[Dd]evice \d+:(.+)", line):
            device = clean(named[1])
        elif section := _SECTION.match(line):
            direction, devices = (
                f"{section[1][0]}2{section[2][0]}".lower(),
                max(int(section[3] or 1), 1),
            )
            memory = {"paged": "pageable", "pinned": "pinned"}.get(
                (section[4] or "").lower(), memory
            )
        elif kind := re.match(r"\s*(PINNED|PAGEABLE) Memory Transfers", line):
            memory = kind[1].lower()
        elif heading := _HEADING.match(line):
            unit = heading[1]
        elif (match := _CSV_LINE.search(line)) or (direction and (match := _ROW.fullmatch(line))):
            if match.re is _CSV_LINE:
                kind_of, rate, prefix, time, size, summed = match.groups()
                route, _, host = kind_of.lower().partition("-")
                host = "pageable" if host.startswith("page") else "pinned"
            else:
                (size, rate), route, host, prefix, time, summed = (
                    match.groups(),
                    direction,
                    memory or "unknown",
                    unit,
                    "0",
                    str(devices),
                )
            if route not in _TWICE:
                left.out("lines of a direction that is no copy of a device")
                continue
            n = float(size)
            by_rate, by_time = rounding(number(rate, file.name)), rounding(number(time, file.name))
            best = min(by_rate, by_time)
            if best > COARSEST or n <= 0:
                left.out("rates printed too coarsely to tell a time")
                continue
            # the time beside a rate in MB/s is the size over 2^20 of them
            bytes_per_unit = mega if prefix.upper() == "M" else _UNIT["G"]
            time_unit = float(1 << 20) / bytes_per_unit if prefix.upper() == "M" else 1.0
            seconds = (
                float(time) * time_unit if by_time < by_rate else n / (float(rate) * bytes_per_unit)
            )
            seconds *= max(int(summed or 1), 1)
            host = "device" if route == "d2d" else host
            points_of(group, route, host, way_words(route, host)).add(
                n, _TWICE[route] * seconds, best, line_number
            )
    return Found(list(group.values()), device)


_HIP = re.compile(
    r"\s*(H2D|D2H|D2D|Bidir|P2P\w*)_(Time|Bandwidth)_?(pinned|unpinned|registered)?\s+\+?0*([0-9]{1,15})(By|kB|MB)(?:x([0-9]{1,9}))?\s+(ms|GB/sec)\s+([0-9.]+)\b"
)
_HIP_UNIT = {"By": 1, "kB": 1024, "MB": 1 << 20}
_HIP_TEST = re.compile(
    r"=+\s*HIP Bandwidth Test Type:\s*(H2D|D2H|D2D)\b(?:.*\bhost\s+(pinned|unpinned|pageable))?",
    re.IGNORECASE,
)
_HIP_ROW = re.compile(
    r"\s*([0-9]{1,12}(?:\.[0-9]+)?)\s*(B|KB|MB|GB)\s+([0-9.]{1,20})(?:\s+[0-9.]+)+\s*",
    re.IGNORECASE,
)
_BINARY: Final = {"B": 0, "KB": 10, "MB": 20, "GB": 30}


def hip_bus_bandwidth(file: Text, left: Left) -> Found:
    """Read hipBusBandwidth's median time per size.  Rates are ignored: some versions drop the part
    of the size below 1000 B.
    """
    group: dict[tuple[str, ...], Points] = {}
    rates: dict[tuple[str, ...], Points] = {}
    device, test = "", ("", "")
    for line_number, line in enumerate(file.lines(), 1):
        if line.startswith("Device:"):
            device = device or clean(
                line.removeprefix("Device:").partition(" Mem=")[0].rpartition("Name=")[2]
            )
        if heading := _HIP_TEST.match(line):
            test = (
                heading[1].lower(),
                {"pinned": "pinned", "": "unknown"}.get((heading[2] or "").lower(), "pageable"),
            )
            test = ("d2d", "device") if test[0] == "d2d" else test
            continue
        if test[0] and (row := _HIP_ROW.fullmatch(line)):
            n, coarse = (
                float(row[1]) * (1 << _BINARY[row[2].upper()]),
                rounding(number(row[3], file.name)),
            )
            if coarse <= COARSEST:
                points_of(group, *test, way_words(*test)).add(
                    n, float(row[3]) * 1e-6, coarse, line_number
                )
            else:
                left.out("times printed too coarsely")
            continue
        match = _HIP.match(line)
        if match is None:
            continue
        direction, what, kind, count, unit, times, _, value = match.groups()
        if direction not in ("H2D", "D2H"):
            left.out("lines with both directions at once or between devices")
            continue
        memory = "pageable" if kind == "unpinned" else "pinned" if kind else "unknown"
        n, repeats, coarse = (
            float(int(count) * _HIP_UNIT[unit]),
            float(times or 1),
            rounding(number(value, file.name)),
        )
        if coarse > COARSEST or n <= 0 or repeats <= 0:
            if what == "Time":
                left.out("times printed too coarsely")
            continue
        held = group if what == "Time" else rates
        seconds = float(value) * 1e-3 / repeats if what == "Time" else n / (float(value) * 1e9)
        points_of(held, direction.lower(), memory, way_words(direction.lower(), memory)).add(
            n, seconds, coarse, line_number
        )
    return Found(list((group or rates).values()), device)


_COPY = re.compile(
    r"(cpu|gpu\d+|gpu_all)_(to|and)_(cpu|gpu\d+|gpu_all)(?:_(read|write))?_by_(sm|dma)(?:_under_numa\d+)?(?:_(uni|bi))?\s+([0-9.]+)"
)


def gpu_copy(file: Text, left: Left) -> Found:
    """Read rates of the copy engines (dma), the median of all devices and NUMA nodes; the program
    prints no size.
    """
    rates: dict[str, list[float]] = {}
    lines: dict[str, list[int]] = {}
    for line_number, line in enumerate(file.lines(), 1):
        match = _COPY.fullmatch(line.strip())
        if match is None:
            continue
        a, joined, b, _, by, ways, rate = match.groups()
        host, joined = "cpu" in (a, b), "and" if ways == "bi" else joined
        if by != "dma" or "gpu_all" in (a, b) or (joined == "and" and not host):
            left.out(
                "rates of kernels that copy, of both directions between devices, or of all "
                "devices at once"
            )
            continue
        if rounding(number(rate, file.name)) > COARSEST:
            left.out("rates printed too coarsely")
            continue
        if joined == "and":
            # the rate of both directions together
            quantity, value = "rate.both", float(rate) / 2
        else:
            short = "h2d" if a == "cpu" else "d2h" if b == "cpu" else "d2d" if a == b else "p2p"
            quantity, value = f"rate.{short}" + (".pinned" if host else ""), float(rate)
        rates.setdefault(quantity, []).append(value * 1e9)
        lines.setdefault(quantity, []).append(line_number)
    out = Found()
    for quantity, values in rates.items():
        where = f"by DMA, median of {len(values)}, {lines_words(lines[quantity])}"
        out.quantities.append(
            sampled(
                quantity,
                values,
                "B/s",
                where,
                "the file does not give the size of the copies",
                unsized=True,
            )
        )
    return out
