"""The picture of kernel ratios is what the program says now."""

from __future__ import annotations

from scripts import script


def test_the_picture_is_current() -> None:
    module = script("docs/kernel_ratio.py")
    assert module.PICTURE.read_text(encoding="utf-8") == module.picture(), (
        "run: python docs/kernel_ratio.py"
    )
