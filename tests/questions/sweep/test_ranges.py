"""Axes that are ranges: samples that can be made again, and points that are added where the answer
changes.
"""

from __future__ import annotations

import json
import math
import tracemalloc
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from sweep_kinds import study_of

from turnbuckle.questions.sweep.answers.journal import Journal, _digested, journal_of, read_journal
from turnbuckle.questions.sweep.answers.outcomes import Answers, Outcome, Outcomes
from turnbuckle.questions.sweep.grid import Study
from turnbuckle.questions.sweep.points import Held, Kind
from turnbuckle.questions.sweep.question import Serial, sweep
from turnbuckle.questions.sweep.ranges import Range, Refine, Sample, planned

DELAYS = Range(1e-7, 1e-3, "log")


@dataclass(frozen=True)
class Compared:
    """Two machines, one of which is better near, the other far."""

    delay_seconds: float
    on: Literal["near", "far"] = "near"
    load: int = 1
    path: Literal["hostcopy", "gpudirect"] = "gpudirect"


def compared(held: Held, asked: Compared) -> Mapping[str, Any]:
    """`near` runs shorter up to a delay of 7 us times the load."""
    seconds = asked.delay_seconds if asked.on == "near" else 7e-6 * asked.load
    return {
        "seconds": 1.0 + seconds,
        "measured_seconds": 1.0 + 3e-5,
        "communication_seconds": seconds,
    }


KIND = Kind("compared", Compared, compared, release="1")


def study(folder: Path, **axes: Any) -> Study:
    (folder / "run.bin").write_text("run")
    return Study("study", KIND, {"run": folder / "run.bin"}, {}, (), axes, folder)


def refined(folder: Path, budget: int, within: float = 0.01, **axes: Any) -> Study:
    every, refine = planned(axes, budget, within, None)
    return replace(study(folder, **{n: [1.0] for n in axes}), axes=every, refine=refine)


# --- samples


@pytest.mark.parametrize("sampler", ["sobol", "latin"])
def test_a_sample_is_the_same_for_the_same_seed_and_within_its_range(
    tmp_path: Path, sampler: Any
) -> None:
    asked = replace(
        study(tmp_path, delay_seconds=[1.0]),
        axes={"on": ["near", "far"], "delay_seconds": DELAYS},
        sample=Sample(64, sampler, 3),
    )
    first, again = (sweep(replace(asked), Serial()).table() for _ in range(2))
    assert first.equals(again) and first.height == 128
    delays = first["delay_seconds"].to_numpy()
    assert delays.min() >= DELAYS.first and delays.max() <= DELAYS.last
    assert (delays[::2] == delays[1::2]).all() and len(np.unique(delays)) == 64, (
        "each place is asked with every value of the list"
    )
    decades = np.histogram(np.log10(delays[::2]), bins=4, range=(-7, -3))[0]
    assert decades.tolist() == [16] * 4, "both samplers fill equal parts of the logarithm alike"
    other = sweep(replace(asked, sample=Sample(64, sampler, 4)), Serial()).table()
    assert not first.equals(other)


def test_a_larger_sobol_sample_goes_on_from_the_journal_of_a_smaller(tmp_path: Path) -> None:
    asked = replace(
        study(tmp_path, delay_seconds=[1.0]), axes={"delay_seconds": DELAYS}, sample=Sample(100)
    )
    output = tmp_path / "t.parquet"
    assert sweep(asked, Serial(), output=output).computed == 100
    more = sweep(replace(asked, sample=Sample(160)), Serial(), output=output)
    assert (more.computed, more.from_journal) == (60, 100)


@given(
    st.integers(-50, 50),
    st.integers(1, 60),
    st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=20),
)
def test_whole_numbers_stay_whole_and_inside(first: int, length: int, shares: list[float]) -> None:
    values = Range(first, first + length, whole=True).values(np.array(shares))
    assert all(isinstance(v, int) and first <= v <= first + length for v in values)


def test_a_table_by_column_is_that_of_its_points(tmp_path: Path) -> None:
    pairs = ({"on": "near", "load": 1}, {"on": "far", "load": 2})
    asked = replace(
        study(tmp_path, delay_seconds=[1.0]),
        pairs=pairs,
        axes={"delay_seconds": DELAYS, "path": ["hostcopy", "gpudirect"]},
        sample=Sample(5),
    )
    found = sweep(asked, Serial())
    assert found.table().to_dicts() == found.rows() and len(found.rows()) == len(asked) == 20
    assert [p.values for p in asked.points()] == [
        {n: row[n] for n in ("on", "load", "delay_seconds", "path")} for row in found.rows()
    ]


