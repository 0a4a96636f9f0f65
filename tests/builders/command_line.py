"""Running the command line in this process, and a recording full of things that must not come
out.
"""

from __future__ import annotations

import copy
import io
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import runs
from cyclopts import App, core
from cyclopts.argument import ArgumentCollection
from hostile_names import EVIL, SAMPLE, SECRETS, Ran

from turnbuckle.cli import run as cli_run


@pytest.fixture(scope="session", autouse=True)
def _options_listed_once() -> Iterator[None]:
    """List and check the options of a verb once: a process of a user parses one command line, a
    worker parses thousands.
    """
    assemble = App.assemble_argument_collection
    listed: dict[object, ArgumentCollection] = {}

    def again(app: App, **asked: Any) -> ArgumentCollection:
        if app.default_command is None:
            return assemble(app, **asked)
        # a verb by itself lacks what all options of the program have in common
        options = (app.default_command, app.app_stack.default_parameter, *sorted(asked.items()))
        if options not in listed:
            listed[options] = assemble(app, **asked)
        return _without_words(listed[options])

    checked = cache(core.validate_command)
    with (
        mock.patch.object(App, "assemble_argument_collection", again),
        mock.patch.object(core, "validate_command", checked),
    ):
        yield


def _without_words(options: ArgumentCollection) -> ArgumentCollection:
    """Return copies of options that no word of a command line was given to."""
    copies = {id(option): copy.copy(option) for option in options}
    for option in copies.values():
        option.tokens = []
        option.children = ArgumentCollection(copies[id(child)] for child in option.children)
    return ArgumentCollection(copies.values())


@pytest.fixture(scope="module")
def read_once() -> Iterator[None]:
    """Read a recording once for all tests of a module."""
    with runs.read_once():
        yield


@pytest.fixture
def turnbuckle(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Ran]:
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


@pytest.fixture
def encoded(turnbuckle: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Run ``turnbuckle WORDS`` in this process, on streams of an encoding that is named first."""

    def run(encoding: str, *words: object) -> Ran:
        streams = {
            name: io.TextIOWrapper(io.BytesIO(), encoding, errors="strict", write_through=True)
            for name in ("stdout", "stderr")
        }
        with monkeypatch.context() as patch:
            for name, stream in streams.items():
                patch.setattr(sys, name, stream)
            code = cli_run.run([str(word) for word in words])
        return Ran(
            code, *(stream.buffer.getvalue().decode(encoding) for stream in streams.values())
        )  # type: ignore[attr-defined]

    return run


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample with hostile names, and with the environment, command line, host and user of a
    process in it.
    """
    path = tmp_path_factory.mktemp("hostile") / "hostile.sqlite"
    shutil.copy(SAMPLE, path)
    path.chmod(0o600)
    token, name, host, user, option, script = SECRETS
    with closing(sqlite3.connect(path)) as file, file:
        (kernel,) = file.execute(
            "SELECT demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL LIMIT 1"
        ).fetchone()
        file.execute("UPDATE StringIds SET value = ? WHERE id = ?", (EVIL, kernel))
        file.execute(
            "UPDATE TARGET_INFO_GPU SET name = ?", ("\x1b]0;owned\x07 [bold]GPU[/bold] \x9b1m",)
        )
        file.execute(
            "CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid INTEGER, devStateName TEXT, name "
            "TEXT, nameEnum INTEGER, value TEXT)"
        )
        rows = [
            ("Hostname", host),
            ("User", user),
            (name, token),
            ("Environment", f"{name}={token}"),
        ]
        file.executemany(
            "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (0, 'SystemEnv', ?, 0, ?)", rows
        )
        file.execute("CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT)")
        lines = [
            ("COMMAND_LINE", f"{script} {option}"),
            (f"ENVIRONMENT_VARIABLE:{name}", token),
            ("HOSTNAME", host),
            ("USER", user),
        ]
        file.executemany("INSERT INTO META_DATA_CAPTURE VALUES (?, ?)", lines)
        file.execute("UPDATE PROCESSES SET name = ?", (script,))
    return path
