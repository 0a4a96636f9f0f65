"""Fit how long a kernel of a class takes on another GPU, from operations that others timed on eight
GPUs.

    python validation/kernels/fit.py TABLE.parquet            # residuals, also with each GPU left out
    python validation/kernels/fit.py TABLE.parquet --write    # and the three tables of the program

The table is that of NeuSight (Lee et al., ASPLOS 2025), packed with the columns op, dims, device,
kernel, blocks, threads, ms.  Times below 0.2 ms hold too much of an operation's start and are left
out.  The formula is `turnbuckle.cost.kernel_class`; only its constants are fitted here, by least
absolute residuals, each combination of an operation and two GPUs with the same weight, which its
kernels share.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.cost.kernel_class import ORDERS, TILE, filled, held_by_power, offset, weights, work
from turnbuckle.machine import load
from turnbuckle.profile.kernels import kind_by_name
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
#: Weight of an offset's numbers of second order, of all pairs': where a GPU has few shapes, its
#: offset is flat.
FLAT = 0.002
#: Shares of memory, and works from which on power alone decides [s], that are tried.
SHARES = np.arange(0.0, 1.05, 0.1)
POWER = (20e-3, 5e-3)
#: Classes that power holds.  Products of matrices as they lie and convolutions are short, and on
#: GPUs left out better without it: 16 for 17 and 18 for 19 %.
HELD = {("matrix product", "tn")}
#: Family of a GPU -> what its chips are made by.
PROCESSES = {"6.0": "16 nm", "6.1": "16 nm", "7.0": "12 nm", "7.5": "12 nm", "8.0": "7 nm"}
#: FP32 operations a joule that are tried.
JOULE = np.geomspace(20e9, 120e9, 19)
#: Numbers of an offset that are of first order.
FIRST = 3
#: Class, layout, what was asked, pairs, relative error in the median and the mean, log-sd that
#: holds 90 of 100.
RESIDUALS: list[list[str | int]] = []
#: The same of each GPU that was left out, as the card prints it.
BY_GPU: list[list[str | int]] = []
HEAD = [
    "class",
    "layout",
    "gpu",
    "pairs",
    "median",
    "mean",
    "nothing",
    "bandwidth",
    "held",
    "width",
]
CARD = PLACE.parents[1] / "questions" / "validate" / "measured" / "kernels.csv"
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
    tiles: Floats
    weight: Floats

    def rows(self, chosen: NDArray[np.bool_]) -> Pairs:
        """Return some of the pairs."""
        return Pairs(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))

    def rule(self, share: float) -> Floats:
        """Return the log ratio that bandwidth and peak alone give."""
        return share * self.memory + (1.0 - share) * self.compute

    def work(self, share: float) -> Floats:
        """Return the work of each [s on the reference]."""
        return work(self.seconds, np.exp(self.from_memory), np.exp(self.from_compute), share)

    def slower(self, joule: dict[str, float]) -> Floats:
        """Return the log ratio of what power leaves of the peaks, for operations a joule by
        process; peaks stand where a process has none.
        """
        left = {device: np.log(_sustained(device, joule)) for device in MACHINES}
        here, there = (
            np.array([left[device] for device in side]) for side in (self.source, self.target)
        )
        return here - there


def pairs(every: pl.DataFrame, operations: str, kernel: str, devices: str) -> Pairs:
    """Return every pair of a class."""
    table = every.filter(pl.col("device").str.contains(devices))
    rows = table.filter(pl.col("op").str.contains(f"^({operations})$"))
    joined = rows.join(table, on=["op", "dims"], suffix="_b").filter(
        pl.col("device") != pl.col("device_b")
    )
    joined = joined.with_columns(weight=1.0 / pl.len().over("op", "device", "device_b"))
    joined = joined.filter(pl.col("kernel").str.contains(kernel))
    rates = {device: _rates(name) for device, name in MACHINES.items()}
    here, there = (np.array([rates[d] for d in joined[c]]) for c in ("device", "device_b"))
    blocks = joined["blocks"].to_numpy().astype(np.float64)
    tile = {name: kind_by_name(name).tile or TILE for name in joined["kernel"].unique()}
    tiles = blocks * np.array([tile[name] for name in joined["kernel"]]) / TILE
    reference = np.array(_rates("v100-pcie-32"))
    return Pairs(
        joined["device"].to_numpy().astype(str),
        joined["device_b"].to_numpy().astype(str),
        joined["ms"].to_numpy().astype(np.float64) * 1e-3,
        np.log(joined["ms_b"].to_numpy() / joined["ms"].to_numpy()).astype(np.float64),
        *(np.log(here[:, k] / there[:, k]) for k in (0, 1)),
        *(np.log(here[:, k] / reference[k]) for k in (0, 1)),
        filled(blocks, here[:, 2]) - filled(blocks, there[:, 2]),
        tiles,
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


def _sustained(device: str, joule: dict[str, float]) -> float:
    """Return the share of its peak that a device's power sustains."""
    machine = load(MACHINES[device])
    limit, peak = machine.value("gpu.power"), machine.value("gpu.fp32")
    process = PROCESSES.get(machine.family or "", "")
    if process not in joule or limit is None or peak is None:
        return 1.0
    return min(joule[process] * limit / peak, 1.0)


