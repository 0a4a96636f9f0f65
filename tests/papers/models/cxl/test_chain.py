"""Chains of accelerators: their flows against equation 12 and an event-by-event clock, their files,
and recordings as stages.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

import turnbuckle as tb
from turnbuckle.cost.pcie import Pcie
from turnbuckle.examples import sample
from turnbuckle.foundation.errors import TurnbuckleError, UnitError, UsageError
from turnbuckle.papers.models.cxl.chain import Chain, Flow, Link, Stage, play, with_recording
from turnbuckle.papers.models.cxl.chain_file import read_chain
from turnbuckle.papers.models.cxl.cost import cxl_line_seconds, pipeline_seconds
from turnbuckle.profile.profile import Profile

plain = settings(max_examples=60)
times = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.25, 7.0])

FILE = """
items = 10
in_flight = 3
start_up = "1 s"

[stage.read]
device = "host"
time = "0 s"

[stage.unpack]
device = "fpga"
time = "2 s"
receives = "8 MiB"

[stage.sum]
device = "gpu"
time = "1 s"
receives = {unpack = "16 MiB", read = "64 B"}

[link.host-fpga]
kind = "loggp"
latency = "1 us"
bandwidth = "8 GB/s"

[link.host-gpu]
kind = "pcie"
pcie = "pcie4-x16"
start_up = "1 us"

