"""The first page of help, as cyclopts draws it but without loading cyclopts and rich, which take
most of the time.

A test compares the two pages.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from turnbuckle.foundation import registry

EXIT_CODES: Final = (
    "exit codes: 0 done, 1 gate failed, 2 bad input or usage, 3 cannot be answered from this "
    "input, 4 internal error, 130 interrupted"
)
PARAGRAPHS: Final = (
    "What a recorded GPU run would do if CPU and GPU stood closer or farther apart.",
    "turnbuckle FILE alone says what holds the run up, what four distances do to it, what to "
    "change first, and how far to trust that; -v says more.",
    EXIT_CODES,
)
MODELS: Final = "The papers' models, one by one, on numbers, tables and recordings of your own."
#: Verbs by what they are for, those that most people need first.
GROUPS: Final = {
    "Start here": ("slack", "whatif", "project", "suite", "report", "doctor", "machines"),
    "One run": ("inspect", "diff", "transfers", "export", "demo"),
    "Recordings and machine files": ("record", "merge", "anonymise", "calibrate"),
    "Several runs, and fleets": ("sweep", "pool", "cores"),
    "Papers and accuracy": ("model", "reproduce", "validate"),
    "Programs": ("mcp",),
}
#: The panel of everything else: verbs of third parties, and the options.
OTHERS: Final = "Commands"
_OPTIONS: Final = (
    ("--help (-h)", "Display this message and exit."),
    ("--version", "Display application version."),
)
#: On a narrower terminal words are cut, and rich draws the page.
_NARROWEST: Final = 60
_CYAN, _PLAIN = "\x1b[36m", "\x1b[0m"


def drawn(words: Sequence[str]) -> bool:
    """Print the page if a command line asks for it and the terminal allows; return whether it was
    printed.
    """
    if list(words) not in ([], ["--help"], ["-h"]):
        return False
    width = shutil.get_terminal_size().columns
    verbs = {**registry.entries("verbs"), **registry.entries("questions")}
    rows = [(name, entry.sentence) for name, entry in verbs.items() if " " not in name]
    # the sentence of a third party's verb is unknown before its package is loaded
    if width < _NARROWEST or not all(sentence for _, sentence in rows):
        return False
    if (
        "utf" not in (getattr(sys.stdout, "encoding", None) or "").lower()
        or "FORCE_COLOR" in os.environ
    ):
        return False
    coloured = (
        sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    )
    print(*_lines(_panels(dict([*rows, ("model", MODELS)])), width, coloured), sep="\n")
    return True


def group_of(verb: str) -> str:
    """Return the panel of a verb."""
    return next((name for name, verbs in GROUPS.items() if verb in verbs), OTHERS)


def _panels(sentences: Mapping[str, str]) -> dict[str, Sequence[tuple[str, str]]]:
    """Return the rows of each panel: a verb and its sentence."""
    panels: dict[str, Sequence[tuple[str, str]]] = {
        name: [(verb, sentences[verb]) for verb in verbs if verb in sentences]
        for name, verbs in GROUPS.items()
    }
    rest = sorted((verb, said) for verb, said in sentences.items() if group_of(verb) == OTHERS)
    return {**panels, OTHERS: [*rest, *_OPTIONS]}


def _lines(
    panels: Mapping[str, Sequence[tuple[str, str]]], width: int, coloured: bool
) -> Iterator[str]:
    yield "Usage: turnbuckle COMMAND"
    for paragraph in PARAGRAPHS:
        yield ""
        yield from textwrap.wrap(paragraph, width, break_on_hyphens=False)
    yield ""
    for title, rows in panels.items():
        yield f"╭─ {title} " + "─" * (width - len(title) - 5) + "╮"
        names = max(len(name) for name, _ in rows)
        for name, sentence in rows:
            room = width - names - 6
            for i, line in enumerate(textwrap.wrap(sentence, room, break_on_hyphens=False)):
                cell = f"{name if not i else '':<{names}}  "
                yield f"│ {_CYAN + cell + _PLAIN if coloured else cell}{line:<{room}} │"
        yield "╰" + "─" * (width - 2) + "╯"
