"""Kernels on another GPU: for every kernel a ratio with an interval, from the best that its
recording allows (decision D19, 0029).

    given              the user's table: a ratio or a duration for kernels of a name
    counters           a profiler's: what was reached of memory bandwidth and arithmetic tells which of them decides
    class              what was measured of kernels of that class (`elsewhere.classes`)
    range of rates     a name that tells nothing, or a GPU that is not full: between the ratios of memory and of the peak, and 1
    kept               collectives, which wait for other GPUs; the same GPU elsewhere

No constant is fitted to a validation case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from turnbuckle.cost.waves import blocks_at_once, longer, memory_share
from turnbuckle.foundation.arrays import Bool, Float, below
from turnbuckle.machine import Machine, Pair
from turnbuckle.machine.needs import lacking
from turnbuckle.machine.parameter_names import ParameterName
from turnbuckle.machine.recognition.families import without_tf32
from turnbuckle.profile.kernels import KernelKind
from turnbuckle.projection.elsewhere.classes import (
    by_class,
    measured,
    reached_bandwidth,
    rule,
    scatter,
)
from turnbuckle.projection.elsewhere.counters import Counted
from turnbuckle.projection.elsewhere.given import KernelTable
from turnbuckle.projection.elsewhere.priors import (
    GPU_RATES,
    VENDOR_ERROR,
    Draws,
    Elsewhere,
    other_gpu,
    other_vendor,
)

if TYPE_CHECKING:
    from turnbuckle.profile.pieces import Pieces
    from turnbuckle.projection.model import Priced

#: Relative error (log-sd) of a run's kernels by wave scaling: a mean of 11.8 % over six GPUs (Yu et
#: al., ATC 2021, abstract), over 0.8.
WAVE_ERROR: Final = 0.15
#: One GPU model from node to node (log-sd): 8 % on average over five systems (Sinha et al., Not All
#: GPUs Are Created Equal, arXiv 2208.11035v3, abstract).
SAME_GPU: Final = 0.08
#: What any multiprocessor since 2016 holds where a machine file does not say (CUDA C++ Programming
#: Guide, technical specifications).
_HELD: Final[Mapping[ParameterName, float]] = {
    "gpu.threads": 2048.0,
    "gpu.registers": 65536.0,
    "gpu.shared_memory": np.inf,
    "gpu.blocks": 32.0,
}
#: Peaks that a kernel of a precision can reach, the first that both machines state.
PEAKS: Final[Mapping[str, tuple[ParameterName, ...]]] = {
    "fp64": ("gpu.fp64_matrix", "gpu.fp64"),
    "fp32": ("gpu.fp32",),
    "tf32": ("gpu.tf32_matrix",),
    "bf16": ("gpu.fp16_matrix",),
    "fp16": ("gpu.fp16_matrix",),
    "fp8": ("gpu.fp8_matrix",),
    "int8": ("gpu.int8_matrix",),
}
#: Share of the peak of FP16 that BF16 has, by family, where it is not all: CDNA (AMD ROCm
#: documentation, MI100 microarchitecture, table FLOPS/CLOCK/CU).
BF16_PART: Final[Mapping[str, float]] = {"gfx908": 0.5}
#: Rates that kernels are scaled by, by the word for alpha.
ALPHA_RATES: Final[Mapping[str, tuple[ParameterName, ...]]] = {
    "auto": ("gpu.memory_bandwidth",),
    "flop": ("gpu.fp64_matrix", "gpu.fp64"),
    "memory": ("gpu.memory_bandwidth",),
}
_REACH: Final = 1.6448536269514722
#: A side that did nothing at all.
_LEAST: Final = 1e-9

#: Names among the drivers.
KERNELS: Final = "kernels on the other GPU"
REACHED_SHARE: Final = "share of its memory bandwidth that a GPU reaches"
VENDOR: Final = "kernels on a GPU of another vendor"


def same_model(pair: Pair) -> bool:
    """Return whether two machines have the same GPU: all rates that both state are equal, that of
    memory and at least one more.
    """
    if any(machine.value("gpu.memory_bandwidth") is None for machine in (pair.source, pair.target)):
        return False
    rates = [(pair.source.value(name), pair.target.value(name)) for name in GPU_RATES]
    both = [(a, b) for a, b in rates if a is not None and b is not None]
    return len(both) > 1 and all(a == b for a, b in both) and not other_vendor(pair)


def _over(name: ParameterName, source: Priced, target: Priced) -> Float | None:
    """Return a parameter there over here; None where either machine lacks it."""
    before, after = source.value(name), target.value(name)
    return None if before is None or after is None else np.asarray(after / before)


def peaks(precision: str, machine: Machine) -> tuple[ParameterName, ...]:
    """Return the peaks that kernels of a precision can reach on a machine's GPU: where its family
    has no units for TF32, that of FP32.
    """
    names = PEAKS.get(precision, ())
    absent = (
        precision == "tf32" and names[0] not in machine.parameters and without_tf32(machine.family)
    )
    return ("gpu.fp32",) if absent else names


def peak_over(precision: str, pair: Pair, source: Priced, target: Priced) -> Float | None:
    """Return the peak rate of a precision there over here; None where no machine file states it on
    both.

    By the units that both machines have; where one has units for matrices and the other has none,
    by the best of each.
    """
    here, there = peaks(precision, pair.source), peaks(precision, pair.target)
    alike = next(
        (
            ratio
            for name in here
            if name in there and (ratio := _over(name, source, target)) is not None
        ),
        None,
    )
    before = next((v for name in here if (v := source.value(name)) is not None), None)
    after = next((v for name in there if (v := target.value(name)) is not None), None)
    if alike is not None:
        return alike * _part(precision, pair)
    if before is None or after is None:
        return None
    return np.asarray(after / before) * _part(precision, pair)


def _part(precision: str, pair: Pair) -> float:
    """Return what a precision has of the peak that stands for it, there over here."""
    if precision != "bf16":
        return 1.0
    return BF16_PART.get(pair.target.family, 1.0) / BF16_PART.get(pair.source.family, 1.0)


def scales(pair: Pair) -> bool:
    """Return whether both machines state a rate that kernels could scale by."""
    rates = [
        _over("gpu.memory_bandwidth", pair.source, pair.target),
        *(peak_over(p, pair, pair.source, pair.target) for p in PEAKS),
    ]
    return any(rate is not None for rate in rates)


def given_longer(kinds: Sequence[KernelKind], given: KernelTable) -> Float:
    """Return the stated time on the target over that on the source, shape (kinds,); 1 for kernels
    that the table leaves out.
    """
    return np.array([1.0 if kind.given < 0 else 1.0 / given.ratio[kind.given] for kind in kinds])


def basis_of(kind: KernelKind, pair: Pair, given: KernelTable | None = None) -> str:
    """Say what the time of kernels on the target rests on."""
    counters = None if given is None else given.counters(kind.given)
    if kind.given >= 0 and counters is None:
        return "given"
    if not other_gpu(pair) or kind.bound == "none":
        return "kept"
    if same_model(pair):
        return "same GPU"
    if counters is not None and _by_counts(kind, counters, pair):
        return "counters"
    return "class" if _by_rule(kind, pair) else "range of rates"


def _by_rule(kind: KernelKind, pair: Pair) -> bool:
    """Return whether the class of a kernel tells its time on the target: it has a rule, and fills
    its GPU unless the rule says how.
    """
    constants = rule(kind)
    stated = all(
        machine.value("gpu.memory_bandwidth") is not None for machine in (pair.source, pair.target)
    )
    if constants is None or not stated:
        return False
    return constants.fill > 0 or not bool(_unfilled([kind], pair.source)[0])


def _by_launch(kind: KernelKind, pair: Pair) -> bool:
    """Return whether waves of blocks tell the time on the target."""
    stated = not any(lacking(machine, "launch geometry") for machine in (pair.source, pair.target))
    return kind.launched and stated and not other_vendor(pair)


def _by_counts(kind: KernelKind, counters: Counted, pair: Pair) -> bool:
    """Return whether counters tell the time on the target: the machines have the rates, and the
    kernel is held up by one of them.
    """
    if (
        _over("gpu.memory_bandwidth", pair.source, pair.target) is None
        or _computes(kind, pair, pair.source, pair.target, counters) is None
    ):
        return False
    if np.isnan(reached(kind, counters, pair.source)).all():
        return False
    return _by_launch(kind, pair) or not bool(_unfilled([kind], pair.source)[0])


def reached(kind: KernelKind, counters: Counted, machine: Machine) -> tuple[float, float]:
    """Return the share of a machine's memory bandwidth, and of what it computes, that counted
    kernels reached; nan where that is not known.

    A matrix product of which only other operations were counted is one whose arithmetic is not
    known.
    """
    bandwidth = machine.value("gpu.memory_bandwidth")
    rate = counters.size_bytes / counters.seconds if np.isnan(counters.rate) else counters.rate
    memory = rate / bandwidth if np.isnan(counters.memory) and bandwidth else counters.memory
    arithmetic = counters.arithmetic
    matrix = any(name.endswith("_matrix") and count for name, count in counters.operations.items())
    if np.isnan(arithmetic) and (matrix or kind.bound != "pipe"):
        arithmetic = max(
            (s / counters.seconds for s in _at_peak(counters, machine).values()), default=np.nan
        )
    return min(memory, 1.0), min(arithmetic, 1.0)


def _at_peak(counters: Counted, machine: Priced) -> dict[ParameterName, float]:
    """Return how long the counted operations take at a machine's peaks [s], by peak."""
    peaks = {name: machine.value(name) for name in counters.operations}
    return {
        name: counters.operations[name] / float(np.mean(peak))
        for name, peak in peaks.items()
        if peak is not None
    }


