"""Numbers of the slack study (Shorts and Grant, SC24-W), recomputed.

Numbers that need a figure are left out: the twenty values of Table IV need a response surface that
is only drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from turnbuckle.cost.pcie import Pcie
from turnbuckle.machine.hops import fibre_metres
from turnbuckle.papers.numbers import Recomputed, judged, not_printed, printed, stated
from turnbuckle.papers.row_slack.binned_slack import PAPER, seed_S, table_two, total_penalty
from turnbuckle.papers.row_slack.proxy import modelled

_LINK = (4, 16)  # PCIe generation and lanes of an A100 (data sheet); the paper names the GPU only


def recompute() -> list[Recomputed]:
    """Return every number of the paper: printed, recomputed, verdict."""
    return [*_table_one(), *_table_two(), *_table_three(), *_table_four(), *_text()]


def _table_one() -> Iterator[Recomputed]:
    atoms, seconds = (
        PAPER.texts("LAMMPS", "thousand atoms"),
        PAPER.texts("LAMMPS", "run time of box"),
    )
    smallest, largest = min(atoms, key=int), max(atoms, key=int)
    cells = {box: float(atoms[smallest]) * (int(box) / int(smallest)) ** 3 for box in atoms}
    for box, text in atoms.items():
        # the smallest box is the base of the others, so it is compared with the largest
        base = largest if box == smallest else smallest
        recomputed, times = (
            float(atoms[base]) * int(box) ** 3 / int(base) ** 3,
            (int(box) / int(base)) ** 3,
        )
        note = (
            f"{times:g} boxes of {base} cubed"
            if times >= 1
            else f"one of {1 / times:.4g} parts of the box of {base}"
        )
        if box == smallest:
            note = (
                f"the base of the other boxes, compared with itself by way of the largest: {note}"
            )
        yield judged(f"S.T1.{box}", text, recomputed, note=note)
    microseconds = {box: float(seconds[box]) / cells[box] * 1e3 for box in atoms}
    large = [microseconds[box] for box in atoms if int(box) >= 60]
    per_atom = ", ".join(f"{box}: {us:.0f} us" for box, us in microseconds.items())
    as_printed = float(seconds["60"]) / float(atoms["60"]) * 1e3
    note = (
        f"with the recomputed atoms; {as_printed:.0f} us an atom for box 60 as printed, which "
        "confirms a misprint"
    )
    yield stated("S.T1.peratom", "flat", per_atom, max(large) / min(large) < 1.05, note=note)


def _table_two() -> Iterator[Recomputed]:
    sizes, kernels, counts = (
        PAPER.texts("proxy", q) for q in ("matrix size", "kernel run time", "serial kernels N")
    )
    aim, fewest, most = (
        PAPER.text("proxy", q)
        for q in ("kernel time aimed at", "fewest iterations", "most iterations")
    )
    for order in sizes:
        power = int(order.partition("^")[2])
        yield judged(f"S.T2.mib{power}", sizes[order], 4 * 4**power / 2**20)
        # as many as take the time aimed at, within the ends of section III-C
        number = min(
            max(math.ceil(float(aim) / (float(kernels[order]) * 1e-6)), int(fewest)), int(most)
        )
        yield judged(f"S.T2.N{power}", counts[order], float(number))
    implied, link = [p.size_bytes / p.copy_seconds for p in table_two()], Pcie(*_LINK).raw_bandwidth
    note = (
        "if a copy is a third of what the loop needs beyond its kernels: above none, and below "
        f"the {link * 1e-9:.1f} GB/s of the link"
    )
    rates, holds = (
        ", ".join(f"{rate * 1e-9:.1f}" for rate in implied),
        all(0 < rate < link for rate in implied),
    )
    yield stated("S.T2.bw", "-", f"{rates} GB/s", holds, note=note)
    memory, needed = PAPER.text("GPU", "device memory"), 3 * float(sizes["2^15"]) / 1024 * 4
    yield stated("S.4B.mem", "yes", f"{needed:g} GiB", needed > float(memory))


def _table_three() -> Iterator[Recomputed]:
    for app in ("LAMMPS", "CosmoFlow"):
        bins = PAPER.texts(app, "copies by size [MiB]")
        counts = np.array([int(n) for n in bins.values()])
        edges = np.array([float(b.partition(" ")[2]) for b in list(bins)[:-1]])
        total = counts.sum()
        low, high = counts @ np.append(0.0, edges) / total, counts[:-1] @ edges / total
        mean = PAPER.text(app, "mean copy size")
        inside = low <= float(mean) <= high and not counts[-1]
        yield stated(f"S.T3.{app}", mean, f"{low:.1f}..{high:.1f}", bool(inside))


def _table_four() -> Iterator[Recomputed]:
    four = {
        (app, end): PAPER.texts(app, f"total slack penalty, {end}")
        for app in ("LAMMPS", "CosmoFlow")
        for end in ("lower", "upper")
    }
    missing = (
        "needs SP of every size, slack and thread count (only drawn, in Fig 3; for 4 threads not "
        "drawn either), the kernel bins "
        "(left out for space) and the two shares of run time (not printed)"
    )
    yield not_printed("S.T4", "-", missing)
    percent = PAPER.text("both", "penalty at 100 us is below")
    at_100 = [100 * (float(row["100"]) - 1) for row in four.values()]
    penalties = ", ".join(f"{p:.1f} %" for p in at_100)
    yield stated("S.T4.100", f"<{percent}%", penalties, max(at_100) < float(percent))
    ordered = all(
        float(four[app, "upper"][s]) >= float(four[app, "lower"][s])
        for app, _ in four
        for s in four[app, "lower"]
    )
    yield stated("S.T4.order", "yes", "yes" if ordered else "no", ordered)
    falls = [
        f"{app} {end} {was} to {then}"
        for (app, end), row in four.items()
        for was, then in pairwise(row.values())
        if float(then) < float(was)
    ]
    yield stated("S.T4.mono", "monotone", "; ".join(falls) or "monotone", not falls)
    # the smallest matrix has the largest penalty, and one thread hides nothing
    smallest, longest, worst = table_two()[0], 1e-2, four["CosmoFlow", "upper"]["10000"]
    run = modelled(smallest, served_at=longest)
    at_rest = float(run.seconds(0.0))
    ratio = float(seed_S(run.seconds(longest), run.calls, longest)) / at_rest
    left = (float(worst) - ratio) * at_rest / run.calls
    note = (
        "equation 1 takes the slack out again, so that one thread has SP 1 at every slack; "
        f"{left * 1e3:.1f} ms a call of the smallest "
        "matrix remain: sleep overshoot, further calls, a GPU that wakes, or threads served "
        "strictly in turn"
    )
    holds = abs(ratio - float(worst)) < 0.0005
    yield stated("S.T4.wake", worst, f"{ratio:.6g}", holds, note=note)
    shares, none = {"kernel": 0.5, "memory": 0.1}, {"kernel": 1.0, "memory": 1.0}
    plain = sum(shares[name] * none[name] for name in shares)
    yield stated(
        "S.eq2",
        "1",
        "the sum of the shares",
        plain == 1.0,
        note=(
            f"shares of 0.5 and 0.1 give {plain:g}; 1 + sum share (SP - 1) gives "
            f"{total_penalty(shares, none):g}"
        ),
    )


def _text() -> Iterator[Recomputed]:
    km = fibre_metres(100e-6) / 1e3
    yield judged("S.abs.km", PAPER.text("fibre", "length at 100 us"), km)
    cores, needed = (
        int(PAPER.text("node", "CPU cores")),
        int(PAPER.text("CosmoFlow", "CPU cores needed")),
    )
    idle = cores - int(PAPER.text("node", "GPUs")) * needed
    yield judged("S.4A.waste", PAPER.text("CosmoFlow", "idle cores of a node"), float(idle))
    yield judged("S.4A.24", PAPER.text("CosmoFlow", "GPUs one node drives"), cores / needed)
    in_all, by_threads = (
        float(PAPER.text("LAMMPS", q)) / 100
        for q in ("decrease in all", "decrease from 6 threads a process")
    )
    kept = (1 - in_all) / (1 - by_threads)
    chain = kept * float(PAPER.text("LAMMPS", "run time of box", "120"))
    traced = PAPER.text("LAMMPS", "run time traced, 8 processes")
    near = printed(traced)
    yield stated("S.4A.173", f"{traced} s", f"{chain:.0f} s", near.low <= chain <= near.high)
    cpus, gpus = (
        int(PAPER.text("LAMMPS", "CPUs left in the example")),
        int(PAPER.text("LAMMPS", "GPUs in the example")),
    )
    common = math.gcd(cpus, gpus)
    ratio, text = (
        f"{cpus // common}:{gpus // common}",
        PAPER.text("LAMMPS", "CPU-to-GPU ratio of the example"),
    )
    yield stated("S.5.ratio", text, ratio, text == ratio)
    yield not_printed("S.F2", "-", "the run times are only drawn, in Fig 2")
