"""Tables that `turnbuckle model functions`, `additive` and `integration` print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from turnbuckle.foundation.findings import Finding
from turnbuckle.foundation.units import show as quantity
from turnbuckle.papers.models.node.functions import CLASSES, NESTED, Functions
from turnbuckle.show.kernel_names import kernel_labels
from turnbuckle.show.terminal.cells import clean, ns, plain, seconds
from turnbuckle.show.terminal.console import Terminal
from turnbuckle.show.terminal.tables import print_findings, titled

#: Columns that the numbers of a table of functions take.
_NUMBERS: Final = 60
#: Classes as the report writes them.
_WORDS: Final = {"gpu": "GPU", "control": "control", "data": "data", "mpi": "MPI", "cpu": "CPU"}


def print_functions(console: Terminal, functions: Functions, top: int) -> None:
    """Print the longest functions of each class, the rest of it as one line, its sum, and both
    closure defects.
    """
    title = f"functions of a run of {ns(functions.run_time_ns)}"
    table = titled(console, title, "", "time", "calls", "average", "of run", "exposed", "of run")
    rows, classes = functions.table(), functions.classes()
    width = max(min(console.width - _NUMBERS, 60), 24)

    def line(name: Text | str, time_ns: int, calls: int, exposed_ns: int, style: str = "") -> None:
        average = ns(round(time_ns / calls)) if calls else "-"
        cells = (
            ns(time_ns),
            f"{calls:,}",
            average,
            f"{functions.share(time_ns):.1%}",
            ns(exposed_ns),
            f"{functions.exposed_share(exposed_ns):.1%}",
        )
        table.add_row(name, *cells, style=style)

    for term in CLASSES:
        class_rows = rows.filter(rows["class"] == term).to_dicts()
        if not class_rows:
            continue
        total = classes.filter((classes["class"] == term) & classes["call_class"].is_null()).row(
            0, named=True
        )
        line(Text(_WORDS[term]), total["time_ns"], total["calls"], total["exposed_ns"], "bold")
        shown = class_rows if len(class_rows) <= top + 1 else class_rows[:top]
        names = [row["function"] for row in shown]
        kernels = [name for name in names if term == "gpu" and not name.startswith(("[", "("))]
        short = dict(zip(kernels, kernel_labels(kernels, width - 6), strict=True))
        for label, row in zip((short.get(name, name) for name in names), shown, strict=True):
            mark = f" ({row['call_class']})" if row["call_class"] else ""
            name = Text.assemble(f"  {plain(label, width - len(mark))}", (mark, "dim"))
            line(name, row["time_ns"], row["calls"], row["exposed_ns"])
        if rest := class_rows[len(shown) :]:
            sums = [sum(r[c] for r in rest) for c in ("time_ns", "calls", "exposed_ns")]
            line(f"  {len(rest)} others", sums[0], sums[1], sums[2], "dim")
    every = functions.time_ns(*CLASSES)
    exposed = functions.run_time_ns - functions.exposed_defect_ns
    cells = (
        ns(every),
        "",
        "",
        f"{functions.share(every):.1%}",
        ns(exposed),
        f"{functions.exposed_share(exposed):.1%}",
    )
    table.add_row("sum", *cells, style="bold")
    defect = functions.closure_defect_ns
    table.add_row(
        "closure defect",
        _signed(defect * 1e-9),
        "",
        "",
        f"{functions.share(defect):+.1%}",
        ns(functions.exposed_defect_ns),
        "",
        style="dim",
    )
    console.print(table)
    console.print()
    spread = (
        ""
        if functions.processes == 1
        else f" over {functions.processes} processes; of run: of a mean process"
    )
    notes = [f"time: each call's own length, summed{spread}"]
    notes.append(
        "exposed: its part of one exclusive time line, in which kernels come before copies, "
        "MPI, calls and host code"
    )
    if functions.waits_ns:
        notes.append(
            f"calls that wait for the device hold {ns(functions.waits_ns)} of control: "
            "counted once more where the device works"
        )
    if (rows["call_class"] == NESTED).any():
        notes.append("(nested) calls run inside others: their time stands there, and is in no sum")
    for words in notes:
        console.note(words)


def _signed(value: float) -> str:
    return f"{'-' if value < 0 else '+' if value > 0 else ''}{seconds(abs(value))}"


def _closure(row: Mapping[str, Any]) -> str:
    """Return what the total leaves beside the sum; the last bits of a sum are nothing."""
    defect = row["closure_defect_seconds"]
    return _signed(defect if abs(defect) > 1e-9 * row["summed_seconds"] else 0.0)


def spoken_lambdas(lambdas: Mapping[str, float]) -> str:
    """Return the lambdas in words: ``data 10x better``."""
    return ", ".join(
        f"{name} {value:g}x better" if value >= 1 else f"{name} {1 / value:g}x worse"
        for name, value in lambdas.items()
    )


def ratio_words(row: Mapping[str, Any], suffix: str = "") -> tuple[str, str]:
    """Describe a ratio with its interval: the run gets so many times faster or slower."""
    benefit = row.get(f"benefit{suffix}")
    if benefit is None or benefit != benefit:
        return "-", ""
    what, word = ("benefit", "faster") if benefit >= 1 else ("penalty", "slower")
    key = f"{what}{suffix}"
    low, high = row.get(f"{key}_low"), row.get(f"{key}_high")
    return (
        f"{_digits(row[key])}x {word}",
        "" if low is None or high is None else f"[{_digits(low)}, {_digits(high)}]",
    )


def _digits(ratio: float) -> str:
    return f"{ratio:.3f}" if ratio < 1e4 else f"{ratio:.3g}"


def print_additive(
    console: Terminal,
    rows: Sequence[Mapping[str, Any]],
    lambdas: Mapping[str, float],
    findings: Sequence[Finding],
) -> None:
    """Print the applications of a table: sum against stated total, projected run time, and ratios
    over both.
    """
    title = f"additive model: {spoken_lambdas(lambdas)}"
    if rows and "scaled_share" in rows[0]:
        table = titled(console, title, "", "scaled share", "run gets", "interval")
        for row in rows:
            table.add_row(clean(row["name"]), f"{row['scaled_share']:.2%}", *ratio_words(row))
    else:
        table = titled(console, title, "", "sum", "defect", "then", "over", "run gets", "interval")
        for row in rows:
            defect = row["closure_defect_seconds"]
            stated = "-" if defect is None else _closure(row)
            cells = (seconds(row["summed_seconds"]), stated, seconds(row["projected_seconds"]))
            table.add_row(clean(row["name"], 40), *cells, "the sum", *ratio_words(row))
            if "benefit_over_stated" in row:
                table.add_row("", "", "", "", "the total", *ratio_words(row, "_over_stated"))
    console.print(table)
    console.print()
    if rows and "scaled_share" not in rows[0]:
        console.note(
            "defect: stated total less the sum of the five terms; over: what the run time of "
            "now is taken to be"
        )
        if any(row["waits_seconds"] for row in rows):
            console.note(
                "waits have no lambda and are counted once, as what they wait for: they are "
                "in the sum, not in the ratios"
            )
    console.note("intervals: the least and most that the digits of the table allow")
    print_findings(console, findings)


def print_readings(
    console: Terminal,
    rows: Sequence[Mapping[str, Any]],
    lambdas: Mapping[str, float],
    longest_allocation: float,
    findings: Sequence[Finding],
) -> None:
    """Print the readings of one recording, term by term."""
    table = titled(
        console, f"additive model: {spoken_lambdas(lambdas)}", "", *(row["name"] for row in rows)
    )
    summed = [row for row in rows if row["summed_seconds"] is not None]
    blank = [""] * (len(rows) - len(summed))
    for term in CLASSES:
        table.add_row(_WORDS[term], *(seconds(row[f"{term}_seconds"]) for row in summed), *blank)
    table.add_row("sum", *(seconds(row["summed_seconds"]) for row in summed), *blank, style="bold")
    table.add_row("total less sum", *map(_closure, summed), *blank, style="dim")
    table.add_row("then", *(seconds(row["projected_seconds"]) for row in rows))
    table.add_row("run gets", *(ratio_words(row)[0] for row in rows), style="bold")
    console.print(table)
    console.print()
    preset = (
        {10.0: "integrated", 0.1: "disaggregated"}.get(lambdas.get("data", 1.0))
        if lambdas.get("data") == lambdas.get("control")
        else None
    )
    asked = "" if preset is None else f" (as turnbuckle project --on ecp-{preset}-10x)"
    for words in (
        (
            "as the report: plain sums of calls; CPU is what they leave of the run time, 0 where "
            "they exceed it"
        ),
        (
            "waits once: the same without host calls that wait for the device, whose time stands "
            "there already"
        ),
        (
            "time line: each instant belongs to one class, and no wait is scaled (as turnbuckle "
            "project --model additive)"
        ),
        *(
            [
                (
                    "replay: a wait follows from what it waits for; an allocation changes by as "
                    f"much as an ordinary one{asked}"
                )
            ]
            if blank
            else []
        ),
        *(
            [
                (
                    f"longest allocation {seconds(longest_allocation)}: the first sets up the "
                    "context, which the replay keeps"
                )
            ]
            if blank
            else []
        ),
    ):
        console.note(words)
    print_findings(console, findings)


def print_integration(console: Terminal, document: Mapping[str, Any]) -> None:
    """Print the speed-ups by fractions, by stages, and the shares of a recording."""
    if "communication" in document:
        _print_shares(console, document)
    if rows := document.get("rows"):
        table = titled(
            console,
            "GPU-GPU integration by fractions",
            "",
            "communication",
            "p2p",
            "off node",
            "path",
            "speed-up",
            "interval",
            "at most",
        )
        for row in rows:
            shares = (
                f"{row[f'{name}_share']:.3g}" for name in ("communication", "p2p", "off_node")
            )
            interval = f"[{_digits(row['speedup_low'])}, {_digits(row['speedup_high'])}]"
            speedups = (
                f"{_digits(row['speedup'])}x",
                interval,
                f"{_digits(row['speedup_bound'])}x",
            )
            cells = (*shares, f"{row['bandwidth_ratio']:.4g}x", *speedups)
            table.add_row(clean(row["name"]), *cells)
        console.print(table)
        console.print()
        console.note(
            "collectives and on-node messages keep their time; at most: the new path costs nothing"
        )
    if document.get("fractions"):
        _print_fractions(console, document["fractions"])
    if stages := document.get("stages"):
        _print_stages(console, stages)
    if "communication" in document:
        console.note(_bytes_words(document["bytes_from"]))
    print_findings(console, (Finding(**f) for f in document.get("findings", ())))


def _print_shares(console: Terminal, document: Mapping[str, Any]) -> None:
    shares, placed = document["communication"], document["placement"]
    title = (
        f"MPI: {shares['communication_share']:.1%} of {seconds(shares['seconds'])} between "
        "MPI_Init and MPI_Finalize"
    )
    table = titled(console, title, "", "of MPI time", "calls")
    every = sum(f["seconds"] for f in shares["functions"]) or 1.0
    words = {
        "p2p": "point to point",
        "collective": "collectives with data",
        "synchronising": "barriers and the rest",
    }
    for what in words:
        share = shares[f"{what}_share"]
        functions = [f for f in shares["functions"] if f["what"] == what]
        table.add_row(
            words[what], f"{share:.1%}", f"{sum(f['calls'] for f in functions):,}", style="bold"
        )
        for f in functions[:4]:
            table.add_row(
                f"  {clean(f['function'], 40)}", f"{f['seconds'] / every:.1%}", f"{f['calls']:,}"
            )
    console.print(table)
    console.print()
    volume = quantity(shares["message_bytes"], "B")
    sent = (
        f"{shares['messages']:,} messages of {volume} in all, {shares['p2p_volume_share']:.1%} of "
        "the bytes sent"
    )
    now = "1 rank" if placed["ranks_per_node"] == 1 else f"{placed['ranks_per_node']} ranks"
    recorded = "1 rank" if shares["ranks"] == 1 else f"{shares['ranks']} ranks"
    sent = f"{recorded} of {shares['world_ranks']} recorded: {sent}"
    where = (
        f"{now} a node now, {placed['gpus_per_node']} on the new node, placed {placed['mapping']}"
    )
    if placed["least_size_bytes"]:
        where += f"; bandwidth limits what has {quantity(placed['least_size_bytes'], 'B')} or more"
    console.note(f"{sent}; {where}")
    console.print()


def _bytes_words(source: str | None) -> str:
    """Describe the bound of a gain by the bytes of its messages, and the gain by the shares of MPI
    time alone.
    """
    if source is None:
        return (
            "at most: MPI time holds waits for late ranks and latencies, which no bandwidth "
            "shortens; give --old-path and --new-path"
        )
    by = {"paths": "on the stated path", "recording": "by the quickest recorded message"}.get(
        source, "by the quicker of path and recording"
    )
    return (
        f"what the bytes take: {by}; the rest of MPI time is waits for late ranks and latencies, "
        "which no bandwidth shortens"
    )


def _print_fractions(console: Terminal, fractions: Mapping[str, Any]) -> None:
    table = titled(
        console,
        "more GPUs on a node: off-node messages that come to stay on it",
        "",
        "of the bytes",
        "speed-up",
    )
    table.add_row("leave the node now", f"{fractions['off_node_share']:.1%}", "")
    faster, moved = f"{fractions['bandwidth_ratio']:.4g}x faster", f"{fractions['moved_share']:.1%}"
    if (speedup_of_bytes := fractions["speedup_of_bytes"]) is not None:
        table.add_row(
            f"stay on the new node, {faster}, by their bytes", moved, f"{speedup_of_bytes:.3f}x"
        )
        table.add_row(
            "the same, were all their MPI time transfer", "", f"{fractions['speedup']:.3f}x"
        )
    else:
        table.add_row(f"stay on the new node, {faster}", moved, f"{fractions['speedup']:.3f}x")
    table.add_row("and were their path free", "", f"{fractions['speedup_bound']:.3f}x")
    table.add_row(
        f"and all on one node, {faster}",
        f"{fractions['off_node_share']:.1%}",
        f"{fractions['speedup_all_on_node']:.3f}x",
    )
    console.print(table)
    console.print()


def _print_stages(console: Terminal, stages: Mapping[str, Any]) -> None:
    table = titled(
        console,
        f"a faster node: {stages['on_node_factor']:g}x the bandwidth on it",
        "",
        "of run time",
        "stages on the node",
    )
    for part in stages["parts"]:
        table.add_row(
            "limited by bandwidth",
            f"{part['share']:.2%}",
            f"{part['on_node']:.3g} of {part['stages']:g}",
        )
    console.print(table)
    console.print()
    low, high = stages.get("run_time_share_low"), stages.get("run_time_share_high")
    interval = "" if low is None else f" [{low:.2%}, {high:.2%}]"
    readings = [("run time then", "")]
    if stages.get("gain_of_bytes") is not None:
        readings = [
            ("by what the bytes take, run time then", "_of_bytes"),
            ("were all that MPI time transfer,", ""),
        ]
    for words, of in readings:
        console.print(
            f"{words} {stages[f'run_time_share{of}']:.3%}{interval} of now: "
            f"{stages[f'gain{of}']:.2%} more done"
        )
        then, more = stages[f"run_time_share{of}_all_on_node"], stages[f"gain{of}_all_on_node"]
        console.print(f"with every stage on the node {then:.3%}: another {more:.2%}, at most")
    console.note(
        "a collective is a binary tree whose stages all take the same time, a message one stage"
    )
