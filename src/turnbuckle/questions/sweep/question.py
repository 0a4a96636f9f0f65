"""A sweep over all points of a study, on any executor; it continues where an earlier sweep was
stopped.

The table is put together in the order of the study, whoever answered what and when.  Points are
made as they are handed out, and answers are kept by column: a point takes some hundred bytes.

    A083  a shard without a journal or of a study that is refined, workers that cannot be
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

from turnbuckle.foundation.errors import UsageError, error_of
from turnbuckle.foundation.units import show
from turnbuckle.projection.answers.shown import Shown
from turnbuckle.questions.sweep.answers.journal import Journal, beside, journal_of, read_journal
from turnbuckle.questions.sweep.answers.outcomes import Answers, Outcome, Outcomes
from turnbuckle.questions.sweep.answers.workers import (
    PATIENCE,
    SOME,
    TOGETHER,
    Answered,
    Batch,
    Lane,
    Serial,
    Task,
    Work,
    answer,
    forget,
    refusal,
)
from turnbuckle.questions.sweep.grid import RESERVED, Point, Study, digest_of
from turnbuckle.questions.sweep.study_file import read_study

if TYPE_CHECKING:
    from turnbuckle.questions.sweep.refine import Crossover
    from turnbuckle.questions.sweep.summary import SweepSummary

#: Told after every batch: points done, points to do, points without an answer.
Progress = Callable[[int, int, int], None]


@dataclass(frozen=True, repr=False)
class Swept(Shown):
    """A study and its answers.

    Attributes
    ----------
    study : what was asked.
    outcomes : one a point, in the order of the study; None where another shard has yet to answer.
    computed : points answered now; `from_journal`: before, of this sweep's share.
    digests : SHA-256 of the recordings that were looked at, by name.
    seconds, reading_seconds : how long it took, and what the workers together spent reading [s].
    added : points that were added where the answer changes.
    notes : what else there is to say: a file system without locks, lines of a journal that could
        not be read.
    """

    question: ClassVar[str] = "sweep"

    study: Study
    outcomes: Sequence[Outcome | None]
    computed: int
    from_journal: int
    digests: Mapping[str, str]
    seconds: float
    reading_seconds: float
    notes: tuple[str, ...] = ()
    added: int = 0

    @property
    def missing(self) -> int:
        """Return the number of points that no journal answers yet."""
        return int(self._columns.missing.sum())

    @property
    def failed(self) -> dict[str, int]:
        """Count the points without an answer, by error code."""
        return self._columns.failed

    def why(self, code: str) -> str:
        """Return why the first point with a code has no answer."""
        return self._columns.why(code)

    @cached_property
    def _columns(self) -> Outcomes:
        return Outcomes.of(self.outcomes)

    def rows(self) -> list[dict[str, Any]]:
        """Return the table as rows: recording, settings, results, code, error.

        Points without an outcome are left out.
        """
        return list(self.each_row())

    def each_row(self) -> Iterator[dict[str, Any]]:
        """Yield `rows` one by one."""
        columns, results = self.study.columns, self.results()
        for point, outcome in zip(self.study.points(), self.outcomes, strict=True):
            if outcome is not None:
                row = {
                    "recording": point.recording,
                    **{c: point.values[c] for c in columns},
                    **{n: outcome.results.get(n) for n in results},
                }
                yield {**row, "code": outcome.code or None, "error": outcome.error or None}

    def results(self) -> list[str]:
        """Return the names of the results that have a column, in the order in which points first
        give them.
        """
        return [
            n for n in self._columns.names() if n not in self.study.columns and n not in RESERVED
        ]

    def table(self) -> pl.DataFrame:
        """Return the table.

        A column has the type of its values, whatever points failed.
        """
        study, there = self.study, ~self._columns.missing
        rows = pl.Series(there)
        names = pl.Series("recording", list(study.recordings), dtype=pl.String)
        recordings = names[np.repeat(np.arange(len(names)), study.each)].filter(rows)
        settings = []
        for name in study.columns:
            # one recording's values are those of all; a setting has one type whatever rows are left
            # out
            column = _column(name, study.column(name))
            settings.append(column[np.tile(np.arange(study.each), len(names))].filter(rows))
        results = [self._columns.column(name, there) for name in (*self.results(), "code", "error")]
        return pl.DataFrame([recordings, *settings, *results])

    def headline(self) -> str:
        """Return how many points have an answer, in one line."""
        total, failed = len(self.study), sum(self.failed.values())
        points = "1 point" if total == 1 else f"{total:,} points"
        parts = [f"{total - self.missing:,} of {points}" if self.missing else points]
        parts.append(f"{self.computed:,} computed now in {show(self.seconds, 's')}")
        if self.from_journal:
            parts.append(f"{self.from_journal:,} from the journal")
        parts.append(f"{failed:,} failed" if failed else "none failed")
        return ", ".join(parts)

    def summaries(self) -> list[SweepSummary]:
        """Return a summary of each recording."""
        from turnbuckle.questions.sweep.summary import summaries  # workers do not need its imports

        return summaries(self.study, self.each_row())

    def crossovers(self) -> list[Crossover]:
        """Return where the answer changes along the axis that the study refines."""
        from turnbuckle.questions.sweep.refine import crossovers  # workers do not need its imports

        return crossovers(self.study, self.rows()) if self.study.refine is not None else []

    def provenance(self) -> dict[str, Any]:
        """Return the version that answered, and the recordings by name: file and hash."""
        files = {
            n: {"file": p.name, "sha256": self.digests.get(n)}
            for n, p in self.study.recordings.items()
        }
        return {"tool": "turnbuckle", "version": self.study.kind.released, "recordings": files}


def _column(name: str, values: list[Any]) -> pl.Series:
    kinds = {type(v) for v in values if v is not None}
    if str in kinds or name in RESERVED:
        return pl.Series(name, [v if v is None else str(v) for v in values], dtype=pl.String)
    if kinds == {bool}:
        return pl.Series(name, values, dtype=pl.Boolean)
    if kinds == {int}:
        return pl.Series(name, values, dtype=pl.Int64)
    return pl.Series(name, [v if v is None else float(v) for v in values], dtype=pl.Float64)


def sweep(
    study: Study | str | Path,
    executor: Executor | None = None,
    *,
    output: Path | None = None,
    shard: tuple[int, int] | None = None,
    workers: int | None = None,
    again: bool = False,
    progress: Progress | None = None,
) -> Swept:
    """Answer all points of a study.

    Parameters
    ----------
    study : a study, or the path of its file.
    executor : any executor, with workers that see the recordings under the same paths; None runs a
        process for each core.
    output : the table that will be written; its journal, beside it, is gone on from and kept up.
        None keeps no journal.
    shard : (i, n), to answer the i-th of n parts only; needs `output`.
    workers : processes where no executor is given; else how many workers it has, if known, so that
        batches suit them.
    again : ask again where the journal holds a refusal.
    progress : told after every batch how far it is.

    Raises
    ------
    UsageError : A080 to A086.  Whatever is no refusal of Turnbuckle's stops the sweep; what was
        answered stays in the journal.
    """
    study = study if isinstance(study, Study) else read_study(study)
    if shard is not None and (output is None or not 1 <= shard[0] <= shard[1]):
        raise error_of("A083.shard", found=f"{shard[0]}/{shard[1]}")
    if shard is not None and study.refine is not None:
        raise error_of("A083.refine")
    if workers is not None and not 1 <= workers <= 4096:
        raise error_of("A083.workers", found=str(workers))
    began = time.monotonic()
    with ExitStack() as stack:
        journal = (
            stack.enter_context(Journal(journal_of(output, shard))) if output is not None else None
        )
        answers, notes = _answers_of(journal, output)
        lanes = _lanes(executor, workers, len(study))
        stack.enter_context(_ended(lanes))
        running, computed = _Sweep(study, journal, answers, again), 0
        reading = running.run(study.block(shard), lanes, progress)
        while study.refine is not None and (wider := _refined(running)) is not None:
            computed += running.computed
            study, running = wider, running.on(wider)
            reading += running.run(study.block(None), lanes, progress)
        if shard is not None:
            running.look_up(_answers_of(None, output)[0], study.block(shard))
    block = study.block(shard)
    computed += running.computed
    seconds, added = time.monotonic() - began, len(study) - running.begun
    return Swept(
        study,
        running.outcomes,
        computed,
        len(block) - computed,
        running.digests,
        seconds,
        reading,
        tuple(notes),
        added,
    )


def _refined(running: _Sweep) -> Study | None:
    """Return the study with the places that its refined axis lacks; None where none is to be
    added.
    """
    from turnbuckle.questions.sweep.refine import further  # workers do not need its imports

    study = running.study
    refine = study.refine
    assert refine is not None
    spent = len(study) - running.begun
    rows = Swept(study, running.outcomes, 0, 0, running.digests, 0.0, 0.0).rows()
    places = further(study, rows, spent)
    if not places:
        return None
    axis = sorted(
        {*(v for v in study.lists[refine.axis] if isinstance(v, int | float)), *places}, key=float
    )
    return replace(study, axes={**study.axes, refine.axis: axis})


@contextmanager
def _ended(lanes: Sequence[Lane]) -> Iterator[None]:
    """End the lanes' own processes however the sweep ends, and release what this thread holds."""
    completed = False
    try:
        yield
        completed = True
    finally:
        for lane in lanes:
            lane.end(at_once=not completed)
        forget()


