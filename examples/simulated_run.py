"""One process with one GPU, simulated event by event, that writes what a profiler would have
recorded.

Clocks: one for the host thread, one for each stream, one for each copy engine (one engine each
way). A host call takes host time; a device activity starts when its call is over, its stream is
free, the events its stream waits for are recorded and its engine is free; a host wait ends when
what it waits for has ended. All times are integer nanoseconds since the start of the session.
Random numbers use only additions and products of `random.Random.random()`, so the same seed gives
the same file on every machine.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import nsys_tables as nsys
from nsys_tables import D2H, DEVICE, H2D, PAGEABLE

SCHEMA = "3.7"
PROCESS = 4242
MACHINE = 1 << 48  # the part of a global id that names the machine
GLOBAL_PROCESS = MACHINE | (PROCESS << 24)
THREAD = GLOBAL_PROCESS | PROCESS
RUNTIME_VERSION = {
    "cudaLaunchKernel": 7000,
    "cudaMemcpyAsync": 3020,
    "cudaMemcpy": 3020,
    "cudaMemsetAsync": 3020,
    "cudaStreamSynchronize": 3020,
    "cudaDeviceSynchronize": 3020,
    "cudaEventRecord": 3020,
    "cudaStreamWaitEvent": 3020,
    "cudaEventCreateWithFlags": 3020,
    "cudaStreamCreateWithFlags": 5000,
    "cudaMalloc": 3020,
    "cudaFree": 3020,
    "cudaMallocHost": 3020,
    "cudaFreeHost": 3020,
}
MEMORY_BANDWIDTH = 1_555_200_000_000  # B/s, 5120 bits at 2 x 1215 MHz
A100: dict[str, object] = {
    "vmId": MACHINE,
    "id": 0,
    "name": "NVIDIA A100-SXM4-40GB",
    "busLocation": "0000:01:00.0",
    "isDiscrete": 1,
    "l2CacheSize": 41943040,
    "totalMemory": 42505273344,
    "memoryBandwidth": MEMORY_BANDWIDTH,
    "clockRate": 1410000000,
    "smCount": 108,
    "pwGpuId": 0,
    "uuid": "00000000-0000-0000-0000-000000000000",
    "luid": 0,
    "chipName": "GA100",
    "cuDevice": 0,
    "revision": 161,
    "nodeMask": 0,
    "constantMemory": 65536,
    "maxIPC": 4,
    "maxRegistersPerBlock": 65536,
    "maxShmemPerBlock": 49152,
    "maxShmemPerBlockOptin": 166912,
    "maxShmemPerSm": 167936,
    "maxRegistersPerSm": 65536,
    "threadsPerWarp": 32,
    "asyncEngines": 5,
    "maxWarpsPerSm": 64,
    "maxBlocksPerSm": 32,
    "maxThreadsPerBlock": 1024,
    "maxBlockDimX": 1024,
    "maxBlockDimY": 1024,
    "maxBlockDimZ": 64,
    "maxGridDimX": 2147483647,
    "maxGridDimY": 65535,
    "maxGridDimZ": 65535,
    "computeMajor": 8,
    "computeMinor": 0,
    "smMajor": 8,
    "smMinor": 0,
}


@dataclass(frozen=True, slots=True)
class Link:
    """Time of one copy: ``latency_ns + size_bytes / bandwidth``, times ``1 + spread * noise``.
    Bandwidth in B/s, as achieved.
    """

    latency_ns: float
    bandwidth: float
    spread: float

    def nanoseconds(self, size_bytes: int, noise: float) -> int:
        """Simulated time of one copy [ns]; `noise` is a standard normal draw."""
        return max(
            1,
            round(
                (self.latency_ns + size_bytes * 1e9 / self.bandwidth) * (1 + self.spread * noise)
            ),
        )


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel: names, mean time [ns], launch shape."""

    short_name: str
    signature: str
    mean_ns: float
    blocks: int
    threads: int
    registers: int
    shared_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Costs:
    """What the simulated host and driver cost [ns]."""

    launch_call: float = 4_500  # cudaLaunchKernel, median
    launch_to_start: float = 1_900  # call over -> kernel starts, when the stream is empty
    back_to_back: float = 900  # between two activities of one stream
    copy_call: float = 3_800
    copy_to_start: float = 1_700
    wake_up: float = 2_600  # end of what is waited for -> the waiting call returns
    wait_call: float = 1_400  # a wait with nothing to wait for
    record_call: float = 900
    wait_event_call: float = 800
    memset_call: float = 3_300
    between_calls: float = 350  # host time of the program between two calls


