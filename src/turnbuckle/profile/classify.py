"""Names to kinds: what a host call is for, and which share of run time it can hold.

The rules are a plain list, first match wins, tried on the call's name without its version suffix.  They cover the CUDA
runtime and driver; HIP names follow the same words.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import polars as pl

from turnbuckle.schema import words

KINDS: Final = words("kinds")
CATEGORIES: Final = words("categories")
CALL_CLASSES: Final = words("call_classes")

KIND = {word: code for code, word in enumerate(KINDS)}
CATEGORY = {word: code for code, word in enumerate(CATEGORIES)}
CALL_CLASS = {word: code for code, word in enumerate(CALL_CLASSES)}

#: (pattern, call class), first match wins.
RULES: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern), word)
    for pattern, word in (
        (r"StreamWaitEvent|StreamWaitValue|StreamWriteValue|EventRecord|EventCreate|EventDestroy|EventElapsed", "event"),
        (r"LaunchHostFunc|GetProcAddress|GetDriverEntryPoint|GetFuncBySymbol", "other"),
        (r"Synchronize|CtxSync", "sync"),
        (
            r"Query|MemGetInfo|MemPoolGetAttribute|DefaultMemPool|GetLastError|PeekAtLastError|IsCapturing|GetCaptureInfo|GetAttribute|GetDevice|SetDevice|OccupancyMax",
            "query",
        ),
        (r"Graph(Instantiate|Create|Destroy|Add|Exec|Kernel|Memcpy|Memset)|Stream(Create|Destroy|Begin|End)|StreamCaptureMode", "stream"),
        (r"Launch", "launch"),
        (r"Memcpy|MemcpyPeer|MemPrefetch", "copy"),
        (r"Memset", "memset"),
        (
            r"Malloc|Free|HostAlloc|Host(Un)?[Rr]egister|Mem(Alloc|Free|Host|Create|Release|Map|Unmap|Address|Pool|SetAccess|Advise)|Array(3D)?Create",
            "alloc",
        ),
        (r"Module|Library|Kernel|Function|FuncGet|FuncSet|Link(Create|Add|Complete)", "module"),
    )
)

#: Which kind of activity a class of call is.
KIND_OF_CLASS: Final = {"launch": "launch", "alloc": "alloc", "sync": "sync"}

#: Classes whose call crosses from host to device, so that added distance is added to it .
BOUNDARY_CLASSES: Final = ("launch", "copy", "memset", "sync", "alloc", "event")


def call_class(name: str) -> str:
    """Class of one host call.

    >>> [call_class(n) for n in ("cudaLaunchKernel", "cudaMemcpyAsync", "cudaStreamSynchronize", "cuMemAlloc", "cudaGetDeviceCount")]
    ['launch', 'copy', 'sync', 'alloc', 'query']
    """
    return next((word for pattern, word in RULES if pattern.search(name)), "other")


def call_classes(name: pl.Series, names: pl.Series) -> np.ndarray:
    """Class code of every call: `name` holds indices into `names`; int8 array of the same length, 9 (other) where the name is missing."""
    code_of_name = np.full(len(names) + 1, CALL_CLASS["other"], dtype=np.int8)
    for index in name.drop_nulls().unique().to_list():
        code_of_name[index] = CALL_CLASS[call_class(names[index] or "")]
    codes: np.ndarray = code_of_name[name.fill_null(len(names)).to_numpy()]
    return codes
