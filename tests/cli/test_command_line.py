"""The command line: verbs, formats, exit codes, and nothing said that should not be."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from drawings import each_kind_once
from hostile_names import ALL, EVIL, FEW, NONE, SAMPLE, SECRETS, Ran, document, outside
from rich.console import Console

from turnbuckle.cli.app import app
from turnbuckle.cli.first_page import drawn
from turnbuckle.foundation.errors import GateFailed, UsageError
from turnbuckle.foundation.fields import finite
from turnbuckle.machine import names
from turnbuckle.projection.projection import Projection
from turnbuckle.show.terminal.gate import gate
from turnbuckle.show.terminal.output import flattened

pytestmark = pytest.mark.usefixtures("read_once")
Run = Callable[..., Ran]
VERBS = (
    "inspect",
    "project",
    "report",
    "demo",
    "doctor",
    "machines",
    "machines list",
    "machines show",
    "machines check",
)


# --- help and usage -------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_every_verb_has_help(turnbuckle: Run, verb: str) -> None:
    ran = turnbuckle(*verb.split(), "--help")
    assert ran.code == 0 and "Usage: turnbuckle" in ran.out and ran.err == ""


def test_alone_it_says_what_it_is(turnbuckle: Run) -> None:
    ran = turnbuckle()
    assert ran.code == 0 and all(
        verb in ran.out for verb in ("inspect", "project", "report", "machines", "demo", "doctor")
    )


def test_the_version_says_what_was_built_by_what(turnbuckle: Run) -> None:
    first, core, libraries = turnbuckle("--version").out.splitlines()
    assert re.fullmatch(r"turnbuckle \d+\.\d+\.\d+", first)
    assert re.fullmatch(
        rf"native core {first.split()[1]}, \w+-\S+-linux-gnu, rustc \d+\.\d+\.\d+\S*(, commit [0-9a-f]+)?",
        core,
    )
    assert re.fullmatch(r"Python \S+, NumPy \S+, Polars \S+", libraries)


@pytest.mark.parametrize("width", [60, 61, 72, 80, 97, 120, 200])
def test_the_first_page_is_that_of_cyclopts(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page that is drawn without cyclopts is the one that cyclopts draws, but for spaces at the
    ends of lines.
    """
    monkeypatch.setenv("COLUMNS", str(width))
    pages = []
    for draw in (drawn, partial(app, console=Console())):
        with (
            io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) as stream,
            contextlib.redirect_stdout(stream),
        ):
            with contextlib.suppress(SystemExit):
                assert draw(["--help"]) is not False
            pages.append(
                [line.rstrip() for line in stream.buffer.getvalue().decode().rstrip().splitlines()]
            )  # type: ignore[attr-defined]
    assert pages[0] == pages[1] != []


