"""Names of the numbers of MPI calls in a Paraver trace: from the .pcf beside it, else Extrae's own."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from turnbuckle.trace.readers.packed_text import Text

#: Event types: calls point to point, collective, other, one-sided, of files.
CALLS: Final = frozenset(range(50000001, 50000006))
#: Extrae's own numbers, for a trace without its .pcf.
USUAL: Final = (
    "", "MPI_Send", "MPI_Recv", "MPI_Isend", "MPI_Irecv", "MPI_Wait", "MPI_Waitall", "MPI_Bcast", "MPI_Barrier", "MPI_Reduce",
    "MPI_Allreduce", "MPI_Alltoall", "MPI_Alltoallv", "MPI_Gather", "MPI_Gatherv", "MPI_Scatter", "MPI_Scatterv", "MPI_Allgather",
    "MPI_Allgatherv", "MPI_Comm_rank", "MPI_Comm_size", "MPI_Comm_create", "MPI_Comm_dup", "MPI_Comm_split", "MPI_Comm_group",
    "MPI_Comm_free", "MPI_Comm_remote_group", "MPI_Comm_remote_size", "MPI_Comm_test_inter", "MPI_Comm_compare", "MPI_Scan", "MPI_Init",
    "MPI_Finalize", "MPI_Bsend", "MPI_Ssend", "MPI_Rsend", "MPI_Ibsend", "MPI_Issend", "MPI_Irsend", "MPI_Test", "MPI_Cancel",
    "MPI_Sendrecv", "MPI_Sendrecv_replace",
)  # fmt: skip
_MOST_NAMES: Final = 1 << 16


def named(path: Path) -> dict[tuple[int, int], str] | None:
    """Names of the values of MPI's event types, from the .pcf beside the trace; None where there is none."""
    stem = path.with_suffix("") if path.suffix.lower() in (".xz", ".gz") else path
    place = stem.with_suffix(".pcf")
    if not place.is_file():
        return None
    types: list[int] = []
    values = False
    found: dict[tuple[int, int], str] = {}
    for line in Text(place):
        words = line.split(None, 2)
        if words[:1] == [b"EVENT_TYPE"]:
            types, values = [], False
        elif words[:1] == [b"VALUES"]:
            values = True
        elif not words or not words[0].isdigit():
            types, values = ([], False) if words else (types, values)
        elif not values and len(words) > 1 and words[1].isdigit() and len(words[1]) < 12:
            types.append(int(words[1]))
        elif values and len(words) > 1 and len(words[0]) < 12 and len(found) < _MOST_NAMES:
            name = b" ".join(words[1:]).decode("utf-8", "replace")[:200]
            found.update({(kind, int(words[0])): name for kind in types if kind in CALLS})
    return found
