"""Errors of every class, as a user meets them: a process of its own, its exit code, its two
streams.
"""

from __future__ import annotations

import ast
import fcntl
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_names import SAMPLE
from sources import PACKAGE, modules, nodes

from turnbuckle.foundation import errors

MAIN = "from turnbuckle.cli import main; main()"
DEFECT = f"from turnbuckle.cli import app; app.dispatch = lambda words: 1 / 0; {MAIN}"
SWEEP = (
    "sweep",
    SAMPLE,
    "--model",
    "project",
    "--axis",
    "on=gh200",
    "--workers",
    "1",
    "-o",
    "t.csv",
)
#: A class of errors -> its code, how it begins, and the words that lead to it.
MET: dict[str, tuple[str, str, tuple[object, ...]]] = {
    "ProfileError": ("P001", MAIN, ("inspect", "missing.sqlite")),
    "MachineError": ("M001", MAIN, ("project", SAMPLE, "--on", "gh201")),
    "UnitError": ("U001", MAIN, ("calibrate", SAMPLE, "--copied-size", "1")),
    "NativeError": ("N004", MAIN, ("record", "-o", "a", "--", "/no/such/program")),
    "UsageError": ("A001", MAIN, ("projct", SAMPLE)),
    "CannotAnswer": ("A160", MAIN, ("model", "dgemm", SAMPLE, "--kernel", "none", "--size", "100")),
    "GateFailed": (
        "A201",
        MAIN,
        ("project", SAMPLE, "--on", "cdi-row-link", "--draws", "0", "--fail-if", "penalty > 0.1%"),
    ),
    "ReportError": ("R002", MAIN, ("inspect", SAMPLE, "--format", "json", "-o", "none/a.json")),
    "LimitError": ("L002", MAIN, ("inspect", SAMPLE)),
    "InternalError": ("I001", DEFECT, ("machines", "list")),
}
#: What libraries raise where the system refuses files, memory or threads.
REFUSALS = {
    "OSError",
    "Exception",
    "BaseException",
    "MemoryError",
    "RuntimeError",
    "ImportError",
    "PolarsError",
    "PanicException",
}
#: Errors that say more than that the system refused: the file, and what was called.
INSTEAD = {
    ("cli/__init__.py", "SystemExit(2)"),
    ("cli/ending.py", "Ended(received[0])"),
    ("cli/limits.py", "made"),
    ("papers/models/dag/supernodes.py", "_unreadable(path, 'more entries than fit into memory')"),
    ("questions/sweep/answers/journal.py", "error_of('A085', where=self.path.name)"),
    ("replay/contention/contention.py", "raised[0]"),
    (
        "show/figures/figure.py",
        "error_of('R006', found=f'drawing takes up to {MEMORY_BYTES >> 20} MB')",
    ),
}


def met(
    start: str, place: Path, *words: object, limit: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    line = [sys.executable, "-c", start, *map(str, words)]
    return subprocess.run(
        line, cwd=place, capture_output=True, text=True, preexec_fn=limit, timeout=120, check=False
    )


def told(done: subprocess.CompletedProcess[str], code: str, exit_code: int) -> None:
    """Assert an exit code, and one error of whole lines at the end of stderr."""
    assert done.returncode == exit_code, done.stderr
    assert "Traceback" not in done.stderr
    first, *rest = done.stderr[done.stderr.index("error[") :].splitlines()
    assert first.startswith(f"error[{code}]: "), done.stderr
    assert all(re.match(r"  (-->|found:|cause:|fix:) ", line) for line in rest), done.stderr


@pytest.mark.parametrize("name", MET)
def test_an_error_of_each_class(name: str, tmp_path: Path) -> None:
    code, start, words = MET[name]
    limit = None
    if name == "LimitError":
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (200 << 20, 200 << 20))  # noqa: E731
    told(met(start, tmp_path, *words, limit=limit), code, getattr(errors, name).exit_code)
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_every_class_is_met() -> None:
    classes = {klass.__name__ for klass in errors.TurnbuckleError.__subclasses__()}
    assert classes == set(MET)


def test_a_second_sweep_on_a_journal_is_told_so(tmp_path: Path) -> None:
    """The lock that another holds has the number of a lack of threads."""
    with (tmp_path / "t.csv.journal").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = met(MAIN, tmp_path, *SWEEP)
    told(done, "A085", 2)
    assert "t.csv.journal" in done.stderr


def test_what_may_hide_a_refusal_of_the_system_names_it_as_its_cause() -> None:
    """`limits.shortage` follows causes: an error that is raised ``from None`` stands in place of
    what it met.
    """
    for path in modules():
        place = path.relative_to(PACKAGE).as_posix()
        for handler in nodes(path):
            if not isinstance(handler, ast.ExceptHandler) or not handler.type:
                continue
            caught = set(re.findall(r"\w+", ast.unparse(handler.type)))
            raised = [
                n for n in ast.walk(handler) if isinstance(n, ast.Raise) and n.cause and n.exc
            ]
            hiding = {(place, ast.unparse(n.exc)) for n in raised if ast.unparse(n.cause) == "None"}  # type: ignore[arg-type]
            assert not (caught & REFUSALS and hiding - INSTEAD), (
                place,
                handler.lineno,
                "raise it from the error that it met",
            )
