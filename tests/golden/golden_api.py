"""What the public names of the package answer in Python, asked by these names alone."""

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
    "Answer": "of inspect and ask",
    "Finding": "in the findings of answers",
    "Machine": "of load",
    "Model": "of nething and additive",
    "Pair": "of load",
    "Parameter": "of load",
    "Profile": "of build",
    "Projection": "in answers of ask",
    "Slack": "of tolerate",
    "Study": "a study file, given to sweep",
    "Trace": "of read",
    "TurnbuckleError": "raised by load",
}


def _trace(inputs: Path) -> Any:
    trace = tb.read(inputs / "dgemm.sqlite", use_cache=False)
    return {"facts": trace.facts, "rows": {n: t.height for n, t in trace.tables.items()}, "names": trace.names.to_list()}


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
    profile = tb.build(tb.read(inputs / "dgemm.sqlite", use_cache=False))
    findings = {f.code: f.count for f in profile.findings}
    rows = {"activities": profile.activities.height, "tracks": profile.tracks.height, "kernels": profile.of("kernel").height}
    return {"seconds": profile.seconds, "run_time_ns": profile.run_time_ns, "has": sorted(profile.has), "findings": findings, "rows": rows}


def _written(inputs: Path) -> Any:
    import golden_net as net

    page = tb.write(tb.ask(tb.inspect(inputs / "dgemm.sqlite", use_cache=False), ["gh200"], draws=50), Path("report.html"))
    return net._written(page)


def _sampled() -> Any:
    with tb.sample() as path:
        return tb.inspect(path, use_cache=False).as_dict()


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
}


def ask(question: str, inputs: Path, place: Path) -> dict[str, Any]:
    """Ask a question in a new folder `place` and return its answer."""
    import os

    import golden_net as net

    place.mkdir()
    before = Path.cwd()
    os.chdir(place)
    try:
        answer = ASKED[question](inputs)
    finally:
        os.chdir(before)
    return dict(net.steady(json.loads(json.dumps({"json": answer}, default=str))))
