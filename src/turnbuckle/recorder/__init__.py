"""Programs for the machine with the GPU: the recorders, their build, and the measuring of the device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ADDS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "questions": {
        "record": (
            "turnbuckle.recorder.command:record",
            "Run a GPU program and record it: calls, kernels, copies, waits, events, graphs, memory, NVTX ranges.",
        ),
    },
    "services": {"measure": ("turnbuckle.recorder.measuring:measure",)},
}
