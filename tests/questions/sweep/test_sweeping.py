"""Sweeps: resumed after a kill, in parts, on any executor, and never twice the same work."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from refusals import refused
from sweep_kinds import NOTED, noted, study_of

from turnbuckle.foundation.errors import CannotAnswer, TurnbuckleError, UsageError
from turnbuckle.questions.sweep.answers.journal import Journal, beside, journal_of, read_journal
from turnbuckle.questions.sweep.answers.workers import no_interrupt
from turnbuckle.questions.sweep.points import Held
from turnbuckle.questions.sweep.question import Serial, Swept, sweep

HERE = Path(__file__).parents[2] / "builders"


def parquet(found: Swept) -> bytes:
    held = io.BytesIO()
    found.table().write_parquet(held)
    return held.getvalue()


def asked(folder: Path) -> list[str]:
    lines = [line for file in sorted(folder.glob("*.bin")) for line in noted(file)]
    return [" ".join(line.split()[1:3]) for line in lines if line.startswith("asked")]


def test_the_table_is_in_the_order_of_the_study(tmp_path: Path) -> None:
    found = sweep(study_of(tmp_path), Serial())
    table = found.table()
    assert table.columns == [
        "recording",
        "pause_seconds",
        "number",
        "hop_seconds",
        "seconds",
        "third",
        "word",
        "nothing",
        "half",
        "code",
        "error",
    ]
    assert table["recording"].to_list() == ["run0"] * 12 + ["run1"] * 12
    assert table["number"].to_list() == [n for n in range(6) for _ in range(2)] * 2, (
        "the last axis is fastest; a result never hides a setting"
    )
    assert table["seconds"].to_list() == [n * h for n in range(6) for h in (1e-6, 1 / 3)] * 2
    assert (table.schema["half"], table.schema["nothing"], table.schema["code"]) == (
        pl.Float64,
        pl.Float64,
        pl.String,
    )
    assert table["nothing"].null_count() == 24 and (
        found.computed,
        found.from_journal,
        found.failed,
    ) == (24, 0, {})


def test_executors_agree_to_the_byte_and_one_that_breaks_stops_the_sweep(tmp_path: Path) -> None:
    study = study_of(tmp_path, number=[1, 13, 3], hop_seconds=[1e-6, 0.1])
    serial = parquet(sweep(study, Serial()))
    with (
        ThreadPoolExecutor(3) as threads,
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process,
    ):
        assert parquet(sweep(study, threads)) == serial
        assert parquet(sweep(study, process)) == serial
        with pytest.raises(BrokenExecutor):
            sweep(study_of(tmp_path, recordings=1, number=[66]), process)
    assert parquet(sweep(study, workers=2)) == serial


def test_a_recording_is_read_once_and_only_one_is_held(tmp_path: Path) -> None:
    sweep(study_of(tmp_path, recordings=3), workers=1)
    assert [
        sum(line.startswith("read") for line in noted(tmp_path / f"run{k}.bin")) for k in range(3)
    ] == [1, 1, 1]


def test_what_is_made_of_a_recording_is_kept_but_not_all_of_it(tmp_path: Path) -> None:
    held, made = Held(tmp_path / "run.bin"), list[object]()

    def make(name: object) -> object:
        return held.once(name, lambda: made.append(name) or name)

    for k in range(40):
        assert make("often") == "often" and make(k) == k
    assert made.count("often") == 1 and make(39) == 39 and made.count(39) == 1
    assert make(0) == 0 and made.count(0) == 2

    def refuse() -> None:
        made.append("refused")
        raise CannotAnswer("A165", "no")

    for _ in range(3):
        with pytest.raises(CannotAnswer):
            held.once("no", refuse)
    assert made.count("refused") == 1, "a refusal is not asked for again"


def test_nothing_is_computed_twice(tmp_path: Path) -> None:
    study, output = study_of(tmp_path), tmp_path / "t.parquet"
    first = sweep(study, Serial(), output=output)
    again = sweep(study, Serial(), output=output)
    assert (first.computed, again.computed, again.from_journal) == (24, 0, 24) and parquet(
        first
    ) == parquet(again)
    assert len(asked(tmp_path)) == 24
    wider = replace(study, axes={"number": [*range(6), 9], "hop_seconds": [1e-6, 1 / 3]})
    assert sweep(wider, Serial(), output=output).computed == 4, (
        "a value more on an axis asks for that value only"
    )
    other = replace(study, settings={"pause_seconds": 0.0, "word": "right"})
    assert sweep(other, Serial(), output=output).computed == 24, (
        "another setting is another question"
    )
    told = replace(study, settings={"pause_seconds": 0.0, "word": "left"})
    assert sweep(told, Serial(), output=output).computed == 0, (
        "a default that is said is the same question"
    )
    assert (
        sweep(replace(study, kind=replace(NOTED, release="2")), Serial(), output=output).computed
        == 24
    )
    (tmp_path / "run1.bin").write_text("recorded again")
    assert sweep(study, Serial(), output=output).computed == 12, (
        "another content of one recording is another question"
    )


def test_one_question_under_two_names_is_asked_once(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    (tmp_path / "run1.bin").write_text("run0")
    found = sweep(study, Serial())
    assert len(asked(tmp_path)) == 12 and found.missing == 0 and found.table().height == 24


def test_refusals_are_rows(tmp_path: Path) -> None:
    output = tmp_path / "t.csv"
    found = sweep(study_of(tmp_path, number=[1, 13, 2]), Serial(), output=output)
    assert found.failed == {"A165": 2} and found.missing == 0
    rows = found.table().filter(pl.col("number") == 13).to_dicts()
    assert [(r["code"], r["error"], r["seconds"]) for r in rows] == [
        ("A165", "this has no answer: 13", None)
    ] * 2
    assert "somebody" not in found.table().write_csv() + journal_of(output).read_text(), (
        "no path of this machine"
    )
    assert sweep(study_of(tmp_path, number=[1, 13, 2]), Serial(), output=output).computed == 0
    assert (
        sweep(study_of(tmp_path, number=[1, 13, 2]), Serial(), output=output, again=True).computed
        == 2
    )


def test_anything_else_stops_the_sweep_and_costs_nothing_done(tmp_path: Path) -> None:
    study, output = study_of(tmp_path, recordings=1, number=[1, 2, 77]), tmp_path / "t.csv"
    with pytest.raises(RuntimeError, match="ValueError: seven and seven"):
        sweep(study, Serial(), output=output)
    assert len(read_journal(journal_of(output))[0]) == 2
    with pytest.raises(RuntimeError, match="ValueError: seven and seven"):
        sweep(study, workers=2, output=output)


def test_a_point_that_ends_its_worker_is_a_row_and_its_neighbours_are_answered(
    tmp_path: Path,
) -> None:
    found = sweep(study_of(tmp_path, recordings=1, number=[1, 66, *range(2, 10)]), workers=2)
    assert found.failed == {"A168": 1} and found.missing == 0
    assert found.table().filter(pl.col("code") == "A168")["number"].to_list() == [66]
    assert Counter(asked(tmp_path))["66 1e-06"] == 2, "tried again, alone"


@pytest.mark.parametrize("parts", [1, 3, 5, 24, 30])
def test_shards_make_the_same_table(tmp_path: Path, parts: int) -> None:
    study, output = study_of(tmp_path), tmp_path / "t.parquet"
    whole = parquet(sweep(study, Serial()))
    order = [(7 * k) % parts + 1 for k in range(parts)] if parts % 7 else range(1, parts + 1)
    for k, i in enumerate(order, 1):
        found = sweep(study, Serial(), output=output, shard=(i, parts))
        assert found.missing == 0 or k < parts
    assert parquet(found) == whole and len(asked(tmp_path)) == 48, (
        "24 of the whole, 24 of all shards"
    )
    assert len(beside(output)) == parts
    late = sweep(study, Serial(), output=output)
    assert late.computed == 0 and parquet(late) == whole


def test_a_shard_reads_and_hashes_only_its_own_recordings(tmp_path: Path) -> None:
    study = study_of(tmp_path, recordings=4)
    found = sweep(study, Serial(), output=tmp_path / "t.csv", shard=(2, 4))
    assert list(found.digests) == ["run1"] and found.missing == 36 and len(found.rows()) == 12


def test_a_torn_line_is_cut_off_and_its_point_computed_again(tmp_path: Path) -> None:
    study, output = study_of(tmp_path), tmp_path / "t.csv"
    whole = sweep(study, Serial(), output=output).table()
    journal = journal_of(output)
    raw = journal.read_bytes()
    last = raw.rstrip().rfind(b"\n") + 1
    for cut in (len(raw) - 1, len(raw) - 9, last + 1):
        journal.write_bytes(raw[:cut])
        found = sweep(study, Serial(), output=output)
        assert found.computed == 1 and found.table().equals(whole) and not found.notes
    journal.write_bytes(raw[:20])
    assert sweep(study, Serial(), output=output).computed == 24, "a torn first line"


def test_a_damaged_line_is_said(tmp_path: Path) -> None:
    study, output = study_of(tmp_path), tmp_path / "t.csv"
    sweep(study, Serial(), output=output)
    journal = journal_of(output)
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[3], lines[4] = b"\0" * 40 + b"\n", b"[1, 2]\n"
    journal.write_bytes(b"".join(lines))
    found = sweep(study, Serial(), output=output)
    assert found.computed == 2 and "2 lines of t.csv.journal cannot be read" in found.notes[0]


def test_a_changed_byte_is_never_believed(tmp_path: Path) -> None:
    """Each byte of a journal in turn: what is still read is what was written, and a line that is
    not is counted.
    """
    study, output = study_of(tmp_path), tmp_path / "t.csv"
    whole = sweep(study, Serial(), output=output).table()
    journal = journal_of(output)
    raw = journal.read_bytes()
    head = raw.index(b"\n") + 1
    written, _ = read_journal(journal)
    for place in range(len(raw)):
        journal.write_bytes(raw[:place] + bytes([raw[place] ^ 1 << place % 8]) + raw[place + 1 :])
        try:
            read, unread = read_journal(journal)
        except UsageError as error:
            assert error.code == "A086" and place < head
            continue
        assert all(repr(read[key]) == repr(written[key]) for key in read), place
        assert unread or place < head or place == len(raw) - 1, (
            "only the last line end looks like a torn line"
        )
    number = raw.index(b'"all":', head) + len(b'"all":')
    journal.write_bytes(raw[:number] + bytes([raw[number] ^ 1]) + raw[number + 1 :])
    found = sweep(study, Serial(), output=output)
    assert found.computed == 1 and found.table().equals(whole)
    assert "1 lines of t.csv.journal cannot be read as they were written" in found.notes[0]


SLOW = """
import sys; sys.path.insert(0, {here!r})
from pathlib import Path
from sweep_kinds import study_of
from turnbuckle.questions.sweep.points import Held
from turnbuckle.questions.sweep.question import sweep
folder = Path({folder!r})
sweep(study_of(folder, number=list(range(40))), output=folder / "t.parquet", workers=2)
"""


def until(true: Callable[[], bool], patience: float = 120.0) -> None:
    end = time.monotonic() + patience
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_resumed_after_a_kill(tmp_path: Path) -> None:
    journal = journal_of(tmp_path / "t.parquet")
    script = SLOW.format(here=str(HERE), folder=str(tmp_path))
    study = study_of(tmp_path, number=list(range(40)))
    (tmp_path / "slow").touch()
    running = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)

    def seen() -> set[int]:
        return {int(line.split()[-1]) for k in range(2) for line in noted(tmp_path / f"run{k}.bin")}

    until(lambda: journal.exists() and journal.read_bytes().count(b"\n") > 10 and len(seen()) == 2)
    refused("A085", sweep, study, Serial(), output=tmp_path / "t.parquet")
    running.send_signal(signal.SIGKILL)
    running.wait(120)
    workers = seen()
    assert len(workers) == 2 and os.getpid() not in workers
    (tmp_path / "slow").unlink()  # each ends after the points that it has
    until(lambda: not any(alive(w) for w in workers))
    done = set(read_journal(journal)[0])
    before = asked(tmp_path)
    assert 10 <= len(done) < 80 and len(done) <= len(before)
    found = sweep(study, ThreadPoolExecutor(4), output=tmp_path / "t.parquet")
    assert (found.computed, found.from_journal) == (80 - len(done), len(done))
    assert len(asked(tmp_path)) - len(before) == 80 - len(done), (
        "nothing that was written down is asked again"
    )
    assert parquet(found) == parquet(sweep(study, Serial()))


class Late(Executor):
    """An executor that gives its answers in the wrong order."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append((future, lambda: fn(*args, **kwargs)))
        if len(self.waiting) == 3:
            while self.waiting:
                last, run = self.waiting.pop()
                last.set_result(run())
        return future


