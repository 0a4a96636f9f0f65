"""The example packages of third parties, built and installed: a reader, a question, machines, a
charge, a predictor of kernels.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import chdir
from importlib import import_module
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scripts import script

from turnbuckle import read
from turnbuckle.examples import sample
from turnbuckle.foundation import registry, schema

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = sorted(path.parent for path in ROOT.glob("examples/plugins/*/pyproject.toml"))
GUIDE = ROOT / "docs" / "plugins.md"
shown = script("docs/examples.py")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all example packages: the content of the wheels that their build backend makes,
    which is what pip installs.
    """
    place = tmp_path_factory.mktemp("site")
    for plugin in PLUGINS:
        about = tomllib.loads((plugin / "pyproject.toml").read_text(encoding="utf-8"))[
            "build-system"
        ]
        with chdir(plugin):
            wheel = import_module(about["build-backend"]).build_wheel(str(place))
        with zipfile.ZipFile(place / wheel) as packed:
            packed.extractall(place)
    return place


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the recordings that the READMEs name."""
    folder = tmp_path_factory.mktemp("place")
    with sample() as path:
        shutil.copy(path, folder / "run.sqlite")
    shutil.copy(ROOT / "examples/plugins/event-log/solver.log", folder)
    return folder


#: Program that answers a line after the other: the words of a command line, or a text of Python.
_ANSWERS = """
import contextlib, io, json, sys
from turnbuckle.cli.run import run
for line in sys.stdin:
    asked, code, out, err = json.loads(line), 0, io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        if isinstance(asked, str):
            exec(asked, {})
        else:
            sys.argv = ["turnbuckle", *asked]
            code = run(asked)
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""


