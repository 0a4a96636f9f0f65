"""Messages that are delayed by a preloaded layer: what the layer does to real programs, and what is
made of its recordings.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from scripts import script

from turnbuckle.cli import run as cli_run
from turnbuckle.foundation.errors import CannotAnswer
from turnbuckle.mpi.questions.delay import question as message_delay
from turnbuckle.mpi.replay.messages import recorded
from turnbuckle.profile.messages.traffic import traffic
from turnbuckle.profile.profile import build
from turnbuckle.questions.distance.question import around
from turnbuckle.questions.validate.cases import read_case
from turnbuckle.questions.validate.question import shipped, validate
from turnbuckle.trace import Trace, read

VALIDATION = Path(__file__).resolve().parents[2] / "validation"
MESSAGES, CASE = VALIDATION / "distance" / "messages", VALIDATION / "cases" / "message_delay"


# the folder above has files of the same names
compare, measure = (
    script(f"validation/distance/messages/{name}.py") for name in ("compare", "measure")
)


def has_mpi() -> bool:
    """Whether there are Open MPI's compiler, its headers and its launcher; a compiler may be there
    without headers.
    """
    if not (shutil.which("mpicc") and shutil.which("mpirun")):
        return False
    header = ["mpicc", "-E", "-x", "c", "-"]
    return (
        subprocess.run(
            header, input=b"#include <mpi.h>\n", capture_output=True, check=False
        ).returncode
        == 0
    )


needs_mpi = pytest.mark.skipif(
    not has_mpi(), reason="needs mpicc, mpi.h and mpirun (openmpi-bin, libopenmpi-dev)"
)


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The layer and the programs, compiled where the tests may write."""
    measure.BUILD = tmp_path_factory.mktemp("build")
    return measure.build()


def ran(layer: Path, command: str, delay_ns: int, folder: Path) -> tuple[dict[str, Any], Trace]:
    """A run on two ranks, and its whole recording."""
    result = measure.run(command, layer, delay_ns, 2, folder)
    assert "failed" not in result, result
    return result, read(folder / "rank-0.txt")


def calls(trace: Trace, *names: str) -> pl.DataFrame:
    """Rows of some calls in the order of their begins."""
    named = trace.mpi.with_columns(text=trace.text(trace.mpi)).filter(pl.col("text").is_in(names))
    return named.join(trace.mpi_ranks, on="thread").sort("start_ns")


@needs_mpi
def test_undelayed_recording_holds_every_call(layer: Path, tmp_path: Path) -> None:
    result, trace = ran(layer, "{build}/shapes pingpong 20 1 8 1024", 0, tmp_path)
    mpi = traffic(trace)
    assert mpi is not None
    # 3 rounds to warm up and 20, of two sizes, one message each way
    assert mpi["sends"] == {"count": 23 * 2 * 2, "bytes": 23 * 2 * (8 + 1024)} and mpi[
        "messages"
    ] == {"matched": 92, "unmatched": 0}
    assert mpi["collectives"] == {"BARRIER": 4} and len(trace.mpi) == 2 * 92 + 4
    # the loop is what lies between the two barriers, and only that is kept
    lines = measure.looped(tmp_path, result["seconds"]).calls()
    assert [sum(line.startswith("MPI_Send:") for line in one) for one in lines] == [40, 40]
    assert [
        one[-1].startswith("MPI_Barrier:") and sum("Barrier" in line for line in one) == 1
        for one in lines
    ] == [True, True]


@needs_mpi
def test_a_round_trip_takes_two_delays_and_a_sender_none(layer: Path, tmp_path: Path) -> None:
    delay = 2_000_000
    result, trace = ran(layer, "{build}/shapes pingpong 10 4 8192", delay, tmp_path)
    assert result["seconds"] >= 10 * 2 * delay * 1e-9
    send, receive = calls(trace, "MPI_Send"), calls(trace, "MPI_Recv")
    for source in (0, 1):
        left, came = (
            send.filter(pl.col("rank") == source),
            receive.filter(pl.col("rank") == 1 - source),
        )
        assert ((came["end_ns"] - left["start_ns"]) >= delay).all()
    # so four messages in a row are on the way at once
    assert (send["end_ns"] - send["start_ns"]).median() < delay / 2  # type: ignore[operator]


