"""The network that a recording shows: latency and bandwidth of its messages, fitted to those whose receiver was waiting.

    T(n) = 2 o + L + n G                                   [s], n in bytes

from the begin of the send to the return of the call that completes the receive.  A call that waits for several messages shows the time of
the last one alone.  A rank that waits for a core, or a library that looks for messages late, only ever adds to a message's time: of the
messages of one size the fastest in ten counts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import polars as pl

from turnbuckle.foundation.arrays import Int
from turnbuckle.profile.transfers import LinkFit, fit_class

#: Share of the messages of one size that are faster than the one that counts.
_FASTEST: Final = 0.1


def observed_network(messages: pl.DataFrame, starts: Int, ends: Int) -> LinkFit | None:
    """Fit the messages of a recording; None where none shows how long it was under way.

    Parameters
    ----------
    messages : as in `turnbuckle.profile.messages.mpi_calls.Exchanges`.
    starts, ends : when each activity begins and ends [ns].
    """
    there = messages.filter(pl.col("activity") >= 0, pl.col("done_r") >= 0)
    call, send = there["done_r"].to_numpy(), there["activity"].to_numpy()
    shown = (
        pl.DataFrame({"call": call, "sent": starts[send], "begin": starts[call], "end": ends[call]})
        .with_columns(size=pl.min_horizontal(there["size_bytes"], there["size_bytes_r"]).cast(pl.Float64))
        .sort("sent", maintain_order=True)
        .unique("call", keep="last", maintain_order=True)
        .filter(pl.col("begin") <= pl.col("sent"), pl.col("sent") < pl.col("end"))
        .drop_nulls("size")
        .group_by("size")
        .agg(seconds=(pl.col("end") - pl.col("sent")).quantile(_FASTEST, "nearest") * 1e-9, count=pl.len())
        .sort("size")
    )
    if not shown.height:
        return None
    fit = fit_class("message", "host", shown["size"].to_numpy(), shown["seconds"].to_numpy())
    return replace(fit, count=int(shown["count"].sum()))
