"""Ratios that others measured on two couplings or machines, beside what the program's calculations
give for them.

None of those programs is recorded in public.  A row is the nearest calculation, or a run made by
hand of the stated shape; of a row whose inputs nobody stated the program cannot say anything, and
the row names the one thing that would settle it.

    python validation/public_pairs.py                           # prints the table
    python validation/public_pairs.py -o docs/public-pairs.md   # renews the page, and the sums
    # of the pairs of one machine that differ in one thing: public_pairs_sums.csv
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from turnbuckle.cost.collectives import THROUGH_HOST_ERROR, Fabric, collective_seconds
from turnbuckle.cost.packet import link
from turnbuckle.foundation.arrays import Float
from turnbuckle.machine import Machine, Pair, Parameter, load
from turnbuckle.machine.catalog import hosts
from turnbuckle.machine.machine import Change
from turnbuckle.machine.parameter_names import ParameterName
from turnbuckle.profile.kernels import kind_by_name
from turnbuckle.profile.profile import build
from turnbuckle.projection.elsewhere.hosts import host_longer
from turnbuckle.projection.elsewhere.kernels import kernels_longer
from turnbuckle.projection.elsewhere.network import KERNEL_PRICE
from turnbuckle.projection.elsewhere.priors import (
    COHERENT_SHARE,
    HOST_ALLOCATED,
    LINK,
    NODE_SHARE,
    STAGED,
    ZERO_COPY,
    Draws,
    elsewhere,
    half_normal,
)
from turnbuckle.projection.run import Run
from turnbuckle.projection.uncertainty import SEED, drawn_source
from turnbuckle.questions.whatif.question import of_run
from turnbuckle.trace.trace import Trace

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "builders"))

from rows import Row, call, on_device  # noqa: E402
from strategies import NAMES, trace_of  # noqa: E402

MARK = "<!-- public pairs: made by validation/public_pairs.py -->"
SUMS = Path(__file__).with_name("public_pairs_sums.csv")
DRAWS, US, MS = 4000, 1_000, 1_000_000
#: Value and 90 % range.
Range = tuple[float, float, float]


@dataclass(frozen=True)
class Measured:
    """One measured ratio.

    Attributes
    ----------
    pair : its thread, as ``owner/name number``.
    what : what was compared.
    ratio : as measured.
    stands_for : the calculation that stands for it, or the one thing that would allow one.
    cause : what the program names as the cause, or what it lacks.
    calculated : the calculation; None where nothing stated allows one.
    own : whether the program's number comes from this very thread, so that the row judges nothing.
    one_change : whether one machine was measured twice, with one change.
    """

    pair: str
    what: str
    ratio: float
    stands_for: str
    cause: str
    calculated: Callable[[], Range] | None = None
    own: bool = False
    one_change: bool = False


def drawn(samples: Float, value: float) -> Range:
    """Return a value with the 5th and the 95th percentile of its draws."""
    low, high = np.quantile(samples, [0.05, 0.95])
    return value, float(low), float(high)


def host(target: str) -> Range:
    """Host work of a framework on another machine, from a DGX H100 with Xeon 8480C."""
    source = load("h100-sxm5").with_host(load(str(hosts()["xeon-8480c"])))
    pair, draws = Pair(source, load(target)), Draws(DRAWS, SEED)
    many = host_longer(
        pair, drawn_source(pair.target, draws), drawn_source(source, draws), draws, work="framework"
    )
    one = host_longer(pair, pair.target, source, Draws(), work="framework")
    assert many is not None and one is not None
    return drawn(many, float(one))


def product(target: str) -> Range:
    """A product of matrices in BF16 on another GPU, from an H100."""
    source, draws = load("h100-sxm5"), Draws(DRAWS, SEED)
    pair, kinds = Pair(source, load(target)), [kind_by_name("gemm_bf16")]
    many = kernels_longer(
        kinds, pair, drawn_source(source, draws), drawn_source(pair.target, draws), draws
    )
    one = kernels_longer(kinds, pair, source, pair.target, Draws())
    assert many is not None and one is not None
    return drawn(many, float(np.squeeze(one)))


def pageable() -> Range:
    """Rate of pageable over that of pinned copies on a coherent link."""
    slower = half_normal(Draws(DRAWS, SEED).normal(STAGED), COHERENT_SHARE)
    return drawn(1 / slower, float(1 / half_normal(np.zeros(()), COHERENT_SHARE)))


def zero_copy() -> Range:
    """Kernels on memory that the host allocated, in one memory."""
    longer = half_normal(Draws(DRAWS, SEED).normal(ZERO_COPY), HOST_ALLOCATED)
    return drawn(longer, float(half_normal(np.zeros(()), HOST_ALLOCATED)))


def far() -> Machine:
    """Return a layer 150 ms away, as the thread's delay was set, with 1 % for the network
    below it.
    """
    stated: dict[ParameterName, Parameter] = {
        "remoting.round_trip": Parameter(0.15, 0.01, "s", "assumption", "delay set")
    }
    layer = load("cdi-row-api")
    kept = tuple(c for c in layer.changes if c.parameter not in stated)
    return replace(
        layer, name="far", changes=(*kept, *(Change(name, set=p) for name, p in stated.items()))
    )


def behind_150_ms(trace: Trace, waits: str) -> Range:
    """Run time of a run behind that layer [s]; its queries wait too, as those of the thread did."""
    layer = far()
    manner = next(c.set for c in layer.changes if c.parameter == "remoting.wait")
    assert manner is not None
    changes = [c for c in layer.changes if c.parameter != f"remoting.{waits}"]
    machine = replace(layer, changes=(*changes, Change(f"remoting.{waits}", set=manner)))  # type: ignore[arg-type]
    p = Run.of(build(trace)).project([machine], draws=DRAWS).projections[0]
    assert p.interval is not None
    return p.seconds, p.interval.low, p.interval.high


def queries() -> Range:
    """551 queries of a capture, one behind the other; over the 82.72 s that were waited."""
    api: list[Row] = [
        call(10 * n * US, (10 * n + 1) * US, name="cudaEventQuery") for n in range(551)
    ]
    end = 551 * 10 * US
    api.append(call(end, end + US, 1))
    seconds = behind_150_ms(
        trace_of({"api": api, "kernels": [on_device(end + 2 * US, end + 3 * US, 1)]}), "query"
    )
    value, low, high = (each / 82.72 for each in seconds)
    return value, low, high


def one_graph() -> Range:
    """A step of 1 ms as one launch and one wait; over the 151 ms of the thread's step."""
    api = [call(0, 10 * US, 1), call(11 * US, MS + 20 * US, name="cudaDeviceSynchronize")]
    seconds = behind_150_ms(
        trace_of({"api": api, "kernels": [on_device(15 * US, MS + 15 * US, 1)]}), "wait"
    )
    value, low, high = (each / 0.151 for each in seconds)
    return value, low, high


