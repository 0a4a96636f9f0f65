"""GOAL schedules: what is read and what is refused, and replays against LogGOPSim's rules written
out by hand.
"""

from __future__ import annotations

import heapq
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.foundation.errors import ProfileError
from turnbuckle.mpi import schedules
from turnbuckle.mpi.schedules import goal
from turnbuckle.mpi.schedules.goal import CALC, RECEIVE, SEND, Costs, Goal
from turnbuckle.replay.contention.contention import Fidelity, Leaves, replay

HEAD = "num_ranks 2\n"


def made(tmp_path: Path, text: str) -> Goal:
    path = tmp_path / "a.goal"
    path.write_text(text, encoding="utf-8")
    return goal.read(path)


def seconds(schedule: Goal, costs: Costs, fidelity: Fidelity = "logp") -> float:
    return replay(
        goal.program(schedule, costs, fidelity), costs.network(schedule.ranks), fidelity
    ).seconds


def loggopsim(schedule: Goal, costs: Costs) -> float:
    """The rules of LogGOPSim (models.md 3.2) for eager messages, event by event in whole
    picoseconds, without the engine.
    """
    latency, overhead, gap, each = (
        round(v * 1e12) for v in (costs.latency, costs.overhead, costs.gap, costs.seconds_per_byte)
    )
    count = len(schedule.rank)
    left = np.bincount(schedule.after, minlength=count)
    follows: list[list[tuple[int, bool]]] = [[] for _ in range(count)]
    for before, after, start in zip(
        schedule.before.tolist(), schedule.after.tolist(), schedule.by_start.tolist(), strict=True
    ):
        follows[before].append((after, start))
    of_send = dict(
        zip(
            schedule.sends[schedule.matched.send].tolist(),
            schedule.receives[schedule.matched.receive].tolist(),
            strict=True,
        )
    )
    free, out, into = ([0] * schedule.ranks for _ in range(3))
    posted: set[int] = set()
    arrived: set[int] = set()
    number = itertools.count()
    queue = [(0, next(number), op, False) for op in range(count) if left[op] == 0]

    def told(op: int, start: bool, now: int) -> None:
        for after, by_start in follows[op]:
            if by_start == start:
                left[after] -= 1
                if left[after] == 0:
                    rank = schedule.rank[after]
                    ready = (
                        max(free[rank], out[rank]) if schedule.kind[after] == SEND else free[rank]
                    )
                    heapq.heappush(queue, (max(now, ready), next(number), after, False))

    while queue:
        now, place, op, message = heapq.heappop(queue)
        rank, size = int(schedule.rank[op]), int(schedule.amount[op])
        if message:
            target = int(schedule.rank[of_send[op]])
            if (ready := max(free[target], into[target])) > now:
                heapq.heappush(queue, (ready, place, op, True))
                continue
            free[target], into[target] = (
                now + overhead + (size - 1) * each,
                now + gap + (size - 1) * each,
            )
            arrived.add(of_send[op])
            if of_send[op] in posted:
                told(of_send[op], False, now)
        elif schedule.kind[op] == RECEIVE:
            told(op, True, now)
            posted.add(op)
            if op in arrived:
                told(op, False, now)
        elif schedule.kind[op] == CALC:
            if free[rank] > now:
                heapq.heappush(queue, (free[rank], place, op, False))
                continue
            free[rank] = now + size * 1000
            told(op, True, now)
            told(op, False, now)
        else:
            if (ready := max(free[rank], out[rank])) > now:
                heapq.heappush(queue, (ready, place, op, False))
                continue
            free[rank], out[rank] = now + overhead, now + gap + (size - 1) * each
            heapq.heappush(queue, (now + overhead + latency, next(number), op, True))
            told(op, True, now)
            told(op, False, now)
    return max(free) / 1e12


