"""Inputs of the golden questions, unpacked once a worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import golden_net as net
import pytest


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of inputs."""
    return net.unpacked(tmp_path_factory.mktemp("golden") / "inputs")


@pytest.fixture
def hold(inputs: Path, tmp_path: Path) -> Callable[[str], None]:
    """Ask a question, and fail where its answer is not the kept one."""
    return lambda question: net.hold(question, net.ask(question, inputs, tmp_path / "asked"))
