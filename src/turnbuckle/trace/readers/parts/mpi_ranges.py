"""MPI calls that a recording holds as ranges only: of the NVTX domain "MPI", or named as MPI's
functions.

Nsight Systems before 2023, wrappers around MPI, and markers of roctx write such ranges.  They are
time in MPI, and no work of the host.  Sizes, partners and communicators are unknown.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import Final

import polars as pl

from turnbuckle.foundation.findings import finding
from turnbuckle.trace.check import nested_calls
from turnbuckle.trace.ids import process_of
from turnbuckle.trace.readers.parts.mpi_tables import (
    COLLECTIVE,
    MESSAGE,
    OTHER,
    REQUEST,
    operation,
    sort_of,
)
from turnbuckle.trace.trace import Trace, completed

#: Kinds of ranges that have two ends and are an application's own: NVTX's two, and those that a
#: framework annotates.
_SPANS: Final = (59, 60, 1)
#: Kind of the row that names a domain of NVTX.
_DOMAIN: Final = 75
#: A name, and what a wrapper writes behind it: ``MPI_Send (dest=1)``.
_NAME: Final = re.compile(r"(\w+?)_{0,2}(?:\s*[\[({:,;].*)?", re.DOTALL)
#: Functions of MPI beside those that move messages; each wildcard is of a family that the standard
#: names.
_OTHERS: Final = re.compile(
    r"init(ialized)?|init_thread|finali[sz]ed?|abort|i?m?probe|cancel|request_(free|get_status)|(un)?pack(_external)?"
    r"|(comm|group|cart|graph|dist_graph|type|op|file|win|info|errhandler|session|buffer)_\w+|i?neighbor_\w+"
    r"|r?(put|get|accumulate)|r?get_accumulate|fetch_and_op|compare_and_swap|(alloc|free)_mem|[bsr]?send_init|recv_init"
    r"|(allreduce|allgatherv?|alltoall[vw]?|barrier|bcast|gatherv?|scatterv?|reduce|reduce_scatter(_block)?|scan|exscan)_init"
    r"|p(send|recv)_init|pready(_range|_list)?|parrived|isendrecv(_replace)?"
)
_KIND: Final = {
    "send": MESSAGE,
    "receive": MESSAGE,
    "both": MESSAGE,
    "collective": COLLECTIVE,
    "wait": REQUEST,
    "start": REQUEST,
    "other": OTHER,
}


@lru_cache(maxsize=4096)
def function_of(name: str, in_domain: bool = False) -> str:
    """Return the function of MPI that a range's name tells; empty for every other name.

    >>> function_of("PMPI_Allreduce"), function_of("MPI_Send (dest=1)"), function_of("mpi_bcast_")
    ('PMPI_Allreduce', 'MPI_Send', 'mpi_bcast')
    >>> function_of("MPI_halo_exchange"), function_of("Barrier"), function_of("Barrier", in_domain=True)
    ('', '', 'MPI_Barrier')
    """
    match = _NAME.fullmatch(name.strip())
    if match is None:
        return ""
    word = match[1]
    if in_domain and not operation(word):
        word = f"MPI_{word}"
    does = operation(word)
    known = bool(does) and (sort_of(does) != "other" or _OTHERS.fullmatch(does) is not None)
    return word if known or (in_domain and does and operation(match[1])) else ""


def with_named_calls(trace: Trace) -> Trace:
    """Return the trace with its ranges that are MPI calls in the table ``mpi`` too, and with
    finding P131 for them.

    Threads whose MPI calls were recorded as such keep those alone.  A call inside another, as PMPI
    inside MPI, is part of it.
    """
    if not trace.ranges.height or not trace.names.cast(pl.String).str.contains("(?i)mpi").any():
        return trace
    calls = _named(trace)
    if not calls.height:
        return trace
    calls = calls.filter(~pl.Series(nested_calls(calls)))
    texts = calls["function"].unique(maintain_order=True).to_list()
    number = {text: len(trace.names) + place for place, text in enumerate(texts)}
    names = pl.concat(
        [trace.names.cast(pl.String), pl.Series(trace.names.name, texts, dtype=pl.String)]
    )
    kinds = {text: _KIND[sort_of(operation(text))] for text in texts}
    rows = calls.with_columns(
        name=pl.col("function").replace_strict(number, return_dtype=pl.Int32),
        kind=pl.col("function").replace_strict(kinds, return_dtype=pl.Int8),
    )
    mpi = pl.concat([trace.mpi, completed("mpi", rows)]).sort("start_ns", maintain_order=True)
    # the reader of Nsight's exports counts only those of its own domain
    others = [f for f in trace.findings if f.code != "P131"]
    found = [*others, finding("P131", rows.height)]
    return replace(trace, tables={**trace.tables, "mpi": mpi}, names=names, findings=found)


def _named(trace: Trace) -> pl.DataFrame:
    """Return start, end, thread and function of the ranges that are MPI calls, on threads without
    recorded ones.
    """
    ranges = trace.ranges.select(
        "start_ns", "end_ns", "thread", "kind", "domain", text=trace.text(trace.ranges)
    )
    process = process_of(pl.col("thread"))
    domains = ranges.filter(pl.col("kind") == _DOMAIN, pl.col("text") == "MPI")
    domains = domains.select("domain", process=process, in_domain=True).unique()
    spans = ranges.filter(
        pl.col("kind").is_in(_SPANS),
        pl.col("end_ns") >= pl.col("start_ns"),
        pl.col("thread").is_not_null() & pl.col("text").is_not_null(),
        ~pl.col("thread").is_in(trace.mpi["thread"].unique().implode()),
    )
    spans = spans.with_columns(process=process).join(
        domains, on=["domain", "process"], how="left", maintain_order="left"
    )
    spans = spans.with_columns(pl.col("in_domain").fill_null(False))
    kinds = spans.select("text", "in_domain").unique()
    functions = [function_of(text, in_domain) for text, in_domain in kinds.iter_rows()]
    kinds = kinds.with_columns(function=pl.Series(functions, dtype=pl.String)).filter(
        pl.col("function") != ""
    )
    named = spans.join(kinds, on=["text", "in_domain"], maintain_order="left")
    return named.select("start_ns", "end_ns", "thread", "function")
