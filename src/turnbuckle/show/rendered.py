"""A table as Markdown, LaTeX or HTML: the one that terminal and report show, with all of its
columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final, Literal

from turnbuckle.show.table import Cell, Table
from turnbuckle.show.text import clean

if TYPE_CHECKING:
    import polars as pl

Markup = Literal["markdown", "latex", "html"]

#: What LaTeX takes for a command, and what its standard fonts lack.
_LATEX: Final = (
    {sign: f"\\{sign}" for sign in "{}$&#%_"}
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "|": r"\textbar{}",
    }
    | {
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "\N{NO-BREAK SPACE}": "~",
        "\N{NARROW NO-BREAK SPACE}": r"\,",
    }
    | {
        "×": r"$\times$",
        "\N{MINUS SIGN}": "$-$",
        "–": "--",
        "→": r"$\to$",
        "µ": r"$\mu$",
        "·": r"$\cdot$",
    }
    | {"∞": r"$\infty$", "≥": r"$\geq$", "≤": r"$\leq$", "±": r"$\pm$", "η": r"$\eta$"}
)
#: What Markdown takes for markup inside a cell.
_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]<>|~#$&])")


def rendered(tables: Iterable[Table], markup: Markup) -> str:
    """Return tables one below the other, each with its title and caption."""
    text = "\n".join(_RENDERED[markup](table) for table in tables)
    return f"{_PAGE}{text}" if markup == "html" else text


def of_frame(frame: pl.DataFrame) -> Table:
    """Return a flat table of numbers and texts as people see it.

    >>> import polars as pl
    >>> print(markdown(of_frame(pl.DataFrame({"name": ["a"], "seconds": [1 / 3]}))), end="")
    | name | seconds |
    | :--- | ---: |
    | a | 0.333333 |
    <BLANKLINE>
    <BLANKLINE>
    """
    head = [f">{name}" if kind.is_numeric() else name for name, kind in frame.schema.items()]
    return Table("", head, [[Cell(_shown(value)) for value in row] for row in frame.iter_rows()])


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else clean(str(value))


def markdown(table: Table) -> str:
    """Return a table as Markdown.

    >>> from turnbuckle.show.table import cells
    >>> print(markdown(Table("Caption.", ["name", ">time"], [cells("a|b", "1 s")], title="runs")), end="")
    **runs**
    <BLANKLINE>
    | name | time |
    | :--- | ---: |
    | a\\|b | 1 s |
    <BLANKLINE>
    Caption.
    """
    sides = [":---" if not name.startswith(">") else "---:" for name in table.head]
    lines = [_row(name.lstrip(">^") for name in table.head), f"| {' | '.join(sides)} |"]
    lines += [_row(cell.text for cell in row) for row in table.rows]
    title = [f"**{_in_markdown(table.title)}**", ""] if table.title else []
    notes = [
        f"- {_in_markdown(row[0].text)}: {_in_markdown(note)}"
        for row, note in zip(table.rows, table.notes, strict=False)
        if note
    ]
    return "\n".join(
        [*title, *lines, "", *([*notes, ""] if notes else []), _in_markdown(table.caption), ""]
    )


def _row(texts: Iterable[str]) -> str:
    return f"| {' | '.join(_in_markdown(text) for text in texts)} |"


def _in_markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split("\n")))


def latex(table: Table) -> str:
    r"""Return a table as LaTeX, of commands that need no package.

    >>> from turnbuckle.show.table import cells
    >>> print(latex(Table("Caption.", ["name", ">share"], [cells("a_b", "5 %")], title="runs")), end="")
    \begin{table}
    \caption{runs. Caption.}
    \begin{tabular}{lr}
    \hline
    name & share \\
    \hline
    a\_b & 5 \% \\
    \hline
    \end{tabular}
    \end{table}
    """
    sides = "".join("r" if name.startswith(">") else "l" for name in table.head)
    lines: list[Sequence[str]] = [
        [name.lstrip(">^") for name in table.head],
        *([cell.text for cell in row] for row in table.rows),
    ]
    head, *rows = [" & ".join(_in_latex(text) for text in line) + r" \\" for line in lines]
    caption = ". ".join(_in_latex(text) for text in (table.title, table.caption) if text)
    notes = [
        _in_latex(f"{row[0].text}: {note}") + r"\\"
        for row, note in zip(table.rows, table.notes, strict=False)
        if note
    ]
    top = [
        r"\begin{table}",
        rf"\caption{{{caption}}}",
        rf"\begin{{tabular}}{{{sides}}}",
        r"\hline",
        head,
        r"\hline",
    ]
    end = [
        r"\hline",
        r"\end{tabular}",
        *([r"\par\footnotesize\raggedright", *notes] if notes else []),
        r"\end{table}",
        "",
    ]
    return "\n".join([*top, *rows, *end])


def _in_latex(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in " ".join(text.split("\n")))


def html(table: Table) -> str:
    """Return a table as HTML.

    >>> from turnbuckle.show.table import cells
    >>> print(html(Table("Caption.", ["name", ">time"], [cells("<a>", "1 s")], title="runs")), end="")
    <table>
    <caption>runs. Caption.</caption>
    <tr><th>name</th><th>time</th></tr>
    <tr><td>&lt;a&gt;</td><td class="number">1 s</td></tr>
    </table>
    """
    kinds = [' class="number"' if name.startswith(">") else "" for name in table.head]
    caption = ". ".join(escape(text) for text in (table.title, table.caption) if text)
    lines = [f"<caption>{caption}</caption>"] if caption else []
    lines.append(_in_html("".join(f"<th>{escape(name.lstrip('>^'))}</th>" for name in table.head)))
    for number, row in enumerate(table.rows):
        pairs = zip(kinds, row, strict=True)
        lines.append(
            _in_html("".join(f"<td{kind}>{escape(cell.text)}</td>" for kind, cell in pairs))
        )
        if number < len(table.notes) and table.notes[number]:
            lines.append(_in_html(f'<td colspan="{len(kinds)}">{escape(table.notes[number])}</td>'))
    return "\n".join(["<table>", *lines, "</table>", ""])


def _in_html(cells: str) -> str:
    return f"<tr>{cells}</tr>"


#: How a page of plain tables begins; it loads nothing.
_PAGE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Turnbuckle</title>
<style>
body { font: 15px/1.4 sans-serif; margin: 2em }
table { border-collapse: collapse; margin: 1em 0 }
caption { text-align: left; padding: 0.4em 0 }
th, td { border-bottom: 1px solid #ccc; padding: 0.2em 0.7em; text-align: left }
.number { text-align: right }
</style>
"""
_RENDERED: Final[dict[Markup, Callable[[Table], str]]] = {
    "markdown": markdown,
    "latex": latex,
    "html": html,
}


def is_markup(format: str) -> bool:
    """Return whether a format is one of these."""
    return format in _RENDERED
