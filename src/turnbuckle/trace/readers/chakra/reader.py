"""Reader of execution traces of MLCommons Chakra (protobuf) and of PyTorch (JSON): operators,
device work and their dependencies.

Most execution traces have no start times.  They are an execution graph (`graph`), and no recording
of a run.  Where the device's nodes have starts and durations, `read` makes a `Trace` of them.  Text
of tensors, schemas and paths beside the nodes is not kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from turnbuckle.foundation.errors import TurnbuckleError, error_of
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.trace.ids import id_of, thread_number
from turnbuckle.trace.readers.chakra import graph as nodes
from turnbuckle.trace.readers.chakra import json as chakra_json
from turnbuckle.trace.readers.chakra import wire as chakra_wire
from turnbuckle.trace.readers.chakra.files import beginning, digest, pieces
from turnbuckle.trace.readers.parts.packed_text import json_text, packed
from turnbuckle.trace.trace import Trace, completed

CACHED: Final = False
#: Kinds by Chakra's ``NodeType``, for nodes whose place (host or device) the file does not state.
_TYPES: Final = {
    1: nodes.METADATA,
    2: nodes.MEMORY,
    3: nodes.MEMORY,
    4: nodes.OPERATOR,
    5: nodes.SEND,
    6: nodes.RECEIVE,
    7: nodes.COLLECTIVE,
} | dict.fromkeys((8, 9, 10), nodes.OTHER)
#: Operations of collectives by Chakra's ``CollectiveCommType``.
_FIRST_SEVEN: Final = (
    "ALLREDUCE",
    "REDUCE",
    "ALLGATHER",
    "GATHER",
    "SCATTER",
    "BROADCAST",
    "ALLTOALL",
)
COLLECTIVES: Final = (*_FIRST_SEVEN, "REDUCESCATTER", "REDUCESCATTER", "BARRIER")
_SCHEMA: Final = re.compile(rb'"schema"\s*:\s*"\d')
_NODES: Final = re.compile(rb'"nodes"\s*:\s*\[')
#: Bytes of an element, by PyTorch's name of its type.
_ELEMENT: Final = (
    dict.fromkeys(("byte", "char", "bool", "float8"), 1)
    | dict.fromkeys(("half", "bfloat16", "short"), 2)
    | {"int": 4, "float": 4, "long": 8, "double": 8, "complexfloat": 8, "complexdouble": 16}
)
_CATEGORIES: Final = {"kernel": nodes.KERNEL, "gpu_memcpy": nodes.COPY, "gpu_memset": nodes.MEMSET}
#: Categories of host nodes that are calls, of a file that Turnbuckle wrote.
CALLS: Final = ("cuda_runtime", "mpi")
_ROOTS: Final = ("[pytorch|profiler|", "## process_group:")
#: Largest share of device nodes that begin before their predecessor on the stream ends; with more,
#: the starts are those of launches.
MOST_OVERLAPPING: Final = 0.1
#: The last field of a ``Node``.
_LAST_FIELD: Final = 11
#: How the writer of a file that Turnbuckle wrote begins, and the attribute that names what its
#: times are projected for.
WRITER: Final = "turnbuckle "
PROJECTED_ON: Final = "projected_on"
#: Attribute of a protobuf node that states whether it ran on the host.
_WHERE: Final = "is_cpu_op"


def sniff(head: bytes, path: Path) -> bool:
    """Return whether the file, or the named member of an archive, is an execution trace."""
    text = beginning(path) if packed(head) or "::" in str(path) else head
    start = text.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"{"):
        text = text if len(text) > 512 else beginning(path)
        return bool(_SCHEMA.search(text) and (_NODES.search(text) and b'"traceEvents"' not in text))
    return path.name.endswith(".et") or _metadata(text)


def _metadata(head: bytes) -> bool:
    """Return whether a file begins with Chakra's metadata: a length, then texts and attributes."""
    try:
        length, begin = chakra_wire.varint(head, 0)
        first = head[begin : begin + length]
        if not 4 < length == len(first):
            return False
        keys = {"schema", "pid", "time", "start_ts", "finish_ts", "version"}
        values = [(field, value) for field, kind, value in chakra_wire.fields(first) if kind == 2]
        named = any(
            chakra_wire.attribute(value)[0] in keys
            for field, value in values
            if field == 2 or (field == 1 and value[:1] == b"\n")
        )
        return named or bool(
            values
            and values[0][0] == 1
            and re.fullmatch(rb"v?\d+(\.\d+){1,3}[\w.-]{0,20}", values[0][1])
        )
    except chakra_wire.Wrong:
        return False


