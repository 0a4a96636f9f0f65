"""``turnbuckle model memory | mdm | dgemm | power``: what kernels take, from tables and recordings, and what a watt buys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from turnbuckle.cli.options import Charts, FormatOption, NoCache, Output, Source

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console
    from rich.table import Table

    from turnbuckle.cost.mdm import Intervals, MdmDevice
    from turnbuckle.study.dgemm import Study
    from turnbuckle.study.power import Estimate, PowerStudy
    from turnbuckle.study.unified_memory import Ratio, UnifiedMemory

TABLES = (".csv", ".txt", ".tsv")
#: Bandwidths at which the lines of a figure are drawn; columns of a terminal on which values and intervals stand in one line.
_DRAWN, _WIDE = 61, 116

Words = list[str] | None


def memory(
    work: Annotated[Path, Parameter(help="a table (name, flops, regular, irregular, h2d, d2h), or a recording with unified memory")],
    /,
    *,
    on: Annotated[str | None, Parameter(name="--on", help="machine whose memories are meant; that of the recording if left out")] = None,
    memories: Annotated[
        Path | None,
        Parameter(help="CSV of measured bandwidths: memory (hbm, ddr), regular, irregular [B/s], error; replaces the machine's"),
    ] = None,
    memory_bound: Annotated[
        str | None, Parameter(help="recording: share of kernel time that memory bounds, as 0.6:0.9, or unknown for everything that can be")
    ] = None,
    counters: Annotated[
        Path | None, Parameter(help="recording: table of what its kernels do; a name stands for all that contain it")
    ] = None,
    overlap: Annotated[Literal["full", "none"], Parameter(help="table: copies behind arithmetic as in equation 8, or beside it")] = "full",
    source: Source = None,
    format: FormatOption = "table",
    output: Output = None,
    no_cache: NoCache = False,
) -> int:
    """Compare data in host memory, in device memory and moved on demand: equation 8 of the ECP report."""
    from turnbuckle.cli.output import write_json, write_rows
    from turnbuckle.cli.terminal import console_for
    from turnbuckle.errors import UsageError
    from turnbuckle.machine import load
    from turnbuckle.study import unified_memory as study

    console = console_for(output) if format == "table" else None
    measured = study.read_memories(memories) if memories is not None else None
    if work.suffix.lower() in TABLES:
        if on is None:
            raise UsageError("A045", "a table of work needs a machine", fix="add --on MACHINE; turnbuckle machines list names them")
        if memory_bound is not None or counters is not None:
            raise UsageError("A045", "--memory-bound and --counters belong to a recording", found=work.name, fix="leave them out")
        found = study.from_numbers(study.read_work(work), study.memories(load(on), measured), overlap)
    else:
        from turnbuckle.cli.recording import inspected

        share = _share(memory_bound) if memory_bound is not None else None
        counted = study.read_work(counters) if counters is not None else None
        seen = inspected(work, source, no_cache)
        machine = load(on).resolved(seen.source) if on is not None else seen.source
        found = study.from_profile(seen.profile, study.memories(machine, measured), memory_bound=share, counted=counted, overlap=overlap)
    if console is not None:
        _print_memory(console, found)
    elif format == "json":
        write_json(found.as_dict(), output)
    else:
        write_rows([_memory_row(r) for r in found.as_dict()["rows"]], format, output)
    return 0


def _share(text: str) -> tuple[float, float]:
    from turnbuckle.units import parse

    if text.strip().lower() == "unknown":
        return 0.0, 1.0
    low, _, high = text.partition(":")
    return parse(low, "1"), parse(high or low, "1")


def _memory_row(row: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {"name": row["name"]}
    ends = ("low", "value", "high")
    for placement, three in row["seconds"].items():
        flat |= {f"{placement}_{end}_seconds": v for end, v in zip(ends, three, strict=True)}
    return flat | {f"ddr_over_hbm_{end}": v for end, v in zip(ends, row["ddr_over_hbm"], strict=True)}


def _print_memory(console: Console, found: UnifiedMemory) -> None:
    from rich.text import Text

    from turnbuckle.cli.show import clean
    from turnbuckle.units import show

    recorded = found.basis == "recording"
    head = "bracket from what is not recorded" if recorded else "modelled by equation 8"
    table = _table(console, f"time of kernels by where their data lies, {head}", "", "hbm", "ddr", "migrated", "ddr / hbm", "bound by")
    for row in found.rows:
        bound = row.bound_by[0] if row.bound_by[0] == row.bound_by[1] else f"{row.bound_by[0]}, in ddr {row.bound_by[1]}"
        name = {"all": "the run"}.get(row.name, row.name) if recorded else row.name
        cells = [*(_of(row.seconds[p], "s") for p in ("hbm", "ddr", "migrated")), _of(row.ratio, "1")]
        if console.width < _WIDE:
            # a narrow terminal: the interval below its value, rather than torn in two
            cells = [cell.replace(" [", "\n[", 1) for cell in cells]
        table.add_row(clean(name), *cells, bound)
    console.print(table)
    if found.migrated_bytes:
        volumes = ", ".join(f"{show(b, 'B')} {way.rpartition('_')[2]}" for way, b in found.migrated_bytes.items())
        console.print(Text(f"migrated: {volumes}; that column is as recorded, the other two are without migrations", "dim"))
    if found.shortest_seconds is not None and found.shortest_seconds < 0.999 * found.rows[0].seconds["hbm"].high:
        said = (
            f"if every launch took as long as the shortest of its kernel: {show(found.shortest_seconds, 's')} of kernels (a hint, no bound)"
        )
        console.print(Text(said, "dim"))
    for name, words in found.said.items():
        if words:
            console.print(Text(f"{name}: {clean(words, 160)}", "dim"), markup=False)
    _print_findings(console, (f.as_dict() for f in found.findings))


def _of(ratio: Ratio, unit: str) -> str:
    """A value with its interval; a bracket has no value."""
    from turnbuckle.units import show

    if ratio.value is None:
        return _span(ratio.low, ratio.high, unit)
    return (
        show(ratio.value, unit)
        if ratio.low == ratio.high
        else f"{show(ratio.value, unit)} {_span(ratio.low, ratio.high, unit, ratio.value)}"
    )


def _span(low: float, high: float, unit: str, value: float | None = None) -> str:
    """Both ends with their unit, said once where it is the same, and not at all where the value before them has it."""
    from turnbuckle.units import show

    ends = [show(v, unit).partition(" ") for v in (low, high)]
    units = {e[2] for e in ends}
    if len(units) > 1:
        return f"[{show(low, unit)}, {show(high, unit)}]"
    said = "" if value is not None and show(value, unit).partition(" ")[2] in units else next(iter(units))
    return f"[{ends[0][0]}, {ends[1][0]}]" + (f" {said}" if said else "")


def mdm(
    intervals: Annotated[Path, Parameter(help="CSV of a warp's intervals: instructions, cycles, read misses, writes, times")],
    /,
    *,
    warps: Annotated[float, Parameter(help="warps that share an SM")],
    miss_rate: Annotated[str, Parameter(help="share of requests that miss the L2 cache, as 40 %")],
    instructions: Annotated[float | None, Parameter(help="warp instructions of the whole kernel: gives its duration")] = None,
    sms: Annotated[float, Parameter(help="streaming multiprocessors")] = 28,
    miss_registers: Annotated[float, Parameter(help="miss status holding registers of an SM")] = 128,
    clock: Annotated[str, Parameter(help="of the SMs")] = "1.4 GHz",
    l2_cycles: Annotated[float, Parameter(help="latency of a hit in the L2 cache")] = 120,
    dram_cycles: Annotated[float, Parameter(help="latency of a miss")] = 220,
    noc: Annotated[str, Parameter(help="bandwidth of the network on the chip")] = "1050 GB/s",
    dram: Annotated[str, Parameter(help="bandwidth of the memory")] = "480 GB/s",
    kappa: Annotated[float, Parameter(help="share of a queue that a request waits for")] = 0.5,
    kappa_divergent: Annotated[float | None, Parameter(help="the same in divergent intervals; as --kappa if left out")] = None,
    profile: Annotated[Path | None, Parameter(help="recording of the kernel: its measured duration stands beside the model's")] = None,
    kernel: Annotated[str, Parameter(help="part of the kernel's name in the recording")] = "",
    format: FormatOption = "table",
    output: Output = None,
    no_cache: NoCache = False,
) -> int:
    """Model a kernel's instructions a cycle and its duration by the memory divergence model: a guess, beside what was measured."""
    from turnbuckle.cli.output import write_json, write_rows
    from turnbuckle.cli.terminal import console_for
    from turnbuckle.cost import mdm as cost
    from turnbuckle.units import parse

    console = console_for(output) if format == "table" else None
    device = cost.MdmDevice(sms, miss_registers, parse(clock, "Hz"), l2_cycles, dram_cycles, parse(noc, "B/s"), parse(dram, "B/s"))
    cost.within("warps", warps, 1, 1024)
    m = cost.within("miss rate", parse(miss_rate, "1"), 0, 1)
    for name, value in (("kappa", kappa), ("kappa divergent", kappa if kappa_divergent is None else kappa_divergent)):
        cost.within(name, value, 0, 1)
    if instructions is not None:
        cost.within("instructions", instructions, 0, 1e18, above=True)
    run = cost.read_intervals(intervals)
    stalled = cost.stalls(run.read_misses, run.writes, warps, m, device, kappa, kappa_divergent)
    ipc = cost.instructions_per_cycle(run, stalled, warps)
    found = _mdm_document(run, stalled, device, ipc)
    if instructions is not None:
        modelled = cost.modelled_duration(instructions, ipc, sms, device.clock)
        found["modelled_seconds"] = {"value": modelled.seconds, "low": modelled.low, "high": modelled.high, "log_sd": modelled.log_sd}
    found["measured"] = _measured_kernel(profile, kernel, no_cache) if profile is not None else None
    if console is not None:
        _print_mdm(console, found, device)
    elif format == "json":
        write_json(found, output)
    else:
        write_rows(found["intervals"], format, output)
    return 0


