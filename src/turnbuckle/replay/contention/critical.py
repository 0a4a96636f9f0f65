"""Parts of the run time of a contended replay: one chain of operations that waited for each other,
from the last end back to the start.

Every picosecond of the run belongs to one link of the chain, so that the parts add up to the run
time.  From a process that waited for a message the chain leads to the late side: its sender, or for
a rendezvous its receiver.  At a process that waited for a resource the chain stays; the holder of
the resource is not followed.  With contention, shortening this chain need not shorten the run
(decision D18).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Float
from turnbuckle.replay.contention.contention import Contended, Leaves, Op, Program


@dataclass(frozen=True)
class Chain:
    """Parts of a run time [s]; they add up to it.

    Attributes
    ----------
    compute : work of processes.
    copies : copies between host and device, with their latency and the wait for a copy engine; on
        nodes without GPUs they count as compute.
    network : messages under way between processes.
    delays : delays between the time at which a message may leave and the time at which it does:
        handshakes, pinning of memory.
    overheads : processor time of sending and receiving.
    resources : use of, and wait for, shared resources: exclusive resources, and the time of a GPU.
    """

    compute: float
    copies: float
    network: float
    delays: float
    overheads: float
    resources: float

    @property
    def seconds(self) -> float:
        """Return the sum of all parts [s], which is the run time."""
        return float(sum(getattr(self, f.name) for f in fields(self)))


_KINDS: Final = tuple(f.name for f in fields(Chain))
_EDGE, _READY = int(Leaves.EDGE), int(Leaves.READY)
_KIND_OF: Final = {Op.WORK: "compute", Op.USE: "resources", Op.TAKE: "resources", Op.GIVE: "copies"}


def chain(program: Program, done: Contended) -> Chain:
    """Return the chain behind the last end.

    Parameters
    ----------
    done : of this program, traced.
    """
    if not len(done.done):
        return Chain(*np.zeros(len(_KINDS)).tolist())
    return Chain(**_Walk(program, done).back())


def in_resources(program: Program, done: Contended, processes: int) -> Float:
    """Return how long each of the first processes uses shared resources or waits for them [s];
    `done` is traced.
    """
    if not len(done.done):
        return np.zeros(processes)
    walk = _Walk(program, done)
    seconds = np.append(
        0.0, np.cumsum(np.where(walk.kind == _KINDS.index("resources"), walk.spent, 0.0))
    )
    return np.asarray(np.diff(seconds[walk.begins[: processes + 1]]))


class _Walk:
    def __init__(self, program: Program, done: Contended) -> None:
        self.program, self.done = program, done
        code, arg = np.asarray(program.code), np.asarray(program.arg)
        self.begins = np.asarray(program.first).astype(np.int64)
        count, messages = len(code), len(np.asarray(program.source))
        self.sent, self.posted = np.full(messages, -1), np.full(messages, -1)
        for op, where in ((Op.SEND, self.sent), (Op.POST, self.posted)):
            of = np.flatnonzero(code == op)
            where[arg[of]] = of
        before = np.append(0.0, done.done[:-1])
        before[self.begins[:-1][self.begins[:-1] < count]] = 0.0
        self.spent = done.done - before
        self.kind = np.array(
            [_KINDS.index(_KIND_OF.get(Op(c), "overheads")) for c in range(len(Op))], dtype=np.uint8
        )[code]
        if len(program.overhead):
            self.kind[(code == Op.WORK) & program.overhead[np.where(code == Op.WORK, arg, 0)]] = (
                _KINDS.index("overheads")
            )
        # what waits for a message that came later leads to another process
        waiting = np.flatnonzero((code == Op.AWAIT) | (code == Op.SENT) & (self.spent > 0))
        about = arg[waiting]
        late = done.arrived[about] > before[waiting]
        waiting, about = waiting[late], about[late]
        # nobody makes room for a copy, nor for work that is a flow over the time of a GPU: these
        # stay with their process
        by_resource = (self.posted[about] < 0) & (np.asarray(program.leaves)[about] != _EDGE)
        self.kind[waiting[by_resource]] = _KINDS.index("resources")
        self.kind[program.copying] = _KINDS.index("copies")
        self.wait = np.full(count, -1)
        self.wait[waiting[~by_resource]] = waiting[~by_resource]
        np.maximum.accumulate(self.wait, out=self.wait)

    def back(self) -> dict[str, float]:
        """Return the seconds of each kind."""
        program, done = self.program, self.done
        last = int(np.argmax(done.ends))
        operation = int(self.begins[last + 1]) - 1
        out = dict.fromkeys(_KINDS, 0.0)
        if operation < self.begins[last]:
            return out
        # what a process did not do as its last operation it ended with
        out["compute"] += float(done.ends[last] - done.done[operation])
        arg = np.asarray(program.arg)
        # a search in a list of Python costs a tenth of one in an array
        begins = self.begins.tolist()
        passed = np.zeros(len(self.wait) + 1, dtype=np.int32)
        while True:
            begin, wait = begins[bisect_right(begins, operation) - 1], int(self.wait[operation])
            passed[max(begin, wait + 1)] += 1
            passed[operation + 1] -= 1
            if wait < begin:
                break
            operation = self._message(int(arg[wait]), float(done.done[wait]), out)
        times = np.cumsum(passed[:-1], dtype=np.int32)
        for name, seconds in zip(
            _KINDS,
            np.bincount(self.kind, times * self.spent, minlength=len(_KINDS)).tolist(),
            strict=True,
        ):
            out[name] += seconds
        return out

    def _message(self, m: int, now: float, out: dict[str, float]) -> int:
        """Step back over an awaited message to the last operation that delayed its departure."""
        program, done = self.program, self.done
        arrived = min(float(done.arrived[m]), now)
        out["overheads"] += now - arrived
        sender, receiver = int(self.sent[m]), int(self.posted[m])
        began, sent = float(done.began[m]), float(done.done[sender])
        if program.leaves[m] == _EDGE:
            out["delays"] += arrived - sent
            return sender
        out["network"] += arrived - began
        late, who = sent, sender
        if program.leaves[m] == _READY and receiver >= 0:
            posted = float(done.done[receiver])
            delay = float(program.delay_seconds[m]) if len(program.delay_seconds) else 0.0
            # the sender pins, then asks; the answer takes as long as the question, and with it the
            # message begins to leave
            if posted > (sent + delay + began) / 2:
                late, who = posted, receiver
        out["delays"] += began - late
        return who
