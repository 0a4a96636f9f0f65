"""What a suite looks like: tables, figures, the page, the workbook."""

from __future__ import annotations

import re
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import openpyxl
import pytest
from drawings import each_kind_once

import turnbuckle as tb
from turnbuckle.projection.projection import PARTS
from turnbuckle.questions.suite import sheet
from turnbuckle.questions.suite.answer import SELF, Suite
from turnbuckle.questions.suite.figures import figures, nearest_turn
from turnbuckle.questions.suite.page import page
from turnbuckle.questions.suite.portfolio import Estimate, Member, Offer, Portfolio
from turnbuckle.questions.suite.question import of_files
from turnbuckle.questions.suite.recorded_figures import panels
from turnbuckle.questions.suite.tables import flips_table, of_suite, titles
from turnbuckle.show.figures.figure import Figure, draw

EXAMPLES = Path(tb.__file__).parent / "examples"
HOSTILE = '=cmd|"/c calc"!A1<script>alert(1)</script>\x1b[31m'


@pytest.fixture(scope="module")
def suite() -> Suite:
    runs = [
        tb.read(EXAMPLES / f"{name}-like-synthetic.sqlite", use_cache=False)
        for name in ("milc", "dgemm")
    ]
    offers = (
        Offer(SELF, Estimate(1.1, 1.1), Estimate(900, 900), 100.0),
        Offer("gh200", Estimate(1.6, 2.0), Estimate(800, 1000), 50.0),
        Offer("nvlink-c2c", Estimate(1.3, 1.3)),
        Offer("cdi-row-link", Estimate(1.0, 1.05)),
    )
    members = (Member(HOSTILE, runs[0], 3.0, "lattice"), Member("dgemm", runs[1]))
    return of_files(Portfolio(members, offers, "the mix of " + HOSTILE), draws=60)


@pytest.fixture(scope="module")
def drawn(suite: Suite) -> dict[str, Figure]:
    return {f.name: f for f in draw(figures(suite))}


def test_tables_have_a_cell_for_every_column(suite: Suite) -> None:
    for short in (True, False):
        tables = of_suite(suite, short=short)
        assert len(tables) == 6
        for table in tables:
            assert {len(row) for row in table.rows} == {len(table.head)}, table.title


def test_a_terminal_and_a_document_show_the_nearest_turns_and_say_how_many_there_are(
    suite: Suite,
) -> None:
    many = replace(suite, flips=suite.flips * 9)
    whole = flips_table(many, titles(many))
    assert whole is not None and len(whole.rows) > 12 and "more" not in whole.caption, (
        "the page has them all"
    )
    for short, most in ((True, 8), (False, 10)):
        (turns,) = (
            t for t in of_suite(many, short=short) if t.title.startswith("what turns the ranking")
        )
        assert len(turns.rows) == most and turns.title.endswith(
            f"{most} nearest of {len(whole.rows)}"
        )
        assert (
            f" {len(whole.rows) - most} more, farther from today's share, are in the JSON document"
            in turns.caption
        )
        assert [row[4:6] for row in turns.rows] == [row[4:6] for row in whole.rows[:most]]


def test_a_terminal_has_what_work_costs_with_its_range_and_the_price_that_was_given(
    suite: Suite,
) -> None:
    short, whole = (
        {t.title.partition(":")[0]: t for t in of_suite(suite, short=brief)}
        for brief in (True, False)
    )
    for brief, full in zip(
        *(t["work of one node-hour of today"].rows for t in (short, whole)), strict=True
    ):
        assert [cell.text.partition(" [")[0] for cell in full[1:]] == [
            cell.text.partition(" [")[0] for cell in brief[1:]
        ]
        assert (
            "[" not in brief[1].text + brief[3].text and brief[2] == full[2] and brief[4] == full[4]
        )


