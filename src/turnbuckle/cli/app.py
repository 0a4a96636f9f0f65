"""The command line: every verb of the registry, loaded when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from inspect import getdoc, signature
from pathlib import Path
from typing import Any, Final, get_type_hints

from cyclopts import App, CycloptsError, Group, Parameter
from rich.console import Console

from turnbuckle.cli.first_page import GROUPS, MODELS, OTHERS, PARAGRAPHS, group_of
from turnbuckle.foundation import registry
from turnbuckle.foundation.errors import TurnbuckleError, did_you_mean, error_of
from turnbuckle.foundation.files import forget, noted, refuse_input
from turnbuckle.show.terminal.options import FormatOption, Output, format_of, not_rounded
from turnbuckle.show.terminal.recording import ON_COMMAND_LINE


def _build() -> str:
    """Return the versions of Turnbuckle, Python and the libraries, and the build of the native
    core.
    """
    from importlib.metadata import version
    from platform import python_version

    from turnbuckle._native import __build__, __version__

    libraries = ", ".join(f"{name} {version(name.lower())}" for name in ("NumPy", "Polars"))
    return (
        f"turnbuckle {version('turnbuckle')}\nnative core {__version__}, {__build__}\n"
        f"Python {python_version()}, {libraries}"
    )


#: The panels of the first page, in their order.
PANELS: Final = {name: Group(name, sort_key=k) for k, name in enumerate((*GROUPS, OTHERS))}
app = App(
    name="turnbuckle",
    default_parameter=Parameter(converter=not_rounded),
    group_commands=PANELS[OTHERS],
    help="\n\n".join(PARAGRAPHS),
    version_flags=["--version"],
    version=_build,
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
)
#: Places of verbs in their panel.
PLACES: Final = {verb: k for verbs in GROUPS.values() for k, verb in enumerate(verbs)}
models_app = App(name="model", help=MODELS, group=PANELS[group_of("model")], sort_key=0)
app.command(models_app)
app.command("turnbuckle.questions.inspect.command:overview", name="overview", show=False)
VERBS: Final = {**registry.entries("verbs"), **registry.entries("questions")}


def _register(name: str, entry: registry.Entry, sentence: str | None) -> None:
    above, _, verb = name.rpartition(" ")
    # one function answers `turnbuckle model NAME` and `turnbuckle.model.NAME`; its command is made
    # when it is asked for
    place = entry.place
    if above:
        place = f"turnbuckle.show.terminal.model_answer:{name}"
    elif entry.package:
        place = f"turnbuckle.foundation.registry:{name}"
    if above:
        models_app.command(place, name=verb, help=sentence)
        return
    panel = PANELS[group_of(verb)]
    app.command(place, name=verb, help=sentence, group=panel, sort_key=PLACES.get(verb))


for _name, _entry in VERBS.items():
    _register(_name, _entry, _entry.sentence or None)


def _with_its_whole_text(words: Sequence[str]) -> None:
    """Register the asked verb again without its one-sentence summary, so that its help shows the
    whole docstring.
    """
    name = " ".join(words[: 1 + (words[:1] == ["model"])])
    if name in VERBS:
        above, _, verb = name.rpartition(" ")
        del (models_app if above else app)[verb]
        _register(name, VERBS[name], _whole_text(VERBS[name]))


def _whole_text(entry: registry.Entry) -> str | None:
    """Return the docstring of a verb with one line a paragraph, which a terminal breaks; None where
    it has sections, which cyclopts reads.
    """
    try:
        text = getdoc(entry.load()) or ""
    except TurnbuckleError:
        return None
    if not text or "---" in text:
        return None
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _with_foreign_sentences() -> None:
    """Register the verbs of third parties again with what each does, or with what is wrong with it:
    a page of help names them all.
    """
    for name, entry in VERBS.items():
        if entry.package:
            above, _, verb = name.rpartition(" ")
            del (models_app if above else app)[verb]
            _register(name, entry, _foreign_sentence(entry))


def _foreign_sentence(entry: registry.Entry) -> str:
    try:
        first = (getdoc(entry.load()) or "").partition("\n\n")[0]
        return " ".join(first.split()) or f"a verb of {entry.package}"
    except TurnbuckleError as error:
        return f"{error.what} ({error.code})"


def dispatch(words: Sequence[str]) -> int:
    """Run one command line; `turnbuckle FILE` gives an overview of the file."""
    words = list(words)
    verbs = [name for name in app if not name.startswith("-")]
    if words and not words[0].startswith("-") and words[0] not in verbs:
        if "." in words[0] or "/" in words[0] or (len(words[0]) < 256 and Path(words[0]).exists()):
            words = ["overview", *words]
        else:
            raise error_of(
                "A001",
                found=f"verbs: {', '.join(v for v in verbs if v != 'overview')}",
                fix=did_you_mean(words[0], verbs) or None,
                word=words[0][:60],
            )
    if not words:
        words = ["--help"]
    if words[-1] in ("--help", "-h", "model"):
        _with_foreign_sentences()
    _with_its_whole_text(words)
    forget()
    try:
        command, bound, _ = app.parse_args(
            words, console=Console(), exit_on_error=False, print_error=False
        )
    except CycloptsError as e:
        from turnbuckle.foundation.schema.vocabulary import refuse_old_options

        refuse_old_options(words)
        raise error_of(
            "A002", problem=str(e).splitlines()[0] if str(e) else type(e).__name__
        ) from e
    _keep_inputs(bound.arguments)
    _settle_format(command, bound.arguments)
    asked = ON_COMMAND_LINE.set(True)
    try:
        return int(command(*bound.args, **bound.kwargs) or 0)
    finally:
        ON_COMMAND_LINE.reset(asked)


#: Options that name what is written.
_WRITTEN = ("output", "charts", "keep", "surface")


def _keep_inputs(arguments: Mapping[str, Any]) -> None:
    """Refuse an output that is also an input of the command line, before any work.  Raises
    `ReportError` R004.

    Other files that a command reads, such as members of an archive, are noted when opened and
    refused when written.
    """
    for name, value in arguments.items():
        for word in value if isinstance(value, list | tuple) else (value,):
            if name not in _WRITTEN and isinstance(word, str | Path):
                with suppress(OSError, ValueError):
                    noted(str(word).partition("::")[0])
    for name in _WRITTEN:
        if isinstance(path := arguments.get(name), Path):
            refuse_input(path, f"--{name}")


def _settle_format(command: Callable[..., Any], given: dict[str, Any]) -> None:
    """Let the ending of the output's name say in which format an answer is written.  Raises as
    `format_of` does.
    """
    if "format" not in signature(command).parameters:
        return
    options = get_type_hints(command, include_extras=True)
    if options["format"] == FormatOption:
        output = given.get("output") if options.get("output") == Output else None
        given["format"] = format_of(output, given.get("format"))
