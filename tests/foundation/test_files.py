"""A file is there whole or not at all, and a place that cannot be is told before the work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from refusals import refused

from turnbuckle.foundation import files
from turnbuckle.foundation.errors import ReportError
from turnbuckle.foundation.files import goal, whole, whole_folder


def test_a_file_takes_its_place_at_the_end(tmp_path: Path) -> None:
    place = tmp_path / "a.txt"
    place.write_text("old")
    with whole(place, "the table") as draft:
        draft.write_text("new")
        assert place.read_text() == "old" and draft.parent == tmp_path
    assert place.read_text() == "new" and list(tmp_path.iterdir()) == [place]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ValueError, ReportError])
def test_what_stops_the_work_goes_on_and_leaves_no_draft(
    tmp_path: Path, stop: type[BaseException]
) -> None:
    place = tmp_path / "a.txt"
    place.write_text("old")
    with pytest.raises(stop), whole(place, "the table") as draft:
        draft.write_text("half")
        raise stop("R001", "another thing")
    assert place.read_text() == "old" and list(tmp_path.iterdir()) == [place]


def test_what_cannot_be_written_is_said_of_the_place(tmp_path: Path) -> None:
    place = tmp_path / "a.txt"
    with pytest.raises(ReportError) as caught, whole(place, "the table"):
        raise OSError(28, "No space left on device")
    told = caught.value
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
    [
        ("", "R003"),
        ("no/a.txt", "R002"),
        ("file/a.txt", "R002"),
        ("a\0b.txt", "R001"),
        ("x" * 300, "R001"),
    ],
    ids=["folder", "none", "below a file", "nul", "long"],
)
def test_places_that_cannot_be(tmp_path: Path, name: str, code: str) -> None:
    (tmp_path / "file").write_text("")
    error = refused(code, goal, f"{tmp_path}/{name}", "the table", "a.txt")
    assert error.fix and str(tmp_path) not in "\n".join(error.lines())
    assert goal(tmp_path / "file", "the table", "a.txt") == tmp_path / "file"


# --- inputs ---------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _no_inputs() -> None:
    files.forget()


def test_what_was_opened_is_known_by_any_of_its_names(tmp_path: Path) -> None:
    place, other = tmp_path / "a", tmp_path / "b"
    place.write_text("text")
    other.write_text("text")
    with files.opened(place) as file:
        assert file.read() == b"text"
    os.link(place, tmp_path / "second")
    (tmp_path / "link").symlink_to("second")
    assert [files.is_input(tmp_path / n) for n in ("a", "second", "link", "b", "none")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    for name in ("a", "second", "link"):
        with pytest.raises(ReportError) as caught, whole(tmp_path / name, "the table"):
            raise AssertionError("nothing is written")
        assert caught.value.code == "R004"
    files.forget()
    assert not files.is_input(place)


def test_an_input_that_is_read_while_the_output_is_made_is_kept(tmp_path: Path) -> None:
    place = tmp_path / "a"
    place.write_text("text")
    with pytest.raises(ReportError) as caught, whole(place, "the table") as draft:
        draft.write_text("new")
        files.noted(place)
    assert (
        caught.value.code == "R004"
        and place.read_text() == "text"
        and list(tmp_path.iterdir()) == [place]
    )


def test_a_new_file_with_an_old_number_is_no_input(tmp_path: Path) -> None:
    place = tmp_path / "a"
    place.write_text("text")
    files.noted(place)
    place.rename(tmp_path / "moved")
    assert files.is_input(tmp_path / "moved"), "the last name of what was read"
    os.utime(tmp_path / "moved", ns=(1, 1))
    assert not files.is_input(tmp_path / "moved"), "as a file that was made since"


@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "none", "loop"])
def test_only_ordinary_files_are_opened(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "a"
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind in ("device", "loop"):
        place.symlink_to("/dev/zero" if kind == "device" else place)
    with pytest.raises(OSError, match=r"\S"):
        files.opened(place)
    assert not files.is_input(place)


# --- folders --------------------------------------------------------------------------------------


def test_a_folder_takes_its_place_at_the_end(tmp_path: Path) -> None:
    with whole_folder(tmp_path / "out", "the copy") as draft:
        (draft / "a").write_text("new")
        assert not (tmp_path / "out").exists()
    assert (tmp_path / "out" / "a").read_text() == "new" and len(list(tmp_path.iterdir())) == 1
    with pytest.raises(ReportError) as caught, whole_folder(tmp_path / "out", "the copy"):
        raise AssertionError("nothing is written")
    assert caught.value.code == "R005"


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_a_folder_that_is_stopped_is_gone(tmp_path: Path, stop: BaseException) -> None:
    with (
        pytest.raises((KeyboardInterrupt, ReportError)),
        whole_folder(tmp_path / "out", "the copy") as draft,
    ):
        (draft / "a").write_text("half")
        raise stop
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_as_one(tmp_path: Path) -> None:
    class Frame:
        def write_parquet(self, file: object) -> None:
            raise ValueError("parquet: underlying IO error: No space left on device (os error 28)")

    with pytest.raises(OSError, match="No space left"):
        files.write_parquet(Frame(), tmp_path / "a.parquet")