@needs_mpi
def test_waits_are_counted_with_how_late_they_ended(layer: Path, tmp_path: Path) -> None:
    delay = 20_000_000
    result, trace = ran(layer, "{build}/shapes pingpong 10 1 8", delay, tmp_path)
    ends = [
        [line for line in path.read_text().splitlines() if line.startswith("#")][1:]
        for path in sorted(tmp_path.glob("rank-*.txt"))
    ]
    until = [[[int(word) for word in line.split(":")[1:]] for line in one] for one in ends]
    # a receive of each round and one of each barrier: 2 rounds to warm up, a barrier, 10 rounds, a
    # barrier
    assert len(until[0]) == len(until[1]) == 2
    for first, last in until:
        # each waits, unless its rank was kept from its processor for the whole delay
        assert 0 < last[0] - first[0] <= 11 and 0 <= first[1] <= last[1]
    receive = calls(trace, "MPI_Recv", "MPI_Barrier")
    assert sum(last[0] for _, last in until) <= len(receive) == 28
    assert 0 <= measure.looped(tmp_path, result["seconds"]).late_ns() <= result["seconds"] * 1e9
    _, undelayed = ran(layer, "{build}/shapes pingpong 10 1 8", 0, tmp_path)
    # nothing is due later than it is there
    assert (
        all(
            "# waited until a barrier: 0:0" in path.read_text()
            for path in tmp_path.glob("rank-*.txt")
        )
        and len(undelayed.mpi) == 52
    )


@needs_mpi
def test_waits_and_collectives_are_delayed(layer: Path, tmp_path: Path) -> None:
    delay = 1_000_000
    _, trace = ran(layer, "{build}/shapes halo 10 64 0 0", delay, tmp_path)
    begin, done = (
        calls(trace, "MPI_Isend"),
        calls(trace, "MPI_Waitall").unique(["rank", "start_ns"]).sort("start_ns"),
    )
    for source in (0, 1):
        # both messages of a step
        left = begin.filter(pl.col("rank") == source).gather_every(2, 1)
        came = done.filter(pl.col("rank") == 1 - source)
        assert len(left) == len(came) == 12 and ((came["end_ns"] - left["start_ns"]) >= delay).all()
    assert recorded(build(trace)).unmatched == 0
    _, trace = ran(layer, "{build}/shapes collectives 8 0", delay, tmp_path)
    for name, pairs in (
        ("MPI_Allreduce", ((0, 1), (1, 0))),
        ("MPI_Barrier", ((0, 1), (1, 0))),
        ("MPI_Reduce", ((1, 0),)),
    ):
        one = calls(trace, name)
        for source, target in pairs:
            late = one.filter(rank=target)["end_ns"] - one.filter(rank=source)["start_ns"]
            assert len(late) >= 2 and (late >= delay).all(), (name, late)
    bcast = calls(trace, "MPI_Bcast").with_columns(
        took=pl.col("end_ns") - pl.col("start_ns"), k=pl.int_range(pl.len()).over("rank")
    )
    both = bcast.filter(pl.col("rank") == pl.col("root")).join(
        bcast.filter(pl.col("rank") != pl.col("root")), on="k"
    )
    assert len(both) == 9 and ((both["end_ns_right"] - both["start_ns"]) >= delay).all()


@needs_mpi
def test_a_call_that_would_pass_the_delay_by_ends_the_program(layer: Path, tmp_path: Path) -> None:
    source, program = tmp_path / "probe.c", tmp_path / "probe"
    source.write_text(
        "#include <mpi.h>\nint main(int n, char **w) { int f; MPI_Init(&n, &w); "
        "MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &f,"
        " MPI_STATUS_IGNORE); MPI_Finalize(); return 0; }\n"
    )
    subprocess.run(["mpicc", str(source), "-o", str(program)], check=True)
    assert "MPI_Iprobe is not delayed" in measure.run(str(program), layer, 0, 2, tmp_path)["failed"]


def lines(rank: int, *calls: str) -> list[str]:
    """A file of a rank; ``C`` in a call is the world of two."""
    return ["# liballprof text", *(call.replace("C", f"0,{rank},2") for call in calls)]


def written(folder: Path, first: list[str], second: list[str]) -> Path:
    for rank, one in enumerate((first, second)):
        (folder / f"rank-{rank}.txt").write_text(
            "".join(f"{line}\n" for line in one), encoding="ascii"
        )
    return folder / "rank-0.txt"


