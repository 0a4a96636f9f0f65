"""The terminal that tables are drawn on."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from turnbuckle.foundation.errors import UsageError


class Terminal(Console):
    """A console that leaves a reader who went away to `turnbuckle.cli.run`: that is no failure of the command."""

    def on_broken_pipe(self) -> None:
        """Called inside the handler of the broken pipe: let it go on."""
        raise BrokenPipeError


def console_for(output: Path | None) -> Terminal:
    """The terminal for a table.  Raises A010 where an output file was named: tables are not written to files."""
    if output is not None:
        raise UsageError("A010", "tables are for the terminal", found=f"--output {output.name}", fix="add --format json, csv or parquet")
    return Terminal(soft_wrap=False, highlight=False)
