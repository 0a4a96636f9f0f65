"""The examples of the manual: found, run, compared with what the page shows, and brought up to
date.

    python docs/examples.py            # run all examples and rewrite what they show

A block marked ``console`` holds commands and their output, as a terminal shows them::

    $ turnbuckle project run.sqlite --on gh200
    ...
    gh200   881 ms  0.849x  [0.838, 0.863]  faster
    ...
    $ echo $?
    0

``run.sqlite``, ``after.sqlite`` and ``jobs.toml`` are samples that ship with Turnbuckle, ``runs.csv`` is a small
table of run times, ``mix.toml`` a portfolio. A line ``...`` stands for lines left out. Without ``$
echo $?`` the command must end with 0. Lines must agree but for spaces, numbers within `TOLERANCE`.

A block marked ``python`` runs after those before it on the page.  If a block marked ``text``
follows at once, it is what the code prints.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
#: A shown number may differ from the true one by this much: libraries round differently, a stale
#: page differs more.
TOLERANCE = 0.02
#: What the terminal of an example is like.
TERMINAL = {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb", "PYTHONIOENCODING": "utf-8"}
#: Run times on 1 to 8 cores a GPU as a fit that Austin et al. 2021 print gives them (Table 6,
#: Total), rounded to seconds.
RUNS = "cores, run time [s]\n1, 186\n2, 152\n3, 136\n4, 128\n6, 123\n8, 122\n"
#: A workload of the sample alone, on two machines.
MIX = """[recordings]
milc = "run.sqlite"

[targets.gh200]
[targets.cdi-row-link]
"""
COLOURED = ("FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE")

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


@dataclass
class Step:
    """One command, or one piece of Python, and what the page shows of its output."""

    code: str
    shown: list[str] = field(default_factory=list)
    code_is: str = "console"
    exit_code: int = 0

    @property
    def whole(self) -> bool:
        """Whether the page shows all of the output."""
        return bool(self.shown) and "..." not in self.shown


@dataclass
class Block:
    """One fenced block: where its content stands in the page, and its steps."""

    line: int
    start: int
    end: int
    kind: str
    steps: list[Step]


def pages() -> list[Path]:
    """README and every page of the manual."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str) -> list[Block]:
    """The blocks of a page that run, in order."""
    out: list[Block] = []
    previous_end = -1
    for found in _FENCE.finditer(text):
        kind, content = found[1], found[2]
        line = text.count("\n", 0, found.start()) + 1
        if kind == "console":
            out.append(Block(line, found.start(2), found.end(2), kind, _commands(content)))
        elif kind == "python":
            out.append(
                Block(line, found.start(2), found.end(2), kind, [Step(content, code_is="python")])
            )
        elif (
            kind == "text"
            and out
            and out[-1].kind == "python"
            and not text[previous_end : found.start()].strip()
        ):
            out[-1].steps[0].shown = content.splitlines()
            out[-1].start, out[-1].end = found.start(2), found.end(2)
        previous_end = found.end()
    return out


def _commands(content: str) -> list[Step]:
    steps: list[Step] = []
    lines = iter(content.splitlines())
    for line in lines:
        if line == "$ echo $?":
            steps[-1].exit_code = int(next(lines))
        elif line.startswith("$ "):
            steps.append(Step(line[2:]))
        elif steps:
            steps[-1].shown.append(line)
        else:
            raise ValueError(f"a console block begins with a command, not with {line!r}")
    return steps


@contextlib.contextmanager
def workplace() -> Iterator[dict[str, object]]:
    """A folder with the sample as ``run.sqlite`` and a table ``runs.csv``, made the current one;
    and the names that Python blocks share.
    """
    from turnbuckle.examples import sample

    before = Path.cwd()
    path_of_turnbuckle = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    terminal = {**TERMINAL, "PATH": path_of_turnbuckle, "XDG_CACHE_HOME": ""}
    with (
        tempfile.TemporaryDirectory() as folder,
        sample() as path,
        mock.patch.dict(os.environ, terminal),
    ):
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        for name in COLOURED:
            os.environ.pop(name, None)
        for name in ("run.sqlite", "after.sqlite"):
            (Path(folder) / name).write_bytes(Path(path).read_bytes())
        (Path(folder) / "jobs.toml").write_bytes((Path(path).parent / "jobs.toml").read_bytes())
        (Path(folder) / "runs.csv").write_text(RUNS, encoding="utf-8")
        (Path(folder) / "mix.toml").write_text(MIX, encoding="utf-8")
        os.chdir(folder)
        try:
            yield {"__name__": "example"}
        finally:
            os.chdir(before)


