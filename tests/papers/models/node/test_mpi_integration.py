"""Shares of an MPI run: each rule on a recording of a few calls, laws on any, and counts that are
known on real ones.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.papers.models.node.cost import fraction_speedup
from turnbuckle.papers.models.node.question import (
    Communication,
    closer,
    communication,
    off_node_share,
    quickest_messages,
)
from turnbuckle.profile.profile import Profile, build
from turnbuckle.trace.read import read

Row = dict[str, Any]
P2P, COLLECTIVE, WAIT, OTHER = range(4)


def thread(rank: int) -> int:
    return ((100 + rank) << 24) + 1


def call(rank: int, name: str, start: int, end: int, **more: Any) -> Row:
    """One row of the table ``mpi`` on the world's communicator."""
    words = {"send": P2P, "recv": P2P, "wait": WAIT, "test": WAIT, "init": OTHER, "finalize": OTHER}
    kind = next((k for word, k in words.items() if word in name.lower()), COLLECTIVE)
    about = {"communicator": 7 + 1000 * rank} if kind <= COLLECTIVE else {}
    return {
        "thread": thread(rank),
        "start_ns": start,
        "end_ns": end,
        "kind": kind,
        "name": "MPI_" + name,
        **about,
        **more,
    }


def run(
    *calls: Row, ranks: int = 4, known: bool = True, world: int = 0, made: tuple[Row, ...] = ()
) -> Profile:
    """A profile of some calls; `known` records ranks and communicators, of a `world` of which
    `ranks` were recorded.
    """
    names = sorted({c["name"] for c in calls})
    rows: dict[str, list[Row]] = {"mpi": [{**c, "name": names.index(c["name"])} for c in calls]}
    if known:
        rows["mpi_ranks"] = [{"thread": thread(r), "rank": r} for r in range(ranks)]
        about = {"time_ns": 1, "parent": 0, "size": world or ranks}
        rows["mpi_communicators"] = [
            {"rank": r, "communicator": 7 + 1000 * r, "local_rank": r, **about}
            for r in range(ranks)
        ]
        rows["mpi_communicators"] += made
    return build(
        replace(strategies.trace_of(rows), names=pl.Series("name", names, dtype=pl.String))
    )


def to(rank: int, size: int = 100) -> Row:
    return {"partner": rank, "tag": 5, "size_bytes": size}


def session(ranks: int = 4, end: int = 1_000) -> list[Row]:
    """Every rank's MPI_Init and MPI_Finalize around 10 .. end."""
    return [
        c
        for r in range(ranks)
        for c in (call(r, "Init", 0, 10), call(r, "Finalize", end, end + 50))
    ]


# --- shares ---------------------------------------------------------------------------------------


def test_what_a_run_spends() -> None:
    of = communication(
        run(
            *session(2, 110),
            call(0, "Send", 20, 40, **to(1)),
            call(1, "Recv", 20, 30, **to(0)),
            call(0, "Allreduce", 50, 60, size_bytes=16),
            call(1, "Allreduce", 50, 60, size_bytes=16),
            call(0, "Barrier", 70, 75),
            call(1, "Barrier", 70, 75),
            ranks=2,
        )
    )
    assert of.ranks == 2 and of.seconds == pytest.approx(100e-9), (
        "between MPI_Init and MPI_Finalize"
    )
    assert of.share == pytest.approx(60 / 200)
    assert (of.p2p, of.collectives, of.synchronising) == pytest.approx((30 / 60, 20 / 60, 10 / 60))
    assert of.p2p_volume == pytest.approx(100 / 132)
    assert of.messages.rows() == [(0, 1, 100)]
    assert dict(of.functions.select("function", "what").iter_rows()) == {
        "MPI_Send": "p2p",
        "MPI_Recv": "p2p",
        "MPI_Allreduce": "collective",
        "MPI_Barrier": "synchronising",
    }


def test_a_wait_is_what_it_completes() -> None:
    of = communication(
        run(
            call(0, "Isend", 0, 1, request=1, **to(1)),
            call(0, "Wait", 2, 12, request=1),
            call(0, "Iallreduce", 20, 21, request=2, size_bytes=8),
            call(0, "Wait", 22, 42, request=2),
            call(1, "Recv", 0, 5, **to(0)),
            call(1, "Iallreduce", 20, 21, request=3, size_bytes=8),
            call(1, "Wait", 22, 42, request=3),
            ranks=2,
        )
    )
    assert dict(
        of.functions.group_by("what").agg(pl.col("seconds").sum()).iter_rows()
    ) == pytest.approx({"p2p": 16e-9, "collective": 42e-9})