def test_the_loop_lies_between_the_barriers_that_are_as_far_apart(tmp_path: Path) -> None:
    loop = [
        "MPI_Barrier:1:C:2",
        "MPI_Barrier:10:C:12",
        "MPI_Barrier:1000:C:1012",
        "MPI_Barrier:5000:C:5012",
    ]
    written(tmp_path, lines(0, *loop), lines(1, *loop, "# not delayed: MPI_Scan:6000"))
    assert [
        [line.split(":")[1] for line in one[1:]] for one in measure.looped(tmp_path, 0.001).calls()
    ] == [["1000"], ["1000"]]
    with pytest.raises(ValueError, match="no two barriers"):
        measure.looped(tmp_path, 0.002)
    written(tmp_path, lines(0, *loop), lines(1, *loop, "# not delayed: MPI_Scan:600"))
    with pytest.raises(ValueError, match="MPI_Scan"):
        measure.looped(tmp_path, 0.001)


def test_lateness_is_that_of_the_loop_and_of_both_ranks(tmp_path: Path) -> None:
    loop = ["MPI_Barrier:10:C:12", "MPI_Barrier:1000:C:1012", "MPI_Barrier:5000:C:5012"]
    said = "# waited until a barrier: "
    written(
        tmp_path,
        lines(0, *loop, f"{said}2:900", f"{said}5:1000", f"{said}9:9000"),
        lines(1, *loop, *[f"{said}{k}:{k}0" for k in (1, 2, 7)]),
    )
    # 3 receives were late by 100 ns, one of the other rank by 10 ns
    assert measure.looped(tmp_path, 0.001).late_ns() == measure.late_ns(tmp_path, 0.001) == 110 / 4
    assert measure.late_ns(tmp_path, 0.002) is None
    written(tmp_path, lines(0, *loop, *[f"{said}0:0"] * 3), lines(1, *loop, *[f"{said}0:0"] * 3))
    assert measure.looped(tmp_path, 0.001).late_ns() is None


def test_a_point_has_the_delay_that_was_really_waited(tmp_path: Path) -> None:
    journal = measure.Journal(tmp_path / "journal.jsonl")
    for repeat, late in enumerate((100.0, None, 700.4, 300.0)):
        run = {"seconds": 0.2, "steal_s": 0.0, "load": 0.0, "late_ns": late}
        journal.add(measure.Point("halo", measure.Setting(10_000), repeat), run)
    journal.add(
        measure.Point("halo", measure.Setting(0), 0), {"seconds": 0.1, "steal_s": 0.0, "load": 0.0}
    )
    near, far = measure.results(journal, {}, {"halo": 0.1})["points"]
    assert far["waited_ns"] == 10_300 and len(far["seconds"]) == 4 and "waited_ns" not in near


def ping_pong(folder: Path, rounds: int) -> Path:
    """Sends keep their processor for 1 us and a ns a byte, receives too, the way is 3 us; 8 B and
    1008 B.
    """
    here: list[list[str]] = [[], []]
    time = 100.0
    for size in [8] * rounds + [1008] * rounds:
        overhead = 1 + size / 1000
        for source in (0, 1):
            target = 1 - source
            here[source].append(
                f"MPI_Send:{time:.3f}:0:{size}:0,1,1:{target}:0:C:{time + overhead:.3f}"
            )
            until = time + 2 * overhead + 3
            here[target].append(f"MPI_Recv:{time:.3f}:0:{size}:0,1,1:{source}:0:C:0:{until:.3f}")
            time = until
    for one in here:
        one.append(f"MPI_Barrier:{time:.3f}:C:{time + 5:.3f}")
    return written(folder, lines(0, *here[0]), lines(1, *here[1]))


def test_the_network_is_that_of_the_ping_pong_and_a_delay_is_added_to_it(tmp_path: Path) -> None:
    path = ping_pong(tmp_path, 10)
    setup = message_delay.calibrated(read(path), 65536)
    assert setup.overhead_seconds == pytest.approx(
        1e-6, rel=1e-6
    ) and setup.overhead_bandwidth == pytest.approx(1e9, rel=1e-6)
    assert 2 * setup.hop_seconds == pytest.approx(
        3e-6, rel=1e-6
    ) and setup.card_bandwidth == pytest.approx(message_delay.UNLIMITED)
    made = recorded(build(read(path)))
    for fidelity in compare.FIDELITIES:
        near, far = (message_delay.run_time(made, setup, fidelity, delay) for delay in (0, 100_000))
        assert near == pytest.approx(made.seconds, rel=1e-3)
        # 40 messages one after the other, and the barrier
        assert far - near == pytest.approx(41 * 100e-6, rel=1e-6)
    assert message_delay.most_messages(made) == 21