class Installed:
    """A process that has the packages installed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def run(self, asked: str | list[str]) -> tuple[int, str, str]:
        """Run a text of Python or the words of a command line, and return exit code, output and
        error output.
        """
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        code, out, err = json.loads(self.process.stdout.readline())
        return code, out, err

    def turnbuckle(self, *words: str) -> str:
        """Return what the command line prints."""
        code, out, err = self.run(list(words))
        assert code == 0, err
        return out

    def python(self, text: str) -> str:
        """Return what a text of Python prints."""
        return self.run(text)[1]


@pytest.fixture(scope="module")
def installed(site: Path, place: Path) -> Iterator[Installed]:
    env = {
        **os.environ,
        **shown.TERMINAL,
        "PYTHONPATH": str(site),
        "XDG_CACHE_HOME": str(place / "cache"),
    }
    start = [sys.executable, "-c", _ANSWERS]
    with subprocess.Popen(
        start, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=place
    ) as process:
        yield Installed(process)
        assert process.stdin
        process.stdin.close()


def test_each_open_door_has_an_example() -> None:
    groups = [
        group
        for plugin in PLUGINS
        for group in tomllib.loads((plugin / "pyproject.toml").read_text(encoding="utf-8"))[
            "project"
        ]["entry-points"]
    ]
    assert sorted(groups) == sorted(f"turnbuckle.{kind}" for kind in registry.OPEN)


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
def test_a_readme_shows_what_the_package_does(plugin: Path, installed: Installed) -> None:
    steps = [
        step
        for block in shown.blocks((plugin / "README.md").read_text(encoding="utf-8"))
        for step in block.steps
    ]
    assert steps
    for step in steps:
        program, *words = step.code.split()
        assert program == "turnbuckle" and step.shown
        assert shown.differences(step, installed.turnbuckle(*words).splitlines(), 0) == []


def test_the_guide_shows_pieces_of_the_packages() -> None:
    texts = [
        path.read_text(encoding="utf-8")
        for plugin in PLUGINS
        for path in plugin.rglob("*")
        if path.suffix in (".py", ".toml")
    ]
    pieces = [
        found[2]
        for found in shown._FENCE.finditer(GUIDE.read_text(encoding="utf-8"))
        if found[1] in ("py", "toml")
    ]
    assert len(pieces) >= len(PLUGINS)
    assert [piece for piece in pieces if not any(piece in text for text in texts)] == []


def test_the_log_of_a_run_is_the_run(installed: Installed, place: Path) -> None:
    """What a recording holds of calls, kernels and copies comes back from a log of the same
    rows.
    """
    with sample() as path:
        trace = read(path).trace
    ways = {schema.words("directions").index(way): way for way in ("h2d", "d2h")}
    tables = {"call": trace.api, "kernel": trace.kernels} | {
        way: trace.copies.filter(pl.col("direction") == code) for code, way in ways.items()
    }
    rows = []
    for kind, frame in tables.items():
        held = {
            "name": trace.text(frame) if "name" in frame.columns else None,
            "bytes": frame.get_column("size_bytes", default=None),
        }
        stream = frame.get_column("stream", default=None)
        columns = {
            "kind": [kind] * frame.height,
            "id": frame["correlation"],
            "start_ns": frame["start_ns"],
            "end_ns": frame["end_ns"],
        }
        whole = {
            name: pl.Series([None] * frame.height) if column is None else column
            for name, column in (*held.items(), ("stream", stream))
        }
        rows.append(pl.DataFrame({**columns, **whole}))
    log = place / "whole.log"
    log.write_text(
        "# event-log 1\n"
        + pl.concat(rows, how="vertical_relaxed")
        .with_columns(pl.col("id").fill_null(-1))
        .write_csv(),
        encoding="utf-8",
    )
    code = (
        "import turnbuckle as tb; t = tb.read('whole.log').trace; "
        "print(t.kernels['end_ns'].sum(), t.copies['size_bytes'].sum(), t.api.height, "
        "t.kernels.height)"
    )
    copies = trace.copies.filter(pl.col("direction").is_in(list(ways)))
    wanted = (
        trace.kernels["end_ns"].sum(),
        copies["size_bytes"].sum(),
        trace.api.height,
        trace.kernels.height,
    )
    assert installed.python(code).split() == [str(number) for number in wanted]


@pytest.mark.parametrize(
    ("text", "exit_code", "said"),
    [
        ("kind,name\nkernel,a\n", 2, "no id, start_ns, end_ns, stream, bytes"),
        ("", 2, "EVENTLOG1"),
        (
            "kind,name,id,start_ns,end_ns,stream,bytes\ncall,a,1,0,5,,\n",
            2,
            "holds no work of a GPU",
        ),
        (
            (
                "kind,name,id,start_ns,end_ns,stream,bytes\nkernel,a,1,0,5,7,\n"
                "kernel,b,2,9,x,7,\nh2d,,3,9,20,7,\n"
            ),
            0,
            "P162",
        ),
    ],
)
def test_a_log_that_is_damaged_is_refused_or_counted(
    text: str, exit_code: int, said: str, installed: Installed, place: Path
) -> None:
    (place / "damaged.log").write_text("# event-log 1\n" + text, encoding="utf-8")
    code, out, err = installed.run(["inspect", "damaged.log"])
    assert code == exit_code and said in out + err


def test_idle_stretches_are_those_that_a_plain_loop_finds() -> None:
    idle = script("examples/plugins/idle-gaps/idle_gaps.py")
    drawn = np.random.default_rng(7)
    for _ in range(200):
        start = np.sort(drawn.integers(0, 60, size=drawn.integers(0, 8)))
        end = start + drawn.integers(0, 12, size=len(start))
        began = drawn.integers(0, 60, size=5)
        ended = began + drawn.integers(1, 15, size=5)
        inside = [
            sum(any(s <= t < e for s, e in zip(start, end, strict=True)) for t in range(b, z))
            for b, z in zip(began, ended, strict=True)
        ]
        assert idle.covered(began, ended, start, end).tolist() == inside


def test_a_question_answers_in_python_and_with_options_of_every_verb(installed: Installed) -> None:
    printed = json.loads(
        installed.turnbuckle(
            "model", "idle", "run.sqlite", "--top", "2", "--part", "steady", "--format", "json"
        )
    )
    assert len(printed["rows"]) == 2 and printed["provenance"]["profile"]["file"] == "run.sqlite"
    code = (
        "import turnbuckle as tb; print([r['seconds'] for r in tb.model.idle('run.sqlite', "
        "top=2, part='steady')['rows']])"
    )
    assert json.loads(installed.python(code)) == [row["seconds"] for row in printed["rows"]]
    assert " idle " in installed.turnbuckle("model", "--help")


def test_a_machine_stands_in_the_catalogue_and_has_no_remark(installed: Installed) -> None:
    assert "l40s-x8" in installed.turnbuckle("machines", "list")
    code = (
        "import turnbuckle as tb; print(*(tb.Machine.load(name).value('link.h2d.bandwidth') for "
        "name in ('l40s-x8', 'l40s')))"
    )
    narrow, wide = map(float, installed.python(code).split())
    assert narrow * 2 == pytest.approx(wide, rel=0.01)
    file = ROOT / "examples/plugins/narrow-slot/narrow_slot/machines/l40s-x8.toml"
    assert "0 remarks" in installed.turnbuckle("machines", "check", str(file))


def test_a_charge_adds_what_it_states_and_nothing_at_the_identity(installed: Installed) -> None:
    code = """
