"""Run one command and turn whatever happens into an exit code.

0 done; 1 a ``--fail-if`` condition came true; 2 bad input or usage; 3 cannot be answered from this
input; 4 internal; 130 interrupted (143 by SIGTERM).
"""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from turnbuckle.cli import first_page, limits
from turnbuckle.cli.ending import Ended, ended_by_signals
from turnbuckle.foundation.errors import TurnbuckleError, error_of

#: Objects made between two searches for unreachable cycles.  Loading makes hundreds of thousands
#: that all stay; with Python's 700 they are searched again and again.
_YOUNG: Final = 50_000


def main() -> int:
    """Run the command line of this process, in a child where the system sets limits
    (`turnbuckle.cli.limits`) -> exit code.
    """
    gc.set_threshold(_YOUNG)
    try:
        return limits.guarded(lambda limited: run(limited=limited), say)
    finally:
        # the process ends, so cycles need not be collected
        gc.freeze()


def run(argv: Sequence[str] | None = None, *, limited: bool = False) -> int:
    """Run ``turnbuckle ARGV`` -> exit code.  Data goes to stdout, talk to stderr; no traceback
    without ``--debug``.

    Parameters
    ----------
    limited : load the numeric libraries with few threads.
    """
    try:
        return _answered(argv, limited)
    except KeyboardInterrupt as e:
        with suppress(OSError):
            print("interrupted", file=sys.stderr)
        return e.exit_code if isinstance(e, Ended) else 130


def _answered(argv: Sequence[str] | None, limited: bool) -> int:
    if sys.stdout is None or sys.stderr is None:
        return 2  # closed by the caller: there is nowhere to say anything
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    words = list(sys.argv[1:] if argv is None else argv)
    # after -- a word belongs to the recorded command
    before_dashes = words[: words.index("--")] if "--" in words else words
    debug = "--debug" in before_dashes
    words = [w for w in before_dashes if w != "--debug"] + words[len(before_dashes) :]
    try:
        limits.check()
        if first_page.drawn(words):
            sys.stdout.flush()
            return 0
        if limited:
            limits.load()
        from turnbuckle.cli.app import dispatch

        with ended_by_signals():
            code = dispatch(words)
            sys.stdout.flush()
        return code
    except TurnbuckleError as e:
        if debug:
            raise
        shown = limits.shortage(e) or e
        say(shown)
        return shown.exit_code
    except KeyboardInterrupt:
        raise
    except BrokenPipeError:
        # the reader of our output went away (head, less): not our error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SystemExit:
        raise
    except BaseException as e:  # panics of other languages are no Exception
        if debug:
            raise
        if short := limits.shortage(e):
            say(short)
            return short.exit_code
        if isinstance(e, OSError) and e.errno in (errno.ENOSPC, errno.EIO, errno.EBADF):
            say(error_of("R001.output", found=e.strerror or type(e).__name__))
            # what is still buffered cannot be written either
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 2
        say(error_of("I001", found=f"{type(e).__name__}: {e}"))
        return 4


def say(error: TurnbuckleError) -> None:
    """Print an error to stderr, coloured on a terminal; plainly where the means for colours cannot
    be had any more.
    """
    lines = [
        "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)
        for line in error.lines()
    ]
    try:
        _coloured(lines)
    except (OSError, ImportError, MemoryError, RuntimeError):
        with suppress(OSError):
            print(*lines, sep="\n", file=sys.stderr, flush=True)


def _coloured(lines: list[str]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, soft_wrap=True, highlight=False)
    first, *rest = lines
    text = Text(first)
    text.stylize("bold red", 0, first.index(":"))
    console.print(text)
    for line in rest:
        label, _, tail = line.partition(
            ":" if ":" in line and not line.startswith("  -->") else "\0"
        )
        console.print(
            Text.assemble((label + (":" if tail else ""), "cyan" if tail else "dim"), tail)
        )
