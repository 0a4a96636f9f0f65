"""NVIDIA's nvbandwidth (text and JSON), and gdrcopy, where the host itself reads and writes device
memory.

Errors:

    A412  JSON that its tool does not write
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from turnbuckle.foundation.errors import clipped, error_of

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

_UNSIZED = "the file does not give the size of the copies"

#: Test of nvbandwidth -> (quantity, what one cell is worth of it, note).  Tests by kernels (sm)
#: measure loads, not copies.
_TESTS: Final = {
    "host_to_device_memcpy_ce": ("rate.h2d.pinned", 1.0),
    "device_to_host_memcpy_ce": ("rate.d2h.pinned", 1.0),
    "host_to_device_bidirectional_memcpy_ce": ("rate.both", 1.0),
    "device_to_host_bidirectional_memcpy_ce": ("rate.both", 1.0),
    "device_to_device_memcpy_read_ce": ("rate.p2p", 1.0),
    "device_to_device_memcpy_write_ce": ("rate.p2p", 1.0),
    "device_local_copy": ("rate.d2d", 1.0),
    "host_device_latency_sm": ("load.host", 1e-9),
    "device_to_device_latency_sm": ("load.peer", 1e-9),
}
_CELL = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def nvbandwidth(file: Text, left: Left) -> Found:
    """Read the cells of each matrix; every pair of devices is one sample.  The program prints no
    size.
    """
    start = file.text.find("{")
    if start >= 0 and '"nvbandwidth"' in file.text:
        return _json(file, left, start)
    out = Found()
    test = ""
    samples: dict[str, tuple[list[float], list[int]]] = {}
    for line_number, line in enumerate(file.lines(), 1):
        if begins := re.match(r"\s*Running\s+(\w+)\.?\s*$", line):
            test = begins[1].lower()
        elif version := re.match(r"\s*Driver Version:\s*(\S+)", line):
            out.driver = clean(version[1])
        elif device := re.match(r"\s*(?:Process\s+\d+\s*\([^)]*\):\s*)?[Dd]evice\s+\d+:(.+)", line):
            out.device = out.device or clean(re.sub(r"\([0-9a-fA-F:.]+\)\s*$", "", device[1]))
        elif re.match(r"\s*(?:SUM|Waived|ERROR|NOTE)\b", line):
            test = "" if not line.strip().startswith("SUM") else test
        elif test and (
            row := re.fullmatch(
                r"\s*[0-9]{1,4}((?:\s+(?:[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|N/A))+)\s*", line
            )
        ):
            _take(test, row[1].split(), [line_number], samples, left, file.name)
    return _quantities(out, samples)


def _json(file: Text, left: Left, start: int) -> Found:
    try:
        document, _ = json.JSONDecoder().raw_decode(file.text, start)
    except (ValueError, RecursionError):
        raise error_of("A412.end", where=file.name) from None
    body: Any = document.get("nvbandwidth") if isinstance(document, dict) else None
    cases = body.get("testcases") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(cases, list):
        raise error_of("A412.tests", where=file.name)
    devices = next((v for k, v in body.items() if "device" in str(k).lower()), None)
    named = devices[0] if isinstance(devices, list) and devices else devices
    named = named.get("name", "") if isinstance(named, dict) else named
    shown = re.sub(r"^\s*(?:Device\s+)?\d+:|\([0-9a-fA-F:.]+\)\s*(?s::.*)?$", "", str(named or ""))
    out = Found(device=clean(shown), driver=clean(str(body.get("Driver Version", ""))))
    samples: dict[str, tuple[list[float], list[int]]] = {}
    for case in cases:
        matrix = (
            next((case[k] for k in ("bandwidth_matrix", "latency_matrix") if k in case), None)
            if isinstance(case, dict)
            else None
        )
        if not isinstance(matrix, list):
            left.out("tests without a result")
            continue
        if str(case.get("status", "Passed")).lower() != "passed":
            left.out("tests that did not pass")
            continue
        cells = [str(c) for row in matrix if isinstance(row, list) for c in row]
        _take(str(case.get("name", "")).lower(), cells, [], samples, left, file.name)
    return _quantities(out, samples)


def _take(
    test: str,
    cells: list[str],
    lines: list[int],
    samples: dict[str, tuple[list[float], list[int]]],
    left: Left,
    name: str,
) -> None:
    if test not in _TESTS:
        left.out(
            "rows of tests by kernels (sm), of all devices at once, or of both directions "
            "between devices"
        )
        return
    values = [float(c) for c in cells if _CELL.fullmatch(c) and float(c) > 0]
    if lost := sum(1 for c in cells if c not in ("N/A", "")) - len(values):
        left.out(f"cells of {clipped(test, 40)} without a rate above zero", lost)
    held = samples.setdefault(test, ([], []))
    held[0].extend(values)
    held[1].extend(lines)


def _quantities(out: Found, samples: dict[str, tuple[list[float], list[int]]]) -> Found:
    joined: dict[str, tuple[list[float], list[int], list[str]]] = {}
    for test, (values, lines) in samples.items():
        what, scale = _TESTS[test]
        held = joined.setdefault(what, ([], [], []))
        held[0].extend(v * (1e9 if what.startswith("rate.") else scale) for v in values)
        held[1].extend(lines)
        held[2].append(test)
    for what, (values, lines, tests) in joined.items():
        if not values:
            continue
        where = ", ".join(tests) + (f", {lines_words(lines)}" if lines else "")
        rate = what.startswith("rate.")
        out.quantities.append(
            sampled(
                what, values, "B/s" if rate else "s", where, _UNSIZED if rate else "", unsized=rate
            )
        )
    return out


_MAPPING = re.compile(
    r"\s*gdr_copy_(to|from)_mapping\s+([0-9]{1,15})\s+([0-9.]{1,15})(?:\s+[0-9.]+)*\s*"
)
_BANDWIDTH = re.compile(r"\s*(write|read) BW:\s*(?:median\s+)?([0-9.]{1,15})\s*MB/s")
_TRIP = re.compile(
    r"Round-trip latency per iteration is\s+(?:\(min\)\s+[0-9.]+,\s*\(median\)\s*)?([0-9.]{1,15})\s*us"
)


def gdrcopy(file: Text, left: Left) -> Found:
    """Read copylat (the host's stores to and loads from device memory by size), copybw (rate of one
    size), pplat (a flag there and back).

    Its MB/s are of 2^20 bytes.  Such copies are none of the copy engine's: they are curves of their
    own.
    """
    group: dict[tuple[str, ...], Points] = {}
    out, size = Found(), None
    trips: list[float] = []
    trip_lines: list[int] = []
    for row_number, line in enumerate(file.lines(), 1):
        if device := re.match(r"GPU id:\s*\d+;\s*name:([^;]+);", line):
            out.device = out.device or clean(device[1])
        elif begins := re.match(r"\s*(?:writing|reading) test, size=([0-9]{1,15})", line):
            size = float(begins[1])
        elif row := _MAPPING.fullmatch(line):
            n, coarse = float(row[2]), rounding(number(row[3], file.name))
            if n <= 0 or coarse > COARSEST:
                left.out("times printed too coarsely")
                continue
            route = "mapped_h2d" if row[1] == "to" else "mapped_d2h"
            points_of(group, route, "device", f"gdr_copy_{row[1]}_mapping").add(
                n, float(row[3]) * 1e-6, coarse, row_number
            )
        elif rate := _BANDWIDTH.match(line):
            if size is None or float(number(rate[2], file.name)) <= 0:
                left.out("rates without a size")
                continue
            route = "mapped_h2d" if rate[1] == "write" else "mapped_d2h"
            points_of(group, route, "device", f"copybw {rate[1]}").add(
                size, size / (float(rate[2]) * (1 << 20)), rounding(rate[2]), row_number
            )
        elif trip := _TRIP.match(line):
            trips.append(float(number(trip[1], file.name)) * 1e-6)
            trip_lines.append(row_number)
    for points in group.values():
        points.means = "cpu"
    out.points = list(group.values())
    if trips and min(trips) > 0:
        out.quantities.append(
            sampled(
                "flag.round_trip",
                trips,
                "s",
                lines_words(trip_lines),
                "a flag to the device and one back",
            )
        )
    return out
