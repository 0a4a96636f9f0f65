"""A machine as the text of a machine file: what `turnbuckle.machine.load` reads back to the same
numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from turnbuckle.machine import Parameter

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
_LONGEST = 1200


def is_name(text: str) -> bool:
    """Return whether a machine may have this name.

    >>> is_name("our-node"), is_name("Our node"), is_name("source")
    (True, False, False)
    """
    return _NAME.fullmatch(text) is not None and text not in ("source", "self")


def quoted(text: str) -> str:
    """Return a TOML string of one line.

    A character that cannot be printed becomes a blank. Runs of dots are shortened to what a reader
    of machine files accepts.

    >>> quoted('a "b"' + chr(7))
    '"a \\\\"b\\\\" "'
    """
    shown = "".join(c if c.isprintable() else " " for c in text)[:_LONGEST]
    while shown.count(".") > 60:
        shown = shown[: shown.rindex(".")]
    return '"' + shown.replace("\\", "\\\\").replace('"', '\\"') + '"'


def machine_text(
    parameters: Mapping[str, Parameter],
    comments: Sequence[str] = (),
    **head: str | int | Sequence[str],
) -> str:
    """Return the text of a machine file.

    Parameters
    ----------
    parameters : by their name in the schema; values in SI are written to nine digits.
    comments : lines put before everything.
    head : keys of the machine itself; what is empty or 0 is left out.
    """
    lines = [
        f"# {''.join(c if c.isprintable() else ' ' for c in c)}".rstrip() for c in comments
    ] + ["", "[machine]"]
    for key, value in head.items():
        if isinstance(value, Sequence) and not isinstance(value, str):
            text = f"[{', '.join(quoted(v) for v in value)}]"
        else:
            text = quoted(value) if isinstance(value, str) else str(value)
        lines += [f"{key} = {text}"] if value else []
    for dotted, p in parameters.items():
        unit = "" if p.unit == "1" else f" {p.unit}"
        lines += ["", f"[{dotted}]", f'value = "{p.value:.9g}{unit}"']
        lines += [f'error = "{p.error * 100:.3g} %"'] if p.error else []
        lines += [f'nature = "{p.nature}"', f"source = {quoted(p.source)}"]
        lines += [f"note = {quoted(p.note)}"] if p.note else []
    return "\n".join(lines).lstrip("\n") + "\n"
