"""Slack as published: Shorts and Grant, *Examining the Viability of Row-Scale Disaggregation for Production Applications*, SC24-W.

    (1) T_noslack = T - calls s                          `seed_S`: post-processing only (decision D10)
    (2) SP_total  = 1 + sum share (SP - 1)               `total_penalty`, normalised (decision D11)
    (3) SP        = sum over bins of SP(size) count / total count

An application is compared with a proxy: its kernels are binned by duration and its copies by size, each bin takes the
penalty of the next larger matrix (lower value) or the next smaller one (upper value), and the shares of run time weigh
the two.  `binned` does this to a profile, `beside` puts the timeline replay next to it.  What the paper prints ships as
``row_slack.csv``; `recompute` says of each number whether it follows.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnbuckle.errors import CannotAnswer
from turnbuckle.findings import Finding, finding
from turnbuckle.model import nething
from turnbuckle.order import prepared
from turnbuckle.profile.profile import Profile
from turnbuckle.project import require_order
from turnbuckle.published.slack_proxy import Proxy, modelled, slack_change
from turnbuckle.published.slack_surface import Surface, modelled_surface
from turnbuckle.trace.intervals import union_ns
from turnbuckle.units import parse, show

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Equation = Literal["run time", "seed_S"]


class Printed(NamedTuple):
    """One number the paper prints: of what, which, at what (a size, a bin, a slack), the text, its unit, where it stands."""

    subject: str
    quantity: str
    at: str
    text: str
    unit: str
    source: str


@cache
def printed() -> tuple[Printed, ...]:
    """Every number of the paper that ships with Turnbuckle."""
    text = (files("turnbuckle") / "published" / "row_slack.csv").read_text(encoding="utf-8")
    return tuple(Printed(*row) for row in list(csv.reader(text.splitlines()))[1:])


def texts(subject: str, quantity: str) -> dict[str, str]:
    """The paper's numbers of one kind, as printed, by what they are at.  Raises `KeyError` for what the paper does not print."""
    found = {p.at: p.text for p in printed() if (p.subject, p.quantity) == (subject, quantity)}
    if not found:
        raise KeyError((subject, quantity))
    return found


def table_two() -> list[Proxy]:
    """The four matrix sizes of Table II as proxies.

    The paper does not print how long a copy takes; it is a third of what an iteration of the printed loop needs beyond its kernel,
    which is 12.0 to 14.8 GB/s.  Calls cost nothing by themselves, since that third holds what they cost.
    """
    sizes, kernels = texts("proxy", "matrix size"), texts("proxy", "kernel run time")
    counts, loops = texts("proxy", "serial kernels N"), texts("proxy", "compute loop run time")
    out = []
    for at in sizes:
        kernel, iterations = parse(f"{kernels[at]} us", "s"), int(counts[at])
        out.append(Proxy(parse(f"{sizes[at]} MiB", "B"), kernel, (float(loops[at]) / iterations - kernel) / 3, iterations))
    return out


def published_surface(slack_seconds: Sequence[float], threads: Sequence[int] = (1, 2, 4, 8)) -> Surface:
    """The surface of the modelled proxy at the paper's sizes and on its 40 GiB device, at some slacks [s]."""
    return modelled_surface(table_two(), threads, slack_seconds, device_bytes=parse("40 GiB", "B"))


def seed_S(seconds: Float | float, calls: float, slack_seconds: Float | float) -> Float:
    """Equation 1: run time less the slack of every call [s].

    It takes out slack that was never felt: a thread that hides it comes out below its run time without slack.

    >>> float(seed_S(2.5, 1000, 1e-3))
    1.5
    """
    return np.asarray(seconds - calls * np.asarray(slack_seconds))