def kernels_longer(
    kinds: Sequence[KernelKind],
    pair: Pair,
    source: Priced,
    target: Priced,
    draws: Draws,
    given: KernelTable | None = None,
) -> Float | None:
    """Return the time of each kind of kernels on the target over its time on the source, shape
    (..., kinds).

    None where the machines share no rate that kernels could scale by, and no table gives one.

    Parameters
    ----------
    pair, source, target : as stated, and as values or draws of shape (draws, 1).
    draws : of what the machines do not state; none gives the middle.
    """
    out = np.ones((draws.draws or 1, len(kinds)))
    bases = [basis_of(kind, pair, given) for kind in kinds]
    if given is None and "range of rates" in bases and not scales(pair):
        return None
    for basis in dict.fromkeys(bases):
        rows = np.array([b == basis for b in bases])
        chosen = [kind for kind, row in zip(kinds, rows, strict=True) if row]
        if basis == "given" and given is not None:
            out[:, rows] = _given(chosen, given, pair.target.name, draws)
        elif basis == "counters" and given is not None:
            out[:, rows] = _by_counters(chosen, pair, source, target, draws, given)
        elif basis == "same GPU":
            out[:, rows] = np.exp(SAME_GPU * draws.of(KERNELS))
        elif basis == "class":
            out[:, rows] = _by_class(chosen, pair, source, target, draws)
        elif basis == "range of rates":
            out[:, rows] = _by_hull(chosen, pair, source, target, draws)
        if basis in ("counters", "class", "range of rates"):
            out[:, rows] = _allowed(out[:, rows], chosen, pair)
    return out if draws.draws else out[0]


