"""Run time against CPU cores per GPU: four laws, and the fewest cores that reach an efficiency.

    (5)      t_total - t_MPI = c_seq + c_MPI / n_MPI + c_OMP / n_OMP + c_hyb / (n_MPI n_OMP)        hybrid
    (4.3.2)  T(n) = alpha + beta exp(-lambda n)                                                   exponential
    (USL)    T(n) = T_1 (1 + sigma (n - 1) + kappa n (n - 1)) / n                                   usl
    (floor)  T(n) = max(serial + shared / n, floor)                                               floor

    (6)      T_model = t_MPI + (5);  minimise n_MPI n_OMP  such that  T_inf / T_model >= efficiency

(4.3.2), (5) and (6): ECP report, sections 4.3 and 6.  T_inf is t_MPI + c_seq, the limit of (6),
where the report prints t_MPI + t_OMP (decision D3).  USL: Gunther, *Guerrilla Capacity Planning*,
2007: sigma is contention, what does not run in parallel, time on the GPU included; kappa is
coherency, what every further core costs all others, so that too many cores make a run slower.  Its
best run time stands in for T_inf.  The floor is a bound of the slower of two (Lazowska et al.,
*Quantitative System Performance*, 1984): from some number of cores on the GPU alone sets the run
time, and further cores change nothing.

All of it holds for one size of problem, and between the core counts that were measured.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from turnbuckle.foundation.arrays import Float

Range = tuple[float, float]

ANY: Range = (1.0, math.inf)
_HALVINGS = 100
_MOST_CORES = 1e9


def hybrid_seconds(
    ranks: ArrayLike,
    threads: ArrayLike,
    c_seq: ArrayLike,
    c_mpi: ArrayLike,
    c_omp: ArrayLike,
    c_hyb: ArrayLike,
) -> Float:
    """Return the run time without MPI [s] by equation 5.

    Parameters
    ----------
    ranks, threads : MPI ranks per GPU and OpenMP threads per rank, above 0; all broadcast.
    c_seq, c_mpi, c_omp, c_hyb : what runs on one core, on ranks, on threads, on both [s]; not
        negative.

    >>> float(hybrid_seconds(2, 4, 10.0, 4.0, 8.0, 16.0))
    16.0
    """
    n, m = np.asarray(ranks, dtype=np.float64), np.asarray(threads, dtype=np.float64)
    return np.asarray(
        np.asarray(c_seq)
        + np.asarray(c_mpi) / n
        + np.asarray(c_omp) / m
        + np.asarray(c_hyb) / (n * m)
    )


def hybrid_limit(t_mpi: ArrayLike, c_seq: ArrayLike) -> Float:
    """Return T_inf of equation 6 [s]: all terms with a core count below them vanish (decision D3).

    >>> float(hybrid_limit(2.0, 10.0))
    12.0
    """
    return np.asarray(np.asarray(t_mpi, dtype=np.float64) + np.asarray(c_seq))


def exponential_seconds(
    cores: ArrayLike, alpha: ArrayLike, beta: ArrayLike, rate: ArrayLike
) -> Float:
    """Return a run time that decays with the cores [s], section 4.3.2.

    alpha and beta [s] are not negative, rate [1 / core] is above 0.

    >>> float(exponential_seconds(0, 100.0, 50.0, 0.7))
    150.0
    """
    return np.asarray(
        np.asarray(alpha)
        + np.asarray(beta) * np.exp(-np.asarray(rate) * np.asarray(cores, dtype=np.float64))
    )


def exponential_cores(
    alpha: ArrayLike, beta: ArrayLike, rate: ArrayLike, efficiency: ArrayLike = 0.9
) -> Float:
    """Return the cores at which alpha / T reaches an efficiency in (0, 1): ln(9 beta / alpha) /
    lambda at 90 %.

    Below 1, even below 0, where fewer than one core would do; infinite where alpha is 0.

    >>> round(float(exponential_cores(121.89, 137.99, 0.766)), 2)
    3.03
    """
    share = np.asarray(efficiency, dtype=np.float64)
    with np.errstate(all="ignore"):
        room = np.asarray(alpha, dtype=np.float64) * (1.0 - share) / share
        return np.asarray(
            np.where(
                np.asarray(beta) > 0, np.log(np.asarray(beta) / room) / np.asarray(rate), -math.inf
            )
        )


def usl_seconds(
    cores: ArrayLike, first: ArrayLike, contention: ArrayLike, coherency: ArrayLike
) -> Float:
    """Return the run time [s] by the universal scalability law.

    Parameters
    ----------
    cores : above 0; below 1 there is no coherency to pay for.
    first : run time on one core [s].
    contention : sigma, share of it that does not run in parallel, 0 to 1.
    coherency : kappa, cost of every further core as a share of it, not negative.

    >>> round(float(usl_seconds(4, 100.0, 0.2, 0.01)), 6)
    43.0
    """
    n, sigma = np.asarray(cores, dtype=np.float64), np.asarray(contention)
    return np.asarray(
        np.asarray(first)
        * ((1.0 - sigma) / n + sigma + np.asarray(coherency) * np.maximum(n - 1.0, 0.0))
    )


def usl_fastest_cores(contention: ArrayLike, coherency: ArrayLike) -> Float:
    """Return the cores at which a run is fastest, sqrt((1 - sigma) / kappa), 1 or more; infinite
    without coherency.

    >>> float(usl_fastest_cores(0.19, 0.01)), float(usl_fastest_cores(0.2, 0.0))
    (9.0, inf)
    """
    left, kappa = (
        1.0 - np.asarray(contention, dtype=np.float64),
        np.asarray(coherency, dtype=np.float64),
    )
    with np.errstate(all="ignore"):
        return np.asarray(np.maximum(1.0, np.where(kappa > 0, np.sqrt(left / kappa), math.inf)))


def usl_limit(
    t_mpi: ArrayLike, first: ArrayLike, contention: ArrayLike, coherency: ArrayLike
) -> Float:
    """Return the shortest run time of the law at any number of cores, plus MPI [s].

    >>> float(usl_limit(1.0, 100.0, 0.2, 0.0))
    21.0
    """
    best = usl_fastest_cores(contention, coherency)
    endless = np.isinf(best)
    at_best = usl_seconds(np.where(endless, 1.0, best), first, contention, coherency)
    return np.asarray(
        np.asarray(t_mpi) + np.where(endless, np.asarray(first) * np.asarray(contention), at_best)
    )


def usl_cores(
    t_mpi: ArrayLike,
    first: ArrayLike,
    contention: ArrayLike,
    coherency: ArrayLike,
    efficiency: ArrayLike = 0.9,
) -> Float:
    """Return the fewest cores whose run time is within an efficiency of the shortest one; infinite
    if no number is.

    >>> round(float(usl_cores(0.0, 100.0, 0.2, 0.0)), 6)
    36.0
    """
    first_s, sigma = np.asarray(first, dtype=np.float64), np.asarray(contention, dtype=np.float64)
    shared, each = first_s * (1.0 - sigma), first_s * np.asarray(coherency)
    allowed = (
        usl_limit(t_mpi, first, sigma, coherency) / np.asarray(efficiency)
        - np.asarray(t_mpi)
        - first_s * sigma
        + each
    )
    # shared / n + each n = allowed: the smaller root, written so that it holds without coherency
    root = np.sqrt(np.maximum(allowed**2 - 4.0 * shared * each, 0.0))
    with np.errstate(all="ignore"):
        many = 2.0 * shared / (allowed + root)
        # below one core there is no coherency: shared / n = allowed - each
        return np.asarray(
            np.where(shared > 0, np.where(many < 1.0, shared / (allowed - each), many), 0.0)
        )


def best_ranks(
    cores: ArrayLike, c_mpi: ArrayLike, c_omp: ArrayLike, ranks: Range = ANY, threads: Range = ANY
) -> Float:
    """Return the ranks that minimise equation 5 at a number of cores, a real number within the
    ranges of ranks and threads.

    >>> float(best_ranks(16, 4.0, 1.0)), float(best_ranks(16, 0.0, 1.0))
    (8.0, 1.0)
    """
    n, on_ranks, on_threads = (
        np.asarray(cores, dtype=np.float64),
        np.asarray(c_mpi),
        np.asarray(c_omp),
    )
    with np.errstate(all="ignore"):
        free = np.where(
            on_threads > 0,
            np.sqrt(n * on_ranks / on_threads),
            np.where(on_ranks > 0, math.inf, 0.0),
        )
    return np.asarray(
        np.clip(
            free,
            np.maximum(ranks[0], n / threads[1]),
            np.maximum(np.minimum(ranks[1], n / threads[0]), ranks[0]),
        )
    )


def hybrid_cores(
    t_mpi: ArrayLike,
    c_seq: ArrayLike,
    c_mpi: ArrayLike,
    c_omp: ArrayLike,
    c_hyb: ArrayLike,
    efficiency: float = 0.9,
    *,
    ranks: Range = ANY,
    threads: Range = ANY,
) -> Float:
    """Return the least n_MPI n_OMP with T_inf / T_model >= efficiency: equation 6 over real
    numbers.

    Parameters
    ----------
    ranks, threads : least and most of each; both ends alike hold it.  The fewest of each is the
        answer where those do.

    Returns
    -------
    Cores per GPU, shape of the coefficients; infinite where no number below 10^9 is enough.  With
    one rank it is 9 c_OMP / T_inf at 90 %.

    >>> round(float(hybrid_cores(0.0, 100.0, 0.0, 38.9, 0.0, ranks=(1, 1))), 2)
    3.5
    """
    given = np.broadcast_arrays(
        *(np.asarray(v, dtype=np.float64) for v in (t_mpi, c_seq, c_mpi, c_omp, c_hyb))
    )
    _, _, on_ranks, on_threads, on_both = given
    allowed = hybrid_limit(given[0], given[1]) * (1.0 / efficiency - 1.0)

    def left(cores: Float) -> Float:
        n = best_ranks(cores, on_ranks, on_threads, ranks, threads)
        return hybrid_seconds(
            n, np.maximum(cores / n, threads[0]), 0.0, on_ranks, on_threads, on_both
        )

    least, most = ranks[0] * threads[0], min(_MOST_CORES, ranks[1] * threads[1])
    low, high = np.full(allowed.shape, math.log(least)), np.full(allowed.shape, math.log(most))
    never, at_once = left(np.exp(high)) > allowed, left(np.exp(low)) <= allowed
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        enough = left(np.exp(middle)) <= allowed
        before = low, high
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        if np.array_equal(before, (low, high)):
            break
    return np.asarray(np.where(at_once, least, np.where(never, math.inf, np.exp(high))))


def floor_seconds(
    cores: ArrayLike, serial: ArrayLike, shared: ArrayLike, floor: ArrayLike
) -> Float:
    """Return a run time that falls with the cores down to a floor [s].

    serial, shared and floor [s] are not negative; all broadcast.

    >>> floor_seconds([1, 2, 4, 8], 10.0, 80.0, 30.0).tolist()
    [90.0, 50.0, 30.0, 30.0]
    """
    n = np.asarray(cores, dtype=np.float64)
    return np.asarray(np.maximum(np.asarray(serial) + np.asarray(shared) / n, floor))


def floor_cores(
    t_mpi: ArrayLike,
    serial: ArrayLike,
    shared: ArrayLike,
    floor: ArrayLike,
    efficiency: float = 0.9,
) -> Float:
    """Return the cores at which the run time is the shortest over the efficiency: below the bend,
    since the bend itself reaches all.

    >>> float(floor_cores(0.0, 0.0, 90.0, 10.0)), float(floor_cores(0.0, 10.0, 0.0, 10.0))
    (8.1, 0.0)
    """
    given = np.broadcast_arrays(
        *(np.asarray(v, dtype=np.float64) for v in (t_mpi, serial, shared, floor))
    )
    limit = given[0] + np.maximum(given[1], given[3])
    room = limit / efficiency - given[0] - given[1]
    return np.asarray(
        np.divide(given[2], room, out=np.where(given[2] > 0, math.inf, 0.0), where=room > 0)
    )


def split_cores(
    cores: int,
    c_mpi: float,
    c_omp: float,
    c_hyb: float,
    ranks: tuple[int, int],
    threads: tuple[int, int],
) -> tuple[int, int] | None:
    """Return the whole numbers of ranks and threads that minimise equation 5 with exactly so many
    cores; None if none fit.

    >>> split_cores(6, 4.0, 8.0, 1.0, (1, 8), (1, 8))
    (2, 3)
    """
    small = np.arange(1, math.isqrt(cores) + 1)
    low = small[cores % small == 0].tolist()
    splits = [(n, cores // n) for n in sorted({*low, *(cores // n for n in low)})]
    splits = [
        (n, m) for n, m in splits if ranks[0] <= n <= ranks[1] and threads[0] <= m <= threads[1]
    ]
    return min(
        splits,
        key=lambda s: float(hybrid_seconds(s[0], s[1], 0.0, c_mpi, c_omp, c_hyb)),
        default=None,
    )
