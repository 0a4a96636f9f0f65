"""In which calls ranks wait when nothing can go on, in words."""

from __future__ import annotations

from typing import Final

import numpy as np

from turnbuckle.foundation.errors import UsageError
from turnbuckle.mpi.collectives.collectives import Selection
from turnbuckle.mpi.replay.messages import Traffic
from turnbuckle.mpi.replay.program import all_messages
from turnbuckle.replay.contention.contention import Op, Program

#: Members of a circle whose calls are told.
_TOLD: Final = 4


def waits_in(traffic: Traffic, one: Program, stuck: UsageError, selection: Selection) -> list[str]:
    """In which call each process of a circle waits, in words: rank, call, which of its calls it is, and when it was recorded.

    Parameters
    ----------
    one : the program of this traffic, its messages not cut into chunks.
    stuck : A071, as `turnbuckle.replay.contention.contention.replay` raised it.
    """
    messages, call = all_messages(traffic, selection)
    rank_of = traffic.rank_of if len(traffic.rank_of) else np.arange(len(traffic.tail_seconds))
    begins = np.searchsorted(traffic.rank, np.arange(len(rank_of) + 1))
    said = []
    for process, op in stuck.waiting[:_TOLD]:
        code, m = int(one.code[op]), int(one.arg[op])
        activity = -1
        if code in (Op.AWAIT, Op.SENT) and m < len(call):
            activity = int((messages.received if code == Op.AWAIT else messages.sent)[m])
            activity = int(call[m]) if activity >= len(traffic.rank) else activity
        if activity < 0:
            said.append(f"process {process} for a GPU or its copy engine" if code in (Op.USE, Op.TAKE) else f"process {process}")
            continue
        thread = int(traffic.rank[activity])
        name = traffic.calls[int(traffic.call[activity])] if len(traffic.call) else "a call"
        when = f", recorded at {traffic.start_seconds[activity]:.6g} s" if len(traffic.start_seconds) else ""
        said.append(f"rank {int(rank_of[thread])} in {name} (its call {activity - int(begins[thread]) + 1:,}{when})")
    return said
