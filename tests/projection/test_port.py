"""What becomes of copies on a target with one memory: they stay, are dropped, or pages move instead (decision D24)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from turnbuckle.examples import sample
from turnbuckle.foundation.errors import CannotAnswer, UsageError
from turnbuckle.machine import Machine, load
from turnbuckle.projection.model import Port, nething
from turnbuckle.projection.projection import Projection
from turnbuckle.projection.run import Run
from turnbuckle.show.terminal.asked import model_of


@pytest.fixture(scope="module")
def run() -> Run:
    with sample() as path:
        return Run.read(path, use_cache=False)


def on(run: Run, target: str | Machine, port: Port) -> Projection:
    return run.project([target], model=replace(nething("hold", host=1.0, port=port), replay="auto"), draws=200).projections[0]


def test_copies_stay_at_the_rate_of_the_package(run: Run) -> None:
    rate = load("mi300a").value("package.copy_bandwidth")
    as_is, dropped, open_question = (on(run, "mi300a", port) for port in ("as-is", "zero-copy", ""))
    assert rate and as_is.copies and dropped.copies and open_question.copies
    moved = as_is.copies.size_bytes / rate
    assert moved < as_is.copies.seconds < moved + as_is.copies.count * 3e-6 * 2, "bytes at its rate, and the fixed part of each"
    assert as_is.copies.low < as_is.copies.seconds < as_is.copies.high
    assert dropped.copies.seconds == dropped.copies.high == 0 and dropped.seconds < as_is.seconds
    assert "copied inside the package" in as_is.copies.classes[0].basis and dropped.copies.classes[0].basis == "one memory: no copy"
    assert open_question.seconds == dropped.seconds
    assert open_question.copies.high > 0, "without an answer the copies may stay"


def test_pages_move_at_the_stated_rate(run: Run) -> None:
    rate = load("gh200").value("package.managed_bandwidth")
    managed, as_is = (on(run, "gh200", port) for port in ("managed", "as-is"))
    assert rate and managed.copies and managed.copies.seconds > managed.copies.size_bytes / rate
    assert managed.seconds > as_is.seconds == on(run, "gh200", "").seconds, "two memories: the copies of the program stay"
    assert "managed memory" in managed.copies.classes[0].basis


def test_what_a_target_does_not_allow(run: Run) -> None:
    for target, port, word in (("gh200", "zero-copy", "one memory"), ("h100-sxm5", "managed", "managed memory")):
        with pytest.raises(CannotAnswer) as refused:
            on(run, target, port)  # type: ignore[arg-type]
        assert refused.value.code == "A149" and word in refused.value.what
    with pytest.raises(UsageError) as twice:
        model_of("flop", "additive", ["data=2"], port="as-is")
    assert twice.value.code == "A012"
    assert on(run, "self", "zero-copy").seconds == run.seconds, "the run itself is ported to nothing"
