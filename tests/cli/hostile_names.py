"""What a recording may hold that must not come out of it as it is."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

SAMPLE = Path(str(files("turnbuckle") / "examples" / "dgemm-like-synthetic.sqlite"))

#: What the process environment and command line of a recording may hold; none of it may enter any output.
SECRETS = ("hunter2", "SECRET_TOKEN", "nodeofsecrets17", "alice-the-user", "--password=swordfish", "/home/alice-the-user/run.sh")
#: Escape sequences, markup, direction marks and length, as a kernel name may have them.
EVIL = "\x1b[31mRED\x1b[0m\x07\x9b1m\u202e [red]markup[/red] [/] </script><img src=x onerror=alert(1)>\r\n" + "x" * 5_000


@dataclass(frozen=True)
class Ran:
    """What one command line came to."""

    code: int
    out: str
    err: str
