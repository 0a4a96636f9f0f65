"""MPI calls that Turnbuckle's MPI layer recorded: communicators, and the bytes of collectives as the vocabulary counts them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import polars as pl

from turnbuckle.trace.readers.parts.mpi_tables import COLLECTIVE, LARGEST, MOST_RANKS, OTHER, carried, operation
from turnbuckle.trace.readers.recorded.text import Recorded

#: Causes for which the layer tells no message, in words.
_CAUSES: Final = {"intercommunicator": "on intercommunicators or with processes outside of the world", "one_sided": "one-sided"}


def communicators_of(file: Recorded, base: int) -> pl.DataFrame:
    """Return the rows of ``mpi_communicators`` of one process; `base` is the begin of the recording [ns]."""
    rows = file.table("B").filter(
        pl.col("blocks").is_between(1, MOST_RANKS), pl.col("what") >= 0, pl.col("what") < pl.col("blocks"), pl.col("ctx").is_not_null()
    )
    rank = file.number("rank", -1)
    return rows.select(
        rank=pl.lit(rank if rank >= 0 else None, pl.Int64), time_ns=pl.col("start") - base, communicator="ctx", local_rank="what",
        size="blocks", group_root="dev", group_number="address",
    )  # fmt: skip


def carried_by(rows: pl.DataFrame, names: dict[int, str], communicators: pl.DataFrame) -> pl.DataFrame:
    """Return MPI calls with the bytes of collectives to and from all members.

    The layer tells what a member puts in and gets for one partner, or for all where each has a size of its own (`carried`).

    Parameters
    ----------
    rows : calls with kind, name, size_bytes, receive_bytes, root and communicator; names are the file's numbers.
    names : texts by the file's numbers.
    communicators : rows of ``mpi_communicators`` of the process.
    """
    rows = rows.with_columns(kind=pl.when(pl.col("kind").is_between(0, OTHER)).then("kind").otherwise(OTHER))
    key = ["name", "communicator", "root", "size_bytes", "receive_bytes"]
    members = communicators.unique("communicator", keep="first").select("communicator", "size", "local_rank")
    kinds = rows.filter(pl.col("kind") == COLLECTIVE).select(key).unique().join(members, on="communicator", how="left")
    sizes = []
    for name, _, root, sent, got, size, own in kinds.select(*key, "size", "local_rank").iter_rows():
        both = carried(operation(names.get(name, "")), sent or 0, got or 0, size or 1, root is not None and root == own)
        sizes.append(tuple(min(number, LARGEST) for number in both))
    told = kinds.select(key).with_columns(
        pl.Series("sent", [sent for sent, _ in sizes], dtype=pl.Int64), pl.Series("got", [got for _, got in sizes], dtype=pl.Int64)
    )
    out = rows.join(told, on=key, how="left", nulls_equal=True, maintain_order="left")
    of_all = pl.col("kind") == COLLECTIVE
    return out.with_columns(
        size_bytes=pl.when(of_all).then("sent").otherwise("size_bytes"), receive_bytes=pl.when(of_all).then("got")
    ).drop("sent", "got")


def not_told(files: Sequence[Recorded]) -> list[tuple[str, int, str]]:
    """Return the finding on calls whose messages the layer did not tell: code, count, detail."""
    counts: dict[str, int] = {}
    for file in files:
        for line in file.facts.get("mpi_skipped", []):
            if (match := re.fullmatch(r"(\w{1,20}) (\d{1,18})", line)) and match[1] in _CAUSES:
                counts[match[1]] = counts.get(match[1], 0) + int(match[2])
    return [("P221", sum(counts.values()), "; ".join(f"{count:,} {_CAUSES[cause]}" for cause, count in sorted(counts.items())))]
