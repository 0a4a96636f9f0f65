"""Which requests waits complete of which nothing is recorded: the oldest of their thread."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnbuckle.trace.readers.parts.first_come import FirstCome
from turnbuckle.trace.readers.parts.text_numbers import Int


def oldest(thread: NDArray[Any], sends: tuple[Int, Int], receives: tuple[Int, Int], ones: Int, alls: Int) -> tuple[Int, Int, int]:
    """A wait for one completes its thread's oldest open receive, else its oldest open send; a wait for all every send, then every receive.

    Parameters
    ----------
    thread : of each call; calls are by thread and time.
    sends, receives : calls and requests of what is open, by call.
    ones, alls : calls that wait for one, and for all.

    Returns
    -------
    call, request : what is completed where; of one call in the order of the requests.
    guessed : waits for one after which something was left open.
    """
    call = np.concatenate([sends[0], receives[0], ones, alls])
    what = np.repeat(np.arange(4), [len(sends[0]), len(receives[0]), len(ones), len(alls)])
    order = np.argsort(call, kind="stable")
    call, what = call[order], what[order]
    if not len(call):
        return call, call, 0
    is_all = what == 3
    begins = np.ones(len(call), dtype=bool)
    begins[1:] = is_all[:-1] | (thread[call[1:]] != thread[call[:-1]])
    # what is open is forgotten behind a wait for all, and at the end of a thread
    span = np.cumsum(begins) - 1
    ends_at = np.full(int(span[-1]) + 1, -1, dtype=np.int64)
    ends_at[span[is_all]] = call[is_all]
    received = FirstCome(span, what == 1, what == 2)
    sent = FirstCome(span, what == 0, (what == 2) & (received.served == 0))
    parts = []
    for queue, requests in ((received, receives[1]), (sent, sends[1])):
        parts.append((call[queue.served > 0], requests[queue.fetched()]))
    for queue, requests in ((sent, sends[1]), (received, receives[1])):
        left, of_span = queue.left()
        closed = ends_at[of_span] >= 0
        parts.append((ends_at[of_span][closed], requests[left[closed]]))
    still_open = received.waiting + sent.waiting > 0
    guessed = int((still_open & (received.served + sent.served > 0)).sum())
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts]), guessed
