"""XML that somebody wrote, as a tree of elements: of bounded size and depth, without entities of
its own, and nothing is fetched.

A declaration of the document type may name a file (hwloc writes one); it is not opened.  A file
that declares entities is refused, since they can grow beyond measure or name other files.

    A486  the file is no XML, or one that is not read
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.parsers import expat

from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.foundation.files import opened

_MOST_BYTES: Final = 64 << 20
_MOST_ELEMENTS, _DEEPEST = 1_000_000, 200


@dataclass
class Element:
    """One element: its name, its attributes, the elements inside, and the line on which it
    begins.
    """

    name: str
    attributes: dict[str, str]
    line: int
    inside: list[Element] = field(default_factory=list)


class _Refused(ValueError):
    """What is not read, in words."""


def parsed(path: Path) -> Element:
    """Return the outermost element of a file.  Raises A486."""
    root = Element("", {}, 0)
    above = [root]
    count = 0
    parser = expat.ParserCreate()

    def begin(name: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if count > _MOST_ELEMENTS or len(above) > _DEEPEST:
            raise _Refused(
                f"more than {_MOST_ELEMENTS:,} elements"
                if count > _MOST_ELEMENTS
                else f"elements {_DEEPEST} deep"
            )
        element = Element(name, attributes, parser.CurrentLineNumber)
        above[-1].inside.append(element)
        above.append(element)

    def entity(*about: object) -> None:
        raise _Refused("entities")

    parser.StartElementHandler = begin
    parser.EndElementHandler = lambda name: above.pop()
    parser.EntityDeclHandler = entity
    parser.ExternalEntityRefHandler = lambda *about: 0
    try:
        with opened(path) as file:
            text = file.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise _Refused(f"more than {_MOST_BYTES >> 20} MiB")
        parser.Parse(text, True)
    except (
        ValueError,
        LookupError,
        expat.ExpatError,
        OSError,
    ) as error:  # LookupError: an encoding that nobody knows
        raise error_of("A486", where=path.name, found=clipped(str(error), 120)) from error
    return root.inside[0]
