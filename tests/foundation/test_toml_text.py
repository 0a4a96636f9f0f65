"""TOML is bounded before it is parsed, and what is wrong with it is told with its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnbuckle.foundation.toml_text import MOST_DOTS, NotToml, parsed


def test_values_and_the_places_of_their_keys() -> None:
    document, positions = parsed('a = 1\r\n[b]\r\n"c.d" = [1.5, 2.5]\r\n')
    assert document == {"a": 1, "b": {"c.d": [1.5, 2.5]}}
    assert positions.key(("b", "c.d")) == (3, 1)


@pytest.mark.parametrize(
    ("text", "at", "why"),
    [
        ("a = 1\nb = ", ":2:", "invalid value"),
        ("a = 1\n" + "x" * 4097, ":2", "longer than 4,096"),
        ("a." * 65 + "b = 1", ":1", "64 dots"),
        ("a . " * 65 + "b = 1", ":1", "64 dots"),
        ('"a,b".' * 65 + "b = 1", ":1", "64 dots"),
        ("'#'." * 65 + "b = 1", ":1", "64 dots"),
        ('a = {b = """ " \' """, ' + "c." * 65 + "d = 1, e = ''}", ":1", "64 dots"),
        ("a = " + "[" * 2000, "", "nested too deeply"),
    ],
)
def test_texts_that_are_refused(text: str, at: str, why: str) -> None:
    with pytest.raises(NotToml) as refused:
        parsed(text)
    assert refused.value.at.startswith(at) and why in refused.value.why


def test_a_number_of_thousands_of_digits() -> None:
    with pytest.raises(NotToml, match="digits"):
        parsed(f"a = {'1' * 5000}", longest_line=1 << 16)


def test_lists_of_many_fractions_are_no_key() -> None:
    assert len(parsed(f"a = [{'1.5, ' * 500}]")[0]["a"]) == 500


@given(st.text(st.sampled_from("a1.\"'=[]{}#, \n\\"), max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        document, _ = parsed(text)
    except NotToml as flaw:
        assert flaw.why and (not flaw.at or flaw.at.startswith(":"))
    else:
        assert isinstance(document, dict) and all(key.count(".") <= MOST_DOTS for key in document)
