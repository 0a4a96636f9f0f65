"""Words and numbers as people read them; words for what tables and code call by a short name stand
in ``words.csv``.

Every text from a recording or a machine file is hostile: `clean` makes it harmless to read (no
control characters, no characters that turn the direction of writing round, no invisible ones);
escaping for HTML is the template's business.
"""

from __future__ import annotations

import math
import textwrap
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from turnbuckle.foundation.schema import table_rows
from turnbuckle.foundation.units import show

#: Longest text that enters the report at all; a kernel name of a template library may hold 100 kB.
LONGEST: Final = 600
#: Combining marks kept on one character; more of them paint over the lines above and below.
MARKS: Final = 3
DASH: Final = "–"
NARROW: Final = "\N{NO-BREAK SPACE}"
MINUS: Final = "\N{MINUS SIGN}"


def clean(text: object, longest: int = LONGEST) -> str:
    """Return text that shows what it holds: control, format and unassigned characters become
    ``\\u{..}``, tabs and ends of line spaces.

    >>> clean("gemm\\x1b[31m\\u202egnp.exe")
    'gemm\\\\u{1b}[31m\\\\u{202e}gnp.exe'
    """
    text = str(text)
    if len(text) <= longest and text.isascii() and text.isprintable():
        return text
    out: list[str] = []
    marks = 0
    for c in text[: longest + 1]:
        kind = unicodedata.category(c)
        marks = marks + 1 if kind in ("Mn", "Me") else 0
        if marks > MARKS:
            continue
        if c in "\t\n\r":
            out.append(" ")
        elif kind[0] == "C":
            out.append("\N{REPLACEMENT CHARACTER}" if kind == "Cs" else f"\\u{{{ord(c):x}}}")
        elif kind in ("Zl", "Zp"):
            out.append(" ")
        else:
            out.append(c)
    joined = "".join(out)
    return joined if len(joined) <= longest else joined[: longest - 1] + "…"


def shorten(text: str, width: int) -> str:
    """Return at most `width` characters, the middle left out: both ends of a name tell it apart.

    >>> shorten("abcdefghijkl", 7)
    'abcd…kl'
    """
    if len(text) <= width:
        return text
    head = (width - 1) - (width - 1) // 3
    return text[:head] + "…" + text[len(text) - (width - 1 - head) :]


def fitted(text: str, width: int) -> str:
    """Return at most `width` characters, whole words from the start.

    >>> fitted("512 copies of 4,096 B", 15)
    '512 copies of …'
    """
    return text if len(text) <= width else text[: width - 1].rpartition(" ")[0] + " …"


def folded(text: str, width: int) -> str:
    """Return words on one line or two of at most `width` characters each.

    >>> folded("GPU one PCIe switch away, fabric", 20)
    'GPU one PCIe switch\\naway, fabric'
    """
    first, *rest = textwrap.wrap(text, width) or [""]
    return "\n".join([shorten(first, width), *([shorten(" ".join(rest), width)] if rest else [])])


def number(value: float | None, unit: str, digits: int = 3, *, all_digits: bool = False) -> str:
    """Return a quantity with its unit; a dash where there is none.  `all_digits` keeps zeros at the
    end.

    >>> number(2.02e-6, "s"), number(None, "s"), number(1.04, "s", 4, all_digits=True)
    ('2.02\\xa0µs', '–', '1.040\\xa0s')
    """
    if value is None or not math.isfinite(value):
        return DASH
    head, _, tail = show(value, unit, digits).rpartition(" ")
    if not head:
        head, tail = tail, ""
    if all_digits and value and "e" not in head:
        head = _padded(head, digits)
    if tail.startswith("u"):
        tail = "µ" + tail[1:]
    return head.replace("-", MINUS) + (NARROW + tail if tail else "")


def _padded(digits_text: str, digits: int) -> str:
    """Return a decimal number with zeros up to `digits` significant digits."""
    significant = len(digits_text.lstrip("-0.").replace(".", ""))
    missing = digits - significant
    if missing <= 0:
        return digits_text
    return digits_text + ("" if "." in digits_text else ".") + "0" * missing


def seconds(value: float) -> str:
    """Return a run time as results state it: four digits.

    >>> seconds(1.0404)
    '1.040\\xa0s'
    """
    return number(value, "s", 4, all_digits=True)


