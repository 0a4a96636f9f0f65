"""The demonstration of a sweep on a cluster, with a thread pool in the cluster's place: Dask is not
needed here.
"""

from __future__ import annotations

import sys
import types
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import pytest
from scripts import script


class Cluster:
    """As `distributed.LocalCluster` and its `Client`."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.pool = ThreadPoolExecutor(2)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown()

    def wait_for_workers(self, count: int, timeout: float) -> None:
        assert (count, timeout) == (2, 120)

    def get_executor(self) -> Executor:
        return self.pool


def test_stopped_gone_on_and_the_same_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    distributed = types.ModuleType("distributed")
    distributed.__dict__.update(LocalCluster=Cluster, Client=Cluster)
    monkeypatch.setitem(sys.modules, "distributed", distributed)
    assert script("validation/cluster/run.py").main(["local", "--latencies", "2"]) == 0
    said = capsys.readouterr().out
    assert "interrupted half-way" in said and "the same table to the byte: True" in said
