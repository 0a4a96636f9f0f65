"""Validation: case files are read or refused, measures are what they say, a card survives its way
through JSON.
"""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from scipy.stats import binom

from turnbuckle.examples import sample
from turnbuckle.foundation import registry
from turnbuckle.foundation.errors import CannotAnswer, TurnbuckleError
from turnbuckle.projection.run import Run
from turnbuckle.questions.distance.question import tolerate
from turnbuckle.questions.validate.card import (
    MODEL_TITLES,
    TITLES,
    in_words,
    shipped_groups,
    shipped_in_words,
)
from turnbuckle.questions.validate.cases import ASKS, clusters, find, read_case
from turnbuckle.questions.validate.question import (
    NotRun,
    Validation,
    coverage_interval,
    from_dict,
    shipped,
    validate,
)
from turnbuckle.questions.validate.rows import KINDS, Data, Row

CURVE = "direction, memory, size [B], time [us]\n" + "".join(
    f"h2d, pinned, {n}, {2 + n / 25e3}\n" for n in (1, 100, 10_000, 1_000_000, 100_000_000)
)


def case_at(folder: Path, text: str, name: str = "one", **files: str) -> Path:
    """A case folder with its file, and files beside it."""
    place = folder / name
    place.mkdir(parents=True)
    (place / "case.toml").write_text(text, encoding="utf-8")
    for called, content in files.items():
        (place / f"{called}.csv").write_text(content, encoding="utf-8")
    return place


def asking(question: str, a: str = "./a.csv", b: str = "./b.csv", more: str = "") -> str:
    return f'title = "t"\n{more}[a]\nfile = "{a}"\n[b]\nfile = "{b}"\n[[ask]]\n{question}\n'


def found(folder: Path, text: str, data: Path | None = None, **files: str) -> Validation:
    return validate([read_case(case_at(folder, text, **files))], data)


def row(
    predicted: float,
    measured: float,
    low: float | None = None,
    high: float | None = None,
    case: str = "c",
    kind: str = "transfers",
) -> Row:
    return Row(case, kind, "line", "q", "s", predicted, measured, low, high)


def test_a_line_predicts_the_line_it_was_fitted_to(tmp_path: Path) -> None:
    other = CURVE.replace("h2d", "d2h")
    question = 'model = "line"\ndirection = "d2h"\nmemory = "pinned"\nfrom_direction = "h2d"'
    only, mean = found(tmp_path, asking(question), a=CURVE, b=other).rows
    assert mean.model == "mean" and mean.predicted == pytest.approx(only.measured), (
        "all bytes at the mean rate of the same sizes"
    )
    assert only.predicted == pytest.approx(only.measured, rel=1e-6) and only.wmape == pytest.approx(
        0.0, abs=1e-6
    )
    assert (only.kind, only.count, only.covered) == ("transfers", 5, True)


def test_a_case_of_a_part_is_about_that_part(tmp_path: Path) -> None:
    """A run's kernels beside those of the same program: the measured side is as long as the
    part.
    """
    for name in ("a", "b"):
        with sample() as path:
            shutil.copy(path, tmp_path / f"{name}.sqlite")
    sides = (
        'title = "t"\n[a]\nfile = "a.sqlite"\npart = "kernels"\n[b]\nfile = "b.sqlite"\n'
        'part = "kernels"\n[[ask]]\n'
    )
    rows = found(
        tmp_path / "cases", sides + 'model = "projection"\non = "cdi-row-link"\n', data=tmp_path
    ).rows
    part = Run.read(tmp_path / "a.sqlite", part="kernels", use_cache=False).profile.seconds
    assert next(r.measured for r in rows if r.quantity.startswith("run time")) == pytest.approx(
        part, rel=1e-9
    )
    for asked, code in (
        ('model = "line"\ndirection = "h2d"\n', "A417"),
        ('model = "repeat"\n', "A070"),
    ):
        refused(
            code,
            read_case,
            case_at(tmp_path / code, sides.replace("kernels", "the middle") + asked),
        )


