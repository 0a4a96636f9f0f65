"""Projections of a run: what `Run.project` answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from turnbuckle.foundation import registry
from turnbuckle.foundation.errors import did_you_mean
from turnbuckle.foundation.findings import Finding
from turnbuckle.foundation.units import show
from turnbuckle.machine import Machine
from turnbuckle.projection.answers.shown import Shown
from turnbuckle.projection.elsewhere.network import OnNetwork
from turnbuckle.projection.model import Model
from turnbuckle.projection.projection import Projection, faster
from turnbuckle.projection.uncertainty import DRAWS, SEED

if TYPE_CHECKING:
    from turnbuckle.projection.run import Run


@dataclass(frozen=True, repr=False)
class Answer(Shown):
    """Projections of a run.

    Attributes
    ----------
    run : the recorded run.
    model : price list and replay used.
    targets : machines asked for, as declared.
    projections : one per target, in the order asked.
    seed, draws : of the intervals.
    network : the network asked about; None where messages keep their time.
    """

    question: ClassVar[str] = "project"

    run: Run
    model: Model | None = None
    targets: tuple[Machine, ...] = ()
    projections: list[Projection] = field(default_factory=list)
    seed: int = SEED
    draws: int = DRAWS
    network: OnNetwork | None = None

    def __getitem__(self, target: str) -> Projection:
        """Return the projection on a machine, by its name; KeyError names the nearest."""
        named = {p.target: p for p in self.projections}
        if target in named:
            return named[target]
        raise KeyError(
            f"{target!r} was not asked for: {did_you_mean(target, named) or ', '.join(named)}"
        )

    def __len__(self) -> int:
        return len(self.projections)

    @property
    def findings(self) -> list[Finding]:
        """Return the flaws of the recording and of the source machine; those of a projection stand
        with it.
        """
        return self.run.findings

    def provenance(self) -> dict[str, Any]:
        """Return what is needed to repeat an answer: versions, hashes, machines, model, seed,
        command.
        """
        return self.run.provenance(self.model, self.targets, self.seed, self.draws)

    def table(self) -> pl.DataFrame:
        """Return the projections as a table, one row a target; columns that begin with
        ``coupling_`` are of the coupling alone.
        """
        return pl.DataFrame([p.as_row() for p in self.projections], infer_schema_length=None)

    @property
    def accuracy(self) -> str:
        """Return how good such predictions were, in words; empty for a question that the card has
        no kind for.
        """
        return str(registry.load("services", "accuracy in words")(self))

    def faster(self) -> dict[str, dict[str, float]]:
        """Return the probability that one target is faster than another, machines as they are, by
        common draws.
        """
        return faster([p for p in self.projections if not p.unknown])

    def coupling_faster(self) -> dict[str, dict[str, float]]:
        """Return the same by the coupling alone."""
        return faster([p.by_coupling for p in self.projections if not p.by_coupling.unknown])

    def headline(self) -> str:
        """Return the answer in one line."""
        names = ", ".join(p.target for p in self.projections) or "nothing"
        return f"Answer: {self.run.trace.name}, recorded {show(self.run.seconds, 's')}, on {names}"
