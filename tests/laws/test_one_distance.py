"""Law: `slack` and `project` that are asked for one distance give one number and one range, over
the same draws.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from distances import MODE, RUNS, SOME, answer, distance, launch_and_wait, on_full
from hypothesis import given
from hypothesis import strategies as st
from rows import call, copy, profile_of
from runs import run_of

from turnbuckle.foundation.errors import UsageError
from turnbuckle.machine import Change, Machine, Parameter, load
from turnbuckle.machine.fabric import Pcie, ended_locally
from turnbuckle.projection import uncertainty
from turnbuckle.projection.run import Run
from turnbuckle.projection.uncertainty import affordable
from turnbuckle.questions.distance.distance import FARTHEST, MODES, Distance, Mode
from turnbuckle.questions.distance.question import Slack, tolerate
from turnbuckle.trace.trace import Trace

PCIE: tuple[Pcie, ...] = ("whole", "local")


def assert_one_distance(
    run: Run, found: Slack, machines: list[tuple[float, Machine]], draws: int, pcie: Pcie = "whole"
) -> None:
    projected = run.project([m for _, m in machines], draws=draws, pcie=pcie).projections
    for (away, _), projection in zip(machines, projected, strict=True):
        band = found.range(away)
        assert band is not None
        assert projection.seconds == pytest.approx(float(found.curve(away)), rel=1e-9), away
        assert projection.ends == pytest.approx(band, rel=1e-9), away


@SOME
@given(RUNS, MODE, st.booleans(), st.sampled_from(PCIE), st.integers(0, 24))
def test_any_run(trace: Trace, mode: Mode, known: bool, pcie: Pcie, which: int) -> None:
    run = answer(trace, known)
    pcie = pcie if mode == "link" else "whole"
    if distance(run, mode) is None:
        return
    found, ready = tolerate(run, mode, draws=20, pcie=pcie), Distance.of(run, mode, pcie=pcie)
    away = float(found.shown()[which])
    assert_one_distance(run, found, [(away, ready.machine_at(away))], 20)


def at(name: str, away: float) -> Machine:
    """A machine of the catalogue whose distance is certain and whose fabric has no other limit."""
    certain = Change("slack.link", set=Parameter(away, 0.0, "s", "assumption", "a test"))
    kept = tuple(c for c in load(name).changes if c.parameter != "slack.link" and c.limit is None)
    return replace(load(name), changes=(*kept, certain))


@SOME
@given(RUNS, MODE, st.booleans(), st.integers(0, 24))
def test_any_run_by_default(trace: Trace, mode: Mode, known: bool, which: int) -> None:
    """Without a number of draws both verbs take the same one."""
    run = answer(trace, known)
    if distance(run, mode) is None:
        return
    found, ready = tolerate(run, mode), Distance.of(run, mode)
    away = float(found.shown()[which])
    (projection,) = run.project([ready.machine_at(away)]).projections
    assert projection.interval is not None and projection.interval.draws == affordable(ready.ready)
    assert projection.ends == pytest.approx(found.range(away), rel=1e-9)


@pytest.mark.parametrize("mode", ["link", "api"])
def test_a_recorded_run_by_default(shared: Path, mode: Mode) -> None:
    """A range along a curve shares what is replayed: its ends are those of `project` within a
    thousandth of its width.
    """
    run = run_of(
        shared / "traces/nsys/cloverleaf_a100_perlmutter/perlmutter-cloverleaf-cuda.sqlite"
    )
    found, ready = tolerate(run, mode), Distance.of(run, mode)
    away = [float(s) for s in found.shown()[[2, 8, 14, 20]]]
    for s, projection in zip(
        away, run.project([ready.machine_at(s) for s in away]).projections, strict=True
    ):
        band = found.range(s)
        assert (
            band is not None
            and projection.interval is not None
            and projection.interval.draws == 1000
        )
        assert projection.ends == pytest.approx(
            band, abs=1e-3 * (band[1] - band[0]) + 1e-9 * band[0]
        )


def test_one_function_says_how_many_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    run = on_full(launch_and_wait(50))
    assert affordable(Distance.of(run, "link").ready) == 1000
    monkeypatch.setattr(uncertainty, "AFFORDABLE", 1)
    monkeypatch.setattr(uncertainty, "FEWEST", 40)
    ready = Distance.of(run, "link")
    (projection,) = run.project([ready.machine_at(1e-4)]).projections
    assert projection.interval is not None and projection.interval.draws == 40
    assert projection.ends == pytest.approx(tolerate(run).range(1e-4), rel=1e-9)
    assert tolerate(run).range(1e-4) == tolerate(run, draws=40).range(1e-4)


@pytest.mark.parametrize("pcie", PCIE)
def test_the_fabrics_of_the_catalogue(shared: Path, pcie: Pcie) -> None:
    """What the files say of a fabric is what `slack` assumes, and the switch means the same to both
    verbs.
    """
    run = run_of(
        shared / "traces/nsys/cloverleaf_a100_perlmutter/perlmutter-cloverleaf-cuda.sqlite"
    )
    found = tolerate(run, draws=50, pcie=pcie)
    places = [float(found.shown()[k]) for k in (2, 8, 12)]
    for name in ("cdi-switch-hop-link", "cdi-rack-link", "cdi-row-link", "cdi-datacentre-link"):
        assert_one_distance(run, found, [(away, at(name, away)) for away in places], 50, pcie)


@SOME
@given(RUNS, MODE, st.booleans())
def test_the_range_holds_the_curve_grows_and_begins_at_nothing(
    trace: Trace, mode: Mode, known: bool
) -> None:
    run = answer(trace, known)
    if distance(run, mode) is None:
        return
    found = tolerate(run, mode, draws=20)
    ends = np.array([found.range(s) for s in (0.0, *found.shown())])
    curve = np.array([float(found.curve(s)) for s in (0.0, *found.shown())])
    assert tuple(ends[0]) == pytest.approx((found.measured, found.measured), rel=1e-12)
    assert (ends[:, 0] <= curve * (1 + 1e-12)).all() and (curve <= ends[:, 1] * (1 + 1e-12)).all()
    assert (np.diff(ends, axis=0) >= -1e-9 * ends[1:]).all()
    for t in found.tolerances:
        assert t.slack is None or (t.low is not None and t.low <= t.slack)
        assert t.high is None or (t.slack is not None and t.slack <= t.high)


def trips(seconds: float, run: Run, away: float) -> float:
    """Trips of a command that a run time means, of 20 launches that are each waited for: their way
    back is one more.
    """
    return (seconds - run.profile.seconds) / (20 * away) - 1.0


def test_a_command_takes_one_to_five_trips() -> None:
    """A launch that is waited for shows the prior bare: from one trip to five, 2.24 in the middle;
    one where PCIe ends locally.
    """
    run, away = on_full(launch_and_wait(20)), 1e-5
    whole, local = (tolerate(run, draws=2_000, pcie=pcie) for pcie in PCIE)
    assert trips(float(whole.curve(away)), run, away) == pytest.approx(2.24)
    assert trips(float(local.curve(away)), run, away) == pytest.approx(1.0)
    unwide = whole.trust.explained
    band = whole.range(away)
    assert band is not None
    low, high = (trips(end, run, away) for end in band)
    assert 1.0 <= low < 1.2
    # what no rule explains adds to the upper end
    assert 4.4 < high < 5.0 + 6.0 * (1.0 - unwide)


def test_reads_in_flight_limit_copies_on_a_fabric_that_carries_pcie_alone() -> None:
    """64 MiB in 2.5 ms."""
    run = on_full(
        profile_of(
            api=[call(1_000, 2_506_000, 1, "cudaMemcpy")],
            copies=[copy(4_000, 2_504_000, 1, 2**26, 1)],
        )
    )
    whole, local = (tolerate(run, draws=100, pcie=pcie) for pcie in PCIE)
    assert float(whole.curve(1e-4)) > 2 * float(local.curve(1e-4))
    low, high = whole.range(1e-4) or (0.0, 0.0)
    assert high > 2 * low, "256 reads or 512 decide a factor of two"


def test_only_fabrics_end_pcie() -> None:
    for name in ("gh200", "cdi-row-api", "pcie5-x16"):
        assert ended_locally(load(name)) is load(name) or ended_locally(load(name)) == load(name)
    ended = {c.parameter: c for c in ended_locally(load("cdi-row-link")).changes}
    assert (
        ended["link.command_trips"].set is not None and ended["link.command_trips"].set.value == 1.0
    )
    run = on_full(launch_and_wait(3))
    for mode in MODES[1:]:
        with pytest.raises(UsageError) as refused:
            tolerate(run, mode, pcie="local")
        assert refused.value.code == "A015"
    assert FARTHEST in tolerate(run, draws=0).shown()