def total_penalty(shares: Mapping[str, float], penalties: Mapping[str, float]) -> float:
    """Equation 2, normalised (decision D11): 1 + sum share (SP - 1), so that no penalty gives 1 whatever the shares.

    >>> total_penalty({"kernel": 0.5, "memory": 0.1}, {"kernel": 1.2, "memory": 1.0})
    1.1
    """
    return 1.0 + sum(share * (penalties[name] - 1.0) for name, share in shares.items())


def bin_counts(values: Float, edges: Float) -> Int:
    """How many values lie below the first edge, from each edge up to the next, and from the last on: shape (edges + 1,)."""
    return np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1)


def binned_penalty(counts: Int, penalties: Float) -> tuple[float, float]:
    """Equation 3 with sizes rounded up, and rounded down.

    Parameters
    ----------
    counts : elements below the first size, between sizes, and above the last; shape (sizes + 1,).
    penalties : SP of every size, shape (sizes,).

    Returns
    -------
    SP with each element taken for the next larger size, and for the next smaller one.  Elements beyond either end are
    held there, so that the second says too little of elements below the first size.  1 and 1 without elements.

    >>> binned_penalty(np.array([0, 3, 1, 0]), np.array([3.0, 2.0, 1.0]))
    (1.75, 2.75)
    """
    total = counts.sum()
    if not total:
        return 1.0, 1.0
    up, down = np.append(penalties, penalties[-1]), np.insert(penalties, 0, penalties[0])
    return float(counts @ up / total), float(counts @ down / total)


@dataclass(frozen=True)
class Bins:
    """One kind of element, binned.

    Attributes
    ----------
    share : of run time in which at least one is under way.
    edges : matrix sizes [B], or one kernel at each [s].
    counts : elements below the first edge, between edges, from the last on.
    rounded_up, rounded_down : equation 3.
    """

    share: float
    edges: Float
    counts: Int
    rounded_up: float
    rounded_down: float

    @property
    def held_below(self) -> float:
        """Share of elements smaller than the smallest on the surface: there the upper value is none."""
        return float(self.counts[0] / max(self.counts.sum(), 1))

    @property
    def held_above(self) -> float:
        """Share of elements that reach beyond the largest on the surface: there the lower value is none."""
        return float(self.counts[-1] / max(self.counts.sum(), 1))


@dataclass(frozen=True)
class Bounds:
    """The binned answer: a total slack penalty between two values.

    Attributes
    ----------
    lower, upper : equation 2 with sizes rounded up and down (in order, should the surface fall with the size).
    kernel, memory : what they are made of.
    slack_seconds, threads, equation, label : the question, and the surface asked.
    findings : elements outside the surface, for which a value is no bound.
    """

    lower: float
    upper: float
    kernel: Bins
    memory: Bins
    slack_seconds: float
    threads: int
    equation: Equation
    label: str
    findings: tuple[Finding, ...]


def binned(profile: Profile, surface: Surface, slack_seconds: float, *, threads: int = 1, equation: Equation = "run time") -> Bounds:
    """The paper's prediction for a profile.

    Parameters
    ----------
    profile : its kernels by duration, its copies between host and device by size.
    surface : measured or modelled; of the GPU the profile was recorded on, or the kernel bins mean little.
    slack_seconds : delay of each call [s].
    threads : how many streams of work the application keeps ready; 1 is pessimistic (the paper takes 8 and 4 by hand).
    equation : ``"run time"`` bins T(s)/T(0); ``"seed_S"`` takes the slack out first, as the paper does.

    Raises
    ------
    CannotAnswer : A131, slack or threads outside the surface; A132, the surface lacks kernel times or call counts; A133, the profile
        holds nothing to bin.
    """
    if not profile.has & {"kernel", "copy_h2d", "copy_d2h"}:
        raise CannotAnswer(
            "A133", "this profile holds no kernels and no copies between host and device to bin", cause="recorded without CUDA tracing",
            fix="nsys profile --trace=cuda,nvtx,mpi ...",
        )  # fmt: skip
    sizes, kernels = surface.sizes(threads), surface.kernel_seconds(threads)
    penalties = np.array([_penalty(surface, float(size), threads, slack_seconds, equation) for size in sizes])
    kernel = _bins(profile, ("kernel",), "seconds", kernels, penalties)
    memory = _bins(profile, ("copy_h2d", "copy_d2h"), "size_bytes", sizes, penalties)
    shares = {"kernel": kernel.share, "memory": memory.share}
    up = total_penalty(shares, {"kernel": kernel.rounded_up, "memory": memory.rounded_up})
    down = total_penalty(shares, {"kernel": kernel.rounded_down, "memory": memory.rounded_down})
    found = []
    for name, bins in (("kernels", kernel), ("copies", memory)):
        for end, count, edge in (("below", bins.counts[0], bins.edges[0]), ("from", bins.counts[-1], bins.edges[-1])):
            if count:
                reach = show(float(edge), "s" if name == "kernels" else "B")
                found.append(finding("A321", int(count), f"{count / bins.counts.sum():.1%} of {name} {end} {reach}"))
    return Bounds(min(up, down), max(up, down), kernel, memory, slack_seconds, threads, equation, surface.label, tuple(found))


