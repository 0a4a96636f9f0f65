"""Turnbuckle: what a recorded GPU run would do if CPU and GPU stood closer or farther apart.

>>> import turnbuckle as tb
>>> with tb.sample() as path:
...     run = tb.read(path)
>>> answer = run.project(on=["cdi-row-link", "gh200"])
>>> [p.target for p in answer.projections]
['cdi-row-link', 'gh200']
>>> run.distance("link").tolerance(0.05) > 0
True

The names of `__all__` are the public ones; the heart is `turnbuckle.projection.project.project`,
start reading there.
"""

from __future__ import annotations

from functools import reduce
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnbuckle import model
    from turnbuckle.cli.doctor import examined as doctor
    from turnbuckle.examples import sample
    from turnbuckle.first_edition import ask, build, inspect, load, tolerate, write
    from turnbuckle.foundation.errors import TurnbuckleError
    from turnbuckle.foundation.findings import Finding
    from turnbuckle.machine import Machine, Pair, Parameter
    from turnbuckle.machine.catalog import all_machines as machines
    from turnbuckle.page.html import write as report
    from turnbuckle.papers.reproduce import of_papers as reproduce
    from turnbuckle.profile.profile import Profile
    from turnbuckle.projection.answers.answer import Answer
    from turnbuckle.projection.model import Model, additive, nething
    from turnbuckle.projection.projection import Projection
    from turnbuckle.projection.run import Run
    from turnbuckle.questions.calibrate.question import of_files as calibrate
    from turnbuckle.questions.cores.answer import Cores
    from turnbuckle.questions.cores.question import of_runs as cores
    from turnbuckle.questions.distance.question import Slack
    from turnbuckle.questions.inspect.question import Summary
    from turnbuckle.questions.merge.question import merge
    from turnbuckle.questions.order.question import Order
    from turnbuckle.questions.order.question import of_runs as order
    from turnbuckle.questions.pool.question import Pool
    from turnbuckle.questions.pool.question import of_jobs as pool
    from turnbuckle.questions.sharing.question import Sharing
    from turnbuckle.questions.suite.answer import Suite
    from turnbuckle.questions.suite.question import of_files as suite
    from turnbuckle.questions.sweep.grid import Study
    from turnbuckle.questions.sweep.question import sweep
    from turnbuckle.questions.validate.question import Validation
    from turnbuckle.questions.validate.question import of_cases as validate
    from turnbuckle.recorder.command import of_command as record
    from turnbuckle.trace.trace import Trace

    read = Run.read

#: Public name -> where it stands.  Loaded on first use, so that the command line starts fast.
_PLACES = {
    "Answer": "projection.answers.answer:Answer",
    "Cores": "questions.cores.answer:Cores",
    "Order": "questions.order.question:Order",
    "Finding": "foundation.findings:Finding",
    "Machine": "machine:Machine",
    "Model": "projection.model:Model",
    "Pair": "machine:Pair",
    "Parameter": "machine:Parameter",
    "Pool": "questions.pool.question:Pool",
    "Profile": "profile.profile:Profile",
    "Projection": "projection.projection:Projection",
    "Run": "projection.run:Run",
    "Sharing": "questions.sharing.question:Sharing",
    "Slack": "questions.distance.question:Slack",
    "Study": "questions.sweep.grid:Study",
    "Suite": "questions.suite.answer:Suite",
    "Summary": "questions.inspect.question:Summary",
    "Trace": "trace.trace:Trace",
    "TurnbuckleError": "foundation.errors:TurnbuckleError",
    "Validation": "questions.validate.question:Validation",
    "additive": "projection.model:additive",
    "calibrate": "questions.calibrate.question:of_files",
    "cores": "questions.cores.question:of_runs",
    "doctor": "cli.doctor:examined",
    "machines": "machine.catalog:all_machines",
    "merge": "questions.merge.question:merge",
    "model": "model",
    "nething": "projection.model:nething",
    "order": "questions.order.question:of_runs",
    "pool": "questions.pool.question:of_jobs",
    "read": "projection.run:Run.read",
    "record": "recorder.command:of_command",
    "report": "page.html:write",
    "reproduce": "papers.reproduce:of_papers",
    "sample": "examples:sample",
    "suite": "questions.suite.question:of_files",
    "sweep": "questions.sweep.question:sweep",
    "validate": "questions.validate.question:of_cases",
}
#: Names of the first edition, which warn.
_FORMER = {
    name: f"first_edition:{name}"
    for name in ("ask", "build", "inspect", "load", "tolerate", "write")
}

__all__ = [
    "Answer",
    "Cores",
    "Finding",
    "Machine",
    "Model",
    "Order",
    "Pair",
    "Parameter",
    "Pool",
    "Profile",
    "Projection",
    "Run",
    "Sharing",
    "Slack",
    "Study",
    "Suite",
    "Summary",
    "Trace",
    "TurnbuckleError",
    "Validation",
    "additive",
    "ask",
    "build",
    "calibrate",
    "cores",
    "doctor",
    "inspect",
    "load",
    "machines",
    "merge",
    "model",
    "nething",
    "order",
    "pool",
    "read",
    "record",
    "report",
    "reproduce",
    "sample",
    "suite",
    "sweep",
    "tolerate",
    "validate",
    "write",
]


def __getattr__(name: str) -> Any:
    room, _, names = (_PLACES | _FORMER).get(name, "").partition(":")
    if not room:
        raise AttributeError(f"module 'turnbuckle' has no attribute {name!r}")
    return reduce(getattr, filter(None, names.split(".")), import_module(f"turnbuckle.{room}"))


def __dir__() -> list[str]:
    return sorted(__all__)
