"""Docstrings as the reference of the manual needs them: a Griffe extension, named in mkdocs.yml.

Our sections say ``name : what it is`` on one line. Types stand in the signature. NumPy's style
would read that text as the type, so it is moved to a line of its own before the docstring is
parsed. What a function returns gets the colon that stands for no name and no type.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_SECTION = re.compile(
    r"^(?:Parameters|Attributes|Raises)\n-+\n(?:.+(?:\n|\Z)|\n(?!.*\n-))+", re.MULTILINE
)
_RETURNS = re.compile(r"^(Returns\n-+\n)(?=\S)", re.MULTILINE)
_ENTRY = re.compile(r"^([\w, ]+?) : (.+)$", re.MULTILINE)


def plain(text: str) -> str:
    """Return a docstring with the description of each entry of a section below its name.

    >>> print(plain("Do it.\\n\\nParameters\\n----------\\na, b : of it,\\n    and more.\\nc : x : y."))
    Do it.
    <BLANKLINE>
    Parameters
    ----------
    a, b
        of it,
        and more.
    c
        x : y.
    >>> print(plain("Do it.\\n\\nReturns\\n-------\\nIt, done."))
    Do it.
    <BLANKLINE>
    Returns
    -------
    :
        It, done.
    """
    text = _SECTION.sub(lambda section: _ENTRY.sub(r"\1\n    \2", section[0]), text)
    return _RETURNS.sub(r"\1:\n    ", text)


class Descriptions(griffe.Extension):
    """Rewrite the docstring of each object."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring:
            obj.docstring.value = plain(obj.docstring.value)
