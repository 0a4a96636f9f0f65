"""Times that others published of programs through layers of which nobody published a recording,
beside what the catalogue's entries of those layers give.

    python validation/remoting/published.py              # prints the rows
    python validation/remoting/published.py TABLE.csv    # writes them

No recording of these programs is public, so no timeline is asked: the time without the layer, and
for each call that waits a round trip, for each that is sent its command, and the bytes over the
bandwidth, as `turnbuckle.cost.remoting` prices them.  A range draws the entry's numbers.  Of calls
whose kind is not stated none waits, and up to all of them in the range.  The table is that of
docs/models/remoting.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from turnbuckle.cost.remoting import SENT, WAITS, call_seconds, data_seconds, size_seconds
from turnbuckle.foundation.arrays import Float
from turnbuckle.machine import Pair, load
from turnbuckle.machine.parameter_names import ParameterName
from turnbuckle.projection.elsewhere.drawn import drawn_source
from turnbuckle.projection.elsewhere.priors import Draws

DRAWS, SEED, LEVEL = 4000, 20261121, 0.90
MIB: Final = 1 << 20
#: What `blocked_potrf` copies: 400 matrices of 512 x 512 in FP64, their triangles, and how often
#: the inputs go to the device, as far as is stated ("several", five copies in the profile).
MATRICES, TRIANGLES, INPUTS = 800 * MIB, 401 * MIB, 5
PAGE = "lupinemachines/lupine, test/cuda-library-samples/performance.md"
SMALL = "lupinemachines/lupine pull request 839"
RCUDA = "rCUDA, Connect-IB performance"


@dataclass(frozen=True)
class Program:
    """One published time of a program through a layer.

    Attributes
    ----------
    layer : the machine of the catalogue.
    name, source : of the program, and who timed it.
    measured, alone : its time through the layer and without [s]; 0 where the time without was not
        stated, so that the layer's share alone stands here.
    waits, sends, either : calls that wait, calls that are sent, and those of which it is not stated.
    to_device, to_host : bytes of its copies.
    chosen : which numbers of the entry come from this row; empty where it judges.
    """

    layer: str
    name: str
    source: str
    measured: float
    alone: float
    waits: int
    sends: int = 0
    either: int = 0
    to_device: float = 0.0
    to_host: float = 0.0
    chosen: str = ""


def potrf(
    layer: str, reads: int, measured: float, alone: float, requests: int, chosen: str
) -> Program:
    """Return a run of blocked_potrf: its reads one row of a triangle each, or one matrix each."""
    matrices = TRIANGLES if reads > 1000 else MATRICES
    return Program(
        layer,
        f"blocked_potrf, {reads:,} reads",
        PAGE,
        measured,
        alone,
        requests,
        to_device=INPUTS * MATRICES,
        to_host=matrices + MATRICES,
        chosen=chosen,
    )


def syevd(layer: str, measured: float, chosen: str = "") -> Program:
    """Return a run of MgSyevd's first example: 85,693 requests, of which three kinds that wait are
    counted.
    """
    waits = 16_104 + 2_572 + 1_896
    return Program(
        layer,
        "MgSyevd, example 1",
        PAGE,
        measured,
        0.71,
        waits,
        either=85_693 - waits,
        chosen=chosen,
    )


PROGRAMS: Final = (
    potrf("lupine-network", 204_803, 110.15, 6.22, 205_119, ""),
    potrf("lupine-network", 403, 23.38, 5.31, 1_119, "bandwidth"),
    syevd("lupine-network", 11.91, "round trip"),
    Program(
        "lupine-network",
        "200,000 blocking writes of 0.5 and 1 KiB",
        SMALL,
        77.774,
        0.0,
        200_000,
        to_device=200_000 * 768.0,
    ),
    Program(
        "lupine-network",
        "cuFFTDx mixed precision, its 2,752,512 blocking writes (bytes not stated)",
        SMALL,
        1163.8,
        0.0,
        2_752_512,
    ),
    potrf("lupine-loopback", 204_803, 17.65, 6.22, 205_119, "round trip"),
    potrf("lupine-loopback", 403, 9.28, 5.31, 1_119, "round trip"),
    syevd("lupine-loopback", 2.16),
)


def asked(layer: str, draws: Draws) -> Callable[[ParameterName], Float]:
    """Return the numbers of a layer by name, drawn, on a GPU of the runs' kind."""
    target = Pair(load("rtx4090"), load(layer)).target
    numbers = drawn_source(target, draws) if draws.draws else target

    def number(name: ParameterName) -> Float:
        value = numbers.value(name)
        assert value is not None, (layer, name)
        return np.asarray(value, dtype=np.float64)

    return number


def seconds(program: Program, draws: Draws, share: Float) -> Float:
    """Return the time of a program through its layer [s], with a share of the calls of unstated
    kind that wait.
    """
    number = asked(program.layer, draws)
    there, back = number("remoting.h2d.bandwidth"), number("remoting.d2h.bandwidth")
    trip = number("remoting.round_trip")
    command = number("remoting.command") + size_seconds(number("remoting.command_bytes"), there)
    answer = size_seconds(number("remoting.answer_bytes"), back)
    waiting = program.waits + share * program.either
    sent = program.sends + (1.0 - share) * program.either
    calls = waiting * call_seconds(WAITS, trip, command, answer)
    calls = calls + sent * call_seconds(SENT, trip, command, answer)
    data = data_seconds(np.array(program.to_device), there, 0.0)
    data = data + data_seconds(np.array(program.to_host), back, 0.0)
    return np.asarray(program.alone + calls + data)


def row(program: Program) -> dict[str, object]:
    """Return a published time beside what the entry gives, with its range [s]."""
    shares = np.random.default_rng(SEED).random((DRAWS, 1))
    many = seconds(program, Draws(DRAWS, SEED), shares)
    said = float(np.squeeze(seconds(program, Draws(), np.zeros(()))))
    low, high = np.quantile(many, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])
    return {
        "layer": program.layer,
        "program": program.name,
        "without_s": program.alone or None,
        "measured_s": program.measured,
        "said_s": said,
        "low_s": min(float(low), said),
        "high_s": float(high),
        "off": said / program.measured - 1.0,
        "chosen_on": program.chosen,
        "source": program.source,
    }


def table(programs: Sequence[Program] = PROGRAMS) -> pl.DataFrame:
    """Return all rows."""
    rows = pl.DataFrame([row(program) for program in programs])
    return rows.with_columns(pl.col(pl.Float64).round_sig_figs(4))


def main() -> None:
    """Print the rows, or write them."""
    rows = table()
    if len(sys.argv) > 1:
        rows.write_csv(sys.argv[1])
        return
    with pl.Config(tbl_rows=-1, tbl_cols=-1, fmt_str_lengths=40, tbl_width_chars=160):
        print(rows.drop("source"))


if __name__ == "__main__":
    main()
