"""Perfetto's protobuf: decoded field by field it holds the tracks, slices, flows and counters of
the JSON.
"""

from __future__ import annotations

import json
import struct
from collections import Counter, defaultdict
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hostile_names import SAMPLE, SECRETS, Ran
from runs import run_of

from turnbuckle.trace.readers.chakra.wire import fields

Turnbuckle = Callable[..., Ran]
Slice = tuple[str, str, int, int]


def signed(value: int) -> int:
    return value - ((value >> 63) << 64)


def message(data: bytes) -> dict[int, list[Any]]:
    out: dict[int, list[Any]] = defaultdict(list)
    for field, _, value in fields(data):
        out[field].append(value)
    return out


def decoded(data: bytes) -> tuple[dict[int, dict[int, list[Any]]], list[dict[int, list[Any]]]]:
    """Descriptors by the track's number, and packets with events, each with the event's fields
    merged in under negative numbers.
    """
    tracks: dict[int, dict[int, list[Any]]] = {}
    events = []
    trace = message(data)
    assert set(trace) == {1}
    for packet in map(message, trace[1]):
        assert packet[10] == [1] and set(packet) <= {8, 10, 11, 13, 60}
        if 60 in packet:
            descriptor = message(packet[60][0])
            tracks[descriptor[1][0]] = descriptor
        else:
            event = message(packet[11][0])
            assert event[11][0] in tracks, "a track is described before it is used"
            events.append({-8: packet[8], **event})
    return tracks, events


def slices(
    tracks: dict[int, dict[int, list[Any]]], events: list[dict[int, list[Any]]]
) -> list[Slice]:
    """(track, name, start, duration) of all slices; every end closes the slice opened last on its
    track, and time never runs back there.
    """
    opened: dict[int, list[tuple[str, int]]] = defaultdict(list)
    now: dict[int, int] = defaultdict(int)
    out = []
    for event in events:
        track, time = event[11][0], event[-8][0]
        assert time >= now[track]
        now[track] = time
        if event[9] == [1]:
            opened[track].append((event[23][0].decode(), time))
        elif event[9] == [2]:
            name, begin = opened[track].pop()
            out.append((tracks[track][2][0].decode(), name, begin, time - begin))
    assert not any(opened.values())
    return out


@cache
def both(folder: Path) -> tuple[bytes, dict[str, Any]]:
    run = run_of(SAMPLE)
    run.export(folder / "run.pftrace", "cdi-row-link", to="perfetto")
    run.export(folder / "run.json", "cdi-row-link")
    return (folder / "run.pftrace").read_bytes(), json.loads(
        (folder / "run.json").read_bytes(), parse_float=Decimal
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, Any]]:
    return both(tmp_path_factory.mktemp("perfetto"))


def test_the_slices_are_those_of_the_json(written: tuple[bytes, dict[str, Any]]) -> None:
    tracks, events = decoded(written[0])
    named = {
        (e["pid"], e["tid"]): e["args"]["name"]
        for e in written[1]["traceEvents"]
        if e["name"] == "thread_name"
    }
    expected = Counter(
        (named[e["pid"], e["tid"]], e["name"], round(e["ts"] * 1000), round(e["dur"] * 1000))
        for e in written[1]["traceEvents"]
        if e["ph"] == "X"
    )
    assert Counter(slices(tracks, events)) == expected


def test_tracks_stand_below_their_process(written: tuple[bytes, dict[str, Any]]) -> None:
    tracks, _ = decoded(written[0])
    roots = [t[2][0].decode() for t in tracks.values() if 5 not in t]
    assert roots[0] == "critical path" and {r.split(" on ")[0] for r in roots[1:]} == {
        "measured",
        "projected",
    }
    assert all(t[5][0] in tracks for t in tracks.values() if 5 in t)


def test_flows_lead_from_calls_to_their_work(written: tuple[bytes, dict[str, Any]]) -> None:
    _, events = decoded(written[0])
    begins, ends = (
        Counter(struct.unpack("<Q", v)[0] for e in events for v in e.get(field, []))
        for field in (47, 48)
    )
    assert begins and max(begins.values()) == 1 and set(ends) == set(begins)
    document = [e for e in written[1]["traceEvents"] if e["ph"] == "X"]
    assert len(begins) == sum("flow_out" in e for e in document) and sum(ends.values()) == sum(
        "flow_in" in e for e in document
    )


def test_the_delay_is_counted(written: tuple[bytes, dict[str, Any]]) -> None:
    _, events = decoded(written[0])
    counted = [(e[-8][0], signed(e[30][0])) for e in events if e[9] == [4]]
    assert counted == [
        (round(e["ts"] * 1000), round(e["args"]["us"] * 1000))
        for e in written[1]["traceEvents"]
        if e["ph"] == "C"
    ]


def test_arguments(written: tuple[bytes, dict[str, Any]]) -> None:
    _, events = decoded(written[0])
    keys = Counter(message(a)[10][0].decode() for e in events for a in e.get(4, []))
    document = Counter(
        key
        for e in written[1]["traceEvents"]
        if e["ph"] == "X" and e["cat"] != "run"
        for key in e["args"]
    )
    assert (
        keys["size_bytes"] == document["bytes"]
        and keys["reason"] == document["reason"]
        and keys["longer_ns"] == document["longer_us"]
    )


def test_nothing_secret_and_the_same_by_the_command(
    turnbuckle: Turnbuckle, hostile: Path, tmp_path: Path
) -> None:
    assert (
        turnbuckle(
            "export", hostile, "--to", "perfetto", "--on", "nvlink-c2c", "-o", "a.pftrace"
        ).code
        == 0
    )
    data = (tmp_path / "a.pftrace").read_bytes()
    slices(*decoded(data))
    assert not any(word.encode() in data for word in SECRETS)
    ran = turnbuckle("export", SAMPLE, "--to", "perfetto", "-o", "b.pftrace")
    assert ran.code == 2 and "error[A481]" in ran.err
