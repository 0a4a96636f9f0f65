"""Run times of many draws of a long run: some are replayed, the others lie on the pieces of the
piecewise linear answer.

The run time is a maximum of linear functions of the parameters, one for each path.  A path found at
one draw bounds the run time of all draws from below.  What the highest of a few such bounds leaves
is small and smooth, for a long run adds up many short detours.  It is fitted on the draws that were
replayed, and each of these is predicted from the others.  Only where that is close do the bounds
stand in for a replay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Float, Int
from turnbuckle.replay.timeline import Change, TimelineReplay

#: Draws times instants up to which each draw is replayed, and draws that are replayed however long
#: the run is.
_REPLAYED: Final = 500_000_000
_FEWEST: Final = 96
#: Quantiles of the replayed run times at which paths are taken.
_PATHS: Final = (0.05, 0.5, 0.95)
#: Largest error of a prediction, as a share of the standard deviation of the run times, at which
#: replays may be left out.
_CLOSE: Final = 0.05

#: Ranks of draws at which bounds that many points share are looked at, and others at which they are
#: judged.
_LOOKED: Final = (0.02, 0.05, 0.25, 0.5, 0.75, 0.95, 0.98)
_JUDGED: Final = (0.12, 0.88)
#: Paths that points share, at most, and the error as a share of the standard deviation at which no
#: more are looked for.
_SHARED: Final = 24
_ENOUGH: Final = 0.01
#: Rows that the native core answers in one pass.
_AT_ONCE: Final = 8


def drawn_seconds(replay: TimelineReplay, change: Change) -> Float:
    """Return the run time after each of many changes [s], shape of the change's leading axes:
    (draws,), or (points, draws).

    Each point is answered as it would be alone.
    """
    values = change.values
    if values.ndim > 2 and values.shape[-2] > 2 * _affordable(replay):
        return np.stack([_of_rows(replay, each) for each in values])
    return _of_rows(replay, values)


def _affordable(replay: TimelineReplay) -> int:
    """Return how many draws of a run are replayed; of twice as many all are."""
    return max(_REPLAYED // max(len(replay.graph.time_ns), 1), _FEWEST)


def _of_rows(replay: TimelineReplay, values: Float) -> Float:
    rows = values.reshape(-1, values.shape[-1])
    if len(rows) > 1 and (rows == rows[0]).all():  # nothing is drawn that the order asks for
        return np.full(values.shape[:-1], float(replay.seconds_at(rows[0])))
    some = _affordable(replay)
    if values.ndim > 2 or len(rows) <= 2 * some:
        return replay.seconds_at(values)
    # no activity slower, the run not slower: all draws lie between those of the least and of the
    # largest parameters
    least, most = replay.seconds_at(np.stack([rows.min(axis=0), rows.max(axis=0)]))
    if least == most:
        return np.full(values.shape[:-1], least)
    # draws are in no order: those taken at even steps are a sample of them
    chosen = np.unique(np.linspace(0, len(rows) - 1, some).astype(np.int64))
    rest = np.setdiff1d(np.arange(len(rows)), chosen)
    seconds = np.empty(len(rows))
    seconds[chosen] = replay.seconds_at(rows[chosen])
    predicted = _predicted(replay, rows, chosen, seconds[chosen])
    seconds[rest] = replay.seconds_at(rows[rest]) if predicted is None else predicted[rest]
    return seconds.reshape(values.shape[:-1])


def along_seconds(replay: TimelineReplay, points: Iterable[Change]) -> list[Float]:
    """Return the run times of the same draws at many points of a curve [s], shape (draws,) each.

    A path found at one draw of one point bounds the run time of every draw at every point from
    below, so that a few paths serve all points. Paths are added where the highest of their bounds
    is off most. At each point other draws judge them: where they are not close, its draws are those
    of `drawn_seconds`.
    """
    base, drawn = None, []
    for change in points:
        values = change.values.reshape(-1, change.values.shape[-1])
        base = values[0].copy() if base is None else base
        columns = np.flatnonzero((values != base).any(axis=0))
        drawn.append((columns, values[:, columns] - base[columns], len(values)))
    assert base is not None
    columns = np.unique(np.concatenate([c for c, _, _ in drawn]))
    rows = np.zeros((len(drawn), max(n for _, _, n in drawn), len(columns)))
    for k, (some, values, _) in enumerate(drawn):
        rows[k][:, np.searchsorted(columns, some)] = values

    def full(which: Float) -> Float:
        out = np.repeat(base[None, :], len(which), axis=0)
        out[:, columns] += which
        return out

    flat = rows.reshape(-1, rows.shape[-1])
    bounds = _shared_bounds(replay, flat, full, rows.shape[:2], columns)
    spread = np.maximum(bounds.std(axis=1), 1e-9 * bounds.max(axis=1))
    judged = _ranked(bounds, _JUDGED)
    off = (
        replay.seconds_at(full(flat[judged.ravel()])).reshape(judged.shape) - bounds.ravel()[judged]
    )
    close = np.abs(off).max(axis=1) <= _CLOSE * spread
    return [bounds[k] if close[k] else _of_rows(replay, full(rows[k])) for k in range(len(rows))]


def _ranked(bounds: Float, ranks: tuple[float, ...]) -> Int:
    """Return the draws at some ranks of each point, as numbers among all draws of all points; shape
    (points, ranks).
    """
    order = np.argsort(bounds, axis=1, kind="stable")
    places = np.round(np.array(ranks) * (bounds.shape[1] - 1)).astype(np.int64)
    return np.asarray(order[:, places] + np.arange(len(bounds))[:, None] * bounds.shape[1])


def _shared_bounds(
    replay: TimelineReplay,
    flat: Float,
    full: Callable[[Float], Float],
    shape: tuple[int, int],
    columns: Int,
) -> Float:
    """Return the highest of the bounds by paths that all points share [s], shape (points,
    draws).
    """
    bounds = np.full(len(flat), -np.inf)

    def add(draw: int, seconds: float, slopes: Float) -> None:
        np.maximum(bounds, seconds + (flat - flat[draw]) @ slopes[columns], out=bounds)

    middle = shape[1] // 2 + np.array([0, shape[0] // 2, shape[0] - 1]) * shape[1]
    for draw, last, slopes in zip(
        middle.tolist(), *replay.tangents(full(flat[middle])), strict=True
    ):
        add(draw, last, slopes)
    looked = _ranked(bounds.reshape(shape), _LOOKED).ravel()
    seconds = replay.seconds_at(full(flat[looked]))
    slopes_of: dict[int, Float] = {}
    for _ in range(_SHARED):
        spread = np.maximum(
            bounds.reshape(shape).std(axis=1), 1e-9 * bounds.reshape(shape).max(axis=1)
        )
        off = (seconds - bounds[looked]) / spread[looked // shape[1]]
        worst = int(np.argmax(off))
        if off[worst] <= _ENOUGH:
            break
        if worst not in slopes_of:  # those that are off most now are likely to be wanted next
            likely = np.argsort(-off, kind="stable")[:_AT_ONCE]
            slopes_of.update(
                zip(likely.tolist(), replay.tangents(full(flat[looked[likely]]))[1], strict=True)
            )
        add(int(looked[worst]), float(seconds[worst]), slopes_of[worst])
    return bounds.reshape(shape)


def _predicted(replay: TimelineReplay, rows: Float, chosen: Int, seconds: Float) -> Float | None:
    """Return the run time of every draw [s], predicted from those replayed; None where the
    prediction is not close.
    """
    spread = float(np.std(seconds))
    if not spread:
        return None
    ranked = chosen[np.argsort(seconds, kind="stable")]
    touched = rows[[int(ranked[round(q * (len(ranked) - 1))]) for q in _PATHS]]
    bounds = np.stack(
        [
            last + (rows - row) @ slopes
            for row, last, slopes in zip(touched, *replay.tangents(touched), strict=True)
        ],
        axis=1,
    )
    highest = bounds.max(axis=1)
    scaled = (bounds - bounds[chosen].mean(axis=0)) / spread
    squares = [
        scaled[:, i] * scaled[:, j] for i in range(len(_PATHS)) for j in range(i, len(_PATHS))
    ]
    features = np.column_stack([np.ones(len(rows)), highest / spread, scaled, *squares])
    replayed = features[chosen]
    inverse = np.linalg.pinv(replayed)
    coefficients = inverse @ (seconds - highest[chosen])
    # each one predicted from the others, by what it weighs in its own prediction
    weight = np.einsum("ij,ji->i", replayed, inverse)
    errors = (seconds - highest[chosen] - replayed @ coefficients) / np.maximum(1.0 - weight, 1e-9)
    close = float(np.sqrt(np.mean(errors**2))) <= _CLOSE * spread
    return np.maximum(highest + features @ coefficients, 0.0) if close else None
