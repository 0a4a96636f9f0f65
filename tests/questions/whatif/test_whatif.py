"""Edits of a program: closed forms on runs made by hand, and laws on recordings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hostile_names import Ran
from refusals import refused
from rows import Row, call, copy, on_device, profile_of
from runs import run_of

import turnbuckle as tb
from turnbuckle.page.changes_section import changes_section
from turnbuckle.projection.run import Run
from turnbuckle.questions.whatif.figures import best
from turnbuckle.questions.whatif.question import _MODEL, Whatif, of_run
from turnbuckle.questions.whatif.unordered import parts
from turnbuckle.show.figures.figure import draw
from turnbuckle.show.text import percent

US = 1_000
SAMPLE = Path(tb.__file__).parent / "examples" / "milc-like-synthetic.sqlite"
PART = "0.3s..0.5s"


def asked(**rows: list[Row]) -> Whatif:
    return of_run(Run.of(profile_of(**rows)), draws=0)


def ends(answer: Whatif, name: str) -> tuple[float, float]:
    """Run time with an edit by the end of least gain and of most gain [us]."""
    saving = next(gain for gain in answer.gains if gain.name == name).savings[0]
    return saving.least_seconds * 1e6, saving.most_seconds * 1e6


def test_without_a_wait_the_next_kernel_begins_when_the_device_is_free() -> None:
    """Two kernels of 100 us, with a wait and 8 us of the host's own work between: the second begins
    20 us earlier.
    """
    answer = asked(
        api=[
            call(0, 5 * US, 1),
            call(6 * US, 112 * US, name="cudaDeviceSynchronize"),
            call(120 * US, 125 * US, 2),
            call(126 * US, 232 * US, name="cudaDeviceSynchronize"),
        ],
        kernels=[on_device(10 * US, 110 * US, 1), on_device(130 * US, 230 * US, 2)],
    )
    assert answer.unchanged[0].seconds * 1e6 == pytest.approx(232)
    assert ends(answer, "wait cudaDeviceSynchronize") == pytest.approx((232, 212), abs=0.01)
    assert answer.gains[0].count == 1, "who waits for the end of the run waits for its result"


def test_in_a_graph_launches_take_half_or_nothing() -> None:
    """Ten launches of 10 us one after the other, each kernel of 1 us begins 14 us after its call:
    the host is what takes time.

    The second kernel, the first that repeats, begins at 24 us and ends the start-up: the launches
    from 30 us on may be captured.
    """
    n = 10
    answer = asked(
        api=[call(k * 10 * US, (k + 1) * 10 * US, k + 1) for k in range(n)],
        kernels=[on_device(k * 10 * US + 14 * US, k * 10 * US + 15 * US, k + 1) for k in range(n)],
    )
    assert answer.unchanged[0].seconds * 1e6 == pytest.approx(105)
    gain = next(gain for gain in answer.gains if gain.name == "graph")
    assert gain.count == 7
    # six of them lie before the last call; at best all are made at 30 us, and seven kernels follow
    # each other from 44 us on
    assert ends(answer, "graph") == pytest.approx((105 - 6 * 5, 44 + 7), abs=0.01)


def test_a_copy_on_its_own_stream_leaves_the_order_of_kernels() -> None:
    """A kernel of 100 us, a copy of 100 us behind it, then a kernel that needs both: the copy is
    made beside the first kernel.
    """
    answer = asked(
        api=[
            call(0, 1 * US, 1),
            call(2 * US, 3 * US, 2, "cudaMemcpyAsync"),
            call(4 * US, 5 * US, 3),
            call(6 * US, 312 * US, name="cudaDeviceSynchronize"),
        ],
        kernels=[on_device(10 * US, 110 * US, 1), on_device(210 * US, 310 * US, 3)],
        copies=[copy(110 * US, 210 * US, size=1 << 20, correlation=2)],
    )
    least, most = ends(answer, "own stream")
    assert least == pytest.approx(312)
    # the copy begins one delivery (10 us) after its call: 12 to 112 us; the second kernel follows
    # both
    assert most == pytest.approx(112 + 100 + 2, abs=0.1)


def test_a_pool_spares_what_allocating_takes_and_its_waiting() -> None:
    """Three allocations in the steady part, of 2, 40 and 60 us: at most all of it, at least down to
    the fastest tenth.
    """
    api = [call(0, 5 * US, 1), call(10 * US, 15 * US, 2)]
    now = 20
    for took in (2, 40, 60):
        api.append(call(now * US, (now + took) * US, name="cudaMalloc"))
        now += took + 5
    api.append(call(now * US, (now + 5) * US, 3))
    end = now + 10
    kernels = [
        on_device(5 * US, 6 * US, 1),
        on_device(16 * US, 17 * US, 2),
        on_device((end - 1) * US, end * US, 3),
    ]
    answer = asked(api=api, kernels=kernels)
    least, most = ends(answer, "pool")
    fast = 2 + 0.2 * (40 - 2)  # the tenth of three durations
    assert most == pytest.approx(end - 102, abs=0.01)
    assert least == pytest.approx(end - (102 - 2 - 2 * fast), abs=0.01)


def test_nothing_changed_is_what_project_answers() -> None:
    """One answer: the program as it is has the run times and ranges of `project`."""
    run = run_of(SAMPLE, PART)
    answer, projected = (
        run.whatif(["gh200", "cdi-row-link"], draws=40),
        run.project(["self", "gh200", "cdi-row-link"], draws=40),
    )
    for unchanged in answer.unchanged:
        p = projected[unchanged.target]
        assert unchanged.seconds == p.seconds
        assert (unchanged.lower, unchanged.upper) == (
            (p.interval.low, p.interval.high) if p.interval else (None, None)
        )


def test_savings_lie_in_their_ranges_and_together_save_no_less() -> None:
    run = run_of(SAMPLE, PART)
    names = [gain.name for gain in run.whatif(draws=0).gains]
    answer = run.whatif(["gh200", "cdi-row-link"], names, draws=40)
    assert answer.together is not None and len(names) > 2
    for gain in answer.gains:
        for mine, all_of_them in zip(gain.savings, answer.together.savings, strict=True):
            assert (
                mine.lower is not None
                and mine.upper is not None
                and mine.lower <= mine.share <= mine.upper
            )
            assert mine.most_seconds <= mine.least_seconds * (1 + 1e-9)
            assert all_of_them.most_seconds <= mine.most_seconds * (1 + 1e-9)
    here = [gain.savings[0].share for gain in answer.gains]
    assert here == sorted(here, reverse=True) and min(here) > -1e-9


def test_the_command_line_says_the_same(turnbuckle: Callable[..., Ran]) -> None:
    said = json.loads(
        turnbuckle(
            "whatif", SAMPLE, "--part", PART, "--on", "gh200", "--draws", 30, "--format", "json"
        ).out
    )
    made = json.loads(run_of(SAMPLE, PART).whatif("gh200", draws=30).to_json())
    for key in ("measured_seconds", "draws", "unchanged", "edits", "together"):
        assert said[key] == made[key], key


def test_what_an_edit_saves_at_most_without_an_order_holds_what_it_saves_with_one() -> None:
    """Waits that are made later save no more than all waits take; times of the graph are whole
    nanoseconds.
    """
    for path in (SAMPLE, SAMPLE.with_name("dgemm-like-synthetic.sqlite")):
        run = tb.read(path).judged
        answer = of_run(run, draws=0)
        saved = {gain.name: answer.measured - gain.savings[0].most_seconds for gain in answer.gains}
        for part in parts(run.prepared(_MODEL).run, run.source, _MODEL):
            alike = [
                name
                for name in saved
                if name == part.name or (part.name == "wait" and name.startswith("later "))
            ]
            assert alike and max(saved[name] for name in alike) <= part.most + 1e-9 * part.count, (
                part.name
            )


def test_without_an_order_edits_save_from_nothing_to_what_they_change() -> None:
    """Kernels overlap another on their own stream: launches take 3 of 5 us, the wait 18, and what
    an order needs is left out.
    """
    api = [call(10 * k * US, (10 * k + 5) * US, k + 1) for k in range(40)]
    api.append(call(400 * US, 420 * US, name="cudaDeviceSynchronize"))
    kernels = [on_device((10 * k + 6) * US, (10 * k + 26) * US, k + 1) for k in range(39)]
    run = Run.of(profile_of(api=api, kernels=kernels))
    answer = of_run(run, "cdi-row-link", draws=20)
    told = [f for f in answer.findings if f.code == "A741"]
    assert (
        len(told) == 1
        and "own stream" in told[0].detail
        and "A309" not in {f.code for f in answer.findings}
    )
    assert [u.target for u in answer.unchanged] == ["self", "cdi-row-link"]
    saved = {g.name: g.savings for g in answer.gains}
    assert set(saved) == {"graph", "wait"}
    for name, most in (("graph", 40 * 5e-6), ("wait", 20e-6)):
        (saving,) = saved[name]
        assert saving.target == "self" and saving.least_seconds == run.seconds
        assert run.seconds - saving.most_seconds == pytest.approx(most, rel=0.2)
        assert saving.lower == 0.0 and saving.upper == pytest.approx(
            1 - saving.most_seconds / run.seconds
        )
    assert draw([answer.figure()]) and json.loads(answer.to_json())["together"] is None
    assert "0.0% to" in answer.headline()
    refused("A122", of_run, run, apply=["graph"], draws=0)


def test_an_edit_that_is_not_offered_is_refused() -> None:
    error = refused("A436", run_of(SAMPLE, PART).whatif, apply=["grahp"])
    assert "graph" in str(error.lines())


def test_a_machine_stands_beside_the_edits_with_what_it_saves_by_itself() -> None:
    """The saving of a machine is one less the ratio of the answers of `project`; a sentence names
    the edits that save as much here.
    """
    run = run_of(SAMPLE)
    answer = run.whatif(["pcie5-x16", "cdi-row-link"], draws=20)
    projected = run.project(["self", "pcie5-x16", "cdi-row-link"], draws=20)
    for unchanged in answer.unchanged:
        assert unchanged.share == pytest.approx(
            1 - projected[unchanged.target].seconds / projected["self"].seconds, abs=1e-12
        )
    faster = next(u for u in answer.unchanged if u.target == "pcie5-x16")
    assert faster.share > 0.001
    (sentence,) = answer.beside()
    sure, best = sentence.split("as much at best:")
    assert faster.title in sure and "as much here" not in sure, "pinning saves 2 %, this link 4 %"
    for gain in answer.gains:
        assert (gain.name in best) == (gain.on_source[1] >= faster.share), gain.name


def test_an_export_with_edits_shows_the_run_as_recorded_and_with_them(tmp_path: Path) -> None:
    """The measured side stays; the other ends when `whatif` says at best; its critical path is that
    of the changed program.
    """
    run = run_of(SAMPLE, PART)
    names = ["graph", "later cudaStreamSynchronize"]
    answer = run.whatif(apply=names, draws=0)
    assert answer.together is not None
    made, plain = (
        json.loads(
            run.export(tmp_path / f"{k}.json", "self", apply=apply).read_text(encoding="utf-8")
        )
        for k, apply in enumerate((names, []))
    )
    (projection,) = made["otherData"]["projections"]
    assert projection["seconds"] == pytest.approx(answer.together.savings[0].most_seconds, abs=1e-9)
    assert made["otherData"]["edits"] == names and "edits" not in plain["otherData"]

    def side(document: dict[str, Any], word: str) -> list[Any]:
        """Slices on the tracks of one side, by begin and length."""
        processes = {
            e["pid"]
            for e in document["traceEvents"]
            if e["name"] == "process_name" and e["args"]["name"].startswith(word)
        }
        return sorted(
            (e["ts"], e["dur"], e["name"])
            for e in document["traceEvents"]
            if e["ph"] == "X" and e["pid"] in processes
        )

    assert side(made, "measured") == side(plain, "measured")
    assert side(made, "projected") != side(plain, "projected")
    ends = [ts + dur for ts, dur, _ in side(made, "projected")]
    assert max(ends) * 1e-6 == pytest.approx(answer.together.savings[0].most_seconds, abs=2e-6)
    refused("A440", run.export, tmp_path / "no.json", "gh200", network="perlmutter", apply=names)


def test_the_figure_shows_each_edit_from_least_to_most_on_each_machine() -> None:
    answer = run_of(SAMPLE, PART).whatif(["gh200"], draws=0)
    figure = answer.figure()
    assert draw([figure])[0].svg.startswith("<svg")
    assert len(figure.legend) == 2 and len(figure.rows) == answer.table().height
    text = json.dumps(figure.spec)
    for gain in best(answer):
        assert f'"{gain.name}"' in text
        least, most = gain.on_source
        assert least <= gain.savings[0].share <= most


def test_the_report_names_the_best_edits_and_what_they_hang_on() -> None:
    """Four edits, with the shares of `whatif`, and the machine's own saving beside them."""
    run = run_of(SAMPLE, PART)
    section = changes_section(run.project(["pcie5-x16"], draws=20))
    answer = run.whatif(["pcie5-x16"], draws=0)
    own, *rows = section["table"].rows
    assert own[2].text == percent(answer.unchanged[1].share)
    assert [row[0].full for row in rows] == [gain.name for gain in best(answer, 4)]
    pin = next(row for row in rows if row[0].full == "pin")
    gain = next(gain for gain in answer.gains if gain.name == "pin")
    assert pin[1].text == percent(gain.on_source[1]) and pin[2].text == percent(gain.ends(1)[1])
    assert section["sentences"] == answer.beside()
    assert all(note.startswith("Needs: ") for note in section["table"].notes[1:])
