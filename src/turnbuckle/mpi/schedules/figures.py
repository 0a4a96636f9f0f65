"""Counts of a schedule, before anything is priced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from turnbuckle.foundation.findings import Finding


@dataclass(frozen=True)
class Figures:
    """Counts of a schedule."""

    format: str  #: ``simgrid-ti`` or ``goal``
    version: str  #: version of the format, or an empty text where the file has none
    ranks: int
    operations: int  #: number of calls, or of operations of a graph
    #: sends, sent_bytes, receives: point-to-point operations and bytes [B]
    sends: int
    sent_bytes: int
    receives: int
    collectives: Mapping[str, int]  #: number of calls by name, in capitals
    #: matched, unmatched: number of messages with both sides, and of sends and receives without the
    #: other side
    matched: int
    unmatched: int
    compute_flops: float | None  #: work counted in flops [flop]; None where the format has none
    compute_seconds: float  #: work given as time [s]
    findings: tuple[Finding, ...] = field(default=())

    def mpi(self) -> dict[str, Any]:
        """Return the block ``mpi`` in the form that `turnbuckle.profile.messages.traffic` gives for
        recordings.
        """
        return {
            "count": self.operations,
            "calls": self.operations,
            "ranks": self.ranks,
            "sends": {"count": self.sends, "bytes": self.sent_bytes},
            "receives": {"count": self.receives},
            "collectives": dict(self.collectives),
            "messages": {"matched": self.matched, "unmatched": self.unmatched},
        }
