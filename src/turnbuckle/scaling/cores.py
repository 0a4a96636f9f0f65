"""How many CPU cores a GPU needs: laws fitted to runs, one chosen, and the cores at which it reaches an efficiency.

Efficiency is the shortest run time that the law allows at any number of cores, over the run time at so many.  The answer is
always three things: cores as a real number with its interval, the next whole number that can be run, and the efficiency there
(decision D3).

The interval holds 90 % of the draws of the chosen law, and of every other law whose Akaike weight, exp(-AICc / 2) over the sum
of the same, is 5 % or more: which law holds is a doubt of its own.  Laws within 2 of the lowest AICc fit as well.  An answer
beyond the counts that were measured is a finding (A337); one beyond twice the most is refused unless asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from turnbuckle.errors import CannotAnswer, UsageError
from turnbuckle.findings import Finding, finding
from turnbuckle.scaling import laws
from turnbuckle.scaling.fits import LAWS, Axes, Fit, Law, Name, axes, fit, redrawn
from turnbuckle.scaling.oversubscription import WORTH, Curve, curves
from turnbuckle.scaling.runs import Runs

Float = NDArray[np.float64]
Choice = Literal["auto", "hybrid", "exponential", "usl"]

EFFICIENCY: Final = 0.9
DRAWS, SEED, LEVEL = 1000, 20261121, 0.90
#: Laws whose criterion differs by less fit as well; laws with a smaller weight are excluded (Burnham and Anderson 2002).
TIE, EXCLUDED = 2.0, 0.05
#: Answers beyond this multiple of the most cores measured are refused.
FARTHEST: Final = 2.0
#: Run time that rises, and MPI time that differs, by more than these shares are said.
RISES, DIFFERS = 0.02, 0.10
_MOST_ROWS: Final = 16
#: Draws times runs of one program.
_AFFORDABLE: Final = 20_000_000
#: Whole numbers of cores looked at beyond the answer, at most.
_WINDOW: Final = 512
_EVEN = 1e-9


@dataclass(frozen=True)
class Candidate:
    """One law, as fitted.

    Attributes
    ----------
    fit : its parameters, criterion and residuals; `fit.missing` says why there are none.
    above : how much its criterion lies above the best; None where it was not fitted.
    cores : cores per GPU for the efficiency; infinite where no number is enough, nan where it was not fitted.
    low, high : 90 % interval.
    limit_seconds : shortest run time at any number of cores.
    """

    fit: Fit
    above: float | None = None
    cores: float = math.nan
    low: float = math.nan
    high: float = math.nan
    limit_seconds: float = math.nan

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        named = zip(self.fit.law.parameters, self.fit.values[0].tolist(), strict=True)
        fitted = not self.fit.missing
        return {
            "law": self.fit.law.name,
            "fitted": fitted,
            "missing": self.fit.missing or None,
            "parameters": {name: value for (name, _), value in named} if fitted else None,
            "aicc": self.fit.aicc,
            "aicc_above_best": self.above,
            "rms_fraction": self.fit.rms,
            "cores_per_gpu": self.cores,
            "interval": [self.low, self.high],
            "limit_seconds": self.limit_seconds,
        }


@dataclass(frozen=True)
class Count:
    """A number of cores that can be run.

    Attributes
    ----------
    cores : per GPU.
    ranks, threads : how it is split, where the law tells splits apart.
    seconds : run time by the law.
    efficiency : by the law.
    reaches : share of the draws in which it reaches the efficiency asked for.
    measured_seconds : mean of the runs with so many cores, split like this; None where there is none.
    """

    cores: float
    ranks: float | None
    threads: float | None
    seconds: float
    efficiency: float
    reaches: float
    measured_seconds: float | None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "cores_per_gpu": self.cores,
            "ranks_per_gpu": self.ranks,
            "threads": self.threads,
            "seconds": self.seconds,
            "efficiency": self.efficiency,
            "probability": self.reaches,
            "measured_seconds": self.measured_seconds,
        }


@dataclass(frozen=True)
class Cores:
    """The answer for one program.

    Attributes
    ----------
    runs : what it rests on.
    efficiency : asked for.
    candidates : all laws, best first, then those not fitted.
    chosen : the law behind the answer; None where only `shared` could be answered.
    why : why that law, in words.
    ties : other laws that the runs do not exclude.
    low, high : 90 % interval of the cores, laws that cannot be told apart included.
    counts : numbers of cores that can be run: those measured, and those around the answer.
    whole : the smallest of all that can be run that reaches the efficiency; None where none does.
    shared : oversubscription, one curve for each number of threads.
    findings : what limits the answer.
    """

    runs: Runs
    efficiency: float
    candidates: tuple[Candidate, ...]
    chosen: Candidate | None
    why: str
    ties: tuple[Candidate, ...]
    low: float
    high: float
    counts: tuple[Count, ...]
    whole: Count | None
    shared: tuple[Curve, ...]
    findings: tuple[Finding, ...]

    @property
    def cores(self) -> float:
        """Cores per GPU for the efficiency, a real number; nan without a law."""
        return math.nan if self.chosen is None else self.chosen.cores

    @property
    def below(self) -> Count | None:
        """The most efficient of the numbers smaller than `whole`."""
        whole = self.whole
        return None if whole is None else max((c for c in self.counts if c.cores < whole.cores), key=lambda c: c.efficiency, default=None)

    def sentence(self) -> str:
        """The answer in one sentence."""
        return _sentence(self)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "program": self.runs.program or None,
            "runs": len(self.runs),
            "configurations": self.runs.shapes,
            "measured_cores_per_gpu": [float(self.runs.cores.min()), float(self.runs.cores.max())],
            "efficiency": self.efficiency,
            "law": None if self.chosen is None else self.chosen.fit.law.name,
            "why": self.why,
            "not_excluded": [c.fit.law.name for c in self.ties],
            "cores_per_gpu": self.cores,
            "interval": [self.low, self.high],
            "whole": None if self.whole is None else self.whole.as_dict(),
            "limit_seconds": None if self.chosen is None else self.chosen.limit_seconds,
            "laws": [c.as_dict() for c in self.candidates],
            "counts": [c.as_dict() for c in self.counts],
            "oversubscription": [c.as_dict() for c in self.shared],
            "findings": [f.as_dict() for f in self.findings],
        }


def cores_per_gpu(
    runs: Runs,
    *,
    efficiency: float = EFFICIENCY,
    law: Choice = "auto",
    worth: float = WORTH,
    extrapolate: bool = False,
    draws: int = DRAWS,
    seed: int = SEED,
) -> Cores:
    """Cores per GPU that one program needs.

    Parameters
    ----------
    efficiency : 0.5 to 0.999, of the shortest run time that the law allows.
    law : one law, or the one with the lowest AICc.
    worth : gain from which one more rank on a GPU pays.
    extrapolate : answer even beyond twice the most cores measured.
    draws, seed : for the interval.

    Raises
    ------
    UsageError : A031 for an efficiency, gain or number of draws out of range.
    CannotAnswer : A150 for too few runs, A151 for an answer too far beyond what was measured.
    """
    _in_range(efficiency, worth, draws)
    if draws * len(runs) > _AFFORDABLE:
        fewer = f"--draws {max(100, _AFFORDABLE // len(runs))}"
        raise UsageError("A031", "too many draws for so many runs", found=f"{draws:,} draws of {len(runs):,} runs", fix=fewer)
    varies, t_mpi = axes(runs), runs.mpi_seconds.mean(keepdims=True)
    fits = [fit(found, runs) for found in LAWS.values()]
    shared = tuple(curves(runs, worth))
    usable = [f for f in fits if f.aicc is not None and law in ("auto", f.law.name)]
    if not usable:
        if law == "auto" and shared:
            why = f"no law: {_lacking(fits)}"
            return Cores(runs, efficiency, tuple(Candidate(f) for f in fits), None, why, (), math.nan, math.nan, (), None, shared, ())
        raise _too_few(runs, [f for f in fits if law in ("auto", f.law.name)])
    lowest = min(f.aicc for f in fits if f.aicc is not None)
    drawn: dict[Name, tuple[Float, Float]] = {}
    candidates = []
    for f in sorted(fits, key=lambda f: math.inf if f.aicc is None else f.aicc):
        if f.aicc is None:
            candidates.append(Candidate(f))
            continue
        drawn[f.law.name] = redrawn(f, runs, draws, seed)
        values, mpi = drawn[f.law.name]
        low, high = np.quantile(f.law.cores(values, mpi, efficiency, varies), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="nearest")
        at = float(f.law.cores(f.values, t_mpi, efficiency, varies)[0])
        limit = float(f.law.limit(f.values, t_mpi)[0])
        candidates.append(Candidate(f, f.aicc - lowest, at, float(min(low, at)), float(max(high, at)), limit))
    chosen = next(c for c in candidates if any(c.fit is f for f in usable))
    most = float(runs.cores.max())
    if chosen.cores > FARTHEST * most and not (extrapolate and math.isfinite(chosen.cores)):
        raise _too_far(chosen, most, efficiency, extrapolate)
    ties = _not_excluded(candidates, chosen) if law == "auto" else []
    low, high = min(c.low for c in (chosen, *ties)), max(c.high for c in (chosen, *ties))
    counts, whole = _counts(runs, chosen, varies, efficiency, drawn[chosen.fit.law.name])
    return Cores(
        runs, efficiency, tuple(candidates), chosen, _why(chosen, candidates, ties, law), tuple(ties), low, high, counts, whole, shared,
        tuple(_findings(runs, chosen, whole, ties, low, high)),
    )  # fmt: skip


def _in_range(efficiency: float, worth: float, draws: int) -> None:
    for what, value, least, most, example in (
        ("--efficiency", efficiency, 0.5, 0.999, "--efficiency 0.9"), ("--worth", worth, 0.0, 1.0, "--worth 0.05"),
        ("--draws", draws, 100, 100_000, "--draws 1000"),
    ):  # fmt: skip
        if not least <= value <= most:
            raise UsageError("A031", f"{what} is out of range", found=f"{value:g}", fix=f"{least:g} to {most:g}, as {example}")


def _lacking(fits: list[Fit]) -> str:
    return "; ".join(f"{f.law.name} needs {f.missing}" for f in fits)


def _too_few(runs: Runs, fits: list[Fit]) -> CannotAnswer:
    what = "too few runs for any law" if len(fits) > 1 else f"too few runs for the {fits[0].law.name} law"
    fix = "measure more core counts, or repeat each two or three times"
    found = f"{len(runs)} run{'' if len(runs) == 1 else 's'} of {runs.shapes} core count{'' if runs.shapes == 1 else 's'}; {_lacking(fits)}"
    return CannotAnswer("A150", what, where=runs.program[:60], found=found, fix=fix)


def _too_far(chosen: Candidate, most: float, efficiency: float, extrapolate: bool) -> CannotAnswer:
    name = chosen.fit.law.name
    if math.isfinite(chosen.cores):
        found = f"{chosen.cores:.3g} cores per GPU by the {name} law; at most {most:g} were measured"
        fix = f"measure with up to {math.ceil(chosen.cores)} cores, or add --extrapolate"
    else:
        found = f"by the {name} law the run time has no floor yet at {most:g} cores"
        fix = "measure with more cores" + ("" if extrapolate else "; --extrapolate does not help here")
    return CannotAnswer(
        "A151", f"the cores for {efficiency:.4g} lie more than {FARTHEST:g} times beyond those measured", found=found,
        cause="a law says little so far outside its runs", fix=fix,
    )  # fmt: skip


def _not_excluded(candidates: list[Candidate], chosen: Candidate) -> list[Candidate]:
    weights = [(c, math.exp(-c.above / 2)) for c in candidates if c.above is not None]
    total = sum(weight for _, weight in weights)
    return [c for c, weight in weights if c is not chosen and weight >= EXCLUDED * total]


def _fits(c: Candidate) -> str:
    return "fits as well" if c.above is not None and c.above < TIE else "is not excluded"


def _why(chosen: Candidate, candidates: list[Candidate], ties: list[Candidate], law: Choice) -> str:
    if law != "auto":
        better = [c for c in candidates if c.above is not None and chosen.above is not None and c.above < chosen.above]
        asked = f"{chosen.fit.law.name} law, as asked for"
        return asked + "".join(f"; AICc of {c.fit.law.name} is {_apart(chosen, c)} lower" for c in better)
    others = [c for c in candidates if c is not chosen and c.above is not None]
    if not others:
        return f"{chosen.fit.law.name}: the only law that these runs can carry"
    lowest = f"{chosen.fit.law.name} has the lowest AICc; " + ", ".join(f"{c.fit.law.name} is {_apart(c, chosen)} higher" for c in others)
    if ties:
        said = " and ".join(f"{c.fit.law.name} {_fits(c)} ({_number(c.cores)} cores)" for c in ties)
        lowest += f": {said}, so the interval includes {'it' if len(ties) == 1 else 'them'}"
    return lowest


def _apart(one: Candidate, other: Candidate) -> str:
    return f"{abs((one.above or 0.0) - (other.above or 0.0)):.1f}"


def _number(cores: float) -> str:
    return f"{cores:.3g}" if math.isfinite(cores) else "no number of"


def _law_seconds(law: Law, values: Float, t_mpi: Float, ranks: float, threads: float) -> Float:
    return np.asarray(t_mpi + law.seconds(values, np.asarray(ranks), np.asarray(threads)).reshape(-1))


def _counts(
    runs: Runs, chosen: Candidate, varies: Axes, efficiency: float, drawn: tuple[Float, Float]
) -> tuple[tuple[Count, ...], Count | None]:
    """Numbers of cores that can be run: measured ones and those around the answer; and the smallest that is enough."""
    law, values, t_mpi = chosen.fit.law, chosen.fit.values, runs.mpi_seconds.mean(keepdims=True)

    def count(ranks: float, threads: float) -> Count:
        seconds = float(_law_seconds(law, values, t_mpi, ranks, threads)[0])
        share = law.limit(drawn[0], drawn[1]) / _law_seconds(law, drawn[0], drawn[1], ranks, threads)
        told = law.name == "hybrid" or not varies.both
        same = (runs.ranks == ranks) & (runs.threads == threads) if told else np.isclose(runs.cores, ranks * threads)
        measured = float(runs.seconds[same].mean()) if same.any() else None
        n, m = (ranks, threads) if runs.split and told else (None, None)
        reaches = float((share >= efficiency - _EVEN).mean())
        return Count(ranks * threads, n, m, seconds, chosen.limit_seconds / seconds, reaches, measured)

    known = {n: count(*split) for n, split in _runnable(runs, chosen, varies).items()}
    whole = next((c for n, c in sorted(known.items()) if c.efficiency >= efficiency - _EVEN), None)
    # what was measured, with its fastest split, then the answer and what lies on both sides of it
    shown = {}
    for n in np.unique(runs.cores).tolist():
        best = min(np.flatnonzero(runs.cores == n).tolist(), key=lambda i: float(runs.mean_of_repeats(runs.seconds)[i]))
        shown[n] = count(float(runs.ranks[best]), float(runs.threads[best]))
    if len(shown) > _MOST_ROWS:
        keys = sorted(shown)
        shown = {keys[round(i)]: shown[keys[round(i)]] for i in np.linspace(0, len(keys) - 1, _MOST_ROWS)}
    if whole is not None:
        below = max((c for c in known.values() if c.cores < whole.cores), key=lambda c: c.efficiency, default=whole)
        above = next((c for n, c in sorted(known.items()) if n > whole.cores and c.efficiency > whole.efficiency), whole)
        shown |= {c.cores: c for c in (below, whole, above)}
    return tuple(shown[n] for n in sorted(shown)), whole


def _runnable(runs: Runs, chosen: Candidate, varies: Axes) -> dict[float, tuple[float, float]]:
    """Cores that can be run -> ranks and threads: whole numbers of what varies, up to twice what was measured and around the answer."""
    most, at = float(runs.cores.max()), chosen.cores
    unit = 1.0 if varies.both else varies.least
    steps = set(range(1, min(math.ceil(FARTHEST * most / unit), _WINDOW) + 1))
    steps |= set(range(max(1, math.floor(at / unit) - 2), math.floor(at / unit) + 2 + min(math.ceil(at / unit), _WINDOW)))
    if not varies.both:
        held_ranks = varies.ranks[0] == varies.ranks[1]
        fixed = varies.ranks[0] if held_ranks else varies.threads[0]
        return {fixed * n: (fixed, float(n)) if held_ranks else (float(n), fixed) for n in sorted(steps)}
    if chosen.fit.law.name != "hybrid":
        return {float(n): (1.0, float(n)) for n in sorted(steps)}
    _, c_mpi, c_omp, c_hyb = chosen.fit.values[0].tolist()
    beyond = max(FARTHEST, at / most + 1.0)
    ranks, threads = ((1, math.ceil(beyond * float(v.max()))) for v in (runs.ranks, runs.threads))
    splits = {float(n): laws.split_cores(n, c_mpi, c_omp, c_hyb, ranks, threads) for n in sorted(steps)}
    return {n: (float(s[0]), float(s[1])) for n, s in splits.items() if s is not None}


def _findings(runs: Runs, chosen: Candidate, whole: Count | None, ties: list[Candidate], low: float, high: float) -> list[Finding]:
    out = []
    least, most = float(runs.cores.min()), float(runs.cores.max())
    if chosen.cores > most or high > most or chosen.cores < least:
        said = f"{least:g} to {most:g} cores per GPU measured, answer {chosen.cores:.3g} ({low:.3g} to {_number(high)})"
        out.append(finding("A337", 1, said))
    elif whole is not None and whole.ranks is not None and whole.threads is not None:
        ranks, threads = float(runs.ranks.max()), float(runs.threads.max())
        if whole.ranks > ranks or whole.threads > threads:
            said = f"answer with {whole.ranks:g} x {whole.threads:g} ranks and threads, at most {ranks:g} and {threads:g} measured"
            out.append(finding("A337", 1, said))
    if ties:
        out.append(finding("A338", len(ties), ", ".join(f"{c.fit.law.name}: {_number(c.cores)} cores" for c in ties)))
    if rising := _rising(runs):
        out.append(finding("A339", len(rising), "; ".join(rising[:3])))
    mpi, total = runs.mean_of_repeats(runs.mpi_seconds), float(runs.seconds.mean())
    spread = float(mpi.max() - mpi.min())
    if spread > DIFFERS * float(mpi.mean()) and spread > 0.01 * total:
        out.append(finding("A340", runs.shapes, f"{mpi.min():.3g} s to {mpi.max():.3g} s; the mean is taken"))
    return out


def _rising(runs: Runs) -> list[str]:
    """Where the part that is not MPI takes longer with more of one count, the other being the same."""
    out = []
    seconds = runs.mean_of_repeats(runs.seconds - runs.mpi_seconds)
    axes_of = (("ranks", runs.ranks, runs.threads), ("threads" if runs.split else "cores", runs.threads, runs.ranks))
    for word, along, fixed in axes_of:
        for value in np.unique(fixed):
            some = fixed == value
            order = np.argsort(along[some], kind="stable")
            times, counts = seconds[some][order], along[some][order]
            best = int(np.argmin(times))
            if times[-1] > (1 + RISES) * times[best]:
                out.append(f"{times[-1] / times[best] - 1:.1%} longer with {counts[-1]:g} {word} than with {counts[best]:g}")
    return out


def percent(share: float) -> str:
    """A share for people.

    >>> percent(0.8979), percent(0.9)
    ('89.8 %', '90 %')
    """
    return f"{share * 100:.1f}".removesuffix(".0") + " %"


def reached(share: float, asked: float) -> str:
    """An efficiency for people; what does not reach the one asked for never reads as if it did.

    >>> reached(0.89981, 0.9), reached(0.90001, 0.9), reached(0.8979, 0.9)
    ('89.98 %', '90 %', '89.8 %')
    """
    if share < asked - _EVEN and round(share * 100, 1) >= round(asked * 100, 1):
        return f"{math.floor(share * 1e4) / 100:.2f} %"
    return percent(share)


def span(value: float, low: float, high: float) -> str:
    """A number of cores with its interval, in the decimals of the number.

    >>> span(3.0304, 2.871, 3.22), span(12.49, 11.4, math.inf)
    ('3.03 (2.87 to 3.22)', '12.5 (11.4 or more)')
    """
    places = 2 if value < 10 else 1 if value < 100 else 0
    upper = f"{low:.{places}f} to {high:.{places}f}" if math.isfinite(high) else f"{low:.{places}f} or more"
    return f"{value:.{places}f} ({upper})"


def shape(count: Count) -> str:
    """A number of cores that can be run, in words: ``"4 cores"``, ``"12 cores (4 ranks x 3 threads)"``."""
    words = f"{count.cores:g} core{'' if count.cores == 1 else 's'}"
    if count.ranks is None or count.threads is None or min(count.ranks, count.threads) <= 1:
        return words
    return f"{words} ({count.ranks:g} ranks x {count.threads:g} threads)"


def _sentence(found: Cores) -> str:
    name = f"{found.runs.program}: " if found.runs.program else ""
    if found.chosen is None:
        return name + "; ".join(sharing(c) for c in found.shared)
    asked, whole, below = percent(found.efficiency), found.whole, found.below
    if whole is not None and below is None:
        verb = "is" if whole.cores == 1 else "are"
        return f"{name}{shape(whole)} per GPU {verb} enough for {asked}: {reached(whole.efficiency, found.efficiency)}"
    head = f"{name}{span(found.cores, found.low, found.high)} cores per GPU for {asked}"
    if whole is None:
        return f"{head}; no whole number reaches it"
    few = "" if below is None else f"with {shape(below)} {reached(below.efficiency, found.efficiency)}, "
    open_still = "".join(f"; {c.fit.law.name} {_fits(c)} and says {_number(c.cores)}" for c in found.ties)
    return f"{head}; {few}with {shape(whole)} {reached(whole.efficiency, found.efficiency)}{open_still}"


def sharing(curve: Curve) -> str:
    """An oversubscription curve in one sentence."""
    first = curve.steps[0].ranks
    each = "" if curve.threads == 1 else f" of {curve.threads:g} threads"
    doubt = "single runs, no interval" if curve.low is None else f"90 % interval {curve.low:g} to {curve.high:g}"
    if curve.ranks == first:
        then = curve.steps[1]
        return f"sharing a GPU does not pay: {then.ranks:g} ranks{each} gain {percent(then.gain or 0.0)} over {first:g} ({doubt})"
    last = ", the most measured" if curve.ranks == curve.steps[-1].ranks else ""
    return f"sharing a GPU pays up to {curve.ranks:g} ranks{each}{last}: {percent(curve.gain)} faster than with {first:g} ({doubt})"
