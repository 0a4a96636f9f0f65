"""Golden answers of ``turnbuckle model``; Python gives the same."""

from __future__ import annotations

from collections.abc import Callable

import golden_net as net
import golden_python as python
import pytest


@pytest.mark.parametrize(
    "question", [q for q in net.questions() if q.startswith("model ")], ids=str
)
def test_the_answer_is_the_kept_one(question: str, hold: Callable[[str], None]) -> None:
    python.holds(question, hold)
