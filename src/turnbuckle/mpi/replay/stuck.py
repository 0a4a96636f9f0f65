"""Description of a deadlock: the calls in which ranks wait when nothing can go on."""

from __future__ import annotations

from typing import Final

import numpy as np

from turnbuckle.foundation.errors import UsageError
from turnbuckle.mpi.collectives.collectives import Selection
from turnbuckle.mpi.replay.messages import Traffic
from turnbuckle.mpi.replay.program import all_messages
from turnbuckle.replay.contention.contention import Op, Program

#: Members of a circle whose calls are described.
_MOST_DESCRIBED: Final = 4


def waits_in(
    traffic: Traffic, program: Program, stuck: UsageError, selection: Selection
) -> list[str]:
    """Describe the call in which each process of a circle waits: its rank, its name, its index
    among the rank's calls, and its recorded time.

    Parameters
    ----------
    program : program of this traffic, with no message cut into chunks.
    stuck : error A071 that `turnbuckle.replay.contention.contention.replay` raised.
    """
    messages, call = all_messages(traffic, selection)
    rank_of = traffic.rank_of if len(traffic.rank_of) else np.arange(len(traffic.tail_seconds))
    begins = np.searchsorted(traffic.rank, np.arange(len(rank_of) + 1))
    descriptions = []
    for process, op in stuck.waiting[:_MOST_DESCRIBED]:
        code, message = int(program.code[op]), int(program.arg[op])
        activity = -1
        if code in (Op.AWAIT, Op.SENT) and message < len(call):
            activity = int((messages.received if code == Op.AWAIT else messages.sent)[message])
            activity = int(call[message]) if activity >= len(traffic.rank) else activity
        if activity < 0:
            descriptions.append(
                f"process {process} for a GPU or its copy engine"
                if code in (Op.USE, Op.TAKE)
                else f"process {process}"
            )
            continue
        thread = int(traffic.rank[activity])
        name = traffic.calls[int(traffic.call[activity])] if len(traffic.call) else "a call"
        when = (
            f", recorded at {traffic.start_seconds[activity]:.6g} s"
            if len(traffic.start_seconds)
            else ""
        )
        descriptions.append(
            f"rank {int(rank_of[thread])} in {name} (its call "
            f"{activity - int(begins[thread]) + 1:,}{when})"
        )
    return descriptions
