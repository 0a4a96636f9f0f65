"""Transfers of one node on the data sheet of another: prices, intervals, baselines, matching and
errors.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike
from runs import recorded_profile, run_of

from turnbuckle.cost.packet import copy_seconds, large_share, link
from turnbuckle.examples import sample
from turnbuckle.foundation.errors import TurnbuckleError
from turnbuckle.foundation.fields import SCHEMA_VERSION
from turnbuckle.machine import load
from turnbuckle.machine.measured.logs import Curve, Measured, read_measured
from turnbuckle.profile.profile import build
from turnbuckle.profile.source import ASSUMED_ERROR, ASSUMED_LINK, machine_of_copies
from turnbuckle.profile.transfers import sharers as sharers_of
from turnbuckle.projection.elsewhere.priors import (
    COPY_LATENCY_SD,
    DEVICE,
    LATENCY,
    LINK,
    LINK_FASTEST,
    LINK_SHARE,
    MOST_SHARERS,
    PEER,
    SHARING,
    STAGED,
    STAGED_BELOW,
    STAGED_RATE,
    STAGED_SPREAD,
)
from turnbuckle.projection.order import Prepared
from turnbuckle.projection.run import Run
from turnbuckle.questions.transfers.datasheet import (
    APPROACHES,
    Projected,
    Total,
    on_sheet,
    percentage_errors,
    project,
    study,
    weighted_spread,
    wmape,
)
from turnbuckle.questions.transfers.question import (
    Latency,
    Transfers,
    compared,
    distribution,
    each_copy,
    latencies,
    measured,
    recorded,
    words,
)
from turnbuckle.questions.transfers.sheet import Sheet, sheet

Row = tuple[str, str, float, float]
SIZES = np.geomspace(1, 2**28, 29).round()


def transfers(*rows: Row, name: str = "run", sharers: int = 1) -> Transfers:
    """Recorded copies: direction, memory, bytes, seconds."""
    frame = pl.DataFrame(
        rows, schema=["direction", "memory", "size_bytes", "seconds"], orient="row"
    )
    frame = frame.with_columns(pl.col("size_bytes", "seconds").cast(pl.Float64))
    return Transfers(
        name, frame, *machine_of_copies(frame), Prepared(each_copy(frame), 0.0, sharers=sharers)
    )


def curve(
    seconds: ArrayLike, direction: str = "h2d", memory: str = "pinned", streamed: bool = False
) -> Curve:
    return Curve(
        direction, memory, SIZES, np.asarray(seconds), f"{direction} {memory}", streamed=streamed
    )


def curves(*found: Curve) -> Transfers:
    return measured(Measured("curve.log", "CSV", found))


def code(exception: pytest.ExceptionInfo[TurnbuckleError]) -> str:
    assert exception.value.fix and exception.value.found
    return exception.value.code


def details(found: Projected, which: str) -> str:
    return "; ".join(f.detail for f in found.findings if f.code == which)


# --- errors ---------------------------------------------------------------------------------------

times = st.lists(st.tuples(st.floats(1e-7, 1e3), st.floats(0, 1e3)), min_size=1, max_size=30)


@given(times, st.floats(1e-3, 1e3))
def test_wmape_is_the_sum_of_weighted_errors(
    pairs: list[tuple[float, float]], scale: float
) -> None:
    actual, predicted = np.array(pairs).T
    expected = 100 * np.abs(actual - predicted).sum() / actual.sum()
    assert wmape(actual, predicted) == pytest.approx(expected)
    assert wmape(scale * actual, scale * predicted) == pytest.approx(expected)
    assert wmape(np.tile(actual, 3), np.tile(predicted, 3)) == pytest.approx(expected), (
        "no average: it does not shrink with n"
    )
    errors = percentage_errors(actual, predicted)
    assert errors.min() * (1 - 1e-9) <= wmape(actual, predicted) <= errors.max() * (1 + 1e-9)
    variance = (actual * (errors - expected) ** 2).sum() / actual.sum()
    assert weighted_spread(actual, predicted) == pytest.approx(
        math.sqrt(variance), abs=1e-9 * (1 + expected)
    )


def test_no_error_no_wmape() -> None:
    assert wmape([1.0, 2.0], [1.0, 2.0]) == 0 == weighted_spread([1.0, 2.0], [1.0, 2.0])
    assert weighted_spread([1.0, 5.0], [2.0, 10.0]) == pytest.approx(0), "all off alike"


@pytest.mark.parametrize(
    ("actual", "predicted"),
    [
        ([], []),
        ([1.0], [1.0, 2.0]),
        ([0.0], [1.0]),
        ([-1.0], [1.0]),
        ([1.0], [-1.0]),
        ([math.nan], [1.0]),
        ([1.0], [math.inf]),
    ],
)
def test_times_that_cannot_be_compared(actual: list[float], predicted: list[float]) -> None:
    with pytest.raises(TurnbuckleError) as refused:
        wmape(actual, predicted)
    assert code(refused) == "A024"


# --- (L+O) ----------------------------------------------------------------------------------------


def test_latency_is_the_median_of_the_smallest_copies() -> None:
    run = transfers(
        ("h2d", "pinned", 1, 2e-6),
        ("h2d", "pinned", 64, 4e-6),
        ("h2d", "pinned", 8, 3e-6),
        ("h2d", "pinned", 65, 9.0),
    )
    (found,) = latencies(run, [("h2d", "pinned")]).values()
    assert (found.seconds, found.copies, found.size_bytes, found.borrowed) == (3e-6, 3, 64, False)


def test_latency_is_borrowed_from_the_same_direction_first_and_never_across_kinds() -> None:
    rows: list[Row] = [
        ("h2d", "pageable", 8, 5e-6),
        ("d2h", "pinned", 8, 1e-6),
        ("d2d", "device", 8, 9e-6),
        ("h2d", "pinned", 1e7, 1e-3),
    ]
    run = transfers(*rows)
    found = latencies(run, [("h2d", "pinned"), ("d2h", "pageable"), ("p2p", "device")])
    assert [(v.seconds, v.borrowed) for v in found.values()] == [
        (5e-6, True),
        (1e-6, True),
        (9e-6, True),
    ]
    assert ("d2d", "device") not in latencies(
        transfers(*rows[:2]), [("h2d", "pageable"), ("d2d", "device")]
    )


def test_latency_from_a_line_where_no_copy_is_small() -> None:
    run = transfers(*(("h2d", "pinned", n, 3e-6 + n / 12e9) for n in (8192, 1e5, 1e7)))
    (found,) = latencies(run, [("h2d", "pinned")]).values()
    assert found.seconds == pytest.approx(3e-6) and found.borrowed


@pytest.mark.parametrize(
    "run",
    [
        transfers(("h2d", "pinned", 8192, 1e-6), ("h2d", "pinned", 8193, 2e-6)),
        transfers(("h2d", "pinned", 1e6, 1e-3), ("h2d", "pinned", 1e8, 1e-1)),
        curves(curve(SIZES / 1e9, streamed=True)),
    ],
    ids=["one size", "no fixed part", "a stream"],
)
def test_without_a_small_copy_the_fixed_part_is_assumed_and_says_so(run: Transfers) -> None:
    found = latencies(run, run.classes)[run.classes[0]]
    assert (
        found.seconds == ASSUMED_LINK[2] and found.borrowed and found.source.startswith("assumed")
    )
    assert run.source.parameters["link.h2d.latency"].error == ASSUMED_ERROR
    assert latencies(run, run.classes, 5e-6)[run.classes[0]].seconds == 5e-6
    assert project(run, sheet("pcie4-x16")).total.seconds > 0, "the question is answered"


# --- the papers' prices ---------------------------------------------------------------------------


def one(
    direction: str, memory: str, on: str = "pcie4-x16", latency: float = 2e-6, **more: float
) -> pl.DataFrame:
    run = transfers(*((direction, memory, n, 1.0) for n in SIZES))
    told = Latency(latency, 1, 1, "")
    rows, _ = on_sheet(run.rows, {(direction, memory): told}, sheet(on, **more))  # type: ignore[arg-type]
    return rows


@pytest.mark.parametrize(
    ("direction", "way"), [("h2d", "read"), ("d2h", "write"), ("p2p", "write")]
)
def test_pinned_copies_follow_equation_10(direction: str, way: str) -> None:
    over = link("pcie4-x16")
    found = one(direction, "device" if direction == "p2p" else "pinned")
    assert found["packets"].to_numpy() == pytest.approx(
        copy_seconds(SIZES, over, way, latency=2e-6)
    )  # type: ignore[arg-type]
    assert found["peak"].to_numpy() == pytest.approx(2e-6 + SIZES / over.raw_bandwidth)
    assert found["envelope"].to_numpy() == pytest.approx(SIZES / over.raw_bandwidth)


def test_pageable_copies_follow_equation_9_from_the_threshold_on() -> None:
    found = one("h2d", "pageable", host_memory=50e9)
    staged = copy_seconds(
        SIZES, link("pcie4-x16"), "read", latency=2e-6, host_memory_bandwidth=50e9
    )
    assert found["packets"].to_numpy() == pytest.approx(staged)


def test_copies_inside_a_device_read_and_write() -> None:
    found = one("d2d", "device", device_memory=900e9)
    assert found["packets"].to_numpy() == pytest.approx(2e-6 + 2 * SIZES / 900e9)
    assert found["peak"].to_numpy() == pytest.approx(2e-6 + SIZES / 900e9), "the paper's own"


@given(
    st.sampled_from(["pcie1-x4", "pcie3-x16", "pcie6-x16", "nvlink2-x2"]),
    st.sampled_from(["h2d", "d2h"]),
    st.floats(0, 1e-3),
)
def test_the_envelope_is_below_the_peak_is_below_the_packets(
    name: str, direction: str, latency: float
) -> None:
    found = one(direction, "pinned", name, latency)
    assert (found["envelope"] <= found["peak"]).all() and (
        found["peak"] <= found["packets"] * (1 + 1e-12)
    ).all()
    assert (found["packets"].diff().drop_nulls() >= 0).all()


# --- the one price, on another node of which the link is known ------------------------------------

#: A node whose pinned copies follow a line of 3 us and 12 GB/s.
HERE = transfers(*((way, "pinned", n, 3e-6 + n / 12e9) for way in ("h2d", "d2h") for n in SIZES))
#: Middle of a half-normal, and its 95 % quantile.
MIDDLE, HIGH = 0.6745, 1.96


def total_of(*rows: Row, on: str = "pcie4-x16", sharers: int = 1, **more: float) -> Total:
    """Copies of B alone, priced with what A shows."""
    node = sheet(on, node=True, **more)  # type: ignore[arg-type]
    return project(HERE, node, transfers(*rows, sharers=sharers), all_of_there=True).total


def test_the_interval_of_small_copies_is_that_of_the_fixed_part() -> None:
    total = total_of(*[("h2d", "pinned", 8, 1.0)] * 5)
    ends = [math.exp(z * COPY_LATENCY_SD) for z in (-1.6448536, 1.6448536)]
    assert total.seconds == pytest.approx(5 * 3e-6, rel=1e-3)
    assert [total.low / total.seconds, total.high / total.seconds] == pytest.approx(ends, rel=0.1)
    assert next(iter(total.drivers)) == LATENCY


def test_large_copies_take_the_middle_of_what_nodes_reach_of_their_packets() -> None:
    total = total_of(("h2d", "pinned", 2**30, 1.0))
    best = 2**30 / (
        LINK_FASTEST
        * large_share("pcie", link("pcie4-x16").raw_bandwidth, "h2d")
        * link("pcie4-x16").raw_bandwidth
    )
    assert total.seconds == pytest.approx(best * math.exp(MIDDLE * LINK_SHARE), rel=1e-3)
    assert total.high == pytest.approx(best * math.exp(HIGH * LINK_SHARE), rel=0.1)
    assert best * 0.99 <= total.low <= best * 1.1 and list(total.drivers) == [LINK]
    inside, between = (
        total_of(("d2d", "device", 2**30, 1.0), device_memory=1e12),
        total_of(("p2p", "device", 2**30, 1.0)),
    )
    assert (list(inside.drivers), list(between.drivers)) == ([DEVICE], [PEER])
    assert (
        inside.high / inside.seconds < total.high / total.seconds < between.high / between.seconds
    )


def test_others_on_the_link_count_only_where_there_are_others() -> None:
    row: Row = ("h2d", "pinned", 2**30, 1.0)
    one, two, sixteen, many = (total_of(row, sharers=n) for n in (1, 2, 16, 10**6))
    assert SHARING not in one.drivers and SHARING in two.drivers
    assert one.high < two.high < sixteen.high == many.high
    assert two.seconds == pytest.approx(one.seconds * math.sqrt(2), rel=1e-3)
    assert (
        sixteen.seconds
        == many.seconds
        == pytest.approx(one.seconds * math.sqrt(MOST_SHARERS), rel=1e-3)
    )
    said = project(transfers(row, sharers=4), sheet("pcie4-x16", node=True))
    assert "4 devices or ranks" in details(said, "A334")
    assert total_of(
        ("d2d", "device", 2**30, 1.0), device_memory=1e12, sharers=8
    ).drivers.keys() == {DEVICE}


def test_pageable_copies_are_staged_by_the_host_and_no_faster_than_the_link() -> None:
    row: Row = ("h2d", "pageable", 2**30, 1.0)
    fast, slow = total_of(row, on="pcie5-x16"), total_of(row, on="pcie1-x4")
    assert (
        fast.seconds == pytest.approx(2**30 / STAGED_RATE, rel=1e-3)
        and next(iter(fast.drivers)) == STAGED
    )
    assert fast.high == pytest.approx(
        2**30 / (STAGED_RATE * math.exp(-1.645 * STAGED_SPREAD)), rel=0.1
    )
    assert fast.low > 2**30 / link("pcie5-x16").raw_bandwidth and next(iter(slow.drivers)) == LINK
    small = total_of(*[("h2d", "pageable", 2**18, 1.0)] * 50, on="pcie5-x16")
    assert STAGED_BELOW in small.drivers
    shown = transfers(
        *(
            ("h2d", memory, n, 3e-6 + n / rate)
            for memory, rate in (("pinned", 24e9), ("pageable", 5e9))
            for n in SIZES
        )
    )
    carried = project(shown, sheet("pcie5-x16", node=True), transfers(row), all_of_there=True).total
    assert carried.seconds == pytest.approx(2**30 / 5e9, rel=1e-3), "the recorded rate of staging"
    assert carried.low < carried.seconds < carried.high


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["h2d", "d2h", "p2p"]),
            st.sampled_from(["pinned", "pageable", "unknown"]),
            st.floats(1, 1e9),
        ),
        min_size=1,
        max_size=20,
    ),
    st.integers(1, 20),
)
def test_an_interval_holds_its_answer_and_its_shares_are_shares(
    rows: list[tuple[str, str, float]], sharers: int
) -> None:
    run = transfers(*((d, m, n, 2e-6 + n / 9e9) for d, m, n in rows), sharers=sharers)
    for total in project(run, sheet("pcie4-x16", node=True)).totals:
        assert 0 < total.low <= total.seconds <= total.high < math.inf
        assert (
            all(0 < share <= 1 for share in total.drivers.values())
            and sum(total.drivers.values()) <= 1 + 1e-9
        )


def test_another_link_on_the_same_host_is_a_change_of_the_link_alone() -> None:
    """`--on pcie4-x16` is the recorded node on that link, as everywhere else."""
    found = project(HERE, sheet("pcie4-x16"))
    assert not {LINK, LATENCY} & found.total.drivers.keys()
    assert (
        found.total.measured_seconds is not None
        and found.total.seconds < found.total.measured_seconds
    )
    same = project(HERE, Sheet("here", HERE.source, {}, {}))
    assert same.total.seconds == same.total.measured_seconds == same.total.low == same.total.high


def test_what_is_assumed_is_said() -> None:
    small: list[Row] = [
        ("h2d", "unknown", 8, 2e-6),
        ("h2d", "pageable", 8, 2e-6),
        ("d2h", "managed", 8, 2e-6),
        ("d2d", "device", 8, 2e-6),
    ]
    found = project(transfers(*small, ("p2p", "device", 8, 2e-6)), sheet("pcie4-x16"))
    said = details(found, "A334")
    for part in (
        "memory unknown: packets as of pinned",
        "--host-memory",
        "managed memory",
        "over the host's link",
    ):
        assert part in said
    assert "--device-memory" in details(found, "A333")
    assert [t.count for t in found.totals] == [1, 1, 1, 1, 1, 5]
    assert [t.packets is None for t in found.totals] == [False, False, False, True, False, True]


def test_nothing_to_price() -> None:
    with pytest.raises(TurnbuckleError) as refused:
        project(
            HERE,
            sheet("pcie4-x16", node=True),
            transfers(("d2d", "device", 8, 1e-6)),
            all_of_there=True,
        )
    assert code(refused) == "A146"


# --- data sheets ----------------------------------------------------------------------------------


def test_a_machine_gives_its_link() -> None:
    h100 = sheet("h100-sxm5")
    assert h100.links["h2d"] == link("pcie5-x16") and h100.peaks["d2d"] == load("h100-sxm5").value(
        "gpu.memory_bandwidth"
    )
    assert sheet(load("h100-sxm5")) == h100, "a machine at hand is taken as its name is"
    assert sheet("summit").links["d2h"] == link("nvlink2-x2")
    assert sheet("pcie5-x16").links["h2d"] == link("pcie5-x16"), (
        "a change of the source that sets the link"
    )
    assert (
        sheet("h100-sxm5", host_memory=1e9, device_memory=2e9, peer="nvlink4-x18").peaks["d2d"]
        == 2e9
    )
    assert sheet("h100-sxm5", peer="nvlink4-x18").links["p2p"] == link("nvlink4-x18")


def test_a_link_without_packets_is_priced_at_its_peak() -> None:
    found = project(
        transfers(("h2d", "pinned", 8, 2e-6), ("h2d", "pinned", 1e9, 1.0)), sheet("gh200")
    )
    assert found.link == "no packet model" and "without packets" in details(found, "A334")
    assert (
        found.totals[0].packets == found.totals[0].peak == pytest.approx(4e-6 + (8 + 1e9) / 450e9)
    )


def test_reads_in_flight_limit_the_answer_and_not_the_packets() -> None:
    source = load("a100-sxm4-80")
    run = replace(
        transfers(
            ("h2d", "pinned", 8, 2e-6), ("h2d", "pinned", 1e9, 0.05), ("d2h", "pinned", 1e9, 0.05)
        ),
        source=source,
    )
    found = project(run, sheet("cdi-row-link", source=source))
    (h2d, d2h) = found.totals[:2]
    assert h2d.packets is not None and h2d.seconds > h2d.packets and h2d.seconds > d2h.seconds
    assert "distance of cdi-row-link is not in the packets" in details(found, "A334")


def test_one_memory_needs_no_copy() -> None:
    found = project(HERE, sheet("mi300a"))
    assert (
        found.total.seconds == 0
        and found.totals[0].basis == "one memory: no copy"
        and found.total.packets is None
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [("summt", "A022"), ("\x1b[31m", "A022"), ("pcie9-x16", "A016"), ("pcie4-x3", "A016")],
)
def test_names_that_give_no_sheet(name: str, expected: str) -> None:
    with pytest.raises(TurnbuckleError) as refused:
        sheet(name)
    assert code(refused) == expected and "\x1b" not in "".join(refused.value.lines())


# --- which transfers belong together --------------------------------------------------------------


def test_curves_meet_inside_the_measured_sizes() -> None:
    run = transfers(
        *(("h2d", "pinned", n, 1.0) for n in (0.5, 1000, 2.0**20, 2.0**29)),
        ("d2h", "pinned", 8, 1.0),
    )
    found = compared(run, curves(curve(2e-6 + SIZES / 1e9)))
    assert found.rows["size_bytes"].to_list() == [1000, 2**20]
    assert found.rows["actual"].to_numpy() == pytest.approx([3e-6, 2e-6 + 2**20 / 1e9], rel=0.05)
    assert [(f.code, f.count) for f in found.findings] == [("A333", 3)]


def test_two_runs_of_a_program_meet_copy_by_copy() -> None:
    sizes = [8, 1024, 8, 8]
    here = transfers(*(("h2d", "pinned", n, 1.0) for n in sizes))
    there = transfers(*(("h2d", "pinned", n, 0.1 * (k + 1)) for k, n in enumerate(sizes)))
    found = compared(here, there)
    assert (
        found.rows["actual"].to_numpy() == pytest.approx([0.1, 0.2, 0.3, 0.4])
        and not found.findings
    )
    fewer = compared(here, transfers(("h2d", "pinned", 8, 0.5), ("h2d", "pinned", 7, 0.5)))
    assert fewer.rows["actual"].to_list() == [0.5] and fewer.findings[0].count == 3


def test_memory_that_was_not_recorded_meets_the_only_other() -> None:
    here = transfers(("h2d", "unknown", 1000, 1.0))
    found = compared(here, curves(curve(SIZES)))
    assert found.rows.height == 1 and found.findings[0].code == "A334"
    with pytest.raises(TurnbuckleError) as refused:
        compared(transfers(("h2d", "pageable", 1000, 1.0)), curves(curve(SIZES)))
    assert code(refused) == "A146"


def test_the_other_nodes_own_transfers() -> None:
    here, there = (
        transfers(("h2d", "pinned", 8, 2e-6), ("h2d", "pinned", 1e7, 1e-3)),
        transfers(("h2d", "pinned", 1e6, 1e-3), ("h2d", "pinned", 2e6, 2e-3)),
    )
    found = project(here, sheet("pcie4-x16"), there, all_of_there=True)
    assert (found.totals[0].count, found.totals[0].measured_seconds, found.transfers_of) == (
        2,
        None,
        there.name,
    )
    assert found.errors[0].count == 2 and found.errors[0].actual == pytest.approx(3e-3)
    by_curve = project(curves(curve(2e-6 + SIZES / 1e9)), sheet("pcie4-x16"), there)
    assert by_curve.totals[0].count == 2, "a curve is no application"


def test_a_node_that_obeys_the_model_has_no_error() -> None:
    truth = copy_seconds(SIZES, link("pcie5-x16"), "read", latency=3e-6)
    here = curves(curve(copy_seconds(SIZES, link("pcie3-x16"), "read", latency=3e-6)))
    found = project(here, sheet("pcie5-x16"), curves(curve(truth)))
    errors = {e.approach: e.wmape for e in found.errors if e.direction == "all"}
    assert errors["packets"] == pytest.approx(0, abs=0.5), "but for the bytes of the smallest copy"
    assert errors["packets"] < errors["peak"] < errors["envelope"]
    assert found.judged.columns == [
        "direction",
        "memory",
        "size_bytes",
        "actual",
        *APPROACHES,
    ] and found.judged.height == len(SIZES)


def test_two_measurements_of_one_class_are_no_guess() -> None:
    with pytest.raises(TurnbuckleError) as refused:
        curves(curve(SIZES), curve(SIZES))
    assert code(refused) == "A021"
    with pytest.raises(TurnbuckleError) as refused:
        curves(curve(SIZES, "h2h", "unknown"))
    assert code(refused) == "A146"


# --- applications ---------------------------------------------------------------------------------


def test_a_recording() -> None:
    with sample() as path:
        seen = run_of(path)
    run = recorded(seen, "heat")
    profile, copies = seen.profile, seen.judged.trace.copies
    assert (
        run.rows.height == copies.height
        and run.rows["size_bytes"].sum() == copies["size_bytes"].sum()
    )
    assert all(words(c) for c in run.classes) and run.name == "heat"
    found = distribution(run)
    assert (
        sum(r["count_share"] for r in found)
        == pytest.approx(1)
        == sum(r["time_share"] for r in found)
    )
    assert [r["low_bytes"] for r in found] == sorted(r["low_bytes"] for r in found)
    with pytest.raises(TurnbuckleError) as refused:
        recorded(
            Run.of(
                build(
                    replace(
                        profile.trace,
                        tables={k: v for k, v in profile.trace.tables.items() if k != "copies"},
                    )
                )
            )
        )
    assert code(refused) == "A146"


def test_how_many_devices_copied_at_once() -> None:
    """Overlapping host copies of two devices share a link perhaps; one after the other, or of one
    device, they do not.
    """
    with sample() as path:
        profile = recorded_profile(path)
    two = profile.trace.copies.head(2)

    def sharers(
        start: list[int], device: list[int], direction: int = 1, world_size: int | None = None
    ) -> int:
        rows = two.with_columns(
            start_ns=pl.Series(start),
            end_ns=pl.Series(start) + 100,
            device=pl.Series(device, dtype=pl.Int32),
            direction=pl.lit(direction, dtype=pl.Int8),
        )
        facts = {
            **profile.trace.facts,
            **({} if world_size is None else {"world_size": world_size}),
        }
        return sharers_of(
            replace(
                profile,
                trace=replace(
                    profile.trace, tables={**profile.trace.tables, "copies": rows}, facts=facts
                ),
            )
        )

    assert sharers([0, 50], [0, 1]) == 2
    assert (
        sharers([0, 100], [0, 1])
        == sharers([0, 50], [0, 0])
        == sharers([0, 50], [0, 1], direction=3)
        == 1
    )
    assert sharers([0, 100], [0, 1], world_size=16) == 16


@pytest.mark.parametrize(
    ("size", "low"),
    [(1, 1), (9, 1), (10, 10), (999, 100), (1000, 1000), (10**6, 10**6), (10**9, 10**9)],
)
def test_decades(size: int, low: int) -> None:
    (found,) = distribution(transfers(("h2d", "pinned", size, 1.0)))
    assert (found["low_bytes"], found["high_bytes"]) == (low, 10 * low)


def test_several_applications() -> None:
    a, b = (
        transfers(("h2d", "pinned", 8, 2e-6), name="a"),
        transfers(("d2h", "pinned", 8, 2e-6), name="b"),
    )
    found = study(
        [(a, None), (b, b)], [[sheet("pcie4-x16"), sheet("pcie5-x16")], [sheet("pcie4-x16")]]
    )
    shown = [(p.application, p.target, len(p.errors)) for p in found.projected]
    assert shown == [("a", "pcie4-x16", 0), ("a", "pcie5-x16", 0), ("b", "pcie4-x16", 8)]
    document = found.as_dict()
    assert document["schema_version"] == SCHEMA_VERSION and [
        d["application"] for d in document["distributions"]
    ] == ["a", "b"]
    assert len(found.rows()) == 6


# --- real nodes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("here", "there", "on", "most"),
    [
        (
            "superbench_v100_pcie_copy/cuda_memory_h2d_bw.log",
            "superbench_v100_pcie_copy/cuda_memory_h2d_bw.log",
            "pcie3-x16",
            9,
        ),
        (
            "superbench_v100_pcie_copy/cuda_memory_d2h_bw.log",
            "superbench_v100_pcie_copy/cuda_memory_d2h_bw.log",
            "pcie3-x16",
            2,
        ),
        (
            "superbench_v100_pcie_copy/cuda_memory_h2d_bw.log",
            "superbench_mi100_h2d/rocm_memory_h2d_bw.log",
            "pcie4-x16",
            11,
        ),
    ],
)
def test_real_nodes_as_well_as_the_paper(
    shared: Path, here: str, there: str, on: str, most: float
) -> None:
    """The paper's own error is 19 and 23 %; the order of its approaches holds here too."""
    folder = shared / "traces" / "measured"
    found = project(
        measured(read_measured(folder / here)), sheet(on), measured(read_measured(folder / there))
    )
    errors = {e.approach: e.wmape for e in found.errors if e.direction == "all"}
    assert errors["packets"] < most and errors["packets"] < errors["peak"] < errors["envelope"]
