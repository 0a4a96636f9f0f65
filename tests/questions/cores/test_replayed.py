"""One recording with fewer cores: bounds by hand, laws, refusals, and a recording of a real
program.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hostile_names import Ran
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

import turnbuckle as tb
from turnbuckle.profile.profile import Profile
from turnbuckle.questions.cores.replayed import replayed
from turnbuckle.show.figures.figure import draw

SAMPLE = Path(tb.__file__).parent / "examples" / "milc-like-synthetic.sqlite"
PROFILE = tb.read(SAMPLE, use_cache=False).profile
LENGTH = PROFILE.run_time_ns
#: On and off, in hundredths of the run, of each thread.
stretches = st.lists(
    st.lists(st.integers(0, 100), min_size=2, max_size=8, unique=True), min_size=1, max_size=6
)


def with_threads(threads: list[list[int]]) -> Profile:
    """Return the sample with threads that go on a core and off it in turn."""
    rows = [
        (PROFILE.first_ns + LENGTH * at // 100, thread % 4, 1 - k % 2, thread)
        for thread, times in enumerate(threads)
        for k, at in enumerate(sorted(times))
    ]
    columns = PROFILE.trace.scheduling.schema
    table = pl.DataFrame(rows, schema=columns, orient="row")
    return replace(
        PROFILE, trace=replace(PROFILE.trace, tables={**PROFILE.trace.tables, "scheduling": table})
    )


def test_two_threads_on_one_core_by_hand() -> None:
    """Both run for half of the time, together for a quarter: on one core at least T, at most T + T
    / 4.
    """
    answer = replayed(with_threads([[0, 50], [25, 75]]))
    assert (answer.threads, answer.at_once, len(answer.counts)) == (2, 2, 2)
    assert answer.busy_seconds == pytest.approx(answer.seconds, rel=1e-6)
    one, two = answer.counts
    assert (one.least_seconds, one.most_seconds) == pytest.approx(
        (answer.seconds, 1.25 * answer.seconds), rel=1e-6
    )
    assert (two.least_seconds, two.most_seconds) == (answer.seconds, answer.seconds)
    assert (answer.fewest, answer.enough) == (1, 2)


def test_another_cpu_by_hand() -> None:
    threads = [[0, 50], [25, 75]]
    slow, fast = (replayed(with_threads(threads), speed=speed) for speed in (0.5, 2.0))
    whole = PROFILE.seconds
    assert slow.counts[1].most_seconds == pytest.approx(1.75 * whole, rel=1e-6)
    assert slow.counts[0].least_seconds == pytest.approx(2 * whole, rel=1e-6)
    assert fast.counts[1].least_seconds == pytest.approx((1 - 0.75 / 2) * whole, rel=1e-6)
    assert fast.counts[1].most_seconds == whole


def test_the_figure_shows_both_bounds_and_the_speed_that_is_kept() -> None:
    answer = replayed(with_threads([[0, 50], [25, 75], [30, 60]]))
    (figure,) = answer.figures()
    assert [row["most_seconds"] for row in figure.rows] == [c.most_seconds for c in answer.counts]
    assert figure.title == answer.headline().removeprefix("Cores: ") and "90 %" in figure.title
    first = answer.counts[0]
    assert (
        f"1 core: {first.least_seconds / answer.seconds:.3f} to "
        f"{first.most_seconds / answer.seconds:.3f} times"
    ) in figure.alt
    (drawn,) = draw([figure])
    assert (
        drawn.svg is not None and "of the recorded speed" in drawn.svg and "CPU cores" in drawn.svg
    )
    assert draw(replayed(with_threads([[0, 50]]), speed=0.5).figures())[0].svg


@given(stretches, st.sampled_from([0.5, 1.0, 2.0]))
def test_as_many_cores_as_threads_change_nothing_and_fewer_never_help(
    threads: list[list[int]], speed: float
) -> None:
    answer = replayed(with_threads(threads), speed=speed)
    least, most = (
        np.array([getattr(c, name) for c in answer.counts])
        for name in ("least_seconds", "most_seconds")
    )
    assert (np.diff(least) <= 0).all() and (np.diff(most) <= 1e-15).all() and (least <= most).all()
    if speed == 1.0:
        assert (least[-1], most[-1]) == (answer.seconds, answer.seconds)
        assert (
            answer.fewest is not None
            and answer.enough is not None
            and answer.fewest <= answer.enough <= answer.at_once
        )


def test_what_a_recording_does_not_say_is_refused(turnbuckle: Callable[..., Ran]) -> None:
    refused("A208", replayed, PROFILE)
    refused("A208", tb.cores, tb.read(SAMPLE, use_cache=False))
    refused("A471", replayed, with_threads([[0, 50]]), speed=0.0)
    refused("A031", replayed, with_threads([[0, 50]]), efficiency=0.1)
    for words, code, number in (
        ((), 3, "A208"),
        (("--law", "usl"), 2, "A471"),
        (("--at", "4", "--host-speed", "2"), 2, "A471"),
    ):
        ran = turnbuckle("cores", SAMPLE, *words)
        assert (ran.code, ran.out) == (code, "") and number in ran.err


def test_a_real_recording_with_several_threads(
    shared: Path, turnbuckle: Callable[..., Ran]
) -> None:
    file = shared / "traces" / "nsys" / "balinski_gomory_r11" / "report11.sqlite"
    answer = json.loads(turnbuckle("cores", file, "--format", "json").out)
    assert (
        answer["threads"] > 2
        and answer["counts"][-1]["most_seconds"]
        == answer["seconds"]
        == answer["counts"][-1]["least_seconds"]
    )
    assert answer["fewest"] <= answer["enough"] <= answer["at_once"]
    assert "with fewer cores" in turnbuckle("cores", file, "--charts", "c").out
    assert Path("c/cores.svg").is_file() and Path("c/cores.csv").is_file()
