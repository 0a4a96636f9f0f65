"""Fixtures every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The project's shared folder of real traces; a clone without it skips the test, the project's own CI never does."""
    folder = Path(os.environ.get("TURNBUCKLE_SHARED", ROOT.parent / "shared"))
    if not (folder / "traces" / "truth.json").exists():
        if os.environ.get("TURNBUCKLE_REQUIRE_ALL"):
            pytest.fail(f"the shared traces are required here but {folder} does not hold them")
        pytest.skip("the shared real traces are not beside this clone (set TURNBUCKLE_SHARED)")
    return folder


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests never read or write the user's own cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
