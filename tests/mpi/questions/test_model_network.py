"""``turnbuckle model network``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_names import SAMPLE, Ran

Run = Callable[..., Ran]
TABLE = "message, from, to, size [B], after, delay [us]\na, 0, 1, 100, ,\nb, 1, 2, 200, a, 1\n"


def test_a_pattern(turnbuckle: Run) -> None:
    ran = turnbuckle("model", "network", "--pattern", "shift:16x4", "--message-size", "1MB")
    assert (
        ran.code == 0
        and ran.out.startswith("fastest on switch: ")
        and "slowest on dragonfly:9x4x2x2" in ran.out
    )
    assert "channel" in ran.out and "16 messages among 16 nodes" in " ".join(ran.out.split())
    one = turnbuckle(
        "model",
        "network",
        "--pattern",
        "shift:16x4",
        "--topology",
        "torus:4x2x2",
        "--fidelity",
        "flow",
    )
    assert (
        one.code == 0
        and "on torus:4x2x2" in one.out
        and "shared fairly" in " ".join(one.out.split())
    )


def test_a_table_of_messages(turnbuckle: Run, tmp_path: Path) -> None:
    (tmp_path / "messages.csv").write_text(TABLE)
    about = json.loads(
        turnbuckle(
            "model", "network", "messages.csv", "--topology", "switch", "--format", "json"
        ).out
    )
    one, other = 650 + 100 + 650 + 57, 650 + 100 + 650 + 86
    assert about["rows"][0]["seconds"] * 1e9 == pytest.approx(one + 1000 + other, abs=1e-3)
    assert about["nodes"] == 3 and about["recorded_seconds"] is None and about["best"] == "switch"
    rows = turnbuckle("model", "network", "messages.csv", "--format", "csv").out.splitlines()
    assert len(rows) == 5 and rows[0].startswith(
        "topology,links,used,seconds,alone_seconds,busiest"
    )


def test_a_graph_of_switches(turnbuckle: Run, tmp_path: Path) -> None:
    """A full mesh of four switches: every shift crosses one cable."""
    name = "[red]\x1b[2J.csv"
    (tmp_path / name).write_text("from, to\n0,1\n0,2\n0,3\n1,2\n1,3\n2,3\n")
    words = ("model", "network", "--pattern", "shift:4x1", "--topology", f"{name},torus:4")
    ran = turnbuckle(*words)
    assert ran.code == 0 and "\x1b" not in ran.out and "[red]" in ran.out
    about = json.loads(turnbuckle(*words, "--format", "json").out)
    mesh, torus = about["rows"]
    assert mesh["seconds"] == torus["seconds"] == mesh["alone_seconds"] and (
        mesh["links"],
        mesh["used"],
    ) == (8 + 12, 8 + 8)
    refused = turnbuckle(*words, "--fidelity", "flow")
    assert refused.code == 2 and "error[A090" in refused.err and "\x1b" not in refused.err


def test_options_reach_the_protocol(turnbuckle: Run) -> None:
    protocol = (
        "--packet",
        "8KiB",
        "--header",
        "0B",
        "--legacy-headers",
        "--acknowledged",
        "--eager-limit",
        "1MB",
    )
    words = (
        "--bandwidth",
        "25GB/s",
        "--node-latency",
        "1us",
        "--switch-latency",
        "0s,50ns",
        *protocol,
    )
    about = json.loads(
        turnbuckle(
            "model",
            "network",
            "--pattern",
            "ping-pong:1",
            *words,
            "--topology",
            "switch",
            "--format",
            "json",
        ).out
    )
    sizes = {
        "packet_bytes": 8192,
        "header_bytes": 0,
        "eager_bytes": 1000000,
        "legacy_headers": True,
        "acknowledged": True,
    }
    speeds = dict.fromkeys(("eager_bandwidth", "remote_bandwidth"), 25e9) | dict.fromkeys(
        ("eager_node_seconds", "remote_node_seconds"), 1e-6
    )
    assert about["protocol"] == sizes | speeds | {
        "eager_switch_seconds": 0.0,
        "remote_switch_seconds": 5e-8,
    }


def test_a_recording(turnbuckle: Run, shared: Path) -> None:
    path = shared / "traces" / "otf2" / "pingpong_2rank" / "traces.otf2"
    ran = turnbuckle("model", "network", path)
    assert ran.code == 0, ran.err
    assert "of 2 ranks, one node each, recorded run time" in " ".join(
        ran.out.split()
    ) and "compute as recorded" in " ".join(ran.out.split())
    about = json.loads(
        turnbuckle(
            "model", "network", path, "--compute", 0, "--topology", "switch", "--format", "json"
        ).out
    )
    assert (
        about["compute"] == 0
        and about["rows"][0]["seconds"] < about["recorded_seconds"]
        and "provenance" in about
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), "A089"),
        (("a.csv", "--pattern", "sweep:2x2"), "A089"),
        (("--pattern", "ring:4"), "A089"),
        (("--pattern", "sweep:2x2", "--message-size=-1B"), "A089"),
        (("--pattern", "sweep:2x2", "--message-size", "8"), "U001"),
        (("--pattern", "sweep:2x2", "--topology", "mesh"), "A090"),
        (("--pattern", "sweep:2x2", "--topology", ","), "A090"),
        (("--pattern", "sweep:4x4", "--topology", "torus:2x2"), "A090"),
        (("--pattern", "sweep:2x2", "--bandwidth", "0 B/s"), "A090"),
        (("--pattern", "sweep:2x2", "--bandwidth", "1GB/s,1GB/s,1GB/s"), "A090"),
        (("--pattern", "sweep:2x2", "--packet", "0B"), "A090"),
        (("--pattern", "sweep:2x2", "--node-latency=-1us"), "A090"),
        (("--pattern", "ping-pong:1000", "--message-size", "10GB"), "A090"),
        (("nothing.csv",), "A061"),
        (("nothing.csv", "--message-size", "8B"), "A056"),
        (("nothing.csv", "--compute", 0), "A056"),
        (("nothing.csv", "--source", "a100"), "A056"),
        (("--pattern", "sweep:2x2", "--compute", 0.5), "A056"),
        (("--pattern", "sweep:2x2", "--no-cache"), "A056"),
        (("--pattern", "sweep:2x2", "--topology", "torus:999999x999999"), "A090"),
        (("--pattern", "sweep:2x2", "--topology", "fat-tree:2x2x2:1x999999x999999"), "A090"),
        (("--pattern", "sweep:2x2", "--topology", "dragonfly:9x999999x1x1"), "A090"),
        (
            ("--pattern", "sweep:2x2", "--topology", "torus:999999x999999", "--fidelity", "flow"),
            "A090",
        ),
        (("nothing.otf2",), "P001"),
    ],
)
def test_questions_that_cannot_be(turnbuckle: Run, words: tuple[object, ...], code: str) -> None:
    ran = turnbuckle("model", "network", *words)
    assert ran.code == 2 and f"error[{code}" in ran.err, ran.err


def test_no_messages(turnbuckle: Run) -> None:
    ran = turnbuckle("model", "network", SAMPLE)
    assert ran.code == 3 and "error[A164" in ran.err


def test_flows_know_no_time_alone(turnbuckle: Run) -> None:
    asked = (
        "model",
        "network",
        "--pattern",
        "shift:4x1",
        "--topology",
        "switch",
        "--fidelity",
        "flow",
        "--format",
    )
    assert json.loads(turnbuckle(*asked, "json").out)["rows"][0]["alone_seconds"] is None
    head, row = turnbuckle(*asked, "csv").out.splitlines()
    assert dict(zip(head.split(","), row.split(","), strict=True))["alone_seconds"] == ""
