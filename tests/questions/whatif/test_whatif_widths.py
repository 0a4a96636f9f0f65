"""What the end of most gain rests on: calls that go take their loop along, fused kernels their
start, a moved wait returns at once.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from rows import Row, call, on_device
from strategies import trace_of

from turnbuckle.profile.profile import build
from turnbuckle.projection.run import Run
from turnbuckle.questions.whatif.question import Whatif, of_run
from turnbuckle.trace.window import Part

US = 1_000
WAIT = "cudaDeviceSynchronize"


def asked(**rows: list[Row]) -> Whatif:
    return of_run(Run.of(build(trace_of(rows))), draws=0)


def ends(answer: Whatif, name: str) -> tuple[float, float]:
    """Run time with an edit by the end of least gain and of most gain [us]."""
    saving = next(gain for gain in answer.gains if gain.name == name).savings[0]
    return saving.least_seconds * 1e6, saving.most_seconds * 1e6


def test_waits_left_out_take_their_time_and_the_shorter_pauses_along() -> None:
    """Behind a kernel a wait of 2 us of its own and one of 3 us that waits for nothing, with pauses
    of 1, 1 and 4 us around them.

    Both go with the two shorter pauses: the second launch is made at 9 us, and its kernel of 100 us
    begins 10 us later, returns 2 us.
    """
    answer = asked(
        api=[
            call(0, 5 * US, 1),
            call(6 * US, 14 * US, name=WAIT),
            call(15 * US, 18 * US, name=WAIT),
            call(22 * US, 27 * US, 2),
            call(28 * US, 134 * US, name=WAIT),
        ],
        kernels=[on_device(10 * US, 12 * US, 1), on_device(32 * US, 132 * US, 2)],
    )
    assert ends(answer, f"wait {WAIT}") == pytest.approx((134, 9 + 10 + 100 + 2), abs=0.01)
    assert next(gain for gain in answer.gains if gain.name == f"wait {WAIT}").count == 2, (
        "the last one waits for the result"
    )


def test_host_work_longer_than_the_calls_around_it_stays() -> None:
    """Between two waits and behind them pauses of 30 us: longer than a call of 2 or 3 us, they are
    work of the program.
    """
    answer = asked(
        api=[
            call(0, 5 * US, 1),
            call(6 * US, 14 * US, name=WAIT),
            call(44 * US, 47 * US, name=WAIT),
            call(77 * US, 82 * US, 2),
            call(83 * US, 189 * US, name=WAIT),
        ],
        kernels=[on_device(10 * US, 12 * US, 1), on_device(87 * US, 187 * US, 2)],
    )
    # of the three pauses that of 1 us goes
    assert ends(answer, f"wait {WAIT}")[1] == pytest.approx(5 + 30 + 30 + 10 + 100 + 2, abs=0.01)


def test_a_wait_that_finds_its_work_done_returns_at_once() -> None:
    """A kernel of 2 us, a wait that returns 10 us behind it, 50 us of host work, a copy: the wait
    moved there costs nothing at best.
    """
    answer = asked(
        api=[
            call(0, 5 * US, 1),
            call(6 * US, 22 * US, name=WAIT),
            call(72 * US, 82 * US, 2, "cudaMemset"),
        ],
        kernels=[on_device(10 * US, 12 * US, 1)],
        memsets=[on_device(76 * US, 77 * US, 2)],
    )
    assert f"later {WAIT}" not in [gain.name for gain in answer.gains], (
        "nothing behind it may need the result"
    )
    answer = asked(
        api=[
            call(0, 5 * US, 1),
            call(6 * US, 22 * US, name=WAIT),
            call(72 * US, 77 * US, 2),
            call(78 * US, 96 * US, name=WAIT),
        ],
        kernels=[on_device(10 * US, 12 * US, 1), on_device(82 * US, 92 * US, 2)],
    )
    assert ends(answer, f"later {WAIT}") == pytest.approx((96, 96 - 16), abs=0.01)


def test_host_work_behind_the_last_wait_of_a_part_is_done_before_it(tmp_path: Path) -> None:
    """Three turns of a kernel of 100 us, a wait that returns 2 us behind it, and 58 us of host
    work, with which the part ends.

    The 64 us of the host a turn are beside the kernels, which then follow each other.
    """
    turn, api, kernels = 170, [], []
    for k in range(4):
        now = k * turn * US
        api += [call(now, now + 5 * US, 2 * k + 1), call(now + 6 * US, now + 112 * US, name=WAIT)]
        kernels.append(on_device(now + 10 * US, now + 110 * US, 2 * k + 1))
    trace_of({"api": api, "kernels": kernels}).to_parquet(tmp_path / "run")
    run = Run.read(tmp_path / "run", use_cache=False, part=Part(window_ns=(0, 3 * turn * US)))
    answer = of_run(run, draws=0)
    assert answer.measured == pytest.approx(3 * turn * 1e-6)
    # three kernels behind each other from 10 us on; the last wait is over with the last kernel, and
    # nothing comes behind it
    assert ends(answer, f"later {WAIT}") == pytest.approx((3 * turn, 10 + 3 * 100 + 2), abs=0.01)


@pytest.mark.parametrize(("longest", "shortest"), [(30, 20), (100, 100)])
def test_kernels_of_any_length_are_fused_and_spare_at_best_what_a_kernel_takes_to_start(
    longest: int, shortest: int
) -> None:
    """Ten launches of 10 us, kernels behind each other with 2 us between, the last of another
    length.

    The first call launches all.  Each but the first spares what the shortest takes, and no more
    than a launch with its delivery, 24 us.
    """
    n, api, kernels, now = 10, [], [], 14
    for k in range(n):
        took = shortest if k == n - 1 else longest
        api.append(call(k * 10 * US, (k + 1) * 10 * US, k + 1))
        kernels.append(on_device(now * US, (now + took) * US, k + 1))
        now += took + 2
    answer = asked(api=api, kernels=kernels)
    start = min(shortest, 10 + 14)
    assert ends(answer, "fuse") == pytest.approx(
        (now - 2, 14 + longest * (n - 1) + shortest - (n - 1) * start), abs=0.01
    )
