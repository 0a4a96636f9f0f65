"""The slack study's numbers: verdicts follow from what is printed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from published_rows import misprint

from turnbuckle.papers.row_slack import binned_slack
from turnbuckle.papers.row_slack import numbers as slack_numbers
from turnbuckle.papers.row_slack.binned_slack import PAPER
from turnbuckle.papers.row_slack.numbers import recompute


def test_verdicts_follow_from_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misprint in the file is found: the verdicts are no list."""
    misprint(
        monkeypatch, PAPER, {"2048": "2049", "83": "84", "16.85": "185", "5:4": "4:5", "24": "25"}
    )
    verdicts = {r.id: r.verdict for r in recompute()}
    wanted = dict.fromkeys(("S.T1.80", "S.T2.N13", "S.T3.LAMMPS", "S.4A.24"), "off")
    wanted |= dict.fromkeys(("S.5.ratio", "S.T1.100"), "reproduced")
    assert {name: verdicts[name] for name in wanted} == wanted


def test_the_smallest_box_and_the_copy_rate_are_judged_too(monkeypatch: pytest.MonkeyPatch) -> None:
    points = binned_slack.table_two()
    misprint(monkeypatch, PAPER, {"32": "33"})
    monkeypatch.setattr(
        slack_numbers,
        "table_two",
        lambda: [replace(points[0], copy_seconds=points[0].copy_seconds / 3), *points[1:]],
    )
    verdicts = {r.id: r.verdict for r in recompute()}
    assert (verdicts["S.T1.20"], verdicts["S.T2.bw"]) == ("off", "off")


def test_rows_of_its_tables_stand_in_the_paper(shared: Path) -> None:
    (paper,) = (shared / "seeds").glob("004_*.txt")
    text = paper.read_text(encoding="utf-8").replace(",", "").replace("{", "").replace("}", "")
    for app, ends in (("LAMMPS", ("lower", "upper")), ("CosmoFlow", ("lower", "upper"))):
        for end in ends:
            assert "\t".join(PAPER.texts(app, f"total slack penalty, {end}").values()) in text
        assert "\t".join(PAPER.texts(app, "copies by size [MiB]").values()) in text


def test_what_the_paper_does_not_print_is_not_there() -> None:
    with pytest.raises(KeyError):
        PAPER.texts("LAMMPS", "share of kernels")
