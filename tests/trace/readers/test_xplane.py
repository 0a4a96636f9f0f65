"""XSpaces of JAX and TensorFlow: what is read of them, broken ones, and a real one."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import build_xplane as b
import pytest
from refusals import codes, refused

from turnbuckle.foundation.errors import TurnbuckleError
from turnbuckle.profile.profile import build
from turnbuckle.profile.summary import summary
from turnbuckle.projection.run import Run
from turnbuckle.trace import read


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_streams_calls_and_ranges_are_read_and_the_lines_of_xla_are_not(tmp_path: Path) -> None:
    trace = read(written(tmp_path / "any.name", b.turns(3)))
    assert trace.facts["format"] == "xplane" and trace.facts["session_start_utc_ns"] == 1 << 60
    counts = {name: trace.table(name).height for name in sorted(trace.has)}
    assert counts == {"api": 9, "copies": 3, "devices": 1, "kernels": 3, "ranges": 6}
    kernel, copy = trace.kernels.row(1, named=True), trace.copies.row(1, named=True)
    assert (kernel["start_ns"], kernel["end_ns"], kernel["stream"]) == (140_000, 160_000, 14), (
        "times count from the first event"
    )
    assert (kernel["blocks"], kernel["threads"], kernel["registers"], kernel["shared_bytes"]) == (
        8,
        128,
        32,
        1040,
    )
    assert trace.text(trace.kernels).to_list() == ["fusion_1"] * 3
    assert (
        copy["size_bytes"],
        copy["direction"],
        copy["source_memory"],
        copy["target_memory"],
        copy["stream"],
    ) == (4096, 1, 2, 3, 13)
    device = trace.devices.row(0, named=True)
    assert (device["clock_hz"], device["multiprocessors"], device["compute_major"]) == (
        1_410_000_000,
        108,
        8,
    )
    assert trace.ranges["kind"].to_list() == [1, 2] * 3
    assert not trace.names.str.contains("secret-host").any()


def test_a_gpu_of_amd_is_none_of_nvidia(tmp_path: Path) -> None:
    """AMD counts capabilities otherwise: 9.4 is CDNA 3, not a chip of Hopper; 9.0 are four chips,
    and none is guessed.
    """
    titles = []
    for minor in (4, 0):
        about = {
            "device_vendor": "AMD",
            "core_count": 304,
            "clock_rate": 2_100_000,
            "compute_cap_major": 9,
            "compute_cap_minor": minor,
        }
        plane = b.plane(
            "/device:GPU:0", about, [("Stream #1", 0, [("k", 10, 20, {}), ("k", 50, 20, {})])]
        )
        run = Run.read(written(tmp_path / f"{minor}.xplane.pb", b.space(plane)))
        assert run.trace.devices["compute_major"].to_list() == [None]
        titles.append(run.source.title)
    assert titles[0] == "a GPU of AMD CDNA 3" and not any("NVIDIA" in title for title in titles)


def test_calls_are_paired_with_what_they_started_and_a_run_is_projected(tmp_path: Path) -> None:
    run = Run.read(written(tmp_path / "a.xplane.pb", b.turns(40)))
    assert run.trace.launch_pairs.height == 80 and "P109" not in codes(run)
    assert summary.closure_defect_ns(run.profile) == 0
    assert run.project(["self"]).projections[0].seconds == run.seconds


def test_a_recording_of_the_device_alone_says_what_is_missing(tmp_path: Path) -> None:
    alone = b.space(
        b.plane("/device:GPU:0", {}, [("Stream #1", 0, [("k", 10, 20, {}), ("k", 50, 20, {})])])
    )
    run = Run.read(written(tmp_path / "a.xplane.pb", alone))
    assert summary.kernels(run.profile)["busy_ns"] == 40 and not run.projectable
    assert "host calls" in refused("A140", run.project, "gh200").what


def test_packed_damaged_and_foreign_ones(tmp_path: Path) -> None:
    content = b.turns(2)
    packed = read(written(tmp_path / "a.xplane.pb.gz", gzip.compress(content)))
    assert packed.kernels.equals(read(written(tmp_path / "a.xplane.pb", content)).kernels)
    refused("P087", read, written(tmp_path / "cut.xplane.pb", content[:-40]))
    tpu = b.space(
        b.plane("/device:TPU:0", {}, [("XLA Ops", 0, [("f", 1, 2, {})])]),
        b.plane("/host:CPU", {}, []),
    )
    error = refused("P088", read, written(tmp_path / "tpu.xplane.pb", tpu))
    assert "/device:TPU:0" in error.found


def test_flipped_bytes_are_refused_or_read_but_never_raise_anything_else(tmp_path: Path) -> None:
    content, chance, outcomes = b.turns(3), random.Random(5), set()
    for _ in range(300):
        damaged = bytearray(content)
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        try:
            build(read(written(tmp_path / "a.xplane.pb", bytes(damaged))))
            outcomes.add("read")
        except TurnbuckleError as error:
            outcomes.add(error.code)
    assert {"read", "P087"} <= outcomes


def test_times_beyond_belief_are_left_out_and_counted(tmp_path: Path) -> None:
    before_all_time: tuple[str, int, list[b.Event]] = (
        "Stream #2",
        (1 << 64) - 5,
        [("k", 10, 20, {})],
    )
    content = b.space(
        b.plane("/device:GPU:0", {}, [("Stream #1", 0, [("k", 10, 20, {})]), before_all_time])
    )
    trace = read(written(tmp_path / "a.xplane.pb", content))
    assert trace.kernels.height == 1 and codes(trace)["P162"] == 1


def test_a_real_one_of_jax_on_eight_gpus(shared: Path) -> None:
    path = shared / "traces" / "xplane" / "jax_conv_mi300_08" / "jax_conv_mi300_08.xplane.pb"
    if not path.is_file():
        pytest.skip("the real XSpace stands beside the repository, not in it")
    trace = read(path, use_cache=False)
    assert trace.kernels.height == 235 and trace.api.height == 234 and trace.devices.height == 8
    assert sorted(trace.kernels["device"].unique()) == list(range(8))
    profile = build(trace)
    assert summary.closure_defect_ns(profile) == 0 and trace.launch_pairs.height == 235
