"""Files of a time-independent trace: an anchor that names one file for each rank, or one file for
all ranks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from turnbuckle.foundation.errors import TurnbuckleError, clipped, error_of
from turnbuckle.foundation.files import opened
from turnbuckle.trace.readers.parts.packed_text import MARK, Text, beginning, packed

#: Line: its number in the file, and its words.
Line = tuple[int, list[bytes]]
#: Name that SimGrid gives to the file of a rank.
_RANK_FILE: Final = re.compile(rb"_rank-\d+\.txt$")
#: Largest number of ranks of a program.
MOST_RANKS: Final = 1 << 20
#: Actions without an effect on a replay.
SILENT: Final = ("finalize", "comm_size", "comm_split", "comm_dup", "location")
#: Actions of SMPI's replay, and the number of arguments that each requires; those with a count for
#: each rank require more.
_BLOCKS: Final = (
    "reduce",
    "allreduce",
    "scan",
    "exscan",
    "alltoall",
    "gather",
    "scatter",
    "allgather",
)
_VARIED: Final = ("alltoallv", "gatherv", "scatterv", "allgatherv", "reducescatter")
ARGUMENTS: Final = (
    dict.fromkeys(("init", "waitall", "barrier", *SILENT), 0)
    | dict.fromkeys(("compute", "sleep", "bcast"), 1)
    | dict.fromkeys((*_BLOCKS, *_VARIED), 2)
    | dict.fromkeys(("send", "isend", "recv", "irecv", "test", "wait"), 3)
    | {"sendRecv": 4}
)


def sniff(head: bytes, path: Path) -> bool:
    """Return whether a file belongs to a time-independent trace of SimGrid: its anchor, or a file
    with the actions of ranks.

    An action file begins with a rank and an action of SMPI's replay.  An anchor begins with the
    name of an action file.  An anchor whose first file is missing counts too, if SimGrid writes
    such names.  A file that cannot be read does not count.

    Parameters
    ----------
    head : first bytes of the file, unpacked.
    path : the file; files that it names are sought from its folder.
    """
    first = _first_words(head)
    if _begins(first):
        return True
    try:
        place = _beside(path, first[0].decode("utf-8")) if len(first) == 1 else None
        if place is None:
            # An anchor without its files is recognised, so that the error names the missing files.
            return len(first) == 1 and _RANK_FILE.search(first[0]) is not None
        with opened(place) as file:
            begin = file.read(512)
        begin = beginning(begin, place) if packed(begin) else begin.removeprefix(MARK)
        return _begins(_first_words(begin))
    except (OSError, ValueError):
        return False


def _written(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are neither empty nor comments, without the white space around each, and
    their numbers from 1.
    """
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith(b"#"):
            yield number, text


def _first_words(head: bytes) -> list[bytes]:
    """Return the words of the first line; an empty list where there is none."""
    return next((line.split() for _, line in _written(head.split(b"\n"))), [])


def _begins(words: list[bytes]) -> bool:
    """Return whether a line begins with a rank and an action."""
    return (
        len(words) >= 2 and words[0].isdigit() and words[1].decode("ascii", "replace") in ARGUMENTS
    )


def _beside(anchor: Path, name: str) -> Path | None:
    """Return a file that an anchor names: in the place given from the anchor, or in the folder to
    which the traces were moved.
    """
    written = Path(name)
    for place in (anchor.parent / written, anchor.parent / written.parent.name / written.name):
        # A line of another kind of file may be too long for a name, or invalid.
        with suppress(OSError, ValueError):
            if place.is_file():
                return place
    return None


def _files(anchor: Path) -> tuple[list[Path], bool]:
    """Return the file of each rank, and whether all ranks are in one file."""
    rank_paths: list[Path] = []
    for number, line in _written(Text(anchor)):
        if not rank_paths and _begins(line.split()):
            return [anchor], True
        name = line.decode("utf-8", "replace")
        place = _beside(anchor, name)
        if place is None:
            raise error_of(
                "P020.schedule", where=f"{anchor.name}:{number}", found=clipped(Path(name).name)
            )
        rank_paths.append(place)
        if len(rank_paths) > MOST_RANKS:
            raise error_of("P022.many", where=anchor.name, found=f"over {MOST_RANKS:,} ranks")
    return rank_paths, len(rank_paths) == 1


def rank_files(anchor: Path) -> list[Path]:
    """Return the file of each rank; the anchor itself where it holds all ranks.  Raises
    `ProfileError` P020 and P022.
    """
    return _files(anchor)[0]


def _lines(path: Path) -> Iterator[Line]:
    """Yield the words of each line that is neither empty nor a comment."""
    for number, line in _written(Text(path)):
        yield number, line.split()


def _of_one_file(path: Path) -> list[list[Line]]:
    """Return the lines of each rank of a file that holds all ranks."""
    ranks: dict[int, list[Line]] = {}
    for number, words in _lines(path):
        rank = _rank_of(words, path, number)
        ranks.setdefault(rank, []).append((number, words))
    if sorted(ranks) != list(range(len(ranks))):
        missing = next(r for r in range(len(ranks)) if r not in ranks)
        raise _apart(path.name, f"{len(ranks)} ranks, and none of them is rank {missing}")
    return [ranks[r] for r in range(len(ranks))]


def _rank_of(words: list[bytes], path: Path, number: int) -> int:
    """Return the rank with which a line begins."""
    if not words[0].isdigit() or len(words[0]) > 9:
        text = clipped(b" ".join(words[:8]).decode("utf-8", "replace"))
        raise error_of("P021.rank", where=f"{path.name}:{number}", found=text)
    return int(words[0])


def _checked(rank: int, path: Path) -> Iterator[Line]:
    """Yield the lines of the file of one rank, and refuse (P022) those of another."""
    expected = str(rank).encode()
    for number, words in _lines(path):
        if words[0] != expected and _rank_of(words, path, number) != rank:
            raise _apart(
                f"{path.name}:{number}", f"rank {int(words[0])} in the file of rank {rank}"
            )
        yield number, words


def _apart(where: str, evidence: str) -> TurnbuckleError:
    return error_of("P022.order", where=where, found=evidence)


def lines_of_each(path: Path) -> tuple[list[Path], list[Iterator[Line]]]:
    """Return the file of each rank, and the lines of each file with their numbers, as words.
    Raises P020, P021, P022.
    """
    files, together = _files(path)
    if together:
        parts = [iter(lines) for lines in _of_one_file(files[0])]
        return files * len(parts), parts
    if not files:
        raise _apart(path.name, "no rank")
    return files, [_checked(rank, file) for rank, file in enumerate(files)]
