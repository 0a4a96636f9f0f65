"""Collectives that ran as kernels of NCCL or RCCL, with what they moved: operation, bytes, members,
algorithm and protocol.

A kernel's name tells its algorithm and protocol, but neither its bytes nor its members; often not
even its operation, for one kernel serves several.  The call that asked for it tells the rest, where
the profiler wrote it down (the table ``collectives``): the kernel's own row, or the call of the
thread that launched it, during that launch.
"""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from turnbuckle.profile.messages.nccl import collectives
from turnbuckle.trace.trace import Trace

#: Bytes and members of one collective beyond which a recording is not believed.
MOST_BYTES: Final = 1 << 48
MOST_RANKS: Final = 1 << 20
#: Columns of the sized kernels.
_NUMBERS: Final = dict.fromkeys(("size_bytes", "ranks", "first", "stride"), pl.Int64)
COLUMNS: Final = {
    "activity": pl.Int64,
    "operation": pl.String,
    **_NUMBERS,
    "algorithm": pl.String,
    "protocol": pl.String,
}
#: The operation is the first of these that the text holds, without underscores and in lower case.
_OPERATIONS: Final = (
    "allreduce",
    "allgather",
    "reducescatter",
    "alltoall",
    "sendrecv",
    "broadcast",
    "reduce",
    "send",
    "recv",
)
_ALGORITHM: Final = re.compile(r"(?i)_(ring|tree|collnet\w*?|nvls\w*?|pat)(?=_)")
_PROTOCOL: Final = re.compile(r"(?i)_(ll128|ll|simple)(?=_|\(|$)")
#: What no price stands for: reductions inside switches, and trees of parallel chains.
_UNPRICED: Final = ("collnet", "nvls", "pat")


def operation_of(text: str) -> str:
    """Return the operation that the name of a kernel or of a call tells; empty for none.

    >>> [operation_of(name) for name in ("nccl:_reduce_scatter_base", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "nccl:barrier")]
    ['reducescatter', 'allreduce', '']
    >>> operation_of("all_gather_into_tensor_coalesced"), operation_of("allreduce_coalesced"), operation_of("alltoallv")
    ('allgather', 'allreduce', 'alltoall')
    """
    plain = text.lower().replace("_", "").split("(")[0]
    word = next((word for word in _OPERATIONS if word in plain), "")
    return "sendrecv" if word in ("send", "recv") else word


def runs_as(text: str, operation: str) -> tuple[str, str]:
    """Return algorithm and protocol that a kernel's name tells, empty where it tells none, or tells
    those of another operation.

    >>> runs_as("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "allreduce")
    ('ring', 'll')
    >>> runs_as("ncclDevKernel_AllReduce_Sum_f32_TREE_SIMPLE(ncclDevKernelArgs)", "allreduce")
    ('tree', 'simple')
    >>> runs_as("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "allgather"), runs_as("ncclDevKernel_Generic(x)", "reduce")
    (('', ''), ('', ''))
    """
    if operation_of(text) != operation:
        return "", ""
    algorithm, protocol = _ALGORITHM.search(text), _PROTOCOL.search(text.split("(")[0])
    return algorithm[1].lower() if algorithm else "", protocol[1].lower() if protocol else ""