def test_help_is_quick_to_load() -> None:
    """``--help`` imports neither what computes or draws nor the libraries of the command line (the
    100 ms of its goal depend on it).

    The help of a verb imports the libraries of the command line alone.
    """
    look = (
        "import sys; from turnbuckle.cli.run import run; run(['--help']); print(*sys.modules, "
        "file=sys.stderr)\n"
        "run(['report', '--help']); print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    all_verbs, report = (line.split() for line in done.stderr.splitlines())
    computing = {"polars", "numpy", "scipy", "altair", "jinja2", "pandas", "pyarrow"}
    heavy = computing | {"msgspec", "cyclopts", "rich", "attrs"}
    assert (
        all_verbs
        and not heavy & {name.partition(".")[0] for name in all_verbs}
        and "turnbuckle._native" not in all_verbs
    )
    assert "cyclopts" in report and not computing & {name.partition(".")[0] for name in report}


@pytest.mark.parametrize(
    "words",
    [
        "report {run} -o {to}",
        "export {run} -o {to}",
        "project {run} --format csv -o {to}",
        "calibrate {run} -o {to}",
    ],
)
def test_an_output_that_cannot_be_written_is_refused_before_the_work(
    words: str, tmp_path: Path, turnbuckle: Run
) -> None:
    """The recording is missing too: who reads it first says so."""
    ran = turnbuckle(
        *(
            word.format(run=tmp_path / "none.sqlite", to=tmp_path / "missing" / "made")
            for word in words.split()
        )
    )
    assert ran.code == 2 and "R002" in ran.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["inspec"], "did you mean inspect?"),
        (["projct", "run.sqlite"], "did you mean project?"),
        (["--nope"], "--nope"),
        (["inspect", SAMPLE, "--nope"], "--nope"),
        (["inspect"], "PROFILE"),
        (["inspect", SAMPLE, "--format", "xml"], "csv"),
        (["project", SAMPLE, "--on", "nvlink-c2"], "did you mean nvlink-c2c?"),
        (["project", SAMPLE, "--source", "gh2000"], "did you mean gh200?"),
        (["project", SAMPLE, "--source", "cdi-row-link"], "M016"),
        (["inspect", SAMPLE, "--source", "cdi-row-link"], "M016"),
        (["project", SAMPLE, "--on", "nope.toml"], "nope.toml"),
        (["project", SAMPLE, "--on", ""], "machine"),
        (["project"], "A006"),
        (["project", SAMPLE, "--draws", "-1"], "out of range"),
        (["project", SAMPLE, "--draws", "many"], "many"),
        (["project", SAMPLE, "--alpha", "nan"], "out of range"),
        (["project", SAMPLE, "--alpha", "flops"], "did you mean flop?"),
        (["project", SAMPLE, "--alpha", "1e9"], "out of range"),
        (["project", SAMPLE, "--model", "additive"], "A005"),
        (["project", SAMPLE, "--lambda", "data=10"], "additive"),
        (["project", SAMPLE, "--model", "additive", "--lambda", "sync=10"], "waiting"),
        (
            ["project", SAMPLE, "--model", "additive", "--lambda", "launhc=10"],
            "did you mean launch?",
        ),
        (["project", SAMPLE, "--model", "additive", "--lambda", "data=ten"], "not a number"),
        (["project", SAMPLE, "--model", "additive", "--lambda", "data=0"], "positive"),
        (["project", SAMPLE, "--fail-if", "penalty"], "A008"),
        (["project", SAMPLE, "--fail-if", "penlty > 5%"], "did you mean penalty?"),
        (["project", SAMPLE, "--fail-if", "seconds > 5%"], "percentage"),
        (["project", SAMPLE, "--fail-if", "penalty > 1.2.3"], "not a number"),
        (["project", "--totals", "gpu=1", "--lambda", "data=10"], "lacks control"),
        (
            ["project", "--totals", "gpu=nan,control=1,data=1,cpu=1,mpi=1", "--lambda", "data=10"],
            "gpu",
        ),
        (
            ["project", "--totals", "gpu=-1,control=1,data=1,cpu=1,mpi=1", "--lambda", "data=10"],
            "gpu",
        ),
        (["project", "--totals", "gpus=1", "--lambda", "data=10"], "did you mean gpu?"),
        (["inspect", SAMPLE, "-o", "out.txt"], "--format"),
        (["inspect", "missing.sqlite"], "P001"),
        (["inspect", "."], "P002"),
        (["machines", "show", "h100-sxm"], "did you mean h100-sxm5?"),
        (["machines", "check", "nope.toml"], "M002"),
        (["x" * 400], "neither a verb nor a file"),
    ],
)
def test_what_is_wrong_is_said(turnbuckle: Run, words: list[object], says: str) -> None:
    ran = turnbuckle(*words)
    assert ran.code == 2, (ran.out, ran.err)
    assert ran.err.startswith("error[") and says in ran.err
    assert ran.out == "", "an error is no data"


def test_nul_in_a_path(turnbuckle: Run) -> None:
    assert turnbuckle("inspect", "a\0b.sqlite").code == 2
    assert turnbuckle("a\0b.sqlite").code == 2


# --- answers --------------------------------------------------------------------------------------


def test_a_file_alone_is_answered_on_one_screen(turnbuckle: Run) -> None:
    ran = turnbuckle(SAMPLE)
    assert ran.code == 0 and ran.err == ""
    lines = ran.out.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    for word in ("SYNTHETIC", "-BOUND", "a tenth less", "NVLink-C2C", "FIRST FIX", "TRUST"):
        assert word in ran.out, word


def test_a_file_alone_is_inspected_and_projected_behind_it(turnbuckle: Run) -> None:
    ran = turnbuckle(SAMPLE, "-v")
    assert ran.code == 0 and ran.err == ""
    assert ran.out.startswith(turnbuckle(SAMPLE).out)
    for word in (
        "SYNTHETIC",
        "run time",
        "link h2d",
        "looks like PCIe 4 x16",
        "nvlink-c2c",
        "cdi-row-api",
        "closure defect",
        "next",
    ):
        assert word in ran.out, word


