"""The registry: what products list is there, and what a foreign package adds replaces nothing
(`tests/examples` installs whole ones).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hostile_names import SAMPLE, Ran, all_of
from refusals import refused

from turnbuckle.foundation import registry
from turnbuckle.projection.model import nething

#: A package that names a reader of ours, a verb that writes its answer itself, and predictors: one
#: that is wrong.
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
    """A folder on the path of packages, as pip leaves it: the package, and what says its entry
    points.
    """
    site = tmp_path_factory.mktemp("site")
    (site / "lab.py").write_text(PACKAGE)
    (site / "lab-1.0.dist-info").mkdir()
    (site / "lab-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: lab\nVersion: 1.0\n"
    )
    (site / "lab-1.0.dist-info" / "entry_points.txt").write_text(POINTS)
    return site


def asked(site: Path, *lines: list[str]) -> list[Ran]:
    """Answer command lines one after the other, in a process that has the package installed."""
    return all_of(lines, cwd=site, env={"PYTHONPATH": str(site)})


def test_a_foreign_verb_writes_its_answer_itself(installed: Path) -> None:
    alone, of_model, about, first_page = asked(
        installed, ["kernels"], ["model", "kernels"], ["kernels", "--help"], ["--help"]
    )
    assert alone.out == of_model.out == "one\n"
    assert "Count to one" in about.out and " kernels " in first_page.out


def test_a_foreign_entry_replaces_nothing(installed: Path) -> None:
    look = (
        "from turnbuckle.foundation.registry import entries\n"
        "print(entries('readers')['nsys'].place)"
    )
    env = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, "-c", look], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout == "turnbuckle.trace.readers.nsys\n"


def test_a_charge_that_nobody_has() -> None:
    refused("A429", nething, charges=["toll"])


@pytest.mark.parametrize(
    "kind", sorted({kind for kind, _, _ in registry._rows()} | {"machines", "charges"})
)
def test_everything_that_is_listed_is_there(kind: str) -> None:
    for name, entry in registry.entries(kind).items():
        assert entry.load() is not None, name
        if kind == "questions":
            first = (entry.load().__doc__ or "").partition("\n\n")[0]
            assert first.split() == entry.sentence.split(), name


def test_nobody_lists_a_name_twice() -> None:
    names = [(kind, name) for kind, name, _ in registry._rows()]
    assert len(names) == len(set(names)) > 70


def test_a_foreign_predictor_tells_the_kernels_of_each_target(installed: Path) -> None:
    words = [
        "--on",
        "gh200,h100-sxm5,cdi-row-link",
        "--format",
        "json",
        "--draws",
        "0",
        "--kernels",
    ]
    done, wrong, unknown = asked(
        installed,
        *(["project", str(SAMPLE), *words, name] for name in ("twofold", "nonsense", "twofolt")),
    )
    assert done.code == 0, done.err
    near, far, same = json.loads(done.out)["projections"]
    for found, faster in ((near, 4.0), (far, 2.0)):
        kernels = found["kernels"]
        assert {c["basis"] for c in kernels["classes"]} == {"given"}
        assert kernels["measured_seconds"] / kernels["seconds"] == pytest.approx(faster)
    assert same["kernels"]["measured_seconds"] == pytest.approx(same["kernels"]["seconds"]), (
        "its GPU is the source's"
    )
    assert wrong.code == 2 and "A432" in wrong.err
    assert "A432" in unknown.err and "twofold" in unknown.err
