"""Tables about copies and links in docs/models: data sheets against measured nodes, packets, and
what is assumed of another node.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile_names import Ran
from model_tables import agree, numbers, rows, shown

from turnbuckle.cost.packet import Way, copy_seconds
from turnbuckle.cost.pcie import Pcie
from turnbuckle.machine.measured.logs import read_measured
from turnbuckle.projection.elsewhere import priors

Run = Callable[..., Ran]
Floats = np.ndarray[Any, np.dtype[np.float64]]
V100 = "measured/superbench_v100_pcie_copy/cuda_memory_{}_bw.log"
MI100 = "measured/superbench_mi100_h2d/rocm_memory_h2d_bw.log"
TWO_GPUS = "measured/superbench_gpu_copy_2gpu/gpu_copy_bw_performance.log"
CLOVERLEAF = "nsys/cloverleaf_a100_perlmutter/perlmutter-cloverleaf-cuda.sqlite"
WAYS: dict[str, Way] = {"to the device": "read", "to the host": "write", "both, each way": "both"}

# --- ahead ----------------------------------------------------------------------------------------

#: Sides of the table of real nodes by how their cell begins.
SIDES = {
    "V100 PCIe, H2D curve": V100.format("h2d"),
    "V100 PCIe, D2H curve": V100.format("d2h"),
    "V100 PCIe, at": V100.format("h2d"),
    "MI100": MI100,
    "two-GPU node": TWO_GPUS,
    "A100, CloverLeaf": CLOVERLEAF,
    "H100, two-GPU LLM workload": "nsys/h100_2gpu_1s/h100_2gpu_1s.sqlite",
    "GH200, Jacobi": "nsys/jacobi_gh200/jacobi_report.sqlite",
    "RTX 3090, Rodinia Gaussian": "nsys/rodinia_gaussian_rtx3090_a",
    "RTX 3090, Balinski-Gomory": "nsys/balinski_gomory_r3",
    "another version of it": "nsys/balinski_gomory_r16",
}


def side(shared: Path, cell: str) -> Path:
    """Return the file of a cell, of a folder its only recording."""
    (place,) = (shared / "traces" / file for begin, file in SIDES.items() if cell.startswith(begin))
    return next(place.glob("*.sqlite")) if place.is_dir() else place


def real_nodes() -> list[tuple[str, str, list[str], list[str]]]:
    """Return A, B, the options in both cells, and the other cells of each row; `the same` is the
    row above, `itself` is A.
    """
    out: list[tuple[str, str, list[str], list[str]]] = []
    for here, there, *cells in rows("ahead", "A, B and its transfers"):
        options = [
            word for text in re.findall(r"`(--[^`]+)`", here + there) for word in shlex.split(text)
        ]
        a = out[-1][0] if here.startswith("the same") else here
        b = out[-1][1] if there == "the same" else there
        out.append((a, a if b.startswith("itself") else b, options, cells))
    return out


@pytest.mark.shared
@pytest.mark.parametrize(("a", "b", "options", "cells"), real_nodes())
def test_real_nodes_from_the_data_sheet(
    turnbuckle: Run, shared: Path, a: str, b: str, options: list[str], cells: list[str]
) -> None:
    here, there = side(shared, a), side(shared, b)
    link, transfers, *printed = cells
    recorded = [f for f in (here, there) if f.suffix == ".sqlite"]
    words = [*options, *(["--part", "whole"] if recorded else [])]
    if there.suffix == ".sqlite":
        words += ["--transfers-of", "measured"]
    ran = turnbuckle(
        "transfers", here, "--on", link.strip("`"), "--measured", there, *words, "--format", "json"
    )
    assert ran.code == 0, ran.err
    errors = json.loads(ran.out)["projections"][0]["errors"]
    each = [e for e in errors if (e["direction"] == "all") != ("," in printed[0])]
    for cell, approach in zip(printed, ("packets", "peak", "envelope"), strict=True):
        of = [e for e in each if e["approach"] == approach]
        assert sum(e["count"] for e in of) == numbers(transfers)[0]
        agree(
            cell,
            *(e["wmape_percent"] for e in of),
            *(e["spread_percent"] for e in of if "±" in cell),
        )


def test_what_another_node_may_do() -> None:
    nine_of_ten = 100 * priors.LINK_FASTEST * math.exp(-1.645 * priors.LINK_SHARE)
    threshold = copy_seconds.__kwdefaults__["pageable_threshold"] / 1024
    expected = {
        "fixed part": (priors.COPY_LATENCY_SD,),
        "share of the link that": (
            priors.LINK_FASTEST,
            priors.LINK_SHARE,
            9,
            10,
            nine_of_ten,
            priors.NODE_SHARE,
        ),
        "share of the link between": (priors.PEER_SHARE,),
        "share of the device's": (priors.DEVICE_SHARE, 2),
        "staging by the host": (
            2,
            priors.STAGED_SPREAD,
            priors.STAGED_RATE / 1e9,
            priors.STAGED_SPREAD,
            threshold,
        ),
        "copies of other ranks": (1, priors.MOST_SHARERS),
    }
    assert math.isclose(priors._PAIR**2, 2)
    table = shown("ahead", "unknown, on B")
    assert len(table) == len(expected)
    for begin, values in expected.items():
        (cell,) = (cells[0] for name, cells in table.items() if name.startswith(begin))
        rounded = [v if v < 3 else round(v) for v in values]
        assert numbers(cell) == rounded, begin


# --- packets --------------------------------------------------------------------------------------


def large_copies() -> list[tuple[str, str, str, list[str]]]:
    """Return machine, link, direction and the other cells of each row; an empty cell repeats the
    one above.
    """
    out: list[tuple[str, str, str, list[str]]] = []
    for machine, link, copies, *cells in rows("packet", "machine, link"):
        out.append((machine or out[-1][0], link or out[-1][1], copies, cells))
    return out


@pytest.mark.parametrize(("machine", "link", "copies", "cells"), large_copies())
def test_large_copies_by_the_law(machine: str, link: str, copies: str, cells: list[str]) -> None:
    generation, lanes = (int(n) for n in re.findall(r"\d+", link))
    size = 68e6 if "68 MB" in machine else 2**28
    for cell, interval in zip(cells[1:], ("bytes", "symbols"), strict=True):
        priced = Pcie(generation, lanes, interval=interval)  # type: ignore[arg-type]
        agree(cell, float(priced.bandwidth(size, WAYS[copies])) / 1e9)


@pytest.mark.shared
@pytest.mark.parametrize(("machine", "link", "copies", "cells"), large_copies())
def test_large_copies_as_measured(
    shared: Path, machine: str, link: str, copies: str, cells: list[str]
) -> None:
    traces = shared / "traces"
    way = "h2d" if copies == "to the device" else "d2h"
    if machine.startswith("ND H100"):
        text = (traces / "measured/azure_nd_a100_h100/ND_H100_v5_results.md").read_text(
            encoding="utf-8"
        )
        said = {"h2d": "Host to Device", "d2h": "Device to Host"}[way]
        (rate,) = re.findall(rf"\| {said} +\| (\d+) ", text)
        assert numbers(cells[0]) == [float(rate)]
    elif machine.startswith("2-GPU node"):
        what = "rate.both" if copies.startswith("both") else f"rate.{way}.pinned"
        (found,) = (
            q
            for q in read_measured(traces / TWO_GPUS, with_rates=True).quantities
            if q.what == what
        )
        agree(cells[0], found.value / 1e9)
    elif machine.startswith("V100"):
        sizes, seconds = curve(traces / V100.format(way))
        agree(cells[0], sizes[-1] / seconds[-1] / 1e9)
        assert sizes[-1] == 68e6
    else:
        sizes, seconds = curve(traces / MI100)
        agree(cells[0], float((sizes / seconds)[sizes == 2**28][0]) / 1e9)


def curve(file: Path) -> tuple[Floats, Floats]:
    """Return the sizes [B] and the times [s] of a measured curve."""
    (found,) = read_measured(file).curves
    return found.size_bytes, found.seconds


@pytest.mark.shared
@pytest.mark.parametrize("row", rows("packet", "series, copies"), ids=lambda row: row[0])
def test_errors_by_size(turnbuckle: Run, shared: Path, row: list[str]) -> None:
    """With the latency of the smallest copies of the series itself."""
    series, count, law, peak = row
    options = [word for text in re.findall(r"`(--[^`]+)`", series) for word in shlex.split(text)]
    if series.startswith("CloverLeaf"):
        file, link, way = shared / "traces" / CLOVERLEAF, "pcie4-x16", "h2d"
        options += ["--part", "whole"]
    else:
        machine, direction = series.split(", ")
        way = {"read": "h2d", "write": "d2h"}[WAYS[direction]]
        link = {"V100": "pcie3-x16", "MI100": "pcie4-x16"}[machine]
        file = shared / "traces" / {"V100": V100.format(way), "MI100": MI100}[machine]
    ran = turnbuckle(
        "transfers", file, "--on", link, "--measured", file, *options, "--format", "json"
    )
    assert ran.code == 0, ran.err
    errors = json.loads(ran.out)["projections"][0]["errors"]
    of = {e["approach"]: e for e in errors if e["direction"] == way}
    assert numbers(count) == [of["packets"]["count"]]
    agree(law, of["packets"]["wmape_percent"])
    agree(peak, of["peak"]["wmape_percent"])
