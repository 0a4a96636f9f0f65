"""The section on changes to the program: the edits that save most, what each hangs on, and what the
targets save by themselves.
"""

from __future__ import annotations

from typing import Any, Final

from turnbuckle.foundation.errors import CannotAnswer
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.questions.whatif.figures import best
from turnbuckle.questions.whatif.question import WORTH, Gain, Whatif, of_run
from turnbuckle.show.table import Cell, Table
from turnbuckle.show.text import DASH, clean, percent

#: Edits and targets in the table, and instants up to which a report asks: it is to be there in
#: seconds.
_EDITS: Final = 4
_TARGETS: Final = 4
_INSTANTS: Final = 500_000


def changes_section(answer: Answer) -> dict[str, Any]:
    """Return the table of the edits that save most, and sentences; no table where the run cannot be
    asked or is too long for a report.
    """
    nothing: dict[str, Any] = {"table": None, "sentences": []}
    if answer.model is None or answer.model.machine_free:
        return nothing
    numbered = zip(answer.targets, answer.projections, strict=True)
    others = [m for m, p in numbered if m is not answer.run.source and not p.unknown][:_TARGETS]
    try:
        timeline = answer.run.ordered.timeline
        if timeline is None or len(timeline.graph.time_ns) > _INSTANTS:
            return nothing
        asked = of_run(answer.run, others, draws=0)
    except CannotAnswer:
        return nothing
    shown = best(asked, _EDITS)
    return {
        "table": _table(asked, shown) if shown else None,
        "sentences": [clean(line) for line in asked.beside()],
    }


def _table(asked: Whatif, shown: list[Gain]) -> Table:
    heads = [
        "edit",
        *(">here" if u.target == "self" else f">{clean(u.target)}" for u in asked.unchanged),
    ]
    none = [
        Cell("none: what the machine saves", tone="soft"),
        *(Cell(DASH if u.target == "self" else percent(u.share)) for u in asked.unchanged),
    ]
    rows = [
        [
            Cell(clean(g.title), full=clean(g.name)),
            *(_saved(g, k) for k in range(len(asked.unchanged))),
        ]
        for g in shown
    ]
    notes = ["", *(f"Needs: {clean(g.needs)}." for g in shown)]
    return Table(
        "Share of the run time that an edit saves, from its least to its most.",
        heads,
        [none, *rows],
        notes=notes,
    )


def _saved(gain: Gain, machine: int) -> Cell:
    least, most = gain.ends(machine)
    if abs(most - least) < WORTH:
        return Cell(percent(most))
    return Cell(f"{percent(least)} to {percent(most)}")
