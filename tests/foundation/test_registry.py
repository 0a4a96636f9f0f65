"""What packages of third parties add, as a real installed package: a reader, a question, a machine, a charge."""

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

#: A format of ours alone: a line a kernel, its start and end [ns]; and what else a package may bring.
PACKAGE = '''
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
from cyclopts import Parameter

from turnbuckle.foundation import schema
from turnbuckle.projection.model import Charge
from turnbuckle.show.terminal.model_answer import ModelAnswer
from turnbuckle.show.terminal.options import Profile
from turnbuckle.show.terminal.recording import inspected
from turnbuckle.trace.trace import Trace, completed

CACHED = False


def sniff(head, path):
    return head.startswith(b"lab-kernels 1")


def read(path, *, threads=0, progress=None):
    lines = [line.split() for line in Path(path).read_text().splitlines()[1:]]
    start, end = ([int(line[at]) for line in lines] for at in (0, 1))
    kernels = pl.DataFrame({"start_ns": start, "end_ns": end, "name": 0}).with_columns(device=0, stream=7, process=1)
    facts = {"format": "lab", "tables": {"kernels": len(lines)}}
    return Trace({"kernels": completed("kernels", kernels)}, pl.Series(["solve"]), facts, [], Path(path).name)


def kernels(profile: Profile, /) -> int:
    """Count the kernels of a recording."""
    print(inspected(profile, None, True).trace.kernels.height, "kernels")
    return 0


def longest(profile: Profile, /, *, top: Annotated[int, Parameter(help="how many")] = 1) -> ModelAnswer:
    """List the longest kernels of a recording."""
    kernels = inspected(profile, None, True).trace.kernels
    rows = [{"ns": ns} for ns in sorted(kernels["end_ns"] - kernels["start_ns"], reverse=True)[:top]]
    return ModelAnswer({"rows": rows}, rows, lambda console: console.note(f"{len(rows)} kernels"))


def folder():
    return Path(__file__).parent / "machines"


def _seconds(pieces, machine, source):
    return np.asarray(0.0 if machine is source else 1e-3)


def predict(kernels, source, target):
    assert set(kernels.columns) == {"name", "count", "seconds", "blocks", "threads", "registers", "shared_bytes"}
    return [(name, {"gh200": 4.0, "h100-sxm5": 2.0}.get(target.name, 1.0), 0.1) for name in kernels["name"]]


def nonsense(kernels, source, target):
    return [(name, -1.0, 0.1) for name in kernels["name"]]


toll = Charge("toll", lambda pieces: pieces.kind == "kernel", _seconds, "difference")
'''
POINTS = """[turnbuckle.readers]
lab = lab
nsys = lab
[turnbuckle.questions]
kernels = lab:kernels
model kernels = lab:kernels
model longest = lab:longest
[turnbuckle.machines]
lab = lab:folder
[turnbuckle.charges]
toll = lab:toll
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
    (site / "machines").mkdir()
    (site / "machines" / "lab-box.toml").write_text(
        '[machine]\nname = "lab-box"\ntitle = "the box of the lab"\nsummary = "As bought."\nyear = 2024\n'
        'coupling = "pcie"\nbase = "a100-pcie-40"\n'
    )
    (site / "run.lab").write_text("lab-kernels 1\n1000 3000\n4000 9000\n")
    return site


def asked(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command line, in a process that has the package installed."""
    env = {**os.environ, "PYTHONPATH": str(site)}
    return subprocess.run([sys.executable, "-m", "turnbuckle", *words], env=env, capture_output=True, text=True, check=False, cwd=site)


def test_a_foreign_reader_gives_a_recording_like_any_other(installed: Path) -> None:
    done = asked(installed, "inspect", "run.lab", "--format", "json")
    assert done.returncode == 0, done.stderr
    profile = json.loads(done.stdout)["profile"]
    assert profile["kernels"]["count"] == 2 and profile["kernels"]["busy_ns"] == 7000


def test_a_foreign_question_is_a_verb(installed: Path) -> None:
    assert asked(installed, "kernels", "run.lab").stdout == "2 kernels\n"
    assert "Count the kernels of a recording" in asked(installed, "kernels", "--help").stdout
    assert " kernels " in asked(installed, "--help").stdout


def test_a_foreign_model_is_a_verb_and_a_name_in_python(installed: Path) -> None:
    assert asked(installed, "model", "longest", "run.lab").stdout == "1 kernels\n"
    assert json.loads(asked(installed, "model", "longest", "run.lab", "--top", "2", "--format", "json").stdout)["rows"][0]["ns"] == 5000
    assert asked(installed, "model", "kernels", "run.lab").stdout == "2 kernels\n"
    look = "import turnbuckle as tb\nprint(tb.model.longest('run.lab', top=2)['rows'], tb.model.kernels('run.lab'))"
    env = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run([sys.executable, "-c", look], env=env, capture_output=True, text=True, check=True, cwd=installed)
    assert done.stdout == "2 kernels\n[{'ns': 5000}, {'ns': 2000}] 0\n"


def test_a_foreign_machine_joins_the_catalogue(installed: Path) -> None:
    done = asked(installed, "machines", "show", "lab-box", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["machine"]["title"] == "the box of the lab"


def test_a_foreign_charge_comes_on_top_and_is_nothing_at_the_identity(installed: Path) -> None:
    sample = "from turnbuckle import sample, read, nething\nwith sample() as path: run = read(path)\n"
    each = "run.project([on], model=nething('hold', c), draws=0).projections[0].seconds"
    look = f"{sample}print(*({each} for on in ('self', 'a100-pcie-40') for c in ((), ('toll',))))"
    env = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run([sys.executable, "-c", look], env=env, capture_output=True, text=True, check=True)
    same, tolled_same, other, tolled = map(float, done.stdout.split())
    assert same == tolled_same and tolled > other


def test_a_foreign_entry_replaces_nothing(installed: Path) -> None:
    look = "from turnbuckle.foundation.registry import entries\nprint(entries('readers')['nsys'].place)"
    env = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run([sys.executable, "-c", look], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "turnbuckle.trace.readers.nsys\n"


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
