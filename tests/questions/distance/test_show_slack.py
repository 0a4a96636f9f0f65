"""``turnbuckle slack``: every way to ask, every way to print, and what is refused."""

from __future__ import annotations

import io
import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from hostile_names import SAMPLE, SECRETS, Ran, document

from turnbuckle.foundation.units import show
from turnbuckle.questions.distance.distance import MODES
from turnbuckle.questions.distance.speeds import OVER

Run = Callable[..., Ran]
FEW = ("--draws", "3")
WAYS = ("latency", *OVER, "both")
KEYS = {
    "latency": ["slack_s", "seconds", "lower", "upper", "penalty"],
    "both": ["slack_s", "bandwidth", "seconds", "penalty"],
}


def changed(tmp_path: Path, *statements: str) -> Path:
    """The sample after some SQL."""
    path = tmp_path / "changed.sqlite"
    shutil.copy(SAMPLE, path)
    path.chmod(0o600)
    with closing(sqlite3.connect(path)) as file, file:
        for statement in statements:
            file.execute(statement)
    return path


# --- formats --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_the_contract(turnbuckle: Run, mode: str) -> None:
    found = document(turnbuckle("slack", SAMPLE, "--mode", mode, "--format", "json", *FEW))
    assert found["mode"] == mode
    assert all(
        set(p) == {"slack_s", "seconds", "lower", "upper", "penalty"} for p in found["curve"]
    )
    assert list(found["tolerance"]) == ["1%", "2%", "5%", "10%"]
    assert all(set(t) == {"slack_s", "interval"} for t in found["tolerance"].values())
    assert found["calls"] and all(
        {"call", "what", "count", "seconds", "share", "counterfactual"} <= set(c)
        for c in found["calls"]
    )
    assert all({"slack_s", "seconds"} <= set(b) for b in found["breakpoints"])
    assert found["provenance"]["command"].startswith(
        f"turnbuckle slack {SAMPLE.name} --mode {mode}"
    )
    assert str(SAMPLE.parent) not in json.dumps(found)


def test_the_modes_differ(turnbuckle: Run) -> None:
    link, api = (
        document(turnbuckle("slack", SAMPLE, "--mode", m, "--format", "json", *FEW)) for m in MODES
    )
    assert link["curve"][0] == api["curve"][0] and link["curve"][-1] != api["curve"][-1]
    assert (
        document(turnbuckle("slack", SAMPLE, "--format", "json", *FEW))["curve"] == link["curve"]
    ), "link unless told otherwise"


@pytest.mark.parametrize("over", WAYS)
def test_one_answer_in_every_format(turnbuckle: Run, tmp_path: Path, over: str) -> None:
    ask = ("slack", SAMPLE, "--over", over)
    points = document(turnbuckle(*ask, "--format", "json"))["points" if over == "both" else "curve"]
    keys = KEYS.get(over, ["cost", "seconds", "penalty"])
    assert list(points[0]) == keys
    for form, read in (("csv", pl.read_csv), ("parquet", pl.read_parquet)):
        file = tmp_path / f"out.{form}"
        assert turnbuckle(*ask, "--format", form, "-o", file) == Ran(0, "", "")
        frame = read(file)
        assert frame.columns == keys and frame.height == len(points)
        assert frame["seconds"].to_list() == pytest.approx(
            [p["seconds"] for p in points], rel=1e-12
        )
    assert pl.read_csv(io.StringIO(turnbuckle(*ask, "--format", "csv").out)).height == len(points)


def test_a_seed_gives_the_same_bytes(turnbuckle: Run) -> None:
    ask = ("slack", SAMPLE, "--format", "json", "--draws", "20")
    one, again, other = (turnbuckle(*ask, "--seed", seed).out for seed in (1, 1, 2))
    assert one == again
    kept = [
        [{k: p[k] for k in ("slack_s", "seconds", "penalty")} for p in json.loads(found)["curve"]]
        for found in (one, other)
    ]
    assert kept[0] == kept[1], "a draw moves the ranges alone"


