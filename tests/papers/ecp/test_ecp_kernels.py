"""Kernels in the ECP report: Table 1 against Table 7, and what 9.1 only draws."""

from __future__ import annotations

import pytest

from turnbuckle.papers.ecp import kernels as ecp_kernels
from turnbuckle.papers.ecp.kernels import PAPER, cycle_rates, ipc_errors, recompute


def test_errors_and_rates() -> None:
    assert list(ipc_errors().values()) == pytest.approx(
        [0.33 / 0.9 - 1, 0.7 / 0.46 - 1, 0.38 / 0.314 - 1, 0.6 / 0.497 - 1]
    )
    rates = cycle_rates()
    assert rates["MiniVite"] == pytest.approx(138628618 / (0.7 * 50022e-6))
    assert max(rates.values()) / min(rates.values()) == pytest.approx(426, abs=1)


def test_verdicts_follow_from_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    class Close(type(PAPER)):  # type: ignore[misc]
        def text(self, subject: str, quantity: str, at: str | None = None) -> str:
            if quantity == "IPC" and at == "calculated":
                at = "measured"
            if quantity == "kernel time":
                cycles = (
                    super().number(subject, "instructions").value
                    / super().number(subject, "IPC", "measured").value
                )
                return f"{cycles / 1e9 * 1e6:.6f}"
            return str(super().text(subject, quantity, at))

    monkeypatch.setattr(ecp_kernels, "PAPER", Close("ecp/kernels"))
    assert {r.id: r.verdict for r in recompute()} == {
        "R.T1.close": "reproduced",
        "R.T1T7": "reproduced",
        "R.9.1": "n/r",
    }
