"""Progress is drawn on a terminal only, and only if there is something to wait for."""

from __future__ import annotations

import io
import sys
import time

import pytest

from turnbuckle.show.terminal.progress import working


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, patience: float, seconds: float
) -> str:
    """What is on the stream once something is, or after so many seconds of work."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr("turnbuckle.show.terminal.progress.PATIENCE", patience)
    end = time.monotonic() + seconds
    with working("replaying"):
        while "replaying" not in stream.getvalue() and time.monotonic() < end:
            time.sleep(0.01)
    return stream.getvalue()


def test_what_is_soon_done_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert drawn(monkeypatch, Tty(), patience=600.0, seconds=0.0) == ""


def test_what_takes_longer_says_so_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "replaying" in drawn(monkeypatch, Tty(), patience=0.05, seconds=60.0)
    assert drawn(monkeypatch, io.StringIO(), patience=0.05, seconds=0.3) == ""


def test_an_error_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Tty())
    with pytest.raises(ValueError, match="no"), working("replaying"):
        raise ValueError("no")
