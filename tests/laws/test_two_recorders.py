"""Law 7: one run, written by PyTorch's profiler or by our own recorder, gets one answer.

Drawn runs are written down as files of both formats, with nothing that one of the two cannot say,
and read back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import FEWER, FULL, NAMES, Step, Where, machine, run_toy, trace_of

from turnbuckle.foundation.errors import CannotAnswer
from turnbuckle.foundation.schema import words
from turnbuckle.machine import Pair
from turnbuckle.papers.models.node.functions import functions
from turnbuckle.profile.profile import Profile, build
from turnbuckle.profile.summary import summary
from turnbuckle.profile.summary.coverage import coverage
from turnbuckle.profile.transfers import fit_links
from turnbuckle.projection.model import nething
from turnbuckle.projection.project import answered
from turnbuckle.projection.run import Run
from turnbuckle.questions.distance.distance import MODES
from turnbuckle.questions.distance.question import tolerate
from turnbuckle.trace.readers import kineto
from turnbuckle.trace.readers.recorded import reader as recorded
from turnbuckle.trace.trace import Trace

#: A time of day [ns]: with times as large as those of real files, a reader that counts in floats is
#: off by hundreds of nanoseconds.
EPOCH = 1_712_195_495_519_689_047
COLUMNS = (
    "start",
    "end",
    "corr",
    "corr2",
    "tid",
    "dev",
    "ctx",
    "stream",
    "name",
    "bytes",
    "what",
    "src",
    "dst",
    "ret",
    "node",
)
WAYS = {1: ("HtoD", 1), 2: ("DtoH", 2), 3: ("DtoD", 8), 5: ("HtoH", 9)}
MEMORIES = [word.capitalize() for word in words("memories")]
WORDS = (
    "launch",
    "launch",
    "launch",
    "copy_in",
    "copy_in",
    "copy_out",
    "memset",
    "wait",
    "wait",
    "small",
    "orphan",
    "work",
)

times = st.sampled_from([1, 10, 1_000, 2_999]) | st.integers(1, 20_000).filter(
    lambda t: t % 3_000 > 0
)
sizes = st.sampled_from([1, 8, 4096, 65_536, 1_000_003, 2**24])
places = dict.fromkeys(("thread", "device", "stream"), st.integers(0, 1))
durations = dict.fromkeys(("gap", "call", "delay", "work"), times)
steps = st.builds(
    Step, what=st.sampled_from(WORDS), **places, **durations, size=sizes, flag=st.booleans()
)
places = st.builds(
    Where,
    processes=st.just(1),
    threads=st.integers(1, 2),
    devices=st.integers(1, 2),
    streams=st.integers(1, 2),
)


def told(trace: Trace) -> Trace:
    """What both formats can say: named calls, kernels, copies and sets."""
    tables = {
        name: trace.table(name)
        for name in ("api", "kernels", "copies", "memsets")
        if name in trace.has
    }
    if "api" in tables:
        tables["api"] = tables["api"].filter(pl.col("name").is_not_null())
    return Trace({n: f for n, f in tables.items() if f.height}, trace.names, trace.facts, [], "toy")


def us(ns: int) -> str:
    """Microseconds with three decimals."""
    return f"{ns // 1000}.{ns % 1000:03d}"


def chrome(trace: Trace) -> str:
    """The run as PyTorch's profiler writes it."""
    return '{"schemaVersion": 1, "traceEvents": [' + ",\n".join(_events(trace)) + "]}"


def _events(trace: Trace) -> Iterator[str]:
    def event(
        category: str, name: str, pid: int, tid: int, row: dict[str, Any], **more: Any
    ) -> str:
        about = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid}
        args = json.dumps({"correlation": row["correlation"] or 0, **more})
        span = f'"ts": {us(row["start_ns"] + EPOCH)}, "dur": {us(row["end_ns"] - row["start_ns"])}'
        return f'{json.dumps(about)[:-1]}, {span}, "args": {args}}}'

    for row in trace.api.to_dicts():
        name = NAMES[row["name"]]
        yield event(
            "cuda_runtime" if name.startswith("cuda") else "cuda_driver",
            name,
            1,
            row["thread"] & 0xFFFFFF,
            row,
        )
    for table, category in (
        ("kernels", "kernel"),
        ("copies", "gpu_memcpy"),
        ("memsets", "gpu_memset"),
    ):
        for row in trace.table(table).to_dicts():
            place = {k: row[k] for k in ("device", "context", "stream")}
            more = {} if table == "kernels" else {"bytes": row["size_bytes"]}
            name = NAMES[row["name"]] if table == "kernels" else "Memset (Device)"
            if table == "copies":
                ends = (MEMORIES[row["source_memory"]], MEMORIES[row["target_memory"]])
                name = f"Memcpy {WAYS[row['direction']][0]} ({ends[0]} -> {ends[1]})"
            yield event(category, name, row["device"], row["stream"], row, **place, **more)


