"""``turnbuckle inspect`` of an execution trace: operations and dependencies.  Unknown quantities
are null, never 0.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from rich.table import Table
from rich.text import Text

from turnbuckle.foundation.errors import TurnbuckleError, UsageError
from turnbuckle.foundation.files import opened
from turnbuckle.foundation.findings import Finding, finding, merge
from turnbuckle.foundation.schema import words
from turnbuckle.foundation.units import show
from turnbuckle.replay.tasks import Tasks, replay_tasks
from turnbuckle.show.terminal.cells import clean, seconds
from turnbuckle.show.terminal.console import console_for
from turnbuckle.show.terminal.output import flattened, untimed, write_answer
from turnbuckle.show.terminal.recording import refuse_asked
from turnbuckle.trace.readers.chakra import reader as chakra
from turnbuckle.trace.readers.chakra.graph import (
    COLLECTIVE,
    COPY,
    KERNEL,
    KINDS,
    MEMSET,
    RECEIVE,
    SEND,
    ExecutionGraph,
    copied,
    total,
)

#: What such a file is.
HOLDS: Final = "an execution trace, which holds no times"
_WORDS: Final = {"chakra": "Chakra execution trace", "pytorch-et": "PyTorch execution trace"}
#: Copies by the classes that `inspect` shows.
_CLASSES: Final = ("h2d", "d2h", "d2d", "p2p")
_MOST: Final = 50
#: Dependencies beyond which the longest path is not looked for.
_MOST_EDGES: Final = 50_000_000


def without_times(path: Path) -> ExecutionGraph | None:
    """Return the execution graph of a file without start times of its own; None for every other
    file, broken ones too.

    An execution trace with the device's times is a recording, and is read as one.
    """
    try:
        if not path.is_file() and "::" not in str(path):
            return None
        place = Path(str(path).partition("::")[0])
        with opened(place) as file:
            if not chakra.sniff(file.read(512), path):
                return None
        execution = chakra.graph(path)
    except (OSError, ValueError, TurnbuckleError):
        return None  # the reader that comes next reports the error
    return (
        None
        if execution.timed and chakra.overlapping(execution) <= chakra.MOST_OVERLAPPING
        else execution
    )


def sniff(path: Path) -> bool:
    """Return whether a file is an execution graph without times; False too for what cannot be
    read.
    """
    return without_times(path) is not None


def inspect(path: Path, format: str, output: Path | None, asked: dict[str, object]) -> None:
    """Write the answer of ``turnbuckle inspect`` for an execution graph.

    Parameters
    ----------
    asked : options that need a recording, by name; refused (A077) where one is given.
    """
    refuse_asked(path, asked, HOLDS)
    execution = chakra.graph(path)
    document = _document(path, execution)
    if format == "table":
        _print(path, execution, document, output)
    else:
        write_answer(document, [flattened(document["profile"])], format, output)


def _document(path: Path, execution: ExecutionGraph) -> dict[str, Any]:
    findings = list(execution.findings)
    facts, scope = (
        execution.facts,
        "an execution graph: operations and what each waits for; it holds no start times",
    )
    about = {
        "sha256": facts["sha256"],
        "size_bytes": facts["size_bytes"],
        "format": execution.format,
        "schema_version": facts["schema"],
    }
    profile = {
        **_device(execution),
        "graph": _graph(execution, findings),
        "devices": [],
        "scope": scope,
    }
    return untimed(path, about, profile, merge(findings))


def _busy_ns(rows: pl.DataFrame, execution: ExecutionGraph) -> int | None:
    return total(rows["duration_ns"]) if execution.measured else None


def _device(execution: ExecutionGraph) -> dict[str, Any]:
    """Return kernels, copies and sets if the file holds the device's nodes; nothing otherwise."""
    if not execution.on_device:
        return {}
    kernels, copies = execution.of(KERNEL, COLLECTIVE, SEND, RECEIVE), execution.of(COPY)
    directions = words("directions")
    by_name = {
        i: directions[copied(execution.names[i])[0]] for i in copies["name"].unique().to_list()
    }
    direction = pl.Series([by_name[i] for i in copies["name"].to_list()], dtype=pl.String)
    by_class = {}
    for name in _CLASSES:
        of_direction = copies.filter(direction == name)
        size = (
            None if of_direction["size_bytes"].null_count() else total(of_direction["size_bytes"])
        )
        by_class[name] = {
            "count": of_direction.height,
            "bytes": size,
            "busy_ns": _busy_ns(of_direction, execution),
        }
    # no execution trace records migrations on demand
    nothing = {"count": None, "bytes": None, "busy_ns": None}
    unknown = dict.fromkeys(("union_ns", "graph_launches", "in_graphs"))
    return {
        "kernels": {"count": kernels.height, "busy_ns": _busy_ns(kernels, execution), **unknown},
        "copies": {**by_class, "migration_h2d": dict(nothing), "migration_d2h": dict(nothing)},
        "memsets": {"count": execution.of(MEMSET).height},
    }


