from collections.abc import Callable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

Buffer = NDArray[Any]

__version__: str
__build__: str

class ArrowTable:
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __len__(self) -> int: ...

def parse_toml(
    text: str,
) -> tuple[
    dict[str, Any], dict[tuple[str, ...], tuple[int, int]], dict[tuple[str, ...], tuple[int, int]]
]: ...
def read_kineto(
    path: str | Path,
    *,
    member: str | None = None,
    threads: int = 0,
    progress: Callable[[float], object] | None = None,
) -> dict[str, Any]: ...
def read_nsys(
    path: str | Path, *, threads: int = 0, progress: Callable[[float], object] | None = None
) -> dict[str, Any]: ...
def read_otf2(
    path: str | Path, *, threads: int = 0, progress: Callable[[float], object] | None = None
) -> dict[str, Any]: ...
def numbered(columns: list[Buffer]) -> tuple[bytes, bytes]: ...
def exposed(
    start: Buffer, end: Buffer, level: Buffer, felt: Buffer, tie: Buffer
) -> tuple[bytes, bytes, list[int], bool]: ...
def demangle(names: list[str]) -> list[str]: ...
def student_quantile(freedom: float, p: float) -> float: ...
def student_cdf(freedom: float, value: float) -> float: ...
def f_tail(above: float, below: float, ratio: float) -> float: ...
def beta_quantile(a: float, b: float, p: float) -> float: ...
def gamma_tail(shape: float, value: float) -> float: ...
def run_jobs(
    *,
    arrival: Buffer,
    work: Buffer,
    limit: Buffer,
    parts: Buffer,
    cores: Buffer,
    memory: Buffer,
    gpus: Buffer,
    class_of: Buffer,
    pool: Buffer,
    host_cores: Buffer,
    host_memory: Buffer,
    pool_gpus: Buffer,
    trunk: Buffer,
    classes: list[tuple[float, float, float, float]],
    policy: str,
    depth: int,
    window: tuple[float, float],
    patience: float,
) -> dict[str, Any]: ...
def run_script(sources: list[str], name: str, inputs: list[str], *, memory: int) -> list[str]: ...

class Timeline:
    def __init__(
        self,
        instants: int,
        source: Buffer,
        target: Buffer,
        lag: Buffer,
        parameter: Buffer,
        amount: Buffer,
        second_parameter: Buffer,
        second_amount: Buffer,
        residual: Buffer,
        parameters: int,
    ) -> None: ...
    def recorded(self) -> bytes: ...
    def replayed(self, scenario: Buffer) -> tuple[bytes, bytes]: ...
    def path(self, scenario: Buffer) -> bytes: ...
    def last(self, scenarios: Buffer, *, threads: int) -> bytes: ...
    def last_sparing(self, scenario: Buffer, spared: Buffer) -> float: ...
    def slopes(self, at: Buffer, directions: Buffer, *, threads: int) -> bytes: ...
    def tangents(self, scenarios: Buffer, *, threads: int) -> tuple[bytes, bytes]: ...
    def line(
        self, at: Buffer, direction: Buffer, first: float, last: float, *, limit: int, threads: int
    ) -> tuple[bytes, bytes, bytes, float]: ...
    @property
    def size_bytes(self) -> tuple[int, int]: ...
    @property
    def looks(self) -> tuple[int, int]: ...

def contend(
    *,
    first: Buffer,
    code: Buffer,
    arg: Buffer,
    durations: Buffer,
    resource: Buffer,
    takes: Buffer,
    rank: Buffer,
    capacity: Buffer,
    place: Buffer,
    source: Buffer,
    target: Buffer,
    size: Buffer,
    leaves: Buffer,
    limit: Buffer,
    delay: Buffer,
    start: Buffer,
    end: Buffer,
    shape: str,
    numbers: list[list[int]],
    backbone: tuple[float, int] | None,
    nodes: int,
    bandwidth: float,
    hop: int,
    parts: int,
    wires: list[tuple[int, int, float, int, bool]],
    cards: list[int],
    passes: list[bool],
    logp: tuple[int, int, int, int],
    per_byte: tuple[float, float],
    fidelity: str,
    handshake: bool,
    packing: tuple[int, int, int],
    traced: bool,
    tells: Callable[[float], object] | None,
) -> dict[str, Any]: ...
def routes(
    start: Buffer,
    end: Buffer,
    *,
    shape: str,
    numbers: list[list[int]],
    backbone: tuple[float, int] | None,
    nodes: int,
    parts: int,
    wires: list[tuple[int, int, float, int, bool]],
    cards: list[int],
    passes: list[bool],
) -> tuple[bytes, bytes]: ...
