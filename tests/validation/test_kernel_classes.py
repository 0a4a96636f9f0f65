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

from turnbuckle.cost.kernel_class import TILE, offset, weights
from turnbuckle.machine import Pair, load
from turnbuckle.profile.kernels import kind_by_name
from turnbuckle.projection.elsewhere import classes
from turnbuckle.projection.elsewhere.classes import measured, offsets, rule, sustained
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


def test_a_long_product_keeps_what_the_power_of_its_board_sustains() -> None:
    """Square products of FP32 took 1.5 to 1.6 times as long on an L4 as on an A100, where memory
    alone says 5.2 and the peaks 0.64 (`validation/kernels/products.csv`).
    """
    assert sustained(load("l4")) < 0.45 and sustained(load("t4")) < 0.6
    assert sustained(load("h100-sxm5")) == sustained(load("v100-sxm2")) == 1.0
    assert sustained(load("rtx3060")) == 1.0, "no power stated"
    pair = Pair(load("a100-pcie-40"), load("l4"))
    layer = replace(kind_by_name("ampere_sgemm_128x64_tn"), blocks=3120, threads=128)
    kinds = [replace(layer, seconds=seconds) for seconds in (1e-4, 50e-3)]
    said = kernels_longer(kinds, pair, pair.source, pair.target, Draws())
    assert said is not None and 1.2 < said[1] < 2.0
    assert said[0] < 0.8 * said[1], "a short one runs before the clock falls"


def test_what_was_measured_here_counts_for_a_gpu_that_was_not_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = Pair(load("a100-pcie-40"), load("h100-pcie"))
    batch = replace(kind_by_name("ampere_sgemm_128x128_nn"), seconds=1e-3, blocks=250, threads=256)
    own = offsets(batch, pair.source)
    assert own is not None and offsets(batch, pair.target) is None
    with_own = kernels_longer([batch], pair, pair.source, pair.target, Draws())
    monkeypatch.setattr(classes, "offsets", lambda *_: None)
    by_rates = kernels_longer([batch], pair, pair.source, pair.target, Draws())
    assert with_own is not None and by_rates is not None
    assert np.log(with_own / by_rates) == pytest.approx(-own[0], abs=0.05)
    assert own[0] > 0.1, "its products took longer than its rates say"


def test_offsets_stay_small_wherever_they_reach() -> None:
    """Numbers of second order do not run away where no kernel was measured."""
    ends = weights(np.array([1e-4, 1e-3, 0.2]).repeat(3), np.tile([20.0, 1000.0, 5e4], 3))
    rows = [row for *_, row in classes._measured()]
    assert max(np.abs(ends @ row).max() for row in rows) > 1.0, "one does by itself"
    assert max(np.abs(offset(row, ends)).max() for row in rows) < 0.81


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
    found = fit.with_offsets(every, fit.rule(every, {}, held=False))
    source, target = "Tesla V100-PCIE-32GB", "Tesla T4"
    kind = kind_by_name("cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1")
    held = rule(kind)
    assert held is not None and (held.memory, held.fill) == pytest.approx(
        (found.share, found.fill), abs=0.006
    )
    of_one_tile = fit.pairs(table, "conv", "scudnn_128x64_relu", "")
    chosen = of_one_tile.rows((of_one_tile.source == source) & (of_one_tile.target == target))
    some = chosen.rows(np.arange(len(chosen.ratio)) % 20 == 0)
    kinds = [
        replace(kind, seconds=s, blocks=round(tiles * TILE / kind.tile), threads=256)
        for s, tiles in zip(some.seconds, some.tiles, strict=True)
    ]
    pair = Pair(load(fit.MACHINES[source]), load(fit.MACHINES[target]))
    said = kernels_longer(kinds, pair, pair.source, pair.target, Draws())
    assert said is not None and np.log(said) == pytest.approx(found.predict(some), abs=0.02)
    median, mean, spread = fit.off(found.predict(every), every)
    assert median < 0.12 and mean < 0.16 and spread == pytest.approx(held.error, abs=0.01)
    assert median < 0.6 * fit.off(every.rule(0.5), every)[0], (
        "better than bandwidth and peak by halves"
    )
