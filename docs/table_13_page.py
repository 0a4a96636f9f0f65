"""The tables of the page on Table 13, as they come out today; the words around them are written by
hand.
"""

from __future__ import annotations

import math
import re

from turnbuckle.papers.table_13 import TECHNOLOGIES, Cell, Technology, statements, table_13


def _number(value: float, places: int) -> str:
    return "any" if math.isinf(value) else f"{value:.{places}f}"


def _places(text: str) -> int:
    """Return the number of decimals: one more than is printed, at least two."""
    return max(2, len(text.partition(".")[2]) + 1) if "–" not in text else 3


def _ours(cell: Cell) -> tuple[str, str]:
    """Return the recomputed number and its interval as texts."""
    if cell.recomputed is None or cell.low is None or cell.high is None:
        return "", ""
    places = _places(cell.printed)
    if math.isinf(cell.high):
        return f"at least {cell.low:.{places}f}", ""
    low, high = (_number(end, places) for end in (cell.low, cell.high))
    return _number(cell.recomputed, places), low if low == high else f"{low} to {high}"


def cells_table(technology: Technology) -> str:
    """Return one column of Table 13 as a Markdown table."""
    about = ["link and change"] if technology != "CPU cores a GPU" else []
    heads = ["application", "printed", "ours", "interval", *about, "method", "verdict", "why"]
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for cell in table_13():
        if cell.technology == technology:
            verdict = cell.verdict.replace("*", "\\*")
            words = [
                cell.application,
                cell.printed,
                *_ours(cell),
                *(f"{cell.link}: {cell.change}" for _ in about),
                cell.method,
                verdict,
                cell.note,
            ]
            lines.append("| " + " | ".join(words) + " |")
    return "\n".join(lines)


def statements_table() -> str:
    """Return section 11 with printed and recomputed numbers as a Markdown table."""
    heads = [
        "section 11",
        "says",
        "from its cells",
        "from ours",
        "interval",
        "bounds as printed",
        "why",
    ]
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for s in statements():
        places = 2 if s.what.endswith("[x]") else 0
        low, high = (_number(end, places) for end in (s.low, s.high))
        numbers = [_number(n, places) for n in (s.printed_cells, s.recomputed_cells)]
        words = [
            s.what,
            s.said,
            *numbers,
            low if low == high else f"{low} to {high}",
            _number(s.bounds_as_printed, places),
            s.note,
        ]
        lines.append("| " + " | ".join(words) + " |")
    return "\n".join(lines)


def rewritten(page: str) -> str:
    """Replace the tables between the marks ``<!-- NAME -->`` and ``<!-- /NAME -->`` of a page:
    technologies, and ``section 11``.
    """
    made: dict[str, str] = {t: cells_table(t) for t in TECHNOLOGIES}
    made["section 11"] = statements_table()

    def put(match: re.Match[str]) -> str:
        return f"<!-- {match[1]} -->\n\n{made[match[1]]}\n\n<!-- /{match[1]} -->"

    return re.sub(r"<!-- ([^/>][^>]*?) -->\n.*?<!-- /\1 -->", put, page, flags=re.DOTALL)