def test_no_draws_no_interval(turnbuckle: Run) -> None:
    found = document(turnbuckle("slack", SAMPLE, "--draws", "0", "--format", "json"))
    assert all(t["interval"] is None for t in found["tolerance"].values())


# --- terminals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("over", WAYS)
@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_no_number_is_cut(
    turnbuckle: Run, monkeypatch: pytest.MonkeyPatch, columns: str, over: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    ran = turnbuckle("slack", SAMPLE, "--over", over, *FEW)
    assert (ran.code, ran.err) == (0, "") and not re.search(r"[\d.]…|\x1b", ran.out), (
        "names of calls may be"
    )
    assert max(len(line) for line in ran.out.splitlines()) <= int(columns) or (
        over == "both" and columns == "40"
    )


def test_what_one_screen_says(turnbuckle: Run) -> None:
    """Both ways to be far away, who pays, and what a tenth of each kind of work is worth."""
    out = turnbuckle("slack", SAMPLE, *FEW).out
    for words in ("slower by", "longer link", "remoted calls", "who pays", "a tenth less", "trust"):
        assert words in out, words
    assert len(out.splitlines()) <= 36
    both = [
        document(turnbuckle("slack", SAMPLE, *asked, "--format", "json", *FEW))["tolerance"]
        for asked in ((), ("--mode", "remoting", "--machine", "cdi-row-api"))
    ]
    for name, tolerance in zip(("longer link", "remoted calls"), both, strict=True):
        line = next(line for line in out.splitlines() if line.startswith(name))
        said = [t["slack_s"] for t in tolerance.values()]
        assert re.split(r"\s{2,}", line)[1:] == [show(t, "s", 2) if t else "none" for t in said]


def test_what_the_table_says(turnbuckle: Run) -> None:
    out = turnbuckle("slack", SAMPLE, "-v", *FEW).out
    for words in (
        "run time",
        "100 ns",
        "100 ms",
        "a rack away",
        "20 km of fibre",
        "10 %",
        "what carries the latency",
        "breakpoint",
    ):
        assert words in out, words
    out = turnbuckle("slack", SAMPLE, "--mode", "api", *FEW).out
    assert "every crossing call blocks its thread for the delay" in out


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_plain_terminals(encoded: Run, encoding: str) -> None:
    ran = encoded(encoding, "slack", SAMPLE, "-v", *FEW)
    assert ran.code == 0 and "\x1b" not in ran.out and ran.err == ""
    bars = next(line for line in ran.out.splitlines() if line.startswith("100 ns"))
    assert "?" not in bars and len(set(bars.removeprefix("100 ns ").removesuffix(" 100 ms"))) > 2, (
        "a curve that says something"
    )


def test_a_full_disk(turnbuckle: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for over in ("latency", "both"):
        with Path("/dev/full").open("w") as full, monkeypatch.context() as patch:
            patch.setattr("sys.stdout", full)
            ran = turnbuckle("slack", SAMPLE, "--over", over, *FEW)
        assert ran.code == 2 and ran.err.count("error[R001]") == 1


def test_output_that_cannot_be_written(turnbuckle: Run, tmp_path: Path) -> None:
    ran = turnbuckle(
        "slack", SAMPLE, *FEW, "--format", "json", "-o", tmp_path / "missing" / "out.json"
    )
    assert ran.code == 2 and "R002" in ran.err
    assert "A010" in turnbuckle("slack", SAMPLE, *FEW, "-o", tmp_path / "out.txt").err


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--mode", "lnik"], "link"),
        (["--over", "latencies"], "latency"),
        (["--draws", "-1"], "A007"),
        (["--draws", "100001"], "A007"),
        (["--over", "kernel", "--published", "modelled"], "A015"),
        (["--source", "gh2000"], "did you mean gh200?"),
        (["--source", "cdi-row-link"], "M016"),
        (["--published", "missing.csv"], "missing.csv"),
    ],
)
def test_usage(turnbuckle: Run, words: list[str], says: str) -> None:
    ran = turnbuckle("slack", SAMPLE, *words)
    assert ran.code == 2 and ran.out == "" and says in ran.err


