"""A copy of big files' tables in the user's cache folder, so that the second look at a file costs next to nothing.

    $XDG_CACHE_HOME/turnbuckle/<start of the file's SHA-256>-<version of reader and vocabulary>/   a trace as Parquet
    $XDG_CACHE_HOME/turnbuckle/stamps/<hash of path, device, inode, size, mtime, ctime>            the file's SHA-256

An entry belongs to a content, not to a path: a moved or copied file finds it again.  A file whose stamp is known is not
hashed again.  Nothing here ever fails a read: what is missing, damaged or may not be written is read from the file itself.
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
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import polars as pl

from turnbuckle.errors import ProfileError, TurnbuckleError
from turnbuckle.trace.trace import LAYOUT, Trace, load_about, load_names, load_table

FLOOR = 8 << 20
"""Smaller files are not cached [B]: they are read as fast as their copy."""
CAPACITY = 10 << 30
"""Size of all entries together [B]; those not used for longest go first."""
READER = 1
"""Raised whenever a reader gives other tables for the same file; entries of other versions are not used."""

_RACY_NS = 50_000_000  # a file changed this recently may change again without a new time stamp
_OLD_SECONDS = 86_400.0
_ENTRY = re.compile(r"[0-9a-f]{16}-[0-9a-z.]+")
_BROKEN = (OSError, ValueError, KeyError, TypeError, AttributeError, pl.exceptions.PolarsError, TurnbuckleError)


def enabled() -> bool:
    """Whether the environment allows a cache."""
    return os.environ.get("TURNBUCKLE_NO_CACHE", "") in ("", "0")


def folder() -> Path:
    """Where the cache lies; nothing is made."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else Path.home() / ".cache") / "turnbuckle"


def version() -> str:
    """What must be equal for an entry to be used: reader, layout and vocabulary."""
    vocabulary = (files("turnbuckle") / "schema" / "trace.csv").read_bytes()
    return f"{READER}.{LAYOUT}.{zlib.crc32(vocabulary):08x}"


class _Tables(Mapping[str, pl.DataFrame]):
    """Tables of an entry, each read when it is first asked for; if that fails, `again` reads the recording itself."""

    def __init__(self, place: Path, rows: dict[str, int], again: Callable[[], Mapping[str, pl.DataFrame]]) -> None:
        self._place, self._rows, self._again = place, rows, again
        self._loaded: dict[str, pl.DataFrame] = {}

    def __getitem__(self, name: str) -> pl.DataFrame:
        if name not in self._loaded:
            rows = self._rows[name]
            try:
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
        digest = _known_digest(path, about)
        if digest is None:
            return None
        place = _entry(digest)
        facts = load_about(place)
        if facts["facts"]["sha256"] != digest or facts["bytes"] != _sizes(place):
            raise ValueError("the entry is not whole")
        names = load_names(place)
        os.utime(place)
        tables = _Tables(place, facts["tables"], lambda: _same(again(), digest).tables)
        return Trace(tables, names, facts["facts"], facts["findings"], path.name)
    except _BROKEN:
        return None


def _same(trace: Trace, digest: str) -> Trace:
    if trace.facts["sha256"] != digest:
        raise ProfileError("P005", "the file changed since it was opened", where=trace.name, fix="read it again")
    return trace


def store(path: Path, trace: Trace, before: os.stat_result) -> None:
    """Keep a trace that was just read from `path`; `before` is the file's stat from before the read."""
    if not enabled() or before.st_size < FLOOR:
        return
    with suppress(*_BROKEN):
        digest = trace.facts["sha256"]
        place = _entry(digest)
        if not (place / "trace.json").is_file():
            _write(place, trace)
            _make_room(place.parent, keep=place)
        _remember(path, before, digest)


def _write(place: Path, trace: Trace) -> None:
    """All files into a folder of another name, then one rename: an entry is there whole or not at all."""
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.rmtree(place, ignore_errors=True)
    draft = Path(tempfile.mkdtemp(prefix="draft-", dir=place.parent))
    try:
        # Uncompressed reads back in half the time and takes well under half of the recording's size.
        trace.to_parquet(draft, compression="uncompressed")
        about = json.loads((draft / "trace.json").read_text(encoding="utf-8"))
        about["bytes"] = _sizes(draft)
        (draft / "trace.json").write_text(json.dumps(about), encoding="utf-8")
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
    with suppress(OSError):
        return _stamp(path, about).read_text(encoding="ascii").strip()
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
    stamp.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = stamp.with_suffix(f".{os.getpid()}")
    draft.write_text(digest, encoding="ascii")
    draft.replace(stamp)


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
