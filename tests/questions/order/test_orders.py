"""What several runs say about order: the estimate of false dependencies, levels, and the replay
with the order found.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from refusals import refused

import turnbuckle as tb
from turnbuckle.questions.order.poset import Runs, clocks, covers, ranks
from turnbuckle.questions.order.question import Order, at_distance, false_share, order, survival


def test_survival_falls_with_runs_and_with_evenness() -> None:
    q = np.linspace(0.5, 1.0, 11)
    for runs in (2, 3, 8):
        assert (np.diff(survival(q, runs)) > 0).all()
        assert (survival(q, runs + 1) <= survival(q, runs)).all()
    assert survival(1.0, 7) == 1.0


def test_a_mixed_preference_survives_as_its_integral() -> None:
    """q uniform between 0.5 and 1: the mean of q^R + (1-q)^R is 2 / (R + 1)."""
    preference = np.random.default_rng(1).uniform(0.5, 1.0, 200_000)
    shares = [float(survival(preference, runs).mean()) for runs in (4, 16, 32)]
    assert shares == pytest.approx([2 / 5, 2 / 17, 2 / 33], rel=0.02)


@pytest.mark.parametrize("runs", [3, 5])
def test_false_dependencies_are_estimated(runs: int) -> None:
    """Many pairs of tracks, some with a true wait, the others free: the estimate from refutations
    finds the share of false ones.
    """
    random = np.random.default_rng(runs)
    pairs, true = 6000, 2000
    first = random.random((runs, pairs)) < 0.5
    first[:, :true] = True
    alive = first.all(0) | ~first.any(0)
    wrong = alive[true:].sum() / alive.sum()
    refuted = []
    for out in range(runs):
        others = np.delete(first, out, axis=0)
        held = others.all(0) | ~others.any(0)
        refuted.append((held & (others[0] != first[out])).sum() / held.sum())
    assert float(false_share(np.mean(refuted), 0.5, runs)) == pytest.approx(wrong, rel=0.08)


def test_levels_of_a_fork_and_join() -> None:
    """Track 0: a then d; tracks 1 and 2: b, c between them."""
    times = np.array([[0, 10, 40, 50, 11, 20, 12, 30], [0, 10, 60, 70, 15, 50, 11, 20]])
    runs = Runs(
        np.array([0, 0, 1, 2]),
        ("x", "y", "z"),
        tuple("adbc"),
        np.tile(np.arange(4), (2, 1)),
        times,
        np.zeros(2, np.int64),
        0,
    )
    clock = clocks(runs.chain, ranks(runs))
    found = Order(runs, clock, *covers(runs.chain, clock), np.zeros(2), 0.5, ())
    assert found.levels.tolist() == [1, 2, 1]


def runs_of(times: np.ndarray, streams: list[int], kinds: str = "k") -> Order:
    """Activities on streams of one device, in order of stream; begin and end of each, one row a run
    [ns].
    """
    count = len(streams)
    tracks = tuple(f"rank 0 device 0 stream {n}" for n in range(max(streams) + 1))
    what = tuple({"k": "kernel", "c": "copy_h2d"}[kind] for kind in (kinds * count)[:count])
    names = tuple(f"kernel {i % 3}" for i in range(count))
    runs = Runs(
        np.array(streams),
        tracks,
        names,
        np.tile(np.arange(count), (len(times), 1)),
        times,
        np.zeros(len(times), np.int64),
        0,
        what,
    )
    clock = clocks(runs.chain, ranks(runs))
    return Order(runs, clock, *covers(runs.chain, clock), np.zeros(len(times)), 0.5, ())


def test_kernels_that_may_run_at_once() -> None:
    """Streams 1 and 2 between a fork and a join on stream 0: in each run one came first, and both
    may run at once.
    """
    found = runs_of(
        np.array([[0, 10, 60, 70, 11, 31, 32, 52], [0, 10, 60, 70, 35, 55, 11, 31]]), [0, 0, 1, 2]
    ).at_once
    assert found.beside.tolist() == [False, False, True, True] and (found.least, found.most) == (
        2,
        2,
    )
    assert found.pairs == (
        ("kernel 2", "rank 0 device 0 stream 1", "kernel 0", "rank 0 device 0 stream 2", 1),
    )
    # 60 ns of kernels, of which a chain of 10, 20 and 10 must follow each other
    assert found.chain_seconds == pytest.approx(40e-9) and found.second_share == pytest.approx(
        1 / 3
    )
    assert found.words() == [
        (
            "2 of 4 kernels may run beside one of another stream, 2 at once: rank 0 device 0 "
            "stream 1, rank 0 device 0 stream 2."
        ),
        (
            "A second device could save 33% of the kernels' 60 ns at most: their longest chain "
            "takes 40 ns."
        ),
    ]


def test_kernels_in_one_chain_need_no_second_device() -> None:
    """The same two streams, where the second always waits for the first; and one stream alone."""
    chained = runs_of(
        np.array([[0, 10, 60, 70, 11, 31, 32, 52], [0, 10, 60, 70, 12, 30, 35, 55]]), [0, 0, 1, 2]
    ).at_once
    assert (
        not chained.beside.any()
        and chained.pairs == ()
        and chained.second_share == pytest.approx(0)
    )
    assert chained.words() == [
        (
            "The 4 kernels run on 3 streams, and none may run beside another: each ended before "
            "the next began, in every recording."
        ),
        "A second device would not be used: the kernels stand in one chain.",
    ]
    alone = runs_of(np.array([[0, 10, 20, 30], [0, 5, 6, 9]]), [0, 0]).at_once
    assert alone.second_device_used is False and alone.most == 1
    none = runs_of(np.array([[0, 10, 20, 30], [0, 5, 6, 9]]), [0, 0], "c").at_once
    assert none.second_share is None and "it is unknown" in none.words()[0]


@pytest.mark.parametrize("seed", range(5))
def test_pairs_at_once_are_those_of_the_definition(seed: int) -> None:
    """Every pair looked at by itself: at once where neither ends before the other begins in all
    runs.
    """
    random = np.random.default_rng(seed)
    streams = np.sort(random.integers(0, 4, 40)).tolist()
    times = []
    for _ in range(3):
        rows = [
            np.sort(random.choice(400, 2 * streams.count(n), replace=False))
            for n in sorted(set(streams))
        ]
        times.append(np.concatenate(rows) * 4 + np.repeat(streams, 2))
    made = runs_of(np.array(times), streams, "kkkc")
    found, placed = made.at_once, ranks(made.runs)
    kernel = [i for i, kind in enumerate(made.runs.kinds) if kind == "kernel"]
    expected = {i: 0 for i in kernel}
    for i in kernel:
        for j in kernel:
            apart = (placed[:, 2 * i + 1] < placed[:, 2 * j]).all() or (
                placed[:, 2 * j + 1] < placed[:, 2 * i]
            ).all()
            expected[i] += streams[i] != streams[j] and not apart
    assert found.beside.tolist() == [expected[i] > 0 for i in kernel]
    assert sum(pair[4] for pair in found.pairs) * 2 == sum(expected.values()) > 0
    assert found.least <= found.most <= 4


def test_nothing_refuted_nothing_false() -> None:
    assert float(false_share(0.0, 0.5, 4)) == 0.0
    assert float(false_share(1.0, 0.5, 2)) == 1.0


def test_a_program_in_three_runs(shared: Path) -> None:
    """Fifteen streams of one program at three sizes."""
    folder = shared / "traces" / "nsys"
    seen = [tb.read(next((folder / f"extrap_concurrent_s{k}").glob("*.sqlite"))) for k in (1, 2, 4)]
    found = order([s.profile for s in seen])
    assert len(found.runs) == 243 and len(found.runs.tracks) == 16
    assert found.runs.disordered == 0 and (found.runs.unmatched == 0).all()
    assert found.refuted.max() > 0.05, "sizes move streams against each other"
    assert found.levels.sum() == 243
    assert found.table().height == len(found.source)
    for s in (0.0, 1e-5):
        rules, both = at_distance(seen[0], found, s)
        assert both >= rules
    assert at_distance(seen[0], found, 0.0) == pytest.approx(
        (seen[0].profile.seconds,) * 2, rel=1e-12
    )


def test_two_programs_are_refused(shared: Path) -> None:
    folder = shared / "traces" / "nsys"
    both = [
        tb.read(next((folder / n).glob("*.sqlite"))).profile
        for n in ("jacobi_gh200", "extrap_con_kernel")
    ]
    refused("A163", order, both)
