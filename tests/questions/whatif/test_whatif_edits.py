"""Edits that move, join or take away calls and copies: closed forms on runs made by hand."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from refusals import refused
from rows import OTHER, THREAD, Row, call, copy, on_device
from strategies import D2H, NAMES, trace_of

from turnbuckle.foundation.schema import words
from turnbuckle.profile.dependencies.graph import EDGE
from turnbuckle.profile.profile import build
from turnbuckle.projection.run import Run
from turnbuckle.questions.whatif.question import Whatif, of_run

US = 1_000


def asked(ranges: Sequence[tuple[int, int, str]] = (), **rows: list[Row]) -> Whatif:
    """Ask a run; see `run_of`."""
    return of_run(run_of(ranges, **rows), draws=0)


def run_of(ranges: Sequence[tuple[int, int, str]] = (), **rows: list[Row]) -> Run:
    """Build a run; ranges have begin and end [us] and a name."""
    about = {"thread": THREAD, "kind": 59}
    marked = [
        {"start_ns": a * US, "end_ns": b * US, "name": len(NAMES) + k, **about}
        for k, (a, b, _) in enumerate(ranges)
    ]
    names = pl.Series("name", [*NAMES, *(name for *_, name in ranges)], dtype=pl.String)
    return Run.of(build(replace(trace_of({**rows, "ranges": marked}), names=names)))


def ends(answer: Whatif, name: str) -> tuple[float, float]:
    """Run time with an edit by the end of least gain and of most gain [us]."""
    saving = next(gain for gain in answer.gains if gain.name == name).savings[0]
    return saving.least_seconds * 1e6, saving.most_seconds * 1e6


def names(answer: Whatif) -> list[str]:
    return [gain.name for gain in answer.gains]


def copied_ns(size: int) -> int:
    """A copy on a link of 2 us and 10 GB/s [ns]."""
    return 2 * US + size // 10


def copies_that_show_the_link(api: list[Row], copies: list[Row]) -> int:
    """Write six large blocking copies -> when the last has returned [ns]."""
    now = 0
    for number, size in enumerate((1 << 20, 4 << 20, 16 << 20) * 2):
        took = copied_ns(size)
        api.append(call(now, now + 8 * US + took, 100 + number, "cudaMemcpy"))
        copies.append(copy(now + 4 * US, now + 4 * US + took, size=size, correlation=100 + number))
        now += 10 * US + took
    return now


def small_copies(
    count: int = 10, size: int = 4000, pause: int = 2 * US, direction: int = 1
) -> tuple[Whatif, int]:
    """Ask a run with a kernel and, behind it, blocking copies of 4 us until they begin and 4 us
    until their call returns.
    """
    api: list[Row] = []
    copies: list[Row] = []
    now = copies_that_show_the_link(api, copies)
    api += [
        call(now, now + 5 * US, 1),
        call(now + 6 * US, now + 27 * US, name="cudaDeviceSynchronize"),
    ]
    kernels = [on_device(now + 6 * US, now + 26 * US, 1)]
    now += 29 * US
    took = copied_ns(size)
    for k in range(count):
        api.append(call(now, now + 8 * US + took, 10 + k, "cudaMemcpy"))
        copies.append(copy(now + 4 * US, now + 4 * US + took, direction, size, 10 + k))
        now += 8 * US + took + pause
    return asked(api=api, kernels=kernels, copies=copies), now - pause


def test_small_copies_in_one_save_calls_and_fixed_costs() -> None:
    """Ten copies of 4 kB (2.4 us): nine calls, deliveries and returns go; the copy of 40 kB takes 6
    us at best, and nine pauses of 2 us go.

    At least the pauses and the fixed costs stay (24 us), and the host packs for as long as that.
    """
    answer, end = small_copies()
    assert answer.unchanged[0].seconds * 1e6 == pytest.approx(end / US)
    gone = 9 * (4 + 2.4 + 4)
    assert ends(answer, "batch") == pytest.approx(
        (end / US - gone + 24 - 2.4 + 24, end / US - gone + 6 - 2.4 - 9 * 2), abs=0.02
    )
    gain = next(gain for gain in answer.gains if gain.name == "batch")
    assert gain.count == 10


def test_copies_to_the_host_that_it_works_on_are_not_joined() -> None:
    """A pause of 30 us is longer than the calls around it: the host may use what it got.  To the
    device it only prepares the next.
    """
    assert "batch" not in names(small_copies(pause=30 * US, direction=D2H)[0])
    assert "batch" in names(small_copies(pause=2 * US, direction=D2H)[0])
    assert "batch" in names(small_copies(pause=30 * US)[0])


def test_copies_are_not_joined_over_what_needs_the_first() -> None:
    """A kernel between two copies of one stream may read the first; large copies have nothing to
    save.
    """
    api: list[Row] = []
    copies: list[Row] = []
    now = copies_that_show_the_link(api, copies)
    api.append(call(now, now + 11 * US, 1, "cudaMemcpy"))
    api.append(call(now + 12 * US, now + 14 * US, 2))
    api.append(call(now + 20 * US, now + 31 * US, 3, "cudaMemcpy"))
    copies += [
        copy(now + 4 * US, now + 7 * US, size=4000, correlation=1),
        copy(now + 24 * US, now + 27 * US, size=4000, correlation=3),
    ]
    assert "batch" not in names(
        asked(api=api, copies=copies, kernels=[on_device(now + 16 * US, now + 20 * US, 2)])
    )


def test_copies_on_a_stream_of_their_own_share_one_engine() -> None:
    """Kernel, copy, kernel, copy of 100 us each, all called at once: the second copy waits for the
    first, whatever stood between.
    """
    answer = asked(
        api=[
            call(0, 1 * US, 1),
            call(1 * US, 2 * US, 2, "cudaMemcpyAsync"),
            call(2 * US, 3 * US, 3),
            call(3 * US, 4 * US, 4, "cudaMemcpyAsync"),
            call(5 * US, 412 * US, name="cudaDeviceSynchronize"),
        ],
        kernels=[on_device(10 * US, 110 * US, 1), on_device(210 * US, 310 * US, 3)],
        copies=[
            copy(110 * US, 210 * US, size=1 << 20, correlation=2),
            copy(310 * US, 410 * US, size=1 << 20, correlation=4),
        ],
    )
    # the copies from 11 to 211 us; the second kernel follows the first copy, at 111 us
    assert ends(answer, "own stream") == pytest.approx((412, 213), abs=0.1)


@pytest.mark.parametrize(
    ("copied", "worked", "most"), [(100, 150, 280 + 3 * 175 + 170), (200, 100, 1120)]
)
def test_a_copy_made_a_step_ahead_hides_behind_the_kernel(
    copied: int, worked: int, most: float
) -> None:
    """Five steps of a blocking copy, a kernel and a wait.

    Where the kernel is longer, a step takes it and 25 us of calls; where the copy is, the copies
    follow each other from the end of the first call on (215 us), and the last kernel ends the run.
    """
    api: list[Row] = []
    copies: list[Row] = []
    kernels: list[Row] = []
    step = copied + worked + 30
    for k in range(5):
        now, kernel = k * step, k * step + copied + 20
        api += [
            call(now * US, (now + copied + 10) * US, 2 * k + 1, "cudaMemcpy"),
            call((now + copied + 12) * US, (now + copied + 16) * US, 2 * k + 2),
            call(
                (now + copied + 17) * US, (kernel + worked + 5) * US, name="cudaDeviceSynchronize"
            ),
        ]
        copies.append(
            copy((now + 5) * US, (now + 5 + copied) * US, size=1 << 20, correlation=2 * k + 1)
        )
        kernels.append(on_device(kernel * US, (kernel + worked) * US, 2 * k + 2))
    answer = asked(api=api, copies=copies, kernels=kernels)
    assert ends(answer, "prefetch") == pytest.approx((5 * step - 5, most), abs=0.02)
    assert next(gain for gain in answer.gains if gain.name == "prefetch").count == 4


def test_the_second_buffer_is_free_only_behind_its_last_kernel() -> None:
    """Copies of 100 us called far ahead, kernels of 300, 10 and 10 us: the third copy waits for the
    first kernel, which has its buffer.
    """
    api = [
        row
        for k in range(3)
        for row in (
            call(4 * k * US, (4 * k + 1) * US, 2 * k + 1, "cudaMemcpyAsync"),
            call((4 * k + 2) * US, (4 * k + 3) * US, 2 * k + 2),
        )
    ]
    api.append(call(12 * US, 632 * US, name="cudaDeviceSynchronize"))
    copies = [
        copy(now * US, (now + 100) * US, size=1 << 20, correlation=2 * k + 1)
        for k, now in enumerate((10, 410, 520))
    ]
    kernels = [
        on_device(now * US, end * US, 2 * k + 2)
        for k, (now, end) in enumerate(((110, 410), (510, 520), (620, 630)))
    ]
    answer = asked(api=api, copies=copies, kernels=kernels)
    # the second copy beside the first kernel, the third from 410 to 510 us
    assert ends(answer, "prefetch") == pytest.approx((632, 522), abs=0.02)


def test_short_kernels_are_launched_once() -> None:
    """Ten launches of 10 us, each kernel of 1 us begins 14 us after its call: the first call
    launches all, which take 1 us at best.
    """
    n = 10
    api = [call(k * 10 * US, (k + 1) * 10 * US, k + 1) for k in range(n)]
    kernels = [on_device(k * 10 * US + 14 * US, k * 10 * US + 15 * US, k + 1) for k in range(n)]
    answer = asked(api=api, kernels=kernels)
    assert ends(answer, "fuse") == pytest.approx((105, 14 + 1), abs=0.01)
    # a wait between the halves leaves two kernels
    later = [
        {**row, "start_ns": row["start_ns"] + 20 * US, "end_ns": row["end_ns"] + 20 * US}
        for row in (*api[5:], *kernels[5:])
    ]
    halves = asked(
        api=[*api[:5], call(50 * US, 60 * US, name="cudaDeviceSynchronize"), *later[:5]],
        kernels=[*kernels[:5], *later[5:]],
    )
    assert next(gain for gain in halves.gains if gain.name == "fuse").title.endswith("(10 to 2)")
    # call, wait behind the kernels (5 us back), 10 us, call
    assert ends(halves, "fuse")[1] == pytest.approx(14 + 1 + 5 + 10 + 14 + 1, abs=0.01)


def test_a_wait_moves_to_the_call_that_may_need_its_work() -> None:
    """A kernel of 100 us, a wait, 50 us of host work, a copy to the device: the host works beside
    the kernel, the copy waits for it.
    """
    answer = asked(
        api=[
            call(0, 5 * US, 1),
            call(6 * US, 112 * US, name="cudaDeviceSynchronize"),
            call(162 * US, 172 * US, 2, "cudaMemcpy"),
        ],
        kernels=[on_device(10 * US, 110 * US, 1)],
        copies=[copy(166 * US, 170 * US, size=1 << 20, correlation=2)],
    )
    assert ends(answer, "later cudaDeviceSynchronize") == pytest.approx((172, 112 + 10), abs=0.01)
    # without the wait the copy follows the kernel on its stream
    assert ends(answer, "wait cudaDeviceSynchronize")[1] == pytest.approx(110 + 4 + 2, abs=0.01)


def test_an_edit_names_its_calls_and_their_places() -> None:
    """Of the steps 3 and 4, each in the range solve, the one wait between kernels; a range that
    only numbers a step names no place.
    """
    answer = asked(
        api=[
            call(0, 5 * US, 1),
            call(6 * US, 112 * US, name="cudaDeviceSynchronize"),
            call(120 * US, 125 * US, 2),
            call(126 * US, 232 * US, name="cudaDeviceSynchronize"),
        ],
        kernels=[on_device(10 * US, 110 * US, 1), on_device(130 * US, 230 * US, 2)],
        ranges=[(0, 115, "step 3"), (5, 114, "solve"), (118, 240, "step 4")],
    )
    gain = next(gain for gain in answer.gains if gain.name.startswith("wait "))
    (place,) = gain.places
    assert (place.call, place.range, place.steps, place.count) == (
        "cudaDeviceSynchronize",
        "solve",
        (3, 3),
        1,
    )
    assert place.seconds == pytest.approx(106e-6)


def stepping(host: int, kernel: int, steps: int = 5, work: str = "physics") -> Run:
    """Steps of a launch, a wait for the kernel and host work in a range."""
    api: list[Row] = []
    kernels: list[Row] = []
    ranges = []
    now = 0
    for k in range(steps):
        api.append(call(now * US, (now + 4) * US, k + 1))
        kernels.append(on_device((now + 8) * US, (now + 8 + kernel) * US, k + 1))
        back = now + 8 + kernel + 2
        api.append(call((now + 5) * US, back * US, name="cudaStreamSynchronize"))
        ranges.append((back, back + host, work))
        now = back + host
    api.append(call(now * US, (now + 10) * US, name="cudaMemset"))
    return run_of(ranges, api=api, kernels=kernels)


@pytest.mark.parametrize(("host", "kernel"), [(50, 100), (200, 100)])
def test_host_work_beside_the_device_takes_the_longer_of_both(host: int, kernel: int) -> None:
    """Five steps of 10 us, a kernel and host work, of which the first is start-up: beside each
    other, a turn takes the longer of the two.

    The work of a turn begins with the call that follows it, and is over before that of the next
    begins.
    """
    answer = of_run(stepping(host, kernel), draws=0)
    turn = 10 + kernel
    step = turn + host
    assert ends(answer, "beside physics") == pytest.approx(
        (5 * step + 10, step + max(4 * turn + host, turn + 4 * host)), abs=0.02
    )


def test_long_names_take_no_memory_for_each_time_they_occur() -> None:
    run = stepping(50, 100, steps=200, work="x" * 100_000)
    assert run.ordered.timeline is not None
    tracemalloc.start()
    gains = of_run(run, draws=0).gains
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert any(gain.name.startswith("beside xxx") for gain in gains)
    assert peak < 50_000_000, (
        "the names themselves are 20 MB; each as wide as the widest would be 80 MB more, "
        "several times over"
    )


def test_work_between_threads_that_take_turns_is_counted_once() -> None:
    """Two threads launch in turn, 20 us after the other's call of 100 us has returned: a call then
    waits for both, for one work.
    """
    api: list[Row] = []
    kernels: list[Row] = []
    for k in range(40):
        now = k * 120 * US
        api.append(call(now, now + 100 * US, k + 1, thread=(THREAD, OTHER)[k % 2]))
        kernels.append(on_device(now + 10 * US, now + 30 * US, k + 1))
    run = run_of(api=api, kernels=kernels)
    graph = run.ordered.timeline.graph if run.ordered.timeline else None
    assert graph is not None and np.bincount(graph.target[graph.kind == EDGE["host"]]).max() == 2, (
        "the threads hand over"
    )
    answer = of_run(run, draws=0)
    gain = next(gain for gain in answer.gains if gain.name == "beside before cudaLaunchKernel")
    assert gain.recorded_seconds == pytest.approx(gain.count * 20e-6)
    assert ends(answer, gain.name) == pytest.approx(
        (40 * 120 - 20, 40 * 120 - 20 - gain.count * 20), abs=0.02
    )


def test_host_work_on_the_device_takes_the_stated_ratio() -> None:
    """Four turns of 200 us behind the start-up to a tenth or a half of it, with 8 us until the
    kernel begins and 2 us back, as here.
    """
    run = stepping(200, 100)
    answer = of_run(run, apply=["device physics=0.1..0.5"], draws=0)
    end = 5 * (10 + 100 + 200) + 10
    spared = [4 * (200 * (1 - ratio) - 8 - 2) for ratio in (0.5, 0.1)]
    assert ends(answer, "device physics=0.1..0.5") == pytest.approx(
        [end - s for s in spared], abs=0.02
    )
    assert answer.together is not None and answer.together.savings == answer.gains[0].savings


def test_a_phase_that_is_not_there_and_a_ratio_that_is_none_are_refused() -> None:
    run = stepping(200, 100)
    for asked_for in (
        "device physics",
        "device physics=x",
        "device physics=0.5..0.1",
        "device physics=-1",
    ):
        refused("A437", of_run, run, apply=[asked_for])
    assert "physics" in str(refused("A438", of_run, run, apply=["device phisics=0.1"]).lines())
    refused("A439", of_run, run, apply=["device physics=0.1", "beside physics"], draws=0)


def test_without_a_kernel_nothing_prices_work_on_the_device() -> None:
    """Blocking copies with host work between them: the work runs beside them, not on a device of
    which no kernel is known.
    """
    api = [call(k * 100 * US, (k * 100 + 40) * US, k + 1, "cudaMemcpy") for k in range(4)]
    copies = [
        copy((k * 100 + 10) * US, (k * 100 + 30) * US, size=1 << 20, correlation=k + 1)
        for k in range(4)
    ]
    refused(
        "A196",
        of_run,
        run_of(api=api, copies=copies),
        apply=["device before cudaMemcpy=0.5"],
        draws=0,
    )


# --- managed memory -------------------------------------------------------------------------------

#: Codes of migrations.
#: Pages move beside all streams.
UNORDERED: dict[str, None] = {"stream": None, "context": None}
TO_DEVICE, TO_HOST = (words("directions").index(f"migration_{way}") for way in ("h2d", "d2h"))


def paged(turns: int, back: bool) -> Run:
    """Kernels of 100 us, each stands still 4 times 10 us for a page of 64 KiB; 10 us between;
    `back`: pages leave after each.
    """
    api: list[Row] = []
    kernels: list[Row] = []
    copies: list[Row] = []
    now = 0
    for turn in range(turns):
        start = now + 10 * US
        api += [
            call(now, now + 5 * US, turn + 1),
            call(now + 6 * US, start + 101 * US, name="cudaDeviceSynchronize"),
        ]
        kernels.append(on_device(start, start + 100 * US, turn + 1))
        copies += [
            copy(start + k * US, start + (k + 10) * US, TO_DEVICE, 65536, memory=0, **UNORDERED)
            for k in (5, 25, 45, 65)
        ]
        now = start + 110 * US
        if back:
            copies += [copy(now, now + 10 * US, TO_HOST, 262144, memory=0, **UNORDERED)]
            now += 20 * US
    return run_of(api=api, kernels=kernels, copies=copies)


def test_pages_that_are_moved_ahead_stop_no_kernel() -> None:
    """At best a kernel takes what its bytes take from the device's memory, and at least what it
    took.
    """
    run = paged(3, back=False)
    rate = run.source.value("gpu.memory_bandwidth")
    least, most = ends(of_run(run, draws=0), "prefetch pages")
    read = 0.0 if rate is None else 4 * 65536 / rate * 1e6
    assert least == pytest.approx(run.seconds * 1e6, abs=0.01)
    assert run.seconds * 1e6 - most == pytest.approx(3 * (100 - read), abs=0.1)
    assert "advise" not in names(of_run(run, draws=0)), "no page ever comes back"


def test_a_vector_addition_whose_pages_come_by_faults() -> None:
    """Three vectors of 2^25 floats in blocks of 2 MiB, 113.7 ms on faults; with the pages moved
    ahead such a kernel took 0.60 ms.
    """
    size, count, launched = 2 << 20, 3 * (4 << 25) // (2 << 20), 10 * US
    took, moved = 113_700 * US, 175 * US
    apart = took // count
    copies = [
        copy(at, at + moved, TO_DEVICE, size, memory=0, **UNORDERED)
        for at in range(launched + US, launched + US + count * apart, apart)
    ]
    api = [call(0, 5 * US, 1), call(6 * US, launched + took + US, name="cudaDeviceSynchronize")]
    run = run_of(api=api, kernels=[on_device(launched, launched + took, 1)], copies=copies)
    answer = of_run(run, apply=["prefetch"], draws=0)
    assert (
        answer.together is not None
        and answer.together.needs == answer.gains[0].needs
        and answer.gains[0].name == "prefetch pages"
    )
    saving = answer.together.savings[0]
    kernel = [
        1e3 * (seconds - (run.seconds - took * 1e-9))
        for seconds in (saving.most_seconds, saving.least_seconds)
    ]
    assert kernel[0] <= 0.60 <= kernel[1] == pytest.approx(113.7)
    # the device's memory is the least that such a kernel reads from
    rate = run.source.value("gpu.memory_bandwidth")
    assert kernel[0] == pytest.approx(0.0 if rate is None else count * size / rate * 1e3, abs=2e-3)


def test_pages_that_both_sides_use_stay_in_one_place() -> None:
    """All but the first kernel are spared their pages, whose bytes cross the link instead; no page
    leaves behind the last.
    """
    run = paged(3, back=True)
    link = run.source.value("link.h2d.bandwidth")
    share = run.source.value("link.h2d.efficiency")
    assert link and share
    least, most = ends(of_run(run, draws=0), "advise")
    assert least == pytest.approx(run.seconds * 1e6, abs=0.01)
    assert run.seconds * 1e6 - most == pytest.approx(
        2 * (100 - 4 * 65536 / (link * share) * 1e6) + 19, abs=0.1
    )
    together = of_run(run, apply=["prefetch pages", "advise"], draws=0).together
    assert together is not None and together.savings[0].most_seconds <= most * 1e-6 + 1e-9


def test_a_program_without_managed_memory_is_offered_neither() -> None:
    plain = run_of(api=[call(0, 5 * US, 1)], kernels=[on_device(10 * US, 20 * US, 1)])
    assert {"prefetch pages", "advise"}.isdisjoint(names(of_run(plain, draws=0)))
