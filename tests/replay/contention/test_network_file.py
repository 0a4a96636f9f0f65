"""Networks from files."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import one_message
from refusals import refused

from turnbuckle.foundation.errors import TurnbuckleError, UsageError
from turnbuckle.machine import load
from turnbuckle.mpi.questions.fabric.question import fabric
from turnbuckle.mpi.questions.messages.setup import Path as Path_
from turnbuckle.mpi.questions.messages.setup import Setup, program_of
from turnbuckle.mpi.replay.messages import Messages, Traffic
from turnbuckle.mpi.replay.node_layout import laid_out
from turnbuckle.mpi.replay.program import program
from turnbuckle.replay.contention.contention import replay
from turnbuckle.replay.contention.network import Dragonfly, FatTree, Network, Node, Torus, Wire
from turnbuckle.replay.contention.network_file import Described, _Reading, bundled, read_network
from turnbuckle.replay.contention.nodes import CLOCK, both_ways, gpu_node, graph, pool

HEAD = (
    '[network]\nname = "ours"\nbandwidth = "25 GB/s"\nhop = "0.5 us"\n'
    'source = "measured in March"\n'
)
NODE = """[node]
parts = ["host 0", "gpu 0", "gpu 1", "switch 0"]
cards = ["switch 0"]
passes = ["host 0", "switch 0"]
[[node.wires]]
between = ["host 0", "switch 0"]
bandwidth = "32 GB/s"
latency = "0.2 us"
[[node.wires]]
between = ["switch 0", "gpu 0"]
bandwidth = "32 GB/s"
[[node.wires]]
between = ["switch 0", "gpu 1"]
bandwidth = "32 GB/s"
[[node.wires]]
between = ["gpu 0", "gpu 1"]
bandwidth = "50 GB/s"
shared = true
"""


def read(tmp_path: Path, text: str) -> Described:
    file = tmp_path / "ours.toml"
    file.write_text(text, encoding="utf-8")
    return read_network(str(file))


def test_a_node_by_its_parts(tmp_path: Path) -> None:
    found = read(tmp_path, HEAD + NODE)
    node = found.node
    assert node is not None
    assert (found.bandwidth, found.hop_seconds, found.shape, found.nodes) == (25e9, 0.5e-6, None, 0)
    assert node.cards == (3,) and node.passes == (0, 3) and len(node.wires) == 7 + 2
    place = laid_out(np.zeros(3, dtype=np.int64), node)
    assert place.device.tolist() == [1, 2, 1] and place.host.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("shape", "made"),
    [
        ('kind = "switch"', None),
        (
            'kind = "fat-tree"\ndown = [4, 2]\nup = [1, 4]\ncables = [1, 1]',
            FatTree((4, 2), (1, 4), (1, 1)),
        ),
        ('kind = "torus"\ndims = [2, 3]', Torus((2, 3))),
        (
            'kind = "dragonfly"\ngroups = 3\nrouters = 2\ncards = 2\nchannels = 1',
            Dragonfly(3, 2, 2, 1),
        ),
    ],
)
def test_shapes(tmp_path: Path, shape: str, made: object) -> None:
    found = read(
        tmp_path,
        (
            f'{HEAD}[network.shape]\n{shape}\n[node.gpus]\ngpus = 4\nlink = "75 GB/s"\n'
            'peer = "50 GB/s"\njoined = "switch"\n'
        ),
    )
    assert found.shape == made and found.node is not None and len(found.node.parts_of("gpu")) == 4


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[network", "not valid TOML"),
        ("", "a table [network]"),
        (HEAD + 'colour = "red"', "colour"),
        (HEAD.replace("25 GB/s", "25"), "network.bandwidth"),
        (HEAD.replace("25 GB/s", "-25 GB/s"), "network.bandwidth"),
        (HEAD.replace("0.5 us", "5 B"), "network.hop"),
        (HEAD.replace("measured in March", ""), "network.source"),
        (HEAD + "nodes = -1", "network.nodes"),
        (HEAD + "nodes = true", "network.nodes"),
        (HEAD + '[network.shape]\nkind = "mesh"', "network.shape.kind"),
        (
            HEAD + '[network.shape]\nkind = "fat-tree"\ndown = [4]\nup = [1, 2]\ncables = [1]',
            "different lengths",
        ),
        (HEAD + '[network.shape]\nkind = "torus"\ndims = [0]', "network.shape.dims"),
        (HEAD + '[network.shape]\nkind = "torus"\ndims = []', "network.shape.dims"),
        (
            HEAD + '[network.shape]\nkind = "dragonfly"\ngroups = 3\nrouters = 2\nchannels = 1',
            "network.shape.cards",
        ),
        (HEAD + NODE.replace('["switch 0"]', '["switch 9"]'), "switch 9"),
        (
            HEAD + NODE.replace('"gpu 0", "gpu 1", "switch', '"gpu 0", "gpu 0", "switch'),
            "node.parts",
        ),
        (
            HEAD + NODE.replace('between = ["host 0", "switch 0"]', 'between = ["host 0"]'),
            "node.wires[0]",
        ),
        (HEAD + NODE.replace("shared = true", 'shared = "yes"'), "node.wires[3]"),
        (HEAD + "[node.gpus]\ngpus = 0", "node.gpus.gpus"),
        (HEAD + "[node.gpus]\ngpus = 2", "no link"),
        (HEAD + '[node.gpus]\ngpus = 2\nlink = "1 GB/s"\njoined = "glue"', "node.gpus.joined"),
        ("x." * 100 + "y = 1", "nested too deeply"),
        (HEAD + '[network.sources]\nhops = "x"', "hop"),
        (HEAD + '[network.sources]\nhop = ""', "network.sources.hop"),
        (HEAD + "machine = 3", "network.machine"),
        (
            HEAD + 'nodes = 9\n[network.shape]\nkind = "torus"\ndims = [2, 2]\ncards = 2',
            "8 places for 9 cards",
        ),
        (
            HEAD
            + (
                '[network.shape]\nkind = "dragonfly"\ngroups = 9\nrouters = 2\ncards = 2\n'
                "channels = 3"
            ),
            "network.shape.channels",
        ),
        (
            HEAD + NODE.replace('passes = ["host 0", "switch 0"]', "passes = []"),
            "no way from gpu 0 to host 0",
        ),
        (
            HEAD
            + NODE.replace(
                '"gpu 0", "gpu 1", "switch 0"]', '"gpu 0", "gpu 1", "switch 0", "gpu 2"]'
            ),
            "no way from gpu 0 to gpu 2",
        ),
        (HEAD + '[node]\nparts = ["thing"]\ncards = ["thing"]', "no host and no GPU"),
        (HEAD + NODE.replace("latency =", "delay ="), "latency"),
        (HEAD + NODE + 'latency_source = ""', "latency_source"),
        (
            HEAD
            + NODE.replace('["host 0", "switch 0"]\nb', '[["host 0", "switch 0"], ["host 0"]]\nb'),
            "node.wires[0]",
        ),
        (HEAD + NODE.replace('["host 0", "switch 0"]\nb', "[]\nb"), "node.wires[0]"),
        (HEAD + '[node.pool]\nhosts = 2\nlink = "1 GB/s"', "no gpus"),
        (HEAD + '[node.pool]\nhosts = 2\ngpus = 5000\nlink = "1 GB/s"', "node.pool.gpus"),
        (
            HEAD
            + (
                '[node.pool]\nhosts = 2\ngpus = 2\nlink = "1 GB/s"\n[node.gpus]\ngpus = 2\n'
                'link = "1 GB/s"'
            ),
            "pool",
        ),
        (
            HEAD + '[node.pool]\nhosts = 2\ngpus = 2\nlink = "1 GB/s"\n[node.sources]\npeer = "x"',
            "peer",
        ),
        (HEAD + '[node.graph]\ngpus = 3\nlink = "1 GB/s"', "node.graph.pairs"),
        (HEAD + '[node.graph]\ngpus = 3\nlink = "1 GB/s"\npairs = [[0, 3]]', "node.graph.pairs"),
        (HEAD + '[node.graph]\ngpus = 3\nlink = "1 GB/s"\npairs = [[0, 0]]', "node.graph.pairs"),
        (HEAD + '[node.graph]\ngpus = 3\nlink = "1 GB/s"\npairs = [[0, 1, 0]]', "node.graph.pairs"),
        (
            HEAD + '[node.graph]\ngpus = 3\nlink = "1 GB/s"\npairs = [[0, 1, 1, 1]]',
            "node.graph.pairs",
        ),
        (
            HEAD + '[node.graph]\ngpus = 3\nlink = "1 GB/s"\npairs = [[0, 1]]',
            "no way from gpu 0 to gpu 2",
        ),
        (
            HEAD + '[node.graph]\ngpus = 2\ncards = 3\nlink = "1 GB/s"\npairs = [[0, 1]]',
            "node.graph.cards",
        ),
    ],
)
def test_files_that_describe_none(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text)
    told = caught.value
    assert told.code == "A050" and says in " ".join(
        str(v) for v in (told.what, told.where, told.found, told.cause, told.fix)
    )


def test_names_that_are_none(tmp_path: Path) -> None:
    assert "lassen" in (refused("A050", read_network, "lasen").fix or "")
    refused("A061", read_network, str(tmp_path / "none.toml"))


@given(st.text(max_size=200), st.integers(0, 400))
@settings(max_examples=60)
def test_noise_is_refused_or_read(noise: str, at: int) -> None:
    whole = HEAD + NODE
    try:
        _Reading("noise.toml", whole[:at] + noise + whole[at:]).network()
    except TurnbuckleError as error:
        assert error.code[0] in "AU"


def test_alike_wires_in_one_table_with_sources(tmp_path: Path) -> None:
    text = (
        HEAD
        + """[network.sources]
