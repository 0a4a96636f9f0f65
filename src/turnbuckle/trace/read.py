"""Entry point for recordings: the choice of the reader for a file, and the error when no reader
knows it.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import polars as pl

from turnbuckle.foundation import registry
from turnbuckle.foundation.errors import TurnbuckleError, did_you_mean, error_of
from turnbuckle.foundation.files import opened
from turnbuckle.trace.cache import cache
from turnbuckle.trace.readers import kineto, nsys_tables, parquet
from turnbuckle.trace.readers.parts.mpi_ranges import with_named_calls
from turnbuckle.trace.readers.parts.packed_text import MARK, beginning
from turnbuckle.trace.recorders import FORMATS
from turnbuckle.trace.trace import Trace, completed

#: Stands for a reader of ours that needs no entry to be found.
_OURS = registry.Entry("turnbuckle")
_REPORTS = (".nsys-rep", ".qdrep", ".qdstrm")
#: Patterns of the files that name a recording when the user gives its folder.
_ENTRY_FILES = (
    "*.sqlite",
    "*.otf2",
    "*.prv",
    "*.prv.gz",
    "*.meta",
    "*.trace",
    "*.trace.xz",
    "*.trace.gz",
    "*.paje",
    "*.json.gz",
    "*.pt.trace.json",
    "*.nvvp",
    "*.db",
    "*.goal",
)
_SQLITE = (".sqlite", ".sqlite3", ".db")
#: Ends of the names of files that tools write one of for each rank, each a recording by itself.
_OF_RANKS = (
    ".sqlite",
    ".sqlite3",
    ".db",
    ".nvvp",
    ".nvprof",
    ".json",
    ".json.gz",
    ".otf2",
    ".turnbuckle",
)
#: How files begin that Turnbuckle itself writes for others: both time lines of a run, an answer.
_BOTH = re.compile(
    rb'\{\s*"displayTimeUnit"\s*:\s*"ns"\s*,\s*"otherData"\s*:\s*\{.*"coupling_alone"',
    re.DOTALL,
)
_ANSWER = re.compile(
    rb'\{\s*"schema_version"\s*:\s*[0-9]+\s*,|\{(?!.*"traceEvents").*"tool"\s*:\s*"turnbuckle"',
    re.DOTALL,
)


def read(
    path: str | Path,
    *,
    use_cache: bool = True,
    threads: int = 0,
    progress: Callable[[float], object] | None = None,
) -> Trace:
    """Read one recorded run.

    Raises P001 missing, P002 directory, P003 empty, P004 not SQLite, P005 damaged, P006 and P007
    not a recording, P008 a needed column is absent, P009 locked, P010 no permission, P011 a report
    that must be exported before it is read, P013 unknown format, P014 and P057 to P061 a folder of
    Turnbuckle's own that cannot be believed, P015 to P019 an OTF2 archive that is incomplete,
    damaged, packed, of clocks that cannot be aligned, or only a part of one, P020, P022 and P024
    text files of ranks that are not all there, do not belong together or cannot be read, P025 and
    P026 a packed file that is damaged or grows beyond measure, P027 to P030 a Paje or Paraver trace
    whose header or lines cannot be read or that holds no MPI calls, P032 to P034 a DUMPI trace that
    is damaged, not known or not complete, P035 to P037 a Chrome trace that is none of PyTorch's,
    holds no GPU activity, or is not in its archive, P072 to P074 tables in a folder, or a report
    that nsys cannot export, P095 and P096 what Turnbuckle wrote for another program.  Of a folder,
    what `turnbuckle.trace.merge.merge.merge` refuses.

    Parameters
    ----------
    path : an Nsight Systems SQLite export (``nsys export --type sqlite``), a folder of its tables
        (``--type parquetdir``, ``arrowdir``), a report (``.nsys-rep``) where nsys is on the path,
        the anchor file of an OTF2 archive (``X.otf2``), a Paje trace of SimGrid (packed or not), a
        Paraver trace (``X.prv``), a file of a DUMPI trace (``X.meta`` or a ``.bin``), the text file
        of a rank by liballprof, a Chrome trace of PyTorch (``X.json``, ``X.json.gz``,
        ``ARCHIVE.tar.gz::MEMBER``), or a folder that `Trace.to_parquet` wrote; or a folder with one
        such file for each rank of a run, which are merged (`turnbuckle.trace.merge`).
    use_cache : keep a copy of big files' tables in the user's cache folder, and use it.
    threads : number of reading threads; 0 means one per core.
    progress : called about ten times a second with the share of the work done, 0 to 1; what it
        raises stops the read.
    """
    place = Path(path)
    if use_cache:
        # before the format is looked for: an entry belongs to a content
        cached = cache.load(
            place, lambda: read(place, use_cache=False, threads=threads, progress=progress)
        )
        if cached is not None:
            _head(place)  # raises where the file may not be read any more
            return cached
    if parquet.sniff(b"", place):
        return _read(parquet, place, use_cache, threads, progress)
    if nsys_tables.sniff(b"", place):
        return _read(nsys_tables, place, use_cache, threads, progress)
    if parts := recordings_in(place):
        from turnbuckle.trace.merge.merge import merge  # what one recording does not need

        return merge(
            [read(p, use_cache=use_cache, threads=threads, progress=progress) for p in parts],
            name=place.name,
        ).trace
    member = kineto.archive(place)
    head = _head(member[0] if member else place).removeprefix(MARK)
    _refuse_own(place, head)
    for entry in registry.entries("readers").values():
        reader = _that_knows(entry, head, place)
        if reader is not None:
            return _read(reader, place, use_cache, threads, progress, entry)
    if program := nsys_tables.exporter(place):
        return with_named_calls(
            nsys_tables.read_report(place, program, threads=threads, progress=progress)
        )
    raise _unknown(place, head)


def _that_knows(entry: registry.Entry, head: bytes, path: Path) -> ModuleType | None:
    """Return the reader of an entry if it knows a file; of a third party's that fails the others go
    on without it.
    """
    try:
        reader: ModuleType = entry.load()
        return reader if entry.call(lambda: reader.sniff(head, path)) else None
    except TurnbuckleError as error:
        registry.left_out(entry, error)
        return None


def _read(
    reader: ModuleType,
    path: Path,
    use_cache: bool,
    threads: int,
    progress: Callable[[float], object] | None,
    entry: registry.Entry = _OURS,
) -> Trace:
    before = (
        path.stat()
        if use_cache and getattr(reader, "CACHED", True) and not kineto.archive(path)
        else None
    )

    def whole() -> Trace:
        try:
            trace: Trace = reader.read(path, threads=threads, progress=progress)
        except OSError as error:
            raise error_of("P005.parts", where=str(path), found=str(error)) from error
        return with_named_calls(_formed(trace, entry) if entry.package else trace)

    trace = entry.call(whole, seconds=None)
    distrust = None if before is None else cache.store(path, trace, before)
    return trace if distrust is None else replace(trace, findings=[*trace.findings, distrust])


def _formed(trace: object, entry: registry.Entry) -> Trace:
    """Return what a third party's reader made, with every column in its type.  Raises A503 where it
    is no recording.
    """
    if (
        not isinstance(trace, Trace)
        or not isinstance(trace.names, pl.Series)
        or not isinstance(trace.facts, dict)
    ):
        raise entry.fault("A503.type", wanted="read gives a turnbuckle.Trace")
    return replace(
        trace, tables={name: completed(name, frame) for name, frame in trace.tables.items()}
    )


def recordings_in(path: Path) -> list[Path]:
    """Return the recordings of a folder that holds several of one kind, rank10 after rank2; empty
    for anything else.
    """
    try:
        inside = (
            [p for p in path.iterdir() if not p.name.startswith(".")]
            if path.is_dir() and not parquet.sniff(b"", path)
            else []
        )
    except OSError:
        return []
    kinds = {
        end: [p for p in inside if p.name.endswith(end) and (p.is_file() or parquet.sniff(b"", p))]
        for end in _OF_RANKS
    }
    several = [files for files in kinds.values() if len(files) > 1]
    return sorted(several[0], key=_by_number) if len(several) == 1 else []


def _by_number(path: Path) -> list[tuple[int, str]]:
    """Return a key that sorts names as people count."""
    words = re.findall(r"[0-9]+|[^0-9]+", path.name)
    return [(int(word), "") if word.isdecimal() else (-1, word) for word in words]


def _head(path: Path) -> bytes:
    """Return the first 512 bytes of a file.  Raises `ProfileError` where it is missing, empty, not
    an ordinary file or may not be read.
    """
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise error_of("P002.directory", where=str(path), fix=_inside(path))
        if not stat.S_ISREG(status.st_mode):
            raise error_of("P002.special", where=str(path))
        with opened(path) as file:
            head = file.read(512)
    except (FileNotFoundError, NotADirectoryError):
        raise error_of(
            "P001", where=str(path), fix=did_you_mean(path.name, _siblings(path)) or None
        ) from None
    except PermissionError:
        raise error_of("P010", where=str(path)) from None
    except (OSError, ValueError) as error:
        raise error_of("P005.file", where=str(path), found=str(error)) from error
    if not head:
        raise error_of("P003", where=str(path), found="0 bytes")
    return head


def _refuse_own(path: Path, head: bytes) -> None:
    """Refuse a file that Turnbuckle wrote for another program: it holds a run twice, or none.
    Raises P095.
    """
    begin = beginning(head, path) if head.startswith((b"{", b"\x1f\x8b")) else head
    if _BOTH.match(begin):
        raise error_of("P095.viewer", where=str(path))
    if _ANSWER.match(begin):
        raise error_of("P095.answer", where=str(path))


def _siblings(path: Path) -> list[str]:
    try:
        return sorted(p.name for p in path.parent.iterdir())
    except OSError:
        return []


def _inside(path: Path) -> str:
    for below in ("", "*/"):
        recordings = [
            p.relative_to(path) for kind in _ENTRY_FILES for p in sorted(path.glob(below + kind))
        ]
        if recordings:
            return f"name the file inside it, for example {recordings[0]}"
    return "name the file of the recording itself"


def _unknown(path: Path, head: bytes) -> TurnbuckleError:
    suffix = path.suffix.lower()
    if suffix in _REPORTS:
        export = path.with_suffix(".sqlite")
        command = (
            f"nsys export --type sqlite --output {export.name} "
            f"{path.with_suffix('.nsys-rep').name if suffix == '.qdstrm' else path.name}"
        )
        if suffix == ".qdstrm":
            command = f"QdstrmImporter --input-file {path.name}, then {command}"
        if export.is_file():
            command = f"read {export.name}, which stands beside it; or {command}"
        return error_of("P011", where=str(path), found=f"a {suffix} file", fix=command)
    if suffix in _SQLITE:
        return error_of("P004", where=str(path), found="its first 16 bytes are not SQLite's")
    kind = (
        "text"
        if head[:64].isascii() and b"\x00" not in head[:64]
        else "a binary file of unknown format"
    )
    return error_of("P013", where=str(path), found=kind, formats=", ".join(FORMATS.values()))