def graph(path: Path, *, progress: Callable[[float], object] | None = None) -> nodes.ExecutionGraph:
    """Read an execution trace; of an archive ``ARCHIVE::MEMBER``.

    Raises P029 a NUL byte in the text of JSON, P051 the file is damaged, P052 it holds no nodes,
    P053 it has another schema, P025, P026 and P037 as every packed file.
    """
    head = beginning(path, 64).lstrip(b"\xef\xbb\xbf \t\r\n")
    result = _json(path, progress) if head.startswith(b"{") else _wire(path, progress)
    result.facts["sha256"], result.facts["size_bytes"] = digest(path)
    if not result.nodes.height:
        raise error_of(
            "P052",
            where=str(path),
            found=f"{result.facts['size_bytes']} bytes, none of them a node",
        )
    return result


def read(
    path: Path, *, threads: int = 0, progress: Callable[[float], object] | None = None
) -> Trace:
    """Read an execution trace with start times as a recording.

    Raises as `graph` does; A174 nodes have no start times; A175 the device's starts are those of
    launches.
    """
    del threads
    execution_graph = graph(path, progress=progress)
    if not execution_graph.timed:
        times = (
            "durations, and no start times"
            if execution_graph.measured
            else "neither start times nor durations"
        )
        raise error_of(
            "A174",
            where=path.name,
            found=f"an execution trace whose nodes have {times}",
            name=path.name,
        )
    share = overlapping(execution_graph)
    if share > MOST_OVERLAPPING and not execution_graph.exact:
        raise error_of(
            "A175",
            where=path.name,
            found=(
                f"{share:.0%} of the device nodes begin before the one before them on their "
                "stream has ended"
            ),
        )
    return _trace(execution_graph, path)


# --- protobuf -------------------------------------------------------------------------------------


def _wire(path: Path, progress: Callable[[float], object] | None) -> nodes.ExecutionGraph:
    builder, messages, number = (
        nodes.Builder("chakra"),
        chakra_wire.Messages(pieces(path, progress)),
        0,
    )
    facts: dict[str, Any] = {"schema": None}
    places_stated = False
    try:
        for number, message in enumerate(messages):
            if number == 0:
                facts |= _about(message, path)
                continue
            if not message:
                # metadata may be empty, a node is not: a hole in the file would be nodes without
                # end
                raise chakra_wire.Wrong("a node of 0 bytes")
            places_stated |= _node(builder, message)
    except _Older as error:
        raise error_of(
            "P053", where=str(path), found=f"node {number} has a field {error}"
        ) from None
    except chakra_wire.Wrong as error:
        raise _damaged(path, f"message {number + 1}, after byte {messages.at}: {error}") from None
    findings = [finding("P163", 1, "inside a node")] if messages.cut else []
    if messages.cut and not len(builder):
        raise _damaged(path, "it ends inside its first node")
    _flaws(builder, findings)
    return builder.graph(
        places_stated and any(k in nodes.DEVICE for k in set(builder.columns["kind"])),
        facts,
        findings,
    )


class _Older(Exception):
    """Field of a node that the schema does not have, by its number."""


