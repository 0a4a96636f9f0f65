"""What a sweep says in a sentence: the best point, how far GPUDirect gains, where it helps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from turnbuckle.mpi.questions.messages.exchanged import MESSAGES
from turnbuckle.questions.sweep.grid import Study
from turnbuckle.questions.sweep.kinds import PROJECT
from turnbuckle.questions.sweep.summary import SweepSummary, summaries, varying

AXES: dict[str, list[Any]] = {
    "path": ["hostcopy", "gpudirect"],
    "ranks_per_node": [1, 2, 4],
    "hop_seconds": [1e-6, 1e-5],
}


def summed(
    gain: Callable[[Mapping[str, Any]], float],
    axes: dict[str, list[Any]] | None = None,
    **more: Any,
) -> SweepSummary:
    """The summary of a sweep whose gain at each combination is given."""
    study = Study("s", MESSAGES, {"run": Path("run")}, {}, (), axes or AXES)
    rows = []
    for point in study.points():
        talk = 1e-3 if point.values.get("path") == "gpudirect" else 1e-3 * (1 + gain(point.values))
        rows.append(
            {
                "recording": "run",
                **point.values,
                "seconds": 1 + talk,
                "communication_seconds": talk,
                "code": None,
                **more,
            }
        )
    (one,) = summaries(study, rows)
    return one


@pytest.mark.parametrize(
    ("gain", "verdict", "says"),
    [
        (lambda at: 0.5 + at["hop_seconds"], "helps", "gain of communication +50%"),
        (lambda at: -0.2, "does not help", "gain of communication -20%"),
        (lambda at: 0.002, "makes no difference", "+0.2%"),
        (
            lambda at: 0.3 if at["ranks_per_node"] > 1 else -0.1,
            "depends",
            "(it helps from ranks_per_node 2 on): gain of communication -1",
        ),
        (
            lambda at: 0.3 if at["ranks_per_node"] < 4 else 0.0,
            "depends",
            "helps up to ranks_per_node 2",
        ),
        (
            lambda at: 0.3 if at["ranks_per_node"] == 2 else 0.0,
            "depends",
            "helps at ranks_per_node 2)",
        ),
        (
            lambda at: 0.3 if at["hop_seconds"] < 2e-6 else 0.0,
            "depends",
            "helps at hop_seconds 1 us",
        ),
        (
            lambda at: 0.3 if at["hop_seconds"] < 2e-6 and at["ranks_per_node"] == 1 else -0.1,
            "depends",
            "helps depends: gain",
        ),
    ],
)
def test_verdicts(gain: Callable[[Mapping[str, Any]], float], verdict: str, says: str) -> None:
    one = summed(gain)
    assert one.verdict == verdict and says in one.sentence, one.sentence
    assert (
        one.as_dict()["gpudirect"]["verdict"] == verdict
        and one.as_dict()["gpudirect"]["combinations"] == 6
    )


def test_the_ends_are_told_with_where_they_are() -> None:
    one = summed(lambda at: 0.1 * at["ranks_per_node"] + 1e4 * at["hop_seconds"])
    told = one.as_dict()["gpudirect"]
    assert told["least"]["communication"] == pytest.approx(0.11) and told["least"]["at"] == {
        "ranks_per_node": 1,
        "hop_seconds": 1e-6,
    }
    assert told["most"]["communication"] == pytest.approx(0.5) and told["most"]["at"] == {
        "ranks_per_node": 4,
        "hop_seconds": 1e-5,
    }
    assert (
        "least at ranks_per_node 1, hop_seconds 1 us; most at ranks_per_node 4, hop_seconds 10 us"
        in one.sentence
    )
    assert told["most"]["run_time"] == pytest.approx(1.0015 / 1.001 - 1)
    assert one.best is not None and one.best["path"] == "gpudirect"


def test_one_combination_has_no_ends() -> None:
    one = summed(lambda _: 0.25, {"path": ["hostcopy", "gpudirect"]})
    assert one.sentence == (
        "shortest run 1 s, 1 ms of it communication, at path gpudirect; GPUDirect helps: "
        "gain of communication +25%, of the run +0.025%"
    )


def test_what_has_no_answer_is_counted_and_not_compared() -> None:
    study = Study(
        "s",
        MESSAGES,
        {"run": Path("run"), "gone": Path("gone")},
        {},
        (),
        {"path": ["hostcopy", "gpudirect"], "seed": [0, 1]},
    )
    rows = [
        {
            "recording": p.recording,
            **p.values,
            "seconds": 2.0,
            "communication_seconds": 1.0,
            "code": None,
        }
        if p.recording == "run" and (p.values["path"], p.values["seed"]) != ("gpudirect", 1)
        else {
            "recording": p.recording,
            **p.values,
            "seconds": None,
            "communication_seconds": None,
            "code": "A071",
        }
        for p in study.points()
    ]
    run, gone = summaries(study, rows)
    assert (
        len(run.gained) == 1
        and run.unpaired == 1
        and "at 1 combination one path or both have no answer" in run.sentence
    )
    assert (
        gone.best is None
        and gone.sentence == "no point has an answer"
        and gone.as_dict()["best"] is None
    )


def test_more_ranks_do_more_and_are_not_worse_for_it() -> None:
    one = summed(lambda at: 0.5, {"path": ["hostcopy", "gpudirect"], "ranks": [16, 64]})
    assert one.best is not None and one.best["ranks"] == 64


def test_other_models_have_a_best_point_and_no_verdict() -> None:
    study = Study(
        "s",
        PROJECT,
        {"run": Path("run")},
        {"draws": 0},
        [{"on": "gh200", "alpha": 1.0}, {"on": "nvlink-c2c", "alpha": 1.0}],
    )
    assert varying(study) == ("on",)
    rows = [
        {"recording": "run", **p.values, "seconds": 2.0 - p.index, "code": None}
        for p in study.points()
    ]
    (one,) = summaries(study, rows)
    assert (
        one.verdict == ""
        and one.sentence == "shortest run 1 s, on nvlink-c2c"
        and one.as_dict()["gpudirect"] is None
    )
