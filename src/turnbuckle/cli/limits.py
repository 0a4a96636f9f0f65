"""Limits of the system on files, memory and threads: checked before anything large is loaded, and
reported when they run out.

    L001  too few files may be open at once
    L002  too little memory
    L003  threads or processes cannot be started
    L004  the environment asks for a number of threads that is none

Libraries of other languages end the process when an allocation fails (SIGABRT), which cannot be
caught.  Under a limit on memory or threads the work is therefore done in a child process, with few
threads, and the parent reports how the child ended.
"""

from __future__ import annotations

import errno
import os
import re
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from turnbuckle.foundation.errors import (
    InternalError,
    LimitError,
    ProfileError,
    TurnbuckleError,
    clipped,
    error_of,
    register,
)

#: Files that must still be free to open: readers, threads' wake-ups and imports take up to 20 at
#: once.
FILES: Final = 24
#: Least address space [B]: Python, NumPy, SciPy and Polars reserve most of it, whatever the
#: recording.
SPACE: Final = 768 << 20
#: Below this limit on a user's processes and threads, few are started.
_FEW_PROCESSES: Final = 4096
#: Numbers of threads that the environment may ask for: the least of each, and the most.  Polars
#: panics at 0, and takes the default for what is no number; a hundred thousand threads do nothing
#: but wait for each other.
_LEAST_THREADS: Final = {"POLARS_MAX_THREADS": 1, "RAYON_NUM_THREADS": 0}
_MOST_THREADS: Final = 4096
_THREADS: Final = {"OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "2", "RAYON_NUM_THREADS": "2"}
_M_ARENA_MAX: Final = -8
_PR_SET_PDEATHSIG: Final = 1
#: Signals with which a library ends the process when memory runs out; the last is the kernel's.
STARVED: Final = (
    signal.SIGABRT,
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGILL,
    signal.SIGTRAP,
    signal.SIGKILL,
)

_FILES_OUT: Final = re.compile(r"Too many open files|\(os error 2[34]\)|\bcode: 2[34], ")
_MEMORY_OUT: Final = re.compile(
    r"Cannot allocate memory|out of memory|failed to map segment|[Mm]emory allocation|bad_alloc|\(os error 12\)|\bcode: 12, "
)
_THREADS_OUT: Final = re.compile(
    r"can't start new thread|failed to spawn thread|Resource temporarily unavailable|\(os error 11\)|\bcode: 11, "
)
#: Errors of these classes say in words what the system refused.
_IN_WORDS: Final = ("PanicException", "RuntimeError", "ImportError", "SystemError", "ComputeError")


def shortage(error: BaseException) -> TurnbuckleError | None:
    """Return the coded error where this error, or one it arose from, is a refusal of the system;
    None for any other.

    What an error was raised ``from None`` while handling is no cause of it: a lock that another
    process holds is no lack of threads.
    """
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        if isinstance(link, LimitError):
            return link
        if made := _refused(link):
            return made
        link = link.__cause__ if link.__suppress_context__ else link.__context__
    return None


def _refused(error: BaseException) -> TurnbuckleError | None:
    if isinstance(error, MemoryError):
        return too_little_memory()
    if isinstance(error, OSError) and error.errno is not None:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return too_few_files()
        if error.errno == errno.ENOMEM:
            return too_little_memory()
        # a stream that would block has this number and other words
        return (
            too_few_threads()
            if error.errno == errno.EAGAIN and error.strerror == os.strerror(errno.EAGAIN)
            else None
        )
    if isinstance(error, ProfileError | InternalError):
        words = (
            error.found
            if re.search(r"\(os error \d+\)|\bcode: \d+, |failed to spawn thread", error.found)
            else ""
        )
    else:
        words = (
            str(error) if any(kind.__name__ in _IN_WORDS for kind in type(error).__mro__) else ""
        )
    for pattern, make in (
        (_FILES_OUT, too_few_files),
        (_MEMORY_OUT, too_little_memory),
        (_THREADS_OUT, too_few_threads),
    ):
        if pattern.search(words):
            return make()
    return None


def too_few_files() -> TurnbuckleError:
    """Return error L001: no more files can be opened; it names the limit of this process."""
    most = _limit(resource.RLIMIT_NOFILE)
    return error_of(
        "L001",
        found=f"a limit of {most} open files" if most else "no descriptor is left",
        files=FILES,
    )


def too_little_memory(how: str = "") -> TurnbuckleError:
    """Return error L002: memory ran out; it names the limit on the address space, and `how` the
    work ended.
    """
    most = _space()
    limit = (
        f"a limit of {most / 1e6:.0f} MB on the address space"
        if most
        else "the system gives no more"
    )
    return error_of("L002", found=", ".join(filter(None, (limit, how))), megabytes=SPACE / 1e6)


def too_few_threads() -> TurnbuckleError:
    """Return error L003: no more threads or processes can be started; it names the limit of this
    user.
    """
    most = _limit(resource.RLIMIT_NPROC)
    return error_of(
        "L003", found=f"a limit of {most} for this user" if most else "the system gives no more"
    )


def check() -> None:
    """Raise `LimitError` (L001, L002, L004) where the limits are too low to begin, or are none."""
    register(LimitError.__name__)  # read the texts while a file can still be opened
    held: list[int] = []
    try:
        for _ in range(FILES):
            held.append(os.dup(2))
    except OSError as error:
        if made := shortage(error):
            raise made from None
    finally:
        for number in held:
            os.close(number)
    if 0 < (_space() or SPACE) < SPACE:
        raise too_little_memory()
    for name, least in _LEAST_THREADS.items():
        asked = os.environ.get(name, "")
        number = int(asked) if re.fullmatch(r"[0-9]{1,9}", asked) else -1
        if asked and not least <= number <= _MOST_THREADS:
            raise error_of(
                "L004",
                found=clipped(f"{name}={asked}", 80),
                name=name,
                least=least,
                most=_MOST_THREADS,
            )


def guarded(work: Callable[[bool], int], tell: Callable[[TurnbuckleError], None]) -> int:
    """Run the work and return its exit code; under a limit on memory or threads a child runs it,
    and its end by a signal is L002.

    Parameters
    ----------
    work : the command, given whether it is under such a limit.
    tell : prints an error.
    """
    processes = _limit(resource.RLIMIT_NPROC)
    if not _space() and (not processes or processes >= _FEW_PROCESSES):
        return work(False)
    sys.stdout.flush()
    sys.stderr.flush()
    passed = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2}
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*passed, signal.SIGCHLD})
    child = os.fork()
    if not child:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _frugal()
        return work(True)
    while True:
        news = signal.sigwaitinfo({*passed, signal.SIGCHLD})
        # what a terminal sends goes to the child too
        if news.si_signo != signal.SIGCHLD and news.si_code <= 0:
            with suppress(ProcessLookupError):
                os.kill(child, news.si_signo)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code
    if -code in STARVED:
        error = too_little_memory(f"and the work was ended by {signal.Signals(-code).name}")
        tell(error)
        return error.exit_code
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return 128 - code


def _frugal() -> None:
    """Use one heap for all threads of the C library, and end with the parent."""
    import ctypes

    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        library.mallopt(_M_ARENA_MAX, 1)


def load() -> None:
    """Load the numeric libraries with few threads each.  A program that is recorded later does not
    inherit the setting.
    """
    raised = {name: value for name, value in _THREADS.items() if name not in os.environ}
    os.environ.update(raised)
    try:
        import numpy.linalg  # noqa: F401
        import polars

        with suppress(ModuleNotFoundError):  # an extra
            import scipy.linalg  # noqa: F401

        polars.thread_pool_size()
    finally:
        for name in raised:
            os.environ.pop(name, None)


def _limit(kind: int) -> int | None:
    """Return a soft limit; None where there is none."""
    soft = resource.getrlimit(kind)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def _space() -> int | None:
    """Return the limit on memory [B], the lower of address space and data; None where there is
    none.
    """
    limits = [
        most
        for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)
        if (most := _limit(kind)) is not None
    ]
    return min(limits, default=None)
