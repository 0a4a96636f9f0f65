"""The maps of runs that share: every point drawn once, at its place, and readable."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import turnbuckle as tb
from turnbuckle.questions.sharing.figures import MOST, edges, sharing_figure, shown, title
from turnbuckle.questions.sharing.question import FORMS, Sharer, ready
from turnbuckle.questions.sharing.surface import SharingSurface, sharing_surface
from turnbuckle.show.figures.files import save

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def run() -> Sharer:
    return ready(tb.read(Path(tb.__file__).parent / "examples" / "dgemm-like-synthetic.sqlite"))


@pytest.fixture(scope="module")
def found(run: Sharer) -> SharingSurface:
    return sharing_surface(run, FORMS, (1, 2, 3), (0.0, 1e-6, 1e-5, 1e-4), (1e9, 8e9, 64e9))


def layers(figure: Any) -> list[dict[str, Any]]:
    return [panel for row in figure.spec["vconcat"] for panel in row["hconcat"]]


def test_every_point_has_a_cell(found: SharingSurface) -> None:
    figure = sharing_figure(found)
    panels = layers(figure)
    assert [[k for _, k in row] for row in shown(found)] == [[1, 2, 3], [2, 3], [2, 3], [2, 3]], (
        "one run alone is the same in all forms"
    )
    assert (
        all(len(panel["layer"][0]["data"]["values"]) == 12 for panel in panels)
        and len(figure.rows) == len(found.points) == 144
    )
    cells = panels[0]["layer"][0]["data"]["values"]
    for cell in cells:
        assert cell["a"] < cell["at"] < cell["b"] and cell["c"] < cell["up"] < cell["d"]
    told = {
        (r["bandwidth"], r["latency_seconds"]): r["penalty"]
        for r in figure.rows
        if (r["form"], r["runs"]) == ("loose", 1)
    }
    assert sorted(c["label"] for c in cells) == sorted(f"{p:.2f}" for p in told.values())


def test_the_recorded_machine_is_on_the_first_map_only(run: Sharer, found: SharingSurface) -> None:
    rings = [
        [one for one in panel["layer"] if one["mark"]["type"] == "point"]
        for panel in layers(sharing_figure(found))
    ]
    assert [len(r) for r in rings] == [1, *8 * [0]]
    assert rings[0][0]["data"]["values"] == [
        {"at": run.recorded_bandwidth, "up": run.recorded_latency}
    ]
    off = sharing_figure(sharing_surface(run, ("loose",), (1,), (1e-3,), (1e9,)))
    assert all(one["mark"]["type"] != "point" for panel in layers(off) for one in panel["layer"])


def test_few_maps_stand_side_by_side_and_many_are_thinned(run: Sharer) -> None:
    few = sharing_surface(run, ("loose", "tight", "pooled"), (1, 3), (1e-5,), (1e9,))
    assert shown(few) == [[("loose", 1), ("loose", 3), ("tight", 3), ("pooled", 3)]]
    many = replace(few, runs=tuple(range(1, 10)))
    assert all(len(row) == MOST for row in shown(many)) and [k for _, k in shown(many)[0]] == [
        1,
        4,
        6,
        9,
    ]


def test_it_is_drawn(found: SharingSurface, tmp_path: Path) -> None:
    files = save([sharing_figure(found)], tmp_path)
    page = ElementTree.parse(files[0]).getroot()
    words = " ".join("".join(t.itertext()) for t in page.iter(f"{SVG}text"))
    assert (
        "3 runs" in words
        and "one GPU 3× as large" in words
        and "Ring: the recorded machine" in words
    )
    assert not re.search(r"NaN|undefined|null", words)


def test_edges_lie_between_and_half_a_cell_beyond() -> None:
    assert edges((1.0, 4.0, 16.0)) == [0.5, 2.0, 8.0, 32.0] and edges((3.0,)) == [1.5, 6.0]
    assert title("loose", 4, 2) == ("4 runs", "2 GPUs each, one link") and title("tight", 1, 2) == (
        "one run",
        "its 2 GPUs on one link",
    )


def test_what_gets_faster_and_what_was_asked_stand_beside_the_map(run: Sharer) -> None:
    """A speed up of some per cent is blue: the legend has a blue for it; speed and hop change every
    number.
    """
    one = sharing_figure(
        sharing_surface(
            run, ("loose",), (1,), (1e-6, 1e-4), (16e9, 64e9), speed=1.5, hop_seconds=2e-6
        )
    )
    assert min(r["penalty"] for r in one.rows) < 0.95 and any(
        "−10" in word for word, _ in one.legend
    )
    told = one.caption.replace("\N{NO-BREAK SPACE}", " ")
    assert "2 µs are added to each copy" in told and "1.5 times as fast as recorded" in told