def test_json_of_inspect(turnbuckle: Run) -> None:
    found = document(turnbuckle("inspect", SAMPLE, "--format", "json"))
    assert set(found) >= {"schema_version", "profile", "findings", "provenance"}
    profile = found["profile"]
    whole = {
        "run_time_ns": None,
        "kernel_window_ns": None,
        "kernels": ("count", "busy_ns", "union_ns"),
        "memsets": ("count",),
        "api": ("count",),
        "copies": ("h2d", "d2h", "d2d", "p2p", "migration_h2d", "migration_d2h"),
        "overlap": ("copy_hidden_fraction",),
        "categories_ns": ("kernel", "copy", "mpi", "api", "cpu"),
        "launch": ("count", "call_median_ns"),
        "links": ("h2d", "d2h"),
    }
    for key, inner in whole.items():
        assert key in profile
        assert inner is None or set(inner) <= set(profile[key]), key
    assert set(profile["copies"]["h2d"]) == {"count", "bytes", "busy_ns"}
    assert {"latency_s", "bandwidth", "efficiency", "nominal"} <= set(profile["links"]["h2d"])
    assert sum(profile["categories_ns"].values()) == profile["run_time_ns"]
    assert all({"code", "severity", "count", "meaning"} <= set(f) for f in found["findings"])
    about = found["provenance"]
    assert (
        about["profile"]["file"] == SAMPLE.name
        and len(about["profile"]["sha256"]) == 64
        and about["version"]
    )
    assert about["command"] == f"turnbuckle inspect {SAMPLE.name} --format json", (
        "folders stay at home"
    )


def test_json_of_project(turnbuckle: Run) -> None:
    found = document(
        turnbuckle(
            "project",
            SAMPLE,
            "--on",
            "self,nvlink-c2c",
            "--on",
            "cdi-row-link",
            *FEW,
            "--seed",
            3,
            "--format",
            "json",
        )
    )
    own, near, far = found["projections"]
    assert [p["target"] for p in found["projections"]] == ["self", "nvlink-c2c", "cdi-row-link"]
    assert (
        own["seconds"] == own["measured_seconds"]
        and own["penalty"] == 1
        and own["interval"] == [own["seconds"]] * 2
    )
    for p in (own, near, far):
        assert set(p["breakdown"]) == {"launch", "kernel", "copy", "other"}
        assert p["interval"][0] <= p["seconds"] <= p["interval"][1] and (p["draws"], p["seed"]) == (
            20,
            3,
        )
        assert sum(p["breakdown"].values()) == pytest.approx(p["seconds"])
    assert near["penalty"] < 1 < far["penalty"]
    assert found["faster"]["nvlink-c2c"]["cdi-row-link"] + found["faster"]["cdi-row-link"][
        "nvlink-c2c"
    ] == pytest.approx(1)
    assert [t["name"] for t in found["provenance"]["targets"]][1:] == ["nvlink-c2c", "cdi-row-link"]
    assert found["provenance"]["seed"] == 3 and found["provenance"]["model"]["name"] == "nething"
    again = document(
        turnbuckle(
            "project",
            SAMPLE,
            "--on",
            "self,nvlink-c2c",
            "--on",
            "cdi-row-link",
            *FEW,
            "--seed",
            3,
            "--format",
            "json",
        )
    )
    assert again["projections"] == found["projections"], "the same question has the same answer"


def test_json_of_a_file_alone_holds_both(turnbuckle: Run) -> None:
    found = document(turnbuckle(SAMPLE, "--format", "json"))
    assert found["profile"]["kernels"]["count"] == 35 and len(found["projections"]) == 6


def test_csv_and_parquet(turnbuckle: Run, tmp_path: Path) -> None:
    rows = list(
        csv.DictReader(
            io.StringIO(
                turnbuckle(
                    "project", SAMPLE, "--on", "nvlink-c2c,cdi-row-link", *FEW, "--format", "csv"
                ).out
            )
        )
    )
    assert [r["target"] for r in rows] == ["nvlink-c2c", "cdi-row-link"]
    assert (
        float(rows[0]["low_seconds"]) <= float(rows[0]["seconds"]) <= float(rows[0]["high_seconds"])
    )
    (one,) = csv.DictReader(io.StringIO(turnbuckle("inspect", SAMPLE, "--format", "csv").out))
    assert one["kernels.count"] == "35" and int(one["run_time_ns"]) > 0
    ran = turnbuckle(
        "project",
        SAMPLE,
        "--on",
        "nvlink-c2c,cdi-row-link",
        *FEW,
        "--format",
        "parquet",
        "-o",
        tmp_path / "p.parquet",
    )
    assert ran.code == 0 and ran.out == ""
    frame = pl.read_parquet(tmp_path / "p.parquet")
    assert frame["target"].to_list() == ["nvlink-c2c", "cdi-row-link"]
    assert frame["seconds"].to_list() == pytest.approx([float(r["seconds"]) for r in rows])


