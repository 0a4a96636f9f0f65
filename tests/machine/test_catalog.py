"""Every machine that ships loads, checks clean, agrees with the collected facts and is recognised
by its device name.
"""

from __future__ import annotations

import csv
import hashlib
from importlib.resources import files
from pathlib import Path

import pytest

from turnbuckle.foundation.errors import MachineError
from turnbuckle.foundation.units import MANNER, parse
from turnbuckle.machine import Pair, all_machines, catalog, load, names, recognise, schema
from turnbuckle.machine.catalog import hosts
from turnbuckle.machine.check import check
from turnbuckle.machine.load import read, texts_of_head
from turnbuckle.machine.parameter_names import REMOTING_CLASSES

ASKED = [
    "v100-sxm2",
    "a100-sxm4-40",
    "a100-sxm4-80",
    "h100-sxm5",
    "h200-sxm",
    "gh200",
    "mi250x",
    "mi300a",
    "titan",
    "summit",
    "lassen",
    "cori-gpu",
    "perlmutter",
    "narval",
    "frontier",
    "2026-disaggregated",
    "2026-discrete",
    "2026-onboard",
    "2026-apu",
    "ecp-integrated-10x",
    "ecp-disaggregated-10x",
    "cdi-switch-hop-link",
    "cdi-switch-hop-api",
    "cdi-rack-link",
    "cdi-rack-api",
    "cdi-row-link",
    "cdi-row-api",
    "cdi-datacentre-link",
    "cdi-datacentre-api",
    "pcie3-x16",
    "pcie4-x16",
    "pcie5-x16",
    "pcie6-x16",
    "nvlink-c2c",
    *(f"pcie{generation}-x{lanes}" for generation in range(1, 7) for lanes in (8, 4, 1)),
    "oculink",
    "thunderbolt4",
    "thunderbolt5",
    "remote-socket",
    "vgpu",
    "h100-cc",
    *(
        "t4",
        "a10",
        "a30",
        "l4",
        "l40s",
        "rtx4090",
        "rtx5090",
        "rtx-pro-6000",
        "h20",
        "b200-hgx",
        "b300-hgx",
        "gb300",
        "gb10",
    ),
    *("mi210", "mi325x", "mi355x", "strix-halo", "pvc"),
]


def value(machine: str, parameter: str) -> float:
    found = load(machine).get(parameter)
    assert found is not None, f"{machine} has no {parameter}"
    return found.value


def test_what_was_asked_for_is_there() -> None:
    assert set(ASKED) <= set(names())


@pytest.mark.parametrize("name", names())
def test_each_machine_loads_and_checks_clean(name: str) -> None:
    machine = load(name)
    assert machine.name == name and machine.title and machine.summary.endswith(".")
    text = (catalog.folder() / f"{name}.toml").read_bytes()
    assert machine.sha256 == hashlib.sha256(text).hexdigest() and machine.file == f"{name}.toml"
    assert text.startswith(f"# {name}: ".encode())
    assert check(machine) == []
    for part in [
        *machine.parameters.values(),
        *(p for c in machine.changes for p in c.parts().values()),
    ]:
        assert part.source and (part.error > 0 or part.nature != "measured" or part.unit == MANNER)
        assert (
            part.nature == "assumption" or "general knowledge" not in f"{part.source} {part.note}"
        )


@pytest.mark.parametrize("name", names())
def test_each_machine_can_be_a_target(name: str) -> None:
    source = load("perlmutter")
    target = Pair(source, load(name)).target
    assert not target.relative and [r for r in check(target) if r.severity == "error"] == []
    assert target.copies_vanish or target.has >= {
        "link.h2d.bandwidth",
        "link.d2h.bandwidth",
        "link.h2d.efficiency",
    }


def test_the_wheel_can_find_the_files() -> None:
    assert {p.name for p in (files("turnbuckle") / "machine" / "catalog").iterdir()} == {
        f"{n}.toml" for n in names()
    }


def test_unknown_name_suggests() -> None:
    with pytest.raises(MachineError, match="M001") as caught:
        load("perlmuter")
    assert "did you mean perlmutter?" in caught.value.fix and "machines list" in caught.value.fix


