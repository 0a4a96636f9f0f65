"""Kernels on another GPU: each basis on a run small enough to work out by hand, and what holds for
all of them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from rows import on_device
from strategies import FULL, LAW, machine, trace_of

from turnbuckle.examples import sample
from turnbuckle.machine import Machine, Pair, load
from turnbuckle.machine.catalog import all_machines
from turnbuckle.profile.kernels import kind_by_name
from turnbuckle.profile.profile import Profile, build
from turnbuckle.projection.elsewhere.classes import SHORTEST, measured, rule
from turnbuckle.projection.elsewhere.drawn import drawn_source
from turnbuckle.projection.elsewhere.given import kernel_table
from turnbuckle.projection.elsewhere.kernels import (
    BF16_PART,
    VENDOR,
    kernels_longer,
    same_model,
)
from turnbuckle.projection.elsewhere.priors import Draws, other_vendor
from turnbuckle.projection.model import Model, nething
from turnbuckle.projection.project import project
from turnbuckle.projection.projection import Projection
from turnbuckle.projection.run import Run
from turnbuckle.projection.uncertainty import project_many

#: 100 multiprocessors of 1 GHz, 1 TB/s.
GPU = {
    **FULL,
    "gpu.memory_bandwidth": 1e12,
    "gpu.fp64": 10e12,
    "gpu.fp32": 20e12,
    "gpu.multiprocessors": 100.0,
    "gpu.clock": 1e9,
}
SIZE = {"threads": 1024, "registers": 32, "shared_bytes": 0}


def here(**more: float) -> Machine:
    return machine({**GPU, **{f"gpu.{k}": v for k, v in more.items()}}, "a100", title="A100")


def there(title: str = "H100", **more: float) -> Machine:
    return machine({**GPU, **{f"gpu.{k}": v for k, v in more.items()}}, title.lower(), title=title)


def run(*kernels: tuple[str, int], lasts: int = 1_000_000) -> Profile:
    """Kernels one after another: name, and thread blocks (0: the recording does not say)."""
    rows = [
        on_device(
            k * lasts,
            (k + 1) * lasts,
            **{"name": k},
            **({"blocks": blocks, **SIZE} if blocks else {}),
        )
        for k, (_, blocks) in enumerate(kernels)
    ]
    return build(
        replace(trace_of({"kernels": rows}), names=pl.Series([name for name, _ in kernels]))
    )


def asked(
    seen: Profile, target: Machine, model: Model | None = None, draws: int = 2000
) -> Projection:
    (found,) = project_many(seen, here(), [target], model or nething(), {}, draws, 1)
    return found


def times(seen: Profile, target: Machine, model: Model | None = None) -> list[float]:
    """New over recorded time of each class."""
    found = asked(seen, target, model, 0)
    assert found.kernels is not None
    return [c.seconds / c.measured_seconds for c in found.kernels.classes]


FASTER = {
    "memory_bandwidth": 2e12,
    "clock": 1.5e9,
    "multiprocessors": 120.0,
    "fp64": 40e12,
    "fp32": 80e12,
}


def test_classes_scale_by_their_share_of_memory_and_of_the_peak() -> None:
    """By bandwidth alone; by bandwidth and the peak of the precision; all but the time that nothing
    shortens.
    """
    blocks = 2 * 100 * 1000
    floor = SHORTEST[""] / 1e-3

    def by(ratio: float) -> object:
        return pytest.approx([floor + (1 - floor) * ratio])

    assert times(run(("stencil", blocks)), there(**FASTER)) == by(1 / 2)
    assert times(
        run(("dgemm", blocks)), there(**FASTER, fp64_matrix=FULL["gpu.fp64_matrix"] * 3)
    ) == by(0.5**0.5 * (1 / 3) ** 0.5)
    assert times(run(("k", blocks)), there(**FASTER)) == pytest.approx([1 / 2]), (
        "a name that tells nothing: the middle of the range"
    )


def test_fewer_blocks_than_multiprocessors_gain_less_from_a_larger_gpu() -> None:
    """Of a product of matrices in FP32 it was measured how much."""
    few, many = (
        times(run(("sgemm_128x64_nn", blocks)), there(**FASTER))[0] for blocks in (50, 100_000)
    )
    fill = rule(kind_by_name("sgemm_128x64_nn"))
    assert fill is not None and fill.fill > 0
    assert few / many == pytest.approx(((1 + 120 / 50) / (1 + 100 / 50)) ** fill.fill, rel=2e-3)


def test_a_kernel_that_fills_no_gpu_has_the_clock_alone() -> None:
    assert times(run(("stencil", 40)), there(**FASTER)) == pytest.approx([1 / 1.5])
    assert times(run(("stencil", 40)), there("MI300X", **FASTER)) == [1.0], (
        "another vendor's clock says nothing"
    )


def test_without_a_launch_the_answer_lies_between_the_rates() -> None:
    found = asked(run(("k", 0)), there(**FASTER))
    assert found.kernels is not None and found.kernels.basis == "range of rates"
    assert found.alpha == pytest.approx(2.0), "the ratio of memory bandwidths"
    low, high = found.kernels.ends
    assert 1e-3 / 4 / 1.3 < low < 1e-3 / 3 and 0.8e-3 < high < 1.3e-3, (
        "from four times as fast to as recorded"
    )


def test_another_vendor_is_more_doubt() -> None:
    seen = run(("stencil", 100_000))
    same, other = (asked(seen, there(title, **FASTER)) for title in ("H100", "MI300X"))
    assert same.kernels is not None and other.kernels is not None
    assert (same.kernels.basis, other.kernels.basis) == ("class", "class")
    width = [np.log(k.high / k.low) / 2 / 1.645 for k in (same.kernels, other.kernels)]
    assert width[0] < 0.8 * width[1] and VENDOR in other.drivers
    assert other.kernels.high / other.kernels.low < 16.1, (
        "no farther than the largest ratio of rates, four, either way"
    )


def test_collectives_and_the_same_gpu_elsewhere_keep_their_time() -> None:
    seen = run(("ncclDevKernel_AllReduce_Sum_f32", 16), ("stencil", 100_000))
    found = asked(seen, there(**FASTER)).kernels
    assert found is not None
    kept = next(c for c in found.classes if c.name == "collective")
    assert (kept.basis, kept.seconds, kept.low, kept.high) == ("kept", 1e-3, 1e-3, 1e-3)
    twin = asked(seen, there("A100 of another node")).kernels
    assert (
        twin is not None
        and twin.seconds == twin.measured_seconds
        and twin.low < twin.seconds < twin.high
    )
    assert {c.basis for c in twin.classes} == {"kept", "same GPU"}


def test_the_default_holds_what_the_other_options_say() -> None:
    """Intervals of one target under different options do not exclude each other."""
    seen = run(("stencil", 100_000), ("k", 0), ("dgemm", 5_000))
    for target in (there(**FASTER), there("MI300X", **FASTER, fp64_matrix=160e12)):
        found = asked(seen, target)
        for word in ("memory", "flop"):
            other = asked(seen, target, nething(word))
            assert found.interval is not None and other.interval is not None
            assert (
                found.interval.low <= other.interval.high
                and other.interval.low <= found.interval.high
            )


@LAW
@given(
    st.integers(0, 5_000),
    st.sampled_from(["stencil", "dgemm", "k"]),
    st.floats(1, 4),
    st.floats(1, 4),
    st.floats(1, 4),
)
def test_a_better_gpu_of_the_same_size_is_never_slower(
    blocks: int, name: str, memory: float, clock: float, peak: float
) -> None:
    better = there(
        memory_bandwidth=1e12 * memory, clock=1e9 * clock, fp64=10e12 * peak, fp32=20e12 * peak
    )
    assert times(run((name, blocks)), better)[0] <= 1 + 1e-12


def test_its_own_machine_keeps_a_run() -> None:
    seen = run(("stencil", 1000), ("k", 0))
    source = here()
    found = project(seen, Pair(source, source), nething())
    assert found.seconds == found.measured_seconds and found.alpha is None and found.kernels is None


# --- the user's table -----------------------------------------------------------------------------


def table(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "kernels.csv"
    path.write_text("\n".join(["name, ratio, error, source", *lines]) + "\n", encoding="utf-8")
    return path


def test_given_kernels_come_first(tmp_path: Path) -> None:
    seen = run(("stencil<double>", 100_000), ("k1", 100_000), ("k2", 100_000))
    given_table = kernel_table(table(tmp_path, "k1, 4, 0.1, a simulator", "stencil*, 2, ,"))
    assert given_table.source == "a simulator" and [
        given_table.row(n) for n in ("k1", "k2", "stencil<double>")
    ] == [0, -1, 1]
    found = asked(seen, there(**FASTER), nething(kernels=given_table))
    assert found.kernels is not None
    by_basis = {(c.name, c.basis): c for c in found.kernels.classes}
    certain, drawn = by_basis["stencil", "given"], by_basis["other", "given"]
    assert (certain.seconds, certain.low, certain.high) == pytest.approx((5e-4, 5e-4, 5e-4))
    assert drawn.seconds == pytest.approx(2.5e-4) and np.log(
        drawn.high / drawn.low
    ) / 2 / 1.645 == pytest.approx(0.1, rel=0.1)
    assert ("other", "range of rates") in by_basis, "what the table leaves out is told as before"


def test_given_kernels_hold_for_a_changed_coupling_too(tmp_path: Path) -> None:
    model = nething(kernels=kernel_table(table(tmp_path, "k, 2, ,")))
    (found,) = project_many(run(("k", 10)), here(), [load("cdi-row-link")], model, {}, 0, 1)
    assert found.alpha == pytest.approx(2.0)


def test_seconds_on_the_target_are_a_ratio_to_the_recorded_mean(tmp_path: Path) -> None:
    path = tmp_path / "seconds.csv"
    path.write_text(
        "name, ratio, seconds, error\nstencil*, , 250 us, 0.1\nk1, 3, , \nnever, , 1 ms,\n",
        encoding="utf-8",
    )
    seen = run(("stencil<double>", 100_000), ("stencil<float>", 100_000), ("k1", 100_000))
    resolved = kernel_table(path).on(seen.trace, here(), [there(**FASTER)])
    assert resolved.ratio == pytest.approx((4.0, 3.0, 1.0)) and not resolved.seconds, (
        "1 ms recorded, 250 us there"
    )
    for lines in ("k, 2, 1 ms,", "k, , ,"):
        path.write_text(f"name, ratio, seconds, error\n{lines}\n", encoding="utf-8")
        assert "seconds.csv:2" in refused("A431", kernel_table, path).where


def test_what_is_given_reaches_an_answer(tmp_path: Path) -> None:
    """A question of a `Run` once took the pieces of the run without the table, so that nothing of
    it was used.
    """
    with sample() as path:
        seen = Run.read(path, use_cache=False)
    model = replace(
        nething(kernels=kernel_table(table(tmp_path, "*, 4, 0.05, mine"))), replay="auto"
    )
    for one in (model, replace(model, replay="sum"), replace(model, replay="timeline")):
        found = seen.project("gh200", model=one, draws=20).projections[0]
        assert found.kernels is not None and [c.basis for c in found.kernels.classes] == [
            "given"
        ] * len(found.kernels.classes)
        assert found.kernels.measured_seconds / found.kernels.seconds == pytest.approx(4.0)
    plain = seen.project("gh200", draws=0).projections[0].kernels
    assert plain is not None and plain.basis != "given"


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ((), "A431"),
        (("k, 0, 0.1, s",), "A063"),
        (("k, fast, 0.1, s",), "U004"),
        ((", 2, 0.1, s",), "A063"),
    ],
)
def test_tables_that_cannot_be_meant_are_refused(
    tmp_path: Path, lines: tuple[str, ...], code: str
) -> None:
    refused(code, kernel_table, table(tmp_path, *lines))


_RATES = (
    "memory_bandwidth",
    "fp64",
    "fp64_matrix",
    "fp32",
    "tf32_matrix",
    "fp16_matrix",
    "fp8_matrix",
    "int8_matrix",
    "clock",
)
_CHIPS = tuple(
    m.name
    for m in all_machines()
    if not m.relative and len(m.parameters.keys() & {f"gpu.{rate}" for rate in _RATES}) > 2
)


def _allowed(source: Machine, target: Machine) -> tuple[float, float]:
    """The smallest and the largest ratio of any rate that both state, each with its errors,
    and 1.
    """
    ends = [1.0]
    pairs = [(source.get(f"gpu.{rate}"), target.get(f"gpu.{rate}")) for rate in _RATES]  # type: ignore[arg-type]
    parts = [BF16_PART.get(machine.family, 1.0) for machine in (source, target)]
    for rate, (before, after) in zip(_RATES, pairs, strict=True):
        if before is not None and after is not None:
            reach = np.exp(1.645 * np.hypot(before.error, after.error))
            stated = after.value / before.value
            ends += [stated / reach, stated * reach]
            if rate == "fp16_matrix":  # BF16 has no rate of its own
                ends += [end * parts[1] / parts[0] for end in ends[-2:]]
    if (a := source.value("gpu.multiprocessors")) and (b := target.value("gpu.multiprocessors")):
        clocks = source.get("gpu.clock"), target.get("gpu.clock")
        if clocks[0] is not None and clocks[1] is not None:
            units = [machine.get("gpu.multiprocessors") for machine in (source, target)]
            errors = [p.error for p in (*clocks, *units) if p is not None]
            reach = np.exp(1.645 * np.linalg.norm(errors))
            ends += [b / a * clocks[1].value / clocks[0].value * end for end in (1 / reach, reach)]
    shares = [machine.get("gpu.memory_efficiency") for machine in (source, target)]
    rates = [machine.get("gpu.memory_bandwidth") for machine in (source, target)]
    if None not in shares:
        (here_share, there_share), (here_rate, there_rate) = shares, rates
        reach = np.exp(1.645 * np.linalg.norm([p.error for p in (*shares, *rates)]))
        ratio = there_share.value * there_rate.value / here_share.value / here_rate.value
        ends += [ratio / reach, ratio * reach]
    return min(ends), max(ends)


@pytest.mark.parametrize("source", _CHIPS)
def test_ratios_stay_inside_what_rates_allow(source: str) -> None:
    """Every pair of GPUs of the catalogue, every class by name and precision, launched or not: no
    draw beyond the rates of the two.
    """
    names = (
        "dgemm",
        "sgemm",
        "hgemm",
        "gemm_tf32",
        "flash_fwd_bf16",
        "stencil_f64",
        "elementwise_kernel<float>",
        "reduce",
        "k",
        "conv",
    )
    kinds = [
        replace(kind_by_name(name), **launch)
        for name in names
        for launch in ({}, {"blocks": 40, "threads": 256}, _MANY)
    ]  # type: ignore[arg-type]
    for target in _CHIPS:
        pair = Pair(load(source), replace(load(target), name=f"{target} there"))
        draws = Draws(60, 7)
        longer = kernels_longer(
            kinds, pair, drawn_source(pair.source, draws), drawn_source(pair.target, draws), draws
        )
        if longer is None or same_model(pair):
            continue
        # what was measured on both GPUs is told as measured
        longer = longer[:, [not measured(kind, pair) for kind in kinds]]
        least, most = _allowed(pair.source, pair.target)
        if other_vendor(pair):
            least, most = min(least, 1 / most), max(most, 1 / least)
        assert 1 / longer.min() <= most * 1.001 and 1 / longer.max() >= least * 0.999, (
            source,
            target,
            least,
            most,
        )


_MANY = {"blocks": 100_000, "threads": 256, "registers": 64}


@pytest.mark.parametrize(
    ("source", "target"), [("a100-sxm4-40", "mi300a"), ("h100-sxm5", "h100-pcie")]
)
@pytest.mark.parametrize("alpha", ["auto", "flop", "memory"])
def test_the_range_of_one_run_stays_inside_as_well(source: str, target: str, alpha: str) -> None:
    """An A100 to an MI300A reached 13.1 where the largest ratio is 6.3, an H100 to its PCIe form
    0.546 where the smallest is 0.597.
    """
    seen = run(("k", 0), ("stencil_f64", 100_000), ("dgemm", 0))
    (found,) = project_many(seen, load(source), [load(target)], nething(alpha), {}, 2000, 1)
    assert found.kernels is not None
    least, most = _allowed(load(source), load(target))
    low, high = (3e-3 / end for end in reversed(found.kernels.ends))
    assert high <= most and (low >= least or target == "mi300a"), (low, high, least, most)


def test_products_in_bf16_have_half_of_the_peak_on_cdna() -> None:
    half = kind_by_name("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_32x6_tn")
    assert half.precision == "bf16"
    kinds = [replace(half, seconds=1e-2), replace(half, precision="fp16", seconds=1e-2)]
    pair = Pair(load("mi210"), load("mi100"))
    in_bf16, in_fp16 = kernels_longer(kinds, pair, pair.source, pair.target, Draws())
    assert in_bf16 == pytest.approx(in_fp16 * 2**0.5, rel=1e-3), "memory decides the other half"
    same = Pair(load("mi100"), load("mi100"))
    assert kernels_longer(kinds, same, same.source, same.target, Draws()) == pytest.approx(1.0)
