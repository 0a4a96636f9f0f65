"""The registry: what products list is there, and what a foreign package adds replaces nothing (`tests/examples` installs whole ones)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from refusals import refused

from turnbuckle.examples import sample
from turnbuckle.foundation import registry
from turnbuckle.projection.model import nething

#: A package that names a reader of ours, a verb that writes its answer itself, and predictors: one that is wrong.
PACKAGE = '''
def kernels() -> int:
    """Count to one."""
    print("one")
    return 0


def predict(kernels, source, target):
    assert set(kernels.columns) == {"name", "count", "seconds", "blocks", "threads", "registers", "shared_bytes"}
    return [(name, {"gh200": 4.0, "h100-sxm5": 2.0}.get(target.name, 1.0), 0.1) for name in kernels["name"]]


def nonsense(kernels, source, target):
    return [(name, -1.0, 0.1) for name in kernels["name"]]
'''
POINTS = """[turnbuckle.readers]
nsys = lab
[turnbuckle.questions]
kernels = lab:kernels
model kernels = lab:kernels
[turnbuckle.predictors]
twofold = lab:predict
nonsense = lab:nonsense
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder on the path of packages, as pip leaves it: the package, and what says its entry points."""
    site = tmp_path_factory.mktemp("site")
    (site / "lab.py").write_text(PACKAGE)
    (site / "lab-1.0.dist-info").mkdir()
    (site / "lab-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: lab\nVersion: 1.0\n")
    (site / "lab-1.0.dist-info" / "entry_points.txt").write_text(POINTS)
    return site


def asked(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command line, in a process that has the package installed."""
    env = {**os.environ, "PYTHONPATH": str(site)}
    return subprocess.run([sys.executable, "-m", "turnbuckle", *words], env=env, capture_output=True, text=True, check=False, cwd=site)


def test_a_foreign_verb_writes_its_answer_itself(installed: Path) -> None:
    assert asked(installed, "kernels").stdout == asked(installed, "model", "kernels").stdout == "one\n"
    assert "Count to one" in asked(installed, "kernels", "--help").stdout
    assert " kernels " in asked(installed, "--help").stdout


def test_a_foreign_entry_replaces_nothing(installed: Path) -> None:
    look = "from turnbuckle.foundation.registry import entries\nprint(entries('readers')['nsys'].place)"
    env = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run([sys.executable, "-c", look], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "turnbuckle.trace.readers.nsys\n"


def test_a_recording_loads_the_reader_that_takes_it_and_nothing_for_files_without_times() -> None:
    look = (
        "import sys\nfrom turnbuckle import sample\nfrom turnbuckle.cli.run import run\nwith sample() as path: run([str(path)])\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    others = {entry.place for name, entry in registry.entries("readers").items() if name not in ("nsys", "kineto")}
    untimed = {entry.place for entry in registry.entries("untimed").values()}
    assert registry.entries("readers")["nsys"].place in loaded and not loaded & (others | untimed)


def test_a_charge_that_nobody_has() -> None:
    refused("A429", nething, charges=["toll"])


@pytest.mark.parametrize("kind", sorted({kind for kind, _, _ in registry._rows()} | {"machines", "charges"}))
def test_everything_that_is_listed_is_there(kind: str) -> None:
    for name, entry in registry.entries(kind).items():
        assert entry.load() is not None, name
        if kind == "questions":
            assert (entry.load().__doc__ or "").splitlines()[0].strip() == entry.sentence, name


def test_nobody_lists_a_name_twice() -> None:
    names = [(kind, name) for kind, name, _ in registry._rows()]
    assert len(names) == len(set(names)) > 70


def test_a_foreign_predictor_tells_the_kernels_of_each_target(installed: Path) -> None:
    def project(name: str) -> subprocess.CompletedProcess[str]:
        words = ("--on", "gh200,h100-sxm5,cdi-row-link", "--kernels", name, "--format", "json", "--draws", "0")
        with sample() as path:
            return asked(installed, "project", str(path), *words)

    done = project("twofold")
    assert done.returncode == 0, done.stderr
    near, far, same = json.loads(done.stdout)["projections"]
    for found, faster in ((near, 4.0), (far, 2.0)):
        kernels = found["kernels"]
        assert {c["basis"] for c in kernels["classes"]} == {"given"}
        assert kernels["measured_seconds"] / kernels["seconds"] == pytest.approx(faster)
    assert same["kernels"]["measured_seconds"] == pytest.approx(same["kernels"]["seconds"]), "its GPU is the source's"
    wrong = project("nonsense")
    assert wrong.returncode == 2 and "A432" in wrong.stderr
    unknown = project("twofolt")
    assert "A432" in unknown.stderr and "twofold" in unknown.stderr
