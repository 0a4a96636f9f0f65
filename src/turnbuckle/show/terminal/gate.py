"""Gates for scripts: ``--fail-if "penalty > 5%"``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from turnbuckle.foundation.errors import did_you_mean, error_of
from turnbuckle.projection.admission import require_numbers
from turnbuckle.projection.projection import Projection

#: What a gate can look at, each of the machine as it is and, behind `ALONE`, by its coupling alone;
#: a percentage means slower (or faster) than measured.
QUANTITIES: dict[str, Callable[[Projection], float]] = {
    "penalty": lambda p: p.penalty,
    "benefit": lambda p: p.benefit,
    "seconds": lambda p: p.seconds,
    "upper": lambda p: (
        p.interval.high / p.measured_seconds if p.interval and p.measured_seconds else p.penalty
    ),
}
ALONE: Final = "coupling"
COMPARISONS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


@dataclass(frozen=True)
class Gate:
    """One condition; fails if it is true for any target."""

    text: str
    quantity: str
    compare: str
    limit: float
    alone: bool = False

    def hold(self, projections: Sequence[Projection]) -> None:
        """Raise `GateFailed` (A201) if the condition is true for any projection, `CannotAnswer`
        (A190) where one has no number.
        """
        asked = [p.by_coupling if self.alone else p for p in projections]
        said = [(p.target, QUANTITIES[self.quantity](p)) for p in asked if not p.unknown]
        if hit := [
            (target, value)
            for target, value in said
            if COMPARISONS[self.compare](value, self.limit)
        ]:
            raise error_of(
                "A201",
                found=", ".join(f"{target} {value:.4g}" for target, value in hit),
                text=self.text,
            )
        for projection in asked:
            require_numbers(projection)


def gate(text: str) -> Gate:
    """Parse ``[coupling] QUANTITY > NUMBER[%]``.  A percentage of penalty, benefit or upper counts
    from 1: 5% is 1.05.

    >>> gate("penalty > 5%").limit, gate("coupling penalty > 5%").alone
    (1.05, True)
    """
    match = re.fullmatch(
        rf"\s*({ALONE}\s+)?([a-z]+)\s*(>=|<=|>|<)\s*([0-9.]+(?:e-?[0-9]+)?)\s*(?:(%)\s*)?", text
    )
    if not match:
        raise error_of("A008.form", found=text)
    alone, quantity, compare, number, percent = match.groups()
    if quantity not in QUANTITIES:
        raise error_of(
            "A008.quantity",
            found=text,
            fix=did_you_mean(quantity, QUANTITIES) or None,
            quantity=quantity,
            quantities=f"{', '.join(QUANTITIES)}; behind the word {ALONE} of the coupling alone",
        )
    try:
        value = float(number)
    except ValueError:
        raise error_of("A008.number", found=text, number=number) from None
    if percent:
        if quantity == "seconds":
            raise error_of("A008.seconds", found=text)
        value = 1.0 + value / 100.0
    return Gate(text.strip(), quantity, compare, value, alone is not None)
