"""A copy of big files' tables in the user's cache folder, so that the second look at a file costs next to nothing.

    $XDG_CACHE_HOME/turnbuckle/<start of the file's SHA-256>-<version of reader and vocabulary>/   a trace as Parquet
    $XDG_CACHE_HOME/turnbuckle/stamps/<hash of path, device, inode, size, mtime, ctime>            the file's SHA-256

An entry belongs to a content, not to a path: a moved or copied file finds it again.  A file whose stamp is known is not
hashed again.  Nothing here ever fails a read: what is missing, damaged or may not be written is read from the file itself.
An entry is used only where nobody but this user can have changed it: every folder of the cache has mode 0700 and is this user's, and no
other user may change a folder above it (`foundation.private_folder`).  Each file of an entry is held against its digest before it is read.
``TURNBUCKLE_NO_CACHE=1`` turns the cache off.
"""

from __future__ import annotations

import hashlib
import json
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

import polars as pl

from turnbuckle.foundation import private_folder
from turnbuckle.foundation.errors import ProfileError, TurnbuckleError
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.trace.trace import LAYOUT, Trace, load_about, load_names, load_table

FLOOR = 8 << 20
"""Smaller files are not cached [B]: they are read as fast as their copy."""
CAPACITY = 10 << 30
"""Size of all entries together [B]; those not used for longest go first."""
READER = 2
"""Raised whenever a reader gives other tables for the same file; entries of other versions are not used."""

_RACY_NS = 50_000_000  # a file changed this recently may change again without a new time stamp
_OLD_SECONDS = 86_400.0
_DIGESTS = "digests.json"
_PIECE = 2 << 20  # hashed by one thread at a time [B]
_ENTRY = re.compile(r"[0-9a-f]{16}-[0-9a-z.]+")
# RuntimeError: no further thread may be started
_BROKEN = (OSError, RuntimeError, ValueError, KeyError, TypeError, AttributeError, pl.exceptions.PolarsError, TurnbuckleError)


def enabled() -> bool:
    """Whether the environment allows a cache."""
    return os.environ.get("TURNBUCKLE_NO_CACHE", "") in ("", "0")


def folder() -> Path:
    """Where the cache lies; nothing is made."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else Path.home() / ".cache") / "turnbuckle"


def version() -> str:
    """What must be equal for an entry to be used: reader, layout and vocabulary."""
    vocabulary = (files("turnbuckle.foundation") / "schema" / "trace.csv").read_bytes()
    return f"{READER}.{LAYOUT}.{zlib.crc32(vocabulary):08x}"


class _Tables(Mapping[str, pl.DataFrame]):
    """Tables of an entry, each read when it is first asked for; if that fails, `again` reads the recording itself."""

    def __init__(
        self, place: Path, rows: dict[str, int], digests: Mapping[str, str], again: Callable[[], Mapping[str, pl.DataFrame]]
    ) -> None:
        self._place, self._rows, self._digests, self._again = place, rows, digests, again
        self._loaded: dict[str, pl.DataFrame] = {}

    def __getitem__(self, name: str) -> pl.DataFrame:
        if name not in self._loaded:
            rows = self._rows[name]
            try:
                _verify(self._place / f"{name}.parquet", self._digests)
                self._loaded[name] = load_table(self._place, name, rows)
            except _BROKEN:
                shutil.rmtree(self._place, ignore_errors=True)
                self._loaded.update(self._again())
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def load(path: Path, again: Callable[[], Trace]) -> Trace | None:
    """The cached trace of the file, or ``None``.  Tables are read when asked for; `again` reads the file itself if one is damaged."""
    if not enabled():
        return None
    try:
        about = path.stat()
        if about.st_size < FLOOR:
            return None
        private_folder.look(folder())
        digest = _known_digest(path, about)
        if digest is None:
            return None
        place = _entry(digest)
        facts, digests = _whole(place, digest)
        names = load_names(place)
        os.utime(place)
        tables = _Tables(place, facts["tables"], digests, lambda: _same(again(), digest).tables)
        return Trace(tables, names, facts["facts"], facts["findings"], path.name)
    except _BROKEN:
        return None


def _whole(place: Path, digest: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return ``trace.json`` of the entry of the recording `digest`, and the digests of the entry's files; the tables are not read yet.

    Raises
    ------
    Shared : another user owns or may change the entry or a file of it.
    OSError, ValueError, KeyError, TypeError, AttributeError : the entry is not there, or not whole.
    """
    private_folder.look(folder(), place.name)
    with private_folder.opened(place / _DIGESTS) as file:
        digests: dict[str, str] = json.load(file)
    for name in digests:
        with private_folder.opened(place / name):
            pass
    for name in ("trace.json", "names.parquet"):
        _verify(place / name, digests)
    facts = load_about(place)
    if facts["facts"]["sha256"] != digest or facts["bytes"] != _sizes(place):
        raise ValueError("the entry is not whole")
    return facts, digests


