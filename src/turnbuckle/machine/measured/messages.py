"""Messages between ranks and devices: OSU micro-benchmarks, nccl-tests, and the NCCL profiles of
vidur.
"""

from __future__ import annotations

import csv
import re
from typing import Final

from turnbuckle.foundation.errors import clipped, error_of

from .parts import COARSEST, Found, Left, Points, Text, clean, number, points_of, rounding

_ROW = re.compile(r"\s*([0-9]{1,15})\s+([0-9.]{1,15})(?:\s+\S+)*\s*")
_OSU_HEAD = re.compile(r"#\s*OSU\s+(MPI|[NRx]CCL)(\S*)\s+(.*)", re.IGNORECASE)
_OSU_COLUMNS = re.compile(r"#\s*Size\s+(?:Avg\s+)?(Bandwidth|Latency|MB/s|Avg Lat)", re.IGNORECASE)
_OSU_BUFFERS = re.compile(
    r"#\s*Send Buffer on (HOST|DEVICE|MANAGED).*Receive Buffer on (HOST|DEVICE|MANAGED)",
    re.IGNORECASE,
)
_OSU_COMMAND = re.compile(r"\bosu_(?:bw|latency|bibw|mbw_mr|multi_lat)\b")
_OSU_PAIRS = re.compile(r"#\s*\[\s*pairs:\s*([0-9]{1,9})\s*\].*", re.IGNORECASE)
_TWO_NODES = re.compile(
    r"(?:^|\s)(?:-N\s*|--nodes[= ])([0-9]{1,6})\b|(?:^|\s)-(?:ppn|npernode)\s+1\b|inter-?\s?node",
    re.IGNORECASE,
)
_ENDS = {
    "HH": ("h2h", "unknown"),
    "DD": ("p2p", "device"),
    "HD": ("h2d", "unknown"),
    "DH": ("d2h", "unknown"),
}


def osu(file: Text, left: Left) -> Found:
    """Read one measurement per block.  osu_bw keeps 64 messages in flight, so its rate holds no
    latency.
    """
    out = Found()
    title, ends, test, library, pairs, now = "", "", "", "mpi", 1, None
    for line_number, line in enumerate(file.lines(), 1):
        if head := _OSU_HEAD.match(line):
            test, now, pairs, library = head[3].lower(), None, 1, head[1].lower()
            if not ends and library == "mpi" and not head[2].strip("-"):
                ends = "HH"
            elif library != "mpi":
                # collective libraries of devices move memory of devices alone
                ends = "DD"
        elif buffers := _OSU_BUFFERS.match(line):
            ends = (buffers[1][0] + buffers[2][0]).upper().replace("M", "D")
        elif several := _OSU_PAIRS.fullmatch(line):
            pairs = int(several[1])
        elif columns := _OSU_COLUMNS.match(line):
            together = pairs > 1 or ("multi" in test and "multiple bandwidth" not in test)
            if "bi-directional" in test:
                left.out("blocks with both directions at once")
            elif test and not re.search(r"bandwidth|latency", test):
                left.out("blocks of tests that time no single message")
            elif (
                test
                and "collective" not in test
                and re.search(
                    r"all|bcast|broadcast|reduce|gather|scatter|barrier|get|put|acc", test
                )
            ):
                left.out("blocks of collectives and one-sided operations")
            elif ends not in _ENDS:
                raise error_of("A023.buffers", where=f"{file.name}:{line_number}")
            else:
                direction, memory = _ENDS[ends]
                away = file.between_nodes or _between(title)
                timed = columns[1].lower().startswith(("lat", "avg"))
                name = title or f"osu {'latency' if timed else 'bw'} {ends[0]} {ends[1]}"
                name += f", {pairs} pairs" if pairs > 1 else ", several pairs" if together else ""
                route = "several" if together else "network" if away else direction
                now = Points(
                    route,
                    memory,
                    clean(name),
                    streamed=not timed,
                    means="mpi" if library == "mpi" else "nccl",
                )
                out.points.append(now)
            title, ends = "", ""
        elif row := _ROW.fullmatch(line):
            _osu_row(row, now, left, file.name, line_number)
        elif (
            (words := line.split()[-2:])
            and set(words) <= {"H", "D", "M"}
            and _OSU_COMMAND.search(line)
        ):
            ends = "".join(words).replace("M", "D")
            title = title or (clean(line.strip("$ ")) if _between(line) else "")
        elif line.startswith("## ") or re.match(r"#\s+[A-Z]{3}-to-", line):
            title, now = _heading(line), None
        elif line.strip() and not line.startswith("#"):
            if now is not None and line.strip()[:1].isdigit():
                left.out("lines of another form")
            else:
                now = None
    return out


