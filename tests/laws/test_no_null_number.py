"""No answer holds a null, NaN or infinity that its keys do not declare: of every verb that
projects, on every sample.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_names import SAMPLE, Ran

from turnbuckle.foundation import fields

SAMPLES = (
    "dgemm-like-synthetic.sqlite",
    "milc-like-synthetic.sqlite",
    "jacobi-opencl-pocl.trace.csv",
)
VERBS = {
    "inspect": (),
    "project": ("--on", "gh200,cdi-row-link,mi300a,self", "--draws", "20"),
    "slack": ("--draws", "0"),
    "slack --over bandwidth": ("--draws", "0"),
    "transfers": (),
    "whatif": (),
    "model sharing": ("--runs", "2"),
    "model functions": (),
    "suite": (),
}
PACKAGE = Path(fields.__file__).parents[1]


def declared() -> set[str]:
    """Return the last names of the keys that may be null as their meaning says."""
    rows = [
        row
        for path in PACKAGE.rglob("fields.csv")
        for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    ]
    above = {
        _last(found[1])
        for row in rows
        if (found := re.search(r"all of `([\w.]+)` is `null`", row["meaning"]))
    }
    return above | {
        _last(key) for row in rows if "`null`" in row["meaning"] for key in _each(row["key"])
    }


def _each(key: str) -> list[str]:
    """Return the keys that ``{a,b}`` names."""
    found = re.search(r"\{([^}]*)\}$", key)
    return [key[: found.start()] + word for word in found[1].split(",")] if found else [key]


def _last(path: str) -> str:
    return re.sub(r"[\[\]?]", "", path.rsplit(".", 1)[-1])


def nulls(value: Any, path: str = "") -> Iterator[str]:
    """Yield the place of each null of a document, with ``<share>`` for keys that are data."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from nulls(inner, f"{path}.{'<share>' if key.endswith('%') else key}")
    elif isinstance(value, list):
        for inner in value:
            yield from nulls(inner, f"{path}[]")
    elif value is None:
        yield path


def without_unanswered(value: Any) -> Any:
    """Return a document without the numbers that it says it cannot give: what the coupling alone
    changes stays.
    """
    if isinstance(value, list | tuple):
        return [without_unanswered(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("cannot_say") and "coupling_alone" in value:
        assert {f["code"] for f in value["findings"]} & {"M114", "A394"}, value["cannot_say"]
        value = {"coupling_alone": value["coupling_alone"]}
    return {key: without_unanswered(inner) for key, inner in value.items()}


def nan(value: Any) -> bool:
    """Return whether a document holds a number that is none."""
    if isinstance(value, dict):
        return any(map(nan, value.values()))
    if isinstance(value, list | tuple):
        return any(map(nan, value))
    return isinstance(value, float) and math.isnan(value)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", SAMPLES)
def test_each_null_is_declared(
    name: str, verb: str, turnbuckle: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Any] = []
    finite = fields.finite

    def noted(value: Any) -> Any:
        # the document: it asks again for each value in it
        if isinstance(value, dict) and "schema_version" in value:
            written.append(value)
        return finite(value)

    monkeypatch.setattr(fields, "finite", noted)
    words = [word for word in verb.split() if not word.startswith("--")]
    options = verb.split()[1:] if "--" in verb else []
    ran = turnbuckle(
        *(words[:1] if options else words),
        SAMPLE.with_name(name),
        *options,
        *VERBS[verb],
        "--format",
        "json",
    )
    assert ran.code == 0, ran.err
    document = json.loads(ran.out)
    provenance = document.pop("provenance")
    assert provenance["command"]
    assert {
        path for path in nulls(without_unanswered(document)) if _last(path) not in declared()
    } == set()
    assert not any(nan(without_unanswered(each)) for each in written), "NaN was written as null"


def test_the_law_finds_a_null_that_nobody_declares() -> None:
    assert "penalty" not in declared()
    assert list(nulls({"projections": [{"penalty": None, "change": {"copy": 0.0}}]})) == [
        ".projections[].penalty"
    ]
    assert nan([{"a": (1.0, math.nan)}]) and not nan([{"a": (1.0, math.inf)}])
