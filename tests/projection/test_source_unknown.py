"""Sources of which something is missing: a GPU that nothing tells, and one that shares its memory
with the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import polars as pl
import pytest

from turnbuckle.examples import sample
from turnbuckle.foundation.errors import MachineError
from turnbuckle.machine import all_machines, load
from turnbuckle.profile.profile import Profile, build
from turnbuckle.projection.admission import default_targets
from turnbuckle.projection.elsewhere.priors import SOURCE_GPU
from turnbuckle.projection.model import nething
from turnbuckle.projection.run import Run
from turnbuckle.questions.suite.question import of_files
from turnbuckle.show.run_tables import link_words
from turnbuckle.trace.read import read
from turnbuckle.trace.trace import dtypes

#: Replace the link of the source; each would be "faster" than copies at 1 GB/s.
LINKS = [
    m.name
    for m in all_machines()
    if m.relative and m.coupling in ("pcie", "c2c") and "pcie1" not in m.name
]


@cache
def recorded() -> Profile:
    with sample() as path:
        return build(read(path, use_cache=False))


def run_of(*, device: dict[str, object], source: str | None = None, slower: float = 1.0) -> Run:
    """The sample on another device, its copies so much slower."""
    profile = recorded()
    stated = [
        pl.lit(device.get(c), kind).alias(c)
        for c, kind in dtypes("devices").items()
        if c != "device"
    ]
    tables = {**profile.trace.tables, "devices": profile.trace.devices.with_columns(stated)}
    copies = pl.col("kind").is_in(["copy_h2d", "copy_d2h"])
    activities = profile.activities.with_columns(
        seconds=pl.when(copies).then(pl.col("seconds") * slower).otherwise("seconds")
    )
    return Run.of(
        replace(profile, trace=replace(profile.trace, tables=tables), activities=activities),
        source=source,
    )


ORIN = {
    "name": "Orin",
    "discrete": 0,
    "multiprocessors": 8,
    "memory_bytes": 8_000_000_000,
    "clock_hz": 918_000_000,
    "compute_major": 8,
    "compute_minor": 7,
}


def codes(findings: Sequence[object]) -> set[str]:
    return {f.code for f in findings}  # type: ignore[attr-defined]


# --- a GPU that nothing tells ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "target", ["h100-sxm5", "gh200", "mi300a", "gb200", "rtx3090", "v100", "2026-apu"]
)
def test_of_an_unknown_gpu_nothing_is_said_of_another(target: str) -> None:
    (p,) = run_of(device={"name": "A board nobody knows"}).project(target, draws=50).projections
    assert p.unknown == SOURCE_GPU and math.isnan(p.penalty)
    assert "M114" in codes(p.findings) and "A394" not in codes(p.findings)
    assert p.verdict == f"cannot say: {SOURCE_GPU}"
    assert not p.by_coupling.unknown and p.by_coupling.seconds > 0, (
        "the coupling alone scales no kernel"
    )
    (known,) = (
        run_of(device={"name": "A board nobody knows"}, source="a100-sxm4-40")
        .project(target, draws=50)
        .projections
    )
    assert known.unknown == "" and "M114" not in codes(known.findings)


def test_only_another_gpu_asks_which_one_it_was() -> None:
    answers = (
        run_of(device={"name": "A board nobody knows"})
        .project(["cdi-row-link", "pcie4-x16", "self"], draws=0)
        .projections
    )
    assert [p.unknown for p in answers] == ["", "", ""]


@pytest.mark.parametrize(
    ("alpha", "told"),
    [(2.0, True), ("hold", True), ("memory", False), ("flop", False), ("auto", False)],
)
def test_a_given_ratio_is_an_answer(alpha: float | str, told: bool) -> None:
    model = replace(nething(alpha), replay="sum")
    (p,) = (
        run_of(device={"name": "A board nobody knows"})
        .project("gh200", model=model, draws=0)
        .projections
    )
    assert (p.unknown == "") == told


def test_a_family_is_enough_to_scale() -> None:
    board = {
        "name": "NVIDIA RTX A4500",
        "multiprocessors": 56,
        "memory_bytes": 20 << 30,
        "compute_major": 8,
        "compute_minor": 6,
    }
    run = run_of(device=board)
    (p,) = run.project("gh200", draws=50).projections
    assert p.unknown == "" and p.kernels is not None and "M111" in codes(run.source_findings)


def test_a_gpu_that_the_recording_describes_is_enough_to_scale() -> None:
    board = {"multiprocessors": 304, "memory_bytes": 206_141_652_992}
    run = run_of(device=board)
    assert run.source.name == "mi300x" and "M110" in codes(run.source_findings)
    assert run.project("h100-sxm5", draws=0).projections[0].unknown == ""


def test_a_mix_counts_no_recording_whose_kernels_are_not_scaled() -> None:
    known, unknown = (
        run_of(device={"name": "NVIDIA A100-SXM4-40GB"}),
        run_of(device={"name": "A board nobody knows"}),
    )
    other = replace(
        unknown,
        profile=replace(unknown.profile, trace=replace(unknown.profile.trace, name="other.sqlite")),
    )
    _, gh200 = of_files([known, other], ["gh200"], draws=50).mixes
    assert (
        gh200.unknown == SOURCE_GPU
        and math.isnan(gh200.node_hours.value)
        and not math.isnan(gh200.coupling_alone.value)
    )
    assert not of_files([known, other], ["cdi-row-link"], draws=0).mixes[1].unknown


# --- CPU and GPU in one memory --------------------------------------------------------------------


@pytest.mark.parametrize(
    "device",
    [
        ORIN,
        {**ORIN, "discrete": None},
        {"name": "AMDInstinctMI300A"},
        {"name": "AMD Instinct MI300A"},
    ],
    ids=str,
)
def test_no_link_makes_an_integrated_gpu_faster(device: dict[str, object]) -> None:
    run = run_of(device=device, slower=10.0)
    assert run.source.coupling == "apu" and "M113" in codes(run.source_findings)
    for name in LINKS:
        with pytest.raises(MachineError, match="M031"):
            run.project(name, draws=0)
    for p in run.project(["gh200", "h100-sxm5", "cdi-row-link"], draws=50).projections:
        assert p.by_coupling.penalty >= 0.999, p.target
        assert p.target == "cdi-row-link" or (
            p.by_coupling.verdict == "cannot say" and "M112" in codes(p.by_coupling.findings)
        )


@pytest.mark.parametrize("device", [ORIN, {"name": "AMDInstinctMI300A"}], ids=str)
def test_an_integrated_source_has_questions_of_its_own(device: dict[str, object]) -> None:
    run = run_of(device=device)
    answer = run.project(draws=0)
    assert tuple(p.target for p in answer.projections) == default_targets(run.source)
    assert "mapped-memory" in default_targets(run.source) and not set(
        default_targets(run.source)
    ) & set(LINKS)
    copies = answer["mapped-memory"].copies
    assert (
        copies is not None
        and copies.measured_seconds
        and copies.seconds < 0.01 * copies.measured_seconds
    )
    assert "PCIe" not in " ".join(link_words(run).values()) and "one memory" in " ".join(
        link_words(run).values()
    )


def test_copies_of_pageable_memory_stand_for_themselves_in_one_memory() -> None:
    profile = recorded()
    pageable = profile.activities.with_columns(
        memory=pl.lit("pageable", dtype=profile.activities.schema["memory"])
    )
    stated = [
        pl.lit(ORIN.get(c), kind).alias(c) for c, kind in dtypes("devices").items() if c != "device"
    ]
    tables = {**profile.trace.tables, "devices": profile.trace.devices.with_columns(stated)}
    run = Run.of(replace(profile, trace=replace(profile.trace, tables=tables), activities=pageable))
    bandwidth = run.source.get("link.h2d.bandwidth")
    assert (
        bandwidth is not None and bandwidth.nature == "measured" and "PCIe" not in bandwidth.source
    )
    assert "P206" not in codes(run.source_findings)


@pytest.mark.parametrize(
    ("capability", "slot"),
    [((6, 1), "pcie3-x16"), ((7, 5), "pcie3-x16"), ((8, 6), "pcie4-x16"), ((9, 0), "pcie5-x16")],
)
def test_pageable_copies_take_the_link_of_the_chip(capability: tuple[int, int], slot: str) -> None:
    profile = recorded()
    board = {
        "name": "Board",
        "multiprocessors": 6,
        "memory_bytes": 4 << 30,
        "compute_major": capability[0],
        "compute_minor": capability[1],
    }
    pageable = profile.activities.with_columns(
        memory=pl.lit("pageable", dtype=profile.activities.schema["memory"])
    )
    stated = [
        pl.lit(board.get(c), kind).alias(c)
        for c, kind in dtypes("devices").items()
        if c != "device"
    ]
    tables = {**profile.trace.tables, "devices": profile.trace.devices.with_columns(stated)}
    run = Run.of(replace(profile, trace=replace(profile.trace, tables=tables), activities=pageable))
    change = next(c.set for c in load(slot).changes if c.parameter == "link.h2d.bandwidth")
    assert change is not None and run.source.value("link.h2d.bandwidth") == change.value
    (same,) = run.project(slot, draws=0).projections
    assert same.penalty == pytest.approx(1.0, abs=0.002)
