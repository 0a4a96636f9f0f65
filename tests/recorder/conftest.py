"""The recorder without a GPU: its own code, built against CUPTI's real headers and a stand-in for driver, runtime, CUPTI and clock."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from recorder_bench import WARNINGS, Bench, Ran, Said

from turnbuckle.cli import run as cli_run
from turnbuckle.recorder import toolchain

HERE = Path(__file__).resolve().parent
GPU = HERE.parents[1] / "validation" / "gpu"


@pytest.fixture(scope="session")
def real() -> toolchain.Cupti:
    """NVIDIA's own CUPTI: headers and library, as the packages of the extra ``record`` bring them."""
    return toolchain.choose()


@pytest.fixture(scope="session")
def bench(real: toolchain.Cupti, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The stand-in and all that is built on it; needs a C compiler, as Rust does."""
    toolkit = tmp_path_factory.mktemp("toolkit")
    driver = tmp_path_factory.mktemp("driver")
    (toolkit / "include").symlink_to(real.includes[0])
    if len(real.includes) > 1:
        (toolkit / "targets" / "x86_64-linux").mkdir(parents=True)
        (toolkit / "targets" / "x86_64-linux" / "include").symlink_to(real.includes[1])
    (toolkit / "lib64").mkdir()
    library = toolkit / "lib64" / "libcupti.so"
    text = "".join(path.read_text(encoding="utf-8") for path in real.includes[0].glob("cupti_activity*.h"))
    headers = [word for path in real.includes for word in ("-isystem", str(path))]
    common = [*toolchain.compiler(), *WARNINGS, *headers, "-idirafter", str(toolchain.stand_ins())]
    named = toolchain.record_options(text)
    subprocess.run(
        [*common, *named, "-fPIC", "-shared", "-Wl,-soname,libcupti.so", str(HERE / "standin.c"), "-ldl", "-o", library], check=True
    )
    (driver / "libcuda.so.1").symlink_to(library)
    program = toolkit / "program"
    run_path = f"-Wl,-rpath,{library.parent}"
    subprocess.run([*common, str(HERE / "program.c"), str(library), run_path, "-ldl", "-lpthread", "-o", program], check=True)
    built = toolchain.at(toolkit)
    assert built is not None
    recorder = toolkit / "recorder.so"
    toolchain.build(built, recorder, strict=True)
    return Bench(toolkit, driver, program, recorder)


@pytest.fixture(scope="session")
def dependences(bench: Bench, real: toolchain.Cupti, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs, by a C compiler against CUDA's own headers and the stand-in's runtime."""
    made = tmp_path_factory.mktemp("dependences") / "dependences"
    library = bench.toolkit / "lib64" / "libcupti.so"
    headers = [word for path in real.includes for word in ("-isystem", str(path))]
    words = [*toolchain.compiler(), "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", *headers]
    words += ["-idirafter", str(toolchain.stand_ins()), "-x", "c", str(GPU / "dependences.cu"), "-x", "none", str(library)]
    subprocess.run([*words, f"-Wl,-rpath,{library.parent}", "-ldl", "-o", str(made)], check=True)
    return made


@pytest.fixture
def ran(bench: Bench, tmp_path: Path) -> Callable[..., Ran]:
    """Run the program with the recorder; settings of the recorder and of the stand-in as keywords."""

    def run(*words: object, **settings: str) -> Ran:
        folder = tmp_path / f"raw{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("TB_", "STANDIN_", "SLURM_", "OMPI_", "PMI"))},
            "CUDA_INJECTION64_PATH": str(bench.library),
            "NVTX_INJECTION64_PATH": str(bench.library),
            "TB_TRACE": str(folder / "%p.trace.csv"),
            **settings,
        }
        done = subprocess.run([bench.program, *map(str, words)], env=env, capture_output=True, text=True, check=False, timeout=300)
        files = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        return Ran(done.returncode, done.stdout, done.stderr, files)

    return run


@pytest.fixture
def verb(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Run ``turnbuckle WORDS`` in an empty folder on the machine that the stand-in plays."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("CUDA_HOME", str(bench.toolkit))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(bench.driver))
    for name in (
        "CUDA_INJECTION64_PATH",
        "NVTX_INJECTION64_PATH",
        "OMPI_COMM_WORLD_RANK",
        "PMIX_RANK",
        "PMI_RANK",
        "MV2_COMM_WORLD_RANK",
        "SLURM_PROCID",
    ):
        monkeypatch.delenv(name, raising=False)

    def run(*words: object) -> Said:
        given = [str(word) for word in words]
        monkeypatch.setattr("sys.argv", ["turnbuckle", *given])
        capfd.readouterr()
        code = cli_run.run(given)
        found = capfd.readouterr()
        assert "Traceback" not in found.out + found.err
        return Said(code, found.out, found.err)

    return run
