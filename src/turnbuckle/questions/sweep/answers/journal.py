"""Journal of a sweep's answers: a file of JSON lines that is only appended to, so that a kill costs
only the points in progress.

Every batch of answers is on the disk before the next is asked for (fsync).  A last line that a kill
tore is cut off; the points in it are computed again.  One process at a time may write to a journal,
which a lock (flock) on the file itself holds to; a lock ends with its process, however that ends.
Where the file system has no locks, as some network file systems, `Journal.locked` says so.

A line holds the answers of one batch that have the same results, or its refusals of one kind: keys
of 16 bytes each, and each result once where all have the same value, else as doubles (both in
base64) or as a list.  So a number takes eleven bytes.  It begins with a digest of itself: a line of
which a byte has changed is counted, and its points are computed again.  Lines of the first two
versions have no digest, and those of the first one hold one answer each; both are read as well.

    A085  another process writes to the journal
    A086  the journal cannot be opened or written, or is none
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import numpy as np

from turnbuckle.foundation.errors import TurnbuckleError, error_of
from turnbuckle.foundation.files import opened
from turnbuckle.questions.sweep.answers.outcomes import Answers, Outcome

ENDING: Final = ".journal"
_HEADS: Final = tuple(
    b'{"journal": "turnbuckle sweep", "version": %d}\n' % version for version in (3, 2, 1)
)
#: How a line with a digest begins, and hexadecimal digits of the digest.
_MARK, _DIGITS = b'{"sha256":"', 16
#: Bytes of a key, and those that are looked at at once for the end of the last whole line.
_KEY, _BLOCK = 16, 1 << 16


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
            p
            for p in output.parent.iterdir()
            if p.name.startswith(f"{output.name}.") and p.name.endswith(ENDING) and p.is_file()
        )
    return []


def read_journal(path: Path) -> tuple[Answers, int]:
    """Return the outcomes by key, and the number of whole lines that could not be read.

    A last line without its end does not count as a line.

    Raises
    ------
    UsageError : A086.
    """
    answers, unread = Answers(), 0
    try:
        with opened(path) as file:
            first = file.readline(len(_HEADS[0]))
            if first not in _HEADS:
                if any(head.startswith(first) for head in _HEADS):
                    return answers, 0
                raise _refused(path, "another kind of file")
            for line in file:
                if not line.endswith(b"\n"):
                    break
                try:
                    for key, outcome in _entries(_checked(line, first)):
                        answers.put(key, outcome)
                except (ValueError, KeyError, TypeError, AttributeError):
                    unread += 1
    except (OSError, ValueError) as error:
        raise _refused(path, getattr(error, "strerror", None) or "cannot be read") from error
    return answers, unread


def _checked(raw: bytes, head: bytes) -> Any:
    """Return what a line holds; raise ValueError where its digest is another one, or is missing
    below the present head.
    """
    if raw.startswith(_MARK) or head == _HEADS[0]:
        end = len(_MARK) + _DIGITS
        if raw != _digested(b"{" + raw[end + len('",') :]):
            raise ValueError
    return json.loads(raw)


def _digested(raw: bytes) -> bytes:
    """Return a line that begins with its digest: of the line without it."""
    digest = hashlib.sha256(raw).hexdigest()[:_DIGITS].encode()
    return _MARK + digest + b'",' + raw[1:]


def _entries(line: dict[str, Any]) -> list[tuple[str, Outcome]]:
    """Return the outcomes of a line, by key."""
    if "key" in line:  # the first version
        _plain(line["results"].values())
        return [(line["key"], Outcome(line["results"], str(line["code"]), str(line["error"])))]
    keys = b64decode(line["keys"], validate=True).hex()
    count, odd = divmod(len(keys), 2 * _KEY)
    if odd:
        raise ValueError
    columns = {name: _unpacked(packed, count) for name, packed in line.get("results", {}).items()}
    refusal = str(line.get("code", "")), str(line.get("error", ""))
    outcomes = [
        Outcome({name: column[k] for name, column in columns.items()}, *refusal)
        for k in range(count)
    ]
    return [
        (keys[2 * _KEY * k : 2 * _KEY * (k + 1)], outcome) for k, outcome in enumerate(outcomes)
    ]


def _written(answers: Sequence[tuple[str, Outcome]]) -> bytes:
    """Return the lines that hold answers."""
    alike: dict[tuple[str, ...], list[tuple[str, Outcome]]] = {}
    for key, outcome in answers:
        alike.setdefault((outcome.code, outcome.error, *outcome.results), []).append((key, outcome))
    lines = []
    for (code, error, *names), some in alike.items():
        line: dict[str, Any] = {
            "keys": b64encode(bytes.fromhex("".join(key for key, _ in some))).decode()
        }
        if code:
            line |= {"code": code, "error": error}
        else:
            line["results"] = {
                name: _packed([outcome.results[name] for _, outcome in some]) for name in names
            }
        lines.append(_digested(json.dumps(line, separators=(",", ":")).encode() + b"\n"))
    return b"".join(lines)


def _packed(values: list[Any]) -> Any:
    """Return values as JSON holds them in few bytes: one that all share, doubles in base64, or a
    list.
    """
    if len({repr(v) for v in values}) == 1:
        return {"all": values[0]}
    if all(isinstance(v, float) for v in values):
        return {"f8": b64encode(np.array(values, dtype="<f8").tobytes()).decode()}
    return values


def _unpacked(packed: Any, count: int) -> list[Any]:
    """Return the values of a result; raise ValueError where there are not as many as keys."""
    if isinstance(packed, dict):
        values = (
            [packed["all"]] * count
            if "all" in packed
            else np.frombuffer(b64decode(packed["f8"], validate=True), "<f8").tolist()
        )
    else:
        values = packed
    if not isinstance(values, list) or len(values) != count:
        raise ValueError
    _plain(values)
    return values


def _plain(values: Iterable[Any]) -> None:
    """Raise ValueError for a value that no column of a table can hold."""
    if not all(v is None or isinstance(v, str | int | float) for v in values):
        raise ValueError


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
            raise _refused(path, getattr(error, "strerror", None) or "cannot be opened") from error
        try:
            self.locked = self._lock()
            #: answers, unread: what the journal held when it was opened, as `read_journal` returns
            #: it
            self.answers, self.unread = read_journal(path)  # refuses a file that is not a journal
            self._keep = bool(self.answers or self.unread) or not self.locked
            self._mend()
        except BaseException:
            self.refuse()
            raise

    def write(self, answers: Sequence[tuple[str, Outcome]]) -> None:
        """Append answers by key, and return once they are on the disk."""
        self._append(_written(answers))
        self._keep = True

    def close(self) -> None:
        """Release the journal for other writers."""
        os.close(self._file)

    def refuse(self) -> None:
        """Release the journal because the sweep is refused; a journal without answers is
        removed.
        """
        with suppress(OSError):
            if not self._keep and os.fstat(self._file).st_size <= len(_HEADS[0]):
                self.path.unlink()
        self.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        end = size
        while end and os.pread(self._file, 1, end - 1) != b"\n":
            begin = max(end - _BLOCK, 0)
            end = begin + os.pread(self._file, end - begin, begin).rfind(b"\n") + 1
        if end < size:
            os.ftruncate(self._file, end)
        if not end:
            self._append(_HEADS[0])
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
            raise error_of(
                "A086.unwritten", where=self.path.name, found=error.strerror or ""
            ) from error


def _refused(path: Path, evidence: str) -> TurnbuckleError:
    return error_of("A086.unusable", where=path.name, found=evidence)
