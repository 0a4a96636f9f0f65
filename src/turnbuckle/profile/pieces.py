"""Groups of activities that have the same price.

The order of equal activities does not change a sum.  So `Pieces` holds one row for every distinct
combination of all facts that a cost can depend on (kind, class of call, direction, memory, idle
device, exact size), with counts and totals.  Sizes are not binned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.foundation.arrays import Bool, Float, Int, Text
from turnbuckle.profile.alike import alike
from turnbuckle.profile.classify import BOUNDARY_CLASSES
from turnbuckle.profile.kernels import KernelKind, kinds_of
from turnbuckle.profile.profile import DIRECTIONS, MEMORIES, Profile

#: Stands for the memory of copies whose size is not recorded: no machine's link tells how long they
#: would take.
UNSIZED: Final = "unsized"
#: Kinds whose size tells pieces apart.
_SIZED: Final = ("copy_h2d", "copy_d2h", "copy_d2d", "copy_p2p", "copy_h2h", "migration")
#: A launch so many times as long as nearly all launches is a one-off, and the share that nearly all
#: are.
_FAR: Final = 10.0
_NEARLY_ALL: Final = 0.95
#: Stands for what is not recorded among codes, which start at 0.
_NONE: Final = -1


@dataclass(frozen=True)
class Pieces:
    """Groups of equal activities, one row for each combination; all arrays have the same length.

    Attributes
    ----------
    kind, category, call_class, direction, memory : words (``schema/codes.csv``); empty where they
        do not apply.  A call has the direction of the copy it started.  The memory of a copy whose
        size is not recorded is `UNSIZED`.
    idle_device : mask of the launches that found their device idle.
    size_bytes : size of each activity [B]; 0 where it has none.
    count : number of activities.
    seconds : sum of their durations [s].
    exposed_seconds : sum of their shares of the run's time line [s]; all rows add up to the run
        time.
    tail_count : number of activities whose last instant is exposed.
    kernel : `KernelKind` of kernels, None for everything else.
    """

    kind: Text
    category: Text
    call_class: Text
    direction: Text
    memory: Text
    idle_device: Bool
    size_bytes: Float
    count: Float
    seconds: Float
    exposed_seconds: Float
    tail_count: Float
    kernel: NDArray[np.object_]

    def rows(self, covers: Callable[[Pieces], Bool]) -> Bool:
        """Return the mask of pieces that a function selects, computed once for as long as the
        function lives; not to be changed.
        """
        mask = self._masks.get(covers)
        if mask is None:
            mask = self._masks[covers] = covers(self)
        return mask

    @cached_property
    def _masks(self) -> WeakKeyDictionary[Callable[[Pieces], Bool], Bool]:
        return WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self.kind)

    def of(self, rows: Bool) -> Pieces:
        """Return some of the pieces."""
        return Pieces(**{name: getattr(self, name)[rows] for name in Pieces.__dataclass_fields__})

    @cached_property
    def one_off(self) -> Bool:
        """Return a mask of the launches that are far longer than launches are: they load code, and
        no price of a launch scales them.
        """
        launches = self.kind == "launch"
        if not launches.any():
            return np.asarray(launches)
        mean = np.divide(self.seconds, self.count, out=np.zeros(len(self)), where=self.count > 0)
        count = np.where(launches, self.count, 0.0)
        few = count <= max((1.0 - _NEARLY_ALL) * count.sum(), 1.0)
        usual = mean[launches & (count == count.max())].min()
        return np.asarray(launches & few & (mean > _FAR * usual))

    @cached_property
    def crosses(self) -> Bool:
        """Return a mask of the host calls that cross to the device."""
        return np.isin(self.call_class, BOUNDARY_CLASSES)


def pieces(profile: Profile) -> Pieces:
    """Group the activities of a profile by all facts that a cost depends on."""
    return grouped(profile)[0]


def grouped(
    profile: Profile, given: Callable[[str], int] | None = None
) -> tuple[Pieces, NDArray[np.int32]]:
    """Return the pieces of a profile, and per row of its activities the piece it belongs to;
    `given` as `kinds_of` has it.
    """
    kinds, of_row = kinds_of(profile.trace, given)
    # a graph recorded as one has a row in another table, and no name
    kernels = (profile.activities["kind"] == "kernel") & profile.activities["name"].is_not_null()
    if not profile.trace.graphs.height:
        kernels = profile.activities["kind"] == "kernel"
    of = np.full(profile.activities.height, -1, dtype=np.int32)
    of[kernels.to_numpy()] = of_row[profile.activities["row"].filter(kernels).to_numpy()]
    copied = _copied(profile)
    number, first = alike(*_keys(profile.activities, copied, of), _one_offs(profile.activities))
    sized = pl.col("kind").is_in(_SIZED)
    directions = pl.Series([*DIRECTIONS, None], dtype=profile.activities["direction"].dtype)
    rows = profile.activities[first].with_columns(
        direction=pl.coalesce("direction", directions.gather(copied[first])),
        kernel=pl.Series(of[first]),
        size_bytes=pl.when(sized).then("size_bytes"),
        memory=pl.when(sized & pl.col("size_bytes").is_null())
        .then(pl.lit(UNSIZED))
        .when(sized)
        .then(pl.col("memory").cast(pl.String).fill_null("unknown")),
    )
    reach = profile.activities.select(
        pl.max_horizontal("end_ns", "delivered_ns") - pl.col("start_ns")
    ).to_series()

    def total(column: pl.Series) -> Float:
        # whole numbers below 2^53 add up exactly
        return np.bincount(number, weights=column.to_numpy(), minlength=len(first)).astype(
            np.float64
        )

    activities, count = (
        profile.activities,
        np.bincount(number, minlength=len(first)).astype(np.float64),
    )
    times: dict[str, Any] = {
        "seconds": total(reach) * 1e-9,
        "exposed_seconds": total(activities["exposed_ns"]) * 1e-9,
    }
    groups = Pieces(
        **described(rows, kinds), count=count, **times, tail_count=total(activities["tail_exposed"])
    )
    return groups, number.astype(np.int32)


def thinned(run: Pieces, most: int) -> Pieces:
    """Merge pieces of one class whose sizes lie in one eighth of an octave, where there are more
    than `most` pieces.

    Sums are kept; the size is the mean, weighted by time.
    """
    if len(run) <= most:
        return run
    fine = np.round(np.log2(np.maximum(run.size_bytes, 1.0)) * 8).astype(int)
    words = (
        run.kind,
        run.category,
        run.call_class,
        run.direction,
        run.memory,
        run.idle_device,
        run.one_off,
    )
    keys = [*zip(*words, run.kernel, fine, strict=True)]
    index = {k: i for i, k in enumerate(dict.fromkeys(keys))}
    group = np.array([index[k] for k in keys])
    first = np.full(len(index), -1)
    first[group[::-1]] = np.arange(len(run))[::-1]

    def total(values: Float) -> Float:
        return np.bincount(group, weights=values, minlength=len(index)).astype(np.float64)

    weight = run.seconds + 1e-30
    return Pieces(
        kind=run.kind[first],
        category=run.category[first],
        call_class=run.call_class[first],
        direction=run.direction[first],
        memory=run.memory[first],
        idle_device=run.idle_device[first],
        size_bytes=total(run.size_bytes * weight) / total(weight),
        count=total(run.count),
        seconds=total(run.seconds),
        exposed_seconds=total(run.exposed_seconds),
        tail_count=total(run.tail_count),
        kernel=run.kernel[first],
    )


def _keys(
    activities: pl.DataFrame, copied: NDArray[np.int8], kernel: NDArray[np.int32]
) -> list[Int]:
    """Return integer columns that are equal where two activities are of one piece."""
    names = ("kind", "category", "call_class", "direction", "memory", "idle_device", "size_bytes")
    codes = activities.select(
        pl.col(names).to_physical().cast(pl.Int64).fill_null(_NONE),
        has_size=pl.col("size_bytes").is_not_null(),
    )
    kind, category, call_class, direction, memory, idle, size, has_size = (
        codes[c].to_numpy() for c in codes.columns
    )
    sized = np.isin(
        kind,
        [activities["kind"].dtype.categories.to_list().index(word) for word in _SIZED],  # type: ignore[attr-defined]
    )
    # of copies a memory that is not recorded is unknown, and none counts where the size is not
    # recorded
    memory = np.where(memory == _NONE, MEMORIES.index("unknown"), memory)
    memory = np.where(sized & has_size, memory, _NONE)
    narrow = kind
    # columns of few values as the digits of one number
    parts = (category, call_class, np.where(direction == _NONE, copied, direction), memory, idle)
    for part in parts:
        narrow = (narrow << 8) | (part - _NONE)
    return [narrow, np.where(sized, size, _NONE), kernel.astype(np.int64)]


def _one_offs(activities: pl.DataFrame) -> Int:
    """Return 1 for each launch whose call is far longer than nearly all launches, by their own
    quantile; 0 for all else.
    """
    launches = np.flatnonzero((activities["kind"] == "launch").fill_null(False).to_numpy())
    out = np.zeros(activities.height, dtype=np.int64)
    if len(launches):
        length = (activities["end_ns"] - activities["start_ns"]).to_numpy()[launches]
        out[launches] = length > _FAR * np.quantile(length, _NEARLY_ALL, method="lower")
    return out


def _copied(profile: Profile) -> NDArray[np.int8]:
    """Return the direction of the first copy that each activity started, as its code; the number of
    codes where it started none.
    """
    trace, activities = profile.trace, profile.activities
    if not trace.copies.height:
        return np.full(activities.height, len(DIRECTIONS), dtype=np.int8)
    pairs = trace.launch_pairs.filter(pl.col("table") == "copies").unique(
        "api_row", keep="first", maintain_order=True
    )
    direction = np.full(trace.api.height, len(DIRECTIONS), dtype=np.int8)
    direction[pairs["api_row"].to_numpy()] = trace.copies["direction"].to_numpy()[
        pairs["row"].to_numpy()
    ]
    called = (activities["category"] == "api").fill_null(False) & activities["row"].is_not_null()
    of = np.full(activities.height, len(DIRECTIONS), dtype=np.int8)
    of[called.to_numpy()] = direction[activities["row"].filter(called).to_numpy()]
    return of


def described(rows: pl.DataFrame, kinds: Sequence[KernelKind] = ()) -> dict[str, Any]:
    """Return the columns of `Pieces` that say what each row is, from columns of the same names; of
    `kernel`, the number of its kind.
    """
    has_kernels = "kernel" in rows.columns
    words = ("kind", "category", "call_class", "direction", "memory")
    return {
        **{
            name: np.asarray(rows[name].cast(pl.String).fill_null("").to_list(), dtype=object)
            for name in words
        },
        "idle_device": rows["idle_device"].fill_null(False).to_numpy(),
        "size_bytes": rows["size_bytes"].cast(pl.Float64).fill_null(0.0).to_numpy(),
        "kernel": objects(
            [kinds[k] if k >= 0 else None for k in rows["kernel"].to_list()]
            if has_kernels
            else [None] * rows.height
        ),
    }


def objects(values: Sequence[Any]) -> NDArray[np.object_]:
    """Return values of any kind as an array, shape (values,)."""
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out
