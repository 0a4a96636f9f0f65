"""Tables as CSV text in which no name that a recording holds is a formula of a spreadsheet: every
table is written through here.
"""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import polars as pl

#: A spreadsheet runs a text that begins so as a formula, also after a tab or a line's end.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
_NUMBER: Final = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")


def neutral(cell: Any) -> Any:
    """Put an apostrophe in front of a text that a spreadsheet would run as a formula; a number
    stays one, as text too.

    >>> [neutral(cell) for cell in ("=1+1", "-x", "-1.5e3", -1.5, "a=b", None)]
    ["'=1+1", "'-x", '-1.5e3', -1.5, 'a=b', None]
    """
    return (
        f"'{cell}"
        if isinstance(cell, str) and cell.startswith(_FORMULA) and not _NUMBER.fullmatch(cell)
        else cell
    )


def of_rows(rows: list[dict[str, Any]]) -> str:
    """Return rows as CSV, with all columns that any of them has.

    >>> of_rows([{"name": "=1+1", "seconds": 0.5}])
    "name,seconds\\n'=1+1,0.5\\n"
    """
    names = list(dict.fromkeys(k for row in rows for k in row))
    return _lines([names, *([row.get(name) for name in names] for row in rows)])


def of_frame(frame: pl.DataFrame) -> str:
    """Return a frame as CSV."""
    import polars as pl

    split = False
    for column in frame.get_columns():
        if column.dtype in (pl.String, pl.Categorical, pl.Enum):
            texts = column.cast(pl.String)
            changed = {
                text: quoted
                for text in texts.unique().drop_nulls()
                if (quoted := neutral(text)) != text
            }
            frame = frame.with_columns(texts.replace(changed)) if changed else frame
            split = split or bool(texts.str.contains("\r", literal=True).any())
    # neither writer quotes a lone carriage return, which ends the row in a spreadsheet
    return _lines([frame.columns]) + frame.write_csv(
        include_header=False, quote_style="non_numeric" if split else "necessary"
    )


def _lines(rows: list[list[Any]]) -> str:
    out = io.StringIO()
    split = any(isinstance(cell, str) and "\r" in cell for row in rows for cell in row)
    table = csv.writer(
        out, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC if split else csv.QUOTE_MINIMAL
    )
    table.writerows([neutral(cell) for cell in row] for row in rows)
    return out.getvalue()
