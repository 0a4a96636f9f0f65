"""What a recording may hold that must not come out of it as it is, and how a command is run and
read.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

SAMPLE = Path(str(files("turnbuckle") / "examples" / "dgemm-like-synthetic.sqlite"))

#: What the process environment and command line of a recording may hold; none of it may enter any
#: output.
SECRETS = (
    "hunter2",
    "SECRET_TOKEN",
    "nodeofsecrets17",
    "alice-the-user",
    "--password=swordfish",
    "/home/alice-the-user/run.sh",
)
#: Escape sequences, markup, direction marks and length, as a kernel name may have them.
EVIL = (
    "\x1b[31mRED\x1b[0m\x07\x9b1m\u202e [red]markup[/red] [/] </script><img src=x "
    "onerror=alert(1)>\r\n"
) + "x" * 5_000


@dataclass(frozen=True)
class Ran:
    """What one command line came to."""

    code: int
    out: str
    err: str


FEW = ("--draws", "20")
#: Where no interval is looked at.
NONE = ("--draws", "0")
#: Command lines that say something about a recording.
ALL = (
    ["{file}"],
    ["inspect", "{file}"],
    ["project", "{file}", "--on", "nvlink-c2c", *FEW],
    ["doctor", "{file}"],
    *(
        [verb, "{file}", *more, "--format", form]
        for verb, more in (
            ("inspect", ()),
            ("project", ("--on", "nvlink-c2c", *FEW)),
            ("doctor", ()),
        )
        for form in ("json", "csv")
    ),
    ["inspect", "{file}", "--minus", "{file}"],
    ["project", "{file}", "--on", "missing"],
    ["project", "{file}", "--fail-if", "penalty > 0", "--on", "cdi-row-link", *NONE],
)


def document(ran: Ran) -> dict[str, Any]:
    """The JSON of a run: all of stdout, and no NaN in it."""
    assert ran.code == 0, ran.err
    assert ran.err == "", "talk belongs to people, not to programs"

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    found = json.loads(ran.out, parse_constant=refuse)
    assert found["schema_version"] == 2
    return dict(found)


#: Answers the command lines of its last argument, and prints exit code, stdout and stderr of each.
ANSWERED = """import contextlib, io, json, sys
from turnbuckle.cli.run import run
answers = []
for words in json.loads(sys.argv.pop()):
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(words)
    answers.append((code, *(stream.buffer.getvalue().decode() for stream in (out, err))))
print(json.dumps(answers))
"""


def all_of(
    lines: Sequence[Sequence[str]],
    start: str = "",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> list[Ran]:
    """Answer command lines one after the other in a process of their own, which begins with
    `start`.
    """
    command = [sys.executable, "-c", start + ANSWERED, json.dumps(lines)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **(env or {})},
        cwd=cwd,
    )
    return [Ran(*answer) for answer in json.loads(done.stdout)]


def outside(*words: object, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    start = [sys.executable, "-c", "from turnbuckle.cli import main; main()", *map(str, words)]
    env = {**os.environ, **more.pop("env", {})}
    return subprocess.run(
        start,
        text=True,
        env=env,
        check=False,
        encoding="utf-8",
        errors="replace",
        **{"capture_output": True, **more},
    )
