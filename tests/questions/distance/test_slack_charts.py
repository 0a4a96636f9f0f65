"""Figures of distance hold the numbers they show, and no name stands in another's way."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from turnbuckle.machine.hops import hops
from turnbuckle.page.studied import Studies
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.questions.distance.distance import FARTHEST, NEAREST
from turnbuckle.questions.distance.figures import (
    ADDERS,
    HIGHEST,
    LOWEST,
    TRIPS,
    _hop_labels,
    break_even,
    fibre,
    interval_matters,
    reach,
    slack_curve,
)
from turnbuckle.questions.distance.question import THRESHOLDS
from turnbuckle.questions.distance.surface_figure import (
    LEVELS,
    _iso,
    penalty_at,
    placed,
    surface_map,
)
from turnbuckle.show.figures.look import MODES, change_colour
from turnbuckle.show.verdict import verdicts


def marks(spec: dict[str, Any], kind: str, **wanted: Any) -> list[list[dict[str, Any]]]:
    """Rows of every layer whose mark is of a kind."""
    found = []
    for layer in spec["layer"]:
        mark = layer["mark"] if isinstance(layer["mark"], dict) else {"type": layer["mark"]}
        if mark["type"] == kind and all(mark.get(k) == v for k, v in wanted.items()):
            found.append(layer["data"]["values"] if "data" in layer else spec["data"]["values"])
    return found


def test_the_curve_is_the_study(studies: Studies) -> None:
    both = [studies.link, studies.api]
    figure = slack_curve(both)
    for found in both:
        rows = [r for r in figure.rows if r["mode"] == found.mode]
        assert len(rows) == len(found.shown())
        assert all(r["run_seconds"] == float(found.curve(r["added_one_way_seconds"])) for r in rows)
        (line,) = marks(figure.spec, "line", color=MODES[found.mode])
        inside = [p for p in line if LOWEST <= p["change"] <= HIGHEST]
        assert len(inside) > 10
        for p in inside:
            assert p["change"] == pytest.approx(found.penalty(p["at"]) - 1.0, rel=2e-3)


def test_dots_stand_where_the_run_is_longer_by_a_share(studies: Studies) -> None:
    both = [studies.link, studies.api]
    figure = slack_curve(both)
    (dots,) = marks(figure.spec, "point")
    assert sorted({d["change"] for d in dots}) == list(THRESHOLDS)
    for found in both:
        mine = [d for d in dots if d["colour"] == MODES[found.mode]]
        assert len(mine) == len(THRESHOLDS)
        for d in mine:
            assert found.penalty(d["at"]) - 1.0 == pytest.approx(d["change"], rel=1e-3)
    for t in studies.link.tolerances:
        assert reach(t.slack) in figure.alt


def test_names_of_distances_do_not_meet() -> None:
    rows, lines = _hop_labels(650.0)
    assert {h.name for h in hops()} == {n for r in rows for n in r["label"].split(", ") if n}
    assert sum(bool(r["label"]) for r in rows) < len(rows), (
        "package and C2C are too near for a name each"
    )
    assert all(r["trip"] == (r["label"].split(",")[0] in TRIPS) for r in rows if r["label"])
    named = [r for r in rows if r["label"]]
    assert max(r["line"] for r in named) + 1 == lines
    for a in named:
        end = a["start"] + 5.0 * len(a["label"])
        for b in named:
            if a["start"] < b["start"] < end:
                assert b["line"] < a["line"], f"the stalk of {b['label']} runs through {a['label']}"


@pytest.mark.parametrize("mode", ["link", "api"])
def test_break_even_is_the_penalty_times_the_cost(studies: Studies, mode: str) -> None:
    found = studies.link if mode == "link" else studies.api
    figure = break_even(found, 1e-3)
    (rows,) = marks(figure.spec, "line")
    for r in rows:
        assert r["use"] == pytest.approx(
            found.penalty(r["at"]) * (1 + ADDERS[r["adder"]]), rel=1e-3
        )
    assert {r["adder"] for r in rows} == set(range(len(ADDERS)))
    for told in figure.rows:
        assert told["use_factor_at_25%"] == told["penalty"] * 1.25


def test_the_map_is_the_study(studies: Studies) -> None:
    found = studies.surface
    figure = surface_map(found, [])
    assert len(figure.rows) == found.seconds.size
    for r in figure.rows[:: len(figure.rows) // 40]:
        assert r["penalty"] == pytest.approx(
            penalty_at(found, r["slack_s"], r["bandwidth"]), rel=1e-5
        )
    (cells,) = marks(figure.spec, "rect")
    low, high = float(found.bandwidth[0]), float(found.bandwidth[-1])
    for a in {c["a"] for c in cells}:
        column = sorted((c for c in cells if c["a"] == a), key=lambda c: float(c["c"]))
        assert column[0]["c"] == pytest.approx(low, rel=1e-4) and column[-1]["d"] == pytest.approx(
            high, rel=1e-4
        )
        assert all(x["d"] == y["c"] for x, y in pairwise(column)), "a column without holes"
    assert "no error" in figure.caption


def test_lines_of_equal_loss_are_of_equal_loss(studies: Studies) -> None:
    found = studies.surface
    drawn = 0
    for level in LEVELS:
        for slack, bandwidth in _iso(found, level):
            assert penalty_at(found, slack, bandwidth) - 1.0 == pytest.approx(
                level, rel=1e-6, abs=1e-9
            )
            drawn += 1
    assert drawn > 50


def test_only_machines_the_map_can_speak_for_lie_on_it(studies: Studies, answer: Answer) -> None:
    answers = [
        (m, p, v.colour)
        for m, (p, _), v in zip(
            answer.targets, studies.by_replay, verdicts(answer.projections), strict=True
        )
    ]
    found = placed(studies.surface, answers)
    assert {m.name for m in found} == {"cdi-row-link", "cdi-datacentre-link"}
    for mark in found:
        (p,) = (p for _, p, _ in answers if p.target == mark.name)
        assert penalty_at(studies.surface, mark.slack, mark.bandwidth) == pytest.approx(
            p.penalty, abs=0.0021
        )
        assert mark.change == p.penalty - 1.0
    drawn = surface_map(studies.surface, found)
    assert "cdi-row-link" in str(drawn.spec) and "gh200" not in str(drawn.spec)


def test_colours_get_darker_away_from_the_recorded_run() -> None:
    def light(change: float) -> float:
        r, g, b = (int(change_colour(change)[i : i + 2], 16) for i in (1, 3, 5))
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    slower, faster = (
        [light(c) for c in np.geomspace(0.01, 10.0, 30)],
        [light(-c) for c in np.geomspace(0.01, 0.8, 30)],
    )
    assert all(a > b for a, b in pairwise(slower))
    assert all(a > b for a, b in pairwise(faster))


def test_words_for_latencies() -> None:
    assert reach(None) == "more than 100.0\xa0ms" and reach(7e-6) == "7.0\xa0µs"
    assert (fibre(1e-6), fibre(2e-5), fibre(7.2e-6), fibre(1e-2)) == (
        "200\xa0m",
        "4\xa0km",
        "1.4\xa0km",
        "2\N{NARROW NO-BREAK SPACE}000\xa0km",
    )
    assert not interval_matters(1e-6, 1.0001e-6, 0.9999e-6) and interval_matters(1e-6, 0.5e-6, 2e-6)
    assert not interval_matters(None, None, None)
    assert NEAREST < FARTHEST
