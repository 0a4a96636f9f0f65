"""Hold the catalogue's GH200, and kernels on host memory, against what others measured on one.

    python validation/grace_hopper.py TABLES

TABLES: a folder with gemm.csv, memory.csv, latency.csv and allocation.csv, made from the raw
repeats of ntua-el20062/grace-hopper-benchmark at 505e82c (one GH200, 96 GB HBM3, 480 GB LPDDR5X).
Every prediction is the program's own: one copy of a size recorded on an A100, asked on the machine
file of `gh200`; rates and latencies of that file; `product_longer` for a product of n x n. Prints
the middle and the 90 % range beside what was measured, and how many lie inside.

Fitted on these tables: the widths of products (`WIDTHS`, on two thirds of the sizes of gemm.csv),
and, as one of four sources, the rate of copies to the device.  Nothing else.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Float
from turnbuckle.machine import Pair, load
from turnbuckle.machine.parameter_names import ParameterName
from turnbuckle.projection.elsewhere.drawn import drawn_source
from turnbuckle.projection.elsewhere.host_reads import link_rate, product_longer
from turnbuckle.projection.elsewhere.kernels import PEAKS
from turnbuckle.projection.elsewhere.priors import Draws
from turnbuckle.projection.model import Port, nething
from turnbuckle.projection.order import Prepared
from turnbuckle.projection.uncertainty import DRAWS, SEED, Uncertain, copy_seconds_of
from turnbuckle.questions.transfers.question import each_copy

SOURCE, TARGET = load("a100-sxm4-40"), load("gh200")
TAILS = (0.05, 0.5, 0.95)
#: From here on no cache of the GPU or the CPU holds a part of a buffer worth counting [B].
LARGE = 256_000_000
#: Products shorter than this take what launches take.
SMALLEST_SIDE = 500
PRECISIONS = {"double": "fp64", "float": "fp32", "tf32": "tf32", "half": "fp16"}


@dataclass(frozen=True)
class Held:
    """One measured number beside its prediction, in one unit."""

    what: str
    measured: float
    low: float
    middle: float
    high: float

    @property
    def inside(self) -> bool:
        """Return whether the measured number lies in the range."""
        return self.low <= self.measured <= self.high


def copies(sizes: Sequence[int], direction: str, memory: str, port: Port) -> Float:
    """Return low, middle and high rates [GB/s] of copies of one class on the target, shape (3,
    sizes).
    """
    rows = pl.DataFrame(
        {"direction": direction, "memory": memory, "size_bytes": [float(s) for s in sizes]}
    )
    question = Uncertain(Prepared(each_copy(rows), 0.0), SOURCE, {}, DRAWS, SEED, recorded=False)
    pair = Pair(SOURCE, TARGET)
    seconds = copy_seconds_of(question, TARGET, pair, nething(port=port), Draws(DRAWS, SEED))
    return np.asarray(np.array(sizes) / np.quantile(seconds, TAILS[::-1], axis=0) / 1e9)


def held_copies(folder: Path) -> Iterator[Held]:
    """Yield copies by the driver, and what kernels read and write over the link without a copy."""
    allocation = pl.read_csv(folder / "allocation.csv").filter(what="cudaMemcpy")
    for placement, direction, memory in (
        ("cudaMallocHost -> cudaMalloc", "h2d", "pinned"),
        ("ddr -> cudaMalloc", "h2d", "pageable"),
        ("cudaMalloc -> cudaMallocHost", "d2h", "pinned"),
        ("cudaMalloc -> ddr", "d2h", "pageable"),
    ):
        (rate,) = allocation.filter(placement=placement)["median"]
        low, middle, high = copies([8 << 30], direction, memory, "as-is")[:, 0]
        yield Held(f"cudaMemcpy of 8 GiB, {placement} [GB/s]", rate, low, middle, high)
    memory_table = pl.read_csv(folder / "memory.csv").filter(pl.col("size") >= LARGE)
    for what, placement, direction in (
        ("read by GPU", "ddr", "h2d"),
        ("copy by GPU", "ddr -> hbm", "h2d"),
        ("write by GPU", "ddr", "d2h"),
        ("copy by GPU", "hbm -> ddr", "d2h"),
    ):
        rows = memory_table.filter(what=what, placement=placement)
        ranges = copies(rows["size"].to_list(), direction, "pinned", "zero-copy").T
        for size, rate, ends in zip(rows["size"], rows["median"], ranges, strict=True):
            yield Held(f"kernel, {what}, {placement}, {size / 1e6:,.0f} MB [GB/s]", rate, *ends)


def stated(*names: ParameterName, scale: float) -> tuple[float, float, float]:
    """Return the range of a product of numbers of the machine file, in another unit."""
    drawn = drawn_source(TARGET, Draws(DRAWS, SEED))
    values = [value for name in names if (value := drawn.value(name)) is not None]
    low, middle, high = np.quantile(np.prod(np.broadcast_arrays(*values), axis=0), TAILS) * scale
    return float(low), float(middle), float(high)


def held_numbers(folder: Path) -> Iterator[Held]:
    """Yield device memory, and the trip of one load over the link."""
    memory = pl.read_csv(folder / "memory.csv").filter(pl.col("size") >= LARGE, placement="hbm")
    bandwidth = stated("gpu.memory_bandwidth", "gpu.memory_efficiency", scale=1e-9)
    for what in ("read by GPU", "write by GPU"):
        for size, rate in memory.filter(what=what).select("size", "median").iter_rows():
            yield Held(f"{what}, hbm, {size / 1e6:,.0f} MB [GB/s]", rate, *bandwidth)
    chases = pl.read_csv(folder / "latency.csv").filter(
        what="read chase by one GPU thread", placement="ddr"
    )
    for size, step in chases.filter(pl.col("size") > 100_000).select("size", "median").iter_rows():
        yield Held(
            f"load of a GPU, ddr, {size / 1e6:,.1f} MB [ns]",
            step,
            *stated("link.round_trip", scale=1e9),
        )


def held_products(folder: Path) -> Iterator[Held]:
    """Yield how many times longer each product takes with operands in host memory, by its size."""
    table = pl.read_csv(folder / "gemm.csv").filter(pl.col("side") >= SMALLEST_SIDE)
    link = link_rate(TARGET)
    assert link is not None
    keys = ("precision", "size", "side", "n")
    for (precision, _, side, _), rows in table.group_by(keys, maintain_order=True):
        rates = dict(zip(rows["placement"], rows["median"], strict=True))
        own = rates.get("hbm_hbm_hbm")
        for placement in ("ddr_hbm_hbm", "hbm_ddr_hbm", "ddr_ddr_hbm"):
            if own is None or placement not in rates:
                continue
            operands = placement.count("ddr")
            least, most = product_longer(own * 1e9, PRECISIONS[str(precision)], operands, link)
            low, high = float(least), float(most)
            what = f"{precision}, {operands} in ddr, n = {side}: times as long"
            yield Held(what, own / rates[placement], low, (low * high) ** 0.5, high)


def held_bounds(folder: Path) -> Iterator[Held]:
    """Yield the same where a recording tells class and precision alone: from once to the most at
    the peak.
    """
    link = link_rate(TARGET)
    assert link is not None
    for product in held_products(folder):
        precision = PRECISIONS[product.what.partition(",")[0]]
        peak = next(value for name in PEAKS[precision] if (value := TARGET.value(name)) is not None)
        most = float(product_longer(peak, precision, 2, link)[1])
        yield replace(product, low=1.0, middle=most**0.5, high=most)


def told(title: str, held: Iterable[Held], each: bool) -> str:
    """Return what was held against the tables: a line each, or their number, and how many lie
    inside.
    """
    rows = list(held)
    lines = [title]
    if each:
        lines += [
            (
                f"  {r.what:64} {r.measured:8.1f}  {r.middle:8.1f} [{r.low:.1f}, "
                f"{r.high:.1f}]{'' if r.inside else '  OUTSIDE'}"
            )
            for r in rows
        ]
    inside = sum(r.inside for r in rows)
    errors = np.array([abs(np.log(r.middle / r.measured)) for r in rows])
    nothing = np.array([abs(np.log(r.measured)) for r in rows])
    lines.append(
        f"  {inside} of {len(rows)} inside ({inside / len(rows):.0%}); median error "
        f"{np.expm1(np.median(errors)):.0%}"
    )
    if "products" in title:
        lines[-1] += f', of "nothing changes" {np.expm1(np.median(nothing)):.0%}'
    return "\n".join(lines)


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else ""
    )
    parser.add_argument("tables", type=Path, help="folder with the tables")
    parser.add_argument("--each", action="store_true", help="a line for each number")
    asked = parser.parse_args()
    print(told("copies, and kernels on host memory", held_copies(asked.tables), asked.each))
    print(told("memory of the device, loads over the link", held_numbers(asked.tables), asked.each))
    products = list(held_products(asked.tables))
    for precision in PRECISIONS:
        for operands in (1, 2):
            some = [p for p in products if p.what.startswith(f"{precision}, {operands}")]
            print(told(f"products, {precision}, {operands} of 2 operands in ddr", some, asked.each))
    print(told("products, all", products, False))
    print(told("products, of a class and precision alone", held_bounds(asked.tables), False))


if __name__ == "__main__":
    main()
