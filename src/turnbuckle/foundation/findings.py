"""Counted flaws: what was dropped, repaired, missing or out of range.

A finding never stops the work; it travels with the answer and is printed with it.  The codes, their
severity and their meaning are data (``schema/findings.csv``), so the manual and the checks read the
same words as the program.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Literal

from turnbuckle.foundation.fields import Declared

Severity = Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding(Declared):
    """One counted flaw.

    Attributes
    ----------
    code : key into ``schema/findings.csv``.
    severity : ``warning`` where a number of an answer rests, or may rest, on something assumed,
        estimated, repaired or left out; ``info`` where it tells how the answer was made or what the
        file holds, and changes no number.
    detail : what it concerns here (a table, a column, a parameter); never text from the recorded
        process.
    """

    code: str
    severity: Severity
    count: int
    meaning: str
    detail: str = ""
    advice: str = ""


def _rows(name: str) -> list[dict[str, str]]:
    return list(
        csv.DictReader(
            (files("turnbuckle.foundation") / "schema" / f"{name}.csv")
            .read_text(encoding="utf-8")
            .splitlines()
        )
    )


@cache
def recording_advice(recorder: str = "") -> dict[str, str]:
    """Return what to record, by word: in the options of one recorder where ``schema/recorders.csv``
    has them, else in words for any.
    """
    rows = _rows("recorders")
    return {
        row["word"]: row["text"] for only in ("", recorder) for row in rows if row["format"] == only
    }


@cache
def register() -> dict[str, dict[str, str]]:
    """Return all findings: code -> {severity, meaning, advice}; the advice is for any recorder."""
    return {
        row["code"]: {**row, "advice": row["advice"].format_map(recording_advice())}
        for row in _rows("findings")
    }


@cache
def _advice() -> dict[str, str]:
    return {row["code"]: row["advice"] for row in _rows("findings")}


def advised(findings: Iterable[Finding], recorder: str) -> list[Finding]:
    """Return the same findings with advice for the recorder that wrote the recording
    (`turnbuckle.trace.recorders.recorder_of`).
    """
    return [
        replace(f, advice=_advice()[f.code].format_map(recording_advice(recorder)))
        for f in findings
    ]


def finding(code: str, count: int = 1, detail: str = "") -> Finding:
    """Build the finding `code`.  Raises `KeyError` for a code that the register does not hold."""
    row = register()[code]
    return Finding(code, row["severity"], int(count), row["meaning"], detail, row["advice"])  # type: ignore[arg-type]


def merge(findings: Iterable[Finding]) -> list[Finding]:
    """Return one finding per code: counts added, details joined, worst first and then by code."""
    by_code: dict[str, list[Finding]] = {}
    for f in findings:
        by_code.setdefault(f.code, []).append(f)
    rank = {"error": 0, "warning": 1, "info": 2}
    out = []
    for code, group in by_code.items():
        details = list(dict.fromkeys(f.detail for f in group if f.detail))
        shown = "; ".join(details[:6]) + (
            f"; and {len(details) - 6} more" if len(details) > 6 else ""
        )
        out.append(
            Finding(
                code,
                group[0].severity,
                sum(f.count for f in group),
                group[0].meaning,
                shown,
                group[0].advice,
            )
        )
    return sorted(out, key=lambda f: (rank[f.severity], f.code))
