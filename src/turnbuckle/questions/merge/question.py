"""Recordings of the ranks of one run, read and made one."""

from __future__ import annotations

from collections.abc import Sequence

from turnbuckle.profile.profile import build
from turnbuckle.projection.run import Run
from turnbuckle.trace.merge.merge import MAX_SKEW_NS, Clock
from turnbuckle.trace.merge.merge import merge as merged


def merge(
    runs: Sequence[Run],
    *,
    clock: Clock = "collectives",
    max_skew_ns: int = MAX_SKEW_NS,
    name: str = "merged",
) -> Run:
    """Return one run of several recordings: processes kept apart, clocks put right: ``turnbuckle
    merge``.

    Parameters
    ----------
    runs : recordings of one run, two or more.
    clock, max_skew_ns : as `turnbuckle.trace.merge.merge.merge`.
    name : of the run that comes out; its trace can be kept by `Trace.to_parquet`.

    Raises
    ------
    UsageError, CannotAnswer : the recordings are not of one run, or their clocks cannot be aligned.
    """
    made = merged([run.trace for run in runs], clock=clock, max_skew_ns=max_skew_ns, name=name)
    return Run.of(build(made.trace))
