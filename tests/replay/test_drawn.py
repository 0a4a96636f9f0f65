"""Many draws of a long run: what stands in for a replay is what a replay says, or the replay is made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from distances import launch_and_wait, on_full

from turnbuckle.foundation.arrays import Float
from turnbuckle.machine import Pair, load
from turnbuckle.projection import sensitivity, uncertainty
from turnbuckle.projection.model import nething
from turnbuckle.projection.run import DEFAULT_TARGETS
from turnbuckle.replay import drawn
from turnbuckle.replay.drawn import drawn_seconds
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
    return Change(ratio[:, None] * pieces, added[:, None] * pieces, nothing, nothing, np.ones((1, 1)))


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    rows: list[int] = []
    replayed = TimelineReplay.seconds_at

    def seconds_at(self: TimelineReplay, values: Float, threads: int | None = None) -> Float:
        rows.append(values.reshape(-1, values.shape[-1]).shape[0])
        return replayed(self, values, threads)

    monkeypatch.setattr(TimelineReplay, "seconds_at", seconds_at)
    return rows


def test_draws_on_few_paths_need_few_replays(replay: TimelineReplay, monkeypatch: pytest.MonkeyPatch) -> None:
    z = np.random.default_rng(7).standard_normal((2, DRAWS))
    changed = change(replay, np.exp(0.3 * z[0]), 1e-6 * np.exp(z[1]))
    every = replay.seconds(changed)
    rows = counted(monkeypatch)
    found = drawn_seconds(replay, changed)
    assert sum(rows) < DRAWS / 2
    assert np.abs(found - every).max() < 0.05 * every.std()
    assert (found[:: DRAWS - 1] == every[:: DRAWS - 1]).all(), "what was replayed is what it is"


def test_draws_that_change_nothing_need_two_replays(replay: TimelineReplay, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = counted(monkeypatch)
    same = change(replay, np.ones(DRAWS), np.zeros(DRAWS))
    assert (drawn_seconds(replay, same) == replay.seconds(no_change(len(replay.run)))).all()
    assert sum(rows[:-1]) == 2


def test_what_is_not_predicted_closely_is_replayed(replay: TimelineReplay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn, "_CLOSE", -1.0)
    z = np.random.default_rng(7).standard_normal((2, DRAWS))
    changed = change(replay, np.exp(0.3 * z[0]), 1e-6 * np.exp(z[1]))
    assert (drawn_seconds(replay, changed) == replay.seconds(changed)).all()


def test_a_short_run_is_replayed_draw_by_draw(replay: TimelineReplay, monkeypatch: pytest.MonkeyPatch) -> None:
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
        assert 1.2 * sensitivity._LEAST_ROWS * (sensitivity._DEGREE * len(names) + 1) <= uncertainty.FEWEST
