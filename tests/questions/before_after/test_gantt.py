"""Before and after: the bars stand where the study says, and say nothing of the machine it was
recorded on.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import polars as pl
import pytest

from turnbuckle.page.studied import SHOWN, Studies, studied
from turnbuckle.projection.run import Run
from turnbuckle.questions.before_after.figures import BAR, OWN_CHANGE, before_after, track_words
from turnbuckle.show.figures.look import CRITICAL
from turnbuckle.show.text import number

UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}


@pytest.fixture(scope="module")
def studies(seen: Run) -> Studies:
    """The sample on a machine that is farther away."""
    found = studied(seen.project(["cdi-datacentre-link"], draws=0))
    assert isinstance(found, Studies)
    return found


@pytest.fixture(scope="module")
def whole(seen: Run) -> Studies:
    """The same about all of the recording, start-up too."""
    found = studied(replace(seen, auto=False).project(["cdi-datacentre-link"], draws=0))
    assert isinstance(found, Studies)
    return found


@pytest.fixture(scope="module")
def drawn(studies: Studies) -> tuple[dict[str, Any], list[dict[str, Any]], str, float]:
    """Specification, rows, sentence, and seconds in a unit of the axis."""
    assert studies.moved is not None and studies.window is not None
    figure, sentence = before_after(studies.moved, studies.window)
    (unit,) = {
        layer["encoding"]["x"]["axis"]["title"].split("[")[1].rstrip("]")
        for layer in figure.spec["layer"]
        if isinstance(layer.get("encoding", {}).get("x"), dict)
        and layer["encoding"]["x"].get("axis")
    }
    return figure.spec, figure.rows, sentence, UNITS[unit]


def bars(spec: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Bars of the activities, above and below."""
    return [
        layer["data"]["values"]
        for layer in spec["layer"]
        if isinstance(layer["mark"], dict) and layer["mark"].get("aria")
    ]


def test_bars_are_the_study(
    studies: Studies, drawn: tuple[dict[str, Any], list[dict[str, Any]], str, float]
) -> None:
    spec, rows, _, unit = drawn
    run, window = studies.moved, studies.window
    assert run is not None and window is not None
    assert 0 < len(rows) <= min(SHOWN, len(window.rows))
    above, below = bars(spec)
    assert len(above) == len(rows)
    first = window.first_ns * 1e-9
    hair = 1e-5 * (window.last_ns - window.first_ns) * 1e-9
    for bar, row in zip(above, rows, strict=True):
        assert bar["a"] * unit == pytest.approx(
            max(row["recorded_start_seconds"] - first, 0.0), abs=hair
        )
        assert bar["y2"] - bar["y"] == BAR
    # what the end of the stretch cuts and the target puts behind all that ends in it has no room
    # below: one copy here
    reach = window.projected_first + max(bar["a"] for bar in below) * unit + hair
    late = [r for r in rows if r["projected_start_seconds"] > reach]
    assert [r["what"] for r in late] == ["copy to GPU"]
    assert late[0]["recorded_end_seconds"] > window.last_ns * 1e-9
    assert len(below) == len(rows) - len(late)
    for bar, row in zip(below, [r for r in rows if r not in late], strict=True):
        assert bar["a"] * unit == pytest.approx(
            max(row["projected_start_seconds"] - window.projected_first, 0.0), abs=hair
        )
    table = run.table[window.rows]
    assert {r["recorded_start_seconds"] for r in rows} <= {
        s * 1e-9 for s in table["start_ns"].to_list()
    }
    assert {r["reason"] for r in rows} <= set(table["reason"].cast(str).to_list())


def test_the_whole_draws_every_activity_of_its_stretch(whole: Studies) -> None:
    assert whole.moved is not None and whole.window is not None
    figure, _ = before_after(whole.moved, whole.window)
    above, below = bars(figure.spec)
    assert len(above) == len(below) == len(figure.rows) == SHOWN


