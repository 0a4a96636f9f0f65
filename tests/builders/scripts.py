"""Programs that stand beside the package (``docs``, ``validation``) as modules."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


@cache
def script(path: str) -> ModuleType:
    """Return the program at `path`, from the root of the project, as a module named after all of
    its path.
    """
    spec = importlib.util.spec_from_file_location(
        path.removesuffix(".py").replace("/", "_"), ROOT / path
    )
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
