"""Priors of another machine: what they are made of, and what they may do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnbuckle.cost.packet import link
from turnbuckle.machine import Pair, load
from turnbuckle.machine.parameter_names import ParameterName
from turnbuckle.projection.elsewhere.drawn import drawn_source
from turnbuckle.projection.elsewhere.priors import (
    COPY_LATENCY_SD,
    DEVICE_SHARE,
    LAUNCH_ERROR,
    LINK,
    LINK_FASTEST,
    LINK_SHARE,
    MOST_SHARERS,
    NODE_SHARE,
    PEER_SHARE,
    STAGED_RATE,
    STAGED_SPREAD,
    VENDOR_ERROR,
    Draws,
    elsewhere,
    half_normal,
    normals,
    of_pair,
    other_host,
    other_vendor,
    shared,
    unstated,
    vendor,
)

#: Where the packets of a link are known; else its peak [B/s].
PACKETS = {
    "PCIe 3.0": "pcie3-x16",
    "PCIe 4.0": "pcie4-x16",
    "PCIe 5.0": "pcie5-x16",
    "PCIe (behind switch, AWS p5 H100)": "pcie5-x16",
}
NVLINK = {"Summit host-device": 2, "Sierra host-device": 3, "Lassen host-device": 3}
XGMI, C2C = 36e9, 450e9


def spread(values: list[float]) -> float:
    return float(np.log(values).std(ddof=1))


def nominal(entity: str, condition: str, way: str) -> float:
    """What a data sheet leaves of a link [B/s]."""
    if (
        entity in PACKETS
        or "NVLink 2" in entity
        or entity in NVLINK
        or entity.split()[0] in ("Perlmutter", "Polaris")
    ):
        links = NVLINK.get(entity, 3 if "AC922" in condition else 2)
        name = PACKETS.get(
            entity,
            "pcie4-x16" if entity.split()[0] in ("Perlmutter", "Polaris") else f"nvlink2-x{links}",
        )
        return float(link(name).bandwidth(2.0**30, "write" if way == "d2h" else "read"))
    return C2C if "C2C" in entity else XGMI


@pytest.fixture(scope="module")
def facts(shared_catalogue: Path) -> pl.DataFrame:
    frame = pl.read_csv(shared_catalogue, infer_schema_length=0).filter(
        pl.col("nature") == "measured"
    )
    return frame.with_columns(pl.col("value").cast(pl.Float64, strict=False))


@pytest.fixture(scope="module")
def shared_catalogue(shared: Path) -> Path:
    return shared / "hardware" / "catalogue.csv"


def test_the_shares_of_links_are_those_of_the_catalogue(facts: pl.DataFrame) -> None:
    ways = (
        "bandwidth_per_dir_measured|h2d_peak_measured|d2h_peak_measured|pinned_h2d_.*_measured|h2d_measured|d2h_measured|"
        "[hd]2[hd]_measured_per_gpu|host_memory_remote_socket_measured"
    )
    rows = facts.filter((pl.col("unit") == "B/s") & pl.col("parameter").str.contains(f"^({ways})$"))
    rows = rows.filter(pl.col("kind") == "link")
    shares: list[float] = []
    kinds: list[tuple[float, bool, bool]] = []
    for entity, parameter, value, condition in rows.select(
        "entity", "parameter", "value", "condition"
    ).rows():
        way = "d2h" if parameter.startswith("d2h") else "h2d"
        leaves = nominal(entity, condition, way)
        shares.append(value / leaves)
        kinds.append((leaves, entity == "NVLink-C2C" and way == "d2h", "GB200" in condition))
    assert len(shares) == 34
    below = np.log(np.array(shares) / LINK_FASTEST)
    assert max(shares) == pytest.approx(LINK_FASTEST, abs=0.01)
    assert float(np.sqrt((below**2).mean())) == pytest.approx(LINK_SHARE, abs=0.01)
    best = {kind: max(s for s, k in zip(shares, kinds, strict=True) if k == kind) for kind in kinds}
    apart = np.log([s / best[k] for s, k in zip(shares, kinds, strict=True)])
    assert float(np.sqrt((apart**2).mean())) == pytest.approx(NODE_SHARE, abs=0.015)


def test_launches_and_fixed_parts_are_those_of_eight_machines(facts: pl.DataFrame) -> None:
    calls = facts.filter(pl.col("parameter") == "kernel_launch_latency")["value"].to_list()
    copies = facts.filter(pl.col("parameter") == "memcpy_latency_128B")["value"].to_list()
    assert len(calls) == len(copies) == 8
    assert of_pair(spread(calls)) == pytest.approx(LAUNCH_ERROR, abs=0.01)
    assert of_pair(spread(copies)) == pytest.approx(COPY_LATENCY_SD, abs=0.01)


def test_staging_and_vendors_are_of_the_numbers_that_are_named() -> None:
    hosts = [4.0e9, 5.5e9, 13.2e9, 14.3e9]
    assert spread(hosts) == pytest.approx(STAGED_SPREAD, abs=0.01) and float(
        np.exp(np.log(hosts).mean())
    ) == pytest.approx(STAGED_RATE, rel=0.02)
    assert np.exp(1.645 * VENDOR_ERROR) == pytest.approx(2.0, abs=0.01), (
        "the worst that was measured between vendors was 1.8"
    )


def test_the_shares_of_links_between_devices(facts: pl.DataFrame) -> None:
    """Against the nominal rate of each pair of devices [B/s], as the catalogue's conditions name
    it.
    """
    names = {
        "d2d_same_socket_measured": 50e9,
        "d2d_other_socket_measured": 50e9,
        "d2d_measured_memcpy": 100e9,
        "d2d_ce_measured": 300e9,
        "gcd_pair_quad_measured": 200e9,
        "gcd_pair_dual_measured": 100e9,
        "gcd_pair_single_measured": 50e9,
        "d2d_inter_socket_measured": 128e9,
    }
    shares = [
        facts.filter(pl.col("parameter") == name)["value"].item() / rate
        for name, rate in names.items()
    ]
    for entity, rate in (("NVLink 4", 450e9), ("NVLink 5", 900e9)):
        rows = facts.filter((pl.col("entity") == entity) & (pl.col("parameter") == "d2d_measured"))
        shares += [value / rate for value in rows["value"]]
    assert len(shares) == 11 and float(np.sqrt((np.log(shares) ** 2).mean())) == pytest.approx(
        PEER_SHARE, abs=0.01
    )


@given(st.floats(-6, 6), st.floats(0.01, 2), st.integers(-5, 10**9))
def test_what_may_only_be_slower_is_never_faster(z: float, width: float, sharers: int) -> None:
    assert half_normal(np.array([z]), width)[0] >= 1 and half_normal(np.array([-30.0]), width)[
        0
    ] == pytest.approx(1)
    assert half_normal(np.array([z + 0.1]), width)[0] > half_normal(np.array([z]), width)[0], (
        "the middle of z is the middle of the factor"
    )
    assert 1 <= shared(np.array([z]), sharers)[0] <= MOST_SHARERS * (1 + 1e-12)
    assert shared(np.array([z]), 1)[0] == 1


def test_whose_gpu_it_is() -> None:
    here = load("h100-sxm5")
    assert other_vendor(Pair(here, load("mi300x"))) and not other_vendor(Pair(here, load("gh200")))
    assert not other_vendor(Pair(here, load("2026-apu"))), "a design point is nobody's"
    assert (
        other_host(Pair(here, load("mi300x")))
        and not other_host(Pair(here, load("nvlink-c2c")))
        and not other_host(Pair(here, here))
    )
    assert vendor(load("frontier")) == "amd"
    assert 0 < DEVICE_SHARE < NODE_SHARE < LINK_SHARE


def test_the_factor_is_half_normal() -> None:
    drawn = np.log(half_normal(normals("a test", 200_000, 1), 1.0))
    assert (
        np.quantile(drawn, [0.5, 0.95]) == pytest.approx([0.6745, 1.96], abs=0.01)
        and drawn.min() >= 0
    )


def test_the_middle_of_what_no_file_says() -> None:
    """No draws: each unknown at its middle; and what was asked for is known afterwards."""
    draws = Draws()
    assert float(draws.of(LINK)) == 0 and list(draws.asked) == [LINK]
    pair = Pair(load("a100-sxm4-80"), load("gh200"))
    middle = elsewhere(pair, pair.target, pair.source, Draws())
    drawn = elsewhere(pair, pair.target, pair.source, Draws(4000, 1))
    names: tuple[ParameterName, ...] = ("link.h2d.efficiency", "link.d2h.efficiency")
    for name in names:
        value, sample = middle.value(name), drawn.value(name)
        assert value is not None and sample is not None, name
        assert float(value) == pytest.approx(float(np.median(sample)), rel=0.03), name
    assert middle.value("gpu.fp64") == pair.target.value("gpu.fp64")


def test_what_a_change_of_the_link_leaves_open() -> None:
    """Another kind of link has latencies of its own; the same kind, farther away, has not."""
    here = load("a100-sxm4-80")
    for name, opened in (
        ("nvlink-c2c", True),
        ("pcie5-x16", False),
        ("cdi-row-link", False),
        ("cdi-row-api", False),
    ):
        pair = Pair(here, load(name))
        assert not other_host(pair)
        assert [unstated(pair, n) for n in ("link.h2d.latency", "launch.latency")] == [
            opened
        ] * 2, name
    assert elsewhere(pair, pair.target, pair.source, Draws()) is pair.target
    same = Pair(here, replace(here))
    assert same.target is not here and not other_host(same), (
        "a machine of the same name has the same host"
    )


def test_a_link_inside_a_module_reaches_what_was_measured_on_such_modules() -> None:
    """No other socket and no narrow slot: the range holds the sources of the machine file, 370.1 to
    406.9 GB/s, and little else.
    """
    pair, draws = Pair(load("a100-sxm4-40"), load("gh200")), Draws(1000, 1)
    target = elsewhere(pair, drawn_source(pair.target, draws), pair.source, draws)
    rate = 450e9 * np.asarray(target.value("link.h2d.efficiency"))
    low, high = np.quantile(rate, [0.05, 0.95])
    assert 330e9 < low < 370.1e9 and 406.9e9 < high < 450e9
