"""Requests completed by waits whose messages were not recorded: the oldest open requests of the
thread.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnbuckle.foundation.arrays import Int
from turnbuckle.trace.readers.parts.first_come import FirstCome


def oldest(
    thread: NDArray[Any], sends: tuple[Int, Int], receives: tuple[Int, Int], ones: Int, alls: Int
) -> tuple[Int, Int, int]:
    """Assign requests to waits by age.

    A wait for one completes its thread's oldest open receive, or else its oldest open send.  A wait
    for all completes every open send, then every open receive.

    Parameters
    ----------
    thread : thread of each call; calls are ordered by thread and time.
    sends, receives : calls and requests of the open sends and receives, ordered by call.
    ones, alls : calls that wait for one request, and for all.

    Returns
    -------
    call, request : each wait and a request that it completes; those of one wait in the order of the
    requests. guessed : number of waits for one after which requests stayed open.
    """
    call = np.concatenate([sends[0], receives[0], ones, alls])
    role = np.repeat(np.arange(4), [len(sends[0]), len(receives[0]), len(ones), len(alls)])
    order = np.argsort(call, kind="stable")
    call, role = call[order], role[order]
    if not len(call):
        return call, call, 0
    is_all = role == 3
    begins = np.ones(len(call), dtype=bool)
    begins[1:] = is_all[:-1] | (thread[call[1:]] != thread[call[:-1]])
    # A wait for all, and the end of a thread, leave no request open, so a new queue begins there.
    span = np.cumsum(begins) - 1
    closing_call = np.full(int(span[-1]) + 1, -1, dtype=np.int64)
    closing_call[span[is_all]] = call[is_all]
    received = FirstCome(span, role == 1, role == 2)
    sent = FirstCome(span, role == 0, (role == 2) & (received.served == 0))
    parts = []
    for queue, requests in ((received, receives[1]), (sent, sends[1])):
        parts.append((call[queue.served > 0], requests[queue.fetched()]))
    for queue, requests in ((sent, sends[1]), (received, receives[1])):
        left, of_span = queue.left()
        closed = closing_call[of_span] >= 0
        parts.append((closing_call[of_span][closed], requests[left[closed]]))
    still_open = received.waiting + sent.waiting > 0
    guessed = int((still_open & (received.served + sent.served > 0)).sum())
    return (
        np.concatenate([part[0] for part in parts]),
        np.concatenate([part[1] for part in parts]),
        guessed,
    )
