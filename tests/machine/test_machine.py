"""Parameters, changes and what becomes of a relative machine on its source."""

from __future__ import annotations

import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.machine import Change, Fact, Machine, Pair, Parameter, load, schema


def seconds(value: float, error: float = 0.1, **more: str) -> Parameter:
    return Parameter(value, error, "s", "measured", "a test", **more)


def number(value: float, error: float = 0.0) -> Parameter:
    return Parameter(value, error, "1", "assumption", "a test")


def bandwidth(value: float) -> Parameter:
    return Parameter(value, 0.0, "B/s", "spec", "a test")


def machine(**more: object) -> Machine:
    words: dict[str, object] = {
        "name": "here",
        "title": "t",
        "summary": "s",
        "year": 2020,
        "coupling": "pcie",
        **more,
    }
    return Machine(**words)  # type: ignore[arg-type]


HERE = machine(
    parameters={"link.h2d.latency": seconds(2e-6), "link.h2d.bandwidth": bandwidth(30e9)}
)
FAR = machine(
    name="far",
    coupling="fabric",
    year=0,
    base="source",
    changes=(
        Change("link.h2d.latency", add=seconds(1e-6, common="distance")),
        Change("link.d2h.latency", add=seconds(1e-6, common="distance")),
        Change("link.h2d.bandwidth", limit=bandwidth(20e9)),
        Change("link.round_trip", assume=seconds(1e-6), add=seconds(2e-6, common="distance")),
        Change("launch.call", set=seconds(3e-6)),
    ),
)


def test_schema_names_are_known_and_units_are_ours() -> None:
    assert len(schema()) >= 30
    for name, meaning in schema().items():
        assert meaning.parameter == name and meaning.meaning and meaning.scope
        assert 0 <= meaning.minimum < meaning.maximum


def test_get_and_has() -> None:
    assert HERE.get("link.h2d.latency") == seconds(2e-6)
    assert HERE.get("slack.call") is None
    assert HERE.has == {"link.h2d.latency", "link.h2d.bandwidth"}
    with pytest.raises(KeyError, match=r"did you mean link\.h2d\.latency"):
        HERE.get("link.h2d.latenci")


def test_changes_upon_the_source() -> None:
    there = FAR.resolved(HERE)
    assert (
        there.name == "far"
        and not there.relative
        and there.coupling == "fabric"
        and there.year == 2020
    )
    latency = there.get("link.h2d.latency")
    assert latency is not None and latency.value == pytest.approx(3e-6)
    assert latency.error == pytest.approx(math.hypot(2e-6 * 0.1, 1e-6 * 0.1) / 3e-6)
    assert "plus 1 us" in latency.source
    assert there.parameters["link.h2d.bandwidth"].value == 20e9
    assert there.parameters["link.round_trip"].value == pytest.approx(3e-6)
    assert there.parameters["launch.call"].value == 3e-6
    assert "link.d2h.latency" not in there.parameters and FAR.lacking(HERE) == ("link.d2h.latency",)
    assert there.resolved(HERE) is there and there.lacking(HERE) == ()


def test_a_limit_does_not_widen_and_an_assumption_yields_to_knowledge() -> None:
    slow = HERE.with_parameters(
        {"link.h2d.bandwidth": bandwidth(8e9), "link.round_trip": seconds(5e-6)}
    )
    there = FAR.resolved(slow)
    assert there.parameters["link.h2d.bandwidth"].value == 8e9
    assert there.parameters["link.round_trip"].value == pytest.approx(7e-6)


def test_scale_comes_before_add_and_nature_is_the_weakest() -> None:
    after = Change("link.h2d.latency", scale=number(0.5), add=seconds(1e-6)).apply(seconds(4e-6))
    assert after is not None and after.value == pytest.approx(3e-6) and after.nature == "assumption"


def test_a_relative_machine_is_no_source() -> None:
    refused("M016", Pair, FAR, HERE)
    refused("M016", FAR.resolved, FAR)


def test_the_target_of_a_pair_stands_alone() -> None:
    pair = Pair(HERE, FAR)
    assert pair.source is HERE and not pair.target.relative
    assert Pair(HERE, HERE).target is HERE


def test_with_parameters() -> None:
    assert (
        HERE.with_parameters({"slack.call": seconds(1e-6)})
        .resolved(HERE)
        .parameters["slack.call"]
        .value
        == 1e-6
    )
    changed = FAR.with_parameters({"link.h2d.latency": seconds(9e-6)})
    assert changed.relative and changed.resolved(HERE).parameters["link.h2d.latency"].value == 9e-6
    with pytest.raises(KeyError, match=r"did you mean slack\.call"):
        HERE.with_parameters({"slack.cal": seconds(1e-6)})


def test_one_memory_is_inherited_only_by_like_machines() -> None:
    shared = machine(name="one", coupling="apu", memory_shared=Fact(True, "assumption", "a test"))
    assert shared.copies_vanish and not HERE.copies_vanish
    assert machine(coupling="relative", base="source").resolved(shared).copies_vanish
    assert machine(coupling="relative", base="source").resolved(shared).coupling == "apu"
    assert not machine(coupling="pcie", base="source").resolved(shared).copies_vanish


def test_draws_move_each_unknown_by_its_error() -> None:
    assert FAR.unknowns() == {
        "common/distance": 0.1,
        "far/link.round_trip/assume": 0.1,
        "far/launch.call/set": 0.1,
    }
    moved = FAR.drawn({"common/distance": 1.0})
    assert [c.add.value for c in moved.changes if c.add] == pytest.approx(
        [1e-6 * math.exp(0.1), 1e-6 * math.exp(0.1), 2e-6 * math.exp(0.1)]
    )
    source = HERE.drawn({"here/link.h2d.latency": -2.0})
    assert source.parameters["link.h2d.latency"].value == pytest.approx(2e-6 * math.exp(-0.2))
    assert HERE.drawn({}) == HERE and FAR.drawn({}) == FAR


def test_a_share_drawn_stays_a_share() -> None:
    tight = machine(parameters={"link.h2d.efficiency": number(0.95, 0.2)})
    assert (
        tight.drawn({"here/link.h2d.efficiency": 3.0}).parameters["link.h2d.efficiency"].value
        == 1.0
    )


def test_machines_travel_between_processes() -> None:
    there = load("gh200")
    assert pickle.loads(pickle.dumps(there)) == there


@given(st.floats(1e-8, 1e-2), st.floats(1e-9, 1e-2), st.floats(0.01, 100.0))
def test_adding_then_drawing_commutes_with_resolving(
    latency: float, added: float, factor: float
) -> None:
    source = HERE.with_parameters({"link.h2d.latency": seconds(latency, 0.0)})
    change = Change("link.h2d.latency", scale=number(factor), add=seconds(added, 0.5))
    there = (
        machine(name="far", base="source", changes=(change,))
        .drawn({"far/link.h2d.latency/add": 1.0})
        .resolved(source)
    )
    assert there.parameters["link.h2d.latency"].value == pytest.approx(
        latency * factor + added * math.exp(0.5)
    )


@given(st.floats(1e-8, 1.0), st.floats(0.001, 1.0), st.floats(0.0, 0.5), st.floats(0.0, 0.5))
def test_errors_of_products_add_in_squares_and_of_sums_shrink(
    value: float, add: float, first: float, second: float
) -> None:
    product = Change("launch.call", scale=number(3.0, second)).apply(seconds(value, first))
    total = Change("launch.call", add=seconds(add, second)).apply(seconds(value, first))
    assert product is not None and product.error == pytest.approx(math.hypot(first, second))
    assert total is not None and total.error <= max(first, second) + 1e-12
