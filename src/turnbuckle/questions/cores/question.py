"""How many CPU cores a GPU needs: laws fitted to runs, one chosen, and the cores at which it
reaches an efficiency.

Efficiency is the shortest run time that the law allows at any number of cores, over the run time at
so many.  The answer is always three things: cores as a real number with its interval, the next
whole number that can be run, and the efficiency there (decision D3).

The interval holds 90 % of the draws of the chosen law, and of every other law whose Akaike weight,
exp(-AICc / 2) over the sum of the same, is 5 % or more: which law holds is a doubt of its own.  The
weight is that of AIC where it is larger: at six runs the correction of AICc sets a law of three
unknowns back by 28, however well it fits.  Laws within 2 of the lowest AICc fit as well.  An answer
beyond the counts that were measured is a finding (A337); one beyond twice the most is refused
unless asked for.

Fewer than six core counts tell no laws apart: the interval then holds the draws of every law that
the runs do not contradict (A527), and the answer begins with what was measured.  A law that the
runs contradict is neither chosen nor in the interval while another holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, overload

import numpy as np

from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.errors import TurnbuckleError, error_of
from turnbuckle.foundation.findings import Finding, finding, merge
from turnbuckle.projection.run import Run
from turnbuckle.questions.cores import laws
from turnbuckle.questions.cores.answer import (
    ENOUGH_COUNTS,
    EVEN,
    FARTHEST,
    Candidate,
    Cores,
    Count,
    MeasuredStep,
    how_it_fits,
    how_many,
    number,
    percent,
)
from turnbuckle.questions.cores.fits import (
    FAR_OFF,
    LAWS,
    Axes,
    Fit,
    Law,
    Name,
    axes,
    fit,
    misses,
    redrawn,
)
from turnbuckle.questions.cores.oversubscription import WORTH, Curve, curves
from turnbuckle.questions.cores.replayed import Replayed, replayed
from turnbuckle.questions.cores.runs import Runs, from_profiles, read_runs

Choice = Literal["auto", "hybrid", "exponential", "usl", "floor"]

EFFICIENCY: Final = 0.9
DRAWS, SEED, LEVEL = 1000, 20261121, 0.90
#: The same of each law where fewer runs than these say how timings scatter: with the choice of a
#: law the answer then holds 90 %.  A law with a single run to spare needs no more than `LEVEL`: its
#: draws have tails enough.  Nor does an end that is out of reach: it tells of the law, not of the
#: runs.
FEW_LEVEL, FEW_RUNS = 0.96, 12
#: Laws with a smaller Akaike weight are excluded.
EXCLUDED: Final = 0.05
#: Run time that rises, and MPI time that differs, by more than these shares are said.
RISES, DIFFERS = 0.02, 0.10
_MOST_ROWS: Final = 16
#: Draws times runs of one program.
_AFFORDABLE: Final = 20_000_000
#: Whole numbers of cores looked at beyond the answer, at most.
_WINDOW: Final = 512


def cores_per_gpu(
    runs: Runs,
    *,
    efficiency: float = EFFICIENCY,
    law: Choice = "auto",
    worth: float = WORTH,
    extrapolate: bool = False,
    have: float | None = None,
    draws: int = DRAWS,
    seed: int = SEED,
) -> Cores:
    """Return the cores per GPU that one program needs.

    Parameters
    ----------
    efficiency : 0.5 to 0.999, of the shortest run time that the law allows.
    law : one law, or the one with the lowest AICc.
    worth : gain from which one more rank on a GPU pays.
    extrapolate : answer even beyond twice the most cores measured.
    have : cores per GPU of a node, to say what it reaches.
    draws, seed : for the interval.

    Raises
    ------
    UsageError : A031 for an efficiency, gain or number of draws out of range.
    CannotAnswer : A150 for too few runs, A151 for an answer too far beyond what was measured.
    """
    _in_range(efficiency, worth, draws)
    if have is not None and not 0.01 <= have <= 1e6:
        raise error_of("A031.cores", found=f"{have:g}")
    if draws * len(runs) > _AFFORDABLE:
        raise error_of(
            "A031.draws",
            found=f"{draws:,} draws of {len(runs):,} runs",
            most=max(100, _AFFORDABLE // len(runs)),
        )
    varies, t_mpi = (
        axes(runs, math.inf if extrapolate else FARTHEST),
        runs.mpi_seconds.mean(keepdims=True),
    )
    fits = [fit(candidate_law, runs) for candidate_law in LAWS.values()]
    shared, step = tuple(curves(runs, worth)), measured_step(runs, worth)
    usable = [f.law.name for f in fits if f.aicc is not None and law in ("auto", f.law.name)]
    if not usable:
        if law == "auto" and shared:
            unfitted = tuple(Candidate(f) for f in fits)
            return _without_law(
                runs, efficiency, unfitted, f"no law: {_lacking(fits)}", shared, step
            )
        raise _too_few(runs, [f for f in fits if law in ("auto", f.law.name)])
    few = runs.core_counts < ENOUGH_COUNTS
    drawn = {f.law.name: redrawn(f, runs, draws, seed) for f in fits if f.aicc is not None}
    most = float(runs.cores.max())
    lowest = min(f.aicc for f in fits if f.aicc is not None)
    about = t_mpi, efficiency, varies, FARTHEST * most
    answered = [_candidate(f, lowest, drawn.get(f.law.name), *about) for f in fits]
    candidates = sorted(answered, key=partial(_criterion, few))
    contradicted = {
        c.fit.law.name: misses(c.fit, runs, c.limit_seconds) for c in candidates if c.fitted
    }
    asked = [c for c in candidates if c.fit.law.name in usable]
    holding = [c for c in asked if not contradicted[c.fit.law.name]]
    weights = dict.fromkeys(contradicted, 1.0) if few else _weights(candidates)
    likely = [c for c in holding if weights[c.fit.law.name] >= EXCLUDED]
    within = [c for c in likely if extrapolate or c.cores <= FARTHEST * most]
    chosen = (within or holding or asked)[0]
    missed = contradicted[chosen.fit.law.name]
    if missed and law == "auto" and chosen.fit.rms > FAR_OFF:
        why, flaws = f"no law: {_contradicted(contradicted)}", _of_runs(runs)
        flaws.append(finding("A336", 1, f"{chosen.fit.law.name}: {missed}"))
        return _without_law(
            runs, efficiency, tuple(candidates), why, shared, step, missed, merge(flaws)
        )
    if chosen.cores > FARTHEST * most and not (extrapolate and math.isfinite(chosen.cores)):
        raise _too_far(chosen, runs, efficiency, varies)
    ties = [c for c in likely if c is not chosen] if law == "auto" else []
    low, high = min(c.low for c in (chosen, *ties)), max(c.high for c in (chosen, *ties))
    mixed = [
        (c.fit.law, drawn[c.fit.law.name], weights[c.fit.law.name] if ties else 1.0)
        for c in (chosen, *ties)
    ]
    count = partial(_count, runs, chosen, varies, efficiency, mixed)
    counts, whole = _counts(runs, chosen, varies, efficiency, count)
    at_node = None if have is None else count(*_real_split(chosen, varies, have))
    flaws = _findings(runs, chosen, whole, at_node, ties, low, high, missed)
    if few:
        answers = ", ".join(f"{c.fit.law.name}: {how_many(c.cores)}" for c in (chosen, *ties))
        flaws.append(
            finding("A527", runs.core_counts, f"{_many(runs.core_counts, 'core count')}; {answers}")
        )
    return Cores(
        runs=runs,
        efficiency=efficiency,
        candidates=tuple(candidates),
        chosen=chosen,
        why=_why(runs, chosen, candidates, ties, law, contradicted),
        ties=tuple(ties),
        low=low,
        high=high,
        counts=counts,
        whole=whole,
        have=at_node,
        shared=shared,
        findings=tuple(merge(flaws)),
        step=step,
        following=_next(runs, chosen, ties, varies, low, high),
        missed=missed,
    )


def _without_law(
    runs: Runs,
    efficiency: float,
    candidates: tuple[Candidate, ...],
    why: str,
    shared: tuple[Curve, ...],
    step: MeasuredStep,
    missed: str = "",
    findings: Sequence[Finding] = (),
) -> Cores:
    """Return an answer that no law stands behind: what was measured, and how many ranks may share a
    GPU.
    """
    unknown = math.nan
    return Cores(
        runs,
        efficiency,
        candidates,
        None,
        why,
        (),
        unknown,
        unknown,
        (),
        None,
        None,
        shared,
        tuple(findings),
        step,
        missed=missed,
    )


def measured_step(runs: Runs, worth: float = WORTH) -> MeasuredStep:
    """Return the fewest measured cores that no larger number beats by `worth` of its performance or
    more.

    Of several splits of one number of cores the fastest counts.

    >>> cores, seconds = np.array([1.0, 2, 4, 8]), np.array([40.0, 22, 10.1, 10])
    >>> measured_step(Runs("", np.ones(4), cores, seconds, np.zeros(4), True, False, ("",) * 4))
    MeasuredStep(cores=4.0, fastest_cores=8.0, share=0.9900990099009901)
    """
    mean = runs.mean_of_repeats(runs.seconds)
    counts = np.unique(runs.cores)
    times = np.array([mean[runs.cores == n].min() for n in counts])
    best = np.minimum.accumulate(times[::-1])[::-1]
    step, fastest = int(np.argmax(times < best * (1 + worth))), int(np.argmin(times))
    return MeasuredStep(
        float(counts[step]), float(counts[fastest]), float(times[fastest] / times[step])
    )


def _criterion(few: bool, candidate: Candidate) -> float:
    """Return what laws are ranked by: AICc, or AIC where few core counts leave AICc infinite."""
    value = candidate.fit.aic if few else candidate.fit.aicc
    return math.inf if value is None else value


def _candidate(
    f: Fit,
    lowest: float,
    drawn: tuple[Float, Float] | None,
    t_mpi: Float,
    efficiency: float,
    varies: Axes,
    farthest: float,
) -> Candidate:
    """Return a law with its answer, or without one if it was not fitted; `farthest` are the most
    cores that an answer may have.
    """
    if f.aicc is None or drawn is None:
        return Candidate(f)
    values, mpi = drawn
    level = FEW_LEVEL if f.unknowns + 1 < f.runs < FEW_RUNS else LEVEL
    ends = (1 - level) / 2, (1 + level) / 2, (1 + LEVEL) / 2
    cores_drawn = f.law.cores(values, mpi, efficiency, varies)
    low, high, nearer = np.quantile(cores_drawn, ends, method="nearest")
    if high > farthest:
        high = nearer
    cores = float(f.law.cores(f.values, t_mpi, efficiency, varies)[0])
    limit = float(f.law.limit(f.values, t_mpi)[0])
    above = 0.0 if f.aicc == lowest else f.aicc - lowest
    return Candidate(f, above, cores, float(min(low, cores)), float(max(high, cores)), limit)


def _in_range(efficiency: float, worth: float, draws: int) -> None:
    ranges = (
        ("--efficiency", efficiency, 0.5, 0.999, 0.9),
        ("--worth", worth, 0.0, 1.0, 0.05),
        ("--draws", draws, 100, 100_000, 1000),
    )
    for option, value, least, most, usual in ranges:
        if not least <= value <= most:
            raise error_of(
                "A031.quantity",
                found=f"{value:g}",
                subject=option,
                least=least,
                most=most,
                example=f"{option} {usual}",
            )


def _lacking(fits: list[Fit]) -> str:
    return "; ".join(f"{f.law.name} needs {f.missing}" for f in fits)


def _too_few(runs: Runs, fits: list[Fit]) -> TurnbuckleError:
    evidence = (
        f"{_many(len(runs), 'run')} of {_many(runs.core_counts, 'core count')}; {_lacking(fits)}"
    )
    return (
        error_of("A150.runs", where=runs.program, found=evidence)
        if len(fits) > 1
        else error_of("A150.law", where=runs.program, found=evidence, name=fits[0].law.name)
    )


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _too_far(chosen: Candidate, runs: Runs, efficiency: float, varies: Axes) -> TurnbuckleError:
    name, most = chosen.fit.law.name, float(runs.cores.max())
    if math.isfinite(chosen.cores):
        evidence = (
            f"{chosen.cores:.3g} cores per GPU by the {name} law; at most {most:g} were measured"
        )
        fix = f"measure with up to {math.ceil(chosen.cores)} cores, or add --extrapolate"
    elif (
        name == "hybrid"
        and varies.both
        and math.isfinite(varies.ranks[1])
        and chosen.limit_seconds > 0
    ):
        ranks, threads = (v[1] / FARTHEST for v in (varies.ranks, varies.threads))
        evidence = (
            f"at most {ranks:g} ranks and {threads:g} threads were measured, and twice as many "
            f"are not enough by the {name} law"
        )
        fix = "measure with more ranks or threads, or add --extrapolate"
    else:
        evidence = f"by the {name} law the run time has no floor yet at {most:g} cores"
        fix = "measure with more cores"
    return error_of(
        "A151",
        where=runs.program,
        found=evidence,
        fix=fix,
        efficiency=percent(efficiency),
        farthest=FARTHEST,
    )


def _weights(candidates: list[Candidate]) -> dict[Name, float]:
    """Return Akaike weights by law, of AICc or of AIC, whichever is larger.

    Taking the larger keeps few runs alone from excluding a law.
    """
    out: dict[Name, float] = {}
    for criterion in ("aicc", "aic"):
        criteria = {
            c.fit.law.name: float(getattr(c.fit, criterion))
            for c in candidates
            if c.above is not None
        }
        if math.isinf(min(criteria.values())):
            continue  # too few runs for the correction of any law
        shares = {
            name: math.exp((min(criteria.values()) - value) / 2) for name, value in criteria.items()
        }
        out |= {
            name: max(out.get(name, 0.0), share / sum(shares.values()))
            for name, share in shares.items()
        }
    return out


def _contradicted(contradicted: dict[Name, str]) -> str:
    return "; ".join(f"{name} misses the runs ({how})" for name, how in contradicted.items() if how)


def _why(
    runs: Runs,
    chosen: Candidate,
    candidates: list[Candidate],
    ties: list[Candidate],
    law: Choice,
    contradicted: dict[Name, str],
) -> str:
    if law != "auto":
        better = [
            c
            for c in candidates
            if c.above is not None
            and chosen.above is not None
            and c.above < chosen.above < math.inf
        ]
        reason = f"{chosen.fit.law.name} law, as asked for"
        return reason + "".join(
            f"; AICc of {c.fit.law.name} is {_apart(chosen, c)} lower" for c in better
        )
    rivals = [c for c in candidates if c is not chosen and c.above is not None]
    if not rivals:
        return f"{chosen.fit.law.name}: the only law that these runs can carry"
    if runs.core_counts < ENOUGH_COUNTS:
        few = f"{runs.core_counts} core counts are too few to choose a law"
        few += ": the interval includes every law that fits them"
        answers = ", ".join(f"{c.fit.law.name} {number(c.cores)}" for c in (chosen, *ties))
        return "; ".join(filter(None, [f"{few} ({answers})", _contradicted(contradicted)]))
    lowest = f"{chosen.fit.law.name} has the lowest AICc; " + ", ".join(
        f"{c.fit.law.name} is {_apart(c, chosen)} higher" for c in rivals
    )
    if contradictions := _contradicted(contradicted):
        lowest += f"; {contradictions}"
    if ties:
        tied = " and ".join(
            f"{c.fit.law.name} {how_it_fits(c)} ({how_many(c.cores)})" for c in ties
        )
        lowest += f": {tied}, so the interval includes {'it' if len(ties) == 1 else 'them'}"
    return lowest


def _apart(first: Candidate, second: Candidate) -> str:
    return f"{abs((first.above or 0.0) - (second.above or 0.0)):.1f}"


def _law_seconds(law: Law, values: Float, t_mpi: Float, ranks: float, threads: float) -> Float:
    return np.asarray(
        t_mpi + law.seconds(values, np.asarray(ranks), np.asarray(threads)).reshape(-1)
    )


def _count(
    runs: Runs,
    chosen: Candidate,
    varies: Axes,
    efficiency: float,
    mixed: list[tuple[Law, tuple[Float, Float], float]],
    ranks: float,
    threads: float,
) -> Count:
    """Return what a number of ranks and threads reaches.

    `mixed` holds the laws not excluded, with their draws and weights.
    """
    law, t_mpi = chosen.fit.law, runs.mpi_seconds.mean(keepdims=True)
    seconds = float(_law_seconds(law, chosen.fit.values, t_mpi, ranks, threads)[0])
    split_known = law.name == "hybrid" or not varies.both
    same = (
        (runs.ranks == ranks) & (runs.threads == threads)
        if split_known
        else np.isclose(runs.cores, ranks * threads)
    )
    measured = float(runs.seconds[same].mean()) if same.any() else None
    n, m = (ranks, threads) if runs.split and split_known else (None, None)
    reaches = sum(
        w * _reach(candidate_law, drawn, ranks, threads, efficiency)
        for candidate_law, drawn, w in mixed
    ) / sum(w for _, _, w in mixed)
    return Count(ranks * threads, n, m, seconds, chosen.limit_seconds / seconds, reaches, measured)


def _real_split(chosen: Candidate, varies: Axes, cores: float) -> tuple[float, float]:
    """Return the ranks and threads, as real numbers, that make the best of a number of cores."""
    ranks = varies.ranks[0]
    if varies.ranks[0] != varies.ranks[1]:
        on_threads = chosen.fit.values[0, 1:3] if chosen.fit.law.name == "hybrid" else (0.0, 1.0)
        ranks = float(
            laws.best_ranks(cores, on_threads[0], on_threads[1], varies.ranks, varies.threads)
        )
    return ranks, cores / ranks


def _counts(
    runs: Runs,
    chosen: Candidate,
    varies: Axes,
    efficiency: float,
    count: Callable[[float, float], Count],
) -> tuple[tuple[Count, ...], Count | None]:
    """Return the numbers of cores to show, and the smallest one that is enough.

    Shown are the measured numbers and those around the answer.
    """
    law, values, t_mpi = chosen.fit.law, chosen.fit.values, runs.mpi_seconds.mean(keepdims=True)
    # the measured numbers of cores, each with its fastest split
    mean = runs.mean_of_repeats(runs.seconds)
    shown = {}
    for n in _spread_out(np.unique(runs.cores).tolist()):
        best = min(np.flatnonzero(runs.cores == n).tolist(), key=lambda i: float(mean[i]))
        shown[n] = count(float(runs.ranks[best]), float(runs.threads[best]))
    # then the answer and its neighbours
    splits = _runnable(runs, chosen, varies)
    runnable = np.array([splits[n] for n in sorted(splits)])
    reached_at = chosen.limit_seconds / (
        t_mpi[0] + law.seconds(values, runnable[:, 0], runnable[:, 1])[0]
    )
    enough = np.flatnonzero(reached_at >= efficiency - EVEN)
    if not enough.size:
        return tuple(shown[n] for n in sorted(shown)), None
    answer = int(enough[0])
    more = answer + 1 + np.flatnonzero(reached_at[answer + 1 :] > reached_at[answer])
    near = [int(np.argmax(reached_at[:answer]))] if answer else []
    smallest = None
    for i in (*near, answer, *more[:1].tolist()):
        c = count(float(runnable[i, 0]), float(runnable[i, 1]))
        shown[c.cores] = c
        smallest = c if i == answer else smallest
    return tuple(shown[n] for n in sorted(shown)), smallest


def _next(
    runs: Runs, chosen: Candidate, ties: Sequence[Candidate], varies: Axes, low: float, high: float
) -> float | None:
    """Return the number of cores that would decide most if it were measured: where the laws differ
    most, else nearest to the answer.

    None where the answer is known to a core.
    """
    splits = {
        n: split
        for n, split in _runnable(runs, chosen, varies).items()
        if not np.isclose(runs.cores, n).any()
    }
    if not splits or (math.isfinite(high) and math.ceil(high) - math.floor(low) <= 1):
        return None
    counts = np.array(sorted(splits))
    ranks, threads = np.array([splits[n] for n in counts]).T
    if not ties:
        return float(counts[np.argmin(np.abs(counts - chosen.cores))])
    seconds = np.stack(
        [c.fit.law.seconds(c.fit.values, ranks, threads)[0] for c in (chosen, *ties)]
    )
    inside = counts <= FARTHEST * float(runs.cores.max())
    apart = np.where(inside, np.ptp(seconds, axis=0) / seconds.mean(axis=0), -1.0)
    return float(counts[np.argmax(apart)])


def _reach(
    law: Law, drawn: tuple[Float, Float], ranks: float, threads: float, efficiency: float
) -> float:
    """Return the share of the draws of a law in which a number of cores reaches an efficiency."""
    seconds = _law_seconds(law, drawn[0], drawn[1], ranks, threads)
    # a draw whose noise left nothing of the run time reaches nothing
    share = np.divide(
        law.limit(drawn[0], drawn[1]), seconds, out=np.zeros_like(seconds), where=seconds > 0
    )
    return float((share >= efficiency - EVEN).mean())


def _spread_out(counts: list[float]) -> list[float]:
    """Thin out counts to as many as a table has room for."""
    if len(counts) <= _MOST_ROWS:
        return counts
    return [counts[round(i)] for i in np.linspace(0, len(counts) - 1, _MOST_ROWS)]


def _runnable(runs: Runs, chosen: Candidate, varies: Axes) -> dict[float, tuple[float, float]]:
    """Return the ranks and threads of each number of cores that can be run.

    They are whole numbers of what varies, up to twice what was measured and around the answer.
    """
    most, answer = float(runs.cores.max()), chosen.cores
    unit = 1.0 if varies.both else varies.least
    steps = set(range(1, min(math.ceil(FARTHEST * most / unit), _WINDOW) + 1))
    steps |= set(
        range(
            max(1, math.floor(answer / unit) - 2),
            math.floor(answer / unit) + 2 + min(math.ceil(answer / unit), _WINDOW),
        )
    )
    if not varies.both:
        held_ranks = varies.ranks[0] == varies.ranks[1]
        fixed = varies.ranks[0] if held_ranks else varies.threads[0]
        return {
            fixed * n: (fixed, float(n)) if held_ranks else (float(n), fixed) for n in sorted(steps)
        }
    if chosen.fit.law.name != "hybrid":
        return {float(n): (1.0, float(n)) for n in sorted(steps)}
    _, c_mpi, c_omp, c_hyb = chosen.fit.values[0].tolist()
    wide = math.ceil(1.5 * answer) + 2
    ranks, threads = (
        (1, math.floor(v[1]) if math.isfinite(v[1]) else wide)
        for v in (varies.ranks, varies.threads)
    )
    splits = {
        float(n): laws.split_cores(n, c_mpi, c_omp, c_hyb, ranks, threads) for n in sorted(steps)
    }
    return {n: (float(s[0]), float(s[1])) for n, s in splits.items() if s is not None}


def _findings(
    runs: Runs,
    chosen: Candidate,
    whole: Count | None,
    have: Count | None,
    ties: list[Candidate],
    low: float,
    high: float,
    missed: str,
) -> list[Finding]:
    out = []
    least, most = float(runs.cores.min()), float(runs.cores.max())
    if have is not None and not least <= have.cores <= most:
        out.append(
            finding(
                "A337",
                1,
                f"{least:g} to {most:g} cores per GPU measured, the node has {have.cores:.3g}",
            )
        )
    if chosen.cores > most or high > most or chosen.cores < least:
        detail = (
            f"{least:g} to {most:g} cores per GPU measured, answer {chosen.cores:.3g} ({low:.3g} "
            f"to {number(high)})"
        )
        out.append(finding("A337", 1, detail))
    elif whole is not None and whole.ranks is not None and whole.threads is not None:
        ranks, threads = float(runs.ranks.max()), float(runs.threads.max())
        if whole.ranks > ranks or whole.threads > threads:
            detail = (
                f"answer with {whole.ranks:g} x {whole.threads:g} ranks and threads, at most "
                f"{ranks:g} and {threads:g} measured"
            )
            out.append(finding("A337", 1, detail))
    if missed:
        out.append(finding("A336", 1, f"{chosen.fit.law.name}: {missed}"))
    if ties and runs.core_counts >= ENOUGH_COUNTS:
        out.append(
            finding(
                "A338", len(ties), ", ".join(f"{c.fit.law.name}: {how_many(c.cores)}" for c in ties)
            )
        )
    return [*out, *_of_runs(runs)]


def _of_runs(runs: Runs) -> list[Finding]:
    """Return what the runs themselves show, whatever law is fitted to them."""
    out = []
    if rising := _rising(runs):
        out.append(finding("A339", len(rising), "; ".join(rising[:3])))
    mpi, total = runs.mean_of_repeats(runs.mpi_seconds), float(runs.seconds.mean())
    spread = float(mpi.max() - mpi.min())
    if spread > DIFFERS * float(mpi.mean()) and spread > 0.01 * total:
        out.append(
            finding(
                "A340", runs.shapes, f"{mpi.min():.3g} s to {mpi.max():.3g} s; the mean is taken"
            )
        )
    return out


def _rising(runs: Runs) -> list[str]:
    """Return where the part that is not MPI takes longer with more of one count, the other being
    the same.
    """
    out = []
    seconds = runs.mean_of_repeats(runs.seconds - runs.mpi_seconds)
    axes_of = (
        ("ranks", runs.ranks, runs.threads),
        ("threads" if runs.split else "cores", runs.threads, runs.ranks),
    )
    for word, along, fixed in axes_of:
        for value in np.unique(fixed):
            some = fixed == value
            order = np.argsort(along[some], kind="stable")
            times, counts = seconds[some][order], along[some][order]
            best = int(np.argmin(times))
            if times[-1] > (1 + RISES) * times[best]:
                out.append(
                    f"{times[-1] / times[best] - 1:.1%} longer with {counts[-1]:g} {word} "
                    f"than with {counts[best]:g}"
                )
    return out


@overload
def of_runs(runs: Run, cores: None = None, **settings: Any) -> Replayed:
    """Return the bounds of one run with fewer cores."""


@overload
def of_runs(
    runs: Sequence[Run] | str | Path, cores: Sequence[int] | None = None, **settings: Any
) -> Cores:
    """Return the cores per GPU by laws that are fitted to several runs."""


def of_runs(
    runs: Run | Sequence[Run] | str | Path, cores: Sequence[int] | None = None, **settings: Any
) -> Cores | Replayed:
    """Return the cores per GPU that one program needs, from runs of it with more and fewer of them:
    ``turnbuckle cores``.

    Parameters
    ----------
    runs : recorded runs, or a table of runs (CSV) of one program; or one run, which is replayed
        with fewer cores.
    cores : that each recorded run had; read from the recordings if left out.
    settings : of `cores_per_gpu`: ``efficiency``, ``law``, ``worth``, ``extrapolate``, ``have``,
        ``draws``, ``seed``; of one run those of `replayed`: ``efficiency``, ``speed``.

    Raises
    ------
    UsageError : A032, a table of several programs; what `read_runs`, `from_profiles` and `replayed`
        raise.
    """
    if isinstance(runs, Run):
        return replayed(runs.profile, **settings)
    if isinstance(runs, str | Path):
        programs = read_runs(runs)
        if len(programs) != 1:
            raise error_of("A032.programs", found=f"{len(programs)}")
        return cores_per_gpu(programs[0], **settings)
    return cores_per_gpu(from_profiles([run.profile for run in runs], cores), **settings)
