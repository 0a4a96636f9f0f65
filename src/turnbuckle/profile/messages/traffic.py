"""Counts of MPI calls: messages as recorded, collectives by name, and the number of messages with
both sides.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from turnbuckle.profile.messages.mpi_calls import described, matched, same_call
from turnbuckle.trace.trace import Trace


def traffic(trace: Trace) -> dict[str, Any] | None:
    """Return the counts of the MPI calls of a recording and of their messages; None where it holds
    no MPI call.

    Returns
    -------
    ``count``: rows of the table; ``calls``: the same with a Waitall or Sendrecv counted once;
    ``ranks``; ``sends`` (``count``, ``bytes``) and ``receives`` (``count``): calls whose partner is
    recorded, with each start of a persistent request and both halves of a Sendrecv;
    ``collectives``: calls whose communicator is recorded, by name; ``messages``: ``matched`` with
    both sides, ``unmatched`` sends and receives without the other side.  Numbers are null for
    formats that do not record ranks.
    """
    if not trace.mpi.height:
        return None
    calls, members = described(trace, np.arange(trace.mpi.height, dtype=np.int64))
    sends, receives, pairs, alone = matched(calls, members)
    ranks = trace.mpi_ranks["rank"].n_unique()
    return {
        "count": trace.mpi.height,
        "calls": len(np.unique(same_call(trace))),
        "ranks": ranks or None,
        "sends": {"count": sends.height, "bytes": int(sends["size_bytes"].sum())},
        "receives": {"count": receives.height},
        "collectives": _collectives(trace),
        "messages": {"matched": pairs.height, "unmatched": alone.height},
    }


def _collectives(trace: Trace) -> dict[str, int]:
    """Return the number of collective calls by name, without prefix and in capitals."""
    calls = trace.mpi.filter(pl.col("kind") == 1, pl.col("communicator").is_not_null())
    short = (
        trace.text(calls).str.replace(r"(?i)^p?mpi_", "").str.to_uppercase().fill_null("(no name)")
    )
    counts = short.alias("name").value_counts().sort("name")
    return dict(counts.iter_rows())
