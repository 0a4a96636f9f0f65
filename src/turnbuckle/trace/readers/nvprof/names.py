"""Short names of functions, without types, namespaces, templates and parameters."""

from __future__ import annotations

import re
from typing import Final

_LONGEST: Final = 20_000
_UNNAMED: Final = "(anonymous namespace)"


def short(name: str) -> str:
    """Return a function's own name: no return type, no namespaces, no template arguments, no
    parameters.

    >>> [short(n) for n in ("void ns::scale<float>(float*, int)", "cupy_fill", "(anonymous namespace)::f(int)", "a::operator()(int)")]
    ['scale', 'cupy_fill', 'f', 'operator()']
    >>> short("_ZN4cuda4copyIXquestionableEEv")
    'copy'
    """
    if name.startswith("_Z"):
        return _last_identifier(name)
    text = name[:_LONGEST].replace("<unnamed>", _UNNAMED).replace(_UNNAMED + "::", "")
    operator = re.search(r"(?:^|\b)operator\s*(?:\(\)|\[\]|[^\w\s(]{1,3})", text)
    if operator:
        return operator[0]
    outside: list[str] = []
    depth = 0
    for c in text:
        if c == "(" and depth == 0 and outside:
            break
        if c in "<([{":
            depth += 1
        elif c in ">)]}":
            depth = max(depth - 1, 0)
        elif depth == 0:
            outside.append(c)
    plain = "".join(outside).strip()
    return plain.rsplit("::", 1)[-1].rsplit(" ", 1)[-1] or name


def _last_identifier(name: str) -> str:
    """Return the last identifier of a mangled name before its template arguments or parameters."""
    position = 2 + (name[2:3] == "N")
    last = name
    while match := re.compile(r"(?:NK?|S[0-9A-Z]*_|St|L)?(\d{1,4})").match(name, position):
        size = int(match[1])
        position = match.end() + size
        if position > len(name) or not size:
            break
        last = name[match.end() : position]
    return last
