"""Laws fitted to runs: least squares on relative residuals, and a small-sample criterion to choose
between them.

A run's residual is divided by the mean run time of its configuration, since timings scatter in
proportion; repeats are runs of their own, so a configuration weighs as much as it was repeated.
The report's own fit of eq 5 takes plain seconds.

The laws are linear in all parameters but the rate of the exponential one.  Bounded linear least
squares is exact here: with four unknowns at most, every set of unknowns that may be zero is tried.
The rate is found by variable projection, a search over a grid and then between its neighbours.
Both work on all draws at once and have no random start.

    AICc = n ln(RSS / n) + 2 k + 2 k (k + 1) / (n - k - 1)         Hurvich and Tsai 1989; k counts the error's variance
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Final, Literal

import numpy as np

from turnbuckle._native import f_tail
from turnbuckle.foundation.arrays import Float
from turnbuckle.questions.cores import laws
from turnbuckle.questions.cores.runs import Runs

Name = Literal["hybrid", "exponential", "usl", "floor"]

#: Residuals below this share of the run time are rounding: no law is better than another for them.
ROUNDING: Final = 1e-9
#: Decay between the smallest and the largest core count: rates looked at, and how many.
_SLOWEST, _FASTEST, _GRID = 0.02, 12.0, 64
_LARGEST_EXPONENT: Final = 600.0
#: Numbers held at once while rates are looked at.
_BLOCK: Final = 8_000_000
#: Runs beyond one a configuration from which on repeats, not residuals, say how timings scatter.
FEWEST_SPARE: Final = 3
#: Runs that any law needs; one more than it has unknowns where these are more.
FEWEST_RUNS: Final = 4
#: Residuals, as a share of the run time: what is far off, what is off if repeats say so too, and
#: how unlikely that must be.
FAR_OFF, OFF, UNLIKELY = 0.10, 0.02, 0.01
_GOLDEN, _NARROWINGS = (math.sqrt(5.0) - 1.0) / 2.0, 32


@dataclass(frozen=True)
class Axes:
    """Ranks and threads that a set of runs varies, and the range of each in which the answer is
    searched.

    Attributes
    ----------
    ranks, threads : least and most per GPU and per rank that an answer may have; one value where
        the runs have one.
    """

    ranks: laws.Range
    threads: laws.Range

    @property
    def both(self) -> bool:
        """Return whether ranks and threads both vary."""
        return self.ranks[0] != self.ranks[1] and self.threads[0] != self.threads[1]

    @property
    def least(self) -> float:
        """Return the fewest cores per GPU."""
        return self.ranks[0] * self.threads[0]


def axes(runs: Runs, farthest: float = math.inf) -> Axes:
    """Return what the runs vary; a count that is the same in all runs keeps its value.

    If both vary, `farthest` bounds ranks and threads by this multiple of the most that were run.
    Without it, their product may lie within the measured range while one of them is far beyond.
    """
    spans: list[laws.Range] = []
    for values in (runs.ranks, runs.threads):
        low, high = float(values.min()), float(values.max())
        spans.append((low, low) if low == high else (min(1.0, low), math.inf))
    unbounded = Axes(spans[0], spans[1])
    if not unbounded.both or math.isinf(farthest):
        return unbounded
    bounds = [
        (low, farthest * float(v.max()))
        for (low, _), v in zip(spans, (runs.ranks, runs.threads), strict=True)
    ]
    return Axes(bounds[0], bounds[1])


@dataclass(frozen=True)
class Law:
    """One law.

    Attributes
    ----------
    name, words, equation : for tables.
    parameters : names and units.
    fit : (runs, seconds (draws, runs), weights (runs,)) -> parameters (draws, parameters).
    seconds : (parameters (draws, p), ranks, threads) -> run time without MPI [s], shape (draws,
        ...) .
    limit : (parameters, t_mpi) -> shortest run time at any number of cores [s], shape (draws,).
    cores : (parameters, t_mpi, efficiency, axes) -> fewest cores per GPU, shape (draws,).
    needs : (runs) -> unknowns that these runs can tell apart.
    """

    name: Name
    words: str
    equation: str
    parameters: tuple[tuple[str, str], ...]
    fit: Callable[[Runs, Float, Float], Float]
    seconds: Callable[[Float, Float, Float], Float]
    limit: Callable[[Float, Float], Float]
    cores: Callable[[Float, Float, float, Axes], Float]
    needs: Callable[[Runs], int]


def nonnegative(columns: Float, values: Float) -> Float:
    """Solve least squares exactly for unknowns that are not negative, with many right-hand sides.

    Parameters
    ----------
    columns : shape (runs, unknowns), four unknowns at most; columns that depend on each other are
        not used together.
    values : shape (draws, runs).

    Returns
    -------
    Unknowns, shape (draws, unknowns).

    >>> nonnegative(np.array([[1.0, 1.0], [1.0, 0.5], [1.0, 0.25]]), np.array([[3.0, 2.0, 1.5]])).round(9).tolist()
    [[1.0, 2.0]]
    """
    size = columns.shape[1]
    scale = np.linalg.norm(columns, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    unit = columns / scale
    best = np.zeros((len(values), size))
    left = (values**2).sum(axis=1)
    for count in range(1, size + 1):
        for some in combinations(range(size), count):
            part = unit[:, some]
            left_vectors, singular, right_vectors = np.linalg.svd(part, full_matrices=False)
            if singular[-1] <= 1e-9:
                continue
            solution = values @ (right_vectors.T @ ((1.0 / singular)[:, None] * left_vectors.T)).T
            rss = ((values - solution @ part.T) ** 2).sum(axis=1)
            better = (solution >= 0).all(axis=1) & (rss < left * (1.0 - 1e-12))
            left = np.where(better, rss, left)
            best[better] = 0.0
            best[np.ix_(better, some)] = solution[better]
    return np.asarray(best / scale)


def _line(values: Float, weights: Float) -> Callable[[Float], tuple[Float, Float, Float]]:
    """Return the weighted least-squares fit of a + b column to values, a and b not negative.

    The fit takes columns and returns (a, b, sum of squares).  Columns broadcast against values,
    shape (draws, runs).
    """
    w = weights**2

    def total(x: Float) -> Float:
        return np.asarray((w * x).sum(axis=-1))

    s0, y0, yy = float(w.sum()), total(values), total(values**2)

    def fitted(column: Float) -> tuple[Float, Float, Float]:
        s1, s2, y1 = total(column), total(column**2), total(column * values)
        det = s0 * s2 - s1**2
        with np.errstate(divide="ignore", invalid="ignore"):
            interior = (s2 * y0 - s1 * y1) / det, (s0 * y1 - s1 * y0) / det
            alone_b = np.where(s2 > 0, y1 / s2, 0.0)
        flat = ~(det > 1e-14 * s0 * s2)
        use_a, use_b = flat | (interior[1] < 0), ~flat & (interior[0] < 0)
        a = np.where(use_a, y0 / s0, np.where(use_b, 0.0, interior[0]))
        b = np.where(use_a, 0.0, np.where(use_b, alone_b, interior[1]))
        return a, b, yy - 2 * (a * y0 + b * y1) + a**2 * s0 + 2 * a * b * s1 + b**2 * s2

    return fitted


def _hybrid_columns(ranks: Float, threads: Float) -> Float:
    return np.stack(
        [np.ones_like(ranks), 1.0 / ranks, 1.0 / threads, 1.0 / (ranks * threads)], axis=-1
    )


def _fit_hybrid(runs: Runs, seconds: Float, weights: Float) -> Float:
    columns = _hybrid_columns(runs.ranks, runs.threads)
    # what does not vary cannot be told from c_seq; with one axis, nor can c_hyb from the
    # coefficient of that axis
    varies = axes(runs)
    use = [
        0,
        *([1] if varies.ranks[0] != varies.ranks[1] else []),
        *([2] if varies.threads[0] != varies.threads[1] else []),
    ]
    if varies.both and np.linalg.matrix_rank(columns) == 4:
        use.append(3)
    out = np.zeros((len(seconds), 4))
    out[:, use] = nonnegative(columns[:, use] * weights[:, None], seconds * weights)
    return out


def _needs_hybrid(runs: Runs) -> int:
    return int(np.linalg.matrix_rank(_hybrid_columns(runs.ranks, runs.threads), tol=1e-9))


def _fit_usl(runs: Runs, seconds: Float, weights: Float) -> Float:
    n = runs.cores
    columns = np.stack([1.0 / n, np.ones_like(n), np.maximum(n - 1.0, 0.0)], axis=-1)
    shared, serial, each = nonnegative(columns * weights[:, None], seconds * weights).T
    # a run that only gets slower with more cores keeps a first core, if a negligible one
    first = np.maximum(shared + serial, np.maximum(ROUNDING * seconds.max(axis=1), 1e-300))
    return np.stack([first, serial / first, each / first], axis=-1)


def _fit_exponential(runs: Runs, seconds: Float, weights: Float) -> Float:
    if len(seconds) > 1 and seconds.size * _GRID > _BLOCK:
        parts = np.array_split(seconds, min(len(seconds), -(-seconds.size * _GRID // _BLOCK)))
        return np.concatenate([_fit_exponential(runs, part, weights) for part in parts])
    cores = runs.cores
    reach = max(float(cores.max() - cores.min()), 1e-9)
    # beta is the value at 0 cores: no rate may make it overflow
    fastest = min(_FASTEST / _step(cores), _LARGEST_EXPONENT / float(cores.max()))
    grid = np.linspace(math.log(min(_SLOWEST / reach, fastest / 100)), math.log(fastest), _GRID)

    line = _line(seconds, weights)

    def fitted(log_rate: Float) -> tuple[Float, Float, Float]:
        # from the first core count on, so that no rate makes the column vanish
        return line(np.exp(-np.exp(log_rate)[..., None] * (cores - cores.min())))

    nearest = np.argmin(np.broadcast_to(fitted(grid[:, None])[2], (_GRID, len(seconds))), axis=0)
    low, high = grid[np.maximum(nearest - 1, 0)], grid[np.minimum(nearest + 1, _GRID - 1)]
    for _ in range(_NARROWINGS):
        step = _GOLDEN * (high - low)
        inner, outer = high - step, low + step
        left = np.less(*fitted(np.stack([inner, outer]))[2])
        low, high = np.where(left, low, inner), np.where(left, outer, high)
    alpha, beta, _ = fitted((low + high) / 2)
    rate = np.exp((low + high) / 2)
    return np.stack([alpha, beta * np.exp(rate * cores.min()), rate], axis=-1)


def _fit_floor(runs: Runs, seconds: Float, weights: Float) -> Float:
    """Fit a time that falls down to a floor: every count from which on the runs may be flat is
    tried, two counts on either side.
    """
    cores, counts = runs.cores, np.unique(runs.cores)
    best, left = np.zeros((len(seconds), 3)), np.full(len(seconds), math.inf)
    for bend in counts[2:-1]:
        falls = cores < bend
        a, b, _ = _line(seconds[:, falls], weights[falls])(1.0 / cores[falls])
        flat = weights[~falls] ** 2
        floor = (seconds[:, ~falls] * flat).sum(axis=1) / flat.sum()
        model = laws.floor_seconds(cores, a[:, None], b[:, None], floor[:, None])
        rss = (((seconds - model) * weights) ** 2).sum(axis=1)
        better = rss < left * (1.0 - 1e-12)
        left = np.where(better, rss, left)
        best[better] = np.stack([a, b, floor], axis=-1)[better]
    return best


def _step(cores: Float) -> float:
    steps = np.diff(np.unique(cores))
    return float(steps.min()) if steps.size else 1.0


def _at_least(cores: Float, varies: Axes) -> Float:
    """Raise cores to the fewest that a run can have."""
    return np.maximum(cores, varies.least)


LAWS: Final[dict[Name, Law]] = {
    "hybrid": Law(
        "hybrid",
        "hybrid MPI x OpenMP (eq 5)",
        "c_seq + c_mpi / ranks + c_omp / threads + c_hyb / (ranks threads)",
        (("c_seq", "s"), ("c_mpi", "s"), ("c_omp", "s"), ("c_hyb", "s")),
        _fit_hybrid,
        lambda p, ranks, threads: laws.hybrid_seconds(ranks, threads, *_spread(p, ranks)),
        lambda p, t_mpi: laws.hybrid_limit(t_mpi, p[:, 0]),
        lambda p, t_mpi, share, varies: laws.hybrid_cores(
            t_mpi,
            p[:, 0],
            p[:, 1],
            p[:, 2],
            p[:, 3],
            share,
            ranks=varies.ranks,
            threads=varies.threads,
        ),
        _needs_hybrid,
    ),
    "exponential": Law(
        "exponential",
        "exponential (4.3.2)",
        "alpha + beta exp(-rate cores)",
        (("alpha", "s"), ("beta", "s"), ("rate", "1 / core")),
        _fit_exponential,
        lambda p, ranks, threads: laws.exponential_seconds(ranks * threads, *_spread(p, ranks)),
        lambda p, t_mpi: np.asarray(t_mpi + p[:, 0]),
        lambda p, t_mpi, share, varies: _at_least(
            laws.exponential_cores(t_mpi + p[:, 0], p[:, 1], p[:, 2], share), varies
        ),
        lambda runs: 3,
    ),
    "usl": Law(
        "usl",
        "contention and coherency (USL)",
        "first ((1 - contention) / cores + contention + coherency (cores - 1))",
        (("first", "s"), ("contention", "1"), ("coherency", "1")),
        _fit_usl,
        lambda p, ranks, threads: laws.usl_seconds(ranks * threads, *_spread(p, ranks)),
        lambda p, t_mpi: laws.usl_limit(t_mpi, p[:, 0], p[:, 1], p[:, 2]),
        lambda p, t_mpi, share, varies: _at_least(
            laws.usl_cores(t_mpi, p[:, 0], p[:, 1], p[:, 2], share), varies
        ),
        lambda runs: 3,
    ),
    "floor": Law(
        "floor",
        "down to a floor",
        "max(serial + shared / cores, floor)",
        (("serial", "s"), ("shared", "s"), ("floor", "s")),
        _fit_floor,
        lambda p, ranks, threads: laws.floor_seconds(ranks * threads, *_spread(p, ranks)),
        lambda p, t_mpi: np.asarray(t_mpi + np.maximum(p[:, 0], p[:, 2])),
        lambda p, t_mpi, share, varies: _at_least(
            laws.floor_cores(t_mpi, p[:, 0], p[:, 1], p[:, 2], share), varies
        ),
        lambda runs: 3,
    ),
}


def _spread(parameters: Float, like: Float) -> list[Float]:
    """Return parameters (draws, p) as p arrays (draws, 1, ...) that broadcast against core
    counts.
    """
    return [np.asarray(column).reshape(-1, *([1] * np.ndim(like))) for column in parameters.T]


@dataclass(frozen=True)
class Fit:
    """One law fitted to one set of runs.

    Attributes
    ----------
    law : which.
    values : its parameters, shape (1, parameters).
    aicc : the criterion; infinite where the runs are too few for its correction, None where they
        are too few for the law.
    aic : the same without its correction for few runs.
    rms : root mean square of the residuals, as a share of the run time.
    unknowns : parameters that were free, the error's variance not among them.
    missing : what keeps it from being fitted; empty where it is.
    runs : that it was fitted to.
    """

    law: Law
    values: Float
    aicc: float | None
    rms: float
    unknowns: int
    missing: str = ""
    aic: float | None = None
    runs: int = 0


def weights(runs: Runs) -> Float:
    """Return one over the mean run time of each run's configuration [1 / s]."""
    return 1.0 / runs.mean_of_repeats(runs.seconds)


