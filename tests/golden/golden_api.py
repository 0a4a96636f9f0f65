"""What the public names of the package answer in Python, asked by these names alone.

The names of the first edition, which go in the next release, are asked as `FORMER`; what took their place gives the same answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import turnbuckle as tb

#: Name of the file of answers.
VERB = "api"
#: Public names that stand for what other names give or take.
HELD_BY_OTHERS = {
    "Answer": "of Run.project",
    "Finding": "in the findings of answers",
    "Machine": "of Machine.load",
    "Model": "of nething and additive",
    "Pair": "of Machine.load",
    "Parameter": "of Machine.load",
    "Profile": "of a Run",
    "Projection": "in answers of Run.project",
    "Run": "of read",
    "Sharing": "of Run.sharing",
    "Slack": "of Run.distance",
    "Study": "a study file, given to sweep",
    "Summary": "of Run.summary",
    "Trace": "of a Run",
    "TurnbuckleError": "raised by Machine.load",
}


def _trace(inputs: Path) -> Any:
    trace = tb.read(inputs / "dgemm.sqlite", use_cache=False).trace
    return {"facts": trace.facts, "rows": {n: t.height for n, t in trace.tables.items()}, "names": trace.names.to_list()}


def _read(inputs: Path) -> Any:
    return tb.read(inputs / "dgemm.sqlite", use_cache=False)


def _projected(inputs: Path, on: Any = ("gh200", "cdi-row-link", "self"), **model: Any) -> Any:
    answer = _read(inputs).project(on, draws=50, **model)
    return {"answer": answer.as_dict(), "table": answer.table().to_dict(as_series=False)}


def _reported(inputs: Path) -> Any:
    import golden_net as net

    return net._written(tb.report(_read(inputs).project("gh200", draws=50), Path("report.html")))


def _loaded(name: str) -> Any:
    machine = tb.load(name)
    about = (machine.name, machine.title, machine.year, machine.coupling, machine.base)
    return {"about": about, "parameters": {k: str(v) for k, v in sorted(machine.parameters.items())}}


def _error() -> Any:
    try:
        tb.load("gh2000")
    except tb.TurnbuckleError as error:
        return {"code": error.code, "lines": error.lines()}
    raise AssertionError("a machine of that name was found")


def _asked(inputs: Path, on: Any = ("gh200", "cdi-row-link", "self"), **model: Any) -> Any:
    seen = tb.inspect(inputs / "dgemm.sqlite", use_cache=False)
    answer = tb.ask(seen, on, draws=50, **model)
    return {"answer": answer.as_dict(), "table": answer.table().to_dict(as_series=False)}


def _tolerated(inputs: Path, mode: Any) -> Any:
    return tb.tolerate(tb.inspect(inputs / "dgemm.sqlite", use_cache=False), mode, draws=10).as_dict()


def _swept(inputs: Path) -> Any:
    return tb.sweep(inputs / "study_cards" / "study.toml", workers=1).as_dict()


def _built(inputs: Path) -> Any:
    profile = tb.build(tb.read(inputs / "dgemm.sqlite", use_cache=False).trace)
    findings = {f.code: f.count for f in profile.findings}
    rows = {"activities": profile.activities.height, "tracks": profile.tracks.height, "kernels": profile.of("kernel").height}
    return {"seconds": profile.seconds, "run_time_ns": profile.run_time_ns, "has": sorted(profile.has), "findings": findings, "rows": rows}


def _written(inputs: Path) -> Any:
    import golden_net as net

    page = tb.write(tb.ask(tb.inspect(inputs / "dgemm.sqlite", use_cache=False), ["gh200"], draws=50), Path("report.html"))
    return net._written(page)


def _sampled() -> Any:
    with tb.sample() as path:
        return tb.ask(tb.inspect(path, use_cache=False), (), draws=0).as_dict()["findings"]


#: Question -> how it is asked; each is given the folder of the inputs, in an empty current folder.
ASKED: dict[str, Callable[[Path], Any]] = {
    "read": _trace,
    "build": _built,
    "sample, inspect": lambda _: _sampled(),
    "load gh200": lambda _: _loaded("gh200"),
    "load cdi-row-link": lambda _: _loaded("cdi-row-link"),
    "load what is not there": lambda _: _error(),
    "ask": _asked,
    "ask, nething hold": lambda inputs: _asked(inputs, model=tb.nething("hold")),
    "ask, additive": lambda inputs: _asked(inputs, None, model=tb.additive({"data": 10.0, "control": 2.0})),
    "tolerate link": lambda inputs: _tolerated(inputs, "link"),
    "tolerate api": lambda inputs: _tolerated(inputs, "api"),
    "sweep": _swept,
    "write": _written,
    "report": _reported,
    "read, summary": lambda inputs: _read(inputs).summary().as_dict(),
}


#: Question of a former name -> the same of what took its place.
INSTEAD: dict[str, Callable[[Path], Any]] = {
    "ask": _projected,
    "ask, nething hold": lambda inputs: _projected(inputs, model=tb.nething("hold")),
    "ask, additive": lambda inputs: _projected(inputs, None, model=tb.additive({"data": 10.0, "control": 2.0})),
    "tolerate link": lambda inputs: _read(inputs).distance("link", draws=10).as_dict(),
    "tolerate api": lambda inputs: _read(inputs).distance("api", draws=10).as_dict(),
    "write": _reported,
}
#: Names of the first edition.
FORMER = ("ask", "build", "inspect", "load", "tolerate", "write")


def ask(question: str, inputs: Path, place: Path, instead: bool = False) -> dict[str, Any]:
    """Ask a question in a new folder `place` and return its answer; `instead` asks what took a former name's place."""
    import os
    import warnings

    import golden_net as net

    place.mkdir()
    before = Path.cwd()
    os.chdir(place)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "turnbuckle.* goes in the next release", DeprecationWarning)
            answer = (INSTEAD if instead else ASKED)[question](inputs)
    finally:
        os.chdir(before)
    return dict(net.steady(json.loads(json.dumps({"json": answer}, default=str))))
