"""Cache of big files' tables in the user's cache folder, so that the second read of a file costs
next to nothing.

    $XDG_CACHE_HOME/turnbuckle/<start of the file's SHA-256>-<version of reader and vocabulary>/   a trace, its tables as columns
    $XDG_CACHE_HOME/turnbuckle/stamps/<hash of path, device, inode, size, mtime, ctime>            the file's SHA-256

An entry belongs to a content, not to a path, so a moved or copied file finds it again.  A file
whose stamp is in the cache is not hashed again.  A problem of the cache never fails a read: the
recording itself is read where an entry is missing, damaged or cannot be written. An entry is used
only where nobody but this user can have changed it.  Every folder of the cache has mode 0700 and
belongs to this user, and no other user may change a folder above it (`foundation.private_folder`).
Each file of an entry is compared with its digest before it is used, which finds damage; tables are
mapped, not read (`turnbuckle.trace.cache.columns_file`). ``TURNBUCKLE_NO_CACHE=1`` turns the cache
off.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import re
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import polars as pl

from turnbuckle.foundation import private_folder
from turnbuckle.foundation.errors import TurnbuckleError, error_of
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.trace.cache import columns_file
from turnbuckle.trace.trace import LAYOUT, Trace, dtypes, load_about, load_names, load_table

FLOOR = 8 << 20
"""Size of the smallest cached file [B]; smaller ones are read as fast as their copy."""
CAPACITY = 10 << 30
"""Size of all entries together [B]; those not used for longest go first."""
READER = 6
"""Version of the readers: increase it whenever a reader gives other tables for the same file; entries of other versions are not used."""

_RACY_NS = 50_000_000  # a file changed this recently may change again without a new time stamp
_OLD_SECONDS = 86_400.0
_DIGESTS = "digests.json"
_COLUMNS = ".columns"
_PIECE = 2 << 20  # summed by one thread at a time [B]
_STRIDE = 4096  # words between those that are added up
_ENTRY = re.compile(r"[0-9a-f]{16}-[0-9a-z.]+")
#: Errors that make an entry unusable; RuntimeError is raised where no further thread may be
#: started.
_BROKEN = (
    OSError,
    RuntimeError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    pl.exceptions.PolarsError,
    TurnbuckleError,
)


def enabled() -> bool:
    """Return whether the cache may be used: ``TURNBUCKLE_NO_CACHE`` is unset, empty or 0."""
    return os.environ.get("TURNBUCKLE_NO_CACHE", "") in ("", "0")


def folder() -> Path:
    """Return the path of the cache folder, without making it."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else Path.home() / ".cache") / "turnbuckle"


def version() -> str:
    """Return the version of an entry: reader, layout and vocabulary must all be equal for the entry
    to be used.
    """
    vocabulary = (files("turnbuckle.foundation") / "schema" / "trace.csv").read_bytes()
    return f"{READER}.{LAYOUT}.{zlib.crc32(vocabulary):08x}"


class _Tables(Mapping[str, pl.DataFrame]):
    """Tables of an entry, each read on first use; if that fails, `read_again` reads the recording
    itself.
    """

    def __init__(
        self,
        place: Path,
        rows: dict[str, int],
        digests: Mapping[str, str],
        read_again: Callable[[], Mapping[str, pl.DataFrame]],
    ) -> None:
        self._place, self._rows, self._digests, self._read_again = place, rows, digests, read_again
        self._loaded: dict[str, pl.DataFrame] = {}

    def __getitem__(self, name: str) -> pl.DataFrame:
        if name not in self._loaded:
            rows = self._rows[name]
            try:
                self._loaded[name] = _table(self._place, name, rows, self._digests)
            except _BROKEN:
                shutil.rmtree(self._place, ignore_errors=True)
                self._loaded.update(self._read_again())
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def _table(place: Path, name: str, rows: int, digests: Mapping[str, str]) -> pl.DataFrame:
    """Return a table of an entry after a look at its digest.  Raises what `_verify` and the readers
    raise.
    """
    if not columns_file.holds(types := dtypes(name)):
        _verify(place / f"{name}.parquet", digests)
        return load_table(place, name, rows)
    with private_folder.opened(path := place / f"{name}{_COLUMNS}") as file:
        _compare(file, path, digests)
        return columns_file.mapped(file, types, rows)


