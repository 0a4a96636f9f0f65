"""Runs that share: identity, what holds with contention, and what a larger GPU cannot do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from refusals import refused
from runs import run_of
from strategies import FEWER, gpu_traces, trace_of

import turnbuckle as tb
from turnbuckle.foundation.errors import CannotAnswer
from turnbuckle.profile.dependencies.graph import EDGE
from turnbuckle.profile.profile import build
from turnbuckle.projection.model import nething
from turnbuckle.projection.order import prepared
from turnbuckle.projection.run import Run
from turnbuckle.questions.sharing.pairs import pair
from turnbuckle.questions.sharing.question import FORMS, ON_ONE_GPU, Form, Sharer, ready, sharing
from turnbuckle.questions.sharing.surface import (
    NEAR,
    NOW,
    RATE,
    parameter_differences,
    sharing_surface,
)
from turnbuckle.replay.contention.graphs import copies, numbered, with_gaps
from turnbuckle.replay.timeline import no_change
from turnbuckle.trace.trace import Trace

EXAMPLES = Path(tb.__file__).parent / "examples"
REAL = [
    "cloverleaf_a100_perlmutter",
    "rodinia_gaussian_rtx3090_b",
    "jacobi_gh200",
    "extrap_concurrent_s4",
    "balinski_gomory_r3",
]


@pytest.fixture(scope="module")
def seen() -> Run:
    return tb.read(EXAMPLES / "dgemm-like-synthetic.sqlite")


@pytest.fixture(scope="module")
def run(seen: Run) -> Sharer:
    return ready(seen)


@pytest.fixture(scope="module")
def many_calls() -> Run:
    """A run of thousands of calls, so that a turn more or less of one among them does not
    matter.
    """
    return tb.read(EXAMPLES / "milc-like-synthetic.sqlite", part="whole")


@pytest.fixture(scope="module")
def long_run(many_calls: Run) -> Sharer:
    return ready(many_calls)


@pytest.mark.parametrize("form", FORMS)
def test_alone_on_its_own_link_a_run_is_itself(run: Sharer, form: Form) -> None:
    # each copy and pooled kernel ends on a whole picosecond
    rounded = 1e-12 * len(run.graph.activity) / run.measured
    assert run.together(form, 1).penalty == pytest.approx(1.0, abs=rounded)
    assert run.together(
        form, 1, bandwidth=run.recorded_bandwidth, latency=run.recorded_latency
    ).penalty == pytest.approx(1.0, abs=rounded)


@pytest.mark.parametrize("name", REAL)
def test_real_runs_alone_are_themselves(shared: Path, name: str) -> None:
    real = ready(run_of(next((shared / "traces" / "nsys" / name).glob("*.sqlite"))))
    for form in FORMS:
        flows = len(real.moved.activity) + (len(real.kernels.activity) if form in ON_ONE_GPU else 0)
        rounded = 1e-12 * flows  # each ends on a whole picosecond
        assert real.together(form, 1).seconds == pytest.approx(real.measured, abs=rounded), form


def crowded(made: Sharer) -> bool:
    """Whether copies of one direction overlap: the link has the rate of the fastest alone, and
    together they asked for more.
    """
    at = 2 * made.moved.activity
    for way in (made.moved.to_device, ~made.moved.to_device):
        start, end = made.graph.time_ns[at[way] + 1], made.graph.time_ns[at[way] + 2]
        order = np.argsort(start, kind="stable")
        if (start[order][1:] < np.maximum.accumulate(end[order])[:-1]).any():
            return True
    return False


@FEWER
@given(gpu_traces())
def test_any_run_alone_is_itself(trace: Trace) -> None:
    """Made-up runs of several processes, devices and streams; left out is what is refused, and
    copies that crowd each other.
    """
    try:
        made = ready(Run.of(build(trace)))
    except CannotAnswer:
        assume(False)
    assume(not crowded(made))
    rounded = 2e-12 * len(made.graph.activity)
    for form in FORMS:
        assert made.together(form, 1).seconds == pytest.approx(made.measured, abs=rounded)
        assert made.together(
            form, 1, law="anchored", latency=made.recorded_latency
        ).seconds == pytest.approx(made.measured, abs=rounded)


def test_several_are_never_faster_than_one(run: Sharer) -> None:
    """Loose: each has what one alone has, and less of the link.  Nothing is said of more against
    fewer (D18).
    """
    for bandwidth in (1e9, 10e9, 100e9):
        alone = run.together("loose", 1, bandwidth=bandwidth).seconds
        assert all(
            run.together("loose", k, bandwidth=bandwidth).seconds >= alone * (1 - 1e-9)
            for k in (2, 3, 7)
        )


def test_free_copies_and_no_latency_leave_the_rest_of_the_timeline(
    many_calls: Run, long_run: Sharer
) -> None:
    """Infinite bandwidth, no latency: the longest path of the same graph without copies and
    deliveries.
    """
    made = prepared(many_calls.profile, replace(nething("hold"), replay="timeline"))
    assert made.timeline is not None
    graph = long_run.graph
    copied = np.zeros(len(graph.activity), dtype=bool)
    copied[long_run.moved.activity] = True
    gone = (graph.kind == EDGE["deliver"]) | ((graph.kind == EDGE["run"]) & copied[graph.owner])
    free = made.timeline.on(replace(graph, lag_ns=np.where(gone, 0, graph.lag_ns)))
    expected = float(free.seconds(no_change(len(made.run)))) + long_run.beyond
    for form in FORMS:
        found = long_run.together(form, 1, bandwidth=1e15, latency=0.0, law="agochart")
        assert found.seconds == pytest.approx(expected, rel=1e-6)
    assert expected < long_run.measured


@pytest.mark.parametrize("law", ["anchored", "agochart"])
def test_alone_run_time_is_convex_in_latency_and_never_falls(run: Sharer, law: str) -> None:
    at = np.array([0.0, 1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3])
    seconds = np.array([run.together("loose", 1, latency=float(x), law=law).seconds for x in at])  # type: ignore[arg-type]
    slopes = np.diff(seconds) / np.diff(at)
    assert (slopes >= -1e-6).all() and (np.diff(slopes) >= -1e-3 * slopes.max()).all()
    gain = float(np.interp(NOW, at, seconds) / np.interp(NEAR, at, seconds))
    assert seconds[-1] / np.interp(NOW, at, seconds) >= 1 + 10 * (1 - 1 / gain) - 1e-6, (
        "the bound that two of the report's rows break"
    )


def test_a_larger_gpu_gains_what_the_blocks_allow(run: Sharer) -> None:
    full, blocks, small = (
        run.together("tight", 4, gain="full"),
        run.together("tight", 4),
        replace(
            run, kernels=replace(run.kernels, blocks=np.ones_like(run.kernels.blocks)), units=100
        ).together("tight", 4),
    )
    assert (
        full.seconds
        <= blocks.seconds
        <= run.together("tight", 4, gain="rounds").seconds
        <= small.seconds
    )
    assert small.penalty == pytest.approx(1.0, abs=1e-8), (
        "kernels of one block are no faster on any GPU"
    )
    assert full.seconds >= run.measured - run.kernels.seconds.sum() * 0.75 - 1e-9, (
        "no more than kernels can give"
    )
    assert run.together("tight", 1, speed=2.0).seconds < run.measured


@given(
    st.lists(st.integers(0, 5000), min_size=1, max_size=20),
    st.integers(1, 64),
    st.sampled_from([0, 32, 256, 1024]),
    st.integers(1, 16),
)
def test_the_least_gain_is_no_more_than_the_most(
    run: Sharer, blocks: list[int], units: int, threads: int, times: int
) -> None:
    """A block more than fits at once saves a whole round of resident blocks, more than a
    multiprocessor saves of its own blocks.
    """
    n = len(blocks)
    same = {
        name: np.full(n, value)
        for name, value in (("threads", threads), ("registers", 0), ("units", units))
    }
    held = replace(
        run.kernels, blocks=np.array(blocks), seconds=np.ones(n), activity=np.arange(n), **same
    )
    one = replace(run, kernels=held)
    least, most, full = (one.gained(times, gain) for gain in ("rounds", "blocks", "full"))
    assert (least >= 1).all() and (least <= most).all() and (most <= full * (1 + 1e-12)).all()


def test_pooled_work_is_bounded_by_the_gpu(run: Sharer) -> None:
    """However the runs meet, k runs on a GPU k times as large keep it busy no longer than it is
    there.
    """
    busy = float(run.kernels.seconds.sum())
    for count in (2, 5):
        assert (
            run.together("pooled", count, gain="full").seconds
            >= busy / run.kernels.at_once.max() - 1e-9
        )


@pytest.mark.parametrize("count", [1, 2, 3])
def test_runs_on_the_recorded_gpu_are_those_on_a_pool_of_its_size(run: Sharer, count: int) -> None:
    """`shared` is `pooled` on a GPU as many times as large whose multiprocessors are as many times
    slower.
    """
    slow = run.together("pooled", count, gain="full", speed=1 / count)
    one = run.together("shared", count, gain="full")
    assert one.seconds == pytest.approx(slow.seconds, rel=1e-9)
    busy = float(run.kernels.seconds.sum()) / run.kernels.at_once.max() / run.devices
    assert count * busy - 1e-8 <= one.seconds <= count * run.measured + 1e-8


@pytest.mark.parametrize("form", FORMS)
def test_a_thread_alone_has_its_core_to_itself(run: Sharer, form: Form) -> None:
    """With a core for each thread, or more, nothing is shared that was not: the run is itself; and
    fewer never make it shorter.
    """
    rounded = 2e-12 * len(run.graph.activity) * 3
    threads = 1 + int(run.kernels.device.max())
    assert run.together(form, 1, cores=threads).seconds == pytest.approx(run.measured, abs=rounded)
    apart, crowd = (run.together(form, 3, cores=cores).seconds for cores in (1000, 1))
    assert apart == pytest.approx(run.together(form, 3).seconds, rel=1e-6) and crowd >= apart * (
        1 - 1e-9
    )


def test_host_work_on_one_core_takes_its_turn(run: Sharer) -> None:
    """Two runs on a GPU each and one core: no faster than that core, and no slower than one after
    the other.
    """
    graph = with_gaps(run.graph)
    inside = (graph.source > 0) & (graph.owner == (graph.source - 1) // 2)
    busy = float(graph.lag_ns[inside & (graph.kind == EDGE["call"])].sum()) * 1e-9
    assert 0 < busy < run.measured, "the rest is waiting"
    assert 2 * busy <= run.together("loose", 2, cores=1).seconds <= 2 * run.measured


@pytest.mark.parametrize("form", ["loose", "shared"])
def test_two_recordings_of_one_run_are_that_run_twice(long_run: Sharer, form: Form) -> None:
    both, twice = pair(long_run, long_run, form), long_run.together(form, 2)
    assert both.together == pytest.approx(twice.seconds, rel=1e-9)
    assert both.penalties == pytest.approx((twice.penalty, twice.penalty), rel=0.02), (
        "alike runs end together but for their turns"
    )
    assert 0 <= both.saved < 1


def test_two_programs_of_different_length_on_one_gpu() -> None:
    """The longer has the GPU to itself once the shorter is done; both together take no longer than
    one after the other.
    """
    cases = Path(__file__).parents[3] / "validation" / "cases"
    folders = [cases / f"distance_{name}" for name in ("shape_stream", "opencv_pyramid")]
    made = [
        ready(tb.read(folder / "recording", source=str(folder / "machine.toml")))
        for folder in folders
    ]
    both = pair(*made, "shared")
    busy = [float(m.kernels.seconds.sum() + m.moved.seconds.sum()) for m in made]
    alone = [m.together("shared", 1).seconds for m in made]
    assert all(
        a <= b <= a + other + 1e-6
        for a, b, other in zip(alone, both.seconds, reversed(busy), strict=True)
    )
    assert both.together <= sum(both.alone)


def test_two_runs_are_beside_each_other_on_what_there_is(seen: Run, run: Sharer) -> None:
    refused("A097", pair, run, run, "tight")
    bare = replace(
        run,
        moved=replace(run.moved, **{name: value[:0] for name, value in vars(run.moved).items()}),
    )
    refused("A165", pair, bare, run, "loose")


def test_the_answer_adds_up(run: Sharer) -> None:
    found = sharing(run, (1, 2, 4), FORMS)
    about = found.as_dict()
    assert [(r["form"], r["runs"]) for r in about["rows"] if r["form"] != "loose"] == [
        (f, k) for f in ("tight", "pooled", "shared") for k in (1, 2, 4)
    ]
    for row in about["rows"]:
        jobs = 1 if row["form"] == "tight" else row["runs"]
        assert row["gain"] == pytest.approx(jobs / row["penalty"]) and row[
            "penalty"
        ] == pytest.approx(row["seconds"] / run.measured)
    loose, pooled = (
        next(r for r in found.rows if (r.form, r.runs) == (f, 4)) for f in ("loose", "pooled")
    )
    assert (
        found.benefit(4, "pooled") == pytest.approx(loose.seconds / pooled.seconds)
        and found.benefit(3, "tight") is None
    )
    assert about["kernels"]["count"] == len(run.kernels.activity)
    slow = found.slowest("tight", 4)
    assert (
        slow == run.together("tight", 4, gain="rounds").penalty
        and found.slowest("loose", 4) is None
    )
    assert [
        r["penalty_least_gain"] for r in about["rows"] if r["form"] == "tight" and r["runs"] == 4
    ] == [slow]
    assert sharing(run, (2,), ("tight",), gain="full").least == ()
    only = sharing(run, (2,), ("tight",))
    assert only.fit is None and only.benefit(2, "tight") is None


def test_a_surface_holds_what_its_points_are(run: Sharer) -> None:
    found = sharing_surface(run, ("pooled", "loose"), (3, 1), (1e-4, 1e-5), (RATE, 1e9))
    assert (
        found.forms == ("loose", "pooled")
        and found.runs == (1, 3)
        and found.latencies == (1e-5, 1e-4)
        and len(found.points) == 16
    )
    one = found.point("pooled", 3, NEAR, RATE)
    assert one is not None and one == run.together("pooled", 3, bandwidth=RATE, latency=NEAR)
    loose, now = found.point("loose", 3, NEAR, RATE), found.point("loose", 1, NOW, RATE)
    assert loose is not None and now is not None and found.point("tight", 3, NEAR, RATE) is None
    near = found.point("loose", 1, NEAR, RATE)
    assert near is not None
    assert found.comparisons() == {
        "integration": now.seconds / near.seconds,
        "gpu_gpu_pooled": one.gain / loose.gain,
    }
    assert found.as_dict()["points"][0] == {
        "form": "loose",
        "runs": 1,
        "latency_seconds": 1e-5,
        "bandwidth": 1e9,
        "seconds": found.points[0].shared.seconds,
        "penalty": found.points[0].shared.penalty,
        "gain": found.points[0].shared.gain,
    }


def test_steps_of_parameters(run: Sharer) -> None:
    found = parameter_differences(run, "loose", 1)
    assert list(found) == ["latency", "bandwidth", "copy cost", "kernel time"]
    assert (
        found["kernel time"].sign == "rises"
        and found["bandwidth"].sign == "falls"
        and found["copy cost"].sign == "rises"
    )
    assert 0 < found["kernel time"].elasticity < 1


@pytest.mark.parametrize(
    ("latencies", "bandwidths", "code"),
    [
        ((-1e-6,), (1e9,), "A096"),
        ((float("nan"),), (1e9,), "A096"),
        ((), (1e9,), "A096"),
        ((1e-6,), (0.0,), "A096"),
        ((1e4,), (1e9,), "A096"),
    ],
)
def test_grids_that_cannot_be(
    run: Sharer, latencies: tuple[float, ...], bandwidths: tuple[float, ...], code: str
) -> None:
    refused(code, sharing_surface, run, ("loose",), (1,), latencies, bandwidths)


def test_what_is_too_much_or_says_nothing(seen: Run, run: Sharer) -> None:
    many = tuple(np.linspace(1e-6, 1e-3, 400).tolist())
    refused(
        "A173",
        sharing_surface,
        run,
        FORMS,
        (256,),
        many,
        tuple(np.linspace(1e9, 1e10, 100).tolist()),
    )
    refused(
        "A173",
        parameter_differences,
        replace(run, moved=replace(run.moved, activity=np.zeros(1_000_000, np.int64))),
        "loose",
        256,
    )
    none = replace(run, kernels=replace(run.kernels, activity=np.zeros(0, np.int64)))
    refused("A172", sharing, none, (1,), ("tight",))
    refused("A097", ready, seen, units=-1)
    refused("A097", sharing, run, (1,), ("tight",), speed=float("nan"))


def test_a_device_is_named_by_its_number() -> None:
    """Two processes that both call a GPU 0 have one; apart they have two; numbers of their own are
    two in any case.
    """

    def made(second: int) -> Run:
        copy = {"stream": 7, "correlation": 1, "size_bytes": 64, "direction": 1}
        rows = [
            {**copy, "start_ns": 10, "end_ns": 20, "process": 1 << 24, "device": 0},
            {**copy, "start_ns": 15, "end_ns": 30, "process": 2 << 24, "device": second},
        ]
        calls = [
            {
                "start_ns": 5 + p,
                "end_ns": 8 + p,
                "process": p << 24,
                "thread": (p << 24) + p,
                "correlation": 1,
                "name": 5,
            }
            for p in (1, 2)
        ]
        return Run.of(build(trace_of({"api": calls, "copies": rows})))

    one, two = made(0), made(1)
    assert (ready(one).devices, ready(one).sharers) == (1, 2) and (
        ready(one, apart=True).devices,
        ready(one, apart=True).sharers,
    ) == (2, 1)
    assert (ready(two).devices, ready(two).sharers) == (2, 1)
    graph = ready(two).graph
    assert numbered(two.profile, graph)[1] == [0, 1] and sorted(
        copies(two.profile, graph).device.tolist()
    ) == [0, 1]
    assert ready(one).engines.tolist() == [[2, 1]] and ready(one, apart=True).engines.tolist() == [
        [1, 1],
        [1, 1],
    ]
