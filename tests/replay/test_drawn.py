"""Many draws of a long run: what stands in for a replay is what a replay says, or the replay is
made.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from distances import launch_and_wait, on_full

from turnbuckle.foundation.arrays import Float
from turnbuckle.machine import Pair, load
from turnbuckle.projection import sensitivity, uncertainty
from turnbuckle.projection.admission import DEFAULT_TARGETS
from turnbuckle.projection.model import nething
from turnbuckle.replay import drawn
from turnbuckle.replay.drawn import along_seconds, drawn_seconds
from turnbuckle.replay.timeline import Change, TimelineReplay, no_change

DRAWS = 400


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch) -> TimelineReplay:
    """A run that counts as long."""
    monkeypatch.setattr(drawn, "_REPLAYED", 0)
    found = on_full(launch_and_wait(40)).ordered.timeline
    assert found is not None
    return found


def change(replay: TimelineReplay, ratio: Float, added: Float) -> Change:
    """Change all durations alike, and add a time to every activity [s]; both of shape (draws,)."""
    pieces = np.ones(len(replay.run))
    nothing = 0.0 * pieces
    return Change(
        ratio[:, None] * pieces, added[:, None] * pieces, nothing, nothing, np.ones((1, 1))
    )


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    rows: list[int] = []
    replayed = TimelineReplay.seconds_at

    def seconds_at(self: TimelineReplay, values: Float, threads: int | None = None) -> Float:
        rows.append(values.reshape(-1, values.shape[-1]).shape[0])
        return replayed(self, values, threads)

    monkeypatch.setattr(TimelineReplay, "seconds_at", seconds_at)
    return rows


def test_draws_on_few_paths_need_few_replays(
    replay: TimelineReplay, monkeypatch: pytest.MonkeyPatch
) -> None:
    z = np.random.default_rng(7).standard_normal((2, DRAWS))
    changed = change(replay, np.exp(0.3 * z[0]), 1e-6 * np.exp(z[1]))
    every = replay.seconds(changed)
    rows = counted(monkeypatch)
    found = drawn_seconds(replay, changed)
    assert sum(rows) < DRAWS / 2
    assert np.abs(found - every).max() < 0.05 * every.std()
    assert (found[:: DRAWS - 1] == every[:: DRAWS - 1]).all(), "what was replayed is what it is"


def test_draws_that_are_alike_need_one_replay(
    replay: TimelineReplay, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = counted(monkeypatch)
    same = change(replay, np.ones(DRAWS), np.zeros(DRAWS))
    found = drawn_seconds(replay, same)
    assert sum(rows) == 1 and (found == replay.seconds(no_change(len(replay.run)))).all()


def test_draws_that_change_nothing_need_two_replays(
    replay: TimelineReplay, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.repeat(no_change(len(replay.run)).values.reshape(1, -1), DRAWS, axis=0)
    values[:, np.flatnonzero(replay._weights == 0.0)[0]] += np.linspace(0.0, 1e-6, DRAWS)
    rows = counted(monkeypatch)
    found = drawn._of_rows(replay, values)
    assert sum(rows) == 2 and (found == replay.seconds(no_change(len(replay.run)))).all()


def test_what_is_not_predicted_closely_is_replayed(
    replay: TimelineReplay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawn, "_CLOSE", -1.0)
    z = np.random.default_rng(7).standard_normal((2, DRAWS))
    changed = change(replay, np.exp(0.3 * z[0]), 1e-6 * np.exp(z[1]))
    assert (drawn_seconds(replay, changed) == replay.seconds(changed)).all()


def test_a_short_run_is_replayed_draw_by_draw(
    replay: TimelineReplay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawn, "_REPLAYED", 500_000_000)
    changed = change(replay, np.linspace(0.5, 2.0, DRAWS), np.zeros(DRAWS))
    assert (drawn_seconds(replay, changed) == replay.seconds(changed)).all()


def test_the_draws_of_a_long_run_tell_all_its_numbers_apart() -> None:
    """Fewer would have each number drawn alone, with replays of its own."""
    seen = on_full(launch_and_wait(40))
    model, ready = replace(nething(), replay="timeline"), seen.ordered
    question = uncertainty.uncertain(ready, seen.source, seen.fits, draws=uncertainty.FEWEST)
    for name in DEFAULT_TARGETS:
        target = load(name)
        names = question.names(target, Pair(seen.source, target), model)
        assert (
            1.2 * sensitivity._LEAST_ROWS * (sensitivity._DEGREE * len(names) + 1)
            <= uncertainty.FEWEST
        )


def test_points_of_a_curve_share_their_paths(
    replay: TimelineReplay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two parameters that are drawn, at twelve points of a curve: a dozen replays a point tell all
    draws.
    """
    r = np.random.default_rng(3)
    ratio, added = np.exp(0.2 * r.normal(size=DRAWS)), np.exp(0.5 * r.normal(size=DRAWS))
    points = [
        change(replay, 1 + away * (ratio - 0.5), away * 1e-5 * added)
        for away in np.geomspace(1e-3, 10, 12)
    ]
    exact = [replay.seconds(point) for point in points]
    rows = counted(monkeypatch)
    found = along_seconds(replay, points)
    assert sum(rows) < 12 * 12 < 12 * DRAWS
    for seconds, true in zip(found, exact, strict=True):
        assert (seconds <= true * (1 + 1e-12)).all(), "bounds from below"
        assert np.abs(seconds - true).max() <= 0.05 * true.std()
        assert np.quantile(seconds, [0.05, 0.95]) == pytest.approx(
            np.quantile(true, [0.05, 0.95]), abs=0.01 * true.std()
        )


def test_a_point_that_paths_do_not_tell_is_drawn_for_itself(
    replay: TimelineReplay, monkeypatch: pytest.MonkeyPatch
) -> None:
    r = np.random.default_rng(4)
    points = [
        change(replay, np.exp(0.2 * r.normal(size=DRAWS)), away * np.ones(DRAWS))
        for away in (0.0, 1e-4)
    ]
    exact = [replay.seconds(point) for point in points]
    monkeypatch.setattr(
        drawn, "_shared_bounds", lambda replay, flat, full, shape, columns: np.ones(shape)
    )
    for seconds, true in zip(along_seconds(replay, points), exact, strict=True):
        assert np.abs(seconds - true).max() <= 0.2 * true.std()


def test_points_where_nothing_is_drawn(replay: TimelineReplay) -> None:
    pieces = np.ones((1, 1))
    points = [change(replay, pieces[0] * ratio, pieces[0] * 0.0) for ratio in (1.0, 2.0)]
    found = along_seconds(replay, points)
    assert [f.shape for f in found] == [(1,), (1,)] and [
        float(f[0]) for f in found
    ] == pytest.approx([float(replay.seconds(point)[0]) for point in points])