def graphs() -> Range:
    """Launches of 42 us each that nothing but the host's pace holds up, with and without a graph,
    in 50 turns of 16.
    """
    turns, each, pace = 50, 16, 42_340
    api: list[Row] = []
    kernels: list[Row] = []
    for n in range(turns * each):
        api.append(call(n * pace, n * pace + 40 * US, n + 1))
        kernels.append(
            on_device(n * pace + 40 * US, n * pace + 42 * US, n + 1, name=len(NAMES) + n % each)
        )
    trace = trace_of({"api": api, "kernels": kernels})
    names = pl.Series("name", [*NAMES, *(f"kernel_{k}" for k in range(each))], dtype=pl.String)
    run = Run.of(build(replace(trace, names=names)))
    saving = next(gain for gain in of_run(run, draws=0).gains if gain.name == "graph").savings[0]
    return (
        saving.seconds / run.seconds,
        saving.most_seconds / run.seconds,
        saving.least_seconds / run.seconds,
    )


def inside_package() -> Range:
    """Rate of copies between CPU and GPU of an MI300A, over the 58 GB/s of rocm_bandwidth."""
    rate = load("mi300a").parameters["package.copy_bandwidth"]
    samples = rate.value * np.exp(rate.error * Draws(DRAWS, SEED).normal("rate")) / 58e9
    return drawn(samples, rate.value / 58e9)


def between_packages() -> Range:
    """Rate of copies between two MI300A, over the 116 GB/s of rocm_bandwidth."""
    pair = Pair(load("h100-sxm5"), load("mi300a"))
    links = pair.target.parameters["link.p2p.bandwidth"].value / 116e9
    one, many = (
        elsewhere(pair, pair.target, pair.source, each) for each in (Draws(), Draws(DRAWS, SEED))
    )
    share, shares = (
        np.ravel(np.asarray(machine.value("link.p2p.efficiency"))) for machine in (one, many)
    )
    return drawn(links * shares, links * float(share[0]))


def reduced(gradients: float, fabric: Fabric) -> float:
    """Return the time of an all-reduce between two GPUs of one node [s]."""
    return collective_seconds("allreduce", gradients, 2, fabric)


def through_host(name: str) -> Fabric:
    """Return two GPUs that reach each other through the memory of their host, each on a link of
    this name.
    """
    bandwidth = float(link(name).bandwidth(1 << 30, "write"))
    return Fabric(
        0.0, bandwidth, 1, (bandwidth,), nvlink=False, ranks_per_node=2, through_host=True
    )


def longer_step(more: float, step: float) -> Range:
    """Return how many times longer a step takes whose collectives take so much longer through the
    host's memory, none of it hidden.
    """
    factor = np.exp(THROUGH_HOST_ERROR * Draws(DRAWS, SEED).normal(KERNEL_PRICE))
    return drawn(1 + factor * more / step, 1 + more / step)


def nvlink_off() -> Range:
    """A step with its all-reduce over PCIe 3 x16, over the step of 101.9003 s / 200 with two
    NVLinks of a TITAN RTX.

    The gradients of GPT-2 are 124,439,808 numbers in FP32: the thread's command asks for no other
    precision.
    """
    gradients, wires = 4.0 * 124_439_808, 2 * 25e9
    on = reduced(gradients, Fabric(0.0, wires, 1, (wires,), nvlink=True, ranks_per_node=2))
    return longer_step(reduced(gradients, through_host("pcie3-x16")) - on, 101.9003 / 200)


