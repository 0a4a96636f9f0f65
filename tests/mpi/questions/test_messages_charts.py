"""Figures of the GPUDirect study: every number drawn once, titles that say what the study found,
and runs of any size.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from turnbuckle.mpi.questions.gpudirect.question import GpuDirectStudy, study
from turnbuckle.mpi.questions.messages.figures import by_size, cards, figures, node_shapes
from turnbuckle.mpi.questions.messages.maps import links, share_words, traffic
from turnbuckle.mpi.questions.messages.setup import Setup
from turnbuckle.mpi.replay.messages import Messages, Traffic
from turnbuckle.show.figures.files import save

NAMES = [
    "messages-by-size",
    "messages-node-shapes",
    "messages-links",
    "messages-traffic",
    "messages-cards",
]


def ring(ranks: int, sizes: tuple[float, ...]) -> Traffic:
    """Every rank sends to the next, size by size, and waits for what the one before sent."""
    calls, count = 2 * len(sizes), len(sizes)
    send = np.array([r * calls + 2 * k for r in range(ranks) for k in range(count)])
    receive = np.array(
        [(r + 1) % ranks * calls + 2 * k + 1 for r in range(ranks) for k in range(count)]
    )
    none = np.full(ranks * count, -1)
    messages = Messages(send, none, receive, receive, none, np.array(ranks * sizes))
    rank = np.repeat(np.arange(ranks), calls)
    return Traffic(
        ranks,
        rank,
        np.full(len(rank), 1e-5),
        np.zeros(len(rank)),
        np.zeros(ranks),
        messages,
        (),
        1.0,
        0,
    )


@pytest.fixture(scope="module")
def found() -> GpuDirectStudy:
    return study(
        ring(8, (64.0, 20_000.0, 50_000.0, 1e6)), Setup(costs="seed_G"), ranks_per_node=[1, 2, 4]
    )


def test_all_of_them_are_drawn(found: GpuDirectStudy, tmp_path: Path) -> None:
    made = figures(found)
    assert [f.name for f in made] == NAMES and all(f.rows and f.alt and f.title for f in made)
    for path in save(made, tmp_path):
        if path.suffix == ".svg":
            words = "".join(ElementTree.parse(path).getroot().itertext())
            assert "NaN" not in words and "undefined" not in words and "null" not in words
    assert len(list(tmp_path.iterdir())) == 10


def test_gains_by_size_are_those_of_the_study(found: GpuDirectStudy) -> None:
    figure = by_size(found)
    assert figure.title.startswith(
        "GPUDirect carries messages between nodes faster from 2"
    ) and "closed form" in str(figure.legend)
    points = figure.spec["vconcat"][0]["layer"][-1]["data"]["values"]
    told = {(int(p["shape"]), p["size"]): p["gain"] for p in points}
    assert told == {(c.ranks_per_node, c.size_bytes): c.speedup for c in found.sizes if c.between}
    bars = figure.spec["vconcat"][1]["data"]["values"]
    assert sum(b["share"] for b in bars) == pytest.approx(2.0), "all messages, and all bytes"


def test_sizes_that_lie_far_apart_are_said_to_be_so() -> None:
    far = study(ring(4, (64.0, 1e6)), Setup(costs="seed_G"), ranks_per_node=[1])
    assert by_size(far).title == (
        "GPUDirect carries messages of 1\N{NO-BREAK SPACE}MB between nodes faster, those of "
        "64\N{NO-BREAK SPACE}B slower"
    )
    one = study(ring(4, (64.0,)), Setup(costs="seed_G"), ranks_per_node=[1])
    assert (
        by_size(one).title
        == "Messages between nodes are slower by GPUDirect at every size of this run"
    )
    ends = by_size(one).spec["vconcat"][0]["layer"][1]["encoding"]["x"]["scale"]["domain"]
    assert ends[1] / ends[0] > 99, "one size alone stands on an axis of two decades"
    inside = study(ring(4, (64.0, 1e6)), Setup(costs="seed_G"), ranks_per_node=[4])
    assert "inside nodes" in by_size(inside).title and [f.name for f in figures(inside)] == [
        *NAMES[:2],
        *NAMES[2:4],
    ]


def test_bars_add_up_to_the_run_times(found: GpuDirectStudy) -> None:
    left, right = node_shapes(found).spec["hconcat"]
    bars = left["layer"][0]["data"]["values"]
    ends = {b["y"]: max(c["b"] for c in bars if c["y"] == b["y"]) for b in bars}
    rows = [
        found.case(n, path, per).row
        for n in (1, 2, 4)
        for per in found.pers[: 1 + (n > 1)]
        for path in ("hostcopy", "gpudirect")
    ]
    unit = 1e3 if "ms" in left["layer"][0]["encoding"]["x"]["axis"]["title"] else 1e6
    assert sorted(ends.values()) == pytest.approx(sorted(r.seconds * unit for r in rows), rel=1e-6)
    assert len(rows) == 10 and max(b["b"] for b in right["layer"][0]["data"]["values"]) > 0


def test_heat_and_traffic_hold_what_the_study_holds(found: GpuDirectStudy) -> None:
    figure = links(found)
    used = found.case(found.best_shape, "gpudirect").links
    assert used is not None
    told = {
        (r["link"], r["node"]): r["busy_share"] for r in figure.rows if r["path"] == "gpudirect"
    }
    assert told == {
        (kind, n): used.busy[k, n]
        for k, kind in enumerate(used.classes)
        for n in range(used.busy.shape[1])
    }
    sent = traffic(found)
    assert (
        found.together == 4
        and sent.title == "75\N{NO-BREAK SPACE}% of the bytes stay inside nodes of 4 ranks"
    )
    assert (
        sum(r["size_bytes"] for r in sent.rows) == 8 * 1_070_064.0
        and "2 partners a rank" in sent.caption
    )


def test_many_ranks_and_nodes_are_put_together() -> None:
    many = study(ring(600, (1e5,)), Setup(costs="seed_G"), ranks_per_node=[2])
    sent = traffic(many)
    assert "A cell is 3 by 3 ranks" in sent.caption and len(sent.spec["data"]["values"]) <= 3 * 256
    panel = links(many).spec["hconcat"][0]
    assert (
        len({c["a"] for c in panel["data"]["values"]}) <= 48 and "nodes each" in links(many).caption
    )
    assert many.as_dict()["traffic"]["ranks_per_cell"] == 3


def test_full_cards_are_said(found: GpuDirectStudy) -> None:
    quiet = study(ring(4, (1e4,)), Setup(costs="seed_G"), ranks_per_node=[1])
    assert cards(quiet).title.startswith("No NIC is saturated: busy for at most ")
    busy = study(ring(4, (1e8,)), Setup(costs="seed_G"), ranks_per_node=[1])
    assert busy.saturations()[1].ranks_per_node == 1
    assert "saturated from 1 rank per node by GPUDirect" in cards(busy).title
    assert len(cards(found).rows) == 12


def test_a_run_that_gets_stuck_is_drawn_without_what_it_does_not_have(tmp_path: Path) -> None:
    first, then = np.array([0, 2]), np.array([3, 1])
    head_on = Messages(first, first, then, then, np.full(2, -1), np.full(2, 100.0))
    made = Traffic(
        2, np.array([0, 0, 1, 1]), np.zeros(4), np.zeros(4), np.zeros(2), head_on, (), 1.0, 0
    )
    stuck = study(made, Setup(costs="seed_G"), ranks_per_node=[1])
    drawn = figures(stuck)
    assert "deadlocks" in node_shapes(stuck).title and drawn[0].name == "messages-node-shapes"
    assert len(save(drawn, tmp_path)) == 2 * len(drawn)


def test_a_share_is_never_nothing_unless_it_is() -> None:
    assert [share_words(v) for v in (0.0, 2e-6, 0.5)] == [
        "0",
        "0.0002\N{NO-BREAK SPACE}%",
        "50\N{NO-BREAK SPACE}%",
    ]


def test_logp_has_no_links(found: GpuDirectStudy) -> None:
    plain = study(
        ring(4, (64.0, 1e6)), replace(found.answered.setup, fidelity="logp"), ranks_per_node=[1]
    )
    assert [f.name for f in figures(plain)] == [NAMES[0], NAMES[1], NAMES[3]]
