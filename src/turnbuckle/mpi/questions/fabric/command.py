"""``turnbuckle model fabric``: machines as networks, with their parts, bandwidths and shared
links.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.fields import SCHEMA_VERSION
from turnbuckle.foundation.units import show
from turnbuckle.show.terminal.console import Terminal
from turnbuckle.show.terminal.model_answer import ModelAnswer
from turnbuckle.show.terminal.options import MachineName
from turnbuckle.show.terminal.tables import unframed

if TYPE_CHECKING:
    from turnbuckle.mpi.questions.fabric.question import Fabric, Way
    from turnbuckle.replay.contention.network_file import Described

Name = Annotated[
    MachineName | None,
    Parameter(
        help=(
            "a machine (lassen, frontier, ...), file.toml or SimGrid's platform.xml; all that "
            "come with Turnbuckle if left out"
        )
    ),
]
Nodes = Annotated[
    int | None, Parameter(name="--nodes", help="look at so many nodes instead of all")
]
Check = Annotated[
    bool,
    Parameter(name="--check", help="say what is doubtful in the file, and no more", negative=()),
]

#: Largest number of columns of a matrix on a terminal.
_WIDE = 8


def fabric(name: Name = None, /, *, nodes: Nodes = None, check: Check = False) -> ModelAnswer:
    """Show a machine as a network: parts, wires with their sources, routes between parts, shared
    wires, bisection.
    """
    from turnbuckle.mpi.questions.fabric import question as study
    from turnbuckle.replay.contention.network_file import bundled, read_network

    if nodes is not None and nodes < 1:
        raise error_of("A052.none", found=f"--nodes {nodes}")
    if name is None:
        if nodes is not None:
            raise error_of("A052.machine", found=f"--nodes {nodes}")
        fabrics = [study.fabric(read_network(n)) for n in bundled()]
        listed = [_row(f) for f in fabrics]
        document = {"schema_version": SCHEMA_VERSION, "networks": listed}
        return ModelAnswer(
            document, listed, partial(_all_remarks if check else _print_all, result=fabrics)
        )
    result = study.fabric(read_network(name), nodes or 0)
    ways = [
        {k: v for k, v in w.as_dict().items() if k != "wires"} | {"wires": len(w.wires)}
        for w in result.ways
    ]
    return ModelAnswer(
        result.as_dict(), ways, partial(_remarks if check else _print, result=result)
    )


def _row(result: Fabric) -> dict[str, object]:
    """Return one line of the list of machines."""
    from turnbuckle.replay.contention.network_file import shape_words

    d = result.described
    made = d.node
    natures = [f.nature for f in d.facts]
    about = {"name": d.name, "title": d.title, "machine": d.machine, "nodes": d.nodes or None}
    parts = {
        "gpus": len(made.parts_of("gpu")) if made else 0,
        "cards": len(made.cards) if made else 1,
        "bandwidth": d.bandwidth,
    }
    widths = {
        name: getattr(result, name) for name in ("bisection_bandwidth", "injection_bandwidth")
    }
    counts = {
        "assumed": natures.count("assumed"),
        "assumed_in_part": natures.count("assumed in part"),
    }
    return (
        about
        | parts
        | {"shape": shape_words(d.shape, d.backbone)}
        | widths
        | {"numbers": len(natures)}
        | counts
    )


def _print_all(console: Terminal, result: list[Fabric]) -> None:

    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("name", "nodes", "GPUs", "NICs", "per NIC", "network", "bisection", "assumed"):
        side: Literal["left", "right"] = "left" if column in ("name", "network") else "right"
        table.add_column(column, no_wrap=True, justify=side)
    for f in result:
        row = _row(f)
        share = f.bisection_bandwidth / f.injection_bandwidth
        kind = str(row["shape"]).split(",")[0]
        counts = (
            f"{row['nodes']:,}" if row["nodes"] else "any",
            str(row["gpus"]),
            str(row["cards"]),
        )
        assumed = f"{row['assumed']} of {row['numbers']}"
        table.add_row(
            Text(f.described.name, "bold"),
            *counts,
            show(f.described.bandwidth, "B/s"),
            kind,
            f"{share:.0%}",
            assumed,
        )
    console.print(table)
    console.print()
    for f in result:
        console.print(Text(f.described.title))
    console.print()
    console.note(
        "GPUs and NICs: per node; bisection: share of what half the NICs inject; assumed: "
        "share of the numbers"
    )


def _print(console: Terminal, result: Fabric) -> None:

    from turnbuckle.replay.contention.network_file import shape_words

    d = result.described
    console.print(Text.assemble((d.name, "bold"), f"  {d.title}"))
    lines = [f"shape {shape_words(d.shape, d.backbone)}"]
    links = (
        f"{result.links_between:,} links between nodes and {result.links_inside:,} wires inside, "
        "one way each"
    )
    lines.append(
        f"{result.nodes:,} {'node' if result.nodes == 1 else 'nodes'}, {result.cards:,} "
        f"{'NIC' if result.cards == 1 else 'NICs'}, {links}"
    )
    if result.cards > 1:
        lines.append(
            f"longest route {result.diameter_links} links, {show(result.diameter_seconds, 's')}"
        )
        share = result.bisection_bandwidth / result.injection_bandwidth
        half = (
            f"{show(result.bisection_bandwidth, 'B/s')}, {share:.0%} of what half the NICs inject"
        )
        lines.append(f"bisection {half} (one way)")
    for line in lines:
        console.print(Text(line))
    _print_facts(console, d)
    _print_ways(console, result)
    _print_together(console, result)
    _remarks(console, result, with_head=False)


def _print_facts(console: Terminal, described: Described) -> None:
    console.print()
    sources = list(dict.fromkeys(f.source for f in described.facts))
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("number", overflow="fold")
    table.add_column("value", overflow="fold")
    table.add_column("source", justify="right")
    table.add_column("")
    for f in described.facts:
        table.add_row(
            Text(f.what),
            Text(f.value),
            f"{sources.index(f.source) + 1}",
            Text("" if f.nature == "cited" else f.nature, "yellow"),
        )
    console.print(table)
    console.print()
    for k, source in enumerate(sources):
        console.note(f"{k + 1:>2}  {source}")


def _print_ways(console: Terminal, result: Fabric) -> None:
    """Print bandwidth and latency of the routes to GPUs (to hosts where there are none)."""
    ways = {(w.source, w.target): w for w in result.ways}
    ends = list(dict.fromkeys(w.source for w in result.ways))
    targets = [e for e in ends if e.startswith("gpu")] or ends
    if len(ends) < 2:
        return
    shown = targets[:_WIDE]
    sections: list[tuple[str, Callable[[Way], str]]] = [
        (
            "bandwidth of the narrowest wire [GB/s], from (down) to (across)",
            lambda w: f"{w.bandwidth / 1e9:.4g}" if w.wires else "-",
        ),
        (
            "latency [us] / wires, the same ways",
            lambda w: f"{w.seconds / 1e-6:.3g}/{len(w.wires)}" if w.wires else "-",
        ),
    ]
    for what, cell in sections:
        console.print()
        console.note(what, "italic")
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 0, 0, 1))
        table.add_column("", no_wrap=True)
        for end in shown:
            table.add_column(Text(end), justify="right", no_wrap=True)
        rows = [(source, [cell(ways[source, target]) for target in shown]) for source in ends]
        for _, alike in groupby(rows, key=lambda row: (row[0].split()[0], row[1])):
            names, cells = zip(*alike, strict=True)
            table.add_row(
                Text(names[0] if len(names) == 1 else f"{names[0]} to {names[-1].split()[-1]}"),
                *cells[0],
            )
        console.print(table)
    if len(targets) > len(shown) or result.left_out:
        more = len(targets) - len(shown)
        console.note(
            f"{more} more columns, {result.left_out} parts left out; --format json has "
            f"{len(result.ways)} ways"
        )


def _print_together(console: Terminal, result: Fabric) -> None:

    if not result.together:
        return
    console.print()
    console.note("all at once: what the worst placed gets", "italic")
    table = unframed("who", "alone", "together", "shared by", "wire", words=("who", "wire"))
    for t in result.together:
        table.add_row(
            t.what, show(t.alone, "B/s"), show(t.bandwidth, "B/s"), str(t.sharing), Text(t.wire)
        )
    console.print(table)


def _all_remarks(console: Terminal, result: list[Fabric]) -> None:
    for each in result:
        _remarks(console, each)


def _remarks(console: Terminal, result: Fabric, *, with_head: bool = True) -> int:
    """Print the remarks on doubtful facts, and return their number."""

    from turnbuckle.mpi.questions.fabric.question import remarks

    listed = remarks(result)
    if with_head:
        d = result.described
        console.print(
            Text.assemble(
                (d.name, "bold"),
                f"  {len(d.facts)} numbers, {len(listed)} remark{'s' if len(listed) != 1 else ''}",
            )
        )
    elif listed:
        console.print()
    for line in listed:
        console.note(f"  {line}" if with_head else line, "yellow")
    return len(listed)
