"""Command ``turnbuckle model dag``: a sparse triangular solve on several GPUs, and what another
coupling of them would change.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from rich.padding import Padding
from rich.text import Text

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.units import parse, show
from turnbuckle.show.figures.files import save
from turnbuckle.show.terminal.cells import clean, seconds
from turnbuckle.show.terminal.console import Terminal
from turnbuckle.show.terminal.model_answer import ModelAnswer
from turnbuckle.show.terminal.options import Charts
from turnbuckle.show.terminal.progress import working
from turnbuckle.show.terminal.tables import unframed

if TYPE_CHECKING:
    from turnbuckle.papers.models.dag.graph import TaskGraph
    from turnbuckle.papers.models.dag.question import Solves
    from turnbuckle.papers.models.dag.supernodes import Supernodes
    from turnbuckle.papers.models.dag.tiers import Fabric
    from turnbuckle.show.figures.figure import Figure

_RANGE = re.compile(r"\s*([0-9]{1,6})\s*(?:-\s*([0-9]{1,6})\s*)?", re.ASCII)
_FACTOR = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(?:x\s*)?", re.ASCII)
#: GPU counts one command tries at most.
_MOST_COUNTS = 512


def dag(
    matrix: Annotated[
        Path,
        Parameter(
            help=(
                "triangular sparse matrix in Matrix Market form, or tasks as CSV or Parquet: "
                "task, time, bytes, rank; with --edges"
            )
        ),
    ],
    *,
    edges: Annotated[
        Path | None, Parameter(help="of a table of tasks: CSV or Parquet with from, to, bytes")
    ] = None,
    ranks_per_gpu: Annotated[
        int | None,
        Parameter(
            help=(
                "ranks on each GPU, which share its link: messages that leave it follow each "
                "other; else links are not shared"
            )
        ),
    ] = None,
    gpus: Annotated[
        str | None,
        Parameter(
            help="GPU counts, as 1,2,4-8; if left out 1 to a node, then whole nodes up to 64 GPUs"
        ),
    ] = None,
    layout: Annotated[
        Literal["2d", "columns", "rows"],
        Parameter(
            help="blocks dealt to a grid of GPUs, or to one row or column of them, cyclically"
        ),
    ] = "2d",
    map: Annotated[
        Path | None,
        Parameter(
            help=(
                "CSV column, gpu: from that column on (counted from 1) this GPU (from 0); "
                "instead of a layout"
            )
        ),
    ] = None,
    on: Annotated[
        str | None,
        Parameter(
            help=(
                "machine: dgx-h100 or alps-gh200 (measured), summit-v100 (put together from "
                "printed numbers)"
            )
        ),
    ] = None,
    tiers: Annotated[
        Path | None,
        Parameter(
            help=(
                "CSV tier, size, bandwidth of messages in a socket, node, network; or tier, "
                "latency, bandwidth"
            )
        ),
    ] = None,
    gpus_per_socket: Annotated[
        int | None, Parameter(help="GPUs a socket; instead of the machine's")
    ] = None,
    gpus_per_node: Annotated[
        int | None, Parameter(help="GPUs a node; instead of the machine's")
    ] = None,
    memory_bandwidth: Annotated[
        str | None, Parameter(help='memory bandwidth of a GPU, as "828 GB/s"')
    ] = None,
    block_low: Annotated[
        str | None, Parameter(help="memory bandwidth of a thread block when the GPU is full")
    ] = None,
    block_high: Annotated[
        str | None, Parameter(help="memory bandwidth of a thread block that is nearly alone")
    ] = None,
    triangle: Annotated[
        Literal["lower", "upper"] | None,
        Parameter(help="take this triangle of a matrix that is not triangular"),
    ] = None,
    widest: Annotated[int, Parameter(help="columns a supernode has at most")] = 128,
    relaxed: Annotated[
        float,
        Parameter(
            help=(
                "share of zeros a supernode may hold, 0 to below 1: merges neighbours of nearly "
                "equal structure"
            )
        ),
    ] = 0.0,
    integration: Annotated[
        str, Parameter(help="how many times faster messages between nodes become")
    ] = "2.6x",
    disaggregation: Annotated[
        str, Parameter(help="how many times slower messages inside a node become")
    ] = "4x",
    merged: Annotated[
        int | None,
        Parameter(help="GPUs in a super-GPU; if left out the number of nodes that become one"),
    ] = None,
    dependency: Annotated[
        str,
        Parameter(
            help=(
                "until a block notices that a supernode it needs is solved on its own GPU; the "
                "paper takes nothing, so 0 s"
            )
        ),
    ] = "0 s",
    one_at_a_time: Annotated[
        bool,
        Parameter(
            help="a GPU receives one message at a time; the paper lets all come at once",
            negative=(),
        ),
    ] = False,
    charts: Charts = None,
) -> ModelAnswer:
    """Find the critical path of a triangular solve or of any task graph over several GPUs, and
    where more of them stop paying.
    """
    from turnbuckle.papers.models.dag.graph import is_graph, read_graph
    from turnbuckle.papers.models.dag.question import sweep
    from turnbuckle.papers.models.dag.supernodes import WIDEST, read_map, read_triangle, supernodes
    from turnbuckle.papers.models.dag.tasks import variants

    options: dict[str, Any] = {
        "merged": merged,
        "dependency": parse(dependency, "s"),
        "one_at_a_time": one_at_a_time,
    }
    options["ranks_per_gpu"] = ranks_per_gpu
    changes = variants(
        _factor("--integration", integration), _factor("--disaggregation", disaggregation)
    )
    counts = None if gpus is None else _counts(gpus)
    if map is not None and (gpus is not None or layout != "2d"):
        raise error_of("A043.map", found="--map with --gpus or --layout")
    machine = _machine(
        on, tiers, gpus_per_socket, gpus_per_node, (memory_bandwidth, block_low, block_high)
    )
    of_matrix = {
        "--map": map,
        "--triangle": triangle,
        "--layout": layout != "2d",
        "--widest": widest != WIDEST,
        "--relaxed": relaxed,
    }
    solved: Supernodes | TaskGraph
    of_supernode = None
    with working("reading"):
        if is_graph(matrix):
            if edges is None:
                raise error_of("A043.edges", where=matrix.name)
            _refuse(of_matrix, "task graph")
            solved = read_graph(matrix, edges)
            _refuse({"--gpus": gpus} if solved.ranks is not None else {}, "task graph with ranks")
        else:
            _refuse({"--edges": edges}, "matrix")
            triangular = read_triangle(matrix, triangle)
            owner = None if map is None else read_map(map, len(triangular))
            if owner is not None and triangular.upper:
                owner = owner[::-1]
            solved = supernodes(triangular, widest, relaxed, owner)
            of_supernode = None if owner is None else owner[solved.first[:-1]]
    with working("replaying"):
        solves = sweep(
            solved, machine, counts, layout, owner=of_supernode, changes=changes, **options
        )

    def figures() -> list[Figure]:
        from turnbuckle.papers.models.dag.figures import figures

        return figures(solves)

    if charts is not None:
        save(figures(), charts)
    return ModelAnswer(
        solves.as_dict(),
        [run.as_dict() for run in solves.runs],
        partial(_print, solves=solves),
        figures,
    )


def _refuse(given: dict[str, Any], subject: str) -> None:
    if unused := [option for option, value in given.items() if value]:
        raise error_of("A043.graph", found=unused[0], subject=subject)


def _factor(option: str, text: str) -> float:
    match = _FACTOR.fullmatch(text)
    if match is None or float(match[1]) < 1:
        raise error_of("A043.factor", found=f"{option} {text[:40]}", option=option)
    return float(match[1])


def _counts(text: str) -> list[int]:
    """Return the GPU counts of a list such as ``1,2,4-8``, ascending."""
    counts: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not 1 <= first <= last or last - first >= _MOST_COUNTS:
            raise error_of("A043.counts", found=f"--gpus {text[:40]}")
        counts |= set(range(first, last + 1))
    if len(counts) > _MOST_COUNTS:
        raise error_of("A043.many", found=f"{len(counts)}", most_counts=_MOST_COUNTS)
    return sorted(counts)


def _machine(
    on: str | None,
    tiers: Path | None,
    per_socket: int | None,
    per_node: int | None,
    memory: tuple[str | None, ...],
) -> Fabric:
    """Return the machine with the numbers of the options in place of its own."""

    from turnbuckle.papers.models.dag.tiers import DEFAULT, fabric, read_tiers

    machine = fabric(on or DEFAULT)
    if tiers is not None:
        machine = read_tiers(tiers, machine)
    values = dict(zip(("peak", "low", "high"), memory, strict=True))
    given: dict[str, Any] = {
        name: parse(text, "B/s") for name, text in values.items() if text is not None
    }
    if "peak" in given:
        # the share of each block scales with the memory, unless the user states it
        share = given["peak"] / machine.peak
        given = {"low": machine.low * share, "high": machine.high * share, **given}
    node = machine.gpus_per_node if per_node is None else per_node
    socket = min(machine.gpus_per_socket, node) if per_socket is None else per_socket
    if tiers is not None and "socket" in machine.tiers and socket == 1:
        raise error_of("A043.socket", where=machine.name, node=node)
    changed = {
        "gpus_per_socket": "GPUs a socket",
        "gpus_per_node": "GPUs a node",
        "peak": "memory bandwidth",
    }
    given |= {"gpus_per_socket": socket, "gpus_per_node": node}
    stated = {
        what
        for name, what in changed.items()
        if getattr(machine, name) != given.get(name, getattr(machine, name))
    }
    sources = {
        what: "stated on the command line" if what in stated else source
        for what, source in machine.sources.items()
    }
    # the title "DGX H100: eight H100 a node; ..." is wrong for another node
    title = (
        machine.title
        if node == machine.gpus_per_node
        else re.sub(":[^;]*", "", machine.title, count=1)
    )
    return replace(machine, **given, title=title, sources=sources)


def _print(console: Terminal, solves: Solves) -> None:
    console.print(Text.from_markup(f"[bold]{clean(solves.sentence(), 400)}[/]"))
    if not solves.dependency and solves.supernodes is not None:
        console.print(
            (
                "waits inside a GPU cost nothing here, as in the paper: few GPUs look better "
                "than they are (--dependency)"
            ),
            style="yellow",
        )
    if solves.supernodes is not None:
        _print_matrix(console, solves.supernodes)
    elif solves.graph is not None:
        _print_graph(console, solves.graph)
    _print_machine(console, solves)
    _print_runs(console, solves)
    _print_spots(console, solves)
    for item in solves.findings:
        style = "yellow" if item.severity == "warning" else "dim"
        console.print(
            f"[{style}]{item.code}[/] {item.meaning}" + (f" ({item.detail})" if item.detail else "")
        )
        if item.advice:
            console.print(f"     {item.advice}", style="dim")


def _print_matrix(console: Terminal, matrix: Supernodes) -> None:
    import numpy as np

    triangle, concurrency = matrix.triangle, matrix.concurrency
    diagonal = ", a unit diagonal that is not stored" if triangle.implied else ""
    side, entries = (
        "upper" if triangle.upper else "lower",
        f"{triangle.entries:,} entr{'y' if triangle.entries == 1 else 'ies'}",
    )
    console.print(f"{side} triangle, {_many(len(triangle), 'row')}, {entries}{diagonal}")
    zeros = f", {matrix.padding:,} of them zeros of relaxed merging" if matrix.padding else ""
    width = (
        f"columns in one: {len(triangle) / len(matrix):.3g} on average, {matrix.width.max()} at "
        "most"
    )
    console.print(
        f"{_many(len(matrix), 'supernode')}; {width}; "
        f"{_many(int(matrix.values.sum()), 'value')} held{zeros}"
    )
    single = int(np.count_nonzero(concurrency == 1))
    in_level = (
        f"supernodes in one: {len(matrix) / matrix.levels:,.3g} on average, {concurrency.max():,} "
        "at most"
    )
    console.print(
        f"{_many(matrix.levels, 'level')}; {in_level}; {_many(single, 'level')} of a single one"
    )
    console.print()


def _print_graph(console: Terminal, graph: TaskGraph) -> None:
    ranks = "" if graph.ranks is None else f" of {_many(graph.ranks, 'rank')}"
    sent = f"{_many(graph.edges, 'edge')} with {show(float(graph.message_bytes.sum()), 'B')}"
    console.print(f"{_many(len(graph), 'task')}{ranks}, {sent}; {_many(graph.levels, 'level')}")
    work = (
        f"{show(float(graph.seconds.sum()), 's')} of work, {show(float(graph.bytes.sum()), 'B')} "
        "to read"
    )
    console.print(f"{work}; a task begins when all that it waits for is there")
    console.print()


def _print_machine(console: Terminal, solves: Solves) -> None:

    machine = solves.fabric
    block = f"{show(machine.low, 'B/s')} to {show(machine.high, 'B/s')} a block"
    notes = [
        (
            f"{_many(machine.gpus_per_socket, 'GPU')} a socket, {machine.gpus_per_node} a node; "
            f"{solves.layout}"
        ),
        f"memory {show(machine.peak, 'B/s')}, {block}",
    ]
    if solves.ranks_per_gpu is not None:
        shared = "share its link: what leaves it goes one message after the other"
        notes.append(f"{_many(solves.ranks_per_gpu, 'rank')} a GPU, {shared}")
    if solves.one_at_a_time:
        notes.append("a GPU receives one message at a time")
    if solves.dependency:
        notes.append(
            f"a wait for another supernode on the same GPU takes {show(solves.dependency, 's')}"
        )
    console.print(f"on {clean(machine.title, 100)}")
    console.print(Padding("\n".join(notes), (0, 0, 0, 3), expand=False))
    if machine.assumed:
        words = f"assumed, neither measured nor stated by anybody: {', '.join(machine.assumed)}"
        console.print(Padding(Text(words, "dim"), (0, 0, 0, 3), expand=False))
    console.print()


def _print_runs(console: Terminal, solves: Solves) -> None:

    what = "of one solve" if solves.supernodes is not None else "of the tasks"
    console.note(f"run time {what}, and the critical path as it is", "italic")
    names = [variant.what for variant in solves.variants]
    table = unframed("GPUs", *names, "messages", "bytes", "latency", words=())
    by = {(run.gpus, run.what): run for run in solves.runs}
    best = {what: solves.best(what) for what in names}
    for count in sorted({run.gpus for run in solves.runs}):
        cells = []
        for what in names:
            run = by[count, what]
            cells.append(Text(seconds(run.seconds), "bold" if run is best[what] else ""))
        now = by[count, names[0]]
        table.add_row(
            str(count),
            *cells,
            f"{now.path_messages:,}",
            show(now.message_bytes, "B"),
            f"{now.latency_share:.1%}",
        )
    console.print(table)
    console.note(
        "messages, bytes: on the path; latency: what the quickest message takes, as a share "
        "of the path"
    )
    console.print()


def _print_spots(console: Terminal, solves: Solves) -> None:

    from turnbuckle.papers.models.dag.question import NEARLY

    console.note("where more GPUs stop paying", "italic")
    table = unframed("", "best on", "time", f"within {NEARLY:.0%}", "against now", "at most")
    gains = solves.gains()
    for index, variant in enumerate(solves.variants):
        # gains come in pairs: best against best, then the largest at one count
        best, enough = solves.best(variant.what), solves.enough(variant.what)
        ratios = ["", ""]
        if index:
            against, most = gains[2 * index - 2 : 2 * index]
            same = abs(most.ratio - 1.0) < 5e-4
            ratios = [
                _times(against.ratio),
                "same" if same else f"{_times(most.ratio)} at {most.to.gpus}",
            ]
        table.add_row(
            variant.what, str(best.gpus), seconds(best.seconds), str(enough.gpus), *ratios
        )
    console.print(table)
    notes = (
        f"within {NEARLY:.0%}: the fewest GPUs that come so near; against now: best so changed "
        "against best as it is"
    )
    console.note(f"{notes}; at most: both on as many GPUs")
    for variant in solves.variants[1:]:
        console.note(f"{variant.what}: {variant.words}")


def _times(ratio: float) -> str:
    """Return a speedup in words that name the direction.

    >>> _times(1.25), _times(0.5), _times(1.0002)
    ('1.25x faster', '2x slower', 'same')
    """
    if abs(ratio - 1.0) < 5e-4:
        return "same"
    return f"{ratio:.3g}x faster" if ratio > 1 else f"{1 / ratio:.3g}x slower"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