def load(path: Path, read_again: Callable[[], Trace]) -> Trace | None:
    """Return the cached trace of the file, or ``None``.  Tables are read on first use, by
    `read_again` from the file if one is damaged.
    """
    if not enabled():
        return None
    try:
        status = path.stat()
        if status.st_size < FLOOR:
            return None
        private_folder.look(folder())
        digest = _content_digest(path, status)
        if digest is None:
            return None
        entry = _entry(digest)
        about, digests = _whole(entry, digest)
        names = load_names(entry)
        os.utime(entry)
        tables = _Tables(
            entry, about["tables"], digests, lambda: _same(read_again(), digest).tables
        )
        return Trace(tables, names, about["facts"], about["findings"], path.name)
    except _BROKEN:
        return None


def _whole(place: Path, digest: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return ``trace.json`` of the entry of the recording `digest`, and the digests of the entry's
    files; the tables are not read yet.

    Raises
    ------
    Shared : another user owns or may change the entry or a file of it.
    OSError, ValueError, KeyError, TypeError, AttributeError : the entry is missing or incomplete.
    """
    private_folder.look(folder(), place.name)
    with private_folder.opened(place / _DIGESTS) as file:
        digests: dict[str, str] = json.load(file)
    for name in digests:
        with private_folder.opened(place / name):
            pass
    for name in ("trace.json", "names.parquet"):
        _verify(place / name, digests)
    about = load_about(place)
    if about["facts"]["sha256"] != digest or about["bytes"] != _sizes(place):
        raise ValueError("the entry is not whole")
    return about, digests


def _verify(path: Path, digests: Mapping[str, str]) -> None:
    """Raise `ValueError` where the file is not the one written, `OSError` where it cannot be read
    or another user may change it.
    """
    with private_folder.opened(path) as file:
        _compare(file, path, digests)


def _compare(file: BinaryIO, path: Path, digests: Mapping[str, str]) -> None:
    if _digest(file) != digests[path.name]:
        raise ValueError(f"{path.name} is damaged")


def _digest(file: BinaryIO) -> str:
    """Return a digest that differs where a file is damaged: the SHA-256 of the sums of every
    `_PIECE`, which all cores share.
    """
    number = file.fileno()
    size = os.fstat(number).st_size
    if not size:
        return hashlib.sha256().hexdigest()
    content = mmap.mmap(
        number, 0, flags=mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0), prot=mmap.PROT_READ
    )
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        pieces = threads.map(
            lambda start: _sums(memoryview(content)[start : start + _PIECE]), range(0, size, _PIECE)
        )
        return hashlib.sha256(size.to_bytes(8, "little") + b"".join(pieces)).hexdigest()


def _sums(piece: memoryview) -> bytes:
    """Return the sums of words that stand `_STRIDE` apart, and the rest of the bytes; summing is as
    fast as reading memory.
    """
    rows = len(piece) // (8 * _STRIDE)
    words = np.frombuffer(piece, np.uint64, rows * _STRIDE).reshape(rows, _STRIDE)
    return hashlib.sha256(
        np.add.reduce(words, axis=0).tobytes() + piece[rows * 8 * _STRIDE :]
    ).digest()


def _same(trace: Trace, digest: str) -> Trace:
    if trace.facts["sha256"] != digest:
        raise error_of("P005.changed", where=trace.name)
    return trace


def store(path: Path, trace: Trace, before: os.stat_result) -> Finding | None:
    """Keep a trace that was just read from `path`; `before` is the file's stat from before the
    read.

    Returns P200 where the cache, or what it held of this recording, was not used because another
    user owns or may change it.
    """
    if not enabled() or before.st_size < FLOOR:
        return None
    distrust = None
    try:
        private_folder.make(folder())
        private_folder.make(folder(), "stamps")
        digest = trace.facts["sha256"]
        place = _entry(digest)
        try:
            with suppress(FileNotFoundError), private_folder.opened(_stamp(path, before)):
                pass
            _whole(place, digest)
        except private_folder.Shared as shared:
            distrust = _not_trusted(shared)
            _write(place, trace)
        except _BROKEN:
            _write(place, trace)
        _make_room(place.parent, keep=place)
        _remember(path, before, digest)
    except private_folder.Shared as shared:
        return _not_trusted(shared)
    except _BROKEN:
        pass
    return distrust


def _not_trusted(shared: private_folder.Shared) -> Finding:
    """Build P200 for a folder or file.  A folder above the cache is not named: its name may be the
    user's, and findings are handed on.
    """
    root, place = folder().resolve(), shared.path.parent.resolve() / shared.path.name
    if place == root:
        what = "the cache folder"
    elif place.is_relative_to(root):
        what = f"{place.relative_to(root)} in the cache folder"
    else:
        what = "a folder above the cache folder"
    return finding("P200", 1, f"{what}: {shared.why}")


def _write(place: Path, trace: Trace) -> None:
    """Write all files into a draft folder, then rename it once, so that an entry is complete or
    absent.
    """
    shutil.rmtree(place, ignore_errors=True)
    draft = Path(tempfile.mkdtemp(prefix="draft-", dir=place.parent))
    try:
        plain = {name for name in trace.tables if columns_file.holds(dtypes(name))}
        trace.to_parquet(draft, compression="uncompressed", leaving_out=plain)
        for name in plain:
            columns_file.write(trace.tables[name], draft / f"{name}{_COLUMNS}")
        about = json.loads((draft / "trace.json").read_text(encoding="utf-8"))
        about["bytes"] = _sizes(draft)
        (draft / "trace.json").write_text(json.dumps(about), encoding="utf-8")
        digests = {}
        for written in sorted(draft.iterdir()):
            written.chmod(0o600)
            with written.open("rb") as file:
                digests[written.name] = _digest(file)
        private_folder.write(draft / _DIGESTS, json.dumps(digests).encode())
        draft.rename(place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _sizes(place: Path) -> dict[str, int]:
    """Return the size of every table of an entry [B]: a cheap test of whether the entry is
    whole.
    """
    return {
        p.name: p.stat().st_size
        for p in sorted(place.iterdir())
        if p.suffix in (".parquet", _COLUMNS)
    }


def _entry(digest: str) -> Path:
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise ValueError("not a SHA-256")
    return folder() / f"{digest[:16]}-{version()}"


def _stamp(path: Path, about: os.stat_result) -> Path:
    key = f"{path.resolve()}\0{about.st_dev}\0{about.st_ino}\0{about.st_size}\0{about.st_mtime_ns}\0{about.st_ctime_ns}"
    return folder() / "stamps" / hashlib.sha256(os.fsencode(key)).hexdigest()[:32]


def _content_digest(path: Path, about: os.stat_result) -> str | None:
    """Return the content's hash: from its stamp, or computed where an entry of the same size may
    hold it.
    """
    with suppress(FileNotFoundError):
        private_folder.look(folder(), "stamps")
        with private_folder.opened(_stamp(path, about)) as stamp:
            return stamp.read(64).decode("ascii")
    if about.st_size not in {entry[1] for entry in _entries(folder())}:
        return None
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    with suppress(OSError):
        _remember(path, about, digest)
    return digest


def _remember(path: Path, about: os.stat_result, digest: str) -> None:
    now = path.stat()
    same = (now.st_size, now.st_mtime_ns, now.st_ctime_ns) == (
        about.st_size,
        about.st_mtime_ns,
        about.st_ctime_ns,
    )
    if not same or time.time_ns() - about.st_ctime_ns < _RACY_NS:
        return
    stamp = _stamp(path, about)
    private_folder.make(folder(), "stamps")
    private_folder.write(stamp, digest.encode("ascii"))


def _entries(root: Path) -> list[tuple[float, int, int, Path]]:
    """Return last use [s], size of the recording [B], size of the entry [B] and folder of every
    entry of any version.
    """
    out = []
    for place in root.iterdir() if root.is_dir() else ():
        if not _ENTRY.fullmatch(place.name):
            continue
        with suppress(*_BROKEN):
            about: dict[str, Any] = json.loads((place / "trace.json").read_text(encoding="utf-8"))
            out.append(
                (
                    place.stat().st_mtime,
                    int(about["facts"]["size_bytes"]),
                    sum(about["bytes"].values()),
                    place,
                )
            )
    return sorted(out, key=lambda entry: entry[0])


def _make_room(root: Path, keep: Path) -> None:
    """Remove the entries unused for longest until all fit, then abandoned drafts and stamps without
    an entry.
    """
    entries = _entries(root)
    total = sum(entry[2] for entry in entries)
    for _, _, size, place in sorted(entries, key=lambda entry: (entry[3] == keep, entry[0])):
        if total <= CAPACITY:
            break
        shutil.rmtree(place, ignore_errors=True)
        total -= size
    now = time.time()
    for draft in root.glob("draft-*"):
        if now - draft.stat().st_mtime > _OLD_SECONDS:
            shutil.rmtree(draft, ignore_errors=True)
    left = {entry.name[:16] for entry in root.iterdir() if _ENTRY.fullmatch(entry.name)}
    for stamp in (root / "stamps").glob("*"):
        with suppress(OSError):
            if stamp.read_text(encoding="ascii")[:16] not in left:
                stamp.unlink()
