"""Golden answers of sweep, validate, reproduce, machines list, machines show, machines check."""

from __future__ import annotations

from collections.abc import Callable

import golden_net as net
import pytest

VERBS = ("sweep", "validate", "reproduce", "machines list", "machines show", "machines check")


@pytest.mark.parametrize("question", net.of_verbs(*VERBS), ids=str)
def test_the_answer_is_the_kept_one(question: str, hold: Callable[[str], None]) -> None:
    hold(question)
