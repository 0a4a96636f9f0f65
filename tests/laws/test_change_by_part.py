"""Which parts a change of the run time comes from: they add up to it, and none changes by more than its own durations do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import run_of
from strategies import FULL, LAW, gpu_traces, machine, soups

from turnbuckle.examples import sample
from turnbuckle.machine import Pair, load
from turnbuckle.profile.profile import build
from turnbuckle.projection.model import nething
from turnbuckle.projection.order import Prepared, Replayed, prepared, replayed, timeline_change
from turnbuckle.projection.project import priced
from turnbuckle.projection.projection import PART_OF_CATEGORY, PARTS
from turnbuckle.trace.trace import Trace

HOLD = replace(nething("hold", host=1.0), replay="timeline")
NAMES = ("nvlink-c2c", "pcie5-x16", "cdi-row-link", "cdi-row-api", "gh200", "mi300a")


def budgets(ready: Prepared, pair: Pair) -> dict[str, tuple[float, float]]:
    """Return what all edges of a part save and add together [s]."""
    assert ready.timeline is not None
    values = timeline_change(priced(ready, pair, HOLD)).values
    edges = np.arange(len(ready.timeline.graph.kind))
    slope, part = ready.timeline.slopes(edges, values), ready.timeline._part_of(edges, PART_OF_CATEGORY)
    names = ("launch", "kernel", "copy", "other")
    return {n: (float(np.minimum(slope[part == k], 0).sum()), float(np.maximum(slope[part == k], 0).sum())) for k, n in enumerate(names)}


def check(found: Replayed, ready: Prepared, pair: Pair) -> None:
    assert set(found.change) == set(PARTS)
    room = 1e-9 * max(float(found.seconds), ready.measured, 1e-6)
    assert sum(found.change.values()) == pytest.approx(float(found.seconds) - ready.measured, abs=room)
    for part, (least, most) in budgets(ready, pair).items():
        # what the points on the way miss is shared among the parts
        slack = room + 0.05 * (most - least)
        assert least - slack <= found.change[part] <= most + slack, part


@LAW
@given(gpu_traces() | soups(), st.sampled_from(NAMES))
def test_parts_add_up_and_stay_within_what_their_own_durations_do(trace: Trace, name: str) -> None:
    profile = build(trace)
    ready, pair = prepared(profile, HOLD), Pair(machine(FULL), load(name))
    check(replayed(ready, priced(ready, pair, HOLD)), ready, pair)


@pytest.mark.shared
@pytest.mark.parametrize("name", ["cdi-row-link", "cdi-row-api", "nvlink-c2c"])
def test_a_tie_of_paths_moves_no_time_between_parts(shared: Path, name: str) -> None:
    """On this run the critical path goes over from waits to copies, which the difference of two paths took for the cost of copies."""
    run = run_of(shared / "traces/nsys/rodinia_gaussian_rtx3090_a/report2.sqlite")
    ready, pair = run.prepared(HOLD), Pair(run.source, load(name))
    found = replayed(ready, priced(ready, pair, HOLD))
    check(found, ready, pair)
    apart = {part: found.breakdown[part] - found.measured_breakdown[part] for part in PARTS}
    if name.startswith("cdi"):
        assert apart["copy"] > 5 * found.change["copy"] > 0 and apart["other"] < 0 < found.change["other"]


def test_the_sum_has_the_difference_of_exposed_times() -> None:
    with sample() as path:
        found = run_of(path).project("cdi-row-link", model=replace(nething(), replay="sum"), draws=0).projections[0]
    assert found.change == {part: found.breakdown[part] - found.measured_breakdown[part] for part in PARTS}
