"""Reader of the profiles of JAX and TensorFlow (``HOST.xplane.pb``): an XSpace, one plane for each
GPU and for the host.

Of a GPU's plane only the lines of streams are read; lines such as ``XLA Ops`` repeat them under
other names.  Events of the host with a correlation id are calls of the GPU runtime; its other
events are ranges.  Field numbers are those of ``xplane.proto``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import polars as pl

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.files import opened
from turnbuckle.foundation.findings import finding
from turnbuckle.foundation.schema import words
from turnbuckle.trace.ids import MOST_THREADS, id_of
from turnbuckle.trace.readers.chakra.wire import Wrong, fields
from turnbuckle.trace.readers.parts.mpi_tables import Names
from turnbuckle.trace.readers.parts.packed_text import packed, unpacked
from turnbuckle.trace.readers.rocprof.rows import kernel_name
from turnbuckle.trace.trace import Trace, completed

#: A first plane with its name, behind its length and an optional id.
_FIRST: Final = re.compile(
    rb"\n[\x80-\xff]{0,9}[\x00-\x7f](?:\x08[\x80-\xff]{0,9}[\x00-\x7f])?\x12.(?:/host:|/device:|Task )",
    re.DOTALL,
)
_NAMED: Final = (".xplane.pb", ".xplane.pb.gz")
_GPU: Final = re.compile(r"/device:GPU:(\d{1,6})")
_STREAM: Final = re.compile(r"Stream #(\d{1,18})")
_PIECE: Final = 1 << 20
#: Most bytes of one protobuf message, by protobuf itself [B].
_MOST_BYTES: Final = (1 << 31) - 1
#: Largest believable time [ns].
_MOST_NS: Final = 1 << 62
_PROCESS: Final = id_of(1)
_DIRECTIONS: Final = words("directions")
_MEMORIES: Final = words("memories")
_COPY: Final = re.compile(r"Memcpy(H2D|D2H|D2D|P2P)")
_DETAIL: Final = re.compile(r"(\w{1,20}):([\w,]{1,60})")
_DESCRIBES: Final = {
    "memory_size": "memory_bytes",
    "memory_bandwidth": "memory_bandwidth",
    "core_count": "multiprocessors",
    "compute_cap_major": "compute_major",
    "compute_cap_minor": "compute_minor",
}
_Fields = dict[int, Any]


def sniff(head: bytes, path: Path) -> bool:
    """Return whether the file is an XSpace, by its first plane or, where it is packed or damaged,
    by its name.
    """
    return _FIRST.match(head) is not None or path.name.endswith(_NAMED)


def read(
    path: Path, *, threads: int = 0, progress: Callable[[float], object] | None = None
) -> Trace:
    """Read a profile.  Raises P087 damaged or cut off, P088 without a stream of a GPU, P025 and
    P026 packed and damaged.
    """
    del threads, progress
    with opened(path) as file:
        raw = file.read(_MOST_BYTES)
    data = b"".join(unpacked(iter((raw,)), path)) if packed(raw) else raw
    space = _Space()
    try:
        for number, _, value in fields(data):
            if number == 1 and isinstance(value, bytes):
                space.add(value)
    except (Wrong, ValueError, KeyError) as error:
        raise error_of("P087", where=str(path), found=str(error)[:120]) from None
    if not space.rows["kernels"] and not space.rows["copies"]:
        found = ", ".join(space.planes[:8]) or "no plane"
        raise error_of("P088", where=str(path), found=found)
    return space.trace(path, hashlib.sha256(raw).hexdigest(), len(raw))


class _Space:
    """Rows of the planes read so far; times in picoseconds of the profile's clock."""

    def __init__(self) -> None:
        self.names = Names()
        self.rows: dict[str, list[dict[str, Any]]] = {
            name: [] for name in ("kernels", "copies", "memsets", "api", "ranges", "devices")
        }
        self.planes: list[str] = []
        self.broken = self.host_lines = 0
        self.start_utc_ns: int | None = None

    def add(self, data: bytes) -> None:
        """Read one plane."""
        plane = _Plane(data)
        self.planes.append(plane.name)
        if (gpu := _GPU.match(plane.name)) is not None:
            self._device(int(gpu[1]), plane)
        elif plane.name.startswith("/host:"):
            self._host(plane)
        started = plane.stats.get("profile_start_time")
        if isinstance(started, int) and 0 < started < 1 << 62:
            self.start_utc_ns = started

    def _device(self, number: int, plane: _Plane) -> None:
        known = {ours: plane.stats.get(theirs) for theirs, ours in _DESCRIBES.items()}
        clock_khz = plane.stats.get("clock_rate")
        device: dict[str, Any] = {
            name: value
            for name, value in known.items()
            if isinstance(value, int) and value < 1 << 62
        }
        if isinstance(clock_khz, int) and clock_khz < 1 << 40:
            device["clock_hz"] = clock_khz * 1000
        # which counts otherwise: 9.4 are the chips gfx94x
        if plane.stats.get("device_vendor") == "AMD":
            capability = [device.pop(name, None) for name in ("compute_major", "compute_minor")]
            device["chip"] = "gfx" + "".join(
                f"{number:x}" for number in capability if number is not None
            )
        self.rows["devices"].append({"device": number, **device})
        for name, events in plane.lines():
            stream = _STREAM.match(name)
            if stream is None:
                continue
            place = {"process": _PROCESS, "device": number, "stream": int(stream[1]) % (1 << 31)}
            for event, stats in events:
                self._on_device(event | place, stats)

    def _on_device(self, event: dict[str, Any], stats: dict[str, Any]) -> None:
        """Add a kernel, a copy or a set."""
        if not self._believed(event):
            return
        text = event.pop("text")
        event["correlation"] = _number(stats.get("correlation_id"))
        copy = _COPY.match(text)
        if copy is not None or "memcpy_details" in stats:
            details = _details(stats, "memcpy_details")
            ends = [_memory(details.get(end)) for end in ("kind_src", "kind_dst")]
            direction = copy[1].lower() if copy else "unknown"
            if direction == "unknown" and text.startswith("Memcpy"):
                direction = _direction(*ends)
            size = _number(details.get("size"))
            self.rows["copies"].append(
                event
                | {"direction": _DIRECTIONS.index(direction), "size_bytes": size or None}
                | {"source_memory": ends[0], "target_memory": ends[1]}
            )
        elif text.startswith("Memset") or "memset_details" in stats:
            details = _details(stats, "memset_details")
            memory = _memory(details.get("kind"))
            self.rows["memsets"].append(
                event | {"size_bytes": _number(details.get("size")), "memory": memory}
            )
        else:
            self.rows["kernels"].append(
                event
                | {
                    "name": self.names(kernel_name(text)),
                    **_shape(_details(stats, "kernel_details")),
                }
            )

    def _host(self, plane: _Plane) -> None:
        for _, events in plane.lines():
            self.host_lines = min(self.host_lines + 1, MOST_THREADS - 1)
            thread = id_of(1, self.host_lines)
            for event, stats in events:
                if not self._believed(event):
                    continue
                text = event.pop("text")
                row = event | {"thread": thread, "name": self.names(text)}
                if "correlation_id" in stats:
                    driver = text.startswith("cu") and not text.startswith("cuda")
                    number = _number(stats["correlation_id"])
                    self.rows["api"].append(
                        row
                        | {
                            "process": _PROCESS,
                            "correlation": number,
                            "level": int(driver),
                            "result": 0,
                        }
                    )
                elif row["end_ps"] > row["start_ps"]:
                    # the tracer of Python writes "$file.py:12 function"
                    self.rows["ranges"].append(row | {"kind": 2 if text.startswith("$") else 1})

    def _believed(self, event: dict[str, Any]) -> bool:
        """Return whether times fit a recording, and count the events whose times do not."""
        fit: bool = 0 <= event["start_ps"] <= event["end_ps"] < 1000 * _MOST_NS
        self.broken += not fit
        return fit

    def trace(self, path: Path, digest: str, size_bytes: int) -> Trace:
        """Return the trace: times count from its first event, and lose what is less than a
        nanosecond.
        """
        first_ns = (
            min(row["start_ps"] for rows in self.rows.values() for row in rows if "start_ps" in row)
            // 1000
        )
        tables = {}
        for table, rows in self.rows.items():
            timed = table != "devices"
            made = [{**row, **_nanoseconds(row, first_ns)} if timed else row for row in rows]
            if made:
                frame = completed(table, pl.DataFrame(made, infer_schema_length=None), strict=False)
                tables[table] = frame.sort("start_ns", maintain_order=True) if timed else frame
        counts = {table: len(rows) for table, rows in self.rows.items()}
        facts: dict[str, Any] = {
            "format": "xplane",
            "schema_version": None,
            "product_version": "JAX or TensorFlow",
            "tables": counts,
        }
        facts |= {
            "session_start_utc_ns": self.start_utc_ns,
            "analysis_duration_ns": None,
            "size_bytes": size_bytes,
            "sha256": digest,
        }
        found = [finding("P162", self.broken)] if self.broken else []
        return Trace(tables, self.names.series(), facts, found, path.name)


