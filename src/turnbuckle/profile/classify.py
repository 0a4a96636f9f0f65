"""Classes of host calls by their names.

The rules are a plain list, of which the first match on the call's name without its version suffix
decides.  They cover the CUDA runtime and driver; HIP names follow the same words.  OpenCL's rules
come first.  Whether a call of OpenCL blocks is an argument, which the recorder writes behind the
name: ``clEnqueueReadBuffer (blocking)``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.foundation.arrays import Bool, filled
from turnbuckle.foundation.schema import table_rows, words

KINDS: Final = words("kinds")
CATEGORIES: Final = words("categories")
CALL_CLASSES: Final = words("call_classes")

KIND = {word: code for code, word in enumerate(KINDS)}
CATEGORY = {word: code for code, word in enumerate(CATEGORIES)}
CALL_CLASS = {word: code for code, word in enumerate(CALL_CLASSES)}

#: (pattern, call class), first match wins.
RULES: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(row["pattern"]), row["class"]) for row in table_rows("profile/call_classes.csv")
)

#: Which kind of activity a class of call is; a call that `waits` is of kind sync whatever its
#: class.
KIND_OF_CLASS: Final = {"launch": "launch", "alloc": "alloc", "sync": "sync"}

#: Classes whose call crosses from host to device, so that added distance is added to it .
BOUNDARY_CLASSES: Final = ("launch", "copy", "memset", "sync", "alloc", "event")


@lru_cache(maxsize=4096)
def call_class(name: str) -> str:
    """Return the class of one host call.

    >>> [call_class(n) for n in ("cudaLaunchKernel", "cudaMemcpyAsync", "cudaStreamSynchronize", "cuMemAlloc", "cudaGetDeviceCount")]
    ['launch', 'copy', 'sync', 'alloc', 'query']
    >>> [call_class(n) for n in ("clEnqueueNDRangeKernel", "clEnqueueReadBuffer (blocking)", "clFinish", "clFlush")]
    ['launch', 'copy', 'sync', 'other']
    """
    return next((word for pattern, word in RULES if pattern.search(name)), "other")


def opencl(name: str) -> bool:
    """Return whether a call belongs to OpenCL.

    >>> [opencl(n) for n in ("clFinish", "cudaFree", "close")]
    [True, False, False]
    """
    return name.startswith("cl") and name[2:3].isupper()


def waits(name: str) -> bool:
    """Return whether a host call waits for device work by its nature: synchronisation, or a copy
    that blocks until it is done.

    >>> [waits(n) for n in ("cudaDeviceSynchronize", "cudaMemcpy", "cuMemcpyDtoH_v2", "cudaMemcpyAsync", "cudaMemset", "cudaFree")]
    [True, True, True, False, False, False]
    >>> [waits(n) for n in ("clWaitForEvents", "clEnqueueReadBuffer (blocking)", "clEnqueueReadBuffer")]
    [True, True, False]
    """
    word = call_class(name)
    if opencl(name):
        return word == "sync" or name.endswith(" (blocking)")
    return word == "sync" or (word == "copy" and not re.search(r"Async|Prefetch", name))


def call_classes(name: pl.Series, names: pl.Series) -> np.ndarray:
    """Return the class code of every call, int8: `name` holds indices into `names`; 9 (other) where
    the name is missing.
    """
    return by_name(name, names, lambda text: CALL_CLASS[call_class(text)], CALL_CLASS["other"])


def calls_wait(name: pl.Series, names: pl.Series) -> Bool:
    """Return whether each call `waits`: `name` holds indices into `names`; False where the name is
    missing.
    """
    return by_name(name, names, waits, False)


def by_name(
    name: pl.Series, names: pl.Series, rule: Callable[[str], int | bool], missing: int | bool
) -> NDArray[Any]:
    """Evaluate `rule` once per distinct name and return the value for each call; `missing` where it
    has no name.
    """
    of_name: NDArray[Any] = np.full(
        len(names) + 1, missing, dtype=np.bool_ if isinstance(missing, bool) else np.int8
    )
    index = filled(name, len(names))
    for place in np.flatnonzero(np.bincount(index, minlength=len(names) + 1)[:-1]).tolist():
        of_name[place] = rule(names[place] or "")
    values: NDArray[Any] = of_name[index]
    return values
