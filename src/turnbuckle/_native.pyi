from collections.abc import Callable
from pathlib import Path
from typing import Any

__version__: str

class ArrowTable:
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __len__(self) -> int: ...

def read_nsys(path: str | Path, *, threads: int = 0, progress: Callable[[float], object] | None = None) -> dict[str, Any]: ...
