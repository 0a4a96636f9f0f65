"""What the tests of the recorder run on, and what came of it."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from answers import of_all_workers

from turnbuckle.recorder import toolchain
from turnbuckle.trace.readers.recorded import reader as recorded
from turnbuckle.trace.trace import Trace

WARNINGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror")


@dataclass(frozen=True)
class Bench:
    """What was built: a folder like a CUDA toolkit, the folder of its driver, a program, and the
    recorder.
    """

    toolkit: Path
    driver: Path
    program: Path
    library: Path


@dataclass(frozen=True)
class Ran:
    """How a program ended, and the files its recorder left."""

    code: int
    out: str
    err: str
    files: list[Path]

    def trace(self) -> Trace:
        """The files as one trace."""
        return recorded.together(self.files)

    def codes(self) -> dict[str, int]:
        """Findings of the trace."""
        return {found.code: found.count for found in self.trace().findings}

    def facts(self, word: str) -> list[str]:
        """Facts of all files that begin with a word."""
        lines = [
            line for path in self.files for line in path.read_text(encoding="utf-8").splitlines()
        ]
        return [
            line.removeprefix(f"#{word} ")
            for line in lines
            if line.startswith(f"#{word} ") or line == f"#{word}"
        ]


@dataclass(frozen=True)
class Said:
    """What a command line ended with and wrote."""

    code: int
    out: str
    err: str


def missing(what: str) -> None:
    """Skip where a program of the test is not installed; the project's own CI installs it and never
    skips.
    """
    if os.environ.get("TURNBUCKLE_REQUIRE_ALL"):
        pytest.fail(f"{what} is required here")
    packages = "gcc openmpi-bin libopenmpi-dev pocl-opencl-icd ocl-icd-opencl-dev opencl-headers"
    pytest.skip(f"{what} is not installed (apt install {packages})")


def against(cupti: toolchain.Cupti) -> list[str]:
    """Return the words that compile a program of the tests against CUPTI's headers."""
    headers = [word for path in cupti.includes for word in ("-isystem", str(path))]
    text = "".join(
        path.read_text(encoding="utf-8") for path in cupti.includes[0].glob("cupti_activity*.h")
    )
    return [
        *toolchain.compiler(),
        *WARNINGS,
        *toolchain.record_options(text),
        *headers,
        "-idirafter",
        str(toolchain.stand_ins()),
    ]


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder that the first worker to ask fills for all of them."""
    folder = of_all_workers(factory) / name
    with folder.with_name(f"{name}.lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not lock.tell():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            lock.write("made")
    return folder


def draws(seed: int, thread: int, low: int, high: int, count: int, rank: int = 0) -> list[int]:
    """What slack.c draws for one thread: splitmix64 from seed, rank and the thread's place, written
    again.
    """
    every, step = (1 << 64) - 1, 0x9E3779B97F4A7C15

    def mixed(z: int) -> int:
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & every
        z = (z ^ z >> 27) * 0x94D049BB133111EB & every
        return z ^ z >> 31

    state = mixed(
        (mixed((mixed((seed + step) & every) + rank + step) & every) + thread + step) & every
    )
    return [
        low + (mixed((state + n * step) & every) * (high - low + 1) >> 64)
        for n in range(1, count + 1)
    ]
