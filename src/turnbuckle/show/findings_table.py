"""Findings as a table, for terminal and report alike: what was counted, what it means, what to do
about it.
"""

from __future__ import annotations

from collections.abc import Sequence

from turnbuckle.foundation.findings import Finding
from turnbuckle.show.table import Cell, Table, cells
from turnbuckle.show.text import DASH, clean, count


def findings_table(findings: Sequence[Finding]) -> Table | None:
    """Return a row for each finding, in the order given; None without any."""
    rows = [
        cells(
            severity_cell(f),
            f.severity,
            count(f.count),
            f.meaning,
            clean(f.detail) or DASH,
            what_to_do(f.advice),
        )
        for f in findings
    ]
    caption = (
        "Flaws of the recording and of its reading. Nothing is dropped silently: this table "
        "counts every flaw."
    )
    head = ["code", "severity", ">count", "meaning", "here", "what to do"]
    return (
        Table(
            caption, head, rows, kind="findings", title="findings", wide=("severity", "what to do")
        )
        if rows
        else None
    )


def severity_cell(f: Finding) -> Cell:
    """Return a code marked by its severity; the mark has a word too, for readers who see no
    colour.
    """
    return Cell(
        f.code, f.severity, tone={"error": "poor", "warning": "fair", "info": "soft"}[f.severity]
    )


def what_to_do(advice: str) -> str:
    """Return advice for a cell; a dash where nothing need be done."""
    return DASH if advice in ("", "none needed") else clean(advice)
