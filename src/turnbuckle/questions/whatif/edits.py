"""Edits of a program, made on its event graph: each gives a run with other lags, fewer or further
edges, projected like any other.

==============  ==========================================================================================
edit            what it makes of the recorded run
==============  ==========================================================================================
pin             copies of pageable memory take what the source's price of pinned memory is to that of pageable memory
own stream      copies to the device do not wait for other work of their stream, nor such work for copies to the host
batch           copies of one direction that follow each other, and that nothing needs before the last, are one at its place
prefetch        copies to the device are called a step ahead, wait for their buffer alone, and no call waits for them
prefetch pages  kernels do not stand still for pages of managed memory, and at best read their bytes from the device's memory
advise          the same for pages that come again behind one that left for the host, and at best their bytes over the link
fuse            kernels that follow each other are launched by the first call, and spare at best their start
graph           launches take half of what they took; at best nothing, and only the device leads from one kernel to the next
wait NAME       calls of this name are not made, whether they wait for the device or not
later NAME      what they wait for is waited for at the next call that waits, copies to the device or sends a message
beside NAME     the host work of a range is over one turn later than recorded, and nothing else waits for it
device NAME     the host work of a range takes a stated ratio of its time, and changes on other machines as kernels do
pool            calls that allocate and free take from nothing to what the fastest tenth of them took, and wait for nothing
==============  ==========================================================================================

What an edit rests on has two ends, `least` and `most`: the graph does not show whether the host or
a kernel reads what an edge waited for, so that edits which take edges away save between nothing and
all of it.  Calls that are not made take at best their loop along. Calls of the start-up are left
alone: they make the context, once.
"""

from __future__ import annotations

from collections.abc import Sequence

from turnbuckle.projection.order import Prepared
from turnbuckle.questions.whatif.copies import (
    advise,
    batch,
    own_stream,
    pin,
    prefetch,
    prefetch_pages,
)
from turnbuckle.questions.whatif.launches import fuse, graph, pool
from turnbuckle.questions.whatif.offered import Edit, Seen
from turnbuckle.questions.whatif.phases import beside
from turnbuckle.questions.whatif.waits import waits


def edits(seen: Seen) -> list[Edit]:
    """Return the edits that a run offers, in the order in which several are made."""
    of_copies = [
        pin(seen),
        own_stream(seen),
        batch(seen),
        prefetch(seen),
        prefetch_pages(seen),
        advise(seen),
    ]
    of_calls = [*waits(seen), pool(seen), graph(seen), fuse(seen), *beside(seen)]
    return [edit for edit in (*of_copies, *of_calls) if edit is not None]


def combined(chosen: Sequence[Edit], ready: Prepared, *, most: bool) -> Prepared:
    """Return the run with several edits, by the end of most or of least gain."""
    for edit in chosen:
        make = edit.most if most else edit.least
        ready = ready if make is None else make(ready)
    return ready
