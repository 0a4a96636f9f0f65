"""Prices of copies over a link: `turnbuckle.cost.packet` beside one division in NumPy, whole arrays
in NumPy, and plain Python.

    python benchmarks/packet.py [--transfers 10000000] [--rounds 5] [--out benchmarks/out/packet.json]

All on one core, sizes log-normal from bytes to gigabytes. What is compared gives the same times, or
the benchmark stops; only the floor, ``latency + n / bandwidth``, is another law: what reading the
sizes and writing the times costs at least.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from measuring import clocked, conclude, spread
from turnbuckle.cost.nvlink import Nvlink
from turnbuckle.cost.packet import Link, copy_seconds
from turnbuckle.cost.pcie import Pcie
from turnbuckle.cost.wire import Way

HERE = Path(__file__).resolve().parent
LATENCY, MEMORY = 2e-6, 50e9
AIM = 10e6
#: Transfers priced one by one.
CUT = 100_000
FLOOR, WHOLE, PLAIN = (
    "floor: latency + n / bandwidth, NumPy",
    "PCIe 4 x16 read, NumPy on whole arrays",
    "PCIe 4 x16 read, Python one by one",
)
OURS = "PCIe 4 x16 read"
Floats = NDArray[np.float64]
Row = dict[str, Any]


def drawn(transfers: int) -> Floats:
    """Sizes [B]: half of them below 22 kB, whole bytes, up to 4 GiB."""
    sizes = np.random.default_rng(1).lognormal(10.0, 3.0, transfers)
    return np.minimum(np.ceil(sizes), 2.0**32)


def whole(sizes: Floats, link: Pcie) -> Floats:
    """The same law without pieces: every step goes through memory."""
    sent = np.ceil(sizes / link.mrrs) * link.request_header
    received = np.ceil(sizes / link.completion_bytes) * link.completion_header + sizes
    return np.asarray(LATENCY + np.maximum(sent, received) / link.packet_bandwidth)


def one_by_one(sizes: list[float], link: Pcie) -> list[float]:
    """The same law a transfer at a time, as a script would write it."""
    mrrs, completion, bandwidth = link.mrrs, link.completion_bytes, link.packet_bandwidth
    request, header = link.request_header, link.completion_header
    return [
        LATENCY
        + max(math.ceil(n / mrrs) * request, math.ceil(n / completion) * header + n) / bandwidth
        for n in sizes
    ]


def timed(name: str, transfers: int, work: Callable[[], Any], rounds: int) -> Row:
    """Wall and CPU seconds of `rounds` runs after one that is not counted."""
    wall, cpu = clocked(work, rounds)
    return {"name": name, "transfers": transfers, "wall": wall, "cpu": cpu}


def measure(transfers: int, rounds: int) -> dict[str, Any]:
    """All measurements, or ``{"missing": why}`` where the answers differ."""
    sizes, link = drawn(transfers), Pcie(4, 16)
    cut = sizes[: min(CUT, transfers)]
    few = cut.tolist()
    ours = copy_seconds(sizes, link, "read", latency=LATENCY)
    for name, found in ((WHOLE, whole(sizes, link)), (PLAIN, np.array(one_by_one(few, link)))):
        if not np.allclose(found, ours[: len(found)], rtol=1e-12, atol=0.0):
            return {"missing": f"{name} gives other times"}
    asked: list[tuple[str, Link, Way, float | None]] = [
        (OURS, link, "read", None),
        ("PCIe 4 x16 write", link, "write", None),
        ("PCIe 4 x16 both ways", link, "both", None),
        ("PCIe 4 x16 read, pageable", link, "read", MEMORY),
        ("PCIe 2 x16 read, legacy headers", Pcie(2, 16, legacy_headers=True), "read", None),
        ("NVLink 2 x2 read", Nvlink(2, 2), "read", None),
    ]
    rows = []
    for name, one, way, memory in asked:

        def work(one: Link = one, way: Way = way, memory: float | None = memory) -> Floats:
            return copy_seconds(sizes, one, way, latency=LATENCY, host_memory_bandwidth=memory)

        rows.append(timed(name, transfers, work, rounds))
    rows.append(timed(FLOOR, transfers, lambda: LATENCY + sizes / 25e9, rounds))
    rows.append(timed(WHOLE, transfers, lambda: whole(sizes, link), rounds))
    rows.append(timed(PLAIN, len(few), lambda: one_by_one(few, link), rounds))
    return {"rows": rows}


def rate(row: Row, clock: str = "wall") -> float:
    """Transfers a second, by the median."""
    return float(row["transfers"] / statistics.median(row[clock]))


def _row(result: dict[str, Any], name: str) -> Row:
    return next(dict(row) for row in result["rows"] if row["name"] == name)


def table(result: dict[str, Any]) -> str:
    """The measurements as text."""
    if "missing" in result:
        return f"packet: not measured: {result['missing']}"
    head = f"{'price of a copy':<42}{'transfers':>12}{'s':>9}{'(min-max)':>17}{'M/s':>9}{'by CPU':>9}{'x floor':>9}"
    lines, floor = [head, "-" * len(head)], rate(_row(result, FLOOR))
    for row in result["rows"]:
        lines.append(
            f"{row['name']:<42}{row['transfers']:>12,}{statistics.median(row['wall']):>9.3f}{spread(row['wall']):>17}"
            f"{rate(row) / 1e6:>9.2f}{rate(row, 'cpu') / 1e6:>9.2f}{floor / rate(row):>9.2f}"
        )
    lines.append(
        "M/s: million transfers a second on one core; x floor: how many times as long as one "
        "division of all sizes"
    )
    return "\n".join(lines)


def targets(result: dict[str, Any]) -> list[tuple[bool, str]]:
    """Each aim: whether it is met, and the sentence that says by how much."""
    if "missing" in result:
        return [(False, f"packet was not measured: {result['missing']}")]
    own = [row for row in result["rows"] if row["name"] not in (FLOOR, WHOLE, PLAIN)]
    slowest, first = min(own, key=rate), _row(result, OURS)
    words = (
        f"{slowest['name']}, the slowest: {rate(slowest) / 1e6:.0f} M transfers/s a core, "
        f"{rate(slowest, 'cpu') / 1e6:.0f} by CPU time"
    )
    ratios = ", ".join(
        f"{rate(first) / rate(_row(result, name)):.2f}x of {name.split(', ')[-1]}"
        for name in (WHOLE, PLAIN)
    )
    floor = rate(_row(result, FLOOR)) / rate(first)
    return [
        (
            rate(slowest) >= AIM,
            (
                f"packet, {words}; aim {AIM / 1e6:.0f}; {OURS}: {ratios}, {floor:.1f} times as "
                "long as one division"
            ),
        )
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="price copies over links, ours and otherwise")
    parser.add_argument("--transfers", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE / "out" / "packet.json")
    chosen = parser.parse_args()
    result = measure(chosen.transfers, chosen.rounds)
    conclude(result, table(result), targets(result), chosen.out)


if __name__ == "__main__":
    main()
