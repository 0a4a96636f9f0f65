"""What programs are compared by: the papers' definitions on hand-made runs, their printed tables,
and what `inspect` says.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import call, copy, on_device, profile_of
from strategies import D2D, D2H, H2D, LAW, P2P, gpu_traces
from test_summary import OTHER, scheduled

import turnbuckle as tb
from turnbuckle.papers.ahead.numbers import APPS
from turnbuckle.papers.ahead.numbers import PAPER as AHEAD
from turnbuckle.papers.row_slack.binned_slack import PAPER as SLACK
from turnbuckle.papers.row_slack.binned_slack import table_two
from turnbuckle.profile.profile import Profile, build
from turnbuckle.profile.summary import summary
from turnbuckle.profile.summary.compared import (
    BELOW_MIB,
    SIZE_EDGES,
    copy_sizes,
    transfer_share,
    window_shares,
)
from turnbuckle.profile.summary.offload import offload_map, offload_together
from turnbuckle.trace.trace import Trace

MIB = 1 << 20
MS = 1_000_000
EXAMPLES = Path(tb.__file__).parent / "examples"


# --- printed tables -------------------------------------------------------------------------------


@pytest.mark.parametrize("app", APPS)
def test_share_of_transfers_as_printed(app: str) -> None:
    """AHEAD, Table I: its kernel and transfer times, which are rounded, allow the share that it
    prints.
    """
    ends = [
        (float(AHEAD.text(app, of)) - half, float(AHEAD.text(app, of)) + half)
        for of in ("kernels", "transfers")
        for half in (0.005,)
    ]
    (few, many), (short, long) = ends
    assert (
        transfer_share(many, short) * 100 - 0.005
        <= float(AHEAD.text(app, "transfer share"))
        <= transfer_share(few, long) * 100 + 0.005
    )


@pytest.mark.parametrize("app", ["LAMMPS", "CosmoFlow"])
def test_bins_of_copies_as_printed(app: str) -> None:
    """Shorts and Grant, Table III: copies of sizes that its bins and its mean allow give the
    printed row.
    """
    printed = [int(n) for n in SLACK.texts(app, "copies by size [MiB]").values()]
    mean = float(SLACK.text(app, "mean copy size"))
    last = max(k for k, n in enumerate(printed) if n)
    sizes = [0.5, 4.0, 16.0 + 1.0, 256.0 + 1.0, 4096.0]
    whole = sum(printed) * mean - sum(
        n * size for n, size in zip(printed[:last], sizes, strict=False)
    )
    sizes[last] = whole / printed[last]
    lengths = np.repeat([round(s * MIB) for s in sizes], printed)
    # at 16 GB/s: sizes that no link moves in their time are not recorded
    lasts = lengths // 16 + 500
    starts = np.cumsum(lasts + 500) - lasts
    rows = [
        copy(int(at), int(at + ns), H2D if k % 2 else D2H, size=int(n))
        for k, (at, ns, n) in enumerate(zip(starts, lasts, lengths, strict=True))
    ]
    found = copy_sizes(profile_of(copies=rows))
    assert list(found.table_iii) == printed and found.mean_bytes is not None
    assert round(found.mean_bytes / MIB, 2) == mean


def test_edges_are_the_matrices_of_the_paper() -> None:
    assert list(SIZE_EDGES[BELOW_MIB - 1 :]) == [p.size_bytes for p in table_two()]
    assert {high // low for low, high in pairwise(SIZE_EDGES)} == {16}


# --- by hand --------------------------------------------------------------------------------------


def test_copies_at_an_edge_are_in_the_bin_above_and_those_without_a_size_in_none() -> None:
    sizes = [0, 255, 256, MIB - 1, MIB, 16 * MIB, 4096 * MIB, None]
    rows = [copy(10 * k * MS, (11 * k + 1) * MS, H2D, size=n) for k, n in enumerate(sizes)]
    found = copy_sizes(profile_of(copies=[*rows, copy(90 * MS, 99 * MS, D2D, size=MIB)]))
    assert found.counts == (2, 1, 0, 1, 1, 1, 0, 1) and found.unsized == 1, (
        "a copy inside the device is none between host and device"
    )
    assert found.seconds == pytest.approx([3e-3, 3e-3, 0, 4e-3, 5e-3, 6e-3, 0, 7e-3])
    assert found.table_iii == (4, 1, 1, 0, 1)
    none = copy_sizes(profile_of(kernels=[on_device(1, 2)]))
    assert sum(none.counts) == none.unsized == 0 and none.mean_bytes is None


def test_shares_of_the_kernel_window() -> None:
    """Window 10 to 20 us: each part by itself, each instant once, and only what lies inside."""
    seen = profile_of(
        api=[
            call(9_000, 9_800, 1),
            call(10_500, 11_000, 2),
            call(10_800, 11_500, 3, thread=OTHER),
            call(15_000, 16_000, 4, "cudaMemcpyAsync"),
        ],
        kernels=[
            on_device(10_000, 12_000, 1),
            on_device(11_000, 13_000, 2, stream=9),
            on_device(19_000, 20_000, 3),
        ],
        copies=[
            copy(8_000, 11_000, H2D),
            copy(14_000, 15_000, D2H),
            copy(14_500, 16_000, P2P),
            copy(17_000, 18_000, D2D),
        ],
        scheduling=[
            scheduled(1_000, 1),
            scheduled(14_000, 0),
            scheduled(12_000, 1, OTHER),
            scheduled(30_000, 0, OTHER),
        ],
    )
    found = window_shares(seen)
    assert found is not None
    assert found.recorded() == pytest.approx(
        {
            "kernels": 0.4,
            "one_core": 0.8,
            "several_cores": 0.2,
            "link": 0.2,
            "peer": 0.15,
            "launches": 0.1,
        }
    )
    assert sum(found.recorded().values()) > 1
    assert window_shares(profile_of(copies=[copy(1, 2, H2D)])) is None


def test_what_is_not_recorded_has_no_share() -> None:
    found = window_shares(profile_of(kernels=[on_device(1_000, 2_000), on_device(3_000, 4_000)]))
    assert found is not None and found.kernels == pytest.approx(2 / 3)
    assert found.one_core is found.several_cores is found.launches is None


# --- what inspect says ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["milc", "dgemm"])
def test_totals_are_those_of_inspect(name: str) -> None:
    profile = tb.read(EXAMPLES / f"{name}-like-synthetic.sqlite", use_cache=False).profile
    agree(profile)
    found = window_shares(profile)
    assert found is not None
    if name == "milc":
        # what the sample was made to have, of the paper's 20 % in kernels and 5 to 20 % over PCIe
        # (examples/README.md)
        assert (round(found.kernels, 3), round(found.link or 0.0, 3)) == (0.218, 0.141)


def agree(profile: Profile) -> None:
    """Hold counts, sizes, times and shares to the summary of the profile."""
    of, kernels, found = summary.copies(profile), summary.kernels(profile), copy_sizes(profile)
    between = [of[way] for way in ("h2d", "d2h")]
    assert sum(found.counts) + found.unsized == sum(way["count"] for way in between)
    if not found.unsized:
        assert sum(found.seconds) == pytest.approx(
            sum(way["busy_ns"] for way in between) * 1e-9, abs=1e-15
        )
        if found.mean_bytes is not None:
            assert found.mean_bytes * sum(found.counts) == pytest.approx(
                sum(way["bytes"] or 0 for way in between)
            )
    window, shares = summary.kernel_window_ns(profile), window_shares(profile)
    if window:
        assert shares is not None and shares.kernels == kernels["union_ns"] / window
        assert all(0 <= share <= 1 for share in shares.recorded().values())


@LAW
@given(gpu_traces(), st.floats(0, 1e-4))
def test_of_any_run_totals_are_those_of_the_summary(trace: Trace, launch: float) -> None:
    profile = build(trace)
    agree(profile)
    rows, together = offload_map(profile, launch), offload_together(profile, launch)
    assert together is not None and together["count"] == rows["count"].sum()
    for name in ("kernel_s", "transfer_s", "exposed_transfer_s"):
        assert together[name] * together["count"] == pytest.approx(
            (rows[name] * rows["count"]).sum(), abs=1e-15
        )
    if rows.height == 1:
        assert together["pays"] == rows["pays"][0]


def test_where_each_kernel_has_one_copy_each_way_both_places_on_the_map_are_one() -> None:
    """The paper's place of an application takes one mean copy each way; the map charges the copies
    that a launch has.
    """
    kernels = [on_device(10_000 * k + 3_000, 10_000 * k + 6_000) for k in range(4)]
    copies = [copy(10_000 * k + 1_000, 10_000 * k + 1_500 + 100 * k, H2D) for k in range(4)]
    copies += [copy(10_000 * k + 7_000, 10_000 * k + 7_300 + 50 * k, D2H) for k in range(4)]
    found = offload_together(profile_of(kernels=kernels, copies=copies), 2e-6)
    assert found is not None and found["each_way_s"] == pytest.approx(found["transfer_s"])
    assert offload_together(profile_of(copies=copies), 2e-6) is None


REAL = {
    "cloverleaf_a100_perlmutter": "perlmutter-cloverleaf-cuda.sqlite",
    "jacobi_gh200": "jacobi_report.sqlite",
}


@pytest.mark.parametrize("name", REAL)
def test_of_real_runs_too(shared: Path, name: str) -> None:
    profile = tb.read(shared / "traces" / "nsys" / name / REAL[name], use_cache=False).profile
    agree(profile)
    found = window_shares(profile)
    assert (
        found is not None
        and found.one_core is not None
        and found.one_core + (found.several_cores or 0.0) <= 1
    )
