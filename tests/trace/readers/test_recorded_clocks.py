"""A device on another machine: its commands are put on the host's clock by what calls and waits
say; a device here is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from turnbuckle.examples import RECORDED, sample
from turnbuckle.trace.readers.recorded import reader as recorded
from turnbuckle.trace.readers.recorded.clocks import FASTEST, Line, aligned, line
from turnbuckle.trace.readers.recorded.text import Recorded, load

COLUMNS = [
    "kind",
    "start",
    "end",
    "corr",
    "corr2",
    "tid",
    "dev",
    "ctx",
    "stream",
    "name",
    "bytes",
    "what",
    "src",
    "dst",
    "blocks",
    "threads",
    "regs",
    "smem",
    "event",
    "evsync",
    "graph",
    "node",
    "queued",
    "submitted",
    "ret",
    "address",
    "domain",
]
TIMES = [COLUMNS.index(name) for name in ("start", "end", "queued", "submitted")]
MS = 1_000_000
#: The recorder tells its offset where it moved by more than this [ns].
UNTOLD = 400
#: What is added to the time of a command, by its line's fields and its time [ns].
Shift = Callable[[list[str], int], int]


@pytest.fixture(scope="module")
def example() -> list[str]:
    with sample(RECORDED) as path:
        return path.read_text(encoding="utf-8").splitlines()


def moved(lines: list[str], shift: Shift) -> Iterator[str]:
    """The lines with other times on the device."""
    for text in lines:
        fields = text.split(",")
        if fields[0] in ("K", "C", "S"):
            for place in TIMES:
                if fields[place]:
                    fields[place] = str(int(fields[place]) + shift(fields, int(fields[place])))
        yield ",".join(fields)


def written(folder: Path, lines: Iterator[str] | list[str]) -> Path:
    path = folder / "made.trace.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def begin(lines: list[str]) -> int:
    return min(int(text.split(",")[1]) for text in lines if text[:2] in ("K,", "C,"))


def work(file: Recorded) -> pl.DataFrame:
    """All commands: letter, number, stream, start, end, in the order of their numbers."""
    frames = [
        file.table(x).select("corr", "stream", "start", "end", letter=pl.lit(x)) for x in "KCS"
    ]
    return pl.concat(frames).sort("corr")


def known_ends(file: Recorded) -> dict[int, int]:
    """When the host knew of each command's end, by going through all calls and waits for each."""
    calls = {row["corr"]: row for row in file.table("A").iter_rows(named=True)}
    places = {row["corr"]: row["stream"] for row in work(file).iter_rows(named=True)}
    waits = list(file.table("Y").iter_rows(named=True))
    done: dict[int, int] = {}
    for number in places:
        ends = [row["end"] for row in waits if row["what"] == 1 and row["event"] == number]
        ends += (
            [calls[number]["end"]]
            if file.names[calls[number]["name"]].endswith("(blocking)")
            else []
        )
        if ends:
            done[number] = min(ends)
    out = {}
    for number, stream in places.items():
        over = calls[number]["end"]
        ends = [done[number]] if number in done else []
        ends += [
            end
            for other, end in done.items()
            if places[other] == stream and calls[other]["start"] >= over
        ]
        ends += [
            row["end"]
            for row in waits
            if row["what"] == 3 and row["stream"] == stream and row["start"] >= over
        ]
        if ends:
            out[number] = min(ends)
    return out


def holds(file: Recorded) -> None:
    """No command begins before its call, or ends after the host knew that it had."""
    calls = {row["corr"]: row["start"] for row in file.table("A").iter_rows(named=True)}
    ends = known_ends(file)
    assert ends
    for row in work(file).iter_rows(named=True):
        assert row["start"] >= calls[row["corr"]]
        assert row["end"] <= ends.get(row["corr"], row["end"])


def half_width(words: str) -> int:
    return max(
        round(float(text.replace(",", "")) * 1000) + 100
        for text in re.findall(r"within ([\d.,]+) us", words)
    )


def off(file: Recorded, lines: list[str], folder: Path) -> int:
    """By how much commands lie at most from where they are in these lines [ns]."""
    right = work(load(written(folder, lines)))
    return int(
        np.abs((work(file).select("start", "end") - right.select("start", "end")).to_numpy()).max()
    )


def test_a_device_here_is_read_as_recorded(
    example: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, example)
    seen = recorded.read(path)
    assert aligned(load(path)) == (0, [])
    monkeypatch.setattr(recorded, "aligned", lambda _: (0, []))
    without = recorded.read(path)
    assert seen.findings == without.findings and seen.tables.keys() == without.tables.keys()
    for name, table in seen.tables.items():
        assert_frame_equal(table, without.tables[name])


