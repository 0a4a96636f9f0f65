"""Memory is returned to the system after long steps alone."""

from __future__ import annotations

import pytest

from turnbuckle.foundation import arrays


def test_a_look_at_the_heap_is_for_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(arrays, "_trim", lambda: asked.append)
    arrays.returned(1_000)
    assert not asked
    arrays.returned(1_000_000)
    assert asked == [0]


def test_a_c_library_without_it_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "_trim", lambda: None)
    arrays.returned(1_000_000)
