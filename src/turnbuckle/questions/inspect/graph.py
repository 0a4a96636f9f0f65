"""``turnbuckle inspect`` of an execution trace: what a program did and what waited for what.  What it cannot say is null, never 0."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from rich.table import Table
from rich.text import Text

from turnbuckle.foundation.errors import TurnbuckleError, UsageError
from turnbuckle.foundation.fields import SCHEMA_VERSION
from turnbuckle.foundation.files import opened
from turnbuckle.foundation.findings import Finding, finding, merge
from turnbuckle.foundation.schema import words
from turnbuckle.foundation.units import show
from turnbuckle.replay.tasks import Tasks, replay_tasks
from turnbuckle.show.terminal.cells import clean, seconds
from turnbuckle.show.terminal.console import console_for
from turnbuckle.show.terminal.output import flattened, write_answer
from turnbuckle.show.terminal.recording import command_line, refuse_asked
from turnbuckle.trace.readers.chakra import reader as chakra
from turnbuckle.trace.readers.chakra.graph import COLLECTIVE, COPY, KERNEL, KINDS, MEMSET, RECEIVE, SEND, ExecutionGraph, copied, total

#: What such a file is.
HOLDS: Final = "an execution trace, which holds no times"
#: What `inspect` says of a recording and cannot say of a graph.
_UNKNOWN: Final = (
    "run_time_ns", "kernel_window_ns", "start_up", "kernels", "copies", "memsets", "api", "coverage", "overlap", "categories_ns",
    "closure_defect_ns", "launch", "links", "offload", "host_work", "cpu_activity", "memory", "profiler_overhead_share", "mpi",
)  # fmt: skip
_WORDS: Final = {"chakra": "Chakra execution trace", "pytorch-et": "PyTorch execution trace"}
#: Copies by the classes that `inspect` shows.
_CLASSES: Final = ("h2d", "d2h", "d2d", "p2p")
_MOST: Final = 50
#: Dependencies beyond which the longest path is not looked for.
_MOST_EDGES: Final = 50_000_000


def without_times(path: Path) -> ExecutionGraph | None:
    """The execution graph of a file that holds one without times of its own; None for every other file, broken ones too.

    An execution trace with the device's times is a recording, and is read as one.
    """
    try:
        if not path.is_file() and "::" not in str(path):
            return None
        place = Path(str(path).partition("::")[0])
        with opened(place) as file:
            if not chakra.sniff(file.read(512), path):
                return None
        found = chakra.graph(path)
    except (OSError, ValueError, TurnbuckleError):
        return None  # whoever reads it next says what is wrong
    return None if found.timed and chakra.overlapping(found) <= chakra.MOST_OVERLAPPING else found


def sniff(path: Path) -> bool:
    """Return whether a file is an execution graph without times; False too for what cannot be read."""
    return without_times(path) is not None


def inspect(path: Path, format: str, output: Path | None, asked: dict[str, object]) -> None:
    """Write what an execution graph amounts to.

    Parameters
    ----------
    asked : options that need a recording, by name; refused (A077) where one is given.
    """
    refuse_asked(path, asked, HOLDS)
    found = chakra.graph(path)
    document = _document(path, found)
    if format == "table":
        _print(path, found, document, output)
    else:
        write_answer(document, [flattened(document["profile"])], format, output)


def _document(path: Path, found: ExecutionGraph) -> dict[str, Any]:
    findings = list(found.findings)
    about = {
        "file": path.name, "sha256": found.facts["sha256"], "size_bytes": found.facts["size_bytes"], "format": found.format,
        "profiler_version": None, "schema_version": found.facts["schema"], "recorded_utc_ns": None, "part": None,
    }  # fmt: skip
    profile = {
        **dict.fromkeys(_UNKNOWN), **_device(found), "graph": _graph(found, findings), "devices": [],
        "scope": "an execution graph: operations and what each waits for; it holds no start times",
    }  # fmt: skip
    return {
        "schema_version": SCHEMA_VERSION,
        "profile": profile,
        "findings": [f.as_dict() for f in merge(findings)],
        "provenance": {
            "tool": "turnbuckle", "version": version("turnbuckle"), "profile": about, "source_machine": None, "targets": [], "model": None,
            "seed": None, "draws": None, "command": command_line(),
        },
    }  # fmt: skip


def _busy_ns(rows: pl.DataFrame, found: ExecutionGraph) -> int | None:
    return total(rows["duration_ns"]) if found.measured else None


def _device(found: ExecutionGraph) -> dict[str, Any]:
    """Kernels, copies and sets where the file holds the device's nodes; nothing where it does not."""
    if not found.on_device:
        return {}
    kernels, copies = found.of(KERNEL, COLLECTIVE, SEND, RECEIVE), found.of(COPY)
    directions = words("directions")
    ways = {i: directions[copied(found.names[i])[0]] for i in copies["name"].unique().to_list()}
    way = pl.Series([ways[i] for i in copies["name"].to_list()], dtype=pl.String)
    by_class = {}
    for name in _CLASSES:
        mine = copies.filter(way == name)
        size = None if mine["size_bytes"].null_count() else total(mine["size_bytes"])
        by_class[name] = {"count": mine.height, "bytes": size, "busy_ns": _busy_ns(mine, found)}
    # what migrates on demand is in no execution trace
    nothing = {"count": None, "bytes": None, "busy_ns": None}
    untold = dict.fromkeys(("union_ns", "graph_launches", "in_graphs"))
    return {
        "kernels": {"count": kernels.height, "busy_ns": _busy_ns(kernels, found), **untold},
        "copies": {**by_class, "migration_h2d": dict(nothing), "migration_d2h": dict(nothing)},
        "memsets": {"count": found.of(MEMSET).height},
    }  # fmt: skip


