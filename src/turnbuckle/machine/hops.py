"""One-way latencies of well-known links and of the catalogue's distances.

The table is ``machine/hops.csv``.  Where it names a machine, the number is that machine's
``slack.link``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from turnbuckle.foundation.schema import table_rows
from turnbuckle.machine.catalog import load

#: Light in glass takes 5 ns for a metre.
FIBRE_SECONDS_PER_METRE = 5e-9


@dataclass(frozen=True)
class Hop:
    """Class of link.

    Attributes
    ----------
    name : name of the class: package, C2C, PCIe, switch, rack, row, data centre.
    one_way : one-way latency [s].
    what : what is between the two ends, in words.
    source : source of the number.
    """

    name: str
    one_way: float
    what: str
    source: str


@cache
def hops() -> tuple[Hop, ...]:
    """Return all classes, nearest first."""
    classes = [
        Hop(r["hop"], _one_way(r["one_way_s"], r["source"]), r["what"], r["source"])
        for r in table_rows("machine/hops.csv")
    ]
    return tuple(sorted(classes, key=lambda h: h.one_way))


def _one_way(written: str, source: str) -> float:
    if written:
        return float(written)
    (change,) = (
        c for c in load(source.removeprefix("machine ")).changes if c.parameter == "slack.link"
    )
    assert change.set is not None
    return change.set.value


def fibre_metres(one_way: float) -> float:
    """Return the length of glass fibre [m] that delays a signal by `one_way` [s].

    >>> fibre_metres(100e-6)
    20000.0
    """
    return one_way / FIBRE_SECONDS_PER_METRE