def test_what_is_read(tmp_path: Path) -> None:
    text = """// a comment
num_ranks 2

rank 0 {
l1: send 8b to 1 tag 3 cpu 1 nic 2 // to the other
calc 100
l2: recv 16 b from 1
/* not
l9: calc 5 */
l3: calc 7 cpu 0
l3 requires l2
l2 irequires l1
}
rank 1 {
l1: recv 8b from 0 tag 3
l2: send 16b to 0
}
"""
    found = made(tmp_path, text)
    assert found.ranks == 2 and found.rank.tolist() == [0, 0, 0, 0, 1, 1]
    assert found.kind.tolist() == [SEND, CALC, RECEIVE, CALC, RECEIVE, SEND]
    assert found.amount.tolist() == [8, 100, 16, 7, 8, 16]
    assert (
        found.tag.tolist()[0],
        found.cpu.tolist()[0],
        found.nic.tolist()[0],
        found.line.tolist(),
    ) == (3, 1, 2, [5, 6, 7, 10, 15, 16])
    assert (found.before.tolist(), found.after.tolist(), found.by_start.tolist()) == (
        [2, 0],
        [3, 2],
        [False, True],
    )
    assert (found.matched.send.tolist(), found.matched.receive.tolist()) == ([0, 1], [1, 0])
    figures = found.figures
    assert figures.mpi() == {
        "count": 6,
        "calls": 6,
        "ranks": 2,
        "sends": {"count": 2, "bytes": 24},
        "receives": {"count": 2},
        "collectives": {},
        "messages": {"matched": 2, "unmatched": 0},
    }
    assert figures.compute_seconds == pytest.approx(107e-9) and figures.compute_flops is None
    assert [f.code for f in figures.findings] == ["A349"]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("num_ranks 0\n", "ranks are 1 to"),
        ("num_ranks 99999999999\n", "ranks are 1 to"),
        (HEAD + "calc 5\n", "num_ranks N comes first"),
        (HEAD + "rank 2 {\n}\n", "there are 2 ranks"),
        (HEAD + "rank 0 {\n}\nrank 0 {\n}\n", "rank 0 twice"),
        (HEAD + "rank 0 {\nl1: calc 5\n", "not closed"),
        (HEAD + "rank 0 {\nl1: wait 5\n}\n", "inside a rank stand"),
        (HEAD + "rank 0 {\nl1: send 5b from 1\n}\n", "sent to, and received from"),
        (HEAD + "rank 0 {\nl1: send 5b to 7\n}\n", "there are 2 ranks"),
        (HEAD + "rank 0 {\nl1: send 5b to -1\n}\n", "one receiver"),
        (HEAD + "rank 0 {\nl1: calc 5\nl1: calc 6\n}\n", "a label stands for one"),
        (HEAD + "rank 0 {\nl1: calc 5\nl1 requires l2\n}\n", "has the label l2"),
        (HEAD + "rank 0 {\nl1: calc 5 cpu 256\n}\n", "cpu and nic"),
        (HEAD + f"rank 0 {{\nl1: calc {10**30}\n}}\n", "beyond"),
        (HEAD + "rank 0 {\n\x1b[31m\n}\n", "inside a rank stand"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, cause: str) -> None:
    with pytest.raises(ProfileError) as caught:
        made(tmp_path, text)
    error = caught.value
    assert (
        error.code == "P023"
        and cause in error.cause
        and error.where.startswith("a.goal:")
        and error.fix
    )
    assert "\x1b" not in "".join(error.lines())


@pytest.mark.parametrize(
    ("lines", "where", "words"),
    [
        ("a: calc 1\na requires a", 3, "waits for itself"),
        ("a: calc 1\nb: calc 2\na requires b\nb requires a", 3, "lines"),
        ("a: calc 1\nb: calc 2\na irequires b\nb irequires a", 3, "lines"),
        (
            (
                "x: calc 1\na: calc 1\nb: calc 2\nc: calc 3\nd: calc 4\na requires x\n"
                "b requires a\nc irequires b\na requires c\nd requires c"
            ),
            4,
            "lines",
        ),
    ],
)
def test_rings_are_refused(tmp_path: Path, lines: str, where: int, words: str) -> None:
    with pytest.raises(ProfileError) as caught:
        made(tmp_path, f"num_ranks 1\nrank 0 {{\n{lines}\n}}\n")
    assert (
        caught.value.code == "P031"
        and words in caught.value.found
        and "rank 0" in caught.value.found
    )
    assert where <= int(caught.value.where.rsplit(":", 1)[1]) <= where + 2


def test_dependencies_backwards_in_the_file_are_none(tmp_path: Path) -> None:
    found = made(
        tmp_path,
        (
            "num_ranks 1\nrank 0 {\na: calc 1\nb: calc 2\nc: calc 3\na requires b\nb requires c\n"
            "a requires c\n}\n"
        ),
    )
    assert len(found.before) == 3


def test_ranks_of_which_nothing_is_said_are_counted(tmp_path: Path) -> None:
    found = made(tmp_path, "num_ranks 4\nrank 0 {\na: calc 1\n}\nrank 2 {\n}\n")
    assert {f.code: f.count for f in found.figures.findings} == {"A352": 2}


