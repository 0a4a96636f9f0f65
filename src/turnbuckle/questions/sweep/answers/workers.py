"""Workers of a sweep: what runs in each, the lanes that lead to them, and the points that wait.

A worker takes points in batches of one recording and hands back what it did in about `PATIENCE`
seconds, so that a kill costs little and nobody waits for the last batch.  The recording it read
last stays with it: a batch of the same recording reads nothing.

    A086  workers cannot start
    A168  a worker ended before it answered (a row of the table, where the sweep runs its own workers)
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process, resource_tracker
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import numpy as np

from turnbuckle.foundation.arrays import Int
from turnbuckle.foundation.errors import InternalError, TurnbuckleError, clipped, error_of
from turnbuckle.questions.sweep.answers.outcomes import Outcome
from turnbuckle.questions.sweep.points import Held, Results, scalars

#: A worker hands back what it has after so long [s].
PATIENCE: Final = 1.0
#: Points of a batch at most; of an executor of the caller's, batches under way at once, and workers
#: it is taken to have.
_BATCH, _UNDER_WAY, SOME = 64, 256, 16
#: Points of a batch where they share work; a worker hands back those that take longer than its
#: patience.
TOGETHER: Final = 64

Evaluate = Callable[[Held, Any], Results]
Together = Callable[[Held, Sequence[Any]], Sequence[Results | TurnbuckleError]]


class Serial(Executor):
    """Runs everything at once, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a call immediately."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


# --- in the worker --------------------------------------------------------------------------------

_of_thread = threading.local()


@dataclass(frozen=True)
class Answered:
    """Outcomes of the first points of a batch, and the time that reading took [s]."""

    outcomes: list[Outcome]
    reading_seconds: float


def answer(
    evaluate: Evaluate,
    path: Path,
    digest: str,
    questions: Sequence[Any],
    together: Together | None = None,
    patience: float = PATIENCE,
) -> Answered:
    """Answer points of one recording until patience ends, at least one.

    Of points that are answered together, as many are asked at once as patience may last for. A
    refusal is an answer. Any other error is raised.
    """
    held: Held | None = getattr(_of_thread, "held", None)
    if held is None or _of_thread.digest != digest:
        _of_thread.held = _of_thread.digest = (
            None  # release the last recording before reading the next: memory holds one
        )
        held = Held(path)
        _of_thread.held, _of_thread.digest = held, digest
    began, read_before = time.monotonic(), held.reading_seconds
    outcomes: list[Outcome] = []
    spent = 0.0
    while len(outcomes) < len(questions) and spent <= patience:
        size = max(int((patience - spent) * held.pace), 1) if together else 1
        some = questions[len(outcomes) : len(outcomes) + size]
        outcomes += _outcomes(evaluate, held, some, together)
        before, spent = spent, time.monotonic() - began
        held.pace = len(some) / max(spent - before, 1e-9)
    return Answered(outcomes, held.reading_seconds - read_before)


def _outcomes(
    evaluate: Evaluate, held: Held, asked: Sequence[Any], together: Together | None
) -> list[Outcome]:
    try:
        answers = [evaluate(held, asked[0])] if together is None else together(held, asked)
        return [
            refusal(each) if isinstance(each, TurnbuckleError) else Outcome(scalars(each))
            for each in answers
        ]
    except InternalError:
        raise
    except TurnbuckleError as error:
        return [refusal(error) for _ in asked]
    except Exception as error:
        # an exception of an unknown class may fail to unpickle
        raise RuntimeError(f"{type(error).__name__}: {error} (at {asked[0]})") from error


def refusal(error: TurnbuckleError) -> Outcome:
    """Return an error as a row; raise one of ourselves.

    Its place is left out: it may be a path of this machine.
    """
    if isinstance(error, InternalError):
        raise error
    evidence = f": {error.found}" if error.found else ""
    return Outcome({}, error.code, clipped(error.what + evidence, 200))


def forget() -> None:
    """Release the recording that this thread holds."""
    _of_thread.__dict__.clear()


