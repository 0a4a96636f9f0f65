"""A run and its answers, as a notebook uses them."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from refusals import refused

import turnbuckle as tb
from turnbuckle.projection import order
from turnbuckle.replay.timeline import TimelineReplay


@pytest.fixture(scope="module")
def run() -> Iterator[tb.Run]:
    with tb.sample() as path:
        yield tb.read(path)


def test_a_machine_is_taken_wherever_its_name_is(run: tb.Run) -> None:
    named = run.project(["gh200", "cdi-row-link"], draws=20)
    made = run.project([tb.Machine.load("gh200"), tb.Machine.load("cdi-row-link")], draws=20)
    assert [p.seconds for p in made.projections] == [p.seconds for p in named.projections]
    assert made["gh200"].interval == named["gh200"].interval and len(made) == 2
    mine = replace(tb.Machine.load("gh200"), name="mine")
    assert run.project(mine, draws=0)["mine"].seconds == named["gh200"].seconds
    assert tb.Run.of(run.profile, source=tb.Machine.load("gh200")).source.name == "gh200"
    refused("M016", tb.Run.of, run.profile, source=tb.Machine.load("cdi-row-link"))
    with pytest.raises(KeyError, match=r"gh2000.*gh200"):
        named["gh2000"]


def test_the_graph_is_compiled_once(run: tb.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    count = []
    plain = TimelineReplay.compiled

    def counted(*given: object) -> TimelineReplay:
        count.append(1)
        return plain(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(order.TimelineReplay, "compiled", counted)
    fresh = tb.Run.of(run.profile)
    fresh.project(["cdi-row-link"], model=replace(tb.nething(), replay="sum"), draws=0)
    assert not count, "the sum needs no graph"
    fresh.project(["cdi-row-link"], draws=0)
    fresh.distance("link", draws=0)
    fresh.distance("api", draws=0)
    fresh.sharing((1,), ("shared",))
    assert len(count) == 1


def test_answers_show_themselves(run: tb.Run) -> None:
    answers = [
        run,
        run.summary(),
        run.project(["gh200"], draws=0),
        run.distance("link", draws=0),
        run.sharing((1,)),
    ]
    for answer in answers:
        assert (
            answer.table().height > 0
            and answer.headline() in repr(answer)
            and len(repr(answer)) < 2000
        )
        assert answer._repr_html_().startswith("<pre")
        assert set(json.loads(answer.to_json())) == set(answer.as_dict())
    hostile = replace(
        run,
        profile=replace(run.profile, trace=replace(run.trace, name="<script>alert(1)</script>")),
    )
    assert "<script>" not in hostile._repr_html_() and "&lt;script&gt;" in hostile._repr_html_()


def test_a_tolerance_of_any_share(run: tb.Run) -> None:
    far = run.distance("link", draws=0)
    kept = {t.share: t.slack for t in far.tolerances}
    assert all(far.tolerance(share) == slack for share, slack in kept.items())
    assert far.table()["seconds"][
        0
    ] == run.judged.seconds < run.seconds and far.table().columns == [
        "slack_s",
        "seconds",
        "penalty",
    ]
    assert (
        run.distance("link", draws=0, repeats=[far.measured, 1.1 * far.measured])
        .table()
        .columns[-1]
        == "high_seconds"
    )


def test_the_package_is_imported_without_its_rooms() -> None:
    code = (
        "import sys, turnbuckle; print([m for m in sys.modules if m.split('.')[0] in ('polars', "
        "'numpy', 'scipy')])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )
    version = subprocess.run(
        [sys.executable, "-m", "turnbuckle", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (
        version.stdout.splitlines()[0] == f"turnbuckle {importlib.metadata.version('turnbuckle')}"
    )


def test_a_notebook_shows_what_a_terminal_does(run: tb.Run) -> None:
    page = run.project(["gh200"], draws=0)._repr_html_()
    assert "projected run time" in page and "gh200" in page and page.startswith("<pre")
    assert "where the run time goes" in run._repr_html_()
    assert "one-way latency added" in run.distance(draws=0)._repr_html_()


def test_what_a_recording_is_called_is_text_in_a_notebook(hostile: Path) -> None:
    named = tb.read(hostile, use_cache=False)
    for page in (named._repr_html_(), named.project(["gh200"], draws=0)._repr_html_()):
        assert "<script" not in page and "<img" not in page and "\x1b" not in page


def test_answers_draw_their_figures(run: tb.Run) -> None:
    far = run.distance(draws=0)
    assert [figure.name for figure in far.figures()] == ["slack", "break-even-link"]
    assert far.figure("slack")._repr_svg_().startswith("<svg")
    with pytest.raises(tb.TurnbuckleError, match="A430") as caught:
        far.figure("slak")
    assert caught.value.fix == "did you mean slack?"
    assert run.sharing((1,)).figures() == []
    with pytest.raises(tb.TurnbuckleError, match="A430: this answer has no figures"):
        run.sharing((1,)).figure()
