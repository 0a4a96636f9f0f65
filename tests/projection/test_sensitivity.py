"""Exact derivatives: what the critical path is made of adds up, and is what a small change does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from distances import RUNS, SOME, answer, distance, launch_and_wait, on_full, one_after_another
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from runs import run_of

from turnbuckle.projection.run import Run
from turnbuckle.projection.sensitivity import (
    DELIVERIES,
    HOST_WORK,
    RETURNS,
    Curve,
    Share,
    along,
    classes,
    shares,
)
from turnbuckle.questions.distance.distance import Distance
from turnbuckle.replay.timeline import Change, TimelineReplay, no_change
from turnbuckle.trace.trace import Trace

#: A step in which no two whole numbers of nanoseconds change places.
STEP = 1e-7


def made_of(seen: Run) -> tuple[list[Share], TimelineReplay]:
    replay = Distance.of(seen, "link").replay
    return shares(replay, seen.profile.seconds - float(replay.graph.time_ns.max()) * 1e-9), replay


def scaled(replay: TimelineReplay, name: str, by: float) -> Change | None:
    """The run with one class of time scaled; None for what has no scale."""
    none, of = no_change(len(replay.run)), classes(replay.run)
    if name == HOST_WORK:
        return replace(none, host=np.array([by]))
    if name == DELIVERIES:
        return replace(none, delivery_ratio=np.full(len(of), by))
    return replace(none, ratio=np.where(of == name, by, 1.0)) if name in of else None


@SOME
@given(RUNS, st.booleans())
def test_shares_are_the_run_and_its_derivatives(trace: Trace, known: bool) -> None:
    seen = answer(trace, known)
    if distance(seen) is None:
        return
    found, replay = made_of(seen)
    assert sum(s.seconds for s in found) == pytest.approx(
        seen.profile.seconds, rel=1e-12, abs=1e-15
    )
    assert [s.right for s in found] == sorted((s.right for s in found), reverse=True)
    assert len({s.what for s in found}) == len(found)
    run_time = float(replay.seconds(no_change(len(replay.run))))
    for s in found:
        assert s.seconds >= 0 and s.left <= s.seconds + 1e-15 and s.seconds <= s.right + 1e-15, s
        slower, faster = scaled(replay, s.what, 1 + STEP), scaled(replay, s.what, 1 - STEP)
        if slower is not None and faster is not None:
            assert (float(replay.seconds(slower)) - run_time) / STEP == pytest.approx(
                s.right, rel=1e-6, abs=1e-8 * max(run_time, 1e-6)
            )
            assert (run_time - float(replay.seconds(faster))) / STEP == pytest.approx(
                s.left, rel=1e-6, abs=1e-8 * max(run_time, 1e-6)
            )
        assert s.elasticity(0.0) == 0.0
        if run_time:
            assert s.elasticity(run_time) == s.right / run_time


def test_a_run_made_of_known_parts() -> None:
    n = 6
    found, _ = made_of(on_full(launch_and_wait(n)))
    seconds = {s.what: s.seconds for s in found}
    # 11 us pass between a wait and the next launch, and 6 us from a launch to its kernel
    assert seconds == pytest.approx(
        {"kernels": n * 20e-6, HOST_WORK: (n - 1) * 11e-6, DELIVERIES: n * 6e-6, RETURNS: n * 3e-6}
    )
    found, _ = made_of(on_full(one_after_another(n, 2)))
    seconds = {s.what: s.seconds for s in found}
    assert seconds == pytest.approx(
        {
            "copies to the host": n * 2e-6,
            HOST_WORK: (n - 1) * 5e-6,
            DELIVERIES: n * 3e-6,
            RETURNS: n * 1.5e-6,
        }
    )


@pytest.mark.parametrize("name", ["jacobi_gh200", "softmax_uvm_t4", "extrap_exgpu_s10"])
def test_shares_of_real_runs(shared: Path, name: str) -> None:
    (file,) = (shared / "traces/nsys" / name).glob("*.sqlite")
    seen = run_of(file)
    found, replay = made_of(seen)
    assert sum(s.seconds for s in found) == pytest.approx(seen.profile.seconds, rel=1e-11)
    run_time = float(replay.seconds(no_change(len(replay.run))))
    for s in found:
        slower = scaled(replay, s.what, 1 + STEP)
        if slower is not None:
            assert (float(replay.seconds(slower)) - run_time) / STEP == pytest.approx(
                s.right, rel=1e-3, abs=1e-6 * run_time
            )


# --- a line ---------------------------------------------------------------------------------------


@SOME
@given(RUNS, st.integers(1, 6), st.lists(st.floats(0.01, 9.9), max_size=3))
def test_a_line_is_the_same_however_it_is_cut(trace: Trace, most: int, cuts: list[float]) -> None:
    ready = distance(answer(trace, True))
    if ready is None:
        return
    none = no_change(len(ready.ready.run))

    def dearer(cost: NDArray[np.float64]) -> Change:
        return replace(none, ratio=cost * np.ones(len(ready.ready.run)), host=cost)

    whole, cut = (
        along(ready.replay, dearer, [0.0, 10.0]),
        along(ready.replay, dearer, [0.0, *cuts, 10.0], offset=3.0),
    )
    at = np.linspace(0, 10, 101)
    assert np.allclose(whole(at), cut(at) - 3.0, rtol=1e-12, atol=1e-14)
    assert np.allclose(ready.replay.seconds(dearer(at[:, None])), whole(at), rtol=1e-12, atol=1e-14)
    part = along(ready.replay, dearer, [0.0, 10.0], most=most)
    assert (np.abs(part(at) - whole(at)) <= part.gap + 1e-14).all() and whole.gap == 0


def test_where_a_curve_reaches_a_time() -> None:
    curve = Curve(
        np.array([0.0, 1.0, 3.0, 4.0]),
        np.array([2.0, 2.0, 4.0, 7.0]),
        np.array([0.0, 1.0, 3.0]),
        0.0,
    )
    assert curve.reaches(1.9) == 0.0, "it takes longer everywhere"
    assert curve.reaches(2.0) == 1.0, "the end of what costs nothing"
    assert curve.reaches(3.0) == 2.0 and curve.reaches(5.5) == 3.5
    assert curve.reaches(7.0) is None and curve.reaches(8.0) is None
    assert curve([0.5, 2.0, 3.5]).tolist() == [2.0, 3.0, 5.5] and float(curve(4.0)) == 7.0
