"""One MPI run, one replay: `model messages`, `project` and a sweep of messages say one number,
exact on the recording's own network.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpi_rows import call, recorded
from strategies import FEWER

from turnbuckle.foundation.errors import CannotAnswer
from turnbuckle.mpi.questions.messages.question import of_run
from turnbuckle.mpi.questions.messages.setup import Setup, words_of
from turnbuckle.profile.profile import build
from turnbuckle.projection.elsewhere.network import OnNetwork
from turnbuckle.projection.run import Run

US = 1_000
#: Recordings of several ranks, by format.
FEW_CALLS = 1_000
KINDS = (
    "otf2/*/*.otf2",
    "otf2-local/*/*/*.otf2",
    "nsys-local/*.sqlite",
    "paraver/*/*.prv",
    "dumpi/*/*.meta",
)


@cache
def _runs(shared: Path) -> list[Run]:
    files = sorted(file for kind in KINDS for file in (shared / "traces").glob(kind))
    read = [Run.read(file).judged for file in files]
    return [run for run in read if run.profile.trace.mpi.height and run.between.matched is not None]


@pytest.fixture(scope="module")
def runs(shared: Path) -> list[Run]:
    found = _runs(shared)
    if not found:
        pytest.skip("no recordings of MPI runs beside the repository")
    return found


@pytest.fixture(scope="module")
def short_runs(runs: list[Run]) -> list[Run]:
    """Return the recordings of few calls: the laws ask each of them many times."""
    return [run for run in runs if run.profile.trace.mpi.height <= FEW_CALLS]


def projected(run: Run, name: str, *settings: str) -> float:
    return run.project("self", draws=0, network=OnNetwork(name, settings)).projections[0].seconds


def test_a_run_on_its_own_network_takes_what_was_recorded(runs: list[Run]) -> None:
    for run in runs:
        assert projected(run, "self") == run.seconds, run.profile.trace.name


@pytest.mark.parametrize("fidelity", ["flow", "logp"])
def test_messages_on_their_own_network_too(
    short_runs: list[Run], fidelity: Literal["flow", "logp"]
) -> None:
    for run in short_runs:
        row = of_run(run, [1], Setup(network="self", fidelity=fidelity)).row(1, "host")
        assert row.seconds == run.seconds, run.profile.trace.name


def test_two_verbs_that_are_asked_one_thing_give_one_number(short_runs: list[Run]) -> None:
    setups = [
        Setup(network="lassen"),
        Setup(
            network="perlmutter",
            fidelity="logp",
            overhead_seconds=2e-6,
            buffers="device if size > 1 kB; host",
        ),
    ]
    for run in short_runs:
        for setup in setups:
            answer = of_run(run, [1, 2], setup)
            assert answer.recorded_seconds == run.seconds, run.profile.trace.name
            for row in answer.rows:
                words = (
                    *words_of(setup, ("path", "network")),
                    f"path={row.path}",
                    f"ranks_per_node={row.ranks_per_node}",
                )
                try:
                    expected = projected(run, str(setup.network), *words)
                except CannotAnswer as refused:
                    assert (
                        refused.code == "A193"
                        and math.isnan(row.seconds)
                        and "A770" in {f.code for f in answer.findings}
                    )
                    continue
                assert row.stuck or row.seconds == expected, (run.profile.trace.name, row.path)


def test_parts_of_a_run_add_up_to_it(short_runs: list[Run]) -> None:
    for run in short_runs:
        for row in of_run(run, [2], Setup(network="lassen")).rows:
            if math.isnan(row.seconds):
                continue
            parts = (
                row.compute_seconds
                + row.kept_seconds
                + row.communication_seconds
                + row.gpu_wait_seconds
            )
            assert parts == pytest.approx(row.seconds, rel=1e-9)
            named = ("compute", "copies", "network", "gpu", "others")
            on_path = [getattr(row, f"chain_{name}_seconds") for name in named]
            assert sum(on_path) == pytest.approx(row.seconds, rel=1e-6) and min(on_path) >= -1e-9


@pytest.mark.parametrize("path", ["host", "hostcopy", "gpudirect"])
def test_a_slower_network_never_helps(short_runs: list[Run], path: str) -> None:
    for run in short_runs:
        for name, values in (
            ("hop_seconds", ("1 us", "10 us", "1 ms")),
            ("card_bandwidth", ("10 GB/s", "1 GB/s", "50 MB/s")),
        ):
            try:
                alone, shared = (
                    [
                        projected(
                            run, "lassen", f"path={path}", f"fidelity={fidelity}", f"{name}={value}"
                        )
                        for value in values
                    ]
                    for fidelity in ("logp", "flow")
                )
            except CannotAnswer as refused:
                assert refused.code == "A193"
                continue
            assert alone == sorted(alone), run.profile.trace.name
            # sharing has anomalies (decision 18), small ones
            assert all(a <= b * 1.001 for a, b in pairwise(shared)), run.profile.trace.name


def ping_pong(turns: int, size: int, work: int, takes: int) -> Run:
    """Return two ranks that send a message to and fro, each under way for as long, with work
    between [us].
    """
    rows, now, ready = [], 0, [0, 0]
    for turn in range(turns):
        source, target = turn % 2, 1 - turn % 2
        sent = {"tag": 0, "size_bytes": size}
        rows.append(call(source, "Send", now * US, (now + 1) * US, partner=target, **sent))
        rows.append(
            call(target, "Recv", ready[target] * US, (now + takes) * US, partner=source, **sent)
        )
        ready[source], ready[target] = now + 1, now + takes
        now += takes + work
    return Run.of(build(recorded(*rows)))


@FEWER
@given(
    st.integers(3, 6),
    st.integers(1, 1 << 20),
    st.integers(1, 30),
    st.integers(3, 40),
    st.sampled_from(["host", "hostcopy", "gpudirect"]),
)
def test_uncontended_is_the_plain_timeline(
    turns: int, size: int, work: int, takes: int, path: str
) -> None:
    """One message at a time shares nothing, by whatever path: flow and logp agree, in both
    verbs.
    """
    run = ping_pong(turns, size, work, takes)
    alone, shared = (
        of_run(run, [1], Setup(network="lassen", fidelity=f), "lassen").row(1, path)
        for f in ("logp", "flow")
    )  # type: ignore[arg-type]
    assert shared.seconds == pytest.approx(alone.seconds, abs=2e-9)


def test_a_copy_at_either_end_is_paid_for_each_message() -> None:
    """Four messages in a chain, 1 MB each: every one has its two copies on the way, and the
    sender's copy keeps its rank.
    """
    run = ping_pong(4, 1_000_000, 5, 100)
    fixed = {"copy_seconds": 2e-6, "copy_bandwidth": 10e9, "link_bandwidth": 75e9}
    setup = Setup(network="", fidelity="logp", **fixed)  # type: ignore[arg-type]
    rows = of_run(run, [1], setup).rows
    host, copied = (next(r for r in rows if r.path == path) for path in ("host", "hostcopy"))
    assert copied.seconds - host.seconds == pytest.approx(4 * 2 * (2e-6 + 1e6 / 10e9), rel=1e-3)
    assert copied.chain_copies_seconds == pytest.approx(copied.seconds - host.seconds, rel=1e-3)


def test_calls_that_are_not_simulated_are_a_part_of_their_own() -> None:
    rows = [call(r, "Comm_dup", 0, 40 * US) for r in (0, 1)]
    rows += [
        call(0, "Send", 50 * US, 51 * US, partner=1, tag=0, size_bytes=8),
        call(1, "Recv", 50 * US, 60 * US, partner=0, tag=0, size_bytes=8),
    ]
    answer = of_run(Run.of(build(recorded(*rows))), [1], Setup(network="lassen"), "lassen")
    for row in answer.rows:
        assert row.kept_seconds == pytest.approx(40e-6) and row.compute_seconds <= 20e-6


def test_the_command_lines_agree(turnbuckle: Callable[..., Any], shared: Path) -> None:
    file = str(shared / "traces/nsys-local/lammps-melt-4r.sqlite")
    said = json.loads(
        turnbuckle(
            "model",
            "messages",
            file,
            "--network",
            "lassen",
            "--ranks-per-node",
            "1",
            "--format",
            "json",
        ).out
    )
    project = json.loads(
        turnbuckle("project", file, "--network", "lassen", "--draws", "0", "--format", "json").out
    )["projections"][0]
    assert (
        said["replays"][0]["path"] == "host" and said["replays"][0]["seconds"] == project["seconds"]
    )
    assert said["recorded_seconds"] == project["measured_seconds"]


def test_recorded_time_in_calls_is_messages_waiting_and_the_rest() -> None:
    """A receive of 100 us whose message is sent after 60 us and takes 10 us by its price, and 40 us
    that no replay computes; two ranks.
    """
    rows = [call(r, "Comm_dup", 0, 40 * US) for r in (0, 1)]
    of = {"tag": 0, "size_bytes": 0}
    rows += [
        call(0, "Send", 160 * US, 161 * US, partner=1, **of),
        call(1, "Recv", 100 * US, 200 * US, partner=0, **of),
    ]
    run = Run.of(build(recorded(*rows)))
    words = ("hop_seconds=4.5 us", "overhead_seconds=500 ns")
    other = run.project("self", draws=0, network=OnNetwork("self", words)).projections[0].network
    assert other is not None and other.source.latency_s == pytest.approx(39e-6)
    mpi = other.mpi
    assert (mpi.waiting_seconds, mpi.kept_seconds) == pytest.approx((30e-6, 40e-6))
    # the fit takes all that the only receive lasted after its send for the message
    assert mpi.messages_seconds == pytest.approx(
        (40e-6 + 0.5e-6) / 2
    ) and mpi.unexplained_seconds == pytest.approx(0.25e-6)


def test_recorded_time_in_calls_adds_up(short_runs: list[Run]) -> None:
    for run in short_runs:
        other = run.project("self", draws=0, network="self").projections[0].network
        assert other is not None
        mpi = other.mpi
        named = (
            mpi.waiting_seconds,
            mpi.messages_seconds,
            mpi.unexplained_seconds,
            mpi.kept_seconds,
        )
        row = of_run(run, [1], Setup(network="self")).row(1, "host")
        assert min(named) >= 0
        assert sum(named) == pytest.approx(row.kept_seconds + row.communication_seconds, rel=1e-6)
