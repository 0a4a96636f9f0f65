"""Run times of many draws of a long run: some are replayed, the others lie on the pieces of the piecewise linear answer.

The run time is a maximum of linear functions of the parameters, one for each path.  A path found at one draw bounds the run time of all
draws from below.  What the highest of a few such bounds leaves is small and smooth, for a long run adds up many short detours.  It is
fitted on the draws that were replayed, and each of these is predicted from the others.  Only where that is close do the bounds stand in for
a replay.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Float, Int
from turnbuckle.replay.timeline import Change, TimelineReplay

#: Draws times instants up to which each draw is replayed, and draws that are replayed however long the run is.
_REPLAYED: Final = 500_000_000
_FEWEST: Final = 96
#: Quantiles of the replayed run times at which paths are taken.
_PATHS: Final = (0.05, 0.5, 0.95)
#: Largest error of a prediction, as a share of the standard deviation of the run times, at which replays may be left out.
_CLOSE: Final = 0.05


def drawn_seconds(replay: TimelineReplay, change: Change) -> Float:
    """Return the run time after each of many changes [s], shape of the change's leading axes."""
    values = change.values
    rows = values.reshape(-1, values.shape[-1])
    some = max(_REPLAYED // max(len(replay.graph.time_ns), 1), _FEWEST)
    if len(rows) <= 2 * some:
        return replay.seconds_at(values)
    # no activity slower, the run not slower: all draws lie between those of the least and of the largest parameters
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


def _predicted(replay: TimelineReplay, rows: Float, chosen: Int, seconds: Float) -> Float | None:
    """Return the run time of every draw [s], predicted from those replayed; None where the prediction is not close."""
    spread = float(np.std(seconds))
    if not spread:
        return None
    ranked = chosen[np.argsort(seconds, kind="stable")]
    bounds = np.stack([_bound(replay, rows, int(ranked[round(q * (len(ranked) - 1))])) for q in _PATHS], axis=1)
    highest = bounds.max(axis=1)
    scaled = (bounds - bounds[chosen].mean(axis=0)) / spread
    squares = [scaled[:, i] * scaled[:, j] for i in range(len(_PATHS)) for j in range(i, len(_PATHS))]
    features = np.column_stack([np.ones(len(rows)), highest / spread, scaled, *squares])
    known = features[chosen]
    inverse = np.linalg.pinv(known)
    coefficients = inverse @ (seconds - highest[chosen])
    # each one predicted from the others, by what it weighs in its own prediction
    weight = np.einsum("ij,ji->i", known, inverse)
    errors = (seconds - highest[chosen] - known @ coefficients) / np.maximum(1.0 - weight, 1e-9)
    close = float(np.sqrt(np.mean(errors**2))) <= _CLOSE * spread
    return np.maximum(highest + features @ coefficients, 0.0) if close else None


def _bound(replay: TimelineReplay, rows: Float, at: int) -> Float:
    """Return the length of the path that is critical at one draw, at every draw [s]."""
    path = replay.path_at(rows[at])
    gradient = replay.gradient(path)
    return np.asarray(float(replay.seconds_at(rows[at])) + (rows - rows[at]) @ gradient)
