"""Laws 2, 3 and 4: the envelope holds, slower is never faster, run time is convex in every time,
the limits are what they must be.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import FULL, LAW, RATES, TIMES, gpu_traces, machine, soups

from turnbuckle.machine import Fact, Machine, Pair, load, names, schema
from turnbuckle.profile.pieces import pieces
from turnbuckle.profile.profile import build
from turnbuckle.profile.source import observed_machine
from turnbuckle.projection.anchor import anchored
from turnbuckle.projection.model import additive, nething
from turnbuckle.projection.order import prepared
from turnbuckle.projection.project import answered, project
from turnbuckle.trace.trace import Trace

READS = {"link.tags": 256.0, "link.read_request": 512.0, "link.round_trip": 0.9e-6}
#: Everything of a target that is a time, or whose inverse is one.
LINES = tuple(
    n
    for n in (*TIMES, "link.round_trip", *RATES, "link.h2d.efficiency")
    if not n.startswith("observed") and n != "gpu.fp64"
)
ALPHAS = ("flop", "memory", "hold")

Replay = Literal["sum", "auto"]
#: auto: the timeline where the drawn order can be trusted; the laws of graphs nobody would trust
#: are in test_graph_laws
REPLAYS: st.SearchStrategy[Replay] = st.sampled_from(["sum", "auto"])
factors = st.floats(0.01, 100.0)
lambdas = st.dictionaries(
    st.sampled_from(["data", "kernel", "control", "launch", "copy", "alloc", "event"]),
    factors,
    min_size=1,
)


def is_time(name: str) -> bool:
    return schema()[name].unit == "s"


@LAW
@given(
    gpu_traces() | soups(),
    st.lists(factors, min_size=len(LINES), max_size=len(LINES)),
    st.sampled_from(ALPHAS),
    lambdas,
    st.sampled_from([0.0, 1e-6, 1e-4]),
    REPLAYS,
)
def test_envelope(
    trace: Trace,
    by: list[float],
    alpha: str,
    improvements: dict[str, float],
    slack: float,
    replay: Replay,
) -> None:
    profile = build(trace)
    source = machine(FULL | READS)
    target = machine(
        {
            **FULL,
            **READS,
            **{n: (FULL | READS)[n] * f for n, f in zip(LINES, by, strict=True)},
            "slack.call": slack,
        },
        "there",
    )
    target = machine(
        {
            n: min(p.value, 1.0) if n.endswith("efficiency") else p.value
            for n, p in target.parameters.items()
        },
        "there",
    )
    ready = prepared(profile, replace(nething(alpha), replay=replay))
    for asked in (nething(alpha), additive(improvements)):
        found = answered(profile, ready, Pair(source, target), replace(asked, replay=replay))
        lower, upper = found.envelope
        room = 1e-12 * max(upper, 1e-9)
        assert 0 <= lower <= found.measured_seconds + room
        assert upper >= found.measured_seconds - room
        assert lower - room <= found.seconds <= upper + room
        assert min(found.breakdown.values()) >= 0
        assert sum(found.breakdown.values()) == pytest.approx(found.seconds, rel=1e-9, abs=1e-15)


@LAW
@given(gpu_traces() | soups(), st.sampled_from(names()), st.sampled_from(ALPHAS))
def test_envelope_on_the_catalogue(trace: Trace, target: str, alpha: str) -> None:
    profile = build(trace)
    source, _, _ = observed_machine(profile)
    found = project(profile, Pair(source, load(target)), nething(alpha))
    if found.unknown:
        assert np.isnan([found.seconds, *found.envelope]).all()
        return
    room = 1e-12 * max(found.envelope[1], 1e-9)
    assert found.envelope[0] - room <= found.seconds <= found.envelope[1] + room


def along(name: str, value: float) -> Machine:
    """The source with one number changed, times as they are, rates by their inverse; a share stays
    a share.
    """
    rate = value if is_time(name) else 1.0 / value
    return machine({**FULL, **READS, name: min(rate, 1.0) if name.endswith("efficiency") else rate})


@LAW
@given(
    gpu_traces() | soups(), st.sampled_from(LINES), st.sampled_from(ALPHAS), st.booleans(), REPLAYS
)
def test_monotone_and_convex_along_every_time(
    trace: Trace, name: str, alpha: str, free: bool, replay: Replay
) -> None:
    profile = build(trace)
    model = replace(nething(alpha), replay=replay)
    ready = prepared(profile, model)
    source = machine(FULL if free else FULL | READS)
    here = (FULL | READS)[name]
    unit = (here or 1e-6) if is_time(name) else 1.0 / here
    values = np.linspace(0.02, 6.0, 9) * unit
    run = np.array(
        [answered(profile, ready, Pair(source, along(name, v)), model).seconds for v in values]
    )
    eps = 1e-12 * max(run.max(), 1e-9)
    assert (np.diff(run) >= -eps).all(), "slower parts, faster run"
    assert (np.diff(run, 2) >= -eps).all(), "not convex"


@LAW
@given(
    gpu_traces() | soups(),
    st.lists(st.floats(0.0, 4.0), min_size=len(TIMES), max_size=len(TIMES)),
    st.sampled_from(ALPHAS),
)
def test_convex_along_any_direction_of_times(
    trace: Trace, towards: list[float], alpha: str
) -> None:
    profile, model = build(trace), nething(alpha)
    ready = prepared(profile, model)
    source = machine(FULL)
    chosen = {n: d for n, d in zip(TIMES, towards, strict=True) if not n.startswith("observed")}
    targets = [
        machine({**FULL, **{n: FULL[n] + t * d * (FULL[n] or 1e-6) for n, d in chosen.items()}})
        for t in np.linspace(0.0, 1.0, 6)
    ]
    run = np.array(
        [answered(profile, ready, Pair(source, target), model).seconds for target in targets]
    )
    eps = 1e-12 * max(run.max(), 1e-9)
    assert run[0] == pytest.approx(profile.seconds, rel=1e-12, abs=1e-15)
    assert (np.diff(run) >= -eps).all() and (np.diff(run, 2) >= -eps).all()


@LAW
@given(
    gpu_traces() | soups(),
    st.sampled_from(["data", "kernel", "control", "launch", "copy", "alloc"]),
)
def test_additive_is_monotone_and_convex_in_the_inverse_lambda(trace: Trace, name: str) -> None:
    profile = build(trace)
    pair = Pair(machine(FULL), machine(FULL, "there"))
    ready = prepared(profile, additive({name: 1.0}))
    run = np.array(
        [
            answered(profile, ready, pair, additive({name: 1.0 / x})).seconds
            for x in np.linspace(0.05, 8.0, 7)
        ]
    )
    eps = 1e-12 * max(run.max(), 1e-9)
    assert (np.diff(run) >= -eps).all() and (np.diff(run, 2) >= -eps).all()
    assert answered(profile, ready, pair, additive({name: 1.0})).seconds == profile.seconds


@LAW
@given(gpu_traces() | soups(), st.sampled_from(["inf", "1e30"]), st.sampled_from([0.0, 1e-30]))
def test_a_perfect_link_costs_nothing(trace: Trace, rate: str, latency: float) -> None:
    """A copy that costs its link and nothing more costs nothing; one with a cost of its own keeps
    that, and one whose size cannot be (P240) keeps its time.
    """
    run = pieces(build(trace))
    plain = {n: v for n, v in FULL.items() if not n.startswith("observed")}
    perfect = {
        **plain,
        **{
            f"link.{d}.{n}": v
            for d in ("h2d", "d2h", "p2p")
            for n, v in (("bandwidth", float(rate)), ("latency", latency))
        },
    }
    after = anchored(run, machine(plain), machine(perfect, "there"), nething("hold")).seconds
    moved = (run.category == "copy") & np.isin(
        run.direction, ["h2d", "d2h", "p2p", "migration_h2d", "migration_d2h"]
    )
    moved &= run.memory != "unsized"
    assert np.all(after[moved] <= 1e-20 + 1e-12 * run.seconds[moved])
    assert np.array_equal(after[~moved], run.seconds[~moved])
    own = anchored(
        run, machine(FULL), machine({**FULL, **perfect}, "there"), nething("hold")
    ).seconds
    assert np.all(own[moved] <= run.seconds[moved] * (1 + 1e-12))
    staged = (run.kind == "copy_h2d") & (run.memory == "pageable") & (run.seconds > 0)
    link, beyond = 1 / (0.85 * 31.5e9), 1 / 9.4e9
    size = run.size_bytes[staged]
    kept = ((5.5e-6 - 2.0e-6) + size * (beyond - link)) / (5.5e-6 + size * beyond)
    assert own[staged] == pytest.approx(run.seconds[staged] * kept, rel=1e-9)


@LAW
@given(gpu_traces() | soups())
def test_one_memory_takes_the_copies_away(trace: Trace) -> None:
    profile = build(trace)
    ready = prepared(profile, nething("hold"))
    run = ready.run
    # of copies between GPUs of another host no file says how they pass
    assume(not (run.kind == "copy_p2p").any())
    apu = replace(
        machine(FULL, "apu", coupling="apu"), memory_shared=Fact(True, "assumption", "a test")
    )
    after = anchored(run, machine(FULL), apu, nething("hold")).seconds
    moved = (run.category == "copy") & np.isin(
        run.direction, ["h2d", "d2h", "migration_h2d", "migration_d2h"]
    )
    assert np.all(after[moved] == 0)
    assert np.array_equal(after[~moved], run.seconds[~moved])
    found = answered(profile, ready, Pair(machine(FULL), apu), nething("hold"))
    lost = run.exposed_seconds[moved].sum()
    assert found.seconds == pytest.approx(profile.seconds - lost, rel=1e-9, abs=1e-15)


@LAW
@given(gpu_traces() | soups(), st.sampled_from(ALPHAS))
def test_no_change_is_the_identity(trace: Trace, alpha: str) -> None:
    """A target of the source's kind with the same numbers, and a slack of nothing, is the
    source.
    """
    profile = build(trace)
    twin = machine({**FULL, "slack.call": 0.0})
    ready = prepared(profile, nething(alpha))
    found = answered(profile, ready, Pair(machine(FULL), twin), nething(alpha))
    assert (
        found.target == "here"
        and found.seconds == profile.seconds
        and found.breakdown == found.measured_breakdown
    )
    held = answered(
        profile,
        ready,
        Pair(machine(FULL), machine({**FULL, "gpu.fp64_matrix": 1e15})),
        nething("hold"),
    )
    assert held.seconds == profile.seconds


@LAW
@given(gpu_traces() | soups(), st.floats(0, 1e-3))
def test_slack_is_charged_once_a_crossing_call(trace: Trace, slack: float) -> None:
    """Between the slack of calls whose end is exposed and the slack of all that cross."""
    profile = build(trace)
    ready = prepared(profile, nething("hold"))
    run, pair = ready.run, Pair(machine(FULL), machine({**FULL, "slack.call": slack}))
    found = answered(profile, ready, pair, nething("hold"))
    added = found.seconds - profile.seconds
    assert added == pytest.approx(slack * run.tail_count[run.crosses].sum(), rel=1e-6, abs=1e-15)
    assert found.envelope[1] == pytest.approx(
        profile.seconds + slack * run.count[run.crosses].sum(), rel=1e-9, abs=1e-15
    )
