"""Which parts a change of the run time comes from: they add up to it, and none changes by more than
its own durations do.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import call, copy, on_device, profile_of
from runs import run_of
from strategies import FULL, H2D, LAW, gpu_traces, machine, soups
from test_identity import real_files

from turnbuckle.examples import sample
from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.errors import CannotAnswer
from turnbuckle.machine import Pair, load
from turnbuckle.profile.profile import build
from turnbuckle.projection.anchor import Durations
from turnbuckle.projection.model import nething
from turnbuckle.projection.order import (
    Prepared,
    Replayed,
    prepared,
    replayed,
    replayed_each,
    timeline_change,
)
from turnbuckle.projection.project import priced
from turnbuckle.projection.projection import PART_OF_CATEGORY, PARTS, Projection
from turnbuckle.replay.timeline import no_change
from turnbuckle.trace.trace import Trace

#: A kernel of 100 us and a copy of 95 us at once, which one call waits for.
BESIDE = profile_of(
    api=[
        call(1_000, 2_000, 1),
        call(2_000, 3_000, 2, "cudaMemcpyAsync"),
        call(4_000, 112_000, None, "cudaDeviceSynchronize"),
    ],
    kernels=[on_device(10_000, 110_000, 1)],
    copies=[copy(12_000, 107_000, H2D, 2**20, 2, stream=8)],
)
HOLD = replace(nething("hold", host=1.0), replay="timeline")
NAMES = ("nvlink-c2c", "pcie5-x16", "cdi-row-link", "cdi-row-api", "gh200", "mi300a")


def budgets(ready: Prepared, pair: Pair) -> dict[str, tuple[float, float]]:
    """Return what all edges of a part save and add together [s]."""
    assert ready.timeline is not None
    values = timeline_change(priced(ready, pair, HOLD)).values
    edges = np.arange(len(ready.timeline.graph.kind))
    slope, part = (
        ready.timeline.slopes(edges, values),
        ready.timeline._part_of(edges, PART_OF_CATEGORY),
    )
    names = ("launch", "kernel", "copy", "other")
    return {
        n: (
            float(np.minimum(slope[part == k], 0).sum()),
            float(np.maximum(slope[part == k], 0).sum()),
        )
        for k, n in enumerate(names)
    }


def bars_show_what_changed(found: Replayed | Projection, measured: float) -> None:
    """Hold a projected bar to the recorded one plus its change: exactly, part by part, none below
    nothing.
    """
    assert set(found.change) == set(PARTS)
    room = 1e-9 * max(float(found.seconds), measured, 1e-6)
    assert sum(found.change.values()) == pytest.approx(float(found.seconds) - measured, abs=room)
    assert found.change == {
        part: found.breakdown[part] - found.measured_breakdown[part] for part in PARTS
    }
    assert min(found.breakdown.values()) >= 0.0
    assert sum(found.breakdown.values()) == pytest.approx(float(found.seconds), abs=room)


def check(found: Replayed, ready: Prepared, pair: Pair) -> None:
    bars_show_what_changed(found, ready.measured)
    assert ready.timeline is not None
    values = timeline_change(priced(ready, pair, HOLD)).values
    walked = ready.timeline.change_by_part(
        values, *ready.timeline.replayed(values), PART_OF_CATEGORY, 8
    )
    room = 1e-9 * max(float(found.seconds), ready.measured, 1e-6)
    for part, (least, most) in budgets(ready, pair).items():
        # what the points on the way miss is shared among the parts
        slack = room + 0.05 * (most - least)
        assert least - slack <= walked[part] <= most + slack, part


@LAW
@given(gpu_traces() | soups(), st.sampled_from(NAMES))
def test_parts_add_up_and_stay_within_what_their_own_durations_do(trace: Trace, name: str) -> None:
    profile = build(trace)
    ready, pair = prepared(profile, HOLD), Pair(machine(FULL), load(name))
    check(replayed(ready, priced(ready, pair, HOLD)), ready, pair)


@pytest.mark.shared
@pytest.mark.parametrize("name", ["cdi-row-link", "cdi-row-api", "nvlink-c2c"])
def test_a_tie_of_paths_moves_no_time_between_parts(shared: Path, name: str) -> None:
    """On this run the critical path goes over from waits to copies, which the difference of two
    paths took for the cost of copies.
    """
    run = run_of(shared / "traces/nsys/rodinia_gaussian_rtx3090_a/report2.sqlite")
    ready, pair = run.prepared(HOLD), Pair(run.source, load(name))
    durations = priced(ready, pair, HOLD)
    found = replayed(ready, durations)
    check(found, ready, pair)
    assert ready.timeline is not None
    there = ready.timeline.parts(
        *ready.timeline.path(timeline_change(durations)), PART_OF_CATEGORY, 0.0
    )
    apart = {part: there[part] - found.measured_breakdown[part] for part in PARTS}
    if name.startswith("cdi"):
        assert (
            apart["copy"] > 5 * found.change["copy"] > 0
            and apart["other"] < 0 < found.change["other"]
        )


def test_no_bar_falls_below_nothing() -> None:
    """A copy that took nearly as long as the kernel beside it is hidden in the recorded run, and
    saves time once the kernel is short.
    """
    ready = prepared(BESIDE, HOLD)
    assert ready.timeline is not None
    kinds = ready.run.category
    ratio = np.where(kinds == "kernel", 0.01, np.where(kinds == "copy", 0.1, 1.0))
    values = replace(no_change(len(ratio)), ratio=ratio).values
    instants, path = ready.timeline.replayed(values)
    walked = ready.timeline.change_by_part(values, instants, path, PART_OF_CATEGORY, 8)
    recorded = ready.timeline.unchanged_parts(PART_OF_CATEGORY, 0.0)
    assert recorded["copy"] + walked["copy"] < 0
    (shown,) = [parts for _, parts in replayed_each(ready, durations_of(ready, ratio))]
    assert min(shown.values()) >= 0.0 and shown["copy"] == 0.0
    assert sum(shown.values()) == pytest.approx(float(instants.max()), abs=1e-12)


def durations_of(ready: Prepared, ratio: Float) -> Durations:
    """Return durations that are so many times the recorded ones."""
    kept = priced(ready, Pair(machine(FULL), machine(FULL)), HOLD)
    return replace(kept, scaled=kept.run.seconds * ratio)


def test_the_bars_of_every_sample_show_what_changed() -> None:
    with sample() as path:
        run = run_of(path)
        for replay, name in product(("sum", "timeline"), NAMES):
            p = run.project(name, model=replace(nething(), replay=replay), draws=0).projections[0]
            for one in (each for each in (p, p.by_coupling) if not each.unknown):
                bars_show_what_changed(one, run.judged.seconds)


@pytest.mark.shared
def test_the_bars_of_every_recording_show_what_changed(shared: Path) -> None:
    """Law over recordings, targets and replays."""
    for path in real_files(shared).values():
        run = run_of(path)
        for replay, name in product(("sum", "timeline"), NAMES):
            try:
                p = run.project(name, model=replace(nething(), replay=replay), draws=0).projections[
                    0
                ]
            except CannotAnswer:
                continue
            for one in (each for each in (p, p.by_coupling) if not each.unknown):
                bars_show_what_changed(one, run.judged.seconds)
