"""The recorder without a GPU: its own code, built against CUPTI's real headers and a stand-in for
driver, runtime, CUPTI and clock.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from recorder_bench import Bench, Ran, Said, against, made_once

from turnbuckle.cli import run as cli_run
from turnbuckle.recorder import measuring, toolchain

HERE = Path(__file__).resolve().parent
GPU = HERE.parents[1] / "validation" / "gpu"


@pytest.fixture(scope="module", autouse=True)
def _compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compile with warnings as errors, and each set of sources once for all workers: its bytes
    depend on sources and words alone.
    """
    complaint = toolchain.complaint

    def once(words: list[str], text: str = "") -> str | None:
        *command, target = words
        if command[-1] != "-o":
            return complaint(words, text)
        if Path(target).name == toolchain.LIBRARY:
            return apart(command, target)
        messages: list[str | None] = [None]

        def make(folder: Path) -> None:
            messages[0] = complaint([*command, str(folder / "made")], text)

        sources = b"".join(path.read_bytes() for path in sorted(toolchain.native().rglob("*.[ch]")))
        key = hashlib.sha256(repr(command).encode() + sources).hexdigest()
        made = made_once(tmp_path_factory, f"compiled-{key}", make) / "made"
        if made.exists():
            shutil.copyfile(made, target)
            return None
        return messages[0] or complaint(words, text)

    def apart(command: list[str], target: str) -> str | None:
        """Compile the recorder's sources into one object, which those that are linked to another
        CUPTI share.
        """
        last = max(place for place, word in enumerate(command) if word.endswith(".c"))
        program, *options = command[: last + 1]
        resolved = [
            str(Path(word).resolve()) if word.startswith("/") else word
            for word in options
            if word != "-shared"
        ]
        linked = [word for word in options if not word.endswith(".c")]
        with tempfile.TemporaryDirectory() as folder:
            made = f"{folder}/sources.o"
            return once([program, *resolved, "-r", "-o", made]) or complaint(
                [program, *linked, made, *command[last + 1 :], target]
            )

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", "cc -Wall -Wextra -Werror -Wfatal-errors -DLAST_WAIT_MS=300")
        patch.setenv("MPICC", "mpicc -Werror")
        patch.setattr(toolchain, "complaint", once)
        yield


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The measuring program."""
    return made_once(tmp_path_factory, "microbench", measuring.build) / "microbench"


@pytest.fixture(scope="session")
def real() -> toolchain.Cupti:
    """NVIDIA's own CUPTI: headers and library, as the packages of the extra ``record`` bring
    them.
    """
    return toolchain.choose()


@pytest.fixture(scope="module")
def bench(real: toolchain.Cupti, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The stand-in and all that is built on it; needs a C compiler, as Rust does."""
    toolkit = made_once(tmp_path_factory, "toolkit", lambda folder: _equip(folder, real))
    built = toolchain.cupti_in(toolkit)
    assert built is not None
    recorder = tmp_path_factory.mktemp("recorder") / toolchain.LIBRARY
    toolchain.build(built, recorder)
    return Bench(toolkit, toolkit / "driver", toolkit / "program", recorder)


def _equip(toolkit: Path, real: toolchain.Cupti) -> None:
    """Fill a folder like a CUDA toolkit, with the driver in ``driver/`` and the program that the
    tests record.
    """
    (toolkit / "include").symlink_to(real.includes[0])
    if len(real.includes) > 1:
        (toolkit / "targets" / "x86_64-linux").mkdir(parents=True)
        (toolkit / "targets" / "x86_64-linux" / "include").symlink_to(real.includes[1])
    (toolkit / "lib64").mkdir()
    library = toolkit / "lib64" / "libcupti.so"
    linked = (
        "-fPIC",
        "-shared",
        "-Wl,-soname,libcupti.so",
        HERE / "standin.c",
        "-ldl",
        "-o",
        library,
    )
    subprocess.run([*against(real), *linked], check=True)
    (toolkit / "driver").mkdir()
    (toolkit / "driver" / "libcuda.so.1").symlink_to(library)
    run_path = f"-Wl,-rpath,{library.parent}"
    subprocess.run(
        [
            *against(real),
            HERE / "program.c",
            library,
            run_path,
            "-ldl",
            "-lpthread",
            "-o",
            toolkit / "program",
        ],
        check=True,
    )


@pytest.fixture(scope="module")
def dependences(
    bench: Bench, real: toolchain.Cupti, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The programs, by a C compiler against CUDA's own headers and the stand-in's runtime."""
    library = bench.toolkit / "lib64" / "libcupti.so"
    words = [*against(real), "-x", "c", str(GPU / "dependences.cu"), "-x", "none", str(library)]
    words += [f"-Wl,-rpath,{library.parent}", "-ldl", "-o"]
    made = made_once(
        tmp_path_factory,
        "dependences",
        lambda folder: subprocess.run([*words, str(folder / "dependences")], check=True),
    )
    return made / "dependences"


@pytest.fixture
def ran(bench: Bench, tmp_path: Path) -> Callable[..., Ran]:
    """Run the program with the recorder; settings of the recorder and of the stand-in as
    keywords.
    """

    def run(*words: object, **settings: str) -> Ran:
        folder = tmp_path / f"raw{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        env = {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("TB_", "STANDIN_", "SLURM_", "OMPI_", "PMI"))
            },
            "CUDA_INJECTION64_PATH": str(bench.library),
            "NVTX_INJECTION64_PATH": str(bench.library),
            "TB_TRACE": str(folder / "%p.trace.csv"),
            **settings,
        }
        done = subprocess.run(
            [bench.program, *map(str, words)],
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        files = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        return Ran(done.returncode, done.stdout, done.stderr, files)

    return run


@pytest.fixture
def verb(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Said]:
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
