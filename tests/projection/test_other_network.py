"""Runs on another network: kernels, copies, calls and messages in one graph (decision 32)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpi_rows import Row, call, child, recorded, thread
from runs import run_of
from strategies import FEWER

from turnbuckle.foundation.errors import CannotAnswer, TurnbuckleError
from turnbuckle.mpi.questions.messages.question import replayed
from turnbuckle.mpi.questions.messages.setup import Setup
from turnbuckle.mpi.replay.messages import recorded as traffic_of
from turnbuckle.profile.profile import build
from turnbuckle.projection.elsewhere.network import OnNetwork
from turnbuckle.projection.order import on_network
from turnbuckle.projection.projection import Projection
from turnbuckle.projection.run import Run
from turnbuckle.replay.timeline import no_change
from turnbuckle.trace.ids import process_of
from turnbuckle.trace.trace import Trace

US = 1_000


def message(
    source: int,
    target: int,
    sent: int,
    posted: int,
    arrived: int,
    size: int = 4096,
    name: str = "Send",
) -> list[Row]:
    """A send that returns at once, and a receive that returns when the message has arrived [us]."""
    return [
        call(source, name, sent * US, (sent + 1) * US, partner=target, tag=0, size_bytes=size),
        call(target, "Recv", posted * US, arrived * US, partner=source, tag=0, size_bytes=size),
    ]


def ping_pong(sizes: Sequence[int] = (4096,) * 6, work: int = 5, takes: int = 10) -> Trace:
    """Two ranks that send a message to and fro, each under way for as long, with work between
    [us].
    """
    rows, now, ready = [], 0, [0, 0]
    for k, size in enumerate(sizes):
        source, target = k % 2, 1 - k % 2
        rows += message(source, target, now, ready[target], now + takes, size)
        ready[source], ready[target] = now + 1, now + takes
        now += takes + work
    return recorded(*rows)


def ran(trace: Trace) -> Run:
    return Run.of(build(trace))


def on(run: Run, *settings: str, name: str = "self", source: str = "") -> Projection:
    return run.project(network=OnNetwork(name, settings, source), draws=0).projections[0]


def added(seconds: float, run: Run) -> tuple[str, ...]:
    """The recording's own network with a latency that is so much longer."""
    p = on(run)
    assert p.network is not None
    return (f"hop_seconds={(p.network.source.latency_s + seconds) / 2!r} s",)


def test_every_message_of_a_chain_takes_as_much_longer() -> None:
    run = ran(ping_pong())
    plain = on(run)
    assert (
        plain.seconds == plain.measured_seconds == plain.kept_network_seconds
        and plain.network is not None
    )
    assert (
        plain.network.messages == plain.network.fitted == 6
        and plain.network.source.latency_s == pytest.approx(9e-6)
    )
    for extra in (1e-6, 1e-4):
        longer = on(run, *added(extra, run))
        assert longer.seconds - longer.measured_seconds == pytest.approx(6 * extra, rel=1e-9)
        assert longer.envelope == pytest.approx((longer.measured_seconds, longer.seconds))
        assert longer.change["other"] == pytest.approx(6 * extra)
    shorter = on(run, "hop_seconds=0 s")
    assert shorter.measured_seconds - shorter.seconds == pytest.approx(6 * 9e-6)


def test_a_changed_graph_with_the_same_edges_keeps_the_network() -> None:
    run = ran(ping_pong())
    ready = on_network(run.between, run.ordered, OnNetwork("self", ("hop_seconds=1 ms",)))
    assert ready.timeline is not None
    change = replace(no_change(len(ready.run)), network=np.ones(1))
    again = ready.timeline.on(ready.timeline.graph)
    assert again.seconds(change) == ready.timeline.seconds(change) > again.unchanged_seconds + 1e-3


def test_work_that_covers_a_message_hides_its_latency() -> None:
    """A receive 99 us after the send: the message would have arrived after 2 us and 4096 B at 12.5
    GB/s, and takes 1 us to hand over.
    """
    run = ran(recorded(*message(0, 1, 0, 99, 100)))
    hidden, seen = (
        on(run, f"hop_seconds={0.5e-6 + extra / 2!r} s", name="lassen", source="lassen")
        for extra in (90e-6, 119e-6)
    )
    assert hidden.seconds == hidden.measured_seconds
    assert seen.seconds - seen.measured_seconds == pytest.approx(
        119e-6 + 2e-6 + 4096 / 12.5e9 - 99e-6, abs=2e-9
    )