def test_output_goes_to_the_file_named(turnbuckle: Run, tmp_path: Path) -> None:
    for form in ("json", "csv"):
        ran = turnbuckle("inspect", SAMPLE, "--format", form, "-o", tmp_path / f"out.{form}")
        assert (ran.code, ran.out, ran.err) == (0, "", "")
        assert (tmp_path / f"out.{form}").stat().st_size > 100
    for output, code in ((tmp_path / "no" / "such.json", "R002"), (tmp_path, "R003")):
        for form in ("json", "csv", "parquet"):
            ran = turnbuckle("inspect", SAMPLE, "--format", form, "-o", output)
            assert ran.code == 2 and f"error[{code}]" in ran.err


def test_without_draws(turnbuckle: Run) -> None:
    (p,) = document(
        turnbuckle("project", SAMPLE, "--on", "cdi-row-link", "--draws", 0, "--format", "json")
    )["projections"]
    assert p["draws"] == 0 and p["interval"] == [p["seconds"]] * 2
    assert turnbuckle("project", SAMPLE, "--on", "cdi-row-link", "--draws", 0).code == 0


def test_gates(turnbuckle: Run) -> None:
    for condition, code in (
        ("penalty > 50%", 0),
        ("penalty > 0%", 1),
        ("benefit < 2", 1),
        ("seconds > 1e9", 0),
        ("upper >= 1", 1),
    ):
        ran = turnbuckle("project", SAMPLE, "--on", "cdi-row-link", *FEW, "--fail-if", condition)
        assert ran.code == code, condition
        assert "cdi-row-link" in ran.out, "the answer comes out either way"
        assert ("error[A201]" in ran.err) == (code == 1)


def test_gate_limits() -> None:
    assert (
        gate("penalty > 5%").limit == 1.05
        and gate(" upper>=1.2 ").limit == 1.2
        and gate("seconds < 1e-3").limit == 1e-3
    )
    for text in ("", "penalty", "penalty => 5", "penalty > -5", "penalty > 5 %%", "penalty > x"):
        with pytest.raises(UsageError):
            gate(text)
    slow = Projection("t", "t", "m", "sum", 2.0, 1.0, {}, {}, (1.0, 3.0), {})
    for text, holds in (
        ("penalty > 99%", False),
        ("penalty > 100%", True),
        ("benefit < 50%", False),
        ("upper >= 2", False),
    ):
        if holds:
            gate(text).hold([slow])
        else:
            with pytest.raises(GateFailed):
                gate(text).hold([slow])
    gate("penalty > 0").hold([])


def test_what_cannot_be_answered(turnbuckle: Run, shared: Path) -> None:
    """A recording without a GPU: its own machine can be asked, another cannot."""
    silent = next(iter(sorted((shared / "traces" / "nsys-local").glob("halo*.sqlite"))))
    ran = turnbuckle("project", silent, "--on", "nvlink-c2c", *NONE)
    assert ran.code == 3 and "error[A1" in ran.err and ran.out == ""
    assert (
        document(turnbuckle("project", silent, "--on", "self", *NONE, "--format", "json"))[
            "projections"
        ][0]["penalty"]
        == 1
    )
    assert (
        document(turnbuckle("inspect", silent, "--format", "json"))["profile"]["kernels"] is None
    ), "unknown is null, not 0"
    assert turnbuckle("inspect", SAMPLE, "--minus", silent).code == 3


def test_placement(turnbuckle: Run) -> None:
    found = document(turnbuckle("inspect", SAMPLE, "--minus", SAMPLE, "--format", "json"))
    assert {r["direction"]: r["nic_bound_bytes"] for r in found["placement"]} == {
        "h2d": 0,
        "d2h": 0,
    }
    assert len(found["provenance"]) == 2
    assert "NIC" in turnbuckle("inspect", SAMPLE, "--minus", SAMPLE).out


