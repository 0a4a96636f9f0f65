"""The terminal that tables are drawn on."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from turnbuckle.foundation.errors import error_of

#: Letters on a line of a notebook.
_NOTEBOOK: Final = 110


class Terminal(Console):
    """A console that leaves a reader who went away to `turnbuckle.cli.run`: that is no failure of
    the command.
    """

    def on_broken_pipe(self) -> None:
        """Let the handler of a broken pipe go on."""
        raise BrokenPipeError

    def note(self, words: str, style: str = "dim") -> None:
        """Print words as they are, without markup."""
        self.print(Text(words, style))


def as_html(show: Callable[[Terminal, Any], object], answer: Any) -> str:
    """Return what `show` prints of an answer on a terminal as HTML for a notebook."""
    console = Terminal(
        file=io.StringIO(),
        record=True,
        width=_NOTEBOOK,
        soft_wrap=False,
        highlight=False,
        force_jupyter=False,
    )
    show(console, answer)
    return console.export_html(
        inline_styles=True, code_format='<pre style="line-height:1.2">{code}</pre>'
    )


def console_for(output: Path | None) -> Terminal:
    """Return the terminal for a table.  Raises A010 where an output file was named: tables are not
    written to files.
    """
    if output is not None:
        raise error_of("A010", found=f"--output {output.name}")
    return Terminal(soft_wrap=False, highlight=False)
