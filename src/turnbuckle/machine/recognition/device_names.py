"""Names of devices as profilers write them: the words that identify the device, and names that mean
a part of one.

The rule:

- Case, the order of words, blanks, hyphens, trademark marks, the maker's names and the generation
  of an SXM socket are ignored.
- ``VF`` is a virtual function of AMD's: it hands a whole device to a virtual machine, so that it
  means the device.
- ``MIG 1g.10gb`` is a slice of NVIDIA's: it has the device's link, and a part of its compute and
  memory.
- A vGPU of NVIDIA's (``A100-40C``) names its profile and not the board behind it: it means no
  device.
"""

from __future__ import annotations

import re
from typing import Final

_TRADEMARK: Final = re.compile(r"\((?:tm|r)\)|[™®]")
_SEPARATORS: Final = re.compile(r"[\s_-]+")
_MAKERS: Final = frozenset({"nvidia", "tesla", "amd", "instinct"})
_MAKER_FIRST: Final = re.compile(r"^(?:nvidia|tesla|amd|instinct)+")
_SXM: Final = re.compile(r"sxm\d")
_SLICE: Final = re.compile(r"\smig\s+\d+g\.\d+gb\S*$")


def device_words(name: str) -> tuple[str, ...]:
    """Return the words of a device's name that identify the device, in alphabetical order.

    >>> device_words("NVIDIA A100-SXM4-80GB"), device_words("A100 80GB SXM")
    (('80gb', 'a100', 'sxm'), ('80gb', 'a100', 'sxm'))
    >>> device_words("AMD Instinct(TM) MI300X VF"), device_words("NVIDIA A100-SXM4-40GB MIG 1g.5gb")
    (('mi300x',), ('40gb', 'a100', 'sxm'))
    """
    whole = _SLICE.sub("", _TRADEMARK.sub(" ", name[:200].casefold()).rstrip())
    words = [w for w in _SEPARATORS.split(whole) if w and w not in _MAKERS]
    if words[-1:] == ["vf"]:
        words.pop()
    return tuple(sorted("sxm" if _SXM.fullmatch(w) else w for w in words))


def squeezed(name: str) -> str:
    """Return a device's name as letters and digits alone, without the maker: profilers write some
    names without blanks.

    >>> squeezed("AMDInstinctMI300A"), squeezed("AMD Instinct MI300A"), squeezed("NVIDIA GeForce RTX 3090")
    ('mi300a', 'mi300a', 'geforcertx3090')
    """
    whole = _SLICE.sub("", _TRADEMARK.sub(" ", name[:200].casefold()).rstrip())
    letters = "".join(_SEPARATORS.split(whole)).removesuffix("accelerator")
    return _MAKER_FIRST.sub("", letters)


def is_slice(name: str) -> bool:
    """Return whether a device's name means a slice of a device.

    >>> is_slice("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me"), is_slice("NVIDIA H100 80GB HBM3")
    (True, False)
    """
    return _SLICE.search(name[:200].casefold().rstrip()) is not None
