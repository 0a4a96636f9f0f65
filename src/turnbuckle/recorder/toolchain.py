"""Build of the recorder on the machine that runs it: a C compiler, CUPTI's headers and library, and
the sources in ``native/``.

Nothing is downloaded.  CUPTI comes with the CUDA toolkit, and as the Python packages that PyTorch
depends on.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from turnbuckle.foundation import private_folder
from turnbuckle.foundation.errors import TurnbuckleError, error_of

#: Records that CUPTI renumbers, by the macros of ``native/cupti/records.c``: NAME_RECORD and
#: NAME_NUMBER.
RECORDS: Final = {
    "KERNEL": "CUpti_ActivityKernel",
    "COPY": "CUpti_ActivityMemcpy",
    "PEER": "CUpti_ActivityMemcpyPtoP",
    "MEMSET": "CUpti_ActivityMemset",
    "WAIT": "CUpti_ActivitySynchronization",
    "EVENT": "CUpti_ActivityCudaEvent",
    "MEMORY": "CUpti_ActivityMemory",
    "GRAPH": "CUpti_ActivityGraphTrace",
    "OVERHEAD": "CUpti_ActivityOverhead",
    "UNIFIED": "CUpti_ActivityUnifiedMemoryCounter",
    "MARKER": "CUpti_ActivityMarker",
    "DEVICE": "CUpti_ActivityDevice",
}
#: Folders of ``native/`` that make the recorder.
FOLDERS: Final = ("shared", "cupti")
#: Options of the compiler, part of the key of a cached library.  A thread of the library may
#: outlive its loader, hence nodelete.
OPTIONS: Final = (
    "-std=gnu11",
    "-O2",
    "-Wall",
    "-Wextra",
    "-shared",
    "-fPIC",
    "-fvisibility=hidden",
    "-Wl,-z,nodelete",
)
LIBRARY: Final = "libturnbuckle-cupti.so"
_DIGEST: Final = "sha256"
_BUILD_LIMIT_SECONDS: Final = 300
_HEADERS: Final = (
    "",
    "include",
    "extras/CUPTI/include",
    "targets/x86_64-linux/include",
    "targets/sbsa-linux/include",
)
_LIBRARIES: Final = (
    "",
    "lib64",
    "lib",
    "extras/CUPTI/lib64",
    "targets/x86_64-linux/lib",
    "targets/sbsa-linux/lib",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
)


@dataclass(frozen=True)
class Cupti:
    """CUPTI of this machine."""

    includes: tuple[Path, ...]  #: folders of its headers and of their ``cuda.h``
    library: Path
    version: int  #: CUPTI_API_VERSION of the header
    cuda: tuple[int, int]  #: release of CUDA, major and minor

    @property
    def label(self) -> str:
        """Return release and version in words."""
        return f"CUPTI {self.version} of CUDA {self.cuda[0]}.{self.cuda[1]}"


def compiler() -> list[str]:
    """Return the words that call the C compiler: CC, or cc, or gcc, or clang.  Raise N001 where
    there is none.
    """
    given = shlex.split(os.environ.get("CC", ""))
    for words in [given] if given else [["cc"], ["gcc"], ["clang"]]:
        if words and (path := shutil.which(words[0])):
            return [path, *words[1:]]
    raise error_of(
        "N001", found=f"CC={given[0]}" if given else "neither cc, gcc nor clang", library=LIBRARY
    )


def folders() -> Iterator[Path]:
    """Yield the folders that may hold CUPTI: CUDA_HOME, the toolkit around nvcc, Python packages of
    this environment, the usual places.
    """
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            yield Path(os.environ[name])
    if nvcc := shutil.which("nvcc"):
        yield Path(nvcc).resolve().parents[1]
    for scheme in dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib")):
        packages = Path(scheme) / "nvidia"
        yield from sorted([*packages.glob("cu[1-9]*"), *packages.glob("cuda_cupti")], reverse=True)
    yield Path("/usr/local/cuda")
    yield from sorted(Path("/usr/local").glob("cuda-*"), reverse=True)
    yield from (Path("/opt/cuda"), Path("/usr"))


def cupti_in(folder: Path) -> Cupti | None:
    """Return the CUPTI in one folder, or None."""
    header = _first(folder, _HEADERS, "cupti.h")
    library = _first(folder, _LIBRARIES, "libcupti.so") or _first(
        folder, _LIBRARIES, "libcupti.so.[1-9]*"
    )
    if header is None or library is None:
        return None
    beside = [
        folder,
        folder.parent / "cuda_runtime",
        *(p.parent for p in (folder, header.parent, header.parent.parent)),
    ]
    cuda = next(
        (header_path for place in beside if (header_path := _first(place, _HEADERS, "cuda.h"))),
        None,
    )
    if cuda is None:
        return None
    version = _defined(header.parent / "cupti_version.h", "CUPTI_API_VERSION")
    release = _defined(cuda, "CUDA_VERSION")
    if not version or not release:
        return None
    return Cupti(
        tuple(dict.fromkeys((header.parent, cuda.parent))),
        library.resolve(),
        version,
        (release // 1000, release % 1000 // 10),
    )


def _suits(cupti: Cupti, driver: int | None) -> tuple[int, bool, int, int]:
    """Return a key that orders CUPTIs by how well they suit a driver.

    The driver's major release comes first, because an older CUPTI does not know new devices.  Next
    comes a release not newer than the driver, the newest of those, or else the least new.
    """
    newer = driver is not None and cupti.cuda > (driver // 1000, driver % 1000 // 10)
    minor = cupti.cuda[1]
    return cupti.cuda[0], not newer, -minor if newer else minor, cupti.version


def _first(folder: Path, places: tuple[str, ...], pattern: str) -> Path | None:
    for place in places:
        with suppress(OSError, ValueError):
            if matches := sorted(path for path in (folder / place).glob(pattern) if path.is_file()):
                return matches[-1]
    return None


def _defined(header: Path, name: str) -> int:
    """Return the number that a header defines `name` as; 0 where it does not."""
    try:
        text = header.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    match = re.search(
        rf"^[ \t]*#[ \t]*define[ \t]+{name}[ \t]+(\d{{1,9}})[ \t]*$", text, re.MULTILINE
    )
    return int(match[1]) if match else 0


def choose(driver: int | None = None, folder: Path | None = None) -> Cupti:
    """Return the CUPTI to build against: that in `folder`, or the one of all in `folders` that best
    suits a driver of CUDA `driver`.

    Raises N002 where there is none, or only for newer drivers.

    Of several CUPTIs of one release the newest wins, because updates repair defects: CUPTI of 13.0
    records no waits for the device and may fail in a flush; its update 1 repairs both.  Of equal
    ones the first in the order of `folders` wins.

    Parameters
    ----------
    driver : version of the driver from cuDriverGetVersion (13000 is CUDA 13.0); None where it is
        unknown.
    """
    places = (
        [folder]
        if folder is not None
        else list(dict.fromkeys(place for place in folders() if place.is_dir()))
    )
    cuptis = [cupti for place in places if (cupti := cupti_in(place))]
    fit = [cupti for cupti in cuptis if driver is None or cupti.cuda[0] <= driver // 1000]
    if fit:
        return max(fit, key=lambda cupti: _suits(cupti, driver))
    if cuptis:
        raise error_of(
            "N002.new",
            found=f"{cuptis[0].label}, and a driver of CUDA {driver // 1000 if driver else 0}",
        )
    raise error_of(
        "N002.missing",
        where=str(folder) if folder else "",
        found="no folder with cupti.h, cuda.h and libcupti.so: "
        + ", ".join(p.name or str(p) for p in places[:8])
        if places
        else "no CUDA",
    )


def record_options(header: str) -> list[str]:
    """Return compiler options that name the newest record of each family in the text of CUPTI's
    header.

    >>> record_options("} CUpti_ActivityKernel9; } CUpti_ActivityKernel10; } CUpti_ActivityMemcpyPtoP4;")
    ['-DKERNEL_RECORD=CUpti_ActivityKernel10', '-DKERNEL_NUMBER=10',
    '-DPEER_RECORD=CUpti_ActivityMemcpyPtoP4', '-DPEER_NUMBER=4']
    """
    out = []
    for name, family in RECORDS.items():
        numbers = [int(n or 1) for n in re.findall(rf"}}\s*{family}(\d{{0,4}})\s*;", header)]
        if numbers:
            newest = max(numbers)
            out += [
                f"-D{name}_RECORD={family}{newest if newest > 1 else ''}",
                f"-D{name}_NUMBER={newest}",
            ]
    return out


def native() -> Path:
    """Return the folder of the sources."""
    return Path(str(files("turnbuckle.recorder") / "native"))


def stand_ins() -> Path:
    """Return the folder of headers that CUPTI's own include and that may be missing."""
    return native() / "cupti" / "headers"


