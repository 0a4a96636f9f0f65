"""Benefit and penalty of distance: the published pairs, the affine law, loops of real
recordings.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from refusals import refused

from turnbuckle.foundation.errors import UnitError
from turnbuckle.foundation.units import parse
from turnbuckle.papers.ecp import simulators as paper
from turnbuckle.papers.models.bound.affine import most_benefit
from turnbuckle.papers.models.ssi.question import Distance, answer, distance, recorded
from turnbuckle.papers.numbers import printed
from turnbuckle.projection.run import Run
from turnbuckle.replay.contention.loop import Link, Loop, Quantum

LINK = Link("pcie4-x16", 26e9)
PAIRS = [(app, link) for app in paper.SSI for link in paper.PAPER.texts(app, "benefit")]


def table_7(app: str) -> Loop:
    """Table 7, its time read as that of one call; half of the bytes each way, as it does not
    say.
    """
    size = float(paper.PAPER.text(app, "bytes"))
    calls = int(paper.PAPER.text(app, "calls"))
    return Loop(calls, size / 2, size / 2, parse(f"{paper.PAPER.text(app, 'time')} us", "s"))


@pytest.mark.parametrize(("app", "link"), PAIRS)
def test_the_published_pairs(app: str, link: str) -> None:
    """Propagation by the byte that gives the printed benefit gives the printed penalty at 16 to
    50/3 times as much.
    """
    loop, benefit = table_7(app), printed(paper.PAPER.text(app, "benefit", link))
    found = []
    for b in (benefit.low, benefit.high):
        none = answer(
            loop, LINK, Distance("now", 1e-30), [Distance("far", 1e-29)], "byte"
        ).none.seconds
        x = none * (b - 1) / (loop.calls * (loop.to_device_bytes + loop.to_host_bytes))
        far = [Distance(f"{k:g} times", k * x) for k in (paper.stretch().low, paper.stretch().high)]
        done = answer(loop, LINK, Distance("now", x), far, "byte")
        assert done.benefit == pytest.approx(b, rel=1e-9) and done.off_the_line < 1e-6
        found += [row.ratio for row in done.longer]
    said = printed(paper.PAPER.text(app, "penalty", link))
    assert min(found) <= said.high and max(found) >= said.low
    assert 1e-10 < x < 6e-9, (
        "their ratios need nanoseconds a byte; 1 cm of light is 0.033 ns a message"
    )


@pytest.mark.parametrize("app", paper.SSI)
def test_by_the_message_their_lengths_cost_next_to_nothing(app: str) -> None:
    done = answer(table_7(app), LINK, distance("2 cm"), [distance("16 cm")])
    assert 1 < done.benefit < 1.00001 and 1 < done.penalty < 1.0001
    assert done.off_the_line < 1e-4 and float(most_benefit(done.penalty, 0, 1, 8)) == pytest.approx(
        done.benefit, rel=1e-9
    )


@pytest.mark.parametrize("quantum", ["message", "byte"])
def test_a_window_leaves_the_line(quantum: Quantum) -> None:
    loop = Loop(1000, 64e3, 64e3, 20e-6, in_flight=4)
    now, far = (
        (Distance("now", 1e-6), Distance("far", 50e-6))
        if quantum == "message"
        else (Distance("now", 1e-11), Distance("far", 1e-9))
    )
    done = answer(loop, LINK, now, [far], quantum)
    assert done.penalty > 1.3 * done.longer[0].affine_ratio and not done.as_dict()["affine"]
    assert answer(Loop(1000, 64e3, 64e3, 20e-6), LINK, now, [far], quantum).as_dict()["affine"]


def test_distances() -> None:
    assert distance("2 cm").propagation_seconds == pytest.approx(0.02 / 299792458)
    assert distance("10m", 0.67).propagation_seconds == pytest.approx(10 / 299792458 / 0.67)
    assert distance("70 ns") == Distance("70 ns", 7e-8)
    near, rack = distance("pcie"), distance(" Rack ")
    assert (
        near.name == "PCIe" and not near.beyond and near.propagation_seconds == pytest.approx(7e-7)
    )
    assert rack.name == "+ rack" and rack.beyond
    done = answer(Loop(10, 1e6, 1e6, 1e-4), LINK, near, [rack])
    assert done.longer[0].propagation_seconds == near.propagation_seconds + rack.propagation_seconds


@pytest.mark.parametrize(
    ("text", "speed"),
    [
        ("the moon", 1.0),
        ("2 cm", 0.0),
        ("2 cm", float("nan")),
        ("2 cm", 2.0),
        ("-1 s", 1.0),
        ("2 h", 1.0),
    ],
)
def test_distances_that_cannot_be(text: str, speed: float) -> None:
    refused("A088", distance, text, speed)


def test_a_length_without_unit() -> None:
    with pytest.raises(UnitError):
        distance("12")


@pytest.mark.parametrize(
    ("now", "far", "code"),
    [
        (Distance("now", 0.0), [Distance("far", 1e-6)], "A088"),
        (Distance("now", 1e-6), [], "A088"),
        (Distance("now", 1e-6), [Distance("far", 1e-6)], "A088"),
        (Distance("+ rack", 1e-6, beyond=True), [Distance("far", 1e-5)], "A088"),
    ],
)
def test_links_that_cannot_be_compared(now: Distance, far: list[Distance], code: str) -> None:
    refused(code, answer, Loop(10, 1e6, 1e6, 1e-4), LINK, now, far)


def test_a_loop_without_any_time() -> None:
    refused(
        "A087",
        answer,
        Loop(10, 0.0, 0.0, 0.0),
        LINK,
        Distance("now", 1e-6),
        [Distance("far", 1e-5)],
    )


def test_a_recording(shared: Path) -> None:
    """CloverLeaf: 1312 kernels busy for 294404540 ns, 225065752 B to the device, 51200 B back
    (truth.json).
    """
    profile = Run.read(
        next((shared / "traces" / "nsys" / "cloverleaf_a100_perlmutter").glob("*.sqlite"))
    ).profile
    every = recorded(profile)
    assert every == recorded(profile, "all")
    assert (every.kernel, every.calls) == ("", 1312)
    assert every.calls * every.kernel_seconds == pytest.approx(0.294404540, rel=1e-12)
    assert every.calls * every.to_device_bytes == pytest.approx(
        225065752
    ) and every.calls * every.to_host_bytes == pytest.approx(51200)
    largest, some = recorded(profile, "largest"), recorded(profile, "advec")
    assert "advec" in some.kernel and 0 < largest.calls < every.calls
    assert largest.calls * largest.kernel_seconds >= some.calls * some.kernel_seconds
    loop = largest.loop(calls=5, streams=2)
    assert (loop.calls, loop.streams, loop.kernel_seconds) == (5, 2, largest.kernel_seconds)
    refused("A169", recorded, profile, "no such kernel")