def _graph(found: ExecutionGraph, findings: list[Finding]) -> dict[str, Any]:
    counts = dict(found.nodes.group_by("kind").len().iter_rows())
    operators = found.operators()
    collectives = found.collectives()
    data = len(found.source) if found.format == "chakra" else None
    return {
        "nodes": found.nodes.height,
        "edges": (data or 0) + found.control,
        "data_edges": data,
        "control_edges": found.control,
        "kinds": {name: counts.get(code, 0) for code, name in enumerate(KINDS)},
        "operators": {
            "count": operators.total(), "distinct": len(operators),
            "most": [{"name": name, "count": count} for name, count in sorted(operators.items(), key=lambda x: (-x[1], x[0]))[:_MOST]],
        },
        "collectives": {name: count for name, (count, _) in collectives.items()},
        "collective_bytes": {name: size for name, (_, size) in collectives.items()},
        "communicators": found.groups(),
        "work_ns": _busy_ns(found.nodes, found),
        "longest_path_ns": _longest_path_ns(found, findings),
    }  # fmt: skip


def _longest_path_ns(found: ExecutionGraph, findings: list[Finding]) -> int | None:
    """The time that the data dependencies alone take, if everything else ran at once; None without durations or with a circle."""

    if not found.measured or not 0 < len(found.source) <= _MOST_EDGES:
        return None
    times = found.nodes["duration_ns"].fill_null(0).to_numpy() * 1e-9
    try:
        done = replay_tasks(Tasks(times, None, found.source, found.target, np.zeros(len(found.source))))
    except UsageError as error:
        if error.code != "A025":
            raise
        findings.append(finding("P184", 1, "nodes that wait for each other in a circle"))
        return None
    return round(done.seconds * 1e9)


def _print(path: Path, found: ExecutionGraph, document: dict[str, Any], output: Path | None) -> None:
    console = console_for(output)
    profile, graph = document["profile"], document["profile"]["graph"]
    head = Table.grid(padding=(0, 2))
    head.add_column(style="bold cyan")
    head.add_column(overflow="fold")
    schema = f", schema {clean(found.facts['schema'])}" if found.facts["schema"] else ""
    has = "durations, no start times" if found.measured else "it holds no times"
    if found.timed:
        has = "durations, and start times that are not the device's"
    head.add_row("graph", f"{clean(path.name)}  {_WORDS[found.format]}{schema}; {has}")
    data = "data dependencies not recorded" if graph["data_edges"] is None else f"{graph['data_edges']:,} data dependencies"
    head.add_row("", f"{graph['nodes']:,} nodes, {data}, {graph['control_edges']:,} of control")
    head.add_row("operators", f"{graph['operators']['count']:,} of {graph['operators']['distinct']:,} names")
    if profile["kernels"] is None:
        head.add_row("device", "no kernels or copies in the file")
    else:
        busy = profile["kernels"]["busy_ns"]
        moved = [f"{v['count']:,} {k}" for k, v in profile["copies"].items() if v["count"]]
        head.add_row("kernels", f"{profile['kernels']['count']:,}" + (f", {seconds(busy * 1e-9)} in all" if busy is not None else ""))
        head.add_row("copies", ", ".join(moved) or "none")
    wide = [
        f"{count:,} {clean(name)}" + (f" of {show(size, 'B')}" if (size := graph["collective_bytes"][name]) is not None else "")
        for name, count in graph["collectives"].items()
    ]
    head.add_row("collectives", ", ".join(wide) or "none")
    if graph["work_ns"] is not None:
        path_ns = graph["longest_path_ns"]
        head.add_row("work", f"{seconds(graph['work_ns'] * 1e-9)}, all nodes one after the other")
        if path_ns is not None:
            head.add_row("", f"{seconds(path_ns * 1e-9)} along the longest path of data dependencies")
    console.print(head)
    if document["findings"]:
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(justify="right")
        table.add_column(overflow="fold")
        for f in document["findings"]:
            said = Text(f["meaning"])
            if f["detail"]:
                said.append(f" ({f['detail']})", "dim")
            table.add_row(Text(f["code"], "yellow" if f["severity"] == "warning" else "dim"), f"{f['count']:,}", said)
        console.print()
        console.print(table)
    console.print()
    console.print(Text.assemble(("next  ", "bold cyan"), "the profile of the same run (torch.profiler, nsys) has the times"))