def own(trace: Trace) -> str:
    """The run as our recorder writes it."""
    names = "".join(f"#name {k} {name}\n" for k, name in enumerate(NAMES))
    head = "#turnbuckle-trace 1\n#recorder turnbuckle-cupti 1\n#timebase monotonic\n#pid 1\n"
    lines = (
        f"{kind},{','.join(str('' if row.get(c) is None else row[c]) for c in COLUMNS)}\n"
        for kind, row in _records(trace)
    )
    return f"{head}{names}{','.join(('kind', *COLUMNS))}\n{''.join(lines)}#end\n"


def _records(trace: Trace) -> Iterator[tuple[str, dict[str, Any]]]:
    def begun(row: dict[str, Any]) -> dict[str, Any]:
        return {
            "start": row["start_ns"] + EPOCH,
            "end": row["end_ns"] + EPOCH,
            "corr": row["correlation"],
            "name": row.get("name"),
        }

    for row in trace.api.to_dicts():
        yield (
            "D" if row["level"] else "A",
            {**begun(row), "tid": row["thread"] & 0xFFFFFF, "ret": 0},
        )
    for table, kind in (("kernels", "K"), ("copies", "C"), ("memsets", "S")):
        for row in trace.table(table).to_dicts():
            place = {
                "dev": row["device"],
                "ctx": row["context"],
                "stream": row["stream"],
                "bytes": row.get("size_bytes"),
            }
            more = {"dst": row.get("memory")}
            if table == "copies":
                more = {
                    "what": WAYS[row["direction"]][1],
                    "src": row["source_memory"],
                    "dst": row["target_memory"],
                }
            yield kind, {**begun(row), **place, **more}


def answers(profile: Profile) -> dict[str, Any]:
    """What a user sees of a run."""
    run = Run.of(profile)
    there = machine(
        {
            **FULL,
            "link.h2d.latency": 4e-6,
            "launch.latency": 9e-6,
            "launch.call": 6e-6,
            "slack.link": 1e-6,
        },
        "there",
    )
    out: dict[str, Any] = {
        "run": profile.run_time_ns,
        "shares": summary.categories_ns(profile),
        "copies": summary.copies(profile),
        "kernels": summary.kernels(profile),
        "launch": summary.launch(profile),
        "sync": summary.sync_return_s(profile),
        "alloc": summary.alloc_call_s(profile),
        "overlap": summary.overlap(profile),
        "coverage": coverage(profile),
        "functions": functions(profile).rows.sort("class", "call_class", "function").rows(),
        "fits": {
            k: (f.count, f.size_bytes, f.latency_s, f.bandwidth)
            for k, f in fit_links(profile).items()
        },
        "projected": answered(
            profile, run.ordered.to("sum"), Pair(machine(FULL), there), nething("hold")
        ).seconds,
    }
    for mode in MODES:
        try:
            curve = tolerate(run, mode, draws=0).curve
            out[mode] = [float(curve(s)) for s in np.geomspace(1e-7, 1e-2, 6)]
        except CannotAnswer as refused:
            out[mode] = refused.code
    return out


@settings(FEWER, max_examples=15)
@given(st.lists(steps, min_size=1, max_size=12), places)
def test_one_run_one_answer(program: list[Step], where: Where) -> None:
    trace = told(trace_of(run_toy(program, where).rows))
    if not {"api", "kernels"} <= trace.has:
        return
    expected = answers(build(trace))
    formats: tuple[tuple[Any, Any], ...] = ((chrome, kineto), (own, recorded))
    with TemporaryDirectory() as folder:
        for write, reader in formats:
            path = Path(folder) / f"{reader.__name__.rpartition('.')[2]}.txt"
            path.write_text(write(trace), encoding="utf-8")
            found = answers(build(reader.read(path)))
            for question, answer in found.items():
                assert answer == expected[question], (path.name, question)
