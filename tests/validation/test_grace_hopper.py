"""The catalogue's GH200, and kernels on host memory, beside what others measured on one."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def judge() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "grace_hopper", ROOT / "validation" / "grace_hopper.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tables(shared: Path) -> Path:
    place = shared / "measured" / "grace-hopper"
    if not (place / "gemm.csv").is_file():
        pytest.skip("the tables of GH200 are not beside the shared traces")
    return place


def test_the_machine_file_holds_what_was_measured(judge: ModuleType, tables: Path) -> None:
    for held in (*judge.held_copies(tables), *judge.held_numbers(tables)):
        assert held.inside, held


@pytest.mark.parametrize("operands", [1, 2])
@pytest.mark.parametrize("precision", ["double", "float", "tf32", "half"])
def test_the_range_of_products_holds_nine_of_ten(
    judge: ModuleType, tables: Path, precision: str, operands: int
) -> None:
    held = [
        p for p in judge.held_products(tables) if p.what.startswith(f"{precision}, {operands} ")
    ]
    assert len(held) > 15 and 0.85 <= sum(p.inside for p in held) / len(held) <= 0.97


def test_no_product_is_beyond_the_most_of_its_class(judge: ModuleType, tables: Path) -> None:
    held = list(judge.held_bounds(tables))
    assert len(held) > 200 and sum(p.inside for p in held) >= 0.99 * len(held)


def test_it_is_one_command(
    judge: ModuleType,
    tables: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["grace_hopper.py", str(tables), "--each"])
    judge.main()
    out = capsys.readouterr().out
    assert "cudaMemcpy of 8 GiB" in out and "products, all" in out and "nan" not in out
