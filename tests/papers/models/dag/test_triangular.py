"""Sparse triangular solves on several GPUs, against plain Python on small ones; laws of the model;
what the answer says.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from graphlib import TopologicalSorter

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.foundation.units import show
from turnbuckle.papers.models.dag.question import gpu_counts, sweep
from turnbuckle.papers.models.dag.supernodes import Supernodes, supernodes, triangle_of
from turnbuckle.papers.models.dag.tasks import (
    LAYOUTS,
    VARIANTS,
    Dealt,
    Layout,
    Queue,
    Run,
    Variant,
    solve,
    variants,
    work,
)
from turnbuckle.papers.models.dag.tiers import (
    NETWORK,
    NODE,
    SAME,
    SOCKET,
    TIERS,
    Fabric,
    Tier,
    fabric,
)

drawn = settings(max_examples=100)
#: Few GPUs to a node, and blocks that soon share the memory, so that small matrices meet every
#: case.
SMALL = Fabric(
    "small",
    "a small machine",
    {
        "socket": Tier.plain(1e-6, 1e9),
        "node": Tier.plain(2e-6, 8e8),
        "network": Tier(np.array([8.0, 64.0]), np.array([2e6, 9e6])),
    },
    2,
    4,
    8e9,
    1e9,
    4e9,
)


@st.composite
def matrices(draw: st.DrawFn) -> Supernodes:
    """Supernodes of random lower triangular matrices."""
    count = draw(st.integers(1, 16))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    matrix = np.tril(
        rng.random((count, count)) < draw(st.sampled_from([0.1, 0.3, 0.7])), -1
    ) | np.eye(count, dtype=bool)
    return supernodes(
        triangle_of(sp.csc_array(matrix.astype(float))),
        draw(st.integers(1, 4)),
        draw(st.sampled_from([0.0, 0.4])),
    )


def oracle(
    found: Supernodes, dealt: Dealt, machine: Fabric, variant: Variant, dependency: float = 0.0
) -> tuple[float, int]:
    """Longest path [s] and messages of the solve, as the model is written down: block by block,
    with nothing of the code under test.
    """
    level, width = found.level.tolist(), found.width.tolist()
    blocks = list(zip(*(x.tolist() for x in found.blocks), strict=True))

    def owner(i: int, k: int) -> int:
        return int(dealt.of(np.array([i]), np.array([k]))[0])

    nodes = -(-dealt.gpus // machine.gpus_per_node)
    work_of: dict[tuple[str, int, int], float] = {}
    for k, w in enumerate(width):
        work_of["diagonal", k, owner(k, k)] = w * (w + 1) / 2 * 8 + 4 * w
    for k, i, rows in blocks:
        at = ("below", k, owner(i, k))
        work_of[at] = work_of.get(at, 0.0) + rows * (8 * width[k] + 4)
    here = Counter((level[k], gpu) for k, gpu in {(k, gpu) for _, k, gpu in work_of})
    seconds = {}
    for (what, k, gpu), size in work_of.items():
        share = machine.peak / here[level[k], gpu]
        bound = machine.high * (nodes if variant.one_node else 1)
        seconds[what, k, gpu] = size / min(max(share, machine.low), bound)

    def lag(one: int, other: int, size: float) -> float:
        if one == other:
            return 0.0
        socket, node = (
            (one // machine.gpus_per_socket, other // machine.gpus_per_socket),
            (one // machine.gpus_per_node, other // machine.gpus_per_node),
        )
        tier = NODE if variant.one_node else NETWORK
        if len(set(node)) == 1:
            tier = SOCKET if len(set(socket)) == 1 else NODE
        up = 2.0 ** math.ceil(math.log2(size))
        return float(machine.message(tier).seconds(up)) * variant.slower.get(tier, 1.0)

    edges: dict[tuple[str, int, int], list[tuple[tuple[str, int, int], float]]] = {
        task: [] for task in work_of
    }
    messages = set()
    for k, i, rows in blocks:
        home, at, to = owner(k, k), owner(i, k), owner(i, i)
        edges["below", k, at].append((("diagonal", k, home), lag(home, at, 8 * width[k])))
        edges["diagonal", i, to].append(
            (("below", k, at), lag(at, to, 8 * rows) if at != to else dependency)
        )
        messages |= {("down", k, at)} if home != at else set()
        messages |= {("along", k, i)} if at != to else set()
    end: dict[tuple[str, int, int], float] = {}
    for task in TopologicalSorter({t: [u for u, _ in e] for t, e in edges.items()}).static_order():
        end[task] = seconds[task] + max((end[u] + wait for u, wait in edges[task]), default=0.0)
    return max(end.values()), len(messages)


@drawn
@given(
    matrices(),
    st.integers(1, 9),
    st.sampled_from(LAYOUTS),
    st.integers(0, 3),
    st.sampled_from([0.0, 3e-7]),
)
def test_run_time_is_the_longest_path(
    found: Supernodes, gpus: int, layout: Layout, which: int, dependency: float
) -> None:
    dealt, variant = Dealt.on_grid(gpus, layout), variants()[which]
    run = solve(work(found, dealt, SMALL), SMALL, variant, dependency=dependency)
    wanted, messages = oracle(found, dealt, SMALL, variant, dependency)
    assert run.path_seconds == pytest.approx(wanted, rel=1e-9)
    assert run.all_messages == messages


@drawn
@given(
    matrices(),
    st.integers(1, 9),
    st.sampled_from(LAYOUTS),
    st.integers(0, 3),
    st.sampled_from([None, "receiver", "link"]),
)
def test_the_parts_of_the_path_add_up(
    found: Supernodes, gpus: int, layout: Layout, which: int, queue: Queue | None
) -> None:
    done = work(found, Dealt.on_grid(gpus, layout), SMALL)
    run = solve(done, SMALL, variants()[which], dependency=1e-7, queue=queue)
    parts = run.compute_seconds + run.dependency_seconds + sum(run.message_seconds.values())
    assert parts == pytest.approx(run.path_seconds, rel=1e-9)
    assert run.seconds == max(run.path_seconds, run.memory_seconds)
    assert 0 <= run.latency_seconds <= sum(run.message_seconds.values()) * (1 + 1e-12)
    assert run.path_messages <= run.all_messages
    # a message that only holds up the next one on its link, and carries no more than latency, takes
    # nothing on the path
    assert all(
        (run.messages[t] == 0) == (run.message_seconds[t] == 0)
        or (queue == "link" and run.messages[t])
        for t in TIERS[1:]
    )
    assert done.bytes.sum() == pytest.approx(
        8 * found.values.sum() + 4 * np.diff(found.starts).sum()
    )


@drawn
@given(matrices(), st.integers(1, 9), st.sampled_from(LAYOUTS), st.floats(1, 10))
def test_more_bandwidth_is_never_slower(
    found: Supernodes, gpus: int, layout: Layout, factor: float
) -> None:
    done, now = work(found, Dealt.on_grid(gpus, layout), SMALL), SMALL
    memory = replace(
        SMALL, peak=SMALL.peak * factor, low=SMALL.low * factor, high=SMALL.high * factor
    )
    messages = replace(
        SMALL,
        tiers={
            n: replace(t, bandwidth=t.bandwidth * factor, latency=t.latency / factor)
            for n, t in SMALL.tiers.items()
        },
    )
    bound = replace(SMALL, high=min(SMALL.high * factor, SMALL.peak))
    today = solve(done, now).seconds
    for better in (memory, messages, bound):
        assert solve(done, better).seconds <= today * (1 + 1e-12)
    both = replace(memory, tiers=messages.tiers)
    assert solve(done, both).seconds == pytest.approx(today / factor, rel=1e-9)


@drawn
@given(matrices(), st.integers(1, 9), st.sampled_from(LAYOUTS))
def test_changes_do_what_they_say(found: Supernodes, gpus: int, layout: Layout) -> None:
    now, integrated, disaggregated, merged = sweep(found, SMALL, [gpus], layout).runs
    assert integrated.seconds <= now.seconds <= disaggregated.seconds
    if gpus <= SMALL.gpus_per_node:
        # nothing leaves the node
        assert integrated.seconds == now.seconds == merged.seconds
        assert now.messages["network"] == now.message_seconds["network"] == 0
    assert merged.messages["network"] == 0
    none = variants(1.0, 1.0)
    assert all(
        run.seconds == now.seconds
        for run in sweep(found, SMALL, [gpus], layout, changes=none[:3]).runs
    )


@drawn
@given(matrices(), st.sampled_from(LAYOUTS))
def test_one_gpu_sends_nothing(found: Supernodes, layout: Layout) -> None:
    run = solve(work(found, Dealt.on_grid(1, layout), SMALL), SMALL)
    assert (run.all_messages, run.all_bytes, run.path_messages) == (0, 0.0, 0)
    assert run.path_seconds == pytest.approx(run.compute_seconds)


@drawn
@given(matrices(), st.integers(1, 9), st.sampled_from(LAYOUTS))
def test_one_message_at_a_time_is_never_faster(
    found: Supernodes, gpus: int, layout: Layout
) -> None:
    done = work(found, Dealt.on_grid(gpus, layout), SMALL)
    free, queued = solve(done, SMALL), solve(done, SMALL, queue="receiver")
    assert queued.path_seconds >= free.path_seconds * (1 - 1e-12)
    # the busiest receiver has to take all it is sent
    lags = SMALL.message_seconds(done.tier, done.message_bytes)
    received = np.bincount(done.gpu[done.target], weights=lags, minlength=gpus)
    assert queued.path_seconds >= received.max() * (1 - 1e-12)


@drawn
@given(matrices(), st.integers(1, 9), st.sampled_from(LAYOUTS), st.integers(1, 4))
def test_a_shared_link_carries_the_bytes_of_all_its_ranks(
    found: Supernodes, gpus: int, layout: Layout, ranks: int
) -> None:
    done = work(found, Dealt.on_grid(gpus, layout, ranks), SMALL)
    assert done.gpu.max() < gpus
    free, shared, received = (
        solve(done, SMALL, queue=queue).path_seconds for queue in (None, "link", "receiver")
    )
    assert shared >= free * (1 - 1e-12) and received >= free * (1 - 1e-12)
    carried = SMALL.message_seconds(done.tier, done.message_bytes) - SMALL.latency_seconds(
        done.tier, done.message_bytes
    )
    sent = np.bincount(done.gpu[done.source], weights=carried, minlength=gpus)
    assert shared >= sent.max() * (1 - 1e-12)
    one = work(found, Dealt.on_grid(gpus, layout), SMALL)
    if ranks == 1:
        assert np.array_equal(one.gpu, done.gpu) and np.array_equal(one.source, done.source)
    assert done.bytes.sum() == pytest.approx(one.bytes.sum())


@drawn
@given(matrices(), st.integers(1, 9))
def test_a_map_may_be_the_cyclic_one(found: Supernodes, gpus: int) -> None:
    owner = np.arange(len(found)) % gpus
    mapped = sweep(found, SMALL, owner=owner).runs[0]
    assert mapped.seconds == sweep(found, SMALL, [mapped.gpus], "columns").runs[0].seconds


def chain(count: int) -> Supernodes:
    return supernodes(
        triangle_of(sp.diags_array([np.ones(count), np.ones(count - 1)], offsets=[0, -1])), 1
    )


def test_a_chain_takes_all_its_tasks_in_turn() -> None:
    machine = fabric("summit-v100")
    alone = solve(work(chain(1000), Dealt.on_grid(1), machine), machine)
    # 999 columns of two values and two indices, and the last of one
    assert alone.path_seconds == pytest.approx((999 * 24 + 12) / machine.high)
    assert alone.tasks == 1000
    # dealt to two GPUs of a socket, each step is a message of 8 B
    two = solve(work(chain(1000), Dealt.on_grid(2, "columns"), machine), machine)
    assert two.messages == {"socket": 999, "node": 0, "network": 0}
    assert two.message_bytes == 999 * 8
    assert two.path_seconds == pytest.approx(
        alone.path_seconds + 999 * float(machine.message(SOCKET).seconds(8))
    )
    assert two.latency_share > 0.99


def test_an_arrow_receives_all_at_once_or_in_turn() -> None:
    count = 9
    arrow = np.eye(count)
    arrow[-1] = 1
    found = supernodes(triangle_of(sp.csc_array(arrow)), 1)
    done = work(
        found, Dealt.on_grid(count, "columns"), replace(SMALL, gpus_per_socket=9, gpus_per_node=9)
    )
    machine = replace(SMALL, gpus_per_socket=9, gpus_per_node=9)
    message = float(machine.message(SOCKET).seconds(8))
    first, last = 24 / machine.high, 12 / machine.high
    assert solve(done, machine).path_seconds == pytest.approx(first + message + last)
    assert solve(done, machine, queue="receiver").path_seconds == pytest.approx(
        first + 8 * message + last
    )


def test_a_gpu_cannot_read_faster_than_its_memory() -> None:
    found = supernodes(triangle_of(sp.eye_array(100_000)), 1)
    answer = sweep(found, fabric(), [1])
    run = answer.runs[0]
    assert run.path_seconds == pytest.approx(12 / fabric().low)
    assert run.seconds == run.memory_seconds == pytest.approx(1.2e6 / fabric().peak)
    assert [(f.code, f.detail) for f in answer.findings] == [("A346", "at 1 GPU")]


def test_layouts() -> None:
    blocks = np.array([(i, k) for k in range(6) for i in range(6)]).T
    assert set(Dealt.on_grid(6, "columns").of(*blocks).tolist()) == set(range(6))
    assert Dealt.on_grid(6, "rows").of(np.array([5]), np.array([0])).tolist() == [5]
    grid = Dealt.on_grid(6)
    assert (grid.rows, grid.columns) == (2, 3)
    assert grid.of(np.array([3]), np.array([4])).tolist() == [1 * 3 + 1]


@drawn
@given(st.integers(1, 30), st.integers(1, 300))
def test_gpu_counts_fill_nodes(node: int, most: int) -> None:
    counts = gpu_counts(node, most)
    assert counts == sorted(set(counts))
    assert counts[: min(node, most)] == list(range(1, min(node, most) + 1))
    assert all(n % node == 0 for n in counts if n > node)
    assert counts[-1] <= most


# --- what the answer says -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def laplace() -> Supernodes:
    from scipy.sparse.linalg import splu

    line = sp.diags_array([-np.ones(29), 2 * np.ones(30), -np.ones(29)], offsets=[-1, 0, 1])
    matrix = sp.csc_array(sp.kron(line, sp.eye_array(30)) + sp.kron(sp.eye_array(30), line))
    return supernodes(
        triangle_of(
            splu(
                matrix,
                permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=0,
                options={"SymmetricMode": True},
            ).L
        )
    )


def test_the_sweet_spot_is_the_fastest_run_with_the_fewest_gpus(laplace: Supernodes) -> None:
    answer = sweep(laplace, fabric())
    for what in VARIANTS:
        runs = answer.of(what)
        best = answer.best(what)
        assert best.seconds == min(run.seconds for run in runs)
        assert best.gpus == min(run.gpus for run in runs if run.seconds == best.seconds)
        enough = answer.enough(what)
        assert enough.gpus <= best.gpus
        assert enough.seconds <= 1.05 * best.seconds
        assert all(run.seconds > 1.05 * best.seconds for run in runs if run.gpus < enough.gpus)


def test_gains_name_both_sides(laplace: Supernodes) -> None:
    answer = sweep(laplace, fabric())
    gains = answer.gains()
    assert [g.what for g in gains] == [w for w in VARIANTS[1:] for _ in range(2)]
    for gain in gains:
        assert gain.ratio == pytest.approx(gain.of.seconds / gain.to.seconds)
        assert (gain.of.what, gain.to.what) == ("as is", gain.what)
    for gain in gains[1::2]:
        assert gain.of.gpus == gain.to.gpus
        now = {run.gpus: run.seconds for run in answer.of("as is")}
        strongest = max(abs(math.log(now[run.gpus] / run.seconds)) for run in answer.of(gain.what))
        assert abs(math.log(gain.ratio)) == pytest.approx(strongest)


def test_the_document(laplace: Supernodes) -> None:
    found = json.loads(json.dumps(sweep(laplace, fabric(), [1, 12]).as_dict()))
    assert found["supernodes"]["count"] == len(laplace)
    assert found["supernodes"]["concurrency_mean"] * found["supernodes"]["levels"] == pytest.approx(
        len(laplace)
    )
    assert len(found["runs"]) == 2 * len(VARIANTS)
    assert {"2.6 times less", "4 times longer"} <= {
        w
        for v in found["variants"]
        for w in ("2.6 times less", "4 times longer")
        if w in v["changes"]
    }
    assert all(gain["changes"] for gain in found["gains"])
    assert all(
        run["path_messages"] == sum(run[f"path_{t}_messages"] for t in TIERS[1:])
        for run in found["runs"]
    )


def test_no_run_is_replayed_twice(laplace: Supernodes, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(*words: object, **more: object) -> Run:
        calls.append(1)
        return solve(*words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("turnbuckle.papers.models.dag.question.solve", counted)
    sweep(laplace, fabric(), [1])
    assert len(calls) == 1
    sweep(laplace, fabric(), [1], merged=4)
    assert len(calls) == 3


REFUSED: tuple[dict[str, object], ...] = (
    {"gpus": []},
    {"gpus": [0, 1]},
    {"gpus": [65537]},
    {"layout": "3d"},
    {"merged": 0},
    {"dependency": -1.0},
    {"dependency": float("nan")},
    {"owner": np.zeros(3, dtype=np.int64)},
    {"owner": np.full(5, -1)},
)


@pytest.mark.parametrize("asked", REFUSED, ids=str)
def test_questions_that_cannot_be(asked: dict[str, object]) -> None:
    refused("A043", sweep, chain(5), fabric(), **asked)


@pytest.mark.parametrize("factor", [0.5, float("nan"), float("inf")])
def test_changes_that_cannot_be(factor: float) -> None:
    for pair in ((factor, 4.0), (2.6, factor)):
        refused("A043", variants, *pair)


def test_messages_over_an_unknown_tier() -> None:
    machine = replace(SMALL, tiers={"node": SMALL.tiers["node"]})
    assert sweep(chain(9), machine, [4]).runs
    refused("A156", sweep, chain(9), machine, [8])


def test_too_large_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    found = chain(9)
    assert found.levels == 9
    monkeypatch.setattr("turnbuckle.papers.models.dag.tasks.LARGEST_GRAPH", 10)
    refused("A157", work, found, Dealt.on_grid(2), SMALL)


def test_tiers_of_edges() -> None:
    done = work(chain(9), Dealt.on_grid(8, "columns"), SMALL)
    assert done.tier.tolist() == [SOCKET, NODE, SOCKET, NETWORK, SOCKET, NODE, SOCKET, NETWORK]
    assert not (done.tier == SAME).any()


def test_equally_fast_the_fewest_gpus_win() -> None:
    # one dense supernode lies on one GPU, however many there are
    dense = supernodes(triangle_of(sp.csc_array(np.tril(np.ones((5, 5))))))
    answer = sweep(dense, fabric(), [1, 2, 12])
    assert len({run.seconds for run in answer.runs if run.what != "super-GPU"}) == 1
    assert {answer.best(what).gpus for what in VARIANTS[:3]} == {1}


def test_a_super_gpu_draws_more_without_any_message() -> None:
    dense = supernodes(triangle_of(sp.csc_array(np.tril(np.ones((5, 5))))))
    runs = {run.what: run for run in sweep(dense, fabric(), [12]).runs}
    assert runs["super-GPU"].all_messages == 0
    assert runs["super-GPU"].seconds == pytest.approx(runs["as is"].seconds / 2, rel=1e-9), (
        "two nodes are merged"
    )


def test_the_answer_in_one_sentence(laplace: Supernodes) -> None:
    one = sweep(laplace, fabric("summit-v100"), [4])
    assert one.sentence() == f"matrix: {show(one.best().seconds, 's')} on 4 GPUs"
    assert "fastest on 1 GPU, " in sweep(laplace, fabric("summit-v100"), [1, 2]).sentence()
    apart = supernodes(triangle_of(sp.eye_array(24_000, format="csc")))
    answer = sweep(apart, replace(SMALL, low=1.0), [2, 4, 8], "columns")
    time = show(answer.best().seconds, "s")
    assert (
        answer.sentence()
        == f"matrix: fastest on 8 GPUs, the most that were tried, {time}: 4 times as fast as on 2"
    )
    more = sweep(apart, replace(SMALL, low=1.0), [1, 590, 600, 610], "columns")
    assert (
        more.sentence().endswith(": 600 times as fast as on 1; 590 GPUs come within 5%")
        and "fastest on 600 GPUs, " in more.sentence()
    )
