"""Rows set aside, flaws counted, records joined to calls: each trap with a case that a naive reader
gets wrong.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest
from frames import OTHER_PROCESS, PROCESS, THREAD, launched, tables
from hypothesis import given, settings
from hypothesis import strategies as st

from turnbuckle.foundation.findings import Finding
from turnbuckle.trace import check as module
from turnbuckle.trace.bounds import DEVICE_TABLES, sound
from turnbuckle.trace.check import check, launch_pairs, nested_calls

#: Every example joins whole tables.
COSTLY = settings(max_examples=50)

SECOND = 1_000_000_000
HOUR = 3600 * SECOND
NAMES = pl.Series(
    ["cudaLaunchKernel", "cudaGraphLaunch_v10000", "cuGraphLaunch", "cudaMemcpyAsync"],
    dtype=pl.String,
)
GRAPH_LAUNCH, DRIVER_GRAPH_LAUNCH = 1, 2


def counts(findings: list[Finding]) -> dict[str, int]:
    codes = [f.code for f in findings]
    assert len(codes) == len(set(codes)), "one finding a code"
    return {f.code: f.count for f in findings}


def checked(names: pl.Series | None = NAMES, **rows: list[dict[str, Any]]) -> dict[str, int]:
    return counts(check(tables(**rows), {}, names))


def detail(code: str, **rows: list[dict[str, Any]]) -> str:
    return next(f.detail for f in check(tables(**rows), {}, NAMES) if f.code == code)


@pytest.fixture(params=["by position", "by hash"])
def each_join(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test once with each of the two joins."""
    if request.param == "by hash":
        monkeypatch.setattr(module, "_by_position", lambda api, *_: module._by_hash(api))