def test_order_does_not_depend_on_who_ends_first(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    assert parquet(sweep(study, Late())) == parquet(sweep(study, Serial()))


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[int, int, int]] = []
    sweep(study_of(tmp_path, number=[1, 13]), Serial(), progress=lambda *at: told.append(at))
    assert told[-1] == (4, 4, 2) and [t[0] for t in told] == sorted(t[0] for t in told)


def test_what_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    for words, code in (
        ({"shard": (1, 2)}, "A083"),
        ({"shard": (3, 2), "output": tmp_path / "t"}, "A083"),
        ({"workers": 0}, "A083"),
    ):
        refused(code, sweep, study, **words)
    (tmp_path / "run1.bin").unlink()
    with pytest.raises(TurnbuckleError, match="A082") as gone:
        sweep(study, Serial())
    assert gone.value.where == "run1" and str(tmp_path) not in gone.value.found


def test_a_journal_that_is_none_is_left_alone(tmp_path: Path) -> None:
    mine = journal_of(tmp_path / "t.csv")
    mine.write_bytes(b"my only copy of something\n")
    refused("A086", sweep, study_of(tmp_path), Serial(), output=tmp_path / "t.csv")
    assert mine.read_bytes() == b"my only copy of something\n"
    refused("A086", sweep, study_of(tmp_path), Serial(), output=tmp_path / "nowhere" / "t.csv")


