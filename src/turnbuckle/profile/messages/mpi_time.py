"""What the recorded time in calls of MPI is made of: messages, waiting for others, the rest, and
calls that are not replayed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Float, Int
from turnbuckle.profile.messages.mpi_calls import Exchanges


@dataclass(frozen=True)
class MpiTime:
    """Recorded time in calls of MPI, mean over the ranks; the four add up to it.

    Attributes
    ----------
    waiting_seconds : before a message was sent, before its receive was posted where it had to be,
        or before the last member came [s].
    messages_seconds : prices of messages and collectives on the recording's own network, as far as
        a call lasted [s].
    unexplained_seconds : the rest of these calls: the library, waiting for a core, what the
        recorder takes [s].
    kept_seconds : calls that are not replayed [s].
    """

    waiting_seconds: float = 0.0
    messages_seconds: float = 0.0
    unexplained_seconds: float = 0.0
    kept_seconds: float = 0.0


def mpi_time(
    calls: Int,
    thread: Int,
    ranks: int,
    starts: Int,
    ends: Int,
    matched: Exchanges,
    message_seconds: Float,
    waits: np.ndarray[tuple[int], np.dtype[np.bool_]],
    collectives: tuple[Int, Float],
    overhead_s: float,
) -> MpiTime:
    """Return what the recorded calls of MPI are made of.

    Parameters
    ----------
    calls, thread, ranks : activities that are calls of MPI, the thread of each, and the number of
        ranks.
    starts, ends : when each activity begins and ends [ns].
    matched : messages and collectives.
    message_seconds, waits : price of each message on the recording's network [s], and whether it
        waits for its receive.
    collectives : call of each member, and its price [s].
    overhead_s : processor time of sending, and of receiving [s].
    """
    explained = np.zeros(len(starts), dtype=np.bool_)
    until = starts.astype(np.float64)  # the call waits until then
    arrives = starts + overhead_s * 1e9  # and its messages are there then
    send, sent, post, received = (
        matched.messages[c].to_numpy().astype(np.int64)
        for c in ("activity", "done", "activity_r", "done_r")
    )
    for ends_of in (send, sent, post, received):
        explained[ends_of[ends_of >= 0]] = True
    both = (send >= 0) & (received >= 0)
    last = np.where(waits & (post >= 0), np.maximum(starts[send], starts[post]), starts[send])
    np.maximum.at(until, received[both], last[both])
    np.maximum.at(arrives, received[both], last[both] + message_seconds[both] * 1e9)
    held = both & waits & (sent >= 0)
    np.maximum.at(until, sent[held], last[held])
    np.maximum.at(arrives, sent[held], last[held] + message_seconds[held] * 1e9)
    if matched.rounds.height:
        begun = matched.rounds.with_columns(
            begin=pl.Series(starts[matched.rounds["activity"].to_numpy()])
        )
        begun = begun.with_columns(pl.col("begin").max().over("comm", "k"))
        at = (
            begun.select(at=pl.when(pl.col("done") >= 0).then("done").otherwise("activity"))["at"]
            .to_numpy()
            .astype(np.int64)
        )
        explained[at] = explained[begun["activity"].to_numpy()] = True
        np.maximum.at(until, at, begun["begin"].to_numpy())
        call, seconds = collectives
        np.maximum.at(arrives, call, until[call] + seconds * 1e9)
    begins = starts.astype(np.float64)
    begins[calls] = _outside(starts[calls], ends[calls], thread)
    lasts = np.maximum(ends - begins, 0.0)
    waiting = np.clip(until - begins, 0.0, lasts)
    moving = np.clip(arrives - np.maximum(until, begins), 0.0, lasts - waiting)
    replayed, other = calls[explained[calls]], calls[~explained[calls]]
    parts = (
        waiting[replayed],
        moving[replayed],
        (lasts - waiting - moving)[replayed],
        lasts[other],
    )
    return MpiTime(*(float(part.sum()) * 1e-9 / max(ranks, 1) for part in parts))


def _outside(starts: Int, ends: Int, thread: Int) -> Float:
    """Return when each call begins that lies in no earlier one of its thread [ns]; the end of that
    one for others.
    """
    order = np.lexsort((starts, thread))
    apart = np.unique(thread[order], return_inverse=True)[1] * (float(ends.max(initial=0)) + 1.0)
    over = np.maximum.accumulate(np.append(-1.0, ends[order] + apart)[:-1]) - apart
    out = np.empty(len(starts))
    out[order] = np.maximum(starts[order], over)
    return out
