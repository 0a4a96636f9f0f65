"""Recordings of MPI calls alone through every verb: an answer, or a refusal that names what is
missing.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_names import SAMPLE, Ran

Run = Callable[..., Ran]

#: File below the shared traces, what it is called, ranks.
RECORDINGS = {
    "paje": ("simgrid-local/halo-64-paje.trace.xz", "Paje trace of SimGrid 3.32.0", 64),
    "paraver": (
        "paraver/lulesh_8rank_4p4/lulesh_4+4_with_uncores_sockets1+2.chop_5it.prv",
        "Paraver trace of Extrae",
        8,
    ),
    "dumpi": ("dumpi/bgp_7rank/testbgp.meta", "DUMPI 1.1.0 trace", 7),
    "pmpi": ("goal/sphot_pmpi_4rank/htor-coll-rank-0.dat", "PMPI text trace of collprof 0.9", 4),
}


pytestmark = pytest.mark.usefixtures("read_once")


@pytest.fixture(params=RECORDINGS)
def recording(request: pytest.FixtureRequest, shared: Path) -> tuple[Path, str, int]:
    name, made, ranks = RECORDINGS[request.param]
    return shared / "traces" / name, made, ranks


def test_each_is_called_what_it_is(turnbuckle: Run, recording: tuple[Path, str, int]) -> None:
    path, made, ranks = recording
    for words in ((path,), ("inspect", path)):
        ran = turnbuckle(*words)
        assert (
            ran.code == 0
            and made in ran.out
            and "Nsight" not in ran.out
            and f"{ranks} ranks" in ran.out
        )
        assert "turnbuckle model messages" in ran.out
    assert f"turnbuckle model messages {path.name}" in ran.out.replace("\n", " ")
    ran = turnbuckle("doctor", path)
    assert (
        ran.code == 0 and made in ran.out and "CUDA graphs" not in ran.out and "messages" in ran.out
    )


def test_calls_are_calls_and_rows_are_rows(turnbuckle: Run, shared: Path) -> None:
    """A Waitall of 18 requests is one call."""
    said = json.loads(
        turnbuckle("inspect", shared / "traces" / RECORDINGS["dumpi"][0], "--format", "json").out
    )["profile"]["mpi"]
    assert (said["count"], said["calls"]) == (2667, 1589)
    assert (
        "1,589 MPI calls" in turnbuckle("inspect", shared / "traces" / RECORDINGS["dumpi"][0]).out
    )


@pytest.mark.parametrize("verb", ["project", "slack", "export --on gh200 -o out.json"])
def test_what_needs_a_gpu_is_refused(
    turnbuckle: Run, recording: tuple[Path, str, int], verb: str
) -> None:
    name, *options = verb.split()
    ran = turnbuckle(name, recording[0], *options)
    assert (
        ran.code == 3
        and "A121" in ran.err
        and "only MPI calls" in ran.err
        and "model messages" in ran.err
    )


def test_the_report_says_what_was_recorded(
    turnbuckle: Run, recording: tuple[Path, str, int], tmp_path: Path
) -> None:
    path, made, ranks = recording
    assert turnbuckle("report", path, "-o", tmp_path / "r.html").code == 3
    text = (tmp_path / "r.html").read_text()
    text = html.unescape(
        re.sub(r"<[^>]+>", " ", re.sub(r"(?s)<(script|style|svg).*?</\1>", "", text))
    )
    assert made in text and "Nsight" not in text and "before 2.7" not in text
    assert (
        f"{ranks} ranks" in text
        and "turnbuckle model messages FILE" in text
        and "stood closer" not in text
    )


def test_recordings_of_a_gpu_are_told_as_before(turnbuckle: Run) -> None:
    assert "turnbuckle project" in turnbuckle("inspect", SAMPLE).out
    assert "schema" in turnbuckle("doctor", SAMPLE).out


def test_unknown_formats_are_told_all_that_is_read(turnbuckle: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("what is this\n")
    said = " ".join(turnbuckle("inspect", tmp_path / "a.txt").err.split())
    assert "P013" in said
    for name in ("Nsight Systems", "OTF2", "Paje", "Paraver", "DUMPI", "PMPI", "SimGrid", "GOAL"):
        assert name in said


@pytest.mark.parametrize("name", ["run.prv", "run.meta", "run.trace.xz", "run.paje", "run.otf2"])
def test_a_folder_names_the_file_inside_it(turnbuckle: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "it").mkdir()
    for file in (name, "README", "run.row"):
        (tmp_path / "it" / file).write_text("x")
    said = " ".join(turnbuckle("inspect", tmp_path / "it").err.split())
    assert "P002" in said and f"name the file inside it, for example {name}" in said
