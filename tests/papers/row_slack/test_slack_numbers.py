"""The slack study's numbers: verdicts follow from what is printed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from turnbuckle.papers.row_slack import binned_slack
from turnbuckle.papers.row_slack import numbers as slack_numbers
from turnbuckle.papers.row_slack.binned_slack import PAPER
from turnbuckle.papers.row_slack.numbers import recompute


def test_verdicts_follow_from_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misprint in the file is found: the verdicts are no list."""
    misprints = {"2048": "2049", "83": "84", "16.85": "185", "5:4": "4:5", "24": "25"}

    class Changed(type(PAPER)):  # type: ignore[misc]
        def texts(self, subject: str, quantity: str) -> dict[str, str]:
            return {at: misprints.get(text, text) for at, text in super().texts(subject, quantity).items()}

    monkeypatch.setattr(slack_numbers, "PAPER", Changed("row_slack/numbers"))
    verdicts = {r.id: r.verdict for r in recompute()}
    wanted = {
        "S.T1.80": "off",
        "S.T2.N13": "off",
        "S.T3.LAMMPS": "off",
        "S.5.ratio": "reproduced",
        "S.4A.24": "off",
        "S.T1.100": "reproduced",
    }
    assert {name: verdicts[name] for name in wanted} == wanted


def test_the_smallest_box_and_the_copy_rate_are_judged_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Changed(type(PAPER)):  # type: ignore[misc]
        def texts(self, subject: str, quantity: str) -> dict[str, str]:
            return {at: {"32": "33"}.get(text, text) for at, text in super().texts(subject, quantity).items()}

    monkeypatch.setattr(slack_numbers, "PAPER", Changed("row_slack/numbers"))
    points = binned_slack.table_two()
    monkeypatch.setattr(slack_numbers, "table_two", lambda: [replace(points[0], copy_seconds=points[0].copy_seconds / 3), *points[1:]])
    verdicts = {r.id: r.verdict for r in recompute()}
    assert (verdicts["S.T1.20"], verdicts["S.T2.bw"]) == ("off", "off")


def test_every_number_stands_in_the_paper(shared: Path) -> None:
    (paper,) = (shared / "seeds").glob("004_*.txt")
    text = paper.read_text(encoding="utf-8").replace(",", "").replace("{", "").replace("}", "")
    # 24 GPUs, 16 CPUs and the like are words in running text
    assert [p for p in PAPER.all if p.text not in text] == []
    for app, ends in (("LAMMPS", ("lower", "upper")), ("CosmoFlow", ("lower", "upper"))):
        for end in ends:
            assert "\t".join(PAPER.texts(app, f"total slack penalty, {end}").values()) in text
        assert "\t".join(PAPER.texts(app, "copies by size [MiB]").values()) in text


def test_what_the_paper_does_not_print_is_not_there() -> None:
    with pytest.raises(KeyError):
        PAPER.texts("LAMMPS", "share of kernels")
