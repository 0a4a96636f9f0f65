"""A workload: laws that tie it to `project`, sums by hand, and files that are refused."""

from __future__ import annotations

import json
import math
from contextlib import closing
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from shutil import copyfile
from sqlite3 import connect
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpi_rows import call, recorded, thread
from refusals import refused

import turnbuckle as tb
from turnbuckle.cli.app import dispatch
from turnbuckle.foundation.fields import json_text
from turnbuckle.profile.profile import build
from turnbuckle.projection.elsewhere.hosts import HOST_SPEED
from turnbuckle.projection.elsewhere.network import OnNetwork
from turnbuckle.projection.projection import Projection, chance_faster
from turnbuckle.questions.suite import mix
from turnbuckle.questions.suite.answer import Ratio, Suite
from turnbuckle.questions.suite.figures import figures
from turnbuckle.questions.suite.page import sentences
from turnbuckle.questions.suite.portfolio import Estimate, Member, Offer, Portfolio, read_portfolio
from turnbuckle.questions.suite.question import of_files
from turnbuckle.questions.suite.tables import of_suite
from turnbuckle.trace.ids import process_of
from turnbuckle.trace.window import Part

EXAMPLES = Path(tb.__file__).parent / "examples"
MILC, DGEMM = EXAMPLES / "milc-like-synthetic.sqlite", EXAMPLES / "dgemm-like-synthetic.sqlite"
ON = ("gh200", "cdi-row-link", "nvlink-c2c")
DRAWS = 80


@pytest.fixture(scope="module")
def runs() -> dict[str, tb.Run]:
    return {path.stem.split("-")[0]: tb.read(path, use_cache=False) for path in (MILC, DGEMM)}


@pytest.fixture(scope="module")
def asked(runs: dict[str, tb.Run]) -> dict[str, tb.Answer]:
    """What `project` answers of each recording by itself."""
    return {name: run.project(ON, draws=DRAWS) for name, run in runs.items()}


def portfolio(runs: dict[str, tb.Run], weights: dict[str, float], *offers: Offer) -> Portfolio:
    members = tuple(Member(name, runs[name], weight) for name, weight in weights.items())
    return Portfolio(members, offers or tuple(Offer(name) for name in ON))


@pytest.fixture(scope="module")
def both(runs: dict[str, tb.Run]) -> Suite:
    offers = (
        Offer("self", Estimate(1.0, 1.0), Estimate(900.0, 900.0), 100.0),
        Offer("gh200", Estimate(1.6, 2.0), None, 50.0),
        *(Offer(name) for name in ON[1:]),
    )
    return of_files(portfolio(runs, {"milc": 3.0, "dgemm": 1.0}, *offers), draws=DRAWS)


# --- laws -----------------------------------------------------------------------------------------


def same(suite: Suite, projections: list[Projection]) -> None:
    """Hold the cells of the only application, and the mix, to what `project` answers."""
    for p, cell, together in zip(
        projections, suite.applications[0].cells, suite.mixes[1:], strict=True
    ):
        assert (cell.seconds, cell.penalty.value, cell.coupling_alone.value) == (
            p.seconds,
            p.penalty,
            p.by_coupling.penalty,
        )
        assert (cell.penalty.low, cell.penalty.high) == tuple(
            end / p.measured_seconds for end in p.ends
        )
        assert together.node_hours.value == p.penalty


def test_of_one_recording_it_is_project(
    runs: dict[str, tb.Run], asked: dict[str, tb.Answer]
) -> None:
    answer, alone = asked["milc"], of_files(runs["milc"], ON, draws=DRAWS)
    faster, by_coupling = answer.faster(), answer.coupling_faster()
    same(alone, answer.projections)
    for p, cell, together in zip(
        answer.projections, alone.applications[0].cells, alone.mixes[1:], strict=True
    ):
        for mixed, of_project in (
            (together.node_hours, cell.penalty),
            (together.coupling_alone, cell.coupling_alone),
        ):
            assert (mixed.low, mixed.high) == pytest.approx(
                (of_project.low, of_project.high), rel=1e-12
            )
        assert together.throughput.value == pytest.approx(p.benefit, rel=1e-15)
        assert together.ssi is not None and together.ssi.raw.value == pytest.approx(
            p.benefit, rel=1e-14
        )
        for other in answer.projections:
            if other is not p:
                pair = alone.pair(p.target, other.target)
                assert pair.beats == faster[p.target][other.target]
                assert pair.beats_by_coupling == by_coupling[p.target][other.target]