def second_card() -> Range:
    """A step with the all-reduce of SDXL's gradients over PCIe 5 x16, over the step of 1.27 s on
    one H100 PCIe.

    The thread's settings train the U-Net (2.567 billion numbers) and the first text encoder (0.123
    billion) with ``full_bf16``.
    """
    return longer_step(reduced(2.0 * (2.567e9 + 0.123e9), through_host("pcie5-x16")), 1.27)


def weights_cross() -> Range:
    """130.2 GiB that cross PCIe 3 x8 once, over the 3 s in which the CPU answers instead."""
    changed = {change.parameter: change.set for change in load("pcie3-x8").changes}
    bandwidth, share = changed["link.h2d.bandwidth"], changed["link.h2d.efficiency"]
    assert bandwidth is not None and share is not None
    value, draws = 130.2 * 2**30 / (bandwidth.value * share.value) / 3.0, Draws(DRAWS, SEED)
    return drawn(
        value
        * np.exp(share.error * draws.normal("share"))
        * half_normal(draws.normal(LINK), NODE_SHARE),
        value,
    )


_OF_LINKS = (
    nvlink_off,
    second_card,
    weights_cross,
    pageable,
    zero_copy,
    inside_package,
    between_packages,
)
_OF_WORK = (host, product, queries, one_graph, graphs)
CALCULATIONS: dict[str, Callable[..., Range]] = {
    each.__name__: each for each in (*_OF_LINKS, *_OF_WORK)
}


def pairs() -> list[Measured]:
    """Return the rows of ``public_pairs.csv``; what a calculation is asked for stands behind its
    name.
    """
    with (Path(__file__).with_suffix(".csv")).open(encoding="utf-8", newline="") as file:
        return [_measured(row) for row in csv.DictReader(file)]


def _measured(row: dict[str, str]) -> Measured:
    name, *words = row["calculation"].split()[:2] or [""]
    calculated = partial(CALCULATIONS[name], *words) if name else None
    ratio = float(row["over"]) / float(row["under"])
    return Measured(
        row["thread"],
        row["what"],
        ratio,
        row["stands_for"],
        row["cause"],
        calculated,
        row["own"] == "yes",
        row["one_change"] == "yes",
    )


HEAD = (
    *("thread", "ratio", "measured", "program", "90 % range", "inside", "judges"),
    *("stands for it, or what would settle it", "cause in the program's words"),
)


def row(pair: Measured) -> tuple[str, ...]:
    """Return the cells of one row."""
    if pair.calculated is None:
        return (
            pair.pair,
            pair.what,
            f"{pair.ratio:.3f}",
            "",
            "",
            "cannot say",
            "",
            pair.stands_for,
            pair.cause,
        )
    value, low, high = pair.calculated()
    inside = "yes" if low - 5e-4 <= pair.ratio <= high + 5e-4 else "no"
    judges = "no, a source" if pair.own else "yes"
    cells = (f"{pair.ratio:.3f}", f"{value:.3f}", f"{low:.3f} to {high:.3f}", inside, judges)
    return pair.pair, pair.what, *cells, pair.stands_for, pair.cause


def table() -> str:
    """Return the table as Markdown."""
    lines = [HEAD, ("---",) * len(HEAD), *[row(pair) for pair in pairs()]]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def sums() -> dict[str, str]:
    """Return one line about the pairs of one machine with one change that judge, for the table of
    all that was held against real GPUs (`real_gpus.py`).
    """
    judged = [p for p in pairs() if p.one_change and not p.own and p.calculated is not None]
    off, nothing, held = [], [], 0
    for pair in judged:
        assert pair.calculated is not None
        value, low, high = pair.calculated()
        off.append(abs(value / pair.ratio - 1.0))
        nothing.append(abs(1.0 / pair.ratio - 1.0))
        held += low <= pair.ratio <= high
    return {
        "short": "one change on one machine",
        "what": "one machine measured twice: NVLink off, weights over PCIe, graphs for launches",
        "points": str(len(judged)),
        "off": f"{np.median(off):.4g}",
        "nothing": f"{np.median(nothing):.4g}",
        "simplest": "",
        "model": "",
        "held": f"{held} of {len(judged)}",
        "fitted": "no; by calculation, no recording",
        "command": "python validation/public_pairs.py",
    }


def page(text: str) -> str:
    """Return a page with the table of this file behind its mark."""
    return f"{text.partition(MARK)[0]}{MARK}\n\n{table()}\n"


def main() -> None:
    """Print the table, or renew a page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, help="page to renew")
    output: Path | None = parser.parse_args().output
    if output is None:
        print(table())
    else:
        output.write_text(page(output.read_text(encoding="utf-8")), encoding="utf-8")
        pl.DataFrame([sums()]).write_csv(SUMS)


if __name__ == "__main__":
    main()
