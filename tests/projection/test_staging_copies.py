"""Copies that stage messages, and what GPUDirect makes of the run without them (decision 32)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from frames import frame
from mpi_rows import Row, call, recorded, thread
from strategies import D2H, DEVICE, H2D, PINNED

from turnbuckle.foundation.arrays import Int
from turnbuckle.profile.dependencies.sides import activities
from turnbuckle.profile.messages.staging_pairs import staging_pairs
from turnbuckle.profile.profile import build
from turnbuckle.projection.elsewhere.network import OnNetwork
from turnbuckle.projection.run import Run
from turnbuckle.questions.distance.question import tolerate
from turnbuckle.trace.ids import process_of
from turnbuckle.trace.read import read
from turnbuckle.trace.trace import Trace

US = 1_000
#: Time of each copy that is put before a send [ns].
COPY_NS = 2_000_000


def copy(rank: int, start: int, end: int, size: int, correlation: int, direction: int = D2H) -> Row:
    """A copy of a rank [us]."""
    ends = (DEVICE, PINNED) if direction == D2H else (PINNED, DEVICE)
    place = {
        "process": process_of(thread(rank)),
        "device": rank,
        "context": 1,
        "stream": 7,
        "correlation": correlation,
    }
    copy = {
        "size_bytes": size,
        "direction": direction,
        "source_memory": ends[0],
        "target_memory": ends[1],
    }
    return {"start_ns": start * US, "end_ns": end * US, **place, **copy}


def memcpy(rank: int, start: int, end: int, correlation: int) -> Row:
    """The host call of a copy [us]."""
    own = thread(rank)
    return {
        "start_ns": start * US,
        "end_ns": end * US,
        "process": process_of(own),
        "thread": own,
        "correlation": correlation,
        "name": "cudaMemcpy",
        "result": 0,
        "level": 0,
    }


def staged(
    sizes: tuple[int, ...] = (4096,),
    sent: tuple[int, ...] = (4096,),
    back: tuple[int, ...] = (4096,),
) -> Trace:
    """Rank 0 copies to its host and sends; rank 1 receives and copies to its device: 100 us a copy,
    10 us a message.
    """
    rows, api, copies, now, number = [], [], [], 0, 1
    for size in sizes:
        api.append(memcpy(0, now, now + 102, number))
        copies.append(copy(0, now + 1, now + 101, size, number))
        now, number = now + 103, number + 1
    for tag, size in enumerate(sent):
        rows.append(call(0, "Send", now * US, (now + 1) * US, partner=1, tag=tag, size_bytes=size))
        rows.append(
            call(
                1,
                "Recv",
                (now - 1) * US if tag else 0,
                (now + 10) * US,
                partner=0,
                tag=tag,
                size_bytes=size,
            )
        )
        now += 12
    for size in back:
        api.append(memcpy(1, now, now + 102, number))
        copies.append(copy(1, now + 1, now + 101, size, number, H2D))
        now, number = now + 103, number + 1
    return recorded(*rows, api=api, copies=copies)


def pairs_of(trace: Trace) -> list[tuple[int, int, bool]]:
    """Pairs as bytes of the copy, and of the message, and whether it was sent."""
    rows = activities(build(trace))
    pairs = staging_pairs(rows, trace)
    size = rows["size_bytes"].to_numpy()
    message = dict(
        zip(rows["row"].filter(rows["category"] == "mpi"), trace.mpi["size_bytes"], strict=True)
    )
    row = rows["row"].to_numpy()
    return sorted(
        (int(size[c]), int(message[row[m]]), bool(s))
        for c, m, s in zip(pairs.copy, pairs.call, pairs.sends, strict=True)
    )


def test_a_message_straight_from_device_memory_is_staged_by_nothing() -> None:
    """The copy before the send moves something else, where the send's own buffer is recorded in
    device memory.
    """
    trace = staged()
    assert pairs_of(trace) == [(4096, 4096, False), (4096, 4096, True)]
    sends = trace.text(trace.mpi.select("name")).str.contains("Send")
    for place, count in ((DEVICE, 1), (PINNED, 2)):
        memory = pl.when(pl.lit(sends)).then(place).otherwise(None).cast(pl.Int8)
        placed = replace(
            trace, tables={**trace.tables, "mpi": trace.mpi.with_columns(memory=memory)}
        )
        assert len(pairs_of(placed)) == count


def test_a_copy_stages_the_send_after_it_and_the_receive_before_it() -> None:
    assert pairs_of(staged()) == [(4096, 4096, False), (4096, 4096, True)]
    assert pairs_of(staged((4096, 8), (8, 4096), ())) == [(8, 8, True), (4096, 4096, True)]
    assert pairs_of(staged((4096,), (1024, 3072), (2048, 2048))) == [
        (4096, 1024, True),
        (4096, 3072, True),
    ]
    assert pairs_of(staged((1024, 3072), (4096,), (4096,))) == [
        (1024, 4096, True),
        (3072, 4096, True),
        (4096, 4096, False),
    ]


def test_other_bytes_another_process_or_another_order_stage_nothing() -> None:
    assert pairs_of(staged((4097,), (4096,), (4095,))) == []
    trace = staged((4096,), (4096,), ())
    moved = trace.copies.with_columns(process=pl.lit(process_of(thread(1)), pl.Int64))
    assert pairs_of(replace(trace, tables={**trace.tables, "copies": moved})) == []
    late = trace.copies.with_columns(
        start_ns=pl.col("start_ns") + 500 * US, end_ns=pl.col("end_ns") + 500 * US
    )
    assert pairs_of(replace(trace, tables={**trace.tables, "copies": late})) == []


def test_a_second_send_of_the_same_bytes_has_no_copy_of_its_own() -> None:
    assert pairs_of(staged((4096,), (4096, 4096), ())) == [(4096, 4096, True)]


def test_gpudirect_drops_the_copies_and_nothing_else() -> None:
    """Of 103 us before the send and 105 after the receive the copies' 200 us, and the 1 us until
    each begins.
    """
    answer = Run.of(build(staged())).project("self", draws=0).projections[0].staging
    assert answer is not None
    assert (answer.copies, answer.sends, answer.receives, answer.size_bytes) == (2, 1, 1, 8192)
    assert answer.measured_seconds == pytest.approx(200e-6) == answer.seconds
    run = Run.of(build(staged()))
    assert run.seconds - answer.gpudirect_seconds == pytest.approx(202e-6, abs=1e-9)
    assert answer.verdict == "helps" and answer.low < answer.gain == answer.high
    assert run.seconds / (answer.gpudirect_seconds + 4e-6) - 1 == pytest.approx(answer.low)
    assert answer.decides == "memory pinned for each message"


def test_the_replay_of_messages_says_that_copies_were_recorded() -> None:
    """It charges copies of its own, so whoever asks it is told where the recorded ones are
    priced.
    """
    found = {f.code: f.count for f in Run.of(build(staged())).messages([1]).findings}
    assert found["A382"] == 2
    assert "A382" not in {
        f.code for f in Run.of(build(staged((8,), (9,), ()))).messages([1]).findings
    }


def test_the_gpu_stands_farther_on_another_network() -> None:
    """The distance of the GPU on another network begins with the run that `project` names there."""
    run, asked = Run.of(build(staged())), OnNetwork("self", ("hop_seconds=1 ms",))
    curve = tolerate(run, "link", network=asked).curve
    assert float(curve.seconds[0]) == pytest.approx(
        run.project(network=asked, draws=0).projections[0].seconds, abs=1e-12
    )
    assert curve.seconds[-1] > curve.seconds[0] + 0.1


def test_on_another_network_both_are_one_answer() -> None:
    """A slower network makes the run longer with and without the copies, and drops out of their
    difference.
    """
    run = Run.of(build(staged()))
    near, far = (
        run.project(network=OnNetwork("self", words), draws=0).projections[0]
        for words in ((), ("hop_seconds=1 ms",))
    )
    assert near.staging is not None and far.staging is not None and far.network is not None
    assert far.seconds - near.seconds > 1e-3
    assert far.seconds - far.staging.gpudirect_seconds == pytest.approx(
        near.seconds - near.staging.gpudirect_seconds, abs=1e-9
    )


def test_in_one_memory_there_is_nothing_to_drop() -> None:
    mega = (1 << 20,)
    p = (
        Run.of(build(staged(mega, mega, mega)))
        .project("mi300a", draws=0)
        .projections[0]
        .by_coupling
    )
    assert p.staging is not None and p.staging.seconds == 0.0
    assert (p.staging.gain, p.staging.ends, p.staging.verdict) == (
        0.0,
        (0.0, 0.0),
        "makes no difference",
    )
    assert p.staging.gpudirect_seconds == p.seconds


def with_copies(trace: Trace, sends: int) -> Trace:
    """Put a copy before the last sends of rank 0 of a ping-pong; what a rank does after that, or
    after the message, comes later.
    """
    names = trace.text(trace.mpi)
    rank = trace.mpi.join(trace.mpi_ranks, on="thread", how="left", maintain_order="left")["rank"]
    frame_of = trace.mpi.with_columns(text=names, rank=rank)
    sent = frame_of.filter(pl.col("text") == "MPI_Send", pl.col("rank") == 0).sort("start_ns")[
        -sends:
    ]
    got = frame_of.filter(pl.col("text") == "MPI_Recv", pl.col("rank") == 1).sort("start_ns")[
        -sends:
    ]
    assert sent["size_bytes"].to_list() == got["size_bytes"].to_list()

    def shifted(times: pl.Series, ranks: pl.Series) -> pl.Series:
        """Each instant by a copy for each send that came before it: on rank 1 once its message has
        been received.
        """
        counts = [
            np.searchsorted(np.sort(ends.to_numpy()), times.to_numpy(), side="right")
            for ends in (sent["start_ns"], got["end_ns"])
        ]
        count: Int = np.where(ranks.to_numpy() == 0, *counts)
        return pl.Series(times.name, times.to_numpy() + COPY_NS * count)

    mpi = trace.mpi.with_columns(*(shifted(trace.mpi[c], rank) for c in ("start_ns", "end_ns")))
    ends = shifted(sent["start_ns"], sent["rank"]).to_list()
    about = [
        {"process": process_of(t), "correlation": k}
        for k, t in enumerate(sent["thread"].to_list(), 1)
    ]
    place = {
        "device": 0,
        "context": 1,
        "stream": 7,
        "direction": D2H,
        "source_memory": DEVICE,
        "target_memory": PINNED,
    }
    copies = [
        {**a, **place, "start_ns": e - COPY_NS + US, "end_ns": e - US, "size_bytes": n}
        for a, e, n in zip(about, ends, sent["size_bytes"].to_list(), strict=True)
    ]
    name = {"name": len(trace.names), "result": 0, "level": 0}
    api = [
        {**a, **name, "start_ns": e - COPY_NS, "end_ns": e, "thread": t}
        for a, e, t in zip(about, ends, sent["thread"].to_list(), strict=True)
    ]
    tables = {
        **trace.tables,
        "mpi": mpi,
        "copies": frame("copies", copies),
        "api": frame("api", api),
    }
    longer = pl.concat([trace.names, pl.Series(trace.names.name, ["cudaMemcpy"])])
    return replace(trace, names=longer, tables=tables)


def test_five_copies_before_the_sends_of_a_recording_change_the_answer(shared: Path) -> None:
    """2 ms each before five sends of a real ping-pong (two ranks, Score-P): the run is 10 ms
    longer, and GPUDirect gives them back.
    """
    trace = read(shared / "traces/otf2/pingpong_2rank/traces.otf2", use_cache=False)
    plain, run = Run.of(build(trace)), Run.of(build(with_copies(trace, 5)))
    assert plain.project("self", draws=0).projections[0].staging is None
    assert run.seconds - plain.seconds == pytest.approx(5 * COPY_NS * 1e-9)
    for network in (None, "self"):
        answer = run.project("self", draws=0, network=network).projections[0]
        assert answer.seconds == run.seconds and answer.staging is not None
        found = answer.staging
        assert (found.copies, found.sends, found.receives) == (
            5,
            5,
            0,
        ) and found.measured_seconds == pytest.approx(9.99e-3)
        # a receive that waited counts as its own what passed after the send began, unless a network
        # says what of it is the message
        off = 1e-3 if network is None else 2e-4
        assert (
            found.gpudirect_seconds == pytest.approx(plain.seconds, abs=off)
            and found.gpudirect_seconds >= plain.seconds - 1e-9
        )
        assert found.verdict == "helps" and found.share == pytest.approx(9.99e-3 / run.seconds)