def _answers_of(journal: Journal | None, output: Path | None) -> tuple[Answers, list[str]]:
    """Return the outcomes that the journals of a table hold, and notes on their flaws."""
    answers, notes = Answers(), []
    for path in beside(output) if output is not None else []:
        held = journal is not None and path == journal.path
        entries, unread = (
            (journal.answers, journal.unread)
            if journal is not None and held
            else read_journal(path)
        )
        answers.add(entries)
        if unread:
            notes.append(
                f"{unread} lines of {path.name} cannot be read as they were written; their "
                "points are computed again"
            )
    if journal is not None and not journal.locked:
        notes.append(
            f"the file system of {journal.path.name} has no locks: nothing keeps a second "
            "process from this journal"
        )
    return answers, notes


def _lanes(executor: Executor | None, workers: int | None, tasks: int) -> list[Lane]:
    if executor is None and workers == 1:
        executor = Serial()
    if executor is not None:
        return [Lane(executor, workers or SOME)]
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return [Lane(None) for _ in range(max(min(workers or cores, tasks), 1))]


class _Sweep:
    """A sweep in progress.

    Attributes
    ----------
    outcomes : one a point, in the order of the table.
    computed : points that were answered now.
    begun : points of the study before any was added.
    """

    def __init__(
        self, study: Study, journal: Journal | None, answers: Answers, again: bool
    ) -> None:
        self.study, self.journal, self.answers, self.again = study, journal, answers, again
        self.outcomes = Outcomes(len(study))
        self.digests: dict[str, str] = {}
        self.computed = 0
        self.begun = len(study)

    def on(self, study: Study) -> _Sweep:
        """Return the same sweep on a study with more points."""
        wider = _Sweep(study, self.journal, self.answers, again=False)
        wider.digests, wider.begun = self.digests, self.begun
        return wider

    def digest(self, recording: str) -> str:
        """Return the hash of a recording's content."""
        if recording not in self.digests:
            self.digests[recording] = digest_of(
                self.study.recordings[recording], recording, self.study.kind.files
            )
        return self.digests[recording]

    def spans(self, block: range) -> Iterable[tuple[str, range]]:
        """Yield the recordings that have points in a block of the table, each with the range of its
        points there.
        """
        each = self.study.each
        for k, recording in enumerate(self.study.recordings):
            first, last = max(block.start, k * each), min(block.stop, (k + 1) * each)
            if first < last:
                yield recording, range(first, last)

    def look_up(self, answers: Answers, block: range) -> None:
        """Take the outcomes of points that have none yet from journals.

        A shard looks up the points of other recordings only if all may be answered, because looking
        up hashes recordings.
        """
        everywhere = len(block) == len(self.study) or len(answers) >= len(self.study)
        for recording, span in self.spans(range(len(self.study)) if everywhere else block):
            digest = self.digest(recording)
            if not len(answers):
                continue
            for index in (
                np.flatnonzero(self.outcomes.missing[span.start : span.stop]) + span.start
            ).tolist():
                with suppress(UsageError):
                    key = self.study.key(digest, self.study.asked(index % self.study.each))
                    if key in answers:
                        self.outcomes.put(index, answers[key])

    def run(self, block: range, lanes: list[Lane], progress: Progress | None) -> float:
        """Answer the points of a block, and return the seconds that workers spent reading."""
        self.look_up(self.answers, block)
        twins = self._twins(block)
        waiting = self.outcomes.missing | (self.outcomes.refused() if self.again else False)
        pending = {
            r: np.flatnonzero(waiting[s.start : s.stop]) + s.start
            for r, s in self.spans(block)
            if r not in twins
        }
        self.computed = int(waiting[block.start : block.stop].sum())
        work = Work(pending, self._task, lanes, least=TOGETHER if self.study.kind.together else 1)
        total, done, failed, reading = work.left, 0, 0, 0.0
        flying: dict[Future[Answered], tuple[Lane, Batch]] = {}
        if progress is not None:
            progress(0, total, 0)
        try:
            while work.waiting or flying:
                self._fill(work, lanes, flying)
                for future in wait(flying, return_when=FIRST_COMPLETED).done:
                    lane, batch = flying.pop(future)
                    lane.under_way -= 1
                    answers, seconds = self._landed(future, work, lane, batch)
                    reading += seconds
                    done, failed = (
                        done + len(answers),
                        failed + sum(o.code != "" for _, o in answers),
                    )
                if progress is not None:
                    progress(done, total, failed)
        finally:
            for future in flying:
                future.cancel()
        spans = dict(self.spans(range(len(self.study))))
        for recording, twin in twins.items():
            for index, same in zip(spans[recording], spans[twin], strict=True):
                if (outcome := self.outcomes[same]) is not None and index in block:
                    self.outcomes.put(index, outcome)
        return reading

    def _twins(self, block: range) -> dict[str, str]:
        """Map each recording whose points all lie in the block to an earlier one of the same
        content, whose answers it takes.
        """
        spans = {r: s for r, s in self.spans(block) if len(s) == self.study.each}
        first: dict[str, str] = {}
        return {r: first[self.digest(r)] for r in spans if first.setdefault(self.digest(r), r) != r}

    def _task(self, recording: str, index: int) -> Task | None:
        """Return a point ready to be asked; None where its settings are refused, which is its
        outcome.
        """
        try:
            asked = self.study.asked(index % self.study.each)
        except UsageError as error:
            self.outcomes.put(index, refusal(error))
            return None
        return Task(index, self.study.key(self.digest(recording), asked), asked)

    def _fill(
        self, work: Work, lanes: list[Lane], flying: dict[Future[Answered], tuple[Lane, Batch]]
    ) -> None:
        for lane in lanes:
            while lane.under_way < lane.width and (batch := work.next(lane)) is not None:
                if not batch.tasks:
                    continue
                recording = batch.recording
                path = self.study.recordings[recording].absolute()
                asked = [t.asked for t in batch.tasks]
                future = lane.submit(
                    self.study.kind.evaluate,
                    path,
                    self.digests[recording],
                    asked,
                    self.study.kind.together,
                )
                flying[future] = lane, batch
                lane.under_way += 1
                if future.done():
                    return  # an executor that runs immediately: store its answers before the next

    def _landed(
        self, future: Future[Answered], work: Work, lane: Lane, batch: Batch
    ) -> tuple[list[tuple[Task, Outcome]], float]:
        """Store the answers of a finished batch."""
        try:
            answered = future.result()
            answers = list(zip(batch.tasks, answered.outcomes, strict=False))
            work.back(batch, len(answers))
            seconds = answered.reading_seconds
        except BrokenExecutor:
            if not lane.own:
                raise
            lane.renew()
            answers, seconds = work.broken(batch), 0.0
        if answers and self.journal is not None:
            self.journal.write([(task.key, outcome) for task, outcome in answers])
        for task, outcome in answers:
            self.outcomes.put(task.index, outcome)
            if self.study.refine is not None:
                self.answers.put(task.key, outcome)
        return answers, seconds


__all__ = ["PATIENCE", "Point", "Serial", "Swept", "answer", "sweep"]