def _about(message: bytes, path: Path) -> dict[str, Any]:
    """Return the schema and the writer that the metadata name, in either layout.  Raises P096 for
    times that are projected.
    """
    about: dict[str, str] = {}
    for field, kind, value in chakra_wire.fields(message):
        if kind != 2:
            continue
        if field == 1 and value[:1] != b"\n":
            about.setdefault("version", _printable(chakra_wire.text(kind, value)))
        elif field in (1, 2):
            name, attribute = chakra_wire.attribute(value)
            if isinstance(attribute, str):
                about.setdefault(name, _printable(attribute))
    if PROJECTED_ON in about:
        raise error_of("P096", where=str(path), found=f"projected on {about[PROJECTED_ON]}")
    writer = about.get("writer", "")
    own = writer if writer.startswith(WRITER) else None
    return {"schema": about.get("schema") or about.get("version"), "writer": own}


def _node(builder: nodes.Builder, message: bytes) -> bool:
    """Add one ``Node``, and return whether it states where it ran."""
    id = kind = start = duration = 0
    name, inputs, outputs = "", "", ""
    parents: list[int] = []
    waits: list[int] = []
    attributes: dict[str, Any] = {}
    for field, wire, value in chakra_wire.fields(message):
        if field == 1:
            id = chakra_wire.whole(wire, value)
        elif field == 2:
            name = chakra_wire.text(wire, value)
        elif field == 3:
            kind = chakra_wire.whole(wire, value)
        elif field == 4:
            parents += chakra_wire.numbers(wire, value)
        elif field == 5:
            waits += chakra_wire.numbers(wire, value)
        elif field == 6:
            start = chakra_wire.whole(wire, value)
        elif field == 7:
            duration = chakra_wire.whole(wire, value)
        elif field in (8, 9) and wire == 2:
            # the first field holds the tensors
            tensors = next(
                (chakra_wire.text(w, v) for f, w, v in chakra_wire.fields(value) if f == 1), ""
            )
            inputs, outputs = (tensors, outputs) if field == 8 else (inputs, tensors)
        elif field == 10 and wire == 2:
            attribute, attribute_value = chakra_wire.attribute(value)
            attributes[attribute] = attribute_value
        elif field > _LAST_FIELD:
            raise _Older(str(field))
    host = attributes.get(_WHERE)
    sort = _sort(kind, name, host)
    builder.flaws["kinds"] += kind not in _TYPES and kind != 0
    builder.flaws["parents"] += max(len(parents) - 1, 0)
    values = {
        "kind": sort,
        "name": builder.text(name),
        "thread": _whole(attributes.get("tid")),
        "rf": _whole(attributes.get("rf_id")),
    }
    values |= {
        "start_ns": nodes.microseconds(start) if start else nodes.MISSING,
        "duration_ns": nodes.microseconds(duration),
    }
    if host is not None and not host and sort in nodes.DEVICE:
        values["stream"] = _whole(attributes.get("stream", attributes.get("tid")))
        values["device"] = nodes.tensor_device(outputs, inputs)
    if sort == nodes.COPY:
        values["size_bytes"] = nodes.tensor_bytes(outputs, inputs)
    elif sort in (nodes.COLLECTIVE, nodes.SEND, nodes.RECEIVE):
        values |= _communication(builder, sort, name, attributes)
    elif sort == nodes.MEMORY:
        values["size_bytes"] = _whole(attributes.get("tensor_size"))
    if "activity_ns" in attributes or attributes.get("cat") == "wait":
        values |= _exact(attributes, sort)
    builder.add(id, parents[0] if parents else None, waits, **values)
    return host is not None


def _exact(attributes: dict[str, Any], sort: int) -> dict[str, int]:
    """Return what Turnbuckle adds to the nodes that it writes: nanoseconds, the call behind device
    work, and bytes.
    """
    values = {
        name: _whole(attributes.get(name))
        for name in ("duration_ns", "activity_start_ns", "activity_ns", "correlation")
    }
    if sort in nodes.DEVICE:
        values["device"] = _whole(attributes.get("device"))
        values |= (
            {"size_bytes": _whole(attributes.get("bytes"))}
            if sort in (nodes.COPY, nodes.MEMSET)
            else {}
        )
    elif attributes.get("cat") in CALLS:
        values["call"] = CALLS.index(attributes["cat"])
    return values