def _verify(path: Path, digests: Mapping[str, str]) -> None:
    """Raise `ValueError` where the file is not the one that was written; `OSError` where it cannot be read or is not ours alone."""
    with private_folder.opened(path) as file:
        if _digest(file) != digests[path.name]:
            raise ValueError(f"{path.name} is damaged")


def _digest(file: BinaryIO) -> str:
    """SHA-256 of the SHA-256 of every `_PIECE` of a file: all cores share the work."""
    number = file.fileno()
    starts = range(0, os.fstat(number).st_size, _PIECE)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        pieces = threads.map(lambda start: hashlib.sha256(os.pread(number, _PIECE, start)).digest(), starts)
        return hashlib.sha256(b"".join(pieces)).hexdigest()


def _same(trace: Trace, digest: str) -> Trace:
    if trace.facts["sha256"] != digest:
        raise ProfileError("P005", "the file changed since it was opened", where=trace.name, fix="read it again")
    return trace


def store(path: Path, trace: Trace, before: os.stat_result) -> Finding | None:
    """Keep a trace that was just read from `path`; `before` is the file's stat from before the read.

    Returns
    -------
    P200 where the cache, or what it held of this recording, was not used because another user owns or may change it.
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
    """Build P200 of a folder or file.  A folder above the cache is not named: findings are handed on, and its name may be the user's."""
    root, place = folder().resolve(), shared.path.parent.resolve() / shared.path.name
    if place == root:
        what = "the cache folder"
    elif place.is_relative_to(root):
        what = f"{place.relative_to(root)} in the cache folder"
    else:
        what = "a folder above the cache folder"
    return finding("P200", 1, f"{what}: {shared.why}")


def _write(place: Path, trace: Trace) -> None:
    """All files into a folder of another name, then one rename: an entry is there whole or not at all."""
    shutil.rmtree(place, ignore_errors=True)
    draft = Path(tempfile.mkdtemp(prefix="draft-", dir=place.parent))
    try:
        # Uncompressed reads back in half the time and takes well under half of the recording's size.
        trace.to_parquet(draft, compression="uncompressed")
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
    """Size of every table of an entry [B]: a cheap look at whether it is whole."""
    return {p.name: p.stat().st_size for p in sorted(place.glob("*.parquet"))}


def _entry(digest: str) -> Path:
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise ValueError("not a SHA-256")
    return folder() / f"{digest[:16]}-{version()}"


def _stamp(path: Path, about: os.stat_result) -> Path:
    key = f"{path.resolve()}\0{about.st_dev}\0{about.st_ino}\0{about.st_size}\0{about.st_mtime_ns}\0{about.st_ctime_ns}"
    return folder() / "stamps" / hashlib.sha256(os.fsencode(key)).hexdigest()[:32]


def _known_digest(path: Path, about: os.stat_result) -> str | None:
    """The content's hash: remembered, or computed where an entry of the same size could be its own."""
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
    same = (now.st_size, now.st_mtime_ns, now.st_ctime_ns) == (about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    if not same or time.time_ns() - about.st_ctime_ns < _RACY_NS:
        return
    stamp = _stamp(path, about)
    private_folder.make(folder(), "stamps")
    private_folder.write(stamp, digest.encode("ascii"))


def _entries(root: Path) -> list[tuple[float, int, int, Path]]:
    """Last use [s], size of the recording [B], size of the entry [B] and place of every entry of this version or another."""
    out = []
    for place in root.iterdir() if root.is_dir() else ():
        if not _ENTRY.fullmatch(place.name):
            continue
        with suppress(*_BROKEN):
            about: dict[str, Any] = json.loads((place / "trace.json").read_text(encoding="utf-8"))
            out.append((place.stat().st_mtime, int(about["facts"]["size_bytes"]), sum(about["bytes"].values()), place))
    return sorted(out, key=lambda entry: entry[0])


def _make_room(root: Path, keep: Path) -> None:
    """Remove what was not used for longest until all entries fit, then what is left of writes and stamps long past."""
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