def test_the_command_gives_the_same_run_time(tmp_path: Path) -> None:
    """What is compared is what a user gets from `turnbuckle model messages`, but for time in calls
    that no message explains.
    """
    path, out = ping_pong(tmp_path, 10), tmp_path / "answer.json"
    setup = message_delay.calibrated(read(path), 65536)
    words = [
        "model",
        "messages",
        str(path),
        "--ranks-per-node",
        "1",
        "--fidelity",
        "logp",
        "--hop",
        f"{setup.hop_seconds + 50e-6!r} s",
    ]
    words += [
        "--overhead",
        f"{setup.overhead_seconds!r} s",
        "--bandwidth",
        f"{setup.card_bandwidth!r} B/s",
        "--eager-limit",
        "65536 B",
    ]
    words += [
        "--set",
        f"overhead_bandwidth={setup.overhead_bandwidth!r} B/s",
        "--format",
        "json",
        "-o",
        str(out),
    ]
    assert cli_run.run(words) == 0
    (row,) = (r for r in json.loads(out.read_text())["replays"] if r["path"] == "host")
    assert row["seconds"] == pytest.approx(
        message_delay.run_time(recorded(build(read(path))), setup, "logp", 100_000), rel=1e-3
    )


@pytest.fixture(scope="module")
def replayed() -> tuple[dict[str, Any], Any, list[message_delay.Program]]:
    """What was measured in the case, its network, and its programs replayed by each fidelity."""
    results = json.loads((CASE / "measured.json").read_text(encoding="utf-8"))
    return results, *compare.rows(results, CASE / "recordings")


def test_the_recordings_give_the_predictions_that_are_kept(
    replayed: tuple[dict[str, Any], Any, list[message_delay.Program]],
) -> None:
    results, setup, programs = replayed
    assert compare.predictions(programs) == (MESSAGES / "results" / "predictions.json").read_text(
        encoding="utf-8"
    )
    assert compare.markdown(results, setup, programs) == (
        MESSAGES / "results" / "messages.md"
    ).read_text(encoding="utf-8")
    assert sum(len(p.points) for p in programs) == len(results["points"]) - len(results["programs"])
    assert not any(p.unmatched for p in programs)


