"""What changes to a program save at most where its recorded order cannot be trusted: the time that
their calls and copies take.

No shorter activity shortens a run by more than it is shorter, whatever the order is.  How much of
that is hidden behind other work only an order tells, so that each saving begins at nothing.  Two
things only an order tells are left out: edits that change the order itself, and other machines,
where a wait is as long as what it waits for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from turnbuckle.foundation.schema import table_rows
from turnbuckle.machine import Machine
from turnbuckle.profile.pieces import Pieces
from turnbuckle.projection.model import Model
from turnbuckle.questions.whatif.copies import pinned_ratio

#: On what both ends of such a saving rest.
RESTS: Final = (
    "from nothing, since no order tells what hides it, to all that these calls and copies take, "
    "waiting included; not the loop around them"
)


@dataclass(frozen=True)
class Part:
    """Calls and copies whose time an edit takes away, or shortens.

    Attributes
    ----------
    name, title, needs, remedy : as of the edit.
    count, seconds : how many there are, and what they take together as recorded [s].
    most : what the edit saves at most [s].
    """

    name: str
    title: str
    needs: str
    remedy: str
    count: int
    seconds: float
    most: float


def parts(run: Pieces, source: Machine, model: Model) -> list[Part]:
    """Return the edits that need no order, those that may save most first; those with nothing to
    change are left out.
    """
    ratio = pinned_ratio(run, source, model)
    gone = np.zeros(len(run))
    left = {
        "pin": (ratio < 1.0, ratio),
        "graph": (run.kind == "launch", gone),
        "pool": (run.call_class == "alloc", gone),
        "wait": ((run.kind == "sync") & np.isin(run.call_class, ("sync", "event")), gone),
    }
    texts = {row["edit"]: row for row in table_rows("questions/whatif/edits.csv")}
    out = []
    for name, (rows, share) in left.items():
        took, text = run.seconds[rows], texts[name]
        count, most = round(float(run.count[rows].sum())), float((took * (1.0 - share[rows])).sum())
        words = text["title"], text["needs"], text["remedy"]
        out.append(Part(name, *words, count, float(took.sum()), most))
    return sorted((part for part in out if part.most > 0), key=lambda part: -part.most)