def pair_rows(**rows: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    return [(t, r, a) for t, r, a, *_ in launch_pairs(tables(**rows)).iter_rows()]


def set_aside(
    facts: dict[str, Any] | None = None, **rows: list[dict[str, Any]]
) -> tuple[dict[str, int], dict[str, int]]:
    """(rows left by table, counts by code)."""
    kept, findings = sound(tables(**rows), facts or {})
    return {name: frame.height for name, frame in kept.items() if frame.height}, counts(findings)


# --- sound ----------------------------------------------------------------------------------------


def test_a_sound_run_keeps_every_row_and_says_nothing() -> None:
    given_tables = tables(**launched(5))
    kept, findings = sound(given_tables, {})
    assert findings == []
    assert all(kept[name] is frame for name, frame in given_tables.items())
    assert check(kept, {}, NAMES) == []


def test_an_end_before_its_start_is_set_aside() -> None:
    """Trap 7: CUPTI's time stamp buffers run out."""
    rows = launched(4)
    rows["kernels"][1]["end_ns"] = rows["kernels"][1]["start_ns"] - 1
    assert set_aside(**rows) == ({"api": 4, "kernels": 3}, {"P101": 1})


@pytest.mark.parametrize(
    ("start", "end"), [(0, 0), (None, None), (None, 5_000), (5_000, None), (5_000, 0)]
)
def test_a_lost_time_stamp_is_set_aside(start: int | None, end: int | None) -> None:
    """Trap 7: kernels at 0 would stretch the run back to the begin of the session."""
    rows = launched(4)
    rows["kernels"].append({"start_ns": start, "end_ns": end})
    rows["copies"] = [{"start_ns": 0, "end_ns": 0}]
    kept, found = sound(tables(**rows), {})
    assert (kept["kernels"].height, kept["copies"].height, kept["api"].height) == (4, 0, 4)
    assert counts(found) == {"P102": 2}
    assert found[0].detail == "kernels 1, copies 1"


def test_a_start_of_zero_is_believed_near_the_others_and_not_an_hour_before() -> None:
    near = launched(4)
    near["kernels"].append({"start_ns": 0, "end_ns": 50})
    assert set_aside(**near)[1] == {}
    late = launched(4)
    for row in (*late["api"], *late["kernels"]):
        row.update(start_ns=row["start_ns"] + 2 * HOUR, end_ns=row["end_ns"] + 2 * HOUR)
    late["kernels"].append({"start_ns": 0, "end_ns": 2 * HOUR + 50})
    for facts in ({}, {"analysis_duration_ns": 3 * HOUR}):
        assert set_aside(facts, **late) == ({"api": 4, "kernels": 4}, {"P102": 1})


def test_times_that_may_be_missing_are_not_lost() -> None:
    rows = launched(3)
    rows["ranges"] = [{"start_ns": 2_000, "end_ns": None, "kind": 34}]
    rows["events"] = [{"time_ns": None, "event": 1}]
    rows["page_faults"] = [{"start_ns": 4_000, "end_ns": None}]
    left, found = set_aside(**rows)
    assert found == {}
    assert (left["ranges"], left["events"], left["page_faults"]) == (1, 1, 1)


@pytest.mark.parametrize("stray", [2**63 - 1, -(2**63), 2**53 + 1, 2**52])
def test_one_impossible_time_does_not_stretch_the_run(stray: int) -> None:
    rows = launched(200)
    rows["kernels"].append({"start_ns": min(5_000, stray), "end_ns": max(5_000, stray)})
    assert set_aside(**rows) == ({"api": 200, "kernels": 200}, {"P103": 1})


def test_a_stray_that_is_also_backwards_counts_once() -> None:
    rows = launched(200)
    rows["kernels"].append({"start_ns": 2**62, "end_ns": 5})
    assert set_aside(**rows)[1] == {"P103": 1}


def test_an_allocation_or_sample_far_away_is_set_aside_too() -> None:
    rows = launched(200)
    rows["allocations"] = [{"time_ns": 2**61}, {"time_ns": 4_000}]
    assert set_aside(**rows) == ({"api": 200, "kernels": 200, "allocations": 1}, {"P103": 1})


def test_a_long_kernel_is_believed_when_the_host_saw_it_end() -> None:
    """Two hours after a second of start-up: far from the bulk of starts, but the waiting call ends
    with it.
    """
    rows = launched(300)
    rows["kernels"].append({"start_ns": 4_000_000, "end_ns": 2 * HOUR, "correlation": 1000})
    rows["api"].append({"start_ns": 4_000_100, "end_ns": 2 * HOUR + 900, "correlation": 1001})
    assert set_aside(**rows) == ({"api": 301, "kernels": 301}, {})


def test_device_tables_alone_do_not_vouch_for_a_far_time() -> None:
    """A device clock that was never put on the host's spoils kernels and copies alike."""
    rows = launched(300)
    rows["kernels"].append({"start_ns": 2**50, "end_ns": 2**50 + 10})
    rows["copies"] = [{"start_ns": 2**50, "end_ns": 2**50 + 10}]
    assert set_aside(**rows) == ({"api": 300, "kernels": 300}, {"P103": 2})


def test_agreement_is_about_one_time_and_needs_the_host() -> None:
    """Kernels and copies agree with each other, a call stands alone elsewhere: nobody vouches for
    anybody.
    """
    rows = launched(500)
    rows["kernels"].append({"start_ns": 2**50, "end_ns": 2**50 + 10})
    rows["copies"] = [{"start_ns": 2**50 + 20, "end_ns": 2**50 + 30}]
    rows["api"].append({"start_ns": 2**51, "end_ns": 2**51 + 10})
    assert set_aside(**rows) == ({"api": 500, "kernels": 500}, {"P103": 3})
    rows["api"][-1] = {"start_ns": 2**50 - 90, "end_ns": 2**50 - 80}
    assert set_aside(**rows) == ({"api": 501, "kernels": 501, "copies": 1}, {})


def test_half_an_hour_of_quiet_is_believed_where_a_call_ends_it() -> None:
    rows = launched(200)
    rows["kernels"].append({"start_ns": HOUR // 2, "end_ns": HOUR // 2 + 10})
    assert set_aside(**rows) == ({"api": 200, "kernels": 200}, {"P241": 1})
    rows["api"].append({"start_ns": HOUR // 2 - 90, "end_ns": HOUR // 2 - 80})
    assert set_aside(**rows)[1] == {}


def test_inside_the_recorded_session_nothing_is_too_far() -> None:
    rows = launched(200)
    rows["api"].append({"start_ns": 3 * HOUR, "end_ns": 3 * HOUR + 10})
    assert set_aside(**rows)[1] == {"P103": 1}
    assert set_aside({"analysis_duration_ns": 4 * HOUR}, **rows)[1] == {}
    # an end that is the last record's own is none that the file states
    assert set_aside({"analysis_duration_ns": 3 * HOUR + 10}, **rows)[1] == {"P103": 1}


def test_ten_seconds_after_a_session_nothing_happens() -> None:
    rows = launched(200)
    rows["api"].append({"start_ns": 5_000, "end_ns": 60 * SECOND})
    assert set_aside(**rows)[1] == {}
    assert set_aside({"analysis_duration_ns": 3 * SECOND}, **rows)[1] == {"P103": 1}


def test_a_table_without_times_passes() -> None:
    rows = {**launched(3), "devices": [{"device": 0, "name": "GPU"}]}
    assert set_aside(**rows)[0]["devices"] == 1


time = st.one_of(
    st.integers(-50, 50),
    st.sampled_from(
        [0, 0, None, 2**53, 2**53 + 1, -(2**53), 2**63 - 1, -(2**63), HOUR, 2 * HOUR, 11 * HOUR]
    ),
    st.integers(-(2**63), 2**63 - 1),
)
spoiled_rows = st.fixed_dictionaries(
    {
        name: st.lists(st.fixed_dictionaries({"start_ns": time, "end_ns": time}), max_size=8)
        for name in ("api", "kernels", "copies", "ranges", "page_faults")
    }
    | {"allocations": st.lists(st.fixed_dictionaries({"time_ns": time}), max_size=4)}
)


@COSTLY
@given(spoiled_rows)
def test_no_row_is_lost_without_being_counted(rows: dict[str, list[dict[str, Any]]]) -> None:
    given_tables = tables(**rows)
    kept, findings = sound(given_tables, {})
    before, after = (sum(f.height for f in t.values()) for t in (given_tables, kept))
    assert before == after + sum(f.count for f in findings)
    assert all(
        sum(int(part.split()[1]) for part in f.detail.split(", ")) == f.count for f in findings
    )
    for name in ("api", "kernels", "copies"):
        start, end = kept[name]["start_ns"], kept[name]["end_ns"]
        assert start.null_count() == end.null_count() == 0
        assert (end >= start).all() and (start >= -(2**53)).all() and (end <= 2**53).all()
        # what is kept is what was there, in its order
        assert kept[name].rows() == [
            r for r in given_tables[name].rows() if r in set(kept[name].rows())
        ]


@COSTLY
@given(spoiled_rows)
def test_what_is_sound_stays_sound_and_can_be_checked(
    rows: dict[str, list[dict[str, Any]]],
) -> None:
    kept, _ = sound(tables(**rows), {})
    counts(check(kept, {}, NAMES))
    # bounds follow the bulk, which strays no longer move
    assert {f.code for f in sound(kept, {})[1]} <= {
        "P102",
        "P103",
        "P241",
    }


# --- launch_pairs ---------------------------------------------------------------------------------


def test_an_id_that_two_processes_use_joins_inside_its_process() -> None:
    """Trap 2: a join on the id alone gives four pairs here."""
    rows = {
        "api": [
            {"start_ns": 10, "end_ns": 20, "correlation": 7, "process": PROCESS},
            {
                "start_ns": 11,
                "end_ns": 21,
                "correlation": 7,
                "process": OTHER_PROCESS,
                "thread": OTHER_PROCESS,
            },
        ],
        "kernels": [
            {"start_ns": 30, "end_ns": 40, "correlation": 7, "process": OTHER_PROCESS},
            {"start_ns": 31, "end_ns": 41, "correlation": 7, "process": PROCESS},
        ],
    }
    assert pair_rows(**rows) == [("kernels", 0, 1), ("kernels", 1, 0)]
    assert checked(**rows) == {"P124": 1}


def test_pairs_carry_the_call() -> None:
    rows = launched(3)
    rows["memsets"] = [{"start_ns": 40_000, "end_ns": 40_010, "correlation": 3}]
    pairs = launch_pairs(tables(**rows))
    assert pairs.columns == ["table", "row", "api_row", "call_start_ns", "call_end_ns", "thread"]
    assert pairs.row(1) == ("kernels", 1, 1, 11_000, 13_000, THREAD)
    assert pairs.row(3) == ("memsets", 0, 2, 21_000, 23_000, THREAD)


@pytest.mark.usefixtures("each_join")
def test_of_several_calls_with_one_id_the_outermost_is_taken() -> None:
    """A runtime call and the driver call inside it share the id; equal starts go to the longer
    call.
    """
    rows = {
        "api": [
            {"start_ns": 10, "end_ns": 30, "correlation": 1},
            {"start_ns": 12, "end_ns": 20, "correlation": 1},
            {"start_ns": 50, "end_ns": 55, "correlation": 2},
            {"start_ns": 50, "end_ns": 60, "correlation": 2},
            {"start_ns": 50, "end_ns": 52, "correlation": 2},
        ],
        "kernels": [
            {"start_ns": 40, "end_ns": 45, "correlation": 1},
            {"start_ns": 70, "end_ns": 75, "correlation": 2},
        ],
    }
    assert pair_rows(**rows) == [("kernels", 0, 0), ("kernels", 1, 3)]


@pytest.mark.usefixtures("each_join")
def test_records_of_a_process_that_made_no_call_join_nothing() -> None:
    rows = launched(2)
    rows["api"][1].update(process=PROCESS + (5 << 24), correlation=1)
    for process in (PROCESS - 1, OTHER_PROCESS, PROCESS + (9 << 24)):
        assert pair_rows(**{**rows, "kernels": launched(1, process=process)["kernels"]}) == []


@pytest.mark.usefixtures("each_join")
def test_records_without_process_join_only_where_one_process_called() -> None:
    rows = launched(2, process=None)
    assert pair_rows(**rows) == [("kernels", 0, 0), ("kernels", 1, 1)]
    rows["api"][1]["process"] = OTHER_PROCESS
    assert pair_rows(**rows) == []
    rows["kernels"][0]["process"] = PROCESS
    assert pair_rows(**rows) == [("kernels", 0, 0)]


@pytest.mark.usefixtures("each_join")
@pytest.mark.parametrize("none", [None, 0])
def test_records_without_id_join_nothing(none: int | None) -> None:
    """nsys writes 0 for migrations; a call with 0 or no id must not collect them."""
    rows = launched(1)
    rows["api"] += [
        {"start_ns": 50_000 + i, "end_ns": 50_010, "correlation": c}
        for i, c in enumerate((-1, none))
    ]
    rows["copies"] = [{"start_ns": 60_000, "end_ns": 60_010, "correlation": none, "direction": 6}]
    assert pair_rows(**rows) == [("kernels", 0, 0)]


def test_a_graph_launch_joins_all_its_kernels_without_fan_out() -> None:
    """Trap 6: graph nodes share the id of one launch."""
    rows = {
        "api": [{"start_ns": 10, "end_ns": 20, "correlation": 1, "name": GRAPH_LAUNCH}],
        "kernels": [
            {"start_ns": 30 + 10 * i, "end_ns": 40 + 10 * i, "correlation": 1, "graph_node": i}
            for i in range(3)
        ],
    }
    assert pair_rows(**rows) == [("kernels", 0, 0), ("kernels", 1, 0), ("kernels", 2, 0)]
    assert checked(**rows) == {"P133": 2}


def test_no_calls_or_no_records_give_an_empty_join_of_the_same_shape() -> None:
    full = launch_pairs(tables(**launched(1)))
    for rows in ({}, {"api": launched(1)["api"]}, {"kernels": launched(1)["kernels"]}):
        assert launch_pairs(tables(**rows)).schema == full.schema
        assert launch_pairs(tables(**rows)).height == 0
    assert launch_pairs({}).schema == full.schema


process_id = st.sampled_from([PROCESS, OTHER_PROCESS, -1, 0, 2**63 - 1])
few_ids = st.one_of(st.none(), st.integers(-2, 4))
wide_ids = st.one_of(few_ids, st.sampled_from([2**63 - 1, -(2**63), 2**40]))


@st.composite
def join_rows(draw: st.DrawFn) -> dict[str, list[dict[str, Any]]]:
    ids = draw(st.sampled_from([few_ids, wide_ids]))
    processes = draw(st.sampled_from([st.just(PROCESS), process_id]))
    span = st.tuples(st.integers(0, 6), st.integers(0, 6)).map(
        lambda t: {"start_ns": t[0], "end_ns": t[0] + t[1]}
    )
    key = st.fixed_dictionaries({"process": processes, "correlation": ids})
    record_key = st.fixed_dictionaries(
        {"process": st.one_of(st.none(), processes), "correlation": ids}
    )
    rows = {
        name: draw(st.lists(st.builds(lambda a, b: {**a, **b}, span, record_key), max_size=6))
        for name in DEVICE_TABLES
    }
    return {
        "api": draw(st.lists(st.builds(lambda a, b: {**a, **b}, span, key), max_size=8)),
        **rows,
    }


def joined_by_hand(frames: dict[str, pl.DataFrame]) -> list[tuple[str, int, int]]:
    api = list(frames["api"].select("process", "correlation", "start_ns", "end_ns").iter_rows())
    processes = {p for p, *_ in api}
    out = []
    for name in DEVICE_TABLES:
        for row, (process, correlation) in enumerate(
            frames[name].select("process", "correlation").iter_rows()
        ):
            if process is None and len(processes) == 1:
                process = next(iter(processes))
            calls = [
                (s, -e, i) for i, (p, c, s, e) in enumerate(api) if (p, c) == (process, correlation)
            ]
            if correlation and process is not None and calls:
                out.append((name, row, min(calls)[2]))
    return out


@COSTLY
@given(join_rows(), st.booleans())
def test_both_joins_agree_with_a_search_by_hand(
    rows: dict[str, list[dict[str, Any]]], hashed: bool
) -> None:
    frames = tables(**rows)
    with pytest.MonkeyPatch.context() as patch:
        if hashed:
            patch.setattr(module, "_by_position", lambda api, *_: module._by_hash(api))
        pairs = launch_pairs(frames)
    assert [(t, r, a) for t, r, a, *_ in pairs.iter_rows()] == joined_by_hand(frames)
    for _, _, call, start, end, thread in pairs.iter_rows():
        assert frames["api"].select("start_ns", "end_ns", "thread").row(call) == (
            start,
            end,
            thread,
        )


@COSTLY
@given(join_rows(), st.randoms())
def test_the_order_of_rows_does_not_matter(
    rows: dict[str, list[dict[str, Any]]], random: Any
) -> None:
    """Trap 3: since 2025.6 rows come in any order; the same records must meet the same calls."""

    def meetings(frames: dict[str, pl.DataFrame]) -> Counter[tuple[Any, ...]]:
        keys = ("process", "correlation", "start_ns", "end_ns")
        met = (
            (t, frames[t].select(keys).row(r), frames["api"].select(keys).row(a))
            for t, r, a, *_ in launch_pairs(frames).iter_rows()
        )
        return Counter(met)

    frames = tables(**rows)
    shuffled = {
        name: frame[np.array(random.sample(range(frame.height), frame.height), np.int64)]
        for name, frame in frames.items()
    }
    assert meetings(frames) == meetings(shuffled)
    assert counts(check(frames, {}, NAMES)).keys() == counts(check(shuffled, {}, NAMES)).keys()


# --- check ----------------------------------------------------------------------------------------


def test_zero_durations_are_counted_and_kept() -> None:
    rows = launched(2)
    rows["kernels"][0]["end_ns"] = rows["kernels"][0]["start_ns"]
    rows["api"][1]["end_ns"] = rows["api"][1]["start_ns"]
    assert checked(**rows) == {"P104": 2}
    assert detail("P104", **rows) == "kernels 1, api 1"


def test_records_without_a_call_are_counted_except_migrations() -> None:
    """Traps 8 and 11: the profiler loses calls at the start; migrations never had one."""
    rows = launched(3)
    del rows["api"][0]
    rows["copies"] = [
        {"start_ns": 50_000, "end_ns": 50_010, "correlation": 99, "direction": 1},
        {"start_ns": 50_020, "end_ns": 50_030, "direction": 5},
        {"start_ns": 50_040, "end_ns": 50_050, "direction": 6, "stream": None},
        {"start_ns": 50_060, "end_ns": 50_070, "direction": 7, "correlation": 2, "stream": None},
    ]
    found = checked(**rows)
    assert found.pop("P133") == 1  # the migration that carries an id all the same
    assert found == {"P109": 3, "P132": 2}
    assert detail("P109", **rows) == "kernels 1, copies 2"


def test_a_record_before_its_call_is_counted_not_set_aside() -> None:
    """Trap 7: two clocks."""
    rows = launched(4)
    rows["kernels"][2]["start_ns"] = rows["api"][2]["start_ns"] - 3
    rows["kernels"][1]["start_ns"] = rows["api"][1]["start_ns"]
    assert set_aside(**rows)[1] == {}
    assert checked(**rows) == {"P111": 1}
    assert detail("P111", **rows) == "25.00% of the records with a call, by up to 3 ns"


def graph_run() -> dict[str, list[dict[str, Any]]]:
    return {
        "api": [
            {"start_ns": 100 * i, "end_ns": 100 * i + 20, "correlation": i, "name": GRAPH_LAUNCH}
            for i in (1, 2, 3)
        ],
        "graphs": [{"start_ns": 130, "end_ns": 180, "correlation": 1, "graph": 5}],
        "kernels": [{"start_ns": 230, "end_ns": 240, "correlation": 2, "graph_node": 8}],
    }


def test_graphs_recorded_whole_or_not_at_all_are_counted() -> None:
    """Trap 6: their kernels are in no table; a launch with its nodes is fine."""
    assert checked(**graph_run()) == {"P115": 2}
    assert (
        detail("P115", **graph_run())
        == "1 recorded as one row, 1 not recorded on the device at all"
    )
    assert checked(names=None, **graph_run()) == {"P115": 1}


def test_a_failed_graph_launch_hides_nothing() -> None:
    rows = graph_run()
    rows["api"][2]["result"] = 700
    assert checked(**rows) == {"P115": 1, "P125": 1}


def test_a_driver_launch_inside_a_runtime_launch_is_one_launch() -> None:
    rows = graph_run()
    rows["api"] += [
        {
            "start_ns": 100 * i + 5,
            "end_ns": 100 * i + 15,
            "correlation": 10 + i,
            "name": DRIVER_GRAPH_LAUNCH,
        }
        for i in (2, 3)
    ]
    rows["kernels"][0]["correlation"] = 12  # the inner call is the one that joins
    assert checked(**rows) == {"P115": 2, "P126": 2}


def test_what_the_profiler_says_of_itself_is_counted() -> None:
    """Trap 8: silent loss is not silent in this table."""
    rows = {
        **launched(1),
        "diagnostics": [{"severity": s, "time_ns": 1} for s in (1, 2, 2, 3, None)],
    }
    assert checked(**rows) == {"P116": 3}
    assert detail("P116", **rows) == "1 errors, 2 warnings"
    assert checked(**launched(1), diagnostics=[{"severity": 1}]) == {}


def test_gpu_page_faults_are_counted_and_cpu_faults_not() -> None:
    assert checked(
        page_faults=[
            {"start_ns": t, "end_ns": 9, "device": d} for t, d in ((5, 0), (6, None), (7, 1))
        ]
    ) == {"P117": 2}


def test_overlaps_on_one_stream_are_counted() -> None:
    """Trap 10: rows of one stream that overlap are summed twice; other streams, devices and
    processes may overlap.
    """
    apart = [
        {"start_ns": 10, "end_ns": 20},
        {"start_ns": 15, "end_ns": 25, "stream": 8},
        {"start_ns": 15, "end_ns": 25, "device": 1},
        {"start_ns": 15, "end_ns": 25, "process": OTHER_PROCESS},
        {"start_ns": 20, "end_ns": 30},
        {"start_ns": 15, "end_ns": 25, "stream": None},
        {"start_ns": 16, "end_ns": 26, "stream": None},
    ]
    assert "P118" not in checked(kernels=apart)
    # inside the first kernel, though the one just before it ended: the reach counts, not the
    # neighbour
    together = [
        {"start_ns": 10, "end_ns": 90},
        {"start_ns": 20, "end_ns": 30},
        {"start_ns": 90, "end_ns": 95},
    ]
    assert checked(kernels=together, memsets=[{"start_ns": 40, "end_ns": 50}])["P118"] == 2
    assert (
        checked(kernels=together, copies=[{"start_ns": 40, "end_ns": 50, "direction": 7}])["P118"]
        == 1
    )


def test_overlapping_copies_and_kernels_of_one_stream_meet_across_tables() -> None:
    assert (
        checked(
            kernels=[{"start_ns": 10, "end_ns": 20}],
            copies=[{"start_ns": 19, "end_ns": 30, "direction": 2}],
        )["P118"]
        == 1
    )


def busy_profiler(kind: int | None, thread: int | None = THREAD) -> dict[str, int]:
    rows = launched(1)  # from 1000 to 9000 ns
    rows["overheads"] = [
        {"start_ns": -5_000, "end_ns": 1_500, "kind": kind, "thread": thread},
        {"start_ns": 2_000, "end_ns": 2_300, "kind": kind, "thread": thread},
        {"start_ns": 2_100, "end_ns": 2_301, "kind": kind, "thread": thread},
    ]
    return checked(**rows)


def test_the_profilers_own_share_is_a_union_inside_the_run() -> None:
    """Union 801 of 8000 ns is just above a tenth; the sum, or time before the run, would be far
    above.
    """
    assert busy_profiler(3) == {"P122": 3}
    assert busy_profiler(None, thread=None) == {"P122": 3}
    rows = launched(1)
    rows["overheads"] = [
        {"start_ns": -50_000, "end_ns": 1_400},
        {"start_ns": 1_100, "end_ns": 1_800},
        {"start_ns": 1_200, "end_ns": 1_800},
    ]
    assert checked(**rows) == {}


def test_the_drivers_own_work_and_other_threads_are_not_the_profilers_share() -> None:
    assert busy_profiler(6) == {}
    assert busy_profiler(3, thread=THREAD + 1) == {}


def test_threads_do_not_add_up_their_shares() -> None:
    rows = launched(1)
    rows["api"].append({"start_ns": 1_000, "end_ns": 1_001, "thread": THREAD + 1})
    rows["overheads"] = [
        {"start_ns": 2_000, "end_ns": 2_600, "thread": t} for t in (THREAD, THREAD + 1)
    ]
    assert checked(**rows) == {}


def test_ids_of_several_processes_are_counted_once_each() -> None:
    """Trap 2."""
    keys = [
        (PROCESS, 1),
        (PROCESS, 1),
        (PROCESS, 2),
        (OTHER_PROCESS, 1),
        (OTHER_PROCESS, 3),
        (PROCESS, 0),
        (OTHER_PROCESS, 0),
    ]
    api = [
        {"start_ns": 100 * i, "end_ns": 100 * i + 1, "correlation": c, "process": p, "thread": p}
        for i, (p, c) in enumerate(keys)
    ]
    assert checked(api=api)["P124"] == 1
    assert checked(api=api[:3]) == {}


def test_failed_calls_are_counted_with_their_codes() -> None:
    rows = launched(4)
    for call, result in zip(rows["api"], (0, 600, 600, 2), strict=True):
        call["result"] = result
    assert checked(**rows) == {"P125": 3}
    assert detail("P125", **rows) == "2 distinct codes"


def test_calls_inside_calls_are_marked() -> None:
    api = tables(
        api=[
            {"start_ns": 10, "end_ns": 90},
            {"start_ns": 20, "end_ns": 30},
            {"start_ns": 40, "end_ns": 90},
            {"start_ns": 40, "end_ns": 50, "thread": THREAD + 1},
            {"start_ns": 90, "end_ns": 95},
            {"start_ns": 95, "end_ns": 95},
        ]
    )["api"]
    assert nested_calls(api).tolist() == [False, True, True, False, False, False]
    assert counts(check({"api": api}, {}))["P126"] == 2


spans = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 5), st.integers(0, 1)), max_size=9)


@given(spans)
def test_nested_calls_agree_with_a_search_by_hand(rows: list[tuple[int, int, int]]) -> None:
    api = tables(api=[{"start_ns": s, "end_ns": s + n, "thread": t} for s, n, t in rows])["api"]
    calls = list(api.select("start_ns", "end_ns", "thread").iter_rows())

    def inside(i: int) -> bool:
        start, end, thread = calls[i]
        return any(
            t == thread and s <= start < e and end <= e and ((s, e) != (start, end) or j < i)
            for j, (s, e, t) in enumerate(calls)
            if j != i
        )

    assert nested_calls(api).tolist() == [inside(i) for i in range(len(calls))]


def test_migrations_are_counted() -> None:
    """Trap 11: memcpy rows of kinds 11 to 13."""
    copies = [
        {"start_ns": 100 * d, "end_ns": 100 * d + 5, "direction": d, "stream": None}
        for d in range(9)
    ]
    found = checked(copies=copies)
    assert found == {"P109": 6, "P132": 3}


def test_no_finding_carries_text_of_the_recorded_process() -> None:
    """Trap 9: names come from the recorded program and stay out of findings."""
    secret = "TOKEN=hunter2-GraphLaunch"
    rows = graph_run()
    for call in rows["api"]:
        call["name"] = 0
    found = check(tables(**rows), {"host": secret}, pl.Series([secret]))
    assert counts(found) == {"P115": 2}
    assert "hunter2" not in str(found)