def _allowed(longer: Float, kinds: Sequence[KernelKind], pair: Pair) -> Float:
    """Return the same times within what the machines' rates allow, shape (..., kinds); what was
    measured on both GPUs is not held to it.
    """
    free = (1e-9, 1e9)
    bounds = {
        (kind.precision, measured(kind, pair)): rates_allow(pair, kind.precision) for kind in kinds
    }
    chosen = [free if measured(kind, pair) else bounds[kind.precision, False] for kind in kinds]
    slowest, fastest = np.array(chosen).T
    return np.clip(longer, 1.0 / fastest, 1.0 / slowest)


def rates_allow(pair: Pair, precision: str = "") -> tuple[float, float]:
    """Return the least and the most by which kernels of a precision can run faster on the target; 1
    lies between them.

    These are the ratios of the rates that both machines state and that can hold such a kernel up:
    of memory, as stated and as it is reached, of arithmetic in its precision (in any where the name
    tells none), of the clock, of multiprocessors times clock.  Each reaches as far as its errors
    do.
    Vendors' kernels reach other shares of these rates: between them a kernel may lose as much as it
    may gain (of an image classifier the kernels took 1.4 times as long on an MI300X as on an H100,
    all of whose rates are lower).
    """
    named = PEAKS.get(precision) or tuple(name for names in PEAKS.values() for name in names)
    singly: tuple[ParameterName, ...] = ("gpu.memory_bandwidth", "gpu.clock", *dict.fromkeys(named))
    products: tuple[tuple[ParameterName, ...], ...] = (
        ("gpu.multiprocessors", "gpu.clock"),
        ("gpu.memory_bandwidth", "gpu.memory_efficiency"),
    )
    rates = [_ends(pair, (name,)) for name in singly] + [_ends(pair, names) for names in products]
    ends = [end for rate in rates if rate is not None for end in rate]
    part = _part(precision, pair)
    ends += [end * part for name in named for end in _ends(pair, (name,)) or ()]
    if not ends:
        return 1e-9, 1e9
    least, most = min([1.0, *ends]), max([1.0, *ends])
    return (min(least, 1.0 / most), max(most, 1.0 / least)) if other_vendor(pair) else (least, most)


