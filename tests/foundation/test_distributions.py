"""Quantiles and tails from the native core beside SciPy's, and the program without SciPy."""

from __future__ import annotations

import pytest
from hostile_names import SAMPLE, all_of
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import special

from turnbuckle._native import beta_quantile, f_tail, gamma_tail, student_cdf, student_quantile
from turnbuckle.foundation.errors import UsageError, needs

FREEDOM = st.integers(1, 2000)
SHARE = st.floats(0.001, 0.999)


@given(FREEDOM, SHARE, st.floats(-40, 40))
@example(1, 0.95, 0.0)
def test_student(freedom: int, p: float, value: float) -> None:
    assert student_quantile(freedom, p) == pytest.approx(
        float(special.stdtrit(freedom, p)), rel=1e-8, abs=1e-9
    )
    # half of what differs from 0.5 is lost where the value is next to nothing
    assert student_cdf(freedom, value) == pytest.approx(
        float(special.stdtr(freedom, value)), rel=1e-8, abs=1e-7
    )


@given(st.integers(1, 60), FREEDOM, st.floats(0, 60))
def test_f(above: int, below: int, ratio: float) -> None:
    assert f_tail(above, below, ratio) == pytest.approx(
        float(special.fdtrc(above, below, ratio)), rel=1e-8, abs=1e-15
    )


@given(st.floats(0.5, 500), st.floats(0.5, 500), SHARE)
def test_beta(a: float, b: float, p: float) -> None:
    """Held by what it is the inverse of: quantiles of two libraries differ where the distribution
    is flat.
    """
    assert float(special.betainc(a, b, beta_quantile(a, b, p))) == pytest.approx(p, rel=1e-7)


@given(st.integers(1, 5000), st.floats(0.01, 4))
def test_gamma(shape: int, share: float) -> None:
    value = shape * share
    assert gamma_tail(shape, value) == pytest.approx(
        float(special.gammaincc(shape, value)), rel=1e-8, abs=1e-15
    )


# --- without SciPy --------------------------------------------------------------------------------


def test_questions_do_without_scipy_and_what_needs_it_says_how_to_get_it() -> None:
    lines = (
        ["slack", str(SAMPLE), "--repeats", "1.0s,1.01s,1.02s"],
        ["validate", "--card"],
        [
            "sweep",
            str(SAMPLE),
            "--model",
            "slack",
            "--axis",
            "slack_seconds=1us..10us",
            "--sample",
            "4",
        ],
    )
    *answered, refused = all_of(lines, "import sys; sys.modules['scipy'] = None\n")
    assert [(ran.code, ran.err) for ran in answered] == [(0, "")] * 2
    assert (
        refused.code == 2
        and "error[A450]" in refused.err
        and "pip install 'turnbuckle[scipy]'" in refused.err
    )


def test_a_missing_module_within_an_extra_names_the_extra() -> None:
    with pytest.raises(UsageError, match="A450") as refused, needs("pandas"):
        import no_such_module  # noqa: F401
    assert "no_such_module" in refused.value.found and "turnbuckle[pandas]" in refused.value.fix
