"""Terminal output of ``turnbuckle calibrate``: measured and inherited parameters, and errors of the
fits at held-out sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from turnbuckle.foundation.units import show as quantity
from turnbuckle.machine import Machine, Parameter, ParameterName
from turnbuckle.machine.machine import schema
from turnbuckle.questions.calibrate.calibration import NINETY, QUANTITIES, Calibration, Estimate
from turnbuckle.show.terminal.cells import plain
from turnbuckle.show.terminal.console import Terminal
from turnbuckle.show.terminal.tables import print_findings, unframed

#: Columns of a terminal in which a table also says where each number is from; below, that follows
#: the table.
_WIDE = 110


def emit(answer: Calibration, output: Path | None, kept: Path | None) -> None:
    """Print the tables on stdout, and the files that were written."""
    console = Terminal(highlight=False)
    show(console, answer)
    for path in (kept, output):
        if path is not None:
            console.print(Text(str(path)))


def show(console: Console, answer: Calibration) -> None:
    """Print what was measured and what the base gives."""
    devices = ", ".join(answer.devices) or "device not named"
    drivers = ", ".join(answer.drivers)
    console.print(
        Text.assemble(
            (_plain(devices), "bold"),
            f"  driver {_plain(drivers)}" if drivers else "  driver not named",
        )
    )
    for origin in answer.origins:
        console.print(
            Text(
                (
                    f"{_plain(origin.file)}  {origin.tool}, file of {origin.date}, sha256 "
                    f"{origin.sha256[:16]}"
                ),
                "dim",
            )
        )
    console.print()
    if answer.parameters:
        _estimates(console, "parameters of the machine file", answer.parameters)
    else:
        console.print(Text("no parameter of a machine file was measured", "yellow"))
        console.print()
    unnamed = [
        e for e in answer.others if e.name not in schema() and not e.name.startswith("rate.")
    ]
    if unnamed:
        _estimates(console, "also measured, but not a parameter of machine files", unnamed)
    if answer.fits:
        _fits(console, answer)
    if answer.surface:
        _surface(console, answer)
    if answer.base is not None:
        names = ", ".join(answer.inherited) or "nothing"
        console.print(Text(f"not measured, taken from {_plain(answer.base.name)}: {names}"))
        if answer.stranger:
            base_names = ", ".join(answer.base.recognise)
            console.print(
                Text(
                    (
                        f"the base is {_plain(base_names)}, the files name "
                        f"{_plain(answer.stranger)}: numbers of another machine are mixed in"
                    ),
                    "yellow",
                )
            )
    else:
        console.print(
            Text(
                "not measured, and absent from the machine file: everything else; --base "
                "MACHINE gives it"
            )
        )
    print_findings(console, answer.findings)


def _plain(text: str, most: int = 120) -> str:
    return plain(text, most)


def _value(value: float, unit: str) -> str:
    return quantity(value, unit, 4)


def _estimates(console: Console, title: str, estimates: Sequence[Estimate]) -> None:
    console.print(Text(title, "italic"))
    wide = console.width >= _WIDE
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("name", "value", "90 % range", *(["from"] if wide else [])):
        table.add_column(
            column, overflow="fold", no_wrap=column in ("name", "value"), justify="left"
        )
    explanations = []
    for e in estimates:
        low, high = e.interval
        between = f"{_value(low, e.unit)} to {_value(high, e.unit)}" if e.error else "as stated"
        words = Text(
            _plain("; ".join(w for w in (e.where, QUANTITIES.get(e.name, ""), e.note) if w), 400),
            "dim",
        )
        table.add_row(_plain(e.name), _value(e.value, e.unit), between, *([words] if wide else []))
        explanations.append(Text(f"{_plain(e.name)}: ", "dim") + words)
    console.print(table)
    for line in [] if wide else explanations:
        console.print(line)
    console.print()


def _fits(console: Console, answer: Calibration) -> None:
    console.print(
        Text(
            "fitted curves, and their error at sizes left out of the fit (half of them at a time)",
            "italic",
        )
    )
    table = unframed(
        "curve", "points", "lines", "latency", "rate", "as one line off", "held-out median", "worst"
    )
    for origin, f in answer.fits:
        name = f"{origin.file}: {f.curve.name}" if len(answer.fits) > 1 else f.curve.name
        rate = quantity(f.pieces[-1].rate, "B/s") if f.pieces[-1].rate < 1e18 else "no limit seen"
        held = (f"{f.held_median:.1%}", f"{f.held_worst:.1%}") if f.held_points else ("", "")
        counts, off = (
            (f"{len(f.curve.size_bytes)}", f"{len(f.pieces)}"),
            f"{f.used_median:.1%}, {f.used_worst:.0%} worst",
        )
        table.add_row(_plain(name), *counts, quantity(f.pieces[0].latency, "s"), rate, off, *held)
    console.print(table)
    console.print()


def _surface(console: Console, answer: Calibration) -> None:
    """Print the run time of the slack proxy over that without slack."""
    console.print(
        Text(
            (
                "slack proxy: time a turn by size of the matrices, threads and slack, over that "
                "without slack"
            ),
            "italic",
        )
    )
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("size", "threads", "slack", "time", "over none"):
        table.add_column(column, justify="right")
    bare = {(p["size"], p["threads"]): p["seconds"] for p in answer.surface if p["slack_s"] == 0}
    for p in answer.surface:
        none = bare.get((p["size"], p["threads"]))
        over = f"{p['seconds'] / none:.3f}x" if none else ""
        table.add_row(
            f"{p['size']:.0f}",
            f"{p['threads']:.0f}",
            quantity(p["slack_s"], "s"),
            quantity(p["seconds"], "s"),
            over,
        )
    console.print(table)
    console.print()


def emit_layer(
    fitted: Mapping[ParameterName, Parameter], layer: Machine, output: Path | None
) -> None:
    """Print the parameters of a remoting layer that were fitted to programs, and the path of the
    machine file that was written.

    The table has a row per parameter: value with unit, relative error, and the programs behind it.
    No file is written here.

    Parameters
    ----------
    fitted : parameters, as `turnbuckle.questions.calibrate.layer.calibrated` returns them.
    layer : machine that the other parameters are inherited from; only its name is printed.
    output : machine file that was written; None if there is none.
    """
    console = Terminal(highlight=False)
    table = unframed(
        "parameter",
        "value",
        "error",
        "from",
        words=("parameter", "from"),
        title="the layer, as measured",
    )
    for name, p in fitted.items():
        table.add_row(name, quantity(p.value, p.unit), f"{p.error:.1%}", _plain(p.note, 300))
    console.print(table)
    console.print(Text(f"not measured, taken from {_plain(layer.name)}: everything else", "dim"))
    if output is not None:
        console.print(Text(str(output)))


def emit_coupling(scales: Mapping[ParameterName, Parameter], output: Path | None) -> None:
    """Print by how much the coupling differs between two probes of one machine: a row per
    parameter, factor and 90 % range.

    Parameters
    ----------
    scales : factors, as `turnbuckle.questions.calibrate.coupling.factors` returns them.
    output : machine file that was written; None if there is none.
    """
    console = Terminal(highlight=False)
    columns = ("parameter", "times", "90 % range", "from")
    table = unframed(
        *columns,
        words=("parameter", "from"),
        title="the coupling, over the same machine without it",
    )
    for name, p in scales.items():
        low, high = (p.drawn(sign * NINETY).value for sign in (-1, 1))
        table.add_row(name, f"{p.value:.3f}x", f"[{low:.3f}, {high:.3f}]", _plain(p.note, 300))
    console.print(table)
    if output is not None:
        console.print(Text(str(output)))
