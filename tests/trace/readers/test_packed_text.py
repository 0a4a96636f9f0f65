"""Packed texts: what lies behind the last member is padding, or a hole that is refused before it is
read to its end.
"""

from __future__ import annotations

import gzip
import lzma
from collections import deque
from collections.abc import Callable
from itertools import chain, repeat
from pathlib import Path

import pytest

from turnbuckle.foundation.errors import ProfileError
from turnbuckle.trace.readers.parts.packed_text import unpacked

TEXT = b"one line\n" * 1000


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_padding_is_read_and_a_hole_is_not(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "run.trace"
    sound = pack(TEXT) * 2
    assert b"".join(unpacked(iter([sound, bytes(1 << 20)]), path)) == TEXT * 2
    with pytest.raises(ProfileError, match="P025"):
        deque(unpacked(chain([sound], repeat(bytes(1 << 20))), path), maxlen=0)
