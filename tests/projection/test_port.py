"""What becomes of copies on a target with one memory: they stay, are dropped, or pages move instead
(decision D24).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from refusals import refused

from turnbuckle.examples import sample
from turnbuckle.foundation.arrays import Float, Text
from turnbuckle.machine import Machine, load
from turnbuckle.profile.pieces import Pieces
from turnbuckle.projection.admission import ports
from turnbuckle.projection.elsewhere.host_reads import link_rate
from turnbuckle.projection.elsewhere.priors import ZERO_COPY
from turnbuckle.projection.model import Port, nething
from turnbuckle.projection.projection import Projection
from turnbuckle.projection.run import Run
from turnbuckle.show.target_table import coupling_words
from turnbuckle.show.terminal.asked import model_of


@pytest.fixture(scope="module")
def run() -> Run:
    with sample() as path:
        return Run.read(path, use_cache=False)


def on(run: Run, target: str | Machine, port: Port) -> Projection:
    return run.project(
        [target], model=replace(nething("hold", host=1.0, port=port), replay="auto"), draws=200
    ).projections[0]


def pieces_of(sizes: Float, memory: Text) -> Pieces:
    """Make a copy to the device of each size."""
    none, count = np.full(len(sizes), "", dtype=object), np.ones(len(sizes))
    kind, category, way = (
        np.full(len(sizes), word, dtype=object) for word in ("copy_h2d", "copy", "h2d")
    )
    return Pieces(
        kind,
        category,
        none,
        way,
        memory,
        count > 1,
        sizes,
        count,
        count,
        count,
        count,
        np.full(len(sizes), None, dtype=object),
    )


def test_copies_stay_at_the_rate_of_the_package(run: Run) -> None:
    rate = load("mi300a").value("package.copy_bandwidth")
    as_is, dropped, open_question = (on(run, "mi300a", port) for port in ("as-is", "zero-copy", ""))
    assert rate and as_is.copies and dropped.copies and open_question.copies
    moved = as_is.copies.size_bytes / rate
    assert moved < as_is.copies.seconds < moved + as_is.copies.count * 3e-6 * 2, (
        "bytes at its rate, and the fixed part of each"
    )
    assert as_is.copies.low < as_is.copies.seconds < as_is.copies.high
    assert dropped.copies.seconds == dropped.copies.high == 0
    assert (
        "copied inside the package" in as_is.copies.classes[0].basis
        and dropped.copies.classes[0].basis == "one memory: no copy"
    )
    assert open_question.seconds < dropped.seconds < 1.1 * open_question.seconds, (
        "kernels on memory that the host allocated take longer"
    )
    assert (
        dropped.interval
        and dropped.interval.low <= open_question.seconds
        and ZERO_COPY in dropped.drivers
    )
    assert open_question.copies.high > 0, "without an answer the copies may stay"


def test_small_pageable_copies_are_staged_below_the_threshold_that_the_machine_states() -> None:
    sizes = np.array([2.0**19, 2.0**20, 2.0**19])
    memory = np.array(["pageable", "pageable", "pinned"], dtype=object)
    machine = load("mi300a")
    rate, threshold = (
        machine.value("package.copy_bandwidth"),
        machine.value("package.staging_threshold"),
    )
    assert rate and threshold == 2**20
    copies = pieces_of(sizes, memory)
    charge = next(c for c in nething("hold", port="as-is").charges if c.name == "copy_h2d")
    took = charge.seconds(copies, machine, load("a100-sxm4-80"))
    assert took is not None
    assert took[0] - took[2] == pytest.approx(sizes[0] / rate), "copied twice"
    assert took[1] - took[2] == pytest.approx((sizes[1] - sizes[2]) / rate), (
        "and once from the threshold on"
    )
    unstated = replace(
        machine,
        parameters={
            n: p for n, p in machine.parameters.items() if n != "package.staging_threshold"
        },
    )
    plain = charge.seconds(copies, unstated, load("a100-sxm4-80"))
    assert plain is not None and plain[0] == plain[2], "nothing is assumed of others"


@pytest.mark.parametrize(
    "target", ["mi300a", "gb10", "strix-halo", "2026-apu", "gh200", "mapped-memory"]
)
def test_words_follow_the_port(run: Run, target: str) -> None:
    """Copies are said to vanish where the answer has none, and else at which rate they move."""
    for port in ports(load(target)):
        answer = on(run, target, port)
        assert answer.copies
        vanish = answer.coupling["copies_vanish"]
        assert vanish == ("copies vanish" in coupling_words(answer)) == (answer.copies.seconds == 0)
        assert vanish or answer.coupling["h2d"]["target_bandwidth"] > 0
        assert answer.alone is None or answer.alone.coupling == answer.coupling


def test_pages_move_at_the_stated_rate(run: Run) -> None:
    rate = load("gh200").value("package.managed_bandwidth")
    managed, as_is = (on(run, "gh200", port) for port in ("managed", "as-is"))
    assert rate and managed.copies and managed.copies.seconds > managed.copies.size_bytes / rate
    assert managed.seconds > as_is.seconds == on(run, "gh200", "").seconds, (
        "two memories: the copies of the program stay"
    )
    assert "managed memory" in managed.copies.classes[0].basis


def test_over_a_coherent_link_the_bytes_cross_once_without_a_copy(run: Run) -> None:
    as_is, dropped = (on(run, "gh200", port) for port in ("as-is", "zero-copy"))
    assert as_is.copies and dropped.copies
    gh200 = load("gh200")
    rate = link_rate(gh200)
    assert rate
    crossing = dropped.copies.size_bytes / rate
    assert dropped.copies.seconds == pytest.approx(crossing, rel=0.01), (
        "either way at the rate of reads, and no fixed part"
    )
    assert crossing < as_is.copies.seconds
    assert "coherent link" in dropped.copies.classes[0].basis and ZERO_COPY not in dropped.drivers


def test_what_a_target_does_not_allow(run: Run) -> None:
    for target, port, word in (
        ("h100-sxm5", "zero-copy", "one memory"),
        ("h100-sxm5", "managed", "managed memory"),
    ):
        assert word in refused("A149", on, run, target, port).what
    refused("A012", model_of, "flop", "additive", ["data=2"], port="as-is")
    assert on(run, "self", "zero-copy").seconds == run.judged.seconds, (
        "the run itself is ported to nothing"
    )
