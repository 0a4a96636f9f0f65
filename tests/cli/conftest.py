"""Running the command line in this process, and a recording full of things that must not come out."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import pytest

from turnbuckle.cli import run as cli_run

SAMPLE = Path(str(files("turnbuckle") / "examples" / "dgemm-like-synthetic.sqlite"))

#: What the process environment and command line of a recording may hold; none of it may enter any output.
SECRETS = ("hunter2", "SECRET_TOKEN", "nodeofsecrets17", "alice-the-user", "--password=swordfish", "/home/alice-the-user/run.sh")
#: Escape sequences, markup, direction marks and length, as a kernel name may have them.
EVIL = "\x1b[31mRED\x1b[0m\x07\x9b1m\u202e [red]markup[/red] [/] </script><img src=x onerror=alert(1)>\r\n" + "x" * 5_000


@dataclass(frozen=True)
class Ran:
    """What one command line came to."""

    code: int
    out: str
    err: str


@pytest.fixture
def turnbuckle(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Ran]:
    """Run ``turnbuckle WORDS`` in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def run(*words: object) -> Ran:
        given = [str(w) for w in words]
        monkeypatch.setattr("sys.argv", ["turnbuckle", *given])
        capsys.readouterr()
        code = cli_run.run(given)
        found = capsys.readouterr()
        assert "Traceback" not in found.out + found.err
        return Ran(code, found.out, found.err)

    return run


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample with hostile names, and with the environment, command line, host and user of a process in it."""
    path = tmp_path_factory.mktemp("hostile") / "hostile.sqlite"
    shutil.copy(SAMPLE, path)
    path.chmod(0o600)
    token, name, host, user, option, script = SECRETS
    with sqlite3.connect(path) as file:
        (kernel,) = file.execute("SELECT demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL LIMIT 1").fetchone()
        file.execute("UPDATE StringIds SET value = ? WHERE id = ?", (EVIL, kernel))
        file.execute("UPDATE TARGET_INFO_GPU SET name = ?", ("\x1b]0;owned\x07 [bold]GPU[/bold] \x9b1m",))
        file.execute("CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid INTEGER, devStateName TEXT, name TEXT, nameEnum INTEGER, value TEXT)")
        rows = [("Hostname", host), ("User", user), (name, token), ("Environment", f"{name}={token}")]
        file.executemany("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (0, 'SystemEnv', ?, 0, ?)", rows)
        file.execute("CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT)")
        lines = [("COMMAND_LINE", f"{script} {option}"), (f"ENVIRONMENT_VARIABLE:{name}", token), ("HOSTNAME", host), ("USER", user)]
        file.executemany("INSERT INTO META_DATA_CAPTURE VALUES (?, ?)", lines)
        file.execute("UPDATE PROCESSES SET name = ?", (script,))
    return path
