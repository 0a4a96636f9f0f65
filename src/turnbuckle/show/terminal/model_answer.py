"""The answer of a verb of ``turnbuckle model``: one function makes it, for the command line and for
`turnbuckle.model`.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, Final, get_type_hints

from turnbuckle.foundation import registry
from turnbuckle.projection.answers.shown import Shown
from turnbuckle.show.terminal.console import Terminal, as_html, console_for
from turnbuckle.show.terminal.options import FormatOption, Output
from turnbuckle.show.terminal.output import frame_of, write_frame, write_json

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from turnbuckle.show.figures.figure import Figure

#: Columns of a terminal on which no first line is folded.
_UNFOLDED: Final = 2000
#: Options that every command of such a verb gets: how its answer is written.
_WRITTEN: Final = {
    "format": Parameter("format", Parameter.KEYWORD_ONLY, default="table", annotation=FormatOption),
    "output": Parameter("output", Parameter.KEYWORD_ONLY, default=None, annotation=Output),
}
#: They stand before these in the help, which are about a recording.
_LAST: Final = ("no_cache", "part")


@dataclass(frozen=True, repr=False, eq=False)
class ModelAnswer(Shown):
    """The answer of one of the papers' models.

    A key of its document is asked for by name: ``answer["rows"]``.

    Attributes
    ----------
    document : the JSON document, or what makes it.
    rows : its flat table: a row each, or a frame.
    view : prints it on a terminal.
    draw : makes its figures; empty for an answer without one.
    """

    document: dict[str, Any] | Callable[[], dict[str, Any]]
    rows: list[dict[str, Any]] | pl.DataFrame
    view: Callable[[Terminal], object]
    draw: Callable[[], list[Figure]] = list

    def __getitem__(self, key: str) -> Any:
        """Return what the document says under a key.  Raises `KeyError`."""
        return self.as_dict()[key]

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON document that ``--format json`` writes."""
        return self.document() if callable(self.document) else self.document

    def table(self) -> pl.DataFrame:
        """Return its flat table, as ``--format csv`` writes it."""
        return frame_of(self.rows)

    def headline(self) -> str:
        """Return the first line that a terminal shows."""
        text = io.StringIO()
        self.view(
            Terminal(
                file=text, width=_UNFOLDED, highlight=False, color_system=None, force_jupyter=False
            )
        )
        return next((line.strip() for line in text.getvalue().splitlines() if line.strip()), "")

    def figures(self) -> list[Figure]:
        """Return its figures, not yet drawn."""
        return self.draw()

    def _repr_html_(self) -> str:
        return as_html(lambda console, answer: answer.view(console), self)


@cache
def command_of(verb: Callable[..., Any]) -> Callable[..., int]:
    """Return the command of a verb: one that returns a `ModelAnswer` gets the options ``--format``
    and ``--output``, and writes it.

    A verb that writes its answer itself is its own command.
    """
    hints = get_type_hints(verb, include_extras=True)
    if hints.pop("return", None) is not ModelAnswer:
        return verb

    @wraps(verb)
    def command(
        *given: Any, format: str = "table", output: Path | None = None, **options: Any
    ) -> int:
        console = console_for(output) if format == "table" else None
        answer = verb(*given, **options)
        if console is not None:
            answer.view(console)
        elif format == "json":
            write_json(answer.as_dict(), output)
        else:
            write_frame(answer.table(), format, output)
        return 0

    asked = [p.replace(annotation=hints[name]) for name, p in signature(verb).parameters.items()]
    first = next((k for k, p in enumerate(asked) if p.name in _LAST), len(asked))
    command.__signature__ = Signature([*asked[:first], *_WRITTEN.values(), *asked[first:]])  # type: ignore[attr-defined]
    command.__annotations__ = hints | {name: p.annotation for name, p in _WRITTEN.items()}
    return command


def __getattr__(name: str) -> Callable[..., int]:
    """Return the command of a verb by its name: what the command line loads when the verb is asked
    for.
    """
    if name not in registry.entries("questions"):
        raise AttributeError(f"no verb is called {name!r}")
    return command_of(registry.load("questions", name))
