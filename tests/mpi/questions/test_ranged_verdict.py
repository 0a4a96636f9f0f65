"""The verdict on GPUDirect: its range, what is varied, and that all who are asked say one word
(decision D26).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from turnbuckle.mpi.questions.gpudirect.cost import PHYSICS, of_machine
from turnbuckle.mpi.questions.gpudirect.question import study
from turnbuckle.mpi.questions.messages.question import paths, replayed
from turnbuckle.mpi.questions.messages.setup import Setup, network_of
from turnbuckle.mpi.questions.messages.verdict import MOST_MESSAGES, points, variants
from turnbuckle.mpi.replay.messages import Messages, Traffic, recorded
from turnbuckle.projection.run import Run

KNOWN = Setup(
    pinned="each",
    copy_seconds=2e-6,
    copy_bandwidth=14e9,
    pin_seconds=4e-6,
    device_eager_limit_bytes=1.0,
    chunk_bytes=1e9,
)


def pairs(size: float, count: int = 4, kept: float = 0.0) -> Traffic:
    """Return two ranks that compute 10 us and exchange messages of one size, `count` times."""
    call = np.arange(2 * count).reshape(count, 2)
    send, receive = call[:, 0], 2 * count + call[:, 0]
    messages = Messages(send, send, receive, receive, np.full(count, -1), np.full(count, size))
    calls = 4 * count
    rank, times = (
        np.repeat([0, 1], 2 * count),
        (np.full(calls, 1e-5), np.full(calls, kept), np.zeros(2)),
    )
    return Traffic(
        2, rank, *times, messages, (), 1.0, 0, call=np.zeros(calls, dtype=np.int64), calls=("wait",)
    )


def test_what_is_stated_is_not_varied() -> None:
    assert not variants(KNOWN)
    free = variants(Setup())
    assert {
        "costs seed_G",
        "memory never pinned",
        "host copies dearer",
        "copies in chunks of 64 KiB",
    } <= free.keys()
    assert not any("pinned" in name for name in variants(Setup(pinned="once")))
    assert not any("host copies" in name for name in variants(Setup(copy_seconds=0.0)))


def test_the_range_holds_both_presets_and_every_point() -> None:
    made = paths(pairs(2e4), ranks_per_node=[1])
    verdict = made.verdict
    assert verdict.low <= min(p.gain for p in verdict.points) <= verdict.gain <= verdict.high
    presets = [
        paths(pairs(2e4), Setup(costs=c), ranks_per_node=[1]).gain(1) for c in ("physics", "seed_G")
    ]  # type: ignore[arg-type]
    assert all(verdict.low <= gain <= verdict.high for gain in presets)
    assert (
        verdict.word == "undecided"
        and verdict.decides in {p.name for p in verdict.points}
        and verdict.decides in verdict.sentence
    )
    assert made.as_dict()["verdict"]["interval"] == [verdict.low, verdict.high]


@pytest.mark.parametrize("size", [64.0, 2e4, 1e6])
def test_the_study_says_the_same_word(size: float) -> None:
    plain = paths(pairs(size), ranks_per_node=[1, 2]).verdict
    deep = study(pairs(size), Setup(), ranks_per_node=[1, 2])
    assert (
        deep.word == plain.word and deep.answered.verdict == plain and plain.reach in deep.verdict
    )


def test_one_memory_has_nothing_to_copy() -> None:
    verdict = paths(pairs(1e6), Setup(network="el-capitan"), ranks_per_node=[1]).verdict
    assert (
        verdict.word == "makes no difference" and verdict.gain == verdict.low == verdict.high == 0
    )
    assert "nothing to copy" in verdict.sentence


def test_copies_are_those_of_the_machine() -> None:
    assert of_machine("") == PHYSICS and of_machine("mi300a").copies == 0
    assert of_machine("lassen").copy_per_byte < of_machine("cori-gpu").copy_per_byte, (
        "NVLink 2 against PCIe 3"
    )


def test_zero_is_zero_and_unset_is_null() -> None:
    assert Setup(copy_seconds=0.0).paid.copy_latency == 0 != Setup().paid.copy_latency
    assert Setup().as_dict()["copy_seconds"] is None


def test_a_node_of_as_many_gpus_as_asked() -> None:
    assert (
        len(
            network_of(
                Setup(network="lassen", ranks_per_node=8, gpus_per_node=8), 1
            ).made_of.parts_of("gpu")
        )
        == 8
    )


def test_kept_time_has_no_verdict() -> None:
    verdict = paths(pairs(1e4, kept=1e-2), ranks_per_node=[1]).verdict
    assert verdict.word == "cannot be told" and "without a counterpart" in verdict.sentence


def test_huge_runs_are_answered_as_set() -> None:
    assert points(Setup(), MOST_MESSAGES + 1, lambda _: pytest.fail("asked")) == ()


def test_less_compute_stays_sane(shared: Path) -> None:
    """Communication of a stencil of 32 ranks at full, half, a tenth and no compute: within a factor
    of three of the recorded.
    """
    traffic = recorded(
        Run.read(shared / "traces" / "otf2" / "stencil4d_32rank" / "traces.otf2").profile
    )
    full, *less = (
        replayed(traffic, replace(Setup(ranks_per_node=4), compute=share)).row.communication_seconds
        for share in (1.0, 0.5, 0.1, 0.0)
    )
    assert all(full / 3 < seconds < 3 * full for seconds in less)