def test_a_rendezvous_waits_on_both_sides() -> None:
    """A synchronous send returns when its message has gone: it takes as much longer as the
    message.
    """
    rows = [
        call(0, "Ssend", 0, 50 * US, partner=1, tag=0, size_bytes=4096),
        call(1, "Recv", 40 * US, 51 * US, partner=0, tag=0, size_bytes=4096),
        *message(0, 1, 60, 55, 70),
    ]
    run = ran(recorded(*rows))
    p = on(run, *added(1e-3, run))
    assert p.seconds - p.measured_seconds == pytest.approx(2e-3)


def test_a_collective_takes_longer_by_its_algorithm() -> None:
    """A barrier of four by dissemination or recursive doubling has two rounds, and each pays the
    latency once; before it a rank waits for a message, which 10 us of waiting at the barrier hide.
    """
    rows = [
        *message(0, 1, 0, 0, 10),
        *(call(rank, "Barrier", (20 + 5 * rank) * US, 60 * US) for rank in range(4)),
    ]
    run = ran(recorded(*rows, ranks=4))
    p = on(run, *added(1e-3, run))
    assert p.network is not None and p.network.collectives == 4
    assert p.seconds - p.measured_seconds == pytest.approx(3e-3 - 10e-6, rel=1e-6)


def test_ranks_of_one_node_do_not_use_the_network() -> None:
    run = ran(ping_pong())
    far, near = (on(run, f"ranks_per_node={n}", name="perlmutter") for n in (1, 2))
    assert (
        near.network is not None
        and far.network is not None
        and (near.network.target.nodes, far.network.target.nodes) == (1, 2)
    )
    assert near.seconds < far.seconds


def test_a_message_costs_what_the_replay_of_messages_says() -> None:
    """One price: a chain of messages without work of its own takes as long in `model messages` by
    logp.
    """
    run = ran(ping_pong([1 << (4 + 2 * k) for k in range(6)], work=0))
    target = on(run, name="perlmutter", source="lassen")
    source = on(run, name="lassen", source="lassen")
    assert source.seconds == source.measured_seconds
    traffic = traffic_of(run.profile)
    setups = [
        Setup(path="host", network=name, fidelity="logp", eager_limit_bytes=float("inf"))
        for name in ("lassen", "perlmutter")
    ]
    before, after = (replayed(traffic, setup).row.seconds for setup in setups)
    assert target.seconds - target.measured_seconds == pytest.approx(after - before, abs=1e-11)


@st.composite
def exchanges(draw: st.DrawFn) -> Trace:
    """Two or three ranks that send, receive and meet at random, played on a network of 10 us and 1
    GB/s.
    """
    ranks = draw(st.integers(2, 3))
    now, rows = [0] * ranks, []
    for _ in range(draw(st.integers(1, 8))):
        for r in range(ranks):
            now[r] += draw(st.integers(0, 30)) * US
        if draw(st.booleans()):
            begun, until = list(now), max(now) + 15 * US
            rows += [call(r, "Barrier", begun[r], until) for r in range(ranks)]
            now = [until] * ranks
            continue
        source, target = draw(st.permutations(range(ranks)))[:2]
        size, eager = draw(st.sampled_from([0, 8, 4096, 65536])), draw(st.booleans())
        leaves = now[source] if eager else max(now[source], now[target])
        arrives = max(leaves + 10 * US + size, now[target] + 1)
        name, returns = ("Send", now[source] + US) if eager else ("Ssend", arrives)
        rows.append(
            call(source, name, now[source], returns, partner=target, tag=1, size_bytes=size)
        )
        rows.append(
            call(target, "Recv", now[target], arrives, partner=source, tag=1, size_bytes=size)
        )
        now[source], now[target] = rows[-2]["end_ns"], arrives
    return recorded(*rows, ranks=ranks)


@FEWER
@given(
    exchanges(), st.sampled_from(["lassen", "perlmutter"]), st.floats(0, 1e-3), st.floats(0, 1e-3)
)
def test_laws(trace: Trace, name: str, first: float, second: float) -> None:
    """Identity to the bit, envelope, monotony and convexity in the latency."""
    run = ran(trace)
    source = run.project(network=OnNetwork(name, source=name), draws=0).projections[0]
    assert source.seconds == source.measured_seconds == run.seconds
    latencies = sorted((first, (first + second) / 2, second))
    times = []
    for latency in latencies:
        p = run.project(
            network=OnNetwork(name, (f"hop_seconds={latency!r} s",), name), draws=0
        ).projections[0]
        assert p.envelope[0] - 1e-12 <= p.seconds <= p.envelope[1] + 1e-12
        assert sum(p.change.values()) == pytest.approx(p.seconds - p.measured_seconds, abs=1e-12)
        times.append(p.seconds)
    assert times[0] <= times[1] + 1e-12 and times[1] <= times[2] + 1e-12
    # a message is timed in whole picoseconds: half of one is lost a hop
    assert times[1] <= (times[0] + times[2]) / 2 + 1e-10


