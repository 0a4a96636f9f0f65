"""Messages between GPUs by tier, and the memory bandwidth of a thread block."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.foundation.errors import UnitError, UsageError
from turnbuckle.papers.models.dag.tiers import (
    NETWORK,
    NODE,
    SAME,
    SOCKET,
    Fabric,
    Tier,
    block_bandwidth,
    fabric,
    next_power_of_two,
    read_tiers,
    tier_between,
)

drawn = settings(max_examples=80)
sizes = st.integers(1, 1 << 40)


@drawn
@given(sizes)
def test_next_power_of_two(size: int) -> None:
    assert float(next_power_of_two(size)) == 1 << (size - 1).bit_length()


@drawn
@given(st.integers(0, 200), st.integers(0, 200), st.integers(1, 9), st.integers(1, 4))
def test_tier_between(one: int, other: int, socket: int, sockets: int) -> None:
    node = socket * sockets
    wanted = (
        SAME
        if one == other
        else SOCKET
        if one // socket == other // socket
        else NODE
        if one // node == other // node
        else NETWORK
    )
    assert int(tier_between(one, other, socket, node)) == wanted


def test_a_socket_ends_with_its_node() -> None:
    # 5 GPUs a node, 3 a socket: 0-2, 3-4 | 5-7, 8-9
    assert tier_between([3, 4, 5, 5], [4, 5, 7, 8], 3, 5).tolist() == [
        SOCKET,
        NETWORK,
        SOCKET,
        NODE,
    ]


@drawn
@given(st.integers(1, 10_000), st.integers(1, 10_000), st.floats(1, 64))
def test_block_bandwidth_falls_with_company_within_its_bounds(
    one: int, other: int, merged: float
) -> None:
    few, many = sorted((one, other))
    at = block_bandwidth(828e9, [few, many], 1.3e9, 5.2e9, merged)
    assert at[0] >= at[1] >= 1.3e9
    assert at[0] <= 5.2e9 * merged
    if 1.3e9 <= 828e9 / many <= 5.2e9:
        assert at[1] == 828e9 / many


CURVE = Tier(np.array([8.0, 64.0, 1024.0]), np.array([4e6, 32e6, 256e6]))


def test_a_curve_gives_back_what_was_measured() -> None:
    assert CURVE.seconds([8, 64, 1024]) == pytest.approx([2e-6, 2e-6, 4e-6])
    # rounded up; below the smallest as long as it; above the largest at its bandwidth
    assert CURVE.seconds([0, 1, 33, 600, 4096]) == pytest.approx([0, 2e-6, 2e-6, 4e-6, 16e-6])
    # a straight line in log-log: 64 to 1024 B in four doublings, 2 to 4 us in one
    assert CURVE.seconds(256) == pytest.approx(2e-6 * 2**0.5)


@drawn
@given(sizes, sizes)
def test_a_larger_message_takes_no_less(one: int, other: int) -> None:
    for tier in (CURVE, Tier.plain(1e-6, 1e9)):
        few, many = tier.seconds(sorted((one, other)))
        assert few <= many * (1 + 1e-12)
        parts = tier.latency_seconds(sorted((one, other)))
        assert (parts <= np.array([few, many])).all()
        assert (parts <= tier.seconds(1)).all()


def test_latency_is_that_of_the_quickest_message() -> None:
    """Measured: on Alps 256 B between nodes take a tenth of what 1 B does."""
    curve = fabric("alps-gh200").message(NETWORK)
    assert float(curve.seconds(1)) > 9 * float(curve.seconds(256))
    assert float(curve.latency_seconds(1 << 20)) == pytest.approx(
        float(curve.seconds(1 << np.arange(23)).min())
    )


@drawn
@given(sizes, st.floats(1, 100))
def test_more_bandwidth_is_never_slower(size: int, factor: float) -> None:
    assert Tier(CURVE.size_bytes, CURVE.bandwidth * factor).seconds(size) <= CURVE.seconds(size)
    assert Tier.plain(1e-6, 1e9 * factor).seconds(size) <= Tier.plain(1e-6, 1e9).seconds(size)


# --- machines -------------------------------------------------------------------------------------


def test_every_number_that_ships_has_a_source() -> None:
    for name in ("dgx-h100", "alps-gh200", "summit-v100"):
        machine = fabric(name)
        assert machine.sources
        assert all(machine.sources.values())
        assert set(machine.tiers) >= {"node", "network"}
        assert set(machine.assumed) <= set(machine.sources)


def test_what_is_put_together_says_so() -> None:
    assert "socket latency" in fabric("summit-v100").assumed
    for name in ("dgx-h100", "alps-gh200"):
        assert not any("bandwidth" in what or "latency" in what for what in fabric(name).assumed)


def test_alps_is_what_was_measured(shared: Path) -> None:
    text = (shared / "traces" / "measured" / "osu_alps_gh200_mpich" / "osu_mpich.txt").read_text(
        encoding="utf-8"
    )
    for head, tier in (
        ("GPU-to-GPU memory intra-node", NODE),
        ("GPU-to-GPU memory inter-node", NETWORK),
    ):
        lines = text.split(f"## {head}")[1].split("\n## ")[0].splitlines()
        pairs = np.array([[float(w) for w in line.split()] for line in lines if line[:1].isdigit()])
        found = fabric("alps-gh200").message(tier).seconds(pairs[:, 0])
        assert found == pytest.approx(pairs[:, 0] / (pairs[:, 1] * 1e6))


def test_the_dgx_is_what_was_measured(shared: Path) -> None:
    path = shared / "traces" / "measured" / "vidur_dgx_collectives" / "h100_dgx__send_recv.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for devices, tier in (("2", NODE), ("1", NETWORK)):
        known = {
            int(r["size"]): float(r["time_stats.send_recv.median"]) * 1e-3
            for r in rows
            if r["devices_per_node"] == devices
        }
        curve = fabric("dgx-h100").message(tier)
        assert curve.size_bytes / curve.bandwidth == pytest.approx(
            [known[int(n)] for n in curve.size_bytes], rel=1e-6
        )
        assert (np.diff(curve.size_bytes) > 0).all()


def test_the_printed_ratios_hold_for_small_messages() -> None:
    machine = fabric("summit-v100")
    socket, node, network = (float(machine.message(t).seconds(8)) for t in (SOCKET, NODE, NETWORK))
    assert network / socket == pytest.approx(3.9, rel=1e-3)
    assert node / socket == pytest.approx(1.2, rel=1e-3)


def test_a_socket_is_like_its_node_unless_said() -> None:
    machine = fabric("alps-gh200")
    assert machine.message(SOCKET) is machine.message(NODE)


def test_messages_of_mixed_tiers_and_slower_ones() -> None:
    machine = fabric("summit-v100")
    tier = np.array([SAME, SOCKET, NODE, NETWORK, NETWORK])
    found = machine.message_seconds(tier, [8, 8, 8, 8, 0], {NETWORK: 0.5})
    assert found == pytest.approx([0, 1.6667e-6, 2e-6, 3.25e-6, 0], rel=1e-3)
    assert (
        machine.latency_seconds(tier, 8, {NETWORK: 0.5})
        <= machine.message_seconds(tier, 8, {NETWORK: 0.5})
    ).all()


@pytest.mark.parametrize(
    "bad",
    [
        {"gpus_per_socket": 0},
        {"gpus_per_socket": 7},
        {"low": 0.0},
        {"high": 1e9},
        {"peak": float("nan")},
    ],
)
def test_a_machine_that_does_not_hold(bad: dict[str, float]) -> None:
    refused("A043", Fabric, **{**fabric("summit-v100").__dict__, **bad})


def test_no_such_machine() -> None:
    with pytest.raises(UsageError, match="A043") as error:
        fabric("summit-v10")
    assert "summit-v100" in error.value.fix


# --- tables ---------------------------------------------------------------------------------------


def table(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "tiers.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_table_of_tiers(tmp_path: Path) -> None:
    path = table(
        tmp_path,
        (
            "tier, size [B], bandwidth, latency\nnode, 1024, 1 GB/s,\nnode, 8, 8 MB/s,\n"
            "network,, 10 GB/s, 2 us\n"
        ),
    )
    machine = read_tiers(path, fabric("summit-v100"))
    assert machine.message(NODE).seconds([8, 1024]) == pytest.approx([1e-6, 1.024e-6])
    assert machine.message(NETWORK).seconds(1024) == pytest.approx(2e-6 + 1024 / 10e9)
    assert (machine.peak, machine.gpus_per_node) == (828e9, 6)
    assert not any("latency" in what for what in machine.assumed)


def test_a_tier_of_which_nothing_is_known(tmp_path: Path) -> None:
    machine = read_tiers(
        table(tmp_path, "tier, size [B], bandwidth [GB/s]\nnode, 8, 1\n"), fabric()
    )
    refused("A156", machine.message_seconds, np.array([NETWORK]), 8)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("tier, size [B], bandwidth [GB/s]\n", "A043"),
        ("tier, size [B], bandwidth [GB/s]\nnode, 8, 1\nnode, 8, 2\n", "A043"),
        ("tier, size [B], bandwidth [GB/s]\nNVLink, 8, 1\n", "A043"),
        ("tier, size [B], bandwidth [GB/s]\nnode,, 1\n", "A043"),
        ("tier, size [B], bandwidth [GB/s], latency [us]\nnode, 8, 1, 2\n", "A043"),
        ("tier, size [B], bandwidth [GB/s], latency [us]\nnode, 8, 1,\nnode,, 1, 2\n", "A043"),
        ("tier, size [B], bandwidth [GB/s]\nnode, 8, 0\n", "A063"),
        ("tier, size [B], bandwidth [GB/s]\nnode, -8, 1\n", "A063"),
        ("tier, size [B], bandwidth\nnode, 8, 1\n", "U001"),
        ("tier, size [B], bandwidth [GB/s]\nnode, nan, 1\n", "U004"),
        ("tier, size [B]\nnode, 8\n", "A062"),
    ],
)
def test_tables_that_are_none(tmp_path: Path, text: str, code: str) -> None:
    with pytest.raises((UsageError, UnitError), match=code):
        read_tiers(table(tmp_path, text), fabric())
