"""The tolerance of a remoting layer's round trip: the curve is the projection on that layer,
wherever its round trip stands.
"""

from __future__ import annotations

import numpy as np
import pytest
from distances import RUNS, SOME, answer, distance, launch_and_wait, on_full
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from strategies import parameter

from turnbuckle.machine import Pair, load
from turnbuckle.projection.elsewhere.holes import managed
from turnbuckle.projection.project import project
from turnbuckle.questions.distance.distance import FARTHEST, MODEL, Distance
from turnbuckle.questions.distance.question import tolerate
from turnbuckle.trace.trace import Trace

LAYERS = ("cdi-row-api", "cdi-datacentre-api", "cdi-row-blocking", "gpuless-network")


@SOME
@given(RUNS, st.sampled_from(LAYERS), st.sampled_from([0.0, 1e-6, 4.4e-6, 1e-4, FARTHEST]))
def test_the_curve_is_the_projection_on_that_layer(trace: Trace, name: str, trip: float) -> None:
    seen = answer(trace, True)
    if distance(seen, "api") is None:
        return
    if managed(seen.profile):  # pages move by faults, which no layer forwards
        refused("A189", tolerate, seen, "remoting", draws=0, machine=name)
        return
    found = tolerate(seen, "remoting", draws=0, machine=name)
    assert found.layer == name and found.measured == seen.profile.seconds
    layer = load(name).with_parameters(
        {"remoting.round_trip": parameter("remoting.round_trip", trip)}
    )
    plain = Distance.of(seen, "remoting", layer=load(name)).source
    expected = project(seen.profile, Pair(plain, layer), MODEL).seconds
    assert float(found.curve(trip)) == pytest.approx(expected, rel=1e-11, abs=1e-12)
    assert (np.diff(found.curve.seconds) >= 0).all() and float(
        found.curve(0.0)
    ) >= found.measured - 1e-12


@SOME
@given(RUNS)
def test_one_way_is_half_of_it(trace: Trace) -> None:
    seen = answer(trace, True)
    if distance(seen, "api") is None:
        return
    if managed(seen.profile):
        refused("A189", tolerate, seen, "remoting", draws=0, machine="cdi-row-api")
        return
    found = tolerate(seen, "remoting", draws=0, machine="cdi-row-api")
    half = found.one_way()
    for at in (1e-7, 3e-6, 1e-4):
        assert float(half.curve(at)) == pytest.approx(float(found.curve(2 * at)), rel=1e-12)
    for t, h in zip(found.tolerances, half.tolerances, strict=True):
        assert h.slack == (None if t.slack is None else t.slack / 2)
    assert found.hops()[0]["seconds"] == float(found.curve(2 * found.hops()[0]["one_way_s"]))


def test_a_layer_costs_its_software_without_any_round_trip() -> None:
    found = tolerate(on_full(launch_and_wait(50)), "remoting", draws=20, machine="cdi-row-api")
    assert float(found.curve(0.0)) > found.measured
    known = [t for t in found.tolerances if t.slack]
    assert known and all(t.low <= t.slack <= t.high for t in known)  # type: ignore[operator]
    assert any(t.low < t.high for t in known), "its software is not known"  # type: ignore[operator]


def test_what_is_refused() -> None:
    for mode, machine in (
        ("remoting", None),
        ("link", "cdi-row-api"),
        ("api", "cdi-row-api"),
        ("remoting", "cdi-row-link"),
    ):
        refused("A015", tolerate, on_full(launch_and_wait(50)), mode, draws=0, machine=machine)
