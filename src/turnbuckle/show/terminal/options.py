"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, get_args

from cyclopts import Group, Parameter, Token, convert

from turnbuckle.foundation.errors import clipped, error_of, require
from turnbuckle.foundation.files import goal
from turnbuckle.foundation.units import seconds_of

if TYPE_CHECKING:
    from turnbuckle.machine import Machine
    from turnbuckle.projection.run import Run

    #: What names a machine or a recording; in Python a machine, or a run that was read, stands for
    #: its name as well.
    MachineName: TypeAlias = str | Machine
    Recorded: TypeAlias = Path | Run
else:
    MachineName = str
    Recorded = Path
#: The last panel of a verb's help.
EXPERT: Final = Group("For experts, and to repeat a paper", sort_key=9)
Format = Literal["table", "json", "csv", "parquet", "markdown", "latex", "html", "xlsx"]
FormatOption = Annotated[
    Format,
    Parameter(
        name="--format",
        help="table for people, the others for programs and documents (xlsx needs the extra sheet); "
        "left out, as the ending of --output says",
    ),
]
#: Format of a file by the ending of its name; no verb writes PDF.
_ENDINGS: Final = {
    ".json": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".md": "markdown",
    ".tex": "latex",
    ".html": "html",
    ".htm": "html",
    ".xlsx": "xlsx",
    ".toml": "toml",
    ".pdf": "pdf",
}


def not_rounded(kind: Any, words: Sequence[Token]) -> Any:
    """Convert the words of an option; refuse a fraction where a whole number is asked for, which
    cyclopts rounds.
    """
    for word in words if kind in (int, list[int]) else ():
        if "." in word.value and not float(word.value).is_integer():
            raise ValueError(f"{word.value} is no whole number")
    return convert(kind, words)


def format_of(output: Path | None, given: str | None) -> str:
    """Return the format of an answer, before any work: the given one, else that of the ending of
    the output's name.

    Raises
    ------
    UsageError : A550, both are there and differ, or nothing writes this ending; A450, no library
        writes the format here; A010, neither is there for a file.
    """
    named = None if output is None else _ENDINGS.get(output.suffix.lower())
    format = given or named or "table"
    if (
        output is not None
        and named is not None
        and (format != named or format not in get_args(Format))
    ):
        given_by = f"--format {given} and " if given else ""
        raise error_of(
            "A550.answer", where="--output", found=f"{given_by}--output {clipped(output.name)}"
        )
    if output is not None and format == "table":
        raise error_of("A010", found=f"--output {clipped(output.name)}")
    if format == "xlsx":
        require("sheet")
    return format


def before_work(subject: str, example: str) -> Callable[[object, Path | None], None]:
    """Return a validator of an option: it refuses a file before the question is worked out.

    R001 to R004, a file that cannot be written; A550, a name with the ending of another format than
    `example` has.
    """
    kind = _ENDINGS.get(Path(example).suffix)

    def check(_: object, path: Path | None) -> None:
        if path is None:
            return
        goal(path, subject, example)
        if kind and _ENDINGS.get(path.suffix.lower(), kind) != kind:
            raise error_of(
                "A550.file",
                where="--output",
                found=clipped(path.name),
                subject=subject,
                kind=kind,
                example=example,
            )

    return check


Output = Annotated[
    Path | None,
    Parameter(
        name=["--output", "-o"],
        help="write there instead of to the terminal",
        validator=before_work("the output", "table"),
    ),
]
Charts = Annotated[
    Path | None,
    Parameter(
        name="--charts",
        help="write the figures into this folder as SVG, with the numbers behind them",
    ),
]
Profile = Annotated[
    Path,
    Parameter(
        help="a recording of Nsight Systems (.sqlite, parquetdir), PyTorch, JAX, nvprof, rocprof, "
        "Score-P (.otf2), MPI tracers or turnbuckle record; docs/start.md names all"
    ),
]
Minus = Annotated[
    Path | None,
    Parameter(
        name="--minus",
        help=(
            "a run of the same program, all ranks on one node: what this one copies beyond that "
            "goes to the NIC"
        ),
    ),
]
Source = Annotated[
    MachineName | None,
    Parameter(
        name="--source",
        help="machine it ran on: a name or a TOML file; recognised from the recording if left out",
    ),
]
NoCache = Annotated[
    bool,
    Parameter(
        name="--no-cache",
        group=EXPERT,
        help="read the recording again instead of its cached copy",
        negative=(),
    ),
]


