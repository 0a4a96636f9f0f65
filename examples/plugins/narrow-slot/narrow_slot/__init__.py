"""The machines of one site: files beside this one join Turnbuckle's catalogue."""

from pathlib import Path


def folder() -> Path:
    """Return the folder of the machine files."""
    return Path(__file__).parent / "machines"
