"""The kind of sweep that replays messages: recordings and schedules, what is refused at once, and
what makes an answer stale.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from refusals import refused

from turnbuckle.foundation.errors import UnitError, UsageError
from turnbuckle.mpi.questions.messages import exchanged
from turnbuckle.mpi.questions.messages.exchanged import MESSAGES, Exchange, traffic_of
from turnbuckle.mpi.questions.messages.question import replayed
from turnbuckle.mpi.questions.messages.setup import Setup
from turnbuckle.mpi.replay.patterns import Pattern
from turnbuckle.mpi.replay.patterns import traffic_of as declared
from turnbuckle.projection.elsewhere.network import OnNetwork
from turnbuckle.projection.run import Run
from turnbuckle.questions.sweep.grid import Study, digest_of
from turnbuckle.questions.sweep.question import Serial, Swept, sweep
from turnbuckle.replay.contention.network_file import bundled


def schedule(folder: Path, bytes_sent: int = 100_000) -> Path:
    """Two ranks: one sends, the other works 1 Mflop and receives."""
    (folder / "ti_files").mkdir(exist_ok=True)
    (folder / "ti_files" / "0.txt").write_text(f"0 init\n0 send 1 7 {bytes_sent} 0\n0 finalize\n")
    (folder / "ti_files" / "1.txt").write_text(
        f"1 init\n1 compute 1000000\n1 recv 0 7 {bytes_sent} 0\n1 finalize\n"
    )
    anchor = folder / "ti.txt"
    anchor.write_text("ti_files/0.txt\nti_files/1.txt\n")
    return anchor


def study(recording: Path, **axes: object) -> Study:
    return Study(
        "messages",
        MESSAGES,
        {"run": recording},
        {"flops_per_second": 1e9},
        (),
        axes,
        recording.parent,
    )  # type: ignore[arg-type]


def test_a_schedule_is_swept_with_the_speed_of_a_rank(tmp_path: Path) -> None:
    anchor = schedule(tmp_path)
    found = sweep(study(anchor, path=["hostcopy", "gpudirect"]), Serial())
    assert found.failed == {} and found.rows()[0]["compute_seconds"] == pytest.approx(0.5e-3), (
        "1 ms on one of two ranks"
    )
    told = replayed(traffic_of(anchor, flops_per_second=1e9), Setup(path="gpudirect")).row
    assert found.rows()[1]["seconds"] == told.seconds and found.rows()[1]["unmatched_share"] == 0.0
    slower = sweep(
        replace(study(anchor), settings={}, axes={"flops_per_second": [1e9, 5e8]}), Serial()
    ).rows()
    assert slower[1]["compute_seconds"] == 2 * slower[0]["compute_seconds"]


def test_a_schedule_without_a_speed_and_a_recording_with_one_are_refused(
    tmp_path: Path, shared: Path
) -> None:
    anchor = schedule(tmp_path)
    with pytest.raises(UsageError, match="A068") as none:
        traffic_of(anchor)
    assert "flops_per_second" in none.value.fix and none.value.where == "ti.txt"
    recording = shared / "traces" / "dumpi" / "bgp_7rank" / "testbgp.meta"
    refused("A069", traffic_of, recording, flops_per_second=1e9)
    both = Study("both", MESSAGES, {"a": anchor, "b": recording}, {"flops_per_second": 1e9})
    assert sweep(both, Serial()).failed == {}, "in a sweep the speed is for the schedules"
    bare = sweep(Study("bare", MESSAGES, {"a": anchor}), Serial())
    assert bare.failed == {"A068": 1}


def test_a_recording_is_read_once_and_its_points_are_those_of_project(shared: Path) -> None:
    file = shared / "traces" / "nsys-local" / "cannon-py-4r.sqlite"
    axes = {
        "path": ["host", "hostcopy"],
        "compute_of": ["", "2 if rank 0"],
        "network": ["lassen", "self"],
    }
    swept = sweep(Study("run", MESSAGES, {"run": file}, {}, (), axes), Serial())
    assert swept.failed == {}
    run = Run.read(file).judged
    for row in swept.rows():
        words = (f"path={row['path']}",)
        project = run.project(
            "self", draws=0, network=OnNetwork(row["network"], words)
        ).projections[0]
        assert row["compute_of"] or row["seconds"] == project.seconds
        assert not row["compute_of"] or row["seconds"] > project.seconds


@pytest.mark.parametrize(
    ("values", "code", "says"),
    [
        ({"card_bandwidth": -1.0}, "A074", "card_bandwidth of -1"),
        ({"ranks": 10**9}, "A074", "ranks of"),
        ({"ranks_per_node": 0}, "A074", "ranks_per_node of 0"),
        ({"flops_per_second": 0.0}, "A081", "0 FLOP/s"),
        ({"network": "lassenn"}, "A050", "lassenn"),
        ({"mapping": "greeedy"}, "A081", "greeedy"),
    ],
)
def test_a_value_that_no_recording_can_make_right_stops_the_sweep_before_it_starts(
    tmp_path: Path, values: dict[str, float | str], code: str, says: str
) -> None:
    with pytest.raises(UsageError, match=code) as caught:
        Study(
            "no",
            MESSAGES,
            {"run": tmp_path / "nowhere"},
            {},
            (),
            {n: [v] for n, v in values.items()},
        )
    assert says in caught.value.found and caught.value.fix


def test_values_that_may_go_together_are_left_to_the_points() -> None:
    for values in (
        {"gpus_per_node": 4},
        {"taper": 2.0},
        {"ranks_per_node": 500_000},
        {"mapping": "gone.csv"},
        {"network": "gone.toml"},
    ):
        Exchange(**values)  # type: ignore[arg-type]
    for name in bundled():
        Exchange(network=name)
    with pytest.raises(UnitError):
        MESSAGES.legal["flops_per_second"].read("3")
    assert (
        MESSAGES.legal["flops_per_second"].read("3 GFLOP/s") == 3e9
        and MESSAGES.legal["path"].meaning
    ), "words of the base class"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (
            "mine.toml",
            (
                '[network]\nname = "mine"\nnodes = 0\nbandwidth = "12.5 GB/s"\nhop = "1us"\n'
                'source = "a test"\n'
            ),
        ),
        (
            "mine.xml",
            (
                '<platform version="4.1"><cluster id="mine" radical="0-63" bw="100Gbps" '
                'lat="1us"/></platform>'
            ),
        ),
    ],
)
def test_a_network_file_that_changed_is_asked_again(tmp_path: Path, file: str, text: str) -> None:
    anchor, output = schedule(tmp_path), tmp_path / "t.csv"
    (tmp_path / file).write_text(text)
    asked = study(anchor, network=[file])
    first = sweep(asked, Serial(), output=output)
    assert (first.failed, first.computed, sweep(asked, Serial(), output=output).computed) == (
        {},
        1,
        0,
    )
    (tmp_path / file).write_text(text.replace("1us", "1ms"))
    again = sweep(asked, Serial(), output=output)
    assert again.computed == 1 and again.rows()[0]["seconds"] > first.rows()[0]["seconds"]
    (tmp_path / "moved").mkdir()
    for name in (file, "t.csv.journal", "ti.txt"):
        (tmp_path / name).rename(tmp_path / "moved" / name)
    (tmp_path / "ti_files").rename(tmp_path / "moved" / "ti_files")
    moved = study(tmp_path / "moved" / "ti.txt", network=[file])
    assert sweep(moved, Serial(), output=tmp_path / "moved" / "t.csv").computed == 0, (
        "a folder that was moved asks nothing again"
    )


def test_every_file_of_a_recording_counts(tmp_path: Path) -> None:
    anchor = schedule(tmp_path)
    before = digest_of(anchor)
    schedule(tmp_path, 200_000)
    assert digest_of(anchor) != before, "the anchor is the same, a rank's file is not"
    sets = {
        "set.meta": ["set-0000.bin", "set-0001.bin"],
        "rank-0.dat": ["rank-1.dat"],
        "run.prv": ["run.pcf", "run.row"],
    }
    for first, others in sets.items():
        for name in (first, *others):
            (tmp_path / name).write_bytes(b"\0binary")
        known = digest_of(tmp_path / first)
        for name in others:
            (tmp_path / name).write_bytes(b"\0changed")
            assert known != (known := digest_of(tmp_path / first)), name
    for name in ("set2.meta", "other-0000.bin", "run1.prv", "rank-0.txt"):
        before = [digest_of(tmp_path / first) for first in sets]
        (tmp_path / name).write_bytes(b"\0foreign")
        assert before == [digest_of(tmp_path / first) for first in sets], name
    (tmp_path / "run1.sqlite").write_bytes(b"one")
    known = digest_of(tmp_path / "run1.sqlite")
    (tmp_path / "run2.sqlite").write_bytes(b"two")
    assert digest_of(tmp_path / "run1.sqlite") == known, "runs beside it are others"


def test_more_ranks_are_told_with_their_grid_and_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traffic = declared(Pattern("halo", 2, (1e4,), 3, periodic=True), 8)
    made: list[int] = []
    whole = exchanged.repeated

    def counted(*words: object) -> object:
        made.append(int(words[1]))  # type: ignore[call-overload]
        return whole(*words)  # type: ignore[arg-type]

    monkeypatch.setattr(exchanged, "repeated", counted)
    monkeypatch.setattr(exchanged, "traffic_of", lambda *_, **__: traffic)
    found: Swept = sweep(
        study(schedule(tmp_path), ranks=[0, 16], path=["hostcopy", "gpudirect"], seed=[0, 1]),
        Serial(),
    )
    assert found.failed == {} and made == [16], "once for all points of as many ranks"
    rows = found.rows()
    assert [r["grid"] for r in rows[:4]] == [None] * 4
    assert rows[4]["grid"] == (
        "exchange on 4 x 2 ranks (ring), repeated to 4 x 4; the side of 2 is taken for a "
        "ring, which no recording can tell"
    )
    assert rows[4]["seconds"] == replayed(traffic, Setup(ranks=16)).row.seconds, (
        "as without a sweep"
    )


def test_calls_without_another_side_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traffic = replace(declared(Pattern("pingpong", 1, (8.0,), 5), 2), unmatched=180)
    monkeypatch.setattr(exchanged, "traffic_of", lambda *_, **__: traffic)
    (one,) = sweep(study(schedule(tmp_path), path=["hostcopy", "gpudirect"]), Serial()).summaries()
    assert (
        one.unmatched == 0.9
        and one.verdict == "cannot be told"
        and "90% of the calls have no matching call" in one.sentence
    )


def test_goal_schedules_are_swept_and_need_no_speed(tmp_path: Path) -> None:
    """In one study with a schedule that does; ranks of a graph are not repeated, which is said in
    the row.
    """
    path = tmp_path / "a.goal"
    path.write_text(
        "num_ranks 2\nrank 0 {\nl1: send 8b to 1 tag 0\n}\nrank 1 {\nl1: recv 8b from 0 tag 0\n}\n"
    )
    both = Study(
        "both", MESSAGES, {"goal": path, "ti": schedule(tmp_path)}, {"flops_per_second": 1e9}
    )
    found = sweep(both, Serial())
    assert (
        found.failed == {}
        and found.rows()[0]["seconds"] == replayed(traffic_of(path), Setup()).row.seconds
    )
    assert sweep(study(path, ranks=[0, 4]), Serial()).failed == {"A170": 1}
    refused("A069", traffic_of, path, flops_per_second=1.0)
