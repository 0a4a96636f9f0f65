"""Golden answers of every verb but those of ``turnbuckle model`` (`test_golden_models`)."""

from __future__ import annotations

from collections.abc import Callable

import golden_net as net
import pytest


@pytest.mark.parametrize(
    "question", [q for q in net.questions() if not q.startswith("model ")], ids=str
)
def test_the_answer_is_the_kept_one(question: str, hold: Callable[[str], None]) -> None:
    hold(question)
