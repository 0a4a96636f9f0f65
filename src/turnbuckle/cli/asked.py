"""One question of an agent: a command line in a process of its own, with an end to its words, its
time, its answer and its queue.

A512  a text that no command line can carry
A513  more targets than one question may have
A514  an answer that is too large
A515  no answer within the time
A516  too many questions wait
A518  the process of a question ended without an answer
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from turnbuckle.cli import limits
from turnbuckle.foundation.errors import TurnbuckleError, error_of

if TYPE_CHECKING:
    from anyio import Semaphore
    from anyio.abc import Process

#: How a question begins: the command line of this installation.
COMMAND: Final = [sys.executable, "-m", "turnbuckle"]
#: Questions that are answered at a time, and those that may wait for their turn.
AT_ONCE: Final = 2
WAITING: Final = 64
#: Targets of one question, and bytes of one of its texts: Linux opens no longer path.
TARGETS: Final = 32
TEXT_BYTES: Final = 4096
#: Longest time of one question [s], its largest answer [B], and what is kept of its errors [B].
PATIENCE: Final = 600.0
ANSWER_BYTES: Final = 2 << 20
_ERROR_BYTES: Final = 1 << 16
#: Time in which a question that is ended may clear up [s].
_GRACE: Final = 2.0

#: Processes of the questions that are being answered.
live: Final[set[Process]] = set()


def check(arguments: Mapping[str, Any]) -> None:
    """Refuse texts that no process can be given, and too many targets.  Raises A512, A513."""
    for name, value in arguments.items():
        texts = value if isinstance(value, list) else [value]
        for text in texts:
            if isinstance(text, str) and (flaw := _unfit(text)):
                raise error_of("A512", where=name, found=flaw, most=TEXT_BYTES)
        targets = [word for text in texts if isinstance(text, str) for word in text.split(",")]
        if name == "on" and len(targets) > TARGETS:
            raise error_of("A513", where=name, found=f"{len(targets)} targets", most=TARGETS)


def _unfit(text: str) -> str:
    """Return why no command line can have this text; empty where one can."""
    if "\0" in text:
        return f"a NUL after {text.index(chr(0))} characters"
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        return f"half of a surrogate pair after {error.start} characters"
    return f"{size} bytes" if size > TEXT_BYTES else ""


async def asked(*words: str) -> str:
    """Run one command line with ``--format json`` and return its document.

    Raises
    ------
    ToolError : with the lines of the command's own error.
    TurnbuckleError : A514, A515, A516, A518; L001 to L003.
    """
    import anyio  # an extra brings it

    turns = _turns()
    if turns.statistics().tasks_waiting >= WAITING:
        raise error_of("A516", found=f"{WAITING} questions", at_once=AT_ONCE)
    async with turns:
        with anyio.move_on_after(PATIENCE):
            return await _answer([*COMMAND, *words, "--format", "json"])
    raise error_of("A515", where=words[0], found=f"nothing within {PATIENCE:.0f} s")


@cache
def _turns() -> Semaphore:
    import anyio  # an extra brings it

    return anyio.Semaphore(AT_ONCE)


async def _answer(line: list[str]) -> str:
    """Return what a process prints; it does not outlive this call, however that ends."""
    import anyio  # an extra brings it

    try:
        # a session of its own, so that what it starts is ended with it
        child = await anyio.open_process(line, stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        raise limits.shortage(error) or _lost(error.strerror or type(error).__name__) from error
    live.add(child)
    out, err = bytearray(), bytearray()
    try:
        assert child.stdout is not None
        assert child.stderr is not None
        async with anyio.create_task_group() as group:
            group.start_soon(_keep_last, child.stderr, err)
            async for block in child.stdout:
                out += block
                if len(out) > ANSWER_BYTES:
                    group.cancel_scope.cancel()
                    break
        if len(out) > ANSWER_BYTES:
            raise error_of("A514", found=f"more than {ANSWER_BYTES} bytes")
        code = await child.wait()
    finally:
        await _end(child)
        live.discard(child)
    if code:
        raise _failure(code, err.decode("utf-8", "replace").strip())
    return out.decode("utf-8", "replace")


async def _keep_last(blocks: AsyncIterator[bytes], kept: bytearray) -> None:
    async for block in blocks:
        kept += block
        del kept[:-_ERROR_BYTES]


async def _end(child: Process) -> None:
    """End a process and what it started: with SIGTERM, after which it clears up, then with
    SIGKILL.
    """
    import anyio  # an extra brings it

    with anyio.CancelScope(shield=True):
        if child.returncode is None:
            for number in (signal.SIGTERM, signal.SIGKILL):
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(child.pid, number)
                with anyio.move_on_after(_GRACE):
                    await child.wait()
        await child.aclose()


def _failure(code: int, told: str) -> Exception:
    """Return the error of a process that ended with this exit code, or by the signal of this
    negative number.
    """
    from mcp.server.mcpserver.exceptions import ToolError  # an extra, and heavy

    if "error[" in told:
        return ToolError(told)
    if code >= 0:
        return _lost(f"exit code {code}")
    name = signal.Signals(-code).name
    if -code in limits.STARVED:
        return limits.too_little_memory(f"and the question was ended by {name}")
    return _lost(f"ended by {name}")


def _lost(evidence: str) -> TurnbuckleError:
    return error_of("A518", found=evidence)
