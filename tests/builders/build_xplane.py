"""Small XSpaces for tests, as JAX and TensorFlow write them: planes of lines of events, in
protobuf's wire format.

>>> from turnbuckle.trace.readers.chakra.wire import fields
>>> [number for number, _, _ in fields(space(plane("/host:CPU", {}, [])))]
[1]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: An event: name, begin and length [ns], and its stats by name.
Event = tuple[str, int, int, Mapping[str, Any]]


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def whole(field: int, number: int) -> bytes:
    return varint(field << 3) + varint(number)


def part(field: int, content: bytes | str) -> bytes:
    data = content if isinstance(content, bytes) else content.encode()
    return varint(field << 3 | 2) + varint(len(data)) + data


def space(*planes: bytes) -> bytes:
    return b"".join(part(1, plane) for plane in planes) + part(4, "secret-host")


def plane(
    name: str, stats: Mapping[str, Any], lines: Sequence[tuple[str, int, Sequence[Event]]]
) -> bytes:
    """One plane: its own stats, and its lines by name with the begin [ns] that their events count
    from.
    """
    events, keys = _Numbers(), _Numbers()
    own = b"".join(part(6, _stat(keys, key, value)) for key, value in stats.items())
    made = b""
    for number, (line, begin, of_line) in enumerate(lines):
        content = whole(1, number) + part(2, line) + whole(3, begin)
        for text, at, lasts, more in of_line:
            event = whole(1, events(text)) + whole(2, at * 1000) + whole(3, lasts * 1000)
            content += part(
                4, event + b"".join(part(4, _stat(keys, key, value)) for key, value in more.items())
            )
        made += part(3, content)
    named = b"".join(part(4, _entry(number, text)) for text, number in events.numbers.items())
    named += b"".join(part(5, _entry(number, text)) for text, number in keys.numbers.items())
    return part(2, name) + made + named + own


class _Numbers:
    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers) + 1)


def _entry(number: int, text: str) -> bytes:
    return whole(1, number) + part(2, whole(1, number) + part(2, text))


def _stat(keys: _Numbers, key: str, value: Any) -> bytes:
    """A stat: numbers as such, texts as references to the table of names, as the profilers write
    most of them.
    """
    head = whole(1, keys(key))
    return head + (whole(3, value) if isinstance(value, int) else whole(7, keys(value)))


def turns(count: int = 3) -> bytes:
    """Turns of a copy to the device, a kernel and a wait of JAX on one GPU, with what XLA calls
    them on lines of their own.
    """
    copies: list[Event] = []
    kernels: list[Event] = []
    ops: list[Event] = []
    calls: list[Event] = []
    python: list[Event] = []
    for k in range(count):
        at = 100_000 * k
        details = {
            "correlation_id": 2 * k + 1,
            "memcpy_details": "kind_src:pinned kind_dst:device size:4096 dest:0 async:1",
        }
        copies.append(("MemcpyH2D", at + 9_000, 4_000, details))
        shape = "regs:32 static_shared:16 dynamic_shared:1024 grid:4,2,1 block:128,1,1 occ_pct:100"
        kernels.append(
            (
                "fusion_1.kd",
                at + 40_000,
                20_000,
                {"correlation_id": 2 * k + 2, "kernel_details": shape},
            )
        )
        ops.append(("fusion.1", at + 40_000, 20_000, {"hlo_op": "fusion.1"}))
        calls += [
            ("cuMemcpyHtoDAsync_v2", at + 1_000, 6_000, {"correlation_id": 2 * k + 1}),
            ("cuLaunchKernel", at + 30_000, 5_000, {"correlation_id": 2 * k + 2}),
            ("cuStreamSynchronize", at + 36_000, 26_000, {"correlation_id": 1000 + k}),
            ("PjitFunction(step)", at, 70_000, {}),
        ]
        python.append(("$secret.py:12 step", at + 71_000, 9_000, {}))
    about = {
        "memory_size": 80 << 30,
        "memory_bandwidth": 2_000_000_000_000,
        "core_count": 108,
        "clock_rate": 1_410_000,
    }
    about |= {"compute_cap_major": 8, "compute_cap_minor": 0}
    lines = [
        ("Stream #13(MemcpyH2D)", 5_000, copies),
        ("Stream #14(Compute)", 5_000, kernels),
        ("XLA Ops", 5_000, ops),
    ]
    host = [("jax/17", 5_000, calls), ("python", 5_000, python)]
    return space(
        plane("/device:GPU:0", about, lines),
        plane("/host:CPU", {}, host),
        plane("Task Environment", {"profile_start_time": 1 << 60}, []),
    )
