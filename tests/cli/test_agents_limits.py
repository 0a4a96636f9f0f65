"""`turnbuckle mcp` under what goes wrong: each failure has a code, and no question outlives who
asked it.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from turnbuckle.cli import asked

START = (
    "import sys; from turnbuckle.cli import asked, main; sys.argv = ['turnbuckle', 'mcp']; {}; "
    "sys.exit(main())"
)
FIELDS = ("found:", "cause:", "fix:")


class Client:
    """A client that says what it likes."""

    def __init__(self, place: Path, setting: str) -> None:
        words = [sys.executable, "-c", START.format(setting)]
        self.server = subprocess.Popen(
            words, cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        about = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }
        self.ask(0, "initialize", about)
        assert self.answer()["id"] == 0
        self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def say(self, message: Any) -> None:
        """Send a line."""
        assert self.server.stdin is not None
        self.server.stdin.write(
            (message if isinstance(message, str) else json.dumps(message)).encode() + b"\n"
        )
        self.server.stdin.flush()

    def ask(self, number: int, method: str, params: dict[str, Any]) -> None:
        """Send a request."""
        self.say({"jsonrpc": "2.0", "id": number, "method": method, "params": params})

    def call(self, number: int, tool: str = "inspect", **arguments: Any) -> None:
        """Call a tool."""
        self.ask(number, "tools/call", {"name": tool, "arguments": arguments or {"recording": "a"}})

    def answer(self) -> dict[str, Any]:
        """Return the next answer."""
        assert self.server.stdout is not None
        assert select.select([self.server.stdout], [], [], 60)[0], "the server says nothing"
        found: dict[str, Any] = json.loads(self.server.stdout.readline())
        return found

    def text(self) -> str:
        """Return the text of the next answer of a tool."""
        return str(self.answer()["result"]["content"][0]["text"])


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Callable[..., Client]]:
    clients: list[Client] = []

    def made(setting: str = "0", question: str = "") -> Client:
        """Start a server whose questions are a script in place of the command line."""
        if question:
            script = tmp_path / "question"
            script.write_text(f"#!/bin/sh\n{question}\n")
            script.chmod(0o700)
            setting += f"; asked.COMMAND = [{str(script)!r}]"
        clients.append(Client(tmp_path, setting))
        return clients[-1]

    yield made
    for one in clients:
        one.server.kill()
        with one.server:
            pass


def told(text: str, code: str) -> None:
    """Assert an error with all that an error has."""
    assert re.match(rf"error\[{code}\]: \S", text), text
    assert all(f"\n  {field}" in text for field in FIELDS), text


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def test_each_failure_is_a_full_error(client: Callable[..., Client], tmp_path: Path) -> None:
    one = client()
    many = {"recording": "a", "on": ["self"] * (asked.TARGETS + 1)}
    calls: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("A510", "inspekt", {"recording": "a"}),
        ("A511", "inspect", {"part": "whole"}),
        ("A511", "inspect", {"recording": 7}),
        ("A511", "inspect", {"recording": "a", "output": "b"}),
        ("A512", "inspect", {"recording": "a\0b"}),
        ("A512", "inspect", {"recording": "a" * 20_000_000}),
        ("A512", "inspect", {"recording": "\ud800"}),
        ("A512", "project", {"recording": "a", "on": ["gh200", "b\udc80"]}),
        ("A513", "project", many),
        ("A513", "whatif", {"recording": "a", "on": [",".join(many["on"])]}),
    )
    for number, (code, tool, arguments) in enumerate(calls, start=1):
        one.ask(number, "tools/call", {"name": tool, "arguments": arguments})
        told(one.text(), code)
    for line in (
        "{",
        '{"jsonrpc": "2.0"',
        "[1, 2]",
        "7",
        "[" * 100_000,
        '{"a": "\x00"}',
        "1" * 10_000,
    ):
        one.say(line)
        answer = one.answer()
        assert answer["id"] is None
        told(answer["error"]["message"], "A517")
    one.call(99, "machines", **{})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("question", "setting", "code"),
    [
        ("yes", "0", "A514"),
        ("sleep 60", "asked.PATIENCE = 0.3", "A515"),
        ("echo no >&2; exit 3", "0", "A518"),
        ("kill -15 $$", "0", "A518"),
        ("kill -9 $$", "0", "L002"),
    ],
)
def test_a_question_that_does_not_end_well(
    client: Callable[..., Client], question: str, setting: str, code: str
) -> None:
    one = client(setting, question)
    one.call(1)
    told(one.text(), code)


def test_two_questions_at_a_time(client: Callable[..., Client], tmp_path: Path) -> None:
    one = client("0", "echo 1 >> log; sleep 0.2; echo -1 >> log; echo '{}'")
    for number in range(1, 7):
        one.call(number)
    answers = [one.answer() for _ in range(6)]
    assert {a["id"] for a in answers} == set(range(1, 7)) and all(
        a["result"]["content"][0]["text"] == "{}\n" for a in answers
    )
    running, most = 0, 0
    for step in map(int, (tmp_path / "log").read_text().split()):
        running += step
        most = max(most, running)
    assert (running, most) == (0, asked.AT_ONCE)


def test_the_queue_has_an_end(client: Callable[..., Client]) -> None:
    one = client("asked.WAITING = 1", "sleep 60")
    for number in range(1, 5):
        one.call(number)
        time.sleep(0.1)
    answer = one.answer()
    assert answer["id"] == 4
    told(answer["result"]["content"][0]["text"], "A516")


@pytest.mark.parametrize("end", ["cancel", "closed", "SIGTERM", "SIGINT"])
def test_no_question_outlives_who_asked(
    client: Callable[..., Client], tmp_path: Path, end: str
) -> None:
    """Neither its process, which takes no notice of SIGTERM, nor what that started."""
    one = client(
        "0", "trap '' TERM; sleep 77 & echo $$ $! > started; mv started pids; wait; sleep 77"
    )
    one.call(1)
    until((tmp_path / "pids").exists)
    pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
    if end == "cancel":
        one.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    elif end == "closed":
        assert one.server.stdin is not None
        one.server.stdin.close()
    else:
        one.server.send_signal(signal.Signals[end])
    until(lambda: not any(alive(pid) for pid in pids))
    if end == "cancel":
        one.ask(2, "ping", {})
        assert one.answer() == {"jsonrpc": "2.0", "id": 2, "result": {}}
    else:
        assert one.server.wait(20) == (0 if end == "closed" else 128 + signal.Signals[end])


def alive(pid: int) -> bool:
    try:
        about = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return about.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def test_a_client_that_takes_no_answers(client: Callable[..., Client], tmp_path: Path) -> None:
    """Its end of the pipe is closed, or full: the server ends when it is told to."""
    one = client(
        "from turnbuckle.cli import agents_server; agents_server._GRACE = 0.5",
        "head -c 2000000 /dev/zero | tr '\\0' 1",
    )
    one.call(1)
    time.sleep(1)
    assert one.server.stdin is not None
    one.server.stdin.close()
    assert one.server.wait(20) == 0
    other = client("0", "echo '{}'")
    assert other.server.stdout is not None
    os.close(os.dup(other.server.stdout.fileno()))
    other.server.stdout.close()
    other.call(1)
    assert other.server.wait(20) == 0
