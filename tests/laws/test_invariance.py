"""Law 5: all times x k make the answer x k; nothing is lost without a finding; names, numbers and
the zero of the clock say nothing.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest
from alike import moved, renamed, renumbered
from hypothesis import given
from hypothesis import strategies as st
from strategies import (
    FULL,
    LAW,
    RATES,
    TABLES,
    TIMES,
    flawed_traces,
    gpu_traces,
    machine,
    soups,
    traces,
    with_columns,
)

from turnbuckle.machine import Machine, Pair
from turnbuckle.profile.pieces import pieces
from turnbuckle.profile.profile import Profile, build
from turnbuckle.profile.summary import summary
from turnbuckle.profile.transfers import fit_links
from turnbuckle.projection.model import Model, additive, nething
from turnbuckle.projection.order import prepared
from turnbuckle.projection.project import answered, project
from turnbuckle.trace.trace import Trace

MODELS: dict[str, Model] = {
    "flop": nething("flop"),
    "memory": nething("memory"),
    "5.1": nething(5.1),
    "additive": additive({"data": 7.0, "control": 0.2, "kernel": 3.0}),
}
CALLS_THERE = {
    "launch.latency": 2e-6,
    "launch.call": 9e-6,
    "sync.return": 5e-6,
    "alloc.call": 1e-6,
    "slack.call": 2e-6,
}
LINK_THERE = {"link.h2d.latency": 4e-6, "link.h2d.bandwidth": 121e9, "link.d2h.latency": 0.7e-6}
THERE = {
    **FULL,
    **LINK_THERE,
    **CALLS_THERE,
    "gpu.fp64_matrix": 67e12,
    "gpu.memory_bandwidth": 3.35e12,
}


def slower(values: dict[str, float], k: int, name: str) -> Machine:
    """The same machine with every clock `k` times slower."""
    return machine(
        {n: v * k if n in TIMES else v / k if n in RATES else v for n, v in values.items()}, name
    )


@LAW
@given(gpu_traces() | soups(), st.integers(2, 50), st.sampled_from(sorted(MODELS)))
def test_all_times_scaled_scale_the_answer(trace: Trace, k: int, model: str) -> None:
    stretched = with_columns(
        trace,
        lambda _, f: f.with_columns(
            pl.col(c) * k for c in ("start_ns", "end_ns", "time_ns") if c in f.columns
        ),
    )
    one, many = build(trace), build(stretched)
    assert many.run_time_ns == k * one.run_time_ns
    assert (many.activities["exposed_ns"] == k * one.activities["exposed_ns"]).all()
    assert summary.categories_ns(many) == {c: k * v for c, v in summary.categories_ns(one).items()}
    a = project(one, Pair(slower(FULL, 1, "here"), slower(THERE, 1, "there")), MODELS[model])
    b = project(many, Pair(slower(FULL, k, "here"), slower(THERE, k, "there")), MODELS[model])
    assert b.seconds == pytest.approx(k * a.seconds, rel=1e-9, abs=1e-15)
    assert b.envelope == pytest.approx((k * a.envelope[0], k * a.envelope[1]), rel=1e-9, abs=1e-15)
    for part, seconds in a.breakdown.items():
        assert b.breakdown[part] == pytest.approx(k * seconds, rel=1e-9, abs=1e-15)
    twins = fit_links(many)
    for key, fit in fit_links(one).items():
        twin = twins[key]
        assert twin.latency_s == pytest.approx(k * fit.latency_s, rel=1e-6, abs=1e-12)
        assert (fit.bandwidth is None) == (twin.bandwidth is None)
        if fit.bandwidth and twin.bandwidth:
            assert twin.bandwidth == pytest.approx(fit.bandwidth / k, rel=1e-6)


@LAW
@given(traces() | flawed_traces() | soups())
def test_rows_and_bytes_in_are_rows_and_bytes_out(trace: Trace) -> None:
    profile = build(trace)
    aside: dict[str, int] = {}
    for found in profile.findings:
        if found.code in ("P101", "P102", "P103", "P241"):
            by_table = {t: int(n) for t, n in re.findall(r"(\w+) (\d+)", found.detail)}
            assert sum(by_table.values()) == found.count
            for table, count in by_table.items():
                aside[table] = aside.get(table, 0) + count
    for table in TABLES:
        assert trace.table(table).height == profile.trace.table(table).height + aside.get(
            table, 0
        ), table
    rows = profile.activities.filter(pl.col("kind") != "gap")
    assert rows.height == sum(profile.trace.table(t).height for t in TABLES)
    kept = profile.trace.copies
    moved = rows.filter(pl.col("direction").is_not_null())
    assert moved.height == kept.height and moved["size_bytes"].sum() == kept["size_bytes"].sum()
    run = pieces(profile)
    assert run.count.sum() == profile.activities.height
    copies = np.char.startswith(run.kind.astype(str), "copy") | (run.kind == "migration")
    assert (run.count * run.size_bytes)[copies].sum() == (kept["size_bytes"].sum() or 0)
    ns = np.rint(run.seconds * 1e9).astype(int), np.rint(run.exposed_seconds * 1e9).astype(int)
    reach = pl.max_horizontal("end_ns", "delivered_ns")
    assert ns[0].sum() == profile.activities.select((reach - pl.col("start_ns")).sum()).item()
    assert ns[1].sum() == profile.run_time_ns
    counted = summary.copies(profile)
    h2h = kept.filter(~pl.col("direction").is_in([1, 2, 3, 4, 6, 7]))
    assert sum(c["count"] for c in counted.values()) == kept.height - h2h.height
    assert sum(c["bytes"] or 0 for c in counted.values()) == (kept["size_bytes"].sum() or 0) - (
        h2h["size_bytes"].sum() or 0
    )


def answers(profile: Profile) -> dict[str, object]:
    """What a user sees of a profile, sums rounded to what adding in another order may change."""
    pair = Pair(machine(FULL), machine(THERE, "there"))
    out: dict[str, object] = {
        "run": profile.run_time_ns,
        "shares": summary.categories_ns(profile),
        "copies": summary.copies(profile),
        "launch": summary.launch(profile),
        "sync": summary.sync_return_s(profile),
        "overlap": summary.overlap(profile),
        "memory": summary.peak_memory_bytes(profile),
        "findings": [(f.code, f.count) for f in profile.findings],
        "fits": {
            k: (f.count, f.size_bytes, _digits(f.latency_s), _digits(f.bandwidth))
            for k, f in fit_links(profile).items()
        },
    }
    ready = prepared(profile, MODELS["flop"])
    for name in ("flop", "additive"):
        found = answered(profile, ready, pair, MODELS[name])
        out[name] = [
            _digits(found.seconds),
            *map(_digits, found.envelope),
            *map(_digits, found.breakdown.values()),
        ]
    return out


def _digits(value: float | None) -> str:
    return "none" if value is None else f"{value + 0.0:.7g}" if abs(value) > 1e-14 else "0"


@LAW
@given(gpu_traces() | soups(), st.sampled_from([1, 999, 10**9, 10**14]))
def test_the_zero_of_the_clock_says_nothing(trace: Trace, shift: int) -> None:
    one, other = build(trace), build(moved(trace, shift))
    assert other.first_ns == one.first_ns + shift and other.last_ns == one.last_ns + shift
    stamps = [c for c in one.activities.columns if c.endswith("_ns") and c != "exposed_ns"]
    assert other.activities.with_columns(pl.col(c) - shift for c in stamps).equals(one.activities)


@LAW
@given(gpu_traces() | soups(), st.integers(1, 5), st.booleans(), st.booleans())
def test_names_and_numbers_say_nothing(trace: Trace, add: int, turn: bool, swap: bool) -> None:
    other = renamed(renumbered(moved(trace, add), add, turn, swap))
    assert answers(build(other)) == answers(build(trace))


@LAW
@given(gpu_traces() | soups(), st.randoms(use_true_random=False))
def test_the_order_of_rows_says_nothing(trace: Trace, chance: object) -> None:
    def shuffled(name: str, frame: pl.DataFrame) -> pl.DataFrame:
        if name not in TABLES:
            return frame
        order = list(range(frame.height))
        chance.shuffle(order)  # type: ignore[attr-defined]
        return frame[order]

    assert answers(build(with_columns(trace, shuffled))) == answers(build(trace))
