"""What has been held against real GPUs, as it ships: rows that `validation/real_gpus.py` makes of
the card and of tables that a user need not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from turnbuckle.foundation.schema import table_rows

#: Place of the rows.
SHIPPED: Final = "questions/validate/measured/real_gpus.csv"


@dataclass(frozen=True)
class Judged:
    """One kind of measurement, all by others.

    Attributes
    ----------
    short, what : its name in one line, and in a table.
    points : how many values.
    off, nothing, simplest : medians of the relative errors, of Turnbuckle, of no change, and of the
        simplest model; empty where there is none.
    model : the simplest model in words.
    held : how many of the ranges hold, as ``182 of 190``.
    fitted : which of its constants were fitted on these points.
    command : what makes the numbers.
    """

    short: str
    what: str
    points: str
    off: str
    nothing: str
    simplest: str
    model: str
    held: str
    fitted: str
    command: str

    def cells(self) -> tuple[str, ...]:
        """Return the cells of its row."""
        simplest = f"{self.model}: {self.simplest}" if self.simplest else ""
        return (
            self.what,
            self.points,
            self.off,
            self.nothing,
            simplest,
            self.held,
            self.fitted,
            f"`{self.command}`",
        )


@cache
def shipped_rows() -> tuple[Judged, ...]:
    """Return the rows that ship with this version."""
    return tuple(Judged(**row) for row in table_rows(SHIPPED))


def least(text: str) -> float:
    """Return the first number of a share in words.

    >>> least("10 % to 28 %")
    10.0
    """
    return float(text.split()[0])


def line(rows: Sequence[Judged]) -> str:
    """Return two sentences: in how many kinds the median error is below that of no change, or of
    the simplest model where no change says nothing, from the least to the most; and in which it is
    not, with both errors.
    """
    beside = {row.short: row.nothing or row.simplest for row in rows}
    nearer = sorted(
        (row for row in rows if least(row.off) < least(beside[row.short])),
        key=lambda row: least(row.off),
    )
    rest = [f"{row.short} {row.off} ({beside[row.short]})" for row in rows if row not in nearer]
    ends = " to ".join(
        f"{row.off} ({row.short}, {row.points} points; {beside[row.short]})"
        for row in (nearer[0], nearer[-1])
    )
    return (
        f"Held against real GPUs in {len(rows)} kinds of measurement, all by others, predictions "
        f'are nearer than "nothing changes", or a data sheet\'s peak, in {len(nearer)}: medians '
        f"are off by {ends}. Not nearer: {', '.join(rest) or 'none'}."
    )
