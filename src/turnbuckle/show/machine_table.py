"""The numbers of a machine with their sources, for terminal and report alike."""

from __future__ import annotations

from turnbuckle.machine import Machine, Parameter, schema
from turnbuckle.machine.parameter_names import ParameterName
from turnbuckle.show.table import Cell, Table, cells
from turnbuckle.show.text import DASH, clean, number, percent


def machine_table(machine: Machine) -> Table | None:
    """Return a row for each number, or for each change of the source machine; None for a machine
    without any.
    """
    if machine.relative:
        rows = [
            _row(c.parameter, part, word)
            for c in machine.changes
            for word, part in c.parts().items()
        ]
        caption = (
            "Changes to the source machine: set replaces, then scale multiplies, add adds, limit "
            "caps; assume stands in where the "
        )
        caption += "source gives no value."
    else:
        order = {name: i for i, name in enumerate(schema())}
        rows = [
            _row(n, p)
            for n, p in sorted(machine.parameters.items(), key=lambda kv: order.get(kv[0], 0))
        ]
        caption = (
            "Every number with its relative error (one standard deviation), nature and source."
        )
    head = [
        "parameter",
        *(["change"] if machine.relative else []),
        ">value",
        ">error",
        "nature",
        "source",
        "note",
    ]
    return Table(caption, head, rows, kind="machine") if rows else None


def _row(name: ParameterName, p: Parameter, change: str = "") -> list[Cell]:
    first = [Cell(name, schema()[name].meaning, tone="code"), *([Cell(change)] if change else [])]
    error = percent(p.error, 2) if p.error else DASH
    return [
        *first,
        *cells(number(p.value, p.unit, 4), error, p.nature, clean(p.source), clean(p.note) or DASH),
    ]
