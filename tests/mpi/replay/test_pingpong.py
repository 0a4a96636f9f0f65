"""Ping-pong: closed forms of host copies and GPUDirect by size, exact, through the whole path; and
a recorded one against itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import turnbuckle as tb
from turnbuckle.foundation.arrays import Float
from turnbuckle.mpi.questions.gpudirect.cost import (
    PHYSICS,
    SEED_G,
    Paths,
    break_even_bytes,
    gpudirect_seconds,
    hostcopy_seconds,
    largest_gain,
)
from turnbuckle.mpi.questions.messages.question import replayed
from turnbuckle.mpi.questions.messages.setup import Costs, Setup, charges
from turnbuckle.mpi.questions.messages.setup import Path as Way
from turnbuckle.mpi.replay.messages import Messages, Traffic, recorded
from turnbuckle.mpi.replay.program import program
from turnbuckle.replay.contention.contention import PICOSECONDS, Fidelity, Op, Program, replay
from turnbuckle.replay.contention.network import Network

#: EDR as in the paper, and what a message costs its two processors.
BANDWIDTH: Final = 12.5e9
LATENCY, OVERHEAD = 1.25e-6, 0.5e-6
NETWORK: Final = Network(
    2,
    BANDWIDTH,
    LATENCY / 2,
    latency=LATENCY,
    send_overhead=OVERHEAD,
    receive_overhead=OVERHEAD,
    seconds_per_byte=1 / BANDWIDTH,
)
#: Fig 3 of the paper goes over these.
SIZES: Final = [float(1 << k) for k in range(24)]
PRESETS: Final = {
    "seed_G": SEED_G,
    "physics": PHYSICS,
    "two pins": Paths(2, 2, 2e-6, 0.07e-9, 4e-6),
    "three": Paths(3, 1, 1e-6, 1e-10, 9e-6),
}


def bounced(size: float, rounds: int, *, gap: float = 0.0) -> Traffic:
    """Two ranks that send a message to and fro by blocking calls."""
    count = 2 * rounds
    call = np.arange(count)
    # rank 0 sends and receives, rank 1 receives and sends: call k of either belongs to message k
    send, receive = (
        np.where(call % 2 == 0, call, count + call),
        np.where(call % 2 == 0, count + call, call),
    )
    messages = Messages(send, send, receive, receive, np.full(count, -1), np.full(count, size))
    return Traffic(
        2,
        np.repeat([0, 1], count),
        np.full(2 * count, gap),
        np.zeros(2 * count),
        np.zeros(2),
        messages,
        (),
        1.0,
        0,
    )


def half_round(
    size: float, way: Way, paths: Paths, fidelity: Fidelity = "logp", rounds: int = 10
) -> float:
    """Time of one message by the replay [s]."""
    return replay(
        program(bounced(size, rounds), charged=charges(way, paths)), NETWORK, fidelity
    ).seconds / (2 * rounds)


@pytest.mark.parametrize("fidelity", ["logp", "flow"])
@pytest.mark.parametrize("paths", PRESETS.values(), ids=PRESETS.keys())
def test_fig_3_is_its_closed_form(paths: Paths, fidelity: Fidelity) -> None:
    """wire + copies (d + c n), and wire + pins p, for 1 B to 8 MiB: to the picosecond that each
    part is rounded to.
    """
    for size in SIZES:
        wire = OVERHEAD + LATENCY + size / BANDWIDTH + OVERHEAD
        # overheads and latency are whole; the bytes and the charges at either end are rounded
        parts = 4
        ways: dict[Way, Callable[[float, float, Paths], Float]] = {
            "hostcopy": hostcopy_seconds,
            "gpudirect": gpudirect_seconds,
        }
        for way, form in ways.items():
            found = half_round(size, way, paths, fidelity)
            assert found == pytest.approx(
                float(form(size, wire, paths)), rel=1e-15, abs=parts / 2 / PICOSECONDS
            ), (way, size)
        assert half_round(size, "host", paths, fidelity) == pytest.approx(
            wire, rel=1e-15, abs=1 / PICOSECONDS
        )


@pytest.mark.parametrize("fidelity", ["logp", "flow"])
@pytest.mark.parametrize("costs", ["seed_G", "physics"])
@pytest.mark.parametrize("way", ["host", "hostcopy", "p2p", "gpudirect"])
def test_the_study_of_two_nodes_is_the_closed_form(
    way: Way, costs: Costs, fidelity: Fidelity
) -> None:
    """The same by the whole study, on nodes with a GPU: copies go over the GPU's link, and are no
    messages that anybody sends.
    """
    setup = Setup(
        path=way,
        costs=costs,
        fidelity=fidelity,
        card_bandwidth=BANDWIDTH,
        hop_seconds=LATENCY / 2,
        overhead_seconds=OVERHEAD,
    )
    rounds = 5
    for size in SIZES[::3]:
        wire = OVERHEAD + LATENCY + size / BANDWIDTH + OVERHEAD
        form = (
            2
            * rounds
            * float(
                hostcopy_seconds(size, wire, setup.paid) if way in ("hostcopy", "p2p") else wire
            )
        )
        if way == "gpudirect":
            # by physics memory is pinned at first use: once for the messages each way
            form += (2 if costs == "physics" else 2 * rounds) * setup.paid.pin_seconds
        found = replayed(bounced(size, rounds), setup).row.seconds
        assert found == pytest.approx(form, rel=1e-12, abs=2 * rounds * 2 / PICOSECONDS), size


@settings(max_examples=100)
@given(
    st.integers(1, 1 << 30),
    st.sampled_from(list(PRESETS.values())),
    st.sampled_from(["hostcopy", "gpudirect"]),
)
def test_any_size_is_its_closed_form(size: int, paths: Paths, way: Way) -> None:
    """The same at any size, in whole picoseconds: each part rounded as the replay counts it."""
    picoseconds = round(size / BANDWIDTH * PICOSECONDS) + round(
        (2 * OVERHEAD + LATENCY) * PICOSECONDS
    )
    charged = charges(way, paths)
    picoseconds += round(charged.pin_seconds * PICOSECONDS)
    picoseconds += sum(
        round((fixed + each * size) * PICOSECONDS)
        for fixed, each in (charged.sender, charged.receiver)
    )
    found = (
        replay(program(bounced(size, 3), charged=charged), NETWORK, "logp").seconds * PICOSECONDS
    )
    # a half is rounded either way
    assert abs(round(found) - 6 * picoseconds) <= 6 * 3


def test_an_empty_message_has_no_buffer() -> None:
    """Neither copy nor pin: the closed forms hold from one byte on."""
    for way in ("host", "hostcopy", "gpudirect"):
        assert half_round(0.0, way, SEED_G) == pytest.approx(2 * OVERHEAD + LATENCY, abs=1e-12)


def test_the_crossover_is_the_break_even() -> None:
    """seed_G: host copies below 28,571 B, GPUDirect from there on; physics: GPUDirect at every
    size.
    """
    at = break_even_bytes(SEED_G)
    for size, faster in ((at - 100, "hostcopy"), (at + 100, "gpudirect")):
        times = {way: half_round(round(size), way, SEED_G) for way in ("hostcopy", "gpudirect")}
        assert min(times, key=lambda way: times[way]) == faster
    assert all(
        half_round(n, "gpudirect", PHYSICS) < half_round(n, "hostcopy", PHYSICS)
        for n in (1.0, 1e4, 1e7)
    )
    long = half_round(1e9, "hostcopy", SEED_G) / half_round(1e9, "gpudirect", SEED_G) - 1
    assert long == pytest.approx(largest_gain(BANDWIDTH, SEED_G), rel=1e-3)


def test_compute_between_is_neither_sped_up_nor_lost() -> None:
    """Only the communication is charged: with 10 us of compute before every call each message takes
    20 us more.
    """
    one = program(bounced(65536.0, 5, gap=10e-6), charged=charges("hostcopy", SEED_G))
    # of the two ranks the one that waits computes meanwhile
    spare = replay(
        program(bounced(65536.0, 5), charged=charges("hostcopy", SEED_G)), NETWORK, "logp"
    ).seconds
    found = replay(one, NETWORK, "logp").seconds
    assert spare + 10 * 10e-6 - 1e-12 <= found <= spare + 20 * 10e-6


# --- a recorded ping-pong against its own measurement ---------------------------------------------

#: Open MPI's shared memory sends eagerly below this (its default), by rendezvous from there on.
EAGER_BYTES: Final = 4096


@dataclass(frozen=True)
class Trips:
    """Round trips of rank 0: message there, message back, bytes, half of the time, and of what rank
    1 computed meanwhile [s].
    """

    there: NDArray[np.int64]
    back: NDArray[np.int64]
    size_bytes: Float
    half_seconds: Float
    computed: Float

    def medians(self, *, alone: bool = False) -> tuple[Float, Float]:
        """Sizes, and the median half of a round trip of each; `alone`: without what was
        computed.
        """
        sizes, seconds = np.unique(self.size_bytes), self.half_seconds - self.computed * alone
        return sizes, np.array([np.median(seconds[self.size_bytes == n]) for n in sizes])


def trips(profile: tb.Profile, traffic: Traffic) -> Trips:
    """What rank 0 sent and at once received back, as large."""
    ranks = dict(profile.trace.mpi_ranks.select("thread", "rank").iter_rows())
    calls = profile.trace.mpi.with_columns(rank=pl.col("thread").replace_strict(ranks)).sort(
        "rank", "start_ns", "end_ns"
    )
    start, end = calls["start_ns"].to_numpy(), calls["end_ns"].to_numpy()
    messages = traffic.messages
    answer = {int(call): k for k, call in enumerate(messages.receive) if traffic.rank[call] == 0}
    sent = [(k, int(call)) for k, call in enumerate(messages.send) if traffic.rank[call] == 0]
    size = messages.size_bytes
    pairs = [
        (k, answer[call + 1])
        for k, call in sent
        if call + 1 in answer and size[answer[call + 1]] == size[k]
    ]
    there, back = (np.array(side) for side in zip(*pairs, strict=True))
    half = (end[messages.receive[back]] - start[messages.send[there]]) / 2e9
    return Trips(there, back, size[there], half, traffic.gap_seconds[messages.send[back]] / 2)


def again(one: Program, found: Trips, latency: float, per_byte: float) -> Trips:
    """The same round trips in the replay of the whole recording."""
    network = Network(2, 1 / per_byte, 0.0, latency=latency, seconds_per_byte=per_byte)
    done = replay(one, network, "logp", traced=True).done
    place = {
        op: dict(
            zip(
                one.arg[one.code == op].tolist(),
                np.flatnonzero(one.code == op).tolist(),
                strict=True,
            )
        )
        for op in (Op.SEND, Op.AWAIT)
    }
    sent = np.array([done[place[Op.SEND][k]] for k in found.there.tolist()])
    got = np.array([done[place[Op.AWAIT][k]] for k in found.back.tolist()])
    return replace(found, half_seconds=(got - sent) / 2)


def fitted(sizes: Float, seconds: Float) -> tuple[float, float]:
    """L and G by least squares of T(n) = L + n G, each size weighed by 1 / T^2 (models.md D4)."""
    made, *_ = np.linalg.lstsq(
        np.stack([1 / seconds, sizes / seconds], axis=1), np.ones(len(sizes)), rcond=None
    )
    return float(made[0]), float(made[1])


@dataclass(frozen=True)
class Held:
    """Error of the replay on the sizes that were not fitted."""

    sizes: Float
    error: Float


def held_out(profile: tb.Profile, branches: list[tuple[float, float]]) -> Held:
    """Fit every second size of each branch, replay the whole recording with that, and compare the
    other sizes; then the other way round.
    """
    traffic = recorded(profile)
    found = trips(profile, traffic)
    one = program(traffic)
    (sizes, measured), (_, alone) = found.medians(), found.medians(alone=True)
    out_sizes, errors = [], []
    for least, most in branches:
        mine = np.flatnonzero((sizes >= least) & (sizes < most))
        for half in (0, 1):
            fit, rest = mine[half::2], mine[1 - half :: 2]
            _, predicted = again(one, found, *fitted(sizes[fit], alone[fit])).medians()
            out_sizes.append(sizes[rest])
            errors.append(predicted[rest] / measured[rest] - 1)
    order = np.argsort(np.concatenate(out_sizes))
    return Held(np.concatenate(out_sizes)[order], np.concatenate(errors)[order])


ARCHIVES: Final = ["netpipe-2r/archive/eztrace_log.otf2", "scorep-netpipe-2r/archive/traces.otf2"]


@pytest.mark.parametrize("archive", ARCHIVES)
def test_a_recorded_ping_pong_against_itself(shared: Path, archive: str) -> None:
    """36 sizes, 15 round trips each: sizes that were not fitted."""
    profile = tb.read(shared / "traces" / "otf2-local" / archive).profile
    # one L and one G for all sizes do not know what a rendezvous costs (2 us here): at the limit
    # they are far off
    whole = held_out(profile, [(0, np.inf)])
    assert len(whole.sizes) == 36
    assert np.median(np.abs(whole.error)) < 0.10
    worst = whole.sizes[np.argmax(np.abs(whole.error))]
    assert worst == EAGER_BYTES and 0.6 < np.abs(whole.error).max() < 0.75
    # a pair for either protocol does: half of the sizes within 3 %, all within 15 %
    apart = held_out(profile, [(0, EAGER_BYTES), (EAGER_BYTES, np.inf)])
    assert len(apart.sizes) == 36
    assert np.median(np.abs(apart.error)) < 0.03 and np.abs(apart.error).max() < 0.15
