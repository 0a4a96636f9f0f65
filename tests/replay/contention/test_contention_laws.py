"""Laws of the contention replay: what holds for every program, and what is known not to hold."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import program

from turnbuckle.foundation.arrays import Float
from turnbuckle.replay.contention.contention import (
    PICOSECONDS,
    Contended,
    Fidelity,
    Leaves,
    Op,
    Program,
    of_tasks,
    replay,
)
from turnbuckle.replay.contention.network import Dragonfly, FatTree, Network, Torus
from turnbuckle.replay.tasks import Tasks, replay_tasks

Lists = list[list[tuple[Op, int]]]
#: Source, target, bytes (seconds of an edge), way to leave.
Message = tuple[int, int, float, Leaves]
SEEDS: Final = st.integers(0, 2**32 - 1)
BOTH: Final[tuple[Fidelity, ...]] = ("logp", "flow")
#: A picosecond, and what float64 makes of times of seconds.
TICK: Final = 1.5 / PICOSECONDS


@dataclass(frozen=True)
class Case:
    """A program as lists, before it is packed."""

    lists: Lists
    messages: list[Message]
    work: list[float]
    uses: list[tuple[int, float]]
    capacity: list[int]
    host: list[int]

    def program(self) -> Program:
        return program(
            self.lists, self.messages, self.work, self.host, self.uses, capacity=self.capacity
        )


def drawn(
    seed: int, *, hosts: int = 6, most: int = 40, using: bool = True, edges: bool = True
) -> Case:
    """A program that cannot get stuck: messages in one order that all processes keep, work and
    shared resources between them.

    Durations are so long that hardly two events fall on one picosecond.
    """
    rng = np.random.default_rng(seed)
    processes = hosts + int(rng.integers(0, 3))
    lists: Lists = [[] for _ in range(processes)]
    messages: list[Message] = []
    work: list[float] = []
    uses: list[tuple[int, float]] = []

    def busy(process: int, *, alone: bool = False) -> None:
        seconds = float(rng.integers(1, 40_000_000)) / PICOSECONDS
        if using and not alone and rng.random() < 0.3:
            uses.append((int(rng.integers(2)), seconds))
            lists[process].append((Op.USE, len(uses) - 1))
        else:
            work.append(seconds)
            lists[process].append((Op.WORK, len(work) - 1))

    for process in range(processes):
        busy(process, alone=True)  # so that they do not all want the same at 0
    for m in range(int(rng.integers(1, most))):
        source, target = (int(p) for p in rng.choice(processes, 2, replace=False))
        leaves = Leaves(int(rng.choice([0, 1, 2] if edges else [1, 2])))
        size = float(rng.integers(0, 300_000)) * (1e-12 if leaves == Leaves.EDGE else 1.0)
        messages.append((source, target, size, leaves))
        for process in (source, target):
            if rng.random() < 0.6:
                busy(process)
        lists[source] += [(Op.SEND, m), *([(Op.SENT, m)] if rng.random() < 0.4 else [])]
        lists[target] += [(Op.POST, m), (Op.AWAIT, m)]
    return Case(
        lists, messages, work, uses, [1, 2] if using else [], [p % hosts for p in range(processes)]
    )


def costly(hosts: int, shape: FatTree | Torus | Dragonfly | None = None) -> Network:
    """A network on which everything costs something."""
    overheads = {"send_overhead": 0.31e-6, "receive_overhead": 0.47e-6, "overhead_per_byte": 3e-12}
    costs = {
        "inside_bandwidth": 40e9,
        "inside_seconds": 0.1e-6,
        "latency": 1.1e-6,
        "gap": 0.2e-6,
        "seconds_per_byte": 8e-11,
    }
    return Network(hosts, 12.5e9, 0.25e-6, shape, **costs, **overheads)


SHAPES: Final = {
    "switch": None,
    "fat tree": FatTree((4, 4), (1, 4), (1, 1)),
    "tapered": FatTree((4, 2, 2), (1, 2, 1), (1, 1, 2)),
    "torus": Torus((4, 2), 2),
    "dragonfly": Dragonfly(4, 2, 2, 2),
}


def digest(found: Contended) -> str:
    """Every bit of an answer."""
    one = hashlib.sha256()
    for values in (
        found.ends,
        found.waited,
        found.began,
        found.arrived,
        found.done,
        found.carried_bytes,
        np.array([found.events]),
    ):
        one.update(values.tobytes())
    return one.hexdigest()


# --- equal to the timeline ------------------------------------------------------------------------


def graph(seed: int, *, tasks: int = 300) -> Tasks:
    """A large random graph: tasks on a few tracks and on none, edges forward, whole picoseconds."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, tasks))
    ends = np.sort(rng.integers(0, count, (int(rng.integers(0, 4 * count)), 2)), axis=1)
    ends = ends[ends[:, 0] < ends[:, 1]]
    seconds, lags = (
        rng.integers(0, 10**9, size).astype(float) / PICOSECONDS for size in (count, len(ends))
    )
    return Tasks(seconds, rng.integers(-1, 6, count), ends[:, 0], ends[:, 1], lags)