def test_sendrecv_to_two_partners_sends_one_message() -> None:
    of = communication(
        run(
            call(0, "Sendrecv", 5, 5, **to(1, 100)),
            call(0, "Sendrecv", 5, 9, **to(3, 70)),
            call(1, "Sendrecv_replace", 0, 9, **to(2, 50)),
        )
    )
    assert sorted(of.messages.rows()) == [(0, 1, 100), (1, 2, 50)]


def test_partners_are_told_in_the_world() -> None:
    """A split communicator has ranks of its own."""
    made = [
        {
            "rank": r,
            "time_ns": 5,
            "communicator": 9 + 1000 * r,
            "parent": 7 + 1000 * r,
            "local_rank": 1 - r,
            "size": 2,
        }
        for r in (0, 1)
    ]
    profile = run(
        call(0, "Send", 10, 20, **{**to(0), "communicator": 9}),
        call(1, "Recv", 10, 20, **{**to(1), "communicator": 1009}),
        ranks=2,
    )
    told = pl.concat(
        [
            profile.trace.mpi_communicators,
            pl.DataFrame(made, schema_overrides=dict(profile.trace.mpi_communicators.schema)),
        ],
        how="diagonal",
    )
    told = told.select(profile.trace.mpi_communicators.columns)
    tables = {**profile.trace.tables, "mpi_communicators": told}
    of = communication(build(replace(profile.trace, tables=tables)))
    assert of.messages.rows() == [(0, 1, 100)], (
        "rank 0 of the split communicator is rank 1 of the world"
    )


def test_one_rank_of_many() -> None:
    """A recording of one rank names its partners in the world, and in a duplicate of it; not in
    what was split.
    """
    twin = {"rank": 0, "time_ns": 5, "communicator": 70, "parent": 7}
    part = {"rank": 0, "time_ns": 6, "communicator": 71, "parent": 7, "local_rank": 0, "size": 4}
    sends = [
        call(0, "Send", 100 * k, 100 * k + 50, **{**to(partner, 10**k), "communicator": handle})
        for k, (partner, handle) in enumerate(((1, 7), (4, 70), (2, 71), (9, 7)))
    ]
    reduced = call(0, "Allreduce", 600, 700, size_bytes=8)
    profile = run(*session(1), *sends, reduced, ranks=1, world=8, made=(twin, part))
    of = communication(profile)
    assert (of.ranks, of.world) == (1, 8)
    assert of.messages.rows() == [(0, 1, 1), (0, 4, 10), (0, None, 100), (0, None, 1000)], (
        "no rank 9 in a world of 8"
    )
    assert of.collective_calls["members"].to_list() == [8]
    found = closer(profile, ranks_per_node=4, bandwidth_ratio=8, on_node_factor=2)
    assert found.gpus_per_node == 8 and found.off_node == pytest.approx(10 / 11)
    assert [(p.on_node, p.stages) for p in found.parts] == [(pytest.approx(1 / 11), 1), (2, 3)]
    assert [(f.code, f.count) for f in found.findings] == [("A342", 2)]


# --- placement ------------------------------------------------------------------------------------

messages = st.lists(
    st.tuples(st.integers(0, 15), st.integers(0, 15), st.integers(0, 10**9)), max_size=30
).map(
    lambda rows: pl.DataFrame(
        rows, schema={"source": pl.Int64, "target": pl.Int64, "size_bytes": pl.Int64}, orient="row"
    )
)


