"""The trend of rates per watt and what follows from it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.papers.models.power.question import (
    Part,
    chosen,
    design_points,
    fitted,
    observed_exponent,
    part_named,
    power_exponent,
    power_study,
    preset,
    read_parts,
    shipped,
    trend_line,
)
from turnbuckle.papers.numbers import Interval

drawn = settings(max_examples=80)


@drawn
@given(
    st.floats(0.5, 20),
    st.floats(20, 40),
    st.lists(st.floats(2005, 2030), min_size=3, max_size=9, unique=True),
)
def test_a_planted_doubling_time_is_found(years: float, log2: float, at: list[float]) -> None:
    when = np.array(at)
    if np.ptp(when) < 1:
        return
    found = trend_line(when, log2 + (when - 2015) / years)
    assert found.doubling_years.value == pytest.approx(years, rel=1e-6)
    assert found.doubling_years.low == pytest.approx(years, rel=1e-3)
    there = found.efficiency(2026)
    assert (
        there.value == pytest.approx(2.0 ** (log2 + 11 / years), rel=1e-6)
        and there.low <= there.value <= there.high
    )


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(20261121)
    when = np.arange(2014.0, 2024.0)
    tries, hits, futures = 1500, 0, 0
    for _ in range(tries):
        found = trend_line(when, (when - 2014) / 3 + rng.normal(0, 0.4, len(when)))
        hits += found.doubling_years.low <= 3.0 <= found.doubling_years.high
        there = found.efficiency(2026)
        futures += there.low <= 2.0 ** (12 / 3 + rng.normal(0, 0.4)) <= there.high
    assert 0.87 < hits / tries < 0.93 and 0.87 < futures / tries < 0.93


def test_no_growth_has_no_end() -> None:
    found = trend_line(np.array([2018.0, 2020, 2022, 2024]), np.array([1.0, 0.4, 1.3, 0.6]))
    assert math.isinf(found.doubling_years.high) and math.isinf(found.doubling_years.value)
    assert math.isinf(trend_line(np.array([2018.0, 2020, 2022]), np.zeros(3)).doubling_years.value)


def test_the_papers_trend() -> None:
    found = preset(part_named("A100-SXM4-40GB"), 2026, 3.0)
    assert found.value == pytest.approx(0.195e12) and found.low == found.high == found.value


def test_the_papers_design_points() -> None:
    """Table I: 133 TFLOP/s at 700 W and 76 % of it at half the power."""
    points = {
        p.name: p.rate.value
        for p in design_points(
            Interval(0.19e12, 0.18e12, 0.2e12), 700, 0.5, 350, power_exponent(0.76, 0.5)
        )
    }
    assert (
        points["2026 on-board"] == points["2026 APU, all power to the GPU"] == pytest.approx(133e12)
    )
    assert (
        points["2026 discrete"]
        == points["2026 disaggregated"]
        == points["2026 APU"]
        == pytest.approx(101.08e12)
    )


def test_the_exponent_of_two_boards() -> None:
    assert 0.35 < observed_exponent("vector") < observed_exponent("best") < 0.42


def test_every_shipped_part_has_a_source() -> None:
    parts = shipped()
    assert len({p.name for p in parts}) == len(parts) >= 10
    for p in parts:
        assert (
            p.source
            and p.rate("best") >= p.vector > 1e12
            and 100 < p.power < 2000
            and p.form in ("full", "reduced")
        )


def test_shipped_parts_agree_with_the_catalogue(shared: Path) -> None:
    import csv

    rows: dict[tuple[str, str], float] = {}
    with (shared / "hardware" / "catalogue.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["parameter"] in ("fp64_vector", "fp64_matrix", "tdp", "launch_year"):
                rows[row["entity"], row["parameter"]] = float(row["value"])
    for p in shipped():
        assert (
            rows[p.name, "fp64_vector"] == p.vector
            and rows[p.name, "tdp"] == p.power
            and rows[p.name, "launch_year"] == p.year
        )
        assert rows.get((p.name, "fp64_matrix")) == p.matrix


def test_the_trend_of_the_shipped_parts() -> None:
    """Matrix units count: the best rates double in about three years, the vector rates take
    longer.
    """
    modules = chosen(shipped())
    assert {p.form for p in modules} == {"full"}
    best, vector = fitted(modules), fitted(modules, "vector")
    assert 2.5 < best.doubling_years.value < 3.7 < vector.doubling_years.value < 5
    assert best.doubling_years.low < 3.0 < best.doubling_years.high
    assert best.efficiency(2026).low < 0.19e12 < best.efficiency(2026).high


def test_parts_of_a_user(tmp_path: Path) -> None:
    path = tmp_path / "parts.csv"
    path.write_text(
        "part, year, rate [TFLOP/s], power [W], source\na, 2016, 1, 100, me\n"
        "b, 2018, 2, 100,\nc, 2020, 4, 100, me\n"
    )
    found = power_study(read_parts(path))
    assert found.doubling_years.value == pytest.approx(
        2.0
    ) and found.efficiency.value == pytest.approx(0.32e12)
    assert [p.source for p in found.parts] == ["me", "parts.csv:3", "me"] and found.findings == ()
    assert found.printed.keys() == {
        "2026 on-board",
        "2026 discrete",
        "2026 disaggregated",
        "2026 APU",
    }
    assert (
        found.printed["2026 on-board"] == 133e12
        and power_study(read_parts(path), year=2027).printed == {}
    )


def test_doubtful_sources_are_said() -> None:
    found = power_study(chosen(shipped()))
    assert [f.code for f in found.findings] == ["A344"] and "V100-SXM2-16GB" in found.findings[
        0
    ].detail


def test_too_few_parts() -> None:
    one = Part("a", "", 2020, 1e12, None, 100, "me")
    for parts in ([], [one, one], [one, one, one]):
        refused("A161", fitted, parts)


@pytest.mark.parametrize(
    "wrong",
    [
        {"year": math.nan},
        {"share": 0.0},
        {"package": -1.0},
        {"exponent": 9.0},
        {"card_power": math.inf},
    ],
)
def test_numbers_that_cannot_be(wrong: dict[str, float]) -> None:
    refused("A048", power_study, chosen(shipped()), **wrong)
    refused("A048", power_study, (), doubling_years=0.0, base=part_named("MI100"))
