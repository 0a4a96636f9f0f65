"""Builds the delaying library and the four programs with what the machine has: a C compiler, nvcc, CUPTI."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from refusal import Refusal

HERE: Final = Path(__file__).resolve().parent
#: Records that CUPTI renumbers, and the macro of ``delay.c`` that names each.
RECORDS: Final = {
    "KERNEL_RECORD": "CUpti_ActivityKernel",
    "COPY_RECORD": "CUpti_ActivityMemcpy",
    "MEMSET_RECORD": "CUpti_ActivityMemset",
    "EVENT_RECORD": "CUpti_ActivityCudaEvent",
    "WAIT_RECORD": "CUpti_ActivitySynchronization",
}
WARNINGS: Final = ("-Wall", "-Wextra", "-Werror")
_BUILD_LIMIT_SECONDS: Final = 300


@dataclass(frozen=True)
class Tools:
    """What a build needs: compilers, header folders, and CUPTI's library."""

    cc: str
    nvcc: str
    includes: tuple[Path, ...]
    cupti: Path


@dataclass(frozen=True)
class Built:
    """The two files of a build."""

    programs: Path
    library: Path


def toolkits() -> list[Path]:
    """Folders that may hold a CUDA toolkit: named by CUDA_HOME, around nvcc, the usual place, Python packages."""
    folders = [Path(os.environ["CUDA_HOME"])] if os.environ.get("CUDA_HOME") else []
    if nvcc := shutil.which("nvcc"):
        folders.append(Path(nvcc).resolve().parents[1])
    folders.append(Path("/usr/local/cuda"))
    packages = Path(sysconfig.get_path("purelib")) / "nvidia"
    folders += sorted([*packages.glob("cu1*"), *packages.glob("cuda_*")], reverse=True)
    return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]


def tools(nvcc: str = "", cupti: str = "") -> Tools:
    """Find what a build needs.

    Parameters
    ----------
    nvcc : the CUDA compiler; looked for if empty.
    cupti : folder that holds ``cupti.h``, or ``include`` with it, and its library; looked for if empty.

    Raises
    ------
    Refusal : V002, one of them is not there.
    """
    folders = [Path(cupti)] if cupti else toolkits()
    cc = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    compilers = [str(folder / "bin" / "nvcc") for folder in toolkits()]
    found = shutil.which(nvcc or "nvcc") or next((c for c in compilers if not nvcc and shutil.which(c)), None)
    places = ("", "include", "extras/CUPTI/include", "targets/x86_64-linux/include", "targets/sbsa-linux/include")
    header = _first(folders, places, "cupti.h")
    cuda = _first([*folders, *toolkits()], places, "cuda.h")
    libraries = ("", "lib64", "lib", "extras/CUPTI/lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")
    library = _first(folders, libraries, "libcupti.so") or _first(folders, libraries, "libcupti.so.1[2-9]")
    for there, name, fix in (
        (cc, "a C compiler", "install gcc, or set CC"),
        (found, "nvcc", "install the CUDA toolkit, or name it with --nvcc"),
        (header, "cupti.h", "install CUPTI (it comes with the CUDA toolkit, or as nvidia-cuda-cupti), or name its folder with --cupti"),
        (library, "libcupti.so", "install CUPTI, or name its folder with --cupti"),
    ):
        if not there:
            raise Refusal("V002", f"there is no {name} here", fix)
    assert cc and found and header and library
    return Tools(cc, found, tuple(dict.fromkeys(f.parent for f in (header, cuda) if f)), library)


def _first(folders: list[Path], places: tuple[str, ...], pattern: str) -> Path | None:
    return next((path for folder in folders for place in places for path in sorted((folder / place).glob(pattern), reverse=True)), None)


def records(header: str) -> list[str]:
    """Compiler options that name the newest record of each family in the text of CUPTI's headers.

    >>> records("} CUpti_ActivityKernel9; } CUpti_ActivityKernel10; } CUpti_ActivityMemcpy6; } CUpti_ActivityMemcpyPtoP4;")
    ['-DKERNEL_RECORD=CUpti_ActivityKernel10', '-DCOPY_RECORD=CUpti_ActivityMemcpy6']
    """
    out = []
    for macro, family in RECORDS.items():
        numbers = [int(n or 1) for n in re.findall(rf"}}\s*{family}(\d*)\s*;", header)]
        if numbers:
            newest = max(numbers)
            out.append(f"-D{macro}={family}{newest if newest > 1 else ''}")
    return out


def build(have: Tools, folder: Path) -> Built:
    """Compile both into `folder`.

    Raises
    ------
    Refusal : V002, with the compiler's first complaint.
    """
    folder.mkdir(parents=True, exist_ok=True)
    built = Built(folder / "programs", folder / "libdelay.so")
    headers = [path for folder in have.includes for name in ("cupti_activity.h", "cupti.h") if (path := folder / name).is_file()]
    named = records("".join(path.read_text(encoding="utf-8", errors="replace") for path in headers))
    system = [word for path in have.includes for word in ("-isystem", str(path))]
    _run(
        have.cc, "-std=gnu11", "-O2", *WARNINGS, "-shared", "-fPIC", "-fvisibility=hidden", *named, *system, str(HERE / "delay.c"),
        str(have.cupti), f"-Wl,-rpath,{have.cupti.parent}", "-lpthread", "-o", str(built.library),
    )  # fmt: skip
    # a toolkit from Python packages does not find its own headers and libraries
    root = Path(have.nvcc).resolve().parents[1]
    own = [f"-I{root / 'include'}", f"-L{root / 'lib'}"] if (root / "lib").is_dir() else []
    _run(have.nvcc, "-O2", "-std=c++17", "-arch=native", *own, str(HERE / "programs.cu"), "-ldl", "-o", str(built.programs))
    return built


def _run(*words: str) -> None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=_BUILD_LIMIT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refusal("V002", f"{Path(words[0]).name} cannot be run: {error}") from error
    if done.returncode:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        first = next((line for line in said if "error" in line), said[0] if said else "no message")
        raise Refusal("V002", f"{Path(words[0]).name} failed: {first}")
