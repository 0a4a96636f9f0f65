"""``turnbuckle export``: a file, a pipe, a part, and what is refused."""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_names import SAMPLE, SECRETS, Ran

import turnbuckle as tb

Run = Callable[..., Ran]

#: The one line about a recording whose start-up is left out.
ONLY_A560 = re.compile(
    r"A560: the answer is about the part without start-up: [^\n]+ of [^\n]+; [^\n]*--part whole[^\n]*\n"
)


def test_a_file_for_the_viewer(turnbuckle: Run, tmp_path: Path) -> None:
    ran = turnbuckle("export", SAMPLE, "--to", "json", "--on", "cdi-row-link", "-o", "run.json.gz")
    assert (ran.code, ran.out) == (0, "run.json.gz\n") and ONLY_A560.fullmatch(ran.err)
    found = json.loads(gzip.decompress((tmp_path / "run.json.gz").read_bytes()))
    about = found["otherData"]
    assert (
        about["projections"][0]["target"] == "cdi-row-link"
        and about["projections"][0]["replay"] == "timeline"
    )
    assert about["provenance"]["command"].startswith(
        "turnbuckle export dgemm-like-synthetic.sqlite --to json"
    )
    assert {e["ph"] for e in found["traceEvents"]} == {"M", "X", "C"}


def test_a_pipe_gets_the_same(turnbuckle: Run, tmp_path: Path) -> None:
    assert turnbuckle("export", SAMPLE, "--on", "self", "-o", "run.json").code == 0
    ran = turnbuckle("export", SAMPLE, "--on", "self")
    assert ran.code == 0 and ONLY_A560.fullmatch(ran.err)
    whole = turnbuckle("export", SAMPLE, "--on", "self", "--part", "whole")
    assert whole.code == 0 and whole.err == "" and len(whole.out) > len(ran.out)
    piped, filed = (
        json.loads(ran.out),
        json.loads((tmp_path / "run.json").read_text(encoding="utf-8")),
    )
    assert piped["traceEvents"] == filed["traceEvents"] and len(piped["traceEvents"]) > 100
    assert piped["otherData"]["projections"][0]["penalty"] == 1.0


def test_python_writes_what_the_command_writes(turnbuckle: Run, tmp_path: Path) -> None:
    mine = tb.Machine.load("gh200")
    for name, part in (("whole", "whole"), ("auto", "auto"), ("part", "300ms..400ms")):
        assert (
            turnbuckle("export", SAMPLE, "--on", "gh200", "--part", part, "-o", f"{name}.json").code
            == 0
        )
        tb.read(SAMPLE, part=part).export(tmp_path / "python.json", mine)
        here, there = (
            json.loads((tmp_path / f"{n}.json").read_bytes())["traceEvents"]
            for n in ("python", name)
        )
        assert here == there


def test_not_for_a_terminal(turnbuckle: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdout", Terminal())
    ran = turnbuckle("export", SAMPLE, "--on", "self")
    assert ran.code == 2 and "error[A009]" in ran.err and "--output" in ran.err


def test_a_part_of_the_run(turnbuckle: Run, tmp_path: Path) -> None:
    assert (
        turnbuckle(
            "export", SAMPLE, "--on", "cdi-row-link", "--part", "300ms..400ms", "-o", "part.json"
        ).code
        == 0
    )
    part = json.loads((tmp_path / "part.json").read_text(encoding="utf-8"))
    mine = [e for e in part["traceEvents"] if e["ph"] == "X" and e["pid"] == 2]
    assert len(mine) > 10 and all(e["ts"] >= 0 and e["ts"] + e["dur"] <= 100_000 for e in mine)
    assert part["otherData"]["projections"][0]["measured_seconds"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), "A481"),
        (("--on", "self", "--to", "speedscope"), "A002"),
        (("--on", "gh2000"), "M001"),
        (("--on", "self", "--alpha", "x"), "A003"),
        (("--on", "self", "-o", "missing/run.json"), "R002"),
        (("--on", "self", "-o", "."), "R003"),
    ],
)
def test_questions_that_are_refused(turnbuckle: Run, words: tuple[str, ...], code: str) -> None:
    ran = turnbuckle("export", SAMPLE, *words)
    assert ran.code == 2 and ran.out == "" and f"error[{code}]" in ran.err


def test_a_full_disk_is_said_once(turnbuckle: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as full, monkeypatch.context() as patch:
        patch.setattr("sys.stdout", full)
        ran = turnbuckle("export", SAMPLE, "--on", "self")
    assert ran.code == 2 and ran.err.count("error[R001]") == 1


def test_nothing_secret_and_nothing_that_steers(
    turnbuckle: Run, hostile: Path, tmp_path: Path
) -> None:
    assert (
        turnbuckle("export", hostile, "--on", "nvlink-c2c", "-o", tmp_path / "run.json").code == 0
    )
    said = (tmp_path / "run.json").read_text(encoding="utf-8")
    assert not any(word in said for word in SECRETS)
    assert not any(c in said for c in "\x1b\x07\x9b\u202e\r")
    assert max(len(e["name"]) for e in json.loads(said)["traceEvents"]) <= 600
