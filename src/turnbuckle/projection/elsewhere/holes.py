"""Numbers that decide how long a run's kernels take on another GPU and that a machine's file leaves
out: no answer rests on a default.

Which numbers decide follows from the kernels.  All need the bandwidth of device memory.  One that
arithmetic holds up, by its name, needs the peak of its precision, and so does one of an unknown
class that is priced between the rates.  What is missing is a hole where it could move the run time
by more than `NEGLIGIBLE`; below that the default stays and a finding says how far it could be off.

One hole is of the program: pages of managed memory move by faults, and a layer that forwards calls
sees none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from turnbuckle.foundation.schema import words
from turnbuckle.machine import Machine, Pair
from turnbuckle.machine.parameter_names import ParameterName
from turnbuckle.profile.kernels import KernelKind
from turnbuckle.profile.pieces import Pieces
from turnbuckle.profile.profile import Profile
from turnbuckle.projection.elsewhere.kernels import PEAKS, basis_of, kernel_rate, peaks, scales
from turnbuckle.projection.elsewhere.priors import GPU_RATES, PAGES, SOURCE_GPU, forwards, other_gpu

if TYPE_CHECKING:
    from turnbuckle.projection.model import Model

#: Share of the run time by which a missing number may move an answer that is still given: the
#: smallest step of a verdict.
NEGLIGIBLE: Final = 0.01
#: Fewest operations a clock that a multiprocessor does, by precision: two units in FP64 and 64 in
#: FP32, an FMA is two operations (CUDA C++ Programming Guide, throughput of native arithmetic
#: instructions, compute capability 6.0 to 12.0); units for matrices do no less.
_FEWEST: Final = {"FP64": 4.0}
_FEWEST_OTHER: Final = 128.0
#: How many times longer kernels may take where not even that can be told: FP64 of 1/64 of the units
#: in place of all of them.
_LONGEST: Final = 64.0
MEMORY: Final = "memory bandwidth"
_MEMORY: Final[ParameterName] = "gpu.memory_bandwidth"
#: Codes of copies that move pages, and of memory whose pages move.
_MIGRATIONS: Final = [code for code, word in enumerate(words("directions")) if "migration" in word]
_MANAGED: Final = [code for code, word in enumerate(words("memories")) if "managed" in word]
#: Calls that allocate managed memory, of CUDA and HIP.
_ALLOCATES: Final = r"^(cuda|hip)MallocManaged$|^cuMemAllocManaged$"
_RATES: Final = tuple(dict.fromkeys(name for peaks in PEAKS.values() for name in peaks))


@dataclass(frozen=True)
class Hole:
    """A number that a machine's file leaves out.

    Attributes
    ----------
    field : the number in words, as ``FP64``.
    machine : the machine's name.
    effect : share of the run time by which it could move the answer, at most.
    """

    field: str
    machine: str
    effect: float


def holes(run: Pieces, seconds: float, pair: Pair, model: Model) -> list[Hole]:
    """Return what the prices of a run's kernels on the target lack, the largest effect first.

    Parameters
    ----------
    run : its pieces; only the kernels count.
    seconds : run time [s].
    """
    if (
        not seconds
        or not other_gpu(pair)
        or not isinstance(model.alpha, str)
        or model.alpha == "hold"
    ):
        return []
    if not scales(pair) and not any(name in pair.source.parameters for name in GPU_RATES):
        return []  # nothing is known of the source's GPU
    effects: dict[tuple[str, str], float] = {}
    rows = run.kind == "kernel"
    for kind, took in zip(run.kernel[rows], run.seconds[rows], strict=True):
        for field in _lacking(kind or KernelKind(), pair, model):
            lacks = _which(pair, field)
            effects[field, lacks.name] = effects.get(
                (field, lacks.name), 0.0
            ) + took / seconds * _longest(field, pair)
    return [
        Hole(*named, effect) for named, effect in sorted(effects.items(), key=lambda item: -item[1])
    ]


def hole(profile: Profile, run: Pieces, pair: Pair, model: Model) -> str:
    """Return what an answer hangs on and no file states, as ``FP64 of gb300``; empty where nothing
    decides that is not stated.
    """
    if forwards(pair) and managed(profile):
        return PAGES
    if _unknown_source(run, pair, model):
        return SOURCE_GPU
    missing = holes(run, profile.seconds, pair, model)
    every = sum(each.effect for each in missing)
    if every <= NEGLIGIBLE:
        return ""
    return " and ".join(_of_machines(each for each in missing if each.effect > NEGLIGIBLE * every))


def managed(profile: Profile) -> bool:
    """Return whether anything in a recording shows managed memory: pages that moved, faults, memory
    of that kind, or its allocation.

    The names of calls are those of the whole recording, also in a part of it.
    """
    trace = profile.trace
    moved = pl.col("direction").is_in(_MIGRATIONS)
    kept = pl.col("source_memory").is_in(_MANAGED) | pl.col("target_memory").is_in(_MANAGED)
    if trace.page_faults.height or not trace.copies.filter(moved | kept).is_empty():
        return True
    allocated = trace.allocations["memory"].is_in(_MANAGED).any()
    return bool(allocated or trace.names.cast(pl.String).str.contains(_ALLOCATES).any())


def _unknown_source(run: Pieces, pair: Pair, model: Model) -> bool:
    """Return whether kernels would keep their time on another GPU because no rate of the
    recording's is known.
    """
    if not other_gpu(pair) or not isinstance(model.alpha, str) or model.alpha == "hold":
        return False
    if any(name in pair.source.parameters for name in (*_RATES, _MEMORY)):
        return False
    kinds = [kind for kind in run.kernel if kind is not None]
    return model.alpha != "auto" or any(
        basis_of(kind, pair, model.kernels) not in ("given", "kept") for kind in kinds
    )


def _of_machines(missing: Iterable[Hole]) -> list[str]:
    """Return the fields of each machine in words."""
    fields: dict[str, list[str]] = {}
    for each in missing:
        fields.setdefault(each.machine, []).append(each.field)
    return [f"{', '.join(named)} of {machine}" for machine, named in fields.items()]


def _designed(machine: Machine) -> bool:
    """Return whether a machine is a design point that states one peak alone: its authors meant
    kernels to scale by it.
    """
    rates = [name for name in (*_RATES, _MEMORY) if name in machine.parameters]
    return (
        len(rates) == 1
        and rates[0] != _MEMORY
        and machine.parameters[rates[0]].nature == "assumption"
    )


def _lacking(kind: KernelKind, pair: Pair, model: Model) -> list[str]:
    """Return the rates that decide how long a kernel takes and that source and target do not both
    state.
    """
    if model.alpha != "auto":
        field = "FP64" if model.alpha == "flop" else MEMORY
        rates = (kernel_rate(pair.source, model.alpha), kernel_rate(pair.target, model.alpha))
        return [field] if None in rates else []
    basis = basis_of(kind, pair, model.kernels)
    if basis in ("given", "kept", "counters"):
        return []
    memory = [machine.value(_MEMORY) for machine in (pair.source, pair.target)]
    out = [MEMORY] if None in memory and not _designed(pair.target) else []
    decides = kind.bound == "pipe" or (kind.bound == "" and basis == "range of rates")
    if decides and kind.precision and _unlike(kind.precision.upper(), pair, basis):
        out.append(kind.precision.upper())
    return out


def _unlike(field: str, pair: Pair, basis: str) -> bool:
    """Return whether source and target do not both state a rate; of one GPU that neither states it
    is the same.
    """
    states = [
        any(name in machine.parameters for name in _names(field, machine))
        for machine in (pair.source, pair.target)
    ]
    return not all(states) and (any(states) or basis != "same GPU")


def _which(pair: Pair, field: str) -> Machine:
    """Return the machine that does not state a rate: the target, unless it does."""
    return (
        pair.source
        if any(name in pair.target.parameters for name in _names(field, pair.target))
        else pair.target
    )


def _names(field: str, machine: Machine) -> tuple[ParameterName, ...]:
    return (_MEMORY,) if field == MEMORY else peaks(field.lower(), machine)


def _longest(field: str, pair: Pair) -> float:
    """Return by how many of its own lengths a kernel may take longer where a rate is not known; at
    least 1, as where it vanishes.
    """
    units, clock = pair.target.value("gpu.multiprocessors"), pair.target.value("gpu.clock")
    rate = next(
        (
            value
            for name in _names(field, pair.source)
            if (value := pair.source.value(name)) is not None
        ),
        None,
    )
    if field == MEMORY or rate is None or units is None or clock is None:
        return _LONGEST
    return max(rate / (units * clock * _FEWEST.get(field, _FEWEST_OTHER)) - 1.0, 1.0)