RECORDINGS = (
    *(
        f"nsys-local/{name}.sqlite"
        for name in ("halo-py-4r", "lammps-melt-4r", "p2pkinds-2r", "cannon-py-4r")
    ),
    *(f"otf2/{name}/traces.otf2" for name in ("stencil4d_32rank", "sstmacro_halo_10rank")),
)


@pytest.mark.parametrize("name", RECORDINGS)
def test_real_runs_keep_their_time_on_their_own_network(shared: Path, name: str) -> None:
    run = run_of(shared / "traces" / name)
    own = run.project(network="self", draws=0).projections[0]
    assert own.seconds == own.measured_seconds == run.seconds
    assert own.network is not None and own.network.messages > 0
    slow, slower = (
        run.project(network=OnNetwork("self", (f"hop_seconds={ms} ms",)), draws=0).projections[0]
        for ms in (1, 2)
    )
    assert run.seconds < slow.seconds < slower.seconds <= slower.envelope[1] + 1e-9


def test_without_a_network_nothing_changes(shared: Path) -> None:
    run = run_of(shared / "traces/nsys-local/halo-py-4r.sqlite")
    p = run.project("self", draws=0).projections[0]
    assert (
        p.network is None
        and "network" not in p.as_dict()
        and "kept_network_seconds" not in p.as_dict()
    )


def test_the_command_line(turnbuckle: Callable[..., Any], shared: Path, tmp_path: Path) -> None:
    file = str(shared / "traces/nsys-local/halo-py-4r.sqlite")
    words = ["--network", "perlmutter", "--network-set", "ranks_per_node=2"]
    table = turnbuckle("project", file, *words, "--draws", "0")
    assert (
        "The same machine on" in table.out
        and "1,600 messages and 40 collective calls on network" in " ".join(table.out.split())
    )
    answer = json.loads(
        turnbuckle("project", file, *words, "--draws", "0", "--format", "json").out
    )["projections"][0]
    assert (
        answer["network"]["target"]["name"] == "perlmutter"
        and answer["network"]["target"]["nodes"] == 2
    )
    assert answer["kept_network_seconds"] == answer["measured_seconds"] != answer["seconds"]
    turnbuckle("export", file, "--on", "self", *words, "-o", str(tmp_path / "trace.json"))
    other = json.loads((tmp_path / "trace.json").read_text())["otherData"]["projections"][0]
    assert other["seconds"] == answer["seconds"]
    turnbuckle(
        "report", file, *words, "--draws", "0", "--brief", "-o", str(tmp_path / "report.html")
    )
    assert "on network perlmutter" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("code", "ask"),
    [
        ("A050", lambda run: run.project(network="nowhere")),
        ("A570", lambda run: run.project(network=OnNetwork("perlmutter", ("compute=2",)))),
        ("A570", lambda run: run.project(network=OnNetwork("perlmutter", ("ranks=8",)))),
        ("A081", lambda run: run.project(network=OnNetwork("perlmutter", ("hops=2",)))),
        ("A074", lambda run: run.project(network=OnNetwork("perlmutter", ("ranks_per_node=0",)))),
    ],
)
def test_what_is_refused(code: str, ask: Callable[[Run], Any]) -> None:
    with pytest.raises(TurnbuckleError) as refused:
        ask(ran(ping_pong()))
    assert refused.value.code == code


def test_an_order_that_cannot_be_trusted_is_to_be_recorded_again() -> None:
    """Kernels that begin before their call: nobody asked for the sum, and leaving it out mends
    nothing.
    """
    whose = [{"process": process_of(thread(0)), "correlation": k + 1} for k in range(40)]
    api = [
        {
            "start_ns": (2 + k) * US,
            "end_ns": (3 + k) * US,
            "thread": thread(0),
            "name": "call",
            **of,
        }
        for k, of in enumerate(whose)
    ]
    kernels = [
        {"start_ns": (1 + k) * US, "end_ns": (2 + k) * US, "name": "kernel", **of}
        for k, of in enumerate(whose)
    ]
    run = ran(recorded(*message(0, 1, 0, 0, 20), api=api, kernels=kernels))
    with pytest.raises(CannotAnswer, match="A122") as refused:
        run.project("self", network=OnNetwork("perlmutter", (), "perlmutter"))
    assert "record again" in refused.value.fix and "--replay" not in refused.value.fix


