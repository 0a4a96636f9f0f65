"""Equations 1 to 3, the paper's own numbers, and both answers on one profile."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

import turnbuckle as tb
from turnbuckle.machine import Change, Parameter, load
from turnbuckle.papers.row_slack.binned_slack import (
    beside,
    binned,
    binned_penalty,
    published_surface,
    seed_S,
    table_two,
    total_penalty,
)
from turnbuckle.papers.row_slack.surface import Point, Surface
from turnbuckle.profile.profile import build
from turnbuckle.profile.summary.compared import bin_counts

drawn = settings(max_examples=80)
ROOT = Path(__file__).resolve().parents[3]
SLACK = 2.2e-6
REAL = {
    "cloverleaf_a100_perlmutter": "perlmutter-cloverleaf-cuda.sqlite",
    "jacobi_gh200": "jacobi_report.sqlite",
}


@pytest.fixture(scope="module")
def profile() -> tb.Profile:
    with tb.sample() as path:
        return tb.read(path).profile


@pytest.fixture(scope="module")
def surface() -> Surface:
    """The published surface of one thread at 100 us."""
    return published_surface([1e-4], (1,))


# --- equations ------------------------------------------------------------------------------------


def test_equation_1() -> None:
    assert seed_S(2.0, 1000, np.array([0.0, 1e-3])).tolist() == [2.0, 1.0]


@drawn
@given(
    st.dictionaries(
        st.text(max_size=3), st.tuples(st.floats(0, 1), st.floats(1, 40)), min_size=1, max_size=4
    )
)
def test_equation_2_keeps_one_and_is_linear(parts: dict[str, tuple[float, float]]) -> None:
    shares = {name: share for name, (share, _) in parts.items()}
    assert total_penalty(shares, dict.fromkeys(shares, 1.0)) == 1.0
    total = total_penalty(shares, {name: penalty for name, (_, penalty) in parts.items()})
    assert total == pytest.approx(
        1 + sum(share * (penalty - 1) for share, penalty in parts.values())
    )


@drawn
@given(
    st.lists(st.floats(0, 200), max_size=30), st.lists(st.floats(0.5, 9), min_size=3, max_size=3)
)
def test_equation_3_is_the_mean_of_neighbours(values: list[float], penalties: list[float]) -> None:
    edges = [1.0, 16.0, 150.0]
    above = [
        next((p for e, p in zip(edges, penalties, strict=True) if v < e), penalties[-1])
        for v in values
    ]
    below = [
        next((p for e, p in zip(edges[::-1], penalties[::-1], strict=True) if v >= e), penalties[0])
        for v in values
    ]
    counts = bin_counts(np.array(values), np.array(edges))
    assert counts.sum() == len(values)
    wanted = (np.mean(above), np.mean(below)) if values else (1.0, 1.0)
    assert binned_penalty(counts, np.array(penalties)) == pytest.approx(wanted)


def test_a_size_on_an_edge_counts_as_the_paper_counts() -> None:
    """Table III has "< 16": 16 itself is in the next bin."""
    assert bin_counts(
        np.array([0.5, 1, 15.9, 16, 4096]), np.array([1.0, 16, 256, 4096])
    ).tolist() == [1, 2, 1, 0, 1]


def test_table_two_gives_plausible_copies() -> None:
    rates = [p.size_bytes / p.copy_seconds for p in table_two()]
    assert min(rates) > 12e9 and max(rates) < 15e9
    assert all(a.kernel_seconds < b.kernel_seconds for a, b in pairwise(table_two()))


# --- a profile ------------------------------------------------------------------------------------


def test_binned_by_hand(profile: tb.Profile, surface: Surface) -> None:
    """Every kernel and copy taken one by one."""
    found = binned(profile, surface, 1e-4)
    penalties = [
        surface.seconds(float(n), 1, 1e-4) / surface.seconds(float(n), 1, 0.0)
        for n in surface.sizes(1)
    ]
    trace = profile.trace
    durations = [(e - s) * 1e-9 for s, e in trace.kernels.select("start_ns", "end_ns").iter_rows()]
    sizes = profile.of("copy_h2d", "copy_d2h")["size_bytes"].to_list()
    for bins, values, edges in (
        (found.kernel, durations, surface.kernel_seconds(1)),
        (found.memory, sizes, surface.sizes(1)),
    ):
        up = [
            next((p for e, p in zip(edges, penalties, strict=True) if v < e), penalties[-1])
            for v in values
        ]
        assert len(values) > 100 and bins.counts.sum() == len(values)
        assert bins.rounded_up == pytest.approx(np.mean(up))
        assert 1.0 <= bins.rounded_up <= bins.rounded_down and 0 < bins.share < 1
    up, down = (
        1 + found.kernel.share * (k - 1) + found.memory.share * (m - 1)
        for k, m in (
            (found.kernel.rounded_up, found.memory.rounded_up),
            (found.kernel.rounded_down, found.memory.rounded_down),
        )
    )
    assert (found.lower, found.upper) == pytest.approx((up, down))
    assert found.label.startswith("modelled")


def test_elements_beyond_the_surface_are_said(profile: tb.Profile, surface: Surface) -> None:
    found = binned(profile, surface, 1e-4)
    assert {f.code for f in found.findings} == {"A321"}
    assert (
        sum(f.count for f in found.findings)
        == sum(int(b.counts[0] + b.counts[-1]) for b in (found.kernel, found.memory))
        > 0
    )
    wide = Surface(
        tuple(
            Point(size, 1, s, 1.0 + s, kernel, 5)
            for size, kernel in ((1e-3, 1e-10), (1e15, 1e6))
            for s in (0.0, 1.0)
        ),
        "measured: x",
    )
    assert binned(profile, wide, 0.5).findings == ()


def test_no_slack_no_penalty(profile: tb.Profile) -> None:
    for threads in (1, 8):
        found = binned(profile, published_surface([], (threads,)), 0.0, threads=threads)
        assert (found.lower, found.upper) == (1.0, 1.0)


def test_equation_1_makes_the_bins_blind(profile: tb.Profile) -> None:
    """One synchronous thread: after equation 1 nothing is left to bin."""
    found = binned(profile, published_surface([1e-2], (1,)), 1e-2, equation="seed_S")
    assert found.lower == pytest.approx(1.0) and found.upper == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("slack", "threads", "code"), [(1.0, 1, "A131"), (1e-4, 3, "A131"), (-1.0, 1, "A131")]
)
def test_questions_beyond_the_surface(
    profile: tb.Profile, surface: Surface, slack: float, threads: int, code: str
) -> None:
    refused(code, binned, profile, surface, slack, threads=threads)


def test_a_profile_with_nothing_to_bin(profile: tb.Profile, surface: Surface) -> None:
    tables = {
        name: frame
        for name, frame in profile.trace.tables.items()
        if name not in ("kernels", "copies", "graphs")
    }
    empty = build(replace(profile.trace, tables=tables))
    refused("A133", binned, empty, surface, 1e-4)


def test_the_causal_answer_is_the_projects(profile: tb.Profile) -> None:
    """`beside` asks the replay that ``turnbuckle project --replay timeline`` asks."""
    (found,) = beside(profile, [SLACK])
    delay = Parameter(SLACK, 0.0, "s", "assumption", "a test")
    late = replace(load("cdi-row-link"), name="late", changes=(Change("slack.call", set=delay),))
    (asked,) = (
        _inspected(profile)
        .project([late], model=replace(tb.nething("hold"), replay="timeline"), draws=0)
        .projections
    )
    assert found.causal == pytest.approx(asked.penalty, rel=1e-9)
    assert found.causal == pytest.approx(1 + found.felt * SLACK / profile.seconds)
    low, high = found.implied
    assert found.binned.upper == pytest.approx(1 + high * SLACK / profile.seconds) and low <= high
    assert 0 < found.exposed_seconds <= found.calls * SLACK * (1 + 1e-9)


def _inspected(profile: tb.Profile) -> tb.Run:
    from turnbuckle.projection.run import Run

    return Run.of(profile)


@pytest.fixture(scope="module")
def surfaces() -> dict[int, Surface]:
    """The published surface by number of threads, as the manual's page takes it."""
    return {threads: published_surface([2.2e-6, 1e-4, 1e-2], (threads,)) for threads in (1, 8)}


