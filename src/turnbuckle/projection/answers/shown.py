"""How an answer shows itself in Python: a few lines at a prompt, a table in a notebook, JSON for
programs.
"""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from turnbuckle.foundation import registry
from turnbuckle.foundation.errors import clipped, did_you_mean, error_of
from turnbuckle.foundation.fields import SCHEMA_VERSION, Declared, json_text

if TYPE_CHECKING:
    import polars as pl

    from turnbuckle.show.figures.figure import Figure

#: Rows of a table that a prompt shows.
_ROWS = 12


class Shown(Declared, ABC):
    """An answer that has a table, a JSON document and a line that sums it up.

    Attributes
    ----------
    question : name under which the registry has its figures and its view on a terminal; empty for
        an answer without them.
    """

    question: ClassVar[str] = ""
    schema_version: ClassVar[int] = SCHEMA_VERSION

    @abstractmethod
    def table(self) -> pl.DataFrame:
        """Return the answer as a table."""

    @abstractmethod
    def headline(self) -> str:
        """Return the answer in one line."""

    def to_json(self, indent: int | None = 1) -> str:
        """Return the answer as JSON text; infinities and NaN, which JSON lacks, are null."""
        return json_text(self.as_dict(), indent=indent)

    def __repr__(self) -> str:
        import polars as pl  # the help of a verb does without

        with pl.Config(
            tbl_rows=_ROWS,
            tbl_cols=6,
            tbl_hide_dataframe_shape=True,
            tbl_hide_column_data_types=True,
            fmt_str_lengths=40,
        ):
            return f"{self.headline()}\n{self.table()}"

    def figures(self) -> list[Figure]:
        """Return its figures, not yet drawn; a notebook draws each that it shows.  Empty for an
        answer without one.
        """
        entries = registry.entries("figures")
        return list(entries[self.question].load()(self)) if self.question in entries else []

    def figure(self, name: str = "") -> Figure:
        """Return one figure: the first, or that of a name.  Raises `UsageError` A430 where there is
        none.
        """
        figures = {figure.name: figure for figure in self.figures()}
        if not figures or (name and name not in figures):
            fix = did_you_mean(name, figures) or (
                f"one of {', '.join(figures)}" if figures else "take its table"
            )
            raise (
                error_of("A430.name", found=type(self).__name__, fix=fix, name=clipped(name))
                if figures
                else error_of("A430.none", found=type(self).__name__, fix=fix)
            )
        return figures[name] if name else next(iter(figures.values()))

    def _repr_html_(self) -> str:
        views = registry.entries("terminal")
        if self.question in views:
            drawn: str = registry.load("services", "terminal as html")(
                views[self.question].load(), self
            )
            return drawn
        import polars as pl

        with pl.Config(tbl_rows=60, tbl_cols=20, tbl_hide_dataframe_shape=True, fmt_str_lengths=60):
            return f"<p>{html.escape(self.headline())}</p>{self.table()._repr_html_()}"
