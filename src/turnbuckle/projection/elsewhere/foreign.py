"""Charges and predictors of third parties, held to what ours keep: a time for each activity, a
ratio for each kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from turnbuckle.foundation.arrays import Bool, Float
from turnbuckle.foundation.errors import TurnbuckleError, clipped, error_of
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.foundation.registry import WORK_SECONDS, Entry, faults
from turnbuckle.machine.parameter_names import found_parameter
from turnbuckle.profile.pieces import Pieces

if TYPE_CHECKING:
    import polars as pl

    from turnbuckle.machine import Machine
    from turnbuckle.projection.model import Charge, Priced

#: Rows that a predictor may give beyond one for each kernel: of names that the recording lacks.
_MORE_ROWS = 10_000


def held_charge(entry: Entry, kind: type[Charge], words: Sequence[Any]) -> Charge:
    """Return a third party's charge whose masks and prices are checked each time.  Raises A503
    where it is none.

    Parameters
    ----------
    kind, words : its class, and the types of its anchor and of where it falls.
    """
    charge = entry.load()
    if not isinstance(charge, kind):
        raise entry.fault(
            "A503.type", found=type(charge).__name__, wanted="a turnbuckle.projection.model.Charge"
        )
    anchors, places = (get_args(word) for word in words)
    if charge.anchor not in anchors or charge.falls not in places:
        raise entry.fault(
            "A503.type",
            wanted=f"the anchor is one of {', '.join(anchors)}",
            found=repr(charge.anchor),
        )
    if unknown := [
        name for name in (*charge.needs, *charge.kept) if found_parameter(str(name)) is None
    ]:
        raise entry.fault(
            "A503.type", wanted="it needs parameters of machines", found=str(unknown[0])
        )

    def masked(selects: Callable[[Pieces], Bool]) -> Callable[[Pieces], Bool]:
        def covers(pieces: Pieces) -> Bool:
            mask = np.asarray(entry.call(lambda: selects(pieces), WORK_SECONDS))
            if mask.shape != (len(pieces),) or mask.dtype != np.bool_:
                raise _no_time(
                    charge, entry, f"its mask has the shape {mask.shape} and the type {mask.dtype}"
                )
            return mask

        return covers

    covers = masked(charge.covers)
    replayed = None if charge.replayed is None else masked(charge.replayed)

    def seconds(pieces: Pieces, machine: Priced, source: Priced) -> Float | None:
        price = entry.call(lambda: charge.seconds(pieces, machine, source), WORK_SECONDS)
        counts = [int(pieces.rows(mask).sum()) for mask in (covers, replayed) if mask is not None]
        return None if price is None else _times(price, counts, charge, entry)

    return replace(charge, covers=covers, replayed=replayed, seconds=seconds)


def _times(price: object, counts: list[int], charge: Charge, entry: Entry) -> Float:
    """Return prices as an array whose last axis fits so many activities.  Raises A505."""
    try:
        times: Float = np.asarray(price, dtype=np.float64)
    except (TypeError, ValueError):
        raise _no_time(
            charge, entry, f"a {type(price).__name__} in place of an array of numbers"
        ) from None
    for count in counts:
        if times.ndim and times.shape[-1] not in (1, count):
            raise _no_time(charge, entry, f"{times.shape[-1]} times for {count} activities")
    wrong = times[~(np.isfinite(times) & (times >= 0))]
    if wrong.size:
        raise _no_time(charge, entry, f"{wrong.flat[0]} s")
    return times


def _no_time(charge: Charge, entry: Entry, problem: str) -> TurnbuckleError:
    return error_of(
        "A505",
        where=entry.place,
        name=clipped(str(charge.name)),
        package=clipped(entry.package),
        problem=problem,
    )


def held_predictor(
    entry: Entry,
) -> Callable[[pl.DataFrame, Machine, Machine], list[tuple[str, float, float]]]:
    """Return a third party's predictor that gives its rows as a list: name, ratio, error.  Raises
    A503 where it gives something else.
    """
    predict = entry.load()

    def predicted(
        kernels: pl.DataFrame, source: Machine, target: Machine
    ) -> list[tuple[str, float, float]]:
        most = kernels.height + _MORE_ROWS
        rows = entry.call(
            lambda: list(islice(predict(kernels, source, target), most + 1)), WORK_SECONDS
        )
        if len(rows) > most:
            raise entry.fault("A503.endless")
        try:
            return [(str(name), float(ratio), float(error)) for name, ratio, error in rows]
        except (TypeError, ValueError) as error:
            raise entry.fault(
                "A503.type", found=str(error), wanted="rows of a name, a ratio and its error"
            ) from None

    return predicted


def failed_packages() -> list[Finding]:
    """Return P243 where installed packages of third parties were to help and failed."""
    failed = faults()
    return [finding("P243", len(failed), clipped("; ".join(failed), 400))] if failed else []
