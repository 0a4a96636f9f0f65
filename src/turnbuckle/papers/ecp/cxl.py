"""CXL and ORNLapp in the ECP report (Austin et al. 2021, ECP-HIHE01-35, sections 4.8, 9.2 and 10),
recomputed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from turnbuckle.cost.loggp import loggp_seconds
from turnbuckle.cost.pcie import Pcie
from turnbuckle.foundation.arrays import Float
from turnbuckle.papers.models.cxl import cost as cxl
from turnbuckle.papers.numbers import (
    Interval,
    Paper,
    Recomputed,
    exact,
    judged,
    not_printed,
    printed,
    stated,
    swept,
)

PAPER = Paper("ecp/cxl")
_KIB, _MIB = 1024.0, 1024.0**2
_ASSUMED = (
    f"start-up of PCIe {cxl.START_UP * 1e9:.0f} ns: identified, the paper takes it from a figure "
    "and does not print it"
)


def recompute() -> list[Recomputed]:
    """Return every number of the paper on CXL and ORNLapp: printed, recomputed, verdict."""
    return [*_models(), *_identification(), *_crossovers(), *_ornlapp(), *_totals()]


def pcie() -> Pcie:
    """Return the paper's PCI Express, in the public model's default settings."""
    return Pcie(int(PAPER.text("PCIe", "generation")), int(PAPER.text("PCIe", "lanes")))


def _line() -> tuple[float, float]:
    """Return the size of a cache line [B] and the time of an access to it [s]."""
    return float(PAPER.text("CXL", "cache line")), float(PAPER.text("CXL", "cache access")) * 1e-9


def share() -> float:
    """Return the share of PCIe's bandwidth that CXL reaches at least (equation 11)."""
    return float(PAPER.text("CXL", "share of PCIe bandwidth", "least")) / 100


def _cxl1(size: Float | float) -> Float:
    """Return equation 10 as printed, without ceil: the paper's crossover is that of the straight
    line.
    """
    line, access = _line()
    return cxl.cxl_line_seconds(size, access, line_bytes=line, whole_lines=False)


def _cxl2(size: Float, bandwidth: Float) -> Float:
    return loggp_seconds(size, _line()[1], share() * bandwidth)


def _anchors() -> tuple[cxl.Anchor, ...]:
    first, second = (PAPER.number(f"CXL {k}", "faster than PCIe below").times(_KIB) for k in (1, 2))
    relative = PAPER.number("CXL 2", "time in times of PCIe", "16 MiB")
    return (
        cxl.Anchor("crossover", first.low, first.high, lambda n, _: _cxl1(n)),
        cxl.Anchor("crossover", second.low, second.high, _cxl2),
        cxl.Anchor("relative", relative.low, relative.high, _cxl2, 16 * _MIB),
    )


def _models() -> Iterator[Recomputed]:
    line, access = _line()
    text = f"{line / access * 1e-9:g}"
    yield judged(
        "R.eq10.bw", text, line / float(cxl.cxl_line_seconds(line, access, line_bytes=line)) * 1e-9
    )
    yield judged(
        "R.10.2.off",
        PAPER.text("offload", "task must save"),
        2 * float(cxl.cxl_line_seconds(line, access, line_bytes=line)) * 1e6,
    )


def _identification() -> Iterator[Recomputed]:
    link = pcie()
    ranges = [cxl.start_ups(lambda n: link.bandwidth(n, "both"), anchor) for anchor in _anchors()]
    (setting,) = cxl.identified([("both", link)], _anchors()) or (None,)
    words = " | ".join(
        "none" if r is None else f"{r[0] * 1e9:.0f}..{r[1] * 1e9:.0f}" for r in ranges
    )
    together = (
        "" if setting is None else f" -> {setting.low * 1e9:.1f}..{setting.high * 1e9:.1f} ns"
    )
    yield stated(
        "R.CXL.ts",
        "yes",
        f"{words}{together}",
        setting is not None and setting.low <= cxl.START_UP <= setting.high,
    )
    settings = cxl.pcie_settings(link.generation, link.lanes)
    fit = cxl.identified(settings, _anchors())
    kinds = ", ".join(sorted({f"{i.direction} at MPS {i.link.mps}" for i in fit}))
    fits = any((i.direction, i.link) == ("both", link) for i in fit)
    yield stated("R.CXL.scan", "-", f"{len(fit)} of {len(settings)}: {kinds}", fits)


