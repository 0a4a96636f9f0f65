"""Rows of the papers as they were recorded, and what differs from them."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from turnbuckle.papers.numbers import Recomputed

#: Rows that rest on a formula or a reading that no paper prints, or compare a number with itself; the shared table has no star there.
STARRED = (
    *("R.T2.Castro", "R.T6.Push", "R.T6.x5", "R.T12.Castro", "R.T12.MFIX", "R.T12.PeleC", "R.T12.WarpX", "R.AGO.HACC", "R.eq10.bw"),
    *("G.leaf", "G.SW4.32", "G.SW4.256", "G.MS.32", "G.MS.256", "S.T1.20"),
)


def recorded(shared: Path, families: re.Pattern[str]) -> dict[str, dict[str, str]]:
    with (shared / "reference" / "published.csv").open(encoding="utf-8", newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file) if families.fullmatch(row["id"])}


def number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def verdict_of(golden: dict[str, str]) -> str:
    """Verdict of a recorded row, with the star that it has here."""
    return golden["verdict"] + ("*" if golden["id"] in STARRED else "")


def agrees(row: Recomputed, golden: dict[str, str]) -> list[str]:
    """What differs between a row and the recorded one."""
    out = [] if row.verdict == verdict_of(golden) else [f"{row.id}: {row.verdict}, recorded {verdict_of(golden)}"]
    value = number(golden["recomputed"])
    if value is not None and not (isinstance(row.recomputed, float) and row.recomputed == pytest.approx(value, rel=2e-3)):
        out.append(f"{row.id}: {row.recomputed}, recorded {value}")
    if value is None and golden["recomputed"] != "-" and row.recomputed != golden["recomputed"]:
        out.append(f"{row.id}: {row.recomputed!r}, recorded {golden['recomputed']!r}")
    if (paper := number(golden["paper"])) is not None and number(row.printed) != paper:
        out.append(f"{row.id}: the paper prints {paper}, not {row.printed}")
    return out