def run(step: Step, names: dict[str, object]) -> tuple[list[str], int]:
    """Run one step in the current folder -> (lines of output, exit code).  What `turnbuckle` says
    on stderr follows what it prints.
    """
    if step.code_is == "console":
        program, *words = shlex.split(step.code, comments=True)
        if program != "turnbuckle":
            raise ValueError(
                f"only turnbuckle runs in a console block, not {program!r}; mark it sh"
            )
        return _command(words)
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            exec(compile(step.code, "<example>", "exec"), names)
    except Exception as error:
        return [*_lines(said.getvalue()), f"{type(error).__name__}: {error}"], 1
    return _lines(said.getvalue()), 0


def _command(words: list[str]) -> tuple[list[str], int]:
    from turnbuckle.cli import run as cli

    printed, said = _terminal(), _terminal()
    with (
        mock.patch.object(sys, "argv", ["turnbuckle", *words]),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(said),
    ):
        try:
            code = cli.run(words)
        except SystemExit as stop:
            code = int(stop.code or 0)
    return [*_lines(_text(printed)), *_lines(_text(said))], code


def _terminal() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode("utf-8", "replace")


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.splitlines()]
    while lines and not lines[0]:
        lines.pop(0)
    while lines and not lines[-1]:
        lines.pop()
    return lines


def differences(step: Step, output: list[str], exit_code: int) -> list[str]:
    """What the page shows and the program does not say; empty where they agree."""
    out = (
        []
        if exit_code == step.exit_code
        else [f"exit code {exit_code}, not {step.exit_code}", *output[-6:]]
    )
    if not step.shown:
        return out
    wanted = [line for line in step.shown if line.strip() and line != "..."]
    actual = [line for line in output if line.strip()]
    if step.whole and len(wanted) != len(actual):
        out.append(f"{len(actual)} lines of output, {len(wanted)} shown")
    at = 0
    for line in wanted:
        match = next((i for i in range(at, len(actual)) if same(line, actual[i])), None)
        if match is None:
            near = next((a for a in actual[at:] if shape(a) == shape(line)), "")
            out.append(f"shown: {line}" + (f"\n  said: {near}" if near else "  (no such line)"))
        else:
            at = match + 1
    return out


def shape(line: str) -> str:
    """A line without its spaces and numbers."""
    return "".join(_NUMBER.sub("#", line).split())


def same(shown: str, said: str) -> bool:
    """Whether two lines agree but for spaces, and numbers within `TOLERANCE`."""
    if shape(shown) != shape(said):
        return False
    pairs = zip(_numbers(shown), _numbers(said), strict=True)
    return all(math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=1e-12) for a, b in pairs)


def _numbers(line: str) -> list[float]:
    return [float(n.replace(",", "")) for n in _NUMBER.findall(line)]


def renewed(step: Step, output: list[str]) -> list[str]:
    """What the page should show: all of the output, or the lines it picked with their numbers of
    today.
    """
    if not step.whole:
        rest = list(output)
        out = []
        for line in step.shown:
            found = next(
                (i for i, said in enumerate(rest) if line.strip() and shape(said) == shape(line)),
                None,
            )
            out.append(line if found is None else rest[found])
            rest = rest if found is None else rest[found + 1 :]
        return out
    return output


def renew(page: Path) -> list[str]:
    """Run the examples of one page and rewrite what they show; returns what still differs."""
    text = page.read_text(encoding="utf-8")
    found, remarks = blocks(text), []
    with workplace() as names:
        for block in found:
            for step in block.steps:
                output, code = run(step, names)
                step.shown = renewed(step, output)
                remarks += [
                    f"{page.name}:{block.line}: {d}" for d in differences(step, output, code)
                ]
    for block in reversed(found):
        if block.kind == "python" and not block.steps[0].shown:
            continue
        text = (
            text[: block.start]
            + "".join(f"{line}\n" for line in _written(block))
            + text[block.end :]
        )
    page.write_text(text, encoding="utf-8")
    return remarks


def _written(block: Block) -> Iterator[str]:
    for step in block.steps:
        if block.kind == "console":
            yield f"$ {step.code}"
        yield from step.shown
        if step.exit_code:
            yield from ("$ echo $?", str(step.exit_code))


def main() -> int:
    """Renew every page; 1 if a page shows what the program does not say."""
    remarks = [remark for page in pages() for remark in renew(page)]
    print("\n".join(remarks) or "all examples are as shown")
    return 1 if remarks else 0


if __name__ == "__main__":
    raise SystemExit(main())
