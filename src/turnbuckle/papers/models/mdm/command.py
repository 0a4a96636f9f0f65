"""Command ``turnbuckle model mdm``: a kernel's duration by the memory divergence model, beside the
measured one.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.text import Text

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.fields import SCHEMA_VERSION
from turnbuckle.foundation.units import parse, show
from turnbuckle.show.terminal.cells import plain
from turnbuckle.show.terminal.model_answer import ModelAnswer
from turnbuckle.show.terminal.options import NO_PART, NoCache, PartOptions, Recorded
from turnbuckle.show.terminal.recording import inspected, refuse_asked
from turnbuckle.show.terminal.tables import titled

if TYPE_CHECKING:
    from rich.console import Console

    from turnbuckle.papers.models.mdm.cost import Intervals, MdmDevice


def mdm(
    intervals: Annotated[
        Path,
        Parameter(
            help="CSV of a warp's intervals: instructions, cycles, read misses, writes, times"
        ),
    ],
    /,
    *,
    warps: Annotated[float, Parameter(help="warps that share an SM")],
    miss_rate: Annotated[str, Parameter(help="share of requests that miss the L2 cache, as 40 %")],
    instructions: Annotated[
        float | None, Parameter(help="warp instructions of the whole kernel: gives its duration")
    ] = None,
    sms: Annotated[float, Parameter(help="streaming multiprocessors")] = 28,
    miss_registers: Annotated[
        float, Parameter(help="miss status holding registers of an SM")
    ] = 128,
    clock: Annotated[str, Parameter(help="of the SMs")] = "1.4 GHz",
    l2_cycles: Annotated[float, Parameter(help="latency of a hit in the L2 cache")] = 120,
    dram_cycles: Annotated[float, Parameter(help="latency of a miss")] = 220,
    noc: Annotated[str, Parameter(help="bandwidth of the network on the chip")] = "1050 GB/s",
    dram: Annotated[str, Parameter(help="bandwidth of the memory")] = "480 GB/s",
    kappa: Annotated[float, Parameter(help="share of a queue that a request waits for")] = 0.5,
    kappa_divergent: Annotated[
        float | None, Parameter(help="the same in divergent intervals; as --kappa if left out")
    ] = None,
    profile: Annotated[
        Recorded | None,
        Parameter(help="recording of the kernel: its measured duration stands beside the model's"),
    ] = None,
    kernel: Annotated[
        str | None, Parameter(help="part of the kernel's name in the recording")
    ] = None,
    no_cache: NoCache = False,
    part: PartOptions = NO_PART,
) -> ModelAnswer:
    """Model a kernel's instructions a cycle and its duration by the memory divergence model: a
    guess, beside what was measured.
    """
    from turnbuckle.papers.models.mdm import cost

    if kernel is not None and profile is None:
        raise error_of("A046.kernel")
    if profile is None:
        refuse_asked(intervals, part.given(), "intervals of a warp")
    device = cost.MdmDevice(
        sms,
        miss_registers,
        parse(clock, "Hz"),
        l2_cycles,
        dram_cycles,
        parse(noc, "B/s"),
        parse(dram, "B/s"),
    )
    cost.within("warps", warps, 1, 1024)
    m = cost.within("miss rate", parse(miss_rate, "1"), 0, 1)
    for name, value in (
        ("kappa", kappa),
        ("kappa divergent", kappa if kappa_divergent is None else kappa_divergent),
    ):
        cost.within(name, value, 0, 1)
    if instructions is not None:
        cost.within("instructions", instructions, 0, 1e18, above=True)
    run = cost.read_intervals(intervals)
    stalled = cost.stalls(run.read_misses, run.writes, warps, m, device, kappa, kappa_divergent)
    ipc = cost.instructions_per_cycle(run, stalled, warps)
    if ipc > cost.MOST_ISSUED:
        raise error_of("A160.issue", found=f"{ipc:.3g}, above {cost.MOST_ISSUED:g}")
    document = _mdm_document(run, stalled, device, ipc)
    if instructions is not None:
        modelled = cost.modelled_duration(instructions, ipc, sms, device.clock)
        document["modelled_seconds"] = {**asdict(modelled), "log_sd": cost.PRIOR_LOG_SD}
    document["measured"] = (
        _measured_kernel(profile, kernel or "", no_cache, part) if profile is not None else None
    )
    document["ratio"] = _ratio(document["measured"], document["modelled_seconds"])
    return ModelAnswer(
        document, document["intervals"], partial(_print_mdm, document=document, device=device)
    )


def _mdm_document(run: Intervals, stalled: Any, device: MdmDevice, ipc: float) -> dict[str, Any]:
    columns = {"instructions": run.instructions, "times": run.times, "cycles": run.cycles}
    waits = {
        "miss_register_cycles": stalled.miss_registers,
        "network_cycles": stalled.network,
        "memory_cycles": stalled.memory,
    }
    lists: dict[str, list[Any]] = {
        name: [float(v) for v in values] for name, values in {**columns, **waits}.items()
    }
    lists["divergent"] = [bool(v) for v in stalled.divergent]
    rows = [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]
    device_values = asdict(device)
    return {
        "schema_version": SCHEMA_VERSION,
        "instructions_per_cycle": ipc,
        "modelled_seconds": None,
        "intervals": rows,
        "device": device_values,
    }


def _measured_kernel(
    profile: Recorded, kernel: str, no_cache: bool, part: PartOptions
) -> dict[str, Any]:
    import numpy as np

    from turnbuckle.profile.summary.summary import kernel_names

    recorded = inspected(profile, None, no_cache, part).profile
    kernels = recorded.of("kernel")
    names = kernel_names(recorded, kernels)
    matches = names.str.contains(kernel, literal=True).to_numpy()
    distinct = names.filter(matches).unique().to_list()
    if len(distinct) != 1:
        raise error_of("A160.several", found=kernel[:60] or "(no --kernel)", count=len(distinct))
    seconds = kernels["seconds"].to_numpy()[matches]
    low, middle, high = np.quantile(seconds, (0.05, 0.5, 0.95))
    mean = {
        "mean_seconds": float(seconds.mean()),
        "median_seconds": float(middle),
        "low": float(low),
        "high": float(high),
    }
    return {"kernel": distinct[0], "count": len(seconds), **mean}


def _ratio(
    measured: dict[str, Any] | None, modelled: dict[str, Any] | None
) -> dict[str, float] | None:
    """Return how many times faster than the mean recorded launch the modelled kernel is, as
    `turnbuckle project --kernels` takes it.
    """
    if measured is None or modelled is None:
        return None
    return {
        end: measured["mean_seconds"] / modelled[of]
        for end, of in (("value", "value"), ("low", "high"), ("high", "low"))
    }


def _print_mdm(console: Console, document: dict[str, Any], device: MdmDevice) -> None:
    heads = (
        "interval",
        "times",
        "instructions",
        "cycles",
        "miss registers",
        "network",
        "memory",
        "divergent",
    )
    table = titled(console, "cycles of an interval, and what a warp waits for in it", *heads)
    for k, row in enumerate(document["intervals"], 1):
        stalls = (f"{row[f'{w}_cycles']:,.0f}" for w in ("miss_register", "network", "memory"))
        counts = (f"{row[w]:,.6g}" for w in ("times", "instructions", "cycles"))
        table.add_row(str(k), *counts, *stalls, "yes" if row["divergent"] else "no")
    console.print(table)
    console.print()
    console.print(f"instructions a cycle of one SM: {document['instructions_per_cycle']:.3g}")
    modelled, measured = document["modelled_seconds"], document["measured"]
    if modelled:
        ends = f"[{show(modelled['low'], 's')}, {show(modelled['high'], 's')}]"
        console.print(
            Text(
                f"modelled  {show(modelled['value'], 's')}  {ends}, 90 % of a prior with "
                f"log-sd {modelled['log_sd']:g}"
            )
        )
    if measured:
        count, ends = measured["count"], ""
        if count > 1:
            ends = (
                f"  [{show(measured['low'], 's')}, {show(measured['high'], 's')}], 90 % of "
                f"{count:,} launches"
            )
        console.print(
            Text(
                f"measured  {show(measured['median_seconds'], 's')}{ends}: "
                f"{plain(measured['kernel'])}"
            )
        )
        if ratio := document["ratio"]:
            console.print(
                f"that is   {ratio['value']:.3g} times as fast as the mean launch  "
                f"[{ratio['low']:.3g}, {ratio['high']:.3g}]"
            )
        console.print(
            Text(
                (
                    "a projection takes the modelled one only if you give it this answer (JSON): "
                    "project --kernels"
                ),
                "dim",
            )
        )
    description = (
        f"{device.sms:g} SMs at {show(device.clock, 'Hz')}, {device.miss_registers:g} miss "
        "registers, latencies of "
        f"{device.l2_cycles:g} and {device.dram_cycles:g} cycles, "
        f"{show(device.noc_bandwidth, 'B/s', 4)} on the chip, "
        f"{show(device.dram_bandwidth, 'B/s')} of memory"
    )
    same = device == type(device)()
    console.print(
        Text(
            f"device: {description}"
            + (" (the values of the authors' script; give your own)" if same else ""),
            "dim",
        )
    )
