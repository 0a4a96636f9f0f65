"""Would GPUDirect help?  A recorded MPI run with its messages taken three ways, for several node shapes.

Every message between ranks is taken to carry a buffer in device memory: through host memory with copies (``hostcopy``), straight
from the device (``gpudirect``), or at no cost besides the network (``host``, as recorded).  Compute stays as recorded; one rank
drives one GPU; ranks of a node share its network card (Khetawat et al., GPUDirect in TraceR-CODES).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from turnbuckle.cost.gpudirect import PHYSICS, Paths, break_even_bytes
from turnbuckle.errors import UsageError
from turnbuckle.profile.profile import Profile
from turnbuckle.replay.collectives import Selection
from turnbuckle.replay.contention import Fidelity, Network, replay
from turnbuckle.replay.mpi import EAGER_LIMIT, Charges, Traffic, program, recorded
from turnbuckle.study.study import SCHEMA_VERSION

Path = Literal["host", "hostcopy", "gpudirect"]
#: Ranks a node that can be asked for.
MOST_RANKS: Final = 1_000_000
PATHS: Final[tuple[Path, ...]] = ("host", "hostcopy", "gpudirect")


def charges(path: Path, paths: Paths) -> Charges:
    """What a path costs a message: copies, the odd one at the sender; or pinning, and both ends must be ready."""
    if path == "hostcopy":
        first, second = math.ceil(paths.copies / 2), math.floor(paths.copies / 2)
        sender, receiver = ((n * paths.copy_latency, n * paths.copy_per_byte) for n in (first, second))
        return Charges(sender, receiver)
    return Charges((paths.pins * paths.pin_seconds, 0.0), ready=True) if path == "gpudirect" else Charges()


@dataclass(frozen=True)
class Row:
    """One replay.

    Attributes
    ----------
    ranks_per_node, nodes : the shape.
    path : of the messages.
    seconds : run time [s].
    communication_seconds : mean over the ranks (threads that call MPI) of all that is not compute [s].
    card_bytes : through the busiest card, one way (flow) [B].
    stuck : the circle of ranks that wait for each other, where sends relied on buffers that this path does not have; then all is nan.
    """

    ranks_per_node: int
    nodes: int
    path: Path
    seconds: float
    communication_seconds: float
    card_bytes: float
    stuck: str = ""


@dataclass(frozen=True)
class Answered:
    """All replays of one recording, and what they rest on."""

    traffic: Traffic
    network: Network
    fidelity: Fidelity
    charged: Paths
    selection: Selection
    eager_limit: float
    rows: tuple[Row, ...]

    def row(self, ranks_per_node: int, path: Path) -> Row:
        """One replay."""
        return next(r for r in self.rows if (r.ranks_per_node, r.path) == (ranks_per_node, path))

    def gain(self, ranks_per_node: int) -> float:
        """Communication by host copies over communication by GPUDirect, less 1."""
        host, direct = (self.row(ranks_per_node, p).communication_seconds for p in ("hostcopy", "gpudirect"))
        return host / direct - 1.0 if direct != 0 else 0.0

    def run_gain(self, ranks_per_node: int) -> float:
        """The same of the run time."""
        host, direct = (self.row(ranks_per_node, p).seconds for p in ("hostcopy", "gpudirect"))
        return host / direct - 1.0 if direct != 0 else 0.0

    def as_dict(self) -> dict[str, Any]:
        """The JSON contract of ``model messages``."""
        shapes = list(dict.fromkeys(r.ranks_per_node for r in self.rows))
        return {
            "schema_version": SCHEMA_VERSION,
            "recorded_seconds": self.traffic.seconds,
            "ranks": self.traffic.ranks,
            "messages": len(self.traffic.messages.send),
            "collectives": int(sum(len(r.block_bytes) for r in self.traffic.rounds)),
            "unmatched": self.traffic.unmatched,
            "fidelity": self.fidelity,
            "selection": self.selection,
            "eager_limit_bytes": self.eager_limit,
            "break_even_bytes": break_even_bytes(self.charged),
            "paths": {
                "copies": self.charged.copies, "pins": self.charged.pins, "copy_latency_s": self.charged.copy_latency,
                "copy_s_per_byte": self.charged.copy_per_byte, "pin_seconds": self.charged.pin_seconds,
            },
            "network": {
                name: getattr(self.network, name)
                for name in ("bandwidth", "hop_seconds", "inside_bandwidth", "send_overhead", "receive_overhead")
            },
            "replays": [r.__dict__ for r in self.rows],
            "gains": [{"ranks_per_node": n, "communication": self.gain(n), "run_time": self.run_gain(n)} for n in shapes],
        }  # fmt: skip


def paths(
    profile: Profile,
    network: Network,
    *,
    ranks_per_node: Sequence[int] = (1, 2, 4),
    fidelity: Fidelity = "flow",
    charged: Paths = PHYSICS,
    selection: Selection = "short and long",
    eager_limit: float = EAGER_LIMIT,
) -> Answered:
    """Replay a recorded MPI run with its messages taken three ways, for several node shapes.

    Parameters
    ----------
    network : of the nodes; its number of hosts is set to what each shape needs.

    Raises
    ------
    CannotAnswer : A164, no messages between ranks.
    UsageError : A074, a number of ranks a node that is none; A072 from the replay.
    """
    if not ranks_per_node or min(ranks_per_node) < 1 or max(ranks_per_node) > MOST_RANKS:
        what = f"ranks a node are whole numbers from 1 to {MOST_RANKS:,}"
        raise UsageError("A074", what, found=str(list(ranks_per_node))[:60], fix="--ranks-per-node 1,2,4")
    if not eager_limit >= 0:
        raise UsageError("A072", "the program or the network cannot be replayed", found=f"an eager limit of {eager_limit:g} B")
    traffic = recorded(profile)
    compute = traffic.compute_seconds
    rows = []
    for each in dict.fromkeys(ranks_per_node):
        nodes = -(-traffic.ranks // each)
        shape = Network(**{**network.__dict__, "hosts": nodes})
        for path in PATHS:
            one = program(traffic, ranks_per_node=each, charged=charges(path, charged), selection=selection, eager_limit=eager_limit)
            try:
                done = replay(one, shape, fidelity)
            except UsageError as error:
                if error.code != "A071":
                    raise
                rows.append(Row(each, nodes, path, math.nan, math.nan, math.nan, error.found))
                continue
            cards = done.carried_bytes[: len(done.carried_bytes) - nodes]
            busiest = float(cards.max(initial=0.0))
            rows.append(Row(each, nodes, path, done.seconds, float(np.mean(done.ends[: len(compute)] - compute)), busiest))
    return Answered(traffic, network, fidelity, charged, selection, eager_limit, tuple(rows))
