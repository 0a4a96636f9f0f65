"""Draws: the same number has the same draw everywhere, alone it moves alone, and the interval means
what it says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import call, copy, on_device, profile_of
from strategies import FEWER, FULL, LAW, PAGEABLE, PINNED, gpu_traces, machine, soups

from turnbuckle.examples import sample
from turnbuckle.machine import Change, Coupling, Fact, Machine, Pair, all_machines, load, schema
from turnbuckle.machine.machine import Parameter
from turnbuckle.profile.pieces import Pieces, pieces, thinned
from turnbuckle.profile.profile import Profile, build
from turnbuckle.profile.source import observed_machine
from turnbuckle.projection.elsewhere.drawn import drawn_source, drawn_target
from turnbuckle.projection.elsewhere.holes import managed
from turnbuckle.projection.elsewhere.priors import (
    LAUNCHES,
    LINK,
    PAGES,
    STAGED,
    VENDOR_ERROR,
    Draws,
    forwards,
    normals,
    vendor,
)
from turnbuckle.projection.model import Model, additive, nething
from turnbuckle.projection.order import Prepared, prepared
from turnbuckle.projection.project import answered, project
from turnbuckle.projection.projection import Projection, faster
from turnbuckle.projection.uncertainty import (
    ALPHA_ERROR,
    ALPHA_UNKNOWN,
    KERNEL_ALPHA,
    Uncertain,
    alpha_spread,
    project_many,
    uncertain,
)
from turnbuckle.trace.read import read
from turnbuckle.trace.trace import Trace

SOURCE = machine(FULL, error=0.1)
RELATIVE = [m for m in all_machines() if m.relative]
SEEN = profile_of(
    api=[
        call(1_000, 2_000, 1, "cudaMemcpyAsync"),
        call(12_000, 13_000, 2),
        call(41_000, 62_000, 3, "cudaMemcpy"),
        call(70_000, 95_000, 4, "cudaDeviceSynchronize"),
    ],
    copies=[copy(3_000, 11_000, correlation=1, size=2**17), copy(43_000, 60_000, 2, 2**17, 3)],
    kernels=[on_device(15_000, 40_000, 2), on_device(75_000, 90_000)],
)


@cache
def milc() -> Profile:
    with sample() as path:
        return build(read(path, use_cache=False))


def asked(
    source: Machine = SOURCE,
    seen: Profile = SEEN,
    draws: int = 200,
    form: dict[str, float] | None = None,
    seed: int = 7,
) -> Uncertain:
    return Uncertain(prepared(seen, nething()), source, form or {}, draws, seed)


# --- draws ----------------------------------------------------------------------------------------


def test_draws_belong_to_a_name() -> None:
    a, again, b = normals("one", 1000, 1), normals("one", 1000, 1), normals("two", 1000, 1)
    assert (
        np.array_equal(a, again)
        and not np.array_equal(a, b)
        and not np.array_equal(a, normals("one", 1000, 2))
    )
    assert np.array_equal(a[:10], normals("one", 10, 1)), "fewer draws are the first of many"
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.12
    many = normals("three", 100_000, 5)
    assert abs(many.mean()) < 0.02 and many.std() == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("declared", all_machines(), ids=lambda m: m.name)
@pytest.mark.parametrize("width", [1.0, 14.0], ids=["pcie", "wide"])
def test_a_drawn_target_is_the_drawn_machine_on_the_drawn_source(
    declared: Machine, width: float
) -> None:
    """Arrays of draws and one machine drawn at a time are the same machines, for every machine of
    the catalogue.

    On a wide link the limits of a fabric come into play.
    """
    draws, seed = 6, 11
    mine = machine(
        {
            n: v * width if n.startswith("link.") and n.endswith("bandwidth") else v
            for n, v in FULL.items()
        },
        error=0.1,
    )
    pair = Pair(mine, declared)
    source = drawn_source(mine, Draws(draws, seed))
    arrays = drawn_target(declared, pair.target, source, Draws(draws, seed))
    names = {*mine.unknowns(), *declared.unknowns()}
    for k in range(draws):
        normal = {n: float(normals(n, draws, seed)[k]) for n in names}
        here = mine.drawn(normal)
        one = declared.drawn(normal).resolved(here)
        assert set(arrays.values) == set(one.parameters)
        for name, parameter in one.parameters.items():
            value = arrays.values[name]
            wanted = min(parameter.value, 1.0) if name.endswith(".efficiency") else parameter.value
            assert value[min(k, len(value) - 1), 0] == pytest.approx(wanted, rel=1e-12), name
    assert arrays.copies_vanish == pair.target.copies_vanish


def test_numbers_with_a_word_in_common_err_together() -> None:
    link, call = (
        drawn_target(
            load(f"cdi-row-{way}"),
            Pair(SOURCE, load(f"cdi-row-{way}")).target,
            drawn_source(machine(FULL), Draws(500, 3)),
            Draws(500, 3),
        ).values
        for way in ("link", "api")
    )
    assert np.allclose(2 * link["slack.link"], call["remoting.round_trip"], rtol=1e-12), (
        "one distance, seen in two ways"
    )
    assert link["slack.link"].std() > 0


def test_a_certain_machine_is_one_number() -> None:
    drawn = drawn_source(machine(FULL), Draws(50, 1))
    assert all(v.shape == (1, 1) and v[0, 0] == FULL[n] for n, v in drawn.values.items())


# --- samples --------------------------------------------------------------------------------------


def test_a_further_target_changes_no_draw() -> None:
    targets = [load(n) for n in ("cdi-row-link", "nvlink-c2c", "gh200")]
    alone = {
        t.name: project_many(SEEN, SOURCE, [t], nething(), {}, 100, 5)[0].sample for t in targets
    }
    for order in (targets, targets[::-1], [SOURCE, *targets]):
        for found in project_many(SEEN, SOURCE, order, nething(), {}, 100, 5):
            if found.target != "self":
                assert np.array_equal(found.sample, alone[found.target]), found.target


@LAW
@given(gpu_traces() | soups(), st.sampled_from(RELATIVE), st.integers(0, 1000))
def test_without_errors_every_draw_is_the_answer(
    trace: Trace, declared: Machine, seed: int
) -> None:
    """Numbers that are certain leave the point, unless launches over another link are unknown; so
    does drawing another number alone.
    """
    certain = replace(
        declared,
        changes=tuple(
            replace(c, **{w: replace(p, error=0.0) for w, p in c.parts().items()})
            for c in declared.changes
        ),
    )
    seen = build(trace)
    pair = Pair(machine(FULL), certain)
    found = project(seen, pair, nething("hold"))
    if forwards(pair) and managed(seen):  # pages move by faults, which no layer forwards
        assert found.unknown == PAGES and math.isnan(found.seconds)
        return
    answer = found.seconds
    question = asked(machine(FULL), seen, 5, seed=seed)
    if not pair.target.copies_vanish and LAUNCHES not in question.names(
        certain, pair, nething("hold")
    ):
        assert question.sample(certain, pair, nething("hold")) == pytest.approx(
            np.full(5, answer), rel=1e-12
        )
        uncertain_pair = Pair(SOURCE, declared)
        same = asked(SOURCE, seen, 5, seed=seed).sample(
            declared, uncertain_pair, nething("hold"), alone=("nothing of the kind",)
        )
        assert same == pytest.approx(
            np.full(5, project(seen, uncertain_pair, nething("hold")).seconds), rel=1e-12
        )


def test_one_number_drawn_alone_moves_alone() -> None:
    far = load("cdi-row-link")
    pair = Pair(SOURCE, far)
    question = asked()
    names = question.names(far, pair, nething("hold"))
    assert len(names) == len(set(names)) and "common/distance of a row" in names
    point = project(SEEN, pair, nething("hold")).seconds
    spread = {n: question.sample(far, pair, nething("hold"), alone=(n,)) for n in names}
    assert np.ptp(spread["common/distance of a row"]) > 0
    assert np.ptp(spread["here/gpu.memory_size"]) == 0, "no price reads it"
    for name, values in spread.items():
        assert np.median(values) == pytest.approx(point, rel=0.02), name
    everything = question.sample(far, pair, nething("hold"))
    added = sum(float(np.var(v)) for v in spread.values())
    assert float(np.var(everything)) == pytest.approx(added, rel=0.5), (
        "nearly additive: the shares of variance mean something"
    )


def test_one_uncertain_number_is_the_whole_spread() -> None:
    sure = machine(FULL)
    far = Machine(
        name="far",
        title="t",
        summary="",
        year=0,
        coupling="fabric",
        base="source",
        changes=(Change("sync.return", add=Parameter(5e-6, 0.3, "s", "assumption", "a test")),),
    )
    pair = Pair(sure, far)
    question = asked(sure)
    assert question.names(far, pair, nething("hold")) == ["far/sync.return/add"]
    both = (
        question.sample(far, pair, nething("hold")),
        question.sample(far, pair, nething("hold"), alone=("far/sync.return/add",)),
    )
    assert np.array_equal(*both)
    # two waits: the synchronisation and the blocking copy
    drawn = SEEN.seconds + 2 * 5e-6 * np.exp(0.3 * normals("far/sync.return/add", 200, 7))
    assert both[0] == pytest.approx(drawn)
    (found,) = project_many(SEEN, sure, [far], nething("hold"), {}, 200, 7)
    assert found.drivers == {"far/sync.return/add": 1.0}


def test_the_sources_own_error_cancels() -> None:
    """An uncertain launch latency of the source does not blur a target that adds a known delay to
    it.
    """
    doubtful = machine(FULL, error=0.5)
    far = Machine(
        name="far",
        title="t",
        summary="",
        year=0,
        coupling="fabric",
        base="source",
        changes=(Change("launch.latency", add=Parameter(5e-6, 0.0, "s", "assumption", "a test")),),
    )
    (found,) = project_many(SEEN, doubtful, [far], nething("hold"), {}, 200, 7)
    assert found.interval is not None and found.interval.high - found.interval.low < 1e-12
    assert found.seconds == pytest.approx(SEEN.seconds + 5e-6)


@FEWER
@given(
    gpu_traces() | soups(),
    st.sampled_from([m.name for m in all_machines()]),
    st.sampled_from(["flop", "memory", "hold"]),
    st.booleans(),
)
def test_the_interval_holds_the_answer(
    trace: Trace, target: str, alpha: str, ordered: bool
) -> None:
    seen = build(trace)
    source, fits, _ = observed_machine(seen)
    model = replace(nething(alpha), replay="auto" if ordered else "sum")
    (answer,) = project_many(seen, source, [load(target)], model, fits, 60, 3)
    assert bool(answer.unknown) == math.isnan(answer.seconds)
    if answer.unknown:
        assert (
            answer.interval is None and answer.sample is not None and np.isnan(answer.sample).all()
        )
        assert (answer.alone is None) == (answer.unknown == PAGES), (
            "what the coupling alone changes stays answered, but through a layer"
        )
    if answer.unknown == PAGES:
        return
    found = answer.by_coupling if answer.unknown else answer
    i = found.interval
    assert i is not None and found.sample is not None and found.sample.shape == (60,)
    assert np.isfinite(found.sample).all() and (found.sample >= 0).all()
    assert 0 <= i.low <= found.seconds <= i.high and i.low <= i.median <= i.high
    assert (i.level, i.draws, i.seed) == (0.9, 60, 3)
    assert 0 <= sum(found.drivers.values()) <= 1 + 1e-9 and list(found.drivers.values()) == sorted(
        found.drivers.values(), reverse=True
    )


def test_quantiles_and_seeds() -> None:
    far = load("cdi-row-link")
    (one,) = project_many(SEEN, SOURCE, [far], nething(), {}, 4_000, 1)
    (same,) = project_many(SEEN, SOURCE, [far], nething(), {}, 4_000, 1)
    (other,) = project_many(SEEN, SOURCE, [far], nething(), {}, 4_000, 2)
    assert one.sample is not None and one.interval is not None and other.interval is not None
    assert (
        same.sample is not None
        and np.array_equal(one.sample, same.sample)
        and one.drivers == same.drivers
    )
    low, median, high = np.quantile(one.sample, [0.05, 0.5, 0.95])
    assert (one.interval.low, one.interval.median, one.interval.high) == pytest.approx(
        (low, median, high)
    )
    assert other.interval.low != one.interval.low
    assert other.interval.high == pytest.approx(one.interval.high, rel=0.02)
    (bare,) = project_many(SEEN, SOURCE, [far], nething(), {}, 0, 1)
    assert bare.interval is None and bare.sample is None and bare.seconds == one.seconds


def test_intervals_cover_machines_drawn_from_the_stated_errors() -> None:
    """Of 300 machines that the errors allow, about 90 % give an answer inside the interval."""
    far = load("cdi-row-link")
    (found,) = project_many(SEEN, SOURCE, [far], nething("hold"), {}, 1000, 1)
    assert found.interval is not None
    names = {*SOURCE.unknowns(), *far.unknowns()}
    truths, ready = [], prepared(SEEN, nething("hold"))
    for k in range(300):
        normal = {n: float(normals(f"truth {k}/{n}", 1, 99)[0]) for n in names}
        here = SOURCE.drawn(normal)
        truths.append(answered(SEEN, ready, Pair(here, far.drawn(normal)), nething("hold")).seconds)
    inside = np.mean([found.interval.low <= t <= found.interval.high for t in truths])
    assert 0.85 <= inside <= 0.95


# --- the form of the model ------------------------------------------------------------------------


def test_kernel_ratios_are_uncertain_where_they_are_guessed() -> None:
    vector = machine({**FULL, "gpu.memory_bandwidth": 1.555e12})
    twice = machine(
        {**FULL, "gpu.fp64_matrix": 39e12, "gpu.memory_bandwidth": 2 * 1.555e12}, "twice"
    )
    apart = machine({**FULL, "gpu.fp64_matrix": 8 * 19.5e12}, "apart")
    blank = machine({"link.h2d.bandwidth": 1e9}, "blank")
    assert alpha_spread(Pair(vector, twice), nething("flop")) == ALPHA_ERROR
    assert alpha_spread(Pair(vector, apart), nething("flop")) == pytest.approx(np.log(8) / 1.645), (
        "the interval reaches the memory ratio"
    )
    assert alpha_spread(Pair(vector, blank), nething("flop")) == ALPHA_UNKNOWN
    assert alpha_spread(Pair(vector, load("cdi-row-link")), nething("flop")) == 0.0
    for model in (nething("hold"), nething(5.0), additive({"data": 2.0})):
        assert alpha_spread(Pair(vector, twice), model) == 0.0
    assert alpha_spread(Pair(vector, vector), nething("flop")) == 0.0
    (found,) = project_many(SEEN, machine(FULL), [apart], nething("flop"), {}, 2000, 1)
    memory = project(SEEN, Pair(machine(FULL), apart), nething("memory")).seconds
    assert found.interval is not None and found.interval.high == pytest.approx(memory, rel=0.1)
    assert next(iter(found.drivers)) == KERNEL_ALPHA


def test_residuals_of_every_fitted_class_are_drawn() -> None:
    """Copies, peer copies and migrations alike: what the line misses, the interval holds."""
    sizes = [2**k for k in range(6, 24)]
    rows = [
        copy(k * 10**7, k * 10**7 + 2_000 + n // 20 + (n % 3) * 700 * (k % 4), d, n)
        for k, n in enumerate(sizes)
        for d in (1, 2, 4, 6)
    ]
    seen = profile_of(kernels=[on_device(5, 6)], copies=rows)
    source, fits, _ = observed_machine(seen)
    question = uncertain(prepared(seen, nething()), source, fits, 50, 1)
    pair = Pair(source, load("gh200"))
    forms = {
        n.rsplit("/", 1)[0]
        for n in question.names(load("gh200"), pair, nething())
        if n.startswith("form/")
    }
    assert {
        "form/copy_h2d/pinned",
        "form/copy_d2h/pinned",
        "form/migration/unknown",
        "form/copy_p2p/unknown",
    } <= forms


def changed(
    values: Mapping[str, float], coupling: Coupling = "relative", memory_shared: Fact | None = None
) -> Machine:
    """The source with some numbers set: its host stays, so that nothing but these numbers
    differs.
    """
    changes = tuple(
        Change(n, set=Parameter(v, 0.0, schema()[n].unit, "assumption", "a test"))
        for n, v in values.items()
    )
    return replace(
        machine({}, "changed", coupling=coupling),
        base="source",
        changes=changes,
        memory_shared=memory_shared,
    )


def test_copies_that_vanish_may_be_kept() -> None:
    """A program ported as it is still copies inside the one memory: the interval says so, the
    answer does not.
    """
    known = {name: FULL[name] for name in ("launch.latency", "launch.call")}
    shared = changed(
        {"gpu.memory_bandwidth": 1e11, **known}, "apu", Fact(True, "assumption", "a test")
    )
    (found,) = project_many(SEEN, machine(FULL), [shared], nething("hold"), {}, 500, 1)
    kept = sum(min(2 * 2**17 / 1e11, t) for t in (8e-6, 17e-6))
    assert found.interval is not None and found.sample is not None
    assert found.seconds == pytest.approx(SEEN.seconds - 25e-6)
    assert found.seconds < found.interval.high <= found.seconds + kept + 1e-12
    assert np.all(found.sample <= found.seconds + kept + 1e-12) and np.all(
        found.sample >= found.seconds - 1e-12
    )


# --- a machine of its own -------------------------------------------------------------------------


def of_own(values: dict[str, float]) -> tuple[Projection, Projection]:
    """The same numbers as a machine of its own, and as a change of the source: only what no file
    says differs.
    """
    own, same = project_many(
        SEEN,
        machine(FULL),
        [machine({**FULL, **values}, "there"), changed(values)],
        nething("hold"),
        {},
        500,
        1,
    )
    return own, same


def test_another_node_may_reach_less_of_its_link_than_its_file_says() -> None:
    """The answer is the middle of its draws, not the best that they allow."""
    own, same = of_own({"link.h2d.bandwidth": 20e9})
    assert same.interval is not None and same.interval.low == pytest.approx(
        same.interval.high, rel=1e-9
    )
    assert (
        own.interval is not None
        and own.interval.low < own.seconds < own.interval.high
        and own.seconds > same.seconds
    )
    assert own.copies is not None and own.copies.seconds == pytest.approx(
        own.copies.low * 0.5 + own.copies.high * 0.5, rel=0.3
    )
    assert LINK in own.drivers and LINK not in same.drivers and STAGED not in own.drivers


def test_what_a_link_may_do_is_bounded_by_the_link() -> None:
    """Slower by its share, never faster than the wire; staging either way, but for the wire; each
    in its own pieces.
    """
    rows = [
        copy(9_000 * k, 9_000 * k + 5_000, d, 2**16, memory=m)
        for k, (d, m) in enumerate(((1, PINNED), (2, PAGEABLE), (6, PINNED)))
    ]
    seen = profile_of(kernels=[on_device(5, 6)], copies=rows)
    source = machine({**FULL, "observed.d2h.pageable.bandwidth": 6e9})
    pair = Pair(source, machine({**FULL, "link.d2h.bandwidth": 16e9}, "there"))
    question = Uncertain(Prepared(pieces(seen), seen.seconds), source, {}, 2000, 1)
    out, middle = (
        question.durations(pair.target, pair, nething("hold"), Draws(n, 1)).scaled
        for n in (2000, 0)
    )
    run = question.run
    for k in range(len(run)):
        drawn, was = out[:, k], run.seconds[k]
        if run.kind[k] == "kernel":
            assert (drawn == was).all() and middle[k] == was
            continue
        assert float(np.median(drawn)) == pytest.approx(middle[k], rel=0.05)
        if run.kind[k] == "copy_d2h":
            wire = (2e-6 + run.size_bytes[k] / 16e9) / (2e-6 + run.size_bytes[k] / 6e9) * was
            assert drawn.min() >= wire * (1 - 1e-9) and drawn.min() < was < drawn.max()
        elif run.kind[k] == "copy_h2d":
            assert (drawn >= was * (1 - 1e-12)).all() and middle[k] > was
    still = question.durations(
        pair.target, pair, nething("hold"), Draws(3, 1, alone=("nothing of this",))
    ).scaled
    assert still == pytest.approx(np.tile(middle, (3, 1)))


def test_launches_that_the_target_does_not_say_are_in_doubt() -> None:
    silent = {n: v for n, v in FULL.items() if not n.startswith("launch.")}
    told, kept = project_many(
        SEEN,
        machine(FULL),
        [machine(FULL, "told"), machine(silent, "silent")],
        nething("hold"),
        {},
        500,
        1,
    )
    assert LAUNCHES in kept.drivers and LAUNCHES not in told.drivers
    assert told.seconds == kept.seconds and told.interval is not None and kept.interval is not None
    assert kept.interval.high - kept.interval.low > told.interval.high - told.interval.low


def test_a_ratio_of_peak_rates_says_less_of_another_vendors_gpu() -> None:
    here = machine(FULL, "a100", title="A100")
    faster = {**FULL, "gpu.memory_bandwidth": 2 * 1.555e12, "gpu.fp64_matrix": 39e12}
    other, same, unknown = (machine(faster, n, title=n) for n in ("MI300X", "H100", "something"))
    spreads = [alpha_spread(Pair(here, m), nething("flop")) for m in (other, same, unknown)]
    assert spreads[0] == VENDOR_ERROR > spreads[1] == spreads[2]
    assert (
        alpha_spread(Pair(here, machine(FULL, "MI300A", title="MI300A")), nething("flop"))
        == VENDOR_ERROR
    ), "equal rates are no equal kernels"
    assert (
        alpha_spread(Pair(here, other), nething("hold"))
        == alpha_spread(Pair(here, other), nething(2.0))
        == 0.0
    )
    assert [vendor(load(n)) for n in ("frontier", "gh200", "2026-apu", "nvlink-c2c")] == [
        "amd",
        "nvidia",
        "",
        "",
    ]


# --- thinning -------------------------------------------------------------------------------------


def sums(run: Pieces) -> dict[tuple[str, ...], list[float]]:
    out: dict[tuple[str, ...], list[float]] = {}
    for i in range(len(run)):
        key = (
            run.kind[i],
            run.category[i],
            run.call_class[i],
            run.direction[i],
            run.memory[i],
            str(run.idle_device[i]),
        )
        row = [run.count[i], run.seconds[i], run.exposed_seconds[i], run.tail_count[i]]
        out[key] = [a + b for a, b in zip(out.get(key, [0.0] * 4), row, strict=True)]
    return out


def test_thinning_keeps_every_sum() -> None:
    chance = np.random.default_rng(3)
    rows = [
        copy(k * 10**6, k * 10**6 + int(n) // 20 + 2_000, 1 + k % 2, int(n))
        for k, n in enumerate(2 ** chance.uniform(3, 26, 800))
    ]
    run = pieces(profile_of(kernels=[on_device(5, 6)], copies=rows))
    thin = thinned(run, 100)
    assert len(run) > 700 and len(thin) < 450
    want, got = sums(run), sums(thin)
    assert set(want) == set(got)
    for key, row in want.items():
        assert got[key] == pytest.approx(row, rel=1e-12), key
    assert thinned(run, len(run)) is run
    pair = Pair(
        machine(FULL),
        changed({"link.h2d.latency": 4e-6, "link.h2d.bandwidth": 121e9, "link.d2h.bandwidth": 8e9}),
    )
    seen = profile_of(kernels=[on_device(5, 6)], copies=rows)
    exact = project(seen, pair, nething("hold")).seconds
    hair = Uncertain(Prepared(thin, seen.seconds), pair.source, {}, 1, 1).sample(
        pair.target, pair, nething("hold")
    )[0]
    assert hair == pytest.approx(exact, rel=1e-3)


# --- the sample that ships ------------------------------------------------------------------------


def test_comparisons_on_the_sample() -> None:
    seen = milc()
    source, fits, _ = observed_machine(seen)
    model: Model = nething()
    names = (
        "nvlink-c2c",
        "cdi-switch-hop-link",
        "cdi-rack-link",
        "cdi-row-link",
        "cdi-datacentre-link",
    )
    found = project_many(seen, source, [load(n) for n in names], model, fits, 200, 1)
    table = faster(found)
    for a in names:
        for b in names:
            if a != b:
                assert table[a][b] + table[b][a] == pytest.approx(1.0)
    assert [p.penalty for p in found] == sorted(p.penalty for p in found), "farther is slower"
    assert (
        table["cdi-rack-link"]["cdi-row-link"] > 0.9 and table["nvlink-c2c"]["cdi-row-link"] > 0.99
    )
