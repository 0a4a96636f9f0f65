"""Files: every input is opened here, and every output is written here.

An output that is the same file as an input, by whatever name or link, is refused.  An output is
there whole or not at all.

R001  the file cannot be written
R002  the folder does not exist
R003  the path is a folder
R004  the output is a file that was read
R005  the folder to write is not free
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from turnbuckle.foundation.errors import clipped, error_of, unwritable

#: Device and inode of every input -> the path it was read by and its time of change [ns].
_inputs: Final[dict[tuple[int, int], tuple[str, int]]] = {}

_Name = str | os.PathLike[str]


def opened(path: _Name) -> io.BufferedReader:
    """Open an ordinary file for reading, and note it as an input.

    Raises
    ------
    OSError : it cannot be opened, or is a folder, a pipe or a device: nothing is waited for.
    ValueError : the text is no file name.
    """
    noted(path)
    # the path may have become a pipe since it was checked
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _note(path, os.fstat(descriptor))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def noted(path: _Name) -> Path:
    """Note an ordinary file as an input that others open by its name: the native core, SQLite,
    Polars.  Raises as `opened` does.
    """
    _note(path, Path(path).stat())
    return Path(path)


def _note(path: _Name, about: os.stat_result) -> None:
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(about.st_mode):
        raise OSError(errno.EINVAL, "not an ordinary file", os.fspath(path))
    _inputs.setdefault((about.st_dev, about.st_ino), (os.path.realpath(path), about.st_mtime_ns))


def forget() -> None:
    """Clear the list of inputs, as the command line does at its start."""
    _inputs.clear()


def is_input(path: _Name) -> bool:
    """Return whether a path leads to a file that was read, also through links."""
    try:
        about = Path(path).stat()
        read_by, changed_ns = _inputs[about.st_dev, about.st_ino]
    except (OSError, ValueError, KeyError):
        return False
    if about.st_mtime_ns == changed_ns:
        return True
    # a changed file is still the input, unless the input was deleted and a new file has its inode
    with suppress(OSError):
        there = Path(read_by).stat()
        return (there.st_dev, there.st_ino) == (about.st_dev, about.st_ino)
    return False


def refuse_input(path: _Name, what: str) -> None:
    """Refuse to write `what` to a file that was read.  Raises `ReportError` R004."""
    if is_input(path):
        raise error_of(
            "R004",
            where=clipped(Path(path).name, 120),
            found="the same file as an input, by its name or through a link",
            subject=what,
        )


def goal(path: _Name, what: str, example: str) -> Path:
    """Check, before the work begins, that a file can be written, and return its path.

    Raises
    ------
    ReportError : R001 to R004.
    """
    place = Path(path)
    name = clipped(place.name, 120)
    try:
        if place.is_dir():
            raise error_of("R003", where=name, subject=what, example=example)
        if not place.parent.is_dir():
            raise error_of(
                "R002", where=name, found=f"no folder {clipped(place.parent.name)}", subject=what
            )
        # raises for an impossible name, or one that is too long
        with suppress(FileNotFoundError):
            place.lstat()
    except (OSError, ValueError) as error:
        raise unwritable("R001.file", place, error, subject=what) from error
    refuse_input(place, what)
    return place


@contextmanager
def whole(path: _Name, what: str) -> Iterator[Path]:
    """Yield the path of a draft beside a file.  The draft replaces the file at the end; after an
    error it is deleted, and the file stays.

    A link stays a link, and the file behind it is replaced.  A device or a pipe is written to
    itself.

    Parameters
    ----------
    path : the file to write.
    what : what errors call it, as ``the output``.

    Raises
    ------
    ReportError : R001 to R004.
    """
    place = goal(path, what, "a name in that folder")
    draft: Path | None = None
    try:
        if place.exists() and not place.is_file():
            yield place
            return
        real = Path(os.path.realpath(place))
        draft = real.with_name(_draft_name())
        draft.touch(exist_ok=False)
        yield draft
        refuse_input(real, what)
        if real.exists():
            draft.chmod(stat.S_IMODE(real.stat().st_mode))
        _to_disk(draft)
        draft.replace(real)
    except OSError as error:
        raise unwritable("R001.file", place, error, subject=what) from error
    finally:
        if draft is not None:
            with suppress(OSError):
                draft.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: _Name, what: str) -> Iterator[Path]:
    """Yield a draft folder.  It becomes the folder at the end; after an error it is deleted with
    its content.

    Raises
    ------
    ReportError : R001, R005 where something is there.
    """
    place = free_folder(path, what)
    draft: Path | None = None
    try:
        place.absolute().parent.mkdir(parents=True, exist_ok=True)
        draft = place.absolute().with_name(_draft_name())
        draft.mkdir()
        yield draft
        draft.replace(place)
    except OSError as error:
        raise unwritable("R001.folder", place, error, subject=what) from error
    finally:
        if draft is not None:
            import shutil  # brings the compressors of archives, which `--help` has no use for

            shutil.rmtree(draft, ignore_errors=True)


def free_folder(path: _Name, what: str) -> Path:
    """Return the path of a folder to write: one that is not there, or is empty.  Raises
    `ReportError` R001, R005.
    """
    place = Path(path)
    try:
        if place.is_symlink() or (place.exists() and (not place.is_dir() or any(place.iterdir()))):
            raise error_of(
                "R005",
                where=clipped(place.name, 120),
                found="a link"
                if place.is_symlink()
                else "a folder with files"
                if place.is_dir()
                else "a file",
                subject=what,
            )
        if place.parent.exists() and not place.parent.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), place.parent.name)
    except (OSError, ValueError) as error:
        raise unwritable("R001.folder", place, error, subject=what) from error
    return place


def write_parquet(frame: Any, path: _Name, **options: Any) -> None:
    """Write a Polars frame to a file of any name.  Raises `OSError`, as of a full disk, where
    Polars wraps one into its own error.
    """
    with Path(path).open("wb") as file:
        try:
            frame.write_parquet(file, **options)
        except Exception as error:
            system_error = re.search(r"\(os error ([0-9]{1,4})\)|transport error", str(error))
            if system_error is None:
                raise
            # Polars does not name the error of a device
            number = int(system_error[1] or errno.EIO)
            raise OSError(number, os.strerror(number), os.fspath(path)) from error


def _draft_name() -> str:
    return f".turnbuckle-{os.urandom(8).hex()}.part"


def _to_disk(draft: Path) -> None:
    """Wait until the file is on the disk: a network file system reports only now that there is no
    room.
    """
    descriptor = os.open(draft, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