@pytest.mark.parametrize("offset", [3 * MS, -2 * MS, -7_000_000 * MS])
@pytest.mark.parametrize("drift", [50e-6, -50e-6])
def test_a_clock_elsewhere_that_drifts(
    example: list[str], tmp_path: Path, offset: int, drift: float
) -> None:
    """Offset and drift are found from calls and waits alone, as near as these leave them."""
    first = begin(example)
    path = written(tmp_path, moved(example, lambda _, time: offset + round((time - first) * drift)))
    file = load(path)
    count, words = aligned(file)
    assert count == 242 and len(words) == 1
    holds(file)
    near = half_width(words[0])
    assert near < 300_000 and off(file, example, tmp_path) <= near + UNTOLD
    trace = recorded.read(
        written(tmp_path, moved(example, lambda _, time: offset + round((time - first) * drift)))
    )
    assert [(f.code, f.count, f.detail) for f in trace.findings] == [("P212", 242, words[0])]
    assert "device 0, 242 commands: clock" in words[0] and "contradict" not in words[0]


def test_offsets_that_the_recorder_changed_on_the_way_are_taken_back(
    example: list[str], tmp_path: Path
) -> None:
    """As on a remote device, where "queued" follows what stands in the queue: the file tells each
    offset before the rows that have it.
    """
    wandering, add, out = np.random.default_rng(5).integers(-9 * MS, 9 * MS, 40).tolist(), 0, []
    base = int(re.search(r"#deviceclock 0 \d+ (-?\d+)", "\n".join(example))[1])  # type: ignore[index]
    for k, text in enumerate(example):
        if k > 90 and k % 20 == 0 and wandering:
            add = int(wandering.pop())
            out.append(f"#deviceclock 0 {k} {base - add} 900 commands")
        out += moved([text], lambda _, __, add=add: add)  # type: ignore[misc]
    file = load(written(tmp_path, out))
    count, words = aligned(file)
    assert count == 242 and "contradict" not in words[0]
    holds(file)
    assert off(file, example, tmp_path) <= half_width(words[0]) + UNTOLD


def test_kinds_of_commands_on_two_clocks(example: list[str], tmp_path: Path) -> None:
    """Kernels and writes by a clock of another machine, reads by the host's: each kind is put right
    by its own line.
    """
    reads = COLUMNS.index("what")
    path = written(
        tmp_path,
        moved(
            example,
            lambda fields, _: 0 if fields[0] == "C" and fields[reads] == "2" else 5_000_000 * MS,
        ),
    )
    file = load(path)
    count, words = aligned(file)
    assert count == 242 and len(words) == 2
    assert [re.findall(r"device 0, (\d+) commands", text) for text in words] == [["222"], ["20"]]
    holds(file)
    assert off(file, example, tmp_path) <= half_width("; ".join(words)) + UNTOLD


def test_without_a_wait_commands_are_moved_as_little_as_calls_ask(
    example: list[str], tmp_path: Path
) -> None:
    silent = [text.replace(" (blocking)", "") for text in example if not text.startswith("Y,")]
    file = load(written(tmp_path, moved(silent, lambda *_: -3 * MS)))
    count, words = aligned(file)
    assert count == 242 and "one side only" in words[0]
    calls = {row["corr"]: row["start"] for row in file.table("A").iter_rows(named=True)}
    queued = pl.concat([file.table(x).select("corr", "queued", "start") for x in "KC"]).sort("corr")
    assert all(start >= calls[number] for number, _, start in queued.iter_rows())
    assert off(file, example, tmp_path) < MS


def remote(clock: str, turns: int = 200, way: int = MS) -> tuple[list[str], list[int]]:
    """A launch and a wait again and again, each way taking `way`, as a recorder has them that takes
    commands to be queued in their call.

    And true starts.
    """
    lag = np.random.default_rng(3).integers(0, 100_000, turns).tolist()
    lines, starts = (
        ["#turnbuckle-trace 1", "#api opencl", "#timebase monotonic", ",".join(COLUMNS)],
        [],
    )
    lines += [
        "#name 0 clEnqueueNDRangeKernel",
        "#name 1 clFinish",
        "#name 2 k",
        f"#deviceclock 0 1 0 5000 {clock}",
    ]

    def row(kind: str, **fields: int) -> str:
        return ",".join([kind, *(str(fields.get(name, "")) for name in COLUMNS[1:])])

    now = 10**12
    for turn in range(turns):
        call, start = now, now + way + lag[turn]
        end = start + 50_000
        done = end + way + lag[-turn]
        starts.append(start)
        lines += [
            row("A", start=call, end=call + 5000, corr=2 * turn + 1, tid=1, name=0, ret=0),
            row(
                "K",
                start=start - way,
                end=end - way,
                queued=start - way,
                corr=2 * turn + 1,
                dev=0,
                ctx=1,
                stream=1,
                name=2,
            ),
            row("A", start=call + 6000, end=done, corr=2 * turn + 2, tid=1, name=1, ret=0),
            row(
                "Y", start=call + 6000, end=done, corr=2 * turn + 2, tid=1, ctx=1, stream=1, what=3
            ),
        ]
        now = done + 10_000
    return [*lines, "#end"], starts