#: Pairs with a GPU that was left out, and log ratios predicted of them, by that GPU.
LeftOut = dict[str, tuple[Pairs, Floats]]


@dataclass
class Fit:
    """Constants of a class.

    Attributes
    ----------
    share : what memory decides.
    fill : exponent of the part of the GPU that blocks fill.
    power : work from which on power alone decides arithmetic [s].
    joule : operations a joule by process.
    offsets : of each device by `ORDERS`; the mean over the devices of a vendor is 0, and a device
        without one takes that.
    """

    share: float
    fill: float
    power: float
    joule: dict[str, float]
    offsets: dict[str, Floats] = field(default_factory=dict)

    def rates(self, given: Pairs) -> Floats:
        """Return log ratios from bandwidth, peak and power alone."""
        lasts = held_by_power(given.work(self.share), self.power) * given.slower(self.joule)
        return given.rule(self.share) + (1.0 - self.share) * lasts

    def rule(self, given: Pairs) -> Floats:
        """Return log ratios from rates and blocks alone."""
        return self.rates(given) + self.fill * given.full

    def weights(self, given: Pairs) -> Floats:
        """Return the weights of an offset's numbers."""
        return weights(given.work(self.share), given.tiles)

    def predict(self, given: Pairs) -> Floats:
        """Return log ratios."""
        if not self.offsets:
            return self.rule(given)
        nothing, at = np.zeros(len(ORDERS)), self.weights(given)
        source, target = (
            offset(np.array([self.offsets.get(d, nothing) for d in side]), at)
            for side in (given.source, given.target)
        )
        return self.rule(given) + target - source


def rule(given: Pairs, joule: dict[str, float], held: bool) -> Fit:
    """Return the share of memory, the exponent and the power of a class that leave the least
    absolute residuals.
    """
    fits = []
    for share, power in product(SHARES, POWER if held else (np.inf,)):
        tried = Fit(float(share), 0.0, power, joule)
        left = given.ratio - tried.rates(given)
        fill = float(np.clip(_least_absolute(given.full[:, None], left, given.weight)[0], 0.0, 1.0))
        error = float(np.average(np.abs(left - fill * given.full), weights=given.weight))
        fits.append((error, replace(tried, fill=fill)))
    return min(fits, key=lambda each: each[0])[1]


def sustained(given: Pairs) -> dict[str, float]:
    """Return the operations a joule of each process that leave the least absolute residuals of
    products of layers.
    """
    devices = set(given.source)
    found = {
        process: float(JOULE[-1])
        for family, process in PROCESSES.items()
        if devices & {d for d, name in MACHINES.items() if load(name).family == family}
    }
    for process in (*found, *found):

        def error(joule: float, process: str = process) -> float:
            tried = Fit(0.0, 0.0, POWER[-1], found | {process: joule})
            return float(np.average(np.abs(given.ratio - tried.rates(given)), weights=given.weight))

        found[process] = float(min(JOULE, key=error))
    return found


