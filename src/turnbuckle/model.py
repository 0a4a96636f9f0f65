"""The papers' models in Python: ``turnbuckle model NAME`` is `turnbuckle.model.NAME`, with the
options of the verb by name.

>>> import turnbuckle as tb
>>> answer = tb.model.bound(gain="1.21", from_="100 us", to="10 us", at="1 ms")
>>> round(answer["bounds"][0]["ratio"], 2)
2.74

One function answers both, so that one question has one number.  A quantity is a text with its unit,
as on the command line.  An option that takes several words takes a list.  A `turnbuckle.Machine` is
taken where the name of a machine is, and a `turnbuckle.Run` where a recording is.  What comes back
is a `turnbuckle.show.terminal.model_answer.ModelAnswer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache, wraps
from inspect import Parameter, Signature, cleandoc, signature
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from turnbuckle.foundation import registry
from turnbuckle.foundation.errors import clipped, did_you_mean, error_of
from turnbuckle.machine import Machine
from turnbuckle.show.terminal.model_answer import ModelAnswer

_GROUP = "model "


def __dir__() -> list[str]:
    return sorted(
        name.removeprefix(_GROUP)
        for name in registry.entries("questions")
        if name.startswith(_GROUP)
    )


def __getattr__(name: str) -> Callable[..., ModelAnswer]:
    if name.startswith("__") or _GROUP + name not in registry.entries("questions"):
        raise AttributeError(
            (
                f"module 'turnbuckle.model' has no attribute {name!r}. "
                f"{did_you_mean(name, __dir__())}"
            ).rstrip(". ")
        )
    return _in_python(registry.load("questions", _GROUP + name))


@cache
def _in_python(verb: Callable[..., ModelAnswer]) -> Callable[..., ModelAnswer]:
    """Return a verb as a function that takes Python's values, with its signature and the help of
    its options as docstring.

    A third party's verb that writes its answer itself stays as it is.
    """
    hints = get_type_hints(verb, include_extras=True)
    if hints.get("return") is not ModelAnswer:
        return verb
    parameters = list(signature(verb).parameters.values())
    shown = [option for p in parameters for option in _options(p, hints[p.name])]
    asked = Signature(
        [p.replace(annotation=_plain(p.annotation)) for p in shown], return_annotation=ModelAnswer
    )

    @wraps(verb)
    def function(*given: Any, **options: Any) -> ModelAnswer:
        bound = asked.bind(*given, **options).arguments
        values = {
            p.name: _taken(p, bound[p.name]) for p in asked.parameters.values() if p.name in bound
        }
        words: list[Any] = []
        named: dict[str, Any] = {}
        for p in parameters:
            kind = _plain(hints[p.name])
            if is_dataclass(kind):
                named[p.name] = kind(
                    **{f.name: values[f.name] for f in fields(kind) if f.name in values}
                )  # type: ignore[operator]
            elif p.name in values and p.kind is Parameter.VAR_POSITIONAL:
                words += values[p.name]
            elif p.name in values and p.kind is Parameter.KEYWORD_ONLY:
                named[p.name] = values[p.name]
            elif p.name in values:
                words.append(values[p.name])
        return verb(*words, **named)

    function.__signature__ = asked  # type: ignore[attr-defined]
    function.__annotations__ = {p.name: p.annotation for p in asked.parameters.values()} | {
        "return": ModelAnswer
    }
    lines = [
        f"{p.name} : {text[:1].lower() + text[1:]}" for p in shown if (text := _help(p.annotation))
    ]
    function.__doc__ = "\n".join(
        [cleandoc(verb.__doc__ or ""), "", "Parameters", "----------", *lines]
    )
    return function


def _options(parameter: Parameter, hint: Any) -> Iterator[Parameter]:
    """Yield a parameter as the options that the command line has for it: a group of options is one
    each.
    """
    kind = _plain(hint)
    if not is_dataclass(kind):
        yield parameter.replace(annotation=hint)
        return
    hints = get_type_hints(kind, include_extras=True)
    for f in fields(kind):
        yield Parameter(f.name, Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])


def _plain(hint: Any) -> Any:
    """Return a type without its annotations for the command line."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _help(hint: Any) -> str:
    """Return the help text of an option; empty if it has none."""
    return next(
        (str(text) for extra in get_args(hint)[1:] if (text := getattr(extra, "help", None))), ""
    )


def _taken(parameter: Parameter, value: Any) -> Any:
    """Convert a value for the verb.  Raises A002 for an impossible one."""
    hint = parameter.annotation
    if parameter.kind is Parameter.VAR_POSITIONAL:
        return [_fitted(parameter.name, hint, each) for each in value]
    return _fitted(parameter.name, hint, value)


def _fitted(name: str, hint: Any, value: Any) -> Any:
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if value is None and type(None) in kinds:
        return None
    (kind,) = (k for k in kinds if k is not type(None))
    if get_origin(kind) is list:
        several = value if isinstance(value, list | tuple) else [value]
        return [_fitted(name, get_args(kind)[0], each) for each in several]
    if get_origin(kind) is Literal:
        fits = value in get_args(kind)
    elif kind is str:
        # a list or a number is what the words of the command line spell
        if isinstance(value, list | tuple):
            return ",".join(str(_fitted(name, str, each)) for each in value)
        value = (
            repr(value) if isinstance(value, float) else str(value) if type(value) is int else value
        )
        fits = isinstance(value, str | Machine)
    elif kind is Path:
        from turnbuckle.projection.run import Run  # brings the tables

        value = Path(value) if isinstance(value, str) else value
        fits = isinstance(value, Path | Run)
    else:
        fits = (isinstance(value, kind) and (kind is bool or not isinstance(value, bool))) or (
            kind is float and type(value) is int
        )
    if not fits:
        wanted = (
            f"one of {', '.join(map(str, get_args(kind)))}"
            if get_origin(kind) is Literal
            else getattr(kind, "__name__", str(kind))
        )
        raise error_of("A002", problem=f"{name} is {clipped(repr(value), 60)}, not {wanted}")
    return value
