"""``turnbuckle machines``: list, show, check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.text import Text

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.fields import SCHEMA_VERSION
from turnbuckle.foundation.units import MANNER
from turnbuckle.foundation.units import show as quantity
from turnbuckle.machine import Machine, all_machines, load
from turnbuckle.machine.catalog import unchecked
from turnbuckle.machine.check import check as examine
from turnbuckle.show.machine_table import machine_table
from turnbuckle.show.terminal.console import Terminal
from turnbuckle.show.terminal.drawing import drawn
from turnbuckle.show.terminal.options import FormatOption
from turnbuckle.show.terminal.output import write_answer
from turnbuckle.show.terminal.tables import unframed

machines_app = App(
    name="machines",
    help=(
        "The machines Turnbuckle knows: list them, show one with all sources, check a file of "
        "your own."
    ),
)


def rows(machine: Machine) -> list[dict[str, Any]]:
    """Return a row for each number of a machine: parameter, change (empty for a plain value),
    value, unit, error, nature, source, note.
    """
    out = [{"parameter": n, "change": "", **_number(p)} for n, p in machine.parameters.items()]
    if machine.relative:
        out += [
            {"parameter": c.parameter, "change": word, **_number(p)}
            for c in machine.changes
            for word, p in c.parts().items()
        ]
    return out


def _number(p: Any) -> dict[str, Any]:
    value = quantity(p.value, p.unit) if p.unit == MANNER else p.value
    return {
        "value": value,
        "unit": p.unit,
        "error": p.error,
        "nature": p.nature,
        "source": p.source,
        "note": p.note,
    }


def list_all(format: str) -> int:
    """Print one line for each machine."""
    listed = [
        {
            "name": m.name,
            "title": m.title,
            "coupling": m.coupling,
            "relative": m.relative,
            "year": m.year or None,
            "parameters": len(rows(m)),
            "sha256": m.sha256,
        }
        for m in all_machines()
    ]
    if format != "table":
        write_answer({"schema_version": SCHEMA_VERSION, "machines": listed}, listed, format, None)
    else:
        console = Terminal(highlight=False)
        for relative, title in (
            (False, "machines that stand alone"),
            (True, "changes to the machine a profile ran on"),
        ):
            table = unframed(
                "name",
                "coupling",
                "year",
                "what it is",
                words=("name", "coupling", "year", "what it is"),
                title=title,
            )
            for m in listed:
                if m["relative"] == relative:
                    table.add_row(
                        Text(str(m["name"]), style="bold"),
                        str(m["coupling"]),
                        str(m["year"] or ""),
                        str(m["title"]),
                    )
            console.print(table)
            console.print()
    return 0


def show(name: str, format: str) -> int:
    """Print one machine in full."""
    machine = load(name)
    numbers = rows(machine)
    if format != "table":
        about = {
            k: getattr(machine, k)
            for k in ("name", "title", "summary", "year", "coupling", "base", "chip", "sha256")
        }
        document = {**about, "copies_vanish": machine.copies_vanish, "parameters": numbers}
        write_answer({"schema_version": SCHEMA_VERSION, "machine": document}, numbers, format, None)
    else:
        console = Terminal(highlight=False)
        console.print(Text.assemble((machine.name, "bold"), f"  {machine.title}"))
        console.print(Text(machine.summary, style="dim"))
        if (table := machine_table(machine)) is not None:
            console.print(drawn(table))
        if machine.copies_vanish and machine.memory_shared:
            console.print(
                Text(
                    (
                        "one memory: copies between host and device vanish "
                        f"({machine.memory_shared.source})"
                    ),
                    style="dim",
                )
            )
    return 0


def check(files: list[Path]) -> int:
    """Check files, or the whole catalogue; name all remarks, then raise M020 if any is an error."""
    console = Terminal(highlight=False)
    machines = [unchecked(str(f)) for f in files] if files else list(all_machines())
    worst = 0
    for machine in machines:
        remarks = examine(machine)
        console.print(
            Text.assemble(
                (machine.name, "bold"), f"  {len(rows(machine))} numbers, {len(remarks)} remarks"
            )
        )
        for severity, parameter, message in remarks:
            console.print(
                Text(
                    f"  {severity}: {parameter}: {message}",
                    style="red" if severity == "error" else "yellow",
                )
            )
            worst += severity == "error"
    if worst:
        raise error_of("M020.values", count=worst)
    return 0


@machines_app.command(name="list")
def machines_list(*, format: FormatOption = "table") -> int:
    """List the machines."""
    return list_all(format)


@machines_app.command(name="show")
def machines_show(
    name: Annotated[str, Parameter(help="name or TOML file")], /, *, format: FormatOption = "table"
) -> int:
    """Show one machine: every number with its error, nature and source."""
    return show(name, format)


@machines_app.command(name="check")
def machines_check(
    files: Annotated[
        list[Path] | None, Parameter(help="TOML files; the whole catalogue if left out")
    ] = None,
    /,
) -> int:
    """Check machine files: units, sources, plausible values."""
    return check(files or [])
