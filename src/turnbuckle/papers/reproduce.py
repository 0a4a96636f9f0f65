"""Published numbers that Turnbuckle rests on, recomputed through the product's own functions.

The five papers have 212 rows.  ``recorded.csv`` holds the first verdict and the first recomputed
number of each row.  A row that moves from them is a defect of Turnbuckle or a discovery about the
paper, and must be examined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from importlib import import_module
from typing import ClassVar, Final

import polars as pl

from turnbuckle.foundation.fields import Declared
from turnbuckle.papers.numbers import Recomputed, Recorded, recorded
from turnbuckle.projection.answers.shown import Shown

#: First letter of the ids, and the title, of each paper by its word on the command line.
PAPERS: Final = {
    "ecp": ("R", "Austin et al. 2021, ECP-HIHE01-35: tighter integration of CPU and GPU"),
    "nething": ("N", "Groves et al. 2022, PMBS: tightly integrated and disaggregated accelerators"),
    "ahead": ("A", "AHEAD: transfer times on a node that is not there yet"),
    "gpudirect": ("G", "Khetawat et al.: GPUDirect in TraceR-CODES"),
    "slack": ("S", "Shorts and Grant 2024, SC24-W: row-scale disaggregation"),
}
VERDICTS: Final = ("reproduced", "reproduced*", "trunc", "off", "contradiction", "n/r")
_MODULES: Final = {
    "R": ("ecp.tables", "ecp.cores", "ecp.cxl", "ecp.dag", "ecp.kernels", "ecp.simulators"),
    "N": ("nething.numbers",),
    "A": ("ahead.numbers",),
    "G": ("gpudirect.numbers",),
    "S": ("row_slack.numbers",),
}
#: A recomputed number may differ from the recorded one by this share: other libraries round
#: differently.
SAME: Final = 2e-3


@dataclass(frozen=True)
class Row(Declared):
    """Published number as recomputed now, and as recorded."""

    now: Recomputed | None  #: recomputed row; None where no module recomputes it any more
    recorded: Recorded | None  #: recorded row; None for a row that was never recorded

    @property
    def id(self) -> str:
        """Return the id of the row."""
        row = self.now or self.recorded
        assert row is not None
        return row.id

    @property
    def moved(self) -> str:
        """Return in words how the row moved from its record; an empty text where it did not
        move.
        """
        if self.recorded is None:
            return "not recorded"
        if self.now is None:
            return "no longer recomputed"
        if self.now.verdict != self.recorded.verdict:
            return f"{self.now.verdict}, recorded as {self.recorded.verdict}"
        was, got = self.recorded.recomputed, self.now.recomputed
        if was is None:
            return ""
        if not isinstance(got, float) or abs(got - was) > SAME * abs(was):
            return f"{got if got is not None else 'nothing'}, recorded as {was:g}"
        return ""

    @property
    def paper(self) -> str:
        """Return the word of the paper, a key of `PAPERS`."""
        return next(
            word for word, (letter, _) in PAPERS.items() if self.id.startswith(f"{letter}.")
        )

    @property
    def verdict(self) -> str:
        """Return the verdict of the recomputed row."""
        return self.now.verdict if self.now else "missing"

    @property
    def note(self) -> str:
        """Return the reason of the verdict."""
        return self.now.note if self.now else ""

    @property
    def resolution(self) -> str:
        """Return what Turnbuckle does where the paper contradicts itself."""
        return self.now.resolution if self.now else ""


def reproduce(papers: Collection[str] = tuple(PAPERS)) -> list[Row]:
    """Recompute the rows of some papers (words of `PAPERS`), in the order in which they are
    recorded.
    """
    letters = list(dict.fromkeys(PAPERS[word][0] for word in papers))
    now: dict[str, Recomputed] = {}
    for letter in letters:
        for module in _MODULES[letter]:
            for row in import_module(f"turnbuckle.papers.{module}").recompute():
                assert row.id not in now, f"{row.id} is recomputed twice"
                now[row.id] = row
    records = {id: r for id, r in recorded().items() if id.partition(".")[0] in letters}
    return [
        Row(now.get(id), records.get(id))
        for id in (*records, *(id for id in now if id not in records))
    ]


def counts(rows: Collection[Row]) -> dict[str, int]:
    """Return the number of rows of each verdict, in the order of `VERDICTS`."""
    numbers = Counter(r.now.verdict for r in rows if r.now)
    return {verdict: numbers[verdict] for verdict in VERDICTS}


@dataclass(frozen=True, repr=False)
class Reproduced(Shown):
    """Published numbers beside what Turnbuckle computes for them.

    Attributes
    ----------
    every : all rows of the papers asked.
    rows : those of the verdicts asked.
    """

    question: ClassVar[str] = "reproduce"

    every: list[Row]
    rows: list[Row]

    @property
    def moved(self) -> list[Row]:
        """Return the rows whose verdict or number is not the recorded one."""
        return [row for row in self.every if row.moved]

    def moved_ids(self) -> list[str]:
        """Return the ids of the rows that moved."""
        return [row.id for row in self.moved]

    def verdicts(self) -> dict[str, int]:
        """Return the number of rows of each verdict, over all papers asked."""
        return counts(self.every)

    def table(self) -> pl.DataFrame:
        """Return a row for each published number; numbers and statements alike are text."""
        rows = [
            {k: v if v is None else str(v) for k, v in row.as_dict().items()} for row in self.rows
        ]
        return pl.DataFrame(rows, infer_schema_length=None)

    def headline(self) -> str:
        """Return the verdicts in one line."""
        return (
            f"{len(self.every)} numbers: "
            f"{', '.join(f'{count} {verdict}' for verdict, count in self.verdicts().items())}"
        )


def of_papers(
    papers: Collection[str] = tuple(PAPERS), verdicts: Collection[str] = ()
) -> Reproduced:
    """Recompute the published numbers of some papers: ``turnbuckle reproduce``.

    Parameters
    ----------
    papers : ``ecp``, ``nething``, ``ahead``, ``gpudirect`` and ``slack``, or some of them.
    verdicts : keep only rows of these verdicts (`VERDICTS`); none keeps all.
    """
    every = reproduce(papers)
    return Reproduced(
        every, [row for row in every if not verdicts or (row.now and row.now.verdict in verdicts)]
    )
