"""A table as Markdown or LaTeX: the one that terminal and report show, with all of its columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal

from turnbuckle.show.table import Table

Markup = Literal["markdown", "latex"]

#: What LaTeX takes for a command, and what its standard fonts lack.
_LATEX: Final = (
    {sign: f"\\{sign}" for sign in "{}$&#%_"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "|": r"\textbar{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "\N{NO-BREAK SPACE}": "~", "\N{NARROW NO-BREAK SPACE}": r"\,"}
    | {"×": r"$\times$", "\N{MINUS SIGN}": "$-$", "–": "--", "→": r"$\to$", "µ": r"$\mu$", "·": r"$\cdot$"}
    | {"∞": r"$\infty$", "≥": r"$\geq$", "≤": r"$\leq$", "±": r"$\pm$", "η": r"$\eta$"}
)
#: What Markdown takes for markup inside a cell.
_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]<>|~#$&])")


def rendered(tables: Iterable[Table], markup: Markup) -> str:
    """Return tables one below the other, each with its title and caption."""
    return "\n".join(_RENDERED[markup](table) for table in tables)


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
    notes = [f"- {_in_markdown(row[0].text)}: {_in_markdown(note)}" for row, note in zip(table.rows, table.notes, strict=False) if note]
    return "\n".join([*title, *lines, "", *([*notes, ""] if notes else []), _in_markdown(table.caption), ""])


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
    lines: list[Sequence[str]] = [[name.lstrip(">^") for name in table.head], *([cell.text for cell in row] for row in table.rows)]
    head, *rows = [" & ".join(_in_latex(text) for text in line) + r" \\" for line in lines]
    caption = ". ".join(_in_latex(text) for text in (table.title, table.caption) if text)
    notes = [_in_latex(f"{row[0].text}: {note}") + r"\\" for row, note in zip(table.rows, table.notes, strict=False) if note]
    top = [r"\begin{table}", rf"\caption{{{caption}}}", rf"\begin{{tabular}}{{{sides}}}", r"\hline", head, r"\hline"]
    end = [r"\hline", r"\end{tabular}", *([r"\par\footnotesize\raggedright", *notes] if notes else []), r"\end{table}", ""]
    return "\n".join([*top, *rows, *end])


def _in_latex(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in " ".join(text.split("\n")))


_RENDERED: Final[dict[Markup, Callable[[Table], str]]] = {"markdown": markdown, "latex": latex}


def is_markup(format: str) -> bool:
    """Return whether a format is one of these."""
    return format in _RENDERED