#: What a part of a recording is called.
PART: Final = (
    "auto: all but a start-up of over a tenth, where another machine or distance is asked about; "
    "whole; steady: without start-up; "
    "kernels: first kernel to last; 2s..3s after the first call; step=5-9; nvtx=NAME, and NAME#3 "
    "or NAME#3-5 where it occurs several "
    "times"
)


@Parameter(name="*", group=Group("Part of the recording", sort_key=5))
@dataclass(frozen=True)
class PartOptions:
    """Which part of a recording is meant, and how long it takes without profiler."""

    part: Annotated[str, Parameter(help=f"what is asked about: {PART}")] = "auto"
    rank: Annotated[int | None, Parameter(help="only this rank", converter=not_rounded)] = None
    clean_time: Annotated[
        str | None,
        Parameter(
            help=(
                "run time without profiler, from the first call to the last: the recording is "
                "shortened to it"
            )
        ),
    ] = None

    def asked(self) -> dict[str, Any]:
        """Return the selection as `turnbuckle.projection.run.Run.read` takes it.  Raises A070 for a
        part that is none.
        """
        from turnbuckle.trace.window import Part

        clean = (
            None
            if self.clean_time is None
            else seconds_of(self.clean_time, "--clean-time", "1.03s")
        )
        return {"part": Part.parse(self.part, self.rank), "clean_seconds": clean}

    def given(self) -> dict[str, object]:
        """Return the options of the selection by name, None for each that is left out."""
        return {
            "--part": None if self.part == "auto" else self.part,
            "--rank": self.rank,
            "--clean-time": self.clean_time,
        }

    def idle(self) -> dict[str, bool]:
        """Return whether each option of the selection was given, as
        `turnbuckle.show.terminal.idle_options.refuse_idle` takes it.
        """
        return {name: value is not None for name, value in self.given().items()}


NO_PART = PartOptions()


@dataclass(frozen=True)
class AskedPart(PartOptions):
    """Which part of a recording a question about other machines or distances is about, and what of
    its copies goes on to the network.
    """

    minus: Minus = None

    def given(self) -> dict[str, object]:
        """Return the options of the selection by name, None for each that is left out."""
        return {**super().given(), "--minus": self.minus}


ASKED_PART = AskedPart()

Verbose = Annotated[
    bool,
    Parameter(name=["-v", "--verbose"], negative="", help="say as well what the answer hangs on"),
]


def listed(words: Sequence[str]) -> list[str]:
    """Return the words of an option: `--on a,b --on c` -> [a, b, c]."""
    return [part.strip() for word in words for part in word.split(",") if part.strip()]


def flat(names: Sequence[str] | None) -> list[str] | None:
    """Return `listed`, or None for an option that is left out."""
    return None if names is None else listed(names)


def rank_counts(text: str, fix: str) -> list[int]:
    """Return numbers of ranks: `32,256` -> [32, 256].  Raises A074, with how the option is
    given.
    """
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise error_of("A074.ranks", found=text[:60], fix=fix) from None


def lambdas_of(words: list[str] | None) -> dict[str, float]:
    """Return lambdas by class: `--lambda data=10,control=10` -> {data: 10, control: 10}.  Raises
    A004 for what is no number.
    """
    out: dict[str, float] = {}
    for word in flat(words) or []:
        name, _, value = word.partition("=")
        if name in out:
            raise error_of("A004.twice", found=word, name=name)
        try:
            out[name] = float(value)
        except ValueError:
            raise error_of("A004.number", found=word, name=name) from None
    return out
