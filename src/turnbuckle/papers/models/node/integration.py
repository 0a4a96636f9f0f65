"""GPU-GPU integration on shares of a table or of the command line (Austin et al. 2021, sections 8.1
and 8.2).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.table_file import Column, read_table
from turnbuckle.papers.models.node.application_table import (
    MOST_RATIO,
    application_name,
    cell_reader,
    refuse_empty,
    share,
)
from turnbuckle.papers.models.node.cost import (
    Staged,
    all_on_node,
    fraction_speedup,
    gain,
    staged_share,
)
from turnbuckle.papers.numbers import Interval, swept


def integration_rows(path: Path, ratio: float | None) -> list[dict[str, Any]]:
    """Apply section 8.1 to each application of a table: columns communication, p2p, off node [%],
    optionally bandwidth ratio.
    """
    columns = [
        Column("name", "", needed=False),
        *(Column(n, "1", most=1.0) for n in ("communication", "p2p", "off node")),
    ]
    columns.append(Column("bandwidth ratio", "1", needed=False, above=True, most=MOST_RATIO))
    table = read_table(path, columns, "the table of applications")
    refuse_empty(table)
    cell = cell_reader(path, table, columns)
    rows = []
    for i in range(len(table)):
        row_ratio = float(table.number("bandwidth ratio")[i])
        k = row_ratio if not math.isnan(row_ratio) else ratio
        if k is None:
            raise error_of("A035.ratio", where=table.where(i))
        rows.append(
            {
                "name": application_name(table, i),
                **by_fractions(cell(i, "communication"), cell(i, "p2p"), cell(i, "off node"), k),
            }
        )
    return rows


def by_fractions(
    communication: Interval, p2p: Interval, off_node: Interval, ratio: float
) -> dict[str, Any]:
    """Apply section 8.1 to three shares: the speed-up within their digits, and its bound for a path
    that costs nothing.
    """
    interval = swept(
        lambda c, p, o: float(fraction_speedup(c, p, o, ratio)), communication, p2p, off_node
    )
    bound = float(fraction_speedup(communication.value, p2p.value, off_node.value, math.inf))
    stated = {
        "communication_share": communication.value,
        "p2p_share": p2p.value,
        "off_node_share": off_node.value,
    }
    speedups = {
        "speedup": interval.value,
        "speedup_low": interval.low,
        "speedup_high": interval.high,
        "speedup_bound": bound,
    }
    return {**stated, "bandwidth_ratio": ratio, **speedups}


def staged(words: Sequence[str]) -> list[tuple[Interval, int, int]]:
    """Read ``5.8%:3/4``: a share of run time, its stages on the node, and its stages in all.

    Raises A038 for any other text; A036 for a share outside 0 to 100 %.
    """
    out = []
    for word in (part.strip() for text in words for part in text.split(",") if part.strip()):
        match = re.fullmatch(r"([^:]+):([0-9]{1,4})/([0-9]{1,4})", word)
        if match is None or int(match[3]) < 1 or int(match[2]) > int(match[3]):
            raise error_of("A038.form", found=word[:40])
        out.append((share(match[1], "--stages"), int(match[2]), int(match[3])))
    if sum(s.value for s, _, _ in out) > 1:
        raise error_of("A036.stages", found=", ".join(words)[:80])
    if not out:
        raise error_of("A038.empty")
    return out


def by_stages(parts: Sequence[tuple[Interval, int, int]], factor: float) -> dict[str, Any]:
    """Apply section 8.2 to shares with stages: the run time on the faster node, its gain, and the
    gain with all stages on the node.
    """

    def now(shares: Sequence[float]) -> list[Staged]:
        return [Staged(s, on, of) for s, (_, on, of) in zip(shares, parts, strict=True)]

    shares = [s for s, _, _ in parts]
    then = swept(lambda *s: staged_share(now(s), factor), *shares)
    everything = swept(lambda *s: staged_share(all_on_node(now(s)), factor), *shares)
    stages = [{"share": s.value, "on_node": on, "stages": of} for s, on, of in parts]
    times = {
        "run_time_share": then.value,
        "run_time_share_low": max(then.low, 0.0),
        "run_time_share_high": then.high,
    }
    whole = {
        "run_time_share_all_on_node": everything.value,
        "gain_all_on_node": float(gain(then.value, everything.value)),
    }
    return {
        "on_node_factor": factor,
        "parts": stages,
        **times,
        "gain": float(gain(1.0, then.value)),
        **whole,
    }
