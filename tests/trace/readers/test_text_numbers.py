"""Numbers of a block of text: as Python reads them, to the last bit."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from turnbuckle.foundation.arrays import runs
from turnbuckle.trace.readers.parts.text_numbers import (
    LONGEST,
    PAD,
    checked,
    decimals,
    letters,
    numbers,
    short_words,
)

#: Digits, fractions of one length and of many, and what is neither.
WORDS = st.one_of(
    st.integers(0, 10**LONGEST - 1).map(str),
    st.decimals(0, 10**6, places=9, allow_nan=False, allow_infinity=False).map(str),
    st.from_regex(r"[0-9]{0,20}\.?[0-9]{0,20}", fullmatch=True),
    st.text("0123456789.-_/:xN", max_size=12),
)


def laid(words: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A block of these words, and where they stand in it."""
    ends = len(PAD) + np.cumsum([len(word) + 1 for word in words]) - 1
    return (
        letters("".join(f"{word} " for word in words).encode()),
        ends - [len(word) for word in words],
        ends,
    )


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(words=st.lists(WORDS, min_size=1, max_size=30))
@example(
    words=["0.000000001", "9007199254740993", ".5", "5.", "1.2.3", "1.2", "", "12", "." + "3" * 25]
)
def test_digits_and_fractions_are_what_python_reads(words: list[str]) -> None:
    text, start, end = laid(words)
    plain = [word.isascii() and word.isdigit() and len(word) <= LONGEST for word in words]
    value, sound = checked(text, start, end)
    assert sound.tolist() == plain
    assert (
        value[sound].tolist()
        == numbers(text, start[sound], end[sound]).tolist()
        == [int(w) for w, p in zip(words, plain, strict=True) if p]
    )
    told, fits = decimals(text, start, end)
    for word, number, fit in zip(words, told.tolist(), fits.tolist(), strict=True):
        whole, dot, part = word.partition(".")
        decimal = (
            (whole + part).isdigit()
            and bool(whole)
            and bool(part or not dot)
            and len(whole + part) <= LONGEST
        )
        assert fit == (decimal and int(whole + part) < 2**53)
        assert not fit or number == float(word)


def test_words_of_eight_letters() -> None:
    text, start, end = laid(["a", "rank-123"])
    assert [
        int(word).to_bytes(8, "little").rstrip(b"\0") for word in short_words(text, start, end)
    ] == [b"a", b"rank-123"]
    assert [column.tolist() for column in runs(np.array([2, 0, 3]))] == [
        [0, 0, 2, 2, 2],
        [0, 1, 0, 1, 2],
    ]
