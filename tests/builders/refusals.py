"""What is refused, and with which error; what is found, and how often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from turnbuckle.foundation.errors import TurnbuckleError


def refused(code: str, ask: Callable[..., Any], *words: Any, **more: Any) -> TurnbuckleError:
    """Return the error with which ``ask(*words, **more)`` is refused: of this code, which names its
    class, and of whole lines.
    """
    with pytest.raises(TurnbuckleError) as caught:
        ask(*words, **more)
    error = caught.value
    assert error.code == code, error.lines()
    assert all("\n" not in line for line in error.lines())
    return error


def codes(found: Any) -> dict[str, int]:
    """Return how often each finding of a recording, a profile or an answer counts."""
    return {f.code: f.count for f in found.findings}
