"""Journal of a sweep's answers: a file of JSON lines that is only appended to, so that a kill costs only the points in progress.

Every batch of answers is on the disk before the next is asked for (fsync).  A last line that a kill tore is cut off; the point is
computed again.  One process at a time may write to a journal, which a lock (flock) on the file itself holds to; a lock ends with its
process, however that ends.  Where the file system has no locks, as some network file systems, `Journal.locked` says so.

    A085  another process writes to the journal
    A086  the journal cannot be opened or written, or is none
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from turnbuckle.foundation.errors import TurnbuckleError, error_of
from turnbuckle.foundation.files import opened

ENDING: Final = ".journal"
_HEAD: Final = b'{"journal": "turnbuckle sweep", "version": 1}\n'


@dataclass(frozen=True)
class Outcome:
    """The answer at one point, or the refusal.

    Attributes
    ----------
    results : by name.
    code, error : of the refusal; empty where there is an answer.
    """

    results: Mapping[str, Any]
    code: str = ""
    error: str = ""


def journal_of(output: Path, shard: tuple[int, int] | None = None) -> Path:
    """Return the path of a table's journal.

    >>> journal_of(Path("table.parquet"), (2, 8)).name
    'table.parquet.2-of-8.journal'
    """
    middle = "" if shard is None else f".{shard[0]}-of-{shard[1]}"
    return output.with_name(output.name + middle + ENDING)


def beside(output: Path) -> list[Path]:
    """Return the paths of all journals of a table: its own and those of its shards."""
    with suppress(OSError):
        return sorted(
            p for p in output.parent.iterdir() if p.name.startswith(f"{output.name}.") and p.name.endswith(ENDING) and p.is_file()
        )
    return []


def read_journal(path: Path) -> tuple[dict[str, Outcome], int]:
    """Return the outcomes by key, and the number of whole lines that could not be read.

    A last line without its end does not count as a line.

    Raises
    ------
    UsageError : A086.
    """
    try:
        with opened(path) as file:
            raw = file.read()
    except (OSError, ValueError) as error:
        raise _refused(path, getattr(error, "strerror", None) or "cannot be read") from None
    if not raw.startswith(_HEAD):
        if _HEAD.startswith(raw):
            return {}, 0
        raise _refused(path, "another kind of file")
    outcomes: dict[str, Outcome] = {}
    unread = 0
    for line in _lines(raw):
        try:
            entry = json.loads(line)
            outcomes[entry["key"]] = Outcome(entry["results"], entry["code"], entry["error"])
        except (ValueError, KeyError, TypeError):
            unread += 1
    return outcomes, unread


def _lines(raw: bytes) -> Iterator[bytes]:
    """Yield the whole lines after the first."""
    yield from raw[len(_HEAD) : raw.rfind(b"\n") + 1].splitlines()


class Journal:
    """A journal open for writing.

    Attributes
    ----------
    locked : whether the file system keeps others out.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._keep = path, True
        try:
            if path.exists() and not path.is_file():
                raise OSError(errno.EINVAL, "not an ordinary file")
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except (OSError, ValueError) as error:
            raise _refused(path, getattr(error, "strerror", None) or "cannot be opened") from None
        try:
            self.locked = self._lock()
            answers, unread = read_journal(path)  # refuses a file that is not a journal
            self._keep = bool(answers or unread) or not self.locked
            self._mend()
        except BaseException:
            self.refuse()
            raise

    def write(self, answers: Sequence[tuple[str, Outcome]]) -> None:
        """Append answers by key, and return once they are on the disk."""
        lines = [json.dumps({"key": k, "results": dict(o.results), "code": o.code, "error": o.error}) + "\n" for k, o in answers]
        self._append("".join(lines).encode())
        self._keep = True

    def close(self) -> None:
        """Release the journal for other writers."""
        os.close(self._file)

    def refuse(self) -> None:
        """Release the journal because the sweep is refused; a journal without answers is removed."""
        with suppress(OSError):
            if not self._keep and os.fstat(self._file).st_size <= len(_HEAD):
                self.path.unlink()
        self.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close() if kind is None else self.refuse()

    def _lock(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise error_of("A085", where=self.path.name) from None
            return False
        return True

    def _mend(self) -> None:
        """Cut off a torn last line, and begin an empty file."""
        size = os.fstat(self._file).st_size
        end = self.path.read_bytes().rfind(b"\n") + 1
        if end < size:
            os.ftruncate(self._file, end)
        if not end:
            self._append(_HEAD)
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _append(self, raw: bytes) -> None:
        view = memoryview(raw)
        try:
            while view:
                view = view[os.write(self._file, view) :]
            os.fsync(self._file)
        except OSError as error:
            raise error_of("A086.unwritten", where=self.path.name, found=error.strerror or "") from None


def _refused(path: Path, evidence: str) -> TurnbuckleError:
    return error_of("A086.unusable", where=path.name, found=evidence)
