"""Lines through measured times by size, and the errors with which half of the sizes predicts the
other half.

    T(n) = a + n / b                                               [s], n in bytes

by the robust relative fit that recordings get (`turnbuckle.profile.transfers.fit_line`).  Where one
line does not hold, up to three of them, each over its own sizes (protocols, caches): a further one
must lower Akaike's criterion by 10 and the worst error too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from turnbuckle.foundation.arrays import Float
from turnbuckle.machine.measured.logs import Curve
from turnbuckle.profile.transfers import MIN_SIZES, MIN_SPAN, fit_line

#: Points of a piece, pieces, and places tried for an end of one.
LEAST, MOST_PIECES, PLACES = 5, 3, 32
#: What a further piece must be worth in Akaike's criterion.
GAIN = 10.0
#: Points printed more coarsely than this share are left out of a fit where finer ones are enough.
FINE = 0.05
#: Relative error below which no fit is believed: two runs of one test differ by as much.
FLOOR = 0.01


@dataclass(frozen=True)
class Piece:
    """One line: sizes it holds for [B], latency a [s], rate b [B/s] (infinite where size does not
    matter), relative errors.
    """

    smallest: float
    largest: float
    latency: float
    rate: float
    latency_error: float
    rate_error: float

    def seconds(self, size_bytes: Float) -> Float:
        return np.asarray(self.latency + size_bytes / self.rate)


@dataclass(frozen=True)
class CurveFit:
    """A measured curve with its fitted lines and their errors.

    Attributes
    ----------
    curve : what was fitted.
    line : one line through all points.
    pieces : one, or up to three that follow each other.
    line_median, line_worst : relative error of the line at its own points; ``pieces_...`` that of
        the pieces.
    used_median, used_worst : relative error of the latency of the first piece and the rate of the
        last as one line: what models make of it.
    held_median, held_worst : relative error at sizes that were not fitted: every other size
        predicts the others, and back.
    held_points : sizes so predicted.
    """

    curve: Curve
    line: Piece
    pieces: tuple[Piece, ...]
    line_median: float
    line_worst: float
    pieces_median: float
    pieces_worst: float
    used_median: float
    used_worst: float
    held_median: float
    held_worst: float
    held_points: int

    def seconds(self, size_bytes: Float) -> Float:
        """Return the time by the piece that a size belongs to [s]."""
        return _by_pieces(self.pieces, np.asarray(size_bytes, dtype=np.float64))

    @property
    def broken(self) -> bool:
        return len(self.pieces) > 1


def fit_curve(curve: Curve) -> CurveFit | None:
    """Fit one curve; None if its sizes are too few or too close together to separate latency from
    rate.
    """
    size, seconds = _usable(curve)
    if len(size) < MIN_SIZES or size[-1] < MIN_SPAN * size[0]:
        return None
    pieces = _pieces(size, seconds)
    halves = [(size[k::2], seconds[k::2]) for k in (0, 1)]
    lines = [_line(*half) for half in halves if len(half[0]) >= MIN_SIZES]
    broken_lines = [_pieces(*half) for half in halves if len(half[0]) >= MIN_SIZES]
    held = _held_out(halves, broken_lines)
    line = _at_least(_line(size, seconds), _apart([(half, half) for half in lines]))
    # the first piece gives the latency, the last the rate; their errors are at least the difference
    # between two halves of the points
    first, last = _apart([(half[0], half[-1]) for half in broken_lines])
    pieces = tuple(
        _at_least(p, (first if p is pieces[0] else 0.0, last if p is pieces[-1] else 0.0))
        for p in pieces
    )
    used = pieces[0].latency + size / pieces[-1].rate
    line_errors, piece_errors, used_errors = (
        np.abs(np.log(seconds / t))
        for t in (line.seconds(size), _by_pieces(pieces, size), np.maximum(used, 1e-300))
    )
    return CurveFit(
        curve,
        line,
        pieces,
        *_shares(line_errors),
        *_shares(piece_errors),
        *_shares(used_errors),
        *_shares(held),
        len(held),
    )


def _shares(log_errors: Float) -> tuple[float, float]:
    """Return the median and the largest of some errors."""
    return (
        (float(np.expm1(np.median(log_errors))), float(np.expm1(log_errors.max())))
        if len(log_errors)
        else (math.nan, math.nan)
    )


def _usable(curve: Curve) -> tuple[Float, Float]:
    fine = (
        curve.resolution <= FINE
        if len(curve.resolution) == len(curve.size_bytes)
        else np.ones(len(curve.size_bytes), dtype=bool)
    )
    size = curve.size_bytes[fine]
    if len(size) >= 2 * MIN_SIZES and size[-1] >= MIN_SPAN * size[0]:
        return size, curve.seconds[fine]
    return curve.size_bytes, curve.seconds


def _line(size: Float, seconds: Float) -> Piece:
    (a, b), covariance, _ = fit_line(size, seconds)
    a, b = float(a), float(b)
    spread = np.sqrt(np.maximum(np.diag(covariance), 0.0)).tolist()
    error, rate_error = (
        min(s / value, 3.0) if value > 0 else 3.0 for s, value in zip(spread, (a, b), strict=True)
    )
    return Piece(
        float(size[0]), float(size[-1]), a, 1.0 / b if b > 0 else math.inf, error, rate_error
    )


def _at_least(piece: Piece, apart: tuple[float, float]) -> Piece:
    """Raise the errors to the floor, and to the difference between fits of two halves of the
    points.
    """
    latency, rate = (
        min(math.hypot(e, a, FLOOR), 3.0)
        for e, a in zip((piece.latency_error, piece.rate_error), apart, strict=True)
    )
    return replace(piece, latency_error=latency, rate_error=rate)


def _apart(halves: list[tuple[Piece, Piece]]) -> tuple[float, float]:
    """Return half the difference of latency and of rate between fits of two halves of the points,
    as shares; 0 for fewer halves.

    Each half has the piece that gives its latency and the piece that gives its rate.
    """
    if len(halves) < 2:
        return 0.0, 0.0
    (latency, rate), (other_latency, other_rate) = halves
    return _differ(latency.latency, other_latency.latency), _differ(
        1 / rate.rate, 1 / other_rate.rate
    )


def _differ(first: float, second: float) -> float:
    return abs(first - second) / (first + second) if first + second > 0 else 0.0


def _pieces(size: Float, seconds: Float) -> tuple[Piece, ...]:
    """Divide the curve where it pays most, repeatedly."""
    line = cache(lambda a, b: _line(size[a:b], seconds[a:b]))

    def residuals(ends: list[int]) -> Float:
        return np.concatenate(
            [
                np.log(seconds[a:b] / line(a, b).seconds(size[a:b]))
                for a, b in itertools.pairwise(ends)
            ]
        )

    ends = [0, len(size)]
    while len(ends) - 1 < MOST_PIECES:
        tried = [sorted([*ends, k]) for k in _places(ends)]
        if not tried:
            break
        off, best_off, best = (
            residuals(ends),
            *min(((residuals(e), e) for e in tried), key=lambda fit: _criterion(fit[0], len(ends))),
        )
        if _criterion(best_off, len(ends)) > _criterion(off, len(ends) - 1) - GAIN or _worst(
            best_off
        ) > 0.8 * _worst(off):
            break
        ends = best
    return tuple(line(a, b) for a, b in itertools.pairwise(ends))


def _places(ends: list[int]) -> list[int]:
    out: list[int] = []
    for a, b in itertools.pairwise(ends):
        if b - a >= 2 * LEAST:
            out += sorted(
                {
                    int(k)
                    for k in np.linspace(a + LEAST, b - LEAST, min(PLACES, b - a - 2 * LEAST + 1))
                }
            )
    return out


def _criterion(residuals: Float, pieces: int) -> float:
    """Return AICc of the log residuals, with residuals beyond three robust deviations pulled in."""
    spread = max(1.4826 * float(np.median(np.abs(residuals))), 1e-4)
    clipped = np.clip(residuals, -10 * spread, 10 * spread)
    n, k = len(clipped), 3 * pieces
    return (
        n * math.log(max(float((clipped**2).mean()), 1e-8))
        + 2 * k
        + (2 * k * (k + 1) / (n - k - 1) if n > k + 1 else math.inf)
    )


def _worst(residuals: Float) -> float:
    return max(float(np.quantile(np.abs(residuals), 0.95)), 1e-9)


def _by_pieces(pieces: tuple[Piece, ...], size: Float) -> Float:
    out = pieces[0].seconds(size)
    for before, piece in itertools.pairwise(pieces):
        out = np.where(size > math.sqrt(before.largest * piece.smallest), piece.seconds(size), out)
    return out


def _held_out(halves: Sequence[tuple[Float, Float]], fits: Sequence[tuple[Piece, ...]]) -> Float:
    """Return the absolute log error of every size as the other half predicts it, inside that half's
    sizes.
    """
    out = [np.zeros(0)]
    for (fitted, _), (size, seconds), pieces in zip(halves, halves[::-1], fits, strict=False):
        inside = (size >= fitted[0]) & (size <= fitted[-1])
        out.append(np.abs(np.log(seconds[inside] / _by_pieces(pieces, size[inside]))))
    return np.concatenate(out)


def step_of(curve: Curve) -> tuple[float, float, float] | None:
    """Find where the time of a call jumps: the size below, the size above [B], and the factor
    between them; None without a jump.

    With a latency and a rate, time never grows faster than the size. Growth beyond that shows a
    change of method: at least a quarter, and thrice what 95 % of the other neighbours show.
    """
    size, seconds = curve.size_bytes, curve.seconds
    if len(size) < 2 * MIN_SIZES:
        return None
    beyond = np.log(seconds[1:] / seconds[:-1]) - np.log(size[1:] / size[:-1])
    jump = int(np.argmax(beyond))
    rest = np.maximum(np.delete(beyond, jump), 0.0)
    if beyond[jump] < math.log(1.25) or beyond[jump] < 3 * float(np.quantile(rest, 0.95)):
        return None
    return float(size[jump]), float(size[jump + 1]), float(seconds[jump + 1] / seconds[jump])
