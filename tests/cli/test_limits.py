"""Too few files, too little memory and too few threads are one coded error each, whatever library
met them first.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys

import polars as pl
import pytest
from hostile_names import SAMPLE

from turnbuckle.cli import limits
from turnbuckle.cli import run as cli_run
from turnbuckle.foundation import registry
from turnbuckle.foundation.errors import InternalError, ProfileError, UsageError

MAIN = "from turnbuckle.cli import main; main()"


def limited(
    kind: int, most: int, *words: object, start: str = MAIN, files: int | None = None
) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own under a limit."""

    def limit() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup` passes on that it is ignored
        resource.setrlimit(kind, (most, most))
        if files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    # what the tests themselves run under is not the user's
    environment = {name: value for name, value in os.environ.items() if name not in limits._THREADS}
    command = [sys.executable, "-c", start, *map(str, words)]
    return subprocess.run(
        command,
        env=environment,
        preexec_fn=limit,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def one_error(done: subprocess.CompletedProcess[str], code: str) -> None:
    """Assert one coded error and nothing else."""
    first, *rest = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "") and first.startswith(f"error[{code}]: ")
    assert rest and all(line.startswith("  ") for line in rest) and "/" not in done.stderr


@pytest.mark.parametrize("most", [5, 6, 7, 16, 26])
def test_few_files(most: int) -> None:
    one_error(limited(resource.RLIMIT_NOFILE, most, "inspect", SAMPLE), "L001")


def test_no_file_left_to_load_the_command_line_from() -> None:
    start = (
        "import os, resource; from turnbuckle.cli import main; "
        f"resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3)); {MAIN}"
    )
    one_error(limited(resource.RLIMIT_NOFILE, 64, start=start), "L001")


@pytest.mark.parametrize("most", [200 << 20, 500 << 20, limits.SPACE - 1])
def test_little_address_space(most: int) -> None:
    one_error(limited(resource.RLIMIT_AS, most, "inspect", SAMPLE), "L002")


def test_files_and_address_space_that_suffice() -> None:
    done = limited(resource.RLIMIT_AS, limits.SPACE, "inspect", SAMPLE, files=4 + limits.FILES)
    assert done.returncode == 0 and "run time" in done.stdout


@pytest.mark.parametrize(
    "end", ["os.abort()", "os.kill(os.getpid(), 9)", "os.kill(os.getpid(), 11)"]
)
def test_a_child_that_a_library_ends(end: str) -> None:
    start = (
        "import os, sys; from turnbuckle.cli import limits, run; sys.exit(limits.guarded(lambda "
        f"limited: {end}, run.say))"
    )
    one_error(limited(resource.RLIMIT_AS, 4 << 30, start=start), "L002")


def test_codes_and_signals_pass_through() -> None:
    start = (
        "import os, sys; from turnbuckle.cli import limits, run; sys.exit(limits.guarded(lambda "
        "limited: {}, run.say))"
    )
    assert (
        limited(resource.RLIMIT_AS, 4 << 30, start=start.format("7 if limited else 0")).returncode
        == 7
    )
    assert (
        limited(
            resource.RLIMIT_AS, resource.RLIM_INFINITY, start=start.format("7 if limited else 0")
        ).returncode
        == 0
    )
    assert (
        limited(
            resource.RLIMIT_AS,
            4 << 30,
            start=start.format("os.kill(os.getppid(), 15) or __import__('time').sleep(60)"),
        ).returncode
        == -15
    )
    assert (
        limited(
            resource.RLIMIT_AS, 4 << 30, start=start.format("os.kill(os.getpid(), 1)")
        ).returncode
        == -signal.SIGHUP
    )


def test_a_recorded_program_does_not_inherit_few_threads() -> None:
    start = (
        "import os; from turnbuckle.cli import limits; limits.load(); assert not set(os.environ) "
        "& set(limits._THREADS)"
    )
    assert limited(resource.RLIMIT_AS, 4 << 30, start=start).returncode == 0


@pytest.mark.parametrize(
    "text", ["0", "-1", "junk", "1.5", " 2", "100000", "9" * 5000, "\N{ARABIC-INDIC DIGIT TWO}"]
)
def test_a_number_of_threads_that_is_none(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POLARS_MAX_THREADS", text)
    assert cli_run.run(["inspect", str(SAMPLE)]) == 2
    first, found, *_ = capsys.readouterr().err.splitlines()
    assert first == "error[L004]: POLARS_MAX_THREADS is no number of threads" and found.startswith(
        "  found: POLARS_MAX_THREADS="
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [("POLARS_MAX_THREADS", ""), ("POLARS_MAX_THREADS", "1"), ("RAYON_NUM_THREADS", "0")],
)
def test_a_number_of_threads_that_is_one(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, text)
    limits.check()


def test_numpy_starts_no_threads_of_which_a_recorded_program_would_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    start = (
        "import os, sys; from turnbuckle import cli; sys.argv = ['turnbuckle', '--version']\n"
        "try: cli.main()\nexcept SystemExit: pass\n"
        "import numpy; assert len(os.listdir('/proc/self/task')) == 1 and 'OPENBLAS_NUM_THREADS' "
        "not in os.environ"
    )
    subprocess.run([sys.executable, "-c", start], check=True)


def test_small_questions_load_neither_scipy_nor_what_another_verb_draws_nor_the_readers_of_other_formats() -> (
    None
):
    start = (
        f"import sys; from turnbuckle import cli; sys.argv = ['turnbuckle', {str(SAMPLE)!r}]\n"
        "try: cli.main()\nexcept SystemExit as end: assert not end.code\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True, check=True)
    modules = set(done.stderr.split())
    others = {
        entry.place
        for name, entry in registry.entries("readers").items()
        if name not in ("nsys", "kineto")
    }
    untimed = {entry.place for entry in registry.entries("untimed").values()}
    assert registry.entries("readers")["nsys"].place in modules and not modules & (others | untimed)
    assert not {name.partition(".")[0] for name in modules} & {"scipy", "jinja2"}


def chained(error: Exception, first: BaseException) -> Exception:
    """An error that arose from another."""
    error.__cause__ = first
    return error


def instead(error: Exception, first: BaseException) -> Exception:
    """An error that was raised while another was handled, and that stands in its place."""
    try:
        try:
            raise first
        except BaseException:
            raise error from None
    except Exception as made:
        return made


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.EMFILE, "Too many open files", "x"), "L001"),
        (OSError(errno.ENFILE, "Too many open files in system"), "L001"),
        (ImportError("_x.so: cannot open shared object file: Too many open files"), "L001"),
        (
            pl.exceptions.PanicException(
                "called `unwrap()` on an `Err` value: Os { code: 24, kind: TooManyOpenFiles }"
            ),
            "L001",
        ),
        (pl.exceptions.ComputeError("Too many open files (os error 24)"), "L001"),
        (
            ProfileError(
                "P005", "the file cannot be read", found="Too many open files (os error 24)"
            ),
            "L001",
        ),
        (chained(ProfileError("P057", "a table"), OSError(errno.EMFILE, "x")), "L001"),
        (MemoryError(), "L002"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "L002"),
        (ImportError("x.so: failed to map segment from shared object"), "L002"),
        (chained(ProfileError("P057", "a table"), MemoryError()), "L002"),
        (
            instead(
                UsageError("A085", "a journal"),
                BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)),
            ),
            None,
        ),
        (instead(UsageError("R006", "a drawing"), MemoryError()), None),
        (RuntimeError("can't start new thread"), "L003"),
        (BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)), "L003"),
        (
            InternalError(
                "I001",
                "x",
                found='failed to spawn thread: Os { code: 11, kind: WouldBlock, message: "x" }',
            ),
            "L003",
        ),
        (BlockingIOError(errno.EAGAIN, "write could not complete without blocking"), None),
        (UsageError("A001", "x", found="Too many open files (os error 24)"), None),
        (ProfileError("P001", "x", found="a kernel called out of memory"), None),
        (ValueError("out of memory"), None),
        (OSError(errno.ENOSPC, "No space left on device"), None),
    ],
)
def test_what_the_system_refuses(
    error: BaseException,
    code: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = limits.shortage(error)
    assert (found and found.code) == code

    def fails(words: object) -> int:
        raise error

    monkeypatch.setattr("turnbuckle.cli.app.dispatch", fails)
    assert cli_run.run(["machines", "list"]) == 2 if code else True
    assert code is None or capsys.readouterr().err.startswith(f"error[{code}]: ")


def test_an_error_is_told_without_the_means_for_colours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*words: object, **named: object) -> object:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("rich.console.Console.__init__", fails)
    cli_run.say(limits.too_few_files())
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("error[L001]: ") and lines[-1].startswith("  fix:   ")
