"""What a schedule amounts to, before anything is priced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from turnbuckle.foundation.findings import Finding


@dataclass(frozen=True)
class Figures:
    """Counts of a schedule.

    Attributes
    ----------
    format : ``simgrid-ti`` or ``goal``.
    version : of the format as the file tells it, or an empty text.
    ranks : how many.
    operations : calls, or operations of a graph.
    sends, sent_bytes, receives : point to point.
    collectives : calls by name, in capitals.
    matched, unmatched : messages with both sides, sends and receives that lack the other.
    compute_flops : counted work [flop]; None where the format has none.
    compute_seconds : work given as time [s].
    findings : flaws met while reading.
    """

    format: str
    version: str
    ranks: int
    operations: int
    sends: int
    sent_bytes: int
    receives: int
    collectives: Mapping[str, int]
    matched: int
    unmatched: int
    compute_flops: float | None
    compute_seconds: float
    findings: tuple[Finding, ...] = field(default=())

    def mpi(self) -> dict[str, Any]:
        """The block ``mpi``, as `turnbuckle.profile.messages.traffic` has it for recordings."""
        return {
            "count": self.operations,
            "calls": self.operations,
            "ranks": self.ranks,
            "sends": {"count": self.sends, "bytes": self.sent_bytes},
            "receives": {"count": self.receives},
            "collectives": dict(self.collectives),
            "messages": {"matched": self.matched, "unmatched": self.unmatched},
        }
