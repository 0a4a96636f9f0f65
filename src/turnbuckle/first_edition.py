"""Names of the first edition, kept for one release: each warns and calls its replacement."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turnbuckle.machine import Machine
from turnbuckle.page.html import write as report
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.profile import build as profile_of
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.projection.run import Run
from turnbuckle.questions.distance.distance import Mode
from turnbuckle.questions.distance.question import Slack
from turnbuckle.trace.trace import Trace


def _instead(former: str, now: str) -> None:
    warnings.warn(
        f"turnbuckle.{former} goes in the next release; {now} takes its place",
        DeprecationWarning,
        stacklevel=3,
    )


def inspect(path: str | Path, **asked: Any) -> Run:
    """`turnbuckle.read`."""
    _instead("inspect", "turnbuckle.read")
    return Run.read(path, **asked)


def ask(run: Run, on: Sequence[str] | None = None, **asked: Any) -> Answer:
    """`Run.project`."""
    _instead("ask", "Run.project")
    return run.project(on, **asked)


def tolerate(run: Run, mode: Mode = "link", **asked: Any) -> Slack:
    """`Run.distance`."""
    _instead("tolerate", "Run.distance")
    slack: Slack = run.distance(mode, **asked)
    return slack


def build(trace: Trace) -> Profile:
    """`Run.profile`."""
    _instead("build", "Run.profile")
    return profile_of(trace)


def load(name_or_path: str) -> Machine:
    """`Machine.load`."""
    _instead("load", "Machine.load")
    return Machine.load(name_or_path)


def write(answer: Answer, path: str | Path, **asked: Any) -> Path:
    """`turnbuckle.report`."""
    _instead("write", "turnbuckle.report")
    return report(answer, path, **asked)
