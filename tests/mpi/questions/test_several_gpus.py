"""Ranks that drive several GPUs: node shapes, who shares what, copies and verdict."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from mpi_rows import Row, call, recorded, thread
from refusals import refused

from turnbuckle.foundation.errors import UsageError
from turnbuckle.mpi.questions.messages.question import paths, replayed
from turnbuckle.mpi.questions.messages.setup import (
    Setup,
    driving,
    network_of,
    program_of,
    shares_gpus,
)
from turnbuckle.mpi.replay.messages import Traffic
from turnbuckle.mpi.replay.messages import recorded as traffic_of
from turnbuckle.mpi.replay.node_layout import laid_out
from turnbuckle.profile.profile import build
from turnbuckle.replay.contention.nodes import gpu_node
from turnbuckle.trace.ids import process_of

US = 1_000


def kernel(rank: int, device: int, start: int) -> Row:
    return {
        "start_ns": start * US,
        "end_ns": (start + 4) * US,
        "process": process_of(thread(rank)),
        "device": device,
        "context": 1,
        "stream": 7,
        "correlation": 100 * rank + start,
        "name": "compute",
    }


def traffic(devices: dict[int, tuple[int, ...]], size: int = 1 << 20) -> Traffic:
    """Ranks that work on GPUs of their own, then send around a ring [us]."""
    ranks = len(devices)
    kernels = [
        kernel(rank, device, 2 + 5 * k)
        for rank, of in devices.items()
        for k, device in enumerate(of)
    ]
    calls = []
    for rank in range(ranks):
        to, frm = (rank + 1) % ranks, (rank - 1) % ranks
        calls += [
            call(rank, "Isend", 100 * US, 101 * US, partner=to, tag=0, size_bytes=size, request=1),
            call(rank, "Recv", 101 * US, 150 * US, partner=frm, tag=0, size_bytes=size),
            call(rank, "Wait", 150 * US, 151 * US, request=1),
        ]
    return traffic_of(
        build(recorded(*calls, ranks=ranks, kernels=sorted(kernels, key=lambda k: k["start_ns"])))
    )


def test_kernels_tell_how_many_gpus_a_rank_drives() -> None:
    assert traffic({0: (0, 1), 1: (2, 3), 2: (4,), 3: ()}).gpus_of_rank.tolist() == [2, 2, 1, 0]
    assert driving(Setup(), traffic({0: (0, 1), 1: (2,)})).gpus_per_rank == 2
    assert driving(Setup(gpus_per_rank=1), traffic({0: (0, 1), 1: (2, 3)})).gpus_per_rank == 1
    alone = traffic({0: (), 1: ()})
    assert not len(alone.gpus_of_rank) and driving(Setup(), alone).gpus_per_rank == 1


def test_a_node_has_the_gpus_of_its_ranks() -> None:
    """Two ranks a node of two GPUs each: four GPUs, of which the ranks stand at the first and the
    third.
    """
    run = traffic({0: (0, 1), 1: (2, 3), 2: (0, 1), 3: (2, 3)})
    setup = driving(Setup(ranks_per_node=2), run)
    assert setup.gpus == 4
    _, network, node = program_of(run, setup)
    assert len(network.made_of.parts_of("gpu")) == 4 and node.tolist() == [0, 0, 1, 1]
    gpus = network.made_of.parts_of("gpu")
    layout = laid_out(node, network.made_of, 2)
    assert (layout.device - node * len(network.made_of.parts)).tolist() == [gpus[0], gpus[2]] * 2
    assert not layout.sharing().any() and not shares_gpus(setup, network)


def test_who_shares_a_gpu() -> None:
    """Four GPUs for four ranks that drive two each: ranks 0 and 2, and 1 and 3, have the same
    two.
    """
    made = gpu_node(4, link=25e9)
    layout = laid_out(np.zeros(4, dtype=np.int64), made, 2)
    first, third = made.parts_of("gpu")[0], made.parts_of("gpu")[2]
    assert layout.device.tolist() == [first, third, first, third] and layout.sharing().all()
    run = traffic({rank: (2 * rank, 2 * rank + 1) for rank in range(4)})
    shared = Setup(
        ranks_per_node=4, gpus_per_node=4, gpu_shared="exclusive", path="host", fidelity="flow"
    )
    own = replace(shared, gpus_per_node=8)
    work = run.compute_seconds.mean()
    busy, free = (replayed(run, setup).row for setup in (shared, own))
    assert free.gpu_wait_seconds == 0 and busy.gpu_wait_seconds == pytest.approx(
        work / 2, rel=0.05
    ), "one of two waits for the other's work"
    assert 0.8 * work < busy.seconds - free.seconds <= work, (
        "less what of the first ranks' messages runs meanwhile"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"gpus_per_node": 3},
        {"gpus_per_node": 6},
        {"gpus_per_rank": -1},
        {"gpus_per_node": 2, "gpus_per_rank": 4, "ranks_per_node": 1},
    ],
)
def test_what_is_refused(changes: dict[str, int]) -> None:
    run = traffic({0: (0, 1), 1: (2, 3)})
    with pytest.raises(UsageError, match="A074"):
        replayed(run, replace(Setup(ranks_per_node=2), **changes))  # type: ignore[arg-type]


def test_a_named_node_holds_as_many_ranks_as_its_gpus_serve() -> None:
    """Lassen has four GPUs: two ranks of two each have their own, four ranks share."""
    run = traffic({rank: (2 * rank, 2 * rank + 1) for rank in range(4)})
    two, four = (
        driving(Setup(ranks_per_node=n, network="lassen", gpu_shared="exclusive"), run)
        for n in (2, 4)
    )
    assert [shares_gpus(setup, network_of(setup, 1)) for setup in (two, four)] == [False, True]
    refused("A074", replayed, run, Setup(ranks_per_node=1, network="lassen", gpus_per_rank=3))


def test_the_verdict_is_of_the_shape_that_was_recorded() -> None:
    """One rank a node with two GPUs has the wires of one with one: copies go by the first GPU, so
    its gain is the same.
    """
    two, one = traffic({0: (0, 1), 1: (2, 3)}), traffic({0: (0,), 1: (1,)})
    both, single = (paths(run, Setup(fidelity="logp"), ranks_per_node=[1, 2]) for run in (two, one))
    assert both.setup.gpus_per_rank == 2 and single.setup.gpus_per_rank == 1
    assert (
        both.gain(1) == pytest.approx(single.gain(1)) and both.verdict.word == single.verdict.word
    )
    told = [(f.code, f.count) for f in both.findings]
    assert ("A386", 2) in told and "A386" not in {f.code for f in single.findings}