def test_of_one_recording_on_another_network_it_is_project() -> None:
    rows = [
        call(
            rank,
            name,
            (30 * k + at) * 1000,
            (30 * k + at + 10) * 1000,
            partner=1 - rank,
            tag=0,
            size_bytes=4096 << k,
        )
        for k in range(6)
        for rank, name, at in ((k % 2, "Send", 0), (1 - k % 2, "Recv", 2))
    ]
    about = {"process": process_of(thread(0)), "correlation": 1}
    api = [
        {
            "thread": thread(0),
            "start_ns": 400_000,
            "end_ns": 405_000,
            "name": "cudaLaunchKernel",
            **about,
        }
    ]
    kernels = [
        {
            "device": 0,
            "context": 1,
            "stream": 7,
            "start_ns": 410_000,
            "end_ns": 450_000,
            "name": "stencil",
            **about,
        }
    ]
    run = tb.Run.of(build(recorded(*rows, api=api, kernels=kernels)))
    plain = of_files(run, "cdi-row-link", draws=0)
    assert plain.network == "" and plain.as_dict()["network"] is None
    network = OnNetwork("perlmutter", ("ranks_per_node=1",), "lassen")
    answer = of_files(run, "cdi-row-link", draws=DRAWS, network=network)
    projections = run.project("cdi-row-link", draws=DRAWS, network=network).projections
    same(answer, projections)
    assert projections[0].seconds != plain.applications[0].cells[0].seconds
    assert (
        answer.as_dict()["network"] == "perlmutter, ranks_per_node=1"
        and "perlmutter" in of_suite(answer)[0].caption
    )
    refused("A472", of_files, run, network="perlmutter")
    refused("A472", of_files, run, "self", network="perlmutter")


