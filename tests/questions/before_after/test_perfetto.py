"""The trace-event file: valid, exact to the nanosecond, harmless, whole or not there at all."""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from strategies import FEWER, FULL, machine, soups, traces

from turnbuckle.examples import sample
from turnbuckle.machine import Machine, load
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.projection.model import nething
from turnbuckle.projection.run import Run
from turnbuckle.questions.before_after import perfetto
from turnbuckle.questions.before_after.export import written
from turnbuckle.questions.before_after.perfetto import lanes, stream
from turnbuckle.questions.before_after.question import KINDS, Moved, moved

MODEL = replace(nething("flop"), replay="timeline")
HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    '"},{"ph":"X"}]',
    "\\u0041\\",
    "evil\u202egnp.exe\u2066\u200b\ufeff",
    "bell\x07esc\x1b[31mnull\x00",
    "line\u2028separator\u2029\r\n\x9b1m",
    "z" + "\u0335" * 400 + "algo",
    "x<" * 30_000,
    "名前 ünïcödé \U0001f600",
    "",
)
"""Names a recording may hold."""
Event = dict[str, Any]


@cache
def schema() -> Any:
    # slow to import, and each worker reads every module; 2 s of it would be the grammar of a format
    # that no schema here names
    with mock.patch.dict(sys.modules, {"rfc3987_syntax": None}):
        import jsonschema

    return jsonschema.Draft202012Validator(
        json.loads((Path(__file__).parent / "trace-event.schema.json").read_text(encoding="utf-8"))
    )


def asked(seen: Run, target: Machine) -> tuple[Moved, Answer]:
    return perfetto.asked(seen, target, MODEL)


@cache
def seen() -> Run:
    with sample() as path:
        return Run.read(
            path,
            use_cache=False,
            command="turnbuckle export milc-like-synthetic.sqlite --on cdi-row-link",
            part="0.3s..0.5s",
        )


@cache
def far() -> tuple[Moved, Answer]:
    return asked(seen(), load("cdi-row-link"))


def write(run: Moved, answer: Answer, place: Path) -> Path:
    return written(lambda sink: perfetto.stream(run, answer, sink), place)


def text(run: Moved, answer: Answer) -> bytes:
    sink = io.BytesIO()
    stream(run, answer, sink)
    return sink.getvalue()


@cache
def document() -> dict[str, Any]:
    return parsed(text(*far()))


