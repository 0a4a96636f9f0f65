"""A question and its answer: one profile, where it ran, where it might run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl

from turnbuckle.errors import UsageError
from turnbuckle.findings import Finding, merge
from turnbuckle.machine import Machine, Pair, load
from turnbuckle.model import Model, nething
from turnbuckle.profile.describe import describe, untold
from turnbuckle.profile.exchange_numbers import exchange_numbers
from turnbuckle.profile.profile import Profile, build
from turnbuckle.profile.source import observed_machine
from turnbuckle.profile.transfers import LinkFit
from turnbuckle.project import DEVICE_ACTIVITY, require_calls
from turnbuckle.projection import Projection, faster
from turnbuckle.study.clean import cleaned
from turnbuckle.study.uncertainty import DRAWS, SEED, project_many
from turnbuckle.trace.read import read
from turnbuckle.trace.secrets import look
from turnbuckle.trace.window import Part, cut

#: Asked when the user names no target: tighter, then farther and farther.
DEFAULT_TARGETS = ("nvlink-c2c", "pcie5-x16", "cdi-switch-hop-link", "cdi-rack-link", "cdi-row-link", "cdi-row-api")
#: The target of the additive model: the lambdas say all there is.
LAMBDA = Machine(name="lambda", title="each class of time divided by its lambda", summary="", year=0, coupling="relative", base="source")
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Answer:
    """What one question came to.

    Attributes
    ----------
    profile, source, fits : the run, the machine it ran on as observed, and the fitted links.
    model : price list and replay used.
    targets : machines asked for, as declared.
    projections : one per target, in the order asked.
    command : the command line that repeats it; file names without folders.
    """

    profile: Profile
    source: Machine
    fits: Mapping[tuple[str, str], LinkFit]
    model: Model | None = None
    targets: tuple[Machine, ...] = ()
    projections: list[Projection] = field(default_factory=list)
    source_findings: list[Finding] = field(default_factory=list)
    seed: int = SEED
    draws: int = DRAWS
    command: str = ""

    @property
    def findings(self) -> list[Finding]:
        """Flaws of the recording and of the source machine; those of a projection stand with it."""
        return merge([*self.profile.findings, *self.source_findings])

    @property
    def on_device(self) -> bool:
        """Whether the recording holds GPU activity."""
        return bool(self.profile.has & DEVICE_ACTIVITY)

    @property
    def projectable(self) -> bool:
        """Whether it also holds the host calls behind it, so that another coupling could change anything that was recorded."""
        return self.on_device and self.profile.trace.api.height > 0

    @property
    def untold(self) -> frozenset[str]:
        """Categories of the time line that were not recorded: it shows no time of them, which is not to say that there was none."""
        return untold(self.profile)

    def provenance(self) -> dict[str, Any]:
        """Enough to repeat the answer: versions, hashes, machines, model, seed, command."""
        facts = self.profile.trace.facts
        return {
            "tool": "turnbuckle",
            "version": version("turnbuckle"),
            "profile": {
                "file": self.profile.trace.name,
                "sha256": facts.get("sha256"),
                "size_bytes": facts.get("size_bytes"),
                "format": facts.get("format"),
                "profiler_version": facts.get("product_version"),
                "schema_version": facts.get("schema_version"),
                "recorded_utc_ns": facts.get("session_start_utc_ns"),
                "part": facts.get("part"),
            },
            "source_machine": {"name": self.source.name, "sha256": self.source.sha256},
            "targets": [{"name": m.name, "sha256": m.sha256} for m in self.targets],
            "model": None
            if self.model is None
            else {"name": self.model.name, "paper": self.model.paper, "alpha": self.model.alpha, "replay": self.model.replay},
            "seed": self.seed,
            "draws": self.draws,
            "command": self.command,
        }

    def inspection(self) -> dict[str, Any]:
        """The JSON contract of ``inspect``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "profile": describe(self.profile, self.source, self.fits),
            "findings": [f.as_dict() for f in self.findings],
            "provenance": self.provenance(),
        }

    def table(self) -> pl.DataFrame:
        """The projections as a table, one row a target; `.to_pandas()`, `.to_arrow()` and `.write_parquet()` take it further."""
        flat = []
        for p in self.projections:
            low, high = (p.interval.low, p.interval.high) if p.interval else (p.seconds, p.seconds)
            numbers = {"seconds": p.seconds, "low_seconds": low, "high_seconds": high, "measured_seconds": p.measured_seconds}
            ratios = {"penalty": p.penalty, "benefit": p.benefit, "kernel_alpha": p.alpha}
            flat.append({"target": p.target, **numbers, **ratios, **{f"{part}_seconds": v for part, v in p.breakdown.items()}})
        return pl.DataFrame(flat, infer_schema_length=None)

    def as_dict(self) -> dict[str, Any]:
        """The JSON contract of ``project``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "projections": [p.as_dict() for p in self.projections],
            "faster": faster(self.projections),
            "findings": [f.as_dict() for f in self.findings],
            "provenance": self.provenance(),
        }


def inspect(
    path: str | Path,
    *,
    source: str | None = None,
    use_cache: bool = True,
    progress: Callable[[float], None] | None = None,
    command: str = "",
    part: Part | None = None,
    clean_seconds: float | None = None,
) -> Answer:
    """Read one recording and say what it amounts to.

    Parameters
    ----------
    path : the recording.
    source : name or file of the machine it ran on; None recognises it.
    use_cache : keep and use the Parquet copy of a large recording.
    progress : called with the share read so far.
    part : a stretch of time, an NVTX range, a rank; None is the whole recording.
    clean_seconds : run time of the same stretch without profiler, to which the recording is shortened [s] (`turnbuckle.study.clean`).

    Raises
    ------
    ProfileError : the recording cannot be read.
    UsageError, CannotAnswer : the part is not in it, or cannot be shortened so.
    MachineError : the source is unknown or relative.
    """
    trace = read(path, use_cache=use_cache, progress=progress)
    profile = build(cut(trace, part, exchange_numbers) if part else trace)
    if clean_seconds is not None:
        profile = cleaned(profile, clean_seconds)
    if carried := look(Path(path), texts=False).findings():
        profile = replace(profile, findings=merge([*profile.findings, *carried]))
    return inspect_profile(profile, source=source, command=command)


def inspect_profile(profile: Profile, *, source: str | None = None, command: str = "") -> Answer:
    """Like `inspect`, for a profile at hand."""
    named = load(source) if source else None
    if named is not None and named.relative:
        Pair(named, named)  # says why a relative machine cannot be a source
    machine, fits, found = observed_machine(profile, named)
    return Answer(profile, machine, fits, source_findings=found, command=command)


def ask(seen: Answer, on: Sequence[str] | None = None, *, model: Model | None = None, draws: int | None = None, seed: int = SEED) -> Answer:
    """Project an inspected profile on targets.

    Parameters
    ----------
    seen : what `inspect` gave.
    on : names or files of machines; ``"self"`` is the source; None asks `DEFAULT_TARGETS`.
    model : None is `nething` with kernels by the machines' double precision rates, replayed as ``auto``.
    draws : parameter draws for the interval; 0 leaves it out; None is 1000, or fewer for a timeline of millions of activities.
    seed : of the draws.
    """
    model = model or replace(nething(), replay="auto")
    if model.name == "additive":
        if on is not None and set(on) != {"self"}:
            raise UsageError(
                "A014", "the additive model has no target machine: its lambdas say all that changes", found=f"--on {', '.join(on)}",
                fix="leave --on out, or use --model nething to ask about a machine",
            )  # fmt: skip
        targets: tuple[Machine, ...] = (LAMBDA,) if on is None else (seen.source,)
    else:
        targets = tuple(seen.source if name == "self" else load(name) for name in (on if on is not None else DEFAULT_TARGETS))
    if any(target is not seen.source for target in targets):
        require_calls(seen.profile)
    projections = project_many(seen.profile, seen.source, targets, model, seen.fits, draws, seed)
    drawn = max((p.interval.draws for p in projections if p.interval), default=draws or 0)
    return Answer(seen.profile, seen.source, seen.fits, model, targets, projections, seen.source_findings, seed, drawn, seen.command)
