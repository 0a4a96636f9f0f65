"""Collectives whose buffers a library stages in host memory once per call: a copy in before, a copy
out after, and messages between hosts.

The alternative is to copy every message of the collective, as point-to-point messages are copied: a
block that a rank forwards then goes to the rank's GPU and back each time.  Which of the two costs
less depends on the algorithm.  A reduction by Rabenseifner's algorithm copies 2 (P - 1) / P of the
vector each way by messages, and the whole vector once when staged.  A gather by a binomial tree
copies blocks at every level by messages, and each block once when staged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

import numpy as np

from turnbuckle.foundation.arrays import Float, Int
from turnbuckle.mpi.collectives.collectives import buffers
from turnbuckle.mpi.replay.messages import Rounds

Staging = Literal["each message", "once a call"]


class Staged(NamedTuple):
    """Bytes that calls copy; arrays of shape (calls,).

    Attributes
    ----------
    call : activity of each call.
    put_bytes, got_bytes : bytes copied from device memory before the first message, and to device
        memory after the last [B].
    """

    call: Int
    put_bytes: Float
    got_bytes: Float

    def among(self, calls: Int) -> Staged:
        """Return the entries of the given calls."""
        mask = np.isin(self.call, calls)
        return Staged(self.call[mask], self.put_bytes[mask], self.got_bytes[mask])


def staged(rounds: Iterable[Rounds]) -> Staged:
    """Return the bytes that each call of a collective copies from and to device memory if its
    buffers are staged once per call.

    Each call has an entry, also one that copies nothing.  The entries follow `rounds`: instances in
    order, and within each its members by rank.  Bytes are blocks
    (`turnbuckle.mpi.collectives.collectives.buffers`) times `Rounds.block_bytes`.  Where members of
    a recorded collective may have blocks of several sizes (gatherv), `Rounds.block_bytes` is their
    mean.

    Here rank 0 broadcasts 100 B to rank 1; their calls are activities 7 and 8.

    >>> group = Rounds("bcast", np.array([100.0]), np.array([[7, 8]]), 0)
    >>> [column.tolist() for column in staged([group])]
    [[7, 8], [100.0, 0.0], [0.0, 100.0]]
    """
    call, put, got = [np.zeros(0, np.int64)], [np.zeros(0)], [np.zeros(0)]
    for group in rounds:
        members = group.activity.shape[1]
        before, after = buffers(group.operation, members, group.root if group.root < members else 0)
        call.append(group.activity.reshape(-1))
        put.append(np.outer(group.block_bytes, before).reshape(-1))
        got.append(np.outer(group.block_bytes, after).reshape(-1))
    return Staged(np.concatenate(call), np.concatenate(put), np.concatenate(got))
