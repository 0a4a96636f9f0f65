"""Findings: the register and the code know the same ones, and merging them loses no count."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnbuckle.foundation.findings import Finding, finding, merge, register

ROOT = Path(__file__).resolve().parents[2]


def used() -> set[str]:
    """Every word in the sources that looks like a finding's code, outside comments on one line."""
    found: set[str] = set()
    for folder, pattern in (("src", "*.py"), ("crates", "*.rs")):
        for path in (ROOT / folder).rglob(pattern):
            if "tests" not in path.relative_to(ROOT).parts:
                found |= set(re.findall(r'"([PMA][1-9]\d\d)"', path.read_text(encoding="utf-8")))
    return found


def test_every_finding_is_registered_and_given_somewhere() -> None:
    named = {
        code
        for code in used()
        if code in register() or not code.startswith(("A1", "A2", "A4", "A5"))
    }
    assert sorted(named - set(register())) == [], "given but not registered"
    assert sorted(set(register()) - used()) == [], "registered but never given"


def test_the_register_is_whole() -> None:
    for code, row in register().items():
        assert re.fullmatch(r"[PMA]\d{3}", code)
        assert row["severity"] in ("info", "warning", "error") and row["meaning"] and row["advice"]
        assert set(row) == {"code", "severity", "meaning", "advice"}, (
            f"{code}: a comma outside quotes"
        )
    table = ROOT / "src/turnbuckle/foundation/schema/findings.csv"
    codes = [line.split(",")[0] for line in table.read_text(encoding="utf-8").splitlines()[1:]]
    assert len(codes) == len(set(codes)), "a code stands twice"


def test_the_page_lists_every_finding() -> None:
    page = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    assert [code for code in register() if code not in page] == []


def test_building_one() -> None:
    found = finding("P104", 3, "kernels 3")
    assert (found.code, found.count, found.detail, found.severity) == (
        "P104",
        3,
        "kernels 3",
        "info",
    )
    assert set(found.as_dict()) == {"code", "severity", "count", "meaning", "detail", "advice"}
    with pytest.raises(KeyError):
        finding("P999")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(register())),
            st.integers(1, 10**9),
            st.sampled_from(["", "a", "b", "c", "d", "e", "f", "g", "h"]),
        )
    )
)
def test_merging_keeps_counts_and_puts_the_worst_first(rows: list[tuple[str, int, str]]) -> None:
    merged = merge(finding(*row) for row in rows)
    wanted: dict[str, int] = {}
    for code, count, _ in rows:
        wanted[code] = wanted.get(code, 0) + count
    assert {f.code: f.count for f in merged} == wanted and len(merged) == len(wanted)
    rank = {"error": 0, "warning": 1, "info": 2}
    assert [(rank[f.severity], f.code) for f in merged] == sorted(
        (rank[f.severity], f.code) for f in merged
    )
    for f in merged:
        details = {d for code, _, d in rows if code == f.code and d}
        shown = f.detail.split("; ") if f.detail else []
        assert set(shown) <= details | {f"and {len(details) - 6} more"} and len(shown) <= 7
    assert merge(merged) == merged or any(" more" in f.detail for f in merged)


def test_merging_nothing() -> None:
    assert merge([]) == []
    one = Finding("P104", "info", 1, "m", "d", "a")
    assert merge([one]) == [one]


#: Words of a meaning that put something in the place of what was not recorded or not stated, move
#: it, or leave it out.
STANDS_IN = re.compile(
    r"taken (to be|for|as|unchanged)|instead|priced as|counted as|stands for|left out|set aside|dropped|shifted|moved|shortened|stretched"
    r"|scaled by|keep their|stays? as recorded|not recognised|\bassumed\b|of lower|unverified|numbered (anew )?by|lose their"
)
#: Texts that name such a word and change no number all the same, and why.
UNCHANGED = {
    "A309": (
        "nothing is put in the place of the rest: it is as recorded, and the range holds what it "
        "may do"
    ),
    "A359": "what no parameter stands for is in no answer",
}


def test_what_changes_a_number_is_a_warning() -> None:
    told = {
        code
        for code, row in register().items()
        if row["severity"] == "info" and STANDS_IN.search(row["meaning"])
    }
    assert told == set(UNCHANGED)
    assert {
        register()[code]["severity"]
        for code in ("M101", "M104", "P206", "P202", "P204", "A301", "A331", "A364")
    } == {"warning"}
