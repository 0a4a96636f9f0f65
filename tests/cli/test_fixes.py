"""The fix that an error names is one that works: the command fails with the code, and with the fix
it is answered.

`fixes.csv` has a row for every fix that names an option or a verb; what cannot be tried on a
machine of the project is listed with its reason.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from build_nsys import OTHER_PROCESS, OTHER_THREAD, call, copy, kernel, make
from fix_files import words_of
from fixes import Row, naming, printed, rows, with_fix
from hostile_names import Ran

Run = Callable[..., Ran]

#: Case -> why its fix is not tried.
ELSEWHERE: dict[str, str] = {
    "A086.workers": "the system refuses processes",
    "A432.beside": "needs an installed predictor",
    "A443": "asked of Python; the command line needs a recording to begin with",
    "A509": "none is known that the check of machines lets through",
    "A514": "asked by an agent over a server",
    "I001": "a defect",
    "N009.kept": "tried in tests/recorder/test_record_verb.py",
    "N016": "needs a program of OpenCL",
    "N017": "needs a program of OpenCL",
    "N019": "needs a program of OpenCL",
    "N022": "a device in a bad state",
    "N023": "tried in tests/recorder/test_microbench.py",
    "P028.paje": "SimGrid records again",
    "P030.header": "Extrae merges again",
    "P045.prefix": "rocprofv3 records again",
    "P045.schema": "rocpd converts",
    "P045.version": "rocprofv3 records again",
    "P064.columns": "the recorder records again",
    "P073": "needs tables of many gigabytes",
    "P074": "needs the nsys that recorded",
    "R007": "a defect",
}
#: Errors of an answer that would go to a terminal.
TO_A_TERMINAL = ("A009.binary", "A009.trace")


class Terminal(io.StringIO):
    """Standard output of a person."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("row", rows("cli"), ids=lambda row: row.name)
def test_the_fix_of_an_error_works(
    turnbuckle: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: Row
) -> None:
    *before, refused = row.refused.split(" ; ")
    for line in before:
        assert turnbuckle(*words_of(line, tmp_path)).code == 0
    with monkeypatch.context() as patch:
        if row.name in TO_A_TERMINAL:
            patch.setattr("sys.stdout", Terminal())
        first = turnbuckle(*words_of(refused, tmp_path))
    assert first.code in (2, 3), first.err
    fix = printed(first.err, row.name)
    for lines in with_fix(row.mended, fix):
        for line in lines.split(" ; "):
            ran = turnbuckle(*words_of(line, tmp_path))
            assert ran.code == 0, ran.err


def test_every_fix_that_names_an_option_or_a_verb_is_tried() -> None:
    tried = {row.name for room in ("cli", "recorder") for row in rows(room)}
    assert not tried & set(ELSEWHERE)
    assert naming() - tried == set(ELSEWHERE)


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A recording of two processes that states no rank."""
    other = {"globalPid": OTHER_PROCESS}
    calls = [call(1_000, 2_000, 1), call(3_000, 4_000, 2), call(6_000, 9_000, 3, nameId=1)]
    again = [
        {**row, "globalTid": OTHER_THREAD, "correlationId": row["correlationId"] + 10}
        for row in calls
    ]
    return make(
        tmp_path / "two.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=calls + again,
        CUPTI_ACTIVITY_KIND_KERNEL=[
            kernel(2_500, 4_500, 1),
            kernel(4_600, 5_600, 2),
            kernel(2_600, 4_400, 11, **other),
        ],
        CUPTI_ACTIVITY_KIND_MEMCPY=[copy(7_000, 8_000, 3), copy(7_100, 8_100, 13, **other)],
    )


def test_each_rank_that_an_error_names_can_be_written(
    turnbuckle: Run, two: Path, tmp_path: Path
) -> None:
    refused = turnbuckle("export", two, "-o", "run.et")
    assert refused.code == 2 and "error[A483]" in refused.err
    named = re.findall(r"--rank (\S+) -o (\S+\.et)", refused.err)
    assert len(named) == 2
    kernels = []
    for rank, name in named:
        assert turnbuckle("export", two, "--rank", rank, "-o", name).code == 0
        kernels.append(turnbuckle("inspect", name).out)
    assert "2 kernels" in kernels[0] and "1 kernel," in kernels[1]


def test_ranks_that_nothing_states_are_said(turnbuckle: Run, two: Path) -> None:
    assert "A551" in turnbuckle("inspect", two, "--rank", "1").out
    refused = turnbuckle("inspect", two, "--rank", "2")
    assert refused.code == 2 and "error[A423]" in refused.err
