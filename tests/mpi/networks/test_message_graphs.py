"""Graphs of messages: patterns, tables, and what they are as programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from refusals import refused

from turnbuckle.foundation.errors import UsageError
from turnbuckle.mpi.networks.message_graphs import (
    MessageGraph,
    as_program,
    pattern,
    ping_pong,
    read,
    shift,
    sweep,
)
from turnbuckle.replay.contention.contention import replay
from turnbuckle.replay.contention.network import Network

NONE = np.zeros(0, dtype=np.int64)
LINK = Network(16, 1e9, 1e-6)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "messages.csv"
    path.write_text(text)
    return path


def test_a_sweep_sends_on_what_has_come_from_both_sides() -> None:
    graph = sweep(2, 3, 8.0)
    ends = list(zip(graph.source.tolist(), graph.target.tolist(), strict=True))
    assert ends == [(0, 3), (1, 4), (2, 5), (0, 1), (1, 2), (3, 4), (4, 5)]
    before = {(ends[a], ends[b]) for a, b in zip(graph.before, graph.after, strict=True)}
    assert before == {(a, b) for a in ends for b in ends if a[1] == b[0]}


def test_a_ping_pong_takes_its_rounds() -> None:
    assert replay(as_program(ping_pong(1000.0, 5), 1e9), LINK).seconds == pytest.approx(
        10 * (2e-6 + 1e-6), abs=1e-11
    )


def test_a_sweep_is_as_long_as_its_longest_way() -> None:
    """Without sharing (logp, no overheads): rows + columns - 2 messages one after the other."""
    network = Network(16, 1e9, 0.0, latency=5e-6)
    assert replay(as_program(sweep(4, 4, 8.0), 1e9), network, "logp").seconds == pytest.approx(
        6 * 5e-6
    )


@pytest.mark.parametrize("acknowledged", [False, True])
def test_who_waits_tells_when_it_knows(acknowledged: bool) -> None:
    """A message that is rendezvous is complete when its sender has it back; here that is when it
    has arrived.
    """
    graph = MessageGraph(
        np.array([0, 1]),
        np.array([1, 2]),
        np.array([1e3, 1e6]),
        np.array([0]),
        np.array([1]),
        np.array([0.0, 3e-6]),
    )
    done = replay(as_program(graph, 1e5, acknowledged=acknowledged), LINK, traced=True)
    eager_free = 0.0 if acknowledged else 3e-6
    assert done.began[1] == pytest.approx(eager_free + 3e-6, abs=1e-11)


def test_a_table(tmp_path: Path) -> None:
    text = (
        "message, from, to, size [KiB], after, delay [us]\na, 0, 1, 1, , \nb, 0, 2, 2,, 0\n"
        "c, 2, 3, 4, a b, 5\n"
    )
    graph = read(write(tmp_path, text))
    assert graph.nodes == 4 and graph.size_bytes.tolist() == [1024, 2048, 4096]
    assert (graph.before.tolist(), graph.after.tolist(), graph.delay_seconds.tolist()) == (
        [0, 1],
        [2, 2],
        [0, 0, 5e-6],
    )
    bare = read(write(tmp_path, "message,from,to,size [B]\nx,0,1,5\n"))
    assert len(bare.before) == 0 and len(bare.delay_seconds) == 0


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ("a,0,1,5,b,", "A089"),
        ("a,0,0,5,,", "A089"),
        ("a,0,1,5,,\na,1,0,5,,", "A089"),
        ("", "A089"),
        ("a,0,1,-5,,", "A063"),
        ("a,0,1,5.5,,", "A063"),
        ("a,0,1,nan,,", "U0"),
        ("a,0.5,1,5,,", "A063"),
        ("a,0,10000000,5,,", "A063"),
        ("a,0,1,5,,-1", "A063"),
        (",0,1,5,,", "A063"),
        ("a,0,1", "A063"),
    ],
)
def test_tables_that_cannot_be(tmp_path: Path, rows: str, code: str) -> None:
    with pytest.raises(Exception) as caught:
        read(write(tmp_path, f"message,from,to,size [B],after,delay [s]\n{rows}\n"))
    assert str(getattr(caught.value, "code", caught.value)).startswith(code)


def test_patterns_by_name() -> None:
    assert pattern("ping-pong:3", 8.0).size_bytes.tolist() == [8.0] * 6
    assert len(pattern("shift:5000x4000", 8.0).source) == 5000, "nodes, not nodes times by how many"
    assert (
        pattern(" sweep:2x3 ", 8.0).nodes == 6
        and pattern("shift:8x3", 0.0).target.tolist() == shift(8, 3, 0.0).target.tolist()
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sweep",
        "sweep:4",
        "sweep:0x4",
        "sweep:-1x4",
        "sweep:4x4x4",
        "ring:4",
        "sweep:9999999x9999999",
        "sweep:1000x1000",
        "ping-pong:600000",
        "shift:2x9999999",
        "shift:8x8",
        "sweep:²x4",
    ],
)
def test_patterns_that_cannot_be(text: str) -> None:
    refused("A089", lambda: as_program(pattern(text, 8.0), 1.0))


@pytest.mark.parametrize("size", [-1.0, float("nan"), float("inf")])
def test_sizes_that_cannot_be(size: float) -> None:
    refused("A089", pattern, "sweep:2x2", size)
    with pytest.raises(UsageError):
        as_program(MessageGraph(np.array([0]), np.array([1]), np.array([size]), NONE, NONE), 1.0)
    with pytest.raises(UsageError):
        as_program(
            MessageGraph(
                np.array([0]), np.array([1]), np.array([1.0]), NONE, NONE, np.array([size])
            ),
            1.0,
        )


@pytest.mark.parametrize(
    ("rows", "circle"),
    [
        ("a,0,1,1,a", "a -> a"),
        ("a,0,1,1,b\nb,1,0,1,a", "a -> b -> a"),
        ("x,0,1,1,\na,0,1,1,x c\nb,1,0,1,a\nc,1,0,1,b\nd,1,0,1,c", "a -> b -> c -> a"),
    ],
)
def test_messages_that_wait_for_themselves_are_named(
    tmp_path: Path, rows: str, circle: str
) -> None:
    assert (
        circle
        in refused(
            "A089", read, write(tmp_path, f"message, from, to, size [B], after\n{rows}\n")
        ).found
    )


def test_a_long_circle_is_cut() -> None:
    m = np.arange(100)
    caught = refused(
        "A089", as_program, MessageGraph(m, m + 1, np.ones(100), m, (m + 1) % 100), 1e9
    )
    assert "100 messages" in caught.found and len(caught.found) < 120


def test_sizes_that_nobody_sends(tmp_path: Path) -> None:
    refused("A089", read, write(tmp_path, "message, from, to, size [B]\na,0,1,1e30\n"))
