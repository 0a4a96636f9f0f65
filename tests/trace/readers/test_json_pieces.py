"""JSON read element by element: what is damaged costs no more than what is sound."""

from __future__ import annotations

import pytest

from turnbuckle.trace.readers.parts import json_pieces
from turnbuckle.trace.readers.parts.json_pieces import Cut, Json


def test_elements_that_never_close_are_not_read_again_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each eats all that follows: 1 MiB with 900 of them was read 450 times, in more than a
    minute.
    """
    text = "[" + ('{"ph":0},{"ph":[' + "1," * 100) * 900
    monkeypatch.setattr(json_pieces, "_IN_VAIN", 20 * len(text))
    json = Json(iter([text.encode()]))
    with pytest.raises(Cut):
        list(json.elements())
    assert 10 < json.broken < 30


def test_a_few_broken_elements_are_passed_over() -> None:
    text = '[{"ph":0},{"ph":[1,{"ph":1},{"ph":nonsense},{"ph":2}]'
    json = Json(iter([text.encode()]))
    assert [e["ph"] for e in json.elements()] == [0, 1, 2] and json.broken == 2
