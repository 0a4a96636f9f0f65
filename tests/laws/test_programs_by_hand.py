"""Small programs on other machines: what the replay says holds what the rules of a GPU make of
each, step by step.

Their recordings are of one machine; the truth is the same program run by the same rules
(`gpu_by_hand`) on the other.  Where a rule decides the answer is exact; where nothing recorded
decides, the range holds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import pytest
from gpu_by_hand import Gpu, Where
from programs_by_hand import PROGRAMS, RECORDED
from strategies import FULL, machine

from turnbuckle.machine import Change, Machine, Parameter
from turnbuckle.profile.profile import build
from turnbuckle.projection.model import nething
from turnbuckle.projection.projection import Projection
from turnbuckle.projection.run import Run

#: Programs whose order nothing recorded tells: the answer is a range.
DOUBTFUL = {
    *(
        "small_that_never_meet",
        "full_that_never_meet",
        "ring",
        "one_launches_the_other_waits",
        "producer_and_consumer",
    ),
    *(
        "worker_that_is_joined",
        "threads_beside_each_other",
        "graph_behind_its_launch",
        "queries_that_sleep",
        "both_ways_at_once",
    ),
    *("threads_on_a_full_device", "streams_without_calls"),
}
#: What a call costs that was not recorded is in no answer; A365 says how many there are.
UNRECORDED_CALLS = {("streams_without_calls", "calls 10 us")}


@dataclass(frozen=True)
class Question:
    """A machine for the program, and the same machine as a question: what it changes, and how much
    faster its kernels are.
    """

    at: Where
    changes: Mapping[str, float] = field(default_factory=dict)
    alpha: float | None = None


QUESTIONS = {
    "as it is": Question(Where()),
    "kernels a third": Question(Where(kernels=1 / 3), alpha=3.0),
    "kernels three times": Question(Where(kernels=3.0), alpha=1 / 3),
    "kernels ten times": Question(Where(kernels=10.0), alpha=0.1),
    "calls 10 us": Question(Where(call=12_000, back=13_000), {"slack.call": 10e-6}),
    "delivery 20 us": Question(Where(delivery=25_000), {"launch.latency": 26e-6}),
    "delivery 200 us": Question(Where(delivery=205_000), {"launch.latency": 206e-6}),
}


@cache
def recorded(name: str) -> Run:
    """The program on its machine, as a profiler wrote it."""
    gpu = Gpu()
    gpu.run(*PROGRAMS[name](gpu))
    if name in RECORDED:
        gpu.rows["api"] = RECORDED[name](gpu.rows["api"])
    return Run(build(gpu.trace()), machine(FULL), {})


def truth(name: str, at: Where) -> float:
    gpu = Gpu(at)
    return gpu.run(*PROGRAMS[name](gpu)).seconds


def asked(run: Run, question: Question) -> Projection:
    changes = {"launch.latency": FULL["launch.latency"], **question.changes}
    there = [
        Change(name, set=Parameter(value, 0.0, "s", "assumption", "a test"))
        for name, value in changes.items()
    ]
    about = {
        "title": "there",
        "summary": "for a test",
        "year": 2022,
        "coupling": "relative",
        "base": "source",
    }
    model = replace(nething("hold" if question.alpha is None else question.alpha), replay="auto")
    return run.project(
        Machine(name="there", changes=tuple(there), **about), model=model, draws=300
    ).projections[0]


@pytest.mark.parametrize(
    ("name", "question"), sorted({(n, q) for n in PROGRAMS for q in QUESTIONS} - UNRECORDED_CALLS)
)
def test_what_the_rules_make_of_it(name: str, question: str) -> None:
    run, there = recorded(name), QUESTIONS[question]
    expected, found = truth(name, there.at), asked(run, there)
    low, high = found.ends
    assert low * (1 - 1e-3) <= expected <= high * (1 + 1e-3), (expected, found.seconds, low, high)
    if question == "as it is":
        assert found.seconds == found.measured_seconds == low == high
    elif name not in DOUBTFUL:
        assert found.seconds == pytest.approx(expected, rel=0.01)


def test_the_rules_by_hand() -> None:
    """The device itself, against sums on paper [us]."""
    assert truth("one_stream", Where()) == pytest.approx((5 + 10 * 20 + 3) * 1e-6)
    assert truth("full_device", Where()) == pytest.approx(
        (5 + sum(20 + i for i in range(20)) + 3) * 1e-6
    )
    assert truth("half_a_device_each", Where()) == pytest.approx(
        (2 + 5 + sum(20 + i for i in range(1, 20, 2)) + 3) * 1e-6
    )
    assert truth("chain_over_streams", Where(delivery=205_000)) == pytest.approx(
        (205 + 30 * 50 + 3) * 1e-6
    )
    assert truth("tails", Where()) == pytest.approx((5 + 16 * 9 + 3) * 1e-6)
    assert truth("launches_that_block", Where()) == pytest.approx(
        (10 * (5 + 20 + 3) + 9 * 2) * 1e-6
    )
    assert truth("ring", Where()) == pytest.approx(
        (8 * sum(5 + 15 + k + 3 + 2 for k in range(3)) - 2) * 1e-6
    )
    assert truth("graph_behind_itself", Where()) == pytest.approx((5 + 8 * 18 + 3) * 1e-6)


def test_work_that_meets_and_is_not_joined_is_told() -> None:
    found = asked(recorded("full_that_never_meet"), QUESTIONS["kernels ten times"])
    assert [f.detail for f in found.findings if f.code == "A700"] == [
        "2.32 to 4.54 times the recorded time"
    ]
    found = asked(recorded("full_device"), QUESTIONS["kernels ten times"])
    assert not any(f.code == "A700" for f in found.findings)
