"""Quantities at the door: ``"25 GB/s"`` becomes 25e9, and a number without a unit stays outside.

>>> parse("25 GB/s", "B/s")
25000000000.0
>>> parse("2 us", "s")
2e-06
>>> show(0.0032, "s")
'3.2 ms'

Inside Turnbuckle every quantity is SI (seconds, bytes, B/s, FLOP/s, W, Hz); the unit of a quantity
is one of `UNITS`. Prefixes k, M, G, T, P, E are powers of 1000; Ki, Mi, Gi, Ti, Pi are powers of
1024 and belong to bytes only. ``B`` is a byte and ``b`` a bit: ``"200 Gb/s"`` is accepted where
bytes per second are wanted and is 25e9.

Errors (`turnbuckle.foundation.errors.UnitError`):

    U001  a number without a unit
    U002  a unit Turnbuckle does not know
    U003  a unit of another dimension
    U004  not a number
    U005  too large, or not finite
"""

from __future__ import annotations

import csv
import math
import re
from decimal import Context, Decimal
from functools import cache
from pathlib import Path
from typing import Final

from .errors import UnitError, clipped, did_you_mean, error_of

UNITS: Final[dict[str, str]] = {
    "s": "time",
    "B": "size",
    "B/s": "bandwidth",
    "FLOP/s": "floating-point rate",
    "W": "power",
    "Hz": "frequency",
    "s/B": "time for a byte",
    "1": "plain number",
}
"""Every SI unit `parse` and `show` know, and what it measures."""

MANNER: Final = "manner"
MANNERS: Final = ("local", "sent", "waits", "serial", "batched")
"""How a call crosses to a device behind a network: the words of the unit `MANNER`; a value is the place of its word."""

EXAMPLES: Final[dict[str, str]] = {
    unit: example
    for unit, example in zip(
        UNITS,
        (
            "2 us",
            "64 KiB",
            "25 GB/s",
            "9.7 TFLOP/s",
            "400 W",
            "1.4 GHz",
            "0.1 ns/B",
            '0.85" or "85 %',
        ),
        strict=True,
    )
}

_THOUSANDS: Final[tuple[str, ...]] = ("", "k", "M", "G", "T", "P", "E")
_BINARY: Final[tuple[str, ...]] = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_BELOW: Final[dict[str, str]] = {"p": "1e-12", "n": "1e-9", "u": "1e-6", "m": "1e-3"}

_QUANTITY = re.compile(
    r"\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?)\s*(.*?)\s*",
    re.ASCII | re.DOTALL,
)
_LANES = re.compile(r"GT/s(?:\s*x\s*([0-9]{1,2}))?")
_EXACT = Context(prec=60, traps=[])
_LONGEST = 64
#: Larger quantities are refused, in any unit: products of a few of them stay numbers.
_LARGEST = 1e30
#: Transfers a second and lane [GT/s] of PCI Express -> its generation and line code.
_PCIE = {
    2.5: ("1", "8/10"),
    5: ("2", "8/10"),
    8: ("3", "128/130"),
    16: ("4", "128/130"),
    32: ("5", "128/130"),
    64: ("6", "242/256"),
}


@cache
def _spellings() -> dict[str, tuple[str, Decimal]]:
    """Return every spelling of a unit: (its SI unit, how many SI units it is)."""
    out: dict[str, tuple[str, Decimal]] = {
        "min": ("s", Decimal(60)),
        "h": ("s", Decimal(3600)),
        "%": ("1", Decimal("0.01")),
        "x": ("1", Decimal(1)),
    }
    for prefix, factor in _BELOW.items():
        out[f"{prefix}s"] = ("s", Decimal(factor))
        out[f"{prefix}s/B"] = ("s/B", Decimal(factor))
    out |= {"s": ("s", Decimal(1)), "s/B": ("s/B", Decimal(1)), "mW": ("W", Decimal("1e-3"))}
    for power, prefix in enumerate(_THOUSANDS):
        factor_1000 = Decimal(1000) ** power
        for word, unit in (
            ("FLOP/s", "FLOP/s"),
            ("Hz", "Hz"),
            ("W", "W"),
            ("B", "B"),
            ("B/s", "B/s"),
        ):
            out[prefix + word] = (unit, factor_1000)
        for word in ("b", "bit"):
            out[prefix + word] = ("B", factor_1000 / 8)
        for word in ("b/s", "bit/s", "bps"):
            out[prefix + word] = ("B/s", factor_1000 / 8)
    for power, prefix in enumerate(_BINARY[1:], 1):
        for word in ("B", "B/s"):
            out[prefix + word] = (word, Decimal(1024) ** power)
    return out


