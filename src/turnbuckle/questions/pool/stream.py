"""Jobs as a log or a mix has them: when each comes, how long it runs on fixed nodes, and what it
takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from turnbuckle.foundation.arrays import Bool, Float, Int
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.findings import Finding, finding

#: Cores and GPUs are counted in thousandths of one.
MILLI: Final = 1000
#: Jobs of one simulation on a small machine, and classes of one answer.
MOST_JOBS: Final = 5_000_000
MOST_CLASSES: Final = 200
#: What is drawn again is a stretch of the log this long, so that the rhythm of a day stays [s].
BLOCK: Final = 86_400.0
#: What a stream has of each job.
COLUMNS: Final = ("arrival", "work", "limit", "parts", "cores", "gpus", "memory", "class_of")
YEAR: Final = 365.25 * 86_400.0
#: The most that a job has.  No public cluster is a tenth as large (Top500, November 2025), and no
#: job runs a tenth as long.
MOST_YEARS, MOST_PARTS, MOST_CORES, MOST_GPUS, MOST_MIB = (
    20,
    1_000_000,
    200_000_000,
    5_000_000,
    1 << 40,
)


@dataclass(frozen=True)
class Stream:
    """Jobs in the order of their submission; arrays have shape (jobs,).

    Attributes
    ----------
    source : the format, in words.
    arrival : when each job was submitted [s], from 0 on.
    work : how long it ran [s].
    limit : how long it was expected to run, which backfilling goes by [s].
    parts : parts that are placed together, such as nodes.
    cores, gpus : of each part, in thousandths; a part has whole GPUs or a share of one.
    memory : of each part [MiB].
    class_of : index into `classes`.
    classes : names.
    divided : whether the parts follow from the size of a node, because the log does not say them.
    findings : what was set aside or assumed.
    drawn : draws another stream like this one from a seed; None draws days of this one again.
    standing : so many of the first jobs ran before the log begins: every draw of its days has them
        once.
    """

    source: str
    arrival: Float
    work: Float
    limit: Float
    parts: Int
    cores: Int
    gpus: Int
    memory: Int
    class_of: Int
    classes: tuple[str, ...]
    divided: bool = False
    findings: tuple[Finding, ...] = ()
    drawn: Callable[[int], Stream] | None = None
    standing: int = 0

    def __len__(self) -> int:
        return len(self.arrival)

    @property
    def window(self) -> tuple[float, float]:
        """Return the time from the first submission to the last [s]: what ends later counts up to
        there.

        Jobs that are all submitted at once are counted for as long as the longest of them runs.
        """
        first, last = float(self.arrival[0]), float(self.arrival[-1])
        return first, last if last > first or self.stays else first + float(self.work.max())

    @property
    def days(self) -> int:
        """Return the days in which jobs were submitted, from the first to the last."""
        return int(self.arrival[-1] // BLOCK) + 1

    @cached_property
    def stays(self) -> bool:
        """Return whether jobs stay once they are placed."""
        return not bool(np.isfinite(self.work).all())

    @property
    def gpu_load(self) -> float:
        """Return the GPUs that the jobs submitted would use on average, from the first submission
        to the last.
        """
        first, last = self.window
        return (
            float((self.parts * self.gpus / MILLI * self.work).sum() / (last - first))
            if last > first
            else 0.0
        )

    @property
    def use_gpus(self) -> list[bool]:
        """Return whether any job of each class has a GPU."""
        return [bool((self.gpus[self.class_of == k] > 0).any()) for k in range(len(self.classes))]

    def sorted(self) -> Stream:
        """Return the jobs by submission, the first at 0 s.  Raises A447 for too many, A206 for
        none.
        """
        if not len(self):
            raise error_of(
                "A206.jobs",
                found="; ".join([self.source, *(f.detail for f in self.findings if f.detail)]),
            )
        if len(self) > MOST_JOBS:
            raise error_of("A447.jobs", found=f"{len(self):,}", most=MOST_JOBS)
        if len(self.classes) > MOST_CLASSES:
            raise error_of("A447.classes", found=f"{len(self.classes):,}", most=MOST_CLASSES)
        order = np.argsort(self.arrival, kind="stable")
        out = self.taken(order)
        return replace(out, arrival=out.arrival - out.arrival[0])

    def taken(self, rows: Int) -> Stream:
        """Return some of the jobs."""
        some: dict[str, Any] = {name: getattr(self, name)[rows] for name in COLUMNS}
        return replace(self, **some)

    def again(self, seed: int) -> Stream:
        """Return a stream that might have come as well: of a mix another draw, of a log its days in
        a drawn order, with replacement.
        """
        if self.drawn is not None:
            return self.drawn(seed)
        day = np.floor(self.arrival / BLOCK).astype(np.int64)
        days = self.days
        first = np.maximum(np.searchsorted(day, np.arange(days + 1)), self.standing)
        draw = np.random.Generator(np.random.Philox(seed))
        chosen = draw.integers(0, days, days)
        while not self.standing and (first[chosen] == first[chosen + 1]).all():
            chosen = draw.integers(0, days, days)  # of a log with few jobs, days without any
        rows = np.concatenate(
            [np.arange(self.standing), *(np.arange(first[d], first[d + 1]) for d in chosen)]
        )
        shifts = (np.full(first[d + 1] - first[d], (k - d) * BLOCK) for k, d in enumerate(chosen))
        out = self.taken(rows)
        return replace(
            out, arrival=out.arrival + np.concatenate([np.zeros(self.standing), *shifts])
        )

    def denser(self, load: float, gpus: int, seed: int) -> Stream:
        """Return as many streams like this one at once, the last in part, as keep a share `load` of
        `gpus` GPUs in use.  Raises A206.
        """
        if not self.gpu_load:
            raise error_of("A206.gpus", found=self.source)
        copies = load * gpus / self.gpu_load
        if copies * len(self) > MOST_JOBS:
            raise error_of("A447.jobs", found=f"{copies * len(self):,.0f}", most=MOST_JOBS)
        whole = [self.again(seed + k) for k in range(int(copies))]
        last = self.again(seed + len(whole))
        chance = np.random.Generator(np.random.Philox(seed)).random(len(last))
        every = [*whole, last.taken(np.flatnonzero(chance < copies - int(copies)))]
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(stream, name) for stream in every]) for name in COLUMNS
        }
        return replace(self, **joined, drawn=None, standing=0).sorted()

    def staying(self) -> Stream:
        """Return the same jobs one after the other, each of which stays."""
        forever = np.full(len(self), np.inf)
        return replace(
            self, arrival=np.arange(len(self), dtype=np.float64), work=forever, limit=forever
        )

    def fitted(self, gpus_per_node: int, cores_per_node: int) -> Stream:
        """Return the jobs cut into equal parts that a node holds, where the log does not say its
        own.
        """
        if not self.divided:
            return self
        by_gpus = np.ceil(self.gpus / (MILLI * max(gpus_per_node, 1)))
        by_cores = np.ceil(self.cores / (MILLI * max(cores_per_node, 1)))
        parts = np.maximum(np.maximum(by_gpus, by_cores), 1).astype(np.int64)
        gpus = np.ceil(self.gpus / parts / MILLI).astype(np.int64) * MILLI
        cores, memory = (
            np.ceil(values / parts).astype(np.int64) for values in (self.cores, self.memory)
        )
        return replace(self, parts=parts, gpus=gpus, cores=cores, memory=memory, divided=False)


def classed(names: Sequence[str]) -> tuple[Int, tuple[str, ...]]:
    """Return the class of each job and the names of the classes, by their first job."""
    classes = dict.fromkeys(names)
    index = {name: k for k, name in enumerate(classes)}
    return np.array([index[name] for name in names], dtype=np.int64), tuple(classes)


def logged(
    source: str,
    columns: Mapping[str, Float],
    names: Sequence[str],
    keys: Sequence[str],
    **more: Any,
) -> Stream:
    """Return the jobs of a log; those with values that no job has are set aside, with a count by
    reason (A521).

    Parameters
    ----------
    columns : ``arrival``, ``start`` (nan where it is not known), ``work``, ``limit``, ``parts``,
        ``cores``, ``gpus`` and ``memory``, in the units of a `Stream`, shape (rows,); a part with
        more than one GPU has whole ones.
    names : class of each row.
    keys : what the log calls each job.
    more : of the `Stream`; ``standing`` as a mask of the rows.
    """
    findings = list(more.pop("findings", ()))
    kept, reasons = _believed(columns, keys)
    if reasons:
        detail = "; ".join(f"{reason}: {count:,}" for reason, count in reasons.items())
        findings.append(finding("A521", sum(reasons.values()), detail))
    rows = kept.tolist()
    class_of, classes = classed([names[k] for k in rows])
    gpus = columns["gpus"][kept]
    gpus = np.where(gpus > MILLI, np.ceil(gpus / MILLI) * MILLI, gpus)
    columns_of: dict[str, Any] = {
        name: columns[name][kept].astype(np.int64) for name in ("parts", "cores", "memory")
    }
    columns_of |= {name: columns[name][kept] for name in ("arrival", "work", "limit")}
    columns_of |= {"gpus": gpus.astype(np.int64), "class_of": class_of, "classes": classes}
    standing = int(more.pop("standing", np.zeros(len(names)))[kept].sum())
    return Stream(source, **columns_of, findings=tuple(findings), standing=standing, **more)


def _believed(columns: Mapping[str, Float], keys: Sequence[str]) -> tuple[Int, dict[str, int]]:
    """Return the rows that may be jobs, and how many are not, by reason; a row counts once."""
    arrival, start, work = (columns[name] for name in ("arrival", "start", "work"))
    parts, cores, gpus, memory = (columns[name] for name in ("parts", "cores", "gpus", "memory"))
    longest = MOST_YEARS * YEAR
    with np.errstate(over="ignore"):
        flaws = {
            "start before submission": start < arrival,
            f"wait or run time over {MOST_YEARS} years": (work > longest)
            | (start - arrival > longest),
            "no cores stated, or neither cores nor GPUs": np.isnan(cores)
            | ((cores == 0) & (gpus == 0)),
            f"over {MOST_PARTS:,} nodes": parts > MOST_PARTS,
            f"over {MOST_CORES:,} cores": parts * cores > MOST_CORES * MILLI,
            f"over {MOST_GPUS:,} GPUs": parts * gpus > MOST_GPUS * MILLI,
            "more memory than any cluster": parts * memory > MOST_MIB,
            "the same job again": _again(keys, arrival),
        }
    kept = np.ones(len(arrival), dtype=bool)
    reasons = {}
    for reason, flawed in flaws.items():
        if count := int((kept & flawed).sum()):
            reasons[reason] = count
        kept &= ~flawed
    rows = np.flatnonzero(kept)
    near = together(arrival[rows])
    if count := int((~near).sum()):
        reasons["submitted a year or more from all others"] = count
    return rows[near], reasons


def _again(keys: Sequence[str], arrival: Float) -> Bool:
    """Return which rows have the name and the time of submission of one before."""
    met: set[tuple[str, float]] = set()
    out = np.zeros(len(keys), dtype=bool)
    for k, key in enumerate(zip(keys, arrival.tolist(), strict=True)):
        out[k] = key in met
        met.add(key)
    return out


def together(arrival: Float) -> Bool:
    """Return which jobs are of the largest group without a year between one submission and the
    next; of equal ones the first.
    """
    order = np.argsort(arrival, kind="stable")
    group = np.empty(len(arrival), dtype=np.int64)
    group[order] = np.cumsum(np.diff(arrival[order], prepend=arrival[order][:1]) > YEAR)
    return (
        np.asarray(group == np.argmax(np.bincount(group)))
        if len(arrival)
        else np.ones(0, dtype=bool)
    )