def _ends(pair: Pair, names: tuple[ParameterName, ...]) -> tuple[float, float] | None:
    """Return the 90 % range of a product of rates there over here; None where either machine lacks
    one of them.
    """
    ratio, variance = 1.0, 0.0
    for name in names:
        before, after = pair.source.get(name), pair.target.get(name)
        if before is None or after is None:
            return None
        ratio *= after.value / before.value
        variance += before.error**2 + after.error**2
    reach = float(np.exp(_REACH * np.sqrt(variance)))
    return ratio / reach, ratio * reach


def _given(kinds: Sequence[KernelKind], given: KernelTable, target: str, draws: Draws) -> Float:
    ratio, error = given.of(target)
    columns = [
        np.exp(error[k.given] * draws.of(f"given for {given.patterns[k.given]}")) / ratio[k.given]
        for k in kinds
    ]
    return np.concatenate([np.broadcast_to(c, (draws.draws or 1, 1)) for c in columns], axis=1)


def _by_name(kinds: Sequence[KernelKind], draws: Draws) -> Float:
    """Return the draws of each kind by the name of its class, shape (..., kinds)."""
    drawn = [
        np.broadcast_to(draws.of(f"what bounds kernels: {kind.name}"), (draws.draws or 1, 1))
        for kind in kinds
    ]
    return np.concatenate(drawn, axis=1)


def _by_class(
    kinds: Sequence[KernelKind], pair: Pair, source: Priced, target: Priced, draws: Draws
) -> Float:
    """Return the ratios of classes, with their scatter: one draw a class, and one for what another
    GPU or vendor adds.
    """
    memory = reached_bandwidth(pair, source, target, draws.of(REACHED_SHARE))
    assert memory is not None  # `basis_of` has looked
    peaks = {kind: _peak_of_class(kind, pair, source, target) for kind in kinds}
    compute = _columns([memory if peaks[kind] is None else peaks[kind] for kind in kinds], draws)
    own, more = np.array([scatter(kind, pair) for kind in kinds]).T
    further = draws.of(VENDOR if other_vendor(pair) else KERNELS)
    scattered = np.exp(own * _by_name(kinds, draws) + more * further)
    return np.asarray(by_class(kinds, pair, np.atleast_2d(memory), compute) * scattered)


def _peak_of_class(kind: KernelKind, pair: Pair, source: Priced, target: Priced) -> Float | None:
    """Return the peak there over here: of the precision of a class that arithmetic holds up, of
    FP32 for any other.
    """
    if kind.bound != "pipe" and (peak := peak_over("fp32", pair, source, target)) is not None:
        return peak
    return _computes(kind, pair, source, target)


