"""Placeholders for names of host calls, which classify like the names."""

from __future__ import annotations

import re
from itertools import product
from typing import Final

from turnbuckle.profile.classify import call_class, waits
from turnbuckle.profile.dependencies.sides import _frees, scope_of

#: Calls of the CUDA runtime, of which each class, kind of wait and scope has at least one.
_RUNTIME: Final = (
    "other LaunchKernel GraphLaunch MemcpyAsync Memcpy MemsetAsync Malloc Free FreeAsync "
    "DeviceSynchronize "
    "StreamSynchronize EventSynchronize StreamWaitEvent EventRecord EventQuery StreamCreate "
    "ModuleLoad LaunchHostFunc"
)
_CALLS: Final = _RUNTIME.split()
_PARTS: Final = re.compile(r"[A-Z][a-z]+|[a-z]+")


def read_as(name: str) -> tuple[str, bool, bool, int, bool]:
    """Return what the rules read from a host call's name.

    These are its class, whether it waits, whether it frees, what it waits for, and whether it
    starts graphs.

    >>> read_as("cudaMemcpy")
    ('copy', True, False, 0, False)
    """
    return call_class(name), waits(name), _frees(name), scope_of(name), "GraphLaunch" in name


_STANDS: Final = {
    read_as("".join(pair)): "".join(pair)
    for pair in reversed([*((c,) for c in _CALLS), *product(_CALLS, _CALLS)])
}
_MORE: Final = (
    "Access Add Address Advise Alloc Array At Attribute Begin By Capture Capturing Complete Ctx "
    "Default Destroy Device Driver Elapsed "
    "End Entry Error Exec Func Function Get Graph Host Info Instantiate Is Kernel Last Library "
    "Link Map Max Mem Mode Occupancy Peek Peer "
    "Point Pool Prefetch Proc Query Register Release Set Symbol Unmap Value Write"
)
_WORDS: Final = frozenset(
    part for call in (*_CALLS, *_MORE.split()) for part in _PARTS.findall(call)
)


def stand_in(name: str) -> str:
    """Return a placeholder that classifies like the name and reveals nothing else.

    >>> stand_in("secretMemcpyOfModel"), stand_in("launch_secret")
    ('Memcpy', 'other')
    """
    wanted = read_as(name)
    placeholder = _STANDS.get(wanted)
    if placeholder is None:
        placeholder = "".join(part for part in _PARTS.findall(name) if part in _WORDS)
    return placeholder if read_as(placeholder) == wanted else "other"