def test_what_cannot_be_sampled_or_refined_is_refused(tmp_path: Path) -> None:
    plain = study(tmp_path, delay_seconds=[1e-6, 1e-5])
    refused("A084", replace, plain, axes={"delay_seconds": DELAYS})
    refused("A084", replace, plain, sample=Sample(4))
    refused("A084", replace, plain, recordings={}, sample=None)
    for words in ((0,), (2**40,), (4, "halton"), (4, "sobol", -1)):
        refused("A084", Sample, *words)
    refused(
        "A084", planned, {"delay_seconds": DELAYS, "load": Range(1, 9, whole=True)}, 10, 0.01, None
    )
    refused("A084", planned, {"on": ["near", "far"]}, 10, 0.01, None)
    refused("A084", planned, {"delay_seconds": DELAYS}, 10, 0.01, Sample(4))
    refused("A084", planned, {"delay_seconds": DELAYS}, 0, 0.01, None)
    refused("A084", planned, {"delay_seconds": DELAYS}, 10, 1.5, None)
    refused(
        "A083",
        sweep,
        refined(tmp_path, 10, delay_seconds=DELAYS),
        Serial(),
        output=tmp_path / "t.csv",
        shard=(1, 2),
    )


# --- refined


@pytest.mark.parametrize("within", [0.2, 0.01, 1e-4])
def test_a_crossover_is_known_to_the_width_asked(tmp_path: Path, within: float) -> None:
    found = sweep(
        refined(tmp_path, 1000, within, on=["near", "far"], delay_seconds=DELAYS), Serial()
    )
    (change,) = found.crossovers()
    assert change.low <= 7e-6 <= change.high and 0 < change.width <= within
    assert (change.below, change.above) == ("near before far", "far before near")
    assert found.added <= 2 * (2 + math.ceil(math.log2(math.log(1e4) / 4 / math.log1p(within))))


def test_the_budget_is_kept_and_the_width_left_is_said(tmp_path: Path) -> None:
    asked = refined(tmp_path, 5, on=["near", "far"], delay_seconds=DELAYS)
    found = sweep(asked, Serial())
    (change,) = found.crossovers()
    assert found.added == 4 and found.table().height == 14, "a place costs two points here"
    assert (
        change.width > 0.01
        and asked.refine is not None
        and not asked.refine.closed(change.low, change.high)
    )


def test_each_combination_has_a_crossover_of_its_own(tmp_path: Path) -> None:
    one_axis = refined(tmp_path, 1000, on=["near", "far"], delay_seconds=DELAYS)
    found = sweep(replace(one_axis, axes={**one_axis.axes, "load": [1, 3]}), Serial())
    changes = {c.settings["load"]: c for c in found.crossovers()}
    assert set(changes) == {1, 3}
    assert all(c.low <= 7e-6 * load <= c.high and c.width <= 0.01 for load, c in changes.items())


def test_paths_and_a_single_question_have_answers_that_change(tmp_path: Path) -> None:
    (change,) = sweep(refined(tmp_path, 200, delay_seconds=DELAYS), Serial()).crossovers()
    assert (change.below, change.above) == ("shorter than recorded", "longer than recorded")
    assert change.low <= 3e-5 <= change.high


def test_refined_again_from_the_journal_computes_nothing(tmp_path: Path) -> None:
    asked, output = (
        refined(tmp_path, 60, on=["near", "far"], delay_seconds=DELAYS),
        tmp_path / "t.parquet",
    )
    first = sweep(asked, Serial(), output=output)
    again = sweep(asked, Serial(), output=output)
    assert (
        again.computed == 0
        and first.table().equals(again.table())
        and first.added == again.added > 0
    )


def test_a_list_of_whole_numbers_is_refined_down_to_neighbours(tmp_path: Path) -> None:
    every, refine = planned({"on": ["near", "far"], "load": [1, 50]}, 100, 0.001, None)
    asked = replace(
        study(tmp_path, delay_seconds=[1.0]),
        settings={"delay_seconds": 7e-6 * 20.5},
        axes=every,
        refine=refine,
    )
    (change,) = sweep(asked, Serial()).crossovers()
    assert (change.low, change.high) == (20, 21)
    assert isinstance(refine, Refine) and refine.over.whole


