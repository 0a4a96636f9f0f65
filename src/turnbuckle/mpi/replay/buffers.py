"""Location of message buffers: as recorded, or by rules for recordings that do not say; the first
rule that fits decides.

=====================  =======================================================
rule                   holds for
=====================  =======================================================
``device``, ``host``   every message
``device if CLAUSE``   messages for which the clause holds, as ``host if CLAUSE``
``recorded``           each end of a message whose place the recording states
=====================  =======================================================

A clause is ``size >= 64 KiB`` (or ``<=``, ``>``, ``<``), ``rank 0-3`` (the sender's), or ``call
isend`` (as recorded, without ``MPI_``). Semicolons separate the rules; ``device`` or ``host``
without a clause comes last: ``recorded; host if size < 4 KiB; device``.  Where no rule fits, the
buffer is in device memory.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.foundation.errors import TurnbuckleError, clipped, did_you_mean, error_of
from turnbuckle.foundation.units import parse
from turnbuckle.mpi.replay.messages import UNIFIED, UNKNOWN, Messages, Rounds, Traffic
from turnbuckle.mpi.replay.operation_graph import OperationGraph
from turnbuckle.profile.messages.mpi_calls import ON_DEVICE

#: The rules that a setup has if none are given.
RECORDED: Final = "recorded"
_RULE: Final = re.compile(r"(device|host)(?: if (size|rank|call) ?(.+))?")
_COMPARED: Final[dict[str, Callable[[Any, Any], Any]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


def on_device(rules: str, traffic: Traffic, messages: Messages, call: Int) -> Bool:
    """Return which ends of messages, the sender's and the receiver's, have their buffer in device
    memory, shape (messages, 2).

    Parameters
    ----------
    rules : text of the rules, as the module describes them.
    messages, call : as `turnbuckle.mpi.replay.program.all_messages` gives them.

    Raises A099, a text that is no rule, or a rule about a call that the recording does not name.
    """
    device = np.ones((len(call), 2), dtype=np.bool_)
    undecided = device.copy()
    texts = rules.split(";")
    for n, text in enumerate(texts):
        if text.strip() == RECORDED:
            if len(messages.memory):
                matches = undecided & (messages.memory > UNKNOWN)
                device[matches] = np.isin(messages.memory[matches], ON_DEVICE)
                undecided &= ~matches
            continue
        rule = _RULE.fullmatch(" ".join(text.split()))
        if rule is None:
            raise _refused(text)
        place, about, clause = rule.groups()
        if about is None and n < len(texts) - 1:
            raise _refused(f"{texts[n + 1]} behind {place}, which holds for every message")
        fits = (
            np.ones(len(call), dtype=np.bool_)
            if about is None
            else _fits(about, clause, traffic, messages, call)
        )
        matches = undecided & fits[:, None]
        device[matches] = place == "device"
        undecided &= ~matches
    return device


def assumed(rules: str, traffic: Traffic | OperationGraph) -> bool:
    """Return whether all buffers are in device memory for want of anything else: nothing is
    recorded, and no rule is given.
    """
    return rules == "device" or (rules == RECORDED and not _stated(traffic))


def _stated(traffic: Traffic | OperationGraph) -> bool:
    return bool(len(traffic.messages.memory)) or any(
        len(group.memory) for group in _rounds(traffic)
    )


def _rounds(traffic: Traffic | OperationGraph) -> tuple[Rounds, ...]:
    return traffic.rounds if isinstance(traffic, Traffic) else ()


@dataclass(frozen=True)
class Stated:
    """Buffers that a recording places: numbers of sends, receives and members of collectives."""

    device: int
    unified: int
    host: int
    unknown: int

    @property
    def sentence(self) -> str:
        """Return the recorded places of buffers, in words."""
        counts = [
            (self.device, "in device memory"),
            (self.unified, "in unified memory"),
            (self.host, "in host memory"),
        ]
        parts = [f"{count:,} {where}" for count, where in counts if count]
        return (
            "buffers as recorded: "
            + ", ".join(parts)
            + (f"; of {self.unknown:,} not known" if self.unknown else "")
        )


def stated(rules: str, traffic: Traffic | OperationGraph) -> Stated | None:
    """Return the buffers that the recording places, of messages with bytes; None where none is, or
    where rules come before them.
    """
    if rules.split(";")[0].strip() != RECORDED or not _stated(traffic):
        return None
    ends = [
        traffic.messages.memory[traffic.messages.size_bytes > 0]
        if len(traffic.messages.memory)
        else traffic.messages.memory
    ]
    ends += [group.memory[group.block_bytes > 0] for group in _rounds(traffic) if len(group.memory)]
    codes = np.concatenate([part.reshape(-1) for part in ends])
    device, unified = (int(np.isin(codes, where).sum()) for where in (ON_DEVICE, UNIFIED))
    unknown = int((codes <= UNKNOWN).sum())
    return Stated(device, unified, len(codes) - device - unified - unknown, unknown)


def _fits(about: str, clause: str, traffic: Traffic, messages: Messages, call: Int) -> Bool:
    """Return a mask of the messages for which a clause holds."""
    if about == "size":
        sign = next((s for s in _COMPARED if clause.startswith(s)), None)
        if sign is None:
            raise _refused(f"size {clause}")
        return np.asarray(
            _COMPARED[sign](messages.size_bytes, parse(clause.removeprefix(sign).strip(), "B"))
        )
    if about == "rank":
        return threads_of(clause, traffic)[traffic.rank[call]]
    name = clause.lower().removeprefix("mpi_")
    if name not in traffic.calls:
        raise error_of(
            "A099.call",
            found=clipped(clause, 40),
            fix=did_you_mean(name, traffic.calls) or None,
            calls=", ".join(traffic.calls[:12]) or "not named",
        )
    return np.asarray(traffic.call[call] == traffic.calls.index(name))


def threads_of(clause: str, traffic: Traffic) -> Bool:
    """Return a mask of the threads of ranks that a clause (``3`` or ``0-3``) names, shape
    (threads,).  Raises A099.
    """
    ends = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", clause)
    if ends is None or int(ends[2] or ends[1]) < int(ends[1]):
        raise _refused(f"rank {clause}")
    if int(ends[1]) >= traffic.ranks:
        raise _refused(f"rank {clause} of {traffic.ranks:,}, counted from 0")
    rank = traffic.rank_of if len(traffic.rank_of) else np.arange(len(traffic.tail_seconds))
    return np.asarray((rank >= int(ends[1])) & (rank <= int(ends[2] or ends[1])))


def _refused(evidence: str) -> TurnbuckleError:
    return error_of("A099.rule", found=clipped(evidence.strip(), 60))
