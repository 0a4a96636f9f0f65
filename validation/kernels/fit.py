"""Fit how long a kernel of a class takes on another GPU, from operations that others timed on eight
GPUs.

    python validation/kernels/fit.py TABLE.parquet            # residuals, also with each GPU left out
    python validation/kernels/fit.py TABLE.parquet --write    # and the two tables of the program

The table is that of NeuSight (Lee et al., ASPLOS 2025), packed with the columns op, dims, device,
kernel, blocks, threads, ms.  Times below 0.2 ms hold too much of an operation's start and are left
out.  The formula is `turnbuckle.cost.kernel_class`; only its constants are fitted here, by least
absolute residuals, each combination of an operation and two GPUs with the same weight.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.cost.kernel_class import WORK, filled, weights, work
from turnbuckle.machine import load
from turnbuckle.projection.elsewhere.classes import REACHED

SOURCE = (
    "NeuSight (Lee et al., ASPLOS 2025), measured operations of PyTorch 2.1, FP32 without tensor "
    "cores"
)
PLACE = Path(__file__).resolve().parents[2] / "src" / "turnbuckle" / "foundation" / "schema"
SHORTEST_MS = 0.2
#: Device of the table -> machine of the catalogue.
MACHINES = {
    "Tesla P4": "p4",
    "Tesla P100-PCIE-16GB": "p100-pcie",
    "Tesla T4": "t4",
    "Tesla V100-PCIE-32GB": "v100-pcie-32",
    "NVIDIA A100-PCIE-40GB": "a100-pcie-40",
    "NVIDIA A100 80GB PCIe": "a100-pcie-80",
    "AMD Instinct MI100": "mi100",
    "AMD Instinct MI210": "mi210",
}
#: Class and layout of the program, and the operations, the kernels' names, and the devices that
#: they are fitted on.  The A100 of 80 GB ran convolutions alone.
CLASSES = {
    ("elementwise", ""): ("add|addu|div|divu|gelu|mul|mulu|pow|powu|relu|tanh", "", ""),
    ("normalisation", ""): ("softmax|ln", "", ""),
    ("matrix product", "tn"): ("linear|bmm|conv", "_tn", "PCIE|Tesla"),
    ("matrix product", "nn"): ("linear|bmm|conv", "_nn", "PCIE|Tesla"),
    ("convolution", ""): ("conv", "scudnn", ""),
}
#: Weight of the difference of neighbouring offsets, of all pairs': where a time has few pairs, its
#: offset is near its neighbour's.
SMOOTH = 0.002
#: Shares of memory that are tried.
SHARES = np.arange(0.0, 1.05, 0.1)
#: Offsets of a device.
NUMBERS = len(WORK) + 1
#: Class, layout, what was asked, pairs, relative error in the median and the mean, log-sd that
#: holds 90 of 100.
RESIDUALS: list[list[str | int]] = []
REACH = 1.6448536269514722
Floats = NDArray[np.float64]


@dataclass
class Pairs:
    """Operations on two GPUs: device of each, log of the ratio of times, and what the formula
    reads; shapes (pairs,).
    """

    source: NDArray[np.str_]
    target: NDArray[np.str_]
    seconds: Floats
    ratio: Floats
    memory: Floats
    compute: Floats
    from_memory: Floats
    from_compute: Floats
    full: Floats
    blocks: Floats
    weight: Floats

    def rows(self, chosen: NDArray[np.bool_]) -> Pairs:
        """Return some of the pairs."""
        return Pairs(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))

    def rule(self, share: float) -> Floats:
        """Return the log ratio that bandwidth and peak alone give."""
        return share * self.memory + (1.0 - share) * self.compute

    def weights(self, share: float) -> Floats:
        """Return the weights of the offsets of each, as `turnbuckle.cost.kernel_class.weights` has
        them.
        """
        return weights(
            work(self.seconds, np.exp(self.from_memory), np.exp(self.from_compute), share),
            self.blocks,
        )


def pairs(every: pl.DataFrame, operations: str, kernel: str, devices: str) -> Pairs:
    """Return every pair of a class."""
    table = every.filter(pl.col("device").str.contains(devices))
    rows = table.filter(
        pl.col("op").str.contains(f"^({operations})$") & pl.col("kernel").str.contains(kernel)
    )
    joined = rows.join(table, on=["op", "dims"], suffix="_b").filter(
        pl.col("device") != pl.col("device_b")
    )
    joined = joined.with_columns(weight=1.0 / pl.len().over("op", "device", "device_b"))
    rates = {device: _rates(name) for device, name in MACHINES.items()}
    here, there = (np.array([rates[d] for d in joined[c]]) for c in ("device", "device_b"))
    blocks = joined["blocks"].to_numpy().astype(np.float64)
    reference = np.array(_rates("v100-pcie-32"))
    return Pairs(
        joined["device"].to_numpy().astype(str),
        joined["device_b"].to_numpy().astype(str),
        joined["ms"].to_numpy().astype(np.float64) * 1e-3,
        np.log(joined["ms_b"].to_numpy() / joined["ms"].to_numpy()).astype(np.float64),
        *(np.log(here[:, k] / there[:, k]) for k in (0, 1)),
        *(np.log(here[:, k] / reference[k]) for k in (0, 1)),
        filled(blocks, here[:, 2]) - filled(blocks, there[:, 2]),
        blocks,
        joined["weight"].to_numpy(),
    )


def _rates(name: str) -> tuple[float, float, float]:
    """Return bandwidth that is reached [B/s], FP32 peak [FLOP/s] and multiprocessors of a
    machine.
    """
    machine = load(name)
    values = [
        machine.value(p) or 0.0
        for p in (
            "gpu.memory_bandwidth",
            "gpu.memory_efficiency",
            "gpu.fp32",
            "gpu.multiprocessors",
        )
    ]
    return values[0] * values[1], values[2], values[3]


@dataclass
class Fit:
    """Constants of a class.

    Attributes
    ----------
    share : what memory decides.
    fill : exponent of the part of the GPU that blocks fill.
    offsets : of each device at `WORK`, and with tenfold blocks, for pairs of which both have some;
        the median over devices is 0.
    """

    share: float
    fill: float
    offsets: dict[str, Floats] = field(default_factory=dict)

    def rule(self, given: Pairs) -> Floats:
        """Return log ratios from bandwidth, peak and blocks alone."""
        return given.rule(self.share) + self.fill * given.full

    def predict(self, given: Pairs) -> Floats:
        """Return log ratios."""
        if not self.offsets:
            return self.rule(given)
        source, target = (
            np.array([self.offsets[d] for d in side]) for side in (given.source, given.target)
        )
        return self.rule(given) + ((target - source) * given.weights(self.share)).sum(axis=-1)


def rule(given: Pairs) -> Fit:
    """Return the share of memory and the exponent of a class that leave the least absolute
    residuals.
    """
    fits = []
    for share in SHARES:
        left = given.ratio - given.rule(float(share))
        fill = float(np.clip(_least_absolute(given.full[:, None], left, given.weight)[0], 0.0, 1.0))
        fits.append(
            (
                float(np.average(np.abs(left - fill * given.full), weights=given.weight)),
                Fit(float(share), fill),
            )
        )
    return min(fits, key=lambda each: each[0])[1]


def with_offsets(given: Pairs, by_rule: Fit) -> Fit:
    """Return the constants with what the class takes longer on each device."""
    devices = sorted(set(given.target))
    here = given.weights(by_rule.share)
    design = np.concatenate(
        [
            here * ((given.target == d) * 1.0 - (given.source == d) * 1.0)[:, None]
            for d in devices[1:]
        ],
        axis=1,
    )
    steps = np.kron(np.eye(len(devices) - 1), np.diff(np.eye(len(WORK), NUMBERS), axis=0))
    weight = np.append(given.weight, np.full(len(steps), SMOOTH * given.weight.sum()))
    wanted = np.append(given.ratio - by_rule.rule(given), np.zeros(len(steps)))
    found = _least_absolute(np.concatenate([design, steps]), wanted, weight).reshape(-1, NUMBERS)
    table = dict(zip(devices, [np.zeros(NUMBERS), *found], strict=True))
    middle = np.median(np.array(list(table.values())), axis=0)
    return replace(by_rule, offsets={d: row - middle for d, row in table.items()})


def _least_absolute(design: Floats, wanted: Floats, weight: Floats) -> Floats:
    """Return coefficients by least squares that are weighted again until they are those of least
    absolute residuals.
    """
    scale, found = np.sqrt(weight), np.zeros(design.shape[1])
    for _ in range(15):
        found = np.linalg.lstsq(design * scale[:, None], wanted * scale, rcond=None)[0]
        scale = np.sqrt(weight / np.maximum(np.abs(wanted - design @ found), 0.03))
    return found


def quantile(values: Floats, weight: Floats, share: float) -> float:
    """Return a weighted quantile."""
    order = np.argsort(values)
    reached = np.cumsum(weight[order])
    return float(values[order][min(np.searchsorted(reached, reached[-1] * share), len(order) - 1)])


def off(predicted: Floats, given: Pairs) -> tuple[float, float, float]:
    """Return relative errors, median and mean, and the log-sd whose 90 % range holds 90 of 100."""
    apart = np.abs(predicted - given.ratio)
    relative = np.abs(np.exp(predicted - given.ratio) - 1.0)
    mean = float(np.average(relative, weights=given.weight))
    return quantile(relative, given.weight, 0.5), mean, quantile(apart, given.weight, 0.9) / REACH


def vendor_apart(given: Pairs) -> NDArray[np.bool_]:
    """Return which pairs are of two vendors."""
    return np.char.startswith(given.source, "AMD") != np.char.startswith(given.target, "AMD")


def fitted(table: pl.DataFrame) -> Iterator[tuple[str, str, Fit, dict[str, float]]]:
    """Yield class, layout, constants and errors of each class; print the residuals."""
    for (word, layout), chosen in CLASSES.items():
        every = pairs(table, *chosen)
        apart = vendor_apart(every)
        one = every.rows(~apart)
        by_rule = rule(one)
        constants = by_rule if word == "elementwise" else with_offsets(one, by_rule)
        known, unseen = off(constants.predict(one), one), left_out(one)
        errors = {"error": known[2], "error_other": max(unseen[2], known[2])}
        print(
            f"{word} {layout}: share of memory {by_rule.share:.1f}, fill {by_rule.fill:.2f}, "
            f"{len(one.ratio)} pairs"
        )
        bandwidth, mean = one.rule(1.0), one.rule(0.5)
        said = {
            "GPUs measured": known,
            "each left out": unseen,
            "rule alone": off(by_rule.rule(one), one),
        }
        plain = {
            "nothing changes": off(np.zeros_like(bandwidth), one),
            "bandwidth": off(bandwidth, one),
            "geometric mean": off(mean, one),
        }
        for label, numbers in (said | plain).items():
            print(
                f"    {label:16s} off {numbers[0]:.1%} median {numbers[1]:.1%} mean; log-sd "
                f"{numbers[2]:.3f}"
            )
            RESIDUALS.append(
                [word, layout, label, len(one.ratio), *(f"{number:.3f}" for number in numbers)]
            )
        if apart.any():
            two = every.rows(apart)
            numbers = off(by_rule.rule(two), two)
            errors["error_vendor"] = numbers[2]
            print(
                f"    two vendors      off {numbers[0]:.1%} median {numbers[1]:.1%} mean; "
                f"log-sd {numbers[2]:.3f}"
            )
            RESIDUALS.append(
                [
                    word,
                    layout,
                    "two vendors",
                    len(two.ratio),
                    *(f"{number:.3f}" for number in numbers),
                ]
            )
        yield word, layout, constants, errors


def unstated(given: Pairs, device: str) -> Pairs:
    """Return pairs as if nobody had measured what share of its bandwidth a device reaches."""
    more = np.log(REACHED / (load(MACHINES[device]).value("gpu.memory_efficiency") or REACHED))
    on = (given.source == device) * more
    return replace(
        given,
        memory=given.memory + on - (given.target == device) * more,
        from_memory=given.from_memory + on,
    )


def left_out(given: Pairs) -> tuple[float, float, float]:
    """Return the errors of pairs with a GPU that no constant was fitted on and whose memory nobody
    measured, each GPU in turn.
    """
    chosen = [
        (given.source == device) | (given.target == device) for device in sorted(set(given.target))
    ]
    devices = [
        (device, rows)
        for device, rows in zip(sorted(set(given.target)), chosen, strict=True)
        if not rows.all()
    ]
    predicted = [
        rule(given.rows(~rows)).rule(unstated(given, device).rows(rows)) for device, rows in devices
    ]
    every = np.concatenate([np.flatnonzero(rows) for _, rows in devices])
    return off(np.concatenate(predicted), given.rows(every))


def main() -> None:
    """Fit, print, and write the tables."""
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("table", type=Path)
    ask.add_argument("--write", action="store_true")
    asked = ask.parse_args()
    table = pl.read_parquet(asked.table).with_columns(
        pl.col("op", "dims", "device", "kernel").cast(pl.String)
    )
    table = table.filter((pl.col("ms") > SHORTEST_MS) & pl.col("device").is_in(list(MACHINES)))
    table = table.unique(["op", "dims", "device"], keep="first", maintain_order=True)
    found = list(fitted(table))
    if asked.write:
        write(found)


def write(found: list[tuple[str, str, Fit, dict[str, float]]]) -> None:
    """Write the offsets, and put the constants into the table of classes, whose other rows stay."""
    place = PLACE / "kernels/classes.csv"
    with place.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for word, layout, constants, errors in found:
        (row,) = (
            r
            for r in rows
            if (r["class"], r["layout"], r["precision"])
            == (word, layout, "fp32" if layout or word == "convolution" else "")
        )
        row.update(
            memory=f"{constants.share:.1f}",
            fill=f"{constants.fill:.2f}",
            **{name: f"{v:.3f}" for name, v in errors.items()},
        )
    with place.open("w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        out.writeheader()
        out.writerows(rows)
    with Path(__file__).with_name("residuals.csv").open("w", newline="", encoding="utf-8") as file:
        plain = csv.writer(file, lineterminator="\n")
        plain.writerows(
            [["class", "layout", "rule", "pairs", "median", "mean", "log_sd"], *RESIDUALS]
        )
    with (PLACE / "kernels/offsets.csv").open("w", newline="", encoding="utf-8") as file:
        plain = csv.writer(file, lineterminator="\n")
        plain.writerow(
            [
                "class",
                "layout",
                "family",
                "multiprocessors",
                "memory_bandwidth",
                *(f"{s * 1e3:g} ms" for s in WORK),
                "tenfold blocks",
                "device",
                "source",
            ]
        )
        for word, layout, constants, _ in found:
            for device, offsets in constants.offsets.items():
                machine = load(MACHINES[device])
                chip = (
                    machine.family,
                    f"{machine.value('gpu.multiprocessors'):g}",
                    f"{machine.value('gpu.memory_bandwidth'):.4g}",
                )
                plain.writerow(
                    [
                        word,
                        layout,
                        *chip,
                        *(f"{v:.3f}" for v in offsets),
                        re.sub("^NVIDIA |^AMD ", "", device),
                        SOURCE,
                    ]
                )


if __name__ == "__main__":
    main()
