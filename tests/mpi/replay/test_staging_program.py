"""A collective staged once pays a copy of what it puts in and of what it gets, and runs between
hosts.
"""

from __future__ import annotations

import numpy as np
import pytest

from turnbuckle.mpi.collectives.collectives import ALGORITHMS, buffers
from turnbuckle.mpi.replay.messages import Messages, Rounds, Traffic
from turnbuckle.mpi.replay.node_layout import laid_out
from turnbuckle.mpi.replay.program import Charges, program
from turnbuckle.replay.contention.contention import replay
from turnbuckle.replay.contention.network import Network
from turnbuckle.replay.contention.nodes import gpu_node


@pytest.mark.parametrize(
    "operation", ["bcast", "allreduce", "allgather", "alltoall", "reduce_scatter", "barrier"]
)
@pytest.mark.parametrize("gpus", [False, True])
def test_staged_once(operation: str, gpus: bool) -> None:
    ranks, block, fixed, per_byte = 8, 1e6, 2e-6, 7e-11
    nothing, zero = np.zeros(0, dtype=np.int64), np.zeros(ranks)
    none = Messages(nothing, nothing, nothing, nothing, nothing, np.zeros(0))
    rounds = Rounds(operation, np.array([block]), np.arange(ranks)[None, :], 0)
    traffic = Traffic(ranks, np.arange(ranks), zero, zero, zero, none, (rounds,), 0.0, 0)
    node = (
        gpu_node(1, link=75e9, memory=75e9, peer=None, joined="switch", cards="node")
        if gpus
        else None
    )
    network = Network(ranks, 12.5e9, 0.5e-6, node=node)
    layout = laid_out(np.arange(ranks), network.made_of)
    copied = Charges((fixed, per_byte), (fixed, per_byte))
    hosts = replay(program(traffic, layout=layout), network, "flow").seconds
    once = replay(
        program(traffic, layout=layout, charged=copied, staging="once a call"), network, "flow"
    ).seconds
    put, got = buffers(operation, ranks)
    copies = sum(fixed + per_byte * block * side.max() for side in (put, got) if side.max() > 0)
    assert once == pytest.approx(hosts + copies, rel=1e-9)
    # in host memory there is nothing to copy, nor where messages go straight
    plain = np.zeros(len(program(traffic, layout=layout).source), dtype=np.bool_)
    assert (
        replay(
            program(traffic, layout=layout, charged=copied, staging="once a call", on_device=plain),
            network,
            "flow",
        ).seconds
        == hosts
    )
    straight = Charges(direct=True)
    both = [
        program(traffic, layout=layout, charged=straight, staging=how)
        for how in ("each message", "once a call")
    ]  # type: ignore[arg-type]
    assert len({replay(p, network, "flow").seconds for p in both}) == 1
    assert operation in ALGORITHMS
