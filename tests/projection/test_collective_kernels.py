"""Collectives that ran as kernels of NCCL: what they moved, what another network makes of them, and
what is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import FEWER

from turnbuckle.cost.collectives import (
    HOST_PATHS,
    OPERATIONS,
    THROUGH_HOST,
    THROUGH_HOST_ERROR,
    Fabric,
    collective_seconds,
    spread,
    ways,
)
from turnbuckle.foundation.errors import CannotAnswer, UsageError
from turnbuckle.mpi.questions.messages.prices import reached_through_host
from turnbuckle.mpi.questions.messages.setup import kind_of
from turnbuckle.profile.dependencies.sides import activities
from turnbuckle.profile.messages.collective_kernels import sized_collectives
from turnbuckle.projection.elsewhere.network import OnNetwork
from turnbuckle.projection.projection import Projection
from turnbuckle.projection.run import Run
from turnbuckle.questions.distance.network import tolerate_network
from turnbuckle.replay.contention.nodes import gpu_node

Event = dict[str, Any]
RING = "ncclDevKernel_AllReduce_Sum_f32_RING_SIMPLE(ncclDevKernelArgsStorage<4096ul>)"
#: 4 MB of floats.
MILLION = 1_000_000


def asked(name: str, elements: int, ranks: int = 2, dtype: str = "Float", **more: Any) -> Event:
    told = {
        "Collective name": name,
        "In msg nelems": elements,
        "Out msg nelems": elements,
        "dtype": dtype,
        "Group size": ranks,
    }
    return told | {"Global rank start": 0, "Global rank stride": 1} | more


def step(
    at: float,
    correlation: int,
    takes: float,
    args: Event | None,
    kernel: str = RING,
    annotation: str = "record_param_comms",
) -> list[Event]:
    """A kernel of 100 us, the collective behind it on its stream, and a kernel behind both [us]."""
    host = {"ph": "X", "pid": 1, "tid": 2}
    device = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7}
    where = {"device": 0, "context": 1, "stream": 7}
    begins = [
        (at + 20, "compute", 100.0),
        (at + 120, kernel, takes),
        (at + 120 + takes, "compute", 100.0),
    ]
    events = []
    for k, (begin, name, lasts) in enumerate(begins):
        events.append(
            host
            | {
                "cat": "cuda_runtime",
                "name": "cudaLaunchKernel",
                "ts": at + 6 * k,
                "dur": 4,
                "args": {"correlation": correlation + k},
            }
        )
        events.append(
            device
            | {
                "name": name,
                "ts": begin,
                "dur": lasts,
                "args": where | {"correlation": correlation + k},
            }
        )
    if args is not None:
        events.append(
            host | {"cat": "cpu_op", "name": annotation, "ts": at + 5.5, "dur": 5.0, "args": args}
        )
    end = at + 220 + takes
    events.append(
        host
        | {
            "cat": "cuda_runtime",
            "name": "cudaDeviceSynchronize",
            "ts": at + 19,
            "dur": end - at - 19 + 2,
            "args": {"correlation": correlation + 3},
        }
    )
    return events


def recording(path: Path, steps: Sequence[list[Event]], world: int = 2) -> Path:
    head = {
        "schemaVersion": 1,
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": world},
        "deviceProperties": [{"id": 0, "name": "NVIDIA A100"}],
    }
    path.write_text(
        json.dumps(head | {"traceEvents": [event for events in steps for event in events]})
    )
    return path


def whole(path: Path) -> Run:
    """A recording with all that it holds: in a single step the first kernel that repeats is behind
    the collective.
    """
    return Run.read(path, use_cache=False, part="whole")


def run(path: Path, takes: float = 500.0, args: Event | None = None, **more: Any) -> Run:
    return whole(
        recording(
            path / "rank0.json",
            [step(1000.0, 1, takes, args or asked("allreduce", MILLION), **more)],
        )
    )


def on(
    seen: Run, *settings: str, name: str = "perlmutter", source: str = "perlmutter", draws: int = 0
) -> Projection:
    return seen.project(network=OnNetwork(name, settings, source), draws=draws).projections[0]


#: Perlmutter: 100 GB/s between two of the four GPUs of a node, 25 GB/s a NIC, 0.35 us a link; and
#: 0.5 us to send and to receive.
INSIDE = 8.4e-6 + 2 * 3.4e-6 + 4e6 / 100e9
BETWEEN = 8.4e-6 + 2 * 3.4e-6 + 2 * 1.7e-6 + 4e6 / 25e9


def test_a_ring_between_nodes_takes_as_much_longer_as_its_price(tmp_path: Path) -> None:
    """Two ranks: 2 (P - 1) / P n = 4 MB and two steps; in one node over NVLink, then on two nodes
    over a NIC.
    """
    seen = run(tmp_path)
    own = on(seen)
    assert own.seconds == own.measured_seconds == seen.seconds and own.network is not None
    assert (own.network.kernels, own.network.kernels_bytes, own.network.kernels_kept) == (
        1,
        4 * MILLION,
        0,
    )
    far = on(seen, "ranks_per_node=1")
    assert far.network is not None and (far.network.source.nodes, far.network.target.nodes) == (
        1,
        2,
    )
    assert (
        far.network.source.kernel_seconds[0]
        == pytest.approx(INSIDE)
        == pytest.approx(55.2e-6, abs=1e-9)
    )
    assert (
        far.network.target.kernel_seconds[0]
        == pytest.approx(BETWEEN)
        == pytest.approx(178.6e-6, abs=1e-9)
    )
    assert far.seconds - far.measured_seconds == pytest.approx(BETWEEN - INSIDE, abs=2e-12)
    assert far.change["kernel"] == pytest.approx(BETWEEN - INSIDE, abs=2e-12)
    assert far.envelope == pytest.approx((far.measured_seconds, far.seconds))
    assert {f.code for f in far.findings} >= {"A388"} and "A381" not in {
        f.code for f in far.findings
    }


def test_a_kernel_faster_than_its_price_changes_in_proportion(tmp_path: Path) -> None:
    """10 us where the price says 55.2: ten of 55.2 parts of the difference."""
    seen = run(tmp_path, takes=10.0)
    far = on(seen, "ranks_per_node=1")
    assert far.seconds - far.measured_seconds == pytest.approx(
        10e-6 * (BETWEEN / INSIDE - 1), abs=2e-12
    )


def test_the_recording_shows_its_own_bandwidth(tmp_path: Path) -> None:
    """500 us less 8.4 and two steps of 3.4 for 4 MB: 8.25 GB/s; a faster network cannot take less
    than nothing.
    """
    seen = run(tmp_path)
    same = on(seen, name="self", source="")
    assert (
        same.seconds == seen.seconds
        and same.network is not None
        and same.network.kernels_fitted == 1
    )
    assert same.network.source.gpu_bandwidth == pytest.approx(4e6 / (500e-6 - 15.2e-6))
    assert "A383" in {f.code for f in same.findings}
    near = on(seen, source="")
    assert near.measured_seconds - near.seconds == pytest.approx(500e-6 - INSIDE, abs=1e-9)


def test_the_range_holds_the_error_of_the_price(tmp_path: Path) -> None:
    """The change is drawn with a log-sd of 0.41: 90 % of it lies within a factor of exp(1.645 *
    0.41) of the stated one.
    """
    far = on(run(tmp_path), "ranks_per_node=1", draws=4000)
    change = far.seconds - far.measured_seconds
    assert far.interval is not None
    low, high = (
        (end - far.measured_seconds) / change for end in (far.interval.low, far.interval.high)
    )
    assert low == pytest.approx(1 / 1.963, rel=0.06) and high == pytest.approx(1.963, rel=0.06)
    assert (
        max(far.drivers, key=lambda name: far.drivers[name]) == "price of collectives between GPUs"
    )


def test_project_and_slack_give_one_number(tmp_path: Path) -> None:
    seen = run(tmp_path)
    asked_about = OnNetwork("perlmutter", ("ranks_per_node=1",), "perlmutter")
    curve = tolerate_network(seen, asked_about).curve
    for extra in (0.0, 1e-5, 1e-3):
        p = on(seen, "ranks_per_node=1", f"hop_seconds={0.35e-6 + extra / 2!r} s")
        assert curve(extra) == pytest.approx(p.seconds, abs=1e-10)
    assert curve(1e-3) - curve(0.0) == pytest.approx(2e-3, abs=1e-9), "two steps between nodes"


@FEWER
@given(
    st.sampled_from(OPERATIONS),
    st.integers(2, 64),
    st.integers(1, 8),
    st.sampled_from([1, 4, 8]),
    st.floats(1.0, 1e9),
    st.floats(0, 1e-3),
    st.floats(1e8, 1e12),
    st.floats(1, 50),
)
def test_a_slower_network_is_never_faster(
    operation: str,
    ranks: int,
    each: int,
    stride: int,
    size: float,
    latency: float,
    bandwidth: float,
    slower: float,
) -> None:
    fast = Fabric(latency, bandwidth, 2, (bandwidth * 4,), True, each)
    asked = (operation, size, ranks)
    before = collective_seconds(*asked, fast, stride=stride)
    wires = fast.gpu_wires
    for slow in (
        replace(fast, latency=latency * slower),
        replace(fast, card_bandwidth=bandwidth / slower),
        replace(fast, cards=1),
        replace(fast, gpu_wires=(wires[0] / slower,)),
        replace(fast, through_host=True),
    ):
        assert collective_seconds(*asked, slow, stride=stride) >= before * (1 - 1e-12)
    assert collective_seconds(operation, size * slower, ranks, fast, stride=stride) >= before


def test_a_node_without_wires_between_its_gpus_has_a_price_and_a_width_of_its_own(
    tmp_path: Path,
) -> None:
    """A node with and without its NVLinks: through the host's memory a change is drawn with its own
    log-sd, and a finding says so.
    """
    seen = run(tmp_path)
    with_wires, without = on(seen, draws=20), on(seen, "peer_bandwidth=0 B/s", draws=4000)
    assert (
        with_wires.network is not None
        and without.network is not None
        and without.network.target.fabric is not None
    )
    (link,) = without.network.target.fabric.gpu_wires
    price = 8.4e-6 + 2 * 5.7e-6 + 4e6 / (THROUGH_HOST * link)
    assert without.network.target.kernel_seconds[0] == pytest.approx(price)
    assert (with_wires.network.error, without.network.error) == (0.41, THROUGH_HOST_ERROR)
    told = [{f.code for f in each.findings} for each in (with_wires, without)]
    assert "A740" not in told[0] and "A740" in told[1]
    assert without.interval is not None
    change, widest = (
        end - without.measured_seconds for end in (without.seconds, without.interval.high)
    )
    assert widest / change == pytest.approx(np.exp(1.645 * THROUGH_HOST_ERROR), rel=0.1)


def test_gpus_that_reach_each_other_through_the_memory_of_their_host() -> None:
    """Two GPUs on 10 GB/s each: what flows both ways has a share of the link, what flows one way
    all of it.
    """
    peers = Fabric(2e-6, 25e9, 1, (10e9,), False, 2)
    through = replace(peers, through_host=True)
    for operation in OPERATIONS:
        less = 1.0 if operation in ("broadcast", "reduce") else THROUGH_HOST
        (fixed, byte), *_ = ways(operation, 2, peers)
        assert ways(operation, 2, through)[0] == (fixed, pytest.approx(byte / less)), operation


def test_the_share_of_a_link_through_the_host_is_that_of_the_machines_named() -> None:
    shares = [np.log(reached / link) for reached, link in HOST_PATHS]
    assert np.exp(np.mean(shares)) == pytest.approx(THROUGH_HOST, abs=0.005)
    assert np.std(shares, ddof=1) == pytest.approx(THROUGH_HOST_ERROR, abs=0.01)


@pytest.mark.parametrize(
    ("more", "through_host"),
    [
        ({}, True),
        ({"peer": 100e9}, False),
        ({"cards": "gpu"}, True),
        ({"cards": "gpu", "per_switch": 2}, False),
    ],
    ids=["links", "peers", "a switch each", "one switch"],
)
def test_which_nodes_have_no_other_way(more: dict[str, Any], through_host: bool) -> None:
    node = gpu_node(2, link=25e9, **more)
    wires = [w for w in node.wires if node.parts[w.source] == "gpu 0" and w.source != w.target]
    peers, links = ([w for w in wires if kind_of(node, w) == kind] for kind in ("peer", "link"))
    assert reached_through_host(node, peers, links) is through_host


@given(st.integers(2, 70), st.integers(1, 9), st.integers(1, 12), st.integers(0, 40))
def test_members_on_nodes(ranks: int, each: int, stride: int, first: int) -> None:
    places = [(first + stride * k) // each for k in range(ranks)]
    assert spread(ranks, each, stride, first) == (
        len(set(places)),
        max(places.count(n) for n in places),
    )


def test_trees_rings_and_protocols_by_hand() -> None:
    """8 ranks on 2 nodes of 4, 1 MB, 100 GB/s inside, NICs 2 x 25 GB/s, 2 us."""
    fabric = Fabric(2e-6, 25e9, 2, (100e9,), True, 4)

    def seconds(
        operation: str, algorithm: str, protocol: str, ranks: int = 8, **more: int
    ) -> float:
        return 1e6 * collective_seconds(
            operation, 1e6, ranks, fabric, algorithm=algorithm, protocol=protocol, **more
        )

    assert seconds("allreduce", "ring", "simple") == pytest.approx(
        8.4 + 14 * 3.4 + 2 * 2 + 1.75 * 1e6 / 50e3
    )
    assert seconds("allreduce", "ring", "ll") == pytest.approx(
        3.6 + 14 * 0.47 + 2 * 2 + 1.75 * 1e6 / (50e3 / 4)
    )
    assert seconds("allreduce", "tree", "ll128") == pytest.approx(
        4.4 + 2 * (3 * 1.2 + 1 * (1.2 + 2)) + 2e6 / (0.9 * 0.915 * 50e3)
    )
    assert seconds("allgather", "ring", "simple") == pytest.approx(
        8.4 + 7 * 3.4 + 2 + 7 / 8 * 1e6 / 50e3
    )
    assert seconds("broadcast", "ring", "simple") == pytest.approx(8.4 + 7 * 3.4 + 2 + 1e6 / 50e3)
    assert seconds("alltoall", "", "") == pytest.approx(8.4 + 3.4 + 2 + 4 * 1e6 * 4 / 8 / 50e3)
    assert seconds("allreduce", "ring", "simple", 2, stride=4) == pytest.approx(
        8.4 + 2 * 3.4 + 2 * 2 + 1e6 / 25e3
    ), "one GPU, one NIC a node"
    assert seconds("allreduce", "", "") == min(
        seconds("allreduce", a, p) for a in ("ring", "tree") for p in ("ll", "ll128", "simple")
    )


@pytest.mark.parametrize(
    ("args", "kernel", "annotation", "expected"),
    [
        (
            asked("_reduce_scatter_base", 100, 4, "BFloat16"),
            "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)",
            "record_param_comms",
            ("reducescatter", 200, 4, "", ""),
        ),
        (
            asked("allgather_into_tensor_coalesced", 100, 4, "Half", **{"Out msg nelems": 400}),
            "ncclDevKernel_AllGather_RING_LL(x)",
            "record_param_comms",
            ("allgather", 800, 4, "ring", "ll"),
        ),
        (
            {"Input Dims": [[10, 5], []], "Input type": ["float", ""]},
            RING,
            "nccl:all_reduce",
            ("allreduce", 200, 8, "ring", "simple"),
        ),
        (
            {"Input Dims": [[64]], "Input type": ["float"]},
            "ncclDevKernel_Generic(x)",
            "nccl:_all_gather_base",
            ("allgather", 2048, 8, "", ""),
        ),
    ],
)
def test_what_a_kernel_moved(
    tmp_path: Path, args: Event, kernel: str, annotation: str, expected: tuple[Any, ...]
) -> None:
    path = recording(
        tmp_path / "r.json", [step(1000.0, 1, 50.0, args, kernel, annotation)], world=8
    )
    seen = Run.read(path, use_cache=False)
    sized, unsized = sized_collectives(activities(seen.profile), seen.profile.trace)
    assert (
        unsized == 0
        and sized.select("operation", "size_bytes", "ranks", "algorithm", "protocol").row(0)
        == expected
    )


@pytest.mark.parametrize(
    ("args", "kernel"),
    [
        (None, RING),
        (asked("allreduce", MILLION), "ncclDevKernel_AllReduce_Sum_f32_NVLS_SIMPLE(x)"),
        (asked("send", MILLION, ranks=4), "ncclDevKernel_SendRecv(x)"),
        (asked("allreduce", MILLION, dtype="Mystery"), RING),
        (asked("allreduce", 1 << 59, ranks=1 << 60), RING),
        (asked("allreduce", MILLION, ranks=1 << 24), RING),
    ],
)
def test_what_is_not_priced_keeps_its_time_and_is_counted(
    tmp_path: Path, args: Event | None, kernel: str
) -> None:
    alone = whole(recording(tmp_path / "a.json", [step(1000.0, 1, 500.0, args, kernel)]))
    with pytest.raises(CannotAnswer, match="A164"):
        on(alone)
    with pytest.raises(CannotAnswer, match="A164"):
        tolerate_network(alone, OnNetwork("perlmutter", (), "perlmutter"))
    both = [
        step(1000.0, 1, 500.0, asked("allreduce", MILLION)),
        step(3000.0, 11, 500.0, args, kernel),
    ]
    p = on(whole(recording(tmp_path / "b.json", both)), "ranks_per_node=1")
    assert p.network is not None and (p.network.kernels, p.network.kernels_kept) == (1, 1)
    assert p.seconds - p.measured_seconds == pytest.approx(BETWEEN - INSIDE, abs=2e-12)
    assert [f.count for f in p.findings if f.code == "A387"] == [1]


def test_members_that_cannot_be_are_read_as_not_recorded(tmp_path: Path) -> None:
    """More members than any machine has ranks: told, and the collective is of the whole world as
    one that does not tell them.
    """
    beyond = run(tmp_path, args=asked("allreduce", MILLION, ranks=1 << 40))
    assert [f.count for f in beyond.findings if f.code == "P240"] == [1]
    assert on(beyond, "ranks_per_node=1").seconds == on(run(tmp_path), "ranks_per_node=1").seconds


def test_short_collectives_do_not_show_a_bandwidth(tmp_path: Path) -> None:
    seen = run(tmp_path, takes=20.0, args=asked("allreduce", 8))
    with pytest.raises(CannotAnswer, match="A193"):
        on(seen, source="")
    assert on(seen).seconds == seen.seconds


def test_settings_that_have_a_part(tmp_path: Path) -> None:
    seen = run(tmp_path)
    slow = on(seen, "peer_bandwidth=30 GB/s")
    assert slow.seconds - slow.measured_seconds == pytest.approx(4e6 / 30e9 - 4e6 / 100e9, rel=1e-6)
    with pytest.raises(UsageError, match="A570"):
        on(seen, "ranks=8")


@pytest.mark.parametrize(
    ("name", "kernels", "kept"),
    [
        ("hta_trace_diff_control_a100/control.json.gz", 60, 0),
        ("hta_a100_nccl_rank0of2/nccl_data.json.gz", 21, 0),
        ("resnet_mi300x_rank0of8/resnet_act_checkpoint.json.gz", 12, 5),
    ],
)
def test_real_recordings(shared: Path, name: str, kernels: int, kept: int) -> None:
    seen = Run.read(shared / "traces/kineto" / name, use_cache=False)
    own = on(seen, name="self", source="")
    assert own.seconds == own.measured_seconds == seen.seconds and own.network is not None
    assert (own.network.kernels, own.network.kernels_kept) == (kernels, kept)
    times = [
        on(seen, "ranks_per_node=1", f"card_bandwidth={rate} GB/s", source="").seconds
        for rate in (100, 25, 5, 1)
    ]
    assert times == sorted(times)


def test_the_command_line(turnbuckle: Callable[..., Any], tmp_path: Path) -> None:
    path = recording(tmp_path / "rank0.json", [step(1000.0, 1, 500.0, asked("allreduce", MILLION))])
    words = [
        "--network",
        "perlmutter",
        "--source-network",
        "perlmutter",
        "--network-set",
        "ranks_per_node=1",
        "--draws",
        "0",
    ]
    words = ["--part", "whole", *words]
    table = " ".join(turnbuckle("project", str(path), *words).out.split())
    assert "1 collective kernel on network perlmutter" in table
    answer = json.loads(turnbuckle("project", str(path), *words, "--format", "json").out)[
        "projections"
    ][0]
    assert answer["network"]["kernels"] == 1 and answer["network"]["target"]["ranks_per_node"] == 1
    slack = json.loads(
        turnbuckle("slack", str(path), "--mode", "network", *words[:-2], "--format", "json").out
    )
    assert slack["network"]["kernels"] == 1