class _Plane:
    """A plane: its name, its stats by name, and its lines."""

    def __init__(self, data: bytes) -> None:
        self.name = ""
        stats: dict[int, str] = {}
        events: dict[int, str] = {}
        own: list[bytes] = []
        self._lines: list[bytes] = []
        for number, _, value in fields(data):
            if number == 2:
                self.name = _text(value)
            elif number == 3:
                self._lines.append(value)
            elif number == 6:
                own.append(value)
            elif number in (4, 5):
                entry: _Fields = {field: content for field, _, content in fields(value)}
                about: _Fields = {field: content for field, _, content in fields(entry.get(2, b""))}
                # a kernel's name, not what a viewer displays instead
                (events if number == 4 else stats)[entry.get(1, 0)] = _text(about.get(2, b""))
        self._events, self._stats = events, stats
        self.stats = self._named(own)

    def lines(self) -> Iterator[tuple[str, Iterator[tuple[dict[str, Any], dict[str, Any]]]]]:
        """Yield the name of each line, and its events: text, start and end [ps], with the event's
        stats by name.
        """
        for line in self._lines:
            name, start_ns, events = "", 0, []
            for number, _, value in fields(line):
                if number == 2:
                    name = _text(value)
                elif number == 3:
                    start_ns = value if isinstance(value, int) else 0
                elif number == 4:
                    events.append(value)
            yield name, self._read(events, start_ns * 1000)

    def _read(
        self, events: list[bytes], start_ps: int
    ) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        for event in events:
            plain: _Fields = {}
            stats: list[bytes] = []
            for number, _, value in fields(event):
                if number == 4:
                    stats.append(value)
                else:
                    plain[number] = value
            at, lasts = (
                value if isinstance(value, int) else 0 for value in (plain.get(2), plain.get(3))
            )
            at += start_ps
            yield (
                {
                    "text": self._events.get(plain.get(1, 0), ""),
                    "start_ps": at,
                    "end_ps": at + lasts,
                },
                self._named(stats),
            )

    def _named(self, stats: list[bytes]) -> dict[str, Any]:
        """Return stats by their names; a value that is a reference is the text it refers to."""
        out: dict[str, Any] = {}
        for stat in stats:
            key, value = "", None
            for number, _, content in fields(stat):
                if number == 1:
                    key = self._stats.get(content, "")
                elif number == 7:
                    value = self._stats.get(content, "")
                elif number == 5:
                    value = _text(content)
                elif number in (3, 4):
                    value = content
            out[key] = value
        return out


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _number(value: Any) -> int | None:
    """Return a count from a number or its text; None where it is none, or none that a column
    holds.
    """
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        value = int(value)
    return value if isinstance(value, int) and 0 <= value < 1 << 62 else None