# (machine, parameter): entity, parameter and a word of the condition in the collected facts
FACTS = {
    ("a100-sxm4-40", "gpu.fp64"): ("A100-SXM4-40GB", "fp64_vector", ""),
    ("a100-sxm4-40", "gpu.fp64_matrix"): ("A100-SXM4-40GB", "fp64_matrix", ""),
    ("a100-sxm4-40", "gpu.memory_size"): ("A100-SXM4-40GB", "mem_capacity", ""),
    ("a100-sxm4-80", "gpu.memory_size"): ("A100-SXM4-80GB", "mem_capacity", ""),
    ("a100-sxm4-40", "link.h2d.bandwidth"): ("PCIe 4.0", "bandwidth_per_dir_x16", ""),
    ("a100-sxm4-40", "link.h2d.efficiency"): ("PCIe 4.0", "h2d_efficiency", ""),
    ("a100-sxm4-40", "link.d2h.efficiency"): ("PCIe 4.0", "d2h_efficiency", ""),
    ("a100-sxm4-40", "link.h2d.latency"): ("PCIe 4.0", "h2d_overhead_plus_latency", ""),
    ("a100-sxm4-40", "link.d2h.latency"): ("PCIe 4.0", "d2h_overhead_plus_latency", ""),
    ("a100-sxm4-40", "launch.call"): ("A100-SXM4-40GB", "kernel_launch_latency_app", ""),
    ("perlmutter", "bare.launch"): ("A100-SXM4-40GB", "kernel_launch_latency", "Perlmutter"),
    ("perlmutter", "bare.sync"): ("A100-SXM4-40GB", "empty_sync_latency", "Perlmutter"),
    ("perlmutter", "bare.copy"): ("Perlmutter host-device", "memcpy_latency_128B", ""),
    ("perlmutter", "nic.latency"): ("Perlmutter MPI inter-node", "latency", ""),
    ("perlmutter", "node.gpus"): ("Perlmutter GPU node", "gpus", ""),
    ("narval", "nic.bandwidth"): ("Narval GPU node", "injection_bw_per_dir", ""),
    ("narval", "node.gpus"): ("Narval GPU node", "gpus", ""),
    ("v100-sxm2", "gpu.fp64"): ("V100-SXM2-16GB", "fp64_vector", ""),
    ("v100-sxm2", "gpu.memory_bandwidth"): ("V100-SXM2-16GB", "mem_bandwidth", ""),
    ("v100-sxm2", "link.d2h.bandwidth"): ("PCIe 3.0", "bandwidth_per_dir_x16", ""),
    ("summit", "link.h2d.bandwidth"): ("Summit node", "host_link_bw_per_gpu_per_dir", ""),
    ("summit", "bare.launch"): ("V100-SXM2-16GB", "kernel_launch_latency", "Summit"),
    ("summit", "bare.copy"): ("Summit host-device", "memcpy_latency_128B", ""),
    ("summit", "host.memory_bandwidth"): ("Summit CPU (2x POWER9)", "stream_copy_measured", ""),
    ("lassen", "link.d2h.bandwidth"): ("Sierra/Lassen node", "host_link_bw_per_gpu_per_dir", ""),
    ("lassen", "bare.sync"): ("V100-SXM2-16GB", "empty_sync_latency", "Lassen"),
    ("cori-gpu", "alloc.call"): ("V100-SXM2-16GB", "cudaMalloc_mean", ""),
    ("cori-gpu", "nic.count"): ("Cori-GPU node", "nics", ""),
    ("titan", "link.h2d.bandwidth"): ("Titan node", "host_link_bw_per_gpu_per_dir", ""),
    ("titan", "gpu.memory_size"): ("K20X", "mem_capacity", ""),
    ("h100-sxm5", "gpu.fp64"): ("H100-SXM5-80GB", "fp64_vector", ""),
    ("h100-sxm5", "gpu.power"): ("H100-SXM5-80GB", "tdp", ""),
    ("h100-sxm5", "link.h2d.bandwidth"): ("PCIe 5.0", "bandwidth_per_dir_x16", ""),
    ("h100-sxm5", "link.p2p.latency"): ("NVLink 4", "p2p_small_copy_gpu_latency", ""),
    ("h200-sxm", "gpu.memory_bandwidth"): ("H200-SXM-141GB", "mem_bandwidth", ""),
    ("gh200", "link.h2d.bandwidth"): ("NVLink-C2C", "bandwidth_per_dir", ""),
    ("gh200", "link.round_trip"): ("NVLink-C2C", "gpu_load_to_host_latency", "GH200"),
    ("gh200", "gpu.memory_size"): ("GH200-96GB", "mem_capacity", ""),
    ("gh200", "gpu.power"): ("GH200-96GB", "tdp", ""),
    ("mi250x", "gpu.fp64"): ("MI250X", "fp64_vector_per_gcd", ""),
    ("mi250x", "link.h2d.bandwidth"): ("MI250X", "host_link_bw_per_dir_per_gcd", ""),
    ("frontier", "host.memory_size"): ("Frontier node", "host_memory", ""),
    ("frontier", "bare.launch"): ("MI250X", "kernel_launch_latency", "Frontier"),
    ("mi300a", "gpu.fp64_matrix"): ("MI300A", "fp64_matrix", ""),
    ("mi300a", "host.cores"): ("MI300A", "cpu_cores", ""),
    ("2026-disaggregated", "link.h2d.latency"): ("2026 Disaggregated GPU", "cpu_gpu_latency", ""),
    ("2026-discrete", "link.h2d.bandwidth"): ("2026 Discrete GPU", "cpu_gpu_bandwidth", ""),
    ("2026-onboard", "gpu.fp64_matrix"): ("2026 On-board GPU", "gpu_fp64", ""),
    ("2026-onboard", "link.d2h.latency"): ("2026 On-board GPU", "cpu_gpu_latency", ""),
    ("2026-apu", "launch.call"): ("2026 APU", "kernel_launch_latency", ""),
}

