"""The kind of sweep that replays the messages of an MPI run: one `turnbuckle.study.setup.Setup` a point."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from turnbuckle.errors import UsageError
from turnbuckle.replay.mpi import recorded
from turnbuckle.study.messages import replayed
from turnbuckle.study.points import Held, Kind, hashed
from turnbuckle.study.setup import Setup


def _exchanged(held: Held, asked: Setup) -> Mapping[str, Any]:
    traffic = held.once("traffic", lambda: recorded(held.profile))
    row = replayed(traffic, asked).row
    if row.stuck:
        raise UsageError("A071", "processes wait for each other", found=row.stuck)
    return {name: value for name, value in row.__dict__.items() if name != "stuck"}


def _placement(asked: Setup) -> Mapping[str, Any]:
    """Hash of the file that places ranks, where there is one."""
    file = Path(asked.mapping)
    return {"mapping": hashed(file)} if file.suffix and file.is_file() else {}


MESSAGES: Final = Kind("messages", Setup, _exchanged, inputs=_placement)
