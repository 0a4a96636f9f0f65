"""Cores per GPU in the ECP report: Table 6 and Figure 31 through the laws of
`turnbuckle.questions.cores.laws`.

The report prints the parameters of its exponential law for GTC-P; of equation 5 for BerkeleyGW it
prints only the answers.  The printed numbers ship as ``ecp/cores.csv``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from turnbuckle.papers.numbers import (
    Interval,
    Paper,
    Recomputed,
    judged,
    not_printed,
    stated,
    swept,
)
from turnbuckle.questions.cores.laws import (
    exponential_cores,
    exponential_seconds,
    hybrid_cores,
    hybrid_limit,
    hybrid_seconds,
)

PAPER = Paper("ecp/cores")
#: Tolerance of a fitted curve against a measured total: about the deviation of the report's own
#: fits.
_FIT: Final = 0.01
#: Number of ranks or threads that stands for no bound.
_ENDLESS: Final = 1e12


def parameters(routine: str) -> tuple[Interval, Interval, Interval]:
    """Return alpha [s], beta [s] and lambda [1 / core] of a routine of Table 6: Total, Charge or
    Push.
    """
    alpha, beta, rate = (PAPER.number(routine, name, "fit") for name in ("alpha", "beta", "rate"))
    return alpha, beta, rate


def recompute() -> list[Recomputed]:
    """Return every row of the report on CPU cores per GPU."""
    return [*_table_six(), *_equation_six()]


def _table_six() -> Iterator[Recomputed]:
    share = float(PAPER.text("all", "efficiency", "asked")) / 100
    least, most = PAPER.text("routines", "cores", "least"), PAPER.text("routines", "cores", "most")
    printed_cores = {
        "Total": PAPER.text("Total", "cores", "efficiency"),
        "Charge": most,
        "Push": f"{(float(least) + float(most)) / 2:g}",
    }
    notes = {
        "Total": "a whole number needs 4",
        "Charge": f"upper end of {least} to {most}",
        "Push": (
            f"no number of its own is printed: the middle of {least} to {most}, which the "
            "routines need"
        ),
    }
    for routine, text in printed_cores.items():
        recomputed = swept(
            lambda a, b, r: float(exponential_cores(a, b, r, share)), *parameters(routine)
        )
        within = (float(least), float(most)) if routine == "Push" else None
        yield judged(f"R.T6.{routine}", text, recomputed, within=within, note=notes[routine])
    total, cores = parameters("Total"), float(printed_cores["Total"])
    reached = swept(lambda a, b, r: a / float(exponential_seconds(cores, a, b, r)), *total)
    whole = math.ceil(
        float(exponential_cores(total[0].value, total[1].value, total[2].value, share))
    )
    note = f"needs {whole} whole cores; {cores:g} hold by rounding alone"
    yield stated(
        "R.T6.eff3", f">={share:.0%}", f"{reached.value:.2%}", reached.high >= share, note=note
    )
    threads, text = (
        float(PAPER.text("Total", "threads of a rank", "profile")),
        PAPER.text("Total", "run time", "8 threads"),
    )
    recomputed = swept(lambda a, b, r: float(exponential_seconds(threads, a, b, r)), *total)
    near = (float(text) * (1 - _FIT), float(text) * (1 + _FIT))
    note = (
        f"{recomputed.value / float(text) - 1:.1%} apart; that a fit is held to {_FIT:.0%} is not "
        "printed"
    )
    yield judged("R.T6.x5", text, recomputed, within=near, note=note)


def _equation_six() -> Iterator[Recomputed]:
    # the times are arbitrary, because the limit must hold for all of them
    t_mpi, c_seq, c_mpi, c_hyb = 2.0, 10.0, 3.0, 5.0
    limits = [
        t_mpi + float(hybrid_seconds(_ENDLESS, _ENDLESS, c_seq, c_mpi, c_omp, c_hyb))
        for c_omp in (1.0, 100.0)
    ]
    holds = all(
        math.isclose(limit, float(hybrid_limit(t_mpi, c_seq)), rel_tol=1e-9) for limit in limits
    )
    text = PAPER.text("model", "limit", "no bound on cores")
    recomputed = "t_MPI+c_seq" if holds else "neither"
    yield stated("R.eq6", text, recomputed, text == recomputed)
    epsilon, sigma = (PAPER.text(name, "cores", "efficiency") for name in ("Epsilon", "Sigma"))
    share = float(PAPER.text("all", "efficiency", "asked")) / 100
    # with one rank per GPU, cores are proportional to c_OMP / T_inf
    cores_per_share = float(hybrid_cores(0.0, 1.0, 0.0, 1.0, 0.0, share, ranks=(1.0, 1.0)))
    missing = (
        f"c_seq, c_OMP and t_MPI are only drawn, in Fig 31; Epsilon's {epsilon} means c_OMP = "
        f"{float(epsilon) / cores_per_share:.3f} T_inf"
    )
    yield not_printed("R.F31", f"{epsilon} / {sigma}", missing)