def _sort(kind: int, name: str, host: Any) -> int:
    """Return the kind of a node; the host's call for a communication is an operator, since the
    device has a node for the communication.
    """
    sort = _TYPES.get(kind, nodes.METADATA if kind == 0 else nodes.OTHER)
    if host is None:
        return sort
    if host:
        return nodes.OPERATOR if sort in (nodes.COLLECTIVE, nodes.SEND, nodes.RECEIVE) else sort
    return nodes.device_kind(name) if sort == nodes.OPERATOR else sort


def _communication(
    builder: nodes.Builder, sort: int, name: str, attributes: dict[str, Any]
) -> dict[str, int]:
    code = attributes.get("comm_type")
    by_code = (
        COLLECTIVES[code]
        if isinstance(code, int) and 0 <= code < len(COLLECTIVES) and sort == nodes.COLLECTIVE
        else ""
    )
    does = (
        {nodes.SEND: "SEND", nodes.RECEIVE: "RECV"}.get(sort)
        or by_code
        or nodes.operation(name)
        or "(unknown)"
    )
    group = attributes.get("pg_name")
    return {
        "does": builder.text(does),
        "size_bytes": _whole(attributes.get("comm_size")),
        "group": builder.text(group) if isinstance(group, str) and group else nodes.MISSING,
    }


# --- JSON -----------------------------------------------------------------------------------------


def _json(path: Path, progress: Callable[[float], object] | None) -> nodes.ExecutionGraph:
    builder, document = (
        nodes.Builder("pytorch-et"),
        chakra_json.Document(json_text(pieces(path, progress), path)),
    )
    try:
        for node in document:
            if isinstance(node, dict):
                _object(builder, node)
            else:
                builder.flaws["broken"] += 1
    except chakra_json.Wrong as error:
        raise _damaged(path, f"after {len(builder)} nodes: {error}") from None
    if document.cut and not len(builder):
        raise _damaged(path, "it ends before its first node does")
    findings = [finding("P163", 1, "inside the list of nodes")] if document.cut else []
    if replaced := document.replaced + builder.flaws["letters"]:
        findings.append(finding("P107", replaced, "letters of names"))
    _flaws(builder, findings)
    schema = document.facts.get("schema")
    return builder.graph(
        any(k in (nodes.KERNEL, nodes.COPY, nodes.MEMSET) for k in set(builder.columns["kind"])),
        {"schema": _printable(schema) if isinstance(schema, str) else None},
        findings,
    )


def _object(builder: nodes.Builder, node: dict[str, Any]) -> None:
    """Add one node of PyTorch, of schema 1.0 (everything beside the name) or of 1.1 (a list of
    attributes).
    """
    id, name, listed = node.get("id"), node.get("name"), node.get("attrs")
    if (
        not isinstance(id, int)
        or isinstance(id, bool)
        or not 0 <= id < 1 << 64
        or not isinstance(name, str)
    ):
        builder.flaws["broken"] += 1
        return
    attributes: dict[str, Any] = (
        {str(a.get("name")): a.get("value") for a in listed if isinstance(a, dict)}
        if isinstance(listed, list)
        else node
    )
    parent = node.get("ctrl_deps", node.get("parent"))
    parent = (
        parent
        if isinstance(parent, int) and not isinstance(parent, bool) and 0 <= parent < 1 << 64
        else None
    )
    category = node.get("cat")
    sort = (
        _CATEGORIES.get(category, nodes.OPERATOR) if isinstance(category, str) else nodes.OPERATOR
    )
    sort = (
        nodes.COLLECTIVE
        if sort == nodes.KERNEL and nodes.device_kind(name) == nodes.COLLECTIVE
        else sort
    )
    values = {
        "kind": sort,
        "name": builder.text(name[:4096]),
        "rf": _whole(attributes.get("rf_id")),
        "thread": _whole(attributes.get("tid")),
    }
    values |= {
        "start_ns": nodes.microseconds(node.get("ts")),
        "duration_ns": nodes.microseconds(node.get("inclusive_dur")),
    }
    if sort in nodes.DEVICE:
        inputs, outputs = (_tensors(node.get(side)) for side in ("inputs", "outputs"))
        values |= {
            "stream": _whole(node.get("stream")),
            "device": nodes.tensor_device(outputs, inputs),
        }
        if sort == nodes.COPY:
            values["size_bytes"] = nodes.tensor_bytes(outputs, inputs)
    if name.startswith(_ROOTS):
        values["kind"] = nodes.METADATA
    elif sort == nodes.COLLECTIVE or name == "record_param_comms":
        called = _called(builder, name, node, attributes)
        if sort == nodes.COLLECTIVE or called:
            values |= (
                {"kind": nodes.COLLECTIVE, **called}
                if sort == nodes.COLLECTIVE or not isinstance(category, str)
                else called
            )
    builder.add(id, parent, [], **values)