def with_offsets(given: Pairs, by_rule: Fit) -> Fit:
    """Return the constants with what the class takes longer on each device."""
    devices = sorted(set(given.target))
    here = by_rule.weights(given)
    design = np.concatenate(
        [
            here * ((given.target == d) * 1.0 - (given.source == d) * 1.0)[:, None]
            for d in devices[1:]
        ],
        axis=1,
    )
    flat = np.kron(np.eye(len(devices) - 1), np.eye(len(ORDERS))[FIRST:])
    weight = np.append(given.weight, np.full(len(flat), FLAT * given.weight.sum()))
    wanted = np.append(given.ratio - by_rule.rule(given), np.zeros(len(flat)))
    found = _least_absolute(np.concatenate([design, flat]), wanted, weight)
    table = dict(
        zip(devices, [np.zeros(len(ORDERS)), *found.reshape(-1, len(ORDERS))], strict=True)
    )
    amd = {d: d.startswith("AMD") for d in devices}
    middle = {
        side: np.mean([row for d, row in table.items() if amd[d] == side], axis=0)
        for side in set(amd.values())
    }
    return replace(by_rule, offsets={d: row - middle[amd[d]] for d, row in table.items()})


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
    layers = pairs(table, *CLASSES["matrix product", "tn"])
    joule = sustained(layers)
    without = {
        device: sustained(layers.rows((layers.source != device) & (layers.target != device)))
        for device in MACHINES
    }
    print("operations a joule: " + ", ".join(f"{p} {e:.3g}" for p, e in joule.items()))
    for (word, layout), chosen in CLASSES.items():
        every = pairs(table, *chosen)
        apart = vendor_apart(every)
        one = every.rows(~apart)
        held = (word, layout) in HELD
        by_rule = rule(one, joule, held)
        own = word != "elementwise"
        constants = with_offsets(one, by_rule) if own else by_rule
        alone = left_out(one, without, held, own)
        BY_GPU.extend(by_gpu(word, layout, alone))
        known, unseen = off(constants.predict(one), one), together(alone)
        errors = {"error": known[2], "error_other": max(unseen[2], known[2])}
        print(
            f"{word} {layout}: share of memory {by_rule.share:.1f}, fill {by_rule.fill:.2f}, "
            f"power from {by_rule.power * 1e3:g} ms, {len(one.ratio)} pairs"
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


def left_out(
    given: Pairs, joule: dict[str, dict[str, float]], held: bool, with_own: bool
) -> LeftOut:
    """Return pairs with a GPU that no constant was fitted on and whose memory nobody measured, and
    the log ratios predicted of them, each GPU in turn; operations a joule without it are given.
    """
    out = {}
    for device in sorted(set(given.target)):
        rows = (given.source == device) | (given.target == device)
        if rows.all():
            continue
        rest = given.rows(~rows)
        constants = rule(rest, joule[device], held)
        if with_own and len(set(rest.source)) > 1:
            constants = with_offsets(rest, constants)
        chosen = given.rows(rows)
        out[device] = chosen, constants.predict(unstated(chosen, device))
    return out


def together(unseen: LeftOut) -> tuple[float, float, float]:
    """Return the errors of all pairs of which one GPU was left out."""
    given, predicted = zip(*unseen.values(), strict=True)
    every = Pairs(
        *(np.concatenate([getattr(g, n) for g in given]) for n in Pairs.__dataclass_fields__)
    )
    return off(np.concatenate(predicted), every)


def by_gpu(word: str, layout: str, unseen: LeftOut) -> Iterator[list[str | int]]:
    """Yield what `turnbuckle validate --card` prints of each GPU that was left out: errors of the
    kernels on it, beside simpler rules, and how many lie in a range as wide as the other GPUs' own
    errors ask for when they are left out.
    """
    for device, (given, predicted) in unseen.items():
        others = {name: pairs for name, pairs in unseen.items() if name != device}
        onto = given.target == device
        if not others or not onto.any():
            continue
        width = together(others)[2] * REACH
        rows, said = given.rows(onto), predicted[onto]
        inside = np.abs(said - rows.ratio) <= width
        held = float(np.average(inside, weights=rows.weight))
        plain = (off(said, rows), off(np.zeros_like(said), rows), off(rows.rule(1.0), rows))
        errors = (plain[0][0], plain[0][1], plain[1][0], plain[2][0], held, np.exp(2.0 * width))
        yield [word, layout, MACHINES[device], len(said), *(f"{v:.3f}" for v in errors)]


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
        with CARD.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([HEAD, *BY_GPU])
        write_power(next(constants.joule for _, _, constants, _ in found))


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:g}" if np.isfinite(seconds) else ""


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
            **{"power ms": _ms(constants.power)},
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
                *ORDERS,
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


def write_power(joule: dict[str, float]) -> None:
    """Put the operations a joule into their table, whose other rows stay."""
    place = PLACE / "kernels/power.csv"
    with place.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        process = PROCESSES.get(row["family"].split()[0])
        if process in joule:
            row["operations a joule"] = f"{joule[process]:.2g}"
    with place.open("w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        out.writeheader()
        out.writerows(rows)


if __name__ == "__main__":
    main()
