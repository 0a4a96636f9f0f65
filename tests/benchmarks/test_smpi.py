"""SimGrid as an oracle: its archived traces, replayed by `flow` on its platform, end when its own
replay ends.
"""

from __future__ import annotations

import sys
import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from turnbuckle.mpi.replay.messages import Traffic
from turnbuckle.replay.contention.network_file import read_network

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "benchmarks")]

import smpi  # type: ignore[import-not-found]  # noqa: E402

#: End of SimGrid 3.32's replay [s], by ranks and whether its factors are on.
ENDS = {(64, True): 0.004154, (256, True): 0.015712, (64, False): 0.002777}


@pytest.fixture(scope="module")
def traffic(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Traffic]:
    """The archived trace of a number of ranks, read once."""

    @cache
    def of(ranks: int) -> Traffic:
        folder = tmp_path_factory.mktemp("archived")
        with tarfile.open(
            shared / "traces" / "simgrid-local" / f"halo-{ranks}-ti.tar.xz"
        ) as packed:
            packed.extractall(folder, filter="data")
        return smpi.read(folder / f"ti{ranks}.txt")

    return of


@pytest.mark.parametrize(("ranks", "factors"), ENDS)
def test_the_end_is_simgrids(traffic: Callable[[int], Traffic], ranks: int, factors: bool) -> None:
    """The aim is 5 %; what remains is what crosstraffic does, which is taken off all links
    alike.
    """
    one = smpi.replayed(traffic(ranks), factors=factors)
    assert one.own == 200 * ranks and one.traffic.ranks == ranks
    assert one.done.seconds == pytest.approx(ENDS[ranks, factors], rel=1e-3)


def test_the_factors_are_needed(
    traffic: Callable[[int], Traffic], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rule moves the end: without one of them it is another run's."""
    ends = []
    for name, value in (
        ("BACKBONE", 1e13),
        ("ENVELOPE_BYTES", 0),
        ("HOP_SECONDS", 0.0),
        ("BANDWIDTH_FACTOR", {0: 1.0}),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(smpi, name, value)
            ends.append(smpi.replayed(traffic(64), factors=True).done.seconds)
    assert max(ends) < 0.999 * ENDS[64, True]


def test_a_ping_pong_by_hand(tmp_path: Path) -> None:
    """512 B there and back: 7.10952 us a way in SimGrid 3.32 with its factors, 3.4224 us
    without.
    """
    lines = (
        "0 init\n0 send 1 0 64 0\n0 recv 1 0 64 0\n",
        "1 init\n1 recv 0 0 64 0\n1 send 0 0 64 0\n",
    )
    for rank, text in enumerate(lines):
        (tmp_path / f"{rank}.txt").write_text(text)
    (tmp_path / "a").write_text("0.txt\n1.txt\n")
    for factors, way in ((True, 7.10952e-6), (False, 3.4224e-6)):
        one = smpi.replayed(smpi.read(tmp_path / "a"), factors=factors, traced=True)
        # crosstraffic has nobody to meet here; sizes are whole bytes
        rest = 0.05 * 528 / (smpi.LINK * 0.338112) if factors else 0.0
        assert one.done.seconds == pytest.approx(2 * (way + rest), abs=1e-9)
        times = smpi.exchanges(one)
        assert times[0, 1].tolist() == [[0.0, pytest.approx(way + rest, abs=1e-9)]]


def test_how_messages_are_compared() -> None:
    ours = {(0, 1): np.array([[0.0, 1.0], [2.0, 4.0]]), (1, 0): np.array([[0.0, 4.0]])}
    theirs = {pair: times + np.array([1.0, 1.5]) for pair, times in ours.items()}
    found = smpi.compared(ours, theirs)
    assert found["messages"] == 3 and found["correlation"] == pytest.approx(1.0)
    assert (found["median"], found["most"]) == pytest.approx((0.5, 0.5)) and found[
        "theirs"
    ] - found["ours"] == pytest.approx(0.5)


def test_without_simgrid_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smpi.shutil, "which", lambda _: None)
    assert "not installed" in smpi.simgrid(tmp_path / "a", 2, factors=True)


def test_the_platform_is_what_the_traces_were_made_on(shared: Path) -> None:
    text = (shared / "traces" / "simgrid-local" / "cluster-64.xml").read_text(encoding="utf-8")
    for words in ('radical="0-63"', 'speed="1Gf"', 'lat="1us"', 'bb_lat="1us"'):
        assert words in text and words in smpi.platform(64)
    seen, ours = (
        read_network(str(shared / "traces" / "simgrid-local" / "cluster-64.xml")),
        smpi.network(64, latency=1.0, cross=0.0),
    )
    for name in ("bandwidth", "hop_seconds", "shape", "node", "backbone"):
        assert getattr(seen, name) == getattr(ours, name)
    assert seen.nodes == ours.hosts
    assert (
        'bw="1.25GBps"' in text
        and smpi.LINK == 1.25e9
        and 'bb_bw="10GBps"' in text
        and smpi.BACKBONE == 10e9
    )