def test_every_figure_is_drawn_and_its_numbers_are_those_of_the_answer(
    suite: Suite, drawn: dict[str, Figure]
) -> None:
    names = (
        "mix",
        "map",
        "parts",
        "premium",
        "turn",
        "kernels",
        "sizes",
        "copies",
        "window",
        "offload",
    )
    assert list(drawn) == [f"suite-{name}" for name in names]
    assert all(f.svg.startswith("<svg") for f in drawn.values())
    assert {r["target"]: r["value"] for r in drawn["suite-mix"].rows} == {
        m.target: m.node_hours.value for m in suite.mixes if m.target != SELF
    }
    for a in suite.applications:
        bars = [r for r in drawn["suite-parts"].rows if r["application"] == a.name]
        for target, penalty in ((SELF, 1.0), *((c.target, c.penalty.value) for c in a.cells)):
            parts = {r["part"]: r["ratio"] for r in bars if r["target"] == target}
            assert list(parts) == list(PARTS) and sum(parts.values()) == pytest.approx(
                penalty, rel=1e-12
            )


def test_kernels_and_copies_are_those_of_the_recordings(drawn: dict[str, Figure]) -> None:
    run = tb.read(EXAMPLES / "dgemm-like-synthetic.sqlite", use_cache=False).judged
    seconds = (run.trace.kernels["end_ns"] - run.trace.kernels["start_ns"]).to_numpy() * 1e-9
    row = next(r for r in drawn["suite-kernels"].rows if r["application"] == "dgemm")
    assert [row[k] for k in ("p5", "p50", "p95")] == pytest.approx(
        np.quantile(seconds, [0.05, 0.5, 0.95]).tolist()
    )
    assert (
        seconds[seconds < row["typical"]].sum()
        <= seconds.sum() / 2
        <= seconds[seconds <= row["typical"]].sum()
    )
    for direction in ("h2d", "d2h"):
        shown = sum(
            r["count"]
            for r in drawn["suite-copies"].rows
            if (r["application"], r["direction"]) == ("dgemm", direction)
        )
        assert shown == sum(
            f.bins["count"].sum() for (d, _), f in run.fits.items() if d == direction
        )


def test_what_was_recorded_is_what_inspect_says(suite: Suite, drawn: dict[str, Figure]) -> None:
    """One answer: the numbers of the figures and of the document are those of `inspect`, program by
    program.
    """
    for a, member in zip(suite.applications, suite.portfolio.members, strict=True):
        run = member.run(False, "")
        said, document = run.as_dict()["profile"], a.as_dict()["recorded"]
        copies = [said["copies"][way] for way in ("h2d", "d2h")]
        assert (document["launches"], document["copies"]) == (
            said["kernels"]["count"],
            sum(way["count"] for way in copies),
        )
        assert document["kernel_seconds"] == said["kernels"]["busy_ns"] * 1e-9
        assert document["copy_seconds"] == sum(way["busy_ns"] for way in copies) * 1e-9
        assert (
            document["window"]["kernels"] == said["kernels"]["union_ns"] / said["kernel_window_ns"]
        )
        kernels = said["offload"]["kernels"]
        assert len(kernels) == said["offload"]["distinct_kernels"]
        for ours, theirs in (("kernel_seconds", "kernel_s"), ("transfer_seconds", "transfer_s")):
            mean = sum(k[theirs] * k["count"] for k in kernels) / sum(k["count"] for k in kernels)
            assert document["offload"][ours] == pytest.approx(mean, rel=1e-12)
        bins = [r for r in drawn["suite-sizes"].rows if r["application"] == a.name]
        assert [r["count"] for r in bins] == [b["count"] for b in document["sizes"]] and sum(
            r["count"] for r in bins
        ) == document["copies"]
        (share,) = (r for r in drawn["suite-window"].rows if r["application"] == a.name)
        assert {k: share[k] for k in document["window"]} == document["window"]
        (dot,) = (r for r in drawn["suite-offload"].rows if r["application"] == a.name)
        both = document["offload"]["transfer_seconds"] + document["offload"]["launch_seconds"]
        assert (dot["kernel_seconds"], dot["transfer_and_launch_seconds"]) == (
            document["offload"]["kernel_seconds"],
            pytest.approx(both),
        )


