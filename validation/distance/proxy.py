"""A TCP connection made longer: every byte arrives a delay later, each way.  Standard library only,
but for the units.

    python proxy.py 7777 server:7777 --delay 100us [--bandwidth 1GB/s] [--ports 3] [--listen 127.0.0.1]

Listens on a port and forwards each connection to HOST:PORT; with `--ports 3` also the next two
ports to the next two.  What arrives is kept with the time at which it is to go on, so that a delay
costs no throughput; `--bandwidth` takes as long for each byte besides.  A side that ends its half
of a connection ends it a delay later on the other side.  Ends by SIGINT or SIGTERM, and then says
how exact it was: how much later than due the pieces were handed on.  Ends with code 1 where a port
is taken or the target does not answer.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import selectors
import signal
import socket
import sys
import threading
import time
from collections import deque

from turnbuckle.foundation.errors import UnitError
from turnbuckle.foundation.units import parse

PIECE = 256 << 10
#: What is under way in one direction at most [B]; beyond it nothing is read, so that the sender
#: waits.
MOST = 64 << 20
#: Pieces of which the lateness is kept.
COUNTED = 1_000_000
PR_SET_TIMERSLACK = 29


class Way:
    """One direction of a connection: a thread that takes pieces in, one that hands each on when it
    is due.
    """

    def __init__(
        self,
        source: socket.socket,
        target: socket.socket,
        delay_ns: int,
        bandwidth: float,
        late: deque[int],
    ) -> None:
        self.source, self.target, self.delay_ns, self.bandwidth, self.late = (
            source,
            target,
            delay_ns,
            bandwidth,
            late,
        )
        self.pieces: deque[tuple[int, bytes]] = deque()
        self.held = self.bytes = 0
        self.changed = threading.Condition()
        self.threads = [threading.Thread(target=run, daemon=True) for run in (self.take, self.hand)]

    def take(self) -> None:
        """Put what arrives into the queue, with the time at which it is due; an empty piece is the
        end.
        """
        free, piece = 0, b"-"
        # A socket that is shut down still gives what its peer goes on sending, which would never
        # end.
        while piece and self.held >= 0:
            with self.changed:
                self.changed.wait_for(lambda: self.held < MOST)
            try:
                piece = self.source.recv(PIECE)
            except OSError:
                piece = b""
            now = time.monotonic_ns()
            free = (
                max(free, now) + int(len(piece) / self.bandwidth * 1e9) if self.bandwidth else now
            )
            with self.changed:
                self.pieces.append((free + self.delay_ns, piece))
                self.held += len(piece)
                self.changed.notify_all()

    def hand(self) -> None:
        """Hand each piece on when it is due.  Where the other side is gone, what it would have sent
        is not waited for either.
        """
        try:
            while True:
                with self.changed:
                    self.changed.wait_for(lambda: self.pieces)
                    due, piece = self.pieces.popleft()
                while (left := due - time.monotonic_ns()) > 0:
                    time.sleep(left / 1e9)
                if not piece:
                    self.target.shutdown(socket.SHUT_WR)
                    return
                self.late.append(time.monotonic_ns() - due)
                self.target.sendall(piece)
                self.bytes += len(piece)
                with self.changed:
                    self.held -= len(piece)
                    self.changed.notify_all()
        except OSError:
            for end in (self.source, self.target):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            with self.changed:
                self.held = -(1 << 62)  # whoever takes is let go, and finds the connection ended
                self.changed.notify_all()


class Proxy:
    """Connections from some ports to those of a target."""

    def __init__(
        self,
        listen: tuple[str, int],
        target: tuple[str, int],
        ports: int,
        delay_ns: int,
        bandwidth: float,
    ) -> None:
        self.target, self.delay_ns, self.bandwidth = target, delay_ns, bandwidth
        self.late: deque[int] = deque(maxlen=COUNTED)
        self.ways: list[list[Way]] = []
        self.doors = selectors.DefaultSelector()
        for more in range(ports):
            try:
                door = socket.create_server((listen[0], listen[1] + more), backlog=64)
            except (OSError, OverflowError) as error:
                raise SystemExit(
                    f"proxy: cannot listen on {listen[0]}:{listen[1] + more}: {error}"
                ) from error
            self.doors.register(door, selectors.EVENT_READ, more)
            print(
                (
                    f"proxy: {':'.join(map(str, door.getsockname()[:2]))} to "
                    f"{target[0]}:{target[1] + more}"
                ),
                flush=True,
            )

    def run(self) -> None:
        """Serve until a signal comes."""
        while True:
            for key, _ in self.doors.select():
                near, _ = key.fileobj.accept()  # type: ignore[union-attr]
                place = (self.target[0], self.target[1] + key.data)
                try:
                    far = socket.create_connection(place)
                except (OSError, OverflowError) as error:
                    raise SystemExit(
                        f"proxy: {place[0]}:{place[1]} does not answer: {error}"
                    ) from error
                threading.Thread(target=self.connection, args=(near, far), daemon=True).start()

    def connection(self, near: socket.socket, far: socket.socket) -> None:
        """Serve one connection, until both sides have ended it."""
        with near, far:
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ways = [
                Way(a, b, self.delay_ns, self.bandwidth, self.late)
                for a, b in ((near, far), (far, near))
            ]
            self.ways.append(ways)
            threads = [thread for way in ways for thread in way.threads]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def summary(self) -> str:
        """What was forwarded, and how exact."""
        late = sorted(self.late.copy())
        there, back = (sum(ways[k].bytes for ways in self.ways) for k in (0, 1))
        exact = (
            (
                f", late by {late[len(late) // 2] / 1e3:.0f} us (median), "
                f"{late[len(late) * 99 // 100] / 1e3:.0f} us (99 %)"
            )
            if late
            else ""
        )
        return (
            f"proxy: {len(self.ways)} connections, {there} B there, {back} B back, {len(late)} "
            f"pieces{exact}"
        )


def main() -> None:
    """Forward as asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("port", type=int, help="where to listen; 0 for any free port")
    parser.add_argument("target", help="HOST:PORT")
    parser.add_argument("--delay", default="0s", help="each way, as 100us")
    parser.add_argument(
        "--bandwidth", default="", help="each way, as 1GB/s; without limit if left out"
    )
    parser.add_argument("--ports", type=int, default=1, help="so many ports, one after the other")
    parser.add_argument("--listen", default="127.0.0.1", help="address to listen on")
    asked = parser.parse_args()
    host, _, port = asked.target.rpartition(":")
    if not host or not port.isdecimal():
        parser.error(f"the target is HOST:PORT, not {asked.target}")
    try:
        delay, bandwidth = (
            parse(asked.delay, "s"),
            parse(asked.bandwidth, "B/s") if asked.bandwidth else 0.0,
        )
    except UnitError as error:
        parser.error(str(error))
    # a sleep may end late by the timer slack, 50 us where nobody says less, and by what another
    # thread computes
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    sys.setswitchinterval(50e-6)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))
    proxy = Proxy(
        (asked.listen, asked.port), (host, int(port)), asked.ports, round(delay * 1e9), bandwidth
    )
    try:
        proxy.run()
    finally:
        print(proxy.summary(), flush=True)


if __name__ == "__main__":
    main()
