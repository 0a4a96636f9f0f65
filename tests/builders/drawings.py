"""Figures of which each kind is drawn once."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any
from unittest import mock

from turnbuckle import _native

#: Keys of a specification whose words decide how it is drawn.
DECIDING = ("aggregate", "field", "mark", "resolve", "transform", "type")
#: Kinds that were drawn by this worker, and a drawing of each.
_DRAWN: dict[str, str] = {}


@contextlib.contextmanager
def each_kind_once() -> Iterator[None]:
    """Draw one figure of each kind, and let it stand for the others: for tests that ask whether
    figures are drawn and look at none.

    Figures are of one kind where their specifications have the same keys, the same types of values,
    and the same words under `DECIDING`.
    """
    run_script = _native.run_script

    def run(scripts: list[str], function: str, documents: list[str], memory: int) -> list[str]:
        kinds = [json.dumps(_kind(json.loads(document))) for document in documents]
        new = {
            kind: document
            for kind, document in zip(kinds, documents, strict=True)
            if kind not in _DRAWN
        }
        if new:
            _DRAWN.update(
                zip(new, run_script(scripts, function, [*new.values()], memory=memory), strict=True)
            )
        return [_DRAWN[kind] for kind in kinds]

    with mock.patch.object(_native, "run_script", run):
        yield


def _kind(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {k: _kind(v, k) for k, v in sorted(value.items())}
    if isinstance(value, list):
        return sorted({json.dumps(_kind(v, key)) for v in value})
    return value if key in DECIDING else type(value).__name__
