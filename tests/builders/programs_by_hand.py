"""Small programs whose run time follows from the rules of `gpu_by_hand`: what each is, and what
holds it up.

Each takes a device and returns its threads; `MISSING` says which calls of some were not recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import simpy
from gpu_by_hand import THREADS, WHOLE, Gpu, Program
from rows import on_device
from strategies import D2H, H2D

Rows = list[dict[str, Any]]
Make = Callable[[Gpu], list[Program]]

PROGRAMS: Final[dict[str, Make]] = {}


def program(make: Make) -> Make:
    """Name a program by its function."""
    PROGRAMS[make.__name__] = make
    return make


def in_turn(
    gpu: Gpu,
    count: int,
    streams: int,
    share: float,
    ns: int,
    step: int = 0,
    pause: int = 0,
    **more: Any,
) -> list[Program]:
    """Launch to some streams in turn, and wait."""

    def go() -> Program:
        thread, works = gpu.thread(1), []
        for i in range(count):
            works.append((yield from thread.launch(7 + i % streams, ns + step * i, share, **more)))
            if pause:
                yield from thread.work(pause)
        yield from thread.wait(*works)

    return [go()]


# --- one device, several streams ------------------------------------------------------------------


@program
def one_stream(gpu: Gpu) -> list[Program]:
    """A chain: delivery, ten kernels, a return."""
    return in_turn(gpu, 10, 1, 1.0, 20_000, pause=1_000)


@program
def full_device(gpu: Gpu) -> list[Program]:
    """Kernels of two streams that fill the device: the sum of all."""
    return in_turn(gpu, 20, 2, 1.0, 20_000, 1_000)


@program
def half_a_device_each(gpu: Gpu) -> list[Program]:
    """Two streams beside each other: the longer chain."""
    return in_turn(gpu, 20, 2, 0.5, 20_000, 1_000)


@program
def full_by_registers(gpu: Gpu) -> list[Program]:
    """Two blocks of 128 registers a thread are all that a multiprocessor holds."""
    return in_turn(gpu, 24, 6, 1.0, 30_000, 1_000, blocks=216, registers=128)


@program
def full_by_shared_memory(gpu: Gpu) -> list[Program]:
    """Two blocks of 80 kB are all that a multiprocessor holds."""
    return in_turn(gpu, 24, 6, 1.0, 30_000, 1_000, blocks=216, shared_bytes=80_000)


@program
def full_for_an_unknown_reason(gpu: Gpu) -> list[Program]:
    """The launch says little; that kernels which were ready begin just after others says it."""
    return in_turn(gpu, 24, 6, 1.0, 30_000, 1_000, blocks=216)


@program
def small_that_never_meet(gpu: Gpu) -> list[Program]:
    """Launched too late to meet: beside each other on a slower device."""
    return in_turn(gpu, 20, 2, 0.1, 10_000, pause=20_000)


@program
def full_that_never_meet(gpu: Gpu) -> list[Program]:
    """The same launches, which must take turns on a slower device."""
    return in_turn(gpu, 20, 2, 1.0, 10_000, pause=20_000)


@program
def tails(gpu: Gpu) -> list[Program]:
    """The next kernel's blocks begin in the last wave, and run once the one before has ended."""

    def go() -> Program:
        thread, at = gpu.thread(1), gpu.at
        own, tail, tail_begins, over, ends = (
            round(9_000 * at.kernels),
            round(3_000 * at.kernels),
            0,
            0,
            list[int](),
        )
        for i in range(16):
            begin, number = gpu.clock.now, thread.numbered()
            yield gpu.clock.timeout(at.call)
            thread.called(begin, "cudaLaunchKernel", number)
            start = max(begin + at.delivery, tail_begins, ends[i - 2] if i >= 2 else 0)
            over = max(start, over) + own
            tail_begins = over - tail
            ends.append(over)
            size = {"blocks": round(WHOLE * 2.25), "threads": THREADS}
            gpu.rows["kernels"].append(
                on_device(start, over, number, stream=7 + i % 2, process=thread.process, **size)
            )
        begin = gpu.clock.now
        yield gpu.clock.timeout(max(ends[-1] + at.back - begin, at.call))
        thread.called(begin, "cudaDeviceSynchronize")

    return [go()]


@program
def two_processes(gpu: Gpu) -> list[Program]:
    """Two processes share a device by time."""

    def go(owner: int) -> Program:
        thread = gpu.thread(1, owner)
        for _ in range(20):
            yield from thread.launch(7, 20_000 + owner * 7_000)
            yield from thread.work(3_000)
            work = yield from thread.launch(7, 5_000 + owner * 1_000)
            yield from thread.wait(work)

    return [go(0), go(1)]


@program
def two_processes_with_small_kernels(gpu: Gpu) -> list[Program]:
    """Two contexts are never at work at once, whatever they leave free."""

    def go(owner: int) -> Program:
        thread = gpu.thread(1, owner)
        for _ in range(20):
            work = yield from thread.launch(7, 20_000 + owner * 7_000, blocks=20)
            yield from thread.work(3_000)
            yield from thread.wait(work)

    return [go(0), go(1)]