def test_of_one_recording_with_kernels_and_a_part_it_is_project(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "kernels.csv"
    table.write_text("name, ratio, error, source\n*, 1.75, 0.1, by hand\n")
    words = [
        str(MILC),
        "--on",
        "gh200",
        "--kernels",
        str(table),
        "--part",
        "steady",
        "--draws",
        "0",
        "--format",
        "json",
    ]
    answers = []
    for verb in ("suite", "project"):
        assert dispatch([verb, *words]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    (cell,), (projection,) = answers[0]["applications"][0]["targets"], answers[1]["projections"]
    assert (cell["seconds"], cell["penalty"]["value"]) == (
        projection["seconds"],
        projection["penalty"],
    )
    assert cell["seconds"] != of_files(MILC, "gh200", draws=0).applications[0].cells[0].seconds
    assert (
        answers[0]["provenance"]["profiles"][0]["part"]
        == answers[1]["provenance"]["profile"]["part"]
        is not None
    )


def test_a_part_is_of_each_recording_that_names_none(runs: dict[str, tb.Run]) -> None:
    members = (Member("a", MILC), Member("b", MILC, part="kernels"))
    answer = of_files(Portfolio(members, (Offer("cdi-row-link"),)), draws=0, part="steady")
    wanted = [tb.Run.read(MILC, part=part).seconds for part in ("steady", "kernels")]
    assert [a.measured_seconds for a in answer.applications] == wanted and wanted[0] != wanted[1]
    refused("A056", of_files, runs["milc"], part="steady")
    refused("A070", of_files, MILC, part="nowhere=1", draws=0)


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An example and its first half as the two ranks of one recording."""
    folder = tmp_path_factory.mktemp("ranks")
    first_half = Path(copyfile(DGEMM, folder / "half.sqlite"))
    with closing(connect(first_half)) as database, database:
        (half_ns,) = database.execute(
            "SELECT (min(start) + max(start)) / 2 FROM CUPTI_ACTIVITY_KIND_RUNTIME"
        ).fetchone()
        for kind in ("RUNTIME", "KERNEL", "MEMCPY"):
            database.execute(f"DELETE FROM CUPTI_ACTIVITY_KIND_{kind} WHERE start > ?", (half_ns,))
    assert (
        dispatch(
            ["merge", str(DGEMM), str(first_half), "--clock", "recorded", "-o", str(folder / "run")]
        )
        == 0
    )
    return folder / "run"


@pytest.fixture(scope="module")
def merged_seconds(merged: Path) -> float:
    return of_files(merged, "cdi-row-link", draws=0).applications[0].cells[0].seconds


@pytest.mark.parametrize(
    "words",
    [
        ["--rank", "1"],
        ["--clean-time", "1.7575s"],
        ["--rank", "0", "--part", "kernels", "--clean-time", "1.401s"],
    ],
    ids=" ".join,
)
def test_of_one_rank_and_its_time_without_profiler_it_is_project(
    merged: Path, merged_seconds: float, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    capsys.readouterr()
    answers = []
    for verb in ("suite", "project"):
        assert (
            dispatch(
                [
                    verb,
                    str(merged),
                    "--on",
                    "cdi-row-link",
                    "--draws",
                    "0",
                    "--format",
                    "json",
                    *words,
                ]
            )
            == 0
        )
        answers.append(json.loads(capsys.readouterr().out))
    (cell,), (projection,) = answers[0]["applications"][0]["targets"], answers[1]["projections"]
    assert (cell["seconds"], cell["penalty"]["value"]) == (
        projection["seconds"],
        projection["penalty"],
    )
    assert cell["seconds"] != merged_seconds
    assert (
        answers[0]["provenance"]["profiles"][0]["part"]
        == answers[1]["provenance"]["profile"]["part"]
        is not None
    )


def test_a_portfolio_has_two_ranks_of_one_recording_and_their_times(
    merged: Path, tmp_path: Path
) -> None:
    lines = [
        "[recordings.first]",
        f'file = "{merged}"',
        "rank = 0",
        'clean_time = "1.7575 s"',
        "[recordings.second]",
        f'file = "{merged}"',
    ]
    (tmp_path / "mix.toml").write_text("\n".join(lines))
    answer = of_files(tmp_path / "mix.toml", "cdi-row-link", draws=0, rank=1, clean_seconds=0.9645)
    for a, rank, clean in zip(answer.applications, (0, 1), (1.7575, 0.9645), strict=True):
        run = tb.Run.read(merged, part=Part(rank=rank), clean_seconds=clean)
        assert (a.measured_seconds, a.cells[0].seconds) == (
            run.seconds,
            run.project("cdi-row-link", draws=0).projections[0].seconds,
        )


def test_a_time_without_profiler_is_of_one_recording(runs: dict[str, tb.Run]) -> None:
    refused("A492", of_files, [MILC, DGEMM], clean_seconds=1.0)
    refused(
        "A492",
        of_files,
        Portfolio((Member("a", MILC, clean_seconds=1.0),), (Offer("gh200"),)),
        clean_seconds=1.0,
    )
    refused("A056", of_files, runs["milc"], rank=0)
    refused("A056", of_files, runs["milc"], clean_seconds=1.0)
    assert "milc" in refused("A423", of_files, MILC, "gh200", rank=7).where


def test_each_application_is_project_beside_others_too(
    asked: dict[str, tb.Answer], both: Suite
) -> None:
    for a in both.applications:
        projections = asked[a.name].projections
        assert [(c.seconds, c.penalty.low) for c in a.cells] == [
            (p.seconds, p.ends[0] / p.measured_seconds) for p in projections
        ]


@pytest.mark.parametrize("factor", [3.0, 1e-7])
def test_weights_that_scale_together_change_nothing(
    runs: dict[str, tb.Run], both: Suite, factor: float
) -> None:
    scaled = of_files(portfolio(runs, {"milc": 3.0 * factor, "dgemm": factor}), draws=DRAWS)
    assert [m.node_hours.value for m in scaled.mixes] == pytest.approx(
        [m.node_hours.value for m in both.mixes], rel=1e-14
    )
    assert [m.node_hours.high for m in scaled.mixes] == pytest.approx(
        [m.node_hours.high for m in both.mixes], rel=1e-14
    )
    assert [v.beats for v in scaled.versus] == [v.beats for v in both.versus]


def test_the_order_of_the_recordings_changes_nothing(runs: dict[str, tb.Run], both: Suite) -> None:
    turned = of_files(portfolio(runs, {"dgemm": 1.0, "milc": 3.0}), draws=DRAWS)
    assert [m.node_hours for m in turned.mixes] == [m.node_hours for m in both.mixes]
    assert turned.versus[0].premium == both.versus[0].premium
    assert {a.name: a.cells for a in turned.applications} == {
        a.name: a.cells for a in both.applications
    }


@given(st.lists(st.tuples(st.floats(1e-3, 1e3), st.floats(0.1, 10.0)), min_size=1, max_size=5))
def test_means_lie_between_their_terms_and_know_no_order(pairs: list[tuple[float, float]]) -> None:
    def means(some: list[tuple[float, float]]) -> tuple[float, float]:
        shares, penalties = mix.shares([w for w, _ in some]), [p for _, p in some]
        return mix.total([s * p for s, p in zip(shares, penalties, strict=True)]), mix.geometric(
            [1.0] * len(some), shares, penalties, 1.0
        )

    hours, ssi = means(pairs)
    penalties = [p for _, p in pairs]
    assert min(penalties) * (1 - 1e-12) <= hours <= max(penalties) * (1 + 1e-12)
    # the harmonic mean of the speedups is never above their geometric mean
    assert 1 / hours <= ssi * (1 + 1e-12)
    assert {means(list(turned)) for turned in permutations(pairs)} == {(hours, ssi)}


@given(st.floats(0.01, 0.99), st.floats(-1, 1), st.floats(-1, 1))
def test_where_the_ranking_turns_both_come_to_the_same(
    share: float, one: float, others: float
) -> None:
    turns = mix.flips_at(share, one, share * one + (1 - share) * others)
    if turns is not None:
        assert 0 <= turns <= 1
        assert turns * one + (1 - turns) * others == pytest.approx(0, abs=1e-9)
    elif abs(one) > 1e-6 and abs(others) > 1e-6:
        assert one * others > 0, "no share turns it only where each alone ranks them alike"


# --- by hand --------------------------------------------------------------------------------------


def test_the_mix_by_hand(asked: dict[str, tb.Answer], both: Suite) -> None:
    samples = []
    for k, together in enumerate(both.mixes[1:]):
        milc, dgemm = (asked[name].projections[k] for name in ("milc", "dgemm"))
        assert together.node_hours.value == pytest.approx(
            0.75 * milc.penalty + 0.25 * dgemm.penalty, rel=1e-14
        )
        assert together.ssi is not None
        nodes = 0.5 if k == 0 else 1.0
        assert together.ssi.raw.value == pytest.approx(
            nodes * milc.benefit**0.75 * dgemm.benefit**0.25, rel=1e-12
        )
        assert (together.ssi.conformant is None) == (milc.penalty > 1 or dgemm.penalty > 1)
        assert milc.sample is not None and dgemm.sample is not None
        samples.append(
            0.75 * milc.sample / milc.measured_seconds
            + 0.25 * dgemm.sample / dgemm.measured_seconds
        )
    assert both.pair("gh200", "cdi-row-link").beats == pytest.approx(
        chance_faster(samples[0], samples[1])
    )
    premium = both.pair("nvlink-c2c", "cdi-row-link").premium
    assert premium.value == pytest.approx(
        both.mixes[2].node_hours.value / both.mixes[3].node_hours.value - 1
    )
    assert premium.low == pytest.approx(
        min(float(np.quantile(samples[1] / samples[2] - 1, 0.05)), premium.value)
    )


def test_what_is_unknown_of_a_machine_moves_all_applications_at_once(
    asked: dict[str, tb.Answer], both: Suite
) -> None:
    """The range of the mix is that of common draws, which no sum of independent ones has."""

    def together(target: str) -> float:
        projected = [asked[name][target] for name in ("milc", "dgemm")]
        p, q = (np.asarray(one.sample) / one.measured_seconds for one in projected)
        hours = next(m.node_hours for m in both.mixes if m.target == target)
        ends = np.quantile(0.75 * p + 0.25 * q, (0.05, 0.95))
        # the ranges of the applications reach further than their draws where the order may be wrong
        for share, one, drawn in zip((0.75, 0.25), projected, (p, q), strict=True):
            ends = ends + share * (
                np.asarray(one.ends) / one.measured_seconds - np.quantile(drawn, (0.05, 0.95))
            )
        assert (hours.low, hours.high) == pytest.approx(
            (min(ends[0], hours.value), max(ends[1], hours.value)), rel=1e-12
        )
        return correlated(*projected)

    assert together("cdi-row-link") > 0.9
    # a GH200's host moves one by its speed at the program's code and the other by its speed at
    # calls: two numbers, two draws
    first = [
        next(d for d in asked[name]["gh200"].drivers if d.startswith("common/host"))
        for name in ("milc", "dgemm")
    ]
    assert first == ["common/host grace, code", "common/host grace, driver"]
    assert together("gh200") < 0.5


def correlated(p: Projection, q: Projection) -> float:
    """Return the correlation of two projections, after holding it to the unknowns that both depend
    on.

    What is unknown of a number has one draw wherever it stands: the correlation of the logarithms
    is the sum over the common unknowns of the roots of their shares in both ranges.
    """
    shared = sum(
        math.sqrt(p.drivers[name] * q.drivers[name]) for name in set(p.drivers) & set(q.drivers)
    )
    found = float(np.corrcoef(np.log(np.asarray(p.sample)), np.log(np.asarray(q.sample)))[0, 1])
    assert found == pytest.approx(shared, abs=2 / math.sqrt(DRAWS)), (p.target, q.target)
    return found


@pytest.mark.parametrize("name", ["milc", "dgemm"])
def test_two_targets_share_the_draws_of_what_they_share(runs: dict[str, tb.Run], name: str) -> None:
    """One host is one unknown in both; of two hosts the source's alone is common, and a link has no
    host of its own.
    """
    answer = runs[name].project(("gh200", "gb200", "mi300a", "cdi-row-link"), draws=DRAWS)
    gh200, gb200, mi300a, row = answer.projections
    hosts = [{d for d in p.drivers if "host" in d} for p in (gh200, gb200, mi300a, row)]
    assert hosts[0] == hosts[1] and len(hosts[0]) == 2
    assert hosts[0] & hosts[2] == {HOST_SPEED}
    assert not hosts[3]
    assert correlated(gh200, gb200) > 0.95
    assert correlated(gh200, mi300a) < 0.5
    assert abs(correlated(gh200, row)) < 2 / math.sqrt(DRAWS)


def test_cost_is_price_times_node_hours_and_energy_power_times_them(both: Suite) -> None:
    today, gh200, row = both.mixes[:3]
    assert gh200.cost is not None and today.cost is not None and today.energy is not None
    assert gh200.cost.value == pytest.approx(math.sqrt(1.6 * 2.0) * gh200.node_hours.value)
    assert (today.cost.value, today.cost.low, today.cost.high) == (1.0, 1.0, 1.0)
    assert today.energy.value == 900 * 3600
    assert row.cost is None and both.pair("gh200", "cdi-row-link").cheaper is None
    assert (
        gh200.cost.low < gh200.node_hours.low * 2.0
        and both.pair("self", "gh200").cheaper is not None
    )


def test_the_ranking_turns_where_a_mix_of_that_share_ties(runs: dict[str, tb.Run]) -> None:
    offers = (Offer("self", Estimate(1.0, 1.0)), Offer("nvlink-c2c", Estimate(1.2, 1.2)))
    answer = of_files(portfolio(runs, {"milc": 3.0, "dgemm": 1.0}, *offers), draws=0)
    turn = next(f for f in answer.flips if f.by == "cost" and f.application == "milc")
    assert turn.flips_at is not None and turn.better == "self"
    tied = of_files(
        portfolio(runs, {"milc": turn.flips_at, "dgemm": 1 - turn.flips_at}, *offers), draws=0
    )
    assert tied.mixes[0].cost is not None and tied.mixes[1].cost is not None
    assert tied.mixes[0].cost.value == pytest.approx(tied.mixes[1].cost.value, rel=1e-12)


def test_the_range_of_the_turn_is_that_of_the_draws_in_which_a_share_turns(
    runs: dict[str, tb.Run], asked: dict[str, tb.Answer], both: Suite
) -> None:
    """In each draw both machines tie at the share, or one of them needs fewer node-hours for either
    application alone.
    """
    seen = set()
    # a GB300 is the faster for one application alone (its FP64 is slow), so a share turns it at the
    # stated values
    on = ("nvlink-c2c", "gb300", "cdi-row-link")
    turned = of_files(portfolio(runs, {"milc": 3.0, "dgemm": 1.0}, *map(Offer, on)), draws=DRAWS)
    alone = {name: run.project(on, draws=DRAWS) for name, run in runs.items()}
    for f, asked_alone in (
        (f, a) for s, a in ((both, asked), (turned, alone)) for f in s.flips if f.by == "node-hours"
    ):
        penalties = {}
        for target in (f.better, f.worse):
            of_self = {name: np.ones(DRAWS) for name in runs}
            projected = {} if target == "self" else {n: a[target] for n, a in asked_alone.items()}
            samples = (
                of_self
                if target == "self"
                else {n: np.asarray(p.sample) / p.measured_seconds for n, p in projected.items()}
            )
            penalties[target] = [
                samples[f.application],
                *(s for name, s in samples.items() if name != f.application),
            ]
        grown, shrunk = (penalties[f.worse][k] - penalties[f.better][k] for k in (0, 1))
        turning = grown * shrunk < -1e-12
        assert f.turns == turning.mean()
        seen.add((f.flips_at is not None, 0 < f.turns < 1))
        if not turning.any():
            assert f.low is None and f.high is None
            continue
        assert f.low is not None and f.high is not None
        ties = (shrunk / (shrunk - grown))[turning]
        low, high = np.quantile(ties, (0.05, 0.95))
        value = [] if f.flips_at is None else [f.flips_at]
        assert (f.low, f.high) == pytest.approx(
            (min(low, *value), max(high, *value)) if value else (low, high), rel=1e-6
        )
    assert {stated for stated, _ in seen} == {True, False}, (
        "pairs that a share turns at the stated values, and pairs that none does"
    )


def test_without_draws_the_share_that_turns_is_as_with_them_and_has_no_range(
    runs: dict[str, tb.Run],
) -> None:
    offers = (Offer("self", Estimate(1.0, 1.0)), Offer("nvlink-c2c", Estimate(1.1, 1.2)))
    plain, drawn = (
        of_files(portfolio(runs, {"milc": 3.0, "dgemm": 1.0}, *offers), draws=draws)
        for draws in (0, 20)
    )
    assert [f.flips_at for f in plain.flips] == [f.flips_at for f in drawn.flips]
    assert all(f.low is None and f.high is None and f.turns is None for f in plain.flips)
    stated = [f for f in drawn.flips if f.flips_at is not None]
    assert stated
    for f in stated:
        assert (
            f.low is None or f.high is None or f.flips_at is None or f.low <= f.flips_at <= f.high
        )
        assert f.turns is not None and (f.low is not None or f.turns == 0)
    # a price that is unknown moves the share by cost
    assert any(f.low is not None and f.low < (f.flips_at or 0.0) for f in stated if f.by == "cost")


def test_without_draws_a_range_is_the_number(runs: dict[str, tb.Run]) -> None:
    answer = of_files(list(runs.values()), "cdi-row-link", draws=0)
    assert all(m.node_hours.low == m.node_hours.value == m.node_hours.high for m in answer.mixes)
    assert answer.versus[0].beats is None and answer.draws == 0
    assert "likely" not in answer.headline()


def test_groups_are_suites_of_their_own(runs: dict[str, tb.Run]) -> None:
    members = (
        Member("a", runs["milc"], 3.0, "lattice"),
        Member("b", runs["dgemm"], 1.0, "dense"),
        Member("c", runs["dgemm"], 4.0, "dense"),
    )
    answer = of_files(Portfolio(members, (Offer("cdi-row-link"),)), draws=20)
    lattice, dense = answer.groups
    assert (lattice.name, lattice.share, dense.share) == ("lattice", 0.375, 0.625)
    alone, cell = dense.mixes[1].node_hours, answer.applications[1].cells[0].penalty
    assert (alone.value, alone.low, alone.high) == pytest.approx(
        (cell.value, cell.low, cell.high), rel=1e-12
    )
    assert lattice.mixes[1].node_hours.value == answer.applications[0].cells[0].penalty.value


# --- files ----------------------------------------------------------------------------------------

PORTFOLIO = """
[suite]
name = "two codes"
currency = "CHF"
[recordings]
dgemm = "dgemm.sqlite"
[recordings.milc]
file = "milc.sqlite"
node_hours = 1200
group = "lattice"
source = "a100-sxm4-40-pcie4"
part = "steady"
capability = 2
rank = 3
clean_time = "900 ms"
[targets.gh200]
price = {from = 1.6, to = 2.0}
power = "900 W"
nodes = 50
[targets.self]
price = 1
"""


def test_a_portfolio_says_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "mix.toml").write_text(PORTFOLIO)
    read = read_portfolio(tmp_path / "mix.toml")
    assert (read.name, read.currency) == ("two codes", "CHF")
    assert read.members[0] == Member("dgemm", tmp_path / "dgemm.sqlite")
    assert read.members[1] == Member(
        "milc",
        tmp_path / "milc.sqlite",
        1200.0,
        "lattice",
        "a100-sxm4-40-pcie4",
        "steady",
        2.0,
        3,
        0.9,
    )
    assert read.offers == (
        Offer("self", Estimate(1, 1)),
        Offer("gh200", Estimate(1.6, 2.0), Estimate(900, 900), 50.0),
    )
    assert [o.name for o in read.on(["gh200", "mi300a"]).offers] == ["self", "gh200", "mi300a"]


@pytest.mark.parametrize(
    ("code", "line", "old", "new"),
    [
        ("A441", 4, 'currency = "CHF"', "currency = 3"),
        ("A441", 4, 'currency = "CHF"', "money = 3"),
        ("A441", 9, "node_hours = 1200", "node_hours = -1"),
        ("A441", 9, "node_hours = 1200", "node_hours = true"),
        ("A441", 9, "node_hours = 1200", 'weight = "3"'),
        ("U004", 9, "node_hours = 1200", 'node_hours = "many"'),
        ("A441", 8, 'file = "milc.sqlite"', ""),
        ("A070", 12, 'part = "steady"', 'part = "some of it"'),
        ("A441", 14, "rank = 3", "rank = -1"),
        ("A441", 14, "rank = 3", 'rank = "first"'),
        ("A441", 15, '"900 ms"', "0.9"),
        ("U001", 15, '"900 ms"', '"0.9"'),
        ("A441", 17, "to = 2.0", ""),
        ("A441", 17, "to = 2.0", "to = 1.0"),
        ("A441", 17, "to = 2.0", "until = 2.0"),
        ("U001", 18, '"900 W"', '"900"'),
        ("U003", 18, '"900 W"', '"900 s"'),
        ("A441", 18, '"900 W"', "[900]"),
        ("A441", 20, "[targets.self]\nprice = 1", "[targets]\nself = 3"),
        ("M001", 16, "[targets.gh200]", "[targets.gh2000]"),
        ("A441", 3, 'name = "two codes"', "name = two"),
    ],
)
def test_what_a_portfolio_cannot_say_is_refused_with_its_place(
    tmp_path: Path, code: str, line: int, old: str, new: str
) -> None:
    (tmp_path / "mix.toml").write_text(PORTFOLIO.replace(old, new, 1))
    error = refused(code, read_portfolio, tmp_path / "mix.toml")
    file, where, *_ = error.where.split(":")
    assert file == "mix.toml" and abs(int(where) - line) <= 1


def test_a_portfolio_needs_recordings(tmp_path: Path) -> None:
    (tmp_path / "mix.toml").write_text("[targets.gh200]\n")
    refused("A441", read_portfolio, tmp_path / "mix.toml")
    refused("A443", of_files, [])


def test_recordings_of_one_name_go_by_their_folder(runs: dict[str, tb.Run], tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "trace.sqlite").write_bytes(DGEMM.read_bytes())
    paths = [tmp_path / name / "trace.sqlite" for name in ("one", "two")]
    answer = of_files(paths, "cdi-row-link", draws=0, use_cache=False)
    assert [a.name for a in answer.applications] == ["one", "two"]
    refused("A442", of_files, [runs["milc"], runs["milc"]], "gh200")
    refused("A442", of_files, [paths[0], paths[0]], "gh200")


def test_a_recording_that_cannot_be_projected_is_named(
    runs: dict[str, tb.Run], tmp_path: Path
) -> None:
    (tmp_path / "gone.sqlite").write_text("nothing")
    error = refused(
        "P004",
        of_files,
        Portfolio(
            (Member("milc", runs["milc"]), Member("gone", tmp_path / "gone.sqlite")),
            (Offer("gh200"),),
        ),
    )
    assert "gone" in error.where


# --- two answers ----------------------------------------------------------------------------------


def test_both_answers_of_a_cell_have_one_shape(both: Suite) -> None:
    for a in both.applications:
        for p, cell, row in zip(a.projections, a.cells, declared_cells(both, a.name), strict=True):
            assert (cell.verdict, cell.coupling_verdict) == (p.verdict, p.by_coupling.verdict)
            assert set(row["coupling_alone"]) == set(row) - {
                "target",
                "title",
                "cannot_say",
                "coupling_alone",
            }
            assert row["coupling_alone"]["seconds"] == p.by_coupling.seconds


def declared_cells(suite: Suite, name: str) -> list[dict[str, Any]]:
    """The cells of an application in the JSON document."""
    return next(a["targets"] for a in suite.as_dict()["applications"] if a["name"] == name)


def test_the_headline_says_which_answer_and_the_first_page_how_good_it_is(both: Suite) -> None:
    best = both.ranked[0]
    assert best.which in both.headline() and best.which in sentences(both)[0]
    assert (
        both.accuracy.startswith("checked against") and both.as_dict()["accuracy"] == both.accuracy
    )


@pytest.mark.parametrize(
    ("own", "alone", "which"),
    [
        (Ratio(0.7, 0.5, 1.4), Ratio(1.0, 0.99, 1.02), "with its own GPU and host"),
        (Ratio(0.94, 0.93, 0.95), Ratio(0.9, 0.67, 1.18), "by the coupling alone"),
        (Ratio(0.6, 0.5, 0.8), Ratio(1.0, 0.99, 1.02), "with its own GPU and host"),
        (Ratio(1.01, 1.0, 1.02), Ratio(1.01, 1.0, 1.02), "by the coupling alone"),
        (Ratio(math.nan, math.nan, math.nan), Ratio(1.0, 0.99, 1.02), "by the coupling alone"),
    ],
)
def test_of_both_answers_the_one_whose_range_holds_the_other_is_told(
    both: Suite, own: Ratio, alone: Ratio, which: str
) -> None:
    unknown = "FP64 of gb300" if math.isnan(own.value) else ""
    mix = replace(both.mixes[1], node_hours=own, coupling_alone=alone, unknown=unknown)
    assert mix.which == which and mix.told in (own, alone)


def test_an_answer_that_cannot_be_given_ranks_nothing(
    runs: dict[str, tb.Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tb.Run.project

    def unsaid(run: tb.Run, *asked: Any, **options: Any) -> tb.Answer:
        answer = project(run, *asked, **options)
        return replace(
            answer,
            projections=[
                p.unanswered("FP64 of gh200").drawn(p.draws) if p.alone else p
                for p in answer.projections
            ],
        )

    monkeypatch.setattr(tb.Run, "project", unsaid)
    suite = of_files(runs["milc"], ON, draws=DRAWS)
    assert suite.ranked[-1].target == "gh200" and suite.ranked[-1].unknown == "FP64 of gh200"
    assert (
        suite.pair("gh200", "self").beats is None
        and suite.pair("nvlink-c2c", "self").beats is not None
    )
    texts = [cell.text for table in of_suite(suite) for row in table.rows for cell in row]
    assert "cannot say" in texts and not any("nan" in text for text in texts)
    cell = next(c for c in suite.applications[0].cells if c.target == "gh200")
    assert cell.verdict == "cannot say: FP64 of gh200" and cell.coupling_alone.value > 0
    assert json_text(suite.as_dict()) and len(figures(suite)) >= 3
