"""The standard workload is what its definition says, its replay is the closed form, and the bench
judges by the figures.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from turnbuckle.replay.contention.contention import Fidelity, Leaves, Op, replay

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "benchmarks")]

import contention  # type: ignore[import-not-found]  # noqa: E402
import halo  # type: ignore[import-not-found]  # noqa: E402

RANKS = [64, 256, 1024]


@pytest.mark.parametrize(
    ("ranks", "full", "short"),
    [(64, 998_400, 99_840), (256, 1_003_520, 100_352), (1024, 1_048_576, 98_304)],
)
def test_lengths_are_those_of_the_definition(ranks: int, full: int, short: int) -> None:
    each = ranks * (6 + halo.steps(ranks))
    assert (halo.FULL[ranks] * each, halo.SHORT[ranks] * each) == (full, short)
    assert len(halo.program(ranks, 2).source) == 2 * each


@pytest.mark.parametrize("ranks", RANKS)
def test_neighbours_on_the_periodic_grid(ranks: int) -> None:
    """By the formula rank = x + nx (y + ny z), one rank at a time."""
    nx, ny, nz = halo.GRIDS[ranks]
    found = halo.targets(ranks)
    for rank in range(0, ranks, 7):
        x, y, z = rank % nx, rank // nx % ny, rank // (nx * ny)
        around = [
            (x - 1, y, z),
            (x + 1, y, z),
            (x, y - 1, z),
            (x, y + 1, z),
            (x, y, z - 1),
            (x, y, z + 1),
        ]
        faces = [a % nx + nx * (b % ny + ny * (c % nz)) for a, b, c in around]
        assert found[rank].tolist() == faces + [rank ^ (1 << k) for k in range(halo.steps(ranks))]


@pytest.mark.parametrize("ranks", RANKS)
def test_what_is_sent_is_received_by_whom_it_is_sent_to(ranks: int) -> None:
    one = halo.program(ranks, 2)
    owner = np.repeat(np.arange(ranks), np.diff(one.first))
    for op, end in (
        (Op.SEND, one.source),
        (Op.SENT, one.source),
        (Op.POST, one.target),
        (Op.AWAIT, one.target),
    ):
        chosen = one.code == op
        assert np.array_equal(np.sort(one.arg[chosen]), np.arange(len(one.source))), (
            "every message once"
        )
        assert np.array_equal(end[one.arg[chosen]], owner[chosen])
    faces = one.size_bytes == 100_000
    assert np.array_equal(np.unique(one.size_bytes), [8, 100_000]) and faces.sum() == 2 * 6 * ranks
    assert (one.leaves[faces] == Leaves.READY).all() and (one.leaves[~faces] == Leaves.EAGER).all()
    assert not np.array_equal(one.source, one.target) and (one.source != one.target).all()


@pytest.mark.parametrize(
    "eager_bytes", [halo.EAGER_BYTES, halo.FACE_BYTES], ids=["rendezvous", "eager"]
)
@pytest.mark.parametrize(("ranks", "iterations"), [(64, 10), (256, 10), (1024, 4)])
def test_without_congestion_an_iteration_is_its_closed_form(
    ranks: int, iterations: int, eager_bytes: int
) -> None:
    """All ranks are alike and post as soon as they send: a rendezvous waits for nobody, and nobody
    gets out of step.
    """
    found = replay(halo.program(ranks, iterations, eager_bytes), halo.network(ranks), "logp")
    assert found.seconds / iterations - 1e-3 == pytest.approx(halo.closed_seconds(ranks), abs=1e-11)
    assert np.ptp(found.ends) == 0.0


@pytest.mark.parametrize("ranks", RANKS)
def test_on_one_switch_flows_share_the_card_alone(ranks: int) -> None:
    """Without overheads: 600 kB over one link, its latency, and the small exchanges."""
    found = replay(halo.program(ranks, 3), halo.network(ranks, 0.0, switch=True), "flow")
    one = 600_000 / 12.5e9 + 1e-6 + halo.steps(ranks) * (1e-6 + 8 / 12.5e9)
    assert found.seconds / 3 - 1e-3 == pytest.approx(one, abs=1e-10)


def test_the_text_for_simgrid_is_the_same_traffic() -> None:
    one, iterations = halo.program(64, 2), 2
    sends = {
        (m // (64 * 12), r, t, s)
        for m, (r, t, s) in enumerate(zip(one.source, one.target, one.size_bytes, strict=True))
    }
    seen: set[tuple[int, ...]] = set()
    received: set[tuple[int, ...]] = set()
    for rank, text in enumerate(halo.lines(64, iterations)):
        words = [line.split() for line in text.splitlines()]
        assert {word[0] for word in words} == {str(rank)}
        assert [word[1] for word in words][:2] == ["init", "compute"] and words[-1][1] == "finalize"
        iteration = -1
        for _, do, *rest in words:
            iteration += do == "compute"
            if do in ("isend", "irecv"):
                other, tag, size, kind = (int(value) for value in rest)
                assert kind == 6
                ends = (rank, other) if do == "isend" else (other, rank)
                (seen if do == "isend" else received).add((iteration, *ends, tag, size))
    assert seen == received, "both ends name the same partner, tag and size"
    assert {(i, a, b, float(size)) for i, a, b, _, size in seen} == sends and len(seen) == len(
        one.source
    )


def sample(ranks: int, name: str, cpu: float, microseconds: float) -> dict[str, Any]:
    """A row of a million messages in a hundred iterations."""
    seconds = 100 * (1e-3 + microseconds * 1e-6)
    row = {
        "ranks": ranks,
        "name": name,
        "iterations": 100,
        "messages": 1_000_000,
        "cpu": [cpu],
        "seconds": seconds,
    }
    return row | {
        "events": 4_000_000,
        "imported": 30_000_000,
        "loaded": 70_000_000,
        "peak": 90_000_000,
    }


def test_aims_are_judged_by_the_figures() -> None:
    rows = [
        sample(64, "logp", 0.2, 62.0),
        sample(64, "flow", 2.0, 61.0),
        {"ranks": 64, "name": "SimPy", "messages": 1, "missing": "no SimPy"},
    ]
    rows += [sample(64, "flow, ragged", 10.0, 70.0), sample(64, "SimGrid, ragged", 30.0, 70.0)]
    compared = {"ranks": 64, "switch": True, "spread": 0.0, "overhead": 0.0, "ours": 1e-3 + 55e-6}
    result = {
        "rows": rows,
        "instructions": [],
        "oracle": [compared | {"theirs": 1e-3 + 50e-6}, compared | {"missing": "no SimGrid"}],
    }
    said = contention.targets(result)
    assert [met for met, _ in said] == [True, True, False, False, True, True, True, False]
    assert "5.00 M" in said[0][1] and "0.50 M" in said[2][1] and "3.0x of SimGrid" in said[5][1]
    assert "90 MB, of it 20 beyond" in said[6][1] and "10.00%" in said[7][1]
    shown = contention.table(result)
    assert "no SimPy" in shown and "no SimGrid" in shown
    assert contention.targets({"missing": "why"}) == [(False, "contention was not measured: why")]


def test_what_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "simpy", None)
    assert "smpirun is not installed" in contention.simgrid(64, 1)["missing"]
    assert "SimPy is not installed" in contention.simpy(64, 1)["missing"]
    assert contention.instructions(64, "logp") == "valgrind is not installed"


def test_ranks_out_of_step_are_the_same_in_both_forms() -> None:
    work = halo.work_seconds(64, 10e-6)
    assert work.min() == 1e-3 and 1.009e-3 < work.max() < 1.010e-3 and len(np.unique(work)) == 64
    one = halo.program(64, 2, spread_seconds=10e-6)
    owner = np.repeat(np.arange(64), np.diff(one.first))
    chosen = one.code == Op.WORK
    assert np.array_equal(one.work_seconds[one.arg[chosen]], work[owner[chosen]])
    told = [
        float(line.split()[2])
        for text in halo.lines(64, 1, 10e-6)
        for line in text.splitlines()
        if " compute " in line
    ]
    assert told == pytest.approx((work * 1e9).tolist(), abs=1e-6)


@pytest.mark.parametrize("fidelity", ["logp", "flow"])
def test_a_fresh_process_finds_the_same(tmp_path: Path, fidelity: Fidelity) -> None:
    one = halo.program(64, 2)
    contention.save(one, tmp_path)
    row = contention.own(64, 2, fidelity, 1, tmp_path)
    known = replay(one, halo.network(64), fidelity)
    assert (row["seconds"], row["events"]) == (known.seconds, known.events)
    assert row["peak"] >= row["loaded"] > 0 and len(row["cpu"]) == 1


def test_simpy_finds_the_same() -> None:
    row = contention.simpy(64, 3)
    assert row["seconds"] / 3 - 1e-3 == pytest.approx(halo.closed_seconds(64), abs=1e-11)
