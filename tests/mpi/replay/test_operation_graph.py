"""Graphs of operations (GOAL) carried as the messages of recordings are: data paths, places,
processors, what a run is made of.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.mpi import schedules
from turnbuckle.mpi.questions.messages.link_use import link_use
from turnbuckle.mpi.questions.messages.question import PATHS, paths, replayed
from turnbuckle.mpi.questions.messages.setup import Path as Way
from turnbuckle.mpi.questions.messages.setup import Setup
from turnbuckle.mpi.questions.messages.times import alone_seconds, message_times
from turnbuckle.mpi.replay.extrapolate import grid_of
from turnbuckle.mpi.replay.operation_graph import OperationGraph, computing
from turnbuckle.mpi.replay.placement import traffic_matrix
from turnbuckle.mpi.schedules import goal
from turnbuckle.replay.contention.contention import Fidelity, replay
from turnbuckle.replay.contention.critical import chain

FIDELITIES: tuple[Fidelity, ...] = ("logp", "flow", "packet")
#: A message of 1 MB after 3 us of work, then 5 us of work at its receiver.
ONE = """num_ranks 2
rank 0 {
a: calc 3000
b: send 1000000b to 1 tag 4
b requires a
}
rank 1 {
a: recv 1000000b from 0 tag 4
b: calc 5000
b requires a
}
"""


def graph(folder: Path, text: str) -> OperationGraph:
    path = folder / "a.goal"
    path.write_text(text, encoding="utf-8")
    found = schedules.read(path)
    assert isinstance(found, OperationGraph)
    return found


def drawn(seed: int) -> str:
    """Ranks with two processors, messages of all sizes, dependencies of both kinds."""
    of = random.Random(seed)
    ranks = of.randint(2, 5)
    lines: list[list[str]] = [[] for _ in range(ranks)]
    for tag in range(of.randint(1, 10)):
        source, target = of.randrange(ranks), of.randrange(ranks)
        size = of.choice([0, 1, 8, 5000, 9000, 300_000])
        lines[source].append(f"send {size}b to {target} tag {tag} cpu {of.choice([0, 0, 1])}")
        lines[target].append(f"recv {size}b from {source} tag {tag}")
        lines[target].append(f"calc {of.randint(0, 9000)} cpu {of.choice([0, 1])}")
    text = f"num_ranks {ranks}\n"
    for rank, body in enumerate(lines):
        text += f"rank {rank} {{\n" + "".join(f"l{k}: {line}\n" for k, line in enumerate(body))
        needs = [
            f"l{k} {of.choice(['requires', 'irequires'])} l{of.randrange(k)}\n"
            for k in range(1, len(body))
            if of.random() < 0.5
        ]
        text += "".join(needs) + "}\n"
    return text


@pytest.mark.parametrize("fidelity", FIDELITIES)
@pytest.mark.parametrize("path", PATHS)
def test_one_message_by_every_path(tmp_path: Path, path: Way, fidelity: Fidelity) -> None:
    """Work, what the closed form says of the message alone, work; and its parts."""
    run = graph(tmp_path, ONE)
    setup = Setup(path=path, fidelity=fidelity, pinned="each")
    found = replayed(run, setup, traced=True)
    alone = alone_seconds(
        replace(setup, pinned="each"),
        "gpudirect" if path == "gpudirect" else "host",
        1e6,
        between=True,
    )
    copy = 2e-6 + 1e6 * setup.paid.copy_per_byte
    expected = (
        alone + {"host": 0.0, "hostcopy": 2 * copy, "gpudirect": setup.paid.pin_seconds}[path]
    )
    # logp: the first byte is free
    free = 1 / 12.5e9 if fidelity == "logp" else 0.0
    # copies go by packets too, the last of which fills a wire once more
    rel, most = (1e-3, 0.0) if (path, fidelity) == ("hostcopy", "packet") else (0.0, 3e-12)
    assert found.row.seconds == pytest.approx(8e-6 + expected - free, rel=rel, abs=most)
    times = message_times(run, setup, found)
    assert times.seconds == pytest.approx([expected - free], rel=rel, abs=most)
    assert (
        times.elapsed_seconds == pytest.approx([expected - free], rel=rel, abs=most)
        and times.between.all()
    )
    assert found.row.compute_seconds == pytest.approx(4e-6)
    assert (found.row.between_bytes, found.row.inside_bytes) == (1e6, 0.0)
    assert found.row.chain_compute_seconds == pytest.approx(8e-6, abs=1e-11)
    assert found.row.chain_copies_seconds == pytest.approx(
        2 * copy if path == "hostcopy" else 0.0, rel=5e-3, abs=1e-11
    )


def test_a_copy_keeps_the_processor(tmp_path: Path) -> None:
    """What is computed on the same processor waits for the copy; on another one it does not."""
    text = (
        "num_ranks 2\nrank 0 {{\nsend 1000000b to 1\ncalc 50000 cpu {cpu}\n}}\nrank 1 {{\n"
        "recv 1000000b from 0\n}}\n"
    )
    setup = Setup(
        path="hostcopy",
        overhead_seconds=0.0,
        hop_seconds=0.0,
        card_bandwidth=1e15,
        eager_limit_bytes=1e9,
    )
    one, other = (replayed(graph(tmp_path, text.format(cpu=cpu)), setup) for cpu in (0, 1))
    copy = 2e-6 + 1e6 * setup.paid.copy_per_byte
    assert one.done is not None and other.done is not None
    assert one.done.ends[0] == pytest.approx(copy + 50e-6, abs=1e-11)
    assert other.done.ends[0] == pytest.approx(copy, abs=1e-11)
    assert one.done.ends[1] == other.done.ends[1] == pytest.approx(2 * copy, abs=2e-9)


def test_places_and_shared_gpus(tmp_path: Path) -> None:
    """Two ranks on one node: no message leaves it; where they share a GPU they compute one after
    the other, or at once.
    """
    text = (
        "num_ranks 2\nrank 0 {\na: calc 100000\nb: send 8b to 1\n}\nrank 1 {\na: calc 100000\n"
        "b: recv 8b from 0\n}\n"
    )
    run = graph(tmp_path, text)
    near = replayed(run, Setup(ranks_per_node=2)).row
    assert (near.nodes, near.between_bytes, near.inside_bytes) == (1, 0.0, 8.0)
    one = Setup(gpus_per_node=1, ranks_per_node=2)
    assert replayed(run, one).row.seconds == near.seconds, (
        "time between calls is the host's, unless a GPU is declared"
    )
    assert (
        near.seconds
        < replayed(run, replace(one, gpu_shared="exclusive")).row.seconds
        == pytest.approx(200e-6, rel=0.05)
    )
    told = replayed(run, replace(one, gpu_shared="exclusive")).row
    assert (
        np.isnan(told.gpu_wait_seconds) and told.chain_gpu_seconds == 0 == near.gpu_wait_seconds
    ), "its resources are more than GPUs"
    both = replayed(run, Setup(gpus_per_node=1, ranks_per_node=2, gpu_shared="time"))
    assert both.done is not None and both.done.ends[:2].min() > 199e-6
    assert traffic_matrix(run).tolist() == [[0.0, 8.0], [0.0, 0.0]]
    assert replayed(run, Setup(mapping="greedy", ranks_per_node=2)).row.nodes == 1


def test_chunks_overlap_with_the_network(tmp_path: Path) -> None:
    run = graph(tmp_path, ONE)
    whole, cut = (
        replayed(run, Setup(path="hostcopy", chunk_bytes=size), traced=True)
        for size in (0.0, 100_000.0)
    )
    assert cut.row.seconds < whole.row.seconds
    size = np.asarray(cut.program.size_bytes)[:10]
    assert size.sum() == 1e6 and (size == 100_000).all()
    assert message_times(run, Setup(path="hostcopy", chunk_bytes=100_000.0), cut).seconds[0] < 2e-4


@settings(deadline=None, derandomize=True, database=None, max_examples=60)
@given(
    st.integers(0, 10**6), st.sampled_from(PATHS), st.sampled_from(FIDELITIES), st.integers(1, 3)
)
def test_laws(
    tmp_path_factory: pytest.TempPathFactory, seed: int, path: Way, fidelity: Fidelity, each: int
) -> None:
    """Parts add up to the run; ranks end with their last operation; nobody computes longer than the
    run; bytes are those of the file.
    """
    run = graph(tmp_path_factory.getbasetemp(), drawn(seed))
    setup = Setup(
        path=path,
        fidelity=fidelity,
        ranks_per_node=each,
        eager_limit_bytes=1e9,
        device_eager_limit_bytes=1e9,
    )
    found = replayed(run, setup, traced=True)
    done = found.done
    assert done is not None, found.row.stuck
    ends = np.zeros(run.ranks)
    last = np.asarray(found.program.works_for)[run.ranks : run.ranks + len(run.rank)]
    np.maximum.at(ends, last, done.ends[run.ranks : run.ranks + len(run.rank)])
    assert done.ends[: run.ranks].tolist() == ends.tolist()
    assert chain(found.program, done).seconds == pytest.approx(done.seconds, abs=1e-11)
    assert (run.work_seconds() <= done.ends[: run.ranks] + 1e-12).all()
    assert (
        found.row.between_bytes + found.row.inside_bytes
        == run.messages.size_bytes.sum()
        == traffic_matrix(run).sum()
    )
    begin, end, rank = computing(found.program, done)
    assert (begin < end).all() and (end <= done.ends[rank] + 1e-12).all()
    for one in range(run.ranks):
        mine = rank == one
        assert (begin[mine][1:] > end[mine][:-1]).all()
        assert float((end - begin)[mine].sum()) >= run.work_seconds()[one] - 1e-11
    used = link_use(found, run.ranks)
    assert used is None or bool((used.in_communication <= 1 + 1e-9).all())


@pytest.mark.parametrize("fidelity", ["flow", "packet"])
def test_without_charges_it_is_the_schedule_itself(tmp_path: Path, fidelity: Fidelity) -> None:
    """Buffers in host memory, a node a rank: the times of `goal.program` on the same network."""
    costs = goal.Costs(
        latency=1e-6, overhead=0.5e-6, gap=0.0, seconds_per_byte=1 / 12.5e9, eager_limit=8192
    )
    for seed in range(20):
        run = graph(tmp_path, drawn(seed))
        found = replayed(run, Setup(path="host", fidelity=fidelity, eager_limit_bytes=8192))
        own = goal.program(goal.read(tmp_path / "a.goal"), costs, fidelity)
        if (
            found.done is not None
            and not (run.rank[run.messages.send] == run.rank[run.messages.receive]).any()
        ):
            assert replay(
                own, replace(found.network, node=None), fidelity
            ).seconds == pytest.approx(found.row.seconds, abs=2e-12)


def test_sends_head_on_are_told_by_their_lines(tmp_path: Path) -> None:
    text = "num_ranks 2\n" + "".join(
        f"rank {me} {{\na: send 9000b to {1 - me}\nb: recv 9000b from {1 - me}\nb requires a\n}}\n"
        for me in (0, 1)
    )
    run = graph(tmp_path, text)
    assert not replayed(run, Setup(path="host", eager_limit_bytes=9000)).row.stuck
    row = replayed(run, Setup(path="gpudirect")).row
    assert (
        "rank 0 at line 3 (send 9000b to 1 tag 0)" in row.stuck
        and "rank 1 at line 9" in row.stuck
        and np.isnan(row.seconds)
    )


def test_what_a_graph_cannot_say(tmp_path: Path) -> None:
    run = graph(tmp_path, ONE)
    caught = refused("A170", grid_of, run)
    assert "graph of operations" in caught.cause + str(caught)
    refused("A099", replayed, run, Setup(buffers="host if call isend; device"))
    rule = replayed(run, Setup(path="hostcopy", buffers="host if size > 1 kB; device")).row
    assert rule.seconds == replayed(run, Setup(path="host")).row.seconds
    about = paths(run, ranks_per_node=[1]).as_dict()
    assert (
        about["collectives"] is about["kept_calls"] is None
        and about["messages"] == 1
        and np.isnan(about["recorded_seconds"])
    )


def test_flaws_travel_with_the_answer(tmp_path: Path) -> None:
    """What nobody receives is handed over, on its processor, and counted."""
    run = graph(
        tmp_path,
        "num_ranks 3\nrank 0 {\nsend 8b to 1\nsend 8b to 1 nic 1\n}\nrank 1 {\nrecv 8b from 0\n}\n",
    )
    found = paths(run, ranks_per_node=[1])
    assert {f.code: f.count for f in found.findings} == {
        "A347": 1,
        "A349": 1,
        "A352": 1,
    } and run.unmatched == 1
    bare = replayed(
        run, Setup(path="host", overhead_seconds=1e-6, overhead_bandwidth=8e6, hop_seconds=0.0)
    ).done
    assert bare is not None and bare.ends[0] == pytest.approx(2 * (1e-6 + 1e-6), abs=1e-11)


@pytest.mark.parametrize(("name", "sends"), [("binary_tree_32", 31), ("dissemination_32", 160)])
def test_the_schedules_of_loggopsim(shared: Path, name: str, sends: int) -> None:
    """LogGOPSim's default costs as settings: its 27.5 us, whatever the fidelity, and the messages
    of `truth.json`.
    """
    run = schedules.read(shared / "traces" / "goal" / "loggopsim_schedules" / f"{name}.goal")
    setup = Setup(
        path="host",
        hop_seconds=1.25e-6,
        overhead_seconds=1.5e-6,
        card_bandwidth=1 / 6e-9,
        gap_seconds=1e-6,
        eager_limit_bytes=65535,
    )
    assert len(run.messages.send) == sends and run.ranks == 32 and run.unmatched == 0
    assert replayed(run, replace(setup, fidelity="logp")).row.seconds == pytest.approx(
        27.5e-6, abs=1e-12
    )
    # five messages of one byte, which is not free there
    assert replayed(run, setup).row.seconds == pytest.approx(27.5e-6 + 5 * 6e-9, abs=2e-11)