def test_what_no_file_states_is_told_and_is_no_row_without_a_number(tmp_path: Path) -> None:
    """The file of `pvc` leaves out the rate that decides: what needs no answer is compared, and the
    rest says why not.
    """
    for name in ("a", "b"):
        with sample() as path:
            shutil.copy(path, tmp_path / f"{name}.sqlite")
    sides = 'title = "t"\n[a]\nfile = "a.sqlite"\n[b]\nfile = "b.sqlite"\n[[ask]]\n'
    answer = found(tmp_path / "cases", sides + 'model = "projection"\non = "pvc"\n', data=tmp_path)
    (left,) = answer.not_run
    assert left.code == "A362" and "A190 FP64 of pvc" in left.why
    assert answer.rows and all(math.isfinite(r.predicted or math.nan) for r in answer.rows)
    assert {r.model for r in answer.rows if r.kind == "run time"} == {
        "nothing"
    } and "launch counts" in {r.kind for r in answer.rows}


def test_large_copies_from_small_ones_use_nothing_above_the_limit(tmp_path: Path) -> None:
    bent = CURVE.replace(f"100000000, {2 + 100_000_000 / 25e3}", "100000000, 8002.0")
    question = 'model = "line"\ndirection = "h2d"\nup_to = "1 MB"'
    only, mean = found(tmp_path, asking(question), a=bent, b=bent).rows
    assert (mean.kind, mean.model, mean.covered) == (only.kind, "mean", None)
    assert only.predicted == pytest.approx(4002e-6, rel=1e-3) and only.measured == pytest.approx(
        8002e-6
    )
    assert only.error == pytest.approx(-0.5, abs=1e-3) and only.covered is False and only.count == 1


def test_sums_known_by_count_and_bytes_alone(tmp_path: Path) -> None:
    text = asking('model = "line"\ndirection = "h2d"') + (
        '[[measured]]\nwhat = "ten copies"\nvalue = "60 us"\nsource = "by hand"\n'
        'direction = "h2d"\ncount = 10\nsize = "1 MB"\n'
    )
    (only,) = found(tmp_path, text, a=CURVE, b=CURVE).rows
    assert (
        only.predicted == pytest.approx(60e-6, rel=1e-3)
        and only.quantity == "ten copies"
        and only.count == 10
    )


def test_the_data_sheet_takes_the_fixed_part_from_a_and_the_rest_from_the_link(
    tmp_path: Path,
) -> None:
    only, peak = found(
        tmp_path, asking('model = "datasheet"\non = "pcie3-x16"'), a=CURVE, b=CURVE
    ).rows
    assert (peak.kind, peak.model, peak.covered) == (only.kind, "peak", None) and (
        peak.predicted or 0.0
    ) < (only.predicted or 0.0)
    # 100 MB over PCIe 3 x16 take some 7.5 ms at best and 10 ms in the middle of what nodes reach;
    # B's own 25 GB/s is not asked
    assert 9e-3 < (only.predicted or 0.0) < 11e-3 and only.measured == pytest.approx(
        4.05e-3, rel=0.02
    )
    assert only.covered is False and only.low is not None and only.low < (only.predicted or 0.0)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ("title = 3", "one/case.toml:1:1"),
        ("colour = 'red'", "one/case.toml:1:1"),
        ("title = ", "one/case.toml"),
        ("[[a]]\nfile = 'x'", "one/case.toml"),
        ("[ask]\nmodel = 'line'", "one/case.toml"),
        ("[[ask]]\nmodel = 'lime'", "one/case.toml"),
        ("[[ask]]\nmodel = 'line'\non = 'x'", "one/case.toml"),
        ("[[ask]]\nmodel = 'line'\nup_to = '64'", "one/case.toml"),
        ("[[ask]]\nmodel = 'variant'\nphase = 0", "one/case.toml"),
        ("[[measured]]\nwhat = 'x'", "one/case.toml"),
        ("[b]\nfile = '../../etc/passwd'", "one/case.toml"),
        ("[b]\nfile = '/etc/passwd'", "one/case.toml"),
        ("a" + ".a" * 5000 + " = 1", "one/case.toml"),
        ("x = " + "[" * 3000, "one/case.toml"),
    ],
)
def test_flaws_of_a_case_file_are_told_with_their_place(
    tmp_path: Path, change: str, where: str
) -> None:
    text = (
        change
        if change.startswith(("title", "colour", "a.", "x ="))
        else f'title = "t"\n{change}\n'
    )
    with pytest.raises(TurnbuckleError) as told:
        read_case(case_at(tmp_path, text))
    assert told.value.code in (
        "A417",
        "A418",
        "U001",
        "U002",
        "U003",
    ) and told.value.where.startswith(where), told.value.lines()


