"""Distance between host and device, in two ways.

In mode *api* every host call that crosses to the device returns `s` later, as Shorts and Grant
(SC24-W) insert slack.  In mode *link* the fabric is longer: asynchronous calls stay asynchronous,
and each operation pays `s` for every one-way trip that it waits for.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Bool, Float

#: One-way trips over the link that an operation waits for: a command travels to the device, at
#: least once (``link.command_trips``); a device that reads host memory asks and is answered; what
#: it writes travels with the news that it is done; a page fault is reported, and what is done about
#: it is a command.
COMMAND_TRIPS: Final = 1
READ_TRIPS: Final = 2
RETURN_TRIPS: Final = 1
REPORT_TRIPS: Final = 1


def slack_seconds(crosses: Bool, slack: Float | float) -> Float:
    """Return the delay of each call [s]: `slack` where it crosses the host-device boundary, else 0.

    >>> slack_seconds(np.array([True, False]), 1e-6).tolist()
    [1e-06, 0.0]
    """
    return np.where(crosses, slack, 0.0)


def trip_seconds(trips: Float | float, one_way: Float | float) -> Float:
    """Return the time that a link with `one_way` more latency adds to operations, by the number of
    their one-way trips [s].

    >>> float(trip_seconds(READ_TRIPS, 1e-6))
    2e-06
    """
    return np.asarray(trips * np.asarray(one_way, dtype=np.float64))