def _graph(execution: ExecutionGraph, findings: list[Finding]) -> dict[str, Any]:
    counts = dict(execution.nodes.group_by("kind").len().iter_rows())
    operators = execution.operators()
    most = sorted(operators.items(), key=lambda x: (-x[1], x[0]))[:_MOST]
    collectives = execution.collectives()
    data = len(execution.source) if execution.format == "chakra" else None
    return {
        "nodes": execution.nodes.height,
        "edges": (data or 0) + execution.control,
        "data_edges": data,
        "control_edges": execution.control,
        "kinds": {name: counts.get(code, 0) for code, name in enumerate(KINDS)},
        "operators": {
            "count": operators.total(),
            "distinct": len(operators),
            "most": [dict(name=n, count=c) for n, c in most],
        },
        "collectives": {name: count for name, (count, _) in collectives.items()},
        "collective_bytes": {name: size for name, (_, size) in collectives.items()},
        "communicators": execution.groups(),
        "work_ns": _busy_ns(execution.nodes, execution),
        "longest_path_ns": _longest_path_ns(execution, findings),
    }


def _longest_path_ns(execution: ExecutionGraph, findings: list[Finding]) -> int | None:
    """Return the time of the longest path of data dependencies; None without durations or if they
    form a cycle.
    """

    if not execution.measured or not 0 < len(execution.source) <= _MOST_EDGES:
        return None
    times = execution.nodes["duration_ns"].fill_null(0).to_numpy() * 1e-9
    try:
        done = replay_tasks(
            Tasks(times, None, execution.source, execution.target, np.zeros(len(execution.source)))
        )
    except UsageError as error:
        if error.code != "A025":
            raise
        findings.append(finding("P184", 1, "nodes that wait for each other in a cycle"))
        return None
    return round(done.seconds * 1e9)


def _print(
    path: Path, execution: ExecutionGraph, document: dict[str, Any], output: Path | None
) -> None:
    console = console_for(output)
    profile, graph = document["profile"], document["profile"]["graph"]
    head = Table.grid(padding=(0, 2))
    head.add_column(style="bold cyan")
    head.add_column(overflow="fold")
    schema = f", schema {clean(execution.facts['schema'])}" if execution.facts["schema"] else ""
    has = "durations, no start times" if execution.measured else "it holds no times"
    if execution.timed:
        has = "durations, and start times that are not of the device"
    head.add_row("graph", f"{clean(path.name)}  {_WORDS[execution.format]}{schema}; {has}")
    data = (
        "data dependencies not recorded"
        if graph["data_edges"] is None
        else f"{graph['data_edges']:,} data dependencies"
    )
    head.add_row("", f"{graph['nodes']:,} nodes, {data}, {graph['control_edges']:,} of control")
    head.add_row(
        "operators", f"{graph['operators']['count']:,} of {graph['operators']['distinct']:,} names"
    )
    if profile["kernels"] is None:
        head.add_row("device", "no kernels or copies in the file")
    else:
        busy = profile["kernels"]["busy_ns"]
        moved = [f"{v['count']:,} {k}" for k, v in profile["copies"].items() if v["count"]]
        head.add_row(
            "kernels",
            f"{profile['kernels']['count']:,}"
            + (f", {seconds(busy * 1e-9)} in all" if busy is not None else ""),
        )
        head.add_row("copies", ", ".join(moved) or "none")
    wide = [
        f"{count:,} {clean(name)}"
        + (
            f" of {show(size, 'B')}"
            if (size := graph["collective_bytes"][name]) is not None
            else ""
        )
        for name, count in graph["collectives"].items()
    ]
    head.add_row("collectives", ", ".join(wide) or "none")
    if graph["work_ns"] is not None:
        path_ns = graph["longest_path_ns"]
        head.add_row("work", f"{seconds(graph['work_ns'] * 1e-9)}, all nodes one after the other")
        if path_ns is not None:
            head.add_row(
                "", f"{seconds(path_ns * 1e-9)} along the longest path of data dependencies"
            )
    console.print(head)
    if document["findings"]:
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(justify="right")
        table.add_column(overflow="fold")
        for f in document["findings"]:
            meaning = Text(f["meaning"])
            if f["detail"]:
                meaning.append(f" ({f['detail']})", "dim")
            table.add_row(
                Text(f["code"], "yellow" if f["severity"] == "warning" else "dim"),
                f"{f['count']:,}",
                meaning,
            )
        console.print()
        console.print(table)
    console.print()
    console.print(
        Text.assemble(
            ("next  ", "bold cyan"),
            "the profile of the same run (torch.profiler, nsys) has the times",
        )
    )
