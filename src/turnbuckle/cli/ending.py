"""Ending in order: a batch system's SIGTERM is met as Ctrl-C is, so that what is half made goes and what is done stays."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final


class Ended(KeyboardInterrupt):
    """A batch system, or somebody with `kill`, wants the command to end.

    Attributes
    ----------
    exit_code : 128 and the signal's number.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = 128 + number


_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def told_to_end() -> Iterator[None]:
    """Raise `Ended` in the main thread at SIGTERM and SIGHUP; a signal that is ignored, as under nohup, stays ignored."""

    def end(number: int, _: FrameType | None) -> None:
        raise Ended(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, end) for number in _SIGNALS if signal.getsignal(number) == signal.SIG_DFL}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