def _crossovers() -> Iterator[Recomputed]:
    link = pcie()

    def bandwidth(n: Float) -> Float:
        return link.bandwidth(n, "both")

    def slower(n: Float, carried: Float) -> Float:
        return loggp_seconds(n, cxl.START_UP, carried)

    laws: tuple[cxl.Law, ...] = (lambda n, _: _cxl1(n), _cxl2, lambda n, _: cxl.cxl_line_seconds(n))
    first, second, lines = (
        (c.first if c is not None else math.inf) / _KIB
        for c in cxl.crossovers(laws, slower, bandwidth, 1 << 20)
    )
    for name, subject, kib, whole in (
        ("x1", "CXL 1", first, f"; {lines:.2f} KiB with whole lines"),
        ("x2", "CXL 2", second, ""),
    ):
        yield judged(
            f"R.CXL.{name}",
            PAPER.text(subject, "faster than PCIe below"),
            kib,
            note=_ASSUMED + whole,
        )
    size = 16 * _MIB
    at_size = np.array(size)
    relative = float(_cxl2(at_size, bandwidth(at_size)) / slower(at_size, bandwidth(at_size)))
    text = PAPER.text("CXL 2", "time in times of PCIe", "16 MiB")
    yield judged("R.CXL.rel", text, relative, note=_ASSUMED)
    yield judged(
        "R.CXL.inv",
        PAPER.text("CXL 2", "one over the relative time"),
        swept(lambda r: 1 / r, printed(text)),
    )


def _ornlapp() -> Iterator[Recomputed]:
    def number(quantity: str) -> Interval:
        return PAPER.number("ORNLapp", quantity)

    def text(quantity: str) -> str:
        return PAPER.text("ORNLapp", quantity)

    depth, items, kernel = (
        int(text("pipeline depth")),
        int(text("FPGA kernels")),
        number("FPGA kernel time"),
    )
    stage = number("slowest stage of the pipeline")
    seconds = swept(lambda t: float(cxl.pipeline_seconds([t] * depth, items)), stage)
    yield judged(
        "R.10.2.app",
        text("pipelined run time"),
        seconds,
        note=f"{depth} stages of {stage.value:g} s, {items} times",
    )
    total = kernel.times(items * 1e-3)
    note = f"the printed sum is 100 times {kernel.value:g} ms, not {items} times"
    yield judged("R.10.2.tk", text("FPGA kernel time in all"), total, note=note)
    with_other = float(cxl.pipeline_seconds([kernel.value * 1e-3] * depth, items))
    note = (
        f"one quantity, two values 7 % apart (printed as {kernel.value:g} ms); with this one the "
        f"pipeline takes {with_other:.2f} s"
    )
    yield judged("R.10.2.tk2", f"{float(text('FPGA kernel time')) / 1e3:g}", stage, note=note)
    size = float(text("read size")) * _MIB
    slowest = float(_cxl1(size)) * 1e3
    yield judged(
        "R.10.2.seventh",
        text("kernel time over the slowest transfer"),
        swept(lambda t: t / slowest, kernel),
    )
    share = swept(lambda t: 100 * size / (t * 1e-3) / pcie().raw_bandwidth, number("read time"))
    yield judged("R.10.2.rd", text("bandwidth utilisation"), share, within=(55.0, 65.0))
    runs, writes, reads = (int(text(q)) for q in ("runs", "writes of a run", "reads of a run"))
    note = (
        f"all writes of {runs} runs; reads alike, {reads * runs:,} and not "
        f"{int(text('reads divided by')):,}"
    )
    yield judged("R.4.8.2.div", text("writes divided by"), exact(writes * runs), note=note)


def _totals() -> Iterator[Recomputed]:
    def number(quantity: str) -> Interval:
        return PAPER.number("ORNLapp", quantity)

    penalty, gain, pipelined = (
        number("disaggregation penalty"),
        number("speed-up of the pipeline"),
        number("pipelined run time"),
    )
    fpga, gpu = number("FPGA kernel time in all"), number("GPU kernel time in all")
    speedup = swept(lambda p, f, g, t: p * (f + g) / t, penalty, fpga, gpu, pipelined)
    by_penalty, by_speedup = penalty.value * (fpga.value + gpu.value), gain.value * pipelined.value
    note = (
        f"the penalty (eq 13) needs a run of {by_penalty:.2f} s, the speed-up one of "
        f"{by_speedup:.2f} s"
    )
    yield judged("R.10.x", PAPER.text("ORNLapp", "speed-up of the pipeline"), speedup, note=note)
    ratio_text = f"{penalty.value:g} / {gain.value:g}"
    yield not_printed("R.13", ratio_text, "the run time of ORNLapp today is not printed")