@cache
def _slips() -> dict[str, str]:
    """Return what is meant by spellings of other places, such as ``GBps``."""
    text = (Path(__file__).with_name("schema") / "errors" / "misspelt_units.csv").read_text(
        encoding="utf-8"
    )
    return {row["written"]: row["meant"] for row in csv.DictReader(text.splitlines())}


def parse(text: str, unit: str) -> float:
    """Read a quantity such as ``"25 GB/s"`` into `unit`.

    Parameters
    ----------
    text : a number and its unit; the space between them may be left out.
    unit : the SI unit wanted, one of `UNITS`, or `MANNER`, whose values are words.  For ``"1"`` the
        number may stand alone or carry ``%`` or ``x``.

    Returns
    -------
    The value in `unit`, correctly rounded from the decimal text.

    Raises
    ------
    UnitError : U001 to U005, with the spelling that was probably meant.
    """
    if unit == MANNER:
        if text not in MANNERS:
            fix = did_you_mean(text, MANNERS) or None
            raise error_of(
                "U004.manner", found=f'"{clipped(text, 40)}"', fix=fix, manners=", ".join(MANNERS)
            )
        return float(MANNERS.index(text))
    if unit not in UNITS:
        raise ValueError(f"not a unit of Turnbuckle: {unit!r}")
    example = f'write for example "{EXAMPLES[unit]}"'
    quoted = f'"{clipped(text, 40)}"'
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None or re.match(r"[,_'][0-9]", match[2]):
        wanted = "a plain number" if unit == "1" else f"a number with a unit of {UNITS[unit]}"
        raise error_of(
            "U004.comma" if match else "U004.word", found=quoted, fix=example, wanted=wanted
        )
    number, word = match[1], match[2].replace("µ", "u").replace("μ", "u")
    if not word and unit != "1":
        raise error_of("U001", found=quoted, fix=example, wanted=UNITS[unit])
    si, factor = (unit, Decimal(1)) if not word else _look_up(number, word, unit, quoted)
    if si != unit:
        fix = f"did you mean {number} {word}/s?" if (si, unit) == ("B", "B/s") else example
        raise error_of(
            "U003.dimension",
            found=quoted,
            fix=fix,
            word=word,
            dimension=UNITS[si],
            wanted=UNITS[unit],
        )
    value = float(_EXACT.multiply(_EXACT.create_decimal(number), factor))
    if not abs(value) <= _LARGEST:
        raise error_of("U005", found=quoted, fix=example, wanted=UNITS[unit])
    return value


def seconds_of(text: str, option: str, example: str) -> float:
    """Return a time [s] that an option gives.  Raises U0xx, with the option's name."""
    try:
        return parse(text, "s")
    except UnitError as error:
        raise UnitError(
            error.code,
            error.what,
            where=option,
            found=error.found,
            cause=error.cause,
            fix=f"{option} {example}",
        ) from None


def _look_up(number: str, word: str, unit: str, quoted: str) -> tuple[str, Decimal]:
    spellings = _spellings()
    if word in spellings:
        return spellings[word]
    if lanes := _LANES.fullmatch(word):
        raise error_of("U003.lane", found=quoted, fix=_transfers(float(number), lanes[1], unit))
    meant = _slips().get(word) or _respell(word, unit)
    raise (
        error_of("U002.near", found=quoted, word=clipped(word, 40), meant=meant)
        if meant
        else error_of("U002.word", found=quoted, word=clipped(word, 40), example=EXAMPLES[unit])
    )


