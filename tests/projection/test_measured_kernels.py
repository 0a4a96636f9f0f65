"""Kernels of public benchmarks on two GPUs of one vendor, against the ratio that a projection gives them.

The figures are those of docs/models/kernels.md.  Nothing was chosen by them: sizes are powers of two, block sizes all that both files have.
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from turnbuckle.foundation.arrays import Float
from turnbuckle.machine import Pair, load
from turnbuckle.profile.kernels import KernelKind
from turnbuckle.projection.elsewhere.kernels import basis_of, kernels_longer
from turnbuckle.projection.elsewhere.priors import Draws
from turnbuckle.projection.uncertainty import DRAWS, SEED, drawn_source, drawn_target

#: Elements of double precision, each read once and written once.
ELEMENTS = tuple(1 << power for power in (20, 21, 22, 23, 24))
THREADS = (32, 64, 128, 256, 512, 1024)
FILES = {"a100-sxm4-80": "a100_80.txt", "h200-sxm": "h200.txt"}


def scale_seconds(shared: Path, machine: str) -> dict[tuple[int, int], float]:
    """Time of an element by about how many there are and threads a block: te42kyfo/gpu-benches, gpu-small-kernels, SCALE.

    A line has the elements, their volume, and a rate [GB/s] for each size of blocks; sizes double up to 1,024 threads.
    """
    lines = (shared / "traces/measured/kernel_launch_overhead" / FILES[machine]).read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if line.strip()]
    count = np.array([int(row[0]) for row in rows])
    out = {}
    for elements, threads in product(ELEMENTS, THREADS):
        nearest = rows[int(np.argmin(np.abs(count - elements)))]
        out[elements, threads] = 16 / (float(nearest[2:][int(np.log2(threads)) - 11]) * 1e9)
    return out


def predicted(source: str, target: str, kind: KernelKind) -> tuple[str, Float]:
    """What the time rests on; middle, low and high of time on the target over time on the source."""
    pair = Pair(load(source), load(target))
    drawn = drawn_source(pair.source, DRAWS, SEED)
    middle = kernels_longer([kind], pair, pair.source, pair.target, Draws())
    sample = kernels_longer([kind], pair, drawn, drawn_target(pair.target, pair.target, drawn, DRAWS, SEED), Draws(DRAWS, SEED))
    assert middle is not None and sample is not None
    return basis_of(kind, pair), np.array([middle[0], *np.quantile(sample, [0.05, 0.95])])


@pytest.mark.parametrize(
    ("source", "target", "off", "unchanged", "off_large"),
    [("a100-sxm4-80", "h200-sxm", 0.247, 0.554, 0.072), ("h200-sxm", "a100-sxm4-80", 0.361, 0.341, 0.077)],
)
def test_scale_by_its_launches(shared: Path, source: str, target: str, off: float, unchanged: float, off_large: float) -> None:
    """Half of the launches are told: those of 128 threads and more on data that no cache holds, no small blocks and no short kernels."""
    before, after = (scale_seconds(shared, machine) for machine in (source, target))
    errors, bare, held = {}, {}, {}
    for (elements, threads), seconds in before.items():
        measured = after[elements, threads] / seconds
        basis, (middle, low, high) = predicted(source, target, KernelKind(blocks=elements // threads + 1, threads=threads, registers=16))
        assert basis == "launch geometry"
        errors[elements, threads], bare[elements, threads] = abs(middle / measured - 1), abs(1 / measured - 1)
        held[elements, threads] = low <= measured <= high
    assert np.median([*errors.values()]) == pytest.approx(off, abs=0.02)
    assert np.median([*bare.values()]) == pytest.approx(unchanged, abs=0.02)
    assert sum(held.values()) == 15 and len(held) == 30
    large = [key for key in errors if key[0] >= 1 << 22 and key[1] >= 128]
    assert np.median([errors[key] for key in large]) == pytest.approx(off_large, abs=0.02) and all(held[key] for key in large)


def test_streams_without_a_launch(shared: Path) -> None:
    """BabelStream on Azure's A100 and H100: five kernels that memory alone holds up."""
    rates = []
    for name in ("ND_A100_v4", "ND_H100_v5"):
        text = (shared / f"traces/measured/azure_nd_a100_h100/{name}_results.md").read_text(encoding="utf-8")
        rates.append([float(re.search(rf"\| {kernel} +\| ([\d.]+)", text)[1]) for kernel in ("Copy", "Mul", "Add", "Triad", "Dot")])  # type: ignore[index]
    measured = np.array(rates[0]) / np.array(rates[1])
    basis, (middle, low, high) = predicted("a100-sxm4-80", "h100-sxm5", KernelKind())
    assert basis == "range of rates" and ((low <= measured) & (measured <= high)).all()
    assert np.abs(middle / measured - 1).max() < 0.1 and np.abs(1 / measured - 1).min() > 0.7