# --- copies and events ----------------------------------------------------------------------------


@program
def pipeline(gpu: Gpu) -> list[Program]:
    """Copies in, kernels and copies out on three streams, joined by events: the engine that takes
    longest.
    """

    def go() -> Program:
        thread, outs = gpu.thread(1), []
        for _ in range(12):
            yield from thread.copy(7, 30_000, H2D)
            yield from thread.stream_waits(8, (yield from thread.record(7)))
            yield from thread.launch(8, 25_000)
            yield from thread.stream_waits(9, (yield from thread.record(8)))
            outs.append((yield from thread.copy(9, 28_000, D2H)))
        yield from thread.wait(*outs)

    return [go()]


@program
def chain_over_streams(gpu: Gpu) -> list[Program]:
    """All launched at once, each kernel behind an event of the one before: one delivery, whatever
    it takes.
    """

    def go() -> Program:
        thread = gpu.thread(1)
        for i in range(30):
            work = yield from thread.launch(7 + i % 3, 50_000)
            yield from thread.stream_waits(7 + (i + 1) % 3, (yield from thread.record(7 + i % 3)))
        yield from thread.wait(work)

    return [go()]


@program
def events_that_nobody_recorded(gpu: Gpu) -> list[Program]:
    """A copy, and a kernel of another stream behind it."""

    def go() -> Program:
        thread = gpu.thread(1)
        for _ in range(10):
            yield from thread.copy(7, 20_000, H2D)
            yield from thread.stream_waits(8, (yield from thread.record(7)))
            work = yield from thread.launch(8, 10_000)
        yield from thread.wait(work)
        gpu.rows["events"], gpu.rows["syncs"] = [], []

    return [go()]


@program
def both_ways_at_once(gpu: Gpu) -> list[Program]:
    """Copies in, copies out and kernels that have nothing to do with each other."""

    def go() -> Program:
        thread, works = gpu.thread(1), []
        for _ in range(10):
            works.append((yield from thread.copy(7, 20_000, H2D)))
            works.append((yield from thread.copy(8, 20_000, D2H)))
            works.append((yield from thread.launch(9, 30_000)))
        yield from thread.wait(*works)

    return [go()]


# --- graphs ---------------------------------------------------------------------------------------


@program
def graph_behind_its_launch(gpu: Gpu) -> list[Program]:
    """A graph whose nodes run on streams of their own, between kernels of the stream it was
    launched in.
    """

    def go() -> Program:
        thread = gpu.thread(1)
        for _ in range(8):
            before = yield from thread.launch(7, 12_000, 0.1)
            nodes = yield from thread.graph([(20, 15_000), (21, 18_000)], 0.1, [before])
            gpu.held.setdefault((thread.process, 7), []).extend(nodes)
        work = yield from thread.launch(7, 5_000, 0.1)
        yield from thread.wait(work, *nodes)

    return [go()]


@program
def graph_behind_itself(gpu: Gpu) -> list[Program]:
    """A graph launched again and again: both branches of a launch wait for both of the one
    before.
    """

    def go() -> Program:
        thread, nodes = gpu.thread(1), list[Any]()
        for _ in range(8):
            nodes = yield from thread.graph([(20, 15_000), (21, 18_000)], 0.1, nodes)
        yield from thread.wait(*nodes)

    return [go()]


# --- threads --------------------------------------------------------------------------------------


@program
def ring(gpu: Gpu) -> list[Program]:
    """Three threads hand over to each other."""
    turns = [simpy.Store(gpu.clock) for _ in range(3)]
    turns[0].put(None)

    def go(k: int) -> Program:
        thread = gpu.thread(1 + k)
        for _ in range(8):
            yield turns[k].get()
            work = yield from thread.launch(7 + k, 15_000 + 1_000 * k)
            yield from thread.wait(work)
            yield from thread.work(2_000)
            yield turns[(k + 1) % 3].put(None)

    return [go(k) for k in range(3)]


@program
def one_launches_the_other_waits(gpu: Gpu) -> list[Program]:
    """A thread that launches goes on when the thread that waits has returned."""
    there, back = simpy.Store(gpu.clock), simpy.Store(gpu.clock)

    def launching() -> Program:
        thread = gpu.thread(1)
        for _ in range(10):
            yield from thread.work(4_000)
            yield there.put((yield from thread.launch(7, 30_000)))
            yield back.get()

    def waiting() -> Program:
        thread = gpu.thread(2)
        for _ in range(10):
            yield from thread.wait((yield there.get()))
            yield back.put(None)

    return [launching(), waiting()]


