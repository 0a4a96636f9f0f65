"""Golden answers of ``turnbuckle model``, but for messages, networks, patterns and sharing."""

from __future__ import annotations

from collections.abc import Callable

import golden_net as net
import golden_python as python
import pytest

VERBS = (
    "model additive",
    "model bound",
    "model chain",
    "model cxl",
    "model dag",
    "model dgemm",
    "model fabric",
    "model integration",
    "model link",
    "model mdm",
    "model memory",
    "model power",
    "model functions",
    "model order",
    "model ssi",
)


@pytest.mark.parametrize("question", net.of_verbs(*VERBS), ids=str)
def test_the_answer_is_the_kept_one(question: str, hold: Callable[[str], None]) -> None:
    python.holds(question, hold)
