"""CUDA driver of this machine, and number of its devices, queried in a separate process that ends
with the answer.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import Final

from turnbuckle.foundation.errors import clipped, error_of

#: What loads a library into every program that uses CUDA; not into one that only asks.
INJECTION: Final = "CUDA_INJECTION64_PATH"
_LIMIT_SECONDS: Final = 120
_ASK: Final = """
import ctypes
try:
    driver = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    print("none", error)
else:
    version, devices = ctypes.c_int(), ctypes.c_int()
    result = driver.cuInit(0)
    driver.cuDriverGetVersion(ctypes.byref(version))
    if not result:
        result = driver.cuDeviceGetCount(ctypes.byref(devices))
    print("driver", result, version.value, devices.value)
"""
_RESULTS: Final = {
    3: "the driver is being shut down",
    34: "the driver is a stub of the toolkit",
    46: "the device is in use by another process alone",
    100: "no device",
    101: "invalid device",
    802: "the system is not ready (fabric manager)",
    803: "driver and kernel module do not fit",
    804: "forward compatibility is not supported on this device",
    999: "an unknown error; the kernel module may not be loaded",
}


@dataclass(frozen=True)
class Driver:
    """Version that cuDriverGetVersion returns (13000 is CUDA 13.0), and number of devices."""

    version: int
    devices: int


def present() -> Driver:
    """Return the driver of this machine.

    Raises
    ------
    CannotAnswer : A180, there is no driver; A181, it has no device, or does not start.
    """
    env = {name: value for name, value in os.environ.items() if name != INJECTION}
    try:
        words = [sys.executable, "-I", "-c", _ASK]
        done = subprocess.run(
            words,
            env=env,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_SECONDS,
            check=False,
        )
        output, code = done.stdout, done.returncode
    except subprocess.TimeoutExpired:
        output, code = "", None
    if output.startswith("none"):
        raise error_of("A180", found=clipped(output[5:].strip(), 160))
    match = re.search(r"^driver (-?\d{1,9}) (-?\d{1,9}) (-?\d{1,9})$", output, re.MULTILINE)
    result, version, devices = (int(number) for number in match.groups()) if match else (-1, 0, 0)
    if result == 0 and devices > 0:
        return Driver(version, devices)
    if match:
        why = (
            f"cuInit says {result}: {_RESULTS.get(result, 'see the CUDA driver manual')}"
            if result
            else "the driver sees no device"
        )
    else:
        why = (
            "cuInit does not return"
            if code is None
            else f"cuInit ended the process that called it ({code})"
        )
    raise error_of("A181", found=why)
