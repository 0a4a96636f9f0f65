"""Any other SQLite file: tried as an export of Nsight Systems, so that the error can name what its
tables are.
"""

from __future__ import annotations

from pathlib import Path

from turnbuckle.trace.readers.nsys import read as read
from turnbuckle.trace.readers.parts.sqlite_tables import MAGIC


def sniff(head: bytes, path: Path) -> bool:
    """Return whether the file is SQLite."""
    return head.startswith(MAGIC)
