"""``turnbuckle diff``: two recordings of one program, before and after a change, and what differs.

It is the measured counterpart of `whatif`: nothing is projected, every number is a sum of what was
recorded.  Both runs are taken without start-up where both recordings show it, else whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import polars as pl

from turnbuckle.foundation.fields import Declared
from turnbuckle.foundation.units import show
from turnbuckle.profile.summary.each import categories_ns
from turnbuckle.profile.summary.summary import calls, copies, kernel_table
from turnbuckle.projection.answers.shown import Shown
from turnbuckle.projection.run import Run
from turnbuckle.trace.window import step_times

#: What is compared, in the order of the table.
OF: Final = ("part", "copy", "kernel", "call")
_CATEGORY: Final = {"copy": "copy", "kernel": "kernel", "call": "api"}
_EMPTY: Final = {"name": pl.String, "count": pl.Int64, "seconds": pl.Float64}


@dataclass(frozen=True)
class Steps(Declared):
    """Marked steps of both runs.

    Attributes
    ----------
    before, after : median of their times [s].
    spread : half the middle half of the times, of the run where that is larger [s].
    """

    before: float
    after: float
    spread: float

    @property
    def apart(self) -> bool:
        """Return whether the medians are farther apart than the steps scatter."""
        return abs(self.after - self.before) > self.spread


@dataclass(frozen=True, repr=False)
class Diff(Shown):
    """What differs between two recordings of one program.

    Attributes
    ----------
    before, after : the runs, or the parts of them without start-up.
    rows : of (`of`, `name`): count and seconds before and after, and the change [s]; the largest
        change of each kind first.
    steps : of both runs; None where either marks fewer than three.
    untold : categories that one of the recordings does not hold; they are not compared.
    """

    question: ClassVar[str] = "diff"

    before: Run
    after: Run
    rows: pl.DataFrame
    steps: Steps | None
    untold: tuple[str, ...] = ()

    @property
    def without_start_up(self) -> bool:
        """Return whether the start-up is left out."""
        return self.before.whole is not None

    @property
    def change(self) -> float:
        """Return the change of the run time, as a share of that before."""
        was = self.before.seconds
        return self.after.seconds / was - 1.0 if was else 0.0

    def table(self) -> pl.DataFrame:
        """Return a row for each part, direction of copies, kernel and call."""
        return self.rows

    def provenances(self) -> list[dict[str, object]]:
        """Return what is needed to repeat the answer, of both runs."""
        return [self.before.provenance(), self.after.provenance()]

    def changes(self) -> list[dict[str, object]]:
        """Return the rows of `table` as mappings."""
        return self.rows.to_dicts()

    def headline(self) -> str:
        """Return both run times in one line."""
        was, now = (show(run.seconds, "s") for run in (self.before, self.after))
        return f"Diff: {was} before, {now} after, {self.change:+.1%}"


def diff(before: Run, after: Run) -> Diff:
    """Compare two recordings of one program: ``turnbuckle diff``."""
    pair = before.judged, after.judged
    if (pair[0].whole is None) != (pair[1].whole is None):
        pair = before.whole or before, after.whole or after
    untold = pair[0].untold | pair[1].untold
    tables = [_sums(run, untold) for run in pair]
    rows = tables[0].join(tables[1], on=["of", "name"], how="full", suffix="_after", coalesce=True)
    rows = rows.with_columns(
        pl.col("count", "count_after", "seconds", "seconds_after").fill_null(0)
    ).with_columns(change=pl.col("seconds_after") - pl.col("seconds"))
    order = pl.col("of").replace_strict({of: k for k, of in enumerate(OF)}, return_dtype=pl.Int64)
    rows = rows.sort(order, -pl.col("change").abs(), "name")
    return Diff(*pair, rows, _steps(*pair), tuple(sorted(untold)))


def _sums(run: Run, untold: frozenset[str]) -> pl.DataFrame:
    """Return what a run spends its time on: of, name, count, seconds; names once each."""
    profile = run.profile
    spent = categories_ns(profile)
    parts = pl.DataFrame(
        [(name, 0, ns * 1e-9) for name, ns in spent.items() if name not in untold],
        schema=_EMPTY,
        orient="row",
    )
    moved = pl.DataFrame(
        [(way, c["count"], c["busy_ns"] * 1e-9) for way, c in copies(profile).items()],
        schema=_EMPTY,
        orient="row",
    ).filter(pl.col("count") > 0)
    kernels = kernel_table(profile).rename({"kernel": "name"})
    named = calls(profile).rename({"call": "name"})
    tables = dict(zip(OF, (parts, moved, kernels, named), strict=True))
    return pl.concat(
        table.with_columns(pl.col("count").cast(pl.Int64))
        .group_by("name")
        .agg(pl.col("count", "seconds").sum())
        .select(pl.lit(of).alias("of"), "name", "count", "seconds")
        for of, table in tables.items()
        if _CATEGORY.get(of) not in untold
    )


def _steps(old: Run, new: Run) -> Steps | None:
    """Return the marked steps of both runs."""
    before, after = step_times(old.trace), step_times(new.trace)
    if before is None or after is None:
        return None
    return Steps(before[1], after[1], max(before[2], after[2]))
