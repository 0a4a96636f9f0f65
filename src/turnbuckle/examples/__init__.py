"""The recordings that ship with Turnbuckle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

SAMPLE: Final = "milc-like-synthetic.sqlite"
"""Synthetic: an Nsight Systems export that nobody recorded."""
RECORDED: Final = "jacobi-opencl-pocl.trace.csv"
"""Real: what `turnbuckle record --opencl` wrote, of an OpenCL program on a CPU."""


@contextmanager
def sample(name: str = SAMPLE) -> Iterator[Path]:
    """Yield the path of a sample while the context lasts; the README beside them says what each is.

    Parameters
    ----------
    name : `SAMPLE`, which is synthetic, or `RECORDED`, which is real.

    Raises
    ------
    ValueError : there is no such sample.
    """
    if name not in (SAMPLE, RECORDED):
        raise ValueError(f"no sample is called {name!r}: there are {SAMPLE} and {RECORDED}")
    with as_file(files("turnbuckle") / "examples" / name) as path:
        yield path
