"""TOML is read with the place of every key and value, and what is wrong with it is told with its
place.
"""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnbuckle.foundation.toml_text import NotToml, parsed

TEXT = '''\
# a comment = "not a key"
top = 1
[a]
  b = "x # not a comment" # a comment
c . d = \'\'\'
[not.a.table]
\'\'\'
"quoted key" = [ 1, { inner = "}" }, "]" ]

[ a . e ]
f = { g = { h = 1.5 }, i = [ # comment
  "two", 3 ] , j = true }
[[list]]
k = """a "quoted" word\\""""
l = 0x20
'''


def test_places() -> None:
    found = parsed(TEXT)[1]
    assert found.key(("top",)) == (2, 1) and found.value(("top",)) == (2, 7)
    assert found.key(("a",)) == (3, 2)
    assert found.key(("a", "b")) == (4, 3) and found.value(("a", "b")) == (4, 7)
    assert found.key(("a", "c", "d")) == (5, 5) and found.value(("a", "c", "d")) == (5, 9)
    assert found.key(("a", "quoted key")) == (8, 1)
    assert found.value(("a", "quoted key", "0")) == (8, 18)
    assert found.value(("a", "quoted key", "1", "inner")) == (8, 31)
    assert found.value(("a", "quoted key", "2")) == (8, 38)
    assert found.key(("a", "e")) == (10, 7)
    assert found.value(("a", "e", "f", "g", "h")) == (11, 17)
    assert found.value(("a", "e", "f", "i", "1")) == (12, 10)
    assert found.value(("a", "e", "f", "j")) == (12, 20)
    assert found.value(("list", "k")) == (14, 5)
    assert found.value(("list", "l")) == (15, 5)


def test_a_path_that_is_not_there_is_its_table() -> None:
    assert parsed(TEXT)[1].key(("a", "e", "nowhere")) == (10, 7)
    assert parsed(TEXT)[1].value(("nowhere",)) == (1, 1)


def test_line_ends_of_windows() -> None:
    document, positions = parsed('a = 1\r\n[b]\r\n"c.d" = [1.5, 2.5]\r\ne = """x\r\ny"""')
    assert document == {"a": 1, "b": {"c.d": [1.5, 2.5], "e": "x\ny"}}
    assert positions.key(("b", "c.d")) == (3, 1)


@pytest.mark.parametrize(
    ("text", "at", "why"),
    [
        ("a = 1\nb = ", ":2:5", "value"),
        ("a = 1\nb = ours", ":2:5", "quote"),
        ("a = 1\n[b]\na = 1\na = 2", ":4:1", "duplicate key"),
        ('"é" = 2020-01-01', ":1:7", "texts need quotes"),
        (f"a = {'1' * 5000}", ":1:5", "digits"),
        ("a = 0x8000000000000000", ":1:5", "digits"),
        ("a." * 90 + "b = 1", "", "nested too deeply"),
        ("a = " + "[" * 500_000, ":1:", "nested too deeply"),
        (f"{'a.' * 70}b = {{ {'a.' * 70}b = 1 }}", ":1:", "nested too deeply"),
    ],
)
def test_texts_that_are_refused(text: str, at: str, why: str) -> None:
    with pytest.raises(NotToml) as refused:
        parsed(text)
    assert refused.value.at.startswith(at) and why in refused.value.why


@given(st.text(st.sampled_from("a1.\"'=[]{}#, \n\\"), max_size=300))
def test_any_text_is_read_as_python_reads_it_or_refused(text: str) -> None:
    try:
        document, _ = parsed(text)
    except NotToml as flaw:
        assert flaw.why and (not flaw.at or flaw.at.startswith(":"))
    else:
        assert document == tomllib.loads(text)


KEY = st.text(alphabet="abcé .\"'#=[]\\", min_size=1, max_size=6)
WORD = st.text(alphabet="ab \"'#=[]{},\\\t\né", max_size=10)
VALUE = st.one_of(
    st.integers(-99, 99),
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
    WORD,
    st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), WORD), max_size=3),
)
TREE: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.dictionaries(KEY, VALUE, max_size=3),
    lambda inner: st.dictionaries(KEY, st.one_of(VALUE, inner), max_size=3),
    max_leaves=12,
)


def _quoted(text: str) -> str:
    steps = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t"))
    for old, new in steps:
        text = text.replace(old, new)
    return f'"{text}"'


def _written(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(k)} = {_written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", # a ] comment\n ".join(_written(v) for v in value) + "]"
    return (
        _quoted(value)
        if isinstance(value, str)
        else str(value).lower()
        if isinstance(value, bool)
        else repr(value)
    )


def _document(tree: dict[str, Any], path: tuple[str, ...] = ()) -> str:
    inline = {k: v for k, v in tree.items() if not isinstance(v, dict) or len(k) % 2}
    out = f"[{' . '.join(map(_quoted, path))}] # [x]\n" if path else ""
    out += "".join(f"\t{_quoted(k)}  = {_written(v)} # end\n" for k, v in inline.items())
    return out + "".join(_document(v, (*path, k)) for k, v in tree.items() if k not in inline)


def _leaves(tree: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    return [
        leaf
        for k, v in tree.items()
        for leaf in (_leaves(v, (*path, k)) if isinstance(v, dict) else [((*path, k), v)])
    ]


@settings(max_examples=200)
@given(TREE)
def test_every_leaf_of_any_document_is_found_where_it_is_written(tree: dict[str, Any]) -> None:
    text = _document(tree)
    document, found = parsed(text)
    assert document == tree and [*document] == [*tomllib.loads(text)]
    lines = text.split("\n")
    for path, value in _leaves(tree):
        line, column = found.values[path]
        rest = "\n".join([lines[line - 1][column - 1 :], *lines[line:]])
        assert rest.startswith(_written(value))
        line, column = found.keys[path]
        assert lines[line - 1][column - 1 :].startswith(_quoted(path[-1]))
