"""The constants of kernels on another GPU follow from the measurements that they name; the formula
is what the fit fits.
"""

from __future__ import annotations

import csv
import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl
import pytest

from turnbuckle.machine import Pair, load
from turnbuckle.profile.kernels import kind_by_name
from turnbuckle.projection.elsewhere.classes import measured, offsets, rule
from turnbuckle.projection.elsewhere.kernels import kernels_longer
from turnbuckle.projection.elsewhere.priors import Draws

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "src" / "turnbuckle" / "foundation" / "schema"


@pytest.fixture(scope="module")
def fit() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "kernels_fit", ROOT / "validation" / "kernels" / "fit.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_class_says_what_it_rests_on() -> None:
    with (PLACE / "kernels/classes.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["nature"] for row in rows} == {"measured", "assumption"} and all(
        row["source"] for row in rows
    )
    for row in rows:
        assert 0.0 <= float(row["memory"]) <= 1.0 and 0.0 <= float(row["fill"]) <= 1.0
        own, other, vendor = (float(row[name]) for name in ("error", "error_other", "error_vendor"))
        assert 0.05 <= own <= other <= 0.6 and own <= vendor, row["class"]


def test_another_board_with_a_measured_chip_counts_as_measured() -> None:
    product = kind_by_name("volta_sgemm_128x64_tn")
    assert product.layout == "tn" and rule(product) is not None
    for name, known in (
        ("v100-sxm2", True),
        ("a100-sxm4-80", True),
        ("t4", True),
        ("rtx2080ti", False),
        ("gtx1080", False),
        ("mi100", False),
    ):
        assert (offsets(product, load(name)) is not None) == known, name
    assert offsets(kind_by_name("volta_h884gemm_128x64_tn"), load("v100-sxm2")) is None, (
        "tensor cores were not measured"
    )
    relu = kind_by_name("relu_kernel")
    assert measured(relu, Pair(load("t4"), load("p4"))) and not measured(
        relu, Pair(load("t4"), load("l4"))
    )


@pytest.mark.shared
def test_the_program_says_what_the_fit_says(fit: ModuleType, shared: Path) -> None:
    """On a tenth of the pairs of a class: constants that the tables hold, and ratios."""
    table = pl.read_parquet(shared / "measured" / "kernels" / "visible.parquet")
    table = table.with_columns(pl.col("op", "dims", "device", "kernel").cast(pl.String))
    table = table.filter(
        (pl.col("ms") > fit.SHORTEST_MS) & pl.col("device").is_in(list(fit.MACHINES))
    )
    table = table.unique(["op", "dims", "device"], keep="first", maintain_order=True)
    key = ("convolution", "")
    every = fit.pairs(table, *fit.CLASSES[key])
    found = fit.with_offsets(every, fit.rule(every))
    source, target = "Tesla V100-PCIE-32GB", "Tesla T4"
    kind = kind_by_name("cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1")
    held = rule(kind)
    assert held is not None and (held.memory, held.fill) == pytest.approx(
        (found.share, found.fill), abs=0.006
    )
    chosen = every.rows((every.source == source) & (every.target == target))
    some = chosen.rows(np.arange(len(chosen.ratio)) % 50 == 0)
    kinds = [
        replace(kind, seconds=s, blocks=int(b), threads=256)
        for s, b in zip(some.seconds, some.blocks, strict=True)
    ]
    pair = Pair(load(fit.MACHINES[source]), load(fit.MACHINES[target]))
    said = kernels_longer(kinds, pair, pair.source, pair.target, Draws())
    assert said is not None and np.log(said) == pytest.approx(found.predict(some), abs=0.02)
    median, mean, spread = fit.off(found.predict(every), every)
    assert median < 0.12 and mean < 0.16 and spread == pytest.approx(held.error, abs=0.01)
    assert median < 0.6 * fit.off(every.rule(0.5), every)[0], (
        "better than bandwidth and peak by halves"
    )