@pytest.mark.parametrize("name", sorted(REAL))
def test_the_two_answers_on_real_runs(
    shared: Path, surfaces: dict[int, Surface], name: str
) -> None:
    real = tb.read(shared / "traces" / "nsys" / name / REAL[name], use_cache=False).profile
    slack = [2.2e-6, 1e-4, 1e-2]
    alone, crowd = (beside(real, slack, surfaces[k], threads=k) for k in (1, 8))
    for one, eight in zip(alone, crowd, strict=True):
        assert one.causal == eight.causal, (
            "how many threads a user assumes is no matter of the recording"
        )
        assert one.binned.upper >= one.binned.lower and eight.binned.upper <= one.binned.upper
        assert one.causal > eight.binned.lower, "eight threads hide what the recorded run cannot"
    felt = [b.felt for b in alone]
    assert felt == sorted(felt) and felt[-1] <= alone[0].calls * (1 + 1e-9), (
        "convex: later slack is felt by more calls"
    )
    page = (ROOT / "docs" / "models" / "slack-published.md").read_text(encoding="utf-8")
    shown = [
        [float(n) for n in re.findall(r"-?[0-9.]+", row.split("|", 3)[3])]
        for row in page.splitlines()
        if row.startswith(f"| {name} ")
    ]
    said = [
        [
            one.causal,
            one.felt,
            one.calls,
            *(v for b in (one, eight) for v in (b.binned.lower, b.binned.upper, *b.implied)),
        ]
        for one, eight in zip(alone, crowd, strict=True)
    ]
    assert len(shown) == len(said)
    for line, numbers in zip(shown, said, strict=True):
        assert line == pytest.approx(numbers, rel=0.02, abs=1.0 if line[0] > 2 else 0.51), (
            "docs/models/slack-published.md is not current"
        )