def _by_counters(
    kinds: Sequence[KernelKind],
    pair: Pair,
    source: Priced,
    target: Priced,
    draws: Draws,
    given: KernelTable,
) -> Float:
    """Take the share that memory decides from what was counted: from the roofline of the target, as
    Habitat does (section 4.2).

    While neither side was at its peak, either may have held the kernel up: for that part of the
    time the share is drawn over all that it can be.  So is a side that was not counted.
    """
    counted = [counters for kind in kinds if (counters := given.counters(kind.given)) is not None]
    shares = np.array(
        [
            reached(kind, counters, pair.source)
            for kind, counters in zip(kinds, counted, strict=True)
        ]
    )
    z = _by_name(kinds, draws)
    memory, arithmetic = (
        np.where(np.isnan(side), below(sign * z), side)
        for side, sign in ((shares[:, 0], 1), (shares[:, 1], -1))
    )
    faster = _over("gpu.memory_bandwidth", source, target)
    assert faster is not None  # `basis_of` has looked
    compute = _columns(
        [_computes(k, pair, source, target, c) for k, c in zip(kinds, counted, strict=True)], draws
    )
    share = memory_share(
        np.maximum(arithmetic, _LEAST) / np.maximum(memory, _LEAST) * faster / compute
    )
    idle = 1.0 - np.maximum(memory, arithmetic)
    share = share + idle * np.where(z > 0, 1.0 - share, share) * (2.0 * below(z) - 1.0)
    launched = np.array([_by_launch(kind, pair) for kind in kinds])
    out = np.broadcast_to(
        faster**-share * compute ** (share - 1.0), (draws.draws or 1, len(kinds))
    ).copy()
    if launched.any():
        some = [kind for kind, waves in zip(kinds, launched, strict=True) if waves]
        out[:, launched] = _waved(some, source, target, share[:, launched], compute[:, launched])
    return np.asarray(out * _scatter(pair, draws))


def _computes(
    kind: KernelKind, pair: Pair, source: Priced, target: Priced, counters: Counted | None = None
) -> Float | None:
    """Return what a full GPU computes there over here; None where the machines share no rate of it.

    By the peak that most of the counted operations go to; by that of its precision, for a class
    held up by arithmetic; by multiprocessors times clock, which are the same thing within a vendor
    alone.
    """
    if counters is not None and (at_peak := _at_peak(counters, source)):
        return _over(max(at_peak, key=lambda name: at_peak[name]), source, target)
    foreign = other_vendor(pair)
    if (kind.bound == "pipe" or foreign) and (
        peak := peak_over(kind.precision, pair, source, target)
    ) is not None:
        return peak
    units = [
        _middle(machine, "gpu.multiprocessors") * _middle(machine, "gpu.clock")
        for machine in (target, source)
    ]
    if not foreign and not np.isnan(units).any():
        return np.asarray(units[0] / units[1])
    peaks = [
        peak
        for word in ("fp64", "fp32")
        if (peak := peak_over(word, pair, source, target)) is not None
    ]
    return np.exp(sum(np.log(peak) for peak in peaks) / len(peaks)) if peaks else None


def _columns(values: Sequence[Float | None], draws: Draws) -> Float:
    """Return one column of draws for each value."""
    return np.concatenate(
        [np.broadcast_to(np.nan if v is None else v, (draws.draws or 1, 1)) for v in values], axis=1
    )


def _scatter(pair: Pair, draws: Draws) -> Float:
    """Return by how much longer or shorter the kernels of one run take than rates say."""
    foreign = other_vendor(pair)
    return np.exp(
        (VENDOR_ERROR if foreign else WAVE_ERROR) * draws.of(VENDOR if foreign else KERNELS)
    )