def test_a_recording_that_shows_no_network_asks_for_it() -> None:
    """Both receives begin long after their message was sent, so how long it was under way is not in
    the recording.
    """
    run = ran(recorded(*message(0, 1, 0, 100, 101), *message(0, 1, 10, 110, 111)))
    with pytest.raises(CannotAnswer, match="A193"):
        on(run, "hop_seconds=1 ms")
    with pytest.raises(CannotAnswer, match="A193"):
        on(run, name="perlmutter")
    assert on(run).seconds == run.seconds, "its own network is whichever it was"
    assert on(run, name="perlmutter", source="lassen").seconds > 0
    with pytest.raises(CannotAnswer, match="A164"):
        on(ran(recorded(call(0, "Barrier", 0, 10), ranks=1)))


def test_calls_without_their_other_side_keep_their_time_and_are_counted() -> None:
    run = ran(
        recorded(
            *message(0, 1, 0, 0, 10),
            call(0, "Send", 20 * US, 30 * US, partner=1, tag=9, size_bytes=8),
        )
    )
    p = on(run, *added(1e-3, run))
    assert p.network is not None and p.network.kept == 1
    assert (
        p.seconds - p.measured_seconds == pytest.approx(1e-3 - 20e-6, abs=1e-9)
        or p.seconds >= p.measured_seconds
    )
    assert "A311" in {f.code for f in p.findings} and {"A380", "A384"} <= {
        f.code for f in p.findings
    }


# --- messages that share links --------------------------------------------------------------------


def two_pairs(later: int) -> Trace:
    """Ranks 0 and 1 of one node send 1 MB each to ranks 2 and 3 of another, one so much later [us];
    each is under way for 10 us.
    """
    return recorded(
        *message(0, 2, 5, 0, 15, 1_000_000),
        *message(1, 3, 5 + later, 0, 15 + later, 1_000_000),
        ranks=4,
    )


SLOW = ("ranks_per_node=2", "card_bandwidth=1 GB/s")


@pytest.mark.parametrize(
    ("later_us", "together_us"),
    [
        (0, 2000),  # both have half of the NIC to the end
        # half of the first alone, then both by half: 500 + 1000, and the second has 500 left for
        # itself
        (
            500,
            2000,
        ),
        (1500, 2500),  # the first is gone before the second begins
    ],
)
def test_messages_under_way_at_once_share_their_nic(later_us: int, together_us: int) -> None:
    """Closed forms: a message alone takes 1 ms at 1 GB/s; two on one NIC have half of it each while
    both are under way.
    """
    run = ran(two_pairs(later_us))
    alone, together = on(run, *SLOW, "fidelity=logp"), on(run, *SLOW)
    assert alone.seconds * 1e6 == pytest.approx(5 + later_us + 1000, abs=1)
    assert together.seconds * 1e6 == pytest.approx(5 + together_us, abs=1)
    assert {f.code for f in together.findings} >= {"A384"} and {f.code for f in alone.findings} >= {
        "A381"
    }


def test_when_messages_begin_follows_from_what_they_take() -> None:
    """Rank 1 sends after it has a message from rank 3, which the slow network delays: by then rank
    0's message is gone.
    """
    rows = [
        *message(0, 2, 5, 0, 15, 1_000_000),
        *message(3, 1, 5, 0, 15, 2_000_000),
        *message(1, 3, 16, 7, 26, 1_000_000),
    ]
    run = ran(recorded(*rows, ranks=4))
    together = on(run, *SLOW, "fidelity=flow")
    assert together.network is not None and together.network.moved == 0
    # 2 ms from node to node the other way, which nothing shares, then 1 ms alone
    assert together.seconds * 1e6 == pytest.approx(5 + 2000 + 1 + 1000, abs=20)


