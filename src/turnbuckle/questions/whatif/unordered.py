"""What changes to a program save at most where its recorded order cannot be trusted: the time that their calls and copies take.

No change of durations shortens a run by more than the sum of what it takes away, whatever the order is.  How much of that is hidden behind
other work only an order tells, so that each saving begins at nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from turnbuckle.foundation.arrays import Bool, Float
from turnbuckle.foundation.schema import table_rows
from turnbuckle.machine import Machine, Pair
from turnbuckle.profile.pieces import Pieces
from turnbuckle.projection.model import Model
from turnbuckle.projection.project import priced
from turnbuckle.questions.whatif.copies import HOST_COPIES, pinned_ratio

if TYPE_CHECKING:
    from turnbuckle.projection.order import Prepared

#: On what both ends of such a saving rest.
RESTS: Final = "from nothing, since no order tells what hides it, to all that these take, since no order can make more of it"


@dataclass(frozen=True)
class Part:
    """Calls and copies that an edit changes, and the share of their time that it may take away.

    Attributes
    ----------
    name, title, needs : as of the edit.
    rows : per piece, whether it is changed.
    share : per piece, the share of its time that goes at most.
    """

    name: str
    title: str
    needs: str
    rows: Bool
    share: Float


def parts(run: Pieces, source: Machine, model: Model) -> list[Part]:
    """Return what the edits that need no order may take away, those with nothing to change left out."""
    whole = np.ones(len(run))
    copies, to_device = np.isin(run.kind, HOST_COPIES), run.kind == "copy_h2d"
    ratio = pinned_ratio(run, source, model)
    changed = [
        ("pin", ratio < 1.0, 1.0 - ratio),
        ("own stream", copies, whole),
        ("prefetch", to_device & (run.kind == "kernel").any(), whole),
        ("graph", run.kind == "launch", whole),
        ("pool", run.call_class == "alloc", whole),
        ("wait", (run.kind == "sync") & np.isin(run.call_class, ("sync", "event")), whole),
    ]
    words = {row["edit"]: row for row in table_rows("questions/whatif/edits.csv")}
    return [
        Part(name, words[name]["title"], words[name]["needs"], rows, share)
        for name, rows, share in changed
        if (rows & (run.seconds > 0)).any()
    ]


def most_saved(part: Part, ready: Prepared, source: Machine, targets: Sequence[Machine], model: Model) -> list[float]:
    """Return what an edit saves at most on each machine [s], the recorded one first."""
    lengths = [ready.run.seconds, *(np.ravel(priced(ready, Pair(source, m), model).undelayed) for m in targets[1:])]
    return [float(np.sum((part.share * seconds)[part.rows])) for seconds in lengths]