def _called(
    builder: nodes.Builder, name: str, node: dict[str, Any], attributes: dict[str, Any]
) -> dict[str, int]:
    """Return the operation of a communication and the bytes that it is given; nothing for waits."""
    inputs = node.get("inputs")
    values = inputs.get("values") if isinstance(inputs, dict) else inputs
    words = [w for w in values if isinstance(w, str)] if isinstance(values, list) else []
    called = attributes.get("collective_name")
    called = (
        called
        if isinstance(called, str) and called
        else next((w for w in words if nodes.operation(w)), "")
    )
    does = nodes.operation(called) or nodes.operation(name)
    if not does:
        return {}
    elements, kind = attributes.get("in_msg_nelems"), attributes.get("dtype")
    each = (
        _ELEMENT.get(kind.lower().replace(" ", "").replace("longint", "long"))
        if isinstance(kind, str)
        else None
    )
    size = nodes.tensor_bytes(_tensors(inputs))
    if isinstance(elements, int) and each and 0 <= elements < nodes.LARGEST // 16:
        size = elements * each
    group = attributes.get("pg_name")
    return {
        "does": builder.text(does),
        "size_bytes": size,
        "group": builder.text(group) if isinstance(group, str) and group else nodes.MISSING,
    }


def _tensors(values: Any) -> str:
    """Return the first inputs or outputs as text, in which tensors can be searched."""
    tensors = values.get("values") if isinstance(values, dict) else values
    try:
        return json.dumps(tensors[:64] if isinstance(tensors, list) else tensors)[: 1 << 16]
    except (TypeError, ValueError, RecursionError):
        return ""


# --- both -----------------------------------------------------------------------------------------


def _whole(value: Any) -> int:
    return (
        value
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < nodes.LARGEST
        else nodes.MISSING
    )


def _printable(text: str) -> str:
    return "".join(c for c in text if c.isprintable())[:40]


def _flaws(builder: nodes.Builder, findings: list[Finding]) -> None:
    for code, key, what in (
        ("P162", "broken", "nodes without an id or a name"),
        ("P143", "kinds", "nodes of types beyond the schema"),
        ("P184", "parents", "further control dependencies of one node; the first is kept"),
    ):
        if builder.flaws[key]:
            findings.append(finding(code, builder.flaws[key], what))


def _damaged(path: Path, evidence: str) -> TurnbuckleError:
    return error_of("P051", where=str(path), found=evidence)


def overlapping(execution_graph: nodes.ExecutionGraph) -> float:
    """Return the share of device nodes that begin before the one before them on their stream has
    ended.
    """
    rows = (
        execution_graph.of(*nodes.DEVICE)
        .filter(pl.col("stream").is_not_null())
        .sort("stream", "start_ns", maintain_order=True)
    )
    before = (pl.col("start_ns") + pl.col("duration_ns")).shift(1).over("stream")
    early = (
        rows.select((pl.col("start_ns") < before).fill_null(False).sum()).item()
        if rows.height
        else 0
    )
    return float(early) / max(rows.height, 1)


