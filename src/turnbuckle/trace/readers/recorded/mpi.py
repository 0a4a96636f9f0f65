"""MPI calls that Turnbuckle's MPI layer recorded: its file beside the GPU's, communicators, and the
bytes of collectives.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from turnbuckle.trace.ids import thread_number
from turnbuckle.trace.readers.parts.mpi_tables import (
    COLLECTIVE,
    LARGEST,
    MOST_RANKS,
    OTHER,
    carried,
    operation,
)
from turnbuckle.trace.readers.recorded.text import Recorded

_LARGEST_PID: Final = 1 << 22
#: Causes for which the layer tells no message, in words.
_CAUSES: Final = {
    "intercommunicator": "on intercommunicators or with processes outside of the world",
    "one_sided": "one-sided",
}


def processes(files: list[Recorded]) -> list[int]:
    """Return a number for each file: the process's own, or a free one where another file has it (a
    program that executed another).

    The recorder of the GPU and that of MPI each write a file of one process, which has one number.
    """
    taken: dict[int, set[bool]] = {}
    of_pid: dict[int, list[int]] = {}
    out = []
    for file in files:
        pid, of_mpi = file.number("pid"), file.last("api") == "mpi"
        number = next((n for n in of_pid.get(pid, []) if of_mpi not in taken[n]), None)
        if number is None:
            sound = 0 < pid < _LARGEST_PID and pid not in taken
            number = (
                pid
                if sound
                else next(n for n in range(_LARGEST_PID, 2 * _LARGEST_PID) if n not in taken)
            )
            of_pid.setdefault(pid, []).append(number)
        taken.setdefault(number, set()).add(of_mpi)
        out.append(number)
    return out


def communicators_of(file: Recorded, base: int) -> pl.DataFrame:
    """Return the rows of ``mpi_communicators`` of one process; `base` is the begin of the recording
    [ns].
    """
    rows = file.table("B").filter(
        pl.col("blocks").is_between(1, MOST_RANKS),
        pl.col("what") >= 0,
        pl.col("what") < pl.col("blocks"),
        pl.col("ctx").is_not_null(),
    )
    rank = file.number("rank", -1)
    places = {
        "communicator": "ctx",
        "local_rank": "what",
        "size": "blocks",
        "group_root": "dev",
        "group_number": "address",
    }
    return rows.select(
        rank=pl.lit(rank if rank >= 0 else None, pl.Int64), time_ns=pl.col("start") - base, **places
    )


def carried_by(
    rows: pl.DataFrame, names: dict[int, str], communicators: pl.DataFrame
) -> pl.DataFrame:
    """Return MPI calls with the bytes of collectives to and from all members.

    The layer tells what a member puts in and gets for one partner, or for all where each has a size
    of its own (`carried`).

    Parameters
    ----------
    rows : calls with kind, name, size_bytes, receive_bytes, root and communicator; names are the
        file's numbers.
    names : texts by the file's numbers.
    communicators : rows of ``mpi_communicators`` of the process.
    """
    rows = rows.with_columns(
        kind=pl.when(pl.col("kind").is_between(0, OTHER)).then("kind").otherwise(OTHER)
    )
    key = ["name", "communicator", "root", "size_bytes", "receive_bytes"]
    members = communicators.unique("communicator", keep="first").select(
        "communicator", "size", "local_rank"
    )
    kinds = (
        rows.filter(pl.col("kind") == COLLECTIVE)
        .select(key)
        .unique()
        .join(members, on="communicator", how="left")
    )
    sizes = []
    for name, _, root, sent, got, size, local_rank in kinds.select(
        *key, "size", "local_rank"
    ).iter_rows():
        both = carried(
            operation(names.get(name, "")),
            sent or 0,
            got or 0,
            size or 1,
            root is not None and root == local_rank,
        )
        sizes.append(tuple(min(number, LARGEST) for number in both))
    carried_bytes = kinds.select(key).with_columns(
        pl.Series("sent", [sent for sent, _ in sizes], dtype=pl.Int64),
        pl.Series("got", [got for _, got in sizes], dtype=pl.Int64),
    )
    out = rows.join(carried_bytes, on=key, how="left", nulls_equal=True, maintain_order="left")
    of_all = pl.col("kind") == COLLECTIVE
    return out.with_columns(
        size_bytes=pl.when(of_all).then("sent").otherwise("size_bytes"),
        receive_bytes=pl.when(of_all).then("got"),
    ).drop("sent", "got")


def asked_by_layer(
    calls: pl.DataFrame, names: pl.Series, mpi: pl.DataFrame, process: int, base: int
) -> pl.Series:
    """Return a mask of the calls of CUDA's driver that the layer makes to learn where a buffer is.

    It asks before a call of MPI.  Inside one it is the library that asks.

    Parameters
    ----------
    calls : rows of ``api`` of one process, in no order; `names` are the texts of their names.
    mpi : begin and end of MPI calls [ns], and their thread's number in the process.
    base : begin of the recording [ns].
    """
    attribute_names = [
        n for n, text in enumerate(names) if text.startswith("cuPointerGetAttributes")
    ]
    queries = (
        calls.with_row_index("i")
        .filter(pl.col("name").is_in(attribute_names), pl.col("level") == 1)
        .drop_nulls(["start_ns", "end_ns"])
    )
    windows = mpi.select(
        thread=pl.lit(process, pl.Int64) | thread_number(pl.col("tid")),
        begun=pl.col("start") - base,
        over=pl.col("end") - base,
    )
    windows = (
        windows.drop_nulls().sort("begun").with_columns(pl.col("over").cum_max().over("thread"))
    )
    around = queries.sort("start_ns").join_asof(
        windows,
        left_on="start_ns",
        right_on="begun",
        by="thread",
        strategy="backward",
        check_sortedness=False,
    )
    outside = around.filter(pl.col("over").is_null() | (pl.col("over") < pl.col("end_ns")))["i"]
    mask = np.zeros(calls.height, dtype=np.bool_)
    mask[outside.to_numpy()] = True
    return pl.Series(mask)


def not_told(files: Sequence[Recorded]) -> list[tuple[str, int, str]]:
    """Return the finding on calls whose messages the layer did not tell: code, count, detail."""
    counts: dict[str, int] = {}
    for file in files:
        for line in file.facts.get("mpi_skipped", []):
            if (match := re.fullmatch(r"(\w{1,20}) (\d{1,18})", line)) and match[1] in _CAUSES:
                counts[match[1]] = counts.get(match[1], 0) + int(match[2])
    return [
        (
            "P221",
            sum(counts.values()),
            "; ".join(f"{count:,} {_CAUSES[cause]}" for cause, count in sorted(counts.items())),
        )
    ]