def _mdm_document(run: Intervals, stalled: Any, device: MdmDevice, ipc: float) -> dict[str, Any]:
    from dataclasses import asdict

    rows = [
        {
            "instructions": float(run.instructions[i]), "times": float(run.times[i]), "cycles": float(run.cycles[i]),
            "miss_register_cycles": float(stalled.miss_registers[i]), "network_cycles": float(stalled.network[i]),
            "memory_cycles": float(stalled.memory[i]), "divergent": bool(stalled.divergent[i]),
        }
        for i in range(len(run.instructions))
    ]  # fmt: skip
    device_said = asdict(device)
    return {"schema_version": 1, "instructions_per_cycle": ipc, "modelled_seconds": None, "intervals": rows, "device": device_said}


def _measured_kernel(profile: Path, kernel: str, no_cache: bool) -> dict[str, Any]:
    import numpy as np

    from turnbuckle.cli.recording import inspected
    from turnbuckle.errors import CannotAnswer
    from turnbuckle.profile.summary import kernel_names

    seen = inspected(profile, None, no_cache).profile
    kernels = seen.of("kernel")
    names = kernel_names(seen, kernels)
    mine = names.str.contains(kernel, literal=True).to_numpy()
    distinct = names.filter(mine).unique().to_list()
    if len(distinct) != 1:
        raise CannotAnswer(
            "A160", f"{len(distinct)} kernels of the recording have this in their name", found=kernel[:60] or "(no --kernel)",
            fix="give --kernel with a part of one name; turnbuckle inspect lists them",
        )  # fmt: skip
    seconds = kernels["seconds"].to_numpy()[mine]
    low, middle, high = np.quantile(seconds, (0.05, 0.5, 0.95))
    return {"kernel": distinct[0], "count": len(seconds), "median_seconds": float(middle), "low": float(low), "high": float(high)}


