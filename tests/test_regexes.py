"""No text makes it run for ever: every regular expression takes time in proportion to its text, and
the cases that did not are kept.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from refusals import refused
from regexes import growth, uses

from turnbuckle.foundation.table_file import Column, read_table
from turnbuckle.profile import classify, kernels
from turnbuckle.show import unknowns
from turnbuckle.trace import window
from turnbuckle.trace.readers.recorded import text as recorded_text

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "turnbuckle"

#: Patterns that may grow faster than their text, and what keeps the text short.
BOUNDED = {
    (
        "foundation/units.py",
        r"\s*([+-]?(?:",
    ): "units.parse refuses more than 64 characters before it looks at any",
    (
        "questions/sweep/grid.py",
        "[0-9]+$",
    ): "the name of a file that is there: a file system allows 255 bytes",
}
#: Patterns that are put together while the program runs: all of a table, or one example of a kind.
MADE = {
    "profile/kernels.py": [rule.pattern.pattern for rule in kernels.rules()],
    "profile/classify.py": [rule.pattern for rule, _ in classify.RULES],
    "show/unknowns.py": [*unknowns._ADVICE],
    "trace/window.py": [window._step(word) for word in window._STEPS],
    "page/html.py": [r"(gh200\-x|gh200|x86)"],
    "trace/readers/recorded/text.py": [rb"^[A-Za-z](?:," + recorded_text._NUMBER + rb"){5}$"],
}


def test_every_pattern_takes_time_in_proportion_to_its_text() -> None:
    every = list(uses(PACKAGE))
    assert {use.where for use in every if use.pattern is None} == set(MADE)
    patterns = {
        (use.where, pattern, use.flags, use.method)
        for use in every
        for pattern in ([use.pattern] if use.pattern is not None else MADE[use.where])
    }
    assert len(patterns) > 250, "the sources have more patterns than were found"
    slow = {
        (where, pattern, kind)
        for where, pattern, flags, method in patterns
        if (kind := growth(pattern, flags, method))
    }
    listed = {
        case: {s for s in slow if s[0] == case[0] and str(s[1]).startswith(case[1])}
        for case in BOUNDED
    }
    assert slow == set().union(*listed.values()), (
        "see tests/builders/regexes.py: bound the text and list the pattern, or mend it"
    )
    assert all(listed.values()), "a pattern is listed that is not slow any more"


@pytest.mark.parametrize(
    ("pattern", "method", "kind"),
    [
        ("(a+)+$", "search", "exponential"),
        ("(a|aa)*b", "match", "exponential"),
        ("(a*)*b", "match", "exponential"),
        ("(?:a?b?)*c", "match", "exponential"),
        (r"\((?:(?:unsigned|long|\d{1,9}u?l?)[\s,*<>]*){0,12}\)", "fullmatch", "exponential"),
        (
            r"\s*([a-z0-9_ ./-]+?)\s*(?:[\[(]\s*([^\])]{1,16}?)\s*[\])])?\s*",
            "fullmatch",
            "polynomial",
        ),
        (r"\s*(\w+?)\s*=", "search", "polynomial"),
        (r"\s*([\w ]+?)\s*=", "match", "polynomial"),
        (r"\s+$", "search", "polynomial"),
        (r"(?m)^\s*X", "search", "polynomial"),
        (r"\d+X", "search", "polynomial"),
        (r"a(?=\w+b)", "search", "polynomial"),
        (r"(\w+)\s*\1=", "match", "polynomial"),
        (r"/\*.*?\*/", "sub", "polynomial"),
        (r"x(?:.*y)?", "findall", "polynomial"),
        (r"\s+$", "match", ""),
        (r"\w+", "findall", ""),
        (r"^\s*X", "search", ""),
        (r"(?m)^[ ]*X", "search", ""),
        (r"(?m).*$", "search", ""),
        (r"\bx\w+=", "search", ""),
        (r"\s*+\w+?=", "match", ""),
        (r'"(?:[^"\\]|\\.)*"', "match", ""),
        (r"(?s)/\*.*?(\*/|\Z)", "sub", ""),
        (r"(?s)(.*)#(\d{1,9})(?:-(\d{1,9}))?", "fullmatch", ""),
    ],
)
def test_the_checker_tells_slow_patterns_from_others(pattern: str, method: str, kind: str) -> None:
    assert growth(pattern, 0, method) == kind


@pytest.mark.parametrize("blanks", [1 << 12, 1 << 20])
def test_a_heading_of_blanks_is_read_at_once(tmp_path: Path, blanks: int) -> None:
    """4 kB of blanks took 71 s: time grew with the third power of their number."""
    columns = [Column("size", "B"), Column("name", "", needed=False)]
    path = tmp_path / "table.csv"
    path.write_text(f"size{' ' * blanks}[ MiB{' ' * blanks}],name\n2,a\n")
    assert read_table(path, columns, "the table").numbers["size"].tolist() == [2 << 20]
    for heading in (
        f"size{' ' * blanks}!",
        f"size [{' ' * blanks}",
        f"size{' ' * blanks}[{'M' * blanks}]",
        f"size{' ' * blanks}x",
    ):
        path.write_text(f"{heading},name\n2,a\n")
        assert re.search("not have", str(refused("A062", read_table, path, columns, "the table")))
