"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

Format = Literal["table", "json", "csv", "parquet"]
FormatOption = Annotated[Format, Parameter(name="--format", help="table for people, json for programs (stable), csv or parquet")]
Output = Annotated[Path | None, Parameter(name=["--output", "-o"], help="write there instead of to the terminal")]
Charts = Annotated[Path | None, Parameter(name="--charts", help="write the figures into this folder as SVG, with the numbers behind them")]
Source = Annotated[
    str | None, Parameter(name="--source", help="machine it ran on: a name or a TOML file; recognised from the recording if left out")
]
NoCache = Annotated[bool, Parameter(name="--no-cache", help="read the recording again instead of its Parquet copy", negative=())]