[link.gpu-fpga]
kind = "cxl2"
share = "90%"
line_time = "50 ns"
"""


def flow(chain: Chain, through: str, pipelined: bool) -> Flow:
    return next(f for f in play(chain).flows if (f.through, f.pipelined) == (through, pipelined))


def line(
    seconds: list[float], copies: list[float], items: int, in_flight: int | None = None
) -> Chain:
    """A chain over devices of its own, each message with its own time."""
    stages = [
        Stage(f"s{i}", f"d{i}", t, {f"s{i - 1}": 1.0} if i else None) for i, t in enumerate(seconds)
    ]
    links = {(f"d{i}", f"d{i + 1}"): Link("time", time=t) for i, t in enumerate(copies)}
    hosts = {("host", f"d{i}"): Link("time", time=0.125) for i in range(len(seconds))}
    return Chain(tuple(stages), {**links, **hosts}, items, in_flight)


# --- flows ----------------------------------------------------------------------------------------


@plain
@given(
    st.lists(times, min_size=1, max_size=5),
    st.lists(times, min_size=4, max_size=4),
    st.integers(1, 40),
)
def test_a_pipeline_of_devices_of_its_own_is_equation_12(
    seconds: list[float], copies: list[float], items: int
) -> None:
    chain = line(seconds, copies[: len(seconds) - 1], items)
    steps = [*seconds, *copies[: len(seconds) - 1]]
    assert flow(chain, "direct", True).seconds == pytest.approx(
        float(pipeline_seconds(steps, items)), rel=1e-12
    )
    assert flow(chain, "direct", False).seconds == pytest.approx(items * sum(steps), rel=1e-12)


def test_equal_stages_are_the_balanced_equation() -> None:
    chain = line([2.0] * 3, [2.0] * 2, 7)
    assert flow(chain, "direct", True).seconds == (5 + 7 - 1) * 2.0


def clock(steps: list[tuple[str, float]], items: int, in_flight: int) -> float:
    """Items through a line of steps on tracks of their own, one event after the other."""
    free: dict[str, float] = {}
    done: list[float] = []
    for item in range(items):
        now = done[item - in_flight] if item >= in_flight else 0.0
        for track, seconds in steps:
            now = max(now, free.get(track, 0.0)) + seconds
            free[track] = now
        done.append(now)
    return max(done)


@plain
@given(
    st.lists(times, min_size=1, max_size=4),
    st.lists(times, min_size=3, max_size=3),
    st.integers(1, 20),
    st.integers(1, 8),
)
def test_items_in_flight_are_limited(
    seconds: list[float], copies: list[float], items: int, in_flight: int
) -> None:
    chain = line(seconds, copies[: len(seconds) - 1], items, in_flight)
    steps = [(f"d{i}", t) for i, t in enumerate(seconds)]
    for i, t in reversed(list(enumerate(copies[: len(seconds) - 1]))):
        steps.insert(i + 1, (f"c{i}", t))
    wanted = clock(steps, items, min(in_flight, len(steps)))
    assert flow(chain, "direct", True).seconds == pytest.approx(wanted, rel=1e-12)


@plain
@given(st.lists(times, min_size=2, max_size=4), times, st.integers(1, 12), st.integers(1, 6))
def test_a_device_that_comes_twice_does_one_thing_at_a_time(
    seconds: list[float], copy: float, items: int, in_flight: int
) -> None:
    """Host first and last, as in a real chain: never faster than the busiest device, never slower
    than no overlap.
    """
    devices = ["host", "a", "b", "host"][: len(seconds)]
    stages = tuple(
        Stage(f"s{i}", d, t, {f"s{i - 1}": 1.0} if i else None)
        for i, (d, t) in enumerate(zip(devices, seconds, strict=True))
    )
    links = {
        (a, b): Link("time", time=copy)
        for a in ("host", "a", "b")
        for b in ("host", "a", "b")
        if a < b
    }
    for in_all in (in_flight, None):
        chain = Chain(stages, links, items, in_all)
        for through in ("host", "direct"):
            serial, piped = flow(chain, through, False), flow(chain, through, True)
            assert (
                serial.busy_seconds * (1 - 1e-12)
                <= piped.seconds
                <= serial.seconds * (1 + 1e-12) + 1e-12
            )
            assert sum(piped.path_seconds.values()) == pytest.approx(piped.seconds, rel=1e-12), (
                "the path explains the run time"
            )


def test_a_message_between_accelerators_goes_through_the_host_today() -> None:
    chain = line([1.0, 1.0], [0.25], 4)
    today, direct = flow(chain, "host", False), flow(chain, "direct", False)
    assert (today.seconds, direct.seconds) == (4 * 2.25, 4 * 2.25)
    assert set(today.path_seconds) == {"d0", "d1", "d0 to host", "host to d1"}
    assert set(direct.path_seconds) == {"d0", "d1", "d0 to d1"}
    assert (today.moved_seconds, direct.moved_seconds) == (0.25, 0.25)


def test_directions_of_a_link_do_not_disturb_each_other() -> None:
    stages = (
        Stage("out", "host", 0.0),
        Stage("work", "gpu", 0.0, {"out": 1.0}),
        Stage("back", "host", 0.0, {"work": 1.0}),
    )
    chain = Chain(stages, {("host", "gpu"): Link("time", time=1.0)}, 100)
    assert flow(chain, "host", True).seconds == 101.0, "a copy out and one back side by side"


def test_a_cached_message_costs_one_access_where_it_comes_fast_enough() -> None:
    """Equation 11's cache: the kernel ends no earlier than its data; equation 10's: it waits for
    every line.
    """

    def cached(own: float, link: Link) -> float:
        stages = (Stage("a", "fpga", 1.0), Stage("b", "gpu", own, {"a": 1e6}))
        hosts = {(d, "host"): Link("time", time=1.0) for d in ("fpga", "gpu")}
        return (
            flow(Chain(stages, {**hosts, ("fpga", "gpu"): link}, 1), "cached", False).seconds - 1.0
        )

    stream, lines = Link("cxl2"), Link("cxl1")
    assert cached(1.0, stream) == pytest.approx(1.0 + 40e-9, abs=1e-15)
    assert cached(0.0, stream) == pytest.approx(stream.seconds(1e6), rel=1e-9)
    assert cached(1.0, lines) == pytest.approx(1.0 + 15625 * 40e-9, rel=1e-12)


def test_a_flow_without_its_links_is_left_out_and_today_is_refused() -> None:
    stages = (Stage("a", "fpga", 1.0), Stage("b", "gpu", 1.0, {"a": 1e6}))
    hosts = {(d, "host"): Link("pcie") for d in ("fpga", "gpu")}
    found = play(Chain(stages, hosts, 3))
    assert {f.through for f in found.flows} == {"host"}
    assert found.left_out == (
        "direct: no link between fpga and gpu",
        "cached: no link between fpga and gpu",
    )
    assert play(Chain(stages, {**hosts, ("gpu", "fpga"): Link("pcie")}, 3)).left_out == (
        "cached: no message goes over a CXL link",
    )
    with pytest.raises(UsageError, match="A029") as caught:
        play(Chain(stages, {("fpga", "gpu"): Link("cxl2")}, 3))
    assert caught.value.fix == "add [link.fpga-host]"


def test_a_message_of_nothing_or_on_one_device_is_none() -> None:
    stages = (
        Stage("a", "gpu", 1.0),
        Stage("b", "gpu", 1.0, {"a": 1e9}),
        Stage("c", "fpga", 1.0, {"b": 0.0}),
    )
    found = play(Chain(stages, {}, 5))
    assert found.today.seconds == 15.0 and found.today.moved_seconds == 0.0
    assert found.penalty == 1.0


def test_links_price_messages_by_their_equations() -> None:
    n = 10_000.0
    assert (
        Link("pcie", "pcie4-x16", start_up=1e-6).seconds(n)
        == n / float(Pcie(4, 16).bandwidth(n, "both")) + 1e-6
    )
    assert Link("cxl1", lines_in_flight=4).seconds(n) == float(
        cxl_line_seconds(n, lines_in_flight=4)
    )
    wire = Pcie(4, 16).bandwidth(n, "both")
    assert Link("cxl1", "pcie4-x16", lines_in_flight=256).seconds(n) == n / float(wire)
    assert Link("loggp", latency=1e-6, bandwidth=1e10).seconds(n) == pytest.approx(2e-6)
    assert Link("time", time=3.0).seconds(n) == 3.0


def test_the_start_up_is_paid_once_and_the_penalty_is_equation_13() -> None:
    chain = replace(line([1.0, 3.0], [0.5], 10), start_up=2.0)
    found = play(chain)
    assert found.today.seconds == 10 * 4.25 + 2.0
    assert found.penalty == pytest.approx((10 * 4.25 + 2.0) / 40.0)


def test_too_many_steps_are_refused() -> None:
    refused("A029", play, line([1.0, 1.0], [1.0], 10**30))


# --- files ----------------------------------------------------------------------------------------


def read(tmp_path: Path, text: str | bytes) -> Chain:
    path = tmp_path / "chain.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_chain(path)


def test_a_file_is_read(tmp_path: Path) -> None:
    chain = read(tmp_path, FILE)
    assert (chain.items, chain.in_flight, chain.start_up, chain.name) == (10, 3, 1.0, "chain.toml")
    assert [(s.name, s.device, s.seconds) for s in chain.stages] == [
        ("read", "host", 0.0),
        ("unpack", "fpga", 2.0),
        ("sum", "gpu", 1.0),
    ]
    assert chain.stages[1].receives == {"read": 8 * 2**20}
    assert chain.stages[2].receives == {"unpack": 16 * 2**20, "read": 64.0}
    assert chain.link("fpga", "gpu") == Link("cxl2", share=0.9, line_time=50e-9)
    assert chain.link("gpu", "host") == Link("pcie", "pcie4-x16", start_up=1e-6)
    assert len(play(chain).flows) == 6
    document = play(chain).as_dict()
    assert document["links"]["gpu-fpga"] == {
        "kind": "cxl2",
        "pcie": "pcie3-x16",
        "share": 0.9,
        "line_seconds": 50e-9,
    }
    assert document["links"]["host-fpga"] == {
        "kind": "loggp",
        "latency_seconds": 1e-6,
        "bandwidth": 8e9,
    }


@pytest.mark.parametrize(
    ("old", "new", "code", "where"),
    [
        ("items = 10", "items = 0", "A027", "chain.toml:2:1"),
        ("items = 10", "items = true", "A027", "chain.toml:2:1"),
        ("items = 10", "itmes = 10", "A027", "chain.toml:2:1"),
        ("items = 10", "items = ", "A027", "chain.toml:2:"),
        ("in_flight = 3", "in_flight = 1.5", "A027", "chain.toml:3:1"),
        ('start_up = "1 s"\n\n', 'start_up = "-1 s"\n\n', "A027", "chain.toml:4:1"),
        ('start_up = "1 s"\n\n', "start_up = 1\n\n", "A027", "chain.toml:4:1"),
        ('start_up = "1 s"\n\n', 'start_up = "1 GB"\n\n', "U003", "chain.toml:4:1"),
        ('time = "2 s"', 'time = "2"', "U001", "chain.toml:12:8"),
        ('time = "2 s"', 'times = "2 s"', "A027", "chain.toml:12:1"),
        ('device = "fpga"', 'device = "F PGA"', "A027", "chain.toml:11:1"),
        ('device = "fpga"', "", "A027", "chain.toml:10:"),
        ('receives = "8 MiB"', 'receives = {nobody = "8 MiB"}', "A027", "chain.toml:13:"),
        ('receives = "8 MiB"', "receives = 8", "A027", "chain.toml:13:"),
        ('device = "host"\n', 'device = "host"\nreceives = "1 B"\n', "A027", "chain.toml:8:"),
        ("[link.host-fpga]", "[link.host-dpu]", "A027", "chain.toml:20:"),
        ("[link.host-fpga]", "[link.fpga-fpga]", "A027", "chain.toml:20:"),
        ("[link.host-fpga]", '[link."h\\u001b[31m"]', "A027", "chain.toml:20:"),
        ('kind = "loggp"', 'kind = "log"', "A027", "chain.toml:21:1"),
        ('kind = "loggp"', 'kind = "time"', "A027", "chain.toml:22:1"),
        ('latency = "1 us"\n', "", "A027", "chain.toml:20:"),
        ('bandwidth = "8 GB/s"', 'bandwidth = "0 GB/s"', "A027", "chain.toml:20:"),
        ('pcie = "pcie4-x16"', 'pcie = "nvlink3-x4"', "A027", "chain.toml:27:1"),
        ('pcie = "pcie4-x16"', 'pcie = "pcie9-x16"', "A016", ""),
        ('pcie = "pcie4-x16"', "pcie = 4", "A027", "chain.toml:27:1"),
        ('share = "90%"', "share = 1.5", "A027", "chain.toml:30:"),
        ('share = "90%"', "share = nan", "U004", "chain.toml:32:9"),
        ('share = "90%"', "share = 1e-320", "A027", "chain.toml:32:1"),
        ('kind = "loggp"', 'kind = ["loggp"]', "A027", "chain.toml:21:1"),
        ('kind = "loggp"', "kind = {a = 1}", "A027", "chain.toml:21:"),
        ('bandwidth = "8 GB/s"', 'bandwidth = "1e-300 GB/s"', "A027", "chain.toml:23:1"),
        ('start_up = "1 s"\n\n', 'start_up = "1e25 s"\n\n', "A027", "chain.toml:4:1"),
        ('start_up = "1 s"\n\n', 'start_up = "1e300 s"\n\n', "U005", "chain.toml:4:1"),
        ("[link.host-gpu]\n", "link = 3\n[x]\n", "A027", "chain.toml"),
    ],
)
def test_a_flaw_is_named_with_its_place(
    tmp_path: Path, old: str, new: str, code: str, where: str
) -> None:
    assert FILE.count(old) >= 1
    with pytest.raises(TurnbuckleError) as caught:
        read(tmp_path, FILE.replace(old, new, 1))
    assert caught.value.code == code, caught.value.lines()
    assert caught.value.where.startswith(where), caught.value.lines()
    assert "\x1b" not in "".join(caught.value.lines())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "items = 3\n",
        "stage = 3\n",
        "[stage]\nx = 1\n",
        "a" + ".a" * 100 + " = 1\n",
        "x = " + "[" * 4000,
        b"SQLite format 3\x00\xff",
    ],
)
def test_what_is_no_chain_is_refused(tmp_path: Path, text: str | bytes) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text)
    assert caught.value.code in ("A027", "A061")


def test_a_chain_without_times_needs_a_recording(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="A029") as caught:
        play(read(tmp_path, FILE.replace('time = "1 s"\n', "")))
    assert caught.value.what == "stage sum has no time"
    refused("A029", play, read(tmp_path, FILE.replace("items = 10\n", "")))


# --- recordings -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded() -> Profile:
    with sample() as path:
        return tb.read(path).profile


OPEN = Chain(
    (Stage("prepare", "fpga", 0.01), Stage("solve", "gpu", None), Stage("store", "host", 0.0)),
    {("fpga", "host"): Link("pcie")},
)


def test_a_recording_fills_in_what_is_left_open(recorded: Profile) -> None:
    from turnbuckle.profile.summary import summary

    chain = with_recording(OPEN, recorded)
    copies, kernels = summary.copies(recorded), summary.kernels(recorded)
    solve = chain.stages[1]
    assert solve.seconds == pytest.approx(kernels["union_ns"] * 1e-9)
    assert solve.receives == {"prepare": copies["h2d"]["bytes"]} and chain.stages[2].receives == {
        "solve": copies["d2h"]["bytes"]
    }
    link = chain.links["host", "gpu"]
    assert link.kind == "time" and link.time == pytest.approx(copies["h2d"]["busy_ns"] * 1e-9)
    assert chain.links["gpu", "host"].time == pytest.approx(copies["d2h"]["busy_ns"] * 1e-9)
    assert chain.items == 1 and {f.code for f in chain.findings} == {
        f.code for f in recorded.findings
    }
    assert solve.seconds is not None and play(chain).today.seconds > solve.seconds


def test_a_kernel_as_an_item_is_the_mean_and_says_so(recorded: Profile) -> None:
    whole, each = with_recording(OPEN, recorded), with_recording(OPEN, recorded, per="kernel")
    assert each.items is not None and each.items > 1
    assert (each.stages[1].seconds or 0.0) * each.items == pytest.approx(whole.stages[1].seconds)
    assert [f.count for f in each.findings if f.code == "A335"] == [each.items]


def test_what_the_file_states_is_kept(recorded: Profile) -> None:
    stated = replace(
        OPEN,
        stages=(
            OPEN.stages[0],
            Stage("solve", "gpu", None, {"prepare": 5.0}),
            Stage("store", "host", 0.0, {"solve": 6.0}),
        ),
        links={**OPEN.links, ("gpu", "host"): Link("pcie")},
        items=4,
    )
    chain = with_recording(stated, recorded, per="kernel")
    assert chain.items == 4 and chain.links == stated.links
    assert [s.receives for s in chain.stages[1:]] == [{"prepare": 5.0}, {"solve": 6.0}]


def test_the_open_stage_must_be_known(recorded: Profile) -> None:
    full = replace(OPEN, stages=tuple(replace(s, seconds=1.0) for s in OPEN.stages))
    for chain, stage in ((OPEN, "slove"), (OPEN, "prepare"), (full, None)):
        refused("A029", with_recording, chain, recorded, stage=stage)
    assert with_recording(OPEN, recorded, stage="solve").stages[1].seconds


def test_a_recording_without_kernels_is_refused(recorded: Profile) -> None:
    tables = {
        name: recorded.trace.table(name) for name in recorded.trace.has - {"kernels", "graphs"}
    }
    without = replace(recorded, trace=replace(recorded.trace, tables=tables))
    refused("A147", with_recording, OPEN, without)


def test_units_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UnitError):
        read(tmp_path, FILE.replace('receives = "8 MiB"', 'receives = "8 ms"'))
