"""Tables about messages, networks and collectives in docs/models are what the program says."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile_names import Ran
from model_tables import agree, numbers, rows, shown
from refusals import refused

import turnbuckle as tb
from turnbuckle.cost.collectives import Fabric, ways
from turnbuckle.mpi.networks.limppy import Protocol
from turnbuckle.mpi.questions.messages.question import replayed
from turnbuckle.mpi.questions.messages.setup import Setup
from turnbuckle.mpi.questions.network import question as networks
from turnbuckle.mpi.replay.extrapolate import grid_of, repeated
from turnbuckle.mpi.replay.messages import Traffic, recorded
from turnbuckle.papers.gpudirect.patterns import MORE, application, declared
from turnbuckle.replay.contention.contention import Fidelity, replay
from turnbuckle.replay.contention.network import Network

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "benchmarks")]

import contention  # type: ignore[import-not-found]  # noqa: E402
import halo  # type: ignore[import-not-found]  # noqa: E402

Run = Callable[..., Ran]
PROTOCOL = Protocol()


def asked(turnbuckle: Run, *words: object) -> Any:
    """Return the JSON of a question."""
    ran = turnbuckle(*words, "--format", "json")
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


# --- integration ----------------------------------------------------------------------------------

MPI_RUNS = {
    "LAMMPS melt": "lammps-melt-4r",
    "halo exchange": "halo-py-4r",
    "Cannon's algorithm": "cannon-py-4r",
}


@pytest.mark.shared
@pytest.mark.parametrize("row", rows("integration", "recording, in MPI"), ids=lambda row: row[0])
def test_gpus_closer_to_each_other(turnbuckle: Run, shared: Path, row: list[str]) -> None:
    name, mpi, p2p, off_node, by_ratio, ratio_bytes, by_paths, paths_bytes, inside, inside_bytes = (
        row
    )
    program, ranks, size = name.split(", ")
    file = shared / "traces" / "nsys-local" / f"{MPI_RUNS[program]}.sqlite"
    words = ("model", "integration", file, "--ranks-per-node", "2", "--on-node-factor", "2")
    wide = asked(turnbuckle, *words, "--bandwidth-ratio", "8.33")
    paths = asked(turnbuckle, *words, "--old-path", "2 us, 12 GB/s", "--new-path", "1 us, 150 GB/s")
    spent = wide["communication"]
    assert numbers(ranks) == [spent["ranks"]]
    agree(size, spent["message_bytes"] / 1e6)
    agree(mpi, spent["communication_share"] * 100)
    agree(p2p, spent["p2p_share"] * 100)
    agree(off_node, wide["fractions"]["off_node_share"] * 100)
    for gain, by_its_bytes, found in (
        (by_ratio, ratio_bytes, wide),
        (by_paths, paths_bytes, paths),
    ):
        agree(gain, found["fractions"]["speedup"])
        agree(by_its_bytes, found["fractions"]["speedup_of_bytes"])
    agree(inside, wide["stages"]["gain"] * 100)
    agree(inside_bytes, wide["stages"]["gain_of_bytes"] * 100)


# --- extrapolation --------------------------------------------------------------------------------


@cache
def halo_run(shared: Path, ranks: int) -> Traffic:
    """Return the messages of the halo exchange that was recorded on so many ranks."""
    folder = shared / "traces" / "otf2-local" / f"scorep-halo-{ranks}r"
    return recorded(tb.read(folder / "archive" / "traces.otf2").profile)


def before_the_first_message(traffic: Traffic) -> float:
    """Return the compute of a rank before its first message, the mean over the ranks [s]."""
    activity = np.arange(len(traffic.rank))
    messages = np.concatenate([traffic.messages.send, traffic.messages.receive])
    first = np.full(traffic.ranks, len(activity))
    np.minimum.at(first, traffic.rank[messages], messages)
    own = np.where(activity < first[traffic.rank], traffic.gap_seconds + traffic.kept_seconds, 0.0)
    return float(own.sum() + traffic.gap_seconds[first].sum()) / traffic.ranks


@pytest.mark.shared
def test_nine_ranks_repeated_beside_sixteen_recorded(shared: Path) -> None:
    nine, sixteen = halo_run(shared, 9), halo_run(shared, 16)
    traffic = {
        "9 ranks, recorded": nine,
        "9 repeated to 16": repeated(nine, 16),
        "16 ranks, recorded": sixteen,
    }
    table = shown("extrapolation", ", run time, compute")
    assert set(table) == set(traffic)
    for name, cells in table.items():
        row = replayed(traffic[name], Setup(path="host")).row
        before = before_the_first_message(traffic[name])
        computed = row.compute_seconds + row.kept_seconds
        seconds = (row.seconds, computed, before, computed - before, row.communication_seconds)
        for cell, value in zip(cells, seconds, strict=True):
            agree(cell, value * 1e3)


#: Recordings of the table of grids by how its cell begins; those of one cell follow each other.
GRIDS = {
    "stencil4d, 32 ranks": ("otf2/stencil4d_32rank",),
    "2-D halo, 9 ranks": ("otf2-local/scorep-halo-9r/archive",),
    "2-D halo, 16 ranks": ("otf2-local/scorep-halo-16r/archive",),
    "2-D halo in Python": ("otf2-local/scorep-py-halo-4r/archive",),
    "ring in Python": ("otf2-local/scorep-py-ring-8r/archive",),
    "LAMMPS melt": tuple(f"otf2-local/scorep-lammps-melt-{n}r/archive" for n in (2, 4, 8)),
    "halo and allreduce": ("otf2/sstmacro_halo_10rank",),
    "Cannon": ("otf2-local/scorep-py-cannon-sendrecv-9r/archive",),
    "HPCC": ("otf2-local/scorep-hpcc-4r/archive",),
    "Quantum ESPRESSO": ("otf2-local/scorep-qe-si-4r/archive",),
    "2-D halo, 4 ranks; LAMMPS": tuple(
        f"otf2-local/{n}/archive" for n in ("py-halo-4r", "lammps-melt-4r", "lammps-melt-8r")
    ),
}


@pytest.mark.shared
@pytest.mark.parametrize(
    "row", rows("extrapolation", "recording, grid found"), ids=lambda row: row[0]
)
def test_grids_that_recordings_show(shared: Path, row: list[str]) -> None:
    name, shape, directions, twice = row
    files = next(files for begin, files in reversed(GRIDS.items()) if name.startswith(begin))
    anchors = [next((shared / "traces" / file).glob("*.otf2")) for file in files]
    traffic = [recorded(tb.read(anchor).profile) for anchor in anchors]
    if shape.startswith("refused"):
        reasons = [refused("A170", grid_of, each).found for each in traffic]
        # a reason names the grid that was tried, each with its numbers
        assert set(numbers(shape)) <= {number for reason in reasons for number in numbers(reason)}
        return
    grids = [grid_of(each) for each in traffic]
    doubled = [
        repeated(each, [2 * n for n in grid.shape], grid)
        for each, grid in zip(traffic, grids, strict=True)
    ]
    assert [str(grid) for grid in grids] == [
        f"{each} ranks (ring)" for each in shape.partition(",")[0].split("; ")
    ]
    assert numbers(directions) == [len(grid.offsets) for grid in grids]
    assert numbers(twice) == [
        *(each.ranks for each in doubled),
        *(len(each.messages.send) for each in doubled),
    ]


@pytest.mark.shared
def test_laws_of_strong_scaling(turnbuckle: Run, shared: Path) -> None:
    files = [
        shared / "traces/otf2-local" / f"scorep-lammps-melt-{n}r/archive/traces.otf2"
        for n in (2, 4, 8)
    ]
    found = asked(
        turnbuckle, "model", "messages", *files, "--set", "ranks=16", "--ranks-per-node", "1"
    )
    laws = {law["quantity"]: law for law in found["laws"] if law["path"] in ("", "hostcopy")}
    table = shown("extrapolation", "of it, law")
    assert set(table) == set(laws)
    for quantity, cells in table.items():
        law = laws[quantity]
        for cell, key in zip(
            cells, ("held_out", "held_out_repeated", "held_out_unchanged"), strict=True
        ):
            assert numbers(cell.replace("+", "")) == [round(law[key] * 100)]
        assert ("undetermined" in cells[0]) == (law["word"] == "undetermined")


# --- packets of LiMPPy ----------------------------------------------------------------------------

SEVERAL_RANKS = {
    "stencil, 32 ranks": "otf2/stencil4d_32rank",
    "halo of sst-macro, 10 ranks": "otf2/sstmacro_halo_10rank",
    "halo, 16 ranks": "otf2-local/scorep-halo-16r/archive",
    "LAMMPS, 8 ranks": "otf2-local/scorep-lammps-melt-8r/archive",
    "Quantum ESPRESSO, 4 ranks": "otf2-local/scorep-qe-si-4r/archive",
    "NetPIPE, 2 ranks": "otf2-local/scorep-netpipe-2r/archive",
}


@pytest.mark.shared
@pytest.mark.parametrize("name", shown("limppy", "recording, packets"))
def test_messages_alone_on_four_topologies(shared: Path, name: str) -> None:
    packets, *by_topology, queues, flows, header, compute = shown("limppy", "recording, packets")[
        name
    ]
    traffic = recorded(tb.read(shared / "traces" / SEVERAL_RANKS[name] / "traces.otf2").profile)
    messages = networks.of_run(traffic, PROTOCOL, compute=0.0)
    found = {f: networks.networks(messages, fidelity=f).rows for f in ("limppy", "packet", "flow")}
    assert numbers(packets) == [found["limppy"][0].packets]
    for cell, row in zip(by_topology, found["limppy"], strict=True):
        agree(cell, row.seconds * (1e6 if "µs" in cell else 1e3))
    for cell, other in ((queues, "packet"), (flows, "flow")):
        ratios = [b.seconds / a.seconds for a, b in zip(found["limppy"], found[other], strict=True)]
        agree(cell, min(ratios), max(ratios))
    legacy = networks.of_run(traffic, replace(PROTOCOL, legacy_headers=True), compute=0.0)
    (twice,) = networks.networks(legacy, ["switch"]).rows
    agree(header, twice.seconds * (1e6 if "µs" in header else 1e3))
    switch, dragonfly = networks.networks(
        networks.of_run(traffic, PROTOCOL), ["switch", "dragonfly"]
    ).rows
    agree(compute, dragonfly.seconds / switch.seconds)


def test_the_fidelities_have_the_parameters_that_their_table_names() -> None:
    eager, remote = PROTOCOL.eager_bandwidth / 1e9, PROTOCOL.remote_bandwidth / 1e9
    table = shown("limppy", "`--fidelity`, `limppy`")
    assert [numbers(cell) for cell in table["eager packets"]] == [[eager], [eager, remote], [eager]]
    room = Network(2, PROTOCOL.remote_bandwidth, 0.0).buffer_bytes / 1024
    assert numbers(table["where packets wait"][1]) == [room] and networks._PACKETS_OF_ROOM == 2
    kinds = shown("limppy", ", eager and words")
    assert [numbers(cell) for cell in kinds["bandwidth B"]] == [[eager], [remote]]
    for name, what in (("node latency", "node"), ("switch latency", "switch")):
        both = [getattr(PROTOCOL, f"{kind}_{what}_seconds") for kind in ("eager", "remote")]
        for cell, value in zip(kinds[name], both, strict=True):
            agree(cell, value * 1e9)


# --- contention -----------------------------------------------------------------------------------


def iteration(ranks: int, fidelity: Fidelity, network: Network, spread: float = 0.0) -> float:
    """Return the communication of an iteration of HALO6-AR [us]."""
    count = halo.SHORT[ranks]
    done = replay(halo.program(ranks, count, spread_seconds=spread), network, fidelity)
    return float(done.seconds / count - halo.WORK_SECONDS) * 1e6


@pytest.mark.parametrize("row", rows("contention", "ranks, logp"), ids=lambda row: row[0])
def test_communication_of_an_iteration(row: list[str]) -> None:
    ranks, *cells = row
    for cell, fidelity in zip(cells, contention.FIDELITIES, strict=True):
        agree(cell, iteration(int(ranks), fidelity, halo.network(int(ranks))))


@pytest.mark.parametrize(
    "row", rows("contention", "network, ranks"), ids=lambda row: ", ".join(row[:2])
)
def test_flow_beside_simgrid(row: list[str]) -> None:
    """SimGrid's times were measured once; ours are computed, and the difference follows from both
    as they are printed.
    """
    where, overheads, flow, simgrid, off = row
    network, ranks = where.split(", ")
    overhead = halo.OVERHEAD_SECONDS if overheads != "0" else 0.0
    assert overheads == "0" or math.isclose(numbers(overheads)[0] * 1e-6, overhead)
    spread = contention.SPREAD_SECONDS if ranks == "ragged" else 0.0
    ours = iteration(64, "flow", halo.network(64, overhead, switch=network == "one switch"), spread)
    agree(flow, ours)
    (theirs,), (difference,) = numbers(simgrid), numbers(off)
    least, most = sorted(abs(ours - end) / end * 100 for end in (theirs - 0.005, theirs + 0.005))
    assert least - 0.005 <= difference <= most + 0.005


# --- collectives ----------------------------------------------------------------------------------


def share(text: str) -> float:
    """Return the value of `1/4`, `0.9 / 3.8` or `0.9 × 0.915`."""
    product = Fraction(1)
    for factor in text.split("×"):
        top, _, bottom = factor.partition("/")
        product *= Fraction(top.strip()) / Fraction(bottom.strip() or "1")
    return float(product)


def parameters(algorithm: str, protocol: str, *, nvlink: bool) -> tuple[float, float]:
    """Return the base time and the time of a step [us], from two and three ranks in one node."""
    node = Fabric(0.0, 1.0, 1, (1.0,), nvlink, 8)
    two, three = (
        ways("allreduce", ranks, node, algorithm=algorithm, protocol=protocol)[0][0] * 1e6
        for ranks in (2, 3)
    )
    return two - (three - two), (three - two) / 2


def bandwidth_share(algorithm: str, protocol: str, operation: str, each: int, nodes: int) -> float:
    """Return the share of the bandwidth that an operation of 8 ranks in a node, or on several
    nodes, has.
    """
    ranks = each * nodes
    fabric = Fabric(0.0, 1.0, each, (1.0,), True, each)
    ((_, per_byte),) = ways(operation, ranks, fabric, algorithm=algorithm, protocol=protocol)
    turns = 2 if operation == "allreduce" else 1
    volume = turns * (ranks - 1) / ranks if operation != "reduce" else 1.0
    return (2.0 if algorithm == "tree" else volume) / per_byte


@pytest.mark.parametrize("row", rows("collectives", ", b, ring"), ids=lambda row: row[0])
def test_protocols_of_collectives(row: list[str]) -> None:
    (
        name,
        ring_base,
        tree_base,
        ring_nvlink,
        ring_pcie,
        tree_nvlink,
        tree_pcie,
        ring_share,
        tree_share,
    ) = row
    protocol = name.lower()
    cells = {
        "ring": (ring_base, ring_nvlink, ring_pcie),
        "tree": (tree_base, tree_nvlink, tree_pcie),
    }
    for algorithm, (base, nvlink, pcie) in cells.items():
        for cell, wires in ((nvlink, True), (pcie, False)):
            found_base, step = parameters(algorithm, protocol, nvlink=wires)
            assert (found_base, step) == pytest.approx(
                (numbers(base)[0], numbers(cell)[0]), abs=1e-6
            )
    usual, _, special = ring_share.partition(" (")
    several = bandwidth_share("ring", protocol, "allreduce", 4, 2)
    assert several == pytest.approx(share(usual))
    one_node = {
        op: bandwidth_share("ring", protocol, op, 8, 1)
        for op in ("allreduce", "reduce", "allgather")
    }
    alone = bandwidth_share("ring", protocol, "allreduce", 1, 8)
    if special.endswith("if neither allreduce nor reduce)"):
        assert one_node == pytest.approx(
            {"allreduce": several, "reduce": several, "allgather": share(special.partition(" ")[0])}
        )
    else:
        assert one_node == pytest.approx(dict.fromkeys(one_node, several))
    assert alone == pytest.approx(
        share(special.partition(" ")[0]) if "one GPU a node" in special else several
    )
    usual, _, special = tree_share.partition(" (")
    assert bandwidth_share("tree", protocol, "allreduce", 4, 2) == pytest.approx(share(usual))
    first = usual.partition("×")[0] + "×"
    within = share(first + special.partition(" ")[0]) if special else share(usual)
    assert bandwidth_share("tree", protocol, "allreduce", 8, 1) == pytest.approx(within)


# --- declared patterns ----------------------------------------------------------------------------

PATTERNS = "application, what, printed"
SPANNED = {"wholly": "wholly", "in part": "in part", "not": "not at all"}


def by_application() -> dict[str, list[list[str]]]:
    """Return the rows of each application; an empty cell repeats the one above."""
    out: dict[str, list[list[str]]] = {}
    for name, *cells in rows("patterns", PATTERNS):
        out.setdefault(name or list(out)[-1], []).append(cells)
    return out


@pytest.mark.slow
@pytest.mark.parametrize("name", by_application())
def test_declared_patterns_beside_what_is_printed(turnbuckle: Run, name: str) -> None:
    found = asked(turnbuckle, "model", "patterns", name, "--ranks-per-node", "1,2,4,6")
    for what, printed, first, spanned, held in by_application()[name]:
        ranks = int(numbers(what)[1]) if "ranks" in what else 0
        first_found = next(c for c in found["comparisons"] if c["ranks"] == ranks)
        (all_found,) = (c for c in found["spans"] if c["ranks"] == ranks)
        ends = (all_found["printed_low"] * 100, all_found["printed_high"] * 100)
        agree(printed, *ends[-len(numbers(printed)) :])
        for cell, of in ((first, first_found), (spanned, all_found)):
            agree(cell, of["found_low"] * 100, of["found_high"] * 100)
        assert SPANNED[held] == all_found["spanned"]


@pytest.mark.parametrize("row", rows("patterns", ", gain, 6 ranks"), ids=lambda row: row[0])
def test_fidelities_of_a_declared_pattern(turnbuckle: Run, row: list[str]) -> None:
    fidelity, *cells = row
    found = asked(
        turnbuckle,
        "model",
        "patterns",
        "SW4lite",
        "--ranks",
        "32",
        "--fidelity",
        fidelity.strip("`"),
    )
    for cell, span in zip(cells, found["spans"], strict=True):
        agree(cell, span["found_low"] * 100, span["found_high"] * 100)


@pytest.mark.parametrize(
    "row", rows("patterns", "application, printed, pattern"), ids=lambda row: row[0]
)
def test_what_is_printed_of_the_applications(row: list[str]) -> None:
    """Every number of the table is one of the paper's, and every one of the paper's stands in
    it.
    """
    name, printed, form, _ = row
    told = {
        "partners",
        "share of messages",
        "smallest size",
        "largest size",
        "size elsewhere",
        "share of communication",
    }
    told.add("payload of messages below 32KB")
    of = {float(n.text) for n in MORE.all if n.subject == name and n.quantity in told}
    half = {50.0} if "half" in printed else set()
    below = {32.0} if "below 32 KB" in printed else set()
    assert set(numbers(printed)) | half == of | below
    pattern = declared(application(name))
    assert pattern.dimensions == 2
    assert (pattern.form == "sweep") == ("sweep" in form)
    assert pattern.periodic == ("ends joined" in form)