def aicc(rss: float, runs: int, unknowns: int) -> float:
    """Return AICc from a sum of squared relative residuals; `unknowns` without the error's
    variance.  Infinite for too few runs.

    >>> round(aicc(0.01, 12, 3), 2)
    -71.37
    """
    k = unknowns + 1
    return aic(rss, runs, unknowns) + (
        2 * k * (k + 1) / (runs - k - 1) if runs > k + 1 else math.inf
    )


def aic(rss: float, runs: int, unknowns: int) -> float:
    """Return AIC, the criterion for many runs.

    >>> round(aic(0.01, 12, 3), 2)
    -77.08
    """
    return runs * math.log(max(rss / runs, ROUNDING**2)) + 2 * (unknowns + 1)


def fit(law: Law, runs: Runs) -> Fit:
    """Fit one law to the part of the run time that is not MPI."""
    unknowns, count = law.needs(runs), len(runs)
    fewest = max(FEWEST_RUNS, unknowns + 1)
    missing = []
    # the same counts again say nothing about the shape of a law, nor do splits of the same cores
    # about its limit
    shapes = {"hybrid": 2, "floor": 4}.get(law.name, unknowns)
    if runs.core_counts < shapes:
        missing.append(f"{shapes} different core counts")
    elif runs.shapes < unknowns:
        missing.append(f"{unknowns} different splits")
    if count < fewest:
        missing.append(f"{fewest} runs")
    if missing:
        return Fit(
            law, np.zeros((1, len(law.parameters))), None, math.nan, unknowns, " and ".join(missing)
        )
    w = weights(runs)
    y = (runs.seconds - runs.mpi_seconds)[None, :]
    values = law.fit(runs, y, w)
    rss = float((((y - law.seconds(values, runs.ranks, runs.threads)) * w) ** 2).sum())
    return Fit(
        law,
        values,
        aicc(rss, count, unknowns),
        math.sqrt(rss / count),
        unknowns,
        aic=aic(rss, count, unknowns),
        runs=count,
    )


