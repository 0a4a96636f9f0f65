"""Golden answers of model messages, model network, model patterns, model sharing."""

from __future__ import annotations

from collections.abc import Callable

import golden_net as net
import golden_python as python
import pytest

VERBS = ("model messages", "model network", "model patterns", "model sharing")


@pytest.mark.parametrize("question", net.of_verbs(*VERBS), ids=str)
def test_the_answer_is_the_kept_one(question: str, hold: Callable[[str], None]) -> None:
    python.holds(question, hold)
