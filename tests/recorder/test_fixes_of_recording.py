"""The fix that an error of the recorder names is one that works: recording fails with the code, and
with the fix it is done.

A line of ``fixes.csv`` begins with what is set in the environment, as a shell has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from fix_files import words_of
from fixes import Row, printed, rows, with_fix
from recorder_bench import Bench, Said

from turnbuckle.recorder import toolchain


@pytest.fixture
def shell(
    verb: Callable[..., Said], bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Said]:
    """Run a line of the table on the machine that the stand-in plays."""
    places = {
        "LIBRARY": bench.library,
        "PROGRAM": bench.program,
        "TOOLKIT": bench.toolkit,
        "BUILT": toolchain.LIBRARY,
    }
    Path("file").touch()
    Path("none").mkdir()
    Path("none/libcuda.so.1").write_text("no library", encoding="utf-8")

    def run(line: str) -> Said:
        words = words_of(line, Path())
        settings = [word for word in words if re.match("[A-Z_0-9]+=", word)]
        given = [
            re.sub("[A-Z]{5,}", lambda found: str(places.get(found[0], found[0])), word)
            for word in words[len(settings) :]
        ]
        with monkeypatch.context() as patch:
            for setting in settings:
                name, _, value = setting.partition("=")
                patch.setenv(
                    name,
                    str(Path(value).absolute())
                    if name in ("XDG_CACHE_HOME", "LD_LIBRARY_PATH")
                    else value,
                )
            return verb(*given)

    return run


@pytest.mark.parametrize("row", rows("recorder"), ids=lambda row: row.name)
def test_the_fix_of_an_error_works(shell: Callable[[str], Said], row: Row) -> None:
    first = shell(row.refused)
    assert first.code in (2, 3), first.err
    for lines in with_fix(row.mended, printed(first.err, row.name)):
        for line in lines.split(" ; "):
            ran = shell(line)
            assert ran.code == 0, ran.err