@strategies.LAW
@given(messages, st.integers(1, 16), st.integers(1, 4), st.sampled_from(["linear", "round robin"]))
def test_shares_lie_between_none_and_all(
    sent: pl.DataFrame, per_node: int, times: int, mapping: Any
) -> None:
    leaves = off_node_share(sent, per_node, mapping=mapping)
    moved = off_node_share(sent, per_node, then=16, mapping=mapping)
    assert 0 <= leaves <= 1 and moved == pytest.approx(leaves), (
        "all of it, once one node holds all ranks"
    )
    assert (
        off_node_share(sent, 16, mapping=mapping)
        == 0
        == off_node_share(sent, per_node, then=per_node, mapping=mapping)
    )
    if mapping == "linear":
        assert off_node_share(sent, per_node * times) <= leaves + 1e-12, (
            "nodes that hold whole old nodes"
        )
        total = sum(b for _, _, b in sent.rows())
        assert leaves == pytest.approx(
            sum(b for s, t, b in sent.rows() if s // per_node != t // per_node) / total
            if total
            else 0
        )


def test_nodes_of_a_cyclic_placement() -> None:
    sent = pl.DataFrame({"source": [0, 0], "target": [2, 4], "size_bytes": [1, 3]})
    assert off_node_share(sent, 2, mapping="round robin") == 1, "three nodes for ranks up to 4"
    assert off_node_share(sent, 2, mapping="round robin", ranks=8) == 0.25, (
        "four nodes for eight: 0 and 4 share one"
    )


def test_messages_without_an_end_are_left_out() -> None:
    sent = pl.DataFrame(
        {"source": [0, 0, None], "target": [1, None, 1], "size_bytes": [5, 50, 500]}
    )
    assert off_node_share(sent, 1) == 1 and off_node_share(sent, 2) == 0


@st.composite
def mpi_runs(draw: st.DrawFn) -> Profile:
    """Ranks that send, wait and reduce at any time."""
    calls: list[Row] = []
    for rank in range(4):
        at = 10
        for kind, length, size, other in draw(
            st.lists(
                st.tuples(
                    st.integers(0, 3), st.integers(0, 50), st.integers(0, 9), st.integers(0, 3)
                )
            )
        ):
            name = ("Send", "Recv", "Allreduce", "Barrier")[kind]
            about = to(other, size) if kind < 2 else {"size_bytes": size} if kind == 2 else {}
            calls.append(call(rank, name, at, at + length, **about))
            at += length + draw(st.integers(0, 20))
    return run(*session(4, 10_000), call(0, "Send", 10, 10, **to(1, 0)), *calls)


@strategies.FEWER
@given(mpi_runs(), st.integers(1, 4), st.floats(1, 100), st.floats(1, 10))
def test_any_run_gains_between_nothing_and_its_bound(
    profile: Profile, per_node: int, ratio: float, factor: float
) -> None:
    of = communication(profile)
    for share in (of.share, of.p2p, of.collectives, of.synchronising, of.p2p_volume):
        assert 0 <= share <= 1
    assert of.p2p + of.collectives + of.synchronising == pytest.approx(
        1.0 if of.share else of.p2p + of.collectives + of.synchronising
    )
    found = closer(profile, ranks_per_node=per_node, bandwidth_ratio=ratio, on_node_factor=factor)
    assert (
        found.speedup is not None
        and found.speedup_bound is not None
        and found.share_then is not None
        and found.share_all is not None
    )
    assert 1 - 1e-12 <= found.speedup <= found.speedup_bound * (
        1 + 1e-12
    ) and found.speedup == pytest.approx(found.speedup_all)
    assert (
        found.share_all <= found.share_then + 1e-12
        and found.share_all >= 0
        and found.share_then <= 1
    )
    paths = ((2e-9, 1e9), (1e-9, 8e9))
    told = closer(profile, ranks_per_node=per_node, paths=paths, on_node_factor=factor)
    assert (
        told.speedup_bytes is not None
        and told.speedup is not None
        and told.speedup_bytes <= told.speedup * (1 + 1e-12)
    )
    assert (
        told.share_bytes is not None
        and told.share_then is not None
        and told.share_then - 1e-12 <= told.share_bytes <= 1
    )


# --- the answer -----------------------------------------------------------------------------------


def ring(size: int = 1_000) -> Profile:
    """Four ranks, each sends to the next, 500 ns of 990."""
    return run(*session(), *(call(r, "Send", 100, 600, **to((r + 1) % 4, size)) for r in range(4)))


def test_a_ring_on_larger_nodes() -> None:
    found = closer(ring(), ranks_per_node=1, gpus_per_node=2, bandwidth_ratio=10)
    assert found.off_node == 1 and found.moved == 0.5, "two of four links come to lie on a node"
    assert found.speedup == pytest.approx(float(fraction_speedup(500 / 990, 1, 0.5, 10)))
    assert found.speedup_bound == pytest.approx(1 / (1 - 250 / 990))
    assert found.speedup_all == pytest.approx(float(fraction_speedup(500 / 990, 1, 1, 10)))
    assert found.share_then is None and found.as_dict()["stages"] is None
    assert found.as_dict()["fractions"]["speedup"] == found.speedup


def test_the_bytes_alone() -> None:
    """1000 B at 10 B/ns take 100 of the 500 ns in MPI; the rest is waiting."""
    found = closer(ring(), ranks_per_node=2, paths=((0.0, 10e9), (0.0, 100e9)))
    assert found.bandwidth_ratio == pytest.approx(10)
    assert found.speedup_bytes == pytest.approx(1 / (1 - 0.5 * 100 / 990 * 0.9))
    slow = closer(ring(), ranks_per_node=2, paths=((0.0, 1e9), (0.0, 10e9)))
    assert slow.speedup_bytes == slow.speedup, "never more than the time in MPI"


def test_the_quickest_message_tells_what_bytes_take() -> None:
    """The second message waits for no rank: 200 B in 20 ns, so the first took no more of its 600;
    300 B are as fast as the third.
    """
    sizes = ((200, 100, 700), (200, 800, 820), (300, 830, 930))
    calls = [
        row
        for n, begin, end in sizes
        for row in (
            call(0, "Send", begin, begin + 10, **to(1, n)),
            call(1, "Recv", begin, end, **to(0, n)),
        )
    ]
    profile = run(*session(2), *calls, ranks=2)
    quickest = quickest_messages(profile.trace)
    assert quickest is not None
    assert quickest(np.array([1.0, 200.0, 300.0, 301.0])).tolist() == pytest.approx(
        [20e-9, 20e-9, 100e-9, math.inf]
    )
    found = closer(profile, ranks_per_node=1, bandwidth_ratio=2.0, on_node_factor=2.0)
    busy = (20 + 20 + 100) / (2 * 990)
    assert found.bytes_from == "recording" and found.speedup_bytes == pytest.approx(
        1 / (1 - busy / 2)
    )
    assert found.share_bytes == 1.0 and found.share_all_bytes == pytest.approx(1 - busy / 2), (
        "no message stays on a node of one rank"
    )
    stages = found.as_dict()["stages"]
    assert stages["gain_of_bytes"] == 0.0 and stages["gain_of_bytes_all_on_node"] == pytest.approx(
        1 / (1 - busy / 2) - 1
    )
    skewed = run(
        *session(2), call(0, "Send", 100, 110, **to(1)), call(1, "Recv", 50, 90, **to(0)), ranks=2
    )
    assert quickest_messages(skewed.trace) is None, "clocks that do not agree tell nothing"
    told = closer(skewed, ranks_per_node=1, bandwidth_ratio=2.0, on_node_factor=2.0)
    assert (told.bytes_from, told.speedup_bytes, told.share_bytes) == (None, None, None)


def test_stages_of_a_collective_are_messages() -> None:
    """Two stages of 100 B, each as quick as the one message of 100 B: 2 x 10 ns of the 200 on every
    rank.
    """
    message = (call(0, "Send", 50, 60, **to(1, 100)), call(1, "Recv", 50, 60, **to(0, 100)))
    reduced = [call(r, "Allreduce", 100, 300, size_bytes=100) for r in range(4)]
    found = closer(run(*session(), *message, *reduced), ranks_per_node=4, on_node_factor=math.inf)
    assert found.share_all_bytes == pytest.approx(1 - (4 * 2 * 10 + 10) / (4 * 990))


def test_small_messages_keep_their_time() -> None:
    profile = run(
        *session(), call(0, "Send", 100, 200, **to(1, 900)), call(1, "Send", 300, 400, **to(2, 100))
    )
    found = closer(profile, ranks_per_node=1, bandwidth_ratio=math.inf, least_bytes=500)
    whole = closer(profile, ranks_per_node=1, bandwidth_ratio=math.inf)
    assert found.of.share == whole.of.share and found.speedup == pytest.approx(
        1 / (1 - found.of.share * 0.9)
    )
    assert closer(ring(10), ranks_per_node=1, bandwidth_ratio=8, least_bytes=500).speedup == 1


def test_stages_of_collectives() -> None:
    reduced = [call(r, "Allreduce", 100, 300, size_bytes=64) for r in range(4)]
    barriers = [call(r, "Barrier", 400, 500) for r in range(4)]
    found = closer(run(*session(), *reduced, *barriers), ranks_per_node=2, on_node_factor=2)
    (part,) = found.parts
    assert (part.on_node, part.stages) == (1, 2) and part.share == pytest.approx(200 / 990), (
        "a barrier moves nothing"
    )
    assert found.share_then == pytest.approx(
        1 - 200 / 990 / 4
    ) and found.share_all == pytest.approx(1 - 200 / 990 / 2)
    assert found.speedup is None and found.as_dict()["fractions"] is None


def test_partners_that_nobody_knows() -> None:
    profile = run(
        call(0, "Send", 0, 50, **to(1)), call(1, "Recv", 0, 100, **to(0)), ranks=2, known=False
    )
    assert "--off-node" in refused("A154", closer, profile, ranks_per_node=1, bandwidth_ratio=8).fix
    assert closer(profile, ranks_per_node=1, bandwidth_ratio=8, off_node=0.5).moved == 0.5
    silent = run(call(0, "Send", 0, 50), call(1, "Recv", 0, 100), ranks=2)
    refused("A154", closer, silent, ranks_per_node=1, bandwidth_ratio=8)


def test_some_partners_unknown_is_a_finding() -> None:
    elsewhere = call(0, "Send", 60, 70, **{**to(1), "communicator": 99})
    profile = run(
        call(0, "Send", 0, 50, **to(1)), elsewhere, call(1, "Recv", 0, 100, **to(0)), ranks=2
    )
    found = closer(profile, ranks_per_node=1, bandwidth_ratio=8)
    assert [(f.code, f.count) for f in found.findings] == [("A342", 1)] and found.off_node == 1


def test_no_mpi() -> None:
    kernel = {
        "start_ns": 0,
        "end_ns": 9,
        "process": 1 << 24,
        "device": 0,
        "context": 1,
        "stream": 7,
        "name": 0,
    }
    for profile in (build(strategies.trace_of({"kernels": [kernel]})), run(*session())):
        assert refused("A153", communication, profile).exit_code == 3


@pytest.mark.parametrize(
    ("code", "asked"),
    [
        ("A035", {}),
        ("A037", {"bandwidth_ratio": 0.0}),
        ("A037", {"bandwidth_ratio": math.nan}),
        ("A037", {"on_node_factor": -1.0}),
        ("A037", {"bandwidth_ratio": 2.0, "ranks_per_node": 0}),
        ("A037", {"bandwidth_ratio": 2.0, "gpus_per_node": 0}),
        ("A037", {"bandwidth_ratio": 2.0, "ranks_per_node": 4, "gpus_per_node": 2}),
        ("A037", {"paths": ((-1.0, 1e9), (0.0, 1e9))}),
        ("A037", {"paths": ((0.0, 1e9), (0.0, 0.0))}),
        ("A037", {"bandwidth_ratio": 2.0, "least_bytes": -1.0}),
        ("A036", {"bandwidth_ratio": 2.0, "off_node": 1.5}),
        ("A036", {"bandwidth_ratio": 2.0, "off_node": math.nan}),
    ],
)
def test_what_is_refused(code: str, asked: dict[str, Any]) -> None:
    refused(code, closer, ring(), **{"ranks_per_node": 1, **asked})


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "ranks", "sent", "size_bytes"),
    [
        ("lammps-melt-4r", 4, 8136 + 312, 120_263_040 + 1_248),
        ("halo-py-4r", 4, 1600, 1600 * 2048),
        ("cannon-py-4r", 4, 20, 2_621_440),
        ("p2pkinds-2r", 2, 72, 491_000),
    ],
)
def test_known_messages(shared: Path, name: str, ranks: int, sent: int, size_bytes: int) -> None:
    of: Communication = communication(
        build(read(shared / f"traces/nsys-local/{name}.sqlite", use_cache=False))
    )
    assert of.ranks == ranks and (of.messages.height, of.messages["size_bytes"].sum()) == (
        sent,
        size_bytes,
    )
    assert of.messages.null_count().row(0) == (0, 0, 0), "every partner is told in the world"
    assert 0 < of.share < 1 and of.p2p + of.collectives + of.synchronising == pytest.approx(1)
    assert off_node_share(of.messages, 1) == 1 and off_node_share(of.messages, ranks) == 0
