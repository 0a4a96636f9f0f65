"""Run of a program under a recorder: its environment, its signals, its end, and the files it
leaves.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.machine.driver import INJECTION

SUFFIX: Final = ".trace.csv"
NVTX: Final = "NVTX_INJECTION64_PATH"
#: Environment variables of launchers for the rank of a process, and for the number of ranks.
_RANKS: Final = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", ""),
    ("PMI_RANK", "PMI_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
#: Signals that are forwarded to the program.
_HANDED_ON: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT)
_MARKS: Final = (b"InitializeInjection", b"turnbuckle-trace 1")
#: Settings of the recorder, which are not inherited from the shell.  Other variables that begin
#: with TB_ belong to the program.
_SLACK: Final = ("SLACK_NS", "SLACK_CLASSES", "SLACK_WHERE", "SLACK_STATS")
_JITTER: Final = ("JITTER_FROM_NS", "JITTER_TO_NS", "JITTER_SEED", "LINK_BANDWIDTH")
_STEERING: Final = ("TRACE", "KINDS", "MEMORY_MB", "FLUSH_MS", "CLOCK", "WINDOW", *_SLACK, *_JITTER)
_SETTINGS: Final = frozenset(f"TB_{word}" for word in _STEERING)


@dataclass(frozen=True)
class Run:
    """End of a program: its exit code (128 and the signal's number where a signal ended it) and its
    duration [s].
    """

    code: int
    seconds: float


def rank() -> int | None:
    """Return the rank of this process, or None without a launcher."""
    for name, _ in _RANKS:
        text = os.environ.get(name, "")
        if text.isdecimal() and len(text) < 10:
            return int(text)
    return None


def program(command: Sequence[str]) -> str:
    """Return the path of the program that a command line begins with.  Raise N004 where there is
    none.
    """
    if not command:
        raise error_of("N004.empty")
    if command[0].startswith("-"):
        raise error_of("N004.option", found=clipped(command[0]))
    path = shutil.which(command[0])
    if path:
        return path
    place = Path(command[0])
    why = "it is not executable" if place.is_file() else "there is no such program"
    raise (
        error_of("N004.folder", where=clipped(command[0], 200), found=why, name=place.name)
        if place.exists() and "/" not in command[0]
        else error_of("N004.missing", where=clipped(command[0], 200), found=why)
    )


def place_of(output: Path | None, command: Sequence[str]) -> Path:
    """Return the folder of the recording; in its name %r is the rank and %p the process id.

    Raises N005 where it exists, N007 where its parent folder is missing or not writable.
    """
    own_rank = rank()
    ranked = "" if own_rank is None else f".{own_rank}"
    given = output if output is not None else Path(f"{Path(command[0]).name}{ranked}.turnbuckle")
    place = given.with_name(
        given.name.replace("%r", str(own_rank or 0)).replace("%p", str(os.getpid()))
    )
    if place.exists() or place.is_symlink():
        raise error_of("N005", where=str(place))
    if not place.parent.is_dir() or not os.access(place.parent, os.W_OK | os.X_OK):
        why = "no permission to write there" if place.parent.is_dir() else "there is no such folder"
        raise error_of("N007.folder", where=str(place.parent), found=why)
    return place


def usable(library: Path) -> Path:
    """Return the resolved path of a prebuilt library.  Raise N006 where it is no recorder."""
    try:
        with library.open("rb") as file:
            text = file.read(64 << 20)
    except OSError as error:
        raise error_of(
            "N006.library", where=str(library), found=error.strerror or str(error)
        ) from error
    if not text.startswith(b"\x7fELF") or any(mark not in text for mark in _MARKS):
        raise error_of(
            "N006.file", where=str(library), found="another file" if text else "an empty file"
        )
    return library.resolve()


def inherited() -> dict[str, str]:
    """Return this environment without settings of the recorder."""
    return {name: value for name, value in os.environ.items() if name not in _SETTINGS}


def environment(library: Path, folder: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the program: this one, with the variables that load and steer the
    recorder.

    Raises N010 where another tool is set to be loaded into CUDA programs.
    """
    for name in (INJECTION, NVTX):
        if other := os.environ.get(name):
            raise error_of("N010", where=name, found=Path(other).name, name=name)
    return {
        **inherited(),
        INJECTION: str(library),
        NVTX: str(library),
        "TB_TRACE": str(folder.resolve() / f"%p{SUFFIX}"),
        **settings,
    }


@contextmanager
def private(place: Path) -> Iterator[Path]:
    """Yield a folder beside the output that only this user may enter, and remove it unless it was
    renamed.  Raise N007.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    except OSError as error:
        raise error_of(
            "N007.file", where=str(place.parent), found=error.strerror or str(error)
        ) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(words: Sequence[str], env: Mapping[str, str]) -> Run:
    """Run a program to its end, and forward the signals of this process to it.

    SIGINT from the terminal reaches the program directly; this process waits for it to end.
    Signals that are ignored here stay so.

    Parameters
    ----------
    words : the program and its arguments.
    env : the whole environment of the program; nothing of this process's is added.

    Returns
    -------
    Run : exit code (128 and the number of the signal that ended it) and time from before the start
    to the end [s].

    Raises
    ------
    NativeError : N004 where the program cannot be started.
    """
    begin = time.monotonic()
    child: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def hand_on(number: int, frame: FrameType | None) -> None:
        if child is None:
            early.append(number)
            return
        with suppress(ProcessLookupError):
            child.send_signal(number)

    # the program resets handlers to the default but inherits ignored signals (nohup), so ignored
    # ones stay ignored
    old = {
        number: signal.signal(number, hand_on)
        for number in _HANDED_ON
        if signal.getsignal(number) != signal.SIG_IGN
    }
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        old[signal.SIGINT] = signal.signal(signal.SIGINT, _leave if _at_terminal() else hand_on)
    try:
        child = subprocess.Popen(list(words), env=dict(env))
        for number in early:
            child.send_signal(number)
        code = child.wait()
    except OSError as error:
        raise error_of(
            "N004.program", where=Path(words[0]).name, found=error.strerror or str(error)
        ) from error
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
    return Run(128 - code if code < 0 else code, time.monotonic() - begin)


def _leave(number: int, frame: FrameType | None) -> None:
    """Ignore a signal that the program has received already."""


def _at_terminal() -> bool:
    """Return whether an interrupt key reaches program and recorder alike."""
    return any(
        stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)
    )


def files(folder: Path) -> list[Path]:
    """Return the files that the recorder left, in the order of their last change."""
    traces = [
        path
        for path in folder.iterdir()
        if SUFFIX in path.name and path.is_file() and not path.is_symlink()
    ]
    return sorted(traces, key=lambda path: (path.stat().st_mtime_ns, path.name))
