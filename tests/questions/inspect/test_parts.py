"""``--part``, ``--rank`` and ``--clean-time`` on every verb that reads a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from inspect import getfile, signature
from pathlib import Path
from typing import Any

import pytest
from hostile_names import SAMPLE, Ran

from turnbuckle.foundation import registry


def test_the_part_is_named_in_every_output(turnbuckle: Callable[..., Ran]) -> None:
    ran = turnbuckle("inspect", SAMPLE, "--part", "100ms..200ms", "--format", "json")
    found = json.loads(ran.out)
    assert found["profile"]["run_time_ns"] == 100_000_000 and found["profile"]["scope"].startswith(
        "a part of the recording: 0.1 s to 0.2 s of "
    )
    part = found["provenance"]["profile"]["part"]
    assert (part["begin_ns"], part["end_ns"]) == (100_000_000, 200_000_000)
    assert "part " in turnbuckle("inspect", SAMPLE, "--part", "nvtx=order 1024").out
    whole = json.loads(turnbuckle("inspect", SAMPLE, "--format", "json").out)
    assert whole["provenance"]["profile"]["part"] is None and whole["profile"]["scope"].startswith(
        "the whole recording"
    )


@pytest.mark.parametrize("verb", ["project", "slack"])
def test_projections_are_of_the_part(turnbuckle: Callable[..., Ran], verb: str) -> None:
    more = ["--on", "self"] if verb == "project" else ["--draws", "0"]
    found = json.loads(
        turnbuckle(
            verb,
            SAMPLE,
            *more,
            "--part",
            "300ms..500ms",
            "--clean-time",
            "199.99ms",
            "--format",
            "json",
        ).out
    )
    about = found["provenance"]["profile"]["part"]
    assert about["clean_ns"] == pytest.approx(199_990_000, abs=1000)
    if verb == "project":
        assert (
            found["projections"][0]["measured_seconds"] == pytest.approx(0.19999, abs=1e-6)
            and found["projections"][0]["penalty"] == 1.0
        )


def test_a_report_of_a_part(turnbuckle: Callable[..., Ran], tmp_path: Path) -> None:
    assert turnbuckle("report", SAMPLE, "--part", "nvtx=order 1024", "-o", "part.html").code == 0
    assert "a part of the recording: " in (tmp_path / "part.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--part", "1"], "A070"),
        (["--part", "2s..1s"], "A070"),
        (["--part", "1..2"], "U001"),
        (["--part", "50s..60s"], "A070"),
        (["--part", "1s.."], "A070"),
        (["--part", "1s..2s..3s"], "A070"),
        (["--part=-1s..2s"], "A070"),
        (["--part", "x..2s"], "U004"),
        (["--part", "steps"], "A070"),
        (["--part", "step=x"], "A070"),
        (["--part", "step=3-2"], "A070"),
        (["--part", "step=1"], "A421"),
        (["--clean-time", "1"], "U001"),
        (["--clean-time=-1s"], "A424"),
        (["--part", "nvtx=nothing"], "A421"),
        (["--rank", "77"], "A423"),
        (["--clean-time", "1h"], "A424"),
        (["--clean-time", "1ms"], "A198"),
    ],
)
def test_refusals(turnbuckle: Callable[..., Ran], words: list[str], code: str) -> None:
    ran = turnbuckle("inspect", SAMPLE, *words)
    assert ran.code in (2, 3) and f"error[{code}]" in ran.err
    assert words[0].partition("=")[0] in ran.err or code in ("A070", "A423")


def test_a_schedule_has_no_parts(turnbuckle: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "two.goal").write_text(
        "num_ranks 2\nrank 0 {\nl1: send 8b to 1\n}\nrank 1 {\nl1: recv 8b from 0\n}\n"
    )
    ran = turnbuckle("inspect", "two.goal", "--rank", "0")
    assert ran.code == 2 and "--rank" in ran.err


#: Verbs that read a run, with what else each needs.
READS = {
    "inspect": (),
    "project": ("--on", "cdi-row-link", "--draws", "0"),
    "slack": ("--draws", "0"),
    "transfers": (),
    "model sharing": ("--runs", "2"),
    "model functions": (),
    "model additive": ("--lambda", "data=2"),
    "anonymise": ("--dry-run",),
}
#: Those whose question is about another machine, distance or program.
JUDGED = {"project", "slack", "transfers", "model sharing", "model additive"}


def answered(turnbuckle: Callable[..., Ran], verb: str, *words: str) -> Any:
    ran = turnbuckle(*verb.split(), SAMPLE, *READS[verb], *words, "--format", "json")
    assert ran.code == 0, ran.err
    document = json.loads(ran.out)
    document.pop("provenance")
    for finding in document.get("findings", []):
        finding.pop("detail")
    return document


@pytest.mark.parametrize("verb", READS)
def test_one_option_in_every_verb_that_reads_a_run(
    turnbuckle: Callable[..., Ran], verb: str
) -> None:
    """A question is about the part without start-up where no part is named, other verbs are about
    the whole; a part is another question.
    """
    whole = answered(turnbuckle, verb, "--part", "whole")
    if verb != "anonymise":  # its examples are hashed by a key of their own
        asked = answered(turnbuckle, verb)
        assert asked == answered(
            turnbuckle, verb, "--part", "steady" if verb in JUDGED else "whole"
        )
        assert (asked == whole) == (verb not in JUDGED)
    assert whole != answered(turnbuckle, verb, "--part", "kernels")


def test_every_verb_that_takes_a_recording_takes_a_part() -> None:
    """`merge` joins whole recordings, `doctor` judges a file, `validate` has `part` in its cases,
    `calibrate` takes no run of a program.

    `model cxl` stands in one file with `model chain`, and reads none.  `pool` takes the recording
    of a class whole, as its jobs are.
    """
    commands = {name: entry.load() for name, entry in registry.entries("questions").items()}
    takes = {name for name, command in commands.items() if "part" in signature(command).parameters}
    reads = {
        name
        for name, command in commands.items()
        if "inspected(" in Path(getfile(command)).read_text(encoding="utf-8")
    } - {
        "model cxl",
        "pool",
    }
    assert (
        reads <= takes
        and {"model order", "cores", "export", "model messages", "model network", "model ssi"}
        <= takes
    )
    assert "sweep" in takes and not takes & {"merge", "validate", "calibrate"}
