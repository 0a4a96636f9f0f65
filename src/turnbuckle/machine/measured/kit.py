"""Our own measuring program: sections of ``turnbuckle calibrate --run``, and of the kit that
measures the same with the CUDA toolkit.

A file holds one JSON object a section: ``section``, ``args``, ``machine``, ``rows``; a row has
parameters and samples, each with n, q25, median, q75 [ns].  Runs of the slack proxy (``"program":
"proxy"``) become a response surface.

Errors:

    A412  not a sequence of such objects
    A413  an impossible number
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from turnbuckle.foundation.errors import clipped, error_of

from .parts import Found, Left, Points, Quantity, Text, clean, way_words

#: Objects of one file, and rows of one section.
_MOST_OBJECTS, _MOST_ROWS = 100_000, 100_000
_DIRECTIONS: Final = ("h2d", "d2h", "d2d", "p2p")
_MEMORIES: Final = ("pinned", "pageable", "device", "managed")
_NS: Final = 1e-9

Row = dict[str, Any]


def microbench(file: Text, left: Left) -> Found:
    """Read curves of copies by size and definition, single quantities, and the response surface of
    the slack proxy.
    """
    out = _Kit(file, left)
    for line, document in _objects(file):
        machine = document.get("machine")
        if isinstance(machine, dict):
            out.machine(machine)
        if document.get("program") == "proxy":
            out.proxy(document)
        section = document.get("section")
        if not isinstance(section, str):
            continue
        rows = document.get("rows")
        if not isinstance(rows, list) or len(rows) > _MOST_ROWS:
            raise error_of("A412.empty", where=f"{file.name}:{line}", found=clipped(section))
        out.section(section, [r for r in rows if isinstance(r, dict)], line)
    return out.result()


def _objects(file: Text) -> Iterator[tuple[int, Row]]:
    """Yield the JSON objects of a file, each with its first line."""
    decoder = json.JSONDecoder(parse_constant=lambda _: math.nan, object_pairs_hook=_members)
    position, line, count = 0, 1, 0
    text = file.text
    while True:
        ahead = len(text) - len(text[position:].lstrip()) if position < len(text) else len(text)
        line += text.count("\n", position, ahead)
        position = ahead
        if position >= len(text):
            return
        try:
            document, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            raise error_of("A412.line", where=f"{file.name}:{line}") from None
        count += 1
        if not isinstance(document, dict) or count > _MOST_OBJECTS:
            raise error_of("A412.sections", where=f"{file.name}:{line}")
        yield line, document
        line += text.count("\n", position, end)
        position = end


def _members(pairs: list[tuple[str, Any]]) -> Row:
    """Return a JSON object in which the kit wrote ``call`` twice: how it was called, and how long
    the call took (``call_time``).
    """
    out: Row = {}
    for key, value in pairs:
        out[f"{key}_time" if key in out else key] = value
    return out


#: Sections with a handler of their name.
_OF_DEVICE: Final = ("launch", "sync", "event", "alloc", "concurrent", "contention", "device")
_HANDLED: Final = ("copy", "gap", "threshold", *_OF_DEVICE, "host", "managed", "slack")


class _Kit:
    """Sections of one file, added up."""

    def __init__(self, file: Text, left: Left) -> None:
        self.file, self.left, self.out, self.line = file, left, Found(), 0
        self.group: dict[tuple[str, ...], Points] = {}
        self.handlers: dict[str, Callable[[list[Row]], None]] = {
            name: getattr(self, f"_{name}") for name in _HANDLED
        }
        self.handlers |= {"launchtrace": self._traced, "peer": self._copy}
        self.runs: dict[tuple[float, float, float], list[float]] = {}
        self.kernel_seconds: dict[float, float] = {}

    def result(self) -> Found:
        self.out.points = list(self.group.values())
        for (size, threads, slack), values in sorted(self.runs.items()):
            point = {
                "size": size,
                "threads": threads,
                "slack_s": slack,
                "seconds": float(np.median(values)),
                "runs": float(len(values)),
            }
            point |= (
                {"kernel_seconds": self.kernel_seconds[size]} if size in self.kernel_seconds else {}
            )
            self.out.surface.append(point)
        return self.out

    def machine(self, facts: Row) -> None:
        if isinstance(name := facts.get("gpu"), str):
            self.out.device = self.out.device or clean(name)
        driver = facts.get("driver") or facts.get("cuda_driver")
        self.out.driver = self.out.driver or (clean(str(driver)) if driver else "")
        listed = {q.what for q in self.out.quantities}
        size, clock, bus = (
            self._plain(facts, k)
            for k in ("memory_bytes", "max_memory_clock_khz", "memory_bus_bits")
        )
        if size and "memory.size" not in listed:
            self._add("memory.size", size, "B", 0.0, 1, "device description")
        if clock and bus and "memory.peak" not in listed:
            self._add(
                "memory.peak",
                2e3 * clock * bus / 8,
                "B/s",
                0.0,
                1,
                "memory clock x bus width of the device description",
            )

    def proxy(self, run: Row) -> None:
        given = run.get("args")
        args: Row = given if isinstance(given, dict) else {}
        values = {k: self._plain(args, k) for k in ("n", "threads")}
        each, slack = self._plain(run, "per_iter_ns"), run.get("slack_ns")
        if (
            not isinstance(slack, int | float)
            or not math.isfinite(slack)
            or None in (values["n"], values["threads"], each)
        ):
            self.left.out("runs of the slack proxy without size, threads, slack and time")
            return
        if alone := self._plain(args, "kernel_ns"):
            self.kernel_seconds[float(values["n"] or 0)] = alone * _NS
        key = (float(values["n"] or 0), float(values["threads"] or 0), max(float(slack), 0.0) * _NS)
        self.runs.setdefault(key, []).append(float(each or 0) * _NS)

    def section(self, name: str, rows: list[Row], line: int) -> None:
        self.line = line
        skipped = [r for r in rows if r.get("skipped") == "deadline"]
        if skipped:
            self.left.out(
                f"measurements of section {clipped(name, 20)} that a deadline cut off", len(skipped)
            )
        handler = self.handlers.get(name)
        if handler is None:
            self.left.out("sections of another kind")
            return
        handler([r for r in rows if "skipped" not in r])

    # one number, one sample

    def _plain(self, row: Row, key: str) -> float | None:
        """Return a number above zero, also from text.  Raises A413 for numbers beyond any
        machine.
        """
        value = row.get(key)
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                return None
        if not isinstance(value, int | float) or isinstance(value, bool):
            return None
        try:
            real = float(value)
        except OverflowError:
            real = math.inf
        if not math.isfinite(real) or abs(real) > 1e18:
            raise error_of(
                "A413", where=f"{self.file.name}:{self.line}", found=clipped(f"{key} {value}")
            )
        return real if real > 0 else None

    def _stat(self, row: Row, key: str) -> tuple[float, float, int] | None:
        """Return median [s], its relative standard error, and the count; None where nothing was
        measured.
        """
        sample = row.get(key)
        if not isinstance(sample, dict):
            return None
        n, median = self._plain(sample, "n"), self._plain(sample, "median")
        if n is None or median is None:
            return None
        low, high = self._plain(sample, "q25") or median, self._plain(sample, "q75") or median
        error = 1.2533 * max(high - low, 0.0) / 1.349 / math.sqrt(n) / median
        return median * _NS, error, int(n)

    def _add(
        self,
        what: str,
        value: float,
        unit: str,
        error: float,
        count: int,
        where: str,
        note: str = "",
    ) -> None:
        self.out.quantities.append(
            Quantity(
                what,
                value,
                unit,
                error,
                count,
                f"{where}, line {self.line}" if self.line else where,
                note,
            )
        )

    def _time(self, what: str, row: Row, key: str, where: str, note: str = "") -> None:
        if stat := self._stat(row, key):
            self._add(what, stat[0], "s", stat[1], stat[2], where, note)

    def _point(
        self,
        route: str,
        memory: str,
        means: str,
        name: str,
        size: float,
        stat: tuple[float, float, int],
    ) -> None:
        points = self.group.setdefault(
            (route, memory, means), Points(route, memory, name, means=means)
        )
        points.add(size, stat[0], 0.0, self.line)

    def _class(self, row: Row) -> tuple[str, str, float] | None:
        route, memory, size = row.get("dir"), row.get("mem", "pinned"), self._plain(row, "bytes")
        if route not in _DIRECTIONS or memory not in _MEMORIES or size is None:
            self.left.out("rows of copies without direction, memory or size")
            return None
        return str(route), str(memory), size

    # the sections

    def _copy(self, rows: list[Row]) -> None:
        small: list[tuple[float, float, int]] = []
        for row in rows:
            if (which := self._class(row)) is None:
                continue
            route, memory, size = which
            words = way_words(route, memory)
            for key, means, how in (
                ("event", "event", "between two events"),
                ("done", "host", "as the host sees it"),
            ):
                if row.get("call") == "async" and (stat := self._stat(row, key)):
                    self._point(route, memory, means, f"{words}, {how}", size, stat)
                    if key == "done" and memory == "pinned" and size == 128:
                        small.append(stat)
        if small:
            error = math.hypot(*(f[0] * f[1] for f in small)) / sum(f[0] for f in small)
            self._add(
                "bare.copy",
                sum(f[0] for f in small) / len(small),
                "s",
                error,
                sum(f[2] for f in small),
                "copy, 128 B, call to idle stream",
            )

    def _gap(self, rows: list[Row]) -> None:
        totals: dict[tuple[str, float], list[tuple[float, float]]] = {}
        # what two events add to what they enclose, where that was measured
        empty = next(
            (
                f[0]
                for r in rows
                if r.get("case") == "nothing_between" and (f := self._stat(r, "event_total"))
            ),
            0.0,
        )
        for row in rows:
            if (
                row.get("case") == "both_directions"
                and (size := self._plain(row, "bytes"))
                and (stat := self._stat(row, "event_per_pair"))
            ):
                if size >= 16 << 20:
                    self._add(
                        "rate.both",
                        size / stat[0],
                        "B/s",
                        stat[1],
                        stat[2],
                        f"gap, both directions, {size:.0f} B",
                    )
                continue
            count = self._plain(row, "count")
            if (
                row.get("case") == "back_to_back"
                and count
                and (which := self._class(row))
                and (stat := self._stat(row, "event_total"))
            ):
                totals.setdefault((which[0], which[2]), []).append((count, stat[0]))
        for (route, size), points in totals.items():
            count_of, total = np.array(points).T
            single = total[count_of == 1]
            if len(single):
                alone = float(single[0]) - (empty if empty < single[0] else 0.0)
                self._point(
                    route,
                    "pinned",
                    "queued",
                    f"{route} pinned, one behind a busy kernel",
                    size,
                    (alone, 0.0, 1),
                )
            if len(np.unique(count_of)) < 2:
                continue
            # relative weights: the period is the slope of the time over the number of copies
            slope, _ = np.polyfit(count_of, total, 1, w=1.0 / total)
            if slope > 0:
                self._point(
                    route,
                    "pinned",
                    "period",
                    f"{route} pinned, period of copies behind each other",
                    size,
                    (float(slope), 0.0, len(points)),
                )

    def _threshold(self, rows: list[Row]) -> None:
        for row in rows:
            if (
                row.get("call") == "async"
                and (which := self._class(row))
                and (stat := self._stat(row, "call_time"))
            ):
                self._point(
                    which[0],
                    "pageable",
                    "call",
                    f"{which[0]} pageable, until the call returns",
                    which[2],
                    stat,
                )

    def _launch(self, rows: list[Row]) -> None:
        for row in rows:
            case, plain = row.get("case"), row.get("kernel") == "empty_0B"
            if case == "queue_empty" and plain:
                self._time("bare.launch", row, "call", "launch, queue empty")
                self._time(
                    "launch.round_trip",
                    row,
                    "round_trip",
                    "launch, queue empty, call to idle stream",
                )
            elif case == "queue_busy" and plain:
                self._time("launch.busy", row, "call", "launch, queue busy")
            elif case == "back_to_back" and plain and self._plain(row, "count") == 1000:
                self._time(
                    "launch.period", row, "per_kernel", "launch, 1000 back to back, host period"
                )
            elif case == "queued_device_period":
                self._time(
                    "launch.device_period", row, "per_kernel", "launch, queued, device period"
                )
            elif case == "launch_to_flag" and row.get("pause_ns") == 0:
                self._time(
                    "launch.to_flag",
                    row,
                    "seen",
                    "launch, call to the kernel's store seen by the host",
                )
            elif case == "flag_round_trip":
                self._time(
                    "flag.round_trip",
                    row,
                    "round_trip",
                    "launch, a flag to a running kernel and back",
                )
            elif case == "graph" and self._plain(row, "kernels") == 1:
                self._time("launch.graph", row, "call", "launch, graph of one kernel")

    def _traced(self, rows: list[Row]) -> None:
        for row in rows:
            if row.get("injected") is True and row.get("pause_ns") == 0:
                self._time("launch.call", row, "call", "launchtrace, under the recorder")

    def _sync(self, rows: list[Row]) -> None:
        best: dict[str, tuple[float, float, int]] = {}
        for row in rows:
            name, blocking = str(row.get("call_name", "")), self._plain(row, "blocking") is not None
            if row.get("case") == "idle" and name in ("cudaDeviceSynchronize", "cuCtxSynchronize"):
                self._time("bare.sync", row, "call", f"sync, {name} on an idle device")
            elif (
                row.get("case") == "flag_seen_to_return"
                and name.endswith("StreamSynchronize")
                and (stat := self._stat(row, "latency"))
            ):
                what = "sync.blocking" if blocking else "sync.seen"
                best[what] = min(best.get(what, stat), stat)
        for what, stat in best.items():
            self._add(
                what,
                stat[0],
                "s",
                stat[1],
                stat[2],
                "sync, the kernel's last store seen to return of the wait, least of the durations",
            )

    def _event(self, rows: list[Row]) -> None:
        for row in rows:
            case = row.get("case")
            if case == "two_records_elapsed":
                self._time("event.empty", row, "event", "event, two records behind each other")
            elif case == "event_hop_between_streams":
                self._time("event.hop", row, "per_hop", "event, hand-over between two streams")
            elif case == "call" and str(row.get("call_name", "")).startswith(
                ("cudaEventRecord_timing", "cuEventRecord_timing")
            ):
                self._time("event.record", row, "call", "event, record")

    def _alloc(self, rows: list[Row]) -> None:
        times: list[float] = []
        for row in rows:
            size = self._plain(row, "bytes")
            if row.get("case") in ("cudaMalloc", "cuMemAlloc") and size and size <= 64 << 20:
                times += [stat[0] for key in ("get", "release") if (stat := self._stat(row, key))]
        if times:
            spread = float(np.std(np.log(times))) / math.sqrt(len(times))
            where = "alloc, median of allocations and releases up to 64 MiB"
            self._add(
                "alloc.call",
                float(np.median(times)),
                "s",
                spread,
                len(times),
                where,
                f"from {min(times):.3g} to {max(times):.3g} s by size",
            )

    def _concurrent(self, rows: list[Row]) -> None:
        walls: dict[float, float] = {}
        for row in rows:
            kernels, stat = self._plain(row, "kernels"), self._stat(row, "wall")
            if (
                row.get("case") == "spinning_kernels"
                and self._plain(row, "blocks") == 1
                and kernels
                and stat
            ):
                walls[kernels] = stat[0]
        if len(walls) > 1 and 1.0 in walls:
            alone, side_by_side = (
                walls[1.0],
                [k for k, wall in sorted(walls.items()) if wall <= 1.5 * walls[1.0]],
            )
            beyond = [k for k in walls if k > side_by_side[-1]]
            note = f"{min(beyond):.0f} take a second round" if beyond else "more were not tried"
            where = (
                f"concurrent, kernels of one block within 1.5 times of one alone ({alone:.3g} s)"
            )
            self._add("kernel.concurrency", side_by_side[-1], "1", 0.0, len(walls), where, note)

    def _contention(self, rows: list[Row]) -> None:
        held = {
            (r.get("kernel"), r.get("copies")): r
            for r in rows
            if r.get("case") == "kernel_and_copies"
        }
        for route in ("h2d", "d2h"):
            alone = self._stat(held.get(("none", route), {}), f"{route}_event")
            beside = self._stat(
                held.get(("memory_bound_long", route), held.get(("memory_bound", route), {})),
                f"{route}_event",
            )
            if alone and beside:
                error = math.hypot(alone[1], beside[1])
                self._add(
                    f"contention.{route}",
                    beside[0] / alone[0],
                    "1",
                    error,
                    beside[2],
                    f"contention, {route} beside a memory-bound kernel over alone",
                )

    def _device(self, rows: list[Row]) -> None:
        triad: tuple[float, float, float, int] | None = None
        for row in rows:
            case = row.get("case")
            moved, flop = self._plain(row, "moved_bytes"), self._plain(row, "flop")
            stat = self._stat(row, "event")
            if case == "triad" and moved and stat and (triad is None or moved > triad[0]):
                triad = (moved, moved / stat[0], stat[1], stat[2])
            elif case in ("fma_fp64", "fma_fp32") and flop and stat:
                self._add(
                    f"fma.{case[4:]}",
                    flop / stat[0],
                    "FLOP/s",
                    stat[1],
                    stat[2],
                    f"device, chains of {case[4:]} FMA",
                )
            elif case in ("kernel_reads_host", "kernel_writes_host") and moved and stat:
                self._add(
                    f"rate.{case}",
                    moved / stat[0],
                    "B/s",
                    stat[1],
                    stat[2],
                    f"device, {case.replace('_', ' ')}",
                )
            elif case == "load_latency" and row.get("where") in ("l2", "device", "pinned_host"):
                what = {"l2": "load.l2", "device": "load.device", "pinned_host": "load.host"}[
                    row["where"]
                ]
                self._time(what, row, "latency", f"device, chase of pointers in {row['where']}")
        if triad:
            self._add(
                "device.stream",
                triad[1],
                "B/s",
                triad[2],
                triad[3],
                f"device, triad of {triad[0] / 3:.0f} B arrays",
            )

    def _host(self, rows: list[Row]) -> None:
        best: tuple[float, float, int, float] | None = None
        for row in rows:
            count, moved, threads = (
                self._plain(row, k) for k in ("count", "moved_bytes", "threads")
            )
            if row.get("case") == "cores" and count:
                self._add("host.cores", count, "1", 0.0, 1, "host, cores of the system")
            elif row.get("case") == "interpreter":
                self._time("host.loop", row, "step", "host, a step of an interpreter's loop")
            elif row.get("case") == "stream_triad" and moved and (stat := self._stat(row, "wall")):
                best = max(
                    best or (0.0, 0.0, 0, 0.0), (moved / stat[0], stat[1], stat[2], threads or 1.0)
                )
        if best:
            self._add(
                "host.stream",
                best[0],
                "B/s",
                best[1],
                best[2],
                f"host, triad by {best[3]:.0f} threads, the best of all numbers",
            )

    def _slack(self, rows: list[Row]) -> None:
        for row in rows:
            size, threads, slack, stat = (
                self._plain(row, "n"),
                self._plain(row, "threads"),
                row.get("slack_ns"),
                self._stat(row, "per_iter"),
            )
            if size and threads and stat and isinstance(slack, int | float) and 0 <= slack < 1e18:
                self.runs.setdefault((size, threads, float(slack) * _NS), []).append(stat[0])
                if alone := self._plain(row, "kernel_ns"):
                    self.kernel_seconds[size] = alone * _NS

    def _managed(self, rows: list[Row]) -> None:
        for row in rows:
            route, size = row.get("dir"), self._plain(row, "bytes")
            if route in ("h2d", "d2h") and size and (stat := self._stat(row, "event")):
                self._add(
                    f"migration.{route}",
                    size / stat[0],
                    "B/s",
                    stat[1],
                    stat[2],
                    f"managed, {route} of {size:.0f} B by page faults",
                )
