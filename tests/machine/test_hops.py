"""How far away is that: every hop has a latency and a source, nearest first."""

from __future__ import annotations

import csv
from importlib.resources import files

import pytest

from turnbuckle.machine import load
from turnbuckle.machine.hops import FIBRE_SECONDS_PER_METRE, fibre_metres, hops
from turnbuckle.questions.distance.distance import FARTHEST, NEAREST


def test_hops_are_in_order_and_on_the_curve() -> None:
    found = hops()
    assert {h.name for h in found} == {
        "package",
        "C2C",
        "PCIe",
        "switch",
        "rack",
        "row",
        "data centre",
    }
    assert len(found) == 7
    assert [h.one_way for h in found] == sorted(h.one_way for h in found)
    assert all(NEAREST <= h.one_way <= FARTHEST for h in found)
    assert all(h.what.strip() and h.source.strip() for h in found)


def test_distances_among_machines_are_those_of_the_machines() -> None:
    named = {h.name: h for h in hops() if h.source.startswith("machine ")}
    assert set(named) == {"switch", "rack", "row", "data centre"}
    for hop in named.values():
        (change,) = (
            c
            for c in load(hop.source.removeprefix("machine ")).changes
            if c.parameter == "slack.link"
        )
        assert change.set is not None and hop.one_way == change.set.value
    assert named["rack"].one_way < named["row"].one_way < named["data centre"].one_way


def test_the_table_is_whole() -> None:
    """A row has a latency of its own or names a machine, never both or neither."""
    rows = list(
        csv.DictReader(
            (files("turnbuckle") / "machine" / "hops.csv").read_text(encoding="utf-8").splitlines()
        )
    )
    assert len(rows) == len(hops())
    for row in rows:
        assert bool(row["one_way_s"]) != row["source"].startswith("machine "), row["hop"]


def test_light_in_glass() -> None:
    """5 ns a metre is two thirds of the speed of light."""
    assert pytest.approx(1 / FIBRE_SECONDS_PER_METRE) == 2e8
    assert fibre_metres(0.0) == 0.0 and fibre_metres(1e-6) == pytest.approx(200.0)
    assert fibre_metres(FARTHEST) == pytest.approx(20e6)