def _penalty(surface: Surface, size_bytes: float, threads: int, slack_seconds: float, equation: Equation) -> float:
    at_rest, slowed = surface.seconds(size_bytes, threads, 0.0), surface.seconds(size_bytes, threads, slack_seconds)
    if equation == "seed_S":
        slowed = float(seed_S(slowed, surface.calls(size_bytes, threads), slack_seconds))
    return slowed / at_rest


def _bins(profile: Profile, kinds: tuple[str, ...], column: str, edges: Float, penalties: Float) -> Bins:
    rows = profile.of(*kinds)
    counts = bin_counts(rows[column].fill_null(0).cast(float).to_numpy(), edges)
    under_way = union_ns(rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy())
    return Bins(under_way / max(profile.run_time_ns, 1), edges, counts, *binned_penalty(counts, penalties))


@dataclass(frozen=True)
class Beside:
    """Both answers to one slack.

    Attributes
    ----------
    slack_seconds : delay of each call [s].
    seconds : recorded run time [s].
    causal : T(s)/T(0) of the profile through the timeline replay.
    calls : host calls that cross to the device, on all threads.
    exposed_seconds : T(s) - T(0) [s].
    binned : what the paper's method gives.
    """

    slack_seconds: float
    seconds: float
    causal: float
    calls: int
    exposed_seconds: float
    binned: Bounds

    @property
    def felt(self) -> float:
        """How many calls' slack the timeline feels; nan without slack."""
        return self.exposed_seconds / self.slack_seconds if self.slack_seconds else math.nan

    @property
    def implied(self) -> tuple[float, float]:
        """How many calls' slack the binned values stand for, lower and upper; nan without slack.

        More than `calls` cannot be: the run has no more calls to delay.
        """
        calls_of_one = self.seconds / self.slack_seconds if self.slack_seconds else math.nan
        return (self.binned.lower - 1.0) * calls_of_one, (self.binned.upper - 1.0) * calls_of_one


def beside(
    profile: Profile, slack_seconds: Sequence[float], surface: Surface | None = None, *, threads: int = 1, equation: Equation = "run time"
) -> list[Beside]:
    """The timeline's answer (every call delayed, as in the paper) and the binned one, for some slacks [s].

    Parameters
    ----------
    surface : None takes the modelled one at exactly these slacks.
    threads, equation : see `binned`.

    Raises
    ------
    CannotAnswer : A122, the recorded order cannot be trusted; or what `binned` raises.
    """
    surface = surface or published_surface(slack_seconds, (threads,))
    guesses = [binned(profile, surface, s, threads=threads, equation=equation) for s in slack_seconds]
    ready = prepared(profile, replace(nething("hold"), replay="timeline"))
    require_order(ready)
    assert ready.timeline is not None
    seconds = ready.timeline.seconds(slack_change(ready.run, np.array([0.0, *slack_seconds])))
    calls, at_rest = int(ready.run.count[ready.run.crosses].sum()), profile.seconds
    return [
        Beside(s, at_rest, 1.0 + felt / at_rest, calls, felt, guess)
        for s, felt, guess in zip(slack_seconds, (seconds[1:] - seconds[0]).tolist(), guesses, strict=True)
    ]


