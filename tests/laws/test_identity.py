"""Law 1: the source projected onto itself is the run, to the nanosecond; laws 2 and 5 on the real
recordings as well.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import recorded_profile
from strategies import FULL, LAW, flawed_traces, machine, soups, traces

from turnbuckle.machine import Machine, Pair, all_machines
from turnbuckle.profile.profile import Profile, build
from turnbuckle.profile.source import observed_machine
from turnbuckle.profile.summary.summary import categories_ns, closure_defect_ns
from turnbuckle.projection.anchor import anchored
from turnbuckle.projection.model import Model, additive, nething
from turnbuckle.projection.order import Prepared, prepared
from turnbuckle.projection.project import answered, project
from turnbuckle.projection.uncertainty import project_many
from turnbuckle.trace.trace import Trace

PRESETS: tuple[Model, ...] = (
    nething(),
    nething("memory"),
    nething("hold"),
    nething(5.1),
    additive({"data": 10.0, "control": 10.0, "kernel": 2.0}),
    additive({"launch": 0.1, "alloc": 3.0}),
)
STANDING = [m for m in all_machines() if not m.relative]


def assert_identity(profile: Profile, ready: Prepared, source: Machine, model: Model) -> None:
    """Every number of the projection onto the source is the measured one, not nearly but
    exactly.
    """
    durations = anchored(ready.run, source, source, model)
    assert np.array_equal(durations.seconds, ready.run.seconds)
    found = answered(profile, ready, Pair(source, source), model)
    assert found.target == "self"
    assert found.seconds == found.measured_seconds == profile.run_time_ns * 1e-9
    assert found.penalty == 1.0
    assert found.breakdown == found.measured_breakdown
    assert found.envelope == (found.seconds, found.seconds)
    assert found.findings == []


def priced_ns(profile: Profile) -> pl.Series:
    """The duration that is priced [ns]: a call that finds its device idle counts until what it
    started begins.
    """
    return profile.activities.select(
        pl.max_horizontal("end_ns", "delivered_ns") - pl.col("start_ns")
    ).to_series()


def assert_closed(profile: Profile) -> None:
    """Each instant of the run belongs to exactly one activity."""
    exposed, lasts = profile.activities["exposed_ns"], priced_ns(profile)
    assert exposed.sum() == profile.run_time_ns
    assert (exposed >= 0).all() and (exposed <= lasts).all()
    assert (
        closure_defect_ns(profile) == 0
        and sum(categories_ns(profile).values()) == profile.run_time_ns
    )
    assert profile.activities["start_ns"].min() == profile.first_ns or not profile.activities.height
    assert profile.activities["end_ns"].max() == profile.last_ns or not profile.activities.height


@LAW
@given(traces() | flawed_traces() | soups(), st.sampled_from(PRESETS), st.sampled_from(STANDING))
def test_any_run_on_its_own_machine(trace: Trace, model: Model, stated: Machine) -> None:
    profile = build(trace)
    assert_closed(profile)
    ready = prepared(profile, model)
    for source in (
        machine(FULL),
        observed_machine(profile)[0],
        observed_machine(profile, stated)[0],
        stated,
    ):
        assert_identity(profile, ready, source, model)


@LAW
@given(traces() | soups(), st.sampled_from(PRESETS), st.integers(1, 40), st.integers(0, 2**40))
def test_interval_of_the_source_is_a_point(
    trace: Trace, model: Model, draws: int, seed: int
) -> None:
    profile = build(trace)
    source, fits, _ = observed_machine(profile)
    (found,) = project_many(profile, source, [source], model, fits, draws, seed)
    assert found.interval is not None
    assert (found.interval.low, found.interval.median, found.interval.high) == (
        profile.seconds,
    ) * 3
    assert found.drivers == {}
    assert found.sample is not None and found.sample.tolist() == [profile.seconds] * draws


def test_runs_without_anything() -> None:
    no_names = pl.Series("name", [], dtype=pl.String)
    nothing = Trace({}, no_names, {"tables": {}})
    for tables in ({}, {"api": nothing.api}):
        profile = build(Trace(tables, no_names, {"tables": {}}))
        assert profile.run_time_ns == 0 and profile.activities.height == 0
        source, _, _ = observed_machine(profile)
        found = project(profile, Pair(source, source), nething())
        assert (found.seconds, found.penalty) == (0.0, 1.0)


def real_files(shared: Path) -> dict[str, Path]:
    """Every Nsight Systems file that the truth names."""
    truth = json.loads((shared / "traces" / "truth.json").read_text(encoding="utf-8"))
    keys = [
        (key, file)
        for key, about in truth.items()
        if key.startswith("nsys")
        for file in about["files"]
        if file.endswith(".sqlite")
    ]
    return {f"{key}/{file}": shared / "traces" / key / file for key, file in keys}


@pytest.mark.shared
def test_every_real_file(shared: Path) -> None:
    files = sorted(
        {*real_files(shared).values(), *(shared / "traces" / "nsys-local").glob("*.sqlite")}
    )
    assert len(files) == 29
    for path in files:
        profile = recorded_profile(path)
        assert_closed(profile)
        source, fits, _ = observed_machine(profile)
        # a run ready for the sum is the same for every model of these
        ready = prepared(profile, PRESETS[0])
        for model in PRESETS:
            assert_identity(profile, ready, source, model)
        (found,) = project_many(profile, source, [source], nething(), fits, 50, ready=ready)
        assert found.as_dict()["interval"] == [profile.seconds, profile.seconds], path.name