# --- many points


def test_many_points_take_little_memory_and_a_small_journal(tmp_path: Path) -> None:
    asked = replace(
        study(tmp_path, delay_seconds=[1.0]), axes={"delay_seconds": DELAYS}, sample=Sample(1_000)
    )
    sweep(replace(asked, sample=Sample(100)), Serial())  # what is loaded once is not of the points
    tracemalloc.start()
    found = sweep(asked, Serial(), output=tmp_path / "t.parquet", workers=800)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.computed == 1_000 and found.missing == 0
    assert peak / 1_000 < 700, "bytes a point"
    assert journal_of(tmp_path / "t.parquet").stat().st_size / 1_000 < 400


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), FLOATS, st.text(max_size=5)
)
OUTCOMES = st.one_of(
    st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4).map(Outcome),
    st.builds(
        lambda code, error: Outcome({}, code, error),
        st.sampled_from(["A071", "A165"]),
        st.text(max_size=8),
    ),
)


def exact(outcomes: Iterable[Outcome | None]) -> str:
    """Outcomes with the type of every value, whatever the order of their names."""
    return repr([o and (sorted(o.results.items()), o.code, o.error) for o in outcomes])


@given(st.lists(OUTCOMES, max_size=20))
def test_outcomes_come_back_as_they_went_in(some: list[Outcome]) -> None:
    assert exact(Outcomes.of(some)) == exact(some)
    grown = Answers()
    for k, outcome in enumerate(some):
        grown.put(f"{k:032x}", outcome)
    assert exact(grown.values()) == exact(some)


@given(st.lists(OUTCOMES, min_size=1, max_size=20), st.integers(1, 5))
def test_a_journal_gives_back_every_bit(
    tmp_path_factory: pytest.TempPathFactory, some: list[Outcome], batch: int
) -> None:
    path = tmp_path_factory.mktemp("journal") / "t.journal"
    asked = [(f"{k:032x}", outcome) for k, outcome in enumerate(some)]
    with Journal(path) as journal:
        for k in range(0, len(asked), batch):
            journal.write(asked[k : k + batch])
    answers, unread = read_journal(path)
    assert unread == 0 and exact(answers[key] for key, _ in asked) == exact(some)


def test_a_journal_of_the_first_version_goes_on(tmp_path: Path) -> None:
    asked, output = study_of(tmp_path), tmp_path / "t.csv"
    whole = sweep(asked, Serial(), output=output)
    journal = journal_of(output)
    answers, _ = read_journal(journal)
    lines = ['{"journal": "turnbuckle sweep", "version": 1}']
    lines += [
        json.dumps({"key": k, "results": dict(o.results), "code": o.code, "error": o.error})
        for k, o in list(answers.items())[:15]
    ]
    journal.write_text("\n".join(lines) + "\n")
    found = sweep(asked, Serial(), output=output)
    assert (found.computed, found.from_journal, found.notes) == (
        9,
        15,
        (),
    ) and found.table().equals(whole.table())
    assert sweep(asked, Serial(), output=output).computed == 0


@pytest.mark.parametrize(
    "line",
    [
        {"keys": "AAAA", "results": {}},
        {"keys": "!", "results": {}},
        {"keys": "A" * 22 + "==", "results": {"a": [1, 2]}},
        {"keys": "A" * 22 + "==", "results": {"a": {"f8": "AAAA"}}},
        {"keys": "A" * 22 + "==", "results": {"a": {"all": [1]}}},
        {"key": "zz", "results": {}, "code": "", "error": ""},
        {"key": "00" * 16, "results": {"a": {}}, "code": "", "error": ""},
        7,
        None,
    ],
)
def test_a_hostile_line_is_counted_and_left_out(tmp_path: Path, line: Any) -> None:
    path = tmp_path / "t.journal"
    with Journal(path):
        pass
    with path.open("ab") as file:
        # with the digest that belongs to it: whoever wrote the line, it is read with care
        file.write(
            _digested(json.dumps(line).encode() + b"\n")
            if isinstance(line, dict)
            else json.dumps(line).encode() + b"\n"
        )
    answers, unread = read_journal(path)
    assert (len(answers), unread) == (0, 1)
