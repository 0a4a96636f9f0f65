"""A sweep on a real cluster: `pytest -m cluster`, with ``turnbuckle[cluster]`` and, for the second,
a Slurm queue.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "validation" / "cluster" / "run.py"


@pytest.mark.cluster
@pytest.mark.parametrize("where", ["local", "slurm"])
def test_stopped_gone_on_and_the_same_table_on_a_real_cluster(where: str) -> None:
    """`TURNBUCKLE_SLURM` holds options for the queue, for example ``--queue debug --interface
    lo``.
    """
    options = os.environ.get("TURNBUCKLE_SLURM", "").split() if where == "slurm" else []
    ran = subprocess.run(
        [sys.executable, SCRIPT, where, "--latencies", "4", *options],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert "interrupted half-way" in ran.stdout and "the same table to the byte: True" in ran.stdout
