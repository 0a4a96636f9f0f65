"""Rows on devices: their number, the number of those that name their call, and the share of the
device's time in these.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from turnbuckle.trace.check import MIGRATIONS, by_table
from turnbuckle.trace.trace import Trace


def device_rows(trace: Trace) -> dict[str, Any] | None:
    """Count the device rows for `turnbuckle.profile.summary.coverage.coverage`."""
    count = with_call = time = called = 0
    for name, pairs in by_table(trace.launch_pairs).items():
        frame = trace.table(name)
        if not frame.height:
            continue
        length = (frame["end_ns"] - frame["start_ns"]).to_numpy()
        named = np.zeros(frame.height, np.bool_)
        named[pairs["row"].to_numpy()] = True
        counted = (
            ~np.isin(frame["direction"].to_numpy(), MIGRATIONS)
            if name == "copies"
            else np.ones(frame.height, np.bool_)
        )
        count, with_call = count + int(counted.sum()), with_call + int((named & counted).sum())
        time, called = (
            time + int(length[counted].sum()),
            called + int(length[named & counted].sum()),
        )
    return (
        {"count": count, "with_call": with_call, "time_share": called / time if time else None}
        if count
        else None
    )