def test_paths_out_of_the_data_folder_have_a_code_of_their_own(tmp_path: Path) -> None:
    for k, path in enumerate(("../x.csv", "/x.csv", "a/../../x", "C:/x", "a\\\\b", "a/**", "**x")):
        refused(
            "A418",
            read_case,
            case_at(tmp_path, asking('model = "line"\ndirection = "h2d"', a=path), f"case{k}"),
        )


def test_an_answer_does_not_predict_itself(tmp_path: Path) -> None:
    line = 'model = "line"\ndirection = "h2d"'
    for k, text in enumerate(
        (asking(line, b="./a.csv"), asking('model = "datasheet"\non = "pcie4-x16"', b="./a.csv"))
    ):
        error = _refused(lambda text=text, k=k: read_case(case_at(tmp_path, text, f"case{k}")))  # type: ignore[misc]
        assert error.code == "A417" and "predicted from" in error.what
    only = 'title = "t"\n[a]\nfile = "./a.csv"\n[[ask]]\n' + line
    assert _refused(lambda: read_case(case_at(tmp_path, only, "only"))).code == "A417"
    row, _ = found(tmp_path, only + '\nup_to = "10 kB"', a=CURVE).rows
    assert row.quantity.endswith("larger than 10 kB") and row.count == 2


def test_a_line_on_another_machine_holds_what_that_may_do(tmp_path: Path) -> None:
    words = 'model = "line"\ndirection = "h2d"\nmemory = "pinned"'
    rows = [
        found(tmp_path / str(k), asking(words + more), a=CURVE, b=CURVE).rows[0]
        for k, more in enumerate(("", '\non_other = "machine"'))
    ]
    here, there = ((r.low or 0.0, r.predicted or 0.0, r.high or 0.0) for r in rows)
    assert here[1] == there[1] and there[2] / there[1] > 1.5 > here[2] / here[1]
    (left,) = found(
        tmp_path / "moon", asking(words + '\non_other = "moon"'), a=CURVE, b=CURVE
    ).not_run
    assert left.code == "A362" and "A417" in left.why


@pytest.mark.parametrize("value", ["0 GB/s", "-3 GB/s"])
def test_a_measured_value_that_is_none_is_no_row(tmp_path: Path, value: str) -> None:
    number = f'[[measured]]\nwhat = "x"\nvalue = "{value}"\nsource = "s"\ndirection = "h2d"\n'
    text = f'title = "t"\n{number}[[ask]]\nmodel = "rate"\non = "h100-sxm5"\n'
    told = found(tmp_path, text)
    assert (
        not told.rows
        and [n.code for n in told.not_run] == ["A362"]
        and "is none" in told.not_run[0].why
    )


