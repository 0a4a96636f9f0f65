"""Strong scaling by a law through recordings of one program on several numbers of ranks."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from runs import read_once

from turnbuckle.mpi.questions.messages import scaling
from turnbuckle.mpi.questions.messages.question import replayed
from turnbuckle.mpi.questions.messages.scaling import BOUND, Scaled, best, fitted, law_of, scaled
from turnbuckle.mpi.questions.messages.setup import Setup
from turnbuckle.mpi.replay.messages import Traffic
from turnbuckle.mpi.replay.patterns import Pattern, traffic_of


def program(ranks: int) -> Traffic:
    """A two-dimensional halo exchange of a grid that is divided: sides fall with the root of the
    ranks, work with their number.
    """
    return traffic_of(
        Pattern(
            "halo",
            2,
            sizes=(1.6e6 / math.sqrt(ranks),),
            exchanges=5,
            periodic=True,
            compute_seconds=0.64 / ranks,
        ),
        ranks,
    )


@given(st.floats(0.1, 10), st.floats(-1.5, 1.0), st.integers(3, 6), st.integers(2, 4))
def test_a_power_law_comes_back(a: float, b: float, count: int, beyond: int) -> None:
    recorded = {2**k: a * (2.0**k) ** b for k in range(1, count + 1)}
    ranks = 2 ** (count + beyond)
    law = law_of("compute", "s", recorded, ranks)
    assert law.value == pytest.approx(a * ranks**b, rel=1e-6)
    assert law.low <= law.value * (1 + 1e-9) and law.value <= law.high * (1 + 1e-9)
    assert (
        law.word == "decided" and abs(law.held_out) < 1e-6 and law.unchanged == recorded[2**count]
    )


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("a + b log2 n", lambda n: 1 + 0.5 * np.log2(n)),
        ("a + b / n", lambda n: 0.5 + 8 / n),
        ("a + b / sqrt(n)", lambda n: 0.5 + 8 / n**0.5),
        ("a + b n", lambda n: 3 + 0.5 * n),
    ],
)
def test_each_form_is_found(form: str, value: Callable[[Any], Any]) -> None:
    ranks = np.array([2.0, 4.0, 8.0, 16.0, 32.0])
    fit = best(ranks, value(ranks))
    assert (
        fit.form == form
        and fit.value(64.0) == pytest.approx(float(value(64.0)))
        and fit.error(64.0) == pytest.approx(0, abs=1e-6)
    )


def test_by_hand() -> None:
    """Times 8, 4, 3 on 2, 4, 8 ranks: the first two say 2 on eight, a third too little, so the law
    is undetermined.

    The power law through all three by logarithms: slope -0.5 ln(8 / 3) / ln 2 = -0.7075, mean ln(8
    4 3) / 3 at ln 4.
    """
    law = law_of("communication", "s", {2: 8.0, 4: 4.0, 8: 3.0}, 16)
    assert law.held_out == pytest.approx(2 / 3 - 1) and law.held_out_unchanged == pytest.approx(
        4 / 3 - 1
    )
    assert abs(law.held_out) > BOUND and law.word == "undetermined"
    assert law.low <= law.value / 1.5 + 1e-12 and law.high >= law.value * 1.5 - 1e-12, (
        "no narrower than what the law misses"
    )
    power = fitted(np.array([2.0, 4.0, 8.0]), np.array([8.0, 4.0, 3.0]), "a n^b")
    assert power.values[1] == pytest.approx(-0.5 * math.log(8 / 3) / math.log(2))
    assert power.value(4.0) == pytest.approx(96 ** (1 / 3))
    # residuals r, -2 r, r with r = ln(8 / power.value(2)): spread sqrt(6) r with one degree of
    # freedom, Student's t 6.314
    r = abs(math.log(8 / power.value(2.0)))
    row = 1 + 1 / 3 + (2 * math.log(2)) ** 2 / (2 * math.log(2) ** 2)
    assert power.error(16.0) == pytest.approx(6.3138 * math.sqrt(6) * r * math.sqrt(row), rel=1e-4)


def test_what_is_nothing_stays_nothing() -> None:
    assert law_of("bytes", "B", {2: 0.0, 4: 0.0, 8: 0.0}, 64).value == 0.0
    some = law_of("bytes", "B", {2: 0.0, 4: 5.0, 8: 9.0}, 64)
    assert some.word == "undetermined" and math.isnan(some.value)


def test_a_divided_grid_is_predicted_where_repeating_is_not() -> None:
    """The truth is the program on 64 ranks; repeated from 36 ranks, each has 64 / 36 of the work
    and 8 / 6 of the bytes.
    """
    setup = Setup(ranks=64, fidelity="logp")
    answer = scaled([program(n) for n in (4, 9, 16, 36)], setup, ranks_per_node=[1])
    truth = replayed(program(64), replace(setup, ranks=0)).row
    laws = {(law.quantity, law.path): law for law in answer.laws}
    assert (
        laws["messages", ""].value == pytest.approx(20, rel=1e-6) == laws["messages", ""].repeated
    )
    assert laws["bytes", ""].value == pytest.approx(20 * 1.6e6 / 8, rel=1e-6)
    assert laws["bytes", ""].repeated == pytest.approx(20 * 1.6e6 / 6, rel=1e-6)
    assert laws["compute", ""].value == pytest.approx(truth.compute_seconds, rel=1e-6)
    assert laws["compute", ""].repeated == pytest.approx(truth.compute_seconds * 64 / 36, rel=1e-6)
    for quantity, recorded in (
        ("communication", truth.communication_seconds),
        ("run time", truth.seconds),
    ):
        law = laws[quantity, "hostcopy"]
        assert law.value == pytest.approx(recorded, rel=0.05) and law.repeated is not None
        assert abs(law.value - recorded) < abs(law.repeated - recorded) / 4
        assert abs(law.held_out) < 0.05 < abs(law.held_out_unchanged) and law.word == "decided"


def test_what_is_refused() -> None:
    runs = [program(4), program(9)]
    refused("A194", scaled, runs, Setup(ranks=64))
    refused("A194", scaled, [*runs, program(4)], Setup(ranks=64))
    refused("A435", scaled, [*runs, program(16)], Setup())


def test_real_recordings_on_the_command_line(shared: Path, turnbuckle: Callable[..., Any]) -> None:
    """LAMMPS on 2, 4 and 8 ranks (Score-P): its compute and its run time have a law; its
    communication has none within the bound.
    """
    files = [
        str(shared / f"traces/otf2-local/scorep-lammps-melt-{n}r/archive/traces.otf2")
        for n in (2, 4, 8)
    ]
    words = ["--set", "ranks=16", "--ranks-per-node", "1", "--fidelity", "logp"]
    made: list[Scaled] = []

    def made_once(*asked: Any, **options: Any) -> Scaled:
        """One answer is shown as JSON and as a table."""
        made[:] = made or [scaled(*asked, **options)]
        return made[0]

    with read_once(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(scaling, "scaled", made_once)
        answer = json.loads(turnbuckle("model", "messages", *files, *words, "--format", "json").out)
        shown = " ".join(turnbuckle("model", "messages", *files, *words).out.split())
        assert "A435" in turnbuckle("model", "messages", *files, *words, "--study").err
    assert "A194" in turnbuckle("model", "messages", *files[:2], *words).err
    assert (
        answer["ranks"] == 16 and answer["recorded_ranks"] == [2, 4, 8] and answer["bound"] == BOUND
    )
    laws = {(law["quantity"], law["path"]): law for law in answer["laws"]}
    compute, talk, run = (
        laws["compute", ""],
        laws["communication", "host"],
        laws["run time", "host"],
    )
    assert (
        abs(compute["held_out"]) < 0.1 < 0.8 < compute["held_out_repeated"]
        and compute["word"] == "decided"
    )
    assert abs(run["held_out"]) < 0.1 < abs(run["held_out_unchanged"])
    assert talk["word"] == "undetermined" and abs(talk["held_out"]) > BOUND
    assert run["interval"][0] < run["value"] < run["interval"][1] < run["recorded"]["8"]
    assert (
        "On 16 ranks" in shown
        and "what is missed on 8 ranks" in shown
        and "communication undetermined" in shown
    )
