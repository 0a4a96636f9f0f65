"""How many examples a property test draws.

They are the same in every run, so that most of what they can tell is told by the first of them.  A
third of what a test asks for is drawn, but no fewer than ten; all of them with
``TURNBUCKLE_EXAMPLES=all``, which ``make fuzz`` sets.
"""

from __future__ import annotations

import os
from typing import Final

#: Whether property tests draw all their examples.
ALL: Final = os.environ.get("TURNBUCKLE_EXAMPLES") == "all"


def examples(count: int) -> int:
    """Return how many of `count` examples this run draws."""
    return count if ALL else min(count, max(-(-count // 3), 10))
