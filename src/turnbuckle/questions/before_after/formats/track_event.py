"""A run before and after as Perfetto's own protobuf trace, for ui.perfetto.dev and the trace
processor.

    Moved -> tracks, slices, flows, critical paths, accumulated delay -> packets

The same tracks and slices as in the JSON (`turnbuckle.questions.before_after.perfetto`): measured
and projected tracks of a process stand one below the other, both with the run's start at 0.  Times
are whole nanoseconds, which are the format's own.  Slices are pairs of begin and end, each track in
its order.

Format: ``perfetto/trace/trace_packet.proto`` and ``track_event/*.proto`` of Perfetto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import polars as pl

from turnbuckle.projection.answers.answer import Answer
from turnbuckle.questions.before_after import perfetto
from turnbuckle.questions.before_after.formats.wire import chunk, number, text, varint
from turnbuckle.questions.before_after.perfetto import Side
from turnbuckle.questions.before_after.question import Moved
from turnbuckle.show.text import clean

#: Fields of ``Trace`` and ``TracePacket``.
_PACKET: Final = 1
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _SEQUENCE_FLAGS, _TRACK_DESCRIPTOR = 8, 10, 11, 13, 60
#: Fields of ``TrackDescriptor``: how children are ordered, and the place among the siblings.
_UUID, _NAME, _PARENT, _COUNTER, _ORDERING, _RANK = 1, 2, 5, 8, 11, 12
_EXPLICIT: Final = 3
#: Fields of ``TrackEvent``, and its types.
_ANNOTATION, _TYPE, _TRACK, _CATEGORY, _EVENT_NAME, _COUNTER_VALUE, _FLOW, _ENDING_FLOW = (
    4,
    9,
    11,
    22,
    23,
    30,
    47,
    48,
)
_BEGIN, _END, _COUNT = 1, 2, 4
#: Fields of ``DebugAnnotation``.
_KEY, _BOOL, _INT, _TEXT = 10, 2, 4, 6
_ONE_SEQUENCE: Final = 1
#: Track of the accumulated delay, beside those of the critical paths.
_DELAY: Final = perfetto.PATHS + 102
_CLEARED: Final = 1
_ARGUMENTS: Final = ("size_bytes", "correlation")
_MOVES: Final = ("moved", "longer", "added", "absorbed")


def stream(run: Moved, answer: Answer, sink: BinaryIO) -> None:
    """Write the packets of a run before and after.

    Parameters
    ----------
    run : before and after, from `turnbuckle.questions.before_after.question.moved`.
    answer : the same question's answer; its run time and machines stand on the critical paths.
    """
    about = {**answer.as_dict(), "critical_path_explained": run.explained}
    for packet in _packets(run, about):
        sink.write(chunk(_PACKET, packet))


def _packets(run: Moved, about: dict[str, Any]) -> Iterator[bytes]:
    labels = perfetto.labels(run)
    sides = perfetto.sides(run)
    places = [perfetto.places(run.profile, side, run.table["track"].to_numpy()) for side in sides]
    yield _descriptor(perfetto.PATHS, "critical path", None, 0) + number(_SEQUENCE_FLAGS, _CLEARED)
    for side, place in zip(sides, places, strict=True):
        yield _descriptor(
            perfetto.path_track(side),
            f"{side.word} on {side.machine}",
            perfetto.PATHS,
            int(side.after),
        )
        for pid, name in perfetto.process_names(run, sides, side):
            yield _descriptor(pid, name, None, pid)
        frame = perfetto.slices(run, labels, side, place)
        for tid, pid, name in perfetto.track_names(run, side, place):
            yield _descriptor(tid, name, pid, tid)
        for (tid,), rows in frame.group_by("tid", maintain_order=True):
            yield from _nested(int(str(tid)), rows, side)
    for side, path in zip(sides, (run.path_before, run.path_after), strict=True):
        shown = perfetto.shown(run, path)
        if shown.height:
            yield from _critical(about, side, shown, perfetto.step_names(shown, labels))
        if side.after and shown.height:
            yield from _delay(shown)


def _descriptor(uuid: int, name: str, parent: int | None, rank: int) -> bytes:
    inside = (
        number(_UUID, uuid)
        + text(_NAME, clean(name))
        + number(_ORDERING, _EXPLICIT)
        + number(_RANK, rank)
    )
    return number(_SEQUENCE, _ONE_SEQUENCE) + chunk(
        _TRACK_DESCRIPTOR, inside + (b"" if parent is None else number(_PARENT, parent))
    )


def _event(time_ns: int, kind: int, track: int, inside: bytes = b"") -> bytes:
    event = number(_TYPE, kind) + number(_TRACK, track) + inside
    return (
        number(_TIMESTAMP, time_ns) + number(_SEQUENCE, _ONE_SEQUENCE) + chunk(_TRACK_EVENT, event)
    )


def _annotation(key: str, value: bool | int | str) -> bytes:
    """Return one argument of a slice."""
    if isinstance(value, bool):
        return chunk(_ANNOTATION, text(_KEY, key) + number(_BOOL, value))
    return chunk(
        _ANNOTATION,
        text(_KEY, key) + (number(_INT, value) if isinstance(value, int) else text(_TEXT, value)),
    )


def _flow(field: int, value: int) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<Q", value)


def _nested(track: int, rows: pl.DataFrame, side: Side) -> Iterator[bytes]:
    """Yield the begins and ends of one track's slices, which nest, in the order of time."""
    ends: list[int] = []
    for row in rows.iter_rows(named=True):
        while ends and ends[-1] <= row["ts"]:
            yield _event(ends.pop(), _END, track)
        yield _event(row["ts"], _BEGIN, track, _slice(row, side))
        ends.append(row["end"])
    while ends:
        yield _event(ends.pop(), _END, track)


