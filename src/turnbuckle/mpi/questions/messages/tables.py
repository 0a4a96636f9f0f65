"""Tables for a terminal: the GPUDirect study by message size, node shape, links and steps of the
parameters; and strong scaling.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from rich.text import Text

from turnbuckle.foundation.units import show
from turnbuckle.mpi.questions.gpudirect.question import BOTH, FULL, SEEDS, STEPS
from turnbuckle.mpi.questions.messages.link_use import link_words
from turnbuckle.questions.sharing.differences import SPREAD
from turnbuckle.show.terminal.cells import plain, seconds
from turnbuckle.show.terminal.console import Terminal
from turnbuckle.show.terminal.tables import titled

if TYPE_CHECKING:
    from turnbuckle.mpi.questions.gpudirect.question import GpuDirectStudy
    from turnbuckle.mpi.questions.messages.scaling import Law, Scaled

_UNITS: Final = {"card_bandwidth": "B/s", "hop_seconds": "s", "copy_bandwidth": "B/s"}
_FASTER: Final = {"host copies": "hostcopy", "GPUDirect": "gpudirect", "neither": "neither"}
_PATHS: Final = {"hostcopy": "host copies", "gpudirect": "GPUDirect"}


def print_study(console: Terminal, study: GpuDirectStudy) -> None:
    """Print all parts of the study, each under its title."""
    _sizes(console, study)
    _made_of(console, study)
    _links(console, study)
    _steps(console, study)


def _sizes(console: Terminal, study: GpuDirectStudy) -> None:
    """Print the times of messages by size."""
    shape = next((n for n in study.answered.shapes if study.classes(n)), None)
    between = shape is not None
    shape = study.answered.shapes[0] if shape is None else shape
    some = study.classes(shape, between=between)
    if not some:
        return
    console.print()
    where = "between nodes" if between else "inside nodes"
    title = (
        f"single messages {where}, {shape} rank{'s' * (shape > 1)} per node: mean time with copies"
    )
    columns = (
        "size from",
        "messages",
        "hostcopy",
        "gpudirect",
        "gain",
        "alone",
        "with waits",
        "faster",
    )
    table = titled(console, title, *columns, words=("faster",))
    for c in some:
        times = (seconds(c.hostcopy_seconds), seconds(c.gpudirect_seconds))
        gains = (f"{gain:+.1%}" for gain in (c.speedup, c.alone_speedup, c.elapsed_speedup))
        table.add_row(show(c.low_bytes, "B"), f"{c.count:,}", *times, *gains, _FASTER[c.faster])
    console.print(table)
    console.note(
        "gain: time by host copies over that by GPUDirect, less 1; alone: by the closed forms, "
        "on an idle network; with waits: from "
        "the begin of the sender's copy to the end of the receiver's, waiting included"
    )


def _made_of(console: Terminal, study: GpuDirectStudy) -> None:
    """Print the parts of the run times."""
    console.print()
    title = "parts of the run times"
    columns = (
        "ranks per node",
        "NICs",
        "path",
        "run time",
        "compute",
        "copies",
        "under way",
        "shared GPUs",
        "others",
    )
    table = titled(console, title, *columns, words=("path",))
    for case in study.cases:
        row = case.row
        link = show(case.card_bandwidth, "B/s")
        if row.stuck:
            table.add_row(str(row.ranks_per_node), link, row.path, "stuck", *5 * [""])
            continue
        parts = [
            getattr(row, f"chain_{part}_seconds")
            for part in ("compute", "copies", "network", "gpu", "others")
        ]
        cells = ["" if math.isnan(p) else seconds(p) for p in parts]
        table.add_row(str(row.ranks_per_node), link, row.path, seconds(row.seconds), *cells)
    console.print(table)
    if not math.isnan(study.without_copies):
        note = (
            f"if copies cost nothing, the run by host copies would be {study.without_copies:.2%} "
            f"shorter ({study.best_shape} per node)"
        )
        console.note(
            f"parts along the chain of waits that ends the run; they add up to the run time; {note}"
        )


def _links(console: Terminal, study: GpuDirectStudy) -> None:
    """Print the busiest links, and from how many ranks per node NICs are saturated."""
    lines = []
    for path in BOTH:
        row = study.case(study.best_shape, path).row
        if row.busiest:
            busy = f"{row.busiest_share:.2%} of the run ({study.best_shape} per node)"
            lines.append(
                f"busiest link by {_PATHS[path]}: {plain(link_words(row.busiest))}, {busy}"
            )
    below_threshold = []
    for s in study.saturations():
        condition = _PATHS[s.path] + ("" if s.per == "node" else " with the bandwidth per GPU")
        if s.ranks_per_node is not None:
            lines.append(
                f"by {condition} NICs are saturated from {s.ranks_per_node} "
                f"rank{'s' * (s.ranks_per_node > 1)} per node on (node {s.node})"
            )
        else:
            below_threshold.append(f"{s.largest:.0%} by {condition}")
    lines += [f"NICs are not saturated: busy for at most {', '.join(below_threshold)}"] * bool(
        below_threshold
    )
    if lines:
        console.print()
        rule = (
            f"a NIC counts as saturated when it is busy for more than {FULL:.0%} of its node's "
            "communication time"
        )
        console.note(f"links: {rule}", "italic")
        for line in lines:
            console.print(Text(line))


def _steps(console: Terminal, study: GpuDirectStudy) -> None:
    """Print the change of the run time with each parameter."""
    console.print()
    if not study.slopes:
        console.note("no steps of the parameters: too many operations to replay them all")
        return
    title = (
        f"steps of parameters, {study.best_shape} rank{'s' * (study.best_shape > 1)} per node: "
        "change of the run time for 1 % more"
    )
    table = titled(
        console,
        title,
        "path",
        "parameter",
        "at",
        "median",
        "from",
        "to",
        "run time",
        words=("parameter", "run time"),
    )
    for (path, name), difference in study.slopes.items():
        share = (
            0.01 * abs(difference.at) / difference.seconds
            if difference.at and difference.seconds
            else 0.0
        )
        value = show(difference.at, _UNITS[name]) if name in _UNITS else f"{difference.at:g}"
        table.add_row(
            path,
            name,
            value,
            *(f"{v * share:+.4%}" for v in (difference.slope, *difference.interval)),
            difference.sign,
        )
    console.print(table)
    note = (
        f"from steps of {' and '.join(f'{h:.0%}' for h in STEPS)} to either side, in {len(SEEDS)} "
        "runs whose work is scattered by "
        f"{SPREAD:.0%}, equally on both sides; not stable: steps disagree, as a run with "
        "contention has no derivative"
    )
    console.note(note)


def print_scaled(console: Terminal, answer: Scaled) -> None:
    """Print what a run does on another number of ranks, by its laws, with their errors beside those
    of two baselines.
    """
    console.note(answer.sentence, "bold")
    console.print()
    counts = answer.counts
    many = f"{answer.ranks:,}"
    title = f"a rank's share on {many} ranks, by laws through {', '.join(f'{n:,}' for n in counts)}"
    heads = (
        "quantity",
        "path",
        "per node",
        f"on {counts[-1]:,}",
        f"on {many}",
        f"{answer.level:.0%} range",
    )
    table = titled(console, title, *heads, words=("quantity", "path"))
    for law in answer.laws:
        value = _of(law, law.value) if law.word == "decided" else law.word
        ends = "" if math.isnan(law.low) else f"{_of(law, law.low)} to {_of(law, law.high)}"
        table.add_row(*_which(law), _of(law, law.recorded[counts[-1]]), value, ends)
    console.print(table)
    console.print()
    title = f"what is missed on {counts[-1]:,} ranks, from the smaller recordings"
    table = titled(
        console,
        title,
        "quantity",
        "path",
        "per node",
        "law",
        "missed",
        "repeated",
        "unchanged",
        words=("quantity", "path", "law"),
    )
    for law in answer.laws:
        table.add_row(
            *_which(law),
            law.form,
            *map(_error, (law.held_out, law.held_out_repeated, law.held_out_unchanged)),
        )
    console.print(table)
    console.note(
        f"repeated, unchanged: what repeating {counts[-2]:,} ranks on a larger grid misses, and "
        "taking them as they are. A law that "
        f"misses more than {answer.bound:.0%} is undetermined. The range is that of the fit, no "
        "narrower than what the law misses here; "
        "time between calls is the recording's"
    )


def _which(law: Law) -> tuple[str, str, str]:
    return law.quantity, law.path, str(law.ranks_per_node or "")


def _of(law: Law, value: float) -> str:
    """Return a value of a law with its unit."""
    if math.isnan(value):
        return ""
    return show(value, law.unit) if law.unit else f"{value:,.4g}"


def _error(share: float | None) -> str:
    return "" if share is None or not math.isfinite(share) else f"{share:+.1%}"