def test_the_card_has_every_point_and_what_stands_beside_it(
    replayed: tuple[dict[str, Any], Any, list[message_delay.Program]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The case of the card is that of the tables: rows of points in their order, then two sums for
    each program.
    """
    results, *programs = replayed
    asked = []
    # its replays by the fidelity of the card are among those of the tables
    monkeypatch.setattr(message_delay, "programs", lambda *words: asked.append(words) or programs)
    rows = [r for r in validate([read_case(CASE)], None).rows if r.kind == "message delay"]
    assert asked == [(results, CASE / "recordings", compare.CALIBRATION)]
    points = json.loads((MESSAGES / "results" / "predictions.json").read_text(encoding="utf-8"))
    replays = [r for r in rows if r.model == "logp"]
    assert [r.predicted for r in replays] == pytest.approx([p["logp"] for p in points], abs=1e-9)
    assert replays[9].quantity == "window, messages 1 ms later" and replays[9].count == 5
    for model in message_delay.BASELINES:
        together = [r for r in rows if r.model == model]
        assert [r.quantity for r in together] == [
            f"{name}, all points" for name in dict.fromkeys(p["program"] for p in points)
        ]
        assert sum(r.predicted for r in together) == pytest.approx(
            sum(p[model] for p in points), abs=1e-7
        )  # type: ignore[misc]
        assert sum(r.measured for r in together) == pytest.approx(sum(r.measured for r in replays))  # type: ignore[misc]
    card = {(g.kind, g.model): g for g in shipped().card}
    group = card["message delay", "logp"]
    assert (
        (group.count, group.covered)
        == (len(replays), sum(bool(r.covered) for r in replays))
        == (35, 20)
    )
    assert group.median == pytest.approx(0.02911, abs=1e-5)


def measured(
    folder: Path,
    *points: tuple[int, list[float]],
    program: str = "ring",
    waited: dict[int, int] | None = None,
) -> Path:
    """A case of one program, recorded as `ping_pong` does."""
    place = folder / "recordings" / "ring"
    place.mkdir(parents=True)
    ping_pong(place, 10)
    late = {delay: {"waited_ns": ns} for delay, ns in (waited or {}).items()}
    found = [
        {"program": program, "delay_ns": delay, **late.get(delay, {}), "seconds": seconds}
        for delay, seconds in points
    ]
    measurements = {
        "most_bytes": 65536,
        "programs": {program: {"recorded_s": 1e-4}},
        "points": found,
    }
    (folder / "measured.json").write_text(json.dumps(measurements), encoding="utf-8")
    ask = '[[ask]]\nmodel = "message delay"\nmeasured = "./measured.json"\nnetwork = "ring"\n'
    (folder / "case.toml").write_text(
        f'title = "t"\n[a]\nfile = "./recordings"\n{ask}', encoding="utf-8"
    )
    return folder


def test_a_point_is_the_undelayed_run_and_what_the_replay_adds(tmp_path: Path) -> None:
    undelayed = [1.0e-4, 1.1e-4, 1.2e-4]
    found = validate(
        [read_case(measured(tmp_path / "one", (0, undelayed), (10_000, [6e-4]), (30_000, [])))],
        None,
    )
    replay, nothing, count = found.rows
    # 40 messages one after the other, and the barrier; the rank that gets most gets 21
    assert (
        replay.predicted == pytest.approx(1.1e-4 + 41 * 10e-6, rel=1e-6) and replay.measured == 6e-4
    )
    assert nothing.predicted == pytest.approx(1.1e-4) and count.predicted == pytest.approx(
        1.1e-4 + 21 * 10e-6
    )
    assert nothing.wmape == pytest.approx(1 - 1.1 / 6)
    assert (replay.low, replay.high) == pytest.approx(
        around(replay.predicted, 1.1e-4, undelayed, 1)
    )  # type: ignore[arg-type]


def test_a_prediction_is_for_the_delay_that_was_really_waited(tmp_path: Path) -> None:
    points = [(0, [1.0e-4, 1.1e-4, 1.2e-4]), (10_000, [6e-4]), (30_000, [2e-3])]
    rows = validate(
        [read_case(measured(tmp_path / "one", *points, waited={10_000: 10_500}))], None
    ).rows
    assert [r.quantity for r in rows[:2]] == [
        "ring, messages 10 us later",
        "ring, messages 30 us later",
    ]
    # 10.5 us and 30 us, of 41 messages one after the other; the rank that gets most gets 21
    assert [r.predicted for r in rows[:2]] == pytest.approx(
        [1.1e-4 + 41 * 10.5e-6, 1.1e-4 + 41 * 30e-6], rel=1e-6
    )
    assert rows[3].predicted == pytest.approx(2 * 1.1e-4 + 21 * 40.5e-6)


@pytest.mark.parametrize(
    ("points", "program", "what"),
    [
        ([], "ring", "the measurements hold no points"),
        ([(0, [1e-4, 1e-4]), (10_000, [])], "ring", "the measurements hold no points"),
        ([(0, [1e-4]), (10_000, [2e-4])], "ring", "the measurements hold no points"),
        ([(0, [1e-4, 1e-4]), (10_000, [2e-4])], "../recordings/ring", "no recording of a program"),
    ],
)
def test_what_was_not_measured_or_not_recorded_is_refused(
    tmp_path: Path, points: list[tuple[int, list[float]]], program: str, what: str
) -> None:
    found = validate([read_case(measured(tmp_path / "one", *points, program=program))], None)
    assert (
        not found.rows
        and [n.code for n in found.not_run] == ["A362"]
        and f"A192 {what}" in found.not_run[0].why
    )


def test_a_network_is_read_off_no_other_program(tmp_path: Path) -> None:
    with pytest.raises(CannotAnswer, match="no ping-pong") as caught:
        message_delay.calibrated(
            read(written(tmp_path, lines(0, "MPI_Barrier:1:C:2"), lines(1, "MPI_Barrier:1:C:2"))),
            65536,
        )
    assert (
        caught.value.code == "A192"
        and caught.value.found == "0 sends of rank 0, 0 receives of rank 1"
    )
