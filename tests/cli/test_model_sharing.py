"""``turnbuckle model sharing``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_names import SAMPLE, Ran

Run = Callable[..., Ran]


def test_the_sample_shares_its_link(turnbuckle: Run) -> None:
    ran = turnbuckle("model", "sharing", SAMPLE)
    assert ran.code == 0, ran.err
    assert "fit behind one link within 5 %" in ran.out and "the fastest recorded copy's rate" in ran.out
    about = json.loads(turnbuckle("model", "sharing", SAMPLE, "--runs", "1,2,16", "--format", "json").out)
    penalties = [r["penalty"] for r in about["rows"]]
    assert penalties[0] == pytest.approx(1.0, abs=1e-9) and penalties == sorted(penalties)
    busiest = max(about["rows"][-1]["busy_to_device"], about["rows"][-1]["busy_to_host"])
    assert 0 < busiest <= 1 + 1e-9, "a link carries no more than it can"


def test_a_named_link_and_a_switch(turnbuckle: Run) -> None:
    narrow, wide = (
        json.loads(turnbuckle("model", "sharing", SAMPLE, "--link", k, "--format", "json").out) for k in ("pcie3x1", "pcie6x16")
    )
    assert narrow["rows"][0]["penalty"] > wide["rows"][0]["penalty"] >= 1 - 1e-9
    far = json.loads(turnbuckle("model", "sharing", SAMPLE, "--hop", "1 ms", "--runs", "1", "--format", "json").out)
    assert far["rows"][0]["penalty"] > 1 and far["hop_seconds"] == 5e-4


@pytest.mark.parametrize(
    ("words", "code", "exit_code"),
    [
        (("--runs", "0"), "A075", 2),
        (("--runs", "many"), "A075", 2),
        (("--runs", "100000"), "A075", 2),
        (("--link", "pcie9x16"), "A016", 2),
        (("--link", "12"), "U001", 2),
        (("--hop", "far"), "U0", 2),
        (("--hop", "1e30 s"), "A072", 2),
        (("--link", "0 B/s"), "A072", 2),
    ],
)
def test_questions_that_cannot_be(turnbuckle: Run, words: tuple[str, ...], code: str, exit_code: int) -> None:
    ran = turnbuckle("model", "sharing", SAMPLE, *words)
    assert ran.code == exit_code and f"error[{code}" in ran.err


def test_nothing_to_share(turnbuckle: Run, shared: Path) -> None:
    ran = turnbuckle("model", "sharing", next((shared / "traces" / "nsys" / "extrap_exgpu_s10").glob("*.sqlite")))
    assert ran.code == 3 and "A165" in ran.err
