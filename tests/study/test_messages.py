"""Host copies against GPUDirect on a recorded run."""

from __future__ import annotations

from pathlib import Path

import pytest

import turnbuckle as tb
from turnbuckle.cost.gpudirect import PHYSICS, SEED_G, gpudirect_seconds, hostcopy_seconds
from turnbuckle.errors import UsageError
from turnbuckle.replay.contention import Network
from turnbuckle.replay.mpi import Charges
from turnbuckle.study.messages import PATHS, charges, paths


@pytest.mark.parametrize("preset", [SEED_G, PHYSICS])
@pytest.mark.parametrize("size", [8.0, 1e6])
def test_charges_are_the_closed_forms(preset: object, size: float) -> None:
    """What both ends are charged is what the equations say, whoever pays."""
    paid = {}
    for path in PATHS:
        found = charges(path, preset)  # type: ignore[arg-type]
        paid[path] = sum(fixed + each * size for fixed, each in (found.sender, found.receiver))
    assert paid["host"] == 0
    assert paid["hostcopy"] == pytest.approx(float(hostcopy_seconds(size, 0.0, preset)))  # type: ignore[arg-type]
    assert paid["gpudirect"] == pytest.approx(float(gpudirect_seconds(size, 0.0, preset)))  # type: ignore[arg-type]


def test_a_copy_at_either_end_by_physics_and_one_in_the_paper() -> None:
    assert charges("hostcopy", PHYSICS).sender == charges("hostcopy", PHYSICS).receiver
    assert charges("hostcopy", SEED_G).receiver == (0.0, 0.0)
    assert charges("gpudirect", PHYSICS) == Charges(ready=True)


def test_a_real_run_on_three_shapes(shared: Path) -> None:
    profile = tb.inspect(shared / "traces" / "nsys-local" / "lammps-melt-4r.sqlite").profile
    network = Network(1, 12.5e9, 0.5e-6, inside_bandwidth=75e9, send_overhead=5e-7, receive_overhead=5e-7)
    found = paths(profile, network)
    for each in (1, 2, 4):
        host, copied, direct = (found.row(each, p) for p in PATHS)
        assert host.seconds <= copied.seconds and host.seconds <= direct.seconds
        assert copied.nodes == -(-4 // each)
        assert found.gain(each) == pytest.approx(copied.communication_seconds / direct.communication_seconds - 1)
    assert found.row(4, "host").card_bytes == 0 < found.row(2, "host").card_bytes <= found.row(1, "host").card_bytes
    for several in ([0], [10**30], []):
        with pytest.raises(UsageError) as refused:
            paths(profile, network, ranks_per_node=several)
        assert refused.value.code == "A074"
    with pytest.raises(UsageError) as refused:
        paths(profile, network, eager_limit=-1.0)
    assert refused.value.code == "A072"
