"""The pages on the papers' own numbers: every row recomputed, and the contradictions with what we
do about them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

from table_13_page import rewritten

from turnbuckle.papers.numbers import Recomputed
from turnbuckle.papers.reproduce import PAPERS, VERDICTS, counts, reproduce

Table = Callable[[Sequence[str], Iterable[Sequence[str]]], str]

REPRODUCED = """# The papers' own numbers

Turnbuckle rests on five published systems. Before a formula of theirs is used here, what they printed with it is computed again, through
the same functions that answer a user's question. `turnbuckle reproduce` does it on your machine and ends with exit code 1 if any row
moved from the verdict recorded for it.

A printed number whose last digit stands for `u` is the interval `[x - u/2, x + u/2]`. The inputs, printed numbers themselves, are swept
over their intervals. The verdict follows from the two intervals:

| verdict | meaning |
| --- | --- |
| reproduced | what comes out overlaps what is printed |
| reproduced* | it does, but rests on what the paper does not print: a formula, a reading of a range, the number; the note says which |
| trunc | the paper cut its digits off where it should have rounded |
| off | it does not overlap |
| contradiction | the paper disagrees with itself, or a formula cannot mean what it says: [all of them, and what we do](contradictions.md) |
| n/r | cannot be recomputed: the inputs are only drawn in a figure, or not printed at all; the note says what is missing |

Nothing stands in for data that a paper does not print.

"""

CONTRADICTIONS = """# What the papers cannot mean

Five papers, written by careful people, reviewed, cited. While we computed their numbers again, {count} places came up where a paper
disagrees with itself, or where a formula cannot mean what it says. None of them overturns a paper. Most are slips anybody makes between a
spreadsheet and a table. But a tool that takes a formula over takes its slips over too, silently, and multiplies them by a procurement. So
each has to be decided before it is code.

Four findings, among these and among the numbers at the end that are merely off, changed what Turnbuckle does:

- **Waiting was counted as work.** One application's five terms add up to 205 s of a run that took 122 s: time the host spends waiting for
  the device was added to what it waits for. Turnbuckle puts every instant of the run into exactly one class and prints the closure
  defect; waiting is a result of the replay and never an input.
- **A read request was charged a payload.** With the printed formula a one-byte read takes 537 bytes on the wire. It takes 25. Requests
  travel the other way and bind only if that direction saturates.
- **An average of weights that already add up to one.** The printed error measure would shrink with the number of transfers. It can only
  be the sum.
- **A tenfold latency that cost too little.** Run time without contention is convex in latency, so that what a run gains from less of it
  bounds from below what it must lose with more. Two printed penalties lie below that bound: whatever was changed there, it was not the
  latency alone. The bound is now a tool of its own: [`turnbuckle model bound`](models/simulators.md) holds any vendor's claim against it.

The rest are below, paper by paper: what is printed, what follows, why, and what Turnbuckle does.

"""

OTHERS = """## Numbers that are merely off

No contradiction, only arithmetic: the inputs are printed, the result is printed, and the one does not give the other.

"""


#: Every row, for the pages that show it.
recomputed = cache(reproduce)


def reproduced(table: Table) -> str:
    """Every row of every paper, in tables."""
    rows = recomputed()
    out = [REPRODUCED]
    total = [
        [
            title,
            *(str(counts([r for r in rows if r.id.startswith(f"{letter}.")])[v]) for v in VERDICTS),
        ]
        for letter, title in PAPERS.values()
    ]
    total.append(["all", *(str(n) for n in counts(rows).values())])
    out.append(table(("paper", *VERDICTS), total))
    for letter, title in PAPERS.values():
        mine = [r.now for r in rows if r.id.startswith(f"{letter}.") and r.now]
        body = [
            [
                _code(r.id),
                _plain(r.what),
                _plain(r.printed),
                _got(r),
                _off(r),
                _plain(r.verdict),
                _plain(r.note),
            ]
            for r in mine
        ]
        out.append(
            f"\n## {title}\n\n"
            + table(("id", "what", "printed", "recomputed", "off by", "verdict", "note"), body)
        )
    return "".join(out)


def contradictions(table: Table) -> str:
    """The contradictions with what Turnbuckle does about each, and the numbers that are off."""
    rows = [r.now for r in recomputed() if r.now]
    against = [r for r in rows if r.verdict == "contradiction"]
    out = [CONTRADICTIONS.format(count=len(against))]
    for letter, title in PAPERS.values():
        mine = [r for r in against if r.paper == letter]
        out.append(f"## {title}\n\n" if mine else "")
        for r in mine:
            note = _sentence(r.note) if r.note else ""
            out.append(
                f"**{_plain(r.what)}** ({_code(r.id)}). Printed: {_plain(r.printed)}. What "
                f"follows: {_got(r)}. {note.rstrip()}  \n"
            )
            out.append(f"*Here:* {_decided(_sentence(r.resolution))}\n\n")
    body = [
        [_code(r.id), _plain(r.what), _plain(r.printed), _got(r), _off(r), _plain(r.note)]
        for r in rows
        if r.verdict in ("off", "trunc")
    ]
    return (
        "".join(out)
        + OTHERS
        + table(("id", "what", "printed", "recomputed", "off by", "why"), body)
    )


def table_13(folder: Path) -> dict[str, str]:
    """The page on Table 13 with its tables as they come out today; the words around them are
    written by hand.
    """
    name = "table-13.md"
    return {name: rewritten((folder / name).read_text(encoding="utf-8"))}


def _got(row: Recomputed) -> str:
    if isinstance(row.recomputed, float):
        span = (
            ""
            if row.low is None or row.high is None or row.low == row.high
            else f" ({row.low:.4g} to {row.high:.4g})"
        )
        return f"{row.recomputed:.6g}{span}"
    return _plain(row.recomputed or "")


def _off(row: Recomputed) -> str:
    return (
        ""
        if row.deviation is None
        else f"{row.deviation:+.1%}"
        if abs(row.deviation) >= 5e-4
        else "0"
    )


def _code(text: str) -> str:
    return f"`{text}`"


def _plain(text: str) -> str:
    return text.replace("<", "&lt;").replace(">", "&gt;").replace("*", "\\*").replace("_", "\\_")


def _decided(text: str) -> str:
    """Decisions named in a text, linked to where they are recorded."""
    return re.sub(r"\bD\d{1,2}\b", r"[\g<0>](decisions/models.md)", text)


def _sentence(text: str) -> str:
    plain = _plain(text).strip()
    return plain[:1].upper() + plain[1:] + ("" if plain.endswith((".", "?")) else ".")
