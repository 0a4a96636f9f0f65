"""The first answer: its numbers are those of the other verbs, and it fits a terminal."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import turnbuckle as tb
from turnbuckle.questions.distance.slack_tables import latency_words
from turnbuckle.questions.distance.speeds import OVER
from turnbuckle.questions.inspect.first import CHEAPER, LAYER, First, targets
from turnbuckle.questions.inspect.tables import lines, ticket
from turnbuckle.show.rendered import markdown
from turnbuckle.trace.window import step_times

EXAMPLES = Path(tb.__file__).parent / "examples"
FILES = (
    "milc-like-synthetic.sqlite",
    "dgemm-like-synthetic.sqlite",
    "jacobi-opencl-pocl.trace.csv",
)


@cache
def first(name: str) -> First:
    return tb.read(EXAMPLES / name).first()


@pytest.mark.parametrize("name", FILES)
def test_every_number_is_that_of_its_verb(name: str) -> None:
    answer = first(name)
    run = tb.read(EXAMPLES / name)
    for kind, saved in answer.saved.items():
        assert kind in OVER
        swept = run.distance("link", kind)  # type: ignore[call-overload]
        assert saved == pytest.approx(1.0 - swept.penalty(CHEAPER), abs=1e-9)
    for mode, machine in (("link", None), ("remoting", LAYER)):
        slack = run.distance(mode, machine=machine)  # type: ignore[arg-type]
        tolerance = slack.by_share()["5%"]
        assert answer.tolerated[mode] == (tolerance.slack, tolerance.low, tolerance.high)
    asked = run.project(targets(run.judged))
    for said, plain in zip(answer.answer.projections, asked.projections, strict=True):
        assert (said.target, said.seconds, said.interval) == (
            plain.target,
            plain.seconds,
            plain.interval,
        )
    gains = run.whatif().gains
    best = max(gain.on_source[0] for gain in gains)
    if answer.fix is None:
        assert best < 0.001
    else:
        assert answer.fix.on_source[0] == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("name", FILES)
def test_it_fits_a_terminal(name: str) -> None:
    shown = lines(first(name))
    assert len(shown) <= 24
    assert max(map(len, shown)) <= 80
    assert len(shown) == len([line for line in shown if "\n" not in line])


@pytest.mark.parametrize(
    ("saved", "word"),
    [
        ({"cpu": 0.06, "kernel": 0.03, "copies": 0.0, "communication": 0.0}, "cpu"),
        ({"cpu": 0.04, "kernel": 0.03, "copies": 0.0, "communication": 0.0}, "balanced"),
        ({"cpu": 0.01, "kernel": 0.02, "copies": 0.0, "communication": 0.0}, ""),
        ({"cpu": 0.0, "kernel": 0.01, "copies": 0.08, "communication": 0.0}, "copies"),
        ({}, ""),
    ],
)
def test_what_leads_by_half_holds_the_run_up(saved: dict[str, float], word: str) -> None:
    assert replace(first(FILES[0]), saved=saved).bound == word


def test_kernels_between_gpus_are_communication(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "turnbuckle.questions.inspect.first.summary.kernels", lambda _: {"collective": {"count": 1}}
    )
    saved = {"cpu": 0.0, "kernel": 0.09, "copies": 0.0, "communication": 0.08}
    assert replace(first(FILES[0]), saved=saved).bound == "communication"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ((None, None, None), "more than 100 ms"),
        ((0.0, 0.0, 0.0), "any"),
        ((1e-6, 0.0, 2e-6), "cannot say: 0 s to 2 us"),
        ((1e-6, 1e-7, None), "cannot say: 100 ns to 100 ms"),
        ((1e-6, 1e-9, 2e-6), "cannot say: 1 ns to 2 us"),
        ((4e-6, 1e-6, 1.4e-5), "4 us (1 us to 14 us)"),
    ],
)
def test_a_latency_of_three_decades_says_nothing(found: Any, said: str) -> None:
    assert latency_words(*found) == said


def test_an_order_that_cannot_be_trusted_tells_no_sensitivity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from turnbuckle.foundation.errors import error_of

    def refused(*_: Any) -> float:
        raise error_of("A122", found="work overlaps on one stream", fix="record again")

    monkeypatch.setattr("turnbuckle.questions.distance.speeds.at_cost", refused)
    answer = tb.read(EXAMPLES / FILES[0]).first()
    assert answer.bound == "" and not answer.saved
    shown = lines(answer)
    assert "CANNOT SAY what holds it up" in shown and f"  {answer.untold[:20]}" in "\n".join(shown)


def test_each_gpu_of_several_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = first(FILES[0])
    total = answer.run.profile.run_time_ns
    gpus = [{"idle_ns": share * total} for share in (0.2, 0.9)]
    monkeypatch.setattr("turnbuckle.questions.inspect.tables.each.gpus", lambda _: gpus)
    assert "  2 GPUs, busy:  80 %, 10 %" in lines(answer)


def test_a_name_from_outside_is_no_markup() -> None:
    answer = first(FILES[0])
    trace = replace(answer.run.trace, facts={**answer.run.trace.facts, "file": "[red]x\x1b[31m"})
    run = replace(answer.run, profile=replace(answer.run.profile, trace=trace))
    shown = "\n".join(lines(replace(answer, run=run)))
    assert "\x1b" not in shown


@pytest.mark.parametrize("name", FILES)
def test_a_ticket_has_ten_lines(name: str) -> None:
    written = markdown(ticket(first(name)))
    assert len(written.splitlines()) <= 10


def test_the_time_of_a_step_is_its_median(monkeypatch: pytest.MonkeyPatch) -> None:
    import polars as pl

    def marked(*ends: int) -> pl.DataFrame:
        return pl.DataFrame({"start_ns": [0] * len(ends), "end_ns": list(ends)})

    for ends, found in (((1, 2), None), ((10, 20, 30, 40, 100), (5, 30e-9, 10e-9))):
        monkeypatch.setattr(
            "turnbuckle.trace.window.numbered_steps", lambda _, ends=ends: marked(*ends)
        )
        said = step_times(first(FILES[0]).run.trace)
        assert said == (found if found is None else pytest.approx(found))
