"""Every error a user can meet: its code, its group, its exit, and the page that lists it."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from turnbuckle.foundation import errors
from turnbuckle.foundation.errors import TurnbuckleError, did_you_mean

ROOT = Path(__file__).resolve().parents[2]
GROUPS = {
    "ProfileError": ("P0", 2), "MachineError": ("M0", 2), "InvalidMachine": ("M0", 2), "NativeError": ("N0", 2), "UnitError": ("U0", 2),
    "UsageError": (("A0", "A4"), 2), "CannotAnswer": ("A1", 3), "GateFailed": ("A2", 1), "ReportError": ("R0", 2),
    "LimitError": ("L0", 2), "InternalError": ("I0", 4),
}  # fmt: skip
CODE = re.compile(r"(P0|M0|U0|N0|A0|A1|A2|A4|R0|L0|I0)\d{2}")
#: What makes an error of a code it is given -> the class; what takes a word that only looks like a code (a GPU called A100).
MAKERS = {
    "_flaw": "MachineError", "__init__": "MachineError", "InvalidMachine": "MachineError", "one_of": "UsageError",
    "unwritable": "ReportError",
}  # fmt: skip
OTHERS = ("get", "text", "texts", "number")


@cache
def raised() -> tuple[tuple[str, str, str], ...]:
    """(class, code, where) of every error made in the package: the first argument of a class of errors, or of what hands it on."""
    out: list[tuple[str, str, str]] = []
    for path in sorted((ROOT / "src" / "turnbuckle").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
                continue
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr if isinstance(node.func, ast.Attribute) else ""
            code = node.args[0].value
            if isinstance(code, str) and CODE.fullmatch(code) and not name.endswith("finding") and name not in OTHERS:
                out.append((name, code, f"{path.name}:{node.lineno}"))
    return tuple(out)


def native() -> set[str]:
    """Codes of errors that the Rust core gives."""
    texts = [p.read_text(encoding="utf-8") for p in (ROOT / "crates").glob("*/src/**/*.rs")]
    return {code for text in texts for code in re.findall(r'"(P0\d\d)"', text)}


def test_codes_stand_in_their_group() -> None:
    found = raised()
    assert len(found) > 60
    for name, code, where in found:
        if name in GROUPS:
            assert code.startswith(GROUPS[name][0]), (name, code, where)
        else:
            assert name in MAKERS, f"{where}: {name}({code!r}) is neither an error nor known to make one"


def test_a_code_belongs_to_one_class() -> None:
    owner: dict[str, set[str]] = {}
    for name, code, _ in raised():
        owner.setdefault(code, set()).add(MAKERS.get(name, name))
    assert {code: names for code, names in owner.items() if len(names) > 1} == {}


def test_codes_are_neither_errors_and_findings_at_once() -> None:
    from turnbuckle.foundation.findings import register

    assert not {code for _, code, _ in raised()} & set(register())


def test_the_page_lists_every_code() -> None:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if re.match(r"\| *`?[A-Z]\d{3}", line)]
    listed = {re.findall(r"[A-Z]\d{3}", row)[0]: int(re.findall(r"\d+", row.rsplit("|", 2)[1])[0]) for row in rows}
    assert len(rows) == len(listed), "a code has two rows"
    used = {code for _, code, _ in raised()} | native()
    assert sorted(used - set(listed)) == [], "codes that the page does not know"
    assert sorted(set(listed) - used) == [], "codes of the page that nothing gives"
    exits = {prefix: code for heads, code in GROUPS.values() for prefix in ([heads] if isinstance(heads, str) else heads)}
    assert {code: value for code, value in listed.items() if exits[code[:2]] != value} == {}


@pytest.mark.parametrize("name", sorted(set(GROUPS) - {"InvalidMachine"}))
def test_exit_codes(name: str) -> None:
    assert getattr(errors, name).exit_code == GROUPS[name][1]
    assert issubclass(getattr(errors, name), TurnbuckleError)


def test_what_is_printed() -> None:
    whole = errors.ProfileError(
        "P004", "the file is not SQLite", where="a.sqlite", found="text", cause="another format", fix="export again"
    )
    assert whole.lines() == [
        "error[P004]: the file is not SQLite", "  --> a.sqlite", "  found: text", "  cause: another format", "  fix:   export again"
    ]  # fmt: skip
    assert errors.UsageError("A001", "no").lines() == ["error[A001]: no"]
    assert str(whole) == "P004: the file is not SQLite" and whole.code == "P004"


def test_near_words() -> None:
    assert did_you_mean("nvlink-c2", ["nvlink-c2c", "pcie"]) == "did you mean nvlink-c2c?"
    assert did_you_mean("zebra", ["nvlink-c2c"]) == "" and did_you_mean("x", []) == ""
