"""Latency and rate come out of curves as they went in, with intervals that hold them; shares and
absences are said as such.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.machine import load
from turnbuckle.machine.machine import schema
from turnbuckle.machine.measured.logs import Curve, Measured, Quantity
from turnbuckle.questions.calibrate.calibration import Calibration, Estimate, Origin
from turnbuckle.questions.calibrate.curve_fit import fit_curve, step_of
from turnbuckle.questions.calibrate.question import calibrate

SIZES = 2.0 ** np.arange(0, 29)
ORIGIN = Origin(
    "file.txt", "ab" * 32, "2026-02-03", "bandwidthTest", "NVIDIA H100 80GB HBM3", "550.54.15"
)


def curve(
    latency: float,
    rate: float,
    noise: float = 0.0,
    seed: int = 1,
    sizes: np.ndarray = SIZES,
    direction: str = "h2d",
    memory: str = "pinned",
    means: str = "copy",
    streamed: bool = False,
) -> Curve:
    seconds = (latency + sizes / rate) * np.exp(
        np.random.default_rng(seed).normal(0.0, noise, len(sizes))
    )
    return Curve(
        direction,
        memory,
        sizes,
        seconds,
        f"{direction} {memory}",
        np.zeros(len(sizes)),
        streamed,
        means,
        (3, 31),
    )


def made(
    *curves: Curve,
    quantities: tuple[Quantity, ...] = (),
    base: str | None = None,
    origin: Origin = ORIGIN,
) -> Calibration:
    return calibrate(
        [(origin, Measured("file.txt", "bandwidthTest", curves, quantities=quantities))],
        load(base) if base else None,
    )


def named(found: Calibration) -> dict[str, Estimate]:
    return {e.name: e for e in found.parameters}


def codes(found: Calibration) -> set[str]:
    return {f.code for f in found.findings}


@given(latency=st.floats(5e-7, 5e-5), rate=st.floats(1e9, 9e11))
@settings(max_examples=30)
def test_an_exact_line_comes_back_exactly(latency: float, rate: float) -> None:
    fit = fit_curve(curve(latency, rate))
    assert fit is not None and not fit.broken
    assert fit.line.latency == pytest.approx(latency, rel=1e-6) and fit.line.rate == pytest.approx(
        rate, rel=1e-6
    )
    assert fit.held_worst < 1e-6 and fit.held_points == len(SIZES) - 2
    np.testing.assert_allclose(fit.seconds(SIZES), latency + SIZES / rate, rtol=1e-6)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    """90 % intervals of latency and rate under 5 % noise: a few of 30 miss, not most and not
    half.
    """
    missed = 0
    for seed in range(15):
        by_name = named(made(curve(2e-6, 24e9, 0.05, seed)))
        for name, truth in (("link.h2d.latency", 2e-6), ("link.h2d.bandwidth", 24e9)):
            low, high = by_name[name].interval
            missed += not low <= truth <= high
    assert missed <= 8


def test_two_lines_are_seen_where_there_are_two() -> None:
    small, large = SIZES[SIZES < 2e4], SIZES[SIZES >= 2e4]
    seconds = np.concatenate([1e-6 + small / 4e9, 9e-6 + large / 20e9])
    both = Curve("h2d", "pageable", SIZES, seconds, "h2d pageable", np.zeros(len(SIZES)))
    fit = fit_curve(both)
    assert fit is not None and len(fit.pieces) == 2
    assert fit.pieces[0].latency == pytest.approx(1e-6, rel=1e-3) and fit.pieces[
        1
    ].rate == pytest.approx(20e9, rel=1e-3)
    assert fit.pieces_worst < 1e-6 < 0.1 < fit.line_worst
    # as one line with the first latency and the last rate, the middle is missed
    used = 1e-6 + SIZES / 20e9
    assert fit.used_worst == pytest.approx(
        float(np.max(np.maximum(seconds / used, used / seconds))) - 1, rel=1e-2
    )
    assert codes(made(both)) == {"A358"}


def test_held_out_sizes_tell_a_curve_that_no_line_fits() -> None:
    seconds = np.where(np.arange(len(SIZES)) % 2 == 0, 2e-6, 6e-6) + SIZES / 1e10
    fit = fit_curve(Curve("h2d", "pinned", SIZES, seconds, "saw", np.zeros(len(SIZES))))
    assert fit is not None and fit.held_median > 0.5 and fit.held_worst > 1.0


def test_a_step_is_found_between_its_two_sizes() -> None:
    sizes = np.arange(4096.0, 262145.0, 4096.0)
    seconds = 2e-6 + sizes / 1e10 + np.where(sizes > 65536, 8e-6, 0.0)
    assert step_of(Curve("h2d", "pageable", sizes, seconds, "")) == (
        65536.0,
        69632.0,
        pytest.approx(1.983, rel=1e-3),
    )
    assert step_of(Curve("h2d", "pageable", sizes, 2e-6 + sizes / 1e10, "")) is None
    found = made(Curve("h2d", "pageable", sizes, seconds, "", means="call"))
    (step,) = found.others
    assert step.name == "pageable.threshold.h2d" and step.interval == pytest.approx(
        (65536.0, 69632.0), rel=1e-9
    )


def test_without_a_base_a_rate_stands_for_itself_and_the_share_is_one() -> None:
    by_name = named(made(curve(2e-6, 24e9)))
    assert (
        by_name["link.h2d.bandwidth"].value == pytest.approx(24e9)
        and by_name["link.h2d.bandwidth"].nature == "measured"
    )
    assert (by_name["link.h2d.efficiency"].value, by_name["link.h2d.efficiency"].nature) == (
        1.0,
        "spec",
    )


def test_with_a_base_a_rate_is_a_share_of_its_nominal_one_and_the_rest_is_inherited() -> None:
    base = load("h100-sxm5")
    found = made(curve(2e-6, 50e9), base="h100-sxm5")
    by_name = named(found)
    assert by_name["link.h2d.efficiency"].value == pytest.approx(50 / 63.015, rel=1e-3)
    assert set(by_name) == {"link.h2d.efficiency", "link.h2d.latency"}
    assert set(found.inherited) == set(base.parameters) - {"link.h2d.efficiency"}


def test_a_rate_above_the_nominal_one_of_the_base_is_left_out_and_told() -> None:
    found = made(curve(2e-6, 90e9), base="h100-sxm5")
    assert "link.h2d.efficiency" not in named(found) and "M108" in codes(found)
    assert named(made(curve(2e-6, 63.5e9), base="h100-sxm5"))["link.h2d.efficiency"].value == 1.0


def test_a_base_that_is_a_change_is_refused() -> None:
    refused("M017", made, curve(2e-6, 24e9), base="pcie5-x16")


def test_every_source_names_lines_file_hash_date_tool_device_and_driver() -> None:
    for e in made(curve(2e-6, 24e9)).parameters:
        if e.nature == "measured":
            for word in (
                "lines 3 to 31",
                "file.txt",
                "ab" * 32,
                "2026-02-03",
                "bandwidthTest",
                "NVIDIA H100 80GB HBM3",
                "550.54.15",
            ):
                assert word in e.source


def test_measurements_that_disagree_are_told() -> None:
    assert "M107" in codes(made(curve(2e-6, 24e9), curve(2e-6, 12e9)))
    assert "M107" not in codes(made(curve(2e-6, 24e9), curve(2e-6, 24.2e9)))


def test_an_event_pairs_own_time_is_taken_off() -> None:
    empty = Quantity("event.empty", 1.5e-6, "s", 0.0, 9, "event")
    assert named(made(curve(4e-6, 24e9, means="event"), quantities=(empty,)))[
        "link.h2d.latency"
    ].value == pytest.approx(2.5e-6, rel=1e-6)
    assert named(made(curve(4e-6, 24e9, means="event")))["link.h2d.latency"].value == pytest.approx(
        4e-6, rel=1e-6
    )


def test_copies_are_believed_before_messages() -> None:
    found = made(
        curve(9e-6, 20e9, direction="p2p", memory="device", means="mpi"),
        curve(3e-6, 30e9, direction="p2p", memory="device"),
    )
    assert named(found)["link.p2p.latency"].value == pytest.approx(3e-6) and named(found)[
        "link.p2p.bandwidth"
    ].value == pytest.approx(30e9)


def test_a_stream_of_messages_gives_no_latency() -> None:
    found = made(
        curve(1e-6, 24e9, direction="network", memory="unknown", means="mpi", streamed=True)
    )
    assert set(named(found)) == {"nic.bandwidth"}
    timed = made(curve(1.5e-6, 24e9, direction="network", memory="unknown", means="mpi"))
    assert named(timed)["nic.latency"].value == pytest.approx(1.5e-6, rel=1e-3)


def test_pageable_copies_and_both_directions_are_shares_of_the_same_link() -> None:
    both = Quantity("rate.both", 18e9, "B/s", 0.0, 4, "x")
    found = named(
        made(
            curve(2e-6, 24e9),
            curve(2e-6, 24e9, direction="d2h"),
            curve(9e-6, 6e9, memory="pageable"),
            quantities=(both,),
        )
    )
    assert found["link.pageable.efficiency"].value == pytest.approx(0.25, rel=1e-3)
    assert found["link.both.efficiency"].value == pytest.approx(0.75, rel=1e-3)


def test_one_large_size_gives_a_rate_and_one_small_size_nothing() -> None:
    one = np.array([2.0**25])
    found = made(curve(1e-6, 20e9, sizes=one))
    assert named(found)["link.h2d.bandwidth"].value == pytest.approx(
        20e9, rel=1e-3
    ) and "link.h2d.latency" not in named(found)
    nothing = made(curve(1e-6, 20e9, sizes=np.array([1024.0])))
    assert nothing.parameters == () and "A333" in codes(nothing)


def test_what_has_no_parameter_is_told_and_what_is_not_plausible_is_left_out() -> None:
    found = made(
        quantities=(
            Quantity("event.hop", 1e-6, "s", 0.0, 3, "x"),
            Quantity("bare.launch", 5.0, "s", 0.0, 3, "x"),
        )
    )
    assert codes(found) == {"A359", "M106"} and found.parameters == ()
    unsized = made(quantities=(Quantity("rate.h2d.pinned", 24e9, "B/s", 0.0, 3, "x", "", True),))
    assert "M105" in codes(unsized) and named(unsized)["link.h2d.bandwidth"].value == 24e9


def test_only_names_of_the_schema_get_into_the_machine() -> None:
    quantities = tuple(
        Quantity(w, 1e-6, "s", 0.0, 3, "x")
        for w in ("bare.launch", "launch.period", "load.host", "launch.to_flag", "sync.seen")
    )
    found = made(
        curve(2e-6, 24e9),
        curve(1e-6, 2e12, direction="kernel", memory="device", means="kernel"),
        quantities=quantities,
    )
    assert set(named(found)) <= set(schema()) and [e.name for e in found.parameters] == [
        n for n in schema() if n in named(found)
    ]
    assert named(found)["sync.return"].value == pytest.approx(1.5e-6) and named(found)[
        "launch.latency"
    ].value == pytest.approx(0.5e-6)
    assert all(math.isfinite(e.value) and e.value > 0 for e in (*found.parameters, *found.others))


def test_rates_of_both_directions_and_of_pageable_memory_above_the_nominal_are_left_out() -> None:
    both = Quantity("rate.both", 80e9, "B/s", 0.0, 3, "lines 1 to 3")
    found = made(
        curve(2e-6, 90e9, memory="pageable", means="host"), quantities=(both,), base="h100-sxm5"
    )
    assert not named(found) and sum(f.count for f in found.findings if f.code == "M108") == 2
    # no more than the base says of one direction alone, where that one was not measured
    alone = load("h100-sxm5").value("link.h2d.efficiency")
    close = made(
        quantities=(Quantity("rate.both", 62e9, "B/s", 0.0, 3, "lines 1 to 3"),), base="h100-sxm5"
    )
    assert alone is not None and named(close)["link.both.efficiency"].value <= alone


def test_a_latency_of_the_smallest_sizes_is_no_surer_than_two_halves_of_them_agree() -> None:
    sizes = 2.0 ** np.arange(0, 29)
    latency = np.where(
        sizes > 65536, 3e-5, np.where(np.arange(len(sizes)) % 2 == 0, 2.0e-6, 2.8e-6)
    )
    fit = fit_curve(Curve("d2h", "pinned", sizes, latency + sizes / 2e10, "", np.zeros(len(sizes))))
    assert fit is not None and fit.broken
    assert fit.pieces[0].latency_error > 0.14 > fit.pieces[-1].rate_error
