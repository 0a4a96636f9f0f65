"""Predictions of a validation case's questions beside the measurements: one function per model, and
nothing fitted to an answer.

    datasheet      copies of B on a node of which the link alone is known                   `questions.transfers.datasheet`
    machine        copies of B on B's machine file                                          `questions.transfers.datasheet`
    line           copies, migrations or messages of B on the line fitted to A (LogGP)      `profile.transfers`
    projection     A's run on B's machine: run time, kernels as a ratio, launches           `projection.project`
    slack          A's run with every boundary call delayed                                 `questions.distance`
    distance       A's run with calls delayed and copies slowed, many points                `questions.distance`
    remoting       A's programs through a remoting layer, many distances                    `questions.calibrate.layer`
    message delay  A's MPI runs with messages delayed, many points                          `mpi.questions.delay`
    variant        a variant of a program from another, after one stated change             `questions.validate.variants`
    counts         variants of a program from one of them: its costs, their counts               additive model
    repeat         a run from a run of the same configuration: the floor of every error
    rate           what a machine file says against what others measured there

Those of copies stand in `turnbuckle.questions.validate.copies`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.foundation.units import parse
from turnbuckle.machine import Machine, Pair, load
from turnbuckle.machine.parameter_names import LINK_WAYS, ParameterName, link_parameter
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.source import CALL_ERROR
from turnbuckle.projection.admission import require_numbers
from turnbuckle.projection.elsewhere.priors import (
    LAUNCH_ERROR,
    LINK,
    NODE_SHARE,
    PEER_SHARE,
    half_normal,
    normals,
    other_host,
)
from turnbuckle.projection.model import nething
from turnbuckle.projection.run import Run
from turnbuckle.projection.uncertainty import DRAWS, LEVEL, SEED
from turnbuckle.questions.distance.question import tolerate
from turnbuckle.questions.validate.cases import Ask, Case
from turnbuckle.questions.validate.rows import Data, Row
from turnbuckle.questions.validate.variants import (
    Costs,
    Part,
    by_sum,
    by_timeline,
    changed,
    costs,
    line,
    without,
)

#: Standard normal quantile of a 90 % interval.
_REACH: Final = 1.6448536269514722
#: A part of a run below this share of it is not compared from run to run.
_NOTABLE: Final = 0.005


def projection(case: Case, question: Ask, data: Data) -> Iterator[Row]:
    """Yield A's run on B's machine, as `turnbuckle project` predicts it: run time, ratio of kernel
    times, launches.

    Raises A190 after the rows that need no answer, where what decides it is not stated.
    """
    recorded = data.side(case, case.a)
    compared = data.side(case, case.b)
    word = question.text("alpha") or "auto"
    if word not in _ALPHAS:
        raise error_of(
            "A417.kernels", where=case.name, found=clipped(word, 40), alphas=", ".join(_ALPHAS)
        )
    model = replace(nething(word), replay="auto")
    answer = recorded.project([question.text("on")], model=model)
    (projected,), (declared,) = answer.projections, answer.targets
    low, high = (
        (projected.interval.low, projected.interval.high) if projected.interval else (None, None)
    )
    by = "" if word == "auto" else f", kernels by {word}"
    label = question.model + by
    if not projected.unknown:
        yield Row(
            case.name,
            "run time",
            label,
            f"run time{by}",
            "s",
            projected.seconds,
            compared.profile.seconds,
            low,
            high,
        )
    kernels = [float(side.profile.of("kernel")["seconds"].sum()) for side in (recorded, compared)]
    if word == "auto":
        yield Row(
            case.name,
            "run time",
            "nothing",
            "run time",
            "s",
            recorded.profile.seconds,
            compared.profile.seconds,
        )
        if kernels[1] > 0:
            yield Row(
                case.name,
                "kernels",
                "nothing",
                "kernel time, A over B",
                "",
                1.0,
                kernels[0] / kernels[1],
            )
    if (all_kernels := projected.kernels) is not None and kernels[1] > 0:
        ratios = [
            kernels[0] / seconds
            for seconds in (all_kernels.seconds, all_kernels.high, all_kernels.low)
        ]
        name = f"kernel time, A over B{by}"
        count = compared.profile.of("kernel").height
        yield Row(
            case.name,
            "kernels",
            label,
            name,
            "",
            ratios[0],
            kernels[0] / kernels[1],
            ratios[1],
            ratios[2],
            count=count,
        )
    if word == "auto":
        yield from _launches(case, question, recorded, compared, declared)
    require_numbers(projected)


def _launches(
    case: Case, question: Ask, recorded: Run, compared: Run, declared: Machine
) -> Iterator[Row]:
    """Yield how long launches of A are on the declared machine, and how many they are, beside those
    of B.
    """
    target = Pair(recorded.source, declared).target
    launches, launches_there = (run.profile.of("launch").height for run in (recorded, compared))
    for name in _LAUNCHES:
        predicted, observed = (
            target.get(name) or recorded.source.get(name),
            compared.source.get(name),
        )
        if (
            predicted is None
            or observed is None
            or observed.source.partition(":")[0] != "this profile"
        ):
            continue
        host_error = (
            LAUNCH_ERROR
            if target.get(name) is None and other_host(Pair(recorded.source, declared))
            else 0.0
        )
        reach = float(np.exp(_REACH * np.hypot(max(predicted.error, CALL_ERROR), host_error)))
        if before := recorded.source.get(name):
            yield Row(
                case.name, "launches", "nothing", _LAUNCHES[name], "s", before.value, observed.value
            )
        what, value = (
            _LAUNCHES[name] + ("" if target.get(name) else ", kept from A"),
            predicted.value,
        )
        ends = value / reach, value * reach
        yield Row(
            case.name,
            "launches",
            question.model,
            what,
            "s",
            value,
            observed.value,
            *ends,
            count=launches_there,
        )
    yield Row(
        case.name,
        "launch counts",
        question.model,
        "number of launches",
        "",
        float(launches),
        float(launches_there),
    )


_ALPHAS: Final = ("auto", "flop", "memory", "hold")
_LAUNCHES: Final[Mapping[ParameterName, str]] = {
    "launch.call": "length of a launch call, median",
    "launch.latency": "launch to kernel on an idle device, median",
}


def delayed(case: Case, question: Ask, data: Data) -> Iterator[Row]:
    """Yield A's run with every boundary call delayed, as `turnbuckle slack --mode api` predicts it
    from the undelayed recording.

    Each measured number states its delay. The predicted added time is added to the measured number
    without delay.
    """
    seen = data.side(case, case.a)
    bare = next((n for n in case.measured if not n.delay), None)
    later = [n for n in case.measured if n.delay]
    turns = float(question.given.get("iterations", 1))
    if bare is None or not later:
        raise error_of("A192.times", where=case.name, found=f"{len(later)} with a delay")
    curve = tolerate(seen, "api", draws=0).curve
    for number in later:
        added = (float(curve(number.delay)) - float(curve(0.0))) / turns
        yield Row(
            case.name,
            "slack",
            "timeline",
            number.what,
            "s",
            parse(bare.value, "s") + added,
            parse(number.value, "s"),
            count=number.count or 1,
        )


def variant(case: Case, question: Ask, data: Data) -> Iterator[Row]:
    """Yield B's part that uses the GPU, predicted from A's part after one stated change
    (`docs/validation.md`).

    If the change takes mean times of single activities from B, only the replay is tested, and the
    kind says so.
    """
    number: int | None = question.given.get("phase")
    first, second = (data.path(case, side.file) for side in (case.a, case.b))

    def part_of(path: Path) -> Part:
        try:
            return data.gpu_part(path, number)
        except ValueError as error:
            raise error_of("A192.phase", where=case.name, found=str(error)) from None

    part, target = part_of(first), part_of(second)
    removed = question.text("removed")
    if removed:
        if removed not in part.key:
            raise error_of("A192.call", where=case.name, found=clipped(removed))
        part = without(part, removed)
    old = costs(part)
    taken = bool(question.words("states")) and not question.text("other")
    new = costs(target) if taken else Costs()
    if question.text("other"):
        sizes = [float(parse(s, "1")) for s in question.words("sizes")]
        if len(sizes) != 3 or len(set(sizes[:2])) != 2:
            raise error_of("A417.sizes", where=case.name)
        new = line(costs(part_of(data.path(case, question.text("other")))), old, *sizes)
    change = changed(part, old, new, frozenset(question.words("states")))
    timeline, summed = by_timeline(part, change), by_sum(part, old, change)[0]
    phase = f", phase {number}" if number is not None else ""
    kind = "replay" if taken else "variants"
    for name, seconds in (("timeline", timeline), ("sum", summed)):
        yield Row(
            case.name,
            kind,
            name,
            f"part that uses the GPU{phase}, {name}",
            "s",
            seconds,
            target.seconds,
        )


def counts(case: Case, question: Ask, data: Data) -> Iterator[Row]:
    """Yield variants of a program: A's exposed time per activity of each kind, times the variant's
    count; then their order.
    """
    first = data.side(case, case.a).profile
    price = {kind: exposed / many for kind, (many, exposed) in _by_kind(first).items() if many}
    predicted, actual = [_priced(first, price)], [_priced(first, price)]
    for file in question.words("variants"):
        profile = data.seen(data.path(case, file), case.a.machine, case.a.part).profile
        seconds, measured_seconds = (
            _priced(profile, price),
            sum(s for k, (_, s) in _by_kind(profile).items()),
        )
        predicted.append(seconds)
        actual.append(measured_seconds)
        name = f"{Path(file).parent.name}: run time without allocations"
        yield Row(case.name, "variants", question.model, name, "s", seconds, measured_seconds)
    if len({*predicted}) < 2 or len({*actual}) < 2 or len(actual) < 3:
        return  # two values, or equal ones, have no order to test

    # imported here: it takes longer than what every answer quotes from the card
    from scipy.stats import kendalltau

    tau = kendalltau(predicted, actual)
    what, ordered = (
        f"order of {len(actual)} variants by run time",
        {"tau": float(tau.statistic), "p_value": float(tau.pvalue)},
    )
    yield Row(
        case.name, "ranking", question.model, what, "", None, None, count=len(actual), **ordered
    )


def _by_kind(profile: Profile) -> dict[str, tuple[int, float]]:
    """Return count and exposed time [s] by kind.

    Allocations belong to the start of a run and are left out.
    """
    rows = (
        profile.activities.filter(pl.col("kind") != "alloc")
        .group_by("kind")
        .agg(pl.len(), pl.col("exposed_ns").sum())
    )
    return {str(kind): (int(many), float(exposed) * 1e-9) for kind, many, exposed in rows.rows()}


def _priced(profile: Profile, price: Mapping[str, float]) -> float:
    return sum(many * price.get(kind, 0.0) for kind, (many, _) in _by_kind(profile).items())


def repeat(case: Case, question: Ask, data: Data) -> Iterator[Row]:
    """Yield one run of a configuration as the prediction of another; no model can do better."""
    first = data.side(case, case.a).profile
    for file in (*([case.b.file] if case.b.file else []), *question.words("others")):
        second = data.seen(data.path(case, file), case.a.machine, case.a.part).profile
        suffix = (
            f" ({Path(file.rpartition('::')[2]).name.partition('.')[0]})"
            if question.words("others")
            else ""
        )
        yield Row(
            case.name,
            "noise",
            question.model,
            f"run time{suffix}",
            "s",
            first.seconds,
            second.seconds,
        )
        for kind, name in (
            ("kernel", "kernel time"),
            ("launch", "time of launch calls"),
            ("copy_h2d", "time of h2d copies"),
            ("copy_d2h", "time of d2h copies"),
        ):
            of_first, of_second = (p.of(kind) for p in (first, second))
            # the repeat error of a very short part is that of the clock
            took, takes = (float(p["seconds"].sum()) for p in (of_first, of_second))
            if of_first.height == of_second.height and took > _NOTABLE * first.seconds:
                yield Row(
                    case.name,
                    "noise",
                    question.model,
                    f"{name}{suffix}",
                    "s",
                    took,
                    takes,
                    count=of_second.height,
                )


def rate(case: Case, question: Ask, data: Data) -> Iterator[Row]:
    """Yield a machine file's bandwidth times its efficiency, beside what others measured on such a
    machine.
    """
    machine = load(question.text("on"))
    for number in case.measured:
        parts = [machine.get(name) for name in _RATES.get(number.direction, ())]
        parameters = [p for p in parts if p is not None]
        if not parameters or len(parameters) != len(parts):
            raise error_of(
                "A192.machine",
                where=machine.name,
                found=number.direction or "no direction",
                rates=", ".join(_RATES),
            )
        value = float(np.prod([p.value for p in parameters]))
        drawn = value * np.exp(
            float(np.sqrt(sum(p.error**2 for p in parameters)))
            * normals("validate/rate", DRAWS, SEED)
        )
        if number.direction != "memory":  # another node of this kind
            spread = PEER_SHARE if number.direction == "p2p" else NODE_SHARE
            drawn = drawn / half_normal(normals(LINK, DRAWS, SEED), spread)
        low, high = (float(q) for q in np.quantile(drawn, [(1.0 - LEVEL) / 2, (1.0 + LEVEL) / 2]))
        what, rate, ends = (
            f"{number.what} on {machine.name}",
            parse(number.value, "B/s"),
            (min(low, value), max(high, value)),
        )
        yield Row(case.name, "rates", question.model, what, "B/s", value, rate, *ends)


#: Bandwidth of each direction and the share of it that is reached.
_RATES: Final[Mapping[str, tuple[ParameterName, ...]]] = {
    **{
        direction: (link_parameter(direction, "bandwidth"), link_parameter(direction, "efficiency"))
        for direction in LINK_WAYS
    },
    "memory": ("gpu.memory_bandwidth", "gpu.memory_efficiency"),
}
