"""Platforms of SimGrid as networks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.foundation.errors import UsageError
from turnbuckle.mpi.questions.messages.question import paths
from turnbuckle.mpi.questions.messages.setup import Setup, network_of
from turnbuckle.mpi.schedules import read as read_schedule
from turnbuckle.replay.contention.network import Backbone, FatTree
from turnbuckle.replay.contention.network_file import Described, read_network

HEAD = (
    '<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
    '<platform version="4.1">\n'
)
FLAT = '<cluster id="c" prefix="n-" suffix="" radical="0-7" speed="1Gf" bw="10Gbps" lat="1us"/>'
TREE = FLAT.replace("/>", ' topology="FAT_TREE" topo_parameters="2;4,2;1,4;1,1"/>')
STAR = (
    '<zone id="z" routing="Cluster">'
    + "".join(
        f'<host id="h{k}" speed="1Gf"/><link id="l{k}" bandwidth="1.25GBps" latency="1000ns" '
        'sharing_policy="SPLITDUPLEX"/>'
        f'<host_link id="h{k}" up="l{k}_UP" down="l{k}_DOWN"/>'
        for k in range(8)
    )
    + "</zone>"
)
TOML = (
    '[network]\nname = "c"\nnodes = 8\nbandwidth = "10 Gb/s"\nhop = "1 us"\nsource = "the same"\n'
)
TREE_TOML = '[network.shape]\nkind = "fat-tree"\ndown = [4, 2]\nup = [1, 4]\ncables = [1, 1]\n'
BACKBONE = FLAT.replace("/>", ' bb_bw="2GBps" bb_lat="3us"/>')
BACKBONE_TOML = '[network.shape]\nkind = "switch"\nbackbone = "2 GB/s"\nbackbone_latency = "3 us"\n'
BACKBONE_STAR = STAR.replace("</zone>", '<backbone id="b" bandwidth="2GBps" latency="3us"/></zone>')
LOOPBACK_TOML = """[node]
parts = ["host 0"]
cards = ["host 0"]
passes = ["host 0"]
[[node.wires]]
between = ["host 0", "host 0"]
bandwidth = "5 GiB/s"
latency = "0 s"
"""


def platform(folder: Path, inside: str, name: str = "platform.xml") -> str:
    file = folder / name
    file.write_text(f"{HEAD}{inside}\n</platform>\n", encoding="utf-8")
    return str(file)


def numbers(network: Described) -> Described:
    """The network without what is only for people."""
    return replace(network, name="", title="", source="", facts=())


def toml(folder: Path, text: str) -> str:
    file = folder / "same.toml"
    file.write_text(text, encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("inside", "text"),
    [
        (FLAT, TOML),
        (
            f'<zone id="world" routing="Full"><zone id="w" routing="Floyd">{FLAT}</zone></zone>',
            TOML,
        ),
        (STAR, TOML),
        (TREE, TOML + TREE_TOML),
        (FLAT.replace("/>", ' loopback_bw="5GiBps" loopback_lat="0"/>'), TOML + LOOPBACK_TOML),
        (BACKBONE, TOML + BACKBONE_TOML),
        (BACKBONE_STAR, TOML + BACKBONE_TOML),
    ],
)
def test_a_platform_and_a_network_file_of_the_same_numbers_give_the_same_answer(
    tmp_path: Path, inside: str, text: str
) -> None:
    one, other = platform(tmp_path, inside), toml(tmp_path, text)
    assert numbers(read_network(one)) == numbers(read_network(other))
    for rank in range(8):
        lines = ["init"]
        for _ in range(3):
            lines.append("compute 1e5")
            for step in (1, 3):
                lines += [
                    f"irecv {(rank - step) % 8} {step} 131072 1",
                    f"isend {(rank + step) % 8} {step} 131072 1",
                ]
            lines.append("waitall 4")
        (tmp_path / f"rank{rank}.txt").write_text(
            "".join(f"{rank} {line}\n" for line in [*lines, "finalize"])
        )
    (tmp_path / "halo.txt").write_text("".join(f"rank{rank}.txt\n" for rank in range(8)))
    traffic = read_schedule(tmp_path / "halo.txt", flops_per_second=1e12)
    here, there = (
        paths(traffic, Setup(network=name), ranks_per_node=[1, 2]).rows for name in (one, other)
    )
    assert [row.communication_seconds for row in here] == [
        row.communication_seconds for row in there
    ]
    assert min(row.communication_seconds for row in here) > 0


def test_the_archived_platforms_are_read(shared: Path) -> None:
    for hosts in (64, 256):
        seen = read_network(str(shared / "traces" / "simgrid-local" / f"cluster-{hosts}.xml"))
        assert (seen.nodes, seen.bandwidth, seen.hop_seconds, seen.shape) == (
            hosts,
            1.25e9,
            1e-6,
            None,
        )
        assert seen.backbone == Backbone(10e9, 1e-6)


def test_units_are_those_of_simgrid(tmp_path: Path) -> None:
    for bandwidth, latency, meant in (
        ("10Gbps", "1us", (1.25e9, 1e-6)),
        ("125MBps", "50us", (125e6, 50e-6)),
        ("1GiBps", "2ns", (2.0**30, 2e-9)),
        ("1e3kBps", "0", (1e6, 0.0)),
        ("8bps", "1m", (1.0, 60.0)),
    ):
        seen = read_network(
            platform(tmp_path, FLAT.replace("10Gbps", bandwidth).replace("1us", latency))
        )
        assert (seen.bandwidth, seen.hop_seconds) == meant


def test_hosts_are_counted_and_numbers_name_their_line(tmp_path: Path) -> None:
    seen = read_network(platform(tmp_path, FLAT.replace("0-7", "0-3,7,20-29")))
    assert seen.nodes == 15 and seen.shape is None and seen.name == "c"
    assert {fact.source for fact in seen.facts} == {"platform.xml, line 4"}
    tree = read_network(
        platform(tmp_path, TREE.replace("/>", ' loopback_bw="5GBps" loopback_lat="1us"/>'))
    )
    assert tree.shape == FatTree((4, 2), (1, 4), (1, 1))
    assert [fact.what for fact in tree.facts if fact.nature != "cited"] == ["loopback"]


def test_a_backbone_counts_in_the_price_of_a_message_alone(tmp_path: Path) -> None:
    network = network_of(Setup(network=platform(tmp_path, BACKBONE.replace("2GBps", "1GBps"))), 8)
    assert network.latency == pytest.approx(
        2 * 1e-6 + 3e-6
    ) and network.seconds_per_byte == pytest.approx(1e-9)
    other = network_of(Setup(network=platform(tmp_path, BACKBONE), topology="torus"), 8)
    assert other.backbone is None and other.latency == pytest.approx(2e-6)


@pytest.mark.parametrize(
    ("inside", "code", "word"),
    [
        (FLAT.replace("10Gbps", "1.25e9"), "A491", "bw"),
        (FLAT.replace("1us", "1"), "A491", "lat"),
        (FLAT.replace("1us", "1 year"), "A491", "lat"),
        (FLAT.replace("10Gbps", "nanGbps"), "A491", "bw"),
        (FLAT.replace("10Gbps", "1e999Bps"), "A491", "bw"),
        (FLAT.replace("10Gbps", "-1Bps"), "A050", "bandwidth"),
        (FLAT.replace("10Gbps", "0Bps"), "A050", "bandwidth"),
        (FLAT.replace("0-7", ""), "A491", "radical"),
        (FLAT.replace("0-7", "7-0"), "A491", "radical"),
        (FLAT.replace("0-7", "0-99999999"), "A491", "radical"),
        (FLAT.replace("0-7", "0-9" * 99), "A491", "radical"),
        (FLAT.replace("/>", ' limiter_link="1GBps"/>'), "A489", "limiter_link"),
        (FLAT.replace("/>", ' sharing_policy="SHARED"/>'), "A489", "sharing_policy"),
        (FLAT.replace("/>", ' topology="TORUS" topo_parameters="2,4"/>'), "A489", "TORUS"),
        (
            FLAT.replace("/>", ' topology="DRAGONFLY" topo_parameters="2,1;2,1;1,1;2"/>'),
            "A489",
            "DRAGONFLY",
        ),
        (FLAT.replace("/>", '><prop id="watt" value="1"/></cluster>'), "A489", "prop"),
        (FLAT + FLAT, "A489", "another zone"),
        (
            '<config id="g"><prop id="network/model" value="CM02"/></config>' + FLAT,
            "A489",
            "config",
        ),
        (TREE.replace("1,4;1,1", "1,2;1,2"), "A489", "cables"),
        (TREE.replace("0-7", "0-6"), "A491", "radical"),
        (TREE.replace("2;4,2", "x;4,2"), "A491", "topo_parameters"),
        (TREE.replace("2;4,2;1,4;1,1", "2;4,2;0,4;1,1"), "A491", "topo_parameters"),
        (TREE.replace(";1,1", ""), "A491", "topo_parameters"),
        (TREE.replace("2;4,2", "2,2;4,2"), "A491", "topo_parameters"),
        (TREE.replace("2;4,2;1,4;1,1", ""), "A491", "topo_parameters"),
        (STAR.replace("1.25GBps", "1GBps", 1), "A489", "differ"),
        (STAR.replace("1000ns", "1ns", 1), "A489", "differ"),
        (STAR.replace('up="l1_UP"', 'up="l0_UP"'), "A489", "share"),
        (STAR.replace('up="l1_UP"', 'up="l1"'), "A491", "up"),
        (STAR.replace('host id="h3"', 'host id="h9"'), "A491", "h3"),
        (STAR.replace("Cluster", "Full"), "A489", "host_link"),
        (STAR.replace("</zone>", '<host id="alone" speed="1Gf"/></zone>'), "A489", "alone"),
        (
            STAR.replace("</zone>", '<link id="spare" bandwidth="1GBps" latency="1us"/></zone>'),
            "A489",
            "spare",
        ),
        (
            BACKBONE_STAR.replace(
                "</zone>", '<backbone id="d" bandwidth="1GBps" latency="1us"/></zone>'
            ),
            "A489",
            "another one",
        ),
        (BACKBONE_STAR.replace('latency="3us"', ""), "A491", "latency"),
        (BACKBONE.replace(' bb_lat="3us"', ""), "A491", "bb_lat"),
        (BACKBONE.replace(' bb_bw="2GBps"', ""), "A491", "bb_bw"),
        (BACKBONE.replace("/>", ' bb_sharing_policy="FATPIPE"/>'), "A489", "FATPIPE"),
        (TREE.replace("/>", ' bb_bw="2GBps" bb_lat="3us"/>'), "A489", "bb_bw"),
        (STAR.replace("</zone>", '<peer id="p"/></zone>'), "A489", "peer"),
        ('<zone id="z" routing="Cluster"/>', "A491", "no host"),
        ("", "A491", "no zone"),
    ],
)
def test_what_is_not_read_is_refused_by_its_name(
    tmp_path: Path, inside: str, code: str, word: str
) -> None:
    error = refused(code, read_network, platform(tmp_path, inside))
    assert word in str(error.found) + str(error.where)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "A486"),
        ("<platform", "A486"),
        ('<?xml version="1.0" encoding="klingon"?><platform/>', "A486"),
        ('<?xml version="1.0" encoding="gb2312"?><platform/>', "A486"),
        (
            (
                '<!DOCTYPE t [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><platform '
                'version="4.1">&b;</platform>'
            ),
            "A486",
        ),
        (
            '<!DOCTYPE t [<!ENTITY x SYSTEM "file:///etc/hostname">]><platform>&x;</platform>',
            "A486",
        ),
        (
            '<platform version="4.1">'
            + '<zone id="z" routing="Full">' * 300
            + "</zone>" * 300
            + "</platform>",
            "A486",
        ),
        ("<topology/>", "A490"),
        ('<platform version="3"/>', "A490"),
        ("<platform/>", "A490"),
    ],
)
def test_hostile_files_are_refused(tmp_path: Path, text: str, code: str) -> None:
    file = tmp_path / "platform.xml"
    file.write_text(text, encoding="utf-8")
    refused(code, read_network, str(file))
    refused("A486", read_network, str(tmp_path / "missing.xml"))
    refused("A486", read_network, "nul\0.xml")


@pytest.mark.hypothesis
@given(
    st.sampled_from([FLAT, TREE, STAR, BACKBONE]),
    st.integers(0, 3000),
    st.text(alphabet='<>/="- 0129;,.eGBpsbid_x\x00é', max_size=8),
)
def test_noise_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, inside: str, at: int, noise: str
) -> None:
    at %= len(inside) + 1
    file = platform(tmp_path_factory.getbasetemp(), inside[:at] + noise + inside[at:], "noise.xml")
    try:
        seen = read_network(file)
    except UsageError as error:
        assert error.code in ("A050", "A486", "A489", "A490", "A491")
    else:
        assert np.isfinite([seen.bandwidth, seen.hop_seconds]).all() and seen.nodes > 0
