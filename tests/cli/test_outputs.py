"""Output that is cut, full, encoded otherwise or hostile: said once, cleanly, with the right exit
code.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from functools import partialmethod
from pathlib import Path

import pytest
from hostile_names import ALL, NONE, SAMPLE, Ran, outside

from turnbuckle.projection.run import Run as Recording

pytestmark = pytest.mark.usefixtures("read_once")
Run = Callable[..., Ran]


@pytest.mark.parametrize("encoding", ["ascii", "iso-8859-1", "utf-8"])
def test_terminals_of_every_encoding(encoded: Run, encoding: str) -> None:
    ran = encoded(encoding, SAMPLE)
    assert ran.code == 0 and "NVLink-C2C" in ran.out and "Unicode" not in ran.err


def test_a_full_disk_is_not_our_defect() -> None:
    with Path("/dev/full").open("w") as full:
        ran = outside(
            "machines",
            "list",
            "--format",
            "json",
            capture_output=False,
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert ran.returncode == 2 and "error[R001]" in ran.stderr


def test_interrupted(monkeypatch: pytest.MonkeyPatch, turnbuckle: Run) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("turnbuckle.projection.run.Run.read", stop)
    ran = turnbuckle("inspect", SAMPLE)
    assert ran.code == 130 and ran.out == ""


@pytest.mark.parametrize(
    "name",
    [
        "\x1b[31mred.sqlite",
        "[red]x[bold].sqlite",
        "a\nb.sqlite",
        os.fsdecode(b"\xff\xfe.sqlite"),
        "ünïcödé 漢字.sqlite",
    ],
)
def test_file_names_are_harmless(
    turnbuckle: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(SAMPLE.read_bytes())
    # a name is in no interval
    monkeypatch.setattr(Recording, "project", partialmethod(Recording.project, draws=0))
    for words in (["inspect", path], ["project", path, "--on", "self", *NONE], [path]):
        ran = turnbuckle(*words)
        assert ran.code == 0 and "\x1b" not in ran.out, words
    assert (
        turnbuckle(
            "project", path, "--on", "self", *NONE, "--format", "json", "-o", tmp_path / "out.json"
        ).code
        == 0
    )
    assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["projections"]
    near = turnbuckle("inspect", tmp_path / (name[:-7] + "x.sqlite"))
    assert near.code == 2 and "\x1b" not in near.err.replace(str(tmp_path), "")
    assert "\x1b" not in turnbuckle("inspect", tmp_path).err


@pytest.mark.parametrize("words", ALL, ids=lambda w: " ".join(w))
def test_names_of_a_recording_are_harmless(
    turnbuckle: Run, hostile: Path, words: list[str]
) -> None:
    ran = turnbuckle(*(w.format(file=hostile) for w in words))
    assert ran.code in (0, 1, 2)
    said = ran.out + ran.err
    assert not any(c in said for c in "\x1b\x07\x9b\u202e\r"), (
        "no escape, bell, CSI or turned writing"
    )
    if "json" not in words and "csv" not in words:
        assert "x" * 200 not in said, "a name of 5 000 characters does not flood the screen"


def test_every_document_says_where_it_comes_from(
    turnbuckle: Callable[..., Ran], tmp_path: Path
) -> None:
    """Numbers asked of no recording: version, command line without folders, and the hash of each
    file it names.
    """
    table = tmp_path / "folder-of-alice" / "runs.csv"
    table.parent.mkdir()
    table.write_text(
        "cores, run time [s]\n1, 186\n2, 152\n3, 136\n4, 128\n6, 123\n8, 122\n", encoding="utf-8"
    )
    told = json.loads(turnbuckle("cores", table, "--format", "json").out)["provenance"]
    assert told["inputs"] == [
        {"file": "runs.csv", "sha256": hashlib.sha256(table.read_bytes()).hexdigest()}
    ]
    assert told["tool"] == "turnbuckle" and told["version"] and "alice" not in json.dumps(told)
    alone = json.loads(turnbuckle("model", "link", "pcie4-x16", "--format", "json").out)[
        "provenance"
    ]
    assert alone["inputs"] == [] and alone["command"].startswith("turnbuckle model link pcie4-x16")
