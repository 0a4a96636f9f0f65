"""The copy of a run that can be handed on, written into a folder."""

from __future__ import annotations

import secrets as random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import polars as pl

from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.foundation.files import whole_folder
from turnbuckle.foundation.findings import Finding, merge
from turnbuckle.projection.answers.shown import Shown
from turnbuckle.projection.run import Run
from turnbuckle.questions.anonymise.question import Treated, anonymise, kept_kernels, treated_rows
from turnbuckle.questions.anonymise.stand_in import stand_in
from turnbuckle.trace.secrets import Secrets
from turnbuckle.trace.trace import Trace

_LONGEST_PATTERN: Final = 1000


@dataclass(frozen=True, repr=False)
class Anonymised(Shown):
    """Copy of a recording, and how it treats each kind of the recording's data.

    Attributes
    ----------
    treated : what became of what.
    copy : the trace that was, or would be, written.
    secrets : what the original carries beside its events.
    """

    question: ClassVar[str] = "anonymise"

    folder: str
    treated: tuple[Treated, ...]
    copy: Trace
    secrets: Secrets

    def rows(self) -> list[dict[str, Any]]:
        """Return a row each: what, action, count, examples; names of the original stand in it only
        where nothing was written.
        """
        return treated_rows(self.treated, originals=not self.folder)

    def source(self) -> dict[str, Any]:
        """Return entries and credentials of the original; None each where this kind of file could
        not be looked at.
        """
        counts = {"entries": self.secrets.places, "credentials": self.secrets.credentials}
        return {name: value if self.secrets.looked else None for name, value in counts.items()}

    def tables(self) -> dict[str, int]:
        """Return the number of rows of each table of the copy."""
        return {name: frame.height for name, frame in self.copy.tables.items()}

    @property
    def findings(self) -> list[Finding]:
        """Return the flaws of the copy and of the original."""
        return merge(
            [*(f for f in self.copy.findings if f.code == "P183"), *self.secrets.findings()]
        )

    def table(self) -> pl.DataFrame:
        """Return what was kept, hashed, renumbered, shifted and dropped, with its count."""
        return pl.DataFrame(
            [{k: v for k, v in row.items() if k != "examples"} for row in self.rows()],
            infer_schema_length=None,
        )

    def headline(self) -> str:
        """Return where the copy stands, in one line."""
        return (
            f"Copy {self.folder}: {sum(self.tables().values()):,} rows of {len(self.tables())} "
            "tables"
        )


def check_pattern(keep: str | None) -> None:
    """Raise A402 where the text is no regular expression."""
    if keep is None:
        return
    try:
        if len(keep) > _LONGEST_PATTERN:
            raise ValueError(f"{len(keep)} letters, of at most {_LONGEST_PATTERN}")
        kept_kernels(pl.Series([""]), keep)
    except ValueError as error:
        raise error_of(
            "A402", where="--keep", found=f"{clipped(keep)}: {clipped(str(error), 100)}"
        ) from None


def of_run(
    run: Run, folder: str | Path, key: bytes | None = None, keep: str | None = None
) -> Anonymised:
    """Write a run's copy into a new or empty folder, and return what was kept, hashed and dropped;
    `Run.anonymise`.
    """
    check_pattern(keep)
    return copied(
        run.trace,
        folder,
        random.token_bytes(32) if key is None else key,
        keep,
        Secrets(looked=False),
    )


def copied(
    trace: Trace, folder: str | Path | None, key: bytes, keep: str | None, secrets: Secrets
) -> Anonymised:
    """Write a copy of a trace into a folder, or nowhere if the folder is None, and return the
    treatment of each kind of data.
    """
    copy, treated = anonymise(trace, key, stand_in=stand_in, keep=keep)
    if folder is not None:
        with whole_folder(folder, "the copy") as draft:
            copy.to_parquet(draft)
    return Anonymised("" if folder is None else Path(folder).name, tuple(treated), copy, secrets)
