"""A kind of sweep for tests: it notes who asked it what, and fails where it is told to."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from turnbuckle.foundation.errors import CannotAnswer, UsageError
from turnbuckle.questions.sweep.grid import Study
from turnbuckle.questions.sweep.points import Held, Kind


@dataclass(frozen=True)
class Asked:
    """Settings of every type that there is."""

    number: int
    hop_seconds: float = 1e-6
    word: Literal["left", "right"] = "left"
    truth: bool = False
    bandwidth: float | None = None
    pause_seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.number < 0:
            raise UsageError("A081", "no value for number", found=str(self.number))


def note(path: Path, text: str) -> None:
    """One line, whole, whoever else writes."""
    with path.with_suffix(".log").open("ab", buffering=0) as file:
        file.write(f"{text}\n".encode())


def noted(path: Path) -> list[str]:
    file = path.with_suffix(".log")
    return file.read_text().splitlines() if file.exists() else []


def evaluated(held: Held, asked: Asked) -> Mapping[str, Any]:
    """13 has no answer, 66 ends the worker, 77 is a defect; from 12 on a point takes long while a
    file ``slow`` is there.
    """
    held.once("read", lambda: note(held.path, f"read {os.getpid()}"))
    if asked.number >= 12 and held.path.with_name("slow").exists():
        time.sleep(0.2)
    note(held.path, f"asked {asked.number} {asked.hop_seconds:g} {os.getpid()}")
    if asked.number == 13:
        raise CannotAnswer("A165", "this has no answer", where="/home/somebody", found="13")
    if asked.number == 66:
        os._exit(9)
    if asked.number == 77:
        raise ValueError("seven and seven")
    return {
        "seconds": asked.number * asked.hop_seconds,
        "third": asked.number / 3,
        "word": asked.word,
        "number": -1,
        "nothing": float("nan"),
        "list": [1],
        "half": asked.number / 2 if asked.number % 2 else asked.number // 2,
    }


NOTED = Kind("noted", Asked, evaluated, release="1")


def study_of(folder: Path, recordings: int = 2, **axes: Any) -> Study:
    """A study over recordings that are any files."""
    paths = {f"run{k}": folder / f"run{k}.bin" for k in range(recordings)}
    for name, path in paths.items():
        path.write_text(name)
    return Study(
        "study",
        NOTED,
        paths,
        {"pause_seconds": 0.0},
        (),
        axes or {"number": list(range(6)), "hop_seconds": [1e-6, 1 / 3]},
        folder,
    )