# (machine, parameter): nominal bandwidth of the machine x the share = this measurement
SHARES = {
    ("gh200", "link.h2d.efficiency", "link.h2d.bandwidth"): (
        "NVLink-C2C",
        "h2d_measured",
        "local Grace",
        0.02,
    ),
    ("gh200", "link.d2h.efficiency", "link.d2h.bandwidth"): (
        "NVLink-C2C",
        "d2h_measured",
        "local Grace",
        0.01,
    ),
    ("gh200", "link.both.efficiency", "link.h2d.bandwidth"): (
        "NVLink-C2C",
        "h2d_bidirectional_measured",
        "GH200",
        0.01,
    ),
    ("gb200", "link.h2d.efficiency", "link.h2d.bandwidth"): (
        "NVLink-C2C",
        "h2d_measured_per_gpu",
        "",
        0.01,
    ),
    ("h100-sxm5", "link.h2d.efficiency", "link.h2d.bandwidth"): (
        "PCIe 5.0",
        "h2d_peak_measured",
        "8x H100",
        0.01,
    ),
    ("h100-sxm5", "link.d2h.efficiency", "link.d2h.bandwidth"): (
        "PCIe 5.0",
        "d2h_peak_measured",
        "8x H100",
        0.01,
    ),
    ("v100-sxm2", "link.h2d.efficiency", "link.h2d.bandwidth"): (
        "PCIe 3.0",
        "h2d_peak_measured",
        "1 GiB",
        0.01,
    ),
    ("summit", "link.d2h.efficiency", "link.d2h.bandwidth"): (
        "Summit host-device",
        "bandwidth_per_dir_measured",
        "",
        0.01,
    ),
    ("lassen", "link.d2h.efficiency", "link.d2h.bandwidth"): (
        "Lassen host-device",
        "bandwidth_per_dir_measured",
        "",
        0.01,
    ),
    ("frontier", "link.d2h.efficiency", "link.d2h.bandwidth"): (
        "Frontier host-device",
        "bandwidth_per_dir_measured",
        "",
        0.01,
    ),
    ("h200-sxm", "gpu.memory_efficiency", "gpu.memory_bandwidth"): (
        "H200-SXM-141GB",
        "mem_bandwidth_measured",
        "",
        0.09,
    ),
    ("h200-sxm", "link.p2p.efficiency", "link.p2p.bandwidth"): (
        "NVLink 4",
        "d2d_measured",
        "H200",
        0.01,
    ),
    ("gb300", "link.h2d.efficiency", "link.h2d.bandwidth"): (
        "NVLink-C2C",
        "h2d_measured",
        "GB300",
        0.01,
    ),
    ("gb300", "link.d2h.efficiency", "link.d2h.bandwidth"): (
        "NVLink-C2C",
        "d2h_measured",
        "GB300",
        0.01,
    ),
    ("gb300", "link.both.efficiency", "link.h2d.bandwidth"): (
        "NVLink-C2C",
        "h2d_bidirectional_measured",
        "GB300",
        0.01,
    ),
    ("pvc", "link.h2d.efficiency", "link.h2d.bandwidth"): (
        "PCIe 5.0",
        "h2d_peak_measured",
        "Aurora",
        0.01,
    ),
    ("pvc", "link.d2h.efficiency", "link.d2h.bandwidth"): (
        "PCIe 5.0",
        "d2h_peak_measured",
        "Aurora",
        0.01,
    ),
    ("pvc", "gpu.memory_efficiency", "gpu.memory_bandwidth"): (
        "Intel-Max-1550",
        "mem_bandwidth_measured_per_tile",
        "",
        0.01,
    ),
    ("summit-remote-socket", "link.h2d.efficiency", "link.h2d.bandwidth"): (
        "NVLink 2",
        "pinned_h2d_remote_measured",
        "Summit",
        0.01,
    ),
}