def test_additive_on_a_recording_and_on_printed_totals(turnbuckle: Run) -> None:
    (p,) = document(
        turnbuckle(
            "project",
            SAMPLE,
            "--model",
            "additive",
            "--lambda",
            "data=10,control=10",
            *NONE,
            "--format",
            "json",
        )
    )["projections"]
    assert p["target"] == "lambda" and p["model"] == "additive" and p["penalty"] < 1
    sigma = "gpu=12.48,control=13.52,data=0.90,cpu=0.19,mpi=0.12,total=27.21"
    found = document(
        turnbuckle(
            "project", "--totals", sigma, "--lambda", "data=10,control=10", "--format", "json"
        )
    )
    assert found["benefit"] == pytest.approx(1.91189, rel=1e-5) and found[
        "closure_defect_seconds"
    ] == pytest.approx(0, abs=1e-9)
    assert (
        "benefit 1.91"
        in turnbuckle("project", "--totals", sigma, "--lambda", "data=10,control=10").out
    )
    nothing = turnbuckle(
        "project", "--totals", "gpu=0,control=0,data=0,cpu=0,mpi=0", "--lambda", "data=10"
    )
    assert nothing.code == 0


def test_replays(turnbuckle: Run) -> None:
    for replay in ("sum", "timeline"):
        (p,) = document(
            turnbuckle(
                "project", SAMPLE, "--on", "self", "--replay", replay, *NONE, "--format", "json"
            )
        )["projections"]
        assert p["seconds"] == p["measured_seconds"] and p["replay"] == replay


# --- machines, doctor, report ---------------------------------------------------------------------


def test_machines(turnbuckle: Run) -> None:
    listed = document(turnbuckle("machines", "list", "--format", "json"))["machines"]
    assert [m["name"] for m in listed] == list(names())
    shown = turnbuckle("machines", "list").out
    assert all(name in shown for name in names())
    assert turnbuckle("machines", "check").code == 0


@pytest.mark.parametrize("name", names())
def test_every_machine_can_be_shown(turnbuckle: Run, name: str) -> None:
    ran = turnbuckle("machines", "show", name)
    assert ran.code == 0 and name in ran.out and ran.err == ""
    machine = document(turnbuckle("machines", "show", name, "--format", "json"))["machine"]
    assert machine["name"] == name and all(p["source"] and p["unit"] for p in machine["parameters"])


def test_doctor(turnbuckle: Run) -> None:
    checks = document(turnbuckle("doctor", "--format", "json"))["checks"]
    assert {c["state"] for c in checks} <= {"ok", "look", "bad"} and "native core" in {
        c["what"] for c in checks
    }
    ran = turnbuckle("doctor", SAMPLE)
    assert ran.code == 0 and "kernels" in ran.out and "host calls" in ran.out
    assert turnbuckle("doctor", "missing.sqlite").code == 2


def test_doctor_names_the_folder_for_which_the_cache_is_not_used(
    turnbuckle: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "c"))

    def cache() -> dict[str, str]:
        checks = document(turnbuckle("doctor", "--format", "json"))["checks"]
        return next(c for c in checks if c["what"] == "cache")

    assert cache()["state"] == "ok" and not (tmp_path / "c").exists()
    (tmp_path / "c").mkdir()
    (tmp_path / "c").chmod(0o770)
    assert (
        cache()["state"] == "look"
        and f"not used, every recording is read afresh: its group may change it: {tmp_path}"[:120]
        in cache()["detail"]
    )