# --- the paper's own numbers ------------------------------------------------------------------------------------------


class Recomputed(NamedTuple):
    """One printed number, recomputed.

    Verdicts: ``reproduced`` (to the printed digits), ``reproduced*`` (under an assumption the paper does not print),
    ``off``, ``contradiction`` (the paper disagrees with itself), ``n/r`` (its inputs are not printed).
    """

    id: str
    what: str
    printed: str
    recomputed: str
    verdict: str
    note: str = ""

    @property
    def off_by(self) -> float | None:
        """Relative deviation of the recomputed number; None where either is not a plain number."""
        try:
            return float(self.recomputed) / float(self.printed) - 1.0
        except ValueError:
            return None


_NOT_PRINTED = (
    "needs SP of every size, slack and thread count (only drawn, in Fig 3; for 4 threads not drawn either), the kernel bins "
    "(left out for space) and the two shares of run time (not printed)"
)
_SPEED_IN_FIBRE = 2e8  # [m/s], refractive index 1.5


def recompute() -> list[Recomputed]:
    """Every number of the paper that ships here: printed, recomputed, verdict.  What exists only in a figure has no stand-in."""
    return [*_table_one(), *_table_two(), *_table_three(), *_table_four(), *_text()]


def _agrees(text: str, value: float) -> str:
    """``reproduced`` if `value` lies within half a unit of the last digit printed."""
    unit = 10.0 ** -len(text.partition(".")[2])
    return "reproduced" if abs(value - float(text)) <= unit / 2 * (1 + 1e-9) else "off"


def _checked(name: str, what: str, text: str, value: float, note: str = "", assumed: bool = False) -> Recomputed:
    """A printed number beside a recomputed one; `note` says why they differ, or what was `assumed`."""
    verdict = _agrees(text, value)
    said = note if assumed or verdict == "off" else ""
    return Recomputed(name, what, text, f"{value:g}", verdict + "*" * (assumed and verdict == "reproduced"), said)


def _table_one() -> Iterator[Recomputed]:
    atoms, seconds = texts("LAMMPS", "thousand atoms"), texts("LAMMPS", "run time of box")
    cells = {box: 32 * (int(box) / 20) ** 3 for box in atoms}
    for box, text in atoms.items():
        note = f"a box of {box} has {(int(box) / 20) ** 3:g} units of 32 thousand atoms"
        yield _checked(f"S.T1.{box}", "thousand atoms = 32 (box/20)^3", text, cells[box], note)
    each = {box: float(seconds[box]) / cells[box] * 1e3 for box in atoms}
    large = [each[box] for box in atoms if int(box) >= 60]
    flat = "reproduced" if max(large) / min(large) < 1.05 else "off"
    said = ", ".join(f"{box}: {us:.0f} us" for box, us in each.items())
    yield Recomputed("S.T1.peratom", "run time an atom is flat from box 60 on", "flat", said, flat, "with the atoms recomputed above")


