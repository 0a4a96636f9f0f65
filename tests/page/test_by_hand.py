"""The run that a reader moves by hand: the page replays it as the command line does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from browsing import Browser, Visit
from drawings import each_kind_once
from pages import Page

from turnbuckle.page import by_hand
from turnbuckle.page.html import page
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.projection.order import projected_parts
from turnbuckle.projection.projection import (
    PART_OF_CATEGORY,
    PARTS,
    break_even_premium,
    break_even_utilisation,
)
from turnbuckle.projection.run import Run
from turnbuckle.questions.distance.question import tolerate
from turnbuckle.questions.distance.speeds import levers, planes, surface, sweep
from turnbuckle.questions.suite.portfolio import Member, Offer, Portfolio
from turnbuckle.questions.suite.question import of_files
from turnbuckle.replay.timeline import Flat
from turnbuckle.show.text import signed
from turnbuckle.show.verdict import verdicts

#: Positions of the sliders: latency, byte, launch, kernel, host.
POSITIONS = [
    (0, 0, 0, 0, 0),
    (25, 0, 0, 0, 0),
    (0, -8, 0, 0, 0),
    (0, 0, 20, 0, 0),
    (0, 0, 0, -11, 0),
    (0, 0, 0, 0, 7),
    (31, 5, -9, 8, -4),
]
PROBE = """
setTimeout(() => {
  const section = document.getElementById("by-hand");
  const told = [];
  for (const at of POSITIONS) {
    ["latency", "byte", "launch", "kernel", "host"].forEach((name, k) => {
      const input = section.querySelector(`input[name=${name}]`);
      input.value = at[k];
      input.dispatchEvent(new Event("input"));
    });
    told.push({
      seconds: Number(section.dataset.seconds),
      parts: JSON.parse(section.dataset.parts),
      words: section.querySelector(".moved-to").textContent,
      bars: section.querySelectorAll(".bar").length,
    });
  }
  section.querySelector("input[type=checkbox]").click();
  told.push({ seconds: 0, words: "", bars: section.querySelectorAll(".bar").length });
  document.body.setAttribute("data-probe", JSON.stringify(told));
}, 1000);
"""


#: Positions of the latency, of the premium [%] and of the use, and what every row of the table then
#: says.
PREMIUMS = [(0, 10, 1.0), (0, 0, 1.0), (30, 25, 1.5), (30, 100, 4.0)]
PREMIUM_PROBE = """
setTimeout(() => {
  const section = document.getElementById("by-hand");
  const move = (name, value) => {
    const input = section.querySelector(`input[name=${name}]`);
    input.value = value;
    input.dispatchEvent(new Event("input"));
  };
  const told = [];
  for (const [latency, premium, use] of POSITIONS) {
    move("latency", latency);
    move("premium", premium);
    move("use", use);
    const rows = [...document.querySelectorAll("#fabrics tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent.trim()));
    told.push({ seconds: Number(section.dataset.seconds), rows });
  }
  document.body.setAttribute("data-premium", JSON.stringify(told));
}, 1000);
"""


@pytest.fixture(scope="module")
def moved(chromium: Browser, text: str, tmp_path_factory: pytest.TempPathFactory) -> Visit:
    """The report whose premiums are moved, and then its sliders."""
    script = PREMIUM_PROBE.replace("POSITIONS", json.dumps(PREMIUMS)) + PROBE.replace(
        "POSITIONS", json.dumps(POSITIONS)
    )
    return chromium.look(text, tmp_path_factory.mktemp("moved") / "report.html", script)


def costs(at: tuple[int, ...]) -> dict[str, float]:
    """What the sliders say at their positions."""
    latency, byte, launch, kernel, host = at
    return {
        "slack": 0.0 if latency == 0 else 1e-7 * 10 ** ((latency - 1) / 10),
        "byte": 2 ** (-byte / 4),
        "launch": 10 ** (launch / 20),
        "kernel": 10 ** (kernel / 20),
        "cpu": 10 ** (host / 20),
    }


def test_a_lever_alone_gives_what_slack_gives(seen: Run) -> None:
    timeline, by_hand_ = levers(seen.judged)

    def seconds(**settings: float) -> float:
        return float(timeline.seconds_at(by_hand_.values_at(**settings))) + by_hand_.beyond

    assert seconds() == seen.judged.seconds
    curve = tolerate(seen, "link").curve
    for slack in (1e-6, 1e-4, 3e-3):
        assert seconds(slack=slack) == pytest.approx(float(curve(slack)), rel=1e-9)
    both = surface(
        seen.judged, slack=np.array([0.0, 1e-5]), bandwidth=np.array([0.25, 4.0]), every=None
    )
    moved = [[seconds(slack=s, byte=1 / b) for b in (0.25, 4.0)] for s in (0.0, 1e-5)]
    np.testing.assert_allclose(moved, both.seconds, rtol=1e-9)
    for over in ("launch", "kernel", "cpu"):
        along = sweep(seen.judged, over).curve
        for cost in (0.2, 3.0):
            assert seconds(**{over: cost}) == pytest.approx(float(along(cost)), rel=1e-9)


def walked(flat: Flat, values: np.ndarray) -> float:
    """The run time of a flat graph [s], by hand."""
    time = [0.0] * len(flat.residual_ns)
    waits: list[list[int]] = [[] for _ in time]
    for edge, target in enumerate(flat.target.tolist()):
        waits[target].append(edge)
    padded = np.append(values, 0.0)
    lag = np.maximum(flat.lag_ns + (padded[flat.term] * flat.worth).sum(axis=0), 0.0).tolist()
    for instant, edges in enumerate(waits):
        assert all(flat.source[edge] < instant for edge in edges)
        time[instant] = max(
            (time[flat.source[edge]] + lag[edge] for edge in edges), default=0.0
        ) + float(flat.residual_ns[instant])
    return max(time) * 1e-9


def test_the_flat_graph_is_the_compiled_one(seen: Run) -> None:
    timeline, by_hand_ = levers(seen.judged)
    flat = timeline.flat(PART_OF_CATEGORY)
    assert set(flat.part.tolist()) <= set(range(len(PARTS)))
    for at in POSITIONS:
        values = by_hand_.values_at(**costs(at))
        assert walked(flat, values) == pytest.approx(float(timeline.seconds_at(values)), rel=1e-12)


@pytest.mark.browser
def test_the_browser_says_what_the_command_line_says(moved: Visit, seen: Run) -> None:
    *told, unticked = moved.told()
    timeline, by_hand_ = levers(seen.judged)
    for at, one in zip(POSITIONS, told, strict=True):
        values = by_hand_.values_at(**costs(at))
        expected = float(timeline.seconds_at(values)) + by_hand_.beyond
        assert one["seconds"] == pytest.approx(expected, rel=1e-9), at
        bars = projected_parts(timeline, values, *timeline.replayed(values), by_hand_.beyond)
        assert one["parts"] == pytest.approx([bars[part] for part in PARTS], abs=1e-9 * expected), (
            at
        )
        assert "NaN" not in one["words"] and one["bars"] == told[0]["bars"]
    assert "as recorded" in told[0]["words"] and "as recorded" not in told[1]["words"]
    assert unticked["bars"] == told[0]["bars"] - 1


@pytest.mark.browser
def test_a_premium_pays_as_its_law_says(moved: Visit, answer: Answer) -> None:
    shown = by_hand.premium_section(verdicts(answer.projections))["rows"]
    away = [p for p in answer.projections if p.target.startswith("cdi-")]
    assert len(shown) == len(away) == 3
    for (_, premium, use), told in zip(PREMIUMS, moved.told("premium"), strict=True):
        hand, *rows = told["rows"]
        penalty = told["seconds"] / answer.run.profile.seconds
        assert hand[1:] == [
            f"{penalty:.3f}×",
            hand[2],
            by_hand.pays((penalty,) * 3, premium / 100, use)[1],
        ]
        assert hand[2] == signed(break_even_premium(penalty)) or abs(penalty - 1) < 1e-12
        for row, target, p in zip(rows, shown, away, strict=True):
            ends = tuple(end / p.measured_seconds for end in p.by_coupling.ends)
            words = by_hand.pays((p.by_coupling.penalty, *ends), premium / 100, use)[1]
            assert row == [target["name"], target["penalty"], target["premium"], words]


def test_a_premium_pays_up_to_its_break_even() -> None:
    for penalty in (0.8, 1.0, 1.3):
        for use in (1.0, 1.7):
            even = break_even_premium(penalty, use=use)
            assert (
                by_hand.pays((penalty,) * 3, even - 1e-9, use)[0] == "good"
                and by_hand.pays((penalty,) * 3, even + 1e-9, use)[0] == "poor"
            )
            assert break_even_utilisation(penalty, even) == pytest.approx(use, rel=1e-12)
    assert by_hand.pays((1.0, 0.9, 1.2), 0.0, 1.0)[1].startswith("not decided")


def test_the_premium_of_a_run_is_that_of_a_suite_of_it(brief: Run) -> None:
    suite = of_files(
        Portfolio((Member("only", brief),), (Offer("cdi-row-link"), Offer("cdi-row-api"))), draws=0
    )
    for target in ("cdi-row-link", "cdi-row-api"):
        (row,) = by_hand.premium_section(verdicts(brief.project([target], draws=0).projections))[
            "rows"
        ]
        assert row["premium"] == signed(suite.pair(target, "self").premium_by_coupling.value)


NAMES = ("latency", "byte", "launch", "kernel", "host")
#: Positions of the sliders of a run that is too large for a page: alone, two, and all of them.
BOUNDED = [
    *((0, 0, 0, 0, 0), (12, 0, 0, 0, 0), (0, -8, 0, 0, 0), (0, 0, 0, 0, 12)),
    (9, -5, 0, 0, 0),
    (0, 0, 7, 0, -6),
    (17, 3, -9, 5, 8),
]
BOUNDED_PROBE = PROBE.replace(
    "seconds: Number",
    "low: Number(section.dataset.low), high: Number(section.dataset.high), seconds: Number",
)


@pytest.mark.browser
def test_a_run_too_large_for_a_page_is_bounded(
    chromium: Browser, brief: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(by_hand, "MOST_BYTES", 10)
    with each_kind_once():
        text = page(brief.project(["cdi-row-link"], draws=0))
    data = next(json.loads(raw) for _, raw in Page(text).scripts if '"slopes":' in raw)
    assert "arrays" not in data and 64 <= len(data["points"]) <= 200
    ends = [
        (int(a["min"]), int(a["max"]))
        for tag, a in Page(text).tags
        if tag == "input" and a.get("name") in NAMES
    ]
    assert all(
        low <= at <= high for place in BOUNDED for at, (low, high) in zip(place, ends, strict=True)
    )
    visit = chromium.look(
        text, tmp_path / "report.html", BOUNDED_PROBE.replace("POSITIONS", json.dumps(BOUNDED))
    )
    timeline, by_hand_ = levers(brief.judged)
    for at, one in zip(BOUNDED, visit.told(), strict=False):
        exact = float(timeline.seconds_at(by_hand_.values_at(**costs(at)))) + by_hand_.beyond
        assert one["low"] <= exact * (1 + 1e-9) and exact <= one["high"] * (1 + 1e-9), at
        assert one["high"] - one["low"] < 0.05 * exact, at
        if at in BOUNDED[:1]:
            assert one["low"] == pytest.approx(exact, rel=1e-12) == one["high"]
        assert ("\u00b1" in one["words"]) == (one["high"] - one["low"] > 1e-4 * one["seconds"])


def test_planes_bound_the_run_from_below(seen: Run) -> None:
    timeline, by_hand_ = levers(seen.judged)
    axes = [np.array([0.0, 1e-6, 1e-5]), *(np.array([0.25, 0.5, 1.0, 2.0, 4.0]) for _ in range(4))]
    known = planes(timeline, by_hand_, axes, 90)
    assert (
        known is not None
        and len(known.points) == 90
        and known.points[0].tolist() == [0, 1, 1, 1, 1]
    )
    drawn = np.random.default_rng(3)
    for point in [
        *known.points[:20],
        *np.stack([drawn.uniform(axis[0], axis[-1], 40) for axis in axes], axis=1),
    ]:
        slack, byte, launch, kernel, cpu = point
        exact = (
            float(
                timeline.seconds_at(
                    by_hand_.values_at(slack, byte, launch=launch, kernel=kernel, cpu=cpu)
                )
            )
            + by_hand_.beyond
        )
        least = known.least(point)
        assert least <= exact * (1 + 1e-12)
        if any((point == one).all() for one in known.points):
            assert least == pytest.approx(exact, rel=1e-12)


def test_a_run_that_cannot_be_bounded_says_so(brief: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    timeline, by_hand_ = levers(brief.judged)
    gains = replace(by_hand_, dearer={**by_hand_.dearer, "cpu": -by_hand_.dearer["cpu"]})
    assert planes(timeline, gains, [np.array([0.0, 1.0])] * 5, 9) is None
    monkeypatch.setattr(by_hand, "MOST_BYTES", 10)
    monkeypatch.setattr(by_hand, "planes", lambda *_: None)
    text = page(brief)
    assert (
        "more than a page replays" in text
        and text.count("DecompressionStream") == 1  # the numbers of the figures
        and "by-hand-data" not in text
    )