def misses(fitted: Fit, runs: Runs, limit_seconds: float) -> str:
    """Return in words how a law misses its runs; empty if it does not.

    The residuals decide, their comparison with repeats, or the law's limit.
    """
    if fitted.rms > FAR_OFF:
        return f"residuals of {fitted.rms:.0%} of the run time"
    w, y = weights(runs), runs.seconds - runs.mpi_seconds
    pure = float((((y - runs.mean_of_repeats(y)) * w) ** 2).sum())
    spare, left = len(runs) - runs.shapes, runs.shapes - fitted.unknowns
    if spare >= FEWEST_SPARE and left > 0 and fitted.rms > OFF:
        ratio = (
            ((fitted.rms**2 * len(runs) - pure) / left) / (pure / spare) if pure > 0 else math.inf
        )
        if f_tail(left, spare, ratio) < UNLIKELY:
            return (
                f"residuals of {fitted.rms:.1%} of the run time, repeats differ by "
                f"{math.sqrt(pure / spare):.1%}"
            )
    fastest = float(runs.mean_of_repeats(runs.seconds).min())
    if fastest < (1.0 - OFF) * limit_seconds:
        return f"fastest measured {fastest:.4g} s, shortest by the law {limit_seconds:.4g} s"
    return ""


def redrawn(fitted: Fit, runs: Runs, draws: int, seed: int) -> tuple[Float, Float]:
    """Return parameters and MPI time of draws of the runs: shapes (draws, parameters) and (draws,).

    With repeats (three more runs than configurations) the deviations of repeats from the mean of
    their configuration are drawn again. Without repeats, normal deviations as large as the
    residuals are drawn. The size of the noise is itself drawn, with the uncertainty that so few
    runs leave. It is never below what the law leaves unexplained.
    """
    draw = np.random.Generator(np.random.Philox(seed))
    w, y = weights(runs), runs.seconds - runs.mpi_seconds
    at_law = fitted.law.seconds(fitted.values, runs.ranks, runs.threads)[0]
    left = max(len(runs) - fitted.unknowns, 1)
    residual = math.sqrt(float((((y - at_law) * w) ** 2).sum()) / left)
    noise = residual * draw.standard_normal((draws, len(runs)))
    if (spare := len(runs) - runs.shapes) >= FEWEST_SPARE:
        times = np.bincount(runs.shape_of)[runs.shape_of]
        off = ((y - runs.mean_of_repeats(y)) * w * np.sqrt(times / np.maximum(times - 1, 1)))[
            times > 1
        ]
        pure = math.sqrt(float((off**2).mean()))
        if pure > 0.0:
            noise = off[draw.integers(len(off), size=(draws, len(runs)))] * max(
                1.0, residual / pure
            )
            left = spare
    noise = noise * np.sqrt(left / draw.chisquare(left, size=(draws, 1)))
    scatter = float(np.std(runs.mpi_seconds, ddof=1)) if len(runs) > 1 else 0.0
    t_mpi = runs.mpi_seconds.mean() + scatter / math.sqrt(len(runs)) * draw.standard_normal(draws)
    return fitted.law.fit(runs, np.maximum(at_law + noise / w, 0.0), w), np.maximum(t_mpi, 0.0)
