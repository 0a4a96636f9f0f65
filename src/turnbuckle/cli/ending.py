"""Orderly ends: SIGTERM of a batch system is handled like Ctrl-C, so that half-written files go and
finished ones stay.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final


class Ended(KeyboardInterrupt):
    """The terminal, a batch system, or somebody with `kill`, wants the command to end.

    Attributes
    ----------
    exit_code : 128 and the signal's number.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = 128 + number


_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_UNTOUCHED: Final = (signal.SIG_DFL, signal.default_int_handler)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise `Ended` in the main thread at SIGINT, SIGTERM and SIGHUP; a signal that is ignored, as
    under nohup, stays ignored.

    Any error after a signal becomes `Ended`, since an interrupted library may raise anything.
    """
    received: list[int] = []

    def end(number: int, _: FrameType | None) -> None:
        received.append(number)
        raise Ended(number)

    def unraised(lost: sys.UnraisableHookArgs) -> None:
        """Stay silent about a signal that a destructor met: no caller can catch it, and the next
        error or signal ends the command.
        """
        if not isinstance(lost.exc_value, Ended):
            hook(lost)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        number: signal.signal(number, end)
        for number in _SIGNALS
        if signal.getsignal(number) in _UNTOUCHED
    }
    hook, sys.unraisablehook = sys.unraisablehook, unraised
    try:
        yield
    except BaseException:
        if received:
            raise Ended(received[0]) from None
        raise
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)
