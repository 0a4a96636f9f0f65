"""``turnbuckle sweep``."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread

import polars as pl
import pytest
from hostile_names import SAMPLE, Ran

import turnbuckle as tb

Run = Callable[..., Ran]
STUDY = """
[study]
name = "couplings"
model = "project"
[recordings]
milc = "run.sqlite"
[settings]
draws = 0
replay = "sum"
[axes]
on = ["self", "nvlink-c2c", "gh200"]
alpha = ["hold", 2]
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    shutil.copy(SAMPLE, tmp_path / "run.sqlite")
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path / "study.toml"


def test_a_study_becomes_a_table(turnbuckle: Run, study: Path) -> None:
    ran = turnbuckle("sweep", "study.toml", "-o", "t.csv", "--workers", "1")
    assert ran.code == 0, ran.err
    assert (
        "6 points, 6 computed now" in ran.out
        and "none failed" in ran.out
        and "everywhere: recording milc, draws 0" in ran.out
    )
    table = pl.read_csv("t.csv")
    assert table.columns[:5] == ["recording", "draws", "replay", "on", "alpha"] and table.columns[
        -2:
    ] == ["code", "error"]
    assert table["on"].to_list() == ["self", "self", "nvlink-c2c", "nvlink-c2c", "gh200", "gh200"]
    assert (
        table["alpha"].to_list() == ["hold", "2.0"] * 3 and table["low_seconds"].null_count() == 6
    ), "no draws, no interval"
    assert not list(Path.cwd().glob(".t.csv*")), "the draft is gone"
    again = turnbuckle("sweep", "study.toml", "-o", "t.csv", "--by", "seconds", "--rows", "2")
    assert (
        "0 computed now" in again.out
        and "6 from the journal" in again.out
        and "4 more rows" in again.out
    )
    assert again.out.index("nvlink-c2c") < again.out.index("4 more rows")


def test_a_point_is_what_project_says(turnbuckle: Run, study: Path) -> None:
    row = json.loads(turnbuckle("sweep", "study.toml", "--format", "json", "--workers", "1").out)[
        "rows"
    ][4]
    from dataclasses import replace

    from turnbuckle.projection.model import nething

    (told,) = (
        tb.read(SAMPLE)
        .project(["gh200"], model=replace(nething("hold"), replay="sum"), draws=0)
        .projections
    )
    assert (row["on"], row["alpha"], row["seconds"], row["penalty"]) == (
        "gh200",
        "hold",
        told.seconds,
        told.penalty,
    )
    assert row["copy_seconds"] == told.breakdown["copy"]


def test_the_interval_is_what_project_says(turnbuckle: Run, study: Path) -> None:
    ran = turnbuckle(
        "sweep",
        "run.sqlite",
        "--model",
        "project",
        "--axis",
        "on=gh200",
        "--set",
        "draws=40",
        "--workers",
        "1",
        "--format",
        "json",
    )
    (row,) = json.loads(ran.out)["rows"]
    (told,) = tb.read(SAMPLE).project(["gh200"], draws=40).projections
    assert told.interval is not None
    assert (row["low_seconds"], row["seconds"], row["high_seconds"]) == (
        told.interval.low,
        told.seconds,
        told.interval.high,
    )


def test_a_parameter_of_the_target_may_vary(turnbuckle: Run, study: Path) -> None:
    words = (
        "--model",
        "project",
        "--set",
        "draws=0",
        "--set",
        "on=self",
        "--axis",
        "link.h2d.bandwidth=10 GB/s,20 GB/s,40 GB/s",
    )
    rows = json.loads(
        turnbuckle("sweep", "run.sqlite", *words, "--format", "json", "--workers", "1").out
    )["rows"]
    assert [r["link.h2d.bandwidth"] for r in rows] == [1e10, 2e10, 4e10]
    assert rows[0]["seconds"] > rows[1]["seconds"] > rows[2]["seconds"]


def test_slack_and_sharing(turnbuckle: Run, study: Path) -> None:
    words = (
        "--model",
        "slack",
        "--axis",
        "slack_seconds=0s,10us",
        "--axis",
        "mode=link,api",
        "--format",
        "json",
        "--workers",
        "1",
    )
    rows = json.loads(turnbuckle("sweep", "run.sqlite", *words).out)["rows"]
    assert [r["penalty"] for r in rows[:2]] == [1.0, 1.0] and rows[2]["seconds"] > rows[3][
        "seconds"
    ] > rows[0]["seconds"]
    words = ("--model", "sharing", "--axis", "runs=1,4", "--format", "json", "--workers", "1")
    rows = json.loads(turnbuckle("sweep", "run.sqlite", *words).out)["rows"]
    assert [r["runs"] for r in rows] == [1, 4] and rows[0]["seconds"] < rows[1]["seconds"]


