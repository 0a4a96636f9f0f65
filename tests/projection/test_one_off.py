"""A launch far longer than launches are loads code, once: what a launch costs on another machine
does not scale it.
"""

from __future__ import annotations

import numpy as np
import pytest
from rows import call, on_device, profile_of

from turnbuckle.profile.pieces import pieces, thinned
from turnbuckle.profile.profile import Profile
from turnbuckle.projection.run import Run

US, MS = 1_000, 1_000_000


def with_slow(slow_ns: int, places: tuple[int, ...] = (0,), count: int = 400) -> Profile:
    """Launches of 4 us, each waited for, some of them longer."""
    api, kernels, t = [], [], 0
    for i in range(count):
        took = slow_ns if i in places else 4 * US
        begin = t + took + 2 * US
        api += [
            call(t, t + took, 2 * i + 1),
            call(t + took + US, begin + 52 * US, 2 * i + 2, "cudaDeviceSynchronize"),
        ]
        kernels.append(on_device(begin, begin + 50 * US, 2 * i + 1))
        t = begin + 62 * US
    return profile_of(api=api, kernels=kernels)


@pytest.mark.parametrize("places", [(0,), (200,), (0, 1, 200, 399)])
@pytest.mark.parametrize("slow_ns", [20 * MS, 1_300 * MS])
@pytest.mark.parametrize("count", [20, 400])
def test_loading_code_is_no_launch_to_be_priced(
    slow_ns: int, places: tuple[int, ...], count: int
) -> None:
    places = tuple(p for p in places if p < count)[: max(count // 20, 1)]
    profile = with_slow(slow_ns, places, count)
    (answer,) = Run.of(profile).project(["nvlink-c2c"], draws=200).projections
    low, high = (end / answer.measured_seconds for end in answer.ends)
    # the other launches may take 4 times as long, and no more than that
    assert high - 1.0 <= 4.0 * 4 * US * count * 1e-9 / answer.measured_seconds + 0.01
    assert high - low < 0.6
    run = pieces(profile)
    assert run.count[run.one_off].sum() == len(places)
    assert (
        run.seconds.sum() == pytest.approx(pieces(profile).seconds.sum())
        and run.count[run.kind == "launch"].sum() == count
    )
    assert thinned(run, 1).count[thinned(run, 1).one_off].sum() == len(places)


def test_without_it_the_range_is_that_of_the_launches() -> None:
    """The same launches beside no slow one: none is a one-off, and the width in seconds is
    alike.
    """
    plain, slow = with_slow(4 * US), with_slow(1_300 * MS)
    assert not pieces(plain).one_off.any()
    widths = []
    for profile in (plain, slow):
        (answer,) = Run.of(profile).project(["nvlink-c2c"], draws=200).projections
        widths.append(answer.ends[1] - answer.ends[0])
    assert widths[0] * 0.9 <= widths[1] <= widths[0] * 2, (
        "the path through a longer run explains less"
    )


@pytest.mark.parametrize(
    "lengths", [[4], [4, 5], [4, 30] * 50, np.linspace(2, 30, 100).round().astype(int).tolist()]
)
def test_launches_of_one_spread_have_no_one_off(lengths: list[int]) -> None:
    api = [call(100 * US * i, 100 * US * i + took * US, i + 1) for i, took in enumerate(lengths)]
    kernels = [
        on_device(100 * US * i + took * US + US, 100 * US * i + 90 * US, i + 1)
        for i, took in enumerate(lengths)
    ]
    assert not pieces(profile_of(api=api, kernels=kernels)).one_off.any()
