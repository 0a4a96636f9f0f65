"""Progress of reading and of replaying: on a terminal only, and only after half a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

from rich.console import Console

#: Seconds before anything appears.
PATIENCE = 0.5


@contextmanager
def reading(path: Path) -> Iterator[Callable[[float], None] | None]:
    """Give the reader a progress callback that draws a bar on stderr; None where stderr is no
    terminal.
    """
    if not sys.stderr.isatty():
        yield None
        return
    # a tenth of what a verb's help takes, and only a terminal sees it
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("reading {task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(path.name, total=1.0)
    began = time.monotonic()
    started = False

    def progress(share: float) -> None:
        nonlocal started
        if not started and time.monotonic() - began > PATIENCE:
            bar.start()
            started = True
        if started:
            bar.update(task, completed=share)

    try:
        yield progress
    finally:
        if started:
            bar.stop()


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say what is being done, on a terminal only and only after half a second."""
    if not sys.stderr.isatty():
        yield
        return
    status = Console(stderr=True).status(what)
    late = Timer(PATIENCE, status.start)
    late.start()
    try:
        yield
    finally:
        late.cancel()
        late.join()
        status.stop()
