"""The terminal that tables are drawn on."""

from __future__ import annotations

from rich.console import Console


class Terminal(Console):
    """A console that leaves a reader who went away to `turnbuckle.cli.run`: that is no failure of the command."""

    def on_broken_pipe(self) -> None:
        """Called inside the handler of the broken pipe: let it go on."""
        raise BrokenPipeError
