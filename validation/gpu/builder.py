"""Builds what the steps need with what the machine has: Turnbuckle's recorder and measuring
program, and the CUDA programs here.

Turnbuckle itself need not be installed: only its sources are used.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parents[1] / "src" / "turnbuckle"
_INCLUDES = ("include", "targets/x86_64-linux/include", "targets/sbsa-linux/include")
_LIBRARIES = ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")
_LIMIT = 240
#: Where a machine without a loader's cache of them may hold the driver's libraries and programs.
_DRIVERS = (
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib64/nvidia",
    "/usr/lib/wsl/lib",
)
_SMI = ("/usr/local/nvidia/bin", "/usr/lib/wsl/lib", "/opt/bin")
_DEVICE = """
import ctypes, json, sys
driver, count, version = ctypes.CDLL(sys.argv[1]), ctypes.c_int(), ctypes.c_int()
name, major, minor = ctypes.create_string_buffer(200), ctypes.c_int(), ctypes.c_int()
result = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
driver.cuDriverGetVersion(ctypes.byref(version))
if result or not count.value:
    sys.exit(f"the driver says {result}, {count.value} devices")
driver.cuDeviceGetName(name, 200, 0)
driver.cuDeviceGetAttribute(ctypes.byref(major), 75, 0)
driver.cuDeviceGetAttribute(ctypes.byref(minor), 76, 0)
print(json.dumps({"name": name.value.decode(errors="replace"), "capability": f"{major.value}.{minor.value}", "driver": version.value}))
"""


def driver_library() -> str:
    """The driver's library: by its name where the loader finds it, else its path; empty where there
    is none.
    """
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return next(
            (
                f"{folder}/libcuda.so.1"
                for folder in _DRIVERS
                if Path(folder, "libcuda.so.1").exists()
            ),
            "",
        )
    return "libcuda.so.1"


def environment() -> dict[str, str]:
    """What programs need beside this environment to find the driver; mostly nothing."""
    folder = driver_library().rpartition("/")[0]
    return (
        {"LD_LIBRARY_PATH": ":".join(filter(None, (folder, os.environ.get("LD_LIBRARY_PATH"))))}
        if folder
        else {}
    )


@cache
def smi() -> str:
    """The program nvidia-smi; empty where there is none."""
    return (
        shutil.which("nvidia-smi") or shutil.which("nvidia-smi", path=os.pathsep.join(_SMI)) or ""
    )


@cache
def device() -> dict[str, str]:
    """Name, compute capability and driver version of the first device, asked of the driver in a
    process of its own; empty without one.
    """
    words = [sys.executable, "-I", "-c", _DEVICE, driver_library() or "libcuda.so.1"]
    try:
        env = {name: value for name, value in os.environ.items() if "INJECTION" not in name}
        done = subprocess.run(
            words,
            env=env,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=120,
            check=False,
        )
        return (
            {key: str(value) for key, value in json.loads(done.stdout).items()}
            if done.returncode == 0
            else {}
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return {}


def toolchain() -> ModuleType:
    """`turnbuckle.recorder.toolchain` from the sources, without importing the package around it
    (which needs its dependencies).
    """
    hidden = {
        n: m for n, m in sys.modules.items() if n == "turnbuckle" or n.startswith("turnbuckle.")
    }
    for name in hidden:
        del sys.modules[name]
    try:
        bare = ModuleType("turnbuckle")
        bare.__path__ = [str(PACKAGE)]
        sys.modules["turnbuckle"] = bare
        found = importlib.import_module("turnbuckle.recorder.toolchain")
        vars(found)["native"] = lambda: PACKAGE / "recorder" / "native"
        return found
    finally:
        for name in [n for n in sys.modules if n == "turnbuckle" or n.startswith("turnbuckle.")]:
            del sys.modules[name]
        sys.modules.update(hidden)


def build(folder: Path, *, fresh: bool = False) -> dict[str, str]:
    """Paths of ``recorder``, ``microbench``, ``programs``, ``dependences`` and ``kernels``, each
    only if it could be built, ``cublas`` yes or no; and under ``no_NAME`` why not.
    """
    known = folder / "built.json"
    if known.exists() and not fresh:
        found: dict[str, str] = json.loads(known.read_text())
        return found
    folder.mkdir(parents=True, exist_ok=True)
    built: dict[str, str] = {"cublas": "no"}
    chain = toolchain()
    try:
        cupti = chosen(chain)
        chain.build(cupti, folder / "libturnbuckle-cupti.so")
        built |= {"recorder": str(folder / "libturnbuckle-cupti.so"), "cupti": cupti.label}
    except Exception as error:  # whatever is wrong there, the other steps go on
        built["no_recorder"] = str(error)
    sources = PACKAGE / "recorder" / "native"
    words = [
        *_compiler(chain),
        "-O2",
        "-std=gnu11",
        str(sources / "microbench" / "microbench.c"),
        "-ldl",
        "-lpthread",
        "-lm",
        "-o",
    ]
    _made(words, folder / "microbench", built)
    _programs(chain, folder, built)
    known.write_text(json.dumps(built, indent=1))
    return built


def chosen(chain: ModuleType) -> Any:
    """The CUPTI to build against: that in the folder TB_CUPTI, or the one that suits the driver
    best (`toolchain.choose`).
    """
    folder = os.environ.get("TB_CUPTI")
    return chain.choose(driver_version(), Path(folder) if folder else None)


def driver_version() -> int | None:
    """Version of the driver as cuDriverGetVersion says; None without one."""
    number = ctypes.c_int(0)
    try:
        answer = ctypes.CDLL(driver_library() or "libcuda.so.1").cuDriverGetVersion(
            ctypes.byref(number)
        )
    except (OSError, AttributeError):
        return None
    return number.value if answer == 0 else None


def _compiler(chain: ModuleType) -> list[str]:
    try:
        found: list[str] = chain.compiler()
    except Exception:
        return ["cc"]
    return found


def _programs(chain: ModuleType, folder: Path, built: dict[str, str]) -> None:
    roots = list(dict.fromkeys(place for place in chain.folders() if place.is_dir()))
    nvcc = shutil.which("nvcc") or next(
        (str(r / "bin" / "nvcc") for r in roots if (r / "bin" / "nvcc").is_file()), None
    )
    if nvcc is None:
        built["no_programs"] = "there is no nvcc"
        return
    compiled = [nvcc, "-std=c++17", f"-arch={_architecture()}", "-O2", f"-I{HERE}"]
    # as packages the runtime's libraries do not lie where nvcc looks for them
    if runtime := _first(
        [Path(nvcc).resolve().parents[1], *roots], _LIBRARIES, "libcudart_static.a"
    ):
        compiled.append(f"-L{runtime.parent}")
    with ThreadPoolExecutor(2) as both:  # the compiler is most of a first call
        for name in ("dependences", "kernels"):
            both.submit(
                _made, [*compiled, str(HERE / f"{name}.cu"), "-ldl", "-o"], folder / name, built
            )
        both.submit(_main_programs, compiled, roots, folder, built)


def _main_programs(
    compiled: list[str], roots: list[Path], folder: Path, built: dict[str, str]
) -> None:
    """programs.cu, with cuBLAS where there is one that can be linked."""
    words = [*compiled, str(HERE / "programs.cu"), "-ldl", "-lpthread"]
    header, library = (
        _first(roots, _INCLUDES, "cublas_v2.h"),
        _first(roots, _LIBRARIES, "libcublas.so*"),
    )
    if header and library:
        own = ["-DTB_CUBLAS", "-Xcompiler", f"-idirafter,{header.parent}", "-Xlinker", str(library)]
        own += [
            "-Xlinker",
            "-rpath",
            "-Xlinker",
            str(library.parent),
            "-Xlinker",
            "-rpath-link",
            "-Xlinker",
            str(library.parent),
        ]
        if _made([*words, *own, "-o"], folder / "programs", built):
            built["cublas"] = "yes"
            return
    _made([*words, "-o"], folder / "programs", built)


def _architecture() -> str:
    number = device().get("capability", "").replace(".", "")
    return f"sm_{number}" if number.isdigit() else "sm_90"


def _first(roots: list[Path], places: tuple[str, ...], pattern: str) -> Path | None:
    return next(
        (
            found
            for root in roots
            for place in places
            for found in sorted((root / place).glob(pattern), reverse=True)
        ),
        None,
    )


def _made(words: list[str], target: Path, built: dict[str, str]) -> bool:
    """Compile into `target`; what the compiler says is kept where it fails."""
    try:
        done = subprocess.run(
            [*words, str(target)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT,
            check=False,
        )
        said = (done.stderr + done.stdout).strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        done, said = None, str(error)
    if done is not None and done.returncode == 0:
        built[target.name] = str(target)
        built.pop(f"no_{target.name}", None)
        return True
    built[f"no_{target.name}"] = said[-600:]
    return False