def _nanoseconds(row: dict[str, Any], first_ns: int) -> dict[str, int]:
    return {
        "start_ns": row["start_ps"] // 1000 - first_ns,
        "end_ns": row["end_ps"] // 1000 - first_ns,
    }


def _details(stats: dict[str, Any], name: str) -> dict[str, str]:
    """Return what one text tells: ``kind_src:pageable kind_dst:device size:4096``."""
    text = stats.get(name)
    return dict(_DETAIL.findall(text[:500])) if isinstance(text, str) else {}


def _memory(word: str | None) -> int:
    return _MEMORIES.index(word) if word in _MEMORIES else 0


def _direction(source: int, target: int) -> str:
    """Return a copy's direction from the memories at its ends."""
    ends = "".join(
        "h" if _MEMORIES[end] in ("pageable", "pinned") else "d" for end in (source, target) if end
    )
    return {"hd": "h2d", "dh": "d2h", "dd": "d2d", "hh": "h2h"}.get(ends, "unknown")


def _shape(details: dict[str, str]) -> dict[str, int]:
    """Return blocks, threads, registers and shared memory of a launch by CUDA; AMD's grids count
    blocks or work-items, and stay unknown.
    """
    if "regs" not in details:
        return {}
    out = {}
    for ours, theirs in (("blocks", "grid"), ("threads", "block")):
        sides = [_number(side) for side in details.get(theirs, "").split(",")]
        product = 1
        for side in sides:
            product *= side or 0
        if 0 < product < 1 << 62:
            out[ours] = product
    shared = [_number(details.get(kind)) or 0 for kind in ("static_shared", "dynamic_shared")]
    registers = _number(details["regs"]) or 0
    return out | {"registers": registers % (1 << 31), "shared_bytes": sum(shared) % (1 << 31)}
