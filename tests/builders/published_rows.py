"""Rows of the papers as they were recorded, and what differs from them."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from turnbuckle.papers.numbers import Recomputed


def recorded(shared: Path, families: re.Pattern[str]) -> dict[str, dict[str, str]]:
    with (shared / "reference" / "published.csv").open(encoding="utf-8", newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file) if families.fullmatch(row["id"])}


def number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def agrees(row: Recomputed, golden: dict[str, str]) -> list[str]:
    """What differs between a row and the recorded one."""
    out = [] if row.verdict == golden["verdict"] else [f"{row.id}: {row.verdict}, recorded {golden['verdict']}"]
    value = number(golden["recomputed"])
    if value is not None and not (isinstance(row.recomputed, float) and row.recomputed == pytest.approx(value, rel=2e-3)):
        out.append(f"{row.id}: {row.recomputed}, recorded {value}")
    if value is None and golden["recomputed"] != "-" and row.recomputed != golden["recomputed"]:
        out.append(f"{row.id}: {row.recomputed!r}, recorded {golden['recomputed']!r}")
    if (paper := number(golden["paper"])) is not None and number(row.printed) != paper:
        out.append(f"{row.id}: the paper prints {paper}, not {row.printed}")
    return out