def test_the_profile_overlays_the_sizes_of_one_program(suite: Suite) -> None:
    """Recordings of a group are in one panel, at most four; the others share panels; none is left
    out.
    """

    def arranged(groups: str) -> list[tuple[str, int]]:
        some = tuple(
            replace(suite.applications[k % 2], name=f"{k}", group=g.strip())
            for k, g in enumerate(groups)
        )
        drawn = panels(replace(suite, applications=some))
        assert sorted(a.name for _, few in drawn for a in few) == sorted(a.name for a in some)
        return [(group, len(few)) for group, few in drawn]

    assert arranged("aaaa") == [("a", 4)]
    assert arranged("ab a") == [("a", 2), ("b", 1), ("", 1)]
    assert arranged("     ") == [("", 3), ("", 2)]
    assert arranged("aaaaaaaaa") == [("a", 3), ("a", 3), ("a", 3)]


def test_a_recording_without_kernels_is_in_no_figure_of_kernels(suite: Suite) -> None:
    bare = replace(
        suite.applications[0].recorded,
        launches=0,
        durations=(),
        copies=0,
        window=None,
        offload=None,
        reached=(),
    )
    empty = replace(
        bare, sizes=replace(bare.sizes, counts=(0,) * 8, seconds=(0.0,) * 8, mean_bytes=None)
    )
    without = replace(
        suite, applications=tuple(replace(a, recorded=empty) for a in suite.applications)
    )
    assert [f.name for f in draw(figures(without))] == [
        f"suite-{name}" for name in ("mix", "map", "parts", "premium", "turn")
    ]
    assert len(of_suite(without)) == 5
    assert without.as_dict()["applications"][0]["recorded"]["window"] == dict.fromkeys(
        ("kernels", "one_core", "several_cores", "link", "peer", "launches")
    )


def test_lines_cross_where_the_ranking_turns(suite: Suite, drawn: dict[str, Figure]) -> None:
    turn = nearest_turn(suite)
    assert turn is not None and turn.flips_at is not None
    rows = drawn["suite-turn"].rows
    at = {
        target: [r["value"] for r in rows if r["series"] == target]
        for target in (turn.better, turn.worse)
    }
    better, worse = (ends[0] + turn.flips_at * (ends[1] - ends[0]) for ends in at.values())
    assert better == pytest.approx(worse, rel=1e-12)


def test_the_page_loads_nothing_and_says_the_answer(suite: Suite) -> None:
    text = page(suite)
    assert "default-src &#39;none&#39;" in text and not re.search(
        r"(?:src|href)=[\"']?https?:", text
    )
    assert "<script>alert" not in text and "\x1b" not in text and "SYNTHETIC" in text
    best = suite.ranked[0]
    assert f"{best.node_hours.value:.3f}" in text and text.count("<figure") == 10
    assert len(text) < 400_000


@pytest.mark.parametrize("alone", [True, False])
def test_a_page_of_one_program_without_prices_or_draws(suite: Suite, alone: bool) -> None:
    some = suite.portfolio.members[:1] if alone else suite.portfolio.members
    bare = of_files(Portfolio(some, (Offer("cdi-row-link"),)), draws=0)
    with each_kind_once():
        text = page(bare)
    assert (
        "No machine asked needs fewer node-hours" in text
        and "likely" not in text.partition("<section")[0]
    )


# --- the workbook ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def books(
    suite: Suite, tmp_path_factory: pytest.TempPathFactory
) -> tuple[openpyxl.Workbook, openpyxl.Workbook, Path]:
    path = sheet.write(suite, tmp_path_factory.mktemp("sheet") / "suite.xlsx")
    return openpyxl.load_workbook(path), openpyxl.load_workbook(path, data_only=True), path


def test_the_workbook_keeps_the_answer_beside_its_formulas(
    suite: Suite, books: tuple[openpyxl.Workbook, openpyxl.Workbook, Path]
) -> None:
    formulas, values, _ = books
    assert values.sheetnames == ["Mix", "Applications", "Ranges", "Turns", "Recorded", "Sources"]
    for k, f in enumerate(suite.flips):
        row = [cell.value for cell in values["Turns"][5 + k]]
        assert row[0] == f.by and row[4:] == [
            v if v is None else pytest.approx(v)
            for v in (f.share, f.flips_at, f.low, f.high, f.turns)
        ]
    for k, m in enumerate(suite.mixes):
        row = [cell.value for cell in values["Mix"][5 + k]]
        assert row[1:4] == pytest.approx(
            [m.node_hours.value, m.coupling_alone.value, m.throughput.value]
        )
        assert row[8] == (None if m.cost is None else pytest.approx(m.cost.value))
        assert row[10] == (None if m.energy is None else pytest.approx(m.energy.value / 3.6e6))
        if m.ssi is not None:
            assert row[5] == pytest.approx(m.ssi.raw.value)
            assert row[6] == (None if m.ssi.conformant is None else pytest.approx(m.ssi.conformant))
            assert row[11] == pytest.approx(suite.pair(m.target, SELF).premium.value)
    made = [
        cell.value
        for row in formulas["Mix"]["A5:M8"]
        for cell in row
        if str(cell.value).startswith("=")
    ]
    assert len(made) == 4 * 3 + 3 * 6


