"""The annex: machine files in full with their sources, command line, provenance."""

from __future__ import annotations

import json
from typing import Any

from turnbuckle.machine import Machine
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.show.machine_table import machine_table
from turnbuckle.show.target_table import COUPLING_WORDS
from turnbuckle.show.text import clean, shorten


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
            "host and device "
            f"{'share one memory' if m.memory_shared.value else 'have separate memories'} "
            f"({clean(m.memory_shared.source)})"
        )
    if m.sha256:
        about.append(f"SHA-256 of the file {clean(m.sha256)}")
    return {
        "name": clean(m.name),
        "title": clean(m.title),
        "summary": clean(m.summary),
        "role": role,
        "about": about,
        "table": machine_table(m),
    }