def test_a_kind_of_question_in_one_line() -> None:
    rows = [
        row(1.1, 1.0, 0.9, 1.2, case="a", kind="run time"),
        row(3.0, 1.0, 2.5, 3.2, case="b", kind="run time"),
    ]
    groups = Validation(tuple(rows)).card
    assert in_words(groups, "run time", "line") == (
        "run time on another machine off by 105.0% in the median, 200% at worst, 2 cases, 1 "
        "of 2 in the 90 % range"
    )
    assert in_words(groups, "run time", "sum") == in_words([], "run time", "line") == ""


def test_cases_are_found_by_name_and_by_folder(tmp_path: Path) -> None:
    text = 'title = "t"\nwaits = "a GPU"\n'
    one, two = (case_at(tmp_path, text, name) for name in ("one", "two"))
    assert [c.name for c in find([], tmp_path)] == ["one", "two"]
    assert [c.name for c in find(["two", str(one), "two"], tmp_path)] == ["two", "one"]
    assert [c.name for c in find([str(tmp_path)], tmp_path / "none")] == ["one", "two"]
    for words, root in ((["too"], tmp_path), ([], tmp_path / "none"), (["x\0y"], tmp_path)):
        refused("A416", find, words, root)
    assert "two" in _refused(lambda: find(["twoo"], tmp_path)).fix and two.exists()


def _refused(call: object) -> TurnbuckleError:
    with pytest.raises(TurnbuckleError) as told:
        call()  # type: ignore[operator]
    return told.value


def test_a_star_stands_for_the_one_file_that_fits(tmp_path: Path) -> None:
    text = asking('model = "line"\ndirection = "h2d"\nup_to = "1 MB"', a="./a*.csv", b="./a*.csv")
    assert found(tmp_path / "one", text, a1=CURVE).rows
    (left,) = found(tmp_path / "two", text, a1=CURVE, a2=CURVE).not_run
    assert left.code == "A360" and "a*.csv" in left.why


def test_nothing_is_skipped_silently(tmp_path: Path) -> None:
    texts = {
        "gone": asking('model = "line"\ndirection = "h2d"', a="x.csv"),
        "refused": asking('model = "line"\ndirection = "d2d"'),
        "waits": 'title = "t"\nwaits = "a GPU"\n',
        "fine": asking('model = "line"\ndirection = "h2d"'),
    }
    cases = [
        read_case(case_at(tmp_path, text, name, a=CURVE, b=CURVE)) for name, text in texts.items()
    ]
    answer = validate(cases, None)
    assert {n.case: n.code for n in answer.not_run} == {
        "gone": "A360",
        "refused": "A362",
        "waits": "A361",
    }
    assert "A192" in answer.not_run[1].why and {r.case for r in answer.rows} == {"fine"}
    assert {f.code: f.count for f in answer.findings} == {"A360": 1, "A361": 1, "A362": 1}
    assert validate(cases[:1], tmp_path).not_run[0].why.startswith("x.csv")


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ('model = "rate"\non = "h100-sxm5"', "A192"),
        ('model = "machine"\non = "h1000-sxm5"', "A022"),
        ('model = "datasheet"\non = "pcie9-x16"', "A016"),
        ('model = "repeat"', "P013"),
    ],
)
def test_what_a_model_refuses_is_told_with_its_code(
    tmp_path: Path, question: str, code: str
) -> None:
    number = '[[measured]]\nwhat = "x"\nvalue = "1 GB/s"\nsource = "s"\ndirection = "sideways"\n'
    (left,) = found(
        tmp_path, asking(question) + (number if "rate" in question else ""), a=CURVE, b=CURVE
    ).not_run
    assert left.code == "A362" and code in left.why


def test_a_question_without_a_file_is_refused(tmp_path: Path) -> None:
    case = read_case(case_at(tmp_path, asking('model = "repeat"'), a=CURVE, b=CURVE))
    refused("A192", Data(None).path, case, "")
    with pytest.raises(CannotAnswer):
        Data(None).path(case, "needs/data.csv")