def test_the_workbook_has_what_was_recorded(
    suite: Suite, books: tuple[openpyxl.Workbook, openpyxl.Workbook, Path]
) -> None:
    formulas, values, _ = books
    for k, a in enumerate(suite.applications):
        row, r = [cell.value for cell in values["Recorded"][5 + k]], a.recorded
        assert row[1:4] == pytest.approx([r.kernel_seconds, r.copy_seconds, r.copy_share])
        assert row[4:11] == [r.copies, *r.sizes.table_iii, r.sizes.unsized] and row[11] == round(
            r.sizes.mean_bytes or 0
        )
        assert (
            formulas["Recorded"][f"D{5 + k}"].value
            == f"=IF((B{5 + k}+C{5 + k})>0,C{5 + k}/(B{5 + k}+C{5 + k}),0)"
        )


def test_formulas_ask_the_cells_that_the_reader_may_change(
    suite: Suite, books: tuple[openpyxl.Workbook, openpyxl.Workbook, Path]
) -> None:
    formulas = books[0]
    mix, applications = formulas["Mix"], formulas["Applications"]
    assert mix["B6"].value == "=SUMPRODUCT(Applications!$D$5:$D$6,Applications!$G$5:$G$6)"
    assert mix["C7"].value == "=SUMPRODUCT(Applications!$D$5:$D$6,Applications!$K$5:$K$6)"
    assert applications["D5"].value == "=C5/SUM($C$5:$C$6)"
    assert applications["G5"].value == pytest.approx(suite.applications[0].cells[0].penalty.value)
    assert applications["K5"].value == pytest.approx(
        suite.applications[0].cells[1].coupling_alone.value
    )
    assert mix["F6"].value.startswith(
        "=EXP(SUMPRODUCT(Applications!$D$5:$D$6,LN(Applications!$E$5:$E$6/Applications!$G$5:$G$6)))*"
    )
    assert (mix["L6"].value, mix["I6"].value) == ("=$B$5/B6-1", '=IF(ISNUMBER(H6),H6*B6,"")')


def test_names_of_recordings_are_texts_and_sources_are_all_there(
    suite: Suite, books: tuple[openpyxl.Workbook, openpyxl.Workbook, Path]
) -> None:
    formulas, values, path = books
    assert (
        formulas["Applications"]["A5"].data_type == "s"
        and "\\u{1b}" in formulas["Applications"]["A5"].value
    )
    with zipfile.ZipFile(path) as parts:
        assert not any(
            b"hyperlink" in parts.read(name) for name in parts.namelist() if "worksheets" in name
        )
    said = " ".join(str(cell.value) for row in values["Sources"].iter_rows() for cell in row)
    for a in suite.applications:
        assert a.provenance["profile"]["sha256"] in said
    assert "nersc.gov" in said and str(suite.seed) in said


def test_group_rows_and_mix_have_their_ranges(
    suite: Suite, books: tuple[openpyxl.Workbook, openpyxl.Workbook, Path]
) -> None:
    rows = [[cell.value for cell in row] for row in books[1]["Ranges"].iter_rows(min_row=5)]
    assert len(rows) == 3 * (2 + 1 + 1)
    last, mix = rows[-1], suite.mixes[-1]
    assert last[:2] == ["the mix", mix.target] and last[3:5] == pytest.approx(
        [mix.node_hours.low, mix.node_hours.high]
    )


def test_without_the_library_the_workbook_is_refused(
    suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    from refusals import refused

    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    refused("A450", sheet.write, replace(suite), tmp_path / "s.xlsx")