def sources(folders: tuple[str, ...]) -> list[str]:
    """Return the compiler's words for the C files in these folders of ``native/``, which see each
    other's headers.
    """
    places = [native() / folder for folder in folders]
    return [
        *(word for place in places for word in ("-iquote", str(place))),
        *(str(path) for place in places for path in sorted(place.glob("*.c"))),
    ]


def digest(folders: tuple[str, ...], about: object) -> str:
    """Return the key of a built library: a digest of what it is built with and of all C files and
    headers in these folders.
    """
    out = hashlib.sha256(repr(about).encode())
    for path in sorted(path for folder in folders for path in (native() / folder).rglob("*.[ch]")):
        out.update(path.relative_to(native()).as_posix().encode() + b"\0" + path.read_bytes())
    return out.hexdigest()[:20]


def build(cupti: Cupti, target: Path, *, run_path: str = "") -> None:
    """Compile the recorder into the file `target`.

    Raises N001 without a compiler, N003 with the compiler's first error, N012 where the folder
    cannot be written.

    Parameters
    ----------
    run_path : folder in which the loaded library looks for CUPTI's library; that of `cupti` if
        empty.
    """
    text = "".join(
        p.read_text(encoding="utf-8", errors="replace")
        for p in cupti.includes[0].glob("cupti_activity*.h")
    )
    # -isystem would move the compiler's own folder in its search order
    headers = [
        word
        for path in cupti.includes
        if path != Path("/usr/include")
        for word in ("-isystem", str(path))
    ]
    linked = [
        str(cupti.library),
        f"-Wl,-rpath,{run_path or cupti.library.parent}",
        "-ldl",
        "-lpthread",
    ]
    words = [
        *compiler(),
        *OPTIONS,
        *record_options(text),
        *headers,
        "-idirafter",
        str(stand_ins()),
        *sources(FOLDERS),
        *linked,
        "-o",
    ]
    compiled(words, target, lambda first: error_of("N003", found=first), unwritten)


