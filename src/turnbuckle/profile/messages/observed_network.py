"""The network that a recording shows: latency and bandwidth of its messages, fitted to those whose
receiver was waiting; and the bandwidth that its collectives between GPUs reach.

    T(n) = 2 o + L + n G                                   [s], n in bytes

from the begin of the send to the return of the call that completes the receive.  A call that waits
for several messages shows the time of the last one alone.  A rank that waits for a core, or a
library that looks for messages late, only ever adds to a message's time: of the messages of one
size the fastest in ten counts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import polars as pl

from turnbuckle.foundation.arrays import Float, Int
from turnbuckle.profile.transfers import LinkFit, fit_class

#: Share of the messages of one size that are faster than the one that counts.
_FASTEST: Final = 0.1
#: Share of a collective's time that its bytes must take at least, else its size told nothing.
_LEAST_BYTES: Final = 0.5


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
        .with_columns(
            size=pl.min_horizontal(there["size_bytes"], there["size_bytes_r"]).cast(pl.Float64)
        )
        .sort("sent", maintain_order=True)
        .unique("call", keep="last", maintain_order=True)
        .filter(pl.col("begin") <= pl.col("sent"), pl.col("sent") < pl.col("end"))
        .drop_nulls("size")
        .group_by("size")
        .agg(
            seconds=(pl.col("end") - pl.col("sent")).quantile(_FASTEST, "nearest") * 1e-9,
            count=pl.len(),
        )
        .sort("size")
    )
    if not shown.height:
        return None
    fit = fit_class("message", "host", shown["size"].to_numpy(), shown["seconds"].to_numpy())
    return replace(fit, count=int(shown["count"].sum()))


def observed_bandwidth(
    sized: pl.DataFrame, seconds: Float, fixed: Float, weight: Float
) -> tuple[float, int] | None:
    """Return the bandwidth that collective kernels reach over the narrowest wire [B/s], and how
    many kernels show it; None for none.

    Parameters
    ----------
    sized : the kernels, as `turnbuckle.profile.messages.collective_kernels` has them.
    seconds : how long each ran after the last of its members had begun, as far as that is recorded
        [s].
    fixed, weight : what each would take without bytes [s], and how often the narrowest wire carries
        each of its bytes.

    A kernel that waits for a late member only ever lasts longer: of kernels alike the fastest in
    ten counts.  Long ones count most.
    """
    shown = (
        sized.select("operation", "size_bytes", "ranks", "stride", "algorithm", "protocol")
        .with_columns(
            seconds=pl.Series(seconds),
            left=pl.Series(seconds - fixed),
            load=pl.Series(weight) * pl.col("size_bytes"),
        )
        .group_by(
            "operation",
            "size_bytes",
            "ranks",
            "stride",
            "algorithm",
            "protocol",
            maintain_order=True,
        )
        .agg(
            pl.col("left").quantile(_FASTEST, "nearest"),
            pl.col("seconds").quantile(_FASTEST, "nearest"),
            pl.col("load").first(),
            n=pl.len(),
        )
        .filter(pl.col("left") >= pl.col("seconds") * _LEAST_BYTES)
    )
    if not shown.height:
        return None
    return float(shown["load"].sum()) / float(shown["left"].sum()), int(shown["n"].sum())
