"""What a command reads it never writes to; what it writes is there whole or not at all; and it
waits for no pipe.
"""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from drawings import each_kind_once
from hostile_names import SAMPLE, Ran
from refusals import refused

from turnbuckle.foundation import files
from turnbuckle.trace.read import read

Run = Callable[..., Ran]
NAMES = os.fsdecode(b"r\xe9sum\xe9")  # no UTF-8


def content(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder, by its path; of a link what it leads to."""
    found = sorted(p for p in folder.rglob("*") if p.is_file())
    return {
        p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in found
    }


def aim(kind: str, source: Path, at: Path) -> Path:
    """A path that is the file `source`: itself, a link to it, a second name of it, or a way round
    to it.
    """
    if kind == "same":
        return source
    if kind == "way round":
        (source.parent / "sub").mkdir(exist_ok=True)
        return source.parent / "sub" / ".." / source.name
    at.symlink_to(source) if kind == "link" else os.link(source, at)
    return at


@pytest.fixture(scope="module", autouse=True)
def _each_kind_drawn_once() -> Iterator[None]:
    with each_kind_once():
        yield


VERBS: dict[str, tuple[str, ...]] = {
    "inspect": ("--format", "json"),
    "project": ("--on", "nvlink-c2c", "--draws", "0", "--format", "csv"),
    "slack": ("--draws", "0", "--format", "csv"),
    "report": ("--on", "nvlink-c2c", "--draws", "0"),
    "export": ("--on", "nvlink-c2c"),
    "transfers": ("--on", "pcie5-x16", "--format", "parquet"),
}


#: What each writes.
FORMATS: dict[str, str] = {
    "inspect": "json",
    "report": "html",
    "transfers": "parquet",
    "export": "json",
}


@pytest.mark.parametrize("kind", ["same", "link", "second name", "way round"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_recording_is_never_written_over(
    turnbuckle: Run, tmp_path: Path, verb: str, kind: str
) -> None:
    recording = tmp_path / "run.sqlite"
    shutil.copy(SAMPLE, recording)
    output = aim(kind, recording, tmp_path / f"out.{FORMATS.get(verb, 'csv')}")
    before = sorted(tmp_path.iterdir())
    ran = turnbuckle(verb, recording, *VERBS[verb], "-o", output)
    assert ran.code == 2 and "error[R004]" in ran.err and ran.out == ""
    assert recording.read_bytes() == SAMPLE.read_bytes() and sorted(tmp_path.iterdir()) == before


MACHINE = """
name = "mine"
title = "a machine"
base = "nvlink-c2c"
"""


def other_inputs(folder: Path) -> dict[str, list[object]]:
    """Command lines that read something besides a recording, by the name of the file that is also
    to be written.
    """
    recording = folder / "run.sqlite"
    shutil.copy(SAMPLE, recording)
    (folder / "mine.toml").write_text(MACHINE)
    (folder / "runs.csv").write_text(
        "cores,run time [s]\n" + "".join(f"{n},{10 / n + 1}\n" for n in (1, 2, 4, 8))
    )
    (folder / "key").write_bytes(b"0123456789abcdef")
    (folder / "chain.toml").write_text("x = 1\n")
    study = (
        '[study]\nname = "s"\nmodel = "project"\n[recordings]\nrun = "run.sqlite"\n[axes]\n'
        'on = ["nvlink-c2c"]\n'
    )
    (folder / "study.toml").write_text(study)
    return {
        "mine.toml": [
            "project",
            recording,
            "--on",
            "mine.toml",
            "--draws",
            "0",
            "--format",
            "json",
        ],
        "./mine.toml": ["machines", "show", "mine.toml"],
        "runs.csv": ["cores", "runs.csv", "--format", "csv"],
        "study.toml": ["sweep", "study.toml", "--format", "csv"],
        "chain.toml": ["model", "chain", "chain.toml", "--format", "json"],
    }


@pytest.mark.parametrize("name", ["mine.toml", "runs.csv", "study.toml", "chain.toml"])
@pytest.mark.parametrize("kind", ["same", "second name"])
def test_no_other_input_is_written_over(
    turnbuckle: Run, tmp_path: Path, name: str, kind: str
) -> None:
    words = other_inputs(tmp_path)[name]
    output = aim(kind, tmp_path / name, tmp_path / "out.csv")
    before = content(tmp_path)
    ran = turnbuckle(*words, "-o", output)
    assert ran.code == 2 and "error[R004]" in ran.err
    assert content(tmp_path) == before


def test_figures_take_no_input_s_place(turnbuckle: Run, tmp_path: Path) -> None:
    recording = tmp_path / "run.sqlite"
    shutil.copy(SAMPLE, recording)
    words = ("transfers", recording, "--on", "pcie5-x16", "--charts")
    assert turnbuckle(*words, tmp_path / "first").code == 0
    (tmp_path / "charts").mkdir()
    os.link(recording, tmp_path / "charts" / next((tmp_path / "first").iterdir()).name)
    ran = turnbuckle(*words, tmp_path / "charts")
    assert (
        ran.code == 2 and "error[R004]" in ran.err and recording.read_bytes() == SAMPLE.read_bytes()
    )
    assert len(list((tmp_path / "charts").iterdir())) == 1, "the others are not half there"


#: Recordings of several files: folder, the file that names them, and which files belong to it.
SETS = {
    "otf2": ("otf2/pingpong_2rank", "traces.otf2", ("*.otf2", "*.def", "traces/*")),
    "dumpi": ("dumpi/bgp_7rank", "testbgp.meta", ("testbgp*",)),
    "paraver": ("paraver/lulesh_8rank_4p4", "*.prv", ("*.prv", "*.pcf", "*.row")),
    "rocprofv3": ("rocprof/llm_decode_rocprofv3", "decode_kernel_trace.csv", ("decode_*.csv",)),
    "pmpi": ("goal/sphot_pmpi_4rank", "htor-coll-rank-0.dat", ("htor-coll-rank-*.dat",)),
    "kineto": ("kineto/mi210_gpu_only", "*.json*", ("*.json*",)),
    "chakra": ("chakra/resnet_et", "resnet_et.json.gz", ("*.json.gz",)),
    "goal": ("goal/loggopsim_schedules", "binary_tree_32.goal", ("binary_tree_32.goal",)),
}


def as_named(file: Path) -> tuple[str, ...]:
    """The format for a file, where its name does not say it."""
    return () if file.suffix in (".csv", ".parquet", ".json") else ("--format", "json")


@pytest.mark.shared
@pytest.mark.parametrize("name", SETS)
def test_no_member_of_a_set_is_written_over(
    turnbuckle: Run, tmp_path: Path, shared: Path, name: str
) -> None:
    folder, anchor, members = SETS[name]
    place = tmp_path / "set"
    shutil.copytree(shared / "traces" / folder, place)
    belonging = sorted({p for pattern in members for p in place.glob(pattern) if p.is_file()})
    before = content(place)
    assert belonging
    for file in {belonging[0], belonging[len(belonging) // 2], belonging[-1]}:
        ran = turnbuckle("inspect", next(place.glob(anchor)), *as_named(file), "-o", file)
        assert ran.code == 2 and "error[R004]" in ran.err, file.name
        assert content(place) == before


def test_no_file_of_a_folder_of_ours_is_written_over(turnbuckle: Run, tmp_path: Path) -> None:
    assert turnbuckle("anonymise", SAMPLE, "-o", "copy").code == 0
    before = content(tmp_path)
    belonging = sorted((tmp_path / "copy").iterdir())
    for file in (belonging[0], belonging[len(belonging) // 2], belonging[-1]):
        ran = turnbuckle("inspect", "copy", *as_named(file), "-o", file)
        assert ran.code == 2 and "error[R004]" in ran.err, file.name
    assert content(tmp_path) == before
    trace = read(tmp_path / "copy")
    refused("R004", trace.to_parquet, tmp_path / "copy")
    assert content(tmp_path) == before


def test_a_journal_is_not_written_over(turnbuckle: Run, tmp_path: Path) -> None:
    words = (*other_inputs(tmp_path)["study.toml"][:2], "--workers", "1", "-o", "table.csv")
    assert turnbuckle(*words).code == 0
    before = content(tmp_path)
    (tmp_path / "table.csv").unlink()
    (tmp_path / "table.csv").symlink_to("table.csv.journal")
    ran = turnbuckle(*words)
    assert ran.code == 2 and "error[R004]" in ran.err
    assert content(tmp_path) | {"table.csv": before["table.csv"]} == before


@pytest.mark.parametrize("missing", ["run.sqlite", "study.toml"])
def test_a_refused_sweep_leaves_no_journal(turnbuckle: Run, tmp_path: Path, missing: str) -> None:
    words = other_inputs(tmp_path)["study.toml"]
    (tmp_path / missing).unlink()
    before = sorted(tmp_path.iterdir())
    assert turnbuckle(*words, "-o", "table.csv").code == 2
    assert sorted(tmp_path.iterdir()) == before


def test_a_sweep_into_a_folder_is_refused_before_it_answers(
    turnbuckle: Run, tmp_path: Path
) -> None:
    words = other_inputs(tmp_path)["study.toml"]
    (tmp_path / "table.csv").mkdir()
    before = sorted(tmp_path.iterdir())
    ran = turnbuckle(*words, "-o", "table.csv")
    assert ran.code == 2 and "error[R003]" in ran.err and sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("theirs", [b"", b"not a journal\n", b"x"])
def test_what_is_no_journal_stays(turnbuckle: Run, tmp_path: Path, theirs: bytes) -> None:
    words = other_inputs(tmp_path)["study.toml"]
    (tmp_path / "run.sqlite").unlink()
    (tmp_path / "table.csv.journal").write_bytes(theirs)
    assert turnbuckle(*words, "-o", "table.csv").code == 2
    assert not theirs or (tmp_path / "table.csv.journal").read_bytes() == theirs


# --- whole or not at all --------------------------------------------------------------------------

WRITERS: dict[str, tuple[object, ...]] = {
    **{
        verb: (verb, SAMPLE, *words, "-o", f"out.{FORMATS.get(verb, 'csv')}")
        for verb, words in VERBS.items()
    },
    "export": ("export", SAMPLE, "--on", "nvlink-c2c", "-o", "out.json.gz"),
    "anonymise": ("anonymise", SAMPLE, "-o", "out"),
    "charts": ("transfers", SAMPLE, "--on", "pcie5-x16", "--charts", "out"),
    "sweep": (
        "sweep",
        SAMPLE,
        "--model",
        "project",
        "--axis",
        "on=nvlink-c2c",
        "--workers",
        "1",
        "-o",
        "out.parquet",
    ),
}


@contextmanager
def _small_files() -> Iterator[None]:
    """No file of this process grows beyond 600 bytes: a write fails, as on a full disk.

    Python would keep the first 600 bytes of every module that it compiles meanwhile, and every
    later process would stumble over them.
    """
    before, kept = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = kept


@pytest.mark.parametrize("verb", WRITERS)
def test_a_full_disk_leaves_nothing_half_made(
    turnbuckle: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    with _small_files():
        ran = turnbuckle(*WRITERS[verb])
    assert ran.code == 2 and ("error[R001]" in ran.err or "error[A086]" in ran.err), ran.err
    assert "File too large" in ran.err
    # what a sweep has answered stays
    assert [p.name for p in tmp_path.iterdir() if not p.name.endswith(".journal")] == []
    (tmp_path / "again").mkdir()
    monkeypatch.chdir(tmp_path / "again")
    assert turnbuckle(*WRITERS[verb]).code == 0


@pytest.mark.parametrize("verb", [verb for verb in WRITERS if verb not in ("anonymise", "charts")])
def test_what_is_there_stays_until_the_new_is_whole(
    turnbuckle: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    def stop(_: Path) -> None:
        raise KeyboardInterrupt

    output = tmp_path / str(WRITERS[verb][-1])
    output.write_text("old")
    output.chmod(0o640)
    with monkeypatch.context() as patch:
        patch.setattr(files, "_to_disk", stop)
        assert turnbuckle(*WRITERS[verb]).code == 130
    assert output.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir() if not p.name.endswith(".journal")] == [output.name]
    assert turnbuckle(*WRITERS[verb]).code == 0
    assert output.read_bytes() != b"old" and output.stat().st_mode & 0o777 == 0o640


def test_an_interrupted_copy_goes(
    turnbuckle: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = 0

    def stop(*words: Any, **more: Any) -> None:
        nonlocal tables
        tables += 1
        if tables == 3:
            raise KeyboardInterrupt
        files.write_parquet(*words, **more)

    monkeypatch.setattr("turnbuckle.trace.trace.write_parquet", stop)
    assert turnbuckle("anonymise", SAMPLE, "-o", "out").code == 130
    assert tables == 3 and list(tmp_path.iterdir()) == []


def test_a_batch_system_s_signal_is_met_in_order(
    turnbuckle: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(_: Path) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(files, "_to_disk", told)
    ran = turnbuckle(*WRITERS["project"])
    assert ran.code == 143 and "interrupted" in ran.err and list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("wrong", [TypeError("no such type"), ValueError("x"), KeyboardInterrupt()])
def test_an_error_that_follows_a_signal_is_an_interrupt(
    turnbuckle: Run, monkeypatch: pytest.MonkeyPatch, wrong: BaseException
) -> None:
    """A library that is interrupted may swallow that and say anything."""

    def interrupted(*_: object, **__: object) -> None:
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        raise wrong

    monkeypatch.setattr("turnbuckle.projection.run.Run.read", interrupted)
    ran = turnbuckle("inspect", SAMPLE)
    assert ran.code == 130 and ran.err == "interrupted\n"


def test_an_interrupt_inside_a_destructor_is_not_lost(
    turnbuckle: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dying:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    def interrupted(*_: object, **__: object) -> None:
        Dying()

    monkeypatch.setattr("turnbuckle.projection.run.Run.read", interrupted)
    ran = turnbuckle("inspect", SAMPLE)
    assert ran.code == 143 and ran.err == "interrupted\n"


def test_an_interrupt_while_an_error_is_said(
    turnbuckle: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("turnbuckle.cli.run.say", stop)
    ran = turnbuckle("inspect", "missing.sqlite")
    assert ran.code == 130 and ran.err == "interrupted\n"


def test_parquet_for_a_device_that_is_full(turnbuckle: Run) -> None:
    ran = turnbuckle("inspect", SAMPLE, "--format", "parquet", "-o", "/dev/full")
    assert ran.code == 2 and "error[R001]" in ran.err


@pytest.mark.parametrize("verb", WRITERS)
def test_outputs_may_have_any_name(turnbuckle: Run, tmp_path: Path, verb: str) -> None:
    *words, output = WRITERS[verb]
    place = tmp_path / NAMES
    place.mkdir()
    ran = turnbuckle(*words, place / (NAMES + str(output)))
    assert ran.code == 0, ran.err
    assert [p for p in place.iterdir() if not p.name.endswith(".journal")]
    if verb == "anonymise":
        assert turnbuckle("inspect", place / (NAMES + str(output))).code == 0


def test_a_link_as_output_stays_a_link(turnbuckle: Run, tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")
    assert turnbuckle("inspect", SAMPLE, "--format", "json", "-o", "link.json").code == 0
    assert (tmp_path / "link.json").is_symlink() and (
        tmp_path / "real.json"
    ).read_text().startswith("{")


# --- odd files ------------------------------------------------------------------------------------


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """End what waits for ever; it judges nothing that ends."""

    def late(*_: object) -> None:
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


READING: dict[str, tuple[object, ...]] = {
    "inspect": ("inspect", "ODD"),
    "anonymise": ("anonymise", "ODD", "-o", "out"),
    "key": ("anonymise", SAMPLE, "--key-file", "ODD", "-o", "out"),
    "merge": ("merge", SAMPLE, "ODD", "-o", "out"),
    "machine": ("project", SAMPLE, "--on", "./ODD", "--draws", "0"),
    "machines": ("machines", "check", "ODD"),
    "cores": ("cores", "ODD"),
    "calibrate": ("calibrate", "ODD"),
    "transfers": ("transfers", "ODD", "--on", "pcie5-x16"),
    "surface": ("slack", SAMPLE, "--published", "ODD", "--draws", "0"),
    "starvation": ("slack", SAMPLE, "--starvation", "ODD", "--draws", "0"),
    "sweep": ("sweep", "ODD.toml"),
    "swept": ("sweep", "ODD", "--model", "project", "--axis", "on=nvlink-c2c"),
    "journal": (
        "sweep",
        SAMPLE,
        "--model",
        "project",
        "--axis",
        "on=nvlink-c2c",
        "-o",
        "journaled.csv",
    ),
    "validate": ("validate", "ODD"),
    "network": ("model", "messages", "ODD"),
    "fabric": ("model", "fabric", "./ODD"),
    "chain": ("model", "chain", "ODD"),
    "dag": ("model", "dag", "ODD"),
    "additive": ("model", "additive", "ODD"),
    "minus": ("inspect", SAMPLE, "--minus", "ODD"),
    "doctor": ("doctor", "ODD"),
}


@pytest.mark.parametrize("odd", ["pipe", "device"])
@pytest.mark.parametrize("words", READING)
def test_no_command_waits_for_a_pipe(turnbuckle: Run, tmp_path: Path, words: str, odd: str) -> None:
    for name in ("ODD", "ODD.toml", "journaled.csv.journal"):
        os.mkfifo(tmp_path / name) if odd == "pipe" else (tmp_path / name).symlink_to("/dev/zero")
    with at_most(60):
        ran = turnbuckle(*READING[words])
    # a doctor answers what is wrong
    assert ran.code == 2 or words == "doctor", ran.err
    assert "error[I001]" not in ran.err and not (tmp_path / "out").exists()