@settings(max_examples=40)
@given(SEEDS, st.sampled_from(BOTH))
def test_without_contention_it_is_the_timeline(seed: int, fidelity: Fidelity) -> None:
    """Every end of every task, of graphs of hundreds, whatever the network: edges use no link."""
    tasks = graph(seed)
    one = of_tasks(tasks)
    found = replay(one, costly(1), fidelity, traced=True)
    known = replay_tasks(tasks)
    ends = np.full(len(tasks), np.nan)
    ends[one.arg[one.code == Op.WORK]] = found.done[one.code == Op.WORK]
    assert np.abs(ends - known.end_seconds).max() < TICK
    assert found.seconds == pytest.approx(known.seconds, abs=TICK)


@settings(max_examples=40)
@given(SEEDS)
def test_sharing_never_shortens_what_is_behind_one_resource(seed: int) -> None:
    """P5: with every task on one track of a resource that serves one, no run is shorter than the
    timeline without it.
    """
    tasks = graph(seed, tasks=60)
    one = of_tasks(tasks)
    using = replace(
        one,
        code=np.where(one.code == Op.WORK, Op.USE, one.code).astype(np.uint8),
        work_seconds=np.zeros(0),
        use_seconds=tasks.seconds,
        resource=np.arange(len(tasks)) % 3,
        capacity=np.array([1, 1, 2]),
    )
    shared = replay(using, costly(1), "flow")
    assert shared.seconds >= replay_tasks(tasks).seconds - TICK
    # with room for everybody it is the timeline again
    roomy = replace(using, capacity=np.full(3, max(len(tasks), 1)))
    assert replay(roomy, costly(1), "flow").seconds == pytest.approx(
        replay_tasks(tasks).seconds, abs=TICK
    )


# --- bytes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=25)
@given(SEEDS)
def test_every_byte_goes_over_a_whole_route(name: str, seed: int) -> None:
    """What a host sends to others leaves by its card and comes in by theirs; no level of a tree, no
    router keeps or makes a byte.
    """
    case = drawn(seed, hosts=16)
    one, network = case.program(), costly(16, SHAPES[name])
    found = replay(one, network, "flow")
    carried = dict(zip(network.links(), found.carried_bytes.tolist(), strict=True))
    start, end = one.host[one.source], one.host[one.target]
    real = one.leaves != Leaves.EDGE
    away = real & (start != end)
    for host in range(16):
        mine = [
            (k.split()[2], v) for k, v in carried.items() if k.split()[:2] == ["card", str(host)]
        ]
        out, into = (
            sum(v for way, v in mine if way in ways) for ways in (("out", "up"), ("in", "down"))
        )
        assert (out, into) == (
            one.size_bytes[away & (start == host)].sum(),
            one.size_bytes[away & (end == host)].sum(),
        )
        assert carried[f"node {host}: host"] == one.size_bytes[real & ~away & (start == host)].sum()
    for junction, (comes, leaves) in balance(network, carried).items():
        assert comes == leaves, junction
    assert (
        found.carried_bytes <= np.array(network.capacities()) * found.seconds * (1 + 1e-9) + 1
    ).all()


