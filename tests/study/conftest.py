"""The strategies live with the profile's tests, the frames with the trace's."""

from __future__ import annotations

import sys
from pathlib import Path

for folder in ("profile", "trace"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))
