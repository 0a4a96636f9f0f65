"""Every error a user can meet: its code, its group, its exit, and the page that lists it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from string import Formatter

import pytest
from sources import modules, nodes

from turnbuckle.foundation import errors
from turnbuckle.foundation.errors import TurnbuckleError, did_you_mean

ROOT = Path(__file__).resolve().parents[2]
GROUPS = {
    "ProfileError": (("P0",), 2),
    "MachineError": (("M0",), 2),
    "NativeError": (("N0",), 2),
    "UnitError": (("U0",), 2),
    "UsageError": (("A0", "A4", "A5"), 2),
    "CannotAnswer": (("A1", "A2"), 3),
    "GateFailed": (("A20",), 1),
    "ReportError": (("R0",), 2),
    "LimitError": (("L0",), 2),
    "InternalError": (("I0",), 4),
}
#: What makes an error of a name that it is given -> its own words, which are no fields of a text;
#: what it fills in itself.
MAKERS = {
    "error_of": ({"where", "found", "cause", "fix"}, set()),
    "texts_of": (set(), set()),
    "unwritable": (set(), set()),
    "one_of": (set(), {"choices"}),
    "fault": ({"found"}, {"kind", "name", "package"}),
    "_flaw": ({"found", "cause", "fix", "value"}, set()),
}
TABLE = {name: texts for klass in GROUPS for name, texts in errors.register(klass).items()}


@cache
def sites() -> tuple[tuple[tuple[str, ...], frozenset[str], str], ...]:
    """(names, words, where) of every error made in the package; two names where a condition chooses
    one.
    """
    out = []
    for path in modules():
        for node in nodes(path):
            if isinstance(node, ast.ClassDef) and any(
                isinstance(base, ast.Name) and base.id == "TomlReading" for base in node.bases
            ):
                code = next(
                    ast.literal_eval(n.value)
                    for n in node.body
                    if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "code"
                )
                out += [
                    ((f"{code}.{case}",), frozenset(fields(f"{code}.{case}")), path.name)
                    for case in ("toml", "unknown")
                ]
            if not isinstance(node, ast.Call):
                continue
            maker = (
                node.func.id
                if isinstance(node.func, ast.Name)
                else node.func.attr
                if isinstance(node.func, ast.Attribute)
                else ""
            )
            where = f"{path.name}:{node.lineno}"
            if maker in GROUPS and node.args and isinstance(node.args[0], ast.Constant):
                raise AssertionError(
                    f"{where}: the texts of an error stand in schema/errors, not at {maker}"
                )
            if maker not in MAKERS:
                continue
            first = node.args[0]
            parts = (first.body, first.orelse) if isinstance(first, ast.IfExp) else (first,)
            names = tuple(part.value for part in parts if isinstance(part, ast.Constant))
            if not names:
                assert isinstance(first, ast.Name) and first.id == "name", (
                    f"{where}: {ast.unparse(first)} is no name of an error"
                )
                continue
            own, filled = MAKERS[maker]
            out.append(
                (names, frozenset({k.arg or "**" for k in node.keywords} - own | filled), where)
            )
    return tuple(out)


def fields(name: str) -> set[str]:
    return {
        field
        for text in TABLE[name]
        for _, field, _, _ in Formatter().parse(text)
        if field is not None
    }


def native() -> set[str]:
    """Codes of errors that the Rust core gives."""
    texts = [p.read_text(encoding="utf-8") for p in (ROOT / "crates").glob("*/src/**/*.rs")]
    return {code for text in texts for code in re.findall(r'"(P0\d\d)"', text)}


def test_names_and_words_of_every_error_made_are_those_of_the_table() -> None:
    assert len(sites()) > 600
    for names, words, where in sites():
        assert set(names) <= set(TABLE), where
        assert words == set().union(*map(fields, names)), (where, names)


def test_every_row_is_used() -> None:
    assert set(TABLE) == {name for names, _, _ in sites() for name in names}


@pytest.mark.parametrize("klass", GROUPS)
def test_rows_of_a_class(klass: str) -> None:
    rows = list(errors.register(klass).items())
    assert [name for name, _ in rows] == sorted(name for name, _ in rows)
    for name, texts in rows:
        code, dot, case = name.partition(".")
        assert code.startswith(GROUPS[klass][0]) and re.fullmatch(r"[A-Z]\d{3}", code), name
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", case) if dot else not case, name
        assert texts.what, name
        for text in texts:
            assert (
                text == text.strip() and text.isprintable() and not re.search(r"[^.]\.$", text)
            ), (name, text)
    codes = Counter(name.partition(".")[0] for name, _ in rows)
    assert [
        name for name, _ in rows if ("." in name) != (codes[name.partition(".")[0]] > 1)
    ] == [], "a case names one of several texts"
    assert len({(name.partition(".")[0], texts) for name, texts in rows}) == len(rows), (
        "two rows say the same"
    )


def test_an_error_is_of_the_class_of_its_code() -> None:
    for klass in GROUPS:
        name = next(iter(errors.register(klass)))
        error = errors.error_of(name, **dict.fromkeys(fields(name), 1))
        assert type(error).__name__ == klass and error.code == name.partition(".")[0]


def test_words_fill_the_texts_and_are_not_read_themselves() -> None:
    error = errors.error_of("M001", where="here", found="{count}", fix="", name="{where}")
    assert (error.what, error.where, error.found, error.fix) == (
        "no machine is called {where}",
        "here",
        "{count}",
        "",
    )
    assert errors.error_of("P003").fix and not errors.error_of("P003", cause="", fix="").fix
    with pytest.raises(KeyError, match="name"):
        errors.error_of("M001")
    with pytest.raises(KeyError, match=r"M001\.other"):
        errors.error_of("M001.other")


def test_no_table_is_read_before_the_first_error() -> None:
    code = (
        "import turnbuckle.cli.app; from turnbuckle.foundation.errors import register; "
        "print(register.cache_info().currsize)"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "0\n"
    )


def test_codes_are_neither_errors_and_findings_at_once() -> None:
    from turnbuckle.foundation.findings import register

    assert not {name.partition(".")[0] for name in TABLE} & set(register())


def test_the_page_lists_every_code() -> None:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `([A-Z]\d{3})` \|", page, re.MULTILINE))
    assert listed == {name.partition(".")[0] for name in TABLE} | native()


@pytest.mark.parametrize("name", GROUPS)
def test_exit_codes(name: str) -> None:
    assert getattr(errors, name).exit_code == GROUPS[name][1]
    assert issubclass(getattr(errors, name), TurnbuckleError)


def test_what_is_printed() -> None:
    whole = errors.ProfileError(
        "P004",
        "the file is not SQLite",
        where="a.sqlite",
        found="text",
        cause="another format",
        fix="export again",
    )
    assert whole.lines() == [
        "error[P004]: the file is not SQLite",
        "  --> a.sqlite",
        "  found: text",
        "  cause: another format",
        "  fix:   export again",
    ]
    assert errors.UsageError("A001", "no").lines() == ["error[A001]: no"]
    assert str(whole) == "P004: the file is not SQLite" and whole.code == "P004"


def test_near_words() -> None:
    assert did_you_mean("nvlink-c2", ["nvlink-c2c", "pcie"]) == "did you mean nvlink-c2c?"
    assert did_you_mean("zebra", ["nvlink-c2c"]) == "" and did_you_mean("x", []) == ""
