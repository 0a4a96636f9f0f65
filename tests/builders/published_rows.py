"""Rows of the papers as they were recorded, what differs from them, and papers that print something
else.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from turnbuckle.papers.numbers import Paper, Recomputed

#: Rows that rest on a formula or a reading that no paper prints, or compare a number with itself;
#: the shared table has no star there.
STARRED = (
    *(
        "R.T2.Castro",
        "R.T6.Push",
        "R.T6.x5",
        "R.T12.Castro",
        "R.T12.MFIX",
        "R.T12.PeleC",
        "R.T12.WarpX",
        "R.AGO.HACC",
        "R.eq10.bw",
    ),
    *("G.leaf", "G.SW4.32", "G.SW4.256", "G.MS.32", "G.MS.256", "S.T1.20"),
)


#: Rows whose text the shared table words in another way; the texts of the ECP report are those of
#: the table, but for these.
WORDED = re.compile(r"[NAGS]\..+|R\.CXL\.(ts|scan)")
#: Rows whose interval is made as in the shared table.
SAME_ENDS = re.compile(r"R\.(T6|5\.4|8\.4)\..+")


def recorded(shared: Path) -> dict[str, dict[str, str]]:
    """Return the rows of the shared table, by their ids."""
    with (shared / "reference" / "published.csv").open(encoding="utf-8", newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def misprint(
    monkeypatch: pytest.MonkeyPatch, paper: Paper, texts: Mapping[str | tuple[str, str], str]
) -> None:
    """Let `paper` print something else: `texts` has a new text for an old one, or for a subject and
    a quantity.
    """
    said = (
        s._replace(text=texts.get((s.subject, s.quantity), texts.get(s.text, s.text)))
        for s in paper.all
    )
    monkeypatch.setitem(paper.__dict__, "all", tuple(said))


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
    out = (
        []
        if row.verdict == verdict_of(golden)
        else [f"{row.id}: {row.verdict}, recorded {verdict_of(golden)}"]
    )
    value = number(golden["recomputed"])
    if value is not None and not (
        isinstance(row.recomputed, float) and row.recomputed == pytest.approx(value, rel=2e-3)
    ):
        out.append(f"{row.id}: {row.recomputed}, recorded {value}")
    if (
        value is None
        and not WORDED.fullmatch(row.id)
        and (row.recomputed or "-") != golden["recomputed"]
    ):
        out.append(f"{row.id}: {row.recomputed!r}, recorded {golden['recomputed']!r}")
    if (paper := number(golden["paper"])) is not None and number(row.printed) != paper:
        out.append(f"{row.id}: the paper prints {paper}, not {row.printed}")
    if (deviation := number(golden["rel_dev"])) is not None and row.deviation not in (
        None,
        pytest.approx(deviation, abs=2e-3),
    ):
        out.append(f"{row.id}: {row.deviation} beside the paper, recorded {deviation}")
    if value is not None and row.low is not None and row.high is not None:
        wide = 1e-3 * abs(value)
        out += (
            []
            if row.low - wide <= value <= row.high + wide
            else [f"{row.id}: {value} is not within {row.low} and {row.high}"]
        )
    if SAME_ENDS.fullmatch(row.id) and (low := number(golden["lo"])) is not None:
        out += (
            []
            if (row.low, row.high) == pytest.approx((low, float(golden["hi"])), rel=1e-6)
            else [f"{row.id}: {row.low} to {row.high}"]
        )
    return out
