"""Figures of a sweep: every point where it belongs, the axis spaced as its values are, and what is
held still is said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from turnbuckle.mpi.questions.messages.exchanged import MESSAGES
from turnbuckle.questions.sweep import figures as drawing
from turnbuckle.questions.sweep.answers.outcomes import Outcome
from turnbuckle.questions.sweep.figures import MOST, figures
from turnbuckle.questions.sweep.grid import Study
from turnbuckle.questions.sweep.kinds import PROJECT
from turnbuckle.questions.sweep.points import Held
from turnbuckle.questions.sweep.question import Serial, Swept, sweep
from turnbuckle.questions.sweep.ranges import Range, Sample, logarithmic
from turnbuckle.show.figures.files import save

AXES: dict[str, list[Any]] = {
    "path": ["hostcopy", "gpudirect"],
    "ranks_per_node": [1, 2, 4],
    "hop_seconds": [1e-6, 1e-5, 1e-4],
    "mapping": ["linear", "random"],
}


def told(_: Held, asked: Any) -> Mapping[str, Any]:
    talk = (2.0 if asked.path == "hostcopy" else 1.0) * 1e-3 * asked.ranks_per_node + 2 * (
        asked.hop_seconds or 0.0
    )
    talk *= 1.5 if asked.mapping == "random" else 1.0
    return {"seconds": 0.1 + talk, "compute_seconds": 0.1, "communication_seconds": talk}


def swept(
    folder: Path,
    axes: dict[str, Any] | None = None,
    recordings: int = 1,
    sample: Sample | None = None,
) -> Swept:
    paths = {f"run{k}": folder / f"run{k}.bin" for k in range(recordings)}
    for path in paths.values():
        path.write_text(path.name)
    return sweep(
        Study("s", replace(MESSAGES, evaluate=told), paths, {}, (), axes or AXES, folder, sample),
        Serial(),
    )


def by_name(found: Swept) -> dict[str, Any]:
    return {f.name: f for f in figures(found)}


def test_a_figure_for_each_axis_the_gains_and_the_shapes(tmp_path: Path) -> None:
    made = by_name(swept(tmp_path))
    assert list(made) == [
        "sweep-gain-over-ranks-per-node",
        "sweep-gain-over-hop-seconds",
        "sweep-gain-over-mapping",
        "sweep-run0-over-ranks-per-node",
        "sweep-run0-over-hop-seconds",
        "sweep-run0-over-mapping",
        "sweep-run0-node-shapes",
    ]


def test_lines_hold_the_numbers_of_the_table(tmp_path: Path) -> None:
    found = swept(tmp_path)
    over = by_name(found)["sweep-run0-over-hop-seconds"]
    table = {
        (r["path"], r["ranks_per_node"], r["hop_seconds"]): r
        for r in found.rows()
        if r["mapping"] == "linear"
    }
    words = {"hostcopy": "host copies", "gpudirect": "GPUDirect"}
    drawn = {(r["line"], r["hop_seconds"]): r["communication_seconds"] for r in over.rows}
    assert drawn == {
        (f"{words[p]}, ranks per node {n}", h): r["communication_seconds"]
        for (p, n, h), r in table.items()
    }
    assert len(over.legend) == 3 and len({c for _, c in over.legend}) == 3, (
        "each line of a panel has a colour of its own"
    )
    assert "All other settings at their first value: mapping linear" in over.caption
    panels = over.spec["hconcat"]
    assert [p["title"] for p in panels] == ["host copies", "GPUDirect"]
    x, y = (panels[0]["layer"][0]["encoding"][side] for side in "xy")
    assert y["scale"] == panels[1]["layer"][0]["encoding"]["y"]["scale"], "panels have one scale"
    assert x["scale"]["type"] == "log" and x["axis"]["values"] == [1e-6, 1e-5, 1e-4]


def test_gains_span_what_else_varies(tmp_path: Path) -> None:
    gains = by_name(swept(tmp_path))["sweep-gain-over-ranks-per-node"]
    four = next(r for r in gains.rows if r["ranks_per_node"] == 4)
    assert four["gain"] == pytest.approx((8e-3 + 2e-6) / (4e-3 + 2e-6) - 1)
    assert (
        four["least_gain"] == pytest.approx((8e-3 + 2e-4) / (4e-3 + 2e-4) - 1)
        and four["most_gain"] == four["gain"]
    )
    assert "latency per hop 1 us, mapping linear" in gains.caption
    assert gains.title.startswith(
        "By host copies communication takes 83.3\xa0% to 99.95\xa0% longer than by GPUDirect"
    )


def test_shapes_split_compute_and_communication(tmp_path: Path) -> None:
    shapes = by_name(swept(tmp_path))["sweep-run0-node-shapes"]
    assert [(r["ranks_per_node"], r["path"]) for r in shapes.rows] == [
        (n, p) for n in (1, 2, 4) for p in AXES["path"]
    ]
    assert {r["compute_seconds"] for r in shapes.rows} == {0.1} and shapes.rows[0][
        "communication_seconds"
    ] == pytest.approx(2.002e-3)
    whole, alone = shapes.spec["hconcat"]
    bars = whole["layer"][0]["data"]["values"]
    assert (
        max(b["b"] for b in bars) == pytest.approx(108.002)
        and len(alone["layer"][0]["data"]["values"]) == 6
    ), "in ms"


def test_words_are_no_numbers(tmp_path: Path) -> None:
    over = by_name(swept(tmp_path))["sweep-run0-over-mapping"]
    first = over.spec["hconcat"][0]
    assert [la["mark"]["type"] for la in first["layer"]] == ["point"], "no line between names"
    assert first["layer"][0]["encoding"]["x"]["scale"]["domain"] == ["linear", "random"]


def test_a_sample_is_drawn_as_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "_PLACES", 100)
    axes: dict[str, Any] = {
        **AXES,
        "hop_seconds": Range(1e-7, 1e-4, "log"),
        "card_bandwidth": Range(1e9, 1e11, "log"),
    }
    del axes["mapping"]
    made = by_name(swept(tmp_path, axes, sample=Sample(150)))
    names = [
        "sweep-run0-over-hop-seconds",
        "sweep-run0-over-card-bandwidth",
        "sweep-run0-node-shapes",
    ]
    assert [n for n in made if "gain" not in n] == names
    over = made[names[0]]
    assert "75 of 150 places are drawn" in over.caption and "(150 places)" in over.caption
    panels = over.spec["hconcat"]
    assert len(panels) == 2 and all(p["layer"][0]["mark"]["type"] == "point" for p in panels)
    assert len(over.rows) == 75 * 3 * 2 and over.spec["hconcat"][0]["layer"][0]["encoding"]["x"][
        "axis"
    ]["values"] == [1e-6, 1e-5]
    gain = made["sweep-gain-over-hop-seconds"]
    assert "line" not in str([la["mark"] for la in gain.spec["layer"]]), (
        "no line through places that differ in all ranges"
    )


@pytest.mark.parametrize(
    ("values", "log"),
    [
        ([1, 2, 4], True),
        ([1, 2, 3], False),
        ([0, 1, 10], False),
        ([1, 10], True),
        ([1, 2], False),
        ([5], False),
    ],
)
def test_spacing(values: list[float], log: bool) -> None:
    assert logarithmic(values) is log


def test_points_without_an_answer_are_left_out_and_said(tmp_path: Path) -> None:
    found = swept(tmp_path)
    outcomes = [Outcome({}, "A071", "stuck") if k == 0 else o for k, o in enumerate(found.outcomes)]
    made = by_name(replace(found, outcomes=outcomes))
    assert "1 point without an answer" in made["sweep-run0-over-hop-seconds"].caption
    assert len(made["sweep-run0-over-hop-seconds"].rows) == 17
    none = [Outcome({}, "A071", "stuck")] * len(found.outcomes)
    assert figures(replace(found, outcomes=none)) == []


def test_every_figure_can_be_drawn_and_stands_alone(tmp_path: Path) -> None:
    made = figures(swept(tmp_path, recordings=2))
    files = save([f for f in made if "run1" not in f.name], tmp_path / "out")
    assert (len(made), len(files)) == (11, 2 * 7), (
        "both recordings are in each figure of gains, and have four figures each"
    )
    for path in files:
        if path.suffix == ".svg":
            text = path.read_text(encoding="utf-8")
            ElementTree.fromstring(text)
            assert "NaN" not in text and "undefined" not in text, path.name
            width = float(re.search(r'width="([0-9.]+)"', text)[1])  # type: ignore[index]
            assert 420 <= width < 840, path.name


def test_not_more_than_can_be_looked_at(tmp_path: Path) -> None:
    found = swept(
        tmp_path, {"path": ["hostcopy", "gpudirect"], "seed": list(range(10))}, recordings=30
    )
    made = figures(found)
    assert len(made) == MOST
    assert len(made[0].legend) == 30 and len(made[0].rows) == 30 * 10
    assert figures(swept(tmp_path, {"path": ["hostcopy"]})) == [], "nothing varies"


def test_another_model_is_drawn_by_run_time(tmp_path: Path) -> None:
    study = Study(
        "s",
        replace(
            PROJECT,
            evaluate=lambda _, asked: {"seconds": 1.0 + asked.alpha},
            together=None,
            inputs=lambda _: {},
        ),
        {"run": tmp_path / "run.bin"},
        {"draws": 0},
        (),
        {"on": ["gh200", "nvlink-c2c"], "alpha": [1.0, 2.0, 4.0]},
    )
    (tmp_path / "run.bin").write_text("run")
    made = by_name(sweep(study, Serial()))
    assert list(made) == ["sweep-run-over-on", "sweep-run-over-alpha"]
    assert {r["seconds"] for r in made["sweep-run-over-alpha"].rows} == {2.0, 3.0, 5.0}
