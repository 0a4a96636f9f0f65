"""Predictor of kernels by waves: a GPU runs as many blocks at once as fit, and the rest wait for
the next wave.

    time of a kernel that computes  ~  ceil(blocks / (m k)) k m / F        m multiprocessors, k blocks that fit one, F [FLOP/s]
    time of one that waits for data ~  1 / B                               B bandwidth of the memory [B/s]

Nothing recorded says which of the two a kernel is.  So the ratio of both GPUs is the geometric mean
of the two ratios, and its error half the distance between their logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import polars as pl

from turnbuckle import Machine
from turnbuckle.machine.parameter_names import ParameterName


def predict(
    kernels: pl.DataFrame, source: Machine, target: Machine
) -> Iterator[tuple[str, float, float]]:
    """Yield name, how many times faster on the target, and relative error of each kernel.

    A kernel whose launch is not recorded, or that does not fit a GPU, is left out; so are all
    kernels where a machine file lacks a number.  Turnbuckle then tells them as without a predictor.
    """
    memory = (source.value("gpu.memory_bandwidth"), target.value("gpu.memory_bandwidth"))
    if not all(memory):
        return
    by_memory = math.log(memory[1] / memory[0])  # type: ignore[operator]
    for kernel in kernels.iter_rows(named=True):
        before, after = (time_computing(kernel, machine) for machine in (source, target))
        if before is None or after is None:
            continue
        by_waves = math.log(before / after)
        yield kernel["name"], math.exp((by_waves + by_memory) / 2), abs(by_waves - by_memory) / 2


def time_computing(kernel: dict[str, Any], machine: Machine) -> float | None:
    """Return a time that is proportional to that of a kernel which computes; None where it cannot
    be told.
    """
    rate, multiprocessors = machine.value("gpu.fp32"), machine.value("gpu.multiprocessors")
    resident = blocks_of_multiprocessor(kernel, machine)
    blocks = int(kernel["blocks"])
    if rate is None or multiprocessors is None or not resident or not blocks:
        return None
    return math.ceil(blocks / (multiprocessors * resident)) * resident * multiprocessors / rate


def blocks_of_multiprocessor(kernel: dict[str, Any], machine: Machine) -> int | None:
    """Return how many blocks of a kernel fit one multiprocessor; None where the machine file or the
    launch does not say.
    """
    needs: dict[ParameterName, int] = {
        "gpu.blocks": 1,
        "gpu.threads": kernel["threads"],
        "gpu.registers": kernel["registers"] * kernel["threads"],
        "gpu.shared_memory": kernel["shared_bytes"],
    }
    held = {name: machine.value(name) for name in needs}
    if not kernel["threads"] or None in held.values():
        return None
    return int(min(held[name] // need for name, need in needs.items() if need))  # type: ignore[operator]
