"""The GPUDirect study on a terminal: by message size, by node shape, links, and steps of the parameters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from turnbuckle.foundation.units import show
from turnbuckle.show.terminal.projections import plain, seconds
from turnbuckle.show.terminal.tables import titled

if TYPE_CHECKING:
    from turnbuckle.mpi.questions.gpudirect.question import GpuDirectStudy

_UNITS: Final = {"card_bandwidth": "B/s", "hop_seconds": "s", "copy_bandwidth": "B/s"}
_FASTER: Final = {"host copies": "hostcopy", "GPUDirect": "gpudirect", "neither": "neither"}
_PATHS: Final = {"hostcopy": "host copies", "gpudirect": "GPUDirect"}


def print_study(console: Console, found: GpuDirectStudy) -> None:
    """All parts, each under its title."""
    _sizes(console, found)
    _made_of(console, found)
    _links(console, found)
    _steps(console, found)


def _sizes(console: Console, found: GpuDirectStudy) -> None:
    shape = next((n for n in found.answered.shapes if found.classes(n)), None)
    between = shape is not None
    shape = found.answered.shapes[0] if shape is None else shape
    some = found.classes(shape, between=between)
    if not some:
        return
    console.print()
    where = "between nodes" if between else "inside a node"
    title = f"messages {where} one by one, {shape} a node: mean time of one, its copies included"
    columns = ("size from", "messages", "hostcopy", "gpudirect", "gain", "alone", "with waits", "faster")
    table = titled(console, title, *columns, words=("faster",))
    for c in some:
        table.add_row(
            show(c.low_bytes, "B"), f"{c.count:,}", seconds(c.hostcopy_seconds), seconds(c.gpudirect_seconds), f"{c.speedup:+.1%}",
            f"{c.alone_speedup:+.1%}", f"{c.elapsed_speedup:+.1%}", _FASTER[c.faster],
        )  # fmt: skip
    console.print(table)
    console.print(
        Text(
            "gain: host copies over GPUDirect, less 1; alone: by the closed forms, on an idle network; with waits: from the beginning of "
            "the sender's copy to the end of the receiver's, whoever is late",
            "dim",
        )
    )


def _made_of(console: Console, found: GpuDirectStudy) -> None:
    console.print()
    title = "what run times are made of"
    columns = ("a node", "cards", "path", "run time", "compute", "copies", "under way", "others")
    table = titled(console, title, *columns, words=("path",))
    for case in found.cases:
        row = case.row
        link = show(case.card_bandwidth, "B/s")
        if row.stuck:
            table.add_row(str(row.ranks_per_node), link, row.path, "stuck", *4 * [""])
            continue
        parts = (row.chain_compute_seconds, row.chain_copies_seconds, row.chain_network_seconds, row.chain_others_seconds)
        told = ["" if math.isnan(p) else seconds(p) for p in parts]
        table.add_row(str(row.ranks_per_node), link, row.path, seconds(row.seconds), *told)
    console.print(table)
    if not math.isnan(found.without_copies):
        free = f"if copies cost nothing, the run by host copies would be {found.without_copies:.2%} shorter ({found.at} a node)"
        console.print(Text(f"followed back from the end of the run: the parts add up to it; {free}", "dim"))


def _links(console: Console, found: GpuDirectStudy) -> None:
    from turnbuckle.mpi.questions.gpudirect.question import BOTH, FULL

    told = []
    for path in BOTH:
        row = found.case(found.at, path).row
        if row.busiest:
            told.append(f"busiest link by {_PATHS[path]}: {plain(row.busiest)}, {row.busiest_share:.2%} of the run ({found.at} a node)")
    never = []
    for s in found.saturations():
        which = _PATHS[s.path] + ("" if s.per == "node" else " with the bandwidth a GPU")
        if s.ranks_per_node is not None:
            told.append(f"cards by {which}: full from {s.ranks_per_node} ranks a node on (node {s.node})")
        else:
            never.append(f"{s.largest:.0%} by {which}")
    if never:
        told.append(f"cards that are never full are busy for at most {', '.join(never)}")
    if told:
        console.print()
        rule = f"a card is full where it is busy for more than {FULL:.0%} of the time in which its node communicates"
        console.print(Text(f"links: {rule}", "italic"))
        for line in told:
            console.print(Text(line))


def _steps(console: Console, found: GpuDirectStudy) -> None:
    from turnbuckle.mpi.questions.gpudirect.question import SEEDS, STEPS
    from turnbuckle.questions.sharing.differences import SPREAD

    console.print()
    if not found.slopes:
        console.print(Text("no steps of the parameters: too many operations to replay them all", "dim"))
        return
    title = f"a step of each parameter, {found.at} a node: run time for 1 % more of it"
    table = titled(console, title, "path", "parameter", "at", "median", "from", "to", "run time", words=("parameter", "run time"))
    for (path, name), d in found.slopes.items():
        share = 0.01 * abs(d.at) / d.seconds if d.at and d.seconds else 0.0
        at = show(d.at, _UNITS[name]) if name in _UNITS else f"{d.at:g}"
        table.add_row(path, name, at, *(f"{v * share:+.4%}" for v in (d.slope, *d.interval)), d.sign)
    console.print(table)
    told = (
        f"steps of {' and '.join(f'{h:.0%}' for h in STEPS)} to either side, in {len(SEEDS)} runs whose work is scattered by {SPREAD:.0%}, "
        "the same on both sides; runs that compete have no derivative: not stable means that steps disagree"
    )
    console.print(Text(told, "dim"))