@pytest.fixture(scope="module")
def facts(shared: Path) -> list[dict[str, str]]:
    with (shared / "hardware" / "catalogue.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def fact(facts: list[dict[str, str]], entity: str, parameter: str, condition: str) -> float:
    found = [
        r
        for r in facts
        if r["entity"] == entity and r["parameter"] == parameter and condition in r["condition"]
    ]
    assert len(found) == 1, (entity, parameter, condition, found)
    return float(found[0]["value"])


@pytest.mark.shared
@pytest.mark.parametrize(("ours", "theirs"), FACTS.items(), ids=lambda k: "/".join(k))
def test_numbers_agree_with_the_collected_facts(
    facts: list[dict[str, str]], ours: tuple[str, str], theirs: tuple[str, str, str]
) -> None:
    assert value(*ours) == pytest.approx(fact(facts, *theirs), rel=1e-6)


@pytest.mark.shared
@pytest.mark.parametrize(("ours", "theirs"), SHARES.items(), ids=lambda k: "/".join(map(str, k)))
def test_measured_shares_agree_with_the_collected_facts(
    facts: list[dict[str, str]], ours: tuple[str, str, str], theirs: tuple[str, str, str, float]
) -> None:
    machine, share, nominal = ours
    assert value(machine, share) * value(machine, nominal) == pytest.approx(
        fact(facts, *theirs[:3]), rel=theirs[3]
    )


OUR_OWN = (
    "lupinemachines/lupine",
    "rCUDA, Connect-IB performance",
    "RWTH-ACS/cricket, cpu/cpu-client-runtime.c at 0641cccaf58d",
    "spcl/gpuless-thesis at c2434d85fbc9",
    "NeuSight (Lee et al., ASPLOS 2025)",
    "UoB-HPC/performance-portability",
    "Azure/AI-benchmarking-guide",
    "xytpai/nvbench",
    "R100001/Programming-Massively-Parallel-Processors",
    "Wang et al., Characterizing Network Requirements for GPU API Remoting",
    "by definition: the processor that speeds are relative to",
    "hosts/evidence.csv, combined by validation/hosts.py: ",
    "AMD, Instinct MI355X product page",
    "by construction",
    "ProjectPhysX/FluidX3D, single-GPU benchmark table",
    "NVIDIA open-gpu-doc, manuals/volta/gv100/dev_pbdma.ref.txt",
    "NVIDIA CCCL, libcudacxx/include/cuda/__device/arch_traits.h",
    "NVIDIA developer blog, Programming Tensor Cores in CUDA 9",
    "AMD ROCm documentation, GPU hardware specifications",
    "device properties from the driver, in the ",
    "HPC Tech, NVIDIA H100",
    "Hardware Times 2020, NVIDIA Ampere Architectural Analysis",
    "XENON, NVIDIA Tesla Volta",
    "zdszero, Hardware",
    "Public GitHub note, PDL Two Consumers Analysis",
    "pytorch/ao pull request 4002",
    "Fudzilla 2012-11-13",
    "NVIDIA CUDA C Programming Guide, Technical Specifications per Compute Capability",
    "PCI Express Base Specification",
    "ROCm/rocm-libraries ",
    "rocminfo of a gfx1151",
    "https://github.com/ROCm/rocm-systems/pull/11176",
    "gpu-specs, table of NVIDIA's data sheets",
    "fpsbench, GPU comparisons",
    "HMC-Tech, specification pages",
    "TechPowerUp GPU database",
    "family ",
    "NVIDIA, Jetson ",
    "Ultralytics, NVIDIA Jetson guide, comparison table",
    "deviceQuery of an Orin NX",
    "NVIDIA, A100 Tensor Core GPU architecture white paper",
    "NVIDIA, CUDA for Tegra, Memory Management",
    "Mullet, NVIDIA L40S",
    "waredb, NVIDIA GeForce RTX 4090",
    "technical.city, RTX PRO 6000 Blackwell Max-Q",
    "cuda-device-query, README",
    "zangshuxian.com 2024",
    "willitrunai, H20",
    "FiberMall, HGX B300 and B200",
    "Verda, GB300 NVL72 architecture",
    "Public GitHub notes on microbenchmarks of an NVIDIA B300",
    "Public GitHub notes on an NVFP4 GEMM",
    "kubesimplify, The DGX Spark Unpacked",
    "meterpreter.org 2025-08",
    "softab, AMD Strix Halo hardware specifications",
    "Hot Hardware 2024-12",
    "Svethardware 202",
    "World Today News 2026-02",
    "intel/torch-xpu-ops issue 3891",
    "oneapi-src/oneAPI-samples pull request 1425",
    "gjbex/Code-optimization, info/icelake_mlc.txt",
    "Azure/az-cgpu-onboarding, OpenSSL-Details.md",
    "Lazarus Laboratories, GPU virtualization",
    "Tom's Hardware 2025-10",
    "unanswered.io, eGPU bandwidth requirements",
)


@pytest.mark.shared
def test_every_source_is_one_of_the_collected_ones(facts: list[dict[str, str]]) -> None:
    known = {r["source"].split(" (")[0].split(" [")[0] for r in facts}
    for machine in all_machines():
        for part in [
            *machine.parameters.values(),
            *(p for c in machine.changes for p in c.parts().values()),
        ]:
            assert any(k in part.source for k in known) or part.source.startswith(OUR_OWN), (
                machine.name,
                part.source,
            )


def test_directions_of_c2c_differ_by_a_fifth() -> None:
    assert value("gh200", "link.d2h.efficiency") / value(
        "gh200", "link.h2d.efficiency"
    ) == pytest.approx(0.78, abs=0.01)


def test_numbers_nobody_published_are_left_out() -> None:
    for name in ("gh200", "gh200-141", "gb200", "mi300a"):
        assert not load(name).has & {
            "launch.call",
            "launch.latency",
            "link.h2d.latency",
            "link.d2h.latency",
            "bare.launch",
        }
    assert load("mi300a").copies_vanish and load("2026-apu").copies_vanish
    assert not any(n.startswith(("link.h2d", "link.d2h")) for n in load("mi300a").has)


def test_the_efficiency_is_applied_once_to_the_design_points() -> None:
    assert (
        value("2026-discrete", "link.h2d.bandwidth") == 121e9
        and value("2026-discrete", "link.h2d.efficiency") == 0.85
    )


def test_power9_nodes_do_not_inherit_the_x86_nodes_calls() -> None:
    assert (
        not load("summit").has & {"launch.call", "alloc.call"}
        and load("summit").coupling == "nvlink"
    )


def test_tenfold_is_tenfold() -> None:
    source = load("cori-gpu")
    near, far = (load(f"ecp-{way}-10x").resolved(source) for way in ("integrated", "disaggregated"))
    for name, factor in (
        ("link.h2d.bandwidth", 10.0),
        ("link.d2h.bandwidth", 10.0),
        ("launch.call", 0.1),
        ("alloc.call", 0.1),
    ):
        assert near.parameters[name].value == pytest.approx(value("cori-gpu", name) * factor)
        assert far.parameters[name].value == pytest.approx(value("cori-gpu", name) / factor)
    assert near.parameters["gpu.fp64"] == source.parameters["gpu.fp64"]


@pytest.mark.parametrize("distance", ["switch-hop", "rack", "row", "datacentre"])
def test_a_round_trip_is_twice_the_distance_of_the_link(distance: str) -> None:
    source = load("perlmutter")
    link, api = (load(f"cdi-{distance}-{way}").resolved(source) for way in ("link", "api"))
    assert 2 * link.parameters["slack.link"].value == pytest.approx(
        api.parameters["remoting.round_trip"].value
    )
    assert link.parameters["link.round_trip"].value == pytest.approx(0.9e-6)
    assert (
        link.value("remoting.round_trip") is None
        and api.value("slack.link") is None
        and api.value("slack.call") is None
    )
    assert (
        api.parameters["link.h2d.latency"]
        == link.parameters["link.h2d.latency"]
        == source.parameters["link.h2d.latency"]
    )
    near, far = (load(f"cdi-{distance}-{way}").unknowns() for way in ("link", "api"))
    (common,) = (u for u in far if u.startswith("common/distance"))
    assert near[common] == far[common]


def test_a_layer_says_everything_of_its_calls() -> None:
    """And how fast its data go: over a network of its own, or beside the link, whose limit it is."""
    layers = [m for m in all_machines() if m.coupling == "remoting"]
    assert len(layers) == 11
    for layer in layers:
        stated = {c.parameter for c in layer.changes}
        assert {"remoting.round_trip", "remoting.command"} <= stated, layer.name
        for way in ("h2d", "d2h"):
            assert len({f"remoting.{way}.bandwidth", f"link.{way}.bandwidth"} & stated) == 1
        assert {f"remoting.{word}" for word in REMOTING_CLASSES} <= stated, layer.name


def test_numbers_of_a_layer_that_nobody_published_say_so() -> None:
    """What one layer takes from another is an assumption, and its note begins with it."""
    for name, own in (
        ("lupine-network", "lupinemachines/lupine"),
        ("lupine-loopback", "lupinemachines/lupine"),
        ("rcuda-connect-ib", "rCUDA"),
        ("cricket-tcp", "RWTH-ACS/cricket"),
    ):
        for change in load(name).changes:
            for part in change.parts().values():
                if not part.source.startswith(own):
                    assert part.nature == "assumption", (name, change.parameter)
                    if part.unit != MANNER:
                        assert part.note.startswith("not published"), (name, change.parameter)
                        assert part.error >= 0.6, (name, change.parameter)


def test_a_copy_through_rcuda_is_as_fast_as_published() -> None:
    """9.91 of 10.06 GB/s on PCIe 3.0 x16; a slower link is not felt, a faster one is bounded."""
    for name in ("p100-pcie", "a100-pcie-80", "titan"):
        near, far = load(name), load("rcuda-connect-ib").resolved(load(name))
        ratio = far.parameters["link.h2d.bandwidth"].value / value(name, "link.h2d.bandwidth")
        expected = min(1.0, 15.754e9 * 9.91 / 10.06 / value(name, "link.h2d.bandwidth"))
        assert ratio == pytest.approx(expected, rel=2e-3), near.name


def test_a_round_trip_to_a_dxpu_pool_is_as_published() -> None:
    """4.9 to 6.8 us, the link's own round trip among it."""
    far = load("dxpu").resolved(load("perlmutter"))
    trips = far.parameters["slack.link"].value * 2 + 0.9e-6
    assert 4.9e-6 < trips < 6.8e-6


def test_farther_is_slower() -> None:
    slack = [
        load(f"cdi-{d}-api").resolved(load("perlmutter")).parameters["remoting.round_trip"].value
        for d in ("switch-hop", "rack", "row", "datacentre")
    ]
    assert (
        slack == sorted(slack)
        and parse("100 ns", "s") < slack[0]
        and slack[-1] < parse("100 us", "s")
    )


@pytest.mark.parametrize(
    ("generation", "nominal"), [(3, 15.754e9), (4, 31.508e9), (5, 63.015e9), (6, 121e9)]
)
def test_links_replace_bandwidth_and_leave_latency(generation: int, nominal: float) -> None:
    source = load("perlmutter")
    target = load(f"pcie{generation}-x16").resolved(source)
    assert (
        target.parameters["link.h2d.bandwidth"].value
        == target.parameters["link.d2h.bandwidth"].value
        == pytest.approx(nominal)
    )
    assert target.parameters["link.h2d.latency"] == source.parameters["link.h2d.latency"]
    assert not load("pcie5-x16").resolved(load("mi300a")).copies_vanish


@pytest.mark.parametrize("generation", [1, 2, 3, 4, 5, 6])
def test_lanes_share_the_bandwidth_of_sixteen(generation: int) -> None:
    source, whole = load("perlmutter"), load(f"pcie{generation}-x16")
    wide = whole.resolved(source).parameters
    for lanes in (8, 4, 1):
        narrow = load(f"pcie{generation}-x{lanes}").resolved(source).parameters
        for way in ("link.h2d", "link.d2h"):
            share = narrow[f"{way}.bandwidth"].value / wide[f"{way}.bandwidth"].value
            assert share == pytest.approx(lanes / 16, rel=1e-4)
            assert narrow[f"{way}.efficiency"].value == wide[f"{way}.efficiency"].value
            assert (
                narrow[f"{way}.efficiency"].error > 0.05
                and narrow[f"{way}.latency"] == source.parameters[f"{way}.latency"]
            )


def test_a_coupling_that_takes_from_the_link_leaves_the_rest() -> None:
    source = load("perlmutter")
    for name, touched in (
        ("vgpu", "link.h2d.bandwidth"),
        ("h100-cc", "link.h2d.efficiency"),
        ("oculink", "link.h2d.bandwidth"),
    ):
        target = load(name).resolved(source)
        assert target.parameters[touched].value < source.parameters[touched].value
        assert {n for n in source.has if not n.startswith("link.")} <= target.has
        assert target.parameters["launch.call"] == source.parameters["launch.call"]


@pytest.mark.parametrize(
    ("devices", "c2c", "machine"),
    [
        (["NVIDIA A100-SXM4-80GB"] * 4, None, "a100-sxm4-80"),
        (["A100-SXM4-40GB"], None, "a100-sxm4-40"),
        (["NVIDIA A100-SXM4-40GB"], False, "a100-sxm4-40"),
        (["A100-PCIE-40GB"] * 4, None, "a100-pcie-40"),
        (["NVIDIA GH200 120GB"], None, "gh200"),
        (["NVIDIA GH200 480GB"], True, "gh200"),
        (["NVIDIA GH200 120GB"], False, None),
        (["NVIDIA H100 80GB HBM3"] * 8, None, "h100-sxm5"),
        (["NVIDIA H100 PCIe"], None, "h100-pcie"),
        (["NVIDIA H200"], None, "h200-sxm"),
        (["NVIDIA H200"], True, None),
        (["Tesla V100-SXM2-16GB"], None, "v100-sxm2"),
        (["Tesla V100-SXM2-32GB"], None, "v100-sxm2-32"),
        (["AMD Instinct MI300X"], None, "mi300x"),
        (["AMD Instinct MI250X"], None, "mi250x"),
        (["AMD Instinct MI300A"], None, "mi300a"),
        (["NVIDIA GeForce RTX 3090"], None, "rtx3090"),
        (["NVIDIA GeForce RTX 3090 Ti"], None, None),
        (["Tesla P100-PCIE-16GB"], None, "p100-pcie"),
        (["Tesla V100-DGXS-32GB"] * 4, None, "v100-dgxs-32"),
        (["NVIDIA A100-PG509-200"], None, "a100-sxm4-40"),
        (["AMDInstinctMI300A"], None, "mi300a"),
        (["AMD Instinct MI300A Accelerator"], None, "mi300a"),
        (["GeForceRTX2080Ti"], None, "rtx2080ti"),
        (["GeForce GTX 1060 with Max-Q Design", "Intel(R) HD Graphics 630"], None, None),
        (["Tesla T4"], None, "t4"),
        (["Tesla T40"], None, None),
        (["NVIDIA A10"], None, "a10"),
        (["NVIDIA A10G"], None, None),
        (["NVIDIA L40S"], None, "l40s"),
        (["NVIDIA L40"], None, None),
        (["NVIDIA H20"], None, "h20"),
        (["NVIDIA H20-3e"], None, None),
        (["NVIDIA GeForce RTX 4090"], None, "rtx4090"),
        (["NVIDIA GeForce RTX 4090 Laptop GPU"], None, None),
        (["NVIDIA RTX PRO 6000 Blackwell Server Edition"], None, None),
        (["NVIDIA B200"] * 8, False, "b200-hgx"),
        (["NVIDIA GB200"], True, "gb200"),
        (["NVIDIA GB10"], None, "gb10"),
        (["AMD Instinct MI355X VF"], None, "mi355x"),
        (["AMD Radeon(TM) 8060S Graphics"], None, "strix-halo"),
        (["AMD Radeon Graphics"], None, None),
        (["NVIDIA H200", "NVIDIA A100-SXM4-80GB"], None, None),
        (["NVIDIA H200", ""], None, None),
        (["AMD Instinct MI300X VF"] * 8, None, "mi300x"),
        (["AMD Instinct(TM) MI300X"], None, "mi300x"),
        (["AMD Instinct MI300X HF"], None, None),
        (["NVIDIA A100-SXM-80GB"], None, "a100-sxm4-80"),
        (["NVIDIA A100 SXM4 40GB"], None, "a100-sxm4-40"),
        (["NVIDIA H100-SXM5-80GB"], None, "h100-sxm5"),
        (["NVIDIA A100 80GB PCIe"], None, "a100-pcie-80"),
        (["NVIDIA H200 NVL"], None, None),
        (["NVIDIA A100-SXM4-80GB MIG 1g.10gb"], None, "a100-sxm4-80"),
        (["NVIDIA H100 80GB HBM3 MIG 1g.10gb+me"], None, "h100-sxm5"),
        (["GRID A100-40C"], None, None),
        (["NVIDIA A100-4-20C"], None, None),
        ([""], None, None),
        ([], None, None),
    ],
)
def test_devices_are_recognised(devices: list[str], c2c: bool | None, machine: str | None) -> None:
    found = recognise(devices, c2c)
    assert (found.name if found else None) == machine


def test_device_names_are_read_without_the_numbers() -> None:
    for machine in all_machines():
        assert (
            texts_of_head(catalog.folder() / f"{machine.name}.toml", machine.file, "recognise")
            == machine.recognise
        )


def test_a_file_that_nobody_asks_for_is_not_read_for_its_numbers(tmp_path: Path) -> None:
    file = tmp_path / "m.toml"
    file.write_text(
        '[machine]\nrecognise = ["NVIDIA X9", 1]\n[gpu.memory_bandwidth]\nvalue = "fast"\n',
        encoding="utf-8",
    )
    assert texts_of_head(file, "m.toml", "recognise") == ("NVIDIA X9",)
    file.write_text("[machine]\nrecognise = 1\n", encoding="utf-8")
    assert texts_of_head(file, "m.toml", "recognise") == ()
    file.write_text("[machine\nrecognise = []\n", encoding="utf-8")
    with pytest.raises(MachineError, match="M004"):
        texts_of_head(file, "m.toml", "recognise")


def test_a_slice_has_the_link_of_its_gpu_and_none_of_its_numbers() -> None:
    part, whole = recognise(["NVIDIA A100-SXM4-80GB MIG 1g.10gb"]), load("a100-sxm4-80")
    assert part is not None and part.title == f"a slice of {whole.title}"
    assert set(part.parameters) == {
        name for name in whole.parameters if not name.startswith("gpu.")
    }
    assert any(name.startswith("link.h2d") for name in part.parameters)
    assert load("a100-sxm4-80") == whole


def test_the_manual_lists_every_parameter_and_every_machine() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "machines.md").read_text(
        encoding="utf-8"
    )
    for name, meaning in schema().items():
        assert f"| `{name}` | {meaning.unit} | {meaning.scope} | {meaning.meaning} |" in text
    for machine in all_machines():
        assert f"| `{machine.name}` | {machine.coupling} | {machine.title} |" in text


def test_the_manual_lists_every_host() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "machines.md").read_text(
        encoding="utf-8"
    )
    for name, path in hosts().items():
        entry = read(path)
        speeds = [c.set.value for c in entry.changes if c.set is not None]
        assert (
            f"| `{name}` | {entry.instruction_set} | "
            f"{' | '.join(f'{speed:g}' for speed in speeds)} |"
        ) in text
