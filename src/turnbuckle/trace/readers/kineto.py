"""Reader of Chrome traces of PyTorch's profiler (Kineto), packed or not, of NVIDIA and AMD devices.
The work is in the native core.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from turnbuckle._native import read_kineto
from turnbuckle.foundation.errors import error_of
from turnbuckle.trace.readers.parts.native import native_trace
from turnbuckle.trace.readers.parts.packed_text import beginning
from turnbuckle.trace.trace import Trace

SEPARATOR: Final = "::"
"""Text between the path of an archive and the name of its member."""
_GZIP: Final = b"\x1f\x8b"
_ARCHIVES: Final = (".tar", ".tar.gz", ".tgz")
#: Keys that a trace's text holds early, and no other JSON that a profiler writes.
_KEYS: Final = re.compile(rb'"(traceEvents|deviceProperties|distributedInfo|ph)"\s*:')
_NAMED: Final = (".pt.trace.json", ".pt.trace.json.gz")
#: What shows that shapes of operators' inputs were recorded: the option, or an operator that has
#: them.
_SHAPES: Final = re.compile(rb'"record_shapes"\s*:\s*(?:1|true)|"Input [Dd]ims"')
_OPENS: Final = (b"{", b"[")
_BOM: Final = b"\xef\xbb\xbf"


def archive(path: Path) -> tuple[Path, str] | None:
    """Return the archive and its member that a path such as ``traces.tar.gz::rank0.json`` names;
    None for any other path.

    >>> archive(Path("runs/dlrm.tar.gz::dlrm/rank0.json"))
    (PosixPath('runs/dlrm.tar.gz'), 'dlrm/rank0.json')
    >>> archive(Path("rank0.json")) is None
    True
    """
    place, separator, member = str(path).partition(SEPARATOR)
    return (Path(place), member) if separator and place.endswith(_ARCHIVES) and member else None


def sniff(head: bytes, path: Path) -> bool:
    """Return whether the file may be a trace: JSON, packed by gzip or not, that begins as Chrome
    traces do; or an archive of files.
    """
    if str(path).endswith(_ARCHIVES) or archive(path):
        return True
    if not head.startswith(_GZIP) and not head.removeprefix(_BOM).lstrip().startswith(_OPENS):
        return False
    text = beginning(head, path).removeprefix(_BOM).lstrip()
    if not text:  # packed and damaged from the begin: only the name is left to decide
        return path.name.endswith((".json.gz", *_NAMED))
    return text.startswith(_OPENS) and (bool(_KEYS.search(text)) or path.name.endswith(_NAMED))


def read(
    path: Path, *, threads: int = 0, progress: Callable[[float], object] | None = None
) -> Trace:
    """Read a trace; of an archive ``ARCHIVE::MEMBER``.  Raises `ProfileError` (P025, P026, P035 to
    P037).
    """
    named = archive(path)
    if named is None and str(path).endswith(_ARCHIVES):
        raise error_of(
            "P037.several",
            where=str(path),
            found="no member is named",
            name=path.name,
            separator=SEPARATOR,
        )
    place, member = named or (path, None)
    trace = native_trace(
        path, lambda: read_kineto(place, member=member, threads=threads, progress=progress)
    )
    shapes = member is None and _SHAPES.search(beginning(b"", path)) is not None
    return replace(trace, facts={**trace.facts, "record_shapes": True}) if shapes else trace
