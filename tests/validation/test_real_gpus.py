"""What has been held against real GPUs: its table is what the card and the fit hold, its line
stands on the first page, others can join.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import asdict, fields
from pathlib import Path

import numpy as np
import pytest

from turnbuckle.questions.validate.measured.real_gpus import least, shipped_rows
from turnbuckle.questions.validate.question import shipped

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "validation"))

import accuracy_page  # type: ignore[import-not-found]  # noqa: E402
import real_gpus  # type: ignore[import-not-found]  # noqa: E402
from real_gpus import Judged, joined, share  # type: ignore[import-not-found]  # noqa: E402


def test_the_line_stands_on_the_first_page_and_on_that_of_accuracy() -> None:
    line = real_gpus.line(real_gpus.tested(shipped()))
    for place in (ROOT / "README.md", accuracy_page.PAGE):
        assert place.read_text(encoding="utf-8").count(line) == 1, (
            f"python validation/accuracy_page.py renews {place.name}"
        )


def test_each_row_says_points_error_what_is_beside_it_and_how_to_make_it() -> None:
    for row in real_gpus.tested(shipped()):
        assert row.points and row.off and row.fitted and row.command
        assert row.nothing or row.simplest, f"{row.what}: an error alone says nothing"


def test_mlperf_and_other_tables_are_all_tables_and_none_twice() -> None:
    rows = {row.short: row for row in real_gpus.carded(shipped())}
    group = next(g for g in shipped().card if (g.kind, g.model) == ("tables", "projection"))
    assert (
        sum(int(rows[name].points) for name in ("programs of public tables", "MLPerf"))
        == group.count
    )


def test_a_row_is_of_the_cases_that_it_answers() -> None:
    """Pageable copies by data sheet stand beside peak bandwidth on the same cases, not on all that
    know a peak.
    """
    row = next(row for row in real_gpus.carded(shipped()) if row.short == "pageable copies")
    asked = {r.case for r in shipped().rows if (r.kind, r.model) == ("pageable", "datasheet")}
    peak = [
        r.off
        for r in shipped().rows
        if (r.kind, r.model) == ("pageable", "peak") and r.case in asked
    ]
    assert row.simplest == share(float(np.median(peak)))
    assert len(peak) < sum((r.kind, r.model) == ("pageable", "peak") for r in shipped().rows)


def test_nothing_measured_on_a_stand_in_is_called_a_gpu() -> None:
    kinds = {"distance", "bandwidth", "tolerance", "sharing", "remoting", "message delay"}
    asked = {r.case for r in shipped().rows if r.kind in kinds}
    assert asked and not any(row.what in kinds for row in real_gpus.carded(shipped()))


@pytest.fixture
def sums(tmp_path: Path) -> Path:
    """A file of sums through a layer, and one of points beside it."""
    (tmp_path / "remoting").mkdir()
    told = Judged(
        "remoting",
        "DNNs through a layer",
        "117",
        "0.013",
        "0.72",
        "0.151",
        "bytes over bandwidth",
        "101 of 117",
        "no",
        "python x.py",
    )
    with (tmp_path / "remoting" / "sums.csv").open("w", newline="", encoding="utf-8") as file:
        lines = csv.DictWriter(file, [field.name for field in fields(Judged)])
        lines.writeheader()
        lines.writerow(asdict(told))
    (tmp_path / "remoting" / "points.csv").write_text(
        "program,predicted,measured\nbfs,1,2\n", encoding="utf-8"
    )
    return tmp_path


def test_a_file_of_sums_joins_and_one_of_points_does_not(
    sums: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (row,) = joined(sums)
    assert (row.off, row.nothing, row.simplest) == ("1.3 %", "72 %", "15 %")
    assert row.cells()[4] == "bytes over bandwidth: 15 %"
    monkeypatch.setattr(
        real_gpus, "joined", lambda patterns=real_gpus.JOINED: joined(sums, patterns)
    )
    line = real_gpus.line(real_gpus.tested(shipped()))
    assert "off by 1.3 % (remoting, 117 points; 72 %) to " in line


def test_the_line_is_two_sentences_and_names_every_kind_that_is_no_nearer() -> None:
    """The first page has no room for twelve kinds; where nothing is gained, it says so."""
    rows = real_gpus.tested(shipped())
    first, rest = real_gpus.line(rows).split(". Not nearer: ")
    assert len(first) + len(rest) < 450 and f" in {len(rows)} kinds" in first
    worse = [row for row in rows if least(row.off) >= least(row.nothing or row.simplest)]
    assert [named.split(" (")[0] for named in rest.rstrip(".").split(", ")] == [
        f"{row.short} {row.off}" for row in worse
    ]
    assert f" in {len(rows) - len(worse)}: " in first


def test_the_rows_that_ship_are_those_that_are_made() -> None:
    """The report quotes them, and the card prints them, where nobody has the measurements."""
    assert list(shipped_rows()) == real_gpus.tested(shipped())
