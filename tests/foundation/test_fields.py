"""What an answer contains: tables that name only what there is, and documents written from them."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import turnbuckle
from turnbuckle.foundation import fields as subject
from turnbuckle.foundation.fields import DOCUMENTED, Declared, Field, table

PACKAGE = Path(turnbuckle.__file__).parent
ROOMS = sorted(
    ".".join(("turnbuckle", *p.parent.relative_to(PACKAGE).parts))
    for p in PACKAGE.rglob("fields.csv")
)
#: Units of the tables: SI, shares and ratios (1), per cent where the field says so, and those of
#: the row itself.
UNITS = {
    "",
    "1",
    "s",
    "ns",
    "B",
    "B/s",
    "m/s",
    "FLOP/s",
    "FLOP/s/W",
    "W",
    "J",
    "Hz",
    "m",
    "%",
    "s a unit",
    "s/B",
    "as printed",
}
#: Described, and written by a method of another class.
NO_CLASS = {"Provenance"}


def classes(room: str) -> dict[str, type]:
    """Classes that the files of a room define, by name."""
    found: dict[str, type] = {}
    for path in (PACKAGE / Path(*room.split(".")[1:])).glob("*.py"):
        module = (
            importlib.import_module(f"{room}.{path.stem}")
            if path.stem != "__init__"
            else importlib.import_module(room)
        )
        found |= {
            n: c
            for n, c in inspect.getmembers(module, inspect.isclass)
            if c.__module__ == module.__name__
        }
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_a_table_names_what_its_classes_have(room: str) -> None:
    known = classes(room)
    seen = set()
    for row in table(room):
        assert row.meaning and row.unit in UNITS, row
        assert (row.answer, row.key) not in seen, row
        seen.add((row.answer, row.key))
        if row.value == DOCUMENTED or row.answer in NO_CLASS:
            continue
        assert not (row.value and row.key.split(".")[-1].startswith("<")), (
            f"the mapping's own row names its value: {row}"
        )
        kind = known[row.answer]
        assert issubclass(kind, Declared), f"{row.answer} has a table and an as_dict of its own"
        inside = "[]." in row.key or "<" in row.key
        first = (
            (row.value or row.key.split(".")[-1].replace("[]", "").replace("?", ""))
            .partition(" or ")[0]
            .split(".")[0]
        )
        below_an_object = any(
            row.key.startswith(f"{r.key}.") for r in table(room) if r.answer == row.answer
        )
        assert (
            inside
            or below_an_object
            or hasattr(kind, first)
            or (is_dataclass(kind) and first in {f.name for f in fields(kind)})
        ), row


@pytest.mark.parametrize("room", ROOMS)
def test_every_answer_of_a_room_has_a_table(room: str) -> None:
    tables = {row.answer for row in table(room)}
    for name, kind in classes(room).items():
        if (
            issubclass(kind, Declared)
            and kind.as_dict is Declared.as_dict
            and not inspect.isabstract(kind)
            and kind is not Declared
        ):
            assert name in tables, name


@dataclass
class Part(Declared):
    size: int


@dataclass
class Whole(Declared):
    parts: list[Part]
    seconds: Any = 2.0
    note: str = ""
    interval: tuple[float, float] | None = None
    by_name: dict[str, Part] = field(default_factory=dict)

    def doubled(self) -> float:
        return 2 * float(self.seconds)


ROWS = [
    Field("Whole", "seconds", "", "s", ""),
    Field("Whole", "note", "note or null", "", ""),
    Field("Whole", "interval?[]", "", "s", ""),
    Field("Whole", "more.doubled", "", "s", ""),
    Field("Whole", "more.low", "interval.0", "s", ""),
    Field("Whole", "parts[].bytes", "size", "B", ""),
    Field("Whole", "named", "by_name", "", ""),
    Field("Whole", "named.<name>.bytes", "size", "B", ""),
    Field("Whole", "named.other", DOCUMENTED, "", ""),
    Field("Part", "size", "", "B", ""),
]


@pytest.fixture(autouse=True)
def rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give this module's own classes a table, in the tests that write them."""
    if "written" in request.node.name:
        monkeypatch.setattr(Part, "__module__", "room.parts")
        monkeypatch.setattr(Whole, "__module__", "room.whole")
        monkeypatch.setattr(subject, "table", lambda package: ROWS if package == "room" else [])
        subject._roots.cache_clear()
    yield
    subject._roots.cache_clear()


def test_written_in_the_order_of_the_table() -> None:
    whole = Whole([Part(1), Part(2)], by_name={"a": Part(3)})
    assert whole.as_dict() == {
        "seconds": 2.0,
        "note": None,
        "more": {"doubled": 4.0, "low": None},
        "parts": [{"bytes": 1}, {"bytes": 2}],
        "named": {"a": {"bytes": 3}},
    }
    assert list(whole.as_dict()) == ["seconds", "note", "more", "parts", "named"]


def test_written_numbers_are_those_of_json() -> None:
    written = Whole([], np.float64(3.0), "said", (1.0, np.float64(2.0))).as_dict()
    assert (
        written["interval"] == [1.0, 2.0]
        and written["note"] == "said"
        and written["more"]["low"] == 1.0
    )
    assert subject.plain({1: np.arange(2), "part": Part(4)}) == {"1": [0, 1], "part": {"size": 4}}


def test_written_is_nothing_that_json_lacks() -> None:
    with pytest.raises(TypeError, match="JSON has no object"):
        subject.plain(object())


def test_an_answer_without_a_table_is_a_defect() -> None:
    class Undeclared(Declared):
        pass

    with pytest.raises(TypeError, match=r"no fields\.csv declares Undeclared"):
        Undeclared().as_dict()


def test_an_answer_has_one_heading() -> None:
    """The manual tells answers of one name apart by their room."""
    places = {(room, row.answer) for room in ROOMS for row in table(room)}
    assert len({(room.rpartition(".")[2], name) for room, name in places}) == len(places)
