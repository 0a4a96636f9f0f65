"""The GPUDirect study: message times against closed forms, links against bytes, verdicts, and what
cannot be asked.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.mpi.questions.gpudirect.cost import (
    PHYSICS,
    SEED_G,
    break_even_bytes,
    gpudirect_seconds,
    hostcopy_seconds,
)
from turnbuckle.mpi.questions.gpudirect.question import (
    FULL,
    downsampled,
    refuse_varied,
    run_time_slopes,
    study,
)
from turnbuckle.mpi.questions.messages.link_use import link_use
from turnbuckle.mpi.questions.messages.question import replayed
from turnbuckle.mpi.questions.messages.setup import Path, Setup
from turnbuckle.mpi.questions.messages.times import (
    MessageTimes,
    alone_seconds,
    crossover,
    message_times,
)
from turnbuckle.mpi.replay.messages import Messages, Traffic

#: Sizes on both sides of the paper's break-even.
SIZES = (100.0, 5_000.0, 20_000.0, 40_000.0, 300_000.0)
PAPER = Setup(costs="seed_G")


def sent(
    pairs: list[tuple[int, int]], sizes: list[float], gap: float = 1e-3, late: float = 0.0
) -> Traffic:
    """Messages one after the other: both ends compute before each, the receiver `late` longer."""
    ranks = 1 + max(max(p) for p in pairs)
    calls = sorted(
        (rank, k, side) for k, pair in enumerate(pairs) for side, rank in enumerate(pair)
    )
    where = {(k, side): n for n, (_, k, side) in enumerate(calls)}
    send, receive = (np.array([where[k, side] for k in range(len(pairs))]) for side in (0, 1))
    none = np.full(len(pairs), -1)
    messages = Messages(send, none, receive, receive, none, np.array(sizes))
    gaps = np.array([gap + late * side for _, _, side in calls])
    return Traffic(
        ranks,
        np.array([r for r, _, _ in calls]),
        gaps,
        np.zeros(len(calls)),
        np.zeros(ranks),
        messages,
        (),
        1.0,
        0,
    )


def times(traffic: Traffic, setup: Setup, path: Path) -> MessageTimes:
    asked = replace(setup, path=path)
    return message_times(traffic, asked, replayed(traffic, asked, traced=True))


@pytest.mark.parametrize(("costs", "paid"), [("seed_G", SEED_G), ("physics", PHYSICS)])
@pytest.mark.parametrize("late", [0.0, 5e-3])
@pytest.mark.parametrize("each", [1, 2])
def test_a_message_takes_what_the_closed_form_says_however_late_its_receiver(
    costs: str, paid: object, late: float, each: int
) -> None:
    setup = Setup(costs=costs, ranks_per_node=each)  # type: ignore[arg-type]
    traffic = sent([(0, 1)] * len(SIZES), list(SIZES), late=late)
    host, direct = (times(traffic, setup, path) for path in ("hostcopy", "gpudirect"))
    for found, closed, wire in (
        (host, hostcopy_seconds, "host"),
        (direct, gpudirect_seconds, "gpudirect"),
    ):
        alone = np.array([alone_seconds(setup, wire, n, between=each == 1) for n in SIZES])  # type: ignore[arg-type]
        expected = closed(np.array(SIZES), alone, paid)  # type: ignore[arg-type]
        if costs == "physics" and found is direct:
            # each size is a buffer of its own, pinned once
            expected = expected + PHYSICS.pin_seconds
        assert found.seconds == pytest.approx(expected, rel=1e-9, abs=2e-12)
        assert (found.between == (each == 1)).all()
    rest = direct.elapsed_seconds - direct.seconds
    assert (rest >= -1e-12).all() and (rest.max() > 1e-3) == (late > 0), (
        "waiting is in the time that passes, and only there"
    )


def test_the_replay_crosses_over_where_the_closed_form_does() -> None:
    found = study(sent([(0, 1)] * len(SIZES), list(SIZES)), PAPER, ranks_per_node=[1, 2])
    edge = found.crossover(1)
    assert edge is not None and edge.size_bytes == pytest.approx(break_even_bytes(SEED_G), rel=1e-6)
    assert (edge.below_bytes, edge.above_bytes) == (
        20_000.0,
        40_000.0,
    ) and edge.in_words == "at 28.6 kB"
    assert [c.faster for c in found.classes(1)] == ["host copies"] * 3 + ["GPUDirect"] * 2
    assert all(c.speedup == pytest.approx(c.alone_speedup, rel=1e-6, abs=1e-9) for c in found.sizes)
    assert found.crossover(2) is None and len(found.classes(2, between=False)) == 5
    assert "cross over at 28.6 kB (closed form: 28.6 kB)" in found.verdict


def test_a_crossover_is_from_where_on_it_stays_so() -> None:
    found = study(sent([(0, 1)] * 3, [20_000.0, 40_000.0, 300_000.0]), PAPER, ranks_per_node=[1])
    a, b, c = found.classes(1)
    assert crossover([b, c]).size_bytes == 0 and math.isinf(crossover([a]).size_bytes)
    slow = replace(c, gpudirect_seconds=1.0)
    assert math.isinf(crossover([b, slow]).size_bytes) and math.isinf(
        crossover([a, b, slow]).size_bytes
    )
    far = crossover([replace(a, size_bytes=1e3), c])
    assert far.in_words == "between 1 kB and 300 kB, where this run has no messages"


def test_chunks_overlap_and_buffers_in_host_memory_are_left_out() -> None:
    traffic = sent([(0, 1), (0, 1)], [1e6, 100.0])
    whole, cut = (
        times(traffic, replace(PAPER, chunk_bytes=c), "hostcopy") for c in (0.0, 65_536.0)
    )
    assert cut.size_bytes.tolist() == whole.size_bytes.tolist() == [1e6, 100.0]
    assert cut.seconds[0] < 0.95 * whole.seconds[0] and cut.seconds[1] == pytest.approx(
        whole.seconds[1]
    )
    some = times(
        traffic,
        replace(PAPER, buffers="host if size < 1 kB; device", chunk_bytes=65_536.0),
        "hostcopy",
    )
    assert some.size_bytes.tolist() == [1e6] and some.seconds[0] == pytest.approx(
        cut.seconds[0], rel=1e-3
    )


def test_links_carry_the_bytes_and_cards_fill_up() -> None:
    """Two nodes: all ranks of the first send to those of the second at once, and compute little."""

    def share(each: int, size: float) -> float:
        traffic = sent([(k, each + k) for k in range(each)], [size] * each, gap=1e-5)
        setup = replace(PAPER, ranks_per_node=each, path="gpudirect")
        found = replayed(traffic, setup, traced=True)
        used = link_use(found, 2 * each)
        assert (
            used is not None
            and used.classes[:2] == ("card out", "card in")
            and used.busy.shape[1] == 2
        )
        out, into = used.busy[0], used.busy[1]
        assert out[1] == into[0] == 0 and out[0] == into[1]
        assert out[0] * found.row.seconds == pytest.approx(each * size / 12.5e9, rel=1e-9), (
            "every byte leaves by the card"
        )
        assert found.row.busiest_share == pytest.approx(out[0]) and "share" not in used.classes
        wire = each * size / 12.5e9
        assert used.in_communication[0] == pytest.approx(wire / (wire + 1.5e-6), rel=1e-6), (
            "an overhead, and a latency of two links"
        )
        return float(used.in_communication.max())

    shares = [share(each, 5e4) for each in (1, 2, 4, 8)]
    assert shares == sorted(shares) and shares[0] < FULL < shares[-1]
    pairs = [(k, 8 + k) for k in range(8)]
    found = study(sent(pairs, [5e4] * 8, gap=1e-5), PAPER, ranks_per_node=[1, 2, 4, 8])
    full = {(s.path, s.per): s for s in found.saturations()}
    shares = [
        used.in_communication.max()
        for n in (1, 2, 4, 8)
        if (used := found.case(n, "gpudirect").links)
    ]
    assert shares[0] < FULL < shares[1] and full["gpudirect", "node"].ranks_per_node == 2, (
        "the smallest shape whose card is full"
    )
    assert (
        full["gpudirect", "node"].largest == pytest.approx(max(shares))
        and full["gpudirect", "gpu"].ranks_per_node is None
    )
    assert (
        link_use(replayed(sent(pairs, [1e5] * 8), replace(PAPER, fidelity="logp"), traced=True), 16)
        is None
    )


def test_a_node_communicates_while_a_rank_does_not_compute_or_a_message_is_on_its_way() -> None:
    """Rank 0 computes 1 ms and sends 1 MB, which takes 81 us; rank 1 computes 3 ms and receives;
    rank 2 only computes, for 4 ms.
    """
    traffic = sent([(0, 1)], [1e6], gap=1e-3, late=2e-3)
    traffic = replace(traffic, ranks=3, tail_seconds=np.array([0.0, 0.0, 4e-3]))
    setup = Setup(path="host", overhead_seconds=0.0, eager_limit_bytes=1e9)
    apart, together = (
        replayed(traffic, replace(setup, ranks_per_node=n), traced=True) for n in (1, 2)
    )
    used = link_use(apart, 3)
    assert used is not None and used.in_communication == pytest.approx([80 / 81, 80 / 81, 0.0]), (
        "a link's latency comes first"
    )
    assert used.busy[0] == pytest.approx([80e-6 / 4e-3, 0.0, 0.0])
    alone = link_use(together, 3)
    assert alone is not None and alone.in_communication.tolist() == [0.0, 0.0], (
        "nothing went over a card"
    )
    waiting = replayed(
        sent([(0, 1)], [1e6], gap=3e-3, late=-2e-3), replace(setup, ranks_per_node=1), traced=True
    )
    late = link_use(waiting, 2)
    assert late is not None and late.in_communication == pytest.approx([80 / 81, 80 / 2081]), (
        "the receiver waits for 2 ms"
    )


@pytest.mark.parametrize(("size", "word"), [(1e6, "helps"), (64.0, "does not help")])
def test_the_verdict_is_about_the_communication_of_the_run(size: float, word: str) -> None:
    known = replace(
        PAPER, pinned="each", copy_seconds=2e-6, copy_bandwidth=1 / 0.07e-9, pin_seconds=4e-6
    )
    found = study(sent([(0, 1), (1, 0)] * 3, [size] * 6, gap=1e-6), known, ranks_per_node=[1, 2])
    assert found.word == word and found.verdict.startswith(
        f"GPUDirect {word}: by host copies communication is "
    )
    assert ("longer than by GPUDirect" in found.verdict) == (word == "helps")
    assert 0 < found.copies_share < 1 and 0 < found.without_copies < 1
    assert (
        found.case(1, "hostcopy").row.chain_copies_seconds
        > found.case(1, "gpudirect").row.chain_copies_seconds
        == 0
    )


def test_no_difference_is_said_to_be_none() -> None:
    found = study(sent([(0, 1)] * 3, [1e6] * 3), replace(PAPER, buffers="host"), ranks_per_node=[1])
    assert found.word == "makes no difference" and found.sizes == () and found.copies_share == 0
    assert found.verdict.startswith(
        "GPUDirect makes no difference of 1%: by host copies communication is 0.0% longer"
    )


def test_runs_that_get_stuck_have_no_verdict_but_an_answer() -> None:
    """Both ranks send 100 B before they receive: not by GPUDirect."""
    first, then = np.array([0, 2]), np.array([3, 1])
    head_on = Messages(first, first, then, then, np.full(2, -1), np.full(2, 100.0))
    made = Traffic(
        2, np.array([0, 0, 1, 1]), np.zeros(4), np.zeros(4), np.zeros(2), head_on, (), 1.0, 0
    )
    found = study(made, PAPER, ranks_per_node=[1])
    assert found.word == "cannot be told" and "deadlocks" in found.verdict and found.sizes == ()
    assert {path for path, _ in found.slopes} == {"hostcopy"}
    json.dumps(found.as_dict(), default=float)


def test_the_network_as_many_times_as_fast_as_a_node_has_gpus() -> None:
    pairs = [(k, (k + 4) % 8) for k in range(8)]
    found = study(sent(pairs, [1e6] * 8, gap=1e-6), PAPER, ranks_per_node=[1, 4])
    assert [
        (c.row.ranks_per_node, c.per, c.card_bandwidth)
        for c in found.cases
        if c.row.path == "gpudirect"
    ] == [
        (1, "node", 12.5e9),
        (4, "node", 12.5e9),
        (4, "gpu", 50e9),
    ]
    assert found.case(1, "gpudirect", "gpu") is found.case(1, "gpudirect", "node")
    slow, fast = (
        found.case(4, "gpudirect", per).row.communication_seconds for per in ("node", "gpu")
    )
    assert slow > 3 * fast


def test_steps_have_the_sign_that_they_must() -> None:
    traffic = sent([(0, 1), (1, 0)] * 4, [1e6] * 8, gap=1e-4)
    host, direct = (
        run_time_slopes(traffic, replace(PAPER, path=path)) for path in ("hostcopy", "gpudirect")
    )
    assert {n: d.sign for n, d in host.items()} == {
        "card_bandwidth": "falls",
        "hop_seconds": "rises",
        "copy_bandwidth": "falls",
        "compute": "rises",
    }
    assert set(direct) == {"card_bandwidth", "hop_seconds", "compute"}
    assert host["hop_seconds"].slope == pytest.approx(16.0, rel=1e-3), (
        "eight messages over two links each"
    )
    assert (
        run_time_slopes(traffic, replace(PAPER, path="gpudirect", hop_seconds=0.0))[
            "hop_seconds"
        ].sign
        == "rises"
    )


def test_steps_are_left_out_where_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnbuckle.mpi.questions.gpudirect.question.MOST_OPERATIONS", 10)
    assert study(sent([(0, 1)], [1e6]), PAPER, ranks_per_node=[1]).slopes == {}


@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 1000))
def test_groups_of_ranks_keep_all_bytes(ranks: int, most: int, seed: int) -> None:
    matrix = np.random.default_rng(seed).integers(0, 1000, (ranks, ranks)).astype(np.float64)
    told, each = downsampled(matrix, most)
    assert (
        len(told) <= most
        and told.sum() == matrix.sum()
        and told[0, 0] == matrix[:each, :each].sum()
    )


def test_everything_is_told() -> None:
    found = study(sent([(0, 1)] * len(SIZES), list(SIZES)), PAPER, ranks_per_node=[1])
    told = found.as_dict()
    of_run = {"verdict", "said", "copies_share_of_chain", "run_time_share_without_copies"}
    assert set(told) == of_run | {
        "sizes",
        "crossovers",
        "shapes",
        "saturation",
        "traffic",
        "differences",
    }
    assert told["traffic"] == {"ranks_per_cell": 1, "bytes": [[0.0, sum(SIZES)], [0.0, 0.0]]}
    assert told["saturation"]["rule_share"] == 0.8 and told["shapes"][0]["links"]["classes"][
        :2
    ] == ["card out", "card in"]
    assert [c["closed_form_bytes"] for c in told["crossovers"]] == [
        pytest.approx(28571.43, rel=1e-6)
    ]
    json.dumps(told)


@pytest.mark.parametrize("word", ["path=hostcopy", "ranks_per_node = 2"])
def test_what_is_varied_cannot_be_set(word: str) -> None:
    assert "turnbuckle sweep" in refused("A051", refuse_varied, ["taper=1.5", word]).fix