hop = "assumed: nobody measured it"
[node]
parts = ["host 0", "gpu 0", "gpu 1"]
cards = ["host 0", "host 0"]
passes = ["host 0"]
source = "a drawing"
[[node.wires]]
name = "PCIe 4"
between = [["host 0", "gpu 0"], ["host 0", "gpu 1"]]
bandwidth = "31.5 GB/s"
latency = "0.3 us"
source = "data sheet; how many: assumed"
latency_source = "measured"
"""
    )
    found = read(tmp_path, text)
    assert found.node == Node(
        ("host 0", "gpu 0", "gpu 1", "share 0", "share 1"),
        (
            *both_ways(0, 1, 31.5e9, 0.3e-6),
            *both_ways(0, 2, 31.5e9, 0.3e-6),
            *(Wire(k, k, CLOCK, shared=True) for k in (3, 4)),
        ),
        (0, 0),
        (0,),
    )
    assert [(f.what, f.value, f.nature) for f in found.facts] == [
        ("nodes", "any", "cited"),
        ("link, one way", "25 GB/s", "cited"),
        ("latency of a link", "0.5 us", "assumed"),
        ("shape", "one switch", "cited"),
        ("PCIe 4", "31.5 GB/s", "assumed in part"),
        ("PCIe 4: latency", "0.3 us", "cited"),
        ("network cards", "host 0, host 0", "cited"),
    ]
    assert found.facts[-1].source == "a drawing" and found.facts[0].source == "measured in March"


def test_nodes_by_their_kind(tmp_path: Path) -> None:
    pooled = 'hosts = 2\ngpus = 4\nper_switch = 2\nlink = "32 GB/s"\nswitch_seconds = "0.1 us"\n'
    text = f'{HEAD}[node.pool]\n{pooled}[node.sources]\nlink = "a standard"'
    assert read(tmp_path, text).node == pool(2, 4, per_switch=2, link=32e9, switch_seconds=0.1e-6)
    assert {f.what: f.source for f in read(tmp_path, text).facts}["pool: link"] == "a standard"
    text = HEAD + (
        '[node.graph]\ngpus = 3\nlink = "25 GB/s"\nseconds = "1 us"\ncards = 2\n'
        "pairs = [[0, 1], [1, 2, 2]]"
    )
    assert read(tmp_path, text).node == graph(
        3, [(0, 1, 25e9), (1, 2, 50e9)], seconds=1e-6, cards=2
    )
    text = (
        HEAD
        + '[node.gpus]\ngpus = 4\nlink = "32 GB/s"\ncards = "gpu"\nper_switch = 2\nswitch_cards = 2'
    )
    assert read(tmp_path, text).node == gpu_node(
        4, link=32e9, cards="gpu", per_switch=2, switch_cards=2
    )


@pytest.mark.parametrize("name", bundled())
def test_every_number_of_a_bundled_network_has_a_source(name: str) -> None:
    """A real one: a name and a year, a document, a log; or why it is assumed, or that it is so by
    construction.
    """
    told = read_network(name).facts
    assert len(told) >= 8
    for fact in told:
        assert len(fact.source) > 20 and fact.source.isprintable(), fact
        if fact.nature == "assumed":
            assert (
                fact.source.startswith("assumed: ") and len(fact.source) > len("assumed: ") + 12
            ), fact


@pytest.mark.parametrize("name", [n for n in bundled() if read_network(n).machine])
def test_bundled_networks_agree_with_the_machines(name: str) -> None:
    """The narrowest wire between a host and its GPU is the machine's link; card, number of cards
    and of GPUs are the machine's too.
    """
    found = read_network(name)
    machine = load(found.machine)
    node = found.node
    assert node is not None
    says = {p: machine.parameters[p].value for p in machine.parameters}
    ways = {(w.source, w.target): w for w in fabric(found, 1).ways}
    gpus = [p for p in node.parts if p.startswith("gpu")]
    if not machine.copies_vanish:
        for k, host in enumerate(laid_out(np.zeros(len(gpus), dtype=np.int64), node).host):
            ends = (node.parts[host], gpus[k])
            assert (
                ways[ends].bandwidth == says["link.h2d.bandwidth"]
                and ways[ends[::-1]].bandwidth == says["link.d2h.bandwidth"]
            )
    else:
        assert not node.parts_of("host") and "link.h2d.bandwidth" not in says
    if "link.p2p.bandwidth" in says:
        assert says["link.p2p.bandwidth"] in {
            ways[a, b].bandwidth for a in gpus for b in gpus if a != b
        }
    if "nic.bandwidth" in says:
        assert found.bandwidth == says["nic.bandwidth"]
    if machine.name == found.name:
        assert len(gpus) == says.get("node.gpus", len(gpus)) and len(node.cards) == says.get(
            "nic.count", len(node.cards)
        )


def test_pools_are_as_far_as_the_machines_say() -> None:
    """From host to GPU: what the machines of disaggregated infrastructure add to a link, one
    way.
    """
    for network, machine in (("cdi-rack", "cdi-rack-link"), ("cdi-row", "cdi-row-link")):
        (slack,) = (
            part.value
            for c in load(machine).changes
            if c.parameter == "slack.link"
            for part in c.parts().values()
        )
        ways = [
            w
            for w in fabric(read_network(network)).ways
            if {w.source[:4], w.target[:4]} == {"host", "gpu "}
        ]
        assert len(ways) > 100 and [w.seconds for w in ways] == pytest.approx([slack] * len(ways))


@pytest.mark.parametrize("name", bundled())
def test_all_parts_of_bundled_networks_reach_each_other(name: str) -> None:
    """Every GPU every GPU, host and card, as far there as back; every wire is on some way."""
    found = fabric(read_network(name))
    ways = {(w.source, w.target): w for w in found.ways}
    assert found.left_out == 0 and not found.idle and {a for a, _ in ways} == {b for _, b in ways}
    for (a, b), way in ways.items():
        back = ways[b, a]
        assert (
            way.seconds == pytest.approx(back.seconds)
            and way.bandwidth == back.bandwidth
            and len(set(way.wires)) == len(way.wires)
        )
        assert a == b or way.wires


def test_lassen_as_the_paper_has_it() -> None:
    """45 leaf switches, 810 nodes, 1.5 nodes for a cable above each leaf: exactly."""
    found = read_network("lassen")
    assert isinstance(found.shape, FatTree)
    below, leaves = found.shape.down
    assert (leaves, below * leaves, found.nodes) == (45, 810, 810) and below / (
        found.shape.up[1] * found.shape.cables[1]
    ) == 1.5
    whole = fabric(found)
    assert whole.injection_bandwidth / whole.bisection_bandwidth == 1.5


def test_frontier_as_its_notes_have_it() -> None:
    """57 % of what a group injects leaves it, and 270 TB/s each way join all groups (the notes:
    270+270).
    """
    shape = read_network("frontier").shape
    assert isinstance(shape, Dragonfly)
    each = shape.routers * shape.channels // (shape.groups - 1)
    assert each * (shape.groups - 1) / (shape.routers * shape.cards) == pytest.approx(
        0.57, abs=0.001
    )
    assert shape.groups * (shape.groups - 1) / 2 * each * 25e9 == pytest.approx(270e12, rel=0.01)


def test_the_mesh_of_a_dgx1() -> None:
    """Six links a GPU; pairs without one go through the hosts' side, not through other GPUs."""
    found = fabric(read_network("cori-gpu"))
    ways = {(w.source, w.target): w for w in found.ways}
    gpus = [f"gpu {k}" for k in range(8)]
    for a in gpus:
        direct = [ways[a, b] for b in gpus if a != b and len(ways[a, b].wires) == 1]
        assert len(direct) == 4 and sum(w.bandwidth for w in direct) == 6 * 25e9
        for b in gpus:
            if a != b and len(ways[a, b].wires) > 1:
                assert not any("gpu" in w.removeprefix(a).removesuffix(b) for w in ways[a, b].wires)


