"""Turnbuckle: what a recorded GPU run would do if CPU and GPU stood closer or farther apart.

>>> import turnbuckle as tb
>>> with tb.sample() as path:
...     run = tb.read(path)
>>> answer = run.project(on=["cdi-row-link", "gh200"])
>>> [p.target for p in answer.projections]
['cdi-row-link', 'gh200']
>>> run.distance("link").tolerance(0.05) > 0
True

The names of `__all__` are the public ones; the heart is `turnbuckle.project.project`, start reading there.
"""

from __future__ import annotations

from functools import reduce
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnbuckle.errors import TurnbuckleError
    from turnbuckle.examples import sample
    from turnbuckle.findings import Finding
    from turnbuckle.first_edition import ask, build, inspect, load, tolerate, write
    from turnbuckle.machine import Machine, Pair, Parameter
    from turnbuckle.model import Model, additive, nething
    from turnbuckle.page import write as report
    from turnbuckle.profile.profile import Profile
    from turnbuckle.projection import Projection
    from turnbuckle.study.grid import Study
    from turnbuckle.study.run import Answer, Run, Summary
    from turnbuckle.study.sharing import Sharing
    from turnbuckle.study.slack import Slack
    from turnbuckle.study.sweeping import sweep
    from turnbuckle.trace.trace import Trace

    read = Run.read

#: Public name -> where it stands.  Loaded on first use, so that the command line starts fast.
_PLACES = {
    "Answer": "study.run:Answer",
    "Finding": "findings:Finding",
    "Machine": "machine:Machine",
    "Model": "model:Model",
    "Pair": "machine:Pair",
    "Parameter": "machine:Parameter",
    "Profile": "profile.profile:Profile",
    "Projection": "projection:Projection",
    "Run": "study.run:Run",
    "Sharing": "study.sharing:Sharing",
    "Slack": "study.slack:Slack",
    "Study": "study.grid:Study",
    "Summary": "study.run:Summary",
    "Trace": "trace.trace:Trace",
    "TurnbuckleError": "errors:TurnbuckleError",
    "additive": "model:additive",
    "nething": "model:nething",
    "read": "study.run:Run.read",
    "report": "page:write",
    "sample": "examples:sample",
    "sweep": "study.sweeping:sweep",
}
#: Names of the first edition, which warn.
_FORMER = {name: f"first_edition:{name}" for name in ("ask", "build", "inspect", "load", "tolerate", "write")}

__all__ = [
    "Answer",
    "Finding",
    "Machine",
    "Model",
    "Pair",
    "Parameter",
    "Profile",
    "Projection",
    "Run",
    "Sharing",
    "Slack",
    "Study",
    "Summary",
    "Trace",
    "TurnbuckleError",
    "additive",
    "ask",
    "build",
    "inspect",
    "load",
    "nething",
    "read",
    "report",
    "sample",
    "sweep",
    "tolerate",
    "write",
]


def __getattr__(name: str) -> Any:
    room, _, names = (_PLACES | _FORMER).get(name, "").partition(":")
    if not room:
        raise AttributeError(f"module 'turnbuckle' has no attribute {name!r}")
    return reduce(getattr, names.split("."), import_module(f"turnbuckle.{room}"))


def __dir__() -> list[str]:
    return sorted(__all__)