def test_errors_and_cover() -> None:
    assert row(2.0, 1.0).error == 1.0 and row(2.0, 1.0).off == 1.0 and row(0.5, 1.0).off == 0.5
    assert (
        row(1.0, 1.0).covered is None
        and row(1.0, 1.0, 0.9, 1.0).covered is True
        and row(1.0, 1.01, 0.9, 1.0).covered is False
    )
    assert Row("c", "ranking", "counts", "q", "", None, None, tau=0.3, p_value=0.7).error is None


@given(st.integers(1, 200), st.data())
def test_the_interval_of_the_coverage_holds_what_it_promises(
    stated: int, data: st.DataObject
) -> None:
    covered = data.draw(st.integers(0, stated))
    low, high = coverage_interval(covered, stated)
    assert 0.0 <= low <= covered / stated <= high <= 1.0
    # Clopper and Pearson: at each end, what was seen or more extreme has probability 5 %
    if covered > 0:
        assert binom.sf(covered - 1, stated, low) == pytest.approx(0.05, abs=1e-6)
    if covered < stated:
        assert binom.cdf(covered, stated, high) == pytest.approx(0.05, abs=1e-6)


def test_intervals_that_miss_beyond_chance_are_a_finding() -> None:
    wide, narrow = (
        [row(1.0, value, 0.9, 1.1, case=f"c{k}") for k in range(10)] for value in (1.0, 2.0)
    )
    (alone,) = Validation(tuple(replace(r, case="c") for r in narrow)).card
    assert (alone.low, alone.high) == coverage_interval(0, 1), (
        "ten quantities of one case are one draw"
    )
    assert not Validation(tuple(wide)).findings
    (told,) = Validation(tuple(narrow)).findings
    assert told.code == "A363" and told.count == 10
    (group,) = Validation((*wide, *narrow)).card
    assert (group.covered, group.stated, group.median, group.worst, group.worst_case) == (
        10,
        20,
        0.25,
        0.5,
        "c9",
    )


def test_nodes_are_put_in_order_where_there_are_enough(tmp_path: Path) -> None:
    def text(link: str) -> str:
        return asking(f'model = "datasheet"\non = "{link}"')

    links = {"pcie3-x16": 12e3, "pcie4-x16": 25e3, "pcie5-x16": 50e3}
    large = (
        "direction, memory, size [B], time [us]\nh2d, pinned, 1, 2\nh2d, pinned, 100000000, {}\n"
    )
    cases = [
        read_case(case_at(tmp_path, text(n), n, a=CURVE, b=large.format(1e8 / rate)))
        for n, rate in links.items()
    ]
    (order,) = [r for r in validate(cases, None).rows if r.kind == "ranking"]
    assert order.tau == pytest.approx(1.0) and order.count == 3
    assert not [r for r in validate(cases[:2], None).rows if r.kind == "ranking"]


def test_a_card_survives_json() -> None:
    rows = (
        row(1.0, 2.0, 0.9, 1.1),
        Row("(all)", "ranking", "datasheet", "q", "", None, None, count=3, tau=1.0, p_value=0.3),
    )
    before = Validation(rows, (), (NotRun("x", "A361", "waits"),), "2026-01-01", "1")
    after = from_dict(json.loads(json.dumps(before.as_dict())))
    assert after.as_dict() == before.as_dict()


