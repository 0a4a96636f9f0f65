"""The annex: machine files in full with their sources, command line, provenance."""

from __future__ import annotations

import json
from typing import Any

from turnbuckle.machine import Machine, Parameter, schema
from turnbuckle.machine.parameter_names import ParameterName
from turnbuckle.projection.run import Answer
from turnbuckle.show.table import Cell, Table, cells
from turnbuckle.show.target_table import COUPLING_WORDS
from turnbuckle.show.text import DASH, clean, number, percent, shorten


def annex_section(answer: Answer) -> dict[str, Any]:
    """Return machine files in full, command line and provenance."""
    machines = [_machine(answer.run.source, "source machine, as observed")]
    seen = {(answer.run.source.name, answer.run.source.sha256)}
    for m in answer.targets:
        if m is not answer.run.source and (m.name, m.sha256) not in seen:
            seen.add((m.name, m.sha256))
            machines.append(_machine(m, "target"))
    return {
        "machines": machines,
        "command": shorten(clean(answer.run.command), 600),
        "provenance": json.dumps(answer.provenance(), indent=2, ensure_ascii=True, default=str),
    }


def _machine(m: Machine, role: str) -> dict[str, Any]:
    about = [f"coupling: {COUPLING_WORDS.get(m.coupling, m.coupling)}"]
    if m.year:
        about.append(f"first used {m.year}")
    if m.memory_shared is not None:
        about.append(
            f"host and device {'share one memory' if m.memory_shared.value else 'have separate memories'} ({clean(m.memory_shared.source)})"
        )
    if m.sha256:
        about.append(f"SHA-256 of the file {clean(m.sha256)}")
    if m.relative:
        rows = [_parameter(c.parameter, word, part) for c in m.changes for word, part in c.parts().items()]
        head = ["parameter", "change", ">value", ">error", "nature", "source", "note"]
        caption = (
            "Changes to the source machine: set replaces, then scale multiplies, add adds, limit caps; assume stands in "
            "where the source gives no value."
        )
    else:
        order = {name: i for i, name in enumerate(schema())}
        rows = [_parameter(n, None, p) for n, p in sorted(m.parameters.items(), key=lambda kv: order.get(kv[0], 0))]
        head = ["parameter", ">value", ">error", "nature", "source", "note"]
        caption = "Every number with its relative error (one standard deviation), nature and source."
    return {
        "name": clean(m.name),
        "title": clean(m.title),
        "summary": clean(m.summary),
        "role": role,
        "about": about,
        "table": Table(caption, head, rows, kind="machine") if rows else None,
    }


def _parameter(name: ParameterName, word: str | None, p: Parameter) -> list[Cell]:
    meaning = schema()[name].meaning
    value = number(p.value, p.unit, 4)
    first = [Cell(name, meaning, tone="code"), *([Cell(word)] if word is not None else [])]
    return [*first, *cells(value, percent(p.error, 2) if p.error else DASH, p.nature, clean(p.source), clean(p.note) or DASH)]