def _table_two() -> Iterator[Recomputed]:
    sizes, kernels, counts = (texts("proxy", q) for q in ("matrix size", "kernel run time", "serial kernels N"))
    loops = texts("proxy", "compute loop run time")
    (aim,), (fewest,), (most,) = (texts("proxy", q).values() for q in ("kernel time aimed at", "fewest iterations", "most iterations"))
    for at in sizes:
        power = int(at.partition("^")[2])
        mib = 4 * 4.0**power / 2**20
        yield _checked(f"S.T2.mib{power}", f"{at} squared floats [MiB]", sizes[at], mib)
        number = min(max(math.ceil(float(aim) / (float(kernels[at]) * 1e-6)), int(fewest)), int(most))
        what = f"{at}: iterations for {aim} s of kernels, within {fewest} to {most}"
        yield _checked(f"S.T2.N{power}", what, counts[at], number)
        why = "the time of a copy is not printed; this number is what our copy time comes from"
        yield Recomputed(f"S.T2.loop{power}", f"{at}: run time of the loop [s]", loops[at], "", "n/r", why)
    rates = ", ".join(f"{p.size_bytes / p.copy_seconds * 1e-9:.1f}" for p in table_two())
    note = "if a copy is a third of what the loop needs beyond its kernels"
    yield Recomputed("S.T2.bw", "copy rate implied by loop - N kernel", "-", f"{rates} GB/s", "reproduced*", note)
    (memory,) = texts("GPU", "device memory").values()
    needed = 3 * float(sizes["2^15"]) / 1024 * 4
    verdict = "reproduced" if needed > float(memory) else "off"
    yield Recomputed("S.4B.mem", f"3 matrices of 4 GiB and 4 threads exceed {memory} GiB", "yes", f"{needed:g} GiB", verdict)


def _table_three() -> Iterator[Recomputed]:
    for app in ("LAMMPS", "CosmoFlow"):
        bins = texts(app, "copies by size [MiB]")
        counts = np.array([int(n) for n in bins.values()])
        edges = np.array([float(b.partition(" ")[2]) for b in list(bins)[:-1]])
        total = counts.sum()
        low, high = counts @ np.append(0.0, edges) / total, counts[:-1] @ edges / total
        (mean,) = texts(app, "mean copy size").values()
        inside = "reproduced" if low <= float(mean) <= high and not counts[-1] else "off"
        yield Recomputed(f"S.T3.{app}", "mean copy size lies within its bins [MiB]", mean, f"{low:.1f}..{high:.1f}", inside)


def _table_four() -> Iterator[Recomputed]:
    four = {(app, end): texts(app, f"total slack penalty, {end}") for app in ("LAMMPS", "CosmoFlow") for end in ("lower", "upper")}
    for (app, end), row in four.items():
        for slack, text in row.items():
            yield Recomputed(f"S.T4.{app}.{end}.{slack}", f"{app}: {end} penalty at {slack} us", text, "", "n/r", _NOT_PRINTED)
    (percent,) = texts("both", "penalty at 100 us is below").values()
    at_100 = [100 * (float(row["100"]) - 1) for row in four.values()]
    below = "reproduced" if max(at_100) < float(percent) else "off"
    yield Recomputed("S.T4.100", "penalty at 100 us [%]", f"<{percent}%", ", ".join(f"{p:.1f}" for p in at_100), below)
    ordered = all(float(four[app, "upper"][s]) >= float(four[app, "lower"][s]) for app, _ in four for s in four[app, "lower"])
    said = ("yes", "reproduced") if ordered else ("no", "contradiction")
    yield Recomputed("S.T4.order", "upper value not below the lower", "yes", *said)
    falls = []
    for (app, end), row in four.items():
        values = list(row.values())
        falls += [f"{app} {end} {was} to {then}" for was, then in pairwise(values) if float(then) < float(was)]
    note = "noise of about 0.5 % is in Table IV: differences below 1 % say nothing"
    recomputed = ("; ".join(falls), "contradiction", note) if falls else ("yes", "reproduced", "")
    yield Recomputed("S.T4.mono", "penalty grows with slack", "monotone", *recomputed)
    # the smallest matrix suffers most, and one thread hides nothing
    smallest, longest, worst = table_two()[0], 1e-2, four["CosmoFlow", "upper"]["10000"]
    run = modelled(smallest, served_at=longest)
    at_rest = float(run.seconds(0.0))
    ratio = float(seed_S(run.seconds(longest), run.calls, longest)) / at_rest
    left = (float(worst) - ratio) * at_rest / run.calls
    note = (
        f"one thread has SP 1 by equation 1 at every slack; what is left is {left * 1e3:.1f} ms a call of the smallest "
        "matrix: sleep overshoot, further calls, a GPU that wakes, or threads served strictly in turn"
    )
    yield _checked("S.T4.wake", "largest penalty, from equation 1 and a graph", worst, round(ratio, 6), note)
    shares, none = {"kernel": 0.5, "memory": 0.1}, {"kernel": 1.0, "memory": 1.0}
    plain = sum(shares[name] * none[name] for name in shares)
    note = f"shares of 0.5 and 0.1 give {plain:g}; 1 + sum share (SP - 1) gives {total_penalty(shares, none):g}"
    verdict = "reproduced" if plain == 1.0 else "contradiction"
    yield Recomputed("S.eq2", "equation 2 where nothing is slower", "1", "the sum of the shares", verdict, note)