def test_a_report_is_written_where_asked(turnbuckle: Run, tmp_path: Path) -> None:
    with each_kind_once():
        ran = turnbuckle(
            "report",
            SAMPLE,
            "--on",
            "cdi-row-link",
            *NONE,
            "-o",
            tmp_path / "r.html",
            "--question",
            "<b>why?</b>",
        )
    assert ran.code == 0 and ran.out.strip() == str(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") or page.startswith("<!DOCTYPE html>")
    assert "<b>why?</b>" not in page and "&lt;b&gt;why?" in page
    assert (
        turnbuckle("report", SAMPLE, *NONE, "--on", "self", "-o", tmp_path / "no" / "r.html").code
        == 2
    )


# --- hostile recordings ---------------------------------------------------------------------------


def test_markup_in_names_is_text(turnbuckle: Run, hostile: Path) -> None:
    said = turnbuckle("inspect", hostile).out
    assert "\\u{1b}" in said and "\x1b" not in said
    kernels = document(turnbuckle("inspect", hostile, "--format", "json"))["profile"]["offload"][
        "kernels"
    ]
    assert EVIL in {k["kernel"] for k in kernels}, "programs get the name as it is"


@pytest.mark.parametrize("words", ALL, ids=lambda w: " ".join(w))
def test_secrets_of_a_recording_stay_in_it(
    turnbuckle: Run, hostile: Path, words: list[str]
) -> None:
    ran = turnbuckle(*(w.format(file=hostile) for w in words))
    assert not [s for s in SECRETS if s in ran.out + ran.err]


def test_secrets_enter_no_report_no_table_and_no_cache(
    turnbuckle: Run, hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("turnbuckle.trace.cache.cache.FLOOR", 0)
    monkeypatch.setattr("turnbuckle.trace.cache.cache._RACY_NS", -1)
    hostile = Path(shutil.copy(hostile, tmp_path.parent / "unread.sqlite"))
    assert (
        turnbuckle("report", hostile, "--on", "cdi-row-link", *NONE, "-o", tmp_path / "r.html").code
        == 0
    )
    assert (
        turnbuckle("inspect", hostile, "--format", "parquet", "-o", tmp_path / "p.parquet").code
        == 0
    )
    from turnbuckle.trace.read import read

    read(hostile).to_parquet(tmp_path / "tables")
    written = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert any(p.is_relative_to(tmp_path / "cache") and p.suffix == ".parquet" for p in written), (
        "the cache was used"
    )
    for path in written:
        held = path.read_bytes()
        assert not [s for s in SECRETS if s.encode() in held], path.name
        for table in [pl.read_parquet(path)] if path.suffix == ".parquet" else []:
            text = [
                v
                for c in table.columns
                if table[c].dtype == pl.String
                for v in table[c].drop_nulls().to_list()
            ]
            assert not [s for s in SECRETS if any(s in v for v in text)], path.name


# --- the process around it ------------------------------------------------------------------------


def test_as_a_process() -> None:
    ran = outside("inspect", SAMPLE, "--format", "json", env={"NO_COLOR": "1"})
    assert ran.returncode == 0 and json.loads(ran.stdout) and ran.stderr == ""
    ran = outside("inspect", "missing.sqlite", "--debug")
    assert ran.returncode != 0 and "Traceback" in ran.stderr, (
        "with --debug the traceback is the answer"
    )


def test_colour_only_where_it_is_wanted(turnbuckle: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in turnbuckle("machines", "list").out
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = turnbuckle("project", SAMPLE, "--on", "cdi-row-link", *FEW).out
    monkeypatch.setenv("NO_COLOR", "1")
    plain_text = turnbuckle("project", SAMPLE, "--on", "cdi-row-link", *FEW).out
    colours = [f"\x1b[{c}m" for c in (31, 32, 33, 36)] + [f"\x1b[1;{c}m" for c in (31, 32, 33, 36)]
    assert any(c in coloured for c in colours) and not any(c in plain_text for c in colours)


def test_a_reader_that_goes_away() -> None:
    whole = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from turnbuckle.cli import main; main()",
            "machines",
            "list",
            "--format",
            "json",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert whole.stdout is not None and whole.stderr is not None
    whole.stdout.read(10)
    whole.stdout.close()
    said = whole.stderr.read().decode()
    whole.stderr.close()
    assert whole.wait() == 0 and "Traceback" not in said and "error" not in said


def test_a_defect_of_ours_says_so(monkeypatch: pytest.MonkeyPatch, turnbuckle: Run) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("somewhere")

    monkeypatch.setattr("turnbuckle.projection.run.Run.read", fail)
    ran = turnbuckle("inspect", SAMPLE)
    assert (
        ran.code == 4
        and "error[I001]" in ran.err
        and "ZeroDivisionError" in ran.err
        and "--debug" in ran.err
    )


# --- small ones -----------------------------------------------------------------------------------


def test_json_has_no_infinity() -> None:
    assert finite({"a": [1.0, float("inf"), {"b": float("nan")}], 3: (1, -float("inf"))}) == {
        "a": [1.0, None, {"b": None}],
        "3": [1, None],
    }
    assert flattened({"a": {"b": 1, "c": {"d": 2}}, "e": [1], "f": None}) == {
        "a.b": 1,
        "a.c.d": 2,
        "f": None,
    }
