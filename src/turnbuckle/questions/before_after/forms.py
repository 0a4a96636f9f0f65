"""Forms in which a run is written for other programs, by the names that ``export --to`` takes.

A550  a name with the ending of another form
A450  the library of an archive is not installed
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from turnbuckle.foundation.errors import clipped, error_of, require

To = Literal["json", "goal", "chakra", "otf2"]
#: Forms of several files.
ARCHIVES: Final = ("otf2",)
#: Form by the ending of a file's name; ``.gz`` may stand behind it.
_ENDINGS: Final[dict[str, To]] = {
    ".json": "json",
    ".goal": "goal",
    ".et": "chakra",
    ".otf2": "otf2",
}
#: Endings of tables and documents, which no run is written as.
_OF_ANSWERS: Final = (".csv", ".parquet", ".md", ".tex", ".html", ".xlsx", ".pdf")


def form_of(output: Path | None, to: To | None) -> To:
    """Return the form of a run, before any work: the given one, else that of the ending of the
    output's name.

    Raises
    ------
    UsageError : A550, the ending is another form's, or no form's; A450, no library writes the form
        here.
    """
    ending = ""
    if output is not None:
        endings = [suffix.lower() for suffix in output.suffixes if suffix.lower() != ".gz"]
        ending = endings[-1] if endings else ""
    named = _ENDINGS.get(ending)
    form = to or named or "json"
    if ending in _OF_ANSWERS or named not in (None, form):
        given = f"--to {to} and " if to else ""
        raise error_of(
            "A550.form",
            where="--output",
            found=f"{given}--output {clipped(Path(str(output)).name)}",
        )
    if form in ARCHIVES:
        require("otf2")
    return form
