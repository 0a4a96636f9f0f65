"""What the public names of the package answer in Python, asked by these names alone.

The names of the first edition, which go in the next release, are asked as `FORMER`; what took their
place gives the same answers.
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
    "Cores": "of cores",
    "Finding": "in the findings of answers",
    "Machine": "of Machine.load",
    "Model": "of nething and additive",
    "model": "every question of the net in test_golden_in_python.py",
    "Order": "of order",
    "Pair": "of Machine.load",
    "Pool": "of pool",
    "Parameter": "of Machine.load",
    "Profile": "of a Run",
    "Projection": "in answers of Run.project",
    "Run": "of read",
    "Sharing": "of Run.sharing",
    "Slack": "of Run.distance",
    "Study": "a study file, given to sweep",
    "Suite": "of suite",
    "Summary": "of Run.summary",
    "Trace": "of a Run",
    "TurnbuckleError": "raised by Machine.load",
    "Validation": "of validate",
    "record": "asked in tests/recorder, on a device that a stand-in plays",
}


def _trace(inputs: Path) -> Any:
    trace = tb.read(inputs / "dgemm.sqlite", use_cache=False).trace
    return {
        "facts": trace.facts,
        "rows": {n: t.height for n, t in trace.tables.items()},
        "names": trace.names.to_list(),
    }


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
    return {
        "about": about,
        "parameters": {k: str(v) for k, v in sorted(machine.parameters.items())},
    }


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
    return tb.tolerate(
        tb.inspect(inputs / "dgemm.sqlite", use_cache=False), mode, draws=10
    ).as_dict()


def _swept(inputs: Path) -> Any:
    return tb.sweep(inputs / "study_cards" / "study.toml", workers=1).as_dict()


def _built(inputs: Path) -> Any:
    profile = tb.build(tb.read(inputs / "dgemm.sqlite", use_cache=False).trace)
    findings = {f.code: f.count for f in profile.findings}
    rows = {
        "activities": profile.activities.height,
        "tracks": profile.tracks.height,
        "kernels": profile.of("kernel").height,
    }
    return {
        "seconds": profile.seconds,
        "run_time_ns": profile.run_time_ns,
        "has": sorted(profile.has),
        "findings": findings,
        "rows": rows,
    }


def _written(inputs: Path) -> Any:
    import golden_net as net

    page = tb.write(
        tb.ask(tb.inspect(inputs / "dgemm.sqlite", use_cache=False), ["gh200"], draws=50),
        Path("report.html"),
    )
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
    "ask, additive": lambda inputs: _asked(
        inputs, None, model=tb.additive({"data": 10.0, "control": 2.0})
    ),
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
    "ask, additive": lambda inputs: _projected(
        inputs, None, model=tb.additive({"data": 10.0, "control": 2.0})
    ),
    "tolerate link": lambda inputs: _read(inputs).distance("link", draws=10).as_dict(),
    "tolerate api": lambda inputs: _read(inputs).distance("api", draws=10).as_dict(),
}
#: Question of the command line -> the same in Python: the JSON document, or those of its keys that
#: the answer has.
COMMANDS: dict[str, Callable[[Path], Any]] = {
    "slack in/dgemm.sqlite --over bandwidth --format json": lambda i: (
        _read(i).distance(over="bandwidth").as_dict()
    ),
    "slack in/dgemm.sqlite --over both --mode api --format json": lambda i: (
        _read(i).distance("api", over="both").as_dict()
    ),
    "whatif in/dgemm.sqlite --on gh200,cdi-row-link --draws 20 --format json": lambda i: (
        _read(i).whatif(["gh200", "cdi-row-link"], draws=20).as_dict()
    ),
    "suite in/dgemm.sqlite in/milc.sqlite --on gh200,cdi-row-link --draws 20 --format json": lambda i: (
        tb.suite(
            [i / "dgemm.sqlite", i / "milc.sqlite"],
            ["gh200", "cdi-row-link"],
            draws=20,
            use_cache=False,
        ).as_dict()
    ),
    (
        "transfers in/dgemm.sqlite --measured in/dgemm.sqlite --on nvlink2-x2 --transfers-of "
        "measured --format json"
    ): lambda i: (
        _read(i).transfers("nvlink2-x2", measured=_read(i), transfers_of_measured=True).as_dict()
    ),
    "pool in/jobs.toml --on cdi-switch-hop-link,cdi-row-link --seeds 2 --format json": lambda i: (
        tb.pool(i / "jobs.toml", on=["cdi-switch-hop-link", "cdi-row-link"], seeds=2).as_dict()
    ),
    "cores in/runs_cores/runs.csv --draws 200 --format json": lambda i: {
        "programs": [tb.cores(i / "runs_cores" / "runs.csv", draws=200).as_dict()]
    },
    "calibrate in/measured_nvbandwidth/measured.txt --base h100-sxm5 --format json": lambda i: {
        "parameters": [
            e.as_dict()
            for e in tb.calibrate(
                [i / "measured_nvbandwidth" / "measured.txt"], "h100-sxm5"
            ).parameters
        ]
    },
    "model order in/ranks/two.sqlite in/ranks/disturbed.sqlite --format json": lambda i: tb.order(
        [
            tb.read(i / "ranks" / name, use_cache=False)
            for name in ("two.sqlite", "disturbed.sqlite")
        ]
    ).as_dict(),
    "machines list --format json": lambda _: {
        "machines": [{"name": m.name, "title": m.title} for m in tb.machines()]
    },
    "model messages in/ranks/all.sqlite --format json": lambda i: (
        tb.read(i / "ranks" / "all.sqlite", use_cache=False).messages().as_dict()
    ),
    "validate --cases in --data in in/case_line/case --format json": lambda i: tb.validate(
        [str(i / "case_line" / "case")], i, i
    ).as_dict(),
    "doctor --node-topology in/node.txt --cpus 40-47 --format json": lambda i: tb.doctor(
        node_topology=i / "node.txt", cpus="40-47"
    ).as_dict(),
    "doctor in/dgemm.sqlite --format json": lambda i: tb.doctor(i / "dgemm.sqlite").as_dict(),
    "reproduce --paper slack --format json": lambda _: tb.reproduce(["slack"]).as_dict(),
    (
        "calibrate in/measured_nvbandwidth/measured.txt --beside "
        "in/measured_rocm_sizes/measured.txt --format json"
    ): lambda i: {
        "parameters": [
            {
                "parameter": c.parameter,
                "value": c.scale.value,
                "unit": "1",
                "error": c.scale.error,
                "source": c.scale.source,
                "note": c.scale.note,
            }
            for c in tb.calibrate([i / "measured_nvbandwidth" / "measured.txt"])
            .beside(tb.calibrate([i / "measured_rocm_sizes" / "measured.txt"]))
            .changes
            if c.scale
        ]
    },
    "calibrate in/measured_nvbandwidth/measured.txt --format json": lambda i: {
        k: v
        for k, v in tb.calibrate([i / "measured_nvbandwidth" / "measured.txt"]).as_dict().items()
        if k != "machine_file"
    },
    (
        "model sharing in/dgemm.sqlite --runs 1,2 --surface --latency 1us,100us --bandwidth "
        "8GB/s,16GB/s --format json"
    ): lambda i: (
        _read(i)
        .sharing((1, 2), over="both", latencies=(1e-6, 1e-4), bandwidths=(8e9, 16e9))
        .as_dict()
    ),
    (
        "merge in/ranks/rank0.sqlite in/ranks/rank1.sqlite in/ranks/rank2.sqlite -o m.turnbuckle "
        "&& inspect m.turnbuckle --format json"
    ): (
        lambda i: {
            "profile": {
                "run_time_ns": _merged(i).profile.run_time_ns,
                "kernels": _merged(i).as_dict()["profile"]["kernels"],
            }
        }
    ),
}


def _merged(inputs: Path) -> Any:
    return tb.merge(
        [tb.read(inputs / "ranks" / f"rank{k}.sqlite", use_cache=False) for k in range(3)]
    )


#: Answer -> how Python asks for it; each shows itself as a table, JSON, a few lines and HTML.
SHOWN: dict[str, Callable[[Path], Any]] = {
    "read": _read,
    "summary": lambda i: _read(i).inspect(),
    "project": lambda i: _read(i).project("gh200", draws=0),
    "slack": lambda i: _read(i).slack(draws=0),
    "slack, both": lambda i: _read(i).slack(over="both"),
    "slack, bandwidth": lambda i: _read(i).slack(over="bandwidth"),
    "sharing": lambda i: _read(i).sharing((1, 2)),
    "sharing, both": lambda i: _read(i).sharing(
        (1, 2), over="both", latencies=(1e-6, 1e-4), bandwidths=(8e9,)
    ),
    "beside": lambda i: _read(i).beside(_read(i)),
    "whatif": lambda i: _read(i).whatif("gh200", draws=0),
    "suite": lambda i: tb.suite([_read(i)], "gh200", draws=0),
    "transfers": lambda i: _read(i).transfers([tb.Machine.load("gh200"), "pcie5-x16"]),
    "messages": lambda i: tb.read(i / "ranks" / "all.sqlite", use_cache=False).messages((1, 2)),
    "order": lambda i: tb.order(
        [
            tb.read(i / "ranks" / name, use_cache=False)
            for name in ("two.sqlite", "disturbed.sqlite")
        ]
    ),
    "pool": lambda i: tb.pool(i / "jobs.toml", on="cdi-rack-link", seeds=0, search=False),
    "cores": lambda i: tb.cores(i / "runs_cores" / "runs.csv", draws=200),
    "calibrate": lambda i: tb.calibrate(
        [i / "measured_nvbandwidth" / "measured.txt"], tb.Machine.load("h100-sxm5")
    ),
    "validate": lambda i: tb.validate([str(i / "case_line" / "case")], i, i),
    "sweep": lambda i: tb.sweep(i / "study_cards" / "study.toml", workers=1),
    "anonymise": lambda i: _read(i).anonymise(Path("copy")),
    "merge": _merged,
    "doctor": lambda i: tb.doctor(i / "dgemm.sqlite"),
    "reproduce": lambda _: tb.reproduce(["slack"]),
}
#: Of them, those that draw figures.
DRAWN = (
    "project",
    "slack",
    "slack, both",
    "sharing, both",
    "transfers",
    "whatif",
    "messages",
    "cores",
    "validate",
    "sweep",
    "suite",
    "pool",
)

#: Names of the first edition.
FORMER = ("ask", "build", "inspect", "load", "tolerate", "write")


def ask(question: str, inputs: Path, place: Path, instead: bool = False) -> dict[str, Any]:
    """Ask a question in a new folder `place` and return its answer; `instead` asks what took a
    former name's place.
    """
    import os
    import warnings

    import golden_net as net

    place.mkdir()
    before = Path.cwd()
    os.chdir(place)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", "turnbuckle.* goes in the next release", DeprecationWarning
            )
            answer = (INSTEAD if instead else ASKED)[question](inputs)
    finally:
        os.chdir(before)
    return dict(net.steady(json.loads(json.dumps({"json": answer}, default=str))))
