"""``turnbuckle anonymise`` on the command line: a copy that every verb takes, what is said of it,
and what is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_names import SAMPLE, SECRETS, Ran, document
from refusals import refused

import turnbuckle as tb
from turnbuckle.trace.read import read
from turnbuckle.trace.trace import Trace

Run = Callable[..., Ran]


def test_a_copy_is_written_that_inspects_alike(turnbuckle: Run, tmp_path: Path) -> None:
    ran = turnbuckle("anonymise", SAMPLE, "-o", "copy")
    assert ran.code == 0 and "turnbuckle inspect copy" in ran.out and "kernel names" in ran.out
    ours, theirs = (
        document(turnbuckle("inspect", path, "--format", "json"))["profile"]
        for path in (tmp_path / "copy", SAMPLE)
    )
    for key in (
        "run_time_ns",
        "kernels",
        "copies",
        "memsets",
        "api",
        "categories_ns",
        "launch",
        "overlap",
    ):
        assert ours[key] == theirs[key], key
    names = set(read(SAMPLE).names) & set(Trace.from_parquet(tmp_path / "copy").names)
    assert all(name.startswith(("cu", "hip")) for name in names if name)


def test_nothing_secret_comes_out(turnbuckle: Run, hostile: Path, tmp_path: Path) -> None:
    for words in (
        ("-o", "copy"),
        ("-o", "other", "--format", "json"),
        ("--dry-run",),
        ("--dry-run", "--format", "json"),
    ):
        ran = turnbuckle("anonymise", hostile, *words)
        assert ran.code == 0
        assert not [word for word in SECRETS if word in ran.out + ran.err], words
        assert "\x1b]" not in ran.out and "\x07" not in ran.out and "\x9b" not in ran.out
        assert "P182" in ran.out
    trace = Trace.from_parquet(tmp_path / "copy")
    text = json.dumps([trace.names.to_list(), (tmp_path / "copy" / "trace.json").read_text()])
    assert not [word for word in (*SECRETS, "hostile", "owned", "RED") if word in text]


def test_json_says_what_became_of_what(turnbuckle: Run, tmp_path: Path) -> None:
    said = document(turnbuckle("anonymise", SAMPLE, "--dry-run", "--format", "json"))
    rows = {(r["what"], r["action"]): r for r in said["treated"]}
    hashed = rows["kernel names", "hashed"]
    assert hashed["count"] >= 1 and " -> kernel-" in hashed["examples"][0]
    assert (
        said["folder"] is None
        and said["source"]["credentials"] == 0
        and said["tables"]["kernels"] > 0
    )
    assert list(tmp_path.iterdir()) == []
    beside = document(turnbuckle("anonymise", SAMPLE, "-o", "copy", "--format", "json"))
    assert (
        beside["folder"] == "copy"
        and {r["what"]: r["examples"] for r in beside["treated"] if r["action"] == "hashed"}[
            "kernel names"
        ]
        == []
    )


def test_python_writes_what_the_command_writes(turnbuckle: Run, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"0123456789abcdef")
    ran = document(
        turnbuckle(
            "anonymise",
            SAMPLE,
            "--key-file",
            "key",
            "--keep",
            "gemm",
            "-o",
            "copy",
            "--format",
            "json",
        )
    )
    run = tb.read(SAMPLE)
    assert (
        run.anonymise(tmp_path / "same", key=b"0123456789abcdef", keep="gemm").rows()
        == ran["treated"]
    )
    ours, theirs = (Trace.from_parquet(tmp_path / name) for name in ("same", "copy"))
    assert ours.names.equals(theirs.names) and all(
        ours.tables[n].equals(frame) for n, frame in theirs.tables.items()
    )
    refused("A402", run.anonymise, tmp_path / "other", keep="(")
    refused("R005", run.anonymise, tmp_path / "same")


def test_a_key_makes_hashes_that_meet(turnbuckle: Run, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"0123456789abcdef")
    for folder, words in (
        ("a", ("--key-file", "key")),
        ("b", ("--key-file", "key")),
        ("c", ()),
        ("d", ("--key-file", "key", "--keep", "gemm")),
    ):
        assert turnbuckle("anonymise", SAMPLE, "-o", folder, *words).code == 0
    a, b, c, d = (set(Trace.from_parquet(tmp_path / folder).names) for folder in "abcd")
    assert a == b and a != c
    assert any("gemm" in name for name in d) and not any("gemm" in name for name in a)


@pytest.mark.parametrize(
    ("words", "code", "say"),
    [
        ((), "A404", "--dry-run"),
        (("-o", "full"), "R005", "a folder with files"),
        (("-o", "file"), "R005", "a file"),
        (("-o", "link"), "R005", "a link"),
        (("-o", "new", "--keep", "("), "A402", "unclosed"),
        (("-o", "new", "--keep", "x" * 2000), "A402", "letters"),
        (("-o", "new", "--key-file", "short"), "A403", "3 bytes"),
        (("-o", "new", "--key-file", "missing"), "A403", "no such file"),
        (("-o", "new", "--key-file", "full"), "A403", "no file"),
        (("-o", "file/below"), "R001", "Not a directory"),
    ],
)
def test_what_is_refused(
    turnbuckle: Run, tmp_path: Path, words: tuple[str, ...], code: str, say: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "short").write_bytes(b"abc")
    before = sorted(tmp_path.iterdir())
    ran = turnbuckle("anonymise", SAMPLE, *words)
    assert ran.code == 2 and f"error[{code}]" in ran.err and say in ran.err
    assert sorted(tmp_path.iterdir()) == before


def test_what_is_no_recording_is_refused_as_everywhere(turnbuckle: Run, tmp_path: Path) -> None:
    ran = turnbuckle("anonymise", tmp_path / "missing.sqlite", "-o", "copy")
    assert ran.code == 2 and "error[P001]" in ran.err and not (tmp_path / "copy").exists()
