"""Execution traces of Chakra and PyTorch: read to their counts, held against the profile of the
same run, refused without times.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.foundation.errors import CannotAnswer, TurnbuckleError
from turnbuckle.profile.profile import build
from turnbuckle.projection.run import Run
from turnbuckle.questions.inspect.graph import inspect, without_times
from turnbuckle.trace.readers import kineto
from turnbuckle.trace.readers.chakra import json as chakra_json
from turnbuckle.trace.readers.chakra import reader as chakra
from turnbuckle.trace.readers.chakra import wire as chakra_wire
from turnbuckle.trace.readers.chakra.graph import COLLECTIVE, COPY, KERNEL, OPERATOR, RECEIVE, SEND

plain = settings(max_examples=60)

# --- protobuf, written by hand --------------------------------------------------------------------


def varint(number: int) -> bytes:
    out = b""
    while True:
        byte, number = number & 127, number >> 7
        if not number:
            return out + bytes([byte])
        out += bytes([byte | 128])


def field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    held = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(held)) + held


def message(body: bytes) -> bytes:
    return varint(len(body)) + body


HEAD = message(
    field(2, field(1, "schema") + field(29, "1.0.1")) + field(2, field(1, "pid") + field(13, 4000))
)
TENSOR = "[[4, 5, 0, 64, 4, 'cuda:0']]"


def node(
    id: int,
    name: str,
    *,
    kind: int = 4,
    host: bool | None = True,
    start: int = 0,
    took: int = 0,
    waits: tuple[int, ...] = (),
    parent: int | None = None,
    outputs: str = "",
    **said: int | str,
) -> bytes:
    """One ``Node``; numbers in `said` are int64 attributes, texts are strings."""
    body = field(1, id) + field(2, name) + field(3, kind)
    body += field(4, varint(parent)) if parent is not None else b""
    body += field(5, b"".join(map(varint, waits))) if waits else b""
    body += field(6, start) if start else b""
    body += field(7, took) if took else b""
    body += field(9, field(1, outputs)) if outputs else b""
    if host is not None:
        body += field(10, field(1, "is_cpu_op") + field(27, int(host)))
    for key, value in said.items():
        body += field(10, field(1, key) + field(29 if isinstance(value, str) else 9, value))
    return message(body)


def run(turns: int = 20, *, timed: bool = True, gap: int = 100) -> bytes:
    """An operator, its kernel and its copy, again and again."""
    out = HEAD
    for k in range(turns):
        at, id = (1000 + gap * k if timed else 0), 3 * k + 1
        out += node(id, "aten::copy_(0)", start=at, took=20, tid=1)
        out += node(
            id + 1, "sgemm", host=False, start=at and at + 10, took=30, waits=(id,), stream=7
        )
        copied = "Memcpy HtoD (Pinned -> Device)"
        out += node(
            id + 2,
            copied,
            host=False,
            start=at and at + 45,
            took=5,
            waits=(id,),
            outputs=TENSOR,
            stream=7,
        )
    return out


@pytest.fixture
def written(tmp_path: Path) -> Any:
    def write(content: bytes | str, name: str = "run.et") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def head(path: Path) -> bytes:
    place = (kineto.archive(path) or (path, ""))[0]
    return place.read_bytes()[:512]


# --- real files -----------------------------------------------------------------------------------


graph_of = cache(chakra.graph)


@pytest.mark.shared
def test_real_files_read_to_their_counts(shared: Path) -> None:
    truth = json.loads((shared / "traces/truth.json").read_text())
    seen = {name: about["files"] for name, about in _sets(truth) if name.startswith("chakra/")}
    folder = shared / "traces/chakra"
    archive = folder / "chakra_feeder_et/feeder_tests_trace.tar.gz"
    path = Path(f"{archive}::tests/data/chakra.0.et")
    assert chakra.sniff(head(path), path)
    found = graph_of(path)
    assert found.nodes.height == seen["chakra/chakra_feeder_et"]["_summary"]["nodes"] == 3664
    assert found.measured and not found.timed and found.facts["schema"] == "1.0.1"
    for file, about in [*seen["chakra/dlrm_8rank_et"].items(), *seen["chakra/resnet_et"].items()]:
        where = folder / ("dlrm_8rank_et" if "::" in file else "resnet_et")
        path = Path(f"{where}/{file}")
        assert chakra.sniff(head(path), path)
        found = graph_of(path)
        assert (found.nodes.height, found.facts["schema"]) == (about["nodes"], about["schema"])
        assert not found.measured and not found.on_device and not found.findings


def _sets(truth: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(truth, dict):
        for name, about in truth.items():
            if isinstance(about, dict) and "files" in about:
                yield name, about
            else:
                yield from _sets(about)


@pytest.mark.shared
def test_a_training_step_counts_its_bytes_in_three_ways(shared: Path) -> None:
    """Gradients and buffers are copied into buckets, reduced or sent, and counted once each: by
    copies, by collectives, by PyTorch.
    """
    found = graph_of(
        Path(
            f"{shared}/traces/chakra/chakra_feeder_et/feeder_tests_trace.tar.gz::tests/data/chakra.0.et"
        )
    )
    collectives = found.collectives()
    assert collectives == {"ALLREDUCE": (5, 102_228_128), "BROADCAST": (2, 212_904)}
    copies = found.of(COPY)
    assert copies.height == 320 and copies["size_bytes"].sum() == 102_228_128 + 212_904
    assert found.of(KERNEL).height == 889 and found.of(COLLECTIVE).height == 7
    three_steps = graph_of(shared / "traces/chakra/resnet_et/resnet_et.json.gz").collectives()
    assert three_steps == {
        name: (3 * count, 3 * size) for name, (count, size) in collectives.items()
    }


@pytest.mark.shared
def test_operators_agree_with_the_profile_of_the_same_run(shared: Path) -> None:
    """Of every kernel and copy with a call, the operators around the call are the node's parents in
    the execution trace.
    """
    traces = _members(shared / "traces/chakra/dlrm_8rank_et/dlrm_pytorch_et.tar.gz")
    profiles = _members(shared / "traces/kineto/dlrm_8rank_v100/dlrm_kineto.tar.gz")
    of_rank = {name.removeprefix("worker")[0]: text for name, text in profiles.items()}
    agree = every = matched = operators = 0
    for rank in range(8):
        graph = json.loads(traces[f"dlrm_eg_{rank}.json"])
        events = json.loads(of_rank[str(rank)])["traceEvents"]
        nodes = {n["id"]: n for n in graph["nodes"]}
        of_thread, by_thread = defaultdict(list), defaultdict(list)
        for n in sorted(nodes.values(), key=lambda n: n["rf_id"]):
            if not n["name"].startswith("[pytorch"):
                of_thread[n["tid"]].append(n)
        for e in events:
            if (
                e.get("cat") in ("cpu_op", "user_annotation")
                and e["ph"] == "X"
                and "ProfilerStep" not in e["name"]
            ):
                by_thread[e["tid"]].append(e)
        pairs: dict[int, Any] = {}
        for ours, theirs in zip(
            sorted(of_thread.values(), key=len), sorted(by_thread.values(), key=len), strict=True
        ):
            theirs.sort(key=lambda e: e["args"]["External id"])
            operators += len(ours)
            matched += sum(a["name"] == b["name"] for a, b in zip(ours, theirs, strict=True))
            pairs |= {id(b): a for a, b in zip(ours, theirs, strict=True)}
        calls = {e["args"]["correlation"]: e for e in events if e.get("cat") == "cuda_runtime"}
        for e in events:
            call = (
                calls.get(e["args"]["correlation"])
                if e.get("cat") in ("kernel", "gpu_memcpy")
                else None
            )
            if call is None:
                continue
            around = [
                o
                for o in by_thread[call["tid"]]
                if o["ts"] <= call["ts"] and call["ts"] + call["dur"] <= o["ts"] + o["dur"]
            ]
            around.sort(key=lambda o: (o["ts"], -o["dur"], o["args"]["External id"]))
            at, chain = pairs[id(around[-1])], []
            while not at["name"].startswith("[pytorch"):
                chain.insert(0, at["name"])
                at = nodes[at["parent"]]
            every += 1
            agree += chain == [o["name"] for o in around]
    assert (matched, operators) == (8 * 1672, 8 * 1672)
    assert (agree, every) == (2104, 2104)


def _members(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as opened:
        files = [(entry.name, opened.extractfile(entry)) for entry in opened if entry.isreg()]
        return {name.rpartition("/")[2]: file.read() for name, file in files if file is not None}


@pytest.mark.shared
def test_ranks_of_a_run_meet_in_as_many_collectives_as_the_profile_has(shared: Path) -> None:
    archive = f"{shared}/traces/chakra/dlrm_8rank_et/dlrm_pytorch_et.tar.gz::dlrm_pytorch_et"
    each = [graph_of(Path(f"{archive}/dlrm_eg_{rank}.json")).collectives() for rank in range(8)]
    assert {tuple((name, count) for name, (count, _) in one.items()) for one in each} == {
        (("ALLREDUCE", 3), ("ALLTOALL", 5))
    }
    assert {one["ALLREDUCE"][1] for one in each} == {4 * (394_241 + 112 + 226_960)}


# --- what becomes of a file -----------------------------------------------------------------------


def test_which_files_are_taken(written: Any, tmp_path: Path) -> None:
    for content, name in (
        (run(2), "a.et"),
        (run(2), "chakra.bin"),
        (gzip.compress(run(2)), "b.gz"),
    ):
        path = written(content, name)
        assert chakra.sniff(head(path), path), name
    text = json.dumps({"schema": "1.0.1", "pid": 1, "nodes": [{"id": 1, "name": "a", "parent": 1}]})
    chrome = json.dumps({"schemaVersion": 1, "traceEvents": []})
    for content, taken in (
        (text, True),
        (chrome, False),
        ('{"nodes": []}', False),
        ("%EventDef", False),
        ("SQLite format 3\0", False),
    ):
        path = written(content, "x.json")
        assert chakra.sniff(head(path), path) is taken, content


def test_a_graph_with_times_is_a_recording(written: Any) -> None:
    path = written(run())
    assert without_times(path) is None
    trace = chakra.read(path)
    assert (trace.kernels.height, trace.copies.height, trace.ranges.height) == (20, 20, 20)
    assert trace.kernels["start_ns"].to_list()[:2] == [10_000, 110_000] and trace.kernels[
        "device"
    ].unique().to_list() == [0]
    assert trace.copies.select("direction", "source_memory", "target_memory", "size_bytes").row(
        0
    ) == (1, 2, 3, 256)
    profile = build(trace)
    answer = Run.of(profile).project(["self"], draws=0)
    assert answer.projections[0].seconds == pytest.approx(profile.seconds, rel=1e-12)
    assert {f.code for f in answer.findings} >= {"P123", "P168"}


def test_the_first_schema_is_refused(written: Any) -> None:
    """Its nodes have their kind, time and sizes in other fields: taken for a node of today, each
    would be a lie.
    """
    old = message(
        field(1, 1) + field(2, "AR") + field(3, 6) + field(7, 5) + field(13, 1) + field(18, 4096)
    )
    assert (
        "node 2 has a field 13"
        in refused("P053", chakra.graph, written(message(b"") + node(1, "a") + old)).found
    )


def test_a_few_nodes_without_a_start_are_set_aside(written: Any) -> None:
    """Protobuf leaves a start of 0 away; of many such nodes no recording is made."""
    few = run() + node(900, "late", host=False, took=5, stream=7) + node(901, "aten::mm", took=5)
    trace = chakra.read(written(few))
    assert trace.kernels.height == 20 and {
        f.code: f.count for f in trace.findings if f.code in ("P102", "P185")
    } == {"P102": 1, "P185": 1}
    many = run() + b"".join(node(900 + k, "late", host=False, took=5, stream=7) for k in range(5))
    with pytest.raises(CannotAnswer):
        chakra.read(written(many))


def test_without_start_times_nothing_is_made_up(written: Any) -> None:
    assert (
        "durations, and no start times"
        in refused("A174", chakra.read, written(run(timed=False))).found
    )
    text = json.dumps({"schema": "1.0.1", "nodes": [{"id": 1, "name": "aten::mm", "parent": 1}]})
    assert "neither" in refused("A174", chakra.read, written(text, "a.json")).found


def test_times_of_launches_are_not_taken_for_the_devices(written: Any) -> None:
    """Chakra's linker writes down when a kernel was launched: on a busy stream these lie inside the
    kernels before.
    """
    nodes = [
        {
            "id": k + 1,
            "name": "k",
            "ctrl_deps": 1,
            "cat": "kernel",
            "ts": 100.0 + 5 * k,
            "inclusive_dur": 50.0,
            "stream": 7,
            "attrs": [],
        }
        for k in range(20)
    ]
    path = written(json.dumps({"schema": "1.1.1-chakra.0.0.4", "nodes": nodes}), "linked.json")
    assert "95%" in refused("A175", chakra.read, path).found
    for k, n in enumerate(nodes):
        n["ts"] = 100.0 + 50.25 * k
    assert (
        chakra.read(written(json.dumps({"schema": "1.1.1-chakra.0.0.4", "nodes": nodes}))).kernels[
            "end_ns"
        ][0]
        == 50_000
    )


def test_communications_have_a_name_a_size_and_a_group(written: Any) -> None:
    nodes = node(1, "c10d::allreduce_(0)", kind=7)
    nodes += node(
        2,
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)",
        kind=7,
        host=False,
        comm_type=0,
        comm_size=4096,
        pg_name="0",
        stream=20,
    )
    nodes += node(3, "send", kind=5, host=False, comm_size=8) + node(
        4, "recv", kind=6, host=False, comm_size=8
    )
    nodes += node(5, "my own", kind=7, host=False, comm_type=77)
    found = chakra.graph(written(HEAD + nodes))
    assert found.collectives() == {
        "ALLREDUCE": (1, 4096),
        "SEND": (1, 8),
        "RECV": (1, 8),
        "(unknown)": (1, None),
    }
    assert found.groups() == 1
    assert [found.of(k).height for k in (OPERATOR, COLLECTIVE, SEND, RECEIVE)] == [1, 2, 1, 1]


def test_a_graph_that_says_not_where_its_nodes_ran_counts_no_kernels(
    written: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """As generators of synthetic traces write them."""
    path = written(
        message(b"")
        + node(1, "COMP", host=None, took=5)
        + node(2, "AR", kind=7, host=None, comm_type=0, comm_size=8, waits=(1,))
    )
    found = without_times(path)
    assert found is not None and not found.on_device
    inspect(path, "json", None, {})
    said = json.loads(capsys.readouterr().out)["profile"]
    assert (
        said["kernels"] is None
        and said["copies"] is None
        and said["graph"]["collectives"] == {"ALLREDUCE": 1}
    )
    assert said["graph"]["longest_path_ns"] == 5_000


def test_loose_ends_doubles_and_circles_are_findings(
    written: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = (
        node(1, "a", took=1, waits=(3,))
        + node(2, "b", took=1, waits=(1, 9), parent=8)
        + node(3, "c", took=1, waits=(2,))
        + node(3, "d")
    )
    path = written(HEAD + nodes)
    found = without_times(path)
    assert found is not None
    assert {f.detail: f.count for f in found.findings} == {
        "on nodes that are not in the file": 2,
        "ids that occur twice": 1,
    }
    inspect(path, "json", None, {})
    said = json.loads(capsys.readouterr().out)
    assert said["profile"]["graph"]["longest_path_ns"] is None
    assert [f["count"] for f in said["findings"] if f["code"] == "P184"] == [4]
    inspect(path, "table", None, {})
    assert "circle" in capsys.readouterr().out


def test_inspect_has_the_keys_of_a_recording(
    written: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(run(timed=False))
    found = without_times(path)
    assert found is not None
    inspect(path, "json", None, {"--minus": None})
    ours = json.loads(capsys.readouterr().out)
    other = Run.of(build(chakra.read(written(run(), "timed.et")))).as_dict()
    assert set(ours) == set(other) and set(ours["provenance"]) == set(other["provenance"])
    assert set(other["profile"]) <= set(ours["profile"]) | {"part"} and set(ours["profile"]) - set(
        other["profile"]
    ) == {"graph"}
    profile = ours["profile"]
    assert profile["kernels"] == {
        "count": 20,
        "busy_ns": 600_000,
        "union_ns": None,
        "graph_launches": None,
        "in_graphs": None,
    }
    assert profile["copies"]["h2d"] == {"count": 20, "bytes": 5120, "busy_ns": 100_000}
    assert (
        profile["graph"]["nodes"] == 60
        and profile["graph"]["edges"] == profile["graph"]["data_edges"] == 40
    )
    assert profile["graph"]["operators"]["most"] == [{"name": "aten::copy_", "count": 20}]
    assert (
        profile["graph"]["work_ns"] == 20 * 55_000 and profile["graph"]["longest_path_ns"] == 50_000
    )
    inspect(path, "table", None, {})
    out = " ".join(capsys.readouterr().out.split())
    assert (
        "60 nodes, 40 data dependencies" in out
        and "20 h2d" in out
        and "durations, no start times" in out
    )
    inspect(path, "csv", None, {})
    assert "graph.nodes" in capsys.readouterr().out
    refused("A077", inspect, path, "table", None, {"--minus": Path("x")})


def test_names_do_not_steer_the_terminal(written: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(
        HEAD
        + node(1, "x", kind=7, host=False, comm_type=99, comm_size=1, pg_name="\x1b]0;owned\x07")
        + node(2, "\x1b[2J")
    )
    found = without_times(path)
    assert found is not None
    for form in ("table", "json", "csv"):
        inspect(path, form, None, {})
        assert "\x1b]" not in (out := capsys.readouterr().out) and "\x1b[2J" not in out


# --- JSON -----------------------------------------------------------------------------------------

TEXT = json.dumps(
    {
        "schema": "1.1.0-chakra.0.0.4",
        "pid": 12,
        "nodes": [
            {
                "id": 1,
                "name": "[pytorch|profiler|execution_trace|process]",
                "ctrl_deps": 1,
                "attrs": [],
            },
            {
                "id": 2,
                "name": 'a "quoted" ü \\ name',
                "ctrl_deps": 1,
                "attrs": [{"name": "rf_id", "value": 7}, {"name": "tid", "value": 3}],
            },
            {
                "id": 3,
                "name": "record_param_comms",
                "ctrl_deps": 2,
                "inputs": {"values": [[[9, 8, 0, 10, 4, "cuda:0"]], 1, "allreduce"]},
                "attrs": [
                    {"name": "collective_name", "value": "allreduce"},
                    {"name": "dtype", "value": "Long"},
                    {"name": "in_msg_nelems", "value": 10},
                    {"name": "pg_name", "value": "0"},
                ],
            },
            {
                "id": 4,
                "name": "record_param_comms",
                "ctrl_deps": 2,
                "attrs": [{"name": "collective_name", "value": "wait"}],
            },
        ],
        "finish_ts": 99.5,
    },
    indent=1,
)


@plain
@given(st.lists(st.integers(1, len(TEXT.encode()) - 1), max_size=12))
def test_json_in_any_pieces_is_the_same(at: list[int]) -> None:
    raw = TEXT.encode()
    cuts = [0, *sorted(at), len(raw)]
    document = chakra_json.Document(iter([raw[a:b] for a, b in pairwise(cuts)]))
    assert list(document) == json.loads(TEXT)["nodes"]
    assert (
        document.facts == {"schema": "1.1.0-chakra.0.0.4", "pid": 12, "finish_ts": 99.5}
        and not document.cut
    )


def test_json_becomes_nodes(written: Any) -> None:
    found = chakra.graph(written(TEXT, "a.json"))
    assert found.nodes.height == 4 and found.control == 3
    assert found.collectives() == {"ALLREDUCE": (1, 80)} and found.groups() == 1
    assert found.nodes.filter(pl.col("rf") == 7)["thread"].to_list() == [3]
    assert found.operators() == Counter({'a "quoted" ü \\ name': 1, "record_param_comms": 1})


def test_json_that_is_cut_is_read_to_its_last_node(written: Any) -> None:
    raw = TEXT.encode()
    counts = set()
    for end in range(raw.index(b'"id": 2'), len(raw) - 2, 7):
        found = chakra.graph(written(raw[:end], "a.json"))
        assert [f.code for f in found.findings] == ["P163"]
        counts.add(found.nodes.height)
    assert counts == {1, 2, 3, 4}


def test_strange_json_is_counted_or_refused(written: Any) -> None:
    strange = (
        '{"schema": "1.0.1", "nodes": [{"id": 1, "name": "a"}, 7, {"id": -1, "name": "b"}, '
        '{"id": 2}, {"id": 3, "name": "c", "ts": "x"}]}'
    )
    found = chakra.graph(written(strange, "a.json"))
    assert found.nodes.height == 2 and [(f.code, f.count) for f in found.findings] == [("P162", 3)]
    found = chakra.graph(
        written(b'{"schema": "1", "nodes": [{"id": 1, "name": "a\xff"}]}', "a.json")
    )
    assert [f.code for f in found.findings] == ["P107"]
    # JSON may spell half of a letter, and sizes whose sum no 64 bits hold
    found = chakra.graph(
        written('{"schema": "1", "nodes": [{"id": 1, "name": "a\\ud800"}]}', "a.json")
    )
    assert [(f.code, f.count) for f in found.findings] == [
        ("P107", 1)
    ] and found.names.to_list() == ["a?"]
    said = {"collective_name": "allreduce", "in_msg_nelems": 1 << 57, "dtype": "Float"}
    attributes = [{"name": name, "value": value} for name, value in said.items()]
    nodes = [{"id": i, "name": "record_param_comms", "attrs": attributes} for i in range(40)]
    found = chakra.graph(written(json.dumps({"schema": "1", "nodes": nodes}), "a.json"))
    assert found.collectives() == {"ALLREDUCE": (40, 40 << 59)}
    for text in (
        (
            '{"schema": "1", "nodes": [{"id": 1 "name": 2}, {"id": 2, "name": "b"}, {"id": 3, '
            '"name": "c"}]}'
        ),
        "{1: 2}",
        '{"a": ' + "[" * 5000,
    ):
        refused("P051", chakra.graph, written(text, "a.json"))
    for text in ('{"schema": "1.0.1", "nodes": []}', '{"schema": "1.0.1"}'):
        refused("P052", chakra.graph, written(text, "a.json"))


# --- broken files ---------------------------------------------------------------------------------


@plain
@given(st.integers(0, 2**64 - 1), st.binary(max_size=4))
def test_numbers_come_back(number: int, behind: bytes) -> None:
    assert chakra_wire.varint(varint(number) + behind, 0) == (number, len(varint(number)))


def test_attributes_of_every_kind() -> None:
    for raw, value in (
        (field(9, (1 << 64) - 5), -5),
        (field(13, 5), 5),
        (field(15, 9), -5),
        (field(27, 1), 1),
        (field(29, "x"), "x"),
        (varint(3 << 3 | 1) + b"\0\0\0\0\0\0\xf8?", 1.5),
        (varint(5 << 3 | 5) + b"\0\0\xc0?", 1.5),
        (field(28, b"\x01"), None),
    ):
        assert chakra_wire.attribute(field(1, "a") + raw) == ("a", value)
    for raw in (
        field(9, "x"),
        varint(3 << 3 | 5) + b"\0\0\xc0?",
        field(1, 5),
        b"\x0b",
        b"\x00\x00",
        b"\xff" * 12,
        b"\x0a\x05ab",
    ):
        with pytest.raises(chakra_wire.Wrong):
            chakra_wire.attribute(raw)
    assert chakra_wire.numbers(2, b"\x01\xac\x02") == [1, 300] and chakra_wire.numbers(0, 4) == [4]
    with pytest.raises(chakra_wire.Wrong):
        chakra_wire.numbers(1, b"")


@plain
@given(st.lists(st.binary(max_size=300), max_size=8), st.integers(1, 64))
def test_messages_in_any_pieces_are_the_same(bodies: list[bytes], size: int) -> None:
    raw = b"".join(map(message, bodies))
    held = chakra_wire.Messages(iter([raw[i : i + size] for i in range(0, len(raw), size)]))
    assert list(held) == bodies and not held.cut


def test_a_cut_file_is_read_to_its_last_node(written: Any) -> None:
    raw = run(3, timed=False)
    found = chakra.graph(written(raw[:-4]))
    assert found.nodes.height == 8 and [f.code for f in found.findings] == ["P163"]
    refused("P051", chakra.graph, written(raw[: len(HEAD) + 3]))
    refused("P052", chakra.graph, written(HEAD))
    assert "bytes" in refused("P051", chakra.graph, written(HEAD + varint(1 << 40) + b"x")).found


@settings(plain, max_examples=120)
@given(st.data())
def test_spoilt_bytes_give_a_coded_answer(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    raw = bytearray(
        data.draw(st.sampled_from([run(3), TEXT.encode(), gzip.compress(TEXT.encode())]))
    )
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "spoilt.et"
    path.write_bytes(bytes(raw[: data.draw(st.integers(1, len(raw)))]))
    try:
        chakra.sniff(head(path), path)
        trace = chakra.read(path)
    except TurnbuckleError as error:
        assert error.code in ("P025", "P026", "P029", "P051", "P052", "P053", "A174", "A175")
    else:
        build(trace)


def packed(path: Path, entries: dict[str, bytes]) -> Path:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as opened:
        for name, content in entries.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            opened.addfile(entry, io.BytesIO(content))
    path.write_bytes(gzip.compress(held.getvalue()))
    return path


def test_members_of_archives(tmp_path: Path) -> None:
    path = packed(
        tmp_path / "runs.tar.gz", {"a/one.et": run(1, timed=False), "a/two.json": TEXT.encode()}
    )
    assert chakra.graph(Path(f"{path}::a/one.et")).nodes.height == 3
    two = Path(f"{path}::a/two.json")
    assert chakra.sniff(head(two), two) and chakra.graph(two).nodes.height == 4
    assert "a/two.json" in refused("P037", chakra.graph, Path(f"{path}::a/tow.json")).fix
    bomb = tarfile.TarInfo("bomb.et")
    bomb.size = 1 << 40
    (tmp_path / "bomb.tar.gz").write_bytes(gzip.compress(bomb.tobuf()))
    refused("P026", chakra.graph, Path(f"{tmp_path}/bomb.tar.gz::bomb.et"))
    path.write_bytes(path.read_bytes()[:60])
    refused("P025", chakra.graph, two)
    assert not chakra.sniff(head(two), two)


def test_a_hole_in_the_file_is_damage_and_not_nodes_without_end(written: Any) -> None:
    path = written(run())
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + 5)
    assert "a node of 0 bytes" in refused("P051", chakra.graph, path).found
    # metadata that says nothing is a message without bytes
    assert chakra.graph(written(message(b"") + run()[len(HEAD) :])).nodes.height == 60


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_the_first_nul_ends_it(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "et.json"
    begin = TEXT.encode()[: TEXT.index('"nodes"') + 40]
    path.write_bytes(pack(begin + b"\0" * 9))
    if pack is bytes:
        os.truncate(path, 1 << 40)  # nobody could read this to its end
    assert f"behind {len(begin)} bytes" in refused("P029", chakra.graph, path).found