def _slice(row: dict[str, Any], side: Side) -> bytes:
    name = perfetto.unquoted(row["label"])
    out = (
        text(_EVENT_NAME, name)
        + text(_CATEGORY, row["cat"])
        + (text(_CATEGORY, "critical") if row["critical"] else b"")
    )
    out += b"".join(_annotation(key, row[key]) for key in _ARGUMENTS if row[key] is not None)
    if side.after:
        moves = {f"{key}_ns": round(row[key] * 1e9) for key in _MOVES}
        out += b"".join(_annotation(key, value) for key, value in moves.items() if value)
        out += b"".join(
            _annotation(key, str(row[key]))
            for key in ("reason", "held_by", "ended_by")
            if row[key] is not None
        )
    if row["flow_in"] is not None:
        out += _flow(_ENDING_FLOW, 2 * row["flow_in"] + 1 + side.after)
    elif row["flow_out"]:
        out += _flow(_FLOW, 2 * row["number"] + 1 + side.after)
    return out


def _critical(
    about: dict[str, Any], side: Side, shown: pl.DataFrame, names: list[str]
) -> Iterator[bytes]:
    """Yield the critical path of one side: a slice around it that names the answer behind it, and
    its steps.
    """
    track = perfetto.path_track(side)
    name, arguments = perfetto.run_words(about, side)
    head = text(_EVENT_NAME, name) + text(_CATEGORY, "run")
    head += b"".join(
        _annotation(key, value if isinstance(value, str) else str(value))
        for key, value in arguments.items()
    )
    yield _event(int(shown["ts"][0]), _BEGIN, track, head)
    for ts, end, moved, step in zip(
        shown["ts"].to_list(),
        shown["end"].to_list(),
        shown["moved_ns"].to_list(),
        names,
        strict=True,
    ):
        yield _event(
            ts,
            _BEGIN,
            track,
            text(_EVENT_NAME, step) + text(_CATEGORY, "critical") + _annotation("delay_ns", moved),
        )
        yield _event(end, _END, track)
    yield _event(int(shown["end"][-1]), _END, track)


def _delay(shown: pl.DataFrame) -> Iterator[bytes]:
    """Yield how much later than recorded the critical path is, wherever that changes [ns]."""
    inside = (
        number(_UUID, _DELAY)
        + text(_NAME, "accumulated delay [ns]")
        + number(_PARENT, perfetto.PATHS)
        + chunk(_COUNTER, b"")
    )
    yield number(_SEQUENCE, _ONE_SEQUENCE) + chunk(_TRACK_DESCRIPTOR, inside)
    changed = shown.filter((pl.col("moved_ns") != pl.col("moved_ns").shift(1)).fill_null(True))
    for end, moved in changed.select("end", "moved_ns").iter_rows():
        yield _event(end, _COUNT, _DELAY, number(_COUNTER_VALUE, moved))
