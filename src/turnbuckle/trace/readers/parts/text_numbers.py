"""Vectorised parsing of numbers in a block of text, given where each number starts and ends."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from turnbuckle.foundation.arrays import Bool, Float, Int

Letters = NDArray[np.uint8]
Words = NDArray[np.uint64]

#: Padding before and behind a block: reads of eight letters at a time may begin before it and end
#: behind it.
PAD: Final = b"0" * 8
#: Most digits of a number: so many fit an int64, and so does ten times as much.
LONGEST: Final = 18
#: Eight letters "0"; the addend that carries a byte above 9 into its highest bit; the highest bits.
_ZEROS, _TO_SIGN, _SIGNS = (np.uint64(int(byte * 8, 16)) for byte in ("30", "76", "80"))
_POWERS: Final = 10 ** np.arange(LONGEST + 1, dtype=np.int64)
_BITS: Final = np.array([56, 56, 48, 40, 32, 24, 16, 8, 0], dtype=np.uint64)
_DOT: Final = np.uint8(ord("."))
_FLOATS: Final = _POWERS.astype(np.float64)
#: Steps that join neighbours of 1, 2 and 4 digits, the left one times 10, 100, 10,000 plus the
#: right one: mask, factor, shift.
_STEPS: Final = tuple(
    (np.uint64(mask), np.uint64(factor), np.uint64(shift))
    for mask, factor, shift in (
        (0x0F0F0F0F0F0F0F0F, 10 * 2**8 + 1, 8),
        (0x00FF00FF00FF00FF, 100 * 2**16 + 1, 16),
        (0x0000FFFF0000FFFF, 10_000 * 2**32 + 1, 32),
    )
)


def letters(block: bytes) -> Letters:
    """Return a block as letters between two paddings: a position in it is `len(PAD)` more than in
    the block.
    """
    return np.frombuffer(PAD + block + PAD, dtype=np.uint8)


def numbers(text: Letters, start: Int, end: Int) -> Int:
    """Return the number in ``text[start:end]``, for each: 1 to `LONGEST` digits and nothing else.

    Eight digits are one 64-bit word, which three multiplications turn into a number (D. Lemire,
    "Quickly parsing eight digits", 2018).
    """
    out = _eight(text, start, end)
    long = np.flatnonzero(end - start > 8)
    if len(long):
        out[long] += 100_000_000 * numbers(text, start[long], end[long] - 8)
    return out


def _eight(text: Letters, start: Int, end: Int) -> Int:
    """Return the number of the last eight digits at most."""
    word = _words(text)[end - 8]
    word ^= _ZEROS
    unused_bits = _unused_bits(start, end)
    word >>= unused_bits
    word <<= unused_bits
    return _value(word)


def _value(word: Words) -> Int:
    """Return eight digits, the first in the lowest byte, as a number; changes `word`."""
    for mask, factor, shift in _STEPS:
        word &= mask
        word *= factor
        word >>= shift
    return word.view(np.int64)


def checked(text: Letters, start: Int, end: Int) -> tuple[Int, Bool]:
    """Return the number in ``text[start:end]``, for each, and whether the text is 1 to `LONGEST`
    digits; else the number is meaningless.
    """
    word = _words(text)[end - 8]
    word ^= _ZEROS
    unused_bits = _unused_bits(start, end)
    word >>= unused_bits
    word <<= unused_bits
    non_digits = word + _TO_SIGN
    non_digits |= word
    non_digits &= _SIGNS
    sound: Bool = (non_digits == 0) & (end > start) & (end - start <= LONGEST)
    value = _value(word)
    long = _of(sound & (end - start > 8))
    if len(value[long]):
        high, fits = checked(text, start[long], end[long] - 8)
        value[long] += 100_000_000 * high
        sound[long] &= fits
    return value, sound


def decimals(text: Letters, start: Int, end: Int) -> tuple[Float, Bool]:
    """Return the number in ``text[start:end]``, rounded as Python does, and whether the text was
    digits with or without a fraction.

    Whole numbers below 2**53 and powers of ten up to 10**22 are floats without error, and so their
    quotient is the float that is nearest.
    """
    if not len(start):
        return np.zeros(0), np.zeros(0, dtype=bool)
    # most numbers have as many decimal places as the first, so one vector operation reads them; the
    # rest follows below
    first = text[start[0] : end[0]].tobytes()
    value, sound = _decimals(
        text, start, end, len(first) - first.find(b".") if b"." in first else 0
    )
    others = np.flatnonzero(~sound)
    if len(others):
        dots = np.flatnonzero(text == _DOT)
        behind = end[others] - np.append(dots, len(text))[np.searchsorted(dots, start[others])]
        value[others], sound[others] = _decimals(
            text, start[others], end[others], np.maximum(behind, 0)
        )
    return value, sound


def _decimals(text: Letters, start: Int, end: Int, behind: Int | int) -> tuple[Float, Bool]:
    """Return the same for numbers whose dot stands `behind` letters before the end; 0 means no
    dot.
    """
    whole = np.maximum(end - behind, start)
    value, sound = checked(text, start, whole)
    part = _of(whole < end)
    fraction, fits = checked(text, whole[part] + 1, end[part])
    sound[part] &= fits & (text[whole[part]] == _DOT)
    places = np.minimum(np.maximum(behind - 1, 0), LONGEST)
    sound &= end - start - np.minimum(behind, 1) <= LONGEST
    value[part] = value[part] * _POWERS[places if places.ndim == 0 else places[part]] + fraction
    sound &= value < 1 << 53
    return value / _FLOATS[places], sound


def _of(which: Bool) -> Any:
    """Return the places of the set elements; for all elements a slice, which copies nothing."""
    return slice(None) if which.all() else np.flatnonzero(which)


def short_words(text: Letters, start: Int, end: Int) -> Words:
    """Return ``text[start:end]`` of at most eight letters as one number, its first letter the
    lowest byte.
    """
    return _words(text)[end - 8] >> _unused_bits(start, end)


def _words(text: Letters) -> Words:
    return np.ndarray(shape=(len(text) - 7,), dtype="<u8", buffer=text.data, strides=(1,))


def _unused_bits(start: Int, end: Int) -> Words:
    """Return the number of bits of an eight-letter word that do not belong to the text that ends
    with it.
    """
    return _BITS.take(end - start, mode="clip")
