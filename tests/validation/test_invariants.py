"""What holds of every answer, and twins of a recording: what the fuzzer's judge sees, on a
sample.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_names import SAMPLE, Ran

FUZZ = Path(__file__).resolve().parents[2] / "validation" / "fuzz"
sys.path.insert(0, str(FUZZ))

import invariants  # type: ignore[import-not-found]  # noqa: E402
import twins  # type: ignore[import-not-found]  # noqa: E402

ASKED = (("project", "--on", "self,gh200,cdi-row-link", "--draws", "10"), ("slack", "--draws", "5"))
SOUND = {
    "target": "self",
    "seconds": 2.0,
    "measured_seconds": 2.0,
    "penalty": 1.0,
    "interval": [2.0, 2.0],
    "breakdown": {"a": 0.5, "b": 1.5},
}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, ""),
        ({"seconds": 2.1, "penalty": 1.05, "interval": [2, 3], "breakdown": {}}, "self takes"),
        ({"interval": [2.1, 3.0]}, "is not in"),
        ({"penalty": 1.5}, "is not 2.0 over 2.0"),
        ({"breakdown": {"a": 0.5}}, "adds up to"),
        ({"penalty": None}, "null, and no finding"),
        ({"penalty": float("nan")}, "NaN is a number"),
        ({"penalty": float("inf")}, "Infinity is a number"),
    ],
)
def test_each_invariant_is_seen(change: dict[str, object], told: str) -> None:
    broken = invariants.broken(json.dumps({"projections": [SOUND | change]}))
    assert bool(broken) == bool(told) and told in " ".join(broken)


def test_a_null_that_a_finding_explains_and_a_curve_that_falls() -> None:
    explained = {"projections": [{"seconds": None, "findings": [{"code": "A301"}]}]}
    assert invariants.broken(json.dumps(explained)) == []
    falling = {"curve": [{"slack_s": 0, "seconds": 2.0}, {"slack_s": 1, "seconds": 1.9}]}
    assert "shorter at 1" in invariants.broken(json.dumps(falling))[0]


def answered_alike(turnbuckle: Callable[..., Ran], recording: Path, place: Path) -> None:
    paths = {way: twins.twin(recording, way, place / way) for way in twins.WAYS}
    for verb, *options in ASKED:
        first = turnbuckle(verb, recording, *options, "--format", "json")
        assert not first.code and invariants.broken(first.out) == []
        for way, path in paths.items():
            other = turnbuckle(verb, path, *options, "--format", "json")
            assert other.code == 0 and twins.differences(first.out, other.out) == [], (verb, way)


def test_twins_are_answered_alike(turnbuckle: Callable[..., Ran], tmp_path: Path) -> None:
    answered_alike(turnbuckle, SAMPLE, tmp_path)


@pytest.mark.parametrize("format", [name for name, _ in twins.FORMATS])
def test_twins_of_other_formats_are_answered_alike(
    format: str, turnbuckle: Callable[..., Ran], tmp_path: Path
) -> None:
    """Each way says something else of each file; streams of rocpd are rows of a table, and keep
    their numbers.
    """
    made = [
        path
        for path in twins.samples(tmp_path / "samples")
        if f"/samples/{format}/" in path.as_posix()
    ]
    assert made
    for k, recording in enumerate(made):
        answered_alike(turnbuckle, recording, tmp_path / str(k))
        for way in twins.WAYS:
            same = (
                twins.twin(recording, way, tmp_path / f"{k} again" / way).read_bytes()
                == recording.read_bytes()
            )
            assert same is ((format, way) == ("rocpd", "contexts and streams renamed")), way


def test_another_run_is_no_twin(turnbuckle: Callable[..., Ran]) -> None:
    other = SAMPLE.with_name("milc-like-synthetic.sqlite")
    one, two = (turnbuckle("inspect", path, "--format", "json").out for path in (SAMPLE, other))
    assert twins.differences(one, two)
