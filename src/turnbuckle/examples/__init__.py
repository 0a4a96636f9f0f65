"""The recording that ships with Turnbuckle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path

SAMPLE = "milc-like-synthetic.sqlite"


@contextmanager
def sample() -> Iterator[Path]:
    """Path of the sample while the context lasts.  It is synthetic: see the README beside it."""
    with as_file(files("turnbuckle") / "examples" / SAMPLE) as path:
        yield path
