"""Sections of the timeline: what they say is what the studies found, and where there is none they
say why.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from drawings import each_kind_once
from pages import Page
from runs import run_of

from turnbuckle.page.html import page
from turnbuckle.page.slack_sections import (
    answer_sentences,
    carrier_sentences,
    distance_section,
    modes_sentences,
    replays_section,
    shares_section,
    tolerated,
)
from turnbuckle.page.studied import Studies, studied
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.projection.model import nething
from turnbuckle.projection.projection import break_even_utilisation
from turnbuckle.projection.run import Run
from turnbuckle.questions.distance.carriers import Carrier
from turnbuckle.questions.distance.figures import reach
from turnbuckle.questions.distance.shares_figure import drawn, per_cent, tornado
from turnbuckle.questions.distance.slack_tables import carrier_words
from turnbuckle.questions.distance.speeds import sweep
from turnbuckle.show.text import factor, percent, seconds, signed
from turnbuckle.show.verdict import verdicts


def test_the_page_holds_the_figures_of_the_timeline(text: str) -> None:
    data = Page(text).figure_data
    assert {
        "slack",
        "surface",
        "before-after",
        "shares",
        "break-even-link",
        "break-even-api",
    } <= set(data)
    assert len(text.encode()) < 1_200_000


def test_the_first_page_says_what_the_run_tolerates(text: str, studies: Studies) -> None:
    said, host = answer_sentences(studies)
    assert said in Page(text).text and host in Page(text).text
    curve = sweep(studies.link.run, "cpu")
    for cost, seconds_ in studies.host.items():
        assert seconds_ == pytest.approx(curve.penalty(cost) * curve.measured, rel=1e-9), (
            "as slack --over cpu has it"
        )
        assert signed(curve.penalty(cost) - 1) in host
    assert (
        reach(tolerated(studies.link).slack) in said and reach(tolerated(studies.api).slack) in said
    )


@pytest.mark.parametrize(("draws", "seed"), [(0, 1), (20, 1), (20, 2)])
def test_ranges_of_distance_have_the_draws_of_the_answer(brief: Run, draws: int, seed: int) -> None:
    """``turnbuckle report --draws 20 --seed 1`` says of a distance what ``slack --draws 20 --seed
    1`` says.
    """
    found = studied(brief.project(["cdi-row-link"], draws=draws, seed=seed))
    assert isinstance(found, Studies)
    for study in (found.link, found.api):
        assert study.tolerances == brief.slack(study.mode, draws=draws, seed=seed).tolerances  # type: ignore[call-overload]
        assert (study.band is None) == (draws == 0)


def test_both_ways_to_be_far_away_are_set_apart(studies: Studies) -> None:
    link, api = tolerated(studies.link).slack, tolerated(studies.api).slack
    assert link is not None and api is not None
    said = modes_sentences(studies.link, studies.api)[-1]
    assert factor(max(link, api) / min(link, api), 2) in said
    same = modes_sentences(studies.link, replace(studies.link, mode="api"))[-1]
    assert "no difference that matters" in same


def test_tables_of_distance_hold_the_numbers(studies: Studies, answer: Answer) -> None:
    found = distance_section(studies, verdicts(answer.projections), answer)
    for row, link, api in zip(
        found["tolerances"].rows, studies.link.tolerances, studies.api.tolerances, strict=True
    ):
        texts = [c.text for c in row]
        assert texts[1] == reach(link.slack) and texts[4] == reach(api.slack)
    for told, study in zip(found["carriers"], (studies.link, studies.api), strict=True):
        for row, c in zip(told["table"].rows, study.carriers, strict=False):
            assert row[0].text == carrier_words(c).removesuffix(f" of {c.call}") and row[
                1
            ].text == percent(c.share)
    rows = {row[0].text: row for row in found["break_even_table"].rows}
    for name, one_way in (("row", 2.2e-6), ("2\xa0km of fibre", 1e-5)):
        assert rows[name][3].text == factor(break_even_utilisation(studies.link.penalty(one_way)))
        assert rows[name][9].text == factor(
            break_even_utilisation(studies.api.penalty(one_way), 0.25)
        )


def carrier(**more: object) -> Carrier:
    """Copies that carry most of a penalty."""
    made = Carrier(
        "cudaMemcpy",
        "2,453 blocking copies of 4 B to the host",
        2453,
        2460,
        4,
        0.09,
        0.9,
        ("return",),
    )
    return replace(made, **more)  # type: ignore[arg-type]


def test_carriers_are_said_as_findings(studies: Studies) -> None:
    there = float(studies.link.curve(studies.link.carried_at))
    less = studies.link.measured
    (said,) = carrier_sentences(replace(studies.link, carriers=(carrier(asynchronous=less),)))
    assert said.startswith(
        "2\N{NARROW NO-BREAK SPACE}453 blocking copies of 4\xa0B to the host (cudaMemcpy) "
        "carry 90\xa0% of the penalty: "
    )
    assert said.endswith(
        f"if they did not wait, the run would take {seconds(less)}, not {seconds(there)}."
    )
    (said,) = carrier_sentences(
        replace(studies.link, carriers=(carrier(batched=less, batches=61),))
    )
    assert (
        f"if 61 batches stood for all 2\N{NARROW NO-BREAK SPACE}460 of them, the run would "
        f"take {seconds(less)}, not {seconds(there)}"
    ) in said
    # a change that hardly helps is not advice
    (said,) = carrier_sentences(
        replace(studies.link, carriers=(carrier(asynchronous=there, batched=there, batches=2),))
    )
    assert said.endswith("of the penalty.")
    (said,) = carrier_sentences(replace(studies.link, carriers=(carrier(share=0.01),)))
    assert "spread over many" in said
    assert carrier_sentences(replace(studies.link, carriers=())) == [
        "No call carries added latency into the run time."
    ]


def test_both_replays_stand_beside_each_other(studies: Studies, answer: Answer, seen: Run) -> None:
    table = replays_section(studies, verdicts(answer.projections))["table"]
    targets = [m for m in answer.targets if m is not answer.run.source]
    assert [row[0].text for row in table.rows] == [m.title for m in targets]
    for replay, column in (("timeline", 2), ("sum", 4)):
        asked = seen.project(targets, model=replace(nething(), replay=replay), draws=0)  # type: ignore[arg-type]
        assert [row[column].text for row in table.rows] == [
            seconds(p.seconds) for p in asked.projections
        ]
    assert {row[1].text for row in table.rows} == {"timeline"}


def test_classes_of_time_add_up_to_the_run(studies: Studies, answer: Answer) -> None:
    measured = answer.run.profile.seconds
    assert sum(s.seconds for s in studies.shares) == pytest.approx(measured, rel=1e-9)
    figure = tornado(studies.shares, measured)
    for row, s in zip(figure.spec["data"]["values"], drawn(studies.shares, measured), strict=True):
        assert row["more"] == s.right / measured and row["less"] == -s.left / measured
    for s in studies.shares:
        assert s.left <= s.right + 1e-9
        if s.what in studies.without:
            # convex: less of a class saves no more than the slope promises, and never makes the run
            # longer
            assert measured - s.left - 1e-9 <= studies.without[s.what] <= measured + 1e-9
    found = shares_section(studies, measured)
    assert per_cent(studies.shares[0].right, measured) in found["sentence"]
    assert all(
        row[2].text == percent(s.seconds / measured)
        for row, s in zip(found["table"].rows, studies.shares, strict=False)
    )


def test_elasticities_in_words() -> None:
    assert (
        per_cent(0.4, 1.0) == "0.40\xa0%"
        and per_cent(1e-6, 1.0) == "<\xa00.001\xa0%"
        and per_cent(0.0, 1.0) == "0\xa0%"
    )


def test_a_recording_alone_still_has_distances(bare_text: str) -> None:
    words = Page(bare_text).text
    assert (
        "What carries the latency" in words
        and "No target was projected that moves an activity." in words
    )
    assert "Both replays" not in words


def test_the_additive_model_has_no_timeline_beside_it(seen: Run) -> None:
    from turnbuckle.projection.model import additive

    found = studied(seen.project(model=additive({"data": 10.0}), draws=0))
    assert isinstance(found, Studies) and found.by_replay == [] and found.moved is None


def test_the_sum_says_so_where_the_timeline_answers(seen: Run) -> None:
    summed = seen.project(["cdi-row-link"], model=nething(), draws=0)
    found = studied(summed)
    assert isinstance(found, Studies)
    table = replays_section(found, verdicts(summed.projections))["table"]
    (row,) = table.rows
    assert row[1].text == "sum" and row[5].text == signed(summed.projections[0].penalty - 1)


@pytest.mark.shared
def test_an_order_that_cannot_be_trusted_is_refused_in_words(shared: Path) -> None:
    (file,) = (shared / "traces" / "nsys" / "extrap_con_kernel").glob("*.sqlite")
    answer = run_of(file).project(["cdi-row-link"], draws=0)
    why = studied(answer)
    assert isinstance(why, str) and "overlap another on their own stream" in why
    with each_kind_once():
        found = Page(page(answer))
    assert (
        "Only the sum replay was possible." in found.text
        and found.text.count("overlap another on their own stream") >= 4
    )
    assert "before-after" not in found.figure_data


@pytest.mark.shared
def test_a_recording_without_gpu_activity_says_why(shared: Path) -> None:
    seen = run_of(shared / "traces" / "nsys-local" / "nvtx-py.sqlite")
    why = studied(Answer(seen))
    assert isinstance(why, str) and "no GPU activity" in why
    words = Page(page(seen)).text
    assert "The recording holds no GPU activity" in words and "Left out." not in words
