"""Runs small enough to answer by hand, row by row."""

from __future__ import annotations

from typing import Any

from strategies import D2H, DEVICE, H2D, NAMES, PINNED, trace_of

from turnbuckle.profile.profile import Profile, build

PROCESS = 1000 << 24


THREAD, OTHER = PROCESS | 1, PROCESS | 2


Row = dict[str, Any]


def call(
    start: int,
    end: int,
    correlation: int | None = None,
    name: str = "cudaLaunchKernel",
    thread: int = THREAD,
    **more: Any,
) -> Row:
    about = {
        "process": PROCESS,
        "thread": thread,
        "correlation": correlation,
        "name": NAMES.index(name),
        "result": 0,
        "level": 0,
    }
    return {"start_ns": start, "end_ns": end, **about, **more}


def on_device(start: int, end: int, correlation: int | None = None, **more: Any) -> Row:
    about = {
        "process": PROCESS,
        "device": 0,
        "context": 1,
        "stream": 7,
        "correlation": correlation,
        "name": 0,
    }
    return {"start_ns": start, "end_ns": end, **about, **more}


def copy(
    start: int,
    end: int,
    direction: int = H2D,
    size: int = 4096,
    correlation: int | None = None,
    memory: int = PINNED,
    **more: Any,
) -> Row:
    ends = {H2D: (memory, DEVICE), D2H: (DEVICE, memory)}.get(direction, (DEVICE, DEVICE))
    return on_device(
        start,
        end,
        correlation,
        direction=direction,
        size_bytes=size,
        source_memory=ends[0],
        target_memory=ends[1],
        **more,
    )


def profile_of(**rows: list[Row]) -> Profile:
    return build(trace_of(rows))


def allocation(time: int, operation: int, size: int, address: int, memory: int = DEVICE) -> Row:
    return {
        "time_ns": time,
        "process": PROCESS,
        "device": 0,
        "operation": operation,
        "size_bytes": size,
        "address": address,
        "memory": memory,
    }
