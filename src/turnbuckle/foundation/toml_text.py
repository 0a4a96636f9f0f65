"""TOML that somebody wrote: bounded before it is parsed, with the place of every key, or with what is wrong and where."""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

from turnbuckle.foundation.positions import Positions, locate

#: Dots of a key.  tomllib takes time quadratic in the parts of one: without this a small file takes minutes.
MOST_DOTS: Final = 64
#: A text in quotes, and the quote that ends it where there is one: a text without is looked for once, not behind each quote again.
_STRING: Final = re.compile(r""""(?:[^"\\]|\\.)*+(")?|'[^']*+(')?""")
_NO_KEY: Final = re.compile(r"[^\w.\"' \t-]")


class NotToml(ValueError):
    """The text is no TOML that can be read: why, where (``:line:column`` or ``:line``, to follow a file's name), how to mend it."""

    def __init__(self, why: str, at: str = "", fix: str = "") -> None:
        super().__init__(why)
        self.why, self.at, self.fix = why, at, fix


def parsed(text: str, *, longest_line: int = 4096) -> tuple[dict[str, Any], Positions]:
    """What the text says, and where each key stands.

    Raises
    ------
    NotToml : a line is too long, a key has too many parts, the text is nested too deeply, or is no TOML.

    >>> parsed("[a]\\nb = 1")[0]
    {'a': {'b': 1}}
    """
    text = text.replace("\r\n", "\n")
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > longest_line:
            raise NotToml(f"a line longer than {longest_line:,} letters", f":{number}", "break it into shorter ones")
        # lists hold more dots than any key; a part in quotes may hold what no key does
        if line.count(".") > MOST_DOTS and max(_most_dots(line), _most_dots(_unquoted(line))) > MOST_DOTS:
            raise NotToml(f"a key of more than {MOST_DOTS} dots", f":{number}", "leave the dots out")
    try:
        return tomllib.loads(text), locate(text)
    except tomllib.TOMLDecodeError as error:
        why, _, where = str(error).partition(" (at ")
        at = re.match(r"line (\d+), column (\d+)", where)
        end = f":{text.count(chr(10)) + 1}:{len(text) - text.rfind(chr(10))}"
        raise NotToml(why.lower(), f":{at[1]}:{at[2]}" if at else end) from None
    except RecursionError:
        raise NotToml("nested too deeply") from None
    except ValueError:  # a whole number of more digits than Python reads
        raise NotToml("a number of thousands of digits") from None


def _most_dots(line: str) -> int:
    return max(part.count(".") for part in _NO_KEY.split(line))


def _unquoted(line: str) -> str:
    """Return a line with a letter for each text in quotes."""
    return _STRING.sub(lambda text: "q" if text.lastindex else text[0], line)
