"""The copy of a run that can be handed on, written into a folder."""

from __future__ import annotations

import secrets as random
from pathlib import Path
from typing import Any, Final

import polars as pl

from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.foundation.files import whole_folder
from turnbuckle.projection.run import Run
from turnbuckle.questions.anonymise.question import anonymise, kept_kernels, treated_rows
from turnbuckle.questions.anonymise.stand_in import stand_in

_LONGEST_PATTERN: Final = 1000


def check_pattern(keep: str | None) -> None:
    """Raise A402 where the text is no regular expression."""
    if keep is None:
        return
    try:
        if len(keep) > _LONGEST_PATTERN:
            raise ValueError(f"{len(keep)} letters, of at most {_LONGEST_PATTERN}")
        kept_kernels(pl.Series([""]), keep)
    except ValueError as error:
        raise error_of("A402", where="--keep", found=f"{clipped(keep)}: {clipped(str(error), 100)}") from None


def of_run(run: Run, folder: str | Path, key: bytes | None = None, keep: str | None = None) -> list[dict[str, Any]]:
    """Write a run's copy into a new or empty folder, and return what was kept, hashed and dropped; `Run.anonymise`."""
    check_pattern(keep)
    copy, treated = anonymise(run.trace, random.token_bytes(32) if key is None else key, stand_in=stand_in, keep=keep)
    with whole_folder(folder, "the copy") as draft:
        copy.to_parquet(draft)
    return treated_rows(treated, originals=False)
