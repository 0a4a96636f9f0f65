"""Build of the MPI layer on the machine that runs it, against the program's own MPI, and how a
command loads it.

Nothing is downloaded, and no MPI library is linked: the layer is preloaded into every process of
the command, and finds the library of those that have one.  MPICH and Open MPI pass handles
differently, so the layer fits the MPI whose ``mpicc`` builds it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from turnbuckle.foundation.errors import TurnbuckleError, error_of
from turnbuckle.recorder import run as record_run
from turnbuckle.recorder.toolchain import compiled, digest, lent, sources, unwritten

#: Folders of ``native/`` that make the layer.
FOLDERS: Final = ("shared", "mpi")
#: Options of the compiler, part of the key of a cached library.  No function of MPI is referred to,
#: so that none is linked as needed.
_LINKED: Final = (
    "-shared",
    "-fPIC",
    "-pthread",
    "-fvisibility=hidden",
    "-Wl,-z,nodelete",
    "-Wl,--as-needed",
)
OPTIONS: Final = ("-std=gnu11", "-O2", "-Wall", "-Wextra", *_LINKED)
LIBRARY: Final = "libturnbuckle-mpi.so"
_LAUNCHER: Final = re.compile(r"(mpirun|mpiexec|orterun|prterun|srun|jsrun|aprun)(\..+)?")
_PRELOAD: Final = "LD_PRELOAD"


def wanted(command: Sequence[str], asked: bool | None) -> bool:
    """Return whether MPI is to be recorded: as asked, or where a launcher starts this command, or
    the command is a launcher.

    >>> wanted(["/usr/bin/mpiexec.hydra", "-n", "2", "./solver"], None), wanted(["mpirun"], False)
    (True, False)
    """
    if asked is not None:
        return asked
    return record_run.rank() is not None or bool(
        command and _LAUNCHER.fullmatch(Path(command[0]).name)
    )


def compiler(command: Sequence[str]) -> list[str]:
    """Return the words that call the MPI compiler: MPICC, or the one beside the command's launcher,
    or ``mpicc``.  Raise N025.
    """
    given = shlex.split(os.environ.get("MPICC", ""))
    launcher = (
        shutil.which(command[0]) if command and _LAUNCHER.fullmatch(Path(command[0]).name) else None
    )
    beside = [[str(Path(launcher).parent / "mpicc")]] if launcher else []
    for words in [given] if given else [*beside, ["mpicc"]]:
        if words and (path := shutil.which(words[0])):
            return [path, *words[1:]]
    raise error_of("N025.missing", found=f"MPICC={given[0]}" if given else "no mpicc")


def build(mpicc: Sequence[str], target: Path) -> None:
    """Compile the layer into the file `target`.  Raises N026 with the compiler's first error, N012
    where the folder cannot be written.
    """
    words = [*mpicc, *OPTIONS, *sources(FOLDERS), "-ldl", "-o"]
    compiled(words, target, lambda first: error_of("N026", found=first), unwritten)


@contextmanager
def cached(mpicc: Sequence[str], cache: Path) -> Iterator[tuple[Path, bool]]:
    """Lend a copy of the layer from the folder `cache`, and say whether it was built for that.

    Raises N012, N026, and N024 where another user may change the cache.
    """
    about = Path(mpicc[0]).resolve()
    key = digest(
        FOLDERS, (OPTIONS, list(mpicc), str(about), about.stat().st_size, about.stat().st_mtime_ns)
    )
    with lent(cache, key, LIBRARY, lambda target: build(mpicc, target), unwritten) as copy:
        yield copy


def environment(library: Path, before: Mapping[str, str]) -> dict[str, str]:
    """Return the variable that loads the layer into every process; libraries that are named already
    stay, behind it.  Raise N025.

    >>> environment(Path("/layer.so"), {"LD_PRELOAD": "/other.so"})
    {'LD_PRELOAD': '/layer.so:/other.so'}
    """
    if re.search(r"[\s:]", str(library)):
        raise error_of("N025.path", where=str(library))
    others = before.get(_PRELOAD, "")
    return {_PRELOAD: f"{library}:{others}" if others else str(library)}


@contextmanager
def beside(
    command: Sequence[str], asked: bool | None, cache: Path, say: Callable[[str], None]
) -> Iterator[dict[str, str]]:
    """Yield the variables that record MPI beside the GPU; none where MPI is not wanted, or was not
    asked for and cannot be built.

    Raises N012, N024, N025, N026 where MPI was asked for.
    """
    if not wanted(command, asked):
        yield {}
        return
    try:
        mpicc = compiler(command)
    except TurnbuckleError as why:
        if asked:
            raise
        say(f"note       MPI is not recorded: {why.what}; {why.fix}")
        yield {}
        return
    with cached(mpicc, cache) as (library, fresh):
        if fresh:
            say(f"built      the MPI layer, with {mpicc[0]}")
        yield environment(library, os.environ)
