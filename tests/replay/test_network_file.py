"""Networks from files."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnbuckle.errors import TurnbuckleError, UsageError
from turnbuckle.replay.contention import Network, replay
from turnbuckle.replay.mpi import Messages, Traffic
from turnbuckle.replay.mpi_program import laid_out, program
from turnbuckle.replay.network import Dragonfly, FatTree, Torus
from turnbuckle.replay.network_file import Described, _Reading, bundled, read_network
from turnbuckle.replay.nodes import graph, pool
from turnbuckle.study.setup import Setup, program_of

HEAD = '[network]\nname = "ours"\nbandwidth = "25 GB/s"\nhop = "0.5 us"\nsource = "measured in March"\n'
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
    read_network.cache_clear()
    return read_network(str(file))


def test_a_node_by_its_parts(tmp_path: Path) -> None:
    found = read(tmp_path, HEAD + NODE)
    node = found.node
    assert (found.bandwidth, found.hop_seconds, found.shape, found.nodes) == (25e9, 0.5e-6, None, 0)
    assert node.cards == (3,) and node.passes == (0, 3) and len(node.wires) == 7
    place = laid_out(np.zeros(3, dtype=np.int64), node)
    assert place.device.tolist() == [1, 2, 1] and place.host.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("shape", "made"),
    [
        ('kind = "switch"', None),
        ('kind = "fat-tree"\ndown = [4, 2]\nup = [1, 4]\ncables = [1, 1]', FatTree((4, 2), (1, 4), (1, 1))),
        ('kind = "torus"\ndims = [2, 3]', Torus((2, 3))),
        ('kind = "dragonfly"\ngroups = 3\nrouters = 2\ncards = 2\nchannels = 1', Dragonfly(3, 2, 2, 1)),
    ],
)
def test_shapes(tmp_path: Path, shape: str, made: object) -> None:
    found = read(
        tmp_path, f'{HEAD}[network.shape]\n{shape}\n[node.gpus]\ngpus = 4\nlink = "75 GB/s"\npeer = "50 GB/s"\njoined = "switch"\n'
    )
    assert found.shape == made and len(found.node.parts_of("gpu")) == 4


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[network", "not TOML"),
        ("", "a table [network]"),
        (HEAD + 'colour = "red"', "colour"),
        (HEAD.replace("25 GB/s", "25"), "network.bandwidth"),
        (HEAD.replace("25 GB/s", "-25 GB/s"), "network.bandwidth"),
        (HEAD.replace("0.5 us", "5 B"), "network.hop"),
        (HEAD.replace("measured in March", ""), "network.source"),
        (HEAD + "nodes = -1", "network.nodes"),
        (HEAD + "nodes = true", "network.nodes"),
        (HEAD + '[network.shape]\nkind = "mesh"', "network.shape.kind"),
        (HEAD + '[network.shape]\nkind = "fat-tree"\ndown = [4]\nup = [1, 2]\ncables = [1]', "different lengths"),
        (HEAD + '[network.shape]\nkind = "torus"\ndims = [0]', "network.shape.dims"),
        (HEAD + '[network.shape]\nkind = "torus"\ndims = []', "network.shape.dims"),
        (HEAD + '[network.shape]\nkind = "dragonfly"\ngroups = 3\nrouters = 2\nchannels = 1', "network.shape.cards"),
        (HEAD + NODE.replace('["switch 0"]', '["switch 9"]'), "switch 9"),
        (HEAD + NODE.replace('"gpu 0", "gpu 1", "switch', '"gpu 0", "gpu 0", "switch'), "node.parts"),
        (HEAD + NODE.replace('between = ["host 0", "switch 0"]', 'between = ["host 0"]'), "node.wires[0]"),
        (HEAD + NODE.replace("shared = true", 'shared = "yes"'), "node.wires[3]"),
        (HEAD + "[node.gpus]\ngpus = 0", "node.gpus.gpus"),
        (HEAD + "[node.gpus]\ngpus = 2", "no link"),
        (HEAD + '[node.gpus]\ngpus = 2\nlink = "1 GB/s"\njoined = "glue"', "node.gpus.joined"),
        ("x." * 100 + "y = 1", "a line that no network needs"),
    ],
)
def test_files_that_describe_none(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(tmp_path, text)
    told = refused.value
    assert told.code == "A050" and says in " ".join(str(v) for v in (told.what, told.where, told.found, told.fix))


def test_names_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        read_network("lasen")
    assert refused.value.code == "A050" and "lassen" in (refused.value.fix or "")
    with pytest.raises(UsageError) as refused:
        read_network(str(tmp_path / "none.toml"))
    assert refused.value.code == "A061"


@given(st.text(max_size=200), st.integers(0, 400))
@settings(max_examples=60, deadline=None)
def test_noise_is_refused_or_read(noise: str, at: int) -> None:
    whole = HEAD + NODE
    try:
        _Reading("noise.toml", whole[:at] + noise + whole[at:]).network()
    except TurnbuckleError as error:
        assert error.code[0] in "AU"


@pytest.mark.parametrize("name", bundled())
def test_every_bundled_network_carries_messages(name: str) -> None:
    """Every rank of a few nodes sends to the next; the source of the numbers is told."""
    found = read_network(name)
    assert found.source and found.title and found.name == name
    assert found.node is not None
    each = max(len(found.node.parts_of("gpu")), 1)
    ring = _ring(4 * each)
    for path in ("host", "hostcopy", "gpudirect"):
        made, network, _ = program_of(ring, Setup(path=path, network=name, ranks_per_node=each))  # type: ignore[arg-type]
        done = replay(made, network, "flow")
        assert math.isfinite(done.seconds) and done.seconds > 0
        assert len(done.carried_bytes) == len(network.links())


def _ring(ranks: int) -> Traffic:
    calls = np.arange(2 * ranks)
    receive = (np.arange(ranks) + 1) % ranks * 2 + 1
    messages = Messages(calls[::2], np.full(ranks, -1), receive, receive, np.full(ranks, -1), np.full(ranks, 1e6))
    return Traffic(ranks, np.repeat(np.arange(ranks), 2), np.zeros(2 * ranks), np.zeros(2 * ranks), np.zeros(ranks), messages, (), 1.0, 0)


def test_pools_and_graphs_are_one_node() -> None:
    """Two hosts and sixteen GPUs on a tree of switches; three GPUs in a row, the way between the outer ones over the middle one."""
    for node, gpus in ((pool(2, 16, link=32e9, uplinks=2), 16), (graph(3, [(0, 1, 50e9), (1, 2, 50e9)]), 3)):
        place = laid_out(np.zeros(gpus, dtype=np.int64), node)
        network = Network(1, 1e9, 0.0, node=node)
        made = program(_ring(gpus), layout=place)
        done = replay(made, network, "flow")
        assert done.seconds > 0 and len(done.carried_bytes) == len(network.links())
