"""Search for credentials among the environment variables that a recording carries beside its
events.  No name and no value is kept.

Profilers copy the environment of the process into their files (Nsight Systems:
``META_DATA_CAPTURE`` and ``TARGET_INFO_SYSTEM_ENV``; PyTorch's users: entries beside the events).
The readers do not read it (finding P119); this module counts what looks like a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from turnbuckle.foundation.errors import ProfileError
from turnbuckle.foundation.files import opened
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.trace.readers.chakra.files import pieces
from turnbuckle.trace.readers.parts import sqlite_tables
from turnbuckle.trace.readers.parts.packed_text import json_text

#: Tables of Nsight Systems with names and values of the process and its system.
TABLES: Final = ("META_DATA_CAPTURE", "TARGET_INFO_SYSTEM_ENV")
_MOST_ROWS: Final = 1_000_000
_MOST_LETTERS: Final = 1 << 20
_OVERLAP: Final = 512
_SECRET: Final = re.compile(
    r"(?:^|[^A-Z])(?:TOKENS?|KEYS?|PASS|PASSWD|PASSPHRASE|COOKIE|JWT)(?:$|[^A-Z])|PASSWORD|SECRET|APIKEY|CREDENTIAL|CONNECTION_STRING",
    re.IGNORECASE,
)
#: ``NAME=value`` inside a text, and ``"NAME": "value"`` in JSON, with names as environment
#: variables have them.
_ASSIGNED: Final = re.compile(r"(?:^|[\s\"';,\x00\[])([A-Z][A-Z0-9_]{2,79})=[^\s\"';,]")
_KEYED: Final = re.compile(rb'"([A-Z][A-Z0-9_]{2,79})"\s*:\s*"[^"]')
_ASSIGNED_BYTES: Final = re.compile(rb"(?:[\s\"';,\[]|\\n)([A-Z][A-Z0-9_]{2,79})=[^\s\"';,]")


@dataclass(frozen=True)
class Secrets:
    """Entries of the environment that a file carries beside its events."""

    #: entries with names and values of the process or its system, by table
    places: dict[str, int] = field(default_factory=dict)
    credentials: int = (
        0  #: distinct names among them that look like those of credentials and have a value
    )
    looked: bool = True  #: whether this kind of file could be looked at

    def findings(self) -> list[Finding]:
        """Return P182 where there are credentials."""
        return (
            [finding("P182", self.credentials, ", ".join(self.places))] if self.credentials else []
        )


def credential(name: str) -> bool:
    """Return whether a variable of that name is likely to hold a credential.

    >>> [credential(n) for n in ("AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "TOKENIZERS_PARALLELISM", "PWD", "KEYBOARD", "DB_PASSWORD")]
    [True, True, False, False, False, True]
    """
    return bool(_SECRET.search(name))


def look(path: Path, *, texts: bool = True) -> Secrets:
    """Search one recording; `Secrets.looked` is False for other kinds of files, and for files that
    cannot be read.

    Parameters
    ----------
    texts : search JSON too, from its first byte to its last, which takes as long as reading it.
    """
    try:
        place = Path(str(path).partition("::")[0])
        if not place.is_file():
            return Secrets(looked=False)
        with opened(place) as file:
            head = file.read(16)
        if head == sqlite_tables.MAGIC:
            return _in_tables(place)
        if texts and (
            head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[") or head.startswith(b"\x1f\x8b")
        ):
            return _in_text(path)
    except (OSError, ValueError, *sqlite_tables.ERRORS, ProfileError):
        pass  # the reader of the recording reports what is wrong with it
    return Secrets(looked=False)


def _in_tables(path: Path) -> Secrets:
    places: dict[str, int] = {}
    credentials: set[str] = set()
    with sqlite_tables.connected(path) as file:
        columns = sqlite_tables.columns(file)
        for table in TABLES:
            if not {"name", "value"} <= set(columns.get(table, ())):
                continue
            count = 0
            cells = "substr(CAST(name AS TEXT), 1, 1024), substr(CAST(value AS TEXT), 1, ?)"
            for name, value in file.execute(
                f"SELECT {cells} FROM {table} LIMIT ?", (_MOST_LETTERS, _MOST_ROWS)
            ):
                count += 1
                if value:
                    credentials.update(_names(table, name or "", value))
            if count:
                places[table] = count
    return Secrets(places, len(credentials))


def _names(table: str, name: str, value: str) -> Iterator[str]:
    """Yield the names of credentials that one entry holds: its own name where that is a variable's,
    and the names assigned in its value.
    """
    # Nsight Systems' own entries are no variables: NVTX_OPTIONS:TRACE_NVTX_RANGE_HOT_KEY
    kind, _, variable_name = name.rpartition(":")
    variable = kind.endswith("ENVIRONMENT_VARIABLE") or (table == TABLES[1] and not kind)
    if (
        variable
        and re.fullmatch(r"[A-Z][A-Z0-9_]{2,200}", variable_name)
        and credential(variable_name)
    ):
        yield variable_name
    for assignment in _ASSIGNED.finditer(value):
        if credential(assignment[1]):
            yield assignment[1]


def _in_text(path: Path) -> Secrets:
    credentials: set[str] = set()
    entries: set[str] = set()
    rest = b""
    for piece in json_text(pieces(path), path):
        text = rest + piece
        for pattern in (_KEYED, _ASSIGNED_BYTES):
            for match in pattern.finditer(text):
                name = match[1].decode("ascii")
                if len(entries) < _MOST_ROWS:
                    entries.add(name)
                    if credential(name):
                        credentials.add(name)
        rest = text[-_OVERLAP:]
    return Secrets({"variables": len(entries)} if entries else {}, len(credentials))
