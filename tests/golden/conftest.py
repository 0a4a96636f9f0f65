"""Inputs of the golden questions, unpacked once a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import drawings
import golden_net as net
import pytest
import runs


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the questions that take long."""
    for item in items:
        question = getattr(item, "callspec", None) and item.callspec.params.get("question")  # type: ignore[attr-defined]
        if question and net.SLOW.search(question):
            item.add_marker("slow")


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of inputs."""
    return net.unpacked(tmp_path_factory.mktemp("golden") / "inputs")


@pytest.fixture(scope="module", autouse=True)
def _read_once() -> Iterator[None]:
    """Questions of one recording ask one `Run`, which holds what they need alike: its profile,
    graph and fits.

    Of figures the answers hold the data.
    """
    with runs.read_once(), drawings.each_kind_once():
        yield


@pytest.fixture
def hold(inputs: Path, tmp_path: Path) -> Callable[[str], None]:
    """Ask a question, and fail where its answer is not the kept one."""
    return lambda question: net.hold(question, net.ask(question, inputs, tmp_path / "asked"))
