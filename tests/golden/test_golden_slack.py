"""Golden answers of slack, export."""

from __future__ import annotations

from collections.abc import Callable

import golden_net as net
import pytest

VERBS = ("slack", "export", "whatif", "suite", "pool")


@pytest.mark.parametrize("question", net.of_verbs(*VERBS), ids=str)
def test_the_answer_is_the_kept_one(question: str, hold: Callable[[str], None]) -> None:
    hold(question)
