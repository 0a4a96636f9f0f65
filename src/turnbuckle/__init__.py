"""Turnbuckle: what a recorded GPU run would do if CPU and GPU stood closer or farther apart.

>>> import turnbuckle as tb
>>> with tb.sample() as path:
...     answer = tb.ask(tb.inspect(path), ["cdi-row-link", "gh200"])
>>> [p.target for p in answer.projections]
['cdi-row-link', 'gh200']

The names below are the public ones; the heart is `turnbuckle.project.project`, start reading there.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnbuckle.errors import TurnbuckleError
    from turnbuckle.examples import sample
    from turnbuckle.findings import Finding
    from turnbuckle.machine import Machine, Pair, Parameter, load
    from turnbuckle.model import Model, additive, nething
    from turnbuckle.profile.profile import Profile, build
    from turnbuckle.projection import Projection
    from turnbuckle.report import write
    from turnbuckle.study.grid import Study
    from turnbuckle.study.slack import Slack, tolerate
    from turnbuckle.study.study import Answer, ask, inspect
    from turnbuckle.study.sweeping import sweep
    from turnbuckle.trace.read import read
    from turnbuckle.trace.trace import Trace

#: Public name -> the room it lives in.  Loaded on first use, so that the command line starts fast.
_ROOMS = {
    "Answer": "study.study",
    "Finding": "findings",
    "Machine": "machine",
    "Model": "model",
    "Pair": "machine",
    "Parameter": "machine",
    "Profile": "profile.profile",
    "Projection": "projection",
    "Slack": "study.slack",
    "Study": "study.grid",
    "Trace": "trace.trace",
    "TurnbuckleError": "errors",
    "additive": "model",
    "ask": "study.study",
    "build": "profile.profile",
    "inspect": "study.study",
    "load": "machine",
    "nething": "model",
    "read": "trace.read",
    "sample": "examples",
    "sweep": "study.sweeping",
    "tolerate": "study.slack",
    "write": "report",
}

__all__ = [
    "Answer",
    "Finding",
    "Machine",
    "Model",
    "Pair",
    "Parameter",
    "Profile",
    "Projection",
    "Slack",
    "Study",
    "Trace",
    "TurnbuckleError",
    "additive",
    "ask",
    "build",
    "inspect",
    "load",
    "nething",
    "read",
    "sample",
    "sweep",
    "tolerate",
    "write",
]


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module 'turnbuckle' has no attribute {name!r}")
    return getattr(import_module(f"turnbuckle.{_ROOMS[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
