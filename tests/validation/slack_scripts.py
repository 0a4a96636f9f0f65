"""The scripts of ``validation/slack`` as modules; ``run`` and ``compare`` under names that no other script of the project has."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "validation" / "slack"
if str(FOLDER) not in sys.path:
    sys.path.insert(0, str(FOLDER))


def _script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"slack_{name}", FOLDER / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


toolchain: Any = importlib.import_module("toolchain")
refusal: Any = importlib.import_module("refusal")
to_nsys: Any = importlib.import_module("to_nsys")
run: Any = _script("run")
compare: Any = _script("compare")
