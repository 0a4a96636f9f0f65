"""Law: copies of pageable memory have one price over one kind of link, whatever the recording shows
of its own staging (decision 64).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from turnbuckle.foundation.arrays import Float
from turnbuckle.machine import Machine, Pair, Parameter, load
from turnbuckle.machine.catalog import all_machines
from turnbuckle.machine.machine import Change
from turnbuckle.machine.parameter_names import (
    HOST_WAYS,
    HostWay,
    ParameterName,
    link_parameter,
    observed_parameter,
)
from turnbuckle.profile.pieces import Pieces
from turnbuckle.projection.assumptions import copy_basis
from turnbuckle.projection.elsewhere.priors import COHERENT, STAGED_RATE, Draws, elsewhere
from turnbuckle.projection.model import nething

#: GB/s that pageable copies reached in the recording: slow, and as fast as the link.
RATES = (2.0, 6.0, 12.0)
SIZES = np.array([2.0**16, 2.0**24, 2.0**30])
MODEL = nething("hold", host=1.0)
_COHERENT = [m.name for m in all_machines() if m.coupling in COHERENT and not m.copies_vanish]


def observed(machine: Machine, rate: float) -> Machine:
    """Return a machine whose recording shows a rate of pageable copies [GB/s], and what a copy
    takes without bytes.
    """
    shown: dict[ParameterName, Parameter] = {}
    for way in HOST_WAYS:
        shown[observed_parameter(way, "pageable", "bandwidth")] = Parameter(
            rate * 1e9, 0.0, "B/s", "measured", "made by hand"
        )
        shown[link_parameter(way, "latency")] = Parameter(
            2e-6, 0.0, "s", "measured", "made by hand"
        )
    return machine.with_parameters(shown)


def copies(memory: str, way: HostWay) -> Pieces:
    """Make a copy of each size, or a migration."""
    if memory == "migration":
        made = copies("unknown", way)
        kind, direction = (
            np.full(len(SIZES), word, dtype=object) for word in ("migration", f"migration_{way}")
        )
        return replace(made, kind=kind, direction=direction)
    count, none = np.ones(len(SIZES)), np.full(len(SIZES), "", dtype=object)
    kind, category, direction, kept = (
        np.full(len(SIZES), word, dtype=object) for word in (f"copy_{way}", "copy", way, memory)
    )
    untold = np.full(len(SIZES), None, dtype=object)
    return Pieces(
        kind, category, none, direction, kept, count > 1, SIZES, count, count, count, count, untold
    )


def seconds(
    memory: str, way: HostWay, source: Machine, target: Machine, draws: Draws | None = None
) -> Float:
    """Return what copies take on a target [s], from their first byte to their last."""
    pair = Pair(source, target)
    priced = elsewhere(pair, pair.target, source, draws or Draws())
    charge = next(
        c
        for c in MODEL.charges
        if c.name == f"{'migration' if memory == 'migration' else 'copy'}_{way}"
    )
    took = charge.seconds(copies(memory, way), priced, source)
    assert took is not None
    return took


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("way", ["h2d", "d2h"])
@pytest.mark.parametrize("target", _COHERENT)
def test_over_a_coherent_link_pageable_copies_are_nearly_as_fast_as_pinned_ones(
    target: str, way: HostWay, rate: float
) -> None:
    source = observed(load("a100-sxm4-80"), rate)
    pinned, pageable = (
        seconds(memory, way, source, load(target)) for memory in ("pinned", "pageable")
    )
    assert (pinned <= pageable).all() and (pageable < 1.06 * pinned).all()
    drawn = [
        seconds(memory, way, source, load(target), Draws(400, 1))
        for memory in ("pinned", "pageable")
    ]
    assert float(np.quantile(drawn[0] / drawn[1], 0.05)) < 93.0 / 97.423, (
        "the measured ratio is inside"
    )
    assert "no staging" in copy_basis(way, "pageable", Pair(source, load(target)))


def test_one_link_has_one_price_on_the_recorded_machine_and_on_its_own() -> None:
    """The node of its own may reach less of the link, and nothing else makes the two differ."""
    source = observed(load("a100-sxm4-80"), 6.0)
    ratios = [
        seconds(m, "h2d", source, load("gh200")) / seconds(m, "h2d", source, load("nvlink-c2c"))
        for m in ("pinned", "pageable")
    ]
    assert ratios[0] == pytest.approx(ratios[1], rel=1e-3)


@pytest.mark.parametrize("target", ["pcie5-x16", "h100-sxm5", "cdi-row-link"])
def test_behind_packets_the_host_stages_again(target: str) -> None:
    """A recording on a coherent link does not show what its host's staging takes."""
    source = observed(load("gh200"), 290.0)
    took = seconds("pageable", "d2h", source, load(target))
    assert took[-1] == pytest.approx(SIZES[-1] / STAGED_RATE, rel=0.05)
    assert "measured hosts" in copy_basis("d2h", "pageable", Pair(source, load(target)))


@pytest.mark.parametrize("base", ["nvlink-c2c", "pcie4-x16"])
def test_what_a_file_states_of_pageable_copies_holds_for_a_link_alone_too(base: str) -> None:
    stated = Parameter(0.1, 0.0, "1", "measured", "made by hand")
    source, link = observed(load("a100-sxm4-80"), 12.0), load(base)
    own = replace(link, changes=(*link.changes, Change("link.pageable.efficiency", set=stated)))
    nominal = Pair(source, own).target.value("link.h2d.bandwidth")
    assert nominal is not None
    assert seconds("pageable", "h2d", source, own)[-1] == pytest.approx(
        SIZES[-1] / (0.1 * nominal), rel=0.01
    )


def test_the_same_kind_of_link_keeps_what_was_recorded() -> None:
    for base, target in (
        ("a100-sxm4-80", "pcie5-x16"),
        ("gh200", "nvlink-c2c"),
        ("gh200", "cdi-row-api"),
    ):
        source = observed(load(base), 5.0)
        assert "fitted to the recording" in copy_basis(
            "h2d", "pageable", Pair(source, load(target))
        )


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("way", HOST_WAYS)
def test_pages_move_at_the_rate_of_the_link_that_states_one(way: HostWay, rate: float) -> None:
    """GH200 and its link alone have one rate, whatever the recording shows; a link that states none
    keeps what faults cost.
    """
    slow = Parameter(rate * 1e9, 0.0, "B/s", "measured", "made by hand")
    shown: dict[ParameterName, Parameter] = {
        observed_parameter(way, "migration", "bandwidth"): slow
    }
    source = observed(load("a100-sxm4-80"), rate).with_parameters(shown)
    stated = load("gh200").value("package.managed_bandwidth")
    assert stated
    for target in ("gh200", "nvlink-c2c"):
        assert seconds("migration", way, source, load(target))[-1] == pytest.approx(
            SIZES[-1] / stated, rel=1e-3
        )
        assert "states" in copy_basis(f"migration_{way}", "unknown", Pair(source, load(target)))
    kept = seconds("migration", way, source, load("pcie5-x16"))[-1]
    assert SIZES[-1] / (rate * 1e9) * 0.5 < kept < SIZES[-1] / (rate * 1e9)