def _heading(line: str) -> str:
    return clean(line.lstrip("# "))


def _between(words: str) -> bool:
    """Return whether a title or a command line says that the ranks are on several nodes."""
    return any(match[1] is None or int(match[1]) > 1 for match in _TWO_NODES.finditer(words))


def _osu_row(
    row: re.Match[str], now: Points | None, left: Left, name: str, line_number: int
) -> None:
    n, coarse = float(row[1]), rounding(number(row[2], name))
    if now is None or n <= 0:
        return
    if re.search(r"\bfail(?:ed)?\s*$", row[0], re.IGNORECASE):
        left.out("lines whose validation failed")
        return
    if coarse > COARSEST:
        left.out("values printed too coarsely to tell a time")
        return
    now.add(
        n, n / (float(row[2]) * 1e6) if now.streamed else float(row[2]) * 1e-6, coarse, line_number
    )


_RANK = re.compile(
    r"#\s+Rank\s+([0-9]{1,7})\s+(?:Group\s+[0-9]+\s+)?Pid\s+[0-9]+\s+on\s+(\S+)\s+device\s+[0-9]+\s+\[[^\]]*\]\s+(\S.*)"
)
_PERF = re.compile(
    r"\b(all_?reduce|all_?gather|reduce_?scatter|broadcast|reduce|all_?to_?all|alltoall|send_?recv|gather|scatter|hypercube)(?:_perf)?\b",
    re.IGNORECASE,
)
_NAMES: Final = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "sendrecv": "sendrecv",
}


def nccl_tests(file: Text, left: Left) -> Found:
    """Read times out of place by size.  The operation stands in newer outputs, else in the name of
    the file, else nowhere.
    """
    out = Found()
    hosts: set[str] = set()
    ranks, operation, points, unit = 0, "", None, 1e-6
    for line_number, line in enumerate(file.lines(), 1):
        if rank := _RANK.match(line):
            ranks, hosts, out.device = (
                max(ranks, int(rank[1]) + 1),
                hosts | {rank[2]},
                out.device or clean(rank[3]),
            )
        elif re.match(r"#\s+size\s+count\b", line):
            # a new table; its operation stands above it, or is the file's
            named = operation or _operation(file.path.stem)
            points = _collective(named, ranks, hosts, file.between_nodes)
            out.points.append(points)
            operation = ""
        elif re.match(r"#\s+\(B\)", line) and (time := re.search(r"\((us|ms|s)\)", line)):
            unit = {"us": 1e-6, "ms": 1e-3, "s": 1.0}[time[1]]
        elif line.startswith("#") or not line.strip()[:1].isdigit():
            match = _PERF.search(line) if "_perf" in line or "Collective" in line else None
            operation = _name(match[1]) if match else operation
            continue
        elif points is not None:
            _nccl_row(line, points, unit, left, file.name, line_number)
    return out


def _operation(stem: str) -> str:
    """Return the operation in a file's name, in any spelling; longer words come before those they
    contain.
    """
    bare = re.sub(r"[^a-z]", "", stem.lower())
    words = (*_NAMES, "broadcast", "reduce", "gather", "scatter")
    return next((_name(word) for word in words if word in bare), "")


