"""Values that no machine can have are read as not recorded, and rows whose times cannot be are set
aside: one value after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import polars as pl
import pytest
from frames import launched, tables
from hostile_names import SAMPLE

from turnbuckle.foundation import schema
from turnbuckle.machine import all_machines
from turnbuckle.machine.parameter_names import parameter_name
from turnbuckle.profile.profile import build
from turnbuckle.projection.run import Run
from turnbuckle.trace.bounds import LINK_RATE, MEMORY_RATE, bounds, sound
from turnbuckle.trace.check import check
from turnbuckle.trace.read import read
from turnbuckle.trace.trace import Trace

SECOND = 1_000_000_000
TARGETS = ("cdi-row-link", "gh200")


def one_row(table: str, **cells: Any) -> dict[str, pl.DataFrame]:
    """Return a sound run with one more row of a table, which lasts 17 us."""
    times = {"devices": {}, "allocations": {"time_ns": 6_000}}.get(
        table, {"start_ns": 5_000, "end_ns": 22_000}
    )
    rows = launched(3)
    return tables(**{**rows, table: [*rows.get(table, []), {**times, **cells}]})


@pytest.mark.parametrize(
    ("table", "column", "value", "more"),
    [
        *(
            ("copies", "size_bytes", size, {"direction": way})
            for size in (2**31, 2**40, 2**50, -1)
            for way in (1, 2, 3, 4, 6)
        ),
        ("memsets", "size_bytes", 2**40, {}),
        ("allocations", "size_bytes", 2**50, {}),
        ("allocations", "size_bytes", -4096, {}),
        ("mpi", "size_bytes", 2**62, {}),
        ("mpi", "receive_bytes", -8, {}),
        ("collectives", "size_bytes", 2**60, {}),
        ("collectives", "ranks", 2**40, {}),
        ("kernels", "blocks", 2**31, {}),
        ("kernels", "blocks", -1, {}),
        ("kernels", "threads", 2**20, {}),
        ("kernels", "registers", 65_000, {}),
        ("kernels", "shared_bytes", 2**30, {}),
        ("devices", "memory_bytes", 2**60, {}),
        ("devices", "memory_bytes", 17, {}),
        ("devices", "memory_bandwidth", 2**50, {}),
        ("devices", "clock_hz", 2**40, {}),
        ("devices", "multiprocessors", 70_000, {}),
    ],
)
def test_a_value_beyond_all_machines_is_not_recorded(
    table: str, column: str, value: int, more: Mapping[str, Any]
) -> None:
    given = one_row(table, **{column: value}, **more)
    kept, (found,) = sound(given, {})
    assert (found.code, found.severity, found.count, found.detail) == (
        "P240",
        "warning",
        1,
        f"{table}.{column} 1",
    )
    assert value not in kept[table][column].to_list()
    assert kept[table].drop(column).equals(given[table].drop(column)), (
        "the row stays, with all else that it says"
    )
    assert sound(kept, {})[1] == []


@pytest.mark.parametrize(
    ("table", "cells"),
    [
        ("copies", {"size_bytes": 15 * 2**20, "direction": 1}),  # 925 GB/s
        # shorter than the clock tells
        (
            "copies",
            {"size_bytes": 64, "direction": 2, "end_ns": 5_000},
        ),
        ("copies", {"size_bytes": 128 * 2**20, "direction": 3}),
        ("kernels", {"blocks": 2**24, "threads": 1024, "registers": 512, "shared_bytes": 232_448}),
        (
            "devices",
            {
                "memory_bytes": 288 * 10**9,
                "memory_bandwidth": 8 * 10**12,
                "clock_hz": 2_619_000_000,
                "multiprocessors": 304,
            },
        ),
        ("mpi", {"size_bytes": 2**33}),
        ("collectives", {"size_bytes": 2**34, "ranks": 100_000}),
    ],
)
def test_what_some_machine_can_do_is_believed(table: str, cells: Mapping[str, Any]) -> None:
    given = one_row(table, **cells)
    kept, found = sound(given, {})
    assert found == [] and all(kept[name] is frame for name, frame in given.items())


def test_rates_are_twice_those_of_the_fastest_machine() -> None:
    alone = [machine for machine in all_machines() if not machine.relative]

    def fastest(*names: str) -> float:
        return max(
            value
            for machine in alone
            for name in names
            if (value := machine.value(parameter_name(name))) is not None
        )

    assert (
        fastest("link.h2d.bandwidth", "link.d2h.bandwidth", "link.p2p.bandwidth") * 2 == LINK_RATE
    )
    assert fastest("gpu.memory_bandwidth") * 2 == MEMORY_RATE


def test_each_bound_is_of_a_column_that_may_be_missing() -> None:
    columns = {(name, c.name): c for name, table in schema.tables().items() for c in table}
    for bound in bounds():
        assert columns[bound.table, bound.column].nullable and bound.least <= bound.most


def test_a_copy_is_no_larger_than_its_device() -> None:
    rows = {**launched(300), "devices": [{"device": 0, "memory_bytes": 2**34}]}
    rows["copies"] = [
        {"start_ns": 0, "end_ns": SECOND, "size_bytes": size} for size in (2**30, 2**35)
    ]
    kept, (found,) = sound(tables(**rows), {})
    assert found.detail == "copies.size_bytes 1" and kept["copies"]["size_bytes"].to_list() == [
        2**30,
        None,
    ]
    rows["copies"] = [{"start_ns": 0, "end_ns": SECOND, "size_bytes": 2**35} for _ in range(9)]
    kept, (found,) = sound(tables(**rows), {})
    assert (
        found.detail == "devices.memory_bytes 1" and kept["copies"]["size_bytes"].null_count() == 0
    )


@pytest.mark.parametrize("table", ["kernels", "copies", "memsets", "graphs"])
@pytest.mark.parametrize(
    "times", [(5_000, 1200 * SECOND), (900 * SECOND, 901 * SECOND), (-900 * SECOND, 6_000)]
)
def test_device_work_far_from_all_calls_is_set_aside(table: str, times: tuple[int, int]) -> None:
    rows = launched(200)
    rows[table] = [*rows.get(table, []), {"start_ns": times[0], "end_ns": times[1]}]
    _, (found,) = sound(tables(**rows), {})
    assert (found.code, found.count, found.detail) == ("P241", 1, f"{table} 1")
    # a call that waits for it is evidence
    rows["api"].append({"start_ns": min(times[0], 5_000), "end_ns": times[1]})
    assert sound(tables(**rows), {})[1] == []


def test_much_work_without_calls_is_the_recording_s_own_way() -> None:
    rows = launched(50)
    rows["kernels"] += [
        {"start_ns": (100 + k) * SECOND, "end_ns": (100 + k) * SECOND + 5} for k in range(50)
    ]
    assert sound(tables(**rows), {})[1] == []
    rows["api"] = []
    assert sound(tables(**rows), {})[1] == []


def test_one_call_that_ends_long_after_all_else_is_told_and_kept() -> None:
    rows = launched(20)
    rows["api"].append({"start_ns": 4_000, "end_ns": 900 * SECOND})
    kept, found = sound(tables(**rows), {})
    assert found == []
    assert [(f.code, f.detail) for f in check(kept, {}) if f.code == "P242"] == [
        ("P242", "api, by 900 s")
    ]
    rows["kernels"].append({"start_ns": 5_000, "end_ns": 899 * SECOND})
    assert [f for f in check(tables(**rows), {}) if f.code == "P242"] == [], (
        "the kernel that it waits for is evidence"
    )


@cache
def sample() -> Trace:
    return read(SAMPLE)


def asked(trace: Trace) -> tuple[list[float], set[str]]:
    """Return run time, penalties on `TARGETS`, and the codes of all warnings."""
    run = Run.of(build(trace))
    projections = run.project(list(TARGETS), draws=0).projections
    findings = [*run.findings, *(f for p in projections for f in p.findings)]
    return [run.seconds, *(p.penalty for p in projections)], {
        f.code for f in findings if f.severity == "warning"
    }


FLIPPED = [
    *(("copies", "size_bytes", bit) for bit in (35, 40, 50, 62)),
    *(("kernels", column, bit) for column in ("blocks", "threads") for bit in (40, 62)),
    *((table, "end_ns", bit) for table in ("kernels", "copies") for bit in (31, 33, 40, 44, 50)),
    *(("api", "end_ns", bit) for bit in (36, 40, 44, 50)),
    *(
        ("devices", column, bit)
        for column in ("memory_bytes", "memory_bandwidth", "clock_hz")
        for bit in (50, 62)
    ),
]


@pytest.mark.parametrize(("table", "column", "bit"), FLIPPED)
def test_one_flipped_bit_moves_no_answer_without_a_word(table: str, column: str, bit: int) -> None:
    """The law of this module: within 5 % of the sound answer, or a warning that the sound one
    lacks.
    """
    frame = sample().table(table)
    wanted, usual = asked(sample())
    for row in sorted({0, frame.height // 2, frame.height - 1}):
        if frame[column][row] is None:
            continue
        value = frame[column][row] ^ (1 << bit)
        spoiled = frame.with_columns(
            pl.when(pl.int_range(pl.len()) == row).then(value).otherwise(column).alias(column)
        )
        found, told = asked(replace(sample(), tables={**sample().tables, table: spoiled}))
        assert found == pytest.approx(wanted, rel=0.05) or told - usual, (row, found, wanted)


def test_a_size_that_cannot_be_moves_no_answer() -> None:
    """One copy of 1 PiB in microseconds made a penalty of 28,520."""
    copies = sample().copies
    shortest = (copies["end_ns"] - copies["start_ns"]).arg_min()
    wanted, _ = asked(sample())
    for size in (2**36, 2**40, 2**50):
        size_bytes = (
            pl.when(pl.int_range(pl.len()) == shortest)
            .then(size)
            .otherwise("size_bytes")
            .alias("size_bytes")
        )
        found, told = asked(
            replace(sample(), tables={**sample().tables, "copies": copies.with_columns(size_bytes)})
        )
        assert found == pytest.approx(wanted, rel=0.02) and "P240" in told