def balance(network: Network, carried: dict[str, float]) -> dict[str, tuple[float, float]]:
    """Bytes up and down at each level of a tree, into and out of each router of a torus."""
    out: dict[str, tuple[float, float]] = {}
    match network.shape:
        case FatTree(down, _, _):
            # what goes up at a level comes down at it: all routes turn round at one switch
            for level in range(len(down)):
                what = "card" if level == 0 else f"level {level} switch"
                up, back = (
                    sum(v for k, v in carried.items() if k.startswith(what) and f" {way}" in k)
                    for way in ("up", "down")
                )
                out[what] = (up, back)
        case Torus(dims, cards):
            strides = np.cumprod([1, *dims])
            flows = np.zeros((int(strides[-1]), 2))
            for link, size in carried.items():
                word = link.split()
                if word[0] == "card":
                    flows[int(word[1]) // cards, int(word[2] == "in")] += size
                elif word[0] == "router":
                    k = "xyzuvw".index(word[2][1])
                    router, step = int(word[1]), 1 if word[2][0] == "+" else -1
                    place = router // strides[k] % dims[k]
                    other = router + ((place + step) % dims[k] - place) * strides[k]
                    flows[router, 1] += size
                    flows[other, 0] += size
            out |= {
                f"router {r}": (float(comes), float(goes)) for r, (comes, goes) in enumerate(flows)
            }
        case _:
            pass
    return out


# --- the same again -------------------------------------------------------------------------------


def all_digests(seed: int) -> list[str]:
    """Of one program on every shape, in both fidelities."""
    one = drawn(seed, hosts=16, most=200).program()
    return [
        digest(replay(one, costly(16, shape), fidelity, traced=True))
        for shape in SHAPES.values()
        for fidelity in BOTH
    ]


def test_the_same_from_many_threads_at_once() -> None:
    expected = all_digests(7)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(all_digests, [7] * 24):
            assert found == expected


def test_one_program_for_all_threads() -> None:
    """The arrays are taken as they are, by several replays at once."""
    one = drawn(8, hosts=16, most=400).program()
    compact = replace(
        one,
        first=one.first.astype(np.uint32),
        arg=one.arg.astype(np.uint32),
        source=one.source.astype(np.uint32),
        target=one.target.astype(np.uint32),
        host=one.host.astype(np.uint32),
    )
    expected = digest(replay(one, costly(16), "flow", traced=True))
    with ThreadPoolExecutor(8) as pool:
        assert {
            digest(found)
            for found in pool.map(
                lambda _: replay(compact, costly(16), "flow", traced=True), range(32)
            )
        } == {expected}


def test_the_same_from_another_process_with_another_hash_seed() -> None:
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]; import test_contention_laws as t; "
        "print(*t.all_digests(9))"
    )
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"  # this process has another
    found = subprocess.run(
        [
            sys.executable,
            "-c",
            code,
            str(Path(__file__).parent),
            str(Path(__file__).parents[2] / "builders"),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env=os.environ
        | {"PYTHONHASHSEED": seed, "OPENBLAS_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"},
    )
    assert found.stdout.split() == all_digests(9)


# --- what makes no difference ---------------------------------------------------------------------


@settings(max_examples=60)
@given(SEEDS, st.sampled_from(BOTH))
def test_names_make_no_difference(seed: int, fidelity: Fidelity) -> None:
    """P16: processes, hosts of a switch, messages and resources under other numbers: every time
    moves along, unchanged.
    """
    case = drawn(seed)
    rng = np.random.default_rng(seed + 1)
    processes, messages = (rng.permutation(n) for n in (len(case.lists), len(case.messages)))
    hosts, resources = rng.permutation(6), rng.permutation(2)
    new_of = np.argsort(messages)  # old message -> new
    lists: Lists = [[] for _ in case.lists]
    moved_hosts = [0] * len(case.lists)
    for old, new in enumerate(processes.tolist()):
        lists[new] = [
            (op, arg if op in (Op.WORK, Op.USE) else int(new_of[arg]))
            for op, arg in case.lists[old]
        ]
        moved_hosts[new] = int(hosts[case.host[old]])
    turned: list[Message] = [case.messages[m] for m in messages.tolist()]
    turned = [(int(processes[s]), int(processes[t]), n, way) for s, t, n, way in turned]
    capacity = [0, 0]
    for old, new in enumerate(resources.tolist()):
        capacity[new] = case.capacity[old]
    other = Case(
        lists,
        turned,
        case.work,
        [(int(resources[r]), s) for r, s in case.uses],
        capacity,
        moved_hosts,
    )
    before, after = (replay(c.program(), costly(6), fidelity, traced=True) for c in (case, other))
    # rates are summed in another order: a picosecond for each change of a rate
    slack = 0.0 if fidelity == "logp" else len(case.messages) * TICK
    assert np.abs(after.ends[processes] - before.ends).max() <= slack
    assert np.abs(after.arrived[new_of] - before.arrived).max() <= slack


@settings(max_examples=60)
@given(SEEDS, st.sampled_from(BOTH))
def test_work_in_two_parts_is_the_same_work(seed: int, fidelity: Fidelity) -> None:
    """P16, under contention too: nobody sees where one part ends and the next begins."""
    case = drawn(seed)
    rng = np.random.default_rng(seed + 2)
    work, lists = list(case.work), [list(one) for one in case.lists]
    for one in lists:
        for at in reversed([k for k, (op, _) in enumerate(one) if op == Op.WORK]):
            whole = round(work[one[at][1]] * PICOSECONDS)
            first = int(rng.integers(0, whole + 1))
            one[at : at + 1] = [(Op.WORK, len(work)), (Op.WORK, len(work) + 1)]
            work += [first / PICOSECONDS, (whole - first) / PICOSECONDS]
    before, after = (
        replay(c.program(), costly(6), fidelity, traced=True)
        for c in (case, replace(case, lists=lists, work=work))
    )
    for name in ("ends", "waited", "began", "arrived", "carried_bytes"):
        assert getattr(before, name).tolist() == getattr(after, name).tolist(), name


@settings(max_examples=60)
@given(SEEDS, st.sampled_from(BOTH))
def test_an_edge_that_says_what_is_known_changes_nothing(seed: int, fidelity: Fidelity) -> None:
    """P16, under contention too: beside each message an edge from behind its send to behind its
    arrival, without a delay.
    """
    case = drawn(seed, edges=False)
    messages, lists = list(case.messages), [list(one) for one in case.lists]
    for m, (source, target, _, _) in enumerate(case.messages):
        edge = len(messages)
        messages.append((source, target, 0.0, Leaves.EDGE))
        lists[source].insert(lists[source].index((Op.SEND, m)) + 1, (Op.SEND, edge))
        lists[target].insert(lists[target].index((Op.AWAIT, m)) + 1, (Op.AWAIT, edge))
    before, after = (
        replay(c.program(), costly(6), fidelity, traced=True)
        for c in (case, replace(case, lists=lists, messages=messages))
    )
    count = len(case.messages)
    assert (
        before.ends.tolist() == after.ends.tolist()
        and before.waited.tolist() == after.waited.tolist()
    )
    assert before.arrived.tolist() == after.arrived[:count].tolist()


@settings(max_examples=60)
@given(SEEDS, st.sampled_from([0.5, 2.0, 3.0, 10.0]), st.sampled_from(list(SHAPES)))
def test_wider_links_divide_the_time_of_flows(seed: int, times: float, name: str) -> None:
    """P7: messages alone, no latency: all capacities times k divide every time by k, whatever waits
    for what.
    """
    case = drawn(seed, hosts=16, using=False, edges=False)
    one = replace(case.program(), work_seconds=np.zeros(len(case.work)))
    narrow = Network(16, 2e9, 0.0, SHAPES[name], inside_bandwidth=7e9)
    wide = replace(
        narrow, bandwidth=narrow.bandwidth * times, inside_bandwidth=narrow.inside_bandwidth * times
    )
    before, after = (replay(one, network, "flow", traced=True) for network in (narrow, wide))
    slack = max(times, 1.0) * len(case.messages) * 2 * TICK
    assert np.abs(after.arrived * times - before.arrived).max() <= slack
    assert after.seconds * times == pytest.approx(before.seconds, abs=slack)


@settings(max_examples=40)
@given(SEEDS, st.sampled_from(BOTH))
def test_everything_slower_is_as_much_slower(seed: int, fidelity: Fidelity) -> None:
    """P7: all times and inverse rates doubled, contention or not: every time doubles."""
    case, network = drawn(seed), costly(6)
    times = ("hop_seconds", "inside_seconds", "latency", "gap", "seconds_per_byte")
    longer = {
        name: 2 * getattr(network, name)
        for name in (*times, "send_overhead", "receive_overhead", "overhead_per_byte")
    }
    slow = replace(
        network,
        bandwidth=network.bandwidth / 2,
        inside_bandwidth=network.inside_bandwidth / 2,
        **longer,
    )
    doubled: list[Message] = [
        (s, t, 2 * n if way == Leaves.EDGE else n, way) for s, t, n, way in case.messages
    ]
    twice = replace(
        case,
        messages=doubled,
        work=[2 * s for s in case.work],
        uses=[(r, 2 * s) for r, s in case.uses],
    )
    before, after = (
        replay(case.program(), network, fidelity),
        replay(twice.program(), slow, fidelity),
    )
    # each message rounds a few parts to a picosecond
    assert np.abs(after.ends - 2 * before.ends).max() <= 8 * len(case.messages) * TICK


# --- fair shares ----------------------------------------------------------------------------------


def flows(messages: list[tuple[int, int, float]], hosts: int, bandwidth: float) -> Contended:
    """One process for each message, all at once, on a switch without latency."""
    lists: Lists = [[(Op.SEND, m)] for m in range(len(messages))]
    lists += [[(Op.AWAIT, m)] for m in range(len(messages))]
    count = len(messages)
    case = Case(
        lists,
        [(m, count + m, size, Leaves.EAGER) for m, (_, _, size) in enumerate(messages)],
        [],
        [],
        [],
        [s for s, _, _ in messages] + [t for _, t, _ in messages],
    )
    return replay(case.program(), Network(hosts, bandwidth, 0.0), "flow", traced=True)


def test_the_known_case_of_max_min() -> None:
    """P10: two links of 10, one flow over both, one over the first, four over the second: 2, 8, and
    2 each.
    """
    messages = [(0, 1, 2e6), (0, 2, 8e6), *((k, 1, 2e6) for k in range(3, 7))]
    found = flows(messages, 7, 10e9)
    # so much that all end together
    assert found.arrived.tolist() == pytest.approx([1e-3] * 6, abs=TICK)


def by_hand(messages: list[tuple[int, int, float]], bandwidth: float) -> Float:
    """When each flow ends: rates by raising all together until a link is full, again after each
    end.
    """
    links = [{("out", s), ("in", t)} for s, t, _ in messages]
    left = np.array([size for _, _, size in messages])
    ends, now = np.full(len(messages), np.nan), 0.0
    while (open_ := np.flatnonzero(np.isnan(ends))).size:
        rate = np.zeros(len(messages))
        free, room = (
            set(open_.tolist()),
            dict.fromkeys(set().union(*(links[m] for m in open_)), bandwidth),
        )
        while free:
            users = {link: [m for m in free if link in links[m]] for link in room}
            full = min(
                (link for link in room if users[link]),
                key=lambda link: room[link] / len(users[link]),
            )
            share = room[full] / len(users[full])
            for m in users[full]:
                rate[m] = share
                free.discard(m)
                for link in links[m]:
                    room[link] -= share
        step = float((left[open_] / rate[open_]).min())
        left[open_] -= rate[open_] * step
        now += step
        ends[open_[left[open_] <= 1e-6 * bandwidth * 1e-6]] = now
    return ends


@settings(max_examples=60)
@given(SEEDS)
def test_flows_end_when_a_hand_made_filling_says(seed: int) -> None:
    """Feasible and bottlenecked at every moment, or the ends would differ."""
    rng = np.random.default_rng(seed)
    hosts = int(rng.integers(2, 6))
    messages = []
    for _ in range(int(rng.integers(1, 12))):
        source, target = (int(h) for h in rng.choice(hosts, 2, replace=False))
        messages.append((source, target, float(rng.integers(1, 10_000_000))))
    assert flows(messages, hosts, 5e9).arrived == pytest.approx(
        by_hand(messages, 5e9), rel=1e-9, abs=len(messages) * TICK
    )


# --- what does not hold ---------------------------------------------------------------------------


def test_first_come_first_served_can_punish_speed() -> None:
    """P6: work of 2 instead of 6 before a shared resource lets the job in first that matters less:
    18 instead of 16.
    """

    def seconds(before: float) -> float:
        lists: Lists = [[(Op.WORK, 0), (Op.USE, 0), (Op.WORK, 1)], [(Op.WORK, 2), (Op.USE, 1)]]
        case = Case(lists, [], [5.0, 7.0, before], [(0, 4.0), (0, 5.0)], [1], [0, 0])
        return replay(case.program(), costly(1)).seconds

    assert (seconds(6.0), seconds(2.0)) == (16.0, 18.0)


def test_a_wider_link_can_lengthen_a_run_by_a_fifth() -> None:
    """P6: 1.5 times as wide a link inside one host brings a message earlier into the way of one
    that matters more: 18.8 % longer.
    """

    def seconds(inside: float) -> float:
        first, second, third, last = range(4)
        lists: Lists = [
            [(Op.SEND, 0)],
            [(Op.AWAIT, 0), (Op.SEND, 1)],
            [(Op.WORK, 0), (Op.SEND, 2)],
            [(Op.AWAIT, 2), (Op.WORK, 1), (Op.AWAIT, 1)],
        ]
        messages: list[Message] = [
            (first, second, 9e6, Leaves.EAGER),
            (second, last, 3e6, Leaves.EAGER),
            (third, last, 3e6, Leaves.EAGER),
        ]
        case = Case(lists, messages, [6e-3, 7e-3], [], [], [1, 1, 0, 2])
        return replay(case.program(), Network(3, 1e9, 0.0, inside_bandwidth=inside), "flow").seconds

    assert (seconds(1e9), seconds(1.5e9)) == pytest.approx((16e-3, 19e-3), abs=TICK)
    assert round((seconds(1.5e9) / seconds(1e9) - 1) * 100, 1) == 18.8
