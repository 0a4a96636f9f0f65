"""Which parameters a time of kernels on another GPU needs, by what it rests on:
``foundation/schema/needs.csv``.

A parameter is *required* on both machines, or *one of* several must be there, or it *refines* what
stands without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal, cast, get_args

from turnbuckle.foundation.schema import table_rows
from turnbuckle.machine.machine import Machine
from turnbuckle.machine.parameter_names import ParameterName, parameter_name

Basis = Literal["class", "launch geometry", "range of rates", "roofline"]
Necessity = Literal["required", "one of", "refines"]


@dataclass(frozen=True, slots=True)
class Need:
    """One row of the table.

    Attributes
    ----------
    basis : what the time of kernels rests on.
    parameters : what of a machine it takes.
    need : whether each is required, one is, or all only refine.
    use : what for.
    """

    basis: Basis
    parameters: tuple[ParameterName, ...]
    need: Necessity
    use: str


@cache
def needs() -> tuple[Need, ...]:
    """Return the table in the order of the manual.

    Raises
    ------
    ValueError : a basis or a necessity that is none.
    """
    out = []
    for row in table_rows("foundation/schema/needs.csv"):
        if row["basis"] not in get_args(Basis) or row["need"] not in get_args(Necessity):
            raise ValueError(f"needs.csv: {row}")
        names = tuple(parameter_name(name) for name in row["parameters"].split())
        out.append(Need(cast(Basis, row["basis"]), names, cast(Necessity, row["need"]), row["use"]))
    return tuple(out)


def lacking(machine: Machine, basis: Basis) -> tuple[ParameterName, ...]:
    """Return the parameters whose absence keeps the time of kernels on this machine from resting on
    `basis`; empty where nothing is absent.

    These are the required ones that the machine lacks.  Of a group of which one is enough, all are
    returned where the machine has none.
    """
    out: list[ParameterName] = []
    for row in needs():
        absent = [name for name in row.parameters if name not in machine.parameters]
        if row.basis == basis and (
            row.need == "required" or (row.need == "one of" and len(absent) == len(row.parameters))
        ):
            out += absent
    return tuple(dict.fromkeys(out))