def test_dies_of_frontier_hand_on_what_is_not_for_them() -> None:
    """Eight links a die (one of them the card's); pairs without a link take two, and never the
    host's 36 GB/s.
    """
    found = fabric(read_network("frontier"))
    ways = {(w.source, w.target): w for w in found.ways}
    gpus = [f"gpu {k}" for k in range(8)]
    for k, a in enumerate(gpus):
        direct = {
            b: ways[a, b].bandwidth / 50e9 for b in gpus if a != b and len(ways[a, b].wires) == 1
        }
        assert sum(direct.values()) + 1 + k % 2 == 8
        assert all(
            len(ways[a, b].wires) <= 2 and ways[a, b].bandwidth >= 50e9 for b in gpus if a != b
        )


@pytest.mark.parametrize(
    ("name", "kind", "nodes", "least", "most"),
    [
        # 1.3 us, Pearson et al. 2021; what its latency of a link is made from
        (
            "summit",
            "host",
            (0, 1),
            1.29,
            1.31,
        ),
        # 1.86 us, Groves et al. 2022: between one switch
        (
            "perlmutter",
            "host",
            (0, 1),
            1.65,
            1.75,
        ),
        ("perlmutter", "host", (0, 5), 2.0, 2.1),  # and two
        ("dgx-h100", "host", (0, 1), 1.8, 1.9),  # 1.85 us, ib_write on OCI
        # 2.76 us, device to device on Olivia, GH200 and Slingshot 11 too
        (
            "alps",
            "gpu",
            (0, 1),
            2.3,
            3.0,
        ),
    ],
)
def test_small_messages_take_about_what_was_measured(
    name: str, kind: str, nodes: tuple[int, int], least: float, most: float
) -> None:
    """Between two nodes, with the overheads that a replay charges at either end [us]."""
    found = read_network(name)
    node = found.node
    assert node is not None
    network = Network(
        8,
        found.bandwidth,
        found.hop_seconds,
        found.shape,
        node=node,
        send_overhead=0.5e-6,
        receive_overhead=0.5e-6,
        latency=0.0,
    )
    part = node.parts_of(kind)[0]
    start, end = (n * len(node.parts) + part for n in nodes)
    assert least <= replay(one_message(start, end, 8.0), network).seconds * 1e6 <= most