def _waved(
    kinds: Sequence[KernelKind], source: Priced, target: Priced, share: Float, compute: Float
) -> Float:
    """Return the time on the target by waves of blocks, where memory decides a share of it, shape
    (..., kinds).
    """
    threads, registers, shared, blocks = (
        np.array([getattr(k, c) for k in kinds], dtype=np.float64)
        for c in ("threads", "registers", "shared_bytes", "blocks")
    )
    waves = []
    for machine in (source, target):
        held = [_middle(machine, name, default) for name, default in _HELD.items()]
        waves.append(
            _middle(machine, "gpu.multiprocessors")
            * blocks_at_once(threads, registers, shared, held)
        )
    memory = _over("gpu.memory_bandwidth", source, target)
    clock = _middle(target, "gpu.clock") / _middle(source, "gpu.clock")
    assert memory is not None  # `basis_of` has looked
    return longer(blocks, waves[0], waves[1], memory, clock, compute, share)


def _middle(machine: Priced, name: ParameterName, default: float = np.nan) -> float:
    """Return the middle of a number that no draw moves much: what a GPU is built of."""
    value = machine.value(name)
    return default if value is None else float(np.mean(value))


def _by_hull(
    kinds: Sequence[KernelKind], pair: Pair, source: Priced, target: Priced, draws: Draws
) -> Float:
    """Draw between what could bound kernels: by halves of a normal from the middle to either end,
    each reached 5 times in 100.

    The middle is the ratio of the memory bandwidths that are reached, or that of the peaks where a
    machine states no bandwidth.  For a kernel that does not fill its GPU it is that of the clocks,
    which another vendor's says nothing of.
    """
    memory = reached_bandwidth(pair, source, target, draws.of(REACHED_SHARE))
    clock = None if other_vendor(pair) else _over("gpu.clock", source, target)
    unfilled = _unfilled(kinds, source)
    z = _by_name(kinds, draws)
    flat = np.zeros(draws.draws or 1)
    out = np.ones(z.shape)
    for k, kind in enumerate(kinds):
        words = (kind.precision,) if kind.precision else ("fp64", "fp32")
        rates = [
            rate
            for rate in (memory, *(peak_over(word, pair, source, target) for word in words))
            if rate is not None
        ]
        logs = [flat - np.log(rate).reshape(-1) for rate in rates] + [flat]
        middle = logs[0]
        if unfilled[k]:
            middle = flat if clock is None else flat - np.log(clock).reshape(-1)
            logs.append(middle)
        reach = (
            np.where(z[:, k] > 0, np.max(logs, axis=0) - middle, middle - np.min(logs, axis=0))
            / _REACH
        )
        out[:, k] = np.exp(middle + z[:, k] * reach)
    return np.asarray(out * _scatter(pair, draws))


def _unfilled(kinds: Sequence[KernelKind], source: Priced) -> Bool:
    """Return which kernels have fewer blocks than their GPU has multiprocessors."""
    units = _middle(source, "gpu.multiprocessors")
    return np.array([k.launched and k.blocks < units for k in kinds], dtype=np.bool_)


def kernel_rate(machine: Priced, alpha: float | str) -> Float | float | None:
    """Return the rate that scales kernels: double precision (matrix units if any, as the paper's
    Table I) or memory bandwidth.
    """
    if alpha == "memory":
        return machine.value("gpu.memory_bandwidth")
    matrix = machine.value("gpu.fp64_matrix")
    return machine.value("gpu.fp64") if matrix is None else matrix


def kernel_seconds(
    alpha: float | str, given: KernelTable | None = None
) -> Callable[[Pieces, Priced, Priced], Float | None]:
    """Return the price of kernels on a machine, in a unit that cancels: by class, by a rate, or by
    a number that the user states.
    """

    def seconds(p: Pieces, machine: Priced, source: Priced) -> Float | None:
        if alpha == "auto":
            kinds = [kind or KernelKind() for kind in p.kernel[p.kind == "kernel"]]
            if not isinstance(machine, Elsewhere) or machine is source:
                return (
                    np.ones(len(kinds))
                    if machine is source or given is None
                    else given_longer(kinds, given)
                )
            return kernels_longer(
                kinds, machine.pair, source, machine.machine, machine.draws, given
            )
        if isinstance(alpha, str):
            rate = kernel_rate(machine, alpha)
            return None if rate is None else np.asarray(1.0 / rate)
        return np.asarray(1.0 if machine is source else 1.0 / alpha)

    return seconds