def sized_collectives(rows: pl.DataFrame, trace: Trace) -> tuple[pl.DataFrame, int]:
    """Return the collective kernels whose bytes are recorded, with `COLUMNS`, and the number of the
    others.

    Parameters
    ----------
    rows : activities, as `turnbuckle.profile.dependencies.sides.activities` has them.

    ``size_bytes`` is the whole buffer: the result of an allgather, what each rank puts in
    elsewhere.  A collective that does not tell its members is taken to be of the whole world.
    """
    numbered = rows.drop("activity").with_row_index("activity")
    kernels = numbered.filter(pl.col("kind").cast(pl.String) == "kernel").select(
        pl.col("activity", "row").cast(pl.Int64)
    )
    is_collective = collectives(trace)
    kernels = (
        kernels.filter(pl.Series(is_collective[kernels["row"].to_numpy()]))
        if kernels.height
        else kernels
    )
    if not kernels.height or not trace.table("collectives").height:
        return pl.DataFrame(schema=COLUMNS), kernels.height
    recorded = _recorded(kernels, trace)
    text = trace.text(recorded, "asked").fill_null("")
    named = trace.text(trace.kernels[recorded["row"].to_numpy()]).fill_null("")
    operation = [operation_of(t) for t in text.to_list()]
    words = [runs_as(n, does) for n, does in zip(named.to_list(), operation, strict=True)]
    world = trace.facts.get("world_size") or (trace.table("processes").height or None)
    texts = {
        "operation": operation,
        "algorithm": [a for a, _ in words],
        "protocol": [p for _, p in words],
    }
    recorded = recorded.with_columns(
        pl.Series(name, values, dtype=pl.String) for name, values in texts.items()
    )
    first, stride = pl.col("first_rank").fill_null(0), pl.col("rank_stride").fill_null(1).clip(1)
    recorded = recorded.with_columns(
        first=first, stride=stride, ranks=pl.col("ranks").fill_null(pl.lit(world, pl.Int64))
    )
    gathered = pl.coalesce(pl.col("receive_bytes"), pl.col("size_bytes") * pl.col("ranks"))
    whole = (
        pl.when(pl.col("operation") == "allgather")
        .then(gathered)
        .otherwise(pl.coalesce("size_bytes", "receive_bytes"))
    )
    # other libraries' kernels reach into each other's memory: neither rings nor trees
    rings = named.str.contains("(?i)[nr]ccl")
    priced = (
        rings & (pl.col("operation") != "") & ~pl.col("algorithm").str.contains("|".join(_UNPRICED))
    )
    bounded = pl.col("size_bytes").is_between(1, MOST_BYTES) & pl.col("ranks").is_between(
        2, MOST_RANKS
    )
    recorded = recorded.with_columns(size_bytes=whole).filter(
        priced, bounded, (pl.col("operation") != "sendrecv") | (pl.col("ranks") == 2)
    )
    sized = recorded.select(*COLUMNS)
    return sized, kernels.height - sized.height


def _recorded(kernels: pl.DataFrame, trace: Trace) -> pl.DataFrame:
    """Join each kernel to the row that tells what it moves: its own, else the call during which it
    was launched that tells most.
    """
    sizes = ("size_bytes", "receive_bytes", "ranks", "first_rank", "rank_stride")
    rows = trace.table("collectives").select(
        "start_ns", "end_ns", "process", "thread", "correlation", *sizes, asked="name"
    )
    content = ("asked", *sizes)
    keys = (
        trace.kernels.select("process", "correlation").with_row_index("row").cast({"row": pl.Int64})
    )
    kernels = kernels.join(keys, on="row", how="left", maintain_order="left")
    by_kernel = rows.filter(pl.col("thread").is_null(), pl.col("correlation").is_not_null()).unique(
        ["process", "correlation"], keep="none"
    )
    first = kernels.join(
        by_kernel.select("process", "correlation", *content),
        on=["process", "correlation"],
        nulls_equal=True,
    )
    pairs = trace.launch_pairs.filter(pl.col("table") == "kernels").select(
        "row", "call_start_ns", "thread"
    )
    launched = (
        kernels.join(first.select("activity"), on="activity", how="anti")
        .join(pairs, on="row")
        .sort("call_start_ns")
    )
    parts = [first.select("activity", "row", *content)]
    for complete in (pl.col("ranks").is_not_null(), pl.col("ranks").is_null()):
        calls = rows.filter(pl.col("thread").is_not_null(), complete).sort("start_ns")
        asked = calls.select("start_ns", "end_ns", "thread", *content)
        joined = launched.join_asof(
            asked, left_on="call_start_ns", right_on="start_ns", by="thread", check_sortedness=False
        )
        joined = joined.filter(
            pl.col("asked").is_not_null(), pl.col("call_start_ns") <= pl.col("end_ns")
        )
        parts.append(joined.select("activity", "row", *content))
        launched = launched.join(joined.select("activity"), on="activity", how="anti").sort(
            "call_start_ns"
        )
    return pl.concat(parts).sort("activity")