def _print_mdm(console: Console, found: dict[str, Any], device: MdmDevice) -> None:
    from rich.text import Text

    from turnbuckle.cli.show import clean
    from turnbuckle.units import show

    table = _table(console, "cycles of an interval, and what a warp waits for in it", "interval", "times", "instructions", "cycles",
                   "miss registers", "network", "memory", "divergent")  # fmt: skip
    for k, row in enumerate(found["intervals"], 1):
        stalls = (f"{row[f'{w}_cycles']:,.0f}" for w in ("miss_register", "network", "memory"))
        counts = (f"{row[w]:,.6g}" for w in ("times", "instructions", "cycles"))
        table.add_row(str(k), *counts, *stalls, "yes" if row["divergent"] else "no")
    console.print(table)
    console.print()
    console.print(f"instructions a cycle of one SM: {found['instructions_per_cycle']:.3g}")
    modelled, measured = found["modelled_seconds"], found["measured"]
    if modelled:
        ends = f"[{show(modelled['low'], 's')}, {show(modelled['high'], 's')}]"
        console.print(Text(f"modelled  {show(modelled['value'], 's')}  {ends}, 90 % of a prior with log-sd {modelled['log_sd']:g}"))
    if measured:
        count, ends = measured["count"], ""
        if count > 1:
            ends = f"  [{show(measured['low'], 's')}, {show(measured['high'], 's')}], 90 % of {count:,} launches"
        console.print(Text(f"measured  {show(measured['median_seconds'], 's')}{ends}: {clean(measured['kernel'])}"))
        console.print(Text("the measured duration is the kernel's; the modelled one is used nowhere else", "dim"))
    said = (
        f"{device.sms:g} SMs at {show(device.clock, 'Hz')}, {device.miss_registers:g} miss registers, latencies of "
        f"{device.l2_cycles:g} and {device.dram_cycles:g} cycles, "
        f"{show(device.noc_bandwidth, 'B/s', 4)} on the chip, {show(device.dram_bandwidth, 'B/s')} of memory"
    )
    same = device == type(device)()
    console.print(Text(f"device: {said}" + (" (the values of the authors' script; give your own)" if same else ""), "dim"))


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
    elif times.suffix.lower() in TABLES:
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

    from turnbuckle.cli.show import clean
    from turnbuckle.units import show

    mode = "measured" if found.times.mode == "measured" else "not measured"
    console.print(Text(f"kernel times {mode}: {clean(found.times.source)}; copies and launches modelled", "bold"))
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
    table = _table(
        console, "the product alone, and the bandwidth from which moving it pays", "N", "kernel", "host", "at best", "limit", *columns
    )
    for p in found.products:
        ends_known = p.kernel_ends is not None and p.kernel_ends[0] < p.kernel_ends[1]
        spread = f" {_span(*p.kernel_ends, 's', p.kernel_seconds)}" if ends_known and p.kernel_ends else ""
        needed = ["never" if math.isinf(v) else show(v, "B/s") for v in (float(p.needed[i]) for i in ends)]
        limit = f"{p.ratio_limit:.3f}"
        table.add_row(f"{p.size:,}", show(p.kernel_seconds, "s") + spread, show(p.host_seconds, "s"), f"{p.alpha:.3g}x", limit, *needed)
    console.print(table)
    console.print(Text("limit: share of the host's time that launch and copies may take (offload:compute)", "dim"))
    for i in ends:
        console.print()
        title = f"times as fast as the host, launch {show(float(found.launches[i]), 's')}"
        table = _table(console, title, "N", *(show(float(b), "B/s") for b in found.bandwidths))
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