def test_the_judged_part_holds_what_ends_after_start_up(studies: Studies, whole: Studies) -> None:
    """The activities of the whole that end after start-up, counted from its end; what start-up cuts
    begins there.
    """
    assert studies.moved is not None and whole.moved is not None
    start_up = whole.moved.profile.run_time_ns - studies.moved.profile.run_time_ns
    assert start_up > 0
    shifted = (pl.col("start_ns", "end_ns") - start_up).clip(0)
    after = whole.moved.table.filter(pl.col("end_ns") > start_up).with_columns(shifted)
    columns = ("kind", "name", "size_bytes", "start_ns", "end_ns")
    expected, found = (Counter(t.select(columns).rows()) for t in (after, studies.moved.table))
    assert found == expected
    assert found.total() < whole.moved.table.height
    copies = [
        t.filter(pl.col("kind").cast(str).str.starts_with("copy")).height
        for t in (studies.moved.table, whole.moved.table)
    ]
    assert copies == [2036, 2053]


def test_every_bar_stands_inside_the_axis(
    drawn: tuple[dict[str, Any], list[dict[str, Any]], str, float],
) -> None:
    spec = drawn[0]
    (domain,) = {
        tuple(layer["encoding"]["x"]["scale"]["domain"])
        for layer in spec["layer"]
        if isinstance(layer.get("encoding", {}).get("x"), dict)
        and "scale" in layer["encoding"]["x"]
    }
    for layer in spec["layer"]:
        for row in layer.get("data", {}).get("values", []):
            for key in ("a", "b", "x"):
                if row.get(key) is not None:
                    assert -1e-6 <= row[key] <= domain[1] * 1.002, (layer["mark"], row)


def test_the_critical_path_runs_through_both_time_lines(
    drawn: tuple[dict[str, Any], list[dict[str, Any]], str, float],
) -> None:
    spec = drawn[0]
    critical = [
        layer
        for layer in spec["layer"]
        if isinstance(layer["mark"], dict) and layer["mark"].get("color") == CRITICAL
    ]
    kinds = [layer["mark"]["type"] for layer in critical]
    assert kinds.count("rect") == 2 and kinds.count("line") == 2
    for layer in critical:
        if layer["mark"]["type"] == "line":
            points = [p for p in layer["data"]["values"] if p["x"] is not None]
            assert len(points) > 2
            assert all(a["x"] <= b["x"] + 1e-5 for a, b in pairwise(points)), (
                "a path never goes back in time"
            )


def test_only_what_the_target_changes_itself_is_hatched(
    drawn: tuple[dict[str, Any], list[dict[str, Any]], str, float],
) -> None:
    spec, rows, _, _ = drawn
    hatched = [
        layer
        for layer in spec["layer"]
        if isinstance(layer["mark"], dict)
        and layer["mark"]["type"] == "line"
        and layer["mark"].get("color") != CRITICAL
    ]
    assert hatched and any(r["reason"] in OWN_CHANGE for r in rows)
    assert not all(r["reason"] in OWN_CHANGE for r in rows)
    (top,) = {min(b["y"] for b in bars(spec)[1])}
    assert all(
        p["y"] >= top - 1e-6
        for layer in hatched
        for p in layer["data"]["values"]
        if p["y"] is not None
    ), "nothing is hatched above"


def test_the_sentence_says_what_the_picture_shows(
    studies: Studies, drawn: tuple[dict[str, Any], list[dict[str, Any]], str, float]
) -> None:
    _, rows, sentence, _ = drawn
    run, window = studies.moved, studies.window
    assert run is not None and window is not None
    inside = [r for r in rows if r["recorded_end_seconds"] <= window.last_ns * 1e-9 * (1 + 1e-9)]
    if window.chosen == "change":
        inside = [r for r in inside if r["critical_after"]]
    final = max(inside, key=lambda r: float(r["recorded_end_seconds"]))
    assert number(final["recorded_end_seconds"] - window.first_ns * 1e-9, "s", 4) in sentence
    assert number(final["projected_end_seconds"] - window.projected_first, "s", 4) in sentence
    assert run.target.title in sentence


def test_tracks_are_named_without_ids(
    studies: Studies, drawn: tuple[dict[str, Any], list[dict[str, Any]], str, float]
) -> None:
    run = studies.moved
    assert run is not None
    words = track_words(run.profile)
    assert len(set(words.values())) == len(words) == run.profile.tracks.height
    told = json.dumps([drawn[0], drawn[1]])
    ids = run.profile.tracks.select("process", "thread").unique().rows()
    assert ids
    for row in ids:
        for i in row:
            assert i is None or i < 1000 or str(i) not in told
