"""Names of parameters as a type, against the schema that they stand in."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from turnbuckle.machine import schema
from turnbuckle.machine.parameter_names import (
    HOST_WAYS,
    PARAMETER_NAMES,
    LinkTerm,
    LinkWay,
    found_parameter,
    link_parameter,
    observed_parameter,
    parameter_name,
)


def test_the_type_has_the_names_of_the_schema_in_its_order() -> None:
    assert tuple(schema()) == PARAMETER_NAMES


def test_every_composed_name_exists() -> None:
    for way, term in product(get_args(LinkWay), get_args(LinkTerm)):
        assert link_parameter(way, term) == f"link.{way}.{term}"
    of_host = tuple(f"observed.{way}." for way in HOST_WAYS)
    memories = {name.split(".")[2] for name in PARAMETER_NAMES if name.startswith(of_host)}
    made = [
        observed_parameter(way, memory, term)
        for way in HOST_WAYS
        for memory in memories
        for term in ("bandwidth", "latency")
    ]  # type: ignore[arg-type]
    assert sorted(made) == sorted(name for name in PARAMETER_NAMES if name.startswith(of_host))


def test_text_from_outside_is_checked() -> None:
    assert parameter_name("gpu.fp64") == "gpu.fp64" and found_parameter("gpu.fp65") is None
    with pytest.raises(KeyError, match=r"gpu\.fp65: did you mean gpu\.fp64"):
        parameter_name("gpu.fp65")