def _as_worker() -> None:
    """Make this process ignore Ctrl-C and end when the sweep ends, however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        threading.Thread(
            target=lambda: (connection.wait([parent.sentinel]), os._exit(1)), daemon=True
        ).start()


def once(_call: str, *args: Any) -> Answered:
    """Run `answer` under a name of its own.

    Dask takes equal calls for one, and would return the cancelled result of a stopped sweep.
    """
    return answer(*args)


# --- lanes ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """A point: its number in the table, its key, its settings."""

    index: int
    key: str
    asked: Any


@dataclass
class Batch:
    """Points of one recording that a worker is asked together."""

    recording: str
    tasks: list[Task]


@contextmanager
def no_interrupt() -> Iterator[None]:
    """Block Ctrl-C while processes begin.

    Ctrl-C reaches every process of the terminal, and a worker that is still importing would print a
    traceback. Workers inherit the mask. The tracker of multiprocessing lifts the mask when it
    starts, so it is started before.
    """
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Lane:
    """An executor and the recording it read last; a lane without a caller's executor is one
    process, which the sweep may end.
    """

    def __init__(self, executor: Executor | None, workers: int = 1) -> None:
        self.own = executor is None
        self.workers = workers
        self.width = 1 if self.own else max(_UNDER_WAY, 2 * workers)
        self.last = ""
        self.under_way = 0
        self._executor = executor
        self._hello: Future[int] | None = None

    def submit(self, *args: Any) -> Future[Answered]:
        if self._executor is None:
            # spawned, not forked: the libraries below have threads of their own
            self._executor = ProcessPoolExecutor(
                1, mp_context=get_context("spawn"), initializer=_as_worker
            )
            with no_interrupt():
                self._hello = self._executor.submit(os.getpid)
        return self._executor.submit(once, uuid4().hex, *args)

    def renew(self) -> None:
        """Begin another process after the lane's process ended.

        Raise A086 if none of its processes ever began.
        """
        if self._hello is not None and self._hello.exception() is not None:
            raise error_of("A086.workers")
        assert self._executor is not None
        self._executor.shutdown(wait=False)
        self._executor, self._hello, self.last = None, None, ""

    def end(self, at_once: bool) -> None:
        """End the lane's own process; leave an executor of the caller running."""
        if not self.own or self._executor is None:
            return
        if (
            at_once
            and self._hello is not None
            and self._hello.done()
            and self._hello.exception() is None
        ):
            with suppress(ProcessLookupError):
                os.kill(self._hello.result(), signal.SIGTERM)
        up = self._hello is not None and self._hello.done()
        self._executor.shutdown(wait=up or not at_once, cancel_futures=True)


class Work:
    """Numbers of the points to answer by recording, and the lanes that answer them."""

    def __init__(
        self,
        pending: Mapping[str, Int],
        make: Callable[[str, int], Task | None],
        lanes: Sequence[Lane],
        least: int = 1,
    ) -> None:
        self._numbers = {
            recording: deque([numbers]) for recording, numbers in pending.items() if len(numbers)
        }
        self._make = make
        self.lanes = list(lanes)
        self.left = sum(map(len, pending.values()))
        # a short sweep is still shared out among all workers
        self._least = min(least, -(-self.left // sum(each.workers for each in self.lanes)))
        self.lost: Counter[int] = Counter()

    @property
    def waiting(self) -> bool:
        """Return whether a point is left."""
        return bool(self._numbers)

    def next(self, lane: Lane) -> Batch | None:
        """Return points for a lane.

        They are of the recording that the lane holds, else of one that no lane holds, else of the
        one with most points left.
        """
        if not self._numbers:
            return None
        taken = {each.last for each in self.lanes}
        untouched = (r for r in self._numbers if r not in taken)
        fallback = next(untouched, None) or max(
            self._numbers, key=lambda r: sum(map(len, self._numbers[r]))
        )
        recording = lane.last if lane.last in self._numbers else fallback
        size = min(
            max(self.left // (4 * sum(each.workers for each in self.lanes)), self._least), _BATCH
        )
        first = self._numbers[recording][0]
        if self.lost[int(first[0])]:
            size = 1  # alone, to find the point that ends the worker
        self._numbers[recording][0] = first[size:]
        if len(first) <= size:
            self._numbers[recording].popleft()
        if not self._numbers[recording]:
            del self._numbers[recording]
        lane.last = recording
        numbers = first[:size].tolist()
        self.left -= len(numbers)
        return Batch(
            recording,
            [task for number in numbers if (task := self._make(recording, number)) is not None],
        )

    def back(self, batch: Batch, done: int) -> None:
        """Take back the points that were not answered."""
        if rest := [t.index for t in batch.tasks[done:]]:
            self._numbers.setdefault(batch.recording, deque()).appendleft(np.array(rest))
            self.left += len(rest)

    def broken(self, batch: Batch) -> list[tuple[Task, Outcome]]:
        """Try the points of a batch one by one after its worker ended.

        A point that ends its worker again has no answer.
        """
        self.lost.update(t.index for t in batch.tasks)
        first = batch.tasks[0]
        if len(batch.tasks) == 1 and self.lost[first.index] > 1:
            return [(first, refusal(error_of("A168", found="out of memory, or killed")))]
        self.back(batch, 0)
        return []
