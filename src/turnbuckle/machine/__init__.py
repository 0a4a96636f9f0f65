"""Machines, their catalogue, and the pair of source and target of a projection."""

from __future__ import annotations

from .catalog import all_machines, load, names
from .machine import (
    SOURCE,
    Change,
    Coupling,
    Fact,
    InstructionSet,
    Machine,
    Nature,
    Pair,
    Parameter,
    schema,
)
from .parameter_names import ParameterName
from .recognition.device_names import device_words
from .recognition.recognise import Device, Recognised, fastest_link, machine_of, recognise

__all__ = [
    "SOURCE",
    "Change",
    "Coupling",
    "Device",
    "Fact",
    "InstructionSet",
    "Machine",
    "Nature",
    "Pair",
    "Parameter",
    "ParameterName",
    "Recognised",
    "all_machines",
    "device_words",
    "fastest_link",
    "load",
    "machine_of",
    "names",
    "recognise",
    "schema",
]
