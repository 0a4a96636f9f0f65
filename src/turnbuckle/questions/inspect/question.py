"""Summary of a recording: ``turnbuckle inspect``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl

from turnbuckle.profile.summary.describe import describe
from turnbuckle.profile.summary.each import categories_ns
from turnbuckle.projection.answers.shown import Shown
from turnbuckle.projection.run import Run


@dataclass(frozen=True, repr=False)
class Summary(Shown):
    """Summary of a recording: its profile, and where its time goes."""

    question: ClassVar[str] = "inspect"

    run: Run

    def profile(self) -> dict[str, Any]:
        """Return the description of the profile that `turnbuckle.profile.summary.describe`
        makes.
        """
        return describe(self.run.profile, self.run.source, self.run.fits, self.run.start_up)

    def table(self) -> pl.DataFrame:
        """Return where time goes: category, exposed seconds, share of the run time; null where it
        was not recorded.

        Of several ranks the mean over them.
        """
        spent = categories_ns(self.run.profile)
        recorded = {
            c: None if c in self.run.untold and not ns else ns * 1e-9 for c, ns in spent.items()
        }
        whole = self.run.seconds
        return pl.DataFrame(
            {
                "category": list(recorded),
                "seconds": list(recorded.values()),
                "share": [None if v is None or not whole else v / whole for v in recorded.values()],
            },
            schema={"category": pl.String, "seconds": pl.Float64, "share": pl.Float64},
        )

    def headline(self) -> str:
        """Return the run in one line."""
        return self.run.headline()
