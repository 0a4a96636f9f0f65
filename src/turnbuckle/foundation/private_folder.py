"""Folders and files that nobody but this user can change: made with mode 0700, and every folder on
the way to them looked at
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_MOST_LINKS = 40
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class Shared(PermissionError):
    """A folder or a file that another user owns or may change.

    Attributes
    ----------
    path : the folder or file.
    why : what makes it so, in words.
    """

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(errno.EPERM, why, str(path))
        self.path, self.why = path, why


def make(root: Path, *below: str) -> Path:
    """Create `root` and the folders `below` it, one inside the other, where they are missing, and
    return the last one.

    Each of them has mode 0700 and belongs to this user.  Each folder above `root` belongs to this
    user or to root, and its group and others cannot write to it unless it is sticky.

    Raises
    ------
    Shared : another user owns or may change one of them.
    OSError : a folder cannot be made.
    """
    return _owned(root, below, create=True)


def look(root: Path, *below: str) -> Path:
    """Return the last folder, under the conditions of `make`, and create none.  Raises `Shared`;
    `FileNotFoundError`.
    """
    return _owned(root, below, create=False)


def _owned(root: Path, below: tuple[str, ...], create: bool) -> Path:
    folder = root
    for name in ("", *below):
        folder = folder / name
        place = trusted_path(folder, create=create)
        about = place.stat()
        _belongs(place, about, {os.geteuid()})
        if about.st_mode & _OTHERS_WRITE:
            raise Shared(place, _writers(about))
        if not stat.S_ISDIR(about.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(place))
        if about.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            place.chmod(stat.S_IRWXU)
    return folder


def trusted_path(path: Path, *, create: bool = False) -> Path:
    """Follow a path from / down, refuse it where another user may change any part of it, and return
    it without links.

    Parameters
    ----------
    create : make folders that are missing, with mode 0700.

    Raises
    ------
    Shared : another user owns or may change `path`, a folder on the way, or a link on the way.
    OSError : it is not there, or cannot be made.
    """
    # Nobody else can change what the steps so far passed, so a part cannot be swapped after it was
    # looked at.
    trusted = {0, os.geteuid()}
    place = Path("/")
    ahead = list(reversed(path.absolute().parts))
    links = 0
    while ahead:
        step = place / ahead.pop()
        if step.name == "..":
            place = place.parent
            continue
        about = _made(step) if create else step.lstat()
        _belongs(step, about, trusted)
        if stat.S_ISLNK(about.st_mode):
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            ahead += reversed(step.readlink().parts)
            continue
        sticky = stat.S_ISDIR(about.st_mode) and about.st_mode & stat.S_ISVTX
        if about.st_mode & _OTHERS_WRITE and not sticky:
            raise Shared(step, _writers(about))
        place = step
    return place


def _made(folder: Path) -> os.stat_result:
    try:
        return folder.lstat()
    except FileNotFoundError:
        # Another process of ours may have made it since.
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        return folder.lstat()


def _belongs(path: Path, about: os.stat_result, users: set[int]) -> None:
    if about.st_uid not in users:
        raise Shared(path, "it belongs to another user")


def _writers(about: os.stat_result) -> str:
    return "everybody may change it" if about.st_mode & stat.S_IWOTH else "its group may change it"


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file of a private folder for reading, and no link.

    Raises
    ------
    Shared : another user owns or may change the file.
    OSError : it cannot be opened, or is no ordinary file.
    """
    # opening a pipe must not block
    with os.fdopen(
        os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb"
    ) as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "it is no ordinary file", str(path))
        _belongs(path, about, {os.geteuid()})
        if about.st_mode & _OTHERS_WRITE:
            raise Shared(path, _writers(about))
        yield file


def write(path: Path, content: bytes) -> None:
    """Write a file of a private folder with mode 0600, in place of what was there, whole or not at
    all.  Raises `OSError`.
    """
    number, draft = tempfile.mkstemp(prefix=".", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
