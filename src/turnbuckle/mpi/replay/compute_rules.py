"""Factors on parts of the recorded compute: rules, of which the first that fits an instant of
compute decides.

======================  ===========================================================================
rule                    holds for
======================  ===========================================================================
``0.5 if region NAME``  compute of a thread inside its regions (OTF2) or ranges (NVTX) of this name
``0.5 if kernel NAME``  compute of a rank while kernels of this name run, on any of its GPUs
``0.5 if rank 0-3``     all compute of these ranks
======================  ===========================================================================

Semicolons separate the rules.  A name may hold ``*`` and ``?``.  Compute that no rule fits stays as
recorded.  A factor of a kernel holds for the time in which the rank makes no call of MPI and such a
kernel runs: it says what a faster kernel gives where the host waits for it.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Float, Int
from turnbuckle.foundation.errors import TurnbuckleError, clipped, did_you_mean, error_of
from turnbuckle.mpi.replay.buffers import threads_of
from turnbuckle.mpi.replay.messages import Recording, Traffic
from turnbuckle.trace.ids import process_of

_RULE: Final = re.compile(r"(\S+) if (region|kernel|rank) (.+)")
_MOST_NAMES: Final = 8
_LONGEST_NAME: Final = 60


def with_rules(traffic: Traffic, rules: str) -> Traffic:
    """Return traffic whose compute is multiplied by the factors of rules, as the module describes
    them; itself without rules.

    Raises A099: a text that is no rule, a name or rank that the recording does not have, or a
    schedule, which has no names.
    """
    if not rules.strip():
        return traffic
    calls = len(traffic.gap_seconds)
    recorded = np.append(traffic.gap_seconds, traffic.tail_seconds)
    thread = np.append(traffic.rank, np.arange(len(traffic.tail_seconds)))
    changed, decided = np.zeros(len(recorded)), np.zeros(len(recorded))
    spans: dict[int, list[Int]] = {}
    for text in rules.split(";"):
        rule = _RULE.fullmatch(" ".join(text.split()))
        if rule is None:
            raise _refused(text)
        factor = _factor(rule[1], text)
        if rule[2] == "rank":
            all_of_rank = threads_of(rule[3], traffic)[thread]
            now = np.where(all_of_rank, recorded, decided)
        else:
            if traffic.recording is None:
                raise error_of("A099.schedule", found=clipped(text.strip(), _LONGEST_NAME))
            for number, named in _named(traffic.recording, rule[2], rule[3]).items():
                spans.setdefault(number, []).append(named)
            now = np.maximum(decided, _inside(traffic, traffic.recording, recorded, thread, spans))
        changed += factor * (now - decided)
        decided = now
    changed += recorded - decided
    return replace(traffic, gap_seconds=changed[:calls], tail_seconds=changed[calls:])


def _factor(word: str, text: str) -> float:
    try:
        factor = float(word)
    except ValueError:
        raise _refused(text) from None
    if not 0 <= factor < math.inf:
        raise _refused(text)
    return factor


def _named(recording: Recording, kind: str, name: str) -> dict[int, Int]:
    """Return begins and ends of the regions or kernels of a name, by number of the thread, shape
    (spans, 2) [ns].
    """
    trace = recording.trace
    rows = trace.ranges.drop_nulls("end_ns") if kind == "region" else trace.kernels
    columns = [
        c for c in (("name",) if kind == "region" else ("short_name", "name")) if c in rows.columns
    ]
    meant = [
        number
        for number, text in enumerate(trace.names.to_list())
        if text is not None and fnmatchcase(text, name)
    ]
    chosen = rows.filter(pl.any_horizontal([pl.col(c).is_in(meant) for c in columns]))
    if chosen.is_empty():
        longest = (
            rows.group_by(columns[0])
            .agg((pl.col("end_ns") - pl.col("start_ns")).sum())
            .sort("end_ns", descending=True)
        )
        names = [
            clipped(text, _LONGEST_NAME)
            for text in trace.text(longest, columns[0]).drop_nulls().head(_MOST_NAMES)
        ]
        fix = did_you_mean(name, names) or None
        raise error_of(
            "A099.name",
            found=clipped(name, _LONGEST_NAME),
            fix=fix,
            kind=kind,
            names=", ".join(names) or "none",
        )
    whose = chosen["thread" if kind == "region" else "process"].to_list()
    out: dict[int, list[tuple[int, int]]] = {}
    numbers = {thread: [n] for n, thread in enumerate(recording.threads)}
    if kind == "kernel":
        numbers = {}
        for n, thread in enumerate(recording.threads):
            numbers.setdefault(process_of(thread), []).append(n)
    for owner, begin, end in zip(
        whose, chosen["start_ns"].to_list(), chosen["end_ns"].to_list(), strict=True
    ):
        for number in numbers.get(owner, ()):
            out.setdefault(number, []).append((begin, end))
    return {number: np.array(spans, dtype=np.int64) for number, spans in out.items()}


def _inside(
    traffic: Traffic,
    recording: Recording,
    recorded: Float,
    thread: Int,
    spans: dict[int, list[Int]],
) -> Float:
    """Return how much of the compute before each call, and of each tail, lies inside spans of its
    thread [s].
    """
    end = np.append(
        recording.first_ns + np.rint(traffic.start_seconds * 1e9),
        np.full(len(traffic.tail_seconds), recording.last_ns),
    )
    begin = end - np.rint(recorded * 1e9)
    out = np.zeros(len(recorded))
    for number, parts in spans.items():
        rows = np.flatnonzero(thread == number)
        first, last = np.concatenate(parts).T
        order = np.argsort(first, kind="stable")
        # spans that overlap count once: each begins no earlier than all before it have ended
        last = np.maximum.accumulate(last[order])
        first = np.maximum(first[order], np.append(first[order[0]], last[:-1]))
        covered = np.append(0, np.cumsum(np.maximum(last - first, 0)))

        def until(
            instant: Float, first: Int = first, last: Int = last, covered: Int = covered
        ) -> Float:
            """Return the length of all spans before an instant [ns]."""
            k = np.searchsorted(first, instant, side="right")
            return np.asarray(
                covered[k] - np.where(k > 0, np.maximum(last[k - 1] - instant, 0), 0),
                dtype=np.float64,
            )

        out[rows] = (until(end[rows]) - until(begin[rows])) * 1e-9
    return np.minimum(out, recorded)


def _refused(text: str) -> TurnbuckleError:
    return error_of("A099.compute", found=clipped(text.strip(), _LONGEST_NAME))
