"""``turnbuckle model patterns``."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hostile_names import Ran

import turnbuckle as tb

Run = Callable[..., Ran]
SMALL = ("SW4lite", "--ranks", "32", "--ranks-per-node", "1,6")


def test_an_application_beside_the_paper(turnbuckle: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ran = turnbuckle("model", "patterns", *SMALL)
    assert ran.code == 0, ran.err
    assert ran.out.startswith("declared synthetic patterns, not recordings: ")
    assert max(map(len, ran.out.splitlines())) <= 80 and "overlaps" in ran.out
    assert "15.8 to 74.4" in ran.out and "23.9 to 39.8" in ran.out and "256 ranks" not in ran.out
    assert "Not printed" in ran.out and "nine tenths of communication are waiting" in ran.out
    answer = tb.model.patterns("SW4lite", ranks="32", ranks_per_node="1,6")
    about = answer.as_dict()
    assert (
        about["schema_version"] == 2
        and about["label"] == "declared synthetic pattern"
        and len(about["assumed"]) >= 5
    )
    (app,) = about["applications"]
    assert app["gain"] == pytest.approx([0.158, 0.744]) and app["partners"] == [2, 4]
    assert {c["what"] for c in about["comparisons"]} == {"gain", "increase"} and about[
        "not_compared"
    ]
    assert (
        about["setup"]["network"] == "lassen"
        and about["setup"]["costs"] == "seed_G"
        and "path" not in about["setup"]
    )
    rows = answer.table()
    assert rows.height == len(about["replays"])
    assert rows.columns[:5] == [
        "application",
        "assumption",
        "ranks",
        "ranks_per_node",
        "hostcopy_seconds",
    ]


def test_by_message_size(turnbuckle: Run) -> None:
    words = (
        "model",
        "patterns",
        "--by-size",
        "--sizes",
        "16 KiB,32 KiB",
        "--ranks-per-node",
        "1,2",
        "--ranks",
        "8",
    )
    ran = turnbuckle(*words)
    assert ran.code == 0, ran.err
    assert (
        "GPUDirect wins from 28.6 kB on" in ran.out
        and "ping-pong, 2 ranks" in ran.out
        and "one direction after the other, 8 ranks" in ran.out
    )
    about = json.loads(turnbuckle(*words, "--format", "json").out)
    assert about["crossovers"][0] == {
        "pattern": "ping-pong",
        "ranks_per_node": 1,
        "size_bytes": 32768.0,
    }
    assert (
        len(about["replays"]) == 3 * 2 * 2
        and len(turnbuckle(*words, "--format", "csv").out.splitlines()) == 13
    )
    assert (
        "none"
        in turnbuckle(
            "model", "patterns", "--by-size", "--sizes", "1 KiB", "--ranks-per-node", "1"
        ).out
    )
    assert (
        turnbuckle("model", "patterns", "--by-size", "--sizes", "0 B", "--ranks-per-node", "1").code
        == 0
    )
    physics = turnbuckle(
        "model",
        "patterns",
        "--by-size",
        "--sizes",
        "1 KiB",
        "--ranks-per-node",
        "1",
        "--costs",
        "physics",
    )
    assert "GPUDirect wins at every size" in physics.out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("SW4light",), "A093"),
        (("AmgX", "--ranks", "0"), "A093"),
        (("SW4lite", "--ranks", "32,1"), "A093"),
        (("AmgX", "--ranks", "some"), "A074"),
        (("AmgX", "--ranks", "900", "--ranks-per-node", "1"), "A074"),
        (("AmgX", "--ranks-per-node", "0"), "A074"),
        (("AmgX", "--ranks-per-node", ""), "A074"),
        (("AmgX", "--hop", "1"), "U001"),
        (("AmgX", "--hop=-1 us"), "A074"),
        (("AmgX", "--eager-limit=-5B"), "A074"),
        (("AmgX", "--set", "speed=1"), "A081"),
        (("--by-size", "--ranks", "8,9"), "A093"),
        (("--by-size", "--ranks", "all"), "A074"),
        (("--by-size", "--sizes", "big"), "U0"),
        (("--by-size", "--sizes=-1 B"), "A093"),
        (("--by-size", "--sizes", ""), "U0"),
        (("--by-size", "--set", "card_bandwidth=0 B/s"), "A074"),
        (("AmgX", "--by-size"), "A093"),
        (("AmgX", "--sizes", "1 KiB"), "A093"),
        (("AmgX", "--set", "path=host"), "A051"),
        (("--by-size", "--set", "ranks_per_node=2"), "A051"),
        (("AmgX", "--set", "ranks=64"), "A051"),
    ],
)
def test_questions_that_cannot_be(turnbuckle: Run, words: tuple[str, ...], code: str) -> None:
    ran = turnbuckle("model", "patterns", *words)
    assert ran.code == 2 and f"error[{code}" in ran.err, ran.err
