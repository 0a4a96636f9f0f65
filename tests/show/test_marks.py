"""Pieces of Vega-Lite: where a mark takes its places and colours from, and how bars of times are
stacked.
"""

from __future__ import annotations

from turnbuckle.show.figures import marks
from turnbuckle.show.figures.marks import Bar, few, plot, quantity, stacked_bars


def test_a_number_is_a_place_in_pixels_and_a_name_a_field() -> None:
    x = quantity("seconds", [1.0, 10.0], log=10, title="time")
    rule = marks.rules([{"seconds": 2.0}], x, 4, x2="end", y2=9)
    assert rule["encoding"]["x"]["scale"] == {
        "domain": [1.0, 10.0],
        "nice": False,
        "type": "log",
        "base": 10,
    }
    assert rule["encoding"]["x2"] == {"field": "end"} and "y" not in rule["encoding"]
    assert (rule["mark"]["y"], rule["mark"]["y2"]) == (4, 9)


def test_a_row_states_its_colour_unless_the_mark_does() -> None:
    assert marks.cells([], None, None)["encoding"]["color"] == {
        "field": "colour",
        "type": "nominal",
        "scale": None,
        "legend": None,
    }
    assert "color" not in marks.cells([], None, None, color="#123456")["encoding"]
    assert "color" not in marks.labels([])["encoding"], "text has the ink of the page"
    assert marks.labels([], hue="ink")["encoding"]["color"]["field"] == "ink"


def test_only_what_has_a_tip_is_said_to_a_screen_reader() -> None:
    assert "aria" not in marks.points([], None, None)["mark"]
    described = marks.points([], None, None, tip=True)
    assert described["mark"]["aria"] and described["encoding"]["description"] == {"field": "tip"}


def test_margins_belong_to_the_width() -> None:
    view = plot([], 100, (60, 10, 4, 40), width=300)
    assert (
        view["width"] == 230
        and "data" not in view
        and view["padding"] == {"left": 60, "right": 10, "top": 4, "bottom": 40}
    )


def test_bars_stand_in_groups_and_their_parts_end_to_end() -> None:
    groups = [
        (
            "1 rank",
            [
                Bar("a", "", [(0.1, "red"), (0.0, "grey"), (0.3, "blue")]),
                Bar("b", "", [(0.2, "red")]),
            ],
        ),
        ("2 ranks", []),
    ]
    view = stacked_bars(groups, 200, "run time")
    drawn = view["layer"][0]["data"]["values"]
    assert [(r["y"], r["a"], r["b"]) for r in drawn] == [
        (0, 0, 100),
        (0, 100, 400),
        (18, 0, 200),
    ], "in ms, without the part of no length"
    assert [h["shape"] for h in view["layer"][1]["data"]["values"]] == ["1 rank", ""]
    assert len(stacked_bars(groups, 200, "run time", named=False)["layer"]) == 1


def test_the_ends_are_among_the_few() -> None:
    assert few([1, 2, 3, 4, 5, 6, 7], 3) == [1, 4, 7] and few([1, 2], 3) == [1, 2]