def test_messages_are_what_model_messages_says(turnbuckle: Run, shared: Path) -> None:
    file = shared / "traces" / "otf2-local" / "scorep-py-halo-4r" / "archive" / "traces.otf2"
    words = (
        "--axis",
        "ranks-per-node=1,2",
        "--axis",
        "path=hostcopy,gpudirect",
        "--set",
        "card_bandwidth=200 Gb/s",
        "--format",
        "json",
    )
    rows = json.loads(turnbuckle("sweep", file, *words, "--workers", "1").out)["rows"]
    told = json.loads(
        turnbuckle(
            "model",
            "messages",
            file,
            "--ranks-per-node",
            "1,2",
            "--bandwidth",
            "200 Gb/s",
            "--format",
            "json",
        ).out
    )
    seconds = {(r["ranks_per_node"], r["path"]): r["seconds"] for r in told["replays"]}
    assert [(r["ranks_per_node"], r["path"]) for r in rows] == [
        (1, "hostcopy"),
        (1, "gpudirect"),
        (2, "hostcopy"),
        (2, "gpudirect"),
    ]
    assert [r["seconds"] for r in rows] == [seconds[r["ranks_per_node"], r["path"]] for r in rows]
    assert {r["card_bandwidth"] for r in rows} == {25e9} and all(
        r["communication_seconds"] > 0 for r in rows
    )


def test_charts_and_a_sentence_for_each_recording(turnbuckle: Run, shared: Path) -> None:
    file = shared / "traces" / "otf2-local" / "scorep-py-halo-4r" / "archive" / "traces.otf2"
    shutil.copytree(file.parent, "one")
    words = (
        "--axis",
        "path=hostcopy,gpudirect",
        "--axis",
        "ranks_per_node=1,2,4",
        "--workers",
        "1",
    )
    ran = turnbuckle("sweep", "one/traces.otf2", *words, "--charts", "figures", "-o", "t.json")
    assert ran.code == 0, ran.err
    names = ["gain-over-ranks-per-node", "one-over-ranks-per-node", "one-node-shapes"]
    assert sorted(p.stem for p in Path("figures").glob("*.svg")) == sorted(
        f"sweep-{n}" for n in names
    ), "named after its folder"
    said = " ".join(ran.out.split())
    assert "one: shortest run" in said and "GPUDirect helps: gain of communication +" in said
    told = json.loads(Path("t.json").read_text())["summary"]
    assert told[0]["gpudirect"]["verdict"] == "helps" and told[0]["sentence"] in said
    shutil.copytree("one", "two/archive")
    both = turnbuckle(
        "sweep", "one/traces.otf2", "two/archive/traces.otf2", "--workers", "1", "--format", "csv"
    ).out
    assert [line.split(",")[0] for line in both.splitlines()[1:]] == ["one", "two"]
    few = turnbuckle("sweep", "one/traces.otf2", "--workers", "1", "--charts", "none")
    assert few.code == 0 and "note: no figures: no setting varies" in few.err


