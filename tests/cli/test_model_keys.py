"""Every key that these models print as JSON stands on their page or in a table of keys."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_names import SAMPLE, Ran

from turnbuckle.foundation.fields import table

Run = Callable[..., Ran]
PAGES = Path(__file__).parents[2] / "docs" / "models"
ROOMS = {
    "ssi.md": "papers.models.ssi",
    "sharing.md": "questions.sharing",
    "limppy.md": "mpi.questions.network",
}
ASKED = [
    ("ssi.md", ("ssi", SAMPLE, "--link", "pcie4-x16")),
    ("sharing.md", ("sharing", SAMPLE, "--form", "all", "--runs", "1,2", "--differences")),
    (
        "sharing.md",
        (
            "sharing",
            SAMPLE,
            "--form",
            "all",
            "--runs",
            "1,3",
            "--latency",
            "10us,100us,1ms",
            "--bandwidth",
            "16GB/s",
        ),
    ),
    ("limppy.md", ("network", "--pattern", "shift:4x1")),
]


def keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inside in value.items():
            # the protocol and the loop hold their parameters under the names of Python
            if key not in ("provenance", "protocol", "loop"):
                yield key
                yield from keys(inside)
    elif isinstance(value, list):
        for inside in value:
            yield from keys(inside)


@pytest.mark.parametrize(
    ("page", "asked"), ASKED, ids=[f"{page}-{k}" for k, (page, _) in enumerate(ASKED)]
)
def test_every_key_is_documented(turnbuckle: Run, page: str, asked: tuple[object, ...]) -> None:
    ran = turnbuckle("model", *asked, "--format", "json")
    assert ran.code == 0, ran.err
    text = (PAGES / page).read_text(encoding="utf-8")
    text = text[text.index("## JSON") : text.index("## Assumptions")]
    declared = {
        re.sub(r"[\[\]?]", "", name)
        for row in table(f"turnbuckle.{ROOMS[page]}")
        for name in row.key.split(".")
    }
    assert not [
        key
        for key in sorted(set(keys(json.loads(ran.out))))
        if f"`{key}`" not in text and key not in declared
    ]