def compiled(
    words: list[str],
    target: Path,
    refused: Callable[[str], TurnbuckleError],
    unwritten: Callable[[Path, OSError], TurnbuckleError],
) -> None:
    """Run a compiler whose words end in ``-o``, and move its output to the file `target`.

    Raises the error of `refused`, which is given the compiler's first error, and that of
    `unwritten` where the folder cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".build-", dir=target.parent) as folder:
            made = Path(folder) / target.name
            if (first := complaint([*words, str(made)])) is not None:
                raise refused(first)
            made.replace(target)
    except OSError as error:
        raise unwritten(target.parent, error) from error


def unwritten(folder: Path, error: OSError) -> TurnbuckleError:
    """Return N012: the folder cannot be written."""
    return error_of("N012.cache", where=str(folder), found=error.strerror or str(error))


def complaint(words: list[str], text: str = "") -> str | None:
    """Return the first error of a compiler that is given `text`, or None where it succeeds."""
    try:
        done = subprocess.run(
            words,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_BUILD_LIMIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)[:300]
    if done.returncode == 0:
        return None
    lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    return next(
        (line for line in lines if "error" in line),
        lines[0] if lines else f"it ended with {done.returncode} and no message",
    )[:300]


def key(cupti: Cupti) -> str:
    """Return the key of a built library: a digest of sources, options, compiler, CUPTI (path,
    version, size and time of its library).
    """
    about = cupti.library.stat()
    return digest(FOLDERS, (OPTIONS, compiler(), cupti, about.st_size, about.st_mtime_ns))


@contextmanager
def cached(cupti: Cupti, cache: Path) -> Iterator[tuple[Path, bool]]:
    """Lend a copy of the recorder for `cupti` from the folder `cache`, and say whether it was built
    for that.

    Raises N001, N003, N012, and N024 where another user may change the cache.
    """
    with lent(cache, key(cupti), LIBRARY, lambda target: build(cupti, target), unwritten) as copy:
        yield copy


@contextmanager
def lent(
    cache: Path,
    key: str,
    name: str,
    build: Callable[[Path], None],
    unwritten: Callable[[Path, OSError], TurnbuckleError],
) -> Iterator[tuple[Path, bool]]:
    """Lend a private copy of a library that the cache keeps; programs load it by its path.

    Raises N024 where another user may change the cache; those of `build` and `unwritten`.

    The library is read once and compared with the digest of its build.  The copy holds the bytes
    that were read.

    Parameters
    ----------
    cache : the cache folder; the library is kept in its folder ``native/KEY``.
    unwritten : function that returns the error where the cache cannot be written.

    Yields
    ------
    The copy, which is removed at the end, and whether the library was built now.
    """
    folder = cache / "native" / key
    with ExitStack() as stack:
        try:
            private_folder.make(cache, "native", key)
            content = _kept(folder / name)
            if fresh := content is None:
                build(folder / name)
                (folder / name).chmod(0o600)
                content = (folder / name).read_bytes()
                private_folder.write(folder / _DIGEST, hashlib.sha256(content).hexdigest().encode())
            place = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="run-", dir=folder, ignore_cleanup_errors=True)
            )
            copy = Path(place) / name
            private_folder.write(copy, content or b"")
        except private_folder.Shared as shared:
            raise error_of(
                "N024.cache",
                where=str(shared.path),
                found=shared.why,
                path=shlex.quote(str(shared.path)),
            ) from None
        except OSError as error:
            raise unwritten(folder, error) from error
        yield copy, fresh


def _kept(library: Path) -> bytes | None:
    """Return the content of a cached library; None where it is missing, open to other users, or
    differs from its build.
    """
    with (
        suppress(OSError),
        private_folder.opened(library) as file,
        private_folder.opened(library.with_name(_DIGEST)) as digest,
    ):
        content = file.read()
        if hashlib.sha256(content).hexdigest().encode() == digest.read():
            return content
    return None


def carry(cupti: Cupti, folder: Path) -> list[Path]:
    """Write a recorder for another machine to `folder`, with CUPTI's library, which it looks for
    beside itself.

    Raises N001, N003, N012.
    """
    target = folder / LIBRARY
    build(cupti, target, run_path="$ORIGIN")
    beside = folder / _soname(cupti.library)
    try:
        shutil.copyfile(cupti.library, beside)
    except OSError as error:
        raise error_of(
            "N012.folder", where=str(folder), found=error.strerror or str(error)
        ) from error
    return [target, beside]


def _soname(library: Path) -> str:
    """Return the name that a program linked against a library asks for: ``libcupti.so.12`` of
    ``libcupti.so.2022.4.0`` and of itself.
    """
    text = library.read_bytes()
    names = sorted(set(re.findall(rb"libcupti\.so\.\d+(?:\.\d+)?(?=\0)", text)), key=len)
    return names[0].decode() if names else library.name
