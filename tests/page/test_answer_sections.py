"""The first section of the report: targets by title, ports side by side, the run without its
start-up.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from mpi_rows import call, recorded, thread

from turnbuckle.examples import sample
from turnbuckle.machine import load
from turnbuckle.page.answer_sections import projection_section
from turnbuckle.profile.profile import build
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.projection.elsewhere.network import OnNetwork
from turnbuckle.projection.model import Port, nething, ported
from turnbuckle.projection.run import Run
from turnbuckle.show.table import Table
from turnbuckle.show.text import number, seconds
from turnbuckle.show.verdict import names, verdicts
from turnbuckle.trace.ids import process_of

TARGETS = ("mi300a", "gh200", "h100-sxm5", "cdi-row-link")


@pytest.fixture(scope="module")
def asked() -> Answer:
    with sample() as path:
        return Run.read(path, use_cache=False).project(TARGETS, draws=50)


def others(answer: Answer) -> dict[str, Table]:
    """The tables behind those of all targets, by title."""
    return {t.title: t for t in projection_section(answer, verdicts(answer.projections))["others"]}


def test_every_way_to_port_stands_beside_the_others(asked: Answer) -> None:
    table = others(asked)["ways to port the program"]
    rows = [[c.text for c in row] for row in table.rows]
    mi300a, gh200 = load("mi300a").title, load("gh200").title
    assert [(row[0], row[1]) for row in rows] == [
        (mi300a, "as it is"),
        (mi300a, "zero copy"),
        (gh200, "as it is"),
        (gh200, "zero copy"),
        (gh200, "managed memory"),
    ], "a machine of one way is left out"
    ways: tuple[tuple[str, Port], ...] = (
        ("mi300a", "as-is"),
        ("mi300a", "zero-copy"),
        ("gh200", ""),
        ("gh200", "zero-copy"),
        ("gh200", "managed"),
    )
    for row, (target, port) in zip(rows, ways, strict=True):
        alone = asked.run.project(
            [target], model=replace(nething(port=port), replay="auto"), draws=0
        )[target]
        assert (
            alone.copies is not None
            and row[2] == number(alone.copies.seconds, "s")
            and row[3] == seconds(alone.seconds)
        )
        assert row[4].startswith(f"{alone.penalty:.3f}× [") and row[5].startswith(
            f"{alone.by_coupling.penalty:.3f}× ["
        )


def test_ways_to_port_are_asked_on_the_same_network() -> None:
    """A message of 1 MB takes a second on the network asked about: that is in every way to port."""
    sent = call(0, "Send", 0, 1_000, partner=1, tag=0, size_bytes=1 << 20)
    received = call(1, "Recv", 0, 100_000, partner=0, tag=0, size_bytes=1 << 20)
    of_rank = {"process": process_of(thread(0)), "correlation": 1}
    api = [
        {
            "start_ns": 200_000,
            "end_ns": 203_000,
            "thread": thread(0),
            "name": "cudaLaunchKernel",
            "result": 0,
            **of_rank,
        }
    ]
    kernels = [
        {
            "start_ns": 205_000,
            "end_ns": 300_000,
            "device": 0,
            "context": 1,
            "stream": 7,
            "name": "k",
            **of_rank,
        }
    ]
    run = Run.of(build(recorded(sent, received, api=api, kernels=kernels)), source="a100-sxm4-40")
    table = others(
        run.project(["mi300a"], draws=0, network=OnNetwork("self", ("hop_seconds=0.5 s",)))
    )["ways to port the program"]
    assert len(table.rows) == 2 and all(
        float(row[4].text.split("×")[0]) > 100 for row in table.rows
    )


def test_no_way_to_choose_is_no_table(asked: Answer) -> None:
    one = Answer(
        asked.run, asked.model, asked.targets[3:], asked.projections[3:], asked.seed, asked.draws
    )
    assert "ways to port the program" not in others(one)


def test_a_port_changes_the_copies_of_a_model_alone() -> None:
    model = nething("memory", host=1.5)
    other = ported(model, "managed")
    assert (other.port, other.alpha, other.host) == ("managed", "memory", 1.5)
    kept = [a is b for a, b in zip(model.charges, other.charges, strict=True)]
    assert [c.name for c, same in zip(model.charges, kept, strict=True) if not same] == [
        "copy_h2d",
        "copy_d2h",
    ]


def test_targets_are_called_by_title_unless_two_have_the_same(asked: Answer) -> None:
    assert names(asked.projections) == [load(t).title for t in TARGETS]
    twins = [replace(p, title="Our node") for p in asked.projections[:2]]
    assert names([*twins, asked.projections[2]]) == ["mi300a", "gh200", load("h100-sxm5").title]