def test_a_collective_and_a_message_share_their_nic() -> None:
    """1 MB by a broadcast from rank 0 to rank 2 and 1 MB by a message from rank 1 to rank 3, from
    one node to the other.
    """
    both = {"root": 0, "size_bytes": 1_000_000, "receive_bytes": 1_000_000}
    pair = [child(rank, 2, 9, local_rank=rank // 2, size=2) for rank in (0, 2)]
    calls = [call(rank, "Bcast", 5 * US, 15 * US, comm=9, **both) for rank in (0, 2)]

    def seconds(later_us: int, *settings: str) -> float:
        rows = [*calls, *message(1, 3, 5 + later_us, 0, 15 + later_us, 1_000_000)]
        return on(ran(recorded(*rows, ranks=4, made=pair)), *SLOW, *settings).seconds * 1e6

    assert seconds(0, "fidelity=logp") == pytest.approx(1005, abs=15), (
        "one by one neither knows of the other"
    )
    assert seconds(0, "fidelity=flow") == pytest.approx(2005, abs=15), (
        "both have half of the NIC to the end"
    )
    assert seconds(1500, "fidelity=flow") == pytest.approx(2505, abs=15), (
        "the broadcast is over before the message begins"
    )


@pytest.mark.parametrize("fidelity", ["flow", "packet", "logp"])
def test_its_own_network_keeps_every_instant_however_messages_share(fidelity: str) -> None:
    for run in map(ran, (two_pairs(0), two_pairs(500), ping_pong())):
        same = on(run, f"fidelity={fidelity}")
        assert same.seconds == same.measured_seconds


@FEWER
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 2000), st.integers(1, 2_000_000)),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 40),
)
def test_sharing_never_helps_and_a_wider_nic_never_hurts(
    sends: list[tuple[int, int, int]], rate: int
) -> None:
    rows = [
        row
        for k, (_, at, size) in enumerate(sends)
        for row in message(2 * k, 2 * k + 1, at, 0, at + 10, size)
    ]
    run = ran(recorded(*rows, ranks=2 * len(sends)))
    place = ("ranks_per_node=4", f"card_bandwidth={rate / 10} GB/s")
    alone, together = on(run, *place, "fidelity=logp"), on(run, *place, "fidelity=flow")
    wider = on(run, place[0], f"card_bandwidth={rate / 5} GB/s", "fidelity=flow")
    assert alone.seconds <= together.seconds + 1e-6 and wider.seconds <= together.seconds + 1e-6


def test_a_real_run_loses_to_sharing_what_the_replay_of_its_messages_says(shared: Path) -> None:
    """Two ways that share only the network: the timeline with every call in it, and the program of
    `model messages`.

    What four ranks of LAMMPS on two nodes lose between a NIC of 1 GB/s and one of 50 MB/s; priced
    one by one, messages lose half of it.
    """
    run = run_of(shared / "traces/nsys-local/lammps-melt-4r.sqlite")
    traffic = traffic_of(run.profile)
    lost = {}
    for fidelity in ("logp", "flow"):
        words = ("ranks_per_node=2", f"fidelity={fidelity}")
        slow, fast = (
            run.project(network=OnNetwork("self", (*words, f"card_bandwidth={rate}")), draws=0)
            .projections[0]
            .seconds
            for rate in ("50 MB/s", "1 GB/s")
        )
        lost[fidelity] = slow - fast
    slow, fast = (
        replayed(traffic, Setup(path="host", ranks_per_node=2, card_bandwidth=rate)).row.seconds
        for rate in (5e7, 1e9)
    )
    assert lost["flow"] == pytest.approx(slow - fast, rel=0.15)
    assert lost["logp"] < 0.6 * lost["flow"]


@pytest.mark.parametrize("later_us", [0, 500])
def test_a_curve_over_latency_with_sharing_is_what_project_says(later_us: int) -> None:
    """Replayed at points: at each of them the number of `project`, and a longer way never helps."""
    run = ran(two_pairs(later_us))
    slack = run.slack(mode="network", network=OnNetwork("self", (*SLOW, "fidelity=flow")))
    assert slack.network is not None and slack.network.target.shared is not None
    latency, seconds = slack.network.target.latency_s, slack.curve.seconds
    assert (np.diff(seconds) >= 0).all() and seconds[0] > run.seconds
    for added_s, expected in list(zip(slack.curve.at.tolist(), seconds.tolist(), strict=True))[::7]:
        words = (*SLOW, "fidelity=flow", f"hop_seconds={(latency + added_s) / 2!r} s")
        assert on(run, *words).seconds == pytest.approx(expected, rel=2e-3)


# --- ranks that share a GPU -----------------------------------------------------------------------


