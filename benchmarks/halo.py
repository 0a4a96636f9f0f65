"""HALO6-AR: the standard workload for a replay of messages, and the network it runs on.

Every rank computes for 1 ms, exchanges 100,000 bytes with each of its six neighbours on a periodic
grid, and takes part in an allreduce of 8 bytes written out as recursive doubling; then all of it
again.  No random number anywhere.  Each rank has a host and a network card of its own; the network
is a two-level fat tree of full bisection.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from turnbuckle.replay.contention.contention import Leaves, Op, Program
from turnbuckle.replay.contention.network import FatTree, Network

Ints = NDArray[np.int64]

GRIDS: Final = {64: (4, 4, 4), 256: (8, 8, 4), 1024: (16, 8, 8), 4096: (16, 16, 16)}
#: Iterations of a whole run, about a million messages, and of the short one for what is slow.
FULL: Final = {64: 1300, 256: 280, 1024: 64}
SHORT: Final = {64: 130, 256: 28, 1024: 6}
FACES: Final = 6
FACE_BYTES, SUM_BYTES = 100_000, 8
WORK_SECONDS: Final = 1e-3
BANDWIDTH, HOP_SECONDS, OVERHEAD_SECONDS = 12.5e9, 0.25e-6, 0.5e-6
#: Longer messages wait until both ends are ready.
EAGER_BYTES: Final = 65_535


def steps(ranks: int) -> int:
    """Exchanges of an allreduce by recursive doubling: the binary logarithm.

    >>> steps(64)
    6
    """
    return ranks.bit_length() - 1


def sizes(ranks: int) -> Ints:
    """Bytes of the messages that a rank sends in one iteration, in order, shape (slots,)."""
    return np.repeat([FACE_BYTES, SUM_BYTES], [FACES, steps(ranks)])


def targets(ranks: int) -> Ints:
    """To whom each rank sends, shape (ranks, slots): neighbours at -x, +x, -y, +y, -z, +z, then the
    partners of the allreduce.

    >>> targets(64)[0].tolist()
    [3, 1, 12, 4, 48, 16, 1, 2, 4, 8, 16, 32]
    """
    grid = np.arange(ranks).reshape(GRIDS[ranks][::-1])
    # np.roll by +1 along an axis puts at each place what stood at the one before
    faces = [np.roll(grid, way, axis).reshape(-1) for axis in (2, 1, 0) for way in (1, -1)]
    partners = [np.arange(ranks) ^ (1 << step) for step in range(steps(ranks))]
    return np.stack(faces + partners, axis=1)


def sources(ranks: int) -> Ints:
    """From whom each rank receives, shape (ranks, slots): what is sent towards -x comes from the
    neighbour at +x.
    """
    to = targets(ranks)
    opposite = np.arange(to.shape[1])
    opposite[:FACES] ^= 1
    return to[:, opposite]


def work_seconds(ranks: int, spread_seconds: float = 0.0) -> NDArray[np.float64]:
    """What each rank computes in an iteration [s], whole nanoseconds: 1 ms, and up to
    `spread_seconds` more, spread evenly.
    """
    part = np.arange(ranks) * 618_034 % 1_000_000 / 1e6
    return np.asarray(
        np.round((WORK_SECONDS + spread_seconds * part) * 1e9) / 1e9, dtype=np.float64
    )


def program(
    ranks: int, iterations: int, eager_bytes: int = EAGER_BYTES, *, spread_seconds: float = 0.0
) -> Program:
    """The workload as a program; message ``(iteration * ranks + source) * slots + slot``.

    Parameters
    ----------
    spread_seconds : work of the ranks differs by up to this much, so that they do not keep step;
        not part of the definition [s].
    """
    to, of, size = targets(ranks), sources(ranks), sizes(ranks)
    slots = len(size)
    four = (Op.POST, Op.SEND, Op.AWAIT, Op.SENT)
    order = [
        (Op.WORK, 0),
        *((op, d) for op in four for d in range(FACES)),
        *((op, k) for k in range(FACES, slots) for op in four),
    ]
    # in the types of the native core, filled in place: 38 bytes a message
    arg = np.empty((ranks, iterations, len(order)), dtype=np.uint32)
    before = (np.arange(iterations, dtype=np.uint32) * np.uint32(ranks * slots))[None, :]
    for place, (op, slot) in enumerate(order):
        whose = of[:, slot] if op in (Op.POST, Op.AWAIT) else np.arange(ranks)
        if op == Op.WORK:
            arg[:, :, place] = whose[:, None]
        else:
            np.add((whose * slots + slot).astype(np.uint32)[:, None], before, out=arg[:, :, place])
    everyone, nothing = np.arange(ranks, dtype=np.uint32), np.zeros(0, dtype=np.uint32)
    leaves = np.where(size > eager_bytes, Leaves.READY, Leaves.EAGER).astype(np.uint8)
    arrays: dict[str, Any] = {
        "first": np.arange(ranks + 1, dtype=np.uint32) * np.uint32(iterations * len(order)),
        "arg": arg.reshape(-1),
        "code": np.tile(np.array([op for op, _ in order], dtype=np.uint8), ranks * iterations),
        "work_seconds": work_seconds(ranks, spread_seconds),
        "resource": nothing,
        "use_seconds": np.zeros(0),
        "capacity": nothing,
        "host": everyone,
        "source": np.tile(np.repeat(everyone, slots), iterations),
        "target": np.tile(to.astype(np.uint32).reshape(-1), iterations),
        "size_bytes": np.tile(size.astype(np.uint64), ranks * iterations),
        "leaves": np.tile(leaves, ranks * iterations),
    }
    return Program(**arrays)


def network(ranks: int, overhead: float = OVERHEAD_SECONDS, *, switch: bool = False) -> Network:
    """The network: as many leaves as spines as hosts on a leaf; or one switch with links of twice
    the latency.

    Parameters
    ----------
    overhead : of sending, and of receiving [s].
    """
    side = round(ranks**0.5)
    return Network(
        ranks,
        BANDWIDTH,
        HOP_SECONDS * (2 if switch else 1),
        None if switch else FatTree((side, side), (1, side), (1, 1)),
        latency=4 * HOP_SECONDS,
        send_overhead=overhead,
        receive_overhead=overhead,
        seconds_per_byte=1 / BANDWIDTH,
    )


def closed_seconds(ranks: int, overhead: float = OVERHEAD_SECONDS) -> float:
    """Communication of one iteration without congestion, by LogGP: the faces leave one card back to
    back, the last to come is the end.

    >>> round(closed_seconds(64) * 1e6, 3)
    62.004
    """
    latency, per_byte = 4 * HOP_SECONDS, 1 / BANDWIDTH
    exchange = overhead + latency + SUM_BYTES * per_byte + overhead
    return overhead + FACES * FACE_BYTES * per_byte + latency + overhead + steps(ranks) * exchange


def lines(ranks: int, iterations: int, spread_seconds: float = 0.0) -> Iterator[str]:
    """The same as text of SimGrid's time-independent form, rank by rank; a host makes 1 Gflop a
    second, type 6 is the byte.
    """
    to, of, work = targets(ranks), sources(ranks), work_seconds(ranks, spread_seconds)
    for rank in range(ranks):
        one = [f"compute {work[rank] * 1e9:.0f}"]
        one += [f"irecv {of[rank, d]} {d + 1} {FACE_BYTES} 6" for d in range(FACES)]
        one += [f"isend {to[rank, d]} {d + 1} {FACE_BYTES} 6" for d in range(FACES)]
        one += [f"waitall {2 * FACES}"]
        for k in range(steps(ranks)):
            partner, tag = to[rank, FACES + k], 100 + k
            one += [
                f"irecv {partner} {tag} {SUM_BYTES} 6",
                f"isend {partner} {tag} {SUM_BYTES} 6",
                "waitall 2",
            ]
        yield "".join(f"{rank} {do}\n" for do in ["init", *one * iterations, "finalize"])


def platform(ranks: int, *, switch: bool = False) -> str:
    """The network as SimGrid's platform file; `switch` is a star, its links of twice the
    latency.
    """
    side = round(ranks**0.5)
    latency = HOP_SECONDS * (2 if switch else 1)
    tree = "" if switch else f' topology="FAT_TREE" topo_parameters="2;{side},{side};1,{side};1,1"'
    cluster = (
        f'radical="0-{ranks - 1}" speed="1Gf" bw="{BANDWIDTH:.0f}Bps" '
        f'lat="{latency * 1e9:.0f}ns"{tree}'
    )
    return (
        '<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
        '<platform version="4.1">\n'
        f'  <cluster id="c" prefix="node-" suffix="" {cluster}/>\n</platform>\n'
    )
