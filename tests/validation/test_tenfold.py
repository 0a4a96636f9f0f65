"""The table of the tenfold on the shared recordings: committed as `validation/tenfold.py` writes
it, and shown by its page.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "validation"))
import tenfold  # noqa: E402  # a script beside the package

#: A Jacobi solver and CloverLeaf, on which the issue of three answers came up, and a recording of
#: PyTorch.
SOME = ("nsys/jacobi_gh200", "nsys/cloverleaf_a100_perlmutter", "kineto/mi210_gpu_only")


def test_the_page_shows_what_is_committed() -> None:
    text = tenfold.PAGE.read_text(encoding="utf-8")
    assert tenfold.page(text) == text, "run: python validation/tenfold.py --page"
    names = [row["recording"] for row in tenfold.committed()]
    assert len(names) == len(set(names)) > 40 and set(SOME) <= set(names)


def test_waits_that_are_derived_leave_less_to_gain() -> None:
    for row in tenfold.committed():
        assert (
            float(row["gain replay"]) <= float(row["gain as the report"]) * 1.001
            and float(row["penalty replay"]) <= 10
        )


@pytest.mark.parametrize("name", SOME)
def test_the_committed_numbers_are_those_of_the_recordings(shared: Path, name: str) -> None:
    (path,) = [path for path in tenfold.recordings(shared) if tenfold.named(path, shared) == name]
    (kept,) = [row for row in tenfold.committed() if row["recording"] == name]
    now = tenfold.row(path, shared)
    assert now is not None and set(now) == set(kept)
    for key in tenfold.COLUMNS[1:]:
        assert float(now[key]) == pytest.approx(float(kept[key]), rel=1e-4), key