@program
def producer_and_consumer(gpu: Gpu) -> list[Program]:
    """One thread copies, the other launches on what has arrived."""
    arrived = simpy.Store(gpu.clock)

    def producer() -> Program:
        thread = gpu.thread(1)
        for _ in range(12):
            yield from thread.work(5_000)
            yield from thread.copy(7, 20_000, H2D, blocking=True)
            yield arrived.put(None)

    def consumer() -> Program:
        thread = gpu.thread(2)
        for _ in range(12):
            yield arrived.get()
            yield from thread.work(1_000)
            yield from thread.wait((yield from thread.launch(8, 10_000)))

    return [producer(), consumer()]


@program
def worker_that_is_joined(gpu: Gpu) -> list[Program]:
    """The first thread starts a second, and goes on when that has ended."""
    over = simpy.Event(gpu.clock)

    def first() -> Program:
        thread = gpu.thread(1)
        yield from thread.wait((yield from thread.launch(7, 20_000)))
        gpu.clock.process(second())
        yield over
        yield from thread.work(1_000)
        yield from thread.wait((yield from thread.launch(7, 20_000)))

    def second() -> Program:
        thread = gpu.thread(2)
        for _ in range(5):
            yield from thread.wait((yield from thread.launch(8, 20_000)))
        over.succeed()

    return [first()]


def apart(gpu: Gpu, threads: int, share: float) -> list[Program]:
    """Threads with a stream each, that know nothing of each other."""

    def go(k: int) -> Program:
        thread = gpu.thread(1 + k)
        for _ in range(15):
            yield from thread.launch(7 + k, 15_000 + 1_700 * k, share)
            yield from thread.work(3_000 + 137 * k)
            yield from thread.wait_stream(7 + k)

    return [go(k) for k in range(threads)]


@program
def threads_beside_each_other(gpu: Gpu) -> list[Program]:
    """Three threads whose kernels have room: the longest chain."""
    return apart(gpu, 3, 0.2)


@program
def threads_on_a_full_device(gpu: Gpu) -> list[Program]:
    """Two threads whose kernels take turns."""
    return apart(gpu, 2, 1.0)


# --- waits that are hidden, calls that are missing ------------------------------------------------


@program
def launches_that_block(gpu: Gpu) -> list[Program]:
    """Each launch returns when its kernel has ended."""

    def go() -> Program:
        thread = gpu.thread(1)
        for _ in range(10):
            yield from thread.launch(7, 20_000, blocking=True)
            yield from thread.work(2_000)

    return [go()]


@program
def waits_inside_free(gpu: Gpu) -> list[Program]:
    """cudaFree waits for the device."""

    def go() -> Program:
        thread = gpu.thread(1)
        for _ in range(10):
            work = yield from thread.launch(7, 30_000)
            yield from thread.wait(work, name="cudaFree")
            yield from thread.work(2_000)

    return [go()]


@program
def queries_that_sleep(gpu: Gpu) -> list[Program]:
    """A loop asks, sleeps for 100 us and asks again: it sees the end anywhere within a sleep."""

    def go() -> Program:
        thread = gpu.thread(1)
        for _ in range(6):
            work = yield from thread.launch(7, 400_000)
            over = False
            while not over:
                begin, over = gpu.clock.now, work.processed
                yield gpu.clock.timeout(1_000)
                thread.called(begin, "cudaEventQuery", result=0 if over else 600)
                if not over:
                    yield gpu.clock.timeout(100_000)

    return [go()]


@program
def half_of_the_calls(gpu: Gpu) -> list[Program]:
    """Every other launch of a stream was not recorded."""
    return in_turn(gpu, 30, 1, 1.0, 20_000, pause=1_000)


@program
def half_of_the_copies(gpu: Gpu) -> list[Program]:
    """Copies of four streams through one engine, half of them without a call."""

    def go() -> Program:
        thread, works = gpu.thread(1), []
        for i in range(20):
            works.append((yield from thread.copy(7 + i % 4, 40_000, H2D)))
        yield from thread.wait(*works)

    return [go()]


@program
def cut_at_the_start(gpu: Gpu) -> list[Program]:
    """The first calls were not recorded, but for the very first."""
    return in_turn(gpu, 30, 1, 1.0, 20_000)


@program
def streams_without_calls(gpu: Gpu) -> list[Program]:
    """A stream each time anew, none of whose launches was recorded: the wait returns when it has
    ended.
    """

    def go() -> Program:
        thread = gpu.thread(1)
        for i in range(6):
            works = [
                (yield from thread.launch(7, 20_000, 0.2)),
                (yield from thread.launch(8 + i, 25_000, 0.2)),
            ]
            yield from thread.wait(*works)

    return [go()]


#: Which calls were recorded.
RECORDED: Final[dict[str, Callable[[Rows], Rows]]] = {
    "half_of_the_calls": lambda rows: [*rows[:-1][::2], rows[-1]],
    "half_of_the_copies": lambda rows: [*rows[:-1][::2], rows[-1]],
    "streams_without_calls": lambda rows: [row for i, row in enumerate(rows) if i % 3 != 1],
    "cut_at_the_start": lambda rows: [rows[0], *rows[10:]],
}
