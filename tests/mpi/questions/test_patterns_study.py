"""Declared patterns both ways: the closed form of a single message, the share of communication, and
by size.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from refusals import refused

from turnbuckle.mpi.questions.gpudirect.cost import (
    SEED_G,
    break_even_bytes,
    gpudirect_seconds,
    hostcopy_seconds,
)
from turnbuckle.mpi.questions.messages.question import replayed
from turnbuckle.mpi.questions.messages.setup import network_of
from turnbuckle.mpi.questions.patterns.question import (
    OF_THE_PAPER,
    ON_ONE_SWITCH,
    SHARE_WITHIN,
    SIZED,
    Gain,
    Sized,
    by_size,
    crossover,
    gains,
    with_share,
)
from turnbuckle.mpi.replay.patterns import Pattern, traffic_of


@pytest.mark.parametrize("fidelity", ["flow", "logp"])
@pytest.mark.parametrize("size", [64.0, 16384.0, 32768.0, 8e6])
def test_a_ping_pong_is_the_closed_form(fidelity: str, size: float) -> None:
    """Without overheads a message takes two links, its bytes at the card, and what its path
    charges: exactly.
    """
    setup = replace(ON_ONE_SWITCH, fidelity=fidelity)  # type: ignore[arg-type]
    (found,) = gains(traffic_of(Pattern("pingpong", 1, (size,), 3), 2), [1], setup)
    network = network_of(setup, 2)
    wire = 2 * network.hop_seconds + size / network.bandwidth
    assert found.hostcopy_run_seconds / 6 == pytest.approx(
        float(hostcopy_seconds(size, wire)), abs=1e-11
    )
    assert found.gpudirect_run_seconds / 6 == pytest.approx(
        float(gpudirect_seconds(size, wire)), abs=1e-11
    )
    assert (found.gain > 0) == (size > break_even_bytes(SEED_G))


def test_by_size() -> None:
    sizes = [16384.0, 32768.0, 1048576.0]
    found = list(by_size(sizes, [1, 4], ON_ONE_SWITCH, ranks=27))
    assert [(s.what, s.size_bytes) for s in found] == [
        (what, size) for what in SIZED for size in sizes
    ]
    assert {g.ranks for s in found for g in s.gains} == {2, 27}
    for what in SIZED:
        mine = [s for s in found if s.what == what]
        assert crossover(mine, 1) in sizes
        assert mine[-1].gains[0].gain > mine[-1].gains[1].gain or what == "ping-pong", (
            "a shared card hides what copies cost"
        )
    assert crossover([s for s in found if s.what == "ping-pong"], 1) == 32768, (
        "the first size above 28.6 kB"
    )
    at_once, one_by_one = (
        next(s for s in found if s.what.endswith(end) and s.size_bytes == sizes[-1])
        for end in ("at once", "the other")
    )
    assert one_by_one.gains[0].gain > 2 * at_once.gains[0].gain, (
        "copies hide behind the messages before them, if there are any"
    )


def test_from_which_size_on() -> None:
    def one(size: float, gain: float) -> Sized:
        return Sized("halo", size, (Gain(2, 1, 1.0 + gain, 1.0, 1.0, 1.0),))

    assert crossover([one(1, -0.1), one(4, 0.1), one(2, 0.1)], 1) == 2
    assert crossover([one(1, 0.5), one(2, -0.1), one(4, 0.1)], 1) == 4
    assert crossover([one(1, 0.5), one(2, 0.0)], 1) == math.inf
    assert crossover([one(1, 0.5), one(2, math.nan)], 1) == math.inf


HALO = Pattern("halo", 2, (65536.0, 12e6), 4)


@pytest.mark.parametrize(
    "pattern",
    [
        HALO,
        replace(HALO, order="one by one"),
        replace(HALO, imbalance=0.05),
        replace(HALO, form="sweep", exchanges=8),
    ],
)
@pytest.mark.parametrize("share", [0.4, 0.8])
def test_compute_makes_the_share_of_communication(pattern: Pattern, share: float) -> None:
    found = with_share(pattern, 16, share, OF_THE_PAPER)
    assert found is not None and replace(found, compute_seconds=0.0) == pattern
    traffic = traffic_of(found, 16)
    row = replayed(traffic, replace(OF_THE_PAPER, path="host", ranks_per_node=4)).row
    assert row.communication_seconds / (
        row.communication_seconds + row.compute_seconds
    ) == pytest.approx(share, rel=1.01 * SHARE_WITHIN)


def test_no_compute_makes_a_share_below_what_is_waited() -> None:
    """Ranks that compute up to half longer than the mean are waited for a third of the time,
    whatever else.
    """
    assert with_share(replace(HALO, imbalance=0.5), 16, 0.05, OF_THE_PAPER) is None
    # the last rank of a wave waits for all before it
    assert with_share(replace(HALO, form="sweep"), 64, 0.1, OF_THE_PAPER) is None


def test_shapes_that_are_none() -> None:
    for shapes in ([0], []):
        refused("A074", gains, traffic_of(HALO, 4), shapes, ON_ONE_SWITCH)
    assert (
        "810"
        in refused(
            "A074", gains, traffic_of(replace(HALO, dimensions=1), 900), [1], OF_THE_PAPER
        ).fix
    )


def test_a_path_that_does_nothing_has_no_gain() -> None:
    assert Gain(1, 1, 0.0, 0.0, 0.0, 0.0).gain == 0 == Gain(1, 1, 0.0, 0.0, 0.0, 0.0).run_gain
    assert Gain(2, 1, 3.0, 2.0, 6.0, 5.0).run_gain == pytest.approx(0.2)
