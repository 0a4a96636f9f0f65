"""The slack validation without a GPU: its own C code, built against a stand-in for driver, runtime, CUPTI and clock (``standin/``)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from slack_scripts import run, toolchain

STANDIN = Path(__file__).resolve().parent / "standin"
#: Host code alone is C, and the stand-in's kernels are never run: a C compiler does for nvcc.
NVCC = """#!/bin/sh
while [ $# -gt 0 ]; do case "$1" in *.cu) source=$1;; -o) out=$2; shift;; esac; shift; done
set -- -std=gnu11 -O2 -Wall -Wextra -Werror -isystem "{standin}"
exec "{cc}" "$@" -x c "$source" -x none "{library}" -Wl,-rpath,"{folder}" -ldl -o "$out"
"""


@pytest.fixture(scope="session")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like a CUDA toolkit: ``cupti.h``, ``libcupti.so`` (driver and runtime too), ``nvcc``.

    Needs a C compiler, as Rust does.
    """
    folder = tmp_path_factory.mktemp("toolkit")
    cc = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    assert cc, "the tests of validation/slack need a C compiler: install gcc, or set CC"
    library = folder / "libcupti.so"
    words = [cc, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", f"-Wl,-soname,{library.name}", f"-I{STANDIN}"]
    subprocess.run([*words, str(STANDIN / "standin.c"), "-ldl", "-o", str(library)], check=True)
    shutil.copy(STANDIN / "cupti.h", folder)
    nvcc = folder / "nvcc"
    nvcc.write_text(NVCC.format(cc=cc, standin=STANDIN, library=library, folder=folder), encoding="utf-8")
    nvcc.chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def built(toolkit: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The programs and the library, compiled without a warning."""
    return toolchain.build(toolchain.tools(str(toolkit / "nvcc"), str(toolkit)), tmp_path_factory.mktemp("built"))


@pytest.fixture
def record(built: Any, tmp_path: Path) -> Callable[..., Path]:
    """Record one program; returns the text."""

    def made(name: str, work: int, iterations: int, **settings: str) -> Path:
        path = tmp_path / f"{name}.csv"
        run.ran(built, ["run", name, str(work), str(iterations)], {"SLACK_WINDOW": "1", "SLACK_RECORD": str(path), **settings})
        return path

    return made
