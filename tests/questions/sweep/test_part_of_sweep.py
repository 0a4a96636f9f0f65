"""A part of a recording in a sweep: the same numbers as `turnbuckle.Run.read` with that part, by
setting, axis and option.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_names import SAMPLE, Ran
from refusals import refused

from turnbuckle.mpi.questions.messages.exchanged import MESSAGES
from turnbuckle.projection.run import Run
from turnbuckle.questions.distance.question import tolerate
from turnbuckle.questions.sweep.kinds import PROJECT, SHARING, SLACK
from turnbuckle.questions.sweep.points import Held

Verb = Callable[..., Ran]


@pytest.mark.parametrize("part", ["whole", "steady", "kernels", "568ms..845ms"])
def test_a_part_by_two_verbs_is_one_number(part: str) -> None:
    run, held = Run.read(SAMPLE, part=part, use_cache=False), Held(SAMPLE)
    (projected,) = run.project(["gh200"], draws=0).projections
    row = PROJECT.evaluate(held, PROJECT.settings("gh200", draws=0, part=part))
    assert row["seconds"] == projected.seconds and row["measured_seconds"] == run.profile.seconds
    far = SLACK.evaluate(held, SLACK.settings(1e-5, part=part))
    assert far["seconds"] == float(tolerate(run, "link", draws=0).curve(1e-5))
    assert SHARING.evaluate(held, SHARING.settings(2, part=part))[
        "measured_seconds"
    ] == pytest.approx(run.profile.seconds)


def test_a_part_is_a_setting_an_axis_or_an_option(turnbuckle: Verb, tmp_path: Path) -> None:
    shutil.copy(SAMPLE, tmp_path / "run.sqlite")
    words = (
        "sweep",
        "run.sqlite",
        "--model",
        "project",
        "--set",
        "draws=0",
        "--axis",
        "on=self,gh200",
        "--workers",
        "1",
        "--format",
        "json",
    )
    both = json.loads(turnbuckle(*words, "--axis", "part=whole,kernels").out)["rows"]
    assert [row["part"] for row in both] == ["whole", "kernels"] * 2
    alone = json.loads(turnbuckle(*words, "--part", "kernels").out)["rows"]
    assert [row["seconds"] for row in alone] == [
        row["seconds"] for row in both if row["part"] == "kernels"
    ]
    assert alone[0]["seconds"] < both[0]["seconds"]
    twice = turnbuckle(*words, "--part", "kernels", "--set", "part=steady")
    assert twice.code == 2 and "A081" in twice.err
    nonsense = turnbuckle(*words, "--part", "the middle")
    assert nonsense.code != 0 and "A070" in nonsense.err


def test_a_schedule_has_no_parts(tmp_path: Path) -> None:
    (tmp_path / "ring.goal").write_text(
        "num_ranks 2\nrank 0 {\nsend 8b to 1\n}\nrank 1 {\nrecv 8b from 0\n}\n"
    )
    refused(
        "A069", MESSAGES.evaluate, Held(tmp_path / "ring.goal"), MESSAGES.settings(part="steady")
    )