def span(low: float, high: float) -> str:
    """Return an interval of run times in one unit.

    >>> span(0.99472, 1.0002), span(0.0124, 0.0131)
    ('0.995 to 1.000\\xa0s', '12.40 to 13.10\\xa0ms')
    """
    divisor, unit = next(
        ((d, u) for d, u in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")) if high >= d), (1e-9, "ns")
    )
    places = max(0, 3 - math.floor(math.log10(high / divisor))) if high > 0 else 0
    return f"{low / divisor:.{places}f} to {high / divisor:.{places}f}{NARROW}{unit}"


def count(value: float | None) -> str:
    """Return a whole number with groups of three."""
    return DASH if value is None else f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def percent(share: float | None, digits: int = 3) -> str:
    """Return a share as a percentage, without decimals where they say nothing.

    >>> percent(0.12345), percent(0.0), percent(0.00004)
    ('12.3\\xa0%', '0\\xa0%', '<\\xa00.01\\xa0%')
    """
    if share is None or not math.isfinite(share):
        return DASH
    if 0 < abs(share) < 1e-4:
        return f"<{NARROW}0.01{NARROW}%"
    value = share * 100
    places = max(0, min(2, digits - 1 - math.floor(math.log10(abs(value))))) if value else 0
    if 99.5 <= value < 100:
        # nearly all is not all
        places, value = (1, value) if value < 99.95 else (2, min(value, 99.99))
    text = f"{value:.{places}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    if abs(value) >= 1e4:
        text = count(value)
    return text.replace("-", MINUS) + NARROW + "%"


def signed(share: float, digits: int = 2) -> str:
    """Return a change with its sign.

    >>> signed(0.0312), signed(-0.091), signed(0.0), signed(2.4)
    ('+3.1\\xa0%', '−9.1\\xa0%', '0\\xa0%', '+240\\xa0%')
    """
    if abs(share) < 5e-6:
        return f"0{NARROW}%"
    value = float(f"{abs(share) * 100:.{digits - 1}e}")
    places = max(0, min(3, digits - 1 - math.floor(math.log10(value))))
    text = f"{value:.{places}f}"
    return ("+" if share > 0 else MINUS) + text + NARROW + "%"


def bounds(low: float, high: float) -> str:
    """Return an interval of changes.

    >>> bounds(-0.01, 0.054)
    '[−1.0, +5.4]\\xa0%'
    """
    return f"[{signed(low)[:-2]}, {signed(high)[:-2]}]{NARROW}%"


def factor(value: float, digits: int = 3) -> str:
    """Return a ratio, as ``1.043×``.

    >>> factor(1.04, 4), factor(0.5), factor(12.31)
    ('1.040×', '0.500×', '12.3×')
    """
    return number(value, "1", digits, all_digits=True) + "×" if math.isfinite(value) else "∞"


def probability(value: float) -> str:
    """Return a probability from draws: never certainty.

    >>> probability(0.934), probability(1.0), probability(0.0)
    ('93\\xa0%', '>\\xa099\\xa0%', '<\\xa01\\xa0%')
    """
    if value > 0.99:
        return f">{NARROW}99{NARROW}%"
    if value < 0.01:
        return f"<{NARROW}1{NARROW}%"
    return f"{value * 100:.0f}{NARROW}%"


def plural(n: int, singular: str, many: str = "") -> str:
    """Return a number of things.

    >>> plural(1, "copy", "copies"), plural(2, "kernel")
    ('1 copy', '2 kernels')
    """
    return f"{count(n)} {singular if n == 1 else many or singular + 's'}"


def listed(words: Sequence[str]) -> str:
    """Return words in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else list(words))


@cache
def _lists() -> dict[str, dict[str, str]]:
    lists: dict[str, dict[str, str]] = {}
    for row in table_rows("show/words.csv"):
        lists.setdefault(row["list"], {})[row["word"]] = row["text"]
    return lists


def terms(name: str) -> Mapping[str, str]:
    """Return the texts of a list of ``words.csv`` by their words, in its order.

    >>> terms("direction")["h2d"]
    'host to device'
    """
    return _lists()[name]
