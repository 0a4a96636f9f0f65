"""What several runs say about order: the estimate of false dependencies, levels, and the replay with the order found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import turnbuckle as tb
from turnbuckle.errors import CannotAnswer
from turnbuckle.profile.poset import Runs, clocks, covers, ranks
from turnbuckle.study.orders import Order, at_distance, false_share, order, survival


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
    """Many pairs of tracks, some with a true wait, the others free: the estimate from refutations finds the share of false ones."""
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
    runs = Runs(np.array([0, 0, 1, 2]), ("x", "y", "z"), tuple("adbc"), np.tile(np.arange(4), (2, 1)), times, np.zeros(2, np.int64), 0)
    clock = clocks(runs.chain, ranks(runs))
    found = Order(runs, clock, *covers(runs.chain, clock), np.zeros(2), 0.5, ())
    assert found.levels.tolist() == [1, 2, 1]


def test_nothing_refuted_nothing_false() -> None:
    assert float(false_share(0.0, 0.5, 4)) == 0.0
    assert float(false_share(1.0, 0.5, 2)) == 1.0


def test_a_program_in_three_runs(shared: Path) -> None:
    """Fifteen streams of one program at three sizes."""
    folder = shared / "traces" / "nsys"
    seen = [tb.inspect(next((folder / f"extrap_concurrent_s{k}").glob("*.sqlite"))) for k in (1, 2, 4)]
    found = order([s.profile for s in seen])
    assert len(found.runs) == 243 and len(found.runs.tracks) == 16
    assert found.runs.disordered == 0 and (found.runs.unmatched == 0).all()
    assert found.refuted.max() > 0.05, "sizes move streams against each other"
    assert found.levels.sum() == 243
    assert found.table().height == len(found.source)
    for s in (0.0, 1e-5):
        rules, both = at_distance(seen[0], found, s)
        assert both >= rules
    assert at_distance(seen[0], found, 0.0) == pytest.approx((seen[0].profile.seconds,) * 2, rel=1e-12)


def test_two_programs_are_refused(shared: Path) -> None:
    folder = shared / "traces" / "nsys"
    both = [tb.inspect(next((folder / n).glob("*.sqlite"))).profile for n in ("jacobi_gh200", "extrap_con_kernel")]
    with pytest.raises(CannotAnswer) as refused:
        order(both)
    assert refused.value.code == "A163"