def test_a_long_comment_hides_no_schedule(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(
        b"\xef\xbb\xbf/*" + b"x\r\n" * 5000 + b"*/\r\nnum_ranks 1\r\nrank 0 {\r\n}\r\n"
    )
    assert schedules.sniff(path) and schedules.figures(path).ranks == 1


def test_receives_that_cannot_be_told(tmp_path: Path) -> None:
    one = HEAD + "rank 0 {\nsend 1b to 1 tag 4\n}\nrank 1 {\nrecv 1b from -1 tag -1\n}\n"
    assert made(tmp_path, one).matched.receive.tolist() == [0], "one stream only: no choice"
    text = (
        "num_ranks 3\nrank 0 {\nsend 1b to 2\n}\nrank 1 {\nsend 1b to 2\n}\nrank 2 {\n"
        "recv 1b from -1\nrecv 1b from -1\n}\n"
    )
    found = made(tmp_path, text)
    assert [(f.code, f.count) for f in found.figures.findings] == [("A347", 4)]
    assert "rank 2, line 9, from any rank" in refused("A078", goal.program, found).found
    caught = refused("A078", goal.program, made(tmp_path, HEAD + "rank 0 {\nrecv 1b from 1\n}\n"))
    assert caught.cause == "no send goes to this rank"


@pytest.mark.parametrize(
    "name", ["latency", "overhead", "gap", "seconds_per_byte", "overhead_per_byte", "eager_limit"]
)
@pytest.mark.parametrize("value", [-1.0, float("nan")])
def test_costs_that_cannot_be(tmp_path: Path, name: str, value: float) -> None:
    assert name in refused("A077", goal.program, made(tmp_path, HEAD), Costs(**{name: value})).found


def test_a_message_by_hand(tmp_path: Path) -> None:
    """One message: o + L + (n - 1) G + o; the second of two waits for the card, and its receiver's
    processor for the first.
    """
    c = Costs()
    one = made(tmp_path, HEAD + "rank 0 {\nsend 1000b to 1\n}\nrank 1 {\nrecv 1000b from 0\n}\n")
    assert (
        seconds(one, c)
        == pytest.approx(c.overhead + c.latency + 999 * c.seconds_per_byte + c.overhead, abs=1e-12)
        == loggopsim(one, c)
    )
    two = made(
        tmp_path,
        HEAD
        + "rank 0 {\nsend 1b to 1\nsend 1b to 1\n}\nrank 1 {\nrecv 1b from 0\nrecv 1b from 0\n}\n",
    )
    assert (
        seconds(two, c)
        == pytest.approx(2 * c.overhead + c.latency + c.overhead, abs=1e-12)
        == loggopsim(two, c)
    )
    wide = Costs(gap=5e-6)
    assert (
        seconds(two, wide)
        == pytest.approx(c.overhead + 5e-6 + c.latency + c.overhead, abs=1e-12)
        == loggopsim(two, wide)
    )


def test_requires_and_irequires(tmp_path: Path) -> None:
    """`requires` waits for the end, `irequires` for the begin; on one processor the latter still
    comes after.
    """
    body = "rank 0 {{\na: calc 100 cpu 0\nb: calc 50 cpu {cpu}\nb {what} a\n}}\n"
    for what, cpu, expected in (
        ("requires", 1, 150),
        ("irequires", 1, 100),
        ("irequires", 0, 150),
        ("requires", 0, 150),
    ):
        schedule = made(tmp_path, HEAD + body.format(what=what, cpu=cpu))
        assert seconds(schedule, Costs()) == pytest.approx(expected * 1e-9, abs=1e-12), (what, cpu)
    # behind an operation that itself waits for its processor
    queued = "rank 0 {\na: calc 100\nb: calc 100\nc: calc 10 cpu 1\nc irequires b\n}\n"
    assert seconds(made(tmp_path, HEAD + queued), Costs()) == pytest.approx(200e-9, abs=1e-12)
    late = "rank 0 {\na: calc 100\nb: calc 100\nc: calc 150 cpu 1\nc irequires b\n}\n"
    assert seconds(made(tmp_path, HEAD + late), Costs()) == pytest.approx(250e-9, abs=1e-12)


def test_a_long_message_waits_for_its_receive(tmp_path: Path) -> None:
    c = Costs(eager_limit=999)
    text = HEAD + (
        "rank 0 {\na: send 1000b to 1\nb: calc 1\nb requires a\n}\nrank 1 {\na: calc 9000\n"
        "b: recv 1000b from 0\nb requires a\n}\n"
    )
    schedule = made(tmp_path, text)
    assert Leaves.READY in goal.program(schedule, c).leaves
    flight = c.latency + 999 * c.seconds_per_byte
    assert seconds(schedule, c) == pytest.approx(9e-6 + flight + c.overhead, abs=1e-12)
    assert seconds(schedule, Costs()) == pytest.approx(c.overhead + flight + c.overhead, abs=1e-12)


def test_both_waiting_is_told(tmp_path: Path) -> None:
    text = "num_ranks 2\n" + "".join(
        f"rank {me} {{\na: recv 8b from {1 - me}\nb: send 8b to {1 - me}\nb requires a\n}}\n"
        for me in (0, 1)
    )
    refused("A071", seconds, made(tmp_path, text), Costs())


def test_flow_counts_all_bytes(tmp_path: Path) -> None:
    c = Costs(overhead=0.0, latency=2e-6, seconds_per_byte=1e-9)
    one = made(tmp_path, HEAD + "rank 0 {\nsend 1000b to 1\n}\nrank 1 {\nrecv 1000b from 0\n}\n")
    assert seconds(one, c, "flow") == pytest.approx(2e-6 + 1e-6, abs=1e-11)


@st.composite
def chains(draw: st.DrawFn) -> tuple[str, int]:
    """Ranks that do one thing after the other, and the longest path through them where only latency
    and computing cost [ns].
    """
    ranks = draw(st.integers(2, 4))
    lines: list[list[str]] = [[] for _ in range(ranks)]
    at = [0] * ranks
    for tag in range(draw(st.integers(1, 12))):
        who = draw(st.integers(0, ranks - 1))
        whom = draw(st.integers(0, ranks - 1))
        if who == whom:
            amount = draw(st.integers(0, 9000))
            lines[who].append(f"calc {amount}")
            at[who] += amount
        else:
            lines[who].append(f"send 1b to {whom} tag {tag}")
            lines[whom].append(f"recv 1b from {who} tag {tag}")
            at[whom] = max(at[whom], at[who] + 2500)
    text = f"num_ranks {ranks}\n"
    for rank, body in enumerate(lines):
        text += f"rank {rank} {{\n" + "".join(f"l{k}: {line}\n" for k, line in enumerate(body))
        text += "".join(f"l{k} requires l{k - 1}\n" for k in range(1, len(body))) + "}\n"
    return text, max(at)


@settings(max_examples=40)
@given(chains())
def test_without_overheads_it_is_the_longest_path(
    tmp_path_factory: pytest.TempPathFactory, drawn: tuple[str, int]
) -> None:
    text, longest = drawn
    schedule = made(tmp_path_factory.getbasetemp(), text)
    bare = Costs(overhead=0.0, gap=0.0)
    assert (
        seconds(schedule, bare)
        == pytest.approx(longest * 1e-9, abs=1e-12)
        == loggopsim(schedule, bare)
    )
    assert round(seconds(schedule, Costs(gap=0.0)) * 1e12) >= longest * 1000


@pytest.mark.parametrize(("name", "sends"), [("binary_tree_32", 31), ("dissemination_32", 160)])
def test_the_schedules_of_loggopsim(shared: Path, name: str, sends: int) -> None:
    """Counts as `truth.json` has them; times as LogGOPSim's rules give them, for its default costs
    and for others.
    """
    path = shared / "traces" / "goal" / "loggopsim_schedules" / f"{name}.goal"
    assert schedules.sniff(path)
    mpi = schedules.figures(path).mpi()
    assert (mpi["ranks"], mpi["sends"], mpi["receives"]) == (
        32,
        {"count": sends, "bytes": sends},
        {"count": sends},
    )
    assert mpi["messages"] == {"matched": sends, "unmatched": 0}
    schedule = goal.read(path)
    for costs in (
        Costs(),
        Costs(latency=1e-6, overhead=0.3e-6, gap=0.2e-6),
        Costs(gap=4e-6),
        Costs(overhead=0.0, gap=0.0),
    ):
        assert seconds(schedule, costs) == pytest.approx(loggopsim(schedule, costs), abs=1e-12)
    # five rounds of o + L + o
    assert seconds(schedule, Costs()) == pytest.approx(27.5e-6, abs=1e-12)


def test_it_is_no_list_of_calls(shared: Path) -> None:
    refused(
        "A077",
        schedules.read,
        shared / "traces" / "goal" / "loggopsim_schedules" / "binary_tree_32.goal",
        flops_per_second=1e9,
    )
