"""What the run time of a contended replay is made of: one chain of what waited for what, back from the last end to the start.

Every picosecond of the run belongs to one link of the chain, so that the parts add up to the run time.  A process that waited for a message
leads to whoever was late: its sender, or for a rendezvous its receiver.  One that waited for a resource stays where it is; who held the
resource is not followed.  With contention this chain is not what shortening would help (decision D18): it says where the time went.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import numpy as np
from numpy.typing import NDArray

from turnbuckle.replay.contention import Contended, Leaves, Op, Program

Int = NDArray[np.int64]


@dataclass(frozen=True)
class Chain:
    """Parts of a run time [s]; they add up to it.

    Attributes
    ----------
    compute : work of processes.
    copies : between host and device, with their latency and the wait for a copy engine.
    network : messages under way between processes.
    delays : between the time a message may leave and the time it does: handshakes, pinned memory.
    overheads : processor time of sending and receiving.
    resources : exclusive resources, used and waited for.
    """

    compute: float
    copies: float
    network: float
    delays: float
    overheads: float
    resources: float

    @property
    def seconds(self) -> float:
        """All of it [s]: the run time."""
        return float(sum(getattr(self, f.name) for f in fields(self)))


_KINDS: Final = tuple(f.name for f in fields(Chain))
_AWAIT, _SENT, _EDGE, _READY = int(Op.AWAIT), int(Op.SENT), int(Leaves.EDGE), int(Leaves.READY)
_KIND_OF: Final = {int(Op.WORK): "compute", int(Op.USE): "resources", int(Op.TAKE): "resources", int(Op.GIVE): "copies"}


def chain(program: Program, done: Contended) -> Chain:
    """The chain behind the last end.

    Parameters
    ----------
    done : of this program, traced.
    """
    if not len(done.done):
        return Chain(*np.zeros(len(_KINDS)).tolist())
    return Chain(**_Walk(program, done).back())


class _Walk:
    def __init__(self, program: Program, done: Contended) -> None:
        self.program, self.done = program, done
        code = np.asarray(program.code)
        ops, messages = np.arange(len(code)), len(np.asarray(program.source))
        arg = np.asarray(program.arg).astype(np.int64)
        self.sent = np.full(messages, -1)
        self.posted = np.full(messages, -1)
        for op, where in ((Op.SEND, self.sent), (Op.POST, self.posted)):
            of = code == op
            where[arg[of]] = ops[of]
        self.first = np.zeros(len(code), dtype=np.bool_)
        begins = np.asarray(program.first).astype(np.int64)
        self.first[begins[:-1][begins[:-1] < begins[1:]]] = True
        # what is between taking a resource and giving it back is part of a copy
        held = np.cumsum((code == Op.TAKE).astype(np.int64) - (code == Op.GIVE))
        self.copying = held > 0

    def back(self) -> dict[str, float]:
        """Seconds of each kind."""
        program, done = self.program, self.done
        last = int(np.argmax(done.ends))
        at = int(program.first[last + 1]) - 1
        out = dict.fromkeys(_KINDS, 0.0)
        if at < int(program.first[last]):
            return out
        now = float(done.done[at])
        # what a process did not do as its last operation it ended with
        out["compute"] += float(done.ends[last]) - now
        code, arg = np.asarray(program.code), np.asarray(program.arg)
        while at >= 0:
            before = 0.0 if self.first[at] else float(done.done[at - 1])
            op, m = int(code[at]), int(arg[at])
            following = -1 if self.first[at] else at - 1
            if (op == _AWAIT or (op == _SENT and now > before)) and float(done.arrived[m]) > before:
                now, following = self._message(m, now, out)
            else:
                out[self._kind(at, op)] += now - before
                now = before
            at = following
        return out

    def _kind(self, at: int, op: int) -> str:
        return "copies" if self.copying[at] else _KIND_OF.get(op, "overheads")

    def _message(self, m: int, now: float, out: dict[str, float]) -> tuple[float, int]:
        """Back over a message that was waited for: to whoever made it leave as late as it did."""
        program, done = self.program, self.done
        arrived = min(float(done.arrived[m]), now)
        out["overheads"] += now - arrived
        sender = int(self.sent[m])
        began, sent = float(done.began[m]), float(done.done[sender])
        own = program.source[m] == program.target[m]
        if program.leaves[m] == _EDGE:
            out["delays"] += arrived - sent
            return sent, sender
        out["copies" if own else "network"] += arrived - began
        receiver = int(self.posted[m])
        late, who = sent, sender
        if program.leaves[m] == _READY and receiver >= 0 and float(done.done[receiver]) > sent:
            late, who = float(done.done[receiver]), receiver
        out["copies" if own else "delays"] += began - late
        return late, who
