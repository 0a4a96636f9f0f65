"""Calls that no profiler records, and that a layer forwards all the same (decision 64)."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from rows import Row, call, on_device
from strategies import trace_of

from turnbuckle.machine import Machine, Parameter, load
from turnbuckle.machine.machine import Change
from turnbuckle.profile.profile import build
from turnbuckle.projection.elsewhere.priors import FORWARDED, MOST_UNRECORDED, UNRECORDED
from turnbuckle.projection.projection import Projection
from turnbuckle.projection.run import Run

US, LAUNCHES = 1_000, 40
#: What a framework leaves in a recording, by its names: PyTorch, Triton, TensorFlow, JAX; and a
#: program of its own.
FRAMEWORKS = (
    "void at::native::vectorized_elementwise_kernel",
    "triton_poi_fused_add_0",
    "tensorflow::functor::ApplyAdam",
    "jax_jit_step",
)


def launching(kernel: str) -> Run:
    """Launches without a pause, and one wait; kernels have a name."""
    api: list[Row] = [call(10 * n * US, (10 * n + 5) * US, n + 1) for n in range(LAUNCHES)]
    kernels = [on_device((10 * n + 7) * US, (10 * n + 9) * US, n + 1) for n in range(LAUNCHES)]
    end = 10 * LAUNCHES * US
    api.append(call(end, end + 3 * US, name="cudaDeviceSynchronize"))
    trace = trace_of({"api": api, "kernels": kernels})
    names = pl.Series("name", [kernel, *trace.names.to_list()[1:]], dtype=pl.String)
    return Run.of(build(replace(trace, names=names)))


def behind(name: str, calls: float | None, error: float = 0.0) -> Machine:
    """Return the layer of a row away; `calls` that no profiler records, for each launch."""
    layer = load("cdi-row-api")
    if calls is None:
        return layer
    stated = Parameter(calls, error, "1", "measured", "made by hand")
    return replace(layer, name=name, changes=(*layer.changes, Change(UNRECORDED, set=stated)))


def asked(run: Run, machine: Machine) -> Projection:
    return run.project([machine], draws=400).projections[0]


@pytest.mark.parametrize("kernel", FRAMEWORKS)
def test_the_range_of_a_framework_holds_what_its_layer_may_forward(kernel: str) -> None:
    """From a layer that answers them itself to one that waits for each; the answer stands at the
    first.
    """
    run = launching(kernel)
    silent, none, most = (
        asked(run, behind("b", calls)) for calls in (None, 0.0, 0.9 * MOST_UNRECORDED)
    )
    assert silent.interval and none.interval
    assert silent.seconds == pytest.approx(none.seconds, rel=1e-9)
    assert silent.interval.low <= none.seconds and most.seconds < silent.interval.high
    assert FORWARDED in silent.drivers and FORWARDED not in none.drivers
    (found,) = (f for f in silent.findings if f.code == "A532")
    assert "framework" in found.detail and "A532" not in {f.code for f in none.findings}


def test_each_launch_waits_for_what_is_stated() -> None:
    """Two round trips and commands a launch, one behind the other on the host."""
    run, layer = launching("my_kernel"), load("cdi-row-api")
    trip, command = (
        next(c.set for c in layer.changes if c.parameter == f"remoting.{word}")
        for word in ("round_trip", "command")
    )
    assert trip and command
    none, two = (asked(run, behind("b", calls)) for calls in (0.0, 2.0))
    assert two.seconds - none.seconds == pytest.approx(
        2 * LAUNCHES * (trip.value + command.value), rel=0.05
    )
    unsure = asked(run, behind("b", 2.0, error=0.5))
    assert unsure.interval and two.interval and unsure.interval.high > two.interval.high


def test_a_program_without_a_framework_is_told_what_was_assumed() -> None:
    run = launching("my_kernel")
    silent, none = (asked(run, behind("b", calls)) for calls in (None, 0.0))
    assert silent.interval == none.interval and FORWARDED not in silent.drivers
    assert [f.detail for f in silent.findings if f.code == "A532"] == ["taken for none"]
    assert "A532" not in {f.code for f in asked(run, load("cdi-row-link")).findings}
