"""Progress is drawn on a terminal only, and only if there is something to wait for."""

from __future__ import annotations

import io
import sys
import time

import pytest

from turnbuckle.cli.progress import PATIENCE, working


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, seconds: float) -> str:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream)
    with working("replaying"):
        time.sleep(seconds)
    return stream.getvalue()


def test_what_is_soon_done_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert drawn(monkeypatch, Tty(), 0.0) == ""


def test_what_takes_longer_says_so_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "replaying" in drawn(monkeypatch, Tty(), PATIENCE * 1.6)
    assert drawn(monkeypatch, io.StringIO(), PATIENCE * 1.2) == ""


def test_an_error_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Tty())
    with pytest.raises(ValueError, match="no"), working("replaying"):
        raise ValueError("no")
