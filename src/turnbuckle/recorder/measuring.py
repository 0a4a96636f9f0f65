"""Measurement of the GPU of this machine: the build of the measuring program, its sections, and the
lines that it writes.

The program needs the driver and a C compiler; no CUDA toolkit, PyTorch or CuPy.  It changes no
setting of the device.

Errors: A185, N020, A186, N021, A187, N022, A414, N023, N024.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from turnbuckle.foundation import private_folder
from turnbuckle.foundation.errors import CannotAnswer, NativeError, clipped, did_you_mean, error_of
from turnbuckle.machine.driver import present
from turnbuckle.recorder.toolchain import compiler, native

#: Options of the compiler.
OPTIONS: Final = ("-O2", "-std=gnu11")
#: Sections in order of importance, with the time limit of each [s]; `managed` is optional.
_MINUTE: Final = (
    "sync",
    "host",
    "threshold",
    "alloc",
    "event",
    "concurrent",
    "contention",
    "peer",
    "managed",
)
SECTIONS: Final = {
    "launch": 90,
    "copy": 150,
    "gap": 90,
    "device": 90,
    "slack": 120,
    **dict.fromkeys(_MINUTE, 60),
}
QUICK_SECONDS: Final = 15
#: Time beyond the limit of a section, for its start and its last repetition [s].
GRACE: Final = 20
#: Time that a killed program may take to end [s].
ENDING: Final = 5
_NO_DRIVER, _NO_DEVICE, _OLD_DRIVER = 5, 6, 7


def measure(
    place: Path,
    *,
    quick: bool = False,
    managed: bool = False,
    only: Sequence[str] | None = None,
    says: Callable[[str], None] | None = None,
) -> list[str]:
    """Run the sections and write the line of each to `place` when it is complete.

    Raises A185, A186, A187 where no usable device is present; N020 to N024; A414.

    Returns sections that failed or ran out of time, each with its message.
    """
    wanted = list(only) if only else [s for s in SECTIONS if s != "managed" or managed]
    if unknown := [s for s in wanted if s not in SECTIONS]:
        raise error_of(
            "A414",
            where="--only",
            found=clipped(unknown[0]),
            fix=did_you_mean(unknown[0], SECTIONS) or None,
            sections=", ".join(SECTIONS),
        )
    _driver()
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="turnbuckle-") as folder:
        try:
            private_folder.look(Path(folder))
        except private_folder.Shared as shared:
            raise error_of("N024.temporary", where=str(shared.path), found=shared.why) from None
        program = build(Path(folder))
        _probe(program)
        try:
            with place.open("w", encoding="utf-8") as out:
                for k, section in enumerate(wanted, 1):
                    if says is not None:
                        says(f"measuring {section} ({k} of {len(wanted)})")
                    line, message = _section(program, section, quick)
                    if line:
                        out.write(line + "\n")
                        out.flush()
                    else:
                        failed.append(f"{section}: {message}")
        except OSError as error:
            raise error_of("N023", where=place.name, found=error.strerror or "") from error
    if len(failed) == len(wanted):
        raise error_of("N022", found=clipped("; ".join(failed), 300))
    return failed


def _driver() -> None:
    """Refuse a machine without a driver (A185) or without a device (A186)."""
    try:
        present()
    except CannotAnswer as error:
        if error.code == "A180":
            raise error_of("A185", found=error.found) from None
        raise error_of("A186", found=error.found) from None


def build(folder: Path) -> Path:
    """Compile the measuring program.  Raise N020, N021."""
    try:
        words = compiler()
    except NativeError as error:
        raise error_of("N020", found=error.found) from None
    program = folder / "microbench"
    command = [
        *words,
        *OPTIONS,
        str(native() / "microbench" / "microbench.c"),
        "-o",
        str(program),
        "-ldl",
        "-lpthread",
        "-lm",
    ]
    try:
        made = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=120, check=False
        )
        message, code = made.stderr.strip(), made.returncode
    except (OSError, subprocess.TimeoutExpired) as failure:
        message, code = str(failure), -1
    if code != 0 or not program.exists():
        raise error_of("N021", where=Path(words[0]).name, found=clipped(message, 200))
    return program


def _probe(program: Path) -> None:
    code, _, message = _run([str(program), "probe"], 60)
    if code in (_NO_DRIVER, _NO_DEVICE):
        raise error_of("A186", found=clipped(message, 120))
    if code == _OLD_DRIVER:
        raise error_of("A187", found=clipped(message, 120))


def _section(program: Path, section: str, quick: bool) -> tuple[str, str]:
    """Return the line of one section and an empty message, or an empty line and the message of its
    failure.
    """
    seconds = min(SECTIONS[section], QUICK_SECONDS) if quick else SECTIONS[section]
    code, out, message = _run(
        [str(program), section, f"quick={int(quick)}", f"seconds={seconds}"], seconds + GRACE
    )
    if code is None:
        return "", f"no end within {seconds + GRACE} s"
    if code != 0:
        return "", f"exit {code}: {clipped(message, 80)}"
    try:
        json.loads(out)
    except ValueError:
        return "", "its line is no JSON"
    return out.strip(), ""


def _run(command: list[str], seconds: float) -> tuple[int | None, str, str]:
    """Return exit code (None: out of time), output, and the last line of the error output."""
    try:
        started = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
        )
    except OSError as error:
        return 126, "", error.strerror or type(error).__name__
    try:
        out, errors = started.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        started.kill()
        # a process inside a driver call ends only when the driver returns
        with contextlib.suppress(subprocess.TimeoutExpired):
            started.communicate(timeout=ENDING)
        return None, "", ""
    except BaseException:
        started.kill()
        raise
    return started.returncode, out, errors.strip().rpartition("\n")[2]