def _respell(word: str, unit: str) -> str:
    """Return the nearest spelling, first of the wanted dimension; an empty string if none is
    near.
    """
    wanted = [w for w, (si, _) in _spellings().items() if si == unit]
    same = [w for w in wanted if w.lower() == word.lower()]
    if same:
        return " or ".join(same)
    return did_you_mean(word, wanted).removeprefix("did you mean ").removesuffix("?")


def _transfers(rate: float, lanes: str | None, unit: str) -> str:
    """Return advice for a GT/s figure: the bandwidth that it means, lanes x rate x line code /
    8.
    """
    if unit != "B/s" or rate not in _PCIE:
        return f'write for example "{EXAMPLES[unit]}"'
    generation, code = _PCIE[rate]
    payload, line = (float(n) for n in code.split("/"))
    width = int(lanes) if lanes and int(lanes) > 0 else 16
    each_way = width * rate * 1e9 * payload / line / 8
    return (
        f"{rate:g} GT/s x{width} PCIe {generation} is about {show(each_way, 'B/s')} each way: "
        "write that"
    )


def show(value: float, unit: str, digits: int = 3) -> str:
    """Write a quantity for people, with the prefix that suits it.

    Parameters
    ----------
    value : the quantity in `unit`.
    unit : one of `UNITS`, or ``"%"`` to write a plain number (0.85) as a percentage (85 %).
    digits : significant digits; trailing zeros are left out.

    Returns
    -------
    For example ``"3.2 ms"``, ``"24.1 GB/s"``, ``"64 KiB"`` (bytes that are a round power of two) or
    ``"0.85"``. `parse` reads it back to the digits shown.
    """
    if unit == MANNER:
        return MANNERS[int(value)]
    if unit == "%":
        return f"{_digits(value * 100, digits)} %"
    if unit not in UNITS:
        raise ValueError(f"not a unit of Turnbuckle: {unit!r}")
    if unit == "1":
        return _digits(value, digits)
    if value == 0 or not math.isfinite(value):
        return f"{_digits(value, digits)} {unit}"
    if unit == "B" and (binary := _binary(value, digits)):
        return binary
    steps = [(Decimal(1000) ** k, p) for k, p in enumerate(_THOUSANDS)]
    if unit in ("s", "s/B"):
        steps = [(Decimal(_BELOW[p]), p) for p in ("n", "u", "m")] + [(Decimal(1), "")]
    shown = _EXACT.create_decimal_from_float(value)
    for factor, prefix in steps:
        text = _digits(float(_EXACT.divide(shown, factor)), digits)
        if abs(float(text)) < 1000:
            return f"{text} {prefix}{unit}"
    return f"{text} {prefix}{unit}"


def _binary(value: float, digits: int) -> str:
    """Return ``"64 KiB"`` for 65536, where the decimal prefix would round; else an empty string."""
    if value != int(value) or abs(value) < 1024:
        return ""
    power = 0
    rest = int(value)
    while rest % 1024 == 0 and power < len(_BINARY) - 1:
        rest, power = rest // 1024, power + 1
    plain = float(f"{value:.{max(digits, 1) - 1}e}")
    return f"{rest} {_BINARY[power]}B" if power and abs(rest) < 1000 and plain != value else ""


def _digits(value: float, digits: int) -> str:
    """Return `value` with `digits` significant digits, without exponent where that stays short,
    without trailing zeros.
    """
    if not math.isfinite(value):
        return f"{value:g}"
    rounded = float(f"{value:.{max(digits, 1) - 1}e}")
    if rounded != 0 and not 1e-4 <= abs(rounded) < 1e6:
        mantissa, exponent = f"{value:.{max(digits, 1) - 1}e}".split("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return f"{mantissa}e{int(exponent)}"
    places = max(digits - 1 - math.floor(math.log10(abs(rounded))), 0) if rounded else 0
    text = f"{rounded:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
