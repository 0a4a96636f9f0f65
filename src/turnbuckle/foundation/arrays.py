"""Types of the arrays that columns and replays are made of, by what an element is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
#: Whole numbers of any width.
Whole = NDArray[np.integer[Any]]
Text = NDArray[np.object_]
