"""Kernels of one kind: what their names say they compute, and how they were launched.

Names are matched against a table (``schema/kernels/names.csv``), first the function's own name,
then all of it with its template arguments.  A name that tells nothing is of the class ``other``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.foundation.schema import table_rows
from turnbuckle.profile.alike import alike
from turnbuckle.trace.trace import Trace

#: What holds a class up: arithmetic units of its precision, device memory, or no unit of its GPU
#: (it waits for others); empty is not known.
Bound = Literal["pipe", "memory", "none", ""]
#: Kinds of one run that are kept apart; the rest take the launch of the longest of their class and
#: precision.
MOST_KINDS: Final = 64
OTHER: Final = "other"
#: Class of kernels that move data between GPUs.
COLLECTIVE: Final = "collective"
#: Characters of a name that are looked at: a template's arguments can go on for pages.
_LONGEST: Final = 2000
#: Sides of the tile of the output that a block computes, as cuBLAS, cuDNN and CUTLASS name it.
_TILE: Final = re.compile(r"_(\d{2,3})x(\d{2,3})(?![\dx])")
_NAMELESS: Final = re.compile(r"\(anonymous namespace\)|<unnamed>|\{anonymous\}")


@dataclass(frozen=True)
class KernelKind:
    """Kernels that a price cannot tell apart.

    Attributes
    ----------
    name : class by name, ``matrix product`` or ``elementwise``; ``other`` where the name tells
        none.
    bound : what holds the class up.
    precision : ``fp64``, ``tf32``, ``bf16``, ...; empty where the name tells none.
    layout : ``tn`` or ``nn``, of a product of matrices; empty where the name tells none.
    tile : elements of the output that a block computes, of a product or convolution; 0 where the
        name tells none.
    seconds : their mean time [s]; 0 where it is not known.
    blocks, threads, registers, shared_bytes : thread blocks of a launch, threads a block, registers
        a thread, shared memory a block [B]; 0 where the recording does not state them.
    given : row of the user's table that gives their time elsewhere; -1 for none.
    """

    name: str = OTHER
    bound: Bound = ""
    precision: str = ""
    layout: str = ""
    tile: int = 0
    seconds: float = 0.0
    blocks: int = 0
    threads: int = 0
    registers: int = 0
    shared_bytes: int = 0
    given: int = -1

    @property
    def launched(self) -> bool:
        """Return whether the recording says how the kernels were launched."""
        return self.blocks > 0 and self.threads > 0


@dataclass(frozen=True)
class _Rule:
    what: str
    word: str
    pattern: re.Pattern[str]
    bound: Bound


@cache
def rules() -> tuple[_Rule, ...]:
    """Return the rows of ``schema/kernels/names.csv``; the first that matches wins."""
    return tuple(
        _Rule(row["what"], row["word"], re.compile(row["pattern"], re.IGNORECASE), row["bound"])  # type: ignore[arg-type]
        for row in table_rows("foundation/schema/kernels/names.csv")
    )


@lru_cache(maxsize=4096)
def kind_by_name(name: str) -> KernelKind:
    """Return class, bound and precision that the name of a kernel tells.

    >>> kind_by_name("void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >(int)").name
    'elementwise'
    >>> kind = kind_by_name("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_16x6_nt_align4>(Params)")
    >>> kind.name, kind.bound, kind.precision, kind.tile
    ('matrix product', 'pipe', 'tf32', 4096)
    >>> kind_by_name("k1").name
    'other'
    """
    text = _NAMELESS.sub("", name[:_LONGEST])
    stem = re.split(r"[<(]", text, maxsplit=1)[0]
    match = next(
        (
            rule
            for part in (stem, text)
            for rule in rules()
            if rule.what == "class" and rule.pattern.search(part)
        ),
        None,
    )
    precision, layout = (_word(what, text) for what in ("precision", "layout"))
    if match is None:
        return KernelKind(precision=precision)
    if match.bound != "pipe":
        return KernelKind(match.word, match.bound, precision)
    sides = _TILE.search(text)
    tile = int(sides[1]) * int(sides[2]) if sides else 0
    product = match.word == "matrix product"
    return KernelKind(match.word, match.bound, precision, layout if product else "", tile)


def _word(what: str, text: str) -> str:
    """Return the word of the first rule of a kind that matches; empty where none does."""
    return next(
        (rule.word for rule in rules() if rule.what == what and rule.pattern.search(text)), ""
    )


def between_gpus(name: str) -> bool:
    """Return whether a kernel moves data between GPUs and waits for them.

    >>> between_gpus("void vllm::cross_device_reduce_1stage<half, 2>(RankData*)"), between_gpus("void reduce_kernel<512>(float*)")
    (True, False)
    """
    return kind_by_name(name).name == COLLECTIVE


_LAUNCH: Final = ("blocks", "threads", "registers", "shared_bytes")


def kinds_of(
    trace: Trace, given: Callable[[str], int] | None = None
) -> tuple[list[KernelKind], NDArray[np.int32]]:
    """Return the kinds of a run's kernels, and the kind of each row of ``trace.kernels``.

    Parameters
    ----------
    given : row of the user's table for a kernel's name; -1 where it has none.
    """
    kernels = trace.kernels
    if not kernels.height:
        return [], np.zeros(0, dtype=np.int32)
    heads: list[tuple[KernelKind, int]] = []
    head_of: dict[tuple[KernelKind, int], int] = {}
    of_name = np.zeros(len(trace.names) + 1, dtype=np.int32)
    for index in [*kernels["name"].drop_nulls().unique().to_list(), len(trace.names)]:
        text = "" if index == len(trace.names) else trace.names[index] or ""
        by_name = (kind_by_name(text), given(text) if given else -1)
        if by_name not in head_of:
            head_of[by_name] = len(heads)
            heads.append(by_name)
        of_name[index] = head_of[by_name]
    head_of_row = of_name[kernels["name"].fill_null(len(trace.names)).to_numpy()]
    launched = [kernels[c].fill_null(0).cast(pl.Int64).clip(0).to_numpy() for c in _LAUNCH]
    group, place = alike(head_of_row, *launched)
    ns = np.bincount(
        group, weights=(kernels["end_ns"] - kernels["start_ns"]).to_numpy(), minlength=len(place)
    )
    mean = ns / np.maximum(np.bincount(group, minlength=len(place)), 1) * 1e-9
    longest = np.argsort(-ns, kind="stable")
    kinds: list[KernelKind] = []
    number: list[int] = []
    first: dict[int, int] = {}
    for row_of_group, seconds in zip(place[longest].tolist(), mean[longest].tolist(), strict=True):
        head = int(head_of_row[row_of_group])
        blocks, threads, registers, shared_bytes = (
            int(column[row_of_group]) for column in launched
        )
        if len(kinds) < MOST_KINDS or head not in first:
            of, row = heads[head]
            told = replace(of, seconds=seconds, given=row, blocks=blocks, threads=threads)
            kinds.append(replace(told, registers=registers, shared_bytes=shared_bytes))
            first.setdefault(head, len(kinds) - 1)
            number.append(len(kinds) - 1)
        else:
            number.append(first[head])
    kind_of_group = np.empty(len(place), dtype=np.int32)
    kind_of_group[longest] = number
    return kinds, kind_of_group[group]
