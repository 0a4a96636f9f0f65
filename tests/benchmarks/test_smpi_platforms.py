"""Platforms of SimGrid as networks: an exchange on them takes what SimGrid 3.32 says; where
`smpirun` is installed, message by message.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from turnbuckle.replay.contention.network import Network
from turnbuckle.replay.contention.network_file import read_network

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "benchmarks")]

import smpi  # type: ignore[import-not-found]  # noqa: E402

RANKS = 16
HEAD = (
    '<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
    '<platform version="4.1">\n'
)
CLUSTER = (
    '<cluster id="c" prefix="node-" suffix="" radical="0-15" speed="1Gf" bw="10Gbps" lat="{lat}" '
    "{more}/>"
)
ZONE = "".join(
    f'<host id="node-{k}" speed="1Gf"/><link id="l{k}" bandwidth="1.25GBps" latency="1000ns" '
    'sharing_policy="SPLITDUPLEX"/>'
    f'<host_link id="node-{k}" up="l{k}_UP" down="l{k}_DOWN"/>'
    for k in range(RANKS)
)
PLATFORMS = {
    "flat": CLUSTER.format(lat="1us", more=""),
    "minutes": CLUSTER.format(lat="0.00001m", more=""),
    "backbone": CLUSTER.format(lat="1us", more='bb_bw="2GBps" bb_lat="3us"'),
    "two levels": CLUSTER.format(
        lat="1us", more='topology="FAT_TREE" topo_parameters="2;4,4;1,2;1,1"'
    ),
    "three levels": CLUSTER.format(
        lat="1us", more='topology="FAT_TREE" topo_parameters="3;2,2,4;1,2,2;1,1,1"'
    ),
    "zone": (
        f'<zone id="z" routing="Cluster">{ZONE}<backbone id="b" bandwidth="2GBps" '
        'latency="3us"/></zone>'
    ),
}

#: Ends of the exchange in SimGrid 3.32, factors off, with messages of 512 B and of 512 KiB [s].
ENDS = {
    "flat": (0.000203, 0.005231),
    "minutes": (0.004995, 0.010023),
    "backbone": (0.000226, 0.050393),
    "two levels": (0.000211, 0.008567),
    "three levels": (0.000219, 0.005264),
    "zone": (0.000226, 0.050393),
}


@pytest.mark.parametrize("name", PLATFORMS)
def test_messages_take_what_simgrid_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    text = f"{HEAD}{PLATFORMS[name]}\n</platform>\n"
    (tmp_path / "platform.xml").write_text(text)
    seen = read_network(str(tmp_path / "platform.xml"))
    assert seen.nodes == RANKS
    monkeypatch.setattr(smpi, "platform", lambda ranks: text)
    network = Network(RANKS, seen.bandwidth, seen.hop_seconds, seen.shape, backbone=seen.backbone)
    monkeypatch.setattr(smpi, "network", lambda ranks, **_: network)
    for doubles, end in zip((64, 65536), ENDS[name], strict=True):
        for rank in range(RANKS):
            lines = ["init"]
            for k in range(4):
                lines.append(f"compute {1e4 * (1 + (7 * rank + k) % 5)}")
                for step in (1, 5, 7):
                    lines += [
                        f"irecv {(rank - step) % RANKS} {step} {doubles} 0",
                        f"isend {(rank + step) % RANKS} {step} {doubles} 0",
                    ]
                lines.append("waitall 6")
            (tmp_path / f"{rank}.txt").write_text(
                "".join(f"{rank} {line}\n" for line in [*lines, "finalize"])
            )
        (tmp_path / "a").write_text("".join(f"{rank}.txt\n" for rank in range(RANKS)))
        one = smpi.replayed(smpi.read(tmp_path / "a"), factors=False, traced=True)
        # SimGrid prints microseconds; long messages that share links are not shared out alike to
        # the last byte
        assert one.done.seconds == pytest.approx(end, abs=5e-7 if doubles == 64 else 0.01 * end)
        if shutil.which("smpirun"):
            ran = smpi.simgrid(tmp_path / "a", RANKS, factors=False)
            assert not isinstance(ran, str), ran
            assert ran[0] == end
            assert doubles > 64 or smpi.compared(smpi.exchanges(one), ran[1])["most"] < 1e-9
