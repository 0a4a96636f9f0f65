"""Accuracy of earlier predictions of the kinds in a report: rows of the card that ships with this
version.
"""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from turnbuckle.projection.answers.answer import Answer
from turnbuckle.projection.uncertainty import LEVEL
from turnbuckle.questions.validate.card import FLOOR, MODEL_TITLES, TITLES, Group, shipped_groups
from turnbuckle.questions.validate.figures import ratios
from turnbuckle.questions.validate.measured.real_gpus import line, shipped_rows
from turnbuckle.questions.validate.question import Validation, shipped
from turnbuckle.show.table import Cell, Table, cells
from turnbuckle.show.text import DASH, NARROW, clean, percent

#: What the kinds of the card say to the reader of a projection.
WHY: Final = {
    "run time": "the whole question: a run recorded on one machine, predicted on another",
    "transfers": "copies priced on the other machine's file, as here",
    "pageable": "copies that the host stages, priced on the other machine's file, as here",
    "migrations": "moves of unified memory on a line fitted to another run",
    "launches": "launch calls and launch latency, kept or stated, as here",
    "kernels": "one ratio for all kernels, as here",
    "replay": "the order alone: the times of single kernels and copies were given",
    "noise": "no prediction: one run against another of the same configuration",
}


def accuracy_section(answer: Answer) -> dict[str, Any]:
    """Return the rows of the card that concern the question, their figure, and what is not
    validated.
    """
    validation = shipped()
    wanted = concerned(answer)
    groups = [g for g in shipped_groups() if (g.kind, g.model) in wanted]
    table = _table(groups) if groups else None
    rows = [
        r for r in validation.rows if (r.kind, r.model) in wanted and r.predicted and r.measured
    ]
    stated = [g for g in groups if g.stated and g.kind != FLOOR]
    held, all_of_them = (sum(getattr(g, name) for g in stated) for name in ("covered", "stated"))
    return {
        "table": table,
        "figures": [ratios(rows)] if rows else [],
        "held": f"{held} of {all_of_them}" if all_of_them else "",
        "level": f"{LEVEL:.0%}".replace("%", f"{NARROW}%"),
        "about": _about(validation),
        "real": line(shipped_rows()),
        "not_validated": list(validation.not_validated),
    }


def concerned(answer: Answer) -> set[tuple[str, str]]:
    """Return kind and model of the card's rows that say something about this answer."""
    if not answer.projections:
        return set()
    replay = answer.projections[0].replay
    by_memory = answer.model is not None and answer.model.alpha == "memory"
    asked = "projection, kernels by memory" if by_memory else "projection"
    out = {("run time", asked), ("transfers", "machine"), ("replay", replay), (FLOOR, "repeat")}
    have = answer.run.profile.has
    if "kernels" in have:
        out.add(("launches", "projection"))
    if any(p.alpha not in (None, 1.0) for p in answer.projections):
        out.add(("kernels", asked))
    words = set(
        answer.run.profile.activities["memory"].drop_nulls().cast(pl.String).unique().to_list()
    )
    if "pageable" in words:
        out.add(("pageable", "machine"))
    if answer.run.profile.of("migration").height:
        out.add(("migrations", "line"))
    return out


def _about(validation: Validation) -> str:
    cases = len({r.case for r in validation.rows} - {"(all)"})
    return (
        f"{len(validation.rows)} quantities of {cases} cases, computed on {clean(validation.day)} "
        f"with version {clean(validation.release)}"
    )


def _rounded(share: float) -> str:
    return f"{100 * share:.0f}{NARROW}%"


def _table(groups: list[Group]) -> Table:
    rows = []
    for g in groups:
        held = (
            DASH
            if g.low is None or g.high is None
            else f"{g.covered} of {g.stated} ({_rounded(g.low)} to {_rounded(g.high)})"
        )
        tone = "" if g.high is None or g.high >= LEVEL else "poor"
        counts = (
            MODEL_TITLES[g.model],
            str(g.cases),
            str(g.count),
            percent(g.median),
            percent(g.worst),
        )
        rows.append(cells(Cell(TITLES[g.kind], tone="strong"), *counts, Cell(held, tone=tone)))
    head = [
        "kind of question",
        "answered by",
        ">cases",
        ">quantities",
        ">median error",
        ">worst error",
        f">in the 90{NARROW}% range",
    ]
    caption = (
        "Errors of predictions of these kinds where the answer was measured: WMAPE over copies, "
        "otherwise the relative error. "
        f"In brackets: the 90{NARROW}% range of the coverage itself, if each case counts as one "
        "draw."
    )
    return Table(caption, head, rows, notes=[WHY.get(g.kind, "") for g in groups])
