"""What stands in a cell of a table: names from outside, times, a dash where there is nothing."""

from __future__ import annotations

from rich.markup import escape

from turnbuckle.foundation.units import show as quantity

#: Names longer than this are cut in tables (JSON and reports keep them whole).
NAME_WIDTH = 60


def plain(text: object, width: int = NAME_WIDTH) -> str:
    """Return text from outside for `rich.text.Text`, which has no markup: no control characters,
    not too long.
    """
    printable = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))
    return printable if len(printable) <= width else printable[: width - 1] + "…"


def clean(text: object, width: int = NAME_WIDTH) -> str:
    """Return text from outside for where rich reads markup: `plain`, and nothing in it is
    markup.
    """
    return escape(plain(text, width))


def seconds(value: float | None) -> str:
    """Return a time for people; a dash where there is none."""
    return "-" if value is None else quantity(value, "s")


def ns(value: int | None) -> str:
    """Return nanoseconds for people."""
    return seconds(None if value is None else value * 1e-9)
