"""``turnbuckle model order``."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hostile_names import SAMPLE, Ran

Run = Callable[..., Ran]


def test_a_recording_with_itself(turnbuckle: Run) -> None:
    ran = turnbuckle("model", "order", SAMPLE, SAMPLE)
    assert ran.code == 0, ran.err
    assert "hold in all 2 recordings" in ran.out and "no recording refutes another" in ran.out
    about = json.loads(turnbuckle("model", "order", SAMPLE, SAMPLE, "--format", "json").out)
    assert about["false_share"] is None and about["runs"] == 2
    assert (
        len(about["kernel_streams"]) == 1
        and about["kernels_beside"] == 0
        and about["second_device_used"] is False
    )
    assert (
        all(sentence in ran.out for sentence in about["words"])
        and "none may run beside another" in about["words"][0]
    )
    assert about["seconds_with_order"] >= about["seconds_by_rules"]
    table = turnbuckle("model", "order", SAMPLE, SAMPLE, "--format", "csv").out.splitlines()
    assert (
        table[0].startswith("first_track,first,first_instant,then_track")
        and len(table) == about["dependencies"] + 1
    )


def test_what_is_not_shown_is_counted(turnbuckle: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "more kinds" not in turnbuckle("model", "order", SAMPLE, SAMPLE).out
    monkeypatch.setattr("turnbuckle.questions.order.command._SHOWN", 0)
    assert "more kinds; --format csv lists all" in turnbuckle("model", "order", SAMPLE, SAMPLE).out


def test_one_recording_is_not_enough(turnbuckle: Run) -> None:
    ran = turnbuckle("model", "order", SAMPLE)
    assert ran.code == 3 and "A162" in ran.err


def test_a_delay_needs_a_unit(turnbuckle: Run) -> None:
    ran = turnbuckle("model", "order", SAMPLE, SAMPLE, "--slack", "10")
    assert ran.code == 2 and "error[U001]" in ran.err


@pytest.mark.parametrize(
    ("delay", "code"), [("-1 us", "A017"), ("1e25 s", "A017"), ("1e300 s", "U005")]
)
def test_a_delay_that_none_has(turnbuckle: Run, delay: str, code: str) -> None:
    ran = turnbuckle("model", "order", SAMPLE, SAMPLE, f"--slack={delay}")
    assert ran.code == 2 and f"error[{code}]" in ran.err and "fix:" in ran.err and not ran.out


def test_names_from_recordings_cannot_steer_the_terminal(turnbuckle: Run, hostile: object) -> None:
    ran = turnbuckle("model", "order", hostile, hostile)
    assert ran.code == 0 and "\x1b" not in ran.out
