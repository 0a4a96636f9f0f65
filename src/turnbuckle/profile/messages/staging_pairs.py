"""Staging pairs: copies between device and host that a program makes for its messages.

A device-to-host copy stages the send that follows it, and a host-to-device copy the receive before
it, where both are of one process, the copy has ended before the send begins (the receive is
complete before the copy begins), and the bytes are the same.  A message whose buffer is recorded in
device memory is staged by nothing.  A send takes its copy from the last copies before it: those
that no other send came between.  One copy may stage several messages in a row, and several copies
in a row one message, where their bytes add up.

What is paired so is likely, not certain: bytes and order are all that a recording shows.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Int
from turnbuckle.profile.messages.mpi_calls import ON_DEVICE, described, matched
from turnbuckle.trace.trace import Trace

#: Messages that one copy stages, or copies that stage one message, at most.
_MOST: Final = 64
_Item = tuple[int, int]


@dataclass(frozen=True)
class StagingPairs:
    """Copies with the messages that they stage, one row for each copy and message; arrays of shape
    (pairs,).

    Attributes
    ----------
    copy : activity of the copy.
    call : activity that sends the message, or that completes its receive.
    sends : whether the copy is made for a send, else for a receive.
    """

    copy: Int
    call: Int
    sends: np.ndarray[tuple[int], np.dtype[np.bool_]]

    def __len__(self) -> int:
        return len(self.copy)


def staging_pairs(rows: pl.DataFrame, trace: Trace) -> StagingPairs:
    """Return the staging pairs of a profile.

    Parameters
    ----------
    rows : activities with kind, category, row, process, size_bytes, start_ns and end_ns.
    trace : the recording the activities come from.
    """
    copies = rows.with_row_index("i").filter(
        pl.col("kind").cast(pl.String).is_in(["copy_d2h", "copy_h2d"]), pl.col("size_bytes") > 0
    )
    if not copies.height or not trace.mpi.height:
        nothing = np.zeros(0, dtype=np.int64)
        return StagingPairs(nothing, nothing, np.zeros(0, dtype=np.bool_))
    activity = np.full(trace.mpi.height, -1, dtype=np.int64)
    mpi_rows = rows.with_row_index("i").filter(
        pl.col("category").cast(pl.String) == "mpi", pl.col("row").is_not_null()
    )
    activity[mpi_rows["row"].to_numpy()] = mpi_rows["i"].to_numpy()
    sends, receives, messages, _ = matched(*described(trace, activity))
    on_host = ~pl.col("memory").is_in(ON_DEVICE).fill_null(False)
    sends, receives = sends.filter(on_host), receives.filter(on_host)
    received = messages.select("at_r", carried="size_bytes")
    receives = receives.join(
        received, left_on="at", right_on="at_r", how="left", maintain_order="left"
    )
    receives = receives.with_columns(size_bytes=pl.coalesce("carried", "size_bytes"))
    kind = copies["kind"].cast(pl.String)
    out = [
        *_paired(copies.filter(kind == "copy_d2h"), "end_ns", sends, "activity", "start_ns", 1),
        # in the other direction of time the copy comes first again
        *_paired(copies.filter(kind == "copy_h2d"), "start_ns", receives, "done", "done_until", -1),
    ]
    pairs = np.array(sorted(set(out)), dtype=np.int64).reshape(-1, 3)
    return StagingPairs(pairs[:, 0], pairs[:, 1], pairs[:, 2] == 1)


def _paired(
    copies: pl.DataFrame, copied: str, calls: pl.DataFrame, call: str, called: str, sign: int
) -> list[tuple[int, int, int]]:
    """Return copy, call and `sign` of each pair, where `sign` is the direction of time in which the
    copy comes before the call.
    """
    calls = calls.filter(pl.col(call) >= 0, pl.col("size_bytes") > 0, pl.col(called).is_not_null())
    events: dict[int, list[tuple[int, int, int, int]]] = defaultdict(list)
    for process, time, number, size in copies.select(
        "process", copied, "i", "size_bytes"
    ).iter_rows():
        events[process].append((sign * time, 0, number, size))
    for process, time, number, size in calls.select(
        "process", called, call, "size_bytes"
    ).iter_rows():
        events[process].append((sign * time, 1, number, size))
    out: list[tuple[int, int, int]] = []
    for process in events:
        batch: list[_Item] = []
        sent: list[_Item] = []
        for _, which, number, size in [*sorted(events[process]), (0, 0, -1, 0)]:
            if which == 0 and (sent or number < 0):
                out += [(c, m, sign) for c, m in _of_batch(batch, sent)]
                batch, sent = [], []
            (sent if which else batch).append((number, size))
    return out


def _of_batch(copies: list[_Item], calls: list[_Item]) -> list[tuple[int, int]]:
    """Return the pairs of copies in a row and the calls in a row after them: the same bytes, then
    sums.

    >>> _of_batch([(1, 8), (2, 24)], [(7, 8), (8, 16), (9, 8), (10, 5)])
    [(1, 7), (2, 8), (2, 9)]
    >>> _of_batch([(1, 8), (2, 16)], [(7, 24)])
    [(1, 7), (2, 7)]
    """
    by_size: dict[int, list[int]] = defaultdict(list)
    for number, size in reversed(copies):
        by_size[size].append(number)
    pairs = [(by_size[size].pop(), number) for number, size in calls if by_size.get(size)]
    paired_copies, paired_calls = {c for c, _ in pairs}, {m for _, m in pairs}
    copies = [item for item in copies if item[0] not in paired_copies]
    calls = [item for item in calls if item[0] not in paired_calls]
    one_to_many = _sums(copies, calls)
    copies = [item for item in copies if item[0] not in {c for c, _ in one_to_many}]
    calls = [item for item in calls if item[0] not in {m for _, m in one_to_many}]
    return [*pairs, *one_to_many, *((c, m) for m, c in _sums(calls, copies))]


def _sums(ones: list[_Item], many: list[_Item]) -> list[tuple[int, int]]:
    """Return each of `ones` with those of `many`, two or more in a row, whose bytes add up to its
    own; each is taken once.
    """
    pairs: list[tuple[int, int]] = []
    free = list(many)
    for number, size in ones:
        for first in range(len(free)):
            total, last = 0, first
            while last < len(free) and total < size and last - first < _MOST:
                total, last = total + free[last][1], last + 1
            if total == size and last - first > 1:
                pairs += [(number, other) for other, _ in free[first:last]]
                del free[first:last]
                break
    return pairs