def test_commands_that_were_queued_after_their_call_are_on_another_machine(tmp_path: Path) -> None:
    """No sure bound is broken, but what the recorder's offset rests on; where it rests on the
    runtime's own timer, that stands.
    """
    lines, starts = remote("commands")
    file = load(written(tmp_path, lines))
    count, _ = aligned(file)
    assert count == 200
    assert np.abs(file.table("K")["start"].to_numpy() - np.array(starts)).max() < 100_000
    assert aligned(load(written(tmp_path, remote("timer")[0]))) == (0, [])


def test_a_few_broken_commands_move_nothing(tmp_path: Path) -> None:
    lines, _ = remote("timer")
    broken = [k for k, text in enumerate(lines) if text.startswith("K,")][:2]
    for k in broken:
        lines[k] = next(moved([lines[k]], lambda *_: -40 * MS))
    assert aligned(load(written(tmp_path, lines))) == (0, [])
    more = [
        next(moved([text], lambda *_: -40 * MS)) if text.startswith("K,") else text
        for text in lines
    ]
    assert aligned(load(written(tmp_path, more)))[0] == 200


def test_forged_offsets_and_lines_that_are_none_are_survived(
    example: list[str], tmp_path: Path
) -> None:
    forged = [
        f"#deviceclock 0 1 {10**17} 1 commands",
        "#deviceclock 0 1 -",
        "#deviceclock 99999999999 1 1 1 commands",
        "K,,",
        "C,x",
    ]
    file = load(
        written(
            tmp_path,
            [
                *moved(example[:-1], lambda *_: 3 * MS),
                *forged,
                f"K,{2**62},{2**62},15,,,0,1,1{',' * 18}",
                "#end",
            ],
        )
    )
    assert aligned(file)[0] == 242


def test_other_recorders_are_left_alone(example: list[str], tmp_path: Path) -> None:
    cuda = ["#api cuda" if text == "#api opencl" else text for text in example]
    assert aligned(load(written(tmp_path, moved(cuda, lambda *_: 3 * MS)))) == (0, [])


# --- the line itself


def held(
    fit: Line, at: np.ndarray, low: np.ndarray, high_at: np.ndarray, high: np.ndarray, by: float
) -> None:
    assert (fit.add(at) >= low - by).all() and (fit.add(high_at) <= high + by).all()
    assert abs(fit.last - fit.first) <= FASTEST * max(fit.end - fit.begin, 1) + 1


@given(
    st.integers(-(10**15), 10**15),
    st.floats(-180e-6, 180e-6),
    st.integers(1, 60),
    st.integers(1, 10**6),
    st.integers(1, 10**9),
    st.integers(0, 2**32 - 1),
)
def test_a_line_holds_all_bounds_and_is_as_near_as_it_says(
    offset: int, drift: float, count: int, lag: int, pause: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    host = 10**12 + np.cumsum(random.integers(lag, lag + pause, count))
    length, out, back = (random.integers(0, lag, count) for _ in range(3))

    def device(times: np.ndarray) -> np.ndarray:
        return times + offset + np.rint((times - 10**12) * drift).astype(np.int64)

    queued, ended = device(host + out), device(host + out + length)
    waited = random.random(count) < 0.7
    waited[-1] = True
    done = (host + out + length + back)[waited]
    fit = line(queued, host - queued, ended[waited], done - ended[waited])
    assert fit.short == 0 and fit.half is not None
    held(fit, queued, host - queued, ended[waited], done - ended[waited], 2)
    for there, right in ((queued, host + out), (ended, host + out + length)):
        inside = there <= fit.end
        assert (np.abs(there + fit.add(there) - right)[inside] <= fit.half + 2).all()


def test_bounds_that_no_line_holds_are_loosened_alike_by_the_least() -> None:
    at = np.arange(0, 10_000_000, 1_000_000)
    low = np.zeros(10, np.int64)
    high = np.full(10, 5000, np.int64)
    low[4] = 9000
    fit = line(at, low, at, high)
    # the one instant, whatever the slope
    assert fit.short == pytest.approx(4000, abs=5) and fit.half is not None
    held(fit, at, low, at, high, fit.short + 1)
    assert line(at, low - 4100, at, high).short == 0


def test_a_single_command_and_a_single_bound() -> None:
    fit = line(np.array([100]), np.array([7]), np.array([100]), np.array([17]))
    assert fit.add(np.array([100])).tolist() == [12] and fit.half == pytest.approx(6, abs=0.01)
    fit = line(np.array([100, 200]), np.array([7, 9]), np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert fit.add(np.array([100, 200])).tolist() == [9, 9] and fit.half is None
