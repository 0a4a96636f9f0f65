"""Matching of the MPI calls of several ranks: sends with receives, and the calls of each
collective.

The tables are those of Nsight Systems.  Handles are local to a process.  A communicator is
identified by its parent, its size and its number among such children, or by its group's root where
that is recorded.  The k-th send of a stream (source, target, tag, communicator) matches the k-th
receive.  A request is completed by the first wait or test that names it.  The k-th collective of a
communicator is the same call on every member.  A call written as several rows (one for each request
or half of a Sendrecv) is one activity.

Calls that cannot be matched are left alone and counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Int
from turnbuckle.foundation.errors import clipped
from turnbuckle.foundation.schema import words
from turnbuckle.trace.ids import process_of, thread_number
from turnbuckle.trace.trace import Trace

#: More members than this, and all pairs of a collective would be more edges than the rest of a
#: graph.
MOST_MEMBERS: Final = 64
_MOST_LEVELS: Final = 64
#: Wildcard receives times open streams of one rank that are compared.
_MOST_COMPARED: Final = 4096

_SEND: Final = r"^i?[bsr]?send(_init)?$"
_RECEIVE: Final = r"^i?m?recv(_init)?$"
_BOTH: Final = r"^i?sendrecv(_replace)?$"
ALL: Final = (
    "barrier",
    "allreduce",
    "allgather",
    "allgatherv",
    "alltoall",
    "alltoallv",
    "alltoallw",
    "reduce_scatter",
    "reduce_scatter_block",
)
FROM_ROOT: Final = ("bcast", "scatter", "scatterv")
TO_ROOT: Final = ("reduce", "gather", "gatherv")
PREFIX: Final = ("scan", "exscan")
_STREAM: Final = ["comm", "source", "target", "tag"]
_ALONE: Final = ["kind", "does", "thread", "start_ns"]
#: Indices of the memories that are a device's own.  Unified memory is none: libraries move it
#: through the host, whatever else they can.
ON_DEVICE: Final = tuple(
    code
    for code, word in enumerate(words("memories"))
    if word in ("device", "array", "device_static")
)
KNOWN: Final = (*ALL, *FROM_ROOT, *TO_ROOT, *PREFIX)
"""Collectives whose members are brought together."""


def same_call(trace: Trace) -> Int:
    """Return for each row of the trace's table ``mpi`` the row that represents its call: the
    longest, then the first.

    A Waitall or Startall has one row for each request, with one begin and one end.  A Sendrecv with
    two partners has a row without length for the send, and one for the receive (both seen in
    exports of Nsight Systems 2023.4).
    """
    mpi = trace.mpi
    row = np.arange(mpi.height, dtype=np.int64)
    if not mpi.height:
        return row
    exchanges = operation(trace).str.contains(_BOTH).fill_null(False).to_numpy()
    many = np.flatnonzero(exchanges | (mpi["kind"] == 2).to_numpy())
    start, end, thread = (mpi[c].to_numpy()[many] for c in ("start_ns", "end_ns", "thread"))
    name = mpi["name"].fill_null(-1).to_numpy()[many]
    until = np.where(exchanges[many], 0, end)
    order = np.lexsort((many, -end, until, name, start, thread))
    new = np.ones(len(many), dtype=np.bool_)
    for key in (thread, start, name, until):
        new[1:] &= key[order][1:] == key[order][:-1]
    new[1:] = ~new[1:]
    row[many[order]] = many[order][np.maximum.accumulate(np.where(new, np.arange(len(many)), 0))]
    return row


def operation(trace: Trace) -> pl.Series:
    """Return the name of each MPI call in lower case, without its prefix."""
    names = trace.mpi["name"].unique().to_frame()
    short = trace.text(names).str.to_lowercase().str.replace(r"^p?mpi_", "")
    return trace.mpi["name"].replace_strict(names["name"], short, return_dtype=pl.String)


@dataclass(frozen=True)
class Exchanges:
    """Messages and collectives between ranks, call by call.

    Attributes
    ----------
    messages : one row for each message that both sides recorded: activity, done (the send, and the
        call that completes it), activity_r, done_r (the receive's), size_bytes, comm, source,
        target (ranks in the communicator), does, memory and memory_r (of the buffers).
    rounds : one row for each member of a collective that all members recorded: comm, k (number of
        the collective), me (rank in the communicator), activity, done, does, root, size_bytes,
        receive_bytes, memory, receive_memory.
    alone : calls whose other side the profile should hold but does not, in the order of time: kind,
        does, thread, start_ns.
    """

    messages: pl.DataFrame
    rounds: pl.DataFrame
    alone: pl.DataFrame

    @property
    def unmatched(self) -> int:
        """Return the number of calls without their other side."""
        return self.alone.height


def exchanges(
    rows: pl.DataFrame, trace: Trace, most_members: int = MOST_MEMBERS
) -> Exchanges | None:
    """Pair the MPI calls of all ranks into messages and collectives; None where only one process
    made any.

    Parameters
    ----------
    rows : the profile's activities; those of MPI calls hold in `row` their row of the trace's table
        ``mpi``.
    trace : the recording, with the members of its communicators.
    most_members : collectives of larger communicators stay unmatched.
    """
    if process_of(trace.mpi["thread"]).n_unique() < 2:
        return None
    activity = np.full(trace.mpi.height, -1, dtype=np.int64)
    mpi_rows = rows.with_row_index("i").filter(
        pl.col("category").cast(pl.String) == "mpi", pl.col("row").is_not_null()
    )
    activity[mpi_rows["row"].to_numpy()] = mpi_rows["i"].to_numpy()
    calls, members = described(trace, activity)
    rounds, lost = collectives(calls, members, most_members)
    _, _, messages, alone = matched(calls, members)
    return Exchanges(
        messages, rounds, pl.concat([lost, alone]).sort("start_ns", "thread", maintain_order=True)
    )


def in_words(calls: pl.DataFrame, trace: Trace, first_ns: int, most: int = 3) -> str:
    """Describe the first few calls of a table with does, thread and start_ns, with times after
    `first_ns`, the begin of the run.
    """
    rank = {
        process_of(thread): rank
        for thread, rank in trace.mpi_ranks.select("thread", "rank").iter_rows()
    }
    parts = []
    for does, thread, start in calls.select("does", "thread", "start_ns").head(most).iter_rows():
        process = process_of(thread)
        who = f"rank {rank[process]}" if process in rank else f"thread {thread_number(thread)}"
        parts.append(
            f"{who} in MPI_{clipped(does or '(no name)', 30).capitalize()} at "
            f"{(start - first_ns) * 1e-9:.6g} s"
        )
    return "; ".join(parts) + ("; ..." if calls.height > most else "")


def described(trace: Trace, activity: Int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the MPI calls that begin a message or collective, each with the call that completes
    it, and the members of all communicators.

    `activity` holds the number of each row's activity.
    """
    mpi = trace.mpi.with_row_index("at").with_columns(
        pl.col("at").cast(pl.Int64), process=process_of(pl.col("thread"))
    )
    made = communicators(trace)
    stands = same_call(trace)
    calls = placed(
        mpi.with_columns(
            does=operation(trace), activity=activity[stands], until=mpi["end_ns"].to_numpy()[stands]
        ),
        made,
    )
    return posted(calls).sort("start_ns", "at", maintain_order=True), made.drop_nulls("comm")


def communicators(trace: Trace) -> pl.DataFrame:
    """Return the communicators by the time of their creation, one row for each member: comm (null
    where it is unknown), me (rank inside), rank, process, communicator (handle), time_ns.

    Children of one parent with the same size are identified by their number.  A split into several
    of one size is identified only by the roots of the groups (``group_root``, ``group_number``),
    where they are recorded.  A duplicate is recorded with neither rank nor size; it has its
    parent's.
    """
    ranks = trace.mpi_ranks.select("rank", process=process_of(pl.col("thread"))).unique()
    # one rank in two processes is two programs; two ranks in one process have their handles in
    # common
    ranks = ranks.unique("rank", keep="none").unique("process", keep="none")
    made = trace.mpi_communicators.drop_nulls(["rank", "time_ns", "communicator"]).join(
        ranks, on="rank"
    )
    made = (
        made.sort("time_ns", "rank", "communicator")
        .with_row_index("i")
        .with_columns(pl.col("i").cast(pl.Int64))
    )
    parents = made.select("rank", "time_ns", parent="communicator", above="i")
    made = made.join_asof(
        parents,
        on="time_ns",
        by=["rank", "parent"],
        strategy="backward",
        allow_exact_matches=False,
        check_sortedness=False,
    ).with_columns(
        above=pl.when(pl.col("parent").fill_null(0) == 0).then(-1).otherwise("above"),
        copy=pl.col("local_rank").is_null() & pl.col("size").is_null(),
        alone=pl.when(pl.col("size") == 1).then("rank"),  # a communicator of one is nobody else's
    )
    key = ["over", "copy", "size", "alone", "group_root", "group_number"]
    comm, me = (
        np.full(made.height, -1, dtype=np.int64),
        made["local_rank"].fill_null(-1).to_numpy().copy(),
    )
    level = made.filter(pl.col("above") == -1).with_columns(
        over=pl.lit(-1, pl.Int64), members=pl.lit(0, pl.UInt32)
    )
    complete = ranks.height >= level["size"].fill_null(0).to_numpy().max(initial=0)
    number = 0
    for _ in range(_MOST_LEVELS):
        if not level.height:
            break
        index = level["i"].to_numpy()
        copies = (level["copy"] & (level["over"] >= 0)).to_numpy()
        me[index[copies]] = me[level["above"].to_numpy()[copies]]
        good = _whole(level.with_columns(me=me[index]), key, complete).with_columns(
            pl.col("group") + number
        )
        comm[good["i"].to_numpy()] = good["group"].to_numpy()
        number += level.height
        level = made.join(
            good.select(above="i", over="group", members=pl.len().over("group")), on="above"
        ).sort("i")
    members = made.with_columns(comm=pl.Series(comm), me=pl.Series(me)).with_columns(
        pl.when(pl.col("comm") >= 0).then("comm")
    )
    return members.select("comm", "me", "rank", "process", "communicator", "time_ns")


def _whole(level: pl.DataFrame, key: list[str], complete: bool) -> pl.DataFrame:
    """Return the rows of the communicators whose members are all present once, each with the number
    of its `group`.

    After an incomplete communicator, the numbers of the same kind of child cannot be trusted.
    """
    instance = [*key, "k"]
    expected, there = pl.when("copy").then("members").otherwise("size"), pl.len().over(instance)
    level = level.with_columns(k=pl.int_range(pl.len()).over(["rank", *key]))
    good = (
        (pl.col("me") >= 0)
        & (pl.col("me").n_unique().over(instance) == there)
        & ((there == expected) | (there < expected) & (not complete))
        & (pl.col("copy") | (pl.col("me") < pl.col("size")))
    )
    level = level.with_columns(good=good.fill_null(False))
    level = level.with_columns(bad_from=pl.col("k").filter(~pl.col("good")).min().over(key))
    level = level.with_columns(group=pl.struct(instance).rank("dense").cast(pl.Int64))
    return level.filter(pl.col("bad_from").is_null() | (pl.col("k") < pl.col("bad_from")))


def placed(calls: pl.DataFrame, made: pl.DataFrame) -> pl.DataFrame:
    """Return the calls with their communicator `comm` and the caller's rank `me` in it; null where
    unknown.

    A handle means the communicator that was last made under it.  A matched receive (Mrecv) names
    none and counts as the world's.
    """
    keys = ["process", "communicator"]
    worlds = made.unique("process", keep="first", maintain_order=True).select(
        "process", world="communicator"
    )
    matched = pl.col("does").str.contains(r"^i?mrecv$")
    calls = calls.join(worlds, on="process", how="left", maintain_order="left").with_columns(
        communicator=pl.coalesce("communicator", pl.when(matched).then("world"))
    )
    last = made.select(*keys, "comm", "me", start_ns="time_ns", seen=True)
    first = made.unique(keys, keep="first", maintain_order=True).select(
        *keys, comm0="comm", me0="me"
    )
    return (
        calls.sort("start_ns", maintain_order=True)
        .join_asof(last, on="start_ns", by=keys, strategy="backward", check_sortedness=False)
        .join(first, on=keys, how="left", maintain_order="left")
        .with_columns(pl.when("seen").then(c).otherwise(c + "0").alias(c) for c in ("comm", "me"))
        .drop("comm0", "me0", "world", "seen")
    )


def posted(calls: pl.DataFrame) -> pl.DataFrame:
    """Return the calls that begin a message or collective, with the call that completes each.

    The columns ``done`` (activity of that call, -1 for none in the recording) and ``done_until``
    [ns] are added.  A persistent request begins with each of its starts.  A wait or test completes
    the latest call begun under its request.
    """
    does = pl.col("does").fill_null("")
    waiting, starting = pl.col("kind") == 2, does.str.contains(r"^start(all)?$")
    request = ["process", "request"]
    work = calls.filter(pl.col("kind") <= 1)
    lasting = does.str.ends_with("_init")
    described = work.filter(lasting & pl.col("request").is_not_null()).drop(
        "at", "activity", "until", "end_ns", "thread"
    )
    begun = calls.filter(waiting & starting & pl.col("request").is_not_null()).select(
        "start_ns", "end_ns", "thread", "at", "activity", "until", *request
    )
    begun = begun.sort("start_ns", maintain_order=True).join_asof(
        described.sort("start_ns", maintain_order=True),
        on="start_ns",
        by=request,
        strategy="backward",
        check_sortedness=False,
    )
    posts = pl.concat(
        [work.filter(~lasting), begun.filter(pl.col("does").is_not_null())], how="diagonal"
    ).sort("start_ns", "at")
    later = does.str.starts_with("i") | lasting
    open_ = posts.filter(later & pl.col("request").is_not_null()).select(
        *request, "start_ns", post="at"
    )
    finished = (
        calls.filter(waiting & ~starting & pl.col("request").is_not_null())
        .select(*request, "start_ns", done="activity", done_until="until")
        .sort("start_ns", maintain_order=True)
        .join_asof(open_, on="start_ns", by=request, strategy="backward", check_sortedness=False)
        .filter(pl.col("post").is_not_null())
        .unique("post", keep="first", maintain_order=True)
        .select("post", "done", "done_until")
    )
    ends = {"done": "activity", "done_until": "until"}
    return (
        posts.join(finished, left_on="at", right_on="post", how="left", maintain_order="left")
        .with_columns(
            pl.when(later).then(name).otherwise(own_name).alias(name)
            for name, own_name in ends.items()
        )
        .with_columns(pl.col("done").fill_null(-1))
    )


# --- MPI: messages --------------------------------------------------------------------------------


def matched(
    calls: pl.DataFrame, members: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return the sends and receives with a partner, their pairs (columns of the receive end in
    ``_r``), and those without a pair.
    """
    does = pl.col("does").fill_null("")
    exchanges = does.str.contains(_BOTH)
    call = ["thread", "start_ns", "name"]
    calls = calls.filter(pl.col("kind") == 0)
    halves = calls.filter(exchanges).select(
        "at", half=pl.col("end_ns").rank("ordinal").over(call), of=pl.len().over(call)
    )
    # a null partner is MPI_PROC_NULL: no message
    calls = calls.drop_nulls("partner").join(halves, on="at", how="left", maintain_order="left")
    sends = calls.filter(does.str.contains(_SEND) | (exchanges & (pl.col("half") == 1)))
    receives = calls.filter(
        does.str.contains(_RECEIVE) | (exchanges & (pl.col("half") == pl.col("of")))
    )
    every = sends, receives
    lost = [frame.filter(pl.col("comm").is_null()) for frame in every]
    there = members.select("comm", partner="me").unique()
    sends = sends.with_columns(source="me", target="partner").join(
        there, on=["comm", "partner"], how="semi", maintain_order="left"
    )
    # only receives name a wildcard: any source is negative, any tag null
    wild = (pl.col("partner") < 0) | (pl.col("tag").fill_null(-1) < 0)
    receives = receives.drop_nulls("comm").with_columns(source="partner", target="me", open=wild)
    paired = (
        receives.filter(pl.col("partner") < 0),
        receives.join(there, on=["comm", "partner"], how="semi", maintain_order="left"),
    )
    receives = pl.concat(paired).sort("start_ns", "at")
    exact, anything = receives.filter(~pl.col("open")), receives.filter("open")
    sends_left, received = sends, exact.drop("open")
    if anything.height:
        streams = (
            sends.group_by(_STREAM)
            .agg(sent=pl.len())
            .join(exact.group_by(_STREAM).agg(received=pl.len()), on=_STREAM, how="left")
            .with_columns(pl.col("received").fill_null(0))
        )
        taken, fed = _wildcards(anything, streams)
        sends_left = (
            sends.join(taken, on=_STREAM, how="anti", maintain_order="left")
            if taken.height
            else sends
        )
        received = pl.concat([received, fed.drop("open")]).sort("start_ns", "at")
    pairs = _in_order(sends_left, received)
    lost.append(sends.join(pairs.select("at"), on="at", how="anti"))
    lost.append(receives.join(pairs.select(at="at_r"), on="at", how="anti"))
    return *every, pairs, pl.concat([frame.select(_ALONE) for frame in lost])


def _wildcards(anything: pl.DataFrame, streams: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the receives from any source or of any tag that only one stream can feed.

    Returns
    -------
    Ambiguous streams, some of whose messages may have gone to a wildcard; and the receives that
    have one possible stream, with its source and tag.
    """
    any_source, any_tag = pl.col("partner") < 0, pl.col("tag").fill_null(-1) < 0
    anything = anything.with_columns(
        partner=pl.when(any_source).then(-1).otherwise("partner"),
        tag=pl.when(any_tag).then(-1).otherwise("tag"),
    )
    pattern = ["comm", "target", "partner", "tag"]
    patterns = anything.group_by(pattern).agg(asked=pl.len())
    spare = streams.filter(pl.col("sent") > pl.col("received"))
    place = ["comm", "target"]
    many = (
        patterns.group_by(place)
        .agg(n=pl.len())
        .join(spare.group_by(place).agg(m=pl.len()), on=place)
    )
    beyond = many.filter(pl.col("n") * pl.col("m") > _MOST_COMPARED).select(place)
    fits = (
        patterns.join(beyond, on=place, how="anti")
        .join(spare, on=place, suffix="_s")
        .filter(
            any_source | (pl.col("partner") == pl.col("source")),
            any_tag | (pl.col("tag") == pl.col("tag_s")),
        )
        .with_columns(
            one=(pl.len().over(pattern) == 1)
            & (pl.len().over([*place, "source", "tag_s"]) == 1)
            & (pl.col("received") == 0)
            & (pl.col("sent") == pl.col("asked"))
        )
    )
    stream = pl.col("comm"), pl.col("source"), pl.col("target"), pl.col("tag_s").alias("tag")
    doubtful = fits.filter(~pl.col("one")).select(*stream).unique()
    taken = pl.concat([doubtful, spare.join(beyond, on=place, how="semi").select(_STREAM)])
    single = fits.filter("one").select(*pattern, "tag_s", from_=pl.col("source"))
    fed = anything.join(single, on=pattern, maintain_order="left").with_columns(
        source="from_", tag="tag_s"
    )
    return taken, fed.drop("tag_s", "from_")


def _in_order(sends: pl.DataFrame, receives: pl.DataFrame) -> pl.DataFrame:
    """Pair each send with its receive (columns with ``_r``): k-th with k-th of the stream.

    Where a stream has more of one side, the recording was cut.  Both sides are then counted from
    the beginning or from the end, whichever contradicts the times less.
    """
    keep = [
        *_STREAM,
        "at",
        "activity",
        "done",
        "start_ns",
        "done_until",
        "size_bytes",
        "does",
        "of",
        "memory",
    ]
    keyed = [
        frame.select(keep).with_columns(
            k=pl.int_range(pl.len()).over(_STREAM), last=pl.len().over(_STREAM)
        )
        for frame in (sends, receives)
    ]
    by_start = keyed[0].join(keyed[1], on=[*_STREAM, "k"], suffix="_r")
    unequal = by_start.filter(pl.col("last") != pl.col("last_r")).select(_STREAM).unique()
    against = (pl.col("start_ns") >= pl.col("done_until_r")).fill_null(False)
    if unequal.height:
        backward = [
            f.join(unequal, on=_STREAM, how="semi").with_columns(k=pl.col("last") - pl.col("k"))
            for f in keyed
        ]
        by_end = backward[0].join(backward[1], on=[*_STREAM, "k"], suffix="_r")
        wrong = (
            by_start.group_by(_STREAM)
            .agg(n=against.sum())
            .join(by_end.group_by(_STREAM).agg(m=against.sum()), on=_STREAM)
        )
        from_end = wrong.filter(pl.col("m") < pl.col("n")).select(_STREAM)
        by_start = pl.concat(
            [
                by_start.join(from_end, on=_STREAM, how="anti"),
                by_end.join(from_end, on=_STREAM, how="semi"),
            ]
        )
    # a message longer than what was received: not these two.  A Sendrecv of one row tells one of
    # its two sizes.
    one_row = (pl.col("does").str.contains(_BOTH) & (pl.col("of") == 1)) | (
        pl.col("does_r").str.contains(_BOTH) & (pl.col("of_r") == 1)
    )
    return by_start.filter(
        one_row | (pl.col("size_bytes") <= pl.col("size_bytes_r")).fill_null(True)
    )


# --- MPI: collectives -----------------------------------------------------------------------------


def collectives(
    calls: pl.DataFrame, members: pl.DataFrame, most_members: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Match the k-th collective of a communicator across its members, and return the collectives
    and the unmatched calls.
    """
    base = pl.col("does").str.replace(r"_init$", "")
    calls = calls.filter(pl.col("kind") == 1).with_columns(
        does=pl.when(base.is_in(KNOWN))
        .then(base)
        .otherwise(base.str.replace("^i", ""))
        .fill_null("")
    )
    lost = calls.filter(pl.col("comm").is_null())
    sizes = members.group_by("comm").agg(members=pl.col("me").n_unique())
    calls = (
        calls.drop_nulls("comm")
        .join(sizes, on="comm", maintain_order="left")
        .filter(pl.col("members") > 1)
    )
    calls = calls.with_columns(
        k=pl.int_range(pl.len()).over("comm", "me"), n=pl.len().over("comm", "me")
    )
    calls = _numbered(calls)
    group = ["comm", "k"]
    same = (pl.len() == pl.col("members").first()) & (pl.col("does").n_unique() == 1)
    rooted = pl.col("does").is_in([*FROM_ROOT, *TO_ROOT])
    complete = pl.col("does").is_in(KNOWN) & (~rooted | (pl.col("root") >= 0))
    calls = calls.with_columns(
        good=same.over(group)
        & complete.fill_null(False).all().over(group)
        & (pl.col("members") <= most_members)
    )
    return calls.filter("good"), pl.concat(
        [lost.select(_ALONE), calls.filter(~pl.col("good")).select(_ALONE)]
    )


def _numbered(calls: pl.DataFrame) -> pl.DataFrame:
    """Number the calls of each member, from the end if the recording was cut (the counts differ)
    and more calls agree in that way.
    """
    cut = calls.filter((pl.col("n").min() != pl.col("n").max()).over("comm"))
    if not cut.height:
        return calls
    back = cut.with_columns(k=pl.col("k") - pl.col("n") + pl.col("n").max().over("comm"))
    agree = (pl.col("does").n_unique() == 1) & (
        ~pl.col("does").first().is_in(ALL)
        | (pl.col("start_ns").max() < pl.col("done_until").min()).fill_null(True)
    )
    scores = [
        frame.group_by("comm", "k")
        .agg(agrees=agree & (pl.len() == pl.col("members").first()))
        .group_by("comm")
        .agg(pl.col("agrees").sum().alias(name))
        for frame, name in ((cut, "forth"), (back, "back"))
    ]
    better = (
        scores[0].join(scores[1], on="comm").filter(pl.col("back") > pl.col("forth")).select("comm")
    )
    return pl.concat(
        [calls.join(better, on="comm", how="anti"), back.join(better, on="comm", how="semi")]
    )