def parsed(raw: bytes) -> dict[str, Any]:
    """The document with exact numbers; NaN and the like are refused."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    found: dict[str, Any] = json.loads(
        raw.decode("utf-8", errors="strict"), parse_float=Decimal, parse_constant=refuse
    )
    return found


def events(found: dict[str, Any], phase: str) -> list[Event]:
    return [e for e in found["traceEvents"] if e["ph"] == phase]


def ns(microseconds: Any) -> int:
    exact = Decimal(microseconds) * 1000
    assert exact == int(exact), f"{microseconds} is not a whole number of nanoseconds"
    return int(exact)


def sides(found: dict[str, Any]) -> tuple[list[Event], list[Event]]:
    """Slices of activities, measured and projected."""
    names = {e["pid"]: e["args"]["name"] for e in events(found, "M") if e["name"] == "process_name"}
    slices = [e for e in events(found, "X") if names[e["pid"]] != "critical path"]
    measured = [e for e in slices if names[e["pid"]].startswith("measured on ")]
    projected = [e for e in slices if names[e["pid"]].startswith("projected on ")]
    assert len(measured) + len(projected) == len(slices)
    return measured, projected


def by_track(slices: Iterable[Event]) -> dict[int, list[Event]]:
    out: dict[int, list[Event]] = defaultdict(list)
    for e in slices:
        out[e["tid"]].append(e)
    return out


def well_formed(found: dict[str, Any]) -> None:
    """What Perfetto needs: named tracks, each in time order, slices that nest, flows with both
    ends.
    """
    named = {(e["pid"], e["tid"]) for e in events(found, "M") if e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in events(found, "X")} <= named
    assert len({tid for _, tid in named}) == len(named), "a track number is used twice"
    for track in by_track(events(found, "X")).values():
        stack: list[int] = []
        before = 0
        for e in track:
            begin, end = ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])
            assert begin >= before >= 0
            before = begin
            while stack and stack[-1] <= begin:
                stack.pop()
            assert not stack or end <= stack[-1], "slices of one track overlap without nesting"
            stack.append(end)
    out = Counter(e["bind_id"] for e in events(found, "X") if "flow_out" in e)
    into = Counter(e["bind_id"] for e in events(found, "X") if "flow_in" in e)
    assert set(out) == set(into) and set(out.values()) <= {1}


def test_the_file_is_a_trace_event_file() -> None:
    found = document()
    few = {**found, "traceEvents": found["traceEvents"][:300] + found["traceEvents"][-300:]}
    schema().validate(json.loads(json.dumps(few, default=float)))
    shapes = {
        (e["ph"], e["pid"], tuple(sorted(e)), tuple(sorted(e["args"]))): e
        for e in found["traceEvents"]
    }
    schema().validate({"traceEvents": json.loads(json.dumps(list(shapes.values()), default=float))})
    for bad in (
        {"ph": "X", "pid": 1, "tid": 1, "ts": 1},
        {"ph": "Q", "pid": 1},
        {"ph": "C", "pid": 1, "ts": 0, "name": "n", "args": {"a": "b"}},
    ):
        assert not schema().is_valid({"traceEvents": [bad]})
    assert found["displayTimeUnit"] == "ns"
    assert next(iter(found)) == "displayTimeUnit", "older readers look for it at the head only"
    well_formed(found)


def test_every_activity_is_there_twice_and_exact() -> None:
    run, _ = far()
    measured, projected = sides(document())
    table = run.table
    both = zip(table["start_ns"], table["end_ns"], strict=True)
    assert Counter((ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])) for e in measured) == Counter(both)
    ends = np.rint(np.stack([table["projected_start"], table["projected_end"]]) * 1e9).astype(int)
    assert Counter((ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])) for e in projected) == Counter(
        map(tuple, ends.T.tolist())
    )
    names = set(run.profile.trace.text(table).drop_nulls())
    assert names <= {e["name"] for e in measured}
    assert Counter(e["name"] for e in measured) == Counter(e["name"] for e in projected)


def test_at_home_both_halves_are_equal() -> None:
    run, answer = asked(seen(), seen().source)
    found = parsed(text(run, answer))
    measured, projected = sides(found)

    def bare(e: Event) -> tuple[Any, ...]:
        return (
            e["tid"] // 2,
            ns(e["ts"]),
            ns(e["dur"]),
            e["name"],
            e["cat"],
            e["args"].get("bytes"),
            "flow_in" in e,
        )

    assert len(measured) > 1_000 and [bare(e) for e in measured] == [bare(e) for e in projected]
    assert {e["args"]["reason"] for e in projected} == {"still"}
    assert not any("moved_us" in e["args"] for e in projected)
    assert [e["args"]["us"] for e in events(found, "C")] == [0]


def test_moves_and_their_reasons_are_said() -> None:
    run, _ = far()
    _, projected = sides(document())
    said = Counter(
        (e["args"]["reason"], ns(e["args"].get("moved_us", 0)), ns(e["args"].get("longer_us", 0)))
        for e in projected
    )
    rows = run.table.select(
        "reason", *((pl.col(c) * 1e9).round().cast(pl.Int64) for c in ("moved", "longer"))
    ).rows()
    assert said == Counter(rows)
    assert {"lag", "follows"} <= {e["args"]["reason"] for e in projected}
    sizes = run.table["size_bytes"].drop_nulls()
    assert sum(e["args"].get("bytes", 0) for e in projected) == sizes.sum() > 0


def test_flows_lead_from_calls_to_what_they_started() -> None:
    run, _ = far()
    started = run.table.filter(pl.col("caller").is_not_null()).height
    for half in sides(document()):
        out = {e["bind_id"]: e for e in half if "flow_out" in e}
        into = [e for e in half if "flow_in" in e]
        assert len(into) == started > 400
        assert all(
            out[e["bind_id"]]["args"]["correlation"] == e["args"]["correlation"] for e in into
        )
        assert all(out[e["bind_id"]]["ts"] <= e["ts"] for e in into)
        assert all("api" in out[e["bind_id"]]["cat"] and "api" not in e["cat"] for e in into)


def test_the_critical_path_has_tracks_of_its_own() -> None:
    run, _ = far()
    found = document()
    tracks = {
        e["tid"]: e["args"]["name"]
        for e in events(found, "M")
        if e["name"] == "thread_name" and e["pid"] == 1
    }
    assert sorted(tracks.values()) == [
        f"measured on {run.source.name}",
        "projected on cdi-row-link",
    ]
    for tid, name in tracks.items():
        whole, *steps = [e for e in events(found, "X") if e["tid"] == tid]
        seconds = (
            run.projection.seconds
            if name.startswith("projected")
            else run.projection.measured_seconds
        )
        assert ns(whole["dur"]) == round(seconds * 1e9) == sum(ns(e["dur"]) for e in steps)
        assert all(e["cat"] == "critical" and e["cname"] for e in steps)
        assert whole["args"]["run_time_s"] == Decimal(repr(seconds))
        assert len(whole["args"]["sha256"]) == 64 and whole["args"]["findings"]
    for half, column in zip(sides(found), ("critical_before", "critical_after"), strict=True):
        critical = [e for e in half if "critical" in e["cat"]]
        assert len(critical) == run.table[column].sum() > 0
        assert all(e["cname"] for e in critical) and not any(
            "cname" in e for e in half if "critical" not in e["cat"]
        )
    delay = events(found, "C")
    assert [e["ts"] for e in delay] == sorted(e["ts"] for e in delay)
    added = run.projection.seconds - run.projection.measured_seconds
    assert ns(delay[-1]["args"]["us"]) == round(added * 1e9)


def test_tracks_have_names_in_order() -> None:
    found = document()
    names = {
        (e["pid"], e["tid"]): e["args"]["name"]
        for e in events(found, "M")
        if e["name"] == "thread_name"
    }
    for pid in (2, 3):
        mine = [name for (p, _), name in sorted(names.items()) if p == pid]
        assert [bool(re.fullmatch(r"host thread \d+", n)) for n in mine] == sorted(
            (not n.startswith("GPU") for n in mine), reverse=True
        )
        assert any(re.fullmatch(r"GPU \d+ stream \d+", n) for n in mine)
    processes = [
        (e["args"]["name"], e["pid"]) for e in events(found, "M") if e["name"] == "process_name"
    ]
    assert [name.split(" on ")[0] for name, _ in sorted(processes, key=lambda p: p[1])] == [
        "critical path",
        "measured",
        "projected",
    ]


def test_the_question_and_its_answer_are_in_the_file() -> None:
    about = document()["otherData"]
    assert (
        about["provenance"]["tool"] == "turnbuckle"
        and about["provenance"]["model"]["replay"] == "timeline"
    )
    assert (
        about["projections"][0]["target"] == "cdi-row-link" and about["projections"][0]["findings"]
    )
    assert 0 < about["critical_path_explained"] <= 1


def test_a_faster_machine_moves_everything_forward() -> None:
    target = replace(seen().source, name="faster")
    run = moved(seen().profile, seen().source, target, nething(50.0), ready=seen().ordered)
    found = parsed(text(run, Answer(seen(), MODEL, (target,), [run.projection], draws=0)))
    well_formed(found)
    assert (
        ns(events(found, "C")[-1]["args"]["us"])
        == round((run.projection.seconds - run.projection.measured_seconds) * 1e9)
        < 0
    )
    table = run.table
    assert table["critical_before"].to_list() != table["critical_after"].to_list(), (
        "or this test says nothing"
    )
    for half, column, start in zip(
        sides(found),
        ("critical_before", "critical_after"),
        (table["start_ns"] * 1e-9, table["projected_start"]),
        strict=True,
    ):
        expected = Counter(round(x * 1e9) for x in start.filter(table[column]))
        assert Counter(ns(e["ts"]) for e in half if "critical" in e["cat"]) == expected


@FEWER
@given(traces() | soups())
def test_any_run_makes_a_sound_file(trace: Any) -> None:
    from turnbuckle.profile.profile import build

    here = machine(FULL)
    profile = build(trace)
    run = moved(profile, here, here, MODEL)
    answer = Answer(Run(profile, here, {}), MODEL, (here,), [run.projection])
    found = parsed(text(run, answer))
    well_formed(found)
    schema().validate(json.loads(json.dumps(found, default=float)))
    measured, projected = sides(found)
    assert len(measured) == len(projected) == run.table.height


@FEWER
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 6)), max_size=25))
def test_lanes_hold_only_what_nests(rows: list[tuple[int, int, int]]) -> None:
    track, start, length = (np.array([r[i] for r in rows], dtype=np.int64) for i in range(3))
    lane = lanes(track, start, start + length)
    for k in range(len(rows)):
        for j in range(k):
            if track[k] != track[j]:
                continue
            (a, b), (c, d) = sorted(
                [(start[k], start[k] + length[k]), (start[j], start[j] + length[j])]
            )
            crossing = a < c < b < d
            alone = b <= c or not crossing
            assert lane[k] != lane[j] or alone, "two that cross share a lane"
    far_apart = lanes(
        np.array([0, 0, 1, 1]),
        np.array([0, 1, 0, 2**61]),
        np.array([2**61, 2**61 + 5, 2**61, 2**61 + 1]),
    )
    assert far_apart.tolist() == [0, 1, 0, 0]
    for t in set(track.tolist()):
        of = track == t
        order = np.argsort(start[of], kind="stable")
        if (start[of][order][1:] >= (start + length)[of][order][:-1]).all():
            assert (lane[of] == 0).all(), "lanes where none is needed"


def test_hostile_names_are_harmless() -> None:
    plain = seen()
    names = plain.profile.trace.names.to_list()
    for k, evil in enumerate(HOSTILE):
        names[k % len(names)] = evil
    names = [HOSTILE[k % len(HOSTILE)] for k in range(len(names))]
    trace = replace(
        plain.profile.trace,
        names=pl.Series("name", names, dtype=pl.String),
        name="bad\udcff\x1b.sqlite",
    )
    hostile = Run.of(replace(plain.profile, trace=trace), command="turnbuckle export \udcff\x07")
    target = replace(load("gh200"), name='"}]\x1b[31m\ud800</script>', title="\udcff")
    raw = text(*asked(replace(hostile, source=plain.source), target))
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", raw), "control characters"
    found = parsed(raw)
    well_formed(found)
    schema().validate({**json.loads(raw), "traceEvents": []})
    assert all(0 < len(e["name"]) <= 600 for e in found["traceEvents"])
    assert not set("\u202e\u2066\u200b\ufeff\x9b\u2028") & set(raw.decode("utf-8"))
    assert "</script><img src=x onerror=alert(1)>" in {e["name"] for e in events(found, "X")}, (
        "a name is a text, not markup: kept"
    )
    assert b"\\" not in re.sub(rb'\\["\\]', b"", raw), "Perfetto knows no other escapes"


def test_a_piece_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counted(io.BytesIO):
        largest = 0

        def write(self, data: Any) -> int:
            self.largest = max(self.largest, len(data))
            return super().write(data)

    whole = text(*far())
    monkeypatch.setattr(perfetto, "_AT_ONCE", 20)
    sink = Counted()
    count = stream(*far(), sink)
    assert sink.getvalue() == whole
    assert count == len(document()["traceEvents"])
    assert sink.largest < len(whole) / 100


def test_compressed_by_name_and_reproducible(tmp_path: Path) -> None:
    plain, packed, again = (
        write(*far(), tmp_path / n) for n in ("a.json", "a.json.gz", "b.json.gz")
    )
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes() == text(*far())
    assert packed.read_bytes() == again.read_bytes()
    assert packed.stat().st_size * 5 < plain.stat().st_size
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", "a.json.gz", "b.json.gz"]


def test_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "a.json"
    place.write_text("kept")

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(perfetto, "stream", full)
    assert refused("R001", write, *far(), place).found == "No space left on device"

    def stopped(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(perfetto, "stream", stopped)
    with pytest.raises(KeyboardInterrupt):
        write(*far(), place)
    assert place.read_text() == "kept" and [p.name for p in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize(
    ("name", "code"),
    [("", "R003"), ("missing/a.json", "R002"), ("a\0b.json", "R001"), ("x" * 300, "R001")],
    ids=["folder", "none", "nul", "long"],
)
def test_places_that_cannot_be(tmp_path: Path, name: str, code: str) -> None:
    assert str(tmp_path) not in "\n".join(
        refused(code, write, *far(), f"{tmp_path}/{name}").lines()
    )


def test_a_full_device_is_written_to_and_not_replaced() -> None:
    refused("R001", write, *far(), "/dev/full")
    assert Path("/dev/full").is_char_device()


@pytest.mark.shared
def test_real_runs(shared: Path) -> None:
    for name in ("cloverleaf_a100_perlmutter", "extrap_concurrent_s4"):
        (file,) = (shared / "traces/nsys" / name).glob("*.sqlite")
        real = Run.read(file, use_cache=False)
        run, answer = asked(real, load("cdi-row-link"))
        found = parsed(text(run, answer))
        well_formed(found)
        measured, projected = sides(found)
        assert len(measured) == len(projected) == run.activities


def test_every_kind_of_edge_outside_activities_has_words() -> None:
    assert set(perfetto._EDGES) == set(KINDS) - {"run", "call"}