def test_the_shipped_card_can_be_read_and_every_word_has_a_title() -> None:
    card = shipped()
    assert len(card.rows) > 100 and card.not_validated and card.day
    assert set(KINDS) == set(TITLES) and {r.model for r in card.rows} <= set(MODEL_TITLES)
    assert set(registry.entries("predictions")) == set(ASKS)
    assert all(math.isfinite(r.off) for r in card.rows if r.off is not None)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the sample recording twice."""
    folder = tmp_path_factory.mktemp("data")
    with sample() as path:
        for name in ("a.sqlite", "b.sqlite"):
            shutil.copy(path, folder / name)
    return folder


def on_runs(tmp_path: Path, run: Path, question: str, more: str = "") -> Validation:
    return validate(
        [read_case(case_at(tmp_path, asking(question, "a.sqlite", "b.sqlite") + more))], run
    )


def test_a_run_on_another_machine_is_what_project_says(tmp_path: Path, run: Path) -> None:
    every = on_runs(tmp_path, run, 'model = "projection"\non = "gh200"').rows
    rows, nothing = (
        {r.kind: r for r in every if (r.model == "nothing") == baseline}
        for baseline in (False, True)
    )
    assert (
        nothing["run time"].predicted == rows["run time"].measured
        and nothing["kernels"].predicted == 1.0
    )
    answer = Run.read(run / "a.sqlite", use_cache=False, part="whole").project(["gh200"])
    (projection,) = answer.projections
    assert (
        rows["run time"].predicted == projection.seconds
        and rows["run time"].measured == projection.measured_seconds
    )
    assert projection.interval is not None and rows["run time"].low == projection.interval.low
    assert rows["kernels"].predicted == projection.alpha and rows["kernels"].measured == 1.0
    assert rows["launch counts"].error == 0.0


def test_the_same_run_again_has_no_error_whoever_predicts_it(tmp_path: Path, run: Path) -> None:
    for k, (question, kinds) in enumerate(
        (
            ('model = "repeat"', {"noise"}),
            ('model = "counts"\nvariants = ["b.sqlite"]', {"variants"}),
            ('model = "variant"\nstates = ["kernels", "copies"]', {"replay"}),
        )
    ):
        rows = on_runs(tmp_path / str(k), run, question).rows
        assert {r.kind for r in rows} == kinds and all(
            r.off == pytest.approx(0.0, abs=1e-9) for r in rows
        ), question


def test_delays_are_added_to_the_run_without_recorder_as_slack_says(
    tmp_path: Path, run: Path
) -> None:
    numbers = '[[measured]]\nwhat = "bare"\nvalue = "20 ms"\nsource = "s"\n'
    numbers += '[[measured]]\nwhat = "near"\nvalue = "21 ms"\nsource = "s"\ndelay = "10 us"\n'
    (row,) = on_runs(tmp_path / "slack", run, 'model = "slack"\niterations = 50', numbers).rows
    curve = tolerate(
        Run.read(run / "a.sqlite", use_cache=False, part="whole"), "api", draws=0
    ).curve
    assert row.kind == "slack" and row.measured == 0.021
    assert row.predicted == pytest.approx(0.02 + (float(curve(10e-6)) - float(curve(0.0))) / 50)
    (left,) = on_runs(
        tmp_path / "bare",
        run,
        'model = "slack"',
        numbers.partition('[[measured]]\nwhat = "near')[0],
    ).not_run
    assert left.code == "A362" and "A192" in left.why


def test_three_runs_alike_are_in_no_order(tmp_path: Path, run: Path) -> None:
    rows = on_runs(tmp_path, run, 'model = "counts"\nvariants = ["b.sqlite", "a.sqlite"]').rows
    assert [r.kind for r in rows] == ["variants", "variants"]


def test_copies_on_a_machine_file(tmp_path: Path, run: Path) -> None:
    both = (
        on_runs(tmp_path / m, run, f'model = "machine"\non = "{m}"').rows
        for m in ("v100-sxm2", "h100-sxm5")
    )
    slow, fast = ([r for r in rows if r.model != "peak"] for rows in both)
    assert {r.kind for r in slow} <= {"transfers", "pageable"} and len(slow) == len(fast) > 0
    assert sum(r.predicted or 0.0 for r in slow) > sum(r.predicted or 0.0 for r in fast)
    assert all(
        r.low is not None and r.high is not None and r.low <= (r.predicted or 0.0) <= r.high
        for r in (*slow, *fast)
    )


def test_rates_of_a_machine_file(tmp_path: Path) -> None:
    number = '[[measured]]\nwhat = "to the device"\nvalue = "{}"\nsource = "s"\ndirection = "h2d"\n'
    text = 'title = "t"\n[[ask]]\nmodel = "rate"\non = "h100-sxm5"\n'
    for name, value, covered in (("near", "55 GB/s", True), ("far", "27 GB/s", False)):
        (row,) = validate(
            [read_case(case_at(tmp_path, text + number.format(value), name))], None
        ).rows
        assert row.covered is covered and row.unit == "B/s" and 55e9 < (row.predicted or 0.0) < 56e9


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ('model = "projection"\non = "gh200"\nalpha = "fast"', "A417"),
        ('model = "variant"\nphase = 99', "A192"),
        ('model = "variant"\nremoved = "cudaNothing"', "A192"),
        ('model = "variant"\nother = "a.sqlite"\nsizes = ["1", "2"]', "A417"),
        ('model = "line"\ndirection = "h2h"', "A192"),
        ('model = "datasheet"\non = "gh200"\nhost_memory = "5 parsecs"', "U0"),
    ],
)
def test_questions_that_cannot_be_answered_are_told(
    tmp_path: Path, run: Path, question: str, code: str
) -> None:
    try:
        (left,) = on_runs(tmp_path, run, question).not_run
    except TurnbuckleError as error:
        assert error.code.startswith(code) and error.where.startswith("one/case.toml:")
    else:
        assert left.code == "A362" and code in left.why


def test_cases_that_share_a_recording_or_a_machine_are_one_cluster(tmp_path: Path) -> None:
    ask, own = (
        '[[ask]]\nmodel = "datasheet"\non = "pcie4-x16"\n',
        '[a]\nfile = "./r.csv"\nmachine = "./machine.toml"\n',
    )
    sides = {
        "one": '[a]\nfile = "set/x.csv"\n[b]\nfile = "set/y.csv"\n',
        "two": '[a]\nfile = "set/y.csv"\n[b]\nfile = "other/z.csv"\n',
        "three": '[a]\nfile = "alone/w.csv"\n[b]\nfile = "alone/v.csv"\n',
        "four": own,
        "five": own,
        "six": own,
    }
    for name, text in sides.items():
        place = case_at(
            tmp_path,
            f'title = "t"\nblind = "0.1.0, 2026-11-24"\nweak = "a repeat"\n{text}{ask}',
            name,
            r=CURVE,
        )
        (place / "machine.toml").write_text(
            '[machine]\nname = "bench"\n' + ("# another" if name == "six" else ""), encoding="utf-8"
        )
    cases = [read_case(tmp_path / name) for name in sides]
    assert {(case.blind, case.weak) for case in cases} == {("0.1.0, 2026-11-24", "a repeat")}
    assert clusters(cases) == {
        "one": "set",
        "two": "set",
        "three": "three",
        "four": "bench",
        "five": "bench",
        "six": "six",
    }


def test_the_card_counts_clusters_and_marks() -> None:
    card = shipped()
    assert all(1 <= g.clusters <= g.cases for g in card.card if g.kind != "ranking")
    by_case = {about.name: about for about in card.abouts}
    assert (
        by_case["transfers_a100_to_h100"].cluster == by_case["transfers_a100_to_gh200"].cluster
    ), "from one recording"
    assert not any(about.blind for about in card.abouts), "all recordings were at hand"
    assert by_case["messages_netpipe"].weak and not by_case["transfers_a100_to_h100"].weak
    given = next(g for g in card.card if (g.kind, g.model) == ("replay", "timeline"))
    assert 0 < given.weak <= given.cases


def test_what_answers_quote_is_what_the_rows_of_the_shipped_card_come_to() -> None:
    assert list(shipped_groups()) == shipped().card
    assert shipped_in_words("run time", "projection").startswith(TITLES["run time"])