def test_help(turnbuckle: Run) -> None:
    ran = turnbuckle("slack", "--help")
    assert ran.code == 0 and all(
        word in ran.out for word in ("--mode", "--over", "--published", "--draws", "--format")
    )


@pytest.mark.parametrize("over", WAYS)
def test_a_recording_without_gpu_activity(turnbuckle: Run, tmp_path: Path, over: str) -> None:
    tables = ("KERNEL", "MEMCPY")
    quiet = changed(tmp_path, *(f"DELETE FROM CUPTI_ACTIVITY_KIND_{t}" for t in tables))
    ran = turnbuckle("slack", quiet, "--over", over)
    assert (ran.code, ran.out) == (3, "") and "A121" in ran.err


@pytest.mark.parametrize("over", WAYS)
def test_an_order_that_cannot_be_trusted(turnbuckle: Run, tmp_path: Path, over: str) -> None:
    blurred = changed(tmp_path, "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = end + 50000000")
    ran = turnbuckle("slack", blurred, "--over", over)
    assert (ran.code, ran.out) == (3, "") and "A122" in ran.err and "overlap" in ran.err


def test_interrupted(turnbuckle: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("turnbuckle.questions.distance.question.along", stop)
    ran = turnbuckle("slack", SAMPLE)
    assert (ran.code, ran.out) == (130, "") and "interrupted" in ran.err


# --- hostile recordings ---------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["table", "json", "csv"])
@pytest.mark.parametrize("over", ["latency", "kernel", "both"])
def test_names_of_a_recording_are_harmless(
    turnbuckle: Run, hostile: Path, form: str, over: str
) -> None:
    ran = turnbuckle("slack", hostile, "--over", over, "--format", form, *FEW)
    assert ran.code == 0
    assert not any(c in ran.out + ran.err for c in "\x1b\x07\x9b\u202e\r")
    assert not any(secret in ran.out + ran.err for secret in SECRETS)


@pytest.mark.parametrize(
    "evil", ["\x1b]0;owned\x07[bold]x[/bold][/]\u202e\r\n\x9b1m", "n" * 10_000, "", "[red]"]
)
def test_names_of_calls_are_harmless(turnbuckle: Run, tmp_path: Path, evil: str) -> None:
    path = changed(tmp_path)
    with closing(sqlite3.connect(path)) as file, file:
        called = "SELECT DISTINCT nameId FROM CUPTI_ACTIVITY_KIND_RUNTIME"
        file.execute(f"UPDATE StringIds SET value = value || ? WHERE id IN ({called})", (evil,))
    ran = turnbuckle("slack", path, *FEW)
    assert ran.code == 0 and not any(c in ran.out + ran.err for c in "\x1b\x07\x9b\u202e\r")
    assert len(ran.out) < 40_000, "a long name is cut"
    found = document(turnbuckle("slack", path, *FEW, "--format", "json"))
    assert found["calls"]


def test_what_the_table_says_of_a_layer(turnbuckle: Run) -> None:
    out = turnbuckle("slack", SAMPLE, "--mode", "remoting", "--machine", "cdi-row-api", *FEW).out
    for words in ("calls go through the layer of cdi-row-api", "round trip", "520 ns"):
        assert words in out, words
    assert "the software and network of the layer alone take more than this share" in out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--mode", "remoting"), "--mode remoting and --machine belong together"),
        (("--machine", "cdi-row-api"), "--mode remoting and --machine belong together"),
        (("--mode", "remoting", "--machine", "pcie4-x16"), "this machine has no remoting layer"),
        (
            ("--mode", "remoting", "--machine", "cdi-row-api", "--over", "both"),
            "--mode applies only to distance",
        ),
        (("--mode", "remoting", "--machine", "cdi-row-apj"), "cdi-row-api"),
    ],
)
def test_a_layer_that_cannot_be_is_refused(
    turnbuckle: Run, options: tuple[str, ...], said: str
) -> None:
    found = turnbuckle("slack", SAMPLE, *options, *FEW)
    assert found.code == 2 and said in found.err