def power(
    parts: Annotated[Path | None, Parameter(help="CSV of parts: part, year, rate, power, source; those that ship if left out")] = None,
    /,
    *,
    rate: Annotated[
        Literal["best", "vector"], Parameter(help="double precision of the best units there are, or of the vector units")
    ] = "best",
    since: Annotated[float, Parameter(help="first year of launch")] = 1980,
    until: Annotated[float, Parameter(help="last year of launch")] = 2100,
    doubling: Annotated[float | None, Parameter(help="years in which the rate per watt doubles, in place of the fitted trend")] = None,
    base: Annotated[str, Parameter(help="part that --doubling starts from")] = "A100-SXM4-40GB",
    year: Annotated[float, Parameter(help="of the design points")] = 2026,
    package: Annotated[str, Parameter(help="power of a part on the board, and of an APU with its CPU")] = "700 W",
    card: Annotated[str, Parameter(help="power of a part on a card")] = "350 W",
    share: Annotated[str, Parameter(help="of an APU's package for its GPU")] = "50 %",
    exponent: Annotated[float | None, Parameter(help="x of rate ~ power^x; from two boards of one chip if left out")] = None,
    format: FormatOption = "table",
    output: Output = None,
) -> int:
    """Project what GPUs of a given power compute in a later year, from the trend of the rate per watt."""
    from turnbuckle.cli.output import write_json, write_rows
    from turnbuckle.cli.terminal import console_for
    from turnbuckle.errors import UsageError, did_you_mean
    from turnbuckle.study import power as study
    from turnbuckle.units import parse

    console = console_for(output) if format == "table" else None
    names = [p.name for p in study.shipped()]
    if base not in names:
        raise UsageError(
            "A048", "no part that ships has this name", where="--base", found=base[:40], fix=did_you_mean(base, names) or names[0]
        )
    given = study.read_parts(parts) if parts is not None else study.shipped()
    split: dict[str, Any] = {"which": rate, "year": year, "package": parse(package, "W"), "card": parse(card, "W")}
    split |= {"share": parse(share, "1"), "exponent": exponent}
    within = study.chosen(given, since, until)
    paper = study.power_study(
        (), doubling_years=study.PAPER_DOUBLING, base=study.part_named(study.PAPER_BASE), **{**split, "which": "best"}
    )
    if doubling is not None:
        found = study.power_study((), doubling_years=doubling, base=study.part_named(base), **split)
    else:
        found = study.power_study(within, **split)
    if console is not None:
        _print_power(console, found, paper)
    elif format == "json":
        write_json({**found.as_dict(), "published": paper.as_dict()}, output)
    else:
        write_rows([_point_row(p) for p in found.as_dict()["design_points"]], format, output)
    return 0


