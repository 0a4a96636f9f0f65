"""Programs for the engine, from lists of operations and of messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from turnbuckle.replay.contention.contention import Leaves, Op, Program

Lists = Sequence[Sequence[tuple[int, int]]]
Messages = Sequence[tuple[int, int, float, int]]


def program(
    lists: Lists,
    messages: Messages = (),
    work: Any = (),
    host: Any = None,
    uses: Sequence[tuple[int, float]] = (),
    **more: Any,
) -> Program:
    """A program from lists: operations of each process; source, target, size and way to leave of
    each message; uses of resources.
    """
    flat = [pair for one in lists for pair in one]
    source, target, size, leaves = zip(*messages, strict=True) if messages else ((), (), (), ())
    resource, seconds = zip(*uses, strict=True) if uses else ((), ())
    whole = {
        "arg": [a for _, a in flat],
        "source": source,
        "target": target,
        "resource": resource,
        "capacity": more.pop("capacity", ()),
    }
    whole["host"] = range(len(lists)) if host is None else host
    columns = {name: np.array(values, dtype=np.int64) for name, values in whole.items()}
    columns |= {
        name: np.array(values, dtype=np.uint8)
        for name, values in (("code", [op for op, _ in flat]), ("leaves", leaves))
    }
    floats = {"work_seconds": work, "use_seconds": seconds, "size_bytes": size}
    columns |= {name: np.array(values, dtype=float) for name, values in floats.items()}
    return Program(first=np.cumsum([0, *map(len, lists)]), **columns, **more)


def one_message(start: int, end: int, size: float, leaves: Leaves = Leaves.EAGER) -> Program:
    """A process at one place that sends a message, and one at another that waits for it."""
    return program([[(Op.SEND, 0)], [(Op.AWAIT, 0)]], [(0, 1, size, leaves)], host=[start, end])