class Run:
    """The simulated process. Every method advances the host clock and records what a profiler
    would.
    """

    def __init__(
        self,
        links: dict[tuple[int, int], Link],
        seed: int,
        costs: Costs | None = None,
        kernel_spread: float = 0.03,
    ) -> None:
        self.links, self.costs, self.kernel_spread = links, costs or Costs(), kernel_spread
        self.random = random.Random(seed)
        self.now = 20_000_000
        self.correlation = self.grid = self.address = self.returned = 0
        self.stream_free: dict[int, int] = {}
        self.engine_free = {H2D: 0, D2H: 0}
        self.event_time: dict[int, int] = {}
        self.strings: dict[str, int] = {}
        self.rows: dict[str, list[tuple[object, ...]]] = {
            table: [] for table in nsys.tables(SCHEMA)
        }
        self._positions = {table: nsys.columns(table, SCHEMA) for table in self.rows}

    def noise(self) -> float:
        """A standard normal draw, cut at six: the sum of twelve uniform draws less six."""
        return sum([self.random.random() for _ in range(12)]) - 6.0

    def around(self, mean: float, spread: float) -> int:
        """A time near `mean` [ns], skewed to the long side as host times are."""
        noise = self.noise()
        return max(1, round(mean * (1 + spread * (noise + 0.4 * noise * noise - 0.05))))

    def text(self, value: str) -> int:
        """Number of a string."""
        return self.strings.setdefault(value, len(self.strings) + 1)

    def write(self, table: str, **values: object) -> None:
        """Append one row; columns not named are NULL."""
        names = self._positions[table]
        if not values.keys() <= set(names):
            raise KeyError(f"{table} has no column {sorted(values.keys() - set(names))}")
        self.rows[table].append(tuple(values.get(name) for name in names))

    # host calls

    def work(self, mean: float, spread: float = 0.1) -> None:
        """Host time nobody records: the program's own work on the CPU."""
        self.now += self.around(mean, spread)

    def _call(self, name: str, start: int, end: int) -> int:
        """Record one CUDA call, move the host clock behind it, return its correlation id."""
        self.correlation += 1
        named = self.text(f"{name}_v{RUNTIME_VERSION[name]}")
        self.write(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            start=start,
            end=end,
            eventClass=0,
            globalTid=THREAD,
            correlationId=self.correlation,
            nameId=named,
            returnValue=0,
        )
        self.returned = end
        self.now = end + self.around(self.costs.between_calls, 0.3)
        return self.correlation

    def call(self, name: str, mean: float, spread: float = 0.1) -> int:
        """A host call without work on the device."""
        return self._call(name, self.now, self.now + self.around(mean, spread))

    def _place(
        self, stream: int, correlation: int | None, start: int | None = None, end: int | None = None
    ) -> dict[str, object]:
        times = {} if start is None else {"start": start, "end": end}
        return {
            **times,
            "deviceId": 0,
            "contextId": 1,
            "streamId": stream,
            "correlationId": correlation,
            "globalPid": GLOBAL_PROCESS,
        }

    def _earliest(self, called: int, latency: float, stream: int) -> int:
        free = self.stream_free.get(stream, 0)
        return max(
            called + self.around(latency, 0.08),
            free + self.around(self.costs.back_to_back, 0.05) if free else 0,
        )

    def launch(self, kernel: Kernel, stream: int, scale: float = 1.0) -> None:
        """Launch a kernel whose mean time is ``kernel.mean_ns * scale``."""
        start = self.now
        # now and then the driver has other work
        slow = 6.0 if self.random.random() < 0.004 else 1.0
        end = start + self.around(self.costs.launch_call * slow, 0.06)
        begin = self._earliest(end, self.costs.launch_to_start, stream)
        finish = begin + max(
            1_000, round(kernel.mean_ns * scale * (1 + self.kernel_spread * self.noise()))
        )
        self.stream_free[stream] = finish
        correlation = self._call("cudaLaunchKernel", start, end)
        self.grid += 1
        self.write(
            "CUPTI_ACTIVITY_KIND_KERNEL",
            **self._place(stream, correlation, begin, finish),
            demangledName=self.text(kernel.signature),
            shortName=self.text(kernel.short_name),
            mangledName=None,
            launchType=1,
            cacheConfig=0,
            registersPerThread=kernel.registers,
            gridX=kernel.blocks,
            gridY=1,
            gridZ=1,
            blockX=kernel.threads,
            blockY=1,
            blockZ=1,
            staticSharedMemory=kernel.shared_bytes,
            dynamicSharedMemory=0,
            localMemoryPerThread=0,
            localMemoryTotal=0,
            gridId=self.grid,
            sharedMemoryExecuted=32768,
            sharedMemoryLimitConfig=0,
        )

    def copy(
        self, direction: int, size_bytes: int, host_memory: int, stream: int, blocking: bool = False
    ) -> None:
        """Copy between host and device; a blocking or a pageable copy holds the host until it is
        over.
        """
        called = self.now + self.around(self.costs.copy_call, 0.07)
        begin = max(
            self._earliest(called, self.costs.copy_to_start, stream),
            self.engine_free[direction] + 400,
        )
        finish = begin + self.links[direction, host_memory].nanoseconds(size_bytes, self.noise())
        self.stream_free[stream] = self.engine_free[direction] = finish
        waits = blocking or host_memory == PAGEABLE
        end = finish + self.around(self.costs.wake_up, 0.1) if waits else called
        correlation = self._call("cudaMemcpy" if blocking else "cudaMemcpyAsync", self.now, end)
        source, target = (host_memory, DEVICE) if direction == H2D else (DEVICE, host_memory)
        self.write(
            "CUPTI_ACTIVITY_KIND_MEMCPY",
            **self._place(stream, correlation, begin, finish),
            bytes=size_bytes,
            copyKind=direction,
            srcKind=source,
            dstKind=target,
        )

    def memset(self, size_bytes: int, stream: int) -> None:
        """Set device memory to zero at 80 % of the memory bandwidth."""
        end = self.now + self.around(self.costs.memset_call, 0.07)
        begin = self._earliest(end, self.costs.launch_to_start, stream)
        finish = begin + self.around(1_200 + size_bytes * 1e9 / (0.8 * MEMORY_BANDWIDTH), 0.02)
        self.stream_free[stream] = finish
        correlation = self._call("cudaMemsetAsync", self.now, end)
        self.write(
            "CUPTI_ACTIVITY_KIND_MEMSET",
            **self._place(stream, correlation, begin, finish),
            value=0,
            bytes=size_bytes,
            memKind=DEVICE,
        )

    def record(self, event: int, stream: int) -> None:
        """cudaEventRecord: the event is reached when the stream is done with what it holds now."""
        correlation = self.call("cudaEventRecord", self.costs.record_call)
        self.event_time[event] = max(self.stream_free.get(stream, 0), self.now)
        self.write(
            "CUPTI_ACTIVITY_KIND_CUDA_EVENT", **self._place(stream, correlation), eventId=event
        )

    def wait_event(self, stream: int, event: int) -> None:
        """cudaStreamWaitEvent: the stream goes on no earlier than the event."""
        start = self.now
        correlation = self.call("cudaStreamWaitEvent", self.costs.wait_event_call)
        self.stream_free[stream] = max(self.stream_free.get(stream, 0), self.event_time[event])
        self.write(
            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
            **self._place(stream, correlation, start + 150, start + 450),
            syncType=nsys.SYNC_WAIT_EVENT,
            eventId=event,
        )

    def wait(self, stream: int | None = None) -> None:
        """cudaStreamSynchronize, or cudaDeviceSynchronize without a stream."""
        free = (
            max(self.stream_free.values(), default=0)
            if stream is None
            else self.stream_free.get(stream, 0)
        )
        start = self.now
        end = max(
            start + self.around(self.costs.wait_call, 0.1),
            free + self.around(self.costs.wake_up, 0.1) if free > start else 0,
        )
        correlation = self._call(
            "cudaDeviceSynchronize" if stream is None else "cudaStreamSynchronize", start, end
        )
        kind = nsys.SYNC_CONTEXT if stream is None else nsys.SYNC_STREAM
        self.write(
            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
            **self._place(
                nsys.NO_ID if stream is None else stream, correlation, start + 260, end - 210
            ),
            syncType=kind,
            eventId=nsys.NO_ID,
        )

    def allocate(self, size_bytes: int, memory: int, mean: float) -> tuple[int, int, int]:
        """cudaMalloc or cudaMallocHost of `mean` ns; the result goes back to `free`."""
        correlation = self.call("cudaMalloc" if memory == DEVICE else "cudaMallocHost", mean, 0.12)
        self.address += (size_bytes + (1 << 21) - 1) >> 21 << 21
        place = (0x7F0000000000 + self.address, size_bytes, memory)
        self._memory(place, correlation, 0)
        return place

    def free(self, place: tuple[int, int, int], mean: float) -> None:
        """cudaFree or cudaFreeHost; waits for the device first."""
        start = max(self.now, *self.stream_free.values()) if self.stream_free else self.now
        correlation = self._call(
            "cudaFree" if place[2] == DEVICE else "cudaFreeHost",
            self.now,
            start + self.around(mean, 0.12),
        )
        self._memory(place, correlation, 1)

    def _memory(self, place: tuple[int, int, int], correlation: int, operation: int) -> None:
        address, size_bytes, memory = place
        self.write(
            "CUDA_GPU_MEMORY_USAGE_EVENTS",
            start=self.returned - 300,
            globalPid=GLOBAL_PROCESS,
            deviceId=0,
            contextId=1,
            address=address,
            pc=0,
            bytes=size_bytes,
            memKind=memory,
            memoryOperationType=operation,
            correlationId=correlation,
        )

    # what else a profiler sees

    def os_call(self, name: str, mean: float, spread: float = 0.1) -> None:
        """An OS runtime call."""
        start = self.now
        self.now += self.around(mean, spread)
        self.write(
            "OSRT_API",
            start=start,
            end=self.now,
            eventClass=27,
            globalTid=THREAD,
            nameId=self.text(name),
            returnValue=0,
            nestingLevel=0,
            callchainId=0,
        )

    def mark(self, text: str) -> None:
        """An NVTX mark."""
        self.write(
            "NVTX_EVENTS",
            start=self.now,
            eventType=nsys.NVTX_MARK,
            text=text,
            globalTid=THREAD,
            domainId=0,
        )

    def domain(self, text: str, number: int) -> None:
        """An NVTX domain made."""
        self.write(
            "NVTX_EVENTS",
            start=self.now,
            eventType=nsys.NVTX_DOMAIN,
            text=text,
            globalTid=THREAD,
            domainId=number,
        )

    @contextmanager
    def range(self, text: str, registered: bool = False) -> Iterator[None]:
        """An NVTX push/pop range round the block; a registered text is a string id."""
        start = self.now
        self.now += 60
        yield
        name: dict[str, object] = {"textId": self.text(text)} if registered else {"text": text}
        self.write(
            "NVTX_EVENTS",
            start=start,
            end=self.now,
            eventType=nsys.NVTX_PUSH_POP,
            globalTid=THREAD,
            domainId=0,
            **name,
        )
        self.now += 60

    def mpi(self, table: str, name: str, start: int, end: int, **values: object) -> None:
        """One row of an MPI table; moves the host clock to `end`."""
        self.write(table, start=start, end=end, globalTid=THREAD, textId=self.text(name), **values)
        self.now = max(self.now, end)

    def save(self, path: Path, program: str, streams: dict[int, int], product: str) -> None:
        """Write the database; `streams` gives each stream's kind (2 non-blocking, 3 null). Replaces
        `path`.
        """
        self.write("PROCESSES", globalPid=GLOBAL_PROCESS, pid=PROCESS, name=program)
        self.write("ThreadNames", nameId=self.text(program), priority=0, globalTid=THREAD)
        self.write(
            "ANALYSIS_DETAILS", globalVid=MACHINE, duration=self.now, startTime=0, stopTime=self.now
        )
        self.write("TARGET_INFO_GPU", **A100)
        same = {"hwId": 0, "vmId": 1, "processId": PROCESS, "contextId": 1}
        self.write("TARGET_INFO_CUDA_CONTEXT_INFO", nullStreamId=7, deviceId=0, **same)
        for stream, kind in streams.items():
            self.write("TARGET_INFO_CUDA_STREAM", streamId=stream, priority=0, flag=kind, **same)
        self.write(
            "TARGET_INFO_SESSION_START_TIME",
            utcEpochNs=0,
            utcTime="1970-01-01T00:00:00",
            localTime="1970-01-01T00:00:00",
        )
        for value, number in self.strings.items():
            self.write("StringIds", id=number, value=value)
        path.unlink(missing_ok=True)
        database = sqlite3.connect(path, isolation_level=None)
        try:
            for statement in ("PRAGMA page_size=1024", "PRAGMA journal_mode=OFF", "BEGIN"):
                database.execute(statement)
            nsys.create(database, SCHEMA, product)
            for table, rows in self.rows.items():
                if rows:
                    database.executemany(
                        (
                            f"INSERT INTO {table} VALUES "
                            f"({','.join('?' * len(self._positions[table]))})"
                        ),
                        rows,
                    )
                else:
                    database.execute(f"DROP TABLE {table}")  # the exporter leaves empty tables out
            database.execute("COMMIT")
            database.execute("VACUUM")
        finally:
            database.close()
