"""How many examples a costly property test draws.

They are the same in every run, so that most of what they can tell is told by the first of them.  A third is drawn; all of them with
``TURNBUCKLE_EXAMPLES=all``, which ``make fuzz`` sets.
"""

from __future__ import annotations

import os
from typing import Final

#: Whether costly property tests draw all their examples.
ALL: Final = os.environ.get("TURNBUCKLE_EXAMPLES") == "all"


def examples(count: int) -> int:
    """Return how many of `count` examples this run draws."""
    return count if ALL else -(-count // 3)
