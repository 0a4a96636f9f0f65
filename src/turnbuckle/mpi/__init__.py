"""Product for messages of MPI programs: their readers, their replay, networks, and questions.  The core does not depend on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ADDS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "readers": {
        "dumpi": ("turnbuckle.mpi.readers.dumpi.reader",),
        "paraver": ("turnbuckle.mpi.readers.paraver.reader",),
        "paje": ("turnbuckle.mpi.readers.paje.reader",),
        "pmpi": ("turnbuckle.mpi.readers.pmpi",),
    },
    "questions": {
        "model messages": (
            "turnbuckle.mpi.questions.messages.command:messages",
            "Replay the messages of a recorded MPI run between GPUs: through host memory and by GPUDirect, for several node shapes.",
        ),
        "model fabric": (
            "turnbuckle.mpi.questions.fabric.command:fabric",
            "Show a machine as a network: parts, wires with their sources, routes between parts, shared wires, bisection.",
        ),
        "model network": (
            "turnbuckle.mpi.questions.network.command:network",
            "Replay the messages of an MPI run, or a graph of messages, on several topologies: run time and load of links on each.",
        ),
    },
    "untimed": {"schedule": ("turnbuckle.mpi.questions.schedule.tables",)},
    "services": {"files of a schedule": ("turnbuckle.mpi.schedules:files_of",)},
    "asks": {"messages": ("turnbuckle.mpi.questions.messages.question:of_run",)},
    "terminal": {"messages": ("turnbuckle.mpi.questions.messages.command:show",)},
    "figures": {"messages": ("turnbuckle.mpi.questions.messages.figures:of_answer",)},
    "sweeps": {"messages": ("turnbuckle.mpi.questions.messages.exchanged:MESSAGES",)},
    "predictions": {"message delay": ("turnbuckle.mpi.questions.delay.question:delayed_messages",)},
}
