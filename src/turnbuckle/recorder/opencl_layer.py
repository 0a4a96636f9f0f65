"""Build of the OpenCL layer on the machine that runs it: a C compiler, the OpenCL headers, and the
sources in ``native/``.

Nothing is downloaded, and no OpenCL library is linked: the loader hands the layer what it calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from turnbuckle.foundation.errors import TurnbuckleError, error_of
from turnbuckle.recorder.toolchain import compiled, compiler, complaint, digest, lent, sources

#: Folders of ``native/`` that make the layer.
FOLDERS: Final = ("shared", "opencl")
#: Options of the compiler, part of the key of a cached library.  The runtime may call the layer
#: after the loader, hence nodelete.
OPTIONS: Final = (
    "-std=c11",
    "-O2",
    "-Wall",
    "-Wextra",
    "-shared",
    "-fPIC",
    "-pthread",
    "-fvisibility=hidden",
    "-Wl,-z,nodelete",
)
LIBRARY: Final = "libturnbuckle-opencl.so"
_PROBE: Final = "#define CL_TARGET_OPENCL_VERSION 300\n#include <CL/cl_layer.h>\n"


def build(target: Path, *, headers: Path | None = None) -> None:
    """Compile the layer into the file `target`.

    Raises N001 without a compiler, N016 without headers that know layers, N017 with the compiler's
    first error, N018 where the folder cannot be written.

    Parameters
    ----------
    headers : folder that holds ``CL/cl_layer.h``; the compiler's own if not given.
    """
    words = [*compiler(), *(() if headers is None else ("-isystem", str(headers)))]
    if (first := complaint([*words, "-fsyntax-only", "-x", "c", "-"], _PROBE)) is not None:
        raise error_of("N016", where="" if headers is None else str(headers), found=first)
    compiled(
        [*words, *OPTIONS, *sources(FOLDERS), "-o"],
        target,
        lambda first: error_of("N017", found=first),
        _unwritten,
    )


def _unwritten(folder: Path, error: OSError) -> TurnbuckleError:
    return error_of("N018", where=str(folder), found=error.strerror or str(error))


@contextmanager
def cached(cache: Path, headers: Path | None = None) -> Iterator[tuple[Path, bool]]:
    """Lend a copy of the layer from the folder `cache`, and say whether it was built for that.

    Raises N001, N016 to N018, and N024 where another user may change the cache.
    """
    key = digest(FOLDERS, (OPTIONS, compiler(), headers))
    with lent(
        cache, key, LIBRARY, lambda target: build(target, headers=headers), _unwritten
    ) as copy:
        yield copy


def environment(library: Path, before: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which the loader loads the layer; layers that are named already
    stay, below it.

    >>> environment(Path("layer.so"), {"OPENCL_LAYERS": "other.so"})
    {'OPENCL_LAYERS': 'layer.so:other.so'}
    """
    others = before.get("OPENCL_LAYERS", "")
    return {"OPENCL_LAYERS": f"{library}:{others}" if others else str(library)}
