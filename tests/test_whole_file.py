"""A file is there whole or not at all, and a place that cannot be is told before the work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from turnbuckle.errors import ReportError
from turnbuckle.whole_file import goal, whole


def test_a_file_takes_its_place_at_the_end(tmp_path: Path) -> None:
    place = tmp_path / "a.txt"
    place.write_text("old")
    with whole(place, "the table") as draft:
        draft.write_text("new")
        assert place.read_text() == "old" and draft.parent == tmp_path
    assert place.read_text() == "new" and list(tmp_path.iterdir()) == [place]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ValueError, ReportError])
def test_what_stops_the_work_goes_on_and_leaves_no_draft(tmp_path: Path, stop: type[BaseException]) -> None:
    place = tmp_path / "a.txt"
    place.write_text("old")
    with pytest.raises(stop), whole(place, "the table") as draft:
        draft.write_text("half")
        raise stop("R001", "another thing")
    assert place.read_text() == "old" and list(tmp_path.iterdir()) == [place]


def test_what_cannot_be_written_is_said_of_the_place(tmp_path: Path) -> None:
    place = tmp_path / "a.txt"
    with pytest.raises(ReportError) as refused, whole(place, "the table"):
        raise OSError(28, "No space left on device")
    told = refused.value
    assert (told.code, told.what, told.where) == ("R001", "the table cannot be written", "a.txt")
    assert told.found == "No space left on device" and str(tmp_path) not in "\n".join(told.lines())


def test_a_pipe_is_written_to_itself(tmp_path: Path) -> None:
    place = tmp_path / "pipe"
    os.mkfifo(place)
    with whole(place, "the table") as draft:
        assert draft == place
    assert place.is_fifo()


@pytest.mark.parametrize(
    ("name", "code"),
    [("", "R003"), ("no/a.txt", "R002"), ("file/a.txt", "R002"), ("a\0b.txt", "R001"), ("x" * 300, "R001")],
    ids=["folder", "none", "below a file", "nul", "long"],
)
def test_places_that_cannot_be(tmp_path: Path, name: str, code: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError) as refused:
        goal(f"{tmp_path}/{name}", "the table", "a.txt")
    assert refused.value.code == code and refused.value.fix and str(tmp_path) not in "\n".join(refused.value.lines())
    assert goal(tmp_path / "file", "the table", "a.txt") == tmp_path / "file"
