"""Remoting as published: steps of a program through Lupine, a layer that sends what it can, on an
emulated wide network.

Lupine's pull requests 469, 471 and 478 (github.com/lupinemachines/lupine, August 2026) print the
round trips that a training step of one program waits for, and its time.  No recording of it is
public, so they are no cases of the card; what waits and what is sent is held against them here.
The software's time of a command is taken from 469, and 478 is predicted with it.
"""

from __future__ import annotations

import pytest

from turnbuckle.cost.remoting import SENT, WAITS, call_seconds

#: Emulated round trip, and one serialized call as 469 measured it [s].
ROUND_TRIP, TRIP = 30e-3, 31e-3
COMMAND = TRIP - ROUND_TRIP
#: The program's own time of a step that no round trip hides, as 478 states it [s].
OWN = 12e-3


def waiting(calls: int) -> float:
    """Return what a step waits for so many calls [s]."""
    return calls * float(call_seconds(WAITS, ROUND_TRIP, COMMAND))


def test_six_calls_that_wait_are_most_of_a_step() -> None:
    assert waiting(6) / 196e-3 == pytest.approx(0.94, abs=0.01), (
        "469: 94 % of 196 ms in six serialized trips"
    )


def test_two_queries_and_one_wait() -> None:
    assert waiting(2) == pytest.approx(61.5e-3, rel=0.01), (
        "478: two serialized queries take 61.5 ms"
    )
    assert waiting(1) + OWN == pytest.approx(42.6e-3, rel=0.015), (
        "478: one wait and the program's own time take 42.6 ms"
    )


def test_what_is_sent_costs_no_trip() -> None:
    assert float(call_seconds(SENT, ROUND_TRIP, COMMAND)) == pytest.approx(COMMAND), (
        "471: a read that is sent leaves one trip of two"
    )
    assert waiting(2) - waiting(1) == pytest.approx(TRIP)
