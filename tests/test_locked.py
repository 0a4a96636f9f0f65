"""What `make` installs is locked: constraints.txt fits pyproject.toml, and every pip and cargo of
the Makefile keeps to its lock.
"""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
EXTRAS = PROJECT["optional-dependencies"].values()
REQUIREMENTS = sorted(
    {
        *PYPROJECT["build-system"]["requires"],
        *PROJECT["dependencies"],
        *(r for extra in EXTRAS for r in extra),
    }
)
LINES = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
LOCK = [line for line in LINES if line.strip() and not line.lstrip().startswith("#")]

#: Packages without an upper bound: their versions are dates, or (pyarrow) other packages call them
#: and Turnbuckle does not.
UNBOUNDED = {"dask", "distributed", "packaging", "pyarrow"}


def locked(name: str) -> list[str]:
    """Return each version of a package that the lock has, one for each range of Pythons or
    platforms.
    """
    start = f"{canonicalize_name(name)}=="
    return [line.removeprefix(start).partition(" ")[0] for line in LOCK if line.startswith(start)]


def test_the_lock_has_exact_versions_only() -> None:
    """No address, path or option of pip stands in the lock: it holds on every machine and for every
    registry.
    """
    assert [
        line for line in LOCK if not re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*( ; [^/]+)?", line)
    ] == []


@pytest.mark.parametrize("requirement", REQUIREMENTS)
def test_each_requirement_is_locked_within_its_bounds(requirement: str) -> None:
    required = Requirement(requirement)
    versions = locked(required.name)
    assert versions, "run: make lock UPGRADE="
    assert all(v in required.specifier for v in versions), versions


def test_each_requirement_is_bounded() -> None:
    """A release with another major version is not installed before its versions were tested."""
    unbounded = {
        Requirement(r).name
        for r in REQUIREMENTS
        if not {"<", "=="} & {s.operator for s in Requirement(r).specifier}
    }
    assert unbounded == UNBOUNDED


def test_the_lock_covers_the_lowest_python() -> None:
    assert f"--python-version {PROJECT['requires-python'].removeprefix('>=')} " in (
        ROOT / "Makefile"
    ).read_text(encoding="utf-8")


def calls(folder: Path, *arguments: str) -> list[list[str]]:
    """Run `make` with stand-ins for Python, maturin and cargo; return the constraint file and the
    command line of each call.
    """
    log = folder / "log"
    (folder / "bin").mkdir()
    for program in ("python", "maturin", "cargo"):
        stand_in = folder / "bin" / program
        stand_in.write_text(
            f'#!/bin/sh\necho "$PIP_CONSTRAINT|{program} $*" >> "{log}"\n', encoding="utf-8"
        )
        stand_in.chmod(0o755)
    # The make that runs the tests may have other settings (`make test-newest`), which are not
    # handed down.
    env = {
        k: v
        for k, v in os.environ.items()
        if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "PIP_CONSTRAINT")
    }
    env["PATH"] = f"{folder / 'bin'}:{env['PATH']}"
    subprocess.run(
        ["make", f"VENV={folder}", *arguments], cwd=ROOT, env=env, check=True, capture_output=True
    )
    return [line.split("|", maxsplit=1) for line in log.read_text(encoding="utf-8").splitlines()]


INSTALLED = ("installed-dev", "installed-docs", "installed-bench")


def test_every_pip_and_cargo_of_make_keeps_to_its_lock(tmp_path: Path) -> None:
    made = calls(tmp_path, "rust", *(f"{tmp_path}/{name}" for name in INSTALLED))
    pips = [
        constraint
        for constraint, command in made
        if "pip install" in command or command.startswith("maturin develop")
    ]
    assert len(pips) == 2 + len(INSTALLED) and set(pips) == {"constraints.txt"}
    cargos = [command for _, command in made if re.match("maturin develop|cargo (?!fmt)", command)]
    assert len(cargos) == 3 and all("--locked" in command for command in cargos)


def test_the_newest_versions_are_tried_without_the_lock(tmp_path: Path) -> None:
    made = calls(tmp_path, f"{tmp_path}/installed-dev", "PIP_CONSTRAINT=")
    assert {constraint for constraint, _ in made} == {""}
    recipe = (
        (ROOT / "Makefile")
        .read_text(encoding="utf-8")
        .partition("\ntest-newest:\n")[2]
        .partition("\n\n")[0]
    )
    steps = [line for line in recipe.splitlines() if "$(MAKE)" in line]
    assert len(steps) == 2 and all(
        line.endswith("VENV=build/newest PIP_CONSTRAINT=") for line in steps
    )