def _trace(source: nodes.ExecutionGraph, path: Path) -> Trace:
    """Return device nodes as kernels, copies and sets, and operators as ranges.  The file names no
    call that started a node.
    """
    rows = source.nodes.filter(
        pl.col("start_ns").is_not_null() & pl.col("duration_ns").is_not_null()
    )
    findings = list(source.findings)
    exact = source.exact
    if exact:
        # nodes of waits are no activities, and the duration of a call that waits is only its own
        # part
        rows = rows.drop_nulls("activity_ns").with_columns(
            start_ns="activity_start_ns", duration_ns="activity_ns"
        )
    first = int(rows["start_ns"].min())  # type: ignore[arg-type]
    rows = rows.with_columns(
        start_ns=pl.col("start_ns") - first,
        end_ns=pl.col("start_ns") - first + pl.col("duration_ns"),
        process=pl.lit(id_of(1)),
    ).sort("start_ns", maintain_order=True)
    for code, kinds in (("P185", (nodes.OPERATOR,)), ("P102", nodes.DEVICE)):
        if (
            lost := source.of(*kinds)
            .filter(pl.lit(not exact) | pl.col("activity_ns").is_not_null())
            .height
            - rows.filter(pl.col("kind").is_in(list(kinds))).height
        ):
            findings.append(finding(code, lost, "nodes of the execution trace"))
    # a node without a tensor names no device; where one device is named, it is the only one
    used = rows["device"].drop_nulls().unique()
    if len(used) == 1:
        rows = rows.with_columns(pl.col("device").fill_null(used[0]))
    compute = rows.filter(
        pl.col("kind").is_in(
            [nodes.KERNEL, nodes.COLLECTIVE, nodes.SEND, nodes.RECEIVE] if source.on_device else []
        )
    )
    directions = [nodes.copied(name) for name in source.names]
    copies = rows.filter(pl.col("kind") == nodes.COPY)
    of_copy = np.array([directions[i] for i in copies["name"].to_list()], dtype=np.int64).reshape(
        -1, 3
    )
    copies = copies.with_columns(
        direction=pl.Series(of_copy[:, 0]),
        source_memory=pl.Series(of_copy[:, 1]),
        target_memory=pl.Series(of_copy[:, 2]),
    )
    if unsized := copies["size_bytes"].null_count():
        findings.append(finding("P166", unsized))
    host = rows.filter(pl.col("kind") == nodes.OPERATOR).with_columns(
        thread=id_of(1, thread_number(pl.col("thread").fill_null(0)))
    )
    operators = host.filter(pl.col("call").is_null()).with_columns(kind=pl.lit(59))
    calls = host.filter(pl.col("call") == 0).with_columns(level=pl.lit(0), result=pl.lit(0))
    mpi = host.filter(pl.col("call") == 1).with_columns(kind=pl.lit(3))
    memsets = rows.filter(pl.col("kind") == nodes.MEMSET).with_columns(memory=pl.lit(3))
    tables = {
        "kernels": compute.with_columns(short_name="name"),
        "copies": copies,
        "memsets": memsets,
        "ranges": operators,
        "api": calls,
        "mpi": mpi,
    }
    complete = {
        name: completed(name, frame, strict=False) for name, frame in tables.items() if frame.height
    }
    on_device = rows.filter(pl.col("kind").is_in(list(nodes.DEVICE)))
    if source.format == "chakra" and on_device.height and not exact:
        findings.append(finding("P168", on_device.height))
    findings.append(finding("P123", 1))
    writer = source.facts.get("writer") or (
        "PyTorch" if source.format == "pytorch-et" else "Chakra"
    )
    facts = {
        "format": "chakra",
        "product_version": writer,
        "schema_version": source.facts["schema"],
        "tables": {name: frame.height for name, frame in complete.items()},
        **dict.fromkeys(("session_start_utc_ns", "analysis_duration_ns")),
        **{name: source.facts[name] for name in ("size_bytes", "sha256")},
    }
    return Trace(complete, source.names, facts, findings, path.name)