def test_the_result_is_seen_however_many_settings_vary(
    turnbuckle: Run, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    file = shared / "traces" / "otf2-local" / "scorep-py-halo-4r" / "archive" / "traces.otf2"
    shutil.copytree(file.parent, "one")
    shutil.copytree(file.parent, "another-one")
    axes = (
        "path=hostcopy,gpudirect",
        "ranks_per_node=1,2",
        "card_bandwidth=12.5 GB/s,25 GB/s",
        "hop_seconds=500ns,1.58us",
    )
    words = [w for axis in (*axes, "mapping=linear,random") for w in ("--axis", axis)]
    ran = turnbuckle(
        "sweep",
        "one/traces.otf2",
        "another-one/traces.otf2",
        *words,
        "--workers",
        "1",
        "--rows",
        "2",
    )
    header = ran.out.splitlines()[1:3]
    assert header[0].rstrip().endswith("communication_") and all(
        len(line.rstrip()) <= 80 for line in ran.out.splitlines()
    )


def test_a_setup_that_cannot_be_is_a_row(turnbuckle: Run, shared: Path) -> None:
    file = shared / "traces" / "otf2-local" / "scorep-py-halo-4r" / "archive" / "traces.otf2"
    Path("places.csv").write_text("node\n0\n1\n0\n1\n")
    words = (
        "--axis",
        "gpus_per_node=1,2",
        "--axis",
        "ranks_per_node=1,2",
        "--axis",
        "mapping=linear,places.csv,gone.csv",
    )
    ran = turnbuckle("sweep", file, *words, "-o", "t.csv", "--workers", "1")
    assert ran.code == 0 and "7 failed" in ran.out, ran.out + ran.err
    codes = {
        (r["gpus_per_node"], r["ranks_per_node"], r["mapping"]): r["code"]
        for r in pl.read_csv("t.csv").to_dicts()
    }
    assert codes[2, 1, "linear"] == "A074" and codes[1, 2, "gone.csv"] == "A061"
    assert codes[1, 2, "places.csv"] is None and codes[1, 1, "places.csv"] == "A092"
    before = Path("t.csv").read_bytes()
    Path("places.csv").write_text("node\n0\n0\n1\n1\n")
    again = turnbuckle("sweep", file, *words, "-o", "t.csv", "--workers", "1")
    assert "4 computed now" in again.out and Path("t.csv").read_bytes() != before, (
        "the file that places ranks is part of the question"
    )


def test_what_a_model_can_be_asked(turnbuckle: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ran = turnbuckle("sweep", "--settings", "messages")
    assert (
        ran.code == 0
        and "ranks_per_node = 1  (a whole number)" in ran.out
        and "(a bandwidth, as 100 Gb/s)" in ran.out
    )
    assert (
        "[B/s]" in ran.out
        and "\\[" not in ran.out
        and "flops_per_second" in ran.out
        and all(len(w) <= 80 for w in ran.out.splitlines())
    )
    assert "needed" in turnbuckle("sweep", "--settings", "slack").out
    assert "error[A081]" in turnbuckle("sweep", "--settings", "slak").err
    assert "error[A083]: there is nothing to sweep" in turnbuckle("sweep").err


def test_shards_and_formats(turnbuckle: Run, study: Path) -> None:
    first = turnbuckle(
        "sweep",
        "study.toml",
        "-o",
        "t.parquet",
        "--shard",
        "1/2",
        "--workers",
        "1",
        "--charts",
        "figures",
    )
    assert "figures follow" in first.err and not Path("figures").exists()
    assert first.code == 0 and "3 of 6 points" in first.out and not Path("t.parquet").exists()
    assert (
        turnbuckle(
            "sweep", "study.toml", "-o", "t.parquet", "--shard", "2/2", "--workers", "1"
        ).code
        == 0
    )
    whole = turnbuckle("sweep", "study.toml", "-o", "whole.parquet", "--workers", "1")
    assert whole.code == 0 and Path("t.parquet").read_bytes() == Path("whole.parquet").read_bytes()
    for name in ("a.json", "b.json"):
        Path(f"{name}.journal").write_bytes(Path("whole.parquet.journal").read_bytes())
    assert turnbuckle("sweep", "study.toml", "-o", "a.json").code == 0
    assert turnbuckle("sweep", "study.toml", "-o", "b.json", "--shard", "1/1").code == 0
    assert Path("a.json").read_bytes() == Path("b.json").read_bytes()
    about = json.loads(Path("a.json").read_text())
    assert (about["study"], about["model"], about["points"], about["missing"], about["failed"]) == (
        "couplings",
        "project",
        6,
        0,
        {},
    )
    assert (
        about["provenance"]["recordings"]["milc"]["file"] == "run.sqlite"
        and len(about["rows"]) == 6
    )


def test_no_answer_anywhere(turnbuckle: Run, study: Path) -> None:
    ran = turnbuckle(
        "sweep", "run.sqlite", "--axis", "path=hostcopy,gpudirect", "-o", "t.csv", "--workers", "1"
    )
    assert ran.code == 3 and "A167" in ran.err and "A164 at 2 of 2 points" in ran.err
    assert pl.read_csv("t.csv")["code"].to_list() == ["A164", "A164"], "the rows are kept"
    Path("broken.sqlite").write_bytes(SAMPLE.read_bytes()[:3000])
    both = turnbuckle(
        "sweep",
        "run.sqlite",
        "broken.sqlite",
        "--model",
        "slack",
        "--axis",
        "slack_seconds=1us",
        "--workers",
        "1",
    )
    assert (
        both.code == 0 and "2 points" in both.out and "1 failed" in both.out and "P005" in both.out
    )


@pytest.mark.parametrize(
    ("words", "code", "exit_code", "says"),
    [
        (("study.toml", "--axis", "on=gh200"), "A083", 2, "sets its axes"),
        (("study.toml", "run.sqlite"), "A083", 2, "cannot be combined"),
        (("study.toml", "-o", "t.txt"), "A010", 2, ".json, .csv, .parquet"),
        (("study.toml", "--shard", "1/2"), "A083", 2, "needs an output"),
        (("study.toml", "-o", "t.csv", "--shard", "3/2"), "A083", 2, "2/8"),
        (("study.toml", "--workers", "0"), "A083", 2, "from 1 to 4096"),
        (("study.toml", "--by", "second"), "A081", 2, "did you mean seconds?"),
        (("nowhere.toml",), "A061", 2, ""),
        (
            ("nowhere.sqlite", "--model", "slack", "--axis", "slack_seconds=1us"),
            "A082",
            2,
            "nowhere.sqlite",
        ),
        (
            ("run.sqlite", "--model", "slak", "--axis", "slack_seconds=1us"),
            "A081",
            2,
            "did you mean slack?",
        ),
        (
            ("run.sqlite", "--model", "slack", "--axis", "slak_seconds=1us"),
            "A081",
            2,
            "did you mean slack_seconds?",
        ),
        (
            ("run.sqlite", "--model", "slack", "--axis", "slack_seconds=1"),
            "U001",
            2,
            "--axis slack_seconds",
        ),
        (("run.sqlite", "--model", "slack", "--axis", "slack_seconds="), "A081", 2, "not a value"),
        (
            ("run.sqlite", "--model", "slack", "--axis", "slack_seconds=-1us"),
            "A081",
            2,
            "0 to 0.1 s",
        ),
        (("run.sqlite", "--model", "slack"), "A081", 2, "needs slack_seconds"),
        (
            ("run.sqlite", "--model", "slack", "--set", "slack_seconds=1us,2us"),
            "A081",
            2,
            "--axis slack_seconds",
        ),
        (
            ("run.sqlite", "run.sqlite", "--model", "slack", "--axis", "slack_seconds=1us"),
            "A081",
            2,
            "recordings have the same name",
        ),
        (("run.sqlite", "--model", "project", "--axis", "on=nosuch"), "M001", 2, ""),
        (
            (
                "run.sqlite",
                "--model",
                "project",
                "--set",
                "on=self",
                "--axis",
                "link.h2d.bandwidth=-1 GB/s",
            ),
            "A081",
            2,
            "above 0",
        ),
    ],
)
def test_what_cannot_be_asked(
    turnbuckle: Run, study: Path, words: tuple[str, ...], code: str, exit_code: int, says: str
) -> None:
    ran = turnbuckle("sweep", *words, *(() if "--workers" in words else ("--workers", "1")))
    assert ran.code == exit_code and f"error[{code}]" in ran.err and says in ran.err, ran.err


def test_hostile_names_stay_text(turnbuckle: Run, study: Path) -> None:
    shutil.copy("run.sqlite", "[red]x\x1b[2J.sqlite")
    ran = turnbuckle(
        "sweep",
        "[red]x\x1b[2J.sqlite",
        "--model",
        "slack",
        "--axis",
        "slack_seconds=1us",
        "--workers",
        "1",
    )
    assert ran.code == 0 and "\x1b[2J" not in ran.out + ran.err


def test_a_batch_system_ends_it_in_order(
    turnbuckle: Run, study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from turnbuckle.questions.sweep.answers.journal import Journal

    write = Journal.write

    def ended(journal: Journal, answers: object) -> None:
        write(journal, answers)  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(Journal, "write", ended)
    ran = turnbuckle("sweep", "study.toml", "-o", "t.csv", "--workers", "1")
    assert (
        ran.code == 143
        and "the same command continues from there" in ran.err
        and not Path("t.csv").exists()
    )
    assert signal.getsignal(signal.SIGTERM) == before
    monkeypatch.setattr(Journal, "write", write)
    assert (
        " from the journal"
        in turnbuckle("sweep", "study.toml", "-o", "t.csv", "--workers", "1").out
    )


def test_ctrl_c_on_a_terminal(tmp_path: Path, study: Path) -> None:
    """A bar while it runs; Ctrl-C ends workers and says how to go on; the journal goes on."""
    # far more than is done before Ctrl-C
    text = STUDY.replace('"sum"', '"timeline"').replace(
        '["hold", 2]', "{from = 1, to = 3, points = 501}"
    )
    study.write_text(text)
    ours, theirs = pty.openpty()
    words = [
        sys.executable,
        "-c",
        "from turnbuckle.cli import main; main()",
        "sweep",
        "study.toml",
        "-o",
        "t.csv",
        "--workers",
        "2",
    ]
    environment = {**os.environ, "COLUMNS": "100", "TERM": "xterm"}
    running = subprocess.Popen(
        words,
        cwd=tmp_path,
        stderr=theirs,
        stdout=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )
    os.close(theirs)
    said: list[bytes] = []

    def listen() -> None:
        with suppress(OSError):
            while more := os.read(ours, 65536):
                said.append(more)

    listener = Thread(target=listen)
    listener.start()
    journal = tmp_path / "t.csv.journal"
    end = time.monotonic() + 120
    while not (journal.exists() and journal.read_bytes().count(b"\n") > 3):
        assert time.monotonic() < end and running.poll() is None
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)
    assert running.wait(120) == 130
    listener.join()
    os.close(ours)
    told = b"".join(said).decode()
    assert "couplings" in told, "a bar"
    assert (
        "the same command continues from there" in told
        and "Traceback" not in told
        and "KeyboardInterrupt" not in told
    )
    assert not (tmp_path / "t.csv").exists()


def test_a_sample_and_a_refined_axis(turnbuckle: Run) -> None:
    shutil.copy(SAMPLE.with_name("milc-like-synthetic.sqlite"), "milc.sqlite")
    words = (
        "sweep",
        "milc.sqlite",
        "--model",
        "project",
        "--workers",
        "1",
        "--axis",
        "on=t4,cdi-row-link",
    )
    words += ("--set", "draws=0", "--set", "replay=sum")
    far = ("--axis", "slack.link=100ns..1ms log")
    ran = turnbuckle(*words, *far, "--sample", "6", "--seed", "5", "-o", "s.parquet")
    assert ran.code == 0 and "12 points, 12 computed now" in ran.out, ran.err
    assert pl.read_parquet("s.parquet")["slack.link"].n_unique() == 6
    more = turnbuckle(*words, *far, "--sample", "8", "--seed", "5", "-o", "s.parquet")
    assert "12 from the journal" in more.out
    refined = turnbuckle(*words, *far, "--refine", "60", "--within", "5%", "--format", "json")
    (change,) = json.loads(refined.out)["crossovers"]
    assert (
        change["below"] == "cdi-row-link before t4"
        and change["axis"] == "slack.link"
        and 0 < change["width"] <= 0.05
    )
    assert change["low"] < 3.8e-5 < change["high"] * 1.05
    told = turnbuckle(*words, *far, "--refine", "4")
    assert (
        "4 points added of at most 4; 1 of the changes could be narrowed by more points"
        in " ".join(told.out.split())
    )


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--axis", "slack_seconds=1us..1ms"), "A084", "is a range"),
        (("--axis", "slack_seconds=1us,2us", "--sample", "4"), "A084", "no range to sample"),
        (
            ("--axis", "slack_seconds=1us..1ms", "--axis", "slack_seconds=2us", "--sample", "4"),
            "A081",
            "set twice",
        ),
        (
            ("--axis", "slack_seconds=1us..1ms cubic", "--sample", "4"),
            "A080",
            "no spacing of this name",
        ),
        (("--axis", "slack_seconds=0s..1ms log", "--sample", "4"), "A080", "above 0"),
        (("--axis", "slack_seconds=1us..1GB", "--sample", "4"), "U0", "slack_seconds"),
        (("--axis", "slack_seconds=1us..1ms", "--seed", "4"), "A083", "without --sample"),
        (("--axis", "slack_seconds=1us,2us", "--within", "1%"), "A083", "without --refine"),
        (
            ("--axis", "slack_seconds=1us..1ms", "--refine", "4", "--sample", "4"),
            "A084",
            "no sample",
        ),
        (("--axis", "slack_seconds=1us..1ms", "--sample", "-1"), "A084", "from 1 to"),
    ],
)
def test_ranges_that_cannot_be_asked(
    turnbuckle: Run, study: Path, words: tuple[str, ...], code: str, says: str
) -> None:
    ran = turnbuckle("sweep", "run.sqlite", "--model", "slack", *words)
    assert ran.code == 2 and f"error[{code}" in ran.err and says in ran.err, ran.err
