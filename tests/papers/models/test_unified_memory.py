"""Data in one memory, in the other, and moved: from numbers and from recordings."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

import turnbuckle as tb
from turnbuckle.foundation.table_file import Table
from turnbuckle.machine import Machine, load
from turnbuckle.papers.models.memory.question import (
    Memories,
    UnifiedMemory,
    _extreme,
    from_numbers,
    from_profile,
    memories,
    read_memories,
    read_work,
)

drawn = settings(max_examples=40)
MEASURED = (
    "memory, regular, irregular, error\nhbm, 800 GB/s, 80 GB/s, 5 %\nDDR, 40 GB/s, 10 GB/s, 10 %\n"
)
REAL = {"softmax_uvm_t4": "report2.sqlite", "balinski_gomory_r11": "report11.sqlite"}


@pytest.fixture(scope="module")
def summit() -> Machine:
    return load("summit")


def written(folder: Path, text: str, name: str = "work.csv") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def asked(
    folder: Path, summit: Machine, work: str, measured: str | None = MEASURED, **more: str
) -> UnifiedMemory:
    at = memories(
        summit, read_memories(written(folder, measured, "memories.csv")) if measured else None
    )
    return from_numbers(read_work(written(folder, work)), at, **more)  # type: ignore[arg-type]


# --- from numbers ---------------------------------------------------------------------------------


def test_a_stream_kernel_takes_the_ratio_of_the_bandwidths(tmp_path: Path, summit: Machine) -> None:
    (row,) = asked(tmp_path, summit, "name, flops, regular [GB]\ntriad, 0, 80\n").rows
    assert row.seconds["hbm"].value == pytest.approx(0.1) and row.seconds[
        "ddr"
    ].value == pytest.approx(2.0)
    assert row.ratio.value == pytest.approx(20.0) and row.bound_by == ("memory", "memory")
    # two log-normal errors, 5 % and 10 %
    wide = math.exp(1.6449 * math.hypot(0.05, 0.1))
    assert row.ratio.low == pytest.approx(20 / wide, rel=0.02) and row.ratio.high == pytest.approx(
        20 * wide, rel=0.02
    )
    assert row.seconds["migrated"].value == pytest.approx(0.1)


def test_arithmetic_does_not_care_where_data_lies(tmp_path: Path, summit: Machine) -> None:
    (row,) = asked(tmp_path, summit, "name, flops, regular [kB]\ngemm, 7.8e12, 1\n").rows
    assert row.ratio.value == row.ratio.low == row.ratio.high == 1.0 and row.bound_by == (
        "arithmetic",
        "arithmetic",
    )
    assert row.seconds["hbm"].value == pytest.approx(1.0)


def test_irregular_bytes_have_their_own_bandwidth(tmp_path: Path, summit: Machine) -> None:
    found = asked(
        tmp_path,
        summit,
        "name, flops, regular [GB], irregular [GB]\nwalk, 0, 80, 8\nplain, 0, 80, 0\n",
    )
    assert [r.name for r in found.rows] == ["walk", "plain", "all"]
    assert found.rows[0].ratio.value == pytest.approx((2.0 + 0.8) / 0.2)
    assert found.rows[2].seconds["hbm"].value == pytest.approx(0.3) and found.rows[2].bound_by == (
        "",
        "",
    )


def test_migration_beside_or_behind(tmp_path: Path, summit: Machine) -> None:
    work = "name, flops, regular [GB], h2d [GB], d2h [GB]\na, 7.8e12, 80, 46.4, 0\n"
    behind, beside = (
        asked(tmp_path, summit, work, overlap=o).rows[0].seconds["migrated"].value
        for o in ("full", "none")
    )
    assert behind == pytest.approx(0.1 + 1.0) and beside == pytest.approx(1.0 + 1.0)


@drawn
@given(st.floats(0, 1e13), st.floats(1, 1e12), st.floats(0, 1e11), st.floats(0, 1e11))
def test_device_memory_is_never_slower(
    flops: float, regular: float, irregular: float, moved: float
) -> None:
    work = Table(
        "t",
        ("name", "flops", "regular", "irregular", "h2d"),
        {
            "flops": np.array([flops]),
            "regular": np.array([regular]),
            "irregular": np.array([irregular]),
            "h2d": np.array([moved]),
        },
        {"name": ["k"]},
        [2],
        [[1] * 5],
    )
    one = np.full((101, 1), 1.0)
    at = Memories(
        7e12 * one,
        {"hbm": 8e11 * one, "ddr": 4e10 * one},
        {"hbm": 9e10 * one, "ddr": 5e9 * one},
        4e10 * one,
        4e10 * one,
        {},
    )
    for overlap in ("full", "none"):
        (row,) = from_numbers(work, at, overlap).rows
        values = {p: r.value or 0.0 for p, r in row.seconds.items()}
        assert values["hbm"] <= values["ddr"] and values["hbm"] <= values["migrated"] * (1 + 1e-12)
        assert row.ratio.low <= (row.ratio.value or 0) <= row.ratio.high and row.ratio.low >= 1.0


def test_a_machine_alone_says_what_its_memories_give(summit: Machine) -> None:
    at = memories(summit)
    assert float(at.regular["hbm"][0, 0]) == pytest.approx(900e9 * 0.874)
    assert float(at.regular["ddr"][0, 0]) == pytest.approx(50e9 * 0.928), (
        "the link is narrower than the host's memory"
    )
    assert "link.h2d.bandwidth" in at.sources["ddr"]


@pytest.mark.parametrize(
    ("work", "measured", "code"),
    [
        ("name, flops, regular, irregular\na, 1, 1 B, 1 B\n", None, "A045"),
        ("name, flops, regular\na, 0, 0 B\n", MEASURED, "A045"),
        ("name, flops, regular\n", MEASURED, "A045"),
        ("name, flops, regular\na, -1, 1 B\n", MEASURED, "A063"),
        ("name, flops, regular\na, nan, 1 B\n", MEASURED, "U004"),
        (
            "name, flops, regular\na, 1, 1 B\n",
            "memory, regular\nhbm, 1 GB/s\nhbm, 1 GB/s\n",
            "A045",
        ),
        ("name, flops, regular\na, 1, 1 B\n", "memory, regular\nhbm, 1 GB/s\n", "A045"),
    ],
)
def test_bad_tables(
    tmp_path: Path, summit: Machine, work: str, measured: str | None, code: str
) -> None:
    with pytest.raises(tb.TurnbuckleError, match=code):
        asked(tmp_path, summit, work, measured)


def test_machines_that_say_too_little(tmp_path: Path) -> None:
    for name in ("pcie5-x16", "2026-apu"):
        refused("A160", memories, load(name))


# --- from recordings ------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=sorted(REAL))
def seen(request: pytest.FixtureRequest, shared: Path) -> tb.Answer:
    return tb.read(shared / "traces" / "nsys" / request.param / REAL[request.param])


def test_the_bracket_of_a_recording(seen: tb.Answer, summit: Machine) -> None:
    found = from_profile(seen.profile, memories(summit), memory_bound=(0.0, 1.0))
    kernels, run = found.rows
    assert (
        run.seconds["migrated"].value == seen.profile.seconds
        and kernels.seconds["migrated"].high < run.seconds["migrated"].high
    )
    for row in found.rows:
        hbm, ddr = row.seconds["hbm"], row.seconds["ddr"]
        assert hbm.value is None and ddr.value is None and row.ratio.value is None
        assert (
            hbm.low <= hbm.high <= row.seconds["migrated"].high
            and hbm.low == ddr.low
            and ddr.high > hbm.high
        )
        assert row.ratio.low == 1.0
    assert kernels.seconds["hbm"].low == 0.0, "how long a kernel waited for pages is not recorded"
    assert found.shortest_seconds is not None and found.shortest_seconds <= kernels.seconds[
        "hbm"
    ].high * (1 + 1e-9)
    # nothing but bandwidth: 786.6 over 46.4 GB/s, and its interval
    assert 786.6 / 46.4 < kernels.ratio.high < 1.2 * 786.6 / 46.4
    assert [f.code for f in found.findings] == ["A343"] and found.migrated_bytes


def test_the_same_program_with_explicit_copies(shared: Path, summit: Machine) -> None:
    """Its kernels take 9.99 ms where no page is missing, 36.6 ms with managed memory: inside the
    bracket, and near the hint.
    """
    traces = shared / "traces" / "nsys"
    explicit = (
        tb.read(traces / "balinski_gomory_r3" / "report3.sqlite")
        .profile.of("kernel")["seconds"]
        .sum()
    )
    managed = tb.read(traces / "balinski_gomory_r11" / "report11.sqlite").profile
    found = from_profile(managed, memories(summit), memory_bound=(0.0, 1.0))
    hbm = found.rows[0].seconds["hbm"]
    assert explicit == pytest.approx(9.987e-3, rel=1e-3) and hbm.low < explicit < hbm.high
    assert found.shortest_seconds == pytest.approx(explicit, rel=0.1)


@drawn
@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(1, 30)), min_size=1, max_size=5),
    st.floats(0, 2),
)
def test_the_extreme_ratio_is_the_extreme_of_all_corners(
    kernels: list[tuple[float, float, float]], rest: float
) -> None:
    import itertools

    most = np.array([k + 1e-3 for k, _, _ in kernels])
    least, factor = (
        most * np.array([share for _, share, _ in kernels]),
        np.array([f for _, _, f in kernels]),
    )
    corners = [np.array(c) for c in itertools.product(*zip(least, most, strict=True))]
    ratios = [(rest + (c * factor).sum()) / (rest + c.sum()) for c in corners if rest + c.sum() > 0]
    assert _extreme(least, most, rest, factor, 1.0) == pytest.approx(max(ratios))
    assert _extreme(least, most, rest, factor, -1.0) == pytest.approx(min(ratios))


def test_a_known_share_narrows_it(seen: tb.Answer, summit: Machine) -> None:
    at = memories(summit)
    wide, some, none = (
        from_profile(seen.profile, at, memory_bound=b).rows[1].ratio
        for b in ((0, 1), (0.3, 0.5), (0, 0))
    )
    assert wide.low <= some.low < some.high < wide.high and none.low == none.high == 1.0
    assert from_profile(seen.profile, at, memory_bound=(0.3, 0.5)).findings == ()


def test_counted_kernels(seen: tb.Answer, summit: Machine, tmp_path: Path) -> None:
    at = memories(summit)
    everything = read_work(written(tmp_path, "name, flops, regular [GB]\n(, 1e6, 1\n"))
    kernels, _ = from_profile(seen.profile, at, counted=everything).rows
    assert kernels.seconds["hbm"].low == pytest.approx(1 / 786.6, rel=0.12)
    assert kernels.seconds["ddr"].low == pytest.approx(1 / 46.4, rel=0.2)
    assert kernels.ratio.low == pytest.approx(
        786.6 / 46.4, rel=0.12
    ) and kernels.ratio.high == pytest.approx(786.6 / 46.4, rel=0.12)
    still = read_work(written(tmp_path, "name, flops, regular [B]\n(, 1e9, 1\n"))
    assert from_profile(seen.profile, at, counted=still).rows[0].ratio.high == 1.0
    for text in ("no such kernel, 1, 1 B\n", "(, 1, 1 B\n(, 1, 1 B\n"):
        refused(
            "A160",
            from_profile,
            seen.profile,
            at,
            counted=read_work(written(tmp_path, "name, flops, regular\n" + text)),
        )
    for text in ("(, 0, 0 B\n", "(, 0, 1 TB\n"):
        refused(
            "A045",
            from_profile,
            seen.profile,
            at,
            counted=read_work(written(tmp_path, "name, flops, regular\n" + text)),
        )


def test_nothing_is_guessed(seen: tb.Answer, summit: Machine) -> None:
    refused("A159", from_profile, seen.profile, memories(summit))
    for share in ((-0.1, 1.0), (0.5, 0.4), (0.0, math.nan)):
        refused("A049", from_profile, seen.profile, memories(summit), memory_bound=share)


def test_a_recording_without_migrations(summit: Machine) -> None:
    with tb.sample() as path:
        profile = tb.read(path).profile
    refused("A160", from_profile, profile, memories(summit), memory_bound=(0.0, 1.0))
