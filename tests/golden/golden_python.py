"""Questions of ``turnbuckle model`` in Python, where an option ``--some-name WORD`` is
``some_name=WORD``.

A verb is one function, which the command line and `turnbuckle.model` call: where both call it with
the same values, it answers the same.
"""

from __future__ import annotations

import inspect
import json
import shlex
from collections.abc import Callable, Iterator
from functools import cache, wraps
from types import UnionType
from typing import Any, get_args, get_origin
from unittest import mock

import golden_net as net

import turnbuckle as tb
from turnbuckle.cli.app import app
from turnbuckle.foundation import registry
from turnbuckle.show.terminal.model_answer import ModelAnswer

QUESTIONS = [
    q
    for q in net.questions()
    if q.startswith("model ") and "--format json" in q and " && " not in q
]
#: Asked in Python: the first question of each verb, and those that are refused.
ASKED = [
    q
    for q in QUESTIONS
    if q == next(first for first in QUESTIONS if net.verb_of(first) == net.verb_of(q))
    or "error" in net.kept_once(net.verb_of(q)).get(q, {})
]


def ask(question: str, function: Callable[..., Any] | None = None) -> Any:
    """Ask a question of the command line in Python, of its verb or of another `function` with the
    signature of its verb.
    """
    _, verb, *words = shlex.split(question)
    function = function or getattr(tb.model, verb)
    parameters = inspect.signature(function).parameters
    several = any(
        get_origin(p.annotation) is list for p in parameters.values() if p.kind is p.POSITIONAL_ONLY
    )
    given: list[Any] = []
    options: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        if not word.startswith("--"):
            given.append(word)
        elif word == "--format":
            next(rest)
        else:
            option = word[2:].replace("-", "_")
            name = option if option in parameters else f"{option}_"
            options[name] = _value(parameters[name].annotation, rest, options.get(name))
    return function(given, **options) if several else function(*given, **options)


def _value(hint: Any, words: Iterator[str], before: Any) -> Any:
    (kind,) = (
        k
        for k in (get_args(hint) if isinstance(hint, UnionType) else [hint])
        if k is not type(None)
    )
    if kind is bool:
        return True
    if get_origin(kind) is list:
        return [*(before or []), next(words)]
    return kind(next(words)) if kind in (int, float) else next(words)


def holds(question: str, hold: Callable[[str], None]) -> None:
    """Hold the answer of the command line; the answer of Python is the same, and shows itself in
    all its ways.
    """
    if question not in QUESTIONS or question in ASKED:
        hold(question)
        return
    answers: list[ModelAnswer] = []
    document = cache(ModelAnswer.as_dict)

    def gathered(answer: ModelAnswer) -> dict[str, Any]:
        answers.append(answer)
        return document(answer)

    with mock.patch.object(ModelAnswer, "as_dict", gathered):
        hold(question)
        shows_itself(answers[0])
    from_words, from_python = calls(question)
    assert from_words == from_python


def shows_itself(answer: ModelAnswer) -> None:
    """Check the table, the document and the words of an answer."""
    document, shown = answer.as_dict(), repr(answer)
    assert answer.table().height > 0 and set(json.loads(answer.to_json())) == set(document)
    assert (headline := answer.headline()) and shown.startswith(headline) and shown.count("\n") < 60
    assert answer._repr_html_().startswith("<pre")


def calls(question: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values that the verb of a question gets: from the command line, and from
    Python.
    """
    verb = registry.load("questions", net.verb_of(question))

    def bound(*given: Any, **options: Any) -> dict[str, Any]:
        arguments = inspect.signature(verb).bind(*given, **options)
        arguments.apply_defaults()
        return arguments.arguments

    words = app.parse_args(shlex.split(question))[1]
    options = {
        name: value for name, value in words.kwargs.items() if name not in ("format", "output")
    }
    return bound(*words.args, **options), ask(
        question, tb.model._in_python.__wrapped__(wraps(verb)(bound))
    )
