"""Names of one kernel as different tools write them.

A recording and a table of kernels rarely come from one tool.  One writes ``void k<(int)4,
float>(float *)``, another ``k<4, float>(float*) [clone .kd]``, a third the mangled name or ``k``
alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from typing import Final

from turnbuckle._native import demangle

#: What AMD's tools put behind the name of the code object's symbol.
_SUFFIX: Final = re.compile(r"(?:\s?\[clone [^\[\]]*+\]|\.kd)\Z")
_NAMELESS: Final = re.compile(r"\(anonymous namespace\)|<unnamed>|\{anonymous\}")
#: NVIDIA's demangler writes the type of a template's number.
_CAST: Final = re.compile(
    r"\((?:bool|char|short|int|long|long long|unsigned(?: (?:char|short|int|long|long long))?)\)(?=-?\d)"
)


def spelled(name: str) -> str:
    """Return a name as all tools have it: demangled, without return type, parameters, suffixes and
    blanks.

    >>> spelled("void lib::k<(int)4, float>(float *, int) [clone .kd]")
    'lib::k<4,float>'
    >>> spelled("_Z5scaleIfEvPT_i.kd") == spelled("void scale<float>(float*, int)") == "scale<float>"
    True
    """
    text = name.strip()
    while (shorter := _SUFFIX.sub("", text)) != text:
        text = shorter
    if text.startswith("_Z"):
        (text,) = demangle([text])
    text = _CAST.sub("", _NAMELESS.sub("{}", text))
    # an operator's name has brackets that are none
    return "".join((text if "operator" in text else _head(text)).split())


def _head(text: str) -> str:
    """Return the text without the type before a function's name and the parameters after it."""
    depth, start = 0, 0
    for k, letter in enumerate(text):
        if letter == "(" and not depth:
            return text[start:k]
        depth += (letter in "<(") - (letter in ">)")
        if letter == " " and not depth and k + 1 < len(text):
            start = k + 1
    return text[start:]


def own_name(text: str) -> str:
    """Return the function's own name in a spelled one, without namespaces and template arguments.

    >>> own_name("lib::k<4,lib::f<float>>")
    'k'
    """
    return text.split("<", 1)[0].rsplit("::", 1)[-1]


class Names:
    """Rows of a table that kernels are looked up in by their names.

    Parameters
    ----------
    patterns : names, as any tool writes them; ``*`` and ``?`` stand for any text.
    plain : rows in which they stand for themselves.
    """

    def __init__(self, patterns: Sequence[str], plain: Collection[int] = ()) -> None:
        wild = set(range(len(patterns))).difference(plain)
        self._wild = [
            (k, p.replace("[", "[[]"))
            for k, p in enumerate(patterns)
            if k in wild and ("*" in p or "?" in p)
        ]
        self._exact: dict[str, int] = {}
        self._spelled: dict[str, int] = {}
        self._templates: dict[str, set[int]] = {}
        for k, pattern in enumerate(patterns):
            self._exact.setdefault(pattern, k)
            text = spelled(pattern)
            self._spelled.setdefault(text, k)
            if "<" in text:
                self._templates.setdefault(own_name(text), set()).add(k)

    def row(self, name: str) -> int:
        """Return the row of a name, -1 where there is none.

        The first row counts that has this name or a pattern of it, else the first that spells it
        another way.  A name alone stands for a function with any template arguments, in the table;
        in the recording, if one row alone has a function of that name.

        >>> rows = Names(["k<float>", "lib::k", "gemm*", "one<int>"])
        >>> [rows.row(n) for n in ("void k<float>(float*)", "void lib::k<int>()", "gemm_nt", "one", "two")]
        [0, 1, 2, 3, -1]
        """
        exact = self._exact.get(name, -1)
        wild = next(
            (
                k
                for k, pattern in self._wild
                if (exact < 0 or k < exact) and fnmatchcase(name, pattern)
            ),
            exact,
        )
        if wild >= 0:
            return wild
        text = spelled(name)
        for key in (text, text.split("<", 1)[0], own_name(text)):
            if key in self._spelled:
                return self._spelled[key]
        alone = self._templates.get(text, set()) if text == name.strip() else set()
        return next(iter(alone)) if len(alone) == 1 else -1
