"""Kernels in the ECP report (Austin et al. 2021), recomputed: the divergence model of 4.4.2 and the
unified memory of 9.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from turnbuckle.papers.models.mdm.cost import PRIOR_LOG_SD
from turnbuckle.papers.numbers import Paper, Recomputed, not_printed, stated

PAPER = Paper("ecp/kernels")
APPLICATIONS: Final = ("SW4Lite", "MiniVite", "QuickSilver", "Laghos")
#: "Reasonably close" for a model of kernels: each error within a quarter.
CLOSE: Final = 0.25
#: One constant behind all kernels: their implied cycle rates within a factor of two.
ONE: Final = 2.0


def recompute() -> list[Recomputed]:
    """Return every number of these sections: printed, recomputed, verdict."""
    return [*_divergence(), *_unified_memory()]


def ipc_errors() -> dict[str, float]:
    """Return the relative error of the calculated IPC by application (Table 1).

    >>> {app: f"{error:+.0%}" for app, error in ipc_errors().items()}
    {'SW4Lite': '-63%', 'MiniVite': '+52%', 'QuickSilver': '+21%', 'Laghos': '+21%'}
    """
    return {
        app: PAPER.number(app, "IPC", "calculated").value
        / PAPER.number(app, "IPC", "measured").value
        - 1.0
        for app in APPLICATIONS
    }


def cycle_rates() -> dict[str, float]:
    """Return the cycles per second, of all SMs together, that Tables 1 and 7 imply, by application:
    instructions / (IPC x seconds) [Hz].
    """
    places = (("instructions",), ("IPC", "calculated"), ("kernel time",))
    numbers = {app: [PAPER.number(app, *place).value for place in places] for app in APPLICATIONS}
    return {
        app: instructions / (ipc * time * 1e-6)
        for app, (instructions, ipc, time) in numbers.items()
    }


def _divergence() -> Iterator[Recomputed]:
    errors = list(ipc_errors().values())
    mean = sum(abs(e) for e in errors) / len(errors)
    yield stated(
        "R.T1.close",
        "close",
        "errors " + ", ".join(f"{e:+.0%}" for e in errors),
        all(abs(e) <= CLOSE for e in errors),
        note=(
            f"{mean:.0%} off on average, two of four by more than half; Turnbuckle gives every "
            f"such duration a log-sd of {PRIOR_LOG_SD}"
        ),
    )
    rates = cycle_rates().values()
    apart = max(rates) / min(rates)
    yield stated(
        "R.T1T7",
        "one constant",
        f"{_short(min(rates))}..{_short(max(rates))} cycles/s",
        apart <= ONE,
        note=(
            f"the implied rates are a factor of {apart:.0f} apart: the tables cannot be of the "
            "same kernels"
        ),
    )


def _short(rate: float) -> str:
    return f"{rate:.1e}"


def _unified_memory() -> Iterator[Recomputed]:
    least, most = (
        PAPER.text("QuickSilver", "DDR-only over HBM-only", end) for end in ("least", "most")
    )
    missing = "Fig 54 only draws it, and of equation 8 neither the costs nor the counts are printed"
    yield not_printed("R.9.1", f"{least}-{most}", missing, "-")