@pytest.mark.parametrize("name", bundled())
def test_every_bundled_network_carries_messages(name: str) -> None:
    """Every rank of a few nodes sends to the next; the source of the numbers is told."""
    found = read_network(name)
    assert found.source and found.title and found.name == name
    assert found.node is not None
    each = max(len(found.node.parts_of("gpu")), 1)
    ring = _ring(4 * each)
    paths: tuple[Path_, ...] = ("host", "hostcopy", "gpudirect")
    for path in paths:
        made, network, _ = program_of(ring, Setup(path=path, network=name, ranks_per_node=each))
        done = replay(made, network, "flow")
        assert math.isfinite(done.seconds) and done.seconds > 0
        assert len(done.carried_bytes) == len(network.links())


def _ring(ranks: int) -> Traffic:
    calls = np.arange(2 * ranks)
    receive = (np.arange(ranks) + 1) % ranks * 2 + 1
    messages = Messages(
        calls[::2], np.full(ranks, -1), receive, receive, np.full(ranks, -1), np.full(ranks, 1e6)
    )
    return Traffic(
        ranks,
        np.repeat(np.arange(ranks), 2),
        np.zeros(2 * ranks),
        np.zeros(2 * ranks),
        np.zeros(ranks),
        messages,
        (),
        1.0,
        0,
    )


def test_pools_and_graphs_are_one_node() -> None:
    """Two hosts and sixteen GPUs on a tree of switches; three GPUs in a row, the way between the
    outer ones over the middle one.
    """
    for node, gpus in (
        (pool(2, 16, link=32e9, uplinks=2), 16),
        (graph(3, [(0, 1, 50e9), (1, 2, 50e9)]), 3),
    ):
        place = laid_out(np.zeros(gpus, dtype=np.int64), node)
        network = Network(1, 1e9, 0.0, node=node)
        made = program(_ring(gpus), layout=place)
        done = replay(made, network, "flow")
        assert done.seconds > 0 and len(done.carried_bytes) == len(network.links())