def test_a_full_disk_is_said_and_costs_one_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, output = study_of(tmp_path), tmp_path / "t.csv"
    room = [2000]

    def full(file: int, raw: Any) -> int:
        if room[0] <= 0:
            raise OSError(28, "No space left on device")
        room[0] -= (some := write(file, bytes(raw)[: room[0]]))
        return some

    write = os.write
    monkeypatch.setattr("turnbuckle.questions.sweep.answers.journal.os.write", full)
    with pytest.raises(TurnbuckleError, match="A086") as caught:
        sweep(study, Serial(), output=output)
    assert (
        caught.value.found == "No space left on device"
        and "continues from there" in caught.value.fix
    )
    monkeypatch.undo()
    kept = len(read_journal(journal_of(output))[0])
    found = sweep(study, Serial(), output=output)
    assert (
        0 < kept < 24
        and found.computed == 24 - kept
        and parquet(found) == parquet(sweep(study, Serial()))
    )


def test_a_worker_that_begins_does_not_see_ctrl_c() -> None:
    """Before its initialiser runs it imports for half a second, and would tell of the interruption
    itself.
    """
    words = [
        sys.executable,
        "-c",
        "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))",
    ]
    with no_interrupt():
        inside = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert inside == "True\n" and signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_file_system_without_locks_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(_: int, __: int) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("turnbuckle.questions.sweep.answers.journal.fcntl.flock", none)
    with Journal(tmp_path / "t.journal") as journal:
        assert not journal.locked
    assert "has no locks" in sweep(study_of(tmp_path), Serial(), output=tmp_path / "t.csv").notes[0]


def test_workers_that_cannot_start_are_no_answers(tmp_path: Path) -> None:
    """A script without a main guard: its workers run it again, and end."""
    script = tmp_path / "script.py"
    # one point, so that one worker tries
    script.write_text(
        SLOW.format(here=str(HERE), folder=str(tmp_path)).replace(
            "number=list(range(40))", "recordings=1, number=[1], hop_seconds=[1e-6]"
        )
    )
    ran = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 1 and "A086: worker processes cannot start" in ran.stderr
    assert not journal_of(tmp_path / "t.parquet").exists()
