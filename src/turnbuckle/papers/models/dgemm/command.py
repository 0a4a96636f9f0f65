"""Command ``turnbuckle model dgemm``: whether a matrix product is worth moving to the device."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.units import parse, show
from turnbuckle.machine import load
from turnbuckle.show.figures.files import save
from turnbuckle.show.terminal.cells import plain
from turnbuckle.show.terminal.console import Terminal
from turnbuckle.show.terminal.model_answer import ModelAnswer
from turnbuckle.show.terminal.options import (
    NO_PART,
    Charts,
    MachineName,
    NoCache,
    PartOptions,
    Recorded,
    listed,
)
from turnbuckle.show.terminal.recording import inspected, refuse_asked
from turnbuckle.show.terminal.tables import is_table, span, titled

if TYPE_CHECKING:
    from turnbuckle.papers.models.dgemm.question import Study
    from turnbuckle.show.figures.figure import Figure

#: Bandwidths at which the lines of a figure are drawn.
_DRAWN = 61

Words = list[str] | None


def dgemm(
    times: Annotated[
        Recorded | None,
        Parameter(
            help=(
                "kernel times: a CSV (size, time or rate) or a recording; left out: host time / "
                "alpha"
            )
        ),
    ] = None,
    /,
    *,
    on: Annotated[
        MachineName | None,
        Parameter(
            name="--on",
            help=(
                "a machine: its GPU's peak, its link and its launch stand for alpha, bandwidth, "
                "latency, launch"
            ),
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        Parameter(
            help="acceleration over the host where nothing was measured; 8, the paper's A100"
        ),
    ] = None,
    host_rate: Annotated[
        str, Parameter(help="what the host computes; the paper's 64 cores")
    ] = "2.5 TFLOP/s",
    sizes: Annotated[
        Words,
        Parameter(
            help="N of the products, with commas; those measured, or 1024,2048,4096", negative=()
        ),
    ] = None,
    launch: Annotated[
        Words, Parameter(help="launch times, with commas; 0 to 500 us", negative=())
    ] = None,
    bandwidth: Annotated[
        Words, Parameter(help="bandwidths of a copy, with commas; 12.5 to 400 GB/s", negative=())
    ] = None,
    latency: Annotated[str | None, Parameter(help="o + L of one copy; the paper has none")] = None,
    element: Annotated[
        int, Parameter(help="bytes of a matrix element: 8 double, 4 single, 2 half")
    ] = 8,
    kernel: Annotated[
        str | None, Parameter(help="recording: part of the kernel's name; gemm if left out")
    ] = None,
    size: Annotated[
        int | None,
        Parameter(help="recording: N of all these kernels; read off their copies if left out"),
    ] = None,
    charts: Charts = None,
    no_cache: NoCache = False,
    part: PartOptions = NO_PART,
) -> ModelAnswer:
    """Ask from which size, bandwidth and launch time on a matrix product is worth moving to the
    device.
    """
    import numpy as np

    from turnbuckle.papers.models.dgemm import question as study

    rate, left_out = parse(host_rate, "FLOP/s"), 0
    machine = None if on is None else load(on)
    launches, bandwidths, stated_latency = study.coupling(machine)
    launches = (
        launches if launch is None else tuple(parse(w, "s") for w in _listed("--launch", launch))
    )
    bandwidths = (
        bandwidths
        if bandwidth is None
        else tuple(parse(w, "B/s") for w in _listed("--bandwidth", bandwidth))
    )
    wanted = None if sizes is None else [_size(w) for w in _listed("--sizes", sizes)]
    if (times is None or is_table(times)) and (kernel is not None or size is not None):
        option = "--kernel" if size is None else "--size"
        raise error_of("A047.option", option=option)
    if times is None or is_table(times):
        refuse_asked(times or Path("the acceleration of a kernel"), part.given(), "no recording")
    if times is None:
        peak = machine is not None and alpha is None
        kernel_times = (
            study.by_peak(machine, rate, element)
            if machine and peak
            else study.by_alpha(8.0 if alpha is None else alpha, rate)
        )
    elif alpha is not None:
        raise error_of("A047.times", found=f"{times.name} and --alpha")
    elif is_table(times):
        kernel_times = study.read_times(times)
    else:
        kernel_times, left_out = study.recorded(
            inspected(times, None, no_cache, part).profile,
            "gemm" if kernel is None else kernel,
            size,
            element,
        )
    asked: dict[str, Any] = {
        "sizes": wanted,
        "host_rate": rate,
        "launches": launches,
        "latency": stated_latency if latency is None else parse(latency, "s"),
        "element_bytes": element,
        "machine": None if machine is None else machine.name,
    }
    answer = study.study(kernel_times, bandwidths=bandwidths, left_out=left_out, **asked)

    def figures() -> list[Figure]:
        from turnbuckle.papers.models.dgemm.figures import dgemm_figure

        low, high = min(bandwidths), max(bandwidths)
        fine = np.geomspace(low, high if high > low else low * 2, _DRAWN)
        return [
            dgemm_figure(study.study(kernel_times, bandwidths=fine, left_out=left_out, **asked))
        ]

    if charts is not None:
        save(figures(), charts)
    return ModelAnswer(
        answer.as_dict(), answer.rows(), partial(_print_dgemm, study=answer), figures
    )


def _listed(option: str, words: list[str]) -> list[str]:
    """Split words at commas: `--sizes 1,2 --sizes 3` -> [1, 2, 3]."""
    values = listed(words)
    if not values:
        raise error_of("A047.nothing", found=", ".join(words)[:40], option=option)
    return values


def _size(word: str) -> int:
    if not word.isdecimal():
        raise error_of("A047.size", where="--sizes", found=word[:40])
    return int(word[:18])


def _print_dgemm(console: Terminal, study: Study) -> None:

    from turnbuckle.papers.models.dgemm.question import LARGEST

    mode = "measured" if study.times.mode == "measured" else "not measured"
    console.note(
        f"kernel times {mode}: {plain(study.times.source)}; copies and launches modelled", "bold"
    )
    assumptions = (
        f"host {show(study.host_rate, 'FLOP/s')}; elements of {study.element_bytes} B; "
        f"{show(study.latency, 's')} a copy besides its bytes; no overlap"
    )
    console.note(assumptions if study.machine is None else f"{study.machine}: {assumptions}")
    if study.left_out:
        console.note(
            f"{study.left_out:,} kernels left out: their copies do not tell a size", "yellow"
        )
    console.print()
    last = len(study.launches) - 1
    ends = [0] if last == 0 else [0, last]
    _print_products(console, study, ends)
    for i in ends:
        _print_speedups(console, study, i)
    if last > 1:
        console.note(
            f"the shortest and the longest of {last + 1} launch times; --format json or csv has all"
        )
    if study.times.mode == "measured":
        low, high = study.times.sizes[0], study.times.sizes[-1]
        words = f"sizes from {low:,.0f} to {high:,.0f} are known; never: not up to {high:,.0f}"
        console.note(
            words if low < high else f"one size is known, {low:,.0f}, and no other is guessed"
        )
    elif any(v != v for v in study.pays_from.flat):
        console.note(f"never: not up to {LARGEST:,}")


def _print_products(console: Terminal, study: Study, ends: list[int]) -> None:
    columns = [f"pays from, launch {show(float(study.launches[i]), 's')}" for i in ends]
    title = "the product alone, and the bandwidth from which moving it pays"
    table = titled(console, title, "N", "kernel", "host", "at best", "limit", *columns)
    spread = False
    for p in study.products:
        kernel = show(p.kernel_seconds, "s")
        if p.kernel_ends is not None and p.kernel_ends[0] < p.kernel_ends[1]:
            kernel, spread = f"{kernel} {span(*p.kernel_ends, 's', p.kernel_seconds)}", True
        needed = [
            "never" if math.isinf(v) else show(v, "B/s") for v in (float(p.needed[i]) for i in ends)
        ]
        table.add_row(
            f"{p.size:,}",
            kernel,
            show(p.host_seconds, "s"),
            f"{p.alpha:.3g}x",
            f"{p.ratio_limit:.3f}",
            *needed,
        )
    console.print(table)
    console.note(
        "limit: share of the host's time that launch and copies may take (offload:compute)"
    )
    if spread:
        console.note("[ ]: shortest and longest kernel measured")


def _print_speedups(console: Terminal, study: Study, launch: int) -> None:
    heads = [show(float(b), "B/s") for b in study.bandwidths]
    fit = max((console.width - 11) // (max(len(h) for h in heads) + 2), 1)
    # narrow headings leave room for more columns
    while (
        fit < len(heads) and 9 + sum(max(len(h), 7) + 2 for h in heads[: fit + 1]) <= console.width
    ):
        fit += 1
    smallest = study.times.sizes[0] if study.times.mode == "measured" else 1.0
    for start in range(0, len(heads), fit):
        some = range(start, min(start + fit, len(heads)))
        console.print()
        title = f"times as fast as the host, launch {show(float(study.launches[launch]), 's')}"
        table = titled(console, title, "N", *(heads[j] for j in some))
        for p in study.products:
            table.add_row(f"{p.size:,}", *(f"{p.speedup[launch, j]:.2f}x" for j in some))
        sizes = [float(study.pays_from[launch, j]) for j in some]
        from_n = (
            "never" if math.isnan(n) else f"{'<=' if n == smallest else ''}{n:,.0f}" for n in sizes
        )
        table.add_row("pays from", *from_n, style="bold")
        console.print(table)
