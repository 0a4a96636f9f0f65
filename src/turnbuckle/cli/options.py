"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from turnbuckle.errors import UsageError

Format = Literal["table", "json", "csv", "parquet"]
FormatOption = Annotated[Format, Parameter(name="--format", help="table for people, json for programs (stable), csv or parquet")]
Output = Annotated[Path | None, Parameter(name=["--output", "-o"], help="write there instead of to the terminal")]
Charts = Annotated[Path | None, Parameter(name="--charts", help="write the figures into this folder as SVG, with the numbers behind them")]
Source = Annotated[
    str | None, Parameter(name="--source", help="machine it ran on: a name or a TOML file; recognised from the recording if left out")
]
NoCache = Annotated[bool, Parameter(name="--no-cache", help="read the recording again instead of its Parquet copy", negative=())]


def flat(names: Sequence[str] | None) -> list[str] | None:
    """`--on a,b --on c` -> [a, b, c]."""
    return None if names is None else [part.strip() for name in names for part in name.split(",") if part.strip()]


def lambdas_of(words: list[str] | None) -> dict[str, float]:
    """`--lambda data=10,control=10` -> {data: 10, control: 10}.  Raises A004 for what is no number."""
    out: dict[str, float] = {}
    for word in flat(words) or []:
        name, _, value = word.partition("=")
        if name in out:
            raise UsageError("A004", f"lambda of {name} is given twice", found=word, fix="give each class once")
        try:
            out[name] = float(value)
        except ValueError:
            raise UsageError("A004", f"lambda of {name} is no number", found=word, fix=f"--lambda {name}=10") from None
    return out
