"""Hold kernels on another GPU against tables that nothing was fitted on.

    python validation/kernels/judge.py HPC.csv NVBENCH.csv

HPC.csv: codes, BabelStream and TeaLeaf's kernels in FP64 on P100, V100 and RTX 2080 Ti
(UoB-HPC/performance-portability); the least time of each GPU over compilers and models.
NVBENCH.csv: textbook kernels on RTX 3060 and RTX 3080, cold caches, over 20 us (shorter ones take
what the timing takes: 7 and 3 us).
Beside them products.csv: square products of FP32 by PyTorch on nine GPUs, a mean of 30 each
(github.com/zzc0721/torch-performance-test-data, by issue).
Prints errors in the median, beside "nothing changes" and the ratio of bandwidths, and how many 90 %
ranges hold.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path

import numpy as np
import polars as pl

from turnbuckle.machine import Machine, Pair, load
from turnbuckle.profile.kernels import KernelKind, kind_by_name
from turnbuckle.projection.elsewhere.drawn import drawn_source
from turnbuckle.projection.elsewhere.kernels import kernels_longer
from turnbuckle.projection.elsewhere.priors import Draws

HPC = {
    "Tesla P100-PCIE-16GB": "p100-pcie",
    "Tesla P100": "p100-sxm2-16",
    "Tesla V100-SXM2-16GB": "v100-sxm2",
    "GeForce RTX 2080 Ti": "rtx2080ti",
}
NVBENCH = {"NVIDIA GeForce RTX 3060": "rtx3060", "NVIDIA GeForce RTX 3080": "rtx3080"}
PRODUCTS = {
    "Tesla P4": "p4",
    "Tesla P100-PCIE-16GB": "p100-pcie",
    "Tesla P100-SXM2-16GB": "p100-sxm2-16",
    "Tesla V100-SXM2-16GB": "v100-sxm2",
    "NVIDIA A100-PCIE-40GB": "a100-pcie-40",
    "NVIDIA H100 PCIe": "h100-pcie",
    "NVIDIA A40": "a40",
    "NVIDIA L4": "l4",
    "NVIDIA GeForce RTX 3080 10GB": "rtx3080",
}
#: Names by which kernels of a subject are told.
NAMES = {
    "array_add": "add_kernel",
    "convolution": "convolution1d",
    "mat_mat_mul": "matmul_f32",
    "reduction": "reduce_kernel",
}
#: Rows whose time does not repeat, or that are part of another row.
LEFT_OUT = "init|generate|initialise|finalise|set_field|zero_boundaries"
THREADS = 256
SHORTEST = 20e-6


@dataclass
class Asked:
    """One kernel or code on two GPUs."""

    group: str
    kind: KernelKind
    source: Machine
    target: Machine
    ratio: float


def asked(
    table: pl.DataFrame, machines: dict[str, str], group: str, kinds: dict[str, KernelKind]
) -> Iterator[Asked]:
    """Yield each row of a table (columns what, gpu, seconds) on each pair of its machines."""
    for what, rows in table.group_by("what", maintain_order=True):
        seconds = dict(zip(rows["gpu"], rows["seconds"], strict=True))
        for here, there in permutations(sorted(seconds), 2):
            kind = replace(kinds[str(what[0])], seconds=seconds[here])
            yield Asked(
                group,
                kind,
                load(machines[here]),
                load(machines[there]),
                seconds[there] / seconds[here],
            )


def hpc(path: Path) -> Iterator[Asked]:
    """Yield the codes."""
    table = pl.read_csv(path).filter(
        pl.col("gpu").is_in(list(HPC)) & ~pl.col("part").str.contains(LEFT_OUT)
    )
    table = (
        table.with_columns(what=pl.col("code") + " " + pl.col("part"))
        .group_by("code", "what", "gpu")
        .agg(pl.col("seconds").min())
    )
    kinds = {
        what: kind_by_name(f"{what.removeprefix('babelstream ')}_kernel(double*)")
        for what in table["what"]
    }
    for code, rows in table.sort("what", "gpu").group_by("code", maintain_order=True):
        yield from asked(rows, HPC, str(code[0]), kinds)


def nvbench(path: Path) -> Iterator[Asked]:
    """Yield the textbook kernels, with as many blocks as their elements need."""
    table = (
        pl.read_csv(path)
        .filter(pl.col("gpu").is_in(list(NVBENCH)))
        .with_columns(what=pl.col("kernel") + pl.col("setting"))
    )
    table = (
        table.filter(pl.col("seconds") > SHORTEST)
        .group_by("subject", "what", "gpu")
        .agg(pl.col("seconds").min(), pl.col("setting").first())
    )
    elements = table["setting"].str.extract(r"Num Elements=(\d+)").cast(pl.Int64).fill_null(0)
    kinds = {}
    for what, subject, count in zip(table["what"], table["subject"], elements, strict=True):
        kind = kind_by_name(NAMES[subject])
        kinds[what] = replace(kind, blocks=-(-count // THREADS), threads=THREADS)
    for subject, rows in table.sort("what", "gpu").group_by("subject", maintain_order=True):
        yield from asked(rows, NVBENCH, str(subject[0]), kinds)


def products(path: Path) -> Iterator[Asked]:
    """Yield square products, in tiles of 128 by 64."""
    table = pl.read_csv(path).with_columns(what=pl.col("size").cast(pl.String))
    table = table.with_columns(
        seconds=2e-12 * pl.col("size").cast(pl.Float64) ** 3 / pl.col("tflops")
    )
    kind = kind_by_name("sgemm_128x64_nn")
    kinds = {
        str(size): replace(kind, blocks=size * size // kind.tile, threads=THREADS)
        for size in table["size"].unique()
    }
    yield from asked(table, PRODUCTS, "square products", kinds)


def main() -> None:
    """Print a line a group."""
    every = [
        *hpc(Path(sys.argv[1])),
        *nvbench(Path(sys.argv[2])),
        *products(Path(__file__).with_name("products.csv")),
    ]
    for group in dict.fromkeys(one.group for one in every):
        rows = [one for one in every if one.group == group]
        print(f"{group:16s} {len(rows):5d} pairs: {said(rows)}")


def said(rows: list[Asked]) -> str:
    """Return errors and coverage of some rows in words."""
    middle, held, plain = [], [], []
    draws = Draws(400, 1)
    for one in rows:
        pair = Pair(one.source, one.target)
        stated = kernels_longer([one.kind], pair, pair.source, pair.target, Draws())
        drawn = kernels_longer(
            [one.kind],
            pair,
            drawn_source(pair.source, draws),
            drawn_source(pair.target, draws),
            draws,
        )
        assert stated is not None and drawn is not None
        low, high = np.quantile(drawn, [0.05, 0.95])
        middle.append(stated[0] / one.ratio)
        held.append(low <= one.ratio <= high)
        here, there = (
            machine.value("gpu.memory_bandwidth") or 1.0 for machine in (one.source, one.target)
        )
        plain.append(here / there / one.ratio)
    ratios = np.array([one.ratio for one in rows])
    off, nothing, bandwidth = (
        np.median(np.abs(np.array(x) - 1.0)) for x in (middle, 1.0 / ratios, plain)
    )
    return (
        f"off {off:.1%}, nothing changes {nothing:.1%}, bandwidth {bandwidth:.1%}; "
        f"{np.mean(held):.0%} of the ranges hold"
    )


if __name__ == "__main__":
    main()
