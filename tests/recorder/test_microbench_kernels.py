"""Every kernel of the measuring program does what its section takes it to do: run by hand,
instruction by instruction.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from ptx_by_hand import Device, Kernel, kernels

SHAPES = [(1, 1), (3, 4), (7, 32)]


@pytest.fixture(scope="module")
def module(program: Path) -> dict[str, Kernel]:
    text = subprocess.run([program, "ptx"], capture_output=True, text=True, check=True).stdout
    assert text.startswith(".version 6.3\n.target sm_60\n.address_size 64\n")
    found = kernels(text)
    assert len(found) == text.count(".entry")
    return found


@pytest.fixture
def device() -> Device:
    return Device(1 << 16)


def numbers(count: int, kind: type = np.float64) -> np.ndarray:
    return np.random.default_rng(7).uniform(1, 2, count).astype(kind)


def test_every_kernel_is_tried_here(module: dict[str, Kernel]) -> None:
    text = Path(__file__).read_text()
    assert [name for name in module if f'"{name}"' not in text] == []


def test_the_empty_kernel_ends(module: dict[str, Kernel], device: Device) -> None:
    device.run(module["tb_empty"], 2, 2)
    assert device.clock == 4


@pytest.mark.parametrize("cycles", [0, 50, 500])
def test_a_spin_lasts_its_cycles_and_little_more(
    cycles: int, module: dict[str, Kernel], device: Device
) -> None:
    device.run(module["tb_spin"], 1, 1, cycles)
    assert cycles <= device.clock <= cycles + 16


def test_a_flag_is_stored_when_its_time_has_come(module: dict[str, Kernel], device: Device) -> None:
    flag = device.place(np.zeros(4, np.uint32))
    device.run(module["tb_flag"], 1, 1, 300, flag, 77)
    assert (
        device.values(flag, np.zeros(4, np.uint32)).tolist() == [77, 0, 0, 0]
        and 300 <= device.clock <= 330
    )


def test_flags_are_answered_in_turn_and_waiting_ends(
    module: dict[str, Kernel], device: Device
) -> None:
    there, back = (device.place(np.array([value], np.uint32)) for value in (1, 0))
    # the first flag stands; the second never comes, and the kernel gives up
    device.run(module["tb_pingpong"], 1, 1, there, back, 5, 400)
    assert (
        device.values(back, np.zeros(1, np.uint32)).tolist() == [1] and 400 <= device.clock <= 460
    )
    device.run(module["tb_pingpong"], 1, 1, there, back, 1, 400)
    assert device.clock <= 500


@pytest.mark.parametrize("shape", SHAPES)
def test_passes_over_memory(
    shape: tuple[int, int], module: dict[str, Kernel], device: Device
) -> None:
    one, two = numbers(100), numbers(100)[::-1].copy()
    a, b, c = device.place(np.zeros(100)), device.place(one), device.place(two)
    device.run(module["tb_triad"], *shape, a, b, c, 99)
    np.testing.assert_allclose(device.values(a, one), [*(one[:99] + 0.4 * two[:99]), 0.0])
    device.run(module["tb_copy"], *shape, a, b, 50)
    np.testing.assert_array_equal(device.values(a, one), one)
    device.run(module["tb_write"], *shape, a, 49)
    np.testing.assert_array_equal(device.values(a, one), [*np.ones(98), *one[98:]])
    before = bytes(device.memory)
    device.run(module["tb_read"], *shape, b, 50, c)
    assert bytes(device.memory) == before


def test_reading_touches_every_byte(module: dict[str, Kernel], device: Device) -> None:
    """One number of all is set so that their sum is the one that would be stored: it is, so all
    were read.
    """
    values = np.zeros(64)
    values[37] = 1.2345
    place, out = device.place(values), device.place(np.zeros(1))
    device.run(module["tb_read"], 1, 1, place, 32, out)
    assert device.values(out, np.zeros(1))[0] == pytest.approx(1.2345)


@pytest.mark.parametrize(("name", "kind"), [("tb_fma64", np.float64), ("tb_fma32", np.float32)])
def test_chains_of_multiply_add(
    name: str, kind: type, module: dict[str, Kernel], device: Device
) -> None:
    """8 chains of 16 steps a round, as the number of operations takes it; all threads store."""
    out = device.place(np.zeros(6, kind))
    device.run(module[name], 2, 3, out, 2)
    wanted = []
    for thread in (0, 1, 2, 0, 1, 2):
        x = thread + np.arange(8.0)
        for _ in range(2 * 16):
            x = x * 0.999 + 0.5
        wanted.append(x.sum())
    np.testing.assert_allclose(device.values(out, np.zeros(6, kind)), wanted, rtol=1e-4)
    assert sum(word.startswith("fma.rn") for _, word, _ in module[name].code) == 8 * 16


def test_a_chase_follows_its_chain(module: dict[str, Kernel], device: Device) -> None:
    order = np.random.default_rng(3).permutation(64)
    chain = np.zeros(64, np.uint32)
    chain[order] = np.roll(order, -1)
    place, out, cycles, ns = (
        device.place(chain),
        *(device.place(np.zeros(1, np.uint64)) for _ in range(3)),
    )
    device.run(module["tb_chase"], 1, 1, place, int(order[5]), 20, out, cycles, ns)
    assert device.values(out, np.zeros(1, np.uint32))[0] == order[(5 + 16 + 20) % 64]
    taken = device.values(cycles, np.zeros(1, np.uint64))[0]
    assert 20 * 5 <= taken <= 20 * 8 and device.values(ns, np.zeros(1, np.uint64))[0] >= taken


def test_the_product_of_the_slack_proxy(module: dict[str, Kernel], device: Device) -> None:
    one, two = (numbers(36, np.float32).reshape(6, 6) for _ in range(2))
    two = two.T.copy()
    a, b, c = device.place(one), device.place(two), device.place(np.zeros(36, np.float32))
    device.run(module["tb_matmul"], 3, 16, a, b, c, 6)
    np.testing.assert_allclose(device.values(c, one).reshape(6, 6), one @ two, rtol=1e-5)
