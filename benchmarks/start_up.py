"""How long the command takes to say its help and to inspect the shipped sample, each in a fresh process."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.resources import files

CALL = "import sys; from turnbuckle.cli import main; sys.exit(main())"
SAMPLE = str(files("turnbuckle") / "examples" / "milc-like-synthetic.sqlite")
COMMANDS = {"--help": ["--help"], "inspect of the sample": ["inspect", SAMPLE]}


def measure(rounds: int) -> dict[str, dict[str, object]]:
    """Wall seconds of every command, `rounds` times after one that is not counted; or why there are none."""
    out: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, XDG_CACHE_HOME=folder, NO_COLOR="1")
        for name, words in COMMANDS.items():
            seconds = []
            for _ in range(rounds + 1):
                began = time.perf_counter()
                done = subprocess.run([sys.executable, "-c", CALL, *words], capture_output=True, env=environment, check=False)
                seconds.append(time.perf_counter() - began)
                if done.returncode:
                    lines = done.stderr.decode(errors="replace").strip().splitlines()
                    out[name] = {"missing": lines[-1][:160] if lines else f"exit {done.returncode}"}
                    break
            else:
                out[name] = {"seconds": seconds[1:], "median": statistics.median(seconds[1:])}
    return out
