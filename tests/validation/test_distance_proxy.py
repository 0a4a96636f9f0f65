"""The proxy that makes a TCP connection longer: bytes whole and in order, never early, both ends,
and what it says when it ends.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROXY = ROOT / "validation" / "distance" / "proxy.py"
PATIENCE_S = 60.0
Serving = Callable[[socket.socket], object]


@contextlib.contextmanager
def server(serve: Serving, port: int = 0) -> Iterator[int]:
    """A port on which each connection is served by a thread."""
    door = socket.create_server(("127.0.0.1", port))

    def each(connection: socket.socket) -> None:
        with connection:
            serve(connection)

    def accept() -> None:
        while True:
            try:
                connection, _ = door.accept()
            except OSError:
                return
            threading.Thread(target=each, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield door.getsockname()[1]
    finally:
        door.shutdown(socket.SHUT_RDWR)
        door.close()


def free_ports(count: int) -> int:
    """The first of some ports in a row that nothing listens on."""
    while True:
        with contextlib.ExitStack() as doors, contextlib.suppress(OSError, OverflowError):
            first = doors.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
            for more in range(1, count):
                doors.enter_context(socket.create_server(("127.0.0.1", first + more)))
            return int(first)


def started(target: int, *options: str, port: int = 0) -> tuple[subprocess.Popen[str], int]:
    """The proxy as its user starts it, and its port."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, str(PROXY), str(port), f"127.0.0.1:{target}", *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    where = re.match(r"proxy: 127\.0\.0\.1:(\d+) to ", line)
    assert where, line + process.communicate()[1]
    return process, int(where[1])


@contextlib.contextmanager
def proxy(target: int, *options: str, port: int = 0) -> Iterator[tuple[subprocess.Popen[str], int]]:
    process, where = started(target, *options, port=port)
    try:
        yield process, where
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def taken(connection: socket.socket) -> bytes:
    """All that comes, until the other side ends its half."""
    return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def echo(connection: socket.socket) -> None:
    for piece in iter(lambda: connection.recv(1 << 16), b""):
        connection.sendall(piece)


def ended(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> str:
    """What it says when it is told to end."""
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0 and not err
    return out


def test_bytes_arrive_whole_and_in_order_both_ways() -> None:
    data = random.Random(1).randbytes(5_000_003)
    with (
        server(echo) as target,
        proxy(target, "--delay", "2ms") as (process, port),
        connected(port) as connection,
    ):
        sending = threading.Thread(
            target=lambda: (connection.sendall(data), connection.shutdown(socket.SHUT_WR))
        )
        sending.start()
        assert taken(connection) == data
        sending.join()
        out = ended(process)
    assert f"1 connections, {len(data)} B there, {len(data)} B back" in out
    assert re.search(r", \d+ pieces, late by \d+ us \(median\), \d+ us \(99 %\)$", out.strip())


@pytest.mark.parametrize(
    ("options", "least"), [(("--delay", "20ms"), 0.04), (("--bandwidth", "1MB/s"), 0.02), ((), 0.0)]
)
def test_nothing_arrives_early(options: tuple[str, ...], least: float) -> None:
    """Each way takes the delay, and 10 kB at 1 MB/s 10 ms."""
    with (
        server(echo) as target,
        proxy(target, *options) as (_, port),
        connected(port) as connection,
    ):
        for _ in range(3):
            begin, left = time.monotonic(), 10_000
            connection.sendall(bytes(left))
            while left:
                left -= len(connection.recv(left))
            assert time.monotonic() - begin >= least


def test_a_half_that_ends_leaves_the_other_open() -> None:
    """The server answers only once the client has said all."""
    serve = server(lambda connection: connection.sendall(b"got " + taken(connection)))
    with serve as target, proxy(target) as (_, port), connected(port) as connection:
        connection.sendall(b"all")
        connection.shutdown(socket.SHUT_WR)
        assert taken(connection) == b"got all"


def test_a_client_that_goes_away_ends_its_own_connection_only() -> None:
    gone, endless = threading.Event(), bytes(1 << 16)

    def serve(connection: socket.socket) -> None:
        if connection.recv(1) == b"e":
            echo(connection)
            return
        try:
            while True:
                connection.sendall(endless)
        except OSError:
            gone.set()

    with server(serve) as target, proxy(target, "--delay", "1ms") as (process, port):
        with connected(port) as other:
            other.sendall(b"e")
            leaving = connected(port)
            leaving.sendall(b"s")
            leaving.recv(10)
            leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            leaving.close()
            assert gone.wait(PATIENCE_S), "the server was never told"
            other.sendall(b"still there")
            assert other.recv(100) == b"still there"
        assert "2 connections" in ended(process, signal.SIGINT)


def test_a_sender_waits_where_nobody_reads() -> None:
    """What is under way is bounded, so that a sender of more than that is held up."""
    reading, sent = threading.Event(), []
    whole = 120 << 20

    def serve(connection: socket.socket) -> None:
        reading.wait(PATIENCE_S)
        left = whole
        while left:
            left -= len(connection.recv(1 << 20))
        connection.sendall(b"all")

    with server(serve) as target, proxy(target) as (_, port), connected(port) as connection:

        def send() -> None:
            for _ in range(whole >> 20):
                connection.sendall(bytes(1 << 20))
                sent.append(1)

        sending = threading.Thread(target=send)
        sending.start()
        sending.join(1.0)
        assert sending.is_alive() and len(sent) < whole >> 20
        reading.set()
        assert connection.recv(3) == b"all"
        sending.join()


def test_ports_one_after_the_other() -> None:
    """Two ports in a row go to two in a row."""
    first = free_ports(2)
    with (
        server(lambda connection: connection.sendall(b"first"), first),
        server(lambda connection: connection.sendall(b"second"), first + 1),
        proxy(first, "--ports", "2", port=free_ports(2)) as (_, port),
    ):
        for k, answer in enumerate((b"first", b"second")):
            with connected(port + k) as connection:
                assert taken(connection) == answer


def test_a_target_that_does_not_answer_ends_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        target = door.getsockname()[1]
    with proxy(target) as (process, port), connected(port):
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1 and "0 connections" in out
    assert (
        f"127.0.0.1:{target} does not answer" in err and "refused" in err and "Traceback" not in err
    )


def test_a_port_that_is_taken_and_options_that_are_none() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(PROXY), *options],
            capture_output=True,
            text=True,
            env=environment,
            timeout=PATIENCE_S,
        )

    with socket.create_server(("127.0.0.1", 0)) as door:
        taken_port = str(door.getsockname()[1])
        answer = run(taken_port, "127.0.0.1:1")
        assert (
            answer.returncode == 1 and f"cannot listen on 127.0.0.1:{taken_port}" in answer.stderr
        )
    assert run("0", "nowhere").returncode == 2
    answer = run("0", "127.0.0.1:1", "--delay", "100")
    assert answer.returncode == 2 and "unit" in answer.stderr and "Traceback" not in answer.stderr
