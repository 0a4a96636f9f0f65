"""Numbers of MPI exchanges, so that a part of a recording can keep both sides of an exchange
together.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Int
from turnbuckle.profile.messages.mpi_calls import collectives, described, matched
from turnbuckle.trace.ids import process_of
from turnbuckle.trace.trace import Trace

_ANY_SIZE = 1 << 30


def exchange_numbers(trace: Trace) -> Int:
    """Return the numbers of the exchanges that each row of the table ``mpi`` is a side of; -1 for
    none or an unknown other side.

    Returns
    -------
    Shape (rows, 2): the message that the row sends or the collective that it belongs to, and the
    message that it receives.
    """
    number = np.full((trace.mpi.height, 2), -1, dtype=np.int64)
    if process_of(trace.mpi["thread"]).n_unique() < 2:
        return number
    calls, members = described(trace, np.arange(trace.mpi.height, dtype=np.int64))
    rounds, _ = collectives(calls, members, _ANY_SIZE)
    if rounds.height:
        number[rounds["at"].to_numpy(), 0] = (
            rounds.select(pl.struct("comm", "k").rank("dense").cast(pl.Int64))
            .to_series()
            .to_numpy()
        )
    messages = matched(calls, members)[2]
    first = int(number.max(initial=-1)) + 1
    for column, side in enumerate(("at", "at_r")):
        number[messages[side].to_numpy(), column] = np.arange(first, first + messages.height)
    return number