def on_gpus(*kernels: tuple[int, int, int], ranks: int = 2) -> Trace:
    """Kernels of ranks, as rank, begin and length [us], each launched 5 us before; a message of
    each pair of ranks comes before all.
    """
    rows, api = [], []
    for number, (rank, begin, length) in enumerate(kernels, start=1):
        own, at = thread(rank), {"process": process_of(thread(rank)), "correlation": number}
        api.append(
            {
                "start_ns": (begin - 5) * US,
                "end_ns": (begin - 2) * US,
                "thread": own,
                "name": "cudaLaunchKernel",
                "result": 0,
                **at,
            }
        )
        rows.append(
            {
                "start_ns": begin * US,
                "end_ns": (begin + length) * US,
                "device": 0,
                "context": 1,
                "stream": 7,
                "name": "k",
                **at,
            }
        )
    begin = [
        row for first in range(0, ranks, 2) for row in message(first, (first + 1) % ranks, 0, 0, 10)
    ]
    return recorded(*begin, ranks=ranks, api=api, kernels=rows)


ON_ONE_GPU = ("ranks_per_node=2", "gpus_per_node=1")


@pytest.mark.parametrize(
    ("kernels", "shared_us"),
    [
        ([(0, 100, 1000), (1, 100, 1000)], 1000),  # both by half of the GPU to the end
        # half of the first alone, 1000 by half, and the second has 500 left for itself
        (
            [(0, 100, 1000), (1, 600, 1000)],
            500,
        ),
        ([(0, 100, 1000), (1, 1200, 1000)], 0),  # one after the other
        # the second of rank 1 waits for its first, and both beside rank 0's
        (
            [(0, 100, 1000), (1, 100, 400), (1, 520, 400)],
            800,
        ),
        ([(0, 100, 1000), (1, 1200, 1000), (2, 100, 1000)], 0),  # rank 2 is on another node
    ],
)
def test_kernels_of_ranks_that_share_a_gpu_share_its_time(
    kernels: list[tuple[int, int, int]], shared_us: int
) -> None:
    run = ran(on_gpus(*kernels, ranks=1 + max(rank for rank, _, _ in kernels)))
    alone, together = on(run, "ranks_per_node=2"), on(run, *ON_ONE_GPU)
    assert alone.network is not None and together.network is not None
    assert alone.network.shared_kernels == 0 and "A389" not in {f.code for f in alone.findings}
    assert (together.seconds - alone.seconds) * 1e6 == pytest.approx(shared_us, abs=25)


@FEWER
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(5, 60), st.integers(100, 300)),
        min_size=1,
        max_size=12,
    )
)
def test_sharing_a_gpu_never_helps_and_more_gpus_never_hurt(
    drawn: list[tuple[int, int, int]],
) -> None:
    now, kernels = [15] * 4, []
    for rank, gap, length in drawn:
        kernels.append((rank, now[rank] + gap, length))
        now[rank] += gap + length
    run = ran(on_gpus(*kernels, ranks=4))
    one, two, four = (
        on(run, "ranks_per_node=4", f"gpus_per_node={count}").seconds for count in (1, 2, 4)
    )
    work = sum(length for _, _, length in kernels) * 1e-6
    assert four <= two * 1.001 and two <= one * 1.002
    # a GPU has all its work to do, and does nothing besides it
    assert max(work, four) * 0.998 <= one <= four + work


def test_faster_kernels_of_a_shared_gpu_share_less_time() -> None:
    """Kernels that take half as long share for half as long: what sharing adds scales with them."""
    run = ran(on_gpus((0, 100, 1000), (1, 100, 1000)))
    ready = on_network(run.between, run.ordered, OnNetwork("self", ON_ONE_GPU))
    assert ready.timeline is not None
    shared = replace(no_change(len(ready.run)), network=np.ones(1))
    kernels = np.where(ready.run.kind == "kernel", 0.5, 1.0)
    at_full, at_half = (
        float(ready.timeline.seconds(replace(shared, ratio=ratio)))
        for ratio in (np.ones(len(kernels)), kernels)
    )
    # the message is faster inside a node, so that rank 1 is 9 us ahead
    assert at_full - at_half == pytest.approx(1000e-6, abs=10e-6)


def test_a_curve_over_latency_with_shared_gpus_is_what_project_says() -> None:
    run = ran(on_gpus((0, 100, 1000), (1, 100, 1000)))
    curve = run.slack(mode="network", network=OnNetwork("self", ON_ONE_GPU)).curve
    assert (
        curve.seconds[0] == pytest.approx(on(run, *ON_ONE_GPU).seconds, rel=1e-3)
        and curve.seconds[0] > 1.5 * run.seconds
    )
