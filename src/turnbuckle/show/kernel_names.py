"""Short names of kernels: what tells one template instance from the next, without the pages of C++
around it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from turnbuckle.show.text import clean, shorten

#: Characters of a name that are looked at; templates of templates grow without limit.
LOOKED_AT: Final = 20_000
_OPEN, _CLOSE = "<([{", ">)]}"
_LEADING = re.compile(r"^(?:void|static|inline|__global__|auto)\s+")
_UNNAMED = re.compile(r"(?:<unnamed>|\(anonymous namespace\)|\{anonymous\})::")


def parts(name: str) -> tuple[str, list[str]]:
    """Return a name without return type, parameters and template arguments, and its template
    arguments, nested ones left out.

    >>> parts("void ns::scale<float, ns::Op<int>::Inner, (int)4>(float *, int)")
    ('ns::scale<…>', ['float', 'ns::Op::Inner', '4'])
    >>> parts("<unnamed>::f0(<unnamed>::Tensor<int>)")
    ('f0', [])
    """
    text = _UNNAMED.sub("", _LEADING.sub("", name[:LOOKED_AT]))
    outside: list[str] = []
    arguments: list[str] = []
    depth, template = 0, 0
    for i, c in enumerate(text):
        if c in _OPEN:
            if depth == 0 and c == "(" and outside:
                break
            depth += 1
            if depth == 1 and c == "<":
                template = depth
                outside.append("<…>")
                arguments.append("")
            continue
        if c in _CLOSE and not (c == ">" and text[i - 1 : i] == "-"):
            depth = max(depth - 1, 0)
            template = min(template, depth)
            continue
        if depth == 0:
            outside.append(c)
        elif depth == 1 and template == 1:
            if c == ",":
                arguments.append("")
            else:
                arguments[-1] += c
    return "".join(outside).strip(), [_tidy(a) for a in arguments]


def _tidy(argument: str) -> str:
    """Return one template argument in short: no cast, no lambda's tail."""
    return _LEADING.sub("", argument.strip()).removesuffix("::").strip()


def kernel_labels(names: Sequence[str], width: int = 48) -> list[str]:
    """Return one label for each name, all different, at most about `width` characters.

    >>> kernel_labels(["void k<a::Add<int>, 4>(int)", "void k<a::Mul<int>, 4>(int)", "dot"])
    ['k<a::Add>', 'k<a::Mul>', 'dot']
    >>> kernel_labels(["", ""])
    ['(no name)', '(no name) (2)']
    """
    split_names = [parts(n) for n in names]
    groups: dict[str, list[list[str]]] = {}
    for base, arguments in split_names:
        groups.setdefault(base, []).append(arguments)
    seen: dict[str, int] = {}
    out = []
    for base, arguments in split_names:
        label = base
        if len(groups[base]) > 1 and arguments:
            different = [
                a
                for i, a in enumerate(arguments)
                if a and len({g[i] if i < len(g) else "" for g in groups[base]}) > 1
            ]
            label = base.replace("<…>", f"<{', '.join(different)}>", 1) if different else base
        label = shorten(clean(label) or "(no name)", width)
        seen[label] = seen.get(label, 0) + 1
        out.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return out
