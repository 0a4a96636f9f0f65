"""Kernels that read host memory over a coherent link: once at least, and up to what their class
allows (decision 67).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import call, copy, on_device
from strategies import LAW, NAMES, trace_of

from turnbuckle.machine import Pair, load
from turnbuckle.projection.elsewhere.counters import Counted, read_counters
from turnbuckle.projection.elsewhere.given import KernelTable
from turnbuckle.projection.elsewhere.host_reads import (
    APART,
    HOST_READS,
    WIDTHS,
    link_rate,
    product_longer,
)
from turnbuckle.projection.model import Port, nething
from turnbuckle.projection.order import prepared
from turnbuckle.projection.project import priced
from turnbuckle.projection.projection import Projection
from turnbuckle.projection.run import Run
from turnbuckle.show.verdict import verdicts
from turnbuckle.trace.trace import Trace
from turnbuckle.trace.window import COPIED_BEFORE

MS = 1_000_000
LINK = link_rate(load("nvlink-c2c").resolved(load("h100-sxm5"))) or 0.0
#: Names of kernels, one of each kind of class.
ELEMENTWISE, PRODUCT, STENCIL, NAMELESS = "vectorized_elementwise_kernel", "dgemm", "jacobi", "k1"


def recorded(*kernels: str, size: int = 1 << 28, lasts: int = 2 * MS, blocks: int = 4096) -> Trace:
    """One copy to the device, then kernels one after another."""
    about = {"blocks": blocks, "threads": 256, "registers": 32, "shared_bytes": 0}
    names = [*NAMES, *dict.fromkeys(kernels)]
    until = 30 * MS
    copies = [copy(20_000, until, size=size, correlation=1)]
    api = [call(0, until + 10_000, 1, "cudaMemcpy")]
    rows = []
    for number, name in enumerate(kernels, 2):
        begin = until + 30_000
        api.append(call(begin - 15_000, begin - 10_000, number))
        rows.append(on_device(begin, begin + lasts, number, **{**about, "name": names.index(name)}))
        until = begin + lasts
    trace = trace_of({"kernels": rows, "copies": copies, "api": api})
    return replace(trace, names=pl.Series("name", names, dtype=pl.String))


def on(
    trace: Trace,
    port: Port = "zero-copy",
    target: str = "nvlink-c2c",
    part: str = "whole",
    table: KernelTable | None = None,
    source: str = "h100-sxm5",
) -> Projection:
    run = Run.of_trace(trace, part, source=source)
    model = replace(nething(port=port, kernels=table), replay="sum")
    return run.project([target], model=model, draws=200).projections[0]


def kernel_seconds(trace: Trace, reads: float) -> float:
    """Return what all kernels take at a share of the way from reading once to the most."""
    run, model = (
        Run.of_trace(trace, "whole", source="h100-sxm5"),
        replace(nething(port="zero-copy"), replay="sum"),
    )
    durations = priced(
        prepared(run.profile, model), Pair(run.source, load("nvlink-c2c")), model, reads=reads
    )
    return float(durations.seconds[durations.run.kind == "kernel"].sum())


def ends(projection: Projection) -> tuple[float, float]:
    assert projection.interval is not None
    return projection.interval.low, projection.interval.high


def codes(projection: Projection) -> set[str]:
    return {found.code for found in projection.findings}


def stated(name: str, host_bytes: float | None = None) -> KernelTable:
    """Return a table that states a ratio of 1, or what kernels read from host memory."""
    counted = () if host_bytes is None else (Counted(host_bytes=host_bytes),)
    return KernelTable((name,), (1.0,), (0.0,), "a test", counted=counted)


def test_one_pass_over_what_was_copied_is_the_crossing_that_stands_for_the_copy() -> None:
    once = on(recorded(ELEMENTWISE))
    counted = on(recorded(ELEMENTWISE), table=stated(ELEMENTWISE, host_bytes=0.0))
    assert HOST_READS not in once.drivers and "A399" not in codes(once)
    assert ends(once) == ends(counted)


@pytest.mark.parametrize("passes", [2, 4, 8])
def test_each_further_pass_of_a_streaming_kernel_crosses_once_more(passes: int) -> None:
    least, most = (kernel_seconds(recorded(*[ELEMENTWISE] * passes), reads) for reads in (0.0, 1.0))
    assert most - least == pytest.approx((passes - 1) * (1 << 28) / LINK)


@pytest.mark.parametrize("name", [PRODUCT, STENCIL, NAMELESS])
def test_where_a_cache_may_serve_reads_counters_decide(name: str) -> None:
    open_question = on(recorded(*[name] * 10))
    low, high = ends(open_question)
    assert (
        high > APART * low
        and "A399" in codes(open_question)
        and HOST_READS in open_question.drivers
    )
    assert open_question.seconds == pytest.approx(low, rel=0.05), (
        "one-sided: the answer stands at once"
    )
    words = verdicts([open_question])[0].words
    assert (
        words == "cannot say, how often kernels read host memory decides"
        or low > 1.05 * open_question.measured_seconds
    )


def test_a_product_is_bounded_by_its_tile() -> None:
    peak = load("h100-sxm5").value("gpu.fp64_matrix")
    assert peak
    longest = product_longer(peak, "fp64", 2, LINK)[1]
    least, most = (kernel_seconds(recorded(*[PRODUCT] * 10), reads) for reads in (0.0, 1.0))
    assert most - least == pytest.approx(10 * 2e-3 * (longest - 1.0) - (1 << 28) / LINK)


def test_counters_and_stated_ratios_settle_it() -> None:
    trace = recorded(*[STENCIL] * 10)
    read = 3.0 * (1 << 28)
    settled, once, given_ratio = (
        on(trace, table=table)
        for table in (
            stated(STENCIL, host_bytes=read),
            stated(STENCIL, host_bytes=1.0),
            stated(STENCIL),
        )
    )
    for answer in (settled, once, given_ratio):
        assert "A399" not in codes(answer) and HOST_READS not in answer.drivers
        assert ends(answer)[1] < 1.2 * ends(answer)[0]
    beyond = 10 * (read / LINK - 2e-3) - (1 << 28) / LINK
    assert settled.seconds - once.seconds == pytest.approx(beyond, rel=0.02)
    assert once.seconds == pytest.approx(given_ratio.seconds)


def test_what_was_copied_before_a_part_counts() -> None:
    """Arrays are copied while a run starts; the kernels of the part read them all the same."""
    trace = recorded(*[STENCIL] * 10)
    part = on(trace, part="0.0321s..1s")
    assert Run.of_trace(trace, "0.0321s..1s").trace.facts[COPIED_BEFORE] == 1 << 28
    assert "A399" in codes(part) and ends(part)[1] > APART * ends(part)[0]
    assert COPIED_BEFORE not in Run.of_trace(trace, "whole").trace.facts


def test_few_bytes_cannot_cost_much() -> None:
    """Each block of a kernel reads all that was copied at most: parameters of a kernel do not make
    an answer unknown.
    """
    few = on(recorded(*[STENCIL] * 10, size=64))
    assert "A399" not in codes(few) and ends(few)[1] < 1.05 * ends(few)[0]


def test_other_ports_and_machines_are_as_they_were() -> None:
    trace = recorded(*[STENCIL] * 10)
    for target, port in (
        ("nvlink-c2c", "as-is"),
        ("gh200", "managed"),
        ("nvlink-c2c", ""),
        ("mi300a", "zero-copy"),
        ("mapped-memory", "zero-copy"),
    ):
        answer = on(trace, port, target)  # type: ignore[arg-type]
        assert HOST_READS not in answer.drivers and "A399" not in codes(answer), target
    itself = on(trace, target="self")
    assert itself.seconds == itself.measured_seconds and "A399" not in codes(itself)


@LAW
@given(
    st.lists(st.sampled_from([ELEMENTWISE, PRODUCT, STENCIL, NAMELESS]), min_size=1, max_size=5),
    st.integers(0, 1 << 30),
    st.integers(0, 5000),
)
def test_reading_again_is_never_faster_than_once(
    kernels: list[str], size: int, blocks: int
) -> None:
    trace = recorded(*kernels, size=size, blocks=blocks)
    answer = on(trace)
    low, high = ends(answer)
    counted = [stated(name, host_bytes=0.0) for name in dict.fromkeys(kernels)]
    once = on(trace, table=replace(counted[0], patterns=("*",)))
    assert answer.seconds == pytest.approx(once.seconds, rel=1e-9)
    assert high >= ends(once)[1] * (1 - 1e-9) and low <= answer.seconds <= high


def test_a_row_of_ncu_holds_sectors_of_system_memory() -> None:
    text = (
        '"ID","Process ID","Kernel '
        'Name","lts__t_sectors_aperture_sysmem_op_read.sum","gpu__time_duration.sum"\n'
        '"","","","sector","usecond"\n"0","7","jacobi(double*)","1,000","12"\n'
        '"1","7","jacobi(double*)","3,000","12"\n'
    )
    (counted,) = read_counters({"c.csv": text}).kernels.values()
    assert counted.host_bytes == 32 * 2000 and math.isnan(counted.size_bytes)


def test_widths_are_in_order() -> None:
    for widths in WIDTHS.values():
        assert all(low < high for low, high in widths.values())
        assert all(both < one for both, one in zip(widths[2], widths[1], strict=True)), (
            "two operands cross more than one"
        )
    least, most = product_longer(np.array([1e9, 6e13]), "fp64", 2, 393e9)
    assert least[0] == most[0] == 1.0 and 1.0 < least[1] < most[1]
