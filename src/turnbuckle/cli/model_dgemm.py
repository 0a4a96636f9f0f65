"""``turnbuckle model dgemm``: whether a matrix product is worth moving to the device."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from turnbuckle.cli.options import Charts, FormatOption, NoCache, Output

if TYPE_CHECKING:
    from rich.console import Console

    from turnbuckle.study.dgemm import Study

#: Bandwidths at which the lines of a figure are drawn.
_DRAWN = 61

Words = list[str] | None


def dgemm(
    times: Annotated[
        Path | None, Parameter(help="kernel times: a CSV (size, time or rate) or a recording; left out: host time / alpha")
    ] = None,
    /,
    *,
    alpha: Annotated[float | None, Parameter(help="acceleration over the host where nothing was measured; 8, the paper's A100")] = None,
    host_rate: Annotated[str, Parameter(help="what the host computes; the paper's 64 cores")] = "2.5 TFLOP/s",
    sizes: Annotated[Words, Parameter(help="N of the products, with commas; those measured, or 1024,2048,4096", negative=())] = None,
    launch: Annotated[Words, Parameter(help="launch times, with commas; 0 to 500 us", negative=())] = None,
    bandwidth: Annotated[Words, Parameter(help="bandwidths of a copy, with commas; 12.5 to 400 GB/s", negative=())] = None,
    latency: Annotated[str, Parameter(help="o + L of one copy; the paper has none")] = "0 s",
    element: Annotated[int, Parameter(help="bytes of a matrix element: 8 double, 4 single, 2 half")] = 8,
    kernel: Annotated[str, Parameter(help="recording: part of the kernel's name")] = "gemm",
    size: Annotated[int | None, Parameter(help="recording: N of all these kernels; read off their copies if left out")] = None,
    charts: Charts = None,
    format: FormatOption = "table",
    output: Output = None,
    no_cache: NoCache = False,
) -> int:
    """Ask from which size, bandwidth and launch time on a matrix product is worth moving to the device."""
    import numpy as np

    from turnbuckle.cli.model_tables import is_table
    from turnbuckle.cli.output import write_json, write_rows
    from turnbuckle.cli.terminal import console_for
    from turnbuckle.errors import UsageError
    from turnbuckle.study import dgemm as study
    from turnbuckle.units import parse

    console = console_for(output) if format == "table" else None
    rate, left_out = parse(host_rate, "FLOP/s"), 0
    launches = [parse(w, "s") for w in _listed(launch)] or list(study.LAUNCHES)
    bandwidths = [parse(w, "B/s") for w in _listed(bandwidth)] or list(study.BANDWIDTHS)
    wanted = [_size(w) for w in _listed(sizes)] or None
    if times is None:
        known = study.by_alpha(8.0 if alpha is None else alpha, rate)
    elif alpha is not None:
        raise UsageError("A047", "kernel times are measured or come from alpha", found=f"{times.name} and --alpha", fix="leave one out")
    elif is_table(times):
        known = study.read_times(times)
    else:
        from turnbuckle.cli.recording import inspected

        known, left_out = study.recorded(inspected(times, None, no_cache).profile, kernel, size, element)
    asked: dict[str, Any] = {
        "sizes": wanted,
        "host_rate": rate,
        "launches": launches,
        "latency": parse(latency, "s"),
        "element_bytes": element,
    }
    found = study.study(known, bandwidths=bandwidths, left_out=left_out, **asked)
    if charts is not None:
        low, high = min(bandwidths), max(bandwidths)
        fine = np.geomspace(low, high if high > low else low * 2, _DRAWN)
        _draw(study.study(known, bandwidths=fine, left_out=left_out, **asked), charts)
    if console is not None:
        _print_dgemm(console, found)
    elif format == "json":
        write_json(found.as_dict(), output)
    else:
        write_rows(found.rows(), format, output)
    return 0


def _listed(words: Words) -> list[str]:
    return [part.strip() for word in words or [] for part in word.split(",") if part.strip()]


def _size(word: str) -> int:
    from turnbuckle.errors import UsageError

    if not word.isdecimal():
        raise UsageError("A047", "a size is a whole number", where="--sizes", found=word[:40], fix="--sizes 1024,2048")
    return int(word[:12])


def _draw(found: Study, folder: Path) -> None:
    from turnbuckle.errors import ReportError
    from turnbuckle.report.dgemm_chart import dgemm_figure
    from turnbuckle.report.figure import draw

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for figure in draw([dgemm_figure(found)]):
            # inside a page the namespace is known, a file of its own must state it
            alone = figure.svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
            (folder / f"{figure.name}.svg").write_text(alone, encoding="utf-8")
            (folder / f"{figure.name}.csv").write_text(figure.csv, encoding="utf-8")
    except OSError as error:
        raise ReportError(
            "R001", "the figures cannot be written", where=folder.name, found=error.strerror or "", fix="name a folder you may write to"
        ) from error


def _print_dgemm(console: Console, found: Study) -> None:
    import math

    from rich.text import Text

    from turnbuckle.cli.model_tables import plain, span, titled
    from turnbuckle.units import show

    mode = "measured" if found.times.mode == "measured" else "not measured"
    console.print(Text(f"kernel times {mode}: {plain(found.times.source)}; copies and launches modelled", "bold"))
    said = (
        f"host {show(found.host_rate, 'FLOP/s')}; elements of {found.element_bytes} B; {show(found.latency, 's')} a copy besides its bytes"
    )
    console.print(Text(said, "dim"))
    if found.left_out:
        console.print(Text(f"{found.left_out:,} kernels left out: their copies do not tell a size", "yellow"))
    console.print()
    first, last = 0, len(found.launches) - 1
    ends = [first] if first == last else [first, last]
    columns = [f"pays from, launch {show(float(found.launches[i]), 's')}" for i in ends]
    table = titled(
        console, "the product alone, and the bandwidth from which moving it pays", "N", "kernel", "host", "at best", "limit", *columns
    )
    for p in found.products:
        ends_known = p.kernel_ends is not None and p.kernel_ends[0] < p.kernel_ends[1]
        spread = f" {span(*p.kernel_ends, 's', p.kernel_seconds)}" if ends_known and p.kernel_ends else ""
        needed = ["never" if math.isinf(v) else show(v, "B/s") for v in (float(p.needed[i]) for i in ends)]
        limit = f"{p.ratio_limit:.3f}"
        table.add_row(f"{p.size:,}", show(p.kernel_seconds, "s") + spread, show(p.host_seconds, "s"), f"{p.alpha:.3g}x", limit, *needed)
    console.print(table)
    console.print(Text("limit: share of the host's time that launch and copies may take (offload:compute)", "dim"))
    for i in ends:
        console.print()
        title = f"times as fast as the host, launch {show(float(found.launches[i]), 's')}"
        table = titled(console, title, "N", *(show(float(b), "B/s") for b in found.bandwidths))
        for p in found.products:
            table.add_row(f"{p.size:,}", *(f"{v:.2f}x" for v in p.speedup[i]))
        smallest = found.times.sizes[0] if found.times.mode == "measured" else 1.0
        from_n = ("never" if math.isnan(n) else f"{'<=' if n == smallest else ''}{n:,.0f}" for n in found.pays_from[i])
        table.add_row("pays from", *from_n, style="bold")
        console.print(table)
    if found.times.mode == "measured":
        low, high = found.times.sizes[0], found.times.sizes[-1]
        words = f"sizes from {low:,.0f} to {high:,.0f} are known; never: not up to {high:,.0f}"
        console.print(Text(words + ("" if low < high else "; one size: no other is guessed"), "dim"))
