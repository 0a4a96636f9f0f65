"""The picture of kernel ratios is what the program says now."""

from __future__ import annotations

import importlib.util
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "kernel_ratio.py"


def test_the_picture_is_current() -> None:
    spec = importlib.util.spec_from_file_location("manual_kernel_ratio", PAGE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PICTURE.read_text(encoding="utf-8") == module.picture(), "run: python docs/kernel_ratio.py"
