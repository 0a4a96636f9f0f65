"""The package's own sources as trees, parsed once a worker."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "turnbuckle"


@cache
def modules() -> tuple[Path, ...]:
    """Return every Python file of the package."""
    return tuple(sorted(p for p in PACKAGE.rglob("*.py") if "__pycache__" not in p.parts))


@cache
def parsed(path: Path) -> ast.Module:
    """Return the tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return every node of a file."""
    out: list[ast.AST] = [parsed(path)]
    for node in out:  # in half the time of `ast.walk`
        for value in (getattr(node, name, None) for name in node._fields):
            if isinstance(value, list):
                out += [child for child in value if isinstance(child, ast.AST)]
            elif isinstance(value, ast.AST):
                out.append(value)
    return tuple(out)
