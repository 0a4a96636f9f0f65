"""Folders are made for this user alone, and refused where another user may change any part of the
way to them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from turnbuckle.foundation import private_folder
from turnbuckle.foundation.private_folder import Shared

STRANGER = 54_321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file away")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def give_away(path: Path) -> None:
    os.chown(path, STRANGER, -1, follow_symlinks=False)


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "above" / "turnbuckle"


def test_every_folder_that_is_made_is_for_its_owner_alone(root: Path, open_umask: None) -> None:
    made = private_folder.make(root, "native", "key")
    assert made == root / "native" / "key" and private_folder.look(root, "native", "key") == made
    assert [mode(folder) for folder in (root.parent, root, root / "native", made)] == [0o700] * 4


def test_what_others_could_read_is_closed(root: Path) -> None:
    made = private_folder.make(root, "native")
    root.chmod(0o755)
    made.chmod(0o711)
    private_folder.look(root, "native")
    assert (mode(root), mode(made)) == (0o700, 0o700)


def test_nothing_is_made_by_looking(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        private_folder.look(root)
    assert not root.parent.exists()


PLACES: dict[str, Callable[[Path], Path]] = {
    "above": lambda root: root.parent,
    "itself": lambda root: root,
    "below": lambda root: root / "native",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("bits", "why"), [(0o020, "its group may change it"), (0o002, "everybody may change it")]
)
def test_a_folder_that_others_may_change_is_refused(
    root: Path, place: str, bits: int, why: str
) -> None:
    private_folder.make(root, "native")
    loose = PLACES[place](root)
    loose.chmod(0o755 | bits)
    for ask in (private_folder.make, private_folder.look):
        with pytest.raises(Shared) as refused:
            ask(root, "native")
        assert (refused.value.path, refused.value.why) == (loose, why)


def test_a_sticky_folder_may_lie_above_but_not_be_the_folder(root: Path) -> None:
    private_folder.make(root)
    root.parent.chmod(0o1777)
    private_folder.look(root)
    root.chmod(0o1777)
    with pytest.raises(Shared):
        private_folder.look(root)


@as_root
@pytest.mark.parametrize("place", PLACES)
def test_a_folder_of_another_user_is_refused(root: Path, place: str) -> None:
    private_folder.make(root, "native")
    give_away(PLACES[place](root))
    with pytest.raises(Shared) as refused:
        private_folder.make(root, "native")
    assert (refused.value.path, refused.value.why) == (
        PLACES[place](root),
        "it belongs to another user",
    )


def test_the_folder_of_another_user_is_refused_who_is_not_root(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private_folder.make(root)
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    with pytest.raises(Shared, match="belongs to another user"):
        private_folder.look(root)


@as_root
def test_roots_folders_may_lie_above(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_away(private_folder.make(root))
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    private_folder.look(root)


def test_links_are_followed_where_nobody_else_can_turn_them(root: Path, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    root.parent.symlink_to("scratch/../scratch")
    private_folder.make(root)
    assert mode(tmp_path / "scratch" / "turnbuckle") == 0o700
    assert private_folder.trusted_path(root) == tmp_path / "scratch" / "turnbuckle"
    (tmp_path / "scratch").chmod(0o777)
    with pytest.raises(Shared):
        private_folder.look(root)


@as_root
def test_a_link_of_another_user_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    root.parent.symlink_to(tmp_path / "scratch")
    give_away(root.parent)
    with pytest.raises(Shared) as refused:
        private_folder.make(root)
    assert refused.value.path == root.parent and list((tmp_path / "scratch").iterdir()) == []


def test_links_in_a_circle_end(root: Path) -> None:
    root.parent.symlink_to(root.parent.name)
    with pytest.raises(OSError, match="symbolic links"):
        private_folder.look(root)


def test_a_file_is_no_folder(root: Path) -> None:
    private_folder.make(root)
    (root / "native").touch(mode=0o600)
    with pytest.raises(NotADirectoryError):
        private_folder.make(root, "native")
    with pytest.raises(NotADirectoryError):
        private_folder.make(root, "native", "key")


def test_a_file_is_written_for_its_owner_alone_and_whole(
    tmp_path: Path, open_umask: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "file"
    place.write_bytes(b"old")
    private_folder.write(place, b"new")
    assert place.read_bytes() == b"new" and mode(place) == 0o600

    def stop(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        private_folder.write(place, b"half")
    assert place.read_bytes() == b"new" and list(tmp_path.iterdir()) == [place]


def test_a_file_of_ours_alone_is_opened(tmp_path: Path) -> None:
    private_folder.write(tmp_path / "file", b"text")
    with private_folder.opened(tmp_path / "file") as file:
        assert file.read() == b"text"


def _link(place: Path) -> None:
    place.rename(place.with_name("other"))
    place.symlink_to("other")


def _pipe(place: Path) -> None:
    place.unlink()
    os.mkfifo(place, 0o600)


@pytest.mark.parametrize(
    "harm",
    [
        _link,
        _pipe,
        lambda place: place.chmod(0o620),
        lambda place: place.chmod(0o602),
        pytest.param(give_away, marks=as_root),
    ],
    ids=["link", "pipe", "group", "everybody", "stranger"],
)
def test_a_file_that_is_not_is_refused(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    place = tmp_path / "file"
    private_folder.write(place, b"text")
    harm(place)
    with pytest.raises(OSError), private_folder.opened(place):
        pass
