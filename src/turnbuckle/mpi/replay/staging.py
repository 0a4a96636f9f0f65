"""Collectives of buffers in device memory that a library stages in host memory once: all in before, all out after, hosts in between.

The other way is to copy every message of the collective, as point-to-point messages are: a block that a rank hands on goes to its GPU
and back, each time.  Which of the two costs less depends on the algorithm: a reduction by Rabenseifner's copies 2 (P - 1) / P of the
vector each way by messages and the whole once; a gather by a binomial tree copies blocks at every level, against each block once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnbuckle.mpi.collectives.collectives import buffers
from turnbuckle.mpi.replay.messages import Rounds

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Staging = Literal["each message", "once a call"]


class Staged(NamedTuple):
    """What calls copy, arrays of shape (calls,).

    Attributes
    ----------
    call : the activity.
    put_bytes, got_bytes : from device memory before its first message, and to device memory after its last [B].
    """

    call: Int
    put_bytes: Float
    got_bytes: Float

    def among(self, calls: Int) -> Staged:
        """Those of some calls."""
        mine = np.isin(self.call, calls)
        return Staged(self.call[mine], self.put_bytes[mine], self.got_bytes[mine])


def staged(rounds: Iterable[Rounds]) -> Staged:
    """What the calls of collectives copy if they are staged once; of calls with blocks of several sizes the mean.

    >>> one = Rounds("bcast", np.array([100.0]), np.array([[7, 8]]), 0)
    >>> [column.tolist() for column in staged([one])]
    [[7, 8], [100.0, 0.0], [0.0, 100.0]]
    """
    call, put, got = [np.zeros(0, np.int64)], [np.zeros(0)], [np.zeros(0)]
    for one in rounds:
        members = one.activity.shape[1]
        before, after = buffers(one.operation, members, one.root if one.root < members else 0)
        call.append(one.activity.reshape(-1))
        put.append(np.outer(one.block_bytes, before).reshape(-1))
        got.append(np.outer(one.block_bytes, after).reshape(-1))
    return Staged(np.concatenate(call), np.concatenate(put), np.concatenate(got))
