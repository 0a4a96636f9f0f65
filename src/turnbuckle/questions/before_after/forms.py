"""Forms in which a run is written for other programs, by the names that ``export --to`` takes."""

from typing import Literal

To = Literal["json", "perfetto", "goal", "chakra", "dimemas", "otf2"]