def _name(word: str) -> str:
    bare = word.lower().replace("_", "")
    return _NAMES.get(bare, bare)


def _collective(operation: str, ranks: int, hosts: set[str], between_nodes: bool) -> Points:
    among = f"{ranks} ranks" if ranks else "ranks not named"
    if operation == "sendrecv":
        away = between_nodes or len(hosts) > 1
        return Points(
            "network" if away else "p2p", "device", f"NCCL sendrecv, {among}", means="nccl"
        )
    return Points(
        "collective", "device", f"NCCL {operation or 'operation not named'}, {among}", means="nccl"
    )


def _nccl_row(
    line: str, points: Points, unit: float, left: Left, name: str, line_number: int
) -> None:
    """Read a row: size count type [redop] [root] | time algbw busbw wrong | time algbw busbw
    wrong
    """
    cells = line.split()
    figures = cells[2:]
    while figures and not _is_number(figures[0]):
        figures = figures[1:]
    # a root stands before the eight figures; some versions leave the wrong counts, or the second
    # half, out
    if len(figures) % 4 == 1 and len(figures) > 4:
        figures = figures[1:]
    if len(figures) < 3 or not _is_number(cells[0]):
        left.out("lines of another form")
        return
    size, coarse = float(cells[0]), rounding(number(figures[0], name))
    if size <= 0:
        left.out("operations that moved nothing")
    elif coarse > COARSEST:
        left.out("times printed too coarsely")
    else:
        points.add(size, float(figures[0]) * unit, coarse, line_number)


def _is_number(word: str) -> bool:
    return re.fullmatch(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", word) is not None


def vidur(file: Text, left: Left) -> Found:
    """Read CSV with ``time_stats.OP.median`` [ms], ``size`` [B], ``num_workers``,
    ``devices_per_node``: one measurement per combination.
    """
    rows = csv.reader(file.lines())
    heading = [c.strip() for c in next(rows)]
    column = {name: k for k, name in enumerate(heading)}
    timed = next(
        (
            name
            for word in ("median", "mean", "min")
            for name in heading
            if re.fullmatch(rf"time_stats\.\w+\.{word}", name)
        ),
        None,
    )
    if timed is None or "size" not in column:
        raise error_of(
            "A023.columns", where=f"{file.name}:1", found=clipped(", ".join(heading), 60)
        )
    group: dict[tuple[str, ...], Points] = {}
    for line_number, cells in enumerate(rows, 2):
        if not any(c.strip() for c in cells):
            continue
        if len(cells) != len(heading):
            left.out("lines with another number of values than the heading")
            continue
        cell_of = {name: cells[k].strip() for name, k in column.items()}
        if not cell_of[timed] or not _is_number(cell_of[timed]) or not _is_number(cell_of["size"]):
            left.out("lines without a size or a time")
            continue
        operation = _name(cell_of.get("collective") or timed.split(".")[1])
        workers, per_node = cell_of.get("num_workers", ""), cell_of.get("devices_per_node", "")
        away = _is_number(workers) and _is_number(per_node) and float(workers) > float(per_node)
        milliseconds, size = float(cell_of[timed]), float(cell_of["size"])
        # three decimals of a millisecond are printed, however many digits a mean then has
        coarse = 0.0005 / milliseconds if milliseconds > 0 else float("inf")
        if coarse > COARSEST or size <= 0:
            left.out("times too short for their three decimals of a millisecond")
            continue
        single = operation == "sendrecv"
        direction = "network" if single and away else "p2p" if single else "collective"
        name = f"NCCL {operation}, {workers or 'unknown'} ranks, {per_node or 'unknown'} a node"
        points = points_of(group, direction, "device", name)
        points.means = "nccl"
        points.add(size, milliseconds * 1e-3, coarse, line_number)
    return Found(list(group.values()))