def _text() -> Iterator[Recomputed]:
    def one(subject: str, quantity: str) -> str:
        (text,) = texts(subject, quantity).values()
        return text

    km = 100e-6 * _SPEED_IN_FIBRE / 1e3
    yield _checked("S.abs.km", "100 us as a length of fibre [km]", one("fibre", "length at 100 us"), km, "light at 2e8 m/s", assumed=True)
    cores, needed = int(one("node", "CPU cores")), int(one("CosmoFlow", "CPU cores needed"))
    idle = cores - int(one("node", "GPUs")) * needed
    yield _checked("S.4A.waste", "idle cores of a node with CosmoFlow", one("CosmoFlow", "idle cores of a node"), idle)
    yield _checked("S.4A.24", "GPUs one node drives", one("CosmoFlow", "GPUs one node drives"), cores / needed)
    kept = (1 - float(one("LAMMPS", "decrease in all")) / 100) / (1 - float(one("LAMMPS", "decrease from 6 threads a process")) / 100)
    chain = kept * float(texts("LAMMPS", "run time of box")["120"])
    traced = one("LAMMPS", "run time traced, 8 processes")
    verdict = "reproduced" if _agrees(traced, chain) == "reproduced" else "contradiction"
    note = "from 541.452 s, 76.4 % in all and 52.3 % of it by threads"
    yield Recomputed("S.4A.173", "box 120 on 8 processes [s]", traced, f"{chain:.0f}", verdict, note)
    cpus, gpus = int(one("LAMMPS", "CPUs left in the example")), int(one("LAMMPS", "GPUs in the example"))
    common = math.gcd(cpus, gpus)
    ratio, said = f"{cpus // common}:{gpus // common}", one("LAMMPS", "CPU-to-GPU ratio of the example")
    yield Recomputed("S.5.ratio", f"{cpus} CPUs to {gpus} GPUs", said, ratio, "reproduced" if said == ratio else "contradiction")
    figures = (
        ("S.F2.17.2", "LAMMPS", "decrease of box 60 from 8 processes", "the run times are only drawn, in Fig 2"),
        ("S.F2.55.6", "LAMMPS", "decrease of box 120 from 24 processes", "the run times are only drawn, in Fig 2"),
        ("S.F2.52.3", "LAMMPS", "decrease from 6 threads a process", "the run times are not printed"),
        ("S.F2.76.4", "LAMMPS", "decrease in all", "the run times are not printed"),
        ("S.F2.24.3", "LAMMPS", "gain of box 200 from 48 cores over 24", "the run times are not printed"),
        ("S.F3.10", "proxy", "increase of 2^13 at 10 ms", "only drawn, in Fig 3"),
        ("S.F4.49.9", "CosmoFlow", "kernel time of the five longest", "only drawn, in Fig 4"),
    )
    for name, subject, quantity, why in figures:
        yield Recomputed(name, f"{subject}: {quantity} [%]", one(subject, quantity), "", "n/r", why)
