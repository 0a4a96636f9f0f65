"""A run as an execution trace of Chakra: its longest path is the run time, and our reader makes the
run of it again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hostile_names import SAMPLE, Ran
from hypothesis import given, reject
from mpi_rows import call, recorded
from refusals import refused
from runs import run_of
from strategies import FEWER, gpu_traces, soups, traces

import turnbuckle as tb
from turnbuckle.profile.profile import build
from turnbuckle.projection.run import Run
from turnbuckle.questions.before_after.formats import chakra, wire
from turnbuckle.questions.before_after.formats.steps import Steps, steps
from turnbuckle.trace.readers.chakra import wire as wire_reader
from turnbuckle.trace.readers.chakra.reader import graph
from turnbuckle.trace.trace import Trace

Turnbuckle = Callable[..., Ran]
Node = dict[str, object]


def nodes_of(data: bytes) -> list[Node]:
    """Nodes field by field, read without the reader's table: id, name, type, deps, start, duration
    [us] and attributes.
    """
    out: list[Node] = []
    for number, message in enumerate(wire_reader.Messages(iter([data]))):
        if not number:
            continue
        node: Node = {"deps": [], "attributes": {}}
        for field, kind, value in wire_reader.fields(message):
            if field == 5:
                node["deps"] = wire_reader.numbers(kind, value)
            elif field == 10:
                name, attribute = wire_reader.attribute(value)
                node["attributes"][name] = attribute  # type: ignore[index]
            else:
                node[{1: "id", 2: "name", 3: "type", 6: "start", 7: "duration"}[field]] = value
        out.append(node)
    return out


def written(seen: Steps, place: Path) -> list[Node]:
    with place.open("wb") as sink:
        chakra.stream(seen, sink)
    return nodes_of(place.read_bytes())


def longest_ns(nodes: list[Node]) -> int:
    """When the last node ends, if each begins when all that it depends on have ended; a node
    depends on earlier ones only.
    """
    ends: dict[object, int] = {}
    for node in nodes:
        begin = max((ends[d] for d in node["deps"]), default=0)  # type: ignore[attr-defined]
        ends[node["id"]] = begin + node["attributes"]["duration_ns"]  # type: ignore[index]
    return max(ends.values(), default=0)


@pytest.mark.parametrize(
    ("name", "part"), [("dgemm-like-synthetic", "whole"), ("milc-like-synthetic", "0.3s..0.5s")]
)
def test_the_longest_path_is_the_run_time_and_the_run_comes_back(
    name: str, part: str, tmp_path: Path
) -> None:
    run, place = run_of(SAMPLE.with_name(f"{name}.sqlite"), part), tmp_path / "run.et"
    assert longest_ns(written(steps(run), place)) == run.profile.run_time_ns
    back = tb.read(place, source=run.source, part="whole")
    assert back.profile.run_time_ns == run.profile.run_time_ns
    lasts = (pl.col("end_ns") - pl.col("start_ns")).sum()
    of_kind = [
        r.profile.activities.group_by("kind").agg(
            pl.len(), pl.col("size_bytes").sum(), lasts.alias("ns")
        )
        for r in (run, back)
    ]
    device = ["kernel", "copy_h2d", "copy_d2h", "copy_d2d", "memset", "launch", "sync"]
    here, there = (
        {row[0]: row[1:] for row in f.filter(pl.col("kind").is_in(device)).iter_rows()}
        for f in of_kind
    )
    assert here == there
    seconds = [r.project(["self", "cdi-row-link"], draws=0).projections for r in (run, back)]
    assert [p[0].seconds for p in seconds] == [pytest.approx(run.seconds, abs=1e-12)] * 2
    # which call recorded or awaited an event is not in the file
    assert seconds[1][1].seconds == pytest.approx(seconds[0][1].seconds, rel=2e-3)


def test_kernels_wait_for_their_launch_and_for_their_stream(tmp_path: Path) -> None:
    nodes = written(steps(run_of(SAMPLE)), tmp_path / "run.et")
    by_id = {node["id"]: node for node in nodes}

    def behind(node: Node, seen: set[object]) -> set[object]:
        """Activities that a node depends on, through nodes of waits."""
        for dep in node["deps"]:  # type: ignore[attr-defined]
            before = by_id[dep]
            if before["attributes"].get("cat") == "wait":  # type: ignore[attr-defined]
                behind(before, seen)
            else:
                seen.add(dep)
        return seen

    kernels = [n for n in nodes if n["attributes"].get("is_cpu_op") == 0]  # type: ignore[attr-defined]
    last: dict[object, object] = {}
    for node in kernels:
        stream = node["attributes"]["stream"]  # type: ignore[index]
        found = behind(node, set())
        if stream in last:
            assert last[stream] in found
        last[stream] = node["id"]
    # work of the device holds up calls of the host: the other half of what issue 215 misses
    held = [
        n
        for n in nodes
        if {k["id"] for k in kernels} & set(n["deps"]) and n["attributes"].get("cat") == "wait"
    ]  # type: ignore
    assert held and len(kernels) > 10


@pytest.mark.hypothesis
@given(traces() | gpu_traces() | soups())
@FEWER
def test_any_run_keeps_its_time(tmp_path_factory: pytest.TempPathFactory, trace: Trace) -> None:
    run = Run.of(build(trace), source="a100-pcie-40")
    if not run.profile.activities.height:
        reject()
    seen = steps(run)
    if seen.ranks > 1:
        refused("A483", list, chakra.messages(seen))
        return
    place = tmp_path_factory.mktemp("chakra") / "run.et"
    nodes = written(seen, place)
    assert longest_ns(nodes) == run.profile.run_time_ns
    assert len(graph(place).nodes) == len(nodes)


def test_whole_microseconds_do_not_drift(tmp_path: Path) -> None:
    nodes = written(steps(run_of(SAMPLE)), tmp_path / "run.et")
    ends = [node["start"] - 1 + node.get("duration", 0) for node in nodes]  # type: ignore[operator]
    assert max(ends) == run_of(SAMPLE).profile.run_time_ns // 1000


def test_the_command_writes_what_python_writes(turnbuckle: Turnbuckle, tmp_path: Path) -> None:
    assert (
        turnbuckle("export", SAMPLE, "--to", "chakra", "--on", "cdi-row-link", "-o", "a.et").code
        == 0
    )
    run_of(SAMPLE).export(tmp_path / "b.et", "cdi-row-link", to="chakra")
    assert (tmp_path / "a.et").read_bytes() == (tmp_path / "b.et").read_bytes()
    ran = turnbuckle("project", "a.et", "--on", "self", "--draws", "0", "--format", "csv")
    assert ran.code == 2 and ran.err.startswith("error[P096]") and "cdi-row-link" in ran.err, (
        "predictions are no recording"
    )
    assert turnbuckle("export", SAMPLE, "--to", "chakra", "-o", "c.et").code == 0
    ran = turnbuckle("project", "c.et", "--on", "self", "--draws", "0", "--format", "csv")
    assert ran.code == 0, ran.err


def test_several_ranks_are_refused() -> None:
    sides = (
        call(0, "Recv", 100, 620, partner=1, tag=3, size_bytes=8),
        call(1, "Send", 500, 560, partner=0, tag=3, size_bytes=8),
    )
    refused(
        "A483", Run.of(build(recorded(*sides)), source="a100-pcie-40").export, "run.et", to="chakra"
    )


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**63 - 1, -1])
def test_numbers_are_read_back(value: int) -> None:
    data = wire.varint(value)
    assert wire_reader.varint(data, 0) == (value % 2**64, len(data))
    assert list(
        wire_reader.fields(wire.text(2, "ab") + wire.packed(5, [1, 300]) + wire.number(7, 9))
    ) == [
        (2, 2, b"ab"),
        (5, 2, b"\x01\xac\x02"),
        (7, 0, 9),
    ]