import turnbuckle as tb
from turnbuckle.foundation import registry
run = tb.read("run.sqlite")
def seconds(on, *charges):
    model = tb.nething("hold", charges)
    return run.project([on], model=tb.Model(**{**vars(model), "replay": "sum"}), draws=0).projections[0].seconds
size = run.trace.copies.filter(run.trace.copies["direction"].is_in([1, 2]))["size_bytes"].sum()
for on in ("self", "gh200", "cdi-row-link"):
    print(seconds(on, "encryption") - seconds(on))
print(size / 4.5e9)
"""
    same, inside, outside, every = map(float, installed.python(code).split())
    assert same == inside == 0.0
    assert 0 < outside <= every * (1 + 1e-9), (
        "of copies behind kernels the sum charges what can be felt"
    )


def test_a_predictor_is_asked_for_each_target(installed: Installed) -> None:
    words = (
        "project",
        "run.sqlite",
        "--on",
        "h100-sxm5,v100-sxm2,cdi-row-link",
        "--kernels",
        "waves",
        "--format",
        "json",
        "--draws",
        "0",
    )
    done = json.loads(installed.turnbuckle(*words))
    faster, slower, same = done["projections"]
    assert {c["basis"] for answer in (faster, slower) for c in answer["kernels"]["classes"]} == {
        "given"
    }
    assert (
        faster["kernels"]["seconds"]
        < faster["kernels"]["measured_seconds"]
        < slower["kernels"]["seconds"]
    )
    assert same["kernels"]["measured_seconds"] == pytest.approx(same["kernels"]["seconds"]), (
        "its GPU is the source's"
    )


def test_waves_are_those_of_the_occupancy_rule() -> None:
    waves = script("examples/plugins/waves/waves.py")
    from turnbuckle import Machine

    machine = Machine.load("a100-sxm4-40")
    kernel = {"blocks": 864, "threads": 256, "registers": 32, "shared_bytes": 0}
    assert waves.blocks_of_multiprocessor(kernel, machine) == 8, (
        "2048 threads and 65,536 registers hold 8 blocks of 256 threads"
    )
    assert waves.blocks_of_multiprocessor({**kernel, "shared_bytes": 60 << 10}, machine) == 2
    full = waves.time_computing(kernel, machine)
    assert waves.time_computing({**kernel, "blocks": 865}, machine) == pytest.approx(2 * full), (
        "one block more is one wave more"
    )
    assert waves.time_computing({**kernel, "blocks": 1}, machine) == pytest.approx(full)