def _point_row(point: dict[str, Any]) -> dict[str, Any]:
    ends = {f"flops_per_second_{end}": point["flops_per_second"][end] for end in ("low", "value", "high")}
    return {"name": point["name"], "power": point["power"], **ends}


def _print_power(console: Console, found: PowerStudy, paper: PowerStudy) -> None:
    from rich.text import Text

    from turnbuckle.cli.show import clean
    from turnbuckle.units import show

    which = "best of vector and matrix units" if found.which == "best" else "vector units"
    table = _table(console, f"peak double precision per watt, {which}", "trend", "doubles in", f"GFLOP/s/W in {found.year:g}")
    for words, one in ((found.basis, found), (f"the paper's: {paper.basis}", paper)):
        table.add_row(clean(words, 120), _estimate(one.doubling_years, 1.0, " years"), _estimate(one.efficiency, 1e-9, ""))
    console.print(table)
    console.print()
    table = _table(console, f"design points of {found.year:g} [TFLOP/s]", "", "power", "this trend", "the paper's trend", "its Table I")
    for mine, theirs in zip(found.points, paper.points, strict=True):
        printed = found.printed.get(mine.name)
        cells = [_estimate(mine.rate, 1e-12, ""), _estimate(theirs.rate, 1e-12, ""), "" if printed is None else show(printed * 1e-12, "1")]
        table.add_row(mine.name, show(mine.power, "W"), *cells)
    console.print(table)
    console.print(Text(f"less power: rate ~ power^{found.exponent:.3f}", "dim"))
    if found.trend is not None:
        words = "[ ]: 90 % for the years of a doubling, and for where one further part would lie"
        console.print(Text(words, "dim"), markup=False)
        table = _table(console, "parts of the trend", "part", "year", "rate", "power", "GFLOP/s/W", "source")
        for p in found.parts:
            each = f"{p.rate(found.which) / p.power * 1e-9:.3g}"
            table.add_row(clean(p.name), f"{p.year:g}", show(p.rate(found.which), "FLOP/s"), show(p.power, "W"), each, clean(p.source, 200))
        console.print()
        console.print(table)
    _print_findings(console, (f.as_dict() for f in found.findings))


def _estimate(of: Estimate, factor: float, unit: str) -> str:
    import math

    from turnbuckle.units import show

    def one(value: float) -> str:
        return "never" if math.isinf(value) else show(value * factor, "1")

    return one(of.value) + unit + ("" if of.low == of.high else f" [{one(of.low)}, {one(of.high)}]")


def _table(console: Console, title: str, *columns: str) -> Table:
    """A table under its title; numbers are never cut, whatever the width."""
    from rich.table import Table
    from rich.text import Text

    console.print(Text(title, "italic"))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for k, column in enumerate(columns):
        words = k == 0 or column in ("bound by", "source")
        table.add_column(column, justify="left" if words else "right", no_wrap=False, overflow="fold", min_width=6 if words else None)
    return table


def _print_findings(console: Console, found: Iterable[dict[str, Any]]) -> None:
    from rich.text import Text

    from turnbuckle.cli.show import clean

    for f in found:
        console.print()
        text = f"{f['code']}  {f['count']:,}  {f['meaning']}" + (f" ({clean(f['detail'], 160)})" if f["detail"] else "")
        console.print(Text(text, "yellow" if f["severity"] == "warning" else "dim"))
        console.print(Text(f"      {f['advice']}", "dim"))
